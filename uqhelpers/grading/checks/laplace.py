"""Checks of the exercise on the Laplace approximation."""

import numpy as np
from scipy.special import expit, softmax

from .._engine import as_numbers, expect, expect_choice, expect_close, expect_parts, manual, part, question

CURVATURES = ("logistic.map_estimate", "logistic.hessian")
HELPERS = ("laplace.LastLayerLaplace", "laplace.laplace_torch")


def problem(seed, n=15, width=3):
    """Inputs, labels, a point that is not the mode, and a precision far from 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, width))
    y = (rng.random(n) < expit(x @ rng.normal(size=width))).astype(float)
    return x, y, rng.normal(size=width) * 0.7, float(rng.uniform(2, 4))


def sizes(x, weights):
    p = expit(x @ weights)
    return p, (x * (p * (1 - p))[:, None]).T @ x


@question(
    "q1",
    points={"the mean": 2, "the covariance": 1},
    hint="Expand -log p(y | w) - log p(w) around the point: gradient, Hessian, one Newton step.",
    forbids=CURVATURES,
    read="The idea: complete the square",
)
def an_expansion_is_a_newton_step(learner, seed):
    x, y, weights, alpha = problem(seed)
    p, curvature = sizes(x, weights)
    identity = np.eye(len(weights))
    precision, gradient = curvature + alpha * identity, x.T @ (p - y) + alpha * weights
    got = expect_parts(learner.call("expansion", weights, x, y, alpha), ["the mean", "the covariance"])
    with part("the covariance"):
        expect_close(
            got[1],
            np.linalg.inv(precision),
            what="the covariance",
            mistakes={
                "that is the precision: the covariance is its inverse": precision,
                "the prior is missing in the curvature": np.linalg.inv(curvature),
                "the prior's precision is alpha, its variance is one over it": np.linalg.inv(
                    curvature + identity / alpha
                ),
                "each example weighs p (1 - p), not 1": np.linalg.inv(x.T @ x + alpha * identity),
                "a sum over the examples, not their mean": np.linalg.inv(
                    curvature / len(x) + alpha * identity
                ),
            },
        )
    with part("the mean"):
        expect_close(
            got[0],
            weights - np.linalg.solve(precision, gradient),
            what="the mean",
            mistakes={
                "the mean is where you expanded only if the gradient is zero there": weights,
                "uphill: the step goes against the gradient of the negative log posterior": weights
                + np.linalg.solve(precision, gradient),
                "the prior is missing in the gradient": weights - np.linalg.solve(precision, x.T @ (p - y)),
                "a step of gradient descent: the Hessian is missing": weights - gradient,
            },
        )


@question(
    "q2",
    points=3,
    hint="Block (c, k) is the sum over the inputs of (p_c [c = k] - p_c p_k) times φ φᵀ.",
    forbids=HELPERS,
    read="Which curvature? Three matrices with one name",
)
def the_information_of_a_softmax_has_blocks(learner, seed):
    rng = np.random.default_rng(seed)
    features, probs = rng.normal(size=(9, 2)), rng.dirichlet(np.ones(3), size=9)
    inner = np.einsum("nc,ck->nck", probs, np.eye(3)) - probs[:, :, None] * probs[:, None]

    def blocks(inner, order="cdke"):
        return np.einsum(f"nck,nd,ne->{order}", inner, features, features).reshape(6, 6)

    diagonal = np.einsum("nc,ck->nck", probs, np.eye(3))
    expect_close(
        learner.call("information", features, probs),
        blocks(inner),
        what="the information",
        mistakes={
            "the classes are not independent: minus p pᵀ is missing": blocks(diagonal),
            "a sum over the inputs: more data, more information": blocks(inner) / 9,
            "the order: one class's weights after the other, not one feature's": blocks(inner, "dcek"),
            "the sign: minus the second derivative of the log likelihood": -blocks(inner),
            "the blocks between classes are missing": blocks(inner * np.eye(3)),
        },
    )


@question(
    "q3",
    points=2,
    hint="The logit is multiplied by 1 / sqrt(1 + π v / 8) before the sigmoid, with the variance v.",
    forbids=("laplace.kappa", "laplace.probit"),
    read="From weights to predictions",
)
def the_probit_formula_flattens(learner, seed):
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=8) * 3, rng.uniform(0.5, 6, size=8)

    def flattened(factor):
        return expit(factor * mean)

    expect_close(
        learner.call("probit", mean, variance),
        flattened(1 / np.sqrt(1 + np.pi * variance / 8)),
        what="the probability",
        mistakes={
            "the root is missing in the factor": flattened(1 / (1 + np.pi * variance / 8)),
            "the formula takes the variance, not its root": flattened(
                1 / np.sqrt(1 + np.pi * np.sqrt(variance) / 8)
            ),
            "a factor above 1 sharpens: uncertainty flattens": flattened(np.sqrt(1 + np.pi * variance / 8)),
            "that is the plug-in prediction: the variance plays no part": flattened(1.0),
            "π / 8, not 8 / π": flattened(1 / np.sqrt(1 + 8 * variance / np.pi)),
            "shrink the logit, not the probability": expit(mean) / np.sqrt(1 + np.pi * variance / 8),
        },
    )


@question(
    "q4",
    points=3,
    hint="Outputs move by Jacobian times shift; then the softmax of each draw; then the average.",
    forbids=HELPERS,
    read="Further: samples sent through the network",
)
def draws_move_the_linearised_network(learner, seed):
    rng = np.random.default_rng(seed)
    outputs, jacobian = rng.normal(size=(5, 3)), rng.normal(size=(5, 3, 7))
    shifts = rng.normal(size=(11, 7))
    moved = np.einsum("ncp,sp->snc", jacobian, shifts)
    right = softmax(outputs + moved, axis=-1).mean(axis=0)
    got = as_numbers(learner.call("linearised", outputs, jacobian, shifts), "the probabilities")
    expect(got.shape == (5, 3), f"expected the shape (5, 3): inputs, classes; got {got.shape}")
    expect_close(
        got,
        right,
        what="the probabilities",
        mistakes={
            "softmax first, then the average: the average logit forgets the spread": softmax(
                outputs + moved.mean(axis=0), axis=-1
            ),
            "the trained network's own outputs are missing": softmax(moved, axis=-1).mean(axis=0),
            "those are logits: the softmax is missing": (outputs + moved).mean(axis=0),
            "the draws are ignored: that is MAP": softmax(outputs, axis=-1),
            "the softmax runs over the classes, the last axis": softmax(outputs + moved, axis=1).mean(axis=0),
        },
    )


@question(
    "q5",
    points=2,
    hint="The integral of a Gaussian bump of height p(D, θ̂) and precision Λ: what is its volume?",
    forbids=HELPERS,
    read="Choosing the prior: evidence against cross-validation",
)
def the_evidence_is_a_height_times_a_volume(learner, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 9))
    precision, joint = root @ root.T + np.eye(4), float(rng.uniform(-20, -5))
    half = 0.5 * np.linalg.slogdet(precision)[1]
    volume = 2 * np.log(2 * np.pi)
    expect_close(
        learner.call("log_evidence", joint, precision),
        joint + volume - half,
        what="the log evidence",
        mistakes={
            "the sign: a sharp peak has a small volume": joint + volume + half,
            "the factor (2π)^(P/2) is missing": joint - half,
            "half of the log determinant: the volume is a root": joint + volume - 2 * half,
            "one half log 2π for each parameter": joint + 0.5 * np.log(2 * np.pi) - half,
            "the height alone: how wide the peak is counts too": joint,
        },
    )


@question(
    "q6",
    points={"`variance_that_counts`": 2},
    hint="The softmax of two logits sees only their difference. What is the variance of a difference?",
    forbids=HELPERS,
    read="Further: what the probit cannot see",
)
def only_the_difference_of_two_logits_counts(learner, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 2, 3)) + 1.5  # the logits are positively correlated
    covariance = root @ root.swapaxes(1, 2)
    first, second, both = covariance[:, 0, 0], covariance[:, 1, 1], covariance[:, 0, 1]
    expect_close(
        learner.call("variance_that_counts", covariance),
        first + second - 2 * both,
        what="the variance",
        mistakes={
            "the logits are correlated: the covariance is missing": first + second,
            "the variance of the sum: the softmax cannot see it": first + second + 2 * both,
            "the covariance counts twice": first + second - both,
            "one logit says nothing: only the difference counts": second,
            "that is the standard deviation": np.sqrt(first + second - 2 * both),
        },
    )


@question(
    "q6",
    points={"`common_variance`": 1},
    hint="Which labels would be more or less likely if all logits rose by 1?",
    read="Further: what the probit cannot see",
)
def the_common_direction_stays_as_the_prior_left_it(learner, seed):
    expect_choice(
        learner.value("common_variance"),
        "stays",
        {
            "shrinks": "the data say nothing about it: adding a number to all logits changes no probability",
            "grows": "no likelihood ever takes information away: think of what the data say about it",
        },
        what="`common_variance`",
    )


q7 = manual(
    "q7",
    "Why can the marginal likelihood choose a bad prior precision for a network that is trained already?",
    {
        "the network is not at the mode of the posterior that this precision belongs to": 1,
        "saturated predictions leave no curvature: the Gaussian is nearly the prior": 1,
        "names a remedy: held-out data, or training anew with the chosen precision": 1,
    },
)
