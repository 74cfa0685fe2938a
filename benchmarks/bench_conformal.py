"""Conformal sets and intervals of a million inputs beside MAPIE, and entropies of many boxes.

In each row ``ratio`` is our time over the baseline's: below 1 we are faster. A
baseline that is not installed leaves its time empty (``make peers`` makes an
environment that holds it). Both get one thread and the same calibration data,
and both are timed on prediction alone. MAPIE asks a classifier for its
probabilities; ours is handed the same array. ``same`` says in which share of
the inputs both answer alike. The limits: a comparison of every number for sets
by a threshold, a sort of every row for sets by cumulated probabilities, two
columns copied for intervals, sorts and logarithms for entropies.
"""

import numpy as np

from benchmarks.limits import Limit, elementwise, several
from benchmarks.timing import installed, row
from uqhelpers import conformal, credal

BOUNDS = {"LAC": 8, "APS": 4, "RAPS": 4}  # times as fast as MAPIE, which is handed the probabilities too
BASELINE = "MAPIE"
THEIRS = {"LAC": "lac", "APS": "aps", "RAPS": "raps"}
OURS = {
    "LAC": {"score": "lac"},
    "APS": {"score": "aps"},
    "RAPS": {"score": "raps", "penalty": 0.01, "free": 1},
}
CHECKED = "rows are checked to be distributions: a pass of sums, and one for the smallest number"
CUMULATED = "what is sorted is also cumulated, compared, and put back into the order of the classes"
LOOKED_OVER = "the ends are looked over for NaN"
LEVELLED = "the bounds are put in order, their slopes cumulated twice, and the level looked up and cut off"
SEARCHED = (
    "the least entropy lies at one of thousands of vertices: a branch and bound cuts boxes in two until "
    "none can be better, each time with a sort, sums and logarithms"
)


class Given:
    """A classifier or regressor, as scikit-learn knows them, whose predictions are its inputs."""

    def __init__(self, classes=0):
        self.classes_ = np.arange(classes)
        self.fitted_ = True

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1) if len(self.classes_) else X[:, 0]


class Column(Given):
    """A regressor whose prediction is a column of its inputs."""

    def __init__(self, column):
        super().__init__()
        self.column = column

    def predict(self, X):
        return X[:, self.column]


def their_sets(name, probs, labels):
    """MAPIE's classifier after its calibration, and a function from probabilities to sets."""
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import ClassifierMixin

    estimator = type("Given", (ClassifierMixin, Given), {})(probs.shape[1])
    found = SplitConformalClassifier(
        estimator, confidence_level=0.9, conformity_score=THEIRS[name], prefit=True, random_state=0
    )
    found.conformalize(probs, labels)
    return lambda new: found.predict_set(new)[1][:, :, 0]


def their_intervals(ends, y):
    """MAPIE's conformalised quantile regression after its calibration, likewise."""
    from mapie.regression import ConformalizedQuantileRegressor
    from sklearn.base import RegressorMixin

    kind = type("Column", (RegressorMixin, Column), {})
    middle = np.column_stack([ends, ends.mean(axis=1)])
    found = ConformalizedQuantileRegressor([kind(0), kind(1), kind(2)], confidence_level=0.9, prefit=True)
    found.conformalize(middle, y)
    return lambda new: found.predict_interval(new, symmetric_correction=True)[1][:, :, 0]


def copied(columns):
    """Two columns copied: what a regression of quantiles cannot go below."""
    out = np.empty(columns.shape)
    out[:, 0] = columns[:, 0]
    out[:, 1] = columns[:, 1]
    return out


