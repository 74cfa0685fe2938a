"""Predictions all over the plane."""

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_choice, as_distributions, as_labels, as_number, as_real, as_whole, to_numpy
from uqhelpers.plots.canvas import as_column, axes_or_new
from uqhelpers.plots.style import AXIS_LABELS, INK, MARKERS, PALETTE, sequential, tint


def decision_map(
    predict,
    X=None,
    y=None,
    *,
    what="probability",
    label=None,
    bounds=None,
    resolution=120,
    vmax=None,
    colorbar=True,
    ax=None,
):
    """A map of decisions or of uncertainty over a two-dimensional input.

    Parameters
    ----------
    predict : callable or (x values, y values, grid)
        A function from inputs ``(M, 2)``, float32, to class probabilities ``(M, C)``,
        to those of sampled models ``(S, M, C)``, or to any value ``(M,)``. Or what
        is to be drawn: coordinates ``(W,)`` and ``(H,)`` and a grid ``(H, W)``.
    X : array, shape (N, 2), optional
        Points to be drawn over the map; they also set its bounds.
    y : array of int, shape (N,), optional
        Their classes.
    what : {"probability", "class", "confidence", "total", "aleatoric", "epistemic", "value"}
        ``"probability"`` is that of class 1 of two; ``"entropy"`` is another word for
        ``"total"``; ``"aleatoric"`` and ``"epistemic"`` need sampled models;
        ``"value"`` draws what ``predict`` returns.
    label : str, optional
        The colour bar's label, with units.
    bounds : (left, right, bottom, top), optional
        By default those of ``X`` and a third more on each side.
    resolution : int
        Points along each side.
    vmax : float, optional
        Where the colours of an uncertainty end; give maps to be compared the same.
    colorbar : bool
        Whether to draw the colour bar.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If ``what`` cannot be had from what ``predict`` returns.
    """
    what = "total" if what == "entropy" else what
    what = as_choice(
        what, "what", ("probability", "class", "confidence", "total", "aleatoric", "epistemic", "value")
    )
    if vmax is not None:
        vmax = as_number(vmax, "vmax", low=0, open_low=True)
    if X is not None:
        X = as_real(X, "X", ndim=2)
        if X.shape[1] != 2:
            raise ValueError(f"X: expected points in two dimensions, shape (N, 2), got {X.shape}")
    if y is not None:
        if X is None:
            raise ValueError("y: expected points X to go with the classes")
        y = as_labels(y, 10, "y", length=len(X))
    if callable(predict):
        columns, rows, grid, classes = _evaluate(predict, X, what, bounds, resolution)
    else:
        columns, rows, grid = _as_grid(predict)
        classes = int(grid.max()) + 1 if what == "class" else 2
    ax = axes_or_new(ax, (5.2, 3.9))

    colours, low, high = _map_colours(what, grid, classes, vmax)
    mesh = ax.pcolormesh(
        columns, rows, grid, cmap=colours, vmin=low, vmax=high, shading="nearest", rasterized=True
    )
    if what == "probability" and grid.min() < 0.5 < grid.max():
        ax.contour(columns, rows, grid, levels=[0.5], colors=[INK], linewidths=1.3)
    if X is not None:
        _scatter_classes(ax, X, y)
    ax.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(columns[0], columns[-1]), ylim=(rows[0], rows[-1]))
    if colorbar:
        default = {"probability": "probability of class 1", "class": "predicted class", "value": "value"}
        label = label or default.get(what) or AXIS_LABELS[what]
        ticks = np.arange(classes) if what == "class" else None
        bar = ax.figure.colorbar(mesh, ax=ax, label=label, ticks=ticks, pad=0.02, aspect=25)
        bar.outline.set_visible(False)
    return ax


def _as_grid(values):
    try:
        columns, rows, grid = values
    except (TypeError, ValueError) as error:
        raise ValueError("predict: expected a function, or x values, y values and a grid") from error
    columns, rows = as_column(columns, "predict"), as_column(rows, "predict")
    grid = as_real(grid, "predict", ndim=2)
    if grid.shape != (len(rows), len(columns)):
        raise ValueError(f"predict: expected a grid of shape {(len(rows), len(columns))}, got {grid.shape}")
    return columns, rows, grid


