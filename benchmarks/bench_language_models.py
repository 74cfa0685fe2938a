"""Ten thousand answers of a small language model beside the plain loop, which reads a whole text for a word.

In each row ``ratio`` is our time over the loop's: below 1 we are faster. All
rows draw from the same trained model; ``same`` is the share of the answers that
are word by word the loop's where all are asked in one chunk, and so meet the
same random numbers (rounding moves a draw now and then). The rows add one thing after
the other: keys and values are kept; each prompt is read once for all of its
samples; samples that begin alike go on together. The limit: every prompt read
once, and a random number looked up for every word.
"""

from functools import partial

import numpy as np

from benchmarks.limits import Limit
from benchmarks.timing import row
from uqhelpers import data, training
from uqhelpers._torch import torch
from uqhelpers.language_models import TinyTransformer, fit, sample_answers

# The loop lets finished answers rest: it reads 5 + 6 + at most 7 words of an answer where the kept keys
# read 5 + 1 + at most 1: by the count of words the first row comes to about 2.5.
BOUNDS = {"keys and values kept": 2.2, "each prompt read once": 6, "what begins alike read once": 15}
BASELINE = "the plain loop in torch"
WORDS = (
    "the words after the first are read too, one row a sample; where what begins alike is read once, "
    "samples are sorted into their beginnings and cumulated probabilities searched"
)


def trained(seed=0, epochs=14):
    """A world and a model of it."""
    world = data.biographies(telling=True, seed=seed)
    with training.seeded(seed):
        model = TinyTransformer(len(world.vocabulary))
    lines = world.prompts[world.people], world.answers[world.told]
    fit(model, *lines, world.end, epochs=epochs, seed=seed, progress=False)
    return world, model


def plain_loop(model, prompts, n, end, max_tokens=3, seed=0):
    """Draw a word for each sample, put it behind its text, and read all of the text again.

    Returns
    -------
    array, shape (N, n, max_tokens), int64
    """
    rng = np.random.default_rng(seed)
    text = torch.as_tensor(np.repeat(prompts, n, axis=0))
    tokens = np.full((len(text), max_tokens), end)
    alive = np.arange(len(text))
    with torch.inference_mode():
        for t in range(max_tokens):
            logits = model(text).logits[:, -1].double()
            summed = logits.softmax(-1).cumsum(-1)
            summed /= summed[:, -1:].clone()
            chance = torch.as_tensor(rng.random(len(alive)))
            drawn = torch.searchsorted(summed, chance[:, None], right=True)[:, 0]
            drawn = drawn.clamp(max=summed.shape[1] - 1)
            tokens[alive, t] = drawn.numpy()
            on = drawn != end
            alive, text = alive[on.numpy()], torch.cat([text[on], drawn[on, None]], dim=1)
    return tokens.reshape(len(prompts), n, max_tokens)


def rows(prompts=100, samples=100, repeats=5, epochs=14):
    """Measure all; the sizes are arguments so that a test can run it small.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit``, ``note`` and ``same``.
    """
    from threadpoolctl import threadpool_limits

    world, model = trained(epochs=epochs)
    groups = ("known", "once", "unseen", "ambiguous")
    asked = np.concatenate([world.of(group)[: prompts // 4] for group in groups])
    asked = world.prompts[asked]
    repeated = np.repeat(asked, samples, axis=0)
    ways = {  # in chunks of the usual size: what is at hand then fits the processor's cache
        "keys and values kept": partial(sample_answers, model, repeated, 1, world.end, share="prompts"),
        "each prompt read once": partial(sample_answers, model, asked, samples, world.end, share="prompts"),
        "what begins alike read once": partial(sample_answers, model, asked, samples, world.end),
    }

    def loop():
        return plain_loop(model, asked, samples, world.end)

    def least():
        with torch.inference_mode():
            summed = model(torch.as_tensor(asked)).logits[:, -1].double().softmax(-1).cumsum(-1).numpy()
        rng = np.random.default_rng(0)
        for _ in range(2):  # words an answer, at the least
            np.searchsorted(summed[0], rng.random(len(repeated)))

    limit = Limit("every prompt read once, and a random number looked up for every word", least, why=WORDS)
    note = f"{len(repeated):,} answers to {len(asked)} prompts, one thread"
    table = []
    with threadpool_limits(1):
        torch.set_num_threads(1)
        want = loop().reshape(len(repeated), -1)
        for name, ours in ways.items():
            entry = row(f"samples, {name}", ours, BASELINE, loop, repeats, note, limit)
            got = ours(seed=0, chunk=len(repeated)).tokens.reshape(len(repeated), -1)  # the loop's draws
            entry["same"] = float(np.mean((got == want).all(axis=1)))
            table.append(entry)
    return table
