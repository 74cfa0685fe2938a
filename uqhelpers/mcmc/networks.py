"""Below ``mcmc``: the posterior of a small network, drawn."""

import dataclasses
import inspect

import numpy as np
from scipy.special import softmax

from uqhelpers._checks import as_choice, as_labels, as_number, as_real, as_whole
from uqhelpers.batches import gather, join
from uqhelpers.mcmc.diagnostics import effective_sample_size, r_hat
from uqhelpers.mcmc.sampler import jax_part, sample
from uqhelpers.metrics import RegressionPrediction, SampleAccumulator

ACTIVATIONS = ("tanh", "relu")
SCALINGS = ("unit", "fan-in")
LIKELIHOODS = ("categorical", "gaussian")


@dataclasses.dataclass(frozen=True, eq=False)
class _NetworkPosterior:
    """What both kinds share: drawn weights, and what they put out."""

    chains: object
    plan: object

    @property
    def weights(self):
        """All draws, whitened (standard normal under the prior), shape (S, D)."""
        return self.chains.flat

    def sample_outputs(self, inputs):
        """Outputs of every drawn network: logits, or values of the function.

        Parameters
        ----------
        inputs : array, shape (N, D), or iterable of batches
            Inputs, or a ``DataLoader`` that gives them in order.

        Returns
        -------
        array, shape (S, N, K), float64
            Chain after chain.

        Raises
        ------
        ValueError
            If the inputs are empty, not finite or of another dimension.
        """
        inputs = _as_table(join(inputs), "inputs")
        if inputs.shape[1] != self.plan.sizes[0]:
            raise ValueError(f"inputs: expected {self.plan.sizes[0]} column(s), got shape {inputs.shape}")
        networks = jax_part("jax_networks")
        found = networks.outputs_of_all(self.weights, inputs.astype(self.weights.dtype), self.plan)
        return np.asarray(found, np.float64)

    def r_hat(self, inputs):
        """R̂ of what is predicted at each input: what a reader of predictions has to ask.

        Parameters are those of :meth:`sample_outputs`.

        Returns
        -------
        array, shape (N,)
            The largest over the classes or outputs.

        Raises
        ------
        ValueError
            As :meth:`sample_outputs`; also if there are too few draws.
        """
        return r_hat(self._by_chain(inputs)).max(axis=-1)

    def effective_sample_size(self, inputs, kind="bulk"):
        """Effective sample size of what is predicted at each input.

        Parameters
        ----------
        inputs : array, shape (N, D), or iterable of batches
        kind : {"bulk", "tail", "mean"}
            As for :func:`effective_sample_size`.

        Returns
        -------
        array, shape (N,)
            The smallest over the classes or outputs.

        Raises
        ------
        ValueError
            As :meth:`r_hat`.
        """
        return effective_sample_size(self._by_chain(inputs), kind).min(axis=-1)

    def _by_chain(self, inputs):
        values = self.sample(inputs)
        if values.ndim == 2:
            values = values[..., None]
        return values.reshape(*self.chains.draws.shape[:2], *values.shape[1:])


@dataclasses.dataclass(frozen=True, eq=False)
class ClassificationPosterior(_NetworkPosterior):
    """Drawn networks that put out class probabilities; from :func:`network_posterior`.

    Attributes
    ----------
    chains : Chains
        The draws: whitened weights.
    """

    r_hat = _NetworkPosterior.r_hat  # here, so that the API page shows them
    effective_sample_size = _NetworkPosterior.effective_sample_size
    sample_outputs = _NetworkPosterior.sample_outputs

    def sample(self, inputs):
        """Class probabilities of every drawn network.

        Parameters are those of :meth:`sample_outputs`.

        Returns
        -------
        array, shape (S, N, C), float64
        """
        return softmax(self.sample_outputs(inputs), axis=-1)

    def predict(self, inputs):
        """The posterior's prediction, with its uncertainties.

        Parameters are those of :meth:`sample_outputs`.

        Returns
        -------
        uqhelpers.metrics.SampledDecomposition
            Averaged probabilities with total, aleatoric and epistemic
            uncertainty in nats, for each input.
        """
        return SampleAccumulator().add(self.sample(inputs)).result()


