"""The leaderboard's stored table: all methods, worlds and seeds; and the table of regression.

What has been computed is kept in ``_build/leaderboard``: an interrupted run goes
on where it stopped. The table goes into the package, where the chapter reads it.
"""

import json

import numpy as np

from benchmarks.provenance import ROOT, replace, surroundings
from benchmarks.tables import markdown, spread
from uqhelpers import leaderboard
from uqhelpers.leaderboard import regression

SEEDS, FEW = range(5), range(3)
PARTED = tuple(name for name, method in leaderboard.METHODS.items() if method.parts)
PARTS = {  # by world: which methods, and from which seeds
    "standard": (tuple(leaderboard.METHODS), SEEDS),
    "uneven": ((*PARTED, "entropy", "mahalanobis", "neighbours"), SEEDS),
    **dict.fromkeys(("noise 20 %", "noise 40 %", "half the data", "an eighth"), (PARTED, FEW)),
}
NAME = "reproduce_leaderboard"
STORED = ROOT / "uqhelpers" / "leaderboard" / "stored" / "digits.json"
GROUPS = {
    "Probabilities": ("accuracy", "nll", "brier", "ece", "gap", "set_size", "coverage"),
    "What is found": ("errors", "augrc", "aurc", "near", "far", "known_doubt", "scarcity"),
    "Damaged images": ("nll_1", "nll_2", "nll_3", "nll_4", "nll_5", "accuracy_3", "gap_5"),
    "Costs": ("fit_cost", "predict_cost", "kept"),
    "Two kinds of uncertainty": ("together", "forced", "stray_doubt", "stray_scarcity"),
}


def computed(progress=True):
    """The whole table: what is missing is computed."""
    runs = []
    for world, (methods, seeds) in PARTS.items():
        runs += leaderboard.run(
            methods,
            seeds,
            (world,),
            folder=ROOT / "_build" / "leaderboard",
            edition="digits",
            progress=progress,
        )
    return leaderboard.gather(runs)


def reproduce(progress=True):
    """The content for JSON, the same as Markdown, and the seeds."""
    board = computed(progress)
    replace(STORED, board.as_json(**surroundings(NAME)) + "\n")
    blocks = [
        "# The leaderboard\n",
        "Digits edition: 900 digits and 450 blends to train on, 297 digits to choose settings by, 600 to "
        "judge by; one network of two hidden layers of 128 units. Mean ± standard deviation of five seeds.",
    ]
    content, tables = figures(board)
    blocks += tables
    found = regression.run(seeds=SEEDS)
    blocks.append(f"## Regression\n\n{regression.markdown(found)}")
    content["regression"] = {
        task: {m: {c: np.round(v, 5).tolist() for c, v in row.items()} for m, row in rows.items()}
        for task, rows in found.items()
    }
    return json.loads(json.dumps(content).replace("NaN", "null")), "\n\n".join(blocks), SEEDS


def figures(board, groups=None):
    """All figures of a table for JSON, by method and column, and the same as Markdown, a table a group."""
    content, blocks = {}, []
    for group, columns in (groups or GROUPS).items():
        rows = []
        for name in leaderboard.METHODS:
            cells = [_values(board, name, column) for column in columns]
            if all(values is None for values in cells):
                continue
            content.setdefault(name, {}).update(
                {
                    c: None if v is None else [round(float(x), 5) for x in v]
                    for c, v in zip(columns, cells, strict=True)
                }
            )
            rows.append([board.title(name), *("–" if v is None else spread(v) for v in cells)])
        head = ["method", *(leaderboard.COLUMNS[column].title for column in columns)]
        blocks.append(f"## {group}\n\n{markdown(head, rows, numbers=True)}")
    return content, blocks


def _values(board, name, column):
    """One entry of the table; the column of scarcity is that of the uneven world."""
    world = "uneven" if column.endswith("scarcity") else "standard"
    return board.column(column, world).get(name)
