"""The reference posteriors of the toy sets: drawn, checked, and stored in the package.

``python -m benchmarks.reproduce mcmc`` makes them again. Predictions are kept,
never weights: some draws in half precision, and what all draws together say.
"""

import json

import numpy as np

from benchmarks.provenance import ROOT, surroundings
from uqhelpers import data, mcmc, metrics

FOLDER = ROOT / "uqhelpers" / "data" / "references"
KEPT = 100  # draws that are stored
SEED = 0

MOONS_GRID = ((-2.5, 3.5, 31), (-2.5, 3.0, 31))
HE = {"prior_std": 2**0.5, "scaling": "fan-in", "activation": "relu"}
PROBLEMS = {
    "moons": {
        "toy": ("two_moons", {"n": 100, "noise": 0.2, "seed": 0}),
        "grid": MOONS_GRID,
        "model": {"hidden": (16, 16), "activation": "tanh", "prior_std": 1.0, "scaling": "unit"},
    },
    "gap": {
        "toy": ("sinusoid", {"n": 60, "noise": 0.1, "seed": 0, "gap": (-1.5, 1.5)}),
        "grid": ((-8.0, 8.0, 161),),
        "model": {"hidden": (20, 20), "activation": "tanh", "prior_std": 2.0, "scaling": "fan-in"},
    },
    "moons_laplace": {
        "toy": ("two_moons", {"n": 100, "noise": 0.15, "seed": 0}),
        "grid": MOONS_GRID,
        "model": {"hidden": (32,), "activation": "relu", "prior_std": 0.1**-0.5, "scaling": "unit"},
    },
    "sinusoid_laplace": {
        "toy": ("sinusoid", {"n": 80, "noise": 0.3, "seed": 0, "gap": (-1.0, 1.0)}),
        "grid": ((-8.0, 8.0, 161),),
        "model": {"hidden": (32,), "activation": "relu", "prior_std": 1.0, "scaling": "unit"},
    },
    "moons_dropout": {
        "toy": ("two_moons", {"n": 200, "noise": 0.15, "seed": 0}),
        "grid": MOONS_GRID,
        "model": {"hidden": (64, 64), **HE},
    },
    "sinusoid_dropout": {
        "toy": ("sinusoid", {"n": 200, "noise": 0.1, "seed": 0, "gap": (-1, 1)}),
        "grid": ((-8.0, 8.0, 161),),
        "model": {"hidden": (64, 64), **HE},
    },
    "cubic": {
        "toy": ("cubic", {"n": 40, "seed": 173}),
        "grid": ((-6.0, 6.0, 121),),
        "model": {"hidden": (50,), **HE},
        "standardise": True,
    },
    "one_dimensional": {
        "toy": ("one_dimensional", {"n": 100, "seed": 0}),
        "grid": ((-10.0, 10.0, 201),),
        "model": {"hidden": (16, 16), "activation": "tanh", "prior_std": 2.0, "scaling": "fan-in"},
    },
}
SETTINGS = {"chains": 4, "draws": 1000, "warmup": 500}


def toy_of(of, arguments):
    """The data of a problem."""
    return getattr(data, of)(**arguments)


def held_out_of(of, arguments, n=200):
    """New points of the same law: other noise, other places, no gap left out."""
    return of, {key: value for key, value in arguments.items() if key != "gap"} | {"n": n, "seed": 10_000}


def grid_of(axes):
    """The points of a regular grid, shape (N, D), and the grid's shape."""
    lines = [np.linspace(*axis) for axis in axes]
    places = np.meshgrid(*lines)
    return np.stack([place.ravel() for place in places], axis=1), places[0].shape


