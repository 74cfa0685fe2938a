"""How uncertain a prediction is, and of which kind: entropies, mutual information, votes, margins."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_own_distributions, to_numpy
from uqhelpers.metrics._common import blocks, largest, largest_and_where, mean_probabilities

__all__ = [
    "Decomposition",
    "decompose",
    "expected_entropy",
    "from_logits",
    "margin",
    "max_probability",
    "msp_score",
    "mutual_information",
    "predictive_entropy",
    "variation_ratio",
]

SMALLEST = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Decomposition:
    """Total uncertainty of each prediction and its two parts.

    Attributes
    ----------
    mean : array, shape (N, C)
        The averaged prediction: the model average.
    total : array, shape (N,)
        Predictive entropy, in nats, from 0 to ``log C``.
    aleatoric : array, shape (N,)
        Expected entropy, in nats: what every sampled model is unsure about.
    epistemic : array, shape (N,)
        Mutual information, in nats, from 0 to ``log(min(S, C))``: what the
        sampled models disagree about. ``total = aleatoric + epistemic``.
    confidence : array, shape (N,)
        Probability of the predicted class under ``mean``, from ``1 / C`` to 1.
    """

    mean: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    confidence: np.ndarray


def entropy_of_rows(rows):
    """Entropy of checked float64 rows, in nats, with ``0 log 0 = 0`` and no constant inside the log.

    ``log(max(p, tiny))`` is the exact logarithm of every p that is not 0 (or
    below 1e-307), and at p = 0 the factor p makes it vanish. It runs in NumPy's
    vectorised logarithm, several times faster than ``scipy.special.entr``.
    """
    weighted = np.log(np.maximum(rows, SMALLEST))
    weighted *= rows
    # Rows may miss 1 by rounding, so the sum may miss 0 from above; -0.0 becomes 0.0.
    return np.maximum(0.0 - weighted @ np.ones(rows.shape[-1]), 0.0)


def _entropy(probs):
    entropy = np.empty(len(probs))
    for part in blocks(len(probs), probs.shape[1]):
        entropy[part] = entropy_of_rows(probs[part].astype(np.float64, order="C", copy=False))
    return entropy


def predictive_entropy(probs):
    """Entropy of the (averaged) prediction: total uncertainty.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)

    Returns
    -------
    array, shape (N,), in nats
        From 0 (one class certain) to ``log C`` (uniform). ``0 log 0``
        is 0: a one-hot row has exactly no entropy.

    References
    ----------
    Shannon (1948), A mathematical theory of communication, section 6.
    """
    return _entropy(mean_probabilities(probs))


def expected_entropy(probs):
    """Average entropy of the sampled predictions: aleatoric uncertainty.

    Parameters
    ----------
    probs : array, shape (S, N, C)
        Class probabilities of ``S`` sampled models for ``N`` inputs.

    Returns
    -------
    array, shape (N,), in nats, from 0 to ``log C``

    References
    ----------
    Depeweg et al. (2018), Decomposition of uncertainty in Bayesian deep
    learning, section 3.
    """
    return decompose(probs).aleatoric


def mutual_information(probs):
    """Mutual information between the label and the model: epistemic uncertainty.

    The entropy of the averaged prediction minus the average entropy of the
    predictions: how much the sampled models disagree. It is clamped at 0 for
    each input, because rounding alone can leave the difference just below. From
    few independent samples it comes out too low on average (Jensen).

    Parameters
    ----------
    probs : as in ``expected_entropy``

    Returns
    -------
    array, shape (N,), in nats
        From 0 (all models agree) to ``log(min(S, C))``.

    References
    ----------
    Houlsby et al. (2011), Bayesian active learning for classification and
    preference learning, eq. 2.
    """
    return decompose(probs).epistemic


def decompose(probs):
    """Total, aleatoric and epistemic uncertainty of sampled predictions, in one pass.

    Parameters
    ----------
    probs : array, shape (S, N, C)

    Returns
    -------
    Decomposition
        The averaged prediction, its ``total`` entropy, the ``aleatoric`` part
        (expected entropy), the ``epistemic`` part (mutual information) and the
        ``confidence``; entropies in nats.

    References
    ----------
    Depeweg et al. (2018), Decomposition of uncertainty in Bayesian deep
    learning, section 3; Houlsby et al. (2011), Bayesian active learning for
    classification and preference learning, eq. 2.
    """
    probs = as_own_distributions(probs, "SNC")
    samples, inputs, classes = probs.shape
    mean = np.empty((inputs, classes))
    total, aleatoric = np.empty(inputs), np.empty(inputs)
    for part in blocks(inputs, samples * classes):
        block = probs[:, part].astype(np.float64, order="C")
        block.mean(axis=0, out=mean[part])
        total[part] = entropy_of_rows(mean[part])
        aleatoric[part] = entropy_of_rows(block).mean(axis=0)
    return Decomposition(mean, total, aleatoric, np.maximum(total - aleatoric, 0.0), largest(mean))


def variation_ratio(probs):
    """Share of the sampled predictions that vote against the class with most votes.

    A sample whose largest probability is shared by several classes votes for
    the first of them. When several classes share most votes, it does not
    matter which is called the modal one: the share is the same.

    Parameters
    ----------
    probs : as in ``expected_entropy``

    Returns
    -------
    array, shape (N,)
        From 0 (one class has all votes) to ``1 - 1 / min(S, C)``.

    References
    ----------
    Freeman (1965), Elementary applied statistics; Gal (2016), Uncertainty in
    deep learning, section 3.3.1.
    """
    probs = as_own_distributions(probs, "SNC")
    votes = np.zeros(probs.shape[1:], np.int32)
    for sample in probs:
        add_votes(votes, sample)
    return 1.0 - votes.max(axis=1) / len(probs)


def add_votes(votes, sample):
    """Count, in place, one more vote for the predicted class of each input."""
    _, predicted = largest_and_where(sample)
    votes.reshape(-1)[predicted + np.arange(len(votes)) * votes.shape[1]] += 1


def max_probability(probs):
    """Confidence: the probability of the predicted class.

    Parameters
    ----------
    probs : as in ``predictive_entropy``

    Returns
    -------
    array, shape (N,), from ``1 / C`` to 1
        Higher is *less* uncertain (see ``msp_score``).

    References
    ----------
    Hendrycks and Gimpel (2017), A baseline for detecting misclassified and
    out-of-distribution examples in neural networks.
    """
    return largest(mean_probabilities(probs)).astype(np.float64, copy=False)


def msp_score(probs):
    """Uncertainty by maximum softmax probability, ``-max p``: higher is more uncertain.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)

    Returns
    -------
    array, shape (N,), from -1 (certain) to ``-1 / C`` (uniform)

    References
    ----------
    Hendrycks and Gimpel (2017), as for ``max_probability``.
    """
    return -max_probability(probs)


def margin(probs):
    """Probability of the first class minus that of the second.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C), of at least two classes

    Returns
    -------
    array, shape (N,), from 0 (two classes tie) to 1
        Higher is *less* uncertain.

    References
    ----------
    Scheffer, Decomain and Wrobel (2001), Active hidden Markov models for
    information extraction, section 4.
    """
    mean = mean_probabilities(probs).astype(np.float64, copy=False)
    if mean.shape[1] < 2:
        raise ValueError(f"probs: expected at least two classes, got shape {np.shape(probs)}")
    top = np.partition(mean, mean.shape[1] - 2, axis=1)
    return top[:, -1] - top[:, -2]


def from_logits(logits):
    """Class probabilities from logits or log-probabilities: the softmax over the last axis.

    Parameters
    ----------
    logits : array, shape (..., C)
        Logits, or log-probabilities, which are logits too. Minus infinity is a
        class of probability 0.

    Returns
    -------
    array, same shape, float64
        Probabilities; each row sums to 1.

    Raises
    ------
    ValueError
        If a row holds minus infinity only.
    """
    logits = to_numpy(logits, "logits").astype(np.float64, copy=False)
    if logits.ndim == 0 or logits.size == 0:
        raise ValueError(f"logits: expected shape (..., classes), not empty, got {logits.shape}")
    top = logits.max(axis=-1, keepdims=True)
    if not np.isfinite(top).all():  # NaN spreads through max
        raise ValueError("logits: expected numbers below infinity, one of them finite in each row, no NaN")
    with np.errstate(over="ignore"):  # beyond the largest float is minus infinity, whose power is 0
        powers = np.exp(logits - top)
    return powers / powers.sum(axis=-1, keepdims=True)
