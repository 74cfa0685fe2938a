import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_recall_fscore_support
from sklearn.metrics import confusion_matrix as sklearn_confusion
from sklearn.neighbors import KernelDensity

from uqhelpers import metrics, models, training
from uqhelpers._torch import torch
from uqhelpers.first_classifier import (
    Familiarity,
    class_scores,
    confusion_matrix,
    in_another_mix,
    most_confident_errors,
    neighbours_kept,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def answers(seed=0, n=200, classes=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    return np.where(rng.random(n) < 0.7, labels, rng.integers(classes, size=n)), labels


# --- class by class ---------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 50), st.integers(2, 6), st.integers(0, 999))
def test_tables_and_scores_are_those_of_scikit_learn(n, classes, seed):
    predictions, labels = answers(seed, n, classes)
    every = np.arange(classes)
    table = confusion_matrix(predictions, labels, classes)
    assert np.array_equal(table, sklearn_confusion(labels, predictions, labels=every))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes without inputs or predictions
        scores = class_scores(predictions, labels, classes)
        want = precision_recall_fscore_support(labels, predictions, labels=every, zero_division=np.nan)
        macro = f1_score(labels, predictions, labels=every, average="macro", zero_division=np.nan)
        balanced = balanced_accuracy_score(labels, predictions)
    for got, theirs in zip((scores.precision, scores.recall, scores.f1, scores.support), want, strict=True):
        np.testing.assert_allclose(got, theirs, atol=1e-12)
    assert scores.macro_f1 == pytest.approx(macro)
    assert scores.balanced_accuracy == pytest.approx(balanced)
    assert scores.accuracy == pytest.approx(np.mean(predictions == labels))


def test_rows_of_the_table_are_the_true_classes():
    assert confusion_matrix([1, 1, 0], [0, 0, 0], classes=2).tolist() == [[1, 2], [0, 0]]


def test_scores_by_hand():
    # Class 0: two of three found, and one of three answers "0" is wrong; class 1: one of two found.
    scores = class_scores([0, 0, 1, 0, 1], [0, 0, 0, 1, 1], classes=2)
    assert scores.precision == pytest.approx([2 / 3, 1 / 2])
    assert scores.recall == pytest.approx([2 / 3, 1 / 2])
    assert scores.f1 == pytest.approx([2 / 3, 1 / 2])
    assert scores.macro_f1 == pytest.approx(7 / 12)


def test_a_class_that_is_never_found_has_no_precision_and_an_f1_of_zero():
    with pytest.warns(RuntimeWarning, match=r"never predicted.*\[1\]"):
        scores = class_scores([0, 0, 0], [0, 0, 1], classes=2)
    assert np.isnan(scores.precision[1])
    assert scores.recall[1] == 0
    assert scores.f1[1] == 0
    assert scores.macro_f1 == pytest.approx(0.4)  # the mean of 4/5 and 0


def test_a_class_that_does_not_exist_is_left_out_of_the_mean_and_is_never_nought():
    with pytest.warns(RuntimeWarning) as caught:
        scores = class_scores([0, 1], [0, 1], classes=3)
    assert len(caught) == 2
    assert np.isnan([scores.precision[2], scores.recall[2], scores.f1[2]]).all()
    assert scores.macro_f1 == 1


def test_another_mix_of_classes_leaves_recall_and_moves_precision():
    predictions, labels = answers(3, 4000, 3)
    here, there = class_scores(predictions, labels, 3), class_scores(predictions, labels, 3, [1, 10, 1])
    assert np.allclose(here.recall, there.recall)
    assert there.precision[1] > here.precision[1] + 0.05
    assert there.precision[0] < here.precision[0] - 0.05


def test_a_mix_is_what_repeating_the_inputs_would_give():
    predictions, labels = np.array([0, 1, 1, 1, 0, 2, 2]), np.array([0, 0, 1, 1, 1, 2, 2])
    times = np.array([3, 2, 6])[labels]  # two, three and two inputs: in all 6, 6 and 12
    repeated = class_scores(np.repeat(predictions, times), np.repeat(labels, times), 3)
    mixed = class_scores(predictions, labels, 3, priors=[6, 6, 12])
    assert np.allclose(repeated.precision, mixed.precision)
    assert np.allclose(repeated.f1, mixed.f1)
    assert repeated.accuracy == pytest.approx(mixed.accuracy)
    assert mixed.support.tolist() == [2, 3, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0], 2), "predictions: expected 1 labels"),
        (([0, 2], [0, 1], 2), "predictions: expected labels from 0 to 1, got 0 to 2"),
        (([0, 1], [0, -1], 2), "labels: expected labels from 0 to 1, got -1"),
        (([0.5], [0], 2), "predictions: expected integer class labels"),
        (([np.nan], [0], 2), "predictions: expected integer class labels"),
        (([], [], 2), "labels: expected at least one label"),
        (([[0]], [[0]], 2), r"labels: expected one label an input.*\(1, 1\)"),
        (([0], [0], 1), "classes: expected a whole number from 2"),
        (([0], [0], 10**6), "classes: expected a whole number from 2 to 10000"),
        (([0], [0], 2.0), "classes: expected a whole number"),
    ],
)
def test_nonsense_is_refused_by_name(arguments, message):
    for function in (confusion_matrix, class_scores):
        with pytest.raises(ValueError, match=message):
            function(*arguments)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ([1, 1], "priors: expected 3 proportions"),
        ([1, -1, 1], "priors: expected 3 proportions of at least 0"),
        ([0, 0, 0], "not all 0"),
        ([1, 1, 1], r"priors: expected classes that occur in labels, got no inputs of class \[2\]"),
        ([1, np.nan, 1], "priors: expected finite numbers"),
    ],
)
def test_impossible_mixes_are_refused(priors, message):
    with pytest.raises(ValueError, match=message):
        class_scores([0, 1], [0, 1], 3, priors)


