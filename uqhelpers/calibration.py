"""Calibration: what makes probabilities mean what they say, after training or during it.

After training, on held-out predictions: ``VectorScaling``, ``HistogramBinning``
and ``IsotonicCalibration``, each a ``fit`` and a ``predict``. (The simplest of
them, one temperature, is ``metrics.fit_temperature``.) During training: the
losses ``label_smoothing`` and ``focal_loss``, to be handed to
``training.fit(loss=...)``. ``brier_decomposition`` says what a Brier score is
made of. How to *measure* calibration is in ``uqhelpers.metrics``.
"""

import dataclasses
import warnings

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_choice, as_distributions, as_labels, as_number, as_real, as_whole

__all__ = [
    "BrierDecomposition",
    "HistogramBinning",
    "IsotonicCalibration",
    "VectorScaling",
    "brier_decomposition",
    "focal_loss",
    "label_smoothing",
]

MOST = 1_000_000  # bins
STEPS = 1000  # of L-BFGS: far more than a convex loss in 2 C parameters needs


# --- what a Brier score is made of ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BrierDecomposition:
    """The parts of a Brier score; ``score`` is their sum.

    Attributes
    ----------
    reliability : float
        Mean squared distance of the bins' forecasts from what happened in them.
        0 is calibrated; lower is better.
    resolution : float
        Mean squared distance of what happens in the bins from what happens
        overall. Higher is better; a forecast that is always the same has none.
    uncertainty : float
        The Brier score of always forecasting the base rates. No forecaster can
        change it.
    within : float
        What binning leaves over: the spread of the forecasts inside their bins,
        less twice what of it goes along with the outcomes. 0 if every bin holds
        one value.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within: float

    @property
    def score(self):
        """The Brier score: reliability - resolution + uncertainty + within."""
        return self.reliability - self.resolution + self.uncertainty + self.within


def brier_decomposition(probs, labels, bins=10):
    """Split the Brier score into reliability, resolution and uncertainty.

    Each class's probability is binned, its parts are found as for a two-class
    forecast, and the parts are added up over the classes. The first three parts
    describe the *binned* forecast; the fourth makes the sum exact.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
        Class probabilities. Sampled ones are averaged over ``S`` first.
    labels : array of int, shape (N,)
        True classes, from 0 to ``C - 1``.
    bins : int or None
        Number of right-closed bins of equal width; with ``None`` every value
        that occurs is a bin of its own, and nothing is left over. Many values
        that occur once make the reliability and the resolution large: noise.

    Returns
    -------
    BrierDecomposition
        Its ``score`` equals ``metrics.brier_score(probs, labels)``.

    Raises
    ------
    ValueError
        If ``probs`` are not distributions, ``labels`` do not fit them, or
        ``bins`` is neither a whole number from 1 to a million nor ``None``.

    References
    ----------
    Murphy (1973), A new vector partition of the probability score; Stephenson,
    Coelho and Jolliffe (2008), Two extra components in the Brier score
    decomposition.
    """
    probs = as_distributions(probs, ("NC", "SNC"))
    probs = probs.mean(axis=0) if probs.ndim == 3 else probs
    labels = as_labels(labels, probs.shape[1], length=len(probs))
    edges = None if bins is None else np.arange(as_whole(bins, "bins", high=MOST) + 1) / bins
    parts = np.zeros(4)
    for number in range(probs.shape[1]):
        parts += _murphy(probs[:, number], (labels == number).astype(float), edges)
    return BrierDecomposition(*map(float, parts))


def _murphy(forecast, happened, edges):
    """Reliability, resolution, uncertainty and the rest of one class's forecasts."""
    place = np.unique(forecast, return_inverse=True)[1] if edges is None else _place(forecast, edges)
    count = np.bincount(place)
    filled = np.maximum(count, 1)  # empty bins weigh nothing
    said = np.bincount(place, weights=forecast) / filled
    seen = np.bincount(place, weights=happened) / filled
    weight, rate = count / len(forecast), happened.mean()
    inside = forecast - said[place]
    return np.array(
        [
            weight @ (said - seen) ** 2,
            weight @ (seen - rate) ** 2,
            rate * (1 - rate),
            np.mean(inside**2) - 2 * np.mean(inside * happened),
        ]
    )


def _place(values, edges):
    """The right-closed bin of each value; 0 belongs to the first bin."""
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)


# --- after training ---------------------------------------------------------------------------------------


