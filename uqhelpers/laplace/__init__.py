"""Laplace approximation: a Gaussian around the trained weights, as wide as the loss is flat.

``LastLayerLaplace`` does it for the last linear layer of a network that is
already trained, with the full covariance of its weights, on features that are
computed once. Its curvature is the generalised Gauss-Newton matrix, which for
a softmax or a Gaussian likelihood is the Fisher information. For other
structures (all layers; diagonal, Kronecker-factored), ``laplace_torch`` is a
short way into the library laplace-torch.

Parameters are ordered as torch does: the weight matrix row by row, one row an
output, then all biases. That is the order of
``parameters_to_vector(layer.parameters())`` and of laplace-torch. (Laying each
output's bias beside its weights would be as natural; the two must not be mixed.)
"""

import contextlib
import warnings

import numpy as np
from scipy import linalg
from scipy.special import log_softmax, softmax

from uqhelpers._checks import as_choice, as_generator, as_labels, as_number, as_real, as_whole
from uqhelpers._torch import torch
from uqhelpers.metrics import RegressionPrediction
from uqhelpers.training import as_inputs, evaluating, inputs_of, last_linear, seeded

__all__ = [
    "HESSIANS",
    "LIKELIHOODS",
    "METHODS",
    "SUBSETS",
    "LaplaceTorch",
    "LastLayerLaplace",
    "kappa",
    "laplace_torch",
    "probit",
]

LIKELIHOODS = ("classification", "regression")
METHODS = ("probit", "mc", "map")
SUBSETS = ("last_layer", "all")
HESSIANS = ("full", "kron", "diag")
LARGEST = 20_000  # parameters: beyond, one matrix of them takes more than 3 GB


def kappa(variance):
    """The factor by which the probit approximation shrinks a logit of the given variance.

    A logistic function averaged over a Gaussian is nearly a logistic function
    again, of the mean times ``(1 + π v / 8)^(-1/2)``.

    Parameters
    ----------
    variance : array
        Variances of logits, at least 0.

    Returns
    -------
    array, float64
        In (0, 1]; 1 where the variance is 0.

    Raises
    ------
    ValueError
        If a variance is negative or not finite.

    References
    ----------
    MacKay (1992), The evidence framework applied to classification networks,
    eq. 10. Spiegelhalter and Lauritzen (1990).
    """
    variance = as_real(variance, "variance")
    if variance.min() < 0:
        raise ValueError(f"variance: expected values of at least 0, got {variance.min():.4g}")
    return 1 / np.sqrt(1 + np.pi * variance / 8)


def probit(mean, variance):
    """Class probabilities from Gaussian logits, by the extended probit approximation.

    ``softmax(kappa(variance) * mean)``. Exact only where the variance is 0; it
    ignores the covariance between the logits.

    Parameters
    ----------
    mean, variance : array, shape (N, C)
        Of the logits.

    Returns
    -------
    array, shape (N, C), float64
        Probabilities.

    Raises
    ------
    ValueError
        If the shapes differ or a variance is negative.

    References
    ----------
    Gibbs (1997), Bayesian Gaussian processes for regression and
    classification, PhD thesis. Daxberger et al. (2021), appendix B.1.
    """
    mean = as_real(mean, "mean", ndim=2)
    factor = kappa(variance)
    if factor.shape != mean.shape:
        raise ValueError(f"variance: expected shape {mean.shape} like the mean, got {factor.shape}")
    return softmax(factor * mean, axis=1)


