"""Training and prediction with as little machinery as the book can do with."""

import contextlib
import copy
import dataclasses
import time
from collections.abc import Iterator

import numpy as np

from uqhelpers import batches
from uqhelpers._checks import as_choice, as_labels, as_number, as_real, as_whole, to_numpy
from uqhelpers._progress import bar
from uqhelpers._torch import torch
from uqhelpers.batches import as_inputs, as_network, as_tensor, input_batches

__all__ = [
    "History",
    "best_device",
    "evaluating",
    "features",
    "features_and_outputs",
    "fit",
    "predict",
    "predict_outputs",
    "seeded",
]

functional = torch.nn.functional
FEW = 8  # inputs on which is seen whether a network puts out probabilities
OPTIMISERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


@dataclasses.dataclass(frozen=True)
class History:
    """What happened while a network was trained.

    Attributes
    ----------
    loss : array, shape (epochs,)
        Mean training loss of each epoch.
    seconds : float
        Wall-clock time of the training.
    """

    loss: np.ndarray
    seconds: float

    def __repr__(self):
        first, last = self.loss[0], self.loss[-1]
        return f"History({len(self.loss)} epochs in {self.seconds:.1f} s: loss {first:.4g} to {last:.4g})"


@contextlib.contextmanager
def seeded(seed):
    """Run a block with torch's random numbers seeded, and leave the global generators as they were.

    Parameters
    ----------
    seed : int
        Whole number, at least 0.

    Examples
    --------
    >>> with seeded(0):
    ...     net = MLP(2, 1)
    """
    seed = as_whole(seed, "seed", low=0, high=2**64 - 1)
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    apples = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        with torch.random.fork_rng(devices=gpus):
            torch.manual_seed(seed)
            yield
    finally:
        if apples is not None:
            torch.mps.set_rng_state(apples)


@contextlib.contextmanager
def evaluating(model):
    """Run a block with the network in evaluation mode; afterwards every module is back in its own mode.

    Parameters
    ----------
    model : torch.nn.Module
        The network.
    """
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        yield model
    finally:
        for module, mode in modes.items():
            module.training = mode


