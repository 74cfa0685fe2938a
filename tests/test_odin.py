"""Out-of-distribution scores: what each of them is, what leaves no trace, and which way is stranger."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import mahalanobis

from uqhelpers import data, metrics, models, odin, training
from uqhelpers._torch import torch

nn = torch.nn


def network(seed=0, widths=(12, 16, 4), activation=nn.Tanh):
    with training.seeded(seed):
        layers = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), activation()]
        return nn.Sequential(nn.Flatten(), *layers[:-1]).double().eval()


def images(n=20, seed=0):
    return np.random.default_rng(seed).random((n, 3, 2, 2))


def plain_odin(model, inputs, temperature, epsilon, std=1.0):
    """The two equations of the paper, as they stand, in the network's own precision."""
    x = torch.tensor(inputs).requires_grad_()
    logits = model(x) / temperature
    torch.nn.functional.cross_entropy(logits, logits.argmax(dim=1)).backward()
    with torch.no_grad():
        moved = x - epsilon * x.grad.sign() / torch.as_tensor(std).reshape(-1, 1, 1)
        return -(model(moved) / temperature).softmax(dim=1).max(dim=1).values.numpy()


def clusters(n=300, width=6, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return rng.normal(size=(n, width)) + 4 * rng.normal(size=(classes, width))[labels], labels


@pytest.fixture(scope="module")
def trained():
    """A small network that knows the digits."""
    digits = data.load("digits")
    with training.seeded(0):
        net = models.MLP(64, 10, (64,), 0.0, digits.mean, digits.std)
    training.fit(net, digits.train.images, digits.train.labels, epochs=30, learning_rate=3e-3, progress=False)
    return net, digits


# --- scores from logits ---------------------------------------------------------------------------


def test_at_temperature_one_the_softmax_score_is_minus_the_largest_probability():
    logits = np.random.default_rng(0).normal(size=(50, 4))
    assert np.array_equal(odin.softmax_score(logits), metrics.msp_score(metrics.from_logits(logits)))


def test_a_temperature_flattens_and_a_higher_one_flattens_more():
    logits = 5 * np.random.default_rng(0).normal(size=(50, 4))
    scores = [odin.softmax_score(logits, temperature) for temperature in (0.5, 1, 2, 10, 1000)]
    for sharper, flatter in pairwise(scores):
        assert (flatter > sharper).all()  # the largest probability falls towards 1/C
    assert np.abs(scores[-1] + 1 / 4).max() < 0.01


def test_a_high_temperature_ranks_by_the_distance_of_the_largest_logit_from_the_mean():
    logits = np.random.default_rng(0).normal(size=(200, 10))
    distance = logits.max(axis=1) - logits.mean(axis=1)
    hot = odin.softmax_score(logits, 1e6)
    assert np.array_equal(hot.argsort(), (-distance).argsort())
    assert (hot + 0.1) * 1e6 == pytest.approx(-distance / 10, rel=1e-4)


def test_the_energy_by_hand_and_between_its_bounds():
    logits = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    by_hand = [-np.log(np.e + np.e**2 + np.e**3), -np.log(3)]
    assert odin.energy_score(logits) == pytest.approx(by_hand)
    for temperature in (0.01, 1, 100):
        energy = odin.energy_score(logits, temperature)
        assert (energy <= odin.max_logit_score(logits)).all()
        assert (energy >= odin.max_logit_score(logits) - temperature * np.log(3) - 1e-9).all()
    assert odin.energy_score(logits, 1e-3) == pytest.approx(odin.max_logit_score(logits), abs=0.01)


def test_large_logits_neither_overflow_nor_lose_the_energy():
    logits = np.array([[1e4, 0.0], [0.0, -1e4]])
    assert odin.energy_score(logits) == pytest.approx([-1e4, 0])
    assert odin.softmax_score(logits) == pytest.approx([-1, -1])


# --- ODIN -----------------------------------------------------------------------------------------


def test_without_step_and_temperature_it_is_the_largest_probability_exactly(trained):
    net, digits = trained
    logits = training.predict_outputs(net, digits.test.images, batch_size=100)
    ours = odin.odin_score(net, digits.test.images, 1, 0, batch_size=100)
    assert np.array_equal(ours, metrics.msp_score(metrics.from_logits(logits)))
    assert ours == pytest.approx(-training.predict(net, digits.test.images).max(axis=1), rel=1e-5)


@pytest.mark.parametrize("std", [None, 0.5, [0.25, 0.5, 2.0]])
@pytest.mark.parametrize(("temperature", "epsilon"), [(1, 0.1), (10, 0.01), (1000, 0.0014), (0.5, 0)])
def test_it_is_the_two_equations_of_the_paper(temperature, epsilon, std):
    net, x = network(), images()
    expected = plain_odin(net, x, temperature, epsilon, 1.0 if std is None else std)
    assert odin.odin_score(net, x, temperature, epsilon, std) == pytest.approx(expected, rel=1e-12)


def test_the_step_has_its_size_in_every_pixel_and_is_larger_where_the_pixels_were_divided():
    net, x = network(), images()
    assert np.abs(odin.perturb(net, x, 1000, 0.01) - x) == pytest.approx(np.full(x.shape, 0.01))
    step = np.abs(odin.perturb(net, x, 1000, 0.01, std=[0.25, 0.5, 2.0]) - x)
    assert step == pytest.approx(np.tile(np.reshape([0.04, 0.02, 0.005], (3, 1, 1)), (20, 1, 2, 2)))


def test_normalising_outside_with_the_std_is_normalising_inside_without():
    inside = models.MLP(12, 4, (16,), mean=0.3, std=0.2).double().eval()
    layers = list(inside)
    outside = nn.Sequential(layers[0], *layers[2:]).eval()  # the same layers but for the standardising one
    x = images()
    ours = odin.odin_score(inside, x, 100, 0.02)
    assert odin.odin_score(outside, (x - 0.3) / 0.2, 100, 0.02, std=0.2) == pytest.approx(ours, rel=1e-5)
    forgotten = odin.odin_score(outside, (x - 0.3) / 0.2, 100, 0.02)
    assert np.abs(forgotten - ours).max() > 10 * np.abs(ours).max() * 1e-5


def test_a_small_step_raises_the_probability_of_the_prediction():
    net, x = network(), images()
    for temperature in (1, 1000):
        still = odin.odin_score(net, x, temperature, 0)
        assert (odin.odin_score(net, x, temperature, 1e-3) < still).all()


def test_what_leaves_the_range_of_the_pixels_is_not_clipped():
    moved = odin.perturb(network(), np.zeros((5, 3, 2, 2)), 1000, 0.01)
    assert moved.min() == pytest.approx(-0.01)


def test_a_sure_network_still_has_a_direction():
    """In float32 the probability of a sure network rounds to 1 and the cross-entropy's own gradient dies."""
    net = network().float()
    with torch.no_grad():
        net[-1].weight.mul_(1e3)
    x = images().astype(np.float32)
    assert np.mean(training.predict(net, x).max(axis=1) > 1 - 1e-9) > 0.5
    tensor = torch.tensor(x).requires_grad_()
    logits = net(tensor)
    torch.nn.functional.cross_entropy(logits, logits.argmax(dim=1)).backward()
    assert (tensor.grad == 0).all(dim=(1, 2, 3)).any()  # the equation as it stands stands still
    moved = odin.perturb(net, x, 1, 0.01)
    assert np.all(moved != x)
    exact = odin.perturb(network_like(net), x.astype(np.float64), 1, 0.01)
    assert np.mean(np.sign(moved - x) == np.sign(exact - x)) > 0.99


def network_like(net):
    """A copy in double precision."""
    copy = network()
    copy.load_state_dict(net.state_dict())
    return copy


def test_flattened_scores_of_a_trained_network_tie_in_single_precision_only(trained):
    net, digits = trained
    logits = training.predict_outputs(net, digits.test.images)
    assert np.ptp(odin.odin_score(net, digits.test.images, 1000, 0)) < 0.01
    ours = odin.odin_score(net, digits.test.images, 1e6, 0)
    single = torch.tensor(logits / 1e6, dtype=torch.float32).softmax(dim=1).max(dim=1).values.numpy()
    assert len(np.unique(ours)) == len(np.unique(logits, axis=0))
    # The spread of a few millionths holds some hundred steps of single precision.
    assert len(np.unique(single)) < len(np.unique(ours)) / 1.5


def test_logits_closer_than_single_precision_resolves_are_told_apart():
    """The spread of scores of weak logits at T = 1000 is 6e-5; float32 near .1 has steps of 7e-9."""
    logits = np.linspace(0, 0.6, 100_000)[:, None] * np.eye(10)[0]
    ours = odin.softmax_score(logits, 1000)
    single = torch.tensor(logits / 1000, dtype=torch.float32).softmax(dim=1).max(dim=1).values.numpy()
    assert np.ptp(ours) == pytest.approx(6e-5, rel=0.2)
    assert len(np.unique(ours)) == len(ours)
    assert len(np.unique(single)) < len(single) / 5


@pytest.mark.parametrize("training_mode", [True, False])
def test_the_network_is_left_as_it_came(training_mode):
    with training.seeded(0):
        net = nn.Sequential(
            nn.Flatten(), nn.BatchNorm1d(12), nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 3)
        )
    net.train(training_mode)
    net[3].train(not training_mode)  # every module has its own mode
    before = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    x = images().astype(np.float32)
    copy = x.copy()
    odin.odin_score(net, x)
    odin.perturb(net, x)
    training.features(net, x)
    odin.tune(net, x, 1 - x, temperatures=(1, 10), epsilons=(0, 0.1))
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in before.items())
    assert [module.training for module in net.modules()] == modes
    assert all(parameter.grad is None and parameter.requires_grad for parameter in net.parameters())
    assert np.array_equal(x, copy)
    assert not any(module._forward_hooks for module in net.modules())


