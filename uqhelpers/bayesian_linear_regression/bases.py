"""Features of the inputs: the input itself, its powers, bumps around centres."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_choice, as_number, as_real, as_whole


@dataclass(frozen=True)
class LinearBasis:
    """The input itself, with a constant in front: φ(x) = (1, x).

    Parameters
    ----------
    bias : bool
        Whether there is a constant.
    """

    bias: bool = True

    def __post_init__(self):
        as_choice(self.bias, "bias", (True, False))

    def __call__(self, x):
        """Features of inputs of shape (N, D) or (N,): an array (N, D), or (N, D + 1) with the bias."""
        return _with_bias(_as_inputs(x), self.bias)


@dataclass(frozen=True)
class PolynomialBasis:
    """Powers of each coordinate, without products of different ones: φ(x) = (1, x, x², …).

    Parameters
    ----------
    degree : int
        The highest power, at least 1.
    scale : float
        By which inputs are divided first; about the largest of them keeps the
        powers from growing apart.
    bias : bool
        Whether there is a constant.
    """

    degree: int
    scale: float = 1.0
    bias: bool = True

    def __post_init__(self):
        as_whole(self.degree, "degree")
        as_number(self.scale, "scale", low=0, open_low=True)
        as_choice(self.bias, "bias", (True, False))

    def __call__(self, x):
        """Features of inputs of shape (N, D) or (N,): an array (N, D · degree), or one column more."""
        x = _as_inputs(x) / self.scale
        with np.errstate(over="ignore"):  # the model says which argument was too large
            powers = np.concatenate([x**power for power in range(1, self.degree + 1)], axis=1)
        return _with_bias(powers, self.bias)


@dataclass(frozen=True, eq=False)
class GaussianBasis:
    """Bumps around fixed centres, φₘ(x) = exp(−‖x − cₘ‖² / (2 width²)): localised, zero far away.

    Parameters
    ----------
    centres : array, shape (M,) or (M, D)
        Where the bumps are, in the units of the inputs. They are copied, and
        the copy cannot be written to.
    width : float
        Their standard deviation, in the same units, above 0.
    bias : bool
        Whether there is a constant beside them; without one the model falls
        back to a mean of 0 far from all centres.
    """

    centres: np.ndarray
    width: float
    bias: bool = False

    def __post_init__(self):
        centres = _as_inputs(self.centres, "centres").copy()  # what the caller does with his stays with him
        centres.setflags(write=False)
        object.__setattr__(self, "centres", centres)
        as_number(self.width, "width", low=0, open_low=True)
        as_choice(self.bias, "bias", (True, False))

    def __call__(self, x):
        """Features of inputs of shape (N, D) or (N,): an array (N, M), or (N, M + 1) with the bias."""
        x = _as_inputs(x)
        if x.shape[1] != self.centres.shape[1]:
            raise ValueError(f"x: expected shape (N, {self.centres.shape[1]}), got {x.shape}")
        squared = np.zeros((len(x), len(self.centres)))
        with np.errstate(over="ignore"):  # an infinite distance is a bump of 0, rightly
            for column, centre in zip(x.T, self.centres.T, strict=True):
                squared += ((column[:, None] - centre) / self.width) ** 2
        return _with_bias(np.exp(-0.5 * squared), self.bias)


def _with_bias(features, bias):
    return np.concatenate([np.ones((len(features), 1)), features], axis=1) if bias else features


def _as_inputs(x, name="x"):
    """Inputs of shape (N, D); a vector is a column."""
    x = as_real(x, name)
    if x.ndim not in (1, 2):
        raise ValueError(f"{name}: expected shape (N,) or (N, D), got {x.shape}")
    return x[:, None] if x.ndim == 1 else x
