"""Entropies over what answers mean."""

import numpy as np
from scipy.special import logsumexp

from uqhelpers import metrics
from uqhelpers._checks import as_choice, as_labels, as_own_real, as_scores, as_whole, to_numpy

__all__ = ["clusters_of", "meaning_probs", "predictive_split", "semantic_entropy"]

KINDS = ("discrete", "weighted", "exact")


def _as_log_probs(log_probs, name="log_probs", shape=None):
    """Logarithms of probabilities: at most 0 but for rounding, minus infinity allowed."""
    array = to_numpy(log_probs, name)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name}: expected log probabilities, got shape {array.shape}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
    array = as_scores(array.reshape(-1), name).reshape(array.shape)
    if array.max() > 1e-6:
        raise ValueError(
            f"{name}: expected log probabilities, at most 0, got {array.max():.4g}: are these probabilities?"
        )
    return array


def clusters_of(answers, same):
    """Put answers that mean the same together: each joins the first group whose first answer it agrees with.

    Parameters
    ----------
    answers : sequence, length S
        Anything that ``same`` can compare: texts, tokens.
    same : callable
        ``same(one, other)`` says whether two answers mean the same, such as a
        model of entailment asked in both directions.

    Returns
    -------
    array, shape (S,), int64
        The group of each answer, numbered in the order of appearance.

    References
    ----------
    Kuhn, Gal and Farquhar (2023), Semantic uncertainty, algorithm 1.
    """
    if not callable(same):
        raise ValueError(f"same: expected a function of two answers, got {type(same).__name__}")
    first, groups = [], []
    for answer in answers:
        found = next((k for k, other in enumerate(first) if same(other, answer)), len(first))
        first += [answer] if found == len(first) else []
        groups.append(found)
    return np.array(groups, np.int64)


def meaning_probs(log_probs, meanings):
    """Probabilities of meanings, from those of all their wordings; what is left is a meaning of its own.

    Parameters
    ----------
    log_probs : array, shape (..., A), float
        Log probabilities of A different answers, in nats.
    meanings : array, shape (A,), int
        What each means, 0 to M - 1.

    Returns
    -------
    array, shape (..., M + 1), float64
        The last is the probability of any other answer.

    Raises
    ------
    ValueError
        If the probabilities sum to more than 1: some answer is there twice.
    """
    slack = 1e-2 if to_numpy(log_probs, "log_probs").dtype == np.float16 else 1e-4  # sums of rounded ones
    log_probs = _as_log_probs(log_probs)
    meanings = as_labels(meanings, np.iinfo(np.int64).max, "meanings", log_probs.shape[-1])
    total = np.exp(logsumexp(log_probs, axis=-1))
    if total.max() > 1 + slack:
        raise ValueError(
            f"log_probs: expected probabilities of different answers, got a sum of {total.max():.4g}: "
            "is an answer there twice?"
        )
    summed = np.zeros((*log_probs.shape[:-1], meanings.max() + 2))
    np.add.at(np.moveaxis(summed, -1, 0), meanings, np.moveaxis(np.exp(log_probs), -1, 0))
    summed /= np.maximum(total, 1)[..., None]  # rounding in lower precision
    summed[..., -1] = np.maximum(1 - summed[..., :-1].sum(axis=-1), 0)
    return summed


def predictive_split(log_probs, meanings):
    """What an ensemble is unsure about, over meanings: its members' doubt, and their disagreement.

    Parameters
    ----------
    log_probs : array, shape (S, N, A), float
        Of S models, N prompts and A different answers, in nats.
    meanings : array, shape (A,), int
        What each answer means.

    Returns
    -------
    uqhelpers.metrics.Decomposition
        Total, aleatoric and epistemic semantic entropy, in nats. A member that
        answers otherwise counts as one more meaning.

    References
    ----------
    Malinin and Gales (2021), Uncertainty estimation in autoregressive structured
    prediction, section 3, there without meanings.
    """
    log_probs = _as_log_probs(log_probs)
    if log_probs.ndim != 3:
        raise ValueError(f"log_probs: expected shape (models, prompts, answers), got {log_probs.shape}")
    return metrics.decompose(meaning_probs(log_probs, meanings))


