"""Batches that look at features: the farthest from what is known, and long gradients in many directions."""

import numpy as np

from uqhelpers._checks import as_distributions, as_generator, as_labels, as_real, as_whole
from uqhelpers.features import power_of_two

__all__ = ["badge", "gradient_gram", "k_center"]


def k_center(features, batch, known=None, seed=0):
    """The farthest-first batch: each input is the one farthest from all before it.

    The largest distance of any input to its nearest centre is then at most
    twice the least that so many centres can reach. Labels play no part.

    Parameters
    ----------
    features : array, shape (N, D)
        Of the candidates.
    batch : int
        Inputs to choose, at most ``N``.
    known : array, shape (M, D), optional
        Features of what has a label already: centres to begin with. Without
        them the first centre is drawn.
    seed : int or numpy.random.Generator

    Returns
    -------
    array of int, shape (batch,)
        In the order of choice; of several equally far the lowest index.

    References
    ----------
    Gonzalez (1985), Clustering to minimize the maximum intercluster distance.
    Sener and Savarese (2018), Active learning for convolutional neural
    networks: a core-set approach.
    """
    features = as_real(features, "features", ndim=2)
    batch = as_whole(batch, "batch", high=len(features))
    nearest = np.full(len(features), np.inf)
    if known is not None:
        known = as_real(known, "known", ndim=2)
        if known.shape[1] != features.shape[1]:
            raise ValueError(f"known: expected {features.shape[1]} features, got {known.shape[1]}")
    unit = power_of_two(max(np.abs(part).max() for part in (features, known) if part is not None))
    features = features / unit  # squares of what is left stay inside float64
    if known is not None:
        for centre in known / unit:
            nearest = np.minimum(nearest, _squared(features, centre))
    chosen = []
    for _ in range(batch):
        first = known is None and not chosen
        place = int(as_generator(seed).integers(len(features))) if first else int(nearest.argmax())
        chosen.append(place)
        nearest = np.minimum(nearest, _squared(features, features[place]))
        nearest[place] = -np.inf
    return np.array(chosen)


def _squared(features, centre):
    return np.square(features - centre).sum(axis=1)


def gradient_gram(probs, features, places):
    """Inner products of gradient embeddings: all inputs with some of them.

    The embedding of an input is the gradient of its loss in the last layer's
    weights, if the predicted class were true: ``(p − onehot) ⊗ features``. It is
    never formed: inner products of outer products factor.

    Parameters
    ----------
    probs : array, shape (N, C)
        Class probabilities.
    features : array, shape (N, D)
        What the last layer sees.
    places : sequence of int, from 0 to N - 1

    Returns
    -------
    array, shape (N, len(places))
    """
    probs, features = as_distributions(probs, "NC"), as_real(features, "features", ndim=2)
    if len(features) != len(probs):
        raise ValueError(f"features: expected {len(probs)} rows, one an input, got {len(features)}")
    return _gram(probs, features, as_labels(places, len(probs), "places"))


def _gram(probs, features, places):
    errors = probs - np.eye(probs.shape[1])[probs.argmax(axis=1)]
    return (errors @ errors[places].T) * (features @ features[places].T)


def badge(probs, features, batch, seed=0):
    """Batch by diverse gradient embeddings: k-means++ seeding among the last layer's gradients.

    Long gradients are uncertain inputs, far ones are different: each next input
    is drawn with a chance that grows with its squared distance to the nearest
    one chosen. The first is the longest.

    Parameters
    ----------
    probs : array, shape (N, C) or (S, N, C)
        Class probabilities; sampled ones are averaged.
    features : array, shape (N, D)
        What the last layer gets to see.
    batch : int
        Inputs to choose, at most ``N``.
    seed : int or numpy.random.Generator

    Returns
    -------
    array of int, shape (batch,)
        In the order of choice, no place twice.

    References
    ----------
    Ash, Zhang, Krishnamurthy, Langford and Agarwal (2020), Deep batch active
    learning by diverse, uncertain gradient lower bounds.
    """
    probs = as_distributions(probs, ("NC", "SNC"))
    probs = probs.mean(axis=0) if probs.ndim == 3 else probs
    features = as_real(features, "features", ndim=2)
    if len(features) != len(probs):
        raise ValueError(f"features: expected {len(probs)} rows, one an input, got {len(features)}")
    batch, rng = as_whole(batch, "batch", high=len(probs)), as_generator(seed)
    features = features / power_of_two(np.abs(features).max())  # their squares stay numbers
    errors = probs - np.eye(probs.shape[1])[probs.argmax(axis=1)]
    lengths = np.square(errors).sum(axis=1) * np.square(features).sum(axis=1)
    free = np.ones(len(probs), bool)
    chosen, nearest = [], lengths
    for _ in range(batch):
        chance = np.where(free, nearest, 0.0)
        if not chosen:
            place = int(lengths.argmax())
        elif chance.sum() > 0:
            place = int(rng.choice(len(probs), p=chance / chance.sum()))
        else:  # all that is left lies where something was chosen
            place = int(rng.choice(np.flatnonzero(free)))
        products = _gram(probs, features, [place])[:, 0]
        distance = np.maximum(lengths + lengths[place] - 2 * products, 0.0)
        nearest = distance if not chosen else np.minimum(nearest, distance)
        free[place] = False
        chosen.append(place)
    return np.array(chosen)
