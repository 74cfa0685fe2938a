import contextlib
import copy
import importlib.util
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.book import ROOT
from uqhelpers import data, logistic, metrics, models, training
from uqhelpers import variational_inference as vi
from uqhelpers._torch import torch

nn = torch.nn


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).random((12, 1, 8, 8), dtype=np.float32)


def mlp(seed=0, **options):
    with training.seeded(seed):
        return vi.make_variational(models.MLP(64, 10, hidden=(16,)), **options).eval()


def conv(seed=0, **options):
    with training.seeded(seed):
        return vi.make_variational(models.SimpleNet((1, 8, 8), dropout=0.3), **options).eval()


def layer(make=vi.LinearVariational, sizes=(5, 3), seed=0, spread=0.5, **options):
    """A layer in float64 whose means and widths are all different."""
    with training.seeded(seed):
        made = make(*sizes, **options).double()
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                parameter.normal_(0 if "mean" in name else -1, spread)
    return made


def moments(values):
    """Mean and variance of draws along the first axis, with their standard errors."""
    values = np.asarray(values)
    variance = values.var(0)
    fourth = ((values - values.mean(0)) ** 4).mean(0)
    n = len(values)
    return values.mean(0), variance, np.sqrt(variance / n), np.sqrt((fourth - variance**2) / n)


# --- the divergence and its share -----------------------------------------------------------------


@pytest.mark.parametrize(("make", "sizes"), [(vi.LinearVariational, (7, 4)), (vi.ConvVariational, (2, 4, 3))])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("prior_std", [0.1, 1.0, 3.0])
def test_the_divergence_is_that_of_torch(make, sizes, bias, prior_std):
    ours = layer(make, sizes, bias=bias, prior_std=prior_std)
    normal, prior = (
        torch.distributions.Normal,
        torch.distributions.Normal(*torch.tensor([0.0, prior_std], dtype=torch.float64)),
    )
    pairs = [(ours.weight_mean, ours.weight_rho)] + ([(ours.bias_mean, ours.bias_rho)] if bias else [])
    theirs = sum(
        torch.distributions.kl_divergence(normal(mean, nn.functional.softplus(rho)), prior).sum()
        for mean, rho in pairs
    )
    assert ours.kl().item() == pytest.approx(theirs.item(), rel=1e-12)
    parameters = [parameter for pair in pairs for parameter in pair]
    for mine, reference in zip(
        torch.autograd.grad(ours.kl() * 2, parameters),
        torch.autograd.grad(theirs * 2, parameters),
        strict=True,
    ):
        assert torch.allclose(mine, reference, rtol=1e-10, atol=1e-12)


def test_a_posterior_that_is_the_prior_costs_nothing():
    ours = vi.LinearVariational(6, 5, prior_std=0.7, initial_std=0.7).double()
    with torch.no_grad():
        ours.weight_mean.zero_()
        ours.bias_mean.zero_()
    assert ours.kl().item() == pytest.approx(0, abs=1e-5)  # the start was rounded to float32
    assert ours.kl().item() >= -1e-6


def test_rho_goes_through_softplus_and_is_no_log_variance():
    ours = layer()
    assert torch.allclose(ours.weight_std, torch.log1p(torch.exp(ours.weight_rho)))
    with torch.no_grad():
        ours.weight_rho.fill_(-20)
    assert ours.weight_std.max().item() == pytest.approx(np.exp(-20), rel=1e-6)
    assert vi.LinearVariational(2, 2, initial_std=0.03).weight_std.mean().item() == pytest.approx(
        0.03, rel=1e-5
    )
    assert vi.LinearVariational(2, 2, initial_std=50.0).bias_std.mean().item() == pytest.approx(50)


def test_the_divergence_of_a_network_is_the_sum_over_its_layers():
    net = conv()
    assert vi.kl_of(net).item() == pytest.approx(sum(part.kl().item() for part in vi.variational_layers(net)))
    twice = nn.Sequential(shared := vi.LinearVariational(3, 3), nn.ReLU(), shared)
    assert vi.kl_of(twice).item() == pytest.approx(shared.kl().item())


@given(kind=st.sampled_from(vi.KL_WEIGHTS), batches=st.integers(1, 5000))
def test_the_shares_of_an_epoch_sum_to_one(kind, batches):
    shares = vi.minibatch_weights(kind, batches)
    assert shares.shape == (batches,)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(shares >= 0)
    assert np.all(np.diff(shares) <= 0)


def test_the_shares_are_the_published_ones():
    assert np.allclose(vi.minibatch_weights("blundell", 3), [4 / 7, 2 / 7, 1 / 7], rtol=1e-15)
    assert np.allclose(vi.minibatch_weights("uniform", 4), 0.25)
    assert vi.minibatch_weights("blundell", 2000)[0] == pytest.approx(0.5)  # 2 to the 2000 is no float


