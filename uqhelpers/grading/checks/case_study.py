"""Checks of the exercise on the case study: prices, a draw of one's own, and alarms."""

import functools

import numpy as np

from uqhelpers import case_study

from .._engine import expect_close, expect_parts, manual, part, question

own_draw = functools.cache(
    case_study.own_draw
)  # the right answers ask for the same few draws again and again


def asking(miss, needless, person, slips, low_slips=True, high_slips=True, swapped=False, empty=True):
    """Between which probabilities a person who overlooks a share of the cancers is the cheapest."""
    if swapped:
        miss, needless = needless, miss
    low = person / (miss * (1 - slips * low_slips))
    high = (needless - person) / (needless + slips * high_slips * miss)
    if empty and low >= high:
        low = high = needless / (miss + needless)
    return low, high


def bills(seed):
    """Prices at which a person is worth asking somewhere, and one at which not."""
    rng = np.random.default_rng(seed)
    useful = [
        (float(rng.uniform(10, 30)), 1.0 * rng.uniform(0.8, 1.5), float(rng.uniform(0.1, 0.25)), s)
        for s in rng.uniform(0.02, 0.08, 3)
    ]
    return [tuple(map(float, bill)) for bill in useful], (
        float(rng.uniform(8, 25)),
        1.0,
        float(rng.uniform(0.8, 0.9)),
        0.3,
    )


@question(
    "q1",
    points={"the lower end": 1, "the upper end": 1, "nobody is asked": 1},
    hint="Asking costs person + slips * p * miss. Where does that equal p * miss? And (1 - p) * needless?",
    read="A person with a budget",
)
def a_person_who_errs_is_asked_less_often(learner, seed):
    useful, dear = bills(seed)
    got = [expect_parts(learner.call("zone", *bill), ["low", "high"]) for bill in [*useful, dear]]
    slips = {
        "that is a person who never errs: what is overlooked costs a miss": {
            "low_slips": False,
            "high_slips": False,
        },
        "the two prices have changed places": {"swapped": True},
    }
    for place, name in enumerate(("the lower end", "the upper end")):
        with part(name):
            expect_close(
                [pair[place] for pair in got[:3]],
                lambda place=place, **changes: [asking(*bill, **changes)[place] for bill in useful],
                what=name,
                mistakes={
                    **slips,
                    "one minus the other: probability of the other event": lambda found: (
                        1 - np.asarray(found)
                    ),
                },
            )
    with part("nobody is asked"):
        expect_close(
            got[3],
            lambda **changes: asking(*dear, **changes),
            what="the ends where nobody is asked",
            mistakes={
                "the ends have crossed: then nobody is asked, and both are the threshold": {"empty": False},
                "both are the threshold, and that is no half": [0.5, 0.5],
                "the two prices have changed places": {"swapped": True},
            },
        )


@functools.cache
def day_of(
    register, miss, needless, person, budget, places, part_of="choose", order="arrival", seen=True, new=True
):
    """What the report rows of a draw cost, one after the other, with so many places at the person's."""
    draw = own_draw(register)
    doubts = case_study.expected_price(draw[part_of][0], miss, needless)
    limit = case_study.referral_limit(doubts, budget) if new else np.quantile(doubts, 1 - budget)
    probs, events = draw["report"]
    own = case_study.expected_price(probs, miss, needless)
    asked = np.flatnonzero(own > limit)
    asked = asked[np.argsort(-own[asked], kind="stable")] if order == "doubt" else asked
    asked = asked[:places] if seen else asked
    acted = probs >= case_study.cost_threshold(miss, needless)
    cost = miss * (events & ~acted) + needless * (~events & acted)
    alone = cost.mean()
    cost = np.where(np.isin(np.arange(len(cost)), asked), person, cost)
    return np.array([alone, len(asked), cost.mean()])


