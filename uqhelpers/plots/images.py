"""Images side by side."""

import numpy as np

from uqhelpers._checks import as_flags, as_labels, as_real, as_whole
from uqhelpers.plots.canvas import as_column, as_strings, panels_or_new
from uqhelpers.plots.style import COLOURS, INK

SMALL = 16  # rows: below it a person sees squares where there is a digit


def image_grid(images, titles=None, columns=5, *, emphasis=None, smooth=None, ax=None):
    """Images side by side, each under its title.

    Parameters
    ----------
    images : array, shape (N, H, W), (N, 1, H, W), (N, 3, H, W) or (N, H, W, 3)
        Values in [0, 1] are drawn on that scale, others from least to greatest.
    titles : list of str, optional
        One for each image.
    columns : int
        Images in a row.
    emphasis : array of bool, shape (N,), optional
        Which titles and frames to set apart, as for wrong predictions.
    smooth : bool, optional
        Whether neighbouring pixels flow into each other. By default so for images of
        fewer than 16 rows, which a person reads only then; ``False`` where the
        pixels themselves matter.
    ax : array of Axes, optional
        At least ``N`` of them; by default a new figure.

    Returns
    -------
    array of Axes, shape (rows, columns)
        Or ``ax`` as it was handed in.
    """
    images = _as_images(images)
    count = len(images)
    columns = min(as_whole(columns, "columns"), count)
    titles = as_strings(titles, "titles", count, [""] * count)
    emphasis = np.zeros(count, bool) if emphasis is None else as_flags(emphasis, "emphasis", length=count)

    smooth = images.shape[1] < SMALL if smooth is None else bool(as_flags([smooth], "smooth")[0])
    way = {"interpolation": "bicubic" if smooth else "nearest", "interpolation_stage": "data"}

    rows = -(-count // columns)
    lines = max(title.count("\n") + 1 if title else 0 for title in titles)
    width = min(5.8, 1.16 * columns)
    cell = width / columns
    height = rows * (cell * images.shape[1] / images.shape[2] + 0.19 * lines + 0.06)
    panels, axes = panels_or_new(ax, rows, columns, (width, height))
    if len(panels) < count:
        raise ValueError(f"ax: expected at least {count} axes, one an image, got {len(panels)}")

    low, high = images.min(), images.max()
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    # The longest line must fit into a cell; a bold letter is about .7 of its size wide.
    longest = max((len(line) for title in titles for line in title.split("\n")), default=0)
    size = min(9.5, cell * 72 / ((0.7 if emphasis.any() else 0.58) * max(longest, 1)))
    for panel, image, title, marked in zip(panels, images, titles, emphasis, strict=False):
        panel.imshow(image, cmap="gray_r", vmin=low, vmax=high, **way)
        panel.set(xticks=[], yticks=[])
        colour = COLOURS["wrong"] if marked else INK
        panel.set_title(
            title, fontsize=size, loc="center", color=colour, pad=4, weight="bold" if marked else "normal"
        )
        for spine in panel.spines.values():
            spine.set(visible=True, color=colour if marked else "#C4C9D0", linewidth=1.8 if marked else 0.7)
    for panel in panels[count:]:
        panel.set_axis_off()
    return axes


def most_and_least(images, score, predictions, labels, k=5, *, units="nats", classes=None, ax=None):
    """The most and the least certain images, with prediction, truth and score.

    Parameters
    ----------
    images : array, shape (N, H, W) or another that :func:`image_grid` takes
    score : array, shape (N,)
        Higher is more uncertain.
    predictions, labels : array of int, shape (N,)
        The predicted and the true class.
    k : int
        Images in a row.
    units : str
        What the score is measured in.
    classes : list of str, optional
        Names of the classes; by default their numbers.
    ax : array of Axes, optional
        ``2 k`` of them; by default a new figure.

    Returns
    -------
    array of Axes, shape (2, k)
        The most certain in the first row, the least certain in the second; those
        with a wrong prediction are framed.

    Raises
    ------
    ValueError
        If there are fewer than ``k`` images.
    """
    images = _as_images(images)
    count = len(images)
    k = as_whole(k, "k", high=count)
    score = as_column(score, "score", count)
    if classes is not None:
        classes = as_strings(classes, "classes", len(np.atleast_1d(classes)), None)
    limit = np.iinfo(np.int64).max if classes is None else len(classes)
    predictions = as_labels(predictions, limit, "predictions", length=count)
    labels = as_labels(labels, limit, "labels", length=count)

    order = np.argsort(score, kind="stable")
    chosen = np.concatenate([order[:k], order[::-1][:k]])
    names = str if classes is None else classes.__getitem__
    # Under 0.001 the third decimal says nothing.
    amount = [f"{score[i]:.3f}" if not 0 < abs(score[i]) < 5e-4 else f"{score[i]:.0e}" for i in chosen]
    titles = [
        f"predicts {names(predictions[i])}\ntruth {names(labels[i])}\n{value} {units}".rstrip()
        for i, value in zip(chosen, amount, strict=True)
    ]
    wrong = predictions[chosen] != labels[chosen]
    axes = image_grid(images[chosen], titles, columns=k, emphasis=wrong, ax=ax)
    panels = np.ravel(axes)
    panels[0].set_ylabel("most certain", fontsize=10)
    panels[k].set_ylabel("least certain", fontsize=10)
    return axes


def _as_images(images):
    """Images as (N, H, W) or (N, H, W, 3)."""
    images = as_real(images, "images")
    if images.ndim == 4 and images.shape[1] == 1:
        return images[:, 0]
    if images.ndim == 4 and images.shape[1] == 3:
        return np.moveaxis(images, 1, -1)
    if images.ndim == 3 or (images.ndim == 4 and images.shape[-1] == 3):
        return images
    raise ValueError(f"images: expected shape (N, H, W), (N, 1, H, W) or (N, 3, H, W), got {images.shape}")