# --- what a layer puts out ------------------------------------------------------------------------


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_both_reparameterisations_have_the_mean_and_variance_of_the_formula(local, bias):
    """Mean x μ + b, variance x² σ² + σ_b²; false alarm about 1 in 10,000 a case."""
    ours = layer(bias=bias, local_reparameterisation=local).train()
    x = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with training.seeded(1), torch.no_grad():
        draws = torch.stack([ours(x) for _ in range(20_000)]).numpy()
        mean = nn.functional.linear(x, ours.weight_mean, ours.bias_mean).numpy()
        spread = None if ours.bias_std is None else ours.bias_std**2
        variance = nn.functional.linear(x**2, ours.weight_std**2, spread).numpy()
    got_mean, got_variance, mean_error, variance_error = moments(draws)
    assert np.all(np.abs(got_mean - mean) < 4.5 * mean_error)
    assert np.all(np.abs(got_variance - variance) < 4.5 * variance_error)


def test_both_reparameterisations_of_a_convolution_agree_place_by_place():
    x = torch.randn(1, 2, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    results = []
    for local in (True, False):
        ours = layer(vi.ConvVariational, (2, 3, 3), padding=1, local_reparameterisation=local).train()
        with training.seeded(2), torch.no_grad():
            results.append(moments(torch.stack([ours(x) for _ in range(8000)]).numpy()))
    (mean, variance, error, variance_error), (other, other_variance, *_) = results
    assert np.all(np.abs(mean - other) < 5 * np.sqrt(2) * error)
    assert np.all(np.abs(variance - other_variance) < 5 * np.sqrt(2) * variance_error)


def test_local_noise_of_a_convolution_forgets_that_places_share_their_weights():
    x = torch.ones(1, 1, 3, 3, dtype=torch.float64)  # equal surroundings: with shared weights, equal outputs
    ours = layer(vi.ConvVariational, (1, 1, 1)).train()
    with training.seeded(0):
        assert ours(x).std() > 0.01
        with vi.drawn_weights(ours):
            assert ours(x).std() < 1e-12
    ours.local_reparameterisation = False
    assert ours(x).std() < 1e-12


def test_local_noise_differs_from_input_to_input():
    x = torch.ones(2, 5, dtype=torch.float64)
    with training.seeded(0):
        assert not torch.allclose(*layer().train()(x))
        assert torch.allclose(*layer(local_reparameterisation=False).train()(x))


def test_the_gradient_of_the_local_noise_varies_less():
    x = torch.randn(64, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def scatter(local):
        ours = layer(local_reparameterisation=local).train()
        with training.seeded(0):
            gradients = [torch.autograd.grad(ours(x).square().sum(), ours.weight_rho)[0] for _ in range(400)]
        return torch.stack(gradients).var(0).sum().item(), torch.stack(gradients).mean(0).sum().item()

    (local, local_mean), (shared, shared_mean) = scatter(True), scatter(False)
    assert local < 0.3 * shared
    assert local_mean == pytest.approx(shared_mean, rel=0.1)  # the same expectation


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_gradients_are_those_of_finite_differences(local, bias):
    ours = layer(bias=bias, local_reparameterisation=local).train()
    x = torch.randn(3, 5, dtype=torch.float64)
    names = [name for name, _ in ours.named_parameters()]

    def value(*parameters):
        with training.seeded(5):
            made = torch.func.functional_call(ours, dict(zip(names, parameters, strict=True)), (x,))
        return made.sin().sum() + vi.layers.kl_of_layers([_with(ours, names, parameters)])

    assert torch.autograd.gradcheck(value, tuple(ours.parameters()))


def _with(layer, names, parameters):
    """A stand-in with other parameters: what the divergence looks at."""
    stand_in = type("Layer", (), {"prior_std": layer.prior_std, "bias_mean": None})()
    for name, parameter in zip(names, parameters, strict=True):
        setattr(stand_in, name, parameter)
    return stand_in


def test_inputs_of_zero_have_a_finite_gradient():
    ours = vi.LinearVariational(3, 2, bias=False).train()
    ours(torch.zeros(4, 3)).sum().backward()
    assert torch.isfinite(ours.weight_rho.grad).all()
    assert torch.isfinite(ours.weight_mean.grad).all()


@pytest.mark.parametrize(
    "options",
    [{"stride": 2}, {"padding": "same"}, {"padding": (1, 0), "dilation": 2}, {"groups": 2}, {"bias": False}],
)
def test_a_convolution_at_its_means_is_that_of_torch(options):
    plain = nn.Conv2d(4, 6, (3, 1), **options)
    ours = vi.make_variational(nn.Sequential(plain))[0].eval()
    x = torch.randn(2, 4, 9, 8)
    assert torch.allclose(ours(x), plain(x), atol=1e-6)
    assert ours.train()(x).shape == plain(x).shape


def test_layers_take_any_leading_axes():
    ours = vi.LinearVariational(3, 2)
    for mode in (True, False):
        assert ours.train(mode)(torch.zeros(4, 5, 3)).shape == (4, 5, 2)


def test_a_layer_says_what_it_is():
    assert (
        repr(vi.LinearVariational(3, 2, prior_std=0.5)) == "LinearVariational(3, 2, bias=True, prior_std=0.5)"
    )
    text = repr(vi.ConvVariational(4, 2, 3, groups=2, bias=False, local_reparameterisation=False))
    assert "4, 2, kernel_size=(3, 3), bias=False" in text
    assert "local_reparameterisation=False" in text


# --- conversion -----------------------------------------------------------------------------------


def test_a_converted_network_says_at_its_means_what_the_network_said(images):
    with training.seeded(0):
        plain = models.SimpleNet((1, 8, 8))
    before = copy.deepcopy(plain.state_dict())
    ours = vi.make_variational(plain, prior_std=0.5)
    assert np.allclose(training.predict(ours, images), training.predict(plain, images), atol=1e-6)
    assert {type(part) for part in vi.variational_layers(ours)} == {vi.LinearVariational, vi.ConvVariational}
    assert len(vi.variational_layers(ours)) == 4
    assert all(torch.equal(before[name], value) for name, value in plain.state_dict().items())
    assert not any(isinstance(part, nn.Linear | nn.Conv2d) for part in ours.modules())


def test_a_layer_that_is_used_twice_stays_one():
    shared = nn.Linear(3, 3)
    ours = vi.make_variational(nn.Sequential(shared, nn.ReLU(), shared))
    assert ours[0] is ours[2]
    assert isinstance(vi.make_variational(nn.Linear(2, 1)), vi.LinearVariational)


def test_precision_and_mode_are_kept():
    ours = vi.make_variational(nn.Sequential(nn.Linear(3, 3)).double().eval())
    assert ours[0].weight_rho.dtype == torch.float64
    assert not ours[0].training


def test_what_computes_something_else_is_left_alone():
    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    net = nn.Sequential(Scaled(2, 2), nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"))
    with pytest.raises(ValueError, match="zero-padded"):
        vi.make_variational(net)


def test_layers_can_be_pickled_copied_and_saved():
    net = mlp()
    with training.seeded(0):
        other = mlp(seed=1)
    other.load_state_dict(pickle.loads(pickle.dumps(copy.deepcopy(net))).state_dict())
    assert vi.kl_of(other).item() == pytest.approx(vi.kl_of(net).item())


# --- the bound and the posterior it leads to ------------------------------------------------------


def linear_gaussian(seed, n=200, noise=0.5):
    """Correlated inputs, and the exact posterior of the weights under a standard normal prior."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) @ np.array([[1, 0.8, 0], [0, 0.6, 0.5], [0, 0, 0.7]]).T
    y = x @ rng.normal(size=3) + noise * rng.normal(size=n)
    precision = x.T @ x / noise**2 + np.eye(3)
    mean = np.linalg.solve(precision, x.T @ y / noise**2)
    log_evidence = -0.5 * (
        n * np.log(2 * np.pi * noise**2)
        + y @ y / noise**2
        - mean @ precision @ mean
        + np.linalg.slogdet(precision)[1]
    )
    return x, y, precision, mean, log_evidence


@pytest.fixture(scope="module")
def fitted():
    x, y, precision, mean, log_evidence = linear_gaussian(0)
    with training.seeded(0):
        net = vi.LinearVariational(3, 1, bias=False).double()
    history = vi.fit_variational(
        net, x, y, epochs=600, batch_size=len(x), learning_rate=0.05, likelihood="gaussian", noise_std=0.5,
        schedule="cosine", samples=4, device="cpu", progress=False,
    )  # fmt: skip
    return net, history, (x, y, precision, mean, log_evidence)


def test_a_linear_gaussian_model_recovers_the_exact_mean_and_the_inverse_precisions(fitted):
    net, _, (_, _, precision, mean, _) = fitted
    got_mean = net.weight_mean.detach().numpy()[0]
    got_variance = net.weight_std.detach().numpy()[0] ** 2
    assert np.all(np.abs(got_mean - mean) * np.sqrt(np.diag(precision)) < 0.05)  # in standard deviations
    assert np.allclose(got_variance, 1 / np.diag(precision), rtol=0.08)
    assert np.all(got_variance < 0.75 * np.diag(np.linalg.inv(precision)))  # below the marginal variances


def test_the_bound_lies_below_the_evidence_by_the_divergence_from_the_posterior(fitted):
    net, _, (x, y, precision, mean, log_evidence) = fitted
    bound = vi.evidence_bound(net, x, y, likelihood="gaussian", noise_std=0.5, samples=1000)
    q = torch.distributions.MultivariateNormal(
        net.weight_mean[0].detach(), torch.diag(net.weight_std[0].detach() ** 2)
    )
    exact = torch.distributions.MultivariateNormal(
        torch.as_tensor(mean), precision_matrix=torch.as_tensor(precision)
    )
    gap = torch.distributions.kl_divergence(q, exact).item()
    assert abs(log_evidence - bound.value - gap) < 4.5 * bound.standard_error
    assert bound.value == pytest.approx(bound.log_likelihood - bound.kl)
    least = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    assert least <= gap < 1.02 * least + 0.01  # what no product of Gaussians can undercut


def test_training_reports_what_it_minimised(fitted):
    _, history, _ = fitted
    assert np.allclose(history.loss, history.negative_bound)
    assert np.allclose(history.loss, history.negative_log_likelihood + history.kl / 200)
    assert history.loss[-50:].mean() < history.loss[:50].mean()
    assert history.seconds > 0


def test_logistic_regression_comes_closer_to_the_exact_prediction_than_its_mode_does():
    grid = np.stack(np.meshgrid(*[np.linspace(-6, 6, 25)] * 2), axis=-1).reshape(-1, 2)
    for seed in range(2):
        toy = data.logistic(20, seed=seed)
        exact = logistic.ExactLogisticPosterior(toy.inputs, toy.targets, 0.1)
        with training.seeded(seed):
            net = vi.LinearVariational(2, 1, bias=False, prior_std=0.1**-0.5, initial_std=0.3).double()
        vi.fit_variational(
            net, toy.inputs, toy.targets, epochs=400, learning_rate=0.1, likelihood="bernoulli",
            schedule="cosine", samples=4, device="cpu", progress=False,
        )  # fmt: skip
        odds = grid @ logistic.map_estimate(toy.inputs, toy.targets, 0.1)
        mode = np.stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))], axis=1)
        probs = vi.predict(net, grid, samples=500).mean
        distance = [logistic.total_variation(p, exact.predict(grid)).mean() for p in (probs, mode)]
        assert distance[0] < 0.7 * distance[1]
        bound = vi.evidence_bound(net, toy.inputs, toy.targets, likelihood="bernoulli", samples=500)
        assert bound.value - 4 * bound.standard_error < exact.log_evidence


@pytest.mark.parametrize("local", [True, False])
def test_several_draws_a_step_have_the_same_mean_and_scatter_less(local, images):
    net, x = mlp(initial_std=0.3, local_reparameterisation=local).train(), torch.as_tensor(images)
    loss, layers = vi.likelihoods.likelihood_of("categorical", None), vi.variational_layers(net)
    with training.seeded(0), torch.no_grad():
        one, four = (
            np.array(
                [
                    vi.fitting._expected_nll(net, layers, loss, x, torch.arange(12) % 10, s).item()
                    for _ in range(400)
                ]
            )
            for s in (1, 4)
        )
    assert abs(one.mean() - four.mean()) < 4.5 * np.sqrt((one.var() + four.var()) / 400)
    assert four.var() < 0.4 * one.var()


@pytest.mark.parametrize("kind", vi.KL_WEIGHTS)
def test_the_losses_of_an_epoch_sum_to_the_bound(kind):
    """With a rate of almost nothing, whatever the batches' sizes and shares."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), rng.integers(3, size=50)
    with training.seeded(0):
        net = nn.Sequential(vi.LinearVariational(4, 3, initial_std=1e-6)).double()
    options = {
        "batch_size": 16,
        "learning_rate": 1e-12,
        "kl_weights": kind,
        "device": "cpu",
        "progress": False,
    }
    history = vi.fit_variational(net, x, y, epochs=1, **options)
    bound = vi.evidence_bound(net, x, y, samples=2)
    assert history.loss[0] * 50 == pytest.approx(-bound.value, rel=1e-6)
    scaled = vi.fit_variational(net, x, y, epochs=2, kl_scale=0.25, **options)
    assert np.allclose(scaled.loss - scaled.negative_log_likelihood, 0.25 * bound.kl / 50, rtol=1e-6)
    assert np.allclose(scaled.negative_bound * 50, -bound.value, rtol=1e-6)


def test_the_warmup_grows_to_the_full_divergence(images):
    history = vi.fit_variational(
        mlp(), images, np.arange(12) % 10, epochs=6, warmup=3, kl_scale=0.5, device="cpu", progress=False
    )
    assert np.allclose(history.kl_scale, 0.5 * np.array([0.25, 0.5, 0.75, 1, 1, 1]))


def test_other_likelihoods_can_be_had(images):
    def student(outputs, targets):
        return -torch.distributions.StudentT(4.0, outputs[:, 0]).log_prob(targets)

    with training.seeded(0):
        net = vi.make_variational(models.MLP(64, 1, hidden=(8,)))
    y = images.mean(axis=(1, 2, 3))
    history = vi.fit_variational(net, images, y, epochs=30, likelihood=student, device="cpu", progress=False)
    assert history.loss[-5:].mean() < history.loss[:5].mean()


# --- sampling -------------------------------------------------------------------------------------


def test_samples_are_distributions_of_networks_that_differ(images):
    probs = vi.sample(conv(initial_std=0.2), images, samples=7)
    assert probs.shape == (7, 12, 10)
    assert probs.dtype == np.float64
    assert np.allclose(probs.sum(-1), 1)
    assert probs.std(0).max() > 1e-3


def test_a_sample_is_one_network_for_all_inputs_whatever_the_batches(images):
    net = conv(initial_std=0.2)
    whole = vi.sample(net, images, 5)
    assert np.allclose(vi.sample(net, images, 5, batch_size=5), whole, atol=1e-6)
    assert np.allclose(vi.sample(net, images[::-1].copy(), 5)[:, ::-1], whole, atol=1e-6)
    assert np.allclose(vi.sample(net, images, 9)[:5], whole, atol=1e-6)


def test_samples_have_the_moments_of_the_weights():
    net = layer(sizes=(5, 2), bias=True).eval()
    x = np.random.default_rng(0).normal(size=(3, 5))
    draws = vi.sample_outputs(net, x, samples=3000)
    mean, variance, mean_error, variance_error = moments(draws)
    expected = x @ net.weight_mean.detach().numpy().T + net.bias_mean.detach().numpy()
    spread = x**2 @ net.weight_std.detach().numpy().T ** 2 + net.bias_std.detach().numpy() ** 2
    assert np.all(np.abs(mean - expected) < 4.5 * mean_error)
    assert np.all(np.abs(variance - spread) < 4.5 * variance_error)


def test_a_seed_repeats_and_another_does_not(images):
    net = mlp()
    assert np.array_equal(vi.sample(net, images, 3, seed=4), vi.sample(net, images, 3, seed=4))
    assert not np.allclose(vi.sample(net, images, 3, seed=4), vi.sample(net, images, 3, seed=5))


def test_one_output_is_the_log_odds_of_class_one():
    net = layer(sizes=(2, 1)).eval()
    x = np.random.default_rng(0).normal(size=(6, 2))
    probs, odds = vi.sample(net, x, 3), vi.sample_outputs(net, x, 3)
    assert probs.shape == (3, 6, 2)
    assert np.allclose(probs[..., 1], 1 / (1 + np.exp(-odds[..., 0])))


def test_the_accumulated_prediction_is_the_decomposition_of_the_samples(images):
    net = mlp(initial_std=0.3)
    result, samples = vi.predict(net, images, 9), vi.sample(net, images, 9)
    reference = metrics.decompose(samples)
    for name in ("mean", "total", "aleatoric", "epistemic", "confidence"):
        assert np.allclose(getattr(result, name), getattr(reference, name), atol=1e-12)
    assert result.count == 9


def test_evaluation_mode_is_deterministic_and_uses_the_means(images):
    net = conv()
    first = training.predict(net, images)
    assert np.array_equal(first, training.predict(net, images))
    vi.sample(net, images, 3)
    assert np.array_equal(first, training.predict(net, images))


@pytest.mark.parametrize("mode", [True, False])
def test_the_model_comes_back_as_it_came(mode, images):
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5), vi.LinearVariational(64, 3)).train(
        mode
    )
    net[1].eval()
    before = copy.deepcopy(net.state_dict())
    state = [part.training for part in net.modules()]
    vi.sample(net, images, 3)
    vi.evidence_bound(net, images, np.zeros(12, int), samples=2)
    assert state == [part.training for part in net.modules()]
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert net[3]._drawn is None


def test_the_model_comes_back_after_an_error(images):
    net = mlp().train()
    with pytest.raises(RuntimeError):
        vi.sample(net, np.zeros((3, 5)), 2)
    with contextlib.suppress(KeyError), vi.drawn_weights(net):
        raise KeyError
    assert all(part.training for part in net.modules())
    assert all(part._drawn is None for part in vi.variational_layers(net))


def test_drawn_weights_nest_and_keep_one_network(images):
    net, x = mlp(), torch.as_tensor(images)
    with torch.no_grad(), training.seeded(0), vi.drawn_weights(net):
        first = net(x)
        with vi.drawn_weights(net):
            assert not torch.allclose(net(x), first)
        assert torch.equal(net(x), first)


def test_the_global_generators_are_left_alone(images):
    plain = models.MLP(64, 10)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    net = vi.make_variational(plain)
    vi.fit_variational(net, images, np.arange(12) % 10, epochs=1, device="cpu", progress=False)
    vi.sample(net, images, 2)
    vi.evidence_bound(net, images, np.arange(12) % 10, samples=2)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_training_repeats_with_its_seed(images):
    losses = [
        vi.fit_variational(
            mlp(), images, np.arange(12) % 10, epochs=3, batch_size=5, seed=s, device="cpu", progress=False
        ).loss
        for s in (0, 0, 1)
    ]
    assert np.array_equal(losses[0], losses[1])
    assert not np.allclose(losses[0], losses[2])


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vi.LinearVariational(0, 2), "inputs"),
        (lambda: vi.LinearVariational(2, 2.5), "outputs"),
        (lambda: vi.LinearVariational(2, 2, prior_std=0), "prior_std"),
        (lambda: vi.LinearVariational(2, 2, initial_std=-1), "initial_std"),
        (lambda: vi.LinearVariational(2, 2, initial_std=1e-50), "initial_std"),  # 0 in single precision
        (lambda: vi.LinearVariational(2, 2, prior_std=np.nan), "prior_std"),
        (lambda: vi.ConvVariational(3, 2, 3, groups=2), "groups"),
        (lambda: vi.ConvVariational(3, 2, (3, 3, 3)), "kernel_size"),
        (lambda: vi.ConvVariational(3, 2, 3, stride=0), "stride"),
        (lambda: vi.make_variational(nn.ReLU()), "at least one"),
        (lambda: vi.make_variational("net"), "model"),
        (lambda: vi.kl_of(nn.Linear(2, 2)), "make_variational"),
        (lambda: vi.kl_of(3), "model"),
        (lambda: vi.sample(nn.Linear(2, 2), np.zeros((1, 2))), "LinearVariational"),
        (lambda: vi.minibatch_weights("geometric", 3), "kind"),
        (lambda: vi.minibatch_weights("uniform", 0), "batches"),
    ],
)
def test_nonsense_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": np.zeros((0, 64))}, "inputs"),
        ({"inputs": np.full((12, 64), np.nan)}, "inputs"),
        ({"targets": np.arange(12)}, "labels from 0 to 9"),
        ({"targets": np.arange(11) % 10}, "12 labels"),
        ({"targets": np.full(12, 0.5)}, "integer"),
        ({"epochs": 0}, "epochs"),
        ({"samples": 0}, "samples"),
        ({"warmup": -1}, "warmup"),
        ({"kl_scale": -0.1}, "kl_scale"),
        ({"kl_weights": "none"}, "kl_weights"),
        ({"schedule": "linear"}, "schedule"),
        ({"likelihood": "poisson"}, "likelihood"),
        ({"likelihood": "bernoulli"}, "one output"),
        ({"likelihood": "gaussian"}, "noise_std"),
        ({"likelihood": "gaussian", "noise_std": 0.0}, "noise_std"),
        ({"likelihood": "gaussian", "noise_std": 1.0, "targets": np.zeros(12)}, "targets"),
        ({"noise_std": 1.0}, "noise_std"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"model": nn.Linear(64, 10)}, "model"),
    ],
)
def test_training_refuses_nonsense_by_name(changes, message, images):
    arguments = {"model": mlp(), "inputs": images, "targets": np.arange(12) % 10, "epochs": 1} | changes
    with pytest.raises(ValueError, match=message):
        vi.fit_variational(
            arguments.pop("model"),
            arguments.pop("inputs"),
            arguments.pop("targets"),
            progress=False,
            **arguments,
        )


