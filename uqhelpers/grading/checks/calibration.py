"""Checks of the exercise on calibration."""

import functools

import numpy as np
from scipy.special import entr, rel_entr

from uqhelpers.metrics import from_logits

from .._engine import as_number, expect, expect_close, expect_parts, manual, part, question


def behind(said, gamma, product=1, back=1):
    """The true probability of the class, of two, for which focal loss is least at ``said``."""
    p, q = said, 1 - said
    of_class = product * gamma * q ** (gamma - 1) * np.log(p) - q**gamma / p  # slope of its loss
    of_other = -product * gamma * p ** (gamma - 1) * np.log(q) + p**gamma / q
    truth = of_other / (of_other - of_class)
    return truth if back else focal_minimum(said, gamma)


def focal_minimum(truth, gamma):
    """What focal loss asks to say, of two classes, when the truth is ``truth``."""
    low, high = np.zeros(len(truth)), np.ones(len(truth))
    for _ in range(60):
        middle = (low + high) / 2
        above = behind(middle, gamma) > truth
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return low


@question(
    "q1",
    points=3,
    hint="Write the expected loss for a truth t, take its slope by p, set it to 0, and solve for t.",
    forbids=("calibration.focal_loss",),
    read="Scores that reward honesty",
)
def a_focal_loss_can_be_undone(learner, seed):
    rng = np.random.default_rng(seed)
    said, gamma = rng.uniform(0.15, 0.9, size=8), float(rng.uniform(1.2, 3.5))
    expect_close(
        learner.call("truth_behind", said, gamma),
        lambda **slips: behind(said, gamma, **slips),
        what="the truth",
        mistakes={
            "that is what was said: a focal loss is not least at the truth": said,
            "the slope of a product has two terms: the weight changes with p, too": {"product": 0},
            "that is the probability of the other class": lambda v: 1 - v,
            "the other way round: that is what would be said if the truth were `said`": {"back": 0},
        },
    )


@question(
    "q2",
    points={"the reliability": 1, "the resolution": 1, "the uncertainty": 1},
    hint="Within one value: what does the log score charge for saying p where the class happens at rate r?",
    read="What a Brier score is made of",
)
def the_parts_of_a_log_score_are_right(learner, seed):
    rng = np.random.default_rng(seed)
    forecast = rng.choice([0.1, 0.3, 0.45, 0.8], size=160, p=[0.4, 0.3, 0.2, 0.1])
    happened = (rng.random(160) < 0.15 + 0.6 * forecast).astype(float)
    values = np.unique(forecast)
    share = np.array([np.mean(forecast == value) for value in values])
    rate = np.array([happened[forecast == value].mean() for value in values])
    base = happened.mean()
    got = expect_parts(
        learner.call("log_parts", forecast, happened), ["reliability", "resolution", "uncertainty"]
    )
    even = np.full(len(values), 1 / len(values))

    def divergence(of, to, share=share, squared=False, turned=False):
        of, to = (to, of) if turned else (of, to)
        kl = rel_entr(of, to) + rel_entr(1 - of, 1 - to)
        return share @ ((of - to) ** 2 if squared else kl)

    def entropy(p):
        return entr(p) + entr(1 - p)

    shared = {
        "that is the part of a Brier score: here the regret is a KL divergence": {"squared": True},
        "the two distributions of the KL divergence are exchanged: the labels come from the first": {
            "turned": True
        },
        "every value counts the same: weigh it by how often it is said": {"share": even},
        "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
    }
    with part("the reliability"):
        expect_close(
            got[0],
            lambda **slips: divergence(rate, values, **slips),
            what="the reliability",
            mistakes=shared | {"that is the resolution: the two are swapped": divergence(rate, base)},
        )
        never = np.where(forecast == values[0], 0.0, happened)  # a bin whose rate is 0
        rates = np.array([never[forecast == value].mean() for value in values])
        reliability = as_number(learner.call("log_parts", forecast, never)[0], "the reliability")
        expect(
            np.isclose(reliability, divergence(rates, values)),
            "where the event never happens in a bin: 0 log 0 counts as 0",
        )
    with part("the resolution"):
        expect_close(
            got[1],
            lambda **slips: divergence(rate, base, **slips),
            what="the resolution",
            mistakes=shared
            | {
                "the sign: the resolution is positive, and is subtracted": np.negative,
                "that is the reliability: the two are swapped": divergence(rate, values),
            },
        )
    with part("the uncertainty"):
        expect_close(
            got[2],
            lambda p=base: entropy(p),
            what="the uncertainty",
            mistakes={
                "that is the part of a Brier score: what does the log score charge the base rate?": base
                * (1 - base),
                "that is what is left within the values: the uncertainty knows no forecasts": share
                @ entropy(rate),
                "the rate of what happened, not the mean of what was said": {"p": forecast.mean()},
                "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
            },
        )


