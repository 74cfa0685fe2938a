"""Two worlds of people and birthplaces, five of each: which score parts whom, and what samples are worth.

Each run draws a world, trains four transformers on its text and enumerates all
answers. A fifth network is trained on a text that also holds second questions
(is this answer right? and asked again?), for what needs such questions. The
rates of invention come from texts in which few are spoken of often.
"""

import numpy as np

from benchmarks import tables
from benchmarks.reproduce import kept
from uqhelpers import data, metrics, training
from uqhelpers.language_models import (
    TinyTransformer,
    fit,
    good_turing,
    hidden_states,
    meaning_probs,
    predictive_split,
    sample_answers,
    semantic_entropy,
    sequence_log_prob,
    token_entropy,
)

SCRIPT = "reproduce_language_models"
SEEDS = (0, 1, 2, 3, 4)
MEMBERS = 4
GROUPS = ("known", "once", "unseen", "ambiguous")
SAMPLES = (3, 5, 10, 20, 50, 100)
EPOCHS = (10, 40, 80)
WORLDS = {True: "names tell", False: "names tell nothing"}
SCORES = {
    "likeliest": "probability of the likeliest answer",
    "average": "the same, a word",
    "token": "entropy of the next word, averaged along the likeliest answer",
    "answer": "entropy of the answer",
    "semantic": "semantic entropy",
    "consistency": "ten samples: share of the most frequent meaning",
    "discrete": "ten samples: semantic entropy, discrete",
    "weighted": "ten samples: semantic entropy, weighted",
    "total": "ensemble of four: total",
    "epistemic": "ensemble of four: disagreement",
    "probe": "linear probe of the hidden state, on other people",
    "second semantic": "with second questions in the text: semantic entropy",
    "p true": "with second questions: P(true)",
    "again": "with second questions: information between two answers",
}


def trained(world, seeds, epochs=14, prompts=None, answers=None):
    """Networks that read a text."""
    nets = []
    for seed in seeds:
        with training.seeded(seed):
            nets.append(TinyTransformer(len(world.vocabulary)))
    prompts = world.prompts[world.people] if prompts is None else prompts
    answers = world.answers[world.told] if answers is None else answers
    fit(nets, prompts, answers, world.end, epochs=epochs, seed=seeds[0], progress=False)
    return nets


def everything(net, world, prompts=None):
    """Log probabilities of all answers."""
    prompts = world.prompts if prompts is None else prompts
    given = np.broadcast_to(world.answers, (len(prompts), *world.answers.shape))
    return sequence_log_prob(net, prompts, given, world.end)


def area(score, world, low, high="unseen"):
    """AUROC of one group against another."""
    a, b = score[world.of(low)], score[world.of(high)]
    return float(metrics.auroc(np.concatenate([a, b]), np.arange(len(a) + len(b)) >= len(a)))


