"""The same idea for real numbers: one protocol, a few methods, a table of likelihoods and intervals."""

import dataclasses
from pathlib import Path

import numpy as np

from uqhelpers import (
    bayesian_linear_regression,
    conformal,
    data,
    deep_ensembles,
    evidential,
    laplace,
    mc_dropout,
    metrics,
    training,
    variational_inference,
)
from uqhelpers._checks import as_real, as_whole
from uqhelpers._torch import torch
from uqhelpers.leaderboard.tables import read
from uqhelpers.models import MLP

__all__ = [
    "REGRESSION_COLUMNS",
    "REGRESSION_METHODS",
    "Intervals",
    "Task",
    "markdown",
    "run",
    "stored",
    "table_task",
    "task",
]

LEVEL = 0.9
HIDDEN, DROPOUT, DRAWS = (64, 64), 0.1, 50
LENGTHS = (15, 50, 150)  # epochs, of which the one network's validation error chooses, for all methods
BUDGET = {"batch_size": 32, "learning_rate": 5e-3, "weight_decay": 1e-4, "optimiser": "adamw"}
TASKS = ("diabetes", "gap")
REGRESSION_COLUMNS = {
    "nll": "NLL (nats)",
    "crps": "CRPS",
    "coverage": "coverage of 90 % intervals",
    "width": "their width",
    "coverage_gap": "coverage in the gap",
    "width_gap": "width in the gap",
}
"""The columns by name. CRPS and widths are in standard deviations of the targets."""


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """Data of a regression, split: pairs ``(x, y)``, standardised by the training part.

    Attributes
    ----------
    train, validation, test : tuple of array, shapes (N, D) and (N,)
    gap : tuple of array or None
        Test points from where no training point lies.
    """

    train: tuple
    validation: tuple
    test: tuple
    gap: tuple | None


@dataclasses.dataclass(frozen=True, eq=False)
class Intervals:
    """What a method that promises intervals only predicts.

    Parameters
    ----------
    lower, upper : array, shape (N,)
        Ends of intervals that ought to hold the target with probability 90 %.
    """

    lower: np.ndarray
    upper: np.ndarray


def task(name, seed=0):
    """One of the regressions that come with the packages: patients, or a sine with a gap.

    Parameters
    ----------
    name : {"diabetes", "gap"}
        442 patients with ten measurements each, and how far their disease had
        gone a year later (scikit-learn's copy); or a sine, of which nothing
        between -1.5 and 1.5 is seen.
    seed : int
        Of the split, and of the gap's points.

    Returns
    -------
    Task
    """
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        return _split(*load_diabetes(return_X_y=True), seed)
    if name != "gap":
        raise ValueError(f"name: expected one of {', '.join(TASKS)} or a file, got {name!r}")
    whole = [data.sinusoid(n, seed=10 * seed + k, gap=(-1.5, 1.5)) for k, n in enumerate((100, 50, 500))]
    inside = data.sinusoid(500, seed=10 * seed + 3, low=-1.5, high=1.5)
    parts = [(toy.inputs, toy.targets.ravel()) for toy in (*whole, inside)]
    return Task(*_standardised(parts))


def table_task(path, seed=0):
    """A regression from a text file of numbers, one row an example, the last column the target.

    Parameters
    ----------
    path : path
        Separated by blanks or commas, without a head.
    seed : int
        Of the split: 60 % to train, 20 % to validate, 20 % to test.

    Returns
    -------
    Task
    """
    lines = Path(path).read_text(encoding="utf-8").replace(",", " ").splitlines()
    try:
        rows = np.loadtxt(lines, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path}: expected rows of numbers, as many in each ({error})") from error
    if rows.shape[0] < 20 or rows.shape[1] < 2:
        raise ValueError(f"{path}: expected at least 20 rows of two numbers or more, got {rows.shape}")
    return _split(as_real(rows[:, :-1], "inputs"), as_real(rows[:, -1], "targets"), seed)


def _split(x, y, seed):
    order = np.random.default_rng(as_whole(seed, "seed", low=0)).permutation(len(x))
    first, second = round(0.6 * len(x)), round(0.8 * len(x))
    places = (order[:first], order[first:second], order[second:])
    return Task(*_standardised([(x[rows], y[rows]) for rows in places]), None)


def _standardised(parts):
    x, y = parts[0]
    if not y.std() > 0:
        raise ValueError(f"targets: expected some that differ in the training part, got {y[0]:g} in all rows")
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    return [(((a - x.mean(axis=0)) / scale).astype(np.float32), (b - y.mean()) / y.std()) for a, b in parts]


# --- methods: fit(train, validation, seed) -> predict(x) ---------------------------------------------------


def _network(parts, seed, outputs=1, loss="mse", head=None, dropout=DROPOUT, epochs=None):
    train, validation = parts
    x, y = train
    epochs = _epochs(train, validation, seed) if epochs is None else epochs
    with training.seeded(seed):
        net = MLP(x.shape[1], outputs, HIDDEN, dropout)
    if head is not None:
        net.append(head)
    training.fit(net, x, y, loss=loss, seed=seed, epochs=epochs, device="cpu", progress=False, **BUDGET)
    return net


