"""A model card of a million predictions beside the same scores by scikit-learn, which gives no intervals.

In each row ``ratio`` is our time over the baseline's. A card holds what
scikit-learn's scores hold (accuracy, log loss, Brier score, recall, precision,
confusions, a reliability curve) and intervals for all of them, the draws behind
the calibration band, the risk-coverage curve with what can be promised, and the
page. The limits: what no card can do without, each done once.
"""

import tracemalloc

import numpy as np

from benchmarks.limits import Limit
from benchmarks.timing import row
from uqhelpers import report

SECONDS, GIBIBYTES = 10, 1  # promised of a million predictions of ten classes
RANKED = (
    "the score is ranked five times (the curve, the area and its spread, the coverage and its promise), and "
    "two thousand draws are made for the band; with subgroups as many for each of their crossings"
)


def peak_memory(function):
    """Peak of what NumPy and Python allocate beside the arguments, in bytes."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def predictions(inputs, classes, rng):
    """Calibrated probabilities and their labels."""
    powers = np.exp(2 * rng.standard_normal((inputs, classes)))
    probs = powers / powers.sum(axis=1, keepdims=True)
    return probs, (probs.cumsum(axis=1) < rng.random((inputs, 1))).sum(axis=1).clip(max=classes - 1)


def theirs(probs, labels):
    """The scores that scikit-learn has, one after the other."""
    from sklearn import metrics
    from sklearn.calibration import calibration_curve

    predicted, confidence = probs.argmax(axis=1), probs.max(axis=1)
    return (
        metrics.accuracy_score(labels, predicted),
        metrics.log_loss(labels, probs),
        metrics.brier_score_loss(labels, probs, scale_by_half=False),
        metrics.precision_recall_fscore_support(labels, predicted),
        metrics.confusion_matrix(labels, predicted),
        calibration_curve(predicted == labels, confidence, n_bins=10),
    )


def least(probs, labels):
    """One pass for the sums, one for the largest, a logarithm for each label, one ranking."""
    probs.sum(axis=1)
    confidence = probs.max(axis=1)
    np.log(probs[np.arange(len(labels)), labels])
    np.argsort(confidence)


def rows(inputs=1_000_000, classes=10, repeats=3):
    """Measure all; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs, classes : int
        Predictions on the card.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit``, ``note`` and ``peak_bytes``.
    """
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    probs, labels = predictions(inputs, classes, rng)
    groups = {"site": rng.integers(0, 20, inputs), "half": np.arange(inputs) % 2 == 0}
    mean, scale = rng.normal(size=inputs), rng.uniform(0.5, 2, inputs)
    targets = mean + scale * rng.normal(size=inputs)
    limit = Limit(
        "sums and maxima of the rows, a logarithm for each label, one ranking",
        lambda: least(probs, labels),
        why=RANKED,
    )
    ranked = Limit("one ranking", lambda: np.argsort(mean), why="ranked, with the moments of a dozen figures")

    def card():
        return report.classification(probs, labels, title="a million")

    def parted():
        return report.classification(probs, labels, title="a million", groups=groups)

    def numbers():
        return report.regression(mean, targets, title="a million", scale=scale)

    table = []
    with threadpool_limits(1):
        for name, ours, baseline, other, least_of in (
            ("card of a classifier", card, "scikit-learn's scores", lambda: theirs(probs, labels), limit),
            ("card with 22 subgroups", parted, "", None, limit),
            ("card of a regressor", numbers, "", None, ranked),
        ):
            peak = peak_memory(ours)
            what = f"{inputs:,} x {classes}" if other or ours is parted else f"{inputs:,} Gaussians"
            note = f"{what}, one thread; peak beside the arguments {peak / 2**20:.0f} MiB"
            table.append(row(name, ours, baseline, other, repeats, note, least_of))
            table[-1]["peak_bytes"] = peak
    return table
