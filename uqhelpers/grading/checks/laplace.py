"""Checks of the exercise on the Laplace approximation."""

import numpy as np
from scipy.special import expit, logsumexp, softmax

from .._engine import expect_close, expect_parts, manual, part, question

HELPERS = ("laplace.LastLayerLaplace", "laplace.laplace_torch")
FORMULAS = ("laplace.kappa", "laplace.probit", "laplace.pairwise_probit")


def counts(seed, n=14, width=3):
    """Inputs, counts, a point that is not the mode, and a prior that is neither round nor at zero."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, width))
    y = rng.poisson(np.exp(0.6 * x @ rng.normal(size=width))).astype(float)
    root = rng.normal(size=(width, width)) + 2 * np.eye(width)
    return rng.normal(size=width) * 0.5, x, y, rng.normal(size=width) + 1.2, root @ root.T


def expanded(weights, x, y, centre, prior, each=None, kept=1.0, pull=1.0, misses=None, sign=-1):
    """Mean and precision of the second-order expansion, with the usual slips to choose from."""
    rate = np.exp(x @ weights)
    each = rate if each is None else each
    misses = rate - y if misses is None else misses
    precision = (x * each[:, None]).T @ x + kept * prior
    gradient = x.T @ misses + pull * prior @ (weights - centre)
    return weights + sign * np.linalg.solve(precision, gradient), precision


@question(
    "q1",
    points={"the mean": 2, "the covariance": 1},
    hint="Minus log p(y | w) is Σ exp(x·w) − y x·w, and a constant. Gradient, Hessian, one Newton step.",
    forbids=HELPERS,
    read="The idea: complete the square",
)
def counts_have_a_laplace_approximation(learner, seed):
    case = counts(seed)
    weights, x, _, centre, prior = case
    given = dict(zip(("weights", "x", "y", "centre", "prior"), case, strict=True))
    p = expit(x @ weights)
    got = expect_parts(learner.call("expansion", *case), ["the mean", "the covariance"])
    with part("the mean"):
        expect_close(
            got[0],
            lambda **slips: expanded(**given | slips)[0],
            what="the mean",
            mistakes={
                "the mean is where you expanded only if the gradient is zero there": {"sign": 0},
                "uphill: the step goes against the gradient of the negative log posterior": {"sign": 1},
                "the prior is missing in the gradient": {"pull": 0.0},
                "the prior pulls towards its mean, not to zero": {"centre": 0 * centre},
                "an example of a Poisson likelihood weighs its rate; p (1 - p) is a coin's": {
                    "each": p * (1 - p)
                },
                "the prior is missing beside the curvature": {"kept": 0.0},
            },
        )
    with part("the covariance"):
        expect_close(
            got[1],
            lambda **slips: np.linalg.inv(expanded(**given | slips)[1]),
            what="the covariance",
            mistakes={
                "that is the precision: the covariance is its inverse": np.linalg.inv,
                "the covariance lacks the prior": {"kept": 0.0},
                "each example weighs its rate: p (1 - p) is a coin's": {"each": p * (1 - p)},
                "each example weighs its rate, not 1": {"each": 1 + 0 * p},
                "the counts are not in the curvature: the rates are": {"each": case[2]},
                "the prior is given by its precision, not by its covariance": {"prior": np.linalg.inv(prior)},
            },
        )


def layer(seed):
    """Features, probabilities and labels of a last layer whose labels are not all likely."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(9, 2)) + 0.4, rng.dirichlet(np.ones(3), size=9), rng.integers(3, size=9)


def outer(features, probs, minus=1.0, order="cdke", mean=1.0, across=1.0):
    """The Fisher information of a last layer, with the usual slips to choose from."""
    classes = np.eye(probs.shape[1])
    inner = probs[:, :, None] * classes - minus * probs[:, :, None] * probs[:, None]
    inner = inner * (classes + across * (1 - classes))
    width = probs.shape[1] * features.shape[1]
    return mean * np.einsum(f"nck,nd,ne->{order}", inner, features, features).reshape(width, width)


