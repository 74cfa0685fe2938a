"""Evidential regression: a normal-inverse-gamma over mean and variance."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_number, as_real
from uqhelpers._torch import torch
from uqhelpers.evidential.heads import expect_above, wide
from uqhelpers.metrics import RegressionPrediction
from uqhelpers.training import predict_outputs

__all__ = [
    "EvidentialRegression",
    "EvidentialRegressionLoss",
    "nig_nll",
    "predict_regression",
]


def nig_nll(y, gamma, nu, alpha, beta):
    """Negative log-likelihood of targets under a normal-inverse-gamma with mean and variance integrated out.

    What remains is a Student t with ``2 alpha`` degrees of freedom around
    ``gamma``, of scale ``sqrt(beta * (1 + nu) / (nu * alpha))``. It depends on
    ``beta`` and ``nu`` through ``beta * (1 + nu) / nu`` only: three numbers are
    learned from data, not four.

    Parameters
    ----------
    y : array
        Targets.
    gamma, nu, alpha, beta : arrays of the shape of ``y``, or numbers
        Parameters; all but ``gamma`` above 0.

    Returns
    -------
    array of the shape of the arguments, float64
        In nats a target, with all constants.

    References
    ----------
    Amini et al. (2020), eq. 7 and 8. Meinert, Gawlikowski and Lavin (2023), The
    unreasonable effectiveness of deep evidential regression, section 3.
    """
    given = {"y": y, "gamma": gamma, "nu": nu, "alpha": alpha, "beta": beta}
    given = {name: as_real(value, name) for name, value in given.items()}
    shape = given["y"].shape
    for name, value in given.items():
        if value.ndim and shape and value.shape != shape:
            raise ValueError(f"{name}: expected a number or the shape of y, {shape}, got {value.shape}")
        shape = shape or value.shape
        if name in ("nu", "alpha", "beta") and value.min() <= 0:
            raise ValueError(f"{name}: expected numbers above 0, got {value.min():.4g}")
    return _nig_nll(*(torch.from_numpy(np.array(value)) for value in given.values())).numpy()


class EvidentialRegressionLoss:
    """Likelihood of a normal-inverse-gamma and the penalty of evidence where it errs: for ``training.fit``.

    The mean over the minibatch of ``nll + regulariser * abs(y - gamma) * (2 * nu + alpha)``.

    Parameters
    ----------
    regulariser : float
        Weight of the penalty, at least 0. It has the dimension of one over the
        target's unit, and it decides what comes out as epistemic: see the chapter.

    References
    ----------
    Amini et al. (2020), eq. 8 to 10.
    """

    def __init__(self, regulariser=0.01):
        self.regulariser = as_number(regulariser, "regulariser", low=0)

    def __call__(self, parameters, targets):
        if parameters.ndim != 2 or parameters.shape[1] != 4:
            raise ValueError(f"parameters: expected the shape (inputs, 4), got {tuple(parameters.shape)}")
        if targets.shape not in (parameters.shape[:1], (len(parameters), 1)):
            raise ValueError(f"targets: expected {len(parameters)} numbers, got {tuple(targets.shape)}")
        expect_above(parameters[:, 1:], 0, "parameters", "NormalInverseGammaHead")
        for name, values in (("parameters", parameters[:, 0]), ("targets", targets)):
            if not torch.isfinite(values).all():
                raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
        gamma, nu, alpha, beta = wide(parameters).unbind(dim=1)
        y = targets.reshape(-1).to(gamma.dtype)  # (N, 1) against (N,) would broadcast to (N, N)
        value = _nig_nll(y, gamma, nu, alpha, beta)
        return (value + self.regulariser * (y - gamma).abs() * (2 * nu + alpha)).mean()


@dataclass(frozen=True, eq=False)
class EvidentialRegression(RegressionPrediction):
    """What an evidential regression predicts: a mean and **standard deviations**, and their parameters.

    Attributes
    ----------
    mean : array, shape (N,)
        Predictive mean γ.
    epistemic : array, shape (N,)
        Standard deviation, ``sqrt(beta / (nu * (alpha - 1)))``, in the unit of the targets.
    total : array, shape (N,)
        Standard deviation of a new observation: that of the Student t.
    aleatoric : array, shape (N,)
        Standard deviation, ``sqrt(beta / (alpha - 1))``; the squares of both parts
        add up to that of ``total``.
    nu, alpha, beta : arrays, shape (N,)
        The other parameters of the normal-inverse-gamma.
    """

    aleatoric: np.ndarray
    nu: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray


def predict_regression(model, inputs, batch_size=500):
    """Mean and standard deviations of an evidential regression, in one pass.

    Parameters
    ----------
    model : torch.nn.Module
        A network that ends in a :class:`NormalInverseGammaHead`; left in the
        state in which it came.
    inputs : array, shape (N, ...), or a loader that keeps their order
    batch_size : int, inputs at a time

    Returns
    -------
    EvidentialRegression
        ``mean``, ``aleatoric``, ``epistemic`` and ``total`` in the unit of the
        targets: standard deviations, where the paper has variances.

    References
    ----------
    Amini et al. (2020), eq. 5.
    """
    parameters = predict_outputs(model, inputs, batch_size)
    legal = parameters.ndim == 2 and parameters.shape[1] == 4 and np.isfinite(parameters).all()
    if not legal or (parameters[:, 1:] <= [0, 1, 0]).any():
        raise ValueError(
            "model: expected γ, ν > 0, α > 1 and β > 0, shape (inputs, 4): does it end in a "
            f"NormalInverseGammaHead? Got shape {parameters.shape}"
        )
    gamma, nu, alpha, beta = parameters.T
    noise = beta / (alpha - 1)
    return EvidentialRegression(
        mean=gamma,
        epistemic=np.sqrt(noise / nu),
        total=np.sqrt(noise + noise / nu),
        aleatoric=np.sqrt(noise),
        nu=nu,
        alpha=alpha,
        beta=beta,
    )


def _nig_nll(y, gamma, nu, alpha, beta):
    # In the logarithm of each: beta * (1 + nu) may overflow.
    scale = torch.log(beta) + torch.log1p(1 / nu)
    share, away = 0.5 * nu / (1 + nu), y - gamma
    far = torch.isinf(away.detach().square() / beta.detach() * share.detach())
    # Where the square is infinite its logarithm is the sum of those of its factors. Each side is only asked
    # where it is finite: a slope of infinity times 0 would be none.
    logs = 2 * torch.log(torch.where(far, away.abs(), 1.0)) - torch.log(beta) + torch.log(share)
    square = torch.where(far, 0.0, away).square() / beta * share
    logs = torch.where(far, logs, torch.log1p(square))
    return 0.5 * (np.log(2 * np.pi) + scale) + (alpha + 0.5) * logs - _half_step(alpha)


def _half_step(alpha):
    """``lgamma(alpha + 1/2) - lgamma(alpha)``; from 100 on a series, where the difference loses digits."""
    great = alpha.clamp(min=100)
    series = 0.5 * torch.log(great) - 1 / (8 * great) + 1 / (192 * great**3)
    return torch.where(alpha < 100, torch.lgamma(alpha + 0.5) - torch.lgamma(alpha), series)
