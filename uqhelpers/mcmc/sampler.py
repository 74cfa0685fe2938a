"""Below ``mcmc``: chains that draw from a density, resumed where they stopped."""

import dataclasses
import importlib
import io
import json
import os
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np

from uqhelpers._checks import as_choice, as_number, as_real, as_whole
from uqhelpers._jax import need_jax
from uqhelpers._progress import bar

MASSES = ("diagonal", "unit")
BLOCK = 100  # kept draws between two looks at the bar and two writings of the file
DIVERGENT = 1000.0


@dataclasses.dataclass(frozen=True, eq=False)
class Chains:
    """What chains have drawn, and how they went.

    Attributes
    ----------
    draws : array, shape (M, T, ...)
        What was kept of ``T`` draws of each of ``M`` chains: positions, or
        whatever ``keep`` made of them.
    log_density : array, shape (M, T')
        At every position, the ones that were not kept (``thin``) too.
    acceptance : array, shape (M, T')
        Probability with which each trajectory was accepted.
    energy_error : array, shape (M, T')
        How much the energy changed along each trajectory; infinite where the
        density was lost.
    steps : array, shape (T',)
        Leapfrog steps of each trajectory, the same for all chains.
    step_size : float
    inverse_mass : array, shape (D,)
    gradients : int
        Evaluations of the gradient by each chain along its trajectories,
        those of the warm-up among them.
    warmup_seconds, seconds : float
        Wall-clock time of the warm-up (compilation included) and of what is
        kept.
    """

    draws: np.ndarray
    log_density: np.ndarray
    acceptance: np.ndarray
    energy_error: np.ndarray
    steps: np.ndarray
    step_size: float
    inverse_mass: np.ndarray
    gradients: int
    warmup_seconds: float
    seconds: float

    @property
    def flat(self):
        """All draws of all chains after each other, shape (M · T, ...)."""
        return self.draws.reshape(-1, *self.draws.shape[2:])

    def __repr__(self):
        chains, kept = self.draws.shape[:2]
        return (
            f"Chains({chains} × {kept} draws of shape {self.draws.shape[2:]}, "
            f"step size {self.step_size:.3g}, "
            f"acceptance {self.acceptance.mean():.2f}, {int(divergences(self).sum())} divergences)"
        )


def divergences(chains):
    """How many trajectories of each chain lost the energy altogether.

    A trajectory diverges where its energy has grown by more than 1000, which
    no acceptance could hide: the step was too large for the place. Where that
    happens, draws are missing.

    Parameters
    ----------
    chains : Chains
        From :func:`sample`.

    Returns
    -------
    array of int, shape (M,)
        Among the trajectories after the warm-up.

    Raises
    ------
    ValueError
        If it is something else.

    References
    ----------
    Betancourt (2017), A conceptual introduction to Hamiltonian Monte Carlo,
    section 6.2.
    """
    if not isinstance(chains, Chains):
        raise ValueError(f"chains: expected what `sample` returns, got {type(chains).__name__}")
    return (chains.energy_error > DIVERGENT).sum(axis=1)


