"""Intervals: around a mean, in units of a predicted spread, around quantiles; and without data set apart."""

import numpy as np

from uqhelpers._checks import as_choice, as_real, as_scores, as_whole, to_numpy
from uqhelpers.batches import gather
from uqhelpers.conformal.ranks import as_level, as_weights, quantile, rank
from uqhelpers.metrics._common import blocks

__all__ = ["SplitRegressor", "cv_plus", "jackknife_plus"]

COLUMNS = {"absolute": 1, "normalised": 1, "cqr": 2}


class SplitRegressor:
    """Intervals that hold the target with probability at least 1 - alpha.

    The promise is meant as that of :class:`SplitClassifier`.

    Parameters
    ----------
    score : str
        ``"absolute"``: distance from a predicted mean, one width for all.
        ``"normalised"``: the same in units of a predicted spread. ``"cqr"``: how
        far outside of two predicted quantiles, negative inside.
    alpha : float
        Accepted rate of misses, in [0, 1].

    Attributes
    ----------
    threshold_ : float
        The largest score that is let in; None with weights.

    References
    ----------
    Lei et al. (2018), Distribution-free predictive inference for regression;
    Romano, Patterson and Candès (2019), Conformalized quantile regression.
    """

    def __init__(self, score="absolute", alpha=0.1):
        self.score = as_choice(score, "score", tuple(COLUMNS))
        as_level(alpha)
        self.alpha = alpha

    def fit(self, predictions, y=None, spread=None, weights=None):
        """Find the threshold from held-out predictions.

        Parameters
        ----------
        predictions : array, shape (n,), or (n, 2) with ``"cqr"``
            Predicted means, or lower and upper quantiles, for inputs that the
            model was not fitted to; or a ``DataLoader`` of them and their targets.
        y : array, shape (n,)
            Their targets; left out with a loader.
        spread : array, shape (n,), optional
            With ``"normalised"``: a predicted scale above 0, such as σ.
        weights : array, shape (n,), optional
            Under covariate shift: see ``quantile``.

        Returns
        -------
        SplitRegressor, itself
        """
        predictions, y = gather(predictions, y)
        predictions, spread = self._checked(predictions, spread)
        y = as_real(y, "y", ndim=1)
        if len(y) != len(predictions):
            raise ValueError(f"y: expected {len(predictions)} targets, one an input, got {len(y)}")
        if self.score == "cqr":
            scores = np.maximum(predictions[:, 0] - y, y - predictions[:, 1])
        else:
            scores = np.abs(y - predictions)
            scores = scores if spread is None else scores / spread
        weights = None if weights is None else as_weights(weights, "weights", len(y)).copy()
        threshold = quantile(scores, self.alpha) if weights is None else None
        # From here on nothing can fail: what could not be fitted again stays what it was.
        self._scores, self._weights, self.threshold_ = scores, weights, threshold
        return self

    def _checked(self, predictions, spread):
        predictions = to_numpy(predictions, "predictions").astype(np.float64, copy=False)
        if predictions.ndim != COLUMNS[self.score] or (self.score == "cqr" and predictions.shape[1:] != (2,)):
            expected = "(inputs, 2)" if self.score == "cqr" else "(inputs,)"
            raise ValueError(f"predictions: expected shape {expected}, got {predictions.shape}")
        if not len(predictions) or not all(
            np.isfinite(predictions[part]).all() for part in blocks(len(predictions), predictions.ndim)
        ):
            raise ValueError("predictions: expected at least one, all finite, got none, NaN or infinity")
        if (spread is not None) != (self.score == "normalised"):
            raise ValueError("spread: expected with the score 'normalised', and only then")
        if spread is not None:
            spread = as_scores(spread, "spread", len(predictions))
            if spread.min() <= 0 or not np.isfinite(spread).all():
                raise ValueError(f"spread: expected finite scales above 0, got {spread.min():.4g}")
        return predictions, spread

    def predict(self, predictions, spread=None, weights=None):
        """The intervals of new inputs.

        Parameters
        ----------
        predictions : array, shape (N,), or (N, 2) with ``"cqr"``
            As in ``fit``.
        spread : array, shape (N,), optional
            As in ``fit``.
        weights : array, shape (N,), optional
            Asked for where ``fit`` had weights.

        Returns
        -------
        array, shape (N, 2), float64
            Lower and upper ends, infinite where the calibration set is too small.
            With ``"cqr"`` an interval whose lower end lies above its upper end is
            empty.
        """
        if not hasattr(self, "_scores"):
            raise ValueError("predict: expected a fitted regressor, call fit first")
        predictions, spread = self._checked(predictions, spread)
        if (weights is not None) != (self._weights is not None):
            raise ValueError("weights: expected where fit had weights, and only there")
        reach = self.threshold_
        if weights is not None:
            weights = as_weights(weights, "weights", len(predictions), some=False)
            reach = quantile(self._scores, self.alpha, self._weights, weights)
        ends = np.empty((len(predictions), 2))
        if spread is not None:
            reach = reach * spread
        columns = (predictions, predictions) if predictions.ndim == 1 else predictions.T
        np.subtract(columns[0], reach, out=ends[:, 0])
        np.add(columns[1], reach, out=ends[:, 1])
        return ends


