"""Whole loops: train, ask, train again; the same seeds for every strategy, resumed where they stopped."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from uqhelpers._checks import as_generator, as_labels, as_whole, to_numpy
from uqhelpers._progress import bar
from uqhelpers.active_learning.acquisition import OPTIONS, SCORES, STRATEGIES, acquire

__all__ = ["Candidates", "Curve", "Learner", "simulate"]

STREAMED = ("random", "power_bald", *SCORES)
INITIAL, DRAWN, CHOSEN = 0, 1, 2  # random streams of a seed, apart from those of its networks


@dataclasses.dataclass(frozen=True)
class Learner:
    """What learns, as functions; all take whatever ``fit`` returns.

    Parameters
    ----------
    fit : callable
        ``fit(inputs, labels, seed)`` returns a trained model.
    sample : callable
        ``sample(model, inputs, seed)`` returns class probabilities (S, n, C) of
        networks that are the same for all inputs, and for all calls with one
        seed; or (n, C), for strategies that need no more.
    evaluate : callable
        ``evaluate(model)`` returns a number, or a dict of numbers by name.
    features : callable, optional
        ``features(model, inputs)`` returns an array (n, D): for "k_center" and
        "badge".
    """

    fit: Callable
    sample: Callable
    evaluate: Callable
    features: Callable | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Candidates:
    """What a strategy of one's own gets to see, once a round.

    Parameters
    ----------
    model
        As ``fit`` returned it.
    inputs : array, shape (n, ...)
        What may be asked about; their labels are not told.
    known, known_labels : array
        What has been labelled.
    batch : int
        How many to choose.
    seed : int
        For what is random.
    learner : Learner
    """

    model: object
    inputs: np.ndarray
    known: np.ndarray
    known_labels: np.ndarray
    batch: int
    seed: int
    learner: Learner

    def sample(self):
        """Sampled class probabilities of all candidates."""
        return self.learner.sample(self.model, self.inputs, self.seed)


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """One loop: figures by the number of labels.

    Parameters
    ----------
    strategy : str
    seed : int
    labels : array of int, shape (rounds + 1,)
        Labels that each model had, the initial ones included.
    figures : dict of array, each of shape (rounds + 1,)
        What ``evaluate`` gave, by name ("accuracy" where it gave a number).
    asked : array of int
        Places in the pool, the initial ones first, then in the order asked.
    """

    strategy: str
    seed: int
    labels: np.ndarray
    figures: dict
    asked: np.ndarray

    def labels_to(self, level, figure="accuracy"):
        """The fewest labels with which a figure was reached, or None."""
        reached = np.flatnonzero(self.figures[figure] >= level)
        return int(self.labels[reached[0]]) if len(reached) else None


def simulate(
    learner,
    inputs,
    labels,
    strategy="bald",
    *,
    initial=20,
    batch=10,
    rounds=10,
    seeds=(0,),
    candidates=None,
    chunk=10_000,
    options=None,
    name=None,
    folder=None,
    settings=None,
    n_jobs=None,
    progress=False,
):
    """Run the loop of active learning on a pool whose labels are known, once for each seed.

    Everything random hangs on the seed and the round alone: with one seed, all
    strategies start from the same labels and train networks with the same
    seeds, so that they can be compared in pairs. Seeds run through joblib:
    ``with joblib.parallel_config("dask"):`` takes them to a cluster.

    Parameters
    ----------
    learner : Learner
    inputs : array, shape (N, ...)
        The pool.
    labels : array of int, shape (N,)
        Looked up only for what is asked.
    strategy : str or callable
        One of ``STRATEGIES``, or a function of ``Candidates`` that returns
        places among them.
    initial : int or callable
        Labels to begin with, drawn at random; or a function of a generator
        that returns their places.
    batch, rounds : int
        Labels asked for at a time, and how often.
    seeds : sequence of int
        All different: one seed is one loop.
    candidates : int or callable, optional
        Only so many unlabelled inputs, drawn anew each round, are looked at;
        or a function of their places and a generator that returns some of
        them. All, unless told.
    chunk : int
        Inputs whose probabilities are in memory at a time, where the strategy
        ranks inputs one by one.
    options : dict, optional
        Of the strategy, as for ``acquire``; features are the learner's. For
        "epig", ``targets`` are inputs.
    name : str, optional
        Of the strategy, where it is a function: files and curves bear it.
    folder : path, optional
        Where each loop is kept after every round, so that it goes on where it
        stopped.
    settings : dict, optional
        What else decides about the result (data, epochs): a folder that holds
        loops of other settings is refused.
    n_jobs : int, optional
        As joblib has it.
    progress : bool
        Whether a bar appears.

    Returns
    -------
    list of Curve
        One a seed.

    Raises
    ------
    ValueError
        If the pool is too small, an option is missing or not one of the
        strategy's, a strategy chooses what it may not, or the folder holds
        something else.
    """
    if not isinstance(learner, Learner):
        raise ValueError(f"learner: expected a Learner, got {type(learner).__name__}")
    inputs = inputs if hasattr(inputs, "shape") else to_numpy(inputs, "inputs")
    labels = as_labels(labels, np.inf, length=len(inputs))
    batch, rounds = as_whole(batch, "batch"), as_whole(rounds, "rounds", low=0)
    if not callable(strategy) and strategy not in STRATEGIES:
        raise ValueError(f"strategy: expected a function or one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if strategy in ("k_center", "badge") and learner.features is None:
        raise ValueError(f"learner: expected one with features for strategy {strategy!r}")
    _check_options(strategy, options or {})
    first = 0 if callable(initial) else as_whole(initial, "initial")
    if first + batch * rounds > len(inputs):
        raise ValueError(f"rounds: expected a pool of {first + batch * rounds} inputs, got {len(inputs)}")
    if candidates is not None and not callable(candidates):
        as_whole(candidates, "candidates", low=batch)
    name = name or (strategy.__name__ if callable(strategy) else strategy)
    plan = _Plan(
        learner, strategy, name, initial, batch, rounds, candidates, as_whole(chunk, "chunk"), options or {}
    )
    if folder is not None and "<lambda>" in name:
        raise ValueError(
            "name: expected one for a function without a name, since its loops are kept; got none"
        )
    described = {"batch": batch, "initial": _described(initial), "candidates": _described(candidates)}
    described |= {"options": {key: _described(value) for key, value in plan.options.items()}}
    described |= {"pool": [_described(inputs), _described(labels)], **(settings or {})}
    described = json.loads(json.dumps(described))
    import joblib

    if not hasattr(seeds, "__iter__"):
        raise ValueError(f"seeds: expected some, one a loop, got {seeds!r}")
    jobs = [as_whole(seed, "seeds", low=0) for seed in seeds]
    if len(set(jobs)) < len(jobs):
        raise ValueError(f"seeds: expected different ones, a loop each, got {jobs}")
    run = joblib.delayed(_loop)
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    found = parallel(run(plan, inputs, labels, seed, folder, described) for seed in jobs)
    return list(bar(found, progress, total=len(jobs), desc=name, unit="loop"))


def _check_options(strategy, options):
    """Refuse, before anything is trained, options that would have no effect, and none where one is needed."""
    own = set() if callable(strategy) else OPTIONS.get(strategy, set()) - {"features", "known"}
    foreign = sorted(set(options) - own)
    if foreign:
        named = "a function" if callable(strategy) else repr(strategy)
        raise ValueError(
            f"options: expected {sorted(own) or 'none'} with the strategy {named}, got {foreign}"
        )
    if strategy == "epig" and options.get("targets") is None:
        raise ValueError("options: expected 'targets', inputs like those that will be asked, with 'epig'")


def _described(value):
    """What tells one argument from another in a file: numbers and names as they are, arrays by content."""
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    array = np.ascontiguousarray(to_numpy(value, "inputs"))
    return f"{array.shape} {array.dtype} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


@dataclasses.dataclass(frozen=True)
class _Plan:
    learner: Learner
    strategy: object
    name: str
    initial: object
    batch: int
    rounds: int
    candidates: object
    chunk: int
    options: dict


def _loop(plan, inputs, labels, seed, folder, described):
    """One seed's loop, from the start or from where its file says."""
    path = None if folder is None else Path(folder) / f"{plan.name}-{seed}.json"
    asked, figures, start = _kept(path, described)
    if not asked:
        asked = _first(plan, len(inputs), seed)
        start = len(asked)
    if figures and len(figures) <= plan.rounds and len(asked) < start + plan.batch * len(figures):
        figures.pop()  # the last model of a shorter run never asked: it is trained again, and asks
    while len(figures) <= plan.rounds:
        round_ = len(figures)
        here = np.array(asked)
        model = plan.learner.fit(inputs[here], labels[here], network_seed(seed, round_))
        found = plan.learner.evaluate(model)
        figures.append({k: float(v) for k, v in found.items()} if isinstance(found, dict) else float(found))
        if round_ < plan.rounds:
            asked = asked + _ask(plan, model, inputs, labels, asked, seed, round_)
        _keep(path, asked, figures, start, described)
    figures, asked = figures[: plan.rounds + 1], asked[: start + plan.batch * plan.rounds]
    names = figures[0] if isinstance(figures[0], dict) else ["accuracy"]
    return Curve(
        plan.name,
        seed,
        start + plan.batch * np.arange(plan.rounds + 1),
        {n: np.array([f[n] if isinstance(f, dict) else f for f in figures]) for n in names},
        np.array(asked),
    )


