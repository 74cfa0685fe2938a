"""A teaching module's MNIST set-up: SimpleNet, 3 epochs; 20 MC-Dropout passes; 5 members of 2 epochs each.

The module (DAT945, uncertainty in AI) gives one run. Here are three, with what
it leaves out beside it: the deterministic baseline, and the sign of the gap.
"""

import numpy as np

from benchmarks.reproduce import kept
from uqhelpers import data, mc_dropout, metrics, models, training

SEEDS = (0, 1, 2)
PUBLISHED = {
    "MC-Dropout": {
        "accuracy": 0.9899,
        "total": 0.0599,
        "epistemic": 0.0135,
        "confidence": 0.9817,
        "ece": 0.0082,
    },
    "ensemble": {"total": 0.0533, "epistemic": 0.0080, "confidence": 0.9837, "ece": 0.0076},
    "one network": {"accuracy": 0.990},
}
# Entropy up to which predictions are kept: the share that is kept, and its accuracy.
PUBLISHED_SELECTIVE = {0.1214: (0.8859, 0.999887), 0.4858: (0.9635, 0.998547)}
ROWS = {
    "accuracy": "accuracy",
    "nll": "NLL (nats)",
    "total": "mean entropy (nats)",
    "epistemic": "mean mutual information (nats)",
    "confidence": "mean confidence",
    "ece": "ECE, 10 bins",
    "gap": "signed gap",
}


def train(images, labels, seed, epochs):
    """The set-up's network: pixels standardised by (.1307, .3081), Adam at 1e-3, batches of 128."""
    with training.seeded(seed):
        net = models.SimpleNet(mean=0.1307, std=0.3081)
    training.fit(net, images, labels, epochs=epochs, batch_size=128, learning_rate=1e-3, seed=seed)
    return net


def summary(probs, labels):
    """The figures of the table for sampled class probabilities, shape (S, N, C)."""
    parts = metrics.decompose(probs)
    return {
        "accuracy": metrics.accuracy(parts.mean, labels),
        "nll": metrics.negative_log_likelihood(parts.mean, labels),
        "total": parts.total.mean(),
        "epistemic": parts.epistemic.mean(),
        "confidence": parts.confidence.mean(),
        "ece": metrics.expected_calibration_error(parts.mean, labels, bins=10),
        "gap": metrics.calibration_gap(parts.mean, labels),
    }


def selective(probs, labels):
    """What is kept, and how accurate it is: at the published thresholds, at 15 equal steps, and at .999."""
    parts = metrics.decompose(probs)
    wrong = parts.mean.argmax(-1) != labels
    published = metrics.accuracy_coverage(parts.total, wrong, thresholds=np.array(list(PUBLISHED_SELECTIVE)))
    steps = metrics.accuracy_coverage(parts.total, wrong, thresholds=15)
    passing = {
        name: metrics.coverage_at_accuracy(score, wrong, 0.999)
        for name, score in {"entropy": parts.total, "mutual information": parts.epistemic}.items()
    }
    return {
        "published thresholds": [published.coverage.tolist(), published.accuracy.tolist()],
        "steps": [steps.thresholds.tolist(), steps.coverage.tolist(), steps.accuracy.tolist()],
        "passing .999": passing,
    }


def one_run(seed, training_set, test):
    """One baseline, its MC-Dropout, and an ensemble whose seeds are all its own."""
    net = train(*training_set, seed, epochs=3)
    dropout = mc_dropout.sample(net, test.images, passes=20, seed=seed)
    members = [train(*training_set, 1000 + 10 * seed + member, epochs=2) for member in range(5)]
    ensemble = np.stack([training.predict(member, test.images) for member in members])
    return {
        "one network": summary(training.predict(net, test.images)[None], test.labels),
        "MC-Dropout": summary(dropout, test.labels),
        "ensemble": summary(ensemble, test.labels),
        "selective": selective(dropout, test.labels),
    }


def reproduce(seeds=SEEDS):
    """Three runs beside the published one.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    train_split, test = data.load_images("mnist", "train"), data.load_images("mnist", "test")
    training_set = train_split.images, train_split.labels
    runs = [
        kept("reproduce_first_seed", seed, lambda seed=seed: one_run(seed, training_set, test))
        for seed in seeds
    ]
    return {"runs": runs, "published": PUBLISHED}, page(runs), seeds


def page(runs):
    """The runs as Markdown tables."""
    head = "| | " + " | ".join(f"{name}: published | ours" for name in PUBLISHED) + " |"
    lines = [head, "| --- " * (1 + 2 * len(PUBLISHED)) + "|"]
    for key, label in ROWS.items():
        cells = [label]
        for name, published in PUBLISHED.items():
            cells.append(f"{published[key]:.4f}" if key in published else "")
            cells.append(spread([run[name][key] for run in runs]))
        lines.append(f"| {' | '.join(cells)} |")
    kept_rows = [
        "| kept up to (nats) | coverage: published | ours | accuracy: published | ours |",
        "| --- " * 5 + "|",
    ]
    for index, (threshold, (coverage, accuracy)) in enumerate(PUBLISHED_SELECTIVE.items()):
        ours = [[run["selective"]["published thresholds"][part][index] for run in runs] for part in (0, 1)]
        kept_rows.append(
            f"| {threshold} | {coverage} | {spread(ours[0])} | {accuracy} | {spread(ours[1], 6)} |"
        )
    passing = [
        f"- by {score}: {spread([run['selective']['passing .999'][score] for run in runs])}"
        for score in ("entropy", "mutual information")
    ]
    return "\n".join(
        [
            "# MNIST, SimpleNet: MC-Dropout and an ensemble beside a published run",
            "",
            f"Mean ± standard deviation over {len(runs)} runs. Published: one run.",
            "",
            *lines,
            "",
            "Rejecting by the entropy of MC-Dropout:",
            "",
            *kept_rows,
            "",
            "The largest coverage at which the accuracy of what is kept passes .999:",
            "",
            *passing,
        ]
    )


def spread(values, digits=4):
    """Mean and standard deviation of a few runs."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"
