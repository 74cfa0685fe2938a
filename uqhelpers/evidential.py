"""Evidential networks: one network that puts out a distribution over predictions instead of a prediction.

For classes the network puts out the concentrations α of a Dirichlet over class
probabilities, for numbers the four parameters of a normal-inverse-gamma over
mean and variance. A *head* at the end of an ordinary network sees to it that
they are legal; the losses, ``predict`` and ``predict_regression`` take what a
head puts out, so that an activation cannot be forgotten on one of the ways::

    model = torch.nn.Sequential(models.MLP(64, 10), DirichletHead())
    training.fit(model, inputs, labels, epochs=30, loss=EvidentialLoss("mse", annealing_steps=80))
    predict(model, inputs).vacuity

What comes out ranks inputs. It is no posterior, and what is called epistemic
here does not shrink as examples come in: the chapter measures it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from uqhelpers._checks import as_choice, as_generator, as_number, as_real, as_whole
from uqhelpers._torch import torch
from uqhelpers.metrics import Decomposition, RegressionPrediction, predictive_entropy
from uqhelpers.training import predict_outputs

__all__ = [
    "ACTIVATIONS",
    "KINDS",
    "DirichletDecomposition",
    "DirichletHead",
    "EvidentialLoss",
    "EvidentialRegression",
    "EvidentialRegressionLoss",
    "NormalInverseGammaHead",
    "PriorNetworkLoss",
    "decompose",
    "dirichlet_kl",
    "evidential_loss",
    "nig_nll",
    "predict",
    "predict_regression",
    "sample",
    "vacuity",
]

functional = torch.nn.functional


def _exponential(outputs):
    return torch.exp(outputs.clamp(max=50))  # far from the data it would overflow


ACTIVATIONS = {"softplus": functional.softplus, "exp": _exponential, "relu": torch.relu}
KINDS = ("mse", "log", "digamma")


# --- the Dirichlet, in NumPy ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DirichletDecomposition(Decomposition):
    """Total uncertainty under a Dirichlet over class probabilities, and its two parts in closed form.

    Attributes
    ----------
    mean : array, shape (N, C)
        Mean of the Dirichlet, ``alpha / sum(alpha)``: the predicted probabilities.
    total : array, shape (N,)
        Entropy of the mean, in nats, from 0 to ``log C``.
    aleatoric : array, shape (N,)
        Expected entropy of a draw, in nats.
    epistemic : array, shape (N,)
        Mutual information of label and draw, in nats: ``total - aleatoric``.
    confidence : array, shape (N,)
        Largest entry of the mean.
    alpha : array, shape (N, C)
        The concentrations.
    vacuity : array, shape (N,)
        ``C / sum(alpha)``: 1 without any evidence, towards 0 with ever more.
    """

    alpha: np.ndarray
    vacuity: np.ndarray


def vacuity(alpha):
    """How little evidence there is: the number of classes over the sum of the concentrations.

    Parameters
    ----------
    alpha : array, shape (N, C)
        Concentrations of Dirichlets, above 0.

    Returns
    -------
    array, shape (N,), float64
        1 for the uniform Dirichlet, whose concentrations are 1; in (0, 1] for
        those of at least 1, and above 1 where they lie below.

    Raises
    ------
    ValueError
        If ``alpha`` has another shape, is empty, or is not finite and above 0.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), Evidential deep learning to quantify
    classification uncertainty, eq. 1.
    """
    alpha = _as_concentrations(alpha)
    return alpha.shape[1] / alpha.sum(axis=1)


def decompose(alpha):
    """Total, aleatoric and epistemic uncertainty of Dirichlets, in closed form.

    The expected entropy of a draw is ``digamma(s + 1) - sum(mean * digamma(alpha + 1))``
    with ``s = sum(alpha)``; no draws are needed.

    Parameters
    ----------
    alpha : array, shape (N, C)
        Concentrations, above 0.

    Returns
    -------
    DirichletDecomposition
        With ``mean``, ``total``, ``aleatoric``, ``epistemic``, ``confidence``,
        ``alpha`` and ``vacuity``; entropies in nats.

    Raises
    ------
    ValueError
        As :func:`vacuity`.

    References
    ----------
    Malinin and Gales (2018), Predictive uncertainty estimation via prior
    networks, section 3.
    """
    alpha = _as_concentrations(alpha)
    strength = alpha.sum(axis=1, keepdims=True)
    mean = alpha / strength
    total = predictive_entropy(mean)
    aleatoric = (mean * (digamma(strength + 1) - digamma(alpha + 1))).sum(axis=1)
    aleatoric = np.clip(aleatoric, 0.0, total)  # rounding alone leaves the range
    return DirichletDecomposition(
        mean=mean,
        total=total,
        aleatoric=aleatoric,
        epistemic=total - aleatoric,
        confidence=mean.max(axis=1),
        alpha=alpha,
        vacuity=alpha.shape[1] / strength[:, 0],
    )


def sample(alpha, samples=100, seed=0):
    """Class probabilities drawn from Dirichlets, as sampled models would give them.

    Parameters
    ----------
    alpha : array, shape (N, C)
        Concentrations, above 0.
    samples : int
        Draws for each input, ``S``.
    seed : int or numpy.random.Generator

    Returns
    -------
    array, shape (S, N, C), float64
        Probabilities. Draws of different inputs are independent: unlike
        sampled networks, they are no joint samples.

    Raises
    ------
    ValueError
        As :func:`vacuity`, or if ``samples`` is not a whole number of at least 1.
    """
    alpha = _as_concentrations(alpha)
    rng = as_generator(seed)
    shape = (as_whole(samples, "samples"), *alpha.shape)
    # A gamma of concentration a is one of a + 1 times a uniform to the power 1 / a. In logarithms that
    # holds where small concentrations would leave nothing but zeros to divide by.
    logs = np.log(rng.standard_gamma(alpha + 1, size=shape)) + np.log1p(-rng.random(shape)) / alpha
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def dirichlet_kl(alpha, beta=None):
    """Kullback–Leibler divergence between Dirichlets, KL(Dir(alpha) || Dir(beta)).

    Parameters
    ----------
    alpha : array, shape (N, C)
        Concentrations, above 0.
    beta : array, shape (N, C) or (C,), optional
        Those of the other; by default all 1, the uniform distribution.

    Returns
    -------
    array, shape (N,), float64
        In nats, at least 0.

    Raises
    ------
    ValueError
        If shapes do not fit, or the concentrations are empty or not finite and
        above 0.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), section 4, for the uniform one.
    """
    alpha = _as_concentrations(alpha)
    beta = np.ones(alpha.shape[1]) if beta is None else as_real(beta, "beta")
    if beta.shape not in (alpha.shape, alpha.shape[1:]):
        raise ValueError(f"beta: expected the shape {alpha.shape} or {alpha.shape[1:]}, got {beta.shape}")
    if beta.min() <= 0:
        raise ValueError(f"beta: expected concentrations above 0, got {beta.min():.4g}")
    strength = alpha.sum(axis=1)
    normalisers = (
        gammaln(strength) - gammaln(beta.sum(axis=-1)) + (gammaln(beta) - gammaln(alpha)).sum(axis=1)
    )
    moments = ((alpha - beta) * (digamma(alpha) - digamma(strength)[:, None])).sum(axis=1)
    return np.maximum(normalisers + moments, 0.0)


# --- classification: head, losses, prediction -------------------------------------------------------------


class DirichletHead(torch.nn.Module):
    """Turns a network's outputs into concentrations: evidence that cannot be negative, plus 1.

    Parameters
    ----------
    activation : {"softplus", "exp", "relu"}
        How an output becomes evidence; that of ``"exp"`` ends at 5e21.
        ``"relu"`` is the original one; an input
        all of whose outputs are negative then has no gradient, and nothing is
        ever learned from it again.

    Raises
    ------
    ValueError
        If the activation is another.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), section 3. Pandey and Yu (2023), Learn
    to accumulate evidence from all training samples, on the activations.
    """

    def __init__(self, activation="softplus"):
        super().__init__()
        self.activation = as_choice(activation, "activation", tuple(ACTIVATIONS))

    def forward(self, outputs):
        return ACTIVATIONS[self.activation](outputs) + 1

    def extra_repr(self):
        return f"activation={self.activation!r}"


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

    Raises
    ------
    ValueError
        If shapes do not fit, a concentration is not above 0, or a label is not
        one of the classes.

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
        If an argument is out of range; when called, as :func:`evidential_loss`.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), section 4.
    """

    def __init__(self, kind="mse", *, kl_weight=1.0, annealing_steps=0):
        self.kind = as_choice(kind, "kind", KINDS)
        self.kl_weight = as_number(kl_weight, "kl_weight", low=0)
        self.annealing_steps = as_whole(annealing_steps, "annealing_steps", low=0)
        self.steps = 0

    @property
    def weight(self):
        """The weight of the penalty in the next step."""
        share = min(1.0, self.steps / self.annealing_steps) if self.annealing_steps else 1.0
        return self.kl_weight * share

    def __call__(self, alpha, labels):
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

    Raises
    ------
    ValueError
        If ``precision`` is not above 0; when called, if shapes do not fit or a
        label is neither a class nor -1, which marks an example from outside.

    References
    ----------
    Malinin and Gales (2019), Reverse KL-divergence training of prior networks:
    improved uncertainty and adversarial robustness, eq. 11.
    """

    def __init__(self, precision=100.0):
        self.precision = as_number(precision, "precision", low=0, open_low=True)

    def __call__(self, alpha, labels):
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
    inputs : array, shape (N, ...)
        Inputs.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    DirichletDecomposition
        With ``mean``, ``alpha``, ``vacuity``, ``total``, ``aleatoric`` and
        ``epistemic``.

    Raises
    ------
    ValueError
        If the inputs are empty or not finite, or the model puts out something
        else than concentrations.

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
    return decompose(alpha)


# --- regression: the normal-inverse-gamma -----------------------------------------------------------------


class NormalInverseGammaHead(torch.nn.Module):
    """Turns four outputs into the parameters of a normal-inverse-gamma distribution.

    The columns that come out are γ (any number), ν > 0, α > 1 and β > 0: the
    variance is drawn from an inverse gamma with α and β, the mean from a normal
    around γ with that variance divided by ν.

    References
    ----------
    Amini et al. (2020), Deep evidential regression, section 3.
    """

    def forward(self, outputs):
        if outputs.shape[-1] != 4:
            raise ValueError(f"outputs: expected four an input, got shape {tuple(outputs.shape)}")
        gamma, raw = outputs[..., :1], functional.softplus(outputs[..., 1:])
        tiny = torch.finfo(raw.dtype).eps  # softplus can round to 0
        nu, alpha, beta = raw.split(1, dim=-1)
        return torch.cat([gamma, nu + tiny, alpha + 1 + tiny, beta + tiny], dim=-1)


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

    Raises
    ------
    ValueError
        If an argument is empty or not finite, shapes differ, or a parameter is
        not above 0.

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

    Raises
    ------
    ValueError
        If the weight is below 0; when called, if shapes do not fit, or the
        parameters are not those of a normal-inverse-gamma.

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
        _expect_above(parameters[:, 1:], 0, "parameters", "NormalInverseGammaHead")
        gamma, nu, alpha, beta = _wide(parameters).unbind(dim=1)
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
    inputs : array, shape (N, ...)
        Inputs.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    EvidentialRegression
        ``mean``, ``aleatoric``, ``epistemic`` and ``total`` in the unit of the
        targets: standard deviations, where the paper has variances.

    Raises
    ------
    ValueError
        If the inputs are empty or not finite, or the model puts out something
        else than the four parameters.

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


# --- what they share --------------------------------------------------------------------------------------


def _wide(tensor):
    """In double precision where there is one: differences of log gammas lose half of the digits."""
    return tensor if tensor.device.type == "mps" else tensor.double()


def _kl(alpha, beta):
    strength = alpha.sum(dim=1)
    normalisers = torch.lgamma(strength) - torch.lgamma(beta.sum(dim=1))
    normalisers = normalisers + (torch.lgamma(beta) - torch.lgamma(alpha)).sum(dim=1)
    moments = (alpha - beta) * (torch.digamma(alpha) - torch.digamma(strength)[:, None])
    return normalisers + moments.sum(dim=1)


def _nig_nll(y, gamma, nu, alpha, beta):
    omega = 2 * beta * (1 + nu)
    return (
        0.5 * torch.log(torch.pi / nu)
        - alpha * torch.log(omega)
        + (alpha + 0.5) * torch.log((y - gamma).square() * nu + omega)
        + torch.lgamma(alpha)
        - torch.lgamma(alpha + 0.5)
    )


def _as_concentrations(alpha):
    alpha = as_real(alpha, "alpha", ndim=2)
    if alpha.shape[1] < 2:
        raise ValueError(f"alpha: expected at least two classes, shape (inputs, classes), got {alpha.shape}")
    if alpha.min() <= 0:
        raise ValueError(f"alpha: expected concentrations above 0, got {alpha.min():.4g}: are these logits?")
    return alpha


def _as_alpha_tensor(alpha):
    if not torch.is_tensor(alpha) or alpha.ndim != 2 or alpha.shape[1] < 2 or not len(alpha):
        found = tuple(alpha.shape) if torch.is_tensor(alpha) else type(alpha).__name__
        raise ValueError(f"alpha: expected a tensor of shape (inputs, classes), got {found}")
    _expect_above(alpha, 0, "alpha", "DirichletHead")
    return _wide(alpha)


def _as_label_tensor(labels, alpha, low=0):
    labels = torch.as_tensor(labels, device=alpha.device)
    if labels.shape != alpha.shape[:1]:
        raise ValueError(f"labels: expected {len(alpha)}, one an input, got shape {tuple(labels.shape)}")
    whole = labels.long()
    if (whole != labels).any() or whole.min() < low or whole.max() >= alpha.shape[1]:
        raise ValueError(
            f"labels: expected whole numbers from {low} to {alpha.shape[1] - 1}, "
            f"got {labels.min().item():g} to {labels.max().item():g}"
        )
    return whole


def _expect_above(values, low, name, head):
    least = values.detach().amin()
    if not least > low:  # false for NaN too
        raise ValueError(
            f"{name}: expected numbers above {low}, got {least.item():.4g}: does it end in a {head}?"
        )
