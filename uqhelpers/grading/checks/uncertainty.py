"""Checks of the exercise on what uncertainty is."""

import functools

import numpy as np
from scipy.special import entr

from uqhelpers import metrics

from .._engine import expect_close, expect_parts, expect_words, manual, part, question

# No entropy is forbidden, nor `decompose`, which calls them: q3 and q6 build on it, and in the
# grader's sandbox what one question forbids no other has.


def entropy(p, axis=-1):
    return entr(p).sum(axis=axis)


def divergence(p, q):
    return (p * np.log(p / q)).sum(-1)


def some_beliefs(seed, size=()):
    """Beliefs in three models over four classes, and in another number of models over another of classes."""
    rng, cases = np.random.default_rng(seed), []
    for shares, classes in (([0.55, 0.3, 0.15], 4), ([0.5, 0.3, 0.15, 0.05], rng.choice([3, 5]))):
        weights = rng.permutation(shares) + rng.uniform(-0.02, 0.02, size=len(shares))
        probs = rng.dirichlet(np.full(classes, 0.8), size=(len(shares), *size))
        cases.append((weights / weights.sum(), probs))
    return cases


def taught(weights, probs, weighted=True, joint=True, open_ended=False):
    """What the labels of both inputs teach about the model, with the usual slips to choose from."""
    weights = weights if weighted else np.full(len(weights), 1 / len(weights))
    left = 0 if open_ended else weights @ entropy(probs).sum(-1)
    if not joint:
        return entropy(np.tensordot(weights, probs, 1)).sum() - left
    both = np.einsum("s,sa,sb->ab", weights, probs[:, 0], probs[:, 1])
    return entr(both).sum() - left


def taught_by(one, weights, probs, weighted=True):
    return taught(weights, probs[:, [one]], weighted, joint=False)


def taught_then(weights, probs, weighted=True, first=0):
    return taught(weights, probs, weighted) - taught_by(first, weights, probs, weighted)


def check_two_labels(learner, weights, probs):
    with part("`together`"):
        expect_close(
            learner.call("together", weights, probs),
            lambda **slips: taught(weights, probs, **slips),
            what="what both labels teach",
            mistakes={
                "that is the sum of what each teaches: what both teach is counted twice": {"joint": False},
                "the weights are missing: you do not believe in all models equally": {"weighted": False},
                "that is the joint entropy of the labels: take off what stays open when the model is known": {
                    "open_ended": True
                },
                "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
            },
        )
    with part("`then`"):
        expect_close(
            learner.call("then", weights, probs),
            lambda **slips: taught_then(weights, probs, **slips),
            what="what the second label adds",
            mistakes={
                "that is what the second teaches by itself: you have seen the first": taught_by(
                    1, weights, probs
                ),
                "that is what both teach together": taught(weights, probs),
                "the weights are missing: you do not believe in all models equally": {"weighted": False},
                "that is what the first adds to the second": {"first": 1},
                "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
            },
        )


@question(
    "q1",
    points={"`together`": 2, "`then`": 1},
    hint="Given the model the two labels are independent; averaged over the models they are not.",
    read="Two entropies, and what is between them",
)
def two_labels_teach_less_than_twice(learner, seed):
    for weights, probs in some_beliefs(seed, size=(2,)):
        check_two_labels(learner, weights, probs)


