"""Sets of classes: scores of a class under a prediction, and a classifier that turns them into sets."""

import numpy as np

from uqhelpers._checks import (
    as_choice,
    as_distributions,
    as_generator,
    as_labels,
    as_number,
    as_own_distributions,
    as_switch,
    as_whole,
    to_numpy,
)
from uqhelpers.batches import gather
from uqhelpers.conformal.ranks import as_level, as_weights, quantile
from uqhelpers.metrics._common import alike, blocks

__all__ = ["SplitClassifier", "adaptive_scores", "lac_scores"]

PENALTY, FREE = 0.01, 5  # of RAPS, unless told


def lac_scores(probs):
    """One minus the probability, of every class: the score of least ambiguous sets.

    Parameters
    ----------
    probs : array, shape (N, C)
        Class probabilities.

    Returns
    -------
    array, shape (N, C), float64
        In [0, 1].

    References
    ----------
    Sadinle, Lei and Wasserman (2019), Least ambiguous set-valued classifiers
    with bounded error levels.
    """
    return 1 - as_distributions(probs, "NC")


def adaptive_scores(probs, u=None, penalty=0.0, free=0):
    """The probability down to a class, in descending order, of every class: APS, and RAPS with a penalty.

    Parameters
    ----------
    probs : array, shape (N, C)
        Class probabilities. Of equally probable classes the first comes first.
    u : array, shape (N,), optional
        Uniform numbers in [0, 1], one an input: how much of a class's own
        probability counts. By default all of it.
    penalty : float
        Added for each class down the order beyond the first ``free``: the
        regularisation of RAPS. Classes are counted from 1.
    free : int
        How many classes carry no penalty.

    Returns
    -------
    array, shape (N, C), float64
        In [0, 1 + penalty (C - free)].

    References
    ----------
    Romano, Sesia and Candès (2020), Classification with valid and adaptive
    coverage; Angelopoulos et al. (2021), Uncertainty sets for image classifiers
    using conformal prediction.
    """
    probs = as_distributions(probs, "NC")
    penalty = as_number(penalty, "penalty", low=0)
    free = as_whole(free, "free", low=0)
    if u is not None:
        u = _as_uniform(u, len(probs))
    order = np.argsort(-probs, axis=1, kind="stable")
    scores = np.empty(probs.shape)
    down = _down(np.take_along_axis(probs, order, axis=1).T, u, penalty, free)
    for i, column in enumerate(down):
        scores[np.arange(len(probs)), order[:, i]] = column
    return scores


def _down(ranked, u, penalty, free):
    """The adaptive score at each place of the order, place by place; ``ranked`` is (C, N), descending."""
    total = np.zeros(ranked.shape[1])
    for place, p in enumerate(ranked):
        score = total + (p if u is None else u * p)
        yield score + penalty * (place + 1 - free) if place + 1 > free and penalty else score
        total += p


def _as_uniform(u, length):
    u = to_numpy(u, "u").astype(np.float64, copy=False)
    if u.shape != (length,) or not ((u >= 0) & (u <= 1)).all():
        raise ValueError(f"u: expected {length} numbers in [0, 1], one an input, got shape {u.shape}")
    return u


