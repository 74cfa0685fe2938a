"""The teaching module's selective prediction on MNIST: MC-Dropout at all fifteen published thresholds."""

import functools

import numpy as np

from benchmarks import reproduce_first_seed as first
from benchmarks import tables
from benchmarks.reproduce import kept
from uqhelpers import data, mc_dropout, metrics

SCRIPT = "reproduce_first_seed_thresholds"
SEEDS = (0, 1, 2)

# Entropy up to which predictions are kept (nats): the share that is kept, and its accuracy.
PUBLISHED = {
    7.4e-7: (0.0001, 1.0),
    0.1214: (0.8859, 0.999887),
    0.2429: (0.9279, 0.999784),
    0.3643: (0.9505, 0.999369),
    0.4858: (0.9635, 0.998547),
    0.6072: (0.9728, 0.997841),
    0.7286: (0.9822, 0.996029),
    0.8501: (0.9887, 0.994235),
    0.9715: (0.9925, 0.992645),
    1.0930: (0.9955, 0.991562),
    1.2144: (0.9978, 0.990479),
    1.3359: (0.9989, 0.990389),
    1.4573: (0.9995, 0.990195),
    1.5787: (0.9998, 0.989998),
    1.7002: (1.0, 0.989900),
}


def kept_up_to(thresholds, entropy, wrong):
    """Share that is kept and its accuracy (None where nothing is) for each threshold."""
    within = [entropy <= threshold for threshold in thresholds]
    accuracies = [float(1 - wrong[inside].mean()) if inside.any() else None for inside in within]
    return {"coverage": [float(inside.mean()) for inside in within], "accuracy": accuracies}


def run(seed):
    """One network as published, and what its 20 passes keep at each threshold."""
    images, test = data.load_images("mnist", "train"), data.load_images("mnist", "test")
    net = first.train(images.images, images.labels, seed, epochs=3)
    once = metrics.predictive_entropy(first.training.predict(net, test.images))
    wrong_once = first.training.predict(net, test.images).argmax(-1) != test.labels
    masks = mc_dropout.predict(net, test.images, passes=20, seed=seed)
    wrong = masks.mean.argmax(-1) != test.labels
    return {
        "MC-Dropout": kept_up_to(PUBLISHED, masks.total, wrong),
        "one network": kept_up_to(PUBLISHED, once, wrong_once),
        "area": {
            "MC-Dropout": metrics.aurc(masks.total, wrong),
            "one network": metrics.aurc(once, wrong_once),
        },
    }


def reproduce(seeds=SEEDS):
    """Three runs beside the published one.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    runs = [kept(SCRIPT, seed, functools.partial(run, seed)) for seed in seeds]
    return {"runs": runs, "published": list(map(list, PUBLISHED.items()))}, page(runs), seeds


def page(runs):
    """The thresholds, as Markdown."""
    columns = ("published", "ours", "one network")
    head = ["kept up to (nats)"]
    head += [f"{what}: {who}" for what in ("coverage", "accuracy") for who in columns]
    rows = []
    for index, (threshold, published) in enumerate(PUBLISHED.items()):
        row = [f"{threshold:.2g}" if threshold < 1e-3 else f"{threshold:.4f}"]
        for what, value, digits in zip(("coverage", "accuracy"), published, (4, 6), strict=True):
            ours = [[each[who][what][index] for each in runs] for who in ("MC-Dropout", "one network")]
            row += [f"{value:.{digits}f}", *(spread(values, digits) for values in ours)]
        rows.append(row)
    both = {who: np.array([each["area"][who] for each in runs]) for who in ("MC-Dropout", "one network")}
    return "\n".join(
        [
            "# MNIST, SimpleNet: what MC-Dropout keeps, at fifteen published thresholds",
            "",
            f"Rejecting by the entropy of 20 passes. Mean ± standard deviation over {len(runs)} networks "
            "of 3 epochs; published: one run. Beside it the same networks with dropout off, rejected by "
            "their own entropy. A dash: some run kept nothing.",
            "",
            tables.markdown(head, rows),
            "",
            "At one and the same small threshold the single network keeps more than MC-Dropout, less "
            "accurately: its entropies are smaller. Thresholds in nats compare nothing between methods. "
            f"The area under the risk–coverage curve does: {tables.spread(both['MC-Dropout'], 6)} for "
            f"MC-Dropout, {tables.spread(both['one network'], 6)} for the same networks without.",
        ]
    )


def spread(values, digits):
    """Mean and standard deviation, or a dash where a run kept nothing and has no accuracy."""
    return "–" if None in values else tables.spread(values, digits)
