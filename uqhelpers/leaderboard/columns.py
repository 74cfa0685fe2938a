"""The questions of the table: what is computed from a method's answers, and how sure the figure is."""

import dataclasses

import numpy as np

from uqhelpers import conformal, metrics
from uqhelpers.leaderboard.disentanglement import forced_correlation, rank_correlation

__all__ = ["COLUMNS", "Column", "judge"]

RESAMPLES = 40
RESAMPLING_SEED = 7  # one for all methods: figures of two of them can be compared draw by draw
CONTESTED = 0.6  # nats: blends with shares between .29 and .71
PROMISE = 0.98  # of the sets: a classifier that is right more often than 90 % keeps 90 % with empty ones


@dataclasses.dataclass(frozen=True)
class Column:
    """A question that every method is asked.

    Attributes
    ----------
    name, title : str
        As the code calls it, and as the table does.
    best : {"max", "min", None}
        Which end is the better one.
    form : str
        How its numbers are written.
    units : str
    """

    name: str
    title: str
    best: str | None = "min"
    form: str = ".3f"
    units: str = ""


COLUMNS = {
    column.name: column
    for column in [
        Column("accuracy", "accuracy", "max", ".3f"),
        Column("nll", "NLL", units="nats"),
        Column("brier", "Brier"),
        Column("ece", "ECE"),
        Column("gap", "signed gap", None, "+.3f"),
        Column("augrc", "AUGRC", form=".4f"),
        Column("aurc", "AURC", form=".4f"),
        Column("errors", "errors found", "max", units="AUROC"),
        Column("near", "near found", "max", units="AUROC"),
        Column("far", "far found", "max", units="AUROC"),
        *(Column(f"accuracy_{s}", f"accuracy, severity {s}", "max") for s in range(1, 6)),
        *(Column(f"nll_{s}", f"NLL, severity {s}", units="nats") for s in range(1, 6)),
        *(Column(f"gap_{s}", f"gap, severity {s}", None, "+.3f") for s in range(1, 6)),
        Column("known_doubt", "aleatoric with the known entropy", "max", units="rank correlation"),
        Column("stray_doubt", "epistemic with the known entropy", None, units="rank correlation"),
        Column("set_size", "set size", units="classes"),
        Column("coverage", "coverage", None),
        Column("together", "aleatoric with epistemic", None, units="rank correlation"),
        Column("forced", "what the totals force", None, units="rank correlation"),
        *(
            Column(f"{what}_by_{part}", f"{what} found by {part}", "max", units="AUROC")
            for what in ("errors", "near", "blends")
            for part in ("total", "aleatoric", "epistemic")
        ),
        Column("mean_aleatoric", "mean aleatoric", None, units="nats"),
        Column("mean_epistemic", "mean epistemic", None),
        Column("scarcity", "epistemic with scarcity", "max", units="rank correlation"),
        Column("stray_scarcity", "aleatoric with scarcity", None, units="rank correlation"),
        Column("fit_cost", "training", form=".1f", units="networks"),
        Column("predict_cost", "prediction", form=".1f", units="passes"),
        Column("kept", "memory", form=".1f", units="networks"),
    ]
}
"""All columns by name, in the order of the table.

:meta hide-value:
"""


def judge(answer, world, places, resamples=RESAMPLES):
    """Every figure of an answer to all of a world's questions.

    Parameters
    ----------
    answer : Answer
        To ``world.questions()``, checked.
    world : World
    places : dict of slice
        Which rows belong to which question.
    resamples : int
        How many times the inputs are drawn with replacement.

    Returns
    -------
    figures : dict of float
        By column. NaN where the method has no such part.
    resampled : dict of list of float
        The same from resampled inputs, for those columns that are averages or
        rankings over test inputs. All methods meet the same draws, in which
        damaged copies go with their image.
    """
    parts = {name: answer[rows] for name, rows in places.items()}
    figures = _of_inputs(parts, world, np.arange(len(world.test)))
    figures |= _of_the_split(parts["test"], world)
    rng = np.random.default_rng(RESAMPLING_SEED)
    draws = [
        _of_inputs(parts, world, rng.integers(len(world.test), size=len(world.test)))
        for _ in range(resamples)
    ]
    return figures, {name: [draw[name] for draw in draws] for name in (draws[0] if draws else {})}


