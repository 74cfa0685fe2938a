"""Mean-field variational inference: networks whose weights are Gaussians, each with a mean and a width.

A weight's mean μ is one parameter, ρ another, and σ = softplus(ρ) = log(1 + eᵖ)
its standard deviation: ρ is neither a variance nor the logarithm of one.
Training maximises the evidence lower bound,

    E_q[log p(D | θ)] - KL(q(θ) || p(θ)),

the first term by sampling (reparameterised), the second in closed form
(Graves 2011; Blundell et al. 2015).

In training mode the layers draw noise in every forward pass; in evaluation
mode they use the means, so that ``training.predict`` is that of the mean
network. ``sample`` and ``predict`` here draw whole networks: one pass is one
network, for all inputs and in every batch.
"""

import contextlib
import copy
import dataclasses
import math
import time

import numpy as np

from uqhelpers._checks import as_choice, as_labels, as_number, as_real, as_whole
from uqhelpers._progress import bar
from uqhelpers._torch import torch
from uqhelpers.metrics import SampleAccumulator
from uqhelpers.training import OPTIMISERS, as_inputs, best_device, evaluating, seeded

__all__ = [
    "KL_WEIGHTS",
    "LIKELIHOODS",
    "SCHEDULES",
    "Bound",
    "ConvVariational",
    "LinearVariational",
    "VariationalHistory",
    "drawn_weights",
    "evidence_bound",
    "fit_variational",
    "kl_of",
    "make_variational",
    "minibatch_weights",
    "predict",
    "sample",
    "sample_outputs",
    "variational_layers",
]

nn = torch.nn
functional = torch.nn.functional

LIKELIHOODS = ("categorical", "bernoulli", "gaussian")
KL_WEIGHTS = ("uniform", "blundell")
SCHEDULES = ("constant", "cosine")
INITIAL_STD = 0.03  # log σ of about -3.5: small beside the means, so that training starts with a signal


# --- layers -------------------------------------------------------------------------------------------


class _Variational(nn.Module):
    """What both layers share: means, widths, prior, divergence, and the draw that a whole pass keeps."""

    def __init__(self, weight_shape, bias, prior_std, initial_std, local_reparameterisation):
        super().__init__()
        self.prior_std = as_number(prior_std, "prior_std", low=0, open_low=True)
        self.initial_std = as_number(initial_std, "initial_std", low=0, open_low=True)
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

    def kl(self):
        """Divergence of the layer's weights from their prior, in closed form.

        Returns
        -------
        scalar tensor
            KL(q || p) in nats, summed over weights and biases; 0 where q is
            the prior. It has a gradient.
        """
        return _kl([self])

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


class LinearVariational(_Variational):
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
        Standard deviation that every weight starts with, above 0.
    local_reparameterisation : bool
        In training mode, whether the noise is drawn for each output of each
        input, with the mean and variance that the weights imply, or once a
        forward pass for the weights themselves. The distribution of each
        input's outputs is the same; the gradient of the first varies less,
        because inputs do not share their noise.

    Attributes
    ----------
    weight_mean, weight_rho : Parameter, shape (outputs, inputs)
    bias_mean, bias_rho : Parameter, shape (outputs,), or ``None``
        Means, and ρ with standard deviation softplus(ρ).
    weight_std, bias_std : tensor
        softplus of the ρ.

    Raises
    ------
    ValueError
        If a size is not a positive whole number or a standard deviation not
        positive.

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


