"""Checks of the exercise on Markov chains."""

import numpy as np

from .._engine import expect_close, expect_parts, expect_words, manual, part, question

SAMPLERS = ("mcmc.sample", "mcmc.network_posterior")


def proposals(seed):
    """Places on the positive line, proposals for them, and a density whose ratios lie on both sides of 1."""
    rng = np.random.default_rng(seed)
    while True:
        here = rng.gamma(3.0, size=12)
        there = here * np.exp(0.8 * rng.standard_normal(12))
        shape, rate = rng.uniform(1.5, 4), rng.uniform(0.5, 2)
        logs = [(shape - 1) * np.log(x) - rate * x for x in (here, there)]
        found = [accepted(*logs, here, there, **slip) for slip in ({}, {"power": 0}, {"power": -1})]
        if 3 <= np.sum(found[0] < 1) <= 9 and all(np.abs(found[0] - one).max() > 0.1 for one in found[1:]):
            return (*logs, here, there)


def accepted(log_here, log_there, here, there, power=1, cap=1.0, sign=1):
    """Metropolis–Hastings for a proposal that multiplies, with the usual slips to choose from."""
    return np.minimum(cap, np.exp(sign * (log_there - log_here)) * (there / here) ** power)


@question(
    "q1",
    points=3,
    hint="How dense is the proposal at `there`, seen from `here`? And the other way round?",
    forbids=SAMPLERS,
    read="Metropolis: a walk that forgets where it began",
)
def a_proposal_that_multiplies_is_not_symmetric(learner, seed):
    case = proposals(seed)
    expect_close(
        learner.call("acceptance", *case),
        lambda **slips: accepted(*case, **slips),
        what="the probabilities",
        mistakes={
            "the proposal is taken for symmetric: on the line of theta itself it is not": {"power": 0},
            "the proposal's ratio is upside down": {"power": -1},
            "a probability is at most 1": {"cap": np.inf},
            "the density's ratio is upside down": {"sign": -1},
        },
    )


def spring(seed):
    rng = np.random.default_rng(seed)
    return round(float(rng.uniform(0.3, 0.9)), 3), round(float(rng.uniform(0.6, 1.8)), 3)


def one_step(step, std, half=2, order="leapfrog", power=2):
    """The matrix of a step on a normal of one dimension, with the usual slips to choose from."""
    pull = step / std**power
    kick = np.array([[1.0, 0.0], [-pull / half, 1.0]])
    drift = np.array([[1.0, step], [0.0, 1.0]])
    if order == "euler":
        return np.array([[1.0, step], [-pull, 1.0]])
    return drift @ kick if order == "no second kick" else kick @ drift @ kick


def curvatures(seed):
    return np.round(np.random.default_rng(seed).uniform(0.3, 3.0, size=5), 3)


def limit(stds, times=2.0, pick=np.min, power=1):
    return times * pick(stds**power)


@question(
    "q2",
    points={"the matrix": 2, "the largest step": 1},
    hint="Kick, drift, kick: write each as a matrix and multiply. Stable while its trace lies within 2.",
    forbids=SAMPLERS,
    read="Hamiltonian Monte Carlo: a flight that keeps its energy",
)
def a_leapfrog_step_is_a_matrix_of_determinant_one(learner, seed):
    step, std = spring(seed)
    with part("the matrix"):
        expect_close(
            learner.call("step_matrix", step, std),
            lambda **slips: one_step(step, std, **slips),
            what="the matrix",
            mistakes={
                "that is Euler's step: its determinant is above 1": {"order": "euler"},
                "the second half of the kick is missing": {"order": "no second kick"},
                "each of the two kicks is half a step": {"half": 1},
                "the slope of the log density is -theta over the VARIANCE": {"power": 1},
                "transposed: rows are what comes out": np.transpose,
            },
        )
    stds = curvatures(seed)
    with part("the largest step"):
        expect_close(
            learner.call("largest_step", stds),
            lambda **slips: limit(stds, **slips),
            what="the largest step",
            mistakes={
                "the narrowest direction decides, not the widest": {"pick": np.max},
                "every direction has its own limit: the smallest counts": {"pick": np.mean},
                "the limit is twice as far: solve for a trace of -2": {"times": 1.0},
                "a step is a length: the standard deviation, not the variance": {"power": 2},
            },
        )


