"""Checks of the exercise on conformal prediction and credal sets."""

import numpy as np
from scipy.special import entr
from scipy.stats import betabinom, binom

from .._engine import expect_close, expect_parts, manual, part, question

QUANTILES = ("conformal.quantile", "conformal.SplitClassifier", "conformal.SplitRegressor")


def chance(n, k, m, shared=True, new=1):
    """That the next m scores all lie at or below the k-th smallest of n."""
    if not shared:
        return (k / (n + new)) ** m
    j = np.arange(m)
    return np.prod((k + j) / (n + new + j))


def smallest(n, percent, m, early=0, **slips):
    """The smallest rank with enough of a chance; n + 1 if there is none."""
    enough = [k for k in range(1, n + 1) if 100 * chance(n, k, m, **slips) >= percent]
    return (enough[0] if enough else n + 1) - early


def next_scores(seed):
    """A case in which every known mistake gives another rank."""
    rng = np.random.default_rng(seed)
    while True:
        n, m = int(rng.integers(60, 160)), int(rng.integers(3, 6))
        percent = int(rng.integers(60, 81))
        ranks = [smallest(n, percent, m, **s) for s in ({}, {"shared": False}, {"early": 1})]
        ranks.append(smallest(n, percent, 1))
        if len(set(ranks)) == len(ranks) and max(ranks) <= n:
            return n, int(0.8 * n), m, percent


@question(
    "q1",
    points={"the chance": 2, "the rank": 1},
    hint="Of all n + m scores, any order is equally likely. Let them come one by one: where may each fall?",
    forbids=("conformal.coverage_law", "conformal.CoverageLaw"),
    read="One idea: ranks",
)
def several_new_scores_share_one_calibration_set(learner, seed):
    n, k, m, percent = next_scores(seed)
    with part("the chance"):
        expect_close(
            learner.call("all_below", n, k, m),
            lambda **slips: chance(n, k, m, **slips),
            what="the chance",
            mistakes={
                "that is as if they were independent: they share one calibration set": {"shared": False},
                "that is for one new score": chance(n, k, 1),
                "the first new score has n + 1 places, not n": {"new": 0},
                "that is the chance that not all do": lambda v: 1 - v,
            },
        )
    with part("the rank"):
        expect_close(
            learner.call("joint_rank", n, m, percent),
            lambda **slips: smallest(n, percent, m, **slips),
            what="the rank",
            mistakes={
                "the rank for independent scores is another": {"shared": False},
                "that is the rank for one new score": smallest(n, percent, 1),
                "one rank too low: ranks count from 1": {"early": 1},
            },
        )


def moved_inputs(seed):
    """Scores with weights, and new inputs whose thresholds are all finite."""
    rng = np.random.default_rng(seed)
    while True:
        scores, weights = rng.exponential(size=40), rng.exponential(size=40) + 0.05
        case = scores, weights, rng.uniform(0.2, 2.0, size=6), 0.2
        slips = [{}, {"moved": False}, {"counted": False}, {"weighted": False}, {"level": 0.2}]
        slips += [{"moved": False, "counted": False}, {"weighted": False, "counted": False}]
        found = [thresholds(*case, **slip) for slip in slips]
        apart = all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(found) for b in found[:i])
        if apart and all(np.isfinite(one).all() for one in found):
            return case


def thresholds(scores, weights, new, alpha, moved=True, counted=True, weighted=True, level=None):
    """Weighted conformal quantiles, one a new input, with the usual slips to choose from."""
    order = np.argsort(scores)
    weights = weights if weighted else np.ones(len(weights))
    new = new if weighted else np.ones(len(new))
    below = np.cumsum(weights[order] if moved else np.sort(weights))
    needed = (1 - alpha if level is None else level) * (below[-1] + (new if counted else 0 * new))
    place = np.searchsorted(below, needed * (1 - 1e-12))
    return np.append(scores[order], np.inf)[place]


@question(
    "q2",
    points=3,
    hint="Sort the scores and take their weights along; add up until 1 - alpha of ALL weight is below.",
    forbids=QUANTILES,
    read="Further: a shift that you know",
)
def the_new_input_has_a_weight_too(learner, seed):
    case = moved_inputs(seed)
    expect_close(
        learner.call("thresholds", *case),
        lambda **slips: thresholds(*case, **slips),
        what="the thresholds",
        mistakes={
            "the weights were sorted by themselves: each belongs to its score": {"moved": False},
            "the new input's own weight is missing in the total": {"counted": False},
            "the weights are not used": {"weighted": False},
            "alpha is the share that may lie above, not below": {"level": case[3]},
        },
    )