def jackknife_plus(residuals, predictions, alpha=0.1):
    """Intervals from leave-one-out models: no data set apart, and a promise of 1 - 2 alpha.

    Parameters
    ----------
    residuals : array, shape (n,)
        Absolute errors of each model at the example that it left out.
    predictions : array, shape (n, N)
        Predictions of each of these models, one an example, for the new inputs.
    alpha : float
        Coverage is usually about 1 - alpha, and at least 1 - 2 alpha.

    Returns
    -------
    array of lower and upper ends, shape (N, 2), float64

    References
    ----------
    Barber, Candès, Ramdas and Tibshirani (2021), Predictive inference with the
    jackknife+, section 1.2.
    """
    residuals = as_real(residuals, "residuals", ndim=1)
    return cv_plus(residuals, predictions, np.arange(len(residuals)), alpha)


def cv_plus(residuals, predictions, folds, alpha=0.1):
    """Intervals from the models of a cross-validation.

    Parameters
    ----------
    residuals : array, shape (n,)
        Absolute errors at each example, of the model that left its fold out.
    predictions : array, shape (K, N)
        Predictions of the K models, one a fold, for the new inputs.
    folds : array, shape (n,)
        The fold of each example, from 0 to K - 1.
    alpha : float
        Coverage is usually about 1 - alpha, and at least
        1 - 2 alpha - sqrt(2 / n).

    Returns
    -------
    array of lower and upper ends, shape (N, 2), float64

    References
    ----------
    Barber et al. (2021), as for :func:`jackknife_plus`, section 3.
    """
    residuals = as_real(residuals, "residuals", ndim=1)
    predictions = as_real(predictions, "predictions", ndim=2)
    folds = to_numpy(folds, "folds")
    if residuals.min() < 0:
        raise ValueError(f"residuals: expected absolute errors, got {residuals.min():.4g}")
    if folds.shape != residuals.shape or folds.dtype.kind not in "iu":
        raise ValueError(f"folds: expected {len(residuals)} whole numbers, one an example, got {folds.shape}")
    as_whole(int(folds.max()), "folds", low=0, high=len(predictions) - 1)
    as_whole(int(folds.min()), "folds", low=0)
    n, ends = len(residuals), np.empty((predictions.shape[1], 2))
    k = rank(n, alpha)
    for part in blocks(len(ends), n):
        centres = predictions[folds, part]
        ends[part, 0] = -_ranked(residuals[:, None] - centres, k)
        ends[part, 1] = _ranked(centres + residuals[:, None], k)
    return ends


def _ranked(values, k):
    """The k-th smallest of each column, minus or plus infinity beyond the ends."""
    if not 1 <= k <= len(values):
        return np.full(values.shape[1], np.inf if k else -np.inf)
    return np.partition(values, k - 1, axis=0)[k - 1]
