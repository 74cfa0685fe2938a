"""Other losses than a miss, kept below a level: on average, or with a stated confidence."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_choice, as_number, as_own_real

__all__ = ["RiskControl", "control_risk"]

EQUAL, DELTA = 1e-12, 0.1


@dataclass(frozen=True, eq=False)
class RiskControl:
    """Which settings keep a risk below a level.

    Parameters
    ----------
    index : int or None
        The first setting that is safe, with all that follow it; None if not even
        the last is.
    risks : array, shape (L,)
        Mean calibration loss of each setting.
    evidence : array, shape (L,)
        What was compared: with ``"crc"`` the inflated risk (safe: at most alpha),
        with ``"ltt"`` the p-value of "the risk is above alpha" (safe: at most
        delta).
    """

    index: int | None
    risks: np.ndarray
    evidence: np.ndarray


def control_risk(losses, alpha, method="crc", delta=DELTA, bound=1.0):
    """The boldest of ordered settings whose risk stays at most alpha.

    Parameters
    ----------
    losses : array, shape (n, L)
        Loss of each calibration input under each of L settings, in [0, bound],
        the settings in order from bold to safe.
    alpha : float
        Accepted risk, in (0, bound].
    method : str
        ``"crc"``: conformal risk control. The *expected* loss of the next input,
        over calibration sets too, is at most alpha; asks for losses that do not
        rise from one setting to the next. ``"ltt"``: learn then test. The risk of
        the chosen setting is at most alpha with probability 1 - delta over
        calibration sets; settings are tested from the safe end until one fails,
        and losses may rise and fall.
    delta : float
        With ``"ltt"`` alone: accepted chance of a bad calibration set, in (0, 1].
    bound : float
        What no loss exceeds.

    Returns
    -------
    RiskControl

    Raises
    ------
    ValueError
        If losses leave [0, bound] or, with ``"crc"``, rise along the settings.

    References
    ----------
    Angelopoulos et al. (2024), Conformal risk control, theorem 1; Angelopoulos
    et al. (2025), Learn then test, with the Hoeffding-Bentkus p-value of Bates
    et al. (2021); where all losses are 0 or ``bound``, the binomial tail.
    """
    losses = as_own_real(losses, "losses", ndim=2)
    bound = as_number(bound, "bound", low=0, open_low=True)
    alpha = as_number(alpha, "alpha", low=0, high=bound, open_low=True)
    as_choice(method, "method", ("crc", "ltt"))
    # The bound .1 in float32 lies above .1: losses that reach it are brought to it.
    most = losses.dtype.type(bound) if bound <= np.finfo(losses.dtype).max else np.inf
    losses = np.where(losses == most, bound, losses.astype(np.float64))
    if losses.min() < 0 or losses.max() > bound:
        raise ValueError(
            f"losses: expected values in [0, {bound:g}], got {losses.min():.4g} to {losses.max():.4g}"
        )
    risks, n = losses.mean(axis=0), len(losses)
    if method == "crc":
        if losses.shape[1] > 1 and np.diff(losses, axis=1).max() > 0:
            raise ValueError("losses: expected not to rise from one setting to the next, got some that do")
        evidence = (losses.sum(axis=0) + bound) / (n + 1)
        safe = evidence <= alpha * (1 + EQUAL)
        if delta != DELTA:
            raise ValueError(f'delta: has no effect on the method "crc", got {delta}')
    else:
        delta = as_number(delta, "delta", low=0, high=1, open_low=True)
        evidence = _p_values(losses / bound, risks / bound, alpha / bound)
        safe = evidence <= delta
    unsafe = np.flatnonzero(~safe)
    first = int(unsafe[-1]) + 1 if len(unsafe) else 0
    return RiskControl(first if first < len(safe) else None, risks, evidence)


def _p_values(losses, risks, alpha):
    """Of "the risk is above alpha", for each column of losses in [0, 1]."""
    from scipy.stats import binom

    n = len(losses)
    if np.isin(losses, (0, 1)).all():
        return binom.cdf(np.round(losses.sum(axis=0)), n, alpha)
    low = np.minimum(risks, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(low > 0, low * np.log(low / alpha), 0.0)
        rest = np.where(low < 1, (1 - low) * np.log((1 - low) / (1 - alpha)), 0.0)
    hoeffding = np.exp(-n * (gain + np.where(low >= alpha, -gain, rest)))
    bentkus = np.e * binom.cdf(np.ceil(n * risks - 1e-9), n, alpha)
    return np.minimum(np.minimum(hoeffding, bentkus), 1.0)
