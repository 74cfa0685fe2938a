"""Expected information gain: exact on a grid of hypotheses, and about what will be asked (EPIG)."""

import numpy as np

from uqhelpers._checks import as_distributions, as_real
from uqhelpers.metrics import predictive_entropy

__all__ = ["epig", "expected_information_gain"]

BLOCK = 1 << 20  # numbers at a time
SMALLEST = np.finfo(np.float64).tiny


def expected_information_gain(prior, likelihood):
    """How much a label is expected to teach about the hypotheses: H[Θ] − E H[Θ | y].

    Exact, by Bayes' rule for each label that may come.

    Parameters
    ----------
    prior : array, shape (T,)
        Probability of each hypothesis now (the posterior of the data so far).
    likelihood : array, shape (T, N, C)
        The probability that each hypothesis gives each label of each input.

    Returns
    -------
    array, shape (N,), float64
        In nats, from 0 to ``log min(T, C)``.

    Raises
    ------
    ValueError
        If either is no distribution, or the lengths differ.

    References
    ----------
    Lindley (1956), On a measure of the information provided by an experiment;
    MacKay (1992), Information-based objective functions for active data
    selection.
    """
    likelihood = as_distributions(likelihood, "SNC", "likelihood")
    prior = as_real(prior, "prior", ndim=1)
    if len(prior) != len(likelihood):
        raise ValueError(f"prior: expected {len(likelihood)} hypotheses, got {len(prior)}")
    prior = as_distributions(prior[None], "NC", "prior")[0]
    before = _entropy(prior, 0)
    gain = np.empty(likelihood.shape[1])
    step = max(1, BLOCK // (len(prior) * likelihood.shape[2]))
    for start in range(0, len(gain), step):
        joint = prior[:, None, None] * likelihood[:, start : start + step]
        chance = joint.sum(axis=0)  # of each label
        after = joint / np.where(chance > 0, chance, 1)  # the posterior, for each label that may come
        gain[start : start + step] = before - np.sum(chance * _entropy(after, 0), axis=1)
    return np.maximum(gain, 0.0)


def epig(probs, targets):
    """Expected information about *predictions*: what a label would tell about the labels of the targets.

    Information about the network (BALD) that no target asks for counts nothing
    here. For each target EPIG is at most BALD: the label of a target knows of
    the network no more than the network does.

    Parameters
    ----------
    probs : array, shape (S, N, C)
        Class probabilities of ``S`` sampled networks for the candidates.
    targets : array, shape (S, T, C)
        The same networks' probabilities for inputs like those that will be asked.

    Returns
    -------
    array, shape (N,), float64
        Mutual information between the candidate's label and a target's,
        averaged over targets, in nats.

    Raises
    ------
    ValueError
        If either holds no distributions, or samples or classes differ in number.

    References
    ----------
    Bickford Smith, Kirsch, Farquhar, Gal, Foster and Rainforth (2023),
    Prediction-oriented Bayesian active learning.
    """
    probs = as_distributions(probs, "SNC")
    targets = as_distributions(targets, "SNC", "targets")
    samples, inputs, classes = probs.shape
    if (len(targets), targets.shape[2]) != (samples, classes):
        raise ValueError(
            f"targets: expected shape ({samples}, T, {classes}), of the same samples, got {targets.shape}"
        )
    asked = targets.reshape(samples, -1) / samples
    own = predictive_entropy(probs)
    theirs = predictive_entropy(targets).mean()
    joint = np.empty(inputs)
    step = max(1, BLOCK // (asked.shape[1] * classes))
    for start in range(0, inputs, step):
        part = probs[:, start : start + step].reshape(samples, -1)
        together = (part.T @ asked).reshape(-1, classes * asked.shape[1])
        joint[start : start + step] = _entropy(together, 1) / targets.shape[1]
    return np.maximum(own + theirs - joint, 0.0)


def _entropy(p, axis):
    return -np.sum(p * np.log(np.maximum(p, SMALLEST)), axis=axis)
