"""Checks of the exercise on evidential networks."""

import numpy as np
from scipy.special import digamma, gammaln

from .._engine import as_numbers, expect, expect_choice, expect_close, expect_parts, manual, question

DRAWS = ("evidential.decompose", "evidential.predict", "evidential.sample", "evidential.vacuity")
DIVERGENCES = ("evidential.dirichlet_kl", "evidential.evidential_loss")
LIKELIHOODS = ("evidential.nig_nll",)


def dirichlets(seed, n=7, classes=4):
    """Concentrations above 1, no two alike, and a label for each."""
    rng = np.random.default_rng(seed)
    return 1 + rng.gamma(1.5, 4.0, size=(n, classes)), rng.integers(classes, size=n)


@question(
    "q1",
    points=2,
    hint="E[p_c log q_c] is a product of two means; E[p_c log p_c] has one added to a concentration.",
    forbids=DRAWS,
)
def two_draws_are_apart_by_a_closed_form(learner, seed):
    alpha, _ = dirichlets(seed)
    strength = alpha.sum(axis=1, keepdims=True)
    mean = alpha / strength
    total = -(mean * np.log(mean)).sum(axis=1)

    def expected(extra):
        return (mean * (digamma(strength + extra) - digamma(alpha + extra))).sum(axis=1)

    cross, own = expected(0), expected(1)
    apart = cross - own
    names = ["the cross-entropy", "the divergence"]
    got = expect_parts(learner.call("apart", alpha), names)
    expect_close(
        got[0],
        cross,
        what=names[0],
        hints={
            "the mean of a logarithm is not the logarithm of the mean": total,
            "that is the entropy of one draw: p and q are two, and independent": own,
            "the sign: a cross-entropy is not negative": -cross,
            "the cross-entropy: in bits; use the natural logarithm": cross / np.log(2),
            "the classes count by the mean of p, not evenly": (digamma(strength) - digamma(alpha)).sum(
                axis=1
            ),
        },
    )
    expect_close(
        got[1],
        apart,
        what=names[1],
        hints={
            "that compares a draw with the mean: two draws are farther apart": total - own,
            "that compares the mean with a draw: take away the entropy of a draw, not of the mean": cross
            - total,
            "the entropy of p is still in it: a divergence is what the cross-entropy has above it": cross,
            "the sign: a divergence is not negative": -apart,
            "the normaliser changes as well: ψ(α_0 + 1), not ψ(α_0)": alpha.shape[1] / strength[:, 0],
            "p from q, in one direction: not the sum of both": 2 * apart,
            "the divergence: in bits; use the natural logarithm": apart / np.log(2),
            "two draws, not two Dirichlets: they follow one law, and yet they differ": np.zeros(len(alpha)),
        },
    )


@question("q1", points=1, hint="What is left of D without digammas? Which entries of α does it look at?")
def vacuity_is_how_far_two_draws_are_apart(learner, seed):
    expect_choice(
        learner.value("multiple_of"),
        "vacuity",
        {
            "epistemic": "only nearly, and with much evidence: compare (1, 1, 1) with (60, 60, 60)",
            "total": "(2, 2) and (50, 50) have the same total: are two draws equally far apart there?",
        },
        what="`multiple_of`",
    )


@question(
    "q2",
    points=2,
    hint="Bias and variance: (t - mean)², plus the variance of each p_c under the Dirichlet.",
    forbids=DIVERGENCES,
)
def the_squared_error_has_a_bias_and_a_variance(learner, seed):
    alpha, labels = dirichlets(seed)
    truth = np.eye(alpha.shape[1])[labels]
    strength = alpha.sum(axis=1, keepdims=True)
    mean = alpha / strength
    bias, spread = ((truth - mean) ** 2).sum(axis=1), (mean * (1 - mean)).sum(axis=1)
    tall = strength[:, 0]
    expect_close(
        learner.call("expected_error", alpha, labels),
        bias + spread / (tall + 1),
        what="the expected squared error",
        hints={
            "a draw is not the mean: its variance is missing": bias,
            "the variance of a concentration is divided by alpha_0 + 1, not alpha_0": bias + spread / tall,
            "that is the variance of a label, not of a probability": bias + spread,
            "the sum over the classes, not their mean": (bias + spread / (tall + 1)) / alpha.shape[1],
            "only the labelled class counts in yours: all classes do": (
                (1 - mean) ** 2 + mean * (1 - mean) / (strength + 1)
            )[np.arange(len(labels)), labels],
        },
    )


