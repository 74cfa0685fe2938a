"""Laplace: against the definition, against laplace-torch, and against the exact posterior."""

import importlib.util

import numpy as np
import pytest
from scipy.special import expit, softmax

from uqhelpers import data, laplace, metrics, models, training
from uqhelpers._torch import torch
from uqhelpers.laplace import LastLayerLaplace, kappa, laplace_torch, probit
from uqhelpers.logistic import ExactLogisticPosterior, hessian, map_estimate, total_variation

CLASSES, WIDTH = 4, 7


def needs_library():
    # Looked for, not imported: what it imports warns of its own future, and a warning is an error here.
    if importlib.util.find_spec("laplace") is None:
        pytest.skip("laplace-torch is not installed")


def classifier(seed=0, bias=True, dtype=torch.float64):
    with training.seeded(seed):
        return torch.nn.Sequential(
            torch.nn.Linear(3, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, CLASSES, bias=bias)
        ).to(dtype)


def labelled(seed=0, n=60):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 3)), np.arange(n) % CLASSES


def last_jacobian(net, x):
    """Derivative of the outputs in the last layer's parameters, in torch's order, by autograd."""
    with torch.no_grad():
        features = net[1](net[0](torch.tensor(x)))
    parameters = tuple(parameter.detach() for parameter in net[2].parameters())

    def outputs(*values):
        return torch.nn.functional.linear(features, *values)

    parts = torch.autograd.functional.jacobian(outputs, parameters)
    return torch.cat([part.flatten(2) for part in parts], dim=2).numpy()


# --- against the definition -------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_the_curvature_of_a_softmax_is_the_generalised_gauss_newton_matrix(bias):
    net, (x, y) = classifier(bias=bias), labelled()
    jacobian, p = last_jacobian(net, x), training.predict(net, x)
    inner = np.einsum("nc,ck->nck", p, np.eye(CLASSES)) - p[:, :, None] * p[:, None]
    expected = np.einsum("ncp,nck,nkq->pq", jacobian, inner, jacobian)
    posterior = LastLayerLaplace(net, prior_precision=2.5).fit(x, y)
    assert posterior.precision == pytest.approx(expected + 2.5 * np.eye(len(expected)), rel=1e-10, abs=1e-12)
    assert posterior.covariance == pytest.approx(np.linalg.inv(posterior.precision), rel=1e-8, abs=1e-12)
    assert posterior.mean == pytest.approx(
        torch.nn.utils.parameters_to_vector(net[2].parameters()).detach().numpy()
    )


def test_the_observed_and_the_expected_information_of_a_softmax_are_one():
    net, (x, y) = classifier(), labelled(n=20)
    with torch.no_grad():
        features = net[1](net[0](torch.tensor(x)))
    vector = torch.nn.utils.parameters_to_vector(net[2].parameters()).detach()

    def loss(vector):
        weight, bias = vector[: CLASSES * WIDTH].reshape(CLASSES, WIDTH), vector[CLASSES * WIDTH :]
        logits = torch.nn.functional.linear(features, weight, bias)
        return torch.nn.functional.cross_entropy(logits, torch.tensor(y), reduction="sum")

    observed = torch.autograd.functional.hessian(loss, vector).numpy()
    posterior = LastLayerLaplace(net, prior_precision=1.0).fit(x, y)
    assert posterior.precision - np.eye(len(observed)) == pytest.approx(observed, abs=1e-10)


def test_the_labels_do_not_move_the_curvature():
    net, (x, y) = classifier(), labelled()
    one = LastLayerLaplace(net).fit(x, y)
    other = LastLayerLaplace(net).fit(x, (y + 1) % CLASSES)
    assert np.array_equal(one.precision, other.precision)


def test_adding_one_number_to_all_logits_stays_as_uncertain_as_the_prior():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net, prior_precision=0.3).fit(x, y)
    common = np.tile(np.eye(WIDTH), CLASSES) / np.sqrt(CLASSES)  # the same change of every class's weights
    common = np.concatenate([common, np.zeros((WIDTH, CLASSES))], axis=1)
    variance = np.diag(common @ posterior.covariance @ common.T)
    assert variance == pytest.approx(np.full(WIDTH, 1 / 0.3), rel=1e-8)


def test_batches_make_no_difference():
    net, (x, y) = classifier(), labelled()
    whole, parts = LastLayerLaplace(net).fit(x, y), LastLayerLaplace(net).fit(x, y, batch_size=7)
    assert whole.precision == pytest.approx(parts.precision, rel=1e-12, abs=1e-12)
    assert whole.predict(x, batch_size=9) == pytest.approx(parts.predict(x), rel=1e-10)


