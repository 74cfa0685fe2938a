"""Deep ensembles: several networks, trained apart, whose disagreement is what the data leave open.

Three parts. Formulas for the mixture that an ensemble predicts. Ensembles of
small networks in JAX (``RegressionEnsemble``, ``ClassificationEnsemble``): all
members train at once, in one ``vmap``, all steps in one ``scan``; JAX is
imported when the first of them is trained. And torch networks for images:
``fit_members`` trains them through joblib and keeps each finished one, ``Swag``
samples around one of them, ``distill`` puts all of them into one.

One name, one meaning: ``scale`` is the standard deviation σ of a Gaussian and
the b of a Laplace distribution, never a variance; what a prediction puts out
are standard deviations.
"""

import dataclasses
import importlib
import time

import numpy as np

from uqhelpers._checks import as_choice, as_distributions, as_labels, as_number, as_real, as_whole
from uqhelpers.deep_ensembles.distillation import (
    concentrations,
    dirichlet_decomposition,
    dirichlet_nll,
    distill,
    predict_distilled,
)
from uqhelpers.deep_ensembles.members import fit_members, member_seeds
from uqhelpers.deep_ensembles.paths import (
    LinePath,
    as_positions,
    interpolate,
    loss_along_line,
    recompute_batch_norm,
)
from uqhelpers.deep_ensembles.swag import Swag
from uqhelpers.metrics import RegressionPrediction, SampleAccumulator, gaussian_nll, predictive_entropy
from uqhelpers.training import predict as predict_one
from uqhelpers.training import predict_outputs

__all__ = [
    "ACTIVATIONS",
    "ADVERSARIAL",
    "LIKELIHOODS",
    "PENALTIES",
    "SCHEDULES",
    "ClassificationEnsemble",
    "Disagreement",
    "EnsembleHistory",
    "LinePath",
    "MemberPredictions",
    "MixturePrediction",
    "RegressionEnsemble",
    "Swag",
    "concentrations",
    "dirichlet_decomposition",
    "dirichlet_nll",
    "disagreement",
    "distill",
    "fit_members",
    "gaussian_nll",
    "gradient_sign",
    "interpolate",
    "laplace_nll",
    "loss_along_line",
    "member_seeds",
    "mixture_moments",
    "mixture_nll",
    "predict",
    "predict_distilled",
    "recompute_batch_norm",
    "sample",
    "sample_outputs",
    "virtual_adversarial_loss",
]

LIKELIHOODS = ("gaussian", "laplace", "mse", "l1")
PROBABILISTIC = ("gaussian", "laplace")
ACTIVATIONS = ("relu", "tanh", "gelu")
PENALTIES = ("squared", "norm")
SCHEDULES = ("constant", "cosine")
ADVERSARIAL = (None, "gradient_sign", "virtual")


# --- the mixture that an ensemble predicts --------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class MixturePrediction(RegressionPrediction):
    """A ``RegressionPrediction`` that also tells the noise apart.

    Attributes
    ----------
    aleatoric : array, shape (N,) or (N, K)
        Standard deviation of the noise, as the members predict it on average:
        ``total² = aleatoric² + epistemic²``.
    """

    aleatoric: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class MemberPredictions:
    """What each member predicts. ``locations, scales = predictions`` takes both.

    Attributes
    ----------
    locations : array, shape (M, N) or (M, N, K)
        Mean of a Gaussian, or median of a Laplace distribution.
    scales : array of the same shape, or None
        σ of a Gaussian or b of a Laplace distribution; None where the members
        were trained without one.
    """

    locations: np.ndarray
    scales: np.ndarray | None

    def __iter__(self):
        return iter((self.locations, self.scales))


def laplace_nll(location, scale, y):
    """Average negative log-likelihood of targets under predicted Laplace distributions, lower is better.

    ``log(2 scale) + |y - location| / scale``.

    Parameters
    ----------
    location, scale : array, the shape of ``y``, or a number
        Median and scale b of each prediction, in the unit of ``y``; ``scale``
        above 0. The standard deviation is ``sqrt(2) * scale``.
    y : array
        Targets, of any shape.

    Returns
    -------
    float
        In nats a target; it can be below 0, for a density can exceed 1.

    Raises
    ------
    ValueError
        If an argument is empty or not finite, shapes differ, or ``scale`` is
        not above 0.
    """
    y = as_real(y, "y")
    location, scale = as_real(location, "location"), as_real(scale, "scale")
    for name, values in (("location", location), ("scale", scale)):
        if values.ndim and values.shape != y.shape:
            raise ValueError(f"{name}: expected a number or the shape of y, {y.shape}, got {values.shape}")
    _above_zero(scale, "scale")
    with np.errstate(over="ignore"):
        return float((np.log(2 * scale) + np.abs(y - location) / scale).mean())