_chosen = {}


def _epochs(train, validation, seed):
    """How long all networks of a task are trained: as long as suits the one network's validation error."""
    key = (train[1].tobytes(), seed, LENGTHS)
    if key not in _chosen:
        errors = [_noise(_network((train, validation), seed, epochs=n), validation) for n in LENGTHS]
        _chosen[key] = LENGTHS[int(np.argmin(errors))]
    return _chosen[key]


def _noise(net, validation):
    """The noise of a network that does not predict it: its root mean squared error on the validation set."""
    x, y = validation
    return float(np.sqrt(np.mean((training.predict_outputs(net, x)[:, 0] - y) ** 2)))


def one_network(train, validation, seed):
    """One network, and one width for all inputs."""
    net = _network((train, validation), seed)
    noise = _noise(net, validation)
    return lambda x: (training.predict_outputs(net, x)[:, 0], np.full(len(x), noise))


def linear(train, validation, seed):
    """Bayesian linear regression, its precisions by evidence; on bumps where there is one input."""
    x = train[0]
    basis = None
    if x.shape[1] == 1:
        basis = bayesian_linear_regression.GaussianBasis(
            np.linspace(x.min(), x.max(), 15)[:, None], 0.4, bias=True
        )
    model = bayesian_linear_regression.BayesianLinearRegression(basis=basis).fit(*train)

    def predict(x):
        parts = model.predict(x)
        return parts.mean.ravel(), parts.total.ravel()

    return predict


def last_layer_laplace(train, validation, seed):
    """Laplace on the last layer, precision and noise by the marginal likelihood."""
    net = _network((train, validation), seed, dropout=0)
    posterior = laplace.LastLayerLaplace(net, "regression").fit(train[0], train[1][:, None])
    posterior.tune_prior_precision(noise=True)

    def predict(x):
        parts = posterior.predict_regression(x)
        return parts.mean[:, 0], parts.total[:, 0]

    return predict


def variational(train, validation, seed):
    """Mean-field variational inference with the one network's noise."""
    noise = _noise(_network((train, validation), seed), validation)
    with training.seeded(seed):
        net = MLP(train[0].shape[1], 1, HIDDEN)
        net = variational_inference.make_variational(net, prior_std=0.5)
    variational_inference.fit_variational(
        net, train[0], train[1][:, None], epochs=_epochs(train, validation, seed),
        batch_size=BUDGET["batch_size"],
        learning_rate=BUDGET["learning_rate"], likelihood="gaussian", noise_std=noise, kl_scale=0.1,
        seed=seed, device="cpu", progress=False,
    )  # fmt: skip

    def predict(x):
        parts = variational_inference.predict_regression(net, x, noise, samples=DRAWS, seed=seed)
        return parts.mean.ravel(), parts.total.ravel()

    return predict


def monte_carlo_dropout(train, validation, seed):
    """The one network with its dropout left on."""
    net = _network((train, validation), seed)
    noise = _noise(net, validation)

    def predict(x):
        parts = mc_dropout.predict_regression(net, x, noise, passes=DRAWS, seed=seed)
        return parts.mean.ravel(), parts.total.ravel()

    return predict


def _gaussian_loss(outputs, targets):
    scale = torch.nn.functional.softplus(outputs[:, 1]) + 1e-2
    return (0.5 * ((targets - outputs[:, 0]) / scale).square() + scale.log()).mean()


def ensemble(train, validation, seed):
    """Five networks that predict a Gaussian each; the mixture's moments."""
    epochs = _epochs(train, validation, seed)
    nets = [
        _network((train, validation), seed + 1_000_003 * k, 2, _gaussian_loss, dropout=0, epochs=epochs)
        for k in range(5)
    ]

    def predict(x):
        outputs = np.stack([training.predict_outputs(net, x) for net in nets])
        scales = np.logaddexp(0, outputs[..., 1]) + 1e-2
        parts = deep_ensembles.mixture_moments(outputs[..., 0], scales)
        return parts.mean, parts.total

    return predict


def evidential_network(train, validation, seed):
    """An evidential network."""
    net = _network(
        (train, validation), seed, outputs=4, loss=evidential.EvidentialRegressionLoss(0.1),
        head=evidential.NormalInverseGammaHead(), dropout=0,
    )  # fmt: skip

    def predict(x):
        parts = evidential.predict_regression(net, x)
        return parts.mean, parts.total

    return predict


def _pinball(outputs, targets):
    levels = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    gaps = targets[:, None] - outputs
    return torch.maximum(levels * gaps, (levels - 1) * gaps).sum(dim=1).mean()


