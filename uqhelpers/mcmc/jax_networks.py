"""Below ``mcmc``: small networks as densities over their weights, in JAX.

The position of a chain is one vector of *whitened* weights, independent
standard normals under the prior; the prior's scales stand inside the network.
"""

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}


class Plan(NamedTuple):
    """What is compiled: everything about a network that is no number it is told later."""

    sizes: tuple  # of all layers, inputs and outputs among them
    activation: str
    scales: tuple  # of weights and biases of each layer: ((weight, bias), ...)
    likelihood: str


def plan_for(sizes, activation, prior_std, scaling, likelihood):
    """The plan of a network with a Gaussian prior."""
    scales = tuple(
        (prior_std / math.sqrt(fan_in) if scaling == "fan-in" else prior_std, prior_std)
        for fan_in in sizes[:-1]
    )
    return Plan(tuple(sizes), activation, scales, likelihood)


def count(plan):
    """How many weights there are, biases included."""
    return sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise(plan.sizes))


def layers(position, plan):
    """Weights and biases of each layer, in their own units."""
    found, start = [], 0
    for (inputs, outputs), (of_weights, of_biases) in zip(
        itertools.pairwise(plan.sizes), plan.scales, strict=True
    ):
        middle = start + inputs * outputs
        weight = of_weights * position[start:middle].reshape(inputs, outputs)
        found.append((weight, of_biases * position[middle : middle + outputs]))
        start = middle + outputs
    return found


def outputs_of(position, inputs, plan):
    """Outputs of one network, shape (N, K)."""
    # Inside, examples are columns: there are more of them than units.
    *hidden, (weight, bias) = layers(position, plan)
    columns = inputs.T
    for matrix, shift in hidden:
        columns = ACTIVATIONS[plan.activation](matrix.T @ columns + shift[:, None])
    return (weight.T @ columns + bias[:, None]).T


@functools.partial(jax.jit, static_argnames="plan")
def outputs_of_all(positions, inputs, plan):
    """Outputs of many networks, shape (S, N, K)."""
    return jax.lax.map(lambda position: outputs_of(position, inputs, plan), positions, batch_size=64)


def log_likelihood(position, inputs, targets, noise, plan):
    """Log-likelihood of all targets, summed."""
    outputs = outputs_of(position, inputs, plan)
    if plan.likelihood == "categorical":
        logs = jax.nn.log_softmax(outputs)
        return (logs * targets).sum()  # targets are one-hot: a product is faster than a look-up
    return (-0.5 * ((targets - outputs) / noise) ** 2 - jnp.log(noise) - 0.5 * math.log(2 * math.pi)).sum()


def log_prior(position):
    """Log density of the whitened weights, up to a constant."""
    return -0.5 * (position**2).sum()


@functools.lru_cache(maxsize=64)
def density(plan):
    """The log of the posterior density as a function of position, inputs, targets, noise and temperature."""

    def log_density(position, inputs, targets, noise, temperature):
        return (log_likelihood(position, inputs, targets, noise, plan) + log_prior(position)) / temperature

    return log_density
