"""Every approximation of a posterior that the book knows, on one small network and under one prior.

All of them work on the whitened weights of ``mcmc.network_posterior`` (standard
normal under the prior), so that a decay of 1 is that prior. A method is a
function of a key, data, plan and settings that answers with outputs of sampled
networks at the asked inputs, shape ``(samples, N, K)``: logits or values. What
is a number is traced: changing it compiles nothing.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from uqhelpers.mcmc import jax_networks as nets

STEPS = 3000  # of Adam, for everything that is optimised
SAMPLES = 200


# --- what they share ------------------------------------------------------------------------------------


def adam(gradient, start, rates, keys):
    """Adam along a schedule of rates; ``gradient(position, key)``."""

    def step(carry, seen):
        position, first, second = carry
        rate, key, number = seen
        slope = gradient(position, key)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, slope)
        a, b = 1 - 0.9**number, 1 - 0.999**number
        position = jax.tree.map(
            lambda p, m, v: p - rate * (m / a) / (jnp.sqrt(v / b) + 1e-8), position, first, second
        )
        return (position, first, second), None

    zeros = jax.tree.map(jnp.zeros_like, start)
    numbers = jnp.arange(1, len(rates) + 1)
    return jax.lax.scan(step, (start, zeros, zeros), (rates, keys, numbers))[0][0]


def cosine(steps, top):
    """A rate that falls from ``top`` to nothing."""
    return top * 0.5 * (1 + jnp.cos(jnp.pi * jnp.arange(steps) / steps))


def initial(key, plan, like_prior):
    """Where training begins: a draw from the prior, or weights of variance one over the fan-in, no biases."""
    draw = jax.random.normal(key, (nets.count(plan),))
    small = []
    for (inputs, outputs), (of_weights, _) in zip(
        zip(plan.sizes[:-1], plan.sizes[1:], strict=True), plan.scales, strict=True
    ):
        small += [np.full(inputs * outputs, 1 / (of_weights * inputs**0.5)), np.zeros(outputs)]
    return draw * jnp.where(like_prior, 1.0, jnp.asarray(np.concatenate(small), jnp.float32))


def loss(position, problem, decay, plan):
    """Negative log of the posterior, the prior weighed by ``decay``."""
    x, y, noise = problem
    return -nets.log_likelihood(position, x, y, noise, plan) - decay * nets.log_prior(position)


def optimum(key, problem, plan, decay, like_prior):
    """One trained network: MAP, if ``decay`` is 1."""
    start = initial(key, plan, like_prior)
    slope = jax.grad(loss)
    keys = jnp.zeros(STEPS)
    return adam(lambda w, _: slope(w, problem, decay, plan), start, cosine(STEPS, 0.02), keys)


def outputs(positions, places, plan):
    """Outputs of sampled networks."""
    return jax.lax.map(lambda w: nets.outputs_of(w, places, plan), positions, batch_size=50)


# --- the methods ----------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("plan", "members"))
def ensemble(key, problem, places, plan, decay, like_prior, *, members):
    """Networks trained from separate starts; one of them is a MAP estimate."""
    keys = jax.random.split(key, members)
    found = jax.vmap(lambda k: optimum(k, problem, plan, decay, like_prior))(keys)
    return outputs(found, places, plan)


def curvature(mode, problem, plan):
    """The generalised Gauss–Newton matrix of the negative log-likelihood at a mode."""
    x, _, noise = problem
    jacobian = jax.jacrev(lambda w: nets.outputs_of(w, x, plan))(mode)  # (N, K, D)
    if plan.likelihood == "gaussian":
        return jnp.einsum("nkd,nke->de", jacobian, jacobian) / noise**2
    probs = jax.nn.softmax(nets.outputs_of(mode, x, plan))
    middle = jnp.einsum("nk,nkd->nd", probs, jacobian)
    centred = jacobian - middle[:, None]
    return jnp.einsum("nk,nkd,nke->de", probs, centred, centred)


@functools.partial(jax.jit, static_argnames=("plan", "linear"))
def laplace(key, problem, places, plan, precision, *, linear):
    """A Gaussian at the MAP estimate; through the network's linearisation, or through the network."""
    for_mode, for_draws = jax.random.split(key)
    mode = optimum(for_mode, problem, plan, 1.0, True)
    total = curvature(mode, problem, plan) + precision * jnp.eye(len(mode))
    root = jnp.linalg.cholesky(total)
    noise = jax.random.normal(for_draws, (len(mode), SAMPLES))
    away = jax.scipy.linalg.solve_triangular(root, noise, lower=True, trans=1).T
    if not linear:
        return outputs(mode + away, places, plan)
    jvp = lambda change: jax.jvp(lambda w: nets.outputs_of(w, places, plan), (mode,), (change,))[1]  # noqa: E731
    return nets.outputs_of(mode, places, plan) + jax.lax.map(jvp, away, batch_size=20)