def rows(inputs=1_000_000, classes=10, boxes=100_000, repeats=3):
    """Measure all; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs, classes : int
        Predictions that are turned into sets and intervals.
    boxes : int
        Boxes whose entropies are bounded.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``; beside MAPIE also ``same``.
    """
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    powers = np.exp(2 * rng.standard_normal((inputs + 1000, classes)))
    probs = powers / powers.sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.random((len(probs), 1))).sum(axis=1).clip(max=classes - 1)
    known, new = (probs[:1000], labels[:1000]), np.ascontiguousarray(probs[1000:])
    size, there = f"{inputs:,} x {classes}, one thread", installed("mapie")
    table = []
    sorted_rows = Limit("one sort of every row", lambda: np.sort(new, axis=1), why=CUMULATED)
    least = {
        "LAC": Limit("one comparison of every number", lambda: new >= 0.1, why=CHECKED),
        "APS": sorted_rows,
        "RAPS": sorted_rows,
    }
    with threadpool_limits(1):
        for name, options in OURS.items():
            ours = conformal.SplitClassifier(**options).fit(*known)
            theirs = their_sets(name, *known) if there else None
            note, same = f"{size}; bound {BOUNDS[name]} x", None
            if there:
                some = new[:20_000]
                same = float(np.mean((ours.predict(some) == theirs(some)).all(axis=1)))
                note += f"; the same sets for {same:.1%} of the inputs"
            table.append(
                row(
                    f"{name} sets",
                    lambda ours=ours: ours.predict(new),
                    BASELINE,
                    (lambda theirs=theirs: theirs(new)) if there else None,
                    8 * repeats if name == "LAC" else repeats,  # milliseconds: a neighbour disturbs them
                    note,
                    least[name],
                )
            )
            table[-1]["same"] = same
        ends = np.sort(rng.standard_normal((inputs + 1000, 2)), axis=1)
        y, new_ends = rng.standard_normal(1000), ends[1000:]
        fitted = conformal.SplitRegressor("cqr").fit(ends[:1000], y)
        theirs, note, same = None, size, None
        if there:
            theirs, three = (
                their_intervals(ends[:1000], y),
                np.column_stack([new_ends, new_ends.mean(axis=1)]),
            )
            gap = np.abs(fitted.predict(new_ends[:20_000]) - theirs(three[:20_000])).max()
            note += f"; ends at most {gap:.1g} apart"
            same = float(gap < 1e-9)
        two_columns = Limit("two columns copied", lambda: copied(new_ends), why=LOOKED_OVER)
        table.append(
            row(
                "CQR intervals",
                lambda: fitted.predict(new_ends),
                BASELINE,
                (lambda: theirs(three)) if there else None,
                3 * repeats,
                note,
                two_columns,
            )
        )
        table[-1]["same"] = same
        table.append(
            row(
                "CQR intervals, beside copying",
                lambda: fitted.predict(new_ends),
                "copying two columns",
                lambda: copied(new_ends),
                3 * repeats,
                f"{size}; at most twice the copying",
                two_columns,
            )
        )
        for kind, box in many_boxes(boxes, classes, rng).items():
            for name in ("lower", "upper"):
                bound = getattr(credal, f"{name}_entropy")
                table.append(
                    row(
                        f"{name} entropy, {kind}",
                        lambda bound=bound, box=box: bound(box),
                        "",
                        None,
                        repeats,
                        f"{boxes:,} boxes of {classes} classes; bound 2 s",
                        entropy_limit(name, box),
                    )
                )
    return table


def entropy_limit(name, box):
    """The flattest member of a box asks for its bounds in order, and any member for its logarithms."""
    logarithms = elementwise(np.log, np.maximum(box.lower, 1e-9))
    if name == "lower":
        return Limit("one logarithm for each class of a box", logarithms, why=SEARCHED)
    ends = np.concatenate([box.lower, box.upper], axis=1)
    ordered = several(logarithms, lambda: np.argsort(ends, axis=1))
    words = "one sort of the bounds of a box with their places, and one logarithm for each class"
    return Limit(words, ordered, why=LEVELLED)


def many_boxes(boxes, classes, rng):
    """Boxes of two kinds: around random distributions, and of five random members."""
    centre = rng.dirichlet(np.ones(classes), boxes)
    reach = rng.uniform(0, 0.3, centre.shape)
    return {
        "wide": credal.Box(np.maximum(centre - reach, 0), np.minimum(centre + reach, 1)),
        "of five members": credal.from_ensemble(rng.dirichlet(np.ones(classes), (5, boxes))),
    }
