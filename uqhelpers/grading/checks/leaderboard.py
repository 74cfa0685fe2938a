"""Checks of the exercise on the leaderboard."""

import numpy as np
from scipy.stats import rankdata

from .._engine import expect_choice, expect_close, expect_parts, manual, part, question

OURS = ("leaderboard.ranks", "leaderboard.critical_difference")


@question(
    "q1",
    points=2,
    hint="Solve the formula of the critical difference for n, and round up.",
    forbids=OURS,
    read="Who is better than whom?",
)
def as_many_runs_as_it_takes_and_no_more(learner, seed):
    rng = np.random.default_rng(seed)
    methods = rng.permutation(np.arange(4, 24))[:6]
    apart = np.round(rng.uniform(0.8, 3.0, 6), 2)
    quantile = np.round(rng.uniform(2.5, 3.8, 6), 3)

    def needed(power=2, first=1, divisor=6, whole=np.ceil):
        return whole(quantile**power * methods * (methods + first) / (divisor * apart**power))

    got = [
        learner.call("runs_needed", int(k), float(d), float(q))
        for k, d, q in zip(methods, apart, quantile, strict=True)
    ]
    expect_close(
        got,
        needed,
        what="the number of runs",
        mistakes={
            "rounded down: so few runs leave the critical difference above what is asked": {
                "whole": np.floor
            },
            "a whole number of runs is asked for: round up": {"whole": lambda n: n},
            "the number of runs stands under a root: square both sides": {"power": 1},
            "k (k + 1), not k (k - 1)": {"first": -1},
            "the six under the root is missing": {"divisor": 1},
        },
    )


def with_holes(seed):
    """Figures of seven methods in five runs: ties, two that crashed somewhere, an infinite loss."""
    rng = np.random.default_rng(seed)
    while True:
        figures = np.round(rng.uniform(0.1, 0.5, size=(7, 5)), 1)
        rows = rng.permutation(7)
        figures[rows[:2], rng.permutation(5)[:2]] = np.nan
        figures[rows[2], rng.integers(5)] = np.inf
        found = [rank_rows(figures, **slip) for slip in ({}, {"ties": "ordinal"}, {"last": True})]
        found += [rank_rows(figures, axis=1), rank_rows(figures, sign=-1), rank_rows(figures, ties="min")]
        found += [rank_rows(figures, whole=np.isfinite)]
        flat = [np.nan_to_num(f, nan=-1.0) for f in found]
        if all(np.abs(a - b).max() > 0.05 for i, a in enumerate(flat) for b in flat[:i]):
            return figures


def finished(figures):
    return ~np.isnan(figures)


def rank_rows(figures, sign=1, ties="average", axis=0, last=False, average=True, whole=finished):
    """Mean ranks of the methods that finished every run; with ``last`` a crash is the last place."""
    kept = whole(figures).all(axis=1)
    values = sign * figures
    if last:
        places = rankdata(np.where(np.isnan(values), np.inf, values), method=ties, axis=axis)
        return places.mean(axis=1) if average else places.sum(axis=1)
    places = rankdata(values[kept], method=ties, axis=axis)
    means = np.full(len(figures), np.nan)
    means[kept] = places.mean(axis=1) if average else places.sum(axis=1)
    return means


@question(
    "q2",
    points=3,
    hint="Take the rows without a NaN, rank each column among them, share ranks where figures are equal.",
    forbids=OURS,
    read="Who is better than whom?",
)
def ties_share_and_crashes_are_left_out(learner, seed):
    figures = with_holes(seed)
    expect_close(
        learner.call("mean_ranks", figures),
        lambda **slips: rank_rows(figures, **slips),
        what="the mean ranks",
        mistakes={
            "equal figures share the mean of their places: no method was first because it stands first": {
                "ties": "ordinal"
            },
            "equal figures share the *mean* of their places, not the best of them": {"ties": "min"},
            "higher figures were ranked first: lower is better here": {"sign": -1},
            "ranked within a method, over its runs: rank the methods within each run": {"axis": 1},
            "a crash is no last place: leave the whole row out, and rank the others among themselves": {
                "last": True
            },
            "an infinite loss is no crash: only a NaN takes a method out": {"whole": np.isfinite},
            "a sum of the ranks: their mean over the runs is asked for": {"average": False},
        },
    )


def differences(seed):
    """Paired differences of two methods, shape (seeds, inputs): effects of both, and noise of each pair."""
    rng = np.random.default_rng(seed)
    rows, columns = 6, 20
    return (
        0.3 * rng.normal(size=(rows, 1)) + 0.4 * rng.normal(size=columns) + rng.normal(size=(rows, columns))
    )