def _of_inputs(parts, world, rows):
    """What can be computed from some of the test images, and of what goes with them."""
    test, labels = parts["test"][rows], world.test.labels[rows]
    wrong = test.probs.argmax(axis=1) != labels
    figures = {
        "accuracy": metrics.accuracy(test.probs, labels),
        "nll": _log_loss(test.probs, labels),
        "brier": metrics.brier_score(test.probs, labels),
        "ece": metrics.expected_calibration_error(test.probs, labels),
        "gap": metrics.calibration_gap(test.probs, labels),
        "augrc": metrics.augrc(test.doubt, wrong),
        "aurc": metrics.aurc(test.doubt, wrong),
        "errors": _area(test.doubt[~wrong], test.doubt[wrong]),
    }
    near, far, blended = (parts[name][rows] for name in ("near", "far", "blended"))
    figures["near"] = _area(test.strangeness, near.strangeness)
    figures["far"] = _area(test.strangeness, far.strangeness)
    count = len(world.test)
    for severity in range(5):
        damaged = parts["corrupted"][severity * count + rows]
        figures[f"accuracy_{severity + 1}"] = metrics.accuracy(damaged.probs, labels)
        figures[f"nll_{severity + 1}"] = _log_loss(damaged.probs, labels)
        figures[f"gap_{severity + 1}"] = metrics.calibration_gap(damaged.probs, labels)
    figures["known_doubt"] = rank_correlation(_aleatoric(blended), world.entropy[rows])
    figures["stray_doubt"] = rank_correlation(_epistemic(blended), world.entropy[rows])
    sets = conformal.SplitClassifier(alpha=1 - PROMISE)
    sets = sets.fit(parts["validation"].probs, world.validation.labels).predict(test.probs)
    figures["set_size"] = float(conformal.set_sizes(sets).mean())
    figures["coverage"] = float(conformal.covered(sets, labels).mean())
    figures["scarcity"] = rank_correlation(_epistemic(test), -world.examples[rows])
    figures["stray_scarcity"] = rank_correlation(_aleatoric(test), -world.examples[rows])
    figures |= _by_parts(test, near, blended[world.entropy[rows] > CONTESTED], wrong)
    return {name: float(value) for name, value in figures.items()}


def _by_parts(test, near, contested, wrong):
    """Three things to find, by the total doubt and by each of its parts: which part is for which?"""
    figures = {}
    for part in ("total", "aleatoric", "epistemic"):
        known, strange, mixed = (getattr(answer, part) for answer in (test, near, contested))
        there = test.splits
        figures[f"errors_by_{part}"] = _area(known[~wrong], known[wrong]) if there else np.nan
        figures[f"near_by_{part}"] = _area(known, strange) if there else np.nan
        figures[f"blends_by_{part}"] = _area(known, mixed) if there else np.nan
    return figures


def _of_the_split(test, world):
    """What only a method that tells two kinds apart can be asked."""
    names = ("together", "forced", "mean_aleatoric", "mean_epistemic")
    if not test.splits:
        return dict.fromkeys(names, float("nan"))
    return {
        "together": rank_correlation(test.aleatoric, test.epistemic),
        "forced": forced_correlation(test.total, test.members).mean(),
        "mean_aleatoric": float(test.aleatoric.mean()),
        "mean_epistemic": float(test.epistemic.mean()),
    }


def _aleatoric(answer):
    return answer.total if answer.aleatoric is None else answer.aleatoric


def _epistemic(answer):
    return answer.strangeness if answer.epistemic is None else answer.epistemic


def _log_loss(probs, labels):
    """The log loss with no probability below 1e-12: one zero must not make a column infinite."""
    return metrics.negative_log_likelihood((probs + 1e-12) / (probs + 1e-12).sum(1, keepdims=True), labels)


def _area(known, unknown):
    """AUROC; one half, without a word, where there is nothing to find."""
    if not len(known) or not len(unknown):
        return 0.5
    return metrics.auroc(np.concatenate([known, unknown]), np.arange(len(known) + len(unknown)) >= len(known))
