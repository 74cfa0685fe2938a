"""Everything that one pass through one network says."""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from uqhelpers.ddu.density import GaussianFeatureDensity, ddu_score, quantile
from uqhelpers.metrics import predictive_entropy
from uqhelpers.training import features_and_outputs

__all__ = ["DDUPrediction", "predict"]


@dataclass(frozen=True, eq=False)
class DDUPrediction:
    """Everything that one pass through one network says.

    Attributes
    ----------
    probs : array, shape (N, C)
        Class probabilities.
    aleatoric : array, shape (N,)
        Entropy of the softmax in nats: how contested the answer is. To be
        believed only where the input is not strange.
    log_density : array, shape (N,)
        Log density of the features in nats.
    epistemic : array, shape (N,)
        Minus the log density: how strange the input is.
    quantile : array, shape (N,), or None
        The share of held-out inputs that are at least as strange; ``None``
        for a density without calibration.
    """

    probs: np.ndarray
    aleatoric: np.ndarray
    log_density: np.ndarray
    epistemic: np.ndarray
    quantile: np.ndarray | None

    @property
    def mean(self):
        """The class probabilities, as every prediction of this package names them."""
        return self.probs

    @property
    def confidence(self):
        """The largest class probability, shape (N,)."""
        return self.probs.max(axis=1)


def predict(model, density, inputs, batch_size=500):
    """Probabilities, aleatoric and epistemic uncertainty of each input, from one pass.

    Parameters
    ----------
    model : torch.nn.Module
        A classifier that puts out logits and ends in a ``torch.nn.Linear``;
        left in the state in which it came. One logit alone is the log odds of
        class 1.
    density : GaussianFeatureDensity
        Fitted to :func:`uqhelpers.training.features` of the training inputs.
    inputs : array, shape (N, ...), or a loader that keeps their order
    batch_size : int, inputs at a time

    Returns
    -------
    DDUPrediction
        With the quantile of the density where the density was calibrated.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty.
    """
    if not isinstance(density, GaussianFeatureDensity):
        raise ValueError(f"density: expected a GaussianFeatureDensity, got {type(density).__name__}")
    density._check_fitted()
    values, logits = features_and_outputs(model, inputs, batch_size)
    if logits.shape[1] == 1:  # a softmax of one logit would be 1 for everybody
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    probs = softmax(logits, axis=1)
    log_density = density.log_density(values)
    place = quantile(log_density, density._held_out) if density.calibrated else None
    return DDUPrediction(probs, predictive_entropy(probs), log_density, ddu_score(log_density), place)
