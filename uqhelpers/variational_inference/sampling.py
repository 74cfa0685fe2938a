"""Networks drawn from the variational posterior: what they predict, and the bound that they estimate."""

import contextlib
import dataclasses
import math

import numpy as np

from uqhelpers._checks import as_number, as_whole
from uqhelpers._moments import spread
from uqhelpers._progress import bar
from uqhelpers._torch import torch
from uqhelpers.batches import gather
from uqhelpers.metrics import RegressionPrediction, SampleAccumulator
from uqhelpers.training import as_inputs, evaluating, probabilities
from uqhelpers.variational_inference.layers import kl_of_layers, refuse_points, variational_layers
from uqhelpers.variational_inference.likelihoods import as_targets, likelihood_of


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
    model,
    inputs,
    targets=None,
    *,
    likelihood="categorical",
    noise_std=None,
    samples=100,
    seed=0,
    batch_size=500,
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
    batch_size : int, inputs at a time

    Returns
    -------
    Bound
    """
    samples = as_whole(samples, "samples", low=2)
    loss, layers = likelihood_of(likelihood, noise_std), variational_layers(model)
    refuse_points(layers)
    with torch.no_grad():
        kl = kl_of_layers(layers).item()
    inputs, targets = gather(inputs, targets)
    inputs = as_inputs(inputs, model)
    targets = as_targets(targets, likelihood, model, inputs).to(layers[0].weight_mean.device)
    log_likelihoods = np.array(
        [
            -loss(outputs.double(), targets.double() if targets.is_floating_point() else targets).sum().item()
            for outputs in _passes(model, inputs, samples, seed, batch_size, progress=False)
        ]
    )
    mean = log_likelihoods.mean()
    error = log_likelihoods.std(ddof=1) / math.sqrt(samples)
    return Bound(float(mean - kl), float(mean), kl, float(error))


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
        A classifier with at least one variational layer. Several outputs are logits; a
        single one is the log odds of class 1 of two.
    inputs : array, shape (N, ...), or a loader that keeps their order
    samples : int
        Number of drawn networks, ``S``.
    seed : int
        The same seed gives the same networks, whatever the inputs and the
        batch size; the global generators are left as they were.
    batch_size : int, inputs at a time
    progress : bool, whether a bar shows long work

    Returns
    -------
    array of probabilities, shape (S, N, C), float64

    References
    ----------
    Blundell et al. (2015), eq. 1 by sampling.
    """
    passes = _passes(model, as_inputs(inputs, model), samples, seed, batch_size, progress)
    return np.stack([probabilities(outputs, outputs.dtype) for outputs in passes])


def sample_outputs(model, inputs, samples=20, seed=0, batch_size=500, progress=False):
    """What ``samples`` networks drawn from the variational posterior put out.

    For a regression: the mean over the first axis is the predictive mean, the
    standard deviation over it the epistemic one; the noise of an observation
    is added in square (:func:`predict_regression`).

    Parameters are those of :func:`sample`.

    Returns
    -------
    array, shape (S, N, K), float64
        Outputs: logits, or numbers for a regression.
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
    """
    accumulator = SampleAccumulator()
    for outputs in _passes(model, as_inputs(inputs, model), samples, seed, batch_size, progress):
        accumulator.add(probabilities(outputs, outputs.dtype))
    return accumulator.result()


def predict_regression(model, inputs, noise_std, samples=100, seed=0, batch_size=500, progress=False):
    """Mean and standard deviations of a regression network's prediction.

    Parameters
    ----------
    model, inputs, samples, seed, batch_size, progress
        As :func:`sample`; the network's outputs are the predicted numbers.
    noise_std : float
        Standard deviation of the observation noise, in the units of the
        target: that of the likelihood it was fitted with.

    Returns
    -------
    RegressionPrediction
        Moments, accumulated network by network: memory does not grow with
        ``samples``.

    Raises
    ------
    ValueError
        If ``samples`` is 1, which leaves no spread to measure.
    """
    noise_std = as_number(noise_std, "noise_std", low=0)
    passes = _passes(
        model, as_inputs(inputs, model), as_whole(samples, "samples", low=2), seed, batch_size, progress
    )
    mean, variance = spread(outputs.double().cpu().numpy() for outputs in passes)
    return RegressionPrediction(mean, np.sqrt(variance), np.sqrt(variance + noise_std**2))


def _passes(model, inputs, samples, seed, batch_size, progress):
    """The outputs of one drawn network after the other, on all inputs."""
    samples, batch_size = as_whole(samples, "samples"), as_whole(batch_size, "batch_size")
    device = variational_layers(model)[0].weight_mean.device
    # Nothing but the weights draws from this one: neither batches nor callers change the next network.
    generator = torch.Generator(device).manual_seed(as_whole(seed, "seed", low=0))
    for _ in bar(range(samples), progress, desc="sampling", unit="network"):
        with torch.inference_mode(), evaluating(model), drawn_weights(model, generator):
            batches = (batch.to(device, copy=True) for batch in inputs.split(batch_size))
            outputs = torch.cat([model(batch) for batch in batches])
        if outputs.ndim not in (1, 2) or len(outputs) != len(inputs):
            raise ValueError(
                f"model: expected outputs of shape ({len(inputs)}, outputs), got {tuple(outputs.shape)}"
            )
        if not torch.isfinite(outputs).all():
            raise ValueError("model: expected finite outputs, got NaN or infinity")
        yield outputs.reshape(len(inputs), -1)
