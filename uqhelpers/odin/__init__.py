"""Out-of-distribution detection: scores that say whether an input is of a kind the network was trained on.

Every score is higher for stranger inputs, and computed in float64. From the
logits: ``softmax_score`` (minus the largest probability), ``max_logit_score``
and ``energy_score``. From the network and its gradient: ``odin_score``, which
softens the softmax by a temperature and nudges the input towards the class that
was predicted. From features of the last hidden layer: ``Mahalanobis`` and
``KNearestNeighbours``.

``tune`` chooses ODIN's two settings on held-out data and a *stand-in* for the
strange. Never hand it the set whose figures are reported.
"""

from uqhelpers.odin import detectors, logits, nudge
from uqhelpers.odin.detectors import *  # noqa: F403
from uqhelpers.odin.logits import *  # noqa: F403
from uqhelpers.odin.nudge import *  # noqa: F403

__all__ = [
    *detectors.__all__,
    *logits.__all__,
    *nudge.__all__,
]
