"""How well a score tells two kinds of inputs apart: wrong from right, strange from familiar."""

import warnings

import numpy as np

from uqhelpers._checks import as_flags, as_scores
from uqhelpers.metrics._common import tie_groups

__all__ = ["DetectionFigure", "aupr", "aupr_error", "aupr_success", "auroc", "fpr95"]


class DetectionFigure(float):
    """A number that says which class it calls positive, and how frequent that is.

    Attributes
    ----------
    positive : str
        The name of the positive class.
    prevalence : float
        Its share of the inputs: the AUPR of a score that knows nothing.
    """

    def __new__(cls, value, positive="positive", prevalence=float("nan")):
        figure = super().__new__(cls, value)
        figure.positive = positive
        figure.prevalence = prevalence
        return figure

    def __repr__(self):
        return f"{float(self):.4f} (positive: {self.positive}, prevalence {self.prevalence:.4f})"


def _ranked(score, positive, positive_class, what):
    """All inputs and positives at or above each distinct score; ``None`` where one class is missing."""
    score = as_scores(score, "score")
    positive = as_flags(positive, "positive", length=len(score))
    if not isinstance(positive_class, str):
        raise ValueError(f"positive_class: expected a name, got {positive_class!r}")
    if positive.all() or not positive.any():
        warnings.warn(
            f"{what} is undefined: {'every' if positive[0] else 'no'} input is {positive_class}",
            RuntimeWarning,
            stacklevel=3,
        )
        return None, DetectionFigure(float("nan"), positive_class, float(positive.mean()))
    _, ends, hits = tie_groups(-score, positive)
    return (ends, hits), DetectionFigure(float("nan"), positive_class, float(positive.mean()))


def auroc(score, positive, positive_class="positive"):
    """Area under the ROC curve: the chance that a positive input scores above a negative one.

    Ties count one half, so the order of the inputs does not matter.

    Parameters
    ----------
    score : array, shape (N,)
        Higher means *more likely positive*: an uncertainty when the positive
        class is the wrong, the strange; a confidence when it is the right.
    positive : array of bool, shape (N,)
        Which inputs are positive.
    positive_class : str
        What they are, for the result to say: "wrong", "correct", "OOD".

    Returns
    -------
    DetectionFigure
        A float from 0 to 1; .5 is chance. NaN, with a warning, if there is one
        class only.

    References
    ----------
    Fawcett (2006), An introduction to ROC analysis; Hanley and McNeil (1982),
    The meaning and use of the area under a ROC curve.
    """
    ranks, figure = _ranked(score, positive, positive_class, "AUROC")
    if ranks is None:
        return figure
    ends, hits = ranks
    false = ends - hits
    # Negatives in each group of ties stand below all positives of earlier groups and tie with their own half.
    negatives = np.diff(false, prepend=0)
    above = hits - np.diff(hits, prepend=0) / 2
    area = (negatives * above).sum() / (float(hits[-1]) * float(false[-1]))
    return DetectionFigure(area, figure.positive, figure.prevalence)


def aupr(score, positive, positive_class="positive"):
    """Average precision: the area under the precision–recall curve, by steps.

    Parameters
    ----------
    score, positive, positive_class : as in ``auroc``

    Returns
    -------
    DetectionFigure from 0 to 1
        To be read beside its ``prevalence``, which is what a score that knows
        nothing reaches. NaN, with a warning, if there is one class only.

    References
    ----------
    Davis and Goadrich (2006), The relationship between precision–recall and
    ROC curves, which says why the points are not joined by lines.
    """
    ranks, figure = _ranked(score, positive, positive_class, "AUPR")
    if ranks is None:
        return figure
    ends, hits = ranks
    area = (np.diff(hits, prepend=0) * (hits / ends)).sum() / hits[-1]
    return DetectionFigure(area, figure.positive, figure.prevalence)


def aupr_success(score, wrong):
    """AUPR-Success: average precision of finding the *right* predictions by low uncertainty.

    Parameters
    ----------
    score : array, shape (N,)
        Uncertainty, higher is more uncertain; its negative ranks the right ones.
    wrong : array of bool, shape (N,)
        Whether the prediction was wrong.

    Returns
    -------
    DetectionFigure
        A float from 0 to 1 with its ``prevalence``, the accuracy. NaN, with a
        warning, if all predictions are right, or all wrong.

    References
    ----------
    Hendrycks and Gimpel (2017), A baseline for detecting misclassified and
    out-of-distribution examples in neural networks; Corbière et al. (2019),
    Addressing failure prediction by learning model confidence, section 4.1.
    """
    score = as_scores(score, "score")
    wrong = as_flags(wrong, "wrong", length=len(score))
    return aupr(-score, ~wrong, "correct")


def aupr_error(score, wrong):
    """AUPR-Error: average precision of finding the *wrong* predictions by high uncertainty.

    Parameters
    ----------
    score, wrong : as in ``aupr_success``

    Returns
    -------
    DetectionFigure, as from ``aupr_success``; its ``prevalence`` is the error rate

    References
    ----------
    Hendrycks and Gimpel (2017); Corbière et al. (2019), section 4.1.
    """
    score = as_scores(score, "score")
    wrong = as_flags(wrong, "wrong", length=len(score))
    return aupr(score, wrong, "wrong")


def fpr95(score, positive, positive_class="positive"):
    """False-positive rate at the first threshold that finds 95 % of the positives.

    No interpolation between the points of the ROC curve, and tied inputs are
    taken together: a score that gives all inputs one value has 1. Exchanging
    the positive class changes the figure, so the result carries its name:
    tables of failure prediction call the *correct* positive (and score by
    confidence); of those of out-of-distribution detection some, like the paper
    below, call the *familiar* positive, others the *OOD*.

    Parameters
    ----------
    score, positive, positive_class : as in ``auroc``

    Returns
    -------
    DetectionFigure from 0 to 1, lower is better
        With ``positive``, the name of the positive class. NaN, with a warning,
        if there is one class only.

    References
    ----------
    Liang, Li and Srikant (2018), Enhancing the reliability of
    out-of-distribution image detection in neural networks, section 4.3.
    """
    ranks, figure = _ranked(score, positive, positive_class, "FPR95")
    if ranks is None:
        return figure
    ends, hits = ranks
    first = np.argmax(20 * hits >= 19 * hits[-1])  # in whole numbers: .95 is not a binary fraction
    false = ends - hits
    return DetectionFigure(false[first] / false[-1], figure.positive, figure.prevalence)
