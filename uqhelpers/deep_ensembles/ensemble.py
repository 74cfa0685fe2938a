"""What both kinds of small networks share: settings, training, lines between members."""

import contextlib
import dataclasses
import importlib
import time

import numpy as np

from uqhelpers._checks import as_choice, as_labels, as_number, as_real, as_whole
from uqhelpers._jax import need_jax
from uqhelpers.batches import join
from uqhelpers.deep_ensembles.paths import as_positions
from uqhelpers.features import power_of_two

ACTIVATIONS = ("relu", "tanh", "gelu")
PENALTIES = ("squared", "norm")
SCHEDULES = ("constant", "cosine")
ADVERSARIAL = (None, "gradient_sign", "virtual")


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

    def __repr__(self):
        first, last = self.loss[:, 0].mean(), self.loss[:, -1].mean()
        return (
            f"EnsembleHistory({len(self.loss)} members, {self.loss.shape[1]} epochs in {self.seconds:.1f} s: "
            f"mean loss {first:.4g} to {last:.4g})"
        )


class _Ensemble:
    """What both kinds of ensemble share: settings, training, and lines between members."""

    _likelihoods = ()  # the names that a kind takes

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
        self.hidden = _as_widths(hidden)
        self.members = as_whole(members, "members")
        self.likelihood = as_choice(likelihood, "likelihood", self._likelihoods)
        self.epochs = as_whole(epochs, "epochs")
        self.batch_size = None if batch_size is None else as_whole(batch_size, "batch_size")
        self.learning_rate = as_number(learning_rate, "learning_rate", low=0, open_low=True)
        self.schedule = as_choice(schedule, "schedule", SCHEDULES)
        self.activation = as_choice(activation, "activation", ACTIVATIONS)
        self.init = _as_init(init, self.members)
        self.weight_decay = as_number(weight_decay, "weight_decay", low=0)
        self.penalty = penalty if callable(penalty) else as_choice(penalty, "penalty", PENALTIES)
        self.adversarial = as_choice(adversarial, "adversarial", ADVERSARIAL)
        self.epsilon = as_real(epsilon, "epsilon").copy()
        if self.epsilon.ndim > 1 or self.epsilon.min() < 0:
            raise ValueError(
                f"epsilon: expected a number or one an input dimension, at least 0, got {epsilon!r}"
            )
        if self.adversarial is None and self.epsilon.any():
            raise ValueError(
                f"epsilon: expected 0 without an attack, got {epsilon!r}: name one with adversarial="
            )
        self.bootstrap = as_choice(bootstrap, "bootstrap", (False, True))
        self.standardise = as_choice(standardise, "standardise", (False, True))
        self.seed = as_whole(seed, "seed", low=0, high=2**32 - 1)
        self.history = None
        self._networks = None

    @contextlib.contextmanager
    def _as_it_was_on_failure(self):
        before = dict(self.__dict__)  # what a fit learns is new; nothing in here changes
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _train(self, inputs, targets, outputs):
        """Train on arrays that were checked and standardised."""
        ground = jax_part()
        if self.epsilon.ndim and self.epsilon.size != inputs.shape[1]:
            raise ValueError(
                f"epsilon: expected one number or {inputs.shape[1]}, one an input dimension, "
                f"got {self.epsilon.size}"
            )
        if self.batch_size is not None and self.batch_size > len(inputs):
            raise ValueError(f"batch_size: expected at most {len(inputs)} inputs, got {self.batch_size}")
        started = time.perf_counter()
        generators, bits = ground.streams(self.seed, self.members)
        networks = ground.initialise(generators, (inputs.shape[1], *self.hidden, outputs), self.init)
        resample = order = None
        if self.bootstrap:
            resample = ground.resamples(generators, len(inputs))
        if self.batch_size is not None:
            order = ground.orders(generators, len(inputs), self.epochs, self.batch_size)
        plan = ground.Plan(
            self.likelihood,
            self.activation,
            self.penalty,
            self.adversarial,
            self.schedule,
            self.weight_decay > 0,
        )
        epsilon = (self.epsilon / self._input_std).astype(np.float32)
        numbers = ground.Numbers(self.learning_rate, self.weight_decay, epsilon)
        networks, told = ground.train(
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
        networks = [tuple(np.asarray(leaf) for leaf in pair) for pair in networks]
        loss, data_loss, accuracy = (np.asarray(one, np.float64) for one in told)
        leaves = [leaf.reshape(self.members, -1) for pair in networks for leaf in pair]
        finite = np.isfinite(loss).all(axis=1) & np.isfinite(np.concatenate(leaves, axis=1)).all(axis=1)
        if not finite.all():
            lost = ", ".join(map(str, np.flatnonzero(~finite)))
            raise ValueError(f"learning_rate: training diverged for member(s) {lost}; try a smaller rate")
        self._networks = networks
        self.history = EnsembleHistory(
            loss,
            self._in_target_units(data_loss),
            accuracy if self.likelihood == "categorical" else None,
            time.perf_counter() - started,
        )
        return self

    def _outputs(self, inputs, chunk=8192):
        """What the networks put out, float64, shape (M, N, K)."""
        self._fitted()
        inputs = as_real(join(inputs), "inputs", ndim=2)
        dimensions = len(self._input_mean)
        if inputs.shape[1] != dimensions:
            raise ValueError(f"inputs: expected shape (inputs, {dimensions}), got {inputs.shape}")
        inputs = self._standardised(inputs)
        parts = []
        for start in range(0, len(inputs), chunk):
            part = inputs[start : start + chunk]
            outputs = jax_part().outputs_of_members(self._networks, part, self.activation)
            parts.append(np.asarray(outputs, np.float64))
        return np.concatenate(parts, axis=1)

    def _learn_inputs(self, inputs):
        inputs = as_real(inputs, "inputs", ndim=2)
        self._input_mean, self._input_std = np.zeros(inputs.shape[1]), np.ones(inputs.shape[1])
        if self.standardise:
            self._input_mean, self._input_std = centre_and_scale(inputs)
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


def jax_part():
    need_jax("ensembles of small networks are trained")
    return importlib.import_module("uqhelpers.deep_ensembles.jax_ground")


def centre_and_scale(table):
    """Mean and standard deviation of each column, and 1 where only rounding makes it vary."""
    unit = power_of_two(np.abs(table).max(axis=0))  # squares of what is left stay inside float64
    scaled = table / unit
    mean, std = scaled.mean(axis=0), scaled.std(axis=0)
    return mean * unit, np.where(std > 1e-13 * np.abs(scaled).max(axis=0), std * unit, 1.0)


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
