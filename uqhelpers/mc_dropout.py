"""MC-Dropout: predictions of many thinned networks from one trained network.

Dropout stays on while predicting, every forward pass then samples a network,
and the passes are averaged (Gal and Ghahramani 2016). What usually goes wrong
is the switching: ``model.train()`` also wakes batch normalisation, and is
forgotten afterwards. Here the dropout layers alone are switched on, and the
model comes back in the state in which it came, whatever happens in between.

Most of a pass is spent before the first dropout layer, where all passes do the
same. The network is therefore cut in two (with ``torch.fx``): what does not
depend on dropout runs once a batch, what does runs once a pass. A network that
cannot be traced is run in full, pass by pass, to the same effect.
"""

import dataclasses

import numpy as np

from uqhelpers._checks import as_number, as_whole
from uqhelpers._moments import spread
from uqhelpers.dropout import MASKS, dropout_layers, dropout_on, forward_passes
from uqhelpers.metrics import RegressionPrediction, SampleAccumulator
from uqhelpers.training import as_network, probabilities

__all__ = [
    "MASKS",
    "dropout_layers",
    "dropout_on",
    "predict",
    "predict_regression",
    "sample",
    "sample_outputs",
]


def sample(model, inputs, passes=20, seed=0, masks="independent", batch_size=250, progress=False):
    """Class probabilities of a classifier under ``passes`` sampled dropout masks.

    Parameters
    ----------
    model : torch.nn.Module
        A network that puts out logits (one output: the log odds of class 1 of
        two) and holds at least one dropout layer. Which are found, and what is
        not, says ``dropout_layers``. Afterwards it is in the state in which it came.
    inputs : array, shape (N, ...), or a loader that keeps their order
    passes : int
        Number of sampled networks, ``S``.
    seed : int
        The same seed, inputs and batch size give the same samples; the global
        generators are left as they were.
    masks : {"independent", "shared", "paired"}
        "independent" draws a mask for every input and pass. "shared" draws one
        mask a pass for all inputs: each pass is then *one* network, a joint
        sample over the inputs. "paired" draws shared masks in opposed pairs:
        up to a rate of 1/2 the next pass keeps whatever one pass drops, above
        it the next drops whatever one keeps. All three give each single input the same distribution in
        every pass; with the latter two the inputs move together, so averages
        over a data set vary more. Few passes underestimate mutual information
        on average, whatever the masks (Jensen). Shared masks lie along the
        first axis of what a dropout layer sees, which must be that of the
        inputs.
    batch_size : int, inputs at a time
    progress : bool, whether a bar shows long work

    Returns
    -------
    array of probabilities, shape (S, N, C), float64

    Raises
    ------
    ValueError
        If the model holds no dropout layer that runs when it predicts, or dropout
        that is called as a function beside its layers; or if shared or paired
        masks are asked of a network that cannot be traced, or in which dropout
        meets tokens or places where it should meet inputs, or that has hooks on
        its dropout layers or on what holds other layers.

    References
    ----------
    Gal and Ghahramani (2016), Dropout as a Bayesian approximation.
    """
    outputs = sample_outputs(model, inputs, passes, seed, masks, batch_size, progress)
    return probabilities(outputs, next(model.parameters()).dtype)


def sample_outputs(model, inputs, passes=20, seed=0, masks="independent", batch_size=250, progress=False):
    """What the network puts out under ``passes`` sampled dropout masks: logits, or numbers for a regression.

    Parameters are those of :func:`sample`.

    Returns
    -------
    array, shape (S, N, K), float64
        Outputs.
    """
    parts = forward_passes(model, inputs, passes, seed, masks, batch_size, progress)
    return np.concatenate([np.stack([output.numpy() for output in part]) for part in parts], axis=1)


def predict(model, inputs, passes=20, seed=0, masks="independent", batch_size=250, progress=False):
    """The averaged prediction of a classifier, with its uncertainties.

    Each pass is added up and forgotten: memory does not grow with ``passes``.
    Parameters are those of :func:`sample`.

    Returns
    -------
    uqhelpers.metrics.Decomposition
    """
    results, precision = [], next(as_network(model).parameters()).dtype
    for part in forward_passes(model, inputs, passes, seed, masks, batch_size, progress):
        accumulator = SampleAccumulator()
        for output in part:
            accumulator.add(probabilities(output, precision))
        results.append(accumulator.result())
    fields = [field.name for field in dataclasses.fields(results[0])]
    return type(results[0])(**{name: _join([getattr(result, name) for result in results]) for name in fields})


def predict_regression(
    model, inputs, noise_std, passes=100, seed=0, masks="independent", batch_size=250, progress=False
):
    """Mean and standard deviations of a regression network's prediction.

    Parameters
    ----------
    model, inputs, passes, seed, masks, batch_size, progress
        As :func:`sample`; the network's outputs are the predicted numbers.
    noise_std : float
        Standard deviation of the observation noise, in the units of the
        target: the dropout of the weights knows nothing of it.

    Returns
    -------
    RegressionPrediction
        Moments, accumulated pass by pass: memory does not grow with ``passes``.

    Raises
    ------
    ValueError
        If ``passes`` is 1, which leaves no spread to measure.

    References
    ----------
    Gal and Ghahramani (2016), section 4, with the precision τ = 1/noise_std².
    """
    noise_std = as_number(noise_std, "noise_std", low=0)
    passes = as_whole(passes, "passes", low=2)
    means, variances = [], []
    for part in forward_passes(model, inputs, passes, seed, masks, batch_size, progress):
        mean, variance = spread(output.numpy() for output in part)
        means.append(mean)
        variances.append(variance)
    variance = np.concatenate(variances)
    return RegressionPrediction(np.concatenate(means), np.sqrt(variance), np.sqrt(variance + noise_std**2))


def _join(values):
    """The field of one batch after the other; what is not an array is the same for all."""
    return np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]