def test_a_training_that_diverges_says_so(images):
    with pytest.raises(ValueError, match="learning_rate"):
        vi.fit_variational(
            mlp(),
            images * 1e6,
            np.arange(12) % 10,
            epochs=60,
            learning_rate=1e6,
            optimiser="sgd",
            progress=False,
        )


def test_sampling_refuses_nonsense_by_name(images):
    for name, value in {"samples": 0, "seed": -1, "batch_size": 0}.items():
        with pytest.raises(ValueError, match=name):
            vi.sample(mlp(), images, **{name: value})
    with pytest.raises(ValueError, match="inputs"):
        vi.sample(mlp(), images * np.nan)
    with pytest.raises(ValueError, match="samples"):
        vi.evidence_bound(mlp(), images, np.arange(12) % 10, samples=1)


# --- cost -----------------------------------------------------------------------------------------


def test_the_benchmark_runs_and_a_step_costs_a_few_deterministic_ones():
    path = ROOT / "benchmarks" / "bench_variational_inference.py"
    spec = importlib.util.spec_from_file_location("bench_variational_inference", path)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    table = bench.rows(inputs=64, hidden=32, batch=32, steps=20)
    assert [entry["name"] for entry in table] == list(bench.NAMES)
    for entry in table:
        assert entry["ratio"] == pytest.approx(entry["ours_s"] / entry["baseline_s"])
        assert entry["ratio"] < 8  # at this size it is all overhead, and the machine may be busy