def wide_quantiles(seed):
    """Two predicted quantiles, too far apart, and targets nearer to one of them."""
    rng = np.random.default_rng(seed)

    def some(n):
        middle, half = rng.normal(size=n), rng.uniform(1, 2, size=n)
        return middle - half, middle + 1.3 * half, middle + 0.4 * rng.normal(size=n)

    (low, high, y), (new_low, new_high, _) = some(30), some(5)
    return low, high, y, new_low, new_high, 0.2


def of_distances(a, b):
    return np.maximum(np.abs(a), np.abs(b))


def conformalised(
    low, high, y, new_low, new_high, alpha, pick=np.maximum, extra=1, floor=-np.inf, down=1, plain=False
):
    """Both ends of CQR's intervals, stacked, with the usual slips to choose from."""
    scores = np.maximum(pick(low - y, y - high), floor)
    k = int(np.ceil((len(y) + extra) * (1 - alpha) - 1e-9))
    reach = np.quantile(scores, 1 - alpha) if plain else np.sort(scores)[min(k, len(y)) - 1]
    return np.stack([new_low - down * reach, new_high + reach])


@question(
    "q3",
    points={"the lower ends": 2, "the upper ends": 1},
    hint="How far is y OUTSIDE of the interval? Inside, that is negative. Then the rank, then both ends.",
    forbids=QUANTILES,
    read="Numbers: intervals",
)
def wide_intervals_shrink(learner, seed):
    case = wide_quantiles(seed)
    names = ["the lower ends", "the upper ends"]
    got = expect_parts(learner.call("mended", *case), names)
    for i, name in enumerate(names):
        mistakes = {
            "the score is the LARGER of both distances: outside on one side is outside": {"pick": np.minimum},
            "the new score takes a rank too: n + 1": {"extra": 0},
            "a negative score is no mistake: intervals that are too wide shrink": {"floor": 0},
            "the distances are still without their sign: inside of an interval they are negative": {
                "pick": of_distances
            },
            "still the plain quantile, between two scores: take the score of the rank": {"plain": True},
        }
        if i == 0:
            mistakes["the lower end goes the other way: minus the threshold"] = {"down": -1}
        with part(name):
            expect_close(got[i], lambda i=i, **slips: conformalised(*case, **slips)[i], mistakes, what=name)


def opposed(seed):
    """A level and a step for which the two counts differ from those of every known mistake."""
    rng = np.random.default_rng(seed)
    while True:
        alpha, gamma = round(float(rng.uniform(0.12, 0.4)), 3), round(float(rng.uniform(0.004, 0.02)), 4)
        exact = alpha / (gamma * (1 - alpha))
        left = (np.ceil(exact) * gamma * (1 - alpha) - alpha) / (gamma * alpha)
        clear = all(0.1 < value % 1 < 0.9 for value in (exact, left))
        if clear and left > 2 and np.ceil(exact) != np.ceil(alpha / gamma):
            return alpha, gamma


def misses_in_a_row(alpha, gamma, drop=None, up=np.ceil):
    return up(alpha / (gamma * ((1 - alpha) if drop is None else drop)))


def hits_needed(alpha, gamma, misses=None, rise=None, more=1):
    misses = misses_in_a_row(alpha, gamma) if misses is None else misses
    below = misses * gamma * (1 - alpha) - alpha
    return np.floor(below / (gamma * (alpha if rise is None else rise))) + more


@question(
    "q4",
    points={"the misses": 1, "the hits": 2},
    hint="Each miss takes gamma (1 - alpha) off the level, each hit adds gamma alpha. Above 0 you can miss.",
    read="Further: a stream that drifts",
)
def an_opponent_has_to_wait(learner, seed):
    alpha, gamma = opposed(seed)
    got = expect_parts(learner.call("opponent", alpha, gamma), ["the misses", "the hits"])
    with part("the misses"):
        expect_close(
            got[0],
            lambda **slips: misses_in_a_row(alpha, gamma, **slips),
            what="the misses",
            mistakes={
                "a miss takes gamma (1 - alpha) off the level, not gamma": {"drop": 1},
                "a miss takes gamma (1 - alpha) off the level, not gamma alpha": {"drop": alpha},
                "while the level is above 0, however little, one more miss is possible": {"up": np.floor},
            },
        )
    with part("the hits"):
        expect_close(
            got[1],
            lambda **slips: hits_needed(alpha, gamma, **slips),
            what="the hits",
            mistakes={
                "a hit adds gamma alpha to the level, and no more than that": {"rise": 1},
                "at a level of 0 or less everything is let in: it has to come above 0": {"more": 0},
            },
        )