def mixture_moments(locations, scales=None, likelihood="gaussian"):
    """Mean and standard deviations of the uniform mixture of the members' predictions.

    The variance of a mixture is the mean of the members' variances plus the
    variance of their means. A member's variance is σ² for a Gaussian and 2 b²
    for a Laplace distribution.

    Parameters
    ----------
    locations : array, shape (M, N) or (M, N, K)
        What each of ``M`` members predicts, in the unit of the target.
    scales : array, the same shape, optional
        σ or b of each prediction, above 0. Without scales there is no
        aleatoric part.
    likelihood : {"gaussian", "laplace"}
        Of what the scales are scales.

    Returns
    -------
    MixturePrediction
        Standard deviations, not variances. ``epistemic`` divides by ``M``, not
        by ``M - 1``: the mixture is taken for what it is.

    Raises
    ------
    ValueError
        If shapes differ, a value is not finite, or a scale is not above 0.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable
    predictive uncertainty estimation using deep ensembles, section 2.4.
    """
    locations, scales = _members(locations, scales)
    factor = {"gaussian": 1.0, "laplace": 2.0}[as_choice(likelihood, "likelihood", PROBABILISTIC)]
    mean = locations.mean(axis=0)
    epistemic = np.square(locations - mean).mean(axis=0)
    aleatoric = np.zeros_like(mean) if scales is None else factor * np.square(scales).mean(axis=0)
    return MixturePrediction(mean, *map(np.sqrt, (epistemic, aleatoric + epistemic, aleatoric)))


def mixture_nll(locations, scales, targets, likelihood="gaussian"):
    """Average negative log-likelihood of targets under the mixture of the members' predictions.

    ``-log(1/M Σ p_m(y))``, by a log-sum-exp. It is never above the average of
    the members' own negative log-likelihoods (Jensen).

    Parameters
    ----------
    locations, scales : array, shape (M, N) or (M, N, K)
        As in ``mixture_moments``. With ``K`` targets an input, each is scored
        by itself.
    targets : array, shape (N,) or (N, K)
        Targets.
    likelihood : {"gaussian", "laplace"}
        Of what the scales are scales.

    Returns
    -------
    float
        In nats a target.

    Raises
    ------
    ValueError
        If shapes differ, a value is not finite, or a scale is not above 0.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), section 2.4.
    """
    from scipy.special import logsumexp

    if scales is None:
        raise ValueError("scales: expected the members' scales, got None")
    locations, scales = _members(locations, scales)
    targets = as_real(targets, "targets")
    if targets.shape != locations.shape[1:]:
        raise ValueError(f"targets: expected shape {locations.shape[1:]}, got {targets.shape}")
    logs = _log_density(locations, scales, targets, likelihood)
    return float((np.log(len(logs)) - logsumexp(logs, axis=0)).mean())


def _log_density(locations, scales, targets, likelihood):
    with np.errstate(over="ignore"):
        standardised = (targets - locations) / scales
        if as_choice(likelihood, "likelihood", PROBABILISTIC) == "laplace":
            return -np.log(2 * scales) - np.abs(standardised)
        return -np.log(scales) - 0.5 * np.log(2 * np.pi) - 0.5 * standardised**2


def _members(locations, scales):
    locations = as_real(locations, "locations")
    if locations.ndim not in (2, 3):
        raise ValueError(
            f"locations: expected (members, inputs) or (members, inputs, K), got {locations.shape}"
        )
    if scales is None:
        return locations, None
    scales = as_real(scales, "scales")
    if scales.shape != locations.shape:
        raise ValueError(f"scales: expected the shape of locations, {locations.shape}, got {scales.shape}")
    return locations, _above_zero(scales, "scales")


def _above_zero(values, name):
    if values.min() <= 0:
        raise ValueError(f"{name}: expected values above 0, got {values.min():.4g}")
    return values