def sample(
    log_density,
    start,
    draws=1000,
    warmup=500,
    *,
    step_size=None,
    trajectory=1.5,
    jitter=0.5,
    target=0.8,
    mass="diagonal",
    longest=1000,
    keep=None,
    thin=1,
    arguments=(),
    seed=0,
    checkpoint=None,
    progress=True,
):
    """Draw from a density by Hamiltonian Monte Carlo, all chains at once.

    Each draw follows the motion of a particle in the landscape of
    ``-log_density`` from a random momentum, in leapfrog steps, for a random
    time around ``trajectory``, and is accepted or not by how well the energy
    was kept. During the warm-up the step size is found by dual averaging and
    the mass from the variance of the chains; then both stay as they are: the
    law of a sampler that still adapts need not be the density's.

    Step size, mass and number of steps are common to all chains: they run in
    one ``vmap``. All steps run in ``scan``, a hundred kept draws at a time.

    Parameters
    ----------
    log_density : callable
        From a position, shape (D,), to the logarithm of a density there, up to
        a constant; written with JAX.
    start : array, shape (M, D)
        Where each chain begins. Starts that lie far apart, farther than the
        distribution is wide, are what lets :func:`r_hat` see anything.
    draws : int
        Draws that are kept, of each chain.
    warmup : int
        Steps before them, which are thrown away.
    step_size : float, optional
        A step size that stays as it is; by default the warm-up finds one. With
        one given nothing is adapted, and every mass is 1.
    trajectory : float
        Mean length in time of a trajectory, in units of ``sqrt(mass)``; π/2 is
        a quarter of an oscillation, if the mass fits.
    jitter : float
        In [0, 1): lengths are uniform within this share around the mean. With
        0, a trajectory may return to where it began, and the chain stands.
    target : float
        In (0, 1): the mean acceptance that the warm-up aims at.
    mass : {"diagonal", "unit"}
        Whether each dimension gets a mass of its own in the warm-up. One that is
        too short for it warns, and leaves every mass at 1.
    longest : int
        Most leapfrog steps of a trajectory; more are cut off, with a warning.
    keep : callable, optional
        From a position to what is kept of it, written with JAX: predictions
        instead of weights, say. Only that is held in memory.
    thin : int
        Of so many draws one is kept.
    arguments : tuple of arrays
        Handed to ``log_density`` after the position. What changes from call to
        call belongs here: the same function is compiled once.
    seed : int
        The same seed gives the same draws.
    checkpoint : path, optional
        A file in which the state is kept after every hundred draws. A call
        with the same arguments goes on from it; one with others is refused,
        also where only ``log_density`` or ``keep`` computes something else
        (in JAX: what a callback does is not seen).
    progress : bool
        Whether a bar appears when it takes longer than two seconds.

    Returns
    -------
    Chains
        Draws in the precision in which JAX computes (float32 unless its own
        setting says otherwise).

    Raises
    ------
    ValueError
        If the density or its slope is not finite at a start, or the checkpoint
        is of another run.

    References
    ----------
    Neal (2011), MCMC using Hamiltonian dynamics. Hoffman and Gelman (2014),
    The No-U-Turn sampler, section 3.2 (step size).

    Examples
    --------
    >>> chains = mcmc.sample(lambda x: -0.5 * (x**2).sum(), start=np.zeros((4, 10)))
    >>> mcmc.r_hat(chains.draws).max()
    """
    settings = {
        "trajectory": as_number(trajectory, "trajectory", low=0, open_low=True),
        "jitter": as_number(jitter, "jitter", low=0, high=1),
        "target": as_number(target, "target", low=0, high=1, open_low=True),
        "longest": as_whole(longest, "longest"),
    }
    for name in ("jitter", "target"):
        if settings[name] == 1:
            raise ValueError(f"{name}: expected a number below 1, got 1")
    draws, warmup = as_whole(draws, "draws"), as_whole(warmup, "warmup", low=0)
    thin, seed = as_whole(thin, "thin"), as_whole(seed, "seed", low=0, high=2**32 - 1)
    as_choice(mass, "mass", MASSES)
    if step_size is not None:
        step_size = as_number(step_size, "step_size", low=0, open_low=True)
    elif warmup == 0:
        raise ValueError("warmup: expected at least one step to find a step size in, got 0")
    for name, given in (("log_density", log_density), ("keep", keep)):
        if not callable(given) and not (name == "keep" and given is None):
            raise ValueError(f"{name}: expected a function of a position, got {type(given).__name__}")
    run = _Run(log_density, tuple(arguments), keep, thin, settings, seed)
    run.begin(as_real(start, "start", ndim=2), warmup, step_size, mass, checkpoint, draws)
    return run.finish(draws, progress)


