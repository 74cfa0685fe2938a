"""Layers whose weights are independent Gaussians, and their divergence from the prior."""

import math

from uqhelpers._checks import as_number, as_whole
from uqhelpers._torch import as_module, torch

nn = torch.nn
functional = torch.nn.functional

INITIAL_STD = 0.03  # log σ of about -3.5: small beside the means, so that training starts with a signal
LEAST_STD = 1e-30  # softplus(ρ) of less is 0 in single precision, and its divergence infinite


class Variational(nn.Module):
    """What both layers share: means, widths, prior, divergence, and the draw that a whole pass keeps."""

    def __init__(self, weight_shape, bias, prior_std, initial_std, local_reparameterisation):
        super().__init__()
        self.prior_std = as_number(prior_std, "prior_std", low=0, open_low=True)
        self.initial_std = as_number(initial_std, "initial_std", low=LEAST_STD)
        self.local_reparameterisation = bool(local_reparameterisation)
        self.weight_mean = nn.Parameter(torch.empty(weight_shape))
        self.weight_rho = nn.Parameter(torch.empty(weight_shape))
        if bias:
            self.bias_mean = nn.Parameter(torch.empty(weight_shape[0]))
            self.bias_rho = nn.Parameter(torch.empty(weight_shape[0]))
        else:
            self.register_parameter("bias_mean", None)
            self.register_parameter("bias_rho", None)
        self._drawn = None
        self.reset_parameters()

    def reset_parameters(self):
        """Means as torch starts a deterministic layer, widths at ``initial_std``."""
        nn.init.kaiming_uniform_(self.weight_mean, a=math.sqrt(5))
        rho = math.log(math.expm1(self.initial_std)) if self.initial_std < 30 else self.initial_std
        nn.init.constant_(self.weight_rho, rho)
        if self.bias_mean is not None:
            limit = 1 / math.sqrt(self.weight_mean[0].numel())
            nn.init.uniform_(self.bias_mean, -limit, limit)
            nn.init.constant_(self.bias_rho, rho)

    @property
    def weight_std(self):
        """Standard deviation of each weight, softplus(ρ)."""
        return functional.softplus(self.weight_rho)

    @property
    def bias_std(self):
        """Standard deviation of each bias, or ``None`` without biases."""
        return None if self.bias_rho is None else functional.softplus(self.bias_rho)

    @property
    def weight(self):
        """The weight in use: that of the drawn network within ``drawn_weights``, else the mean."""
        return self.weight_mean if self._drawn is None else self._drawn[0]

    @property
    def bias(self):
        """The bias in use, like ``weight``; ``None`` without biases."""
        return self.bias_mean if self._drawn is None else self._drawn[1]

    def kl(self):
        """Divergence of the layer's weights from their prior, in closed form.

        Returns
        -------
        scalar tensor
            KL(q || p) in nats, summed over weights and biases; 0 where q is
            the prior. It has a gradient.
        """
        return kl_of_layers([self])

    def draw(self, generator=None):
        """One weight and one bias (or ``None``) from q, by reparameterisation: mean + std · noise.

        Parameters
        ----------
        generator : torch.Generator, optional
            By default torch's own.
        """
        weight = torch.addcmul(self.weight_mean, self.weight_std, _noise(self.weight_mean, generator))
        if self.bias_mean is None:
            return weight, None
        return weight, torch.addcmul(self.bias_mean, self.bias_std, _noise(self.bias_mean, generator))

    def forward(self, inputs):
        if self._drawn is not None:
            return self._apply_weights(inputs, *self._drawn)
        if not self.training:
            return self._apply_weights(inputs, self.weight_mean, self.bias_mean)
        if not self.local_reparameterisation:
            return self._apply_weights(inputs, *self.draw())
        mean = self._apply_weights(inputs, self.weight_mean, self.bias_mean)
        bias_variance = None if self.bias_rho is None else _Variance.apply(self.bias_rho)
        variance = self._apply_weights(inputs.square(), _Variance.apply(self.weight_rho), bias_variance)
        # An input of zeros without a bias has variance 0, where the root has no slope.
        std = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
        return torch.addcmul(mean, std, torch.randn_like(std))

    def extra_repr(self):
        local = "" if self.local_reparameterisation else ", local_reparameterisation=False"
        return f"{self._size()}, bias={self.bias_mean is not None}, prior_std={self.prior_std:g}{local}"