def test_the_outputs_are_gaussian_with_the_jacobians_covariance():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    mean, covariance = posterior.output_distribution(x, batch_size=11)
    jacobian = last_jacobian(net, x)
    assert mean == pytest.approx(training.predict_outputs(net, x))
    expected = np.einsum("ncp,pq,nkq->nck", jacobian, posterior.covariance, jacobian)
    assert covariance == pytest.approx(expected, rel=1e-8)
    variance = np.einsum("ncc->nc", expected)
    assert posterior.predict(x) == pytest.approx(softmax(mean / np.sqrt(1 + np.pi * variance / 8), axis=1))


def test_the_model_is_left_as_it_came():
    net, (x, y) = classifier(), labelled()
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    LastLayerLaplace(net).fit(x, y).predict(x, "mc", samples=3)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not any(layer._forward_hooks for layer in net.modules())


def test_the_model_is_left_as_it_came_when_something_goes_wrong_half_way():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    with pytest.raises(RuntimeError):
        posterior.predict(np.zeros((2, 5)))
    assert not any(layer._forward_hooks for layer in net.modules())


# --- against laplace-torch --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both():
    needs_library()
    net, (x, y) = classifier(1), labelled(1)
    ours = LastLayerLaplace(net, prior_precision=0.7).fit(x, y)
    return ours, laplace_torch(net, x, y, prior_precision=0.7), x


def test_precision_and_covariance_are_those_of_laplace_torch(both):
    ours, theirs, _ = both
    precision = theirs.fitted.posterior_precision.numpy()
    assert ours.precision == pytest.approx(precision, rel=1e-5, abs=1e-5 * np.abs(precision).max())
    covariance = theirs.fitted.posterior_covariance.numpy()
    assert ours.covariance == pytest.approx(covariance, rel=1e-5, abs=1e-5 * np.abs(covariance).max())
    assert ours.mean == pytest.approx(theirs.fitted.mean.numpy())


def test_the_probit_predictive_is_that_of_laplace_torch(both):
    ours, theirs, x = both
    far = np.concatenate([x, 10 * x])
    assert ours.predict(far) == pytest.approx(theirs.predict(far), rel=1e-5)
    assert ours.predict(far, "map") == pytest.approx(theirs.predict(far, "map"), rel=1e-10)


def test_the_output_distribution_is_that_of_laplace_torch(both):
    ours, theirs, x = both
    mean, covariance = theirs.fitted._glm_predictive_distribution(torch.tensor(x))
    assert ours.output_distribution(x)[0] == pytest.approx(mean.numpy(), rel=1e-5)
    assert ours.output_distribution(x)[1] == pytest.approx(covariance.numpy(), rel=1e-5, abs=1e-8)


def test_the_monte_carlo_predictives_agree_within_their_error(both):
    ours, theirs, x = both
    samples = ours.sample(x, 2000, seed=0)
    error = samples.std(axis=0) / np.sqrt(1000)  # of both together
    assert np.all(np.abs(samples.mean(axis=0) - theirs.predict(x, "mc", samples=2000)) < 5 * error)
    assert np.all(np.abs(samples.mean(axis=0) - theirs.predict(x, "network", samples=2000)) < 5 * error)


def test_the_marginal_likelihood_is_that_of_laplace_torch(both):
    ours, theirs, _ = both
    assert ours.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood(), rel=1e-6)
    other = float(theirs.fitted.log_marginal_likelihood(prior_precision=torch.tensor([5.0])))
    assert ours.log_marginal_likelihood(5.0) == pytest.approx(other, rel=1e-6)
    theirs.fitted.prior_precision = 0.7


def regression_problem(outputs=1):
    rng = np.random.default_rng(2)
    with training.seeded(2):
        net = torch.nn.Sequential(
            torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs)
        ).double()
    x = rng.uniform(-2, 2, (40, 1))
    return net, x, np.sin(x @ np.ones((1, outputs))) + 0.2 * rng.standard_normal((40, outputs))


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_regression_is_that_of_laplace_torch_with_the_noise_added(outputs):
    needs_library()
    net, x, y = regression_problem(outputs)
    ours = LastLayerLaplace(net, "regression", prior_precision=0.5, noise_std=0.2).fit(x, y)
    theirs = laplace_torch(net, x, y, "regression", prior_precision=0.5, noise_std=0.2)
    precision = theirs.fitted.posterior_precision.numpy()
    assert ours.precision == pytest.approx(precision, rel=1e-5, abs=1e-5 * np.abs(precision).max())
    mean, variance = theirs.fitted(torch.tensor(x))
    variance = variance.diagonal(dim1=-2, dim2=-1).numpy()
    prediction = ours.predict_regression(x)
    assert prediction.mean == pytest.approx(mean.numpy())
    assert prediction.epistemic**2 == pytest.approx(variance, rel=1e-5)  # the library leaves the noise out
    assert prediction.total**2 == pytest.approx(variance + 0.04, rel=1e-5)
    wrapped = theirs.predict_regression(x)
    assert wrapped.total == pytest.approx(prediction.total, rel=1e-5)
    assert ours.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood(), rel=1e-6)
    assert np.einsum("ncc->nc", ours.output_distribution(x)[1]) == pytest.approx(prediction.epistemic**2)


