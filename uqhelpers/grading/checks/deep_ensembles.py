"""Checks of the exercise on deep ensembles."""

import numpy as np
from scipy.special import logsumexp

from .._engine import as_number, as_numbers, expect, expect_choice, expect_close, expect_parts, part, question

MIXTURES = ("deep_ensembles.mixture_moments", "deep_ensembles.mixture_nll")


def gaussian(targets, location, scale):
    return np.log(scale) + (targets - location) ** 2 / (2 * scale**2) + 0.5 * np.log(2 * np.pi)


@question(
    "q1",
    points={"the Gaussian loss": 1, "the Laplacian loss": 2},
    hint="Take minus the logarithm of the density: a product becomes a sum, and the constants stay.",
    forbids=("metrics.gaussian_nll", "deep_ensembles.laplace_nll"),
    read="A network that states its noise",
)
def both_likelihoods_are_right(learner, seed):
    rng = np.random.default_rng(seed)
    targets, location = rng.normal(size=(2, 9))
    scale, residual = rng.uniform(0.3, 3, size=9), targets - location
    want = gaussian(targets, location, scale), np.log(2 * scale) + np.abs(residual) / scale
    got = expect_parts(learner.call("losses", targets, location, scale), ["Gaussian", "Laplacian"])
    half = 0.5 * np.log(2 * np.pi)
    with part("the Gaussian loss"):
        expect_close(
            got[0],
            want[0],
            what="the Gaussian loss",
            mistakes={
                "that is the average over the targets: one number for each is asked for": np.mean,
                "the scale is a standard deviation, and you used it as a variance": 0.5 * np.log(scale)
                + residual**2 / (2 * scale)
                + half,
                "the constant is missing: ½ log 2π": want[0] - half,
                "the sign: a *negative* log-likelihood": -want[0],
                "the half is missing before the square": want[0] + residual**2 / (2 * scale**2),
            },
        )
    with part("the Laplacian loss"):
        expect_close(
            got[1],
            want[1],
            what="the Laplacian loss",
            mistakes={
                "that is the average over the targets: one number for each is asked for": np.mean,
                "the density of a Laplacian has 2b before it, not b": want[1] - np.log(2),
                "a square belongs to the Gaussian: the Laplacian has the distance": np.log(2 * scale)
                + residual**2 / scale,
                "the scale is b, not its standard deviation √2 b": np.log(np.sqrt(2) * scale)
                + np.sqrt(2) * np.abs(residual) / scale,
                "the sign: a *negative* log-likelihood": -want[1],
            },
        )


@question(
    "q2",
    points={"the mean": 0.5, "the aleatoric variance": 1.5, "the epistemic variance": 1},
    hint="Average E[y] and E[y²] over the members; E[y²] of a member is its variance plus its squared mean.",
    forbids=MIXTURES,
    read="The mixture and its moments",
)
def the_moments_of_a_mixture_are_right(learner, seed):
    rng = np.random.default_rng(seed)
    locations, scales = 1.5 * rng.normal(size=(4, 7)), rng.uniform(0.3, 2, size=(4, 7))
    names = ["the mean", "the aleatoric variance", "the epistemic variance"]
    epistemic = locations.var(axis=0)
    for likelihood, factor in {"gaussian": 1, "laplace": 2}.items():
        aleatoric = factor * np.mean(scales**2, axis=0)
        got = expect_parts(learner.call("moments", locations, scales, likelihood), names)
        with part("the mean"):
            expect_close(got[0], locations.mean(axis=0), what=f"the mean ({likelihood})")
        with part("the aleatoric variance"):
            expect_close(
                got[1],
                aleatoric,
                what=f"the aleatoric variance ({likelihood})",
                mistakes={
                    "the variance of a Laplacian is 2b²: integrate r² by parts": np.mean(scales**2, axis=0)
                    * (0.5 if factor == 1 else 1),
                    "standard deviations do not average: average the variances": factor
                    * np.mean(scales, axis=0) ** 2,
                    "those are standard deviations: variances are asked for": np.sqrt(aleatoric),
                    "that is the total: the disagreement is a part of its own": aleatoric + epistemic,
                    "the two parts are swapped": epistemic,
                },
            )
        with part("the epistemic variance"):
            expect_close(
                got[2],
                epistemic,
                what=f"the epistemic variance ({likelihood})",
                mistakes={
                    "that is a standard deviation: a variance is asked for": np.sqrt(epistemic),
                    "the mixture has M equal parts: divide by M, not by M - 1": locations.var(axis=0, ddof=1),
                    "that is the total: leave the noise out": aleatoric + epistemic,
                    "that is the second moment: subtract the square of the mean": np.mean(
                        locations**2, axis=0
                    ),
                },
            )