def test_recall_does_not_depend_on_the_mix_even_of_a_class_that_it_leaves_out():
    with pytest.warns(RuntimeWarning, match=r"precision: .*class \[1\]") as told:
        scores = class_scores([0, 0, 0], [0, 1, 0], 2, priors=[1, 0])
    assert not any("recall" in str(warning.message) for warning in told)
    assert scores.recall.tolist() == [1, 0]
    some = class_scores([0, 1, 1], [0, 1, 0], 2, priors=[1, 0])
    assert some.recall.tolist() == [0.5, 1]
    assert some.precision.tolist() == [1, 0]  # a class that never comes is called without right


def test_only_the_proportions_of_priors_count_however_large():
    plain = class_scores([0, 1, 1], [0, 1, 0], 2, priors=[1, 1])
    for factor in (1e308, 1e-300):
        scaled = class_scores([0, 1, 1], [0, 1, 0], 2, priors=[factor, factor])
        assert np.allclose(scaled.f1, plain.f1)
        assert scaled.accuracy == pytest.approx(plain.accuracy)


def test_probabilities_in_another_mix_are_those_of_bayes_rule(rng):
    likelihood = rng.random((50, 4))
    old, new = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
    before, after = (likelihood * pi / (likelihood @ pi)[:, None] for pi in (old, new))
    assert np.allclose(in_another_mix(before, old, new), after)
    assert np.allclose(in_another_mix(before[None], 7 * old, 1e-200 * new), after[None])
    assert np.allclose(in_another_mix(after, new, old), before)  # there and back
    assert np.allclose(in_another_mix(before, old, old), before)