@pytest.mark.parametrize("structure", laplace.HESSIANS)
@pytest.mark.parametrize("subset", laplace.SUBSETS)
def test_every_structure_of_laplace_torch_can_be_had(subset, structure):
    needs_library()
    net, (x, y) = classifier(dtype=torch.float32), labelled()
    state = torch.random.get_rng_state()
    posterior = laplace_torch(net, x, y, subset=subset, hessian=structure, tune=True)
    for method in ("probit", "mc", "network", "map"):
        probs = posterior.predict(x[:5], method, samples=3)
        assert probs.shape == (5, CLASSES)
        assert probs.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert posterior.prior_precision != 1
    assert np.array_equal(posterior.predict(x, "mc", samples=3), posterior.predict(x, "mc", samples=3))
    assert torch.equal(torch.random.get_rng_state(), state)


# --- the predictives --------------------------------------------------------------------------------------


def test_kappa_is_as_published():
    assert kappa([0.0]) == pytest.approx([1.0])
    assert kappa([8 / np.pi]) == pytest.approx([1 / np.sqrt(2)])
    grid = np.linspace(-40, 40, 80_001)
    for mean, variance in [(0.5, 1.0), (2.0, 4.0), (5.0, 25.0)]:
        weights = np.exp(-((grid - mean) ** 2) / (2 * variance))
        exact = (expit(grid) * weights).sum() / weights.sum()
        assert expit(kappa([variance])[0] * mean) == pytest.approx(exact, abs=0.02)


def test_samples_average_to_the_monte_carlo_predictive():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    samples = posterior.sample(x, 20, seed=4, batch_size=13)
    assert samples.shape == (20, 60, CLASSES)
    assert samples.mean(axis=0) == pytest.approx(posterior.predict(x, "mc", 20, seed=4))
    assert np.array_equal(samples, posterior.sample(x, 20, seed=4, batch_size=13))
    assert not np.allclose(samples, posterior.sample(x, 20, seed=5))


def test_sampled_logits_have_the_covariance_of_the_posterior():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    probs = posterior.sample(x[:1], 50_000, seed=0)[:, 0]
    differences = np.log(probs[:, 1:] / probs[:, :1])  # what the softmax keeps of the logits
    mean, covariance = posterior.output_distribution(x[:1])
    contrast = np.eye(CLASSES)[1:] - np.eye(CLASSES)[0]
    spread = contrast @ covariance[0] @ contrast.T
    assert differences.mean(axis=0) == pytest.approx(
        contrast @ mean[0], abs=4 * np.sqrt(spread.max() / 50_000)
    )
    assert np.cov(differences.T) == pytest.approx(spread, rel=0.1, abs=0.05)


def test_the_uncertainty_shrinks_with_data():
    net = classifier()
    variances = []
    for n in (50, 500, 5000):
        posterior = LastLayerLaplace(net, prior_precision=1e-3).fit(*labelled(n=n))
        variances.append(np.linalg.slogdet(posterior.covariance)[1])
    assert np.all(np.diff(variances) < 0)


