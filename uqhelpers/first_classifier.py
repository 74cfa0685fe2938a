"""A first classifier, looked at from all sides: class by class, error by error, and where its inputs lie.

``confusion_matrix`` and ``class_scores`` say which classes an accuracy hides,
``in_another_mix`` moves probabilities to where the classes come in other shares,
``most_confident_errors`` finds the errors that no threshold will catch.
``neighbours_kept`` says what a picture in the plane of a network's last hidden
layer (``training.features``) is worth. ``Familiarity`` is a kernel density: a first idea of
whether an input is like those one has seen, and of how such ideas go wrong.
"""

import dataclasses
import warnings

import numpy as np

from uqhelpers._checks import as_distributions, as_labels, as_number, as_real, as_whole
from uqhelpers.features import NearestNeighbours, SquaredDistances, as_arrays, power_of_two

__all__ = [
    "ClassScores",
    "Familiarity",
    "class_scores",
    "confusion_matrix",
    "in_another_mix",
    "most_confident_errors",
    "neighbours_kept",
]

MOST_CLASSES = 10_000  # the table has the square of it
WINDOWS = 30  # in which a bandwidth is looked for, each 400 times as far as the one before


# --- class by class ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ClassScores:
    """Precision, recall and F1 of every class.

    Attributes
    ----------
    precision : array, shape (C,)
        Of the inputs that were called this class, the share that belong to it,
        in [0, 1]; NaN for a class that was never predicted.
    recall : array, shape (C,)
        Of the inputs of this class, the share that were called so, in [0, 1];
        NaN for a class without inputs.
    f1 : array, shape (C,)
        Their harmonic mean, ``2 TP / (2 TP + FP + FN)``. 0 for a class that has
        inputs and was never predicted; NaN for one that neither has inputs nor
        was predicted.
    support : array of int, shape (C,)
        How many inputs each class has.
    accuracy : float
        Share of right predictions, whatever their class.
    """

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    support: np.ndarray
    accuracy: float

    @property
    def macro_f1(self):
        """The mean F1, each class counting the same; classes without an F1 are left out."""
        return float(np.nanmean(self.f1))

    @property
    def balanced_accuracy(self):
        """The mean recall, each class counting the same; classes without inputs are left out."""
        return float(np.nanmean(self.recall))


def confusion_matrix(predictions, labels, classes):
    """How often each class was taken for each.

    Parameters
    ----------
    predictions : array of int, shape (N,)
        Predicted classes, from 0 to ``classes - 1``.
    labels : array of int, shape (N,)
        True classes.
    classes : int
        Number of classes, at most 10,000.

    Returns
    -------
    array of int64, shape (classes, classes)
        Rows are the true classes, columns the predicted ones: the entry (3, 5)
        counts the threes that were called a five.
    """
    classes = as_whole(classes, "classes", low=2, high=MOST_CLASSES)
    labels = as_labels(labels, classes)
    predictions = as_labels(predictions, classes, "predictions", length=len(labels))
    return np.bincount(labels * classes + predictions, minlength=classes**2).reshape(classes, classes)


def class_scores(predictions, labels, classes, priors=None):
    """Precision, recall and F1 of every class, with the accuracy and the mean over the classes.

    Parameters
    ----------
    predictions, labels, classes : as in :func:`confusion_matrix`
    priors : array, shape (classes,), optional
        The scores as they would be if the classes came in these proportions (any
        positive factor of them), and each class were recognised as well as here.
        Recall does not depend on the mix of the classes, not even on classes that
        it leaves out; everything else does.

    Returns
    -------
    ClassScores
        What is undefined is NaN, with a warning, and never 0 or 1.

    Raises
    ------
    ValueError
        If ``priors`` asks for a class of which there are no inputs.

    Warns
    -----
    RuntimeWarning
        If a class was never predicted or has no inputs.

    References
    ----------
    van Rijsbergen (1979), Information retrieval: F1. Opitz and Burst (2019), Macro
    F1 and macro F1: the mean of the classes' F1, and not the F1 of the means.
    """
    counts = confusion_matrix(predictions, labels, classes)
    support = counts.sum(axis=1)
    table = counts if priors is None else _in_proportion(counts, priors)
    hits, said, there = np.diag(table), table.sum(axis=0), table.sum(axis=1)
    for what, total in (("precision: never predicted", said), ("recall: without inputs", support)):
        if (total == 0).any():
            missing = np.flatnonzero(total == 0).tolist()
            warnings.warn(f"{what}, NaN for class {missing}", RuntimeWarning, stacklevel=2)
    with np.errstate(invalid="ignore"):
        precision, recall, f1 = hits / said, np.diag(counts) / support, 2 * hits / (said + there)
    return ClassScores(precision, recall, f1, support, float(hits.sum() / table.sum()))