def standard_error(d, counted=2, ddof=1, both=True, noise_ddof=1, root=True, squares=None):
    """Of the mean of ``d``: seeds and inputs, with what belongs to both counted once or twice."""
    rows, columns = d.shape
    by_seed, by_input = d.mean(axis=1), d.mean(axis=0)
    variance = by_seed.var(ddof=ddof) / rows
    if both:
        variance = variance + by_input.var(ddof=ddof) / columns
    if counted == 1:
        rest = d - by_seed[:, None] - by_input + d.mean()
        noise = (rest**2).sum() / ((rows - noise_ddof) * (columns - noise_ddof))
        variance = variance - noise / (1 if squares == "undivided" else rows * columns)
    variance = np.maximum(variance, 0)
    return np.sqrt(variance) if root else variance


@question(
    "q3",
    points={"the sum": 1, "counted once": 3},
    hint="Write d = m + a_s + b_i + e_si. What do both variances estimate? How often is that of e in it?",
    forbids=("leaderboard.difference",),
    read="Who is better than whom?",
)
def noise_of_a_seed_and_an_input_is_counted_once(learner, seed):
    d = differences(seed)
    got = expect_parts(learner.call("errors_of_the_mean", d), ["the sum", "counted once"])
    shared = {
        "that is a variance: take its root": {"root": False},
        "few seeds: divide the squares by one less than there are": {"ddof": 0},
    }
    with part("the sum"):
        expect_close(
            got[0],
            lambda **slips: standard_error(d, **slips),
            what="the sum",
            mistakes={
                **shared,
                "only the seeds: the inputs could have been others, too": {"both": False},
                "all entries are not independent: those of one seed, and of one input, go together": d.std(
                    ddof=1
                )
                / np.sqrt(d.size),
            },
        )
    with part("counted once"):
        expect_close(
            got[1],
            lambda counted=1, **slips: standard_error(d, counted, **slips),
            what="counted once",
            mistakes={
                **shared,
                "that is the sum: the noise of a seed and an input is still in it twice": {"counted": 2},
                "the degrees of freedom of what is left: one less than there are seeds, times one less than "
                "there are inputs": {"noise_ddof": 0},
                "the noise of a mean of S N entries: divide its variance by S N": {"squares": "undivided"},
            },
        )


def totals(seed):
    """Total uncertainties over some decades, a few above what three or four members can disagree by."""
    rng = np.random.default_rng(seed)
    total = np.concatenate([10 ** rng.uniform(-3, -0.3, 30), rng.uniform(0.9, 1.9, 30)])
    return rng.permutation(total), rng.random(60), int(rng.integers(3, 5))


def split(total, u, members, bound=True, swapped=False):
    room = np.minimum(total, np.log(members)) if bound else total
    epistemic = u * room
    return (epistemic, total - epistemic) if swapped else (total - epistemic, epistemic)


def correlation(first, second, ranked=True):
    pair = [rankdata(first), rankdata(second)] if ranked else [first, second]
    return np.corrcoef(*pair)[0, 1]


@question(
    "q4",
    points={"the correlation": 2, "the lower bound": 2},
    hint="S models disagree by log S at most, and by the whole total. What of it is left then, at least?",
    forbids=(
        "leaderboard.forced_correlation",
        "leaderboard.split_at_random",
        "leaderboard.largest_epistemic",
    ),
    read="Two kinds, or one?",
)
def the_bounds_are_those_of_so_many_members(learner, seed):
    total, u, members = totals(seed)
    names = ["the correlation", "the lower bound"]
    got = expect_parts(learner.call("by_lot", total, u, members), names)

    def lots(ranked=True, **slips):
        return correlation(*split(total, u, members, **slips), ranked=ranked)

    with part("the correlation"):
        expect_close(
            got[0],
            lots,
            what=names[0],
            mistakes={
                "so few members cannot disagree by the whole total: by the logarithm of their number": {
                    "bound": False
                },
                "correlate the ranks, not the values": {"ranked": False},
                "the correlation with the total: it is asked between the two parts": correlation(
                    total, split(total, u, members)[1]
                ),
            },
        )

    def least(most=None, floor=0.0):
        return np.maximum(total - (np.log(members) if most is None else most), floor)

    with part("the lower bound"):
        expect_close(
            got[1],
            least,
            what=names[1],
            mistakes={
                "no entropy is negative: where that falls below zero, zero is the bound": {"floor": -np.inf},
                "that is for two members: their number is an argument": {"most": np.log(2)},
                "that bounds the epistemic part: the aleatoric one is at least what it leaves": np.minimum(
                    total, np.log(members)
                ),
                "in nats: the natural logarithm": {"most": np.log2(members)},
            },
        )