def squared(features, probs, labels, right=1.0, together=False, order="cd", mean=1.0):
    """The empirical Fisher of a last layer, with the usual slips to choose from."""
    score = right * np.eye(probs.shape[1])[labels] - probs
    rows = np.einsum(f"nc,nd->n{order}", score, features).reshape(len(features), -1)
    if together:
        rows = rows.sum(axis=0, keepdims=True)
    return mean * rows.T @ rows


@question(
    "q2",
    points={"the Fisher information": 1, "the empirical Fisher": 2},
    hint="The gradient of log p(y | f) in the logits is onehot(y) − p; in the weights, its product with φ.",
    forbids=HELPERS,
    read="Which curvature? Three matrices, and one that borrows a name",
)
def two_matrices_are_called_fisher(learner, seed):
    features, probs, labels = layer(seed)
    got = expect_parts(
        learner.call("two_fishers", features, probs, labels),
        ["the Fisher information", "the empirical Fisher"],
    )
    with part("the Fisher information"):
        expect_close(
            got[0],
            lambda **slips: outer(features, probs, **slips),
            what="the Fisher information",
            mistakes={
                "the classes are not independent: minus p pᵀ is missing": {"minus": 0.0},
                "in the Fisher information, too: a sum over the inputs, not their mean": {"mean": 1 / 9},
                "the order of the Fisher information: one class's weights after the other": {"order": "dcek"},
                "the blocks between classes are missing": {"across": 0.0},
                "the sign: minus the second derivative of the log likelihood": np.negative,
            },
        )
    with part("the empirical Fisher"):
        expect_close(
            got[1],
            lambda **slips: squared(features, probs, labels, **slips),
            what="the empirical Fisher",
            mistakes={
                "the gradient of log p(y | f) is onehot(y) − p: the label is missing": {"right": 0.0},
                "the square of each input's gradient, then the sum: not the square of the sum": {
                    "together": True
                },
                "the order of the empirical Fisher: one class's weights after the other": {"order": "dc"},
                "a sum over the inputs, not their mean": {"mean": 1 / 9},
                "the empirical Fisher has the labels that came; that is the Fisher information": outer(
                    features, probs
                ),
            },
        )


def machine(seed):
    """The shape and the rate of a Gamma posterior whose skewness shows."""
    rng = np.random.default_rng(seed)
    return float(rng.uniform(2.5, 6)), float(rng.uniform(0.3, 3))


@question(
    "q3",
    points={"`in_the_rate`": 1, "`in_its_logarithm`": 2},
    hint="In u = log λ the density has a factor more, dλ/du = λ. Then the top, and the curvature there.",
    forbids=HELPERS,
    read="The idea: complete the square",
)
def a_gaussian_depends_on_what_is_called_the_parameter(learner, seed):
    shape, rate = machine(seed)

    def plain(less=1.0, power=2, turn=1):
        return [(shape - less) / rate, ((shape - less) / rate**power) ** turn]

    def logarithm(less=0.0, narrow=None, turn=1):
        return [np.log((shape - less) / rate), (1 / (shape - less if narrow is None else narrow)) ** turn]

    with part("`in_the_rate`"):
        expect_close(
            learner.call("in_the_rate", shape, rate),
            plain,
            what="`in_the_rate`",
            mistakes={
                "that is the mean of the Gamma: the mode lies at (a − 1) / b": {"less": 0.0},
                "the curvature at the mode is (a − 1) / λ², with the λ of the mode": {"power": 1},
                "that is the standard deviation, or the precision, of λ: its variance was asked for": {
                    "turn": 0.5
                },
                "one over the curvature of λ is the variance, not the curvature itself": {"turn": -1},
            },
        )
    with part("`in_its_logarithm`"):
        expect_close(
            learner.call("in_its_logarithm", shape, rate),
            logarithm,
            what="`in_its_logarithm`",
            mistakes={
                "the density in log λ has the factor λ besides: its mode is not the logarithm of the mode": {
                    "less": 1.0
                },
                "that is the variance of λ divided by the square of the mode: expand anew, in log λ": {
                    "narrow": shape - 1
                },
                "that is the standard deviation of log λ": {"turn": 0.5},
                "one over the curvature of log λ is the variance, not the curvature itself": {"turn": -1},
            },
        )


