"""The noise unknown as well: a normal-inverse-gamma posterior and Student t predictions, in closed form."""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from uqhelpers._checks import as_number, as_real
from uqhelpers.bayesian_linear_regression.model import BayesianLinearRegression, no_switch
from uqhelpers.bayesian_linear_regression.triangle import combine, one_a_weight
from uqhelpers.metrics import RegressionPrediction


@dataclass(frozen=True, eq=False)
class StudentPrediction(RegressionPrediction):
    """A Student t for each new observation, in the units of the targets.

    Attributes
    ----------
    mean : array, shape (N,)
        The centre of the distribution.
    epistemic : array, shape (N,)
        Standard deviation of the function's value; infinite with at most two
        degrees of freedom, as that of a Student t then is.
    total : array, shape (N,)
        Standard deviation of a new observation, likewise.
    scale : array, shape (N,)
        Scale of the Student t of a new observation: what is left of ``total``
        where the degrees of freedom are many.
    degrees_of_freedom : float
        Above 0.
    """

    scale: np.ndarray
    degrees_of_freedom: float

    def interval(self, level=0.95):
        """The central interval that holds a new observation with a given probability.

        Parameters
        ----------
        level : float
            The probability, above 0 and below 1.

        Returns
        -------
        array, shape (N, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If ``level`` is out of its range.
        """
        level = as_number(level, "level", low=0, high=1, open_low=True)
        if level == 1:
            raise ValueError("level: expected a number below 1, got 1")
        half = student_t.ppf((1 + level) / 2, self.degrees_of_freedom) * self.scale
        return np.stack([self.mean - half, self.mean + half], axis=1)

    def log_likelihood(self, y):
        """Logarithm of the predicted density at targets, in nats.

        Parameters
        ----------
        y : array, shape (N,) or (N, 1)
            Targets.

        Returns
        -------
        array, shape (N,)

        Raises
        ------
        ValueError
            If there is not one target an input.
        """
        y = as_real(y, "y")
        if y.shape not in (self.mean.shape, (len(self.mean), 1)):
            raise ValueError(f"y: expected shape ({len(self.mean)},), one target an input, got {y.shape}")
        return student_t.logpdf(y.reshape(-1), self.degrees_of_freedom, self.mean, self.scale)


