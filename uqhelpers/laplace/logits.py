"""From Gaussian logits to probabilities, without sampling."""

import numpy as np
from scipy.special import logsumexp, softmax

from uqhelpers._checks import as_real


def kappa(variance):
    """The factor by which the probit approximation shrinks a logit of the given variance.

    A logistic function averaged over a Gaussian is nearly a logistic function
    again, of the mean times ``(1 + π v / 8)^(-1/2)``.

    Parameters
    ----------
    variance : array
        Variances of logits, at least 0.

    Returns
    -------
    array, float64
        In (0, 1]; 1 where the variance is 0.

    References
    ----------
    MacKay (1992), The evidence framework applied to classification networks,
    eq. 10. Spiegelhalter and Lauritzen (1990).
    """
    variance = as_real(variance, "variance")
    if variance.min() < 0:
        raise ValueError(f"variance: expected values of at least 0, got {variance.min():.4g}")
    return 1 / np.sqrt(1 + np.pi * (variance / 8))  # in this order nothing overflows


def probit(mean, variance):
    """Class probabilities from Gaussian logits, by the extended probit approximation.

    ``softmax(kappa(variance) * mean)``. Exact only where the variance is 0; it
    ignores the covariance between the logits. Unless all variances of a row
    are equal, the result depends on where the logits' zero is: a constant
    added to all of them, which changes no softmax, changes it. See
    :func:`pairwise_probit`.

    Parameters
    ----------
    mean, variance : array, shape (N, C)
        Of the logits.

    Returns
    -------
    array of probabilities, shape (N, C), float64

    References
    ----------
    Gibbs (1997), Bayesian Gaussian processes for regression and
    classification, PhD thesis. Daxberger et al. (2021), appendix B.1.
    """
    mean = as_real(mean, "mean", ndim=2)
    factor = kappa(variance)
    if factor.shape != mean.shape:
        raise ValueError(f"variance: expected shape {mean.shape} like the mean, got {factor.shape}")
    return softmax(factor * mean, axis=1)


def pairwise_probit(mean, covariance):
    """Class probabilities from Gaussian logits, by the probit approximation of their differences.

    Softmax is ``1 / (1 + Σ_k exp(-(m_c - m_k)))``, and of each difference both
    mean and variance, ``v_cc + v_kk - 2 v_ck``, are known:
    ``p_c ∝ 1 / (1 + Σ_k exp(-kappa(variance) * difference))``. A constant added
    to all logits changes nothing, nor does noise that they share. With two
    classes this is MacKay's formula.

    Parameters
    ----------
    mean : array, shape (N, C)
        Of the logits.
    covariance : array, shape (N, C, C)
        Of the logits, symmetric.

    Returns
    -------
    array of probabilities, shape (N, C), float64

    Raises
    ------
    ValueError
        If a difference of logits has a variance clearly below 0.

    References
    ----------
    Lu, Ie and Sha (2020), Mean-field approximation to Gaussian-softmax
    integral with application to uncertainty estimation, section 3 (mf2).
    """
    mean = as_real(mean, "mean", ndim=2)
    covariance = as_real(covariance, "covariance", ndim=3)
    if covariance.shape != (*mean.shape, mean.shape[1]):
        raise ValueError(f"covariance: expected shape {(*mean.shape, mean.shape[1])}, got {covariance.shape}")
    own = np.einsum("ncc->nc", covariance)
    variance = own[:, :, None] + own[:, None, :] - covariance - covariance.swapaxes(1, 2)
    if variance.min() < -1e-6 * max(own.max(), 0):
        raise ValueError("covariance: expected a covariance, got one with a difference of variance below 0")
    behind = kappa(np.maximum(variance, 0)) * (mean[:, None, :] - mean[:, :, None])
    return softmax(-logsumexp(behind, axis=2), axis=1)
