"""What an attacker wants to become large: a number for every input, from the sampled predictions.

Each takes the logarithms of sampled probabilities, shape (S, N, C), and labels,
shape (N,); what is attacked is the *average* of the samples' probabilities.
"""

import math

from uqhelpers._checks import as_choice
from uqhelpers._torch import torch

LOSSES = ("cross_entropy", "margin", "sure_and_wrong", "entropy")


def cross_entropy(log_probs, labels):
    """The log odds against the label, ``log (1 - p) / p``, which rise and fall with ``-log p``.

    So both have the same steepest direction. But a sure network's softmax rounds
    to 1 and the gradient of its cross-entropy to nothing; this one's does not.
    """
    label = labels.expand(len(log_probs), -1)[..., None]
    others = log_probs.scatter(-1, label, -torch.inf)
    return torch.logsumexp(others, dim=(0, 2)) - torch.logsumexp(log_probs.gather(-1, label)[..., 0], dim=0)


def average(log_probs):
    """Logarithms of the averaged probabilities, shape (N, C)."""
    return torch.logsumexp(log_probs, dim=0) - math.log(len(log_probs))


def margin(log_probs, labels):
    """By how much the best other class is ahead, in logarithms of the averaged probabilities."""
    mean = average(log_probs)
    others = mean.scatter(1, labels[:, None], -torch.inf)
    return others.max(dim=1).values - mean.gather(1, labels[:, None])[:, 0]


def sure_and_wrong(log_probs, labels):
    """The log odds of the best wrong class: an answer that is wrong and leaves no doubt."""
    best = average(log_probs).scatter(1, labels[:, None], -torch.inf).argmax(dim=1)
    return -cross_entropy(log_probs, best)


def entropy(log_probs, labels):
    """The entropy of the averaged prediction: doubt, whatever the answer."""
    mean = average(log_probs)
    return -(mean.exp() * mean).sum(dim=1)


def as_gain(loss, targeted):
    """A function of (log_probs, labels, inputs) from a name or a function of the caller's."""
    if callable(loss):
        if targeted:
            raise ValueError("targeted: expected False with a loss of your own, which knows what it wants")
        return loss
    named = {
        "cross_entropy": cross_entropy,
        "margin": margin,
        "sure_and_wrong": sure_and_wrong,
        "entropy": entropy,
    }[as_choice(loss, "loss", LOSSES)]
    if targeted and loss not in ("cross_entropy", "margin"):
        raise ValueError(f"targeted: expected False with the loss {loss!r}, which has no target")
    sign = -1 if targeted else 1
    return lambda log_probs, labels, inputs: sign * named(log_probs, labels)


def checked(gain, part):
    """What a gain put out, if it is one number an input."""
    if not torch.is_tensor(gain) or gain.shape != (len(part),):
        came = tuple(gain.shape) if torch.is_tensor(gain) else type(gain).__name__
        raise ValueError(f"loss: expected one number an input, shape ({len(part)},), got {came}")
    return gain
