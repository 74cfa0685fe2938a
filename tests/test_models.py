import numpy as np
import pytest

from uqhelpers._torch import torch
from uqhelpers.models import MLP, LeNet, SimpleNet, Standardise


@pytest.mark.parametrize("network", [SimpleNet, LeNet])
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 11, 16)])
def test_networks_take_images_of_any_size(network, shape):
    logits = network(shape, classes=7)(torch.zeros(2, *shape))
    assert logits.shape == (2, 7)


def test_simple_net_has_the_layers_of_its_description():
    net = SimpleNet()
    assert net.hidden.in_features == 3136
    weights = 32 * 9 + 32 + 64 * 32 * 9 + 64 + 3136 * 128 + 128 + 128 * 10 + 10
    assert sum(parameter.numel() for parameter in net.parameters()) == weights


def test_standardising_twice_is_not_possible_because_the_network_does_it_once():
    images = torch.rand(4, 1, 8, 8)
    standardised = Standardise(0.3, 0.2)(images)
    assert torch.allclose(standardised * 0.2 + 0.3, images, atol=1e-6)


def test_mean_and_std_travel_with_the_weights():
    assert {"standardise.mean", "standardise.std"} <= set(SimpleNet(mean=0.1307, std=0.3081).state_dict())


def test_an_mlp_without_dropout_has_no_dropout_layer():
    assert not [layer for layer in MLP(2, 2).modules() if isinstance(layer, torch.nn.Dropout)]
    assert (
        len([layer for layer in MLP(2, 2, dropout=0.1).modules() if isinstance(layer, torch.nn.Dropout)]) == 2
    )


def test_an_mlp_flattens_images():
    assert MLP(64, 10)(torch.zeros(3, 1, 8, 8)).shape == (3, 10)


def test_a_part_of_an_mlp_is_a_network():
    net = MLP(4, 2, (8,))
    inputs = torch.rand(3, 4)
    assert torch.equal(net[-1](net[:-1](inputs)), net(inputs))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: MLP(0, 1), "inputs"),
        (lambda: MLP(2, 1.5), "outputs"),
        (lambda: MLP(2, 1, hidden=(8, -1)), "hidden"),
        (lambda: MLP(2, 1, dropout=1), "dropout"),
        (lambda: MLP(2, 1, dropout=np.nan), "dropout"),
        (lambda: MLP(2, 1, std=0), "std"),
        (lambda: SimpleNet((1, 3, 3)), "image_shape"),
        (lambda: SimpleNet((28, 28)), "image_shape"),
        (lambda: LeNet((1, 7, 8)), "image_shape"),
        (lambda: LeNet((1, 8.9, 8)), "image_shape"),
        (lambda: SimpleNet("8x8"), "image_shape"),
        (lambda: LeNet(classes=1), "classes"),
        (lambda: SimpleNet(dropout=-0.1), "dropout"),
    ],
)
def test_what_makes_no_network_is_named(make, named):
    with pytest.raises(ValueError, match=f"^{named}: expected"):
        make()
