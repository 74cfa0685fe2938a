"""What every public function does with its arguments first: accept many kinds of array, refuse nonsense.

Each check returns a NumPy array, or raises a ``ValueError`` that names the
argument, says what was expected and what came.
"""

import numpy as np

AXES = {"S": "samples", "N": "inputs", "C": "classes"}


def to_numpy(value, name):
    """A NumPy array from a NumPy, torch or JAX array, or from nested lists; none with a mask."""
    if _is_masked(value):
        raise ValueError(
            f"{name}: expected an array without a mask, got a masked array: "
            "leave out or fill in what is masked (compressed, filled) first"
        )
    if hasattr(value, "detach"):  # a torch tensor, perhaps on a GPU, perhaps with a gradient
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # NumPy has no such type
            value = value.float()
        try:
            value = value.numpy()
        except (TypeError, RuntimeError) as error:  # a sparse tensor
            raise ValueError(f"{name}: expected a dense tensor, got {value.layout}") from error
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name}: expected an array, got rows of different lengths") from error
    if array.dtype.kind not in "fiub":
        if array.dtype.kind == "V" and "bfloat16" in str(array.dtype):  # JAX's, through ml_dtypes
            return array.astype(np.float32)
        raise ValueError(f"{name}: expected numbers, got {type(value).__name__} of type {array.dtype}")
    return array


def _is_masked(value):
    """Whether a value is, or a list holds, an array whose mask NumPy would drop without a word."""
    if isinstance(value, list | tuple):
        return any(_is_masked(part) for part in value if not isinstance(part, int | float))
    return isinstance(value, np.ma.MaskedArray) or type(value).__name__ == "MaskedTensor"


def as_real(value, name, ndim=None):
    """Finite float64 numbers, of ``ndim`` dimensions if given; not empty."""
    return as_own_real(value, name, ndim).astype(np.float64, copy=False)


def as_own_real(value, name, ndim=None):
    """Like ``as_real``, in the floating-point type the numbers came in (others in float64).

    What is compared with edges or thresholds needs this: .6 in float32 is
    another number than .6 in float64. ``edges.astype(values.dtype)`` then
    compares like with like.
    """
    array = to_numpy(value, name)
    if array.dtype not in (np.float16, np.float32, np.float64):
        array = array.astype(np.float64)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name}: expected {ndim} dimension(s), got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name}: expected at least one value, got an empty array of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    return array


def as_scores(values, name, length=None):
    """A vector of float64 numbers that can be ranked: infinities can, NaN cannot."""
    return as_own_scores(values, name, length).astype(np.float64, copy=False)


def as_own_scores(values, name, length=None):
    """Like ``as_scores``, in the floating-point type the numbers came in (others in float64)."""
    array = to_numpy(values, name)
    if array.dtype not in (np.float16, np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name}: expected a non-empty vector, one value an input, got shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{name}: expected numbers that can be ranked, got NaN")
    if length is not None and len(array) != length:
        raise ValueError(f"{name}: expected length {length}, got {len(array)}")
    return array


def as_distributions(probs, axes, name="probs"):
    """Class probabilities in float64, checked to be distributions over the last axis.

    ``axes`` spells the expected shape: "NC" for (inputs, classes), "SNC" for
    (samples, inputs, classes), or a tuple of such spellings.
    """
    return as_own_distributions(probs, axes, name).astype(np.float64, copy=False)