@functools.cache
def registers(seed):
    """Draws in which the places run out, and in which every known mistake is seen."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < 3:
        bill = (int(rng.integers(10**6)), float(rng.integers(8, 25)), 1.0, 0.2, 0.15, int(rng.integers(4, 8)))
        right = day_of(*bill)
        wrong = [
            day_of(*bill, **change)
            for change in ({"order": "doubt"}, {"seen": False}, {"part_of": "report"}, {"new": False})
        ]
        apart = len({round(w[2], 9) for w in [right, *wrong]}) == 1 + len(wrong)
        if right[0] > 0 and apart and wrong[1][1] != right[1]:
            found.append(bill)
    return found


@question(
    "q2",
    points={"the price alone": 1, "the price with a person": 2},
    hint="The limit is a conformal quantile of the doubts of the rows to choose by; then walk on.",
    read="A person with a budget",
)
def a_budget_is_set_on_other_rows_and_places_run_out(learner, seed):
    bills = registers(seed)
    names = ["the price alone", "the price with a person"]
    got = [expect_parts(learner.call("my_day", *bill), names) for bill in bills]

    def days(place):
        return lambda **changes: [day_of(*bill, **changes)[place] for bill in bills]

    with part(names[0]):
        expect_close(
            [pair[0] for pair in got],
            days(0),
            what=names[0],
            mistakes={
                "a mean over the patients is asked for, not a sum": [
                    day_of(*bill)[0] * len(own_draw(bill[0])["report"][0]) for bill in bills
                ],
                "that is the threshold of one half: take the one of the prices": [
                    habit(bill, 0.5) for bill in bills
                ],
                "that is what is expected to be paid: what was paid follows from what came": [
                    case_study.expected_price(own_draw(bill[0])["report"][0], bill[1], bill[2]).mean()
                    for bill in bills
                ],
            },
        )
    with part(names[1]):
        expect_close(
            [pair[1] for pair in got],
            days(2),
            what=names[1],
            mistakes={
                "the places go to who comes first: nobody knows how doubtful later patients will be": {
                    "order": "doubt"
                },
                "the places run out": {"seen": False},
                "the limit was set on the rows that are reported": {"part_of": "report"},
                "that share of the rows to choose by: a new patient takes a place, too": {"new": False},
                "the limit is set on the rows to choose by, not on those that the promise is made with": {
                    "part_of": "promise"
                },
            },
        )


def habit(bill, threshold):
    probs, events = own_draw(bill[0])["report"]
    return case_study.price(probs >= threshold, events, bill[1], bill[2])


def weeks(seed):
    """Days of several patients each, rounded so that days tie."""
    rng = np.random.default_rng(seed)
    effect = rng.normal(size=(26, 1))
    scores = np.round(effect + 0.7 * rng.normal(size=(26, 4)), 0)
    return scores[:10], scores[10:], rng.uniform(0.05, 0.95, 16)


def day_ranks(past, days, u, fixed=False, itself=True, ties=True, below=False, average=np.mean):
    known, found = list(average(past, axis=1)), []
    for score, chance in zip(average(days, axis=1), u, strict=True):
        among = np.array(known)
        above = np.sum(among < score) if below else np.sum(among > score)
        equal = np.sum(among == score)
        top = above + (chance * (equal + itself) if ties else equal + itself)
        found.append(top / (len(known) + itself))
        if not fixed:
            known.append(score)
    return np.array(found)


@question(
    "q3",
    points=3,
    hint="One number a day; then count the days above it, its own among those that it ties with.",
    forbids=("case_study.online_p_values", "case_study.Ranks"),
    read="Ranks again",
)
def what_belongs_together_is_ranked_together(learner, seed):
    past, days, u = weeks(seed)
    expect_close(
        learner.call("day_ranks", past, days, u),
        lambda **changes: day_ranks(past, days, u, **changes),
        what="the ranks of the days",
        mistakes={
            "ranked among the first days alone: each day joins those that later ones are ranked among": {
                "fixed": True
            },
            "the new day takes a place, too": {"itself": False},
            "ties are broken with `u`: that is the largest rank that the day could have": {"ties": False},
            "ranked from below: small means that few days are as high": {"below": True},
            "the mean of a day is asked for, not its largest score": {"average": np.max},
        },
    )


def growth(alpha, factor, true, swapped=False, log=np.log):
    rate = alpha if swapped else true
    return rate * log(factor) + (1 - rate) * log((1 - alpha * factor) / (1 - alpha))


def cases(alpha, true, rate, log=np.log, whole=np.ceil):
    return whole(np.log(1 / rate) / growth(alpha, true / alpha, true, log=log))


@question(
    "q4",
    points={"the growth": 2, "the cases": 1},
    hint="A miss multiplies the stake by `factor`; what does a hit? Average the logarithms.",
    read="Bets",
)
def a_stake_grows_by_a_divergence(learner, seed):
    rng = np.random.default_rng(seed)
    alpha = rng.uniform(0.05, 0.15, 4)
    factor, true = rng.uniform(1.5, 2.5, 4), alpha * rng.uniform(2.0, 4.0, 4)
    rate = rng.uniform(0.01, 0.1, 4)
    names = ["the growth", "the cases"]
    got = [
        expect_parts(learner.call("pace", *map(float, row)), names)
        for row in zip(alpha, factor, true, rate, strict=True)
    ]
    with part("the growth"):
        expect_close(
            [pair[0] for pair in got],
            lambda **changes: growth(alpha, factor, true, **changes),
            what="the growth",
            mistakes={
                "that is a quiet year's: sets now miss a share `true`": {"swapped": True},
                "natural logarithms": {"log": np.log2},
                "the mean of the factors: a stake that is multiplied grows by the mean of its logarithm": (
                    true * factor + (1 - true) * (1 - alpha * factor) / (1 - alpha)
                ),
                "a hit pays, too, and less than 1": true * np.log(factor),
            },
        )
    with part("the cases"):
        expect_close(
            [pair[1] for pair in got],
            lambda **changes: cases(alpha, true, rate, **changes),
            what="the cases",
            mistakes={
                "whole cases: round up": {"whole": lambda n: n},
                "natural logarithms": {"log": np.log2},
                "with the best bet against `true`, whose factor is not the one that was given": np.ceil(
                    np.log(1 / rate) / growth(alpha, factor, true)
                ),
            },
        )


def shares(rate, alarms, clinics, years, union=True, power=1.0, over="all"):
    count = alarms * clinics * (1 if over == "one year" else years)
    return rate / count if union else 1 - (1 - rate) ** (power / count)


@question(
    "q5",
    points={"whatever depends on what": 1, "if all are independent": 1},
    hint="The chance of at least one false alarm: bounded by a sum, or one minus the chance of none.",
    read="Which alarm hears what?",
)
def a_rate_is_shared_by_all_that_may_ring(learner, seed):
    rng = np.random.default_rng(seed)
    rows = [
        (float(rng.uniform(0.02, 0.3)), *map(int, rng.integers([2, 2, 3], [5, 30, 12]))) for _ in range(4)
    ]
    names = ["whatever depends on what", "if all are independent"]
    got = [expect_parts(learner.call("rate_of_each", *row), names) for row in rows]
    for place, name in enumerate(names):
        with part(name):
            expect_close(
                [pair[place] for pair in got],
                lambda place=place, **changes: [
                    shares(*row, **{"union": place == 0, **changes}) for row in rows
                ],
                what=name,
                mistakes={
                    "the years count, too: the chance is over all of them": {"over": "one year"},
                    (
                        "that supposes that alarms are independent: two on one stream are not"
                        if place == 0
                        else "that holds whatever depends on what, and is a little too careful here"
                    ): {"union": place == 1},
                    "that is the chance of any false alarm: what may each of them have?": [
                        1 - (1 - row[0]) ** np.prod(row[1:]) for row in rows
                    ],
                },
            )


def stakes(n, k, misses, factor, learn=True, first=1, miss_share=True, logs=True):
    before = np.concatenate([[0], np.cumsum(misses)[:-1]]) if learn else np.zeros(len(misses))
    seen = np.arange(len(misses)) if learn else 0
    chance = ((n + 1 - k if miss_share else k) + before) / (n + first + seen)
    chance = np.broadcast_to(chance, len(misses))
    factors = np.where(misses, factor, (1 - factor * chance) / (1 - chance))
    path = np.cumsum(np.log(factors))
    return chance, path if logs else np.exp(path)


def served(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 120))
    k = int(np.ceil((n + 1) * 0.9))
    return n, k, rng.random(40) < 0.12, float(rng.uniform(1.5, 2.5))


@question(
    "q6",
    points={"the chances": 2, "the stake": 1},
    hint="Rank the new score among the n scores and those that came: in how many of the places is it a miss?",
    forbids=("case_study.miss_chances",),
    read="Where it breaks",
)
def a_fixed_threshold_is_an_urn(learner, seed):
    n, k, misses, factor = served(seed)
    names = ["the chances", "the stake"]
    got = expect_parts(learner.call("mended", n, k, misses, factor), names)
    common = {
        "what came tells how lucky the calibration set was: count it in": {"learn": False},
        "the new score takes a place, too: n + 1 places at the start": {"first": 0},
    }
    with part("the chances"):
        expect_close(
            got[0],
            lambda **changes: stakes(n, k, misses, factor, **changes)[0],
            what="the chances",
            mistakes={**common, "that is the chance of a hit": lambda found: 1 - found},
        )
    with part("the stake"):
        expect_close(
            got[1],
            lambda **changes: stakes(n, k, misses, factor, **changes)[1],
            what="the stake",
            mistakes={
                **common,
                "the logarithm of the stake is asked for": {"logs": False},
            },
        )


q7 = manual(
    "q7",
    "The report on your own draw: what do you sign, on which evidence, and what would make you withdraw it?",
    {
        "threshold, price and referral, each with the rows it was chosen on and judged on": 1,
        "what so few rows cannot tell: an interval for the sensitivity, and over other draws": 1,
        "an alarm with its rate, what it cannot hear, and what is done when it rings": 1,
    },
)
