"""Mean-field variational inference: networks whose weights are Gaussians, each with a mean and a width.

A weight's mean μ is one parameter, ρ another, and σ = softplus(ρ) = log(1 + exp(ρ))
its standard deviation: ρ is neither a variance nor the logarithm of one.
Training maximises the evidence lower bound,

    E_q[log p(D | θ)] - KL(q(θ) || p(θ)),

the first term by sampling (reparameterised), the second in closed form
(Graves 2011; Blundell et al. 2015).

In training mode the layers draw noise in every forward pass; in evaluation
mode they use the means, so that ``training.predict`` is that of the mean
network. ``sample`` and ``predict`` here draw whole networks: one pass is one
network, for all inputs and in every batch.
"""

from uqhelpers.variational_inference.fitting import (
    KL_WEIGHTS,
    SCHEDULES,
    VariationalHistory,
    fit_variational,
    minibatch_weights,
)
from uqhelpers.variational_inference.layers import (
    ConvVariational,
    LinearVariational,
    kl_of,
    variational_layers,
)
from uqhelpers.variational_inference.likelihoods import LIKELIHOODS
from uqhelpers.variational_inference.replacement import make_variational
from uqhelpers.variational_inference.sampling import (
    Bound,
    drawn_weights,
    evidence_bound,
    predict,
    predict_regression,
    sample,
    sample_outputs,
)

__all__ = [
    "KL_WEIGHTS",
    "LIKELIHOODS",
    "SCHEDULES",
    "Bound",
    "ConvVariational",
    "LinearVariational",
    "VariationalHistory",
    "drawn_weights",
    "evidence_bound",
    "fit_variational",
    "kl_of",
    "make_variational",
    "minibatch_weights",
    "predict",
    "predict_regression",
    "sample",
    "sample_outputs",
    "variational_layers",
]
