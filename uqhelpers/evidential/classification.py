"""Evidential classification: the losses, and the prediction in one pass."""

import numpy as np

from uqhelpers._checks import as_choice, as_number, as_whole, to_numpy
from uqhelpers._torch import torch
from uqhelpers.evidential.dirichlet import decompose, dirichlet_kl
from uqhelpers.evidential.heads import expect_above, wide
from uqhelpers.training import are_probabilities, predict_outputs

__all__ = ["KINDS", "EvidentialLoss", "PriorNetworkLoss", "evidential_loss", "predict"]

functional = torch.nn.functional
KINDS = ("mse", "log", "digamma")
GREAT = 1e7  # sums of concentrations beyond which log gammas have lost half of the digits of a divergence


def evidential_loss(alpha, labels, kind="mse", kl_weight=0.0):
    """The loss of each input under a Dirichlet over its class probabilities, differentiable.

    With ``s = sum(alpha)`` and the label ``y``: ``"log"`` is minus the log of the
    expected probability of the label, ``log(s) - log(alpha[y])``; ``"digamma"``
    the expectation of minus its log, ``digamma(s) - digamma(alpha[y])``; ``"mse"``
    the expected squared distance of a draw from the one-hot label. The penalty
    is the divergence from the uniform Dirichlet once the label's own
    concentration is set to 1: it falls on evidence for wrong classes only.

    Parameters
    ----------
    alpha : torch.Tensor, shape (N, C)
        Concentrations, above 0.
    labels : torch.Tensor, shape (N,)
        Classes from 0 to C - 1.
    kind : {"mse", "log", "digamma"}
        Which expectation.
    kl_weight : float
        Weight λ of the penalty, at least 0.

    Returns
    -------
    torch.Tensor, shape (N,)

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), eq. 3 (log), 4 (digamma), 5 (mse).
    """
    kind, kl_weight = as_choice(kind, "kind", KINDS), as_number(kl_weight, "kl_weight", low=0)
    alpha = _as_alpha_tensor(alpha)
    truth = functional.one_hot(_as_label_tensor(labels, alpha), alpha.shape[1]).to(alpha.dtype)
    strength = alpha.sum(dim=1, keepdim=True)
    if kind == "mse":
        mean = alpha / strength
        value = ((truth - mean).square() + mean * (1 - mean) / (strength + 1)).sum(dim=1)
    else:
        function = torch.log if kind == "log" else torch.digamma
        value = (truth * (function(strength) - function(alpha))).sum(dim=1)
    if kl_weight:
        value = value + kl_weight * _kl(truth + (1 - truth) * alpha, torch.ones_like(alpha))
    return value


class EvidentialLoss:
    """The mean evidential loss of a minibatch, its penalty annealed: a loss for ``training.fit``.

    The weight of the penalty in step ``t`` is ``kl_weight * min(1, t / annealing_steps)``.
    A step is a call while gradients are recorded. Make a new one for each training.

    Parameters
    ----------
    kind : {"mse", "log", "digamma"}
        As for :func:`evidential_loss`.
    kl_weight : float
        Weight of the penalty in the end, at least 0.
    annealing_steps : int
        Minibatches until the weight is reached; 0 for at once. The original is
        ten epochs: ten times the number of minibatches of an epoch.

    Attributes
    ----------
    steps : int
        Steps taken so far.

    Raises
    ------
    ValueError
        If ``annealing_steps`` has no penalty to anneal; when called, if all rows
        sum to 1: a softmax is then the likely cause. Concentrations such as
        (0.5, 0.5) that mean it are taken by :func:`evidential_loss`.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), section 4.
    """

    def __init__(self, kind="mse", *, kl_weight=1.0, annealing_steps=0):
        self.kind = as_choice(kind, "kind", KINDS)
        self.kl_weight = as_number(kl_weight, "kl_weight", low=0)
        self.annealing_steps = as_whole(annealing_steps, "annealing_steps", low=0)
        if annealing_steps and not kl_weight:
            raise ValueError(
                f"annealing_steps: expected 0 beside kl_weight=0, which leaves nothing to anneal, "
                f"got {annealing_steps}"
            )
        self.steps = 0

    @property
    def weight(self):
        """The weight of the penalty in the next step."""
        share = min(1.0, self.steps / self.annealing_steps) if self.annealing_steps else 1.0
        return self.kl_weight * share

    def __call__(self, alpha, labels):
        _refuse_probabilities(alpha, "alpha")
        value = evidential_loss(alpha, labels, self.kind, self.weight).mean()
        self.steps += int(value.requires_grad)
        return value