def semantic_entropy(answers, meaning, log_probs=None, *, kind="discrete", end=None):
    """Entropy over meanings: wordings of one meaning are counted together.

    Parameters
    ----------
    answers : array, shape (N, S, T), int, or sequence of N sequences of S texts
        Answers to each of N prompts.
    meaning : array, shape (N, S), int, or callable
        The group of each answer; or a function of two answers of one prompt
        that says whether they mean the same (:func:`clusters_of`).
    log_probs : array, shape (N, S), float, optional
        Of the answers, in nats; for all kinds but the first. One text has one:
        where texts are decoded from tokens in several ways, give the tokens.
    kind : {"discrete", "weighted", "exact"}
        From how often each meaning was drawn; from the probabilities of the
        answers that were drawn, each *different* one counted once, scaled to
        sum to 1; or from those of all answers, each there once, what is missing
        to 1 being a meaning of its own.
    end : int, optional
        For tokens: the one with which an answer ends. What stands behind the first
        is no part of the answer, so two that differ there alone are the same.

    Returns
    -------
    array, shape (N,), float64
        In nats, at most ``log S`` (``log(S + 1)`` if exact). From samples it is
        too low on average: by about ``(M - 1) / (2 S)`` for M meanings, if discrete.

    References
    ----------
    Kuhn, Gal and Farquhar (2023), Semantic uncertainty; Farquhar et al. (2024),
    Detecting hallucinations in large language models using semantic entropy.
    """
    as_choice(kind, "kind", KINDS)
    answers = _as_answers(answers, end)
    shape = len(answers), len(answers[0])
    groups = _as_groups(answers, meaning, shape)
    if kind == "discrete":
        if log_probs is not None:
            raise ValueError("log_probs: expected none, as the discrete kind counts")
        return np.array([_entropy(np.bincount(row) / shape[1]) for row in groups])
    if log_probs is None:
        raise ValueError(f"log_probs: expected those of the answers, as kind is {kind!r}")
    log_probs = _as_log_probs(log_probs, shape=shape)
    found = []
    for texts, row, logs in zip(answers, groups, log_probs, strict=True):
        _, once, text = np.unique(np.array(texts), axis=0, return_index=True, return_inverse=True)
        if (row != row[once][text.reshape(-1)]).any():
            raise ValueError("meaning: expected one group for each text, got a text in two of them")
        _check_one_each(logs, logs[once][text.reshape(-1)])
        if kind == "exact":
            if len(once) < len(texts):
                raise ValueError("answers: expected each answer once, as kind is 'exact'")
            found.append(_entropy(meaning_probs(logs, row)))
        else:
            if not np.isfinite(logs[once]).any():
                raise ValueError("log_probs: expected an answer that is possible for each prompt")
            shares = np.exp(logs[once] - logsumexp(logs[once]))
            found.append(_entropy(np.bincount(row[once], shares)))
    return np.array(found)


def _check_one_each(logs, first):
    """One text has one log probability, but for rounding, which is coarse in half precision."""
    apart = ~np.isclose(logs, first, rtol=0.01, atol=0.01)
    if apart.any():
        got = f"{first[apart][0]:.4g} and {logs[apart][0]:.4g}"
        raise ValueError(f"log_probs: expected one for each text, got {got} for the same: are tokens lost?")


def _entropy(shares):
    shares = shares[shares > 0]
    return max(0.0, -float((shares * np.log(shares)).sum()))


def _as_answers(answers, end):
    """A token array with three axes, filled up with the end behind it, or lists of texts of one length."""
    try:
        texts = isinstance(answers[0][0], str)
    except (TypeError, IndexError, KeyError):
        texts = False
    if texts:
        rows = [list(row) for row in answers]
        if len({len(row) for row in rows}) > 1 or not all(isinstance(t, str) for row in rows for t in row):
            raise ValueError("answers: expected as many texts for each prompt")
        if end is not None:
            raise ValueError("end: expected none, as the answers are texts, not tokens")
        return rows
    array = to_numpy(answers, "answers")
    if array.ndim != 3 or array.size == 0:
        raise ValueError(f"answers: expected shape (prompts, answers, tokens) or texts, got {array.shape}")
    if not (np.isfinite(array).all() and np.array_equal(np.round(array), array)):
        raise ValueError(f"answers: expected tokens, whole numbers, got others of type {array.dtype}")
    if end is None:
        return array
    ended = np.cumsum(array == as_whole(end, "end", low=0), axis=-1) > 0
    return np.where(ended, end, array)


def _as_groups(answers, meaning, shape):
    if callable(meaning):
        return np.stack([clusters_of(row, meaning) for row in answers])
    groups = as_own_real(meaning, "meaning", 2)
    if groups.shape != shape:
        raise ValueError(f"meaning: expected shape {shape}, one an answer, got {groups.shape}")
    if not np.array_equal(groups, np.round(groups)):
        raise ValueError("meaning: expected whole numbers")
    _, groups = np.unique(groups, return_inverse=True)
    return groups.reshape(shape)
