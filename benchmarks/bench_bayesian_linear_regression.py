"""Bayesian linear regression from a stream, beside one least-squares solve of everything at once.

The limits: one product of the features with themselves; of many features also a
Cholesky factor of it, with the evidence its eigenvectors.
"""

import tracemalloc

import numpy as np

from benchmarks.limits import Limit, beside, gram, several
from benchmarks.timing import in_turn
from uqhelpers.bayesian_linear_regression import BayesianLinearRegression, LinearBasis

BOUND = 2  # times the time of one ``lstsq``, at most


def examples(n, d, seed=0):
    """Inputs, and targets that are a linear function of them with noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x, x @ rng.standard_normal(d) + rng.standard_normal(n)


def streamed(x, y, chunk, alpha=1.0, beta=1.0):
    """The posterior after all chunks, as an array of its mean."""
    model = BayesianLinearRegression(alpha, beta, LinearBasis(bias=False))
    for start in range(0, len(y), chunk):
        model.update(x[start : start + chunk], y[start : start + chunk])
    return model


def peak_memory(chunks, chunk, d):
    """Peak of what NumPy and Python allocate while chunks are made and learned from, in bytes."""
    model = BayesianLinearRegression(1.0, 1.0, LinearBasis(bias=False))
    tracemalloc.start()
    try:
        for seed in range(chunks):
            model.update(*examples(chunk, d, seed))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def least(x, evidence):
    """The product of the features with themselves, and what has to be known of it."""
    precision = np.eye(x.shape[1]) + 0.5 / x.shape[1]
    if evidence:
        work, words = (lambda: np.linalg.eigh(precision)), "its eigenvectors"
    else:
        work, words = (lambda: np.linalg.cholesky(precision)), "its Cholesky factor"
    return Limit(
        f"one product of the features with themselves, and {words}",
        several(gram(x), work),
        why="examples are checked, and their features made and copied, in passes over memory",
    )


def rows(n=1_000_000, d=100, wide=2000, chunk=10_000, repeats=2):
    """Measure it; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    n, d : int
        Examples and features of the stream.
    wide : int
        Features of the second comparison, with twice as many examples.
    chunk : int
        Examples handed over at a time.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``.
    """
    few, many = (peak_memory(chunks, chunk, d) for chunks in (3, 30))
    table = []
    for name, size, width, piece, note in (
        (
            "posterior of a stream",
            n,
            d,
            chunk,
            f"chunks of {chunk:,}; at most {BOUND} × its time asked; peak memory {few / 1e6:.1f} MB "
            f"after 3 chunks, {many / 1e6:.1f} MB after 30",
        ),
        ("posterior, many features", 2 * wide, wide, 2 * wide, "all at once"),
        (
            "posterior and evidence, many features",
            2 * wide,
            wide,
            2 * wide,
            "all at once; alpha, beta chosen",
        ),
    ):
        x, y = examples(size, width)
        precisions = (None, None) if "evidence" in name else (1.0, 1.0)

        def ours(x=x, y=y, piece=piece, precisions=precisions):
            return streamed(x, y, piece, *precisions).weights

        def theirs(x=x, y=y):
            return np.linalg.lstsq(x, y, rcond=None)[0]

        if not np.allclose(ours(), theirs(), atol=0.3):  # but for the pull of the prior
            raise AssertionError("the two do not solve the same problem")
        limit = least(x, "evidence" in name)
        ours_s, theirs_s, limit_s = in_turn([ours, theirs, limit.work], repeats, [name])
        entry = {
            "name": name,
            "ours_s": ours_s,
            "baseline": "numpy lstsq, means only",
            "baseline_s": theirs_s,
            "ratio": ours_s / theirs_s,
            "note": f"{size:,} × {width:,}; {note}",
        }
        table.append(beside(entry, limit, limit_s))
    return table
