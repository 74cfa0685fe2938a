"""Confidences side by side, as predictors of failures."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from uqhelpers import metrics
from uqhelpers._checks import as_flags, as_scores, to_numpy

__all__ = ["FailureFigures", "failure_table"]


@dataclass(frozen=True)
class FailureFigures:
    """Every figure by which a confidence is judged as a predictor of failures.

    Attributes
    ----------
    fpr95 : float
        False-positive rate where 95 % of the *correct* answers are accepted;
        lower is better. The positive class is the correct one.
    aupr_error, aupr_success : float
        Average precision of finding the wrong ones by low confidence, and the
        right ones by high confidence. Their ``prevalence``, what chance reaches,
        is the error rate and the accuracy.
    auroc : float
        The chance that a right answer is surer than a wrong one.
    aurc, eaurc, augrc : float
        Areas under the risk–coverage curve: as it is, above that of a perfect
        ranking, and of the generalised curve; lower is better.
    errors, inputs : int
        How many answers were wrong, and of how many.
    """

    fpr95: float
    aupr_error: float
    aupr_success: float
    auroc: float
    aurc: float
    eaurc: float
    augrc: float
    errors: int
    inputs: int

    def as_dict(self):
        """All figures by name."""
        return asdict(self)


def failure_table(confidences, wrong):
    """Confidences side by side, as predictors of failures.

    Parameters
    ----------
    confidences : dict of str to array, shape (N,)
        By the name of the method; higher is surer, infinities may occur.
    wrong : array of bool, shape (N,), or dict
        Whether each answer was wrong. A dict, by the same names, where methods
        give answers of their own (an ensemble, MC-Dropout): then they differ
        in their errors too, and only ``aurc`` and ``augrc`` charge for both.

    Returns
    -------
    dict of str to FailureFigures

    Warns
    -----
    RuntimeWarning
        If all answers are right, or all wrong: what is undefined then is NaN.

    References
    ----------
    Corbière et al. (2019), section 4.1; Geifman, Uziel and El-Yaniv (2019);
    Traub et al. (2024).
    """
    if not isinstance(confidences, Mapping) or not confidences:
        raise ValueError(
            f"confidences: expected arrays by the name of the method, got {type(confidences).__name__}"
        )
    flags = wrong if isinstance(wrong, Mapping) else dict.fromkeys(confidences, wrong)
    if set(flags) != set(confidences):
        raise ValueError(f"wrong: expected flags for {list(confidences)}, got {list(flags)}")
    table = {}
    for name, values in confidences.items():
        surer = as_scores(values, f"confidences[{name!r}]")
        failed = as_flags(to_numpy(flags[name], "wrong"), "wrong", length=len(surer))
        table[name] = FailureFigures(
            fpr95=metrics.fpr95(surer, ~failed, "correct"),
            aupr_error=metrics.aupr_error(-surer, failed),
            aupr_success=metrics.aupr_success(-surer, failed),
            auroc=metrics.auroc(surer, ~failed, "correct"),
            aurc=metrics.aurc(-surer, failed),
            eaurc=metrics.eaurc(-surer, failed),
            augrc=metrics.augrc(-surer, failed),
            errors=int(failed.sum()),
            inputs=len(failed),
        )
    return table