@dataclasses.dataclass(frozen=True, eq=False)
class RegressionPosterior(_NetworkPosterior):
    """Drawn networks that put out numbers; from :func:`network_posterior`.

    Attributes
    ----------
    chains : Chains
        The draws: whitened weights.
    noise : float
        Standard deviation of the observation noise.
    """

    noise: float

    r_hat = _NetworkPosterior.r_hat
    effective_sample_size = _NetworkPosterior.effective_sample_size
    sample_outputs = _NetworkPosterior.sample_outputs

    def sample(self, inputs):
        """The function of every drawn network, without noise.

        Parameters are those of :meth:`sample_outputs`.

        Returns
        -------
        array, shape (S, N) or (S, N, K), float64
            In the units of the targets, and of their shape.
        """
        values = self.sample_outputs(inputs)
        return values[..., 0] if self.plan.sizes[-1] == 1 else values

    def predict(self, inputs):
        """Mean and standard deviations of the prediction.

        Parameters are those of :meth:`sample_outputs`.

        Returns
        -------
        RegressionPrediction
            With the standard deviation of the function, and that of a new
            observation.
        """
        values = self.sample(inputs)
        if len(values) < 2:
            raise ValueError("draws: expected at least two drawn networks, of which there is a spread, got 1")
        spread = values.std(axis=0, ddof=1)
        return RegressionPrediction(values.mean(axis=0), spread, np.sqrt(spread**2 + self.noise**2))


def network_posterior(
    inputs,
    targets=None,
    hidden=(16, 16),
    likelihood="categorical",
    *,
    noise=None,
    classes=None,
    activation="tanh",
    prior_std=1.0,
    scaling="unit",
    temperature=1.0,
    chains=4,
    draws=800,
    warmup=400,
    trajectory=None,
    target=0.85,
    seed=0,
    **settings,
):
    """Draw small networks from their posterior, given data and a Gaussian prior on the weights.

    All weights and biases are independent normals before the data are seen.
    The chains start at separate draws from that prior. What they cost grows
    with the data and the weights, and faster with how narrow the posterior is:
    hundreds of examples and some hundred weights take seconds, a network for
    images would take days.

    Parameters
    ----------
    inputs : array, shape (N, D), or iterable of batches
        Inputs as they are: bring them to about unit scale first, for the prior
        does not know their units. Or a ``DataLoader`` of pairs.
    targets : array
        Classes, shape (N,), or numbers, shape (N,) or (N, K). A loader brings
        its own.
    hidden : sequence of int
        Widths of the hidden layers.
    likelihood : {"categorical", "gaussian"}
        Of classes, or of numbers with noise of a known size.
    noise : float, optional
        Standard deviation of the noise: needed for "gaussian", and only there.
    classes : int, optional
        How many there are, for "categorical" alone; one more than the largest
        label unless told.
    activation : {"tanh", "relu"}
    prior_std : float
        Standard deviation of the prior.
    scaling : {"unit", "fan-in"}
        Whether the weights' standard deviation is ``prior_std`` itself, or
        divided by the root of the number of units below. Biases have
        ``prior_std``.
    temperature : float
        The density drawn from is the posterior to the power of one over this:
        below 1 a "cold" posterior.
    chains, draws, warmup : int
        As for :func:`sample`.
    trajectory : float, optional
        As for :func:`sample`; by default 1.2 for classes and 0.8 for numbers,
        times the root of the temperature where it is below 1.
    target, seed
        As for :func:`sample`.
    settings : keyword arguments
        Further arguments of :func:`sample`; the mass is that of the prior
        unless told.

    Returns
    -------
    ClassificationPosterior or RegressionPosterior

    Raises
    ------
    ValueError
        If labels and inputs do not fit.

    References
    ----------
    Neal (1996), Bayesian learning for neural networks. Izmailov et al. (2021),
    What are Bayesian neural network posteriors really like?
    """
    as_choice(likelihood, "likelihood", LIKELIHOODS)
    inputs, targets = gather(inputs, targets)
    inputs = _as_table(inputs, "inputs")
    if targets is None:
        raise ValueError("targets: expected one an input, got None")
    if likelihood == "categorical":
        if noise is not None:
            raise ValueError(f'noise: has no meaning for the likelihood "categorical", got {noise!r}')
        targets = _one_hot(targets, classes, len(inputs))
    else:
        if noise is None:
            raise ValueError('noise: expected the standard deviation of the noise for "gaussian", got None')
        noise = as_number(noise, "noise", low=0, open_low=True)
        if classes is not None:
            raise ValueError(f'classes: has no meaning for the likelihood "gaussian", got {classes!r}')
        targets = _as_table(targets, "targets")
        if len(targets) != len(inputs):
            raise ValueError(f"targets: expected {len(inputs)}, one an input, got {len(targets)}")
    plan = _plan(
        inputs.shape[1], targets.shape[1], hidden, likelihood, activation, prior_std, scaling
    )  # fmt: skip
    temperature = as_number(temperature, "temperature", low=0, open_low=True)
    if trajectory is None:
        trajectory = (1.2 if likelihood == "categorical" else 0.8) * min(1.0, temperature**0.5)
    _known(settings)
    networks = jax_part("jax_networks")
    chains, seed = as_whole(chains, "chains"), as_whole(seed, "seed", low=0, high=2**32 - 1)
    start = np.random.default_rng([seed, 17]).standard_normal((chains, networks.count(plan)))
    told = [
        np.asarray(value, np.float32)
        for value in (inputs, targets, 1.0 if noise is None else noise, temperature)
    ]
    drawn = sample(
        networks.density(plan), start, draws, warmup, trajectory=trajectory, target=target, seed=seed,
        arguments=tuple(told), **{"mass": "unit"} | settings,
    )  # fmt: skip
    if likelihood == "categorical":
        return ClassificationPosterior(drawn, plan)
    return RegressionPosterior(drawn, plan, noise)


