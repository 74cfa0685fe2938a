"""Below ``deep_ensembles``: small networks in JAX, all members in one ``vmap``, all steps in one ``scan``.

A network is a list of ``(weight, bias)`` pairs, weights of shape
``(inputs, outputs)``; an ensemble is the same list with a leading axis of
members. What decides the shape of the computation is a ``Plan``, which is
hashable, so that ``jit`` compiles once for it; all numbers are arguments.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh, "gelu": jax.nn.gelu}
SMALLEST_SCALE = 1e-6
BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is compiled: everything about a training that is not a number."""

    likelihood: str
    activation: str
    penalty: str | Callable
    adversarial: str | None
    schedule: str
    decays: bool  # whether there is a penalty at all


@dataclasses.dataclass(frozen=True)
class Numbers:
    """The numbers of a training, which may change without a new compilation."""

    learning_rate: float
    weight_decay: float
    epsilon: object  # in the network's own units, shape () or (D,)


jax.tree_util.register_dataclass(Numbers, ["learning_rate", "weight_decay", "epsilon"], [])


# --- networks -----------------------------------------------------------------------------------------


def streams(seed, members):
    """A NumPy generator and the bits of a JAX key for each member, whatever their number."""
    generators = [np.random.default_rng([seed, member]) for member in range(members)]
    bits = np.stack([rng.integers(2**32, size=2, dtype=np.uint32) for rng in generators])
    return generators, bits


def initialise(generators, sizes, init):
    """Initial weights of all members, stacked: by NumPy, since JAX would compile a dozen functions for it."""
    networks = []
    for member, rng in enumerate(generators):
        make = init if callable(init) else functools.partial(_gaussian, init=init, member=member)
        shapes = itertools.pairwise(sizes)
        networks.append([_as_layer(make(rng, *shape), *shape) for shape in shapes])
    return [tuple(map(np.stack, zip(*layers, strict=True))) for layers in zip(*networks, strict=True)]


def _gaussian(rng, inputs, outputs, init, member):
    if isinstance(init, str):  # He: the variance of what passes a ReLU stays the same from layer to layer
        return rng.normal(0, (2 / inputs) ** 0.5, (inputs, outputs)), np.zeros(outputs)
    return rng.normal(0, init[member], (inputs, outputs)), rng.normal(0, init[member], outputs)


def _as_layer(layer, inputs, outputs):
    weight, bias = (np.asarray(one, np.float32) for one in layer)
    if weight.shape != (inputs, outputs) or bias.shape != (outputs,):
        raise ValueError(
            f"init: expected a weight of shape {(inputs, outputs)} and a bias of shape {(outputs,)}, "
            f"got {weight.shape} and {bias.shape}"
        )
    return weight, bias


def outputs_of(network, inputs, activation):
    """Outputs of one network, shape (N, K)."""
    # Inside, examples are columns: there are more of them than units, and a product is fastest along
    # its longest rows.
    columns = inputs.T
    for weight, bias in network[:-1]:
        columns = ACTIVATIONS[activation](weight.T @ columns + bias[:, None])
    weight, bias = network[-1]
    return (weight.T @ columns + bias[:, None]).T


@functools.partial(jax.jit, static_argnames="activation")
def outputs_of_members(networks, inputs, activation):
    """Outputs of all members, shape (M, N, K)."""
    return jax.vmap(lambda network: outputs_of(network, inputs, activation))(networks)


def heads(outputs):
    """Locations and scales: the second half of the outputs goes through softplus."""
    location, rho = jnp.split(outputs, 2, axis=-1)
    return location, jax.nn.softplus(rho) + SMALLEST_SCALE


# --- losses, averaged over examples (and over targets, where there are several) -------------------------


def data_loss(outputs, targets, likelihood):
    """Mean loss of a batch by name."""
    if likelihood == "categorical":
        logs = jax.nn.log_softmax(outputs)
        return -jnp.take_along_axis(logs, targets[:, None], axis=1).mean()
    if likelihood == "mse":
        return jnp.square(outputs - targets).mean()
    if likelihood == "l1":
        return jnp.abs(outputs - targets).mean()
    location, scale = heads(outputs)
    standardised = (targets - location) / scale
    if likelihood == "laplace":
        return (jnp.log(2 * scale) + jnp.abs(standardised)).mean()
    return (jnp.log(scale) + 0.5 * jnp.log(2 * jnp.pi) + 0.5 * jnp.square(standardised)).mean()


def divergence(before, after, likelihood):
    """KL from one predicted distribution to another, mean over inputs; squared distance without a scale."""
    if likelihood == "categorical":
        logs = jax.nn.log_softmax(before), jax.nn.log_softmax(after)
        return (jnp.exp(logs[0]) * (logs[0] - logs[1])).sum(-1).mean()
    if likelihood in ("mse", "l1"):
        return 0.5 * jnp.square(before - after).sum(-1).mean()
    (m, s), (n, t) = heads(before), heads(after)
    if likelihood == "gaussian":
        return (jnp.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5).sum(-1).mean()
    apart = jnp.abs(m - n)
    return (jnp.log(t / s) + apart / t + s / t * jnp.exp(-apart / s) - 1).sum(-1).mean()


def gradient_sign(loss, inputs, epsilon):
    """The fast gradient sign method."""
    inputs = jnp.asarray(inputs)
    return jax.lax.stop_gradient(inputs + epsilon * jnp.sign(jax.grad(loss)(inputs)))