def test_a_class_that_does_not_come_any_more_has_no_probability():
    moved = in_another_mix([[0.5, 0.25, 0.25]], [1, 1, 1], [0, 1, 3])
    assert moved.tolist() == [[0, 0.25, 0.75]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[2.0, -1.0]], [1, 1], [1, 1]), "are these logits"),
        (([[0.5, 0.5]], [1, 1, 1], [1, 1]), "old: expected 2 proportions"),
        (([[0.5, 0.5]], [1, 1], [1, -1]), "new: expected 2 proportions of at least 0"),
        (([[0.5, 0.5]], [0, 0], [1, 1]), "old: .* not all 0"),
        (([[0.5, 0.5]], [1, np.nan], [1, 1]), "old: expected finite"),
        (([[0.5, 0.5]], [1, 0], [1, 1]), r"old: .* got none of class \[1\]"),
        (([[1.0, 0.0]], [1, 1], [0, 1]), "probs: .* a row without any"),
    ],
)
def test_mixes_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        in_another_mix(*arguments)


# --- error by error ---------------------------------------------------------------------------------------


def test_errors_come_the_most_confident_first():
    probs = [[0.6, 0.4], [0.1, 0.9], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]]
    assert most_confident_errors(probs, [1, 1, 1, 0, 0]).tolist() == [2, 4, 0]  # of the two .8 the first
    assert most_confident_errors(probs, [1, 1, 1, 0, 0], k=1).tolist() == [2]
    assert most_confident_errors([probs, probs], [1, 1, 1, 0, 0], k=2).tolist() == [2, 4]


def test_without_errors_there_are_none():
    assert most_confident_errors(np.eye(3), [0, 1, 2]).size == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[2.0, -1.0]], [0]), "are these logits"),
        (([[0.5, 0.5]], [2]), "labels: expected labels from 0 to 1"),
        (([[0.5, 0.5]], [0, 1]), "labels: expected 1 labels"),
        (([[0.5, 0.5]], [0], 0), "k: expected a whole number"),
        (([[np.nan, 0.5]], [0]), "probs: expected probabilities, got NaN"),
    ],
)
def test_errors_of_nonsense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        most_confident_errors(*arguments)


# --- neighbours -------------------------------------------------------------------------------------------