def test_dropout_is_off_and_two_calls_agree():
    with training.seeded(0):
        net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 3)).train()
    x = images().astype(np.float32)
    assert np.array_equal(odin.odin_score(net, x), odin.odin_score(net, x))


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_it_works_where_gradients_are_switched_off(context):
    net, x = network(), images()
    expected = odin.odin_score(net, x, 10, 0.1)
    with context():
        assert np.array_equal(odin.odin_score(net, x, 10, 0.1), expected)
        assert np.array_equal(odin.odin_score(net, torch.tensor(x), 10, 0.1), expected)


def test_frozen_parameters_do_not_matter():
    net, x = network(), images()
    expected = odin.odin_score(net, x, 10, 0.1)
    net.requires_grad_(False)
    assert np.array_equal(odin.odin_score(net, x, 10, 0.1), expected)


def test_batches_do_not_matter():
    net, x = network(), images()
    small, large = (odin.odin_score(net, x, 10, 0.1, batch_size=size) for size in (3, 100))
    assert small == pytest.approx(large, rel=1e-12)


# --- tuning ---------------------------------------------------------------------------------------


def test_the_grid_holds_what_each_pair_reaches_and_the_best_is_taken():
    net, known, proxy = network(), images(40), images(30, seed=1) ** 3
    tuning = odin.tune(net, known, proxy, temperatures=(100, 1), epsilons=(0.05, 0), batch_size=16)
    assert tuning.temperatures.tolist() == [1, 100]
    assert tuning.epsilons.tolist() == [0, 0.05]
    for row, temperature in enumerate(tuning.temperatures):
        for column, epsilon in enumerate(tuning.epsilons):
            scores = [odin.odin_score(net, x, temperature, epsilon) for x in (known, proxy)]
            expected = metrics.auroc(np.concatenate(scores), np.repeat([False, True], [40, 30]))
            assert tuning.figures[row, column] == pytest.approx(expected, abs=1e-12)
    best = np.argwhere(tuning.figures == tuning.figures.max())[0]
    assert (tuning.temperature, tuning.epsilon) == (tuning.temperatures[best[0]], tuning.epsilons[best[1]])


