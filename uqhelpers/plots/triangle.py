"""Predictions over three classes as points of a triangle."""

import numpy as np

from uqhelpers import metrics
from uqhelpers.plots.canvas import as_column, as_rows, as_strings, axes_or_new
from uqhelpers.plots.style import AXIS_LABELS, INK, PALETTE, sequential


def simplex(
    points,
    ax=None,
    *,
    labels=None,
    values=None,
    value_label="value",
    contours=True,
    mean=False,
    colorbar=True,
):
    """Predictions for three classes as points in a triangle, over contours of entropy.

    Parameters
    ----------
    points : array, shape (N, 3)
        Class probabilities: each corner is certainty of one class.
    ax : Axes, optional
    labels : list of str, optional
        Names of the three classes.
    values : array, shape (N,), optional
        Values that colour the points.
    value_label : str
        What the values are, with units.
    contours : bool
        Whether to draw lines of equal entropy.
    mean : bool
        Whether to mark the mean of the points, the prediction of the average model.
    colorbar : bool
        Whether to draw the colour bar of the entropy.

    Returns
    -------
    Axes
    """
    points = as_rows(points, "points", "(N, 3)")
    if points.shape[1] != 3:
        raise ValueError(f"points: expected three classes, shape (N, 3), got {points.shape}")
    names = as_strings(labels, "labels", 3, [f"class {c}" for c in range(3)])
    if values is not None:
        values = as_column(values, "values", len(points))
    ax = axes_or_new(ax, (5.0, 4.2))

    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    outline = np.vstack([corners, corners[:1]])
    if contours:
        side = np.linspace(0, 1, 121)
        a, b = np.meshgrid(side, side)
        inside = a + b <= 1 + 1e-9
        grid = np.stack([1 - a[inside] - b[inside], a[inside], b[inside]], axis=-1).clip(0, 1)
        place, entropy = grid @ corners, metrics.predictive_entropy(grid)
        levels = [0, 0.2, 0.4, 0.6, 0.8, 1.0, np.log(3)]
        shades = ax.tricontourf(*place.T, entropy, levels=levels, cmap=sequential("total", strength=0.45))
        if colorbar:
            bar = ax.figure.colorbar(
                shades, ax=ax, label=AXIS_LABELS["entropy"], shrink=0.75, pad=0.02, aspect=22
            )
            bar.set_ticks(levels, labels=["0", ".2", ".4", ".6", ".8", "1", "log 3"])
            bar.outline.set_visible(False)
    ax.plot(*outline.T, color=INK, lw=1.3, zorder=2)
    place = points @ corners
    if values is None:
        ax.scatter(*place.T, s=26, color=PALETTE[0], edgecolor="white", lw=0.6, zorder=3, clip_on=False)
    else:
        dots = ax.scatter(*place.T, s=26, c=values, cmap="viridis", edgecolor="white", lw=0.6, zorder=3)
        ax.figure.colorbar(dots, ax=ax, label=value_label, shrink=0.75, pad=0.02, aspect=22)
    if mean:
        middle = points.mean(axis=0) @ corners
        ax.scatter(*middle, s=150, marker="*", color=PALETTE[1], edgecolor=INK, lw=0.8, zorder=4)
        halo = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
        ax.annotate("mean", middle, (8, 7), textcoords="offset points", zorder=5, bbox=halo)
    for (cx, cy), name in zip(corners, names, strict=True):
        top = cy > 0
        ax.annotate(
            name,
            (cx, cy),
            (0, 6 if top else -6),
            textcoords="offset points",
            ha="center",
            va="bottom" if top else "top",
        )
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax
