"""Whether confidence means what it says, bin by bin: what a reliability diagram draws."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_choice, as_flags, as_own_real, as_whole
from uqhelpers.metrics._common import confidence_and_correct

__all__ = ["ReliabilityCurve", "reliability_curve", "reliability_from_confidence"]

MOST = 1_000_000  # bins; more would only fill the memory


@dataclass(frozen=True)
class ReliabilityCurve:
    """Mean confidence and accuracy of the bins that hold at least one prediction.

    Empty bins have neither, so they are left out: ``K`` bins are kept.

    Attributes
    ----------
    edges : array, shape (bins + 1,)
        The edges of all bins; bin ``i`` is ``(edges[i], edges[i + 1]]``, and
        0 belongs to the first.
    index : array of int, shape (K,)
        Which of the bins are kept.
    count : array of int, shape (K,)
        How many predictions each of them holds.
    confidence : array, shape (K,)
        Their mean confidence.
    accuracy : array, shape (K,)
        The share of them that is correct.
    """

    edges: np.ndarray
    index: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def lower(self):
        """Lower edge of each kept bin, shape (K,)."""
        return self.edges[self.index]

    @property
    def upper(self):
        """Upper edge of each kept bin, shape (K,)."""
        return self.edges[self.index + 1]

    @property
    def gap(self):
        """Confidence minus accuracy of each kept bin, shape (K,): above 0 is over-confident."""
        return self.confidence - self.accuracy

    @property
    def share(self):
        """Share of all predictions in each kept bin, shape (K,); sums to 1."""
        return self.count / self.count.sum()

    @property
    def expected_error(self):
        """Expected calibration error: the mean of ``|gap|`` over predictions."""
        return float(self.share @ np.abs(self.gap))

    @property
    def maximum_error(self):
        """Maximum calibration error: the largest ``|gap|``."""
        return float(np.abs(self.gap).max())


def equal_width_edges(bins):
    # A quotient is the float nearest to i/bins; linspace misses some by a bit, and .6 with them.
    return np.arange(bins + 1) / bins


def equal_mass_ends(ranked, bins):
    """Where bins of equal numbers end in sorted values, with equal values kept together."""
    quantiles = -(-np.arange(1, bins + 1) * len(ranked) // bins)  # rounded up
    quantiles = np.unique(np.maximum(quantiles, 1))
    return np.unique(np.searchsorted(ranked, ranked[quantiles - 1], side="right"))


def equal_mass_edges(confidence, bins, smallest=1):
    """The edges of such bins; bins with fewer than ``smallest`` values are joined with the next."""
    ranked = np.minimum(np.sort(confidence), 1)  # rounding can leave a sum of probabilities above 1
    edges, filled = [0.0], 0
    for end in equal_mass_ends(ranked, bins):
        if end - filled >= smallest and len(ranked) - end >= smallest:
            edges.append(ranked[end - 1])
            filled = end
    return np.array([*edges, 1.0])


def binned(confidence, correct, edges):
    """The reliability curve over bins with these edges."""
    # The edges take the confidence's own precision: a float32 .6 lies above a float64 .6.
    bins = len(edges) - 1
    place = np.searchsorted(edges.astype(confidence.dtype), confidence, side="left") - 1
    place = np.clip(place, 0, bins - 1)  # 0 into the first; rounding above 1 into the last
    count = np.bincount(place, minlength=bins)
    total = np.bincount(place, weights=confidence, minlength=bins)
    right = np.bincount(place, weights=correct, minlength=bins)
    index = np.flatnonzero(count)
    count = count[index]
    return ReliabilityCurve(edges, index, count, total[index] / count, right[index] / count)


def edges_of(confidence, bins, spacing):
    """The edges of so many bins of equal width or equal numbers."""
    bins = as_whole(bins, "bins", high=MOST)
    as_choice(spacing, "spacing", ("width", "mass"))
    return equal_width_edges(bins) if spacing == "width" else equal_mass_edges(confidence, bins)


def _as_confidence(confidence, correct):
    confidence = as_own_real(confidence, "confidence", ndim=1)
    if confidence.min() < 0 or confidence.max() > 1:
        raise ValueError(
            f"confidence: expected values in [0, 1], got {confidence.min():.4g} to {confidence.max():.4g}"
        )
    return confidence, as_flags(correct, "correct", length=len(confidence))


def reliability_curve(probs, labels, bins=10, spacing="width"):
    """Mean confidence against accuracy, bin by bin: what a reliability diagram draws.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
    labels : array of int, shape (N,), from 0 to C - 1
    bins : int
        Number of bins of the confidence, up to a million.
    spacing : {"width", "mass"}
        Bins of equal width, or of equal numbers of predictions. The bins are
        right-closed, ``(a, b]``; the edges are compared in the precision of
        ``probs``; equal confidences always share a bin.

    Returns
    -------
    ReliabilityCurve
        With empty bins left out.

    References
    ----------
    DeGroot and Fienberg (1983), The comparison and evaluation of forecasters;
    Niculescu-Mizil and Caruana (2005), Predicting good probabilities with
    supervised learning.
    """
    confidence, correct = confidence_and_correct(probs, labels)
    return binned(confidence, correct, edges_of(confidence, bins, spacing))


def reliability_from_confidence(confidence, correct, bins=10, spacing="width"):
    """The reliability curve of confidences that come from anywhere.

    Parameters
    ----------
    confidence : array, shape (N,)
        The confidence in each prediction, from 0 to 1.
    correct : array of bool, shape (N,)
        Whether the prediction was right.
    bins, spacing : as in ``reliability_curve``

    Returns
    -------
    ReliabilityCurve
        With empty bins left out.
    """
    confidence, correct = _as_confidence(confidence, correct)
    return binned(confidence, correct, edges_of(confidence, bins, spacing))