@question(
    "q3",
    points=3,
    hint="Replace the concentration of the label by 1, then take the divergence from the uniform Dirichlet.",
    forbids=DIVERGENCES,
)
def the_penalty_falls_on_evidence_for_wrong_classes(learner, seed):
    alpha, labels = dirichlets(seed)
    truth = np.eye(alpha.shape[1])[labels]

    def parts(alpha):
        strength = alpha.sum(axis=1)
        normaliser = gammaln(strength) - gammaln(alpha).sum(axis=1)
        differences = digamma(alpha) - digamma(strength)[:, None]
        return normaliser, ((alpha - 1) * differences).sum(axis=1)

    def divergence(alpha):
        return sum(parts(alpha)) - gammaln(alpha.shape[1])

    others = truth + (1 - truth) * alpha
    strength = others.sum(axis=1)
    reverse = (
        gammaln(others.shape[1])
        - parts(others)[0]
        + ((1 - others) * (digamma(1.0) - digamma(float(others.shape[1])))).sum(axis=1)
    )
    expect_close(
        learner.call("penalty", alpha, labels),
        divergence(others),
        what="the penalty",
        hints={
            "evidence for the label is punished too: set its concentration to 1 first": divergence(alpha),
            "the other way round: the evidence for wrong classes was taken out": divergence(
                truth * alpha + (1 - truth)
            ),
            "the uniform Dirichlet has a normaliser too: log Γ(C)": sum(parts(others)),
            "the divergence of the uniform from yours: the arguments are exchanged": reverse,
            "the normalisers alone: the expected log ratio is missing": parts(others)[0]
            - gammaln(others.shape[1]),
            "alpha, not alpha - 1, times the digammas": (
                parts(others)[0]
                - gammaln(others.shape[1])
                + (others * (digamma(others) - digamma(strength)[:, None])).sum(axis=1)
            ),
        },
    )


@question(
    "q4",
    points=3,
    hint="Given σ², y is normal around γ with variance σ² (1 + 1/ν). Then integrate σ².",
    forbids=LIKELIHOODS,
)
def the_marginal_is_a_student_t(learner, seed):
    from scipy import stats  # slow to import, and only this question needs it

    rng = np.random.default_rng(seed)
    y, gamma = rng.normal(size=(2, 9)) * 2
    nu, alpha, beta = rng.uniform(0.2, 4, 9), rng.uniform(1.2, 8, 9), rng.uniform(0.5, 5, 9)

    def nll(df, square):
        return -stats.t.logpdf(y, df, gamma, np.sqrt(square))

    square = beta * (1 + nu) / (nu * alpha)
    expect_close(
        learner.call("negative_log_likelihood", y, gamma, nu, alpha, beta),
        nll(2 * alpha, square),
        what="the negative log-likelihood",
        hints={
            "that is the law of the mean: a new observation has its own noise, (1 + ν)": nll(
                2 * alpha, beta / (nu * alpha)
            ),
            "that is the noise alone: the mean is uncertain too": nll(2 * alpha, beta / alpha),
            "twice alpha degrees of freedom": nll(alpha, square),
            "the scale is the root: a standard deviation, not a variance": nll(2 * alpha, square**2),
            "scale and variance differ: beta over alpha, not over alpha - 1": nll(
                2 * alpha, beta * (1 + nu) / (nu * (alpha - 1))
            ),
            "the sign: negative log-likelihood": -nll(2 * alpha, square),
            "that is the likelihood: its negative logarithm is asked for": np.exp(-nll(2 * alpha, square)),
        },
    )