def virtual_adversarial_loss(predict, inputs, key, epsilon, iterations=1, divergence_of=None):
    """How far the prediction moves under the small change of each input that moves it most."""
    inputs = jnp.asarray(inputs)
    measure = divergence_of or functools.partial(divergence, likelihood="categorical")
    here = jax.lax.stop_gradient(predict(inputs))

    def moved(change):
        return measure(here, predict(inputs + epsilon * change))

    change = _unit(jax.random.normal(key, inputs.shape))
    for _ in range(iterations):
        # The divergence has its minimum at no change, so its Hessian says in which direction it rises
        # fastest. One product with it is one step of the power method.
        change = _unit(jax.jvp(jax.grad(moved), (jnp.zeros_like(inputs),), (change,))[1])
    return moved(jax.lax.stop_gradient(change))


def _unit(change):
    axes = tuple(range(1, change.ndim))
    return change / (jnp.sqrt(jnp.square(change).sum(axis=axes, keepdims=True)) + 1e-12)


def penalty_of(network, penalty):
    """A number that grows with the weights, biases included."""
    if callable(penalty):
        return penalty(network)
    total = sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(network))
    if penalty == "squared":
        return 0.5 * total
    return jnp.sqrt(total + 1e-30)  # the root has no slope at 0


def objective(network, inputs, targets, key, plan, numbers):
    """What is minimised, with the plain loss and the outputs on the clean inputs beside it."""

    def plain(inputs):
        outputs = outputs_of(network, inputs, plan.activation)
        return data_loss(outputs, targets, plan.likelihood), outputs

    clean, outputs = plain(inputs)
    loss = clean
    if plan.adversarial == "gradient_sign":
        attacked = gradient_sign(lambda x: plain(x)[0], inputs, numbers.epsilon)
        loss = 0.5 * (clean + plain(attacked)[0])
    elif plan.adversarial == "virtual":
        loss = clean + virtual_adversarial_loss(
            lambda x: outputs_of(network, x, plan.activation),
            inputs,
            key,
            numbers.epsilon,
            divergence_of=functools.partial(divergence, likelihood=plan.likelihood),
        )
    if plan.decays:
        loss = loss + numbers.weight_decay * penalty_of(network, plan.penalty)
    right = jnp.mean(outputs.argmax(-1) == targets) if plan.likelihood == "categorical" else 0.0
    return loss, (clean, right)


# --- training -----------------------------------------------------------------------------------------


def adam(weights, state, gradient, rate):
    """One step of Adam (Kingma and Ba 2015), as torch takes it."""
    count, first, second = state
    count = count + 1
    first = BETAS[0] * first + (1 - BETAS[0]) * gradient
    second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
    # 1 - beta ** count, without the cancellation that float32 would suffer from.
    ahead, spread = (-jnp.expm1(count * math.log(beta)) for beta in BETAS)
    weights = weights - rate * (first / ahead) / (jnp.sqrt(second / spread) + ADAM_EPSILON)
    return weights, (count, first, second)


def resamples(generators, examples):
    """A bootstrap resample for each member, shape (M, N): by NumPy, like all that a compiler need not see."""
    return np.stack([rng.integers(examples, size=examples, dtype=np.int32) for rng in generators])


def orders(generators, examples, epochs, batch_size):
    """Which examples each step sees, shape (M, steps, batch_size); a rest waits for another epoch."""
    whole = examples // batch_size * batch_size
    drawn = [[rng.permutation(examples)[:whole] for _ in range(epochs)] for rng in generators]
    return np.array(drawn, np.int32).reshape(len(generators), -1, batch_size)


def train_member(network, bits, resample, order, inputs, targets, plan, numbers, epochs):
    """Train one network: every step in one scan."""
    key = jax.random.wrap_key_data(bits)
    if resample is not None:
        inputs, targets = inputs[resample], targets[resample]
    steps = epochs if order is None else len(order)
    # One vector of all weights: Adam is then a handful of operations, however many layers there are.
    weights, unravel = ravel_pytree(network)
    slope = jax.value_and_grad(lambda weights, *seen: objective(unravel(weights), *seen), has_aux=True)

    def step(carry, seen):
        weights, state = carry
        number, batch = seen
        x, y = (inputs, targets) if batch is None else (inputs[batch], targets[batch])
        noise = jax.random.fold_in(key, number) if plan.adversarial == "virtual" else None
        (loss, (clean, right)), gradient = slope(weights, x, y, noise, plan, numbers)
        rate = numbers.learning_rate
        if plan.schedule == "cosine":
            rate = rate * 0.5 * (1 + jnp.cos(jnp.pi * number / steps))
        return adam(weights, state, gradient, rate), (loss, clean, right)

    zeros = jnp.zeros_like(weights)
    carry, told = jax.lax.scan(step, (weights, (0, zeros, zeros)), (jnp.arange(steps), order))
    return unravel(carry[0]), tuple(one.reshape(epochs, -1).mean(axis=1) for one in told)


@functools.partial(jax.jit, static_argnames=("plan", "epochs"))
def train(networks, bits, inputs, targets, plan, numbers, *, epochs, resample=None, order=None):
    """Train all members at once; returns their weights and (loss, plain loss, accuracy), each (M, epochs)."""

    def one(network, bits, resample, order):
        return train_member(network, bits, resample, order, inputs, targets, plan, numbers, epochs)

    return jax.vmap(one)(networks, bits, resample, order)
