"""Checks of the exercise on Bayesian linear regression."""

import numpy as np
from scipy.special import gammaln
from scipy.stats import t as student_t

from .._engine import expect_close, expect_parts, expect_words, manual, part, question

MODELS = (
    "bayesian_linear_regression.BayesianLinearRegression",
    "bayesian_linear_regression.StudentLinearRegression",
)


def problem(seed, n=12, width=3):
    """Features, targets and two precisions, none of them close to 1."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, width))
    y = features @ rng.normal(size=width) * 2 + 0.5 * rng.normal(size=n)
    return features, y, float(rng.uniform(1.5, 3)), float(rng.uniform(4, 8))


def instruments(seed):
    """Observations by instruments of unequal quality, and a prior that is neither round nor at zero."""
    rng = np.random.default_rng(seed)
    features, y, _, _ = problem(seed)
    root = rng.normal(size=(3, 3)) + 2 * np.eye(3)
    return features, y, rng.uniform(0.3, 1.5, size=12), rng.normal(size=3) + 1.5, root @ root.T


def fused(features, y, noise_std, centre, prior, weight=-2.0, pull=True, kept=True):
    """Mean and precision, with the usual slips to choose from."""
    weights = noise_std**weight
    precision = features.T @ (weights[:, None] * features) + (prior if kept else 0)
    right = features.T @ (weights * y) + (prior @ centre if pull is True else pull)
    return np.linalg.solve(precision, right), precision


@question(
    "q1",
    points={"the mean": 2, "the covariance": 1},
    hint="Each square is divided by its own variance. What stands beside θ alone, the prior's part included?",
    forbids=MODELS,
    read="The posterior",
)
def unequal_instruments_and_an_opinion(learner, seed):
    case = instruments(seed)
    prior = case[4]
    got = expect_parts(learner.call("posterior", *case), ["the mean", "the covariance"])
    with part("the mean"):
        expect_close(
            got[0],
            lambda **slips: fused(*case, **slips)[0],
            what="the mean",
            mistakes={
                "the prior's mean is forgotten: the prior pulls towards it, not to zero": {"pull": 0},
                "the prior's mean pulls with the prior's precision, not alone": {"pull": case[3]},
                "a precision is one over a variance, not one over a standard deviation": {"weight": -1.0},
                "an observation with more noise counts less, not more": {"weight": 2.0},
                "the noise of the instruments is not used": {"weight": 0.0},
                "the prior is missing beside the features": {"kept": False},
            },
        )
    with part("the covariance"):
        expect_close(
            got[1],
            lambda **slips: np.linalg.inv(fused(*case, **slips)[1]),
            what="the covariance",
            mistakes={
                "that is the precision: the covariance is its inverse": np.linalg.inv,
                "the covariance lacks the prior": {"kept": False},
                "in the covariance, too, a precision is one over a variance": {"weight": -1.0},
                "the noise of the instruments is missing in the covariance": {"weight": 0.0},
                "the prior is given by its precision, not by its covariance": np.linalg.inv(
                    fused(*case[:4], np.linalg.inv(prior))[1]
                ),
            },
        )


@question(
    "q2",
    points={"the precision": 1, "the mean": 2},
    hint="Whatever an observation added, to the precision and to its product with the mean, now goes.",
    forbids=MODELS,
    read="One point after the other",
)
def an_observation_is_withdrawn(learner, seed):
    features, y, alpha, beta = problem(seed)
    precision = alpha * np.eye(3) + beta * features.T @ features
    mean = np.linalg.solve(precision, beta * features.T @ y)
    phi, target = features[-1], float(y[-1])
    got = expect_parts(
        learner.call("without", mean, precision, phi, target, beta), ["the mean", "the precision"]
    )

    def left(sign=-1, beta=beta, product=np.outer):
        return precision + sign * beta * product(phi, phi)

    def mean_left(pull=precision @ mean, beside=-beta, **slips):
        return np.linalg.solve(left(**slips), pull + beside * phi * target)

    with part("the precision"):
        expect_close(
            got[1],
            left,
            what="the precision",
            mistakes={
                "that adds the observation a second time: it is to go": {"sign": 1},
                "the noise precision is missing in what the observation had added": {"beta": 1},
                "an observation had added the product of its features with themselves, a matrix": {
                    "product": np.dot
                },
            },
        )
    with part("the mean"):
        expect_close(
            got[0],
            mean_left,
            what="the mean",
            mistakes={
                "its target still pulls: take that away, too": {"beside": 0},
                "its target pulls twice now": {"beside": beta},
                "the mean pulls with the precision that it had": {"pull": left() @ mean},
                "the noise precision is missing beside the target": {"beside": -1},
                "the precision in it is that of the observation twice": {"sign": 1},
                "the precision in it is the old one": {"sign": 0},
            },
        )


def survey(seed):
    """A posterior, a place of interest, and candidates of which the best is not the most uncertain."""
    rng = np.random.default_rng(seed)
    while True:
        root = rng.normal(size=(5, 3))
        precision = root.T @ root + 0.3 * np.eye(3)
        phi, candidates = rng.normal(size=3), rng.normal(size=(8, 3))
        beta = float(rng.uniform(1.5, 4))
        case = precision, phi, candidates, beta
        inverse = np.linalg.inv(precision)
        found = [
            int(measured(*case).argmin()),
            int(np.einsum("km,ml,kl->k", candidates, inverse, candidates).argmax()),
            int(np.abs(candidates @ phi).argmax()),
            int(np.abs(candidates @ inverse @ phi).argmax()),
            int(measured(*case).argmax()),
        ]
        values = np.sort(measured(*case))
        if len(set(found)) == len(found) and values[1] - values[0] > 1e-3:
            return case


def measured(precision, phi, candidates, beta, noise=None, sign=-1, power=2, own=1):
    """The epistemic variance at ``phi`` after one more observation at each candidate."""
    inverse = np.linalg.inv(precision)
    shared = candidates @ inverse @ phi
    theirs = np.einsum("km,ml,kl->k", candidates, inverse, candidates)
    noise = 1 / beta if noise is None else noise
    return phi @ inverse @ phi + sign * np.abs(shared) ** power / (noise + own * theirs)


@question(
    "q3",
    points={"the variances": 2, "the choice": 1},
    hint="Does the variance after an observation depend on what will be observed? Only on where.",
    forbids=MODELS,
    read="One point after the other",
)
def where_to_look_next_is_known_before_looking(learner, seed):
    case = survey(seed)
    precision, phi, candidates, beta = case
    spread = np.einsum("km,ml,kl->k", candidates, np.linalg.inv(precision), candidates)
    with part("the variances"):
        expect_close(
            learner.call("after", *case),
            lambda **slips: measured(*case, **slips),
            what="the variances",
            mistakes={
                "that is what the observation takes away: subtract it from what was there": (
                    lambda v: phi @ np.linalg.solve(precision, phi) - v
                ),
                "that is the variance of a new observation: only the function's value was asked for": (
                    lambda v: v + 1 / beta
                ),
                "that is the standard deviation": np.sqrt,
                "the noise of the new observation is missing: it does not show the function itself": {
                    "noise": 0
                },
                "a precision is one over a variance": {"noise": beta},
                "an observation lowers the variance": {"sign": 1},
            },
        )
    with part("the choice"):
        expect_close(
            learner.call("look_next", *case),
            lambda by=None: float((measured(*case) if by is None else by).argmin()),
            what="the choice",
            mistakes={
                "that is where we know least, not what tells most about the place of interest": {
                    "by": -spread
                },
                "the covariance with the place counts, but also how much noise and spread dilute it": {
                    "by": -np.abs(candidates @ np.linalg.solve(precision, phi))
                },
                "the place that looks most alike is not the one that tells most": {
                    "by": -np.abs(candidates @ phi)
                },
                "that one leaves the most variance: the least was asked for": {"by": -measured(*case)},
            },
        )


def delivery(seed):
    rng = np.random.default_rng(seed)
    features, y, _, _ = problem(seed, n=9)
    return features, y, rng.normal(size=(4, 3)), int(rng.integers(3, 8))


def averaged(features, y, new, k, normal=False, biased=False, own=1, share=None, line=1, counted=0):
    """Half width of the 95 % interval for the average of k observations, with the usual slips."""
    n, width = features.shape
    weights = np.linalg.lstsq(features, y, rcond=None)[0]
    degrees = n - (counted or width)
    squared = ((y - features @ weights) ** 2).sum() / (n if biased else degrees)
    fan = (new * np.linalg.solve(features.T @ features, new.T).T).sum(axis=1)
    around = own * (1 / k if share is None else share) + line * fan
    quantile = 1.959963984540054 if normal else student_t.ppf(0.975, degrees)
    return quantile * np.sqrt(squared * around)


@question(
    "q4",
    points=3,
    hint="What do all k share, and what does each have for itself? Only the latter averages out.",
    forbids=MODELS,
    read="What it costs to act as if we knew",
)
def averaging_does_not_average_the_line(learner, seed):
    case = delivery(seed)
    expect_close(
        learner.call("mended", *case),
        lambda **slips: averaged(*case, **slips),
        what="the half widths",
        mistakes={
            "the noise is still taken as known: Student's quantile, not the normal one": {"normal": True},
            "the scatter still divides by n: the weights have used up some of it": {"biased": True},
            "the line is the same for all k: its own uncertainty does not average out": {"line": 1 / case[3]},
            "the line's own uncertainty is missing": {"line": 0},
            "that is for one observation: the noise of k averages out": {"share": 1},
            "the noise of the average is missing: k is not infinite": {"own": 0},
            "variances of an average fall like 1/k, not like 1/√k": {"share": case[3] ** -0.5},
            "the degrees of freedom count the weights: n − M": {"counted": 1},
            "that is the whole width: half of it was asked for": lambda v: 2 * v,
        },
    )


def gamma_evidence(features, y, ratio, shape, rate, seen=0.5, half=0.5, gammas=True, narrow=1, prior=1):
    """Log evidence with the noise integrated out, with the usual slips to choose from."""
    n, width = features.shape
    precision = ratio * np.eye(width) + features.T @ features
    mean = np.linalg.solve(precision, features.T @ y)
    left = ((y - features @ mean) ** 2).sum() + ratio * mean @ mean
    after, more = shape + seen * n, rate + half * left
    return (
        -0.5 * n * np.log(2 * np.pi)
        + 0.5 * prior * width * np.log(ratio)
        - 0.5 * narrow * np.linalg.slogdet(precision)[1]
        + shape * np.log(rate)
        - after * np.log(more)
        + (gammaln(after) - gammaln(shape) if gammas else 0)
    )


@question(
    "q5",
    points=3,
    hint="The joint density has a normal part and a Gamma part. What does each integrate to?",
    forbids=MODELS,
    read="What it costs to act as if we knew",
)
def the_evidence_without_a_noise(learner, seed):
    rng = np.random.default_rng(seed)
    features, y, _, _ = problem(seed)
    case = features, y, *(float(v) for v in rng.uniform(0.3, 0.8, size=3))
    expect_close(
        learner.call("log_evidence", *case),
        lambda **slips: gamma_evidence(*case, **slips),
        mistakes={
            "each observation adds one half to the shape, not one": {"seen": 1},
            "half of what is left over adds to the rate": {"half": 1},
            "the Gamma functions are missing: both densities of β have a normaliser": {"gammas": False},
            "the determinant of the posterior's precision is missing": {"narrow": 0},
            "the sign of the determinant: a posterior narrower than the prior costs evidence": {"narrow": -1},
            "the normaliser of the weights' prior is missing": {"prior": 0},
            "the constant is missing: n log 2π": lambda v: v + 0.5 * len(y) * np.log(2 * np.pi),
            "a negative log: the sign": np.negative,
        },
    )


WORDS = ("line", "noisy", "curve", "drift")


def laboratories(seed):
    """Data sets of known kinds: a fine line, a poor instrument, a curve, an instrument that drifts.

    Heights and periods vary, so that no threshold tuned to one of them passes.
    """
    rng = np.random.default_rng(seed)
    kinds = list(rng.permutation([*WORDS, *WORDS]))
    sets = []
    for kind in kinds:
        x = rng.uniform(-3, 3, size=300)
        noise = (rng.uniform(0.5, 0.8) if kind == "noisy" else 0.2) * rng.normal(size=300)
        height, phase = rng.uniform(0.7, 1.2), rng.uniform(0, 6)
        y = rng.normal() + rng.normal() * x + noise
        if kind == "curve":
            y = y + height * np.sin(rng.uniform(2, 4) * x + phase)
        if kind == "drift":  # slow in time, and time is the order of the rows
            y = y + height * np.sin(2 * np.pi * np.arange(300) / rng.uniform(60, 150) + phase)
        sets.append((x, y))
    return [str(kind) for kind in kinds], sets


def judged_by(kinds, size=True, by_input=True, by_time=True):
    """The words that somebody finds who lacks one of the three looks."""
    found = {
        "line": "line" if size else "noisy",
        "noisy": "noisy" if size else "line",
        "curve": "curve" if by_input else ("noisy" if size else "line"),
        "drift": "drift" if by_time else ("noisy" if size else "line"),
    }
    return [found[kind] for kind in kinds]


@question(
    "q6",
    points=3,
    hint="Noise has no shape: neither along the input nor along the time. Sort the residuals by each.",
    read="Break it: the evidence under a wrong basis",
)
def four_kinds_of_what_is_called_noise(learner, seed):
    kinds, sets = laboratories(seed)
    xs, ys = (np.array(both) for both in zip(*sets, strict=True))
    expect_words(
        learner.call("verdicts", xs, ys, 0.2),
        lambda **slips: judged_by(kinds, **slips),
        WORDS,
        what="the verdicts",
        mistakes={
            "by the size of the residuals alone a curve and a drift look like noise": {
                "by_input": False,
                "by_time": False,
            },
            "a curve shows when the residuals are in the order of the inputs": {"by_input": False},
            "a drift shows when the residuals are in the order of the rows, that is, of the time": {
                "by_time": False
            },
            "without a shape, the size decides: compare it with what the instrument is said to have": {
                "size": False
            },
        },
    )


q7 = manual(
    "q7",
    "What does each of the two intervals promise, and what would you ask before you take the short one?",
    {
        "both promises: any truth and repeated data; worlds as the prior draws them": 1,
        "the short one is as good as its prior: where is it from, and how often did such bands hold": 1,
    },
)
