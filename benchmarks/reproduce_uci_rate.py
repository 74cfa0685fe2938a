"""Why the published rate fails in our re-run of the UCI tables: one thing changed at a time.

Ensembles of five as in ``reproduce_uci``, 40 epochs of batches of 100, on the
published splits. What changes: the first weights, the rate, whether it falls,
whether the gradient is bounded, and the likelihood.
"""

import functools

import numpy as np

from benchmarks import reproduce_uci as uci
from benchmarks.reproduce import kept
from benchmarks.tables import markdown

SCRIPT = "reproduce_uci_rate"
NAMES = ("energy", "concrete", "kin8nm")
BOUND = 1.0  # of the gradient's norm

# RMSE and NLL: table 1 of the paper, and the log of a public re-run.
PUBLISHED = {"energy": ((2.09, 1.38), (2.3, 1.6)), "concrete": ((6.03, 3.06), (6.1, 3.1))}
PUBLISHED["kin8nm"] = ((None, None), (0.09, -1.15))  # of the paper's, no figure at hand
CHANGES = {
    "their rate and epochs": {},
    "first weights uniform, ± 1/√inputs": {"uniform": True},
    "gradient bounded": {"bounded": True},
    "rate falls to 0": {"falling": True},
    "uniform weights, rate falls to 0": {"uniform": True, "falling": True},
    "rate 0.01": {"rate": 0.01},
    "squared error, no variance": {"squared": True},
}


def uniform_networks(splits, networks, inputs, outputs, seed):
    """First weights and biases uniform within one over the root of a layer's inputs: torch's default."""
    rng = np.random.default_rng(seed)

    def layer(fan_in, fan_out):
        draw = functools.partial(rng.uniform, -(fan_in**-0.5), fan_in**-0.5)
        shapes = (splits, networks, fan_in, fan_out), (splits, networks, 1, fan_out)
        return [draw(shape).astype(np.float32) for shape in shapes]

    return dict(zip("wbvc", layer(inputs, uci.HIDDEN) + layer(uci.HIDDEN, outputs), strict=True))


@functools.cache
def trainer(bounded, falling, squared):
    """A compiled training of S × G networks along the batches of ``orders``."""
    import jax
    import jax.numpy as jnp

    losses = uci.squared_losses if squared else uci.gaussian_losses

    @jax.jit
    def train(params, x, y, order, rate):
        steps = order.shape[0]
        per_network = functools.partial(jnp.expand_dims, axis=(-1, -2))

        def step(state, argument):
            params, first, second = state
            count, index = argument
            objective = lambda p: losses(uci.apply(p, x[:, index]), y[:, index]).sum()  # noqa: E731
            gradient = jax.grad(objective)(params)
            if bounded:
                squares = ((part**2).sum(axis=(-1, -2)) for part in jax.tree.leaves(gradient))
                norm = jnp.sqrt(sum(squares))
                factor = per_network(jnp.minimum(1, BOUND / norm))
                gradient = jax.tree.map(lambda part: part * factor, gradient)
            now = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            if falling:
                now = now * (1 - count / steps)
            tree = jax.tree.map
            first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
            second = tree(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradient)
            params = tree(lambda p, m, v: p - now * m / (jnp.sqrt(v) + 1e-8), params, first, second)
            return (params, first, second), None

        zeros = jax.tree.map(jnp.zeros_like, params)
        return jax.lax.scan(step, (params, zeros, zeros), (jnp.arange(1.0, steps + 1), order))[0][0]

    return train


