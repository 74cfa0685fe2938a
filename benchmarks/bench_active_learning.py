"""Batches of ten from ten thousand inputs: ``batch_bald`` beside the plain formula; BALD of a million.

In each row ``ratio`` is our time over the baseline's: below 1 we are faster. Both
choose from the same probabilities and draw the same configurations, and
``same`` says whether they chose the same batch. The predictions on MNIST are
those of a LeNet trained on a few labels, as in a loop that has just begun, and on
many: the fewer inputs are in doubt, the sooner the others are ruled out. The limits:
a pass over the probabilities and a logarithm of each, without which there is no
expected entropy.
"""

import tracemalloc

import numpy as np

from benchmarks.limits import Limit, elementwise, one_pass, several
from benchmarks.timing import row, seconds
from uqhelpers import active_learning, data, mc_dropout, metrics, models, training
from uqhelpers.active_learning import batches

BOUNDS = {
    "MNIST, 100": 8,
    "MNIST, 300": 15,
    "MNIST, 10,000": 40,
    "no structure": 5,
}  # times as fast as the formula
MEMORY = 256  # MiB that a batch may take at most, beside the probabilities themselves
BASELINE = "the plain formula in NumPy"
ANSWERS = (
    "each step also weighs candidates under up to 10,000 configurations of answers; "
    "how many candidates cannot be told without looking"
)
ENTROPIES = (
    "chunks are made; probabilities are checked, averaged over samples, and multiplied by their logarithms"
)
LABELS = {"MNIST, 100 labels": 100, "MNIST, 300 labels": 300, "MNIST, 10,000 labels": 10_000}


def plain_batch_bald(probs, batch, configurations=10_000, seed=0):
    """BatchBALD as one reads it: every candidate, every configuration, every label.

    Only the configurations themselves are drawn as the helper draws them.

    Returns
    -------
    list of int, list of float
        The batch, and what each adds.
    """
    rng = np.random.default_rng(seed)
    rng.integers(2**63)  # the helper spends one number on its shortcuts
    samples, inputs, classes = probs.shape
    pool = np.ascontiguousarray(probs.transpose(1, 2, 0)).reshape(-1, samples)
    alone = metrics.expected_entropy(probs)
    state, chosen, gains = batches._Configurations(samples, configurations), [], []
    for _ in range(batch):
        rows = state.drawn if state.drawn is not None else np.arange(len(state.shares))
        weights = state.weights[rows]  # one row a configuration, alike or not
        shares = np.full(len(rows), 1 / len(rows)) if state.drawn is not None else state.shares
        gain = np.empty(inputs)
        for start in range(0, inputs, 50):
            p = weights @ pool[start * classes : (start + 50) * classes].T
            entropy = -(shares @ (p * np.log(np.maximum(p, 1e-300))))
            gain[start : start + 50] = entropy.reshape(-1, classes).sum(axis=1)
        gain -= alone
        gain[chosen] = -np.inf
        chosen.append(int(np.flatnonzero(gain >= gain.max() - batches.TIE)[0]))
        gains.append(float(max(gain[chosen[-1]], 0)))
        if len(chosen) < batch:
            state = state.extended(probs[:, chosen[-1]].T, rng)
    return chosen, gains


def pools(inputs=10_000, samples=100, mnist=True, seed=0):
    """Sampled probabilities, by name; those of MNIST only where its files are."""
    rng = np.random.default_rng(seed)
    found = {}
    if mnist:
        train = data.load("mnist").train
        order = rng.permutation(len(train))
        for name, labels in LABELS.items():
            with training.seeded(seed):
                net = models.LeNet(mean=0.1307, std=0.3081)
            known = train[order[:labels]]
            epochs = max(4, round(300 / -(-labels // 32)))
            settings = {"epochs": epochs, "batch_size": 32, "learning_rate": 2e-3, "progress": False}
            training.fit(net, known.images, known.labels, seed=seed, **settings)
            rest = train.images[order[-inputs:]]
            found[name] = mc_dropout.sample(net, rest, samples, seed=seed, masks="shared")
    logits = 2 * rng.standard_normal((inputs, 10))
    noise = rng.uniform(0.2, 2.0, (inputs, 1))
    found["no structure"] = metrics.from_logits(logits + noise * rng.standard_normal((samples, inputs, 10)))
    return found


def most_memory(function):
    """MiB that a call takes at most, beside what was there before."""
    tracemalloc.start()
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def chunks(inputs, size, samples, classes):
    """A pool that is never in memory: each chunk is made when it is asked for."""
    base = np.random.default_rng(0).dirichlet(np.ones(classes), (samples, size)).astype(np.float32)
    for start in range(0, inputs, size):
        yield np.roll(base, start // size, axis=1)[:, : inputs - start]


def logarithm(part, out):
    """In the precision of what is given."""
    np.log(part, out=out.view(part.dtype)[: len(part)])


def least(probs):
    """What every way to a batch has to do with the probabilities of a pool."""
    probs = np.ascontiguousarray(probs)
    work = several(one_pass(probs), elementwise(logarithm, probs))
    return Limit("one pass over the probabilities and one logarithm of each", work, why=ANSWERS)


def least_of_stream(streamed, size, samples):
    """The same for a stream, whose chunks are alike: that of one of them, so many times."""
    (part,) = chunks(size, size, samples, 10)
    words = "one pass over every chunk, once it is made, and one logarithm of each probability"
    return Limit(words, least(part).work, streamed / size, ENTROPIES)


def rows(inputs=10_000, samples=100, batch=10, streamed=1_000_000, repeats=1, mnist=True):
    """Measure all; the sizes are arguments so that a test can run it small.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline) and ``note``; of batches also ``same`` and ``mib``, of
        the stream ``mib`` a tenth of the pool and all of it takes.
    """
    from threadpoolctl import threadpool_limits

    table = []
    with threadpool_limits(1):
        for name, probs in pools(inputs, samples, mnist).items():
            found = {}

            def ours(probs=probs, found=found):
                found["ours"] = active_learning.batch_bald(probs, batch).indices.tolist()

            def plain(probs=probs, found=found):
                found["plain"] = plain_batch_bald(probs, batch)[0]

            note = f"{inputs:,} x {probs.shape[2]}, {samples} samples, batch {batch}, one thread"
            entry = row(f"batch_bald, {name}", ours, BASELINE, plain, repeats, note, least(probs))
            entry["same"] = found["ours"] == found["plain"]
            entry["mib"] = most_memory(ours)
            entry["note"] += f"; the {'same' if entry['same'] else 'not the same'} batch"
            entry["note"] += f"; at most {entry['mib']:.0f} MiB beside the probabilities"
            table.append(entry)
        size = max(1, streamed // 100)

        def stream(count):
            return active_learning.acquire(chunks(count, size, samples, 10), "bald", batch)

        limit, held = least_of_stream(streamed, size, samples), {}
        for count in (streamed // 10, streamed):
            held[count] = most_memory(lambda count=count: stream(count))
        entry = row("bald, streamed", lambda: stream(streamed), "", None, 1, "", limit)
        entry["mib"] = list(held.values())
        making = seconds(lambda: sum(len(part) for part in chunks(streamed, size, samples, 10)))
        entry["note"] = (
            f"{streamed:,} x 10, {samples} samples, in chunks of {size:,}; making the chunks takes "
            f"{making:.1f} s of it; at most {held[streamed // 10]:.0f} MiB for a tenth of the pool, "
            f"{held[streamed]:.0f} MiB for all of it{entry['note']}"
        )
        table.append(entry)
    return table
