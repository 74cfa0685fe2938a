"""Credal sets: many distributions at once, for those who know that they do not know.

A ``Box`` bounds the probability of every class; a ``Hull`` holds all mixtures of
given distributions. ``from_ensemble`` makes either of sampled predictions,
``imprecise_dirichlet`` a box of counts. Of both kinds: the probability of an
event from below and from above, the entropy from below and from above (exact for
any number of classes), and ``decide``: which classes, or acts, stay standing.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from uqhelpers._checks import as_choice, as_distributions, as_flags, as_number, as_own_real, as_real
from uqhelpers.features import power_of_two

__all__ = [
    "Box",
    "Hull",
    "decide",
    "from_ensemble",
    "imprecise_dirichlet",
    "lower_entropy",
    "lower_probability",
    "upper_entropy",
    "upper_probability",
]

SLACK = 1e-9  # by which bounds may miss a sum of 1, for they were rounded;
ROUNDED = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-5}  # more where they are coarser
EXACT = 1e-13  # lower entropies are found to this many nats
ROWS = 10_000  # boxes worked on at a time
NUMBERS = 1 << 20  # of the systems of equations solved at a time


@dataclass(frozen=True, eq=False)
class Box:
    """All distributions whose class probabilities lie between bounds.

    Bounds that no distribution in the box attains are drawn in.

    Parameters
    ----------
    lower, upper : array, shape (N, C)
        Bounds in [0, 1] with ``lower <= upper``, the lower ones summing to at most
        1 and the upper ones to at least 1.

    Raises
    ------
    ValueError
        If no distribution lies between the bounds.
    """

    lower: np.ndarray
    upper: np.ndarray

    def __post_init__(self):
        lower, upper = (as_own_real(getattr(self, name), name, ndim=2) for name in ("lower", "upper"))
        slack = max(ROUNDED.get(bound.dtype, SLACK) for bound in (lower, upper))
        lower, upper = lower.astype(np.float64), upper.astype(np.float64)
        if lower.shape != upper.shape:
            raise ValueError(f"upper: expected shape {lower.shape} as lower, got {upper.shape}")
        if lower.min() < -slack or upper.max() > 1 + slack or (lower > upper + slack).any():
            raise ValueError("lower: expected 0 <= lower <= upper <= 1, got bounds that are not in order")
        below, above = lower.sum(axis=1, keepdims=True), upper.sum(axis=1, keepdims=True)
        if below.max() > 1 + slack or above.min() < 1 - slack:
            raise ValueError(
                "lower: expected sums of at most 1 below and at least 1 above, "
                f"got up to {below.max():.6g} and down to {above.min():.6g}"
            )
        lower, upper = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
        drawn = np.minimum(np.maximum(lower, 1 - (above - upper)), upper)
        object.__setattr__(self, "upper", np.maximum(np.minimum(upper, 1 - (below - lower)), drawn))
        object.__setattr__(self, "lower", drawn)


@dataclass(frozen=True, eq=False)
class Hull:
    """All mixtures of given distributions.

    Parameters
    ----------
    members : array, shape (S, N, C)
        ``S`` distributions for each of ``N`` inputs.
    """

    members: np.ndarray

    def __post_init__(self):
        members = as_distributions(self.members, "SNC", "members")
        object.__setattr__(self, "members", members / members.sum(axis=2, keepdims=True))


def from_ensemble(probs, kind="box"):
    """The credal set that sampled predictions span.

    Parameters
    ----------
    probs : array, shape (S, N, C)
        Class probabilities of ``S`` sampled models.
    kind : str
        ``"hull"``: their mixtures. ``"box"``: from the smallest to the largest
        probability of each class, which holds the hull and is larger from three
        classes on.

    Returns
    -------
    Box or Hull

    References
    ----------
    Wang, Cuzzolin et al. (2024), Credal deep ensembles for uncertainty
    quantification, for boxes; Hüllermeier and Waegeman (2021), section 4.6.
    """
    hull = Hull(as_distributions(probs, "SNC"))
    if as_choice(kind, "kind", ("box", "hull")) == "hull":
        return hull
    return Box(hull.members.min(axis=0), hull.members.max(axis=0))


def imprecise_dirichlet(counts, s=1.0):
    """What counts say about the next one, under all priors of a given strength.

    Parameters
    ----------
    counts : array, shape (N, C)
        How often each class was seen, at least 0.
    s : float
        Strength of the priors, above 0: how many unseen observations they are
        worth. With no counts the box is everything: total ignorance.

    Returns
    -------
    Box
        From ``n_c / (n + s)`` to ``(n_c + s) / (n + s)``.

    References
    ----------
    Walley (1996), Inferences from multinomial data: learning about a bag of
    marbles.
    """
    counts = as_real(counts, "counts", ndim=2)
    if counts.min() < 0:
        raise ValueError(f"counts: expected at least 0, got {counts.min():.4g}")
    s = as_number(s, "s", low=0, open_low=True)
    total = counts.sum(axis=1, keepdims=True) + s
    return Box(counts / total, (counts + s) / total)


# --- probabilities and expectations -----------------------------------------------------------------------


def lower_probability(credal, event):
    """The smallest probability of an event over the set.

    Parameters
    ----------
    credal : Box or Hull
        Of ``N`` inputs and ``C`` classes.
    event : array of bool, shape (C,)
        Which classes belong to the event.

    Returns
    -------
    array, shape (N,), float64
    """
    event = as_flags(event, "event", _classes(credal))
    return _lower_expectation(credal, event.astype(float))


def upper_probability(credal, event):
    """The largest probability of an event over the set: one minus the smallest of its complement.

    Parameters
    ----------
    credal, event : as in :func:`lower_probability`

    Returns
    -------
    array, shape (N,), from 0 to 1
    """
    event = as_flags(event, "event", _classes(credal))
    return -_lower_expectation(credal, -event.astype(float))


def _classes(credal):
    if isinstance(credal, Box):
        return credal.lower.shape[1]
    if isinstance(credal, Hull):
        return credal.members.shape[2]
    raise ValueError(f"credal: expected a Box or a Hull, got {type(credal).__name__}")


def _lower_expectation(credal, values):
    """The smallest expectation of values, shape (C,): in a box, what is free goes to the small ones first."""
    if isinstance(credal, Hull):
        return (credal.members @ values).min(axis=0)
    order = np.argsort(values, kind="stable")
    lower, room = credal.lower[:, order], (credal.upper - credal.lower)[:, order]
    free = 1 - lower.sum(axis=1, keepdims=True)
    before = np.cumsum(room, axis=1) - room
    return (lower + np.clip(free - before, 0, room)) @ values[order]


# --- entropies --------------------------------------------------------------------------------------------


def upper_entropy(credal):
    """The largest entropy in the set: all that is uncertain about the label.

    In a box, water-filling: all probabilities rise to one level as far as their
    bounds let them. In a hull, the best mixture by an interior-point method.

    Parameters
    ----------
    credal : Box or Hull
        Of ``N`` inputs and ``C`` classes.

    Returns
    -------
    array, shape (N,), float64
        In nats, at most ``log(C)``; to 1e-9.

    References
    ----------
    Abellán, Klir and Moral (2006), Disaggregated total uncertainty measure for
    credal sets.
    """
    _classes(credal)  # refuses what is no credal set
    if isinstance(credal, Hull):
        members = credal.members.transpose(1, 0, 2)
        rows = max(1, NUMBERS // (members.shape[1] + 1) ** 2)
        return np.concatenate([_best_mixture(part) for part in _parts(members, rows)])
    return np.concatenate([_water(*part) for part in _boxes(credal)])


def _parts(array, rows):
    return [array[start : start + rows] for start in range(0, len(array), rows)]


def _boxes(credal):
    return zip(_parts(credal.lower, ROWS), _parts(credal.upper, ROWS), strict=True)


def _water(lower, upper):
    """Entropy of the box's flattest member: bounds in order, the sum grows by one class more or one less."""
    ends = np.concatenate([lower, upper], axis=1)
    order = np.argsort(ends, axis=1)
    ends = np.take_along_axis(ends, order, axis=1)
    rising = np.cumsum(np.where(order < lower.shape[1], 1, -1), axis=1)  # classes between their bounds
    gained = np.cumsum(rising[:, :-1] * np.diff(ends, axis=1), axis=1)
    total = lower.sum(axis=1, keepdims=True) + np.concatenate([np.zeros((len(ends), 1)), gained], axis=1)
    place = np.clip((total < 1).sum(axis=1) - 1, 0, None)
    rows = np.arange(len(ends))
    slope = np.maximum(rising[rows, place], 1)
    level = ends[rows, place] + np.maximum(1 - total[rows, place], 0) / slope
    return entr(np.clip(level[:, None], lower, upper)).sum(axis=1)


