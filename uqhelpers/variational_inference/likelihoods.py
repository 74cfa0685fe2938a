"""What the targets are taken for: the likelihoods, and targets checked against them."""

import math

import numpy as np

from uqhelpers._checks import as_choice, as_labels, as_number, as_real, to_numpy
from uqhelpers._torch import torch
from uqhelpers.batches import as_tensor
from uqhelpers.training import FEW, are_probabilities, evaluating
from uqhelpers.variational_inference.layers import variational_layers

functional = torch.nn.functional

LIKELIHOODS = ("categorical", "bernoulli", "gaussian")


def likelihood_of(likelihood, noise_std):
    """A function from outputs and targets to the negative log likelihood of each input."""
    if likelihood == "gaussian":
        if noise_std is None:
            raise ValueError("noise_std: expected the standard deviation of the observations, got None")
        std = as_number(noise_std, "noise_std", low=0, open_low=True)
        constant = math.log(std) + 0.5 * math.log(2 * math.pi)
        return lambda outputs, targets: (
            (0.5 * ((outputs - targets) / std).square() + constant).flatten(1).sum(1)
        )
    if noise_std is not None:
        raise ValueError("noise_std: expected None for a likelihood other than 'gaussian'")
    if callable(likelihood):
        return lambda outputs, targets: _one_an_input(likelihood(outputs, targets), len(outputs))
    if as_choice(likelihood, "likelihood", LIKELIHOODS) == "bernoulli":
        return lambda outputs, targets: functional.binary_cross_entropy_with_logits(
            outputs[:, 0], targets, reduction="none"
        )
    return lambda outputs, targets: functional.cross_entropy(outputs, targets, reduction="none")


def _one_an_input(losses, count):
    """What a callable answered: a mean over the inputs would let the divergence count once for each."""
    shape = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
    if shape != (count,):
        raise ValueError(
            f"likelihood: expected the negative log likelihood of each of {count} inputs, shape ({count},), "
            f"got {shape}. In torch's losses, reduction='none' leaves them apart"
        )
    return losses


def as_targets(targets, likelihood, model, inputs):
    """Targets as the likelihood needs them, checked against what the network puts out."""
    device, home = inputs.device, variational_layers(model)[0].weight_mean.device
    with evaluating(model), torch.no_grad():
        outputs = model(inputs[:1].to(home, copy=True))
        # One row of logits may sum to 1 by chance; some more will not.
        few = inputs[:FEW].to(home, copy=True)
        softmax = are_probabilities(outputs) and are_probabilities(model(few))
    if softmax and likelihood == "categorical":
        raise ValueError("model: expected logits, got rows that sum to 1: leave the softmax out")
    width, dtype = outputs.shape[-1], outputs.dtype
    if likelihood == "bernoulli":
        if outputs.shape != (1, 1):
            raise ValueError(f"likelihood: 'bernoulli' expected one output an input, got {width}")
        labels = as_labels(targets, 2, name="targets", length=len(inputs))
        return as_tensor(labels).to(device, dtype)
    if likelihood == "categorical":
        labels = as_labels(targets, width, name="targets", length=len(inputs))
        return as_tensor(labels).to(device)
    array = to_numpy(targets, "targets")
    if callable(likelihood) and array.dtype.kind in "iub":  # labels, or counts
        array, dtype = array.astype(np.int64), torch.int64
    else:
        array = as_real(array, "targets")
    if array.ndim == 0 or len(array) != len(inputs):
        raise ValueError(f"targets: expected {len(inputs)} rows, one an input, got shape {array.shape}")
    tensor = as_tensor(array).to(device, dtype)
    if likelihood != "gaussian":
        return tensor
    if array.size != len(array) * outputs[0].numel():
        raise ValueError(f"targets: expected {tuple(outputs.shape[1:])} numbers an input, got {array.shape}")
    return tensor.reshape(len(array), *outputs.shape[1:])  # (N, 1) against (N,) would broadcast to (N, N)