# --- small networks in JAX ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class EnsembleHistory:
    """What happened while an ensemble was trained.

    Attributes
    ----------
    loss : array, shape (M, epochs)
        What was minimised, penalty and attack included, in the network's own
        units: the mean over the steps of an epoch, each before it was taken.
    data_loss : array, shape (M, epochs)
        The plain loss on the clean training inputs, in the units of the
        targets: nats for a likelihood.
    accuracy : array, shape (M, epochs), or None
        On the training inputs, for a classification.
    seconds : float
        Wall-clock time, compilation included.
    """

    loss: np.ndarray
    data_loss: np.ndarray
    accuracy: np.ndarray | None
    seconds: float


class _Ensemble:
    """What both kinds of ensemble share: settings, training, and lines between members."""

    def __init__(
        self,
        hidden,
        members,
        likelihood,
        epochs,
        batch_size,
        learning_rate,
        schedule,
        activation,
        init,
        weight_decay,
        penalty,
        adversarial,
        epsilon,
        bootstrap,
        standardise,
        seed,
    ):
        self.hidden = _as_widths(hidden)
        self.members = as_whole(members, "members")
        self.likelihood = likelihood
        self.epochs = as_whole(epochs, "epochs")
        self.batch_size = None if batch_size is None else as_whole(batch_size, "batch_size")
        self.learning_rate = as_number(learning_rate, "learning_rate", low=0, open_low=True)
        self.schedule = as_choice(schedule, "schedule", SCHEDULES)
        self.activation = as_choice(activation, "activation", ACTIVATIONS)
        self.init = _as_init(init, self.members)
        self.weight_decay = as_number(weight_decay, "weight_decay", low=0)
        self.penalty = penalty if callable(penalty) else as_choice(penalty, "penalty", PENALTIES)
        self.adversarial = as_choice(adversarial, "adversarial", ADVERSARIAL)
        self.epsilon = as_real(epsilon, "epsilon")
        if self.epsilon.ndim > 1 or self.epsilon.min() < 0:
            raise ValueError(
                f"epsilon: expected a number or one an input dimension, at least 0, got {epsilon!r}"
            )
        self.bootstrap = as_choice(bootstrap, "bootstrap", (False, True))
        self.standardise = as_choice(standardise, "standardise", (False, True))
        self.seed = as_whole(seed, "seed", low=0, high=2**32 - 1)
        self.history = None
        self._networks = None

    def _train(self, inputs, targets, outputs):
        """Train on arrays that were checked and standardised."""
        jax_part = _jax_part()
        if self.epsilon.ndim and self.epsilon.size != inputs.shape[1]:
            raise ValueError(
                f"epsilon: expected one number or {inputs.shape[1]}, one an input dimension, "
                f"got {self.epsilon.size}"
            )
        if self.batch_size is not None and self.batch_size > len(inputs):
            raise ValueError(f"batch_size: expected at most {len(inputs)} inputs, got {self.batch_size}")
        started = time.perf_counter()
        generators, bits = jax_part.streams(self.seed, self.members)
        networks = jax_part.initialise(generators, (inputs.shape[1], *self.hidden, outputs), self.init)
        resample = order = None
        if self.bootstrap:
            resample = jax_part.resamples(generators, len(inputs))
        if self.batch_size is not None:
            order = jax_part.orders(generators, len(inputs), self.epochs, self.batch_size)
        plan = jax_part.Plan(
            self.likelihood,
            self.activation,
            self.penalty,
            self.adversarial,
            self.schedule,
            self.weight_decay > 0,
        )
        epsilon = (self.epsilon / self._input_std).astype(np.float32)
        numbers = jax_part.Numbers(self.learning_rate, self.weight_decay, epsilon)
        networks, told = jax_part.train(
            networks,
            bits,
            inputs,
            targets,
            plan,
            numbers,
            epochs=self.epochs,
            resample=resample,
            order=order,
        )
        self._networks = [tuple(np.asarray(leaf) for leaf in pair) for pair in networks]
        loss, data_loss, accuracy = (np.asarray(one, np.float64) for one in told)
        self.history = EnsembleHistory(
            loss,
            self._in_target_units(data_loss),
            accuracy if self.likelihood == "categorical" else None,
            time.perf_counter() - started,
        )
        leaves = [leaf.reshape(self.members, -1) for pair in self._networks for leaf in pair]
        finite = np.isfinite(loss).all(axis=1) & np.isfinite(np.concatenate(leaves, axis=1)).all(axis=1)
        if not finite.all():
            self._networks = None
            lost = ", ".join(map(str, np.flatnonzero(~finite)))
            raise ValueError(f"learning_rate: training diverged for member(s) {lost}; try a smaller rate")
        return self

    def _outputs(self, inputs, chunk=8192):
        """What the networks put out, float64, shape (M, N, K)."""
        self._fitted()
        inputs = as_real(inputs, "inputs", ndim=2)
        dimensions = len(self._input_mean)
        if inputs.shape[1] != dimensions:
            raise ValueError(f"inputs: expected shape (inputs, {dimensions}), got {inputs.shape}")
        inputs = self._standardised(inputs)
        parts = []
        for start in range(0, len(inputs), chunk):
            part = inputs[start : start + chunk]
            outputs = _jax_part().outputs_of_members(self._networks, part, self.activation)
            parts.append(np.asarray(outputs, np.float64))
        return np.concatenate(parts, axis=1)

    def _learn_inputs(self, inputs):
        inputs = as_real(inputs, "inputs", ndim=2)
        self._input_mean, self._input_std = np.zeros(inputs.shape[1]), np.ones(inputs.shape[1])
        if self.standardise:
            std = inputs.std(axis=0)
            self._input_mean, self._input_std = inputs.mean(axis=0), np.where(std > 0, std, 1.0)
        return self._standardised(inputs)

    def _standardised(self, inputs):
        return ((inputs - self._input_mean) / self._input_std).astype(np.float32)

    def _in_target_units(self, data_loss):
        return data_loss

    def _fitted(self):
        if self._networks is None:
            raise ValueError("fit: expected an ensemble that was fitted, got one that was not")
        return self

    def between(self, first, second, points=21):
        """An ensemble whose members lie on the straight line between the weights of two members.

        Parameters
        ----------
        first, second : int
            Numbers of two members.
        points : int or array
            How many places, evenly from ``first`` (0) to ``second`` (1), or
            the places themselves.

        Returns
        -------
        ensemble of the same kind
            With one member a place, and without a history.

        Raises
        ------
        ValueError
            If there is no such member or nothing was fitted.
        """
        self._fitted()
        first = as_whole(first, "first", low=0, high=self.members - 1)
        second = as_whole(second, "second", low=0, high=self.members - 1)
        places = as_positions(points).astype(np.float32)
        return self._with(
            [
                tuple(np.stack([(1 - t) * leaf[first] + t * leaf[second] for t in places]) for leaf in pair)
                for pair in self._networks
            ]
        )

    def subset(self, members):
        """An ensemble of some of the members.

        Parameters
        ----------
        members : int or sequence of int
            The first so many, or the numbers of those to keep.

        Returns
        -------
        ensemble of the same kind
            Without a history.

        Raises
        ------
        ValueError
            If there is no such member or nothing was fitted.
        """
        self._fitted()
        if np.ndim(members) == 0:
            chosen = list(range(as_whole(members, "members", high=self.members)))
        else:
            chosen = as_labels(members, self.members, name="members").tolist()
        return self._with([tuple(leaf[chosen] for leaf in pair) for pair in self._networks])

    def _with(self, networks):
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._networks, other.members, other.history = networks, len(networks[0][0]), None
        return other


