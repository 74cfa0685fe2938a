"""Pools that hold more than clean digits: copies, and scrawls that nobody can read."""

import numpy as np

from uqhelpers._checks import as_generator, as_labels, as_number, as_real, as_whole

__all__ = ["repeated", "scrawls"]


def scrawls(images, labels, count, parts=4, seed=0):
    """Means of several images of different classes, each labelled with one of them at random.

    What an annotator says of such an image is chance: asking about it costs a
    label and teaches nothing.

    Parameters
    ----------
    images : array, shape (N, ...)
    labels : array of int, shape (N,)
    count : int
        How many scrawls.
    parts : int
        Images in each, all of different classes.
    seed : int or numpy.random.Generator

    Returns
    -------
    images : array, shape (count, ...)
        In the type of the images if that is a floating-point one of NumPy's,
        else in float64.
    labels : array of int, shape (count,)

    Raises
    ------
    ValueError
        If there are fewer classes than parts.
    """
    kind = getattr(images, "dtype", np.float64)
    images = as_real(images, "images")
    labels = as_labels(labels, np.inf, length=len(images))
    count, rng = as_whole(count, "count"), as_generator(seed)
    present = np.unique(labels)
    parts = as_whole(parts, "parts", low=2, high=len(present))
    places = [np.flatnonzero(labels == one) for one in present]
    mixed, said = np.empty((count, *images.shape[1:])), np.empty(count, np.int64)
    for row in range(count):
        kinds = rng.permutation(len(present))[:parts]
        mixed[row] = np.mean([images[rng.choice(places[one])] for one in kinds], axis=0)
        said[row] = present[rng.choice(kinds)]
    return mixed.astype(kind if isinstance(kind, np.dtype) and kind.kind == "f" else np.float64), said


def repeated(images, labels, times=3, noise=0.1, seed=0):
    """Every image several times, each copy with its own noise: a pool of near-duplicates.

    Parameters
    ----------
    images : array, shape (N, ...)
        Pixels in [0, 1].
    labels : array of int, shape (N,)
    times : int
        Copies of each.
    noise : float
        Standard deviation of the Gaussian noise in each pixel; the result is
        kept in [0, 1].
    seed : int or numpy.random.Generator

    Returns
    -------
    images : array, shape (times · N, ...), float32
        Copy ``j`` of image ``i`` stands at ``i + j · N``.
    labels : array of int, shape (times · N,)

    References
    ----------
    Kirsch, van Amersfoort and Gal (2019), BatchBALD, repeat MNIST in this
    way.
    """
    images = as_real(images, "images")
    if images.min() < 0 or images.max() > 1:
        raise ValueError(f"images: expected pixels in [0, 1], got {images.min():.4g} to {images.max():.4g}")
    images = images.astype(np.float32)
    labels = as_labels(labels, np.inf, length=len(images))
    times, noise, rng = as_whole(times, "times"), as_number(noise, "noise", low=0), as_generator(seed)
    copies = np.concatenate([images] * times)
    if noise:
        copies += noise * rng.standard_normal(copies.shape, np.float32)
    return np.clip(copies, 0, 1), np.tile(labels, times)
