"""The norm of a convolution, and convolutions whose norm is capped."""

import math
import warnings

import numpy as np

from uqhelpers._checks import as_number, as_whole, to_numpy
from uqhelpers._torch import torch

nn, functional = torch.nn, torch.nn.functional

__all__ = ["SpectralNormConv2d", "conv_spectral_norm"]

MOST_DIRECTIONS, MOST_NUMBERS = 400, 1 << 24  # held at a time, twice


def conv_spectral_norm(weight, input_shape, stride=1, padding=0, *, tolerance=1e-9, steps=2000):
    """The largest factor by which a convolution can stretch an image: its true operator norm.

    Golub, Kahan and Lanczos's iteration with the convolution and its transpose,
    which tells close singular values apart where power iteration stands still
    and takes standing still for having arrived. The spectral norm of the weights
    reshaped to a matrix, by which libraries normalise, belongs to another
    operator and may be several times smaller.

    Parameters
    ----------
    weight : array or tensor, shape (outputs, inputs, kernel height, kernel width)
        The kernels.
    input_shape : tuple of int
        (channels, height, width) of the images, or (height, width): the norm
        depends on it.
    stride, padding : int or pair of int
        As in ``torch.nn.functional.conv2d``; padding is with zeros.
    tolerance : float
        The iteration ends where the square of its relative residual is below
        this. Some singular value is at least as near as the residual, and the
        error mostly of the size of its square.
    steps : int
        At most so many steps.

    Returns
    -------
    float
        The norm, from below: relative error well under 1e-4, whatever the size
        of the weights; infinite where it exceeds the largest float.

    Warns
    -----
    RuntimeWarning
        If ``steps`` were too few for that.

    References
    ----------
    Gouk et al. (2021), Regularisation of neural networks by enforcing Lipschitz
    continuity; Yoshida and Miyato (2017), Spectral norm regularization. Golub and
    Kahan (1965), Calculating the singular values and pseudo-inverse of a matrix.
    """
    tensor = weight.detach() if torch.is_tensor(weight) else torch.from_numpy(to_numpy(weight, "weight"))
    if tensor.ndim != 4 or tensor.numel() == 0:
        raise ValueError(f"weight: expected shape (out, in, height, width), got {tuple(tensor.shape)}")
    tensor = tensor.double()
    if not torch.isfinite(tensor).all():
        raise ValueError("weight: expected finite numbers, got NaN or infinity")
    size = _as_size(input_shape, tensor.shape[1])
    stride, padding = _as_pair(stride, "stride", 1), _as_pair(padding, "padding", 0)
    tolerance = as_number(tolerance, "tolerance", low=0)
    direction = _random_direction((1, tensor.shape[1], *size), tensor)
    _expect_room(input_shape, size, padding, tensor)
    return _converged_norm(tensor, direction, stride, padding, tolerance, as_whole(steps, "steps"))


def _converged_norm(weight, direction, stride, padding, tolerance, steps):
    """The norm, by as few directions as it takes: each new one is orthogonal to those before."""
    if not torch.isfinite(weight).all():
        return float("nan")  # of a network that diverged
    tolerance = max(tolerance, 1e-24)  # rounding
    # A power of two, which rounds nothing: squares of very large weights, or of tiny ones, would be lost.
    scale = 2.0 ** max(math.frexp(weight.abs().max().item())[1] - 1, -1022)
    with torch.no_grad():
        found = _bidiagonal_norm(weight / scale, direction, stride, padding, tolerance, steps)
    norm, residual = (scale * value for value in found)
    if found[1] ** 2 > tolerance * found[0] ** 2:
        warnings.warn(
            f"steps: {steps} did not suffice, the norm may be {norm + residual:.6g} where {norm:.6g} was "
            "reached",
            RuntimeWarning,
            stacklevel=3,
        )
    return norm


