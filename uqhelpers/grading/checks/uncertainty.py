"""Checks of the exercise on what uncertainty is."""

import functools

import numpy as np
from scipy.special import digamma, xlogy

from uqhelpers import metrics

from .._engine import as_number, expect_close, expect_parts, expect_words, manual, part, question

ENTROPIES = (
    "metrics.decomposition._entropy",
    "metrics.decomposition.entropy_of_rows",
    "metrics.predictive_entropy",
    "metrics.expected_entropy",
    "metrics.mutual_information",
    "metrics.decompose",
    "metrics.SampleAccumulator",
)
CALIBRATION = (
    "metrics.reliability.binned",
    "metrics.reliability_curve",
    "metrics.reliability_from_confidence",
    "metrics.calibration_error_from_confidence",
    "metrics.expected_calibration_error",
    "metrics.classwise_calibration_error",
    "metrics.maximum_calibration_error",
)


@question(
    "q1",
    points=2,
    hint="Where p is 0, p log p is 0, its limit: `scipy.special.xlogy` takes care of it exactly.",
    forbids=ENTROPIES,
    read="Entropy",
)
def the_entropy_of_each_row_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    probs = np.concatenate([rng.dirichlet(np.ones(4), size=6), np.eye(4)[rng.integers(4, size=2)]])
    want = -xlogy(probs, probs).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        naive = -(probs * np.log(probs)).sum(-1)
    expect_close(
        learner.call("entropy", probs),
        want,
        rtol=1e-11,
        atol=1e-13,
        what="the entropy",
        mistakes={
            "a certain prediction gives NaN: 0 · log 0 counts as 0": naive,
            "the right idea in bits: use the natural logarithm": want / np.log(2),
            "the sign: an entropy is never negative": -want,
            "an average over the classes: the entropy is their sum": want / 4,
            "the small constant inside the logarithm shows: a certain prediction has entropy exactly 0": -(
                probs * np.log(probs + 1e-8)
            ).sum(-1),
            "the sum runs over the inputs: the classes are the last axis": -xlogy(probs, probs).sum(0),
        },
    )


@question(
    "q2",
    points={"the total": 0.5, "the aleatoric part": 0.5, "the epistemic part": 1},
    hint="Two ways to take an average and an entropy: average first, or entropy first. What is between them?",
    forbids=ENTROPIES,
    read="Two entropies, and what is between them",
)
def the_three_parts_are_right(learner, seed):
    probs = np.random.default_rng(seed).dirichlet(np.ones(3), size=(6, 8))
    got = expect_parts(learner.call("decompose", probs), ["total", "aleatoric", "epistemic"])
    total, aleatoric = metrics.predictive_entropy(probs), metrics.expected_entropy(probs)
    other = probs.swapaxes(0, 1)
    with part("the total"):
        expect_close(
            got[0],
            total,
            what="the total",
            mistakes={
                "that is the average of the entropies: average the predictions first": aleatoric,
                "the right idea in bits: use the natural logarithm": total / np.log(2),
                "you averaged over the inputs: the samples are the first axis": metrics.predictive_entropy(
                    other
                ),
            },
        )
    with part("the aleatoric part"):
        expect_close(
            got[1],
            aleatoric,
            what="the aleatoric part",
            mistakes={
                "that is the entropy of the average: what is left when each model is sure of itself?": total,
                "a sum over the samples: take their mean": aleatoric * 6,
            },
        )
    with part("the epistemic part"):
        expect_close(
            got[2],
            total - aleatoric,
            what="the epistemic part",
            mistakes={
                "the sign: the entropy of the average is the larger one (it is concave)": aleatoric - total,
                "that is a ratio: the parts add up": (total - aleatoric) / total,
                "that is the variance of the members' probabilities, not their mutual information": probs.var(
                    0
                ).sum(-1),
            },
        )