# --- what once went wrong in silence ----------------------------------------------------------------


def small(*layers):
    """A network whose numbers do not depend on what was drawn before."""
    net = nn.Sequential(*(layer() if isinstance(layer, type) else layer for layer in layers))
    with training.seeded(0):
        for layer in net:
            getattr(layer, "reset_parameters", lambda: None)()
    return net


def labelled(n=24, width=4, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, width)).astype(np.float32), np.arange(n) % classes


def encoder():
    with training.seeded(0):
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        return nn.Sequential(layer, nn.Flatten(), nn.Linear(24, 3))


def test_a_transformer_layer_runs_and_its_drawn_weights_count():
    with pytest.warns(UserWarning, match=r"'0.self_attn' \(MultiheadAttention\).*stay points"):
        net = vi.make_variational(encoder(), initial_std=0.3)
    x = np.random.default_rng(0).standard_normal((5, 3, 8)).astype(np.float32)
    training.predict(net, x)
    with torch.no_grad():  # only the layers inside the transformer are uncertain
        net[2].weight_rho.fill_(-30)
        net[2].bias_rho.fill_(-30)
    samples = vi.sample_outputs(net, x, samples=8)  # torch's fused kernel reads weights, it calls no layers
    assert samples.std(axis=0).min() > 0.01
    slow = copy.deepcopy(net)
    slow[0].linear1.register_forward_hook(lambda *_: None)  # a hook takes the fused kernel away
    enabled = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        assert vi.sample_outputs(slow, x, samples=8) == pytest.approx(samples, abs=1e-4)
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


