"""Dirichlets over class probabilities: what their concentrations say, in closed form and in draws."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from uqhelpers._checks import as_generator, as_real, as_whole
from uqhelpers.metrics import Decomposition, predictive_entropy

__all__ = ["DirichletDecomposition", "decompose", "dirichlet_kl", "sample", "vacuity"]


@dataclass(frozen=True, eq=False)
class DirichletDecomposition(Decomposition):
    """Total uncertainty under a Dirichlet over class probabilities, and its two parts in closed form.

    Attributes
    ----------
    mean : array, shape (N, C)
        Mean of the Dirichlet, ``alpha / sum(alpha)``: the predicted probabilities.
    total : array, shape (N,)
        Entropy of the mean, in nats, from 0 to ``log C``.
    aleatoric : array, shape (N,)
        Expected entropy of a draw, in nats.
    epistemic : array, shape (N,)
        Mutual information of label and draw, in nats: ``total - aleatoric``.
    confidence : array, shape (N,)
        Largest entry of the mean.
    alpha : array, shape (N, C)
        The concentrations.
    vacuity : array, shape (N,)
        ``C / sum(alpha)``: 1 without any evidence, towards 0 with ever more.
    """

    alpha: np.ndarray
    vacuity: np.ndarray


def vacuity(alpha):
    """How little evidence there is: the number of classes over the sum of the concentrations.

    Parameters
    ----------
    alpha : array, shape (N, C)
        Concentrations of Dirichlets, above 0.

    Returns
    -------
    array, shape (N,), float64
        1 for the uniform Dirichlet, whose concentrations are 1; in (0, 1] for
        those of at least 1, and above 1 where they lie below.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), Evidential deep learning to quantify
    classification uncertainty, eq. 1.
    """
    alpha = _as_concentrations(alpha)
    return alpha.shape[1] / alpha.sum(axis=1)


def decompose(alpha):
    """Total, aleatoric and epistemic uncertainty of Dirichlets, in closed form.

    The expected entropy of a draw is ``digamma(s + 1) - sum(mean * digamma(alpha + 1))``
    with ``s = sum(alpha)``; no draws are needed.

    Parameters
    ----------
    alpha : array, shape (N, C)
        Concentrations, above 0.

    Returns
    -------
    DirichletDecomposition
        With ``mean``, ``total``, ``aleatoric``, ``epistemic``, ``confidence``,
        ``alpha`` and ``vacuity``; entropies in nats.

    References
    ----------
    Malinin and Gales (2018), Predictive uncertainty estimation via prior
    networks, section 3.
    """
    alpha = _as_concentrations(alpha)
    strength = alpha.sum(axis=1, keepdims=True)
    mean = alpha / strength
    total = predictive_entropy(mean)
    aleatoric = (mean * (digamma(strength + 1) - digamma(alpha + 1))).sum(axis=1)
    aleatoric = np.clip(aleatoric, 0.0, total)  # rounding alone leaves the range
    return DirichletDecomposition(
        mean=mean,
        total=total,
        aleatoric=aleatoric,
        epistemic=total - aleatoric,
        confidence=mean.max(axis=1),
        alpha=alpha,
        vacuity=alpha.shape[1] / strength[:, 0],
    )


def sample(alpha, samples=100, seed=0):
    """Class probabilities drawn from Dirichlets, as sampled models would give them.

    Parameters
    ----------
    alpha : array, shape (N, C)
        Concentrations, above 0.
    samples : int
        Draws for each input, ``S``.
    seed : int or numpy.random.Generator

    Returns
    -------
    array, shape (S, N, C), float64
        Probabilities. Draws of different inputs are independent: unlike
        sampled networks, they are no joint samples.
    """
    alpha = _as_concentrations(alpha)
    rng = as_generator(seed)
    shape = (as_whole(samples, "samples"), *alpha.shape)
    # A gamma of concentration a is one of a + 1 times a uniform to the power 1 / a. In logarithms that
    # holds where small concentrations would leave nothing but zeros to divide by; the greatest of the
    # logarithms is taken away before the least concentration divides, which may overflow.
    least = alpha.min(axis=1, keepdims=True)
    logs, powers = np.log(rng.standard_gamma(alpha + 1, size=shape)), np.log1p(-rng.random(shape))
    powers *= least / alpha
    with np.errstate(over="ignore"):
        logs += (powers - powers.max(axis=-1, keepdims=True)) / least
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def dirichlet_kl(alpha, beta=None):
    """Kullback–Leibler divergence between Dirichlets, KL(Dir(alpha) || Dir(beta)).

    Parameters
    ----------
    alpha : array, shape (N, C)
        Concentrations, above 0.
    beta : array, shape (N, C) or (C,), optional
        Those of the other; by default all 1, the uniform distribution.

    Returns
    -------
    array, shape (N,), float64
        In nats, at least 0; infinite where it exceeds the largest float.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), section 4, for the uniform one.
    """
    alpha = _as_concentrations(alpha)
    beta = np.ones(alpha.shape[1]) if beta is None else as_real(beta, "beta")
    if beta.shape not in (alpha.shape, alpha.shape[1:]):
        raise ValueError(f"beta: expected the shape {alpha.shape} or {alpha.shape[1:]}, got {beta.shape}")
    if beta.min() <= 0:
        raise ValueError(f"beta: expected concentrations above 0, got {beta.min():.4g}")
    strength = alpha.sum(axis=1, keepdims=True)
    normalisers = _log_gamma(strength)[:, 0] - _log_gamma(beta.sum(axis=-1))
    normalisers = normalisers + (_log_gamma(beta) - _log_gamma(alpha)).sum(axis=1)
    # The mean of log p_c is digamma(a) - digamma(s). Of tiny concentrations both are infinite; written
    # with digamma(a) = digamma(a + 1) - 1 / a, only what is too large for a float overflows.
    with np.errstate(over="ignore"):
        poles = ((1 - beta / alpha) * ((strength - alpha) / strength)).sum(axis=1)
    moments = ((alpha - beta) * (digamma(alpha + 1) - digamma(strength + 1))).sum(axis=1)
    return np.maximum(normalisers + moments - poles, 0.0)


def _log_gamma(x):
    """``log(gamma(x))``, finite for the tiniest numbers too."""
    return gammaln(x + 1) - np.log(x)


def _as_concentrations(alpha):
    alpha = as_real(alpha, "alpha", ndim=2)
    if alpha.shape[1] < 2:
        raise ValueError(f"alpha: expected at least two classes, shape (inputs, classes), got {alpha.shape}")
    if alpha.min() <= 0:
        raise ValueError(f"alpha: expected concentrations above 0, got {alpha.min():.4g}: are these logits?")
    with np.errstate(over="ignore"):
        if not np.isfinite(alpha.sum(axis=1)).all():
            raise ValueError(
                f"alpha: expected concentrations whose sum is finite, got numbers up to {alpha.max():.4g}"
            )
    return alpha