@question(
    "q3",
    points=3,
    hint="Average densities, not logarithms. Take the largest logarithm out before you exponentiate.",
    forbids=MIXTURES,
    read="The mixture and its moments",
)
def the_likelihood_of_a_mixture_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    locations, scales = rng.normal(size=(5, 8)), rng.uniform(0.5, 1.5, size=(5, 8))
    targets = rng.normal(size=8)
    logs = -gaussian(targets, locations, scales)
    each = np.log(5) - logsumexp(logs, axis=0)
    variance = np.mean(scales**2, axis=0) + locations.var(axis=0)
    matched = np.mean(gaussian(targets, locations.mean(axis=0), np.sqrt(variance)))
    got = learner.call("mixture_nll", locations, scales, targets)
    expect_close(
        got,
        each.mean(),
        what="the negative log-likelihood",
        mistakes={
            "that is the average of the members' own: average the densities first": -logs.mean(),
            "a sum over the members: divide by how many they are": each.mean() - np.log(5),
            "one Gaussian with the moments of the mixture is another distribution": matched,
            "a sum over the targets: their mean is asked for": each.sum(),
            "the sign: a *negative* log-likelihood": -each.mean(),
        },
    )
    targets[0] += 150
    got = learner.call("mixture_nll", locations, scales, targets)
    expect(
        np.isfinite(as_numbers(got, "the negative log-likelihood")).all(),
        "the exponential underflows at a far target: take the largest logarithm out first",
    )
    each = np.log(5) - logsumexp(-gaussian(targets, locations, scales), axis=0)
    expect_close(got, each.mean(), what="the negative log-likelihood with a far target")


@question(
    "q4",
    points=3,
    hint="What does `loss` divide the residual by? And what happened to the members' disagreement?",
    forbids=MIXTURES,
    read="A variance used as a standard deviation",
)
def the_interval_is_mended(learner, seed):
    rng = np.random.default_rng(seed)
    locations, rho = rng.normal(size=(5, 6)), rng.uniform(-2, 4, size=(5, 6))
    sigma = np.logaddexp(0, rho) + 1e-6
    mean, spread, noise = locations.mean(axis=0), locations.var(axis=0), np.mean(sigma**2, axis=0)
    got = expect_parts(learner.call("interval", locations, rho), ["the lower end", "the upper end"])
    lower, upper = (as_numbers(end, "an end") for end in got)
    expect(
        lower.shape == upper.shape == (6,),
        f"each end has the shape (6,), one for each input; got {lower.shape}",
    )
    expect(bool(np.all(upper >= lower)), "the lower end comes first")
    expect_close((lower + upper) / 2, mean, what="the middle of the interval")
    expect_close(
        (upper - lower) / 2,
        2 * np.sqrt(noise + spread),
        what="half the length",
        mistakes={
            "nothing is mended: the output is taken for a variance, and the disagreement is missing": 2
            * np.sqrt(sigma.mean(axis=0)),
            "the output is still taken for a variance: the loss makes it a standard deviation": 2
            * np.sqrt(sigma.mean(axis=0) + spread),
            "the members' disagreement is missing: add the variance of their means": 2 * np.sqrt(noise),
            "standard deviations do not average: average the variances": 2
            * np.sqrt(sigma.mean(axis=0) ** 2 + spread),
            "one standard deviation, where two are asked for": np.sqrt(noise + spread),
            "standard deviations do not add: variances do": 2 * (np.sqrt(noise) + np.sqrt(spread)),
            "that is a variance: take its root": 2 * (noise + spread),
        },
    )


@question(
    "q5",
    points={"`spread_of_all`": 2},
    hint="The members' own mean lies in the middle of the members, not of all networks. What does that cost?",
    forbids=MIXTURES,
    read="How many members?",
)
def the_spread_of_all_networks_is_estimated(learner, seed):
    locations = np.random.default_rng(seed).normal(size=(4, 6)) * 3
    own = locations.var(axis=0)
    expect_close(
        learner.call("spread_of_all", locations),
        own * 4 / 3,
        what="the variance",
        mistakes={
            "that is the mixture's own, and too small by (M - 1) / M": own,
            "the wrong way: the estimate has to grow": own * 3 / 4,
            "a standard deviation, where a variance is asked for": np.sqrt(own * 4 / 3),
            "one number for each input: the members are the first axis": np.var(locations, ddof=1),
        },
    )


