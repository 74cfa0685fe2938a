"""The card of a classifier, from class probabilities and labels alone."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_labels, as_number, as_own_distributions, as_scores, as_whole, to_numpy
from uqhelpers.metrics._common import blocks, in_precision_of, largest_and_where, mean_probabilities
from uqhelpers.report import costs as decisions
from uqhelpers.report import intervals, limits, subgroups
from uqhelpers.report.arguments import as_date, as_details, as_names, as_sentence
from uqhelpers.report.card import Card, Number
from uqhelpers.report.pages import classification_page

__all__ = ["classification"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that the page of a classifier is written from."""

    title: str
    date: str | None
    said: dict
    missing: list
    level: float
    seed: int
    risk: float
    own_score: bool
    class_names: list
    numbers: dict
    labels: np.ndarray
    confidence: np.ndarray
    correct: np.ndarray
    score: np.ndarray
    matrix: np.ndarray
    curve: object
    band: tuple
    excess: float
    groupings: list
    judged: list
    bill: object
    strange: dict
    chances: np.ndarray | None

    @property
    def count(self):
        return len(self.labels)


def classification(
    probabilities,
    labels,
    *,
    title,
    class_names=None,
    groups=None,
    score=None,
    risk=0.01,
    costs=None,
    acts=None,
    strange=None,
    details=None,
    level=0.95,
    bins=10,
    seed=0,
    date=None,
):
    """The card of a classifier, computed from its predictions.

    Parameters
    ----------
    probabilities : array, shape (N, C) or (S, N, C)
        Class probabilities; sampled ones are averaged. They have to be of inputs
        that neither trained the model nor chose anything about it.
    labels : array of int, shape (N,), from 0 to C - 1
        The true classes.
    title : str
        What the card is of.
    class_names : list of str, optional
        By default "class 0", "class 1" and so on.
    groups : array, shape (N,), or dict of such arrays, optional
        To which subgroup each input belongs: numbers, booleans or text, every one
        with a value; a dict holds several ways of parting them, by name. At least
        two subgroups a grouping, 500 in all.
    score : array, shape (N,), optional
        Uncertainty by which predictions are ranked, higher is less certain. By
        default one minus the largest probability.
    risk : float
        The stated risk, above 0 and below 1: the card says of how many inputs the model can
        decide if at most so many of the decided may be wrong.
    costs : array, shape (A, C), optional
        What each act costs if each class is the true one. Recall, precision and
        confusions stay those of the likeliest class; the acts that the costs choose
        are counted apart.
    acts : list of str, optional
        Names of the acts; by default those of the classes where there are as many.
        "Ask a person" may be one of them.
    strange : array, or dict of arrays by name, optional
        Inputs of no class, or from elsewhere: their scores, shape (M,), on the
        scale of ``score``, or, where no ``score`` is given, their class probabilities, shape (M, C).
    details : dict of str, optional
        What only a person can say: ``"intended_use"``, ``"not_for"``, ``"data"``,
        ``"model"``, ``"contact"``, ``"signed"``. Any other key makes a section of its own.
        What nobody said is shown as missing.
    level : float
        Of all intervals, above .5 and below 1.
    bins : int
        Of the confidence, for the reliability diagram and the calibration error; from 2 to 100.
    seed : int
        For the draws that say what chance alone would show.
    date : str or date, optional
        Shown if given; nothing is read off the clock.

    Returns
    -------
    Card
        The same arguments give the same page, byte for byte.

    Raises
    ------
    ValueError
        If a subgroup is empty, or ``acts`` or a ``score`` is given without what it belongs to.

    References
    ----------
    Mitchell et al. (2019), Model cards for model reporting, for the idea; Wilson
    (1927), Probable inference, the law of succession, and statistical inference,
    for shares; Bröcker and Smith (2007), Increasing the reliability of
    reliability diagrams, for what counting alone shows; Geifman and El-Yaniv
    (2017), Selective classification for deep neural networks, for the promised
    coverage; Clopper and Pearson (1934), The use of confidence or fiducial limits
    illustrated in the case of the binomial, for costs, whose intervals also count with
    errors that were not met; DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under
    two or more correlated receiver operating characteristic curves.
    """
    title, date, (said, missing) = as_sentence(title, "title"), as_date(date), as_details(details)
    level, seed = as_level(level), as_whole(seed, "seed", low=0)
    bins, risk = as_whole(bins, "bins", low=2, high=100), as_open_share(risk, "risk")
    given = to_numpy(probabilities, "probabilities")
    probs = mean_probabilities(given, "probabilities")
    classes = probs.shape[1]
    if classes < 2:
        raise ValueError(f"probabilities: expected at least two classes, got shape {probs.shape}")
    labels = as_labels(labels, classes, length=len(probs))
    names = as_names(class_names, "class_names", classes, [f"class {number}" for number in range(classes)])
    groupings = subgroups.as_groupings(groups, len(labels))
    confidence, predicted = largest_and_where(probs)
    confidence = np.minimum(in_precision_of(given, confidence), 1)
    bill = decisions.as_bill(costs, acts, probs, labels, predicted, names)
    own = score is not None
    score = as_scores(score, "score", len(labels)) if own else 1 - confidence.astype(np.float64)
    strange = as_strange(strange, classes, own)
    correct = predicted == labels
    matrix = np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)
    judged = subgroups.judged(groupings, ~correct, seed)
    numbers = proper_scores(probs, labels, correct, level)
    curve = metrics.reliability_from_confidence(confidence, correct, bins)
    fine = metrics.reliability_from_confidence(confidence, correct, bins * intervals.FINER)
    low, high, errors = intervals.by_counting(fine, bins, level, seed)
    numbers |= calibration(curve, errors, confidence, correct, level)
    numbers["AUGRC"] = intervals.area_of_risk(score, ~correct, level)
    numbers["coverage at risk"] = intervals.coverage_at_risk(score, ~correct, risk, level)
    numbers |= by_class(matrix, names, level)
    numbers |= by_subgroup(groupings, confidence, correct, level)
    if bill is not None:
        numbers |= decisions.figures(bill, labels, level) | decisions.met(bill, labels, names, level)
    numbers |= thresholds(bill)
    for name, scores in strange.items():
        numbers[f"AUROC[{name}]"] = intervals.area_of_detection(score, scores, level)
        numbers[f"FPR95[{name}]"] = false_alarms(score, scores, level)
    evidence = Evidence(
        title=title,
        date=date,
        said=said,
        missing=missing,
        level=level,
        seed=seed,
        risk=risk,
        own_score=own,
        class_names=names,
        numbers=numbers,
        labels=labels,
        confidence=confidence,
        correct=correct,
        score=score,
        matrix=matrix,
        curve=curve,
        band=(low, high),
        excess=float((errors >= curve.expected_error * (1 - 1e-9)).mean()),
        groupings=groupings,
        judged=judged,
        bill=bill,
        strange=strange,
        chances=probs[:, 1] if classes == 2 else None,
    )
    sentences = limits.of_classification(evidence)
    html, fragment = classification_page(evidence, sentences)
    return Card(title, numbers, judged, sentences, missing, html, fragment)