def leads(seed):
    """Costs, paired differences in loss (row minus column) and their half-widths, for eight methods."""
    rng = np.random.default_rng(seed)
    while True:
        cost = rng.integers(1, 6, size=8).astype(float)
        loss = rng.normal(size=8) - 0.25 * cost
        half = np.abs(rng.normal(0.5, 0.3, size=(8, 8)))
        half = (half + half.T) / 2
        lead = loss[:, None] - loss
        found = [
            fronts(cost, lead, half, **slip)
            for slip in (
                {},
                {"sure": False},
                {"flip": True},
                {"price": False},
                {"dearer": True},
                {"twice": True},
            )
        ]
        if all((a != b).any() for i, a in enumerate(found) for b in found[:i]):
            return cost, lead, half


def fronts(cost, lead, half, sure=True, flip=False, price=True, dearer=False, twice=False):
    """Who is not beaten for sure by somebody who costs no more."""
    lead = lead.T if flip else lead
    beaten = lead - (2 if twice else 1) * half * sure > 0
    if price:
        no_dearer = (cost < cost[:, None]) if dearer else (cost <= cost[:, None])
        beaten = beaten & no_dearer
    return ~beaten.any(axis=1)


@question(
    "q5",
    points=2,
    hint="i falls if some j has cost[j] <= cost[i] and the interval of i minus j lies above zero.",
    forbids=("leaderboard.pareto_front",),
    read="What does it cost?",
)
def only_a_lead_that_is_sure_takes_a_method_off_the_front(learner, seed):
    cost, lead, half = leads(seed)
    expect_close(
        learner.call("sure_front", cost, lead, half),
        lambda **slips: fronts(cost, lead, half, **slips),
        what="the front",
        mistakes={
            "the intervals do not count yet: a lead within its half-width beats nobody": {"sure": False},
            "the wrong way round: lead[i, j] is the loss of i minus that of j": {"flip": True},
            "the price is missing: who is dearer beats nobody": {"price": False},
            "equally cheap is cheap enough": {"dearer": True},
            "one half-width reaches from the middle to the end": {"twice": True},
            "that marks who is beaten: mark who is not": np.logical_not,
        },
    )


def shares(table, own=True, logs=True, reference=0):
    """Of how a measure responds to both causes, the part that the other cause has in it."""
    change = np.log(table[1:] / table[reference]) if logs else table[1:] - table[reference]
    change = np.abs(change)  # rows: label noise, fewer data; columns: aleatoric, epistemic
    stray = np.array([change[1, 0], change[0, 1]])
    right = np.array([change[0, 0], change[1, 1]])
    return stray / (stray + right) if own else stray / right


@question(
    "q6",
    points={"`stray`": 2},
    hint="Respond: |log(changed / standard)|. Aleatoric: its own cause is the label noise.",
    read="One cause at a time",
)
def what_follows_the_other_cause_is_measured(learner, seed):
    rng = np.random.default_rng(seed)
    table = rng.uniform([0.1, 0.02], [0.2, 0.05]) * np.exp(
        np.array([[0, 0], [1.2, 0.5], [0.3, 0.9]]) + 0.2 * rng.normal(size=(3, 2))
    )
    expect_close(
        learner.call("stray", table),
        lambda **slips: shares(table, **slips),
        what="the stray shares",
        mistakes={
            "a share of both responses, not of its own alone": {"own": False},
            "responses are logarithms of ratios: an epistemic part is much smaller than an aleatoric one": {
                "logs": False
            },
            "that is the share of its own cause: the other one's is asked for": lambda found: 1 - found,
            "aleatoric first, then epistemic": lambda found: found[::-1],
        },
    )


@question(
    "q6",
    points={"`independent`": 1},
    hint="Which of the two experiments can tell a shared cause from two causes that happen together?",
    read="One cause at a time",
)
def a_correlation_over_inputs_does_not_settle_it(learner, seed):
    expect_choice(
        learner.value("independent"),
        "neither",
        {
            "yes": "over inputs both causes may occur together: two good measures would then correlate, too",
            "no": "two measures of one thing may be uncorrelated where that thing hardly varies",
        },
        what="`independent`",
    )


q7 = manual(
    "q7",
    "A press release about the first place of a leaderboard: which doubts, and which table instead?",
    {
        "a lead within its interval, one test set, and a detector that was told what it is tested on": 1,
        "paired differences over seeds and inputs, an honest row beside the told one, further data sets": 1,
    },
)
