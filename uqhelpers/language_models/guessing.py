"""How much was never told, and when an answer pays."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_labels, as_number, as_own_scores, as_whole

__all__ = ["AbstentionPolicy", "GoodTuring", "abstention_policy", "good_turing"]


@dataclass(frozen=True)
class GoodTuring:
    """What is estimated of the unseen, from how often each thing was seen.

    Attributes
    ----------
    lines : int
        Length of the text, N.
    singletons : int
        How many things are told exactly once.
    missing : float
        The estimated share of what will be asked that was never told: the
        singletons' share of the lines.
    """

    lines: int
    singletons: int
    missing: float

    def invention(self, answers):
        """The error rate of a model that knows all that was told and guesses among K answers otherwise.

        Parameters
        ----------
        answers : int
            K, all as likely to be right.

        Returns
        -------
        float
        """
        return (1 - 1 / as_whole(answers, "answers")) * self.missing

    def bound(self, answers, miscalibration=0.0):
        """A published bound that errors do not fall below, with a probability of at least .99.

        Parameters
        ----------
        answers : int
            K, at least 2.
        miscalibration : float
            From 0 to 1, as defined there.

        Returns
        -------
        float
            Below 0 it says nothing.

        References
        ----------
        Kalai, Nachum, Vempala and Zhang (2025), Why language models
        hallucinate, theorem 2, with K - 1 wrong answers to each question.
        """
        wrong = as_whole(answers, "answers", low=2) - 1
        slack = (35 + 6 * np.log(self.lines)) / np.sqrt(self.lines)
        missed = as_number(miscalibration, "miscalibration", low=0, high=1)
        return float(self.missing - 2 / wrong - slack - missed)


def good_turing(counts):
    """How much of what will be asked was never told, by the singletons.

    For any law of the lines, the chance that the next one is about something
    new is, averaged over texts of N lines, exactly the expected share of
    singletons in a text of N + 1 lines.

    Parameters
    ----------
    counts : array, shape (P,), int
        How often each thing was told; zeros may be there or be left out.

    Returns
    -------
    GoodTuring

    References
    ----------
    Good (1953), The population frequencies of species and the estimation of
    population parameters.
    """
    counts = as_labels(counts, np.iinfo(np.int64).max, "counts")
    lines = int(counts.sum())
    if lines == 0:
        raise ValueError("counts: expected at least one line, got none")
    singletons = int((counts == 1).sum())
    return GoodTuring(lines, singletons, singletons / lines)


@dataclass(frozen=True)
class AbstentionPolicy:
    """When to answer.

    Attributes
    ----------
    threshold : float
        The confidence above which an answer pays, in the precision of the confidences;
        at or below it, silence does. Below 0
        where even a wrong answer beats silence.
    answer : array, shape (N,), bool
    expected : array, shape (N,), float64
        Points, if the confidence is the chance of being right.
    """

    threshold: float
    answer: np.ndarray
    expected: np.ndarray


def abstention_policy(confidence, *, right=1.0, wrong=0.0, silent=0.0):
    """Answer where an answer is worth more than silence.

    Parameters
    ----------
    confidence : array, shape (N,), float
        The chance of each answer of being right, from 0 to 1.
    right, wrong, silent : float
        Points for each outcome; ``right`` is the most. With the defaults silence
        never pays: a guess that can be right is worth more.

    Returns
    -------
    AbstentionPolicy

    References
    ----------
    Chow (1970), On optimum recognition error and reject tradeoff.
    """
    confidence = as_own_scores(confidence, "confidence")
    if confidence.min() < 0 or confidence.max() > 1:
        raise ValueError(
            f"confidence: expected numbers in [0, 1], got {confidence.min():.4g} to {confidence.max():.4g}"
        )
    right, wrong = as_number(right, "right"), as_number(wrong, "wrong")
    silent = as_number(silent, "silent")
    if not right > max(wrong, silent):
        raise ValueError(f"right: expected more points than for wrong or silent, got {right}")
    threshold = (silent - wrong) / (right - wrong)
    worth = wrong + (right - wrong) * confidence.astype(np.float64)
    answer = worth > silent
    if confidence.dtype != np.float64:  # .6 in float32 lies above .6: the threshold has to be it, too
        with np.errstate(over="ignore"):  # beyond the largest float16 is infinity, on the right side
            answer = confidence > confidence.dtype.type(threshold)
    return AbstentionPolicy(threshold, answer, np.where(answer, worth, silent))