def best_device():
    """The device that trains fastest here: CUDA, then MPS, then the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def fit(
    model,
    inputs,
    targets=None,
    *,
    epochs,
    batch_size=None,
    learning_rate=1e-3,
    weight_decay=0.0,
    optimiser="adam",
    loss="cross_entropy",
    seed=0,
    device=None,
    progress=True,
):
    """Train a network in place, on minibatches, and leave it in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        The network; it is moved to ``device``.
    inputs : array, shape (N, ...), or iterable of batches
        Training inputs; or a ``DataLoader`` (or another iterable that can be
        gone through once an epoch) of pairs ``(inputs, targets)``. Its order,
        augmentations and sampling are its own; see :mod:`uqhelpers.batches`.
    targets : array, shape (N,) or (N, K), optional
        Class labels for the cross-entropy, numbers otherwise. A loader brings
        its own.
    epochs : int
        Passes over the data.
    batch_size : int, optional
        Inputs a step: 128 unless told. Arrays are shuffled anew each epoch. A
        loader has its own.
    learning_rate, weight_decay : float
        As the optimiser defines them.
    optimiser : {"adam", "adamw", "sgd"}
        By its name.
    loss : {"cross_entropy", "mse"} or callable
        A callable gets ``(outputs, targets)`` and returns a scalar tensor. Its
        targets are whole numbers (int64) if they came as such, otherwise in
        the network's own precision.
    seed : int
        Seeds the order of the minibatches, the dropout masks, and whatever a
        loader draws from torch's global generator.
    device : torch.device or str, optional
    progress : bool, whether a bar shows long work

    Returns
    -------
    History
        Training loss by epoch.

    Raises
    ------
    ValueError
        If the network has no weights that can be trained, puts out probabilities
        where the cross-entropy takes logits, or the loss or a weight stops being
        finite. Whatever fails, the network's weights, mode and device are those
        with which it came.
    """
    epochs = as_whole(epochs, "epochs")
    learning_rate = as_number(learning_rate, "learning_rate", low=0, open_low=True)
    weight_decay = as_number(weight_decay, "weight_decay", low=0)
    make_optimiser = OPTIMISERS[as_choice(optimiser, "optimiser", OPTIMISERS)]
    objective = _objective(loss)
    seed = as_whole(seed, "seed", low=0)
    device = torch.device(device) if device is not None else best_device()
    if not any(parameter.requires_grad for parameter in as_network(model).parameters()):
        raise ValueError("model: expected weights that can be trained, got a network that is frozen")
    source = _from_loader if batches.is_loader(inputs) else _from_arrays
    epoch = source(model, inputs, targets, loss, epochs, batch_size, seed, device)

    started, losses = time.perf_counter(), []
    with as_it_was_on_failure(model):
        model.to(device)
        step = make_optimiser(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
        model.train()
        with seeded(seed):
            for _ in bar(range(epochs), progress, desc="training", unit="epoch"):
                total = count = 0
                for some, wanted in epoch():
                    value = objective(model(some), wanted)
                    step.zero_grad()
                    value.backward()
                    step.step()
                    total, count = total + value.item() * len(some), count + len(some)
                losses.append(total / count)
                if not np.isfinite(losses[-1]):
                    raise ValueError(
                        f"learning_rate: training diverged to a loss of {losses[-1]}; try a smaller rate"
                    )
        expect_finite_weights(model)
    model.eval()
    return History(np.array(losses), time.perf_counter() - started)


def _from_arrays(model, inputs, targets, loss, epochs, batch_size, seed, device):
    """A function that goes through arrays once, in shuffled minibatches on the device."""
    batch_size = 128 if batch_size is None else as_whole(batch_size, "batch_size")
    inputs = as_inputs(inputs, model)
    targets = _as_targets(targets, loss, len(inputs), inputs)
    if loss == "cross_entropy":
        _check_classes(targets, _classes(model, inputs))
    inputs, targets = inputs.to(device), targets.to(device)
    shuffle = torch.Generator().manual_seed(seed)

    def epoch():
        for batch in torch.randperm(len(inputs), generator=shuffle).to(device).split(batch_size):
            yield inputs[batch], targets[batch]

    return epoch


def _from_loader(model, loader, targets, loss, epochs, batch_size, seed, device):
    """A function that goes through a loader once, each batch checked on its way to the device."""
    if batch_size is not None:
        raise ValueError(f"batch_size: expected none beside a loader, which has its own, got {batch_size!r}")
    if epochs > 1 and isinstance(loader, Iterator):
        raise ValueError(
            f"inputs: expected batches that can be gone through {epochs} times, once an epoch, "
            f"got a {type(loader).__name__}, which is empty after one"
        )
    batches.pairs(loader, targets)  # refuses targets at once
    classes = None

    def epoch():
        nonlocal classes
        for some, wanted in batches.pairs(loader):
            some = as_inputs(some, model)
            wanted = _as_targets(wanted, loss, len(some), some)
            some, wanted = some.to(device, copy=True), wanted.to(device)
            if loss == "cross_entropy":
                classes = classes or _classes(model, some)
                _check_classes(wanted, classes)
            yield some, wanted

    return epoch


@contextlib.contextmanager
def as_it_was_on_failure(model):
    """Run a block; if it fails, give the network back the weights, the modes and the device it had."""
    device = next(model.parameters()).device
    modes = {module: module.training for module in model.modules()}
    state = copy.deepcopy(model.state_dict())
    try:
        yield
    except Exception:
        model.to(device)
        model.load_state_dict(state)
        for module, mode in modes.items():
            module.training = mode
        model.zero_grad(set_to_none=True)
        raise


def expect_finite_weights(*models):
    """Refuse what the last step of a training has ruined, which no loss has seen."""
    for model in models:
        if not all(p.isfinite().all() for p in model.parameters() if p.requires_grad):
            raise ValueError(
                "learning_rate: training diverged to weights that are not finite; try a smaller rate"
            )


def predict_outputs(model, inputs, batch_size=500):
    """What the network puts out, in evaluation mode: logits, or numbers for a regression.

    Parameters
    ----------
    model : torch.nn.Module
        Left in the state in which it came.
    inputs : array, shape (N, ...), or iterable of batches
        Inputs; or a ``DataLoader`` (or another iterable) of batches in the
        order of its data, which is gone through once: neither shuffled nor
        ``drop_last``. Targets beside the inputs are left aside.
    batch_size : int
        Inputs at a time; of a loader's batches, too, at most so many at a time.

    Returns
    -------
    array, shape (N, K), float64
        Outputs, in the order of the inputs. NaN among them is refused.
    """
    with evaluating(as_network(model)), torch.inference_mode():
        parts = [_rows(model(part), part) for part in input_batches(inputs, model, batch_size)]
    return torch.cat(parts).numpy()


def predict(model, inputs, batch_size=500):
    """Class probabilities of a classifier, in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        A network that puts out logits; left in the state in which it came.
    inputs, batch_size
        As for :func:`predict_outputs`.

    Returns
    -------
    array, shape (N, C), float64
        Probabilities. A single output is the log odds of class 1 against class
        0, and ``C`` is 2.
    """
    outputs = predict_outputs(model, inputs, batch_size)
    return probabilities(outputs, next(model.parameters()).dtype)


def probabilities(outputs, precision=torch.float32):
    """Class probabilities from a classifier's outputs, which must not be probabilities already."""
    outputs = torch.as_tensor(outputs).double()
    outputs = outputs[:, None] if outputs.ndim == 1 else outputs
    if outputs.shape[-1] == 1:  # a softmax of one logit would be 1 for everybody
        outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=-1)
    elif are_probabilities(outputs, precision):
        raise ValueError(
            "model: expected logits, got rows that are probabilities already: leave the softmax out"
        )
    probs = outputs.softmax(-1).numpy()
    if np.isnan(probs).any():
        raise ValueError("model: expected logits that have a softmax, got NaN or infinity among them")
    return probs


