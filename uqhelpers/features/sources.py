"""Where arrays come from: they stand there already, or come batch by batch."""

__all__ = ["as_arrays"]


def as_arrays(inputs, targets=None):
    """Arrays as they are, and what a ``DataLoader`` yields in one pass, joined.

    Torch is imported only where batches come.

    Parameters
    ----------
    inputs : array, or iterable of batches
        A ``DataLoader``, or another iterable of pairs ``(inputs, targets)``: see
        :func:`uqhelpers.batches.gather`.
    targets : array, optional
        Beside an array; a loader brings its own.

    Returns
    -------
    inputs, targets
        Still unchecked if they were arrays.
    """
    numbers = inputs[0] if isinstance(inputs, list | tuple) and inputs else inputs
    if hasattr(numbers, "__array__") or not hasattr(numbers, "__iter__") or isinstance(numbers, str):
        return inputs, targets
    from uqhelpers import batches  # takes torch with it

    return batches.gather(inputs, targets)
