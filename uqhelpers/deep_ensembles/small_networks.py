"""Ensembles of small networks in JAX, all members in one training: for regression and classification."""

import inspect

import numpy as np

from uqhelpers._checks import as_choice, as_labels, as_real, as_whole
from uqhelpers.batches import gather
from uqhelpers.deep_ensembles.ensemble import _Ensemble, centre_and_scale
from uqhelpers.deep_ensembles.mixture import PROBABILISTIC, MemberPredictions, mixture_moments, mixture_nll
from uqhelpers.metrics import SampleAccumulator

LIKELIHOODS = ("gaussian", "laplace", "mse", "l1")


class RegressionEnsemble(_Ensemble):
    """An ensemble of small networks for regression, trained all at once in JAX.

    Full-batch (or minibatch) Adam. With the likelihoods "gaussian" and
    "laplace" each network has two outputs a target: the location, and ρ with
    ``scale = softplus(ρ) + 1e-6``.

    Parameters
    ----------
    hidden : sequence of int
        Width of each hidden layer.
    members : int
        Number of networks, ``M``.
    likelihood : {"gaussian", "laplace", "mse", "l1"}
        The loss. The last two have no scale, and no aleatoric uncertainty.
    epochs : int
        Passes over the data; with full batches, steps.
    batch_size : int, optional
        Inputs a step, drawn anew for each member and epoch; what does not fill
        a batch is left out of that epoch. None: all inputs.
    learning_rate : float
        Of Adam.
    schedule : {"constant", "cosine"}
        What becomes of the rate: nothing, or half a cosine down to 0.
    activation : {"relu", "tanh", "gelu"}
        Between the layers.
    init : "he", float, sequence of float, or callable
        "he": weights N(0, 2 / inputs of the layer), biases 0. A number: weights
        and biases N(0, init²). A sequence: such a number for each member. A
        callable gets ``(rng, inputs, outputs)``, the first a NumPy generator,
        and returns ``(weight, bias)`` of a layer, shapes (inputs, outputs) and
        (outputs,).
    weight_decay : float
        What the penalty is multiplied with.
    penalty : {"squared", "norm"} or callable
        "squared": half the sum of squares, which is what ``weight_decay``
        means to torch's Adam. "norm": the L2 norm itself, not squared. Both
        take the biases in. A callable gets the network, a list of
        ``(weight, bias)``, and returns a number.
    adversarial : {None, "gradient_sign", "virtual"}
        "gradient_sign": the loss is averaged with that of the inputs moved
        against their targets. "virtual": the divergence of the prediction under
        the worst small change is added; it asks for no targets.
    epsilon : float or array, shape (D,)
        How far the inputs are moved, in the units of the inputs: each
        coordinate by so much for "gradient_sign", the length of the change for
        "virtual". At 0 an attack changes nothing; without one nothing else is
        taken.
    bootstrap : bool
        Whether each member sees its own resample of the data. Different
        initial weights do more for diversity, and leave each member all data.
    standardise : bool
        Whether inputs and targets are brought to mean 0 and standard deviation
        1 inside. Whatever comes out is in the units of the targets.
    seed : int
        Every member has a random stream of its own: the first three of five
        are those of an ensemble of three.

    Attributes
    ----------
    history : EnsembleHistory or None
        Losses by member and epoch.

    Examples
    --------
    >>> ensemble = RegressionEnsemble(hidden=(10, 6, 30), members=6).fit(x, y)
    >>> prediction = ensemble.predict(grid)
    >>> prediction.mean, prediction.aleatoric, prediction.epistemic

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable
    predictive uncertainty estimation using deep ensembles.
    """

    _likelihoods = LIKELIHOODS
    between, subset = _Ensemble.between, _Ensemble.subset  # here, so that the API page shows them

    def fit(self, inputs, targets=None):
        """Train all members.

        Parameters
        ----------
        inputs : array, shape (N, D), or a loader of pairs, which is gone through once
        targets : array, shape (N,) or (N, K)
            With ``K`` targets the loss is averaged over them, too. A loader
            brings its own.

        Returns
        -------
        RegressionEnsemble, itself
        """
        inputs, targets = gather(inputs, targets)
        with self._as_it_was_on_failure():
            inputs = self._learn_inputs(inputs)
            targets = as_real(targets, "targets")
            if targets.ndim not in (1, 2) or len(targets) != len(inputs):
                raise ValueError(
                    f"targets: expected shape ({len(inputs)},) or ({len(inputs)}, K), got {targets.shape}"
                )
            self._flat, table = targets.ndim == 1, targets.reshape(len(targets), -1)
            self._target_mean, self._target_std = np.zeros(table.shape[1]), np.ones(table.shape[1])
            if self.standardise:
                self._target_mean, self._target_std = centre_and_scale(table)
            table = ((table - self._target_mean) / self._target_std).astype(np.float32)
            heads = 2 if self.likelihood in PROBABILISTIC else 1
            return self._train(inputs, table, heads * table.shape[1])

    def _in_target_units(self, data_loss):
        if self.likelihood in PROBABILISTIC:
            return data_loss + np.log(self._target_std).mean()
        # Of several targets only the average was kept; with one this is exact.
        factor = self._target_std.mean() if self.likelihood == "l1" else np.square(self._target_std).mean()
        return data_loss * factor

    def sample_members(self, inputs):
        """What each member predicts.

        Parameters
        ----------
        inputs : array, shape (N, D), or a loader that keeps their order

        Returns
        -------
        MemberPredictions
            Locations and scales, each of shape (M, N) or (M, N, K) like the
            targets in ``fit``; no scales (None) for "mse" and "l1".
        """
        outputs = self._outputs(inputs)
        count = len(self._target_mean)
        locations = outputs[..., :count] * self._target_std + self._target_mean
        scales = None
        if self.likelihood in PROBABILISTIC:
            scales = (np.logaddexp(0, outputs[..., count:]) + 1e-6) * self._target_std
        if self._flat:
            locations, scales = locations[..., 0], None if scales is None else scales[..., 0]
        return MemberPredictions(locations, scales)

    def predict(self, inputs):
        """Mean and standard deviations of the mixture of all members.

        Parameters are those of :meth:`sample_members`.

        Returns
        -------
        MixturePrediction
            In the units and the shape of the targets.
        """
        likelihood = self.likelihood if self.likelihood in PROBABILISTIC else "gaussian"
        return mixture_moments(*self.sample_members(inputs), likelihood)

    def nll(self, inputs, targets):
        """Average negative log-likelihood of targets under the mixture, in nats.

        Parameters
        ----------
        inputs : array, shape (N, D), or iterable of batches
        targets : array, shape (N,) or (N, K)

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the members have no scale.
        """
        return mixture_nll(*self._with_scales(inputs), targets, self.likelihood)

    def member_nll(self, inputs, targets):
        """Average negative log-likelihood of targets under each member alone, in nats.

        Parameters are those of :meth:`nll`.

        Returns
        -------
        array, shape (M,)
        """
        locations, scales = self._with_scales(inputs)
        pairs = zip(locations, scales, strict=True)
        return np.array(
            [mixture_nll(place[None], scale[None], targets, self.likelihood) for place, scale in pairs]
        )

    def _with_scales(self, inputs):
        if self.likelihood not in PROBABILISTIC:
            raise ValueError(f"likelihood: expected one with a scale, got {self.likelihood!r}")
        return self.sample_members(inputs)


