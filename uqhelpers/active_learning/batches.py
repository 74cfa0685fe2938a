"""BatchBALD: the information of a batch as a whole, and the greedy choice of one.

The labels of a batch are independent given the network, so the probability of
a *configuration* (a label for every input chosen so far) is a product for each
sampled network, and reweighs the networks: those that called the configuration
likely count for more. The gain of one more input is then what the reweighed
networks disagree about, averaged over configurations.

Of 10,000 candidates hardly any can win. What an input adds can only shrink, so
what it added before is a ceiling. By concavity of the entropy configurations
may be averaged in groups, and what comes out can only be too high. And a few
configurations tell, up to an error that is estimated with it, who lies far
behind. Only the rest is scored in full, so the choice is that of the plain
formula, but for what lies five standard errors out.
"""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_distributions, as_generator, as_whole, to_numpy
from uqhelpers.metrics import expected_entropy

__all__ = ["BatchChoice", "batch_bald", "joint_mutual_information"]

GROUPS = 128  # of configurations: what their averages say is a bound
HEATS = (256, 1024, 4096)  # configurations that are drawn to judge who is far behind,
ERRORS = 5  # which is to say so many standard errors
FEW = 4  # inputs that a heat finds best are looked at in full
BLOCK = 1 << 18  # numbers at a time: they fit a core's cache
LIMIT = 1 << 22  # configurations that are enumerated at most
TIE = 1e-12  # nats: what rounding alone can part
SLACK = 1e-4  # nats: more than rounding to single precision can do to a bound


@dataclass(frozen=True, eq=False)
class BatchChoice:
    """A batch, in the order in which it was chosen.

    Parameters
    ----------
    indices : array of int, shape (batch,)
        Places in the pool, no place twice.
    gains : array, shape (batch,)
        Information about the network that each adds to those before it, in nats.
    information : float
        Their sum: the mutual information between the network and all labels of
        the batch, in nats; at most ``log S`` for ``S`` samples.
    exact : bool
        Whether all configurations were enumerated, so that nothing was sampled.
    """

    indices: np.ndarray
    gains: np.ndarray
    information: float
    exact: bool


def batch_bald(probs, batch, configurations=10_000, seed=0):
    """Choose a batch greedily by the information that its labels hold together.

    Mutual information of single inputs (BALD) rewards the same doubt again and
    again. Here each input is scored by what it adds to those chosen before it.
    As information about the network is monotone and submodular where labels are
    independent given the network, the greedy batch has at least ``1 - 1/e`` of
    the best batch's, as long as all configurations are enumerated.

    Parameters
    ----------
    probs : array, shape (S, N, C)
        Class probabilities of ``S`` sampled networks for ``N`` inputs. The
        samples have to be networks: the same for all inputs (``masks="shared"``
        of MC-Dropout).
    batch : int
        Inputs to choose, at most ``N``.
    configurations : int
        As long as the labels chosen so far have at most so many configurations
        all are enumerated; beyond, so many are drawn.
    seed : int or numpy.random.Generator
        From which they are drawn.

    Returns
    -------
    BatchChoice
        Of several equal gains the lowest index is taken.

    Raises
    ------
    ValueError
        If there are fewer inputs than asked for.

    References
    ----------
    Kirsch, van Amersfoort and Gal (2019), BatchBALD: efficient and diverse
    batch acquisition for deep Bayesian active learning.
    """
    probs = as_distributions(probs, "SNC")
    samples, inputs, classes = probs.shape
    batch = as_whole(batch, "batch", high=inputs)
    configurations = as_whole(configurations, "configurations", low=classes)
    rng = as_generator(seed)
    looks = np.random.default_rng(int(rng.integers(2**63)))  # the heats', apart from the configurations'
    pool = _Pool(probs)
    state = _Configurations(samples, configurations)
    ceilings = np.full(inputs, np.inf)  # what each added when it was last looked at: it can only add less
    chosen, gains = [], []
    for _ in range(batch):
        best, gain = _step(pool, state, chosen, ceilings, looks)
        chosen.append(best)
        gains.append(gain)
        if len(chosen) < batch:
            state = state.extended(probs[:, best].T, rng)
    gains = np.maximum(gains, 0.0)
    return BatchChoice(np.array(chosen), gains, float(np.sum(gains)), state.exact)


