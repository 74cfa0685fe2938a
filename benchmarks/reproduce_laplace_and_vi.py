"""Last-layer Laplace, variational inference and MC-Dropout on MNIST with a LeNet, beside published figures.

The published figures are those of uncertainty-baselines (LeNet-5, MNIST). Ours
come from a few seeds and from a training that is many times shorter: ``page``
says by how much.
"""

import numpy as np

from benchmarks import tables
from benchmarks.reproduce import kept
from uqhelpers import data, laplace, mc_dropout, metrics, models, training
from uqhelpers import variational_inference as vi

SCRIPT = "reproduce_laplace_and_vi"
SEEDS = (0, 1, 2)
EPOCHS = 5
BATCH = 128
MEAN, STD = 0.1307, 0.3081  # of MNIST's training pixels
OOD = {"fashion_mnist": "Fashion-MNIST", "kmnist": "KMNIST", "notmnist": "notMNIST"}
RATE, VARIATIONAL_RATE, DROPOUT = 1e-3, 2e-3, 0.5
PRIOR_STD = 0.1
SAMPLES = {"Laplace": 100, "VI": 10, "MC-Dropout": 20}  # VI: as many as the published figures have

# uncertainty-baselines, LeNet-5 on MNIST: the authors' own table and the defaults of their scripts.
PUBLISHED = {
    "deterministic": {"accuracy": 0.991, "nll": 0.037},
    "variational": {"accuracy": 0.985, "nll": 0.048, "ece 10": 0.010},
    "ensemble of 10": {"accuracy": 0.994, "nll": 0.016, "ece 10": 0.005},
}
PUBLISHED_STEPS, PUBLISHED_BATCH = {"deterministic": 5_000, "variational": 30_000}, 256
PUBLISHED_IMAGES = 50_000

ROWS = {
    "deterministic": "deterministic",
    "laplace validation probit": "Laplace, α by validation, probit",
    "laplace validation mc": "Laplace, α by validation, MC",
    "laplace marginal probit": "Laplace, α by marginal likelihood, probit",
    "laplace marginal mc": "Laplace, α by marginal likelihood, MC",
    "variational": "variational",
    "MC-Dropout": "MC-Dropout",
}
COLUMNS = {
    "accuracy": "accuracy",
    "nll": "NLL (nats)",
    "ece 15": "ECE, 15 bins",
    "ece 10": "ECE, 10 bins",
    "gap": "signed gap",
}


def summary(probs, labels):
    """One row of the table.

    Parameters
    ----------
    probs : array, shape (N, C)
        Predictive probabilities: first of the test images, then of each OOD set in the order of ``OOD``.
    labels : array, shape (M,)
        Of the test images.

    Returns
    -------
    dict
        Scores on the test images, and for each OOD set the AUROC of both scores.
    """
    known, strange = probs[: len(labels)], np.split(probs[len(labels) :], len(OOD))
    row = {
        "accuracy": metrics.accuracy(known, labels),
        "nll": metrics.negative_log_likelihood(known, labels),
        "ece 15": metrics.expected_calibration_error(known, labels, bins=15),
        "ece 10": metrics.expected_calibration_error(known, labels, bins=10),
        "gap": metrics.calibration_gap(known, labels),
    }
    for score_name, score in {"msp": metrics.msp_score, "entropy": metrics.predictive_entropy}.items():
        for name, part in zip(OOD, strange, strict=True):
            both = np.concatenate([score(known), score(part)])
            positive = np.arange(len(both)) >= len(labels)
            row[f"{name} {score_name}"] = float(metrics.auroc(both, positive, "OOD"))
    return row


def lenet(seed, dropout=0.0):
    """The network, untrained."""
    with training.seeded(seed):
        return models.LeNet(mean=MEAN, std=STD, dropout=dropout)


