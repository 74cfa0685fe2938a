"""Images made harder in a known way and by a known degree."""

import numpy as np

from uqhelpers._checks import as_choice, as_generator, as_real, as_whole

# By severity 1 to 5. Lengths are shares of the image's shorter side, so that 8 × 8 and 28 × 28 pixels
# suffer alike.
LEVELS = {
    "gaussian_noise": (0.1, 0.2, 0.3, 0.4, 0.5),  # standard deviation
    "blur": (0.05, 0.075, 0.10, 0.125, 0.15),  # standard deviation of the kernel, share of the side
    "contrast": (0.75, 0.55, 0.40, 0.25, 0.15),  # what is left of the distance to the image's mean
    "rotation": (5, 10, 20, 35, 50),  # degrees, either way
    "translation": (0.03, 0.06, 0.10, 0.15, 0.20),  # share of the side, in any direction
    "occlusion": (0.2, 0.3, 0.4, 0.5, 0.6),  # side of a grey square, share of the image's side
    "pixel_dropout": (0.1, 0.2, 0.3, 0.45, 0.6),  # chance of a pixel to go black
}
CORRUPTIONS = tuple(LEVELS)
"""The kinds of corruption that ``corrupt`` knows."""


def corrupt(images, kind, severity, seed=0):
    """Corrupt images by one kind of damage, at one of five severities.

    One seed draws one pattern of noise, one direction, one place for each
    image, whatever the severity: a higher severity is more of the same.

    Parameters
    ----------
    images : array, shape (N, C, H, W)
        Pixels in [0, 1], of any size. They are left as they are.
    kind : str
        One of ``CORRUPTIONS``: ``"gaussian_noise"``, ``"blur"``, ``"contrast"``,
        ``"rotation"``, ``"translation"``, ``"occlusion"``, ``"pixel_dropout"``.
    severity : int
        From 1, which is hardly visible, to 5, which is hard to read.
    seed : int or numpy.random.Generator
        Where chance comes from. Blur and contrast need none.

    Returns
    -------
    array, shape (N, C, H, W), float32
        The corrupted images, in [0, 1].

    References
    ----------
    Hendrycks and Dietterich (2019), Benchmarking neural network robustness to
    common corruptions and perturbations: the idea of kinds at five severities.
    Mu and Gilmer (2019), MNIST-C. The kinds and degrees here are our own.
    """
    images = as_real(images, "images", ndim=4)
    if images.min() < 0 or images.max() > 1:
        raise ValueError(
            f"images: expected pixels in [0, 1], got {images.min():.4g} to {images.max():.4g}: "
            "are these normalised?"
        )
    level = LEVELS[as_choice(kind, "kind", CORRUPTIONS)][as_whole(severity, "severity", 1, 5) - 1]
    damaged = _DAMAGE[kind](images, level, as_generator(seed))
    return np.clip(damaged, 0, 1).astype(np.float32)


def _gaussian_noise(images, level, rng):
    return images + level * rng.standard_normal(images.shape)


def _blur(images, level, rng):
    from scipy.ndimage import gaussian_filter

    sigma = level * min(images.shape[2:])
    return gaussian_filter(images, sigma, axes=(2, 3), mode="constant")


def _contrast(images, level, rng):
    mean = images.mean(axis=(1, 2, 3), keepdims=True)
    return mean + level * (images - mean)


def _rotation(images, level, rng):
    angles = np.deg2rad(level) * rng.choice([-1, 1], size=len(images))
    cos, sin = np.cos(angles), np.sin(angles)
    turns = np.stack([np.stack([cos, -sin], axis=-1), np.stack([sin, cos], axis=-1)], axis=1)
    centre = (np.array(images.shape[2:]) - 1) / 2
    return _resample(images, turns, centre - turns @ centre)


def _translation(images, level, rng):
    angles = rng.uniform(0, 2 * np.pi, size=len(images))
    shifts = level * min(images.shape[2:]) * np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return _resample(images, np.tile(np.eye(2), (len(images), 1, 1)), -shifts)


def _resample(images, matrices, offsets):
    """Each image under its own affine map from output to input pixels, black outside."""
    from scipy.ndimage import affine_transform

    moved = np.empty_like(images)
    for image, matrix, offset, out in zip(images, matrices, offsets, moved, strict=True):
        for channel, target in zip(image, out, strict=True):
            affine_transform(channel, matrix, offset, output=target, order=1, mode="constant")
    return moved


def _occlusion(images, level, rng):
    height, width = images.shape[2:]
    # The middle of the square lies in the middle half of the image: a corner hides nothing.
    rows, columns = rng.uniform(0.25, 0.75, size=(2, len(images), 1, 1))
    reach = level * min(height, width) / 2
    inside = (np.abs(np.arange(height)[:, None] + 0.5 - rows * height) < reach) & (
        np.abs(np.arange(width) + 0.5 - columns * width) < reach
    )
    return np.where(inside[:, None], 0.5, images)


def _pixel_dropout(images, level, rng):
    return np.where(rng.random(images.shape) < level, 0.0, images)


_DAMAGE = {
    "gaussian_noise": _gaussian_noise,
    "blur": _blur,
    "contrast": _contrast,
    "rotation": _rotation,
    "translation": _translation,
    "occlusion": _occlusion,
    "pixel_dropout": _pixel_dropout,
}
