"""Attacks with a budget: one step, many steps, and a search that asks for no gradient."""

import dataclasses
import math

import numpy as np

from uqhelpers._checks import as_number, as_whole, to_numpy
from uqhelpers._torch import torch
from uqhelpers.adversarial.gains import as_gain, average, checked
from uqhelpers.adversarial.spaces import Space
from uqhelpers.adversarial.victims import as_problem, as_victim

JUDGE = 2**31  # the draw by which several endings are compared: no step uses it


def fgsm(
    model,
    inputs,
    labels,
    epsilon,
    *,
    loss="cross_entropy",
    targeted=False,
    passes=None,
    seed=0,
    bounds=(0.0, 1.0),
    mean=0.0,
    std=1.0,
    batch_size=100,
):
    """The fast gradient sign method: one step of ``epsilon`` in every pixel, whichever way the loss rises.

    To first order no other change of at most ``epsilon`` a pixel raises the loss
    more. The networks are in evaluation mode meanwhile, and come back as they
    came, with no gradient on their parameters.

    Parameters
    ----------
    model : torch.nn.Module, list of torch.nn.Module, or callable
        What is attacked: a classifier that puts out logits; an ensemble, whose
        averaged probabilities are attacked; or a function written with torch,
        from inputs (a tensor) to logits of shape (N, C), or (S, N, C) for ``S``
        sampled networks.
    inputs : array, shape (N, ...)
        Real numbers.
    labels : array, shape (N,)
        The true classes; with ``targeted``, those to arrive at.
    epsilon : float
        The budget a pixel, at least 0, in the units of the pixels (before any
        standardisation).
    loss : {"cross_entropy", "margin", "sure_and_wrong", "entropy"} or callable
        What is to rise. "margin": how far the best wrong class is ahead.
        "sure_and_wrong": the probability of the best wrong class. "entropy":
        that of the averaged prediction; the one loss here whose gradient is
        exactly 0 where the softmax has rounded to one class, so that there
        nothing moves. A function gets ``(log_probs, labels, inputs)``, tensors,
        the first of shape (S, N, C), and returns one number an input.
    targeted : bool
        Whether the loss ("cross_entropy" or "margin") is to *fall*.
    passes : int, optional
        Attack the network's MC-Dropout average, through so many masks an input.
    seed : int
        Of the masks. They belong to a batch: another ``batch_size`` draws others.
    bounds : (float, float) or None
        Range of the pixels; None for inputs that have none.
    mean, std : float or array, shape (channels,)
        By which pixels were standardised before they came here:
        ``inputs = (pixels - mean) / std``.
    batch_size : int, inputs at a time

    Returns
    -------
    array, the inputs' shape, in the network's precision
        In the units of ``inputs``. Where the gradient is exactly 0, nothing moves.

    Raises
    ------
    ValueError
        If the inputs lie outside of ``bounds``, or the model's outputs do not
        depend on them.

    References
    ----------
    Goodfellow, Shlens and Szegedy (2015), Explaining and harnessing adversarial
    examples, section 4. That random draws are attacked through their expectation
    is due to Athalye, Engstrom, Ilyas and Kwok (2018), Synthesizing robust
    adversarial examples, who average logarithms of probabilities; here the
    probabilities are averaged, as they are in the answer.
    """
    attack = _Attack.of(
        model, inputs, labels, epsilon, loss, targeted, passes, seed, bounds, mean, std, batch_size
    )

    def one_step(part, labels, number):
        gradient = attack.gradient(part, labels, (0, number))
        return attack.space.clipped(part + attack.space.step(gradient, attack.epsilon, np.inf))

    return attack.run(one_step)