class LastLayerLaplace:
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
        As given, or as tuned.

    Raises
    ------
    ValueError
        If an argument is not as described.

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
        if not isinstance(model, torch.nn.Module):
            raise ValueError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
        self.model = model
        self.likelihood = as_choice(likelihood, "likelihood", LIKELIHOODS)
        self.prior_precision = as_number(prior_precision, "prior_precision", low=0, open_low=True)
        self.noise_std = as_number(noise_std, "noise_std", low=0, open_low=True)
        self._information = None

    def fit(self, inputs, targets, batch_size=500):
        """Sum the curvature over the training data. The model is left as it came.

        Parameters
        ----------
        inputs : array, shape (N, ...)
            What the network was trained on.
        targets : array, shape (N,) or (N, K)
            Class labels, or numbers for a regression.
        batch_size : int
            Inputs at a time; memory does not grow with N beyond that.

        Returns
        -------
        LastLayerLaplace
            Itself.

        Raises
        ------
        ValueError
            If the data are empty, not finite or of unequal length, if a label
            does not fit, if the network does not end in a linear layer, or if
            that layer has more parameters than a full covariance can be had of.
        """
        batch_size = as_whole(batch_size, "batch_size")
        tensor = as_inputs(inputs, self.model)
        self._layer = self.model.get_submodule(last_linear(self.model, tensor))
        weight = _numpy(self._layer.weight)
        self._has_bias = self._layer.bias is not None
        if self._has_bias:
            weight = np.concatenate([weight, _numpy(self._layer.bias)[:, None]], axis=1)
        self._weight = weight  # (outputs, features + 1): the bias is the weight of a feature that is always 1
        outputs, width = weight.shape
        if self.likelihood == "classification" and outputs < 2:
            raise ValueError("model: expected at least two outputs, logits of the classes, got one")
        if self.likelihood == "classification" and weight.size > LARGEST:
            raise ValueError(
                f"model: expected a last layer of at most {LARGEST} parameters for a full covariance, "
                f'got {weight.size}; laplace_torch(..., hessian="kron") needs far less memory'
            )
        targets = self._as_targets(targets, len(tensor), outputs)
        self._order = _torch_order(outputs, width, self._has_bias)
        self._count = len(tensor)

        # Classification: Σ (diag p - p pᵀ) ⊗ φ φᵀ. Regression: Σ φ φᵀ, the same for every output.
        shape = (outputs, outputs, width, width) if self.likelihood == "classification" else (width, width)
        information, fit = np.zeros(shape), 0.0
        for start, features in _batches(self.model, self._layer, tensor, batch_size, self._has_bias):
            there = targets[start : start + len(features)]
            scores = features @ weight.T
            if self.likelihood == "classification":
                fit += np.take_along_axis(log_softmax(scores, axis=1), there[:, None], axis=1).sum()
                _add_softmax_information(information, features, softmax(scores, axis=1))
            else:
                fit += ((scores - there) ** 2).sum()
                information += features.T @ features
        if self.likelihood == "classification":
            each = np.arange(outputs)
            # The rows of diag p - p pᵀ sum to 0. So the diagonal follows from the rest, without cancellation.
            information[each, each] = -information.sum(axis=1)
            information = information.swapaxes(1, 2).reshape(weight.size, weight.size)
        self._information, self._fit_at_mode = information, float(fit)
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

        Raises
        ------
        ValueError
            If the inputs are empty or not finite, or nothing was fitted.
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

        Parameters
        ----------
        inputs : array, shape (N, ...)
        samples : int
            Number of sampled networks, ``S``.
        seed : int or numpy.random.Generator
        batch_size : int
            Inputs at a time.

        Returns
        -------
        array, shape (S, N, C), float64
            Probabilities.

        Raises
        ------
        ValueError
            If the inputs are empty or not finite, nothing was fitted, or the
            likelihood is Gaussian.
        """
        self._only("classification", "sample")
        weights = self._draws(samples, seed)
        parts = [
            softmax(features @ weights.swapaxes(1, 2), axis=-1)
            for features in self._features(inputs, batch_size)
        ]
        return np.concatenate(parts, axis=1)

    def predict(self, inputs, method="probit", samples=100, seed=0, batch_size=500):
        """Predictive class probabilities.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        method : {"probit", "mc", "map"}
            "probit": logits scaled by :func:`kappa` of their variance, no
            sampling. "mc": average over sampled weights, the same for all
            inputs; the only one that converges to the predictive of the
            Gaussian posterior. "map": the trained network itself.
        samples : int
            Sampled networks, for "mc". Memory does not grow with them beyond
            their weights.
        seed : int or numpy.random.Generator
            For "mc".
        batch_size : int
            Inputs at a time.

        Returns
        -------
        array, shape (N, C), float64
            Probabilities.

        Raises
        ------
        ValueError
            As :meth:`sample`; also for another method.
        """
        self._only("classification", "predict")
        as_choice(method, "method", METHODS)
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

    def predict_regression(self, inputs, batch_size=500):
        """Mean and standard deviations of a regression, the noise added.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        batch_size : int
            Inputs at a time.

        Returns
        -------
        RegressionPrediction

        Raises
        ------
        ValueError
            If the inputs are empty or not finite, nothing was fitted, or the
            likelihood is that of a classification.
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
            Others than the posterior's own.

        Returns
        -------
        float
            In nats, for all training inputs together.

        Raises
        ------
        ValueError
            If nothing was fitted, or an argument is not positive.

        References
        ----------
        MacKay (1992), A practical Bayesian framework for backpropagation
        networks, eq. 8.
        """
        self._fitted()
        alpha = _positive(prior_precision, "prior_precision", self.prior_precision)
        sigma = _positive(noise_std, "noise_std", self.noise_std)
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
            Held-out data, for "validation" only.
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
            If nothing was fitted, held-out data are missing, α has no optimum
            because all weights or all features are zero, or ``noise`` is asked
            where there is none to choose.

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
            if inputs is not None or targets is not None:
                raise ValueError("inputs: the marginal likelihood takes no held-out data, got some")
            self.prior_precision, self.noise_std = self._most_probable(noise)
        else:
            candidates = (
                np.logspace(-4, 4, 33) if candidates is None else as_real(candidates, "candidates", 1)
            )
            if candidates.min() <= 0:
                raise ValueError(f"candidates: expected values above 0, got {candidates.min():.4g}")
            scores = self._held_out(inputs, targets, candidates)
            self.prior_precision = float(candidates[scores.argmax()])
        self._forget(keep="eigen")
        return self.prior_precision

    def _most_probable(self, noise):
        """α and σ at the maximum of the marginal likelihood, the weights kept."""
        curvature = np.maximum(self._eigen()[0], 0)
        size, regression = (self._weight**2).sum(), self.likelihood == "regression"
        copies = len(self._weight) if regression else 1
        if size == 0 or curvature.max() == 0:
            raise ValueError(
                "model: expected weights and features that are not all zero, to choose a prior by"
            )
        sigma = self.noise_std if regression else 1.0
        for _ in range(1000):
            alpha = _balance(curvature / sigma**2, size / copies)
            if not noise:
                break
            effective = copies * (curvature / (curvature + alpha * sigma**2)).sum()
            left = self._count * copies - effective
            before, sigma = sigma, np.sqrt(self._fit_at_mode / left) if left > 0 else 0.0
            if sigma == 0:
                raise ValueError("targets: expected some that the network misses, to choose the noise by")
            if abs(np.log(sigma / before)) < 1e-12:
                break
        return alpha, (sigma if regression else self.noise_std)

    def _held_out(self, inputs, targets, candidates):
        """Log likelihood of held-out data for each candidate α, shape (candidates,)."""
        if inputs is None or targets is None:
            raise ValueError('inputs, targets: expected held-out data for method="validation", got none')
        tensor = as_inputs(inputs, self.model)
        outputs, width = self._weight.shape
        targets = self._as_targets(targets, len(tensor), outputs)
        values, vectors = self._eigen()
        scale = self.noise_std**2 if self.likelihood == "regression" else 1.0
        # Var = Σ (projection on an eigenvector)² / (eigenvalue + α): one decomposition serves every α.
        inverse = 1 / (np.maximum(values, 0)[:, None] / scale + candidates)
        scores = np.zeros(len(candidates))
        for start, features in _batches(self.model, self._layer, tensor, 500, self._has_bias):
            there = targets[start : start + len(features)]
            mean = features @ self._weight.T
            if self.likelihood == "regression":
                total = ((features @ vectors) ** 2 @ inverse)[:, None] + scale
                misses = ((mean - there) ** 2)[:, :, None]
                scores -= 0.5 * (np.log(2 * np.pi * total) + misses / total).sum(axis=(0, 1))
                continue
            blocks = vectors.reshape(outputs, width, -1)
            variance = np.stack([(features @ block) ** 2 @ inverse for block in blocks], axis=1)
            scaled = kappa(np.maximum(variance, 0)) * mean[:, :, None]
            given = np.take_along_axis(scaled, there[:, None, None], axis=1)[:, 0]
            scores += (given - np.logaddexp.reduce(scaled, axis=1)).sum(axis=0)
        return scores

    # --- what is computed once ---------------------------------------------------------------------------

    def _forget(self, keep=None):
        kept = getattr(self, "_cache", {}).get(keep)
        self._cache = {} if kept is None else {keep: kept}

    def _remember(self, name, compute):
        if name not in self._cache:
            self._cache[name] = compute()
        return self._cache[name]

    def _eigen(self):
        return self._remember("eigen", lambda: linalg.eigh(self._information))

    def _block_precision(self):
        """The precision, in a regression of one output's weights: those of another have the same."""
        self._fitted()
        scale = self.noise_std**2 if self.likelihood == "regression" else 1.0
        precision = self._information / scale
        precision[np.diag_indices_from(precision)] += self.prior_precision
        return precision

    def _factor(self):
        return self._remember("factor", lambda: linalg.cholesky(self._block_precision(), lower=True))

    def _block_covariance(self):
        def inverse():
            half = linalg.solve_triangular(self._factor(), np.eye(len(self._factor())), lower=True)
            return half.T @ half

        return self._remember("covariance", inverse)

    def _whole(self, block):
        return np.kron(np.eye(len(self._weight)), block) if self.likelihood == "regression" else block

    def _variances(self, features):
        """Variance of every output, shape (N, K)."""
        covariance = self._block_covariance()
        outputs, width = self._weight.shape
        if self.likelihood == "regression":
            variance = np.einsum("nd,nd->n", features @ covariance, features)[:, None]
            return np.maximum(np.repeat(variance, outputs, axis=1), 0)
        blocks = (
            covariance[c * width : (c + 1) * width, c * width : (c + 1) * width] for c in range(outputs)
        )
        variance = [np.einsum("nd,nd->n", features @ block, features) for block in blocks]
        return np.maximum(np.stack(variance, axis=1), 0)

    def _draws(self, samples, seed):
        """Sampled last layers, shape (S, C, D + 1)."""
        samples, rng = as_whole(samples, "samples"), as_generator(seed)
        noise = rng.standard_normal((self._weight.size, samples))
        shift = linalg.solve_triangular(self._factor(), noise, lower=True, trans="T")
        return self._weight + shift.T.reshape(samples, *self._weight.shape)

    def _features(self, inputs, batch_size):
        self._fitted()
        tensor, size = as_inputs(inputs, self.model), as_whole(batch_size, "batch_size")
        for _, features in _batches(self.model, self._layer, tensor, size, self._has_bias):
            yield features

    def _as_targets(self, targets, length, outputs):
        if self.likelihood == "classification":
            return as_labels(targets, outputs, name="targets", length=length)
        array = as_real(targets, "targets")
        if array.shape not in [(length, outputs), *([(length,)] if outputs == 1 else [])]:
            raise ValueError(f"targets: expected shape ({length}, {outputs}), got {array.shape}")
        return array.reshape(length, outputs)

    def _fitted(self):
        if self._information is None:
            raise ValueError("fit: expected to be called first, got a posterior that has seen no data")
        return self

    def _only(self, likelihood, name):
        self._fitted()
        if self.likelihood != likelihood:
            raise ValueError(f"{name}: expected likelihood {likelihood!r}, got {self.likelihood!r}")


