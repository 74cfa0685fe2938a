"""Bayesian linear regression against closed forms, scikit-learn and direct integration."""

import inspect
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import gamma, multivariate_normal, norm
from scipy.stats import t as student_t

from benchmarks import bench_bayesian_linear_regression
from uqhelpers import bayesian_linear_regression as blr
from uqhelpers import data
from uqhelpers.bayesian_linear_regression import (
    BayesianLinearRegression,
    GaussianBasis,
    LinearBasis,
    PolynomialBasis,
    StudentLinearRegression,
)

GRID = np.linspace(-9, 9, 61)
BUMPS = GaussianBasis(np.linspace(-4, 4, 9), 1.0)
BASES = {
    "linear": LinearBasis(),
    "linear, no bias": LinearBasis(bias=False),
    "polynomial": PolynomialBasis(4, scale=4.0),
    "Gaussian": BUMPS,
    "Gaussian, bias": GaussianBasis(np.linspace(-4, 4, 9), 1.0, bias=True),
}
every_basis = pytest.mark.parametrize("basis", BASES.values(), ids=BASES)


def sine(n=40, seed=0):
    return data.sinusoid(n, noise=0.2, seed=seed)


def several(seed=0, n=60, d=8):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, x @ rng.normal(size=d) + 0.5 * rng.normal(size=n)


# The posterior and the predictive distribution


@every_basis
def test_posterior_and_prediction_are_the_textbook_formulas(basis):
    x, y = sine()
    alpha, beta = 0.7, 25.0
    features, far = basis(x), basis(GRID)
    covariance = np.linalg.inv(alpha * np.eye(features.shape[1]) + beta * features.T @ features)
    mean = beta * covariance @ features.T @ y[:, 0]
    model = BayesianLinearRegression(alpha, beta, basis).fit(x, y)
    assert np.allclose(model.weights, mean, rtol=1e-9, atol=1e-11)
    assert np.allclose(model.covariance, covariance, rtol=1e-9, atol=1e-11)
    got = model.predict(GRID)
    variance = np.einsum("nm,mk,nk->n", far, covariance, far)
    assert np.allclose(got.mean, far @ mean, rtol=1e-9, atol=1e-11)
    assert np.allclose(got.epistemic**2, variance, rtol=1e-9, atol=1e-11)
    assert np.allclose(got.total**2, variance + 1 / beta, rtol=1e-9, atol=1e-11)


def test_it_is_the_gaussian_process_with_the_kernel_of_its_features():
    gp = pytest.importorskip("sklearn.gaussian_process")
    kernels = gp.kernels
    for x, y in (data.line(30), data.gap_line(30, seed=1), data.sinusoid(50, seed=2)):
        for bias, noise in ((1.0, 0.3), (0.5, 1.0)):
            kernel = kernels.DotProduct(bias, "fixed") + kernels.WhiteKernel(noise**2, "fixed")
            process = gp.GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(x, y[:, 0])
            mean, std = process.predict(GRID[:, None], return_std=True)
            got = BayesianLinearRegression([bias**-2, 1.0], noise**-2).fit(x, y).predict(GRID)
            assert np.abs(got.mean - mean).max() < 1e-9
            assert np.abs(got.total - std).max() < 1e-9


def test_the_mean_is_that_of_ridge_regression():
    from sklearn.linear_model import Ridge

    x, y = several()
    model = BayesianLinearRegression(2.0, 5.0, LinearBasis(bias=False)).fit(x, y)
    ridge = Ridge(alpha=2.0 / 5.0, fit_intercept=False).fit(x, y)
    assert np.allclose(model.weights, ridge.coef_, rtol=1e-10)


def test_with_a_flat_prior_the_mean_is_least_squares():
    x, y = several()
    model = BayesianLinearRegression(0.0, 1.0, LinearBasis(bias=False)).fit(x, y)
    assert np.allclose(model.weights, np.linalg.lstsq(x, y, rcond=None)[0], rtol=1e-10)