def are_probabilities(outputs, precision=None):
    """Whether all rows sum to 1, within the rounding of a precision, by default their own."""
    if not outputs.is_floating_point() or not len(outputs) or outputs.shape[-1] < 2:
        return False
    rounding = min(max(16 * torch.finfo(precision or outputs.dtype).eps, 1e-5), 0.02)
    return bool(outputs.min() >= 0 and (outputs.sum(-1) - 1).abs().max() < rounding)


def features(model, inputs, batch_size=500):
    """What the network's last linear layer gets to see, in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        A network that puts out what a ``torch.nn.Linear`` does, and nothing
        after it; left in the state in which it came. That layer runs once.
    inputs, batch_size
        As for :func:`uqhelpers.training.predict_outputs`.

    Returns
    -------
    array, shape (N, D), float64
        Features.
    """
    return features_and_outputs(model, inputs, batch_size)[0]


def features_and_outputs(model, inputs, batch_size=500):
    """What the last linear layer gets to see and what it makes of it, from one pass.

    Parameters
    ----------
    model, inputs, batch_size
        As for :func:`features`.

    Returns
    -------
    features : array, shape (N, D), float64
    outputs : array, shape (N, K), float64
    """
    parts = []
    with evaluating(as_network(model)), torch.inference_mode(), _linear_layers(model) as ran:
        for part in input_batches(inputs, model, batch_size):
            outputs = model(part)
            seen = ran[_last(model, ran, outputs)][-1][0]
            parts.append((_rows(seen, part), _rows(outputs, part)))
            ran.clear()
    return tuple(torch.cat(column).numpy() for column in zip(*parts, strict=True))


