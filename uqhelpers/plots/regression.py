"""A prediction with its band."""

import numpy as np

from uqhelpers._checks import as_real, to_numpy
from uqhelpers.plots.canvas import as_column, axes_or_new, legend_below
from uqhelpers.plots.style import COLOURS, INK, tint


def predictive_band(
    x, mean, epistemic=None, aleatoric=None, *, total=None, data=None, truth=None, widths=(1, 2), ax=None
):
    """A predicted curve within bands of one and two standard deviations.

    Parameters
    ----------
    x : array, shape (N,)
        Where the predictions are; in any order.
    mean : array, shape (N,)
        The predictive mean.
    epistemic, aleatoric : array, shape (N,), or float, optional
        Standard deviations; one at least is needed, here or as ``total``. With
        both, there is one band of each, as wide as the largest of ``widths``: the
        inner is epistemic, the outer adds the noise (variances sum up).
    total : array, shape (N,), or float, optional
        Instead of the two, the standard deviation of the prediction as a whole.
    data : (x, y), optional
        Training points to be drawn over the bands.
    truth : array, shape (N,), or callable, optional
        The true curve, as values or as a function of ``x``.
    widths : tuple of float
        Half widths of the bands in standard deviations.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    x = as_column(x, "x")
    mean = as_column(mean, "mean", len(x))
    parts = {"epistemic": epistemic, "aleatoric": aleatoric, "total": total}
    parts = {name: _as_std(std, name, len(x)) for name, std in parts.items() if std is not None}
    if not parts:
        raise ValueError("epistemic: expected a standard deviation (epistemic, aleatoric or total), got none")
    if "total" in parts and len(parts) > 1:
        raise ValueError("total: expected either total or its parts, got both")
    widths = sorted(as_real(widths, "widths", ndim=1), reverse=True)
    if widths[-1] <= 0:
        raise ValueError(f"widths: expected positive numbers, got {widths[-1]:g}")

    bands = dict(parts)
    if len(parts) == 2:
        widths = widths[:1]  # bands of two kinds and two widths would cover each other
        bands = {
            "plus aleatoric": np.hypot(parts["epistemic"], parts["aleatoric"]),
            "epistemic": parts["epistemic"],
        }
    ax = axes_or_new(ax)
    order = np.argsort(x, kind="stable")
    span = " and ".join(f"{width:g}" for width in reversed(widths))
    for name, std in bands.items():
        colour = COLOURS["aleatoric" if name == "plus aleatoric" else name]
        for depth, width in enumerate(widths):
            ax.fill_between(
                x[order],
                (mean - width * std)[order],
                (mean + width * std)[order],
                color=tint(colour, 0.36 if len(widths) == 1 else 0.22 + 0.25 * depth / (len(widths) - 1)),
                lw=0,
                label=f"{name}, ±{span} std" if depth == len(widths) - 1 else None,
            )
    if truth is not None:
        curve = as_column(truth(x) if callable(truth) else truth, "truth", len(x))
        ax.plot(x[order], curve[order], color=INK, lw=1.3, ls="--", label="truth")
    ax.plot(x[order], mean[order], color=INK, lw=1.9, label="mean")
    if data is not None:
        try:
            data_x, data_y = data
        except (TypeError, ValueError) as error:
            raise ValueError("data: expected a pair (x, y)") from error
        data_x = as_column(data_x, "data")
        data_y = as_column(data_y, "data", len(data_x))
        ax.scatter(data_x, data_y, s=16, color=INK, edgecolor="white", lw=0.5, zorder=4, label="data")
    ax.set(xlabel="x", ylabel="y", xlim=(x.min(), x.max()))
    legend_below(ax, 3)
    return ax


def _as_std(std, name, length):
    array = to_numpy(std, name)
    array = np.full(length, array, dtype=np.float64) if array.ndim == 0 else array
    array = as_column(array, name, length)
    if array.min() < 0:
        raise ValueError(f"{name}: expected standard deviations of at least 0, got {array.min():.4g}")
    return array