def _batches(model, layer, inputs, batch_size, has_bias):
    """Where a batch starts, and the inputs of the last layer with a column of ones, in float64."""
    with evaluating(model), torch.no_grad(), inputs_of(layer) as seen:
        for start in range(0, len(inputs), batch_size):
            model(inputs[start : start + batch_size].to(layer.weight.device))
            features = _numpy(seen[-1])
            seen.clear()
            if has_bias:
                features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
            yield start, features


def _add_softmax_information(information, features, probs):
    """Add -Σ p_c p_k φ φᵀ to the blocks c ≠ k, of shape (C, C, D, D)."""
    roots = np.sqrt(probs)
    for c in range(probs.shape[1]):
        part = features * roots[:, c, None]
        for k in range(c):
            scaled = part * roots[:, k, None]
            block = scaled.T @ scaled  # NumPy sees the same matrix twice and does half the work
            information[c, k] -= block
            information[k, c] -= block


def _torch_order(outputs, width, has_bias):
    """Where torch's parameters are among ours, which keep each output's bias after its weights."""
    places = np.arange(outputs * width).reshape(outputs, width)
    if not has_bias:
        return places.ravel()
    return np.concatenate([places[:, :-1].ravel(), places[:, -1]])


def _balance(curvature, size):
    """The one α at which Σ λ / (λ + α) = α · size: the left side falls in α and the right side rises."""
    from scipy.optimize import brentq

    positive = curvature[curvature > curvature.max() * 1e-14]
    excess = lambda log: np.log((positive / (positive + np.exp(log))).sum()) - log - np.log(size)  # noqa: E731
    high = np.log(len(positive) / size) + 1  # the left side is below the number of its terms
    low = high - 2
    while excess(low) < 0:
        low -= 5
    return float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))


