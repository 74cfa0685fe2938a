"""What a Brier score is made of."""

import dataclasses

import numpy as np

from uqhelpers._checks import as_labels, as_own_distributions, as_whole

__all__ = ["BrierDecomposition", "brier_decomposition"]

MOST = 1_000_000  # bins


@dataclasses.dataclass(frozen=True)
class BrierDecomposition:
    """The parts of a Brier score; ``score`` is their sum.

    Attributes
    ----------
    reliability : float
        Mean squared distance of the bins' forecasts from what happened in them.
        0 is calibrated; lower is better.
    resolution : float
        Mean squared distance of what happens in the bins from what happens
        overall. Higher is better; a forecast that is always the same has none.
    uncertainty : float
        The Brier score of always forecasting the base rates. No forecaster can
        change it.
    within : float
        What binning leaves over: the spread of the forecasts inside their bins,
        less twice what of it goes along with the outcomes. 0 if every bin holds
        one value.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within: float

    @property
    def score(self):
        """The Brier score: reliability - resolution + uncertainty + within."""
        return self.reliability - self.resolution + self.uncertainty + self.within


def brier_decomposition(probs, labels, bins=10):
    """Split the Brier score into reliability, resolution and uncertainty.

    Each class's probability is binned, its parts are found as for a two-class
    forecast, and the parts are added up over the classes. The first three parts
    describe the *binned* forecast; the fourth makes the sum exact.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
    labels : array of int, shape (N,), from 0 to C - 1
    bins : int or None
        Number of right-closed bins of equal width, whose edges are those of the
        probabilities' own precision: .6 in float32 lies in the bin that ends at
        .6. With ``None`` every value that occurs is a bin of its own, and
        nothing is left over. Many values that occur once make the reliability
        and the resolution large: noise.

    Returns
    -------
    BrierDecomposition
        Its ``score`` equals ``metrics.brier_score(probs, labels)``.

    References
    ----------
    Murphy (1973), A new vector partition of the probability score; Stephenson,
    Coelho and Jolliffe (2008), Two extra components in the Brier score
    decomposition.
    """
    probs = as_own_distributions(probs, ("NC", "SNC"))
    probs = probs.astype(np.float64).mean(axis=0) if probs.ndim == 3 else probs
    labels = as_labels(labels, probs.shape[1], length=len(probs))
    bins = None if bins is None else as_whole(bins, "bins", high=MOST)
    edges = None if bins is None else np.arange(bins + 1) / bins
    parts = np.zeros(4)
    for number in range(probs.shape[1]):
        parts += _murphy(probs[:, number], (labels == number).astype(float), edges)
    return BrierDecomposition(*map(float, parts))


def _murphy(forecast, happened, edges):
    """Reliability, resolution, uncertainty and the rest of one class's forecasts."""
    place = np.unique(forecast, return_inverse=True)[1] if edges is None else place_in(forecast, edges)
    forecast, count = forecast.astype(np.float64), np.bincount(place)
    filled = np.maximum(count, 1)  # empty bins weigh nothing
    said = np.bincount(place, weights=forecast) / filled
    seen = np.bincount(place, weights=happened) / filled
    weight, rate = count / len(forecast), happened.mean()
    inside = forecast - said[place]
    return np.array(
        [
            weight @ (said - seen) ** 2,
            weight @ (seen - rate) ** 2,
            rate * (1 - rate),
            np.mean(inside**2) - 2 * np.mean(inside * happened),
        ]
    )


def place_in(values, edges):
    """The right-closed bin of each value, in its own precision; 0 belongs to the first bin."""
    edges = edges.astype(values.dtype)
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)
