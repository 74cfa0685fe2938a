"""Markov chains: what they draw, whether one may believe it, and the posteriors of small networks."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.peers import chains as asked

jax = pytest.importorskip("jax")
jnp = jax.numpy

from uqhelpers import data, logistic, mcmc  # noqa: E402
from uqhelpers.bayesian_linear_regression import BayesianLinearRegression  # noqa: E402
from uqhelpers.mcmc import adaptation, identity, kernels  # noqa: E402

QUIET = {"progress": False}
FAR = 5  # standard errors: a false alarm in two million


def normal(x, std):
    return -0.5 * ((x / std) ** 2).sum()


def starts(dimensions, chains=4, width=3.0, seed=0):
    return width * np.random.default_rng(seed).standard_normal((chains, dimensions))


def within(draws, truth, slack=0.0):
    """Whether means over all draws meet the truth, in standard errors; rare events need some slack."""
    return (np.abs(draws.mean(axis=(0, 1)) - truth) < FAR * mcmc.monte_carlo_error(draws) + slack).all()


# --- what is drawn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 10, 100])
def test_gaussians_have_their_means_variances_and_quantiles(dimensions):
    std = np.linspace(0.1, 3, dimensions) if dimensions > 1 else np.array([2.0])
    chains = mcmc.sample(normal, starts(dimensions), arguments=(jnp.asarray(std),), **QUIET)
    draws = chains.draws.astype(float)
    assert within(draws, 0)
    assert within(draws**2, std**2)
    for level in (0.05, 0.5, 0.95):
        assert within((draws <= std * stats.norm.ppf(level)).astype(float), level)
    assert mcmc.r_hat(draws).max() < 1.02


def banana(x):
    return -0.5 * x[0] ** 2 - 0.5 * ((x[1] - x[0] ** 2) / 0.5) ** 2


def test_a_banana_has_the_moments_and_quantiles_that_its_recipe_gives():
    chains = mcmc.sample(banana, starts(2), draws=3000, trajectory=3.0, target=0.9, **QUIET)
    draws = chains.draws.astype(float)
    assert within(draws[..., 0], 0)
    assert within(draws[..., 0] ** 2, 1)
    assert within(draws[..., 1], 1)
    assert within((draws[..., 1] - 1) ** 2, 2 + 0.5**2)
    rng = np.random.default_rng(0)
    recipe = rng.standard_normal(10**6) ** 2 + 0.5 * rng.standard_normal(10**6)
    for level in (0.1, 0.5, 0.9):
        assert within((draws[..., 1] <= np.quantile(recipe, level)).astype(float), level)


def funnel(x):
    return -0.5 * (x[0] / 3) ** 2 - 0.5 * (x[1:] ** 2).sum() * jnp.exp(-x[0]) - 0.5 * len(x[1:]) * x[0]


def opened(z):
    """The funnel from independent standard normals."""
    return jnp.concatenate([3 * z[:1], jnp.exp(1.5 * z[0]) * z[1:]])


def test_a_funnel_is_right_in_coordinates_of_its_own():
    flat = mcmc.sample(normal, starts(10, width=1), draws=2000, arguments=(1.0,), keep=opened, **QUIET)
    height, width = flat.draws[..., 0].astype(float), flat.draws[..., 1].astype(float)
    assert within(height, 0)
    assert within(height**2, 9)
    exact = np.random.default_rng(1).standard_normal((2, 10**6))
    exact = np.exp(1.5 * exact[0]) * exact[1]
    for level in (0.1, 0.5, 0.9):
        assert within((width <= np.quantile(exact, level)).astype(float), level)


def test_in_the_usual_coordinates_it_diverges_and_its_neck_is_missing():
    chains = mcmc.sample(funnel, starts(10, width=1), draws=1000, seed=1, **QUIET)
    low = np.mean(chains.draws[..., 0] < -6)
    assert mcmc.divergences(chains).sum() > 0 or mcmc.r_hat(chains.draws[..., 0]) > 1.05
    assert low < 0.5 * stats.norm.cdf(-2)


def line_density(w, phi, y, beta):
    return -0.5 * beta * ((y - phi @ w) ** 2).sum() - 0.5 * (w**2).sum()


def test_bayesian_linear_regression_has_its_closed_form():
    x, y = data.line(12, seed=3)
    exact = BayesianLinearRegression(1.0, 1 / 0.3**2).fit(x, y)
    phi = np.concatenate([np.ones_like(x), x], axis=1)
    arguments = tuple(map(jnp.asarray, (phi, y[:, 0], 1 / 0.3**2)))
    draws = mcmc.sample(line_density, starts(2), 2000, arguments=arguments, **QUIET).draws.astype(float)
    precision = np.eye(2) + phi.T @ phi / 0.3**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ phi.T @ y[:, 0] / 0.3**2
    assert within(draws, mean)
    away = draws - mean
    assert within(away[..., :, None] * away[..., None, :], covariance)
    places = np.linspace(-4, 4, 9)[:, None]
    got = exact.predict(places)
    functions = draws @ np.concatenate([np.ones_like(places), places], axis=1).T
    assert within(functions, got.mean)
    assert within((functions - got.mean) ** 2, got.epistemic**2)


def test_a_network_without_hidden_layers_is_bayesian_linear_regression():
    x, y = data.line(12, seed=3)
    posterior = mcmc.network_posterior(
        x, y, (), "gaussian", noise=0.3, draws=2000, trajectory=1.5, mass="diagonal", **QUIET
    )
    exact = BayesianLinearRegression(1.0, 1 / 0.3**2).fit(x, y)
    places = np.linspace(-4, 4, 9)[:, None]
    got, want = posterior.predict(places), exact.predict(places)
    functions = posterior.sample(places).reshape(4, 2000, -1)
    assert within(functions, want.mean)
    assert within((functions - want.mean) ** 2, want.epistemic**2)
    np.testing.assert_allclose(got.total**2, got.epistemic**2 + 0.3**2)


def log_odds_density(w, x, labels, alpha):
    signs = 2 * labels - 1
    return jax.nn.log_sigmoid(signs * (x @ w)).sum() - 0.5 * alpha * (w**2).sum()


@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_logistic_regression_has_the_predictive_of_its_grid(alpha):
    x, labels = data.logistic(20, seed=3)
    exact = logistic.ExactLogisticPosterior(x, labels, alpha)
    places = np.random.default_rng(0).uniform(-5, 5, (30, 2))
    arguments = tuple(map(jnp.asarray, (x, labels, alpha)))
    chains = mcmc.sample(log_odds_density, starts(2), 2000, arguments=arguments, trajectory=2.0, **QUIET)
    probs = 1 / (1 + np.exp(-chains.draws.astype(float) @ places.T))
    assert within(probs, exact.predict(places)[:, 1], slack=2e-3)


def ranks(runs, density, thin=3, kept=19):
    """Ranks of parameters drawn from the prior among draws from what ``density`` makes of their data."""
    rng, found = np.random.default_rng(0), []
    for run in range(runs):
        truth, x = rng.standard_normal(2), rng.standard_normal((15, 2))
        labels = (rng.random(15) < 1 / (1 + np.exp(-x @ truth))).astype(float)
        chains = mcmc.sample(
            density, rng.standard_normal((1, 2)), kept, 100, trajectory=2.0, thin=thin, seed=run,
            arguments=(jnp.asarray(x), jnp.asarray(labels), jnp.asarray(1.0)), mass="unit", **QUIET,
        )  # fmt: skip
        found.append((chains.draws[0] < truth).sum(axis=0))
    return np.array(found)


def evenness(ranks, bins=10, possible=20):
    """The p-value of uniform ranks, for the less uniform of the parameters, both counted."""
    places = ranks * bins // possible
    counts = [np.bincount(column, minlength=bins) for column in places.T]
    return min(1.0, len(counts) * min(stats.chisquare(count).pvalue for count in counts))


def test_ranks_of_the_truth_are_uniform():
    assert evenness(ranks(300, log_odds_density)) > 1e-4


def test_and_would_not_be_for_a_posterior_at_another_temperature():
    def cold(w, x, labels, alpha):
        return 4 * log_odds_density(w, x, labels, alpha)

    assert evenness(ranks(300, cold)) < 1e-6


# --- the leapfrog -------------------------------------------------------------------------------------------


def flight(position, momentum, step=0.1, count=25):
    evaluate = kernels.evaluator(banana, ())
    slope = evaluate(position)[1]
    position, momentum, _, _ = kernels.leapfrog(evaluate, position, momentum, slope, step, jnp.ones(2), count)
    return position, momentum


def test_a_trajectory_with_its_momentum_turned_comes_back():
    with jax.enable_x64(True):
        place, push = jnp.array([[0.5, 1.0], [-1.0, 0.2]]), jnp.array([[1.0, -0.3], [0.2, 0.9]])
        there, ended = flight(place, push)
        back, turned = flight(there, -ended)
        np.testing.assert_allclose(back, place, atol=1e-10)
        np.testing.assert_allclose(-turned, push, atol=1e-10)
        assert np.abs(there - place).max() > 0.3


def test_it_keeps_the_volume():
    with jax.enable_x64(True):

        def whole(state):
            return jnp.concatenate([part[0] for part in flight(state[None, :2], state[None, 2:])])

        jacobian = jax.jacfwd(whole)(jnp.array([0.5, 1.0, 1.0, -0.3]))
        assert np.linalg.det(jacobian) == pytest.approx(1, abs=1e-9)
        assert np.abs(jacobian - np.eye(4)).max() > 0.5


def test_its_error_of_energy_falls_with_the_square_of_the_step():
    with jax.enable_x64(True):
        place, push = jnp.array([[0.5, 1.0]]), jnp.array([[1.0, -0.3]])

        def error(step):
            there, ended = flight(place, push, step, round(1 / step))
            return abs(float(0.5 * (ended**2 - push**2).sum() - banana(there[0]) + banana(place[0])))

        assert error(0.02) / error(0.01) == pytest.approx(4, rel=0.05)


# --- how it is drawn ----------------------------------------------------------------------------------------


def test_the_acceptance_is_what_was_asked_for():
    for target in (0.65, 0.9):
        chains = mcmc.sample(normal, starts(20), 1000, 1000, target=target, arguments=(1.0,), **QUIET)
        assert chains.acceptance.mean() == pytest.approx(target, abs=0.06)


def test_the_mass_is_the_inverse_of_the_variance():
    std = jnp.array([0.01, 1.0, 100.0])
    chains = mcmc.sample(normal, starts(3), 200, 1000, arguments=(std,), **QUIET)
    np.testing.assert_allclose(np.sqrt(chains.inverse_mass), std, rtol=0.25)


def test_chains_that_share_the_lengths_of_their_flights_are_independent():
    chains = mcmc.sample(normal, starts(1, chains=20, width=1), 2000, 200, arguments=(1.0,), **QUIET)
    x = chains.draws[..., 0].astype(float)
    for values in (x, x**2):
        worth = mcmc.effective_sample_size(values, "mean") / len(values)
        pairs = np.corrcoef(values)[np.triu_indices(len(values), 1)]
        assert abs(pairs.mean()) < FAR / np.sqrt(min(worth, 2000) * len(pairs))


def test_windows_double_and_the_ends_of_the_warm_up_stay_out():
    _, collects, closes = adaptation.schedule(500, True)
    assert not collects[:75].any()
    assert collects[75:450].all()
    assert not collects[450:].any()
    ends = np.flatnonzero(closes) + 1
    assert ends[-1] == 450
    widths = np.diff([75, *ends])
    assert (widths[1:-1] == 2 * widths[:-2]).all()
    assert not adaptation.schedule(500, False)[2].any()


def test_one_seed_repeats_and_another_differs():
    once, again, other = (
        mcmc.sample(normal, starts(2), 50, 50, arguments=(1.0,), seed=seed, **QUIET).draws
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


def test_what_is_kept_is_what_was_asked_for():
    every = mcmc.sample(normal, starts(3), 40, 50, arguments=(1.0,), **QUIET)
    third = mcmc.sample(normal, starts(3), 13, 50, arguments=(1.0,), thin=3, keep=lambda x: x[0], **QUIET)
    assert third.draws.shape == (4, 13)
    np.testing.assert_array_equal(third.draws, every.draws[:, 2:39:3, 0])
    assert third.acceptance.shape == (4, 39)
    assert third.flat.shape == (52,)


class Interrupted(Exception):
    pass


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch):
    call = {"arguments": (1.0,), "seed": 3, **QUIET}
    whole = mcmc.sample(normal, starts(2), 250, 50, **call)
    path, real, calls = tmp_path / "deeper" / "chain.npz", kernels.draw, []

    def breaks(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise Interrupted
        return real(*arguments, **options)

    monkeypatch.setattr(kernels, "draw", breaks)
    with pytest.raises(Interrupted):
        mcmc.sample(normal, starts(2), 250, 50, checkpoint=path, **call)
    resumed = mcmc.sample(normal, starts(2), 250, 50, checkpoint=path, **call)
    assert len(calls) == 4  # two blocks, the third that broke, and the third again
    for name in ("draws", "log_density", "energy_error", "steps", "inverse_mass"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    assert (resumed.gradients, resumed.step_size) == (whole.gradients, whole.step_size)
    assert not list(tmp_path.rglob("*.part"))


def steep(x, std):
    """As ``normal`` at 0, value and slope, and nowhere else."""
    return 100 * normal(x, std)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"trajectory": 2.0}, "trajectory"),
        ({"arguments": (2.0,)}, "arguments"),
        ({"start": np.ones((4, 2))}, "start"),
        ({"step_size": 0.4}, "step_size"),
        ({"thin": 2}, "thin"),
        ({"draws": 30}, "draws"),
        ({"keep": lambda x: 100 * x[0]}, "keep"),
        ({"keep": None}, "keep"),
        ({"log_density": steep}, "log_density"),
    ],
)
def test_a_checkpoint_of_another_call_is_refused(tmp_path, other, named):
    call = {"log_density": normal, "start": np.zeros((4, 2)), "draws": 20, "warmup": 10, "step_size": 0.5}
    call |= {"arguments": (1.0,), "keep": lambda x: x[0], "checkpoint": tmp_path / "chain.npz", **QUIET}
    mcmc.sample(**call)
    with pytest.raises(ValueError, match=f"expected one of the same call, got that of another {named} in"):
        mcmc.sample(**call | other)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "chain.npz"
    for content in (b"PK no archive", b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="checkpoint: expected a file that `sample` wrote"):
            mcmc.sample(normal, starts(2), 20, 20, arguments=(1.0,), checkpoint=path, **QUIET)
    np.savez(path, name="of another kind")
    with pytest.raises(ValueError, match="checkpoint: expected a file that `sample` wrote"):
        mcmc.sample(normal, starts(2), 20, 20, arguments=(1.0,), checkpoint=path, **QUIET)


def weighted(weights):
    """A density with numbers inside, and a derivative of its own: made anew by each call."""

    @jax.custom_jvp
    def square(x):
        return x**2

    square.defjvps(lambda tangent, _, x: 2 * x * tangent)
    return lambda x: -0.5 * jax.lax.fori_loop(0, 3, lambda _, total: total + weights @ square(x), 0.0)


def test_functions_are_told_apart_by_what_they_compute_and_not_by_where_they_lie():
    weights = np.linspace(1, 2, 2000, dtype=np.float32)  # too many to be printed
    place, again = np.zeros(2000, np.float32), weights.copy()
    first = identity.of_function(weighted(weights), place)
    assert identity.of_function(weighted(again), place) == first
    again[1000] += 0.5
    assert identity.of_function(weighted(again), place) != first
    inner = identity.of_function(jax.jit(weighted(weights)), place)
    assert identity.of_function(jax.jit(weighted(again)), place) != inner


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"log_density": 3}, "log_density: expected a function"),
        ({"log_density": lambda x: x}, "log_density: expected a number"),
        ({"log_density": lambda x: jnp.log(x).sum()}, "start: expected a finite log density"),
        ({"start": np.zeros(3)}, "start: expected 2 dimension"),
        ({"start": np.full((2, 2), np.nan)}, "start: expected finite"),
        ({"draws": 0}, "draws: expected a whole number"),
        ({"warmup": 0}, "warmup: expected at least one step"),
        ({"step_size": 0.0}, "step_size: expected a number"),
        ({"trajectory": -1}, "trajectory: expected a number"),
        ({"jitter": 1}, "jitter: expected a number below 1"),
        ({"target": 1}, "target: expected a number below 1"),
        ({"mass": "dense"}, "mass: expected one of"),
        ({"keep": "weights"}, "keep: expected a function"),
        ({"keep": lambda x: (x, x), "mass": "unit"}, "keep: expected a function that gives one array"),
        ({"thin": 0}, "thin: expected a whole number"),
        ({"seed": -1}, "seed: expected a whole number"),
    ],
)
def test_wrong_arguments_are_named(changed, message):
    call = {"log_density": lambda x: -0.5 * (x**2).sum(), "start": -np.ones((2, 2)), "draws": 5, "warmup": 5}
    with pytest.raises(ValueError, match=message):
        mcmc.sample(**call | changed, **QUIET)


def test_a_fixed_step_needs_no_warm_up_and_too_large_a_one_diverges():
    calm = mcmc.sample(normal, starts(2), 50, 0, step_size=0.5, arguments=(1.0,), **QUIET)
    assert calm.step_size == 0.5
    assert mcmc.divergences(calm).sum() == 0
    wild = mcmc.sample(normal, starts(2), 50, 10, step_size=3.0, trajectory=60, arguments=(1.0,), **QUIET)
    assert (mcmc.divergences(wild) > 0).all()
    for given in (calm, wild):
        np.testing.assert_array_equal(given.inverse_mass, 1)  # nothing is adapted
    with pytest.raises(ValueError, match="chains: expected what `sample` returns"):
        mcmc.divergences(wild.draws)


# --- whether to believe it ----------------------------------------------------------------------------------


def test_chains_of_independent_draws_pass_and_are_worth_what_they_hold():
    draws = np.random.default_rng(0).standard_normal((4, 1000, 5))
    assert mcmc.r_hat(draws).shape == (5,)
    assert (np.abs(mcmc.r_hat(draws) - 1) < 0.005).all()
    for kind in ("bulk", "tail", "mean"):
        assert (np.abs(mcmc.effective_sample_size(draws, kind) / 4000 - 1) < 0.25).all()


def test_correlated_draws_are_worth_what_their_correlation_leaves():
    rng, rho = np.random.default_rng(0), 0.9
    draws = np.zeros((8, 5000))
    for t in range(1, 5000):
        draws[:, t] = rho * draws[:, t - 1] + rng.standard_normal(8)
    worth = 40_000 * (1 - rho) / (1 + rho)
    assert mcmc.effective_sample_size(draws) == pytest.approx(worth, rel=0.15)
    spread = 1 / (1 - rho) / 40_000**0.5  # of the mean over all draws, in theory
    assert mcmc.monte_carlo_error(draws) == pytest.approx(spread, rel=0.1)


def test_chains_in_different_places_or_of_different_widths_are_seen():
    draws = np.random.default_rng(0).standard_normal((4, 500))
    apart, wide = draws.copy(), draws.copy()
    apart[0] += 1
    wide[0] *= 3
    assert mcmc.r_hat(apart) > 1.05
    assert mcmc.r_hat(wide) > 1.03
    trend = draws + np.linspace(0, 2, 500)
    assert mcmc.r_hat(trend) > 1.1


def test_heavy_tails_do_not_hide_a_chain_that_is_elsewhere():
    draws = np.random.default_rng(0).standard_cauchy((4, 1000))
    assert mcmc.r_hat(draws) < 1.01
    draws[0] += 2
    assert mcmc.r_hat(draws) > 1.05


def two_modes(x):
    return jnp.logaddexp(-0.5 * ((x + 10) ** 2).sum(), -0.5 * ((x - 10) ** 2).sum())


def test_what_no_chain_has_visited_is_not_seen():
    one_side = mcmc.sample(two_modes, 10 + starts(1, width=1), 500, 300, **QUIET).draws
    assert (one_side > 0).all()  # half of the mass is missing
    assert mcmc.r_hat(one_side).max() < 1.01
    both = mcmc.sample(two_modes, np.array([[10.0], [-10.0], [9.0], [-9.0]]), 500, 300, **QUIET).draws
    assert mcmc.r_hat(both).max() > 1.5


@pytest.mark.parametrize("name", asked.chains())
def test_the_diagnostics_are_those_of_arviz(name):
    theirs = json.loads(asked.STORED.read_text(encoding="utf-8"))["values"][name]
    draws = asked.chains()[name]
    for kind in ("bulk", "tail", "mean"):
        got = mcmc.effective_sample_size(draws, kind)
        assert got == pytest.approx(theirs[f"ess {kind}"], rel=1e-6), kind
    assert mcmc.r_hat(draws) == pytest.approx(theirs["r_hat"], rel=1e-6)
    assert mcmc.monte_carlo_error(draws) == pytest.approx(theirs["error"], rel=1e-6)


def test_chains_that_stand_still_in_different_places_fail_altogether():
    stuck = np.repeat([[0.0], [1.0]], 10, axis=1)
    assert mcmc.r_hat(stuck) == np.inf
    assert mcmc.r_hat(np.repeat([[0.1], [0.3], [0.7]], 11, axis=1)) == np.inf
    table = np.stack([stuck, np.random.default_rng(0).standard_normal((2, 10))], axis=-1)
    assert mcmc.r_hat(table)[0] == np.inf
    assert np.isfinite(mcmc.r_hat(table)[1])


def test_distances_from_the_median_that_are_all_alike_hide_no_places():
    signs = np.tile([1.0, -1.0], (2, 50))  # the distances from their median, 0, are all 1
    assert mcmc.r_hat(signs) == pytest.approx(1, abs=0.02)
    signs[0, :] = 1  # 150 of 200 are 1: the median is 1 as well
    signs[1, :] = np.tile([1.0, -1.0, -1.0, -1.0], 25)
    assert mcmc.r_hat(signs) > 1.5


def test_what_stands_still_has_no_r_hat_and_nothing_speaks_against_it():
    assert np.isnan(mcmc.r_hat(np.ones((2, 10))))
    assert mcmc.effective_sample_size(np.ones((2, 10))) == 20


@pytest.mark.parametrize("function", [mcmc.r_hat, mcmc.effective_sample_size, mcmc.monte_carlo_error])
def test_too_few_draws_and_numbers_that_are_none_are_refused(function):
    for draws in (np.zeros(10), np.zeros((4, 3)), np.full((2, 10), np.nan)):
        with pytest.raises(ValueError, match="draws: expected"):
            function(draws)


def test_kinds_are_known():
    with pytest.raises(ValueError, match="kind: expected one of"):
        mcmc.effective_sample_size(np.zeros((2, 10)), "median")


# --- networks -----------------------------------------------------------------------------------------------

SMALL = {"hidden": (4,), "draws": 60, "warmup": 60, **QUIET}


def test_the_prior_is_what_was_asked_for():
    x = np.array([[0.0], [1.0], [5.0]])
    one = mcmc.network_prior(x, 1, (), "gaussian", prior_std=2.0, samples=20_000)
    np.testing.assert_allclose(one.std(axis=0), 2 * np.sqrt(1 + x[:, 0] ** 2), rtol=0.03)
    wide = mcmc.network_prior(np.ones((1, 16)), 1, (), "gaussian", scaling="fan-in", samples=20_000)
    assert wide.std() == pytest.approx(2**0.5, rel=0.03)  # 16 weights of variance 1/16, and the bias
    probs = mcmc.network_prior(x, 3, (4,), samples=7)
    assert probs.shape == (7, 3, 3)
    np.testing.assert_allclose(probs.sum(axis=-1), 1)


def test_samples_have_the_shapes_of_every_method():
    moons, sine = data.two_moons(30), data.sinusoid(20)
    classes = mcmc.network_posterior(*moons, **SMALL)
    assert classes.sample(moons.inputs).shape == (240, 30, 2)
    assert classes.weights.shape == (240, 22)
    answer = classes.predict(moons.inputs)
    np.testing.assert_allclose(answer.mean, classes.sample(moons.inputs).mean(axis=0), atol=1e-6)
    curve = mcmc.network_posterior(*sine, likelihood="gaussian", noise=0.1, **SMALL)
    assert curve.sample(sine.inputs).shape == (240, 20)
    assert (curve.predict(sine.inputs).total > 0.1).all()
    for posterior, toy in ((classes, moons), (curve, sine)):
        assert posterior.r_hat(toy.inputs).shape == (len(toy),)
        assert posterior.effective_sample_size(toy.inputs).shape == (len(toy),)


def test_a_low_temperature_narrows_the_posterior():
    x, y = data.line(8, seed=1)
    call = {"hidden": (), "likelihood": "gaussian", "noise": 0.3, "draws": 1500, **QUIET}
    call |= {"trajectory": 1.0, "mass": "diagonal"}
    warm, cold = (mcmc.network_posterior(x, y, temperature=t, **call) for t in (1.0, 0.25))
    ratio = cold.predict(x).epistemic / warm.predict(x).epistemic
    np.testing.assert_allclose(ratio, 0.5, rtol=0.15)


def test_four_chains_from_separate_starts_agree_on_the_moons_and_with_the_stored_reference():
    reference = data.reference_posterior("moons")
    posterior = mcmc.network_posterior(*reference.toy, seed=5, **QUIET)
    places = reference.grid.inputs
    assert np.mean(posterior.r_hat(places) <= 1.01) >= 0.99
    probs = posterior.sample(places)[..., 1]
    error = mcmc.monte_carlo_error(probs.reshape(4, -1, len(places)))
    away = np.abs(probs.mean(axis=0) - reference.grid.mean[:, 1])
    # The reference has an error of its own, about as large.
    assert np.mean(away < 3 * 2**0.5 * error) > 0.99
    assert away.mean() < 0.02


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"likelihood": "poisson"}, "likelihood: expected one of"),
        ({"noise": 0.1}, "noise: has no meaning"),
        ({"likelihood": "gaussian"}, "noise: expected the standard deviation"),
        ({"activation": "sine"}, "activation: expected one of"),
        ({"scaling": "he"}, "scaling: expected one of"),
        ({"prior_std": 0}, "prior_std: expected a number"),
        ({"hidden": 16}, "hidden: expected a sequence"),
        ({"temperature": 0}, "temperature: expected a number"),
        ({"classes": 1}, "classes: expected a whole number"),
        ({"targets": [0, 1]}, "targets: expected 30 labels"),
        ({"targets": None}, "targets: expected one an input"),
        ({"speed": 2}, "speed: expected an argument of `sample`"),
        ({"chains": 0}, "chains: expected a whole number"),
    ],
)
def test_wrong_networks_are_named(changed, message):
    moons = data.two_moons(30)
    call = {"inputs": moons.inputs, "targets": moons.targets, **SMALL}
    with pytest.raises(ValueError, match=message):
        mcmc.network_posterior(**call | changed)


def test_inputs_of_another_dimension_are_refused():
    posterior = mcmc.network_posterior(*data.two_moons(30), **SMALL)
    with pytest.raises(ValueError, match="inputs: expected 2 column"):
        posterior.predict(np.zeros((3, 5)))


# --- stored references --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", data.REFERENCES)
def test_a_stored_reference_passed_its_own_checks(name):
    reference = data.reference_posterior(name)
    assert reference.r_hat <= 1.02
    assert reference.effective > 300
    for part in (reference.grid, reference.held_out):
        # A hundred of thousands of draws lie around the mean of all of them.
        spread = part.samples.std(axis=0)
        if part.samples.ndim == 3:  # what few networks say may be missing among a hundred
            spread = np.sqrt(part.mean * (1 - part.mean))
        away = np.abs(part.samples.mean(axis=0) - part.mean)
        assert np.mean(away < FAR * spread / len(part.samples) ** 0.5 + 2e-3) > 0.99
        assert len(part.inputs) == part.samples.shape[1] == len(part.epistemic)
    assert reference.held_out.targets.shape[0] == len(reference.held_out.inputs)
    assert np.prod(reference.grid_shape) == len(reference.grid.inputs)
    assert reference.name in repr(reference)


def test_a_reference_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="name: expected one of"):
        data.reference_posterior("spirals")


def test_the_steps_of_a_training_in_the_chapter_are_those_of_the_measurement():
    from benchmarks import posterior_methods

    chapter = (Path(__file__).parents[1] / "book" / "posteriors" / "mcmc.ipynb").read_text(encoding="utf-8")
    assert f'"TRAINING = {posterior_methods.STEPS}  #' in chapter


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**-60, 2.0**700])
def test_what_chains_are_worth_does_not_depend_on_the_unit_of_the_draws(unit):
    draws = np.random.default_rng(0).normal(size=(4, 200, 2)).cumsum(axis=1)
    units = np.array([unit, 1.0])
    for kind in ("bulk", "tail", "mean"):
        plain = mcmc.effective_sample_size(draws, kind)
        assert plain.max() < 100
        assert np.array_equal(mcmc.effective_sample_size(units * draws, kind), plain)
    assert np.array_equal(mcmc.monte_carlo_error(units * draws), units * mcmc.monte_carlo_error(draws))


# --- bounds that are met, and settings without effect ------------------------------------------------------


def bell(x):
    return -0.5 * (x**2).sum()


def test_trajectories_that_were_cut_are_told():
    options = {"draws": 5, "warmup": 0, "progress": False}
    with pytest.warns(RuntimeWarning, match=r"longest: 100% of the trajectories ended at 10 leapfrog steps"):
        mcmc.sample(bell, np.zeros((2, 2)), step_size=1e-3, longest=10, **options)
    mcmc.sample(bell, np.zeros((2, 2)), step_size=0.5, longest=10, **options)  # no warning: none was cut


def test_a_warm_up_without_room_for_a_mass_says_so():
    shortest = adaptation.SHORTEST
    assert adaptation.schedule(shortest, True)[2].any()
    assert not adaptation.schedule(shortest - 1, True)[2].any()
    with pytest.warns(RuntimeWarning, match=f"warmup: 5 steps are too few .* take at least {shortest}"):
        chains = mcmc.sample(bell, np.zeros((2, 2)), draws=5, warmup=5, progress=False)
    assert chains.inverse_mass.tolist() == [1, 1]
    mcmc.sample(bell, np.zeros((2, 2)), draws=5, warmup=5, mass="unit", progress=False)  # nothing promised


def test_classes_are_refused_where_there_are_none_and_a_spread_of_one_draw_too():
    x, y = np.linspace(-1, 1, 5)[:, None], np.zeros(5)
    options = {"hidden": (2,), "likelihood": "gaussian", "noise": 1.0, "warmup": 5, "progress": False}
    with pytest.raises(ValueError, match=r'classes: has no meaning for the likelihood "gaussian", got 3'):
        mcmc.network_posterior(x, y, classes=3, **options)
    posterior = mcmc.network_posterior(x, y, chains=1, draws=1, **options)
    with pytest.raises(ValueError, match="draws: expected at least two drawn networks"):
        posterior.predict(x)


@pytest.mark.parametrize(
    "spoil", [lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: b"x"]
)
def test_a_checkpoint_that_was_cut_off_is_named(spoil, tmp_path):
    path = tmp_path / "run.npz"
    call = {"draws": 5, "warmup": 5, "mass": "unit", "checkpoint": path, "progress": False}
    mcmc.sample(bell, np.zeros((2, 2)), **call)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match="checkpoint: expected a file that `sample` wrote"):
        mcmc.sample(bell, np.zeros((2, 2)), **call)


def test_inputs_that_single_precision_cannot_hold_are_refused():
    far = np.full((4, 2), 1e200)
    for use in (
        lambda: mcmc.network_prior(far, 3, samples=2),
        lambda: mcmc.network_posterior(far, [0, 1, 0, 1], hidden=(2,), draws=2, warmup=2),
    ):
        with pytest.raises(ValueError, match=r"^inputs: expected numbers that single precision holds"):
            use()


@pytest.mark.parametrize("step", [1e-60, 1e60])
def test_a_step_that_single_precision_cannot_hold_is_refused(step):
    with pytest.raises(ValueError, match=r"^step_size: expected a number that float32 tells from 0"):
        mcmc.sample(lambda x: -0.5 * (x**2).sum(), np.ones((2, 2)), draws=4, warmup=0, step_size=step)