def _in_proportion(counts, priors):
    """The table of counts with its rows weighted, so that the classes come as ``priors`` says."""
    priors = _as_shares(priors, "priors", len(counts))
    support = counts.sum(axis=1)
    if np.any((priors > 0) & (support == 0)):
        missing = np.flatnonzero((priors > 0) & (support == 0)).tolist()
        raise ValueError(f"priors: expected classes that occur in labels, got no inputs of class {missing}")
    return counts * (priors / priors.sum() / np.maximum(support, 1))[:, None]


def in_another_mix(probs, old, new):
    """Class probabilities as they are where the classes come in other shares (label shift).

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
        Class probabilities, right where the classes come in the shares ``old``.
    old, new : array, shape (C,)
        Shares of the classes (any positive factor of them) in training and in
        use; inputs of each class are to look alike in both. Prices of an error,
        by true class, multiply ``new``.

    Returns
    -------
    array, shape of ``probs``, float64

    Raises
    ------
    ValueError
        If the shares are no shares, ``new`` has a class that ``old`` lacks, or an
        input can be of no class that ``new`` has.

    References
    ----------
    Saerens, Latinne and Decaestecker (2002), Adjusting the outputs of a classifier
    to new a priori probabilities.
    """
    probs = as_distributions(probs, ("NC", "SNC"))
    old, new = (_as_shares(*pair, probs.shape[-1]) for pair in ((old, "old"), (new, "new")))
    if np.any((new > 0) & (old == 0)):
        lacking = np.flatnonzero((new > 0) & (old == 0)).tolist()
        raise ValueError(f"old: expected a share of every class that new has, got none of class {lacking}")
    with np.errstate(divide="ignore", invalid="ignore"):  # in logs, as shares may lie far apart
        logs = np.log(probs) + np.where(new > 0, np.log(new) - np.log(old), -np.inf)
    largest = logs.max(axis=-1, keepdims=True)
    if np.isneginf(largest).any():
        raise ValueError("probs: expected some probability of a class that new has, got a row without any")
    weighted = np.exp(logs - largest)
    return weighted / weighted.sum(axis=-1, keepdims=True)


def _as_shares(values, name, classes):
    """Shares of at least 0, the largest of them 1."""
    values = as_real(values, name, ndim=1)
    if len(values) != classes or values.min() < 0 or values.max() == 0:
        raise ValueError(
            f"{name}: expected {classes} proportions of at least 0, not all 0, got {values.tolist()}"
        )
    return values / values.max()  # their sum may leave float64


# --- error by error ---------------------------------------------------------------------------------------


def most_confident_errors(probs, labels, k=10):
    """Which wrong predictions were made with the highest confidence.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
    labels : array of int, shape (N,)
        True classes.
    k : int
        How many at most.

    Returns
    -------
    array of int, shape (min(k, errors),)
        Places of the errors, the most confident first; of equals the first one
        first. Empty if there is no error.
    """
    probs = as_distributions(probs, ("NC", "SNC"))
    probs = probs.mean(axis=0) if probs.ndim == 3 else probs
    labels = as_labels(labels, probs.shape[1], length=len(probs))
    k = as_whole(k, "k")
    wrong = np.flatnonzero(probs.argmax(axis=1) != labels)
    return wrong[np.argsort(-probs[wrong].max(axis=1), kind="stable")[:k]]


# --- where the inputs lie ---------------------------------------------------------------------------------


def neighbours_kept(points, shown, k=10):
    """The share of each point's nearest neighbours that are still its neighbours in a picture.

    Parameters
    ----------
    points : array, shape (N, D)
        Where the inputs are; further axes (images) are flattened.
    shown : array, shape (N, P)
        Where a picture puts them, for instance in the plane.
    k : int
        How many neighbours of each are looked at, below ``N``.

    Returns
    -------
    float
        In [0, 1]: 1 if every point has the same ``k`` neighbours in both, and about
        ``k / (N - 1)`` for a picture that has nothing to do with the points.

    References
    ----------
    Venna and Kaski (2001), Neighborhood preservation in nonlinear projection
    methods; Lee and Verleysen (2009), Quality assessment of dimensionality
    reduction: the share is their Q_NX(k).
    """
    points, shown = _as_points(points, "points"), _as_points(shown, "shown")
    if len(shown) != len(points):
        raise ValueError(f"shown: expected {len(points)} places, one a point, got {len(shown)}")
    k = as_whole(k, "k", high=len(points) - 1)
    near, seen = (NearestNeighbours(places).find(k=k)[1] for places in (points, shown))
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(near, seen, strict=True)]))


