"""Bayesian logistic regression: the mode, the curvature, and the posterior by integration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.special import expit

from uqhelpers import data
from uqhelpers.logistic import ExactLogisticPosterior, hessian, log_joint, map_estimate, total_variation


@pytest.fixture(scope="module")
def problem():
    return tuple(data.logistic(n=20, seed=0))


@pytest.fixture(scope="module")
def exact(problem):
    return ExactLogisticPosterior(*problem, prior_precision=0.5)


def test_the_toy_set_is_a_logistic_regression_of_its_truth():
    toy = data.logistic(n=20_000, seed=1)
    weights = map_estimate(*toy, prior_precision=1e-6)
    log_odds = np.log(toy.truth(toy.inputs)[:, 1] / toy.truth(toy.inputs)[:, 0])
    true = np.linalg.lstsq(toy.inputs, log_odds, rcond=None)[0]
    assert toy.inputs @ true == pytest.approx(log_odds)  # linear, and without an intercept
    # Four standard errors, from the information of 20,000 points.
    error = np.sqrt(np.diag(np.linalg.inv(hessian(true, toy.inputs, 1e-6))))
    assert np.all(np.abs(weights - true) < 4 * error)
    assert (toy.truth(toy.inputs).argmax(1) != toy.targets).mean() == pytest.approx(0.124, abs=0.01)


@pytest.mark.parametrize("bad", [{"n": 1}, {"separation": 0}, {"correlation": 1}, {"correlation": -1.5}])
def test_the_toy_set_names_what_it_cannot_do(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        data.logistic(**bad)


def test_the_log_joint_is_likelihood_times_prior(problem):
    inputs, labels = problem
    weights = np.array([0.3, -0.7])
    p = expit(inputs @ weights)
    likelihood = np.prod(np.where(labels == 1, p, 1 - p))
    prior = 2.0 / (2 * np.pi) * np.exp(-(weights**2).sum())  # N(0, 1/2), twice
    assert log_joint(weights, inputs, labels, 2.0) == pytest.approx(np.log(likelihood * prior))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 30), st.integers(1, 4), st.floats(1e-3, 1e3), st.floats(1e-2, 1e2), st.integers(0, 2**32)
)
def test_the_mode_is_where_the_gradient_vanishes(n, d, alpha, scale, seed):
    rng = np.random.default_rng(seed)
    inputs, labels = scale * rng.standard_normal((n, d)), rng.integers(2, size=n)
    weights = map_estimate(inputs, labels, alpha)
    gradient = inputs.T @ (labels - expit(inputs @ weights)) - alpha * weights
    step = np.linalg.solve(hessian(weights, inputs, alpha), gradient)
    assert np.all(np.abs(step) <= 1e-6 * (1e-3 + np.abs(weights)))


def test_the_mode_agrees_with_scikit_learn(problem):
    from sklearn.linear_model import LogisticRegression

    peer = LogisticRegression(C=1 / 0.5, fit_intercept=False, tol=1e-10, max_iter=1000).fit(*problem)
    assert map_estimate(*problem, 0.5) == pytest.approx(peer.coef_[0], rel=1e-5)


def test_the_hessian_is_that_of_the_log_joint(problem):
    inputs, labels = problem
    weights, h = np.array([0.4, -0.2]), 1e-4
    steps = h * np.eye(2)
    value = lambda w: -log_joint(w, inputs, labels, 0.5)  # noqa: E731
    numeric = [
        [
            (
                value(weights + a + b)
                - value(weights + a - b)
                - value(weights - a + b)
                + value(weights - a - b)
            )
            for b in steps
        ]
        for a in steps
    ]
    assert hessian(weights, inputs, 0.5) == pytest.approx(np.array(numeric) / (4 * h**2), rel=1e-5)


def test_the_posterior_agrees_with_adaptive_quadrature(problem, exact):
    inputs, labels = problem
    density = lambda b, a: np.exp(log_joint(np.array([a, b]), inputs, labels, 0.5) - exact.log_evidence)  # noqa: E731
    ends = [axis[[0, -1]] for axis in exact.axes]
    integral = lambda f: dblquad(  # noqa: E731
        lambda b, a: f(a, b) * density(b, a), *ends[0], *ends[1], epsabs=1e-9
    )[0]
    assert integral(lambda a, b: 1.0) == pytest.approx(1, abs=1e-8)
    assert integral(lambda a, b: a) == pytest.approx(exact.mean[0], abs=1e-7)
    point = np.array([1.5, -2.0])
    assert integral(lambda a, b: expit(a * point[0] + b * point[1])) == pytest.approx(
        exact.predict(point[None])[0, 1], abs=1e-7
    )


def test_a_finer_grid_changes_nothing(problem, exact):
    finer = ExactLogisticPosterior(*problem, prior_precision=0.5, points=501)
    assert exact.log_evidence == pytest.approx(finer.log_evidence, abs=1e-10)
    assert exact.mean == pytest.approx(finer.mean, abs=1e-10)
    assert exact.covariance == pytest.approx(finer.covariance, abs=1e-10)
    assert exact.predict(problem[0]) == pytest.approx(finer.predict(problem[0]), abs=1e-10)


def test_nothing_that_counts_lies_outside_the_grid(exact):
    border = [exact.log_density[i] for i in (0, -1)] + [exact.log_density[:, i] for i in (0, -1)]
    assert max(edge.max() for edge in border) < exact.log_density.max() - 39


def test_without_data_worth_mentioning_the_posterior_is_the_prior():
    exact = ExactLogisticPosterior(np.full((1, 2), 1e-9), [1], prior_precision=4.0)
    assert exact.mean == pytest.approx(np.zeros(2), abs=1e-8)
    assert exact.covariance == pytest.approx(np.eye(2) / 4, abs=1e-8)
    assert exact.log_evidence == pytest.approx(np.log(0.5), abs=1e-8)


def test_samples_have_the_moments_of_the_posterior(exact):
    draws = exact.sample(20_000, seed=3)
    error = np.sqrt(np.diag(exact.covariance) / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - exact.mean) < 4 * error)
    assert np.cov(draws.T) == pytest.approx(exact.covariance, rel=0.1)
    assert np.array_equal(draws, exact.sample(20_000, seed=3))


def test_total_variation_is_a_distance():
    rng = np.random.default_rng(0)
    p, q, r = rng.dirichlet(np.ones(4), size=(3, 50))
    assert total_variation(p, p) == pytest.approx(np.zeros(50))
    assert total_variation(p, q) == pytest.approx(total_variation(q, p))
    assert np.all(total_variation(p, r) <= total_variation(p, q) + total_variation(q, r) + 1e-12)
    assert total_variation([[1.0, 0.0]], [[0.0, 1.0]]) == pytest.approx([1.0])
    assert total_variation([[0.7, 0.3]], [[0.4, 0.6]]) == pytest.approx([0.3])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, y: map_estimate(x, y, 0.0), "prior_precision"),
        (lambda x, y: map_estimate(x, y + 1), "labels"),
        (lambda x, y: map_estimate(x[:5], y), "labels"),
        (lambda x, y: map_estimate(np.where(x > 1, np.nan, x), y), "inputs"),
        (lambda x, y: log_joint(np.zeros(3), x, y), "weights"),
        (lambda x, y: hessian(np.zeros((4, 2)), x), "weights"),
        (lambda x, y: ExactLogisticPosterior(x[:, :1], y), "inputs"),
        (lambda x, y: ExactLogisticPosterior(x, y, points=3), "points"),
        (lambda x, y: ExactLogisticPosterior(x, y).predict(x[0]), "inputs"),
        (lambda x, y: ExactLogisticPosterior(x, y).predict(np.zeros((3, 3))), "inputs"),
        (lambda x, y: ExactLogisticPosterior(x, y).sample(0), "draws"),
        (lambda x, y: total_variation([[0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]), "other"),
    ],
)
def test_what_makes_no_sense_is_named(problem, call, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        call(*problem)


@pytest.mark.parametrize("scale", [1e151, 1e200, 1e308])
def test_inputs_too_large_to_be_squared_are_named(scale):
    for use in (map_estimate, ExactLogisticPosterior, lambda x, y: hessian([0, 0], x)):
        with pytest.raises(ValueError, match=r"^inputs: expected numbers up to 1e\+150"):
            use(np.array([[scale, 1.0], [0.0, -scale / 2]]), [0, 1])


@pytest.mark.parametrize("scales", [[1e100, 1e100], [1.0, 1e8], [1e-8, 1e8]])
def test_units_do_not_matter_where_the_prior_hardly_does(scales):
    inputs, labels = data.logistic(n=40, seed=0)
    weights = map_estimate(inputs * scales, labels, 1e-6 * min(1, *scales) ** 2)
    assert weights * scales == pytest.approx(map_estimate(inputs, labels, 1e-6), rel=1e-3)
