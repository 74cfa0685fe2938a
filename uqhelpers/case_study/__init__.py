"""From data to a decision with a price: parts of a small table, costs, referral, alarms with a rate.

``cancer`` and ``split`` give the rows and their parts, ``over_splits`` an
interval that knows that random splits share their rows. ``cost_threshold``,
``price``, ``referral_zone`` and ``referral_limit`` turn probabilities into acts.
``online_p_values`` turn a stream of scores into numbers that are uniform and
independent as long as nothing changes; an ``Alarm`` bets against that, and rings
in quiet years at most as often as it says. ``repeated_test``, ``page_hinkley``
and ``adwin`` are what is often used instead; a ``Clinic`` simulates the years.

A *score* is higher for what fits less.
"""

from uqhelpers.case_study import alarms, bets, costs, rivals, rows, worlds
from uqhelpers.case_study.alarms import *  # noqa: F403
from uqhelpers.case_study.bets import *  # noqa: F403
from uqhelpers.case_study.costs import *  # noqa: F403
from uqhelpers.case_study.rivals import *  # noqa: F403
from uqhelpers.case_study.rows import *  # noqa: F403
from uqhelpers.case_study.worlds import *  # noqa: F403

__all__ = [*rows.__all__, *costs.__all__, *bets.__all__, *alarms.__all__, *rivals.__all__, *worlds.__all__]
