"""Toy sets with a known truth, small enough to see all of it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_generator, as_number, as_real, as_whole


@dataclass(frozen=True, eq=False)
class Toy:
    """Inputs, targets and the truth behind them. ``x, y = toy`` takes the first two.

    Parameters
    ----------
    inputs : array, shape (N, D), float64
        Points, in the order in which they were drawn.
    targets : array
        Regression: shape (N, 1), float64. Classification: shape (N,), int64.
    truth : callable
        Regression: the function without noise, from (M, 1) to (M, 1).
        Classification: the true class probabilities, from (M, D) to (M, C).
    noise : float or None
        Regression: the standard deviation of the noise around the truth.
    """

    inputs: np.ndarray
    targets: np.ndarray
    truth: Callable
    noise: float | None = None

    def __iter__(self):
        return iter((self.inputs, self.targets))

    def __len__(self):
        return len(self.inputs)

    def __repr__(self):
        return f"Toy({len(self)} points of {self.inputs.shape[1]} dimension(s))"


def _places(n, rng, low, high, gap=None):
    """``n`` numbers drawn uniformly from (low, high) without the gap, shape (n, 1)."""
    n = as_whole(n, "n")
    low = as_number(low, "low")
    high = as_number(high, "high", low=low, open_low=True)
    if not np.isfinite(high - low):
        raise ValueError(f"high: expected a range of finite width, got {low:g} to {high:g}")
    if gap is None:
        return rng.uniform(low, high, size=(n, 1))
    start, end = _as_gap(gap, low, high)
    # Draw from the line with the gap cut out, then move what lies beyond it back to its place.
    x = rng.uniform(low, high - (end - start), size=(n, 1))
    return np.where(x < start, x, x + (end - start))


def _as_gap(gap, low, high):
    """The two ends of a gap that leaves some of (low, high) on both sides."""
    try:
        start, end = gap
    except (TypeError, ValueError) as error:
        raise ValueError(f"gap: expected (start, end), got {gap!r}") from error
    start, end = as_number(start, "gap: start"), as_number(end, "gap: end")
    if not low < start < end < high:
        raise ValueError(f"gap: expected start < end inside ({low:g}, {high:g}), got ({start:g}, {end:g})")
    return start, end


def _as_points(x, dimensions, name="x"):
    """Points of shape (M, dimensions) in float64."""
    points = as_real(x, name, ndim=2)
    if points.shape[1] != dimensions:
        raise ValueError(f"{name}: expected shape (points, {dimensions}), got {points.shape}")
    return points


def _regression(function, x, noise, rng):
    """A toy set whose targets scatter around a function of one number."""
    noise = as_number(noise, "noise", low=0)

    def truth(x):
        return function(_as_points(x, 1))

    return Toy(x, function(x) + rng.normal(0, noise, size=x.shape), truth, noise)


def line(n=30, noise=0.3, seed=0, gap=None, *, slope=0.7, intercept=0.2, low=-2.0, high=2.0):
    """A straight line with Gaussian noise.

    Parameters
    ----------
    n : int
        How many points, uniform in (low, high).
    noise : float
        Standard deviation of the noise, at least 0, in units of the target.
    seed : int or numpy.random.Generator
    gap : (float, float), optional
        An interval strictly inside (low, high) from which no point is drawn.
    slope, intercept : float
        The truth is ``intercept + slope * x``.
    low, high : float
        The range of the inputs.

    Returns
    -------
    Toy
        Inputs and targets of shape (n, 1).
    """
    slope, intercept = as_number(slope, "slope"), as_number(intercept, "intercept")
    rng = as_generator(seed)
    x = _places(n, rng, low, high, gap)
    return _regression(lambda x: intercept + slope * x, x, noise, rng)


def gap_line(n=30, noise=0.3, seed=0):
    """A straight line seen through two clouds of points, with nothing between them.

    ``line`` with points in (-2, -1) and (1, 2) only: what does a model say
    about the gap, where it has seen nothing, and what beyond the clouds?

    Parameters
    ----------
    n : int
        How many points.
    noise : float
        Standard deviation of the noise, at least 0, in units of the target.
    seed : int or numpy.random.Generator

    Returns
    -------
    Toy
        Inputs and targets of shape (n, 1).
    """
    return line(n, noise, seed, gap=(-1.0, 1.0))


def sinusoid(n=100, noise=0.1, seed=0, gap=None, *, low=-4.0, high=4.0):
    """One sine wave and a bit, with Gaussian noise.

    Parameters
    ----------
    n, noise, seed, gap : as in :func:`line`
    low, high : float
        The range of the inputs, in radians.

    Returns
    -------
    Toy
        Inputs and targets of shape (n, 1); the truth is ``sin(x)``.
    """
    rng = as_generator(seed)
    x = _places(n, rng, low, high, gap)
    return _regression(np.sin, x, noise, rng)


def cubic(n=40, seed=173, low=-4, high=4, noise=3.0):
    """The cubic on which ensembles are traditionally shown: y = x³ + N(0, 3²).

    Parameters
    ----------
    n : int
        How many points, uniform in (low, high). They are usually drawn over
        (-6, 6), to show what a model says where it has seen nothing.
    seed : int or numpy.random.Generator
        A whole number seeds NumPy's legacy generator, whose numbers never
        change from one version to the next. With the defaults these are the
        points of which a constant Gaussian has a negative log-likelihood of
        4.58 nats a point, and the truth 2.39.
    low, high : float
        The range of the inputs.
    noise : float
        Standard deviation of the noise, at least 0, in units of the target.

    Returns
    -------
    Toy
        Inputs and targets of shape (n, 1).

    References
    ----------
    Hernández-Lobato and Adams (2015), Probabilistic backpropagation for
    scalable learning of Bayesian neural networks, section 5.1 (with 20
    points). Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable
    predictive uncertainty estimation using deep ensembles, section 3.2.
    """
    if not isinstance(seed, np.random.Generator):
        seed = np.random.RandomState(as_whole(seed, "seed", low=0, high=2**32 - 1))
    x = _places(n, seed, low, high)
    return _regression(lambda x: x**3, x, noise, seed)


def logistic(n=40, seed=0, *, separation=2.0, correlation=0.5):
    """Two overlapping Gaussian clouds, of which logistic regression is the whole truth.

    Both classes scatter with unit variance in each coordinate and the same
    correlation, around (-separation/2, 0) and (separation/2, 0). The log odds
    are then exactly ``x @ weights`` with ``weights = S⁻¹ (separation, 0)``, S
    being the covariance of a cloud: linear, and without an intercept.

    Parameters
    ----------
    n : int
        How many points, at least 2, half of each class (one more of class 0 if
        odd).
    seed : int or numpy.random.Generator
    separation : float
        Distance of the two centres, above 0. With the defaults the best
        possible classifier errs on 12 % of new points.
    correlation : float
        Correlation of the two coordinates within a class, inside (-1, 1).

    Returns
    -------
    Toy
        Inputs of shape (n, 2), targets of shape (n,): 0 or 1. The truth gives
        the probability of both classes at any point, shape (M, 2).
    """
    n = as_whole(n, "n", low=2)
    separation = as_number(separation, "separation", low=0, open_low=True)
    correlation = as_number(correlation, "correlation", low=-1, high=1)
    if abs(correlation) == 1:
        raise ValueError(f"correlation: expected a number inside (-1, 1), got {correlation}")
    rng = as_generator(seed)
    labels = rng.permutation(np.arange(n) % 2)
    covariance = np.array([[1.0, correlation], [correlation, 1.0]])
    x = rng.standard_normal((n, 2)) @ np.linalg.cholesky(covariance).T
    x[:, 0] += (labels - 0.5) * separation
    weights = np.linalg.solve(covariance, [separation, 0.0])

    def truth(x):
        log_odds = _as_points(x, 2) @ weights
        return _from_logs(np.stack([np.zeros_like(log_odds), log_odds], axis=1))

    return Toy(x, labels.astype(np.int64), truth)


def two_moons(n=200, noise=0.1, seed=0):
    """Two half circles that reach into each other, with Gaussian noise.

    The upper moon (class 0) is half of the unit circle around (0, 0), the
    lower one (class 1) half of the unit circle around (1, 0.5).

    Parameters
    ----------
    n : int
        How many points, at least 2, half of each class (one more of class 0 if
        odd).
    noise : float
        Standard deviation of the noise, in each coordinate; above 0, so that
        the truth is a probability everywhere.
    seed : int or numpy.random.Generator

    Returns
    -------
    Toy
        Inputs of shape (n, 2), targets of shape (n,): 0 or 1. The truth gives
        the probability of both classes at any point, shape (M, 2), for classes
        that are equally frequent.
    """
    n = as_whole(n, "n", low=2)
    noise = as_number(noise, "noise", low=0, open_low=True)
    rng = as_generator(seed)
    labels = rng.permutation(np.arange(n) % 2)
    clean = _on_moon(rng.uniform(0, np.pi, size=n), labels)
    grid = (np.arange(400) + 0.5) * np.pi / 400
    moons = np.stack([_on_moon(grid, 0), _on_moon(grid, 1)])

    def truth(x):
        # The density of each class is a Gaussian smeared along its arc. Dividing by the larger of the two,
        # in logarithms, keeps the ratio right where both are too small for a float.
        points = _as_points(x, 2)
        logs = [_log_smeared(points, arc, noise) for arc in moons]
        return _from_logs(np.stack(logs, axis=1))

    return Toy(clean + rng.normal(0, noise, size=(n, 2)), labels.astype(np.int64), truth)


def _on_moon(angle, label):
    """Points on the upper (0) or lower (1) moon, shape (n, 2)."""
    x = np.where(label == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(label == 0, np.sin(angle), 0.5 - np.sin(angle))
    return np.stack([x, y], axis=-1)


def _log_smeared(points, arc, noise):
    """Log of the density of noise around a curve, up to a constant, shape (M,)."""
    squared = (points**2).sum(axis=1)[:, None] + (arc**2).sum(axis=1) - 2 * points @ arc.T
    exponent = -squared / (2 * noise**2)
    top = exponent.max(axis=1)
    return top + np.log(np.exp(exponent - top[:, None]).mean(axis=1))


def _from_logs(logs):
    """Rows of logarithms turned into probabilities that sum to 1."""
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def spirals(n_per_class=1000, classes=3, seed=0):
    """Spiral arms, one a class, which blur as they leave the centre.

    Along arm ``j`` the radius grows evenly from 0 to 1 and the angle from 8j
    to 8(j + 1) radians, plus Gaussian noise of standard deviation
    0.3 (radius + 1) radians.

    Parameters
    ----------
    n_per_class : int
        How many points an arm.
    classes : int
        How many arms, at least 2.
    seed : int or numpy.random.Generator

    Returns
    -------
    Toy
        Inputs of shape (n_per_class · classes, 2), targets of shape
        (n_per_class · classes,), arm by arm. The truth gives the probability
        of each class, shape (M, classes); outside the unit circle, where there
        are no points, it follows the same formula.
    """
    n_per_class = as_whole(n_per_class, "n_per_class")
    classes = as_whole(classes, "classes", low=2)
    rng = as_generator(seed)
    radius = np.linspace(0, 1, n_per_class)
    arms = []
    for label in range(classes):
        middle = np.linspace(8 * label, 8 * (label + 1), n_per_class)
        angle = middle + rng.normal(size=n_per_class) * 0.3 * (radius + 1)
        arms.append(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1))

    def truth(x):
        # All arms have the same density of radii, so only the angle tells the classes apart: a Gaussian
        # wrapped around the circle.
        points = _as_points(x, 2)
        radius = np.hypot(points[:, 0], points[:, 1])
        middle = 8 * (np.arange(classes) + radius[:, None])
        away = np.arctan2(points[:, 1], points[:, 0])[:, None] - middle
        away = np.remainder(away + np.pi, 2 * np.pi) - np.pi
        wraps = _wraps(radius.max())
        spread = 0.3 * (radius[:, None, None] + 1)
        return _from_logs(_logsumexp(-(((away[..., None] + wraps) / spread) ** 2) / 2))

    targets = np.repeat(np.arange(classes, dtype=np.int64), n_per_class)
    return Toy(np.concatenate(arms), targets, truth)


def _wraps(radius):
    """Turns of the circle to add up, so that nothing within eight standard deviations is left out."""
    turns = int(np.ceil(8 * 0.3 * (radius + 1) / (2 * np.pi))) + 1
    return 2 * np.pi * np.arange(-turns, turns + 1)


def _logsumexp(values):
    """Logarithm of the sum of exponentials over the last axis."""
    top = values.max(axis=-1)
    return top + np.log(np.exp(values - top[..., None]).sum(axis=-1))


UNAMBIGUOUS = (-6.0, -4.0)
EMPTY = (-2.0, 2.0)
AMBIGUOUS = (3.5, 4.5)


def one_dimensional(n=100, seed=0):
    """One input, two classes, three regions: clear, empty and ambiguous.

    Half of the points lie in (-6, -4), and all of them are of class 0. Half
    lie in (3.5, 4.5), and a fair coin decides their class: no amount of data
    will. No point lies between, around (-2, 2), nor beyond.

    Parameters
    ----------
    n : int
        How many points, at least 2, the odd one in the clear region.
    seed : int or numpy.random.Generator

    Returns
    -------
    Toy
        Inputs of shape (n, 1), targets of shape (n,): 0 or 1. The truth gives
        the probability of both classes, shape (M, 2). It jumps at 0; nobody
        can know that from the data, which is the point of the example.
    """
    n = as_whole(n, "n", low=2)
    rng = as_generator(seed)
    clear = rng.uniform(*UNAMBIGUOUS, size=n - n // 2)
    unclear = rng.uniform(*AMBIGUOUS, size=n // 2)
    targets = np.concatenate([np.zeros(len(clear), np.int64), rng.integers(2, size=len(unclear))])
    order = rng.permutation(n)

    def truth(x):
        one = np.where(_as_points(x, 1) < 0, 0.0, 0.5)
        return np.concatenate([1 - one, one], axis=1)

    return Toy(np.concatenate([clear, unclear])[order, None], targets[order], truth)