def heavy(seed):
    rng = np.random.default_rng(seed)
    stds = rng.uniform(0.5, 2.0, size=3)
    theta, m = rng.standard_normal((2, 4, 3))
    return stds, theta, m, rng.uniform(0.3, 3.0, size=3), 0.15, int(rng.integers(4, 9))


def flown(stds, theta, m, mass, step, count, drift="divide", first=0.5, last=0.5, extra=0):
    """Leapfrog with a mass a dimension, with the usual slips to choose from."""
    speed = {"divide": 1 / mass, "none": np.ones_like(mass), "times": mass}[drift]
    m = m - first * step * theta / stds**2
    for number in range(count + extra):
        theta = theta + step * speed * m
        m = m - (1.0 if number < count + extra - 1 else last) * step * theta / stds**2
    return theta, m


@question(
    "q3",
    points={"the places": 2, "the momenta": 1},
    hint="H holds sum(m² / (2 mass)): what is then the speed, and what the force?",
    forbids=SAMPLERS,
    read="Hamiltonian Monte Carlo: a flight that keeps its energy",
)
def a_heavy_dimension_flies_slowly(learner, seed):
    stds, theta, m, mass, step, count = heavy(seed)
    names = ["the places", "the momenta"]
    got = expect_parts(learner.call("fly", stds, theta, m, mass, step, count), names)
    for i, name in enumerate(names):
        with part(name):
            expect_close(
                got[i],
                lambda i=i, **slips: flown(stds, theta, m, mass, step, count, **slips)[i],
                what=name,
                mistakes={
                    "the mass has no effect: the speed is momentum over mass": {"drift": "none"},
                    "the mass makes it faster: the speed is momentum OVER mass": {"drift": "times"},
                    "the first kick is half a kick": {"first": 1.0},
                    "the last kick is half a kick": {"last": 1.0},
                    "one step too many": {"extra": 1},
                },
            )


def noisy_slopes(seed):
    rng = np.random.default_rng(seed)
    return np.round(rng.uniform(0.5, 2.0, size=4), 3), 0.2, np.round(rng.uniform(0.5, 4.0, size=4), 3)


def settled(stds, step, noise, drift=2, kick=1, keep=1, power=2):
    """Variance in which Langevin's chain settles, with the usual slips to choose from."""
    factor = (1 - step / (drift * stds**2)) ** 2
    return (step + keep * step**power / 4 * noise ** (2 if kick else 1)) / (1 - factor)


@question(
    "q4",
    points=3,
    hint="Write the variance after one step from the variance before it; in the end the two are equal.",
    forbids=SAMPLERS,
    read="Further: with minibatches",
)
def what_is_never_refused_settles_too_wide(learner, seed):
    case = noisy_slopes(seed)
    expect_close(
        learner.call("settled_variance", *case),
        lambda **slips: settled(*case, **slips),
        what="the variances",
        mistakes={
            "the noise of the slope is missing": {"keep": 0},
            "the noise of the slope enters by its variance": {"kick": 0},
            "the slope's noise is multiplied by step / 2: its variance by the SQUARE of that": {"power": 1},
            "the slope moves by half a step: step / 2": {"drift": 1},
            "that is the posterior's variance, where the chain would like to be": case[0] ** 2,
            "that is the standard deviation": np.sqrt,
        },
    )


def correlated(seed):
    """A chain whose lag-one correlation is known, and sizes that no rounding moves past a whole one."""
    rng = np.random.default_rng(seed)
    while True:
        rho = round(float(rng.choice([rng.uniform(0.5, 0.9), -rng.uniform(0.2, 0.5)])), 3)
        std, tolerance = round(float(rng.uniform(0.5, 3)), 3), round(float(rng.uniform(0.005, 0.03)), 4)
        exact = (std / tolerance) ** 2 * (1 + rho) / (1 - rho)
        if 0.01 < exact % 1 < 0.99:
            return std, rho, tolerance, int(rng.integers(3, 7))


def needed(std, rho, tolerance, sides=2, power=2):
    """Draws for a given error of the mean, with the usual slips to choose from."""
    return np.ceil((std / tolerance) ** power * (1 + sides * rho / (1 - rho)))