def as_level(level):
    """A level that is worth an interval."""
    return as_open_share(level, "level", low=0.5)


def as_open_share(value, name, low=0.0):
    """A share strictly between ``low`` and 1."""
    number = as_number(value, name, low=low, high=1, open_low=True)
    if number == 1:
        raise ValueError(f"{name}: expected a number above {low:g} and below 1, got 1")
    return number


def as_strange(strange, classes, own_score):
    """The scores of strange inputs by name."""
    if strange is None:
        return {}
    named = strange if isinstance(strange, Mapping) else {"strange": strange}
    if not named:
        raise ValueError("strange: expected at least one kind of inputs, got an empty dict")
    found = {}
    for name, values in named.items():
        where = f"strange[{name!r}]" if isinstance(strange, Mapping) else "strange"
        as_sentence(name, "strange")
        array = to_numpy(values, where)
        if array.ndim == 2 and not own_score:
            probs = as_own_distributions(array, "NC", where)
            if probs.shape[1] != classes:
                raise ValueError(
                    f"{where}: expected probabilities of {classes} classes, got {probs.shape[1]}"
                )
            array = 1 - np.minimum(probs.max(axis=1), 1).astype(np.float64)
        elif array.ndim != 1:
            kinds = "scores, shape (M,)" + ("" if own_score else ", or probabilities, shape (M, C)")
            raise ValueError(f"{where}: expected {kinds}, got shape {array.shape}")
        found[name] = as_scores(array, where)
    return found


