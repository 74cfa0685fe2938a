"""The card of a regressor, from predictions and targets alone."""

from dataclasses import dataclass

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_own_real, as_whole
from uqhelpers.metrics._common import alike
from uqhelpers.plots.canvas import as_column
from uqhelpers.report import intervals, limits, subgroups
from uqhelpers.report.arguments import as_date, as_details, as_sentence
from uqhelpers.report.card import Card
from uqhelpers.report.classification import as_level, as_open_share
from uqhelpers.report.pages import regression_page
from uqhelpers.report.words import pair

__all__ = ["regression"]

PARTS = 5  # by the size of the prediction
LARGE = 0.9  # without intervals, errors above this quantile count as large


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that the page of a regressor is written from."""

    title: str
    date: str | None
    said: dict
    missing: list
    level: float
    seed: int
    unit: str | None
    promised: float | None
    gaussian: bool
    given_ends: bool
    numbers: dict
    mean: np.ndarray
    targets: np.ndarray
    ends: tuple | None
    place: np.ndarray | None
    parts: object
    part_numbers: dict
    groupings: list
    judged: list

    @property
    def count(self):
        return len(self.targets)


def regression(
    mean,
    targets,
    *,
    title,
    scale=None,
    lower=None,
    upper=None,
    promised=None,
    unit=None,
    groups=None,
    details=None,
    level=0.95,
    seed=0,
    date=None,
):
    """The card of a regressor, computed from its predictions.

    Parameters
    ----------
    mean : array, shape (N,)
        Predictions, of inputs that neither trained the model nor chose anything about it.
    targets : array, shape (N,)
        What came true.
    title : str
        What the card is of.
    scale : array, shape (N,), or float, optional
        Standard deviation of a new observation, above 0, if each prediction is a
        Gaussian.
    lower, upper : array, shape (N,), optional
        Ends of intervals, both or neither. With ``scale`` alone they are the
        central ones of the Gaussians.
    promised : float, optional
        The coverage that the intervals promise, above 0 and below 1; asked for with
        ``lower`` and ``upper``, .9 for those of the Gaussians.
    unit : str, optional
        Of the targets.
    groups : array, shape (N,), or dict of such arrays, optional
        As in :func:`classification`.
    details : dict of str, optional
        As in :func:`classification`.
    level : float
        Of all intervals around figures, above .5 and below 1.
    seed : int
        For the draws that say what chance alone would show, and for the points of a figure.
    date : str or date, optional
        Shown if given; nothing is read off the clock.

    Returns
    -------
    Card
        The same arguments give the same page, byte for byte.

    Raises
    ------
    ValueError
        If an interval ends before it begins, or ``promised`` is given without intervals.

    References
    ----------
    Mitchell et al. (2019), Model cards for model reporting; Gneiting, Balabdaoui
    and Raftery (2007), Probabilistic forecasts, calibration and sharpness, for
    the histogram of places; Gneiting and Raftery (2007), Strictly proper scoring
    rules, prediction, and estimation, section 6.2, for the score of intervals.
    """
    title, date, (said, missing) = as_sentence(title, "title"), as_date(date), as_details(details)
    level, seed = as_level(level), as_whole(seed, "seed", low=0)
    unit = None if unit is None else as_sentence(unit, "unit")
    mean = as_column(mean, "mean")
    targets = as_column(targets, "targets", len(mean))
    groupings = subgroups.as_groupings(groups, len(mean))
    scale = as_scale(scale, len(mean))
    ends, promised = as_ends(mean, scale, lower, upper, promised)
    error = mean - targets
    numbers = {
        "RMSE": intervals.root_mean_square(error, level),
        "mean absolute error": intervals.mean(np.abs(error), level),
        "bias": intervals.mean(error, level),
    }
    missed = None
    if scale is not None:
        numbers |= of_gaussians(error, scale, level)
    if ends is not None:
        missed, found = of_intervals(ends, targets, promised, level)
        numbers |= found
    parts = by_size(mean)
    part_numbers = by_part([parts], error, missed, level)
    numbers |= by_part(groupings, error, missed, level)
    judged = subgroups.judged(groupings, large_errors(error) if missed is None else missed, seed)
    evidence = Evidence(
        title=title,
        date=date,
        said=said,
        missing=missing,
        level=level,
        seed=seed,
        unit=unit,
        promised=promised,
        gaussian=scale is not None,
        given_ends=lower is not None,
        numbers=numbers,
        mean=mean,
        targets=targets,
        ends=ends,
        place=None if scale is None else places(error, scale),
        parts=parts,
        part_numbers=part_numbers,
        groupings=groupings,
        judged=judged,
    )
    sentences = limits.of_regression(evidence)
    html, fragment = regression_page(evidence, sentences)
    return Card(title, numbers, judged, sentences, missing, html, fragment)


def as_scale(scale, length):
    """Standard deviations, one an input."""
    if scale is None:
        return None
    array = as_own_real(scale, "scale").astype(np.float64)
    array = np.full(length, float(array)) if array.ndim == 0 else as_column(array, "scale", length)
    if array.min() <= 0:
        raise ValueError(f"scale: expected standard deviations above 0, got {array.min():.4g}")
    return array


def as_ends(mean, scale, lower, upper, promised):
    """Ends of intervals in their own precision, and the coverage that they promise."""
    if (lower is None) != (upper is None):
        absent = "lower" if lower is None else "upper"
        raise ValueError(f"{absent}: expected both ends of the intervals or neither, got one")
    if lower is None:
        if scale is None:
            if promised is not None:
                raise ValueError(f"promised: expected none without intervals or a scale, got {promised!r}")
            return None, None
        from scipy.stats import norm

        promised = as_open_share(0.9 if promised is None else promised, "promised")
        reach = norm.ppf((1 + promised) / 2) * scale
        return (mean - reach, mean + reach), promised
    if promised is None:
        raise ValueError("promised: expected the coverage that the intervals promise, such as .9, got None")
    ends = []
    for name, given in (("lower", lower), ("upper", upper)):
        array = as_own_real(given, name)
        array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        if array.shape != mean.shape:
            raise ValueError(f"{name}: expected {len(mean)} ends, one an input, got shape {array.shape}")
        ends.append(array)
    if (ends[0] > ends[1]).any():
        raise ValueError("upper: expected no upper end below the lower end of its interval, got some")
    return tuple(ends), as_open_share(promised, "promised")


def of_gaussians(error, scale, level):
    """Likelihood and CRPS, each with the interval of a mean."""
    from scipy.special import ndtr
    from scipy.stats import norm

    with np.errstate(over="ignore"):
        z = error / scale
        likelihood = np.log(scale) - norm.logpdf(z)
        ranked = z * (2 * ndtr(z) - 1) + 2 * norm.pdf(z) - np.pi**-0.5
    return {
        "negative log-likelihood": intervals.mean(likelihood, level),
        "CRPS": intervals.mean(scale * ranked, level),
    }


def places(error, scale):
    """Where in its predicted Gaussian each target fell, from 0 to 1."""
    from scipy.special import ndtr

    with np.errstate(over="ignore"):
        return ndtr(-error / scale)


def of_intervals(ends, targets, promised, level):
    """Which targets were missed; coverage, width, and the proper score that weighs both."""
    lower, upper = ends
    # All are compared in the coarsest precision among them, as metrics.interval_coverage does.
    low, high, truth = alike(lower, upper, targets)
    missed = (truth < low) | (truth > high)
    low, high = lower.astype(np.float64), upper.astype(np.float64)
    outside = np.maximum(low - targets, 0) + np.maximum(targets - high, 0)
    return missed, {
        "coverage": intervals.share((~missed).sum(), len(missed), level),
        "width": intervals.mean(high - low, level),
        "interval score": intervals.mean(high - low + 2 / (1 - promised) * outside, level),
    }


def large_errors(error):
    """The tenth of the inputs with the largest errors."""
    size = np.abs(error)
    return size > np.quantile(size, LARGE)


def by_size(mean):
    """The inputs parted by the size of their prediction, equal predictions together."""
    edges = np.unique(np.quantile(mean, np.arange(1, PARTS) / PARTS))
    edges = edges[edges < mean.max()]
    place = np.searchsorted(edges, mean, side="left")
    ends = [mean[place == number] for number in range(len(edges) + 1)]
    names = [pair(part.min(), part.max()) if len(part) else "" for part in ends]
    kept = [number for number, part in enumerate(ends) if len(part)]
    place = np.searchsorted(kept, place)
    names = [f"prediction {number + 1} of {len(kept)}: {names[k]}" for number, k in enumerate(kept)]
    return subgroups.Grouping(names, place)


def by_part(groupings, error, missed, level):
    """Size and sign of the errors, and coverage, of each part of the inputs."""
    found = {}
    for grouping in groupings:
        order = np.argsort(grouping.place, kind="stable")
        parts = np.split(order, np.cumsum(grouping.counts)[:-1])
        for name, part in zip(grouping.names, parts, strict=True):
            found[f"RMSE[{name}]"] = intervals.root_mean_square(error[part], level)
            found[f"bias[{name}]"] = intervals.mean(error[part], level)
            if missed is not None:
                found[f"coverage[{name}]"] = intervals.share((~missed[part]).sum(), len(part), level)
    return found
