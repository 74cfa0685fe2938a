"""The triangle that holds all that the data say, and the linear algebra on it."""

import numpy as np
from scipy.linalg import solve_triangular

from uqhelpers._checks import as_real

LARGEST = 1e70  # of what is learned from: its square, times a precision, is to stay a float


def features_of(basis, x, width=None):
    """The features of inputs, held against the number of them that is expected."""
    features = as_real(basis(as_real(x, "x")), "basis: features", ndim=2)
    if len(features) != len(x):
        raise ValueError(f"basis: expected one row an input, {len(x)}, got shape {features.shape}")
    if width is not None and features.shape[1] != width:
        raise ValueError(f"x: expected inputs with {width} features, got {features.shape[1]}")
    return features


def _triangle_of(rows):
    """R of a QR decomposition: as small as the rows are wide, and RᵀR = rowsᵀ rows."""
    return np.linalg.qr(rows, mode="r")


def solve(root, right, transposed=False):
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by the caller
        return solve_triangular(root, right, trans="T" if transposed else "N", check_finite=False)


def rotate_in(triangle, basis, x, y):
    """The triangle after more examples: what QR leaves of it with their rows below it."""
    width = None if triangle is None else triangle.shape[1] - 1
    width = features_of(basis, x[:1], width).shape[1]
    step = max(1024, 2 * width)  # the triangle's own rows are then at most a third of each stack
    for start in range(0, len(y), step):
        part = slice(start, start + step)
        rows = np.column_stack([features_of(basis, x[part], width), as_real(y[part], "y")])
        triangle = _triangle_of(rows if triangle is None else np.concatenate([triangle, rows]))
        largest = np.abs(triangle).max(axis=0)
        if not largest.max() < LARGEST:
            what = "y: expected targets" if largest[:-1].max() < LARGEST else "x: expected features"
            raise ValueError(f"{what} of a size that can be squared, got larger ones")
    return triangle


def combine(triangle, alpha, beta):
    """Root U of the posterior precision UᵀU, U times the mean, and the misfit at the mean.

    The prior is as good as M more examples with the target 0. QR of both
    together gives the root without the product; what QR leaves in the corner is
    the root of ``beta ‖y − Φm‖² + Σ alpha m²``.
    """
    width = len(alpha)
    prior = np.concatenate([np.diag(np.sqrt(alpha)), np.zeros((width, 1))], axis=1)
    rows = prior if triangle is None else np.concatenate([prior, np.sqrt(beta) * triangle])
    both = _triangle_of(rows)
    misfit = both[width, width] ** 2 if len(both) > width else 0.0
    return both[:width, :width], both[:width, width], misfit


def refuse_if_undetermined(root):
    """With a flat prior, the data have to determine every weight."""
    length = np.linalg.norm(root, axis=0)
    rank = np.linalg.matrix_rank(root / np.where(length > 0, length, 1))
    if rank < len(root):
        raise ValueError(f"alpha: expected above 0, the data determine only {rank} of {len(root)} weights")


def one_a_weight(alpha, width):
    if np.ndim(alpha) and len(alpha) != width:
        raise ValueError(f"alpha: expected one number or {width}, one a weight, got {len(alpha)}")
    return np.broadcast_to(np.asarray(alpha, dtype=np.float64), (width,))
