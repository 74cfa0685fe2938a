"""Bayesian linear regression: the posterior, the predictive distribution and the evidence, all exact.

Targets are a weighted sum of features of the input plus Gaussian noise. The
weights have independent Gaussian priors of precision ``alpha``, the noise has
the precision ``beta``; both are precisions, 1 / variance.

All that the data say is kept in one triangle: the R of a QR decomposition of
the features with the targets beside them. It has the size of the model, new
data are rotated into it, and the Gram matrix, whose condition is the square of
the features', is never formed.
"""

from uqhelpers.bayesian_linear_regression.bases import GaussianBasis, LinearBasis, PolynomialBasis
from uqhelpers.bayesian_linear_regression.model import BayesianLinearRegression

__all__ = ["BayesianLinearRegression", "GaussianBasis", "LinearBasis", "PolynomialBasis"]