def _rows(outputs, inputs):
    """The network's outputs on the CPU in float64, if there is a row for each input."""
    if not torch.is_tensor(outputs) or outputs.ndim == 0 or len(outputs) != len(inputs):
        came = tuple(outputs.shape) if torch.is_tensor(outputs) else type(outputs).__name__
        raise ValueError(f"model: expected outputs of shape ({len(inputs)}, outputs), got {came}")
    if outputs.isnan().any():
        raise ValueError("model: expected numbers, got NaN among its outputs or features: has it diverged?")
    return outputs.double().cpu()


@contextlib.contextmanager
def inputs_of(layer):
    """A list that gets what the layer is given, each time that it runs."""
    seen = []
    handle = layer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    try:
        yield seen
    finally:
        handle.remove()


def last_linear(model, inputs):
    """The name of the linear layer whose output, one vector an input, is the model's output."""
    with evaluating(model), torch.no_grad(), _linear_layers(model) as ran:
        return _last(model, ran, model(inputs[:1].to(next(model.parameters()).device, copy=True)))


@contextlib.contextmanager
def _linear_layers(model):
    """A dictionary that gets, by name, what each linear layer was given and put out, run by run."""
    ran, handles = {}, []
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear):

            def keep(_, given, output, name=name):
                ran.setdefault(name, []).append((given[0], output))

            handles.append(layer.register_forward_hook(keep))
    try:
        yield ran
    finally:
        for handle in handles:
            handle.remove()


def _last(model, ran, outputs):
    """The name of the layer that put the model's outputs out."""
    for name, runs in ran.items():
        if runs[-1][1] is outputs and outputs.ndim == 2:
            if len(runs) > 1:
                raise ValueError(
                    f"model: expected a last layer that runs once, got {name!r}, which runs {len(runs)} times"
                )
            return name
    raise ValueError(
        "model: expected a network whose output, shape (inputs, K), is that of a torch.nn.Linear with "
        f"nothing after it (logits: leave the softmax out), got {type(model).__name__}, which does not end so"
    )


def _as_targets(targets, loss, length, inputs):
    """Labels for the cross-entropy; else whole numbers as they are, others in the inputs' precision."""
    array = to_numpy(targets, "targets")
    if loss == "cross_entropy":
        any_class = np.iinfo(np.int64).max  # the network is asked for its number of classes later
        array = array.astype(np.int64) if array.dtype.kind == "b" else array
        return as_tensor(as_labels(array, any_class, name="targets", length=length))
    whole = callable(loss) and array.dtype.kind in "iu"
    array = array.astype(np.int64) if whole else as_real(array, "targets")
    if array.ndim == 0 or len(array) != length:
        raise ValueError(f"targets: expected {length} rows, one an input, got shape {array.shape}")
    precision = inputs.dtype if inputs.is_floating_point() else torch.get_default_dtype()
    return as_tensor(array) if whole else as_tensor(array).to(precision)


def _classes(model, inputs):
    """How many outputs the network has for the first input; they have to be logits."""
    device = next(model.parameters()).device
    with evaluating(model), torch.no_grad():  # a batch of one must not disturb running averages
        outputs = model(inputs[:1].to(device, copy=True))
        # One row of logits may sum to 1 by chance; some more will not.
        if are_probabilities(outputs) and are_probabilities(model(inputs[:FEW].to(device, copy=True))):
            raise ValueError(
                "model: expected logits, got rows that are probabilities already: leave the softmax out"
            )
    return outputs.shape[-1]


def _check_classes(targets, classes):
    if targets.max() >= classes:
        raise ValueError(f"targets: expected labels from 0 to {classes - 1}, got {targets.max().item()}")


def _mean_squared_error(outputs, targets):
    # (N, 1) against (N,) would broadcast to (N, N) without a word.
    return functional.mse_loss(outputs, targets.reshape(outputs.shape))


def _objective(loss):
    if callable(loss):
        return loss
    named = {"cross_entropy": functional.cross_entropy, "mse": _mean_squared_error}
    return named[as_choice(loss, "loss", named)]
