"""Checks of the exercise on failure prediction."""

import functools

import numpy as np

from uqhelpers.metrics import aurc

from .._engine import (
    as_number,
    as_numbers,
    expect,
    expect_close,
    expect_parts,
    manual,
    part,
    question,
)

AREAS = (
    "confidnet.failure_table",
    "metrics.aurc",
    "metrics.eaurc",
    "metrics.augrc",
    "metrics.risk_coverage",
    "metrics.selective._area",
)


@question(
    "q1",
    points={"the least": 2, "the greatest": 1},
    hint="The predicted class holds m, the true one at most as much; what do C - 2 others leave it at least?",
    read="The confidence one would like to have",
)
def the_range_of_a_wrong_answer_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    for classes in (3, int(rng.integers(4, 8))):
        low, high = 1 / classes, 1 / (classes - 1)  # between these the least is above zero
        few = low + (high - low) * rng.uniform(0.1, 0.9, 4)
        m = np.concatenate([few, rng.uniform(0.51, 0.95, 4)])
        got = expect_parts(learner.call("wrong_range", m, classes), ["the least", "the greatest"])
        with part("the least"):
            expect_close(
                got[0],
                np.maximum(0, 1 - (classes - 1) * m),
                what="the least",
                mistakes=wrong_least(m, classes),
            )
        with part("the greatest"):
            expect_close(
                got[1],
                np.minimum(m, 1 - m),
                what="the greatest",
                mistakes={
                    "more than the predicted class has: then it would have been predicted": 1 - m,
                    "more than the predicted class leaves: all of them sum to one": m,
                    "one half bounds it always; with m known it can be said more exactly": np.full(
                        len(m), 0.5
                    ),
                },
            )


def wrong_least(m, classes):
    """The known mistakes of the least true class probability of a wrong answer."""
    found = {
        "below zero: a probability cannot be": 1 - (classes - 1) * m,
        "zero only where the others can hold the rest: none of them may exceed m": np.zeros(len(m)),
        "that is the average of the others, not the least that one of them can have": (1 - m) / (classes - 1),
    }
    if classes != 3:
        text = "right for three classes only: `classes` says how many there are"
        found[text] = np.maximum(0, 1 - 2 * m)
    return found


def tied_answers(seed, n=120, levels=15):
    """Confidences of which many are equal; the low ones are wrong more often."""
    rng = np.random.default_rng(seed)
    confidence = rng.choice(np.linspace(0.25, 0.95, levels), size=n)
    return confidence, rng.random(n) < 0.1 + 0.7 * (1 - confidence)


def whatever_the_file(learner, name, confidence, wrong, *rest):
    """The learner's answer for a file with the right answers first; `Failed` if the order matters to it."""
    order = np.argsort(wrong, kind="stable")
    first, second = (
        as_numbers(learner.call(name, confidence[o], wrong[o], *rest)) for o in (order, order[::-1])
    )
    expect(
        first.shape != second.shape or np.allclose(first, second, equal_nan=True),
        "it depends on the order in the file: answers of equal confidence cannot be parted",
    )
    return first.tolist()


