"""What a classifier says, and how good it is."""

from collections.abc import Mapping

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_choice, as_distributions, as_labels, as_real, as_whole, to_numpy
from uqhelpers.plots.canvas import as_column, as_plane, as_rows, as_strings, axes_or_new, panels_or_new
from uqhelpers.plots.style import (
    AXIS_LABELS,
    COLOURS,
    GREY,
    INK,
    LINES,
    PALETTE,
    gap_style,
    sequential,
    shade,
)


def confusion(matrix, *, classes=None, ax=None):
    """A table of which class was taken for which, its errors in colour.

    The colour of an error is its share of the true class's inputs. Right
    predictions stand on the diagonal in grey: they are so many more that the
    errors would be invisible beside them.

    Parameters
    ----------
    matrix : array, shape (C, C)
        Counts of at least 0; rows are the true classes, columns the predicted ones.
    classes : list of str, optional
        Names of the classes; by default their numbers.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    matrix = as_real(matrix, "matrix", ndim=2)
    if matrix.shape[0] != matrix.shape[1] or matrix.min() < 0:
        raise ValueError(
            f"matrix: expected counts of shape (classes, classes), got {matrix.shape} from {matrix.min():g}"
        )
    count = len(matrix)
    names = as_strings(classes, "classes", count, [str(c) for c in range(count)])
    ax = axes_or_new(ax, (4.9, 4.6))

    share = 100 * matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-300)
    errors = np.ma.masked_array(share, mask=np.eye(count, dtype=bool) | (matrix == 0))
    most = errors.max() if errors.count() else 1.0
    shades = sequential("aleatoric").with_extremes(bad="white")
    table = ax.imshow(errors, cmap=shades, vmin=0, vmax=most)
    for i in range(count):
        ax.add_patch(_square(i))
        for j in range(count):
            if matrix[i, j] > 0:
                ax.text(j, i, f"{matrix[i, j]:.4g}", ha="center", va="center", fontsize=8.5)
    ax.set(xlabel="predicted class", ylabel="true class")
    ax.set_xticks(range(count), names)
    ax.set_yticks(range(count), names)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.figure.colorbar(table, ax=ax, shrink=0.75, label="share of the true class (%)")
    return ax


def embedding(points, labels, *, foreign=None, ax=None):
    """Inputs as points of the plane, each drawn as the number of its class.

    Parameters
    ----------
    points : array, shape (N, 2)
        Where they are.
    labels : array of int, shape (N,)
        Their classes, which are the numerals that are drawn.
    foreign : array, shape (M, 2), optional
        Inputs of no class, drawn as crosses above the others.
    ax : Axes, optional

    Returns
    -------
    Axes
        With equal scales, as distances are what one looks at.
    """
    points = as_plane(points, "points")
    labels = as_labels(labels, np.iinfo(np.int64).max, length=len(points))
    foreign = None if foreign is None else as_plane(foreign, "foreign")
    ax = axes_or_new(ax, (5.8, 4.6))
    for c in np.unique(labels):
        colour = shade(PALETTE[c % len(PALETTE)], 0.82)
        ax.scatter(*points[labels == c].T, s=26, marker=f"${c}$", color=colour, lw=0.3, zorder=2)
    if foreign is not None:
        ax.scatter(*foreign.T, s=22, marker="x", color=INK, lw=1.1, zorder=3, label="of no class")
        ax.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="none", handletextpad=0.2)
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def class_probabilities(probs, labels=None, *, kind="box", truth=None, ax=None):
    """How the class probabilities of one input spread over the sampled models.

    Parameters
    ----------
    probs : array, shape (S, C)
        Class probabilities of ``S`` sampled models for one input.
    labels : list of str, optional
        Names of the classes; by default their numbers.
    kind : {"box", "strip", "violin"}
        Boxes (median, quartiles, whiskers to 1.5 times the quartiles' distance)
        with every sample as a dot, dots alone, or smoothed densities.
    truth : int, optional
        The true class, to be marked.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    kind = as_choice(kind, "kind", ("box", "strip", "violin"))
    probs = as_rows(probs, "probs", "(samples, classes)")
    samples, classes = probs.shape
    names = as_strings(labels, "labels", classes, [str(c) for c in range(classes)])
    if truth is not None:
        truth = as_whole(truth, "truth", low=0, high=classes - 1)
    ax = axes_or_new(ax)

    positions = np.arange(classes)
    colours = [PALETTE[1] if c == truth else PALETTE[0] for c in positions]
    if kind == "box":
        boxes = ax.boxplot(
            probs,
            positions=positions,
            widths=0.62,
            patch_artist=True,
            showfliers=False,
            manage_ticks=False,
            medianprops={"color": INK, "linewidth": 1.8},
            whiskerprops={"color": GREY},
            capprops={"color": GREY},
        )
        for box, colour in zip(boxes["boxes"], colours, strict=True):
            box.set(facecolor=colour, alpha=0.35, edgecolor=colour)
    elif kind == "violin":
        # A kernel density needs some spread: nothing to smooth for a class whose samples all agree.
        spread = [c for c in positions if np.ptp(probs[:, c]) > 1e-6]
        if spread:
            parts = ax.violinplot(probs[:, spread], positions=spread, widths=0.8, showextrema=False)
            for body, c in zip(parts["bodies"], spread, strict=True):
                body.set(facecolor=colours[c], alpha=0.45, edgecolor=colours[c])
        ax.scatter(positions, np.median(probs, axis=0), color=INK, s=20, zorder=3)
    if kind != "violin":
        # The same small steps aside in every run: dots that lie on each other hide how many they are.
        aside = 0.22 * np.sin(np.arange(samples) * 2.4) if samples > 1 else np.zeros(1)
        for c in positions:
            ax.scatter(c + aside, probs[:, c], s=9, color=colours[c], alpha=0.65, linewidths=0, zorder=3)
    ax.set(xlabel="class", ylabel="probability", ylim=(-0.03, 1.03), xlim=(-0.7, classes - 0.3))
    longest = max(len(name) for name in names)
    ax.set_xticks(positions, names, rotation=35 if longest * classes > 60 else 0)
    if longest * classes > 60:
        for tick in ax.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
    if truth is not None:
        ax.get_xticklabels()[truth].set(weight="bold", color=COLOURS["wrong"])
        ax.set_xlabel(f"class (in orange the true one, {names[truth]})")
    return ax


def histograms(columns, *, bins=30, log=False, ax=None):
    """Histograms of uncertainties, a panel for each, one or several methods overlaid.

    Parameters
    ----------
    columns : dict of arrays, decomposition, or dict of these by method
        Values by name, ``{"total": (N,), "aleatoric": (N,), "epistemic": (N,),
        "confidence": (N,)}``; what ``metrics.decompose`` returns; or, to compare
        methods, ``{"dropout": {...}, "ensemble": {...}}`` with the same names in each.
    bins : int
        Bins of each panel, the same for all methods.
    log : bool
        A logarithmic vertical axis: shows the few uncertain inputs beside the many
        certain ones.
    ax : array of Axes, optional
        One for each name; by default a new figure with two columns.

    Returns
    -------
    array of Axes
    """
    bins = as_whole(bins, "bins")
    methods = _as_methods(columns)
    names = list(next(iter(methods.values())))
    rows = -(-len(names) // 2)
    panels, axes = panels_or_new(ax, rows, min(2, len(names)), (6.0, 2.25 * rows))
    if len(panels) < len(names):
        raise ValueError(f"ax: expected {len(names)} axes, one a panel, got {len(panels)}")

    for panel, name in zip(panels, names, strict=False):
        values = [table[name] for table in methods.values()]
        low, high = min(v.min() for v in values), max(v.max() for v in values)
        if high - low < 1e-9:  # all the same: one bin around it
            low, high = low - 0.05, high + 0.05
        edges = np.linspace(low, high, bins + 1)
        for index, (method, value) in enumerate(zip(methods, values, strict=True)):
            colour = PALETTE[index % len(PALETTE)]
            if len(methods) == 1:
                colour = COLOURS.get(name, COLOURS["total"])
            weights = np.full(len(value), 100 / len(value))
            style = {"bins": edges, "weights": weights, "label": method, "log": bool(log)}
            panel.hist(value, histtype="stepfilled", color=colour, alpha=0.3, **{**style, "label": None})
            panel.hist(value, histtype="step", color=colour, ls=LINES[index % len(LINES)], lw=1.7, **style)
        panel.set(xlabel=AXIS_LABELS.get(name, name), ylabel="share of inputs (%)")
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    if len(methods) > 1 and ax is None:
        handles, labels = panels[0].get_legend_handles_labels()
        panels[0].figure.legend(handles, labels, loc="outside upper center", ncols=3, handlelength=1.6)
    elif len(methods) > 1:
        panels[0].legend(loc="best", handlelength=1.6)
    return axes


def reliability_diagram(probs, labels, bins=10, *, counts=True, ax=None):
    """Accuracy against confidence, with the sign of every gap to be seen.

    A bar for each bin of the maximum probability reaches to the bin's accuracy;
    the gap to its mean confidence is orange-red with ``/`` hatching where the model is
    over-confident and blue with dots where it is under-confident. Empty bins are left out.

    Parameters
    ----------
    probs : array, shape (N, C)
        Class probabilities.
    labels : array of int, shape (N,)
        True classes.
    bins : int
        Bins of equal width, right-closed.
    counts : bool
        Whether to show below how many inputs each bin holds.
    ax : Axes, optional

    Returns
    -------
    Axes

    References
    ----------
    Guo et al. (2017), On calibration of modern neural networks, figure 1.
    """
    from matplotlib.patches import Patch, Rectangle

    curve = metrics.reliability_curve(probs, labels, bins)
    gap = metrics.calibration_gap(probs, labels)
    ax = axes_or_new(ax, (5.0, 5.0 if counts else 4.0))

    ax.plot([0, 1], [0, 1], ls="--", lw=1.2, color=GREY, zorder=3)
    seen = set()
    for left, right, conf, acc in zip(
        curve.lower, curve.upper, curve.confidence, curve.accuracy, strict=True
    ):
        sign = "over-confident" if conf > acc else "under-confident"
        width = right - left
        ax.add_patch(Rectangle((left, 0), width, acc, facecolor="#D9DDE3", edgecolor="white", lw=1, zorder=1))
        if abs(conf - acc) > 1e-12:
            seen.add(sign)
            patch = Rectangle((left, min(acc, conf)), width, abs(conf - acc), zorder=2, **gap_style(sign))
            ax.add_patch(patch)
        ax.plot([left, right], [acc, acc], color=INK, lw=1.8, solid_capstyle="butt", zorder=4)
    ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy", xlabel="confidence (maximum probability)")

    handles = [Patch(label=sign, **gap_style(sign)) for sign in sorted(seen)]
    ax.legend(
        handles=handles,
        # Over-confidence leaves the half above the diagonal empty; under-confidence fills the
        # one below it with plain bars.
        loc="upper left" if gap > 0 else "lower right",
        frameon=True,
        framealpha=0.95,
        edgecolor="none",
        title=f"ECE {curve.expected_error:.3f}\nsigned gap {gap:+.3f}".replace("-", "−"),
        alignment="left",
        handlelength=1.4,
    )
    if counts:
        below = ax.inset_axes([0, -0.30, 1, 0.22], sharex=ax)
        below.bar(
            curve.lower,
            curve.count,
            width=curve.upper - curve.lower,
            align="edge",
            color="#AEB5BF",
            edgecolor="white",
        )
        below.set_yscale("log")
        below.set(ylim=(0.7, curve.count.sum() * 2), ylabel="inputs", xlabel=ax.get_xlabel())
        below.yaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
        below.minorticks_off()
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
    return ax


def _square(i):
    """A grey square behind the i-th right count of a confusion matrix."""
    from matplotlib.patches import Rectangle

    return Rectangle((i - 0.5, i - 0.5), 1, 1, facecolor="#E3E6EA", edgecolor="none", zorder=1)


def _as_methods(columns):
    """{method: {name: values}} from one table, a decomposition, or several by method."""

    def table(value):
        if isinstance(value, Mapping):
            return dict(value)
        if hasattr(value, "_asdict"):
            return value._asdict()
        if all(hasattr(value, name) for name in ("total", "aleatoric", "epistemic")):
            names = ("total", "aleatoric", "epistemic", "confidence")
            return {name: getattr(value, name) for name in names if hasattr(value, name)}
        return None

    outer = table(columns)
    if not outer:
        raise ValueError(f"columns: expected values by name or a decomposition, got {type(columns).__name__}")
    inner = {str(method): table(value) for method, value in outer.items()}
    if all(value is None for value in inner.values()):
        inner = {"": outer}
    elif any(value is None for value in inner.values()):
        raise ValueError("columns: expected arrays by name, or tables by method, got a mixture")
    first = list(next(iter(inner.values())))
    for method, values in inner.items():
        if list(values) != first or not first:
            raise ValueError(
                f"columns: expected the names {first} for every method, {method} has {list(values)}"
            )
    return {
        method: {name: as_column(column, f"columns[{name!r}]") for name, column in values.items()}
        for method, values in inner.items()
    }
