"""Checks of the exercise on deep ensembles."""

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import norm

from .._engine import as_numbers, expect, expect_close, expect_parts, manual, part, question


@question(
    "q1",
    points={"the mean": 0.5, "the aleatoric variance": 1, "the epistemic variance": 1.5},
    hint="Average E[y] and E[y²] with the weights; E[y²] of a member is its variance plus its squared mean.",
    read="The mixture and its moments",
)
def the_moments_of_a_weighted_mixture_are_right(learner, seed):
    rng = np.random.default_rng(seed)
    locations, scales = 1.5 * rng.normal(size=(4, 7)), rng.uniform(0.3, 2, size=(4, 7))
    weights = rng.permutation([0.1, 0.15, 0.25, 0.5])
    got = expect_parts(
        learner.call("moments", locations, scales, weights),
        ["the mean", "the aleatoric variance", "the epistemic variance"],
    )
    even = np.full(4, 0.25)

    def mean(weights=weights):
        return weights @ locations

    def aleatoric(weights=weights, factor=2, squared=True):
        return factor * (weights @ scales**2 if squared else (weights @ scales) ** 2)

    def epistemic(weights=weights, centre=weights, about=1):
        return weights @ (locations - about * (centre @ locations)) ** 2

    with part("the mean"):
        expect_close(
            got[0],
            mean,
            what="the mean",
            mistakes={
                "every member counts the same there: use the weights": {"weights": even},
                "an average over members: the weights sum to 1 already": lambda v: v / 4,
            },
        )
    with part("the aleatoric variance"):
        expect_close(
            got[1],
            aleatoric,
            what="the aleatoric variance",
            mistakes={
                "every member counts the same there: use the weights": {"weights": even},
                "the variance of a Laplacian is 2b²: integrate r² by parts": {"factor": 1},
                "standard deviations do not average: average the variances": {"squared": False},
                "the weights of a mixture are not squared: they weigh densities": {"weights": weights**2},
                "that is a standard deviation: a variance is asked for": np.sqrt,
            },
        )
    with part("the epistemic variance"):
        expect_close(
            got[2],
            epistemic,
            what="the epistemic variance",
            mistakes={
                "every member counts the same there: use the weights": {"weights": even, "centre": even},
                "the distances are those from the weighted mean": {"centre": even},
                "that is the second moment: subtract the square of the mean": {"about": 0},
                "that is a standard deviation: a variance is asked for": np.sqrt,
                "the weights of a mixture are not squared: they weigh densities": {"weights": weights**2},
            },
        )


def quantile(locations, scales, at):
    """The quantile of a uniform mixture of Gaussians, by halving its distribution function."""
    low, high = (locations - 12 * scales).min(axis=0), (locations + 12 * scales).max(axis=0)
    for _ in range(200):
        middle = (low + high) / 2
        below = ndtr((middle - locations) / scales).mean(axis=0) < at
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


@question(
    "q2",
    points=3,
    hint="The distribution function of a mixture is the average of its members'. It rises: halve.",
    read="The mixture and its moments",
)
def the_interval_of_a_mixture_is_its_own(learner, seed):
    rng = np.random.default_rng(seed)
    locations, scales = 2 * rng.normal(size=(4, 6)), rng.uniform(0.3, 1.5, size=(4, 6))
    share = float(rng.uniform(0.6, 0.9))
    got = expect_parts(learner.call("interval", locations, scales, share), ["the lower end", "the upper end"])
    mean = locations.mean(axis=0)
    std = np.sqrt(np.mean(scales**2, axis=0) + locations.var(axis=0))
    z = norm.ppf((1 + share) / 2)
    own = np.stack([locations - z * scales, locations + z * scales])

    def ends(inside=share, outer=2):
        return np.stack(
            [quantile(locations, scales, tail) for tail in ((1 - inside) / outer, 1 - (1 - inside) / outer)]
        )

    for i, end in enumerate(("the lower end", "the upper end")):
        expect_close(
            got[i],
            lambda i=i, **slips: ends(**slips)[i],
            rtol=1e-5,
            atol=1e-5,
            what=end,
            mistakes={
                "one Gaussian with the moments of the mixture is another distribution": mean
                + (z * std if i else -z * std),
                "quantiles do not average: average the distribution functions": own[i].mean(axis=0),
                "from the lowest lower end to the highest upper end: that holds more than the share": (
                    own[1].max(axis=0) if i else own[0].min(axis=0)
                ),
                "what lies outside is shared by both ends": {"outer": 1},
                "the upper end comes second": ends()[1 - i],
            },
        )