def test_with_a_flat_prior_the_variance_is_least_at_the_barycentre():
    # S = [[Σx², -Σx], [-Σx, n]] / (n Σx² - (Σx)²), so φᵀSφ = 1/n + (x - mean)² / Σ(xᵢ - mean)².
    for toy in (data.line(25, seed=3), data.gap_line(25, seed=3)):
        x, y = toy
        variance = BayesianLinearRegression(0.0, 1.0).fit(x, y).predict(GRID).epistemic ** 2
        centred = 1 / len(x) + (GRID - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
        assert np.allclose(variance, centred, rtol=1e-10)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_fewer_examples_than_weights_are_enough_with_a_prior(n):
    x, y = sine(n)
    features = BUMPS(x)
    covariance = np.linalg.inv(0.5 * np.eye(9) + 4 * features.T @ features)
    assert np.allclose(BayesianLinearRegression(0.5, 4.0, BUMPS).fit(x, y).covariance, covariance, atol=1e-12)


@every_basis
def test_the_posterior_contracts_as_examples_come_in(basis):
    x, y = sine(3000)
    model = BayesianLinearRegression(1.0, 25.0, basis)
    before = model.predict(GRID).epistemic
    inside, average = np.abs(GRID) < 4, []
    for start, stop in ((0, 3), (3, 30), (30, 300), (300, 3000)):
        after = model.update(x[start:stop], y[start:stop]).predict(GRID).epistemic
        assert np.all(after <= before * (1 + 1e-12))
        average.append((after[inside] ** 2).mean())
        before = after
    assert average[-1] == pytest.approx(average[-2] / 10, rel=0.25)  # 1/n once the data rule the prior


def test_gaussian_bases_return_to_the_noise_far_away():
    got = BayesianLinearRegression(1.0, 25.0, BUMPS).fit(*sine()).predict([-60.0, 60.0, 1e6])
    assert np.all(got.epistemic < 1e-12)
    assert np.allclose(got.total, 0.2, rtol=1e-12)
    assert np.all(got.mean == 0)


def test_a_bias_column_adds_its_own_variance_far_away():
    model = BayesianLinearRegression(1.0, 25.0, BASES["Gaussian, bias"]).fit(*sine())
    got = model.predict([-60.0, 60.0])
    assert np.allclose(got.total**2, 1 / 25 + model.covariance[0, 0], rtol=1e-12)
    assert np.allclose(got.mean, model.weights[0], rtol=1e-12)
    assert model.covariance[0, 0] > 1e-3


def test_linear_and_polynomial_variances_grow_without_bound():
    for basis in (BASES["linear"], BASES["polynomial"]):
        std = BayesianLinearRegression(1.0, 25.0, basis).fit(*sine()).predict([10.0, 100.0, 1000.0]).epistemic
        assert np.all(std[1:] > 5 * std[:-1])


def test_standard_deviations_of_function_and_noise_add_in_square():
    got = BayesianLinearRegression(1.0, 25.0, BUMPS).fit(*sine()).predict(GRID)
    assert np.allclose(got.total**2, got.epistemic**2 + 0.04, rtol=1e-12)


# Before any data, and one after the other


def test_without_data_it_is_its_prior():
    model = BayesianLinearRegression([4.0, 1.0], 25.0)
    got = model.predict([0.0, 2.0])
    assert np.all(got.mean == 0)
    assert np.allclose(got.epistemic**2, [0.25, 4.25])
    samples = model.sample([0.0, 2.0], size=20_000, seed=0)
    assert np.allclose(samples.var(axis=0), [0.25, 4.25], rtol=0.05)  # five standard errors


@every_basis
@pytest.mark.parametrize("precisions", [(0.7, 25.0), (None, 25.0), (0.7, None), (None, None)])
@pytest.mark.filterwarnings("ignore:the evidence has no maximum")  # nor has a line through 0 for a sine
def test_one_by_one_is_the_same_as_all_at_once(basis, precisions):
    x, y = sine(30)
    whole = BayesianLinearRegression(*precisions, basis).fit(x, y)
    parts = BayesianLinearRegression(*precisions, basis)
    for i in range(30):
        parts.update(x[i : i + 1], y[i : i + 1])
    assert parts.n == whole.n == 30
    assert np.allclose(parts.weights, whole.weights, rtol=1e-7, atol=1e-9)
    assert np.allclose(parts.covariance, whole.covariance, rtol=1e-7, atol=1e-9)
    assert parts.log_evidence() == pytest.approx(whole.log_evidence(), rel=1e-10)


def test_the_order_of_the_examples_does_not_matter():
    x, y = sine(5000)
    order = np.random.default_rng(0).permutation(5000)
    models = [BayesianLinearRegression(1.0, 25.0, BUMPS).fit(x[i], y[i]) for i in (slice(None), order)]
    assert np.allclose(models[0].covariance, models[1].covariance, rtol=1e-10, atol=1e-14)


def test_chunks_inside_one_fit_do_not_show():
    x, y = several(n=5000)
    model = BayesianLinearRegression(1.0, 4.0, LinearBasis(bias=False)).fit(x, y)
    precision = np.eye(8) + 4 * x.T @ x
    assert np.allclose(model.covariance @ precision, np.eye(8), atol=1e-10)
    assert np.allclose(precision @ model.weights, 4 * x.T @ y, rtol=1e-10)


def test_fit_forgets_and_update_does_not():
    x, y = sine(20)
    model = BayesianLinearRegression(1.0, 25.0, BUMPS).fit(x[:10], y[:10])
    again = BayesianLinearRegression(1.0, 25.0, BUMPS).fit(x[10:], y[10:])
    assert np.array_equal(model.fit(x[10:], y[10:]).weights, again.weights)
    assert model.n == 10


def test_a_refused_update_leaves_the_model_as_it_was():
    x, y = sine(3000)
    model = BayesianLinearRegression(1.0, 25.0, BUMPS).fit(x, y)
    before = model.weights
    bad = y.copy()
    bad[2500] = np.nan  # in the second chunk
    for learn in (model.update, model.fit):
        with pytest.raises(ValueError, match=r"^y: expected finite"):
            learn(x, bad)
        assert model.n == 3000
        assert np.array_equal(model.weights, before)


def test_memory_does_not_depend_on_the_number_of_examples():
    rng = np.random.default_rng(0)
    peaks = []
    for chunks in (4, 40):
        model = BayesianLinearRegression(1.0, 1.0, LinearBasis(bias=False))
        tracemalloc.start()
        for _ in range(chunks):
            x = rng.normal(size=(2000, 20))
            model.update(x, x.sum(axis=1))
        model.predict(x)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0]


