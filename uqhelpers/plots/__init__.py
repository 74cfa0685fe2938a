"""The book's figures and tables: a style worth copying, static plots, interactive ones that work everywhere.

Every plot takes ``ax=None`` and returns what it drew on: one Axes, or an array
of Axes where there are several panels. None calls ``plt.show``. Colours are
told apart by colour-blind readers, mean the same in every chapter (blue:
epistemic, orange: aleatoric) and are never the only carrier of a message.
"""

from uqhelpers.plots.classification import (
    class_probabilities,
    confusion,
    embedding,
    histograms,
    reliability_diagram,
)
from uqhelpers.plots.detection import precision_recall, roc
from uqhelpers.plots.images import image_grid, most_and_least
from uqhelpers.plots.interactive import InteractiveFigure, show, slider_figure
from uqhelpers.plots.plane import decision_map
from uqhelpers.plots.regression import predictive_band
from uqhelpers.plots.selective import accuracy_coverage, risk_coverage
from uqhelpers.plots.style import AXIS_LABELS, COLOURS, GREY, INK, PALETTE, use_style
from uqhelpers.plots.tables import Table, table
from uqhelpers.plots.triangle import simplex
from uqhelpers.plots.words import say

__all__ = [
    "AXIS_LABELS",
    "COLOURS",
    "GREY",
    "INK",
    "PALETTE",
    "InteractiveFigure",
    "Table",
    "accuracy_coverage",
    "class_probabilities",
    "confusion",
    "decision_map",
    "embedding",
    "histograms",
    "image_grid",
    "most_and_least",
    "precision_recall",
    "predictive_band",
    "reliability_diagram",
    "risk_coverage",
    "roc",
    "say",
    "show",
    "simplex",
    "slider_figure",
    "table",
    "use_style",
]
