"""What decisions cost: the cheapest act for each input, and the probabilities at which it changes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from uqhelpers._checks import as_real
from uqhelpers.features import power_of_two
from uqhelpers.metrics._common import blocks
from uqhelpers.report.arguments import as_names
from uqhelpers.report.intervals import mean_of_few, share

EQUAL = 1e-12  # of the largest cost, or of a probability


@dataclass(frozen=True, eq=False)
class Bill:
    """What deciding by costs came to.

    Attributes
    ----------
    matrix : array, shape (A, C)
    acts : list of str
    chosen : array of int, shape (N,)
        The act of least expected cost.
    paid, habit : array, shape (N,)
        Its cost, and that of naming the likeliest class (``None`` where acts are no classes).
    single : int
        The act that would have been cheapest for all.
    spans : list of (int, float, float)
        Of two classes: each act that is cheapest somewhere, from which probability of
        class 1 to which.
    """

    matrix: np.ndarray
    acts: list
    chosen: np.ndarray
    paid: np.ndarray
    habit: np.ndarray | None
    single: int
    spans: list


class Unseen(NamedTuple):
    """An act that costs something if a class is the true one, and that no input of this class met.

    ``count`` inputs of the class there were; its act may be wrong on a share of
    them up to ``rate`` (Clopper-Pearson), which would add ``added`` to the mean cost.
    """

    act: int
    true: int
    count: int
    rate: float
    added: float


def as_bill(costs, acts, probs, labels, predicted, class_names):
    """The costs of deciding about every input; ``None`` without costs."""
    if costs is None:
        if acts is not None:
            raise ValueError("acts: expected none without costs, got names of acts")
        return None
    classes = len(class_names)
    matrix = as_real(costs, "costs", ndim=2)
    if matrix.shape[1] != classes or len(matrix) < 2:
        raise ValueError(
            f"costs: expected at least two rows, one an act, and {classes} columns, one a class, got shape "
            f"{matrix.shape}"
        )
    own = class_names if len(matrix) == classes else [f"act {number}" for number in range(len(matrix))]
    acts = as_names(acts, "acts", len(matrix), own)
    chosen = np.empty(len(probs), np.intp)
    for part in blocks(*probs.shape):
        chosen[part] = (probs[part].astype(np.float64) @ matrix.T).argmin(axis=1)
    habit = matrix[predicted, labels] if len(matrix) == classes else None
    frequency = np.bincount(labels, minlength=classes) / len(labels)
    spans = cheapest(matrix) if classes == 2 else []
    return Bill(
        matrix, acts, chosen, matrix[chosen, labels], habit, int((matrix @ frequency).argmin()), spans
    )


def cheapest(matrix):
    """Of two classes, the act of least expected cost along the probability of class 1.

    Expected costs are straight lines in that probability; the cheapest acts are
    their lower envelope, which bends where two of them cross.
    """
    matrix = matrix / power_of_two(np.abs(matrix).max())  # what counts as equal knows no unit
    start, slope = matrix[:, 0], matrix[:, 1] - matrix[:, 0]
    act, here, spans = int(np.lexsort((slope, start))[0]), 0.0, []
    while True:
        steeper = np.flatnonzero(slope < slope[act] - EQUAL)
        meets = (start[steeper] - start[act]) / (slope[act] - slope[steeper])
        inside = meets < 1 - EQUAL
        if not inside.any():
            return [*spans, (act, here, 1.0)]
        steeper, meets = steeper[inside], meets[inside]
        following = int(steeper[np.lexsort((slope[steeper], meets))[0]])
        there = float(meets.min())
        if there > here + EQUAL:
            spans.append((act, here, there))
        act, here = following, max(there, 0.0)


def figures(bill, labels, level):
    """The numbers of a bill by name."""
    possible = sorted(possible_acts(bill))
    found = {"cost": mean_of_few(bill.paid, bill.matrix[possible], level)}
    if bill.habit is not None:
        found["cost of the likeliest class"] = mean_of_few(bill.habit, bill.matrix, level)
        saved = [bill.matrix[named] - bill.matrix[act] for named, act in _both(bill, possible)]
        found["saving over the likeliest class"] = mean_of_few(bill.habit - bill.paid, saved, level)
    alone = bill.matrix[bill.single]
    found["cost of the best single act"] = mean_of_few(alone[labels], alone, level)
    return found


def met(bill, labels, class_names, level):
    """For each class the share of its inputs that got an act which is the cheapest for it."""
    best = bill.matrix[bill.chosen, labels] <= bill.matrix.min(axis=0)[labels] + _slack(bill)
    counts, hits = np.bincount(labels, minlength=len(class_names)), np.bincount(labels[best])
    hits = np.pad(hits, (0, len(class_names) - len(hits)))
    return {
        f"best act[{name}]": share(hit, count, level)
        for name, hit, count in zip(class_names, hits, counts, strict=True)
    }


def _slack(bill):
    return EQUAL * power_of_two(np.abs(bill.matrix).max())


def possible_acts(bill):
    """The acts that are the cheapest somewhere, those that were chosen among them."""
    cheap = {act for act, *_ in bill.spans}
    cheap = cheap or {act for act in range(len(bill.matrix)) if not _beaten(bill.matrix, act)}
    return cheap | set(np.unique(bill.chosen).tolist())


def _both(bill, possible):
    """The pairs of a likeliest class and a chosen act that one input can have."""
    if not bill.spans:
        return [(named, act) for named in range(len(bill.matrix)) for act in possible]
    halves = (0.0, 0.5), (0.5, 1.0)
    return [
        (named, act)
        for named, (start, end) in enumerate(halves)
        for act, low, high in bill.spans
        if low < end and high > start
    ]


def unseen(bill, labels, level):
    """The costly errors that the chosen acts did not make here, those first that could add most.

    An error costs more than the cheapest act for its class; acts that are the
    cheapest nowhere are left out.
    """
    acts, classes = bill.matrix.shape
    made = np.bincount(bill.chosen * classes + labels, minlength=acts * classes).reshape(acts, classes)
    possible = possible_acts(bill)
    found = []
    for true in range(classes):
        count = int(made[:, true].sum())
        if not count:
            continue
        paid = made[:, true] @ bill.matrix[:, true] / count
        rate = 1 - ((1 - level) / 2) ** (1 / count)
        for act in sorted(possible):
            cost = bill.matrix[act, true]
            if not made[act, true] and cost > max(paid, bill.matrix[:, true].min()) + _slack(bill):
                found.append(
                    Unseen(act, true, count, rate, float(rate * (cost - paid) * count / len(labels)))
                )
    return sorted(found, key=lambda error: -error.added)


def _beaten(matrix, act):
    """Whether another act is never dearer, and somewhere cheaper."""
    return bool(((matrix <= matrix[act]).all(axis=1) & (matrix < matrix[act]).any(axis=1)).any())
