"""Checks of the exercise on deep deterministic uncertainty."""

import numpy as np
from scipy.special import entr, logsumexp
from scipy.stats import binom

from .._engine import (
    as_number,
    as_numbers,
    expect,
    expect_close,
    expect_parts,
    expect_words,
    manual,
    part,
    question,
)

DENSITY = ("ddu.GaussianFeatureDensity",)


def gaussians(features, labels, new, ridge, *, bias=True, shared=False, determinant=True, constant=True):
    """Class by class the log density of ``new``, with the usual slips to choose from."""
    classes = np.unique(labels)
    own = [features[labels == k] for k in classes]
    covariances = [np.cov(points.T, bias=bias) for points in own]
    if shared:
        covariances = [
            sum(len(points) * c for points, c in zip(own, covariances, strict=True)) / len(features)
        ]
        covariances *= len(own)
    columns = []
    for points, covariance in zip(own, covariances, strict=True):
        ridged = covariance + ridge * np.eye(features.shape[1])
        away = new - points.mean(axis=0)
        value = -0.5 * np.einsum("nd,nd->n", away @ np.linalg.inv(ridged), away)
        value -= 0.5 * np.linalg.slogdet(ridged)[1] if determinant else 0
        value -= 0.5 * features.shape[1] * np.log(2 * np.pi) if constant else 0
        columns.append(value)
    return np.stack(columns, axis=1)