@contextmanager
def _in_these_words():
    """What the model within calls ``alpha`` is ``ratio`` here."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("alpha:", "ratio:", 1)) from None


class StudentLinearRegression:
    """Linear regression on fixed features with the noise unknown: weights and noise are integrated out.

    Given the precision of the noise β, the weights have the prior precision
    ``ratio`` · β; β itself has a Gamma prior. Both are updated in closed form,
    and a new observation is a Student t. With the defaults, a flat prior of the
    weights and p(β) ∝ 1/β, it is the classical prediction interval. Before any
    data the model is its prior, if nothing in that is flat.

    Parameters
    ----------
    ratio : float or array of shape (M,)
        Prior precision of the weights over the precision of the noise (α / β),
        of all weights or of each; 0 is flat.
    shape, rate : float
        Of the Gamma prior of β, whose mean is ``shape / rate``; it weighs as
        much as ``2 * shape`` observations whose squared errors add up to
        ``2 * rate``. Both 0: p(β) ∝ 1/β.
    basis : callable, optional
        From inputs (N, D) to features (N, M); default ``LinearBasis()``.

    Raises
    ------
    ValueError
        If an argument is out of its range, only one of ``shape`` and ``rate``
        is 0, or ``basis`` cannot be called.

    Notes
    -----
    Costs, and what is kept of the data, are those of
    :class:`BayesianLinearRegression`, on which it is built.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, exercises 3.12 and
    3.13. Gelman et al. (2013), Bayesian Data Analysis, section 14.2, for the
    flat prior.

    Examples
    --------
    >>> model = StudentLinearRegression().fit([0, 1, 2, 3], [0.1, 0.9, 2.2, 2.9])
    >>> model.predict([1.5]).degrees_of_freedom
    2.0
    """

    def __init__(self, ratio=0.0, shape=0.0, rate=0.0, basis=None):
        if ratio is None:
            raise ValueError("ratio: expected a number, or one a weight, got None")
        with _in_these_words():
            self._weights = BayesianLinearRegression(ratio, 1.0, basis)
        self.shape = as_number(no_switch(shape, "shape"), "shape", low=0)
        self.rate = as_number(no_switch(rate, "rate"), "rate", low=0)
        if (self.shape == 0) != (self.rate == 0):
            raise ValueError(
                f"rate: expected both it and shape above 0, or both 0, got {rate:g} and {shape:g}"
            )

    def __repr__(self):
        return f"{type(self).__name__}({self._weights.n} examples, basis={self._weights.basis!r})"

    def fit(self, x, y=None):
        """Forget what was seen, and learn from these examples.

        Parameters
        ----------
        x : array, shape (N, D) or (N,), or iterable of batches
            As :meth:`BayesianLinearRegression.fit` takes them.
        y : array, shape (N,) or (N, 1)
            Targets. A loader brings its own.

        Returns
        -------
        StudentLinearRegression
            The model itself.

        Raises
        ------
        ValueError
            If shapes do not match, or a value or a feature is not finite.
        """
        self._weights.fit(x, y)
        return self

    def update(self, x, y=None):
        """Learn from more examples: the posterior is that of all of them at once.

        Parameters
        ----------
        x, y
            As in ``fit``.

        Returns
        -------
        StudentLinearRegression
            The model itself.

        Raises
        ------
        ValueError
            As ``fit``, and if the inputs have another number of features than
            those before.
        """
        self._weights.update(x, y)
        return self

    def noise(self):
        """The Gamma posterior of the noise's precision β; its prior, before any data.

        Returns
        -------
        (float, float)
            Shape and rate; the degrees of freedom of a prediction are twice the
            shape, and √(rate / shape) is an estimate of σ.

        Raises
        ------
        ValueError
            If there are neither data nor a prior of the noise, or if the data leave
            no degree of freedom, or no error, to judge the noise by.
        """
        if self._weights.n == 0 and self.shape > 0:  # the prior: there is one to speak of
            return self.shape, self.rate
        width = self._weights._width()
        with _in_these_words():
            ratio = one_a_weight(self._weights.alpha, width)
        flat = int(np.sum(ratio == 0))
        misfit = combine(self._weights._triangle, ratio, 1.0)[2]
        shape, rate = self.shape + (self._weights.n - flat) / 2, self.rate + misfit / 2
        if shape <= 0:
            raise ValueError(
                f"y: expected more examples than weights with a flat prior ({flat}), got {self._weights.n}"
            )
        if rate <= 0:
            raise ValueError(
                f"y: expected targets that leave an error to judge the noise by, got {self._weights.n} "
                "that the weights fit without one"
            )
        return float(shape), float(rate)

    def predict(self, x):
        """The distribution of a new observation at each input.

        Parameters
        ----------
        x : array, shape (N, D) or (N,)

        Returns
        -------
        StudentPrediction
            With ``mean``, ``epistemic``, ``total`` and ``scale``, each of shape
            (N,), and ``degrees_of_freedom``.

        Raises
        ------
        ValueError
            As ``noise``, if ``x`` does not fit the basis or the data seen, or if
            the data do not determine all weights with a flat prior.
        """
        shape, rate = self.noise()
        with _in_these_words():
            got = self._weights.predict(x)
        sigma, degrees = np.sqrt(rate / shape), 2 * shape
        spread = sigma * (np.sqrt(degrees / (degrees - 2)) if degrees > 2 else np.inf)
        with np.errstate(invalid="ignore"):
            epistemic = np.where(got.epistemic > 0, spread * got.epistemic, 0.0)
        return StudentPrediction(got.mean, epistemic, spread * got.total, sigma * got.total, degrees)
