"""The Axes that a plot draws on, and the arguments that several plots take."""

import numpy as np

from uqhelpers._checks import as_distributions, as_real, to_numpy


def axes_or_new(ax, size=None):
    """The Axes that was handed in, or one in a new figure."""
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise ValueError(f"ax: expected a matplotlib Axes, got {type(ax).__name__}")
    return ax


def panels_or_new(ax, rows, columns, size):
    """A flat array of Axes to draw on, and what is handed back."""
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[1]
        return axes.ravel(), axes
    panels = np.ravel(np.array(ax, dtype=object))
    if not all(isinstance(panel, Axes) for panel in panels):
        raise ValueError(f"ax: expected an array of matplotlib Axes, got {type(ax).__name__}")
    return panels, ax


def legend_below(ax, columns):
    """A legend below the horizontal axis, where it covers nothing, however large the Axes are."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4.2, ncols=columns, handlelength=1.8)


def as_column(values, name, length=None):
    """One finite number an input; a trailing axis of one is dropped."""
    array = to_numpy(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    array = as_real(array, name, ndim=1)
    if length is not None and len(array) != length:
        raise ValueError(f"{name}: expected {length} values, one an input, got {len(array)}")
    return array


def as_plane(points, name):
    """Finite points of the plane."""
    points = as_real(points, name, ndim=2)
    if points.shape[1] != 2:
        raise ValueError(f"{name}: expected points of the plane, shape (N, 2), got {points.shape}")
    return points


def as_strings(values, name, count, default):
    """As many strings as ``count``, or the default."""
    if values is None:
        return default
    try:
        strings = [str(value) for value in values]
    except TypeError as error:
        raise ValueError(f"{name}: expected a list of {count}, got {values!r}") from error
    if len(strings) != count:
        raise ValueError(f"{name}: expected {count} of them, got {len(strings)}")
    return strings


def as_rows(probs, name, shape):
    """Rows that are distributions, whatever the first axis stands for."""
    if to_numpy(probs, name).ndim != 2:
        raise ValueError(f"{name}: expected shape {shape}, got {to_numpy(probs, name).shape}")
    return as_distributions(probs, axes="NC", name=name)