def _best_mixture(members, stages=16, steps=5):
    """The largest entropy of mixtures, members (N, S, C): Newton along a barrier that fades."""
    n, s, _ = members.shape
    weights = np.full((n, s), 1 / s)
    strength = np.full(n, 0.1)
    system = np.zeros((n, s + 1, s + 1))
    system[:, :s, s] = system[:, s, :s] = 1
    for _ in range(stages):
        for _ in range(steps):
            mixed = np.maximum(np.einsum("ns,nsc->nc", weights, members), 1e-300)
            slope = -np.einsum("nsc,nc->ns", members, np.log(mixed) + 1) + strength[:, None] / weights
            scaled = members / np.sqrt(mixed)[:, None]
            system[:, :s, :s] = scaled @ scaled.transpose(0, 2, 1)
            system[:, np.arange(s), np.arange(s)] += strength[:, None] / weights**2
            # Solved for steps relative to the weights: the system stays well scaled.
            relative = system.copy()
            relative[:, :s] *= weights[:, :, None]
            relative[:, :, :s] *= weights[:, None, :]
            right = np.concatenate([weights * slope, np.zeros((n, 1))], axis=1)[..., None]
            step = np.linalg.solve(relative, right)[:, :s, 0]
            length = 0.95 / np.maximum(0.95, -step.min(axis=1))
            weights = weights * (1 + length[:, None] * step)
            weights /= weights.sum(axis=1, keepdims=True)
        strength = strength * 0.2
    return entr(np.einsum("ns,nsc->nc", weights, members)).sum(axis=1)