def test_far_away_the_map_is_certain_and_laplace_is_not():
    for seed in range(5):
        toy = data.two_moons(100, seed=seed)
        with training.seeded(seed):
            net = models.MLP(2, 2, hidden=(32,))
        training.fit(net, *toy, epochs=100, learning_rate=1e-2, weight_decay=1e-3, seed=seed)
        posterior = LastLayerLaplace(net, prior_precision=0.1).fit(*toy)
        angle = np.linspace(0, 2 * np.pi, 50)
        far = 100 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        certain, doubtful = (posterior.predict(far, method).max(axis=1) for method in ("map", "probit"))
        assert np.mean(certain) > 0.95
        assert np.mean(doubtful) < np.mean(certain) - 0.05
        assert np.all(doubtful <= certain + 1e-9)
        # On a ray, the probit confidence has a limit below 1: mean and deviation both grow linearly.
        assert posterior.predict(10 * far).max(axis=1) == pytest.approx(doubtful, abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_over_a_wide_square_laplace_is_nearer_to_the_exact_predictive_than_the_map_is(seed):
    x, y = data.logistic(n=20, seed=seed)
    exact, mode = ExactLogisticPosterior(x, y), map_estimate(x, y)
    covariance = np.linalg.inv(hessian(mode, x))
    axis = np.linspace(-6, 6, 25)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    logit, variance = grid @ mode, np.einsum("nd,de,ne->n", grid, covariance, grid)
    draws = np.random.default_rng(0).multivariate_normal(mode, covariance, size=2000)
    true = exact.predict(grid)

    def distance(p):
        return total_variation(np.stack([1 - p, p], axis=1), true).mean()

    plain, closed, sampled = (
        distance(expit(logit)),
        distance(expit(kappa(variance) * logit)),
        distance(expit(grid @ draws.T).mean(axis=1)),
    )
    assert sampled < closed < 0.8 * plain
    # A Gaussian with the moments of the posterior is nearer still.
    best = np.random.default_rng(0).multivariate_normal(exact.mean, exact.covariance, size=2000)
    assert distance(expit(grid @ best.T).mean(axis=1)) < 0.5 * sampled


def test_with_a_layer_alone_the_two_class_softmax_is_the_logistic_regression():
    x, y = data.logistic(n=30, seed=1)
    # Weights ±w/2 with precision 2α each are a difference of w with precision α.
    alpha = 0.5
    mode = map_estimate(x, y, alpha)
    layer = torch.nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(np.stack([-mode / 2, mode / 2])))
    posterior = LastLayerLaplace(layer, prior_precision=2 * alpha).fit(x, y)
    contrast = np.concatenate([-np.eye(2), np.eye(2)], axis=1)
    covariance = contrast @ posterior.covariance @ contrast.T
    assert covariance == pytest.approx(np.linalg.inv(hessian(mode, x, alpha)), rel=1e-10)
    assert posterior.predict(x, "map")[:, 1] == pytest.approx(expit(x @ mode))


# --- the prior precision ----------------------------------------------------------------------------------


def test_the_tuned_precision_is_the_maximum_of_the_marginal_likelihood():
    net, (x, y) = classifier(), labelled()
    for start in (1e-6, 1.0, 1e6):  # a fixed number of gradient steps would depend on it
        posterior = LastLayerLaplace(net, prior_precision=start).fit(x, y)
        best = posterior.tune_prior_precision()
        grid = best * np.logspace(-6, 6, 25)
        values = [posterior.log_marginal_likelihood(alpha) for alpha in grid]
        assert np.argmax(values) == 12
        assert np.all(np.diff(values[:13]) > 0)
        assert np.all(np.diff(values[12:]) < 0)
        h = 1e-4
        slope = posterior.log_marginal_likelihood(best * (1 + h)) - posterior.log_marginal_likelihood(
            best * (1 - h)
        )
        assert abs(slope / (2 * h)) < 1e-5
        assert posterior.prior_precision == best


def test_predictions_follow_the_tuned_precision():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    before = posterior.predict(x)
    alpha = posterior.tune_prior_precision()
    fresh = LastLayerLaplace(net, prior_precision=alpha).fit(x, y)
    assert posterior.predict(x) == pytest.approx(fresh.predict(x))
    assert posterior.precision == pytest.approx(fresh.precision)
    assert not np.allclose(before, posterior.predict(x))


@pytest.mark.parametrize("outputs", [1, 2])
def test_prior_and_noise_are_chosen_together_in_a_regression(outputs):
    net, x, y = regression_problem(outputs)
    training.fit(net, x, y, epochs=200, learning_rate=1e-2, loss="mse")
    posterior = LastLayerLaplace(net, "regression").fit(x, y)
    alpha = posterior.tune_prior_precision(noise=True)
    best = posterior.log_marginal_likelihood()
    for factor in (0.9, 1.1):
        assert posterior.log_marginal_likelihood(alpha * factor) < best
        assert posterior.log_marginal_likelihood(noise_std=posterior.noise_std * factor) < best
    assert posterior.noise_std == pytest.approx(0.2, rel=0.4)
    # On a linear model that is trained to its mode, Laplace's estimate is the evidence itself.
    assert posterior.predict_regression(x).total == pytest.approx(
        np.sqrt(posterior.predict_regression(x).epistemic ** 2 + posterior.noise_std**2)
    )


