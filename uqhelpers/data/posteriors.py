"""Reference posteriors: what the exact posterior of a small network predicts on the toy sets, stored.

Each was drawn by Hamiltonian Monte Carlo, once, and checked; the files beside
this module hold predictions, never weights, and where they come from.
``python -m benchmarks.reproduce mcmc`` makes them again.
"""

import json
from dataclasses import dataclass
from importlib import resources

import numpy as np

from uqhelpers._checks import as_choice
from uqhelpers.data import toys

__all__ = [
    "REFERENCES",
    "ReferencePosterior",
    "ReferencePrediction",
    "posterior_distances",
    "reference_posterior",
]

REFERENCES = (
    "moons",
    "gap",
    "moons_laplace",
    "sinusoid_laplace",
    "moons_dropout",
    "sinusoid_dropout",
    "cubic",
    "one_dimensional",
)


@dataclass(frozen=True, eq=False)
class ReferencePrediction:
    """What the posterior predicts at some inputs.

    Attributes
    ----------
    inputs : array, shape (N, D), float64
    samples : array, shape (S, N, C) or (S, N), float64
        Class probabilities, or values of the function without noise, of ``S``
        networks: a part of the draws, kept in half precision (of logits, where
        they are probabilities).
    mean : array, shape (N, C) or (N,), float64
        Over *all* draws.
    epistemic : array, shape (N,), float64
        Over all draws: mutual information in nats, or the standard deviation
        of the function in units of the target.
    targets : array or None
        Where the inputs are new points of the same law: what came there.
    """

    inputs: np.ndarray
    samples: np.ndarray
    mean: np.ndarray
    epistemic: np.ndarray
    targets: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class ReferencePosterior:
    """A stored posterior: data, model, predictions, and how it was checked.

    Attributes
    ----------
    name : str
    toy : Toy
        The data that the posterior was conditioned on.
    grid : ReferencePrediction
        On a regular grid, to draw.
    grid_shape : tuple of int
        Of the grid: ``values.reshape(grid_shape)`` is a map, whose first axis
        is the second input (as ``numpy.meshgrid`` has it).
    held_out : ReferencePrediction
        On new points of the same law, with their targets, to measure.
    noise : float or None
        Regression: the standard deviation of the noise, which was known.
    model : dict
        ``hidden``, ``activation``, ``prior_std`` and ``scaling`` as
        ``mcmc.network_posterior`` takes them; ``center`` and ``scale`` of inputs
        and targets where those were standardised first.
    draws : int
        How many the means are of.
    r_hat : float
        The largest R̂ of a prediction, over grid and held-out points.
    effective : float
        The smallest effective sample size of a prediction.
    provenance : dict
        Versions, machine, day, seed and hash of the code.
    """

    name: str
    toy: toys.Toy
    grid: ReferencePrediction
    grid_shape: tuple
    held_out: ReferencePrediction
    noise: float | None
    model: dict
    draws: int
    r_hat: float
    effective: float
    provenance: dict

    def __repr__(self):
        widths = "-".join(map(str, self.model["hidden"]))
        return (
            f"ReferencePosterior({self.name!r}: {len(self.toy)} points, hidden {widths} "
            f"{self.model['activation']}, {self.draws} draws, R̂ ≤ {self.r_hat:.4f})"
        )


def reference_posterior(name):
    """The stored posterior predictions of a small network on a toy set.

    Parameters
    ----------
    name : str
        One of ``REFERENCES``. ``"moons"`` and ``"gap"`` are those of the
        chapter on Markov chains; the others have the data, widths and
        activation of the chapter that their name holds, with a Gaussian prior.

    Returns
    -------
    ReferencePosterior

    Raises
    ------
    ValueError
        If there is no reference of that name.

    Examples
    --------
    >>> reference = data.reference_posterior("gap")
    >>> reference.grid.inputs.shape, reference.grid.samples.shape
    ((161, 1), (100, 161))
    """
    as_choice(name, "name", REFERENCES)
    file = resources.files("uqhelpers.data") / "references" / f"{name}.npz"
    with file.open("rb") as opened, np.load(opened) as held:
        arrays = {key: held[key] for key in held.files}
    about = json.loads(str(arrays["about"]))
    toy = _toy(about["toy"])
    new = _toy(about["held_out"])
    rest = {key: about[key] for key in ("noise", "model", "draws", "r_hat", "effective", "provenance")}
    grid = _prediction(arrays, "grid", arrays["grid/inputs"].astype(np.float64), None)
    held_out = _prediction(arrays, "held_out", new.inputs, new.targets)
    return ReferencePosterior(name, toy, grid, tuple(about["grid_shape"]), held_out, **rest)


def posterior_distances():
    """How far approximations of the posterior are from it, as it was measured once and stored.

    Long chains are the reference; every method has the same network, prior and
    data. ``python -m benchmarks.reproduce mcmc`` measures it again.

    Returns
    -------
    dict
        ``"moons"`` and ``"gap"`` each hold ``"usual"`` and ``"chosen"``: by
        method and figure an array with one entry a data set (NaN where the
        method failed), the latter at settings chosen on other data sets; also
        ``"settings"`` and the ``"checks"`` of the reference. ``"temperatures"``
        holds the posteriors at other temperatures, ``"bands"`` what six methods
        predict along the gap, ``"about"`` where all this comes from.

    Examples
    --------
    >>> stored = data.posterior_distances()
    >>> stored["gap"]["usual"]["MC-Dropout"]["distance, gap"].mean()
    """
    file = resources.files("uqhelpers.data") / "references" / "distances.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    for name in ("moons", "gap"):
        for kind in ("usual", "chosen"):
            stored[name][kind] = {method: _as_arrays(row) for method, row in stored[name][kind].items()}
    stored["temperatures"] = {float(t): _as_arrays(row) for t, row in stored["temperatures"].items()}
    stored["bands"] = _as_arrays(stored["bands"])
    return stored


def _as_arrays(row):
    return {key: np.array(values, dtype=float) for key, values in row.items()}


def _toy(recipe):
    return getattr(toys, recipe["of"])(**recipe["with"])


def _prediction(arrays, part, inputs, targets):
    samples, mean = (arrays[f"{part}/{key}"].astype(np.float64) for key in ("samples", "mean"))
    if "log odds" in arrays["kind"]:
        one = 1 / (1 + np.exp(-samples))
        samples, mean = np.stack([1 - one, one], axis=-1), np.stack([1 - mean, mean], axis=-1)
    return ReferencePrediction(inputs, samples, mean, arrays[f"{part}/epistemic"].astype(np.float64), targets)
