"""Known Unknowns: tested helpers for uncertainty in deep learning.

The package has three floors. The ground floor knows nothing of methods:
``data``, ``batches``, ``dropout``, ``features``, ``metrics``, ``models``,
``training`` and ``plots``. On it stands one module a method, named like its
chapter, for example ``mc_dropout``. Above them ``leaderboard`` calls methods
side by side, ``report`` writes model cards, and ``grading`` checks the exercises.

Importing the package is quick: a submodule loads when it is first used, and
torch only when a function that needs it is called.

What all functions have in common (shapes, signs, units, seeds, what raises)
stands on one page of the book, ``reference/conventions``. A docstring says what
is its own: under *Raises* what is special to the function.
"""

import importlib

__version__ = "0.1.0"

_MODULES = (
    "active_learning",
    "adversarial",
    "batches",
    "bayesian_linear_regression",
    "calibration",
    "case_study",
    "confidnet",
    "conformal",
    "credal",
    "data",
    "ddu",
    "deep_ensembles",
    "dropout",
    "evidential",
    "features",
    "first_classifier",
    "grading",
    "language_models",
    "laplace",
    "leaderboard",
    "logistic",
    "mc_dropout",
    "mcmc",
    "metrics",
    "models",
    "odin",
    "plots",
    "report",
    "training",
    "variational_inference",
)
__all__ = [*_MODULES, "__version__"]


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_MODULES])