def orders(rows, networks, epochs, batch, seed):
    """Row numbers of every step and network, (steps, networks, batch); the last batch is filled up."""
    rng = np.random.default_rng(seed)
    steps = -(-rows // batch)
    shuffled = np.stack(
        [[rng.permutation(rows) for _ in range(networks)] for _ in range(epochs)]
    )  # (epochs, networks, rows)
    filled = np.concatenate([shuffled, shuffled[..., : steps * batch - rows]], axis=-1)
    return filled.reshape(epochs, networks, steps, batch).swapaxes(1, 2).reshape(-1, networks, batch)


def changed(split, rate=uci.RATE, uniform=False, bounded=False, falling=False, squared=False, seed=0):
    """Scores of one set-up for all splits, in the units of the table."""
    import jax.numpy as jnp

    count, rows, inputs = split.x.shape
    start = uniform_networks if uniform else uci.he_networks
    order = orders(rows, uci.MEMBERS, uci.EPOCHS, min(uci.BATCH["ensemble"], rows), seed)
    x, y = jnp.asarray(split.x, jnp.float32), jnp.asarray(split.y, jnp.float32)
    begin = start(count, uci.MEMBERS, inputs, 1 if squared else 2, seed)
    params = trainer(bounded, falling, squared)(begin, x, y, jnp.asarray(order), rate)
    if squared:
        mean = np.asarray(uci.apply(params, jnp.asarray(split.x_test[:, None], jnp.float32)), np.float64)
        error = mean[..., 0].mean(axis=1) - split.y_test
        return {"rmse": (np.sqrt((error**2).mean(axis=1)) * split.std[:, 0]).tolist(), "nll": None}
    return split.in_units(*uci.gaussian_scores(*uci.mixture(params, split.x_test), split.y_test))


def table_part(name):
    """All changes on one table."""
    split, _ = uci.parts(name)
    return {label: changed(split, **change) for label, change in CHANGES.items()}


def reproduce(seeds=(0,)):
    """One thing changed at a time.

    Returns
    -------
    dict, str, tuple of int
        The figures of each split, a Markdown page, and the seeds.
    """
    found = {name: kept(SCRIPT, name, functools.partial(table_part, name)) for name in NAMES}
    return {"tables": found, "published": PUBLISHED}, page(found), seeds


def cells(name, row):
    """RMSE and NLL of one set-up, with their standard errors."""
    nll = "–" if row["nll"] is None else uci.with_error(row["nll"], 2)
    return [uci.with_error(row["rmse"], uci.DIGITS[name]), nll]


def page(found):
    """The table, and what it says."""
    written = lambda value: "" if value is None else f"{value:g}"  # noqa: E731
    rows = [
        [label, *(written(value) for name in found for value in PUBLISHED[name][index])]
        for index, label in enumerate(("published", "a public re-run"))
    ]
    for label in CHANGES:
        rows.append([label, *(cell for name in found for cell in cells(name, found[name][label]))])
    mean = lambda name, label: np.mean(found[name][label]["rmse"])  # noqa: E731
    plain = "their rate and epochs"
    return "\n".join(
        [
            "# UCI regression: why the published rate fails here",
            "",
            f"Ensembles of five without attack on the {uci.SPLITS} splits, {uci.EPOCHS} epochs, Adam at a "
            f"rate of {uci.RATE} where nothing else is said; one or two things are changed at a time. "
            "Mean ± standard error.",
            "",
            markdown(["what is changed", *(f"{name}: {s}" for name in found for s in ("RMSE", "NLL"))], rows),
            "",
            "It is not the rate by itself: with the squared error alone the same rate does well on "
            f"energy (RMSE {mean('energy', 'squared error, no variance'):.2f}). A network that also names "
            "its variance has the error *over that variance* as its gradient, and at this rate such a "
            "training does not settle, in one split and member badly and in the next not at all: hence "
            f"the large spread. On energy a gradient whose norm is bounded at {BOUND:g} does by itself "
            f"what is missing (RMSE {mean('energy', plain):.1f} without, "
            f"{mean('energy', 'gradient bounded'):.1f} with); on kin8nm it does not "
            f"({mean('kin8nm', plain):.3f} and {mean('kin8nm', 'gradient bounded'):.3f}), and a rate that "
            f"falls does ({mean('kin8nm', 'rate falls to 0'):.3f}). Smaller first weights and a falling "
            "rate together, or a rate of 0.01, bring all three tables near the figures of others, and a "
            "rate of 0.01 nearest to the public re-run. (The same set-up in the table above drew other "
            "first weights, and its mean on energy is twice as large: a few bad splits make it.) The paper "
            "names no bound, no falling rate and no first weights. Others met the same: Donval and "
            "Aliome, who reproduced the paper for a course, report that the published rate was unstable, "
            "and took 0.01.",
        ]
    )