def test_a_badly_conditioned_basis_keeps_half_the_digits_that_the_gram_matrix_loses():
    # Powers up to 12 on (0, 1): the Gram matrix has a condition beyond the reach of float64.
    x = np.linspace(0, 1, 200)
    basis = PolynomialBasis(12)
    features = basis(x)
    truth = np.ones(13)
    assert np.linalg.cond(features.T @ features) > 1e16
    model = BayesianLinearRegression(1e-20, 1.0, basis)
    for part in np.split(np.arange(200), 20):
        model.update(x[part], features[part] @ truth)
    naive = np.linalg.solve(features.T @ features, features.T @ (features @ truth))
    ours, theirs = np.abs(model.weights - truth).max(), np.abs(naive - truth).max()
    assert ours < 1e-6
    assert ours < theirs / 100


def test_a_stream_is_learned_from_about_as_fast_as_it_is_solved():
    rows = bench_bayesian_linear_regression.rows(n=50_000, d=30, wide=100, chunk=2000, repeats=2)
    assert rows[0]["ratio"] < 2 * bench_bayesian_linear_regression.BOUND  # wide: the machine may be busy
    told = {"name", "ours_s", "baseline", "baseline_s", "ratio", "limit_s", "over_limit", "note"}
    assert told == set(rows[0])


# Samples


def test_samples_have_the_moments_of_the_prediction():
    model = BayesianLinearRegression(1.0, 25.0, BUMPS).fit(*sine(10))
    x, size = np.array([-3.0, 0.5, 5.5]), 40_000
    got = model.predict(x)
    for noise, std in ((False, got.epistemic), (True, got.total)):
        samples = model.sample(x, size=size, seed=1, noise=noise)
        assert samples.shape == (size, 3)
        assert np.all(np.abs(samples.mean(axis=0) - got.mean) < 5 * std / size**0.5)
        assert np.all(np.abs(samples.var(axis=0) / std**2 - 1) < 5 * (2 / size) ** 0.5)


def test_a_sample_is_one_function():
    samples = BayesianLinearRegression(1.0, 25.0).fit(*data.line(10)).sample(np.arange(6.0), size=5)
    assert np.allclose(np.diff(samples, 2), 0, atol=1e-12)  # straight lines, each


def test_samples_repeat_with_the_seed_and_leave_the_global_generator_alone():
    model = BayesianLinearRegression(1.0, 25.0, BUMPS).fit(*sine())
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = model.sample(GRID, seed=3)
    assert np.array_equal(first, model.sample(GRID, seed=3))
    assert np.array_equal(first, model.sample(GRID, seed=np.random.default_rng(3)))
    assert not np.array_equal(first, model.sample(GRID, seed=4))
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_many_inputs_are_predicted_in_blocks(monkeypatch):
    model = BayesianLinearRegression(1.0, 25.0, BUMPS).fit(*sine())
    whole, samples = model.predict(GRID), model.sample(GRID, seed=5)
    monkeypatch.setattr(blr.model, "NUMBERS_AT_ONCE", 9 * 7)
    parts = model.predict(GRID)
    assert np.allclose(parts.mean, whole.mean, rtol=1e-12)
    assert np.allclose(parts.total, whole.total, rtol=1e-12)
    assert np.allclose(model.sample(GRID, seed=5), samples, rtol=1e-12)


# Evidence


@every_basis
@pytest.mark.parametrize("n", [1, 5, 40])
def test_the_evidence_is_the_density_of_the_targets(basis, n):
    x, y = sine(n)
    features = basis(x)
    for alpha, beta in ((1.0, 25.0), (0.01, 1.0), (100.0, 400.0)):
        covariance = features @ features.T / alpha + np.eye(n) / beta
        direct = multivariate_normal(np.zeros(n), covariance).logpdf(y[:, 0])
        model = BayesianLinearRegression(alpha, beta, basis).fit(x, y)
        assert model.log_evidence() == pytest.approx(direct, rel=1e-9, abs=1e-9)
        other = BayesianLinearRegression(3.0, 2.0, basis).fit(x, y)
        assert other.log_evidence(alpha, beta) == pytest.approx(direct, rel=1e-9, abs=1e-9)


def test_the_evidence_takes_a_precision_a_weight():
    x, y = several()
    alpha = np.arange(1.0, 9.0)
    direct = multivariate_normal(np.zeros(60), x / alpha @ x.T + np.eye(60) / 4).logpdf(y)
    model = BayesianLinearRegression(alpha, 4.0, LinearBasis(bias=False)).fit(x, y)
    assert model.log_evidence() == pytest.approx(direct, rel=1e-10)


def test_evidence_is_the_product_of_one_step_predictions():
    x, y = sine(25)
    model, total = BayesianLinearRegression(1.0, 25.0, BUMPS), 0.0
    for i in range(25):
        got = model.predict(x[i])
        total += (
            -np.log(got.total[0] * (2 * np.pi) ** 0.5) - ((y[i, 0] - got.mean[0]) / got.total[0]) ** 2 / 2
        )
        model.update(x[i], y[i])
    assert model.log_evidence() == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_the_precisions_are_those_of_scikit_learn(seed):
    from sklearn.linear_model import BayesianRidge

    x, y = several(seed)
    model = BayesianLinearRegression(basis=LinearBasis(bias=False)).fit(x, y)
    flat = {"alpha_1": 0, "alpha_2": 0, "lambda_1": 0, "lambda_2": 0}  # their alpha is our beta
    ridge = BayesianRidge(**flat, fit_intercept=False, tol=1e-14, max_iter=10_000, compute_score=True)
    ridge.fit(x, y)
    assert model.alpha == pytest.approx(ridge.lambda_, rel=1e-9)
    assert model.beta == pytest.approx(ridge.alpha_, rel=1e-9)
    assert np.allclose(model.weights, ridge.coef_, rtol=1e-9)
    assert model.log_evidence() == pytest.approx(ridge.scores_[-1], rel=1e-9)
    mean, std = ridge.predict(x, return_std=True)
    got = model.predict(x)
    assert np.allclose(got.mean, mean, rtol=1e-9)
    assert np.allclose(got.total, std, rtol=1e-9)


