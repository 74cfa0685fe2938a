"""Intervals: of shares, of means, of areas under curves, and of what counting alone brings about."""

import numpy as np

from uqhelpers import metrics
from uqhelpers.features import power_of_two
from uqhelpers.metrics._common import tie_groups
from uqhelpers.report.card import Number

CANDIDATES = 20  # coverages among which one is chosen with a promise
FINER = 50  # parts of a bin within which confidences count as equal


def share(hits, count, level):
    """A share with Wilson's interval; of nothing there is none."""
    from scipy.stats import binomtest

    if count == 0:
        return Number(float("nan"))
    found = binomtest(int(hits), int(count)).proportion_ci(level, method="wilson")
    return Number(float(hits / count), float(found.low), float(found.high))


def mean(values, level):
    """A mean with Student's interval; of one value, or with infinities, there is none."""
    from scipy.stats import t

    count = len(values)
    with np.errstate(invalid="ignore", over="ignore"):
        unit = power_of_two(np.abs(values).max())  # squares of what is left stay inside float64
        centre, spread = float(np.mean(values)), np.nan
        if count > 1:
            spread = float(np.std(values / unit, ddof=1) * unit)
    if not (np.isfinite(centre) and np.isfinite(spread)):
        return Number(centre)
    reach = float(t.ppf((1 + level) / 2, count - 1)) * spread / count**0.5
    return Number(centre, centre - reach, centre + reach)


def mean_of_few(values, possible, level):
    """A mean of what takes few values, with an interval that also knows of those that were not met.

    The mean is the lowest value plus, for each step up to the next one, the step's
    height times the share of what reaches it. Each share has its exact interval
    (Clopper-Pearson), and all of them together the level (Bonferroni): the interval
    holds the true mean at least so often, however rare a dear value is.

    Parameters
    ----------
    values : array, shape (N,)
    possible : array
        What a value can be; those that were met are added.
    level : float

    Returns
    -------
    Number
    """
    from scipy.stats import beta

    found, counts = np.unique(values, return_counts=True)
    steps = np.unique(np.concatenate([found, np.ravel(possible)]))
    met = np.zeros(len(steps))
    met[np.searchsorted(steps, found)] = counts
    reached, heights = met[::-1].cumsum()[::-1][1:], np.diff(steps)
    tail, short = (1 - level) / 2 / max(len(heights), 1), len(values) - reached
    low = np.where(reached > 0, beta.ppf(tail, np.maximum(reached, 1), short + 1), 0)
    high = np.where(short > 0, beta.ppf(1 - tail, reached + 1, np.maximum(short, 1)), 1)
    return Number(float(np.mean(values)), *(float(steps[0] + heights @ end) for end in (low, high)))


def root_mean_square(errors, level):
    """The root of the mean square; the interval is Student's for the logarithm of the mean square."""
    unit = float(power_of_two(np.abs(errors).max()))
    square = mean(np.square(errors / unit), level)
    value = square.value**0.5 * unit
    if square.low is None or square.value == 0:
        return Number(value)
    reach = np.exp((square.high - square.value) / square.value / 2)
    return Number(value, float(value / reach), float(value * reach))


def area_of_risk(score, wrong, level):
    """AUGRC with the interval of its Hájek projection: each input counts as wrong and as a threshold."""
    area = metrics.augrc(score, wrong)
    _, ends, errors = tie_groups(score, wrong)
    count, sizes = len(score), np.diff(ends, prepend=0)
    below = (np.append(0, errors[:-1]) + errors) / 2 / count  # errors below, ties counted half
    above = 1 - (np.append(0, ends[:-1]) + ends) / 2 / count
    # One group of ties after the other, in each its errors first: the order of the inputs does not matter.
    parts = np.stack([np.diff(errors, prepend=0), sizes - np.diff(errors, prepend=0)], axis=1)
    reach = mean(np.repeat(np.stack([above + below, below], axis=1).ravel(), parts.ravel()), level)
    if reach.low is None:
        return Number(area)
    half = reach.high - reach.value
    return Number(area, max(area - half, 0.0), area + half)


def area_of_detection(familiar, strange, level):
    """AUROC with DeLong's interval for its log odds; if nothing overlaps, from pairs that share no input."""
    from scipy.special import expit, logit
    from scipy.stats import norm

    positive = np.repeat([False, True], [len(familiar), len(strange)])
    area = float(metrics.auroc(np.concatenate([familiar, strange]), positive))
    ours, theirs = np.sort(familiar), np.sort(strange)
    above = (np.searchsorted(ours, strange) + np.searchsorted(ours, strange, side="right")) / 2 / len(ours)
    below = (np.searchsorted(theirs, familiar) + np.searchsorted(theirs, familiar, side="right")) / 2
    if not 0 < area < 1:
        pairs = min(len(familiar), len(strange))
        end = ((1 - level) / 2) ** (1 / pairs)
        return Number(area, end, 1.0) if area else Number(area, 0.0, 1 - end)
    if min(len(familiar), len(strange)) < 2:
        return Number(area)
    variance = np.var(above, ddof=1) / len(strange)
    variance += np.var(below / len(theirs), ddof=1) / len(familiar)
    reach = norm.ppf((1 + level) / 2) * variance**0.5 / (area * (1 - area))
    return Number(area, float(expit(logit(area) - reach)), float(expit(logit(area) + reach)))


def coverage_at_risk(score, wrong, risk, level):
    """The coverage at a risk on these inputs, and (``low``) one that can be promised.

    The promise: of twenty coverages the largest whose risk's upper end
    (Clopper-Pearson, Bonferroni over the twenty) is at most the risk.
    """
    from scipy.stats import beta

    _, ends, errors = tie_groups(score, wrong)
    count = ends[-1]
    asked = np.unique(np.ceil(np.arange(1, CANDIDATES + 1) / CANDIDATES * count).astype(int))
    place = np.unique(np.searchsorted(ends, asked, side="right") - 1)
    place = place[place >= 0]
    kept, mistakes = ends[place], errors[place]
    upper = beta.ppf(1 - (1 - level) / CANDIDATES, mistakes + 1, np.maximum(kept - mistakes, 1))
    safe = kept[(upper <= risk) & (mistakes < kept)]
    measured = metrics.coverage_at_accuracy(score, wrong, 1 - risk)
    return Number(measured, float(safe.max() / count) if len(safe) else 0.0, None)


def by_counting(fine, bins, level, seed, draws=2000):
    """What bins would show of a classifier that is calibrated: drawn again and again from its confidence.

    Parameters
    ----------
    fine : ReliabilityCurve
        Of ``FINER`` times as many bins: within one of them confidences count as equal.
    bins : int
    level : float
    seed : int
    draws : int

    Returns
    -------
    low, high : array, shape (K,)
        Accuracy of each filled bin, its central part.
    errors : array, shape (draws,)
        Expected calibration error of each draw.
    """
    rng = np.random.default_rng(seed)
    owner = fine.index // FINER
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    count = np.add.reduceat(fine.count, starts)
    confidence = np.add.reduceat(fine.count * fine.confidence, starts) / count
    drawn = rng.binomial(fine.count, np.clip(fine.confidence, 0, 1), size=(draws, len(fine.count)))
    rates = np.add.reduceat(drawn, starts, axis=1) / count
    low, high = np.quantile(rates, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high, np.abs(rates - confidence) @ (count / count.sum())
