"""Plain data, and the JSON in which it crosses the wall of the sandbox.

An answer is made *plain* before a check sees it: numbers, text, lists,
dictionaries with text for keys, and NumPy arrays of numbers. So a check never
meets an object whose ``__eq__`` or ``__float__`` a learner wrote, and the
notebook's own check and the batch grader see the same thing.

Decoding trusts nothing: types, sizes and depth are checked, and nothing is
ever unpickled.
"""

import base64
import json
from dataclasses import dataclass

import numpy as np

DEPTH = 12  # nesting beyond this is an attack or a mistake
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
LARGEST_ARRAY = 300_000  # values in one array of an answer: as float64 they fit into the longest line


@dataclass(frozen=True)
class Network:
    """A small network as plain numbers, which a check can hand to a learner's function.

    The trusted process describes it and never imports torch; the learner's
    side builds it.

    Parameters
    ----------
    layers : tuple
        ``("linear", weight, bias)`` with ``weight`` of shape (outputs, inputs),
        ``("batchnorm", mean, variance)``, ``("relu",)`` or ``("dropout", rate)``.
    """

    layers: tuple

    def __call__(self, inputs):
        """What the network says with its dropout off and its statistics fixed: ``(N, outputs)``."""
        values = np.asarray(inputs, dtype=np.float64)
        for kind, *numbers in self.layers:
            if kind == "linear":
                values = values @ np.asarray(numbers[0]).T + numbers[1]
            elif kind == "batchnorm":
                values = (values - numbers[0]) / np.sqrt(np.asarray(numbers[1]) + 1e-5)
            elif kind == "relu":
                values = np.maximum(values, 0.0)
        return values

    def build(self):
        """The same network as a ``torch.nn.Sequential`` in float64, in evaluation mode."""
        from uqhelpers._torch import torch

        modules = []
        for kind, *numbers in self.layers:
            if kind == "linear":
                weight = torch.tensor(np.asarray(numbers[0], dtype=np.float64))
                module = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
                module.weight.data = weight
                module.bias.data = torch.tensor(np.asarray(numbers[1], dtype=np.float64))
            elif kind == "batchnorm":
                module = torch.nn.BatchNorm1d(len(numbers[0]), dtype=torch.float64)
                module.running_mean.data = torch.tensor(np.asarray(numbers[0], dtype=np.float64))
                module.running_var.data = torch.tensor(np.asarray(numbers[1], dtype=np.float64))
            elif kind == "relu":
                module = torch.nn.ReLU()
            elif kind == "dropout":
                module = torch.nn.Dropout(float(numbers[0]))
            else:
                raise ValueError(f"layers: expected linear, batchnorm, relu or dropout, got {kind!r}")
            modules.append(module)
        return torch.nn.Sequential(*modules).eval()


def plain(value, depth=DEPTH):
    """The same value as plain data.

    Parameters
    ----------
    value : object
        Numbers, text, lists, tuples, dictionaries, or NumPy, torch or JAX arrays.

    Returns
    -------
    None, bool, int, float, str, list, dict or numpy.ndarray

    Raises
    ------
    TypeError
        If something in it is of another kind; the message says which.
    """
    if depth == 0:
        raise TypeError("the answer is nested too deeply")
    if value is ...:  # a part that is still open
        return None
    if value is None or type(value) in (bool, int, float, str):
        return value
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu()
        value = value.float().numpy() if "bfloat16" in str(value.dtype) else value.numpy()
    elif hasattr(value, "__array__") and not isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)  # JAX, pandas
    if isinstance(value, np.generic):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"expected numbers, got a value of type {value.dtype}")
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"expected an array of numbers, got one of {value.dtype}")
        if value.size > LARGEST_ARRAY:
            raise TypeError(f"an array of {value.size} values; answers have at most {LARGEST_ARRAY}")
        if value.dtype.newbyteorder("<").str not in DTYPES:  # long double and the like
            value = value.astype(np.float64)
        return np.array(value, dtype=value.dtype.newbyteorder("<"))
    if isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    raise TypeError(
        f"expected numbers, arrays, text, lists or dictionaries, got an object of type {type(value).__name__}"
    )


def encode(value):
    """Plain data, or a `Network`, as what ``json.dumps`` accepts."""
    if isinstance(value, Network):
        return {"n": [encode(list(layer)) for layer in value.layers]}
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"a": [value.dtype.newbyteorder("<").str, list(value.shape), content]}
    if isinstance(value, (list, tuple)):
        return {"l": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"d": {key: encode(item) for key, item in value.items()}}
    return {"v": value}


def decode(message, build=False, depth=DEPTH):
    """Plain data from what `encode` made, checked at every step.

    Parameters
    ----------
    message : dict
        One parsed JSON value.
    build : bool
        Whether networks are built. Only the learner's side does.

    Raises
    ------
    ValueError
        If anything is not as `encode` makes it.
    """
    if depth == 0 or type(message) is not dict or len(message) != 1:
        raise ValueError("malformed answer")
    (kind, content), *_ = message.items()
    if kind == "v" and (content is None or type(content) in (bool, int, float, str)):
        if type(content) is int and abs(content) >= 2**63:
            raise ValueError("a whole number too large to be an answer")
        return content
    if kind == "a" and type(content) is list and len(content) == 3:
        return _decode_array(*content)
    if kind == "l" and type(content) is list:
        return [decode(item, build, depth - 1) for item in content]
    if kind == "d" and type(content) is dict:
        return {key: decode(item, build, depth - 1) for key, item in content.items()}
    if kind == "n" and build:
        return Network(tuple(tuple(decode(layer)) for layer in content)).build()
    raise ValueError("malformed answer")


def _decode_array(dtype, shape, content):
    if dtype not in DTYPES or type(content) is not str or type(shape) is not list or len(shape) > 8:
        raise ValueError("malformed array")
    if not all(type(length) is int and 0 <= length <= LARGEST_ARRAY for length in shape):
        raise ValueError("malformed array")
    count = 1
    for length in shape:
        count *= length
    if count > LARGEST_ARRAY:
        raise ValueError(f"an array of {count} values; answers have at most {LARGEST_ARRAY}")
    data = base64.b64decode(content, validate=True)
    if len(data) != count * np.dtype(dtype).itemsize:
        raise ValueError("malformed array")
    return np.frombuffer(data, dtype).reshape(shape).copy()


def parse(line):
    """One line of JSON as a dictionary; ``ValueError`` for whatever else it is."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError("not a line of JSON") from error
    if type(message) is not dict:
        raise ValueError("not a JSON object")
    return message
