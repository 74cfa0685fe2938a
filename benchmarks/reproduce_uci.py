"""Regression tables of the UCI repository: ensembles of five and MC-Dropout, on the published 20 splits.

Networks of one hidden layer of 50 units. All splits, members and settings of a
table are trained at once: they are axes of one array. Inputs and targets are
standardised by the training part of each split; every figure is in the units of
the table.
"""

import functools
import hashlib

import numpy as np

from benchmarks.reproduce import kept
from benchmarks.tables import markdown
from uqhelpers import data
from uqhelpers.data.archives import data_folder

SCRIPT = "reproduce_uci"
SPLITS = 20
HIDDEN = 50
MEMBERS = 5
BATCH = {"ensemble": 100, "MC-Dropout": 128}
VALIDATION = 0.2  # of the training part of a split, to choose settings by; then all of it is trained on

# As published: 40 epochs at a rate of .1; and what each split's own validation part chooses from.
RATE, EPOCHS, ATTACK = 0.1, 40, 0.01
RATES = (0.1, 0.01, 0.001)
LENGTHS = {"small": (40, 400), "large": (40, 120)}  # epochs to choose from
DROPOUT_RATES = (0.005, 0.01, 0.05, 0.1)
DROPOUT_RATE_OF_ADAM = 1e-2
DROPOUT_EPOCHS = {"small": 500, "large": 50}
LARGE = 5000  # training rows from which on a table is large: an epoch of it has more steps
NOISES = tuple(np.geomspace(0.02, 1.5, 30).tolist())  # in standard deviations of the targets
PASSES = {"validation": 100, "test": 500}
CHUNK = 20  # epochs that are compiled as one

TABLES = {
    "concrete": ("concrete.txt", "3a0d46c88b95e3181e5a29475b3a2e04"),
    "energy": ("energy.txt", "261d4267aec44ab19d18cca07eb7060f"),
    "yacht": ("yacht.txt", "7f76e247bb7ca38df3f1a5e918697b3f"),
    "wine": ("wine-quality-red.txt", "4db64a13e3668d394c63b75404fe056d"),
    "kin8nm": ("kin8nm.txt", "d98fb393cdd2a57256699f8968d4d632"),
    "power": ("power-plant.txt", "f2ad3f95e94df8c23b6c257761bfc28b"),
}

# RMSE and NLL. Table 1 of the paper on deep ensembles; "again" is a later run by MC-Dropout's authors (2018).
PUBLISHED = {
    "concrete": {"ensemble": (6.03, 3.06), "MC-Dropout": (5.23, 3.04), "MC-Dropout again": (4.82, 2.93)},
    "energy": {"ensemble": (2.09, 1.38), "MC-Dropout": (1.66, 1.99), "MC-Dropout again": (0.54, 1.21)},
    "yacht": {"ensemble": (1.58, 1.18), "MC-Dropout": (1.11, 1.55), "MC-Dropout again": (0.67, 1.25)},
}
COLUMNS = {
    "ensemble published": "ensemble: published",
    "ensemble": "ours, their rate and epochs",
    "adversarial": "ours, adversarial",
    "tuned": "ours, chosen by validation",
    "MC-Dropout published": "MC-Dropout: published",
    "MC-Dropout again published": "again, 2018",
    "MC-Dropout": "MC-Dropout: ours",
}
DIGITS = {"concrete": 2, "energy": 2, "yacht": 2, "wine": 3, "kin8nm": 4, "power": 2}


# --- the tables -----------------------------------------------------------------------------------


def table(name):
    """Inputs (N, D) and targets (N,) of one table, checked against its md5."""
    file, md5 = TABLES[name]
    folder = data_folder()
    path = folder / "uci" / file if folder else None
    if path is None or not path.exists():
        raise data.DataUnavailable(f"uci/{file}: set UQHELPERS_DATA to a folder that holds it")
    content = path.read_bytes()
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise ValueError(f"{path}: expected a file with md5 {md5}, got another")
    rows = np.loadtxt(content.decode().splitlines())
    return rows[:, :-1], rows[:, -1]


