"""Parts of the inputs: who they are, and how far each stands out when all are looked at."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import _is_masked
from uqhelpers.report.card import Subgroup

MOST = 500  # subgroups; nobody reads more
DRAWS = 2000
AT_ONCE = 2_000_000  # numbers drawn at a time
IN_ALL = 20_000_000  # numbers drawn


@dataclass(frozen=True, eq=False)
class Grouping:
    """One way of parting the inputs: the names of its subgroups, and where each input belongs."""

    names: list
    place: np.ndarray

    @property
    def counts(self):
        return np.bincount(self.place, minlength=len(self.names))


def as_groupings(groups, length):
    """Groupings from an array, or from a dict of arrays by name."""
    if groups is None:
        return []
    named = groups if isinstance(groups, Mapping) else {"group": groups}
    if not named:
        raise ValueError("groups: expected at least one grouping, got an empty dict")
    found = []
    for name, values in named.items():
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"groups: expected names of groupings as keys, got {name!r}")
        where = f"groups[{name!r}]" if isinstance(groups, Mapping) else "groups"
        found.append(_as_grouping(name, values, where, length))
    total = sum(len(grouping.names) for grouping in found)
    if total > MOST:
        raise ValueError(f"groups: expected at most {MOST} subgroups, got {total}: join small ones first")
    return found


def _as_grouping(name, values, where, length):
    array = _plain(values, where)
    if array.shape != (length,):
        raise ValueError(f"{where}: expected {length} values, one an input, got shape {array.shape}")
    kinds, place = np.unique(array, return_inverse=True)
    if len(kinds) < 2:
        raise ValueError(
            f"{where}: expected at least two subgroups, got one ({_word(kinds[0])} for every input): the "
            "others are empty"
        )
    words = [_word(kind) for kind in kinds]
    if len(set(words)) < len(words) or not all(word.strip() for word in words):
        raise ValueError(f"{where}: expected subgroups that can be told apart by name, got {words[:6]}")
    return Grouping([f"{name}: {word}" for word in words], place)


def _plain(values, where):
    """Booleans, numbers or text, one an input; nothing missing."""
    if _is_masked(values):
        raise ValueError(f"{where}: expected an array without a mask, got a masked array")
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{where}: expected a vector, got rows of different lengths") from error
    if array.dtype.kind in "OT":
        if any(map(_is_missing, array.ravel())):
            raise ValueError(f"{where}: expected a value for every input, got some that are missing")
        array = array.astype(str)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"{where}: expected numbers, booleans or text, got type {array.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{where}: expected a value for every input, got NaN or infinity")
    return array


def _is_missing(value):
    """None, NaN, and pandas' NA and NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _word(value):
    if isinstance(value, np.bool_):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, np.floating) else str(value)


def judged(groupings, wrong, seed):
    """Every subgroup with what was wrong in it and a p-value adjusted for looking at all of them.

    The same number of wrong inputs is drawn at random again and again, which
    keeps who belongs to which subgroups; each draw's most unusual subgroup is
    what a subgroup's own distance is compared with (single-step maxT).

    References
    ----------
    Westfall and Young (1993), Resampling-based multiple testing.
    """
    if not groupings:
        return []
    names = [name for grouping in groupings for name in grouping.names]
    counts = np.concatenate([grouping.counts for grouping in groupings])
    seen = np.concatenate([
        np.bincount(grouping.place, weights=wrong, minlength=len(grouping.names)) for grouping in groupings
    ])  # fmt: skip
    total, mistakes = len(wrong), int(wrong.sum())
    rate = mistakes / total
    variance = counts * rate * (1 - rate) * (total - counts) / max(total - 1, 1)
    scale = np.sqrt(np.where(variance > 0, variance, np.inf))
    own = np.abs(seen - counts * rate) / scale
    most = np.concatenate([
        np.abs(part - counts * rate).__truediv__(scale).max(axis=1)
        for part in _drawn(groupings, mistakes, seed)
    ])  # fmt: skip
    reached = (most[:, None] >= own * (1 - 1e-9)).sum(axis=0)
    p_values = (reached + 1) / (len(most) + 1)
    return [
        Subgroup(name, int(count), int(hits), float(p_value))
        for name, count, hits, p_value in zip(names, counts, seen, p_values, strict=True)
    ]


def crossings(groupings):
    """Where groupings cross: an input of each crossing, and the crossing of each input."""
    place = np.zeros(len(groupings[0].place), np.int64)
    for grouping in groupings:
        together = place * len(grouping.names) + grouping.place
        _, first, place = np.unique(together, return_index=True, return_inverse=True)
    return first, place


def _drawn(groupings, mistakes, seed):
    """Wrong inputs in each subgroup when they fall anywhere, shape (draws, subgroups), in parts."""
    first, place = crossings(groupings)
    sizes = np.bincount(place)
    rng = np.random.default_rng(seed)
    draws = min(DRAWS, max(100, IN_ALL // len(sizes)))
    step = max(1, AT_ONCE // len(sizes))
    members = np.concatenate(
        [np.eye(len(grouping.names))[grouping.place[first]] for grouping in groupings], axis=1
    )
    for start in range(0, draws, step):
        size = min(step, draws - start)
        yield rng.multivariate_hypergeometric(sizes, mistakes, size=size, method="marginals") @ members