@pytest.mark.parametrize(
    ("layer", "kind"),
    [
        (lambda: nn.Conv1d(2, 2, 1), "Conv1d"),
        (lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), "Conv2d"),
        (lambda: nn.LSTM(4, 4), "LSTM"),
        (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), "ParametrizationList"),
    ],
)
def test_layers_that_stay_points_are_named(layer, kind):
    with pytest.warns(UserWarning, match=rf"'0\S*' \({kind}\).*without a posterior"):
        vi.make_variational(nn.Sequential(layer(), nn.Linear(4, 2)))


def test_normalisation_and_embeddings_stay_points_without_a_word():
    net = nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm((3, 4)), nn.Flatten(), nn.Linear(12, 2))
    assert len(vi.variational_layers(vi.make_variational(net))) == 1  # a warning is an error here


@pytest.mark.parametrize("other", [lambda: nn.Linear(4, 4), lambda: nn.Embedding(4, 4)])
def test_tied_weights_are_refused_and_not_untied(other):
    first, last = other(), nn.Linear(4, 4)
    last.weight = first.weight
    with pytest.raises(ValueError, match="one weight in '0' and '2'"):
        vi.make_variational(nn.Sequential(first, nn.Tanh(), last))


def test_a_frozen_layer_stays_as_it_is():
    net = small(nn.Linear(4, 5), nn.Tanh, nn.Linear(5, 3))
    for weight in net[0].parameters():
        weight.requires_grad_(False)
    net[2].bias.requires_grad_(False)
    made = vi.make_variational(net)
    assert type(made[0]) is nn.Linear
    before = copy.deepcopy(made.state_dict())
    vi.fit_variational(made, *labelled(), epochs=2, device="cpu", progress=False)
    moved = {name for name, value in made.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"2.weight_mean", "2.weight_rho"}
    with pytest.raises(ValueError, match="not frozen"):
        vi.make_variational(small(net[0], nn.Tanh))


