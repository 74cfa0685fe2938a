"""The stored results as figures that can be held against each other: by table, row and column.

What the guide of the book says is read from here when a page is built: nothing
of it is typed. A difference comes with a 95 % interval over what was drawn
again: in the leaderboard seeds and inputs, elsewhere the seeds alone.
"""

import functools
import json
from dataclasses import dataclass, field

import numpy as np

from tools.book import ROOT
from uqhelpers import leaderboard

RESULTS = ROOT / "benchmarks" / "results"
BETTER, WORSE, UNTOLD = "better", "worse", "untold"


@dataclass(frozen=True)
class Column:
    """What a column of a table is called, which end is better, and how its numbers are written."""

    title: str
    best: str | None = "max"
    form: str = ".3f"
    units: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """One stored table.

    Attributes
    ----------
    title : str
        What it was measured on.
    place : str
        Where a reader finds it, below ``book/``.
    columns : dict of Column
    rows : dict of dict of array
        ``rows[row][column]``: one figure a seed.
    titles : dict of str
        What the page calls a row, where that is another name.
    shared : set of str
        Rows whose runs share networks: no interval is made of them.
    """

    title: str
    place: str
    columns: dict
    rows: dict
    titles: dict = field(default_factory=dict)
    shared: frozenset = frozenset()


