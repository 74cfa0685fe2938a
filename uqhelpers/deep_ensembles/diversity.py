"""How far the functions are apart that the members compute."""

import dataclasses

import numpy as np

from uqhelpers._checks import as_distributions
from uqhelpers.metrics import predictive_entropy


@dataclasses.dataclass(frozen=True, eq=False)
class Disagreement:
    """Distances between the functions that members compute, pair by pair, averaged over inputs.

    Attributes
    ----------
    differs : array, shape (M, M)
        Share of the inputs on which two members predict different classes.
    jensen_shannon : array, shape (M, M)
        Jensen–Shannon divergence of the two predictions, in nats, from 0 to
        ``log 2``: the mutual information of an ensemble of these two.
    total_variation : array, shape (M, M)
        Half the sum of absolute differences, from 0 to 1.
    """

    differs: np.ndarray
    jensen_shannon: np.ndarray
    total_variation: np.ndarray

    @property
    def mean_differs(self):
        """Average over all pairs of different members."""
        return _off_diagonal_mean(self.differs)

    @property
    def mean_jensen_shannon(self):
        """Average over all pairs of different members."""
        return _off_diagonal_mean(self.jensen_shannon)

    @property
    def mean_total_variation(self):
        """Average over all pairs of different members."""
        return _off_diagonal_mean(self.total_variation)


def disagreement(probs):
    """How different the functions are that the members compute.

    Weights can be far apart and compute the same function (units can be
    swapped); these distances see only what is predicted.

    Parameters
    ----------
    probs : array, shape (M, N, C)
        Class probabilities of at least two members.

    Returns
    -------
    Disagreement

    Raises
    ------
    ValueError
        If there is only one member.

    References
    ----------
    Fort, Hu and Lakshminarayanan (2019), Deep ensembles: a loss landscape
    perspective.
    """
    probs = as_distributions(probs, "SNC")
    members = len(probs)
    if members < 2:
        raise ValueError("probs: expected at least two members, got one")
    classes = probs.argmax(axis=-1)
    entropies = [predictive_entropy(one) for one in probs]
    differs, divergence, variation = (np.zeros((members, members)) for _ in range(3))
    for i in range(members):
        for j in range(i):
            between = predictive_entropy((probs[i] + probs[j]) / 2) - (entropies[i] + entropies[j]) / 2
            differs[i, j] = (classes[i] != classes[j]).mean()
            divergence[i, j] = np.maximum(between, 0).mean()
            variation[i, j] = np.abs(probs[i] - probs[j]).sum(axis=-1).mean() / 2
    return Disagreement(*(lower + lower.T for lower in (differs, divergence, variation)))


def _off_diagonal_mean(matrix):
    return float(matrix.sum() / (len(matrix) * (len(matrix) - 1)))
