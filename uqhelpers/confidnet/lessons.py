"""What a confidence network learns: the probability that a classifier gives to the true class."""

import numpy as np

from uqhelpers._checks import as_distributions, as_labels

__all__ = ["confidence_loss", "true_class_probability"]


def true_class_probability(probs, labels):
    """The probability that a classifier gives to the class that is right.

    Parameters
    ----------
    probs : array, shape (N, C)
        Class probabilities.
    labels : array of int, shape (N,)
        The true classes.

    Returns
    -------
    array, shape (N,), float64
        In [0, 1]. Above 1/2 the answer is certainly right, below 1/C certainly
        wrong; between the two it may be either. Equal to the maximum class
        probability where the answer is right.

    References
    ----------
    Corbière et al. (2019), Addressing failure prediction by learning model
    confidence, section 2.2.
    """
    probs = as_distributions(probs, "NC")
    labels = as_labels(labels, probs.shape[1], length=len(probs))
    return np.take_along_axis(probs, labels[:, None], axis=1)[:, 0]


def confidence_loss(logits, targets, weights=None):
    """Mean squared distance of a predicted confidence from the true class probability.

    Parameters
    ----------
    logits : torch.Tensor, shape (N,) or (N, 1)
        What the confidence network puts out; its sigmoid is the confidence.
    targets : torch.Tensor, shape (N,)
        True class probabilities, in [0, 1].
    weights : torch.Tensor, shape (N,), optional
        Of each input, at least 0; they are not normalised.

    Returns
    -------
    torch.Tensor
        A number.

    References
    ----------
    Corbière et al. (2019), eq. 4.
    """
    for name, values, high in (("targets", targets, 1 + 1e-3), ("weights", weights, np.inf)):
        if values is None:
            continue
        if values.numel() != logits.numel():
            raise ValueError(f"{name}: expected {logits.numel()} values, got shape {tuple(values.shape)}")
        if values.numel() and not ((values >= 0) & (values <= high)).all():  # false for NaN
            raise ValueError(f"{name}: expected numbers from 0 to {high:.3g}, got others")
    squares = (logits.reshape(-1).sigmoid() - targets.reshape(-1)) ** 2
    return squares.mean() if weights is None else (weights.reshape(-1) * squares).mean()
