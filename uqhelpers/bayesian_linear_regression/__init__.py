"""Bayesian linear regression: the posterior, the predictive distribution and the evidence, all exact.

Targets are a weighted sum of features of the input plus Gaussian noise. The
weights have independent Gaussian priors of precision ``alpha``, the noise has
the precision ``beta``; both are precisions, 1 / variance.

All that the data say is kept in one triangle: the R of a QR decomposition of
the features with the targets beside them. It has the size of the model, new
data are rotated into it, and the Gram matrix, whose condition is the square of
the features', is never formed.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq

from uqhelpers._checks import as_choice, as_generator, as_number, as_real, as_whole, to_numpy
from uqhelpers.metrics import RegressionPrediction

__all__ = ["BayesianLinearRegression", "GaussianBasis", "LinearBasis", "PolynomialBasis"]

_LARGEST = 1e70  # of what is learned from: its square, times a precision, is to stay a float
_PRECISIONS = (1e-100, 1e100)  # beyond them nobody means what he says
_NUMBERS_AT_ONCE = 1 << 22  # features made at once when predicting
_LOG_RATIOS = np.linspace(-35, 35, 281)  # of alpha / beta around its natural scale, where the evidence looks


# Bases


@dataclass(frozen=True)
class LinearBasis:
    """The input itself, with a constant in front: φ(x) = (1, x).

    Parameters
    ----------
    bias : bool
        Whether there is a constant.

    Raises
    ------
    ValueError
        If ``bias`` is neither true nor false; in a call, if ``x`` is empty, not
        finite, or neither of shape (N,) nor (N, D).
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

    Raises
    ------
    ValueError
        If an argument is out of its range; in a call as ``LinearBasis``.
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
        Where the bumps are, in the units of the inputs.
    width : float
        Their standard deviation, in the same units, above 0.
    bias : bool
        Whether there is a constant beside them; without one the model falls
        back to a mean of 0 far from all centres.

    Raises
    ------
    ValueError
        If an argument is out of its range; in a call as ``LinearBasis``, and if
        the inputs have another dimension than the centres.
    """

    centres: np.ndarray
    width: float
    bias: bool = False

    def __post_init__(self):
        object.__setattr__(self, "centres", _as_inputs(self.centres, "centres"))
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


# The model


class BayesianLinearRegression:
    """Linear regression on fixed features with the exact posterior over its weights.

    Before any data the model is its prior: ``predict`` and ``sample`` work, if
    ``alpha`` and ``beta`` are given.

    Parameters
    ----------
    alpha : float, array of shape (M,), or None
        Precision of the prior, of all weights or of each; 0 is a flat prior.
        ``None``: the value that maximises the evidence, found anew whenever
        data come in.
    beta : float or None
        Precision of the noise, 1 / σ², above 0. ``None``: by the evidence.
    basis : callable, optional
        From inputs (N, D) to features (N, M); default ``LinearBasis()``.

    Attributes
    ----------
    n : int
        How many examples it has seen.

    Raises
    ------
    ValueError
        If a precision is out of its range, or ``basis`` cannot be called.

    Notes
    -----
    With N examples and M features: time O(N M²) to take the data in, once O(M³)
    to make the posterior of them, O(M²) an input for its predictive variance.
    The state is of size M², however many examples it has seen.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, sections 3.3 and
    3.5. MacKay (1992), Bayesian interpolation. Bierman (1977), Factorization
    methods for discrete sequential estimation, for the triangle as the state.

    Examples
    --------
    >>> model = BayesianLinearRegression(alpha=1.0, beta=4.0).fit([0, 1, 2], [0.1, 0.9, 2.1])
    >>> bool(model.predict([1]).total[0] > model.predict([1]).epistemic[0])
    True
    """

    def __init__(self, alpha=None, beta=None, basis=None):
        self._given_alpha = None if alpha is None else _as_alpha(alpha)
        self._given_beta = None if beta is None else _as_beta(beta)
        if basis is not None and not callable(basis):
            raise ValueError(f"basis: expected a function of the inputs, got {basis!r}")
        self.basis = LinearBasis() if basis is None else basis
        self._know(None, 0)

    def __repr__(self):
        return f"{type(self).__name__}({self.n} examples, basis={self.basis!r})"

    def _know(self, triangle, n):
        """Replace what is known of the data; what was made of it before is forgotten."""
        self._triangle, self.n = triangle, n
        self._precisions, self._solved = None, None

    def fit(self, x, y):
        """Forget what was seen, and learn from these examples.

        Parameters
        ----------
        x : array, shape (N, D) or (N,)
            Inputs, as the basis takes them.
        y : array, shape (N,) or (N, 1)
            Targets.

        Returns
        -------
        BayesianLinearRegression
            The model itself.

        Raises
        ------
        ValueError
            If shapes do not match, or a value or a feature is not finite. The
            model is then as it was before the call.
        """
        x, y = _as_examples(x, y)
        self._know(_rotate_in(None, self.basis, x, y), len(y))
        return self

    def update(self, x, y):
        """Learn from more examples: the posterior is that of all of them at once.

        Memory does not depend on how many have been seen. Hand a long series
        over in chunks of some thousand examples; one by one is as right, and
        costs O(M³) each.

        Parameters
        ----------
        x, y
            As in ``fit``.

        Returns
        -------
        BayesianLinearRegression
            The model itself.

        Raises
        ------
        ValueError
            As ``fit``, and if the inputs have another number of features than
            those before.
        """
        x, y = _as_examples(x, y)
        self._know(_rotate_in(self._triangle, self.basis, x, y), self.n + len(y))
        return self

    def predict(self, x):
        """Predictive mean, and the standard deviations of function and observation.

        Parameters
        ----------
        x : array, shape (N, D) or (N,)

        Returns
        -------
        RegressionPrediction
            With ``mean``, ``epistemic`` and ``total``, each of shape (N,).

        Raises
        ------
        ValueError
            If ``x`` does not fit the basis or the data seen, if a flat prior
            (``alpha=0``) meets data that do not determine all weights, or if no
            data have been seen and a precision was left to the evidence.
        """
        mean, variance = [], []
        for features in self._blocks_of_features(x):
            weights, root = self._posterior(features.shape[1])
            with np.errstate(over="ignore", invalid="ignore"):
                mean.append(features @ weights)
                variance.append((_solve(root, features.T, transposed=True) ** 2).sum(axis=0))
        mean, variance = np.concatenate(mean), np.concatenate(variance)
        total = np.sqrt(variance + 1 / self.beta)
        return RegressionPrediction(_finite(mean), np.sqrt(_finite(variance)), _finite(total))

    def sample(self, x, size=10, seed=0, noise=False):
        """Functions drawn from the posterior (from the prior, before any data), at these inputs.

        Parameters
        ----------
        x : array, shape (N, D) or (N,)
        size : int
            How many functions, S, at most a million.
        seed : int or numpy.random.Generator
        noise : bool
            Whether to add the observations' noise to each value.

        Returns
        -------
        array, shape (S, N)
            Each row is one function: one draw of the weights.

        Raises
        ------
        ValueError
            As ``predict``, and if ``size`` is out of its range.
        """
        size, rng = as_whole(size, "size", high=10**6), as_generator(seed)
        as_choice(noise, "noise", (True, False))
        values, draws = [], None
        for features in self._blocks_of_features(x):
            weights, root = self._posterior(features.shape[1])
            if draws is None:
                draws = weights + _solve(root, rng.standard_normal((len(weights), size))).T
            with np.errstate(over="ignore", invalid="ignore"):
                values.append(draws @ features.T)
        values = _finite(np.concatenate(values, axis=1))
        return values + self.noise_std * rng.standard_normal(values.shape) if noise else values

    def log_evidence(self, alpha=None, beta=None):
        """Logarithm of the probability density of all targets seen, the weights integrated out.

        Parameters
        ----------
        alpha, beta : optional
            Other precisions than the model's own, as in the constructor.

        Returns
        -------
        float
            In nats; it compares bases and precisions on the same targets.

        Raises
        ------
        ValueError
            If no data have been seen, or a prior is flat: it has no density.

        References
        ----------
        Bishop (2006), eq. 3.86.
        """
        width = self._width()
        alpha = _one_a_weight(self.alpha if alpha is None else _as_alpha(alpha), width)
        beta = self.beta if beta is None else _as_beta(beta)
        if alpha.min() == 0:
            raise ValueError("alpha: expected above 0, a flat prior has no evidence")
        root, _, misfit = _combine(self._triangle, alpha, beta)
        spread = np.log(np.abs(np.diag(root)) / np.sqrt(alpha)).sum()
        return float(0.5 * (self.n * np.log(beta / (2 * np.pi)) - misfit) - spread)

    @property
    def alpha(self):
        """Precision of the prior in use: a float, or an array (M,) if one a weight was given."""
        if self._given_alpha is None:
            return self._chosen()[0]
        return self._given_alpha.copy() if self._given_alpha.ndim else self._given_alpha.item()

    @property
    def beta(self):
        """Precision of the noise in use."""
        return self._chosen()[1] if self._given_beta is None else self._given_beta

    @property
    def noise_std(self):
        """Standard deviation of the noise in use, 1 / √beta, in the units of the targets."""
        return 1 / np.sqrt(self.beta)

    @property
    def weights(self):
        """Posterior mean of the weights, shape (M,): those of ridge regression with alpha / beta."""
        return self._posterior(self._width())[0].copy()

    @property
    def covariance(self):
        """Posterior covariance of the weights, shape (M, M)."""
        inverse = _solve(self._posterior(self._width())[1], np.eye(self._width()))
        return inverse @ inverse.T

    @property
    def effective_parameters(self):
        """How many weights the data determine, rather than the prior: from 0 to M (MacKay's γ)."""
        inverse = _solve(self._posterior(self._width())[1], np.eye(self._width()))
        return float(self._width() - _one_a_weight(self.alpha, self._width()) @ (inverse**2).sum(axis=1))

    def _width(self):
        """Number of features, M."""
        if self._triangle is None:
            raise ValueError("x: expected data to be fitted first, got none so far")
        return self._triangle.shape[1] - 1

    def _blocks_of_features(self, x):
        """Features of some inputs at a time, so that memory does not grow with their number."""
        x = _as_rows(x)
        width = None if self._triangle is None else self._width()
        first = _features(self.basis, x[:1], width)
        step = max(1, _NUMBERS_AT_ONCE // first.shape[1])
        for start in range(0, len(x), step):
            yield _features(self.basis, x[start : start + step], first.shape[1])

    def _posterior(self, width):
        """Mean of the weights and root of their precision; the prior's, if there are no data."""
        if self._solved is None or len(self._solved[0]) != width:
            alpha = _one_a_weight(self.alpha, width)
            root, right, _ = _combine(self._triangle, alpha, self.beta)
            if alpha.min() == 0:
                _refuse_if_undetermined(root)
            self._solved = _solve(root, right), root
        return self._solved

    def _chosen(self):
        """Both precisions: as given, or else such that the evidence is largest."""
        if self._precisions is None:
            if self._triangle is None:
                name = "alpha" if self._given_alpha is None else "beta"
                raise ValueError(f"{name}: expected a number as long as there are no data to choose it by")
            self._precisions = _choose(self._triangle, self.n, self._given_alpha, self._given_beta)
        return self._precisions


# Arguments


def _as_alpha(alpha):
    """Precision of the prior, of all weights or of each; 0 is a flat one."""
    values = as_real(alpha, "alpha")
    low, high = _PRECISIONS
    if values.ndim > 1 or not np.all((values == 0) | ((low <= values) & (values <= high))):
        raise ValueError(
            f"alpha: expected numbers of at least 0, one or one a weight, at most {high:g}, got {alpha!r}"
        )
    return values.copy()


def _as_beta(beta):
    """Precision of the noise."""
    low, high = _PRECISIONS
    return as_number(beta, "beta", low=low, high=high)


def _one_a_weight(alpha, width):
    if np.ndim(alpha) and len(alpha) != width:
        raise ValueError(f"alpha: expected one number or {width}, one a weight, got {len(alpha)}")
    return np.broadcast_to(np.asarray(alpha, dtype=np.float64), (width,))


def _as_rows(x):
    """Inputs one a row, not copied, and checked only as far as that costs nothing."""
    x = to_numpy(x, "x")
    if x.ndim == 0 or x.size == 0:
        raise ValueError(f"x: expected at least one input, shape (N, D) or (N,), got shape {x.shape}")
    return x[:, None] if x.ndim == 1 else x


def _as_examples(x, y):
    x, y = _as_rows(x), to_numpy(y, "y")
    if y.shape not in ((len(x),), (len(x), 1)):
        raise ValueError(f"y: expected shape ({len(x)},), one target an input, got {y.shape}")
    return x, y.reshape(-1)


def _features(basis, x, width=None):
    """The features of inputs, held against the number of them that is expected."""
    features = as_real(basis(as_real(x, "x")), "basis: features", ndim=2)
    if len(features) != len(x):
        raise ValueError(f"basis: expected one row an input, {len(x)}, got shape {features.shape}")
    if width is not None and features.shape[1] != width:
        raise ValueError(f"x: expected inputs with {width} features, got {features.shape[1]}")
    return features


# Linear algebra


def _triangle_of(rows):
    """R of a QR decomposition: as small as the rows are wide, and RᵀR = rowsᵀ rows."""
    return np.linalg.qr(rows, mode="r")


def _solve(root, right, transposed=False):
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by the caller
        return solve_triangular(root, right, trans="T" if transposed else "N", check_finite=False)


def _finite(values):
    if not np.isfinite(values).all():
        raise ValueError("x: expected inputs whose prediction is finite, got larger ones")
    return values


def _rotate_in(triangle, basis, x, y):
    """The triangle after more examples: what QR leaves of it with their rows below it."""
    width = None if triangle is None else triangle.shape[1] - 1
    width = _features(basis, x[:1], width).shape[1]
    step = max(1024, 2 * width)  # the triangle's own rows are then at most a third of each stack
    for start in range(0, len(y), step):
        part = slice(start, start + step)
        rows = np.column_stack([_features(basis, x[part], width), as_real(y[part], "y")])
        triangle = _triangle_of(rows if triangle is None else np.concatenate([triangle, rows]))
        if not np.abs(triangle).max() < _LARGEST:
            raise ValueError(
                "x: expected features and targets of a size that can be squared, got larger ones"
            )
    return triangle


def _combine(triangle, alpha, beta):
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


def _refuse_if_undetermined(root):
    """With a flat prior, the data have to determine every weight."""
    length = np.linalg.norm(root, axis=0)
    rank = np.linalg.matrix_rank(root / np.where(length > 0, length, 1))
    if rank < len(root):
        raise ValueError(f"alpha: expected above 0, the data determine only {rank} of {len(root)} weights")


# Evidence


def _choose(triangle, n, alpha, beta):
    """Both precisions: as given, or else such that the evidence is largest.

    In the coordinates of the features' singular values the posterior falls
    apart into numbers, and the evidence of a pair of precisions costs O(M).
    Whichever of the two are free, one number is left to be searched for, the
    ratio alpha / beta: for each ratio the best beta is known. So the whole
    range is looked at, and the highest of several maxima found. MacKay's two
    fixed-point equations hold there.
    """
    if not triangle[:, -1].any():
        raise ValueError("y: expected targets that are not all 0 for the evidence to choose by")
    scaled = triangle[:, :-1]
    if alpha is not None:  # in units of their prior standard deviations all weights have the precision 1
        if alpha.min() == 0:
            raise ValueError("alpha: expected above 0 where the evidence is to choose beta")
        scaled = scaled / np.sqrt(_one_a_weight(alpha, scaled.shape[1]))
    left, s, _ = np.linalg.svd(scaled, full_matrices=False)
    along = left.T @ triangle[:, -1]
    data = s**2, along**2, ((triangle[:, -1] - left @ along) ** 2).sum(), n

    def precisions(ratio):
        if alpha is not None:
            return np.ones_like(ratio), 1 / ratio
        best = _best_beta(ratio, *data) if beta is None else np.full_like(ratio, beta)
        return ratio * best, best

    def slope(log_ratio):
        by_alpha, by_beta = _slopes(*precisions(np.exp([log_ratio])), *data)
        return by_alpha.item() if alpha is None else -by_beta.item()

    natural = data[0].mean() if alpha is None else (triangle[:, -1] ** 2).sum() / n
    logs = np.log(natural if natural > 0 else 1.0) + _LOG_RATIOS
    top = _top(_evidence(*precisions(np.exp(logs)), *data))
    log_ratio = logs[top]
    if top in (0, len(logs) - 1):
        limit = "no noise" if top == 0 else "nothing but noise"
        warnings.warn(f"the evidence has no maximum: it grows towards {limit}", RuntimeWarning, stacklevel=4)
    elif slope(logs[top - 1]) > 0 > slope(logs[top + 1]):  # else it is flat to rounding
        log_ratio = brentq(slope, logs[top - 1], logs[top + 1], xtol=1e-14)
    chosen = [value.item() for value in precisions(np.exp([log_ratio]))]
    return (chosen[0] if alpha is None else alpha), (chosen[1] if beta is None else beta)


def _top(evidence):
    """Where it is highest: an end of the range, if it levels off towards that end to rounding."""
    best = int(evidence.argmax())
    for end in (len(evidence) - 1, 0):
        if evidence[best] - evidence[end] <= 1e-10 * (1 + abs(evidence[best])):
            return end
    return best


def _best_beta(ratio, squares, along, rest, n):
    """The beta of largest evidence for each ratio alpha / beta, in closed form."""
    return n / (rest + (along * ratio[:, None] / (ratio[:, None] + squares)).sum(axis=1))


def _evidence(alpha, beta, squares, along, rest, n):
    """Log evidence of pairs of precisions, up to a constant.

    ``squares`` are the features' squared singular values, ``along`` the squared
    targets in their directions, ``rest`` what of the targets no feature reaches.
    """
    alpha, beta_ = alpha[:, None], beta[:, None]
    misfit = beta * rest + (along * alpha * beta_ / (alpha + beta_ * squares)).sum(axis=1)
    return 0.5 * (n * np.log(beta) - np.log1p(beta_ * squares / alpha).sum(axis=1) - misfit)


def _slopes(alpha, beta, squares, along, rest, n):
    """Twice the derivatives of the log evidence by log alpha and by log beta.

    With γ weights determined by the data they are ``γ − alpha ‖m‖²`` and
    ``n − γ − beta ‖y − Φm‖²``: MacKay's equations set them to 0.
    """
    alpha_, beta_ = alpha[:, None], beta[:, None]
    both = alpha_ + beta_ * squares
    determined = (beta_ * squares / both).sum(axis=1)
    weights = (beta_**2 * squares * along / both**2).sum(axis=1)
    residual = rest + (along * (alpha_ / both) ** 2).sum(axis=1)
    return determined - alpha * weights, n - determined - beta * residual
