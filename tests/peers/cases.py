"""The inputs that uqhelpers and other libraries are compared on, the same on every machine.

Random numbers are rounded to binary fractions that float32 holds exactly, so
that a library that works in single precision sees the very same numbers, and
one machine's last bit of an exponential is no other input. ``fingerprint``
tells whether stored results belong to these inputs.
"""

import hashlib

import numpy as np

__all__ = ["fingerprint", "make_cases"]

# Multiples of the logits whose best temperatures are about .3, 1, 5.17 and 20.5.
FACTORS = np.array([0.296875, 1.0, 5.203125, 20.609375])


def rounded(values, bits=23):
    """To multiples of ``2 ** -bits``; adding 0 turns -0.0 into 0.0."""
    return np.round(np.asarray(values) * 2.0**bits) / 2.0**bits + 0.0


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def distributions(probs):
    """Rounded rows that sum to exactly 1: the largest entry takes what rounding left."""
    probs = rounded(probs)
    top = probs.argmax(axis=-1)[..., None]
    rest = 1.0 - probs.sum(axis=-1, keepdims=True)
    np.put_along_axis(probs, top, np.take_along_axis(probs, top, axis=-1) + rest, axis=-1)
    return probs


def two_classes(confidence):
    """Predictions of class 1 with these probabilities."""
    confidence = np.asarray(confidence)
    return np.stack([1 - confidence, confidence], axis=1)


def classification(generator):
    """Logits, over-confident probabilities, and labels drawn from the logits themselves."""
    logits = rounded(2 * generator.normal(size=(2000, 5)), 10)
    labels = (softmax(logits).cumsum(axis=1) < generator.random((2000, 1))).sum(axis=1)
    return {
        "logits": logits,
        "probs": distributions(softmax(1.5 * logits)),
        "labels": np.minimum(labels, 4),
    }


def clusters(generator):
    """Features of three classes, wide in four directions and narrow in four, and how they can go wrong.

    The strange leave their class in the narrow directions. "dependent" are 16 mixtures of the eight, so
    that the covariance has eight directions without any spread; "small" are the eight in other units.
    """
    labels = np.arange(900) % 3
    wide = 3 * generator.normal(size=(3, 4))[labels] + generator.normal(size=(900, 4))
    narrow = 0.05 * generator.normal(size=(900, 4))
    narrow[750:] += 0.2 * np.sign(generator.normal(size=(150, 4)))
    values = rounded(np.concatenate([wide, narrow], axis=1), 10)
    mixed = values @ rounded(generator.normal(size=(8, 16)), 6)  # sums of few bits: exact, everywhere
    by_name = {}
    for name, kind in {"plain": values, "dependent": mixed, "small": values * 2.0**-16}.items():
        by_name[name], by_name[f"{name}, new"] = kind[:600], kind[600:]
    return by_name | {"labels": labels[:600], "strange": np.arange(300) >= 150}


