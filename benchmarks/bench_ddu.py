"""The density of features at size: fit and score, beside scikit-learn's mixtures class by class.

In each row ``ratio`` is our time over the baseline's: below 1 we are faster. Both
get the same features, one thread and the same ridge, and the note says how far
their log densities are apart. Another row is the same for scoring; the last
counts the passes of an ensemble against one pass with a density. The limits: a
product of the features with themselves, one with what whitens them for each
class, and the network's pass.
"""

import numpy as np

from benchmarks.limits import Limit, gram, passes, whitened
from benchmarks.timing import row
from uqhelpers import ddu, training

BOUNDS = {"fit": 8.0, "score": 1.2}  # so many times as fast, at least
MEMBERS = 5
GATHERED = "rows are gathered by class, centred and squared, in passes over memory"


def problem(inputs, features, classes):
    """Correlated features around a centre for each class."""
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=inputs)
    mix = np.eye(features) + rng.standard_normal((features, features)) / np.sqrt(features)
    x = rng.standard_normal((inputs, features)) @ mix + rng.standard_normal((classes, features))[labels]
    return x, labels


def mixtures(x, labels, ridge):
    """One of scikit-learn's mixtures of a single component for each class."""
    from sklearn.mixture import GaussianMixture

    return [GaussianMixture(1, reg_covar=ridge).fit(x[labels == k]) for k in range(labels.max() + 1)]


def mixture_log_density(fitted, log_priors, x):
    """Their mixture over the classes, with the same priors as ours."""
    from scipy.special import logsumexp

    return logsumexp(np.stack([model.score_samples(x) for model in fitted], axis=1) + log_priors, axis=1)


def networks(members, side=28, width=24):
    """Untrained networks: what a pass costs does not depend on the weights."""
    nets = []
    for seed in range(members):
        with training.seeded(seed):
            nets.append(ddu.ResidualNet((1, side, side), 10, 3.0, 0.13, 0.31, width=width).eval())
    return nets


def rows(inputs=60_000, features=256, classes=10, images=2_000, repeats=3):
    """Measure everything once, on one thread; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs, features, classes : int
        Size of the problem.
    images : int
        Images of 28 × 28 for the comparison of passes.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``.
    """
    from threadpoolctl import threadpool_limits

    from uqhelpers._torch import torch

    torch.set_num_threads(1)
    x, labels = problem(inputs, features, classes)
    size = f"{inputs:,} x {features} features, {classes} classes, float64, one thread"
    density = ddu.GaussianFeatureDensity()
    with threadpool_limits(1):
        density.fit(x, labels)
        theirs = mixtures(x, labels, density.ridge)
        apart = np.abs(density.log_density(x) - mixture_log_density(theirs, density.log_priors, x)).max()
        same = f"log densities at most {apart:.1g} nats apart"
        table = [
            row(
                "density of features, fit",
                lambda: density.fit(x, labels),
                "scikit-learn, GaussianMixture(1) class by class",
                lambda: mixtures(x, labels, density.ridge),
                repeats,
                f"{size}; {same}; bound {BOUNDS['fit']:g}",
                Limit("one product of the features with themselves", gram(x), why=GATHERED),
            ),
            row(
                "density of features, score",
                lambda: density.log_density(x),
                "scikit-learn, GaussianMixture(1) class by class",
                lambda: mixture_log_density(theirs, density.log_priors, x),
                repeats,
                f"{size}; {same}; bound {BOUNDS['score']:g}",
                Limit(
                    f"{classes} products of the features with what whitens them",
                    whitened(inputs, features),
                    classes,
                    GATHERED,
                ),
            ),
        ]
        nets = networks(MEMBERS)
        pictures = np.random.default_rng(0).random((images, 1, 28, 28), dtype=np.float32)
        seen = training.features(nets[0], pictures)
        own = ddu.GaussianFeatureDensity().fit(seen, np.arange(images) % 10)
        table.append(
            row(
                "probabilities, entropy and density",
                lambda: ddu.predict(nets[0], own, pictures),
                f"passes of {MEMBERS} networks",
                lambda: [training.predict(net, pictures) for net in nets],
                repeats,
                f"{images:,} images of 28 x 28, ddu.ResidualNet of width 24, one thread",
                Limit("one pass of the network", passes(nets[0], pictures)),
            )
        )
    table[0]["apart"] = table[1]["apart"] = float(apart)
    return table
