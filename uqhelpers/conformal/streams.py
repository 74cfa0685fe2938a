"""Conformal prediction along a stream: the level gives way to every miss."""

import bisect
from collections import deque
from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_number, as_own_scores, as_scores, as_whole
from uqhelpers.conformal.ranks import rank
from uqhelpers.metrics._common import alike

__all__ = ["AdaptiveConformal", "Stream"]


@dataclass(frozen=True, eq=False)
class Stream:
    """What ``AdaptiveConformal.follow`` found, one entry a step.

    Parameters
    ----------
    thresholds : array, shape (T,)
        The largest score that was let in; infinite: everything, minus infinity:
        nothing.
    misses : array of bool, shape (T,)
        Whether the score lay above it.
    levels : array, shape (T,)
        The level that was used, possibly outside of [0, 1].
    """

    thresholds: np.ndarray
    misses: np.ndarray
    levels: np.ndarray


class AdaptiveConformal:
    """Adaptive conformal inference: after a miss the level goes down, after a hit up.

    ``level`` becomes ``level + gamma (alpha - miss)``. Whatever the sequence, an
    adversary's included, the rate of misses stays within ``bound(T)`` of alpha,
    as long as a level of 0 or less lets everything in, and one of 1 or more
    nothing.

    Parameters
    ----------
    alpha : float
        Rate of misses to keep to, above 0 and below 1.
    gamma : float
        Step, above 0. Large steps follow quickly and make the sets jump.
    start : float, optional
        The first level, in [0, 1]; by default alpha.

    Attributes
    ----------
    level : float
        The level for the next step.

    References
    ----------
    Gibbs and Candès (2021), Adaptive conformal inference under distribution
    shift, eq. 2 and proposition 4.1.
    """

    def __init__(self, alpha=0.1, gamma=0.01, start=None):
        self.alpha = as_number(alpha, "alpha", low=0, high=1, open_low=True)
        if self.alpha == 1:
            raise ValueError("alpha: expected a number below 1, got 1.0")
        self.gamma = as_number(gamma, "gamma", low=0, open_low=True)
        self.start = self.alpha if start is None else as_number(start, "start", low=0, high=1)
        self.level = self.start

    def threshold(self, scores):
        """The largest score to let in, given past scores, shape (n,): infinite at a level of 0 or less."""
        return self._of_ranked(np.sort(as_scores(scores, "scores")))

    def update(self, miss):
        """Take note of whether the truth was missed, and return the new level."""
        if not isinstance(miss, bool | np.bool_):
            raise ValueError(f"miss: expected true or false, got {miss!r}")
        self.level += self.gamma * (self.alpha - float(miss))
        return self.level

    def bound(self, steps):
        """How far the rate of misses over so many steps can be from alpha, for any sequence whatever."""
        steps = as_whole(steps, "steps")
        return (max(self.start, 1 - self.start) + self.gamma) / (self.gamma * steps)

    def follow(self, scores, past, window=None):
        """Go along a stream of scores, each judged by those before it.

        Parameters
        ----------
        scores : array, shape (T,)
            The scores of the true targets, as they come in.
        past : array, shape (n,)
            Scores to begin with. Both are compared in the coarser of their precisions.
        window : int, optional
            Only so many of the latest scores count; by default all, those of
            ``past`` included.

        Returns
        -------
        Stream
        """
        scores, past = alike(as_own_scores(scores, "scores"), as_own_scores(past, "past"))
        latest = deque(past.tolist())
        window = None if window is None else as_whole(window, "window")
        while window is not None and len(latest) > window:
            latest.popleft()
        ranked = sorted(latest)
        thresholds, levels = np.empty(len(scores)), np.empty(len(scores))
        misses = np.empty(len(scores), bool)
        for t, score in enumerate(scores.tolist()):
            levels[t], thresholds[t] = self.level, self._of_ranked(ranked)
            misses[t] = score > thresholds[t] or thresholds[t] == -np.inf
            self.update(misses[t])
            bisect.insort(ranked, score)
            latest.append(score)
            if window is not None and len(latest) > window:
                ranked.pop(bisect.bisect_left(ranked, latest.popleft()))
        return Stream(thresholds, misses, levels)

    def _of_ranked(self, ranked):
        if self.level <= 0:
            return np.inf
        if self.level >= 1:
            return -np.inf
        k = rank(len(ranked), round(self.level, 12))  # sums of floats drift
        return -np.inf if k == 0 else float(ranked[k - 1]) if k <= len(ranked) else np.inf
