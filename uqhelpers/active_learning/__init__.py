"""Active learning: which label would teach the model most?

``score`` ranks single inputs by name (entropy, margin, BALD, …), ``acquire``
chooses a batch by any strategy; ``batch_bald``, ``power_bald``, ``epig``,
``k_center`` and ``badge`` are also here by themselves.
``expected_information_gain`` is exact on a grid of hypotheses. ``draw`` and
``lure_weights`` make honest averages of what was chosen, and ``simulate`` runs
whole loops, resumed where they stopped.

Functions take NumPy, torch or JAX arrays. Sampled probabilities have the shape
(S, N, C), and the samples are networks: the same for all inputs. A *score* is
higher for what should be asked sooner. Wrong input raises a ``ValueError`` that
names the argument.
"""

from uqhelpers.active_learning import acquisition, batches, diversity, information, loop, pools, weights
from uqhelpers.active_learning.acquisition import *  # noqa: F403
from uqhelpers.active_learning.batches import *  # noqa: F403
from uqhelpers.active_learning.diversity import *  # noqa: F403
from uqhelpers.active_learning.information import *  # noqa: F403
from uqhelpers.active_learning.loop import *  # noqa: F403
from uqhelpers.active_learning.pools import *  # noqa: F403
from uqhelpers.active_learning.weights import *  # noqa: F403

__all__ = [
    *acquisition.__all__,
    *information.__all__,
    *batches.__all__,
    *diversity.__all__,
    *weights.__all__,
    *loop.__all__,
    *pools.__all__,
]
