"""Second questions put to small networks: what the text about them has to do with what they tell.

The chapter's second questions name a place that is, in half of the lines, the one that the line goes
on to tell: of two true places the text itself then lets one foretell the other. Here a network
that reads such lines stands beside one whose lines name a place drawn apart from what
follows, in worlds where names tell. Both are also asked about places that they were told of, which says
whether they have learned to judge at all.
"""

import json

import numpy as np

from benchmarks import tables
from benchmarks.provenance import ROOT, replace, surroundings
from benchmarks.reproduce import kept
from benchmarks.reproduce_language_models import GROUPS, SCORES, area, everything, trained
from uqhelpers import data, metrics
from uqhelpers.language_models import meaning_probs, sequence_log_prob

SCRIPT = "reproduce_language_models_again"
BESIDE = ROOT / "benchmarks" / "results" / "reproduce_language_models.json"
STORED = ROOT / "uqhelpers" / "language_models" / "measured.json"
SEEDS = (0, 1, 2, 3, 4)
TEXTS = {"told": "the place is the line's own, or the family's", "apart": "drawn apart from what follows"}
FIGURES = {
    "semantic, known": "AUROC known / unseen: semantic entropy",
    "semantic, ambiguous": "AUROC ambiguous / unseen: semantic entropy",
    "p true, known": "AUROC known / unseen: P(true)",
    "p true, ambiguous": "AUROC ambiguous / unseen: P(true)",
    "again, known": "AUROC known / unseen: information between two answers",
    "again, ambiguous": "AUROC ambiguous / unseen: information between two answers",
    "judged": "AUROC of P(true): a true place against another of the family, people told of often",
    "wrong, p true": "AUROC wrong / right answers: P(true)",
    "wrong, semantic": "AUROC wrong / right answers: semantic entropy",
    **{f"information, {group}": f"information between two answers, nats: {group}" for group in GROUPS},
}


def apart_lines(world, seed):
    """Second lines that ask again, the place named drawn apart from what the line tells.

    In half of them it is one that is told of the person, drawn anew; in the
    others one told of somebody in the family.
    """
    rng, own, count = np.random.default_rng(seed), world.meanings[world.told], len(world.told)
    edges = world.truth[world.people].cumsum(axis=1)
    named = (rng.random((count, 1)) * edges[:, -1:] > edges).sum(axis=1)
    family = world.surnames[world.people]
    for name in np.unique(family):
        lines = np.flatnonzero(family == name)
        other = rng.random(len(lines)) < 0.5
        named[lines[other]] = own[rng.choice(lines, size=other.sum())]
    return world.second_questions("again?", world.people, named), world.answers[world.told]


def says_yes(net, world, people, places):
    """The probability of yes, out of yes and no."""
    asked = world.second_questions("right?", people, places)
    yes, no = (
        np.exp(sequence_log_prob(net, asked, np.full((len(asked), 1), token), world.end))
        for token in map(world.vocabulary.index, ("yes", "no"))
    )
    return yes / (yes + no)


def judged(net, world, seed):
    """AUROC of P(true): a true place against another one of the family, where both were told of often."""
    rng, known = np.random.default_rng(seed), world.of("known")
    true, other = world.truth[known].argmax(axis=1), []
    for who, place in zip(known, true, strict=True):
        family = world.truth[world.surnames == world.surnames[who]].sum(axis=0)
        family[place] = 0
        other.append(rng.choice(np.flatnonzero(family)) if family.any() else (place + 1) % len(family))
    says = [says_yes(net, world, known, np.array(places)) for places in (true, other)]
    return area_of(np.concatenate(says), np.repeat([1, 0], len(known)))


def area_of(score, positive):
    """AUROC, or NaN where there is but one kind."""
    positive = np.asarray(positive, bool)
    return float(metrics.auroc(score, positive)) if 0 < positive.sum() < len(positive) else float("nan")


def second_figures(world, seed, again, epochs=14):
    """All figures of a network that also reads second questions."""
    texts = [(world.prompts[world.people], world.answers[world.told])]
    texts += [world.second_lines("right?", seed), again]
    prompts, answers = map(list, zip(*texts, strict=True))
    (net,) = trained(world, [seed], epochs, prompts, answers)
    probs = meaning_probs(everything(net, world), world.meanings)
    best, places, people = probs[:, :-1].argmax(axis=1), probs.shape[1] - 1, np.arange(len(world))
    asked = world.second_questions(
        "again?", np.repeat(people, places), np.tile(np.arange(places), len(people))
    )
    then = meaning_probs(everything(net, world, asked), world.meanings).reshape(len(people), places, -1)
    first = probs[:, :-1] / probs[:, :-1].sum(axis=1, keepdims=True)
    joint = first[:, :, None] * then
    marginal = joint.sum(axis=1, keepdims=True)
    ratio = np.log(np.maximum(then, 1e-300)) - np.log(np.maximum(marginal, 1e-300))
    scores = {
        "semantic": metrics.predictive_entropy(probs),
        "p true": -says_yes(net, world, people, best),
        "again": (joint * ratio).sum(axis=(1, 2)),
    }
    wrong = world.truth[people, best] == 0
    return {
        **{
            f"{name}, {low}": area(v, world, low)
            for name, v in scores.items()
            for low in ("known", "ambiguous")
        },
        "judged": judged(net, world, seed),
        "wrong, p true": area_of(scores["p true"], wrong),
        "wrong, semantic": area_of(scores["semantic"], wrong),
        **{f"information, {group}": float(scores["again"][world.of(group)].mean()) for group in GROUPS},
    }


def one_world(seed, epochs=14, **sizes):
    """Both texts of one world."""
    world = data.biographies(telling=True, seed=seed, **sizes)
    lines = {"told": world.second_lines("again?", seed), "apart": apart_lines(world, seed)}
    return {how: second_figures(world, seed, again, epochs) for how, again in lines.items()}


def reproduce(seeds=SEEDS):
    """All worlds.

    Returns
    -------
    dict, str, tuple of int
        The figures of each world, a Markdown page, and the seeds.
    """
    runs = [kept(SCRIPT, s, lambda s=s: one_world(s)) for s in seeds]
    beside = json.loads(BESIDE.read_text(encoding="utf-8"))
    about = {"about": surroundings(SCRIPT), "areas and samples": {k: beside[k] for k in ("code", "date")}}
    replace(STORED, json.dumps(packed(beside, runs) | about) + "\n")
    return {"runs": runs}, page(runs), seeds


def gathered(trees):
    """Trees of one shape as one, with lists for leaves."""
    if isinstance(trees[0], dict):
        return {key: gathered([tree[key] for tree in trees]) for key in trees[0]}
    return [round(value, 4) for value in trees]


def packed(beside, runs):
    """What the chapter reads, from the worlds of both scripts: each figure a list with one entry a world."""
    worlds = {
        words: gathered([{key: run[key] for key in ("area", "samples")} for run in found])
        for words, found in beside["runs"].items()
    }
    return {"seeds": beside["seeds"], "names": SCORES, "worlds": worlds, "again": gathered(runs)}


def page(runs):
    """The runs as Markdown."""
    lines = [
        "# Second questions, and the text about them",
        "",
        f"Mean ± standard deviation over {len(runs)} worlds (seeds) in which names tell; one network of "
        "61,000 weights for each text, fourteen readings. A question names a place; columns say which.",
        "",
    ]
    body = [
        [words, *(tables.spread([run[how][name] for run in runs], 3) for how in TEXTS)]
        for name, words in FIGURES.items()
    ]
    lines.append(tables.markdown(["", *TEXTS.values()], body, numbers=True))
    return "\n".join(lines)
