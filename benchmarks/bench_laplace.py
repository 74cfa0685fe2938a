"""Last-layer Laplace at size: fit and predict, beside laplace-torch in the same run.

In each row ``ratio`` is our time over the baseline's: below 1 we are faster. A
baseline that is not installed leaves its time empty. The baseline is given a
share of the inputs only, because its time grows in proportion to them and at
full size takes minutes; ``baseline_s`` is its time scaled up, as the note says.
The limits: a product of the features with themselves for each pair of classes,
and one with what whitens them for each class.
"""

import tracemalloc

import numpy as np

from benchmarks.limits import Limit, gram, whitened
from benchmarks.timing import installed, row
from uqhelpers import laplace


def problem(inputs, features, classes):
    """A linear layer on random features, and labels drawn from its own softmax."""
    from uqhelpers._torch import torch
    from uqhelpers.training import seeded

    rng = np.random.default_rng(0)
    with seeded(0):
        layer = torch.nn.Linear(features, classes)
    x = rng.standard_normal((inputs, features)).astype(np.float32)
    with torch.no_grad():
        logits = layer(torch.from_numpy(x)).double().numpy()
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    # laplace-torch wants more than one module.
    return torch.nn.Sequential(torch.nn.Identity(), layer), x, labels


def peak_bytes(run):
    """The most memory that NumPy held at once while ``run`` ran."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rows(inputs=60_000, features=128, classes=10, repeats=1, share=5):
    """Measure everything once, on one thread; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs, features, classes : int
        Size of the problem.
    repeats : int
        The shortest of so many times counts.
    share : int
        The baseline is given ``inputs / share`` inputs, and its time multiplied.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``.
    """
    from threadpoolctl import threadpool_limits

    from uqhelpers._torch import torch

    torch.set_num_threads(1)
    model, x, labels = problem(inputs, features, classes)
    part = slice(0, max(1, inputs // share))
    scale = inputs / len(x[part])
    size = f"{inputs:,} x {features} features, {classes} classes, one thread, ours in float64"
    scaled = f"baseline on {len(x[part]):,} inputs, times {scale:g}" if share > 1 else "all of it measured"
    there = installed("laplace")
    ours = laplace.LastLayerLaplace(model)
    if there:  # imported and warmed up before the clock runs
        laplace.laplace_torch(model, x[:10], labels[:10]).predict(x[:2])
    pairs = classes * (classes + 1) // 2
    grams = Limit(
        f"{pairs} products of the features with themselves, one for each pair of classes",
        gram(np.ones((inputs, features + 1))),
        pairs,
        "the features are weighted anew for each pair",
    )
    variances = Limit(
        f"{classes} products of the features with a triangular matrix",
        whitened(inputs, features + 1),
        classes,
        "the network's pass, and squares and sums of the products",
    )
    with threadpool_limits(1):
        table = [
            row(
                "last-layer Laplace, fit",
                lambda: ours.fit(x, labels),
                "laplace-torch, last layer, full",
                (lambda: laplace.laplace_torch(model, x[part], labels[part])) if there else None,
                repeats,
                f"{size}; {scaled}; bound 1",
                grams,
            )
        ]
        theirs = laplace.laplace_torch(model, x[part], labels[part]) if there else None
        # The factorised posterior is computed once, by both, when it is first asked for.
        ours.predict(x[:2])
        if there:
            theirs.predict(x[:2])
        table.append(
            row(
                "last-layer Laplace, probit predictive",
                lambda: ours.predict(x),
                "laplace-torch, last layer, full",
                (lambda: theirs.predict(x[part])) if there else None,
                repeats,
                f"{size}; {scaled}; bound 1",
                variances,
            )
        )
        small = max(100, inputs // 20)
        peaks = {
            count: peak_bytes(lambda: laplace.LastLayerLaplace(model).fit(x[:count], labels[:count]))  # noqa: B023
            for count in (small, 2 * small)
        }
    for entry in table:
        if entry["baseline_s"]:
            entry["baseline_s"] *= scale
            entry["ratio"] = entry["ours_s"] / entry["baseline_s"]
    table[0]["state_bytes"], table[0]["peak_bytes"] = ours.state_bytes, peaks
    memory = ", ".join(f"{peak / 1e6:.1f} MB for {count:,} inputs" for count, peak in peaks.items())
    table[0]["note"] += (
        f"; fitted state {ours.state_bytes / 1e6:.1f} MB for any number of inputs; peak {memory}"
    )
    return table
