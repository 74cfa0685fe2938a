"""What is gained by rejecting the most uncertain."""

from collections.abc import Mapping

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_flags, as_number
from uqhelpers.plots.canvas import axes_or_new, legend_below
from uqhelpers.plots.style import GREY, LINES, PALETTE


def risk_coverage(scores, wrong, *, ax=None):
    """The error rate of what is kept, when the most uncertain inputs are rejected.

    Parameters
    ----------
    scores : dict of arrays, shape (N,), or one array
        Scores by name, higher is more uncertain.
    wrong : array of bool, shape (N,)
        Whether the prediction was wrong; the same predictions for all scores.
    ax : Axes, optional

    Returns
    -------
    Axes
        A curve for each score, with its area (AURC) in the legend, and the curve of
        a perfect ranking. Inputs with equal scores are kept or rejected together.

    References
    ----------
    Geifman, Uziel and El-Yaniv (2019), Bias-reduced uncertainty estimation for deep
    neural classifiers.
    """
    ax = _selective(scores, wrong, ax, as_accuracy=False)
    ax.set(ylabel="error rate of those kept (%)")
    ax.set_ylim(bottom=0)
    return ax


def accuracy_coverage(scores, wrong, *, target=None, ax=None):
    """The accuracy of what is kept, when the most uncertain inputs are rejected.

    Parameters
    ----------
    scores, wrong : as in :func:`risk_coverage`
    target : float, optional
        An accuracy in [0, 1] to be marked by a line.
    ax : Axes, optional

    Returns
    -------
    Axes
        A curve for each score, and the curve of a perfect ranking.
    """
    if target is not None:
        target = as_number(target, "target", 0, 1)
    ax = _selective(scores, wrong, ax, as_accuracy=True)
    ax.set(ylabel="accuracy of those kept (%)")
    if target is not None:
        ax.axhline(100 * target, color=GREY, lw=1, ls=":")
        ax.annotate(
            f"{100 * target:g} %",
            (1.01, 100 * target),
            xycoords=("axes fraction", "data"),
            va="center",
            color=GREY,
            fontsize=9,
        )
    return ax


def _selective(scores, wrong, ax, as_accuracy):
    wrong = as_flags(wrong, "wrong")
    if not isinstance(scores, Mapping):
        scores = {"score": scores}
    if not scores:
        raise ValueError("scores: expected at least one score, got none")
    curves = {}
    for name, score in scores.items():
        try:
            area = metrics.aurc(score, wrong)
            curves[name if as_accuracy else f"{name} (AURC {area:.4f})"] = metrics.risk_coverage(score, wrong)
        except ValueError as error:
            raise ValueError(f"scores[{name!r}]: {error}") from error
    # All that is right first, as one group, then one error after the other.
    ideal = metrics.risk_coverage(np.cumsum(wrong) * wrong, wrong)
    ax = axes_or_new(ax)

    def draw(curve, **style):
        # More points than pixels would only make the file large.
        few = np.unique(np.linspace(0, len(curve.risk) - 1, 1500).astype(int))
        height = 1 - curve.risk[few] if as_accuracy else curve.risk[few]
        ax.plot(100 * curve.coverage[few], 100 * height, **style)

    start = 0.0 if wrong.all() else 1 - wrong.mean()
    ax.plot([0, 100 * start], [100 if as_accuracy else 0] * 2, color=GREY, lw=1.2, ls=(0, (1, 1.5)))
    draw(ideal, color=GREY, lw=1.2, ls=(0, (1, 1.5)), label="perfect ranking")
    for index, (name, curve) in enumerate(curves.items()):
        draw(curve, color=PALETTE[index % len(PALETTE)], ls=LINES[index % len(LINES)], label=name)
    ax.set(xlabel="coverage: inputs kept (%)", xlim=(0, 100))
    legend_below(ax, 2)
    return ax