def splits(rows, count=SPLITS):
    """The published splits of a table.

    Parameters
    ----------
    rows : int
        Of the table.
    count : int
        How many splits.

    Returns
    -------
    train, test : arrays of int, shape (count, round(.9 rows)) and (count, the rest)
        Row numbers, in the published order.
    """
    rng = np.random.RandomState(1)
    order = np.stack([rng.choice(range(rows), rows, replace=False) for _ in range(count)])
    return np.split(order, [round(0.9 * rows)], axis=1)


def standardised(values, like):
    """Rows of each split in standard deviations of its training rows, with the means and deviations.

    ``values`` and ``like`` have shape (S, N, ...) and (S, M, ...); a column that is constant stays at 0.
    """
    mean, std = like.mean(axis=1, keepdims=True), like.std(axis=1, keepdims=True)
    std = np.where(std == 0, 1.0, std)
    return (values - mean) / std, mean, std


# --- many small networks at once ------------------------------------------------------------------
# Axes of everything below: S splits, G networks a split (members or settings), B or N inputs.


def he_networks(splits, networks, inputs, outputs, seed):
    """Weights of S × G networks, all their own: a dict of arrays with the leading axes (S, G)."""
    rng = np.random.default_rng(seed)

    def weights(fan_in, fan_out):
        shape = (splits, networks, fan_in, fan_out)
        return (rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)

    zeros = functools.partial(np.zeros, dtype=np.float32)
    return {
        "w": weights(inputs, HIDDEN),
        "b": zeros((splits, networks, 1, HIDDEN)),
        "v": weights(HIDDEN, outputs),
        "c": zeros((splits, networks, 1, outputs)),
    }


def apply(params, x, key=None, rates=None):
    """Outputs (S, G, B, K) for inputs (S, G, B, D), or (S, 1, B, D) for all networks of a split.

    With a key, inputs and hidden units are dropped at the rates (S, G).
    """
    import jax
    import jax.numpy as jnp

    def drop(values, key):
        if key is None:
            return values
        shape = jnp.broadcast_shapes(values.shape, (*rates.shape, 1, 1))
        # 16 random bits decide as well as 32, in half the time.
        kept = jax.random.bits(key, shape, jnp.uint16) >= (rates[..., None, None] * 2**16).astype(jnp.uint16)
        return jnp.where(kept, values / (1 - rates[..., None, None]), 0.0)

    first, second = (None, None) if key is None else jax.random.split(key)
    hidden = jax.nn.relu(drop(x, first) @ params["w"] + params["b"])
    return drop(hidden, second) @ params["v"] + params["c"]


def gaussian_losses(outputs, y):
    """Negative log-likelihood of each network, shape (S, G), without its constant."""
    import jax.numpy as jnp

    mean, variance = mean_and_variance(outputs)
    return 0.5 * (jnp.log(variance) + (y - mean) ** 2 / variance).mean(axis=-1)


def mean_and_variance(outputs):
    """Both, from outputs (..., 2): the variance as softplus + 1e-6, as the paper has it."""
    import jax

    return outputs[..., 0], jax.nn.softplus(outputs[..., 1]) + 1e-6


def squared_losses(outputs, y):
    """Mean squared error of each network, shape (S, G)."""
    return ((y - outputs[..., 0]) ** 2).mean(axis=-1)


