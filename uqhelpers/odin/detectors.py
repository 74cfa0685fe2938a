"""Detectors of strangeness that are fitted to the features of the training inputs."""

import numpy as np

from uqhelpers._checks import as_choice, as_number, as_real, as_switch, as_whole
from uqhelpers.features import (
    ClassGaussians,
    NearestNeighbours,
    as_arrays,
    as_features,
    class_members,
    shared_moments,
    to_unit_length,
)

__all__ = ["KNearestNeighbours", "Mahalanobis"]


class Mahalanobis:
    """Squared Mahalanobis distance to the nearest class mean, with one covariance shared by all classes.

    Computed in float64. A ridge of ``relative_ridge`` times the average variance
    of a feature, tr(Σ)/d, is added to the diagonal, so that dead and linearly
    dependent features do no harm, and the answer does not depend on a *common
    factor* of the features. A fixed ridge is lost in the rounding of large
    features, and drowns small ones; and so does this one, where the features
    have units of their own and one of them is counted in far smaller ones:
    then say so.

    Parameters
    ----------
    relative_ridge : float
        Above 0.
    units : {"common", "own"}
        Whether the features share a unit, as those of one layer do, or each
        has its own. With ``"own"`` the ridge of each is relative to its own
        variance, and no factor of any feature changes the answer.

    Attributes
    ----------
    means : array, shape (C, D)
        Mean of each class.
    covariance : array, shape (D, D)
        Maximum-likelihood covariance around the class means, without the ridge.
    ridge : float
        What is added to the diagonal, in squared units of the features (with
        ``units="own"`` in each feature's own variance).

    References
    ----------
    Lee et al. (2018), A simple unified framework for detecting
    out-of-distribution samples and adversarial attacks, section 2.1 (its
    distance alone, on one layer, without the nudge of the input and without the
    regression over layers, which asks for examples of the strange).
    """

    def __init__(self, relative_ridge=1e-6, units="common"):
        self.relative_ridge = as_number(relative_ridge, "relative_ridge", low=0, open_low=True)
        self.units = as_choice(units, "units", ("common", "own"))

    def fit(self, features, labels=None, classes=None):
        """Estimate the means and the covariance; what was fitted before is forgotten.

        Parameters
        ----------
        features : array, shape (N, D), or iterable of batches
            Of the training inputs; batches are pairs ``(features, labels)``.
        labels : array of int, shape (N,), optional
            From 0; batches bring their own.
        classes : int, optional
            By default one more than the largest label; each needs one input.

        Returns
        -------
        Mahalanobis, itself

        Raises
        ------
        ValueError
            If the features do not vary within the classes, or a class has no
            input.
        """
        features, labels = as_arrays(features, labels)
        features = as_features(features, "features")
        labels, members = class_members(labels, len(features), classes)
        means, covariances = shared_moments(features, labels, members)
        counts = np.array([len(rows) for rows in members])
        gaussians = ClassGaussians(means, covariances, counts, self.relative_ridge, self.units)
        # From here on nothing can fail: a detector that could not be fitted again stays what it was.
        self.means, self.covariance, self.ridge = means, covariances[0], gaussians.ridge
        self._gaussians = gaussians
        return self

    def distances(self, features):
        """Squared distance to every class mean.

        Parameters
        ----------
        features : array, shape (N, D)
            Of any inputs, as many features as those of the training inputs.

        Returns
        -------
        array, shape (N, C), float64
            At least 0, without units: for Gaussian classes about D for an input of the class.
        """
        if not hasattr(self, "means"):
            raise ValueError(
                "Mahalanobis: expected fit(features, labels) to be called first, got no such call"
            )
        return self._gaussians.distances(features)

    def score(self, features):
        """Squared distance to the nearest class mean: higher is stranger.

        Parameters are those of :meth:`distances`.

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
        inputs; the paper takes 50 for CIFAR-10 and 200 for CIFAR-100, of 50,000.
    normalise : bool
        Whether features are brought to length 1 first, as published. A vector
        of zeros stays where it is.

    References
    ----------
    Sun et al. (2022), Out-of-distribution detection with deep nearest neighbors.
    """

    def __init__(self, k=50, normalise=True):
        self.k = as_whole(k, "k")
        self.normalise = as_switch(normalise, "normalise")

    def fit(self, features):
        """Remember the training inputs.

        Parameters
        ----------
        features : array, shape (N, D), or iterable of batches
            Features of at least ``k`` training inputs; or a ``DataLoader`` of
            pairs, the second of which are left aside.

        Returns
        -------
        KNearestNeighbours, itself

        Raises
        ------
        ValueError
            If there are fewer than ``k`` inputs.
        """
        features = self._prepared(as_arrays(features)[0])
        if len(features) < self.k:
            raise ValueError(f"features: expected at least k = {self.k} inputs, got {len(features)}")
        self._known = NearestNeighbours(features)
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
        """
        if not hasattr(self, "_known"):
            raise ValueError(
                "KNearestNeighbours: expected fit(features) to be called first, got no such call"
            )
        features, width = self._prepared(features), self._known.points.shape[1]
        if features.shape[1] != width:
            raise ValueError(f"features: expected {width} features an input, got {features.shape[1]}")
        return self._known.find(features, self.k)[0][:, -1].copy()

    def _prepared(self, features):
        features = as_real(features, "features", ndim=2)
        return to_unit_length(features) if self.normalise else features
