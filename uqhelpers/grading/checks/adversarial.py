"""Checks of the exercise on adversarial inputs."""

import numpy as np
from scipy.special import expit
from scipy.stats import beta, norm

from .._engine import expect_close, expect_parts, manual, part, question

ATTACKS = ("adversarial.fgsm", "adversarial.pgd")


def round_step(gradient, epsilon, own=True, scaled=True):
    """The best change of a Euclidean length; ``own`` is whether each input has its own."""
    length = np.linalg.norm(gradient, axis=1, keepdims=True) if own else np.linalg.norm(gradient)
    return epsilon * gradient / (length if scaled else 1)


def single_step(gradient, epsilon, absolute=True, signed=True):
    """The best change of a total: all of it in one coordinate."""
    place = (np.abs(gradient) if absolute else gradient).argmax(axis=1)
    one = np.eye(gradient.shape[1])[place]
    return epsilon * one * (np.sign(gradient) if signed else 1)


@question(
    "q1",
    points={"the Euclidean budget": 1, "the total budget": 2},
    hint="A sum of products is largest where the change is parallel, or where it is all in the best place.",
    forbids=ATTACKS,
    read="One step",
)
def other_budgets_have_other_steps(learner, seed):
    rng = np.random.default_rng(seed)
    gradient, epsilon = rng.normal(size=(7, 5)), float(rng.uniform(0.2, 0.6))
    gradient[::2, 2] -= 3
    gradient[1::2, 4] += 3  # so that the largest value is not the largest size
    names = ["the Euclidean budget", "the total budget"]
    got = expect_parts(learner.call("best_changes", gradient, epsilon), names)
    with part(names[0]):
        expect_close(
            got[0],
            lambda **slips: round_step(gradient, epsilon, **slips),
            what=names[0],
            mistakes={
                "that is the step of the box: here the length counts": epsilon * np.sign(gradient),
                "each input has a length of its own": {"own": False},
                "the gradient is not brought to the length of the budget": {"scaled": False},
                "the sign: the loss is to rise": np.negative,
            },
        )
    with part(names[1]):
        expect_close(
            got[1],
            lambda **slips: single_step(gradient, epsilon, **slips),
            what=names[1],
            mistakes={
                "spread over all coordinates, the budget gains only their average": epsilon
                * np.sign(gradient)
                / gradient.shape[1],
                "in proportion to the gradient it is spent on small entries too": epsilon
                * gradient
                / np.abs(gradient).sum(axis=1, keepdims=True),
                "a large negative entry is as good as a large positive one": {"absolute": False},
                "the direction is lost: the entry's sign decides": {"signed": False},
                "down the loss: the loss is to rise": np.negative,
            },
        )


