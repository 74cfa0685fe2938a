"""Checks of the exercise on variational inference."""

import numpy as np

from .._engine import as_numbers, expect, expect_close, manual, part, question

LAYERS = ("variational_inference.kl_of", "variational_inference.evidence_bound")
MODELS = ("bayesian_linear_regression.BayesianLinearRegression",)


def opinions(seed, width=5):
    """Means and standard deviations of q, and a prior's, which is neither narrow nor at zero."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=width), rng.uniform(0.1, 0.9, size=width)
    return *q, rng.normal(size=width) + 1.5, rng.uniform(1.5, 3, size=width)


def price(
    mean, std, prior_mean=0.0, prior_std=1.0, half=0.5, sign=1, centred=1, twice=2, join=np.sum, swapped=False
):
    """The divergence of two products of normals, with the usual slips to choose from."""
    if swapped:
        mean, std, prior_mean, prior_std = prior_mean, prior_std, mean, std
    squares = (std**2 + (mean - centred * prior_mean) ** 2) / (twice * prior_std**2)
    return join(sign * np.log(prior_std / std) + squares - half)


@question(
    "q1",
    points=2,
    hint="The expectation of log q - log p under q, one weight at a time: E[(θ - m)²] is σ² + (μ - m)².",
    forbids=LAYERS,
    read="The family: mean field",
)
def knowing_is_dear_also_beside_an_opinion(learner, seed):
    case = opinions(seed)
    expect_close(
        learner.call("divergence", *case),
        lambda **slips: price(*case, **slips),
        what="the divergence",
        mistakes={
            "the one half is missing: without it q = p would cost something": {"half": 0},
            "the squares are divided by twice the prior's variance: q = p would cost something": {"twice": 1},
            "a sum over the weights, not their mean": {"join": np.mean},
            "the two distributions are swapped: the expectation is under q": {"swapped": True},
            "the logarithm has the wrong sign: narrow weights are dear": {"sign": -1},
            "the prior's mean is forgotten: weights pay for their distance from it, not from zero": {
                "centred": 0
            },
            "in bits: use the natural logarithm": lambda v: v / np.log(2),
        },
    )


@question(
    "q2",
    points=1,
    hint=(
        "softplus(ρ) = log(1 + exp ρ); NumPy has a function for log(exp a + exp b). Back: solve for ρ; "
        "expm1 keeps the digits of a small σ."
    ),
    read="The family: mean field",
)
def rho_goes_through_softplus_and_back(learner, seed):
    rng = np.random.default_rng(seed)
    rho = np.append(rng.uniform(-6, 4, size=7), 1000.0)
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
    sigma = np.concatenate([rng.uniform(0.01, 3, size=7), 10 ** rng.uniform(-14, -13, size=3), [1000.0]])
    want = sigma + np.log(-np.expm1(-sigma))
    got = as_numbers(learner.call("rho_of", sigma), "ρ")
    if got.shape == want.shape:
        expect(not (np.allclose(got[:-1], want[:-1]) and not np.isfinite(got[-1])), overflow)
        lost = np.allclose(got[:7], want[:7]) and not np.allclose(got[7:-1], want[7:-1], rtol=1e-7)
        expect(not lost, "the digits are lost: 1 and a very small number add up to 1")
    expect_close(
        got,
        want,
        what="ρ",
        mistakes={
            "the inverse is not the inverse: the logarithm undoes exp, not softplus": np.log(sigma),
            "the inverse is not the inverse of softplus: that undoes a variance": 2 * np.log(sigma),
        },
    )


def regression(seed, n=9, width=3):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=width), rng.uniform(0.1, 0.9, size=width)
    x, noise_std = rng.normal(size=(n, width)), float(rng.uniform(0.4, 0.8))
    return mean, std, x, x @ mean + rng.normal(size=n), noise_std


def linear_bound(mean, std, x, y, noise_std, constant=1, spread=1, paid=1, squared=True):
    """The bound of a linear model in closed form, with the usual slips to choose from."""
    scatter = (x**2 @ std**2).sum() if squared else ((x @ std) ** 2).sum()
    misfit = (((y - x @ mean) ** 2).sum() + spread * scatter) / (2 * noise_std**2)
    known = constant * 0.5 * len(y) * np.log(2 * np.pi * noise_std**2)
    return -known - misfit - paid * price(mean, std)


@question(
    "q3",
    points=3,
    hint="E[(y - xᵀw)²] = (y - xᵀμ)² + Var[xᵀw], and the variances of independent terms add up.",
    forbids=LAYERS,
    read="In probabilities",
)
def the_bound_needs_no_sampling(learner, seed):
    case = regression(seed)
    expect_close(
        learner.call("bound", *case),
        lambda **slips: linear_bound(*case, **slips),
        what="the bound",
        mistakes={
            "the likelihood at the mean of the weights is not the mean of the likelihood": {"spread": 0},
            "the divergence is subtracted: knowing costs": {"paid": -1},
            "the divergence is missing": {"paid": 0},
            "the constant of the likelihood is missing": {"constant": 0},
            "variances add up with squares, standard deviations do not": {"squared": False},
            "that is the loss: the bound is minus that": np.negative,
        },
    )


def families(seed):
    """A precision matrix of five weights, and three groups of which one has two weights that lie apart."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(5, 5))
    groups = rng.permutation([0, 0, 1, 1, 2])
    return root @ root.T + 0.5 * np.eye(5), groups, groups[:, None] == groups