def lower_entropy(credal):
    """The smallest entropy in the set: what stays uncertain whichever member is true.

    Concave, it is least at a vertex: a hull's member; in a box, all classes but one at a bound,
    searched by branch and bound: under the chord of ``-p log p`` between its bounds
    the problem is a fractional knapsack, whose solution splits one class; that
    class's interval is cut there, and what cannot be better is dropped. Exact for
    any number of classes; where very many of them have nearly the same bounds, the
    time can grow with their number exponentially.

    Parameters
    ----------
    credal : as in :func:`upper_entropy`

    Returns
    -------
    array, shape (N,), in nats

    References
    ----------
    Abellán and Moral (2005), Difference of entropies as a nonspecificity function
    on credal sets, for the quantity; Falk and Soland (1969), An algorithm for
    separable nonconvex programming problems, for chords and cuts.
    """
    _classes(credal)
    if isinstance(credal, Hull):
        return entr(credal.members).sum(axis=2).min(axis=0)
    return np.concatenate([_search(*part) for part in _boxes(credal)])


def _search(lower, upper):
    """The smallest entropy in each box, shape (N, C) bounds; depth first, so that memory stays small."""
    best = np.full(len(lower), np.inf)
    alike = _alike(lower, upper)
    open_boxes = [(np.arange(len(lower)), lower, upper)]
    while open_boxes:
        owner, lower, upper = open_boxes.pop()
        found, bound, split, at = _knapsack(lower, upper)
        np.minimum.at(best, owner, found)
        cut = np.flatnonzero((bound < best[owner] - EXACT) & ~alike[owner])
        owner, rows = owner[cut], np.arange(len(cut))
        split, at = split[cut], at[cut]
        lower, upper = lower[cut], upper[cut]
        low, high = lower.copy(), upper.copy()
        high[rows, split] = at
        low[rows, split] = at
        halves = [np.concatenate(pair) for pair in ((owner, owner), (lower, low), (high, upper))]
        for start in range(0, len(halves[0]), 8 * ROWS):
            open_boxes.append(tuple(half[start : start + 8 * ROWS] for half in halves))
    return best


def _alike(lower, upper):
    """Whether all classes that can move have the same bounds: then any order of filling up is the best."""
    moves = upper > lower
    low, high = np.where(moves, lower, np.inf), np.where(moves, upper, np.inf)
    same_low = (lower == low.min(axis=1, keepdims=True)) | ~moves
    same_high = (upper == high.min(axis=1, keepdims=True)) | ~moves
    return (same_low & same_high).all(axis=1)