class RegressionEnsemble(_Ensemble):
    """An ensemble of small networks for regression, trained all at once in JAX.

    Full-batch (or minibatch) Adam. With the likelihoods "gaussian" and
    "laplace" each network has two outputs a target: the location, and ρ with
    ``scale = softplus(ρ) + 1e-6``.

    Parameters
    ----------
    hidden : sequence of int
        Width of each hidden layer.
    members : int
        Number of networks, ``M``.
    likelihood : {"gaussian", "laplace", "mse", "l1"}
        The loss. The last two have no scale, and no aleatoric uncertainty.
    epochs : int
        Passes over the data; with full batches, steps.
    batch_size : int, optional
        Inputs a step, drawn anew for each member and epoch; what does not fill
        a batch is left out of that epoch. None: all inputs.
    learning_rate : float
        Of Adam.
    schedule : {"constant", "cosine"}
        What becomes of the rate: nothing, or half a cosine down to 0.
    activation : {"relu", "tanh", "gelu"}
        Between the layers.
    init : "he", float, sequence of float, or callable
        "he": weights N(0, 2 / inputs of the layer), biases 0. A number: weights
        and biases N(0, init²). A sequence: such a number for each member. A
        callable gets ``(rng, inputs, outputs)``, the first a NumPy generator,
        and returns ``(weight, bias)`` of a layer, shapes (inputs, outputs) and
        (outputs,).
    weight_decay : float
        What the penalty is multiplied with.
    penalty : {"squared", "norm"} or callable
        "squared": half the sum of squares, which is what ``weight_decay``
        means to torch's Adam. "norm": the L2 norm itself, not squared. Both
        take the biases in. A callable gets the network, a list of
        ``(weight, bias)``, and returns a number.
    adversarial : {None, "gradient_sign", "virtual"}
        "gradient_sign": the loss is averaged with that of the inputs moved
        against their targets. "virtual": the divergence of the prediction under
        the worst small change is added; it asks for no targets.
    epsilon : float or array, shape (D,)
        How far the inputs are moved, in the units of the inputs: each
        coordinate by so much for "gradient_sign", the length of the change for
        "virtual".
    bootstrap : bool
        Whether each member sees its own resample of the data. Different
        initial weights do more for diversity, and leave each member all data.
    standardise : bool
        Whether inputs and targets are brought to mean 0 and standard deviation
        1 inside. Whatever comes out is in the units of the targets.
    seed : int
        Every member has a random stream of its own: the first three of five
        are those of an ensemble of three.

    Attributes
    ----------
    history : EnsembleHistory or None
        Losses by member and epoch.

    Raises
    ------
    ValueError
        If an argument is not as described.

    Examples
    --------
    >>> ensemble = RegressionEnsemble(hidden=(10, 6, 30), members=6).fit(x, y)
    >>> prediction = ensemble.predict(grid)
    >>> prediction.mean, prediction.aleatoric, prediction.epistemic

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable
    predictive uncertainty estimation using deep ensembles.
    """

    between, subset = _Ensemble.between, _Ensemble.subset  # here, so that the API page shows them

    def __init__(
        self,
        hidden=(64, 64),
        members=5,
        likelihood="gaussian",
        *,
        epochs=600,
        batch_size=None,
        learning_rate=1e-2,
        schedule="constant",
        activation="relu",
        init="he",
        weight_decay=0.0,
        penalty="squared",
        adversarial=None,
        epsilon=0.0,
        bootstrap=False,
        standardise=True,
        seed=0,
    ):
        as_choice(likelihood, "likelihood", LIKELIHOODS)
        super().__init__(
            hidden, members, likelihood, epochs, batch_size, learning_rate, schedule, activation, init,
            weight_decay, penalty, adversarial, epsilon, bootstrap, standardise, seed,
        )  # fmt: skip

    def fit(self, inputs, targets):
        """Train all members.

        Parameters
        ----------
        inputs : array, shape (N, D)
        targets : array, shape (N,) or (N, K)
            With ``K`` targets the loss is averaged over them, too.

        Returns
        -------
        RegressionEnsemble
            Itself.

        Raises
        ------
        ValueError
            If the data are empty, not finite or of unequal length, or a
            member's training diverges.
        """
        inputs = self._learn_inputs(inputs)
        targets = as_real(targets, "targets")
        if targets.ndim not in (1, 2) or len(targets) != len(inputs):
            raise ValueError(
                f"targets: expected shape ({len(inputs)},) or ({len(inputs)}, K), got {targets.shape}"
            )
        self._flat, table = targets.ndim == 1, targets.reshape(len(targets), -1)
        self._target_mean, self._target_std = np.zeros(table.shape[1]), np.ones(table.shape[1])
        if self.standardise:
            std = table.std(axis=0)
            self._target_mean, self._target_std = table.mean(axis=0), np.where(std > 0, std, 1.0)
        table = ((table - self._target_mean) / self._target_std).astype(np.float32)
        heads = 2 if self.likelihood in PROBABILISTIC else 1
        return self._train(inputs, table, heads * table.shape[1])

    def _in_target_units(self, data_loss):
        if self.likelihood in PROBABILISTIC:
            return data_loss + np.log(self._target_std).mean()
        # Of several targets only the average was kept; with one this is exact.
        factor = self._target_std.mean() if self.likelihood == "l1" else np.square(self._target_std).mean()
        return data_loss * factor

    def sample_members(self, inputs):
        """What each member predicts.

        Parameters
        ----------
        inputs : array, shape (N, D)

        Returns
        -------
        MemberPredictions
            Locations and scales, each of shape (M, N) or (M, N, K) like the
            targets in ``fit``; no scales (None) for "mse" and "l1".

        Raises
        ------
        ValueError
            If the inputs are empty, not finite or of another dimension, or
            nothing was fitted.
        """
        outputs = self._outputs(inputs)
        count = len(self._target_mean)
        locations = outputs[..., :count] * self._target_std + self._target_mean
        scales = None
        if self.likelihood in PROBABILISTIC:
            scales = (np.logaddexp(0, outputs[..., count:]) + 1e-6) * self._target_std
        if self._flat:
            locations, scales = locations[..., 0], None if scales is None else scales[..., 0]
        return MemberPredictions(locations, scales)

    def predict(self, inputs):
        """Mean and standard deviations of the mixture of all members.

        Parameters
        ----------
        inputs : array, shape (N, D)

        Returns
        -------
        MixturePrediction
            In the units and the shape of the targets.

        Raises
        ------
        ValueError
            As :meth:`sample_members`.
        """
        likelihood = self.likelihood if self.likelihood in PROBABILISTIC else "gaussian"
        return mixture_moments(*self.sample_members(inputs), likelihood)

    def nll(self, inputs, targets):
        """Average negative log-likelihood of targets under the mixture, in nats.

        Parameters
        ----------
        inputs : array, shape (N, D)
        targets : array, shape (N,) or (N, K)

        Returns
        -------
        float

        Raises
        ------
        ValueError
            As :meth:`sample_members`; also if the members have no scale.
        """
        return mixture_nll(*self._with_scales(inputs), targets, self.likelihood)

    def member_nll(self, inputs, targets):
        """Average negative log-likelihood of targets under each member alone, in nats.

        Parameters are those of :meth:`nll`.

        Returns
        -------
        array, shape (M,)

        Raises
        ------
        ValueError
            As :meth:`nll`.
        """
        locations, scales = self._with_scales(inputs)
        pairs = zip(locations, scales, strict=True)
        return np.array(
            [mixture_nll(place[None], scale[None], targets, self.likelihood) for place, scale in pairs]
        )

    def _with_scales(self, inputs):
        if self.likelihood not in PROBABILISTIC:
            raise ValueError(f"likelihood: expected one with a scale, got {self.likelihood!r}")
        return self.sample_members(inputs)