def gaussian_logits(seed):
    """Logits far from zero, with variances that differ, and noise that all classes share."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(300, 3, 3))
    offset, common = rng.uniform(2, 6), rng.uniform(5, 15)
    return 2 * rng.normal(size=(300, 3)) + offset, root @ root.swapaxes(1, 2) + common


def in_pairs(mean, covariance, crossed=2.0, own=1.0, root=0.5, eighth=np.pi / 8, shrunk=True, log=True):
    """MacKay's formula for each difference of logits, with the usual slips to choose from."""
    variances = np.einsum("ncc->nc", covariance)
    variance = own * (variances[:, :, None] + variances[:, None, :]) - crossed * covariance
    factor = 1 / (1 + eighth * np.maximum(variance, 0)) ** root if shrunk else 1.0
    behind = factor * (mean[:, None, :] - mean[:, :, None])
    raw = np.exp(-logsumexp(behind, axis=2))
    return raw / raw.sum(axis=1, keepdims=True) if log else raw


def turned(mean, covariance, root=0.5, share=True):
    """How often the formula for single logits names another class."""
    factor = 1 / (1 + np.pi * np.einsum("ncc->nc", covariance) / 8) ** root
    other = (factor * mean).argmax(axis=1) != mean.argmax(axis=1)
    return other.mean() if share else other.sum()


@question(
    "q4",
    points={"`mended`": 2, "`turned`": 1},
    hint="p_c is 1 / (1 + Σ exp(f_k − f_c)): only differences. Of each you know the mean and the variance.",
    forbids=FORMULAS + HELPERS,
    read="What the formula cannot see",
)
def differences_do_not_see_what_is_common(learner, seed):
    mean, covariance = gaussian_logits(seed)
    variances = np.einsum("ncc->nc", covariance)
    with part("`mended`"):
        expect_close(
            learner.call("mended", mean, covariance),
            lambda **slips: in_pairs(mean, covariance, **slips),
            what="`mended`",
            mistakes={
                "the logits are correlated: minus twice their covariance": {"crossed": 0.0},
                "the covariance of a pair counts twice": {"crossed": 1.0},
                "the root is missing in the factor": {"root": 1.0},
                "π / 8, not 8 / π": {"eighth": 8 / np.pi},
                "the draws play no part: that is the softmax of the mean": {"shrunk": False},
                "the probabilities of an input do not sum to 1": {"log": False},
                "that is still the formula for each logit by itself": softmax(
                    mean / np.sqrt(1 + np.pi * variances / 8), axis=1
                ),
            },
        )
    with part("`turned`"):
        expect_close(
            learner.call("turned", mean, covariance),
            lambda **slips: turned(mean, covariance, **slips),
            what="`turned`",
            mistakes={
                "the share of the inputs was asked for, not their number": {"share": False},
                "the root is missing in the factor of the single logits": {"root": 1.0},
                "that is the share whose class stays": lambda v: 1 - v,
            },
        )


def bump(seed):
    """A likelihood, weights and a curvature that does not see all directions."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(5, 3))
    return float(rng.uniform(-20, -5)), rng.normal(size=5), 4 * root @ root.T, float(rng.uniform(1.5, 4))


def evidence(fit, weights, curvature, alpha, normaliser=1.0, narrow=0.5, twice=0.5):
    """Laplace's estimate, with the usual slips to choose from: 2π cancels between prior and volume."""
    log_det = np.linalg.slogdet(curvature + alpha * np.eye(len(weights)))[1]
    prior = 0.5 * normaliser * len(weights) * np.log(alpha) - twice * alpha * weights @ weights
    return fit + prior - narrow * log_det


def slope_of(fit, weights, curvature, alpha, counted=None, pull=1.0, by_log=True):
    """Its derivative in log α, the weights held fixed."""
    size = len(weights)
    seen = np.trace(np.linalg.solve(curvature + alpha * np.eye(size), curvature))
    counted = seen if counted is None else counted
    slope = 0.5 * (counted - pull * alpha * weights @ weights)
    return slope if by_log else slope / alpha


