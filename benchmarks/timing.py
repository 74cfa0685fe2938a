"""Time two ways of doing the same thing in one run."""

import importlib.util
import time


def best_of(function, repeats):
    """Shortest of several times, in seconds: the one that was disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def row(name, ours, baseline, other, repeats, note):
    """One comparison; ``other`` is ``None`` where the baseline is not installed."""
    ours_s = best_of(ours, repeats)
    baseline_s = best_of(other, repeats) if other else None
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