def joint_mutual_information(probs, indices):
    """Mutual information between the network and the labels of several inputs together, in nats.

    By enumeration of all ``C ** len(indices)`` configurations.

    Parameters
    ----------
    probs : array, shape (S, N, C)
        Class probabilities of ``S`` sampled networks.
    indices : sequence of int
        The inputs. One may stand there several times: its label is then asked
        for as often.

    Returns
    -------
    float
        From 0 to ``log S``.

    Raises
    ------
    ValueError
        If there is no such input, or there are more than 4 million configurations.

    References
    ----------
    Kirsch, van Amersfoort and Gal (2019), BatchBALD, eq. 8.
    """
    probs = as_distributions(probs, "SNC")
    samples, inputs, classes = probs.shape
    indices = to_numpy(indices, "indices")
    if indices.ndim != 1 or len(indices) == 0 or indices.dtype.kind not in "iu":
        raise ValueError(f"indices: expected a non-empty vector of whole numbers, got {indices!r}")
    if indices.min() < 0 or indices.max() >= inputs:
        raise ValueError(f"indices: expected places from 0 to {inputs - 1}, got {indices.tolist()}")
    if classes ** len(indices) > LIMIT:
        raise ValueError(f"indices: expected at most {LIMIT:,} configurations, got {classes}^{len(indices)}")
    joint = np.ones((1, samples))
    for index in indices:
        joint = (joint[:, None] * probs[:, index].T[None]).reshape(-1, samples)
    mean = joint.mean(axis=1)
    entropy = -np.sum(mean * np.log(np.maximum(mean, np.finfo(np.float64).tiny)))
    return float(max(entropy - expected_entropy(probs)[indices].sum(), 0.0))


