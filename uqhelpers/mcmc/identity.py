"""Below ``mcmc``: what a call computes, as hashes, so that a checkpoint knows the call it is of."""

import hashlib
import re

import jax
import numpy as np

ADDRESS = re.compile(r"0x[0-9a-f]+")  # of an object in memory: another one in every process


def of_function(function, *arguments):
    """A hash of the operations and constants of a function, as JAX traces it on arguments of these shapes.

    What happens outside of JAX (in a callback) is not seen.
    """
    traced = jax.make_jaxpr(function)(*arguments)
    total = hashlib.sha256(ADDRESS.sub("", str(traced)).encode())
    for value in _constants(traced):
        total.update(_bytes(value))
    return total.hexdigest()[:16]


def of_arrays(arrays):
    """A hash of numbers, their shapes and types."""
    total = hashlib.sha256()
    for array in jax.tree.leaves(arrays):
        total.update(_bytes(array))
    return total.hexdigest()[:16]


def _bytes(value):
    array = np.ascontiguousarray(value)
    return f"{array.dtype} {array.shape}".encode() + array.tobytes()


def _constants(traced):
    """Numbers that stand inside a traced function: the text of it shortens arrays."""
    if hasattr(traced, "consts"):
        yield from traced.consts
        traced = traced.jaxpr
    for equation in traced.eqns:
        yield from (place.val for place in equation.invars if hasattr(place, "val"))
        for part in jax.tree.leaves(equation.params, is_leaf=_is_traced):
            if _is_traced(part):
                yield from _constants(part)


def _is_traced(part):
    return hasattr(part, "eqns") or hasattr(part, "consts")
