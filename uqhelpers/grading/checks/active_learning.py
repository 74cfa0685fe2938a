"""Checks of the exercise on active learning."""

import numpy as np
from scipy.special import entr
from scipy.stats import norm, t

from uqhelpers.metrics import mutual_information

from .._engine import expect_close, expect_parts, manual, part, question


def networks(seed, samples=6, inputs=7, classes=4, power=0.5):
    return np.random.default_rng(seed).dirichlet(np.full(classes, power), size=(samples, inputs))


def misread(probs, eps, others=True, networks_too=True):
    """Information of a label that is wrong with chance eps, with the usual slips to choose from."""
    classes = probs.shape[2]
    noisy = (1 - eps) * probs + (eps * (1 - probs) / (classes - 1) if others else eps / classes)
    if networks_too:
        return mutual_information(noisy)
    return entr(noisy.mean(axis=0)).sum(axis=1) - entr(probs).sum(axis=2).mean(axis=0)


@question(
    "q1",
    points=3,
    hint="What does each network say about the label that is WRITTEN DOWN? Each knows of the errors.",
    read="What would a label teach?",
)
def a_careless_reader_teaches_less(learner, seed):
    probs, eps = networks(seed), 0.15 + 0.2 * np.random.default_rng(seed).random()
    expect_close(
        learner.call("misread", probs, eps),
        lambda **slips: misread(probs, eps, **slips),
        what="the information",
        mistakes={
            "a wrong label is one of the OTHER classes": {"others": False},
            "each network expects the errors, too, not their average alone": {"networks_too": False},
            "errors do more than take away their share": (1 - eps) * mutual_information(probs),
            "that is the information of a label without errors": mutual_information(probs),
            "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
        },
    )


def aimed(probs, targets, paired=True, join=np.mean, weights=None):
    """EPIG, with the usual slips to choose from."""
    if not paired:
        probs, targets = probs.mean(axis=0)[None], targets.mean(axis=0)[None]
    joint = np.einsum("sny,stz->ntyz", probs, targets) / len(probs)
    own = entr(joint.sum(axis=3)).sum(axis=2)
    theirs = entr(joint.sum(axis=2)).sum(axis=2)
    pairs = own + theirs - entr(joint).sum(axis=(2, 3))
    return join(pairs, axis=1)


@question(
    "q2",
    points=3,
    hint="What makes two labels depend on each other? That one network gives both. Average afterwards.",
    forbids=("active_learning.epig", "active_learning.acquire"),
    read="What will you be asked?",
)
def labels_depend_through_the_network(learner, seed):
    probs, targets = networks(seed), networks(seed + 1, inputs=5)
    expect_close(
        learner.call("mended", probs, targets),
        lambda **slips: aimed(probs, targets, **slips),
        what="the information",
        mistakes={
            "averaged before the product, labels are independent and tell nothing": {"paired": False},
            "one target is not what will be asked: average over targets": {"join": np.max},
            "the average over targets, not their sum": {"join": np.sum},
            "that is BALD: information about the network": mutual_information(probs),
        },
    )


def line(seed):
    """Inputs of which the best by themselves are nearly the same, a covariance and a noise."""
    rng = np.random.default_rng(seed)
    while True:
        root = rng.normal(size=(3, 3))
        X = rng.normal(size=(7, 3))
        X[1] = X[0] + 0.05 * rng.normal(size=3)
        case = X, root @ root.T + 0.1 * np.eye(3), float(rng.uniform(0.5, 0.9))
        if not np.array_equal(line_choice(*case), line_choice(*case, again=False)):
            return case


def line_information(X, cov, noise, half=0.5, square=2, together=True):
    """Information of all labels about the weights of a line, with the usual slips to choose from."""
    joint = np.eye(len(X)) + X @ cov @ X.T / noise**square
    return half * (np.linalg.slogdet(joint)[1] if together else np.log(np.diag(joint)).sum())


def line_choice(X, cov, noise, size=3, again=True):
    """The greedy batch, or the best by themselves."""
    chosen = []
    for _ in range(size):
        before = chosen if again else []
        gains = [
            -np.inf if i in chosen else line_information(X[[*before, i]], cov, noise) for i in range(len(X))
        ]
        chosen.append(int(np.argmax(gains)))
    return np.array(chosen)