def _positive(value, name, default):
    return default if value is None else as_number(value, name, low=0, open_low=True)


def _numpy(tensor):
    return tensor.detach().double().cpu().numpy()


# --- laplace-torch ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _quiet():
    """Without what torch says about its own future, and a reminder of a setting that plays no part here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="By default `link_approx`", category=UserWarning)
        yield


class LaplaceTorch:
    """A fitted posterior of laplace-torch that speaks NumPy; made by :func:`laplace_torch`.

    Attributes
    ----------
    fitted : object
        The library's own object, with everything it can do.
    """

    def __init__(self, fitted, model):
        self.fitted = fitted
        self._model = model

    @property
    def prior_precision(self):
        """α of the prior."""
        return float(torch.as_tensor(self.fitted.prior_precision).reshape(-1)[0])

    def log_marginal_likelihood(self):
        """The library's estimate of the log evidence, in nats."""
        return float(self.fitted.log_marginal_likelihood())

    def predict(self, inputs, method="probit", samples=100, seed=0, batch_size=250):
        """Predictive class probabilities.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        method : {"probit", "mc", "network", "map"}
            "probit" and "mc" use the linearised network; "network" sends
            sampled weights through the network itself, which a Gaussian around
            *linearised* curvature was not made for; "map" is the trained
            network.
        samples : int
            For "mc" and "network".
        seed : int
            For "mc" and "network"; the global generators are left as they were.
        batch_size : int
            Inputs at a time.

        Returns
        -------
        array, shape (N, C), float64
            Probabilities.

        Raises
        ------
        ValueError
            If the inputs are empty or not finite, for another method, or in a
            regression.
        """
        as_choice(method, "method", (*METHODS, "network"))
        if self.fitted.likelihood != "classification":
            raise ValueError("predict: expected a classification, got a regression: use predict_regression")
        samples, size = as_whole(samples, "samples"), as_whole(batch_size, "batch_size")
        kinds = {"probit": ("glm", "probit"), "mc": ("glm", "mc"), "network": ("nn", "mc")}
        device = next(self._model.parameters()).device
        parts = []
        with seeded(seed):
            for part in as_inputs(inputs, self._model).split(size):
                part = part.to(device)
                if method == "map":
                    with evaluating(self._model), torch.no_grad():
                        parts.append(self._model(part).softmax(-1))
                    continue
                kind, link = kinds[method]
                parts.append(self.fitted(part, pred_type=kind, link_approx=link, n_samples=samples))
        return torch.cat(parts).detach().double().cpu().numpy()

    def predict_regression(self, inputs, batch_size=250):
        """Mean and standard deviations of a regression, the noise added.

        The library's variance leaves the noise out; here ``total`` holds it.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        batch_size : int
            Inputs at a time.

        Returns
        -------
        RegressionPrediction

        Raises
        ------
        ValueError
            If the inputs are empty or not finite, or in a classification.
        """
        if self.fitted.likelihood != "regression":
            raise ValueError("predict_regression: expected a regression, got a classification: use predict")
        device = next(self._model.parameters()).device
        means, variances = [], []
        for part in as_inputs(inputs, self._model).split(as_whole(batch_size, "batch_size")):
            mean, covariance = self.fitted(part.to(device), pred_type="glm")
            means.append(_numpy(mean))
            variances.append(_numpy(covariance.diagonal(dim1=-2, dim2=-1)))
        variance = np.maximum(np.concatenate(variances), 0)
        noise = float(torch.as_tensor(self.fitted.sigma_noise).reshape(-1)[0])
        return RegressionPrediction(np.concatenate(means), np.sqrt(variance), np.sqrt(variance + noise**2))


