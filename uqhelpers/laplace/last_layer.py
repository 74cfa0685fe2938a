"""The posterior of the last linear layer."""

import numpy as np
from scipy.special import log_softmax, softmax

from uqhelpers._checks import as_choice, as_generator, as_labels, as_number, as_real, as_whole
from uqhelpers._torch import as_module, torch
from uqhelpers.batches import gather
from uqhelpers.laplace.curvature import (
    add_softmax_information,
    batches,
    expect_classes,
    noise_of,
    refuse_shared,
    targets_of,
    to_doubles,
    torch_order,
)
from uqhelpers.laplace.gaussian import LIKELIHOODS, LastLayerGaussian
from uqhelpers.laplace.logits import pairwise_probit, probit
from uqhelpers.laplace.prior import best_of, gaussian_scores, most_probable, softmax_scores
from uqhelpers.metrics import RegressionPrediction, SampleAccumulator
from uqhelpers.training import as_inputs, last_linear

METHODS = ("probit", "mc", "map", "pairwise")
LARGEST = 20_000  # parameters: beyond, one matrix of them takes more than 3 GB


class LastLayerLaplace(LastLayerGaussian):
    """Laplace approximation of the last linear layer, with its full covariance.

    Parameters
    ----------
    model : torch.nn.Module
        A trained network whose output is put out by a ``torch.nn.Linear`` as it
        is: logits, no softmax after it. It is neither changed nor copied; the
        weights of the last layer are read when ``fit`` is called.
    likelihood : {"classification", "regression"}
        Softmax over at least two outputs, or Gaussian with the same noise for
        every output.
    prior_precision : float
        α > 0: every weight and bias of the layer has the prior N(0, 1/α). The
        approximation is one *around the mode* only if the network was trained
        with that prior: a weight decay of α/n on a loss averaged over n inputs.
    noise_std : float
        Standard deviation of the observation noise (regression only).

    Attributes
    ----------
    prior_precision, noise_std : float
        As given, or as tuned; either can be set. What was tuned is forgotten
        when ``fit`` is called again, since it was tuned to other data.

    Examples
    --------
    >>> posterior = LastLayerLaplace(net).fit(images, labels)
    >>> posterior.tune_prior_precision()
    >>> probs = posterior.predict(new_images)

    References
    ----------
    MacKay (1992), A practical Bayesian framework for backpropagation networks.
    Kristiadi, Hein and Hennig (2020), Being Bayesian, even just a bit, fixes
    overconfidence in ReLU networks. Daxberger et al. (2021), Laplace redux.
    """

    def __init__(self, model, likelihood="classification", *, prior_precision=1.0, noise_std=1.0):
        self.model = as_module(model)
        self.likelihood = as_choice(likelihood, "likelihood", LIKELIHOODS)
        self._information, self._cache = None, {}
        self.prior_precision, self.noise_std = prior_precision, noise_std

    @property
    def prior_precision(self):
        """α of the prior: as given, or as tuned."""
        return self._alpha

    @prior_precision.setter
    def prior_precision(self, value):
        self._alpha = self._given_alpha = as_number(value, "prior_precision", low=0, open_low=True)
        self._forget(keep="eigen")

    @property
    def noise_std(self):
        """Standard deviation of the noise: as given, or as tuned; 1 in a classification, which has none."""
        return self._sigma

    @noise_std.setter
    def noise_std(self, value):
        self._sigma = self._given_sigma = noise_of(self.likelihood, value)
        self._forget(keep="eigen")

    def fit(self, inputs, targets=None, batch_size=500):
        """Sum the curvature over the training data. The model is left as it came.

        Parameters
        ----------
        inputs : array, shape (N, ...), or iterable of batches
            What the network was trained on; or a ``DataLoader`` of pairs
            ``(inputs, targets)``, which is gone through once.
        targets : array, shape (N,) or (N, K)
            Class labels, or numbers for a regression. A loader brings its own.
        batch_size : int
            Inputs at a time; memory does not grow with N beyond that.

        Returns
        -------
        LastLayerLaplace, itself

        Raises
        ------
        ValueError
            If the network does not end in a linear layer that runs once and has
            weights of its own, or if that layer has more parameters than a full
            covariance can be had of. The posterior is then as it was before the
            call.
        """
        batch_size = as_whole(batch_size, "batch_size")
        inputs, targets = gather(inputs, targets)
        tensor = as_inputs(inputs, self.model)
        layer = self.model.get_submodule(last_linear(self.model, tensor))
        refuse_shared(self.model, layer)
        weight, has_bias = to_doubles(layer.weight), layer.bias is not None
        if has_bias:
            weight = np.concatenate([weight, to_doubles(layer.bias)[:, None]], axis=1)
        outputs, width = weight.shape
        if self.likelihood == "classification":
            expect_classes(outputs)
            if weight.size > LARGEST:
                raise ValueError(
                    f"model: expected a last layer of at most {LARGEST} parameters for a full covariance, "
                    f'got {weight.size}; laplace_torch(..., hessian="kron") needs far less memory'
                )
        targets = targets_of(self.likelihood, targets, len(tensor), outputs)

        # Classification: Σ (diag p - p pᵀ) ⊗ φ φᵀ. Regression: Σ φ φᵀ, the same for every output.
        shape = (outputs, outputs, width, width) if self.likelihood == "classification" else (width, width)
        information, fit, largest = np.zeros(shape), 0.0, 0.0
        for start, features in batches(self.model, layer, tensor, batch_size, has_bias):
            there = targets[start : start + len(features)]
            scores = features @ weight.T
            largest = max(largest, np.abs(features).max())
            if self.likelihood == "classification":
                fit += np.take_along_axis(log_softmax(scores, axis=1), there[:, None], axis=1).sum()
                add_softmax_information(information, features, softmax(scores, axis=1))
            else:
                fit += ((scores - there) ** 2).sum()
                information += features.T @ features
        if self.likelihood == "classification":
            each = np.arange(outputs)
            # The rows of diag p - p pᵀ sum to 0. So the diagonal follows from the rest, without cancellation.
            information[each, each] = -information.sum(axis=1)
            information = information.swapaxes(1, 2).reshape(weight.size, weight.size)
        self._layer, self._has_bias, self._count, self._largest = layer, has_bias, len(tensor), largest
        self._weight = weight  # (outputs, features + 1): the bias is the weight of a feature that is always 1
        self._order = torch_order(outputs, width, has_bias)
        self._information, self._fit_at_mode = information, float(fit)
        self._alpha, self._sigma = self._given_alpha, self._given_sigma
        self._forget()
        return self

    # --- the posterior -----------------------------------------------------------------------------------

    @property
    def mean(self):
        """The trained weights in torch's order, shape (P,)."""
        self._fitted()
        return self._weight.ravel()[self._order]

    @property
    def precision(self):
        """Posterior precision in torch's order, shape (P, P): curvature plus α on the diagonal."""
        return self._whole(self._block_precision())[np.ix_(self._order, self._order)]

    @property
    def covariance(self):
        """Posterior covariance in torch's order, shape (P, P)."""
        return self._whole(self._block_covariance())[np.ix_(self._order, self._order)]

    @property
    def state_bytes(self):
        """Memory of the fitted state, in bytes; it does not depend on the number of inputs."""
        self._fitted()
        arrays = [self._information, self._weight, self._order, *self._cache.values()]
        return sum(part.nbytes for value in arrays for part in (value if type(value) is tuple else (value,)))

    def output_distribution(self, inputs, batch_size=500):
        """Mean and covariance of the network's outputs under the posterior, without noise.

        The outputs are linear in the last layer's weights, so this is no
        approximation beyond that of the posterior.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        batch_size : int

        Returns
        -------
        mean : array, shape (N, K)
        covariance : array, shape (N, K, K)
        """
        means, covariances = [], []
        outputs, width = self._fitted()._weight.shape
        for features in self._features(inputs, batch_size):
            means.append(features @ self._weight.T)
            covariance = np.zeros((len(features), outputs, outputs))
            if self.likelihood == "regression":
                each = np.arange(outputs)
                covariance[:, each, each] = self._variances(features)
            else:
                blocks = self._block_covariance().reshape(outputs, width, outputs, width)
                for c in range(outputs):
                    for k in range(c + 1):
                        value = np.einsum("nd,nd->n", features @ blocks[c, :, k], features)
                        covariance[:, c, k] = covariance[:, k, c] = value
            covariances.append(covariance)
        return np.concatenate(means), np.concatenate(covariances)

    def sample(self, inputs, samples=100, seed=0, batch_size=500):
        """Class probabilities of sampled last layers.

        Each sample is one network: draws of different inputs belong together.
        Of a classification; a regression refuses it.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        samples : int
            Number of sampled networks, ``S``.
        seed : int or numpy.random.Generator
        batch_size : int, inputs at a time

        Returns
        -------
        array of probabilities, shape (S, N, C), float64
        """
        self._only("classification", "sample")
        weights = self._draws(samples, seed)
        parts = [
            softmax(features @ weights.swapaxes(1, 2), axis=-1)
            for features in self._features(inputs, batch_size)
        ]
        return np.concatenate(parts, axis=1)

    def predict(self, inputs, method="probit", samples=100, seed=0, batch_size=500):
        """Predictive class probabilities, without their parts: those are :func:`uqhelpers.laplace.predict`'s.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        method : {"probit", "mc", "map", "pairwise"}
            "probit": logits scaled by :func:`kappa` of their variance, no
            sampling. "pairwise": the same of each difference of two logits
            (:func:`pairwise_probit`), which no constant added to all logits
            moves. "mc": average over sampled weights, the same for all inputs;
            the only one that converges to the predictive of the Gaussian
            posterior. "map": the trained network itself.
        samples : int
            Sampled networks, for "mc". Memory does not grow with them beyond
            their weights.
        seed : int or numpy.random.Generator
            For "mc".
        batch_size : int, inputs at a time

        Returns
        -------
        array of probabilities, shape (N, C), float64
        """
        self._only("classification", "predict")
        as_choice(method, "method", METHODS)
        if method == "pairwise":
            return pairwise_probit(*self.output_distribution(inputs, batch_size))
        weights = self._draws(samples, seed) if method == "mc" else None
        parts = []
        for features in self._features(inputs, batch_size):
            scores = features @ self._weight.T
            if method == "probit":
                parts.append(probit(scores, self._variances(features)))
            elif method == "map":
                parts.append(softmax(scores, axis=1))
            else:
                parts.append(sum(softmax(features @ w.T, axis=1) for w in weights) / len(weights))
        return np.concatenate(parts)

    def decompose(self, inputs, samples=100, seed=0, batch_size=500):
        """The prediction averaged over sampled last layers, with its uncertainties.

        Parameters are those of :meth:`sample`. Each network is added up and
        forgotten: memory does not grow with ``samples``.

        Returns
        -------
        uqhelpers.metrics.SampledDecomposition
        """
        self._only("classification", "decompose")
        weights = self._draws(samples, seed)
        features = np.concatenate(list(self._features(inputs, batch_size)))
        accumulator = SampleAccumulator()
        for each in weights:
            accumulator.add(softmax(features @ each.T, axis=1))
        return accumulator.result()

    def predict_regression(self, inputs, batch_size=500):
        """Mean and standard deviations of a regression, the noise added.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        batch_size : int, inputs at a time

        Returns
        -------
        RegressionPrediction

        Raises
        ------
        ValueError
            If the likelihood is that of a classification.
        """
        self._only("regression", "predict_regression")
        means, variances = [], []
        for features in self._features(inputs, batch_size):
            means.append(features @ self._weight.T)
            variances.append(self._variances(features))
        variance = np.concatenate(variances)
        total = np.sqrt(variance + self.noise_std**2)
        return RegressionPrediction(np.concatenate(means), np.sqrt(variance), total)

    # --- hyper-parameters --------------------------------------------------------------------------------

    def log_marginal_likelihood(self, prior_precision=None, noise_std=None):
        """Laplace's estimate of the log evidence, at the weights that were fitted.

        ``log p(D|w) + log p(w) + (P/2) log 2π - (1/2) log det Λ``, with the
        posterior precision Λ.

        Parameters
        ----------
        prior_precision, noise_std : float, optional
            Others than the posterior's own; a classification takes no noise.

        Returns
        -------
        float
            In nats, for all training inputs together.

        References
        ----------
        MacKay (1992), A practical Bayesian framework for backpropagation
        networks, eq. 8.
        """
        self._fitted()
        alpha = _positive(prior_precision, "prior_precision", self.prior_precision)
        sigma = self.noise_std if noise_std is None else noise_of(self.likelihood, noise_std)
        curvature = np.maximum(self._eigen()[0], 0)
        size = self._weight.size
        if self.likelihood == "classification":
            fit, copies = self._fit_at_mode, 1
        else:
            copies = len(self._weight)
            fit = -0.5 * self._fit_at_mode / sigma**2
            fit -= 0.5 * self._count * copies * np.log(2 * np.pi * sigma**2)
            curvature = curvature / sigma**2
        log_det = copies * np.log(curvature + alpha).sum() - size * np.log(alpha)
        return float(fit - 0.5 * (log_det + alpha * (self._weight**2).sum()))

    def tune_prior_precision(
        self, inputs=None, targets=None, method="marginal_likelihood", candidates=None, noise=False
    ):
        """Choose α, and in a regression the noise if asked, and keep them.

        Parameters
        ----------
        inputs, targets : array
            Held-out data, for "validation" only; a ``DataLoader`` brings its
            own targets.
        method : {"marginal_likelihood", "validation"}
            "marginal_likelihood" needs no data: with the weights as they are,
            the estimate has exactly one maximum in α, where α‖w‖² equals the
            effective number of parameters Σ λ/(λ + α). "validation" takes the
            candidate whose predictive ("probit", or Gaussian) gives held-out
            data the highest likelihood.
        candidates : array, optional
            For "validation": values of α; by default 33 from 1e-4 to 1e4.
        noise : bool
            For "marginal_likelihood" in a regression: whether the noise's
            standard deviation is chosen along with α.

        Returns
        -------
        float
            The chosen α.

        Raises
        ------
        ValueError
            If held-out data are missing, α has no optimum because all weights or
            all features are zero or the network is sure of every training input
            to the last digit, or ``noise`` or ``candidates`` are given where
            there is nothing to choose by them.

        Warns
        -----
        RuntimeWarning
            If the best of several candidates is the smallest or the largest.

        References
        ----------
        MacKay (1992), A practical Bayesian framework for backpropagation
        networks, section 4. Bishop (2006), section 3.5.
        """
        self._fitted()
        as_choice(method, "method", ("marginal_likelihood", "validation"))
        if noise and (self.likelihood != "regression" or method != "marginal_likelihood"):
            raise ValueError('noise: only "marginal_likelihood" in a regression can choose it')
        if method == "marginal_likelihood":
            for name, value in (("inputs", inputs), ("targets", targets), ("candidates", candidates)):
                if value is not None:
                    raise ValueError(f"{name}: expected none, the marginal likelihood takes no such thing")
            self._alpha, self._sigma = self._most_probable(noise)
        else:
            candidates = (
                np.logspace(-4, 4, 33) if candidates is None else as_real(candidates, "candidates", 1)
            )
            if candidates.min() <= 0:
                raise ValueError(f"candidates: expected values above 0, got {candidates.min():.4g}")
            self._alpha = best_of(candidates, self._held_out(inputs, targets, candidates))
        self._forget(keep="eigen")
        return self.prior_precision


def _positive(value, name, default):
    return default if value is None else as_number(value, name, low=0, open_low=True)
