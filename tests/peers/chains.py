"""What ArviZ says of some chains, written to ``chains.json``: R̂, effective sample sizes, standard errors.

``python -m tests.peers.chains`` in the environment that ``make peers`` makes
asks it again. The chains are the same on every machine: random numbers rounded
to binary fractions, which float32 holds exactly.
"""

import importlib.metadata
import json
from pathlib import Path

import numpy as np

STORED = Path(__file__).with_name("chains.json")
SHAPES = ((4, 8), (2, 33), (4, 50), (3, 101), (4, 400), (8, 1000))
CORRELATIONS = (-0.9, -0.3, 0.0, 0.6, 0.95)


def chains():
    """Chains by name: correlated ones of several sizes, and some that are spoilt."""
    rng, found = np.random.default_rng(20), {}
    for shape in SHAPES:
        for rho in CORRELATIONS:
            steps = rng.standard_normal(shape)
            draws = np.zeros(shape)
            for t in range(shape[1]):
                draws[:, t] = rho * draws[:, t - 1] + steps[:, t] if t else steps[:, t]
            found[f"{shape[0]} x {shape[1]}, correlation {rho}"] = draws
    draws = rng.standard_normal((4, 200))
    found["one apart"] = draws + np.array([[1.0], [0.0], [0.0], [0.0]])
    found["one wide"] = draws * np.array([[4.0], [1.0], [1.0], [1.0]])
    found["a trend"] = draws + np.linspace(0, 3, 200)
    found["few values"] = np.round(draws)
    found["heavy tails"] = rng.standard_cauchy((4, 200))
    found["heavy tails, one apart"] = rng.standard_cauchy((4, 1000)) + np.array([[2.0], [0.0], [0.0], [0.0]])
    return {name: np.round(values * 2.0**12) / 2.0**12 for name, values in found.items()}


def record():
    """Ask ArviZ, and store its answers beside its version."""
    import arviz

    values = {}
    for name, draws in chains().items():
        values[name] = {
            f"ess {kind}": float(arviz.ess(draws, method=kind)) for kind in ("bulk", "tail", "mean")
        }
        values[name]["r_hat"] = float(arviz.rhat(draws, method="rank"))
        values[name]["error"] = float(arviz.mcse(draws, method="mean"))
    told = {"arviz": importlib.metadata.version("arviz"), "values": values}
    STORED.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
