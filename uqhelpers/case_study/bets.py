"""Ranks along a stream, and bets against their being uniform.

While nothing changes, the rank of each new score among all scores so far is
uniform, and independent of the ranks before. A *bet* is a density on [0, 1],
large where a change would put the ranks.
"""

import bisect

import numpy as np
from scipy.special import expit, logit

from uqhelpers import conformal
from uqhelpers._checks import as_flags, as_generator, as_number, as_real, as_scores

__all__ = [
    "Ranks",
    "gap_bets",
    "mirrored",
    "miss_bet",
    "miss_chances",
    "online_p_values",
    "power_bet",
    "tilt_bet",
]


def online_p_values(past, stream, seed):
    """The rank of each new score among all scores up to it, as a number in (0, 1].

    If the scores are exchangeable (``past`` and ``stream`` together), these are
    independent and uniform: exactly, whatever the law of the scores and the model.
    With ranks among ``past`` alone they would be uniform, and not independent.

    Parameters
    ----------
    past : array, shape (n,)
        Scores to begin with, of cases that nothing was fitted to.
    stream : array, shape (T,)
        Scores in the order in which they become known.
    seed : int or numpy.random.Generator
        Places a score at random among those it ties with, itself included.

    Returns
    -------
    array, shape (T,), float64
        Small for scores that are high among those before.

    References
    ----------
    Vovk, Nouretdinov and Gammerman (2003), Testing exchangeability on-line;
    Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world,
    theorem 8.2.
    """
    ranks = Ranks(past, seed)
    return np.array([ranks.add(score) for score in as_scores(stream, "stream").tolist()])


class Ranks:
    """The same, one score at a time.

    Parameters
    ----------
    past : array, shape (n,)
        Scores to begin with.
    seed : int or numpy.random.Generator
        Of the places among ties.
    """

    def __init__(self, past, seed):
        self._known = np.sort(as_scores(past, "past")).tolist()
        self._rng = as_generator(seed)

    def add(self, score):
        """Take in a score, and return its rank among all so far as a number in (0, 1]."""
        score = float(as_scores([score], "score")[0])
        known = self._known
        low, high = bisect.bisect_left(known, score), bisect.bisect_right(known, score)
        rank = len(known) - high + (1 - self._rng.random()) * (high - low + 1)
        known.insert(high, score)
        return rank / len(known)


def as_ranks(p):
    p = as_real(p, "p")
    if p.min() < 0 or p.max() > 1:
        raise ValueError(f"p: expected ranks in [0, 1], got {p.min():.4g} to {p.max():.4g}")
    return p


def power_bet(power=0.5):
    """A bet that scores have risen: ``power * p ** (power - 1)``.

    Parameters
    ----------
    power : float
        Above 0 and at most 1; the smaller, the more is set on the smallest ranks.

    Returns
    -------
    callable
        From ranks to factors of the stake.
    """
    power = as_number(power, "power", low=0, high=1, open_low=True)
    return lambda p: power * np.maximum(as_ranks(p), 1e-12) ** (power - 1)


def miss_bet(alpha, factor=2.0):
    """A bet that sets which should miss a share ``alpha`` miss ``factor`` times as many.

    Parameters
    ----------
    alpha : float
        Promised rate of misses, above 0 and below 1: ranks of at most ``alpha`` are misses.
    factor : float
        Above 0; ``alpha * factor`` is below 1.

    Returns
    -------
    callable
        From ranks to ``factor`` for a miss, ``(1 - alpha factor) / (1 - alpha)`` for the others.
    """
    alpha = as_number(alpha, "alpha", low=0, high=1, open_low=True)
    factor = as_number(factor, "factor", low=0, open_low=True)
    if alpha >= 1 or alpha * factor >= 1:
        raise ValueError(f"factor: expected alpha * factor below 1, got {alpha} * {factor}")
    return lambda p: np.where(as_ranks(p) <= alpha, factor, (1 - alpha * factor) / (1 - alpha))


def tilt_bet(tilt=0.6):
    """A bet that scores have risen a little everywhere: ``1 + tilt * (1 - 2 p)``.

    Parameters
    ----------
    tilt : float
        Above 0 and at most 1.

    Returns
    -------
    callable
        From ranks to factors of the stake.
    """
    tilt = as_number(tilt, "tilt", low=0, high=1, open_low=True)
    return lambda p: 1 + tilt * (1 - 2 * as_ranks(p))


def mirrored(bet):
    """The same bet on scores that have fallen: on ranks from the other end.

    Parameters
    ----------
    bet : callable
        From ranks to factors, such as ``miss_bet(0.1)``.

    Returns
    -------
    callable
        ``bet`` of one minus the ranks.
    """
    return lambda p: bet(1 - as_ranks(p))


def gap_bets(labels, probs, tilt=1.0):
    """Factors of a stake on probabilities being too low or too high, half on each.

    Another question than whether something has *changed*: each factor has mean 1
    if the event has the probability that was said, and, unless that is ½, only
    then. At ½ the two halves cancel: the factor is 1 whatever comes, so the bet is
    blind there, and nearly blind close by.

    Parameters
    ----------
    labels : array of bool, shape (T,)
        Whether the event came.
    probs : array, shape (T,)
        The probability that was said before, strictly between 0 and 1.
    tilt : float
        The shift of the logit that is bet on, in both directions; above 0.

    Returns
    -------
    array, shape (T,), float64
        Likelihood ratios, to be multiplied up by ``wealth`` or ``cusum``.
    """
    probs = as_real(probs, "probs", ndim=1)
    if probs.min() <= 0 or probs.max() >= 1:
        raise ValueError(
            f"probs: expected numbers strictly between 0 and 1, got {probs.min():.4g} to {probs.max():.4g}"
        )
    labels = as_flags(labels, "labels", length=len(probs))
    tilt = as_number(tilt, "tilt", low=0, open_low=True)

    def ratio(shift):
        other = expit(logit(probs) + shift)
        return np.where(labels, other / probs, (1 - other) / (1 - probs))

    return (ratio(tilt) + ratio(-tilt)) / 2


def miss_chances(n, alpha, misses):
    """The chance of each miss of a *fixed* conformal threshold, given the misses before it.

    With one calibration set kept for good, misses are no coins with rate alpha:
    the first misses tell that this set was an unlucky one. For continuous
    exchangeable scores they are an urn: ``n + 1 - k`` balls of ``n + 1`` are
    misses, k = ``conformal.rank(n, alpha)``, and each draw adds a ball of its kind.

    Parameters
    ----------
    n : int
        Calibration cases.
    alpha : float
        Accepted rate of misses; the rank must be among 1 to n.
    misses : array of bool, shape (T,)
        In order.

    Returns
    -------
    array, shape (T,), float64
    """
    k = conformal.coverage_law(n, alpha).k
    misses = as_flags(misses, "misses")
    before = np.concatenate([[0], np.cumsum(misses)[:-1]])
    return (n + 1 - k + before) / (n + 1 + np.arange(len(misses)))