def network_seed(seed, round_):
    """The seed of a round's network: the same for every strategy."""
    return int(np.random.SeedSequence([seed, round_]).generate_state(1)[0])


def _first(plan, inputs, seed):
    rng = np.random.default_rng([seed, INITIAL])
    if not callable(plan.initial):
        return rng.permutation(inputs)[: plan.initial].tolist()
    places = np.asarray(plan.initial(rng)).tolist()
    if len(set(places)) < len(places) or not places or min(places) < 0 or max(places) >= inputs:
        raise ValueError(f"initial: expected different places of the pool, got {places}")
    return places


def _ask(plan, model, inputs, labels, asked, seed, round_):
    """The places of a round's batch."""
    left = np.setdiff1d(np.arange(len(inputs)), asked)
    rng = np.random.default_rng([seed, DRAWN, round_])
    if callable(plan.candidates):
        left = _some_of(left, plan.candidates(left, rng), plan.batch)
    elif plan.candidates is not None and plan.candidates < len(left):
        # By a lot for each input of the pool: strategies that have asked alike see alike.
        lots = rng.random(len(inputs))
        left = np.sort(left[np.argsort(lots[left])[: plan.candidates]])
    draw = int(np.random.SeedSequence([seed, CHOSEN, round_]).generate_state(1)[0])
    if callable(plan.strategy):
        here = np.array(asked)
        seen = Candidates(model, inputs[left], inputs[here], labels[here], plan.batch, draw, plan.learner)
        places = np.asarray(plan.strategy(seen))
    else:
        places = _acquire(plan, model, inputs, left, asked, draw)
    valid = (
        places.shape == (plan.batch,)
        and places.dtype.kind in "iu"
        and len(set(places.tolist())) == plan.batch
    )
    if not valid or places.min() < 0 or places.max() >= len(left):
        raise ValueError(
            f"strategy: expected {plan.batch} different places from 0 to {len(left) - 1}, "
            f"got {places.tolist()}"
        )
    return left[places].tolist()


