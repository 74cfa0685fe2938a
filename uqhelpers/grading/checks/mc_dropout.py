"""Checks of the exercise on MC-Dropout."""

import numpy as np

from uqhelpers.metrics import expected_entropy, mutual_information, predictive_entropy

from .._engine import (
    as_number,
    as_numbers,
    expect,
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
    rates = rng.permutation(np.linspace(0.1, 0.45, 150))  # one for each column
    values = rng.uniform(1, 2, size=(200, len(rates)))
    draw = int(rng.integers(1, 10_000))
    got = as_numbers(learner.call("drop", values, rates, draw), "the dropped values")
    expect(got.shape == values.shape, f"expected the shape {values.shape}, got {got.shape}")
    dropped, rate = got == 0, rates.mean()
    expect(dropped.any(), "nothing is dropped")
    five = 5 * 0.5 / (values.size / 2) ** 0.5  # at least five standard errors of the share of a half
    swapped = abs(dropped.mean() - (1 - rate)) < five
    expect(not swapped, "kept and dropped are swapped: `rates` are the shares that are dropped")
    shared = np.all(dropped == dropped[:1])
    expect(not shared, "one mask for all inputs: each row draws its own")
    expect(abs(dropped.mean() - rate) < five, "another share of the values is dropped than `rates` say")
    for half in (rates < rate, rates > rate):
        apart = abs(dropped[:, half].mean() - rates[half].mean())
        expect(apart < five, "each column has a rate of its own: `rates[d]` is that of column `d`")
    of_each = np.broadcast_to(rates, values.shape)[~dropped]
    mistakes = {
        "what is kept is not scaled up: the average of the output falls with the rate": np.ones_like(of_each),
        "scaled by the share that is kept: divide by it": 1 - of_each,
        "divided by the rate: divide by the share that is kept": 1 / of_each,
        "one scale for all: each column has a rate of its own": np.full_like(of_each, 1 / (1 - rate)),
    }
    expect_close((got / values)[~dropped], 1 / (1 - of_each), what="the scale", mistakes=mistakes)
    again = as_numbers(learner.call("drop", values, rates, draw))
    other = as_numbers(learner.call("drop", values, rates, draw + 1))
    expect(np.array_equal(got, again), "the same seed must give the same mask")
    expect(not np.array_equal(got, other), "another seed must give another mask")


def variances_of_average(weight, inputs, rate, bare=0, swapped=0, root=0, independent="sum", shared="mean"):
    """The variances of a data set's average, for independent masks and for one mask."""
    odds = (1 - rate) / rate if swapped else rate / (1 - rate)
    factor = rate * (1 - rate) if bare else odds
    terms = inputs * weight
    own = (terms**2).sum() / len(inputs) ** (2 if independent == "sum" else 1)
    one = {
        "mean": (terms.mean(axis=0) ** 2).sum(),
        "own": (terms**2).sum() / len(inputs) ** 2,
        "squares": (terms**2).mean(axis=0).sum(),
        "units": terms.mean(axis=0).sum() ** 2,
    }[shared]
    return np.array([factor * own, factor * one]) ** (0.5 if root else 1)


@question(
    "q2",
    points={"independent masks": 1, "one mask": 2},
    hint="Write the average as one sum over the coins that are tossed: which coins are there, in each case?",
    read="From scratch",
)
def the_variance_of_an_average_depends_on_who_shares_a_mask(learner, seed):
    rng = np.random.default_rng(seed)
    weight, inputs = rng.normal(size=6), rng.normal(0.7, 1, size=(5, 6))
    rate = float(rng.uniform(0.2, 0.4))
    got = expect_parts(
        learner.call("variance_of_average", weight, inputs, rate), ["independent masks", "one mask"]
    )
    in_both = {
        "that is the variance of the bare mask: what is kept is divided by 1 - rate": {"bare": 1},
        "kept and dropped are swapped: no dropout, no variance": {"swapped": 1},
        "that is the standard deviation": {"root": 1},
    }
    with part("independent masks"):
        expect_close(
            as_number(got[0], "the variance"),
            lambda **slips: variances_of_average(weight, inputs, rate, **slips)[0],
            what="the variance",
            mistakes={
                **in_both,
                "the variance of a sum of independent things is the sum of theirs: divide by the square of "
                "their number": {"independent": "mean"},
            },
        )
    with part("one mask"):
        expect_close(
            as_number(got[1], "the variance"),
            lambda **slips: variances_of_average(weight, inputs, rate, **slips)[1],
            what="the variance",
            mistakes={
                **in_both,
                "under one mask the inputs move together: that is the variance for independent ones": {
                    "shared": "own"
                },
                "average the inputs first, then square": {"shared": "squares"},
                "units are dropped one by one: square each unit's term, then add": {"shared": "units"},
            },
        )


@question(
    "q3",
    points=2,
    hint="How much less sure is the average of the passes than the passes are by themselves?",
    forbids=ENTROPIES,
    read="From scratch",
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


def spreads(means, logs, over=np.exp, back=None, total=1, passes=1, root=1, sums=0):
    """Aleatoric and total standard deviation of normal passes."""
    named = over(logs).mean(axis=0)
    aleatoric = named if back is None else back(named)
    between = means.var(axis=0) / (len(means) if passes == 0 else 1)
    if sums:
        return np.stack([aleatoric**0.5, aleatoric**0.5 + between**0.5])
    return np.stack([aleatoric, aleatoric + total * between]) ** (0.5 if root else 1)


@question(
    "q5",
    points={"the aleatoric part": 1, "the total": 1},
    hint="Variances of independent things add up; standard deviations and logarithms do not.",
    read="The two terms",
)
def a_network_that_names_its_noise_has_both_kinds_of_spread(learner, seed):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(40, 6)) * rng.uniform(0.5, 2, size=6)
    logs = rng.normal(size=(40, 6)) + rng.uniform(-1, 1, size=6)
    got = expect_parts(
        learner.call("spreads", np.stack([means, logs], axis=-1)), ["the aleatoric part", "the total"]
    )
    right = lambda index: lambda **slips: spreads(means, logs, **slips)[index]  # noqa: E731
    named = {
        "the variances are averaged, not their logarithms": {"over": lambda v: v, "back": np.exp},
        "variances are averaged, not standard deviations": {
            "over": lambda v: np.exp(v / 2),
            "back": np.square,
        },
        "those are variances: take their root": {"root": 0},
    }
    with part("the aleatoric part"):
        expect_close(got[0], right(0), what="the standard deviation", mistakes=named)
    with part("the total"):
        total = as_numbers(got[1], "the standard deviation")
        unbiased = (np.exp(logs).mean(axis=0) + means.var(axis=0, ddof=1)) ** 0.5
        if total.shape == (6,) and np.allclose(total, unbiased):  # the other convention is as good
            return
        expect_close(
            total,
            right(1),
            what="the standard deviation",
            mistakes={
                **named,
                "the spread of the means is missing: that is the aleatoric part": {"total": 0},
                "standard deviations do not add up, variances do": {"sums": 1},
                "divided by the number of passes: that is how well their mean is known": {"passes": 0},
            },
        )


def corrected(probs, full=None, left=None, axis=0, expanded=0):
    """The jackknife of the mutual information; ``full`` and ``left`` weigh its two terms."""
    probs = np.swapaxes(probs, 0, axis)
    if expanded:
        loss = (probs.var(axis=0, ddof=1) / probs.mean(axis=0)).sum(axis=-1) / 2
        return mutual_information(probs) + loss / len(probs)
    count = len(probs)
    full, left = count if full is None else full, count - 1 if left is None else left
    out = np.mean([mutual_information(np.delete(probs, s, axis=0)) for s in range(count)], axis=0)
    return full * mutual_information(probs) - left * out


@question(
    "q6",
    points=2,
    hint="I_S = I - c/S and I_(S-1) = I - c/(S-1), nearly: two equations, and c is to vanish.",
    forbids=ENTROPIES,
    read="How many passes?",
)
def what_one_pass_less_takes_away_is_given_back(learner, seed):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(4), size=(6, 8))
    expect_close(
        learner.call("corrected", probs),
        lambda **slips: corrected(probs, **slips),
        mistakes={
            "not corrected: that is the estimate from all passes": {"full": 1, "left": 0},
            "the wrong way: the correction has to raise it": {"full": -5, "left": -6},
            "that gives back a part only: what one pass less takes away is about `c / (S (S - 1))`": {
                "full": 2,
                "left": 1,
            },
            "that assumes a bias in proportion to the value": {"full": 6 / 5, "left": 0},
            "you left out inputs: the passes are the first axis": {"axis": 1},
            "an honest estimate, from the second-order term of the page; asked for is the one that needs "
            "no expansion: leave out each pass in turn": {"expanded": 1},
        },
        atol=1e-8,
    )