def hot(seed, truth, n):
    """Logits that are ``truth`` times too large, and labels drawn from what they should say."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, 4))
    labels = (from_logits(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return truth * logits, np.minimum(labels, 3)


def pulled(logits, labels, pooled, strength, weight=1, centre=None, summed=True, inverse=False):
    """The temperature that minimises the likelihood's part and the pull; halving in 1/T."""
    ahead = logits - logits[np.arange(len(labels)), labels][:, None]
    centre = pooled if centre is None else centre
    low, high = 1e-3, 1e3
    for _ in range(70):
        beta = np.sqrt(low * high)
        slopes = (from_logits(beta * ahead) * ahead).sum(axis=1)
        slope = slopes.sum() if summed else slopes.mean()
        slope += 2 * weight * strength * centre * (beta * centre - 1)
        low, high = (beta, high) if slope < 0 else (low, beta)
    return beta if inverse else 1 / beta


@functools.lru_cache(maxsize=32)
def four_groups(seed):
    """Three small groups and a large one: logits, labels, the temperature of all, the pull's strength."""
    rng, cases = np.random.default_rng(seed), []
    for i, (low, high, n) in enumerate([(4, 6, 60), (0.2, 0.4, 60), (18, 25, 60), (4, 6, 600)]):
        logits, labels = hot(seed + i, rng.uniform(low, high), n)
        cases.append((*sealed(logits, labels), float(rng.uniform(2, 3)), float(rng.uniform(8, 12))))
    return cases


@functools.lru_cache(maxsize=512)
def temperatures(seed, **slips):
    """What `pulled` says of the four groups: computed once, however many answers are compared with it."""
    (found,) = sealed(np.array([pulled(*case, **slips) for case in four_groups(seed)]))
    return found


def sealed(*arrays):
    """The arrays, as what nobody can change: they are kept for the next answer."""
    for array in arrays:
        array.setflags(write=False)
    return arrays


@question(
    "q3",
    points=3,
    hint="In 1/T both terms are convex, so the slope of their sum changes its sign once. Halve an interval.",
    read="One temperature",
)
def a_small_group_leans_on_all(learner, seed):
    cases = four_groups(seed)
    got = [as_number(learner.call("leaning", *case), "T") for case in cases]
    expect_close(
        got,
        lambda **slips: temperatures(seed, **slips),
        what="the temperatures of four groups",
        rtol=0.005,
        mistakes={
            "the pull is missing: that is the group's own temperature": {"weight": 0},
            "the pull goes to 1, not to the temperature of all": {"centre": 1.0},
            "the mean, where the sum is meant: the pull has to fade as the group grows": {"summed": False},
            "that is 1/T: the logits are divided by the temperature": {"inverse": True},
            "that is the temperature of all: listen to the group as well": np.array([c[2] for c in cases]),
        },
    )


def in_bins(said, right=True):
    edges = np.arange(11) / 10
    return np.clip(np.digitize(said, edges, right=right) - 1, 0, 9)


def worst(said, happened, groups, weighted=True, right=True):
    """The group and the bin where the promise is broken most."""
    place = in_bins(said, right)
    broken = np.zeros((len(groups), 10))
    for g, inside in enumerate(groups):
        for k in range(10):
            here = inside & (place == k)
            total = abs(np.sum((happened - said)[here]))
            broken[g, k] = total / (1 if weighted else max(here.sum(), 1))
    return np.array(np.unravel_index(broken.argmax(), broken.shape))


def patched(said, happened, groups, sign=1, level=True, group=True, scaled=False):
    """The forecasts after one step of multicalibration, with the usual slips to choose from."""
    g, k = worst(said, happened, groups)
    place = in_bins(said)
    here = groups[g] & (place == k)
    shift = np.sum((happened - said)[here]) / (len(said) if scaled else here.sum())
    moved = (groups[g] if group else True) & ((place == k) if level else True)
    return np.clip(said + sign * shift * moved, 0, 1)


