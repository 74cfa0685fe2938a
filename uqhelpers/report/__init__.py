"""Model cards: what a classifier or a regressor does, from its predictions and the truth alone.

:func:`classification` and :func:`regression` compute the figures, their
intervals and what they may not be used for, and write one page of HTML that
holds everything it shows: no script, nothing fetched, readable on a phone, in
the dark, on paper and aloud. What only a person can say stands in it as missing
until somebody says it.
"""

from uqhelpers.report.card import Card, Number, Subgroup
from uqhelpers.report.classification import classification
from uqhelpers.report.regression import regression

__all__ = ["Card", "Number", "Subgroup", "classification", "regression"]
