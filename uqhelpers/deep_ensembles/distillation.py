"""Below ``deep_ensembles``: many networks distilled into one, with or without their diversity."""

import numpy as np
from scipy.special import digamma, gammaln

from uqhelpers import training
from uqhelpers._checks import as_choice, as_distributions, as_number, as_real, as_whole
from uqhelpers._torch import torch
from uqhelpers.metrics import Decomposition

METHODS = ("distribution", "mean")
TEMPERATURE, SMOOTHING = 10.0, 1e-3
LARGEST = 1e10  # concentration whose log gamma leaves a density some digits
LARGEST_LOG = 10.0  # beyond, a Dirichlet is a point, and its likelihood has no end


def dirichlet_nll(concentrations, probs):
    """Average negative log-density of distributions under Dirichlet distributions.

    Parameters
    ----------
    concentrations : array, shape (N, C)
        Above 0 and at most 1e10, one Dirichlet an input.
    probs : array, shape (M, N, C)
        What ``M`` members predict, no probability 0.

    Returns
    -------
    float
        In nats a prediction; a density, so it can be far below 0.

    References
    ----------
    Malinin, Mlodozeniec and Gales (2020), Ensemble distribution distillation,
    section 3.
    """
    alphas = _as_concentrations(concentrations)
    if alphas.max() > LARGEST:
        raise ValueError(
            f"concentrations: expected at most {LARGEST:g}, beyond which log gammas exceed the density's "
            f"digits, got {alphas.max():.4g}"
        )
    probs = as_distributions(probs, "SNC")
    if probs.shape[1:] != alphas.shape:
        raise ValueError(
            f"probs: expected shape (members, {len(alphas)}, {alphas.shape[1]}), got {probs.shape}"
        )
    if probs.min() <= 0:
        raise ValueError("probs: expected probabilities above 0, got 0: smooth them first")
    normaliser = gammaln(alphas).sum(axis=-1) - gammaln(alphas.sum(axis=-1))
    return float((normaliser - ((alphas - 1) * np.log(probs)).sum(axis=-1)).mean())


def dirichlet_decomposition(concentrations):
    """Total, aleatoric and epistemic uncertainty of Dirichlet distributions, in closed form.

    What sampling many predictions from the Dirichlet and decomposing them
    tends to.

    Parameters
    ----------
    concentrations : array, shape (N, C)
        Above 0.

    Returns
    -------
    uqhelpers.metrics.Decomposition
        The mean prediction, and its uncertainties in nats.

    References
    ----------
    Malinin and Gales (2018), Predictive uncertainty estimation via prior
    networks.
    """
    alphas = _as_concentrations(concentrations)
    precision = alphas.sum(axis=1, keepdims=True)
    mean = alphas / precision
    total = -(mean * np.log(mean)).sum(axis=1)
    aleatoric = -(mean * (digamma(alphas + 1) - digamma(precision + 1))).sum(axis=1)
    return Decomposition(mean, total, aleatoric, np.maximum(total - aleatoric, 0.0), mean.max(axis=1))


def _as_concentrations(values):
    alphas = as_real(values, "concentrations", ndim=2)
    if alphas.min() <= 0:
        raise ValueError(f"concentrations: expected values above 0, got {alphas.min():.4g}")
    return alphas