class ClassificationEnsemble(_Ensemble):
    """An ensemble of small networks for classification, trained all at once in JAX.

    Cross-entropy, summed over the classes and averaged over the examples.

    Parameters
    ----------
    hidden, members
        As in :class:`RegressionEnsemble`, and so all others; there is no
        ``likelihood``, and only inputs are standardised.

    Attributes
    ----------
    history : EnsembleHistory or None
        Losses and accuracies by member and epoch.

    Raises
    ------
    ValueError
        If an argument is not as described.

    Examples
    --------
    >>> ensemble = ClassificationEnsemble(hidden=(64, 64)).fit(x, labels)
    >>> ensemble.sample(grid)  # shape (5, N, C)
    """

    between, subset = _Ensemble.between, _Ensemble.subset  # here, so that the API page shows them

    def __init__(
        self,
        hidden=(64, 64),
        members=5,
        *,
        epochs=600,
        batch_size=None,
        learning_rate=1e-2,
        schedule="constant",
        activation="relu",
        init="he",
        weight_decay=0.0,
        penalty="squared",
        adversarial=None,
        epsilon=0.0,
        bootstrap=False,
        standardise=True,
        seed=0,
    ):
        super().__init__(
            hidden, members, "categorical", epochs, batch_size, learning_rate, schedule, activation, init,
            weight_decay, penalty, adversarial, epsilon, bootstrap, standardise, seed,
        )  # fmt: skip

    def fit(self, inputs, labels, classes=None):
        """Train all members.

        Parameters
        ----------
        inputs : array, shape (N, D)
        labels : array of int, shape (N,)
            True classes, from 0.
        classes : int, optional
            How many there are; one more than the largest label unless told.

        Returns
        -------
        ClassificationEnsemble
            Itself.

        Raises
        ------
        ValueError
            If the data are empty, not finite or of unequal length, a label
            does not fit, or a member's training diverges.
        """
        inputs = self._learn_inputs(inputs)
        most = 2**31 - 1 if classes is None else as_whole(classes, "classes", low=2)
        labels = as_labels(labels, most, length=len(inputs))
        classes = max(2, int(labels.max()) + 1) if classes is None else most
        return self._train(inputs, labels.astype(np.int32), classes)

    def sample(self, inputs):
        """Class probabilities of each member.

        Parameters
        ----------
        inputs : array, shape (N, D)

        Returns
        -------
        array, shape (M, N, C), float64
            Probabilities.

        Raises
        ------
        ValueError
            If the inputs are empty, not finite or of another dimension, or
            nothing was fitted.
        """
        from scipy.special import softmax

        return softmax(self._outputs(inputs), axis=-1)

    def predict(self, inputs):
        """The averaged prediction, with its uncertainties.

        Parameters
        ----------
        inputs : array, shape (N, D)

        Returns
        -------
        uqhelpers.metrics.SampledDecomposition
            Averaged probabilities with total, aleatoric and epistemic
            uncertainty in nats, for each input.

        Raises
        ------
        ValueError
            As :meth:`sample`.
        """
        return SampleAccumulator().add(self.sample(inputs)).result()


