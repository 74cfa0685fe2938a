"""Conformal sets on MNIST: coverage and size by method and level, clean and corrupted.

Each network's held-out digits (those of the test set and of the validation set
but for the few a temperature is fitted to) are parted at random many times into
calibration and test; corrupted digits are those of the test part, damaged, under
the thresholds of the clean calibration.
"""

import numpy as np

from benchmarks import tables
from benchmarks.conformal_networks import EPOCHS, trained
from benchmarks.reproduce import kept
from uqhelpers import conformal, credal, data, mc_dropout, metrics, training

SCRIPT = "reproduce_conformal"
SEEDS = (0, 1, 2, 3, 4)
LEVELS = (0.1, 0.05, 0.01)
CALIBRATION = 1_000
SPLITS = 20
TUNING = 1_000  # of the validation digits, for the temperature
PASSES = 20
DAMAGES = {"rotation": "turned", "gaussian_noise": "noisy"}
SEVERITIES = (1, 3, 5)
METHODS = {
    "naive": "classes until their probabilities reach 1 - α",
    "lac": "LAC",
    "lac by class": "LAC, a threshold for each digit",
    "aps, u = 1": "APS, nothing random",
    "aps": "APS, randomised",
    "raps": "RAPS, randomised",
    "lac, temperature": "LAC after a temperature",
    "lac, dropout": f"LAC, MC-Dropout, {PASSES} passes",
}
OPTIONS = {
    "lac": {"score": "lac"},
    "lac by class": {"score": "lac", "by": "class"},
    "aps, u = 1": {"score": "aps"},
    "aps": {"score": "aps"},
    "raps": {"score": "raps", "penalty": 0.01, "free": 1},
    "lac, temperature": {"score": "lac"},
    "lac, dropout": {"score": "lac"},
}
RANDOMISED = ("aps", "raps")


def naive_sets(probs, alpha):
    """Classes in descending order until their probabilities reach 1 - alpha."""
    before = conformal.adaptive_scores(probs, np.zeros(len(probs)))
    return before < 1 - alpha


def predictions(net, images, temperature):
    """Probabilities of some images, of each kind that a method asks for; those of dropout cost too much."""
    logits = training.predict_outputs(net, images)
    plain = metrics.from_logits(logits)
    kinds = {"lac, temperature": metrics.apply_temperature(logits, temperature)}
    return {method: kinds.get(method, plain) for method in METHODS if method != "lac, dropout"}


def figures(sets, labels):
    """Coverage, mean size, share of empty sets, and coverage of the worst digit."""
    size = conformal.set_sizes(sets)
    report = conformal.coverage_report(sets, labels, by="class")
    return {
        "coverage": report.overall,
        "size": float(size.mean()),
        "empty": float(np.mean(size == 0)),
        "worst": float(report.coverage.min()),
    }


def average(rows):
    """The mean of figures, key by key."""
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def sets_of(method, alpha, probs, labels, new, seed):
    """Sets of new inputs by one method."""
    if method == "naive":
        return naive_sets(new, alpha)
    chance = {"seed": seed} if method in RANDOMISED else {}
    fitted = conformal.SplitClassifier(alpha=alpha, **OPTIONS[method], **chance)
    return fitted.fit(probs, labels).predict(new)


def one_run(net, images, seed, calibration=CALIBRATION, splits=SPLITS):
    """All figures of one network.

    Parameters
    ----------
    net : torch.nn.Module
        Trained on the training digits.
    images : ImageData
        The digits.
    seed : int
        Of the splits, the masks and the damage.
    calibration, splits : int
        Calibration digits, and how often the held-out ones are parted.

    Returns
    -------
    dict
        ``accuracy``, ``temperature``; ``clean`` and ``damaged`` figures by name.
    """
    tuning = images.validation[:TUNING]
    logits = training.predict_outputs(net, tuning.images)
    temperature = metrics.fit_temperature(logits, tuning.labels)
    rest = images.validation[TUNING:]
    labels = np.concatenate([rest.labels, images.test.labels])
    held_out = np.concatenate([rest.images, images.test.images])
    everything = predictions(net, held_out, temperature)
    everything["lac, dropout"] = mc_dropout.predict(net, held_out, passes=PASSES, seed=seed).mean
    clean = {}
    for method in METHODS:
        for alpha in LEVELS:
            rows = []
            for again in range(splits):
                order = np.random.default_rng([seed, again]).permutation(len(labels))
                cal, new = order[:calibration], order[calibration:]
                probs = everything[method]
                drawn = SPLITS * seed + again
                sets = sets_of(method, alpha, probs[cal], labels[cal], probs[new], drawn)
                rows.append(figures(sets, labels[new]))
            clean[f"{method}, {alpha}"] = average(rows)
    cal = predictions(net, rest.images[:calibration], temperature)
    damaged = {}
    for kind in DAMAGES:
        for severity in SEVERITIES:
            worse = data.corrupt(images.test.images, kind, severity, seed=seed)
            probs = predictions(net, worse, temperature)
            for method in probs:
                own = rest.labels[:calibration]
                sets = sets_of(method, 0.1, cal[method], own, probs[method], seed)
                damaged[f"{method}, {kind}, {severity}"] = figures(sets, images.test.labels)
    return {
        "accuracy": metrics.accuracy(everything["lac"], labels),
        "temperature": float(temperature),
        "clean": clean,
        "damaged": damaged,
        "credal": credal_figures(net, images.test, seed),
    }