def wild_logits(seed):
    """Logits of four models, some of them beyond what an exponential bears, some beside a constant."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2.5, size=(4, 6, 3))
    logits[:, 0] += 900
    logits[:, 1, 0] += 15
    logits[:, 2] = 40 * np.eye(3)[rng.permutation(4) % 3]
    return logits


def doubt(logits, pool="probs", eps=0.0, stable=True):
    """Total and epistemic part, stacked, with the usual slips to choose from."""

    def softmax(z):
        with np.errstate(all="ignore"):
            e = np.exp(z - z.max(-1, keepdims=True) if stable else z)
            return e / e.sum(-1, keepdims=True)

    def of(p):
        return -(p * np.log(p + eps)).sum(-1) if eps else entropy(p)

    mean = softmax(logits.mean(0)) if pool == "logits" else softmax(logits).mean(0)
    return np.stack([of(mean), of(mean) - of(softmax(logits)).mean(0)])


@question(
    "q2",
    points={"the total": 1, "the epistemic part": 2},
    hint="Which average is the model average: that of the logits, or that of the probabilities?",
    forbids=("metrics.from_logits",),
    read='Not a number becomes "no doubt"',
)
def probabilities_are_averaged_and_not_logits(learner, seed):
    logits = wild_logits(seed)
    names = ["the total", "the epistemic part"]
    got = expect_parts(learner.call("mended", logits), names)
    for i, name in enumerate(names):
        mistakes = {
            "the logits are still averaged: that is a plug-in, not the average of the predictions": {
                "pool": "logits"
            },
            "the exponential still overflows: take off the largest logit first": {"stable": False},
            "the constant is still inside the logarithm": {"eps": 1e-8},
            "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
        }
        if i:
            mistakes["that is the aleatoric part: what is left of the total without it?"] = lambda v: (
                doubt(logits)[0] - v
            )
        with part(name):
            expect_close(
                got[i],
                lambda i=i, **slips: doubt(logits, **slips)[i],
                what=name,
                rtol=1e-9,
                atol=1e-12,
                mistakes=mistakes,
            )


def unbiased(probs, full=None, fewer=None, rule=False):
    """The information with a bias of c/S removed, with the usual slips to choose from."""
    models = len(probs)
    all_of_them = metrics.mutual_information(probs)
    less = np.mean([metrics.mutual_information(np.delete(probs, s, axis=0)) for s in range(models)], axis=0)
    if rule:
        return all_of_them / (1 - 1 / models)
    return (models if full is None else full) * all_of_them - (models - 1 if fewer is None else fewer) * less


def check_without_bias(learner, probs):
    models = len(probs)
    expect_close(
        learner.call("without_bias", probs),
        lambda **slips: unbiased(probs, **slips),
        what="the information",
        mistakes={
            "that is the chapter's rule for means: use what leaving one out tells of these models": {
                "rule": True
            },
            "that is still biased, the information of all S": {"full": 1, "fewer": 0},
            "that is the average of those that leave one out: it is biased even more": {
                "full": 0,
                "fewer": -1,
            },
            "the two factors are one too high: solve the two equations once more": {
                "full": models + 1,
                "fewer": models,
            },
            "the sign: the correction goes up, away from what fewer models saw": {
                "full": 2 - models,
                "fewer": 1 - models,
            },
        },
    )


@question(
    "q3",
    points=3,
    hint="Two equations, I_S = I - c/S and the same for S - 1, and two unknowns, I and c.",
    read="A few samples agree too much",
)
def leaving_one_out_tells_the_bias(learner, seed):
    rng = np.random.default_rng(seed)
    for models in rng.permutation([3, *rng.choice([4, 5, 6, 7, 8], size=2, replace=False)]):
        check_without_bias(learner, rng.dirichlet(np.ones(3), size=(models, 7)))


def squared_parts(weights, probs, weighted=True, half=False):
    """Total, aleatoric, epistemic under the squared loss, with the usual slips to choose from."""
    weights = weights if weighted else np.full(len(weights), 1 / len(weights))
    mean = weights @ probs
    total, aleatoric = 1 - mean @ mean, weights @ (1 - (probs**2).sum(-1))
    return np.array([total, aleatoric, total - aleatoric]) * (0.5 if half else 1)


def squared_regret(mean, epistemic, q, unavoidable=1, added=1):
    return unavoidable * epistemic + added * ((mean - q) ** 2).sum()


def check_squared_loss(learner, weights, probs, q):
    names = ["the total", "the aleatoric part", "the epistemic part"]
    got = expect_parts(learner.call("squared", weights, probs), names)
    logs = [entropy(weights @ probs), weights @ entropy(probs)]
    logs.append(logs[0] - logs[1])
    for i, name in enumerate(names):
        mistakes = {
            "that is the one of the log loss: announce under the squared loss": logs[i],
            "half of it: the loss sums over all classes": {"half": True},
        }
        if i != 0 or abs(squared_parts(weights, probs, False)[0] - squared_parts(weights, probs)[0]) > 1e-4:
            mistakes["the weights are missing: you do not believe in all models equally"] = {
                "weighted": False
            }
        with part(name):
            expect_close(
                got[i],
                lambda i=i, **slips: squared_parts(weights, probs, **slips)[i],
                what=name,
                mistakes=mistakes,
            )
    mean, epistemic = weights @ probs, squared_parts(weights, probs)[2]
    with part("`regret`"):
        expect_close(
            learner.call("regret", mean, epistemic, q),
            lambda **slips: squared_regret(mean, epistemic, q, **slips),
            what="the expected regret",
            mistakes={
                "that is the distance from the average alone: the average is not without regret": {
                    "unavoidable": 0
                },
                "half of it: the loss sums over all classes": {"unavoidable": 0.5, "added": 0.5},
                "that is the regret of the best announcement: what does announcing q add?": {"added": 0},
                "that is the regret of the log loss": epistemic + divergence(mean, q),
            },
        )


@question(
    "q4",
    points={"the total": 0.5, "the aleatoric part": 0.5, "the epistemic part": 1, "`regret`": 1},
    hint="What does it cost, on average, to announce p where p is true? And to announce q there?",
    read="Why the average is the best that you can do",
)
def another_loss_has_its_own_decomposition(learner, seed):
    for weights, probs in some_beliefs(seed):
        q = np.random.default_rng([seed, 1]).dirichlet(np.full(probs.shape[1], 2.0))
        check_squared_loss(learner, weights, probs, q)


@functools.lru_cache(maxsize=32)
def wrong_list(seed):
    """Hypotheses and a truth such that each known mistake leads elsewhere."""
    rng = np.random.default_rng(seed)
    while True:
        hypotheses, truth = rng.dirichlet(np.full(3, 0.9), size=5), rng.dirichlet(np.full(3, 1.2))
        if min(hypotheses.min(), truth.min()) < 0.01:
            continue
        forward, back = divergence(truth, hypotheses), divergence(hypotheses, truth)
        near = ((hypotheses - truth) ** 2).sum(-1)
        ends = [forward.argmin(), back.argmin(), near.argmin()]
        ranked = np.sort(forward)
        clear = ranked[1] - ranked[0] > 0.05 and ranked[2] - ranked[1] > 0.05 and ranked[0] > 0.03
        if clear and len(set(ends)) == 3:
            for array in (hypotheses, truth):  # kept for the next answer, so nobody may change them
                array.setflags(write=False)
            return hypotheses, truth


def in_the_end(hypotheses, truth, by="forward"):
    distances = {
        "forward": divergence(truth, hypotheses),
        "back": divergence(hypotheses, truth),
        "square": ((hypotheses - truth) ** 2).sum(-1),
    }
    return distances[by].argmin()


@question(
    "q5",
    points={"the survivor": 1, "the regret": 1, "the speed": 1},
    hint="Divide the logarithm of the likelihood by the number of draws. What does it converge to?",
    read="Further: what Bayes is not",
)
def the_least_wrong_hypothesis_survives(learner, seed):
    hypotheses, truth = wrong_list(seed)
    names = ["the survivor", "the regret", "the speed"]
    got = expect_parts(learner.call("in_the_end", hypotheses, truth), names)
    forward, back = divergence(truth, hypotheses), divergence(hypotheses, truth)
    ranked, best = np.sort(forward), forward.argmin()
    with part("the survivor"):
        expect_close(
            got[0],
            lambda **slips: in_the_end(hypotheses, truth, **slips),
            what="the survivor",
            mistakes={
                "that is the nearest by the divergence the other way round: the truth draws the data": {
                    "by": "back"
                },
                "that is the nearest by squares of differences: evidence adds up in logarithms": {
                    "by": "square"
                },
            },
        )
    with part("the regret"):
        expect_close(
            got[1],
            ranked[0],
            what="the regret",
            mistakes={
                "that is the divergence the other way round: the truth draws the labels": back[best],
                "that is what the posterior expects to regret in the end: what does it regret?": 0.0,
                "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
                "that is the runner-up's": ranked[1],
            },
        )
    with part("the speed"):
        expect_close(
            got[2],
            ranked[1] - ranked[0],
            what="the speed",
            mistakes={
                "that is the distance of the runner-up from the truth: it runs against the survivor": ranked[
                    1
                ],
                "that is against the worst: the runner-up holds out longest": ranked[-1] - ranked[0],
                "the sign: the odds of the survivor grow": lambda v: -v,
                "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
            },
        )


WORDS = ("kept", "too low", "too high")


def excess(probs, labels, loss="average"):
    """Loss minus promise of each input, with the usual slips to choose from."""
    chosen = np.take_along_axis(probs, labels[None, :, None], axis=2)[..., 0]
    paid = -np.log(chosen.mean(0)) if loss == "average" else -np.log(chosen).mean(0)
    return paid - metrics.predictive_entropy(probs)


def verdicts(cases, sign=1, width=2, root=0.5, **slips):
    found = []
    for probs, labels in cases:
        gaps = sign * excess(probs, labels, **slips)
        margin = width * gaps.std() / len(gaps) ** root
        found.append(WORDS[1] if gaps.mean() > margin else WORDS[2] if -gaps.mean() > margin else WORDS[0])
    return found


SLIPS = {
    "the sign: losses above the promise mean that it was too low": {"sign": -1},
    "a gap is declared without its spread: a small experiment shows one by chance": {"width": 0},
    "the spread of one input is not that of their mean: divide by the root of n": {"root": 0},
    "the standard error falls with the root of n, not with n": {"root": 1},
    "that is what the members pay, each by itself: you announce their average": {"loss": "members"},
}


def deployment(rng, size, power):
    """Predictions of five models, and labels from their average, sharpened or flattened."""
    centre = rng.dirichlet(np.full(3, 0.8), size=size)
    drawn = rng.standard_gamma(4 * centre + 0.3, size=(5, size, 3))  # Dirichlet, when divided
    probs = 0.97 * drawn / drawn.sum(-1, keepdims=True) + 0.01
    law = probs.mean(0) ** power
    law /= law.sum(-1, keepdims=True)
    return probs, (rng.random((size, 1)) > law.cumsum(1)).sum(1).clip(max=2)


def standing(case, **slips):
    """The mean difference in standard errors."""
    gaps = excess(*case, **slips)
    return gaps.mean() / (gaps.std() / len(gaps) ** 0.5)


# Size and power of each case, and between which multiples of its error the mean difference lies.
PLANS = [
    (1500, 1.0, -1.5, 1.5),
    (900, 1.0, -1.5, 1.5),
    (900, 0.55, 3, np.inf),
    (1200, 2.2, -np.inf, -3),
    (25, 0.8, 0.6, 1.5),
    (25, 1.3, -1.5, -0.6),
    (20, 1.0, 0.05, 0.35),
]


@functools.lru_cache(maxsize=64)
def deployments(seed):
    """Cases of kept, too low and too high promises, large and small, clear of every limit."""
    rng, cases = np.random.default_rng(seed), []
    for size, power, low, high in PLANS:
        while True:
            case = deployment(rng, size, power)
            if low < standing(case) < high and (
                size < 100 or power != 1 or standing(case, loss="members") > 3
            ):
                break
        cases.append(case)
    return [cases[i] for i in rng.permutation(len(cases))]


@question(
    "q6",
    points=3,
    hint="If the labels come from your beliefs, what is the mean log loss of the average, by the chapter?",
    read="Why the average is the best that you can do",
)
def a_promise_is_judged_by_what_was_paid(learner, seed):
    cases = deployments(seed)
    expect_words(
        [learner.call("judge", probs, labels) for probs, labels in cases],
        lambda **slips: verdicts(cases, **slips),
        WORDS,
        what="the verdict",
        mistakes=SLIPS,
    )


q7 = manual(
    "q7",
    "Do the networks disagree there, and would they if none of them knew? What would show it?",
    {
        "mutual information is conflict between the hypotheses at hand: networks that extrapolate alike "
        "agree, and are wrong together; expected regret is a promise under their beliefs": 1,
        "names a test that can fail: labels there, other hypotheses, a distance or density": 1,
    },
)