def _noise(like, generator=None):
    return torch.randn(like.shape, dtype=like.dtype, device=like.device, generator=generator)


class LinearVariational(Variational):
    """A linear layer whose weights are independent Gaussians.

    Parameters
    ----------
    inputs, outputs : int
        Number of input and output values.
    bias : bool
        Whether there are biases; they have the same prior.
    prior_std : float
        Standard deviation of the prior N(0, prior_std²) of each weight, above 0.
    initial_std : float
        Standard deviation that every weight starts with, at least 1e-30.
    local_reparameterisation : bool
        In training mode, whether the noise is drawn for each output of each
        input, with the mean and variance that the weights imply, or once a
        forward pass for the weights themselves. The distribution of each
        input's outputs is the same; the gradient of the first varies less,
        because inputs do not share their noise. Where one input passes the
        layer more than once (leading axes such as time; a layer used twice),
        its passes share their weights, and the local noise forgets that.

    Attributes
    ----------
    weight_mean, weight_rho : Parameter, shape (outputs, inputs)
    bias_mean, bias_rho : Parameter, shape (outputs,), or ``None``
        Means, and ρ with standard deviation softplus(ρ).
    weight_std, bias_std : tensor
        softplus of the ρ.

    References
    ----------
    Blundell et al. (2015), Weight uncertainty in neural networks. Kingma,
    Salimans and Welling (2015), Variational dropout and the local
    reparameterization trick.
    """

    def __init__(
        self,
        inputs,
        outputs,
        bias=True,
        *,
        prior_std=1.0,
        initial_std=INITIAL_STD,
        local_reparameterisation=True,
    ):
        shape = (as_whole(outputs, "outputs"), as_whole(inputs, "inputs"))
        super().__init__(shape, bias, prior_std, initial_std, local_reparameterisation)

    def _apply_weights(self, inputs, weight, bias):
        return functional.linear(inputs, weight, bias)

    def _size(self):
        outputs, inputs = self.weight_mean.shape
        return f"{inputs}, {outputs}"


class ConvVariational(Variational):
    """A two-dimensional convolution whose weights are independent Gaussians.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of input and output maps.
    kernel_size, stride, padding, dilation : int or (int, int)
        As in ``torch.nn.Conv2d``; padding is with zeros.
    groups : int
        As in ``torch.nn.Conv2d``: it divides both numbers of channels.
    bias : bool
        Whether there are biases; they have the same prior.
    prior_std, initial_std : float
        As in :class:`LinearVariational`.
    local_reparameterisation : bool
        As in :class:`LinearVariational`, with one difference: places of one
        image share their weights, so their outputs are correlated, while the
        local noise is drawn for each place by itself. Mean and variance of
        every single output are the same, the correlation between places is
        lost during training. Sampling a trained network never uses it.

    Attributes
    ----------
    weight_mean, weight_rho : Parameter, shape (out_channels, in_channels / groups, height, width)
    bias_mean, bias_rho : Parameter, shape (out_channels,), or ``None``

    References
    ----------
    Blundell et al. (2015). Shridhar, Laumann and Liwicki (2019), A
    comprehensive guide to Bayesian convolutional neural network with
    variational inference (local reparameterisation of convolutions).
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        *,
        prior_std=1.0,
        initial_std=INITIAL_STD,
        local_reparameterisation=True,
    ):
        in_channels, out_channels = (
            as_whole(in_channels, "in_channels"),
            as_whole(out_channels, "out_channels"),
        )
        groups = as_whole(groups, "groups")
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"groups: expected a divisor of {in_channels} and {out_channels} channels, got {groups}"
            )
        self_size = _pair(kernel_size, "kernel_size")
        stride, dilation = _pair(stride, "stride"), _pair(dilation, "dilation")
        padding = padding if padding in ("same", "valid") else _pair(padding, "padding", low=0)
        shape = (out_channels, in_channels // groups, *self_size)
        super().__init__(shape, bias, prior_std, initial_std, local_reparameterisation)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def _apply_weights(self, inputs, weight, bias):
        return functional.conv2d(inputs, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def _size(self):
        outputs, inputs, height, width = self.weight_mean.shape
        return f"{inputs * self.groups}, {outputs}, kernel_size=({height}, {width})"


def variational_layers(model):
    """All variational layers of a network.

    Parameters
    ----------
    model : torch.nn.Module

    Returns
    -------
    list of LinearVariational and ConvVariational
        Never empty (without one it raises); a layer that is used twice is in it once.
    """
    layers = [layer for layer in as_module(model).modules() if isinstance(layer, Variational)]
    if not layers:
        raise ValueError(
            "model: expected at least one LinearVariational or ConvVariational layer, got none. "
            "make_variational(model) makes them from linear and convolutional layers"
        )
    return layers


def kl_of(model):
    """Divergence of all of a network's variational weights from their priors.

    Parameters
    ----------
    model : torch.nn.Module
        With at least one variational layer.

    Returns
    -------
    scalar tensor
        KL(q || p) in nats, with a gradient.

    Raises
    ------
    ValueError
        If the network has no variational layer.
    """
    return kl_of_layers(variational_layers(model))


def kl_of_layers(layers):
    parameters, prior_stds = [], []
    for layer in layers:
        parameters += [layer.weight_mean, layer.weight_rho]
        prior_stds.append(layer.prior_std)
        if layer.bias_mean is not None:
            parameters += [layer.bias_mean, layer.bias_rho]
            prior_stds.append(layer.prior_std)
    return _GaussianKL.apply(prior_stds, *parameters)


def refuse_points(layers):
    """A width that is 0 in the layer's precision has an infinite divergence, and no gradient to leave by."""
    for layer in layers:
        for rho in (layer.weight_rho, layer.bias_rho):
            if rho is not None and not (functional.softplus(rho) > 0).all():
                precision = str(rho.dtype).removeprefix("torch.")
                raise ValueError(
                    f"model: expected standard deviations above 0, got softplus({rho.min().item():.4g}), "
                    f"which is none in {precision}"
                )


