"""What several of the metrics share: averaged predictions, their top class, groups of ties."""

import numpy as np

from uqhelpers._checks import as_labels, as_own_distributions, to_numpy

BLOCK = 1 << 16  # numbers worked on at a time: half a megabyte of float64 stays in a core's cache
NARROW = 64  # rows up to this long are reduced column by column, several times faster than row by row


def blocks(length, width):
    """Slices of ``length`` rows, each about ``BLOCK`` numbers when a row holds ``width`` of them."""
    step = max(1, BLOCK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def mean_probabilities(probs, name="probs"):
    """One distribution an input: sampled predictions are averaged, single ones keep their own precision."""
    probs = as_own_distributions(probs, ("NC", "SNC"), name)
    if probs.ndim == 2:
        return probs
    mean = np.empty(probs.shape[1:])
    for part in blocks(probs.shape[1], probs.shape[0] * probs.shape[2]):
        probs[:, part].astype(np.float64).mean(axis=0, out=mean[part])
    return mean


def in_precision_of(probs, values):
    """Values in the floating-point type of the probabilities they were made from.

    Averages are float64. Beside the edges of bins they must be what single
    predictions are: an average of .6 in float32 lies on the edge .6, and above
    it in float64.
    """
    return values.astype(probs.dtype, copy=False) if probs.dtype in (np.float16, np.float32) else values


def alike(*arrays):
    """Arrays in the coarsest type that is among them: .6 in float32 is another number than .6 in float64."""
    coarsest = min((array.dtype for array in arrays), key=lambda kind: kind.itemsize)
    with np.errstate(over="ignore"):  # beyond its largest number is infinity, on the right side
        return [array.astype(coarsest, copy=False) for array in arrays]


def largest(rows):
    """The largest value of each row."""
    if rows.shape[1] > NARROW:
        return rows.max(axis=1)
    top = np.empty(len(rows), rows.dtype)
    for part in blocks(len(rows), rows.shape[1]):
        np.ascontiguousarray(rows[part].T).max(axis=0, out=top[part])
    return top


def largest_and_where(rows):
    """The largest value of each row and the first column that holds it: the prediction."""
    if rows.shape[1] > NARROW:
        return rows.max(axis=1), rows.argmax(axis=1)
    top, where = np.empty(len(rows), rows.dtype), np.empty(len(rows), np.intp)
    for part in blocks(len(rows), rows.shape[1]):
        columns = np.ascontiguousarray(rows[part].T)
        columns.max(axis=0, out=top[part])
        # The first column that holds it has as many columns before it as hold something else.
        before = np.ones(columns.shape[1], bool)
        count = np.zeros(columns.shape[1], np.int8)
        for column in columns:
            before &= column != top[part]
            count += before
        where[part] = count
    return top, where


def confidence_and_correct(probs, labels):
    """Probability of the predicted class, in the input's own precision, and whether it is the label."""
    probs = to_numpy(probs, "probs")
    mean = mean_probabilities(probs)
    labels = as_labels(labels, mean.shape[1], length=len(mean))
    confidence, predicted = largest_and_where(mean)
    return in_precision_of(probs, confidence), predicted == labels


def tie_groups(score, flags):
    """Ranked by ascending score, what lies at or below each distinct value.

    Returns
    -------
    values : array, shape (G,)
        The distinct scores, ascending.
    ends : array of int, shape (G,)
        How many inputs have at most that score.
    flagged : array of int, shape (G,)
        How many of these are flagged.
    """
    order = np.argsort(score)
    ranked = score[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]) + 1, len(ranked))
    flagged = np.cumsum(flags[order])[ends - 1]
    return ranked[ends - 1], ends, flagged
