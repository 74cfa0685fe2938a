"""Mean and spread of samples that come one after the other and need not be kept."""


def spread(samples):
    """Mean and variance (divided by one less than their number) over samples, by Welford's method.

    It is stable where a large mean hides a small spread.

    Parameters
    ----------
    samples : iterable of arrays of one shape
        At least two.

    Returns
    -------
    mean, variance : array, of that shape
    """
    mean, squares, count = 0.0, 0.0, 0
    for count, sample in enumerate(samples, start=1):
        shift = sample - mean
        mean = mean + shift / count
        squares = squares + shift * (sample - mean)
    return mean, squares / (count - 1)