def _evaluate(predict, X, what, bounds, resolution):
    """The quantity ``what`` on a grid over ``bounds``."""
    resolution = as_whole(resolution, "resolution", low=2)
    if bounds is None:
        if X is None:
            raise ValueError(
                "bounds: expected (left, right, bottom, top), as there are no points X to set them"
            )
        low, high = X.min(axis=0), X.max(axis=0)
        margin = np.where(high > low, (high - low) / 3, 1.0)
        bounds = low[0] - margin[0], high[0] + margin[0], low[1] - margin[1], high[1] + margin[1]
    bounds = as_real(bounds, "bounds", ndim=1)
    if len(bounds) != 4 or bounds[0] >= bounds[1] or bounds[2] >= bounds[3]:
        raise ValueError(f"bounds: expected (left, right, bottom, top) in this order, got {bounds.tolist()}")
    columns = np.linspace(bounds[0], bounds[1], resolution)
    rows = np.linspace(bounds[2], bounds[3], resolution)
    inputs = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2).astype(np.float32)
    output = to_numpy(predict(inputs), "predict")
    if output.ndim not in (1, 2, 3) or output.shape[max(output.ndim - 2, 0)] != len(inputs):
        raise ValueError(
            f"predict: expected (M, C), (S, M, C) or (M,) for M = {len(inputs)}, got {output.shape}"
        )
    if output.ndim == 1 or what == "value":
        grid, classes = as_column(output, "predict", len(inputs)), 2
        if what == "class":
            classes = int(grid.max()) + 1
    else:
        samples = as_distributions(output, axes="SNC"[-output.ndim :], name="predict")
        grid, classes = _quantity(samples, what), samples.shape[-1]
    return columns, rows, grid.reshape(resolution, resolution), classes


def _quantity(probs, what):
    if what in ("aleatoric", "epistemic") and probs.ndim == 2:
        raise ValueError(
            f"what: expected predictions (S, M, C) of sampled models for {what!r}, got {probs.shape}"
        )
    if what in ("aleatoric", "epistemic"):
        return getattr(metrics.decompose(probs), what)
    if what == "total":
        return metrics.predictive_entropy(probs)
    if what == "confidence":
        return metrics.max_probability(probs)
    average = probs.mean(axis=0) if probs.ndim == 3 else probs
    if what == "class":
        return average.argmax(axis=1).astype(float)
    if average.shape[1] != 2:
        raise ValueError(
            f"what: 'probability' is for two classes, got {average.shape[1]}: try 'class' or 'confidence'"
        )
    return average[:, 1]


def _map_colours(what, grid, classes, vmax):
    """Colour map and its ends."""
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    if what == "probability":
        ends = [tint(PALETTE[0], 0.75), "#FAFAFA", tint(PALETTE[1], 0.85)]
        return LinearSegmentedColormap.from_list("classes", ends), 0.0, 1.0
    if what == "class":
        shades = [tint(PALETTE[c % len(PALETTE)], 0.4) for c in range(classes)]
        return ListedColormap(shades), -0.5, classes - 0.5
    if what == "confidence":
        return sequential("total").reversed(), min(grid.min(), 1 / classes), 1.0
    low = 0.0 if what != "value" or grid.min() >= 0 else grid.min()
    high = vmax if vmax is not None else max(grid.max(), low + 1e-9)
    return sequential("total" if what == "value" else what), low, high


def _scatter_classes(ax, X, y):
    if y is None:
        ax.scatter(*X.T, s=18, color=INK, edgecolor="white", lw=0.6, zorder=3)
        return
    for c in np.unique(y):
        colour = tint(PALETTE[c % len(PALETTE)], 1.0)
        marker = MARKERS[c % len(MARKERS)]
        ax.scatter(
            *X[y == c].T, s=20, color=colour, marker=marker, edgecolor="white", lw=0.6, label=f"class {c}"
        )