class Familiarity:
    """A Gaussian kernel density: a small bell on every known point, and their average.

    How dense the known points lie around an input is a first idea of how familiar
    it is. Read the chapter before believing it: a density of few components of the
    pixels takes smooth and washed-out images for the most familiar of all.

    Parameters
    ----------
    bandwidth : float, optional
        The standard deviation of the bells, in the units of the points. Without it
        ``fit`` chooses the one under which held-out points are most likely.

    Attributes
    ----------
    bandwidth_ : float
        The one in use, after ``fit``.

    References
    ----------
    Rosenblatt (1956), Remarks on some nonparametric estimates of a density function;
    Parzen (1962), On estimation of a probability density function and mode.
    """

    def __init__(self, bandwidth=None):
        if isinstance(bandwidth, bool | np.bool_):
            raise ValueError(f"bandwidth: expected a number, got {bandwidth}")
        self.bandwidth = (
            None if bandwidth is None else as_number(bandwidth, "bandwidth", low=0, open_low=True)
        )

    def fit(self, points, held_out=None):
        """Remember the points; choose a bandwidth if none was given.

        Parameters
        ----------
        points : array, shape (N, D), or iterable of batches
            What is known; further axes (images) are flattened. Or a ``DataLoader``
            of pairs, the second of which (labels) are left aside.
        held_out : array, shape (M, D), or iterable of batches, optional
            Other points of the same kind, for the choice of the bandwidth.

        Returns
        -------
        Familiarity, itself

        Raises
        ------
        ValueError
            If a bandwidth has to be chosen and there is no ``held_out``, or only
            copies of the points.

        Warns
        -----
        RuntimeWarning
            If a tenth of ``held_out`` are copies of the points, which pull the
            bandwidth towards 0, or the search for it ended where it was to end.
        """
        points, held_out = as_arrays(points)[0], as_arrays(held_out)[0]
        points = _as_points(points, "points")
        if self.bandwidth is None and held_out is None:
            raise ValueError("held_out: expected points to choose the bandwidth by, got None")
        bandwidth = self.bandwidth
        if bandwidth is None:
            bandwidth = _choose(points, _as_points(held_out, "held_out", points.shape[1]))
        # From here on nothing can fail: what could not be fitted again stays what it was.
        self._around, self._unit = _made_ready(points, bandwidth)
        self.bandwidth_ = bandwidth
        return self

    def log_density(self, points):
        """The logarithm of the density; higher is more familiar.

        Parameters
        ----------
        points : array, shape (M, D), or images of D pixels

        Returns
        -------
        array, shape (M,), float64
            In nats, up to the volume's unit: densities of other dimensions or other
            units cannot be compared. Minus infinity where float64 ends.
        """
        points = _as_points(points, "points", self._known().shape[1])
        return _log_density(points, self._around, self._unit, self.bandwidth_)

    def score(self, points):
        """Minus the log-density: a score of foreignness, higher is more foreign. See ``log_density``."""
        return -self.log_density(points)

    def grid(self, bounds=None, resolution=200):
        """The log-density on a grid of the plane, as contours are drawn from it.

        Parameters
        ----------
        bounds : (left, right, bottom, top), optional
            By default those of the known points and three bandwidths more.
        resolution : int
            Places along each side.

        Returns
        -------
        (array, shape (R,), array, shape (R,), array, shape (R, R))
            Horizontal places, vertical places, and the log-density, a row for each
            vertical place.
        """
        resolution = as_whole(resolution, "resolution", low=2)
        known = self._known()
        if known.shape[1] != 2:
            raise ValueError(
                f"points: expected points in the plane for a grid, got dimension {known.shape[1]}"
            )
        if bounds is None:
            margin = 3 * self.bandwidth_
            low, high = known.min(axis=0) * self._unit - margin, known.max(axis=0) * self._unit + margin
            bounds = low[0], high[0], low[1], high[1]
        bounds = as_real(bounds, "bounds", ndim=1)
        if len(bounds) != 4 or bounds[0] >= bounds[1] or bounds[2] >= bounds[3]:
            raise ValueError(f"bounds: expected (left, right, bottom, top), got {bounds.tolist()}")
        columns = np.linspace(bounds[0], bounds[1], resolution)
        rows = np.linspace(bounds[2], bounds[3], resolution)
        places = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
        return columns, rows, self.log_density(places).reshape(resolution, resolution)

    def _known(self):
        """The points in their unit."""
        if not hasattr(self, "_around"):
            raise ValueError("points: nothing is known yet, call fit first")
        return self._around.known