def as_own_distributions(probs, axes, name="probs"):
    """Like ``as_distributions``, in the floating-point type the numbers came in.

    What compares probabilities with fixed edges needs this: .6 in float32 is
    another number than .6 in float64.
    """
    array = to_numpy(probs, name)
    spellings = (axes,) if isinstance(axes, str) else axes
    if array.ndim not in [len(spelling) for spelling in spellings]:
        expected = " or ".join(f"({', '.join(AXES[axis] for axis in spelling)})" for spelling in spellings)
        raise ValueError(f"{name}: expected shape {expected}, got {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name}: expected at least one value, got an empty array of shape {array.shape}")
    if array.dtype not in (np.float16, np.float32, np.float64):
        array = array.astype(np.float64)
    # Sums of rounded numbers miss 1 by more, the coarser the rounding was.
    tolerance = 1e-2 if array.dtype == np.float16 else 1e-3
    for part in _parts(array):
        low = part.min()
        # A product with ones sums short rows several times faster than ``sum``.
        sums = part.astype(np.promote_types(part.dtype, np.float32), copy=False) @ np.ones(
            part.shape[-1], np.promote_types(part.dtype, np.float32)
        )
        misses = np.abs(sums - 1)
        if low >= 0 and misses.max() <= tolerance:  # both are false for NaN
            continue
        high = part.max()
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ValueError(f"{name}: expected probabilities, got NaN or infinity")
        if low < 0 or high > 1 + tolerance:
            raise ValueError(
                f"{name}: expected values in [0, 1], got {low:.4g} to {high:.4g}: are these logits?"
            )
        worst = sums[misses.argmax()]
        raise ValueError(f"{name}: expected rows that sum to 1, got a row that sums to {worst:.4g}")
    return array


def _parts(array, size=1 << 16):
    """Views of at most about ``size`` numbers, (inputs, classes) each: they fit a core's cache."""
    step = max(1, size // array.shape[-1])
    for layer in array if array.ndim == 3 else (array,):
        for start in range(0, len(layer), step):
            yield layer[start : start + step]


def as_labels(labels, classes, name="labels", length=None):
    """Integer labels in 0..classes-1, one-dimensional, as many as ``length`` if given."""
    array = to_numpy(labels, name)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one label an input, shape (inputs,), got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name}: expected at least one label, got an empty array")
    if array.dtype.kind == "b" and classes == 2:
        array = array.astype(np.int64)
    if array.dtype.kind == "b" or not np.array_equal(np.round(array), array):  # NaN equals nothing
        raise ValueError(f"{name}: expected integer class labels, got values of type {array.dtype}")
    if array.min() < 0 or array.max() >= classes:
        raise ValueError(
            f"{name}: expected labels from 0 to {classes - 1}, got {array.min()} to {array.max()}"
        )
    if length is not None and len(array) != length:
        raise ValueError(f"{name}: expected {length} labels, one an input, got {len(array)}")
    return array.astype(np.int64, copy=False)


def as_flags(flags, name, length=None):
    """A boolean vector from booleans or from zeros and ones."""
    array = to_numpy(flags, name)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name}: expected a non-empty vector of true/false, got shape {array.shape}")
    if array.dtype.kind != "b" and not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name}: expected true/false or 0/1, got other values")
    if length is not None and len(array) != length:
        raise ValueError(f"{name}: expected length {length}, got {len(array)}")
    return array.astype(bool)


def as_whole(value, name, low=1, high=None):
    """A whole number of at least ``low`` and, if given, at most ``high``."""
    number = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"{name}: expected a whole number, got {value!r}")
    if number < low or (high is not None and number > high):
        span = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name}: expected a whole number {span}, got {number}")
    return number


def as_number(value, name, low=-np.inf, high=np.inf, open_low=False):
    """A finite number in [low, high], or in (low, high] with ``open_low``."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError("text is not a number, even where float() could read it")
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{name}: expected a number, got {value!r}") from error
    inside = low < number <= high if open_low else low <= number <= high
    if not np.isfinite(number) or not inside:
        left = "(" if open_low or low == -np.inf else "["
        right = ")" if high == np.inf else "]"
        raise ValueError(f"{name}: expected a number in {left}{low}, {high}{right}, got {number}")
    return number


def as_switch(value, name):
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


def as_choice(value, name, choices):
    """One of the named ``choices``."""
    # Types are compared first: an array among the candidates would answer with an array.
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def as_generator(seed, name="seed"):
    """A NumPy generator from a whole number or a generator; the global one is never touched."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(as_whole(seed, name, low=0))
