"""Alarms over a stream that ring in quiet years at most as often as they say.

While nothing changes, the rank of each new score among all scores so far is
uniform, and independent of the ranks before. An alarm bets against that: a *bet*
is a density on [0, 1], large where a change would put the ranks. What the bets
have won says how much has changed.
"""

import bisect
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from uqhelpers import conformal
from uqhelpers._checks import (
    as_choice,
    as_flags,
    as_generator,
    as_number,
    as_real,
    as_scores,
    as_whole,
)

__all__ = [
    "STATISTICS",
    "Alarm",
    "Ranks",
    "Watch",
    "cusum",
    "gap_bets",
    "mirrored",
    "miss_bet",
    "miss_chances",
    "online_p_values",
    "power_bet",
    "quiet_limit",
    "restarts",
    "tilt_bet",
    "wealth",
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
        if score != score:
            raise ValueError("score: expected a number that can be ranked, got NaN")
        known = self._known
        low, high = bisect.bisect_left(known, score), bisect.bisect_right(known, score)
        rank = len(known) - high + (1 - self._rng.random()) * (high - low + 1)
        known.insert(high, score)
        return rank / len(known)


# --- bets -------------------------------------------------------------------------------------------------


def _as_p_values(p):
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
    return lambda p: power * np.maximum(_as_p_values(p), 1e-12) ** (power - 1)


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
    return lambda p: np.where(_as_p_values(p) <= alpha, factor, (1 - alpha * factor) / (1 - alpha))


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
    return lambda p: 1 + tilt * (1 - 2 * _as_p_values(p))


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
    return lambda p: bet(1 - _as_p_values(p))


def gap_bets(labels, probs, tilt=1.0):
    """Factors of a stake on probabilities being too low or too high, half on each.

    Another question than whether something has *changed*: each factor has mean 1
    if the event has the probability that was said, and only then.

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


# --- what the bets have won -------------------------------------------------------------------------------


def _logs(factors):
    factors = as_real(factors, "factors")
    if factors.ndim == 0 or factors.min() < 0:
        raise ValueError("factors: expected numbers of at least 0, one for each step on the last axis")
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(factors), -700.0)  # a stake that is lost stays a number


def wealth(factors):
    """The logarithm of a stake of 1 that is bet again and again.

    While nothing changes it reaches ``log(1 / rate)`` with probability at most
    ``rate``, ever (Ville's inequality).

    Parameters
    ----------
    factors : array, shape (..., T)
        What each bet multiplies the stake with.

    Returns
    -------
    array, shape (..., T), float64

    References
    ----------
    Ville (1939), Étude critique de la notion de collectif.
    """
    return np.cumsum(_logs(factors), axis=-1)


def cusum(factors):
    """What the best start so far would have won: as ``wealth``, but never below 0.

    Parameters
    ----------
    factors : array, shape (..., T)
        What each bet multiplies the stake with.

    Returns
    -------
    array, shape (..., T), float64

    References
    ----------
    Page (1954), Continuous inspection schemes.
    """
    total = wealth(factors)
    return total - np.minimum(np.minimum.accumulate(total, axis=-1), 0)


def restarts(factors):
    """The logarithm of the sum over all starts: every step puts in a new stake of 1.

    While nothing changes its exponential has mean t after t steps, so within T
    steps it reaches ``log(T / rate)`` with probability at most ``rate``, and the
    mean time until it does is at least ``T / rate``.

    Parameters
    ----------
    factors : array, shape (..., T)
        What each bet multiplies the stake with.

    Returns
    -------
    array, shape (..., T), float64

    References
    ----------
    Roberts (1966), A comparison of some control chart procedures; Shin, Ramdas
    and Rinaldo (2024), E-detectors.
    """
    total = wealth(factors)
    starts = np.concatenate([np.zeros_like(total[..., :1]), -total[..., :-1]], axis=-1)
    return total + np.logaddexp.accumulate(starts, axis=-1)


STATISTICS = {"cusum": cusum, "wealth": wealth, "restarts": restarts}


@dataclass(frozen=True, eq=False)
class Watch:
    """What an alarm has seen.

    Attributes
    ----------
    values : array, shape (..., T)
        What the bets have won, as a logarithm.
    limit : float
        The alarm rings where ``values`` reaches it.
    rings : array, shape (...)
        The first step at which it rings, counted from 0; infinite if it does not.
    """

    values: np.ndarray
    limit: float

    @property
    def rings(self):
        over = self.values >= self.limit
        return np.where(over.any(axis=-1), over.argmax(axis=-1), np.inf)

    @property
    def since(self):
        """The start that the bets blame: the step after the lowest point before the alarm or the end."""
        steps = np.arange(self.values.shape[-1])
        last = np.minimum(self.rings, len(steps) - 1)[..., None]
        before = np.where(steps <= last, self.values, np.inf)
        lowest = before.shape[-1] - 1 - before[..., ::-1].argmin(axis=-1)
        low = np.take_along_axis(before, lowest[..., None], axis=-1)[..., 0]
        return np.where(low > 0, 0, np.minimum(lowest + 1, last[..., 0])).astype(int)


def quiet_limit(statistic, rate=0.05, horizon=500, years=2000, seed=0):
    """A limit for any statistic of uniform ranks, by simulation of quiet years.

    The conformal quantile of the largest values in simulated quiet years: the
    next quiet year is one more of them, so that it exceeds the limit with
    probability at most ``rate``, the chance of the simulation included.

    Parameters
    ----------
    statistic : callable
        From ranks, shape (years, T), to values of the same shape.
    rate : float
        The largest chance that a quiet year exceeds the limit, above 0 and below 1.
    horizon : int
        Steps a year.
    years : int
        Simulated quiet years.
    seed : int or numpy.random.Generator
        Of the simulation.

    Returns
    -------
    float
        A year rings that *exceeds* it.

    Raises
    ------
    ValueError
        If so few years cannot show so small a rate.
    """
    rate, horizon = _as_rate(rate), as_whole(horizon, "horizon")
    years = as_whole(years, "years")
    if conformal.rank(years, rate) > years:
        raise ValueError(f"years: expected enough to see a rate of {rate}, got {years}")
    rng, largest = as_generator(seed), []
    block = max(1, 1_000_000 // horizon)
    for start in range(0, years, block):
        quiet = 1 - rng.random((min(block, years - start), horizon))
        largest.append(np.max(statistic(quiet), axis=-1))
    return conformal.quantile(np.concatenate(largest), rate)


def _as_rate(rate):
    rate = as_number(rate, "rate", low=0, high=1, open_low=True)
    if rate == 1:
        raise ValueError("rate: expected a number below 1, got 1.0")
    return rate


class Alarm:
    """An alarm over ranks that are uniform while nothing changes, with a stated rate of false alarms.

    Parameters
    ----------
    bets : callable or list of callable
        From ranks in [0, 1] to factors: densities on [0, 1], such as ``miss_bet(0.1)``.
        With several, ``"cusum"`` looks at the one that has won most, the others
        at the mean of their stakes.
    rate : float
        The largest chance of ringing within a quiet ``horizon``, above 0 and below 1.
    horizon : int
        Steps, for example cases a year.
    statistic : {"cusum", "restarts", "wealth"}
        For ``"cusum"`` the limit is that of ``quiet_limit``; for ``"restarts"`` it is
        ``log(horizon / rate)``, for ``"wealth"`` ``log(1 / rate)``, which holds for ever.
    years : int
        Simulated quiet years.
    seed : int
        Of the simulation.

    Attributes
    ----------
    limit : float
        Where it rings.
    value : float
        What the bets of ``update`` have won, as a logarithm.
    """

    def __init__(self, bets, rate=0.05, horizon=500, statistic="cusum", years=2000, seed=0):
        self.rate, self.horizon = _as_rate(rate), as_whole(horizon, "horizon")
        self.statistic = as_choice(statistic, "statistic", tuple(STATISTICS))
        bets = list(bets) if isinstance(bets, list | tuple) else [bets]
        if not bets:
            raise ValueError("bets: expected at least one, got none")
        self.bets = [_as_density(bet) for bet in bets]
        if self.statistic == "cusum":
            limit = quiet_limit(self._values, self.rate, self.horizon, years, seed)
            # What ties with the limit must not ring, rounding included.
            self.limit = float(limit + 1e-9)
        else:
            count = self.horizon if self.statistic == "restarts" else 1
            self.limit = float(np.log(count / self.rate))
        self.reset()

    def _values(self, p):
        won = [STATISTICS[self.statistic](bet(p)) for bet in self.bets]
        return self._together(np.array(won))

    def _together(self, won):
        if self.statistic == "cusum":
            return won.max(axis=0)
        return np.logaddexp.reduce(won, axis=0) - np.log(len(won))

    def reset(self):
        """Forget what ``update`` has seen: after an alarm, or at the turn of the year."""
        start = -np.inf if self.statistic == "restarts" else 0.0
        self._won = np.full(len(self.bets), start)
        self.value = start

    def update(self, p):
        """Bet on one more rank; True if it rings."""
        p = _as_p_values(as_number(p, "p"))
        won = _logs(np.array([float(bet(p)) for bet in self.bets]))
        if self.statistic == "restarts":
            self._won = np.logaddexp(0, self._won)
        self._won = self._won + won
        if self.statistic == "cusum":
            self._won = np.maximum(self._won, 0)
        self.value = float(self._together(self._won))
        return self.value >= self.limit

    def follow(self, p):
        """Go along one stream of ranks, or several.

        Parameters
        ----------
        p : array, shape (..., T)
            From ``online_p_values``.

        Returns
        -------
        Watch
        """
        p = _as_p_values(p)
        if p.ndim == 0:
            raise ValueError("p: expected ranks along the last axis, got one number")
        return Watch(self._values(p), self.limit)


def _as_density(bet):
    """A bet, if its factors are at least 0 with mean 1 at most under uniform ranks."""
    if not callable(bet):
        raise ValueError(f"bet: expected a function from ranks to factors, got {bet!r}")
    grid = (np.arange(200_000) + 0.5) / 200_000
    factors = np.asarray(bet(grid), dtype=float)
    if factors.shape != grid.shape or not factors.min() >= 0:
        raise ValueError("bet: expected a factor of at least 0 for each rank")
    if not factors.mean() <= 1.01:
        raise ValueError(f"bet: expected a density on [0, 1], got one with the mean {factors.mean():.4g}")
    return bet
