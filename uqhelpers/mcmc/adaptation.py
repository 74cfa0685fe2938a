"""Below ``mcmc``: how the warm-up finds a step size and a mass.

The step size by dual averaging: steps grow while trajectories are accepted
more often than wanted, and shrink otherwise, by less and less. The mass, one
number a dimension, is the inverse of the variance that the chains show
together; it is estimated in windows that double, so that early places are
forgotten.

Written for JAX arrays, in plain arithmetic: JAX itself is not needed to read
or import this.
"""

import numpy as np

SHRINK, OFFSET, FORGET = 0.05, 10.0, 0.75  # gamma, t0 and kappa of the paper
FIRST, LAST, WINDOW = 0.15, 0.1, 25  # shares of the warm-up without windows, and the smallest window


SHORTEST = next(n for n in range(1000) if n - round(FIRST * n) - round(LAST * n) >= WINDOW)  # with a window


def schedule(warmup, adapt_mass):
    """What each step of a warm-up does.

    Parameters
    ----------
    warmup : int
        How many steps.
    adapt_mass : bool
        Whether there are windows at all.

    Returns
    -------
    numbers, collects, closes : arrays, shape (warmup,)
        The step's number, whether its positions count for the variance, and
        whether a window ends after it.
    """
    collects, closes = np.zeros(warmup, bool), np.zeros(warmup, bool)
    start, end = round(FIRST * warmup), warmup - round(LAST * warmup)
    if adapt_mass and end - start >= WINDOW:
        collects[start:end] = True
        width = WINDOW
        while start < end:
            # What is left after this window must hold the next one, or joins it.
            stop = start + width if start + 3 * width <= end else end
            closes[stop - 1] = True
            start, width = stop, 2 * width
    return np.arange(warmup), collects, closes


def dual_start(step):
    """Dual averaging that begins at a step size: (anchor, count, sum of errors, log step, its average)."""
    import jax.numpy as jnp

    log_step, nothing = jnp.log(step), jnp.zeros_like(step)
    return jnp.log(10.0) + log_step, nothing, nothing, log_step, log_step


def dual_update(dual, error):
    """One step of dual averaging; ``error`` is the wanted acceptance minus the one that came.

    References
    ----------
    Hoffman and Gelman (2014), The No-U-Turn sampler, section 3.2.1.
    """
    import jax.numpy as jnp

    anchor, count, total, _, average = dual
    count = count + 1
    total = total + (error - total) / (count + OFFSET)
    log_step = anchor - jnp.sqrt(count) / SHRINK * total
    weight = count**-FORGET
    return anchor, count, total, log_step, weight * log_step + (1 - weight) * average


def dual_step(dual):
    """The step size to try next."""
    import jax.numpy as jnp

    return jnp.exp(dual[3])


def dual_result(dual):
    """The step size to stay with: the weighted average of those that were tried."""
    import jax.numpy as jnp

    return jnp.exp(dual[4])


def no_moments(like):
    """(count, mean, sum of squares) of nothing."""
    import jax.numpy as jnp

    return jnp.zeros((), like.dtype), jnp.zeros_like(like), jnp.zeros_like(like)


def add_moments(moments, positions, wanted):
    """Moments with the positions of all chains among them, if wanted (Chan's way to join two sets)."""
    import jax.numpy as jnp

    count, mean, squares = moments
    new, middle = positions.shape[0], positions.mean(axis=0)
    total = count + new
    shift = middle - mean
    joined = (
        total,
        mean + shift * new / total,
        squares + ((positions - middle) ** 2).sum(axis=0) + shift**2 * count * new / total,
    )
    return tuple(jnp.where(wanted, after, before) for after, before in zip(joined, moments, strict=True))


def variance(moments):
    """The variance of each dimension, pulled a little towards a small constant, as few positions err."""
    import jax.numpy as jnp

    count, _, squares = moments
    raw = squares / jnp.maximum(count - 1, 1)
    return (count * raw + 5e-3) / (count + 5)
