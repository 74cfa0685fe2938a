"""Active learning on small digits: pools of several kinds by strategies, paired over seeds.

900 training digits and, in some pools, 200 images more; a small network with
dropout from scratch in each round, 20 labels, ten rounds of ten. Each loop is kept
when it is finished. Letters have no label: asking for one costs it and teaches
nothing.
"""

import sys

import numpy as np
from scipy import stats

from benchmarks.provenance import ROOT, code_hash, store
from benchmarks.reproduce import kept, origins
from benchmarks.tables import markdown
from uqhelpers import active_learning, data, ddu, mc_dropout, metrics, models, training

SCRIPT = "reproduce_active_learning_pools"
HEAD = (
    "strategy", "accuracy at 120 (%)", "against random (points)", "NLL at 120", "gap at 120 (points)",
    "asked outside of the digits (%)",
)  # fmt: skip
SEEDS = tuple(range(100, 110))  # not those of the chapter
INITIAL, BATCH, ROUNDS, MASKS = 20, 10, 10, 30
MORE = 200
FOREIGN = 10  # the label of what has none
GATE = 0.95  # a candidate is shut out if this share of the labelled digits is less strange
POOLS = {
    "clean": "900 digits",
    "scrawls": "and 200 means of four digits, labelled with one of them",
    "blends": "and 200 blends of two look-alike digits, labelled with one of them",
    "letters": "and 200 letters, whose labels are thrown away",
    "repeated": "each digit three times, with noise of .02",
    "imbalanced": "digits 5 to 9 ten times as rare as 0 to 4",
}
STRATEGIES = {
    "random": "random",
    "entropy": "entropy",
    "margin": "margin",
    "margin_once": "margin, one pass",
    "bald": "BALD, the top ten",
    "batch_bald": "BatchBALD",
    "power_bald": "PowerBALD",
    "epig": "EPIG",
    "gate": "density gate, then BALD",
    "k_center": "k-center",
    "badge": "BADGE",
}


SET_UP = """
A network with 128 hidden units and dropout .5, 50 epochs from scratch in each round. Strategies are
paired: one seed is one pool, one initial set, and networks of the same seeds. *Against random*:
accuracy averaged over the ten rounds, difference in points with its 95 % interval; all strategies on
six pools are many comparisons, and one in twenty intervals misses. EPIG's targets are 100 validation
digits. The gate lets in what is not stranger than 95 % of the labelled digits are to a Gaussian a class
fitted to them. *One pass*: the margin of the network's own prediction, without dropout; the other
margin is that of the average over the masks. K-center and BADGE look at the network's last hidden
layer without dropout."""


def make_pool(kind, seed, digits):
    """Images and labels of a pool; 10 is the label of what has none."""
    train = digits.train[:900]
    images, labels = train.images, train.labels
    if kind == "scrawls":
        more, said = active_learning.scrawls(images, labels, MORE, seed=seed)
    elif kind == "blends":
        blends = data.ambiguous_digits(MORE, seed, split="train")
        which = np.random.default_rng(seed).integers(0, 2, MORE)
        more, said = blends.images, blends.labels[np.arange(MORE), which]
    elif kind == "letters":
        more = data.letters(MORE, digits.image_shape, seed=seed).images
        said = np.full(MORE, FOREIGN)
    elif kind == "repeated":
        return active_learning.repeated(images, labels, 3, 0.02, seed)
    elif kind == "imbalanced":
        keep = (labels < 5) | (np.random.default_rng(seed).random(len(labels)) < 0.1)
        return images[keep], labels[keep]
    else:
        return images, labels
    return np.concatenate([images, more]), np.concatenate([labels, said])


def fit(images, labels, seed):
    """A network from scratch, on what has a label."""
    with training.seeded(seed):
        net = models.MLP(images[0].size, 10, (128,), 0.5, 0.3, 0.37)
    known = labels < FOREIGN
    settings = {"epochs": 50, "batch_size": 32, "learning_rate": 5e-3, "device": "cpu", "progress": False}
    training.fit(net, images[known], labels[known], seed=seed, **settings)
    return net


def sample(net, images, seed):
    """Class probabilities under masks that are networks."""
    return mc_dropout.sample(net, images, MASKS, seed=seed, masks="shared")


def margin_once(seen):
    """The smallest margins of one prediction without dropout."""
    lead = metrics.margin(training.predict(seen.model, seen.inputs))
    return np.argsort(lead, kind="stable")[: seen.batch]


def gate(seen):
    """BALD among those whose features are not stranger than nearly all labelled ones."""
    known = seen.known_labels < FOREIGN
    phi = training.features(seen.model, seen.known[known])
    labels = np.unique(seen.known_labels[known], return_inverse=True)[1]
    counts = np.bincount(labels)
    enough = counts[labels] >= 2
    labels = np.unique(labels[enough], return_inverse=True)[1]
    density = ddu.GaussianFeatureDensity(jitter=0.1).fit(phi[enough], labels)
    limit = np.quantile(density.log_density(phi), 1 - GATE)
    inside = density.log_density(training.features(seen.model, seen.inputs)) >= limit
    score = metrics.mutual_information(seen.sample())
    return np.lexsort((-score, ~inside))[: seen.batch]


