"""Running the table: what is missing is computed, what is there is kept, one file a method and seed."""

import ast
import dataclasses
import functools
import hashlib
import inspect
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from uqhelpers._checks import as_whole
from uqhelpers._progress import bar
from uqhelpers.leaderboard import networks
from uqhelpers.leaderboard.answers import as_answer
from uqhelpers.leaderboard.columns import RESAMPLES, judge
from uqhelpers.leaderboard.methods import METHODS, Method, method, stranger
from uqhelpers.leaderboard.worlds import world

PROTOCOL = ("worlds", "answers", "columns", "disentanglement", "networks", "choosing", "posthoc", "trained")
"""The modules that decide about a figure: with other code in them, a run is another one."""

__all__ = ["Run", "evaluate", "finished", "run"]


@dataclasses.dataclass(frozen=True)
class Run:
    """The figures of one method from one seed in one world.

    Attributes
    ----------
    method, world : str
    seed : int
    figures : dict of float
        By column; NaN where the method has no such part.
    resampled : dict of list of float
        The same columns from resampled inputs.
    """

    method: str
    world: str
    seed: int
    figures: dict
    resampled: dict


def evaluate(name, seed=0, world_name="standard", edition=None, fit=None, resamples=RESAMPLES):
    """Train one method once, ask it everything, and judge its answers.

    Parameters
    ----------
    name : str
        A method of the table, ``module:function``, or any name beside ``fit``.
    seed : int
    world_name : str
        As for :func:`world`.
    edition : {"digits", "mnist"}, optional
    fit : callable, optional
        ``fit(train, validation)`` or ``fit(train, validation, seed)``; returns
        ``predict(images)``, which returns class probabilities of shape (N, C),
        those of sampled models (S, N, C), or an :class:`Answer`.
    resamples : int
        How many times the inputs are resampled.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If an answer has a wrong shape, or a row that does not sum to 1. The
        method is named.
    """
    seed = as_whole(seed, "seed", low=0)
    asked = method(name) if fit is None else stranger(name, fit)
    here = world(world_name, seed, edition)
    images, places = here.questions()

    networks.warm_up()
    base = _seconds(lambda: networks.network(here.train, seed))
    predict, fit_seconds = _timed(lambda: _fitted(asked, name, here, seed))
    answer, predict_seconds = _timed(lambda: predict(images))
    answer = as_answer(answer, len(images), here.classes, name)
    figures, resampled = judge(answer, here, places, resamples)
    net = networks.network(here.train, seed)
    once = min(_seconds(lambda: networks.probabilities(net, images)) for _ in range(3))
    figures["fit_cost"] = fit_seconds / base
    figures["predict_cost"] = predict_seconds / once
    figures["kept"] = getattr(predict, "kept", networks.weights(net)) / networks.weights(net)
    if fit is not None or ":" in name:
        figures["kept"] = getattr(predict, "kept", np.nan) / networks.weights(net)
    return Run(name, world_name, seed, figures, resampled)


def _fitted(asked, name, here, seed):
    takes_seed = "seed" in inspect.signature(asked.fit).parameters
    predict = asked.fit(here.train, here.validation, **({"seed": seed} if takes_seed else {}))
    if not callable(predict):
        raise ValueError(
            f"{name}: fit: expected it to return a function predict(images), got {type(predict).__name__}"
        )
    return predict


def _timed(work):
    """What work returns, and its seconds of CPU, with those of shared networks that were there already."""
    networks.open_account()
    started, before = time.process_time(), networks.spent()
    trained = networks.trained_seconds()
    done = work()
    own = time.process_time() - started - (networks.trained_seconds() - trained)
    return done, own + networks.spent() - before


def _seconds(work):
    return _timed(work)[1]


