"""Checks of the exercise on calibration."""

import functools

import numpy as np

from uqhelpers.metrics import calibration_error_from_confidence, fit_temperature, from_logits

from .._engine import as_number, expect, expect_choice, expect_close, expect_parts, manual, part, question

ERRORS = (
    "metrics.reliability.binned",
    "metrics.calibration_error_from_confidence",
    "metrics.expected_calibration_error",
    "metrics.reliability_curve",
    "metrics.reliability_from_confidence",
)


@question(
    "q1",
    points={"the regret of the log score": 2, "the regret of the Brier score": 1},
    hint="Average both prices over y drawn from the truth, for what is said and for honesty, and subtract.",
    read="Scores that reward honesty",
)
def the_price_of_not_being_honest_is_right(learner, seed):
    truth, said = np.random.default_rng(seed).dirichlet(np.full(4, 3.0), size=(2, 7))
    got = expect_parts(learner.call("regret", truth, said), ["of the log score", "of the Brier score"])

    def log(truth=truth, said=said, honesty=1):
        return np.sum(truth * (honesty * np.log(truth) - np.log(said)), axis=1)

    with part("the regret of the log score"):
        expect_close(
            got[0],
            log,
            what="the regret of the log score",
            mistakes={
                "truth and forecast are swapped: the labels come from the truth": {
                    "truth": said,
                    "said": truth,
                },
                "that is the whole price: subtract what honesty costs": {"honesty": 0},
                "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
                "the sign: honesty is the cheaper one": np.negative,
                "a mean over the classes: the expectation is a sum, weighted by the truth": lambda v: v / 4,
            },
        )

    def brier(power=2, honesty=1):
        paid = np.abs(truth - said) ** power
        return np.sum(paid + (1 - honesty) * truth * (1 - truth), axis=1)

    with part("the regret of the Brier score"):
        expect_close(
            got[1],
            brier,
            what="the regret of the Brier score",
            mistakes={
                "that is the whole price: the label's own spread is paid by everyone": {"honesty": 0},
                "a distance, where the square of it is asked for": {"power": 1},
                "the mean over the classes, where the sum is meant": lambda v: v / 4,
                "half of it: both classes count, also the one that did not happen": lambda v: v / 2,
            },
        )


def on_edges(seed):
    """Confidences, some of which lie on the edges of ten bins, so that every rule of binning differs."""
    rng = np.random.default_rng(seed)
    while True:
        edges, inside = rng.choice([0.2, 0.5, 0.6, 0.9], size=40), rng.uniform(0.41, 0.79, 60)
        confidence = np.concatenate([edges, inside, np.ones(15), rng.uniform(0.91, 0.99, 25)])
        # Under-confident on the edges, over-confident between: with gaps of one sign, bins do not matter.
        chance = np.concatenate([np.minimum(edges + 0.4, 1), inside - 0.3, np.full(15, 0.7), np.ones(25)])
        correct = rng.random(len(confidence)) < chance
        errors = sorted(error(confidence, correct, place) for place in rules(confidence))
        if np.diff(errors).min() > 1e-3:
            return confidence, correct


def rules(confidence):
    """The bin of each confidence: closed on the right, on the left, and each with an eleventh bin for 1."""
    edges = np.arange(11) / 10
    right = np.clip(np.digitize(confidence, edges, right=True) - 1, 0, 9)
    left = np.digitize(confidence, edges) - 1
    return right, np.minimum(left, 9), np.where(confidence == 1, 10, right), left


def error(confidence, correct, place):
    gaps, share = binned(confidence, correct, place)
    return share @ np.abs(gaps)


def binned(confidence, correct, place):
    """The gap of every bin that is filled, and its share."""
    kept = np.unique(place)
    gaps = np.array([np.mean(confidence[place == k] - correct[place == k]) for k in kept])
    return gaps, np.array([np.mean(place == k) for k in kept])


@question(
    "q2",
    points=3,
    hint="Right-closed: .6 is in the bin that ends at .6. Every bin counts as much as it holds.",
    forbids=ERRORS,
    read="Further: where libraries disagree",
)
def the_calibration_error_is_right(learner, seed):
    confidence, correct = on_edges(seed)
    right, left, phantom, both = rules(confidence)

    def ece(place=right, distance=np.abs, combine=np.dot):
        gaps, share = binned(confidence, correct, place)
        return combine(share, distance(gaps))

    expect_close(
        learner.call("ece", confidence, correct, 10),
        ece,
        mistakes={
            "the bins are closed on the left: .6 belongs to the bin that ends there": {"place": left},
            "an eleventh bin for confidence 1, and closed on the left": {"place": both},
            "an eleventh bin for confidence 1: it belongs to the last of ten": {"place": phantom},
            "every bin counts the same: weigh it by how many it holds": {
                "combine": lambda share, gaps: gaps.mean()
            },
            "empty bins count as right: leave them out, and weigh the others": {
                "combine": lambda share, gaps: gaps.sum() / 10
            },
            "the gaps cancel: take their absolute values": {"distance": np.positive},
            "over and under cancel: take absolute values bin by bin, not at the end": {
                "distance": np.positive,
                "combine": lambda share, gaps: abs(share @ gaps),
            },
            "a root mean square, where the mean distance is asked for": {
                "distance": np.square,
                "combine": lambda share, gaps: (share @ gaps) ** 0.5,
            },
            "the largest gap is another measure": {"combine": lambda share, gaps: gaps.max()},
        },
    )


