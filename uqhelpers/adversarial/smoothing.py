"""Randomised smoothing: a prediction that provably stays the same for every change up to a length."""

import dataclasses

import numpy as np
from scipy.special import betaincinv, ndtri
from scipy.stats import binomtest

from uqhelpers._checks import as_labels, as_number, as_real, as_whole, to_numpy
from uqhelpers._progress import bar
from uqhelpers._torch import torch
from uqhelpers.adversarial.spaces import Space
from uqhelpers.adversarial.sweeps import ANY_CLASS
from uqhelpers.adversarial.victims import as_inputs, as_victim, classes_of
from uqhelpers.batches import join

ABSTAIN, TOGETHER = -1, 1000  # what is drawn together: torch draws other numbers in other portions


def clopper_pearson(successes, trials, alpha=0.001):
    """A lower bound of a probability from counts, too high in at most a share ``alpha`` of cases.

    Parameters
    ----------
    successes : int or array of int
        From 0 to ``trials``.
    trials : int
        How many independent draws there were.
    alpha : float
        In (0, 1): one-sided.

    Returns
    -------
    array of float64, shaped as ``successes``
        0 where there was no success; ``alpha ** (1 / trials)`` where all were.

    References
    ----------
    Clopper and Pearson (1934), The use of confidence or fiducial limits
    illustrated in the case of the binomial.
    """
    trials = as_whole(trials, "trials")
    alpha = _as_alpha(alpha)
    counts = as_real(successes, "successes")
    flags = to_numpy(successes, "successes").dtype.kind == "b"
    if flags or (counts != np.round(counts)).any() or counts.min() < 0 or counts.max() > trials:
        raise ValueError(f"successes: expected whole numbers from 0 to {trials}, got {successes!r:.60}")
    lower = betaincinv(np.maximum(counts, 1), trials - counts + 1, alpha)
    return np.where(counts > 0, lower, 0.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Certificate:
    """What was promised.

    Attributes
    ----------
    classes : array of int, shape (N,)
        The smoothed classifier's answer, -1 where it abstains.
    radius : array, shape (N,)
        Euclidean length, in pixels, below which no change alters that answer;
        0 where it abstains.
    probability : array, shape (N,)
        Lower bound of the answer's probability under the noise.
    """

    classes: np.ndarray
    radius: np.ndarray
    probability: np.ndarray

    def certified_accuracy(self, labels, radii):
        """Share of inputs whose answer is right and certified beyond each radius.

        Parameters
        ----------
        labels : array of int, shape (N,)
            The true classes.
        radii : float or array, shape (R,)
            In pixels.

        Returns
        -------
        array of float64, shape (R,)

        Raises
        ------
        ValueError
            If the labels are no classes or not as many as the answers, or the radii no vector.
        """
        radii = as_real(np.atleast_1d(to_numpy(radii, "radii")), "radii", ndim=1)
        labels = as_labels(labels, ANY_CLASS, length=len(self.classes))
        right = (self.classes == labels) & (self.radius > 0)
        return (right & (self.radius >= radii[:, None])).mean(axis=1)


class Smoothed:
    """The classifier that answers what a network answers most often when its input is noisy.

    If the most frequent answer under Gaussian noise of standard deviation σ has
    probability p > ½, then it stays the most frequent one after any change of
    the input that is shorter than ``σ Φ⁻¹(p)``. p is not known but bounded from
    draws, so that each promise is broken with probability at most ``alpha``.

    Parameters
    ----------
    model : torch.nn.Module, list of torch.nn.Module, or callable
        As in :func:`fgsm`: what answers is the class of highest average probability.
    sigma : float
        Standard deviation of the noise, in pixels, above 0.
    mean, std : float or array, shape (channels,)
        By which pixels were standardised before they came here.

    References
    ----------
    Cohen, Rosenfeld and Kolter (2019), Certified adversarial robustness via
    randomized smoothing, theorem 1 and section 3.2.
    """

    def __init__(self, model, sigma, *, mean=0.0, std=1.0):
        self._victim = as_victim(model)
        self.sigma = as_number(sigma, "sigma", low=0, open_low=True)
        self.mean, self.std = mean, std

    def counts(self, inputs, draws=100, seed=0, batch_size=1000, progress=False):
        """How often each class is the answer under noise.

        Parameters
        ----------
        inputs : array, shape (N, ...), or iterable of batches
        draws : int
            Noisy copies of each input.
        seed : int
            Different seeds draw independently; one seed draws the same whatever
            the batch size.
        batch_size : int
            Noisy copies at a time, at most 1000.
        progress : bool, whether a bar shows long work

        Returns
        -------
        array of int64, shape (N, C)
            Rows that sum to ``draws``.
        """
        draws, batch_size = as_whole(draws, "draws"), as_whole(batch_size, "batch_size")
        generator = torch.Generator().manual_seed(_stream(as_whole(seed, "seed", low=0)))
        tensor = as_inputs(self._victim, join(inputs))
        classes_of(self._victim, tensor)  # refuses what puts out no logits
        scale = self.sigma / Space.of(tensor, None, self.mean, self.std).std
        found = []
        with self._victim.settled(), torch.inference_mode():
            for one in bar(tensor, progress, desc="smoothing", unit="input"):
                total = 0
                for noise in _noise(one, draws, batch_size, generator):
                    log_probs = self._victim.log_probs(one + noise.to(one.device) * scale)
                    answers = torch.logsumexp(log_probs, dim=0).argmax(dim=1)
                    total = total + torch.bincount(answers, minlength=log_probs.shape[-1])
                found.append(total.cpu().numpy())
        return np.stack(found)

    def predict(self, inputs, draws=100, alpha=0.001, seed=0, batch_size=1000, progress=False):
        """The smoothed classifier's answers, or -1 where the draws leave it open.

        Parameters
        ----------
        inputs, draws, seed, batch_size, progress : as in :meth:`counts`
        alpha : float
            In (0, 1): how often an answer may be another than the most frequent one.

        Returns
        -------
        array of int64, shape (N,)
        """
        alpha = _as_alpha(alpha)
        counts = self.counts(inputs, draws, seed, batch_size, progress)
        first, second = np.sort(counts, axis=1)[:, :-3:-1].T
        # If both were equally frequent, the first would have a share of one half of their draws.
        open_ = [
            binomtest(int(a), int(a + b), 0.5).pvalue > alpha for a, b in zip(first, second, strict=True)
        ]
        return np.where(open_, ABSTAIN, counts.argmax(axis=1))

    def certify(
        self, inputs, draws=1000, alpha=0.001, *, selection=100, seed=0, batch_size=1000, progress=False
    ):
        """Answers with the length of the change below which they provably stay.

        The answer is chosen on ``selection`` draws, its probability is bounded on
        ``draws`` others: on the same ones the bound would be too high.

        Parameters
        ----------
        inputs : array, shape (N, ...)
        draws : int
            For the bound. No radius can exceed ``σ Φ⁻¹(alpha ** (1 / draws))``.
        alpha : float
            In (0, 1): how often a promise may be broken, for each input.
        selection : int
            Draws by which the answer is chosen.
        seed, batch_size, progress : as in :meth:`counts`

        Returns
        -------
        Certificate
        """
        alpha, seed = _as_alpha(alpha), as_whole(seed, "seed", low=0)
        draws = as_whole(draws, "draws")
        chosen = self.counts(inputs, selection, 2 * seed, batch_size, progress).argmax(axis=1)
        counts = self.counts(inputs, draws, 2 * seed + 1, batch_size, progress)
        lower = clopper_pearson(counts[np.arange(len(counts)), chosen], draws, alpha)
        sure = lower > 0.5
        radius = np.where(sure, self.sigma * ndtri(np.maximum(lower, 0.5)), 0.0)
        return Certificate(np.where(sure, chosen, ABSTAIN), radius, lower)


def _noise(one, draws, batch_size, generator):
    """Standard normal noise for draws of an input, some at a time; how many does not change a number."""
    for start in range(0, draws, TOGETHER):
        size = (min(TOGETHER, draws - start), *one.shape)
        yield from torch.randn(size, generator=generator, dtype=one.dtype).split(batch_size)


def _stream(seed):
    return int(np.random.SeedSequence((seed, 0)).generate_state(1, np.uint64)[0] >> 1)


def _as_alpha(alpha):
    alpha = as_number(alpha, "alpha")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: expected a probability in (0, 1), got {alpha}")
    return alpha
