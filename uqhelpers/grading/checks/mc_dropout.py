"""Checks of the exercise on MC-Dropout."""

import numpy as np

from uqhelpers.metrics import expected_entropy, mutual_information, predictive_entropy

from .._engine import (
    as_numbers,
    expect,
    expect_choice,
    expect_close,
    expect_parts,
    expect_words,
    manual,
    part,
    question,
)
from .._wire import Network

ENTROPIES = (
    "metrics.decomposition._entropy",
    "metrics.decomposition.entropy_of_rows",
    "metrics.predictive_entropy",
    "metrics.expected_entropy",
    "metrics.mutual_information",
    "metrics.decompose",
    "metrics.SampleAccumulator",
)
SAMPLERS = (
    "dropout.dropout_on",
    "dropout.forward_passes",
    "mc_dropout.sample",
    "mc_dropout.sample_outputs",
    "mc_dropout.predict",
    "mc_dropout.predict_regression",
)


@question(
    "q1",
    points=2,
    hint="What is kept makes up for what is dropped: the average over the masks is the value itself.",
    read="The idea: do not switch it off",
)
def dropout_leaves_the_average_as_it_is(learner, seed):
    rng = np.random.default_rng(seed)
    rate = rng.choice([0.2, 0.3, 0.4])
    values = rng.uniform(1, 2, size=(200, 150))
    draw = int(rng.integers(1, 10_000))
    got = as_numbers(learner.call("drop", values, float(rate), draw), "the dropped values")
    expect(got.shape == values.shape, f"expected the shape {values.shape}, got {got.shape}")
    zero = (got == 0).mean()
    expect(zero > 0, "nothing is dropped")
    five = 5 * (rate * (1 - rate) / values.size) ** 0.5  # five standard errors of the share
    expect(abs(zero - (1 - rate)) > five, "kept and dropped are swapped: `rate` is the share that is dropped")
    shared = np.all((got == 0) == (got == 0)[:1])
    expect(not shared, "one mask for all inputs: each row draws its own")
    expect(abs(zero - rate) < five, "another share of the values is dropped than `rate`")
    ratio = (got / values)[got != 0]
    wrong = {
        "what is kept is not scaled up: the average of the output falls with the rate": 1.0,
        "scaled by the share that is kept: divide by it": 1 - rate,
        "divided by the rate: divide by the share that is kept": 1 / rate,
    }
    hints = {text: np.full(len(ratio), scale) for text, scale in wrong.items()}
    expect_close(ratio, np.full(len(ratio), 1 / (1 - rate)), what="the scale", mistakes=hints)
    again = as_numbers(learner.call("drop", values, float(rate), draw))
    other = as_numbers(learner.call("drop", values, float(rate), draw + 1))
    expect(np.array_equal(got, again), "the same seed must give the same mask")
    expect(not np.array_equal(got, other), "another seed must give another mask")


@question(
    "q2",
    points={"the mean": 1, "the variance": 2},
    hint="Each input is kept or not on its own: the variances of the terms of the sum add up.",
    read="The rate decides, not the data",
)
def the_moments_of_a_dropped_layer_are_right(learner, seed):
    rng = np.random.default_rng(seed)
    weight, bias, inputs = rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=(4, 5))
    rate = rng.uniform(0.2, 0.45)
    got = expect_parts(
        learner.call("moments", weight, bias, inputs, float(rate)), ["the mean", "the variance"]
    )
    mean, squares = inputs @ weight.T + bias, inputs**2 @ (weight**2).T
    variance = squares * rate / (1 - rate)
    with part("the mean"):
        expect_close(
            got[0],
            mean,
            what="the mean",
            mistakes={
                "the bias is not dropped: it belongs to the mean": mean - bias,
                "the mean does not shrink: what is kept was divided by 1 - rate": (mean - bias) * (1 - rate)
                + bias,
            },
        )
    with part("the variance"):
        expect_close(
            got[1],
            variance,
            what="the variance",
            mistakes={
                "that is the variance of the bare mask: what is kept is divided by 1 - rate": squares
                * rate
                * (1 - rate),
                "that is the standard deviation": variance**0.5,
                "the square of the sum: independent terms add their squares": (inputs @ weight.T) ** 2
                * rate
                / (1 - rate),
                "kept and dropped are swapped: no dropout, no variance": squares * (1 - rate) / rate,
                "the weights go into a variance squared": inputs**2 @ weight.T * rate / (1 - rate),
            },
        )


