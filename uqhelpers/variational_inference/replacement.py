"""From a deterministic network to a variational one."""

import copy

from uqhelpers._torch import torch
from uqhelpers.training import seeded
from uqhelpers.variational_inference.layers import INITIAL_STD, ConvVariational, LinearVariational

nn = torch.nn


def make_variational(model, prior_std=1.0, initial_std=INITIAL_STD, local_reparameterisation=True):
    """A copy of a network with variational layers in place of its linear and convolutional ones.

    The means start at the weights of the network, trained or not. Everything
    else (activations, normalisation, dropout, embeddings) is copied as it is.

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
        If there is no layer to replace, or a standard deviation is not positive.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    options = {
        "prior_std": prior_std,
        "initial_std": initial_std,
        "local_reparameterisation": local_reparameterisation,
    }
    memo = {}  # a layer that is used in two places stays one layer
    with seeded(0):  # what a layer draws when it is built is overwritten: nobody's random numbers are used up
        copied = _replaced(copy.deepcopy(model), options, memo)
    if not memo:
        raise ValueError("model: expected at least one torch.nn.Linear or zero-padded torch.nn.Conv2d layer")
    return copied


def _replaced(module, options, memo):
    if module in memo:
        return memo[module]
    bias = getattr(module, "bias", None) is not None
    if type(module) is nn.Linear:  # subclasses may compute something else with their weights
        layer = LinearVariational(module.in_features, module.out_features, bias, **options)
    elif type(module) is nn.Conv2d and module.padding_mode == "zeros":
        sizes = (module.kernel_size, module.stride, module.padding, module.dilation)
        layer = ConvVariational(
            module.in_channels, module.out_channels, *sizes, module.groups, bias, **options
        )
    else:
        for name, child in module._modules.items():  # named_children would name a layer in two places once
            if child is not None:
                setattr(module, name, _replaced(child, options, memo))
        return module
    layer.to(module.weight).train(module.training)
    with torch.no_grad():
        layer.weight_mean.copy_(module.weight)
        if bias:
            layer.bias_mean.copy_(module.bias)
    memo[module] = layer
    return layer
