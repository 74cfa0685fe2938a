"""Gaussians around class means: moments block by block, ridges, whitening, squared distances."""

import numpy as np
from scipy.linalg import blas, lapack

from uqhelpers._checks import as_choice, as_labels, as_whole, to_numpy

__all__ = [
    "ClassGaussians",
    "as_features",
    "class_members",
    "class_moments",
    "inverse_cholesky",
    "shared_moments",
]

ROWS = 512  # of features at a time: with their product they fit a core's cache
ANY_CLASS = np.iinfo(np.int64).max
UNITS = ("common", "own")
LEAST_VARIANCE = 1e-290  # below it a variance has lost digits, or is 0 where features do vary


def as_features(features, name, width=None):
    """A float64 matrix of features, NaN not looked for.

    It shows in what is computed from them: a pass through memory less.

    Parameters
    ----------
    features : array, shape (N, D)
        Features.
    name : str
        Of the argument, for the error.
    width : int, optional
        The ``D`` that is expected.

    Returns
    -------
    array, shape (N, D), float64
    """
    array = to_numpy(features, name)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name}: expected a non-empty matrix, shape (inputs, features), got {array.shape}")
    if width is not None and array.shape[1] != width:
        raise ValueError(f"{name}: expected {width} features an input, got {array.shape[1]}")
    return array.astype(np.float64, copy=False)


def class_members(labels, length, classes=None, least=1):
    """Which inputs belong to each class.

    Parameters
    ----------
    labels : array of int, shape (N,)
        Classes from 0.
    length : int
        The ``N`` that is expected.
    classes : int, optional
        How many classes there are; by default one more than the largest label.
    least : int
        How many inputs each class needs.

    Returns
    -------
    labels : array of int, shape (N,)
    members : list of arrays of int
        The places of each class's inputs, ascending.

    Raises
    ------
    ValueError
        If a class has fewer inputs.
    """
    classes = None if classes is None else as_whole(classes, "classes")
    labels = as_labels(labels, ANY_CLASS if classes is None else classes, length=length)
    known = int(labels.max()) + 1 if classes is None else classes
    if known > length:  # more classes than inputs, perhaps than could be counted
        counts = np.bincount(labels[labels <= length], minlength=length + 1)
    else:
        counts = np.bincount(labels, minlength=known)
    if counts.min() < least:
        raise ValueError(
            f"labels: expected at least {least} {'input' if least == 1 else 'inputs'} of each of "
            f"{known} classes, got {counts.min()} of class {counts.argmin()}"
        )
    return labels, np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])


def class_moments(features, members):
    """Mean and maximum-likelihood covariance of every class.

    Parameters
    ----------
    features : array, shape (N, D)
        From :func:`as_features`.
    members : list of arrays of int
        From :func:`class_members`.

    Returns
    -------
    means : array, shape (C, D)
    covariances : array, shape (C, D, D)

    Raises
    ------
    ValueError
        If a feature is not finite, or so large that its square is not.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        moments = [_mean_and_covariance(features, rows) for rows in members]
    means, covariances = (np.stack(part) for part in zip(*moments, strict=True))
    _expect_finite(np.trace(covariances, axis1=1, axis2=2).sum() + means.sum())
    return means, covariances


def shared_moments(features, labels, members):
    """Mean of every class, and one covariance around them all.

    Parameters
    ----------
    features : array, shape (N, D)
        From :func:`as_features`.
    labels, members
        From :func:`class_members`.

    Returns
    -------
    means : array, shape (C, D)
    covariances : array, shape (1, D, D)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.stack([features[rows].mean(axis=0) for rows in members])
        products = _Products(features.shape[1])
        for start in range(0, len(features), ROWS):
            part = slice(start, start + ROWS)
            products.add(features[part] - means[labels[part]])
        covariance = products.whole() / len(features)
    _expect_finite(np.trace(covariance) + means.sum())
    return means, covariance[None]


