"""Accuracy and uncertainty as an attacker's budget grows."""

import copy
import dataclasses

import numpy as np

from uqhelpers._checks import as_labels, as_number, as_own_distributions, as_real
from uqhelpers.metrics import Decomposition, decompose

ANY_CLASS = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True, eq=False)
class Sweep:
    """What a predictor says of attacked inputs, budget by budget.

    Attributes
    ----------
    epsilons : array, shape (E,)
        The budgets.
    predictions : array of int, shape (E, N)
        Most probable class.
    confidence : array, shape (E, N)
        Its probability.
    total, aleatoric, epistemic : array, shape (E, N)
        Uncertainties in nats. Of a predictor without samples all is aleatoric.
    labels : array of int, shape (N,)
        The true classes.
    """

    epsilons: np.ndarray
    predictions: np.ndarray
    confidence: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    labels: np.ndarray

    @property
    def wrong(self):
        """Which answers are wrong, shape (E, N)."""
        return self.predictions != self.labels

    @property
    def accuracy(self):
        """Share of right answers, shape (E,)."""
        return 1 - self.wrong.mean(axis=1)

    def sure_and_wrong(self, confidence=0.9):
        """Share of inputs whose answer is wrong and at least so sure, shape (E,): the red flag."""
        confidence = as_number(confidence, "confidence", low=0, high=1)
        return (self.wrong & (self.confidence >= confidence)).mean(axis=1)


def sweep(attack, predict, inputs, labels, epsilons):
    """Attack the same inputs with one budget after the other, and ask one or several predictors.

    Parameters
    ----------
    attack : callable
        ``attack(inputs, labels, epsilon)`` returns attacked inputs: for example
        ``functools.partial(fgsm, net)``, whose network need not be the one that
        is asked afterwards. It gets a copy, and may write into it.
    predict : callable, or dict of callable
        From inputs to class probabilities, (N, C), or (S, N, C) for ``S`` samples;
        or to a ``metrics.Decomposition``, as ``mc_dropout.predict`` returns it.
    inputs : array, shape (N, ...)
    labels : array of int, shape (N,)
        True classes.
    epsilons : sequence of float
        Budgets, at least 0; at 0 the inputs are left as they are.

    Returns
    -------
    Sweep, or dict of Sweep
        As ``predict`` came.
    """
    budgets = [
        as_number(epsilon, "epsilons", low=0) for epsilon in np.atleast_1d(as_real(epsilons, "epsilons"))
    ]
    labels = as_labels(labels, ANY_CLASS, length=len(inputs)).copy()
    predictors = predict if isinstance(predict, dict) else {"": predict}
    if not predictors or not all(map(callable, (attack, *predictors.values()))):
        raise ValueError("attack, predict: expected functions, and at least one that predicts")
    rows = {name: [] for name in predictors}
    for epsilon in budgets:
        attacked = inputs.clone() if hasattr(inputs, "clone") else copy.deepcopy(inputs)
        if epsilon:
            attacked = attack(attacked, labels.copy(), epsilon)
        for name, predictor in predictors.items():
            rows[name].append(_summary(predictor(attacked), labels))
    found = {
        name: Sweep(np.array(budgets), *(np.stack(column) for column in zip(*row, strict=True)), labels)
        for name, row in rows.items()
    }
    return found if isinstance(predict, dict) else found[""]


def _summary(probs, labels):
    """Answers, their confidence, and the three uncertainties of one prediction."""
    if not isinstance(probs, Decomposition):
        probs = as_own_distributions(probs, ("NC", "SNC"), "predict")
        probs = decompose(probs if probs.ndim == 3 else probs[None])
    if len(probs.mean) != len(labels):
        raise ValueError(f"predict: expected {len(labels)} predictions, one an input, got {len(probs.mean)}")
    as_labels(labels, probs.mean.shape[1])
    return probs.mean.argmax(axis=1), probs.confidence, probs.total, probs.aleatoric, probs.epistemic
