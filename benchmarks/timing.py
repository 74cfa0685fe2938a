"""Time two ways of doing the same thing in one run."""

import importlib.util
import time


def seconds(function):
    """What one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def best_of(function, repeats):
    """Shortest of several times, in seconds: the one that was disturbed least."""
    return min(seconds(function) for _ in range(repeats))


def row(name, ours, baseline, other, repeats, note):
    """One comparison, in turns, so that a slow minute of the machine meets both.

    ``other`` is ``None`` where the baseline is not installed.
    """
    times = [(seconds(ours), seconds(other) if other else None) for _ in range(repeats)]
    ours_s = min(own for own, _ in times)
    baseline_s = min(theirs for _, theirs in times) if other else None
    return {
        "name": name,
        "ours_s": ours_s,
        "baseline": baseline,
        "baseline_s": baseline_s,
        "ratio": ours_s / baseline_s if other else None,
        "note": note if other else f"{note}; baseline not installed",
    }


def installed(module):
    """Whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None