@question(
    "q3",
    points=3,
    hint="What is the output to the loss? In which unit? And what happened to the members' disagreement?",
    read="Further: two slips without an error message",
)
def the_interval_is_mended(learner, seed):
    rng = np.random.default_rng(seed)
    locations, rho = 0.5 * rng.normal(size=(5, 6)), rng.uniform(-2, 1, size=(5, 6))
    centre, unit = float(rng.uniform(-9, 9)), float(rng.uniform(3, 20))
    b = np.logaddexp(0, rho) + 1e-6
    got = expect_parts(
        learner.call("interval_of", locations, rho, centre, unit), ["the lower end", "the upper end"]
    )
    lower, upper = (as_numbers(end, "an end") for end in got)
    expect(
        lower.shape == upper.shape == (6,),
        f"each end has the shape (6,), one for each input; got {lower.shape}",
    )
    expect(bool(np.all(upper >= lower)), "the lower end comes first")
    expect_close((lower + upper) / 2, unit * locations.mean(axis=0) + centre, what="the middle")

    def half(factor=2, squared=True, spread=1, unit=unit, widths=2):
        noise = factor * (np.mean(b**2, axis=0) if squared else np.mean(b, axis=0) ** 2)
        return widths * unit * np.sqrt(noise + spread * locations.var(axis=0))

    expect_close(
        (upper - lower) / 2,
        half,
        what="half the length",
        mistakes={
            "nothing is mended: b as standard deviation, averaged, without disagreement or unit": 2
            * b.mean(axis=0),
            "b is not the standard deviation of a Laplacian: its variance is 2b²": {"factor": 1},
            "standard deviations do not average: average the variances": {"squared": False},
            "the members' disagreement is missing: add the variance of their means": {"spread": 0},
            "the width has a unit, too: the network saw standardised targets": {"unit": 1},
            "one standard deviation, where two are asked for": {"widths": 1},
        },
    )


@question(
    "q4",
    points={"the spread": 1, "its error": 2},
    hint="Leave each member out in turn and compute the spread again. How do these vary?",
    read="How many members?",
)
def the_spread_and_its_error_are_estimated(learner, seed):
    locations = 3 * np.random.default_rng(seed).normal(size=(6, 5))
    members = len(locations)
    got = expect_parts(learner.call("spread_of_all", locations), ["the spread", "its error"])

    def spread(ddof=1, root=1.0):
        return np.mean(locations.var(axis=0, ddof=ddof) ** root)

    def error(ddof=1, factor=(members - 1) / members, root=0.5):
        left = [np.delete(locations, m, axis=0).var(axis=0, ddof=ddof).mean() for m in range(members)]
        return (factor * np.sum((np.array(left) - np.mean(left)) ** 2)) ** root

    with part("the spread"):
        expect_close(
            got[0],
            spread,
            what="the spread",
            mistakes={
                "that is the mixture's own, and too small by (M - 1) / M": {"ddof": 0},
                "a standard deviation, where a variance is asked for": {"root": 0.5},
                "the variance within each input, not over all numbers at once": np.var(locations, ddof=1),
                "the average over the inputs is asked for": lambda v: 5 * v,
            },
        )
    with part("its error"):
        inputs = locations.var(axis=0, ddof=1)
        expect_close(
            got[1],
            error,
            what="the error",
            mistakes={
                "members are what was drawn: leave out members, not inputs": inputs.std(ddof=1) / 5**0.5,
                "that is the standard deviation of the estimates: leaving one out moves them little, so "
                "the jackknife multiplies their squares by (M - 1) / M and does not average them": {
                    "factor": 1 / members
                },
                "the factor before the sum of squares is (M - 1) / M": {"factor": 1},
                "that is a squared error: take its root": {"root": 1},
                "the estimates without a member are unbiased, too: divide by one less than they have": {
                    "ddof": 0
                },
            },
        )


