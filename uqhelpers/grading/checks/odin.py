"""Checks of the exercise on out-of-distribution detection."""

import numpy as np
from scipy.special import logsumexp, softmax

from .._engine import as_numbers, expect, expect_choice, expect_close, expect_parts, manual, part, question

SCORES = ("odin.softmax_score", "odin.energy_score", "odin.max_logit_score")


@question(
    "q1",
    points={"the softmax score": 1, "the energy": 1},
    hint="Subtract the largest logit before exp; the energy is -T log of the sum of exp(f / T).",
    forbids=SCORES,
    read="Further: scores that see the level",
)
def both_scores_are_right_and_do_not_overflow(learner, seed):
    logits, heat = 3 * np.random.default_rng(seed).normal(size=(6, 5)), 2.5
    names = ["the softmax score", "the energy"]

    def softmax_score(logits=logits, heat=heat, axis=1):
        return -softmax(logits / heat, axis=axis).max(axis=1)

    def energy(logits=logits, heat=heat, factor=heat):
        return -factor * logsumexp(logits / heat, axis=1)

    got = expect_parts(learner.call("scores", logits, heat), names)
    large = 5000 * logits
    for_large = expect_parts(learner.call("scores", large, heat), names)
    overflow = "large logits overflow: subtract the largest before exp, and add it back after log"
    with part("the softmax score"):
        expect_close(
            got[0],
            softmax_score,
            what=names[0],
            mistakes={
                "that is the confidence: a score is higher for what is stranger": np.negative,
                "the logits are multiplied by the temperature: divide, so that heat flattens": {
                    "heat": 1 / heat
                },
                "the temperature is missing in the softmax": {"heat": 1},
                "a softmax over the inputs: the classes are the last axis": {"axis": 0},
            },
        )
        expect(np.isfinite(as_numbers(for_large[0], names[0])).all(), overflow)
        expect_close(for_large[0], softmax_score(large), what=f"{names[0]} of large logits")
    with part("the energy"):
        expect_close(
            got[1],
            energy,
            what=names[1],
            mistakes={
                "the sign: an input with much evidence has a low energy": np.negative,
                "the logits are multiplied by the temperature: divide, so that heat flattens": {
                    "heat": 1 / heat
                },
                "the factor T in front of the logarithm is missing": {"factor": 1},
                "the temperature is missing in the energy": {"heat": 1, "factor": 1},
            },
        )
        expect(np.isfinite(as_numbers(for_large[1], names[1])).all(), overflow)
        expect_close(for_large[1], energy(large), what=f"{names[1]} of large logits")


def shared_seconds(seed):
    """Logits of very different size; one, two or three classes share the second place."""
    rng = np.random.default_rng(seed)
    below = rng.uniform(1.5, 4, size=(7, 6))
    second = rng.uniform(0.3, 1.2, size=(7, 1))
    sharing = np.array([1, 2, 3, 1, 2, 3, 2])[:, None]
    below = np.where(np.arange(6) <= sharing, second, below)
    below[:, 0] = 0
    size = rng.permutation(np.geomspace(0.1, 30, 7))[:, None]
    logits = rng.permuted(size * (rng.normal(size=(7, 1)) - below), axis=1)
    return np.round(1024 * logits) / 1024  # so that differences are exact, and what is shared is equal


