"""How good predicted distributions of real numbers are: likelihood, CRPS, intervals, calibration."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_choice, as_own_real, as_real
from uqhelpers.metrics._common import alike

__all__ = [
    "RegressionCalibration",
    "RegressionPrediction",
    "crps_gaussian",
    "gaussian_nll",
    "interval_coverage",
    "interval_width",
    "regression_calibration_curve",
]


@dataclass(frozen=True, eq=False)
class RegressionPrediction:
    """Predicted mean and standard deviations, in the units of the targets.

    Every method here that predicts real numbers answers with this.

    Attributes
    ----------
    mean : array, shape (N,) or (N, K)
        Predictive mean.
    epistemic : array, the same shape
        Standard deviation of the function's value: what the data leave open.
    total : array, the same shape
        Standard deviation of a new observation: that of the function and the
        noise, added in square.
    """

    mean: np.ndarray
    epistemic: np.ndarray
    total: np.ndarray


@dataclass(frozen=True)
class RegressionCalibration:
    """Promised against observed frequencies.

    Attributes
    ----------
    expected : array, shape (L,)
        The probability levels, from 0 to 1.
    observed : array, shape (L,)
        The share of the targets inside the interval (or below the quantile) of
        each level. A calibrated model has ``observed = expected``.
    """

    expected: np.ndarray
    observed: np.ndarray

    @property
    def error(self):
        """Mean absolute distance of the two over the levels, from 0 to 1."""
        return float(np.abs(self.observed - self.expected).mean())


def _gaussian(mean, std, y):
    y = as_real(y, "y")
    mean, std = as_real(mean, "mean"), as_real(std, "std")
    for name, values in (("mean", mean), ("std", std)):
        if values.ndim and values.shape != y.shape:
            raise ValueError(f"{name}: expected a number or the shape of y, {y.shape}, got {values.shape}")
    if std.min() <= 0:
        raise ValueError(f"std: expected standard deviations above 0, got {std.min():.4g}")
    return mean, std, y


def gaussian_nll(mean, std, y):
    """Average negative log-likelihood of targets under predicted Gaussians, lower is better.

    ``log(std) + log(2 pi) / 2 + ((y - mean) / std) ** 2 / 2``, with the constant.

    Parameters
    ----------
    mean, std : array, the shape of ``y``, or a number
        Mean and standard deviation (not variance) of each prediction, in the
        unit of ``y``; ``std`` above 0.
    y : array
        Targets, of any shape.

    Returns
    -------
    float in nats a target
        It can be below 0, for a density can exceed 1, and is
        infinite beyond the largest float.

    References
    ----------
    Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and
    estimation, section 4.1.
    """
    mean, std, y = _gaussian(mean, std, y)
    with np.errstate(over="ignore"):  # a square beyond the largest float is infinite, rightly
        standardised = (y - mean) / std
        return float((np.log(std) + 0.5 * np.log(2 * np.pi) + 0.5 * standardised**2).mean())


def crps_gaussian(mean, std, y):
    """Average continuous ranked probability score of predicted Gaussians, lower is better.

    Parameters
    ----------
    mean, std, y : as in ``gaussian_nll``

    Returns
    -------
    float from 0, in the unit of ``y``
        For a prediction without spread it is the
        absolute error.

    References
    ----------
    Gneiting et al. (2005), Calibrated probabilistic forecasting using ensemble
    model output statistics and minimum CRPS estimation, eq. 5.
    """
    from scipy.special import ndtr

    mean, std, y = _gaussian(mean, std, y)
    with np.errstate(over="ignore"):
        error = y - mean
        standardised = error / std
        density = np.exp(-0.5 * standardised**2) / np.sqrt(2 * np.pi)
        score = error * (2 * ndtr(standardised) - 1) + std * (2 * density - 1 / np.sqrt(np.pi))
        return float(score.mean())


def _interval(lower, upper):
    lower, upper = as_own_real(lower, "lower"), as_own_real(upper, "upper")
    if lower.shape != upper.shape:
        raise ValueError(f"upper: expected the shape of lower, {lower.shape}, got {upper.shape}")
    low, high = alike(lower, upper)
    if (low > high).any():
        raise ValueError("upper: expected no upper end below the lower end of its interval")
    return lower, upper


def interval_coverage(lower, upper, y):
    """Share of the targets inside their interval, ends included.

    All are compared in the coarsest floating-point type in which one of them
    came: a target of .6 in float32 lies on the end .6 of a float64 interval.

    Parameters
    ----------
    lower, upper : array, the shape of ``y``
        Ends of the intervals, in the unit of ``y``.
    y : array
        Targets, of any shape.

    Returns
    -------
    float from 0 to 1, to be compared with the level that was promised

    Raises
    ------
    ValueError
        If an interval ends before it begins.

    References
    ----------
    Khosravi et al. (2011), Comprehensive review of neural network-based
    prediction intervals and new advances, eq. 1 (PICP).
    """
    lower, upper = _interval(lower, upper)
    y = as_own_real(y, "y")
    if y.shape != lower.shape:
        raise ValueError(f"y: expected the shape of the intervals, {lower.shape}, got {y.shape}")
    lower, upper, y = alike(lower, upper, y)
    return float(((lower <= y) & (y <= upper)).mean())


def interval_width(lower, upper):
    """Average width of intervals: among those that cover as promised, narrower is better.

    Parameters
    ----------
    lower, upper : array, of one shape
        Ends of the intervals.

    Returns
    -------
    float from 0, in the unit of the ends

    Raises
    ------
    ValueError
        As ``interval_coverage``, if an end lies below its beginning.

    References
    ----------
    Khosravi et al. (2011), as for ``interval_coverage``, eq. 4 (MPIW).
    """
    lower, upper = (ends.astype(np.float64) for ends in _interval(lower, upper))
    with np.errstate(over="ignore"):
        return float((upper - lower).mean())


def regression_calibration_curve(mean, std, y, levels=None, kind="interval"):
    """How often targets fall where predicted Gaussians promise, level by level.

    Parameters
    ----------
    mean, std, y : as in ``gaussian_nll``
    levels : array, shape (L,), optional
        Probability levels from 0 to 1; by default .05, .10, ..., .95.
    kind : {"interval", "quantile"}
        Central intervals, which judge the spread and cannot tell a shift from a
        spread that is too small, or quantiles, which show the shift and are what
        the paper below calls calibrated.

    Returns
    -------
    RegressionCalibration
        Expected and observed frequencies; its ``error`` is their mean distance.

    References
    ----------
    Kuleshov, Fenner and Ermon (2018), Accurate uncertainties for deep learning
    using calibrated regression, section 3.
    """
    from scipy.special import ndtr

    mean, std, y = _gaussian(mean, std, y)
    levels = np.arange(1, 20) / 20 if levels is None else as_real(levels, "levels", ndim=1)
    if levels.min() < 0 or levels.max() > 1:
        raise ValueError(f"levels: expected numbers in [0, 1], got {levels.min():.4g} to {levels.max():.4g}")
    as_choice(kind, "kind", ("interval", "quantile"))
    with np.errstate(over="ignore"):
        place = ndtr(np.ravel((y - mean) / std))  # where in its distribution each target falls
    reached = np.sort(np.abs(2 * place - 1) if kind == "interval" else place)
    return RegressionCalibration(levels, np.searchsorted(reached, levels, side="right") / len(reached))