class SplitClassifier:
    """Sets of classes that hold the true one with probability at least 1 - alpha.

    The promise is for an exchangeable new input, on average over calibration
    sets and inputs; see ``coverage_law`` for what one calibration set may do.

    Parameters
    ----------
    score : str
        ``"lac"`` (one threshold on the probability: the smallest sets on
        average), ``"aps"`` (classes in descending order until their probability
        is enough: sets that grow with difficulty) or ``"raps"`` (the same with a
        penalty on long sets).
    alpha : float
        Accepted rate of misses, in [0, 1].
    seed : int or numpy.random.Generator, optional
        Randomise adaptive scores, at calibration and at prediction *alike*: sure
        predictions no longer all score their own probability, and sets get
        smaller. Each call of ``fit`` and ``predict`` draws anew. By default
        nothing is random.
    by : str, optional
        ``"class"`` or ``"group"``: a threshold of its own for each class, or for
        each group of inputs (Mondrian). The promise then holds in each of them.
    penalty, free : float, int
        Of RAPS alone; see ``adaptive_scores``.
    never_empty : bool
        Add the most probable class to an empty set. Coverage can only rise.

    Attributes
    ----------
    threshold_ : float, or dict by class or group
        The largest score that is let in.
    """

    def __init__(
        self, score="lac", alpha=0.1, seed=None, by=None, penalty=PENALTY, free=FREE, never_empty=False
    ):
        self.score = as_choice(score, "score", ("lac", "aps", "raps"))
        as_level(alpha)
        self.alpha = alpha
        if seed is not None and score == "lac":
            raise ValueError("seed: expected None, as the score 'lac' has nothing random, got a seed")
        self._generator = None if seed is None else as_generator(seed)
        self.by = None if by is None else as_choice(by, "by", ("class", "group"))
        self.penalty, self.free = as_number(penalty, "penalty", low=0), as_whole(free, "free", low=0)
        if score != "raps":
            for name, value, usual in (("penalty", self.penalty, PENALTY), ("free", self.free, FREE)):
                if value != usual:
                    raise ValueError(f"{name}: has no effect on the score {score!r}, got {value}")
            self.penalty, self.free = 0.0, 0
        self.never_empty = as_switch(never_empty, "never_empty")

    def fit(self, probs, labels=None, groups=None, weights=None, class_weights=None):
        """Find the thresholds from held-out predictions.

        Parameters
        ----------
        probs : array, shape (n, C)
            Predictions for inputs that the model was not fitted to; or a
            ``DataLoader`` of predictions and labels.
        labels : array, shape (n,)
            Their classes; left out with a loader.
        groups : array, shape (n,), optional
            With ``by="group"``: the group of each, any whole numbers.
        weights : array, shape (n,), optional
            Under covariate shift: see ``quantile``. ``predict`` then asks for the
            weights of the new inputs.
        class_weights : array, shape (C,), optional
            Under label shift: how much more frequent each class is where
            predictions are made.

        Returns
        -------
        SplitClassifier, itself
        """
        probs, labels = gather(probs, labels)
        probs = as_own_distributions(probs, "NC")
        labels = as_labels(labels, probs.shape[1], length=len(probs))
        self._precision = probs.dtype
        if weights is not None and class_weights is not None:
            raise ValueError("weights: expected either these or class_weights, got both")
        if class_weights is not None:
            class_weights = as_weights(class_weights, "class_weights", probs.shape[1]).copy()
            weights = class_weights[labels]
        weights = None if weights is None else as_weights(weights, "weights", len(probs)).copy()
        cells, scores = self._cells_of(labels.copy(), groups, len(probs)), self._own_scores(probs, labels)
        # From here on nothing can fail: what could not be fitted again stays what it was.
        self.classes_, self._class_weights, self._weights = probs.shape[1], class_weights, weights
        self._cells, self._scores, self.threshold_ = cells, scores, None
        if weights is None:
            self._limit = {cell: self._quantile(cell) for cell in np.unique(self._cells).tolist()}
            found = {cell: limit + (self.score == "lac") for cell, limit in self._limit.items()}
            self.threshold_ = found if self.by else found[0]
        return self

    def _cells_of(self, labels, groups, n):
        """Which calibration scores share a threshold: one whole number each."""
        if (groups is not None) != (self.by == "group"):
            raise ValueError("groups: expected with by='group', and only then")
        if self.by == "class":
            return labels
        return np.zeros(n, np.int64) if groups is None else _as_groups(groups, n)

    def _quantile(self, cell, new_weights=None):
        inside = self._cells == cell
        if not inside.any():  # nothing is known of it: everything is let in
            return np.inf
        weights = None if self._weights is None else self._weights[inside]
        if weights is not None and not weights.max() > 0:
            return np.inf
        return quantile(self._scores[inside], self.alpha, weights, new_weights)

    def _own_scores(self, probs, labels):
        """The scores of the true classes."""
        scores = np.empty(len(probs))
        if self.score == "lac":
            # Minus the probability, exactly: a label is let in by the very number that let it in here.
            scores[:] = -probs[np.arange(len(probs)), labels].astype(np.float64)
            return scores
        for part in blocks(len(probs), probs.shape[1]):
            some, own = probs[part].astype(np.float64), labels[part]
            mine = some[np.arange(len(some)), own]
            before = (some > mine[:, None]).sum(axis=1)
            for row in np.flatnonzero((some == mine[:, None]).sum(axis=1) > 1):
                before[row] += (some[row, : own[row]] == mine[row]).sum()
            ranked = np.sort(some, axis=1)[:, ::-1].T
            down = np.stack(list(_down(np.ascontiguousarray(ranked), *self._rule(len(some)))))
            scores[part] = down[before, np.arange(len(some))]
        return scores

    def _rule(self, inputs):
        u = None if self._generator is None else self._generator.random(inputs)
        return u, self.penalty, self.free

    def predict(self, probs, groups=None, weights=None):
        """The sets of new inputs.

        Parameters
        ----------
        probs : array, shape (N, C)
            Predictions for new inputs.
        groups : array, shape (N,), optional
            With ``by="group"``. A group that calibration did not see gets all
            classes.
        weights : array, shape (N,), optional
            Asked for where ``fit`` had ``weights``.

        Returns
        -------
        array of bool, shape (N, C)
            Which classes are in the set.
        """
        if not hasattr(self, "_scores"):
            raise ValueError("predict: expected a fitted classifier, call fit first")
        probs = as_own_distributions(probs, "NC")
        if probs.shape[1] != self.classes_:
            raise ValueError(f"probs: expected {self.classes_} classes as in fit, got {probs.shape[1]}")
        limits = self._limits(len(probs), groups, weights)
        sets = np.empty(probs.shape, bool)
        for part in blocks(len(probs), probs.shape[1]):
            limit = limits if np.ndim(limits) == 0 or len(limits) == 1 else limits[part]
            self._fill(sets[part], probs[part], limit)
        if self.never_empty:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, probs[empty].argmax(axis=1)] = True
        return sets

    def _limits(self, inputs, groups, weights):
        """The largest score that is let in: one for all, (1, C), (N, 1) or (N, C)."""
        if (groups is not None) != (self.by == "group"):
            raise ValueError("groups: expected with by='group', and only then")
        if (weights is not None) != (self._weights is not None and self._class_weights is None):
            raise ValueError("weights: expected where fit had weights, and only there")
        if weights is not None:
            weights = as_weights(weights, "weights", inputs, some=False)
        if self._class_weights is not None or self.by == "class":
            return self._limits_by_class(inputs, groups, weights)
        if self.by is None:
            return self._limit[0] if weights is None else self._quantile(0, weights)[:, None]
        groups = _as_groups(groups, inputs)
        limits = np.empty((inputs, 1))
        for group in np.unique(groups):
            new = None if weights is None else weights[groups == group]
            limits[groups == group, 0] = self._quantile(group, new)
        return limits

    def _limits_by_class(self, inputs, groups, weights):
        """A column a class; under label shift the new input's weight is that of the class asked about."""
        if self._class_weights is None:
            columns = [np.broadcast_to(self._quantile(c, weights), inputs) for c in range(self.classes_)]
            return np.stack(columns, axis=1) if weights is not None else np.stack(columns, axis=1)[:1]
        groups = np.zeros(1, np.int64) if groups is None else _as_groups(groups, inputs)
        limits = np.empty((len(groups), self.classes_))
        for c, weight in enumerate(self._class_weights):
            for cell in np.unique(groups):
                found = self._quantile(c if self.by == "class" else cell, float(weight))
                limits[groups == cell, c] = found
        return limits

    def _fill(self, sets, probs, limit):
        if self.score == "lac":
            # In the coarser precision of the two: .7 in float32 lies below .7 in float64.
            probs, least = alike(probs, np.negative(limit, dtype=np.float64).astype(self._precision))
            np.greater_equal(probs, least, out=sets)
        elif np.ndim(limit) == 0 or limit.shape[1] == 1:
            self._fill_down(sets, probs.astype(np.float64), limit)
        else:
            u, penalty, free = self._rule(len(probs))
            np.less_equal(adaptive_scores(probs, u, penalty, free), limit, out=sets)

    def _fill_down(self, sets, probs, limit):
        """Adaptive sets are the first few of the order: count them, then compare with the last."""
        limit = np.ravel(limit)
        ranked = np.sort(probs, axis=1)
        columns = np.ascontiguousarray(ranked.T)[::-1]
        size = np.zeros(len(probs), np.intp)
        for score in _down(columns, *self._rule(len(probs))):
            size += score <= limit
        rows = np.arange(len(probs))
        classes = probs.shape[1]
        last = np.where(size > 0, ranked[rows, classes - np.maximum(size, 1)], np.inf)
        np.greater_equal(probs, last[:, None], out=sets)
        following = ranked[rows, np.maximum(classes - size - 1, 0)]
        for row in np.flatnonzero((size > 0) & (size < classes) & (following == last)):
            order = np.argsort(-probs[row], kind="stable")  # equal ones: the first come first
            sets[row] = False
            sets[row, order[: size[row]]] = True


def _as_groups(groups, length):
    groups = to_numpy(groups, "groups")
    whole = np.isfinite(groups).all() and np.array_equal(np.round(groups), groups)
    if groups.shape != (length,) or not whole or np.abs(groups.astype(np.float64)).max() >= 2**63:
        raise ValueError(f"groups: expected {length} whole numbers, one an input, got shape {groups.shape}")
    return groups.astype(np.int64)
