"""Laplace approximation: a Gaussian around the trained weights, as wide as the loss is flat.

``LastLayerLaplace`` does it for the last linear layer of a network that is
already trained, with the full covariance of its weights, on features that are
computed once. Its curvature is the generalised Gauss-Newton matrix, which for
a softmax or a Gaussian likelihood is the Fisher information. For other
structures (all layers; diagonal, Kronecker-factored), ``laplace_torch`` is a
short way into the library laplace-torch.

Parameters are ordered as torch does: the weight matrix row by row, one row an
output, then all biases. That is the order of
``parameters_to_vector(layer.parameters())`` and of laplace-torch. (Laying each
output's bias beside its weights would be as natural; the two must not be mixed.)
"""

from uqhelpers.laplace.gaussian import LIKELIHOODS
from uqhelpers.laplace.last_layer import METHODS, LastLayerLaplace
from uqhelpers.laplace.library import HESSIANS, SUBSETS, LaplaceTorch, laplace_torch
from uqhelpers.laplace.logits import kappa, pairwise_probit, probit
from uqhelpers.laplace.predictions import predict

__all__ = [
    "HESSIANS",
    "LIKELIHOODS",
    "METHODS",
    "SUBSETS",
    "LaplaceTorch",
    "LastLayerLaplace",
    "kappa",
    "laplace_torch",
    "pairwise_probit",
    "predict",
    "probit",
]