@question(
    "q7",
    points=2,
    hint="Each seed is a pair: five differences, their mean, and 2.78 standard errors of it (t, 4 degrees).",
    read="Does it know its errors?",
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
    residuals = np.array([-1.2, -0.4, 0.1, 0.5, 1.0])  # their standard deviation is .85, with ddof=1
    for t in (8.0, -8.0, 4.0, 1.0, -1.5, 0.6):
        seeds = 0.4 + 0.12 * rng.permutation([-1.3, -0.5, 0.0, 0.6, 1.2])
        spread = 0.01 * rng.permutation(residuals)
        gains = spread + t * spread.std(ddof=1) / 5**0.5
        cases.append((seeds - gains, seeds))
    return [cases[i] for i in rng.permutation(len(cases))]


def factors(
    n, rate, prior_std, noise_std, likelihood=0, half=0, swapped=0, mean=1, rooted=0, twice=2, once=1
):
    """The weight decay of a regression, and the optimiser's argument."""
    kept = rate if swapped else 1 - rate
    variances = noise_std / prior_std if rooted else (noise_std / prior_std) ** 2
    if likelihood:
        variances = 0.5 / prior_std**2
    factor = variances / (n if mean else 1) / kept / (1 if once else kept) / (2 if half else 1)
    return np.array([factor, twice * factor])


@question(
    "q8",
    points={"the factor": 1, "the optimiser's argument": 1},
    hint="Multiply the bound by whatever turns its first term into the mean squared error.",
    read="The two terms",
)
def the_decay_of_a_regression_knows_its_noise(learner, seed):
    rng = np.random.default_rng(seed)
    n, rate = int(rng.integers(200, 900)), float(rng.uniform(0.1, 0.4))
    prior_std, noise_std = float(rng.uniform(1.2, 3)), float(rng.uniform(0.2, 0.8))
    given = n, rate, prior_std, noise_std
    got = expect_parts(learner.call("decay", *given), ["the factor", "the optimiser's argument"])
    in_both = {
        "that is the factor beside the likelihood: the loss is the mean squared error": {"likelihood": 1},
        "kept and dropped are swapped": {"swapped": 1},
        "a mean over the data: the prior's part is divided by `n` too": {"mean": 0},
        "the share that is kept enters once: a column of length M / q is there with probability q": {
            "once": 0
        },
        "both enter squared: the noise and the prior are given as standard deviations": {"rooted": 1},
    }
    with part("the factor"):
        expect_close(
            as_number(got[0], "the factor"),
            lambda **slips: factors(*given, **slips)[0],
            what="the factor",
            mistakes={
                **in_both,
                "the likelihood holds the squared error with a factor of one half": {"half": 1},
            },
            atol=0,
        )
    with part("the optimiser's argument"):
        expect_close(
            as_number(got[1], "the argument"),
            lambda **slips: factors(*given, **slips)[1],
            what="the argument",
            mistakes={**in_both, "the gradient of a square has a factor of two": {"twice": 1}},
            atol=0,
        )


q9 = manual(
    "q9",
    "Does an unchanged spread show that more data would not help?",
    {
        "with rate, weights and values alike the spread has to be: it cannot answer the question": 1,
        "a posterior's would have contracted; what to do: train on less and on more, or such a method": 1,
    },
)