def _bidiagonal_norm(weight, direction, stride, padding, tolerance, steps):
    """The largest singular value found, and how far it is from satisfying its equations."""
    shape, taken = direction.shape, 0
    while True:
        diagonal, above, look = [], [], 1
        most = min(steps - taken, max(10, min(MOST_DIRECTIONS, MOST_NUMBERS // direction.numel())))
        ins, outs = _Directions(most + 1), _Directions(most)
        ins.add(direction.flatten())
        while True:
            image = functional.conv2d(ins.last().reshape(shape), weight, stride=stride, padding=padding)
            diagonal.append(outs.add(image.flatten()))
            back = torch.nn.grad.conv2d_input(
                shape, weight, outs.last().reshape(image.shape), stride=stride, padding=padding
            )
            above.append(ins.add(back.flatten()))
            taken, done = taken + 1, len(diagonal) == most or not above[-1]
            if not done and len(diagonal) < look:  # a look costs more than a step
                continue
            look = max(look + 3, int(1.2 * look))
            left, values, right = np.linalg.svd(np.diag(diagonal) + np.diag(above[:-1], 1))
            norm, residual = float(values[0]), float(above[-1] * abs(left[-1, 0]))
            if residual**2 <= tolerance * norm**2 or taken == steps:
                return norm, residual
            if done:
                break
        # Begun again from the best so far: the directions take memory.
        direction = ins.mixed(torch.as_tensor(right[0])).reshape(shape)


class _Directions:
    """Orthogonal directions of length 1, in one piece of memory."""

    def __init__(self, most):
        self.most, self.count, self.rows = most, 0, None

    def add(self, vector):
        """Take in what of a vector is new; its length."""
        if self.rows is None:
            self.rows = vector.new_empty(self.most, len(vector))
        known, size = self.rows[: self.count], vector.norm().item()
        for _ in range(2 if self.count else 0):  # once leaves rounding
            vector = vector - known.T @ (known @ vector)
        length = vector.norm().item()
        length = length if length > 1e-14 * size else 0.0  # nothing new is left
        self.rows[self.count] = vector / length if length else 0.0
        self.count += 1
        return length

    def last(self):
        return self.rows[self.count - 1]

    def mixed(self, weights):
        return self.rows[: len(weights)].T @ weights.to(self.rows)


def _power_step(weight, direction, stride, padding):
    """One step of power iteration on (transpose of the convolution) ∘ (convolution)."""
    stretched = functional.conv2d(direction, weight, stride=stride, padding=padding)
    back = torch.nn.grad.conv2d_input(direction.shape, weight, stretched, stride=stride, padding=padding)
    return functional.normalize(back, dim=(1, 2, 3), eps=1e-30)


def _random_direction(shape, like):
    """A random image of norm 1, always the same: the global generators are left alone."""
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (start / start.norm()).to(like)


class SpectralNormConv2d(nn.Conv2d):
    """A convolution whose operator norm is capped: at most ``coefficient``, smaller if it wants to be.

    The weights are divided by max(1, norm / coefficient). (torch's own
    ``spectral_norm`` divides by the norm whatever it is, which forces it to 1,
    and by another norm.) While the network is trained, the norm is followed by
    one step of power iteration a pass; in evaluation mode it is computed until
    it no longer changes.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, bias
        As ``torch.nn.Conv2d``, without dilation and groups.
    input_shape : tuple of int
        (channels, height, width) or (height, width) of the images: the norm
        depends on it.
    coefficient : float
        The cap, above 0.

    Raises
    ------
    ValueError
        In ``forward``, if images of another size come.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty; Miyato et al. (2018),
    Spectral normalization for generative adversarial networks.
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        input_shape,
        coefficient=3.0,
        *,
        stride=1,
        padding=0,
        bias=True,
    ):
        self.coefficient = as_number(coefficient, "coefficient", low=0, open_low=True)
        in_channels = as_whole(in_channels, "in_channels")
        stride, padding = _as_pair(stride, "stride", 1), _as_pair(padding, "padding", 0)
        self.image_size = _as_size(input_shape, in_channels)
        super().__init__(
            in_channels, as_whole(out_channels, "out_channels"), kernel_size, stride, padding, bias=bias
        )
        _expect_room(input_shape, self.image_size, padding, self.weight)
        shape = (1, in_channels, *self.image_size)
        self.register_buffer("direction", _random_direction(shape, self.weight.detach()))
        self._known = None  # the converged norm, and of which weights

    def forward(self, images):
        """Convolve with the capped weights."""
        if images.shape[-2:] != self.image_size:
            raise ValueError(
                f"images: expected size {self.image_size}, for which the norm is capped, "
                f"got {tuple(images.shape[-2:])}"
            )
        return self._conv_forward(images, self.capped_weight(), self.bias)

    def capped_weight(self):
        """The weights that the convolution uses."""
        norm = self._followed_norm() if self.training else self._exact_norm()
        if not self.training:
            return self.weight / max(1.0, norm / self.coefficient)
        return self.weight / torch.clamp(norm / self.coefficient, min=1.0)

    def spectral_norm(self):
        """The operator norm of the capped convolution, a float of at most ``coefficient``."""
        norm = self._exact_norm()
        return norm / max(1.0, norm / self.coefficient)

    def _followed_norm(self):
        """An estimate that costs one step and through which gradients flow to the weights."""
        with torch.no_grad():
            self.direction.copy_(_power_step(self.weight, self.direction, self.stride, self.padding))
        # A copy: the next pass may move the buffer before this pass's gradient is computed.
        return functional.conv2d(
            self.direction.clone(), self.weight, stride=self.stride, padding=self.padding
        ).norm()

    def _exact_norm(self):
        """The norm to three digits and more; computed once for given weights, and no buffer moves."""
        weight = self.weight.detach()
        # A copy and not torch's version counter, which does not see what is written to ``weight.data``.
        if self._known is None or not torch.equal(self._known[0].to(weight), weight):
            arguments = weight.double(), self.direction.double(), self.stride, self.padding
            self._known = weight.clone(), _converged_norm(*arguments, tolerance=1e-7, steps=1000)
        return self._known[1]


def _as_size(input_shape, channels):
    """(height, width) of images with so many channels."""
    try:
        shape = tuple(as_whole(size, "input_shape") for size in input_shape)
    except TypeError as error:
        raise ValueError(f"input_shape: expected (channels, height, width), got {input_shape!r}") from error
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[0] != channels):
        raise ValueError(f"input_shape: expected ({channels}, height, width), got {input_shape!r}")
    return shape[-2:]


def _expect_room(input_shape, size, padding, weight):
    """The kernel has to fit into the padded image."""
    if any(size[i] + 2 * padding[i] < weight.shape[2 + i] for i in (0, 1)):
        raise ValueError(f"input_shape: expected images no smaller than the kernel, got {input_shape!r}")


def _as_pair(value, name, low):
    values = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(values) != 2:
        raise ValueError(f"{name}: expected a whole number or two of them, got {value!r}")
    return tuple(as_whole(entry, name, low=low) for entry in values)
