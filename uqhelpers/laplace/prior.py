"""The prior's precision, and in a regression the noise, chosen by evidence or by held-out data."""

import warnings

import numpy as np

from uqhelpers.laplace.logits import kappa


def most_probable(curvature, weights, noise_std=None, misfit=None, count=None):
    """α and σ at the maximum of the marginal likelihood, the weights kept.

    Parameters
    ----------
    curvature : array
        Eigenvalues, at least 0 and not all 0, of the curvature: in a regression of one output's at
        σ = 1.
    weights : array, shape (K, D)
        Not all 0.
    noise_std : float, optional
        In a regression, σ.
    misfit, count : float, int
        In a regression whose σ is to be chosen: sum of squares, and the number of inputs.
    """
    copies = 1 if noise_std is None else len(weights)
    size, sigma = (weights**2).sum(), 1.0 if noise_std is None else noise_std
    for _ in range(1000):
        alpha = _balance(curvature / sigma**2, size / copies)
        if misfit is None:
            break
        effective = copies * (curvature / (curvature + alpha * sigma**2)).sum()
        left = count * copies - effective
        before, sigma = sigma, np.sqrt(misfit / left) if left > 0 else 0.0
        if sigma == 0:
            raise ValueError("targets: expected some that the network misses, to choose the noise by")
        if abs(np.log(sigma / before)) < 1e-12:
            break
    return alpha, sigma


def best_of(candidates, scores):
    """The candidate of the highest score; a warning if it is the last one at either end."""
    best = float(candidates[scores.argmax()])
    ends = {"smallest": float(candidates.min()), "largest": float(candidates.max())}
    for end, value in ends.items():
        if best == value and ends["smallest"] < ends["largest"]:
            warnings.warn(
                f"prior_precision: the best of the candidates, {best:.4g}, is the {end}: "
                "held-out data would perhaps take one beyond it",
                RuntimeWarning,
                stacklevel=3,
            )
    return best


def gaussian_scores(features, mean, targets, eigen, candidates, noise_std):
    """Log likelihood of targets for each candidate α, in a regression, shape (candidates,)."""
    values, vectors = eigen
    # Var = Σ (projection on an eigenvector)² / (eigenvalue + α): one decomposition serves every α.
    inverse = 1 / (values[:, None] / noise_std**2 + candidates)
    total = ((features @ vectors) ** 2 @ inverse)[:, None] + noise_std**2
    misses = ((mean - targets) ** 2)[:, :, None]
    return -0.5 * (np.log(2 * np.pi * total) + misses / total).sum(axis=(0, 1))


def softmax_scores(features, mean, labels, eigen, candidates):
    """Log likelihood of labels for each candidate α, by the probit formula, shape (candidates,)."""
    values, vectors = eigen
    inverse = 1 / (values[:, None] + candidates)
    blocks = vectors.reshape(mean.shape[1], features.shape[1], -1)
    variance = np.stack([(features @ block) ** 2 @ inverse for block in blocks], axis=1)
    scaled = kappa(np.maximum(variance, 0)) * mean[:, :, None]
    given = np.take_along_axis(scaled, labels[:, None, None], axis=1)[:, 0]
    return (given - np.logaddexp.reduce(scaled, axis=1)).sum(axis=0)


def _balance(curvature, size):
    """The one α at which Σ λ / (λ + α) = α · size: the left side falls in α and the right side rises."""
    from scipy.optimize import brentq

    positive = curvature[curvature > curvature.max() * 1e-14]
    excess = lambda log: np.log((positive / (positive + np.exp(log))).sum()) - log - np.log(size)  # noqa: E731
    high = np.log(len(positive) / size) + 1  # the left side is below the number of its terms
    low = high - 2
    while excess(low) < 0:
        low -= 5
    return float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))