class _Run:
    """One call of ``sample``: what is compiled, and what has been drawn."""

    def __init__(self, log_density, arguments, keep, thin, settings, seed):
        self.kernels = jax_part("kernels")
        self.jax = importlib.import_module("jax")
        self.log_density, self.arguments, self.thin = log_density, arguments, thin
        self.keep = keep or self.kernels.whole
        self.settings, self.seed = settings, seed
        key = self.jax.random.key(seed)
        self.warm_key, self.key, self.step_key = self.jax.random.split(key, 3)

    def begin(self, start, warmup, step_size, mass, checkpoint, draws):
        """From the checkpoint, or through the warm-up."""
        began = time.perf_counter()
        start = self.jax.numpy.asarray(start)
        told = self.jax.eval_shape(self.log_density, start[0], *self.arguments)
        if getattr(told, "shape", None) != ():
            raise ValueError(
                f"log_density: expected a number at each position, got {getattr(told, 'shape', told)}"
            )
        self.state = self.kernels.start(self.log_density, self.arguments, start)
        fine = np.isfinite(self.state.value) & np.isfinite(self.state.slope).all(axis=1)
        if not fine.all():
            raise ValueError(
                f"start: expected a finite log density and slope, got another at chain {int(fine.argmin())}"
            )
        self.path = None if checkpoint is None else Path(checkpoint)
        if self.path is not None:
            told = {"warmup": warmup, "step_size": step_size, "mass": mass, "draws": draws}
            self.call = self._call(start) | {name: repr(value) for name, value in told.items()}
        self.parts, self.gradients, self.seconds = [], 0, 0.0
        if self.path is not None and self.path.exists():
            self._resume()
            return
        self.step, self.inverse_mass = self._warmed(warmup, step_size, mass)
        self.warmup_seconds = time.perf_counter() - began

    def _call(self, start):
        """What decides about the draws, by the names of the arguments."""
        identity = jax_part("identity")
        told = self.settings | {"thin": self.thin, "seed": self.seed}
        return {
            "version of JAX": self.jax.__version__,
            "log_density": identity.of_function(self.log_density, start[0], *self.arguments),
            "keep": identity.of_function(self.keep, start[0]),
            "arguments": identity.of_arrays(self.arguments),
            "start": identity.of_arrays(start),
        } | {name: repr(value) for name, value in told.items()}

    def _warmed(self, warmup, step_size, mass):
        numpy, position = self.jax.numpy, self.state.position
        inverse_mass = numpy.ones(position.shape[1:], position.dtype)
        held = np.finfo(position.dtype)
        if step_size is not None and not float(held.tiny) <= step_size <= float(held.max):
            raise ValueError(
                f"step_size: expected a number that {position.dtype} tells from 0 and infinity, "
                f"got {step_size}"
            )
        if step_size is not None:
            if warmup:
                self._advance_quietly(warmup, numpy.asarray(step_size, position.dtype), inverse_mass)
            return numpy.asarray(step_size, position.dtype), inverse_mass
        adaptation = jax_part("adaptation")
        step = self.kernels.first_step(self.log_density, self.arguments, self.state, self.step_key)
        schedule = adaptation.schedule(warmup, mass == "diagonal")
        if mass == "diagonal" and not schedule[2].any():
            warnings.warn(
                f"warmup: {warmup} steps are too few to find a mass in, so that every mass is 1: take at "
                f"least {adaptation.SHORTEST}",
                RuntimeWarning,
                stacklevel=4,
            )
        tuning = self.kernels.tuning_for(step, inverse_mass)
        self.state, tuning, told = self.kernels.warm_up(
            self.log_density, self.arguments, self.state, tuning, self.warm_key, schedule, self.settings
        )
        self.gradients += int(told.steps.sum())
        return adaptation.dual_result(tuning.dual), tuning.inverse_mass

    def _advance_quietly(self, steps, step, inverse_mass):
        self.state, _, told = self.kernels.draw(
            self.log_density, self.arguments, self.state, step, inverse_mass, self.warm_key,
            np.arange(steps), self.settings, keep=_nothing, thin=1,
        )  # fmt: skip
        self.gradients += int(told.steps.sum())

    def finish(self, draws, progress):
        """All draws that are still missing, a block at a time."""
        blocks = -(-draws // BLOCK)
        size = -(-draws // blocks)  # blocks of one size are compiled once; the last may be cut
        for block in bar(range(len(self.parts), blocks), progress, desc="sampling", unit="block"):
            began = time.perf_counter()
            numbers = np.arange(block * size, (block + 1) * size)
            self.state, kept, told = self.kernels.draw(
                self.log_density, self.arguments, self.state, self.step, self.inverse_mass, self.key,
                numbers, self.settings, keep=self.keep, thin=self.thin,
            )  # fmt: skip
            if not hasattr(kept, "shape"):
                raise ValueError(f"keep: expected a function that gives one array, got {type(kept).__name__}")
            told = {name: np.asarray(value) for name, value in told._asdict().items()}
            self.parts.append({"kept": np.asarray(kept), **told})
            self.gradients += int(told["steps"].sum())
            self.seconds += time.perf_counter() - began
            if self.path is not None:
                self._store()
        return self._chains(draws)

    def _warn_if_cut(self):
        """Whether the bound on leapfrog steps was what ended trajectories, and how many."""
        length, step, longest = self.settings["trajectory"], float(self.step), self.settings["longest"]
        asked = np.ceil((1 + self.settings["jitter"]) * length / step)
        cut = np.mean(np.concatenate([part["steps"] for part in self.parts]) == longest)
        if asked > longest and cut > 0:
            warnings.warn(
                f"longest: {cut:.0%} of the trajectories ended at {longest} leapfrog steps, where a "
                f"trajectory of {length:g} asks for up to {asked:.0f} of {step:.3g}: draws move too little",
                RuntimeWarning,
                stacklevel=5,
            )

    def _chains(self, draws):
        self._warn_if_cut()

        def joined(name, axis, length):
            whole = np.concatenate([part[name] for part in self.parts], axis=axis)
            return whole[:, :length] if axis else whole[:length]

        told = {
            name: joined(name, 0, draws * self.thin)
            for name in ("value", "acceptance", "energy_error", "steps")
        }
        return Chains(
            joined("kept", 1, draws),
            told["value"].T,
            told["acceptance"].T,
            told["energy_error"].T,
            told["steps"],
            float(self.step),
            np.asarray(self.inverse_mass),
            self.gradients,
            self.warmup_seconds,
            self.seconds,
        )

    def _store(self):
        """Everything so far, written beside its place and then moved there."""
        buffer = io.BytesIO()
        parts = {f"{i}/{name}": value for i, part in enumerate(self.parts) for name, value in part.items()}
        state = {f"state/{name}": np.asarray(value) for name, value in self.state._asdict().items()}
        tuned = {"step": np.asarray(self.step), "inverse_mass": np.asarray(self.inverse_mass)}
        numbers = np.array([self.gradients, self.warmup_seconds, self.seconds])
        np.savez(buffer, call=json.dumps(self.call), numbers=numbers, **parts, **state, **tuned)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(self.path.name + ".part")
        part.write_bytes(buffer.getvalue())
        os.replace(part, self.path)

    def _resume(self):
        try:
            with self.path.open("rb") as opened, np.load(opened) as file:
                held = {name: file[name] for name in file.files}
            call = dict(json.loads(str(held["call"])))
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise ValueError(f"checkpoint: expected a file that `sample` wrote, got {self.path}") from error
        others = [name for name, value in self.call.items() if call.get(name) != value]
        if others:
            raise ValueError(
                f"checkpoint: expected one of the same call, got that of another {others[0]} in {self.path}"
            )
        numpy = self.jax.numpy
        self.state = self.kernels.State(
            *(numpy.asarray(held[f"state/{field}"]) for field in self.kernels.State._fields)
        )
        self.step, self.inverse_mass = numpy.asarray(held["step"]), numpy.asarray(held["inverse_mass"])
        self.gradients = int(held["numbers"][0])
        self.warmup_seconds, self.seconds = (float(value) for value in held["numbers"][1:])
        fields = ("kept", *self.kernels.Told._fields)
        while f"{len(self.parts)}/kept" in held:
            self.parts.append({field: held[f"{len(self.parts)}/{field}"] for field in fields})


def _nothing(position):
    return position[:0]


def jax_part(name):
    """A module of this folder that needs JAX, imported when the first function needs it."""
    need_jax("chains run")
    return importlib.import_module(f"uqhelpers.mcmc.{name}")