@question(
    "q2",
    points=3,
    hint="Halfway through a tied group, expect half of its errors. What is the risk of a ranking by lot?",
    forbids=AREAS,
    read="What does rejecting buy?",
)
def the_share_of_excess_is_right(learner, seed):
    confidence, wrong = tied_answers(seed)
    n, rate, k = len(wrong), wrong.mean(), np.arange(1, len(wrong) + 1)
    errors, perfect = slipped(confidence, wrong), np.cumsum(np.sort(wrong))
    fair, best = np.mean(errors / k), np.mean(perfect / k)
    worst = np.mean(np.cumsum(np.sort(wrong)[::-1]) / k)

    def share(area, best=best, lot=rate):
        return (area - best) / (lot - best)

    def by_turns(first):
        return share(np.mean(np.cumsum(wrong[np.lexsort((~first, -confidence))]) / k))

    expect_close(
        whatever_the_file(learner, "excess", confidence, wrong),
        share(fair),
        mistakes={
            "that accepts right answers first where confidences are tied: all orders count": by_turns(~wrong),
            "that accepts wrong answers first where confidences are tied: all orders count": by_turns(wrong),
            "all of a tied group have the risk at its end there: inside it, k still grows one by one": share(
                aurc(-confidence, wrong)
            ),
            "that is the E-AURC itself: divide by the one of a ranking by lot": fair - best,
            "the best is subtracted above only: measure the ranking by lot from it too": (fair - best) / rate,
            "nothing is subtracted: measure both from the perfect ranking": fair / rate,
            "all errors first is the worst order, not a random one": share(fair, lot=worst),
            "upside down: the perfect ranking has 0, one that knows nothing has 1": 1 - share(fair),
            "the least sure come first: accept the surest first": share(
                np.mean(slipped(-confidence, wrong) / k)
            ),
            "the continuous formula for the perfect ranking: compute it for these N answers": share(
                fair, best=rate + (1 - rate) * np.log1p(-rate)
            ),
            "divided by N, where the risk divides by the number accepted": share(
                errors.mean() / n, best=perfect.mean() / n
            ),
        },
    )


def slipped(confidence, wrong):
    """Errors among the k surest, k from 1 to N, as expected over all orders of the tied."""
    _, group = np.unique(-confidence, return_inverse=True)
    ends, errors = (np.append(0, np.bincount(group, each).cumsum()) for each in (None, wrong))
    return np.interp(np.arange(1, len(wrong) + 1), ends, errors)


BUDGETS = (0, 7, 1000)


def right_that_pass(confidence, wrong, budget):
    """The largest share of the right, of all thresholds that keep to the budget."""
    thresholds = [np.inf, *np.unique(confidence)]
    allowed = [t for t in thresholds if np.sum(confidence[wrong] >= t) <= budget]
    return max(np.mean(confidence[~wrong] >= t) for t in allowed)


def wrong_budgets(confidence, wrong):
    """The right shares for three budgets under "", and those of the known mistakes."""
    bad, good = (np.sort(confidence[which])[::-1] for which in (wrong, ~wrong))
    share = np.array([right_that_pass(confidence, wrong, budget) for budget in BUDGETS])
    at_next, at_last = np.mean(good >= bad[7]), np.mean(good >= bad[6])
    return {
        "": share,
        "one error too many passes: the next wrong answer must stay below the threshold": np.array(
            [np.mean(good >= bad[0]), at_next, 1]
        ),
        "the threshold can fall further, until the next wrong answer would pass": np.array(
            [share[0], at_last, 1]
        ),
        "a share of all answers, where a share of the right ones is meant": share * np.mean(~wrong),
        "that is the share that is handed over: how many of the right pass?": 1 - share,
        "the roles are exchanged: the budget is for the wrong, the share of the right": np.array(
            [right_that_pass(confidence, ~wrong, budget) for budget in BUDGETS]
        ),
        "the least sure pass there: an answer passes if it is sure enough": np.array(
            [right_that_pass(-confidence, wrong, budget) for budget in BUDGETS]
        ),
        "that is FPR95: here the errors are given, and the right ones asked for": np.full(
            3, np.mean(bad >= good[int(np.ceil(0.95 * len(good))) - 1])
        ),
    }


@functools.lru_cache(maxsize=32)
def budget_case(seed):
    """Answers for which every known mistake has another result."""
    for draw in np.random.SeedSequence(seed).generate_state(1000):
        case = tied_answers(draw, n=80, levels=40)
        if apart(wrong_budgets(*case)):
            return case
    raise AssertionError("expected a case in a thousand draws")


def apart(results):
    """Whether no two of some results are the same."""
    found = list(results.values())
    return all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(found) for b in found[:i])


