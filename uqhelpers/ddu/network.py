"""A network that keeps strange inputs strange."""

from uqhelpers._checks import as_switch, as_whole
from uqhelpers._torch import torch
from uqhelpers.ddu.convolutions import SpectralNormConv2d
from uqhelpers.models import Standardise, _as_image_shape

nn, functional = torch.nn, torch.nn.functional

__all__ = ["ResidualNet"]


class ResidualNet(nn.Module):
    """A small residual network with capped convolutions, averages for downsampling and leaky ReLUs.

    A 3 × 3 convolution; then, as long as there are 4 pixels a side, the image
    is halved by averaging and passes a residual block of two 3 × 3 convolutions
    (8 × 8: twice; 28 × 28: three times); the average over what is left, which
    is the feature vector; class logits.

    Parameters
    ----------
    image_shape : tuple of int
        (channels, height, width); height and width at least 8.
    classes : int
        Number of classes.
    coefficient : float or None
        Cap on the norm of each convolution; ``None`` leaves them as they are.
    mean, std : float
        With which the pixels are standardised.
    width : int
        Channels, and so features.
    shortcuts : bool
        Whether the blocks add their input to their output. Without, and with
        ``coefficient=None``, it is a plain convolutional network of the same size.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty, section 4; He et al.
    (2016), Deep residual learning for image recognition.
    """

    def __init__(
        self,
        image_shape=(1, 28, 28),
        classes=10,
        coefficient=3.0,
        mean=0.0,
        std=1.0,
        *,
        width=32,
        shortcuts=True,
    ):
        super().__init__()
        channels, *size = _as_image_shape(image_shape, smallest=8)
        width = as_whole(width, "width")

        def convolution(inputs, size):
            if coefficient is None:
                return nn.Conv2d(inputs, width, 3, padding=1)
            return SpectralNormConv2d(inputs, width, 3, tuple(size), coefficient, padding=1)

        layers = [Standardise(mean, std), convolution(channels, size), nn.LeakyReLU()]
        while min(size) >= 4:
            size = [length // 2 for length in size]
            block = _Block(convolution(width, size), convolution(width, size), shortcuts)
            layers += [nn.AvgPool2d(2), block]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.output = nn.Linear(width, as_whole(classes, "classes", low=2))

    def forward(self, images):
        """Logits, shape (N, classes)."""
        return self.output(self.body(images))


class _Block(nn.Module):
    """x + f(x), f two convolutions with a leaky ReLU before each."""

    def __init__(self, first, second, shortcut):
        super().__init__()
        self.first, self.second, self.shortcut = first, second, as_switch(shortcut, "shortcuts")

    def forward(self, images):
        change = self.second(functional.leaky_relu(self.first(functional.leaky_relu(images))))
        return images + change if self.shortcut else change