@question(
    "q2",
    points={"the hot limit": 1, "the cold limit": 2},
    hint="Hot: C p = 1 + u, Σ u = 0, (1 + u) log(1 + u) ≈ u + u²/2. Cold: which -p log p is largest?",
    read="What a temperature does",
)
def the_limits_of_the_entropy_are_right(learner, seed):
    logits = shared_seconds(seed)
    top = logits.max(axis=1, keepdims=True)
    margin = np.where(logits < top, top - logits, np.inf).min(axis=1)
    sharing = np.sum(top - logits == margin[:, None], axis=1)
    spread, want = logits.var(axis=1), sharing * margin
    got = expect_parts(learner.call("limits", logits), ["the hot limit", "the cold limit"])
    with part("the hot limit"):
        hot = as_numbers(got[0], "the hot limit")
        expect(
            hot.shape != spread.shape
            or np.allclose(hot, spread / 2, rtol=1e-6)
            or not np.allclose(hot, spread / 2, rtol=0.15, atol=0),
            "nearly: a large T is not its limit. What is left of log C - H with T in no exponent?",
        )
        expect_close(
            got[0],
            spread / 2,
            what="the hot limit",
            mistakes={
                "the two are swapped: hot, all logits count": want,
                "that is the limit of the largest probability: an entropy has no linear term": top[:, 0]
                - logits.mean(axis=1),
                "one half is missing: it is the second order of an exponential": spread,
                "the variance, not the standard deviation": np.sqrt(spread) / 2,
                "divided by C - 1: hot, each of the C classes has the probability 1 / C": spread * 6 / 10,
                "a sum over the classes, where their mean is left": 3 * spread,
                "a constant added to all logits changes no probability: measure from their mean": np.mean(
                    logits**2, axis=1
                )
                / 2,
                "measured from the winner: hot, it is one of many; measure from the mean": np.mean(
                    (top - logits) ** 2, axis=1
                )
                / 2,
                "the sign: no entropy is above log C": -spread / 2,
            },
        )
    with part("the cold limit"):
        expect_close(
            got[1],
            want,
            what="the cold limit",
            mistakes={
                "second place may be shared: each that has it adds to the entropy": margin,
                "each second place adds -p log p, and -log p grows as m / T": sharing,
                "the winner's own term, 1 - p, has no factor m / T: it vanishes beside the others": sharing
                * (margin + 1),
                "the winner is counted among the second places": (sharing + 1) * margin,
                "only the second place is left: what is farther below vanishes faster": np.sum(
                    top - logits, axis=1
                ),
                "the sign: an entropy is not negative": -want,
            },
        )


def linear_case(seed):
    """A linear classifier for which every known mistake moves the input to another place."""
    rng = np.random.default_rng(seed)
    while True:
        case = {
            "x": rng.normal(size=(8, 5)),
            "weights": 2 * rng.normal(size=(3, 5)),
            "bias": rng.normal(size=3),
            "temperature": 20.0,
            "epsilon": 0.03,
            "std": rng.uniform(0.2, 0.6, size=5),
        }
        steps = list(wrong_steps(**case).values())
        distinct = [np.abs(a - b).max() > 1e-3 for i, a in enumerate(steps) for b in steps[:i]]
        if all(distinct) and np.abs(gradient(**case)).min() > 1e-4:
            return case


def gradient(x, weights, bias, temperature, heat=None, **_):
    """Of the cross-entropy of the prediction; ``heat`` stands in for the temperature in the softmax."""
    logits = x @ weights.T + bias
    probs = softmax(logits / (temperature if heat is None else heat), axis=1)
    return (probs - np.eye(len(weights))[logits.argmax(axis=1)]) @ weights / temperature


def wrong_steps(x, std, epsilon, **case):
    """The right place under "", and those of the known mistakes."""
    slope = gradient(x, **case)
    sign = np.sign(slope)
    plain = np.sign(
        softmax((x @ case["weights"].T + case["bias"]) / case["temperature"], axis=1) @ case["weights"]
    )
    return {
        "": x - epsilon * sign / std,
        "that is the attack: the step goes *down* the loss of the prediction": x + epsilon * sign / std,
        "the step is in the units from before: divide it by the standard deviation": x - epsilon * sign,
        "multiplied by the standard deviation, where it is divided by": x - epsilon * sign * std,
        "the sign of the gradient, not the gradient: each value moves by the same amount": x
        - epsilon * slope / std,
        "the temperature is missing in the softmax of the gradient": x
        - epsilon * np.sign(gradient(x, heat=1.0, **case)) / std,
        "the label is missing in the gradient: probabilities minus one-hot": x - epsilon * plain / std,
    }


@question(
    "q3",
    points=2,
    hint="First the gradient by the logits, then what W makes of it at the input. In which units is ε?",
    forbids=("odin.perturb", "odin.odin_score"),
    read="The nudge, and what it is worth",
)
def the_step_goes_where_the_prediction_is_surer(learner, seed):
    case = linear_case(seed)
    steps = wrong_steps(**case)
    want = steps.pop("")
    expect_close(learner.call("nudged", *case.values()), want, mistakes=steps, what="the moved input")


