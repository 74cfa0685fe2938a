"""Runs gathered into one table: in memory, in the package's stored files, and as text."""

import dataclasses
import json
from importlib import resources

import numpy as np

from uqhelpers._checks import as_choice
from uqhelpers.leaderboard.columns import COLUMNS
from uqhelpers.leaderboard.comparison import agreement, difference, ranks
from uqhelpers.leaderboard.methods import METHODS

__all__ = ["STORED", "Board", "further", "gather", "stored"]

STORED = ("digits", "mnist")
"""The editions whose tables come with the package."""


@dataclasses.dataclass(frozen=True, eq=False)
class Board:
    """A table: figures of methods by world, column and seed.

    Attributes
    ----------
    figures : dict
        ``figures[world][method][column]`` is an array, one entry a seed.
    resampled : dict
        Likewise, one entry a resampling of the inputs, averaged over seeds.
    seeds : dict of list of int
        By world.
    provenance : dict
        Where the figures come from: code, machine, versions, day. Empty for
        what was computed here.
    """

    figures: dict
    resampled: dict
    seeds: dict
    provenance: dict

    def column(self, name, world="standard"):
        """One column: an array over seeds for each method that has it."""
        as_choice(name, "name", tuple(COLUMNS))
        as_choice(world, "world", tuple(self.figures))
        found = {method: row[name] for method, row in self.figures[world].items() if name in row}
        return {method: values for method, values in found.items() if np.isfinite(values).all()}

    def title(self, method):
        """What the table calls a method."""
        return METHODS[method].title if method in METHODS else method

    def ranks(self, column, methods=None):
        """Ranks of the methods that have a column, or of some of them: :func:`ranks`."""
        best = COLUMNS[column].best
        if best is None:
            raise ValueError(f"column: expected one with a better end, got {column!r}, which has none")
        values = self.column(column)
        chosen = values if methods is None else {name: values[name] for name in methods}
        return ranks(chosen, best)

    def difference(self, column, first, second, level=0.95):
        """Mean difference of two methods in a column, with its interval: :func:`difference`."""
        values, drawn = self.column(column), self.resampled["standard"]
        for name in (first, second):
            as_choice(name, "method", tuple(values))
        pair = [drawn[name].get(column) for name in (first, second)]
        if any(part is None for part in pair):
            raise ValueError(f"column: expected one that was resampled, got {column!r}")
        return difference(values[first], values[second], *pair, level=level)

    def agreement(self, column, other, level=0.95):
        """How far another table orders the methods alike in a column: :func:`agreement`.

        Of methods that have the same figures in both tables (readings of one
        network, in a column of its probabilities) the first one counts.

        Parameters
        ----------
        column : str
        other : Board
        level : float

        Returns
        -------
        correlation, low, high : float
        methods : int
            How many were ranked.
        """
        pair = [self.column(column), other.column(column)]
        drawn = [board.resampled["standard"] for board in (self, other)]
        kept = {}
        for name in pair[0]:
            if name in pair[1] and all(column in rows[name] for rows in drawn):
                kept.setdefault(tuple(pair[0][name]) + tuple(pair[1][name]), name)
        figures = [np.array([values[name] for name in kept.values()]) for values in pair]
        resampled = [np.array([rows[name][column] for name in kept.values()]) for rows in drawn]
        return (*agreement(*figures, *resampled, level=level), len(kept))

    def with_runs(self, runs):
        """The same table with further rows, of the same seeds or of others."""
        extra = gather(runs)
        return Board(
            {world: {**rows, **extra.figures.get(world, {})} for world, rows in self.figures.items()},
            {world: {**rows, **extra.resampled.get(world, {})} for world, rows in self.resampled.items()},
            self.seeds,
            self.provenance,
        )

    def markdown(self, columns=None, methods=None, world="standard"):
        """The table as Markdown: means, and ± the standard deviation over seeds."""
        columns = [name for name in (columns or COLUMNS) if self.column(name, world)]
        rows = self.figures[world] if methods is None else {m: self.figures[world][m] for m in methods}
        lines = ["| method | " + " | ".join(COLUMNS[c].title for c in columns) + " |"]
        lines.append("| --- |" + " --: |" * len(columns))
        for name, row in rows.items():
            cells = [_cell(row.get(c), COLUMNS[c].form) for c in columns]
            lines.append(f"| {self.title(name)} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def as_json(self, **provenance):
        """What :func:`stored` reads, with four digits; resampled are the standard world's columns alone."""
        drawn = {
            name: {c: v for c, v in row.items() if COLUMNS[c].best and not c.startswith("accuracy_")}
            for name, row in self.resampled["standard"].items()
        }
        return json.dumps(
            {
                "seeds": self.seeds,
                "figures": _plain(self.figures),
                "resampled": {"standard": _plain({"standard": drawn})["standard"]},
                "provenance": provenance,
            },
        )


def gather(runs):
    """A table of runs.

    Parameters
    ----------
    runs : sequence of Run

    Returns
    -------
    Board
    """
    runs = list(runs)
    figures, resampled, seeds = {}, {}, {}
    for each in runs:
        seeds.setdefault(each.world, [])
        if each.seed not in seeds[each.world]:
            seeds[each.world].append(each.seed)
        row = figures.setdefault(each.world, {}).setdefault(each.method, {})
        drawn = resampled.setdefault(each.world, {}).setdefault(each.method, {})
        for name, value in each.figures.items():
            row.setdefault(name, []).append(value)
        for name, values in each.resampled.items():
            drawn.setdefault(name, []).append(values)
    return Board(_arrays(figures), _arrays(resampled, over_seeds=True), seeds, {})


def stored(edition="digits"):
    """A table that comes with the package.

    Parameters
    ----------
    edition : {"digits", "mnist"}

    Returns
    -------
    Board
        With its provenance: code, machine, versions, day.
    """
    content = read(as_choice(edition, "edition", STORED))
    return Board(
        _arrays(content["figures"]), _arrays(content["resampled"]), content["seeds"], content["provenance"]
    )


def further():
    """What other runs have to say about rows of the table.

    Returns
    -------
    columns : dict
        By name, a column that another chapter has measured, with other networks:
        ``title``, ``units``, ``best``, ``source`` (a heading of the page of
        measurements), and ``values``, an array over seeds for each method that
        has one.
    fixed : dict
        ``fixed[world][method]``: ``mean_aleatoric`` and ``mean_epistemic`` of
        the test digits, arrays over seeds, where settings and the number of steps
        are those of the standard world.
    """
    content = read("further")
    columns = {
        name: {**column, "values": {m: np.array(v) for m, v in column["values"].items()}}
        for name, column in content["columns"].items()
    }
    return columns, _arrays(content["fixed"])


def read(name):
    """The content of one of the package's stored files."""
    text = (resources.files("uqhelpers.leaderboard") / "stored" / f"{name}.json").read_text("utf-8")
    return json.loads(text)


def _arrays(tree, over_seeds=False):
    def leaf(values):
        array = np.array([np.nan if v is None else v for v in values] if not over_seeds else values, float)
        return array.mean(axis=0) if over_seeds else array

    return {
        world: {m: {c: leaf(v) for c, v in row.items()} for m, row in rows.items()}
        for world, rows in tree.items()
    }


def _plain(tree):
    def number(value):
        return float(f"{value:.4g}") if np.isfinite(value) else None

    return {
        world: {
            m: {c: [number(x) for x in v] for c, v in row.items() if np.isfinite(v).any()}
            for m, row in rows.items()
        }
        for world, rows in tree.items()
    }


def _cell(values, form):
    if values is None or not np.isfinite(values).all():
        return "–"
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{values.mean():{form}} ± {values.std(ddof=1):{form.lstrip('+')}}"