@question(
    "q5",
    points=3,
    hint="The total variance is β(1 + ν)/(ν(α - 1)). Solve for β, and divide as the paper divides.",
    forbids=LIKELIHOODS,
)
def the_valley_is_flat_and_the_split_is_free(learner, seed):
    rng = np.random.default_rng(seed)
    nu, variance, alpha = rng.uniform(0.05, 20, 8), rng.uniform(2, 5, 8), rng.uniform(1.5, 9, 8)
    names = ["the aleatoric variance", "the epistemic variance"]
    got = expect_parts(learner.call("accounts", nu, variance, alpha), names)
    noise, ignorance = variance * nu / (1 + nu), variance / (1 + nu)
    beta = noise * (alpha - 1)
    expect_close(
        got[0],
        noise,
        what=names[0],
        hints={
            "the two accounts are exchanged": ignorance,
            "variances were asked for, not standard deviations": np.sqrt(noise),
            "that is β: divide by α - 1": beta,
            "the whole variance is not noise": variance,
        },
    )
    expect_close(
        got[1],
        ignorance,
        what=names[1],
        hints={
            "variances were asked for, not standard deviations": np.sqrt(ignorance),
            "the two have to add up to the total": variance,
            "noise times ν: it is divided by ν": noise * nu,
        },
    )


@question("q5", points=1, hint="Which end of the valley makes 2ν + α small, at the same total?")
def the_regulariser_calls_everything_epistemic(learner, seed):
    expect_choice(
        learner.value("drift"),
        "epistemic",
        {
            "aleatoric": "that needs a large ν, and 2ν + α would be large with it",
            "neither": "the likelihood is flat, so the regulariser alone decides: it is not flat",
        },
        what="`drift`",
    )


@question(
    "q6",
    points=2,
    hint="First the label's probability under the belief, averaged over the belief; then the payments.",
    forbids=("evidential.sample",),
)
def a_belief_expects_to_pay_by_its_mean(learner, seed):
    alpha, _ = dirichlets(seed, classes=3)
    payments = np.random.default_rng(seed + 1).uniform(0.5, 5, size=3)
    got = as_numbers(learner.call("expected_payment", alpha, payments), "the payment")
    expect(
        got.shape == (len(alpha),), f"expected one number a belief, shape {(len(alpha),)}; got {got.shape}"
    )
    mean = alpha / alpha.sum(axis=1, keepdims=True)
    evidence = alpha - 1
    expect_close(
        got,
        mean @ payments,
        what="the payment",
        hints={
            "concentrations are not probabilities: divide by their sum": alpha @ payments,
            "not only the likeliest label will come": payments[alpha.argmax(axis=1)],
            "the mean has the one of each class in it: alpha, not the evidence": (
                evidence / evidence.sum(axis=1, keepdims=True)
            )
            @ payments,
            "weighted by the belief, not evenly": np.full(len(alpha), payments.mean()),
        },
    )


@question("q6", points=1, hint="Scale a row of alpha by ten. Which entry of `expected_payment` moves?")
def no_payment_tells_ignorance_from_a_fair_die(learner, seed):
    expect_choice(
        learner.value("told_apart"),
        "by none",
        {
            "by some": "the payments do not matter: both expect the same from every list of payments",
            "by all": "they expect the same payments: compute them for (1, 1, 1) and (100, 100, 100)",
        },
        what="`told_apart`",
    )


q7 = manual(
    "q7",
    "Why does the epistemic part of an evidential regression not shrink when the training set grows?",
    {
        "the loss is an average: its minimum depends on the distribution of the examples, not on n": 1,
        "the split between the parts is not identified by the likelihood, so the regulariser chooses it": 1,
        "says what to report or to use instead: the total, or a posterior or ensemble": 1,
    },
)
