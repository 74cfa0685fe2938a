"""Digits that are two digits at once: uncertainty that no amount of data removes."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_choice, as_generator, as_whole
from uqhelpers.data.images import load


@dataclass(frozen=True, eq=False)
class Blends:
    """Blended images with both of their labels.

    Parameters
    ----------
    images : array, shape (N, 1, H, W), float32
        Pixels in [0, 1].
    labels : array, shape (N, 2), int64
        The classes of the two images that were blended; they differ.
    weights : array, shape (N, 2), float32
        The share of each in the blend; rows sum to 1.
    """

    images: np.ndarray
    labels: np.ndarray
    weights: np.ndarray

    def __len__(self):
        return len(self.images)

    def __repr__(self):
        return f"Blends({len(self)} images of shape {self.images.shape[1:]})"


CANDIDATES = 2_000  # images that may be blended; pairs grow with the square of it
LOOK_ALIKES = 1_500  # how many of the closest pairs are blended,
CLOSEST = 0.01  # and at most what share of all pairs of unlike classes
NEAR_HALF = (0.4, 0.6)  # shares outside of it leave one of the two a ghost behind the other


def ambiguous_digits(n=100, seed=0, edition=None, split="test", *, progress=True):
    """Digits that could be either of two classes, each blended from two real images.

    Two digits laid over each other at random give a scrawl that is neither.
    So only look-alikes are blended: the 1,500 pairs of images of different
    classes that are most similar (but at most 1 % of all pairs; by the cosine
    of the angle between their pixels), in shares from 0.4 to 0.6. The kinds of
    pairs that occur (3 and 9, 1 and 8, …) are drawn equally often. One image
    may occur in several blends.

    Parameters
    ----------
    n : int
        How many.
    seed : int or numpy.random.Generator
        Where pairs and shares are drawn from.
    edition : {"digits", "mnist"}, optional
        As in ``load``.
    split : {"test", "validation", "train"}
        The part whose images are blended. Of more than 2,000 images a random
        2,000 are considered.
    progress : bool
        Whether a download shows a bar.

    Returns
    -------
    Blends
        Images, both labels, and the share of each in the blend.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty, use ambiguous digits
    (from a generative model, where ours are blends) to tell aleatoric from
    epistemic uncertainty.
    """
    n = as_whole(n, "n")
    rng = as_generator(seed)
    as_choice(split, "split", ("test", "validation", "train"))
    source = getattr(load(edition, progress=progress), split)
    if len(source) > CANDIDATES:
        source = source[rng.choice(len(source), CANDIDATES, replace=False)]
    first, second = _look_alikes(source)

    # Draw a kind of pair first, then a pair of this kind: 3 and 9 would otherwise be every other blend.
    kinds, kind_of = np.unique(
        np.sort(np.stack([source.labels[first], source.labels[second]], axis=1), axis=1),
        axis=0,
        return_inverse=True,
    )
    by_kind = np.argsort(kind_of.ravel(), kind="stable")
    sizes = np.bincount(kind_of.ravel())
    starts = np.cumsum(sizes) - sizes
    kind = rng.integers(len(kinds), size=n)
    chosen = by_kind[starts[kind] + rng.integers(sizes[kind])]

    pairs = rng.permuted(np.stack([first[chosen], second[chosen]], axis=1), axis=1)
    share = rng.uniform(*NEAR_HALF, size=n).astype(np.float32)
    weights = np.stack([share, 1 - share], axis=1)
    images = np.einsum("np,npchw->nchw", weights, source.images[pairs])
    return Blends(np.clip(images, 0, 1), source.labels[pairs], weights)


def _look_alikes(split):
    """Indices of the closest pairs of unlike classes."""
    pixels = split.images.reshape(len(split), -1).astype(np.float64)
    # By angle, not by distance: thin strokes lie close to anything, because they have little ink.
    pixels /= np.linalg.norm(pixels, axis=1, keepdims=True)
    similarity = pixels @ pixels.T
    first, second = np.nonzero(np.triu(split.labels[:, None] != split.labels))
    pairs = similarity[first, second]
    count = max(1, min(LOOK_ALIKES, int(CLOSEST * len(pairs))))
    closest = np.argsort(-pairs, kind="stable")[:count]
    return first[closest], second[closest]