def test_a_picture_that_only_turns_and_scales_keeps_all_neighbours(rng):
    points = rng.normal(size=(50, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert neighbours_kept(points, 5 * points @ turn + 2) == 1


def test_a_random_picture_keeps_as_many_as_chance_does(rng):
    kept = neighbours_kept(rng.normal(size=(400, 5)), rng.normal(size=(400, 2)), k=20)
    assert kept == pytest.approx(20 / 399, abs=0.01)  # about 8,000 looks: standard error .0025


def test_neighbours_kept_by_hand():
    line, folded = np.array([[0.0], [1.0], [2.1], [3.3]]), np.array([[0.0], [1.0], [0.9], [3.3]])
    # On the line: 1, 0, 1, 2. Folded: 2, 2, 1, 1. Only the third keeps its nearest.
    assert neighbours_kept(line, folded, k=1) == 0.25


@pytest.mark.parametrize(
    ("points", "shown", "k", "message"),
    [
        (np.zeros((3, 2)), np.zeros((4, 2)), 1, "shown: expected 3 places"),
        (np.zeros((3, 2)), np.zeros((3, 2)), 3, "k: expected a whole number from 1 to 2"),
        (np.zeros(3), np.zeros((3, 2)), 1, "points: expected shape"),
        (np.zeros((3, 2)), np.full((3, 2), np.inf), 1, "shown: expected finite"),
        (np.zeros((0, 2)), np.zeros((0, 2)), 1, "points: expected at least one value"),
    ],
)
def test_pictures_that_are_none_are_refused(points, shown, k, message):
    with pytest.raises(ValueError, match=message):
        neighbours_kept(points, shown, k)


# --- familiarity ------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.sampled_from([0.05, 0.5, 3.0]), st.integers(0, 99))
def test_densities_are_those_of_scikit_learn(known, dimension, bandwidth, seed):
    rng = np.random.default_rng(seed)
    points, new = rng.normal(5, 1, size=(known, dimension)), rng.normal(5, 1, size=(9, dimension))
    ours = Familiarity(bandwidth).fit(points).log_density(new)
    theirs = KernelDensity(bandwidth=bandwidth).fit(points).score_samples(new)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-7)


def test_the_density_of_the_plane_has_the_mass_one(rng):
    columns, rows, log_density = Familiarity(0.3).fit(rng.normal(size=(40, 2))).grid(resolution=150)
    mass = np.exp(log_density).sum() * (columns[1] - columns[0]) * (rows[1] - rows[0])
    assert mass == pytest.approx(1, abs=0.01)


def test_a_grid_has_a_row_for_each_height():
    columns, rows, log_density = Familiarity(1).fit([[0.0, 4.0]]).grid((-1, 1, 3, 6), resolution=31)
    assert (columns[0], columns[-1], rows[0], rows[-1]) == (-1, 1, 3, 6)
    row, column = np.unravel_index(log_density.argmax(), log_density.shape)
    assert (columns[column], rows[row]) == (pytest.approx(0, abs=0.05), pytest.approx(4, abs=0.06))


def test_held_out_points_choose_the_width(rng):
    points, held = rng.normal(size=(300, 2)), rng.normal(size=(200, 2))
    chosen = Familiarity().fit(points, held).bandwidth_
    every = np.geomspace(0.05, 3, 200)
    best = max(every, key=lambda b: Familiarity(b).fit(points).log_density(held).mean())
    assert chosen == pytest.approx(best, rel=0.05)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_width_goes_with_the_units(scale, rng):
    points, held = rng.normal(size=(80, 4)), rng.normal(size=(50, 4))
    plain = Familiarity().fit(points, held).bandwidth_
    assert Familiarity().fit(scale * points, scale * held).bandwidth_ == pytest.approx(
        scale * plain, rel=1e-6
    )


def test_a_fit_that_fails_leaves_what_was_known(rng):
    points, held = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))
    guard = Familiarity().fit(points, held)
    before, width = guard.score(held), guard.bandwidth_
    for call in (
        lambda: guard.fit(points + 5),
        lambda: guard.fit(points + 5, points + 5),
        lambda: guard.fit(points + 5, held[:, :2]),
    ):
        with pytest.raises(ValueError, match="held_out"):
            call()
        assert np.array_equal(guard.score(held), before)
        assert guard.bandwidth_ == width
    fresh = Familiarity()
    with pytest.raises(ValueError, match="held_out"):
        fresh.fit(points)
    with pytest.raises(ValueError, match="call fit first"):
        fresh.log_density(points)


def test_bells_of_any_width_and_points_however_far_have_a_density(rng):
    points = rng.normal(size=(20, 2))
    narrow = Familiarity(1e-200).fit(points)
    at_one = -np.log(2 * np.pi) + 2 * 200 * np.log(10) - np.log(20)
    assert narrow.log_density(points) == pytest.approx(np.full(20, at_one))
    assert narrow.log_density(points + 1) == pytest.approx(np.full(20, -np.inf))
    far = Familiarity(1.0).fit(points).log_density([[1e200, 0], [0, 0]])
    assert far[0] == -np.inf
    assert np.isfinite(far[1])


@pytest.mark.parametrize("scale", [1e-180, 1e180])
def test_densities_go_with_the_units_wherever_they_are(scale, rng):
    points, held = rng.normal(size=(80, 3)), rng.normal(size=(50, 3))
    plain, scaled = Familiarity().fit(points, held), Familiarity().fit(scale * points, scale * held)
    assert scaled.bandwidth_ == pytest.approx(scale * plain.bandwidth_, rel=1e-6)
    moved = scaled.log_density(scale * held) + 3 * np.log(scale)
    np.testing.assert_allclose(moved, plain.log_density(held), rtol=1e-6)