@functools.partial(jax.jit, static_argnames="plan")
def mean_field(key, problem, places, plan, divergence):
    """Independent normals, fitted by their evidence bound from the MAP estimate on."""
    for_mode, for_steps, for_draws = jax.random.split(key, 3)
    mode = optimum(for_mode, problem, plan, 1.0, True)

    def bound(q, key):
        mean, rho = q
        weights = mean + jnp.exp(rho) * jax.random.normal(key, (8, len(mode)))
        fit = jax.vmap(lambda w: nets.log_likelihood(w, *problem, plan))(weights).mean()
        return divergence * (0.5 * (mean**2).sum() + 0.5 * jnp.exp(2 * rho).sum() - rho.sum()) - fit

    start = (mode, jnp.full(len(mode), jnp.log(0.02)))
    keys = jax.random.split(for_steps, 2 * STEPS)
    mean, rho = adam(jax.grad(bound), start, cosine(2 * STEPS, 5e-3), keys)
    draws = mean + jnp.exp(rho) * jax.random.normal(for_draws, (SAMPLES, len(mean)))
    return outputs(draws, places, plan)


@functools.partial(jax.jit, static_argnames="plan")
def full_covariance(key, problem, places, plan, divergence):
    """A Gaussian with all correlations, fitted by its evidence bound, in the coordinates of Laplace's.

    In those the curvature at the mode is the same in all directions: without them the fit does
    not arrive.
    """
    for_mode, for_steps, for_draws = jax.random.split(key, 3)
    mode = optimum(for_mode, problem, plan, 1.0, True)
    size = len(mode)
    root = jnp.linalg.cholesky(curvature(mode, problem, plan) + jnp.eye(size))
    frame = jax.scipy.linalg.solve_triangular(root, jnp.eye(size), lower=True, trans=1)

    def drawn(q, noise):
        mean, rho, lower = q
        mixed = noise @ jnp.tril(lower, -1).T / size**0.5  # or as many small steps add up to a large one
        return mode + (mean + jnp.exp(rho) * noise + mixed) @ frame.T

    def bound(q, key):
        weights = drawn(q, jax.random.normal(key, (8, size)))
        fit = jax.vmap(lambda w: nets.log_likelihood(w, *problem, plan))(weights).mean()
        return divergence * (0.5 * (weights**2).sum(axis=1).mean() - q[1].sum()) - fit

    start = (jnp.zeros(size), jnp.full(size, jnp.log(0.05)), jnp.zeros((size, size)))
    keys = jax.random.split(for_steps, 2 * STEPS)
    q = adam(jax.grad(bound), start, cosine(2 * STEPS, 5e-3), keys)
    return outputs(drawn(q, jax.random.normal(for_draws, (SAMPLES, size))), places, plan)


def thinned(position, inputs, plan, rate, key):
    """Outputs with a part of the hidden units switched off, for each input others."""
    *hidden, (weight, bias) = nets.layers(position, plan)
    values = inputs
    for number, (matrix, shift) in enumerate(hidden):
        values = nets.ACTIVATIONS[plan.activation](values @ matrix + shift)
        mask = jax.random.bernoulli(jax.random.fold_in(key, number), 1 - rate, values.shape)
        values = values * mask / (1 - rate)
    return values @ weight + bias


@functools.partial(jax.jit, static_argnames="plan")
def dropout(key, problem, places, plan, rate, decay, like_prior):
    """A network trained and asked with dropout after every hidden layer."""
    for_start, for_steps, for_masks = jax.random.split(key, 3)
    x, y, noise = problem

    def objective(w, key):
        values = thinned(w, x, plan, rate, key)
        if plan.likelihood == "categorical":
            fit = (jax.nn.log_softmax(values) * y).sum()
        else:
            fit = -0.5 * (((y - values) / noise) ** 2).sum()
        return -fit - decay * nets.log_prior(w)

    start = initial(for_start, plan, like_prior)
    w = adam(jax.grad(objective), start, cosine(STEPS, 0.02), jax.random.split(for_steps, STEPS))
    keys = jax.random.split(for_masks, SAMPLES)
    return jax.lax.map(lambda key: thinned(w, places, plan, rate, key), keys, batch_size=50)


def batch_slope(problem, plan, batch, decay=1.0):
    """An unbiased gradient of the log posterior from a few examples."""
    x, y, noise = problem

    def slope(w, key):
        few = jax.random.choice(key, len(x), (batch,), replace=False)
        share = len(x) / batch

        def total(w):
            return share * nets.log_likelihood(w, x[few], y[few], noise, plan) + decay * nets.log_prior(w)

        return jax.grad(total)(w)

    return slope


def steepest(mode, problem, plan):
    """The largest curvature at a mode: steps of descent beyond two over it fly apart."""
    return jnp.linalg.eigvalsh(curvature(mode, problem, plan))[-1] + 1