def conformal_quantiles(train, validation, seed):
    """Two quantiles by a network, moved until the validation set is covered as promised."""
    net = _network((train, validation), seed, outputs=2, loss=_pinball, dropout=0)

    def raw(x):
        return np.sort(training.predict_outputs(net, x), axis=1)

    moved = conformal.SplitRegressor("cqr", alpha=1 - LEVEL).fit(raw(validation[0]), validation[1])

    def predict(x):
        ends = moved.predict(raw(x))
        return Intervals(ends[:, 0], ends[:, 1])

    return predict


REGRESSION_METHODS = {
    "one network": one_network,
    "Bayesian linear regression": linear,
    "Laplace, last layer": last_layer_laplace,
    "mean-field VI": variational,
    "MC-Dropout": monte_carlo_dropout,
    "ensemble of Gaussians": ensemble,
    "evidential": evidential_network,
    "conformal quantiles": conformal_quantiles,
}
"""The methods by the name of their row."""


# --- the table --------------------------------------------------------------------------------------------


def judge(predict, here):
    """All figures of one fitted method."""
    from scipy.stats import norm

    reach = norm.ppf((1 + LEVEL) / 2)

    def ends(x):
        said = predict(x)
        if isinstance(said, Intervals):
            return said.lower, said.upper, None
        mean, std = said
        return mean - reach * std, mean + reach * std, (mean, std)

    x, y = here.test
    lower, upper, gaussian = ends(x)
    figures = dict.fromkeys(REGRESSION_COLUMNS, float("nan"))
    if gaussian is not None:
        figures["nll"] = metrics.gaussian_nll(*gaussian, y)
        figures["crps"] = metrics.crps_gaussian(*gaussian, y)
    figures["coverage"] = metrics.interval_coverage(lower, upper, y)
    figures["width"] = metrics.interval_width(lower, upper)
    if here.gap is not None:
        lower, upper, _ = ends(here.gap[0])
        figures["coverage_gap"] = metrics.interval_coverage(lower, upper, here.gap[1])
        figures["width_gap"] = metrics.interval_width(lower, upper)
    return {name: float(value) for name, value in figures.items()}


def run(tasks=TASKS, seeds=range(5), methods=None):
    """The table of regression.

    Parameters
    ----------
    tasks : sequence of str
        "diabetes", "gap", or files as :func:`table_task` takes them; the first
        two, if none are given.
    seeds : sequence of int
        Each is a split and a set of networks.
    methods : dict of callable, optional
        By name, ``fit(train, validation, seed)`` that returns ``predict(x)``,
        which returns means and standard deviations, or :class:`Intervals`.
        ``REGRESSION_METHODS``, if none.

    Returns
    -------
    dict
        ``[task][method][column]``: an array, one entry a seed. A file is there by
        its name without folder and ending, so that no two may share it.
    """
    methods = REGRESSION_METHODS if methods is None else methods
    found = {}
    for name in _apart(tasks or TASKS):
        rows = {method: {column: [] for column in REGRESSION_COLUMNS} for method in methods}
        for seed in seeds:
            here = task(name, seed) if name in TASKS else table_task(name, seed)
            for method, fit in methods.items():
                figures = judge(fit(here.train, here.validation, seed), here)
                for column, value in figures.items():
                    rows[method][column].append(value)
        found[Path(name).stem] = {
            method: {column: np.array(values) for column, values in row.items()}
            for method, row in rows.items()
        }
    return found


def _apart(tasks):
    """The tasks, if each has a name of its own to be filed by."""
    if isinstance(tasks, str | Path):
        raise ValueError(f"tasks: expected a sequence of names and files, got {str(tasks)!r} alone")
    seen = {}
    for name in tasks:
        other = seen.setdefault(Path(name).stem, name)
        if other is not name:
            raise ValueError(
                f"tasks: expected files of different names, got {str(other)!r} and {str(name)!r}, "
                f"both of which would be filed as {Path(name).stem!r}"
            )
    return list(seen.values())


def stored():
    """The tables of regression that come with the package, as :func:`run` returns them.

    Returns
    -------
    dict
        ``[task][method][column]``: an array over five seeds, NaN where a method
        has no such figure. Tasks are "diabetes", "gap" and tables of the UCI
        repository: "yacht", "energy", "concrete", "wine" and "kin8nm".
    """
    return {
        name: {m: {c: np.array(v, float) for c, v in row.items()} for m, row in rows.items()}
        for name, rows in read("regression")["figures"].items()
    }


def markdown(found):
    """Tables of regression as Markdown: means ± standard deviations over seeds."""
    blocks = []
    for name, rows in found.items():
        columns = [c for c in REGRESSION_COLUMNS if any(np.isfinite(row[c]).all() for row in rows.values())]
        lines = [f"{name}\n", "| method | " + " | ".join(REGRESSION_COLUMNS[c] for c in columns) + " |"]
        lines.append("| --- |" + " --: |" * len(columns))
        for method, row in rows.items():
            cells = []
            for column in columns:
                values = row[column]
                spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
                cells.append(f"{values.mean():.3f}{spread}" if np.isfinite(values).all() else "–")
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
