"""The evidence lower bound, maximised on minibatches."""

import contextlib
import dataclasses
import math
import time

import numpy as np

from uqhelpers._checks import as_choice, as_number, as_whole
from uqhelpers._progress import bar
from uqhelpers._torch import torch
from uqhelpers.batches import gather
from uqhelpers.training import (
    OPTIMISERS,
    as_inputs,
    as_it_was_on_failure,
    best_device,
    expect_finite_weights,
    seeded,
)
from uqhelpers.variational_inference.layers import (
    kl_of_layers,
    refuse_points,
    variational_layers,
)
from uqhelpers.variational_inference.likelihoods import as_targets, likelihood_of

KL_WEIGHTS = ("uniform", "blundell")
SCHEDULES = ("constant", "cosine")


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

    def __repr__(self):
        first, last = self.negative_bound[0], self.negative_bound[-1]
        return (
            f"VariationalHistory({len(self.loss)} epochs in {self.seconds:.1f} s: "
            f"negative bound an input {first:.4g} to {last:.4g} nats)"
        )


def fit_variational(
    model,
    inputs,
    targets=None,
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
    inputs : array, shape (N, ...), or iterable of batches
        Training inputs; or a ``DataLoader`` of pairs ``(inputs, targets)``,
        which is gone through once: minibatches are drawn from what it gave.
    targets : array, shape (N,) or (N, K)
        Class labels for "categorical", 0 or 1 (or booleans) for "bernoulli",
        numbers for "gaussian". A loader brings its own.
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
        input, shape (N,), with all its constants; whole numbers stay whole
        (int64).
    noise_std : float, optional
        Standard deviation of the observations, in units of the targets; for
        "gaussian" only, and needed there.
    samples : int
        Draws of the noise a step.
    kl_weights : {"uniform", "blundell"}
        The shares ``π_i``, see :func:`minibatch_weights`.
    kl_scale : float
        The divergence is multiplied by it. At 1 the objective is the bound. At
        λ < 1 it is λ times the bound of a data set in which every input occurs
        1/λ times: a tempered likelihood (the cold posterior of Wenzel et al.
        2020 tempers the prior, too).
    warmup : int
        Over so many epochs the scale grows linearly up to ``kl_scale``, which
        the epoch after them has in full; fewer than ``epochs``.
    optimiser : {"adam", "adamw", "sgd"}
        Without weight decay: the prior is in the divergence.
    schedule : {"constant", "cosine"}
        "cosine" lets the learning rate fall to 0 over the training, which
        takes the noise of the gradient out of the result.
    seed : int
        Seeds the order of the minibatches and the noise; the global generators
        are left as they were.
    device : torch.device or str, optional
    progress : bool, whether a bar shows long work

    Returns
    -------
    VariationalHistory

    Raises
    ------
    ValueError
        If the warm-up leaves no epoch of the training, or the loss stops being
        finite. The model is then as it was before the call.

    References
    ----------
    Graves (2011); Blundell et al. (2015); Kingma, Salimans and Welling (2015).
    """
    epochs, batch_size = as_whole(epochs, "epochs"), as_whole(batch_size, "batch_size")
    samples, warmup = as_whole(samples, "samples"), as_whole(warmup, "warmup", low=0)
    if warmup >= epochs:
        raise ValueError(
            f"warmup: expected fewer than {epochs}, the number of epochs, so that the last one has the "
            f"whole divergence, got {warmup}"
        )
    learning_rate = as_number(learning_rate, "learning_rate", low=0, open_low=True)
    kl_scale = as_number(kl_scale, "kl_scale", low=0)
    if warmup and not kl_scale:
        raise ValueError(f"warmup: has no effect where kl_scale is 0, got {warmup}")
    schedule = as_choice(schedule, "schedule", SCHEDULES)
    kl_weights = as_choice(kl_weights, "kl_weights", KL_WEIGHTS)
    make_optimiser = OPTIMISERS[as_choice(optimiser, "optimiser", OPTIMISERS)]
    seed = as_whole(seed, "seed", low=0)
    loss = likelihood_of(likelihood, noise_std)
    layers = variational_layers(model)
    refuse_points(layers)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("model: expected weights that can be trained, got a network that is frozen")
    device = torch.device(device) if device is not None else best_device()
    inputs, targets = gather(inputs, targets)
    inputs = as_inputs(inputs, model)
    targets = as_targets(targets, likelihood, model, inputs).to(device)
    inputs = inputs.to(device)

    batches = -(-len(inputs) // batch_size)
    shares = minibatch_weights(kl_weights, batches)
    mean_size = len(inputs) / batches
    shuffle = torch.Generator().manual_seed(seed)
    started, rows, taken = time.perf_counter(), [], 0
    with as_it_was_on_failure(model), seeded(seed):
        model.to(device)
        step = make_optimiser(model.parameters(), lr=learning_rate, weight_decay=0.0)
        model.train()
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
                kl = kl_of_layers(layers)
                with _said_of_one(len(batch), batch_size):
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
        expect_finite_weights(model)
        model.eval()
    misfit, kl, scale, shared = np.array(rows).T
    seconds = time.perf_counter() - started
    return VariationalHistory(misfit + scale * shared, misfit + shared, misfit, kl, scale, seconds)


@contextlib.contextmanager
def _said_of_one(size, batch_size):
    """Name the batch size where batch normalisation has one input only, of which there is no spread."""
    try:
        yield
    except ValueError as error:
        if size > 1 or "more than 1 value per channel" not in str(error):
            raise
        raise ValueError(
            "batch_size: expected minibatches of at least 2 for a network with batch normalisation, got "
            f"one of 1, what {batch_size} leaves of the inputs"
        ) from error


def _expected_nll(model, layers, loss, inputs, targets, samples):
    """Negative log likelihood of a batch, averaged over draws of the noise."""
    if samples > 1 and all(layer.local_reparameterisation for layer in layers):
        # Each input has its own noise, so that copies in one batch are as good as several batches.
        inputs = inputs.repeat(samples, *[1] * (inputs.ndim - 1))
        return loss(model(inputs), targets.repeat(samples, *[1] * (targets.ndim - 1))).sum() / samples
    return sum(loss(model(inputs), targets).sum() for _ in range(samples)) / samples
