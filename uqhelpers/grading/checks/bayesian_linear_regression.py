"""Checks of the exercise on Bayesian linear regression."""

import numpy as np

from .._engine import expect_choice, expect_close, expect_parts, manual, question

MODEL = ("bayesian_linear_regression.BayesianLinearRegression",)


def problem(seed, n=12, width=3):
    """Features, targets and two precisions, none of them close to 1."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, width))
    y = features @ rng.normal(size=width) * 2 + 0.5 * rng.normal(size=n)
    return features, y, float(rng.uniform(1.5, 3)), float(rng.uniform(4, 8))


def solved(features, y, alpha, beta):
    """Mean and precision of the posterior."""
    precision = alpha * np.eye(features.shape[1]) + beta * features.T @ features
    return np.linalg.solve(precision, beta * features.T @ y), precision


@question(
    "q1",
    points=3,
    hint="Add the two squares, read off what stands between θᵀ and θ, then what stands beside θ alone.",
    forbids=MODEL,
)
def the_square_is_completed(learner, seed):
    features, y, alpha, beta = problem(seed)
    got = expect_parts(learner.call("posterior", features, y, alpha, beta), ["the mean", "the covariance"])
    mean, precision = solved(features, y, alpha, beta)
    identity, gram = np.eye(3), features.T @ features
    expect_close(
        got[0],
        mean,
        what="the mean",
        hints={
            "that is least squares: the prior is missing": np.linalg.lstsq(features, y, rcond=None)[0],
            "the noise precision is missing beside the targets": mean / beta,
            "the penalty is alpha / beta, both of them precisions, not variances": np.linalg.solve(
                beta / alpha * identity + gram, features.T @ y
            ),
            "the noise precision is missing beside the features": np.linalg.solve(
                alpha * identity + gram, features.T @ y
            ),
        },
    )
    expect_close(
        got[1],
        np.linalg.inv(precision),
        what="the covariance",
        hints={
            "that is the precision: the covariance is its inverse": precision,
            "right up to a factor beta: the noise scales the covariance too": np.linalg.inv(precision) * beta,
            "the covariance lacks the prior": np.linalg.inv(beta * gram),
        },
    )


@question(
    "q2",
    points=2,
    hint="A new observation is a function's value, plus noise that knows nothing of it.",
    forbids=MODEL,
)
def a_new_observation_varies_for_two_reasons(learner, seed):
    features, y, alpha, beta = problem(seed)
    covariance = np.linalg.inv(solved(features, y, alpha, beta)[1]) * 40  # no part is negligible
    new = np.random.default_rng(seed + 1).normal(size=(5, 3)) + 0.3
    epistemic = np.einsum("nm,mk,nk->n", new, covariance, new)
    diagonal = new**2 @ covariance.diagonal()
    expect_close(
        learner.call("predictive_std", new, covariance, beta),
        np.sqrt(epistemic + 1 / beta),
        what="the standard deviation",
        hints={
            "the noise is missing: that is the spread of the function": np.sqrt(epistemic),
            "that is the variance: take its root": epistemic + 1 / beta,
            "a precision is one over a variance": np.sqrt(epistemic + beta),
            "standard deviations do not add up, variances do": np.sqrt(epistemic) + beta**-0.5,
            "the weights are correlated: the diagonal is not enough": np.sqrt(diagonal + 1 / beta),
        },
    )


@question(
    "q3",
    points=2,
    hint="The old posterior is the new prior, and its mean is not zero: what stands beside θ?",
    forbids=MODEL,
)
def yesterdays_posterior_is_todays_prior(learner, seed):
    features, y, alpha, beta = problem(seed)
    mean, precision = solved(features[:-1], y[:-1], alpha, beta)
    phi, target = features[-1], float(y[-1])
    got = expect_parts(
        learner.call("update", mean, precision, phi, target, beta), ["the mean", "the precision"]
    )
    new_mean, new_precision = solved(features, y, alpha, beta)
    grown = beta * np.outer(phi, phi)
    expect_close(
        got[1],
        new_precision,
        what="the precision",
        hints={
            "an observation adds the product of its features with themselves, a matrix": precision
            + beta * phi @ phi,
            "the noise precision is missing in what the observation adds": precision + np.outer(phi, phi),
            "observations add precision, they take none away": precision - grown,
        },
    )
    expect_close(
        got[0],
        new_mean,
        what="the mean",
        hints={
            "the old mean is forgotten: it pulls with the old precision": np.linalg.solve(
                new_precision, beta * phi * target
            ),
            "the old mean pulls with the old precision, not alone": np.linalg.solve(
                new_precision, mean + beta * phi * target
            ),
            "the old mean pulls with the old precision, not with the new one": mean
            + np.linalg.solve(new_precision, beta * phi * target),
        },
    )


def clouds(seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-3, -1.5, 6), rng.uniform(2, 4, 9)])
    return x, np.linspace(-5, 6, 7), float(rng.uniform(2, 6))


@question(
    "q4",
    points=2,
    hint="Write the 2 × 2 matrix ΦᵀΦ with its sums, invert it by hand, and complete the square in x.",
    forbids=MODEL,
)
def a_line_is_known_best_at_the_barycentre(learner, seed):
    x, new, beta = clouds(seed)
    squares, away = ((x - x.mean()) ** 2).sum(), (new - x.mean()) ** 2
    variance = (1 / len(x) + away / squares) / beta
    expect_close(
        learner.call("line_variance", x, new, beta),
        variance,
        what="the variance",
        hints={
            "that is the standard deviation": variance**0.5,
            "the height of the line is not known exactly either: 1/n is missing": away / squares / beta,
            "a sum of squares, not their mean": (1 / len(x) + away / x.var()) / beta,
            "distances count from the mean of the inputs, not from zero": (1 / len(x) + new**2 / (x**2).sum())
            / beta,
            "the noise precision is missing": variance * beta,
            "only the function's value was asked for, without the noise": variance + 1 / beta,
        },
    )


@question("q4", points=1, hint="Look at your formula: does it ask how many inputs are near?")
def the_gap_is_no_place_of_doubt_for_a_line(learner, seed):
    expect_choice(
        learner.value("in_the_gap"),
        "lower",
        {
            "higher": "right for localised features, but a line between two clouds is held from both sides",
            "the same": "the variance of a line grows with the distance from the barycentre of the inputs",
        },
        what="`in_the_gap`",
    )


@question(
    "q5",
    points=3,
    hint="The variance starts from the prior's, and data can only lower it. The observations are noisy.",
    forbids=MODEL,
)
def a_process_falls_back_to_its_prior(learner, seed):
    rng = np.random.default_rng(seed)
    x, new = rng.uniform(-3, 3, 8), np.array([-2.0, 0.4, 3.5, 5.0, 30.0])
    scale, beta = rng.uniform(1.5, 2.5), float(rng.uniform(3, 6))

    def kernel(a, b):
        return scale * np.exp(-((a[:, None] - b) ** 2) / 3)

    among, across, prior = kernel(x, x), kernel(x, new), np.full(5, scale)
    lowered = (across * np.linalg.solve(among + np.eye(8) / beta, across)).sum(axis=0)
    exact = (across * np.linalg.solve(among + beta * np.eye(8), across)).sum(axis=0)
    expect_close(
        learner.call("process_std", among, across, prior, beta),
        np.sqrt(prior - lowered + 1 / beta),
        what="the standard deviation",
        hints={
            "the noise of the new observation is missing": np.sqrt(prior - lowered),
            "that is the variance: take its root": prior - lowered + 1 / beta,
            "data lower the variance, they do not raise it": np.sqrt(prior + lowered + 1 / beta),
            "a precision is one over a variance": np.sqrt(prior - exact + 1 / beta),
            "far away there is nothing left: where is the prior?": np.sqrt(lowered + 1 / beta),
        },
    )


@question(
    "q6",
    points=3,
    hint="The targets are jointly normal with mean 0. What is their covariance, the weights averaged out?",
    forbids=MODEL,
)
def the_evidence_is_a_density_of_the_targets(learner, seed):
    features, y, alpha, beta = problem(seed)
    mean, precision = solved(features, y, alpha, beta)
    n, width = features.shape
    misfit, size = beta * ((y - features @ mean) ** 2).sum(), alpha * mean @ mean
    log_det = np.linalg.slogdet(precision)[1]
    counts = width * np.log(alpha) + n * np.log(beta)
    constant = n * np.log(2 * np.pi)
    want = 0.5 * (counts - log_det - misfit - size - constant)
    expect_close(
        learner.call("log_evidence", features, y, alpha, beta),
        want,
        hints={
            "that is twice the logarithm: a half stands before the squares and the determinant": 2 * want,
            "the sign of the determinant: a posterior much narrower than the prior costs evidence": want
            + log_det,
            "the constant is missing: n log 2π": want + 0.5 * constant,
            "the weights have a size, and the prior charges for it": want + 0.5 * size,
            "the likelihood of the best weights is not the evidence: average over all": 0.5
            * (n * np.log(beta) - misfit - constant),
            "the normalising factor of the prior is missing": want - 0.5 * width * np.log(alpha),
            "a negative log: the sign": -want,
        },
    )


@question(
    "q7",
    points=2,
    hint="γ counts the directions in which the data outweigh the prior: β times an eigenvalue against α.",
    forbids=MODEL,
)
def a_step_of_the_fixed_point(learner, seed):
    features, y, alpha, beta = problem(seed)
    got = expect_parts(learner.call("evidence_step", features, y, alpha, beta), ["alpha", "beta"])
    mean, _ = solved(features, y, alpha, beta)
    eigenvalues = np.linalg.eigvalsh(features.T @ features)
    gamma = (beta * eigenvalues / (alpha + beta * eigenvalues)).sum()
    bare = (eigenvalues / (alpha + eigenvalues)).sum()
    residual, n = ((y - features @ mean) ** 2).sum(), len(y)
    expect_close(
        got[0],
        gamma / (mean @ mean),
        what="alpha",
        hints={
            "the eigenvalues without the noise precision": bare / (mean @ mean),
            "all weights are counted, not those that the data determine": 3 / (mean @ mean),
            "that is a variance: a precision has the squares below": mean @ mean / gamma,
        },
    )
    expect_close(
        got[1],
        (n - gamma) / residual,
        what="beta",
        hints={
            "divided by n: the weights have used up some of the observations": n / residual,
            "that is the variance of the noise: its precision was asked for": residual / (n - gamma),
            "all weights are counted, not those that the data determine": (n - 3) / residual,
        },
    )


q8 = manual(
    "q8",
    "What does the shrinking band say, and how would you find out that the straight line is wrong?",
    {
        "the band is uncertainty among straight lines; that none is right is not in it": 1,
        "the misfit went into the noise; look at the residuals, or at the evidence of another basis": 1,
    },
)
