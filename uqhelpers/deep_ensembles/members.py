"""Below ``deep_ensembles``: training the members of an ensemble through joblib, each kept when finished."""

import hashlib
import io
import json
import os
import pickle
import tempfile
import threading
from pathlib import Path

import numpy as np

from uqhelpers import training
from uqhelpers._checks import as_whole
from uqhelpers._progress import bar
from uqhelpers._torch import as_module, torch

FORMAT = 1
# Torch's random numbers belong to the whole process: members in two threads of one would mix them.
ONE_AT_A_TIME = threading.Lock()
# What torch, the pickle and we ourselves meet in a file that is missing, cut off or something else.
UNREADABLE = (
    OSError, RuntimeError, EOFError, KeyError, TypeError, ValueError, AttributeError, IndexError,
    pickle.UnpicklingError,
)  # fmt: skip


def member_seeds(members, seed=0):
    """A seed for each member, all different, and none that of the ensemble.

    A baseline trained with ``seed`` is therefore never one of the members.

    Parameters
    ----------
    members : int
        How many; the first ones are the same for any number.
    seed : int
        Of the ensemble, at least 0.

    Returns
    -------
    list of int
        From 2^16 to 2^32 - 1: out of the way of the small numbers that people
        use.
    """
    members, seed = as_whole(members, "members"), as_whole(seed, "seed", low=0)
    seeds, place = [], 0
    while len(seeds) < members:
        # One entropy a place, so that the first ones do not depend on how many there are.
        candidate = int(np.random.SeedSequence([seed, place]).generate_state(1)[0])
        place += 1
        if candidate >= 1 << 16 and candidate != seed and candidate not in seeds:
            seeds.append(candidate)
    return seeds


def fit_members(
    make_network,
    fit,
    members=5,
    *,
    folder=None,
    settings=None,
    seed=0,
    n_jobs=None,
    threads=None,
    progress=True,
):
    """Train the members of an ensemble, in parallel if asked, and keep each one that is finished.

    They run through joblib: ``with joblib.parallel_config("dask"):`` around the
    call takes them to a cluster. Processes work side by side; threads of one
    process take turns, since torch's random numbers are one for all of them.
    With a folder, a run that was interrupted goes on where it stopped: only
    members whose file is missing or cannot be read are trained.

    Parameters
    ----------
    make_network : callable
        Without arguments, returns a new torch.nn.Module; called with torch's
        random numbers seeded for the member.
    fit : callable
        ``fit(network, seed)`` trains the network in place, with the member's
        seed for whatever is random in it.
    members : int
        How many.
    folder : path, optional
        Where finished members are kept, one file each, written in one step. It
        is made if need be.
    settings : dict, optional
        What decides what a member becomes: epochs, rate, data. Numbers, text,
        arrays, and lists and dicts of them. With a folder it must be given: it
        is how members of another run are told from those of this one. (Seeds and
        the names and shapes of the weights are compared anyway.)
    seed : int
        Of the ensemble; see ``member_seeds``.
    n_jobs : int, optional
        As joblib has it: None is one at a time, unless
        ``joblib.parallel_config`` says otherwise; -1 is all cores.
    threads : int, optional
        Threads torch may use for a member. Results depend on their number in
        the last digits, which training amplifies: with 1 they are the same
        wherever a member is trained.
    progress : bool, whether a bar shows long work

    Returns
    -------
    list of torch.nn.Module
        The members in order, in evaluation mode, on the CPU.

    Raises
    ------
    ValueError
        If the folder holds members of a run with other settings, members share
        weights, or a member's are not finite.

    Examples
    --------
    >>> networks = fit_members(
    ...     lambda: SimpleNet(train.images.shape[1:]),
    ...     lambda network, seed: fit(
    ...         network, train.images, train.labels, epochs=2, seed=seed
    ...     ),
    ...     members=5,
    ...     folder="ensemble",
    ...     settings={"epochs": 2, "data": "digits"},
    ... )
    """
    for name, value in (("make_network", make_network), ("fit", fit)):
        if not callable(value):
            raise ValueError(f"{name}: expected a callable, got {type(value).__name__}")
    seeds = member_seeds(members, seed)
    threads = None if threads is None else as_whole(threads, "threads")
    if not isinstance(settings, dict | None):
        raise ValueError(f"settings: expected a dict, got {type(settings).__name__}")
    described = _described(settings or {}, "settings")
    if folder is not None and settings is None:
        raise ValueError(
            "settings: expected what decides what a member becomes (epochs, data, ...), since members "
            "are kept in a folder; got None"
        )
    networks = [_new_network(make_network, one) for one in seeds]
    held = [id(parameter) for network in networks for parameter in network.parameters()]
    if len(set(held)) < len(held):
        raise ValueError("make_network: expected a new network at each call, got one that shares its weights")
    facts = [_facts(network, one, described) for network, one in zip(networks, seeds, strict=True)]
    missing = list(range(len(seeds)))
    if folder is not None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        missing = [place for place in missing if not _restore(networks[place], facts[place], folder, place)]

    import joblib

    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    # What comes back are bytes, which every backend can carry, and in whatever order it comes, it is kept.
    results = parallel(joblib.delayed(_train)(make_network, fit, seeds[p], p, threads) for p in missing)
    for place, content in bar(results, progress, total=len(missing), desc="members", unit="member"):
        state = torch.load(io.BytesIO(content), weights_only=True)
        if folder is not None:
            _keep(state, facts[place], folder, place)
        networks[place].load_state_dict(state)
    return networks


