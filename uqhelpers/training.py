"""Training and prediction with as little machinery as the book can do with."""

import contextlib
import dataclasses
import time

import numpy as np

from uqhelpers._checks import as_choice, as_labels, as_number, as_real, as_whole, to_numpy
from uqhelpers._progress import bar
from uqhelpers._torch import torch

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
    seed = as_whole(seed, "seed", low=0)
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield


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
    targets,
    *,
    epochs,
    batch_size=128,
    learning_rate=1e-3,
    weight_decay=0.0,
    optimiser="adam",
    loss="cross_entropy",
    seed=0,
    device=None,
    progress=True,
):
    """Train a network in place, on shuffled minibatches, and leave it in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        The network; it is moved to ``device``.
    inputs : array, shape (N, ...)
        Training inputs.
    targets : array, shape (N,) or (N, K)
        Class labels for the cross-entropy, numbers otherwise.
    epochs : int
        Passes over the data.
    batch_size : int
        Inputs a step.
    learning_rate, weight_decay : float
        As the optimiser defines them.
    optimiser : {"adam", "adamw", "sgd"}
        By its name.
    loss : {"cross_entropy", "mse"} or callable
        A callable gets ``(outputs, targets)`` and returns a scalar tensor.
    seed : int
        Seeds the order of the minibatches and the dropout masks.
    device : torch.device or str, optional
        CUDA, then MPS, then CPU, unless told.
    progress : bool
        Whether a bar appears when it takes longer than two seconds.

    Returns
    -------
    History
        Training loss by epoch.

    Raises
    ------
    ValueError
        If the data are empty, not finite, of unequal length, or the labels do
        not fit the network's outputs; if the loss stops being finite.
    """
    epochs = as_whole(epochs, "epochs")
    batch_size = as_whole(batch_size, "batch_size")
    learning_rate = as_number(learning_rate, "learning_rate", low=0, open_low=True)
    weight_decay = as_number(weight_decay, "weight_decay", low=0)
    make_optimiser = OPTIMISERS[as_choice(optimiser, "optimiser", OPTIMISERS)]
    objective = _objective(loss)
    device = torch.device(device) if device is not None else best_device()
    model.to(device)
    inputs = as_inputs(inputs, model).to(device)
    targets = _as_targets(targets, loss, len(inputs), inputs.dtype).to(device)
    if loss == "cross_entropy":
        _check_classes(model, inputs, targets)

    step = make_optimiser(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
    shuffle = torch.Generator().manual_seed(as_whole(seed, "seed", low=0))
    started, losses = time.perf_counter(), []
    model.train()
    with seeded(seed):
        for _ in bar(range(epochs), progress, desc="training", unit="epoch"):
            total = 0.0
            for batch in torch.randperm(len(inputs), generator=shuffle).to(device).split(batch_size):
                value = objective(model(inputs[batch]), targets[batch])
                step.zero_grad()
                value.backward()
                step.step()
                total += value.item() * len(batch)
            losses.append(total / len(inputs))
            if not np.isfinite(losses[-1]):
                raise ValueError(
                    f"learning_rate: training diverged to a loss of {losses[-1]}; try a smaller rate"
                )
    model.eval()
    return History(np.array(losses), time.perf_counter() - started)


def predict_outputs(model, inputs, batch_size=500):
    """What the network puts out, in evaluation mode: logits, or numbers for a regression.

    Parameters
    ----------
    model : torch.nn.Module
        Left in the state in which it came.
    inputs : array, shape (N, ...)
        Inputs.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    array, shape (N, K), float64
        Outputs.

    Raises
    ------
    ValueError
        If the inputs are empty or not finite.
    """
    batch_size = as_whole(batch_size, "batch_size")
    device = next(model.parameters()).device
    with evaluating(model), torch.inference_mode():
        parts = [model(part.to(device)) for part in as_inputs(inputs, model).split(batch_size)]
    return torch.cat(parts).double().cpu().numpy()


def predict(model, inputs, batch_size=500):
    """Class probabilities of a classifier, in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        A network that puts out logits; left in the state in which it came.
    inputs : array, shape (N, ...)
        Inputs.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    array, shape (N, C), float64
        Probabilities.

    Raises
    ------
    ValueError
        If the inputs are empty or not finite.
    """
    return torch.from_numpy(predict_outputs(model, inputs, batch_size)).softmax(-1).numpy()


def features(model, inputs, batch_size=500):
    """What the network's last linear layer gets to see, in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        A network that puts out what a ``torch.nn.Linear`` does, and nothing
        after it; left in the state in which it came.
    inputs : array, shape (N, ...)
        Inputs.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    array, shape (N, D), float64
        Features.

    Raises
    ------
    ValueError
        If the inputs are empty or not finite, or the network ends otherwise.
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

    Raises
    ------
    ValueError
        As :func:`features`.
    """
    batch_size = as_whole(batch_size, "batch_size")
    tensor = as_inputs(inputs, as_network(model))
    device, parts = next(model.parameters()).device, []
    with evaluating(model), torch.inference_mode(), _linear_layers(model) as ran:
        for part in tensor.split(batch_size):
            outputs = model(part.to(device))
            parts.append((ran[_last(model, ran, outputs)][0], outputs))
            ran.clear()
    return tuple(torch.cat(column).double().cpu().numpy() for column in zip(*parts, strict=True))


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
        return _last(model, ran, model(inputs[:1].to(next(model.parameters()).device)))


@contextlib.contextmanager
def _linear_layers(model):
    """A dictionary that gets, by name, what each linear layer was given and put out when it last ran."""
    ran, handles = {}, []
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            hook = lambda _, given, output, name=name: ran.update({name: (given[0], output)})  # noqa: E731
            handles.append(layer.register_forward_hook(hook))
    try:
        yield ran
    finally:
        for handle in handles:
            handle.remove()


def _last(model, ran, outputs):
    """The name of the layer that put the model's outputs out."""
    for name, (_, output) in ran.items():
        if output is outputs and outputs.ndim == 2:
            return name
    raise ValueError(
        "model: expected a network whose output, shape (inputs, K), is that of a torch.nn.Linear with "
        f"nothing after it (logits: leave the softmax out), got {type(model).__name__}, which does not end so"
    )


def as_network(model):
    """The model, if it is a network with weights."""
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if next(model.parameters(), None) is None:
        raise ValueError(
            f"model: expected a network that ends in a torch.nn.Linear, got {type(model).__name__}, "
            "which has no weights"
        )
    return model


def as_inputs(inputs, model):
    """A tensor of the network's own precision; whole numbers (tokens) stay what they are."""
    tensor = inputs.detach() if torch.is_tensor(inputs) else torch.from_numpy(to_numpy(inputs, "inputs"))
    if tensor.ndim == 0 or tensor.numel() == 0:
        raise ValueError(f"inputs: expected at least one input, got shape {tuple(tensor.shape)}")
    if tensor.is_floating_point():
        tensor = tensor.to(next(model.parameters()).dtype)
        if not torch.isfinite(tensor).all():
            raise ValueError("inputs: expected finite numbers, got NaN or infinity")
    return tensor


def _as_targets(targets, loss, length, dtype):
    if loss == "cross_entropy":
        any_class = np.iinfo(np.int64).max  # the network is asked for its number of classes later
        return torch.from_numpy(as_labels(targets, any_class, name="targets", length=length))
    array = as_real(targets, "targets")
    if len(array) != length:
        raise ValueError(f"targets: expected {length} rows, one an input, got {len(array)}")
    return torch.from_numpy(array).to(dtype)


def _check_classes(model, inputs, targets):
    with evaluating(model), torch.no_grad():  # a batch of one must not disturb running averages
        classes = model(inputs[:1]).shape[-1]
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
