"""Checks of the exercise on variational inference."""

import numpy as np

from .._engine import as_numbers, expect, expect_choice, expect_close, expect_parts, manual, part, question

DIVERGENCES = ("variational_inference.kl_of",)
SHARES = ("variational_inference.minibatch_weights",)


def posterior(rng, width=5):
    """Means, standard deviations, and a prior's far from 1."""
    return rng.normal(size=width), rng.uniform(0.1, 0.9, size=width), float(rng.uniform(1.5, 3))


def price(mean, std, prior_std=1.0):
    return np.sum(np.log(prior_std / std) + (std**2 + mean**2) / (2 * prior_std**2) - 0.5)


@question(
    "q1",
    points=2,
    hint="The expectation of log q - log p under q, one weight at a time: E[θ²] is μ² + σ².",
    forbids=DIVERGENCES,
    read="The family: mean field",
)
def the_divergence_of_two_gaussians(learner, seed):
    mean, std, prior_std = posterior(np.random.default_rng(seed))
    want = price(mean, std, prior_std)
    swapped = np.sum(np.log(std / prior_std) + (prior_std**2 + mean**2) / (2 * std**2) - 0.5)
    logs = np.sum(np.log(prior_std / std))
    expect_close(
        learner.call("divergence", mean, std, prior_std),
        want,
        what="the divergence",
        mistakes={
            "the one half is missing: without it q = p would cost something": want + len(mean) / 2,
            "a sum over the weights, not their mean": want / len(mean),
            "the two distributions are swapped: the expectation is under q": swapped,
            "the logarithm has the wrong sign: narrow weights are dear": want - 2 * logs,
            "`prior_std` is a standard deviation, not a variance": price(mean, std, prior_std**0.5),
            "in bits: use the natural logarithm": want / np.log(2),
        },
    )


@question(
    "q2",
    points={"`sigma_of`": 1},
    hint="softplus(ρ) = log(1 + exp ρ); NumPy has a function for log(exp a + exp b).",
    read="The family: mean field",
)
def rho_goes_through_softplus(learner, seed):
    rho = np.append(np.random.default_rng(seed).uniform(-6, 4, size=7), 1000.0)
    want = np.logaddexp(0, rho)
    got = as_numbers(learner.call("sigma_of", rho), "σ")
    overflow = "it overflows: exp of 1,000 is no float"
    if got.shape == want.shape:
        expect(not (np.allclose(got[:-1], want[:-1]) and not np.isfinite(got[-1])), overflow)
        mistakes = {
            "that takes ρ for the logarithm of σ": np.exp(rho[:-1]),
            "that takes ρ for the logarithm of the variance": np.exp(rho[:-1] / 2),
            "that is the variance: no square": np.square,
            "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
        }
        expect_close(got[:-1], want[:-1], what="σ", mistakes=mistakes)
    expect_close(got, want, what="σ")


@question(
    "q2",
    points={"`rho_of`": 1},
    hint="Solve σ = log(1 + exp ρ) for ρ; expm1 keeps the digits of a small σ.",
    read="The family: mean field",
)
def the_way_back_is_the_inverse(learner, seed):
    sigma = np.append(np.random.default_rng(seed).uniform(0.01, 3, size=7), 1000.0)
    expect_close(
        learner.call("rho_of", sigma),
        sigma + np.log(-np.expm1(-sigma)),
        what="ρ",
        mistakes={
            "the inverse is not the inverse: the logarithm undoes exp, not softplus": np.log(sigma),
            "the inverse is not the inverse of softplus: that undoes a variance": 2 * np.log(sigma),
        },
    )


@question(
    "q3",
    points=3,
    hint="E[(y - xᵀw)²] = (y - xᵀμ)² + Var[xᵀw], and the variances of independent terms add up.",
    forbids=DIVERGENCES,
    read="In probabilities",
)
def the_bound_needs_no_sampling(learner, seed):
    rng = np.random.default_rng(seed)
    mean, std, _ = posterior(rng, 3)
    x, noise_std = rng.normal(size=(9, 3)), float(rng.uniform(0.4, 0.8))
    y = x @ mean + rng.normal(size=9)
    constant = 0.5 * len(y) * np.log(2 * np.pi * noise_std**2)
    fit = np.sum((y - x @ mean) ** 2) / (2 * noise_std**2)
    spread = np.sum(x**2 @ std**2) / (2 * noise_std**2)
    kl = price(mean, std)
    want = -constant - fit - spread - kl
    expect_close(
        learner.call("bound", mean, std, x, y, noise_std),
        want,
        what="the bound",
        mistakes={
            "the likelihood at the mean of the weights is not the mean of the likelihood": want + spread,
            "the divergence is subtracted: knowing costs": want + 2 * kl,
            "the divergence is missing": want + kl,
            "the constant of the likelihood is missing": want + constant,
            "variances add up with squares, standard deviations do not": want
            + spread
            - np.sum((x @ std) ** 2) / (2 * noise_std**2),
            "that is the loss: the bound is minus that": -want,
        },
    )


@question(
    "q4",
    points={"`best_variances`": 2},
    hint="What depends on the variances d is ½ Σ Λᵢᵢ dᵢ - ½ Σ log dᵢ: one weight at a time.",
    read="Too narrow, exactly",
)
def the_best_variances_are_the_inverse_precisions(learner, seed):
    root = np.random.default_rng(seed).normal(size=(4, 4))
    precision = root @ root.T + 0.5 * np.eye(4)
    expect_close(
        learner.call("best_variances", precision),
        1 / np.diag(precision),
        what="the variances",
        mistakes={
            "those are the marginal variances: the nearest factorised Gaussian has smaller ones": np.diag(
                np.linalg.inv(precision)
            ),
            "those are precisions: a variance is one over it": np.diag(precision),
            "those are standard deviations: no root": np.diag(precision) ** -0.5,
            "the eigenvalues belong to other axes: q cannot turn": np.sort(1 / np.linalg.eigvalsh(precision)),
        },
    )