def test_a_narrow_density_far_from_the_origin_is_that_near_it():
    near = np.random.default_rng(0).integers(-1000, 1000, size=(40, 3)) / 2**20
    known, new = near[:30], near[30:]
    sides = np.where(np.arange(30) < 15, 0.0, 2.0**22)[:, None]  # two clusters far apart
    plain = Familiarity(1e-4).fit(known[:15]).log_density(new) + np.log(0.5)
    np.testing.assert_allclose(Familiarity(1e-4).fit(known + sides).log_density(new), plain, rtol=1e-5)


def test_held_out_copies_and_a_search_that_ended_at_its_end_are_told(rng):
    points, held = rng.normal(size=(200, 2)), rng.normal(size=(100, 2))
    with pytest.warns(RuntimeWarning, match="held_out: 90% of these points are copies"):
        Familiarity().fit(points, np.concatenate([points[:90], held[:10]]))
    with pytest.warns(RuntimeWarning, match="ended at .* where it looked"):
        Familiarity().fit(np.zeros((5, 1)), np.concatenate([np.full(51, 1e-100), np.ones(49)])[:, None])


@pytest.mark.parametrize(("known", "seed"), [(300, 0), (3000, 1)])
def test_on_a_line_the_chosen_width_is_the_best_however_many_points_there_are(known, seed):
    rng = np.random.default_rng(seed)
    points, held = rng.normal(size=(known, 1)), rng.normal(size=(150, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the best is within reach
        guard = Familiarity().fit(points, held)
    reached = guard.log_density(held).mean()
    assert (
        reached
        > max(Familiarity(b).fit(points).log_density(held).mean() for b in np.geomspace(0.01, 2, 40)) - 1e-3
    )


def test_the_width_of_points_in_one_place_is_the_spread_of_the_others(rng):
    held = np.concatenate([np.full(51, 1e-9), np.ones(49)])[:, None]
    chosen = Familiarity().fit(np.zeros((5, 1)), held).bandwidth_
    assert chosen == pytest.approx(
        np.sqrt(np.mean(held**2)), rel=0.02
    )  # the likeliest of a Gaussian around 0


def test_images_of_a_loader_are_known_like_those_of_an_array(rng):
    images, held = rng.random((40, 1, 3, 3)), rng.random((20, 1, 3, 3))
    loaders = [
        torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.tensor(part), torch.zeros(len(part))), batch_size=9
        )
        for part in (images, held)
    ]
    by_batches, by_arrays = Familiarity().fit(*loaders), Familiarity().fit(images, held)
    assert by_batches.bandwidth_ == by_arrays.bandwidth_
    assert np.array_equal(by_batches.score(held), by_arrays.score(held))


def test_neighbours_are_kept_far_from_the_origin_too(rng):
    points = rng.integers(-1000, 1000, size=(60, 12)) / 2**20
    assert neighbours_kept(points, points + 2.0**22, k=5) == 1


def test_the_score_is_higher_for_what_is_far(rng):
    guard = Familiarity(0.5).fit(rng.normal(size=(100, 3)))
    near, far = guard.score(rng.normal(size=(20, 3))), guard.score(rng.normal(9, 1, size=(20, 3)))
    assert far.min() > near.max()
    assert np.isfinite(guard.score([[1e6, 0, 0]])).all()
    assert np.array_equal(guard.score([[0, 0, 0]]), -guard.log_density([[0, 0, 0]]))


def test_blocks_change_nothing(rng, monkeypatch):
    points, held, new = rng.normal(size=(50, 3)), rng.normal(size=(30, 3)), rng.normal(size=(41, 3))
    whole = Familiarity().fit(points, held)
    monkeypatch.setattr("uqhelpers.features.neighbours.BLOCK", 70)
    parts = Familiarity().fit(points, held)
    assert parts.bandwidth_ == whole.bandwidth_
    np.testing.assert_allclose(parts.log_density(new), whole.log_density(new), rtol=1e-12)


def test_images_are_flattened(rng):
    images = rng.random((12, 1, 3, 3))
    guard = Familiarity(0.4).fit(images)
    assert np.allclose(guard.log_density(images), guard.log_density(images.reshape(12, 9)))