class _GaussianKL(torch.autograd.Function):
    """Sum of KL(N(mean, softplus(rho)²) || N(0, prior_std²)), in nats, over independent weights.

    From elementary operations the divergence would take as long as the rest of
    a training step: every one of them walks over all weights, forth and back.
    ``parameters`` holds the means and the rhos in turn, ``prior_stds`` one
    number for each such pair.
    """

    @staticmethod
    def forward(ctx, prior_stds, *parameters):
        stds = [functional.softplus(rho) for rho in parameters[1::2]]
        ctx.prior_stds = prior_stds
        ctx.save_for_backward(*parameters[::2], *stds)
        total = 0.0
        for mean, std, prior_std in zip(parameters[::2], stds, prior_stds, strict=True):
            squares = torch.dot(mean.flatten(), mean.flatten()) + torch.dot(std.flatten(), std.flatten())
            constant = mean.numel() * (math.log(prior_std) - 0.5)
            total = total + squares / (2 * prior_std**2) - std.log().sum() + constant
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        pairs = len(ctx.prior_stds)
        gradients = [None]
        for mean, std, prior_std in zip(
            ctx.saved_tensors[:pairs], ctx.saved_tensors[pairs:], ctx.prior_stds, strict=True
        ):
            # The slope of softplus, the sigmoid of ρ, is 1 - exp(-σ): minus what expm1 gives.
            by_rho = std.reciprocal().sub_(std, alpha=prior_std**-2).mul_(torch.expm1(-std)).mul_(gradient)
            gradients += [mean * (gradient / prior_std**2), by_rho]
        return tuple(gradients)


class _Variance(torch.autograd.Function):
    """softplus(rho)², in as few walks over the weights as it takes."""

    @staticmethod
    def forward(ctx, rho):
        std = functional.softplus(rho)
        ctx.save_for_backward(std)
        return std * std

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (std,) = ctx.saved_tensors
        return torch.expm1(-std).mul_(std).mul_(gradient).mul_(-2)


def _pair(value, name, low=1):
    values = value if isinstance(value, tuple | list) else (value, value)
    if len(values) != 2:
        raise ValueError(f"{name}: expected one whole number or two, got {value!r}")
    return tuple(as_whole(number, name, low=low) for number in values)
