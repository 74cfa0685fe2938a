"""Checks of the exercise on Bayesian linear regression."""

import numpy as np

from .._engine import expect_choice, expect_close, expect_parts, manual, part, question

MODEL = ("bayesian_linear_regression.BayesianLinearRegression",)


def problem(seed, n=12, width=3):
    """Features, targets and two precisions, none of them close to 1."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, width))
    y = features @ rng.normal(size=width) * 2 + 0.5 * rng.normal(size=n)
    return features, y, float(rng.uniform(1.5, 3)), float(rng.uniform(4, 8))


def solved(features, y, alpha, beta, prior=None, counted=True, noisy=True):
    """Mean and precision of the posterior, with the usual slips to choose from.

    ``prior`` stands in for ``alpha``; ``counted`` and ``noisy`` are whether the
    noise precision stands beside the features and beside the targets.
    """
    prior = alpha if prior is None else prior
    precision = prior * np.eye(features.shape[1]) + (beta if counted else 1) * features.T @ features
    return np.linalg.solve(precision, (beta if noisy else 1) * features.T @ y), precision


@question(
    "q1",
    points={"the mean": 2, "the covariance": 1},
    hint="Add the two squares, read off what stands between θᵀ and θ, then what stands beside θ alone.",
    forbids=MODEL,
    read="The posterior",
)
def the_square_is_completed(learner, seed):
    case = problem(seed)
    alpha, beta = case[2:]
    got = expect_parts(learner.call("posterior", *case), ["the mean", "the covariance"])
    with part("the mean"):
        expect_close(
            got[0],
            lambda **slips: solved(*case, **slips)[0],
            what="the mean",
            mistakes={
                "that is least squares: the prior is missing": {"prior": 0},
                "the noise precision is missing beside the targets": {"noisy": False},
                "the penalty is alpha / beta, both of them precisions, not variances": {
                    "prior": beta**2 / alpha
                },
                "the noise precision is missing beside the features": {"counted": False},
            },
        )
    with part("the covariance"):
        expect_close(
            got[1],
            lambda **slips: np.linalg.inv(solved(*case, **slips)[1]),
            what="the covariance",
            mistakes={
                "that is the precision: the covariance is its inverse": np.linalg.inv,
                "right up to a factor beta: the noise scales the covariance too": lambda v: v * beta,
                "the covariance lacks the prior": {"prior": 0},
            },
        )


@question(
    "q2",
    points=2,
    hint="A new observation is a function's value, plus noise that knows nothing of it.",
    forbids=MODEL,
    read="The predictive distribution",
)
def a_new_observation_varies_for_two_reasons(learner, seed):
    features, y, alpha, beta = problem(seed)
    covariance = np.linalg.inv(solved(features, y, alpha, beta)[1]) * 40  # no part is negligible
    new = np.random.default_rng(seed + 1).normal(size=(5, 3)) + 0.3

    def std(covariance=covariance, noise=1 / beta, power=0.5, each=1.0):
        function = np.einsum("nm,mk,nk->n", new, covariance, new)
        return (function**each + noise**each) ** (power / each)

    expect_close(
        learner.call("predictive_std", new, covariance, beta),
        std,
        what="the standard deviation",
        mistakes={
            "the noise is missing: that is the spread of the function": {"noise": 0},
            "that is the variance: take its root": {"power": 1},
            "a precision is one over a variance": {"noise": beta},
            "standard deviations do not add up, variances do": {"each": 0.5},
            "the weights are correlated: the diagonal is not enough": {
                "covariance": np.diag(covariance.diagonal())
            },
        },
    )


@question(
    "q3",
    points={"the precision": 1, "the mean": 1},
    hint="The old posterior is the new prior, and its mean is not zero: what stands beside θ?",
    forbids=MODEL,
    read="One point after the other",
)
def yesterdays_posterior_is_todays_prior(learner, seed):
    features, y, alpha, beta = problem(seed)
    mean, precision = solved(features[:-1], y[:-1], alpha, beta)
    phi, target = features[-1], float(y[-1])
    got = expect_parts(
        learner.call("update", mean, precision, phi, target, beta), ["the mean", "the precision"]
    )

    def new_precision(product=np.outer, beta=beta, sign=1):
        return precision + sign * beta * product(phi, phi)

    def new_mean(pull=precision @ mean, beside=beta, **slips):
        return np.linalg.solve(new_precision(**slips), pull + beside * phi * target)

    with part("the precision"):
        expect_close(
            got[1],
            new_precision,
            what="the precision",
            mistakes={
                "an observation adds the product of its features with themselves, a matrix": {
                    "product": np.dot
                },
                "the noise precision is missing in what the observation adds": {"beta": 1},
                "observations add precision, they take none away": {"sign": -1},
            },
        )
    with part("the mean"):
        expect_close(
            got[0],
            new_mean,
            what="the mean",
            mistakes={
                "the old mean is forgotten: it pulls with the old precision": {"pull": 0},
                "the old mean pulls with the old precision, not alone": {"pull": mean},
                "the old mean pulls with the old precision, not with the new one": {
                    "pull": new_precision() @ mean
                },
                "the noise precision is missing beside the target": {"beside": 1},
                "with another precision than asked for: the noise precision is missing in it": {"beta": 1},
            },
        )


def clouds(seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-3, -1.5, 6), rng.uniform(2, 4, 9)])
    return x, np.linspace(-5, 6, 7), float(rng.uniform(2, 6))


@question(
    "q4",
    points={"the variance": 2},
    hint="Write the 2 × 2 matrix ΦᵀΦ with its sums, invert it by hand, and complete the square in x.",
    forbids=MODEL,
    read="Where is the line known best?",
)
def a_line_is_known_best_at_the_barycentre(learner, seed):
    x, new, beta = clouds(seed)
    one_n, middle = 1 / len(x), x.mean()

    def variance(height=one_n, centre=middle, count=1, noise=0.0, beta=beta):
        squares = ((x - centre) ** 2).sum() / count
        return (height + (new - centre) ** 2 / squares) / beta + noise

    expect_close(
        learner.call("line_variance", x, new, beta),
        variance,
        what="the variance",
        mistakes={
            "that is the standard deviation": np.sqrt,
            "the height of the line is not known exactly either: 1/n is missing": {"height": 0},
            "a sum of squares, not their mean": {"count": len(x)},
            "distances count from the mean of the inputs, not from zero": {"centre": 0},
            "the noise precision is missing": {"beta": 1},
            "only the function's value was asked for, without the noise": {"noise": 1 / beta},
        },
    )


@question(
    "q4",
    points={"`in_the_gap`": 1},
    hint="Look at your formula: does it ask how many inputs are near?",
    read="Where is the line known best?",
)
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
    read='Three bases, three kinds of "far"',
)
def a_process_falls_back_to_its_prior(learner, seed):
    rng = np.random.default_rng(seed)
    x, new = rng.uniform(-3, 3, 8), np.array([-2.0, 0.4, 3.5, 5.0, 30.0])
    scale, beta = rng.uniform(1.5, 2.5), float(rng.uniform(3, 6))

    def kernel(a, b):
        return scale * np.exp(-((a[:, None] - b) ** 2) / 3)

    among, across, prior = kernel(x, x), kernel(x, new), np.full(5, scale)

    def std(prior=prior, sign=-1, among_noise=1 / beta, noise=1 / beta, power=0.5):
        lowered = (across * np.linalg.solve(among + among_noise * np.eye(8), across)).sum(axis=0)
        return (prior + sign * lowered + noise) ** power

    expect_close(
        learner.call("process_std", among, across, prior, beta),
        std,
        what="the standard deviation",
        mistakes={
            "the noise of the new observation is missing": {"noise": 0},
            "that is the variance: take its root": {"power": 1},
            "data lower the variance, they do not raise it": {"sign": 1},
            "a precision is one over a variance": {"among_noise": beta},
            "far away there is nothing left: where is the prior?": {"prior": 0, "sign": 1},
        },
    )


@question(
    "q6",
    points=3,
    hint="The targets are jointly normal with mean 0. What is their covariance, the weights averaged out?",
    forbids=MODEL,
    read="Where do α and β come from? The evidence",
)
def the_evidence_is_a_density_of_the_targets(learner, seed):
    features, y, alpha, beta = problem(seed)
    mean, precision = solved(features, y, alpha, beta)
    n, width = features.shape
    misfit, size = beta * ((y - features @ mean) ** 2).sum(), alpha * mean @ mean
    log_det, two_pi = np.linalg.slogdet(precision)[1], n * np.log(2 * np.pi)

    def evidence(half=0.5, narrow=-log_det, size=size, constant=two_pi, prior=width):
        return half * (prior * np.log(alpha) + n * np.log(beta) + narrow - misfit - size - constant)

    expect_close(
        learner.call("log_evidence", features, y, alpha, beta),
        evidence,
        mistakes={
            "that is twice the logarithm: a half stands before the squares and the determinant": {"half": 1},
            "the sign of the determinant: a posterior much narrower than the prior costs evidence": {
                "narrow": log_det
            },
            "the constant is missing: n log 2π": {"constant": 0},
            "the weights have a size, and the prior charges for it": {"size": 0},
            "the likelihood of the best weights is not the evidence: average over all": {
                "prior": 0,
                "narrow": 0,
                "size": 0,
            },
            "the normalising factor of the prior is missing": {"prior": 0},
            "a negative log: the sign": np.negative,
        },
    )


@question(
    "q7",
    points={"`alpha`": 1, "`beta`": 1},
    hint="γ counts the directions in which the data outweigh the prior: β times an eigenvalue against α.",
    forbids=MODEL,
    read="Where do α and β come from? The evidence",
)
def a_step_of_the_fixed_point(learner, seed):
    features, y, alpha, beta = problem(seed)
    got = expect_parts(learner.call("evidence_step", features, y, alpha, beta), ["alpha", "beta"])
    mean, _ = solved(features, y, alpha, beta)
    eigenvalues = np.linalg.eigvalsh(features.T @ features)
    residual, n = ((y - features @ mean) ** 2).sum(), len(y)

    def determined(noise=beta, prior=alpha):
        return (noise * eigenvalues / (prior + noise * eigenvalues)).sum()

    bare = "the eigenvalues without the noise precision"
    every = "all weights are counted, not those that the data determine"
    with part("`alpha`"):
        expect_close(
            got[0],
            lambda **slips: determined(**slips) / (mean @ mean),
            what="alpha",
            mistakes={
                bare: {"noise": 1},
                every: {"prior": 0},
                "that is a variance: a precision has the squares below": np.reciprocal,
            },
        )
    with part("`beta`"):
        expect_close(
            got[1],
            lambda used=1, **slips: (n - used * determined(**slips)) / residual,
            what="beta",
            mistakes={
                "divided by n: the weights have used up some of the observations": {"used": 0},
                "that is the variance of the noise: its precision was asked for": np.reciprocal,
                every: {"prior": 0},
                bare: {"noise": 1},
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