def test_the_mean_is_nearer_to_everything_than_what_it_is_the_mean_of(rng):
    points = rng.normal(size=(200, 30))
    guard = Familiarity(5.0).fit(points)  # wide bells: the average distance decides
    assert guard.log_density(points.mean(axis=0, keepdims=True)) > guard.log_density(points).max()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Familiarity(0), r"bandwidth: expected a number in \(0"),
        (lambda: Familiarity("wide"), "bandwidth: expected a number"),
        (lambda: Familiarity(True), "bandwidth: expected a number, got True"),
        (lambda: Familiarity().fit(np.ones((3, 2))), "held_out: expected points to choose the bandwidth by"),
        (lambda: Familiarity().fit(np.ones((3, 2)), np.ones((2, 2))), "got copies of them"),
        (
            lambda: Familiarity().fit(np.ones((3, 2)), np.ones((2, 3))),
            "held_out: expected dimension 2, got 3",
        ),
        (lambda: Familiarity(1).fit(np.ones(3)), "points: expected shape"),
        (lambda: Familiarity(1).fit(np.ones((0, 3))), "points: expected at least one value"),
        (lambda: Familiarity(1).fit([[np.nan]]), "points: expected finite"),
        (lambda: Familiarity(1).log_density([[1.0]]), "call fit first"),
        (lambda: Familiarity(1).grid(), "call fit first"),
        (lambda: Familiarity(1).fit(np.ones((2, 3))).grid(), "in the plane for a grid, got dimension 3"),
        (lambda: Familiarity(1).fit(np.ones((2, 2))).grid((1, 0, 0, 1)), "bounds: expected"),
        (lambda: Familiarity(1).fit(np.ones((2, 2))).grid(resolution=1), "resolution: expected"),
        (
            lambda: Familiarity(1).fit(np.ones((2, 2))).log_density(np.ones((2, 1))),
            "expected dimension 2, got 1",
        ),
    ],
)
def test_what_is_no_point_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- all of it --------------------------------------------------------------------------------------------


def test_a_classifier_of_digits_is_taken_apart(rng):
    from uqhelpers import data

    digits = data.load("digits")
    with training.seeded(0):
        net = models.MLP(64, 10, mean=digits.mean, std=digits.std)
    training.fit(net, digits.train.images, digits.train.labels, epochs=40, progress=False)
    probs = training.predict(net, digits.test.images)
    scores = class_scores(probs.argmax(axis=1), digits.test.labels, digits.classes)
    assert scores.accuracy == pytest.approx(metrics.accuracy(probs, digits.test.labels))
    assert abs(scores.macro_f1 - scores.accuracy) < 0.02
    worst = most_confident_errors(probs, digits.test.labels, k=3)
    assert np.all(probs.argmax(axis=1)[worst] != digits.test.labels[worst])
    guard = Familiarity().fit(
        training.features(net, digits.train.images), training.features(net, digits.validation.images)
    )
    scores = [
        guard.score(training.features(net, part))
        for part in (digits.test.images, data.load_ood("letters", "digits").images)
    ]
    assert metrics.auroc(np.concatenate(scores), np.repeat([0, 1], [600, 600])) > 0.85


def test_importing_it_imports_neither_torch_nor_scikit_learn():
    code = (
        "import sys, uqhelpers.first_classifier; print([m for m in ('torch', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_shares_that_lie_far_apart_leave_probabilities():
    probs = np.array([[0.1, 0.2, 0.3, 0.4]])
    found = in_another_mix(probs, [1e-320, 1, 1, 1], [1, 1, 1, 1])
    assert found == pytest.approx(np.array([[1.0, 0.0, 0.0, 0.0]]))
    back = in_another_mix(probs, [1, 1, 1, 1], [1e-320, 1, 1, 1])
    assert back == pytest.approx(np.array([[0.0, 2 / 9, 3 / 9, 4 / 9]]))