def test_for_a_linear_gaussian_model_the_estimate_is_the_evidence():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 3))
    y = x @ [1.0, -0.5, 0.2] + 0.3 * rng.standard_normal(30)
    mode = np.linalg.solve(x.T @ x / 0.09 + 2 * np.eye(3), x.T @ y / 0.09)
    layer = torch.nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(mode[None]))
    posterior = LastLayerLaplace(layer, "regression", prior_precision=2.0, noise_std=0.3).fit(x, y)
    exact = multivariate_normal(np.zeros(30), x @ x.T / 2 + 0.09 * np.eye(30)).logpdf(y)
    assert posterior.log_marginal_likelihood() == pytest.approx(exact)


def test_validation_takes_the_candidate_that_predicts_best():
    net, (x, y) = classifier(), labelled()
    held_x, held_y = labelled(seed=7)
    posterior = LastLayerLaplace(net).fit(x, y)
    candidates = np.logspace(-3, 3, 13)
    best = posterior.tune_prior_precision(held_x, held_y, "validation", candidates)
    scores = []
    for alpha in candidates:
        probs = LastLayerLaplace(net, prior_precision=alpha).fit(x, y).predict(held_x)
        scores.append(np.log(probs[np.arange(60), held_y]).sum())
    assert posterior._held_out(held_x, held_y, candidates) == pytest.approx(scores, rel=1e-8)
    assert best == candidates[np.argmax(scores)]


def test_validation_of_a_regression_counts_the_noise():
    from scipy.stats import norm

    net, x, y = regression_problem(2)
    posterior = LastLayerLaplace(net, "regression", noise_std=0.3).fit(x, y)
    candidates = np.logspace(-2, 2, 5)
    scores = []
    for alpha in candidates:
        p = LastLayerLaplace(net, "regression", prior_precision=alpha, noise_std=0.3).fit(x, y)
        p = p.predict_regression(x)
        scores.append(norm(p.mean, p.total).logpdf(y).sum())
    assert posterior._held_out(x, y, candidates) == pytest.approx(scores, rel=1e-8)


# --- what it costs ----------------------------------------------------------------------------------------


def test_the_state_does_not_grow_with_the_data():
    net = classifier()
    few, many = (LastLayerLaplace(net).fit(*labelled(n=n)).state_bytes for n in (20, 2000))
    assert few == many


def test_the_benchmark_measures_every_row():
    bench = pytest.importorskip("benchmarks.bench_laplace", reason="benchmarks/ is not beside the tests")
    table = bench.rows(inputs=400, features=6, classes=3, share=2)
    assert [entry["name"] for entry in table] == [
        "last-layer Laplace, fit",
        "last-layer Laplace, probit predictive",
    ]
    for entry in table:
        assert entry["ours_s"] > 0
        assert entry["baseline_s"] is None or entry["ratio"] == pytest.approx(
            entry["ours_s"] / entry["baseline_s"]
        )
    assert table[0]["state_bytes"] > 0


def test_fit_and_predict_are_no_slower_than_laplace_torch():
    needs_library()
    bench = pytest.importorskip("benchmarks.bench_laplace", reason="benchmarks/ is not beside the tests")
    for entry in bench.rows(inputs=2000, features=64, classes=10, share=1):
        assert entry["ratio"] < 1  # measured: a tenth and less


# --- what makes no sense ----------------------------------------------------------------------------------