class VectorScaling:
    """A scale and a shift for each class's logit: ``softmax(scale * logits + shift)``.

    Temperature scaling is the case of one scale and no shifts. With ``2 C``
    parameters more can be mended and more can be overfitted, and the predicted
    class can change.

    Parameters
    ----------
    penalty : float
        Factor, at least 0, of the squared distance from changing nothing (all
        scales 1, all shifts 0), which is added to the mean negative
        log-likelihood. A little of it gives separable logits an optimum.

    Attributes
    ----------
    scale, shift : array, shape (C,)
        What was fitted. Scales can come out negative: nothing forbids it.

    References
    ----------
    Guo et al. (2017), On calibration of modern neural networks, section 4.2.
    """

    def __init__(self, penalty=0.0):
        self.penalty = as_number(penalty, "penalty", low=0)
        self.scale = self.shift = None

    def fit(self, logits, labels):
        """Minimise the negative log-likelihood of held-out labels, which is convex here.

        Parameters
        ----------
        logits : array, shape (N, C)
            Logits of held-out inputs.
        labels : array of int, shape (N,)
            True classes, from 0 to ``C - 1``.

        Returns
        -------
        VectorScaling
            Itself.

        Raises
        ------
        ValueError
            If ``logits`` are not finite numbers of shape (N, C), or ``labels``
            do not fit them.

        Warns
        -----
        RuntimeWarning
            If no optimum was reached, as when the logits are separable or a
            class has no label, and there is no penalty.
        """
        from scipy.optimize import minimize

        logits = as_real(logits, "logits", ndim=2)
        labels = as_labels(labels, logits.shape[1], length=len(logits))
        classes = logits.shape[1]
        truth = np.eye(classes)[labels]
        spread = float(logits.std()) or 1.0  # logits of size 1 make the steps well scaled
        scaled, nothing = logits / spread, np.concatenate([np.full(classes, spread), np.zeros(classes)])
        units = np.concatenate([np.full(classes, 1 / spread), np.ones(classes)])

        def loss(parameters):
            moved = scaled * parameters[:classes] + parameters[classes:]
            largest = moved.max(axis=1, keepdims=True)
            log_sum = np.log(np.exp(moved - largest).sum(axis=1, keepdims=True)) + largest
            away = (parameters - nothing) * units
            value = np.mean(log_sum[:, 0] - moved[truth.astype(bool)]) + self.penalty * away @ away
            error = (np.exp(moved - log_sum) - truth) / len(logits)
            slope = np.concatenate([(error * scaled).sum(axis=0), error.sum(axis=0)])
            return value, slope + 2 * self.penalty * away * units

        found = minimize(
            loss,
            nothing,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxfun": 5 * STEPS, "ftol": 1e-14, "gtol": 1e-8},
        )
        value, slope = loss(found.x)
        endless = not self.penalty and (value < 1e-6 or not truth.any(axis=0).all())
        if endless or np.abs(slope).max() > 1e-5:
            warnings.warn(
                "no optimum was reached: separable logits or a class without labels have none; "
                "a penalty gives them one",
                RuntimeWarning,
                stacklevel=2,
            )
        self.scale, self.shift = found.x[:classes] / spread, found.x[classes:]
        return self

    def predict(self, logits):
        """Class probabilities of scaled and shifted logits.

        Parameters
        ----------
        logits : array, shape (N, C)
            Logits.

        Returns
        -------
        array, shape (N, C), float64
            Probabilities.

        Raises
        ------
        ValueError
            If nothing was fitted yet, or the logits have another number of classes.
        """
        logits = as_real(logits, "logits", ndim=2)
        _check_fitted(self.scale, "logits", logits, len(self.scale) if self.scale is not None else 0)
        return metrics.from_logits(logits * self.scale + self.shift)


class _OneAgainstRest:
    """One map from a probability to a frequency for each class; rows are made to sum to 1 again."""

    def __init__(self):
        self.maps = None

    def fit(self, probs, labels):
        """Learn, class by class, how often it happened when a probability was given.

        Parameters
        ----------
        probs : array, shape (N, C)
            Class probabilities of held-out inputs.
        labels : array of int, shape (N,)
            True classes, from 0 to ``C - 1``.

        Returns
        -------
        object
            Itself.

        Raises
        ------
        ValueError
            If ``probs`` are not distributions or ``labels`` do not fit them.
        """
        probs = np.clip(as_distributions(probs, "NC"), 0, 1)  # rounding can leave a hair above 1
        labels = as_labels(labels, probs.shape[1], length=len(probs))
        self.maps = [
            self._fit_class(np.ascontiguousarray(probs[:, number]), labels == number)
            for number in range(probs.shape[1])
        ]
        return self

    def predict(self, probs):
        """Probabilities that have been mapped, and normalised.

        Parameters
        ----------
        probs : array, shape (N, C)
            Class probabilities.

        Returns
        -------
        array, shape (N, C), float64
            Probabilities; they can be exactly 0. Where every class was mapped
            to 0, the row is left as it came.

        Raises
        ------
        ValueError
            If nothing was fitted yet, ``probs`` are not distributions, or they
            have another number of classes.
        """
        probs = np.clip(as_distributions(probs, "NC"), 0, 1)
        _check_fitted(self.maps, "probs", probs, len(self.maps or ()))
        mapped = np.stack([one(probs[:, number]) for number, one in enumerate(self.maps)], axis=1)
        total = mapped.sum(axis=1, keepdims=True)
        mapped = np.where(total > 0, mapped, probs)
        return mapped / mapped.sum(axis=1, keepdims=True)