def test_of_equals_the_plain_one_is_taken():
    net = network()
    far = 100 * images(10, seed=1)  # whatever the pair: far above or below all
    tuning = odin.tune(net, images(), far, temperatures=(1, 2), epsilons=(0, 1e-9))
    assert tuning.epsilon == 0


def test_fpr95_can_be_what_is_to_be_best():
    net, known, proxy = network(), images(40), images(40, seed=1) ** 3
    tuning = odin.tune(net, known, proxy, criterion="fpr95")
    chosen = odin.tune(net, known, proxy, [tuning.temperature], [tuning.epsilon], criterion="fpr95")
    assert tuning.figures.min() == pytest.approx(chosen.figures[0, 0])


def test_what_is_held_out_is_not_to_be_its_own_stranger():
    with pytest.raises(ValueError, match="proxy_ood: expected other inputs"):
        odin.tune(network(), images(), images())


# --- Mahalanobis ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_distances_are_scipys(seed):
    points, labels = clusters(seed=seed)
    detector = odin.Mahalanobis().fit(points, labels)
    within = points - np.stack([points[labels == k].mean(axis=0) for k in range(3)])[labels]
    covariance = within.T @ within / len(points)
    assert detector.covariance == pytest.approx(covariance)
    assert detector.ridge == pytest.approx(1e-6 * np.trace(covariance) / 6)
    precision = np.linalg.inv(covariance + detector.ridge * np.eye(6))
    new = 3 * np.random.default_rng(9).normal(size=(20, 6))
    expected = np.array([[mahalanobis(x, mean, precision) ** 2 for mean in detector.means] for x in new])
    assert detector.distances(new) == pytest.approx(expected, rel=1e-9)
    assert detector.score(new) == pytest.approx(expected.min(axis=1), rel=1e-9)