def read(name):
    """A file of stored results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


@functools.cache
def board():
    """The leaderboard, read once."""
    return leaderboard.stored()


def paths():
    """All files that figures are read from."""
    stems = ("first_seed", "laplace_and_vi", "confidnet", "ood", "conformal", "adversarial", "leaderboard")
    found = [RESULTS / f"reproduce_{stem}.json" for stem in (*stems, "active_learning_pools")]
    return [*found, ROOT / "uqhelpers/leaderboard/stored/digits.json"]


def _gathered(runs, rows_of):
    """``{row: {column: array over runs}}`` from a function that gives the rows of one run."""
    found = {}
    for run in runs:
        for row, figures in rows_of(run).items():
            for column, value in figures.items():
                if isinstance(value, int | float):
                    found.setdefault(row, {}).setdefault(column, []).append(float(value))
    return {row: {c: np.array(v) for c, v in figures.items()} for row, figures in found.items()}


def _board():
    rows = board().figures["standard"]
    columns = {
        name: Column(
            c.title, c.best, c.form, {"AUROC": "", "networks": "", "passes": ""}.get(c.units, c.units)
        )
        for name, c in leaderboard.COLUMNS.items()
    }
    titles = {name: method.title for name, method in leaderboard.METHODS.items()}
    return Table("digits", "synthesis/leaderboard.ipynb#the-table", columns, rows, titles)


def _mnist():
    runs = read("reproduce_first_seed")["runs"]
    names = {"one network", "MC-Dropout", "ensemble", "calibrated ensemble"}
    columns = {
        "nll": Column("NLL", "min", ".4f", "nats"),
        "ece": Column("ECE", "min", ".4f"),
        "accuracy": Column("accuracy", "max", ".4f"),
        "gap": Column("signed gap", None, "+.4f"),
    }
    rows = _gathered(runs, lambda run: {name: run[name] for name in names})
    return Table("MNIST, convolutions", "reference/measurements.md#mc-dropout", columns, rows)


def _lenet():
    runs = read("reproduce_laplace_and_vi")["runs"]
    columns = {
        "nll": Column("NLL", "min", ".4f", "nats"),
        "ece 10": Column("ECE", "min", ".4f"),
        "accuracy": Column("accuracy", "max", ".4f"),
        "fashion_mnist msp": Column("Fashion-MNIST found", "max"),
        "kmnist msp": Column("KMNIST found", "max"),
        "notmnist msp": Column("notMNIST found", "max"),
    }
    titles = {"laplace validation mc": "Laplace, sampled", "variational": "mean-field VI"}
    rows = _gathered(runs, lambda run: {n: f for part in run.values() for n, f in part["rows"].items()})
    place = "reference/measurements.md#laplace-and-variational-inference"
    return Table("MNIST, LeNet", place, columns, rows, titles)


def _mlp():
    runs = read("reproduce_confidnet")["runs"]["MLP"]
    columns = {
        "aupr_error": Column("AUPR of errors", "max"),
        "fpr95": Column("FPR95", "min"),
        "auroc": Column("errors found", "max"),
        "augrc": Column("AUGRC", "min", ".5f"),
    }
    titles = {
        "MCP": "max probability",
        "ConfidNet": "ConfidNet, dropout on in its training",
        "ConfidNet, dropout off": "ConfidNet, dropout off",
        "ConfidNet, held out": "ConfidNet on held-out images",
    }
    rows = _gathered(runs, lambda run: run["rows"])
    place = "reference/measurements.md#failure-prediction"
    return Table("MNIST, one hidden layer", place, columns, rows, titles, frozenset({"ensemble"}))


STRANGERS = {
    "fashion_mnist": "Fashion-MNIST",
    "kmnist": "KMNIST",
    "notmnist": "notMNIST",
    "letters": "letters",
}


def _ood():
    def rows_of(run):
        found = {}
        for key, figures in run["figures"].items():
            row, _, strange = key.rpartition(", ")
            found.setdefault(row, {})[strange] = figures["auroc"]
        return found

    columns = {name: Column(f"{title} found", "max") for name, title in STRANGERS.items()}
    titles = {
        "softmax": "max probability",
        "odin tuned": "ODIN, tuned",
        "odin": "ODIN, T = 1000, ε = .0014",
        "hot": "softmax, T = 1000",
        "mahalanobis": "Mahalanobis",
        "neighbours": "50th neighbour",
    }
    rows = _gathered(read("reproduce_ood")["runs"], rows_of)
    place = "reference/measurements.md#out-of-distribution-detection"
    return Table("MNIST, LeNet", place, columns, rows, titles, frozenset({"ensemble", "ensemble hot"}))


def _sets():
    columns = {
        "coverage": Column("coverage", None),
        "size": Column("digits in a set", "min"),
        "worst": Column("coverage of the worst digit", "max"),
        "empty": Column("empty sets", "min"),
    }
    titles = {}
    for level in ("0.1", "0.05", "0.01"):
        for name, title in (
            ("lac", "LAC"),
            ("lac by class", "LAC by class"),
            ("raps", "RAPS, randomised"),
            ("aps", "APS, randomised"),
            ("naive", "probabilities added up"),
        ):
            titles[f"{name}, {level}"] = f"{title}, α = {level}"
    titles |= {
        "lac, gaussian_noise, 5": "LAC, noise, severity 5",
        "raps, gaussian_noise, 5": "RAPS, noise, severity 5",
    }
    rows = _gathered(read("reproduce_conformal")["runs"], lambda run: {**run["clean"], **run["damaged"]})
    place = "reference/measurements.md#mnist-simplenet-conformal-sets"
    return Table("MNIST, convolutions", place, columns, rows, titles)


def _pools():
    loops = read("reproduce_active_learning_pools")["loops"]
    columns = {pool: Column(f"accuracy, {pool} pool", "max", ".1f", "points") for pool in loops}
    rows = {}
    for pool, strategies in loops.items():
        for strategy, runs in strategies.items():
            values = np.array([100 * np.mean(run["accuracy"][1:]) for run in runs])
            rows.setdefault(strategy, {})[pool] = values
    titles = {"bald": "BALD, the top ten", "batch_bald": "BatchBALD", "random": "random labels"}
    titles |= {"k_center": "k-center", "badge": "BADGE"}
    titles |= {"margin": "the margin of 30 masks", "margin_once": "the margin"}
    place = "reference/measurements.md#active-learning"
    return Table("digits, ten rounds of ten labels", place, columns, rows, titles)


def _attacked():
    columns = {}
    for epsilon in (0.1, 0.2):
        columns |= {
            f"accuracy {epsilon}": Column(f"accuracy at ε = {epsilon}", "max"),
            f"entropy {epsilon}": Column(f"entropy at ε = {epsilon}", None, ".3f", "nats"),
            f"sure and wrong {epsilon}": Column(f"sure and wrong at ε = {epsilon}", "min"),
        }

    def rows_of(run):
        found = {}
        for row, sweep in run["found"].items():
            for epsilon in (0.1, 0.2):
                at = int(np.argmin(np.abs(np.array(sweep["epsilons"]) - epsilon)))
                for name in ("accuracy", "entropy", "sure and wrong"):
                    found.setdefault(row, {})[f"{name} {epsilon}"] = sweep[name][at]
        return found

    titles = {
        "pgd, single": "one network, ten steps",
        "pgd, ensemble": "ensemble of 3, ten steps on one network",
        "pgd through, ensemble": "ensemble of 3, ten steps through its average",
        "pgd through, dropout": "MC-Dropout, ten steps through its average",
        "fgsm, single": "one network, one step",
        "pgd, laplace": "Laplace, ten steps on the network",
    }
    rows = _gathered(read("reproduce_adversarial")["runs"], rows_of)
    shared = frozenset(row for row in rows if row.endswith("ensemble"))
    place = "reference/measurements.md#adversarial-inputs"
    return Table("MNIST, convolutions", place, columns, rows, titles, shared)


def _regression(task, title):
    stored = read("reproduce_leaderboard")["regression"][task]
    columns = {
        "nll": Column("NLL", "min", ".3f", "nats"),
        "crps": Column("CRPS", "min"),
        "coverage": Column("coverage of 90 % intervals", None),
        "width": Column("their width", "min"),
        "coverage_gap": Column("coverage in the gap", None),
        "width_gap": Column("width in the gap", None),
    }
    rows = {
        row: {c: np.array(v, float) for c, v in figures.items() if None not in v}
        for row, figures in stored.items()
    }
    return Table(title, "reference/measurements.md#the-leaderboard", columns, rows)


TABLES = {
    "board": _board,
    "mnist": _mnist,
    "lenet": _lenet,
    "mlp": _mlp,
    "ood": _ood,
    "sets": _sets,
    "pools": _pools,
    "attacked": _attacked,
    "diabetes": lambda: _regression("diabetes", "442 patients"),
    "gap": lambda: _regression("gap", "a sine with a gap"),
}


@functools.cache
def table(name):
    """A stored table by its name."""
    if name not in TABLES:
        raise ValueError(f"table: expected one of {', '.join(TABLES)}, got {name!r}")
    return TABLES[name]()


def figure(name, row, column):
    """The figures of a row in a column, one a seed; a name that is not there is refused."""
    found = table(name)
    if row not in found.rows:
        raise ValueError(f"{name}: expected one of the rows {', '.join(found.rows)}, got {row!r}")
    if column not in found.columns or column not in found.rows[row]:
        raise ValueError(f"{name}, {row}: expected one of {', '.join(found.rows[row])}, got {column!r}")
    return found.rows[row][column]


def title(name, row):
    """What a page calls a row."""
    return table(name).titles.get(row, row)


def difference(name, row, rival, column):
    """Mean of the paired differences ``row - rival``, and half the width of its 95 % interval."""
    found = table(name)
    if {row, rival} & found.shared:
        raise ValueError(f"{name}: expected rows whose runs are independent, got {row!r} and {rival!r}")
    first, second = (figure(name, each, column) for each in (row, rival))
    if name != "board":
        return leaderboard.difference(first, second)
    drawn = board().resampled["standard"]
    return leaderboard.difference(first, second, drawn[row][column], drawn[rival][column])


def difference_of_parts(row, what, part, other):
    """The same of two readings of one row of the leaderboard: what is found by one part or by the other."""
    names = [f"{what}_by_{each}" for each in (part, other)]
    figures, drawn = (place["standard"][row] for place in (board().figures, board().resampled))
    return leaderboard.difference(*(figures[n] for n in names), *(drawn[n] for n in names))


def verdict(mean, half, best):
    """Whether a difference is surely one to the better, to the worse, or neither."""
    if best is None:
        raise ValueError("best: expected a column with a better end, got one that has none")
    if not abs(mean) > half:
        return UNTOLD
    return BETTER if (mean > 0) == (best == "max") else WORSE


def number(value, form):
    """A number as the book writes it: with a true minus."""
    text = format(float(value), form)
    return text.replace("-", "−") if float(text) else text.lstrip("+-")


def spread(values, form):
    """Mean and standard deviation over seeds; a single figure alone."""
    values = np.asarray(values, float)
    if len(values) == 1:
        return number(values[0], form)
    return f"{number(values.mean(), form)} ± {number(values.std(ddof=1), form.lstrip('+'))}"


def nobody_beats(name, row, column):
    """Whether no other row is surely better than ``row`` in a column (against each alone)."""
    best = table(name).columns[column].best
    rivals = [each for each in table(name).rows if each != row and column in table(name).rows[each]]
    return all(verdict(*difference(name, each, row, column), best) != BETTER for each in rivals)


def beats_all(name, row, column):
    """Whether ``row`` is surely better in a column than each other row that is no copy of it."""
    best, own = table(name).columns[column].best, figure(name, row, column)
    rivals = [each for each, figures in table(name).rows.items() if column in figures and each != row]
    rivals = [each for each in rivals if not np.array_equal(figure(name, each, column), own)]
    return all(verdict(*difference(name, row, each, column), best) == BETTER for each in rivals)


def keeps_both_promises():
    """The rows whose parts are each surely ahead of the other: one at letters, the other at blends."""
    parted = [name for name, method in leaderboard.METHODS.items() if method.parts]
    tasks = (("near", "epistemic", "aleatoric"), ("blends", "aleatoric", "epistemic"))
    return [
        name
        for name in parted
        if all(verdict(*difference_of_parts(name, *task), "max") == BETTER for task in tasks)
    ]


def answers_more_to_noise(row):
    """Whether noisier labels raised the epistemic part more than fewer data did, in every seed."""
    worlds = board().figures
    noise, few = (worlds[world][row]["mean_epistemic"] for world in ("noise 40 %", "an eighth"))
    return bool((noise > few).all())
