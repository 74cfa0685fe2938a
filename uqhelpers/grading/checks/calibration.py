"""Checks of the exercise on calibration."""

import numpy as np

from uqhelpers.metrics import calibration_error_from_confidence, fit_temperature, from_logits

from .._engine import as_numbers, expect, expect_choice, expect_close, expect_parts, manual, question

ERRORS = (
    "metrics.calibration._curve",
    "metrics.calibration_error_from_confidence",
    "metrics.expected_calibration_error",
    "metrics.reliability_curve",
    "metrics.reliability_from_confidence",
)


@question(
    "q1",
    points=3,
    hint="Average both prices over y drawn from the truth, for what is said and for honesty, and subtract.",
)
def the_price_of_not_being_honest_is_right(learner, seed):
    truth, said = np.random.default_rng(seed).dirichlet(np.full(4, 3.0), size=(2, 7))
    got = expect_parts(learner.call("regret", truth, said), ["of the log score", "of the Brier score"])
    log = np.sum(truth * np.log(truth / said), axis=1)
    expect_close(
        got[0],
        log,
        what="the regret of the log score",
        mistakes={
            "truth and forecast are swapped: the labels come from the truth": np.sum(
                said * np.log(said / truth), axis=1
            ),
            "that is the whole price: subtract what honesty costs": -np.sum(truth * np.log(said), axis=1),
            "the right idea in bits: use the natural logarithm": log / np.log(2),
            "the sign: honesty is the cheaper one": -log,
            "a mean over the classes: the expectation is a sum, weighted by the truth": log / 4,
        },
    )
    brier = np.sum((truth - said) ** 2, axis=1)
    expect_close(
        got[1],
        brier,
        what="the regret of the Brier score",
        mistakes={
            "that is the whole price: the label's own spread is paid by everyone": brier
            + np.sum(truth * (1 - truth), axis=1),
            "a distance, where the square of it is asked for": np.sum(np.abs(truth - said), axis=1),
            "the mean over the classes, where the sum is meant": brier / 4,
            "half of it: both classes count, also the one that did not happen": brier / 2,
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
)
def the_calibration_error_is_right(learner, seed):
    confidence, correct = on_edges(seed)
    right, left, phantom, both = rules(confidence)
    gaps, share = binned(confidence, correct, right)
    expect_close(
        learner.call("ece", confidence, correct, 10),
        calibration_error_from_confidence(confidence, correct),
        mistakes={
            "the bins are closed on the left: .6 belongs to the bin that ends there": error(
                confidence, correct, left
            ),
            "an eleventh bin for confidence 1, and closed on the left": error(confidence, correct, both),
            "an eleventh bin for confidence 1: it belongs to the last of ten": error(
                confidence, correct, phantom
            ),
            "every bin counts the same: weigh it by how many it holds": np.abs(gaps).mean(),
            "empty bins count as right: leave them out, and weigh the others": np.abs(gaps).sum() / 10,
            "the gaps cancel: take their absolute values": share @ gaps,
            "over and under cancel: take absolute values bin by bin, not at the end": abs(share @ gaps),
            "a root mean square, where the mean distance is asked for": (share @ gaps**2) ** 0.5,
            "the largest gap is another measure": np.abs(gaps).max(),
        },
    )


@question(
    "q3",
    points=3,
    hint="Bins are the values that occur. How far is each from what happened there, and that from the rate?",
    forbids=("calibration.brier_decomposition", "calibration._murphy"),
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
    reliability, resolution = share @ (values - rate) ** 2, share @ (rate - base) ** 2
    expect_close(
        got[0],
        reliability,
        what="the reliability",
        mistakes={
            "that is the resolution: the two are swapped": resolution,
            "every value counts the same: weigh it by how often it is said": np.mean((values - rate) ** 2),
            "a distance, where its square is asked for": share @ np.abs(values - rate),
            "that is the whole Brier score: compare with the frequency, not with each outcome": np.mean(
                (forecast - happened) ** 2
            ),
        },
    )
    expect_close(
        got[1],
        resolution,
        what="the resolution",
        mistakes={
            "that is the spread of the forecasts: what *happened* has to differ": share
            @ (values - base) ** 2,
            "every value counts the same: weigh it by how often it is said": np.mean((rate - base) ** 2),
            "the sign: the resolution is positive, and is subtracted": -resolution,
        },
    )
    expect_close(
        got[2],
        base * (1 - base),
        what="the uncertainty",
        mistakes={
            "that is what is left within the values: the uncertainty knows nothing of the forecasts": share
            @ (rate * (1 - rate)),
            "a standard deviation: the Brier score is a square": (base * (1 - base)) ** 0.5,
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
    forbids=("metrics.fit_temperature", "metrics.calibration._slope"),
)
def the_temperature_is_found_wherever_it_is(learner, seed):
    rng = np.random.default_rng(seed)
    truths = [rng.uniform(4, 6), rng.uniform(0.2, 0.4), rng.uniform(18, 25)]
    cases = [hot(seed + i, truth) for i, truth in enumerate(truths)]
    want = np.array([fit_temperature(*case) for case in cases])
    got = np.array([float(as_numbers(learner.call("temperature", *case), "T").item()) for case in cases])
    expect(
        not np.allclose(got, 1 / want, rtol=0.01),
        "that is 1/T: the logits are divided by the temperature",
    )
    expect(
        not (abs(got[1] - 1) < 0.01 and np.allclose(got[[0, 2]], want[[0, 2]], rtol=0.01)),
        "a temperature may lie below 1: an under-confident network has to become surer",
    )
    far = np.abs(got / want - 1) > 0.01
    expect(
        not (far[2] and abs(got[2]) < 0.7 * want[2]),
        f"the search did not arrive: it stopped at {got[2]:.2f}, and the best is near {want[2]:.0f}",
    )
    expect(not far.any(), f"T is {got.round(3)}, more than 1 % from the best")


@question(
    "q5",
    points=2,
    hint="Write the Gaussian log-likelihood with s times the standard deviation; set its slope to 0.",
)
def the_factor_for_a_regression_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=80), rng.uniform(0.5, 2, size=80)
    targets = mean + 0.4 + 1.7 * std * rng.normal(size=80)
    z = (targets - mean) / std
    factor = np.mean(z**2) ** 0.5
    expect_close(
        learner.call("widen", mean, std, targets),
        factor,
        what="the factor",
        mistakes={
            "that is the factor of the variance: take its root": factor**2,
            "the mean distance belongs to a Laplacian: a Gaussian asks for squares": np.abs(z).mean(),
            "each residual is measured by its own standard deviation": np.mean((targets - mean) ** 2) ** 0.5,
            "a shift is an error too: do not subtract the mean residual": z.std(),
            "two averages: the mean of the ratios is not the ratio of the means": (
                np.mean((targets - mean) ** 2) / np.mean(std**2)
            )
            ** 0.5,
            "the other way round: wide residuals ask for a larger standard deviation": 1 / factor,
        },
    )


def luck_of(confidence, correct, draws, rng):
    measured = calibration_error_from_confidence(confidence, correct)
    drawn = rng.random((draws, len(confidence))) < confidence
    return np.mean([calibration_error_from_confidence(confidence, one) >= measured for one in drawn])


def suspects(seed):
    """A calibrated forecaster whose error is a little large by luck, and one that is over-confident."""
    rng = np.random.default_rng(seed)
    while True:
        confidence = rng.uniform(0.5, 1, 150)
        correct = rng.random(150) < confidence
        if 0.1 < (share := luck_of(confidence, correct, 600, rng)) < 0.3:
            break
    return (confidence, correct, share), (confidence, rng.random(150) < confidence - 0.2, 0.0)


@question(
    "q6",
    points={"`luck`": 3},
    hint="Let each answer be right with the chance that its confidence says; how often is the ECE as large?",
)
def the_luck_of_a_calibrated_model_is_right(learner, seed):
    (confidence, correct, share), (_, wrong, _) = suspects(seed)
    first = float(as_numbers(learner.call("luck", confidence, correct, 600, 1), "the share").item())
    second = float(as_numbers(learner.call("luck", confidence, wrong, 600, 2), "the share").item())
    expect(0 <= first <= 1 and 0 <= second <= 1, "a share lies between 0 and 1")
    expect(
        not (abs(first - (1 - share)) < 0.12 and second > 0.9),
        "the other tail: count the draws whose error is at least as large as the measured one",
    )
    expect(
        not (first > 0.3 and second > 0.3),
        "drawn with the measured accuracy, not the confidences: what would a *calibrated* model show?",
    )
    expect(first > 0.02, "never as large: a calibrated model with 150 inputs has an ECE well above 0")
    expect(abs(first - share) < 0.12, f"{first:.2f} of the draws, where about {share:.2f} are expected")
    expect(second < 0.05, "an over-confident model passes as calibrated")


@question(
    "q6",
    points={"`few_inputs`": 1},
    hint="A mean of distances cannot fall below zero; noise can only push it up.",
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