@question(
    "q3",
    points={"the information": 2, "the batch": 1},
    hint="Entropy of a Gaussian: half the log-determinant of its covariance, plus a constant. Which cancels?",
    read="Ten at a time",
)
def a_line_is_learnt_from_inputs_that_differ(learner, seed):
    X, cov, noise = line(seed)
    names = ["the information", "the batch"]
    got = expect_parts(learner.call("about_a_line", X, cov, noise), names)
    with part("the information"):
        expect_close(
            got[0],
            lambda **slips: line_information(X, cov, noise, **slips),
            what="the information",
            mistakes={
                "half of it: the entropy of a Gaussian has a factor of one half": {"half": 1},
                "noise is a standard deviation: square it": {"square": 1},
                "what the labels share counts once: that is the sum of single gains": {"together": False},
                "the right idea in bits: use the natural logarithm": lambda v: v / np.log(2),
            },
        )
    with part("the batch"):
        expect_close(
            got[1],
            lambda **slips: line_choice(X, cov, noise, **slips),
            what="the batch",
            mistakes={
                "those are the best by themselves: score each by what it ADDS": {"again": False},
                "the right inputs in another order: in the order of choice": lambda v: (
                    np.sort(v) if not np.array_equal(np.sort(v), v) else v + 100
                ),
            },
        )


def curves(seed):
    """Accuracies of two strategies that share what is random: rows are seeds."""
    rng = np.random.default_rng(seed)
    rounds = np.linspace(0.6, 0.9, 8)
    luck = 0.03 * rng.normal(size=(6, 1))
    a = rounds + luck + 0.01 * rng.normal(size=(6, 8))
    b = rounds + luck + 0.01 * rng.normal(size=(6, 8)) + 0.02 + 0.012 * rng.normal(size=(6, 1))
    b[:, 0] = a[:, 0]
    return np.clip(a, 0, 1), np.clip(b, 0, 1)


def ahead(a, b, first=1):
    return (b - a)[:, first:].mean()


def reach(a, b, first=1, unit="seed", paired=True, law="t", ddof=1, root=True):
    """Half the width of the interval, with the usual slips to choose from."""
    a, b = a[:, first:], b[:, first:]
    if unit == "seed":
        a, b = a.mean(axis=1), b.mean(axis=1)
    a, b = a.ravel(), b.ravel()
    variance = (b - a).var(ddof=ddof) if paired else a.var(ddof=ddof) + b.var(ddof=ddof)
    quantile = t(len(a) - 1).ppf(0.975) if law == "t" else norm.ppf(0.975)
    return quantile * np.sqrt(variance / (len(a) if root else 1))


@question(
    "q4",
    points={"the difference": 1, "the half-width": 2},
    hint="One number a seed first. The seeds were drawn, the rounds of one loop were not.",
    read="Where it fails",
)
def seeds_are_what_was_drawn(learner, seed):
    a, b = curves(seed)
    got = expect_parts(learner.call("compare", a, b), ["the difference", "the half-width"])
    with part("the difference"):
        expect_close(
            got[0],
            lambda **slips: ahead(a, b, **slips),
            what="the difference",
            mistakes={
                "the first column is before anything was asked: leave it out": {"first": 0},
                "the other way round: b minus a": np.negative,
                "that is the last round alone": (b - a)[:, -1].mean(),
            },
        )
    with part("the half-width"):
        expect_close(
            got[1],
            lambda **slips: reach(a, b, **slips),
            what="the half-width",
            mistakes={
                "the first column is before anything was asked: leave it out": {"first": 0},
                "rounds of one loop are not independent: one number a seed": {"unit": "round"},
                "both strategies share each seed's luck: take differences first": {"paired": False},
                "with so few seeds it is Student's t, not the normal law": {"law": "normal"},
                "the variance was estimated: divide by the number of seeds minus one": {"ddof": 0},
                "that is for one seed: the mean of several varies less": {"root": False},
            },
        )


def drawn_again(seed):
    """Losses of draws with replacement, large where the chance was large."""
    rng = np.random.default_rng(seed)
    loss = rng.gamma(1.0, 1.0, size=60)
    q = loss + 0.4 * rng.random(60) + 0.1
    q /= q.sum()
    places = rng.choice(60, size=25, p=q)
    return loss[places], q[places], 60