@question(
    "q3",
    points=2,
    hint="How much less sure is the average of the passes than the passes are by themselves?",
    forbids=ENTROPIES,
    read="Digits: what the uncertainties show",
)
def separates_disagreement_from_ambiguity(learner, seed):
    probs = np.random.default_rng(seed).dirichlet(np.ones(3), size=(6, 8))
    got = learner.call("epistemic", probs)
    expect_close(
        got,
        mutual_information(probs),
        mistakes={
            "that is the total: subtract the average entropy of the passes": predictive_entropy(probs),
            "that is the aleatoric part: the average of the entropies": expected_entropy(probs),
            "the right idea in bits: use the natural logarithm": mutual_information(probs) / np.log(2),
            "you averaged over the inputs: the samples are the first axis": mutual_information(
                probs.swapaxes(0, 1)
            ),
            "the sign: the entropy of the average is the larger one": -mutual_information(probs),
        },
    )


def network(rng):
    """A linear layer, batch normalisation, dropout of one half, and a linear layer; its inputs."""
    hidden = 12
    while True:
        layers = (
            ("linear", rng.normal(size=(hidden, 4)), rng.normal(size=hidden)),
            ("batchnorm", rng.normal(size=hidden), rng.uniform(0.5, 2, size=hidden)),
            ("relu",),
            ("dropout", 0.5),
            ("linear", rng.normal(size=(3, hidden)), rng.normal(size=3)),
        )
        net, inputs = Network(layers), rng.normal(size=(6, 4)) + 1.5
        if spread_of(net, inputs).min() > 0.5:  # some input may leave every unit at zero
            return net, inputs


def spread_of(net, inputs):
    """Standard deviation of the outputs under dropout of one half: exact, its layer is the last but one."""
    return (Network(net.layers[:3])(inputs) ** 2 @ (net.layers[-1][1] ** 2).T) ** 0.5


def with_batch_statistics(net, inputs):
    """What the network says on average if its batch normalisation uses the batch's own statistics."""
    first, _, *rest = net.layers
    hidden = Network((first,))(inputs)
    own = ("batchnorm", hidden.mean(0), hidden.var(0))
    return Network((first, own, *rest))(inputs)


@question(
    "q4",
    points=3,
    hint="Evaluation mode first, then training mode for the dropout modules alone; and change it back.",
    forbids=SAMPLERS,
    read="`model.train()` wakes more than dropout",
)
def only_the_dropout_is_awake(learner, seed):
    net, inputs = network(np.random.default_rng(seed))
    passes = 400
    got = expect_parts(learner.call("mc_samples", net, inputs, passes), ["samples", "output afterwards"])
    samples, after = as_numbers(got[0], "the samples"), as_numbers(got[1], "the output afterwards")
    want = net(inputs)
    expect(
        samples.shape == (passes, *want.shape),
        f"the samples: expected the shape {(passes, *want.shape)}, passes first, got {samples.shape}",
    )
    expect(samples.std(0).max() > 1e-9, "all passes are the same: in evaluation mode dropout does nothing")
    spread = spread_of(net, inputs)
    error = abs(samples.mean(0) - want) / (spread / passes**0.5)
    confused = abs(samples.mean(0) - with_batch_statistics(net, inputs)) / (spread / passes**0.5)
    expect(
        not (error.max() > 6 and confused.mean() < error.mean()),
        "batch normalisation is awake too: it uses the batch's statistics instead of the learned ones",
    )
    expect(error.max() < 6, "the passes average to something else than what the network says")
    ratio = samples.std(0) / spread
    expect(
        ratio.min() > 0.7 and ratio.max() < 1.4,
        "the spread of the passes is not what dropout of this rate gives",
    )
    expect(
        not np.allclose(samples[:2].std(0), 0),
        "neighbouring passes are the same: each pass draws its own masks",
    )
    expect(after.shape == want.shape, f"the output afterwards: expected {want.shape}, got {after.shape}")
    expect(
        np.allclose(after, want, rtol=1e-6, atol=1e-8),
        "the network is not what it was: it came in evaluation mode, with its statistics as learned",
    )


@question(
    "q5",
    points=2,
    hint="Variances of independent things add up; standard deviations do not.",
    forbids=("mc_dropout.predict_regression",),
    read="Further: a regression, between and beyond the data",
)
def a_new_observation_has_both_kinds_of_spread(learner, seed):
    rng = np.random.default_rng(seed)
    outputs, noise = rng.normal(size=(50, 6)) * rng.uniform(0.5, 2, size=6), float(rng.uniform(0.3, 0.9))
    got = as_numbers(learner.call("predictive_std", outputs, noise), "the standard deviation")
    variance = outputs.var(0)
    unbiased = outputs.var(0, ddof=1)  # the other convention is as good
    if got.shape == (6,) and np.allclose(got, (unbiased + noise**2) ** 0.5):
        return
    expect_close(
        got,
        (variance + noise**2) ** 0.5,
        what="the standard deviation",
        mistakes={
            "the noise is missing: that is the spread of the network, not of an observation": variance**0.5,
            "standard deviations do not add up, variances do": variance**0.5 + noise,
            "that is the variance: take its root": variance + noise**2,
            "the noise enters squared: `noise_std` is a standard deviation": (variance + noise) ** 0.5,
            "divided by the number of passes: that is how well their mean is known": (
                variance / 50 + noise**2
            )
            ** 0.5,
        },
    )


