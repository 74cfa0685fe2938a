"""How good predicted class probabilities are: accuracy and proper scoring rules."""

import numpy as np

from uqhelpers._checks import as_labels
from uqhelpers.metrics._common import confidence_and_correct, mean_probabilities

__all__ = ["accuracy", "brier_score", "negative_log_likelihood"]


def accuracy(probs, labels):
    """Share of the inputs whose predicted class is the label.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
        Class probabilities. Sampled ones are averaged over ``S`` first. When
        several classes share the largest probability, the first is predicted.
    labels : array of int, shape (N,), from 0 to C - 1

    Returns
    -------
    float from 0 to 1
    """
    return float(confidence_and_correct(probs, labels)[1].mean())


def negative_log_likelihood(probs, labels):
    """Average of ``-log p(label)``: the logarithmic score, lower is better.

    A label that was given probability 0 costs infinity, and so does the
    average: the forecast said *impossible*, and it happened. Nothing is added
    inside the logarithm to hide that.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
    labels : array of int, shape (N,), from 0 to C - 1

    Returns
    -------
    float from 0 to infinity, in nats an input

    References
    ----------
    Good (1952), Rational decisions; Gneiting and Raftery (2007), Strictly
    proper scoring rules, prediction, and estimation, example 3.
    """
    mean = mean_probabilities(probs)
    labels = as_labels(labels, mean.shape[1], length=len(mean))
    given = mean[np.arange(len(mean)), labels].astype(np.float64)
    if not given.all():
        return float("inf")
    return float(0.0 - np.log(given).mean())


def brier_score(probs, labels):
    """Average squared distance between the prediction and the one-hot label, lower is better.

    The sum over the classes, as Brier defined it: for two classes it is twice
    the binary score of some libraries.

    Parameters
    ----------
    probs, labels : as in ``negative_log_likelihood``

    Returns
    -------
    float from 0 to 2, for it sums over the classes

    References
    ----------
    Brier (1950), Verification of forecasts expressed in terms of probability, eq. 2.
    """
    mean = mean_probabilities(probs).astype(np.float64)
    labels = as_labels(labels, mean.shape[1], length=len(mean))
    mean[np.arange(len(mean)), labels] -= 1.0  # ``astype`` made a copy
    return float(np.square(mean).sum() / len(mean))