def distill(
    student,
    inputs,
    probs,
    *,
    method="distribution",
    epochs=50,
    temperature=TEMPERATURE,
    smoothing=SMOOTHING,
    batch_size=128,
    learning_rate=1e-3,
    weight_decay=0.0,
    seed=0,
    device=None,
    progress=True,
):
    """Train one network on what the members of an ensemble predict, in place.

    "mean" is plain distillation: cross-entropy with the averaged prediction.
    The student learns how uncertain the ensemble is, not why. "distribution"
    takes the student's outputs for the logarithms of a Dirichlet's
    concentrations, and maximises the likelihood of every member's prediction
    under it: where the members disagree, the Dirichlet is wide.

    Confident members sit in the corners of the simplex, where densities are
    extreme. So predictions are tempered, members' and student's alike, by a
    temperature that stays for a third of the training, falls to 1 in the second
    third, and stays there; and they are mixed with a little of the uniform
    distribution.

    Parameters
    ----------
    student : torch.nn.Module
        As many outputs as classes; it is moved to ``device``.
    inputs : array, shape (N, ...), or iterable of batches
        Inputs, or a ``DataLoader`` that gives them in order; labels are not
        needed. Where members agree everywhere, no diversity can be learned:
        take inputs on which they do not.
    probs : array, shape (M, N, C)
        The members' predictions on them.
    method : {"distribution", "mean"}
        What is kept.
    epochs, batch_size, learning_rate, weight_decay, seed, device, progress
        As for ``training.fit``; Adam.
    temperature : float
        At which "distribution" begins, at least 1; "mean" has none.
    smoothing : float
        In (0, 1): the share of the uniform distribution; "mean" has none.

    Returns
    -------
    uqhelpers.training.History
        Training loss by epoch; for "distribution" its scale moves with the
        temperature.

    References
    ----------
    Malinin, Mlodozeniec and Gales (2020), Ensemble distribution distillation,
    section 3. Hinton, Vinyals and Dean (2015), Distilling the knowledge
    in a neural network.
    """
    probs = as_distributions(probs, "SNC")
    inputs = training.as_inputs(inputs, student)
    if len(inputs) != probs.shape[1]:
        raise ValueError(f"probs: expected predictions for {len(inputs)} inputs, got {probs.shape[1]}")
    as_choice(method, "method", METHODS)
    _refuse_probabilities(student, training.predict_outputs(student, inputs[: training.FEW]))
    epochs, batch_size = as_whole(epochs, "epochs"), as_whole(batch_size, "batch_size")
    temperature = as_number(temperature, "temperature", low=1)
    smoothing = as_number(smoothing, "smoothing", low=0, high=1, open_low=True)
    if smoothing == 1:
        raise ValueError(
            "smoothing: expected a share below 1, got 1, which leaves nothing of the predictions"
        )
    classes = probs.shape[2]
    if method == "mean":
        for name, value, default in (
            ("temperature", temperature, TEMPERATURE),
            ("smoothing", smoothing, SMOOTHING),
        ):
            if value != default:
                raise ValueError(f'{name}: has no effect on the method "mean", got {value}')
        loss, targets = _soft_cross_entropy, probs.mean(axis=0)
    else:
        steps = epochs * -(-len(inputs) // batch_size)
        loss = _TemperedDirichlet(temperature, steps)
        targets = (1 - smoothing) * probs.swapaxes(0, 1) + smoothing / classes
    return training.fit(
        student,
        inputs,
        targets,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        loss=loss,
        seed=seed,
        device=device,
        progress=progress,
    )


def _refuse_probabilities(student, outputs):
    precision = next(student.parameters()).dtype
    if training.are_probabilities(torch.as_tensor(outputs), precision):
        raise ValueError("student: expected logits, got rows that sum to 1: leave the softmax out")


def _soft_cross_entropy(outputs, targets):
    _same_classes(outputs, targets)
    return torch.nn.functional.cross_entropy(outputs, targets)


def _same_classes(outputs, targets):
    if outputs.ndim != 2 or outputs.shape[-1] != targets.shape[-1]:
        raise ValueError(
            f"student: expected {targets.shape[-1]} outputs, one a class, got {tuple(outputs.shape[1:])}"
        )


class _TemperedDirichlet:
    """The negative log-likelihood of predictions (N, M, C), at a temperature that falls step by step."""

    def __init__(self, temperature, steps):
        self.temperature, self.steps, self.taken = temperature, steps, 0

    def __call__(self, outputs, targets):
        _same_classes(outputs, targets)
        fallen = min(max(3 * self.taken / self.steps - 1, 0.0), 1.0)
        temperature = self.temperature + (1 - self.temperature) * fallen
        self.taken += 1
        logs = (targets.log() / temperature).log_softmax(-1)
        alphas = (outputs / temperature).clamp(-LARGEST_LOG, LARGEST_LOG).exp()
        normaliser = alphas.lgamma().sum(-1) - alphas.sum(-1).lgamma()
        return (normaliser - ((alphas - 1)[:, None] * logs).sum(-1).mean(1)).mean()


def concentrations(student, inputs, batch_size=500):
    """The Dirichlet that a distilled network predicts for each input.

    Parameters
    ----------
    student : torch.nn.Module
        Trained by ``distill``; left in the state in which it came.
    inputs : array, shape (N, ...)
    batch_size : int, inputs at a time

    Returns
    -------
    array, shape (N, C), float64
        Concentrations, from exp(-10) to exp(10).
    """
    outputs = training.predict_outputs(student, inputs, batch_size)
    _refuse_probabilities(student, outputs)
    return np.exp(outputs.clip(-LARGEST_LOG, LARGEST_LOG))


def predict_distilled(student, inputs, batch_size=500):
    """Prediction and uncertainties of a network distilled with ``method="distribution"``, in one pass.

    Parameters are those of :func:`concentrations`.

    Returns
    -------
    uqhelpers.metrics.Decomposition
        The mean prediction, and its uncertainties in nats, in closed form.
    """
    return dirichlet_decomposition(concentrations(student, inputs, batch_size))
