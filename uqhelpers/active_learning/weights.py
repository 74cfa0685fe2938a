"""Honest averages of what was chosen: drawing by scores, and the weights that undo the preference."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_generator, as_real, as_whole

__all__ = ["Drawn", "draw", "lure_risk", "lure_weights"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """What was drawn one after the other, without replacement.

    Parameters
    ----------
    indices : array of int, shape (M,)
        Places in the pool, in the order in which they were drawn.
    chances : array, shape (M,)
        The probability with which each was drawn when it was its turn, among
        what was left then.
    pool : int
        Size of the pool.
    """

    indices: np.ndarray
    chances: np.ndarray
    pool: int


def draw(scores, count, seed=0):
    """Draw inputs one by one, each with a chance in proportion to its score among those left.

    Parameters
    ----------
    scores : array, shape (N,)
        All above 0, in any unit: what has no chance can never be corrected for.
    count : int
        How many, at most ``N``.
    seed : int or numpy.random.Generator

    Returns
    -------
    Drawn

    Raises
    ------
    ValueError
        If a score is not above 0, or there are fewer inputs than asked for.
    """
    scores = as_real(scores, "scores", ndim=1)
    if scores.min() <= 0:
        raise ValueError(f"scores: expected numbers above 0, got {scores.min():.4g}")
    scores = scores / scores.max()
    if scores.min() < 1e-300:
        raise ValueError("scores: expected numbers of comparable size, got one that vanishes beside another")
    count, rng = as_whole(count, "count", high=len(scores)), as_generator(seed)
    # The order in which exponential clocks ring is that of drawing in proportion to their rates.
    indices = np.argsort(rng.exponential(size=len(scores)) / scores, kind="stable")
    left = np.cumsum(scores[indices][::-1])[::-1]  # the sum over what is left, at each turn
    return Drawn(indices[:count], (scores[indices] / left)[:count], len(scores))


def lure_weights(chances, pool):
    """Weights that make the average loss of chosen inputs unbiased for the pool's: the LURE estimator.

    Parameters
    ----------
    chances : array, shape (M,)
        The probability with which each input was chosen, at its turn, among
        those left, in the order of choice.
    pool : int
        Size ``N`` of the pool from which they were chosen without replacement.

    Returns
    -------
    array, shape (M,)
        The mean of weight times loss has the pool's mean loss as its
        expectation, if every input left had a chance at every turn. All are 1
        where the choice was uniform.

    Raises
    ------
    ValueError
        If a chance is not in (0, 1], or there are more than the pool holds.

    References
    ----------
    Farquhar, Gal and Rainforth (2021), On statistical bias in active learning:
    how and when to fix it, eq. 11.
    """
    chances = as_real(chances, "chances", ndim=1)
    pool = as_whole(pool, "pool")
    taken = len(chances)
    if taken > pool:
        raise ValueError(f"chances: expected at most {pool}, one an input of the pool, got {taken}")
    if chances.min() <= 0 or chances.max() > 1 + 1e-9:
        raise ValueError(
            f"chances: expected values in (0, 1], got {chances.min():.4g} to {chances.max():.4g}"
        )
    turn = np.arange(1, taken + 1)
    if taken == pool:  # everything was asked: nothing is left to correct
        return np.ones(taken)
    return 1 + (pool - taken) / (pool - turn) * (1 / ((pool - turn + 1) * chances) - 1)


def lure_risk(losses, chances, pool):
    """The pool's mean loss, from the losses of inputs that were chosen; unbiased.

    Parameters
    ----------
    losses : array, shape (M,)
        Of the chosen inputs, in the order of choice, under *one* fixed model.
    chances, pool
        As for :func:`lure_weights`.

    Returns
    -------
    float
        In the unit of the losses; all weights are above 0.

    Raises
    ------
    ValueError
        As :func:`lure_weights`; also if the lengths differ.

    References
    ----------
    Kossen, Farquhar, Gal and Rainforth (2021), Active testing: sample-efficient
    model evaluation.
    """
    losses = as_real(losses, "losses", ndim=1)
    weights = lure_weights(chances, pool)
    if len(losses) != len(weights):
        raise ValueError(f"losses: expected {len(weights)}, one a chance, got {len(losses)}")
    return float(np.mean(weights * losses))