def small_features(seed):
    """Small features of three uneven classes: some repeat others, one never fires."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2], [40, 20, 10]))

    def spread_out(inside):
        return 1e-3 * np.concatenate([inside, inside[:, :1] - inside[:, 1:2], 0 * inside[:, :1]], axis=1)

    centres = 3 * rng.normal(size=(3, 4))
    scale = np.array([1.0, 0.7, 0.4, 0.1]) * np.array([[1.0], [2.0], [3.0]])
    known = spread_out(centres[labels] + scale[labels] * rng.normal(size=(70, 4)))
    classes = np.arange(9) % 3
    new = spread_out(centres[classes] + 2 * scale[classes] * rng.normal(size=(9, 4)))
    return known, labels, new


def distances(known, labels, new, rule, around_all=False, own=False, weights=None, counts=len):
    groups = [known[labels == c] for c in range(3)]
    means = [group.mean(axis=0) for group in groups]
    rests = [group - (known if around_all else group).mean(axis=0) for group in groups]
    covs = [rest.T @ rest / counts(rest) for rest in rests]
    shared = np.average(covs, axis=0, weights=weights)
    found = []
    for cov, mean in zip(covs if own else [shared] * 3, means, strict=True):
        precision = np.linalg.inv(cov + rule(cov) * np.eye(len(cov)))
        found.append(np.einsum("nd,de,ne->n", new - mean, precision, new - mean))
    return np.array(found)


def relative(cov):
    return 1e-6 * np.trace(cov) / len(cov)


@question(
    "q4",
    points=3,
    hint="Around which mean is the covariance taken, which unit has the ridge, and who counts how much?",
    forbids=("odin.Mahalanobis", "ddu.GaussianFeatureDensity"),
    read="Where the features lie",
)
def the_distance_survives_dead_and_small_features(learner, seed):
    case = small_features(seed)
    right = distances(*case, relative)
    expect_close(
        learner.call("distance", *case),
        right.min(axis=0),
        rtol=1e-4,
        what="the distance",
        mistakes={
            "the ridge has units: 1e-6 is larger than what these features vary by": distances(
                *case, lambda cov: 1e-6
            ).min(axis=0),
            "the covariance is around the mean of all inputs: centre each class by its own": distances(
                *case, relative, around_all=True
            ).min(axis=0),
            "centre each class by its own mean, and let the ridge be a share: both missing": distances(
                *case, lambda cov: 1e-6, around_all=True
            ).min(axis=0),
            "a large class counts for more: average the classes' covariances": distances(
                *case, relative, weights=np.bincount(case[1])
            ).min(axis=0),
            "each class has its own covariance: share one": distances(*case, relative, own=True).min(axis=0),
            "a root: the squared distance is asked for": np.sqrt(right.min(axis=0)),
            "the farthest class: an input is as strange as its nearest class says": right.max(axis=0),
            "the mean over the classes: an input is as strange as its nearest class says": right.mean(axis=0),
            "divided by n - 1: take the mean of the squares": distances(
                *case, relative, counts=lambda group: len(group) - 1
            ).min(axis=0),
            "the sum of squares is not divided by how many there are": distances(
                *case, relative, counts=lambda group: 1
            ).min(axis=0),
        },
    )


INTERPOLATED = "an interpolated quantile lets more alarms ring: the threshold is the score of a strange input"


def two_kinds(seed):
    """Scores of 200 familiar and 40 strange inputs: 38 of the 40 are 95 %.

    An interpolated quantile is another threshold: a familiar input lies between the two.
    """
    rng = np.random.default_rng(seed)
    while True:
        familiar, strange = rng.normal(size=200), 1.5 + rng.normal(size=40)
        low, high = np.quantile(strange, 0.05), np.sort(strange)[2]
        stopped = np.mean(familiar >= high)
        if np.any((familiar >= low) & (familiar < high)) and 0.1 < stopped < 0.45:
            return familiar, strange, float(rng.choice([0.01, 0.02, 0.05]))


def uneven(seed):
    """The same with 37 strange, of which 95 % are no whole number: 36 are at least that, 35 are not."""
    rng = np.random.default_rng(seed)
    while True:
        familiar, strange = rng.normal(size=200), 1.5 + rng.normal(size=37)
        low, high = np.sort(strange)[1:3]
        if np.any((familiar >= low) & (familiar < high)):
            return familiar, strange, low, high


@question(
    "q5",
    points={"FPR95": 1, "the precision": 1},
    hint="Sort the strange; 95 % of 40 are 38. An alarm is right with the chance that Bayes' rule gives it.",
    forbids=("metrics.fpr95",),
    read="Near, far, and not strange at all",
)
def rates_and_alarms_are_told_apart(learner, seed):
    familiar, strange, prevalence = two_kinds(seed)
    threshold = np.sort(strange)[::-1][37]
    false, found = np.mean(familiar >= threshold), np.mean(strange >= threshold)
    between = np.mean(familiar >= np.quantile(strange, 0.05))  # a threshold that is no strange input's score
    swapped = np.sort(familiar)[189]  # 95 % of the familiar are let pass
    got = expect_parts(learner.call("alarms", familiar, strange, prevalence), ["FPR95", "the precision"])
    with part("FPR95"):
        expect_close(
            got[0],
            false,
            what="FPR95",
            mistakes={
                "the classes are swapped: 95 % of the *strange* are stopped, familiar are counted": np.mean(
                    strange <= swapped
                ),
                "95 % of the familiar were let pass: the threshold is set by the strange": np.mean(
                    familiar > swapped
                ),
                "that is the share of the familiar that pass: count those that are stopped": 1 - false,
                INTERPOLATED: between,
            },
        )
        known, others, low, high = uneven(seed)
        of_37 = expect_parts(learner.call("alarms", known, others, prevalence), ["FPR95", "the precision"])
        expect_close(
            of_37[0],
            np.mean(known >= low),
            what="FPR95 with 37 strange",
            mistakes={
                "rounded down: of 37 strange 36 must be stopped, for 35 are less than 95 %": np.mean(
                    known >= high
                ),
            },
        )

    def precision(share, false=false, found=found):
        return found * share / (found * share + false * (1 - share))

    with part("the precision"):
        expect_close(
            got[1],
            precision(prevalence),
            what="the precision",
            mistakes={
                "one minus a rate among the familiar is no share of the alarms": 1 - false,
                "that is the precision in this sample: the strange are rarer in operation": precision(
                    40 / 240
                ),
                "that is the precision at even odds: weigh both rates by the prevalence": precision(0.5),
                "prevalence and its complement are swapped": precision(1 - prevalence),
                "that is the share of the strange that are stopped": found,
                INTERPOLATED: precision(prevalence, between),
            },
        )
        stopped = np.mean(known >= low)
        expect_close(
            of_37[1],
            precision(prevalence, stopped, 36 / 37),
            what="the precision with 37 strange",
            mistakes={
                "of 37 strange more than 95 % are stopped: count them": precision(prevalence, stopped),
            },
        )


def table(seed):
    """AUROC of six detectors on four sets, in which every way of choosing gives another figure."""
    rng = np.random.default_rng(seed)
    while True:
        figures = np.clip(0.9 + 0.02 * rng.normal(size=(6, 1)) + 0.03 * rng.normal(size=(6, 4)), 0.5, 1)
        found = sorted(choices(figures).values())
        if np.diff(found).min() > 1e-3:
            return figures


def choices(figures):
    sets = range(figures.shape[1])
    others = [np.delete(figures, s, axis=1).mean(axis=1).argmax() for s in sets]
    honest, leaked = figures[others, sets], figures.max(axis=0)
    one = figures[figures.mean(axis=1).argmax()]
    return {
        "right": np.mean(leaked - honest),
        "kept": np.mean(leaked - one),
        "sign": np.mean(honest - leaked),
        "leaked": leaked.mean(),
        "honest": honest.mean(),
        "range": np.mean(leaked - figures.min(axis=0)),
        "average": np.mean(leaked - figures.mean(axis=0)),
    }


@question(
    "q6",
    points={"`flattery`": 1},
    hint="For each set: which detector is best on average over the *other* sets?",
    read="Tuning without leaking",
)
def the_flattery_of_a_leaked_choice_is_right(learner, seed):
    figures = table(seed)
    found = choices(figures)
    expect_close(
        learner.call("flattery", figures),
        found["right"],
        what="the flattery",
        mistakes={
            "the reported set took part in the choice: leave it out of the average": found["kept"],
            "the sign: leaked minus honest": found["sign"],
            "that is the leaked figure itself: subtract the honest one": found["leaked"],
            "that is the honest figure itself: subtract it from the leaked one": found["honest"],
            "the best against the worst: the honest choice is not the worst one": found["range"],
            "the best against the average detector: an honest choice is better than none": found["average"],
        },
    )


@question(
    "q6",
    points={"`more_candidates`": 1},
    hint="The best of many noisy figures is the one that luck favoured most.",
    read="Tuning without leaking",
)
def the_flattery_grows_with_the_candidates(learner, seed):
    expect_choice(
        learner.value("more_candidates"),
        "grows",
        {
            "shrinks": "the other way: each further candidate is a further chance of being lucky on this set",
            "stays": "the largest of many figures rises with their number, even if all are equally good",
        },
        what="`more_candidates`",
    )


q7 = manual(
    "q7",
    "An alarm that was tuned and reported on noise: which doubts, and which experiment?",
    {
        "noise is far, it was used for the choice, and AUROC hides how rare the strange are": 1,
        "a near set that was in no choice, with FPR95 or precision at the true prevalence, over seeds": 1,
    },
)
