"""The toy sets, and the truth they say they were drawn from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uqhelpers import data

REGRESSION = [data.line, data.gap_line, data.sinusoid, data.cubic]
CLASSIFICATION = [data.two_moons, data.logistic, data.spirals, data.one_dimensional]


@pytest.mark.parametrize("toy", REGRESSION)
def test_regression_scatters_around_the_truth_by_the_noise(toy):
    found = toy(n=4000, noise=0.5, seed=1)
    assert found.inputs.shape == found.targets.shape == (4000, 1)
    away = found.targets - found.truth(found.inputs)
    # Standard errors: .5/√4000 = .008 for the mean, .0056 for the deviation; four of them on either side.
    assert away.mean() == pytest.approx(0, abs=0.032)
    assert away.std() == pytest.approx(found.noise, abs=0.023)
    assert np.abs(np.corrcoef(found.inputs.ravel(), away.ravel())[0, 1]) < 4 / np.sqrt(4000)


@pytest.mark.parametrize("toy", REGRESSION)
def test_without_noise_the_targets_are_the_truth(toy):
    found = toy(noise=0)
    assert np.array_equal(found.targets, found.truth(found.inputs))


@pytest.mark.parametrize("toy", REGRESSION + CLASSIFICATION)
def test_a_seed_repeats_and_another_differs(toy):
    assert np.array_equal(toy(seed=5).inputs, toy(seed=5).inputs)
    assert np.array_equal(toy(seed=5).targets, toy(seed=5).targets)
    assert not np.array_equal(toy(seed=5).targets, toy(seed=6).targets) or toy is data.spirals
    assert not np.array_equal(toy(seed=5).inputs, toy(seed=6).inputs)
    generator = np.random.default_rng(5)
    assert not np.array_equal(toy(seed=generator).inputs, toy(seed=generator).inputs)


@pytest.mark.parametrize("toy", REGRESSION + CLASSIFICATION)
def test_inputs_and_targets_can_be_taken_apart(toy):
    x, y = toy()
    assert len(x) == len(y) == len(toy())


@pytest.mark.parametrize("toy", CLASSIFICATION)
def test_the_truth_of_a_classification_is_a_distribution_anywhere(toy):
    found = toy()
    far = np.random.default_rng(0).uniform(-100, 100, size=(50, found.inputs.shape[1]))
    for points in (found.inputs, far):
        probs = found.truth(points)
        assert probs.shape == (len(points), found.targets.max() + 1)
        assert np.isfinite(probs).all()
        assert probs.min() >= 0
        assert probs.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    "found",
    [
        data.two_moons(20_000, noise=0.4, seed=2),
        data.spirals(8_000, seed=2),
        data.one_dimensional(20_000, seed=2),
    ],
    ids=["two_moons", "spirals", "one_dimensional"],
)
def test_the_true_probability_is_the_frequency(found):
    """In each tenth of the probability: within four standard errors (a false alarm in 10,000 seeds or so)."""
    probs = found.truth(found.inputs)[:, 1]
    hit = found.targets == 1
    which = np.minimum((probs * 10).astype(int), 9)
    used = 0
    for tenth in range(10):
        inside = which == tenth
        if inside.sum() >= 100:
            error = np.sqrt(max((probs[inside] * (1 - probs[inside])).mean(), 1e-4) / inside.sum())
            assert abs(hit[inside].mean() - probs[inside].mean()) < 4 * error
            used += 1
    assert used >= 2


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
    start=st.floats(-3.9, 3.0),
    width=st.floats(0.01, 0.8),
)
def test_no_point_falls_into_the_gap(n, seed, start, width):
    x = data.sinusoid(n, seed=seed, gap=(start, start + width)).inputs
    assert x.shape == (n, 1)
    assert np.all((x >= -4) & (x <= 4))
    assert not np.any((x > start + 1e-9) & (x < start + width - 1e-9))


def test_both_sides_of_a_gap_are_filled_in_their_share():
    x = data.sinusoid(8000, gap=(-3.0, 1.0), seed=0).inputs  # one unit on the left, three on the right
    assert (x < -3).mean() == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 8000))


def test_the_line_with_a_gap_is_two_clouds():
    x = np.abs(data.gap_line(400).inputs)
    assert x.min() >= 1
    assert x.max() <= 2
    assert 120 < (data.gap_line(400).inputs > 0).sum() < 280


def test_the_cubic_is_the_published_one():
    """Forty points of which a constant Gaussian has 4.58 nats a point, and the true model 2.39."""
    found = data.cubic()
    assert found.noise == 3
    away = found.targets - found.inputs**3
    truth = 0.5 * np.log(2 * np.pi * 9) + (away**2).mean() / 18
    constant = 0.5 * np.log(2 * np.pi * found.targets.var()) + 0.5
    assert round(truth, 2) == 2.39
    assert round(constant, 2) == 4.58
    assert found.inputs.min() > -4
    assert found.inputs.max() < 4


def test_the_moons_are_balanced_and_reach_into_each_other():
    found = data.two_moons(301, noise=0.01)
    assert np.bincount(found.targets).tolist() == [151, 150]
    upper, lower = found.inputs[found.targets == 0], found.inputs[found.targets == 1]
    assert np.hypot(*upper.T) == pytest.approx(np.ones(151), abs=0.06)
    assert np.hypot(lower[:, 0] - 1, lower[:, 1] - 0.5) == pytest.approx(np.ones(150), abs=0.06)
    assert lower[:, 1].min() < 0 < 0.3 < lower[:, 1].max()
    assert found.truth([[0.0, 1.0], [1.0, -0.5]]) == pytest.approx(np.eye(2))


def test_the_spirals_follow_their_arms():
    found = data.spirals(1000, classes=3, seed=0)
    assert found.inputs.shape == (3000, 2)
    assert np.bincount(found.targets).tolist() == [1000, 1000, 1000]
    radius = np.hypot(*found.inputs.T)
    assert radius == pytest.approx(np.tile(np.linspace(0, 1, 1000), 3))
    # Take the middle of each arm away: what is left is noise of .3 (radius + 1) radians.
    middle = 8 * (found.targets + radius)
    noise = np.angle(np.exp(1j * (np.arctan2(found.inputs[:, 1], found.inputs[:, 0]) - middle)))
    assert (noise / (0.3 * (radius + 1)))[radius > 0].std() == pytest.approx(1, abs=0.05)


def test_the_three_regions_are_clear_empty_and_ambiguous():
    found = data.one_dimensional(2001, seed=1)
    x, y = found.inputs[:, 0], found.targets
    clear, unclear = (x > -6) & (x < -4), (x > 3.5) & (x < 4.5)
    assert (clear.sum(), unclear.sum()) == (1001, 1000)
    assert not y[clear].any()
    assert y[unclear].mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(1000))
    assert found.truth([[-5.0], [4.0]]).tolist() == [[1, 0], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: data.line(0), "n"),
        (lambda: data.line(2.5), "n"),
        (lambda: data.line(noise=-1), "noise"),
        (lambda: data.line(noise=np.nan), "noise"),
        (lambda: data.line(slope="steep"), "slope"),
        (lambda: data.line(low=1, high=1), "high"),
        (lambda: data.line(low=-1e308, high=1e308), "high"),
        (lambda: data.sinusoid(gap=(2, 1)), "gap"),
        (lambda: data.sinusoid(gap=(-5, 1)), "gap"),
        (lambda: data.sinusoid(gap=1), "gap"),
        (lambda: data.sinusoid(seed=-1), "seed"),
        (lambda: data.cubic(seed=1.5), "seed"),
        (lambda: data.cubic(seed=2**32), "seed"),
        (lambda: data.cubic(low=5), "high"),
        (lambda: data.gap_line(0), "n"),
        (lambda: data.two_moons(1), "n"),
        (lambda: data.two_moons(noise=0), "noise"),
        (lambda: data.spirals(0), "n_per_class"),
        (lambda: data.spirals(classes=1), "classes"),
        (lambda: data.one_dimensional(1), "n"),
        (lambda: data.two_moons().truth([[1.0]]), "x"),
        (lambda: data.two_moons().truth([[1.0, np.nan]]), "x"),
        (lambda: data.sinusoid().truth([1.0]), "x"),
    ],
)
def test_a_wrong_argument_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}:"):
        call()