def _choose(points, held_out):
    """The bandwidth under which the held-out points are most likely, to within a few percent."""
    nearest = NearestNeighbours(points).find(held_out)[0][:, 0]
    copies = np.mean(nearest == 0)
    if copies == 1:
        raise ValueError("held_out: expected points that differ from the known ones, got copies of them")
    if copies >= 0.1:
        warnings.warn(
            f"held_out: {copies:.0%} of these points are copies of known ones, under which the bandwidth "
            "is too small for new points",
            RuntimeWarning,
            stacklevel=3,
        )
    # In the plane the best is several times the nearest distance, in many dimensions below it, on a line
    # far above it: where the best is an end of where one looked, one looks on from there.
    low, high = np.median(nearest[nearest > 0]) * np.array([1 / 20, 20])
    for _ in range(WINDOWS):
        candidates, fits = _fits(points, held_out, low, high)
        best = candidates[int(np.argmax(fits))]
        if np.isneginf(fits[-1]) or best == candidates[-1]:  # too narrow for some point, all of them
            low, high = high, high * (high / low)
        elif best == candidates[0]:
            low, high = low * (low / high), low
        else:
            break
    else:
        warnings.warn(
            f"the search for a bandwidth ended at {best:.3g}, the end of where it looked: "
            "the best lies beyond; give a bandwidth",
            RuntimeWarning,
            stacklevel=3,
        )
    step = candidates[1] / candidates[0]
    candidates, fits = _fits(points, held_out, best / step, best * step)
    return float(candidates[int(np.argmax(fits))])


def _fits(points, held_out, low, high, steps=25):
    """Bandwidths from ``low`` to ``high``, and the log-density of all held-out points under each."""
    candidates = np.geomspace(low, high, steps)
    around, unit = _made_ready(points, high)
    return candidates, _log_density(held_out, around, unit, candidates).sum(axis=1)


def _made_ready(known, bandwidth):
    """What distances are asked of, in a unit in which their squares stay inside float64; and the unit."""
    with np.errstate(over="ignore"):
        unit = power_of_two(np.abs(known - known[0]).max() + bandwidth)
    return SquaredDistances(known / unit), unit


def _log_density(points, around, unit, bandwidths):
    """Log of the mean of Gaussians around the known points; a row a bandwidth, if there are several."""
    points, widths, dimension = points / unit, np.atleast_1d(bandwidths) / unit, around.known.shape[1]
    parts = [[_log_bells(squares, width, dimension) for width in widths] for squares in around.blocks(points)]
    logs = np.concatenate(parts, axis=1) - dimension * np.log(unit)
    return logs if np.ndim(bandwidths) else logs[0]


def _log_bells(squares, bandwidth, dimension):
    """Log of the mean of Gaussians at these squared distances, a row an input."""
    nearest = squares.min(axis=1, keepdims=True)  # its bell is taken out: the others can only be lower
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = bandwidth < 1e-150  # the square of it is 0: it divides twice
        scale = 0.5 / bandwidth if narrow else 0.5 / bandwidth**2
        bells = (nearest - squares) / bandwidth if narrow else nearest - squares
        bells *= scale
        total = np.exp(bells, out=bells).sum(axis=1)
        away = (nearest[:, 0] / bandwidth if narrow else nearest[:, 0]) * scale
    volume = 0.5 * dimension * np.log(2 * np.pi) + dimension * np.log(bandwidth)
    logs = np.log(total) - away - np.log(squares.shape[1]) - volume
    return np.where(np.isinf(away), -np.inf, logs)


def _as_points(points, name, dimension=None):
    """Finite points (N, D); what has more axes is flattened."""
    points = as_real(points, name)
    if points.ndim < 2:
        raise ValueError(f"{name}: expected shape (inputs, dimensions), got {points.shape}")
    points = points.reshape(len(points), -1)
    if dimension is not None and points.shape[1] != dimension:
        raise ValueError(f"{name}: expected dimension {dimension}, got {points.shape[1]}")
    return points
