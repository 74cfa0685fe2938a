"""A short way into the library laplace-torch, for other structures and other layers."""

import contextlib
import warnings

import numpy as np

from uqhelpers._checks import as_choice, as_number, as_whole
from uqhelpers._torch import as_module, torch
from uqhelpers.batches import as_tensor, gather
from uqhelpers.laplace.curvature import expect_classes, noise_of, targets_of, to_doubles
from uqhelpers.laplace.gaussian import LIKELIHOODS
from uqhelpers.metrics import RegressionPrediction, SampleAccumulator
from uqhelpers.training import FEW, are_probabilities, as_inputs, evaluating, seeded

SUBSETS = ("last_layer", "all")
HESSIANS = ("full", "kron", "diag")


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
    def likelihood(self):
        """Which of ``LIKELIHOODS`` it was fitted with."""
        return str(getattr(self.fitted.likelihood, "value", self.fitted.likelihood))

    @property
    def prior_precision(self):
        """α of the prior."""
        return float(torch.as_tensor(self.fitted.prior_precision).reshape(-1)[0])

    def log_marginal_likelihood(self):
        """The library's estimate of the log evidence, in nats."""
        return float(self.fitted.log_marginal_likelihood())

    def predict(self, inputs, method="probit", samples=100, seed=0, batch_size=250):
        """Predictive class probabilities; a regression has :meth:`predict_regression` instead.

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
            For "mc" and "network", where the same seed and batch size give the same
            draws; the global generators are left as they were.
        batch_size : int, inputs at a time

        Returns
        -------
        array of probabilities, shape (N, C), float64
        """
        as_choice(method, "method", ("probit", "mc", "network", "map"))
        self._expect("classification", "predict", "predict_regression")
        samples = as_whole(samples, "samples")
        kinds = {"probit": ("glm", "probit"), "mc": ("glm", "mc"), "network": ("nn", "mc")}
        parts = []
        with seeded(seed):
            for part in self._parts(inputs, batch_size):
                if method == "map":
                    with evaluating(self._model), torch.no_grad():
                        parts.append(self._model(part).softmax(-1))
                    continue
                kind, link = kinds[method]
                parts.append(self.fitted(part, pred_type=kind, link_approx=link, n_samples=samples))
        return torch.cat(parts).detach().double().cpu().numpy()

    def decompose(self, inputs, samples=100, seed=0, batch_size=250):
        """The prediction averaged over draws of the linearised network, with its uncertainties.

        Parameters are those of :meth:`predict`. Draws are kept together, so
        memory grows with ``samples``.

        Returns
        -------
        uqhelpers.metrics.SampledDecomposition
        """
        self._expect("classification", "decompose", "predict_regression")
        samples, parts = as_whole(samples, "samples"), []
        with seeded(seed):
            for part in self._parts(inputs, batch_size):
                draws = self.fitted.predictive_samples(part, pred_type="glm", n_samples=samples)
                parts.append(to_doubles(draws))
        return SampleAccumulator().add(np.concatenate(parts, axis=1)).result()

    def predict_regression(self, inputs, batch_size=250):
        """Mean and standard deviations of a regression, the noise added.

        The library's variance leaves the noise out; here ``total`` holds it.
        Parameters are those of :meth:`predict`.

        Returns
        -------
        RegressionPrediction
        """
        self._expect("regression", "predict_regression", "predict")
        means, variances = [], []
        for part in self._parts(inputs, batch_size):
            mean, covariance = self.fitted(part, pred_type="glm")
            means.append(to_doubles(mean))
            variances.append(to_doubles(covariance.diagonal(dim1=-2, dim2=-1)))
        variance = np.maximum(np.concatenate(variances), 0)
        noise = float(torch.as_tensor(self.fitted.sigma_noise).reshape(-1)[0])
        return RegressionPrediction(np.concatenate(means), np.sqrt(variance), np.sqrt(variance + noise**2))

    def _expect(self, likelihood, name, other):
        if self.likelihood != likelihood:
            raise ValueError(f"{name}: expected a {likelihood}, got a {self.likelihood}: use {other}")

    def _parts(self, inputs, batch_size):
        """Checked inputs, some at a time, where the network is."""
        device = next(self._model.parameters()).device
        for part in as_inputs(inputs, self._model).split(as_whole(batch_size, "batch_size")):
            yield part.to(device, copy=True)


def laplace_torch(
    model,
    inputs,
    targets=None,
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
    inputs : array, shape (N, ...), or iterable of batches
        What it was trained on; or a ``DataLoader`` of pairs
        ``(inputs, targets)``, which is gone through once.
    targets : array, shape (N,) or (N, K)
        Class labels, or numbers. A loader brings its own.
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
    batch_size : int, inputs at a time

    Returns
    -------
    LaplaceTorch

    Raises
    ------
    ModuleNotFoundError
        If laplace-torch is not installed.

    References
    ----------
    Daxberger et al. (2021), Laplace redux: effortless Bayesian deep learning.
    """
    as_module(model)
    as_choice(likelihood, "likelihood", LIKELIHOODS)
    as_choice(subset, "subset", SUBSETS)
    as_choice(hessian, "hessian", HESSIANS)
    alpha = as_number(prior_precision, "prior_precision", low=0, open_low=True)
    sigma = noise_of(likelihood, noise_std)
    inputs, targets = gather(inputs, targets)
    tensor = as_inputs(inputs, model)
    device, dtype = next(model.parameters()).device, next(model.parameters()).dtype
    with evaluating(model), torch.no_grad():
        first = model(tensor[:1].to(device, copy=True))
        outputs = first.shape[-1]
        # One row of logits may sum to 1 by chance; some more will not.
        few = tensor[:FEW].to(device, copy=True)
        softmax = are_probabilities(first) and are_probabilities(model(few))
    if likelihood == "classification":
        expect_classes(outputs)
        if softmax:
            raise ValueError("model: expected logits, got rows that sum to 1: leave the softmax out")
    labels = as_tensor(targets_of(likelihood, targets, len(tensor), outputs))
    labels = labels if likelihood == "classification" else labels.to(dtype)
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
