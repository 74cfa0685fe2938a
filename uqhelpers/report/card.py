"""The card itself: its numbers as plain data, and the page that shows them."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Card", "Number", "Subgroup"]


def described(kind):
    """A named tuple whose docstring describes its fields: "alias for field number 0" says nothing."""
    for field in kind._fields:
        getattr(kind, field).__doc__ = None
    return kind


@described
class Number(NamedTuple):
    """A figure with its interval.

    Attributes
    ----------
    value : float
    low, high : float or None
        Ends of the interval; ``None`` where there is none.
    """

    value: float
    low: float | None = None
    high: float | None = None


@described
class Subgroup(NamedTuple):
    """One part of the inputs, and how far it stands out.

    Attributes
    ----------
    name : str
        ``"age: 40 to 50"``: the grouping and its value.
    count : int
        How many inputs there are.
    wrong : int
        How many of them were wrong (in regression: fell outside their intervals, or,
        without intervals, are among the tenth with the largest errors).
    p_value : float
        How often the most unusual of *all* subgroups would stand out at least as
        far if being wrong had nothing to do with them.
    """

    name: str
    count: int
    wrong: int
    p_value: float


@dataclass(frozen=True, eq=False)
class Card:
    """A model card; made by :func:`classification` and :func:`regression`.

    In a notebook it shows itself as the last line of a cell.

    Parameters
    ----------
    title : str
        What the card is of.
    numbers : dict of str to Number
        Every figure by its name, with its interval.
    subgroups : list of Subgroup
        In the order in which they were given.
    limits : list of str
        The sentences of "what these numbers may not be used for".
    missing : list of str
        Which of the sections that only a person can write nobody has written.
    html : str
        The whole page.
    fragment : str
        The same without the page around it, to be put into another.
    """

    title: str
    numbers: dict
    subgroups: list
    limits: list
    missing: list
    html: str
    fragment: str

    def save(self, path):
        """Write the page; a file that is there is replaced at once or stays as it was.

        Parameters
        ----------
        path : str or Path
            Where to; missing folders are made.

        Returns
        -------
        Path

        Raises
        ------
        ValueError
            If ``path`` is a folder, or no path at all.
        """
        if not isinstance(path, str | os.PathLike) or not str(path):
            raise ValueError(f"path: expected a path, got {path!r}")
        path = Path(path)
        if path.is_dir():
            raise ValueError(f"path: expected the name of a file, got the folder {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".card-", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.html)
            os.chmod(part, 0o666 & ~_umask())
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
        return path

    def _repr_html_(self):
        return self.fragment

    def __repr__(self):
        return f"<Card {self.title!r}: {len(self.numbers)} numbers, {len(self.missing)} sections missing>"


def _umask():
    """What the process takes away from the permissions of new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
