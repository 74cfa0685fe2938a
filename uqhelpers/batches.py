"""Data that come batch by batch, from a ``DataLoader`` or any other iterable, where arrays could stand.

An array is an array; what else can be gone through is taken for batches: of
pairs ``(inputs, targets)`` where something is fitted, of inputs (or of pairs,
whose targets are then left aside) where something is predicted. A list is an
array too, unless its first entry is such a pair.

Predictions are matched to inputs by their place. So a ``DataLoader`` that
shuffles, samples, leaves a rest out or lets workers overtake each other is
refused where something is predicted. Where something is fitted the order is
the loader's own.
"""

import functools
from collections.abc import Mapping, Sequence, Set

import numpy as np

from uqhelpers._checks import as_whole, to_numpy
from uqhelpers._torch import as_module, torch

__all__ = ["gather", "in_order", "is_loader", "join", "pairs"]

ARRAY = ("__array__", "__array_interface__", "__dlpack__", "detach")  # one of these has every array
DATA = torch.utils.data


def is_loader(data):
    """Whether ``data`` is gone through batch by batch: a ``DataLoader`` or another iterable, no array.

    Parameters
    ----------
    data : object
        Anything.

    Returns
    -------
    bool
        False for arrays, tensors, data frames, and for lists and tuples, unless
        their first entry is a pair of arrays.

    Raises
    ------
    ValueError
        If ``data`` is a data set of torch's, which gives examples, not batches.
    """
    if isinstance(data, DATA.Dataset):
        raise ValueError(
            f"inputs: expected an array or batches, got the data set {type(data).__name__}: "
            "put it into a torch.utils.data.DataLoader"
        )
    if _is_array(data) or isinstance(data, Mapping | Set | str | bytes):
        return False
    if isinstance(data, Sequence):
        return len(data) > 0 and _is_pair(data[0])
    return hasattr(data, "__iter__")


def gather(inputs, targets=None):
    """Arrays as they are, or what a loader yields in one pass, joined.

    For what is fitted to all data at once. Whoever trains by steps goes
    through the loader again each epoch instead (:func:`pairs`).

    Parameters
    ----------
    inputs : array, or iterable of batches
        A ``DataLoader``, or any other iterable of pairs ``(inputs, targets)``.
    targets : array, optional
        Beside an array; a loader brings its own.

    Returns
    -------
    inputs, targets
        The arguments themselves if they are arrays. Otherwise tensors where
        the batches are tensors, else NumPy arrays, in the order in which they
        came, inputs and targets alike. They are held once, and each batch is
        let go as it is copied. Random augmentations are drawn this one time;
        torch's global generator is left as it was.

    Raises
    ------
    ValueError
        If there is no batch, a batch is no pair of as many inputs as targets,
        shapes change between batches, the loader leaves out the last of its
        inputs (``drop_last=True``), or ``targets`` come beside a loader.
    """
    if not is_loader(inputs):
        return inputs, targets
    _refuse_targets(targets)
    columns = [], []
    for batch in whole_pass(inputs):
        for column, part in zip(columns, batch, strict=True):
            column.append(part)
    return _joined(columns[0], "inputs"), _joined(columns[1], "targets")


def whole_pass(loader):
    """One pass through all pairs of a loader that may leave none out, for what is fitted to all data at once.

    A ``DataLoader`` draws order, seeds and augmentations from torch's global generator. Between any two
    batches and at the end that is as it was.
    """
    if _drops(loader):
        raise ValueError("inputs: expected a DataLoader that leaves nothing out, got one with drop_last=True")
    state = torch.random.get_rng_state()
    started, end = pairs(loader), object()
    while True:
        with torch.random.fork_rng(devices=()):
            torch.random.set_rng_state(state)
            batch = next(started, end)
            state = torch.random.get_rng_state()
        if batch is end:
            return
        yield batch


def pairs(loader, targets=None):
    """One pass through batches of ``(inputs, targets)``, each checked to be such a pair.

    Parameters
    ----------
    loader : iterable of batches
        What :func:`is_loader` knows. Shuffling, sampling and augmentations
        are its own business.
    targets : None
        Anything else is refused: a loader brings its own.

    Yields
    ------
    inputs, targets
        As they come.
    """
    _refuse_targets(targets)
    return _pairs(loader)


def _pairs(loader):
    empty = True
    for batch in loader:
        empty = False
        if not _is_pair(batch):
            raise ValueError(f"inputs: expected batches of (inputs, targets), got {_came(batch)}")
        if len(batch[0]) != len(batch[1]):
            raise ValueError(
                f"targets: expected {len(batch[0])} in a batch, one an input, got {len(batch[1])}"
            )
        yield tuple(batch)
    if empty:
        raise ValueError("inputs: expected at least one batch, got none")


def in_order(loader):
    """One pass through the inputs of a loader, batch by batch, in the order of its data.

    Parameters
    ----------
    loader : iterable of batches
        Of inputs, or of pairs whose targets are left aside. An iterable that
        is no ``DataLoader`` is believed to keep an order.

    Yields
    ------
    array
        Inputs, as they come.

    Raises
    ------
    ValueError
        If a ``DataLoader`` would shuffle, sample, leave inputs out, repeat them
        or let one batch overtake another; if there is no batch, or one is
        neither an array nor a pair.
    """
    why = _disorder(loader)
    if why:
        raise ValueError(
            f"inputs: expected a DataLoader that gives every input once and in order, got one with {why}: "
            "make one of the same data set with shuffle=False and drop_last=False"
        )
    with torch.random.fork_rng(devices=()):  # a DataLoader draws a seed for its workers
        started = iter(loader)
    empty = True
    for batch in started:
        empty = False
        if isinstance(batch, list | tuple) and len(batch) == 1 and _is_array(batch[0]):
            batch = (batch[0], batch[0])  # what a TensorDataset without targets yields
        if not (_is_array(batch) or _is_pair(batch)):
            raise ValueError(
                f"inputs: expected batches of inputs, or of (inputs, targets), got {_came(batch)}"
            )
        yield batch if _is_array(batch) else batch[0]
    if empty:
        raise ValueError("inputs: expected at least one batch, got none")