@question(
    "q4",
    points={"`combinations`": 1},
    hint="For two weights of variance 1 and correlation r, look along (1, 1) and (1, -1).",
    read="Too narrow, exactly",
)
def a_combination_may_be_too_wide(learner, seed):
    expect_choice(
        learner.value("combinations"),
        "either",
        {
            "narrower": "only for each weight by itself, and along the long axis: look at the short one",
            "wider": "each single weight is too narrow: look along the long axis as well",
        },
        what="`combinations`",
    )


@question(
    "q5",
    points={"equal shares": 1, "Blundell's shares": 2},
    hint="Shares that sum to 1. For the second kind divide above and below by 2^M: no large number is left.",
    forbids=SHARES,
    read="Minibatches: the shares of the divergence",
)
def the_prior_counts_once_an_epoch(learner, seed):
    rng = np.random.default_rng(seed)
    divergence = float(rng.uniform(20, 40))
    for batches in (5, 2000):
        misfits = rng.uniform(30, 50, size=batches)
        halves = 0.5 ** np.arange(1, batches + 1)
        blundell = halves / (1 - 0.5**batches)
        equal = misfits + divergence / batches
        whole = {
            "the whole divergence in every batch: an epoch counts it as often as there are batches": misfits
            + divergence
        }
        with part("equal shares"):
            expect_close(
                learner.call("epoch_losses", misfits, divergence, "uniform"),
                equal,
                what="the losses with equal shares",
                mistakes=whole | {"the divergence is missing": misfits},
            )
        with part("Blundell's shares"):
            got = as_numbers(learner.call("epoch_losses", misfits, divergence, "blundell"), "the losses")
            finite = got.shape != (batches,) or np.isfinite(got).all()
            expect(finite, "it overflows for many batches: 2 to the 2,000 is no float")
            expect_close(
                got,
                misfits + blundell * divergence,
                what="the losses with Blundell's shares",
                mistakes=whole
                | {
                    "equal shares in both cases": equal,
                    "the largest share goes to the first batch": misfits + blundell[::-1] * divergence,
                    "the shares do not sum to one: something is left over": misfits + halves * divergence,
                },
            )


@question(
    "q6",
    points=2,
    hint="A sum of independent Gaussians: its mean is Σ μ h, its variance Σ σ² h².",
    read="Further: one noise for all, or each its own",
)
def the_outputs_are_drawn_instead_of_the_weights(learner, seed):
    rng = np.random.default_rng(seed)
    h, noise = rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    mean, std = rng.normal(size=(3, 4)), rng.uniform(0.1, 0.9, size=(3, 4))
    middle, variance = h @ mean.T, h**2 @ std.T**2
    expect_close(
        learner.call("outputs", h, mean, std, noise),
        middle + np.sqrt(variance) * noise,
        what="the outputs",
        mistakes={
            "noise is multiplied by a standard deviation: the root is missing": middle + variance * noise,
            "standard deviations do not add up: variances do": middle + np.abs(h) @ std.T * noise,
            "the inputs go into the variance squared": middle + np.sqrt(np.abs(h) @ std.T**2) * noise,
            "the noise is missing": middle + np.sqrt(variance),
            "the same noise for all inputs: each has a row of its own": middle
            + np.sqrt(variance) * noise[:1],
            "that is the mean: the weights vary": middle,
        },
    )


@question(
    "q7",
    points={"along the path": 1, "by the score function": 1},
    hint="∂θ/∂μ = 1, so the path passes the slope on; log q is -(θ - μ)²/(2σ²), and θ - μ is σε.",
    read="The gradient of an expectation",
)
def both_estimates_are_right(learner, seed):
    rng = np.random.default_rng(seed)
    mean, std, noise = rng.normal() + 2, float(rng.uniform(0.3, 0.7)), rng.normal(size=12)
    draws = mean + std * noise
    values, slopes = draws**2, 2 * draws
    got = expect_parts(
        learner.call("estimates", values, slopes, noise, std), ["along the path", "by the score function"]
    )
    with part("along the path"):
        expect_close(
            got[0],
            slopes,
            what="the estimate along the path",
            mistakes={
                "that is the derivative for σ: for the mean, ∂θ/∂μ is 1": slopes * noise,
                "σ has no part in it: ∂θ/∂μ is 1": slopes * std,
                "the two are swapped: the path comes first": values * noise / std,
            },
        )
    with part("by the score function"):
        expect_close(
            got[1],
            values * noise / std,
            what="the estimate by the score function",
            mistakes={
                "the derivative of the log density is the noise over σ": values * noise,
                "σ once: the distance from the mean is σε, divided by σ²": values * noise / std**2,
                "the sign: the density rises towards a draw above the mean when the mean rises": -values
                * noise
                / std,
                "the value, not the slope: it needs no derivative of f": slopes * noise / std,
            },
        )


@question(
    "q7",
    points={"`scatters_less`": 1},
    hint="Compare the two variances that the cell prints.",
    read="The gradient of an expectation",
)
def the_path_scatters_less_here(learner, seed):
    expect_choice(
        learner.value("scatters_less"),
        "path",
        {"score": "look at the variances: it multiplies a large value with noise of either sign"},
        what="`scatters_less`",
    )


q8 = manual(
    "q8",
    "What does a divergence multiplied by one tenth compute, and what does its better likelihood tell?",
    {
        "the posterior of more data than there are: not a better approximation of the posterior": 1,
        "a better likelihood points to a prior, likelihood or family that does not fit": 1,
    },
)
