"""Small ensembles in JAX: all members in one ``vmap``, all steps in one ``scan``, beside a Python loop.

The loop is what tutorials write: one jitted step of Adam, called for every
step of every member. Both train the same networks from the same weights. In
each row ``ratio`` is our time over the loop's: below 1 we are faster. A row
says whether compilation is in it; where it is, both begin with empty caches. The
limit: the same products of matrices, forward and back, compiled, and nothing else.
"""

import dataclasses
from itertools import pairwise

from benchmarks.limits import Limit
from benchmarks.timing import installed, row
from uqhelpers import deep_ensembles
from uqhelpers.data import toys

HIDDEN = (10, 6, 30)


def plain_loop(x, y, members, steps, learning_rate=1e-2):
    """A function that compiles one step, and one that trains every member with it, one after the other."""
    import jax
    import jax.numpy as jnp

    from uqhelpers.deep_ensembles import jax_ground

    generators, _ = jax_ground.streams(0, members)
    stacked = jax_ground.initialise(generators, (1, *HIDDEN, 2), "he")
    networks = [jax.tree.map(lambda leaf: jnp.asarray(leaf[m]), stacked) for m in range(members)]  # noqa: B023
    x, y = ((one - one.mean()) / one.std() for one in (x, y))
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)

    def loss(network):
        hidden = x
        for weight, bias in network[:-1]:
            hidden = jax.nn.relu(hidden @ weight + bias)
        weight, bias = network[-1]
        outputs = hidden @ weight + bias
        return jax_ground.data_loss(outputs, y, "gaussian")

    def update(network, count, first, second):
        value, slope = jax.value_and_grad(loss)(network)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, slope)
        ahead, spread = 1 - 0.9**count, 1 - 0.999**count
        network = jax.tree.map(
            lambda w, m, v: w - learning_rate * (m / ahead) / (jnp.sqrt(v / spread) + 1e-8),
            network,
            first,
            second,
        )
        return network, first, second, value

    step = jax.jit(update)

    def train():
        trained = []
        for network in networks:
            first = second = jax.tree.map(jnp.zeros_like, network)
            for count in range(1, steps + 1):
                network, first, second, _ = step(network, float(count), first, second)
            trained.append(network)
        return jax.block_until_ready(trained)

    return train


def products(members, steps, points):
    """Forward, and back to weights and inputs: three products a layer and step, and nothing else."""
    import jax
    import jax.numpy as jnp

    widths = (1, *HIDDEN, 2)
    inputs = [jnp.ones((members, points, width)) for width in widths]
    weights = [jnp.ones((members, before, after)) for before, after in pairwise(widths)]

    def step(carried, _):
        for x, weight, y in zip(inputs, weights, inputs[1:], strict=False):
            forward = (x + carried) @ weight  # what is carried keeps the compiler from doing it once for all
            slope, back = x.swapaxes(1, 2) @ (y + carried), (y + carried) @ weight.swapaxes(1, 2)
            carried = carried + 1e-9 * (forward.sum() + slope.sum() + back.sum())
        return carried, None

    @jax.jit
    def run():
        return jax.lax.scan(step, jnp.float32(0), None, length=steps)[0]

    run()
    return Limit(
        "the products of all steps, forward and back, compiled", lambda: jax.block_until_ready(run())
    )


def rows(members=(6, 32), steps=600, repeats=5):
    """Measure everything once; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    members : sequence of int
        Sizes of the ensembles.
    steps : int
        Full-batch steps of Adam.
    repeats : int
        The shortest of so many times counts; with compilation, of two.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``; none where JAX is not installed.
    """
    if not installed("jax"):
        return []
    import jax

    x, y = toys.cubic()
    table = []
    for count in members:
        ensemble = deep_ensembles.RegressionEnsemble(HIDDEN, count, epochs=steps)
        loop = plain_loop(x, y, count, steps)
        widths = "-".join(map(str, (1, *HIDDEN, 2)))
        least = products(count, steps, len(x))
        size = f"{count} networks {widths}, {len(x)} points, {steps} full-batch steps of Adam"

        def ours(ensemble=ensemble):
            ensemble.fit(x, y)

        def compiled(run):
            """The same with nothing compiled before."""

            def fresh():
                jax.clear_caches()
                run()

            return fresh

        beside = "Python loop over members of a jitted step"
        ours(), loop()  # compiled before the clock runs
        table.append(
            row(
                f"{count} members",
                ours,
                beside,
                loop,
                repeats,
                f"{size}; compiled before; bound 1/8",
                dataclasses.replace(least, why="the losses, Adam, and what is copied in and out"),
            )
        )
        table.append(
            row(
                f"{count} members, compilation included",
                compiled(ours),
                beside,
                compiled(loop),
                min(2, repeats),
                f"{size}; both begin with empty caches{'; bound 1' if count >= 32 else ''}",
                dataclasses.replace(
                    least,
                    words="the same products, their compilation included",
                    why="a step of training is more to compile than its products",
                ),
            )
        )
    return table