OWN = {"margin_once": margin_once, "gate": gate}


def judge(digits):
    """A function that judges a network by test digits: accuracy, NLL, and confidence minus accuracy."""

    def evaluate(net):
        probs = training.predict(net, digits.test.images)
        accuracy = metrics.accuracy(probs, digits.test.labels)
        return {
            "accuracy": accuracy,
            "nll": metrics.negative_log_likelihood(probs, digits.test.labels),
            "gap": float(metrics.max_probability(probs).mean() - accuracy),
        }

    return evaluate


def run(learner, pool, strategy, seed, digits):
    """One loop: figures of each round, and the share of what was asked that is no digit."""
    images, labels = make_pool(pool, seed, digits)
    (curve,) = active_learning.simulate(
        learner,
        images,
        labels,
        OWN.get(strategy, strategy),
        initial=INITIAL,
        batch=BATCH,
        rounds=ROUNDS,
        seeds=[seed],
        options={"targets": digits.validation.images[:100]} if strategy == "epig" else None,
    )
    foreign = curve.asked[INITIAL:] >= 900 if pool in ("scrawls", "blends", "letters") else np.zeros(1)
    return {
        "labels": curve.labels.tolist(),
        "foreign": float(np.mean(foreign)),
        **{name: values.tolist() for name, values in curve.figures.items()},
    }


def loop(pool, strategy, seed, digits):
    """One loop whose information comes from dropout masks."""
    learner = active_learning.Learner(fit, sample, judge(digits), training.features)
    return run(learner, pool, strategy, seed, digits)


def units(seeds=SEEDS):
    """Every loop there is."""
    return [(pool, strategy, seed) for seed in seeds for pool in POOLS for strategy in STRATEGIES]


def finished(seeds=SEEDS):
    """The seeds whose loops have all been computed by the present code."""
    folder, code = ROOT / "_build" / "reproduce", code_hash(SCRIPT)

    def there(pool, strategy, seed):
        return (folder / f"{SCRIPT}-{pool}-{strategy}-{seed}-{code}.json").exists()

    return tuple(seed for seed in seeds if all(there(*unit) for unit in units([seed])))


def reproduce(seeds=SEEDS):
    """All loops.

    Returns
    -------
    dict, str, tuple of int
        The figures of each loop, a Markdown page, and the seeds.
    """
    digits = data.load("digits")
    loops = {}
    for pool, strategy, seed in units(seeds):
        found = kept(
            SCRIPT, f"{pool}-{strategy}-{seed}", lambda p=pool, s=strategy, one=seed: loop(p, s, one, digits)
        )
        loops.setdefault(pool, {}).setdefault(strategy, []).append(found)
    return {"loops": loops}, page(loops), seeds


def over_rounds(runs, figure="accuracy"):
    """A figure averaged over the rounds after the first question, one a seed."""
    return np.array([np.mean(run[figure][1:]) for run in runs])


def interval(values, scale=100, digits=1):
    """Mean of paired differences and half the width of its 95 % interval (Student's t)."""
    values = scale * np.asarray(values)
    reach = stats.t(len(values) - 1).ppf(0.975) * stats.sem(values)
    return f"{np.mean(values):+.{digits}f} ± {reach:.{digits}f}"


def page(loops):
    """The loops as Markdown."""
    seeds = len(next(iter(next(iter(loops.values())).values())))
    lines = [
        "# Digits of 8 × 8 pixels: pools and strategies",
        "",
        f"{INITIAL} initial labels drawn at random and counted, {ROUNDS} rounds of {BATCH}; {MASKS} masks; "
        f"{seeds} seeds, none of them the chapter's. " + " ".join(SET_UP.split()),
    ]
    for pool, words in POOLS.items():
        if pool not in loops:
            continue
        base = loops[pool]["random"]
        rows = []
        for strategy, name in STRATEGIES.items():
            runs = loops[pool][strategy]
            difference = over_rounds(runs) - over_rounds(base)
            cells = [
                name,
                spread([run["accuracy"][-1] for run in runs], 100, 1),
                "" if strategy == "random" else interval(difference),
                spread([run["nll"][-1] for run in runs], 1, 2),
                spread([run["gap"][-1] for run in runs], 100, 1),
                f"{100 * np.mean([run['foreign'] for run in runs]):.0f}"
                if pool in ("scrawls", "blends", "letters")
                else "",
            ]
            rows.append(cells)
        lines += ["", f"## {pool.capitalize()}: {words}", "", markdown(HEAD, rows, numbers=True)]
    return "\n".join(lines)


def spread(values, scale, digits):
    """Mean and standard deviation of a few runs."""
    values = scale * np.array(values)
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def main():
    """Compute some of the loops: ``python -m benchmarks.reproduce_active_learning_pools PART OF``."""
    if sys.argv[1:] == ["store"]:
        store(SCRIPT, *reproduce(finished()), origins[SCRIPT])
        return
    part, of = int(sys.argv[1]), int(sys.argv[2])
    digits = data.load("digits")
    for pool, strategy, seed in units()[part::of]:
        kept(
            SCRIPT, f"{pool}-{strategy}-{seed}", lambda p=pool, s=strategy, one=seed: loop(p, s, one, digits)
        )


if __name__ == "__main__":
    main()
