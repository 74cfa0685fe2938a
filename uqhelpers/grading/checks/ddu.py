"""Checks of the exercise on deep deterministic uncertainty."""

import numpy as np
from scipy.special import logsumexp

from .._engine import as_numbers, expect, expect_choice, expect_close, expect_parts, manual, question

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
    """Three classes of unequal size and shape, and points near and very far."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2], [40, 15, 6]))
    mix = rng.normal(size=(3, 3, 3)) + 1.5 * np.eye(3)
    centres = 2 * rng.normal(size=(3, 3))
    features = np.einsum("nd,nde->ne", rng.normal(size=(61, 3)), mix[labels]) + centres[labels]
    near = features[:10] + rng.normal(size=(10, 3))
    return features, labels, np.concatenate([near, 1e4 * rng.normal(size=(2, 3))])


@question(
    "q1",
    points=3,
    hint="log p(z) = logsumexp over the classes of (log share + log density of the class's Gaussian).",
    forbids=DENSITY,
)
def the_density_is_a_mixture_with_the_classes_shares(learner, seed):
    features, labels, new = clusters(seed)
    ridge = 0.05
    log_shares = np.log(np.bincount(labels) / len(labels))
    exact = gaussians(features, labels, new, ridge)

    def mixed(parts):
        return logsumexp(parts + log_shares, axis=1)

    got = as_numbers(learner.call("log_density", features, labels, new, ridge), "the log densities")
    expect(got.shape == (len(new),), f"expected one number an input, shape ({len(new)},); got {got.shape}")
    expect(
        np.isfinite(got).all(),
        "far away every density underflows to 0, and its logarithm is lost: stay with logarithms (logsumexp)",
    )
    expect_close(
        got,
        mixed(exact),
        what="the log density",
        hints={
            "the classes' shares are missing: a rare class must weigh less": logsumexp(exact, axis=1),
            "all classes count alike here: weigh each by its share of the labels": logsumexp(exact, axis=1)
            - np.log(3),
            "the maximum over the classes is not their sum": (exact + log_shares).max(axis=1),
            "each class has its own covariance: yours share one": mixed(
                gaussians(features, labels, new, ridge, shared=True)
            ),
            "maximum likelihood divides by n, not by n - 1": mixed(
                gaussians(features, labels, new, ridge, bias=False)
            ),
            "the determinant is missing: a wide Gaussian is a low one": mixed(
                gaussians(features, labels, new, ridge, determinant=False)
            ),
            "the constant (2π)^(D/2) is missing": mixed(
                gaussians(features, labels, new, ridge, constant=False)
            ),
            "the ridge is missing on the diagonal": mixed(gaussians(features, labels, new, 0.0)),
        },
    )


@question(
    "q2",
    points=2,
    hint="The empirical distribution function: the share of held-out values that are at most as high.",
    forbids=("ddu.quantile", *DENSITY),
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
        hints={
            "at most as high: those of the same density count too": below,
            "the other way round: the strangest input has quantile 0": 1 - at_most,
            "the other way round: strange is low": 1 - below,
            "a share, not a count": at_most * len(held_out),
            "the rank among the held-out inputs, not among the new ones": np.mean(
                new[None] <= new[:, None], axis=1
            ),
        },
    )


def convolution_matrix(kernel, size, wrap=False, valid=False):
    """The matrix of a convolution of one channel: a column for each pixel."""
    half = kernel.shape[0] // 2
    columns = []
    for pixel in np.eye(size * size).reshape(-1, size, size):
        padded = np.pad(pixel, half, mode="wrap" if wrap else "constant")
        windows = np.lib.stride_tricks.sliding_window_view(pixel if valid else padded, kernel.shape)
        columns.append(np.einsum("ijkl,kl->ij", windows, kernel).ravel())
    return np.stack(columns, axis=1)


@question(
    "q3",
    points=3,
    hint="Convolve each image with a single lit pixel: the results are the columns of the matrix.",
    forbids=("ddu.conv_spectral_norm", "ddu.SpectralNormConv2d"),
)
def a_convolution_stretches_by_its_largest_singular_value(learner, seed):
    rng = np.random.default_rng(seed)
    kernel, size = rng.normal(size=(3, 3)) + 0.5, int(rng.integers(6, 9))
    matrix = convolution_matrix(kernel, size)
    expect_close(
        learner.call("conv_norm", kernel, size),
        np.linalg.norm(matrix, 2),
        rtol=1e-5,
        what="the norm",
        hints={
            "that is the norm of the reshaped kernel, not of the convolution": np.linalg.norm(kernel),
            "that is the kernel's own largest singular value": np.linalg.norm(kernel, 2),
            "the sum of the kernel's absolute values is an upper bound, not the norm": np.abs(kernel).sum(),
            "the Frobenius norm adds all directions: the largest singular value is one": np.linalg.norm(
                matrix
            ),
            "eigenvalues are not singular values: the matrix is not symmetric": np.abs(
                np.linalg.eigvals(matrix)
            ).max(),
            "the border wraps around in yours: pad with zeros": np.linalg.norm(
                convolution_matrix(kernel, size, wrap=True), 2
            ),
            "without padding the image shrinks: pad with zeros": np.linalg.norm(
                convolution_matrix(kernel, size, valid=True), 2
            ),
            "the square root is missing: that belongs to the matrix times its transpose": np.linalg.norm(
                matrix, 2
            )
            ** 2,
        },
    )


@question(
    "q4",
    points=2,
    hint="Triangle inequality in both directions for one block; then block after block.",
)
def blocks_have_bounds_in_both_directions(learner, seed):
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(2, 5)) * 2  # even: a negative bound would turn positive
    for c in (float(rng.uniform(0.2, 0.8)), float(rng.uniform(1.3, 2.5))):
        got = expect_parts(learner.call("bounds", c, blocks), ["the lower bound", "the upper bound"])
        expect_close(
            got[1],
            (1 + c) ** blocks,
            what="the upper bound",
            hints={
                "one block only: the bounds multiply from block to block": 1 + c,
                "the bounds multiply from block to block, they do not add": 1 + c * blocks,
                "the shortcut is missing: x passes as well": c**blocks,
            },
        )
        expect_close(
            got[0],
            max(0.0, 1 - c) ** blocks,
            what="the lower bound",
            hints={
                "for c above 1 nothing is guaranteed: the bound is 0, whatever the power says": (1 - c)
                ** blocks,
                "for c above 1 nothing is guaranteed: the bound is 0, not 1 - c": 1 - c,
                "one block only: the lower bounds multiply as well": max(0.0, 1 - c),
                "dividing by the upper bound is no lower bound: 1 - c, not 1 / (1 + c)": (1 + c) ** -blocks,
            },
        )


@question("q5", points=2, hint="Divide by a number that is 1 as long as the norm is below the cap.")
def a_cap_leaves_small_weights_alone(learner, seed):
    rng = np.random.default_rng(seed)
    c = float(rng.uniform(1.5, 3))
    weight = 3 * rng.normal(size=(2, 3, 3, 3))
    norms = 0.3 * c, 4 * c  # below and above the cap
    got = [as_numbers(learner.call("capped", weight, norm, c), "the weights") for norm in norms]
    expect(
        all(part.shape == weight.shape for part in got), f"expected the shape of the weights, {weight.shape}"
    )

    def both(scaled):
        return np.stack([scaled(norm) for norm in norms])

    expect_close(
        np.stack(got),
        both(lambda norm: weight / max(1.0, norm / c)),
        what="the weights",
        hints={
            "that forces the norm to c: weights below the cap are to be left alone": both(
                lambda norm: weight * c / norm
            ),
            "that forces the norm to 1": both(lambda norm: weight / norm),
            "the cap is c, not 1": both(lambda norm: weight / max(1.0, norm)),
            "the other way round: large norms are scaled down, small ones left alone": both(
                lambda norm: weight / min(1.0, norm / c)
            ),
            "it is the norm that is capped, not each weight": both(lambda norm: np.clip(weight, -c, c)),
            "the cap did nothing": both(lambda norm: weight),
        },
    )


@question(
    "q6",
    points=2,
    hint="First: do I know this at all? Only then: is the answer contested?",
    forbids=("ddu.predict",),
)
def strange_comes_before_contested(learner, seed):
    rng = np.random.default_rng(seed)
    entropy = np.concatenate([rng.uniform(0, 1.5, size=30), [0.5, 1.2, 0.1]])
    quantile = np.concatenate([rng.uniform(0, 0.3, size=30), [0.05, 0.01, 0.01]])
    got = learner.call("verdicts", entropy, quantile, 0.05, 0.5)
    try:
        got = [str(word) for word in got]
    except TypeError:
        got = []
    expect(len(got) == 33, "expected a list of words, one an input")
    for h, q, word in zip(entropy, quantile, got, strict=True):
        expect(
            word in ("strange", "contested", "clear"),
            f'expected "strange", "contested" or "clear", got {word!r}',
        )
        if q < 0.05:
            expect(
                word != "contested",
                "where the density is low the entropy means nothing: strange comes before contested",
            )
            expect(word != "clear", "a low entropy does not make a strange input clear")
        elif h > 0.5:
            expect(
                word != "strange",
                "a high entropy is not strange: the density decides, and below means strictly below",
            )
            expect(word != "clear", "a familiar input with a high entropy is contested")
        else:
            expect(word == "clear", "familiar, and an entropy that is not above the threshold: clear")


@question("q6", points=1, hint="Which quantity is about the parameters, and not about the inputs?")
def a_density_does_not_know_what_could_be_learned(learner, seed):
    expect_choice(
        learner.value("ask_for"),
        "disagreement",
        {
            "density": "the strangest images of a pool are its rubbish: strange is not informative",
            "entropy": "the highest entropies are coin flips: their labels teach nothing",
        },
        what="`ask_for`",
    )


q7 = manual(
    "q7",
    "Three doubts about a density of features, and what to measure for each.",
    {
        "collapse: without shortcuts there is no lower bound; look at neighbours in feature space": 1,
        "the reshaped norm is not that of the convolution, or a cap alone guarantees no sensitivity": 1,
        "the quantile comes from training features, so new inputs look strange: use held-out ones": 1,
    },
)
