"""The networks of ``reproduce_conformal``, apart from it: a change of what is made of them trains nothing."""

from benchmarks.reproduce import kept
from uqhelpers import models, training
from uqhelpers._torch import torch

SCRIPT = "conformal_networks"
EPOCHS = 3
BATCH = 128
DROPOUT = 0.5
MEAN, STD = 0.1307, 0.3081  # of MNIST's training pixels


def network(seed):
    """The network, untrained."""
    with training.seeded(seed):
        return models.SimpleNet((1, 28, 28), 10, DROPOUT, MEAN, STD)


def trained_weights(seed, train, epochs):
    """Weights after training, as plain lists by name."""
    net = network(seed)
    training.fit(net, train.images, train.labels, epochs=epochs, batch_size=BATCH, seed=seed)
    return {name: value.tolist() for name, value in net.cpu().state_dict().items()}


def trained(seed, train, epochs=EPOCHS):
    """A trained network, from an earlier run of the same code if there is one."""
    weights = kept(SCRIPT, seed, lambda: trained_weights(seed, train, epochs))
    net = network(seed)
    net.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    return net.eval()
