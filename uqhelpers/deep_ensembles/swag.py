"""Below ``deep_ensembles``: a Gaussian from the path of stochastic gradient descent, around one optimum."""

import copy

import numpy as np

from uqhelpers import training
from uqhelpers._checks import as_number, as_whole
from uqhelpers._progress import bar
from uqhelpers._torch import as_module, torch
from uqhelpers.batches import gather
from uqhelpers.deep_ensembles.paths import has_batch_norm, recompute_batch_norm
from uqhelpers.metrics import SampleAccumulator


class Swag:
    """SWA-Gaussian: mean and covariance of the weights that SGD walks through near an optimum.

    Each snapshot of the weights enters a running mean, a running mean of
    squares, and, for the last ``rank`` of them, its deviation from the mean at
    that time. A sampled network has the weights
    ``mean + sqrt(scale) (σ z₁ / √2 + D z₂ / √(2 (rank - 1)))``: one half of
    the covariance is diagonal, the other one of low rank.

    Parameters
    ----------
    network : torch.nn.Module
        A trained network. It is copied, never changed.
    rank : int
        How many deviations are kept, at least 2: memory is that of ``rank + 2``
        networks.

    Attributes
    ----------
    snapshots : int
        How many went in.

    Examples
    --------
    >>> swag = Swag(net).fit(images, labels, epochs=20)
    >>> probs = swag.sample(new_images, samples=30)

    References
    ----------
    Maddox et al. (2019), A simple baseline for Bayesian uncertainty in deep
    learning, algorithm 1 and section 3.
    """

    def __init__(self, network, rank=20):
        if next(as_module(network, "network").parameters(), None) is None:
            raise ValueError(f"network: expected one with weights, got {type(network).__name__} without any")
        self.rank = as_whole(rank, "rank", low=2)
        self.snapshots = 0
        self._network = copy.deepcopy(network).eval()
        self._inputs = None
        self._mean = self._squares = None
        self._deviations = []

    def collect(self, network):
        """Take in the present weights of a network.

        Parameters
        ----------
        network : torch.nn.Module
            Of the same architecture.

        Returns
        -------
        Swag, itself

        Raises
        ------
        ValueError
            If the network has other weights, or some are not finite.
        """
        as_module(network, "network")
        shapes = [value.shape for value in self._network.parameters()]
        if [value.shape for value in network.parameters()] != shapes:
            raise ValueError("network: expected the architecture that Swag was made with, got another one")
        # In double precision: a mean of squares minus the square of a mean cancels.
        weights = torch.cat([value.detach().flatten().double().cpu() for value in network.parameters()])
        if not torch.isfinite(weights).all():
            raise ValueError("network: expected finite weights, got NaN or infinity")
        if self._mean is None:
            self._mean, self._squares = torch.zeros_like(weights), torch.zeros_like(weights)
        self.snapshots += 1
        self._mean = self._mean + (weights - self._mean) / self.snapshots
        self._squares = self._squares + (weights.square() - self._squares) / self.snapshots
        self._deviations = [*self._deviations, weights - self._mean][-self.rank :]
        return self

    def fit(
        self,
        inputs,
        targets=None,
        epochs=20,
        learning_rate=0.05,
        batch_size=128,
        loss="cross_entropy",
        weight_decay=0.0,
        seed=0,
        device=None,
        progress=True,
    ):
        """Run SGD at a constant rate from the trained network, and take in its weights after each epoch.

        Parameters
        ----------
        inputs, targets, batch_size, loss, weight_decay, seed, device
            As for ``training.fit``; a ``DataLoader`` is gone through once.
        epochs : int
            Epochs, and so snapshots, at least 2.
        learning_rate : float
            Constant, and high enough to move: a rate that is too low samples a
            point.
        progress : bool, whether a bar shows long work

        Returns
        -------
        Swag
            Itself. A second call goes on with what is there.

        Raises
        ------
        ValueError
            If the loss stops being finite.
        """
        epochs, seed = as_whole(epochs, "epochs", low=2), as_whole(seed, "seed", low=0)
        inputs, targets = gather(inputs, targets)
        walker, before = copy.deepcopy(self._network), dict(self.__dict__)
        try:
            for epoch in bar(range(epochs), progress, desc="walking", unit="epoch"):
                training.fit(
                    walker,
                    inputs,
                    targets,
                    epochs=1,
                    batch_size=batch_size,
                    learning_rate=learning_rate,
                    weight_decay=weight_decay,
                    optimiser="sgd",
                    loss=loss,
                    seed=seed * 100_003 + epoch,  # another order every epoch, other ones for other seeds
                    device=device,
                    progress=False,
                )
                self.collect(walker)
        except BaseException:  # an interruption, too: half a walk is no second call's beginning
            self.__dict__.update(before)
            raise
        if has_batch_norm(self._network):  # for whose averages they will be asked; the caller's may change
            self._inputs = training.as_inputs(inputs, self._network).clone()
        return self

    def mean_network(self, train_inputs=None):
        """The network with the averaged weights: stochastic weight averaging.

        Parameters
        ----------
        train_inputs : array, shape (N, ...), optional
            For batch normalisation; by default those of ``fit``.

        Returns
        -------
        torch.nn.Module, new and in evaluation mode

        Raises
        ------
        ValueError
            If nothing was taken in, or batch normalisation has no inputs.
        """
        self._collected(1)
        return self._built(self._mean, self._inputs_for_norm(train_inputs))

    def sample_networks(self, samples=30, seed=0, scale=1.0, train_inputs=None):
        """Networks drawn from the Gaussian, one after the other.

        Parameters
        ----------
        samples : int
            Number of networks, ``S``.
        seed : int
            The same seed gives the same networks.
        scale : float
            What the covariance is multiplied with; 0 gives the mean.
        train_inputs : array, shape (N, ...), optional
            For batch normalisation; by default those of ``fit``.

        Returns
        -------
        iterator of torch.nn.Module
            New networks, in evaluation mode.

        Raises
        ------
        ValueError
            If fewer than two snapshots were taken in, or batch normalisation
            has no inputs.
        """
        samples = as_whole(samples, "samples")
        spread = as_number(scale, "scale", low=0) ** 0.5
        generator = torch.Generator().manual_seed(as_whole(seed, "seed", low=0))
        self._collected(2)
        inputs = self._inputs_for_norm(train_inputs)
        std = (self._squares - self._mean.square()).clamp(min=0).sqrt()
        deviations = torch.stack(self._deviations)
        count = len(deviations)

        def draw():
            alone = torch.randn(len(std), generator=generator, dtype=torch.float64)
            together = torch.randn(count, generator=generator, dtype=torch.float64)
            change = std * alone / 2**0.5 + together @ deviations / (2 * (count - 1)) ** 0.5
            return self._built(self._mean + spread * change, inputs)

        return (draw() for _ in range(samples))

    def sample(self, inputs, samples=30, seed=0, scale=1.0, train_inputs=None, batch_size=500):
        """Class probabilities of sampled networks.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        samples, seed, scale, train_inputs
            As for :meth:`sample_networks`.
        batch_size : int, inputs at a time

        Returns
        -------
        array of probabilities, shape (S, N, C), float64
        """
        networks = self.sample_networks(samples, seed, scale, train_inputs)
        return np.stack([training.predict(network, inputs, batch_size) for network in networks])

    def predict(self, inputs, samples=30, seed=0, scale=1.0, train_inputs=None, batch_size=500):
        """The averaged prediction, with its uncertainties; memory does not grow with ``samples``.

        Parameters are those of :meth:`sample`.

        Returns
        -------
        uqhelpers.metrics.SampledDecomposition
        """
        accumulator = SampleAccumulator()
        for network in self.sample_networks(samples, seed, scale, train_inputs):
            accumulator.add(training.predict(network, inputs, batch_size))
        return accumulator.result()

    def _collected(self, least):
        if self.snapshots < least:
            raise ValueError(f"collect: expected at least {least} snapshot(s), got {self.snapshots}")

    def _inputs_for_norm(self, train_inputs):
        inputs = self._inputs if train_inputs is None else train_inputs
        if inputs is None and has_batch_norm(self._network):
            raise ValueError("train_inputs: expected training inputs for batch normalisation, got None")
        return inputs

    def _built(self, weights, inputs):
        network, start = copy.deepcopy(self._network), 0
        with torch.no_grad():
            for value in network.parameters():
                part = weights[start : start + value.numel()]
                value.copy_(part.reshape(value.shape))
                start += value.numel()
        if inputs is not None:
            recompute_batch_norm(network, inputs)
        return network.eval()