def risk(losses, q, pool, scaled=True, weighted=True, own=False):
    """The estimate, with the usual slips to choose from."""
    weights = (1 / (pool * q) if scaled else 1 / q) if weighted else np.ones(len(q))
    return np.sum(weights * losses) / (np.sum(weights) if own else len(losses))


def risk_error(losses, q, pool, scaled=True, weighted=True, ddof=1, root=True):
    values = losses * ((1 / (pool * q) if scaled else 1 / q) if weighted else 1)
    return values.std(ddof=ddof) / (np.sqrt(len(values)) if root else 1)


@question(
    "q5",
    points={"the estimate": 1, "the standard error": 2},
    hint="With replacement each draw is like every other. What must each loss be multiplied with?",
    forbids=("active_learning.lure_weights", "active_learning.lure_risk"),
    read="Judging a model that chose its data",
)
def with_replacement_draws_are_alike(learner, seed):
    case = drawn_again(seed)
    got = expect_parts(learner.call("risk", *case), ["the estimate", "the standard error"])
    with part("the estimate"):
        expect_close(
            got[0],
            lambda **slips: risk(*case, **slips),
            what="the estimate",
            mistakes={
                "without weights the chosen inputs' own mean comes out": {"weighted": False},
                "a uniform draw must have weight 1: divide by the pool's size, too": {"scaled": False},
                "divided by the sum of the weights it is no longer unbiased": {"own": True},
            },
        )
    with part("the standard error"):
        expect_close(
            got[1],
            lambda **slips: risk_error(*case, **slips),
            what="the standard error",
            mistakes={
                "what is averaged are WEIGHTED losses: take their spread": {"weighted": False},
                "a uniform draw must have weight 1: divide by the pool's size, too": {"scaled": False},
                "that is the spread of one draw: the mean of several varies less": {"root": False},
                "the mean was estimated from the same draws: M - 1": {"ddof": 0},
            },
        )


def joint(probs, batch):
    """Information of a batch, by enumeration."""
    each = np.ones((len(probs), 1))
    for i in batch:
        each = (each[:, :, None] * probs[:, i][:, None]).reshape(len(probs), -1)
    return entr(each.mean(axis=0)).sum() - entr(probs[:, list(batch)]).sum(axis=2).mean(axis=0).sum()


def ceiling(probs, batch, size, adding=True, given=True, all_alike=False):
    """A bound on the best batch, with the usual slips to choose from."""
    rest = [i for i in range(probs.shape[1]) if i not in batch]
    here = joint(probs, batch)
    gains = [joint(probs, [*batch, i]) - here if given else joint(probs, [i]) for i in rest]
    gains = np.sort(gains)[::-1][:size]
    return (here if adding else 0) + (size * gains[0] if all_alike else gains.sum())


@question(
    "q6",
    points=3,
    hint="Add the best batch to yours, one input after the other: none adds more than it would add at once.",
    forbids=("active_learning.joint_mutual_information", "active_learning.batch_bald"),
    read="Ten at a time",
)
def the_best_batch_is_within_sight(learner, seed):
    probs = networks(seed, samples=5, inputs=9, classes=3, power=0.4)
    given, size = ((3, 2), (2, 4))[seed % 2]  # a batch of one size, the best of another
    batch = [int(i) for i in np.random.default_rng(seed).permutation(9)[:given]]
    expect_close(
        learner.call("at_most", probs, batch, size),
        lambda **slips: ceiling(probs, batch, size, **slips),
        what="the bound",
        mistakes={
            "the information of the batch itself is missing": {"adding": False},
            "what each tells by itself is more than it adds to the batch": {"given": False},
            "a bound, but not the one asked for: not all add as much as the best": {"all_alike": True},
            "that holds for the greedy batch only: this one is any": joint(probs, batch) / (1 - np.exp(-1)),
            "as many as the best batch holds, not as many as yours": ceiling(probs, batch, given),
        },
    )


q7 = manual(
    "q7",
    "97 % on scans that the model asked for, against 95 % of others: what is wrong, what would you ask for?",
    {
        "right on what the model chose is no estimate for new scans: a random test set, or weights": 1,
        "one run each, other tests and starts: paired loops over seeds, first labels counted, an interval": 1,
    },
)
