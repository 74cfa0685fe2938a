"""What a row of a benchmark cannot do without, timed beside it: arithmetic, sorts, passes over memory.

A limit is a piece of work that every way of getting the answer has to do: one
product of matrices, one sort, one pass over the numbers, the network's own
passes. It is done by the library that does it fastest here (BLAS, NumPy, torch,
JAX's compiler) and timed in the same run, in turn with ours. Ours over the limit
says what is left to be gained.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

ENOUGH = 2  # ours over the limit, at most, without a reason in the note
CACHED = 16_384  # numbers at a time: they stay in a core's cache


@dataclasses.dataclass(frozen=True)
class Limit:
    """The least that has to be done.

    Attributes
    ----------
    words : str
        What that is.
    work : callable
        Does it once, without arguments; or a part of it.
    times : float
        How many such parts there are.
    why : str
        The reason why ours takes more than twice as long, where it does.
    """

    words: str
    work: Callable
    times: float = 1.0
    why: str = ""


def beside(entry, limit, limit_s):
    """A row with its limit: the seconds, ours over them, and the reason where that is much."""
    over = entry["ours_s"] / limit_s
    note = f"{entry['note']}; limit: {limit.words}"
    if over > ENOUGH:
        note += f"; above it: {limit.why or 'unexplained'}"
    return {**entry, "limit_s": limit_s, "over_limit": over, "note": note}


# --- pieces of work -----------------------------------------------------------------------------------------


def one_pass(*arrays):
    """Read all numbers once."""
    return lambda: [np.add.reduce(array, axis=None) for array in arrays]


def elementwise(function, *arrays):
    """A function of each number, block by block, so that nothing but the arrays goes through memory."""
    out = np.empty(CACHED)

    def work():
        for array in arrays:
            flat = array.reshape(-1)
            for start in range(0, flat.size, CACHED):
                part = flat[start : start + CACHED]
                function(part, out=out[: part.size])

    return work


def product(rows, inner, columns, dtype=np.float64):
    """One product of two matrices."""
    left, right = np.ones((rows, inner), dtype), np.ones((inner, columns), dtype)
    out = np.empty((rows, columns), dtype)
    return lambda: np.matmul(left, right, out=out)


def gram(features):
    """The products of all columns with each other: half of a product of matrices, by symmetry."""
    from scipy.linalg import blas

    syrk = blas.ssyrk if features.dtype == np.float32 else blas.dsyrk
    return lambda: syrk(1.0, features.T)


def whitened(rows, width):
    """Rows times a triangular matrix: half of a product of matrices."""
    from scipy.linalg import blas

    matrix, columns = np.tri(width).T, np.ones((rows, width)).T
    return lambda: blas.dtrmm(1.0, matrix, columns, trans_a=1)


def several(*works):
    """One piece of work after the other."""
    return lambda: [work() for work in works]


def passes(network, inputs, batch=500):
    """Through the network once, batch by batch, by torch alone."""
    from uqhelpers._torch import torch

    batches = torch.as_tensor(inputs).split(batch)

    def work():
        with torch.inference_mode():
            for part in batches:
                network(part)

    return work


def passes_and_back(network, inputs, batch=500):
    """Through the network once and back to the inputs, batch by batch, by torch alone."""
    from uqhelpers._torch import torch

    batches = torch.as_tensor(inputs).split(batch)

    def work():
        for part in batches:
            part = part.detach().requires_grad_()
            torch.autograd.grad(network(part).sum(), part)

    return work
