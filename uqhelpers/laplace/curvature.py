"""What the training data say about a last layer: its curvature, summed batch by batch."""

import numpy as np

from uqhelpers._checks import as_labels, as_number, as_real
from uqhelpers._torch import torch
from uqhelpers.training import evaluating, inputs_of


def batches(model, layer, inputs, batch_size, has_bias):
    """Where a batch starts, and the inputs of the last layer with a column of ones, in float64."""
    with evaluating(model), torch.no_grad(), inputs_of(layer) as seen:
        for start in range(0, len(inputs), batch_size):
            model(inputs[start : start + batch_size].to(layer.weight.device, copy=True))
            if len(seen) != 1:
                raise ValueError(
                    "model: expected a last layer that runs once in a forward pass, got one that runs "
                    f"{len(seen)} times: what its weights do earlier is not in the approximation"
                )
            features = to_doubles(seen.pop())
            if has_bias:
                features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
            yield start, features


def refuse_shared(model, layer):
    """Refuse a last layer whose weights another layer holds, too."""
    weights = [weight for weight in layer._parameters.values() if weight is not None]
    for name, module in model.named_modules():
        held = [weight for weight in module._parameters.values() if weight is not None]
        if module is not layer and any(one is other for one in held for other in weights):
            raise ValueError(
                f"model: expected a last layer with weights of its own, got weights that {name!r} holds, too"
            )


def add_softmax_information(information, features, probs):
    """Add -Σ p_c p_k φ φᵀ to the blocks c ≠ k, of shape (C, C, D, D)."""
    roots = np.sqrt(probs)
    for c in range(probs.shape[1]):
        part = features * roots[:, c, None]
        for k in range(c):
            scaled = part * roots[:, k, None]
            block = scaled.T @ scaled  # NumPy sees the same matrix twice and does half the work
            information[c, k] -= block
            information[k, c] -= block


def torch_order(outputs, width, has_bias):
    """Where torch's parameters are among ours, which keep each output's bias after its weights."""
    places = np.arange(outputs * width).reshape(outputs, width)
    if not has_bias:
        return places.ravel()
    return np.concatenate([places[:, :-1].ravel(), places[:, -1]])


def to_doubles(tensor):
    """A tensor's numbers in NumPy's double precision."""
    return tensor.detach().double().cpu().numpy()


def targets_of(likelihood, targets, length, outputs):
    """Labels, or numbers of shape (length, outputs), checked."""
    if likelihood == "classification":
        return as_labels(targets, outputs, name="targets", length=length)
    array = as_real(targets, "targets")
    if array.shape not in [(length, outputs), *([(length,)] if outputs == 1 else [])]:
        raise ValueError(f"targets: expected shape ({length}, {outputs}), got {array.shape}")
    return array.reshape(length, outputs)


def expect_classes(outputs):
    """Refuse a classifier with one output: this is the softmax's approximation."""
    if outputs < 2:
        raise ValueError(
            "model: expected at least two outputs, logits of the classes, got one. A layer with the weights "
            "0 and w instead of w has the same softmax"
        )


def noise_of(likelihood, noise_std):
    """The noise of a regression; a classification has none."""
    sigma = as_number(noise_std, "noise_std", low=0, open_low=True)
    if likelihood == "classification" and sigma != 1:
        raise ValueError(f"noise_std: a classification has none, got {sigma}")
    return sigma