class _Configurations:
    """Labels of what was chosen: how often each configuration counts, and what it makes of the networks."""

    def __init__(self, samples, most):
        self.most, self.exact = most, True
        self.shares = np.ones(1)  # of the configurations; they sum to 1
        self.weights = np.full((1, samples), 1 / samples)  # of the networks, given each; rows sum to 1
        self.drawn = None  # for each drawn configuration the row that holds it
        self.before, self.parent = self.weights, np.zeros(1, int)  # the rows one label earlier, and which

    def extended(self, probs, rng):
        """With one more label, of an input that has the probabilities (C, S)."""
        classes = len(probs)
        chance = self.weights @ probs.T  # (M, C)
        more = object.__new__(_Configurations)
        more.most, more.exact, more.drawn = self.most, self.exact and chance.size <= self.most, None
        if more.exact:
            shares = (self.shares[:, None] * chance).ravel()
            pairs = np.flatnonzero(shares > 0)
            more.shares = shares[pairs]
        else:
            rows = self.drawn
            if rows is None:  # the first draw: each enumerated one as often as its share says
                rows = _systematic(self.shares, self.most, rng)
            edges = chance.cumsum(axis=1)
            u = rng.random(len(rows)) * edges[rows, -1]
            labels = (edges[rows] <= u[:, None]).sum(axis=1).clip(max=classes - 1)
            # The same configuration twice is one that counts twice.
            pairs, more.drawn, counts = np.unique(
                rows * classes + labels, return_inverse=True, return_counts=True
            )
            more.shares = counts / len(rows)
        more.before, more.parent = self.weights, pairs // classes
        more.weights = self.weights[pairs // classes] * probs[pairs % classes]
        more.weights /= more.weights.sum(axis=1, keepdims=True)
        return more

    def in_groups(self, most):
        """For each configuration a group of alike ones, of at most so many groups."""
        place = np.zeros(len(self.weights), int)
        queue = [(0.0, 0, np.arange(len(self.weights)))]
        for new in range(1, most):
            queue.sort(key=lambda entry: entry[0])
            _, old, rows = queue.pop()
            if len(rows) < 2:
                break
            mine, share = self.weights[rows], self.shares[rows] / self.shares[rows].sum()
            away = mine - share @ mine
            right = away[:, np.argmax(share @ np.square(away))] > 0  # parted where they vary most
            if right.all() or not right.any():
                right = np.arange(len(rows)) % 2 == 0
            place[rows[right]] = new
            for name, part in ((old, rows[~right]), (new, rows[right])):
                inside = self.weights[part] - self.weights[part].mean(axis=0)
                queue.append((self.shares[part] @ np.square(inside).sum(axis=1), name, part))
        return place

    def averaged(self, place):
        """Share and average of each group."""
        shares = np.bincount(place, self.shares)
        total = np.zeros((len(shares), self.weights.shape[1]))
        np.add.at(total, place, self.shares[:, None] * self.weights)
        return shares, (total / shares[:, None]).astype(np.float32)


def _systematic(shares, count, rng):
    """``count`` rows, each as often as its share says, up to rounding at random."""
    edges = np.cumsum(shares) / np.sum(shares)
    return np.searchsorted(edges, (np.arange(count) + rng.random()) / count).clip(max=len(shares) - 1)


class _Pool:
    """The probabilities of a pool, in two precisions, and what is known of each label given the network."""

    def __init__(self, probs):
        self.probs = probs
        self.rough = np.ascontiguousarray(probs.transpose(1, 2, 0), np.float32)  # (N, C, S)
        self.known = expected_entropy(probs)
        self.classes = probs.shape[2]

    def entropies(self, places, weights):
        """Entropy of some labels given each configuration, shape (M, n), in nats."""
        if weights.dtype == np.float32:
            part, smallest = self.rough[places], np.finfo(np.float32).tiny
        else:
            part, smallest = self.probs[:, places].transpose(1, 2, 0), np.finfo(np.float64).tiny
        mixed = weights @ part.reshape(-1, part.shape[-1]).T
        logs = np.log(np.maximum(mixed, smallest))
        logs *= mixed
        return -(logs.reshape(-1, self.classes) @ np.ones(self.classes, logs.dtype)).reshape(len(weights), -1)

    def gains(self, places, shares, weights):
        """What each of some labels adds, averaged over configurations, in nats."""
        rows = max(1, min(len(shares), BLOCK // (8 * self.classes)))
        found = -self.known[places]
        for part in _slices(len(places), BLOCK // (rows * self.classes)):
            for start in range(0, len(shares), rows):
                entropies = self.entropies(places[part], weights[start : start + rows])
                found[part] += shares[start : start + rows] @ entropies
        return found


def _slices(length, step):
    step = max(1, step)
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def _step(pool, state, chosen, ceilings, rng):
    """The place of the input that adds most to those chosen, and its gain; ceilings are lowered in place."""
    open_ = np.setdiff1d(np.arange(len(pool.known)), chosen)
    everything = state.shares, state.weights
    if len(state.shares) > 1:
        rough = state.weights.astype(np.float32)
        few = open_[np.argsort(-ceilings[open_], kind="stable")[:FEW]]
        first = pool.gains(few, *everything)
        best = first.max()
        if not state.exact:
            ceilings += ERRORS * _luck(pool, state, few[[first.argmax()]])
        open_ = open_[ceilings[open_] + SLACK >= best]
        groups = state.in_groups(GROUPS)
        for place in (np.zeros_like(groups), groups):
            bounds = pool.gains(open_, *state.averaged(place))
            ceilings[open_] = np.minimum(ceilings[open_], bounds)
            leader = open_[[bounds.argmax()]]
            best = max(best, pool.gains(leader, *everything)[0])
            open_ = open_[bounds >= best - SLACK]
        order, guess = np.argsort(groups, kind="stable"), bounds[bounds >= best - SLACK]
        for count in HEATS:
            if 1.5 * count < len(state.shares) and len(open_) > 2 * FEW:
                drawn = order[_systematic(state.shares[order], count, rng)]
                open_, guess = _heat(pool, rough[drawn], open_, guess, state, ceilings)
        value = pool.gains(open_, state.shares, rough)
        ceilings[open_] = np.minimum(ceilings[open_], value)
        open_ = open_[value >= value.max() - SLACK]
    value = pool.gains(open_, *everything)
    top = int(np.flatnonzero(value >= value.max() - TIE)[0])  # the first of several
    return int(open_[top]), float(value[top])


def _luck(pool, state, leader):
    """Standard error that the latest label's draw brings into a gain, given the labels drawn before."""
    change = pool.entropies(leader, state.weights) - pool.entropies(leader, state.before)[state.parent]
    change = change[:, 0] - state.shares @ change[:, 0]
    return np.sqrt(state.shares @ np.square(change) / state.most)


def _heat(pool, weights, places, guess, state, ceilings):
    """Those that may still be best, by some configurations, alike ones side by side; and their gains."""
    few = places[np.argsort(-guess, kind="stable")[:FEW]]
    leader = few[[np.argmax(pool.gains(few, state.shares, state.weights))]]
    ahead = pool.entropies(leader, weights) - pool.known[leader]
    mean, lag, luck = np.empty(len(places)), np.empty(len(places)), np.empty(len(places))
    for part in _slices(len(places), BLOCK // (len(weights) * pool.classes)):
        values = pool.entropies(places[part], weights) - pool.known[places[part]]
        mean[part] = values.mean(axis=0)
        ceiling = mean[part] + ERRORS * _error(values)
        ceilings[places[part]] = np.minimum(ceilings[places[part]], ceiling)
        lag[part], luck[part] = (ahead - values).mean(axis=0), _error(ahead - values)
    keep = (lag <= ERRORS * luck + SLACK) | np.isin(places, few)
    return places[keep], mean[keep]


def _error(values):
    """Standard error of each column's mean: neighbours are alike, their differences are chance."""
    return np.sqrt(np.square(np.diff(values, axis=0)).mean(axis=0) / 2 / len(values))