def make_cases():
    """All inputs, by name.

    Returns
    -------
    dict of dict of array
    """
    generator = np.random.default_rng(0)
    drawn = classification(generator)
    sampled = rounded(3 * generator.normal(size=(6, 60, 4)), 10)
    scores = rounded(generator.normal(size=1000), 6)
    strange = np.arange(1000) % 5 == 0
    spread = rounded(0.5 + generator.random(400), 10)
    mean = rounded(3 * generator.normal(size=400), 10)
    weights = generator.random((500, 10))
    # Member by member a sum of ten numbers in their order, which no machine does otherwise.
    member = (weights / sum(weights.T)[:, None]).astype(np.float32)
    network = {
        "hidden": rounded(generator.normal(size=(10, 3)), 10),
        "output": rounded(generator.normal(size=(4, 10)), 10),
        "inputs": rounded(generator.normal(size=(8, 3)), 10),
    }
    first = np.arange(100) < 10
    apart = np.random.default_rng(1)  # its own, so that the draws above stay what they are
    elsewhere = np.random.default_rng(2)  # likewise
    features = clusters(elsewhere)
    return {
        "drawn": drawn,
        "temperature": {
            "logits": drawn["logits"],
            "labels": drawn["labels"],
            "factors": FACTORS,
        },
        # 50 predictions at confidence 1, of which 40 are right, and 50 at .95, all right.
        "certain": {
            "probs": two_classes(np.repeat([1.0, 0.95], 50)),
            "labels": np.repeat([1, 0, 1], [40, 10, 50]),
        },
        # A confidence on the edge of two bins, in three classes and more, so that nobody calls it binary.
        "edge": {
            "probs": np.array([[0.5, 0.25, 0.125, 0.125], [0.4375, 0.3125, 0.125, 0.125], [0.25] * 4]),
            "labels": np.array([0, 1, 2]),
        },
        "two": {"probs": two_classes([0.6, 0.55]), "labels": np.array([1, 0])},
        # Three classes, of which the labels happen to hold two.
        "missing class": {
            "probs": np.array([[0.75, 0.125, 0.125], [0.25, 0.625, 0.125]]),
            "labels": np.array([0, 1]),
        },
        # Binary predictions that call class 0 as often as class 1.
        "binary": {
            "probs": two_classes(np.repeat([0.125, 0.875], 8)),
            "labels": np.repeat([1, 0, 1, 0], [3, 5, 6, 2]),
        },
        "ties": {
            "probs": two_classes(np.full(100, 0.875)),
            "first": np.where(first, 0, 1),
            "last": np.where(first[::-1], 0, 1),
            "spread": np.where(np.arange(100) % 10 == 0, 0, 1),
        },
        # Half of the inputs saturated, the wrong ones before or behind the right ones.
        "saturated": {
            "probs": two_classes(np.repeat([1.0, 0.75], 50)),
            "first": np.repeat([0, 1, 0, 1], [10, 40, 10, 40]),
            "last": np.repeat([1, 0, 1, 0], [40, 10, 40, 10]),
        },
        "few": {"probs": two_classes([0.875, 0.75, 0.6875, 0.625]), "labels": np.array([1, 1, 1, 0])},
        "sampled": {"logits": sampled, "probs": distributions(softmax(sampled))},
        # The weights of a network with one hidden layer of ten units, half of which are dropped.
        "dropout": network,
        "same members": {"probs": np.tile(member, (20, 1, 1))},
        "one-hot": {"probs": np.eye(10), "logits": 1000 * np.eye(10)},
        "impossible": {"probs": np.eye(2), "labels": np.array([1, 1])},
        # Scores with ties; a fifth of the inputs is strange and scores higher.
        "detection": {"score": scores + 1.5 * strange, "strange": strange},
        # The same order, far above 1, as energies and distances are.
        "large scores": {"score": 20 + 2 * (scores + 1.5 * strange), "strange": strange},
        "all tied": {"score": np.full(40, 0.5), "strange": np.arange(40) % 4 == 0},
        "one class": {"score": np.arange(8) / 8, "strange": np.zeros(8, bool)},
        # A confident prediction and an undecided one.
        "orientation": {"logits": np.array([[8.0, 0.0, 0.0], [0.25, 0.0, 0.125]])},
        # A spread that is too small, around a mean that is too high.
        "regression": {
            "mean": mean,
            "std": spread,
            "y": mean + rounded(1.25 * spread * generator.normal(size=400), 10) - 0.25,
        },
        # What a head puts out before 1 is added: no evidence, little, and much, for right and wrong classes.
        "evidence": {
            "evidence": rounded(
                np.maximum(apart.normal(size=(40, 5)), 0) * 4.0 ** apart.integers(-1, 4, (40, 1)), 10
            ),
            "labels": apart.integers(0, 5, 40),
        },
        # Images of three channels and 2 × 2 pixels, and the weights of a network with ten hidden units.
        "images": {
            "images": rounded(elsewhere.random((8, 3, 2, 2)), 10),
            "hidden": rounded(elsewhere.normal(size=(10, 12)), 10),
            "output": rounded(elsewhere.normal(size=(4, 10)), 10),
            "std": np.array([0.25, 0.5, 0.375]),
        },
        "features": features,
        # Calibration scores 1 to n: the threshold that a library takes is the rank it takes.
        "ranks": {"sizes": np.array([19, 20, 99, 999])},
        # Predictions that are right and labels drawn from them, 60 times 200 to calibrate and 500 to test.
        "sets": right_predictions(np.random.default_rng(3), 60, 700),
        # Four sampled predictions of five classes; and one input whose classes are all alike.
        "members": {"probs": distributions(np.random.default_rng(4).dirichlet(np.ones(5), (4, 50)))},
        "alike": {"probs": np.full((1, 10), 0.1)},
    }


def right_predictions(generator, times, inputs):
    """Probabilities of six classes and labels drawn from them, ``times`` data sets one after the other."""
    probs = distributions(softmax(rounded(2 * generator.normal(size=(times * inputs, 6)), 10)))
    labels = (probs.cumsum(axis=1) < generator.random((len(probs), 1))).sum(axis=1)
    return {"probs": probs, "labels": np.minimum(labels, 5), "inputs": np.array([inputs])}


def fingerprint(cases):
    """SHA-256 of all inputs, their names, kinds and shapes."""
    digest = hashlib.sha256()
    for name, arrays in sorted(cases.items()):
        for key, values in sorted(arrays.items()):
            kind = "float" if values.dtype.kind == "f" else "whole"
            digest.update(f"{name}/{key}/{kind}/{values.shape}".encode())
            wide = values.astype("<f8" if kind == "float" else "<i8")
            digest.update(np.ascontiguousarray(wide).tobytes())
    return digest.hexdigest()
