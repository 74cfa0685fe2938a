"""Maps from a probability to a frequency, class against the rest."""

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_choice, as_labels, as_own_distributions, as_whole
from uqhelpers.calibration.parts import MOST, place_in
from uqhelpers.calibration.scaling import check_fitted
from uqhelpers.features import as_arrays

__all__ = ["HistogramBinning", "IsotonicCalibration"]


class _OneAgainstRest:
    """One map from a probability to a frequency for each class; rows are made to sum to 1 again."""

    def __init__(self):
        self.maps = None

    def fit(self, probs, labels=None):
        """Learn, class by class, how often it happened when a probability was given.

        Parameters
        ----------
        probs : array, shape (N, C), or iterable of batches
            Class probabilities of held-out inputs; or a ``DataLoader`` of pairs
            ``(probs, labels)``.
        labels : array of int, shape (N,), from 0 to C - 1; a loader brings its own

        Returns
        -------
        itself
        """
        probs, labels = as_arrays(probs, labels)
        probs = np.clip(as_own_distributions(probs, "NC"), 0, 1)  # rounding can leave a hair above 1
        labels = as_labels(labels, probs.shape[1], length=len(probs))
        self.maps = [
            self._fit_class(np.ascontiguousarray(probs[:, number]), labels == number)
            for number in range(probs.shape[1])
        ]
        return self

    def predict(self, probs):
        """Probabilities that have been mapped, and normalised.

        Parameters
        ----------
        probs : array, shape (N, C), with the classes that were fitted

        Returns
        -------
        array, shape (N, C), float64
            Probabilities; they can be exactly 0. Where every class was mapped
            to 0, the row is left as it came.
        """
        probs = np.clip(as_own_distributions(probs, "NC"), 0, 1)
        check_fitted(self.maps, "probs", probs, len(self.maps or ()))
        mapped = np.stack(
            [one(np.ascontiguousarray(probs[:, number])) for number, one in enumerate(self.maps)], axis=1
        )
        total = mapped.sum(axis=1, keepdims=True)
        mapped = np.where(total > 0, mapped, probs)
        return mapped / mapped.sum(axis=1, keepdims=True)


class HistogramBinning(_OneAgainstRest):
    """Replace each probability by how often its class was the label in its bin.

    Class against the rest, then normalised. An empty bin keeps its centre.
    Values are compared with the edges in their own precision; probabilities of
    one precision should be fitted and mapped.

    Parameters
    ----------
    bins : int
        Number of bins.
    spacing : {"mass", "width"}
        Bins that hold equally many values (ties stay together), or of equal width.

    References
    ----------
    Zadrozny and Elkan (2001), Obtaining calibrated probability estimates from
    decision trees and naive Bayesian classifiers.
    """

    def __init__(self, bins=10, spacing="mass"):
        super().__init__()
        self.bins = as_whole(bins, "bins", high=MOST)
        self.spacing = as_choice(spacing, "spacing", ("mass", "width"))

    def _fit_class(self, given, happened):
        curve = metrics.reliability_from_confidence(given, happened, self.bins, self.spacing)
        frequency = (curve.edges[1:] + curve.edges[:-1]) / 2
        frequency[curve.index] = curve.accuracy
        return lambda values: frequency[place_in(values, curve.edges)]


class IsotonicCalibration(_OneAgainstRest):
    """Replace each probability by the rising step function of it that fits the labels best.

    Scikit-learn's isotonic regression, class against the rest, then normalised.
    It needs no bins: it finds them. It says 0 and 1 where only one outcome was
    seen, so that its negative log-likelihood on new data can be infinite.

    References
    ----------
    Zadrozny and Elkan (2002), Transforming classifier scores into accurate
    multiclass probability estimates.
    """

    def _fit_class(self, given, happened):
        from sklearn.isotonic import IsotonicRegression

        steps = IsotonicRegression(y_min=0, y_max=1, increasing=True, out_of_bounds="clip")
        steps.fit(given.astype(np.float64), happened.astype(np.float64))
        return lambda values: steps.predict(values.astype(np.float64))