def laplace_rows(seed, images, everything):
    """One deterministic network, and four Laplace predictives of its last layer."""
    train, validation = images.train, images.validation
    net = lenet(seed)
    # The L2 penalty of a prior of precision 1 on every weight: where Laplace starts is then a mode.
    training.fit(
        net,
        train.images,
        train.labels,
        epochs=EPOCHS,
        batch_size=BATCH,
        learning_rate=RATE,
        weight_decay=1 / len(train),
        seed=seed,
    )
    labels = images.test.labels
    rows = {"deterministic": summary(training.predict(net, everything), labels)}
    posterior = laplace.LastLayerLaplace(net).fit(train.images, train.labels)
    chosen = {}
    for name, tune in {
        "validation": lambda: posterior.tune_prior_precision(
            validation.images, validation.labels, method="validation"
        ),
        "marginal": posterior.tune_prior_precision,
    }.items():
        chosen[name] = tune()
        for method in ("probit", "mc"):
            probs = posterior.predict(everything, method, samples=SAMPLES["Laplace"], seed=seed)
            rows[f"laplace {name} {method}"] = summary(probs, labels)
    return {"rows": rows, "prior precision": chosen}


def variational_rows(seed, images, everything):
    """A LeNet with Gaussian weights, trained from scratch on the bound in full (nothing tempered)."""
    net = vi.make_variational(lenet(seed), prior_std=PRIOR_STD)
    history = vi.fit_variational(
        net,
        images.train.images,
        images.train.labels,
        epochs=EPOCHS,
        batch_size=BATCH,
        learning_rate=VARIATIONAL_RATE,
        schedule="cosine",
        seed=seed,
    )
    probs = vi.predict(net, everything, samples=SAMPLES["VI"], seed=seed).mean
    return {
        "rows": {"variational": summary(probs, images.test.labels)},
        "training nll": history.negative_log_likelihood[-1],
        "kl an image": history.kl[-1] / len(images.train),
    }


def dropout_rows(seed, images, everything):
    """A LeNet of its own, trained with dropout before its last two layers."""
    net = lenet(seed, DROPOUT)
    train = images.train
    training.fit(
        net, train.images, train.labels, epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE, seed=seed
    )
    probs = mc_dropout.predict(net, everything, passes=SAMPLES["MC-Dropout"], seed=seed).mean
    return {"rows": {"MC-Dropout": summary(probs, images.test.labels)}}


PARTS = {"laplace": laplace_rows, "variational": variational_rows, "dropout": dropout_rows}