def network_prior(
    inputs,
    outputs=2,
    hidden=(16, 16),
    likelihood="categorical",
    *,
    activation="tanh",
    prior_std=1.0,
    scaling="unit",
    samples=200,
    seed=0,
):
    """What networks drawn from the prior put out: look at it before any data.

    Parameters
    ----------
    inputs : array, shape (N, D), or iterable of batches
    outputs : int
        Classes, or numbers.
    hidden, likelihood, activation, prior_std, scaling
        As for :func:`network_posterior`.
    samples : int
        How many networks, ``S``.
    seed : int
        The same seed gives the same networks.

    Returns
    -------
    array, shape (S, N, C), (S, N) or (S, N, K), float64
        Class probabilities, or values of the function.
    """
    as_choice(likelihood, "likelihood", LIKELIHOODS)
    inputs, outputs = _as_table(join(inputs), "inputs"), as_whole(outputs, "outputs")
    samples, seed = as_whole(samples, "samples"), as_whole(seed, "seed", low=0)
    plan = _plan(inputs.shape[1], outputs, hidden, likelihood, activation, prior_std, scaling)
    networks = jax_part("jax_networks")
    weights = np.random.default_rng(seed).standard_normal((samples, networks.count(plan)))
    found = networks.outputs_of_all(weights.astype(np.float32), inputs.astype(np.float32), plan)
    found = np.asarray(found, np.float64)
    if likelihood == "categorical":
        return softmax(found, axis=-1)
    return found[..., 0] if outputs == 1 else found


def _plan(inputs, outputs, hidden, likelihood, activation, prior_std, scaling):
    as_choice(activation, "activation", ACTIVATIONS)
    as_choice(scaling, "scaling", SCALINGS)
    prior_std = as_number(prior_std, "prior_std", low=0, open_low=True)
    try:
        widths = tuple(as_whole(width, "hidden") for width in hidden)
    except TypeError as error:
        raise ValueError(f"hidden: expected a sequence of widths, got {hidden!r}") from error
    networks = jax_part("jax_networks")
    return networks.plan_for((inputs, *widths, outputs), activation, prior_std, scaling, likelihood)


def _as_table(values, name):
    """Numbers of shape (N, K); a vector becomes a column."""
    values = as_real(values, name)
    largest = np.finfo(np.float32).max  # JAX computes in single precision
    if np.abs(values).max() > largest:
        raise ValueError(
            f"{name}: expected numbers that single precision holds, up to {largest:.4g}, got "
            f"{np.abs(values).max():.4g}"
        )
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"{name}: expected shape (examples, columns), got {values.shape}")
    return values


def _one_hot(labels, classes, length):
    most = 2**31 - 1 if classes is None else as_whole(classes, "classes", low=2)
    labels = as_labels(labels, most, name="targets", length=length)
    classes = max(2, int(labels.max()) + 1) if classes is None else most
    return np.eye(classes)[labels]


def _known(settings):
    allowed = set(inspect.signature(sample).parameters) - {"log_density", "start", "arguments", "keep"}
    for name in settings:
        if name not in allowed:
            raise ValueError(f"{name}: expected an argument of `sample`, got another name")