def log_det(matrix):
    return np.linalg.slogdet(matrix)[1]


@question(
    "q4",
    points={"`best_covariance`": 2},
    hint="What depends on the covariance S is ½ tr(Λ S) - ½ log det S, and both are sums over the groups.",
    read="Too narrow, exactly",
)
def a_group_is_as_wide_as_when_all_others_are_known(learner, seed):
    precision, groups, together = families(seed)
    expect_close(
        learner.call("best_covariance", precision, groups),
        np.linalg.inv(np.where(together, precision, 0)),
        what="the covariance",
        mistakes={
            "those are the marginal covariances: the nearest such Gaussian is narrower": np.where(
                together, np.linalg.inv(precision), 0
            ),
            "those are precisions: the covariance is their inverse": np.linalg.inv,
            "correlations within a group are allowed: the variances alone are not the best": np.diag(
                1 / np.diag(precision)
            ),
            "between groups there are none: that is the exact posterior's": np.linalg.inv(precision),
        },
    )


@question(
    "q4",
    points={"`lost`": 1},
    hint="Put the best covariance into the divergence of two normals with the same mean: the traces cancel.",
    read="Too narrow, exactly",
)
def what_a_family_of_groups_must_lose(learner, seed):
    precision, groups, together = families(seed)
    inverse = np.linalg.inv(precision)
    want = 0.5 * (log_det(np.where(together, precision, 0)) - log_det(precision))
    expect_close(
        learner.call("lost", precision, groups),
        want,
        what="the divergence",
        mistakes={
            "the one half is missing": lambda v: 2 * v,
            "a divergence is not negative: the sign": np.negative,
            "the other direction, from the posterior to q, has its optimum elsewhere": (
                0.5 * (log_det(np.where(together, inverse, 0)) - log_det(inverse))
            ),
            "correlations within a group are allowed: less is lost than by the diagonal": (
                0.5 * (np.log(np.diag(precision)).sum() - log_det(precision))
            ),
            "in bits: use the natural logarithm": lambda v: v / np.log(2),
        },
    )


