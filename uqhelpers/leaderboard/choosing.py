"""The one rule by which settings are chosen: the validation set, and one stand-in for what is strange."""

import numpy as np

from uqhelpers import metrics
from uqhelpers.leaderboard import networks

__all__ = ["chosen", "finds_errors", "finds_strange", "log_loss", "stand_in"]


def chosen(settings, loss):
    """The setting of the least loss; of equal ones the first.

    Parameters
    ----------
    settings : iterable
    loss : callable
        Of a setting, lower is better.

    Returns
    -------
    One of ``settings``.
    """
    settings = list(settings)
    return settings[int(np.argmin([loss(setting) for setting in settings]))]


def log_loss(probs, validation):
    """By what probabilities are chosen: the log loss on the validation set."""
    probs = np.maximum(probs, 1e-12)
    return metrics.negative_log_likelihood(probs / probs.sum(axis=1, keepdims=True), validation.labels)


def finds_errors(score, net, validation):
    """By what a ranking of errors is chosen: its AUGRC on the validation set."""
    wrong = networks.probabilities(net, validation.images).argmax(axis=1) != validation.labels
    return metrics.augrc(score(validation.images), wrong)


def stand_in(validation):
    """The strange inputs that settings may be chosen by: validation images, black for white."""
    return 1 - validation.images


def finds_strange(score, validation):
    """By what a detector is chosen: minus its AUROC for the stand-in."""
    known, strange = score(validation.images), score(stand_in(validation))
    return -metrics.auroc(np.concatenate([known, strange]), np.repeat([False, True], len(known)))