def credal_figures(net, test, seed):
    """Entropy bounds of the box of sampled predictions, right and wrong answers apart."""
    sampled = mc_dropout.sample(net, test.images, passes=PASSES, seed=seed)
    box = credal.from_ensemble(sampled)
    low, high = credal.lower_entropy(box), credal.upper_entropy(box)
    wrong = sampled.mean(axis=0).argmax(axis=1) != test.labels
    kept = credal.decide(box, "e-admissibility")
    return {
        "lower, right": float(low[~wrong].mean()),
        "upper, right": float(high[~wrong].mean()),
        "lower, wrong": float(low[wrong].mean()),
        "upper, wrong": float(high[wrong].mean()),
        "auroc of the gap": float(metrics.auroc(high - low, wrong)),
        "auroc of the upper": float(metrics.auroc(high, wrong)),
        "auroc of mutual information": float(metrics.auroc(metrics.mutual_information(sampled), wrong)),
        "auroc of entropy": float(metrics.auroc(metrics.predictive_entropy(sampled), wrong)),
        "coverage": float(conformal.covered(kept, test.labels).mean()),
        "size": float(conformal.set_sizes(kept).mean()),
    }


def reproduce(seeds=SEEDS):
    """All methods, each seed.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    images = data.load("mnist")
    runs = [
        kept(SCRIPT, seed, lambda seed=seed: one_run(trained(seed, images.train), images, seed))
        for seed in seeds
    ]
    return {"runs": runs}, page(runs), seeds


def page(runs):
    """The runs as Markdown."""
    lines = [
        "# MNIST, SimpleNet: conformal sets",
        "",
        f"Mean ± standard deviation over {len(runs)} networks (seeds), {EPOCHS} epochs each; accuracy "
        f"{spread([run['accuracy'] for run in runs])} %. Every figure of a network is itself the mean of "
        f"{SPLITS} random ways to part its 14,000 held-out digits into {CALIBRATION:,} for calibration and "
        "the rest. Where the accuracy is above 1 - α, a threshold on the probability has to leave sets empty "
        "to keep to the level. Nothing promises the coverage of the worst digit, except where each has its "
        "own threshold.",
    ]
    for alpha in LEVELS:
        lines += [
            "",
            f"## α = {alpha}",
            "",
        ]
        rows = []
        for method, words in METHODS.items():
            found = [run["clean"][f"{method}, {alpha}"] for run in runs]
            cells = [
                spread([row["coverage"] for row in found]),
                spread([row["size"] for row in found], 1, 3),
                spread([row["empty"] for row in found]),
                spread([row["worst"] for row in found]),
            ]
            rows.append([words, *cells])
        head = ["method", "coverage (%)", "digits in a set", "empty (%)", "worst digit (%)"]
        lines.append(tables.markdown(head, rows, numbers=True))
    lines += [
        "",
        "## Damaged digits, calibrated on clean ones, α = 0.1",
        "",
        "Coverage in per cent, and digits in a set, by kind of damage and severity.",
        "",
    ]
    head = ["method", *(f"{words}, {s}" for words in DAMAGES.values() for s in SEVERITIES)]
    head += [f"size, {words} {SEVERITIES[-1]}" for words in DAMAGES.values()]
    rows = []
    for method, words in METHODS.items():
        if f"{method}, {next(iter(DAMAGES))}, {SEVERITIES[0]}" not in runs[0]["damaged"]:
            continue
        cells = [
            spread([run["damaged"][f"{method}, {kind}, {s}"]["coverage"] for run in runs])
            for kind in DAMAGES
            for s in SEVERITIES
        ]
        cells += [
            spread([run["damaged"][f"{method}, {kind}, {SEVERITIES[-1]}"]["size"] for run in runs], 1, 2)
            for kind in DAMAGES
        ]
        rows.append([words, *cells])
    lines += [tables.markdown(head, rows, numbers=True)]
    lines += ["", "## Credal boxes", "", credal_words([run["credal"] for run in runs])]
    return "\n".join(lines)


def credal_words(found):
    """The boxes of MC-Dropout's passes, in a sentence."""

    def of(key, digits=3):
        return spread([one[key] for one in found], 1, digits)

    return (
        f"From {PASSES} passes of MC-Dropout, the smallest to the largest probability of each digit. Lower "
        f"and upper entropy of digits that are read rightly: {of('lower, right')} and {of('upper, right')} "
        f"nats, wrongly: {of('lower, wrong')} and {of('upper, wrong')}. AUROC for errors: gap "
        f"{of('auroc of the gap')}, upper entropy {of('auroc of the upper')}, mutual information "
        f"{of('auroc of mutual information')}, entropy of the average {of('auroc of entropy')}. "
        f"E-admissible digits: {of('size')} on average, holding the truth in "
        f"{spread([one['coverage'] for one in found], 100, 2)} % of cases, a figure that nobody promised."
    )


def spread(values, scale=100, digits=1):
    """Mean and standard deviation of a few runs, in per cent unless told."""
    return tables.spread(values, digits, scale)