@question(
    "q5",
    points=3,
    hint="Which unit of the second computes what the first's unit computes, up to its sign? tanh is odd.",
    read="Modes, or permutations?",
)
def the_copy_is_brought_back(learner, seed):
    rng = np.random.default_rng(seed)
    first = [rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(2, 5))]
    after = [one + 0.02 * rng.normal(size=one.shape) for one in first]  # trained a little further
    order = rng.permutation(5)
    while np.array_equal(order, np.argsort(order)):  # so that it can be told from its inverse
        order = rng.permutation(5)
    flips = rng.permutation([1.0, 1.0, -1.0, -1.0, -1.0])
    second = [flips[:, None] * after[0][order], flips * after[1][order], flips * after[2][:, order]]
    names = ["the weights of the units", "the shifts of the units", "the weights of the output"]
    got = expect_parts(learner.call("brought_back", first, second), names)

    back = tuple(np.argsort(order))

    def undone(order=back, into=1, out=1):
        order = list(order)
        signs, kept = flips[order], np.ones(5)
        ahead, behind = signs if into else kept, signs if out else kept
        return [ahead[:, None] * second[0][order], ahead * second[1][order], behind * second[2][:, order]]

    for i, name in enumerate(names):
        expect_close(
            got[i],
            lambda i=i, **slips: undone(**slips)[i],
            what=name,
            mistakes={
                "that is the second as it was": second[i],
                "that is the first: the second is near it, and not the same": first[i],
                "the order has to be undone: that is its inverse": {"order": tuple(order)},
                "a flipped unit changes its output's sign, which is not undone": {"out": 0},
                "the signs of the weights into the units are not undone": {"into": 0},
            },
        )


@question(
    "q6",
    points={"`gain_of_logits`": 2},
    hint="Write the probability of a label after averaging logits: what does not depend on the label?",
    read="Break it: averaging logits",
)
def the_gain_of_averaged_logits_is_right(learner, seed):
    probs = np.random.default_rng(seed).dirichlet(np.ones(4), size=(3, 6))
    logs = np.log(probs)

    def gain(root=1 / 3, sign=-1):
        return sign * logsumexp(root * logs.sum(axis=0), axis=-1)

    expect_close(
        learner.call("gain_of_logits", probs),
        gain,
        what="the gain",
        mistakes={
            "the sign: averaging logits never raises it above the members' average": {"sign": 1},
            "the geometric mean takes the M-th root of the product": {"root": 1},
            "that is the constant itself: its logarithm is what the likelihood gains": np.exp(gain(sign=1)),
            "that is the mutual information: another number, and no gain of averaged logits": (
                -np.sum(probs.mean(axis=0) * np.log(probs.mean(axis=0)), axis=-1)
                + np.mean(np.sum(probs * logs, axis=-1), axis=0)
            ),
        },
    )


@question(
    "q6",
    points={"`gain_of_probs`": 1},
    hint="Two likelihoods of the label: of the average, and on average.",
    read="How many members?",
)
def the_gain_of_averaged_probabilities_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    probs, labels = rng.dirichlet(np.ones(4), size=(3, 6)), rng.integers(4, size=6)
    of_label = probs[:, np.arange(6), labels]

    def gain(sign=1):
        return sign * (np.log(of_label.mean(axis=0)) - np.log(of_label).mean(axis=0))

    expect_close(
        learner.call("gain_of_probs", probs, labels),
        gain,
        what="the gain",
        mistakes={
            "the sign: the average is never worse than the members' average": {"sign": -1},
            "one number for each input, not their mean": np.mean,
            "against the members' average, not against the best of them": np.log(of_label.mean(axis=0))
            - np.log(of_label.max(axis=0)),
        },
    )


q7 = manual(
    "q7",
    "Thirty networks, a barrier and a map: which two conclusions do not follow, and what would you measure?",
    {
        "a barrier may be the numbering of the units: realign, or compare answers on unfamiliar inputs": 1,
        "agreement on the new ward may be a shared bias: labels from there, or a density of features": 1,
    },
)