def with_softmax():
    return torch.nn.Sequential(torch.nn.Linear(3, CLASSES), torch.nn.Softmax(dim=-1)).double()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda n, x, y: LastLayerLaplace("net"), "model"),
        (lambda n, x, y: LastLayerLaplace(n, "poisson"), "likelihood"),
        (lambda n, x, y: LastLayerLaplace(n, prior_precision=0), "prior_precision"),
        (lambda n, x, y: LastLayerLaplace(n, "regression", noise_std=-1), "noise_std"),
        (lambda n, x, y: LastLayerLaplace(n).predict(x), "fit"),
        (lambda n, x, y: LastLayerLaplace(n).precision, "fit"),
        (lambda n, x, y: LastLayerLaplace(n).log_marginal_likelihood(), "fit"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y[:-1]), "targets"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y + 1), "targets"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x * np.nan, y), "inputs"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x[:0], y[:0]), "inputs"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y, batch_size=0), "batch_size"),
        (lambda n, x, y: LastLayerLaplace(with_softmax()).fit(x, y), "model.*softmax"),
        (
            lambda n, x, y: LastLayerLaplace(torch.nn.Linear(3, 1).double()).fit(x, 0 * y),
            "model.*two outputs",
        ),
        (lambda n, x, y: LastLayerLaplace(torch.nn.Linear(3, 9000)).fit(x, y), "model.*kron"),
        (lambda n, x, y: LastLayerLaplace(n, "regression").fit(x, y), "targets"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y).predict(x, "sampling"), "method"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y).predict(x, "mc", samples=0), "samples"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y).predict_regression(x), "predict_regression"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y).log_marginal_likelihood(-1), "prior_precision"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y).tune_prior_precision(x, y), "inputs"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y).tune_prior_precision(noise=True), "noise"),
        (lambda n, x, y: LastLayerLaplace(n).fit(x, y).tune_prior_precision(method="validation"), "inputs"),
        (
            lambda n, x, y: LastLayerLaplace(n).fit(x, y).tune_prior_precision(x, y, "validation", [0.0]),
            "candidates",
        ),
        (lambda n, x, y: kappa([-1.0]), "variance"),
        (lambda n, x, y: probit(np.zeros((2, 3)), np.zeros((2, 2))), "variance"),
        (lambda n, x, y: laplace_torch("net", x, y), "model"),
        (lambda n, x, y: laplace_torch(n, x, y, "poisson"), "likelihood"),
        (lambda n, x, y: laplace_torch(n, x, y, subset="first_layer"), "subset"),
        (lambda n, x, y: laplace_torch(n, x, y, hessian="lowrank"), "hessian"),
        (lambda n, x, y: laplace_torch(n, x, y, prior_precision=-1), "prior_precision"),
        (lambda n, x, y: laplace_torch(n, x, y, noise_std=2), "noise_std"),
        (lambda n, x, y: laplace_torch(n, x, y + 1), "targets"),
        (lambda n, x, y: laplace_torch(n, x, y, "regression"), "targets"),
    ],
)
def test_what_makes_no_sense_is_named(call, name):
    with pytest.raises(ValueError, match=f"(?s)^{name}"):
        call(classifier(), *labelled())


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "laplace", None)
    with pytest.raises(ModuleNotFoundError, match="pip install laplace-torch"):
        laplace_torch(classifier(), *labelled())


def test_weights_of_zero_have_no_most_probable_prior():
    layer = torch.nn.Linear(3, CLASSES).double()
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    posterior = LastLayerLaplace(layer).fit(*labelled())
    with pytest.raises(ValueError, match=r"^model"):
        posterior.tune_prior_precision()


# --- what once went wrong in silence ----------------------------------------------------------------------


def test_a_search_that_ends_at_its_bound_says_so():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    held_x, held_y = labelled(seed=9)  # labels at random: the network deserves no trust
    with pytest.warns(RuntimeWarning, match=r"0\.001, is the smallest"):
        posterior.tune_prior_precision(held_x, held_y, "validation", [1.0, 1e-3, 10.0])
    sure = net(torch.tensor(x)).argmax(1).numpy()  # labels that the network knew
    with pytest.warns(RuntimeWarning, match=r"1e\+04, is the largest"):
        posterior.tune_prior_precision(x, sure, "validation")
    assert posterior.tune_prior_precision(x, sure, "validation", [10.0]) == 10  # nothing was searched


def saturated(net):
    """The network with a last layer so large that every softmax is 0 or 1, to the last digit."""
    with torch.no_grad():
        net[2].weight.mul_(1e7)
    return net


def test_a_network_without_any_doubt_is_told_from_one_without_weights():
    x, y = labelled()
    posterior = LastLayerLaplace(saturated(classifier())).fit(x, y)
    with pytest.raises(ValueError, match="sure of every training input"):
        posterior.tune_prior_precision()
    without = classifier(bias=False)
    torch.nn.init.zeros_(without[2].weight)
    with pytest.raises(ValueError, match="whose weights are not all 0"):
        LastLayerLaplace(without).fit(x, y).tune_prior_precision()
    blind = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, CLASSES, bias=False)).double()
    with pytest.raises(ValueError, match="whose features are not all 0"):
        LastLayerLaplace(blind).fit(-np.abs(x), y).tune_prior_precision()


