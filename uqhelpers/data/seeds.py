"""The seeds of what a chapter trains: one line in its setup cell, moved from outside."""

import os

from uqhelpers._checks import as_whole

__all__ = ["seeds"]

APART = 1000  # as many seeds lie between two sets, so that they share none


def seeds(count):
    """The seeds of what is trained or drawn ``count`` times: 0, 1, 2 ... or another set.

    A claim holds for every training run, or it is none. The environment
    variable ``UQ_SEEDS`` moves all of a chapter's runs to other seeds at once:
    ``UQ_SEEDS=2`` starts at 2000. Sets have no seed in common.

    Parameters
    ----------
    count : int
        How many, 1 to 1000.

    Returns
    -------
    range
        ``count`` seeds in a row.

    Raises
    ------
    ValueError
        If ``count`` is none of 1 to 1000, or ``UQ_SEEDS`` is no whole number of
        at least 0.

    Examples
    --------
    >>> seeds(5)
    range(0, 5)
    """
    count = as_whole(count, "count", low=1, high=APART)
    wanted = os.environ.get("UQ_SEEDS") or "0"
    if not (wanted.isascii() and wanted.isdigit()):
        raise ValueError(f"UQ_SEEDS: expected a whole number of at least 0, got {wanted!r}")
    first = APART * int(wanted)
    return range(first, first + count)
