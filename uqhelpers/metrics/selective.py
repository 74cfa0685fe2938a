"""What is gained by not answering where uncertainty is high: risk, accuracy and coverage."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_flags, as_number, as_own_scores, as_real, as_scores, as_whole, to_numpy
from uqhelpers.metrics._common import tie_groups

__all__ = [
    "RiskCoverage",
    "SelectiveTable",
    "accuracy_coverage",
    "augrc",
    "aurc",
    "coverage_at_accuracy",
    "eaurc",
    "risk_coverage",
]


@dataclass(frozen=True)
class RiskCoverage:
    """Risk of the accepted predictions as more and more are accepted.

    One point for each distinct score: tied inputs are accepted together.

    Attributes
    ----------
    thresholds : array, shape (G,)
        The distinct scores, ascending: inputs with at most this score are accepted.
    coverage : array, shape (G,)
        The share of all inputs that is accepted; the last is 1.
    risk : array, shape (G,)
        The share of the accepted that is wrong; the last is the error rate.
    """

    thresholds: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray


@dataclass(frozen=True)
class SelectiveTable:
    """Accuracy and coverage at some thresholds of the score.

    Attributes
    ----------
    thresholds : array, shape (T,)
        Inputs with at most this score are kept.
    coverage : array, shape (T,)
        The share of all inputs that is kept, above 0.
    accuracy : array, shape (T,)
        The share of the kept that is right.
    """

    thresholds: np.ndarray
    coverage: np.ndarray
    accuracy: np.ndarray


def _groups(score, wrong):
    score = as_scores(score, "score")
    return tie_groups(score, as_flags(wrong, "wrong", length=len(score)))


def risk_coverage(score, wrong):
    """Selective risk against coverage, from the most certain input to the least.

    Parameters
    ----------
    score : array, shape (N,)
        Uncertainty of each prediction, higher is more uncertain; infinities may
        occur.
    wrong : array of bool, shape (N,)
        Whether the prediction was wrong.

    Returns
    -------
    RiskCoverage
        With one point for each distinct score, so that the order of the inputs
        does not matter.

    References
    ----------
    El-Yaniv and Wiener (2010), On the foundations of noise-free selective
    classification; Geifman and El-Yaniv (2017), Selective classification for
    deep neural networks.
    """
    thresholds, ends, errors = _groups(score, wrong)
    return RiskCoverage(thresholds, ends / ends[-1], errors / ends)


def aurc(score, wrong):
    """Area under the risk–coverage curve: the mean selective risk over all coverages k/N.

    Tied inputs count as one group, each member of which gets the risk at the
    group's end: nobody can accept one of them and refuse the other.

    Parameters
    ----------
    score, wrong : as in ``risk_coverage``

    Returns
    -------
    float from 0 to 1, lower is better
        It mixes the error rate with the quality
        of the ranking (see ``eaurc`` and ``augrc``).

    References
    ----------
    Geifman, Uziel and El-Yaniv (2019), Bias-reduced uncertainty estimation for
    deep neural classifiers, section 2.
    """
    _, ends, errors = _groups(score, wrong)
    return _area(ends, errors)


def _area(ends, errors):
    sizes = np.diff(ends, prepend=0)
    # What is 0 is left out, so that rankings that differ only there have the same sum to the last bit.
    risky = errors > 0
    return float((sizes[risky] * (errors[risky] / ends[risky])).sum() / ends[-1])


def eaurc(score, wrong):
    """Excess AURC: above that of a ranking of the same inputs with all errors last.

    The best possible area is computed for the ``N`` inputs at hand; its
    continuous approximation ``r + (1 - r) log(1 - r)`` lies below and would
    leave a perfect ranking above 0.

    Parameters
    ----------
    score, wrong : as in ``risk_coverage``

    Returns
    -------
    float from 0 (the errors have the highest scores, no two errors the same) to 1

    References
    ----------
    Geifman, Uziel and El-Yaniv (2019), as for ``aurc``.
    """
    _, ends, errors = _groups(score, wrong)
    inputs, mistakes = int(ends[-1]), int(errors[-1])
    last = np.arange(mistakes + 1)  # the right ones together, then the errors one by one
    best = _area(last + (inputs - mistakes), last)
    return max(_area(ends, errors) - best, 0.0)


def augrc(score, wrong):
    """Area under the generalised risk–coverage curve, by the trapezoid.

    The generalised risk is the share of *all* inputs that is accepted and
    wrong, so the area is an average of undetected failures that does not
    over-weigh the most certain few. Tied inputs are accepted together.

    Parameters
    ----------
    score, wrong : as in ``risk_coverage``

    Returns
    -------
    float, lower is better
        From ``err ** 2 / 2`` (all errors last) to ``err - err ** 2 / 2`` (all
        first); ``err / 2`` for a score that knows nothing.

    References
    ----------
    Traub et al. (2024), Overcoming common flaws in the evaluation of selective
    classification systems.
    """
    _, ends, errors = _groups(score, wrong)
    sizes = np.diff(ends, prepend=0)
    before = np.append(0, errors[:-1])
    inputs = float(ends[-1])
    return float((sizes * (errors + before) / 2).sum() / inputs**2)


def accuracy_coverage(score, wrong, thresholds=15):
    """Accuracy of what is kept, and how much that is, when what is too uncertain is refused.

    Parameters
    ----------
    score, wrong
        As in ``risk_coverage``; with a number of ``thresholds`` the scores must
        be finite.
    thresholds : int or array, shape (T,)
        So many thresholds (from 2 to a million), evenly spaced from the
        smallest score to the largest, or the thresholds themselves.

    Returns
    -------
    SelectiveTable
        Inputs with a score of at most the threshold, both in the score's
        precision, are kept. Thresholds that keep nothing have no accuracy and
        are left out.

    Raises
    ------
    ValueError
        If none of the thresholds keeps anything.
    """
    score = as_own_scores(score, "score")
    values, ends, errors = _groups(score, wrong)
    if np.ndim(to_numpy(thresholds, "thresholds")) == 0:
        count = as_whole(thresholds, "thresholds", low=2, high=1_000_000)
        as_real(values[[0, -1]], "score")
        # Scaled by hand: the difference of two huge numbers would overflow in linspace.
        share = np.arange(count) / (count - 1)
        thresholds = np.clip(values[0] * (1 - share) + values[-1] * share, values[0], values[-1])
        thresholds[-1] = values[-1]
    else:
        thresholds = as_scores(thresholds, "thresholds")
    with np.errstate(over="ignore"):  # beyond the largest float32 is infinity, above all scores
        own = thresholds.astype(score.dtype)  # .6 in float32 is another number than .6 in float64
    place = np.searchsorted(values, own.astype(np.float64), side="right") - 1
    keeps = place >= 0
    if not keeps.any():
        raise ValueError(f"thresholds: expected one of at least the smallest score, {values[0]:.4g}")
    place = place[keeps]
    return SelectiveTable(thresholds[keeps], ends[place] / ends[-1], 1 - errors[place] / ends[place])


def coverage_at_accuracy(score, wrong, accuracy):
    """The largest share of the inputs that can be kept at an accuracy.

    Parameters
    ----------
    score, wrong : as in ``risk_coverage``
    accuracy : float
        The accuracy that what is kept must reach, from 0 to 1.

    Returns
    -------
    float
        From 0 (no threshold reaches it) to 1.

    References
    ----------
    Geifman and El-Yaniv (2017), Selective classification for deep neural networks.
    """
    accuracy = as_number(accuracy, "accuracy", low=0.0, high=1.0)
    _, ends, errors = _groups(score, wrong)
    reached = np.flatnonzero((ends - errors) / ends >= accuracy)
    return float(ends[reached[-1]] / ends[-1]) if len(reached) else 0.0
