"""Active learning on MNIST, the protocol of the BatchBALD paper: 20 labels, then ten at a time.

A LeNet whose dropout sits behind its convolutions, so that a hundred masks cost
the convolutions once. At each step 5,000 drawn images are scored, not the whole
pool (there is no GPU); of the repeated pool, where every digit stands three times
with its own noise, as many whole triples. Each loop (seed, strategy, pool) is kept
when it is finished, and each of its rounds before that.
"""

import sys

import numpy as np

from benchmarks.provenance import ROOT, code_hash, store
from benchmarks.reproduce import kept, origins
from benchmarks.tables import markdown
from uqhelpers import active_learning, data, mc_dropout, metrics, models, training

SCRIPT = "reproduce_active_learning"
HEAD = (
    "strategy", "seeds", "accuracy at 100", "at 200", "at 300", "at 350",
    "labels to 90 %", "labels to 95 %", "different digits among those asked",
)  # fmt: skip
SEEDS = (0, 1, 2)
POOLS = {"plain": "MNIST", "repeated": "MNIST, every digit three times"}
STRATEGIES = {"random": "random", "bald": "BALD, the top ten", "batch_bald": "BatchBALD"}
INITIAL, BATCH, ROUNDS = 20, 10, 33
SCORED, MASKS = 5_000, 100
STEPS, SIZE, RATE = 300, 32, 2e-3  # of training in each round; chosen on seeds 100 and 101
COPIES, NOISE = 3, 0.1
LEVELS = (0.90, 0.95)
PUBLISHED = """The paper's figures, counted from the logs its authors released (6 seeds, the 20 initial labels
included, every unlabelled image scored, a larger network, training until it stops improving): labels to
90 % and 95 % by BatchBALD in tens 100 and 210 (medians), by BALD in tens 130 and 260; on the repeated pool
accuracy at 300 labels BatchBALD .957, random .926, BALD .891, and labels to 90 % 110, 150 and 310."""