class HistogramBinning(_OneAgainstRest):
    """Replace each probability by how often its class was the label in its bin.

    Class against the rest, then normalised. An empty bin keeps its centre.

    Parameters
    ----------
    bins : int
        Number of bins.
    spacing : {"mass", "width"}
        Bins that hold equally many values (ties stay together), or of equal width.

    Raises
    ------
    ValueError
        If ``bins`` is not a whole number from 1 to a million, or ``spacing`` is unknown.

    References
    ----------
    Zadrozny and Elkan (2001), Obtaining calibrated probability estimates from
    decision trees and naive Bayesian classifiers.
    """

    def __init__(self, bins=10, spacing="mass"):
        super().__init__()
        self.bins = as_whole(bins, "bins", high=MOST)
        self.spacing = as_choice(spacing, "spacing", ("mass", "width"))

    def _fit_class(self, given, happened):
        curve = metrics.reliability_from_confidence(given, happened, self.bins, self.spacing)
        frequency = (curve.edges[1:] + curve.edges[:-1]) / 2
        frequency[curve.index] = curve.accuracy
        return lambda values: frequency[_place(values, curve.edges)]


class IsotonicCalibration(_OneAgainstRest):
    """Replace each probability by the rising step function of it that fits the labels best.

    Scikit-learn's isotonic regression, class against the rest, then normalised.
    It needs no bins: it finds them. It says 0 and 1 where only one outcome was
    seen, so that its negative log-likelihood on new data can be infinite.

    References
    ----------
    Zadrozny and Elkan (2002), Transforming classifier scores into accurate
    multiclass probability estimates.
    """

    def _fit_class(self, given, happened):
        from sklearn.isotonic import IsotonicRegression

        steps = IsotonicRegression(y_min=0, y_max=1, increasing=True, out_of_bounds="clip")
        return steps.fit(given, happened.astype(float)).predict


def _check_fitted(fitted, name, array, classes):
    if fitted is None:
        raise ValueError(f"{name}: expected a calibration that was fitted, call fit first; got {array.shape}")
    if array.shape[1] != classes:
        raise ValueError(f"{name}: expected {classes} classes as when fitted, got {array.shape[1]}")


# --- during training --------------------------------------------------------------------------------------


def label_smoothing(amount=0.1):
    """A loss: the cross-entropy with labels that are a little uncertain.

    The target is ``1 - amount`` on the label, and ``amount`` spread evenly over
    all ``C`` classes. Its minimum is at the confidence ``1 - amount + amount / C``,
    never at 1.

    Parameters
    ----------
    amount : float
        From 0, which is the cross-entropy, to below 1.

    Returns
    -------
    callable
        Takes ``(outputs, targets)``: logits of shape (N, C) and labels of shape
        (N,); returns a scalar tensor, in nats.

    Raises
    ------
    ValueError
        If ``amount`` lies outside [0, 1).

    References
    ----------
    Szegedy et al. (2016), Rethinking the inception architecture for computer
    vision, section 7; Müller, Kornblith and Hinton (2019), When does label
    smoothing help?
    """
    from uqhelpers._torch import torch

    amount = as_number(amount, "amount", low=0)
    if amount >= 1:
        raise ValueError(f"amount: expected a number in [0, 1), got {amount}")

    def loss(outputs, targets):
        return torch.nn.functional.cross_entropy(outputs, targets.long(), label_smoothing=amount)

    return loss


def focal_loss(gamma=2.0):
    """A loss: the cross-entropy, weighted by how far the label's probability is from 1.

    For one example ``-(1 - p)^gamma log p``, where ``p`` is the probability of
    the label. What is already known well hardly counts.

    Parameters
    ----------
    gamma : float
        At least 0; 0 is the cross-entropy. Above 0 the loss is no proper
        scoring rule: it is minimised by probabilities that are less extreme
        than the true ones.

    Returns
    -------
    callable
        Takes ``(outputs, targets)``: logits of shape (N, C) and labels of shape
        (N,); returns a scalar tensor, in nats.

    Raises
    ------
    ValueError
        If ``gamma`` is negative or not a number.

    References
    ----------
    Lin et al. (2017), Focal loss for dense object detection, eq. 4; Mukhoti et
    al. (2020), Calibrating deep neural networks using focal loss; Charoenphakdee
    et al. (2021), On focal loss for class-posterior probability estimation.
    """
    from uqhelpers._torch import torch

    gamma = as_number(gamma, "gamma", low=0)

    def loss(outputs, targets):
        log_probs = outputs.log_softmax(-1)
        log_label = log_probs.gather(-1, targets.long().unsqueeze(-1)).squeeze(-1)
        if gamma == 0:
            return -log_label.mean()
        # 1 - p without cancellation; the floor keeps the slope of its power finite where p is 1.
        rest = (-torch.expm1(log_label)).clamp_min(torch.finfo(outputs.dtype).tiny)
        return -(rest**gamma * log_label).mean()

    return loss