def clusters(seed):
    """Three classes of unequal size and shape; one point lies very far away."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2], [14, 8, 6]))
    mix = rng.normal(size=(3, 3, 3)) + 1.5 * np.eye(3)
    centres = 2 * rng.normal(size=(3, 3))
    features = np.einsum("nd,nde->ne", rng.normal(size=(28, 3)), mix[labels]) + centres[labels]
    features[np.flatnonzero(labels == 0)[0]] += 1000
    return features, labels


def others(n):
    """For each of n points, which points remain without it."""
    return [np.arange(n) != i for i in range(n)]


@question(
    "q1",
    points={"`left_out`": 2},
    hint="For each image: fit to all the others, shares too, and take the log density of the one left out.",
    forbids=DENSITY,
    read="The density of the features",
)
def a_density_without_the_image_itself(learner, seed):
    features, labels = clusters(seed)
    n, ridge = len(labels), 0.05
    rest = others(n)

    def without(ridge=ridge, **slip):
        return np.concatenate([gaussians(features[r], labels[r], features[~r], ridge, **slip) for r in rest])

    counts = np.bincount(labels)
    log_shares = np.log(np.stack([np.bincount(labels[r]) for r in rest]) / (n - 1))
    exact = without()

    def mixed(parts):
        return logsumexp(parts + log_shares, axis=1)

    got = as_numbers(learner.call("left_out", features, labels, ridge), "the log densities")
    expect(got.shape == (n,), f"expected one number an image, shape ({n},); got {got.shape}")
    expect(
        np.isfinite(got).all(),
        "far away every density underflows to 0, and its logarithm is lost: stay with logarithms (logsumexp)",
    )
    expect_close(
        got,
        mixed(exact),
        what="the log density",
        mistakes={
            "each image still describes itself: leave it out of the fit": logsumexp(
                gaussians(features, labels, features, ridge) + np.log(counts / n), axis=1
            ),
            "the image counts in its class's share still: leave it out there as well": logsumexp(
                exact + np.log(counts / n), axis=1
            ),
            "the classes' shares are missing: a rare class must weigh less": logsumexp(exact, axis=1),
            "all classes count, not only the image's own": (exact + log_shares)[np.arange(n), labels],
            "the maximum over the classes is not their sum": (exact + log_shares).max(axis=1),
            "each class has its own covariance: yours share one": mixed(without(shared=True)),
            "maximum likelihood divides by n, not by n - 1": mixed(without(bias=False)),
            "the determinant is missing: a wide Gaussian is a low one": mixed(without(determinant=False)),
            "the constant (2π)^(D/2) is missing": mixed(without(constant=False)),
            "the ridge is missing on the diagonal": mixed(without(ridge=0.0)),
        },
    )


@question(
    "q1",
    points={"`farthest`": 1},
    hint="In one dimension: n - 1 points at 0, one at x. Mean, variance, distance?",
    read="Whose quantile?",
)
def no_image_is_far_from_a_gaussian_that_it_helped_to_fit(learner, seed):
    counts = [int(n) for n in np.random.default_rng(seed).integers(3, 60, size=4)]
    ns = np.array(counts, dtype=np.float64)
    answers = [as_numbers(learner.call("farthest", n), "the ceiling") for n in counts]
    expect(all(answer.shape == () for answer in answers), "expected one number for each n")
    expect_close(
        np.array(answers),
        ns - 1,
        what="the ceiling",
        mistakes={
            "there is a ceiling: as the image moves out, the variance grows with it": np.full(4, np.inf),
            "nearly: the outlier moves the mean towards itself, too": ns,
            "squared: the ceiling of the distance itself is the root": np.sqrt(ns - 1),
            "the other n - 1 at one place, and it is reached: n - 2 is too low": ns - 2,
            "that is for a variance divided by n - 1; maximum likelihood divides by n": (ns - 1) ** 2 / ns,
        },
    )


@question(
    "q2",
    points={"`quantile`": 1},
    hint="The empirical distribution function: the share of held-out values that are at most as high.",
    forbids=("ddu.quantile", *DENSITY),
    read="Whose quantile?",
)
def a_quantile_is_a_share_of_held_out_densities(learner, seed):
    rng = np.random.default_rng(seed)
    held_out = rng.integers(-30, 10, size=41).astype(float)  # with ties
    new = np.concatenate([rng.choice(held_out, size=4), rng.normal(-10, 10, size=4), [-99.0, 99.0]])
    below = np.mean(held_out[None] < new[:, None], axis=1)
    at_most = np.mean(held_out[None] <= new[:, None], axis=1)
    expect_close(
        learner.call("quantile", new, held_out),
        at_most,
        what="the quantiles",
        mistakes={
            "at most as high: those of the same density count too": below,
            "the other way round: the strangest input has quantile 0": 1 - at_most,
            "the other way round: strange is low": 1 - below,
            "a share, not a count": at_most * len(held_out),
            "the rank among the held-out inputs, not among the new ones": np.mean(
                new[None] <= new[:, None], axis=1
            ),
        },
    )


@question(
    "q2",
    points={"`rejected`": 1},
    hint="Rank the new image among all n + 1: every place is as likely as any other. At which does it ring?",
    read="Whose quantile?",
)
def a_new_image_is_at_each_place_with_the_same_chance(learner, seed):
    rng = np.random.default_rng(seed)
    cases = []
    while len(cases) < 6:
        n, alpha = int(rng.integers(20, 300)), float(rng.choice([0.03, 0.07, 0.13]))
        before, after = alpha * n % 1, alpha * (n + 1) % 1
        # no rounding decides; in every other case the image itself makes one more
        if min(before, after) > 0.005 and max(before, after) < 0.995 and (after < before) == len(cases) % 2:
            cases.append((n, alpha))
    ns, alphas = np.transpose(cases)

    def chances(rounded=np.ceil, places=1, counted=0):
        return rounded(alphas * (ns + counted)) / (ns + places)

    got = [as_number(learner.call("rejected", *case), "the probability") for case in cases]
    expect_close(
        np.array(got),
        chances,
        what="the probability",
        mistakes={
            "a share of few images takes few values: count the places of the new one": alphas,
            "what is not whole is rounded up: the image may have that many below it and still ring": {
                "rounded": np.floor
            },
            "the new image has one place more than there are held-out ones": {"places": 0},
            "that is what a p-value promises, which counts the image itself in": chances(np.floor, counted=1),
            "that is the chance to be less dense than all of them: for small alpha only": 1 / (ns + 1),
        },
    )


def padded_matrix(kernel, size):
    """The matrix of a convolution with zeros at the border: a column for each pixel and channel."""
    columns = []
    for lit in np.eye(kernel.shape[1] * size**2).reshape(-1, kernel.shape[1], size, size):
        padded = np.pad(lit, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        columns.append(np.einsum("cijkl,ockl->oij", windows, kernel).ravel())
    return np.stack(columns, axis=1)


def transfer(kernel, size):
    """What the convolution does at each frequency: matrices, shape (size, size, out, in)."""
    return np.fft.fft2(kernel, s=(size, size)).transpose(2, 3, 0, 1)


@question(
    "q3",
    points={"`wrapped_norm`": 3},
    hint="np.fft.fft2(kernel, s=(size, size)): at each frequency a matrix, with singular values.",
    forbids=("ddu.conv_spectral_norm", "ddu.SpectralNormConv2d"),
    read="Further: the norm of a convolution",
)
def a_wrapped_convolution_stretches_by_its_largest_transfer(learner, seed):
    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=(2, 3, 3, 3))
    kernel -= 0.9 * kernel.mean(axis=(2, 3), keepdims=True)  # or a constant image would be stretched most
    size = int(rng.choice([5, 7]))
    at = transfer(kernel, size)
    norms = np.linalg.norm(at, 2, axis=(2, 3))
    nine = np.linalg.norm(transfer(kernel, 3), 2, axis=(2, 3))
    upper = np.linalg.norm(np.abs(kernel).sum(axis=(2, 3)), 2)
    expect_close(
        learner.call("wrapped_norm", kernel, size),
        norms.max(),
        what="the norm",
        mistakes={
            "that is the norm of the reshaped kernel, not of the convolution": np.linalg.norm(
                kernel.reshape(2, -1), 2
            ),
            "that is what happens to constant images: look at all frequencies": norms[0, 0],
            "transform at the size of the image: a 3 × 3 transform knows nine frequencies only": nine.max(),
            "at each frequency the channels make a matrix: its largest singular value, not Frobenius": (
                np.linalg.norm(at, axis=(2, 3)).max()
            ),
            "that is the strongest pair of channels: together they stretch by more": np.abs(at).max(),
            "the largest over the frequencies, not their mean": norms.mean(),
            "that is an upper bound: it lets all weights of a pair work in the same direction": upper,
            "the border is zeros in yours: here the image wraps around": np.linalg.norm(
                padded_matrix(kernel, size), 2
            ),
            "the transform is not to be scaled by the size of the image": norms.max() / size,
            "the square root is missing: that belongs to the matrix times its transpose": norms.max() ** 2,
        },
    )
    large = int(rng.integers(80, 100))  # as a matrix: some 10⁸ entries
    expect_close(
        learner.call("wrapped_norm", kernel, large),
        np.linalg.norm(transfer(kernel, large), 2, axis=(2, 3)).max(),
        what=f"the norm for images of {large} × {large}",
        mistakes={"the size of the image matters: every size has frequencies of its own": norms.max()},
    )


@question(
    "q3",
    points={"`border`": 1},
    hint="Three ones down after three ones across: the norm is the square of that of a band matrix.",
    read="Further: the norm of a convolution",
)
def zero_padding_takes_the_less_the_larger_the_image(learner, seed):
    ns = np.random.default_rng(seed).choice(np.arange(4, 31), size=4, replace=False)
    got = [as_number(learner.call("border", int(n)), "the ratio") for n in ns]

    def ratio(less=0, power=2, wrapped=9):
        return wrapped / (1 + 2 * np.cos(np.pi / (ns + less))) ** power

    expect_close(
        np.array(got),
        ratio,
        rtol=1e-4,
        what="the ratio",
        mistakes={
            "the padded image is one pixel smaller than the one that wraps around": {"less": 1},
            "the ones go across as well as down: both directions lose": {"power": 1, "wrapped": 3},
            "3 is the norm of the reshaped kernel: what does the padded convolution stretch by?": np.full(
                4, 3.0
            ),
            "they are not the same: what the image lacks beyond its border is missing in the sums": np.ones(
                4
            ),
            "the other way round: wrapped over padded": 1 / ratio(),
        },
    )


@question(
    "q4",
    points={"the lower bound": 1, "the upper bound": 1},
    hint="Triangle inequality in both directions for one block; then block after block.",
    read="What shortcuts and caps guarantee",
)
def blocks_have_bounds_in_both_directions(learner, seed):
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(2, 5)) * 2  # even: a negative bound would turn positive
    for c in (float(rng.uniform(0.2, 0.8)), float(rng.uniform(1.3, 2.5))):
        got = expect_parts(learner.call("bounds", c, blocks), ["the lower bound", "the upper bound"])
        with part("the upper bound"):
            expect_close(
                got[1],
                (1 + c) ** blocks,
                what="the upper bound",
                mistakes={
                    "one block only: the bounds multiply from block to block": 1 + c,
                    "the bounds multiply from block to block, they do not add": 1 + c * blocks,
                    "the shortcut is missing: x passes as well": c**blocks,
                },
            )
        with part("the lower bound"):
            expect_close(
                got[0],
                max(0.0, 1 - c) ** blocks,
                what="the lower bound",
                mistakes={
                    "for c above 1 nothing is guaranteed: the bound is 0, whatever the power says": (1 - c)
                    ** blocks,
                    "for c above 1 nothing is guaranteed: the bound is 0, not 1 - c": 1 - c,
                    "one block only: the lower bounds multiply as well": max(0.0, 1 - c),
                    "dividing by the upper bound is no lower bound: 1 - c, not 1 / (1 + c)": (1 + c)
                    ** -blocks,
                },
            )


@question(
    "q5",
    points=2,
    hint="One factor for all layers: 1 as long as the product is below the cap, else a root of c over it.",
    read="What shortcuts and caps guarantee",
)
def a_cap_of_the_product_leaves_small_blocks_alone(learner, seed):
    rng = np.random.default_rng(seed)
    c, layers = float(rng.uniform(1.5, 3)), int(rng.integers(3, 5))
    weights = 3 * rng.normal(size=(layers, 2, 3, 3, 3))
    shares = np.exp(rng.uniform(-0.3, 0.3, size=layers))
    shares[0] = 0.1  # an idle layer, which leaves room for the others
    cases = [shares * (goal / shares.prod()) ** (1 / layers) for goal in (0.3 * c, 4 * c)]
    names = [f"layer {i + 1}" for i in range(layers)]
    got = []
    for norms in cases:
        answer = learner.call("capped", [weight.copy() for weight in weights], norms, c)
        got.append([as_numbers(one, "the weights") for one in expect_parts(answer, names)])
        for weight in got[-1]:
            expect(
                weight.shape == weights[0].shape, f"expected the shapes of the weights, {weights[0].shape}"
            )

    def both(factor):
        return np.stack([weights * np.reshape(factor(norms), (-1, 1, 1, 1, 1)) for norms in cases])

    expect_close(
        np.array(got),
        both(lambda norms: min(1.0, c / norms.prod()) ** (1 / layers)),
        what="the weights",
        mistakes={
            "that forces the product to c: a block below the cap is to be left alone": both(
                lambda norms: (c / norms.prod()) ** (1 / layers)
            ),
            "each layer is at most c in yours: three of them may stretch by the cube of c": both(
                lambda norms: np.minimum(1, c / norms)
            ),
            "an idle layer leaves room for the others: it is the product that is capped": both(
                lambda norms: np.minimum(1, c ** (1 / layers) / norms)
            ),
            "the factor counts once for every layer: take its root": both(
                lambda norms: min(1.0, c / norms.prod())
            ),
            "a square root is for two layers": both(lambda norms: min(1.0, c / norms.prod()) ** 0.5),
            "the cap is c, not 1": both(lambda norms: min(1.0, 1 / norms.prod()) ** (1 / layers)),
            "norms multiply from layer to layer, they do not add": both(
                lambda norms: min(1.0, c / norms.sum())
            ),
            "the other way round: large products are scaled down, small ones left alone": both(
                lambda norms: max(1.0, c / norms.prod()) ** (1 / layers)
            ),
            "the cap did nothing": both(np.ones_like),
        },
    )


@question(
    "q6",
    points={"`verdicts`": 2},
    hint="First: do I know this at all? Only then: is the answer contested?",
    forbids=("ddu.predict",),
    read="Two questions",
)
def strange_comes_before_contested(learner, seed):
    rng = np.random.default_rng(seed)
    entropy = np.concatenate([rng.uniform(0, 1.5, size=30), [0.5, 1.2, 0.1]])
    quantile = np.concatenate([rng.uniform(0, 0.3, size=30), [0.05, 0.01, 0.01]])
    order = rng.permutation(33)
    entropy, quantile = entropy[order], quantile[order]

    def verdicts(strange=quantile < 0.05, contested=entropy > 0.5, first="strange"):
        by_density, by_entropy = np.where(strange, "strange", ""), np.where(contested, "contested", "")
        one, other = (by_density, by_entropy) if first == "strange" else (by_entropy, by_density)
        found = np.where(one != "", one, other)
        return np.where(found != "", found, "clear").tolist()

    expect_words(
        learner.call("verdicts", entropy, quantile, 0.05, 0.5),
        verdicts,
        ("strange", "contested", "clear"),
        what="the verdicts",
        mistakes={
            "where the density is low the entropy means nothing: strange comes before contested": {
                "first": "contested"
            },
            "a low entropy does not make a strange input clear": {
                "strange": (quantile < 0.05) & (entropy > 0.5)
            },
            "below means strictly below: at the threshold an input is familiar": {
                "strange": quantile <= 0.05
            },
            "above means strictly above: at the threshold an answer is clear": {"contested": entropy >= 0.5},
            "a high entropy is not strange: the density decides": {
                "strange": (quantile < 0.05) | (entropy > 0.5)
            },
            "the two are exchanged: the density says what is strange": {
                "strange": entropy > 0.5,
                "contested": quantile < 0.05,
            },
            "the other way round: strange is where few held-out densities are as low": {
                "strange": quantile > 0.05
            },
            "a familiar input with a high entropy is contested": {"contested": entropy > np.inf},
        },
    )


def coin_entropy(labels):
    """The expected entropy, in nats, of the share of heads in so many fair flips."""
    heads = np.arange(labels + 1)
    share = heads / labels
    return binom.pmf(heads, labels, 0.5) @ (entr(share) + entr(1 - share))


@question(
    "q6",
    points={"`disagreement`": 2},
    hint="The average of the shares is the share of all flips together: a binomial number of heads.",
    read="Is it valid, or can I learn from it?",
)
def networks_disagree_about_a_coin_as_long_as_labels_are_few(learner, seed):
    rng = np.random.default_rng(seed)
    cases = [(int(rng.integers(2, 40)), int(rng.integers(2, 7))) for _ in range(4)]
    ns, members = np.transpose(cases)

    def expected(settled=False, minus=1.0, of_all=1.0):
        total = np.log(2) if settled else np.array([coin_entropy(m * n) for n, m in cases])
        return of_all * total - minus * np.array([coin_entropy(n) for n, _ in cases])

    got = [as_number(learner.call("disagreement", *case), "the disagreement") for case in cases]
    expect_close(
        np.array(got),
        expected,
        what="the disagreement",
        mistakes={
            "the average of a few networks is not yet one half: it has an entropy of its own": {
                "settled": True
            },
            "that is the total: subtract the average of the entropies": {"minus": 0.0},
            "that is the average of the entropies: it is what has to be subtracted": {
                "of_all": 0.0,
                "minus": -1.0,
            },
            "nats, not bits": lambda value: value / np.log(2),
            "the other way round: the average prediction has the larger entropy": np.negative,
            "that is the limit for many labels: it was to be exact": (1 - 1 / members) / (2 * ns),
        },
    )


q7 = manual(
    "q7",
    "Three doubts about a detector, and what to measure for each.",
    {
        "a shortcut that is a convolution may shrink to nothing: 1 - c lost its 1; ratios over pairs": 1,
        "chosen and reported on the same letters and digits: others, that had no say": 1,
        "quantiles of what passed climb from night to night: a fixed, unsorted sample, day by day": 1,
    },
)
