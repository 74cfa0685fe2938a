"""Failure prediction: which answers of a classifier are wrong, by confidences made for the purpose.

``ConfidNet`` is a second, small network beside a trained classifier. From what
the classifier's last layer sees it learns the probability that the classifier
gave to the *true* class, which is known while it is trained and not afterwards.
``TrustScore`` asks the neighbours of an input instead. ``failure_table`` puts
confidences side by side, with every figure that failure prediction is judged by.

Confidences keep their own sign, higher is surer; ``score`` is the same with the
sign of a score, higher is more uncertain.
"""

from uqhelpers.confidnet import figures, lessons, network, trust
from uqhelpers.confidnet.figures import *  # noqa: F403
from uqhelpers.confidnet.lessons import *  # noqa: F403
from uqhelpers.confidnet.network import *  # noqa: F403
from uqhelpers.confidnet.trust import *  # noqa: F403

__all__ = [
    *figures.__all__,
    *lessons.__all__,
    *network.__all__,
    *trust.__all__,
]

FEW_ERRORS = network.FEW_ERRORS
"""With fewer wrong answers than this to learn from, ``ConfidNet.fit`` warns. More are no promise."""