@every_basis
def test_the_chosen_precisions_are_a_fixed_point(basis):
    x, y = sine(40)
    model = BayesianLinearRegression(basis=basis).fit(x, y)
    residual = ((y[:, 0] - basis(x) @ model.weights) ** 2).sum()
    gamma = model.effective_parameters
    assert 0 < gamma < len(model.weights)
    assert model.alpha == pytest.approx(gamma / (model.weights**2).sum(), rel=1e-6)
    assert model.beta == pytest.approx((40 - gamma) / residual, rel=1e-6)


@every_basis
@pytest.mark.parametrize("given", ["neither", "alpha", "beta", "alphas"])
def test_no_other_precision_has_more_evidence(basis, given):
    x, y = sine(40)
    alpha = {"alpha": 3.0, "alphas": np.arange(1.0, basis(x).shape[1] + 1)}.get(given)
    beta = 9.0 if given == "beta" else None
    model = BayesianLinearRegression(alpha, beta, basis).fit(x, y)
    best = model.log_evidence()
    for factor in (1e-3, 0.1, 0.9, 1.1, 10, 1e3):
        if alpha is None:
            assert model.log_evidence(alpha=model.alpha * factor) < best
        if beta is None:
            assert model.log_evidence(beta=model.beta * factor) < best


def test_the_evidence_finds_the_noise():
    beta = [BayesianLinearRegression(basis=BUMPS).fit(*sine(1000, seed)).noise_std for seed in range(5)]
    assert np.allclose(beta, 0.2, rtol=0.1)  # four standard errors, 1/√2000 each


def test_the_evidence_is_found_again_when_data_come_in():
    x, y = sine(200)
    model = BayesianLinearRegression(basis=BUMPS).fit(x[:5], y[:5])
    few = model.beta
    assert model.update(x[5:], y[5:]).beta != few
    assert model.beta == pytest.approx(BayesianLinearRegression(basis=BUMPS).fit(x, y).beta, rel=1e-9)


def test_targets_without_noise_or_without_signal_are_reported():
    x = np.linspace(-1, 1, 20)
    with pytest.warns(RuntimeWarning, match="no noise"):
        assert BayesianLinearRegression().fit(x, 2 * x).noise_std < 1e-6
    constant = BayesianLinearRegression(basis=LinearBasis(bias=False)).fit(x, x**2)
    with pytest.warns(RuntimeWarning, match="nothing but noise"):
        assert np.abs(constant.weights).max() < 1e-6


def test_effective_parameters_go_from_none_to_all():
    x, y = several()
    count = [
        BayesianLinearRegression(alpha, 4.0, LinearBasis(bias=False)).fit(x, y).effective_parameters
        for alpha in (1e9, 1.0, 0.0)
    ]
    assert count[0] < 1e-5
    assert 7 < count[1] < 8
    assert count[2] == pytest.approx(8)


# Bases


def test_bases_have_the_columns_they_promise():
    x = np.array([[2.0, 3.0]])
    assert np.array_equal(LinearBasis()(x), [[1, 2, 3]])
    assert np.array_equal(PolynomialBasis(3)(x), [[1, 2, 3, 4, 9, 8, 27]])
    assert np.array_equal(PolynomialBasis(2, scale=2.0, bias=False)(x), [[1, 1.5, 1, 2.25]])
    bumps = GaussianBasis([[2.0, 3.0], [2.0, 5.0]], width=2.0, bias=True)(x)
    assert np.allclose(bumps, [[1, 1, np.exp(-0.5)]])


def test_a_basis_of_ones_own_is_any_function():
    x, y = sine()
    model = BayesianLinearRegression(1.0, 25.0, lambda x: np.concatenate([np.sin(x), np.cos(x)], axis=1))
    assert model.fit(x, y).weights[0] == pytest.approx(1, abs=0.15)


def test_vectors_and_columns_torch_and_lists_are_the_same_inputs():
    x, y = sine()
    torch = pytest.importorskip("torch")
    forms = [(x, y), (x[:, 0], y[:, 0]), (x.tolist(), y.tolist()), (torch.tensor(x), torch.tensor(y))]
    weights = [BayesianLinearRegression(1.0, 25.0, BUMPS).fit(*form).weights for form in forms]
    assert all(np.array_equal(weights[0], other) for other in weights)


