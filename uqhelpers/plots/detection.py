"""How well scores find the positives: precision and recall, and the ROC curve."""

from collections.abc import Mapping

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_flags, as_scores, to_numpy
from uqhelpers.metrics._common import tie_groups
from uqhelpers.plots.canvas import axes_or_new, legend_below
from uqhelpers.plots.style import GREY, LINES, PALETTE

POINTS = 1500  # more than pixels would only make the file large


def precision_recall(scores, positive, *, ax=None):
    """Which share of the alarms is right, against the share of the positives that they find.

    Parameters
    ----------
    scores : dict of arrays, shape (N,) or (S, N), or one array
        Scores by name, higher is more likely positive. With an axis for S
        networks, the mean of their curves is drawn, in a band of one standard
        deviation on either side.
    positive : array of bool, shape (N,) or (S, N)
        Which inputs are positive, for all networks or for each: strange ones are
        the same for all, wrong predictions are not.
    ax : Axes, optional

    Returns
    -------
    Axes
        A curve for each score, with its area (AUPR) in the legend, and a line at
        the prevalence, which is the precision of a score that knows nothing. The
        curves are drawn by steps: at each recall stands the precision of the
        highest threshold that reaches it. Inputs with equal scores are taken
        together.

    References
    ----------
    Davis and Goadrich (2006), The relationship between precision–recall and ROC
    curves: a straight line between two points promises a precision that no
    threshold has.
    """
    scores, positive = _checked(scores, positive)
    curves = {name: [_alarms(*pair) for pair in pairs] for name, pairs in scores.items()}
    ax = axes_or_new(ax)
    for index, (name, networks) in enumerate(curves.items()):
        recalls = [hits / hits[-1] for _, hits in networks]
        levels = _levels(recalls, 1 / POINTS)
        heights = np.array(
            [
                (hits / ends)[np.searchsorted(recall, levels)]
                for recall, (ends, hits) in zip(recalls, networks, strict=True)
            ]
        )
        areas = [metrics.aupr(*pair) for pair in scores[name]]
        # From recall 0 on stands the precision of the first level.
        _draw(
            ax,
            index,
            np.r_[0, levels],
            heights[:, [0, *range(len(levels))]],
            _label(name, "AUPR", areas),
            "steps-pre",
        )
    share = np.mean(positive)
    ax.axhline(100 * share, color=GREY, lw=1.2, ls=(0, (1, 1.5)), label=f"prevalence ({100 * share:.3g} %)")
    ax.set(xlabel="recall: positives found (%)", ylabel="precision: alarms that are right (%)")
    ax.set(xlim=(0, 100), ylim=(0, 102))
    legend_below(ax, 1)
    return ax


def roc(scores, positive, *, ax=None):
    """Which share of the positives is found, against the share of the negatives that is stopped with them.

    Parameters
    ----------
    scores, positive : as in :func:`precision_recall`
    ax : Axes, optional

    Returns
    -------
    Axes
        A curve for each score, with its area (AUROC) in the legend, and the
        diagonal, on which a score lies that knows nothing. Points are joined by
        straight lines, which tossing a coin between two thresholds attains; the
        curves of several networks are averaged at each rate of false alarms.

    References
    ----------
    Fawcett (2006), An introduction to ROC analysis.
    """
    scores, positive = _checked(scores, positive)
    ax = axes_or_new(ax)
    for index, (name, pairs) in enumerate(scores.items()):
        rates = []
        for ends, hits in (_alarms(*pair) for pair in pairs):
            false = ends - hits
            rates.append((np.r_[0, false / false[-1]], np.r_[0, hits / hits[-1]]))
        levels = _levels([false for false, _ in rates], 0)
        # Both ends of every vertical piece.
        heights = np.array([np.ravel(_below_and_above(levels, *pair), order="F") for pair in rates])
        areas = [metrics.auroc(*pair) for pair in pairs]
        _draw(ax, index, np.repeat(levels, 2), heights, _label(name, "AUROC", areas), "default")
    ax.plot([0, 100], [0, 100], color=GREY, lw=1.2, ls=(0, (1, 1.5)), label="no knowledge")
    ax.set(xlabel="false alarms: negatives stopped (%)", ylabel="recall: positives found (%)")
    ax.set(xlim=(0, 100), ylim=(0, 102))
    legend_below(ax, 1)
    return ax


def _checked(scores, positive):
    """Pairs of a score and its flags for each network, by name; and the flags, a row for each."""
    flags = to_numpy(positive, "positive")
    rows = list(flags) if flags.ndim == 2 and len(flags) else [flags]
    rows = [as_flags(row, "positive") for row in rows]
    if any(row.all() or not row.any() for row in rows):
        raise ValueError("positive: expected inputs that are positive and inputs that are not, got one kind")
    if not isinstance(scores, Mapping):
        scores = {"score": scores}
    if not scores:
        raise ValueError("scores: expected at least one score, got none")
    pairs = {}
    for name, score in scores.items():
        score = to_numpy(score, f"scores[{name!r}]")
        networks = list(score) if score.ndim == 2 and len(score) else [score]
        if len(rows) > 1 and len(networks) != len(rows):
            raise ValueError(
                f"scores[{name!r}]: expected {len(rows)} networks, as positive has, got {len(networks)}"
            )
        own = rows * len(networks) if len(rows) == 1 else rows
        pairs[name] = [
            (as_scores(network, f"scores[{name!r}]", length=len(row)), row)
            for network, row in zip(networks, own, strict=True)
        ]
    return pairs, np.array(rows)


def _alarms(score, positive):
    """How many inputs, and how many positives, stand at or above each distinct score, from the highest."""
    return tie_groups(-score, positive)[1:]


def _levels(places, low):
    """All places at which a curve can change, or, where these are too many, a fine grid."""
    levels = np.unique(np.concatenate(places))
    levels = levels[levels >= low]
    return levels if len(levels) <= POINTS else np.linspace(low, 1, POINTS)


def _below_and_above(levels, x, y):
    """Where a curve with vertical pieces stands just before and just after each level."""
    low = np.searchsorted(x, levels)
    high = np.searchsorted(x, levels, side="right") - 1
    between = np.interp(levels, x, y)
    return np.where(x[low] == levels, y[low], between), np.where(x[high] == levels, y[high], between)


def _label(name, what, areas):
    spread = f" ± {np.std(areas, ddof=1):.3f}" if len(areas) > 1 else ""
    return f"{name} ({what} {np.mean(areas):.3f}{spread})"


def _draw(ax, index, x, heights, label, drawstyle):
    colour, dashes = PALETTE[index % len(PALETTE)], LINES[index % len(LINES)]
    mean = heights.mean(axis=0)
    ax.plot(100 * x, 100 * mean, color=colour, ls=dashes, drawstyle=drawstyle, label=label)
    if len(heights) > 1:
        spread = heights.std(axis=0, ddof=1)
        low, high = np.clip([mean - spread, mean + spread], 0, 1)
        step = "pre" if drawstyle == "steps-pre" else None
        ax.fill_between(100 * x, 100 * low, 100 * high, color=colour, alpha=0.2, lw=0, step=step)
