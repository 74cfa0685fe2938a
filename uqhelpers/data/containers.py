"""What the loaders return: images with labels, and the parts of a data set."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import to_numpy


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels, one part of a data set.

    Indexing works like an array's along the first axis and returns a new
    ``Split``: ``split[:100]``, ``split[mask]``, ``split[[3, 1]]``; ``split[3]``
    holds one image.

    Parameters
    ----------
    images : array, shape (N, 1, H, W), float32
        Pixels in [0, 1]; 0 is the background.
    labels : array, shape (N,), int64
        The class of each image.
    """

    images: np.ndarray
    labels: np.ndarray

    def __post_init__(self):
        for name in (
            "images",
            "labels",
        ):  # arrays stay themselves, a mask is refused
            object.__setattr__(self, name, to_numpy(getattr(self, name), name))
        if self.images.ndim != 4:
            raise ValueError(f"images: expected shape (N, 1, H, W), got {self.images.shape}")
        if self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"labels: expected one an image, shape ({len(self.images)},), got {self.labels.shape}"
            )

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if isinstance(index, (int, np.integer)):
            index = [index]  # keep the first axis, so that one image is a Split as well
        return Split(self.images[index], self.labels[index])

    def __repr__(self):
        return f"Split({len(self)} images of shape {self.images.shape[1:]})"


@dataclass(frozen=True, eq=False)
class ImageData:
    """A data set of images, split once and for all.

    Parameters
    ----------
    name : str
        The edition: ``"digits"`` or ``"mnist"``.
    train, validation, test : Split
        For fitting; for tuning and calibration; for what is reported.
    classes : int
        How many classes there are.
    image_shape : tuple of int
        ``(1, H, W)``.
    mean, std : float
        Of all training pixels (MNIST: of the whole training file, .1307 and
        .3081, the figures in common use). Networks normalise with them inside
        themselves, so that everything outside speaks of pixels in [0, 1].
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: int
    image_shape: tuple
    mean: float
    std: float

    def __repr__(self):
        sizes = f"{len(self.train)} train, {len(self.validation)} validation, {len(self.test)} test"
        return f"ImageData({self.name!r}: {sizes}, images of shape {self.image_shape})"


def make_image_data(name, train, validation, test, of=None):
    """An ``ImageData`` of ten classes, with mean and standard deviation of the training pixels.

    ``of`` is the split whose pixels count, where that is not the training part alone.
    """
    pixels = (of or train).images
    # Millions of numbers are added up: float32 would lose digits.
    mean, std = float(pixels.mean(dtype=np.float64)), float(pixels.std(dtype=np.float64))
    return ImageData(name, train, validation, test, 10, tuple(train.images.shape[1:]), mean, std)
