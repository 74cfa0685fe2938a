"""Alarms over a stream that ring in quiet years at most as often as they say.

What bets on the ranks of a stream have won says how much has changed; a limit
on it says how often it is exceeded while nothing has.
"""

from dataclasses import dataclass

import numpy as np

from uqhelpers import conformal
from uqhelpers._checks import as_choice, as_generator, as_number, as_real, as_whole, to_numpy
from uqhelpers.case_study.bets import as_ranks

__all__ = ["STATISTICS", "Alarm", "Watch", "cusum", "quiet_limit", "restarts", "wealth"]


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

    Parameters are those of :func:`wealth`.

    Returns
    -------
    array, shape (..., T), float64
        At least 0.

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

    Parameters are those of :func:`wealth`.

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
    if not callable(statistic):
        raise ValueError(f"statistic: expected a function of ranks, got {statistic!r}")
    if conformal.rank(years, rate) > years:
        raise ValueError(f"years: expected enough to see a rate of {rate}, got {years}")
    rng, largest = as_generator(seed), []
    block = max(1, 1_000_000 // horizon)
    for start in range(0, years, block):
        quiet = 1 - rng.random((min(block, years - start), horizon))
        values = as_scores_of(statistic(quiet), quiet.shape)
        largest.append(np.max(values, axis=-1))
    return conformal.quantile(np.concatenate(largest), rate)


def as_scores_of(values, shape):
    """What a statistic gave for ranks: values of the same shape, that can be ranked."""
    values = to_numpy(values, "statistic")
    if values.shape != shape or np.isnan(values).any():
        what = "NaN" if values.shape == shape else f"shape {values.shape}"
        raise ValueError(f"statistic: expected a value for each of {shape} ranks, got {what}")
    return values


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
        at the mean of their stakes. For these, whose limits hold for fair bets alone,
        a bet with a mean a little above 1 is divided by it.
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

    Raises
    ------
    ValueError
        If a bet has a mean above 1.01 under uniform ranks.

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
        self.bets = [_as_density(bet, fair=self.statistic != "cusum") for bet in bets]
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
        p = as_ranks(as_number(p, "p"))
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
        p = as_ranks(p)
        if p.ndim == 0:
            raise ValueError("p: expected ranks along the last axis, got one number")
        return Watch(self._values(p), self.limit)


def _grid(parts=200_000, ends=200, fine=20_000):
    """Ranks and their weights: equal parts, but denser towards 0 and 1, where a density may be infinite."""
    middle = (np.arange(ends, parts - ends) + 0.5) / parts
    v = (np.arange(fine) + 0.5) / fine
    end, weight = ends / parts * v**8, v**7 * (ends / parts / np.sum(v**7))
    weights = [weight, np.full(len(middle), 1 / parts), weight[::-1]]
    return np.concatenate([end, middle, 1 - end[::-1]]), np.concatenate(weights)


def _as_density(bet, fair):
    """A bet whose factors are at least 0 with mean 1 under uniform ranks, nearly or (``fair``) at most."""
    if not callable(bet):
        raise ValueError(f"bet: expected a function from ranks to factors, got {bet!r}")
    grid, weights = _grid()
    factors = np.asarray(bet(grid), dtype=float)
    if factors.shape != grid.shape or not factors.min() >= 0:
        raise ValueError("bet: expected a factor of at least 0 for each rank")
    mean = float(factors @ weights)
    if not mean <= 1.01:
        raise ValueError(f"bet: expected a density on [0, 1], got one with the mean {mean:.4g}")
    return (lambda p: np.asarray(bet(p)) / mean) if fair and mean > 1 + 1e-9 else bet