@question(
    "q6",
    points={"`information_by_passes`": 2},
    hint="For each number: keep the first so many passes, then mutual information, then the mean.",
    forbids=ENTROPIES,
    read="How many passes?",
)
def the_curve_over_the_passes_is_right(learner, seed):
    probs = np.random.default_rng(seed).dirichlet(np.ones(4) * 2, size=(30, 7))
    passes = [2, 5, 12, 30]
    parts = [probs[:s] for s in passes]
    want = np.array([mutual_information(part).mean() for part in parts])
    expect_close(
        learner.call("information_by_passes", probs, passes),
        want,
        mistakes={
            "that is the total uncertainty: subtract the average entropy of the passes": [
                predictive_entropy(part).mean() for part in parts
            ],
            "a sum over the inputs: take their mean": want * 7,
            "the right idea in bits: use the natural logarithm": want / np.log(2),
            "you kept the first inputs: the passes are the first axis": [
                mutual_information(probs[:, :s]).mean() for s in passes
            ],
            "each number of passes sees all of them": np.full(4, want[-1]),
        },
    )


@question(
    "q6",
    points={"`few_passes`": 1},
    hint="The entropy is concave: which way does Jensen's inequality push it?",
    read="How many passes?",
)
def the_direction_of_the_bias_is_right(learner, seed):
    expect_choice(
        learner.value("few_passes"),
        "too low",
        {
            "too high": "the other way: the entropy of an average of few is below that of many",
            "unbiased": "the average entropy is unbiased; the entropy of the average is not: it is concave",
        },
        what="`few_passes`",
    )


@question(
    "q7",
    points=3,
    hint="Each seed is a pair: five differences, their mean, and 2.78 standard errors of it (t, 4 degrees).",
    read="Is it calibrated? Compare, and keep the sign",
)
def the_verdict_needs_more_than_two_means(learner, seed):
    cases = experiments(seed)
    got = [learner.call("better", *case) for case in cases]
    paired = np.array([(b - a).mean() for a, b in cases])  # a loss: less is better
    spread = [(b - a).std(ddof=1) for a, b in cases]
    apart = [(a.var(ddof=1) + b.var(ddof=1)) ** 0.5 for a, b in cases]

    def verdicts(sign=1, factor=2.78, spread=spread, root=5**0.5):
        return words(sign * paired, np.array(spread) / root, factor)

    expect_words(
        got,
        verdicts,
        WORDS,
        what="the verdict",
        mistakes={
            "the sign: it is a loss, and less is better": {"sign": -1},
            "two means always differ: is the difference larger than its spread?": {"factor": 0},
            "the seeds come in pairs: take the spread of the differences, not of the two groups": {
                "spread": apart
            },
            "the spread of one difference is not that of their mean: divide by the root of five": {"root": 1},
        },
    )


WORDS = ("yes", "no", "cannot tell")


def words(gains, errors, factor):
    return [
        WORDS[0] if gain > factor * error else WORDS[1] if -gain > factor * error else WORDS[2]
        for gain, error in zip(gains, errors, strict=True)
    ]


def experiments(seed):
    """Pairs of losses over five seeds, of MC-Dropout and of the baseline, none of them a close call.

    The seeds differ much more than the methods do, so that only paired
    differences show the gain; and one gain is clear only for a standard error.
    """
    rng, cases = np.random.default_rng(seed), []
    residuals = np.array([-1.2, -0.4, 0.1, 0.5, 1.0])  # their standard deviation is .86
    for t in (8.0, -8.0, 4.0, 1.0, -1.5, 0.6):
        seeds = 0.4 + 0.12 * rng.permutation([-1.3, -0.5, 0.0, 0.6, 1.2])
        spread = 0.01 * rng.permutation(residuals)
        gains = spread + t * spread.std(ddof=1) / 5**0.5
        cases.append((seeds - gains, seeds))
    return [cases[i] for i in rng.permutation(len(cases))]


q8 = manual(
    "q8",
    "What sets the spread of the masks, and does the number of observations enter?",
    {
        "the spread of the passes is set by the rate and the weights, and does not shrink as data come in": 1,
        "a posterior would contract: says what that means for calling it epistemic": 1,
    },
)
