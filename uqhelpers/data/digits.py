"""The digits edition: scikit-learn's 1,797 handwritten digits, with one fixed split."""

import numpy as np

from uqhelpers.data.containers import Split, make_image_data

SIZES = {"train": 900, "validation": 297, "test": 600}
SPLIT_SEED = 20


def digits_indices():
    """Which of scikit-learn's 1,797 digits belong to which part.

    The split is fixed, stratified and without overlap: each part holds every
    class in its share of the whole, to within one image.

    Returns
    -------
    dict of str to array of int
        ``"train"`` (900), ``"validation"`` (297) and ``"test"`` (600).
    """
    from sklearn.datasets import load_digits

    labels = load_digits().target
    # RandomState and not a Generator: NumPy promises that its numbers never change.
    order = np.random.RandomState(SPLIT_SEED).permutation(len(labels))
    # How far along its own class each image stands, from 0 to 1. Cutting all classes at the same
    # heights gives every part its share of each.
    height = np.empty(len(labels))
    for label in range(10):
        members = np.flatnonzero(labels[order] == label)
        height[members] = (np.arange(len(members)) + 0.5) / len(members)
    ranked = np.argsort(height, kind="stable")
    cuts = np.cumsum(list(SIZES.values()))[:-1]
    # Within a part, back to the order of the permutation: its first images are a random few.
    return {part: order[np.sort(chosen)] for part, chosen in zip(SIZES, np.split(ranked, cuts), strict=True)}


def load_digits_edition():
    """The digits edition as ``ImageData``; see ``load``."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images[:, None] / 16).astype(np.float32)  # counts of 0..16 inked dots
    labels = bunch.target.astype(np.int64)
    parts = {part: Split(images[index], labels[index]) for part, index in digits_indices().items()}
    return make_image_data("digits", **parts)