def test_a_network_that_is_frozen_as_a_whole_cannot_be_fitted():
    net = vi.make_variational(small(nn.Linear(4, 5), nn.Tanh, nn.Linear(5, 3)))
    net.requires_grad_(False)
    with pytest.raises(ValueError, match=r"^model: expected weights that can be trained"):
        vi.fit_variational(net, *labelled(), epochs=1, device="cpu", progress=False)


def test_hooks_stay_with_their_layer():
    net, seen = small(nn.Linear(4, 5), nn.Tanh, nn.Linear(5, 3)), []
    net[0].register_forward_hook(lambda *_: seen.append("after"))
    net[2].register_forward_pre_hook(lambda *_, **__: seen.append("before"), with_kwargs=True)
    training.predict_outputs(vi.make_variational(net), labelled()[0])
    assert seen == ["after", "before"]


def test_a_callable_likelihood_gets_labels_as_whole_numbers():
    x, y = labelled()
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    nets = [vi.make_variational(small(nn.Linear(4, 3))) for _ in range(2)]
    for net, likelihood in zip(nets, (loss, "categorical"), strict=True):
        vi.fit_variational(net, x, y, likelihood=likelihood, epochs=2, device="cpu", progress=False)
    assert torch.equal(nets[0][0].weight_mean, nets[1][0].weight_mean)
    numbers = []
    vi.evidence_bound(
        nets[0],
        x,
        y + 0.5,
        likelihood=lambda out, target: numbers.append(target.dtype) or out[:, 0],
        samples=2,
    )
    assert numbers[0].is_floating_point


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), lambda *of: nn.CrossEntropyLoss()(*of).item()])
def test_a_callable_likelihood_that_averages_is_refused(loss):
    net = vi.make_variational(small(nn.Linear(4, 3)))
    with pytest.raises(ValueError, match="likelihood: expected the negative log likelihood of each of 24"):
        vi.evidence_bound(net, *labelled(), likelihood=loss, samples=2)
    with pytest.raises(ValueError, match=r"likelihood: .* reduction='none'"):
        vi.fit_variational(net, *labelled(), likelihood=loss, epochs=1, device="cpu", progress=False)


