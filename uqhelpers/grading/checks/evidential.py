"""Checks of the exercise on evidential networks."""

import numpy as np
from scipy.special import digamma, gammaln

from .._engine import as_numbers, expect, expect_choice, expect_close, expect_parts, manual, part, question

DRAWS = ("evidential.decompose", "evidential.predict", "evidential.sample", "evidential.vacuity")
DIVERGENCES = ("evidential.dirichlet_kl", "evidential.evidential_loss")


def dirichlets(seed, n=7, classes=4):
    """Concentrations above 1, no two alike, and a label for each."""
    rng = np.random.default_rng(seed)
    return 1 + rng.gamma(1.5, 4.0, size=(n, classes)), rng.integers(classes, size=n)


@question(
    "q1",
    points={"the cross-entropy": 1, "the divergence": 1},
    hint="E[p_c log q_c] is a product of two means; E[p_c log p_c] has one added to a concentration.",
    forbids=DRAWS,
    read="What a Dirichlet says, in closed form",
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
    with part("the cross-entropy"):
        expect_close(
            got[0],
            cross,
            what=names[0],
            mistakes={
                "the mean of a logarithm is not the logarithm of the mean": total,
                "that is the entropy of one draw: p and q are two, and independent": own,
                "the sign: a cross-entropy is not negative": -cross,
                "the cross-entropy: in bits; use the natural logarithm": cross / np.log(2),
                "the classes count by the mean of p, not evenly": (digamma(strength) - digamma(alpha)).sum(
                    axis=1
                ),
            },
        )
    with part("the divergence"):
        expect_close(
            got[1],
            apart,
            what=names[1],
            mistakes={
                "that compares a draw with the mean: two draws are farther apart": total - own,
                "that compares the mean with a draw: take away the entropy of a draw, not of the mean": cross
                - total,
                "the entropy of p is still in it: a divergence is what the cross-entropy has above it": cross,
                "the sign: a divergence is not negative": -apart,
                "the normaliser changes as well: ψ(α_0 + 1), not ψ(α_0)": alpha.shape[1] / strength[:, 0],
                "p from q, in one direction: not the sum of both": 2 * apart,
                "the divergence: in bits; use the natural logarithm": apart / np.log(2),
                "two draws, not two Dirichlets: they follow one law, and yet they differ": np.zeros(
                    len(alpha)
                ),
            },
        )


@question(
    "q1",
    points={"`multiple_of`": 1},
    hint="What is left of D without digammas? Which entries of α does it look at?",
    read="What a Dirichlet says, in closed form",
)
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
    points={"the labels of one draw": 1, "the labels of two draws": 1},
    hint="Given p, two labels agree with probability Σ p_c². What is the mean of p_c², and of p_c times q_c?",
    forbids=("evidential.evidential_loss", *DRAWS),
    read="What a Dirichlet says, in closed form",
)
def two_labels_differ_more_often_when_each_has_a_draw_of_its_own(learner, seed):
    alpha, _ = dirichlets(seed)
    strength = alpha.sum(axis=1)
    agree = ((alpha / strength[:, None]) ** 2).sum(axis=1)
    apart = 1 - agree
    together = apart * strength / (strength + 1)
    variance = apart - together
    names = ["the labels of one draw", "the labels of two draws"]
    got = expect_parts(learner.call("differ", alpha), names)
    with part("the labels of one draw"):
        expect_close(
            got[0],
            together,
            what=names[0],
            mistakes={
                "the mean of a square is not the square of the mean: p_c has a variance": apart,
                "the variance of p_c is divided by α_0 + 1, not by α_0": apart * (1 - 1 / strength),
                "the variance makes labels of one draw alike: take it away": apart + variance,
                "that is the sum of the variances: by so much the two probabilities are apart": variance,
                "that they differ was asked for, not that they agree": 1 - together,
                "the sum over the classes, not their mean": 1 - (1 - together) / alpha.shape[1],
                "the first label and the second can be exchanged: count both orders": together / 2,
            },
        )
    with part("the labels of two draws"):
        expect_close(
            got[1],
            apart,
            what=names[1],
            mistakes={
                "with a draw for each label the two are independent: they share the mean only": together,
                "of two draws as well: that they differ was asked for, not that they agree": agree,
                "with a draw for each label no variance comes in: only the mean does": apart + variance,
            },
        )