@functools.partial(jax.jit, static_argnames=("plan", "batch"))
def swag(key, problem, places, plan, share, *, batch=20, rank=20, snapshots=60, between=50):
    """The Gaussian of the path of gradient descent on minibatches from a MAP estimate.

    The rate is a share of the largest one at which descent is stable there.
    """
    for_mode, for_path, for_draws = jax.random.split(key, 3)
    mode = optimum(for_mode, problem, plan, 1.0, True)
    slope = batch_slope(problem, plan, batch)
    rate = share * 2 / steepest(mode, problem, plan)

    def walk(w, key):
        steps = jax.random.split(key, between)
        w = jax.lax.scan(lambda w, key: (w + rate * slope(w, key), None), w, steps)[0]
        return w, w

    _, path = jax.lax.scan(walk, mode, jax.random.split(for_path, snapshots))
    mean = path.mean(axis=0)
    spread, last = path.std(axis=0), path[-rank:] - mean
    alone, together = jax.random.split(for_draws)
    draws = mean + spread * jax.random.normal(alone, (SAMPLES, len(mean))) / 2**0.5
    draws = draws + jax.random.normal(together, (SAMPLES, rank)) @ last / (2 * (rank - 1)) ** 0.5
    return outputs(draws, places, plan)


@functools.partial(jax.jit, static_argnames=("plan", "batch", "cycles"))
def langevin(key, problem, places, plan, share, *, cycles=0, batch=20, steps=24_000, chains=4):
    """Gradient descent on minibatches with as much noise as makes it a sampler, never corrected.

    The step is a share of the largest stable one at a MAP estimate, where the chains begin.
    Without cycles the step stays as it is; with them it falls like a cosine, and the last
    fifth of each cycle is kept.
    """
    key, for_mode = jax.random.split(key)
    slope = batch_slope(problem, plan, batch)
    begin = jax.vmap(lambda key: optimum(key, problem, plan, 1.0, True))(jax.random.split(for_mode, chains))
    rate = share * 4 / steepest(begin[0], problem, plan)
    each = SAMPLES // chains
    if cycles:
        length = steps // cycles
        place = jnp.arange(steps) % length / length
        rates = 0.5 * rate * (1 + jnp.cos(jnp.pi * place)) + 1e-3 * rate
        kept = np.flatnonzero(np.arange(steps) % length / length >= 0.8)
        noisy = place >= 0.8
    else:
        rates, noisy = jnp.full(steps, rate), jnp.ones(steps, bool)
        kept = np.arange(steps // 4, steps)
    kept = kept[np.linspace(0, len(kept) - 1, each).round().astype(int)]

    def chain(key, start):
        def step(carry, seen):
            w, kept_, slot = carry
            number, rate, noisy = seen
            now = jax.random.fold_in(key, number)
            kick = jnp.sqrt(rate) * jax.random.normal(jax.random.fold_in(now, 1), w.shape)
            w = w + 0.5 * rate * slope(w, now) + jnp.where(noisy, kick, 0.0)
            here = jnp.asarray(kept)[jnp.minimum(slot, each - 1)] == number
            kept_ = jnp.where(here, kept_.at[jnp.minimum(slot, each - 1)].set(w), kept_)
            return (w, kept_, slot + here), None

        seen = (jnp.arange(steps), rates, noisy)
        return jax.lax.scan(step, (start, jnp.zeros((each, len(start))), 0), seen)[0][1]

    draws = jax.vmap(chain)(jax.random.split(key, chains), begin)
    return outputs(draws.reshape(SAMPLES, -1), places, plan)


# --- settings -------------------------------------------------------------------------------------------

TRAINED = [{"decay": d, "like_prior": p} for d in (1.0, 0.1, 0.01, 0.0) for p in (True, False)]
USUAL = {"decay": 0.0, "like_prior": False}
METHODS = {
    "MAP": (functools.partial(ensemble, members=1), [{"decay": 1.0, "like_prior": True}], 0),
    "Laplace, linearised": (functools.partial(laplace, linear=True), "precision", 1.0),
    "Laplace, sampled": (functools.partial(laplace, linear=False), "precision", 1.0),
    "mean field": (mean_field, "divergence", 1.0),
    "full covariance": (full_covariance, "divergence", 1.0),
    "MC-Dropout": (
        dropout,
        [{"rate": r, **t} for r in (0.05, 0.2) for t in TRAINED if t["like_prior"] or not t["decay"]],
        {"rate": 0.2, **USUAL},
    ),
    "SWAG": (swag, "share", 0.1),
    "ensemble of 5": (functools.partial(ensemble, members=5), TRAINED, USUAL),
    "ensemble of 20": (functools.partial(ensemble, members=20), TRAINED, USUAL),
    "Langevin": (langevin, "share", 0.1),
    "Langevin, cyclical": (functools.partial(langevin, cycles=4), "share", 0.3),
}
GRIDS = {
    "precision": (0.3, 1.0, 3.0, 10.0, 30.0),
    "divergence": (1.0, 0.3, 0.1),
    "share": (0.01, 0.03, 0.1, 0.3),
}


def settings_of(method):
    """All settings of a method that are tried, and the number of the usual one."""
    _, tried, usual = METHODS[method]
    if isinstance(tried, str):
        tried, usual = [{tried: value} for value in GRIDS[tried]], {tried: usual}
    return tried, 0 if usual == 0 else tried.index(usual)


def run(method, setting, key, problem, places, plan):
    """Outputs of sampled networks by one method, as NumPy."""
    call = METHODS[method][0]
    return np.asarray(call(key, problem, places, plan, **setting), np.float64)
