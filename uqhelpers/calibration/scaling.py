"""A scale and a shift for each class's logit, fitted to held-out labels."""

import warnings

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_labels, as_number, as_real

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

    def fit(self, logits, labels):
        """Minimise the negative log-likelihood of held-out labels, which is convex here.

        Parameters
        ----------
        logits : array, shape (N, C)
            Logits of held-out inputs.
        labels : array of int, shape (N,)
            True classes, from 0 to ``C - 1``.

        Returns
        -------
        VectorScaling
            Itself.

        Raises
        ------
        ValueError
            If ``logits`` are not finite numbers of shape (N, C), or ``labels``
            do not fit them.

        Warns
        -----
        RuntimeWarning
            If no optimum was reached, as when the logits are separable or a
            class has no label, and there is no penalty.
        """
        from scipy.optimize import minimize

        logits = as_real(logits, "logits", ndim=2)
        labels = as_labels(labels, logits.shape[1], length=len(logits))
        classes = logits.shape[1]
        truth = np.eye(classes)[labels]
        spread = float(logits.std()) or 1.0  # logits of size 1 make the steps well scaled
        scaled, nothing = logits / spread, np.concatenate([np.full(classes, spread), np.zeros(classes)])
        units = np.concatenate([np.full(classes, 1 / spread), np.ones(classes)])

        def loss(parameters):
            moved = scaled * parameters[:classes] + parameters[classes:]
            largest = moved.max(axis=1, keepdims=True)
            log_sum = np.log(np.exp(moved - largest).sum(axis=1, keepdims=True)) + largest
            away = (parameters - nothing) * units
            value = np.mean(log_sum[:, 0] - moved[truth.astype(bool)]) + self.penalty * away @ away
            error = (np.exp(moved - log_sum) - truth) / len(logits)
            slope = np.concatenate([(error * scaled).sum(axis=0), error.sum(axis=0)])
            return value, slope + 2 * self.penalty * away * units

        found = minimize(
            loss,
            nothing,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxfun": 5 * STEPS, "ftol": 1e-14, "gtol": 1e-8},
        )
        value, slope = loss(found.x)
        endless = not self.penalty and (value < 1e-6 or not truth.any(axis=0).all())
        if endless or np.abs(slope).max() > 1e-5:
            warnings.warn(
                "no optimum was reached: separable logits or a class without labels have none; "
                "a penalty gives them one",
                RuntimeWarning,
                stacklevel=2,
            )
        self.scale, self.shift = found.x[:classes] / spread, found.x[classes:]
        return self

    def predict(self, logits):
        """Class probabilities of scaled and shifted logits.

        Parameters
        ----------
        logits : array, shape (N, C)
            Logits.

        Returns
        -------
        array, shape (N, C), float64
            Probabilities.

        Raises
        ------
        ValueError
            If nothing was fitted yet, or the logits have another number of classes.
        """
        logits = as_real(logits, "logits", ndim=2)
        check_fitted(self.scale, "logits", logits, len(self.scale) if self.scale is not None else 0)
        return metrics.from_logits(logits * self.scale + self.shift)


def check_fitted(fitted, name, array, classes):
    if fitted is None:
        raise ValueError(f"{name}: expected a calibration that was fitted, call fit first; got {array.shape}")
    if array.shape[1] != classes:
        raise ValueError(f"{name}: expected {classes} classes as when fitted, got {array.shape[1]}")