@question("q2", points={"three cases": 1}, forbids=ENTROPIES, read="Three cases to keep in mind")
def the_three_cases_are_told_apart(learner, seed):
    rng = np.random.default_rng(seed)
    classes, which = int(rng.integers(3, 7)), rng.permutation([0, 1, 2, 0, 1, 2])
    sure = np.tile(np.eye(classes)[0], (classes, 1))
    torn = np.full((classes, classes), 1 / classes)
    cases = np.stack([sure, torn, np.eye(classes)], axis=1)  # each model has its own opinion in the last
    got = expect_parts(learner.call("decompose", cases[:, which]), ["total", "aleatoric", "epistemic"])
    log = np.log(classes)
    names = ["the total", "the aleatoric part", "the epistemic part"]
    for one, want, what in zip(got, ([0, log, log], [0, log, 0], [0, 0, log]), names, strict=True):
        expect_close(one, np.array(want)[which], what=f"{what} of sure, torn and contradicting models")


@question(
    "q3",
    points={"the aleatoric part": 2, "the epistemic part": 1},
    hint="With n = a + b, -θ log θ is (a/n)(ψ(n+1) - ψ(a+1)) on average under Beta(a, b). And for 1 - θ?",
    read="A coin, three tosses",
)
def the_coin_splits_its_uncertainty(learner, seed):
    rng = np.random.default_rng(seed)
    heads, tails = rng.integers(0, 40, size=7), rng.integers(0, 40, size=7)
    got = expect_parts(learner.call("coin", heads, tails), ["aleatoric", "epistemic"])
    aleatoric, total = beta_parts(heads + 1, tails + 1)
    shifted = expected_entropy_of_beta(heads + 1, tails + 1, 0)
    flat, flat_total = beta_parts(heads + 2, tails + 2)
    with part("the aleatoric part"):
        expect_close(
            got[0],
            aleatoric,
            rtol=1e-5,
            what="the aleatoric part",
            mistakes={
                "that is the entropy of the average coin, the total: average the entropies instead": total,
                "the right idea in bits: use the natural logarithm": aleatoric / np.log(2),
                "the digammas are taken one too low: multiplying by θ raises a by 1": shifted,
                "the prior was counted twice: uniform is Beta(1, 1)": flat,
            },
        )
    with part("the epistemic part"):
        expect_close(
            got[1],
            total - aleatoric,
            rtol=1e-4,
            atol=1e-7,
            what="the epistemic part",
            mistakes={
                "the sign: the total is the larger one": aleatoric - total,
                "that is the total": total,
                "that is the posterior's variance: a measure of spread, but not in nats": beta_variance(
                    heads + 1, tails + 1
                ),
                "the prior was counted twice: uniform is Beta(1, 1)": flat_total - flat,
            },
        )


def expected_entropy_of_beta(a, b, one=1):
    n = a + b
    return a / n * (digamma(n + one) - digamma(a + one)) + b / n * (digamma(n + one) - digamma(b + one))


def beta_parts(a, b):
    mean = a / (a + b)
    return expected_entropy_of_beta(a, b), -xlogy(mean, mean) - xlogy(1 - mean, 1 - mean)


def beta_variance(a, b):
    return a * b / ((a + b) ** 2 * (a + b + 1))


@question(
    "q4",
    points={"`best_prediction`": 1},
    hint="Write the expected loss as a function of the prediction, with a Lagrange multiplier for its sum.",
    read="Why the average is the best that you can do",
)
def the_best_prediction_is_the_average(learner, seed):
    weights, probs, _ = beliefs(seed)
    geometric = np.exp(weights @ np.log(probs))
    expect_close(
        learner.call("best_prediction", weights, probs),
        weights @ probs,
        what="the best prediction",
        mistakes={
            "the weights are missing: you do not believe in all models equally": probs.mean(0),
            "that is the model you believe in most: a plug-in, which forgets the others": probs[
                weights.argmax()
            ],
            "that is the geometric mean: it minimises the divergence the other way round": geometric
            / geometric.sum(),
        },
    )