def test_inputs_of_the_classes_lie_about_as_far_as_there_are_features():
    points, labels = clusters(3000)
    score = odin.Mahalanobis().fit(points, labels).score(points)
    assert score.mean() == pytest.approx(6, rel=0.05)


def test_the_rows_are_done_in_blocks_and_it_cannot_be_seen():
    points, labels = clusters(1300)
    detector = odin.Mahalanobis().fit(points, labels)
    assert detector.score(points)[600:620] == pytest.approx(detector.score(points[600:620]), rel=1e-12)


def test_one_covariance_serves_a_class_with_a_single_input():
    points, labels = clusters()
    few = np.concatenate([np.flatnonzero(labels > 0), np.flatnonzero(labels == 0)[:1]])
    detector = odin.Mahalanobis().fit(points[few], labels[few])
    assert detector.distances(points[few[-1:]])[0, 0] == pytest.approx(0, abs=1e-9)


def test_dead_and_dependent_features_do_no_harm():
    points, labels = clusters()
    doubled = np.concatenate([points, points, np.zeros((300, 3)), points[:, :1] - points[:, 1:2]], axis=1)
    detector = odin.Mahalanobis().fit(doubled, labels)
    plain = odin.Mahalanobis().fit(points, labels)
    assert detector.score(doubled) == pytest.approx(plain.score(points), rel=1e-3)
    broken = doubled[:20].copy()
    broken[:, 6:12] += 0.1 * np.random.default_rng(0).normal(size=(20, 6))
    assert detector.score(broken).min() > detector.score(doubled).max()


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3), seed=st.integers(0, 100))
def test_units_do_not_matter(scale, shift, seed):
    points, labels = clusters(60, seed=seed)
    one = odin.Mahalanobis().fit(points, labels).score(points)
    two = odin.Mahalanobis().fit(scale * (points + shift), labels).score(scale * (points + shift))
    assert two == pytest.approx(one, rel=1e-4, abs=1e-9)


def test_fitting_again_replaces_everything_and_a_failed_fit_nothing():
    first, second = clusters(seed=1), clusters(seed=2)
    detector = odin.Mahalanobis().fit(*first).fit(*second)
    fresh = odin.Mahalanobis().fit(*second)
    assert np.array_equal(detector.score(first[0]), fresh.score(first[0]))
    with pytest.raises(ValueError, match="class 1"):
        detector.fit(first[0][:4], [0, 0, 2, 2])
    assert np.array_equal(detector.score(first[0]), fresh.score(first[0]))


# --- nearest neighbours ---------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", [True, False])
def test_the_kth_distance_is_the_one_of_brute_force(normalise):
    rng = np.random.default_rng(0)
    known, new = rng.normal(size=(200, 5)), rng.normal(size=(30, 5))
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) if normalise else x for x in (known, new))
    expected = np.sort(np.linalg.norm(b[:, None] - a, axis=2), axis=1)[:, 6]
    assert odin.KNearestNeighbours(7, normalise).fit(known).score(new) == pytest.approx(expected)


def test_the_length_of_a_feature_does_not_matter_once_it_is_divided_by():
    rng = np.random.default_rng(0)
    known, new = rng.normal(size=(50, 5)), rng.normal(size=(10, 5))
    detector = odin.KNearestNeighbours(3).fit(known)
    for factor in (1e-200, 7.0, 1e200):
        assert detector.score(factor * new) == pytest.approx(detector.score(new))


def test_a_feature_vector_of_zeros_is_one_away_from_everything():
    known = np.random.default_rng(0).normal(size=(50, 5))
    assert odin.KNearestNeighbours(3).fit(known).score(np.zeros((2, 5))) == pytest.approx(1)


# --- all of them ----------------------------------------------------------------------------------