def gradient_sign(loss, inputs, epsilon):
    """Inputs moved by ``epsilon`` in every coordinate, so that the loss rises: the gradient sign method.

    Parameters
    ----------
    loss : callable
        From inputs to a number, written with JAX.
    inputs : array, shape (N, ...)
    epsilon : float or array
        How far, in the units of the inputs.

    Returns
    -------
    jax.Array, the shape of ``inputs``
        A constant to whoever differentiates further.

    References
    ----------
    Goodfellow, Shlens and Szegedy (2015), Explaining and harnessing
    adversarial examples, section 4.
    """
    return _jax_part().gradient_sign(loss, inputs, epsilon)


def virtual_adversarial_loss(predict, inputs, key, epsilon, iterations=1, divergence=None):
    """How far the prediction moves under the small change of each input that moves it most.

    Added to a loss it smooths the prediction around every input, labelled or
    not: virtual adversarial training. The direction is found by the power
    method with exact Hessian-vector products; finite differences, as in the
    paper, drown in float32's rounding.

    Parameters
    ----------
    predict : callable
        From inputs to logits, written with JAX; what it closes over can be
        differentiated by.
    inputs : array, shape (N, ...)
    key : jax.Array
        A key: the direction starts at random.
    epsilon : float or array
        Length of the change of each input, in the units of the inputs.
    iterations : int
        Steps of the power method.
    divergence : callable, optional
        From the outputs before and after to a number; by default the
        Kullback–Leibler divergence of the softmax, mean over inputs.

    Returns
    -------
    jax.Array
        A number, at least 0.

    Raises
    ------
    ValueError
        If ``iterations`` is not a whole number of at least 1.

    References
    ----------
    Miyato et al. (2018), Virtual adversarial training: a regularization method
    for supervised and semi-supervised learning, section 3.
    """
    iterations = as_whole(iterations, "iterations")
    return _jax_part().virtual_adversarial_loss(predict, inputs, key, epsilon, iterations, divergence)