def bounded_case(seed):
    """Pixels of which some are near to an end of their range."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.uniform(-0.15, 1.15, size=(8, 6)), 0.01, 0.99)
    return x, rng.choice([-1, 1], size=8), rng.normal(size=6) * 2, float(rng.normal()), 0.25


def worst_loss(x, y, w, b, epsilon, bounded=True, opposite=False, common=False, sign=1, budget=1.0):
    """The largest logistic loss within the budget and the range of the pixels."""
    up = -y[:, None] * np.sign(w) * (-1 if opposite else 1) > 0
    room = np.where(up, 1 - x, x)
    if common:
        room = room.min(axis=1, keepdims=True)
    reach = budget * (np.minimum(epsilon, room) if bounded else np.full_like(x, epsilon))
    return np.logaddexp(0, -(y * (x @ w + b) - sign * (np.abs(w) * reach).sum(axis=1)))


@question(
    "q2",
    points=3,
    hint="How far can each pixel go on its own, in the direction that hurts? The loss grows as y f falls.",
    forbids=ATTACKS,
    read="One step",
)
def the_worst_case_respects_the_range(learner, seed):
    case = bounded_case(seed)
    expect_close(
        learner.call("worst_loss", *case),
        lambda **slips: worst_loss(*case, **slips),
        what="the worst loss",
        mistakes={
            "pixels leave their range: near an end there is less room than the budget": {"bounded": False},
            "the room is taken on the other side of the pixel": {"opposite": True},
            "each pixel has room of its own, not that of the narrowest": {"common": True},
            "that is the best case: the attacker lowers y f": {"sign": -1},
            "that is the loss before anybody pushed": {"budget": 0.0},
        },
    )


def average_gradient(x, y, weights, each=False, logits=False, logarithm=True):
    """Of minus the logarithm of the averaged probability of the label."""
    if logits:
        mean = weights.mean(axis=0)
        return -(expit(-y * (x @ mean)) * y)[:, None] * mean
    p = expit(y[:, None] * (x @ weights.T))  # (N, S)
    if each:
        return -((1 - p) * y[:, None]) @ weights / len(weights)
    slope = -(p * (1 - p) * y[:, None]) @ weights / len(weights)
    return slope / p.mean(axis=1, keepdims=True) if logarithm else slope


@question(
    "q3",
    points=3,
    hint="The logarithm is outside of the average: derive -log of a mean, then the mean.",
    forbids=ATTACKS,
    read="Averages are attacked through the average",
)
def the_average_is_attacked_through_the_average(learner, seed):
    rng = np.random.default_rng(seed)
    case = rng.normal(size=(6, 4)), rng.choice([-1, 1], size=6), 2 * rng.normal(size=(5, 4))
    expect_close(
        learner.call("average_gradient", *case),
        lambda **slips: average_gradient(*case, **slips),
        what="the gradient",
        mistakes={
            "each model's own loss is averaged: the average of the probabilities answers": {"each": True},
            "the logits are averaged, not the probabilities": {"logits": True},
            "that is the slope of the probability: its logarithm is asked for": {"logarithm": False},
            "the sign: the loss is minus the logarithm": np.negative,
        },
    )


def ascent(A, c, x, epsilon, steps, size, recentre=False, frozen=False, bounded=True, down=False, raw=False):
    """Projected gradient ascent on a quadratic loss."""
    z = x
    for _ in range(steps):
        gradient = (x if frozen else z) @ A + c
        centre = z if recentre else x
        z = z + size * (gradient if raw else np.sign(gradient)) * (-1 if down else 1)
        z = np.clip(z, centre - epsilon, centre + epsilon)
        z = np.clip(z, 0, 1) if bounded else z
    return z


SLIPS = {
    "the box moves along: it stays around the original input": {"recentre": True},
    "the gradient is asked for once: ask anew at every point": {"frozen": True},
    "pixels leave their range": {"bounded": False},
    "down the loss: an attacker climbs": {"down": True},
    "a step has the same size in every pixel: the sign of the gradient": {"raw": True},
}


def curved_case(seed):
    """A loss for which every known mistake ends elsewhere."""
    rng = np.random.default_rng(seed)
    while True:
        half = rng.normal(size=(5, 5))
        x = np.clip(rng.uniform(-0.1, 1.1, size=(12, 5)), 0.02, 0.98)
        case = 12 * (half + half.T), rng.normal(size=5), x, 0.2, 6, 0.07
        ends = [ascent(*case)] + [ascent(*case, **slip) for slip in SLIPS.values()]
        if all(np.abs(a - b).max() > 1e-2 for i, a in enumerate(ends) for b in ends[:i]):
            return case


@question(
    "q4",
    points=3,
    hint="After each step: back into the box around the *original* input, then into the range.",
    forbids=ATTACKS,
    read="Many steps",
)
def the_iterated_attack_keeps_to_its_budget(learner, seed):
    case = curved_case(seed)
    expect_close(
        learner.call("climb", *case),
        lambda **slips: ascent(*case, **slips),
        what="the end of the climb",
        mistakes=SLIPS,
    )


def radius(votes, draws, sigma, alpha, bound="lower", scale=True, clipped=True, sides=1):
    """The certified radius from counts."""
    if bound == "share":
        p = votes / draws
    else:
        level = alpha / sides if bound == "lower" else 1 - alpha
        p = beta.ppf(level, votes, draws - votes + 1)
    found = (sigma if scale else 1) * norm.ppf(p)
    return np.maximum(found, 0) if clipped else found


def needed(distance, sigma, alpha, rounding=np.ceil, inverse=False):
    """Draws, all alike, that promise a radius."""
    share = norm.cdf(distance * sigma if inverse else distance / sigma)
    return rounding(np.log(alpha) / np.log(share))


@question(
    "q5",
    points={"the radius": 2, "the draws": 1},
    hint="The bound is the alpha-quantile of a beta distribution; n agreeing draws bound p by alpha^(1/n).",
    forbids=("adversarial.clopper_pearson", "adversarial.Smoothed"),
    read="What can be promised",
)
def a_promise_rests_on_a_bound(learner, seed):
    rng = np.random.default_rng(seed)
    draws, sigma = int(rng.integers(150, 400)), float(rng.uniform(0.2, 0.7))
    alpha = float(rng.choice([0.01, 0.02, 0.05]))
    votes = np.round(draws * np.array([0.31, 0.45, 0.62, 0.78, 0.9, 0.97])).astype(int)
    got = learner.call("radius", votes, draws, sigma, alpha)
    with part("the radius"):
        expect_close(
            got,
            lambda **slips: radius(votes, draws, sigma, alpha, **slips),
            what="the radius",
            mistakes={
                "the share of the draws is no bound: the next draws may be worse": {"bound": "share"},
                "that is an upper bound": {"bound": "upper"},
                "one side is enough: only a bound from below is asked for": {"sides": 2},
                "the noise's size is missing": {"scale": False},
                "a radius is not negative: below one half it is 0, and the answer an abstention": {
                    "clipped": False
                },
            },
        )
    with part("the draws"):
        distance = sigma * float(rng.uniform(1.2, 2.3))
        expect_close(
            learner.call("needed", distance, sigma, alpha),
            lambda **slips: needed(distance, sigma, alpha, **slips),
            what="the draws",
            mistakes={
                "one too few: round up": {"rounding": np.floor},
                "draws are whole: round up": {"rounding": float},
                "the distance is measured in units of the noise: divide": {"inverse": True},
            },
        )


def alarms(seed):
    """Scores of clean inputs, and of others attacked in four ways."""
    rng = np.random.default_rng(seed)
    while True:
        clean = rng.normal(size=100)
        scores = rng.normal(1.2, 1.2, size=(4, 60))
        wrong = rng.random((4, 60)) < rng.uniform(0.3, 0.8, size=(4, 1))
        found = [lost(clean, scores, wrong)]
        found += [lost(clean, scores, wrong, **slip) for slip in LEAKS.values()]
        low, high = np.sort(clean)[94:96]
        between = ((scores > low) & (scores < high)).any()  # every threshold there is as good
        if not between and np.min(np.diff(np.sort(found))) > 1e-3:
            return clean, scores, wrong


def lost(clean, scores, wrong, over="any", passing="below", threshold="clean", share=0.95):
    """Share of inputs that some attack makes wrong without an alarm."""
    ranked = np.sort(clean if threshold == "clean" else scores.ravel())
    limit = ranked[int(np.ceil(round(share * len(ranked), 6))) - 1]
    silent = {"below": scores <= limit, "above": scores > limit, "all": scores == scores}[passing]
    gone = wrong & silent
    return {"any": gone.any(axis=0), "max": gone.mean(axis=1).max(), "mean": gone}[over].mean()


LEAKS = {
    "each input meets the attack that suits it best: not one attack for all": {"over": "max"},
    "an average over attacks: the attacker does not draw lots": {"over": "mean"},
    "those are the ones that the alarm caught": {"passing": "above"},
    "the alarm is not asked: count what is wrong *and* passes": {"passing": "all"},
    "the threshold is set by clean inputs, before any attack": {"threshold": "attacked"},
    "five in a hundred clean inputs may ring, not ninety-five": {"share": 0.05},
}


@question(
    "q6",
    points=3,
    hint="Input by input: is there an attack that makes it wrong and passes the alarm?",
    read="A detector that is known",
)
def the_attacker_chooses_for_each_input(learner, seed):
    case = alarms(seed)
    expect_close(
        learner.call("lost", *case),
        lambda **slips: lost(*case, **slips),
        what="the share that is lost",
        mistakes=LEAKS,
    )


q7 = manual(
    "q7",
    "A Bayesian network whose entropy rises under FGSM: what is missing, and which experiment?",
    {
        "one step lands between the classes: an attack that iterates, through the average that answers": 1,
        "an attacker who knows the alarm, and as the result the share that is wrong *and* unnoticed": 1,
    },
)