def all_scores(net, train):
    """Every score of the module as a function of images."""
    seen = training.features(net, train.images)
    distance, neighbours = odin.Mahalanobis().fit(seen, train.labels), odin.KNearestNeighbours(10).fit(seen)
    return {
        "softmax": lambda x: odin.softmax_score(training.predict_outputs(net, x)),
        "softmax, hot": lambda x: odin.softmax_score(training.predict_outputs(net, x), 1000),
        "largest logit": lambda x: odin.max_logit_score(training.predict_outputs(net, x)),
        "energy": lambda x: odin.energy_score(training.predict_outputs(net, x)),
        "ODIN": lambda x: odin.odin_score(net, x, 1000, 0.01),
        "Mahalanobis": lambda x: distance.score(training.features(net, x)),
        "neighbours": lambda x: neighbours.score(training.features(net, x)),
    }


def test_every_score_is_higher_for_what_is_strange(trained):
    net, digits = trained
    clean = digits.test.images
    strange = np.random.default_rng(0).permuted(clean.reshape(600, 64), axis=1).reshape(clean.shape)
    for name, score in all_scores(net, digits.train).items():
        found = score(np.concatenate([clean, strange]))
        assert found.dtype == np.float64, name
        assert found.shape == (1200,), name
        assert metrics.auroc(found, np.arange(1200) >= 600) > 0.75, name


# --- what hid in the extremes ---------------------------------------------------------------------


def test_cold_temperatures_leave_the_largest_logit():
    logits = np.random.default_rng(0).normal(size=(50, 4))
    assert np.array_equal(odin.energy_score(logits, 1e-308), odin.max_logit_score(logits))
    assert (odin.softmax_score(logits, 1e-308) == -1).all()


@pytest.mark.parametrize("score", [odin.softmax_score, odin.energy_score])
def test_a_temperature_that_no_logit_survives_is_refused(score):
    logits = np.random.default_rng(0).normal(size=(50, 4))
    assert len(np.unique(score(logits, 1e10))) == 50
    with pytest.raises(ValueError, match=r"temperature: expected at most .* the same number in float64"):
        score(logits, 1e18)


def test_logits_that_hardly_differ_tie_without_an_error_up_to_a_million():
    logits = 1e-12 * np.random.default_rng(0).normal(size=(50, 10))
    assert len(np.unique(odin.softmax_score(logits))) == 50
    assert len(np.unique(odin.softmax_score(logits, 1e6))) == 1
    with pytest.raises(ValueError, match="temperature: expected at most"):
        odin.softmax_score(logits, 1.1e6)


@pytest.mark.parametrize("function", [odin.odin_score, odin.perturb])
def test_a_network_with_a_softmax_at_its_end_is_told_so(function):
    with pytest.raises(ValueError, match=r"model: expected logits, .* leave the softmax out"):
        function(nn.Sequential(network(), nn.Softmax(1)), images())
    with pytest.raises(ValueError, match="leave the softmax out"):
        odin.tune(nn.Sequential(network(), nn.Softmax(1)), images(), images(seed=1))


def test_a_distance_far_below_the_features_size_is_the_true_one():
    rng = np.random.default_rng(0)
    known = rng.normal(size=(200, 30))
    for normalise, scale, step in [(False, 1.0, 1e-8), (False, 1e6, 2.2e-3), (False, 1e-200, 1e-205)]:
        near = scale * known
        near[:, 0] += step
        true = np.linalg.norm((near - scale * known) / step, axis=1) * step
        found = odin.KNearestNeighbours(1, normalise).fit(scale * known).score(near)
        assert found == pytest.approx(true, rel=1e-12), (scale, step)


@pytest.mark.parametrize("units", ["common", "own"])
def test_one_feature_in_another_unit_hides_the_strange_unless_units_are_its_own(units):
    known, labels = clusters(width=5)
    strange = known + np.array([0, 0, 12.0, 0, 0])
    factor = np.array([1e8, 1, 1, 1, 1])
    plain = odin.Mahalanobis(units=units).fit(known, labels).score(strange)
    scaled = odin.Mahalanobis(units=units).fit(factor * known, labels).score(factor * strange)
    if units == "own":
        assert scaled == pytest.approx(plain, rel=1e-6)
    else:
        assert np.median(scaled) < np.median(plain) / 10


