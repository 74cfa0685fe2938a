"""Bayesian logistic regression that can be computed exactly, for approximations to be held against.

The model: labels 0 and 1, log odds ``x @ w``, and a Gaussian prior N(0, I/α) on
the weights. An intercept, where one is wanted, is a column of ones. The mode
of the posterior is found by Newton's method in any dimension; with two weights
the posterior itself can be integrated on a grid, to more digits than any
approximation will ever need.
"""

import numpy as np
from scipy.special import expit, log_expit

from uqhelpers._checks import as_distributions, as_generator, as_labels, as_number, as_real, as_whole

__all__ = [
    "ExactLogisticPosterior",
    "hessian",
    "log_joint",
    "map_estimate",
    "total_variation",
]

LARGEST = 1e150  # inputs are squared, and their squares added up


def log_joint(weights, inputs, labels, prior_precision=1.0):
    """Log likelihood plus log prior, both with all their constants.

    Parameters
    ----------
    weights : array, shape (..., D)
        One vector of weights, or any array of them.
    inputs : array, shape (N, D)
    labels : array, shape (N,)
        0 or 1.
    prior_precision : float
        α > 0: the prior of each weight is N(0, 1/α).

    Returns
    -------
    array, shape (...), or a float
        ``log p(labels, weights | inputs)``, in nats. The log posterior is this
        minus the log evidence.
    """
    inputs, labels, alpha = _as_problem(inputs, labels, prior_precision)
    weights = _as_weights(weights, inputs.shape[1])
    flat = weights.reshape(-1, weights.shape[-1])
    signed = inputs * (2 * labels - 1)[:, None]
    # A few thousand weights at a time: a fine grid times many inputs would not fit into memory.
    step = max(1, (1 << 20) // len(inputs))
    likelihood = np.concatenate(
        [log_expit(flat[i : i + step] @ signed.T).sum(axis=1) for i in range(0, len(flat), step)]
    )
    prior = 0.5 * (flat.shape[1] * np.log(alpha / (2 * np.pi)) - alpha * (flat**2).sum(axis=1))
    joint = (likelihood + prior).reshape(weights.shape[:-1])
    return float(joint) if joint.ndim == 0 else joint


def hessian(weights, inputs, prior_precision=1.0):
    """Second derivatives of the negative log posterior: the precision of the Laplace approximation.

    For logistic regression the labels drop out, so that the observed
    information, the Fisher information and the generalised Gauss-Newton matrix
    are one and the same: ``Σ p(1-p) x xᵀ + αI``.

    Parameters
    ----------
    weights : array, shape (D,)
    inputs : array, shape (N, D)
    prior_precision : float
        α > 0.

    Returns
    -------
    array, shape (D, D)
        Symmetric, every eigenvalue at least α.
    """
    inputs = _as_inputs(inputs)
    weights = _as_weights(weights, inputs.shape[1], ndim=1)
    alpha = as_number(prior_precision, "prior_precision", low=0, open_low=True)
    log_odds = inputs @ weights
    curvature = expit(log_odds) * expit(-log_odds)
    return (inputs * curvature[:, None]).T @ inputs + alpha * np.eye(inputs.shape[1])


def map_estimate(inputs, labels, prior_precision=1.0):
    """The most probable weights, by Newton's method with step halving.

    The log posterior is strictly concave, so there is one maximum, and it is
    found from anywhere.

    Parameters
    ----------
    inputs : array, shape (N, D)
    labels : array, shape (N,)
        0 or 1.
    prior_precision : float
        α > 0.

    Returns
    -------
    array, shape (D,)
    """
    inputs, labels, alpha = _as_problem(inputs, labels, prior_precision)
    weights = np.zeros(inputs.shape[1])
    value = log_joint(weights, inputs, labels, alpha)
    for _ in range(100):
        gradient = inputs.T @ (labels - expit(inputs @ weights)) - alpha * weights
        step = np.linalg.solve(hessian(weights, inputs, alpha), gradient)
        # Half the squared Newton decrement is what is left to gain: nothing that a float could show.
        if gradient @ step < 1e-24 * max(1.0, abs(value)):
            break
        size = 1.0
        while size > 1e-4 and log_joint(weights + size * step, inputs, labels, alpha) < value:
            size /= 2
        weights = weights + size * step
        value = log_joint(weights, inputs, labels, alpha)
    return weights


class ExactLogisticPosterior:
    """The posterior of two weights, integrated numerically on a grid.

    The grid is a rectangle around the mode, enlarged until the density on its
    whole border has fallen below e⁻⁴⁰ of the highest. A log-concave density
    only falls further outside, so nothing that counts is left out; and for a
    smooth function that vanishes on the border, the plain sum over the grid
    converges exponentially in the number of points.

    Parameters
    ----------
    inputs : array, shape (N, 2)
        Add nothing for an intercept: there are two weights and no more.
    labels : array, shape (N,)
        0 or 1.
    prior_precision : float
        α > 0: the prior of each weight is N(0, 1/α).
    points : int
        Points of the grid along each axis, at least 11.

    Attributes
    ----------
    axes : tuple of two arrays, shape (points,)
        The grid's first and second weight.
    log_density : array, shape (points, points)
        Log posterior density, normalised; the first axis is the first weight
        (for ``contour``, which wants rows to be the second, pass the transpose).
    mean : array, shape (2,)
    covariance : array, shape (2, 2)
    log_evidence : float
        ``log p(labels | inputs)``, in nats.
    mode : array, shape (2,)

    Examples
    --------
    >>> from uqhelpers.data import toys
    >>> x, y = toys.logistic(n=20, seed=0)
    >>> exact = ExactLogisticPosterior(x, y, prior_precision=0.1)
    >>> exact.predict(x).shape
    (20, 2)
    """

    def __init__(self, inputs, labels, prior_precision=1.0, points=201):
        inputs, labels, alpha = _as_problem(inputs, labels, prior_precision)
        if inputs.shape[1] != 2:
            raise ValueError(f"inputs: expected shape (inputs, 2), got {inputs.shape}")
        points = as_whole(points, "points", low=11)
        self.prior_precision = alpha
        self.mode = map_estimate(inputs, labels, alpha)
        self.axes = tuple(np.linspace(*ends, points) for ends in _box(self.mode, inputs, labels, alpha))
        grid = np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1)
        joint = log_joint(grid, inputs, labels, alpha)
        top = joint.max()
        area = np.prod([axis[1] - axis[0] for axis in self.axes])
        self.log_evidence = float(top + np.log(np.exp(joint - top).sum() * area))
        self.log_density = joint - self.log_evidence
        mass = np.exp(self.log_density) * area
        # What carries no mass need not be visited again: it is most of the rectangle.
        kept = mass > 1e-16
        self._weights, self._mass = grid[kept], mass[kept] / mass[kept].sum()
        self._spacing = np.array([axis[1] - axis[0] for axis in self.axes])
        self.mean = self._mass @ self._weights
        away = self._weights - self.mean
        self.covariance = (away * self._mass[:, None]).T @ away

    def predict(self, inputs):
        """Predictive probabilities, averaged over the whole posterior.

        Parameters
        ----------
        inputs : array, shape (M, 2)

        Returns
        -------
        array, shape (M, 2)
            Probability of class 0 and of class 1.
        """
        inputs = as_real(inputs, "inputs", ndim=2)
        if inputs.shape[1] != 2:
            raise ValueError(f"inputs: expected shape (inputs, 2), got {inputs.shape}")
        step = max(1, (1 << 21) // len(self._mass))
        one = np.concatenate(
            [expit(inputs[i : i + step] @ self._weights.T) @ self._mass for i in range(0, len(inputs), step)]
        )
        return np.stack([1 - one, one], axis=1)

    def sample(self, draws, seed=0):
        """Weights drawn from the posterior.

        A cell of the grid by its mass, then a place within the cell: exact up
        to the width of a cell.

        Parameters
        ----------
        draws : int
        seed : int or numpy.random.Generator

        Returns
        -------
        array, shape (draws, 2)
        """
        draws = as_whole(draws, "draws")
        rng = as_generator(seed)
        cells = rng.choice(len(self._mass), size=draws, p=self._mass)
        return self._weights[cells] + rng.uniform(-0.5, 0.5, size=(draws, 2)) * self._spacing


def total_variation(probs, other):
    """Total variation distance of two predictions, input by input.

    The largest difference that the two give to any event: half the sum of the
    absolute differences. With two classes that is ``|p - q|``.

    Parameters
    ----------
    probs, other : array, shape (N, C)

    Returns
    -------
    array, shape (N,), float64
        Between 0 (the same) and 1 (they exclude each other). Symmetric.
    """
    probs, other = as_distributions(probs, "NC"), as_distributions(other, "NC", "other")
    if probs.shape != other.shape:
        raise ValueError(f"other: expected shape {probs.shape} like probs, got {other.shape}")
    return 0.5 * np.abs(probs - other).sum(axis=1)


def _as_inputs(inputs):
    """Inputs whose products with each other can be added up."""
    inputs = as_real(inputs, "inputs", ndim=2)
    largest = np.abs(inputs).max()
    if largest > LARGEST:
        raise ValueError(f"inputs: expected numbers up to {LARGEST:g} in size, got {largest:.4g}")
    return inputs


def _as_problem(inputs, labels, prior_precision):
    """Inputs, labels as floats 0 and 1, and the prior precision, all checked."""
    inputs = _as_inputs(inputs)
    labels = as_labels(labels, 2, length=len(inputs)).astype(np.float64)
    return inputs, labels, as_number(prior_precision, "prior_precision", low=0, open_low=True)


def _as_weights(weights, dimensions, ndim=None):
    """Weights whose last axis fits the inputs."""
    weights = as_real(weights, "weights", ndim=ndim)
    if weights.ndim == 0 or weights.shape[-1] != dimensions:
        raise ValueError(f"weights: expected {dimensions} along the last axis, got shape {weights.shape}")
    return weights


def _box(mode, inputs, labels, alpha, drop=40.0):
    """A rectangle around the mode on whose border the log density lies ``drop`` below the top."""
    top = log_joint(mode, inputs, labels, alpha)
    width = np.sqrt(np.diag(np.linalg.inv(hessian(mode, inputs, alpha))))
    low, high = mode - 4 * width, mode + 4 * width
    along = np.linspace(0, 1, 101)
    for _ in range(200):
        first, second = (low[i] + along * (high[i] - low[i]) for i in (0, 1))
        edges = {
            (0, 0): np.stack([np.full(101, low[0]), second], axis=1),
            (0, 1): np.stack([np.full(101, high[0]), second], axis=1),
            (1, 0): np.stack([first, np.full(101, low[1])], axis=1),
            (1, 1): np.stack([first, np.full(101, high[1])], axis=1),
        }
        grew = False
        for (axis, side), edge in edges.items():
            if log_joint(edge, inputs, labels, alpha).max() > top - drop:
                (high if side else low)[axis] += (1 if side else -1) * width[axis]
                grew = True
        if not grew:
            break
    return list(zip(low, high, strict=True))