def proper_scores(probs, labels, correct, level):
    """Accuracy and the means of two proper scoring rules."""
    likelihood, squares = np.empty(len(labels)), np.empty(len(labels))
    for part in blocks(*probs.shape):
        block = probs[part].astype(np.float64)
        given = block[np.arange(len(block)), labels[part]]
        with np.errstate(divide="ignore"):
            likelihood[part] = 0.0 - np.log(given)
        squares[part] = np.einsum("nc,nc->n", block, block) - 2 * given + 1
    return {
        "accuracy": intervals.share(correct.sum(), len(correct), level),
        "negative log-likelihood": intervals.mean(likelihood, level),
        "Brier score": intervals.mean(squares, level),
    }


def calibration(curve, errors, confidence, correct, level):
    """The calibration error beside what counting alone makes of it, and the signed gap."""
    low, high = np.quantile(errors, [(1 - level) / 2, (1 + level) / 2])
    return {
        "expected calibration error": Number(curve.expected_error),
        "expected calibration error if calibrated": Number(float(errors.mean()), float(low), float(high)),
        "calibration gap": gap(confidence.mean(dtype=np.float64), correct.sum(), len(correct), level),
    }


def gap(confidence, right, count, level):
    """Confidence minus accuracy, with Wilson's interval of the accuracy for given confidences."""
    accuracy = intervals.share(right, count, level)
    return Number(*(float(confidence - end) for end in (accuracy.value, accuracy.high, accuracy.low)))


def by_class(matrix, names, level):
    """Recall and precision of each class."""
    found = {}
    for number, name in enumerate(names):
        hits = matrix[number, number]
        found[f"recall[{name}]"] = intervals.share(hits, matrix[number].sum(), level)
        found[f"precision[{name}]"] = intervals.share(hits, matrix[:, number].sum(), level)
    return found


def by_subgroup(groupings, confidence, correct, level):
    """Accuracy and gap of each subgroup."""
    found = {}
    for grouping in groupings:
        sums = np.bincount(grouping.place, weights=confidence)
        right = np.bincount(grouping.place, weights=correct)
        for name, total, hits, count in zip(grouping.names, sums, right, grouping.counts, strict=True):
            found[f"accuracy[{name}]"] = intervals.share(hits, count, level)
            found[f"calibration gap[{name}]"] = gap(total / count, hits, count, level)
    return found


def thresholds(bill):
    """Of two classes, the probabilities of class 1 at which the cheapest act changes."""
    if bill is None or not bill.spans:
        return {}
    if len(bill.acts) == 2:
        return {"threshold": Number(bill.spans[1][1])} if len(bill.spans) == 2 else {}
    return {f"threshold[{bill.acts[act]}]": Number(start) for act, start, _ in bill.spans[1:]}


def false_alarms(familiar, strange, level):
    """The share of familiar inputs at or above the score that finds 95 % of the strange ones."""
    positive = np.repeat([False, True], [len(familiar), len(strange)])
    value = metrics.fpr95(np.concatenate([familiar, strange]), positive)
    return intervals.share(round(float(value) * len(familiar)), len(familiar), level)
