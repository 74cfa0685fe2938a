"""Below ``deep_ensembles``: moving in the space of weights, from one torch network to another."""

import copy
import dataclasses

import numpy as np

from uqhelpers._checks import as_number, as_real, as_whole
from uqhelpers._torch import as_module, torch
from uqhelpers.training import as_inputs

BATCH_NORM = torch.nn.modules.batchnorm._BatchNorm


@dataclasses.dataclass(frozen=True, eq=False)
class LinePath:
    """A loss along the straight line between two networks.

    Attributes
    ----------
    positions : array, shape (P,)
        Places on the line: 0 is the first network, 1 the second.
    losses : array, shape (P,)
        The loss at each.
    """

    positions: np.ndarray
    losses: np.ndarray

    @property
    def barrier(self):
        """The most by which the loss rises above the straight line between its own two ends.

        It belongs to the weights: about 0 between neighbours, and high between a
        network and a copy of it whose hidden units are numbered in another
        order, which computes the same function. The ends are the first and the
        last place.
        """
        span = self.positions[-1] - self.positions[0]
        share = (self.positions - self.positions[0]) / span
        chord = (1 - share) * self.losses[0] + share * self.losses[-1]
        return float((self.losses - chord).max())


def as_positions(points):
    """Places on a line from 0 to 1."""
    if np.ndim(points) == 0:
        return np.linspace(0, 1, as_whole(points, "points", low=2))
    return as_real(points, "points", ndim=1)


def interpolate(network_a, network_b, position):
    """A network whose weights lie on the straight line through those of two others.

    Running averages of batch normalisation are mixed like weights, and are
    then hardly those of the new network: see ``recompute_batch_norm``.

    Parameters
    ----------
    network_a, network_b : torch.nn.Module
        Of one architecture; neither is changed.
    position : float
        0 gives the first, 1 the second, 0.5 the middle; it may lie outside.

    Returns
    -------
    torch.nn.Module
        In evaluation mode, with weights of its own.

    Raises
    ------
    ValueError
        If the networks differ in what their weights are called or shaped.
    """
    position = as_number(position, "position")
    first, second = _state(network_a, "network_a"), _state(network_b, "network_b")
    if [(name, value.shape) for name, value in first.items()] != [
        (name, value.shape) for name, value in second.items()
    ]:
        raise ValueError("network_b: expected the architecture of network_a, got another one")
    mixed = {
        # lerp is exact at both ends; counters and the like are not weights
        name: value.lerp(second[name].to(value), position) if value.is_floating_point() else value
        for name, value in first.items()
    }
    network = copy.deepcopy(network_a)
    network.load_state_dict(mixed)
    return network.eval()


def _state(network, name):
    return {key: value.detach() for key, value in as_module(network, name).state_dict().items()}


def loss_along_line(network_a, network_b, loss, points=11):
    """A loss along the straight line between the weights of two networks.

    Parameters
    ----------
    network_a, network_b : torch.nn.Module
        Of one architecture; neither is changed.
    loss : callable
        From a network to a number.
    points : int or array, shape (P,)
        How many places, evenly from 0 to 1, or the places themselves, ascending.

    Returns
    -------
    LinePath
        Places, losses, and the ``barrier`` between the two.

    Raises
    ------
    ValueError
        If the networks are not of one architecture, or ``points`` is neither.

    References
    ----------
    Goodfellow, Vinyals and Saxe (2015), Qualitatively characterizing neural
    network optimization problems. Frankle et al. (2020), Linear mode
    connectivity and the lottery ticket hypothesis, section 2 (the barrier).
    """
    positions = as_positions(points)
    if len(positions) < 2 or (np.diff(positions) <= 0).any():
        raise ValueError("points: expected at least two places, ascending")
    if not callable(loss):
        raise ValueError(f"loss: expected a callable from a network to a number, got {type(loss).__name__}")
    losses = [float(loss(interpolate(network_a, network_b, position))) for position in positions]
    return LinePath(positions, np.array(losses))


def has_batch_norm(network):
    """Whether a network normalises by running averages."""
    return any(isinstance(module, BATCH_NORM) for module in network.modules())


def recompute_batch_norm(network, inputs, batch_size=500):
    """Set the running averages of batch normalisation to those of some inputs, in place.

    Weights that were averaged, mixed or drawn never saw a batch: the averages
    that came with them belong to other networks.

    Parameters
    ----------
    network : torch.nn.Module
        Modes, momenta and gradients are left as they were, and after an error
        the running averages, too. Without batch normalisation nothing happens.
    inputs : array, shape (N, ...)
        Training inputs.
    batch_size : int
        Inputs at a time; batches weigh the same.

    Raises
    ------
    ValueError
        If there is one input only, which has no spread. Whatever fails, the
        averages are then those that were there.

    References
    ----------
    Izmailov et al. (2018), Averaging weights leads to wider optima and better
    generalization, section 3.2.
    """
    batch_size = as_whole(batch_size, "batch_size")
    layers = [module for module in as_module(network, "network").modules() if isinstance(module, BATCH_NORM)]
    if not layers:
        return
    tensor = as_inputs(inputs, network)
    device = next(network.parameters()).device
    modes = {module: module.training for module in network.modules()}
    momenta = {layer: layer.momentum for layer in layers}
    buffers = [(buffer, buffer.clone()) for layer in layers for buffer in layer.buffers()]
    try:
        network.eval()
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # a plain average over the batches
            layer.train()
        with torch.no_grad():
            # Batches of nearly one size: a rest of one input has no variance to speak of.
            for batch in tensor.chunk(max(1, round(len(tensor) / batch_size))):
                network(batch.to(device, copy=True))
    except BaseException:
        for buffer, before in buffers:
            buffer.copy_(before)
        raise
    finally:
        for module, mode in modes.items():
            module.training = mode
        for layer, momentum in momenta.items():
            layer.momentum = momentum
