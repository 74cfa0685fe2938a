"""Alarms in wide use, in plain form, to stand beside those with a stated rate."""

import numpy as np

from uqhelpers._checks import as_flags, as_number, as_real, as_whole

__all__ = ["adwin", "page_hinkley", "repeated_test"]


def _first(rings):
    return float(rings.argmax()) if rings.any() else np.inf


def repeated_test(misses, alpha, window=100, level=0.05, every=1):
    """The alarm that everybody writes: test the last cases, again and again.

    Parameters
    ----------
    misses : array of bool, shape (T,)
        Whether each set missed the truth.
    alpha : float
        The promised rate of misses, above 0 and below 1.
    window : int
        How many of the last cases are tested.
    level : float
        Of each test, one-sided and exact (binomial).
    every : int
        Cases from one test to the next.

    Returns
    -------
    float
        The first step at which a test rejects, counted from 0; infinite if none does.
    """
    from scipy.stats import binom

    misses = as_flags(misses, "misses")
    alpha = as_number(alpha, "alpha", low=0, high=1, open_low=True)
    if alpha == 1:
        raise ValueError("alpha: expected a number below 1, got 1")
    window, every = as_whole(window, "window"), as_whole(every, "every")
    level = as_number(level, "level", low=0, high=1)
    too_many = np.flatnonzero(binom.sf(np.arange(-1, window), window, alpha) <= level)
    if not len(too_many) or len(misses) < window:
        return np.inf
    total = np.concatenate([[0], np.cumsum(misses)])
    counts = total[window:] - total[:-window]
    rings = counts >= too_many[0]
    rings[np.arange(len(rings)) % every != 0] = False
    return _first(rings) + window - 1


def page_hinkley(values, tolerance=0.005, limit=50.0):
    """The test of Page and Hinkley for a rise, with settings that libraries come with.

    Parameters
    ----------
    values : array, shape (T,)
        Losses or misses, in order.
    tolerance : float
        A rise that does not count.
    limit : float
        Of the sum of what lies above the running mean. It has no rate.

    Returns
    -------
    float
        As ``repeated_test``.

    References
    ----------
    Page (1954), Continuous inspection schemes; Hinkley (1971), Inference about the
    change-point from cumulative sum tests.
    """
    values = as_real(values, "values", ndim=1)
    tolerance, limit = as_number(tolerance, "tolerance"), as_number(limit, "limit")
    mean = np.cumsum(values) / np.arange(1, len(values) + 1)
    total = np.cumsum(values - mean - tolerance)
    return _first(total - np.minimum(np.minimum.accumulate(total), 0) > limit)


def adwin(values, delta=0.002, every=32):
    """Adaptive windowing in its plain form: is there a cut whose two sides differ by too much?

    Stops at the first cut that is found, so that it is an alarm.

    Parameters
    ----------
    values : array, shape (T,)
        Numbers in [0, 1], in order.
    delta : float
        The chance of a false cut *at one step*; above 0.
    every : int
        Steps from one look to the next.

    Returns
    -------
    float
        As ``repeated_test``.

    References
    ----------
    Bifet and Gavaldà (2007), Learning from time-changing data with adaptive
    windowing, the bound of section 3.1.
    """
    values = as_real(values, "values", ndim=1)
    if values.min() < 0 or values.max() > 1:
        raise ValueError(f"values: expected numbers in [0, 1], got {values.min():.4g} to {values.max():.4g}")
    delta = as_number(delta, "delta", low=0, high=1, open_low=True)
    total = np.concatenate([[0], np.cumsum(values)])
    for end in range(as_whole(every, "every"), len(values) + 1, every):
        left = np.arange(1, end)
        right = end - left
        gap = np.abs(total[left] / left - (total[end] - total[left]) / right)
        bound = np.sqrt((1 / left + 1 / right) / 2 * np.log(4 * end / delta))
        if (gap >= bound).any():
            return float(end - 1)
    return np.inf
