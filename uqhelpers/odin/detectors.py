"""Detectors of strangeness that are fitted to the features of the training inputs."""

import numpy as np
from scipy.linalg import blas, lapack

from uqhelpers._checks import as_labels, as_number, as_real, as_whole, to_numpy

__all__ = ["KNearestNeighbours", "Mahalanobis"]

ROWS = 512  # of features at a time: with their product they fit a core's cache
ANY_CLASS = np.iinfo(np.int64).max


class Mahalanobis:
    """Squared Mahalanobis distance to the nearest class mean, with one covariance shared by all classes.

    Computed in float64. A ridge of ``relative_ridge`` times the average variance
    of a feature, tr(Σ)/d, is added to the diagonal, so that dead and linearly
    dependent features do no harm, and the answer does not depend on the
    features' units. A fixed ridge is lost in the rounding of large features,
    and drowns small ones.

    Parameters
    ----------
    relative_ridge : float
        Above 0.

    Attributes
    ----------
    means : array, shape (C, D)
        Mean of each class.
    covariance : array, shape (D, D)
        Maximum-likelihood covariance around the class means, without the ridge.
    ridge : float
        What is added to the diagonal, in squared units of the features.

    Raises
    ------
    ValueError
        If ``relative_ridge`` is not a number above 0.

    References
    ----------
    Lee et al. (2018), A simple unified framework for detecting
    out-of-distribution samples and adversarial attacks, section 2.1 (its
    distance alone, on one layer, without the nudge of the input and without the
    regression over layers, which asks for examples of the strange).
    """

    def __init__(self, relative_ridge=1e-6):
        self.relative_ridge = as_number(relative_ridge, "relative_ridge", low=0, open_low=True)

    def fit(self, features, labels, classes=None):
        """Estimate the means and the covariance; what was fitted before is forgotten.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of the training inputs.
        labels : array, shape (N,)
            Their classes, integers from 0.
        classes : int, optional
            How many classes there are; by default one more than the largest label.

        Returns
        -------
        Mahalanobis
            Itself.

        Raises
        ------
        ValueError
            If the features are no finite matrix or do not vary within the
            classes, the labels do not fit them, or a class has no input.
        """
        features = _as_features(features, "features")
        most = ANY_CLASS if classes is None else as_whole(classes, "classes")
        labels = as_labels(labels, most, length=len(features))
        counts = np.bincount(labels, minlength=0 if classes is None else classes)
        if counts.min() < 1:
            raise ValueError(
                f"labels: expected at least 1 input of each of {len(counts)} classes, "
                f"got none of class {counts.argmin()}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.stack([features[labels == label].mean(axis=0) for label in range(len(counts))])
            within = features - means[labels]
            covariance = blas.dsyrk(1 / len(within), within.T)
        covariance = np.triu(covariance) + np.triu(covariance, 1).T
        variance = np.trace(covariance) / len(covariance)
        if not np.isfinite(variance):
            raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
        # What rounding leaves of a constant is no variance.
        if variance <= (1e-14 * np.abs(means).max()) ** 2:
            raise ValueError("features: expected features that vary within the classes, got constant ones")
        self.means, self.covariance, self.ridge = means, covariance, self.relative_ridge * variance
        self._whitener = _whitener(covariance, self.ridge)
        self._white_means = (means - means[0]) @ self._whitener.T
        return self

    def distances(self, features):
        """Squared distance to every class mean.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of any inputs.

        Returns
        -------
        array, shape (N, C), float64
            At least 0, without units: for Gaussian classes about D for an input of the class.

        Raises
        ------
        ValueError
            If nothing was fitted yet, or the features are not finite or of
            another width.
        """
        if not hasattr(self, "means"):
            raise ValueError(
                "Mahalanobis: expected fit(features, labels) to be called first, got no such call"
            )
        features = _as_features(features, "features", width=self.means.shape[1])
        distances = np.empty((len(features), len(self.means)))
        for start in range(0, len(features), ROWS):
            part = slice(start, start + ROWS)
            # The whitener is triangular, and BLAS skips the half that is zero.
            white = blas.dtrmm(1.0, self._whitener.T, (features[part] - self.means[0]).T, trans_a=1).T
            for label, mean in enumerate(self._white_means):
                away = white - mean
                distances[part, label] = np.einsum("nd,nd->n", away, away)
        if not np.isfinite(distances).all():
            raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
        return distances

    def score(self, features):
        """Squared distance to the nearest class mean: higher is stranger.

        Parameters, exceptions
            As :meth:`distances`.

        Returns
        -------
        array, shape (N,), float64
            At least 0.
        """
        return self.distances(features).min(axis=1)


class KNearestNeighbours:
    """Distance to the k-th nearest training input, between features of length 1.

    No class, no Gaussian: only how many familiar inputs are near.

    Parameters
    ----------
    k : int
        Which neighbour's distance counts. Small values trust single training
        inputs; the paper takes 50 of 50,000.
    normalise : bool
        Whether features are brought to length 1 first, as published. A vector
        of zeros stays where it is.

    Raises
    ------
    ValueError
        If ``k`` is not a whole number of at least 1.

    References
    ----------
    Sun et al. (2022), Out-of-distribution detection with deep nearest neighbors.
    """

    def __init__(self, k=50, normalise=True):
        self.k, self.normalise = as_whole(k, "k"), bool(normalise)

    def fit(self, features):
        """Remember the training inputs.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of at least ``k`` training inputs.

        Returns
        -------
        KNearestNeighbours
            Itself.

        Raises
        ------
        ValueError
            If the features are no finite matrix, or fewer than ``k``.
        """
        from sklearn.neighbors import NearestNeighbors

        features = self._prepared(as_real(features, "features", ndim=2))
        if len(features) < self.k:
            raise ValueError(f"features: expected at least k = {self.k} inputs, got {len(features)}")
        self._width = features.shape[1]
        self._index = NearestNeighbors(n_neighbors=self.k, algorithm="brute").fit(features)
        return self

    def score(self, features):
        """Distance to the k-th nearest of the remembered inputs: higher is stranger.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of other inputs: a remembered one is its own nearest neighbour.

        Returns
        -------
        array, shape (N,), float64
            From 0 to 2 for features of length 1.

        Raises
        ------
        ValueError
            If nothing was fitted yet, or the features are not finite or of
            another width.
        """
        if not hasattr(self, "_index"):
            raise ValueError(
                "KNearestNeighbours: expected fit(features) to be called first, got no such call"
            )
        features = as_real(features, "features", ndim=2)
        if features.shape[1] != self._width:
            raise ValueError(f"features: expected {self._width} features an input, got {features.shape[1]}")
        distances, _ = self._index.kneighbors(self._prepared(features))
        return distances[:, -1].astype(np.float64)

    def _prepared(self, features):
        if not self.normalise:
            return features
        # By the largest entry first: squares of very small or large numbers leave float64.
        largest = np.abs(features).max(axis=1, keepdims=True)
        features = features / np.where(largest > 0, largest, 1)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        return features / np.where(lengths > 0, lengths, 1)


def _as_features(features, name, width=None):
    """A float64 matrix. NaN is found later, in what is computed from it: a pass through memory less."""
    array = to_numpy(features, name)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name}: expected a non-empty matrix, shape (inputs, features), got {array.shape}")
    if width is not None and array.shape[1] != width:
        raise ValueError(f"{name}: expected {width} features an input, got {array.shape[1]}")
    return array.astype(np.float64, copy=False)


def _whitener(covariance, ridge):
    """The inverse of the lower Cholesky factor of covariance plus ridge."""
    lower, failed = lapack.dpotrf(covariance + ridge * np.eye(len(covariance)), lower=1, clean=1)
    while failed:  # a huge spread in one direction: rounding there exceeds the ridge
        ridge *= 10
        lower, failed = lapack.dpotrf(covariance + ridge * np.eye(len(covariance)), lower=1, clean=1)
    return lapack.dtrtri(lower, lower=1)[0]
