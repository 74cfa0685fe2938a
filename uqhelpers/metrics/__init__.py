"""Measures of uncertainty, of calibration, and of what uncertainty is worth.

Metrics take NumPy, torch or JAX arrays and return float64 NumPy arrays, or
Python floats. Sampled class probabilities have the shape ``(S, N, C)``:
samples, inputs, classes; single ones ``(N, C)``. What is called a *score* is
higher for more uncertain; ``max_probability`` and ``margin`` keep their own
sign. Wrong input raises a ``ValueError`` that names the argument.
"""

from uqhelpers.metrics import (
    accumulate,
    calibration,
    decomposition,
    detection,
    regression,
    reliability,
    scoring,
    selective,
    temperature,
)
from uqhelpers.metrics.accumulate import *  # noqa: F403
from uqhelpers.metrics.calibration import *  # noqa: F403
from uqhelpers.metrics.decomposition import *  # noqa: F403
from uqhelpers.metrics.detection import *  # noqa: F403
from uqhelpers.metrics.regression import *  # noqa: F403
from uqhelpers.metrics.reliability import *  # noqa: F403
from uqhelpers.metrics.scoring import *  # noqa: F403
from uqhelpers.metrics.selective import *  # noqa: F403
from uqhelpers.metrics.temperature import *  # noqa: F403

__all__ = [
    *accumulate.__all__,
    *calibration.__all__,
    *decomposition.__all__,
    *detection.__all__,
    *regression.__all__,
    *reliability.__all__,
    *scoring.__all__,
    *selective.__all__,
    *temperature.__all__,
]
