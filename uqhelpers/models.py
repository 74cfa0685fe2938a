"""The networks of the book: small enough to read, for images of any size.

Images are pixels between 0 and 1, shape ``(N, channels, height, width)``. A
network standardises them itself, with the ``mean`` and ``std`` it was built
with, so that whatever meets it from outside (a corruption, an attack, another
data set) speaks in pixels and cannot be scaled twice or not at all.
"""

import numpy as np

from uqhelpers._checks import as_number, as_whole, to_numpy
from uqhelpers._torch import torch

nn = torch.nn

__all__ = ["MLP", "LeNet", "SimpleNet", "Standardise"]


class Standardise(nn.Module):
    """Subtract a mean and divide by a standard deviation, both in pixel units.

    Parameters
    ----------
    mean : float
        Mean of the training pixels.
    std : float
        Their standard deviation, above 0.
    """

    def __init__(self, mean=0.0, std=1.0):
        super().__init__()
        self.register_buffer("mean", torch.tensor(as_number(mean, "mean")))
        self.register_buffer("std", torch.tensor(as_number(std, "std", low=0, open_low=True)))

    def forward(self, images):
        return (images - self.mean) / self.std


class MLP(nn.Sequential):
    """Fully connected layers with ReLU, and dropout after every hidden layer.

    Inputs of more than two dimensions (images) are flattened first.

    Parameters
    ----------
    inputs : int
        Number of input values.
    outputs : int
        Number of outputs: classes for a classifier (the outputs are logits).
    hidden : sequence of int
        Width of each hidden layer.
    dropout : float
        Probability in [0, 1) with which a hidden unit is dropped; 0 leaves the
        dropout layers out.
    mean, std : float
        With which the inputs are standardised.
    """

    def __init__(self, inputs, outputs, hidden=(64, 64), dropout=0.0, mean=0.0, std=1.0):
        dropout = _as_rate(dropout)
        layers = [nn.Flatten(), Standardise(mean, std)]
        width = as_whole(inputs, "inputs")
        for units in hidden:
            layers += [nn.Linear(width, as_whole(units, "hidden")), nn.ReLU()]
            layers += [nn.Dropout(dropout)] if dropout else []
            width = units
        layers.append(nn.Linear(width, as_whole(outputs, "outputs")))
        super().__init__(*layers)

    def __getitem__(self, index):
        """One layer, or for a slice a plain ``torch.nn.Sequential`` of some."""
        return nn.Sequential(*list(self)[index]) if isinstance(index, slice) else super().__getitem__(index)


def _convolutions(channels, *maps, kernel):
    """Convolutions that keep the size of the image, each with ReLU and a halving; features at the end."""
    layers = []
    for width in maps:
        layers += [nn.Conv2d(channels, width, kernel, padding=kernel // 2), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers, nn.Flatten())


class SimpleNet(nn.Module):
    """Two convolutions and two linear layers, with one dropout layer between.

    Convolution to 32 maps, ReLU, halving; convolution to 64 maps, ReLU,
    halving; dropout; 128 hidden units, ReLU; class logits. Both convolutions
    are 3 × 3 and keep the size of the image.

    Parameters
    ----------
    image_shape : (channels, height, width), the last two at least 4
    classes : int
        How many logits there are.
    dropout : float in [0, 1)
        How probably a feature is dropped.
    mean, std : float
        With which the pixels are standardised.
    """

    def __init__(self, image_shape=(1, 28, 28), classes=10, dropout=0.5, mean=0.0, std=1.0):
        super().__init__()
        channels, height, width = _as_image_shape(image_shape, smallest=4)
        self.standardise = Standardise(mean, std)
        self.features = _convolutions(channels, 32, 64, kernel=3)
        self.dropout = nn.Dropout(_as_rate(dropout))
        self.hidden = nn.Linear(64 * (height // 4) * (width // 4), 128)
        self.output = nn.Linear(128, as_whole(classes, "classes", low=2))

    def forward(self, images):
        features = self.dropout(self.features(self.standardise(images)))
        return self.output(torch.relu(self.hidden(features)))


class LeNet(nn.Module):
    """LeNet-5 with ReLU, max-pooling and dropout before each of the last two layers.

    The convolutions are padded, so that images as small as 8 × 8 pass through.

    Parameters
    ----------
    image_shape : tuple of int
        (channels, height, width); height and width at least 8.
    classes, mean, std : as in :class:`SimpleNet`
    dropout : float
        Probability in [0, 1) with which a unit is dropped.

    References
    ----------
    LeCun et al. (1998), Gradient-based learning applied to document recognition.
    """

    def __init__(self, image_shape=(1, 28, 28), classes=10, dropout=0.5, mean=0.0, std=1.0):
        super().__init__()
        channels, height, width = _as_image_shape(image_shape, smallest=8)
        rate = _as_rate(dropout)
        self.standardise = Standardise(mean, std)
        self.features = _convolutions(channels, 6, 16, kernel=5)
        self.head = nn.Sequential(
            nn.Linear(16 * (height // 4) * (width // 4), 120),
            nn.ReLU(),
            nn.Dropout(rate),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Dropout(rate),
            nn.Linear(84, as_whole(classes, "classes", low=2)),
        )

    def forward(self, images):
        return self.head(self.features(self.standardise(images)))


def _as_rate(dropout):
    rate = as_number(dropout, "dropout", low=0, high=1)
    if rate == 1:
        raise ValueError("dropout: expected a rate in [0, 1), got 1, which drops everything")
    return rate


def _as_image_shape(image_shape, smallest):
    shape = np.atleast_1d(to_numpy(image_shape, "image_shape")).tolist()
    if (
        len(shape) != 3
        or not all(isinstance(size, int) for size in shape)
        or shape[0] < 1
        or min(shape[1:]) < smallest
    ):
        raise ValueError(
            f"image_shape: expected (channels, height, width) with at least {smallest} × {smallest} pixels, "
            f"got {image_shape!r}"
        )
    return tuple(shape)
