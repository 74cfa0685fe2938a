"""What a method answers: probabilities, and as many kinds of doubt as it tells apart."""

import dataclasses

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_distributions, as_scores

__all__ = ["Answer", "as_answer"]

PARTS = ("doubt", "strangeness", "aleatoric", "epistemic")


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """What a method says of ``N`` inputs.

    Parameters
    ----------
    probs : array, shape (N, C)
        Class probabilities.
    doubt : array, shape (N,), optional
        By which errors are looked for: higher is more doubtful. Minus the
        largest probability, if there is none.
    strangeness : array, shape (N,), optional
        By which strange inputs are looked for. The epistemic part if there is
        one, else the doubt.
    aleatoric, epistemic : array, shape (N,), optional
        Uncertainty that more data would leave, and that it would remove, if
        the method tells them apart. Without an aleatoric part the entropy of
        ``probs`` stands for it in the column of the blends.
    members : int, optional
        How many sampled models were averaged: their disagreement is at most
        the logarithm of it.
    """

    probs: np.ndarray
    doubt: np.ndarray | None = None
    strangeness: np.ndarray | None = None
    aleatoric: np.ndarray | None = None
    epistemic: np.ndarray | None = None
    members: int | None = None

    def __getitem__(self, rows):
        """The answer for some of the inputs."""
        parts = {name: getattr(self, name) for name in ("probs", *PARTS)}
        return Answer(
            **{name: part if part is None else part[rows] for name, part in parts.items()},
            members=self.members,
        )

    @property
    def total(self):
        """Entropy of the class probabilities, in nats."""
        return metrics.predictive_entropy(self.probs)

    @property
    def splits(self):
        """Whether the method tells two kinds of uncertainty apart."""
        return self.aleatoric is not None and self.epistemic is not None


def as_answer(answer, inputs, classes, method="predict"):
    """Check what a method's ``predict`` returned, and complete it.

    Parameters
    ----------
    answer : array or Answer
        Class probabilities, shape (N, C); those of ``S`` sampled models, shape
        (S, N, C), which are decomposed; or an :class:`Answer`.
    inputs : int
        How many inputs there were, ``N``.
    classes : int
    method : str
        The name by which it is refused.

    Returns
    -------
    Answer
        With ``doubt`` and ``strangeness``.

    Raises
    ------
    ValueError
        If rows are missing or sum to anything but 1, or a score has another
        length or is NaN. The method is named.
    """
    if not isinstance(answer, Answer):
        answer = _from_array(answer, method)
    probs = as_distributions(answer.probs, "NC", f"{method}: probs")
    if probs.shape != (inputs, classes):
        raise ValueError(f"{method}: probs: expected shape ({inputs}, {classes}), got {probs.shape}")
    scores = {
        name: None if score is None else as_scores(score, f"{method}: {name}", inputs)
        for name in PARTS
        for score in [getattr(answer, name)]
    }
    if scores["doubt"] is None:
        scores["doubt"] = metrics.msp_score(probs)
    if scores["strangeness"] is None:
        scores["strangeness"] = scores["doubt"] if scores["epistemic"] is None else scores["epistemic"]
    return Answer(probs, **scores, members=answer.members)


def _from_array(array, method):
    probs = as_distributions(array, ("NC", "SNC"), f"{method}: probs")
    if probs.ndim == 2:
        return Answer(probs)
    parts = metrics.decompose(probs)
    return Answer(parts.mean, aleatoric=parts.aleatoric, epistemic=parts.epistemic, members=len(probs))
