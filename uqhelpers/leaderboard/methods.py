"""The methods of the table, by name, and what a reader must know of each before its figures."""

import dataclasses
from collections.abc import Callable

from uqhelpers._checks import as_choice
from uqhelpers.leaderboard import posthoc, trained

__all__ = ["METHODS", "Method", "method"]


@dataclasses.dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes
    ----------
    title : str
        As the table calls it.
    fit : callable
        ``fit(train, validation, seed)`` returns ``predict(images)``, which
        returns probabilities or an :class:`Answer`.
    post_hoc : bool
        Whether a trained network is left as it is.
    change : str
        What the model, or its training, must bring along.
    chapter : str
        Where it is taught.
    parts : bool
        Whether it tells two kinds of uncertainty apart.
    """

    title: str
    fit: Callable
    post_hoc: bool
    change: str
    chapter: str
    parts: bool = False


NOTHING, FEATURES = "none", "reads features"
METHODS = {
    "max_probability": Method(
        "one network: max probability", posthoc.max_probability, True, NOTHING, "decisions/odin"
    ),
    "entropy": Method("one network: entropy", posthoc.entropy, True, NOTHING, "foundations/uncertainty"),
    "max_logit": Method("one network: max logit", posthoc.max_logit, True, NOTHING, "decisions/odin"),
    "energy": Method("one network: energy", posthoc.energy, True, NOTHING, "decisions/odin"),
    "long_network": Method(
        "one network, five times as long", posthoc.long_network, False, NOTHING, "posteriors/deep_ensembles"
    ),
    "temperature": Method("temperature", posthoc.temperature, True, NOTHING, "foundations/calibration"),
    "label_smoothing": Method(
        "label smoothing", trained.label_smoothing, False, "the loss", "foundations/calibration"
    ),
    "laplace_probit": Method(
        "Laplace, probit", posthoc.laplace_probit, True, "a linear last layer", "posteriors/laplace"
    ),
    "laplace_sampled": Method(
        "Laplace, sampled",
        posthoc.laplace_sampled,
        True,
        "a linear last layer",
        "posteriors/laplace",
        parts=True,
    ),
    "variational": Method(
        "mean-field VI",
        trained.variational,
        False,
        "all weights",
        "posteriors/variational_inference",
        parts=True,
    ),
    "mc_dropout": Method(
        "MC-Dropout", posthoc.monte_carlo_dropout, True, "dropout layers", "posteriors/mc_dropout", parts=True
    ),
    "ensemble": Method(
        "ensemble", trained.ensemble, False, "five of them", "posteriors/deep_ensembles", parts=True
    ),
    "ensemble_temperature": Method(
        "ensemble, temperature",
        trained.ensemble_temperature,
        False,
        "five of them",
        "posteriors/deep_ensembles",
        parts=True,
    ),
    "swag": Method("SWAG", trained.swag, False, "a walk of SGD", "posteriors/deep_ensembles", parts=True),
    "multiswag": Method(
        "MultiSWAG", trained.multiswag, False, "five walks of SGD", "posteriors/deep_ensembles", parts=True
    ),
    "distilled": Method(
        "distilled ensemble", trained.distilled, False, "teachers", "posteriors/deep_ensembles", parts=True
    ),
    "confidnet": Method(
        "ConfidNet", posthoc.confidence_network, True, "a second network", "decisions/confidnet"
    ),
    "trust_score": Method("trust score", posthoc.trust_score, True, FEATURES, "decisions/confidnet"),
    "odin": Method("ODIN", posthoc.odin_method, True, "gradients", "decisions/odin"),
    "mahalanobis": Method("Mahalanobis", posthoc.mahalanobis, True, FEATURES, "decisions/odin"),
    "neighbours": Method("nearest neighbours", posthoc.neighbours, True, FEATURES, "decisions/odin"),
    "ddu": Method("density of features (DDU)", posthoc.density, True, FEATURES, "decisions/ddu", parts=True),
    "evidential": Method(
        "evidential", trained.evidential_network, False, "head and loss", "decisions/evidential", parts=True
    ),
    "conformal": Method("conformal p-values", posthoc.conformal_values, True, NOTHING, "decisions/conformal"),
}
"""The methods of the leaderboard by name, in the order of the book.

:meta hide-value:
"""


def method(name):
    """One of the leaderboard's methods, or a stranger's.

    Parameters
    ----------
    name : str
        A key of ``METHODS``, or ``module:function``: a module that can be
        imported from here, and a function ``fit(train, validation)`` or
        ``fit(train, validation, seed)`` in it.

    Returns
    -------
    Method
    """
    if not isinstance(name, str) or ":" not in name:
        return METHODS[as_choice(name, "method", tuple(METHODS))]
    import importlib

    module, _, function = name.partition(":")
    try:
        fit = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"method: expected module:function that can be imported, got {name!r} ({error})"
        ) from error
    return stranger(name, fit)


def stranger(name, fit):
    """A function that is no method of the book, as a row of its table."""
    if not callable(fit):
        raise ValueError(f"method: expected a function fit(train, validation), got {type(fit).__name__}")
    return Method(name, fit, False, "?", "")
