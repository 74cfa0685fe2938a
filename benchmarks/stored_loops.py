"""What the chapter on active learning reads of the stored loops: ``python -m benchmarks.stored_loops``.

The chapter runs where only the installed package is. So what its sentences are
made of lies in the package, too: of each loop the few figures that they need,
copied from ``benchmarks/results`` whenever something is stored there.
"""

import json

import numpy as np

from benchmarks.provenance import RESULTS, ROOT, replace

STORED = ROOT / "uqhelpers" / "active_learning" / "stored" / "loops.json"
MNIST, POOLS, MODELS = (f"reproduce_active_learning{end}" for end in ("", "_pools", "_models"))
PLACES = 5  # behind the point


def read(name):
    """A file of stored results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def averaged(runs):
    """Of each loop the accuracy over the rounds after the first question, and what was asked for in vain."""
    return {
        "accuracy": [round(float(np.mean(run["accuracy"][1:])), PLACES) for run in runs],
        "foreign": [round(run["foreign"], PLACES) for run in runs],
    }


def condensed():
    """The content of the file in the package: MNIST by seed, the others by lists of seeds."""
    mnist, brief = read(MNIST), {}
    for pool, strategies in mnist["loops"].items():
        for strategy, runs in strategies.items():
            few = {
                seed: {"labels": run["labels"], "accuracy": [round(a, PLACES) for a in run["accuracy"]]}
                for seed, run in runs.items()
            }
            brief.setdefault(pool, {})[strategy] = few
    found = {"mnist": {"loops": brief}}
    for name, stem in (("pools", POOLS), ("models", MODELS)):
        content = read(stem)
        loops = {
            outer: {strategy: averaged(runs) for strategy, runs in inner.items()}
            for outer, inner in content["loops"].items()
        }
        found[name] = {"seeds": content["seeds"], "loops": loops}
    return found


def main():
    """Copy it."""
    STORED.parent.mkdir(exist_ok=True)
    replace(STORED, json.dumps(condensed(), indent=None) + "\n")


if __name__ == "__main__":
    main()