def drawn(problem, seed=SEED, progress=True, **settings):
    """The posterior of a problem, and the units in which its network sees the world."""
    toy = toy_of(*problem["toy"])
    model, noise = problem["model"], toy.noise
    units = {"center": (0.0, 0.0), "scale": (1.0, 1.0)}
    x, y = toy
    if problem.get("standardise"):
        units = {
            "center": (float(x.mean()), float(y.mean())),
            "scale": (float(x.std()), float(y.std())),
        }
        x, y = ((value - c) / s for value, c, s in zip(toy, units["center"], units["scale"], strict=True))
        noise = noise / units["scale"][1]
    kind = "categorical" if noise is None else "gaussian"
    posterior = mcmc.network_posterior(
        x, y, likelihood=kind, noise=noise, seed=seed, progress=progress,
        **model, **SETTINGS | problem.get("settings", {}) | settings,
    )  # fmt: skip
    return toy, posterior, units


def predictions(posterior, units, inputs):
    """Class probabilities of every draw, or values of the function in units of the target."""
    inputs = (inputs - units["center"][0]) / units["scale"][0]
    return (
        units["center"][1] + units["scale"][1] * posterior.sample(inputs)
        if hasattr(posterior, "noise")
        else posterior.sample(inputs)
    )


def stored_arrays(values, kept=KEPT):
    """What is stored of all draws at some inputs: a part of them, and what all of them say."""
    chosen = np.linspace(0, len(values) - 1, kept).round().astype(int)
    if values.ndim == 3:
        odds = np.log(np.maximum(values[chosen, :, 1], 1e-30)) - np.log(
            np.maximum(values[chosen, :, 0], 1e-30)
        )
        mean, epistemic = values.mean(axis=0)[:, 1], metrics.mutual_information(values)
        return {"samples": odds.astype(np.float16), "mean": mean, "epistemic": epistemic}
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
    return {"samples": values[chosen].astype(np.float16), "mean": mean, "epistemic": spread}


def make(name, script, progress=True):
    """Draw, check and store one reference; answers with what is known about it."""
    problem = PROBLEMS[name]
    toy, posterior, units = drawn(problem, progress=progress)
    new = held_out_of(*problem["toy"])
    grid, shape = grid_of(problem["grid"])
    places = {"grid": grid, "held_out": toy_of(*new).inputs}
    arrays, worst, least = {"grid/inputs": grid.astype(np.float32)}, 0.0, np.inf
    for part, inputs in places.items():
        values = predictions(posterior, units, inputs)
        by_chain = values.reshape(SETTINGS["chains"], -1, *values.shape[1:])
        by_chain = by_chain[..., 1] if by_chain.ndim == 4 else by_chain
        worst = max(worst, float(mcmc.r_hat(by_chain).max()))
        least = min(least, float(mcmc.effective_sample_size(by_chain).min()))
        for key, value in stored_arrays(values).items():
            arrays[f"{part}/{key}"] = value if value.dtype == np.float16 else value.astype(np.float32)
    about = {
        "toy": {"of": problem["toy"][0], "with": problem["toy"][1]},
        "held_out": {"of": new[0], "with": new[1]},
        "grid_shape": shape,
        "noise": toy.noise,
        "model": {**problem["model"], **(units if problem.get("standardise") else {})},
        "draws": len(posterior.weights),
        "r_hat": worst,
        "effective": least,
        "provenance": {**surroundings(script), "seed": SEED, **SETTINGS | problem.get("settings", {})},
    }
    kind = "function" if toy.noise is not None else "log odds"
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.npz"
    part = path.with_name(f"{name}.part.npz")
    np.savez_compressed(part, kind=kind, about=json.dumps(about), **arrays)
    part.replace(path)
    told = {
        "weight r_hat": float(np.max(mcmc.r_hat(posterior.chains.draws))),
        "seconds": posterior.chains.seconds + posterior.chains.warmup_seconds,
        "divergences": int(mcmc.divergences(posterior.chains).sum()),
        "steps": float(posterior.chains.steps.mean()),
        "weights": posterior.weights.shape[1],
    }
    return {key: about[key] for key in ("r_hat", "effective", "draws")} | told