@functools.lru_cache(maxsize=32)
def promises(seed):
    """Forecasts of an event in three overlapping groups, in which every known mistake shows."""
    rng = np.random.default_rng(seed)
    while True:
        n = 240
        groups = np.array([np.ones(n, bool), rng.random(n) < 0.5, rng.random(n) < 0.35])
        said = np.clip(np.round(rng.uniform(0.05, 0.95, n), 2), 0.05, 0.95)
        k = int(rng.integers(2, 8))
        tilt = 0.35 * rng.choice([-1, 1]) * (groups[2] & (in_bins(said) == k))
        happened = (rng.random(n) < np.clip(said + tilt, 0.02, 0.98)).astype(float)
        case = said, happened, groups
        if worst(*case)[0] == 0:
            continue
        slips = [{}, {"weighted": False}, {"right": False}, {"weighted": False, "right": False}]
        places = [tuple(worst(*case, **slip)) for slip in slips]
        if len({*places, *(place[::-1] for place in places)}) < 2 * len(places):
            continue
        changed = [{}, {"sign": -1}, {"level": False}, {"group": False}, {"scaled": True}]
        made = [patched(*case, **slip) for slip in changed]
        apart = all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(made) for b in made[:i])
        if apart and np.all((made[0] > 0) & (made[0] < 1)):
            return sealed(*case)


@question(
    "q4",
    points={"the place": 2, "the forecasts": 2},
    hint="One loop over the groups, one over the bins; a sum over who is in both. Then move these alone.",
    forbids=("metrics.reliability.binned",),
    read="Calibrated on average, wrong for single cameras",
)
def one_step_towards_multicalibration(learner, seed):
    case = promises(seed)
    got = expect_parts(learner.call("patch", *case), ["the place", "the forecasts"])
    with part("the place"):
        expect_close(
            got[0],
            lambda **slips: worst(*case, **slips),
            what="the place",
            mistakes={
                "the largest mean is that of a few inputs: here the sum counts": {"weighted": False},
                "the bins are closed on the right: 0.3 belongs to the bin that ends there": {"right": False},
                "bins and groups count from 0, and the group comes first": np.flip,
            },
        )
    with part("the forecasts"):
        expect_close(
            got[1],
            lambda **slips: patched(*case, **slips),
            what="the forecasts",
            mistakes={
                "the wrong way: towards what happened": {"sign": -1},
                "the whole group was moved: the promise is broken at one level": {"level": False},
                "everybody at that level was moved: the promise is broken in one group": {"group": False},
                "moved by the sum over all inputs: by the mean over those concerned": {"scaled": True},
            },
        )


def grouped(confidence, correct, group, bins=True, named=True, weighted=True):
    """The calibration error of each group, weighted by its size, with the usual slips to choose from."""
    place = in_bins(confidence) if bins else np.zeros(len(confidence), int)
    group = group if named else np.zeros(len(group), int)
    errors, sizes = [], []
    for g in np.unique(group):
        here = group == g
        gaps = [abs(np.sum((confidence - correct)[here & (place == k)])) for k in range(10)]
        errors.append(sum(gaps) / here.sum())
        sizes.append(here.mean())
    return np.dot(errors, sizes) if weighted else np.mean(errors)


def apart(*case):
    """Whether the known mistakes of `grouped`, alone and the likeliest pair, all give other figures here."""
    slips = {}, {"bins": False}, {"named": False}, {"weighted": False}, {"bins": False, "weighted": False}
    return np.diff(sorted(grouped(*case, **slip) for slip in slips)).min() > 1e-3


def by_lot(confidence, correct, group, draws, rng):
    """The share of lots in which groups of these sizes show at least as large an error."""
    gap, bins = confidence - correct, np.eye(10)[in_bins(confidence)]

    def error(labels):
        cells = [np.abs((gap * (labels == g)) @ bins).sum() for g in np.unique(group)]
        return sum(cells) / len(gap)

    measured = error(group)
    return np.mean([error(rng.permutation(group)) >= measured - 1e-9 for _ in range(draws)])


