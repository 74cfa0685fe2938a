"""Metrics at size, each beside the plain way in the same run.

In each row ``ratio`` is our time over the baseline's:
below 1 we are faster. A baseline that is not installed leaves its time empty.
The limits: a logarithm of every probability for entropies, a pass over them and
one sort for what ranks, an exponential of every logit for a temperature.
"""

import sys
import tracemalloc
from unittest import mock

import numpy as np

from benchmarks.limits import Limit, elementwise, one_pass, several
from benchmarks.timing import installed, row
from uqhelpers import metrics

ROWS_OF_TEN = (
    "rows are summed for the check, their largest is found and its place: traversals of rows of ten, "
    "which no reduction does at the speed of memory"
)


def plain_decomposition(probs):
    """The formula as it is written, on probabilities above 0, with no check of anything."""
    mean = probs.mean(axis=0)
    total = -(mean * np.log(mean)).sum(axis=-1)
    aleatoric = -(probs * np.log(probs)).sum(axis=-1).mean(axis=0)
    return mean, total, aleatoric, total - aleatoric


def plain_aurc(score, wrong):
    """The formula as it is written; tied scores make it depend on the order of the inputs."""
    errors = np.cumsum(wrong[np.argsort(score)])
    return (errors / np.arange(1, len(errors) + 1)).mean()


def draw(shape, seed):
    """Random class probabilities, every one above 0."""
    probs = np.random.default_rng(seed).standard_exponential(shape)
    probs += 1e-9
    probs /= probs.sum(axis=-1, keepdims=True)
    return probs


def accumulator_peak(samples, inputs, classes):
    """Peak memory, in bytes, of taking in samples that are made one at a time."""
    accumulator = metrics.SampleAccumulator()
    probs = draw((inputs, classes), 0)
    tracemalloc.start()
    try:
        for _ in range(samples):
            accumulator.add(probs)
        accumulator.result()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def beside_netcal(probs, labels, size, repeats):
    """Calibration errors and the temperature; netcal lives in the environment that ``make peers`` makes."""
    logits, confidence = np.log(probs), probs.max(axis=1)
    one_sort = Limit(
        "one pass over the probabilities and one sort of as many numbers as inputs",
        several(one_pass(probs), lambda: np.sort(confidence)),
        why=ROWS_OF_TEN,
    )
    search_for = sys.modules[metrics.fit_temperature.__module__]
    with mock.patch.object(search_for, "_slope", side_effect=search_for._slope) as search:
        metrics.fit_temperature(logits, labels)
    exponentials = Limit(
        f"one pass over the logits and one exponential of each, in each of {search.call_count} steps",
        several(one_pass(logits), elementwise(np.exp, logits)),
        search.call_count,
        "a step also takes products, squares and sums for two derivatives",
    )
    equal_width = equal_mass = temperature = None
    if installed("netcal"):
        from netcal.metrics import ECE
        from netcal.scaling import TemperatureScaling

        def equal_width():
            return ECE(bins=10).measure(probs, labels)

        def equal_mass():
            return ECE(bins=10, equal_intervals=False).measure(probs, labels)

        def temperature():
            return TemperatureScaling().fit(probs, labels)

    return [
        row(
            "expected_calibration_error",
            lambda: metrics.expected_calibration_error(probs, labels),
            "netcal",
            equal_width,
            repeats,
            f"{size}, float64, 10 bins",
            Limit("one pass over the probabilities", one_pass(probs), why=ROWS_OF_TEN),
        ),
        row(
            "adaptive_calibration_error",
            lambda: metrics.adaptive_calibration_error(probs, labels),
            "netcal",
            equal_mass,
            repeats,
            f"{size}, float64, 10 bins of equal mass; torchmetrics has none",
            one_sort,
        ),
        row(
            "fit_temperature",
            lambda: metrics.fit_temperature(logits, labels),
            "netcal",
            temperature,
            repeats,
            f"{size}, float64; the same optimum; torchmetrics has none",
            exponentials,
        ),
    ]


