import ast
import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.isotonic import IsotonicRegression

from tools.book import ROOT
from uqhelpers import metrics
from uqhelpers._torch import torch
from uqhelpers.calibration import (
    HistogramBinning,
    IsotonicCalibration,
    VectorScaling,
    brier_decomposition,
    focal_loss,
    label_smoothing,
)


def drawn(n=4000, classes=3, factor=1.0, seed=0):
    """Logits, and labels drawn from their softmax; then the logits are multiplied."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, classes)) * 1.5
    labels = (softmax(logits, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return factor * logits, np.minimum(labels, classes - 1)


def nll(logits, labels):
    return -log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean()


# --- Brier ------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(2, 5), st.sampled_from([None, 1, 2, 7, 10, 1000]), st.integers(0, 999))
def test_the_parts_add_up_to_the_brier_score(n, classes, bins, seed):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(classes, 0.5), n).round(2)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = rng.integers(classes, size=n)
    parts = brier_decomposition(probs, labels, bins)
    assert parts.score == pytest.approx(metrics.brier_score(probs, labels), abs=1e-12)
    assert min(parts.reliability, parts.resolution, parts.uncertainty) >= 0


def test_a_bin_for_every_value_leaves_nothing_over():
    probs = np.repeat([[0.8, 0.2], [0.4, 0.6]], 10, axis=0)
    labels = np.repeat([0, 1, 0, 1], [7, 3, 5, 5])
    parts = brier_decomposition(probs, labels, bins=None)
    assert parts.within == pytest.approx(0, abs=1e-15)
    # By hand, twice because there are two classes: (.8 - .7)^2 and (.4 - .5)^2; .7 and .5 around .6.
    assert parts.reliability == pytest.approx(2 * 0.01)
    assert parts.resolution == pytest.approx(2 * 0.01)
    assert parts.uncertainty == pytest.approx(2 * 0.24)


def test_the_base_rates_are_calibrated_and_know_nothing():
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    parts = brier_decomposition(np.tile([0.5, 0.3, 0.2], (100, 1)), labels)
    assert parts.reliability == pytest.approx(0, abs=1e-15)
    assert parts.resolution == pytest.approx(0, abs=1e-15)
    assert parts.uncertainty == pytest.approx(1 - (0.25 + 0.09 + 0.04))


def test_perfect_forecasts_resolve_all_the_uncertainty():
    labels = np.arange(30) % 3
    parts = brier_decomposition(np.eye(3)[labels], labels)
    assert parts.reliability == 0
    assert parts.resolution == pytest.approx(parts.uncertainty)
    assert parts.score == pytest.approx(0, abs=1e-15)


def test_an_edge_belongs_to_the_bin_below_it():
    parts = brier_decomposition([[0.6, 0.4], [0.55, 0.45]], [0, 1])
    # Class 0: both in (.5, .6], one of two happened. Class 1: .4 in (.3, .4]; .45 in (.4, .5] happened.
    assert parts.reliability == pytest.approx((0.575 - 0.5) ** 2 + (0.4**2 + 0.55**2) / 2)


def test_samples_are_averaged_first():
    rng = np.random.default_rng(0)
    samples, labels = rng.dirichlet(np.ones(3), size=(5, 20)), rng.integers(3, size=20)
    assert brier_decomposition(samples, labels) == brier_decomposition(samples.mean(axis=0), labels)


@pytest.mark.parametrize("bins", [0, 2.5, True, "ten", 10**7])
def test_bins_that_cannot_be_are_refused(bins):
    with pytest.raises(ValueError, match="bins"):
        brier_decomposition(np.full((4, 2), 0.5), [0, 1, 0, 1], bins)


def test_a_number_of_bins_may_come_from_any_library():
    probs, labels = np.random.default_rng(0).dirichlet(np.ones(3), 30), np.arange(30) % 3
    for bins in (np.int64(7), torch.tensor(7)):
        assert brier_decomposition(probs, labels, bins) == brier_decomposition(probs, labels, 7)


def test_single_precision_lies_in_the_bin_that_ends_at_it():
    probs = np.array([[0.6, 0.4], [0.6, 0.4], [0.55, 0.45], [0.7, 0.3]])
    labels = [0, 1, 0, 0]
    wide, narrow = brier_decomposition(probs, labels), brier_decomposition(probs.astype(np.float32), labels)
    assert narrow.reliability == pytest.approx(wide.reliability, abs=1e-6)
    assert narrow.resolution == pytest.approx(wide.resolution, abs=1e-6)
    assert narrow.score == pytest.approx(metrics.brier_score(probs, labels), abs=1e-6)
    for spacing in ("width", "mass"):
        fits = [
            HistogramBinning(10, spacing).fit(given, labels).predict(given)
            for given in (probs, probs.astype(np.float32))
        ]
        assert fits[1] == pytest.approx(fits[0], abs=1e-6), spacing


# --- vector scaling ---------------------------------------------------------------------------------------


def test_scales_and_shifts_that_were_applied_are_taken_back():
    logits, labels = drawn(20_000)
    scale, shift = np.array([2.0, 3.0, 5.0]), np.array([1.0, 0.0, -1.0])
    fitted = VectorScaling().fit(logits * scale + shift * scale, labels)
    assert fitted.scale == pytest.approx(1 / scale, rel=0.1)
    between = fitted.shift - fitted.shift.mean()  # a common shift changes nothing
    assert between == pytest.approx(-(shift - shift.mean()), abs=0.1)


@pytest.mark.parametrize("factor", [0.05, 0.3, 5.0, 20.0, 1e4])
def test_it_never_fits_worse_than_one_temperature(factor):
    logits, labels = drawn(1000, factor=factor)
    temperature = metrics.fit_temperature(logits, labels, high=1e5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = VectorScaling().fit(logits, labels)
    assert nll(logits * fitted.scale + fitted.shift, labels) <= nll(logits / temperature, labels) + 1e-9


def test_no_small_step_improves_it():
    logits, labels = drawn(500, factor=4.0)
    fitted = VectorScaling(penalty=0.01).fit(logits, labels)

    def loss(scale, shift):
        away = ((scale - 1) ** 2).sum() + (shift**2).sum()
        return nll(logits * scale + shift, labels) + 0.01 * away

    best = loss(fitted.scale, fitted.shift)
    for number in range(3):
        for step in (-1e-3, 1e-3):
            moved = step * np.eye(3)[number]
            assert loss(fitted.scale + moved, fitted.shift) > best
            assert loss(fitted.scale, fitted.shift + moved) > best


def test_separable_logits_are_told_and_a_penalty_helps():
    logits, labels = 3 * np.eye(3)[np.arange(30) % 3], np.arange(30) % 3
    with pytest.warns(RuntimeWarning, match="no optimum"):
        VectorScaling().fit(logits, labels)
    with pytest.warns(RuntimeWarning, match="no optimum"):  # nothing ever was class 3
        VectorScaling().fit(np.random.default_rng(0).normal(size=(30, 4)), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probs = VectorScaling(penalty=0.1).fit(logits, labels).predict(logits)
    assert np.all(np.isfinite(probs))
    assert metrics.accuracy(probs, labels) == 1


def test_a_large_penalty_changes_nothing():
    logits, labels = drawn(200, factor=3.0)
    probs = VectorScaling(penalty=1e6).fit(logits, labels).predict(logits)
    assert probs == pytest.approx(softmax(logits, axis=1), abs=1e-4)


def test_one_class_that_can_be_told_without_error_is_told():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(300, 3)), rng.integers(2, size=300)
    logits[:100, 2], logits[100:, 2], labels[:100] = 5, -5, 2  # the others overlap
    with pytest.warns(RuntimeWarning, match="no optimum"):
        VectorScaling().fit(logits, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VectorScaling(penalty=1e-3).fit(logits, labels)
        labels[0], labels[150] = 0, 2  # two errors, and there is an optimum
        VectorScaling().fit(logits, labels)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [2, 4])
def test_what_overlaps_has_an_optimum_and_nobody_is_warned(seed, classes):
    rng = np.random.default_rng(seed)
    logits, labels = 2 * rng.normal(size=(200, classes)), rng.integers(classes, size=200)
    logits[:, 0] = 1.5  # its scale and its shift say the same: many optima are no lack of them
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VectorScaling().fit(logits, labels)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_logits_of_any_size_are_scaled_to_the_same_probabilities(size):
    logits, labels = drawn(400)
    plain = VectorScaling().fit(logits, labels).predict(logits)
    fitted = VectorScaling().fit(size * logits, labels)
    assert np.isfinite(fitted.scale).all()
    assert fitted.predict(size * logits) == pytest.approx(plain, abs=1e-4)


def test_probabilities_where_logits_are_meant_are_refused():
    probs = softmax(drawn(50)[0], axis=1)
    with pytest.raises(ValueError, match="logits: expected logits, got rows that sum to 1"):
        VectorScaling().fit(probs, drawn(50)[1])
    with pytest.raises(ValueError, match="logits: expected logits, got rows that sum to 1"):
        VectorScaling().fit(*drawn(50)).predict(probs)
    for loss in (label_smoothing(0.1), focal_loss(2.0)):
        with pytest.raises(ValueError, match="outputs: expected logits, got rows that sum to 1"):
            loss(torch.tensor(probs), torch.tensor(drawn(50)[1]))


def test_fits_take_loaders():
    logits, labels = drawn(200)
    probs = softmax(logits, axis=1)
    for method, values in [
        (VectorScaling, logits),
        (HistogramBinning, probs),
        (IsotonicCalibration, probs),
    ]:
        pairs = torch.utils.data.TensorDataset(torch.tensor(values), torch.tensor(labels))
        loader = torch.utils.data.DataLoader(pairs, batch_size=30)
        assert np.array_equal(
            method().fit(loader).predict(values), method().fit(values, labels).predict(values)
        )


# --- binning and isotonic regression ----------------------------------------------------------------------


def test_isotonic_is_scikit_learns_class_by_class():
    logits, labels = drawn(300, factor=3.0)
    probs = softmax(logits, axis=1)
    ours = IsotonicCalibration().fit(probs[:200], labels[:200]).predict(probs[200:])
    theirs = np.stack(
        [
            IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            .fit(probs[:200, c], labels[:200] == c)
            .predict(probs[200:, c])
            for c in range(3)
        ],
        axis=1,
    )
    assert ours == pytest.approx(theirs / theirs.sum(axis=1, keepdims=True))


def test_a_bin_is_replaced_by_its_frequency():
    probs = np.repeat([[0.9, 0.1], [0.3, 0.7]], 10, axis=0)
    labels = np.repeat([0, 1, 0, 1], [6, 4, 2, 8])
    for spacing in ("mass", "width"):
        got = HistogramBinning(10, spacing).fit(probs, labels).predict([[0.9, 0.1], [0.3, 0.7]])
        assert got == pytest.approx(np.array([[0.6, 0.4], [0.2, 0.8]]))


def test_an_empty_bin_keeps_its_centre():
    binning = HistogramBinning(4, "width").fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    assert binning.predict([[0.6, 0.4]]) == pytest.approx(np.array([[0.625, 0.375]]))


@pytest.mark.parametrize(
    "method", [HistogramBinning(15), HistogramBinning(15, "width"), IsotonicCalibration()]
)
def test_over_confidence_is_mended_on_new_data(method):
    logits, labels = drawn(8000, factor=4.0)
    probs = softmax(logits, axis=1)
    mended = method.fit(probs[:4000], labels[:4000]).predict(probs[4000:])
    assert mended.sum(axis=1) == pytest.approx(1)
    before = metrics.expected_calibration_error(probs[4000:], labels[4000:])
    assert before > 0.1
    assert metrics.expected_calibration_error(mended, labels[4000:]) < 0.4 * before


def test_a_row_that_was_never_any_class_is_left_as_it_came():
    fitted = IsotonicCalibration().fit([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], [0, 1, 2])
    row = np.array([[0.09, 0.01, 0.9], [0.05, 0.05, 0.9]])
    fitted.maps[2] = lambda values: np.zeros_like(values)
    assert fitted.predict(row) == pytest.approx(row)


@pytest.mark.parametrize("method", [VectorScaling(), HistogramBinning(), IsotonicCalibration()])
def test_predicting_needs_a_fit(method):
    with pytest.raises(ValueError, match="call fit first"):
        method.predict([[0.5, 0.5]])


@pytest.mark.parametrize("method", [VectorScaling, HistogramBinning, IsotonicCalibration])
def test_another_number_of_classes_is_refused(method):
    logits = np.log([[0.7, 0.3], [0.6, 0.4], [0.4, 0.6], [0.2, 0.8]])
    given = logits if method is VectorScaling else np.exp(logits)
    fitted = method().fit(given, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="2 classes"):
        fitted.predict([[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match="labels"):
        method().fit(given[:2], [0, 2])


def test_logits_are_told_apart_from_probabilities():
    with pytest.raises(ValueError, match="are these logits"):
        IsotonicCalibration().fit([[3.0, -1.0]], [0])


def test_settings_that_cannot_be_are_refused():
    for make, name in [
        (lambda: HistogramBinning(0), "bins"),
        (lambda: HistogramBinning(10, "log"), "spacing"),
        (lambda: VectorScaling(-1), "penalty"),
        (lambda: label_smoothing(1.0), "amount"),
        (lambda: label_smoothing(-0.1), "amount"),
        (lambda: focal_loss(-1), "gamma"),
    ]:
        with pytest.raises(ValueError, match=name):
            make()


# --- losses -----------------------------------------------------------------------------------------------


def logits_of(*probs):
    return torch.log(torch.tensor(np.array(probs)))


def test_label_smoothing_by_hand():
    outputs = logits_of([0.7, 0.2, 0.1])
    expected = -((0.9 + 0.1 / 3) * np.log(0.7) + 0.1 / 3 * (np.log(0.2) + np.log(0.1)))
    assert label_smoothing(0.1)(outputs, torch.tensor([0])).item() == pytest.approx(expected)


def test_focal_loss_by_hand():
    outputs, targets = logits_of([0.7, 0.2, 0.1], [0.5, 0.25, 0.25]), torch.tensor([0, 1])
    expected = -(0.3**2 * np.log(0.7) + 0.75**2 * np.log(0.25)) / 2
    assert focal_loss(2.0)(outputs, targets).item() == pytest.approx(expected)


@pytest.mark.parametrize("loss", [label_smoothing(0.0), focal_loss(0.0)])
def test_with_nothing_of_it_they_are_the_cross_entropy(loss):
    logits, labels = drawn(50)
    assert loss(torch.tensor(logits), torch.tensor(labels)).item() == pytest.approx(nll(logits, labels))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("size", [0.0, 20.0, 1e4])
def test_focal_loss_has_finite_slopes_where_all_is_known_or_all_is_wrong(gamma, size):
    for dtype in (torch.float32, torch.float64):
        outputs = torch.tensor([[size, 0, 0], [0, size, 0]], dtype=dtype, requires_grad=True)
        value = focal_loss(gamma)(outputs, torch.tensor([0, 0]))
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(outputs.grad).all()


def test_smoothing_is_least_at_its_own_confidence_and_focal_loss_below_the_truth():
    said = np.linspace(0.001, 0.999, 1997)
    outputs = logits_of(*np.stack([said, 1 - said], axis=1))

    def least(loss, truth):
        parts = [
            truth * loss(row[None], torch.tensor([0])) + (1 - truth) * loss(row[None], torch.tensor([1]))
            for row in outputs
        ]
        return said[int(torch.stack(parts).argmin())]

    assert least(label_smoothing(0.1), 1.0) == pytest.approx(0.95, abs=0.001)
    assert least(focal_loss(2.0), 0.9) < 0.85
    assert least(focal_loss(0.0), 0.9) == pytest.approx(0.9, abs=0.001)


def test_with_many_classes_focal_loss_can_ask_for_more_than_the_truth():
    def expected(high, truth=0.149):  # six classes of one probability, four of another
        said = torch.log(torch.tensor([high] * 6 + [(1 - 6 * high) / 4] * 4, dtype=torch.float64))[None]
        first, last = (focal_loss(2.0)(said, torch.tensor([label])).item() for label in (0, 9))
        return 6 * truth * first + (1 - 6 * truth) * last

    grid = np.linspace(0.145, 0.155, 101)
    assert grid[np.argmin([expected(high) for high in grid])] == pytest.approx(0.150, abs=2e-4)


@pytest.mark.parametrize("loss", [label_smoothing(0.1), focal_loss(2.0)])
@pytest.mark.parametrize(
    ("rows", "targets", "named"),
    [
        (2, [0, -100], "targets: expected labels from 0 to 2, got -100 to 0"),
        (2, [0, 3], "targets: expected labels from 0 to 2, got 0 to 3"),
        (2, [0.9, 1.0], "targets: expected whole numbers"),
        (0, [], "outputs: expected at least one row"),
    ],
)
def test_targets_that_are_no_labels_and_empty_batches_are_refused(loss, rows, targets, named):
    with pytest.raises(ValueError, match=named):
        loss(torch.zeros(rows, 3), torch.tensor(targets))


@pytest.mark.parametrize("loss", [label_smoothing(0.1), focal_loss(2.0)])
@pytest.mark.parametrize("shape", [(1,), (3,), (5, 1), (1, 5), ()])
def test_labels_that_are_not_one_a_row_are_refused_and_not_matched_to_the_first_rows(loss, shape):
    with pytest.raises(ValueError, match=r"^targets: expected one label a row of logits, got shape"):
        loss(torch.randn(5, 3), torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize("loss", [label_smoothing(0.1), focal_loss(2.0)])
@pytest.mark.parametrize("shape", [(3,), (3, 2, 2)])
def test_logits_that_are_no_table_are_refused(loss, shape):
    with pytest.raises(ValueError, match=r"^targets: expected one label a row of logits, .* of shape"):
        loss(torch.randn(shape), torch.zeros(3, dtype=torch.int64))


def test_both_train_a_network():
    from uqhelpers import models, training

    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 2))
    labels = (inputs[:, 0] > 0).astype(int)
    confidences = []
    for loss in ("cross_entropy", label_smoothing(0.2), focal_loss(3.0)):
        with training.seeded(0):
            net = models.MLP(2, 2, hidden=(16,))
        training.fit(net, inputs, labels, epochs=60, learning_rate=0.02, loss=loss, progress=False)
        probs = training.predict(net, inputs)
        assert metrics.accuracy(probs, labels) > 0.95
        confidences.append(probs.max(axis=1).mean())
    assert min(confidences[0] - confidences[1], confidences[0] - confidences[2]) > 0.02


# --- the chapter ------------------------------------------------------------------------------------------


def stored_in_the_chapter():
    """The chapter's own copy of what libraries answered: version and three figures, by library."""
    notebook = json.loads((ROOT / "book/foundations/calibration.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    statements = [node for source in sources if "STORED = " in source for node in ast.parse(source).body]
    (found,) = (
        node.value
        for node in statements
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "STORED"
    )
    return ast.literal_eval(found)


@pytest.mark.parametrize("library", ["torchmetrics", "netcal"])
def test_the_chapter_stores_what_the_libraries_were_recorded_to_say(library):
    recorded = json.loads((ROOT / "tests/peers/stored.json").read_text(encoding="utf-8"))
    version, answers = stored_in_the_chapter()[library]
    assert version == recorded["versions"][library]
    keys = ["ece of certainty", "ece of two", "ece on an edge"]
    assert answers == pytest.approx([recorded["values"][library][key] for key in keys], abs=1e-4)