def run(
    methods=None,
    seeds=range(5),
    worlds=("standard",),
    *,
    folder="leaderboard-runs",
    edition=None,
    n_jobs=None,
    resamples=RESAMPLES,
    progress=True,
):
    """All runs that were asked for: from the folder where they are there, computed where they are missing.

    The runs of one seed in one world share their networks and are one job;
    ``with joblib.parallel_config("dask"):`` around the call takes jobs to a
    cluster. A run that is finished is written at once and in one step, so
    that an interrupted table goes on where it stopped.

    Parameters
    ----------
    methods : sequence of str, optional
        Names of the table, or ``module:function``; all of the table, if none.
    seeds : sequence of int
    worlds : sequence of str
    folder : path
    edition : {"digits", "mnist"}, optional
    n_jobs : int, optional
        As joblib has it.
    resamples : int
    progress : bool, whether a bar shows long work

    Returns
    -------
    list of Run
        By world, seed and method, in the order asked for.

    Raises
    ------
    ValueError
        If a method is unknown, or answers what it must not.
    """
    import joblib

    names = list(METHODS if methods is None else methods)
    for name in names:
        method(name)  # refuses at once
    folder = Path(folder)
    jobs = {}
    for world_name in worlds:
        for seed in seeds:
            missing = [n for n in names if _read(_place(folder, n, seed, world_name, edition)) is None]
            if missing:
                jobs[world_name, int(seed)] = missing
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    done = parallel(
        joblib.delayed(_job)(missing, seed, world_name, edition, os.fspath(folder), resamples)
        for (world_name, seed), missing in jobs.items()
    )
    for _ in bar(done, progress, total=len(jobs), desc="leaderboard", unit="seed"):
        pass
    return [
        _read(_place(folder, name, seed, world_name, edition))
        for world_name in worlds
        for seed in seeds
        for name in names
    ]


def finished(methods=None, seeds=range(5), worlds=("standard",), *, folder="leaderboard-runs", edition=None):
    """What lies in a folder already, and was made by the present code; nothing is computed.

    Parameters
    ----------
    methods, seeds, worlds, folder, edition
        As for :func:`run`.

    Returns
    -------
    list of Run
        Of those seeds of a world in which none of the methods is missing, in
        the order asked for. May be empty.
    """
    names, found = list(METHODS if methods is None else methods), []
    for world_name in worlds:
        for seed in seeds:
            there = [_read(_place(Path(folder), name, seed, world_name, edition)) for name in names]
            if None not in there:
                found += there
    return found


def _job(names, seed, world_name, edition, folder, resamples):
    """The missing methods of one seed, each written when it is done."""
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # results depend on the number of threads in their last digits
        for name in names:
            _write(
                _place(folder, name, seed, world_name, edition),
                evaluate(name, seed, world_name, edition, resamples=resamples),
            )
    finally:
        torch.set_num_threads(before)
        networks.forget()
    return len(names)


# --- files ------------------------------------------------------------------------------------------------


def _place(folder, name, seed, world_name, edition):
    """Where a run is kept: its name holds whatever decides about it."""
    words = [edition or os.environ.get("UQ_DATASET") or "digits", world_name, name, str(int(seed))]
    plain = "-".join("".join(c if c.isalnum() else "_" for c in word) for word in words)
    return Path(folder) / f"{plain}-{_code(name)}.json"


def _code(name):
    """A hash of the protocol's code, and of a stranger's."""
    total = hashlib.sha256(_protocol())
    if ":" in name:
        source = inspect.getsourcefile(method(name).fit)
        total.update(Path(source).read_bytes() if source and Path(source).exists() else name.encode())
    return total.hexdigest()[:12]


@functools.cache
def _protocol():
    files = (Path(__file__).parent / f"{part}.py" for part in PROTOCOL)
    return b"".join(_without_words(path.read_text(encoding="utf-8")) for path in files)


def _without_words(source):
    """What a module does: its code without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree).encode()


def _write(path, finished):
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(finished), file)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def _read(path):
    try:
        return Run(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # missing, or half of a file from another time: computed again
