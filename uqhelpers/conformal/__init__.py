"""Conformal prediction: sets and intervals that hold the truth as often as promised.

All of it rests on ranks: among scores that are exchangeable, the rank of the
next one is uniform. ``quantile`` finds the score at the right rank, in integer
arithmetic; ``SplitClassifier`` and ``SplitRegressor`` make sets and intervals
of any model's predictions; ``jackknife_plus`` and ``cv_plus`` do without data
set apart; ``AdaptiveConformal`` follows a stream, ``control_risk`` bounds
other losses than a miss. ``coverage_law`` says how far the coverage of one
calibration set may lie from the promise, ``coverage_report`` what was reached.

Functions take NumPy, torch or JAX arrays. A *score* is higher for what conforms
less. Wrong input raises a ``ValueError`` that names the argument.
"""

from uqhelpers.conformal import classification, ranks, regression, reports, risks, streams
from uqhelpers.conformal.classification import *  # noqa: F403
from uqhelpers.conformal.ranks import *  # noqa: F403
from uqhelpers.conformal.regression import *  # noqa: F403
from uqhelpers.conformal.reports import *  # noqa: F403
from uqhelpers.conformal.risks import *  # noqa: F403
from uqhelpers.conformal.streams import *  # noqa: F403

__all__ = [
    *ranks.__all__,
    *classification.__all__,
    *regression.__all__,
    *streams.__all__,
    *risks.__all__,
    *reports.__all__,
]