def pgd(
    model,
    inputs,
    labels,
    epsilon,
    *,
    steps=10,
    step_size=None,
    norm=np.inf,
    restarts=1,
    random_start=True,
    loss="cross_entropy",
    targeted=False,
    passes=None,
    seed=0,
    bounds=(0.0, 1.0),
    mean=0.0,
    std=1.0,
    batch_size=100,
):
    """Projected gradient descent: many small steps, each followed by a return into the budget.

    Parameters
    ----------
    model, inputs, labels, loss, targeted, passes, bounds, mean, std, batch_size
        As in :func:`fgsm`. With ``passes`` every step draws new masks, so that
        the attack follows the expectation over masks and not a few of them.
    epsilon : float
        The budget, at least 0, in the units of the pixels: of every pixel, or of
        the whole change with ``norm=2``.
    steps : int
        How many.
    step_size : float, optional
        Length of a step in the units of ``epsilon``; by default 2.5 ``epsilon``
        divided by ``steps``, so that every point of the ball is in reach.
    norm : {numpy.inf, 2}
        In which the change is measured.
    restarts : int
        How many times it is tried. Kept is, for each input, an ending that
        errs (with ``targeted``: arrives), if there is one; among several the one
        whose loss is largest.
    random_start : bool
        Whether each try starts at a random point of the ball. More than one
        restart needs it.
    seed : int
        Of starts and masks. They belong to a batch: with another ``batch_size``
        the same seed starts elsewhere.

    Returns
    -------
    array, shaped as ``inputs``, in their units and in the network's precision

    References
    ----------
    Madry et al. (2018), Towards deep learning models resistant to adversarial
    attacks, section 2.1.
    """
    if not np.isscalar(norm) or norm not in (2, np.inf):
        raise ValueError(f"norm: expected 2 or numpy.inf, got {norm!r}")
    steps, restarts = as_whole(steps, "steps"), as_whole(restarts, "restarts")
    if restarts > 1 and not random_start:
        raise ValueError(
            f"restarts: expected 1 without random_start, which would repeat itself, got {restarts}"
        )
    attack = _Attack.of(
        model, inputs, labels, epsilon, loss, targeted, passes, seed, bounds, mean, std, batch_size
    )
    size = 2.5 * attack.epsilon / steps
    if step_size is not None:
        size = as_number(step_size, "step_size", low=0, open_low=True)
    space = attack.space

    def one_try(part, labels, number, attempt):
        moved = part
        if random_start:
            moved = space.start(part, attack.epsilon, norm, attack.generator(number, attempt))
        for step in range(steps):
            gradient = attack.gradient(moved, labels, (attempt * steps + step, number))
            moved = space.projected(moved + space.step(gradient, size, norm), part, attack.epsilon, norm)
        return moved

    def tries(part, labels, number):
        best = one_try(part, labels, number, 0)
        if restarts == 1:
            return best
        done, height = attack.judged(best, labels, number)
        for attempt in range(1, restarts):
            moved = one_try(part, labels, number, attempt)
            success, gain = attack.judged(moved, labels, number)
            better = (success & ~done) | ((success == done) & (gain > height))
            best = torch.where(better.reshape(-1, *[1] * (part.ndim - 1)), moved, best)
            done, height = done | success, torch.where(better, gain, height)
        return best

    return attack.run(tries)


def random_search(
    model,
    inputs,
    labels,
    epsilon,
    *,
    queries=200,
    loss="margin",
    targeted=False,
    passes=None,
    seed=0,
    bounds=(0.0, 1.0),
    mean=0.0,
    std=1.0,
    batch_size=100,
):
    """An attack without gradients: patches at the edge of the budget, kept where they help.

    It starts with random stripes and then sets a random square (of images; a
    random stretch of other inputs) to plus or minus ``epsilon``, and keeps the
    change if the loss rose. The squares shrink from four fifths of the image to
    single pixels. A gradient that is masked does not disturb it.

    Parameters
    ----------
    model, inputs, labels, loss, targeted, bounds, mean, std, batch_size : as in :func:`fgsm`
    epsilon : float
        The budget a pixel, at least 0, in the units of the pixels.
    queries : int
        How often the model is asked.
    passes : int, optional
        As in :func:`fgsm`; the masks stay the same from query to query, so that
        two losses can be compared.
    seed : int
        Of patches and masks.

    Returns
    -------
    array, as from :func:`fgsm`

    References
    ----------
    Andriushchenko et al. (2020), Square attack: a query-efficient black-box
    adversarial attack via random search, section 3; here without its schedule
    for many thousand queries.
    """
    queries = as_whole(queries, "queries")
    attack = _Attack.of(
        model, inputs, labels, epsilon, loss, targeted, passes, seed, bounds, mean, std, batch_size
    )
    space = attack.space

    def search(part, labels, number):
        rng = np.random.default_rng(np.random.SeedSequence((attack.seed, number)))
        reach = attack.epsilon / space.std

        def at(signs):
            return space.clipped(part + reach * torch.from_numpy(signs).to(part))

        shape = tuple(part.shape)
        striped = (*shape[:2], 1, *shape[3:]) if part.ndim == 4 else shape
        signs = np.broadcast_to(rng.choice([-1.0, 1.0], size=striped), shape).copy()
        with torch.no_grad():
            height = attack.gain(at(signs), labels, (JUDGE, number))
            for query in range(queries - 1):
                patch, value = _patch(rng, shape, 0.8 * (1 - query / queries) ** 3)
                tried = np.where(patch, value, signs)
                gain = attack.gain(at(tried), labels, (JUDGE, number))
                better = gain > height
                signs[better.cpu().numpy()] = tried[better.cpu().numpy()]
                height = torch.where(better, gain, height)
            return at(signs)

    return attack.run(search)