def rows(inputs=1_000_000, samples=20, classes=10, repeats=3):
    """Measure everything once; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs, samples, classes : int
        Size of the predictions.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``.
    """
    sampled = [draw((samples, inputs, classes), 0)]  # in a list, to be let go of when it is done with
    size = f"{samples} x {inputs:,} x {classes}, float64"

    def logarithms():
        return Limit(
            "one pass over the probabilities and one logarithm of each",
            several(one_pass(sampled[0][0]), elementwise(np.log, sampled[0][0])),
            samples + 1,
            "each is also checked to lie in [0, 1], added up with its row twice and over the samples, kept "
            "above 0, and multiplied with its logarithm",
        )

    table = [
        row(
            "decompose",
            lambda: metrics.decompose(sampled[0]),
            "plain NumPy formula",
            lambda: plain_decomposition(sampled[0]),
            repeats,
            f"{size}; ours checks every row; bound 3",
            logarithms(),
        )
    ]

    def accumulate():
        accumulator = metrics.SampleAccumulator()
        for sample in sampled[0]:
            accumulator.add(sample)
        return accumulator.result()

    small = max(1, inputs // 100)
    peaks = {count: accumulator_peak(count, small, classes) for count in (5, 500)}
    table.append(
        row(
            "SampleAccumulator",
            accumulate,
            "plain NumPy formula",
            lambda: plain_decomposition(sampled[0]),
            repeats,
            f"{size}, one sample at a time; peak memory at {small:,} inputs: "
            + ", ".join(f"{peak / 1e6:.2f} MB after {count} samples" for count, peak in peaks.items()),
            logarithms(),
        )
    )
    table[-1]["peak_bytes"] = peaks
    probs = sampled.pop()[0].copy()

    labels = (probs.cumsum(axis=1) < np.random.default_rng(1).random((inputs, 1))).sum(axis=1)
    labels = np.minimum(labels, classes - 1)
    size = f"{inputs:,} x {classes}"
    for kind in (np.float64, np.float32):
        typed = probs.astype(kind)
        note = f"{size}, {kind.__name__}, 10 bins; baseline without its checks"
        other = None
        if installed("torchmetrics"):
            from uqhelpers._torch import torch

            torch.set_num_threads(1)
            from torchmetrics.functional.classification import multiclass_calibration_error

            tensors = torch.from_numpy(typed), torch.from_numpy(labels)

            def other(tensors=tensors):
                return multiclass_calibration_error(
                    *tensors, num_classes=classes, n_bins=10, validate_args=False
                )

        def ours(typed=typed):
            return metrics.expected_calibration_error(typed, labels)

        limit = Limit("one pass over the probabilities", one_pass(typed), why=ROWS_OF_TEN)
        table.append(row("expected_calibration_error", ours, "torchmetrics", other, repeats, note, limit))

    table += beside_netcal(probs, labels, size, repeats)

    def area():
        wrong = probs.argmax(axis=1) != labels
        return metrics.aurc(metrics.msp_score(probs), wrong)

    def plain_area():
        return plain_aurc(-probs.max(axis=1), probs.argmax(axis=1) != labels)

    score = probs.max(axis=1)
    limit = Limit(
        "one pass over the probabilities and one sort of the scores with their places",
        several(one_pass(probs), lambda: np.argsort(score)),
        why=ROWS_OF_TEN,
    )
    note = f"{size}, float64, from probabilities to the figure"
    table.append(
        row(
            "aurc",
            area,
            "plain NumPy formula (wrong on ties)",
            plain_area,
            repeats,
            f"{note}; ours groups ties",
            limit,
        )
    )
    other = None
    if installed("torchmetrics"):
        from torchmetrics.functional.classification import binary_auroc

        def other():
            top, predicted = tensors[0].max(dim=1)
            return binary_auroc(1 - top, (predicted != tensors[1]).long(), validate_args=False)

    note += "; torchmetrics has no AURC: its AUROC of the same score, one sort as well"
    table.append(row("aurc", area, "torchmetrics AUROC", other, repeats, note, limit))
    other = None
    if installed("torch_uncertainty"):
        from uqhelpers._torch import torch

        torch.set_num_threads(1)
        from torch_uncertainty.metrics import AURC

        def other():
            metric = AURC()
            metric.update(torch.from_numpy(probs), torch.from_numpy(labels))
            return metric.compute()

    table.append(row("aurc", area, "torch-uncertainty", other, repeats, f"{size}, float64", limit))
    return table
