"""The one temperature that mends confidence on average."""

import warnings

import numpy as np

from uqhelpers._checks import as_labels, as_number, as_real, to_numpy
from uqhelpers.metrics._common import blocks
from uqhelpers.metrics.decomposition import from_logits

__all__ = ["apply_temperature", "fit_temperature"]

SMALL = 1e-300  # inverse temperatures stay between this and its own inverse


def fit_temperature(logits, labels, low=0.01, high=100.0):
    """The temperature that minimises the negative log-likelihood of held-out labels.

    The loss is convex in the inverse temperature (in the temperature itself it
    is not), so a Newton search inside a shrinking bracket always arrives; a
    fixed number of gradient steps need not.

    Parameters
    ----------
    logits : array, shape (N, C)
        Logits of held-out inputs, not those the model was trained on.
    labels : array of int, shape (N,), from 0 to C - 1
    low, high : float
        Bounds of the search, ``0 < low < high``.

    Returns
    -------
    float
        The temperature, from ``low`` to ``high``. Above 1 the model was
        over-confident.

    Raises
    ------
    ValueError
        If the logits are probabilities. Their logarithms are logits.

    Warns
    -----
    RuntimeWarning
        If there is no optimum between the bounds, and one of them is returned.
        So it is with separable logits, every prediction right: colder is always
        better. If every row of ``logits`` is constant, all temperatures are
        equal and 1 (or the bound next to it) is returned.

    References
    ----------
    Guo et al. (2017), On calibration of modern neural networks, section 4.2.
    """
    logits = as_real(logits, "logits", ndim=2)
    labels = as_labels(labels, logits.shape[1], length=len(logits))
    if logits.shape[1] > 1 and logits.min() >= 0 and np.abs(logits.sum(axis=1) - 1).max() < 1e-6:
        raise ValueError(
            "logits: expected logits, got rows that sum to 1: are these probabilities? Take their logarithms"
        )
    low = as_number(low, "low", low=0.0, open_low=True)
    high = as_number(high, "high", low=low, open_low=True)
    scale = float(np.abs(logits).max()) or 1.0  # with logits in [-1, 1], nothing below can overflow
    logits = logits / scale
    # Seen from the label's own logit, a separable row has no positive entry: the slope's sign is exact.
    ahead = logits - logits[np.arange(len(logits)), labels][:, None]
    if not ahead.any():
        warnings.warn("every row of logits is constant: no temperature matters", RuntimeWarning, stacklevel=2)
        return min(max(1.0, low), high)

    coldest, hottest = (min(max(scale / bound, SMALL), 1 / SMALL) for bound in (low, high))
    if _slope(ahead, coldest)[0] <= 0:
        return _at_bound(low, "colder is still better (separable logits have no optimum)")
    if _slope(ahead, hottest)[0] >= 0:
        return _at_bound(high, "hotter is still better")
    inverse = min(max(scale, hottest), coldest)  # begin at the temperature 1
    below, above = hottest, coldest
    for _ in range(200):
        slope, curvature = _slope(ahead, inverse)
        below, above = (inverse, above) if slope < 0 else (below, inverse)
        step = inverse - slope / curvature if curvature > 0 else below
        # Newton where it stays inside the bracket, else the bracket's geometric middle.
        following = step if below < step < above else below**0.5 * above**0.5
        if abs(following - inverse) <= 1e-12 * inverse:
            break
        inverse = following
    return float(min(max(scale / following, low), high))


def _at_bound(bound, why):
    warnings.warn(
        f"no optimal temperature between the bounds, {why}: returning {bound}", RuntimeWarning, stacklevel=3
    )
    return bound


def _slope(ahead, inverse):
    """First and second derivative of the mean negative log-likelihood by the inverse temperature."""
    slope = curvature = 0.0
    ones = np.ones(ahead.shape[1])
    for part in blocks(len(ahead), ahead.shape[1]):
        block = ahead[part]
        probs = from_logits(block * inverse)
        first = (probs * block) @ ones
        slope += first.sum()
        curvature += ((probs * (block - first[:, None]) ** 2) @ ones).sum()
    return slope / len(ahead), curvature / len(ahead)


def apply_temperature(logits, temperature):
    """Class probabilities at a temperature: ``softmax(logits / temperature)``.

    Parameters
    ----------
    logits : array, shape (..., C)
        Logits.
    temperature : float
        Above 0. Above 1 flattens, below 1 sharpens; the predicted class stays.

    Returns
    -------
    array, same shape, float64
        Probabilities; each row sums to 1.

    References
    ----------
    Guo et al. (2017), On calibration of modern neural networks, eq. 9.
    """
    temperature = as_number(temperature, "temperature", low=0.0, open_low=True)
    logits = to_numpy(logits, "logits").astype(np.float64, copy=False)
    if logits.ndim == 0 or logits.size == 0:
        raise ValueError(f"logits: expected shape (..., classes), not empty, got {logits.shape}")
    # The largest is taken off before the division, which could overflow at low temperatures.
    with np.errstate(invalid="ignore", over="ignore"):
        return from_logits((logits - logits.max(axis=-1, keepdims=True)) / temperature)
