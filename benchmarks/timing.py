"""Time two ways of doing the same thing in one run, and the least that either has to do."""

import importlib.util
import time

from benchmarks.limits import beside


def seconds(function):
    """What one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def best_of(function, repeats):
    """Shortest of several times, in seconds: the one that was disturbed least."""
    return min(seconds(function) for _ in range(repeats))


def in_turn(functions, repeats, ours=()):
    """Shortest time of each function, in seconds, when they run one after the other again and again.

    ``ours`` names those of them, from the first on, that are ours, and ``None`` in
    between: what compares two versions of the package runs these alone.
    """
    times = [[seconds(function) for function in functions] for _ in range(repeats)]
    return [min(column) for column in zip(*times, strict=True)]


def row(name, ours, baseline, other, repeats, note, limit):
    """One comparison, in turns, so that a slow minute of the machine meets all three.

    ``other`` is ``None`` where the baseline is not installed; ``limit`` is a
    :class:`benchmarks.limits.Limit`.
    """
    ours_s, limit_s, *theirs = in_turn([ours, limit.work, *([other] if other else [])], repeats)
    baseline_s = theirs[0] if theirs else None
    entry = {
        "name": name,
        "ours_s": ours_s,
        "baseline": baseline,
        "baseline_s": baseline_s,
        "ratio": ours_s / baseline_s if other else None,
        "note": note if other or not baseline else f"{note}; baseline not installed",
    }
    return beside(entry, limit, limit.times * limit_s)


def installed(module):
    """Whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None