def _jax_part():
    try:
        return importlib.import_module("uqhelpers.deep_ensembles.jax_ground")
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "jax":
            raise ModuleNotFoundError(
                "jax: ensembles of small networks are trained in JAX; `pip install jax` brings it",
                name=error.name,
            ) from error
        raise


def _as_widths(hidden):
    try:
        widths = tuple(hidden)
    except TypeError as error:
        raise ValueError(f"hidden: expected a sequence of widths, got {hidden!r}") from error
    return tuple(as_whole(width, "hidden") for width in widths)


def _as_init(init, members):
    if callable(init):
        return init
    if isinstance(init, str):
        return as_choice(init, "init", ("he",))
    scales = as_real(init, "init")
    if scales.ndim > 1 or (scales.ndim == 1 and len(scales) != members) or scales.min() < 0:
        raise ValueError(
            f"init: expected 'he', a number of at least 0, {members} of them (one a member) or a callable, "
            f"got {init!r}"
        )
    return np.broadcast_to(scales, members).astype(np.float32)


# --- torch networks -------------------------------------------------------------------------------------


def sample(networks, inputs, batch_size=500):
    """Class probabilities of each member of an ensemble of torch networks.

    Parameters
    ----------
    networks : sequence of torch.nn.Module
        Classifiers that put out logits; run in evaluation mode and left in the
        state in which they came.
    inputs : array, shape (N, ...)
        Inputs.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    array, shape (M, N, C), float64
        Probabilities.

    Raises
    ------
    ValueError
        If there is no network, or the inputs are empty or not finite.
    """
    return np.stack([predict_one(network, inputs, batch_size) for network in _as_networks(networks)])