@question("q4", points={"`excess_loss`": 2}, read="Why the average is the best that you can do")
def the_excess_loss_of_any_prediction_is_right(learner, seed):
    weights, probs, prediction = beliefs(seed)
    got = learner.call("excess_loss", weights, probs, prediction)
    log = np.log(prediction)
    expect_close(
        got,
        weights @ (probs * (np.log(probs) - log)).sum(-1),
        what="the excess loss",
        mistakes={
            "that is the divergence the other way round: the expectation is under the model": weights
            @ (prediction * (log - np.log(probs))).sum(-1),
            "that is the whole loss: take off what even the true model loses, its entropy": -weights
            @ (probs * log).sum(-1),
            "the weights are missing: you do not believe in all models equally": (
                probs * (np.log(probs) - log)
            )
            .sum(-1)
            .mean(),
            "that is the divergence of the average: average the divergences": (
                weights @ probs * (np.log(weights @ probs) - log)
            ).sum(),
        },
    )


def beliefs(seed):
    rng = np.random.default_rng(seed)
    weights = rng.permutation([0.55, 0.3, 0.15]) + rng.uniform(-0.02, 0.02, size=3)
    return weights / weights.sum(), rng.dirichlet(np.ones(4) * 2, size=3), rng.dirichlet(np.ones(4) * 2)


@question(
    "q5",
    points=3,
    hint="What happens to a confidence of exactly 1, and to one on an edge? Right-closed bins: (a, b].",
    forbids=CALIBRATION,
    read='"Seventy percent"',
)
def the_calibration_error_counts_every_prediction_once(learner, seed):
    rng = np.random.default_rng(seed)
    # Edges of eight bins are exact in binary: a confidence can lie on one. Those on an edge are wrong more
    # often than they believe, those inside less often: only so does it show to which bin an edge belongs.
    on_edge = np.concatenate([rng.integers(3, 7, size=40) / 8, np.ones(10)])
    confidence = np.concatenate([on_edge, rng.uniform(0.3, 0.97, size=44), rng.uniform(0.88, 0.92, size=6)])
    correct = rng.random(100) < np.repeat([0.35, 0.97, 1.0], [50, 44, 6])
    want, signed, unweighted, largest = bin_gaps(confidence, correct, np.ceil(confidence * 8) - 1)
    phantom = bin_gaps(confidence, correct, np.floor(confidence * 8))
    left = bin_gaps(confidence, correct, np.minimum(np.floor(confidence * 8), 7))
    inside = (np.floor(confidence * 8) < 8).mean()
    dropped = bin_gaps(
        confidence[confidence < 1], correct[confidence < 1], np.floor(8 * confidence[confidence < 1])
    )
    expect_close(
        learner.call("calibration_error", confidence, correct.astype(float), 8),
        want,
        what="the calibration error",
        mistakes={
            "a confidence of 1 gets a bin of its own: there is none, it belongs to the last": phantom[0],
            "a confidence of 1 falls out of the last bin: it must count": dropped[0] * inside,
            "a confidence of 1 falls out of the last bin, and is not even counted": dropped[0],
            "the bins are closed on the left: a confidence on an edge belongs to the bin below": left[0],
            "every bin counts the same: weigh it by the share of its predictions": unweighted,
            "gaps of either sign cancel: take each bin's absolute gap": abs(signed),
            "that is the largest gap, the maximum calibration error": largest,
        },
    )


def bin_gaps(confidence, correct, where):
    """Weighted absolute, weighted signed, unweighted and largest gap of confidence and accuracy by bin."""
    bins = np.unique(where)
    gaps = np.array([(confidence - correct)[where == one].mean() for one in bins])
    weights = np.array([(where == one).mean() for one in bins])
    return weights @ abs(gaps), weights @ gaps, abs(gaps).mean(), abs(gaps).max()