def test_loaders_are_taken_where_arrays_are(trained):
    net, digits = trained
    known, labels = training.features(net, digits.train.images), digits.train.labels
    pairs = torch.utils.data.TensorDataset(torch.tensor(known), torch.tensor(labels))
    loader = torch.utils.data.DataLoader(pairs, batch_size=64)
    new = training.features(net, digits.test.images)
    for make in (odin.Mahalanobis, odin.KNearestNeighbours):
        arrays = (known, labels) if make is odin.Mahalanobis else (known,)
        assert np.array_equal(make().fit(loader).score(new), make().fit(*arrays).score(new))
    inputs = torch.utils.data.DataLoader(torch.tensor(digits.test.images[:150]), batch_size=64)
    whole = odin.odin_score(net, digits.test.images[:150])
    assert odin.odin_score(net, inputs) == pytest.approx(whole, abs=1e-9)
    tuned = odin.tune(net, inputs, digits.test.images[150:], (1.0, 1000.0), (0.0,))
    assert np.array_equal(
        tuned.figures,
        odin.tune(net, digits.test.images[:150], digits.test.images[150:], (1.0, 1000.0), (0.0,)).figures,
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: odin.KNearestNeighbours(3, normalise="no"), "normalise: expected True or False"),
        (lambda: odin.Mahalanobis(units="mixed"), "units: expected one of 'common', 'own'"),
        (lambda: odin.Mahalanobis().fit(np.eye(4)), "labels: expected"),
    ],
)
def test_settings_of_detectors_are_not_guessed(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- wrong inputs ---------------------------------------------------------------------------------

NAN, GOOD = np.array([[np.nan, 1.0, 2.0]]), np.array([[0.5, 1.0, -2.0]])


@pytest.mark.parametrize(
    "bad",
    [NAN, [[np.inf, 1.0]], np.zeros(3), np.zeros((0, 3)), np.zeros((3, 1)), [["a", "b"]], [[0.25, 0.75]]],
)
@pytest.mark.parametrize("score", [odin.softmax_score, odin.max_logit_score, odin.energy_score])
def test_what_is_not_logits_is_refused(score, bad):
    with pytest.raises(ValueError, match="logits: expected"):
        score(bad)


@pytest.mark.parametrize("temperature", [0, -1, np.nan, np.inf, "hot", None])
def test_a_temperature_is_above_zero(temperature):
    calls = [
        lambda: odin.softmax_score(GOOD, temperature),
        lambda: odin.energy_score(GOOD, temperature),
        lambda: odin.odin_score(network(), images(), temperature),
        lambda: odin.tune(network(), images(), images(seed=1), temperatures=[temperature]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="temperature"):
            call()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"std": 0}, "std"),
        ({"std": [0.1, 0.2]}, "std"),
        ({"std": [0.1, np.nan, 1]}, "std"),
        ({"std": [[0.1, 0.2, 0.3]]}, "std"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"inputs": images()[:0]}, "inputs"),
        ({"inputs": np.full((2, 3, 2, 2), np.nan)}, "inputs"),
        ({"inputs": np.zeros((2, 3, 2, 2), np.int64)}, "inputs"),
        ({"inputs": 1.0}, "inputs"),
        ({"model": None}, "model"),
        ({"model": lambda x: x}, "model"),
        ({"model": nn.Tanh()}, "model"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(12, 1)).double()}, "model"),
        ({"model": nn.Conv2d(3, 2, 1).double()}, "model"),
    ],
)
@pytest.mark.parametrize("function", [odin.odin_score, odin.perturb])
def test_bad_arguments_of_odin_are_named(function, changed, named):
    arguments = {"model": network(), "inputs": images()} | changed
    with pytest.raises(ValueError, match=f"^{named}: expected"):
        function(**arguments)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"held_out_id": images()[:0]}, "held_out_id"),
        ({"proxy_ood": "letters"}, "proxy_ood"),
        ({"proxy_ood": np.zeros(3)}, "proxy_ood"),
        ({"temperatures": []}, "temperatures"),
        ({"epsilons": [-1]}, "epsilons"),
        ({"criterion": "accuracy"}, "criterion"),
    ],
)
def test_bad_arguments_of_tuning_are_named(changed, named):
    arguments = {"model": network(), "held_out_id": images(), "proxy_ood": images(seed=1)} | changed
    with pytest.raises(ValueError, match=f"^{named}"):
        odin.tune(**arguments)


@pytest.mark.parametrize(
    ("features", "labels", "named"),
    [
        (np.zeros((0, 2)), [], "features"),
        (np.zeros(4), [0, 0, 1, 1], "features"),
        (np.full((4, 2), np.nan), [0, 0, 1, 1], "features"),
        (np.full((4, 2), 1e300) * [[1], [-1], [1], [-1]], [0, 0, 1, 1], "features"),
        (np.ones((4, 2)), [0, 0, 1, 1], "features"),
        (np.eye(4), [0, 0, 1], "labels"),
        (np.eye(4), [0, 0, 2, 2], "labels"),
        (np.eye(4), [0, 0, -1, 1], "labels"),
        (np.eye(4), [0, 0.5, 1, 1], "labels"),
    ],
)
def test_bad_features_are_named(features, labels, named):
    with pytest.raises(ValueError, match=f"^{named}: expected"):
        odin.Mahalanobis().fit(features, labels)


