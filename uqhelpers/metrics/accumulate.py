"""Statistics of sampled predictions that need not be kept: memory independent of the number of samples."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_own_distributions
from uqhelpers.metrics._common import blocks, largest
from uqhelpers.metrics.decomposition import Decomposition, add_votes, entropy_of_rows

__all__ = ["SampleAccumulator", "SampledDecomposition"]


@dataclass(frozen=True)
class SampledDecomposition(Decomposition):
    """A ``Decomposition`` with what only counting gives.

    Attributes
    ----------
    variation_ratio : array, shape (N,)
        Share of the samples that vote against the class with most votes.
    count : int
        How many samples went in.
    """

    variation_ratio: np.ndarray
    count: int


class SampleAccumulator:
    """Decompose the uncertainty of samples that come one after the other.

    It keeps two arrays of shape (N, C) and one of shape (N,), whatever the
    number of samples, and parts that were made on several machines can be
    merged in any order. It pickles as plain arrays.

    Examples
    --------
    >>> import numpy as np
    >>> samples = np.array([[[0.9, 0.1]], [[0.2, 0.8]]])
    >>> parts = SampleAccumulator().add(samples[0]), SampleAccumulator().add(samples[1])
    >>> result = parts[0].merge(parts[1]).result()
    >>> result.count, result.variation_ratio
    (2, array([0.5]))
    """

    def __init__(self):
        self.count = 0
        self.sums = None  # of the probabilities, (N, C)
        self.entropies = None  # sums of them, (N,)
        self.votes = None  # (N, C)

    def add(self, probs):
        """Take in one sample or several.

        Parameters
        ----------
        probs : array, shape (N, C) or (S, N, C)
            Class probabilities of one sampled model, or of ``S``.

        Returns
        -------
        SampleAccumulator, itself

        Raises
        ------
        ValueError
            If inputs and classes are not as many as in what was added before.
            Nothing is added then.
        """
        probs = as_own_distributions(probs, ("NC", "SNC"))
        samples = probs[None] if probs.ndim == 2 else probs
        self._expect(samples.shape[1:], "probs")
        if self.sums is None:
            self.sums = np.zeros(samples.shape[1:])
            self.entropies = np.zeros(samples.shape[1])
            self.votes = np.zeros(samples.shape[1:], np.int64)
        for sample in samples:
            for part in blocks(*sample.shape):
                block = sample[part].astype(np.float64, order="C", copy=False)
                self.sums[part] += block
                self.entropies[part] += entropy_of_rows(block)
                add_votes(self.votes[part], block)
        self.count += len(samples)
        return self

    def merge(self, other):
        """A new accumulator with the samples of both; neither of them changes.

        Parameters
        ----------
        other : SampleAccumulator
            Of the same inputs and classes, or empty.

        Returns
        -------
        SampleAccumulator

        Raises
        ------
        ValueError
            If ``other`` is something else, or inputs and classes differ.
        """
        if not isinstance(other, SampleAccumulator):
            raise ValueError(f"other: expected a SampleAccumulator, got {type(other).__name__}")
        merged = SampleAccumulator()
        merged.count = self.count + other.count
        filled = [part for part in (self, other) if part.sums is not None]
        if filled:
            if len(filled) == 2:
                self._expect(other.sums.shape, "other")
            merged.sums = sum(part.sums for part in filled)
            merged.entropies = sum(part.entropies for part in filled)
            merged.votes = sum(part.votes for part in filled)
        return merged

    def result(self):
        """The decomposition of all samples so far.

        Returns
        -------
        SampledDecomposition

        Raises
        ------
        ValueError
            If nothing was added yet.
        """
        if self.count == 0:
            raise ValueError("probs: expected at least one sample to be added before there is a result")
        mean = self.sums / self.count
        total = np.empty(len(mean))
        for part in blocks(*mean.shape):
            total[part] = entropy_of_rows(mean[part])
        aleatoric = self.entropies / self.count
        return SampledDecomposition(
            mean=mean,
            total=total,
            aleatoric=aleatoric,
            epistemic=np.maximum(total - aleatoric, 0.0),
            confidence=largest(mean),
            variation_ratio=1.0 - self.votes.max(axis=1) / self.count,
            count=self.count,
        )

    def _expect(self, shape, name):
        if self.sums is not None and self.sums.shape != tuple(shape):
            raise ValueError(
                f"{name}: expected {self.sums.shape[0]} inputs and {self.sums.shape[1]} classes, got {shape}"
            )
