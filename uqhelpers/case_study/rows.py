"""The rows of a table of patients, their parts, and what differences over random parts are worth."""

import functools
from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_generator, as_number, as_real, as_whole, to_numpy
from uqhelpers.features import power_of_two

__all__ = ["PARTS", "Rows", "cancer", "diabetes", "over_splits", "own_draw", "split"]

PARTS = {"learn": 0.45, "choose": 0.15, "promise": 0.2, "report": 0.2}  # what each part of the rows is for


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a table.

    Parameters
    ----------
    features : array, shape (N, D)
        What was measured.
    targets : array, shape (N,)
        Classes as integers, or numbers.
    names : tuple of str
        Of the ``D`` columns.
    """

    features: np.ndarray
    targets: np.ndarray
    names: tuple

    def __post_init__(self):
        features, targets = to_numpy(self.features, "features"), to_numpy(self.targets, "targets")
        if features.ndim != 2 or features.shape[1] != len(self.names):
            raise ValueError(
                f"features: expected shape (rows, {len(self.names)}), a column a name, got {features.shape}"
            )
        if targets.shape != features.shape[:1]:
            raise ValueError(f"targets: expected {len(features)}, one a row, got shape {targets.shape}")

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return Rows(self.features[index], self.targets[index], self.names)


def cancer():
    """Breast lumps, ten measurements of their cells' nuclei in three forms each; 1 is malignant.

    Returns
    -------
    Rows
        569 patients, 212 of them with a malignant lump, 30 columns: mean, standard
        error and worst of ten measurements. In scikit-learn 1 is benign; here the
        event that is looked for is 1.

    References
    ----------
    Street, Wolberg and Mangasarian (1993), Nuclear feature extraction for breast
    tumor diagnosis.
    """
    features, targets, names = _read("load_breast_cancer")
    return Rows(features.copy(), 1 - targets, names)


def diabetes():
    """Patients with diabetes, ten measurements, and how far the disease is a year later.

    Returns
    -------
    Rows
        442 patients, 10 columns in their own units, targets from 25 to 346 on a
        scale without a unit.

    References
    ----------
    Efron, Hastie, Johnstone and Tibshirani (2004), Least angle regression.
    """
    features, targets, names = _read("load_diabetes", scaled=False)
    return Rows(features.copy(), targets.copy(), names)


@functools.cache
def _read(loader, **options):
    from sklearn import datasets

    table = getattr(datasets, loader)(**options)
    return table.data, table.target, tuple(map(str, table.feature_names))


def split(labels, seed, shares=None):
    """Part rows at random, each class in the same shares.

    Parameters
    ----------
    labels : array, shape (N,)
        The class of each row; all alike where there are no classes.
    seed : int or numpy.random.Generator
        Of the draw.
    shares : sequence of float, optional
        Of the parts; above 0, sum 1. By default those of ``PARTS``.

    Returns
    -------
    list of array of int
        Indices of the rows of each part, in random order. Within each class a
        part's size is its share, rounded.

    Raises
    ------
    ValueError
        If a part would be empty.
    """
    labels = to_numpy(labels, "labels")
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"labels: expected one a row, shape (rows,), got shape {labels.shape}")
    if np.isnan(labels).any():  # which equals no class: such rows would be in no part
        raise ValueError("labels: expected a class for each row, got NaN")
    shares = as_real(list(PARTS.values()) if shares is None else shares, "shares", ndim=1)
    if shares.min() <= 0 or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"shares: expected numbers above 0 with sum 1, got {shares.tolist()}")
    rng = as_generator(seed)
    found = [[] for _ in shares]
    for name in np.unique(labels):
        order = rng.permutation(np.flatnonzero(labels == name))
        ends = np.round(np.cumsum(shares[:-1]) * len(order)).astype(int)
        for part, rows in zip(found, np.split(order, ends), strict=True):
            part.append(rows)
    found = [rng.permutation(np.concatenate(part)) for part in found]
    if not all(map(len, found)):
        raise ValueError(f"shares: expected parts with at least one row, got {list(map(len, found))}")
    return found


def own_draw(register):
    """A draw of one's own: the parts of ``cancer`` by a number, and a logistic regression of the first part.

    Parameters
    ----------
    register : int
        A number from a register, for example a student's; at least 0.

    Returns
    -------
    dict of tuple of array
        For ``"choose"``, ``"promise"`` and ``"report"`` the probability of the event for
        each row, and whether it was there (bool).
    """
    from sklearn.linear_model import LogisticRegression

    rows = cancer()
    parts = dict(zip(PARTS, split(rows.targets, as_whole(register, "register", low=0)), strict=True))
    learned = rows.features[parts["learn"]]
    mean, std = learned.mean(axis=0), learned.std(axis=0)
    line = LogisticRegression(max_iter=1000).fit((learned - mean) / std, rows.targets[parts["learn"]])
    return {
        name: (
            line.predict_proba((rows.features[part] - mean) / std)[:, 1],
            rows.targets[part] == 1,
        )
        for name, part in parts.items()
        if name != "learn"
    }


def over_splits(values, learned, judged, level=0.95):
    """Mean of a figure over random splits of one data set, and the half-width of its interval.

    Two random splits share most of their rows, so their figures are not
    independent, and the usual standard error is too small. The variance of the
    mean of J splits is taken as ``(1/J + judged/learned)`` times that of one.

    Parameters
    ----------
    values : array, shape (J,)
        A figure, or the difference of two, from at least two splits.
    learned, judged : int
        Rows in the part that was learned from, and in the part the figure is of.
    level : float
        Of the interval, above 0 and below 1.

    Returns
    -------
    tuple of float
        Mean, half-width. The correction is a heuristic, not a theorem.

    References
    ----------
    Nadeau and Bengio (2003), Inference for the generalization error, section 5.
    """
    from scipy.stats import t

    values = as_real(values, "values", ndim=1)
    if len(values) < 2:
        raise ValueError(f"values: expected at least two splits, got {len(values)}")
    level = as_number(level, "level", low=0, high=1, open_low=True)
    if level == 1:
        raise ValueError("level: expected a number below 1, got 1")
    ratio = as_whole(judged, "judged") / as_whole(learned, "learned")
    count = len(values)
    unit = power_of_two(np.abs(values).max())  # squares of what is left stay inside float64
    error = unit * np.sqrt((1 / count + ratio) * (values / unit).var(ddof=1))
    return float(values.mean()), float(t.ppf((1 + level) / 2, count - 1) * error)
