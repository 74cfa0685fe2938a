"""The leaderboard: every method of the book under one protocol, and a door for one of your own.

A *world* (:func:`world`) is what all methods get and what all are asked; a
method is a function ``fit(train, validation, seed)`` that returns
``predict(images)``, which returns class probabilities, those of sampled models,
or an :class:`Answer`. :func:`evaluate` runs one, :func:`run` all that are
missing, each kept in a file of its own; :func:`stored` is the table that comes
with the package. ``python -m uqhelpers.leaderboard`` does it from a shell.

:func:`ranks` and :func:`difference` say who is better than whom, as far as the
runs can tell; :func:`forced_correlation` how far two kinds of uncertainty
move together if totals are split by uniform lots.
"""

from uqhelpers.leaderboard import (
    answers,
    columns,
    comparison,
    disentanglement,
    methods,
    networks,
    regression,
    runs,
    tables,
    worlds,
)
from uqhelpers.leaderboard.answers import *  # noqa: F403
from uqhelpers.leaderboard.columns import *  # noqa: F403
from uqhelpers.leaderboard.comparison import *  # noqa: F403
from uqhelpers.leaderboard.disentanglement import *  # noqa: F403
from uqhelpers.leaderboard.methods import *  # noqa: F403
from uqhelpers.leaderboard.networks import *  # noqa: F403
from uqhelpers.leaderboard.runs import *  # noqa: F403
from uqhelpers.leaderboard.tables import *  # noqa: F403
from uqhelpers.leaderboard.worlds import *  # noqa: F403

__all__ = [
    *worlds.__all__,
    *answers.__all__,
    *methods.__all__,
    *networks.__all__,
    *columns.__all__,
    *runs.__all__,
    *tables.__all__,
    *comparison.__all__,
    *disentanglement.__all__,
    "regression",
]
