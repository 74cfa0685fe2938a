"""A scale and a shift for each class's logit, fitted to held-out labels."""

import warnings

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_labels, as_number, as_real
from uqhelpers.features import as_arrays, power_of_two

__all__ = ["VectorScaling"]

STEPS = 1000  # of L-BFGS: far more than a convex loss in 2 C parameters needs


class VectorScaling:
    """A scale and a shift for each class's logit: ``softmax(scale * logits + shift)``.

    Temperature scaling is the case of one scale and no shifts. With ``2 C``
    parameters more can be mended and more can be overfitted, and the predicted
    class can change.

    Parameters
    ----------
    penalty : float
        Factor, at least 0, of the squared distance from changing nothing (all
        scales 1, all shifts 0), which is added to the mean negative
        log-likelihood. A little of it gives separable logits an optimum.

    Attributes
    ----------
    scale, shift : array, shape (C,)
        What was fitted. Scales can come out negative: nothing forbids it.

    References
    ----------
    Guo et al. (2017), On calibration of modern neural networks, section 4.2.
    """

    def __init__(self, penalty=0.0):
        self.penalty = as_number(penalty, "penalty", low=0)
        self.scale = self.shift = None

    def fit(self, logits, labels=None):
        """Minimise the negative log-likelihood of held-out labels, which is convex here.

        Parameters
        ----------
        logits : array, shape (N, C), or iterable of batches
            Logits of held-out inputs; or a ``DataLoader`` of pairs
            ``(logits, labels)``.
        labels : array of int, shape (N,), from 0 to C - 1; a loader brings its own

        Returns
        -------
        VectorScaling, itself

        Warns
        -----
        RuntimeWarning
            If no optimum was reached, as when the logits are separable, a single
            class can be told from the others without an error, or one has no
            label, and there is no penalty.
        """
        from scipy.optimize import minimize

        logits, labels = as_arrays(logits, labels)
        logits = _as_logits(logits)
        labels = as_labels(labels, logits.shape[1], length=len(logits))
        loss = _Loss(logits, labels, self.penalty)
        found = minimize(
            loss,
            loss.start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxfun": 5 * STEPS, "ftol": 1e-14, "gtol": 1e-8},
        )
        value, slope = loss(found.x)
        settled = np.isfinite(value) and np.abs(slope).max() <= 1e-5
        if not settled or (not self.penalty and (value < 1e-6 or loss.is_endless(found.x))):
            warnings.warn(
                "no optimum was reached: separable logits or a class without labels have none; "
                "a penalty gives them one",
                RuntimeWarning,
                stacklevel=2,
            )
        self.scale, self.shift = found.x[: loss.classes] / loss.spread, found.x[loss.classes :]
        return self

    def predict(self, logits):
        """Class probabilities of scaled and shifted logits.

        Parameters
        ----------
        logits : array, shape (N, C)
            Logits.

        Returns
        -------
        array of probabilities, shape (N, C), float64
        """
        logits = as_real(logits, "logits", ndim=2)
        check_fitted(self.scale, "logits", logits, len(self.scale) if self.scale is not None else 0)
        return metrics.from_logits(_as_logits(logits) * self.scale + self.shift)


def check_fitted(fitted, name, array, classes):
    if fitted is None:
        raise ValueError(f"{name}: expected a calibration that was fitted, call fit first; got {array.shape}")
    if array.shape[1] != classes:
        raise ValueError(f"{name}: expected {classes} classes as when fitted, got {array.shape[1]}")


def _as_logits(logits):
    logits = as_real(logits, "logits", ndim=2)
    if logits.shape[1] > 1 and logits.min() >= 0 and np.abs(logits.sum(axis=1) - 1).max() < 1e-6:
        raise ValueError("logits: expected logits, got rows that sum to 1: are these probabilities?")
    return logits


class _Loss:
    """The mean negative log-likelihood of scales and shifts, of logits that were brought to size 1."""

    def __init__(self, logits, labels, penalty):
        self.classes, self.penalty = logits.shape[1], penalty
        self.truth = np.eye(self.classes, dtype=bool)[labels]
        unit = power_of_two(np.abs(logits).max())  # squares of what is left stay inside float64
        self.spread = float((logits / unit).std() * unit) or 1.0  # steps are well scaled then
        self.scaled = logits / self.spread
        nothing = np.zeros(self.classes)
        self.nothing = np.concatenate([nothing + self.spread, nothing])
        self.units = np.concatenate([nothing + 1 / self.spread, nothing + 1])
        # From where nothing is changed, unless that is so far out that no slope is left.
        self.start = self.nothing if penalty else np.minimum(self.nothing, 1e6)

    def _probabilities(self, parameters):
        moved = self.scaled * parameters[: self.classes] + parameters[self.classes :]
        moved = moved - moved.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(moved).sum(axis=1, keepdims=True))
        return np.exp(moved - log_sum), np.mean(log_sum[:, 0] - moved[self.truth])

    def __call__(self, parameters):
        probs, value = self._probabilities(parameters)
        away = (parameters - self.nothing) * self.units
        error = (probs - self.truth) / len(probs)
        slope = np.concatenate([(error * self.scaled).sum(axis=0), error.sum(axis=0)])
        return value + self.penalty * away @ away, slope + 2 * self.penalty * away * self.units

    def is_endless(self, parameters):
        """Whether the likelihood has no maximum: some way goes on for ever without becoming worse.

        Ways that leave it the same in both directions do not count: all shifts
        together, or a scale and the shift of a logit that is always the same.
        """
        probs, value = self._probabilities(parameters)
        weighted = [probs, probs * self.scaled, probs * self.scaled**2]
        corner = [np.diag(part.sum(axis=0)) for part in weighted]
        blocks = [
            [corner[2] - weighted[1].T @ weighted[1], corner[1] - weighted[1].T @ weighted[0]],
            [corner[1] - weighted[0].T @ weighted[1], corner[0] - weighted[0].T @ weighted[0]],
        ]
        curvature = np.block(blocks) / len(probs)
        curvature[self.classes :, self.classes :] += curvature.max()  # not all shifts together
        sizes, ways = np.linalg.eigh(curvature)
        step = 10 * (1 + np.abs(parameters).max())
        for way in ways.T[sizes < 1e-5 * sizes[-1]]:
            there, back = (self._probabilities(parameters + sign * step * way)[1] for sign in (1, -1))
            if min(there, back) <= value + 1e-9 and max(there, back) > value + 1e-6:
                return True
        return not self.truth.any(axis=0).all()