def as_network(model):
    """The model, if it is a network with weights."""
    if next(as_module(model).parameters(), None) is None:
        raise ValueError(
            f"model: expected a network with weights, got {type(model).__name__}, which has no weights"
        )
    return model


def as_inputs(inputs, model):
    """A tensor of the network's own precision; whole numbers (tokens) stay what they are.

    The batches of a loader are joined, in the order of its data.
    """
    kind = next(as_network(model).parameters()).dtype
    inputs = join(inputs)
    tensor = inputs.detach() if torch.is_tensor(inputs) else as_tensor(to_numpy(inputs, "inputs"))
    if tensor.layout != torch.strided or tensor.is_complex():
        raise ValueError(f"inputs: expected real numbers, dense, got {tensor.dtype} in {tensor.layout}")
    if tensor.ndim == 0 or tensor.numel() == 0:
        raise ValueError(f"inputs: expected at least one input, got shape {tuple(tensor.shape)}")
    if tensor.is_floating_point():
        tensor = tensor.to(kind)
        if not torch.isfinite(tensor).all():
            raise ValueError("inputs: expected finite numbers, got NaN or infinity")
    return tensor


def as_tensor(array):
    """A tensor over an array's memory; over a copy's, if that may not be written to (torch would warn)."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def input_batches(inputs, model, batch_size):
    """Checked inputs of an array or a loader, in order, ``batch_size`` at a time, on the network's device.

    Copies: a first layer that works in place must not write into the caller's array.
    """
    batch_size = as_whole(batch_size, "batch_size")
    device = next(as_network(model).parameters()).device
    for some in in_order(inputs) if is_loader(inputs) else (inputs,):
        for part in as_inputs(some, model).split(batch_size):
            yield part.to(device, copy=True)


def join(inputs):
    """Inputs as they are, or those of a loader joined, in the order of its data.

    Parameters
    ----------
    inputs : array, or iterable of batches
        As :func:`in_order` takes them.

    Returns
    -------
    array
        The argument itself if it is an array.
    """
    return _joined(list(in_order(inputs)), "inputs") if is_loader(inputs) else inputs


def _is_array(value):
    return any(hasattr(value, name) for name in ARRAY) and not isinstance(value, type)


def _is_pair(batch):
    """Whether a batch is (inputs, targets): two arrays with a first axis each."""
    return (
        isinstance(batch, list | tuple)
        and len(batch) == 2
        and all(_is_array(part) and getattr(part, "ndim", 1) > 0 for part in batch)
    )


def _came(batch):
    if isinstance(batch, list | tuple):
        return (
            f"a {type(batch).__name__} of {', '.join(type(part).__name__ for part in batch[:4]) or 'nothing'}"
        )
    return type(batch).__name__


def _refuse_targets(targets):
    if targets is not None:
        raise ValueError("targets: expected none beside a loader, which brings its own")


def _drops(loader):
    """Whether a ``DataLoader`` leaves the last inputs out where they do not fill a batch."""
    batches = getattr(loader, "batch_sampler", None)
    return isinstance(loader, DATA.DataLoader) and bool(getattr(batches, "drop_last", False))


def _disorder(loader):
    """Why a loader's inputs cannot be matched to places, or None."""
    if not isinstance(loader, DATA.DataLoader):
        return None
    workers = loader.num_workers
    if _drops(loader):
        return "drop_last=True"
    if workers and not getattr(loader, "in_order", True):
        return "in_order=False"
    if isinstance(loader.dataset, DATA.IterableDataset):
        return f"an IterableDataset read by {workers} workers" if workers > 1 else None
    batches = loader.batch_sampler
    if batches is not None and type(batches) is not DATA.BatchSampler:
        return f"the batch sampler {type(batches).__name__}"
    sampler = loader.sampler if batches is None else batches.sampler
    if type(sampler) is DATA.RandomSampler:
        return "shuffle=True"
    return None if type(sampler) is DATA.SequentialSampler else f"the sampler {type(sampler).__name__}"


def _joined(parts, name):
    """One array out of a list that is emptied: each part is let go once copied, so that none stands twice."""
    tensors = all(torch.is_tensor(part) for part in parts)
    for place, part in enumerate(parts):
        parts[place] = part.detach() if tensors else to_numpy(part, name)
    shape, total = parts[0].shape[1:], sum(len(part) for part in parts)
    for part in parts:
        if part.shape[1:] != shape:
            first = tuple(parts[0].shape)
            raise ValueError(f"{name}: expected batches of one shape, got {tuple(part.shape)} after {first}")
    kinds = {part.dtype for part in parts}
    if tensors:
        kind = functools.reduce(torch.promote_types, kinds)
        whole = torch.empty((total, *shape), dtype=kind, device=parts[0].device)
    else:
        whole = np.empty((total, *shape), np.result_type(*kinds))
    start = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        whole[start : start + len(part)] = part
        start += len(part)
    return whole