class ConvVariational(_Variational):
    """A two-dimensional convolution whose weights are independent Gaussians.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of input and output maps.
    kernel_size, stride, padding, dilation : int or (int, int)
        As in ``torch.nn.Conv2d``; padding is with zeros.
    groups : int
        As in ``torch.nn.Conv2d``.
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

    Raises
    ------
    ValueError
        If a size is not a positive whole number, the groups do not divide the
        channels, or a standard deviation is not positive.

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
        Never empty; a layer that is used twice is in it once.

    Raises
    ------
    ValueError
        If there is none.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    layers = [layer for layer in model.modules() if isinstance(layer, _Variational)]
    if not layers:
        raise ValueError(
            "model: expected at least one LinearVariational or ConvVariational layer, got none. "
            "make_variational(model) makes them from linear and convolutional layers"
        )
    return layers


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


# --- the bound ----------------------------------------------------------------------------------------


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
    return _kl(variational_layers(model))


def minibatch_weights(kind, batches):
    """How the divergence is shared among the minibatches of an epoch.

    Parameters
    ----------
    kind : {"uniform", "blundell"}
        "uniform" gives each of ``M`` batches ``1 / M``; "blundell" gives the
        i-th ``2^(M - i) / (2^M - 1)``: half of it to the first batch, half of
        the rest to the next.
    batches : int
        Number of minibatches an epoch, ``M``.

    Returns
    -------
    array, shape (M,), float64
        Sums to 1.

    Raises
    ------
    ValueError
        If ``kind`` is neither, or there is no batch.

    References
    ----------
    Graves (2011), Practical variational inference for neural networks.
    Blundell et al. (2015), section 3.4.
    """
    kind, batches = as_choice(kind, "kind", KL_WEIGHTS), as_whole(batches, "batches")
    if kind == "uniform":
        return np.full(batches, 1 / batches)
    # 2^M overflows for a thousand batches; 2^-i / (1 - 2^-M) is the same number.
    return 0.5 ** np.arange(1, batches + 1) / -np.expm1(-batches * np.log(2))


@dataclasses.dataclass(frozen=True)
class Bound:
    """The evidence lower bound of a network on a data set, estimated by sampling.

    Attributes
    ----------
    value : float
        ``log_likelihood - kl``, in nats: on average at most the log evidence.
    log_likelihood : float
        Log likelihood of all targets, averaged over sampled networks.
    kl : float
        Divergence from the prior; exact.
    standard_error : float
        Of ``value``, from the spread of the samples.
    """

    value: float
    log_likelihood: float
    kl: float
    standard_error: float


def evidence_bound(
    model, inputs, targets, *, likelihood="categorical", noise_std=None, samples=100, seed=0, batch_size=500
):
    """Estimate the evidence lower bound by drawing whole networks.

    Parameters
    ----------
    model : torch.nn.Module
        With variational layers; left in the state in which it came.
    inputs, targets, likelihood, noise_std
        As :func:`fit_variational`.
    samples : int
        Number of drawn networks, at least 2.
    seed : int
    batch_size : int
        Inputs at a time.

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        As :func:`fit_variational`.
    """
    samples = as_whole(samples, "samples", low=2)
    loss, layers = _likelihood(likelihood, noise_std), variational_layers(model)
    with torch.no_grad():
        kl = _kl(layers).item()
    inputs = as_inputs(inputs, model)
    targets = _as_targets(targets, likelihood, model, inputs).to(layers[0].weight_mean.device)
    log_likelihoods = np.array(
        [
            -loss(outputs.double(), targets.double() if targets.is_floating_point() else targets).sum().item()
            for outputs in _passes(model, inputs, samples, seed, batch_size, progress=False)
        ]
    )
    mean = log_likelihoods.mean()
    error = log_likelihoods.std(ddof=1) / math.sqrt(samples)
    return Bound(float(mean - kl), float(mean), kl, float(error))


# --- training -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class VariationalHistory:
    """What happened while a variational network was trained.

    Attributes
    ----------
    loss : array, shape (epochs,)
        What was minimised: the negative bound a training input, in nats, with
        the divergence scaled as asked for.
    negative_bound : array, shape (epochs,)
        The same with the divergence in full, whatever its scale was: what
        runs with different scales can be compared by.
    negative_log_likelihood : array, shape (epochs,)
        The first part of both, a training input.
    kl : array, shape (epochs,)
        The divergence of the whole network, unscaled, averaged over the epoch.
    kl_scale : array, shape (epochs,)
        By what the divergence was multiplied.
    seconds : float
        Wall-clock time of the training.
    """

    loss: np.ndarray
    negative_bound: np.ndarray
    negative_log_likelihood: np.ndarray
    kl: np.ndarray
    kl_scale: np.ndarray
    seconds: float


def fit_variational(
    model,
    inputs,
    targets,
    *,
    epochs,
    batch_size=128,
    learning_rate=1e-2,
    likelihood="categorical",
    noise_std=None,
    samples=1,
    kl_weights="uniform",
    kl_scale=1.0,
    warmup=0,
    optimiser="adam",
    schedule="constant",
    seed=0,
    device=None,
    progress=True,
):
    """Maximise the evidence lower bound in place, on shuffled minibatches; leave evaluation mode behind.

    Batch ``i`` of ``M`` contributes its own log likelihood and the share
    ``π_i`` of the divergence; the shares of an epoch sum to 1, so the losses of
    an epoch sum to the negative bound. Each is divided by the mean size of a
    batch, so that learning rates mean what they mean elsewhere.

    Parameters
    ----------
    model : torch.nn.Module
        With variational layers (other parameters are trained by the same loss,
        without a prior); it is moved to ``device``.
    inputs : array, shape (N, ...)
        Training inputs.
    targets : array, shape (N,) or (N, K)
        Class labels for "categorical", 0 or 1 for "bernoulli", numbers for
        "gaussian".
    epochs : int
        Passes over the data.
    batch_size : int
        Inputs a step.
    learning_rate : float
        Of the first step.
    likelihood : {"categorical", "bernoulli", "gaussian"} or callable
        "categorical": outputs are logits of C classes; "bernoulli": one output,
        the log odds of class 1; "gaussian": outputs are means. A callable gets
        ``(outputs, targets)`` and returns the negative log likelihood of each
        input, shape (N,), with all its constants.
    noise_std : float, optional
        Standard deviation of the observations, in units of the targets; for
        "gaussian" only, and needed there.
    samples : int
        Draws of the noise a step.
    kl_weights : {"uniform", "blundell"}
        The shares ``π_i``, see :func:`minibatch_weights`.
    kl_scale : float
        The divergence is multiplied by it. At 1 the objective is the bound;
        below 1 the data count more than once (a cold posterior), and it is none.
    warmup : int
        Over so many epochs the scale grows linearly up to ``kl_scale``.
    optimiser : {"adam", "adamw", "sgd"}
        Without weight decay: the prior is in the divergence.
    schedule : {"constant", "cosine"}
        "cosine" lets the learning rate fall to 0 over the training, which
        takes the noise of the gradient out of the result.
    seed : int
        Seeds the order of the minibatches and the noise; the global generators
        are left as they were.
    device : torch.device or str, optional
        CUDA, then MPS, then CPU, unless told.
    progress : bool
        Whether a bar appears when it takes longer than two seconds.

    Returns
    -------
    VariationalHistory

    Raises
    ------
    ValueError
        If the model has no variational layer, the data are empty, not finite
        or of unequal length, labels do not fit the outputs, ``noise_std`` is
        missing, or the loss stops being finite.

    References
    ----------
    Graves (2011); Blundell et al. (2015); Kingma, Salimans and Welling (2015).
    """
    epochs, batch_size = as_whole(epochs, "epochs"), as_whole(batch_size, "batch_size")
    samples, warmup = as_whole(samples, "samples"), as_whole(warmup, "warmup", low=0)
    learning_rate = as_number(learning_rate, "learning_rate", low=0, open_low=True)
    kl_scale = as_number(kl_scale, "kl_scale", low=0)
    schedule = as_choice(schedule, "schedule", SCHEDULES)
    kl_weights = as_choice(kl_weights, "kl_weights", KL_WEIGHTS)
    make_optimiser = OPTIMISERS[as_choice(optimiser, "optimiser", OPTIMISERS)]
    seed = as_whole(seed, "seed", low=0)
    loss = _likelihood(likelihood, noise_std)
    layers = variational_layers(model)
    device = torch.device(device) if device is not None else best_device()
    model.to(device)
    inputs = as_inputs(inputs, model).to(device)
    targets = _as_targets(targets, likelihood, model, inputs)

    batches = -(-len(inputs) // batch_size)
    shares = minibatch_weights(kl_weights, batches)
    mean_size = len(inputs) / batches
    step = make_optimiser(model.parameters(), lr=learning_rate, weight_decay=0.0)
    shuffle = torch.Generator().manual_seed(seed)
    started, rows, taken = time.perf_counter(), [], 0
    model.train()
    with seeded(seed):
        for epoch in bar(range(epochs), progress, desc="training", unit="epoch"):
            scale = kl_scale * (min(1.0, (epoch + 1) / (warmup + 1)) if warmup else 1.0)
            misfit, shared, divergences = 0.0, 0.0, 0.0
            order = torch.randperm(len(inputs), generator=shuffle).to(device)
            for batch, share in zip(order.split(batch_size), shares, strict=True):
                if schedule == "cosine":
                    for group in step.param_groups:
                        group["lr"] = (
                            0.5 * learning_rate * (1 + math.cos(math.pi * taken / (epochs * batches)))
                        )
                taken += 1
                kl = _kl(layers)
                nll = _expected_nll(model, layers, loss, inputs[batch], targets[batch], samples)
                value = (nll + scale * share * kl) / mean_size
                step.zero_grad()
                value.backward()
                step.step()
                misfit, divergence = misfit + nll.item(), kl.item()
                shared, divergences = shared + share * divergence, divergences + divergence
            rows.append((misfit / len(inputs), divergences / batches, scale, shared / len(inputs)))
            if not np.isfinite(rows[-1]).all():
                raise ValueError(
                    "learning_rate: training diverged to a loss that is not finite; try a smaller rate"
                )
    model.eval()
    misfit, kl, scale, shared = np.array(rows).T
    seconds = time.perf_counter() - started
    return VariationalHistory(misfit + scale * shared, misfit + shared, misfit, kl, scale, seconds)


def _expected_nll(model, layers, loss, inputs, targets, samples):
    """Negative log likelihood of a batch, averaged over draws of the noise."""
    if samples > 1 and all(layer.local_reparameterisation for layer in layers):
        # Each input has its own noise, so that copies in one batch are as good as several batches.
        inputs = inputs.repeat(samples, *[1] * (inputs.ndim - 1))
        return loss(model(inputs), targets.repeat(samples, *[1] * (targets.ndim - 1))).sum() / samples
    return sum(loss(model(inputs), targets).sum() for _ in range(samples)) / samples


# --- sampling -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def drawn_weights(model, generator=None):
    """Run a block with one network drawn from q: every variational layer keeps its draw throughout.

    Afterwards, also after an exception, the layers are as they were.

    Parameters
    ----------
    model : torch.nn.Module
        With variational layers.
    generator : torch.Generator, optional
        By default torch's own: put the block under ``training.seeded`` to
        repeat it.

    Raises
    ------
    ValueError
        If there is no variational layer.
    """
    layers = variational_layers(model)
    before = [layer._drawn for layer in layers]
    try:
        for layer in layers:
            layer._drawn = layer.draw(generator)
        yield model
    finally:
        for layer, draw in zip(layers, before, strict=True):
            layer._drawn = draw


def sample(model, inputs, samples=20, seed=0, batch_size=500, progress=False):
    """Class probabilities of ``samples`` networks drawn from the variational posterior.

    Each sample is one network, the same for all inputs: a joint sample. All
    else (dropout, normalisation) is in evaluation mode, and the model comes
    back in the state in which it came.

    Parameters
    ----------
    model : torch.nn.Module
        A classifier with variational layers. Several outputs are logits; a
        single one is the log odds of class 1 of two.
    inputs : array, shape (N, ...)
        Inputs.
    samples : int
        Number of drawn networks, ``S``.
    seed : int
        The same seed gives the same networks, whatever the inputs and the
        batch size; the global generators are left as they were.
    batch_size : int
        Inputs at a time.
    progress : bool
        Whether a bar appears when it takes longer than two seconds.

    Returns
    -------
    array, shape (S, N, C), float64
        Probabilities.

    Raises
    ------
    ValueError
        If the model has no variational layer, or the inputs are empty or not
        finite.

    References
    ----------
    Blundell et al. (2015), eq. 1 by sampling.
    """
    passes = _passes(model, as_inputs(inputs, model), samples, seed, batch_size, progress)
    return np.stack([_probabilities(outputs) for outputs in passes])


def sample_outputs(model, inputs, samples=20, seed=0, batch_size=500, progress=False):
    """What ``samples`` networks drawn from the variational posterior put out.

    For a regression: the mean over the first axis is the predictive mean, the
    standard deviation over it the epistemic one; the noise of an observation
    is added in square.

    Parameters are those of :func:`sample`.

    Returns
    -------
    array, shape (S, N, K), float64
        Outputs: logits, or numbers for a regression.

    Raises
    ------
    ValueError
        As :func:`sample`.
    """
    passes = _passes(model, as_inputs(inputs, model), samples, seed, batch_size, progress)
    return np.stack([outputs.double().cpu().numpy() for outputs in passes])


def predict(model, inputs, samples=20, seed=0, batch_size=500, progress=False):
    """The averaged prediction of a classifier, with its uncertainties.

    Each sample is added up and forgotten: memory does not grow with
    ``samples``. Parameters are those of :func:`sample`.

    Returns
    -------
    uqhelpers.metrics.SampledDecomposition
        Averaged probabilities with total, aleatoric and epistemic uncertainty
        in nats, for each input.

    Raises
    ------
    ValueError
        As :func:`sample`.
    """
    accumulator = SampleAccumulator()
    for outputs in _passes(model, as_inputs(inputs, model), samples, seed, batch_size, progress):
        accumulator.add(_probabilities(outputs))
    return accumulator.result()


def _passes(model, inputs, samples, seed, batch_size, progress):
    """The outputs of one drawn network after the other, on all inputs."""
    samples, batch_size = as_whole(samples, "samples"), as_whole(batch_size, "batch_size")
    device = variational_layers(model)[0].weight_mean.device
    # Nothing but the weights draws from this one: neither batches nor callers change the next network.
    generator = torch.Generator(device).manual_seed(as_whole(seed, "seed", low=0))
    for _ in bar(range(samples), progress, desc="sampling", unit="network"):
        with torch.inference_mode(), evaluating(model), drawn_weights(model, generator):
            outputs = torch.cat([model(batch.to(device)) for batch in inputs.split(batch_size)])
        if outputs.ndim not in (1, 2) or len(outputs) != len(inputs):
            raise ValueError(
                f"model: expected outputs of shape ({len(inputs)}, outputs), got {tuple(outputs.shape)}"
            )
        if not torch.isfinite(outputs).all():
            raise ValueError("model: expected finite outputs, got NaN or infinity")
        yield outputs.reshape(len(inputs), -1)


def _probabilities(outputs):
    if outputs.shape[1] == 1:  # a softmax of one logit would be 1 for everybody
        outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    return outputs.double().softmax(-1).cpu().numpy()


# --- likelihoods --------------------------------------------------------------------------------------


def _kl(layers):
    parameters, prior_stds = [], []
    for layer in layers:
        parameters += [layer.weight_mean, layer.weight_rho]
        prior_stds.append(layer.prior_std)
        if layer.bias_mean is not None:
            parameters += [layer.bias_mean, layer.bias_rho]
            prior_stds.append(layer.prior_std)
    return _GaussianKL.apply(prior_stds, *parameters)


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


def _likelihood(likelihood, noise_std):
    """A function from outputs and targets to the negative log likelihood of each input."""
    if likelihood == "gaussian":
        if noise_std is None:
            raise ValueError("noise_std: expected the standard deviation of the observations, got None")
        std = as_number(noise_std, "noise_std", low=0, open_low=True)
        constant = math.log(std) + 0.5 * math.log(2 * math.pi)
        return lambda outputs, targets: (
            (0.5 * ((outputs - targets) / std).square() + constant).flatten(1).sum(1)
        )
    if noise_std is not None:
        raise ValueError("noise_std: expected None for a likelihood other than 'gaussian'")
    if callable(likelihood):
        return likelihood
    if as_choice(likelihood, "likelihood", LIKELIHOODS) == "bernoulli":
        return lambda outputs, targets: functional.binary_cross_entropy_with_logits(
            outputs[:, 0], targets, reduction="none"
        )
    return lambda outputs, targets: functional.cross_entropy(outputs, targets, reduction="none")


def _as_targets(targets, likelihood, model, inputs):
    """Targets as the likelihood needs them, checked against what the network puts out."""
    device = inputs.device
    with evaluating(model), torch.no_grad():
        outputs = model(inputs[:1].to(variational_layers(model)[0].weight_mean.device))
    width, dtype = outputs.shape[-1], outputs.dtype
    if likelihood == "bernoulli":
        if outputs.shape != (1, 1):
            raise ValueError(f"likelihood: 'bernoulli' expected one output an input, got {width}")
        labels = as_labels(targets, 2, name="targets", length=len(inputs))
        return torch.from_numpy(labels).to(device, dtype)
    if likelihood == "categorical":
        labels = as_labels(targets, width, name="targets", length=len(inputs))
        return torch.from_numpy(labels).to(device)
    array = as_real(targets, "targets")
    if len(array) != len(inputs):
        raise ValueError(f"targets: expected {len(inputs)} rows, one an input, got {len(array)}")
    tensor = torch.from_numpy(array).to(device, dtype)
    if likelihood != "gaussian":
        return tensor
    if array.size != len(array) * outputs[0].numel():
        raise ValueError(f"targets: expected {tuple(outputs.shape[1:])} numbers an input, got {array.shape}")
    return tensor.reshape(len(array), *outputs.shape[1:])  # (N, 1) against (N,) would broadcast to (N, N)


def _pair(value, name, low=1):
    values = value if isinstance(value, tuple | list) else (value, value)
    if len(values) != 2:
        raise ValueError(f"{name}: expected one whole number or two, got {value!r}")
    return tuple(as_whole(number, name, low=low) for number in values)