def test_two_thousand_features_are_no_trouble():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2000))
    model = BayesianLinearRegression(1.0, 4.0, LinearBasis(bias=False)).fit(x, x[:, 0])
    dual = x.T @ np.linalg.solve(x @ x.T + np.eye(100) / 4, x[:, 0])  # (A + B)⁻¹ by the small matrix
    assert np.allclose(model.weights, dual, atol=1e-10)


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -1.0}, "alpha: expected numbers of at least 0"),
        ({"alpha": np.nan}, "alpha: expected finite"),
        ({"alpha": [[1.0]]}, "alpha: expected numbers"),
        ({"alpha": "one"}, "alpha: expected numbers"),
        ({"alpha": True}, "alpha: expected numbers, not True or False"),
        ({"alpha": np.array([True, False])}, "alpha: expected numbers, not True or False"),
        ({"beta": True}, "beta: expected numbers, not True or False"),
        ({"beta": 0}, r"beta: expected a number in"),
        ({"beta": np.inf}, "beta: expected a number"),
        ({"beta": [1.0, 2.0]}, "beta: expected a number"),
        ({"basis": "linear"}, "basis: expected a function"),
    ],
)
def test_wrong_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        BayesianLinearRegression(**arguments)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([], [], "x: expected at least one input"),
        (3.0, 1.0, "x: expected at least one input"),
        ([1, 2], [1], r"y: expected shape \(2,\)"),
        ([1, 2], [[1, 2], [3, 4]], r"y: expected shape \(2,\)"),
        ([1, np.nan], [1, 2], "x: expected finite"),
        ([1, 2], [1, np.inf], "y: expected finite"),
        (["a"], [1], "x: expected numbers"),
        ([1, 2], [None, 1], "y: expected numbers"),
        ([[1.0], [2.0, 3.0]], [1, 2], "x: expected an array"),
        ([1e200, 2], [1, 2e300], "x: expected features of a size"),
    ],
)
def test_wrong_examples_are_refused(x, y, message):
    for learn in (BayesianLinearRegression(1.0, 1.0).fit, BayesianLinearRegression(1.0, 1.0).update):
        with pytest.raises(ValueError, match=f"^{message}"):
            learn(x, y)


def test_what_cannot_be_answered_is_refused():
    x, y = several(d=3)
    model = BayesianLinearRegression(1.0, 1.0).fit(x, y)
    empty = BayesianLinearRegression(1.0, 1.0)
    powers = BayesianLinearRegression(1.0, 1.0, PolynomialBasis(9)).fit(x[:, 0], y)
    cases = [
        (lambda: model.predict(x[:, :2]), "x: expected inputs with 4 features"),
        (lambda: model.update(x[:, :2], y), "x: expected inputs with 4 features"),
        (lambda: powers.predict([1e80]), "basis: features: expected finite"),
        (lambda: model.predict([[1e200] * 3]), "x: expected inputs whose prediction is finite"),
        (lambda: empty.weights, "x: expected data"),
        (lambda: empty.covariance, "x: expected data"),
        (lambda: empty.effective_parameters, "x: expected data"),
        (lambda: empty.log_evidence(), "x: expected data"),
        (lambda: BayesianLinearRegression(beta=1.0).predict(x), "alpha: expected a number as long as"),
        (lambda: BayesianLinearRegression(1.0).predict(x), "beta: expected a number as long as"),
        (
            lambda: BayesianLinearRegression(0.0, 1.0).predict(x),
            "alpha: expected above 0, the data determine",
        ),
        (lambda: BayesianLinearRegression(0.0, 1.0).fit(x[:2], y[:2]).predict(x), "alpha: expected above 0"),
        (lambda: BayesianLinearRegression(0.0).fit(x, y).predict(x), "alpha: expected above 0 where"),
        (lambda: BayesianLinearRegression(0.0, 1.0).fit(x, y).log_evidence(), "alpha: expected above 0"),
        (lambda: model.log_evidence(alpha=-1), "alpha: expected numbers"),
        (lambda: model.log_evidence(beta=0), "beta: expected a number"),
        (
            lambda: BayesianLinearRegression([1.0, 2.0], 1.0).fit(x, y).weights,
            "alpha: expected one number or 4",
        ),
        (lambda: BayesianLinearRegression().fit(x, 0 * y).alpha, "y: expected targets that are not all 0"),
        (lambda: model.sample(x, size=0), "size: expected a whole number"),
        (lambda: model.sample(x, seed=-1), "seed: expected a whole number"),
        (lambda: model.sample(x, noise="yes"), "noise: expected one of"),
        (lambda: BayesianLinearRegression(1, 1, np.ravel).fit(x, y), "basis: features: expected 2"),
        (lambda: BayesianLinearRegression(1, 1, np.transpose).fit(x, y), "basis: expected one row an input"),
        (lambda: PolynomialBasis(0), "degree: expected a whole number"),
        (lambda: PolynomialBasis(2, scale=0), "scale: expected a number"),
        (lambda: LinearBasis(bias="yes"), "bias: expected one of"),
        (lambda: GaussianBasis([], 1.0), "centres: expected at least one"),
        (lambda: GaussianBasis([0.0], -1.0), "width: expected a number"),
        (lambda: GaussianBasis(np.zeros((2, 2)), 1.0)(x), r"x: expected shape \(N, 2\)"),
        (lambda: LinearBasis()(np.zeros((2, 2, 2))), "x: expected shape"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


anything = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.booleans(),
    st.integers(-3, 20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.lists(st.lists(st.floats(-1e3, 1e3), max_size=3), max_size=6),
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.bool_]),
        st.one_of(st.sampled_from([(6,), (6, 2)]), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)),
    ),
)
GOOD = {
    "alpha": 1.0,
    "beta": 2.0,
    "x": np.linspace(-1, 1, 12).reshape(6, 2),
    "y": np.arange(6.0) ** 2,
    "size": 3,
}