@functools.cache
def trainer(likelihood, dropout, adversarial, batch):
    """A compiled function that goes on training for as many epochs as it is given keys."""
    import jax
    import jax.numpy as jnp

    losses = {"gaussian": gaussian_losses, "squared": squared_losses}[likelihood]

    def objective(params, x, y, key, settings):
        def clean(x):
            return losses(apply(params, x, key if dropout else None, settings["dropout"]), y).sum()

        if not adversarial:
            return clean(x)
        attacked = x + settings["attack"] * jnp.sign(jax.lax.stop_gradient(jax.grad(clean)(x)))
        return clean(x) + clean(attacked)

    def advance(state, keys, x, y, settings):
        rows, networks = x.shape[1], settings["rate"].shape[1]
        steps = -(-rows // batch)

        def step(state, argument):
            params, first, second, count = state
            index, key = argument
            gradient = jax.grad(objective)(params, x[:, index], y[:, index], key, settings)
            count = count + 1
            rate = settings["rate"][..., None, None] * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            tree = jax.tree.map
            first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
            second = tree(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradient)
            params = tree(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, first, second)
            return (params, first, second, count), None

        def epoch(state, key):
            order, masks = jax.random.split(key)
            # Each network of a split has its own order; the rows are each split's own in any case.
            shuffled = jax.random.permutation(
                order, jnp.tile(jnp.arange(rows), (networks, 1)), 1, independent=True
            )
            # The last batch is filled up from the epoch's beginning.
            filled = jnp.concatenate([shuffled, shuffled[:, : steps * batch - rows]], axis=1)
            batches = filled.reshape(networks, steps, batch).swapaxes(0, 1)
            return jax.lax.scan(step, state, (batches, jax.random.split(masks, steps)))

        return jax.lax.scan(lambda state, key: epoch(state, key), state, keys)[0]

    return jax.jit(advance)


class Training:
    """S × G networks while they are trained.

    Parameters
    ----------
    x, y : array, shape (S, N, D) and (S, N)
        Standardised.
    rate : array, shape (S, G)
        Of Adam, a network.
    likelihood : {"gaussian", "squared"}
        The loss, and with it the number of outputs.
    batch, seed : int
        Inputs a step; what initialisation, order and masks come from.
    dropout : array, shape (S, G), optional
        Dropout rates.
    attack : array, shape (S, 1, 1, D), optional
        Length of the adversarial step for each input column.
    """

    def __init__(self, x, y, rate, *, likelihood, batch, seed, dropout=None, attack=None):
        import jax
        import jax.numpy as jnp

        self.x, self.y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
        self.settings = {"rate": jnp.asarray(rate, jnp.float32)}
        self.settings["dropout"] = (
            jnp.zeros_like(self.settings["rate"]) if dropout is None else jnp.asarray(dropout, jnp.float32)
        )
        self.settings["attack"] = jnp.float32(0) if attack is None else jnp.asarray(attack, jnp.float32)
        self._advance = trainer(likelihood, dropout is not None, attack is not None, min(batch, x.shape[1]))
        outputs = {"gaussian": 2, "squared": 1}[likelihood]
        params = he_networks(*np.shape(rate), x.shape[2], outputs, seed)
        zeros = jax.tree.map(np.zeros_like, params)
        self._state = (params, zeros, zeros, jnp.float32(0))
        self._key = jax.random.key(seed, impl="rbg")  # masks by the million: the faster generator

    def advance(self, epochs):
        """Train for some more epochs; returns the parameters."""
        import jax

        for start in range(0, epochs, CHUNK):
            self._key, part = jax.random.split(self._key)
            keys = jax.random.split(part, min(CHUNK, epochs - start))
            self._state = self._advance(self._state, keys, self.x, self.y, self.settings)
        return jax.tree.map(np.asarray, self._state[0])


# --- scores ---------------------------------------------------------------------------------------


def mixture(params, x):
    """Mean and variance of the mixture of a split's networks, each of shape (S, N), for inputs (S, N, D)."""
    import jax.numpy as jnp

    mean, variance = mean_and_variance(apply(params, jnp.asarray(x[:, None], jnp.float32)))
    mean, variance = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
    return mean.mean(axis=1), (variance + mean**2).mean(axis=1) - mean.mean(axis=1) ** 2


def gaussian_scores(mean, variance, y):
    """RMSE and NLL of each split, (S,) each, of one Gaussian an input: all arguments of shape (S, N)."""
    error = y - mean
    nll = 0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
    return np.sqrt((error**2).mean(axis=1)), nll.mean(axis=1)


@functools.cache
def sampler(passes):
    """A compiled function: predictions (T, S, G, N) of networks that drop units."""
    import jax

    @jax.jit
    def draw(params, x, rates, key):
        def one(_, key):
            return None, apply(params, x[:, None], key, rates)[..., 0]

        return jax.lax.scan(one, None, jax.random.split(key, passes))[1]

    return draw


def dropout_samples(params, x, rates, passes, seed):
    """Predictions of so many passes, shape (T, S, G, N), float32."""
    import jax
    import jax.numpy as jnp

    key = jax.random.key(seed, impl="rbg")
    return np.asarray(
        sampler(passes)(params, jnp.asarray(x, jnp.float32), jnp.asarray(rates, jnp.float32), key)
    )


def mixture_of_passes_nll(samples, noise, y):
    """NLL of passes with Gaussian noise of one size around each.

    Parameters
    ----------
    samples : array, shape (T, ..., N)
        Predictions of T passes.
    noise : array, shape (...)
        Standard deviation.
    y : array, shape (..., N)
        Targets.

    Returns
    -------
    array, shape (...)
        Mean over the N inputs of -log mean over the passes of the density.
    """
    noise = np.asarray(noise)[..., None]
    exponent = -0.5 * ((y - samples) / noise) ** 2
    top = exponent.max(axis=0)
    density = top + np.log(np.exp(exponent - top).mean(axis=0))
    return (0.5 * np.log(2 * np.pi) + np.log(noise) - density).mean(axis=-1)


# --- the methods ----------------------------------------------------------------------------------


class Split:
    """A table in its splits: training and test part of each, standardised by the training part."""

    def __init__(self, x, y, train, test):
        self.x, _, _ = standardised(x[train], x[train])
        self.x_test, _, _ = standardised(x[test], x[train])
        self.y, self.mean, self.std = standardised(y[train], y[train])
        self.y_test = (y[test] - self.mean) / self.std

    def in_units(self, rmse, nll):
        """Scores of standardised targets in units of the table, as lists."""
        std = self.std[:, 0]
        return {"rmse": (rmse * std).tolist(), "nll": (nll + np.log(std)).tolist()}


def parts(name, count=SPLITS):
    """The splits to report, and the same with a part of the training rows as test part, to choose by."""
    x, y = table(name)
    train, test = splits(len(x), count)
    inner = round((1 - VALIDATION) * train.shape[1])
    return Split(x, y, train, test), Split(x, y, train[:, :inner], train[:, inner:])


def ensemble_of(split, rate, epochs, seed, adversarial=False):
    """Scores of ensembles of one setting for all splits."""
    attack = ATTACK * np.ptp(split.x, axis=1)[:, None, None] if adversarial else None
    rates = np.full((len(split.x), MEMBERS), rate)
    training = Training(
        split.x, split.y, rates, likelihood="gaussian", batch=BATCH["ensemble"], seed=seed, attack=attack
    )
    return gaussian_scores(*mixture(training.advance(epochs), split.x_test), split.y_test)


def size(split):
    """Whether a table is small or large."""
    return "large" if split.x.shape[1] >= LARGE else "small"


def lengths(split, rates, seed):
    """Scores of ensembles after each number of epochs to choose from; one rate a split in ``rates``, (S,)."""
    per_network = np.repeat(np.asarray(rates)[:, None], MEMBERS, axis=1)
    training = Training(
        split.x, split.y, per_network, likelihood="gaussian", batch=BATCH["ensemble"], seed=seed
    )
    found = []
    for more in np.diff((0, *LENGTHS[size(split)])):
        params = training.advance(int(more))
        found.append(gaussian_scores(*mixture(params, split.x_test), split.y_test))
    return found


def tuned_ensemble(split, inner, seed):
    """Rate and epochs chosen for each split by the NLL of its own validation part, then trained anew."""
    count = len(split.x)
    nll = np.array([[scores[1] for scores in lengths(inner, np.full(count, rate), seed)] for rate in RATES])
    best = np.nan_to_num(nll, nan=np.inf).reshape(-1, count).argmin(axis=0)
    rate, length = np.unravel_index(best, nll.shape[:2])
    scores = np.array(lengths(split, np.take(RATES, rate), seed + 1))  # (lengths, 2, S)
    rmse, nll = scores[length, :, np.arange(count)].T
    return (
        rmse,
        nll,
        {"rate": np.take(RATES, rate).tolist(), "epochs": np.take(LENGTHS[size(split)], length).tolist()},
    )


def dropout_of(split, inner, epochs, seed):
    """MC-Dropout: rate and noise chosen for each split by its own validation part, then trained anew."""
    count = len(split.x)

    def networks(part, rates, seed):
        adam = np.full(rates.shape, DROPOUT_RATE_OF_ADAM)
        batch = BATCH["MC-Dropout"]
        return Training(
            part.x, part.y, adam, likelihood="squared", batch=batch, seed=seed, dropout=rates
        ).advance(epochs)

    rates = np.tile(DROPOUT_RATES, (count, 1))
    params = networks(inner, rates, seed)
    samples = dropout_samples(params, inner.x_test, rates, PASSES["validation"], seed)
    y = inner.y_test[:, None]
    nll = np.stack(
        [mixture_of_passes_nll(samples, np.full(rates.shape, noise), y) for noise in NOISES], axis=-1
    )
    best = nll.reshape(count, -1).argmin(axis=1)
    rate, noise = np.unravel_index(best, nll.shape[1:])
    # The noise is a length in the table's units; both parts are standardised a little differently.
    noise = np.take(NOISES, noise) * inner.std[:, 0] / split.std[:, 0]

    chosen = np.take(DROPOUT_RATES, rate)[:, None]
    params = networks(split, chosen, seed + 1)
    samples = dropout_samples(params, split.x_test, chosen, PASSES["test"], seed + 1)[:, :, 0]
    error = split.y_test - samples.mean(axis=0, dtype=np.float64)
    rmse = np.sqrt((error**2).mean(axis=1))
    nll = mixture_of_passes_nll(samples, noise, split.y_test)
    return rmse, nll, {"dropout": chosen[:, 0].tolist(), "noise": (noise * split.std[:, 0]).tolist()}


def ensemble_part(name):
    """Three ensembles of one table."""
    split, inner = parts(name)
    rmse, nll, chosen = tuned_ensemble(split, inner, seed=0)
    return {
        "ensemble": split.in_units(*ensemble_of(split, RATE, EPOCHS, seed=0)),
        "adversarial": split.in_units(*ensemble_of(split, RATE, EPOCHS, seed=0, adversarial=True)),
        "tuned": {**split.in_units(rmse, nll), "chosen": chosen},
    }


def dropout_part(name):
    """MC-Dropout of one table."""
    split, inner = parts(name)
    rmse, nll, chosen = dropout_of(split, inner, DROPOUT_EPOCHS[size(split)], seed=0)
    return {"MC-Dropout": {**split.in_units(rmse, nll), "chosen": chosen}}


# --- the page -------------------------------------------------------------------------------------


def reproduce(seeds=(0,)):
    """All tables beside the published figures.

    Returns
    -------
    dict, str, tuple of int
        The figures of each split, a Markdown page, and the seeds.
    """
    found = {name: {} for name in TABLES}
    for part, compute in {"ensemble": ensemble_part, "dropout": dropout_part}.items():
        for name in TABLES:
            found[name] |= kept(SCRIPT, f"{name}-{part}", lambda name=name, compute=compute: compute(name))
    return {"tables": found, "published": PUBLISHED}, page(found), seeds


def with_error(values, digits):
    """Mean over the splits ± standard error of that mean."""
    values = np.asarray(values)
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


KEYS = ("rmse", "nll")


def cell(found, name, column, index):
    """One cell: ours with its standard error, or the published figure where there is one."""
    if column.endswith(" published"):
        figures = PUBLISHED.get(name, {}).get(column.removesuffix(" published"))
        return f"{figures[index]:.2f}" if figures else ""
    digits = DIGITS[name] if index == 0 else 2
    return with_error(found[name][column][KEYS[index]], digits)


def median_cell(found, name, column, index):
    """One cell: the median over the splits, which one diverged training does not move."""
    return f"{np.median(found[name][column][KEYS[index]]):.{DIGITS[name] if index == 0 else 2}f}"


def table_of(found, columns, write, index):
    """One table as Markdown: a line for each data set, its cells written by ``write``."""
    rows = [[name, *(write(found, name, column, index) for column in columns)] for name in found]
    return markdown(["table", *columns.values()], rows)


def listed(values):
    """Values with commas."""
    return ", ".join(map(str, values))


def page(found):
    """The tables as Markdown."""
    ours = {name: label for name, label in COLUMNS.items() if not name.endswith(" published")}
    means, medians = [], []
    for index, score in enumerate(("RMSE", "NLL (nats)")):
        means += [
            f"{score}, in the units of each table's target:",
            "",
            table_of(found, COLUMNS, cell, index),
            "",
        ]
        medians += [f"{score}, median over the splits:", "", table_of(found, ours, median_cell, index), ""]
    return "\n".join(
        [
            "# UCI regression: ensembles of five and MC-Dropout",
            "",
            f"The {SPLITS} published splits of each table, nine tenths to train on. Mean ± standard error "
            f"over the splits; one hidden layer of {HIDDEN} ReLU units; inputs and targets standardised by "
            "the training part of each split. Empty: no published figure at hand.",
            "",
            *means,
            "At the largest rates a training diverges now and then, and one split out of twenty then makes "
            "the mean. The medians say what usually happens. Validation does not always prevent it: a rate "
            "that went well on four fifths of the rows may diverge on all of them.",
            "",
            *medians,
            "Ensembles: five networks that put out a mean and a variance, Adam, batches of "
            f"{BATCH['ensemble']}, the Gaussian NLL; scored as one Gaussian with the moments of the mixture. "
            f"*Their rate and epochs*: {RATE} and {EPOCHS}, as published. *Adversarial*: the same, with a "
            f"step along the gradient's sign as long as {ATTACK:.0%} of each input's range; the published "
            f"ensembles are trained so. *Chosen by validation*: rate out of {listed(RATES)} and epochs out "
            f"of {listed(LENGTHS['small'])} ({listed(LENGTHS['large'])} for kin8nm and power), for each "
            f"split by the NLL of the last {VALIDATION:.0%} of its training rows, without attack; then "
            "trained anew on all of them. Where *their rate and epochs* end far from the published figures, "
            "the published set-up had something that its description, or ours, leaves out.",
            "",
            "MC-Dropout: dropout before both layers, squared error, Adam at "
            f"{DROPOUT_RATE_OF_ADAM}, batches of {BATCH['MC-Dropout']}, {DROPOUT_EPOCHS['small']:,} epochs "
            f"({DROPOUT_EPOCHS['large']} for kin8nm and power); dropout rate out of {listed(DROPOUT_RATES)} "
            f"and the noise out of {len(NOISES)} sizes, for each split by the same validation rows; "
            f"{PASSES['test']} passes. The published networks have 10,000 passes, fewer noises to choose "
            "from, and a weight decay that follows from the noise, too small to matter and left out here; "
            "those of 2018 are trained several times as long.",
        ]
    )
