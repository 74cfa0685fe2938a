"""Dirichlets over class probabilities: what their concentrations say, in closed form and in draws."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, xlogy

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
        ``C / sum(alpha)``: 1 without any evidence, towards 0 with ever more;
        infinite where it exceeds the largest float.
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
        those of at least 1, and above 1 where they lie below; infinite where it
        exceeds the largest float.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), Evidential deep learning to quantify
    classification uncertainty, eq. 1.
    """
    alpha = _as_concentrations(alpha)
    with np.errstate(over="ignore"):
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
    alpha = _as_concentrations(alpha).copy()
    strength = alpha.sum(axis=1, keepdims=True)
    mean = alpha / strength
    total = predictive_entropy(mean)
    terms = digamma(alpha + 1)
    np.subtract(digamma(strength + 1), terms, out=terms)  # in place: the tables are large
    aleatoric = np.multiply(mean, terms, out=terms).sum(axis=1)
    aleatoric = np.clip(aleatoric, 0.0, total)  # rounding alone leaves the range
    with np.errstate(over="ignore"):
        nothing_known = alpha.shape[1] / strength[:, 0]
    return DirichletDecomposition(
        mean=mean,
        total=total,
        aleatoric=aleatoric,
        epistemic=total - aleatoric,
        confidence=mean.max(axis=1),
        alpha=alpha,
        vacuity=nothing_known,
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
        In nats, at least 0; infinite where it exceeds the largest float. For
        nearly equal Dirichlets, however concentrated, it is right to about
        1e-13 nats.

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
    # With B(b, a), by how much log gamma at b lies above its tangent at a, this is the sum of B(b_c, a_c)
    # less B(t, s), s and t the sums. Log gammas of large numbers exceed any divergence: x log(x) - x is taken
    # out of each, and what it gives, t times the divergence of the shares, is a sum of terms, none negative.
    strength, other = alpha.sum(axis=1, keepdims=True), beta.sum(axis=-1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        rise, growth = (beta - alpha) / alpha, other / strength
        whole = (beta - alpha).sum(axis=1, keepdims=True) / strength
        shares = beta / alpha / growth
        parted = (
            alpha
            * growth
            * _above_tangent(shares, np.where(growth > 0.5, (rise - whole) / growth, shares - 1))
        )
        # Of tiny concentrations the tangents have poles, 1 / a and 1 / s, which nearly cancel.
        poles = np.where(alpha < GREAT, rise * (1 - np.where(strength < GREAT, alpha / strength, 0.0)), 0.0)
        smooth = _rest(beta) - _rest(alpha) - (beta - alpha) * _slope(alpha)
        smooth_of_sums = _rest(other) - _rest(strength) - whole * strength * _slope(strength)
        found = parted.sum(axis=1) + poles.sum(axis=1) + smooth.sum(axis=1) - smooth_of_sums.sum(axis=1)
    return np.maximum(np.where(np.isfinite(rise).all(axis=1), found, np.inf), 0.0)


GREAT = 100.0  # from here on Stirling's series is exact to the last digit


def _above_tangent(x, above):
    """``x * log(x) - x + 1``, at least 0; near 1 its series in x - 1, ``above``, which loses no digits."""
    near = np.clip(above, -1e-3, 1e-3)
    series = near**2 * (1 / 2 - near * (1 / 6 - near * (1 / 12 - near * (1 / 20 - near / 30))))
    return np.where(np.abs(above) < 1e-3, series, xlogy(x, x) - x + 1)


def _rest(x):
    """``log(gamma(x)) - x * log(x) + x``."""
    great, small = np.maximum(x, GREAT), np.minimum(x, GREAT)
    series = 0.5 * np.log(2 * np.pi / great) + (1 / 12 - (1 / 360 - 1 / (1260 * great**2)) / great**2) / great
    return np.where(x < GREAT, gammaln(small + 1) - (small + 1) * np.log(small) + small, series)


def _slope(x):
    """The derivative of :func:`_rest`; below ``GREAT`` without its pole, ``-1 / x``."""
    great, small = np.maximum(x, GREAT), np.minimum(x, GREAT)
    series = -(1 / 2 + (1 / 12 - (1 / 120 - 1 / (252 * great**2)) / great**2) / great) / great
    return np.where(x < GREAT, digamma(small + 1) - np.log(small), series)


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