def sample_outputs(networks, inputs, batch_size=500):
    """What each member of an ensemble of torch networks puts out: logits, or numbers for a regression.

    Parameters are those of :func:`sample`.

    Returns
    -------
    array, shape (M, N, K), float64
        Outputs.

    Raises
    ------
    ValueError
        As :func:`sample`.
    """
    return np.stack([predict_outputs(network, inputs, batch_size) for network in _as_networks(networks)])


def predict(networks, inputs, batch_size=500):
    """The averaged prediction of an ensemble of torch classifiers, with its uncertainties.

    Members are added up one after the other: memory does not grow with them.
    Parameters are those of :func:`sample`.

    Returns
    -------
    uqhelpers.metrics.SampledDecomposition
        Averaged probabilities with total, aleatoric and epistemic uncertainty
        in nats, for each input.

    Raises
    ------
    ValueError
        As :func:`sample`.
    """
    accumulator = SampleAccumulator()
    for network in _as_networks(networks):
        accumulator.add(predict_one(network, inputs, batch_size))
    return accumulator.result()


def _as_networks(networks):
    from uqhelpers._torch import torch

    if isinstance(networks, torch.nn.Module) and not isinstance(networks, torch.nn.ModuleList):
        raise ValueError(f"networks: expected a sequence of networks, got one {type(networks).__name__}")
    try:
        networks = list(networks)
    except TypeError as error:
        raise ValueError(
            f"networks: expected a sequence of networks, got {type(networks).__name__}"
        ) from error
    if not networks:
        raise ValueError("networks: expected at least one network, got none")
    for network in networks:
        if not isinstance(network, torch.nn.Module):
            raise ValueError(f"networks: expected torch networks, got {type(network).__name__}")
    return networks


# --- how far members are apart --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Disagreement:
    """Distances between the functions that members compute, pair by pair, averaged over inputs.

    Attributes
    ----------
    differs : array, shape (M, M)
        Share of the inputs on which two members predict different classes.
    jensen_shannon : array, shape (M, M)
        Jensen–Shannon divergence of the two predictions, in nats, from 0 to
        ``log 2``: the mutual information of an ensemble of these two.
    total_variation : array, shape (M, M)
        Half the sum of absolute differences, from 0 to 1.
    """

    differs: np.ndarray
    jensen_shannon: np.ndarray
    total_variation: np.ndarray

    @property
    def mean_differs(self):
        """Average over all pairs of different members."""
        return _off_diagonal_mean(self.differs)

    @property
    def mean_jensen_shannon(self):
        """Average over all pairs of different members."""
        return _off_diagonal_mean(self.jensen_shannon)

    @property
    def mean_total_variation(self):
        """Average over all pairs of different members."""
        return _off_diagonal_mean(self.total_variation)


def disagreement(probs):
    """How different the functions are that the members compute.

    Weights can be far apart and compute the same function (units can be
    swapped); these distances see only what is predicted.

    Parameters
    ----------
    probs : array, shape (M, N, C)
        Class probabilities of at least two members.

    Returns
    -------
    Disagreement

    Raises
    ------
    ValueError
        If ``probs`` are not distributions, or there is only one member.

    References
    ----------
    Fort, Hu and Lakshminarayanan (2019), Deep ensembles: a loss landscape
    perspective.
    """
    probs = as_distributions(probs, "SNC")
    members = len(probs)
    if members < 2:
        raise ValueError("probs: expected at least two members, got one")
    classes = probs.argmax(axis=-1)
    entropies = [predictive_entropy(one) for one in probs]
    differs, divergence, variation = (np.zeros((members, members)) for _ in range(3))
    for i in range(members):
        for j in range(i):
            between = predictive_entropy((probs[i] + probs[j]) / 2) - (entropies[i] + entropies[j]) / 2
            differs[i, j] = (classes[i] != classes[j]).mean()
            divergence[i, j] = np.maximum(between, 0).mean()
            variation[i, j] = np.abs(probs[i] - probs[j]).sum(axis=-1).mean() / 2
    return Disagreement(*(lower + lower.T for lower in (differs, divergence, variation)))


def _off_diagonal_mean(matrix):
    return float(matrix.sum() / (len(matrix) * (len(matrix) - 1)))
