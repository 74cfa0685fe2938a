"""Deep deterministic uncertainty: how strange an input is, from one pass through one network.

The softmax's entropy says how contested the answer is (aleatoric). The density
of the features, of the values that the last layer sees, says how far the input
is from what the network was trained on (epistemic). ``GaussianFeatureDensity``
is that density: one Gaussian a class, weighed by the class's share.

A density of features can notice what is strange only if the network has not
mapped it onto something familiar. ``ResidualNet`` has the two ingredients that
keep a network from doing so: shortcuts, and convolutions whose norm is capped.
``conv_spectral_norm`` is the norm of the convolution itself. The one of its
reshaped weights, which libraries normalise by, is another number.
"""

from uqhelpers.ddu import convolutions, density, network, prediction
from uqhelpers.ddu.convolutions import *  # noqa: F403
from uqhelpers.ddu.density import *  # noqa: F403
from uqhelpers.ddu.network import *  # noqa: F403
from uqhelpers.ddu.prediction import *  # noqa: F403

__all__ = [
    *convolutions.__all__,
    *density.__all__,
    *network.__all__,
    *prediction.__all__,
]
