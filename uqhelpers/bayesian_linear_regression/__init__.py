"""Bayesian linear regression: posterior, predictive distribution and evidence, exact for given precisions.

Targets are a weighted sum of features of the input plus Gaussian noise. The
weights have independent Gaussian priors of precision ``alpha``, the noise has
the precision ``beta``; both are precisions, 1 / variance. Precisions that the
evidence chooses are plugged in as if they were known, which with few examples
makes bands too narrow; ``StudentLinearRegression`` integrates the noise out.

All that the data say is kept in one triangle: the R of a QR decomposition of
the features with the targets beside them. It has the size of the model, new
data are rotated into it, and the Gram matrix, whose condition is the square of
the features', is never formed.
"""

from uqhelpers.bayesian_linear_regression.bases import GaussianBasis, LinearBasis, PolynomialBasis
from uqhelpers.bayesian_linear_regression.model import BayesianLinearRegression
from uqhelpers.bayesian_linear_regression.student import StudentLinearRegression, StudentPrediction

__all__ = [
    "BayesianLinearRegression",
    "GaussianBasis",
    "LinearBasis",
    "PolynomialBasis",
    "StudentLinearRegression",
    "StudentPrediction",
]