@question(
    "q5",
    points={"`batch_loss`": 1},
    hint="Divide the negative bound of all examples by their number; which part belongs to one example?",
    read="From a layer to a network",
)
def an_example_pays_its_part_of_the_weights(learner, seed):
    rng = np.random.default_rng(seed)
    divergence, total = float(rng.uniform(200, 400)), int(rng.integers(90, 140))
    for size in (16, 5):
        misfits = rng.uniform(0.2, 1.5, size=size)

        def loss(weight=1 / total, join=np.mean, misfits=misfits):
            return join(misfits) + weight * divergence

        expect_close(
            learner.call("batch_loss", misfits, divergence, total),
            loss,
            what="the loss",
            mistakes={
                "the whole divergence: an epoch then counts it as often as there are examples": {"weight": 1},
                "divided by the size of the batch: an epoch counts it as often as there are batches": {
                    "weight": 1 / size
                },
                "in nats an example: the misfits are averaged, not summed": {"join": np.sum},
                "a large batch and a small one: the mean is an example's, so its part is an example's, too": {
                    "weight": size / total
                },
                "the divergence is missing": {"weight": 0},
                "that is the sum over the batch: divide all of it by the size": lambda v, n=size: v * n,
            },
        )


@question(
    "q5",
    points={"`implied_scale`": 1},
    hint="Multiply his loss by the number of examples, and compare.",
    read="Cold, and what that means",
)
def a_weight_is_a_number_of_data(learner, seed):
    rng = np.random.default_rng(seed)
    weight, total = float(rng.uniform(0.002, 0.03)), int(rng.integers(150, 300))
    expect_close(
        learner.call("implied_scale", weight, total),
        weight * total,
        what="λ",
        mistakes={
            "the other way round: that many times each example seems to occur": 1 / (weight * total),
            "the weight alone is that of a loss in nats an example": weight,
            "times, not over: that many examples each counts for": weight / total,
        },
    )


@question(
    "q6",
    points={"drawn weights": 1, "local noise": 1},
    hint="Cov[Σⱼ Wⱼhⱼ, Σⱼ Wⱼh'ⱼ] for independent Wⱼ; what is left of it if two inputs share no noise?",
    read="Further: one noise for all, or each its own",
)
def local_noise_forgets_that_inputs_share_their_weights(learner, seed):
    rng = np.random.default_rng(seed)
    h, std = rng.normal(size=(4, 3)), rng.uniform(0.2, 0.9, size=(2, 3))
    alone = np.eye(4)

    def shared(power=2, mask=1.0):
        return np.einsum("nj,kj,mj->knm", h, std**power, h) * mask

    def scaled(values):
        wide = np.sqrt(np.einsum("knn->kn", shared()))
        return values / wide[:, :, None] / wide[:, None]

    with part("drawn weights"):
        expect_close(
            learner.call("covariance", h, std, False),
            shared,
            what="the covariance with drawn weights",
            mistakes={
                "drawn weights are the same for all inputs: their outputs vary together": {"mask": alone},
                "that is of standard deviations: variances add up": {"power": 1},
                "those are correlations: do not divide by the widths": scaled,
            },
        )
    with part("local noise"):
        expect_close(
            learner.call("covariance", h, std, True),
            lambda power=2, mask=alone: shared(power, mask),
            what="the covariance with local noise",
            mistakes={
                "each input has noise of its own: nothing is left between two": {"mask": 1.0},
                "with local noise, too, variances add up and not standard deviations": {"power": 1},
                "with local noise, too, the covariance was asked for, not the correlation": scaled,
            },
        )


def judged(seed):
    """A regression whose evidence and best factorised bound choose different priors."""
    rng = np.random.default_rng(seed)
    alphas = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
    while True:
        x = rng.normal(size=(12, 4)) + 3 * rng.normal(size=(12, 1))
        noise_std = float(rng.uniform(0.5, 1.5))
        y = x @ rng.normal(size=4) * rng.uniform(0.3, 1.5) + noise_std * rng.normal(size=12)
        case = x, y, noise_std, alphas
        orders = [np.sort(values)[::-1] for values in (log_evidences(*case), best_bounds(*case))]
        tops = [log_evidences(*case).argmax(), best_bounds(*case).argmax()]
        if tops[0] != tops[1] and min(top - second for top, second, *_ in orders) > 1e-3:
            return case