def reproduce(seeds=SEEDS):
    """All methods, each seed, beside the published figures.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    images = data.load("mnist")
    everything = np.concatenate([images.test.images, *(data.load_ood(name, "mnist").images for name in OOD)])
    runs = [
        {
            name: kept(SCRIPT, f"{seed}-{name}", lambda seed=seed, part=part: part(seed, images, everything))
            for name, part in PARTS.items()
        }
        for seed in seeds
    ]
    return {"runs": runs, "published": PUBLISHED}, page(runs, len(images.train)), seeds


def page(runs, count):
    """The runs as Markdown tables, ``count`` training images each."""
    rows = {
        name: [
            row for run in runs for part in run.values() for key, row in part["rows"].items() if key == name
        ]
        for name in ROWS
    }
    return "\n".join(
        [
            "# MNIST, LeNet: Laplace, variational inference and MC-Dropout",
            "",
            f"Mean ± standard deviation over {len(runs)} seeds. {count:,} training images of MNIST, "
            f"{EPOCHS} epochs for every network, batches of {BATCH}, Adam. The last 5,000 images of the "
            "training file are held out: α, the prior precision of Laplace, is chosen on them where it is "
            "chosen by validation. All figures are of the 10,000 test images.",
            "",
            table(rows, COLUMNS),
            "",
            "The signed gap is mean confidence minus accuracy: above 0 is over-confident.",
            "",
            "Out of distribution: AUROC of the maximum probability, 10,000 test images of MNIST against "
            "10,000 of each other set.",
            "",
            table(rows, {f"{name} msp": label for name, label in OOD.items()}),
            "",
            settings(runs, count),
            "",
            "## Beside published figures",
            "",
            "Published: uncertainty-baselines, LeNet-5 on MNIST.",
            "",
            beside(rows),
            "",
            differences(rows, count),
        ]
    )


def table(rows, columns):
    """One line a method."""
    lines = []
    for name, label in ROWS.items():
        if not rows[name]:  # a part that has not been run
            continue
        cells = [spread([row[key] for row in rows[name]]) for key in columns]
        lines.append([label, *cells])
    return tables.markdown(["", *columns.values()], lines)


def settings(runs, count):
    """What the methods were set to, and what they chose."""
    dropout = f"MC-Dropout: rate {DROPOUT}, {SAMPLES['MC-Dropout']} passes, networks of its own."
    if not any("dropout" in run for run in runs):
        dropout = "MC-Dropout was left out of this run."
    alphas = {
        name: ", ".join(f"{run['laplace']['prior precision'][name]:.3g}" for run in runs)
        for name in ("validation", "marginal")
    }
    kl = spread([run["variational"]["kl an image"] for run in runs], 3)
    nll = spread([run["variational"]["training nll"] for run in runs], 3)
    return (
        f"The deterministic network is trained with the weight decay of α = 1 (1 / {count:,}) and without "
        f"dropout; the four rows of Laplace are the same networks, their last layer of 850 weights a "
        f"Gaussian with its full covariance. Chosen α, seed by seed: {alphas['validation']} by validation, "
        f"{alphas['marginal']} by marginal likelihood; MC with {SAMPLES['Laplace']} sampled layers. The "
        f"variational network starts from random means, not from trained ones; its prior is "
        f"N(0, {PRIOR_STD}²) (of .1 and .3 the one with the higher bound in a trial of seed 0), "
        f"its learning rate {VARIATIONAL_RATE:g} falling to 0 as a cosine, the "
        f"divergence counts in full; {SAMPLES['VI']} sampled networks. In its last epoch the training loss "
        f"is {nll} nats an image of misfit and {kl} of divergence. {dropout}"
    )


def beside(rows):
    """Published and ours, in pairs."""
    labels = {key: COLUMNS[key] for key in ("accuracy", "nll", "ece 10")}
    head, lines = sum(((f"{label}: published", "ours") for label in labels.values()), ()), []
    for name, published in PUBLISHED.items():
        cells = [name]
        for key in labels:
            cells.append(f"{published[key]:.3f}" if key in published else "")
            cells.append(spread([row[key] for row in rows[name]]) if name in rows else "")
        lines.append(cells)
    return tables.markdown(["", *head], lines)


def differences(rows, count):
    """Why the two need not agree."""
    epochs = {name: PUBLISHED_BATCH * steps / PUBLISHED_IMAGES for name, steps in PUBLISHED_STEPS.items()}
    steps = EPOCHS * -(-count // BATCH)
    return (
        f"No point of these must match. By the defaults of the published scripts their deterministic network "
        f"has {PUBLISHED_STEPS['deterministic']:,} steps of {PUBLISHED_BATCH} images, "
        f"{epochs['deterministic']:.0f} epochs of {PUBLISHED_IMAGES:,} images, and the variational one "
        f"{PUBLISHED_STEPS['variational']:,} steps, {epochs['variational']:.0f} epochs; ours have {EPOCHS} "
        f"epochs, {steps:,} steps of {BATCH}. The short training is what fits two processor cores. Their "
        "variational network moreover learns the standard deviation of its prior together with the weights, "
        "starts with standard deviations of about .001 (ours: "
        f"{vi.layers.INITIAL_STD:g}) and uses Flipout in its convolutions, ours local reparameterisation. "
        "Their "
        "third layer is a convolution of 5 × 5 without padding, ours is linear. "
        "Their binned error leaves out what is predicted with a confidence of exactly 1, ours counts it. "
        "Both average 10 sampled networks. The ensemble of 10 was not trained here, and there are no "
        "published figures of this set-up for Laplace, for MC-Dropout or for OOD detection."
    )


def spread(values, digits=4):
    """Mean and standard deviation of a few runs; of a single run only what it gave."""
    return tables.spread(values, digits)
