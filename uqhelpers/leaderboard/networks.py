"""The networks that methods share: trained once for each seed, and counted for everybody who uses them."""

import functools
import hashlib
import time
from collections import OrderedDict

import numpy as np

from uqhelpers import training
from uqhelpers.models import MLP

__all__ = ["BUDGET", "HIDDEN", "MEMBERS", "network"]

HIDDEN, DROPOUT = (128, 128), 0.2
BUDGET = {"epochs": 40, "batch_size": 64, "learning_rate": 2e-3, "weight_decay": 1e-4, "optimiser": "adamw"}
MEMBERS = 5
KEPT = 32  # networks and features in memory

_memory = OrderedDict()
_clock = {"counted": 0.0, "made": 0.0}
_charged = set()  # what the present account has been charged for


def open_account():
    """From here on each piece of shared work is charged once, however often it is asked for."""
    _charged.clear()


def spent():
    """Seconds of CPU that shared work took, summed over all accounts, whether it was there already or not."""
    return _clock["counted"]


def trained_seconds():
    """Seconds of CPU that shared work took in fact: each piece once."""
    return _clock["made"]


def network(train, seed, member=0, epochs=None, loss="cross_entropy", head=None):
    """The leaderboard's network, trained with its budget.

    Parameters
    ----------
    train : Split
    seed : int
        Of the run; a member has a seed of its own for its weights and batches.
    member : int
        0 for the one network; the ensemble takes 0 to 4.
    epochs : int, optional
        Another budget.
    loss : str or callable
        As for :func:`uqhelpers.training.fit`. Only cross-entropy is kept for others.
    head : torch.nn.Module, optional
        Put behind the logits.

    Returns
    -------
    torch.nn.Module, in evaluation mode
    """

    budget = BUDGET | ({} if epochs is None else {"epochs": epochs})

    def make():
        own = seed + 1_000_003 * member
        with training.seeded(own):
            net = fresh(train)
        if head is not None:
            net.append(head)
        training.fit(
            net, train.images, train.labels, loss=loss, seed=own, progress=False, device="cpu", **budget
        )
        return net

    if loss != "cross_entropy" or head is not None:
        return make()
    return _shared(("network", digest(train), seed, member, *budget.items()), make)


@functools.cache
def warm_up():
    """One step of training and of prediction, once a process: the first one pays for what torch loads."""
    net = MLP(4, 2, (4,), DROPOUT)
    inputs, targets = np.zeros((8, 4), np.float32), np.arange(8) % 2
    training.fit(net, inputs, targets, epochs=1, optimiser="adamw", progress=False, device="cpu")
    probabilities(net, inputs)


def fresh(train):
    """A network before its training; it standardises pixels by those of the training images."""
    pixels, classes = train.images, int(train.labels.max()) + 1
    mean, std = float(pixels.mean()), float(pixels.std())
    return MLP(int(np.prod(pixels.shape[1:])), classes, HIDDEN, DROPOUT, mean, std)


def members(train, seed):
    """The ensemble: five networks, the first of which is the one network."""
    return [network(train, seed, member) for member in range(MEMBERS)]


def features(train, seed):
    """What the one network's last layer sees of the training images."""
    net = network(train, seed)
    return _shared(
        ("features", digest(train), seed, *BUDGET.items()),
        lambda: training.features(net, train.images, 5_000),
    )


def logits(net, images):
    """Outputs of a network, in large batches."""
    return training.predict_outputs(net, images, 5_000)


def probabilities(net, images):
    """Class probabilities of a network, in large batches."""
    return training.predict(net, images, 5_000)


def weights(net):
    """How many numbers a network is."""
    return sum(value.numel() for value in net.parameters())


def digest(train):
    """A key for training data: equal data, equal key."""
    total = hashlib.sha256(np.ascontiguousarray(train.images))
    total.update(np.ascontiguousarray(train.labels))
    return total.hexdigest()


def forget():
    """Forget all networks: the next who asks trains them again."""
    _memory.clear()


def _shared(key, make):
    """What was made under this key, or is made now; either way the account is charged, once."""
    if key not in _memory:
        started, before, charged = time.process_time(), dict(_clock), set(_charged)
        made = make()
        seconds = time.process_time() - started
        _clock.update(counted=before["counted"], made=before["made"] + seconds)
        _charged.intersection_update(charged)  # what it asked for itself is in its own seconds
        _memory[key] = (made, seconds)
        while len(_memory) > KEPT:
            _memory.popitem(last=False)
    made, seconds = _memory[key]
    if key not in _charged:
        _clock["counted"] += seconds
        _charged.add(key)
    return made
