"""Whether confidence means what it says, and the one temperature that mends it on average."""

import warnings
from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import (
    as_choice,
    as_flags,
    as_labels,
    as_number,
    as_real,
    as_whole,
    to_numpy,
)
from uqhelpers.metrics._common import blocks, confidence_and_correct, mean_probabilities
from uqhelpers.metrics.decomposition import from_logits

__all__ = [
    "ReliabilityCurve",
    "adaptive_calibration_error",
    "apply_temperature",
    "calibration_error_from_confidence",
    "calibration_gap",
    "classwise_calibration_error",
    "debiased_calibration_error",
    "expected_calibration_error",
    "fit_temperature",
    "maximum_calibration_error",
    "reliability_curve",
    "reliability_from_confidence",
    "sweep_calibration_error",
]

MOST = 1_000_000  # bins; more would only fill the memory
SMALL = 1e-300  # inverse temperatures stay between this and its own inverse


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


def _equal_width_edges(bins):
    # A quotient is the float nearest to i/bins; linspace misses some by a bit, and .6 with them.
    return np.arange(bins + 1) / bins


def _equal_mass_ends(ranked, bins):
    """Where bins of equal numbers end in sorted values, with equal values kept together."""
    quantiles = -(-np.arange(1, bins + 1) * len(ranked) // bins)  # rounded up
    quantiles = np.unique(np.maximum(quantiles, 1))
    return np.unique(np.searchsorted(ranked, ranked[quantiles - 1], side="right"))


def _equal_mass_edges(confidence, bins, smallest=1):
    """The edges of such bins; bins with fewer than ``smallest`` values are joined with the next."""
    ranked = np.minimum(np.sort(confidence), 1)  # rounding can leave a sum of probabilities above 1
    edges, filled = [0.0], 0
    for end in _equal_mass_ends(ranked, bins):
        if end - filled >= smallest and len(ranked) - end >= smallest:
            edges.append(ranked[end - 1])
            filled = end
    return np.array([*edges, 1.0])


def _curve(confidence, correct, edges):
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


def _edges(confidence, bins, spacing):
    bins = as_whole(bins, "bins", high=MOST)
    as_choice(spacing, "spacing", ("width", "mass"))
    return _equal_width_edges(bins) if spacing == "width" else _equal_mass_edges(confidence, bins)


def _as_confidence(confidence, correct):
    confidence = to_numpy(confidence, "confidence")
    checked = as_real(confidence, "confidence", ndim=1)
    if checked.min() < 0 or checked.max() > 1:
        raise ValueError(
            f"confidence: expected values in [0, 1], got {checked.min():.4g} to {checked.max():.4g}"
        )
    own = confidence if confidence.dtype in (np.float16, np.float32) else checked
    return own, as_flags(correct, "correct", length=len(own))


def reliability_curve(probs, labels, bins=10, spacing="width"):
    """Mean confidence against accuracy, bin by bin: what a reliability diagram draws.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
        Class probabilities. Sampled ones are averaged over ``S`` first.
    labels : array of int, shape (N,)
        True classes, from 0 to ``C - 1``.
    bins : int
        Number of bins of the confidence.
    spacing : {"width", "mass"}
        Bins of equal width, or of equal numbers of predictions. The bins are
        right-closed, ``(a, b]``; the edges are compared in the precision of
        ``probs``; equal confidences always share a bin.

    Returns
    -------
    ReliabilityCurve
        With empty bins left out.

    Raises
    ------
    ValueError
        If ``probs`` are not distributions, ``labels`` do not fit them, ``bins``
        is not a whole number from 1 to a million, or ``spacing`` is another word.

    References
    ----------
    DeGroot and Fienberg (1983), The comparison and evaluation of forecasters;
    Niculescu-Mizil and Caruana (2005), Predicting good probabilities with
    supervised learning.
    """
    confidence, correct = confidence_and_correct(probs, labels)
    return _curve(confidence, correct, _edges(confidence, bins, spacing))


def reliability_from_confidence(confidence, correct, bins=10, spacing="width"):
    """The reliability curve of confidences that come from anywhere.

    Parameters
    ----------
    confidence : array, shape (N,)
        The confidence in each prediction, from 0 to 1.
    correct : array of bool, shape (N,)
        Whether the prediction was right.
    bins, spacing
        As in ``reliability_curve``.

    Returns
    -------
    ReliabilityCurve
        With empty bins left out.

    Raises
    ------
    ValueError
        If ``confidence`` is not a vector in [0, 1], ``correct`` not as many
        flags, or ``bins`` or ``spacing`` cannot be.
    """
    confidence, correct = _as_confidence(confidence, correct)
    return _curve(confidence, correct, _edges(confidence, bins, spacing))


def calibration_error_from_confidence(confidence, correct, bins=10, spacing="width"):
    """Expected calibration error of confidences that come from anywhere.

    Parameters
    ----------
    confidence : array, shape (N,)
        The confidence in each prediction, from 0 to 1.
    correct : array of bool, shape (N,)
        Whether the prediction was right.
    bins, spacing
        As in ``reliability_curve``.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        If ``confidence`` is not a vector in [0, 1], ``correct`` not as many
        flags, or ``bins`` or ``spacing`` cannot be.

    References
    ----------
    Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated
    probabilities using Bayesian binning.
    """
    return reliability_from_confidence(confidence, correct, bins, spacing).expected_error


def expected_calibration_error(probs, labels, bins=10):
    """Expected calibration error: the mean distance of confidence and accuracy over equal-width bins.

    The bins are right-closed, ``(a, b]``: 0 falls into the first, 1 into the
    last, and there is no extra bin for exactly 1. The edges are compared in the
    precision of ``probs``.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
        Class probabilities. Sampled ones are averaged over ``S`` first.
    labels : array of int, shape (N,)
        True classes, from 0 to ``C - 1``.
    bins : int
        Number of bins.

    Returns
    -------
    float
        From 0 to 1. It says nothing of the direction (see ``calibration_gap``),
        and is biased upward when bins hold few predictions (see
        ``debiased_calibration_error``).

    Raises
    ------
    ValueError
        If ``probs`` are not distributions, ``labels`` do not fit them, or
        ``bins`` is not a whole number from 1 to a million.

    References
    ----------
    Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated
    probabilities using Bayesian binning; Guo et al. (2017), On calibration of
    modern neural networks, eq. 3.
    """
    return reliability_curve(probs, labels, bins).expected_error


def maximum_calibration_error(probs, labels, bins=10):
    """Maximum calibration error: the largest distance of confidence and accuracy in any bin.

    Parameters
    ----------
    probs, labels, bins
        As in ``expected_calibration_error``.

    Returns
    -------
    float
        From 0 to 1. A bin with a single prediction can decide it.

    Raises
    ------
    ValueError
        As ``expected_calibration_error``.

    References
    ----------
    Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated
    probabilities using Bayesian binning; Guo et al. (2017), eq. 5.
    """
    return reliability_curve(probs, labels, bins).maximum_error


def adaptive_calibration_error(probs, labels, bins=10):
    """Calibration error over bins that hold equally many predictions.

    Equal confidences stay in one bin, whatever the order of the inputs, so
    saturated predictions can leave fewer bins than asked for. (The class-by-class
    form is ``classwise_calibration_error(..., spacing="mass")``.)

    Parameters
    ----------
    probs, labels, bins
        As in ``expected_calibration_error``.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        As ``expected_calibration_error``.

    References
    ----------
    Nguyen and O'Connor (2015), Posterior calibration and exploratory analysis
    for natural language processing models; Nixon et al. (2019), Measuring
    calibration in deep learning.
    """
    return reliability_curve(probs, labels, bins, "mass").expected_error


def classwise_calibration_error(probs, labels, bins=10, spacing="width"):
    """Calibration error of every class's probability, averaged over the classes.

    For each class the probability it is given stands against how often it is
    the label, in all inputs and not only where it is predicted.

    Parameters
    ----------
    probs, labels, bins
        As in ``expected_calibration_error``.
    spacing : {"width", "mass"}
        Bins of equal width (the static calibration error) or of equal numbers
        (the adaptive one, with ties kept together).

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        As ``reliability_curve``.

    References
    ----------
    Nixon et al. (2019), Measuring calibration in deep learning, section 3;
    Kull et al. (2019), Beyond temperature scaling, eq. 3.
    """
    mean = mean_probabilities(probs)
    labels = as_labels(labels, mean.shape[1], length=len(mean))
    errors = []
    for number in range(mean.shape[1]):
        given = np.ascontiguousarray(mean[:, number])
        errors.append(_curve(given, labels == number, _edges(given, bins, spacing)).expected_error)
    return float(np.mean(errors))


def debiased_calibration_error(probs, labels, bins=15):
    """Root-mean-square calibration error over equal-mass bins, without the bias of counting.

    Within a bin of ``n`` predictions the accuracy scatters around its true
    value with variance ``a (1 - a) / n``, so the squared gap is too large by
    that much on average, even for a perfectly calibrated model. An unbiased
    estimate of it, ``a (1 - a) / (n - 1)``, is subtracted. Bins that ties leave
    with one prediction are joined with the next.

    Parameters
    ----------
    probs, labels
        As in ``expected_calibration_error``; at least two inputs.
    bins : int
        Number of equal-mass bins; at most one for two inputs is used.

    Returns
    -------
    float
        From 0 to 1: the root of the debiased mean square, or 0 where that is
        below 0. It is a root mean square, not below the ECE of the same bins
        but for the correction.

    Raises
    ------
    ValueError
        As ``expected_calibration_error``, or if there is one input only.

    References
    ----------
    Kumar, Liang and Ma (2019), Verified uncertainty calibration, definition 5.1;
    Ferro and Fricker (2012), A bias-corrected decomposition of the Brier score.
    """
    confidence, correct = confidence_and_correct(probs, labels)
    bins = as_whole(bins, "bins", high=MOST)
    if len(confidence) < 2:
        raise ValueError("probs: expected at least two inputs to estimate a variance from, got one")
    bins = min(bins, len(confidence) // 2)
    curve = _curve(confidence, correct, _equal_mass_edges(confidence, bins, smallest=2))
    scatter = curve.accuracy * (1 - curve.accuracy) / (curve.count - 1)
    square = float(curve.share @ (curve.gap**2 - scatter))
    return max(square, 0.0) ** 0.5


def sweep_calibration_error(probs, labels):
    """Equal-mass calibration error with as many bins as keep the accuracy rising.

    A true calibration curve rises with confidence in any sensible model, so
    bins are made finer until the measured accuracies no longer do: beyond that
    they measure noise.

    Parameters
    ----------
    probs, labels
        As in ``expected_calibration_error``.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        If ``probs`` are not distributions or ``labels`` do not fit them.

    References
    ----------
    Roelofs et al. (2022), Mitigating bias in calibration error estimation,
    algorithm 1 (with the exponent 1).
    """
    confidence, correct = confidence_and_correct(probs, labels)
    order = np.lexsort((correct, confidence))
    ranked, right = confidence[order], np.cumsum(correct[order])
    kept = finest = len(ranked)
    if not (np.diff(correct[order].astype(np.int8)) >= 0).all():  # else the finest bins rise already
        kept = 1
        for bins in range(2, finest + 1):
            ends = _equal_mass_ends(ranked, bins)
            rates = np.diff(right[ends - 1], prepend=0) / np.diff(ends, prepend=0)
            if (np.diff(rates) < 0).any():
                break
            kept = bins
    return _curve(confidence, correct, _equal_mass_edges(confidence, kept)).expected_error


def calibration_gap(probs, labels):
    """Mean confidence minus accuracy: which way a model is miscalibrated.

    Parameters
    ----------
    probs, labels
        As in ``expected_calibration_error``.

    Returns
    -------
    float
        From -1 to 1: above 0 over-confident, below 0 under-confident. Its size
        is at most the expected calibration error, whatever the bins.

    Raises
    ------
    ValueError
        If ``probs`` are not distributions or ``labels`` do not fit them.
    """
    confidence, correct = confidence_and_correct(probs, labels)
    return float(confidence.mean(dtype=np.float64) - correct.mean())


def fit_temperature(logits, labels, low=0.01, high=100.0):
    """The temperature that minimises the negative log-likelihood of held-out labels.

    The loss is convex in the inverse temperature (in the temperature itself it
    is not), so a Newton search inside a shrinking bracket always arrives; a
    fixed number of gradient steps need not.

    Parameters
    ----------
    logits : array, shape (N, C)
        Logits of held-out inputs, not those the model was trained on.
    labels : array of int, shape (N,)
        True classes, from 0 to ``C - 1``.
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
        If ``logits`` are not finite numbers of shape (N, C), ``labels`` do not
        fit them, or the bounds are not ``0 < low < high``.

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

    Raises
    ------
    ValueError
        If ``logits`` are not numbers with classes on the last axis, or
        ``temperature`` is not a positive number.

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
