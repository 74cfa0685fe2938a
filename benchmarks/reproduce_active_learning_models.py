"""Which model gives the information, against which score uses it: small digits with scrawls.

Two factors, one at a time. The network that is trained, judged and asked about is
the same in all loops, that of ``reproduce_active_learning_pools``; what changes is
where the sampled predictions come from: its dropout masks, an ensemble that it is
the first member of, or a last-layer Laplace approximation around it. Asking by lot
needs no samples, so its loops, and those of the 30 masks, are the grid's.
"""

import sys

import numpy as np

from benchmarks import reproduce_active_learning_pools as grid
from benchmarks.provenance import ROOT, code_hash, store
from benchmarks.reproduce import kept, origins
from benchmarks.tables import markdown
from uqhelpers import active_learning, data, deep_ensembles, laplace, mc_dropout, training

SCRIPT = "reproduce_active_learning_models"
HEAD = ("information from", "score", "accuracy at 120 (%)", "against random (points)", "scrawls asked (%)")
POOL, SEEDS = "scrawls", grid.SEEDS
MEMBERS, DRAWS = 5, 30
MODELS = {
    "masks": f"{grid.MASKS} dropout masks",
    "few_masks": f"{MEMBERS} dropout masks",
    "ensemble": f"an ensemble of {MEMBERS}",
    "laplace": f"last-layer Laplace, {DRAWS} draws",
}
STRATEGIES = {"entropy": "entropy", "bald": "BALD, the top ten", "batch_bald": "BatchBALD"}
SET_UP = """
The pool with scrawls, and all else as in the grid of pools. In all loops one network is trained,
judged, and asked about; only its sampled predictions come from elsewhere: its own dropout masks; the
members of an ensemble (the network itself and four of other seeds, without masks); draws of the last
layer from a Laplace approximation around it, prior precision by the marginal likelihood. *Five masks*
are there because five members are few samples. Differences of accuracy averaged over the ten rounds,
paired by seed, with 95 % intervals (Student's t)."""


def fit_ensemble(images, labels, seed):
    """The loop's own network, and as many others as make an ensemble."""
    more = np.random.SeedSequence([seed, 1]).generate_state(MEMBERS - 1)
    return [grid.fit(images, labels, int(one)) for one in (seed, *more)]


def fit_laplace(images, labels, seed):
    """The loop's own network, with a Gaussian around its last layer."""
    net = grid.fit(images, labels, seed)
    posterior = laplace.LastLayerLaplace(net).fit(images, labels)
    posterior.tune_prior_precision()
    return posterior


def learner(model, digits):
    """The functions of a loop; all judge the loop's own network."""
    evaluate = grid.judge(digits)
    if model == "ensemble":
        return active_learning.Learner(
            fit_ensemble,
            lambda nets, images, seed: deep_ensembles.sample(nets, images),
            lambda nets: evaluate(nets[0]),
        )
    if model == "laplace":
        return active_learning.Learner(
            fit_laplace,
            lambda posterior, images, seed: posterior.sample(images, DRAWS, seed=seed),
            lambda posterior: evaluate(posterior.model),
        )
    return active_learning.Learner(
        grid.fit,
        lambda net, images, seed: mc_dropout.sample(net, images, MEMBERS, seed=seed, masks="shared"),
        evaluate,
    )


def part(model, strategy, seed):
    """Of which script a loop is kept, under which name, and what computes it."""
    if model == "masks":
        return grid.SCRIPT, f"{POOL}-{strategy}-{seed}", lambda d: grid.loop(POOL, strategy, seed, d)
    name = f"{model}-{strategy}-{seed}-{code_hash(grid.SCRIPT)}"  # the grid's functions decide, too
    return SCRIPT, name, lambda d: grid.run(learner(model, d), POOL, strategy, seed, d)


def units(seeds=SEEDS):
    """Every loop there is."""
    asked = [("masks", "random"), *((model, strategy) for model in MODELS for strategy in STRATEGIES)]
    return [(model, strategy, seed) for seed in seeds for model, strategy in asked]


def finished(seeds=SEEDS):
    """The seeds whose loops have all been computed by the present code."""

    def there(unit):
        script, name, _ = part(*unit)
        return (ROOT / "_build" / "reproduce" / f"{script}-{name}-{code_hash(script)}.json").exists()

    return tuple(seed for seed in seeds if all(there(unit) for unit in units([seed])))


def reproduce(seeds=SEEDS):
    """All loops.

    Returns
    -------
    dict, str, tuple of int
        The figures of each loop, a Markdown page, and the seeds.
    """
    digits = data.load("digits")
    loops = {}
    for model, strategy, seed in units(seeds):
        script, name, compute = part(model, strategy, seed)
        found = kept(script, name, lambda compute=compute: compute(digits))
        loops.setdefault(model, {}).setdefault(strategy, []).append(found)
    return {"loops": loops}, page(loops), seeds


def page(loops):
    """The loops as Markdown."""
    base = loops["masks"]["random"]
    lot = grid.spread([run["accuracy"][-1] for run in base], 100, 1)
    rows = [["", "random", lot, "", f"{100 * np.mean([run['foreign'] for run in base]):.0f}"]]
    for model, words in MODELS.items():
        for strategy, name in STRATEGIES.items():
            runs = loops[model][strategy]
            rows.append(
                [
                    words,
                    name,
                    grid.spread([run["accuracy"][-1] for run in runs], 100, 1),
                    grid.interval(grid.over_rounds(runs) - grid.over_rounds(base)),
                    f"{100 * np.mean([run['foreign'] for run in runs]):.0f}",
                ]
            )
    lines = [
        "# Digits of 8 × 8 pixels: where the information comes from",
        "",
        f"{len(base)} seeds. " + " ".join(SET_UP.split()),
        "",
        markdown(HEAD, rows, numbers=True, words=2),
        "",
        "## The same score, from another model",
        "",
    ]
    rows = []
    for model in list(MODELS)[1:]:
        cells = [MODELS[model]]
        for strategy in STRATEGIES:
            other = grid.over_rounds(loops["masks"][strategy])
            cells.append(grid.interval(grid.over_rounds(loops[model][strategy]) - other))
        rows.append(cells)
    head = (f"against {MODELS['masks']} (points)", *STRATEGIES.values())
    return "\n".join([*lines, markdown(head, rows, numbers=True)])


def main():
    """``… PART OF`` computes a part of the loops, ``… store`` stores all seeds that are finished."""
    if sys.argv[1:] == ["store"]:
        result = reproduce(finished())
        store(SCRIPT, *result, [*origins[SCRIPT], *origins[grid.SCRIPT]])
        return
    first, of = int(sys.argv[1]), int(sys.argv[2])
    digits = data.load("digits")
    for model, strategy, seed in units()[first::of]:
        script, name, compute = part(model, strategy, seed)
        kept(script, name, lambda compute=compute: compute(digits))


if __name__ == "__main__":
    main()
