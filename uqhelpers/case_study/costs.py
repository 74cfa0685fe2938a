"""What a probability is worth in money: thresholds, prices, and whom to refer to a person."""

import numpy as np

from uqhelpers import conformal
from uqhelpers._checks import as_flags, as_number, as_own_real, as_real, to_numpy
from uqhelpers.features import power_of_two

__all__ = ["cheapest", "cost_threshold", "expected_price", "price", "referral_limit", "referral_zone"]


def cost_threshold(miss, needless):
    """The probability from which acting is cheaper than waiting.

    Waiting costs ``miss`` if the event is there, acting costs ``needless`` if it
    is not: act from ``p * miss >= (1 - p) * needless`` on.

    Parameters
    ----------
    miss : float
        Cost of not acting on an event, above 0.
    needless : float
        Cost of acting without one, above 0, in the same unit.

    Returns
    -------
    float
        ``needless / (miss + needless)``, in (0, 1).

    References
    ----------
    Elkan (2001), The foundations of cost-sensitive learning.
    """
    miss, needless = _prices(miss, needless)
    unit = power_of_two(max(miss, needless))  # in which their sum stays inside float64
    return float(needless / unit / (miss / unit + needless / unit))


def _prices(miss, needless):
    return (
        as_number(miss, "miss", low=0, open_low=True),
        as_number(needless, "needless", low=0, open_low=True),
    )


def _events(probs):
    probs = as_own_real(probs, "probs", ndim=1)
    if probs.min() < 0 or probs.max() > 1:
        raise ValueError(
            f"probs: expected probabilities in [0, 1], got {probs.min():.4g} to {probs.max():.4g}"
        )
    return probs


def as_limit(value, name):
    """A number to compare others with: it can be infinite."""
    if type(value) is float and value == value:  # as in streams, one score at a time
        return value
    array = to_numpy(value, name)
    if array.ndim or np.isnan(array):
        what = f"shape {array.shape}" if array.ndim else "NaN"
        raise ValueError(f"{name}: expected a number that can be compared, got {what}")
    return float(array)


def price(acted, events, miss, needless):
    """What some decisions cost on average.

    Parameters
    ----------
    acted : array of bool, shape (N,)
        Whether something was done.
    events : array of bool, shape (N,)
        Whether the event was there.
    miss, needless : float
        As in ``cost_threshold``.

    Returns
    -------
    float
        Cost a case.
    """
    miss, needless = _prices(miss, needless)
    acted = as_flags(acted, "acted")
    events = as_flags(events, "events", length=len(acted))
    return float(np.mean(miss * (events & ~acted) + needless * (acted & ~events)))


def expected_price(probs, miss, needless):
    """What the cheaper of acting and waiting is expected to cost, if the probabilities are right.

    A score of doubt for decisions with a price: highest at the threshold, and
    not at one half.

    Parameters
    ----------
    probs : array, shape (N,)
        Probability of the event.
    miss, needless : float
        As in ``cost_threshold``.

    Returns
    -------
    array, shape (N,), float64
        From 0 to ``miss * needless / (miss + needless)``.
    """
    miss, needless = _prices(miss, needless)
    probs = _events(probs).astype(np.float64, copy=False)
    return np.minimum(probs * miss, (1 - probs) * needless)


def referral_zone(miss, needless, person):
    """Between which probabilities a person who is right costs less than any act without one.

    Parameters
    ----------
    miss, needless : float
        As in ``cost_threshold``.
    person : float
        Cost of asking the person, at least 0, in the same unit.

    Returns
    -------
    tuple of float
        The ends: ``person / miss`` and ``1 - person / needless``. If asking costs
        more than the dearest doubt, both are the threshold, and the zone is empty.
    """
    miss, needless = _prices(miss, needless)
    person = as_number(person, "person", low=0)
    low, high = person / miss, 1 - person / needless
    if low >= high:
        low = high = cost_threshold(miss, needless)
    return low, high


def referral_limit(doubts, budget, person=-np.inf):
    """The doubt above which to refer, so that at most a share ``budget`` of new cases is.

    The conformal quantile of the doubts of cases that nothing was fitted to: a
    new exchangeable case lies above it with probability at most ``budget``.

    Parameters
    ----------
    doubts : array, shape (N,)
        Score of doubt, higher is more; ``expected_price`` for decisions with a price.
    budget : float
        The largest share of new cases to refer, in [0, 1].
    person : float
        Where doubts are ``expected_price``: what asking costs. A doubt that is worth
        less is not referred, whatever the budget; by default all are worth it.

    Returns
    -------
    float
        Refer what lies *above*. Infinite if there are too few cases to promise so little.
    """
    return max(conformal.quantile(doubts, budget), as_limit(person, "person"))


def cheapest(probs, miss, needless, doubts=None, limit=np.inf):
    """The act for each case: 0 wait, 1 act, 2 refer.

    Parameters
    ----------
    probs, miss, needless
        As in :func:`expected_price`.
    doubts : array, shape (N,), optional
        Refer where they lie above ``limit``; by default ``expected_price``.
    limit : float
        By default nobody is referred.

    Returns
    -------
    array of int, shape (N,)
    """
    probs = _events(probs)
    # In their own precision: .7 in float32 lies below .7, and would not reach that threshold.
    acts = (probs >= probs.dtype.type(cost_threshold(miss, needless))).astype(int)
    doubts = expected_price(probs, miss, needless) if doubts is None else as_real(doubts, "doubts", ndim=1)
    if len(doubts) != len(probs):
        raise ValueError(f"doubts: expected length {len(probs)}, got {len(doubts)}")
    acts[doubts > as_limit(limit, "limit")] = 2
    return acts
