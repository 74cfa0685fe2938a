"""What an ensemble of torch networks predicts."""

import numpy as np

from uqhelpers._torch import torch
from uqhelpers.metrics import SampleAccumulator
from uqhelpers.training import predict as predict_one
from uqhelpers.training import predict_outputs


def sample(networks, inputs, batch_size=500):
    """Class probabilities of each member of an ensemble of torch networks.

    Parameters
    ----------
    networks : sequence of torch.nn.Module
        Classifiers that put out logits; run in evaluation mode and left in the
        state in which they came.
    inputs : array, shape (N, ...), or a loader that keeps their order
    batch_size : int, inputs at a time

    Returns
    -------
    array of probabilities, shape (M, N, C), float64
    """
    return np.stack([predict_one(network, inputs, batch_size) for network in _as_networks(networks)])


def sample_outputs(networks, inputs, batch_size=500):
    """What each member of an ensemble of torch networks puts out: logits, or numbers for a regression.

    Parameters are those of :func:`sample`.

    Returns
    -------
    array, shape (M, N, K), float64
        Outputs.
    """
    return np.stack([predict_outputs(network, inputs, batch_size) for network in _as_networks(networks)])


def predict(networks, inputs, batch_size=500):
    """The averaged prediction of an ensemble of torch classifiers, with its uncertainties.

    Members are added up one after the other: memory does not grow with them.
    Parameters are those of :func:`sample`.

    Returns
    -------
    uqhelpers.metrics.SampledDecomposition
    """
    accumulator = SampleAccumulator()
    for network in _as_networks(networks):
        accumulator.add(predict_one(network, inputs, batch_size))
    return accumulator.result()


def _as_networks(networks):

    if isinstance(networks, torch.nn.Module) and not isinstance(networks, torch.nn.ModuleList):
        raise ValueError(f"networks: expected a sequence of networks, got one {type(networks).__name__}")
    try:
        networks = list(networks)
    except TypeError as error:
        raise ValueError(
            f"networks: expected a sequence of networks, got {type(networks).__name__}"
        ) from error
    if not networks:
        raise ValueError("networks: expected at least one network, got none")
    for network in networks:
        if not isinstance(network, torch.nn.Module):
            raise ValueError(f"networks: expected torch networks, got {type(network).__name__}")
    return networks