class PriorNetworkLoss:
    """Reverse-KL training of a prior network: a loss for ``training.fit`` that is told what lies outside.

    The divergence KL(Dir(alpha) || target) of what the network says from what
    it ought to say: for an example of class ``y`` a Dirichlet with ``precision``
    added to the concentration of that class, for an example from outside the
    uniform one.

    Parameters
    ----------
    precision : float
        Evidence that an example of a class ought to have, above 0.

    References
    ----------
    Malinin and Gales (2019), Reverse KL-divergence training of prior networks:
    improved uncertainty and adversarial robustness, eq. 11.
    """

    def __init__(self, precision=100.0):
        self.precision = as_number(precision, "precision", low=0, open_low=True)

    def __call__(self, alpha, labels):
        _refuse_probabilities(alpha, "alpha")
        alpha = _as_alpha_tensor(alpha)
        labels = _as_label_tensor(labels, alpha, low=-1)
        inside = (labels >= 0).to(alpha.dtype)
        truth = functional.one_hot(labels.clamp(min=0), alpha.shape[1]).to(alpha.dtype)
        return _kl(alpha, 1 + self.precision * inside[:, None] * truth).mean()


def predict(model, inputs, batch_size=500):
    """Prediction and uncertainties of an evidential classifier, in one pass.

    Parameters
    ----------
    model : torch.nn.Module
        A network that ends in a :class:`DirichletHead`, or puts out
        concentrations otherwise; left in the state in which it came.
    inputs : array, shape (N, ...), or a loader that keeps their order
    batch_size : int, inputs at a time

    Returns
    -------
    DirichletDecomposition
        With ``mean``, ``alpha``, ``vacuity``, ``total``, ``aleatoric`` and
        ``epistemic``.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018).
    """
    alpha = predict_outputs(model, inputs, batch_size)
    if alpha.ndim != 2 or alpha.shape[1] < 2 or not np.isfinite(alpha).all() or alpha.min() <= 0:
        raise ValueError(
            "model: expected concentrations above 0, shape (inputs, classes): does it end in a "
            f"DirichletHead? Got shape {alpha.shape}, least value {alpha.min():.4g}"
        )
    _refuse_probabilities(alpha, "model", next(model.parameters()).dtype)
    return decompose(alpha)


def _kl(alpha, beta):
    strength = alpha.sum(dim=1)
    normalisers = torch.lgamma(strength) - torch.lgamma(beta.sum(dim=1))
    normalisers = normalisers + (torch.lgamma(beta) - torch.lgamma(alpha)).sum(dim=1)
    moments = (alpha - beta) * (torch.digamma(alpha) - torch.digamma(strength)[:, None])
    found = normalisers + moments.sum(dim=1)
    great = strength.detach() > GREAT
    if not great.any():
        return found
    # The slope is right, but differences of huge log gammas are not: the value comes from a sum without them.
    exact = dirichlet_kl(*(part.detach().cpu().numpy() for part in (alpha, beta)))
    return torch.where(great, torch.from_numpy(exact).to(found) + (found - found.detach()), found)


def _refuse_probabilities(alpha, name, precision=None):
    """Rows that all sum to 1 are taken for a softmax's: those of a head, 1 + evidence, sum to at least C."""
    if getattr(alpha, "ndim", 0) == 2 and are_probabilities(torch.as_tensor(alpha), precision):
        raise ValueError(
            f"{name}: expected concentrations, got rows that sum to 1: leave the softmax out, and end in a "
            "DirichletHead (concentrations that do are taken by evidential_loss and decompose)"
        )


def _as_alpha_tensor(alpha):
    if not torch.is_tensor(alpha) or alpha.ndim != 2 or alpha.shape[1] < 2 or not len(alpha):
        found = tuple(alpha.shape) if torch.is_tensor(alpha) else type(alpha).__name__
        raise ValueError(f"alpha: expected a tensor of shape (inputs, classes), got {found}")
    expect_above(alpha, 0, "alpha", "DirichletHead")
    return wide(alpha)


def _as_label_tensor(labels, alpha, low=0):
    labels = labels if torch.is_tensor(labels) else torch.from_numpy(np.array(to_numpy(labels, "labels")))
    labels = labels.to(alpha.device)
    if labels.is_complex():
        raise ValueError(f"labels: expected whole numbers, got {labels.dtype}")
    if labels.shape != alpha.shape[:1]:
        raise ValueError(f"labels: expected {len(alpha)}, one an input, got shape {tuple(labels.shape)}")
    whole = labels.long()
    if (whole != labels).any() or whole.min() < low or whole.max() >= alpha.shape[1]:
        raise ValueError(
            f"labels: expected whole numbers from {low} to {alpha.shape[1] - 1}, "
            f"got {labels.min().item():g} to {labels.max().item():g}"
        )
    return whole