@question(
    "q5",
    points={"`log_evidence`": 1, "`slope`": 2},
    hint="log det (K + αI) is Σ log (λᵢ + α). Multiply the derivative in α by α: that is the one in log α.",
    forbids=HELPERS,
    read="Choosing the prior",
)
def the_evidence_balances_two_counts(learner, seed):
    case = bump(seed)
    _, weights, curvature, alpha = case
    with part("`log_evidence`"):
        expect_close(
            learner.call("log_evidence", *case),
            lambda **slips: evidence(*case, **slips),
            what="`log_evidence`",
            mistakes={
                "the normaliser of the prior is missing": {"normaliser": 0.0},
                "the sign of the determinant: a sharp peak has a small volume": {"narrow": -0.5},
                "half of the log determinant: the volume is a root": {"narrow": 1.0},
                "the determinant is missing: how wide the peak is counts too": {"narrow": 0.0},
                "the weights' distance from zero is missing: the prior has an opinion": {"twice": 0.0},
                "half of α times the squared length of the weights": {"twice": 1.0},
                "(2π)^(P/2) stands in the volume and, upside down, in the prior: they cancel": (
                    lambda v: v + 0.5 * len(weights) * np.log(2 * np.pi)
                ),
            },
        )
    with part("`slope`"):
        expect_close(
            learner.call("slope", *case),
            lambda **slips: slope_of(*case, **slips),
            what="`slope`",
            mistakes={
                "not every direction counts: Σ λ / (λ + α), not their number": {
                    "counted": float(len(weights))
                },
                "those are the directions that the data leave open: the others count": {
                    "counted": float(np.trace(np.linalg.inv(curvature + alpha * np.eye(5)))) * alpha
                },
                "α‖w‖² is missing": {"pull": 0.0},
                "that is the derivative in α: multiply by α": {"by_log": False},
                "the sign: towards larger α": np.negative,
                "half of that": lambda v: 2 * v,
            },
        )


def two_rules(seed):
    """Losses of two rules on four copies of each image, in any order."""
    rng = np.random.default_rng(seed)
    image = rng.permutation(np.repeat(np.arange(25), 4))
    hard = rng.gamma(1.0, 1.0, size=25)[image]
    first = hard + 0.1 * rng.random(len(image))
    return first, 0.7 * hard + 0.15 * rng.random(len(image)) + 0.1, image


def clustered(first, second, image, paired=True, grouped=True, root=True, degrees=1):
    """Mean difference and its standard error, with the usual slips to choose from."""
    gap = first - second
    centred = gap - gap.mean()
    if not paired:
        variance = (first.var(ddof=1) + second.var(ddof=1)) / len(gap)
    elif not grouped:
        variance = gap.var(ddof=degrees) / len(gap)
    else:
        groups = image.max() + 1
        sums = np.bincount(image, weights=centred)
        variance = groups / (groups - degrees) * (sums**2).sum() / len(gap) ** 2
    return gap.mean(), np.sqrt(variance) if root else variance


@question(
    "q6",
    points={"the mean": 1, "the standard error": 1},
    hint="Images are independent of each other; the copies of one are not. One number an image, then.",
    read="Digits: an error budget",
)
def copies_of_one_image_are_one_image(learner, seed):
    case = two_rules(seed)
    got = expect_parts(learner.call("compared", *case), ["the mean", "the standard error"])
    with part("the mean"):
        expect_close(
            got[0],
            lambda: clustered(*case)[0],
            what="the mean",
            mistakes={
                "the sign: the first rule's loss minus the second's": np.negative,
            },
        )
    with part("the standard error"):
        expect_close(
            got[1],
            lambda **slips: clustered(*case, **slips)[1],
            what="the standard error",
            mistakes={
                "copies of one image were counted as independent": {"grouped": False},
                "the two rules saw the same images: pair them": {"paired": False},
                "that is the variance: take its root": {"root": False},
                "G / (G − 1), with the number of images G": {"degrees": 0},
            },
        )


q7 = manual(
    "q7",
    "What would you measure before you believe that the Laplace approximation mended this network?",
    {
        "the rival: one temperature, fitted to the same held-out data, beside it": 1,
        "what else may have moved the number: the mode, the prior's precision, the formula; one at a time": 1,
        "judged on data that chose nothing, with an interval that is paired": 1,
    },
)
