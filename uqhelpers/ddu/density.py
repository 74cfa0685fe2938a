"""The density of features: one Gaussian a class."""

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import logsumexp, softmax

from uqhelpers._checks import as_labels, as_number, as_scores, as_whole, to_numpy

__all__ = ["GaussianFeatureDensity", "ddu_score", "quantile"]

ROWS = 512  # of features at a time: with their product they fit a core's cache
ANY_CLASS = np.iinfo(np.int64).max


class GaussianFeatureDensity:
    """One Gaussian a class over the features, with full covariance and the class's share as its weight.

    Gaussian discriminant analysis, used for its density. All of it is computed
    in float64. A ridge of ``jitter`` times the average variance within the
    classes is added to every diagonal, the same for all classes, so that
    features which are constant, linearly dependent or more than there are
    inputs do no harm.

    Parameters
    ----------
    jitter : float
        Relative ridge, above 0.

    Attributes
    ----------
    means : array, shape (C, D)
        Mean of each class.
    covariances : array, shape (C, D, D)
        Maximum-likelihood covariance of each class, without the ridge.
    log_priors : array, shape (C,)
        Logarithm of each class's share of the labels.
    ridge : float
        What is added to the diagonals, in squared units of the features (more
        for a class whose covariance still cannot be factorised).

    Raises
    ------
    ValueError
        If ``jitter`` is not a number above 0.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty, section 4.
    """

    def __init__(self, jitter=1e-6):
        self.jitter = as_number(jitter, "jitter", low=0, open_low=True)

    def fit(self, features, labels, classes=None):
        """Estimate all Gaussians; whatever was fitted or calibrated before is forgotten.

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
        GaussianFeatureDensity
            Itself.

        Raises
        ------
        ValueError
            If the features are no finite matrix or do not vary at all, the
            labels do not fit them, or a class has fewer than two inputs.
        """
        features = _as_features(features, "features")
        classes = None if classes is None else as_whole(classes, "classes")
        labels = as_labels(labels, ANY_CLASS if classes is None else classes, length=len(features))
        counts = np.bincount(labels, minlength=0 if classes is None else classes)
        if counts.min() < 2:
            raise ValueError(
                f"labels: expected at least 2 inputs of each of {len(counts)} classes, "
                f"got {counts.min()} of class {counts.argmin()}"
            )
        by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
        with np.errstate(over="ignore", invalid="ignore"):
            moments = [_mean_and_covariance(features, members) for members in by_class]
        means, covariances = (np.stack(part) for part in zip(*moments, strict=True))
        ridge = self.jitter * _average_variance(means, covariances, counts)
        log_priors = np.log(counts / counts.sum())
        # From here on nothing can fail: a density that could not be fitted again stays what it was.
        whiteners = [_whitener(covariance, ridge) for covariance in covariances]
        self.means, self.covariances, self.log_priors, self.ridge = means, covariances, log_priors, ridge
        self._whiteners = np.stack(whiteners)
        diagonals = np.diagonal(self._whiteners, axis1=1, axis2=2)
        width = features.shape[1]
        self._constants = log_priors + np.log(diagonals).sum(axis=1) - 0.5 * width * np.log(2 * np.pi)
        self._ends = features[[0, -1]].copy()
        self._held_out = None
        return self

    def log_joint(self, features):
        """Logarithm of share times density, class by class.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of any inputs.

        Returns
        -------
        array, shape (N, C), float64
            In nats; the density's units are those of the features.

        Raises
        ------
        ValueError
            If nothing was fitted yet, or the features are not finite or of
            another width.
        """
        self._check_fitted()
        features = _as_features(features, "features", width=self.means.shape[1])
        distances = np.empty((len(features), len(self.means)))
        for start in range(0, len(features), ROWS):
            part = slice(start, start + ROWS)
            for label, (mean, whitener) in enumerate(zip(self.means, self._whiteners, strict=True)):
                # The whitener is triangular, and BLAS skips the half that is zero.
                white = blas.dtrmm(1.0, whitener.T, (features[part] - mean).T, trans_a=1, overwrite_b=1)
                distances[part, label] = np.einsum("dn,dn->n", white, white)
        if not np.isfinite(distances).all():
            raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
        return self._constants - 0.5 * distances

    def log_density(self, features):
        """Logarithm of the mixture's density: low where the input is strange.

        Parameters, exceptions
            As :meth:`log_joint`.

        Returns
        -------
        array, shape (N,), float64
            In nats.
        """
        return logsumexp(self.log_joint(features), axis=1)

    def class_probabilities(self, features):
        """What the Gaussians themselves would answer: Gaussian discriminant analysis.

        Parameters, exceptions
            As :meth:`log_joint`.

        Returns
        -------
        array, shape (N, C), float64
            Probabilities.
        """
        return softmax(self.log_joint(features), axis=1)

    def calibrate(self, held_out):
        """Remember the densities of held-out inputs, for :meth:`quantile`.

        Parameters
        ----------
        held_out : array, shape (M, D)
            Features of inputs that neither the network nor the density was
            fitted to. Training features have higher densities than new ones,
            and everything new would look strange beside them.

        Returns
        -------
        GaussianFeatureDensity
            Itself.

        Raises
        ------
        ValueError
            As :meth:`log_joint`; also if these are the very features that the
            density was fitted to.
        """
        self._check_fitted()
        held_out = _as_features(held_out, "held_out", width=self.means.shape[1])
        if np.array_equal(held_out[[0, -1]], self._ends):
            raise ValueError(
                "held_out: expected features of inputs held out from training, "
                "got those that the density was fitted to"
            )
        self._held_out = np.sort(self.log_density(held_out))
        return self

    def quantile(self, features):
        """The share of held-out inputs whose density is at most as high.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of any inputs.

        Returns
        -------
        array, shape (N,), float64
            From 0 (stranger than every held-out input) to 1. Of inputs like
            the held-out ones, a share ``a`` lies below ``a``, roughly.

        Raises
        ------
        ValueError
            As :meth:`log_joint`; also before :meth:`calibrate`.
        """
        if getattr(self, "_held_out", None) is None:
            raise ValueError(
                "quantile: expected calibrate(held_out) to be called after fit, got no such call"
            )
        return quantile(self.log_density(features), self._held_out)

    @property
    def calibrated(self):
        """Whether :meth:`quantile` can be asked."""
        return getattr(self, "_held_out", None) is not None

    def _check_fitted(self):
        if not hasattr(self, "means"):
            raise ValueError("density: expected fit(features, labels) to be called first, got no such call")


