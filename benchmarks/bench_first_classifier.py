"""Tables of classes and kernel densities at size, beside scikit-learn in the same run.

In each row ``ratio`` is our time over the baseline's: below 1 we are faster.
The limits: one count of whole numbers, and of densities one product of matrices
and an exponential for each pair.
"""

import numpy as np

from benchmarks.limits import Limit, elementwise, product, several
from benchmarks.timing import row
from uqhelpers import first_classifier


def rows(inputs=1_000_000, known=5_000, new=500, repeats=3):
    """Measure everything once, on one thread; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs : int
        Predictions whose table of classes is made.
    known, new : int
        Points of the density, and inputs whose density is asked.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``.
    """
    from sklearn.metrics import precision_recall_fscore_support
    from sklearn.neighbors import KernelDensity
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=inputs)
    predictions = np.where(rng.random(inputs) < 0.9, labels, rng.integers(10, size=inputs))
    table = []
    with threadpool_limits(1):
        table.append(
            row(
                "precision, recall and F1 of ten classes",
                lambda: first_classifier.class_scores(predictions, labels, 10),
                "scikit-learn",
                lambda: precision_recall_fscore_support(labels, predictions),
                repeats,
                f"{inputs:,} predictions, one thread; bound 1",
                Limit(
                    "one count of as many whole numbers",
                    lambda: np.bincount(labels),
                    why="labels and predictions are checked, and made one number a pair",
                ),
            )
        )
        for dimension in (2, 784):
            points, asked = rng.normal(size=(known, dimension)), rng.normal(size=(new, dimension))
            width = 0.5 * dimension**0.5
            ours = first_classifier.Familiarity(width).fit(points)
            theirs = KernelDensity(bandwidth=width).fit(points)
            pairs = np.full((new, known), -1.0)
            limit = Limit(
                "one product of matrices, and one exponential for each pair of points",
                several(product(new, dimension, known), elementwise(np.exp, pairs)),
                why="distances are made from the product, looked over for lost digits, summed as logarithms",
            )
            table.append(
                row(
                    f"kernel density, {dimension} dimensions",
                    lambda ours=ours, asked=asked: ours.log_density(asked),
                    "scikit-learn, KernelDensity",
                    lambda theirs=theirs, asked=asked: theirs.score_samples(asked),
                    repeats,
                    f"{new:,} inputs, {known:,} known points, one thread, float64; bound 1",
                    limit,
                )
            )
    return table