class ClassificationEnsemble(_Ensemble):
    """An ensemble of small networks for classification, trained all at once in JAX.

    Cross-entropy, summed over the classes and averaged over the examples.

    Parameters
    ----------
    hidden, members
        As in :class:`RegressionEnsemble`, and so all others; there is no
        ``likelihood``, and only inputs are standardised.

    Attributes
    ----------
    history : EnsembleHistory or None
        Losses and accuracies by member and epoch.

    Examples
    --------
    >>> ensemble = ClassificationEnsemble(hidden=(64, 64)).fit(x, labels)
    >>> ensemble.sample(grid)  # shape (5, N, C)
    """

    _likelihoods = ("categorical",)
    between, subset = _Ensemble.between, _Ensemble.subset  # here, so that the API page shows them

    # That of every ensemble, without the likelihood.
    __signature__ = inspect.signature(_Ensemble).replace(
        parameters=[
            parameter
            for name, parameter in inspect.signature(_Ensemble).parameters.items()
            if name != "likelihood"
        ]
    )

    def __init__(self, hidden=(64, 64), members=5, **settings):
        super().__init__(hidden, members, "categorical", **settings)

    def fit(self, inputs, labels=None, classes=None):
        """Train all members.

        Parameters
        ----------
        inputs : array, shape (N, D), or a loader of pairs
        labels : array of int, shape (N,), from 0; a loader brings its own
        classes : int, optional
            How many there are; one more than the largest label unless told.

        Returns
        -------
        ClassificationEnsemble, itself
        """
        inputs, labels = gather(inputs, labels)
        with self._as_it_was_on_failure():
            inputs = self._learn_inputs(inputs)
            most = 2**31 - 1 if classes is None else as_whole(classes, "classes", low=2)
            labels = as_labels(labels, most, length=len(inputs))
            classes = max(2, int(labels.max()) + 1) if classes is None else most
            return self._train(inputs, labels.astype(np.int32), classes)

    def sample(self, inputs):
        """Class probabilities of each member.

        Parameters
        ----------
        inputs : array, shape (N, D), or a loader

        Returns
        -------
        array of probabilities, shape (M, N, C), float64
        """
        from scipy.special import softmax

        return softmax(self._outputs(inputs), axis=-1)

    def predict(self, inputs):
        """The averaged prediction, with its uncertainties.

        Parameters are those of :meth:`sample`.

        Returns
        -------
        uqhelpers.metrics.SampledDecomposition
        """
        return SampleAccumulator().add(self.sample(inputs)).result()