def laplace_torch(
    model,
    inputs,
    targets,
    likelihood="classification",
    *,
    subset="last_layer",
    hessian="full",
    prior_precision=1.0,
    noise_std=1.0,
    tune=False,
    batch_size=500,
):
    """Fit laplace-torch to a trained network and data in memory.

    Parameters
    ----------
    model : torch.nn.Module
        A trained network that puts out logits, or numbers for a regression.
        The library works on a copy.
    inputs : array, shape (N, ...)
        What it was trained on.
    targets : array, shape (N,) or (N, K)
        Class labels, or numbers.
    likelihood : {"classification", "regression"}
    subset : {"last_layer", "all"}
        Which weights are uncertain.
    hessian : {"full", "kron", "diag"}
        Structure of the curvature: P² numbers, two small factors a layer, or P.
    prior_precision : float
        α > 0, of every weight.
    noise_std : float
        Standard deviation of the observation noise (regression only).
    tune : bool
        Whether α is then chosen by the library's marginal likelihood.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    LaplaceTorch

    Raises
    ------
    ValueError
        If an argument is not as described.
    ModuleNotFoundError
        If laplace-torch is not installed.

    References
    ----------
    Daxberger et al. (2021), Laplace redux: effortless Bayesian deep learning.
    """
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    as_choice(likelihood, "likelihood", LIKELIHOODS)
    as_choice(subset, "subset", SUBSETS)
    as_choice(hessian, "hessian", HESSIANS)
    alpha = as_number(prior_precision, "prior_precision", low=0, open_low=True)
    sigma = as_number(noise_std, "noise_std", low=0, open_low=True)
    if likelihood == "classification" and sigma != 1:
        raise ValueError(f"noise_std: a classification has none, got {sigma}")
    tensor = as_inputs(inputs, model)
    device, dtype = next(model.parameters()).device, next(model.parameters()).dtype
    with evaluating(model), torch.no_grad():
        outputs = model(tensor[:1].to(device)).shape[-1]
    if likelihood == "classification":
        labels = torch.from_numpy(as_labels(targets, outputs, name="targets", length=len(tensor)))
    else:
        array = as_real(targets, "targets")
        if array.size != len(tensor) * outputs or len(array) != len(tensor):
            raise ValueError(f"targets: expected shape ({len(tensor)}, {outputs}), got {array.shape}")
        labels = torch.from_numpy(array.reshape(len(tensor), outputs)).to(dtype)
    try:
        with _quiet():
            import laplace
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "laplace_torch needs the library laplace-torch: pip install laplace-torch", name=error.name
        ) from error
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(tensor, labels), batch_size=as_whole(batch_size, "batch_size")
    )
    more = {"sigma_noise": sigma} if likelihood == "regression" else {}
    with evaluating(model), seeded(0), _quiet():  # the loader draws a seed it does not need
        fitted = laplace.Laplace(
            model,
            likelihood,
            subset_of_weights=subset,
            hessian_structure=hessian,
            prior_precision=alpha,
            **more,
        )
        fitted.fit(loader)
        if tune:
            fitted.optimize_prior_precision(method="marglik", pred_type="glm")
    return LaplaceTorch(fitted, model)