@question(
    "q3",
    points=2,
    hint="Which wrong answer must not pass any more? Every right one that is surer than it may.",
    forbids=("confidnet.failure_table", "metrics.fpr95", "metrics.risk_coverage"),
    read="Can a threshold tell right from wrong?",
)
def the_budget_buys_what_it_can(learner, seed):
    case = budget_case(seed)
    results = wrong_budgets(*case)
    want = results.pop("")
    got = [whatever_the_file(learner, "served", *case, budget) for budget in BUDGETS]
    expect_close(got, want, mistakes=results, what="the share of the right")


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


@question(
    "q4",
    points=2,
    hint="Look at the shapes before the subtraction, and ask which entry of the probabilities is the target.",
    forbids=("confidnet.confidence_loss", "confidnet.true_class_probability"),
    read="ConfidNet from scratch",
)
def the_loss_is_mended(learner, seed):
    rng = np.random.default_rng(seed)
    probs, labels = rng.dirichlet(np.ones(4), size=30), rng.integers(4, size=30)
    logits = rng.normal(size=(30, 1))
    said, truth = sigmoid(logits[:, 0]), probs[np.arange(30), labels]
    top, right = probs.max(axis=1), probs.argmax(axis=1) == labels
    squares = (said - truth) ** 2
    expect_close(
        learner.call("loss", logits, probs, labels),
        squares.mean(),
        mistakes={
            "(N, 1) against (N,) makes an N × N table: every answer is compared with every target": np.mean(
                (said[:, None] - truth) ** 2
            ),
            "the target is still the largest probability: it has to be that of the true class": np.mean(
                (said - top) ** 2
            ),
            "the table and the target are both still wrong": np.mean((said[:, None] - top) ** 2),
            "the target is a probability, not whether the answer was right": np.mean((said - right) ** 2),
            "a sum, where the mean is meant": squares.sum(),
            "the sigmoid is missing: a logit is no confidence": np.mean((logits[:, 0] - truth) ** 2),
            "a distance, where its square is asked for": np.abs(said - truth).mean(),
        },
    )


@functools.lru_cache(maxsize=32)
def outsiders(seed):
    """Three crowded classes, each with some inputs that live elsewhere; every known mistake shows."""
    for draw in np.random.SeedSequence(seed).generate_state(1000):
        rng = np.random.default_rng(draw)
        known_labels = rng.permutation(np.arange(54) % 3)
        centres = 2.5 * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.9]])
        known = centres[known_labels] + rng.standard_t(2, size=(54, 2)) * 0.6
        points, predicted = centres.mean(axis=0) + 1.5 * rng.normal(size=(40, 2)), rng.integers(3, size=40)
        case = points, predicted, known, known_labels, 3, 4
        if apart(wrong_trusts(*case)):
            return case
    raise AssertionError("expected a case in a thousand draws")


def wrong_trusts(points, predicted, known, known_labels, k, drop):
    """The right ratios under "", and those of the known mistakes."""
    among = np.linalg.norm(known[:, None] - known, axis=-1)
    same = known_labels[:, None] == known_labels
    ranked = np.sort(np.where(same, among, np.inf), axis=1)
    middle = np.stack([known[known_labels == c].mean(axis=0) for c in range(3)])

    def nearest(radius, rivals=same, most=drop, gone=3 * drop):
        keep = np.sum((radius > radius[:, None]) & rivals, axis=1) >= most
        if np.sum(~keep) != gone:  # two inputs are each other's neighbour: either might go
            return np.full((len(points), 3), np.nan)
        distance = np.linalg.norm(points[:, None] - known[keep], axis=-1)
        return np.stack([distance[:, known_labels[keep] == c].min(axis=1) for c in range(3)], axis=1)

    right = nearest(ranked[:, k])
    own, want = right[np.arange(len(points)), predicted], ratio(right, predicted)
    others = {
        "nobody is left out: the loneliest of each class go first": nearest(ranked[:, k], most=0, gone=0),
        "an input is no neighbour of itself: the first place in the row is its own": nearest(
            ranked[:, k - 1]
        ),
        "the most crowded are left out: leave out those whose neighbour is far": nearest(-ranked[:, k]),
        "the mean distance to the k nearest: take that to the k-th": nearest(
            ranked[:, 1 : k + 1].mean(axis=1)
        ),
        "neighbours of all classes: an outsider is lonely among its own": nearest(
            np.sort(among, axis=1)[:, k]
        ),
        "far from the middle of its class is not lonely: ask for the k-th neighbour": nearest(
            np.linalg.norm(known - middle[known_labels], axis=1)
        ),
        "the loneliest of each class, not of all together": nearest(
            ranked[:, k], rivals=np.full_like(same, True), most=3 * drop
        ),
    }
    return {
        "": want,
        **{text: ratio(distances, predicted) for text, distances in others.items()},
        "upside down: far from others and near to its own class is to be trusted": 1 / want,
        "squared distances: take the root": want**2,
        "the predicted class is among the others: leave it out there": right.min(axis=1) / own,
        "the farthest of the other classes: the nearest of them is the rival": np.where(
            np.arange(3) == predicted[:, None], 0, right
        ).max(axis=1)
        / own,
    }