def probe(net, world, right, seed):
    """How wrong an answer looks from the hidden state, to a line fitted to the other half of the people."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    states, score = hidden_states(net, world.prompts), np.zeros(len(world))
    half = np.random.default_rng(seed).random(len(world)) < 0.5
    for one, other in ((half, ~half), (~half, half)):
        scale = StandardScaler().fit(states[one])
        line = LogisticRegression(C=0.1, max_iter=1000).fit(scale.transform(states[one]), right[one])
        score[other] = -line.decision_function(scale.transform(states[other]))
    return score


def second_scores(world, seed, epochs=14):
    """Scores of a network that also reads second questions."""
    texts = [(world.prompts[world.people], world.answers[world.told])]
    texts += [world.second_lines(ask, seed) for ask in ("right?", "again?")]
    prompts, answers = map(list, zip(*texts, strict=True))
    (net,) = trained(world, [seed], epochs, prompts, answers)
    probs = meaning_probs(everything(net, world), world.meanings)
    places, people = probs.shape[1] - 1, np.arange(len(world))
    asked = world.second_questions("right?", people, probs[:, :-1].argmax(axis=1))
    says = {}
    for word in ("yes", "no"):
        token = np.full((len(world), 1), world.vocabulary.index(word))
        says[word] = np.exp(sequence_log_prob(net, asked, token, world.end))
    asked = world.second_questions(
        "again?", np.repeat(people, places), np.tile(np.arange(places), len(people))
    )
    then = meaning_probs(everything(net, world, asked), world.meanings).reshape(len(people), places, -1)
    first = probs[:, :-1] / probs[:, :-1].sum(axis=1, keepdims=True)
    joint = first[:, :, None] * then
    marginal = joint.sum(axis=1, keepdims=True)
    ratio = np.log(np.maximum(then, 1e-300)) - np.log(np.maximum(marginal, 1e-300))
    return {
        "second semantic": metrics.predictive_entropy(probs),
        "p true": -says["yes"] / (says["yes"] + says["no"]),
        "again": (joint * ratio).sum(axis=(1, 2)),
    }


def one_world(telling, seed, epochs=14, **sizes):
    """All figures of one world.

    Returns
    -------
    dict
        ``right``, ``entropy`` and ``other`` by group, ``area`` by score, ``samples`` by number.
    """
    world = data.biographies(telling=telling, seed=seed, **sizes)
    nets = trained(world, [1000 * seed + i for i in range(MEMBERS)], epochs)
    logs = np.stack([everything(net, world) for net in nets])
    probs, split = meaning_probs(logs, world.meanings), predictive_split(logs, world.meanings)
    net, p, exact = nets[0], probs[0], metrics.predictive_entropy(probs[0])
    drawn = sample_answers(net, world.prompts, SAMPLES[-1], world.end, seed=seed)
    groups = world.meaning(drawn.tokens)
    likeliest = world.answers[logs[0].argmax(axis=1)]
    average = sequence_log_prob(net, world.prompts, likeliest, world.end, average=True)
    shares = [np.bincount(row[:10]).max() / 10 for row in groups]
    estimates = {n: _estimates(drawn, groups, n) for n in SAMPLES}
    right = world.truth[np.arange(len(world)), p[:, :-1].argmax(axis=1)] > 0
    scores = {
        "likeliest": -logs[0].max(axis=1),
        "average": -average,
        "token": token_entropy(net, world.prompts, likeliest, world.end),
        "answer": -(np.exp(logs[0]) * logs[0]).sum(axis=1),
        "semantic": exact,
        "consistency": -np.array(shares),
        **estimates[10],
        "total": split.total,
        "epistemic": split.epistemic,
        "probe": probe(net, world, right, seed),
        **second_scores(world, seed, epochs),
    }
    true = (p[:, :-1] * (world.truth > 0)).sum(axis=1)
    by_group = {"right": true, "entropy": exact, "disagreement": split.epistemic, "other": p[:, -1]}
    return {
        "groups": {
            key: {g: float(values[world.of(g)].mean()) for g in GROUPS} for key, values in by_group.items()
        },
        "area": {
            name: {low: area(score, world, low) for low in ("known", "ambiguous")}
            | {"once": area(score, world, "known", "once")}
            for name, score in scores.items()
        },
        "samples": {
            str(n): {
                kind: {
                    "bias": float((values - exact).mean()),
                    "error": float(np.sqrt(np.mean((values - exact) ** 2))),
                    "known": area(values, world, "known"),
                    "ambiguous": area(values, world, "ambiguous"),
                }
                for kind, values in found.items()
            }
            for n, found in estimates.items()
        },
    }


def _estimates(drawn, groups, n):
    texts, logs = drawn.tokens[:, :n], drawn.log_probs[:, :n]
    return {
        "discrete": semantic_entropy(texts, groups[:, :n]),
        "weighted": semantic_entropy(texts, groups[:, :n], logs, kind="weighted"),
    }


def inventions(seed, epochs=EPOCHS, **sizes):
    """Rates of invention in a text in which few are spoken of often, and what foretells them."""
    world = data.mentions(seed=seed, **sizes)
    told, places = good_turing(world.counts), world.truth.shape[1]
    found = {
        "foretold": told.invention(places),
        "never told": float((1 - 1 / places) * world.weights[world.counts == 0].sum()),
    }
    for count in epochs:
        (net,) = trained(world, [seed], count)
        p = meaning_probs(everything(net, world), world.meanings)[:, :-1]
        best = world.truth[np.arange(len(p)), p.argmax(axis=1)]
        found[f"drawn, {count}"] = float(world.weights @ (1 - (p * world.truth).sum(axis=1)))
        found[f"likeliest, {count}"] = float(world.weights @ (1 - best))
    return found


def reproduce(seeds=SEEDS):
    """All worlds, each seed.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    runs = {
        words: [
            kept(SCRIPT, f"{words.replace(' ', '-')}-{s}", lambda s=s, t=telling: one_world(t, s))
            for s in seeds
        ]
        for telling, words in WORLDS.items()
    }
    rates = [kept(SCRIPT, f"inventions-{s}", lambda s=s: inventions(s)) for s in seeds]
    return {"runs": runs, "inventions": rates}, page(runs, rates), seeds


def page(runs, rates):
    """The runs as Markdown."""
    count = len(rates)
    lines = [
        "# A small world, and what a language model knows of it",
        "",
        f"Mean ± standard deviation over {count} worlds of each kind (seeds); in each four transformers of "
        "61,000 weights, fourteen readings of the text, all answers enumerated. AUROC of sixty unseen people "
        "against sixty known and sixty ambiguous ones.",
        "",
    ]
    head = ["score", *(f"{words}: {low}" for words in runs for low in ("known", "ambiguous"))]
    body = [
        [
            words,
            *(
                tables.spread([run["area"][name][low] for run in found], 3)
                for found in runs.values()
                for low in ("known", "ambiguous")
            ),
        ]
        for name, words in SCORES.items()
    ]
    lines += [tables.markdown(head, body, numbers=True), "", "## Semantic entropy from samples", ""]
    lines += ["Errors against the exact one, in nats, over all people; one network a world.", ""]
    head = [
        "samples",
        *(f"{w}, {k}: {what}" for w in runs for k in ("discrete", "weighted") for what in ("bias", "error")),
    ]
    body = [
        [
            str(n),
            *(
                tables.spread([run["samples"][str(n)][kind][what] for run in found], 3)
                for found in runs.values()
                for kind in ("discrete", "weighted")
                for what in ("bias", "error")
            ),
        ]
        for n in SAMPLES
    ]
    lines += [tables.markdown(head, body, numbers=True), "", "## What was never told", ""]
    lines += [
        "Texts of 1,000 lines about 600 people, chances falling as one over the rank; 30 places. Share of "
        "the questions that are answered wrongly, in per cent; foretold by the people told of once, and what "
        "a model that knows all it was told would do.",
        "",
    ]
    head = ["", *(f"text {i + 1}" for i in range(count)), "mean"]
    names = {"foretold": "foretold by the singletons", "never told": "all known that was told"}
    names |= {
        f"{kind}, {n}": f"{kind} answer, {n} readings" for n in EPOCHS for kind in ("drawn", "likeliest")
    }
    body = [
        [words, *(f"{100 * r[key]:.1f}" for r in rates), f"{100 * np.mean([r[key] for r in rates]):.1f}"]
        for key, words in names.items()
    ]
    lines.append(tables.markdown(head, body, numbers=True))
    return "\n".join(lines)
