"""Deep deterministic uncertainty: the density, the norm of a convolution, the network, and one pass."""

import copy
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from uqhelpers import data, ddu, models, training
from uqhelpers._torch import torch


def clusters(n=300, width=4, classes=3, seed=0):
    """Correlated features of unequal classes."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, size=n, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum())
    labels[: 2 * classes] = np.repeat(np.arange(classes), 2)
    mix = rng.normal(size=(classes, width, width))
    points = np.einsum("nd,nde->ne", rng.normal(size=(n, width)), mix[labels])
    return points + 3 * rng.normal(size=(classes, width))[labels], labels


# --- density --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_density_is_that_of_a_mixture_of_gaussians_with_the_classes_shares(seed):
    points, labels = clusters(seed=seed)
    density = ddu.GaussianFeatureDensity().fit(points, labels)
    new = np.random.default_rng(9).normal(size=(50, 4)) * 4
    parts = [
        np.log(np.mean(labels == k))
        + multivariate_normal(
            points[labels == k].mean(axis=0),
            np.cov(points[labels == k].T, bias=True) + density.ridge * np.eye(4),
        ).logpdf(new)
        for k in range(3)
    ]
    joint = np.stack(parts, axis=1)
    assert density.log_joint(new) == pytest.approx(joint, rel=1e-9)
    assert density.log_density(new) == pytest.approx(logsumexp(joint, axis=1), rel=1e-9)
    assert density.class_probabilities(new).sum(axis=1) == pytest.approx(1)


def test_it_is_scikit_learns_one_component_mixture_with_the_same_ridge():
    from sklearn.mixture import GaussianMixture

    points, labels = clusters(700, width=12, classes=4)  # more than one block of rows
    density = ddu.GaussianFeatureDensity(jitter=1e-4).fit(points, labels)
    for k in range(4):
        theirs = GaussianMixture(1, reg_covar=density.ridge).fit(points[labels == k])
        assert density.log_joint(points)[:, k] - density.log_priors[k] == pytest.approx(
            theirs.score_samples(points), rel=1e-8, abs=1e-6
        )


def test_the_priors_are_in_it():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(-50, 1, (900, 1)), rng.normal(50, 1, (100, 1))])
    density = ddu.GaussianFeatureDensity().fit(points, np.repeat([0, 1], [900, 100]))
    at_the_means = density.log_density(density.means)
    spread = np.log(np.sqrt(density.covariances[:, 0, 0]))
    assert (at_the_means + spread)[0] - (at_the_means + spread)[1] == pytest.approx(np.log(9), abs=1e-4)


def test_fitting_again_replaces_everything():
    first, second = clusters(seed=1), clusters(seed=2)
    density = ddu.GaussianFeatureDensity().fit(*first).calibrate(second[0])
    density.fit(*second)
    fresh = ddu.GaussianFeatureDensity().fit(*second)
    assert np.array_equal(density.log_density(first[0]), fresh.log_density(first[0]))
    assert density.log_priors.shape == (3,)
    assert np.exp(density.log_priors).sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="calibrate"):
        density.quantile(first[0])


def test_a_fit_that_fails_changes_nothing():
    points, labels = clusters()
    density = ddu.GaussianFeatureDensity().fit(points, labels)
    before = density.log_density(points)
    with pytest.raises(ValueError, match="class 1"):
        density.fit(points[:5], [0, 0, 0, 2, 2])
    assert np.array_equal(density.log_density(points), before)


def test_features_that_depend_on_each_other_do_no_harm():
    points, labels = clusters()
    doubled = np.concatenate([points, points, points[:, :1] - points[:, 1:2]], axis=1)  # rank 4 of 9
    density = ddu.GaussianFeatureDensity().fit(doubled, labels)
    scores = density.log_density(doubled)
    assert np.isfinite(scores).all()
    # Whoever breaks the dependence is stranger than anything that was seen.
    broken = doubled[:20].copy()
    broken[:, 4:8] += np.random.default_rng(0).normal(size=(20, 4))
    assert density.log_density(broken).max() < scores.min()


def test_a_constant_feature_says_nothing_as_long_as_it_is_constant():
    points, labels = clusters()
    constant = np.concatenate([points, np.full((len(points), 1), 7.0)], axis=1)
    with_it = ddu.GaussianFeatureDensity().fit(constant, labels).log_density(constant)
    without = ddu.GaussianFeatureDensity().fit(points, labels).log_density(points)
    assert np.ptp(with_it - without) < 1e-3 * np.ptp(without)


def test_a_class_with_two_inputs_works():
    points, labels = clusters()
    few = np.concatenate([np.flatnonzero(labels > 0), np.flatnonzero(labels == 0)[:2]])
    density = ddu.GaussianFeatureDensity().fit(points[few], labels[few])
    assert np.isfinite(density.log_density(points)).all()
    assert density.class_probabilities(points[few[-2:]]).argmax(axis=1).tolist() == [0, 0]


def test_more_features_than_inputs_work():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(40, 100)), np.arange(40) % 4
    density = ddu.GaussianFeatureDensity().fit(points, labels)
    assert np.isfinite(density.log_density(rng.normal(size=(10, 100)))).all()


def test_classes_without_any_spread_inside_work():
    labels = np.repeat([0, 1], 5)
    points = np.eye(2)[labels] * 3
    density = ddu.GaussianFeatureDensity().fit(points, labels)
    assert density.log_density([[3.0, 0.0]]) > density.log_density([[2.9, 0.0]])


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3), seed=st.integers(0, 100))
def test_the_ridge_grows_with_the_units(scale, shift, seed):
    """Other units move every log density by the same constant: the ranking is that of the features."""
    points, labels = clusters(60, seed=seed)
    one = ddu.GaussianFeatureDensity().fit(points, labels).log_density(points)
    moved = scale * (points + shift)
    two = ddu.GaussianFeatureDensity().fit(moved, labels).log_density(moved)
    assert two + 4 * np.log(scale) == pytest.approx(one, abs=1e-3)


def test_a_large_common_offset_costs_no_digits():
    points, labels = clusters()
    plain = ddu.GaussianFeatureDensity().fit(points, labels)
    far = ddu.GaussianFeatureDensity().fit(points + 1e6, labels)
    assert far.covariances == pytest.approx(plain.covariances, abs=1e-6)


def test_features_of_any_library_and_precision_are_taken_and_left_alone():
    points, labels = clusters()
    kept = points.copy()
    density = ddu.GaussianFeatureDensity().fit(torch.tensor(points), torch.tensor(labels))
    narrow = density.log_density(points.astype(np.float32))
    assert narrow.dtype == np.float64
    assert narrow == pytest.approx(density.log_density(torch.tensor(points)), abs=1e-3)
    assert np.array_equal(points, kept)


def test_a_score_is_higher_for_what_is_strange():
    points, labels = clusters()
    density = ddu.GaussianFeatureDensity().fit(points, labels)
    near, far = ddu.ddu_score(density.log_density(np.stack([points[0], points[0] + 1000])))
    assert far > near
    assert ddu.ddu_score([1.0, -2.0]).tolist() == [-1.0, 2.0]


# --- quantile -------------------------------------------------------------------------------------


def test_the_quantile_is_the_empirical_distribution_of_held_out_densities():
    held_out = [-3.0, -1.0, -2.0, -1.0]
    assert ddu.quantile([-9.0, -3.0, -1.5, -1.0, 5.0], held_out).tolist() == [0, 0.25, 0.5, 1, 1]


def test_held_out_quantiles_of_new_inputs_are_uniform_and_training_quantiles_are_not():
    """Few inputs for so many covariances: training densities flatter themselves."""
    below, flattered = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        train, held_out, new = (rng.normal(size=(300, 20)) for _ in range(3))
        density = ddu.GaussianFeatureDensity().fit(train, np.arange(300) % 2).calibrate(held_out)
        below.append(np.mean(density.quantile(new) <= 0.05))
        flattered.append(np.mean(ddu.quantile(density.log_density(new), density.log_density(train)) <= 0.05))
    # 20 × 300 inputs against 20 × 300: a standard error of .004; five of them.
    assert abs(np.mean(below) - 0.05) < 0.02
    assert np.mean(flattered) > 0.12


def test_the_training_features_themselves_are_refused():
    points, labels = clusters()
    density = ddu.GaussianFeatureDensity().fit(points, labels)
    with pytest.raises(ValueError, match="held_out: expected features of inputs held out"):
        density.calibrate(points)


def test_training_features_are_refused_in_any_order_and_a_few_of_them_are_told():
    features, labels = clusters()
    density = ddu.GaussianFeatureDensity().fit(features, labels)
    new = np.random.default_rng(9).normal(size=features.shape)
    for leaked in (features, features[::-1], features[1:], np.asfortranarray(features[::2]), features[:1]):
        with pytest.raises(ValueError, match=r"held_out: expected features .* \(100% of them\)"):
            density.calibrate(leaked)
    with pytest.warns(RuntimeWarning, match="held_out: 20% of these are features that the density"):
        density.calibrate(np.concatenate([features[:20], new[:80]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        density.calibrate(np.concatenate([features[:5], new[:95]]))


def test_with_units_of_their_own_a_factor_of_one_feature_only_shifts_the_log_density():
    features, labels = clusters()
    new = features + np.random.default_rng(9).normal(size=features.shape)
    factor = np.array([1e4] + [1.0] * (features.shape[1] - 1))
    plain = ddu.GaussianFeatureDensity(units="own").fit(features, labels).log_density(new)
    scaled = ddu.GaussianFeatureDensity(units="own").fit(factor * features, labels)
    np.testing.assert_allclose(scaled.log_density(factor * new), plain - np.log(1e4), rtol=1e-8, atol=1e-6)
    common = ddu.GaussianFeatureDensity(1e-3).fit(factor * features, labels).log_density(factor * new)
    assert np.ptp(common - ddu.GaussianFeatureDensity(1e-3).fit(features, labels).log_density(new)) > 1


def test_a_density_takes_a_loader_and_scores_like_every_detector():
    features, labels = clusters()
    pairs = torch.utils.data.TensorDataset(torch.tensor(features), torch.tensor(labels))
    by_batches = ddu.GaussianFeatureDensity().fit(torch.utils.data.DataLoader(pairs, batch_size=7))
    by_arrays = ddu.GaussianFeatureDensity().fit(features, labels)
    assert np.array_equal(by_batches.score(features), by_arrays.score(features))
    assert np.array_equal(by_arrays.score(features), -by_arrays.log_density(features))


def test_close_singular_values_do_not_stop_the_search_for_the_largest():
    values = np.full(512, 0.9995)
    values[0] = 1.0
    norm = ddu.conv_spectral_norm(np.diag(values)[:, :, None, None], (512, 1, 1))
    assert norm == pytest.approx(1, abs=1e-6)
    spread = np.diag(1 - 5e-4 * np.arange(300))[:, :, None, None]
    assert ddu.conv_spectral_norm(spread, (300, 1, 1)) == pytest.approx(1, abs=1e-6)


def test_a_search_that_was_cut_short_says_so():
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3))
    with pytest.warns(RuntimeWarning, match="steps: 2 did not suffice"):
        short = ddu.conv_spectral_norm(weight, (3, 8, 8), padding=1, steps=2)
    assert short < ddu.conv_spectral_norm(weight, (3, 8, 8), padding=1)


def test_memory_of_directions_runs_out_and_the_norm_is_still_right(monkeypatch):
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3))
    whole = ddu.conv_spectral_norm(weight, (3, 8, 8), padding=1)
    monkeypatch.setattr("uqhelpers.ddu.convolutions.MOST_DIRECTIONS", 10)
    assert ddu.conv_spectral_norm(weight, (3, 8, 8), padding=1) == pytest.approx(whole, rel=1e-7)


def test_weights_that_are_permuted_in_place_are_new_weights():
    with training.seeded(0):
        conv = ddu.SpectralNormConv2d(2, 2, 3, (6, 6), coefficient=1.0, padding=1).eval()
    with torch.no_grad():
        conv.weight[:] = torch.linspace(-1, 1, conv.weight.numel()).reshape(conv.weight.shape)
    before = conv.spectral_norm(), jacobian_norm(conv.capped_weight().detach(), (6, 6), padding=1)
    assert before[1] == pytest.approx(1, rel=1e-3)
    order = torch.randperm(conv.weight.numel(), generator=torch.Generator().manual_seed(3))
    conv.weight.data = conv.weight.data.flatten()[order].reshape(conv.weight.shape)
    capped = jacobian_norm(conv.capped_weight().detach(), (6, 6), padding=1)
    assert capped == pytest.approx(min(1, ddu.conv_spectral_norm(conv.weight, (6, 6), padding=1)), rel=1e-3)


def test_shortcuts_are_there_or_not():
    with pytest.raises(ValueError, match="shortcuts: expected True or False"):
        ddu.ResidualNet((1, 8, 8), shortcuts="no")


# --- the norm of a convolution --------------------------------------------------------------------


def jacobian_norm(weight, size, stride=1, padding=0):
    """The largest singular value of the convolution written out as a matrix."""
    weight = torch.as_tensor(weight).double()
    basis = torch.eye(weight.shape[1] * size[0] * size[1], dtype=torch.float64)
    images = basis.reshape(-1, weight.shape[1], *size)
    columns = torch.nn.functional.conv2d(images, weight, stride=stride, padding=padding).flatten(1)
    return torch.linalg.matrix_norm(columns, 2).item()


def test_the_norm_of_a_convolution_is_not_that_of_its_reshaped_weights():
    weight = torch.ones(1, 1, 3, 3)
    assert torch.linalg.matrix_norm(weight.reshape(1, -1), 2).item() == pytest.approx(3.0)
    true = ddu.conv_spectral_norm(weight, (1, 16, 16), stride=1, padding=1)
    assert true == pytest.approx(jacobian_norm(weight, (16, 16), padding=1), rel=1e-6)
    assert round(true, 2) == 8.80


@pytest.mark.parametrize(
    ("shape", "size", "stride", "padding"),
    [
        ((4, 3, 3, 3), (8, 8), 1, 1),
        ((2, 3, 3, 3), (7, 9), 1, 0),
        ((5, 2, 3, 3), (8, 8), 2, 1),
        ((3, 2, 5, 3), (9, 8), (2, 1), (2, 0)),
        ((4, 4, 1, 1), (5, 5), 1, 0),
        ((3, 1, 2, 2), (7, 7), 3, 0),  # the last column is never seen
    ],
)
def test_the_norm_is_the_largest_singular_value_of_the_jacobian(shape, size, stride, padding):
    weight = np.random.default_rng(0).normal(size=shape)
    norm = ddu.conv_spectral_norm(weight, (shape[1], *size), stride, padding)
    assert norm == pytest.approx(jacobian_norm(weight, size, stride, padding), rel=1e-4)
    assert ddu.conv_spectral_norm(torch.tensor(weight), size, stride, padding) == norm


@pytest.mark.parametrize("size", [1e200, 1e-200, 1e-308])
def test_the_norm_grows_with_the_weights_however_large_or_tiny_they_are(size):
    ones = np.ones((1, 1, 3, 3))
    one = ddu.conv_spectral_norm(ones, (1, 16, 16), padding=1)
    found = ddu.conv_spectral_norm(size * ones, (1, 16, 16), padding=1)
    assert found / size == pytest.approx(one, rel=1e-9)


def test_a_kernel_that_does_not_fit_is_refused_when_the_layer_is_made():
    with pytest.raises(ValueError, match="input_shape: expected images no smaller than the kernel"):
        ddu.SpectralNormConv2d(1, 1, 9, (4, 4))
    assert ddu.SpectralNormConv2d(1, 1, 9, (4, 4), padding=3)(torch.ones(2, 1, 4, 4)).shape == (2, 1, 2, 2)


def test_a_kernel_of_zeros_has_norm_zero():
    assert ddu.conv_spectral_norm(np.zeros((2, 1, 3, 3)), (5, 5)) == 0


def test_a_convolution_is_capped_and_not_forced():
    with training.seeded(0):
        conv = ddu.SpectralNormConv2d(2, 3, 3, (2, 6, 6), coefficient=1.5, padding=1).eval()
    with torch.no_grad():
        conv.weight.mul_(0.5 / ddu.conv_spectral_norm(conv.weight, (6, 6), padding=1))
    assert torch.equal(conv.capped_weight(), conv.weight)  # below the cap nothing happens
    assert conv.spectral_norm() == pytest.approx(0.5, rel=1e-3)
    for write in (conv.weight.data, conv.weight.detach()):  # also what torch's version counter does not see
        write.mul_(20)
        assert jacobian_norm(conv.capped_weight().detach(), (6, 6), padding=1) == pytest.approx(1.5, rel=1e-3)
        assert conv.spectral_norm() == pytest.approx(1.5, rel=1e-6)


def test_torchs_own_normalisation_leaves_a_convolution_that_stretches():
    conv = torch.nn.Conv2d(1, 1, 3, padding=1)
    torch.nn.init.ones_(conv.weight)
    theirs = torch.nn.utils.parametrizations.spectral_norm(conv, n_power_iterations=50)
    stretch = jacobian_norm(theirs.weight.detach(), (16, 16), padding=1)
    assert stretch == pytest.approx(8.80 / 3, abs=0.01)


def test_a_trained_network_keeps_its_caps():
    digits = data.load("digits")
    with training.seeded(0):
        net = ddu.ResidualNet((1, 8, 8), 10, 1.0, digits.mean, digits.std, width=8)
    training.fit(
        net,
        digits.train.images,
        digits.train.labels,
        epochs=3,
        learning_rate=2e-2,
        batch_size=64,
        progress=False,
    )
    net.cpu()  # wherever it was trained
    convolutions = [layer for layer in net.modules() if isinstance(layer, ddu.SpectralNormConv2d)]
    assert len(convolutions) == 5
    for conv in convolutions:
        norm = jacobian_norm(conv.capped_weight().detach(), conv.image_size, padding=1)
        assert norm < 1.001
    free = [ddu.conv_spectral_norm(conv.weight, conv.image_size, padding=1) for conv in convolutions]
    assert max(free) > 1.05  # some cap was needed


def test_gradients_flow_through_the_cap():
    conv = ddu.SpectralNormConv2d(1, 2, 3, (5, 5), coefficient=0.1, padding=1).double()
    for _ in range(200):  # until the followed norm has arrived
        conv(torch.zeros(1, 1, 5, 5, dtype=torch.float64))
    (conv.capped_weight() * conv.weight.detach()).sum().backward()
    # The capped weights do not change with the length of the weights, so the gradient stands across them.
    across = (conv.weight.grad * conv.weight).sum().abs() / (conv.weight.grad.norm() * conv.weight.norm())
    assert conv.weight.grad.norm() > 0
    assert across < 1e-6


def test_a_copy_and_a_saved_state_compute_the_same():
    conv = ddu.SpectralNormConv2d(1, 2, 3, (5, 5), coefficient=0.5, padding=1).eval()
    images = torch.rand(3, 1, 5, 5)
    other = ddu.SpectralNormConv2d(1, 2, 3, (5, 5), coefficient=0.5, padding=1).eval()
    other(images)  # its norm is known now, of other weights
    other.load_state_dict(conv.state_dict())
    assert torch.allclose(other(images), conv(images))
    assert torch.allclose(copy.deepcopy(conv)(images), conv(images))


# --- the network ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 9, 13)])
@pytest.mark.parametrize("coefficient", [3.0, None])
def test_the_network_takes_images_of_any_size(shape, coefficient):
    net = ddu.ResidualNet(shape, 4, coefficient, width=5)
    images = np.random.default_rng(0).random((3, *shape), dtype=np.float32)
    assert training.predict(net, images).shape == (3, 4)
    assert training.features(net, images).shape == (3, 5)


def test_capped_and_plain_networks_of_one_seed_begin_with_the_same_weights():
    nets = []
    for coefficient in (3.0, None):
        with training.seeded(3):
            nets.append(ddu.ResidualNet((1, 8, 8), 10, coefficient, width=6))
    for one, two in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(one, two)


def test_a_residual_block_below_one_can_be_told_apart_again():
    """1 - c ≤ |h(x) - h(x')| / |x - x'| ≤ 1 + c for a block x + f(x) whose f stretches by at most c < 1."""
    with training.seeded(0):
        convs = [ddu.SpectralNormConv2d(2, 2, 3, (6, 6), 0.7, padding=1) for _ in range(2)]
        for conv in convs:
            torch.nn.init.normal_(conv.weight, std=5)
        block = ddu.network._Block(*convs, shortcut=True).eval()
        pairs = torch.randn(2, 500, 2, 6, 6)
    with torch.no_grad():
        moved = (block(pairs[0]) - block(pairs[1])).flatten(1).norm(dim=1)
    ratio = (moved / (pairs[0] - pairs[1]).flatten(1).norm(dim=1)).numpy()
    assert ratio.min() >= 1 - 0.49
    assert ratio.max() <= 1 + 0.49


# --- one pass -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    digits = data.load("digits")
    with training.seeded(0):
        net = ddu.ResidualNet((1, 8, 8), 10, 3.0, digits.mean, digits.std, width=16)
    training.fit(
        net,
        digits.train.images,
        digits.train.labels,
        epochs=8,
        learning_rate=5e-3,
        batch_size=64,
        progress=False,
    )
    density = ddu.GaussianFeatureDensity().fit(
        training.features(net, digits.train.images), digits.train.labels
    )
    return net, density.calibrate(training.features(net, digits.validation.images)), digits


def test_one_prediction_says_both(fitted):
    net, density, digits = fitted
    images = digits.test.images[:50]
    said = ddu.predict(net, density, images, batch_size=20)
    assert said.probs == pytest.approx(training.predict(net, images), abs=1e-6)
    assert said.aleatoric == pytest.approx(-(said.probs * np.log(said.probs)).sum(axis=1))
    values = training.features(net, images)
    assert said.log_density == pytest.approx(density.log_density(values), abs=1e-3)
    assert np.array_equal(said.epistemic, -said.log_density)
    assert said.quantile == pytest.approx(density.quantile(values))


def test_it_takes_one_pass(fitted):
    net, density, digits = fitted
    passes = []
    handle = net.register_forward_hook(lambda *_: passes.append(1))
    ddu.predict(net, density, digits.test.images[:50], batch_size=50)
    handle.remove()
    assert len(passes) == 1


def test_letters_are_stranger_than_digits(fitted):
    net, density, digits = fitted
    strange = ddu.predict(net, density, data.load_ood("letters", "digits").images).epistemic
    known = ddu.predict(net, density, digits.test.images).epistemic
    assert np.median(strange) > np.quantile(known, 0.75)


def test_the_network_comes_back_as_it_came_and_the_global_generators_too(fitted):
    net, density, digits = fitted
    net = copy.deepcopy(net).train()
    net.output.eval()
    modes = [module.training for module in net.modules()]
    state = {key: value.clone() for key, value in net.state_dict().items()}
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    ddu.predict(net, density, digits.test.images[:10])
    ddu.SpectralNormConv2d(1, 1, 3, (5, 5))._exact_norm()
    with pytest.raises(ValueError, match="images: expected size"):
        ddu.predict(net, density, np.zeros((2, 1, 5, 5), np.float32))
    assert modes == [module.training for module in net.modules()]
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert not any(module._forward_hooks for module in net.modules())
    with training.seeded(0):  # building a layer draws its weights; beyond that nothing moves
        torch.nn.Conv2d(1, 1, 3)
        expected = torch.random.get_rng_state()
    with training.seeded(0):
        ddu.SpectralNormConv2d(1, 1, 3, (5, 5))
        assert torch.equal(torch.random.get_rng_state(), expected)
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


# --- what is refused ------------------------------------------------------------------------------

GOOD = clusters(30)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d: d.fit(GOOD[0][:, 0], GOOD[1]), "features: expected a non-empty matrix"),
        (lambda d: d.fit(np.zeros((0, 3)), []), "features: expected a non-empty matrix"),
        (lambda d: d.fit(np.full((30, 2), np.nan), GOOD[1]), "features: expected finite"),
        (lambda d: d.fit(np.where(np.eye(30, 4) > 0, np.inf, 0), GOOD[1]), "features: expected finite"),
        (lambda d: d.fit(np.full((30, 2), 0.1), GOOD[1]), "features: expected features that vary"),
        (lambda d: d.fit(GOOD[0], GOOD[1][:-1]), "labels: expected 30 labels"),
        (lambda d: d.fit(GOOD[0], GOOD[1] + 0.5), "labels: expected integer"),
        (lambda d: d.fit(GOOD[0], GOOD[1] - 1), "labels: expected labels from 0"),
        (lambda d: d.fit(GOOD[0], 2 * GOOD[1]), "labels: expected at least 2 inputs .* got 0 of class 1"),
        (lambda d: d.fit(GOOD[0], GOOD[1], classes=5), "got 0 of class 3"),
        (lambda d: d.fit(GOOD[0], GOOD[1], classes=2), "labels: expected labels from 0 to 1"),
        (lambda d: d.fit(["a"], [0]), "features: expected numbers"),
        (lambda d: d.log_density(GOOD[0]), "density: expected fit"),
        (lambda d: d.calibrate(GOOD[0]), "density: expected fit"),
        (lambda d: d.quantile(GOOD[0]), "calibrate"),
        (lambda d: d.fit(*GOOD).quantile(GOOD[0]), "calibrate"),
        (lambda d: d.fit(*GOOD).log_density(GOOD[0][:, :2]), "features: expected 4 features an input, got 2"),
        (lambda d: d.fit(*GOOD).log_density([[np.nan] * 4]), "features: expected finite"),
        (lambda d: d.fit(*GOOD).log_density([[1e200] * 4]), "features: expected finite"),
        (lambda d: d.fit(*GOOD).calibrate(np.ones((3, 2))), "held_out: expected 4 features"),
        (lambda d: ddu.GaussianFeatureDensity(0), "jitter"),
        (lambda d: ddu.GaussianFeatureDensity("1e-6"), "jitter"),
        (lambda d: ddu.ddu_score([[1.0]]), "log_density: expected a non-empty vector"),
        (lambda d: ddu.ddu_score([np.nan]), "log_density"),
        (lambda d: ddu.quantile([1.0], []), "held_out"),
        (lambda d: ddu.quantile([np.nan], [1.0]), "log_density"),
        (lambda d: ddu.conv_spectral_norm(np.ones((3, 3)), (1, 8, 8)), "weight: expected shape"),
        (
            lambda d: ddu.conv_spectral_norm(np.full((1, 1, 3, 3), np.nan), (1, 8, 8)),
            "weight: expected finite",
        ),
        (lambda d: ddu.conv_spectral_norm(np.ones((1, 1, 3, 3)), (2, 8, 8)), "input_shape"),
        (lambda d: ddu.conv_spectral_norm(np.ones((1, 1, 3, 3)), 8), "input_shape"),
        (lambda d: ddu.conv_spectral_norm(np.ones((1, 1, 3, 3)), (2, 2)), "input_shape: .* kernel"),
        (lambda d: ddu.conv_spectral_norm(np.ones((1, 1, 3, 3)), (8, 8), stride=0), "stride"),
        (lambda d: ddu.conv_spectral_norm(np.ones((1, 1, 3, 3)), (8, 8), padding="same"), "padding"),
        (lambda d: ddu.SpectralNormConv2d(1, 1, 3, (8, 8), coefficient=0), "coefficient"),
        (lambda d: ddu.SpectralNormConv2d(1, 1, 3, (8, 8))(torch.zeros(1, 1, 9, 8)), "images: expected size"),
        (lambda d: ddu.ResidualNet((1, 4, 4)), "image_shape"),
        (lambda d: ddu.ResidualNet(coefficient=-1.0), "coefficient"),
        (lambda d: ddu.ResidualNet(width=0), "width"),
        (lambda d: ddu.ResidualNet(classes=1), "classes"),
        (
            lambda d: ddu.predict(models.MLP(4, 3), None, GOOD[0]),
            "density: expected a GaussianFeatureDensity",
        ),
        (lambda d: ddu.predict(models.MLP(4, 3), d, GOOD[0]), "density: expected fit"),
        (lambda d: ddu.predict(models.MLP(4, 3), d.fit(*GOOD), GOOD[0]), "features: expected 4 features"),
    ],
)
def test_nonsense_is_refused_by_name(call, words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=words):
            call(ddu.GaussianFeatureDensity())


# --- benchmarks -----------------------------------------------------------------------------------


def test_the_density_is_faster_than_scikit_learns_class_by_class():
    """Far below the size and the bounds of `make bench`, on a machine that does other things meanwhile."""
    from benchmarks import bench, bench_ddu

    rows = bench_ddu.rows(inputs=5_000, features=64, classes=10, images=50, repeats=3)
    assert 1 / rows[0]["ratio"] > bench_ddu.BOUNDS["fit"] / 2
    assert 1 / rows[1]["ratio"] > 0.8
    assert rows[0]["apart"] < 1e-6
    assert all(len(bench.line(row)) == len(bench.HEAD) for row in rows)


def test_the_table_of_the_picture_has_every_row():
    from benchmarks import reproduce_ddu

    columns = ["ambiguous", *reproduce_ddu.STRANGE, *(f"{name} clean" for name in reproduce_ddu.STRANGE)]
    row = {f"{name} {key}": 0.5 for name in columns for key in reproduce_ddu.SCORES}
    runs = {kind: [{"accuracy": 0.99, "below": 0.05, **row}] * 2 for kind in reproduce_ddu.KINDS}
    page = reproduce_ddu.page(runs, 55_000)
    assert page.count("0.500 ± 0.000") == 2 * 3 * (1 + 2 * len(reproduce_ddu.STRANGE))
    assert "0.9900 ± 0.0000" in page


def test_one_logit_is_the_log_odds_of_class_one():
    x, labels = clusters()
    with training.seeded(0):
        net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    density = ddu.GaussianFeatureDensity().fit(training.features(net, x), labels)
    said = ddu.predict(net, density, x)
    odds = training.predict_outputs(net, x)[:, 0]
    assert said.probs[:, 1] == pytest.approx(1 / (1 + np.exp(-odds)), rel=1e-6)
    assert said.probs.shape == (len(x), 2)
    assert said.aleatoric.min() > 0.01


def test_held_out_features_are_blamed_by_their_own_name():
    points = np.random.default_rng(0).normal(size=(30, 2))
    density = ddu.GaussianFeatureDensity().fit(points, np.arange(30) % 2)
    for wrong in (np.full((3, 2), np.nan), np.ma.masked_greater(points, 0), points[:, :1], [[np.inf, 1.0]]):
        with pytest.raises(ValueError, match=r"^held_out: expected"):
            density.calibrate(wrong)
