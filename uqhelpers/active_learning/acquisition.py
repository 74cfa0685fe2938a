"""Which inputs of a pool to ask about: scores by name, and strategies that choose a batch."""

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import as_choice, as_distributions, as_generator, as_number, as_scores, as_whole
from uqhelpers.active_learning.batches import batch_bald
from uqhelpers.active_learning.diversity import badge, k_center
from uqhelpers.active_learning.information import epig

__all__ = ["SCORES", "STRATEGIES", "acquire", "power_bald", "score"]

SCORES = {
    "entropy": metrics.predictive_entropy,
    "least_confidence": lambda probs: 1 - metrics.max_probability(probs),
    "margin": lambda probs: 1 - metrics.margin(probs),
    "variation_ratio": metrics.variation_ratio,
    "bald": metrics.mutual_information,
}
"""Scores of single inputs by name; each takes probabilities and is higher for what to ask sooner."""

STRATEGIES = ("random", *SCORES, "power_bald", "batch_bald", "epig", "k_center", "badge")
"""What ``acquire`` knows."""

OPTIONS = {
    "power_bald": {"beta"},
    "batch_bald": {"configurations"},
    "epig": {"targets"},
    "k_center": {"features", "known"},
    "badge": {"features"},
}
NEEDED = {"epig": "targets", "k_center": "features", "badge": "features"}


def score(probs, strategy="bald"):
    """How much each input asks for a label, by a score of single inputs.

    Parameters
    ----------
    probs : array, shape (S, N, C) or (N, C)
        Class probabilities; "bald" and "variation_ratio" need sampled ones.
    strategy : {"entropy", "least_confidence", "margin", "variation_ratio", "bald"}

    Returns
    -------
    array, shape (N,), float64
        Higher is asked sooner. Entropy and BALD in nats, the others from 0 to 1.

    Raises
    ------
    ValueError
        If there is no such score, or ``probs`` holds no distributions.

    References
    ----------
    Settles (2009), Active learning literature survey, section 3.1; Houlsby et
    al. (2011) for BALD.
    """
    return SCORES[as_choice(strategy, "strategy", SCORES)](probs)


def acquire(probs, strategy="bald", batch=10, seed=0, **options):
    """Choose which inputs of a pool to ask about.

    Parameters
    ----------
    probs : array, shape (S, N, C) or (N, C), or iterator of such arrays
        Class probabilities of the pool. An iterator (a generator, not a list) gives
        them in chunks of inputs, and only scores are kept: for "random",
        "power_bald" and whatever ``score`` knows.
    strategy : str
        One of ``STRATEGIES``.
    batch : int
        Inputs to choose.
    seed : int or numpy.random.Generator
        Of what is drawn: "random", "power_bald", "badge", the configurations
        of "batch_bald", the first centre of "k_center" where nothing is known.
    options : keyword arguments
        ``beta`` for "power_bald", ``configurations`` for "batch_bald",
        ``targets`` for "epig", ``features`` for "badge" and "k_center", and
        ``known`` for the latter.

    Returns
    -------
    array of int, shape (batch,)
        Places in the pool, none twice, in the order of choice: first the one to
        ask first. Of several equal scores the lowest place.

    Raises
    ------
    ValueError
        If an option is missing or not one of the strategy's own, or the pool is
        smaller than the batch.

    Examples
    --------
    >>> acquire(mc_dropout.sample(net, pool, 100, masks="shared"), "batch_bald", 10)
    """
    as_choice(strategy, "strategy", STRATEGIES)
    batch, rng = as_whole(batch, "batch"), as_generator(seed)
    foreign = sorted(set(options) - OPTIONS.get(strategy, set()))
    if foreign:
        raise ValueError(f"{foreign[0]}: expected no such option with strategy {strategy!r}")
    if options.get(NEEDED.get(strategy), 0) is None or NEEDED.get(strategy, strategy) not in {
        *options,
        strategy,
    }:
        raise ValueError(f"{NEEDED[strategy]}: expected with strategy {strategy!r}, got none")
    if hasattr(probs, "__next__"):
        return _from_chunks(probs, strategy, batch, rng, options)
    if strategy in ("random", "power_bald", *SCORES):
        return _from_chunks([probs], strategy, batch, rng, options)
    probs = as_distributions(probs, ("NC", "SNC") if strategy in ("k_center", "badge") else "SNC")
    _expect_enough(probs.shape[-2], batch)
    if strategy == "batch_bald":
        return batch_bald(probs, batch, seed=rng, **options).indices
    if strategy == "epig":
        return _best(epig(probs, **options), batch)
    if strategy == "k_center":
        if len(options["features"]) != probs.shape[-2]:
            raise ValueError(f"features: expected {probs.shape[-2]} rows, got {len(options['features'])}")
        return k_center(batch=batch, seed=rng, **options)
    return badge(probs, batch=batch, seed=rng, **options)


def power_bald(scores, batch, beta=1.0, seed=0):
    """Choose a batch with chances in proportion to a power of the scores, without replacement.

    The largest of ``log s + Gumbel noise of scale 1/β``: one pass, no joint
    entropies, and a batch that does not repeat itself as the top scores do.

    Parameters
    ----------
    scores : array, shape (N,)
        None below 0; those of BALD, say. A score of 0 is taken only when
        nothing else is left.
    batch : int
        Inputs to choose, at most ``N``.
    beta : float
        The power, 0 or more: 0 is random among all that have a score, large
        values are the top scores.
    seed : int or numpy.random.Generator

    Returns
    -------
    array of int, shape (batch,)

    Raises
    ------
    ValueError
        If a score is below 0, or there are fewer inputs than asked for.

    References
    ----------
    Kirsch, Farquhar, Atighehchian, Jesson, Branchaud-Charron and Gal (2023),
    Stochastic batch acquisition: a simple baseline for deep active learning.
    """
    scores = as_scores(scores, "scores")
    if scores.min() < 0 or np.isinf(scores).any():
        raise ValueError(f"scores: expected finite numbers of at least 0, got {scores.min():.4g}")
    batch, beta = as_whole(batch, "batch", high=len(scores)), as_number(beta, "beta", low=0)
    noise = as_generator(seed).gumbel(size=len(scores))
    some = scores > 0
    keys = np.where(some, beta * np.log(np.where(some, scores, 1)) + noise, noise)
    return np.lexsort((-keys, ~some))[:batch]


def _from_chunks(chunks, strategy, batch, rng, options):
    """The batch of a strategy that looks at inputs one by one, of a pool that comes in chunks."""
    if strategy not in ("random", "power_bald", *SCORES):
        raise ValueError(f"strategy: expected one that ranks inputs one by one for chunks, got {strategy!r}")
    name = "bald" if strategy == "power_bald" else strategy
    parts = []
    for chunk in chunks:
        if name == "random":
            probs = as_distributions(chunk, ("NC", "SNC"))
            parts.append(np.zeros(probs.shape[-2]))
        else:
            parts.append(score(chunk, name))
    if not parts:
        raise ValueError("probs: expected at least one chunk, got none")
    scores = np.concatenate(parts)
    _expect_enough(len(scores), batch)
    if strategy == "random":
        return rng.permutation(len(scores))[:batch]
    if strategy == "power_bald":
        return power_bald(scores, batch, seed=rng, **options)
    return _best(scores, batch)


def _best(scores, batch):
    return np.argsort(-np.round(scores, 12), kind="stable")[:batch]  # what rounding parts is equal


def _expect_enough(inputs, batch):
    if batch > inputs:
        raise ValueError(f"batch: expected at most {inputs}, the size of the pool, got {batch}")
