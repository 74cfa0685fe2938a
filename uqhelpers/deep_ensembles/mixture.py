"""The mixture that an ensemble predicts: its moments, its likelihood, and what the members say."""

import dataclasses

import numpy as np

from uqhelpers._checks import as_choice, as_real
from uqhelpers.features import power_of_two
from uqhelpers.metrics import RegressionPrediction

PROBABILISTIC = ("gaussian", "laplace")


@dataclasses.dataclass(frozen=True, eq=False)
class MixturePrediction(RegressionPrediction):
    """A ``RegressionPrediction`` that also tells the noise apart.

    Attributes
    ----------
    aleatoric : array, shape (N,) or (N, K)
        Standard deviation of the noise, as the members predict it on average:
        ``total² = aleatoric² + epistemic²``.
    """

    aleatoric: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class MemberPredictions:
    """What each member predicts. ``locations, scales = predictions`` takes both.

    Attributes
    ----------
    locations : array, shape (M, N) or (M, N, K)
        Mean of a Gaussian, or median of a Laplace distribution.
    scales : array of the same shape, or None
        σ of a Gaussian or b of a Laplace distribution; None where the members
        were trained without one.
    """

    locations: np.ndarray
    scales: np.ndarray | None

    def __iter__(self):
        return iter((self.locations, self.scales))


def laplace_nll(location, scale, y):
    """Average negative log-likelihood of targets under predicted Laplace distributions, lower is better.

    ``log(2 scale) + |y - location| / scale``.

    Parameters
    ----------
    location, scale : array, the shape of ``y``, or a number
        Median and scale b of each prediction, in the unit of ``y``; ``scale``
        above 0. The standard deviation is ``sqrt(2) * scale``.
    y : array
        Targets, of any shape.

    Returns
    -------
    float
        In nats a target; it can be below 0, for a density can exceed 1.
    """
    y = as_real(y, "y")
    location, scale = as_real(location, "location"), as_real(scale, "scale")
    for name, values in (("location", location), ("scale", scale)):
        if values.ndim and values.shape != y.shape:
            raise ValueError(f"{name}: expected a number or the shape of y, {y.shape}, got {values.shape}")
    _above_zero(scale, "scale")
    with np.errstate(over="ignore"):
        return float((np.log(2 * scale) + np.abs(y - location) / scale).mean())


def mixture_moments(locations, scales=None, likelihood="gaussian"):
    """Mean and standard deviations of the uniform mixture of the members' predictions.

    The variance of a mixture is the mean of the members' variances plus the
    variance of their means. A member's variance is σ² for a Gaussian and 2 b²
    for a Laplace distribution.

    Parameters
    ----------
    locations : array, shape (M, N) or (M, N, K)
        What each of ``M`` members predicts, in the unit of the target.
    scales : array, the same shape, optional
        σ or b of each prediction, above 0. Without scales there is no
        aleatoric part.
    likelihood : {"gaussian", "laplace"}
        Of what the scales are scales.

    Returns
    -------
    MixturePrediction
        Standard deviations, not variances. ``epistemic`` divides by ``M``, not
        by ``M - 1``: the mixture is taken for what it is.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable
    predictive uncertainty estimation using deep ensembles, section 2.4.
    """
    locations, scales = _members(locations, scales)
    factor = {"gaussian": 1.0, "laplace": 2.0}[as_choice(likelihood, "likelihood", PROBABILISTIC)]
    mean = locations.mean(axis=0)
    away, scales = locations - mean, np.zeros_like(locations) if scales is None else scales
    # In a unit for each target, a power of two, squares stay inside float64, and nothing is rounded.
    unit = power_of_two(np.maximum(np.abs(away), scales).max(axis=0))
    epistemic = np.square(away / unit).mean(axis=0)
    aleatoric = factor * np.square(scales / unit).mean(axis=0)
    variances = epistemic, aleatoric + epistemic, aleatoric
    return MixturePrediction(mean, *(np.sqrt(variance) * unit for variance in variances))


def mixture_nll(locations, scales, targets, likelihood="gaussian"):
    """Average negative log-likelihood of targets under the mixture of the members' predictions.

    ``-log(1/M Σ p_m(y))``, by a log-sum-exp. It is never above the average of
    the members' own negative log-likelihoods (Jensen).

    Parameters
    ----------
    locations, scales : array, shape (M, N) or (M, N, K)
        As in ``mixture_moments``. With ``K`` targets an input, each is scored
        by itself.
    targets : array, shape (N,) or (N, K)
        Targets.
    likelihood : {"gaussian", "laplace"}
        Of what the scales are scales.

    Returns
    -------
    float
        In nats a target.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), section 2.4.
    """
    from scipy.special import logsumexp

    if scales is None:
        raise ValueError("scales: expected the members' scales, got None")
    locations, scales = _members(locations, scales)
    targets = as_real(targets, "targets")
    if targets.shape != locations.shape[1:]:
        raise ValueError(f"targets: expected shape {locations.shape[1:]}, got {targets.shape}")
    logs = _log_density(locations, scales, targets, likelihood)
    return float((np.log(len(logs)) - logsumexp(logs, axis=0)).mean())


def _log_density(locations, scales, targets, likelihood):
    with np.errstate(over="ignore"):
        standardised = (targets - locations) / scales
        if as_choice(likelihood, "likelihood", PROBABILISTIC) == "laplace":
            return -np.log(2 * scales) - np.abs(standardised)
        return -np.log(scales) - 0.5 * np.log(2 * np.pi) - 0.5 * standardised**2


def _members(locations, scales):
    locations = as_real(locations, "locations")
    if locations.ndim not in (2, 3):
        raise ValueError(
            f"locations: expected (members, inputs) or (members, inputs, K), got {locations.shape}"
        )
    if scales is None:
        return locations, None
    scales = as_real(scales, "scales")
    if scales.shape != locations.shape:
        raise ValueError(f"scales: expected the shape of locations, {locations.shape}, got {scales.shape}")
    return locations, _above_zero(scales, "scales")


def _above_zero(values, name):
    if values.min() <= 0:
        raise ValueError(f"{name}: expected values above 0, got {values.min():.4g}")
    return values
