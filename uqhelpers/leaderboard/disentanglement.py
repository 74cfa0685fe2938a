"""Two kinds of uncertainty that are told apart: how far they move together, and how far lots do."""

import numpy as np

from uqhelpers._checks import as_distributions, as_generator, as_number, as_real, as_scores, as_whole

__all__ = [
    "forced_correlation",
    "largest_epistemic",
    "pairwise_divergence",
    "rank_correlation",
    "split_at_random",
]


def rank_correlation(first, second):
    """Spearman's rank correlation, with average ranks for ties; NaN if one of the two is constant.

    Parameters
    ----------
    first, second : array, shape (N,)
        Infinities are ranked like any number.

    Returns
    -------
    float
        From -1 to 1.
    """
    from scipy.stats import rankdata

    first = as_scores(first, "first")
    second = as_scores(second, "second", len(first))
    ranks = [rankdata(values) - (len(first) + 1) / 2 for values in (first, second)]
    lengths = np.prod([np.sqrt((r**2).sum()) for r in ranks])
    return float(ranks[0] @ ranks[1] / lengths) if lengths > 0 else np.nan


def largest_epistemic(total, members=None):
    """An upper bound on the mutual information at a given total uncertainty.

    Any number of models can attain the total. Few models stay below, far below
    where the total is small: of five, with a total of 0.1 nats, no split of
    more than about 0.034 is known.

    Parameters
    ----------
    total : array, shape (N,)
        Predictive entropies, in nats.
    members : int, optional
        How many sampled models were averaged; any number, if there is none.

    Returns
    -------
    array, shape (N,)
        In nats: the total itself, and at most the logarithm of ``members``.
    """
    total = as_real(total, "total", ndim=1)
    if total.min() < 0:
        raise ValueError(f"total: expected entropies of at least 0, got {total.min():.4g}")
    return total.copy() if members is None else np.minimum(total, np.log(as_whole(members, "members")))


def split_at_random(total, members=None, seed=0):
    """The same total uncertainties, parted by uniform lots between the bounds.

    One null model of several: shares of another law correlate otherwise, and few
    models attain by no means each of these splits.

    Parameters
    ----------
    total, members
        As for :func:`largest_epistemic`.
    seed : int or numpy.random.Generator

    Returns
    -------
    aleatoric, epistemic : array, shape (N,)
        Their sum is ``total``.
    """
    total = as_real(total, "total", ndim=1)
    epistemic = as_generator(seed).random(total.shape) * largest_epistemic(total, members)
    return np.maximum(total - epistemic, 0.0), epistemic


def forced_correlation(total, members=None, draws=20, seed=0):
    """The rank correlation of aleatoric and epistemic uncertainty of splits by uniform lots.

    Both parts are at least 0 and add up to the total, so that both vanish where
    the prediction is certain. Splits at random (:func:`split_at_random`) know
    nothing of the world beyond that. It is one null model, and no bound: shares
    that hardly vary correlate up to 1, shares near 0 or 1 hardly or negatively.

    Parameters
    ----------
    total, members
        As for :func:`largest_epistemic`.
    draws : int
        How many random splits.
    seed : int or numpy.random.Generator

    Returns
    -------
    array, shape (draws,)
        A rank correlation for each.

    References
    ----------
    The necessary conditions are those of Wimmer et al. (2023), Quantifying
    aleatoric and epistemic uncertainty in machine learning: are conditional
    entropy and mutual information appropriate measures?
    """
    total, rng = as_real(total, "total", ndim=1), as_generator(seed)
    return np.array(
        [rank_correlation(*split_at_random(total, members, rng)) for _ in range(as_whole(draws, "draws"))]
    )


def pairwise_divergence(probs, smallest=1e-12):
    """Mean Kullback–Leibler divergence of two sampled models, each drawn by itself: another epistemic part.

    It is the mutual information plus its mirror image, the mean divergence of
    the average from the members; unlike the mutual information it has no upper
    bound.

    Parameters
    ----------
    probs : array, shape (S, N, C)
        Class probabilities of ``S`` sampled models.
    smallest : float
        Probabilities below count as this much, else one zero is infinite.

    Returns
    -------
    array, shape (N,), in nats

    References
    ----------
    Schweighofer et al. (2023), Introducing an improved information-theoretic
    measure of predictive uncertainty. Malinin and Gales (2021), Uncertainty
    estimation in autoregressive structured prediction, on the identity.
    """
    probs = as_distributions(probs, "SNC")
    logs = np.log(np.maximum(probs, as_number(smallest, "smallest", low=0, high=1, open_low=True)))
    own = (probs * logs).sum(axis=-1).mean(axis=0)
    return np.maximum(own - (probs.mean(axis=0) * logs.mean(axis=0)).sum(axis=-1), 0.0)