@question(
    "q5",
    points=3,
    hint="Sort each input's distances within its class: first its own 0, the k-th neighbour at place k.",
    forbids=("confidnet.TrustScore",),
    read="Rivals that cost little",
)
def the_trust_score_without_outsiders_is_right(learner, seed):
    case = outsiders(seed)
    results = wrong_trusts(*case)
    want = results.pop("")
    expect_close(learner.call("trust", *case), want, mistakes=results, what="the trust score")


def ratio(distances, predicted):
    own = np.arange(distances.shape[1]) == predicted[:, None]
    return np.where(own, np.inf, distances).min(axis=1) / distances[own]


def cheapest(confidence, wrong, person, slips=0.0, most=None):
    """Least cost of an answer, on average, over all thresholds that hand over at most so many."""
    slipped = np.append(0, np.cumsum(wrong[np.argsort(-confidence)]))
    handed = np.arange(len(wrong), -1, -1)
    cost = slipped + (person + slips) * handed
    return cost[handed <= (len(wrong) if most is None else most)].min() / len(wrong)


@functools.lru_cache(maxsize=32)
def offers(seed):
    """Two systems where the number of people binds and does not, and one that is best not used."""
    rng = np.random.default_rng(seed)
    confidence = rng.permutation(np.linspace(0.3, 0.99, 200))
    wrong = rng.random(200) < 0.7 * (1 - confidence) ** 0.7
    sure = rng.permutation(np.linspace(0.3, 0.99, 150))
    people = [(rng.uniform(0.1, 0.2), rng.uniform(0.05, 0.15)) for _ in range(3)]
    return [
        (confidence, wrong, *people[0], 15),
        (confidence, wrong, *people[1], 200),
        (sure, np.full(150, True), *people[2], 150),
    ]


@question(
    "q6",
    points={"`price`": 2},
    hint="For every k: e_k mistakes slip through, N - k answers go to a person. k may be 0 and may be N.",
    read="What the images are best spent on",
)
def the_price_with_few_and_fallible_people_is_right(learner, seed):
    cases = offers(seed)

    def prices(order=1, average=True, paid=1, fallible=1, few=True):
        found = []
        for confidence, wrong, person, slips, most in cases:
            one = cheapest(order * confidence, wrong, paid * person, fallible * slips, most if few else None)
            found.append(one if average else one * len(wrong))
        return np.array(found)

    got = np.array([as_number(learner.call("price", *case), "the price") for case in cases])
    want = prices()
    expect(
        not (np.allclose(got[:2], want[:2]) and got[2] > want[2] + 1e-6),
        "keeping nothing is a choice too: a system that is always wrong is best not used",
    )
    expect_close(
        got,
        prices,
        what="the price",
        mistakes={
            "the least sure are kept: keep the surest": {"order": -1},
            "that is the price of the whole lot: divide by the number of answers": {"average": False},
            "the person is not paid: every answer handed over costs": {"paid": 0},
            "people err too: what they get wrong costs as well": {"fallible": 0},
            "people are few: at most so many answers can be handed over": {"few": False},
            "nothing is handed over: look for the best threshold": np.array([c[1].mean() for c in cases]),
        },
        atol=1e-9,
    )


