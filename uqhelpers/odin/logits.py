"""Scores of strangeness from what a classifier puts out."""

import numpy as np
from scipy.special import logsumexp

from uqhelpers._checks import as_number, as_real
from uqhelpers.metrics import from_logits, msp_score

__all__ = ["energy_score", "max_logit_score", "softmax_score"]


def softmax_score(logits, temperature=1.0):
    """Minus the largest softmax probability at a temperature: the baseline, and ODIN without its nudge.

    Parameters
    ----------
    logits : array, shape (N, C)
        What a classifier of at least two classes puts out.
    temperature : float
        By which the logits are divided, above 0. Above 1 it flattens the
        probabilities, and ranks by how far the largest logit stands above the
        *average* of the others rather than above the second largest.

    Returns
    -------
    array, shape (N,), float64
        From -1 (familiar) to -1/C.

    Raises
    ------
    ValueError
        If the temperature is above 1e6, and so high that all probabilities are
        1/C in float64. At lower ones, too, logits tie that differ by less than
        about 1e-15 times the temperature.

    References
    ----------
    Hendrycks and Gimpel (2017), A baseline for detecting misclassified and
    out-of-distribution examples in neural networks; the temperature: Liang, Li
    and Srikant (2018), section 3.
    """
    logits = _as_logits(logits)
    _, behind = _behind(logits, temperature)
    return msp_score(from_logits(behind))


def max_logit_score(logits):
    """Minus the largest logit: the evidence for the winner, whatever the others have.

    Parameters
    ----------
    logits : as in :func:`softmax_score`

    Returns
    -------
    array, shape (N,), float64
        In the units of the logits.

    References
    ----------
    Hendrycks et al. (2022), Scaling out-of-distribution detection for
    real-world settings.
    """
    return -_as_logits(logits).max(axis=1)


def energy_score(logits, temperature=1.0):
    """The free energy of the logits, ``-T log sum exp(logits / T)``.

    Parameters
    ----------
    logits : as in :func:`softmax_score`
    temperature : float
        Above 0. Towards 0 the energy becomes minus the largest logit; at high
        temperatures it ranks by the average logit, up to about 1e13 times the
        spread of the logits, where float64 ends.

    Returns
    -------
    array, shape (N,), float64
        In the units of the logits, at most minus the largest logit.

    Raises
    ------
    ValueError
        If the temperature is so high that the logits are lost beside it, or the
        logits are logarithms of probabilities: their energy at temperature 1 is 0,
        whatever they say.

    References
    ----------
    Liu et al. (2020), Energy-based out-of-distribution detection, eq. 4.
    """
    logits = _as_logits(logits)
    if np.abs(logsumexp(logits, axis=1)).max() < 1e-6:
        raise ValueError(
            "logits: expected logits, got rows whose exponentials sum to 1: are these log probabilities? "
            "What the energy looks at is gone from them"
        )
    temperature, behind = _behind(logits, temperature)
    return -logits.max(axis=1) - temperature * logsumexp(behind, axis=1)


def _behind(logits, temperature):
    """The temperature, and how far each logit is behind its row's largest at it."""
    temperature = as_number(temperature, "temperature", low=0, open_low=True)
    spread = np.ptp(logits)
    reach = 1e-3 * spread / np.finfo(float).eps
    if spread and temperature > max(1e6, reach):
        raise ValueError(
            f"temperature: expected at most {reach:.2g} for logits that differ by up to {spread:.3g}, "
            f"got {temperature:.3g}: all scores would be the same number in float64"
        )
    with np.errstate(over="ignore"):
        behind = (logits - logits.max(axis=1, keepdims=True)) / temperature
    return temperature, np.maximum(behind, -1e4)  # the exponential of which is 0


def _as_logits(logits):
    """A finite float64 matrix with a column a class, which is not one of probabilities."""
    array = as_real(logits, "logits", ndim=2)
    if array.shape[1] < 2:
        raise ValueError(f"logits: expected at least two classes, shape (inputs, classes), got {array.shape}")
    if array.min() >= 0 and np.abs(array.sum(axis=1) - 1).max() < 1e-6:
        raise ValueError("logits: expected logits, got rows that sum to 1: are these probabilities?")
    return array