@settings(max_examples=300, deadline=None)
@given(argument=st.sampled_from(sorted(GOOD)), value=anything)
def test_whatever_comes_in_the_answer_is_finite_or_a_named_refusal(argument, value):
    given_ = GOOD | {argument: value}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the evidence has no maximum")
        try:
            model = BayesianLinearRegression(given_["alpha"], given_["beta"]).fit(given_["x"], given_["y"])
            got = model.predict(given_["x"])
            numbers = [got.mean, got.epistemic, got.total, model.weights, model.log_evidence()]
            numbers.append(model.sample(given_["x"], given_["size"]))
        except ValueError as error:
            refusal, numbers = str(error), []
        else:
            refusal = None
    if refusal is not None:
        assert refusal.split(":")[0] in {*GOOD, "basis"}, refusal
        assert "expected" in refusal
    assert all(np.isfinite(number).all() for number in numbers)


def test_every_public_function_says_what_it_takes_returns_and_refuses():
    for name in ("fit", "update", "predict", "sample", "log_evidence"):
        made = (BayesianLinearRegression, StudentLinearRegression)
        for text in (inspect.getdoc(getattr(kind, name)) for kind in made if hasattr(kind, name)):
            for section in ("Parameters\n---", "Returns\n---", "Raises\n---"):
                assert section in text, (name, section)


# The noise unknown


def by_integration(x, y, ratio, shape, rate, basis, x_new, y_new):
    """Density of a new target: the prediction for each noise precision, averaged over their posterior."""
    log_beta = np.linspace(-6, 12, 801)
    densities, weights = [], []
    for beta in np.exp(log_beta):
        model = BayesianLinearRegression(ratio * beta, beta, basis).fit(x, y)
        weights.append(model.log_evidence() + gamma.logpdf(beta, shape, scale=1 / rate) + np.log(beta))
        got = model.predict(x_new)
        densities.append(norm.pdf(y_new, got.mean, got.total))
    weights = np.exp(np.array(weights) - max(weights))
    return weights @ np.array(densities) / weights.sum()


def test_a_student_prediction_is_the_average_over_all_noises():
    x, y = sine(6)
    x_new, y_new = np.array([-3.0, 0.5, 7.0]), np.array([0.4, -0.3, 1.5])
    model = StudentLinearRegression(0.3, 0.8, 0.1, BUMPS).fit(x, y)
    direct = by_integration(x, y, 0.3, 0.8, 0.1, BUMPS, x_new, y_new)
    assert np.allclose(np.exp(model.predict(x_new).log_likelihood(y_new)), direct, rtol=1e-6)


