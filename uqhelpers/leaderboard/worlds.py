"""What every method is given, and what it is asked about: one world of images, the same for all."""

import dataclasses
import functools
import os

import numpy as np
from scipy.special import xlogy

from uqhelpers import data
from uqhelpers._checks import as_choice, as_generator, as_number, as_whole
from uqhelpers.data.containers import Split

__all__ = ["WORLDS", "World", "blends", "world"]

SEVERITIES = (1, 2, 3, 4, 5)
SIZES = {"digits": (900, 450, 600), "mnist": (4_000, 2_000, 1_000)}  # digits, blends, and test images
LEAST = 0.06  # the rarest class of the uneven world keeps this share of its images
DATA_SEED = 20  # what is drawn for a world is drawn once: networks have other seeds, images do not

WORLDS = {
    "standard": {},
    "noise 20 %": {"noise": 0.2},
    "noise 40 %": {"noise": 0.4},
    "half the data": {"share": 0.5},
    "an eighth": {"share": 0.125},
    "uneven": {"uneven": True},
}
"""The worlds that the stored tables were computed in, and what is changed in each."""


@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """What a method learns from, and what its answers are judged by.

    Attributes
    ----------
    name : str
    train, validation : Split
        All that a method is given. In ``train`` every third image is a blend of
        two digits, whose label was drawn by its share.
    test : Split
        Clean digits of the law of ``validation``.
    near, far : array, shape (N, 1, H, W)
        As many letters, and the test images with their pixels shuffled.
    corrupted : array, shape (5, N, 1, H, W)
        The test images at five severities, each by one of seven kinds.
    blended : array, shape (B, 1, H, W)
        Blends of test digits,
    entropy : array, shape (B,)
        and the entropy of the law that their labels are drawn from, in nats.
    examples : array, shape (N,)
        For each test image: how many training digits of its class there are.
    classes : int
    image_shape : tuple
    mean, std : float
        Of the training pixels, to standardise with.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    near: np.ndarray
    far: np.ndarray
    corrupted: np.ndarray
    blended: np.ndarray
    entropy: np.ndarray
    examples: np.ndarray
    classes: int
    image_shape: tuple
    mean: float
    std: float

    def questions(self):
        """All images that a method is asked about, in one array, and where each part stands in it."""
        parts = {
            "test": self.test.images,
            "near": self.near,
            "far": self.far,
            "corrupted": self.corrupted.reshape(-1, *self.image_shape),
            "blended": self.blended,
            "validation": self.validation.images,
        }
        ends = np.cumsum([len(images) for images in parts.values()])
        places = {
            name: slice(end - len(images), end)
            for (name, images), end in zip(parts.items(), ends, strict=True)
        }
        return np.concatenate(list(parts.values())), places


def blends(split, n, seed=0, classes=10):
    """Blends of two digits of neighbouring classes, in any share, with labels drawn by the share.

    Every pair of neighbours (0 and 1, ..., 9 and 0) is blended equally often.

    Parameters
    ----------
    split : Split
        Images to blend, some of each class.
    n : int
        How many.
    seed : int or numpy.random.Generator
    classes : int

    Returns
    -------
    blended : Split
        Images, and labels that were drawn: the first class with the
        probability of its share.
    entropy : array, shape (n,)
        Of that law, in nats, from 0 to ``log 2``.
    """
    n, rng = as_whole(n, "n"), as_generator(seed)
    first = np.arange(n) % classes
    pairs = np.stack([first, (first + 1) % classes])
    members = [np.flatnonzero(split.labels == c) for c in range(classes)]
    if any(len(rows) == 0 for rows in members):
        raise ValueError(f"split: expected images of all {classes} classes, got none of some")
    chosen = np.array([[rng.choice(members[c]) for c in row] for row in pairs])
    share = rng.random(n)
    weights = np.stack([share, 1 - share]).astype(np.float32)
    images = np.einsum("pn,pnchw->nchw", weights, split.images[chosen])
    labels = np.where(rng.random(n) < share, *pairs)
    entropy = -(xlogy(share, share) + xlogy(1 - share, 1 - share))
    return Split(np.clip(images, 0, 1).astype(np.float32), labels), entropy


def world(name="standard", seed=0, edition=None):
    """One of the worlds of the leaderboard.

    Parameters
    ----------
    name : {"standard", "noise 20 %", "noise 40 %", "half the data", "an eighth", "uneven"}
        The standard world, or the same with one thing changed: a share of all
        labels (of training and of validation) drawn anew among the other
        classes; fewer training images; or classes of very different size.
    seed : int
        In the uneven world: which class is rare. Nothing else depends on it.
    edition : {"digits", "mnist"}, optional
        As for :func:`uqhelpers.data.load`.

    Returns
    -------
    World
    """
    as_choice(name, "name", tuple(WORLDS))
    chosen = edition or os.environ.get("UQ_DATASET") or "digits"
    return _made(name, as_whole(seed, "seed", low=0) if "uneven" in WORLDS[name] else 0, chosen)


@functools.lru_cache(maxsize=4)
def _made(name, seed, edition):
    changes = WORLDS[name]
    everything = data.load(edition, progress=False)
    digits, mixed, asked = SIZES[everything.name]
    train, validation, test = everything.train[:digits], everything.validation, everything.test[:asked]
    validation = validation[:asked]
    kept = _kept(train.labels, seed, everything.classes, **changes)
    blended, _ = blends(train[kept], max(1, round(mixed * len(kept) / digits)), DATA_SEED)
    train = train[kept]
    counts = np.bincount(train.labels, minlength=everything.classes)
    labelled = Split(
        np.concatenate([train.images, blended.images]), np.concatenate([train.labels, blended.labels])
    )
    noise = as_number(changes.get("noise", 0.0), "noise", 0, 1)
    strange, truth = blends(test, len(test), DATA_SEED + 1)
    return World(
        name=name,
        train=Split(labelled.images, mislabelled(labelled.labels, noise, DATA_SEED, everything.classes)),
        validation=Split(
            validation.images, mislabelled(validation.labels, noise, DATA_SEED + 1, everything.classes)
        ),
        test=test,
        near=data.load_ood("letters", everything.name).images[: len(test)],
        far=shuffled(test.images),
        corrupted=np.stack([corrupted(test.images, severity) for severity in SEVERITIES]),
        blended=strange.images,
        entropy=truth,
        examples=counts[test.labels],
        classes=everything.classes,
        image_shape=everything.image_shape,
        mean=everything.mean,
        std=everything.std,
    )


def _kept(labels, seed, classes, share=1.0, uneven=False, noise=0.0):
    """Which training digits stay: all, the first share of every class, or ever fewer from class to class."""
    shares = np.full(classes, share)
    if uneven:
        order = np.random.default_rng(seed).permutation(classes)
        shares[order] = np.geomspace(1, LEAST, classes)
    rows = [np.flatnonzero(labels == c) for c in range(classes)]
    return np.sort(
        np.concatenate([r[: max(1, round(s * len(r)))] for r, s in zip(rows, shares, strict=True)])
    )


def mislabelled(labels, noise, seed, classes):
    """Labels of which a share was drawn anew among the *other* classes."""
    rng = np.random.default_rng(seed)
    wrong = (labels + rng.integers(1, classes, size=len(labels))) % classes
    return np.where(rng.random(len(labels)) < noise, wrong, labels)


def shuffled(images):
    """The same pixels, in an order of its own for each image."""
    flat = images.reshape(len(images), -1)
    return np.random.default_rng(DATA_SEED).permuted(flat, axis=1).reshape(images.shape)


def corrupted(images, severity):
    """Every image damaged by one kind: the first by the first, the second by the second, and round again."""
    damaged = np.empty_like(images)
    for place, kind in enumerate(data.CORRUPTIONS):
        rows = slice(place, None, len(data.CORRUPTIONS))
        damaged[rows] = data.corrupt(images[rows], kind, severity, seed=DATA_SEED)
    return damaged
