"""Below ``mcmc``: Hamiltonian Monte Carlo in JAX, all chains in one ``vmap``, all steps in one ``scan``.

Every function here moves all chains at once: positions and momenta have the
shape ``(chains, dimensions)``. The step size, the number of leapfrog steps and
the mass are common to all chains: one loop then serves them all, and none
waits for the longest.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from uqhelpers.mcmc import adaptation

DIVERGENT = 1000.0  # an error of the energy that no rounding explains


class State(NamedTuple):
    """Where all chains are."""

    position: jax.Array  # (chains, dimensions)
    value: jax.Array  # (chains,), the log density there
    slope: jax.Array  # (chains, dimensions), its gradient


class Tuning(NamedTuple):
    """What the warm-up finds, and what it needs on the way."""

    step: jax.Array
    inverse_mass: jax.Array  # (dimensions,)
    dual: tuple  # of the step size
    moments: tuple  # of the positions


class Told(NamedTuple):
    """What one transition tells about each chain."""

    value: jax.Array
    acceptance: jax.Array
    energy_error: jax.Array
    steps: jax.Array  # one number, common to all


def evaluator(log_density, arguments):
    """Log densities and slopes of all chains at once."""
    return jax.vmap(jax.value_and_grad(lambda position: log_density(position, *arguments)))


@functools.partial(jax.jit, static_argnames="log_density")
def start(log_density, arguments, position):
    """The state of chains that begin at ``position``."""
    return State(position, *evaluator(log_density, arguments)(position))


def leapfrog(evaluate, position, momentum, slope, step, inverse_mass, count):
    """``count`` leapfrog steps: half a kick, a drift, half a kick."""

    def leap(_, carry):
        position, momentum, _, slope = carry
        momentum = momentum + 0.5 * step * slope
        position = position + step * inverse_mass * momentum
        value, slope = evaluate(position)
        return position, momentum + 0.5 * step * slope, value, slope

    value = jnp.zeros(position.shape[:1], position.dtype)
    return jax.lax.fori_loop(0, count, leap, (position, momentum, value, slope))


def transition(evaluate, state, key, step, inverse_mass, length, jitter, longest):
    """One trajectory of random length, accepted or not."""
    for_momentum, for_length, for_choice = jax.random.split(key, 3)
    momentum = jax.random.normal(for_momentum, state.position.shape, state.position.dtype)
    momentum = momentum / jnp.sqrt(inverse_mass)
    stretch = jax.random.uniform(for_length, minval=1 - jitter, maxval=1 + jitter)
    count = jnp.clip(jnp.ceil(stretch * length / step), 1, longest).astype(jnp.int32)

    def kinetic(momentum):
        return 0.5 * (inverse_mass * momentum**2).sum(axis=1)

    position, ended, value, slope = leapfrog(
        evaluate, state.position, momentum, state.slope, step, inverse_mass, count
    )
    error = (state.value - value) + (kinetic(ended) - kinetic(momentum))
    error = jnp.where(jnp.isfinite(error) & jnp.isfinite(slope).all(axis=1), error, jnp.inf)
    acceptance = jnp.exp(-jnp.maximum(error, 0.0))
    accepted = jax.random.uniform(for_choice, acceptance.shape) < acceptance
    moved = State(
        jnp.where(accepted[:, None], position, state.position),
        jnp.where(accepted, value, state.value),
        jnp.where(accepted[:, None], slope, state.slope),
    )
    return moved, Told(moved.value, acceptance, error, count)


@functools.partial(jax.jit, static_argnames="log_density")
def first_step(log_density, arguments, state, key):
    """A step size at which one leapfrog step is accepted about half of the time, by doubling or halving."""
    evaluate = evaluator(log_density, arguments)
    ones = jnp.ones(state.position.shape[1:], state.position.dtype)
    momentum = jax.random.normal(key, state.position.shape, state.position.dtype)

    def acceptance(step):
        _, ended, value, _ = leapfrog(evaluate, state.position, momentum, state.slope, step, ones, 1)
        error = state.value - value + 0.5 * (ended**2 - momentum**2).sum(axis=1)
        return jnp.where(jnp.isfinite(error), jnp.exp(-jnp.maximum(error, 0.0)), 0.0).mean()

    initial = jnp.asarray(0.1, state.position.dtype)
    up = acceptance(initial) > 0.5

    def goes_on(carry):
        step, tries = carry
        return ((acceptance(step) > 0.5) == up) & (tries < 40)

    def change(carry):
        step, tries = carry
        return jnp.where(up, 2 * step, step / 2), tries + 1

    return jax.lax.while_loop(goes_on, change, (initial, 0))[0]


def tuning_for(step, inverse_mass):
    """The beginning of a warm-up."""
    return Tuning(step, inverse_mass, adaptation.dual_start(step), adaptation.no_moments(inverse_mass))


@functools.partial(jax.jit, static_argnames="log_density")
def warm_up(log_density, arguments, state, tuning, key, schedule, settings):
    """Transitions that learn the step size and the mass, and keep nothing.

    ``schedule`` is a vector of numbers, each step's number and what it does
    (``adaptation.schedule``).
    """
    evaluate = evaluator(log_density, arguments)

    def step(carry, seen):
        state, tuning = carry
        number, collects, closes = seen
        state, told = transition(
            evaluate, state, jax.random.fold_in(key, number), tuning.step, tuning.inverse_mass,
            settings["trajectory"], settings["jitter"], settings["longest"],
        )  # fmt: skip
        dual = adaptation.dual_update(tuning.dual, settings["target"] - told.acceptance.mean())
        moments = adaptation.add_moments(tuning.moments, state.position, collects)
        inverse_mass = jnp.where(closes, adaptation.variance(moments), tuning.inverse_mass)
        moments = jax.tree.map(lambda value: jnp.where(closes, jnp.zeros_like(value), value), moments)
        restarted = adaptation.dual_start(adaptation.dual_step(dual))
        dual = jax.tree.map(lambda new, old: jnp.where(closes, new, old), restarted, dual)
        return (state, Tuning(adaptation.dual_step(dual), inverse_mass, dual, moments)), told

    (state, tuning), told = jax.lax.scan(step, (state, tuning), schedule)
    return state, tuning, told


@functools.partial(jax.jit, static_argnames=("log_density", "keep", "thin"))
def draw(log_density, arguments, state, step, inverse_mass, key, numbers, settings, *, keep, thin):
    """Transitions with everything fixed; of every ``thin`` one is kept, as ``keep`` makes it."""
    evaluate = evaluator(log_density, arguments)

    def one(state, number):
        return transition(
            evaluate, state, jax.random.fold_in(key, number), step, inverse_mass,
            settings["trajectory"], settings["jitter"], settings["longest"],
        )  # fmt: skip

    def some(state, number):
        state, told = jax.lax.scan(one, state, number * thin + jnp.arange(thin))
        return state, (jax.vmap(keep)(state.position), told)

    state, (kept, told) = jax.lax.scan(some, state, numbers)
    flat = jax.tree.map(lambda value: value.reshape(-1, *value.shape[2:]), told)
    return state, jax.tree.map(lambda value: jnp.moveaxis(value, 0, 1), kept), flat


def whole(position):
    """What is kept unless told otherwise."""
    return position