@question(
    "q3",
    points={"the reliability": 1, "the resolution": 1, "the uncertainty": 1},
    hint="Bins are the values that occur. How far is each from what happened there, and that from the rate?",
    forbids=("calibration.brier_decomposition", "calibration.parts._murphy"),
    read="What a Brier score is made of",
)
def the_parts_of_the_brier_score_are_right(learner, seed):
    rng = np.random.default_rng(seed)
    forecast = rng.choice([0.1, 0.3, 0.45, 0.8], size=120, p=[0.4, 0.3, 0.2, 0.1])
    happened = (rng.random(120) < 0.15 + 0.6 * forecast).astype(float)
    values = np.unique(forecast)
    share = np.array([np.mean(forecast == value) for value in values])
    rate = np.array([happened[forecast == value].mean() for value in values])
    base = happened.mean()
    got = expect_parts(
        learner.call("murphy", forecast, happened), ["reliability", "resolution", "uncertainty"]
    )
    even = np.full(len(values), 1 / len(values))

    def distance(one, other, share=share, power=2):
        return share @ np.abs(one - other) ** power

    def reliability(one=values, other=rate, **slips):
        return distance(one, other, **slips)

    def resolution(one=rate, other=base, **slips):
        return distance(one, other, **slips)

    with part("the reliability"):
        expect_close(
            got[0],
            reliability,
            what="the reliability",
            mistakes={
                "that is the resolution: the two are swapped": {"one": rate, "other": base},
                "every value counts the same: weigh it by how often it is said": {"share": even},
                "a distance, where its square is asked for": {"power": 1},
                "that is the whole Brier score: compare with the frequency, not with each outcome": np.mean(
                    (forecast - happened) ** 2
                ),
            },
        )
    with part("the resolution"):
        expect_close(
            got[1],
            resolution,
            what="the resolution",
            mistakes={
                "that is the spread of the forecasts: what *happened* has to differ": {"one": values},
                "every value counts the same: weigh it by how often it is said": {"share": even},
                "the sign: the resolution is positive, and is subtracted": np.negative,
                "that is the reliability: the two are swapped": {"one": values, "other": rate},
            },
        )
    with part("the uncertainty"):
        expect_close(
            got[2],
            base * (1 - base),
            what="the uncertainty",
            mistakes={
                "that is what is left within the values: the uncertainty knows no forecasts": share
                @ (rate * (1 - rate)),
                "a standard deviation: the Brier score is a square": np.sqrt,
            },
        )