@question(
    "q5",
    points={"`members_needed`": 1},
    hint="Solve (M - 1) / M ≥ share for M, and round up.",
    read="How many members?",
)
def the_number_of_members_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    shares = np.concatenate([[0.5, 0.8, 0.9, 0.95], rng.uniform(0.81, 0.97, size=4)])
    want = np.ceil(1 / (1 - shares) - 1e-9)
    got = np.array([as_number(learner.call("members_needed", float(s)), "the number") for s in shares])
    expect(
        not np.array_equal(got, np.floor(1 / (1 - shares) + 1e-9)),
        "one too few: with a fraction of a member left over, the next whole number is needed",
    )
    expect(not np.allclose(got, np.ceil(1 / shares - 1e-9)), "the share of 1/M is what is *missing*")
    expect(
        not np.allclose(got, np.ceil(shares / (1 - shares) - 1e-9)),
        "one member has nothing: (M - 1) / M is 0 there, so you are one short",
    )
    expect(np.array_equal(got, np.round(got)), "a whole number of members, please")
    expect_close(got, want, what="the number of members")


@question(
    "q6",
    points={"`cross_entropy`": 2},
    hint="Each example has one true class: minus the logarithm of its probability, then the mean.",
    forbids=("metrics.negative_log_likelihood",),
    read="Digits: beside MC-Dropout, at equal cost",
)
def the_cross_entropy_is_summed_over_classes(learner, seed):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(4) * 2, size=9)
    onehot = np.eye(4)[rng.integers(4, size=9)]
    logs = -np.sum(onehot * np.log(probs), axis=1)
    expect_close(
        learner.call("cross_entropy", onehot, probs),
        logs.mean(),
        what="the cross-entropy",
        mistakes={
            "an average over the classes too: it is C times too small": logs.mean() / 4,
            "the sum over the examples: their mean is asked for": logs.sum(),
            "the sign: a *negative* log-likelihood": -logs.mean(),
            "a Brier score, where the log-likelihood is asked for": np.mean(
                np.sum((onehot - probs) ** 2, axis=1)
            ),
            "only the true class counts: the others are not events of their own": np.mean(
                logs - np.sum((1 - onehot) * np.log(1 - probs), axis=1)
            ),
        },
    )


@question(
    "q6",
    points={"`equal_decay`": 1},
    hint="Divide the colleague's whole objective by C. What is its decay then?",
    read="From scratch: one network, then twenty",
)
def the_equal_decay_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    decay, classes = float(rng.uniform(1e-4, 1e-2)), int(rng.integers(3, 12))
    expect_close(
        learner.call("equal_decay", decay, classes),
        decay / classes,
        what="the decay",
        mistakes={
            "the other way round: the script's likelihood is the smaller one": decay * classes,
            "not the same: against a smaller likelihood it weighs more": decay,
        },
    )


@question(
    "q7",
    points={"`case_1`": 0.5, "`case_2`": 0.5, "`case_3`": 1},
    hint="What may be trained, what does disagreement show, and where does it say nothing?",
    read="Ensemble, or something else?",
)
def the_three_cases_are_judged(learner, seed):
    with part("`case_1`"):
        expect_choice(
            learner.value("case_1"),
            "dropout",
            {
                "ensemble": "nobody may train another network: an ensemble is not to be had",
                "neither": "there is dropout in it already, and its masks rank doubtful images well",
            },
            what="`case_1`",
        )
    cheap = (
        "the trainings are nearly free here, and under a shift separate networks are the safer probabilities"
    )
    with part("`case_2`"):
        expect_choice(
            learner.value("case_2"), "ensemble", {"dropout": cheap, "neither": cheap}, what="`case_2`"
        )
    with part("`case_3`"):
        expect_choice(
            learner.value("case_3"),
            "neither",
            {
                "ensemble": "they agree on what they have never seen: no disagreement can ring here",
                "dropout": "masks of one network disagree even less than networks: ask for a density",
            },
            what="`case_3`",
        )