def _new_network(make_network, seed):
    with training.seeded(seed):
        network = make_network()
    return as_module(network, "make_network").cpu().eval()


def _train(make_network, fit, seed, place, threads):
    """One member, wherever this runs; its weights as bytes."""
    with ONE_AT_A_TIME:
        before = torch.get_num_threads()
        try:
            if threads is not None:
                torch.set_num_threads(threads)
            network = _new_network(make_network, seed).train()
            with training.seeded(seed):
                fit(network, seed)
        finally:
            torch.set_num_threads(before)
    state = {name: value.detach().cpu() for name, value in network.state_dict().items()}
    for name, value in state.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ValueError(f"fit: expected finite weights, got NaN or infinity in {name} of member {place}")
    content = io.BytesIO()
    torch.save(state, content)
    return place, content.getvalue()


# --- files ----------------------------------------------------------------------------------------------


def _path(folder, place):
    return folder / f"member_{place:03d}.pt"


def _facts(network, seed, described):
    """What must be equal for a stored member to be one of this run."""
    state = network.state_dict()
    return {
        "format": FORMAT,
        "seed": seed,
        "architecture": {name: [str(value.dtype), list(value.shape)] for name, value in state.items()},
        "settings": described,
    }


def _digest(state):
    total = hashlib.sha256()
    for name, value in state.items():
        total.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        total.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _keep(state, facts, folder, place):
    """Write a member in one step: under its name there is all of it or nothing."""
    record = {"state": state, "digest": _digest(state), "facts": json.dumps(facts)}
    handle, part = tempfile.mkstemp(dir=folder, prefix=f".{place:03d}_", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(record, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, _path(folder, place))
    except BaseException:
        os.unlink(part)
        raise


def _restore(network, facts, folder, place):
    """Load a stored member into the network; whether there was one that can be read."""
    path = _path(folder, place)
    try:
        record = torch.load(path, map_location="cpu", weights_only=True)
        state, there = record["state"], json.loads(record["facts"])
        sound = _digest(state) == record["digest"]
    except UNREADABLE:
        return False
    if not sound:
        return False
    _compare(there, json.loads(json.dumps(facts)), path)
    network.load_state_dict(state)
    return True


def _compare(there, here, path):
    if there == here:
        return
    for key in here:
        if there.get(key) == here[key]:
            continue
        if key != "settings":
            raise ValueError(
                f"folder: {path} is a member of another run: its {key} differs; use another folder"
            )
        names = sorted({*there["settings"], *here["settings"]})
        differing = [
            f"{name} was {there['settings'].get(name)!r}, now {here['settings'].get(name)!r}"
            for name in names
            if there["settings"].get(name) != here["settings"].get(name)
        ]
        raise ValueError(
            f"settings: {path} was trained with other settings ({'; '.join(differing)}); use another folder"
        )


def _described(value, name):
    """A value as JSON has it; arrays by their content."""
    if isinstance(value, dict):
        return {str(key): _described(one, f"{name}[{key!r}]") for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_described(one, name) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if torch.is_tensor(value):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {digest}"
    raise ValueError(f"{name}: expected numbers, text, arrays, lists and dicts, got {type(value).__name__}")
