"""The picture of deep deterministic uncertainty on MNIST: entropy for the ambiguous, density for the strange.

The training set is "dirty": clean digits and blends of two, the blends labelled
by a draw. The authors publish the picture and no figures for it; what they do
say is asked here of five seeds, with the softmax of the same networks beside.
"""

import numpy as np

from benchmarks.reproduce import kept
from benchmarks.reproduce_laplace_and_vi import BATCH, MEAN, OOD, STD, spread
from benchmarks.tables import markdown
from uqhelpers import data, ddu, metrics, training

SCRIPT = "reproduce_ddu"
SEEDS = (0, 1, 2, 3, 4)
EPOCHS, RATE, WIDTH = 6, 3e-3, 24
BLENDS = {"train": 10_000, "validation": 1_000, "test": 10_000}
CALL = 1_000  # blends a call: each call considers other images of a large part
STRANGE = {**OOD, "letters": "letters"}
KINDS = {
    "plain": {"coefficient": None, "shortcuts": False},
    "ddu": {"coefficient": 3.0, "shortcuts": True},
}
ROWS = {
    "plain": "plain",
    "ddu": "shortcuts, norms capped at 3",
}
SCORES = {"entropy": "entropy", "msp": "maximum probability", "density": "density"}


def blends(split, count):
    """Blends of the images of a part, each with a label drawn with the shares as odds."""
    calls = [data.ambiguous_digits(CALL, seed, "mnist", split) for seed in range(-(-count // CALL))]
    images = np.concatenate([call.images for call in calls])[:count]
    pairs = np.concatenate([call.labels for call in calls])[:count]
    first = (
        np.random.default_rng(0).random(count) < np.concatenate([call.weights for call in calls])[:count, 0]
    )
    return images, np.where(first, *pairs.T)


def dirty(part, split, count):
    """A part of MNIST with blends among it."""
    images, labels = blends(split, count)
    return np.concatenate([part.images, images]), np.concatenate([part.labels, labels])


def auroc(negative, positive):
    """Area under the ROC curve of two groups of scores."""
    score = np.concatenate([negative, positive])
    return float(metrics.auroc(score, np.arange(len(score)) >= len(negative)))


def run(seed, kind, train, held_out, groups, labels, epochs=EPOCHS):
    """Train one network and ask it about all groups of images.

    Parameters
    ----------
    seed : int
        Of weights and batches.
    kind : str
        A key of ``KINDS``.
    train : pair of arrays
        Images and labels.
    held_out : array
        Images for the quantiles.
    groups : dict of str to array
        ``"clean"``, ``"blends"`` and the sets of ``STRANGE``.
    labels : array
        Of the clean test images.
    epochs : int
        Passes over the training images.

    Returns
    -------
    dict
        Accuracy, areas by score, and the share of new images below the quantile .05.
    """
    with training.seeded(seed):
        net = ddu.ResidualNet((1, 28, 28), 10, mean=MEAN, std=STD, width=WIDTH, **KINDS[kind])
    training.fit(net, *train, epochs=epochs, batch_size=BATCH, learning_rate=RATE, seed=seed)
    density = ddu.GaussianFeatureDensity().fit(training.features(net, train[0]), train[1])
    density.calibrate(training.features(net, held_out))
    said = {name: ddu.predict(net, density, images) for name, images in groups.items()}
    scores = {
        name: {"entropy": s.aleatoric, "msp": metrics.msp_score(s.probs), "density": s.epistemic}
        for name, s in said.items()
    }
    known = {key: np.concatenate([scores["clean"][key], scores["blends"][key]]) for key in SCORES}
    row = {"accuracy": metrics.accuracy(said["clean"].probs, labels)}
    for key in SCORES:
        row[f"ambiguous {key}"] = auroc(scores["clean"][key], scores["blends"][key])
        for name in groups:
            if name not in ("clean", "blends"):
                row[f"{name} {key}"] = auroc(known[key], scores[name][key])
                row[f"{name} clean {key}"] = auroc(scores["clean"][key], scores[name][key])
    below = [said[name].quantile <= 0.05 for name in ("clean", "blends")]
    row["below"] = float(np.mean(np.concatenate(below)))
    return row


def reproduce(seeds=SEEDS):
    """Both kinds of network, each seed.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    images = data.load("mnist")
    train = dirty(images.train, "train", BLENDS["train"])
    held_out, _ = dirty(images.validation, "validation", BLENDS["validation"])
    groups = {"clean": images.test.images, "blends": blends("test", BLENDS["test"])[0]}
    groups |= {name: data.load_ood(name, "mnist").images for name in STRANGE}
    runs = {
        kind: [
            kept(
                SCRIPT,
                f"{seed}-{kind}",
                lambda seed=seed, kind=kind: run(seed, kind, train, held_out, groups, images.test.labels),
            )
            for seed in seeds
        ]
        for kind in KINDS
    }
    return {"runs": runs}, page(runs, len(images.train)), seeds


def table(runs, columns):
    """One line a network and score."""
    lines = []
    for kind, label in ROWS.items():
        for key, score in SCORES.items():
            cells = [spread([row[f"{name} {key}"] for row in runs[kind]], 3) for name in columns]
            lines.append([label, score, *cells])
    return markdown(["network", "score", *columns.values()], lines)


def page(runs, count):
    """The runs as Markdown, ``count`` clean training images each."""
    facts = "; ".join(
        f"{label}: accuracy {spread([row['accuracy'] for row in runs[kind]])} on clean digits, "
        f"{spread([row['below'] for row in runs[kind]], 3)} of new digits and blends "
        "below the held-out quantile .05"
        for kind, label in ROWS.items()
    )
    return "\n".join(
        [
            "# MNIST with blends: ambiguous by entropy, strange by density",
            "",
            f"Mean ± standard deviation over {len(runs['ddu'])} seeds. {count:,} training images of "
            f"MNIST and, among them, {BLENDS['train']:,} blends of look-alikes, each labelled by a draw; "
            f"{EPOCHS} epochs, batches of {BATCH}, Adam at {RATE:g}; `ddu.ResidualNet`, {WIDTH} features, "
            f"without and with shortcuts and cap. {facts}.",
            "",
            "AUROC, blends against clean test images, and other sets against both together:",
            "",
            table(runs, {"ambiguous": "blends against clean", **STRANGE}),
            "",
            "AUROC, the same sets against clean test images alone:",
            "",
            table(runs, {f"{name} clean": label for name, label in STRANGE.items()}),
            "",
            "The authors show this as a picture, with a residual network of 18 layers (and LeNet and VGG) on "
            "ambiguous digits from a generative model; they print no areas for it, and none have to match. "
            "The quantity for each column is set beforehand: entropy for the first, density for the others.",
        ]
    )