def fit(images, labels, seed):
    """A network from scratch; it standardises inside."""
    with training.seeded(seed):
        net = models.LeNet(mean=0.1307, std=0.3081)
    epochs = round(STEPS / -(-len(labels) // SIZE))
    training.fit(
        net,
        images,
        labels,
        epochs=epochs,
        batch_size=SIZE,
        learning_rate=RATE,
        seed=seed,
        device="cpu",
        progress=False,
    )
    return net


def sample(net, images, seed):
    """Class probabilities under masks that are networks: the same for all images."""
    return mc_dropout.sample(net, images, passes=MASKS, seed=seed, masks="shared").astype(np.float32)


def learner(test):
    """The three functions of a loop; judged on all test digits."""

    def evaluate(net):
        probs = mc_dropout.predict(net, test.images, passes=20, seed=0, masks="shared").mean
        return {
            "accuracy": metrics.accuracy(probs, test.labels),
            "nll": metrics.negative_log_likelihood(probs, test.labels),
        }

    return active_learning.Learner(fit, sample, evaluate)


def two_of_each(labels, places):
    """A function that draws two places of each digit."""

    def draw(rng):
        return np.concatenate([rng.choice(places[labels[places] == c], 2, replace=False) for c in range(10)])

    return draw


def triples(originals):
    """A function that draws so many digits, and of each whatever copies have no label yet."""

    def draw(left, rng):
        some = rng.permutation(originals)[: SCORED // COPIES]
        return left[np.isin(left % originals, some)]

    return draw


def loop(pool, strategy, seed, images, rounds=ROUNDS):
    """One loop.

    Parameters
    ----------
    pool, strategy : str
    seed : int
    images : ImageData
    rounds : int

    Returns
    -------
    dict
        ``labels``, and by name the figures of each round.
    """
    train = images.train
    inputs, labels = train.images, train.labels
    candidates = SCORED
    if pool == "repeated":
        inputs, labels = active_learning.repeated(inputs, labels, COPIES, NOISE, seed)
        candidates = triples(len(train))
    (curve,) = active_learning.simulate(
        learner(images.test),
        inputs,
        labels,
        strategy,
        initial=two_of_each(labels, np.arange(len(train))),
        batch=BATCH,
        rounds=rounds,
        seeds=[seed],
        candidates=candidates,
        folder=ROOT / "_build" / "reproduce" / f"{SCRIPT}-{pool}-{code_hash(SCRIPT)}",
        settings={"pool": pool},
    )
    asked = curve.asked % len(train)
    return {
        "labels": curve.labels.tolist(),
        "different digits asked": len(np.unique(asked)),
        **{name: values.tolist() for name, values in curve.figures.items()},
    }


def units(seeds=SEEDS):
    """Every loop there is, those that tell most first."""
    order = [
        (pool, strategy) for pool in ("repeated", "plain") for strategy in ("bald", "batch_bald", "random")
    ]
    return [(pool, strategy, seed) for seed in seeds for pool, strategy in order]


def finished(seeds=SEEDS):
    """The loops that have been computed by the present code."""
    folder = ROOT / "_build" / "reproduce"
    return [
        (pool, strategy, seed)
        for pool, strategy, seed in units(seeds)
        if (folder / f"{SCRIPT}-{pool}-{strategy}-{seed}-{code_hash(SCRIPT)}.json").exists()
    ]


def reproduce(seeds=SEEDS, only=None):
    """All loops, or only some of them.

    Returns
    -------
    dict, str, tuple of int
        The figures of each loop, a Markdown page, and the seeds.
    """
    images = data.load("mnist")
    loops = {}
    for pool, strategy, seed in units(seeds) if only is None else only:
        found = kept(
            SCRIPT, f"{pool}-{strategy}-{seed}", lambda p=pool, s=strategy, one=seed: loop(p, s, one, images)
        )
        loops.setdefault(pool, {}).setdefault(strategy, {})[str(seed)] = found
    used = sorted({int(seed) for some in loops.values() for runs in some.values() for seed in runs})
    return {"loops": loops}, page(loops), used


def labels_to(found, level):
    """The fewest labels, the initial ones included, with which the accuracy was reached; or None."""
    reached = np.flatnonzero(np.array(found["accuracy"]) >= level)
    return found["labels"][reached[0]] if len(reached) else None


def page(loops):
    """The loops as Markdown."""
    lines = [
        "# MNIST: which label next?",
        "",
        f"A LeNet with dropout .5 before its last two layers, from scratch in each round ({STEPS} steps of "
        f"{SIZE} images, Adam {RATE:g}); {INITIAL} initial labels (two of each digit, counted in all "
        f"figures), then {BATCH} at a time to {INITIAL + BATCH * ROUNDS}. In each round {SCORED:,} drawn "
        f"images are scored under {MASKS} masks, not all 55,000: there was no GPU. Accuracy on the 10,000 "
        "test digits, of the average of 20 masks. With one seed all strategies have the same initial labels, "
        "networks of the same seeds, and draws from the same stream.",
    ]
    for pool, words in POOLS.items():
        if pool not in loops:
            continue
        rows = []
        for strategy, name in STRATEGIES.items():
            runs = loops[pool].get(strategy, {})
            if not runs:
                continue
            cells = [name, ", ".join(runs)]
            for labels in (100, 200, 300, 350):
                cells.append(
                    spread([run["accuracy"][run["labels"].index(labels)] for run in runs.values()], 3)
                )
            for level in LEVELS:
                reached = [labels_to(run, level) for run in runs.values()]
                cells.append(", ".join("not reached" if one is None else str(one) for one in reached))
            cells.append(spread([run["different digits asked"] for run in runs.values()], 0))
            rows.append(cells)
        lines += ["", f"## {words}", "", markdown(HEAD, rows, numbers=True, words=2)]
    wanted = {(pool, strategy, str(seed)) for pool, strategy, seed in units()}
    missing = wanted - {
        (p, s, seed) for p, some in loops.items() for s, runs in some.items() for seed in runs
    }
    if missing:
        words = "; ".join(f"{STRATEGIES[s]} on {POOLS[p]}, seed {seed}" for p, s, seed in sorted(missing))
        lines += ["", f"Not computed yet ({len(missing)} of {len(wanted)} loops): {words}."]
    lines += ["", "Labels to a level: one figure a seed, in the order of the seeds."]
    lines += ["", " ".join(PUBLISHED.split())]
    return "\n".join(lines)


def spread(values, digits):
    """Mean and standard deviation of a few runs; of a single one only what it gave."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def main():
    """``… PART OF`` computes a part of the loops, ``… store`` stores all there is."""
    if sys.argv[1:] == ["store"]:
        content, markdown, seeds = reproduce(only=finished())
        store(SCRIPT, content, markdown, seeds, origins[SCRIPT])
        return
    part, of = int(sys.argv[1]), int(sys.argv[2])
    images = data.load("mnist")
    for pool, strategy, seed in units()[part::of]:
        kept(
            SCRIPT, f"{pool}-{strategy}-{seed}", lambda p=pool, s=strategy, one=seed: loop(p, s, one, images)
        )
        print(pool, strategy, seed, flush=True)


if __name__ == "__main__":
    main()