@question(
    "q3",
    points={"`turned_penalty`": 2},
    hint="Swap the two in KL = E[log first - log second]. Now the mean is under the uniform Dirichlet.",
    forbids=DIVERGENCES,
    read="The family of losses",
)
def the_penalty_can_look_the_other_way(learner, seed):
    alpha, labels = dirichlets(seed)
    classes = alpha.shape[1]
    truth = np.eye(classes)[labels]
    expected_log = digamma(1.0) - digamma(float(classes))

    def normaliser(alpha):
        return gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)

    def turned(alpha, log_probability=expected_log):
        return gammaln(classes) - normaliser(alpha) + ((1 - alpha) * log_probability).sum(axis=1)

    others = truth + (1 - truth) * alpha
    own = digamma(others) - digamma(others.sum(axis=1))[:, None]
    expect_close(
        learner.call("turned_penalty", alpha, labels),
        turned(others),
        what="the penalty",
        mistakes={
            "that is the chapter's: there the mean is under the network's Dirichlet": normaliser(others)
            - gammaln(classes)
            + ((others - 1) * own).sum(axis=1),
            "evidence for the label is punished too: set its concentration to 1 first": turned(alpha),
            "the other way round: the evidence for wrong classes was taken out": turned(
                truth * alpha + (1 - truth)
            ),
            "the uniform Dirichlet has a normaliser too: log Γ(C)": turned(others) - gammaln(classes),
            "the normalisers alone: the expected log ratio is missing": gammaln(classes) - normaliser(others),
            "the densities are swapped, but the mean is still under the network's Dirichlet": turned(
                others, own
            ),
            "the mean of a logarithm is not the logarithm of the mean, 1 / C": turned(
                others, -np.log(classes)
            ),
            "log p is negative, so its mean is ψ(1) - ψ(C)": turned(others, -expected_log),
            "the sign: a divergence is not negative": -turned(others),
        },
    )


@question(
    "q3",
    points={"`lasting_price`": 1},
    hint="log Γ(z + 1) - log Γ(z) = log z: which of your terms stops growing with the next piece?",
    forbids=DIVERGENCES,
    read="The family of losses",
)
def the_price_of_the_turned_penalty_does_not_fade(learner, seed):
    classes = 2 + np.random.default_rng(seed).permutation(12)[:6]
    price = digamma(classes.astype(float)) - digamma(1.0)
    expect_close(
        learner.call("lasting_price", classes),
        price,
        what="the price",
        mistakes={
            "that is the chapter's: of yours only the share of the normaliser fades": np.zeros(6),
            "the mean of a logarithm is not the logarithm of the mean, 1 / C": np.log(classes),
            "the sign: a price is not negative here, evidence for a wrong class costs": -price,
            "the sum of 1 / k has the first C - 1 of them: ψ(C) - ψ(1)": price + 1 / classes,
        },
    )


@question(
    "q4",
    points=3,
    hint="Given σ²: by how much is μ off γ, and the mean of m readings off μ? Which of the two is missing?",
    read="Regression: four numbers instead of one",
)
def a_mean_of_readings_follows_a_student_t(learner, seed):
    from scipy import stats  # slow to import, and only this question needs it

    rng = np.random.default_rng(seed)
    gamma, m, level = 2 * rng.normal(size=9), int(rng.integers(2, 6)), float(rng.uniform(0.6, 0.95))
    nu, alpha, beta = rng.uniform(0.2, 4, 9), rng.uniform(1.2, 8, 9), rng.uniform(0.5, 5, 9)

    def ends(square, df=2 * alpha, tail=(1 + level) / 2, family=stats.t):
        quantile = family.ppf(tail, df) if family is stats.t else family.ppf(tail)
        return np.stack([gamma - quantile * np.sqrt(square), gamma + quantile * np.sqrt(square)])

    square = beta * (1 / m + 1 / nu) / alpha
    parts = expect_parts(
        learner.call("interval", m, gamma, nu, alpha, beta, level), ["the lower ends", "the upper ends"]
    )
    got = [as_numbers(one, "the ends") for one in parts]
    shapes = {ends.shape for ends in got}
    expect(shapes == {(9,)}, f"expected two arrays of shape (9,), got {' and '.join(map(str, shapes))}")
    expect_close(
        np.stack(got),
        ends(square),
        what="the interval",
        mistakes={
            "that is the law of μ: a mean of m readings has noise of its own, σ²/m": ends(
                beta / (nu * alpha)
            ),
            "that is for a single reading: the mean of m is less noisy": ends(beta * (1 + 1 / nu) / alpha),
            "that is the noise alone: μ is uncertain too": ends(beta / (m * alpha)),
            "the readings share one μ: averaging makes the noise smaller, not the doubt about μ": ends(
                beta * (1 + 1 / nu) / (m * alpha)
            ),
            "twice alpha degrees of freedom": ends(square, df=alpha),
            "nothing has been read yet, so nothing is learned: 2α degrees of freedom, whatever m": ends(
                square, df=2 * alpha + m - 1
            ),
            "scale and variance differ: beta over alpha, not over alpha - 1": ends(
                square * alpha / (alpha - 1)
            ),
            "σ² is uncertain: a Student t, not a normal": ends(square, family=stats.norm),
            "a t of that variance is no normal: its tails are heavier": ends(
                square * alpha / (alpha - 1), family=stats.norm
            ),
            "the scale is the root of β(1/m + 1/ν)/α": ends(square**2),
            "half of what is left out lies on each side": ends(square, tail=level),
            "the lower end comes first": ends(square)[::-1],
            "the interval lies around γ": ends(square) - gamma,
        },
    )