def _knapsack(lower, upper):
    """The best member under the chords: its entropy, its bound, and the class that it splits, and where."""
    room = upper - lower
    low = entr(lower)
    cost = entr(upper) - low
    slope = np.where(room > 0, cost / np.where(room > 0, room, 1), np.inf)
    order = np.argsort(slope, axis=1)
    ranked = np.take_along_axis(room, order, axis=1)
    free = 1 - lower.sum(axis=1)
    filled = np.cumsum(ranked, axis=1)
    rows = np.arange(len(lower))
    place = np.minimum((filled <= free[:, None]).sum(axis=1), lower.shape[1] - 1)
    split = order[rows, place]
    part = np.clip(free - (filled[rows, place] - ranked[rows, place]), 0, ranked[rows, place])
    whole = np.arange(lower.shape[1]) < place[:, None]
    paid = low.sum(axis=1) + (np.take_along_axis(cost, order, axis=1) * whole).sum(axis=1)
    at = lower[rows, split] + part
    share = part / np.where(ranked[rows, place] > 0, ranked[rows, place], 1)
    bound = paid + share * cost[rows, split]
    return paid - low[rows, split] + entr(at), bound, split, at


# --- decisions --------------------------------------------------------------------------------------------


def decide(credal, rule="maximality", utility=None):
    """Which acts stay standing when no single distribution is believed.

    Parameters
    ----------
    credal : Box or Hull
        Of ``N`` inputs and ``C`` classes.
    rule : str
        ``"dominance"``: drop an act if another's smallest expected utility is
        above its largest. ``"maximality"``: drop it if another is better under
        every distribution of the set. ``"e-admissibility"``: keep it if it is best
        under at least one. Each keeps no more than the one before. ``"maximin"``:
        keep the acts with the best smallest expectation.
    utility : array, shape (A, C), optional
        What each act is worth if each class is the true one, in any unit, from any
        zero. By default the acts are to name a class, worth 1 if right.

    Returns
    -------
    array of bool, shape (N, A)
        At least one act an input.

    References
    ----------
    Troffaes (2007), Decision making under uncertainty using imprecise
    probabilities.
    """
    classes = _classes(credal)
    as_choice(rule, "rule", ("dominance", "maximality", "e-admissibility", "maximin"))
    naming = utility is None
    utility = np.eye(classes) if naming else as_real(utility, "utility", ndim=2)
    if utility.shape[1] != classes:
        raise ValueError(f"utility: expected {classes} columns, one a class, got {utility.shape[1]}")
    # What counts as equal knows neither unit nor zero.
    utility = utility - utility.min()
    utility = utility / power_of_two(utility.max())
    if rule == "e-admissibility":
        if isinstance(credal, Box) and naming:
            return _can_be_the_largest(credal.lower, credal.upper)
        return _best_somewhere(credal, utility)
    if rule == "maximality":
        return ~_beaten(credal, utility)
    least = np.stack([_lower_expectation(credal, row) for row in utility], axis=1)
    if rule == "maximin":
        return least >= least.max(axis=1, keepdims=True) - SLACK
    most = np.stack([-_lower_expectation(credal, -row) for row in utility], axis=1)
    return most >= least.max(axis=1, keepdims=True) - SLACK


def _beaten(credal, utility):
    """Acts for which another is better under every distribution."""
    beaten = []
    for row in utility:
        gains = [_lower_expectation(credal, other - row) for other in utility]
        beaten.append(np.max(gains, axis=0) > SLACK)
    return np.stack(beaten, axis=1)


def _can_be_the_largest(lower, upper):
    """Classes that some distribution of the box gives the largest probability.

    It stands as high as it can; the others must fit below it and make up the rest.
    """
    others = lower.sum(axis=1, keepdims=True) - lower
    height = np.minimum(upper, 1 - others)
    fits = height >= lower.max(axis=1, keepdims=True) - SLACK
    most = np.minimum(upper[:, None, :], height[:, :, None]).sum(axis=2)
    return fits & (most >= 1 - SLACK)


def _best_somewhere(credal, utility):
    """E-admissibility by a linear program an act: is there a distribution under which no other is better?"""
    from scipy.optimize import linprog

    inputs = credal.lower.shape[0] if isinstance(credal, Box) else credal.members.shape[1]
    kept = np.empty((inputs, len(utility)), bool)
    for i in range(inputs):
        if isinstance(credal, Box):
            worth, bounds = utility, list(zip(credal.lower[i], credal.upper[i], strict=True))
        else:
            worth, bounds = utility @ credal.members[:, i].T, (0, 1)
        ones = np.ones((1, worth.shape[1]))
        for a, row in enumerate(worth):
            found = linprog(
                np.zeros(worth.shape[1]), worth - row, np.full(len(worth), SLACK), ones, [1.0], bounds
            )
            kept[i, a] = found.status == 0
    return kept
