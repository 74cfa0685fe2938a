"""A teaching module's MNIST set-up: SimpleNet, 3 epochs; 20 MC-Dropout passes; 5 members of 2 epochs each.

The module (DAT945, uncertainty in AI) gives one run. Here are three, with what
it leaves out beside it: the deterministic baseline, and the sign of the gap.
"""

import time

import numpy as np

from benchmarks import tables
from benchmarks.reproduce import kept
from uqhelpers import data, mc_dropout, metrics, models, training

SCRIPT = "reproduce_first_seed"
SEEDS = (0, 1, 2)
TIMED = 12_000  # images
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


def dropout_run(seed):
    """One network, and its MC-Dropout; trained as published, on all 60,000 images."""
    images, test = data.load_images("mnist", "train"), data.load_images("mnist", "test")
    net = train(images.images, images.labels, seed, epochs=3)
    dropout = mc_dropout.sample(net, test.images, passes=20, seed=seed)
    return {
        "one network": summary(training.predict(net, test.images)[None], test.labels),
        "MC-Dropout": summary(dropout, test.labels),
        "selective": selective(dropout, test.labels),
    }


def ensemble_run(seed):
    """Five members whose seeds are all their own, and one temperature, fitted to 5,000 images kept back."""
    images = data.load("mnist")
    members = [
        train(images.train.images, images.train.labels, 1000 + 10 * seed + member, epochs=2)
        for member in range(5)
    ]
    validation, test = (
        np.stack([training.predict(net, part.images) for net in members])
        for part in (images.validation, images.test)
    )
    temperature, calibrated = calibrate(validation.mean(axis=0), images.validation.labels, test.mean(axis=0))
    return {
        "ensemble": summary(test, images.test.labels),
        # Of one distribution only: the members have no temperature of their own, so nothing is epistemic.
        "calibrated ensemble": {
            **summary(calibrated[None], images.test.labels),
            "epistemic": None,
            "temperature": temperature,
        },
        "members": [summary(member[None], images.test.labels) for member in test],
    }


def calibrate(validation, labels, probs):
    """One temperature for the mean of the members.

    Parameters
    ----------
    validation, probs : array, shape (V, C) and (N, C)
        The members' mean probabilities of held-out images, and of those to be calibrated.
    labels : array, shape (V,)
        Of the held-out images.

    Returns
    -------
    float, array of shape (N, C)
        The temperature with the least held-out NLL, and the softmax of log p / T.
    """
    temperature = metrics.fit_temperature(np.log(validation), labels)
    scaled = probs ** (1 / temperature)
    return temperature, scaled / scaled.sum(axis=1, keepdims=True)


def plain_seconds(seed, count):
    """Seconds of the processor for ``count`` images as tutorials train: a DataLoader, image by image."""
    from uqhelpers._torch import torch

    from torchvision import datasets, transforms  # isort: skip

    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    images = datasets.MNIST(data.cache_folder(), train=True, download=False, transform=steps)
    with training.seeded(seed):
        part = torch.utils.data.Subset(images, range(count))
        loader = torch.utils.data.DataLoader(part, batch_size=128, shuffle=True)
        net = models.SimpleNet()
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
        criterion = torch.nn.CrossEntropyLoss()
        net.train()
        started = time.process_time()
        for batch, labels in loader:
            optimiser.zero_grad()
            loss = criterion(net(batch), labels)
            loss.backward()
            optimiser.step()
        return time.process_time() - started


def our_seconds(seed, count):
    """The same with ``training.fit``."""
    images = data.load_images("mnist", "train")[:count]
    started = time.process_time()
    train(images.images, images.labels, seed, epochs=1)
    return time.process_time() - started


def time_epoch(count=TIMED, repeats=2):
    """Both ways in turn, one network; the shortest time counts, scaled up to 60,000 images."""
    data.load_images("mnist", "test")  # torchvision asks for all files of the set
    times = [(our_seconds(repeat, count), plain_seconds(repeat, count)) for repeat in range(repeats)]
    ours, plain = (min(way) * 60_000 / count for way in zip(*times, strict=True))
    return {"ours_s": ours, "plain_s": plain, "ratio": plain / ours, "images": count, "repeats": repeats}