@question(
    "q6",
    points=3,
    hint="The gap is a mean of n differences. What is the standard error of such a mean?",
    read='"Seventy percent"',
)
def the_verdict_knows_its_own_uncertainty(learner, seed):
    cases = experiments(seed)
    got = [learner.call("verdict", confidence, correct) for confidence, correct in cases]
    gaps = np.array([(confidence - correct).mean() for confidence, correct in cases])
    errors = np.array([(confidence - correct).std() for confidence, correct in cases])
    sizes = np.array([len(correct) for _, correct in cases])

    def verdicts(sign=1, width=2, root=0.5):
        return words(sign * gaps, width * errors / sizes**root)

    expect_words(
        got,
        verdicts,
        WORDS,
        what="the verdict",
        mistakes={
            "the sign: over-confident means that the confidence exceeds the accuracy": {"sign": -1},
            "a gap is declared without its spread: a small experiment can show a gap by chance": {"width": 0},
            "the spread of one prediction is not that of their mean: divide by the root of n": {"root": 0},
            "the standard error falls with the root of n, not with n": {"root": 1},
        },
    )


WORDS = ("over-confident", "under-confident", "cannot tell")


def words(gaps, margins):
    return [
        WORDS[0] if gap > margin else WORDS[1] if -gap > margin else WORDS[2]
        for gap, margin in zip(gaps, margins, strict=True)
    ]


@functools.lru_cache(maxsize=8)
def experiments(seed):
    """Pairs of confidence and correctness, none of them near the limit of two standard errors."""
    rng, cases = np.random.default_rng(seed), []
    plans = [  # size, confidence minus chance, and between which multiples of its error the gap lies
        (2000, 0.08, (3, 30)),
        (2000, -0.08, (-30, -3)),
        (3000, 0.06, (3, 30)),
        (30, 0.1, (0.6, 1.5)),
        (30, -0.1, (-1.5, -0.6)),
        (16, 0.0, (0.05, 0.45)),
    ]
    for size, shift, (low, high) in plans:
        while True:
            confidence = rng.uniform(0.6, 0.9, size=size)
            correct = (rng.random(size) < confidence - shift).astype(float)
            if low < (confidence - correct).mean() / ((confidence - correct).std() / size**0.5) < high:
                break
        cases.append((confidence, correct))
    return [cases[i] for i in rng.permutation(len(cases))]


@question(
    "q7",
    points=2,
    hint="Which of the two would change if you could ask for more data at that input?",
    read="Conflict, not ignorance",
)
def the_next_label_goes_where_it_teaches_most(learner, seed):
    got, cases = [], [candidates(draw) for draw in np.random.SeedSequence(seed).generate_state(3)]
    for probs, _ in cases:
        got.append(as_number(learner.call("ask_next", probs), "the number of the input"))

    def asked(of="conflict"):
        return [named[of] for _, named in cases]

    expect_close(
        np.array(got),
        asked,
        what="the input",
        mistakes={
            "that input is ambiguous, and stays so: every model agrees that nobody can know "
            "(the total misleads)": {"of": "torn"},
            "that is the input on which the models agree most: the largest, not the smallest": {
                "of": "agreed"
            },
            "that is where each model is surest": {"of": "surest"},
        },
    )


def candidates(seed):
    """What ten models say about twenty inputs, and the numbers of those that matter."""
    rng = np.random.default_rng(seed)
    probs = np.stack([rng.dirichlet(rng.permutation([12, 6, 3]), size=10) for _ in range(20)], axis=1)
    torn, conflict, agreed, surest = rng.choice(20, size=4, replace=False)
    probs[:, torn] = rng.dirichlet(np.full(3, 300), size=10)
    probs[:, agreed] = [0.5, 0.3, 0.2]
    probs[:, conflict] = 0.94 * np.eye(3)[np.arange(10) % 3] + 0.02
    probs[:, surest] = rng.dirichlet([30, 0.1, 0.1], size=10) * 0.02 + 0.98 * np.eye(3)[0]
    return probs, {"torn": torn, "conflict": conflict, "agreed": agreed, "surest": surest}


q8 = manual(
    "q8",
    "The two questions to ask: do the models disagree there, and would they if they did not know?",
    {
        "mutual information is conflict between the hypotheses at hand, not ignorance": 1,
        "hypotheses that all extrapolate alike agree far from the data, and are all wrong together": 1,
        "names what would show it (a measure of distance or density, other hypotheses, data there)": 1,
    },
)