@pytest.mark.parametrize("n", [3, 4, 30])
def test_with_a_flat_prior_it_is_the_classical_prediction_interval(n):
    from scipy.stats import linregress

    x, y = data.line(n, seed=n)
    x, y = x[:, 0], y[:, 0]
    fitted = linregress(x, y)
    errors = y - fitted.intercept - fitted.slope * x
    around = np.sqrt(1 + 1 / n + (GRID - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum())
    half = student_t.ppf(0.95, n - 2) * np.sqrt((errors**2).sum() / (n - 2)) * around
    centre = fitted.intercept + fitted.slope * GRID
    ends = StudentLinearRegression().fit(x, y).predict(GRID).interval(0.9)
    assert np.allclose(ends, np.stack([centre - half, centre + half], axis=1), rtol=1e-9)


def test_worlds_from_the_prior_are_covered_as_promised():
    rng = np.random.default_rng(0)
    ratio, shape, rate, held = 0.1, 1.5, 0.3, []
    for _ in range(1500):
        beta = rng.gamma(shape, 1 / rate)
        weights = rng.normal(size=2) / np.sqrt(ratio * beta)
        x = rng.uniform(-2, 2, 5)
        y = weights[0] + weights[1] * x + rng.normal(size=5) / np.sqrt(beta)
        model = StudentLinearRegression(ratio, shape, rate).fit(x[:4], y[:4])
        low, high = model.predict(x[4:]).interval(0.8)[0]
        held.append(low < y[4] < high)
    assert np.mean(held) == pytest.approx(0.8, abs=4 * (0.16 / 1500) ** 0.5)


def test_with_many_examples_the_noise_is_known_and_the_law_is_normal():
    x, y = sine(20_000)
    student = StudentLinearRegression(0.04, 0.5, 0.02, BUMPS).fit(x, y)
    plugged = BayesianLinearRegression(basis=BUMPS).fit(x, y).predict(GRID)
    got = student.predict(GRID)
    assert got.degrees_of_freedom == 20_001
    assert np.allclose(got.total, plugged.total, rtol=2e-3)
    shape, rate = student.noise()
    assert np.sqrt(rate / shape) == pytest.approx(0.2, rel=0.02)


def test_a_student_has_no_variance_with_two_degrees_of_freedom():
    x, y = data.line(4)
    got = StudentLinearRegression().fit(x, y).predict(GRID)
    assert np.all(np.isinf(got.total))
    assert np.all(np.isinf(got.epistemic))
    assert np.all(np.isfinite(got.interval(0.99)))
    far = StudentLinearRegression(1.0, 0.5, 0.1, BUMPS).fit(x[:1], y[:1]).predict([1e9])
    assert far.epistemic == 0


def test_portions_and_flat_weights_among_others_count_as_they_should():
    x, y = several(d=3)
    ratio = np.array([0.0, 1.0, 1.0, 1.0])  # the bias is not penalised
    whole = StudentLinearRegression(ratio, 0.5, 0.1).fit(x, y + 1e4)
    parts = StudentLinearRegression(ratio, 0.5, 0.1)
    for part in (slice(0, 1), slice(1, 50), slice(50, 60)):
        parts.update(x[part], y[part] + 1e4)
    assert whole.predict(x).degrees_of_freedom == 60
    assert np.allclose(parts.predict(x).interval(), whole.predict(x).interval(), rtol=1e-9)
    plain = StudentLinearRegression(ratio, 0.5, 0.1).fit(x, y)
    assert np.allclose(whole.predict(x).mean - 1e4, plain.predict(x).mean, atol=1e-7)


def test_what_a_student_cannot_answer_is_refused():
    x, y = several(d=3)
    cases = [
        (lambda: StudentLinearRegression(-1.0), "ratio: expected numbers of at least 0"),
        (lambda: StudentLinearRegression(None), "ratio: expected a number"),
        (lambda: StudentLinearRegression(True), "ratio: expected numbers, not True or False"),
        (lambda: StudentLinearRegression(1.0, True, 1.0), "shape: expected numbers, not True or False"),
        (lambda: StudentLinearRegression(1.0, 1.0, True), "rate: expected numbers, not True or False"),
        (lambda: StudentLinearRegression(shape=-1.0), "shape: expected"),
        (lambda: StudentLinearRegression(shape=1.0), "rate: expected both"),
        (lambda: StudentLinearRegression(rate=np.nan), "rate: expected"),
        (lambda: StudentLinearRegression(basis=3), "basis: expected a function"),
        (lambda: StudentLinearRegression().predict(x), "x: expected data to be fitted first"),
        (lambda: StudentLinearRegression(1.0).predict(x), "x: expected data to be fitted first"),
        (lambda: StudentLinearRegression(0.0, 1.0, 1.0).predict(x), "ratio: expected above 0"),
        (lambda: StudentLinearRegression([1.0, 2.0], 1.0, 1.0).predict(x), "ratio: expected one number or 4"),
        (lambda: StudentLinearRegression().fit(x[:4], y[:4]).predict(x), "y: expected more examples than"),
        (lambda: StudentLinearRegression().fit(x[:6] * 0, y[:6]).predict(x), "ratio: expected above 0"),
        (lambda: StudentLinearRegression([1.0, 2.0]).fit(x, y).predict(x), "ratio: expected one number or 4"),
        (lambda: StudentLinearRegression().fit(x, y).predict(x[:, :2]), "x: expected inputs with 4"),
        (lambda: StudentLinearRegression().fit(x, y).predict(x).interval(1.0), "level: expected"),
        (lambda: StudentLinearRegression().fit(x, y).predict(x).interval(0), "level: expected"),
        (lambda: StudentLinearRegression().fit(x, y).predict(x).log_likelihood(y[1:]), "y: expected shape"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


def test_an_exact_line_is_refused_for_its_errors_not_for_its_number():
    for x in ([0, 0, 0, 0], [0, 1, 2, 3]):
        model = StudentLinearRegression(basis=LinearBasis(bias=False)).fit(x, [0, 0, 0, 0])
        with pytest.raises(ValueError, match=r"^y: expected targets that leave an error .* got 4 that"):
            model.predict([1.0])


def test_before_data_a_student_is_its_prior():
    ratio, shape, rate = np.array([0.5, 2.0]), 3.0, 0.4
    model = StudentLinearRegression(ratio, shape, rate)
    assert model.noise() == (shape, rate)
    got = model.predict([0.0, 2.0])
    rng = np.random.default_rng(0)
    beta = rng.gamma(shape, 1 / rate, size=(200_000, 1))
    bias, slope = (rng.normal(size=beta.shape) / np.sqrt(each * beta) for each in ratio)
    drawn = bias + slope * [0.0, 2.0] + rng.normal(size=beta.shape) / np.sqrt(beta)
    low, high = got.interval(0.8).T
    assert np.mean((low < drawn) & (drawn < high), axis=0) == pytest.approx(0.8, abs=0.005)
    assert np.all(got.mean == 0)
    assert got.degrees_of_freedom == 6
    # and the first example is judged by it: prior, then posterior, is the joint density of two
    x, y = [0.5, -1.0], [0.3, 1.1]
    forth = model.predict(x[:1]).log_likelihood(y[:1]) + (
        StudentLinearRegression(ratio, shape, rate).fit(x[:1], y[:1]).predict(x[1:]).log_likelihood(y[1:])
    )
    back = model.predict(x[1:]).log_likelihood(y[1:]) + (
        StudentLinearRegression(ratio, shape, rate).fit(x[1:], y[1:]).predict(x[:1]).log_likelihood(y[:1])
    )
    assert forth == pytest.approx(back, rel=1e-12)


# --- what once went wrong in silence ------------------------------------------------------------------


def test_a_model_does_not_follow_its_callers_centres():
    centres = np.linspace(-1, 1, 5)
    x, y = sine(30)
    basis = GaussianBasis(centres, width=0.4)
    model = BayesianLinearRegression(alpha=1.0, beta=10.0, basis=basis).fit(x, y)
    before = model.predict(x).mean
    centres += 7
    assert np.array_equal(model.predict(x).mean, before)
    with pytest.raises(ValueError, match="read-only"):
        basis.centres[0] = 7


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("offset", [1e5, 1e7, 1e9])
def test_an_offset_of_the_targets_does_not_hide_the_noise(offset, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, 40)
    y = np.sin(3 * x) + 0.1 * rng.standard_normal(40)
    basis = PolynomialBasis(5)
    plain = BayesianLinearRegression(basis=basis).fit(x, y)
    moved = BayesianLinearRegression(basis=basis).fit(x, y + offset)
    assert moved.noise_std == pytest.approx(plain.noise_std, rel=0.1)
    around = [moved.log_evidence(moved.alpha * a, moved.beta * b) for a, b in ((1.1, 1), (0.9, 1), (1, 0.9))]
    assert moved.log_evidence() > max(around)


def test_the_evidence_is_the_highest_of_the_whole_range():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 20)
    y = 1e7 + np.sin(3 * x) + 0.1 * rng.standard_normal(20)
    model = BayesianLinearRegression(basis=PolynomialBasis(5)).fit(x, y)
    grid = [model.log_evidence(10.0**a, 10.0**b) for a in range(-30, 3) for b in range(-16, 5)]
    assert model.log_evidence() > max(grid)


def test_targets_of_any_unit_give_the_same_fit():
    x, y = sine(30)
    model = BayesianLinearRegression(basis=BUMPS).fit(x, y)
    for unit in (1e-120, 1e-60, 1e60):
        scaled = BayesianLinearRegression(basis=BUMPS).fit(x, unit * y)
        assert scaled.predict(x).mean / unit == pytest.approx(model.predict(x).mean, rel=1e-6)
        assert scaled.noise_std / unit == pytest.approx(model.noise_std, rel=1e-6)


@pytest.mark.parametrize(("unit", "size"), [(1e-170, "smaller"), (1e80, "larger")])
def test_targets_that_no_float_can_serve_are_blamed_themselves(unit, size):
    x, y = sine(30)
    with pytest.raises(ValueError, match=f"^y: .*{size}"):
        BayesianLinearRegression(basis=BUMPS).fit(x, unit * y).predict(x)


def test_masked_arrays_are_refused_by_name():
    x, y = sine(30)
    for name, pair in (("x", (np.ma.masked_greater(x, 0), y)), ("y", (x, np.ma.masked_greater(y, 0)))):
        with pytest.raises(ValueError, match=f"^{name}: .*mask"):
            BayesianLinearRegression().fit(*pair)
    with pytest.raises(ValueError, match=r"^centres: .*mask"):
        GaussianBasis(np.ma.masked_greater(x, 0), width=1.0)


def test_a_loader_gives_what_its_arrays_give():
    torch = pytest.importorskip("torch")
    x, y = sine(50)
    examples = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    loader = torch.utils.data.DataLoader(examples, batch_size=7, shuffle=True)
    whole = BayesianLinearRegression(alpha=1.0, beta=10.0, basis=BUMPS).fit(x, y)
    batched = BayesianLinearRegression(alpha=1.0, beta=10.0, basis=BUMPS).fit(loader)
    assert batched.n == 50
    assert batched.weights == pytest.approx(whole.weights, rel=1e-9, abs=1e-12)
    assert batched.update(loader).n == 100


def test_a_loader_that_breaks_off_teaches_nothing():
    torch = pytest.importorskip("torch")
    x, y = sine(50)
    model = BayesianLinearRegression(alpha=1.0, beta=10.0, basis=BUMPS).fit(x, y)
    before = model.weights
    bad = [(x[:20], y[:20]), (x[20:], np.full(30, np.nan))]
    with pytest.raises(ValueError, match="y: expected finite"):
        model.update([(torch.tensor(a), torch.tensor(b)) for a, b in bad])
    assert model.n == 50
    assert np.array_equal(model.weights, before)


def test_a_loader_that_leaves_examples_out_is_refused():
    torch = pytest.importorskip("torch")
    x, y = sine(50)
    examples = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    loader = torch.utils.data.DataLoader(examples, batch_size=7, drop_last=True)
    for model in (BayesianLinearRegression(1.0, 10.0, BUMPS), StudentLinearRegression(1.0, basis=BUMPS)):
        for learn in (model.fit, model.update):
            with pytest.raises(
                ValueError, match=r"^inputs: .*leaves nothing out, got one with drop_last=True"
            ):
                learn(loader)


def test_a_loader_leaves_the_global_generator_where_it_was():
    torch = pytest.importorskip("torch")
    x, y = sine(50)
    examples = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    loader = torch.utils.data.DataLoader(examples, batch_size=7, shuffle=True)
    before = torch.get_rng_state()
    BayesianLinearRegression(1.0, 10.0, BUMPS).fit(loader)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match=r"^x: expected shape \(N, 2\)"):
        BayesianLinearRegression(1.0, 10.0, GaussianBasis(np.zeros((1, 2)), 1.0)).fit(loader)
    assert torch.equal(torch.get_rng_state(), before)