@functools.lru_cache(maxsize=32)
def divided(seed):
    """Models that are wrong for all groups alike, and ones whose groups differ; the order is drawn."""
    rng, cases = np.random.default_rng(seed), []

    def model(tilt):
        confidence, group = rng.uniform(0.5, 0.95, 240), np.repeat([0, 1, 2], [60, 80, 100])
        chance = 0.62 + 0.1 * (confidence - 0.72) + tilt * np.array([-1.0, 0.2, 0.44])[group]
        return confidence, rng.random(240) < chance, group

    for low, high in ((0.15, 0.4), (0.4, 0.65), (0.65, 0.9)):
        while True:
            case = model(0.0)
            if apart(*case) and low < (share := by_lot(*case, 300, rng)) < high:
                cases.append((*case, share))
                break
    for _ in range(2):
        while True:
            case = model(0.35)
            if apart(*case) and by_lot(*case, 200, rng) == 0:
                cases.append((*case, 0.0))
                break
    return [cases[i] for i in rng.permutation(len(cases))], int(rng.integers(2**31))


@question(
    "q5",
    points={"`grouped`": 1, "`luck`": 2},
    hint="A cell is a group and a bin. For the luck, draw by lot who belongs to which group, nothing else.",
    read="Calibrated on average, wrong for single cameras",
)
def groups_that_differ_are_told_from_luck(learner, seed):
    cases, draw = divided(seed)
    with part("`grouped`"):
        confidence, correct, group, _ = cases[0]
        expect_close(
            learner.call("grouped", confidence, correct, group),
            lambda **slips: grouped(confidence, correct, group, **slips),
            what="`grouped`",
            mistakes={
                "that is the error of all together: each group has its own": {"named": False},
                "groups count as much as they hold": {"weighted": False},
                "one gap a group: within a group, levels of confidence can cancel": {"bins": False},
            },
        )
    with part("`luck`"):
        share = np.array([case[3] for case in cases])
        got = np.array(
            [
                as_number(learner.call("luck", *case[:3], 300, draw + i), "the share")
                for i, case in enumerate(cases)
            ]
        )
        real = share == 0
        expect(((got >= 0) & (got <= 1)).all(), "a share lies between 0 and 1")
        expect(
            not (np.abs(got - (1 - share)) < 0.12).all(),
            "the other tail: count the lots that show at least as large an error",
        )
        expect(
            not (got < 0.25).all(),
            "every model fails: with labels drawn from the confidences, wrong confidences are enough; "
            "only the groups are in question",
        )
        expect((got[real] < 0.05).all(), "groups that differ pass as luck")
        expect((np.abs(got - share)[~real] < 0.13).all(), "too often or too seldom for groups drawn by lot")


@question(
    "q6",
    points={"the shift": 1, "the factor": 1},
    hint="Write the Gaussian log-likelihood with mean + b and s times std; set both slopes to 0, b first.",
    read="Further: regression",
)
def a_shift_and_a_factor_for_a_regression(learner, seed):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=80), rng.uniform(0.5, 2, size=80)
    targets = mean + 0.7 + 1.7 * std * rng.normal(size=80)
    away = targets - mean

    def shift(power=2):
        return np.sum(away / std**power) / np.sum(1 / std**power)

    def factor(moved=True, root=0.5, own=True):
        z = (away - moved * shift()) / (std if own else 1)
        return np.mean(z**2) ** root

    got = expect_parts(learner.call("mend", mean, std, targets), ["the shift", "the factor"])
    with part("the shift"):
        expect_close(
            got[0],
            shift,
            what="the shift",
            mistakes={
                "not all residuals say the same: those with a small standard deviation say more": {
                    "power": 0
                },
                "the weights are those of the variance: one over its value": {"power": 1},
                "the sign: it is added to the mean": np.negative,
            },
        )
    with part("the factor"):
        expect_close(
            got[1],
            factor,
            what="the factor",
            mistakes={
                "without the shift: that is the factor for the mean as it was": {"moved": False},
                "that is the factor of the variance: take its root": {"root": 1},
                "each residual is measured by its own standard deviation": {"own": False},
            },
        )


q7 = manual(
    "q7",
    "Forty hospitals and five networks: which two conclusions do not follow, and what would you ask for?",
    {
        "an error over all hospitals says nothing of this one: its own gap, on its scans, by patient": 1,
        "the ensemble has five times the data: one network that has all, and starts on the same data": 1,
    },
)