@question(
    "q5",
    points={"ν": 1, "β": 1},
    hint="Divide the epistemic part by the sum of both: β and α go. Then the aleatoric part gives β.",
    read="One likelihood, as much ignorance as you like",
)
def any_share_can_be_reported_of_one_prediction(learner, seed):
    rng = np.random.default_rng(seed)
    share, variance, alpha = rng.uniform(0.05, 0.95, 8), rng.uniform(2, 5, 8), rng.uniform(1.5, 9, 8)
    got = expect_parts(learner.call("steer", share, variance, alpha), ["ν", "β"])
    noise = variance * (1 - share)
    with part("ν"):
        expect_close(
            got[0],
            1 / share - 1,
            what="ν",
            mistakes={
                "1/ν is epistemic over aleatoric; the share is of the sum of both": 1 / share,
                "that share is aleatoric now": share / (1 - share),
                "a share of the variance was asked for, not of the standard deviation": 1 / share**2 - 1,
            },
        )
    with part("β"):
        expect_close(
            got[1],
            noise * (alpha - 1),
            what="β",
            mistakes={
                "that is the aleatoric variance: β is α - 1 times as large": noise,
                "that share is not noise: the rest of the variance is": variance * share * (alpha - 1),
                "the whole variance is not noise": variance * (alpha - 1),
                "the mean of σ² is β over α - 1, not over α": noise * alpha,
            },
        )


@question(
    "q5",
    points={"`charge`": 2},
    hint="Which ν calls half of the variance epistemic? What do both reports pay alike?",
    read="Regression: four numbers instead of one",
)
def the_regulariser_is_cheaper_for_whoever_calls_more_epistemic(learner, seed):
    rng = np.random.default_rng(seed)
    share, error = rng.uniform(0.05, 0.95, 8), np.array([1, -1] * 4) * rng.uniform(0.3, 3, 8)
    weight = float(rng.uniform(0.05, 0.5))

    def above(paid, times=2.0, half=1.0, weight=weight):
        return times * weight * paid * (1 / share - 1 - half)

    paid = np.abs(error)
    expect_close(
        learner.call("charge", share, error, weight),
        above(paid),
        what="the charge",
        mistakes={
            "the first report pays for its ν as well: ν = 1": above(paid, half=0.0),
            "the second report less the first": -above(paid),
            "the error counts without its sign": above(error),
            "the factor is 2ν + α: ν counts twice": above(paid, times=1.0),
            "the error counts, not its square": above(error**2),
            "its weight λ is missing": above(paid, weight=1.0),
        },
    )


@question(
    "q6",
    points={"`expected_payment`": 2},
    hint="After a first label c the belief is Dir(α + 1_c). What is the probability of the second then?",
    forbids=("evidential.sample",),
    read="Could a better loss mend it?",
)
def a_pair_of_labels_sees_the_second_moment_of_a_belief(learner, seed):
    alpha, _ = dirichlets(seed, classes=3)
    payments = np.random.default_rng(seed + 1).uniform(0.5, 5, size=(3, 3))
    got = as_numbers(learner.call("expected_payment", alpha, payments), "the payment")
    expect(
        got.shape == (len(alpha),), f"expected one number a belief, shape {(len(alpha),)}; got {got.shape}"
    )
    strength, likeliest = alpha.sum(axis=1), alpha.argmax(axis=1)

    def paid(own=1.0, later=1.0):
        pairs = alpha[:, :, None] * (alpha[:, None, :] + own * np.eye(3))
        return (pairs * payments).sum(axis=(1, 2)) / (strength * (strength + later))

    expect_close(
        got,
        paid,
        what="the payment",
        mistakes={
            "with a draw for each label they would be independent: here both come from one p": {
                "own": 0.0,
                "later": 0.0,
            },
            "after the first label there is one count more: α_0 + 1 the second time": {"later": 0.0},
            "weighted by the belief, not evenly": np.full(len(alpha), payments.mean()),
            "not only the likeliest label will come": payments[likeliest, likeliest],
            "one label for both: the two may differ": alpha @ np.diag(payments) / strength,
        },
    )


@question(
    "q6",
    points={"`told_apart`": 1},
    hint="Try a payment of 1 for every pair of unlike labels, and one that ignores the second label.",
    read="Could a better loss mend it?",
)
def some_payments_for_pairs_tell_ignorance_from_a_fair_die(learner, seed):
    expect_choice(
        learner.value("told_apart"),
        "by some",
        {
            "by none": "that is so for single labels: compare a payment of 1 for two labels that differ",
            "by all": "what of payments that look at the first label only?",
        },
        what="`told_apart`",
    )


q7 = manual(
    "q7",
    "Does the epistemic part of an evidential regression shrink if the regulariser's weight is divided by n?",
    {
        "no: the likelihood is flat along the split, with any number of examples": 1,
        "so any positive weight decides alone, and ends at nearly everything epistemic; in a posterior "
        "the examples are counted, its precision is a sum over them": 1,
        "says what to report or to use instead: quantiles of the Student distribution with their "
        "coverage checked (not its standard deviation alone), or a posterior or ensemble": 1,
    },
)
