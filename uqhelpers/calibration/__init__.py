"""Calibration: what makes probabilities mean what they say, after training or during it.

After training, on held-out predictions: ``VectorScaling``, ``HistogramBinning``
and ``IsotonicCalibration``, each a ``fit`` and a ``predict``. (The simplest of
them, one temperature, is ``metrics.fit_temperature``.) During training: the
losses ``label_smoothing`` and ``focal_loss``, to be handed to
``training.fit(loss=...)``. ``brier_decomposition`` says what a Brier score is
made of. How to *measure* calibration is in ``uqhelpers.metrics``.
"""

from uqhelpers.calibration import losses, maps, parts, scaling
from uqhelpers.calibration.losses import *  # noqa: F403
from uqhelpers.calibration.maps import *  # noqa: F403
from uqhelpers.calibration.parts import *  # noqa: F403
from uqhelpers.calibration.scaling import *  # noqa: F403

__all__ = [
    *losses.__all__,
    *maps.__all__,
    *parts.__all__,
    *scaling.__all__,
]
