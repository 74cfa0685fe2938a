"""Calibration in a number: how far confidence and accuracy are apart, over bins of several kinds."""

import numpy as np

from uqhelpers._checks import as_labels, as_whole, to_numpy
from uqhelpers.metrics._common import confidence_and_correct, in_precision_of, mean_probabilities
from uqhelpers.metrics.reliability import (
    MOST,
    binned,
    edges_of,
    equal_mass_edges,
    equal_mass_ends,
    reliability_curve,
    reliability_from_confidence,
)

__all__ = [
    "adaptive_calibration_error",
    "calibration_error_from_confidence",
    "calibration_gap",
    "classwise_calibration_error",
    "debiased_calibration_error",
    "expected_calibration_error",
    "maximum_calibration_error",
    "sweep_calibration_error",
]


def calibration_error_from_confidence(confidence, correct, bins=10, spacing="width"):
    """Expected calibration error of confidences that come from anywhere.

    Parameters
    ----------
    confidence, correct, bins, spacing : as in ``reliability_from_confidence``

    Returns
    -------
    float from 0 to 1

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
    labels : array of int, shape (N,), from 0 to C - 1
    bins : int
        Number of bins, up to a million.

    Returns
    -------
    float from 0 to 1
        It says nothing of the direction (see ``calibration_gap``),
        and is biased upward when bins hold few predictions (see
        ``debiased_calibration_error``).

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
    probs, labels, bins : as in ``expected_calibration_error``

    Returns
    -------
    float from 0 to 1, decided by a single prediction where it has a bin of its own

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
    probs, labels, bins : as in ``expected_calibration_error``

    Returns
    -------
    float from 0 to 1

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
    probs, labels, bins : as in ``expected_calibration_error``
    spacing : {"width", "mass"}
        Bins of equal width (the static calibration error) or of equal numbers
        (the adaptive one, with ties kept together).

    Returns
    -------
    float from 0 to 1

    References
    ----------
    Nixon et al. (2019), Measuring calibration in deep learning, section 3;
    Kull et al. (2019), Beyond temperature scaling, eq. 3.
    """
    probs = to_numpy(probs, "probs")
    mean = mean_probabilities(probs)
    labels = as_labels(labels, mean.shape[1], length=len(mean))
    errors = []
    for number in range(mean.shape[1]):
        given = in_precision_of(probs, np.ascontiguousarray(mean[:, number]))
        errors.append(binned(given, labels == number, edges_of(given, bins, spacing)).expected_error)
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
    float from 0 to 1
        The root of the debiased mean square, or 0 where that is below 0. It is a
        root mean square, not below the ECE of the same bins but for the correction.

    Raises
    ------
    ValueError
        If there is one input only.

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
    curve = binned(confidence, correct, equal_mass_edges(confidence, bins, smallest=2))
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
    probs, labels : as in ``expected_calibration_error``

    Returns
    -------
    float from 0 to 1

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
            ends = equal_mass_ends(ranked, bins)
            rates = np.diff(right[ends - 1], prepend=0) / np.diff(ends, prepend=0)
            if (np.diff(rates) < 0).any():
                break
            kept = bins
    return binned(confidence, correct, equal_mass_edges(confidence, kept)).expected_error


def calibration_gap(probs, labels):
    """Mean confidence minus accuracy: which way a model is miscalibrated.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
    labels : array of int, shape (N,), from 0 to C - 1

    Returns
    -------
    float from -1 to 1
        Above 0 over-confident, below 0 under-confident. Its size is at most the
        expected calibration error, whatever the bins.
    """
    confidence, correct = confidence_and_correct(probs, labels)
    return float(confidence.mean(dtype=np.float64) - correct.mean())