def _patch(rng, shape, share):
    """For each input a random square, or stretch, of about this share of it; and a sign for each channel."""
    inputs, sizes = shape[0], shape[2:] if len(shape) == 4 else (math.prod(shape[1:]),)
    inside = True
    for axis, size in enumerate(sizes):
        width = max(1, round(size * share ** (1 / len(sizes))))
        first = rng.integers(0, size - width + 1, size=inputs)
        place = np.arange(size)
        line = (place >= first[:, None]) & (place < first[:, None] + width)
        inside = inside & line.reshape(inputs, *[size if a == axis else 1 for a in range(len(sizes))])
    if len(shape) == 4:
        return inside[:, None], rng.choice([-1.0, 1.0], size=(inputs, shape[1], 1, 1))
    return inside.reshape(shape), rng.choice([-1.0, 1.0], size=(inputs, *[1] * (len(shape) - 1)))


@dataclasses.dataclass(frozen=True, eq=False)
class _Attack:
    """Checked arguments of an attack, and what all attacks do."""

    victim: object
    inputs: object
    labels: object
    epsilon: float
    wanted: object
    targeted: bool
    seed: int
    space: Space
    batch_size: int

    @classmethod
    def of(cls, model, inputs, labels, epsilon, loss, targeted, passes, seed, bounds, mean, std, batch_size):
        gain = as_gain(loss, bool(targeted))
        victim = as_victim(model, passes, seed)
        # A thousandth of the largest number: steps are multiples of it, and must stay finite.
        epsilon = as_number(epsilon, "epsilon", low=0, high=torch.finfo(victim.dtype).max / 1000)
        inputs, labels = as_problem(victim, inputs, labels)
        space = Space.of(inputs, bounds, mean, std)
        return cls(
            victim,
            inputs,
            labels,
            epsilon,
            gain,
            bool(targeted),
            as_whole(seed, "seed", low=0),
            space,
            as_whole(batch_size, "batch_size"),
        )

    def run(self, attack):
        """``attack(part, labels, number)`` on every batch, the networks in evaluation mode."""
        if self.epsilon == 0:
            return to_numpy(self.inputs, "inputs")
        batches = zip(self.inputs.split(self.batch_size), self.labels.split(self.batch_size), strict=True)
        with self.victim.settled(), torch.inference_mode(False):
            parts = [attack(part, labels, number) for number, (part, labels) in enumerate(batches)]
        return to_numpy(torch.cat(parts), "inputs")

    def gain(self, part, labels, draw):
        """What the attacker has gained on each input of a batch."""
        return checked(self.wanted(self.victim.log_probs(part, draw), labels, part), part)

    def gradient(self, part, labels, draw):
        """Its gradient by the inputs."""
        part = part.detach().requires_grad_()
        with torch.enable_grad():
            gain = self.gain(part, labels, draw)
            if not gain.requires_grad:
                raise ValueError("model: expected outputs that depend on the inputs, got no gradient")
            (gradient,) = torch.autograd.grad(gain.sum(), part, allow_unused=True)
        if gradient is None:
            raise ValueError("model: expected outputs that depend on the inputs, got no gradient")
        return gradient

    def judged(self, part, labels, number):
        """Whether each input of a batch errs (or arrives where it should), and what was gained on it."""
        with torch.no_grad():
            log_probs = self.victim.log_probs(part, (JUDGE, number))
            hit = average(log_probs).argmax(dim=1) == labels
            return hit == self.targeted, self.wanted(log_probs, labels, part)

    def generator(self, number, attempt):
        """Random numbers of one batch and one try."""
        state = np.random.SeedSequence((self.seed, number, attempt)).generate_state(1, np.uint64)[0]
        return torch.Generator().manual_seed(int(state) >> 1)