class ClassGaussians:
    """Gaussians of classes, with covariances that have an inverse: what distances and densities need.

    Parameters
    ----------
    means : array, shape (C, D)
        Of the classes.
    covariances : array, shape (C, D, D) or (1, D, D)
        Of each class, or one for all.
    counts : array, shape (C,)
        Inputs of each class.
    ridge : float
        Relative, above 0. What is added to every diagonal is this times the
        average variance within the classes.
    units : {"common", "own"}
        Whether the features share a unit, as those of one layer do, or each has
        its own. Then its own variance counts and not the average: no factor of
        any feature changes a distance. A feature that never varied has no unit,
        and counts in that of the average.
    between : bool
        Whether the variance between the class means may stand in where there is
        none within.

    Attributes
    ----------
    ridge : float
        What is added to the diagonals, in squared units of the features; with
        ``units="own"`` relative to each feature's variance.
    whiteners : array, shape (C, D, D) or (1, D, D)
        Lower triangular; their product with a feature's distance from the mean
        has the squared Mahalanobis distance for its squared length.

    Raises
    ------
    ValueError
        If the features do not vary, or so little that the square of it is lost.
    """

    def __init__(self, means, covariances, counts, ridge, units="common", *, between=False):
        as_choice(units, "units", UNITS)
        shares = counts / counts.sum() if len(covariances) > 1 else np.ones(1)
        within = np.maximum(shares @ np.diagonal(covariances, axis1=1, axis2=2), 0)
        apart = (counts / counts.sum()) @ (means - (counts / counts.sum()) @ means) ** 2
        variance = _average_variance(within, apart if between else 0 * apart, means)
        scale = _own_scale(within, variance, means) if units == "own" else None
        self.means, self.ridge = means, ridge * (variance if scale is None else 1.0)
        self.whiteners = np.stack([inverse_cholesky(one, self.ridge, scale) for one in covariances])
        if len(covariances) == 1:
            self._white_means = (means - means[0]) @ self.whiteners[0].T

    @property
    def log_volumes(self):
        """Half the logarithm of each covariance's inverse determinant, shape (C,) or (1,)."""
        return np.log(np.diagonal(self.whiteners, axis1=1, axis2=2)).sum(axis=1)

    def distances(self, features):
        """Squared Mahalanobis distance to every class mean.

        Parameters
        ----------
        features : array, shape (N, D)
            As many features as the means have.

        Returns
        -------
        array, shape (N, C), float64
        """
        features = as_features(features, "features", width=self.means.shape[1])
        distances = np.empty((len(features), len(self.means)))
        fill = self._fill_shared if len(self.whiteners) == 1 else self._fill_each
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(features), ROWS):
                fill(features[start : start + ROWS], distances[start : start + ROWS])
        _expect_finite(distances)
        return distances

    def _fill_shared(self, features, distances):
        # A whitener is triangular, and BLAS skips the half that is zero.
        white = blas.dtrmm(1.0, self.whiteners[0].T, (features - self.means[0]).T, trans_a=1).T
        for label, mean in enumerate(self._white_means):
            away = white - mean
            distances[:, label] = np.einsum("nd,nd->n", away, away)

    def _fill_each(self, features, distances):
        for label, (mean, whitener) in enumerate(zip(self.means, self.whiteners, strict=True)):
            white = blas.dtrmm(1.0, whitener.T, (features - mean).T, trans_a=1, overwrite_b=1)
            distances[:, label] = np.einsum("dn,dn->n", white, white)


def inverse_cholesky(covariance, ridge, scale=None):
    """The inverse of the lower Cholesky factor of covariance plus ridge: what whitens.

    Parameters
    ----------
    covariance : array, shape (D, D)
        Symmetric, without negative directions but for rounding.
    ridge : float
        Above 0, added to the diagonal; more where that is lost in rounding.
    scale : array, shape (D,), optional
        By which the features are divided first, and then back.

    Returns
    -------
    array, shape (D, D)
        Lower triangular.
    """
    if scale is not None:
        return inverse_cholesky(covariance / scale / scale[:, None], ridge) / scale
    unit = np.eye(len(covariance))
    lower, failed = lapack.dpotrf(covariance + ridge * unit, lower=1, clean=1)
    while failed:  # a huge spread in one direction: rounding there exceeds the ridge
        ridge *= 10
        lower, failed = lapack.dpotrf(covariance + ridge * unit, lower=1, clean=1)
    return lapack.dtrtri(lower, lower=1)[0]


class _Products:
    """The sum of products of centred rows, the upper half of it until the end."""

    def __init__(self, width):
        self.sums = np.zeros((width, width), order="F")

    def add(self, rows):
        self.sums = blas.dsyrk(1.0, rows.T, beta=1.0, c=self.sums, overwrite_c=1)

    def whole(self):
        return np.triu(self.sums) + np.triu(self.sums, 1).T


def _mean_and_covariance(features, members):
    """Of some rows, block by block, so that each row is fetched from memory once."""
    shift = features[members[:ROWS]].mean(axis=0)  # near the mean: no digits cancel below
    total, products = np.zeros(features.shape[1]), _Products(features.shape[1])
    for start in range(0, len(members), ROWS):
        block = features[members[start : start + ROWS]]
        block -= shift
        total += np.ones(len(block)) @ block
        products.add(block)
    drift = total / len(members)
    return shift + drift, products.whole() / len(members) - np.outer(drift, drift)


def _average_variance(within, between, means):
    """Average variance of a feature within the classes, or between them where there is none within."""
    inside, outside = within.mean(), between.mean()
    _expect_finite(inside + outside)
    # What rounding leaves of a constant is no variance.
    floor = (1e-14 * np.abs(means).max()) ** 2
    largest = max(inside, outside)
    if largest <= floor or largest < LEAST_VARIANCE:
        raise ValueError(
            "features: expected features that vary, and by more than 1e-145, the square of which float64 "
            f"still holds, got an average variance of {largest:.3g} around means of up to "
            f"{np.abs(means).max():.3g}"
        )
    return inside if inside > 1e-12 * outside + floor else outside


def _own_scale(within, variance, means):
    """The standard deviation of each feature; of one without, that of the average."""
    varies = within > np.maximum((1e-14 * np.abs(means).max(axis=0)) ** 2, LEAST_VARIANCE)
    return np.sqrt(np.where(varies, within, variance))


def _expect_finite(values):
    if not np.isfinite(values).all():
        raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