def test_a_width_of_zero_is_named_and_no_rate_blamed():
    net = vi.make_variational(small(nn.Linear(4, 3)))
    with torch.no_grad():
        net[0].weight_rho[0, 0] = -110
    message = r"model: expected standard deviations above 0, got softplus\(-110\), which is none in float32"
    with pytest.raises(ValueError, match=message):
        vi.fit_variational(net, *labelled(), epochs=1, device="cpu", progress=False)
    with pytest.raises(ValueError, match=message):
        vi.evidence_bound(net, *labelled(), samples=2)


def test_a_last_minibatch_of_one_is_named_where_batches_are_normalised():
    net = vi.make_variational(small(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)))
    options = {"epochs": 1, "device": "cpu", "progress": False}
    with pytest.raises(ValueError, match="batch_size: expected minibatches of at least 2"):
        vi.fit_variational(net, *labelled(n=25), batch_size=8, **options)
    vi.fit_variational(net, *labelled(n=26), batch_size=8, **options)


def test_booleans_are_labels_of_two_classes():
    x, y = labelled(classes=2)
    net = vi.make_variational(small(nn.Linear(4, 1)))
    bounds = [vi.evidence_bound(net, x, labels, likelihood="bernoulli") for labels in (y, y == 1)]
    assert bounds[0] == bounds[1]
    two = vi.make_variational(small(nn.Linear(4, 2)))
    assert vi.evidence_bound(two, x, y == 1) == vi.evidence_bound(two, x, y)


@pytest.mark.parametrize("warmup", [3, 4])
def test_a_warm_up_that_leaves_no_epoch_with_the_whole_divergence_is_refused(warmup):
    net = vi.make_variational(small(nn.Linear(4, 3)))
    with pytest.raises(
        ValueError, match=f"warmup: expected fewer than 3, the number of epochs.* got {warmup}"
    ):
        vi.fit_variational(net, *labelled(), epochs=3, warmup=warmup)


def test_a_warm_up_that_fits_ends_at_the_whole_divergence():
    net = vi.make_variational(small(nn.Linear(4, 3)))
    history = vi.fit_variational(net, *labelled(), epochs=3, warmup=2, device="cpu", progress=False)
    assert history.kl_scale[-1] == 1