def overtaking(wrong_a, wrong_b, reverse=False):
    """The least cost of a person, to a thousandth or better, from which on B is the cheaper; NaN if none."""
    place = np.arange(len(wrong_a)) * (1.0 if reverse else -1.0)
    low, high = 0.0, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        cheaper = cheapest(place, wrong_b, middle) < cheapest(place, wrong_a, middle)
        low, high = (low, middle) if cheaper else (middle, high)
    return high


@functools.lru_cache(maxsize=32)
def two_systems(seed):
    """Many errors that are easy to spot, and few that are scattered; one price parts them."""
    place = np.arange(200)
    for draw in np.random.SeedSequence(seed).generate_state(1000):
        rng = np.random.default_rng(draw)
        a = place >= 200 - rng.integers(30, 50)
        a[rng.choice(120, 2, replace=False)] = True
        chance = (place + 60.0) / np.sum(place + 60.0)
        b = np.isin(place, rng.choice(200, rng.integers(14, 24), replace=False, p=chance))
        grid = np.linspace(0.01, 0.99, 50)
        ahead = np.array([cheapest(-place, b, c) < cheapest(-place, a, c) for c in grid])
        answers = [overtaking(a, b), b.mean() / a.mean(), b.mean(), overtaking(a, b, reverse=True)]
        once = not ahead[0] and ahead[-1] and np.sum(ahead[1:] != ahead[:-1]) == 1
        if once and min(abs(x - y) for i, x in enumerate(answers) for y in answers[:i]) > 0.02:
            return a, b
    raise AssertionError("expected a case in a thousand draws")


@question(
    "q6",
    points={"`overtaken_at`": 2},
    hint="Compute both prices at two costs between which the cheaper one changes; then halve that gap.",
    read="What the images are best spent on",
)
def the_price_of_overtaking_is_found(learner, seed):
    a, b = two_systems(seed)
    expect_close(
        as_number(learner.call("overtaken_at", a, b), "the cost"),
        lambda **slips: overtaking(a, b, **slips),
        what="the cost",
        mistakes={
            "the ratio of the error rates: that would be it if A ranked perfectly, and B not at all": b.mean()
            / a.mean(),
            "everything kept or everything handed over: the best threshold lies between": b.mean(),
            "the least sure answers are kept: keep the surest": {"reverse": True},
        },
        rtol=0,
        atol=1.5e-3,
    )


@question(
    "q7",
    points=1,
    hint="Write AUGRC by error rate and AUROC, once for each system, and solve for the AUROC of the second.",
    read="What does rejecting buy?",
)
def the_auroc_that_ties_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    rate_a, rate_b = rng.uniform(0.05, 0.2, size=(2, 6))
    auroc_a = rng.uniform(0.7, 0.95, size=6)

    def needed(pairs=0.5, mixed=1):
        augrc = (1 - auroc_a) * mixed * rate_a * (1 - rate_a) + pairs * rate_a**2
        return 1 - (augrc - pairs * rate_b**2) / (mixed * rate_b * (1 - rate_b))

    expect_close(
        learner.call("needed_auroc", rate_a, auroc_a, rate_b),
        needed,
        what="the AUROC",
        mistakes={
            "that is 1 minus the AUROC": lambda right: 1 - right,
            "pairs of two wrong answers are missing: half of the squared error rate": {"pairs": 0.0},
            "of two wrong answers, either may be the surer: half of the squared error rate": {"pairs": 1.0},
            "the first is wrong and the second right in r (1 - r) of all draws, not twice that": {"mixed": 2},
        },
    )


q8 = manual(
    "q8",
    "A learned confidence with a splendid AUPR-Error: what do you ask before you buy it?",
    {
        "the prevalence or number of errors, and the baseline on the same answers": 1,
        "what it was trained on, and whether the failures at work are of that kind": 1,
    },
)