def contaminated(seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(5, 1.5), size=6), 0.25


def least(p, eps, where="max", keep=True):
    """Lower entropy of the contaminated set: all foreign mass on one class."""
    mass = np.full(p.shape, 1 / p.shape[1])
    if where != "all":
        mass = np.eye(p.shape[1])[p.argmax(axis=1) if where == "max" else p.argmin(axis=1)]
    return entr(((1 - eps) if keep else 1) * p + eps * mass).sum(axis=1)


def water(p, eps, top=None, fill=True):
    """Upper entropy: the foreign mass fills up the smallest classes."""
    kept = (1 - eps) * p
    if not fill:
        return entr(kept + eps / p.shape[1]).sum(axis=1)
    low, high = np.zeros(len(p)), np.ones(len(p))
    for _ in range(80):
        middle = (low + high) / 2
        over = np.maximum(kept, middle[:, None]).sum(axis=1) > 1
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return entr(np.maximum(kept, low[:, None])).sum(axis=1)


@question(
    "q5",
    points={"the lower entropy": 2, "the upper entropy": 1},
    hint="Where must the foreign mass go to make the distribution as peaked, or as flat, as it can be?",
    forbids=("credal.lower_entropy", "credal.upper_entropy"),
    read="From an ensemble",
)
def foreign_mass_goes_to_the_top_or_to_the_bottom(learner, seed):
    p, eps = contaminated(seed)
    got = expect_parts(learner.call("entropy_bounds", p, eps), ["the lower entropy", "the upper entropy"])
    with part("the lower entropy"):
        expect_close(
            got[0],
            lambda **slips: least(p, eps, **slips),
            what="the lower entropy",
            mistakes={
                "the mass went to the smallest class: that flattens": {"where": "min"},
                "the mass was spread evenly: a vertex of the set is more peaked": {"where": "all"},
                "the two are swapped": water(p, eps),
                "that is the entropy of p itself": entr(p).sum(axis=1),
            },
        )
    with part("the upper entropy"):
        expect_close(
            got[1],
            lambda **slips: water(p, eps, **slips),
            what="the upper entropy",
            rtol=1e-5,
            mistakes={
                "spread evenly is not flattest: the largest classes need none of it": {"fill": False},
                "the two are swapped: here the lower one stands": least(p, eps),
                "log C is out of reach: each class keeps its share of p": np.full(len(p), np.log(5)),
            },
        )


def by_group(seed):
    """Groups of which some did better than promised, so that every known mistake shows."""
    rng = np.random.default_rng(seed)
    while True:
        inputs = rng.integers(40, 90, size=5)
        case = (inputs * rng.uniform(0.8, 0.99, size=5)).astype(int), inputs, 30, 28
        found = [
            surprise(*case, **slip)
            for slip in ({}, {"spread": False}, {"sides": 1}, {"own": 0}, {"b": 2}, {"b": 0})
        ]
        if all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(found) for b in found[:i]):
            return case


def surprise(hits, inputs, n, k, spread=True, sides=2, own=1, b=1):
    """Two-sided p-values of counts of covered inputs, with the usual slips to choose from."""
    law = betabinom(inputs, k, n + b - k) if spread else binom(inputs, k / (n + 1))
    return np.minimum(1, sides * np.minimum(law.cdf(hits), law.sf(hits - own)))


@question(
    "q6",
    points=3,
    hint="Given its calibration set, coverage is Beta distributed; given the coverage, hits are binomial.",
    forbids=("conformal.coverage_law", "conformal.CoverageLaw", "conformal.coverage_report"),
    read="What one calibration set gives you",
)
def luck_has_two_sources(learner, seed):
    case = by_group(seed)
    expect_close(
        learner.call("surprise", *case),
        lambda **slips: surprise(*case, **slips),
        what="the p-values",
        mistakes={
            "the luck of the calibration set is missing: that is a plain binomial law": {"spread": False},
            "one side only: twice the smaller tail": {"sides": 1},
            "what happened belongs to both tails: at least, not more than": {"own": 0},
            "the second parameter of the Beta law is n + 1 - k": {"b": 2},
            "the Beta law's second parameter is n + 1 - k: the new score has a place above, too": {"b": 0},
        },
    )


q7 = manual(
    "q7",
    "Coverage of 95 % on 2,000 scans of 40 patients: what was shown, and what would you ask for?",
    {
        "scans of one patient are no exchangeable draws: about 40 scores, with a wide law, not 2,000": 1,
        "calibration and test by patient and at the new hospital, and coverage by group, with intervals": 1,
    },
)
