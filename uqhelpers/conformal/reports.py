"""What sets and intervals reached: how often they hold the truth, how large they are, and for whom."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_labels, as_number, as_own_real, to_numpy
from uqhelpers.metrics._common import alike

__all__ = ["CoverageReport", "coverage_report", "covered", "set_sizes"]


@dataclass(frozen=True, eq=False)
class CoverageReport:
    """Coverage and size, by group; every array has one entry a group.

    Parameters
    ----------
    groups : array, shape (G,)
        What the inputs of a group share: a class, a size of set, a number given.
    inputs : array of int, shape (G,)
        How many inputs there are.
    coverage : array, shape (G,)
        Share of them whose truth is in the set.
    low, high : array, shape (G,)
        Exact binomial interval (Clopper-Pearson) for that coverage.
    size : array, shape (G,)
        Mean number of classes, or mean width.
    """

    groups: np.ndarray
    inputs: np.ndarray
    coverage: np.ndarray
    low: np.ndarray
    high: np.ndarray
    size: np.ndarray

    @property
    def overall(self):
        """Coverage of all inputs together."""
        return float(self.coverage @ self.inputs / self.inputs.sum())


def covered(sets, targets):
    """Whether each set holds its target.

    Parameters
    ----------
    sets : array of bool, shape (N, C), or array of float, shape (N, 2)
        Sets of classes, or lower and upper ends of intervals, both included.
    targets : array, shape (N,)
        Classes or numbers. Numbers are compared with the ends in the coarser of
        their precisions.

    Returns
    -------
    array of bool, shape (N,)
    """
    sets = _as_sets(sets)
    if sets.dtype == bool:
        labels = as_labels(targets, sets.shape[1], "targets", len(sets))
        return sets[np.arange(len(sets)), labels]
    targets = as_own_real(targets, "targets", ndim=1)
    if len(targets) != len(sets):
        raise ValueError(f"targets: expected {len(sets)}, one a set, got {len(targets)}")
    sets, targets = alike(sets, targets)
    return (sets[:, 0] <= targets) & (targets <= sets[:, 1])


def set_sizes(sets):
    """How many classes each set holds, or how wide each interval is.

    Parameters
    ----------
    sets : array of bool, shape (N, C), or array of float, shape (N, 2)
        As in ``covered``.

    Returns
    -------
    array, shape (N,)
        Whole numbers for sets; widths of at least 0 for intervals, infinite where
        an end is.
    """
    sets = _as_sets(sets)
    if sets.dtype == bool:
        return np.count_nonzero(sets, axis=1)
    empty = sets[:, 0] >= sets[:, 1]
    return np.where(empty, 0.0, np.subtract(sets[:, 1], sets[:, 0], where=~empty, out=np.zeros(len(sets))))


def coverage_report(sets, targets, by=None, level=0.95):
    """Coverage and size of sets, of all inputs or by group.

    Parameters
    ----------
    sets : array of bool, shape (N, C), or array of float, shape (N, 2)
        Sets of classes, or lower and upper ends of intervals.
    targets : array, shape (N,)
        Classes or numbers.
    by : str or array, shape (N,), optional
        ``"class"`` (for sets of classes), ``"size"``, or the group of each input.
    level : float
        Of the intervals, in (0, 1).

    Returns
    -------
    CoverageReport
    """
    level = as_number(level, "level", low=0, high=1, open_low=True)
    if level == 1:
        raise ValueError("level: expected a number below 1, got 1")
    hit, size = covered(sets, targets), set_sizes(sets)
    groups = _as_groups(by, sets, targets, size)
    names, place = np.unique(groups, return_inverse=True)
    inputs, hits = np.bincount(place), np.bincount(place, weights=hit)
    with np.errstate(invalid="ignore"):
        sizes = np.bincount(place, weights=size) / inputs
    return CoverageReport(names, inputs, hits / inputs, *_clopper_pearson(hits, inputs, level), sizes)


def _as_groups(by, sets, targets, size):
    if by is None:
        return np.zeros(len(size), np.int64)
    if isinstance(by, str):
        if by == "size":
            return size
        if by == "class" and to_numpy(sets, "sets").dtype == bool:
            return to_numpy(targets, "targets").astype(np.int64)
        raise ValueError(f"by: expected 'class' (for sets of classes), 'size' or an array, got {by!r}")
    groups = to_numpy(by, "by")
    if groups.shape != (len(size),):
        raise ValueError(f"by: expected {len(size)} groups, one an input, got shape {groups.shape}")
    if np.isnan(groups).any():
        raise ValueError("by: expected groups, got NaN")
    return groups


def _clopper_pearson(hits, inputs, level):
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = np.where(hits > 0, beta.ppf(tail, np.maximum(hits, 1), inputs - hits + 1), 0.0)
    high = np.where(hits < inputs, beta.ppf(1 - tail, hits + 1, np.maximum(inputs - hits, 1)), 1.0)
    return low, high


def _as_sets(sets):
    array = to_numpy(sets, "sets")
    if array.ndim == 2 and len(array) and array.dtype == bool:
        return array
    if array.ndim == 2 and array.shape[1] == 2 and len(array) and array.dtype.kind == "f":
        if np.isnan(array).any():
            raise ValueError("sets: expected ends of intervals, got NaN")
        return array
    raise ValueError(
        "sets: expected booleans of shape (inputs, classes) or ends of shape (inputs, 2), "
        f"got {array.dtype} of shape {array.shape}"
    )