def test_a_detector_wants_to_be_fitted_first_and_features_of_the_same_width():
    points, labels = clusters()
    for detector, fitted in (
        (odin.Mahalanobis(), odin.Mahalanobis().fit(points, labels)),
        (odin.KNearestNeighbours(5), odin.KNearestNeighbours(5).fit(points)),
    ):
        with pytest.raises(ValueError, match="expected fit"):
            detector.score(points)
        for bad in (points[:, :3], points[0], np.full((2, 6), np.nan), points[:0]):
            with pytest.raises(ValueError, match=r"^features: expected"):
                fitted.score(bad)


@pytest.mark.parametrize("bad", [0, -1, np.nan, "small"])
def test_bad_settings_of_detectors_are_named(bad):
    with pytest.raises(ValueError, match="relative_ridge"):
        odin.Mahalanobis(bad)
    with pytest.raises(ValueError, match=r"^k: expected"):
        odin.KNearestNeighbours(bad)
    with pytest.raises(ValueError, match="at least k = 9"):
        odin.KNearestNeighbours(9).fit(np.eye(5))


# --- the benchmark and the table, small -----------------------------------------------------------


def test_the_benchmark_runs_and_says_what_it_stands_beside(monkeypatch):
    from benchmarks import bench, bench_odin, timing

    noise = np.random.default_rng(0).random((300, 1, 28, 28), dtype=np.float32)
    monkeypatch.setattr(bench_odin, "test_images", lambda count: (noise[:count], "images of noise"))
    rows = bench_odin.rows(inputs=300, features=16, repeats=1)
    assert [row["name"].split(",")[0] for row in rows] == ["ODIN", "ODIN", "energy", "Mahalanobis"]
    assert all(row["ours_s"] > 0 and len(bench.line(row)) == len(bench.HEAD) for row in rows)
    assert_the_scores_were_compared(rows, both=timing.installed("pytorch_ood"))


def assert_the_scores_were_compared(rows, both):
    for row in rows[:3]:  # ODIN twice, and energy
        assert ("not compared" in row["note"]) != both
        if both:
            assert f"scores at most {row['apart']:.1g} apart" in row["note"]
            assert row["apart"] < 0.02 * row["span"]  # what single precision leaves at T = 1000


def test_the_benchmark_finds_scores_that_differ():
    from benchmarks import bench_odin

    x = np.random.default_rng(0).random((600, 1, 2, 2))

    def mean(images):
        return images.mean(axis=(1, 2, 3))

    def other(part):  # differs in one image, by a quarter
        return torch.from_numpy(mean(part.numpy()) + 0.25 * (part.numpy()[:, 0, 0, 0] == x[499, 0, 0, 0]))

    found, words = bench_odin.apart(mean, other, x)
    assert found == pytest.approx({"apart": 0.25, "span": np.ptp(mean(x[:500]))})
    assert "at most 0.2 apart" in words
    assert bench_odin.apart(mean, None, x) == ({}, "scores not compared")


def test_the_stored_times_are_of_scores_that_are_the_same():
    from benchmarks import provenance

    stored = provenance.RESULTS / "bench_odin.json"
    if not stored.exists():
        pytest.skip("no times are stored; `python -m benchmarks.bench odin` stores them")
    assert_the_scores_were_compared(json.loads(stored.read_text())["rows"], both=True)


def test_the_stored_table_says_what_the_chapter_says_of_it():
    """Mahalanobis lowest on three strange sets, clearly so on two; a published nudge that moves nothing."""
    from benchmarks import provenance, reproduce_ood

    runs = json.loads((provenance.RESULTS / "reproduce_ood.json").read_text())["runs"]
    area = {
        key: {
            d: np.mean([run["figures"][f"{d}, {key}"]["auroc"] for run in runs])
            for d in reproduce_ood.DETECTORS
        }
        for key in reproduce_ood.STRANGE
    }
    for key in ("fashion_mnist", "kmnist", "letters"):
        assert min(area[key], key=area[key].get) == "mahalanobis"
    for key in ("fashion_mnist", "kmnist"):
        assert area[key]["mahalanobis"] < area[key]["softmax"] - 0.05
    for row in area.values():
        assert abs(row["nudge"] - row["softmax"]) < 0.002
        assert abs(row["odin"] - row["hot"]) < 0.002
    worst = {d: min(area[key][d] for key in area) for d in reproduce_ood.DETECTORS}
    assert max(worst, key=worst.get) == "neighbours"
    assert {run["tuned"]["epsilon"] for run in runs} == {0.0}


