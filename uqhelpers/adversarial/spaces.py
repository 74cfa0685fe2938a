"""Where an attack may go: a ball around each input, counted in pixels, cut by the range of the pixels."""

import dataclasses

import numpy as np

from uqhelpers._checks import as_real
from uqhelpers._torch import torch

SLACK = 1e-4  # of the range: what rounding and standardising in single precision may leave outside


@dataclasses.dataclass(frozen=True, eq=False)
class Space:
    """Units of the inputs, and the bounds in them.

    Attributes
    ----------
    std : tensor
        By which pixels were divided; broadcasts against (N, ...).
    low, high : tensor
        Bounds in the inputs' own units.
    """

    std: object
    low: object
    high: object

    @classmethod
    def of(cls, inputs, bounds, mean, std):
        mean, std = (_by_channel(values, inputs, name) for values, name in ((mean, "mean"), (std, "std")))
        if std.min() <= 0:
            raise ValueError(f"std: expected numbers above 0, got {std.min().item():g}")
        if bounds is None:
            return cls(std, torch.tensor(-torch.inf), torch.tensor(torch.inf))
        ends = np.atleast_1d(as_real(bounds, "bounds"))
        if ends.shape != (2,) or ends[0] >= ends[1]:
            raise ValueError(f"bounds: expected None or (low, high), low below high, got {bounds!r}")
        space = cls(std, (ends[0] - mean) / std, (ends[1] - mean) / std)
        outside = torch.maximum(space.low - inputs, inputs - space.high) * std
        if outside.max() > SLACK * (ends[1] - ends[0]):
            pixels = inputs * std + mean
            raise ValueError(
                f"inputs: expected pixels from {ends[0]:g} to {ends[1]:g}, got {pixels.min():.4g} to "
                f"{pixels.max():.4g}; say mean= and std= if they were standardised, or give other bounds="
            )
        return space

    def clipped(self, values):
        return torch.minimum(torch.maximum(values, self.low), self.high)

    def projected(self, values, centre, epsilon, norm):
        """The nearest point of the ball, then of the bounds."""
        if norm == np.inf:
            reach = epsilon / self.std
            return self.clipped(torch.minimum(torch.maximum(values, centre - reach), centre + reach))
        shift = (values - centre) * self.std
        length = lengths(shift)
        kept = torch.where(length > epsilon, epsilon / length, 1.0)
        return self.clipped(centre + shift * kept / self.std)

    def step(self, gradient, size, norm):
        """The step of this size, in pixels, that gains most to first order."""
        if norm == np.inf:
            return size * gradient.sign() / self.std
        pixels = gradient / self.std
        length = lengths(pixels)
        return size * torch.where(length > 0, pixels / length, 0.0) / self.std

    def start(self, centre, epsilon, norm, generator):
        """A random point of the ball, uniform before the bounds cut it."""
        if norm == np.inf:
            noise = 2 * torch.rand(centre.shape, generator=generator, dtype=centre.dtype) - 1
        else:
            noise = torch.randn(centre.shape, generator=generator, dtype=centre.dtype)
            radius = torch.rand(len(centre), generator=generator, dtype=centre.dtype) ** (
                1 / centre[0].numel()
            )
            noise = noise / lengths(noise) * radius.reshape(-1, *[1] * (centre.ndim - 1))
        return self.clipped(centre + epsilon * noise.to(centre.device) / self.std)


def lengths(values):
    """Euclidean length of each input, shaped to broadcast."""
    # Scaled by the largest entry first: a gradient of 1e-30 squared is 0 in single precision.
    flat = values.flatten(1)
    top = flat.abs().amax(dim=1, keepdim=True)
    scaled = flat / torch.where(top > 0, top, 1.0)
    length = top * scaled.square().sum(dim=1, keepdim=True).sqrt()
    return length.reshape(-1, *[1] * (values.ndim - 1))


def _by_channel(values, inputs, name):
    """A number, or one for each channel, shaped to broadcast against the inputs."""
    array = np.atleast_1d(as_real(values, name))
    channels = inputs.shape[1]
    if array.ndim != 1 or len(array) not in (1, channels):
        raise ValueError(
            f"{name}: expected a number, or one for each of {channels} channels, got shape {array.shape}"
        )
    tensor = torch.as_tensor(array, dtype=inputs.dtype, device=inputs.device)
    return tensor.reshape(-1, *[1] * (inputs.ndim - 2))