def test_a_training_that_fails_leaves_the_network_as_it_was():
    x, y = labelled()
    net = vi.make_variational(small(nn.Linear(4, 8), nn.ReLU, nn.Linear(8, 3)))
    before, outputs = copy.deepcopy(net.state_dict()), training.predict(net, x)
    net.train()
    with pytest.raises(ValueError, match=r"^(learning_rate|model)"):
        vi.fit_variational(net, x, y, epochs=50, learning_rate=1e30, device="cpu", progress=False)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert np.array_equal(training.predict(net, x), outputs)


def test_a_scale_below_one_repeats_the_data():
    x, y = labelled()
    net = vi.make_variational(small(nn.Linear(4, 3)))
    once = vi.evidence_bound(net, x, y, samples=5)
    often = vi.evidence_bound(net, np.tile(x, (4, 1)), np.tile(y, 4), samples=5)
    tempered = once.log_likelihood - once.kl / 4
    assert tempered == pytest.approx(often.value / 4, rel=1e-6)


def test_a_softmax_in_the_network_is_refused():
    net = vi.make_variational(small(nn.Linear(4, 3), nn.Softmax(-1)))
    for use in (vi.sample, vi.predict):
        with pytest.raises(ValueError, match="leave the softmax out"):
            use(net, labelled()[0])


def test_masked_arrays_are_refused_by_name():
    x, y = labelled()
    net = vi.make_variational(small(nn.Linear(4, 3)))
    for name, pair in (
        ("inputs", (np.ma.masked_greater(x, 1), y)),
        ("targets", (x, np.ma.masked_equal(y, 1))),
    ):
        with pytest.raises(ValueError, match=f"{name}: .*mask"):
            vi.fit_variational(net, *pair, epochs=1)


# --- regressions and loaders ------------------------------------------------------------------------


def test_the_moments_of_a_regression_are_those_of_its_samples():
    x, _ = labelled()
    net = vi.make_variational(small(nn.Linear(4, 2)), initial_std=0.3)
    samples = vi.sample_outputs(net, x, samples=30, seed=2)
    got = vi.predict_regression(net, x, noise_std=0.5, samples=30, seed=2)
    assert got.mean == pytest.approx(samples.mean(axis=0), abs=1e-9)
    assert got.epistemic == pytest.approx(samples.std(axis=0, ddof=1), abs=1e-9)
    assert got.total == pytest.approx(np.hypot(got.epistemic, 0.5))
    with pytest.raises(ValueError, match="samples"):
        vi.predict_regression(net, x, noise_std=0.5, samples=1)


def test_a_loader_gives_what_its_arrays_give():
    x, y = labelled()
    pairs = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    loader, nets = torch.utils.data.DataLoader(pairs, batch_size=5), []
    for data_ in ((x, y), (loader,)):
        nets.append(vi.make_variational(small(nn.Linear(4, 3))))
        vi.fit_variational(nets[-1], *data_, epochs=2, batch_size=7, device="cpu", progress=False)
    assert torch.equal(nets[0][0].weight_mean, nets[1][0].weight_mean)
    assert vi.evidence_bound(nets[0], loader) == vi.evidence_bound(nets[0], x, y)
    assert np.array_equal(vi.predict(nets[0], loader).mean, vi.predict(nets[0], x).mean)


def test_lazy_weights_are_refused_and_not_left_points_without_a_word():
    with pytest.raises(ValueError, match=r"model: expected weights that exist, got a lazy '0\.weight'"):
        vi.make_variational(nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3)))


def test_a_first_layer_that_works_in_place_writes_into_no_array_of_the_callers():
    x, y = labelled()
    x = x - 1.0
    kept = x.copy()
    net = vi.make_variational(small(nn.ReLU(inplace=True), nn.Linear(4, 3)))
    vi.fit_variational(net, x, y, epochs=1, device="cpu", progress=False)
    vi.evidence_bound(net, x, y, samples=2)
    vi.predict(net, x, samples=2)
    assert np.array_equal(x, kept)


def test_every_drawn_network_sees_the_inputs_as_they_came():
    class Doubling(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    x, _ = labelled()
    plain, doubled = small(nn.Identity(), nn.Linear(4, 3)), small(Doubling(), nn.Linear(4, 3))
    doubled.load_state_dict(plain.state_dict())
    expected = vi.sample_outputs(vi.make_variational(plain), 2 * x, samples=5)
    assert vi.sample_outputs(vi.make_variational(doubled), x.copy(), samples=5) == pytest.approx(expected)


def test_a_softmax_before_the_categorical_likelihood_is_refused():
    with training.seeded(0):
        net = vi.make_variational(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softmax(1)))
    x, labels = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    with pytest.raises(ValueError, match="model: expected logits, got rows that sum to 1"):
        vi.fit_variational(net, x, labels, epochs=1, progress=False)


def test_a_warm_up_of_nothing_is_refused():
    net = vi.make_variational(small(nn.Linear(4, 3)))
    with pytest.raises(ValueError, match="warmup: has no effect where kl_scale is 0"):
        vi.fit_variational(net, *labelled(), epochs=3, warmup=1, kl_scale=0.0)