def test_the_length_and_not_the_gaussian_held_mahalanobis_back():
    from benchmarks import provenance, reproduce_ood_lengths

    runs = json.loads((provenance.RESULTS / "reproduce_ood_lengths.json").read_text())["runs"]
    assert len(runs) >= 5
    for key in reproduce_ood_lengths.STRANGE:
        for detector in ("mahalanobis", "neighbours"):
            mean, reach = reproduce_ood_lengths.gain(runs, detector, key)
            assert mean > (0 if key == "notmnist" else reach)  # there, five networks do not settle it
        mean = {d: np.mean([run[f"{d}, {key}"] for run in runs]) for d in reproduce_ood_lengths.DETECTORS}
        assert mean["mahalanobis unit"] == max(mean.values())


def test_the_stored_page_of_the_lengths_is_that_of_the_stored_figures():
    from benchmarks import provenance, reproduce_ood_lengths

    runs = json.loads((provenance.RESULTS / "reproduce_ood_lengths.json").read_text())["runs"]
    page = (provenance.RESULTS / "reproduce_ood_lengths.md").read_text()
    assert page.startswith(reproduce_ood_lengths.page(runs))


def test_each_detector_is_fitted_with_and_without_the_length():
    from benchmarks import reproduce_ood_lengths

    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    known = rng.normal(size=(300, 4)) + 4 * np.eye(4)[labels]
    rules = reproduce_ood_lengths.detectors(known, labels)
    assert set(rules) == set(reproduce_ood_lengths.DETECTORS)
    new = known[:6] + rng.normal(size=(6, 4))
    for name, rule in rules.items():
        assert np.allclose(rule(new), rule(2 * new)) == name.endswith("unit")


def test_the_table_has_every_detector_on_every_set(monkeypatch):
    from benchmarks import reproduce_ood as table

    rng = np.random.default_rng(0)

    def noise(n):
        return rng.random((n, 1, 28, 28), dtype=np.float32)

    splits = [data.Split(noise(n), np.arange(n) % 10) for n in (60, 20, 20)]
    images = data.ImageData("noise", *splits, 10, (1, 28, 28), 0.5, 0.3)
    monkeypatch.setattr(table, "PASSES", 2)
    nets = [table.with_weights(table.trained_weights(seed, images.train, 1)) for seed in (0, 1, 2)]
    run = table.one_run(nets, 0, 0, images, {name: noise(20) / 2 for name in table.STRANGE})
    assert len(run["figures"]) == len(table.DETECTORS) * len(table.STRANGE)
    assert all(set(figures) == set(table.COLUMNS) for figures in run["figures"].values())
    page = table.page([run, run], 60, 20)
    assert page.count("\n## ") == len(table.STRANGE)
    assert all(words in page for words in table.DETECTORS.values())
    assert "nan" not in page


def test_log_probabilities_have_no_energy():
    logits = np.random.default_rng(0).normal(size=(50, 4))
    logs = np.log(metrics.from_logits(logits))
    assert odin.softmax_score(logs) == pytest.approx(odin.softmax_score(logits))
    with pytest.raises(ValueError, match=r"logits: expected logits, .* are these log probabilities"):
        odin.energy_score(logs)


def test_a_network_in_a_precision_that_numpy_lacks_is_nudged_too():
    x = np.random.default_rng(0).random((5, 4)).astype(np.float32)
    net = torch.nn.Linear(4, 3).to(torch.bfloat16)
    moved = odin.perturb(net, x, 1, 0.1)
    assert moved.dtype == np.float32
    assert np.abs(np.abs(moved - x) - 0.1).max() < 2**-7


def test_a_step_that_single_precision_cannot_hold_is_refused():
    for use in (odin.perturb, odin.odin_score):
        with pytest.raises(ValueError, match=r"^epsilon: expected a number in"):
            use(network().float(), images(), epsilon=1e39)


def test_the_coldest_step_is_that_towards_the_winner_and_away_from_the_second():
    cold, cool = (odin.perturb(network().float(), images(), t, 0.1) for t in (1e-300, 1e-20))
    assert np.array_equal(cold, cool)
    assert (cold != images().astype(np.float32)).any()
