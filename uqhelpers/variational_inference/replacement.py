"""From a deterministic network to a variational one."""

import copy
import warnings

from uqhelpers._torch import as_module, torch
from uqhelpers.training import seeded
from uqhelpers.variational_inference.layers import (
    INITIAL_STD,
    ConvVariational,
    LinearVariational,
    Variational,
)

nn = torch.nn

# What a layer is told when it runs, or when a gradient passes it.
HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook",
)  # fmt: skip
# Their weights may stay points without a word.
LEFT = (
    Variational, nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm,
    nn.modules.batchnorm._NormBase,
)  # fmt: skip


def make_variational(model, prior_std=1.0, initial_std=INITIAL_STD, local_reparameterisation=True):
    """A copy of a network with variational layers in place of its linear and 2-d convolutional ones.

    The means start at the weights of the network, trained or not. A layer that
    is frozen (``requires_grad`` is False for its weights) stays as it is: nobody
    asks what it might be instead. Everything else (activations, normalisation,
    dropout, embeddings) is copied as it is, hooks included. Where a network reads
    a layer's ``weight`` itself, past its ``forward``, training sees the mean there.

    Parameters
    ----------
    model : torch.nn.Module
        Any network with ``torch.nn.Linear`` or zero-padded ``torch.nn.Conv2d``
        layers; not changed.
    prior_std, initial_std, local_reparameterisation
        As in :class:`LinearVariational`, the same for all layers.

    Returns
    -------
    torch.nn.Module

    Raises
    ------
    ValueError
        If there is no layer to replace, two layers share one weight, a weight
        is lazy and still without a shape, or a standard deviation is not
        positive.

    Warns
    -----
    UserWarning
        If other layers hold weights that are trained and stay points:
        recurrent layers, attention, other convolutions.
    """
    as_module(model)
    for name, parameter in model.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise ValueError(
                f"model: expected weights that exist, got a lazy {name!r}: run an input through it first"
            )
    options = {
        "prior_std": prior_std,
        "initial_std": initial_std,
        "local_reparameterisation": local_reparameterisation,
    }
    _refuse_tied(model)
    memo = {}  # a layer that is used in two places stays one layer
    with seeded(0):  # what a layer draws when it is built is overwritten: nobody's random numbers are used up
        copied = _replaced(copy.deepcopy(model), options, memo)
    if not memo:
        raise ValueError(
            "model: expected at least one torch.nn.Linear or zero-padded torch.nn.Conv2d layer that is not "
            "frozen, got none"
        )
    points = [f"{name or 'itself'!r} ({type(layer).__name__})" for name, layer in _points(copied)]
    if points:
        warnings.warn(
            f"model: the weights of {', '.join(points)} stay points, without a posterior", stacklevel=2
        )
    return copied


def _refuse_tied(model):
    holders = {}
    for name, layer in model.named_modules():
        for weight in layer._parameters.values():
            if weight is not None:
                holders.setdefault(weight, []).append((name, layer))
    for held in holders.values():
        if len(held) > 1 and any(_is_replaceable(layer) for _, layer in held):
            names = " and ".join(repr(name) for name, _ in held)
            raise ValueError(
                f"model: expected layers with weights of their own, got one weight in {names}: two layers "
                "would have a posterior each"
            )


def _points(model):
    """Layers whose matrices are trained and are neither variational nor such that nobody expects it."""
    for name, layer in model.named_modules():
        weights = [weight for weight in layer._parameters.values() if weight is not None]
        if not isinstance(layer, LEFT) and any(w.ndim > 1 and w.requires_grad for w in weights):
            yield name, layer


def _is_replaceable(layer):
    """A plain layer: subclasses, and what computes its weights from others, may do something else."""
    plain = type(layer) is nn.Linear or (type(layer) is nn.Conv2d and layer.padding_mode == "zeros")
    if not plain or not {"weight"} <= set(layer._parameters) <= {"weight", "bias"}:
        return False
    return layer.weight.requires_grad


def _replaced(module, options, memo):
    if module in memo:
        return memo[module]
    if not _is_replaceable(module):
        for name, child in module._modules.items():  # named_children would name a layer in two places once
            if child is not None:
                setattr(module, name, _replaced(child, options, memo))
        return module
    bias = module.bias is not None
    if type(module) is nn.Linear:
        layer = LinearVariational(module.in_features, module.out_features, bias, **options)
    else:
        sizes = (module.kernel_size, module.stride, module.padding, module.dilation)
        layer = ConvVariational(
            module.in_channels, module.out_channels, *sizes, module.groups, bias, **options
        )
    layer.to(module.weight).train(module.training)
    with torch.no_grad():
        layer.weight_mean.copy_(module.weight)
        if bias:
            layer.bias_mean.copy_(module.bias)
            layer.bias_mean.requires_grad_(module.bias.requires_grad)
            layer.bias_rho.requires_grad_(module.bias.requires_grad)
    for name in HOOKS:
        setattr(layer, name, getattr(module, name))
    memo[module] = layer
    return layer