def _some_of(left, chosen, least):
    """What a function of one's own chose to look at: different places, none of which has been asked about."""
    places = to_numpy(chosen, "candidates")
    different = places.ndim == 1 and len(np.unique(places)) == len(places) >= least
    if not different or places.dtype.kind not in "iu" or not np.isin(places, left).all():
        raise ValueError(
            f"candidates: expected at least {least} different places out of those without a label, "
            f"got {places.tolist()}"
        )
    return places


def _told(values, inputs, name):
    """What a learner says of some inputs, if it is about each of them."""
    axis = 1 if np.ndim(values) == 3 else 0
    if np.ndim(values) > axis and np.shape(values)[axis] != len(inputs):
        raise ValueError(
            f"learner: expected {name} of {len(inputs)} inputs, got an array of shape {np.shape(values)}"
        )
    return values


def _acquire(plan, model, inputs, left, asked, draw):
    learner, options = plan.learner, dict(plan.options)

    def sampled(some):
        return _told(learner.sample(model, some, draw), some, "probabilities")

    def featured(some):
        return _told(learner.features(model, some), some, "features")

    if plan.strategy == "random":
        return as_generator(draw).permutation(len(left))[: plan.batch]
    if plan.strategy in STREAMED:
        parts = (left[start : start + plan.chunk] for start in range(0, len(left), plan.chunk))
        probs = (sampled(inputs[part]) for part in parts)
    else:
        probs = sampled(inputs[left])
    if plan.strategy == "epig":
        options["targets"] = sampled(options["targets"])
    if "features" in OPTIONS.get(plan.strategy, ()):
        options["features"] = featured(inputs[left])
    if plan.strategy == "k_center":
        options["known"] = featured(inputs[np.array(asked)])
    return acquire(probs, plan.strategy, plan.batch, draw, **options)


def _kept(path, described):
    """What was asked and found so far."""
    if path is None or not path.exists():
        return [], [], 0
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kept, start = content["settings"], content["initial"]
        asked, figures = content["asked"], content["figures"]
    except (ValueError, KeyError, TypeError):  # cut off, or something else: start anew
        return [], [], 0
    if kept != described:
        raise ValueError(f"folder: expected loops with the settings {described}, got {kept} in {path.name}")
    return asked, figures, start


def _keep(path, asked, figures, start, described):
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    content = {"settings": described, "initial": start, "asked": asked, "figures": figures}
    part.write_text(json.dumps(content), encoding="utf-8")
    os.replace(part, path)
