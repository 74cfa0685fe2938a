"""Out-of-distribution detection on MNIST: every detector of the book against four strange sets.

The networks are few and small and the training short: ``page`` says how. What is
chosen (ODIN's two settings) is chosen on held-out digits and a stand-in, never
on a set that is reported. The figures call the strange positive.
"""

import numpy as np

from benchmarks.reproduce import kept
from benchmarks.tables import markdown, spread
from uqhelpers import data, mc_dropout, metrics, models, odin, training
from uqhelpers._torch import torch

SCRIPT = "reproduce_ood"
SEEDS = (0, 1, 2, 3, 4)
EPOCHS = 5
BATCH = 128
MEAN, STD = 0.1307, 0.3081  # of MNIST's training pixels
DROPOUT = 0.5
PASSES = 20
TRIPLE = 3
NEIGHBOURS = 50  # as published, for 50,000 images
HELD_OUT = 2_000  # of the validation images, for ODIN's settings
PUBLISHED_STEP = 0.0014
STRANGE = {
    "fashion_mnist": "Fashion-MNIST",
    "kmnist": "KMNIST",
    "notmnist": "notMNIST",
    "letters": "letters, rendered",
}
COLUMNS = {"auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}
DETECTORS = {
    "softmax": "softmax (baseline)",
    "hot": "softmax, T = 1000",
    "nudge": f"nudge alone, T = 1, ε = {PUBLISHED_STEP}",
    "odin": f"ODIN, T = 1000, ε = {PUBLISHED_STEP}",
    "odin tuned": "ODIN, tuned on the stand-in",
    "max logit": "max logit",
    "energy": "energy",
    "mahalanobis": "Mahalanobis, shared covariance",
    "neighbours": f"{NEIGHBOURS}th nearest neighbour",
    "dropout": f"MC-Dropout, {PASSES} passes, entropy",
    "dropout information": f"MC-Dropout, {PASSES} passes, mutual information",
    "ensemble": f"ensemble of {TRIPLE}, entropy",
    "ensemble hot": f"ensemble of {TRIPLE}, mean logits, T = 1000",
}


def lenet(seed):
    """The network, untrained."""
    with training.seeded(seed):
        return models.LeNet(mean=MEAN, std=STD, dropout=DROPOUT)


def trained_weights(seed, train, epochs):
    """Weights after training, as plain lists by name."""
    net = lenet(seed)
    training.fit(net, train.images, train.labels, epochs=epochs, batch_size=BATCH, seed=seed)
    return {name: value.tolist() for name, value in net.cpu().state_dict().items()}


def with_weights(weights):
    """A network with the weights that were kept."""
    net = lenet(0)
    net.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    return net.eval()


def shuffled(images, seed=0):
    """The stand-in for the strange: the familiar, its pixels in another order for each image."""
    flat = images.reshape(len(images), -1)
    return np.random.default_rng(seed).permuted(flat, axis=1).reshape(images.shape)


def scores(nets, place, images, fitted, tuning, seed):
    """Every detector's scores of some images; ``place`` is the network's among ``nets``."""
    net = nets[place]
    logits, features = training.predict_outputs(net, images), training.features(net, images)
    triple = [training.predict_outputs(nets[(place + i) % len(nets)], images) for i in range(TRIPLE)]
    dropout = mc_dropout.predict(net, images, passes=PASSES, seed=seed)
    return {
        "softmax": odin.softmax_score(logits),
        "hot": odin.softmax_score(logits, 1000),
        "nudge": odin.odin_score(net, images, 1, PUBLISHED_STEP),
        "odin": odin.odin_score(net, images, 1000, PUBLISHED_STEP),
        "odin tuned": odin.odin_score(net, images, tuning.temperature, tuning.epsilon),
        "max logit": odin.max_logit_score(logits),
        "energy": odin.energy_score(logits),
        "mahalanobis": fitted["mahalanobis"].score(features),
        "neighbours": fitted["neighbours"].score(features),
        "dropout": dropout.total,
        "dropout information": dropout.epistemic,
        "ensemble": metrics.predictive_entropy(np.stack([metrics.from_logits(one) for one in triple])),
        "ensemble hot": odin.softmax_score(np.mean(triple, axis=0), 1000),
    }


def one_run(nets, place, seed, images, strange):
    """All figures of one network.

    Parameters
    ----------
    nets : list of networks
        All of them: the ensembles take the next ones too.
    place : int
        Which of them this run is about.
    seed : int
        Of the dropout masks and of the shuffling.
    images : ImageData
        The familiar.
    strange : dict of array
        Images of each strange set.

    Returns
    -------
    dict
        ``accuracy``, what was ``tuned``, and ``figures`` by detector and set.
    """
    net = nets[place]
    features = training.features(net, images.train.images)
    fitted = {
        "mahalanobis": odin.Mahalanobis().fit(features, images.train.labels),
        "neighbours": odin.KNearestNeighbours(min(NEIGHBOURS, len(features))).fit(features),
    }
    held_out = images.validation.images[:HELD_OUT]
    tuning = odin.tune(net, held_out, shuffled(held_out, seed))
    known = scores(nets, place, images.test.images, fitted, tuning, seed)
    figures = {}
    for name, others in strange.items():
        found = scores(nets, place, others, fitted, tuning, seed)
        positive = np.repeat([False, True], [len(images.test), len(others)])
        for detector in DETECTORS:
            both = np.concatenate([known[detector], found[detector]])
            figures[f"{detector}, {name}"] = {
                key: float(getattr(metrics, key)(both, positive, STRANGE[name])) for key in COLUMNS
            }
    return {
        "accuracy": metrics.accuracy(training.predict(net, images.test.images), images.test.labels),
        "tuned": {"temperature": tuning.temperature, "epsilon": tuning.epsilon},
        "prevalence": {name: len(x) / (len(x) + len(images.test)) for name, x in strange.items()},
        "figures": figures,
    }


def reproduce(seeds=SEEDS):
    """All detectors, each seed.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    images = data.load("mnist")
    strange = {name: data.load_ood(name, "mnist").images for name in STRANGE}
    weights = [
        kept(SCRIPT, f"{seed}-weights", lambda seed=seed: trained_weights(seed, images.train, EPOCHS))
        for seed in seeds
    ]
    nets = [with_weights(one) for one in weights]
    runs = [
        kept(
            SCRIPT,
            f"{seed}-figures-of-{len(seeds)}",
            lambda place=place, seed=seed: one_run(nets, place, seed, images, strange),
        )
        for place, seed in enumerate(seeds)
    ]
    return {"runs": runs}, page(runs, len(images.train), len(images.test)), seeds


def page(runs, train, test):
    """The runs as Markdown, ``train`` images to train on and ``test`` familiar ones to report on."""
    accuracy = spread([run["accuracy"] for run in runs], 4)
    chosen = "; ".join(f"T = {r['tuned']['temperature']:g}, ε = {r['tuned']['epsilon']:g}" for r in runs)
    lines = [
        "# MNIST, LeNet: out-of-distribution detection",
        "",
        f"Mean ± standard deviation over {len(runs)} networks (seeds), {EPOCHS} epochs on {train:,} images; "
        f"accuracy {accuracy}. {test:,} test digits against as many images as each strange set has. The "
        "strange are the positive class of all three figures. Pixels are in [0, 1], and ε counts in them. "
        f"ODIN's settings are tuned by AUROC on {HELD_OUT:,} held-out digits against the same with their "
        f"pixels shuffled; chosen, seed by seed: {chosen}. Ensembles are {TRIPLE} of the networks, "
        "overlapping from row to row, so that their spread is too small.",
    ]
    for name, label in STRANGE.items():
        prevalence = runs[0]["prevalence"][name]
        lines += [
            "",
            f"## {label} (prevalence {prevalence:.2f})",
            "",
        ]
        rows = []
        for detector, words in DETECTORS.items():
            found = [run["figures"][f"{detector}, {name}"] for run in runs]
            cells = [spread([one[key] for one in found]) for key in COLUMNS]
            rows.append([words, *cells])
        lines.append(markdown(["detector", *COLUMNS.values()], rows))
    return "\n".join(lines)
