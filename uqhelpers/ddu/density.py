"""The density of features: one Gaussian a class."""

import warnings

import numpy as np
from scipy.special import logsumexp, softmax

from uqhelpers._checks import as_choice, as_number, as_real, as_scores
from uqhelpers.features import ClassGaussians, as_arrays, as_features, class_members, class_moments

__all__ = ["GaussianFeatureDensity", "ddu_score", "quantile"]


class GaussianFeatureDensity:
    """One Gaussian a class over the features, with full covariance and the class's share as its weight.

    Gaussian discriminant analysis, used for its density. All of it is computed
    in float64. A ridge of ``jitter`` times the average variance within the
    classes is added to every diagonal, the same for all classes, so that
    features which are constant, linearly dependent or more than there are
    inputs do no harm. A common factor of all features changes no ranking; a
    factor of one of them does, for its variance then is the average's greater
    part and the ridge drowns the rest, unless ``units`` says so.

    Parameters
    ----------
    jitter : float
        Relative ridge, above 0.
    units : {"common", "own"}
        Whether the features share a unit, as those of one layer do, or each
        has its own. With ``"own"`` the ridge of each is relative to its own
        variance within the classes, and a factor of one feature moves all log
        densities by the same amount.

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
        for a class whose covariance still cannot be factorised; with
        ``units="own"`` in each feature's own variance).

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty, section 4.
    """

    def __init__(self, jitter=1e-6, units="common"):
        self.jitter = as_number(jitter, "jitter", low=0, open_low=True)
        self.units = as_choice(units, "units", ("common", "own"))

    def fit(self, features, labels=None, classes=None):
        """Estimate all Gaussians; whatever was fitted or calibrated before is forgotten.

        Parameters
        ----------
        features : array, shape (N, D), or a loader of pairs ``(features, labels)``
        labels : array of int, shape (N,), optional
            Classes from 0, each of at least two inputs; a loader brings its own.
        classes : int, optional
            How many there are; by default one more than the largest label.

        Returns
        -------
        GaussianFeatureDensity, itself

        Raises
        ------
        ValueError
            If the features do not vary at all, or a class has fewer than two
            inputs.
        """
        features, labels = as_arrays(features, labels)
        features = as_features(features, "features")
        _, members = class_members(labels, len(features), classes, least=2)
        counts = np.array([len(rows) for rows in members])
        means, covariances = class_moments(features, members)
        gaussians = ClassGaussians(means, covariances, counts, self.jitter, self.units, between=True)
        log_priors = np.log(counts / counts.sum())
        # From here on nothing can fail: a density that could not be fitted again stays what it was.
        self.means, self.covariances, self.log_priors = means, covariances, log_priors
        self.ridge, self._gaussians = gaussians.ridge, gaussians
        self._constants = log_priors + gaussians.log_volumes - 0.5 * means.shape[1] * np.log(2 * np.pi)
        self._seen = _fingerprints(features)
        self._held_out = None
        return self

    def log_joint(self, features):
        """Logarithm of share times density, class by class.

        Parameters
        ----------
        features : array, shape (N, D)
            Of any inputs.

        Returns
        -------
        array, shape (N, C), in nats
            The density's units are those of the features.
        """
        self._check_fitted()
        return self._constants - 0.5 * self._gaussians.distances(features)

    def log_density(self, features):
        """Logarithm of the mixture's density: low where the input is strange.

        Parameters are those of :meth:`log_joint`.

        Returns
        -------
        array, shape (N,), in nats
        """
        return logsumexp(self.log_joint(features), axis=1)

    def score(self, features):
        """Minus the log density: higher is stranger, as every score of this package.

        Parameters are those of :meth:`log_joint`.

        Returns
        -------
        array, shape (N,), in nats
        """
        return -self.log_density(features)

    def class_probabilities(self, features):
        """What the Gaussians themselves would answer: Gaussian discriminant analysis.

        Parameters are those of :meth:`log_joint`.

        Returns
        -------
        array of probabilities, shape (N, C), float64
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
            Itself, ready for :meth:`quantile`.

        Raises
        ------
        ValueError
            If most of these are features that the density was fitted to, in
            whatever order.

        Warns
        -----
        RuntimeWarning
            If a tenth of them are.
        """
        self._check_fitted()
        held_out = as_features(as_real(held_out, "held_out"), "held_out", width=self.means.shape[1])
        known = np.isin(_fingerprints(held_out), self._seen).mean()
        if known > 0.5:
            raise ValueError(
                "held_out: expected features of inputs held out from training, "
                f"got those that the density was fitted to ({known:.0%} of them)"
            )
        if known >= 0.1:
            warnings.warn(
                f"held_out: {known:.0%} of these are features that the density was fitted to, "
                "which are denser than new ones: quantiles will be too low",
                RuntimeWarning,
                stacklevel=2,
            )
        self._held_out = np.sort(self.log_density(held_out))
        return self

    def quantile(self, features):
        """The share of held-out inputs whose density is at most as high.

        Parameters are those of :meth:`log_joint`.

        Returns
        -------
        array, shape (N,), float64
            From 0 (stranger than every held-out input) to 1. Of inputs like
            the held-out ones, a share ``a`` lies below ``a``, roughly.

        Raises
        ------
        ValueError
            Before :meth:`calibrate`.
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
    """
    ranked = np.sort(as_scores(held_out, "held_out"))
    return np.searchsorted(ranked, as_scores(log_density, "log_density"), side="right") / len(ranked)


def _fingerprints(features):
    """A number for each row, the same for the same row: not the rows themselves, which are many.

    The sum runs over each row by itself. A product of matrices may round equal rows differently.
    """
    keys = np.random.default_rng(0).standard_normal(features.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.einsum("nd,d->n", np.ascontiguousarray(features), keys)
