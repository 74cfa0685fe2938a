"""Deep ensembles: several networks, trained apart, whose disagreement is what the data leave open.

Three parts. Formulas for the mixture that an ensemble predicts. Ensembles of
small networks in JAX (``RegressionEnsemble``, ``ClassificationEnsemble``): all
members train at once, in one ``vmap``, all steps in one ``scan``; JAX is
imported when the first of them is trained. And torch networks for images:
``fit_members`` trains them through joblib and keeps each finished one, ``Swag``
samples around one of them, ``distill`` puts all of them into one.

One name, one meaning: ``scale`` is the standard deviation σ of a Gaussian and
the b of a Laplace distribution, never a variance; what a prediction puts out
are standard deviations.
"""

from uqhelpers.deep_ensembles.attacks import gradient_sign, virtual_adversarial_loss
from uqhelpers.deep_ensembles.distillation import (
    concentrations,
    dirichlet_decomposition,
    dirichlet_nll,
    distill,
    predict_distilled,
)
from uqhelpers.deep_ensembles.diversity import Disagreement, disagreement
from uqhelpers.deep_ensembles.ensemble import (
    ACTIVATIONS,
    ADVERSARIAL,
    PENALTIES,
    SCHEDULES,
    EnsembleHistory,
)
from uqhelpers.deep_ensembles.members import fit_members, member_seeds
from uqhelpers.deep_ensembles.mixture import (
    PROBABILISTIC,
    MemberPredictions,
    MixturePrediction,
    laplace_nll,
    mixture_moments,
    mixture_nll,
)
from uqhelpers.deep_ensembles.paths import LinePath, interpolate, loss_along_line, recompute_batch_norm
from uqhelpers.deep_ensembles.predictions import predict, sample, sample_outputs
from uqhelpers.deep_ensembles.small_networks import LIKELIHOODS, ClassificationEnsemble, RegressionEnsemble
from uqhelpers.deep_ensembles.swag import Swag
from uqhelpers.metrics import gaussian_nll

__all__ = [
    "ACTIVATIONS",
    "ADVERSARIAL",
    "LIKELIHOODS",
    "PENALTIES",
    "SCHEDULES",
    "ClassificationEnsemble",
    "Disagreement",
    "EnsembleHistory",
    "LinePath",
    "MemberPredictions",
    "MixturePrediction",
    "RegressionEnsemble",
    "Swag",
    "concentrations",
    "dirichlet_decomposition",
    "dirichlet_nll",
    "disagreement",
    "distill",
    "fit_members",
    "gaussian_nll",
    "gradient_sign",
    "interpolate",
    "laplace_nll",
    "loss_along_line",
    "member_seeds",
    "mixture_moments",
    "mixture_nll",
    "predict",
    "predict_distilled",
    "recompute_batch_norm",
    "sample",
    "sample_outputs",
    "virtual_adversarial_loss",
]
