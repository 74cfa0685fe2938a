"""Four outputs at a glance: a histogram, a reliability diagram, a coverage curve, each good and bad.

What the guide of the book draws: curves of the leaderboard's world, pooled over
seeds. (The fourth, an attack, is drawn from its own stored table.)
"""

import numpy as np

from benchmarks.reproduce import kept
from benchmarks.tables import markdown
from uqhelpers import data, leaderboard, metrics

SCRIPT, SEEDS, BINS = "reproduce_glance", range(5), 14
EDGES = np.linspace(0, np.log(10), BINS + 1)
COVERAGES = np.linspace(0.05, 1, 20)
DAMAGE = {"kind": "blur", "severity": 5, "seed": 20}  # which a plain distance takes for familiar


def one_run(seed):
    """What the curves of one seed are made of."""
    world = leaderboard.world(edition="digits")
    labels, damaged = world.test.labels, world.corrupted

    def fitted(name):
        fit = leaderboard.METHODS[name].fit(world.train, world.validation, seed)
        return lambda images: leaderboard.as_answer(fit(images), len(images), world.classes)

    found = {"entropies": {}, "reliability": {}, "kept": {}}
    for name in ("ensemble", "long_network"):
        answer = fitted(name)
        found["entropies"][name] = {
            "digits": np.histogram(answer(world.test.images).total, EDGES)[0].tolist(),
            "letters": np.histogram(answer(world.near).total, EDGES)[0].tolist(),
        }
    network = fitted("max_probability")
    for what, images in (("clean", world.test.images), ("severity 5", damaged[4])):
        probs = network(images).probs
        found["reliability"][what] = {
            "confidence": probs.max(axis=1).round(6).tolist(),
            "right": (probs.argmax(axis=1) == labels).tolist(),
        }
    blurred = np.concatenate([world.test.images, data.corrupt(world.test.images, **DAMAGE)])
    for name in ("entropy", "mahalanobis"):
        answer = fitted(name)(blurred)
        wrong = answer.probs.argmax(axis=1) != np.tile(labels, 2)
        curve = metrics.risk_coverage(answer.doubt, wrong)
        found["kept"][name] = np.interp(COVERAGES, curve.coverage, 1 - curve.risk).round(5).tolist()
    return found


def pooled(runs):
    """The curves that are drawn."""
    entropies = {
        name: {
            what: np.sum([run["entropies"][name][what] for run in runs], axis=0).tolist()
            for what in ("digits", "letters")
        }
        for name in runs[0]["entropies"]
    }
    reliability = {}
    for what in runs[0]["reliability"]:
        confidence, right = (
            np.concatenate([run["reliability"][what][key] for run in runs]) for key in ("confidence", "right")
        )
        curve = metrics.reliability_from_confidence(confidence, right.astype(bool), bins=10)
        reliability[what] = {
            "confidence": np.round(curve.confidence, 5).tolist(),
            "accuracy": np.round(curve.accuracy, 5).tolist(),
            "count": np.asarray(curve.count).tolist(),
        }
    accuracies = {name: np.mean([run["kept"][name] for run in runs], axis=0) for name in runs[0]["kept"]}
    return {
        "edges": EDGES.round(5).tolist(),
        "coverages": COVERAGES.round(5).tolist(),
        "entropies": entropies,
        "reliability": reliability,
        "kept": {name: values.round(5).tolist() for name, values in accuracies.items()},
    }


def page(curves):
    """The curves as Markdown."""
    rows = []
    for name, kinds in curves["entropies"].items():
        high = [np.array(kinds[what]) for what in ("digits", "letters")]
        shares = [f"{counts[BINS // 2 :].sum() / counts.sum():.3f}" for counts in high]
        rows.append([leaderboard.METHODS[name].title, *shares])
    half = f"{EDGES[BINS // 2]:.2f} nats"
    kept_rows = [
        [leaderboard.METHODS[name].title, *(f"{values[at]:.3f}" for at in (9, 15, 19))]
        for name, values in curves["kept"].items()
    ]
    gaps = []
    for what, curve in curves["reliability"].items():
        count, confidence, accuracy = (np.array(curve[key]) for key in ("count", "confidence", "accuracy"))
        gap = (count * (confidence - accuracy)).sum() / count.sum()
        error = (count * np.abs(confidence - accuracy)).sum() / count.sum()
        gaps.append([what, f"{gap:+.3f}", f"{error:.3f}"])
    return "\n\n".join(
        [
            "# Four outputs at a glance",
            f"The leaderboard's world of digits, {len(SEEDS)} seeds pooled. What the guide draws.",
            f"Share of inputs whose entropy is above {half}:",
            markdown(["method", "digits", "letters"], rows, numbers=True),
            "Reliability of the one network:",
            markdown(["digits", "signed gap", "ECE"], gaps, numbers=True),
            "Accuracy of what is kept of clean and blurred digits (severity 5), as many of each:",
            markdown(["method", "coverage .5", ".8", "1"], kept_rows, numbers=True),
        ]
    )


def reproduce(seeds=SEEDS):
    """The curves, the same as Markdown, and the seeds."""
    curves = pooled([kept(SCRIPT, seed, lambda seed=seed: one_run(seed)) for seed in seeds])
    return curves, page(curves), seeds