def hot(seed, truth):
    """Logits that are ``truth`` times too large, and labels drawn from what they should say."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(400, 4))
    labels = (from_logits(logits).cumsum(axis=1) < rng.random((400, 1))).sum(axis=1)
    return truth * logits, np.minimum(labels, 3)


@question(
    "q4",
    points=3,
    hint="In 1/T the loss is convex: its slope changes sign once. Halve an interval on a log scale.",
    forbids=("metrics.fit_temperature", "metrics.temperature._slope"),
    read="One temperature",
)
def the_temperature_is_found_wherever_it_is(learner, seed):
    rng = np.random.default_rng(seed)
    truths = [rng.uniform(4, 6), rng.uniform(0.2, 0.4), rng.uniform(18, 25)]
    cases = [hot(seed + i, truth) for i, truth in enumerate(truths)]
    want = np.array([fit_temperature(*case) for case in cases])
    got = np.array([as_number(learner.call("temperature", *case), "T") for case in cases])
    expect(np.isfinite(got).all() and (got > 0).all(), "a temperature is a positive number")
    near = np.abs(got / want - 1) <= 0.01
    expect(
        not np.allclose(got * want, 1, rtol=0.01), "that is 1/T: the logits are divided by the temperature"
    )
    expect(
        near[1] or not (abs(got[1] - 1) < 0.01 and near[0] and near[2]),
        "a temperature may lie below 1: an under-confident network has to become surer",
    )
    expect(
        near[2] or not got[2] < 0.7 * want[2],
        "the search did not arrive: it stopped long before the best temperature",
    )
    expect(near.all(), "T is more than 1 % from the best in one of three cases")


@question(
    "q5",
    points=2,
    hint="Write the Gaussian log-likelihood with s times the standard deviation; set its slope to 0.",
    read="Further: regression",
)
def the_factor_for_a_regression_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=80), rng.uniform(0.5, 2, size=80)
    targets = mean + 0.4 + 1.7 * std * rng.normal(size=80)
    spread = np.mean(std**2) ** 0.5

    def factor(std=std, root=0.5, power=2, centred=False):
        z = (targets - mean) / std
        return np.mean(np.abs(z - centred * z.mean()) ** power) ** (root * 2 / power)

    expect_close(
        learner.call("widen", mean, std, targets),
        factor,
        what="the factor",
        mistakes={
            "that is the factor of the variance: take its root": {"root": 1},
            "the mean distance belongs to a Laplacian: a Gaussian asks for squares": {"power": 1},
            "each residual is measured by its own standard deviation": {"std": 1},
            "a shift is an error too: do not subtract the mean residual": {"centred": True},
            "two averages: the mean of the ratios is not the ratio of the means": {"std": spread},
            "the other way round: wide residuals ask for a larger standard deviation": np.reciprocal,
        },
    )


def luck_of(confidence, correct, draws, rng):
    """The share of calibrated worlds whose error is at least as large, all of them at once."""
    inside = np.eye(10)[rules(confidence)[0]]  # one row an answer, one column a bin

    def error_of(worlds):
        return np.abs((confidence - worlds) @ inside).sum(axis=-1)

    drawn = rng.random((draws, len(confidence))) < confidence
    return np.mean(error_of(drawn) >= error_of(correct) - 1e-9)


@functools.lru_cache(maxsize=8)
def suspects(seed):
    """Calibrated forecasters whose errors are more and less a matter of luck, and over-confident ones.

    Each with the share of calibrated worlds that have as large an error. The order is drawn.
    """
    rng, cases = np.random.default_rng(seed), []
    for low, high in ((0.1, 0.25), (0.4, 0.55), (0.7, 0.85)):
        while True:
            confidence = rng.uniform(0.5, 1, 150)
            correct = rng.random(150) < confidence
            if low < (share := luck_of(confidence, correct, 600, rng)) < high:
                cases.append((confidence, correct, share))
                break
    for _ in range(2):
        while True:
            confidence = rng.uniform(0.5, 1, 150)
            correct = rng.random(150) < confidence - 0.2
            if luck_of(confidence, correct, 200, rng) == 0:
                cases.append((confidence, correct, 0.0))
                break
    return [cases[i] for i in rng.permutation(len(cases))], int(rng.integers(2**31))


@question(
    "q6",
    points={"`luck`": 3},
    hint="Let each answer be right with the chance that its confidence says; how often is the ECE as large?",
    read="The bias of counting",
)
def the_luck_of_a_calibrated_model_is_right(learner, seed):
    cases, draw = suspects(seed)
    share = np.array([case[2] for case in cases])
    got = np.array(
        [
            as_number(learner.call("luck", confidence, correct, 600, draw + i), "the share")
            for i, (confidence, correct, _) in enumerate(cases)
        ]
    )
    lucky = share > 0
    expect(((got >= 0) & (got <= 1)).all(), "a share lies between 0 and 1")
    expect(
        not np.allclose(got, 1 - share, atol=0.12),
        "the other tail: count the draws whose error is at least as large as the measured one",
    )
    expect(
        not (got > 0.25).all(),
        "drawn with the measured accuracy, not the confidences: what would a *calibrated* model show?",
    )
    expect((got[lucky] > 0.02).all(), "never as large: a calibrated model with 150 inputs has an ECE above 0")
    expect((np.abs(got - share)[lucky] < 0.12).all(), "too often or too seldom for a calibrated model")
    expect((got[~lucky] < 0.05).all(), "an over-confident model passes as calibrated")


@question(
    "q6",
    points={"`few_inputs`": 1},
    hint="A mean of distances cannot fall below zero; noise can only push it up.",
    read="The bias of counting",
)
def the_direction_of_the_bias_is_right(learner, seed):
    expect_choice(
        learner.value("few_inputs"),
        "too high",
        {
            "too low": "the other way: every bin's scatter adds to a distance, and nothing takes away",
            "unbiased": "each gap is unbiased; its absolute value is not",
        },
        what="`few_inputs`",
    )


q7 = manual(
    "q7",
    "A rare failure and an isotonic map: what went wrong, and what would you change?",
    {
        "the map says 0 where no case was seen, and a product or a log turns that into certainty": 1,
        "a remedy that keeps away from 0, or a map with fewer knobs, judged by a proper score": 1,
    },
)