def reproduce(seeds=SEEDS):
    """Three runs beside the published one.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    parts = {"ensemble": ensemble_run, "dropout": dropout_run}
    found = {
        name: [kept(SCRIPT, f"{seed}-{name}", lambda seed=seed, part=part: part(seed)) for seed in seeds]
        for name, part in parts.items()
    }
    runs = [
        {**dropout, **ensemble}
        for dropout, ensemble in zip(*map(found.get, ("dropout", "ensemble")), strict=True)
    ]
    seconds = kept(SCRIPT, "seconds", time_epoch)
    return {"runs": runs, "published": PUBLISHED, "seconds an epoch": seconds}, page(runs, seconds), seeds


def page(runs, seconds):
    """The runs, and the seconds of an epoch, as Markdown."""
    names = [*PUBLISHED, "calibrated ensemble"]
    head = ["figure", *sum(((f"{name}: published", "ours") for name in PUBLISHED), ())]
    lines = []
    for key, label in ROWS.items():
        cells = [label]
        for name in names:
            published = PUBLISHED.get(name)
            if published is not None:
                cells.append(f"{published[key]:.4f}" if key in published else "")
            ours = [run[name][key] for run in runs]
            cells.append("" if None in ours else spread(ours))
        lines.append(cells)
    kept_head = ["kept up to (nats)", "coverage: published", "ours", "accuracy: published", "ours"]
    kept_rows = []
    for index, (threshold, (coverage, accuracy)) in enumerate(PUBLISHED_SELECTIVE.items()):
        ours = [[run["selective"]["published thresholds"][part][index] for run in runs] for part in (0, 1)]
        kept_rows.append([str(threshold), str(coverage), spread(ours[0]), str(accuracy), spread(ours[1], 6)])
    passing = [
        f"- by {score}: {spread([run['selective']['passing .999'][score] for run in runs])}"
        for score in ("entropy", "mutual information")
    ]
    temperatures = spread([run["calibrated ensemble"]["temperature"] for run in runs])
    member = spread([figures["accuracy"] for run in runs for figures in run["members"]])
    return "\n".join(
        [
            "# MNIST, SimpleNet: MC-Dropout and an ensemble beside a published run",
            "",
            f"Mean ± standard deviation over {len(runs)} runs. Published: one run.",
            "",
            tables.markdown([*head, "ensemble, calibrated: ours"], lines),
            "",
            "The one network, which is also that of MC-Dropout, has 3 epochs of 60,000 images. The "
            f"ensemble has 5 members of 2 epochs (accuracy of one alone: {member}), with 55,000 images. "
            "On the last 5,000 of the training file one temperature is fitted to the members' mean "
            f"probabilities: {temperatures}; below 1 it makes them surer. The signed gap is mean confidence "
            "minus accuracy: below 0 is under-confident. A calibrated mean is one distribution and has no "
            "mutual information.",
            "",
            "One epoch of one member, 60,000 images, in seconds of one processor core (reckoned from "
            f"{seconds['images']:,} images, the shorter of {seconds['repeats']} runs, both ways in turn): "
            f"{seconds['ours_s']:.1f} s with `training.fit`, {seconds['plain_s']:.1f} s with a plain loop "
            "over a `DataLoader` that decodes and normalises image by image, "
            f"{seconds['ratio']:.2f} times as long. An ensemble is ten such epochs.",
            "",
            "Rejecting by the entropy of MC-Dropout:",
            "",
            tables.markdown(kept_head, kept_rows),
            "",
            "The largest coverage at which the accuracy of what is kept passes .999:",
            "",
            *passing,
        ]
    )


def spread(values, digits=4):
    """Mean and standard deviation of a few runs."""
    return tables.spread(values, digits)
