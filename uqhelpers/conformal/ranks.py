"""Ranks of exchangeable scores: the quantile, its law, p-values, and levels as exact fractions."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from uqhelpers._checks import as_generator, as_number, as_own_scores, as_real, as_scores, as_whole, to_numpy
from uqhelpers.metrics._common import alike

__all__ = ["CoverageLaw", "coverage_law", "p_values", "quantile", "rank"]

SIMPLE = 10**6  # the largest denominator of a level that counts as written by hand
ROUNDING = 4e-16  # how far a level computed in floats may lie from the fraction it stands for
SLACK = 1e-12  # relative: sums of weights that differ by less are equal


def as_level(alpha, name="alpha"):
    """A level in [0, 1] as an exact fraction: .1 is 1/10, and so is 1 - .9.

    In floats (n + 1)(1 - alpha) may land on either side of a whole number, and
    a rank would be off by one.
    """
    if isinstance(alpha, np.floating):
        alpha = float(str(alpha))  # float32's .1 is meant as .1
    number = as_number(alpha, name, low=0, high=1)
    exact = Fraction(number)
    simple = exact.limit_denominator(SIMPLE)
    return simple if abs(exact - simple) <= ROUNDING else exact


def rank(n, alpha):
    """The rank of the score that bounds the next one with probability 1 - alpha: ⌈(n + 1)(1 - alpha)⌉.

    Computed in whole numbers: a level within rounding of a fraction with a
    denominator of at most a million is that fraction.

    Parameters
    ----------
    n : int
        Number of calibration scores, at least 1.
    alpha : float
        Accepted rate of misses, in [0, 1].

    Returns
    -------
    int
        From 0 (alpha = 1: any score is enough) to ``n + 1`` (no score is).

    References
    ----------
    Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world.
    """
    exact = (as_whole(n, "n") + 1) * (1 - as_level(alpha))
    return -(-exact.numerator // exact.denominator)


def quantile(scores, alpha, weights=None, new_weights=None):
    """The conformal quantile: the next exchangeable score is at most this with probability 1 - alpha.

    Parameters
    ----------
    scores : array, shape (n,)
        Calibration scores, in any order, higher for what conforms less. May be
        infinite.
    alpha : float
        Accepted rate of misses, in [0, 1].
    weights : array, shape (n,), optional
        How much more likely each calibration input is where predictions are made
        than where it was drawn (up to a common factor): weighted conformal
        prediction under covariate shift. They stay with their scores.
    new_weights : float or array, shape (N,), optional
        The same for the new inputs; asked for with ``weights``.

    Returns
    -------
    float, or array of shape (N,) if ``new_weights`` is an array
        The score of rank ``rank(n, alpha)``; infinite if there is no such rank,
        minus infinity at rank 0. With weights, the smallest score below or at
        which lies the share 1 - alpha of all weight, the new input's own counted
        at infinity.

    Raises
    ------
    ValueError
        If weights are negative, all zero, missing or too few.

    References
    ----------
    Vovk, Gammerman and Shafer (2005); weights: Tibshirani et al. (2019),
    Conformal prediction under covariate shift, corollary 1.
    """
    scores = as_scores(scores, "scores")
    if weights is not None:
        return _weighted(scores, as_level(alpha), weights, new_weights)
    if new_weights is not None:
        raise ValueError("weights: expected with new_weights, got None")
    k = rank(len(scores), alpha)
    if k == 0:
        return -np.inf
    return float(np.partition(scores, k - 1)[k - 1]) if k <= len(scores) else np.inf


def _weighted(scores, level, weights, new_weights):
    weights = as_weights(weights, "weights", len(scores))
    if new_weights is None:
        raise ValueError("new_weights: expected with weights, one for each new input, got None")
    new_weights = to_numpy(new_weights, "new_weights")
    new = as_weights(np.atleast_1d(new_weights), "new_weights", some=False)
    largest = max(weights.max(), new.max())  # their sum must not overflow
    weights, new = weights / largest, new / largest
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weights[order])
    needed = float(1 - level) * (below[-1] + new)
    place = np.searchsorted(below, needed * (1 - SLACK))
    found = np.append(scores[order], np.inf)[place]
    found = np.where(needed <= 0, -np.inf, found)
    return float(found[0]) if np.ndim(new_weights) == 0 else found


def as_weights(weights, name, length=None, some=True):
    """Finite weights of at least 0; with ``some``, not all of them 0."""
    weights = as_scores(weights, name, length)
    if not np.isfinite(weights).all() or weights.min() < 0 or (some and not weights.max() > 0):
        raise ValueError(
            f"{name}: expected finite weights of at least 0{', some above' if some else ''}, "
            f"got {weights.min():.4g} to {weights.max():.4g}"
        )
    return weights


def p_values(calibration, scores, seed=None):
    """Conformal p-values: how many calibration scores are at least as high, the new one among them.

    A test with a level: reject "from where the calibration inputs come" when
    ``p <= alpha``; an exchangeable input is rejected with probability at most
    alpha. Each holds by itself; all of one calibration set depend on each other.

    Parameters
    ----------
    calibration : array, shape (n,)
        Scores of inputs that nothing was fitted to, higher for stranger.
    scores : array, shape (N,)
        Scores of new inputs. Both are compared in the coarser of their precisions.
    seed : int or numpy.random.Generator, optional
        Break ties at random, the new score's own among them: the p-value of an
        exchangeable input is then exactly uniform on [0, 1]. By default it is
        not, and ties count against rejecting.

    Returns
    -------
    array, shape (N,), float64
        In [1/(n+1), 1]; randomised in (0, 1].

    References
    ----------
    Vovk, Gammerman and Shafer (2005); Bates et al. (2023), Testing for outliers
    with conformal p-values.
    """
    calibration, scores = alike(as_own_scores(calibration, "calibration"), as_own_scores(scores, "scores"))
    calibration = np.sort(calibration)
    n = len(calibration)
    at_least = n - np.searchsorted(calibration, scores, side="left")
    if seed is None:
        return (1 + at_least) / (n + 1)
    above = n - np.searchsorted(calibration, scores, side="right")
    u = 1 - as_generator(seed).random(len(scores))
    return (above + u * (1 + at_least - above)) / (n + 1)


@dataclass(frozen=True)
class CoverageLaw:
    """How the coverage of split conformal prediction is spread over calibration sets.

    Given the calibration set, the coverage of new inputs is a number; drawn over
    calibration sets it follows Beta(k, n + 1 - k), for independent draws, whatever the data and the
    model, if the scores are continuous.

    Parameters
    ----------
    n : int
        Number of calibration inputs.
    k : int
        The rank that is used, from 1 to ``n``.
    """

    n: int
    k: int

    def __post_init__(self):
        as_whole(self.k, "k", high=as_whole(self.n, "n"))

    @property
    def mean(self):
        """k / (n + 1): never below 1 - alpha, above it by less than 1 / (n + 1)."""
        return self.k / (self.n + 1)

    @property
    def std(self):
        """Standard deviation over calibration sets."""
        return float(np.sqrt(self.mean * (1 - self.mean) / (self.n + 2)))

    def density(self, coverage):
        """Density of the law at these coverages, in [0, 1]."""
        return self._beta.pdf(as_real(coverage, "coverage"))

    def below(self, coverage):
        """The chance of a calibration set that covers less than this."""
        return self._beta.cdf(as_real(coverage, "coverage"))

    def interval(self, level=0.95):
        """The central interval that holds this share of all calibration sets: (low, high)."""
        return tuple(map(float, self._beta.interval(as_number(level, "level", 0, 1))))

    def counts(self, inputs):
        """The law of how many of so many new inputs are covered: beta-binomial, a ``scipy.stats`` law."""
        from scipy.stats import betabinom

        return betabinom(as_whole(inputs, "inputs"), self.k, self.n + 1 - self.k)

    @property
    def _beta(self):
        from scipy.stats import beta

        return beta(self.k, self.n + 1 - self.k)


def coverage_law(n, alpha):
    """The law of the coverage of split conformal prediction, given its calibration set.

    Parameters
    ----------
    n : int
        Number of calibration inputs.
    alpha : float
        Accepted rate of misses, above 0 and below 1.

    Returns
    -------
    CoverageLaw
        Beta(k, n + 1 - k) with k = ``rank(n, alpha)``.

    Raises
    ------
    ValueError
        If the rank is not among 1 to n: too few calibration inputs for so small
        an ``alpha``, and every set is the whole, or an ``alpha`` of 1.

    References
    ----------
    Vovk (2012), Conditional validity of inductive conformal predictors.
    """
    k = rank(n, alpha)
    if not 1 <= k <= n:
        raise ValueError(f"alpha: expected a level whose rank is among 1 to n = {n}, got {alpha}, rank {k}")
    return CoverageLaw(int(n), k)