def thinned(rho, every, own=True, lost=True, of="worth"):
    """Share of the effective sample size that thinning leaves."""
    before = (1 - rho) / (1 + rho) if of == "worth" else 1.0
    far = rho**every if own else rho
    after = (1 - far) / (1 + far) / (every if lost else 1)
    return after / before


@question(
    "q5",
    points={"the draws": 2, "the share": 1},
    hint="The correlation at lag k is rho to the k. Sum over all lags, to both sides.",
    forbids=("mcmc.effective_sample_size", "mcmc.monte_carlo_error"),
    read="Metropolis: a walk that forgets where it began",
)
def correlation_costs_draws_and_thinning_saves_none(learner, seed):
    std, rho, tolerance, every = correlated(seed)
    with part("the draws"):
        expect_close(
            learner.call("draws_needed", std, rho, tolerance),
            lambda **slips: needed(std, rho, tolerance, **slips),
            what="the draws",
            rtol=0,
            atol=0.1,  # a whole number, and no other
            mistakes={
                "the correlation is not used": {"sides": 0},
                "lags count to both sides: twice the sum, and once the lag of 0": {"sides": 1},
                "the error falls with the ROOT of the draws": {"power": 1},
                "rounded down: the error is then a little above": lambda v: v - 1,
            },
        )
    rho = abs(rho)
    with part("the share"):
        expect_close(
            learner.call("share_after_thinning", rho, every),
            lambda **slips: thinned(rho, every, **slips),
            what="the share",
            mistakes={
                "what is kept is less correlated: rho to the power of the distance": {"own": False},
                "there are fewer draws: divide by their distance": {"lost": False},
                "that is a share of the draws there were, not of what they were worth": {"of": "draws"},
                "that is a share of the draws kept, not of what the whole chain was worth": {
                    "of": "draws",
                    "lost": False,
                },
                "upside down: that is what is lost, not what is left": lambda v: 1 / v,
                "nothing is gained by thinning, but something is lost": 1.0,
            },
        )


WORDS = ("right", "too narrow", "too wide", "too low", "too high")


def rank_table(seed, runs=400):
    """Ranks of the truth for five samplers: one of the words is missing, and another one there twice."""
    rng = np.random.default_rng(seed)
    draws = int(rng.choice([19, 24, 39, 59]))
    order = rng.permutation(len(WORDS))
    order[0] = order[1]
    rng.shuffle(order)
    faults = {
        "right": (0, 1),
        "too narrow": (0, 0.5),
        "too wide": (0, 2),
        "too low": (-1, 1),
        "too high": (1, 1),
    }
    rows = []
    for which in order:
        shift, width = faults[WORDS[which]]
        centre = rng.standard_normal(runs)  # posteriors N(centre, 1): the truth is one more draw
        truth = centre + rng.standard_normal(runs)
        drawn = (centre + shift)[:, None] + width * rng.standard_normal((runs, draws))
        rows.append((drawn < truth[:, None]).sum(axis=1))
    return np.array(rows), draws, [WORDS[which] for which in order]


@question(
    "q6",
    points=3,
    hint="If all draws lie below the truth, its rank is highest. Where do ranks pile up if draws huddle?",
    forbids=SAMPLERS,
    read="Where the answer is known",
)
def ranks_tell_what_is_wrong(learner, seed):
    ranks, draws, right = rank_table(seed)
    swapped = {"too narrow": "too wide", "too wide": "too narrow"}
    turned = {"too low": "too high", "too high": "too low"}
    got = learner.call("diagnose", ranks, draws)
    expect_words(
        got,
        right,
        WORDS,
        mistakes={
            "width the wrong way round: draws that huddle leave the truth outside": [
                swapped.get(word, word) for word in right
            ],
            "place the wrong way round: a rank counts the draws BELOW the truth": [
                turned.get(word, word) for word in right
            ],
            "not every set of ranks is uniform": ["right"] * len(right),
            "their widths are not all alike: look at both ends together": [
                "right" if word in swapped else word for word in right
            ],
        },
    )


q7 = manual(
    "q7",
    "Four chains from one trained network, R̂ at most 1.002 for every weight: what is shown?",
    {
        "shown: chains agree around one optimum; not shown: other modes, for R̂ compares chains only": 1,
        "starts from the prior, R̂ of predictions, divergences, and a case whose answer is known": 1,
    },
)