def log_evidences(x, y, noise_std, alphas, constant=1, over=True, fit=1, wide=1):
    found = []
    for alpha in alphas:
        spread = x @ x.T * (1 / alpha if over else alpha) + noise_std**2 * np.eye(len(y))
        found.append(-0.5 * (wide * log_det(spread) + fit * y @ np.linalg.solve(spread, y)))
    return np.array(found) - constant * 0.5 * len(y) * np.log(2 * np.pi)


def best_bounds(x, y, noise_std, alphas, half=0.5, gap=1, prior=1, **slips):
    lost = []
    for alpha in alphas:
        precision = x.T @ x / noise_std**2 + prior * alpha * np.eye(x.shape[1])
        lost.append(half * (np.log(np.diag(precision)).sum() - log_det(precision)))
    return log_evidences(x, y, noise_std, alphas, **slips) - gap * np.array(lost)


@question(
    "q7",
    points={"the evidences": 1},
    hint="y is normal with mean 0: what is the covariance of two targets that share the weights?",
    forbids=MODELS,
    read="In probabilities",
)
def the_evidence_of_a_prior(learner, seed):
    case = judged(seed)
    expect_close(
        learner.call("evidences", *case),
        lambda **slips: log_evidences(*case, **slips),
        what="the array of evidences",
        mistakes={
            "the constant is missing: n log 2π": {"constant": 0},
            "α is a precision: the prior's variance is one over it": {"over": False},
            "the determinant is missing": {"wide": 0},
            "the targets themselves are missing": {"fit": 0},
            "a negative log: the sign": np.negative,
        },
    )


@question(
    "q7",
    points={"the bounds": 2},
    hint="Bound = evidence minus divergence; which divergence remains at the best widths, and at which mean?",
    forbids=MODELS,
    read="Too narrow, exactly",
)
def the_highest_bound_without_correlations(learner, seed):
    case = judged(seed)
    expect_close(
        learner.call("bounds", *case),
        lambda **slips: best_bounds(*case, **slips),
        what="the array of bounds",
        mistakes={
            "those are the evidences: no product of Gaussians reaches them": {"gap": 0},
            "the one half of the divergence is missing": {"half": 1},
            "a lower bound lies below: the divergence is subtracted": {"gap": -1},
            "the precisions lack the prior's part": {"prior": 0},
            "in the evidence the constant is missing: n log 2π": {"constant": 0},
            "in the evidence α is a precision": {"over": False},
        },
    )


@question(
    "q7",
    points={"the choice": 1},
    hint="The α at which each of the two is highest; the evidence comes first.",
    forbids=MODELS,
    read="Break it: what fails, and what to use",
)
def the_bound_chooses_another_prior(learner, seed):
    case = judged(seed)
    alphas = case[-1]
    by = [alphas[values.argmax()] for values in (log_evidences(*case), best_bounds(*case))]
    expect_close(
        learner.call("chosen", *case),
        np.array(by),
        what="the choice",
        mistakes={
            "the other order: the evidence comes first": np.array(by[::-1]),
            "both by the evidence: the second is chosen by the bound": np.array([by[0], by[0]]),
            "both by the bound: the first is chosen by the evidence": np.array([by[1], by[1]]),
            "the places in the list were not asked for, but the α there": np.array(
                [np.flatnonzero(alphas == a)[0] for a in by], float
            ),
        },
    )


q8 = manual(
    "q8",
    "How can less divergence come nearer to the posterior, would you report it so for your own network, and "
    "which way does the bound lean when it chooses a prior?",
    {
        "the family's best fit at the full divergence is off; in predictions two errors may cancel": 1,
        "without the exact answer a better likelihood is no evidence of a nearer posterior": 1,
        "the bound takes the larger α: it makes correlations weaker, and with them what is lost": 1,
    },
)
