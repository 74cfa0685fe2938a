"""Whether the length of a feature vector or the Gaussian decides: two detectors, each with and without it.

The networks are those of ``reproduce_ood``, trained again. Nothing is tuned.
The figures call the strange positive.
"""

import numpy as np
from scipy import stats

from benchmarks import reproduce_ood
from benchmarks.reproduce import kept
from benchmarks.tables import markdown, spread
from uqhelpers import data, features, metrics, odin, training

SCRIPT = "reproduce_ood_lengths"
SEEDS = reproduce_ood.SEEDS
STRANGE = reproduce_ood.STRANGE
DETECTORS = {
    "mahalanobis": "Mahalanobis, own length",
    "mahalanobis unit": "Mahalanobis, unit length",
    "neighbours": f"{reproduce_ood.NEIGHBOURS}th nearest neighbour, own length",
    "neighbours unit": f"{reproduce_ood.NEIGHBOURS}th nearest neighbour, unit length",
}


def detectors(known, labels):
    """Every detector's score, as a function of features, after its fit to the training features."""
    count = min(reproduce_ood.NEIGHBOURS, len(known))
    by_length = {"": np.asarray, " unit": features.to_unit_length}
    found = {}
    for word, prepared in by_length.items():
        gaussian = odin.Mahalanobis().fit(prepared(known), labels)
        near = odin.KNearestNeighbours(count, normalise=False).fit(prepared(known))
        for name, fitted in (("mahalanobis", gaussian), ("neighbours", near)):
            found[name + word] = lambda x, fitted=fitted, prepared=prepared: fitted.score(prepared(x))
    return found


def one_run(net, images, strange):
    """The AUROC of one network's detectors on each strange set.

    Parameters
    ----------
    net : network
        Trained.
    images : ImageData
        The familiar.
    strange : dict of array
        Images of each strange set.

    Returns
    -------
    dict
        AUROC by detector and set.
    """
    rules = detectors(training.features(net, images.train.images), images.train.labels)
    known = training.features(net, images.test.images)
    known = {name: rule(known) for name, rule in rules.items()}
    figures = {}
    for key, others in strange.items():
        found = training.features(net, others)
        positive = np.repeat([False, True], [len(images.test), len(others)])
        for name, rule in rules.items():
            both = np.concatenate([known[name], rule(found)])
            figures[f"{name}, {key}"] = float(metrics.auroc(both, positive))
    return figures


def computed(seed):
    """One seed's network and its figures."""
    images = data.load("mnist")
    weights = kept(
        SCRIPT,
        f"{seed}-weights",
        lambda: reproduce_ood.trained_weights(seed, images.train, reproduce_ood.EPOCHS),
    )
    strange = {name: data.load_ood(name, "mnist").images for name in STRANGE}
    return one_run(reproduce_ood.with_weights(weights), images, strange)


def reproduce(seeds=SEEDS):
    """All detectors, each seed.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    runs = [kept(SCRIPT, f"{seed}-figures", lambda seed=seed: computed(seed)) for seed in seeds]
    return {"runs": runs}, page(runs), seeds


def gain(runs, name, key):
    """Unit minus own length: the mean over the networks, and how far a 95 % t-interval reaches."""
    paired = [run[f"{name} unit, {key}"] - run[f"{name}, {key}"] for run in runs]
    reach = stats.t.ppf(0.975, len(paired) - 1) * stats.sem(paired)
    return np.mean(paired), reach


def page(runs):
    """The runs as Markdown."""
    rows = [
        [words, *(spread([run[f"{name}, {key}"] for run in runs]) for key in STRANGE)]
        for name, words in DETECTORS.items()
    ]
    for name, words in (("mahalanobis", "Mahalanobis"), ("neighbours", "neighbour")):
        found = [gain(runs, name, key) for key in STRANGE]
        cells = [f"{mean:+.3f} [{mean - reach:+.3f}, {mean + reach:+.3f}]" for mean, reach in found]
        rows.append([f"{words}: unit − own", *cells])
    return "\n".join(
        [
            "# MNIST, LeNet: the length of the features",
            "",
            f"AUROC, mean ± standard deviation over {len(runs)} networks, trained as those of the table of "
            "detectors. Features of the last hidden layer, as they come (own length) or divided by their "
            "length. The last two rows: differences, paired by network, with 95 % t-intervals.",
            "",
            markdown(["detector", *STRANGE.values()], rows),
        ]
    )
