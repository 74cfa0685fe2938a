"""Trust by neighbours: how much nearer the predicted class is than any other."""

import numpy as np

from uqhelpers._checks import as_labels, as_number, as_real, as_whole
from uqhelpers.features import NearestNeighbours, as_arrays

__all__ = ["TrustScore"]


class TrustScore:
    """How much nearer an input lies to its predicted class than to any other.

    The distance to the nearest training input of another class, over that to the
    nearest of the predicted class. Before, the ``alpha`` share of each class with
    the thinnest neighbourhood can be left out, so that outliers do not speak for
    their class.

    Parameters
    ----------
    k : int
        The radius that reaches so many inputs of its class, itself included,
        measures how thin an input's neighbourhood is.
    alpha : float
        Share of each class that is left out, in [0, 1).

    Examples
    --------
    >>> trust = TrustScore(alpha=0.1).fit(training.features(net, images), labels)
    >>> trust.confidence(training.features(net, new_images), predicted)

    References
    ----------
    Jiang, Kim, Guan and Gupta (2018), To trust or not to trust a classifier,
    algorithms 1 and 2.
    """

    def __init__(self, k=10, alpha=0.0):
        self.k = as_whole(k, "k")
        self.alpha = as_number(alpha, "alpha", low=0, high=1)
        if self.alpha == 1:
            raise ValueError("alpha: expected a share in [0, 1), got 1, which leaves nothing")
        self._trees = None

    def fit(self, features, labels=None):
        """Take the training inputs in, class by class.

        Parameters
        ----------
        features : array, shape (N, D), or iterable of batches
            Inputs, or better what the classifier's last layer sees of them
            (:func:`uqhelpers.training.features`); or a ``DataLoader`` of pairs
            ``(features, labels)``.
        labels : array of int, shape (N,), optional
            Their true classes, at least two different ones; a loader brings its own.

        Returns
        -------
        TrustScore, itself

        Raises
        ------
        ValueError
            If the labels name one class only.
        """
        features, labels = as_arrays(features, labels)
        features = as_real(features, "features", ndim=2)
        labels = as_labels(labels, np.iinfo(np.int64).max, length=len(features))
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"labels: expected at least two classes, got only class {classes[0]}")
        trees = {}
        for name in classes:
            members = features[labels == name]
            if self.alpha:
                near = min(self.k, len(members))
                radius = NearestNeighbours(members).find(members, near)[0][:, -1]
                members = members[radius <= np.quantile(radius, 1 - self.alpha)]
            trees[int(name)] = NearestNeighbours(members)
        self._trees, self._width = trees, features.shape[1]
        return self

    def confidence(self, features, predicted):
        """The ratio of the two distances.

        Parameters
        ----------
        features : array, shape (N, D)
            Of the inputs to be judged.
        predicted : array of int, shape (N,)
            What the classifier says they are.

        Returns
        -------
        array, shape (N,), float64
            From 0 to infinity, higher is surer; below 1 another class is nearer.
            Infinite on a training input of the predicted class, 1 on one that
            two classes share. A common factor of all features changes nothing; a
            factor of one of them changes which of them counts.

        Raises
        ------
        ValueError
            If a predicted class had no training input.
        """
        if self._trees is None:
            raise ValueError("fit: expected to be called first, got a trust score that has seen no data")
        features = as_real(features, "features", ndim=2)
        if features.shape[1] != self._width:
            raise ValueError(f"features: expected {self._width} columns, got {features.shape[1]}")
        known = np.array(list(self._trees))
        predicted = as_labels(predicted, np.iinfo(np.int64).max, "predicted", length=len(features))
        if not np.isin(predicted, known).all():
            strange = predicted[~np.isin(predicted, known)][0]
            raise ValueError(f"predicted: expected classes that were fitted, {known}, got {strange}")
        distances = np.stack([tree.find(features)[0][:, 0] for tree in self._trees.values()], axis=1)
        own = known == predicted[:, None]
        nearest_own, nearest_other = distances[own], np.where(own, np.inf, distances).min(axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = nearest_other / nearest_own
        return np.where((nearest_own == 0) & (nearest_other == 0), 1.0, ratio)

    def score(self, features, predicted):
        """Minus the ratio: higher is more uncertain, as every score of this package.

        Parameters
        ----------
        features, predicted : as in :meth:`confidence`

        Returns
        -------
        array, shape (N,), float64
            At most 0, down to minus infinity.
        """
        return -self.confidence(features, predicted)
