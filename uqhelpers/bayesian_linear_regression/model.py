"""The model: what it has seen, and what follows from that."""

import numpy as np

from uqhelpers._checks import as_choice, as_generator, as_number, as_real, as_whole, to_numpy
from uqhelpers.bayesian_linear_regression.bases import LinearBasis
from uqhelpers.bayesian_linear_regression.evidence import choose
from uqhelpers.bayesian_linear_regression.triangle import (
    combine,
    features_of,
    one_a_weight,
    refuse_if_undetermined,
    rotate_in,
    solve,
)
from uqhelpers.metrics import RegressionPrediction

PRECISIONS = (1e-100, 1e100)  # beyond them nobody means what he says
NUMBERS_AT_ONCE = 1 << 22  # features made at once when predicting


class BayesianLinearRegression:
    """Linear regression on fixed features with the exact posterior over its weights, given both precisions.

    A precision that is left out is chosen by the evidence and then used as if it
    were known. With few examples the bands are then too narrow: see
    :class:`StudentLinearRegression` for unknown noise.

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
    >>> model = BayesianLinearRegression(alpha=1.0, beta=4.0)
    >>> model = model.fit([0, 1, 2], [0.1, 0.9, 2.1])
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

    def fit(self, x, y=None):
        """Forget what was seen, and learn from these examples.

        Parameters
        ----------
        x : array, shape (N, D) or (N,), or iterable of batches
            Inputs, as the basis takes them; or a ``DataLoader`` of pairs
            ``(x, y)`` that leaves nothing out, of which one batch at a time is in
            memory.
        y : array, shape (N,) or (N, 1)
            Targets. A loader brings its own.

        Returns
        -------
        BayesianLinearRegression, itself

        Raises
        ------
        ValueError
            If shapes do not match, or a value or a feature is not finite. The
            model is then as it was before the call.
        """
        return self._learn(None, 0, x, y)

    def update(self, x, y=None):
        """Learn from more examples: the posterior is that of all of them at once.

        Memory does not depend on how many have been seen. Hand a long series
        over in chunks of some thousand examples; one by one is as right, and
        costs O(M³) each.

        Parameters
        ----------
        x, y : as in ``fit``

        Returns
        -------
        BayesianLinearRegression, itself

        Raises
        ------
        ValueError
            As ``fit``, and if the inputs have another number of features than
            those before.
        """
        return self._learn(self._triangle, self.n, x, y)

    def _learn(self, triangle, n, x, y):
        for rows, targets in _chunks(x, y):
            triangle, n = rotate_in(triangle, self.basis, rows, targets), n + len(targets)
        self._know(triangle, n)
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
                variance.append((solve(root, features.T, transposed=True) ** 2).sum(axis=0))
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
                draws = weights + solve(root, rng.standard_normal((len(weights), size))).T
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
        alpha = one_a_weight(self.alpha if alpha is None else _as_alpha(alpha), width)
        beta = self.beta if beta is None else _as_beta(beta)
        if alpha.min() == 0:
            raise ValueError("alpha: expected above 0, a flat prior has no evidence")
        root, _, misfit = combine(self._triangle, alpha, beta)
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
        inverse = solve(self._posterior(self._width())[1], np.eye(self._width()))
        return inverse @ inverse.T

    @property
    def effective_parameters(self):
        """How many weights the data determine, rather than the prior: from 0 to M (MacKay's γ)."""
        inverse = solve(self._posterior(self._width())[1], np.eye(self._width()))
        return float(self._width() - one_a_weight(self.alpha, self._width()) @ (inverse**2).sum(axis=1))

    def _width(self):
        """Number of features, M."""
        if self._triangle is None:
            raise ValueError("x: expected data to be fitted first, got none so far")
        return self._triangle.shape[1] - 1

    def _blocks_of_features(self, x):
        """Features of some inputs at a time, so that memory does not grow with their number."""
        x = _as_rows(x)
        width = None if self._triangle is None else self._width()
        first = features_of(self.basis, x[:1], width)
        step = max(1, NUMBERS_AT_ONCE // first.shape[1])
        for start in range(0, len(x), step):
            yield features_of(self.basis, x[start : start + step], first.shape[1])

    def _posterior(self, width):
        """Mean of the weights and root of their precision; the prior's, if there are no data."""
        if self._solved is None or len(self._solved[0]) != width:
            alpha = one_a_weight(self.alpha, width)
            root, right, _ = combine(self._triangle, alpha, self.beta)
            if alpha.min() == 0:
                refuse_if_undetermined(root)
            self._solved = solve(root, right), root
        return self._solved

    def _chosen(self):
        """Both precisions: as given, or else such that the evidence is largest."""
        if self._precisions is None:
            if self._triangle is None:
                name = "alpha" if self._given_alpha is None else "beta"
                raise ValueError(f"{name}: expected a number as long as there are no data to choose it by")
            self._precisions = choose(self._triangle, self.n, self._given_alpha, self._given_beta)
        return self._precisions


# Arguments


def no_switch(value, name):
    """The value itself, unless it is True or False: those would pass for 1 and 0."""
    if to_numpy(value, name).dtype.kind == "b":
        raise ValueError(f"{name}: expected numbers, not True or False, got {value!r}")
    return value


def _as_alpha(alpha):
    """Precision of the prior, of all weights or of each; 0 is a flat one."""
    values = as_real(no_switch(alpha, "alpha"), "alpha")
    low, high = PRECISIONS
    if values.ndim > 1 or not np.all((values == 0) | ((low <= values) & (values <= high))):
        raise ValueError(
            f"alpha: expected numbers of at least 0, one or one a weight, at most {high:g}, got {alpha!r}"
        )
    return values.copy()


def _as_beta(beta):
    """Precision of the noise."""
    low, high = PRECISIONS
    return as_number(no_switch(beta, "beta"), "beta", low=low, high=high)


def _as_rows(x):
    """Inputs one a row, not copied, and checked only as far as that costs nothing."""
    if not isinstance(x, np.ndarray | list | tuple):  # it may be a loader, and only torch knows
        from uqhelpers import batches

        x = batches.join(x)
    x = to_numpy(x, "x")
    if x.ndim == 0 or x.size == 0:
        raise ValueError(f"x: expected at least one input, shape (N, D) or (N,), got shape {x.shape}")
    return x[:, None] if x.ndim == 1 else x


def _chunks(x, y):
    """Examples, all at once from arrays, batch by batch from a loader."""
    if y is None:
        from uqhelpers import batches  # loads torch, which arrays do not need

        if batches.is_loader(x):
            yield from (_as_examples(*batch) for batch in batches.whole_pass(x))
            return
    yield _as_examples(x, y)


def _as_examples(x, y):
    x, y = _as_rows(x), to_numpy(y, "y")
    if y.shape not in ((len(x),), (len(x), 1)):
        raise ValueError(f"y: expected shape ({len(x)},), one target an input, got {y.shape}")
    return x, y.reshape(-1)


def _finite(values):
    if not np.isfinite(values).all():
        raise ValueError("x: expected inputs whose prediction is finite, got larger ones")
    return values