def ddu_score(log_density):
    """Minus the log density: higher is stranger, as every score of this package.

    Parameters
    ----------
    log_density : array, shape (N,)
        From :meth:`GaussianFeatureDensity.log_density`.

    Returns
    -------
    array, shape (N,), float64
        In nats.

    Raises
    ------
    ValueError
        If the densities are no non-empty vector without NaN.
    """
    return -as_scores(log_density, "log_density")


def quantile(log_density, held_out):
    """Where densities stand among those of held-out inputs: their empirical distribution function.

    Parameters
    ----------
    log_density : array, shape (N,)
        Log densities of any inputs.
    held_out : array, shape (M,)
        Log densities of inputs that nothing was fitted to.

    Returns
    -------
    array, shape (N,), float64
        The share of held-out inputs whose density is at most as high, from 0 to 1.

    Raises
    ------
    ValueError
        If one of them is no non-empty vector without NaN.
    """
    ranked = np.sort(as_scores(held_out, "held_out"))
    return np.searchsorted(ranked, as_scores(log_density, "log_density"), side="right") / len(ranked)


def _as_features(features, name, width=None):
    """A float64 matrix. NaN is found later, in what is computed from it: a pass through memory less."""
    array = to_numpy(features, name)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name}: expected a non-empty matrix, shape (inputs, features), got {array.shape}")
    if width is not None and array.shape[1] != width:
        raise ValueError(f"{name}: expected {width} features an input, got {array.shape[1]}")
    return array.astype(np.float64, copy=False)


def _mean_and_covariance(features, members):
    """Of some rows, block by block, so that each row is fetched from memory once."""
    width = features.shape[1]
    shift = features[members[:ROWS]].mean(axis=0)  # near the mean: no digits cancel below
    total, products = np.zeros(width), np.zeros((width, width), order="F")
    for start in range(0, len(members), ROWS):
        block = features[members[start : start + ROWS]]
        block -= shift
        total += np.ones(len(block)) @ block
        products = blas.dsyrk(1.0, block.T, beta=1.0, c=products, overwrite_c=1)  # upper half only
    drift = total / len(members)
    covariance = np.triu(products) + np.triu(products, 1).T
    return shift + drift, covariance / len(members) - np.outer(drift, drift)


def _average_variance(means, covariances, counts):
    """Average variance of a feature within the classes, or between them where there is none within."""
    shares = counts / counts.sum()
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    within = (shares @ np.maximum(variances, 0)).mean()
    between = (shares @ (means - shares @ means) ** 2).mean()
    if not np.isfinite(within + between):
        raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
    # What rounding leaves of a constant is no variance.
    floor = (1e-14 * np.abs(means).max()) ** 2
    if max(within, between) <= floor:
        raise ValueError("features: expected features that vary, got the same values for every input")
    return within if within > 1e-12 * between + floor else between


def _whitener(covariance, ridge):
    """The inverse of the lower Cholesky factor of covariance plus ridge."""
    ridged = covariance + ridge * np.eye(len(covariance))
    lower, failed = lapack.dpotrf(ridged, lower=1, clean=1)
    while failed:  # a huge spread in one direction: rounding there exceeds the ridge
        ridge *= 10
        lower, failed = lapack.dpotrf(covariance + ridge * np.eye(len(covariance)), lower=1, clean=1)
    return lapack.dtrtri(lower, lower=1)[0]