class Repeating(torch.nn.Module):
    """A network whose last layer has worked before."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(CLASSES, CLASSES)

    def forward(self, inputs):
        return self.layer(torch.tanh(self.layer(inputs)))


def test_a_last_layer_that_also_works_earlier_is_refused():
    x, y = np.random.default_rng(0).standard_normal((20, CLASSES)), np.arange(20) % CLASSES
    with pytest.raises(ValueError, match="runs once"):
        LastLayerLaplace(Repeating()).fit(x, y)


def test_a_last_layer_that_shares_its_weights_is_refused():
    first, last = torch.nn.Linear(CLASSES, CLASSES), torch.nn.Linear(CLASSES, CLASSES)
    last.weight = first.weight
    x, y = np.random.default_rng(0).standard_normal((20, CLASSES)), np.arange(20) % CLASSES
    with pytest.raises(ValueError, match="weights of its own, got weights that '0' holds"):
        LastLayerLaplace(torch.nn.Sequential(first, torch.nn.Tanh(), last)).fit(x, y)


def test_what_was_tuned_to_other_data_is_forgotten():
    net, x, y = regression_problem(1)
    posterior = LastLayerLaplace(net, "regression", prior_precision=3.0, noise_std=0.5).fit(x, y)
    assert posterior.tune_prior_precision(noise=True) != 3
    posterior.fit(x[:10], y[:10])
    assert (posterior.prior_precision, posterior.noise_std) == (3, 0.5)


def test_a_precision_that_is_set_is_the_one_in_use():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    posterior.predict(x)  # what was computed with α = 1 must not stay
    posterior.prior_precision = 50.0
    anew = LastLayerLaplace(net, prior_precision=50.0).fit(x, y)
    assert np.array_equal(posterior.predict(x), anew.predict(x))
    with pytest.raises(ValueError, match="prior_precision"):
        posterior.prior_precision = -1


def test_a_fit_that_fails_leaves_the_posterior_as_it_was():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    before = posterior.predict(x), posterior.log_marginal_likelihood()
    other = np.where(np.arange(60) == 59, np.inf, x[:, 0])
    for inputs, labels in ((x, y + 1), (x[:50], y), (np.column_stack([other, x[:, 1:]]), y)):
        with pytest.raises(ValueError, match=r"targets|inputs"):
            posterior.fit(inputs, labels)
    torch.nn.init.zeros_(net[2].bias)  # a fit reads the weights anew, one that failed has not
    with pytest.raises(ValueError, match="targets"):
        posterior.fit(x, y + 1)
    net[2].bias.data += 3
    assert posterior.log_marginal_likelihood() == before[1]
    assert np.array_equal(posterior.predict(x), before[0])


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda net, x, y: LastLayerLaplace(net, noise_std=0.3), "noise_std"),
        (lambda net, x, y: LastLayerLaplace(net).fit(x, y).log_marginal_likelihood(noise_std=2), "noise_std"),
        (
            lambda net, x, y: LastLayerLaplace(net).fit(x, y).tune_prior_precision(candidates=[1.0, 2.0]),
            "candidates",
        ),
        (lambda net, x, y: LastLayerLaplace(net).fit(x, y).tune_prior_precision(x, y), "inputs"),
    ],
)
def test_a_setting_without_effect_is_refused(use, name):
    with pytest.raises(ValueError, match=f"^{name}:"):
        use(classifier(), *labelled())


def test_masked_arrays_are_refused_by_name():
    net, (x, y) = classifier(), labelled()
    with pytest.raises(ValueError, match=r"inputs: .*mask"):
        LastLayerLaplace(net).fit(np.ma.masked_greater(x, 1), y)
    with pytest.raises(ValueError, match=r"targets: .*mask"):
        LastLayerLaplace(net).fit(x, np.ma.masked_equal(y, 1))


def test_one_output_is_no_softmax():
    needs_library()
    net, (x, _) = torch.nn.Linear(3, 1), labelled()
    for fit in (
        lambda: LastLayerLaplace(net).fit(x, np.zeros(60)),
        lambda: laplace_torch(net, x, np.zeros(60)),
    ):
        with pytest.raises(ValueError, match="at least two outputs"):
            fit()


# --- differences of logits --------------------------------------------------------------------------------


def gaussian_logits(seed, inputs=6, classes=3):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((inputs, classes, classes))
    return 2 * rng.standard_normal((inputs, classes)), root @ root.swapaxes(1, 2)


def test_a_constant_added_to_all_logits_changes_nothing():
    mean, covariance = gaussian_logits(0)
    moved = mean + 100, covariance + 5  # a constant, and noise that all logits share
    assert laplace.pairwise_probit(*moved) == pytest.approx(laplace.pairwise_probit(mean, covariance))
    variance = np.einsum("ncc->nc", covariance)
    assert np.abs(probit(mean + 100, variance) - probit(mean, variance)).max() > 0.1  # the other formula


def test_of_two_classes_the_difference_is_mackays_formula():
    mean, covariance = gaussian_logits(1, classes=2)
    variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    expected = expit(kappa(variance) * (mean[:, 1] - mean[:, 0]))
    assert laplace.pairwise_probit(mean, covariance)[:, 1] == pytest.approx(expected, rel=1e-12)


def test_without_variance_differences_give_the_softmax():
    mean, covariance = gaussian_logits(2, classes=5)
    assert laplace.pairwise_probit(mean, 0 * covariance) == pytest.approx(softmax(mean, axis=1), rel=1e-12)


def test_differences_are_nearer_to_sampling_where_logits_move_together():
    far = [[], []]
    for seed in range(5):
        mean, covariance = gaussian_logits(seed, inputs=50)
        covariance = covariance + 20 * np.arange(1, 51)[:, None, None] / 50
        root, rng = np.linalg.cholesky(covariance), np.random.default_rng(seed + 100)
        drawn = mean + np.einsum("nck,snk->snc", root, rng.standard_normal((4000, 50, 3)))
        sampled = softmax(drawn, axis=-1).mean(axis=0)
        far[0].append(total_variation(laplace.pairwise_probit(mean, covariance), sampled).mean())
        far[1].append(total_variation(probit(mean, np.einsum("ncc->nc", covariance)), sampled).mean())
    assert max(far[0]) < 0.5 * min(far[1])


def test_predict_knows_the_formula_of_differences():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    expected = laplace.pairwise_probit(*posterior.output_distribution(x))
    assert np.array_equal(posterior.predict(x, "pairwise"), expected)


def test_a_covariance_is_expected_of_differences():
    mean, covariance = gaussian_logits(0)
    with pytest.raises(ValueError, match="covariance: expected shape"):
        laplace.pairwise_probit(mean, covariance[:, :2])
    with pytest.raises(ValueError, match="covariance: expected a covariance"):
        laplace.pairwise_probit(mean, covariance + 50 * (1 - np.eye(3)))


# --- the parts, and loaders -------------------------------------------------------------------------------


def test_the_parts_are_those_of_the_sampled_layers():
    net, (x, y) = classifier(), labelled()
    posterior = LastLayerLaplace(net).fit(x, y)
    got = laplace.predict(posterior, x, samples=30, seed=4, batch_size=7)
    expected = metrics.decompose(posterior.sample(x, samples=30, seed=4))
    for part in ("mean", "total", "aleatoric", "epistemic", "confidence"):
        assert getattr(got, part) == pytest.approx(getattr(expected, part), abs=1e-12)


def test_the_library_gives_the_same_parts():
    needs_library()
    net, (x, y) = classifier(), labelled()
    ours = laplace.predict(LastLayerLaplace(net).fit(x, y), x, samples=4000)
    theirs = laplace.predict(laplace_torch(net, x, y), x, samples=4000)
    assert theirs.epistemic == pytest.approx(ours.epistemic, abs=0.02)
    assert theirs.mean == pytest.approx(ours.mean, abs=0.02)


def test_the_parts_of_a_regression_are_its_standard_deviations():
    net, x, y = regression_problem(1)
    posterior = LastLayerLaplace(net, "regression").fit(x, y)
    got, expected = laplace.predict(posterior, x), posterior.predict_regression(x)
    assert np.array_equal(got.total, expected.total)
    assert np.array_equal(got.epistemic, expected.epistemic)
    with pytest.raises(
        ValueError, match="posterior: expected a fitted Laplace approximation, got Sequential"
    ):
        laplace.predict(net, x)


def loader(x, y, shuffle=False):
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=11, shuffle=shuffle
    )


def test_a_loader_gives_what_its_arrays_give():
    net, (x, y) = classifier(), labelled()
    posterior, batched = (
        LastLayerLaplace(net).fit(x, y),
        LastLayerLaplace(net).fit(loader(x, y, shuffle=True)),
    )
    assert batched.precision == pytest.approx(posterior.precision, rel=1e-10, abs=1e-12)
    assert batched.predict(loader(x, y)) == pytest.approx(posterior.predict(x), rel=1e-10)
    held_out = labelled(seed=7)
    chosen = posterior.tune_prior_precision(*held_out, method="validation", candidates=np.logspace(-3, 3, 13))
    assert chosen == batched.tune_prior_precision(
        loader(*held_out), method="validation", candidates=np.logspace(-3, 3, 13)
    )


def test_the_library_takes_a_loader():
    needs_library()
    net, (x, y) = classifier(), labelled()
    expected = laplace_torch(net, x, y).predict(x)
    assert laplace_torch(net, loader(x, y)).predict(x) == pytest.approx(expected, rel=1e-8)


def test_the_widest_logits_shrink_to_what_is_left_and_not_to_nothing():
    assert laplace.kappa([1.7e308])[0] == pytest.approx(np.sqrt(8 / np.pi / 1.7e308))
    assert laplace.probit([[1e200, 0.0]], [[1.7e308, 1.0]])[0, 0] == 1


@pytest.mark.parametrize("subset", ["last_layer", "all"])
def test_a_softmax_at_the_end_is_not_handed_to_the_library(subset):
    with training.seeded(0):
        net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softmax(1))
    x, labels = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    with pytest.raises(ValueError, match="model: expected logits, got rows that sum to 1"):
        laplace_torch(net, x, labels, subset=subset)
