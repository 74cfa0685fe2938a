"""Metrics on hand-computed cases, and the places where well-known libraries answer otherwise.

The classes that end in ``Trap`` hold one place each.
"""

import pickle
import warnings

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from uqhelpers import metrics
from uqhelpers.metrics import (
    SampleAccumulator,
    accuracy_coverage,
    adaptive_calibration_error,
    aupr,
    aurc,
    auroc,
    brier_score,
    calibration_error_from_confidence,
    calibration_gap,
    classwise_calibration_error,
    decompose,
    eaurc,
    expected_calibration_error,
    fit_temperature,
    fpr95,
    from_logits,
    interval_coverage,
    interval_width,
    mutual_information,
    predictive_entropy,
    reliability_curve,
    reliability_from_confidence,
    variation_ratio,
)

FIELDS = ("mean", "total", "aleatoric", "epistemic", "confidence")


@pytest.fixture(scope="module")
def torchmetrics():
    """torchmetrics' classification functions, beside a torchvision that may not load."""
    torch = pytest.importorskip("uqhelpers._torch").torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functions = pytest.importorskip("torchmetrics.functional.classification")
    return torch, functions


def binary(confidence):
    """Two-class predictions of class 1 with these probabilities, which are above one half."""
    confidence = np.asarray(confidence)
    return np.stack([1 - confidence, confidence], axis=1)


def drawn(inputs=2000, classes=5, scale=2.0, seed=0):
    """Logits, and labels drawn from their softmax: calibrated by construction."""
    generator = np.random.default_rng(seed)
    logits = scale * generator.normal(size=(inputs, classes))
    labels = (from_logits(logits).cumsum(axis=1) < generator.random((inputs, 1))).sum(axis=1)
    return logits, np.minimum(labels, classes - 1)


class TestEceBinsTrap:
    def test_certainty_has_no_bin_of_its_own(self):
        confidence = np.repeat([1.0, 0.95], 50)
        correct = np.r_[np.ones(40), np.zeros(10), np.ones(50)]
        assert calibration_error_from_confidence(confidence, correct) == pytest.approx(0.075, abs=1e-12)
        assert expected_calibration_error(binary(confidence), correct.astype(int)) == pytest.approx(0.075)

    def test_torchmetrics_counts_it_as_a_bin(self, torchmetrics):
        torch, functions = torchmetrics
        probs = torch.tensor(binary(np.repeat([1.0, 0.95], 50)))
        labels = torch.tensor(np.r_[np.ones(40), np.zeros(10), np.ones(50)]).long()
        theirs = functions.multiclass_calibration_error(probs, labels, num_classes=2, n_bins=10)
        assert float(theirs) == pytest.approx(0.125, abs=1e-5)

    def test_confidence_0_with_every_prediction_right_is_the_worst(self):
        assert calibration_error_from_confidence([0.0, 0.0, 0.0], [1, 1, 1]) == 1

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_bins_are_closed_on_the_right(self, dtype):
        confidence = np.array([0.6, 0.55], dtype)
        got = calibration_error_from_confidence(confidence, [True, False])
        assert got == pytest.approx(0.075, abs=1e-3)  # closed on the left: .475
        assert expected_calibration_error(binary(confidence), [1, 0]) == pytest.approx(0.075, abs=1e-3)

    def test_edges_are_compared_in_the_inputs_own_precision(self):
        single = np.float32(0.6)
        assert np.float64(single) > 0.6
        curve = reliability_from_confidence(np.array([single]), [True])
        assert curve.index.tolist() == [5]
        widened = reliability_from_confidence(np.array([single], np.float64), [True])
        assert widened.index.tolist() == [6]

    @pytest.mark.parametrize("bins", [3, 7, 10, 15, 100])
    def test_every_edge_belongs_to_the_bin_below_it(self, bins):
        edges = np.array([number / bins for number in range(1, bins + 1)])
        curve = reliability_from_confidence(edges, np.ones(bins), bins)
        assert curve.index.tolist() == list(range(bins))


class TestEntropyAtZeroTrap:
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, int, bool])
    def test_one_hot_rows_have_exactly_none(self, dtype):
        entropy = predictive_entropy(np.eye(10, dtype=dtype))
        assert (entropy == 0).all()
        assert not np.signbit(entropy).any()

    @pytest.mark.parametrize("classes", [2, 3, 10, 1000])
    def test_uniform_rows_have_the_logarithm_of_the_classes(self, classes):
        rows = np.full((3, classes), 1 / classes)
        assert np.abs(predictive_entropy(rows) - np.log(classes)).max() < 1e-12
        assert np.abs(predictive_entropy(rows.astype(np.float32)) - np.log(classes)).max() < 1e-6

    def test_tiny_probabilities_agree_with_scipy(self):
        small = np.array([0.0, 5e-324, 1e-310, 1e-300, 1e-20, 1e-8])
        rows = binary(1 - small)
        assert predictive_entropy(rows) == pytest.approx(special.entr(rows).sum(axis=1), rel=1e-14, abs=0)


class TestMutualInformationTrap:
    def test_identical_float32_members_have_none(self):
        members = from_logits(np.random.default_rng(0).normal(size=(500, 10))).astype(np.float32)
        information = mutual_information(np.tile(members, (7, 1, 1)))
        assert (information >= 0).all()
        assert information.max() < 1e-12

    def test_float32_arithmetic_would_go_below_0(self):
        members = from_logits(np.random.default_rng(0).normal(size=(500, 10))).astype(np.float32)
        probs = np.tile(members, (7, 1, 1))
        total = special.entr(probs.mean(axis=0)).sum(axis=-1)
        assert (total - special.entr(probs).sum(axis=-1).mean(axis=0)).min() < -1e-8

    def test_parts_sum_to_the_total(self):
        probs = np.random.default_rng(0).dirichlet(np.full(4, 0.3), size=(6, 300))
        parts = decompose(probs)
        assert np.abs(parts.aleatoric + parts.epistemic - parts.total).max() < 1e-12
        assert (parts.epistemic <= np.log(4) + 1e-12).all()
        assert (mutual_information(probs[:2]) <= np.log(2) + 1e-12).all()

    def test_is_clamped_input_by_input_and_not_after_the_mean(self):
        same = np.full((2, 1, 3), 1 / 3)
        split = np.eye(3)[:2, None]
        information = mutual_information(np.concatenate([same, split], axis=1))
        assert information == pytest.approx([0, np.log(2)])
        assert information.min() >= 0

    def test_few_samples_show_too_little_of_it(self):
        # 400 inputs, means of 50 draws: the difference is more than 20 standard errors.
        generator = np.random.default_rng(0)
        few = [mutual_information(generator.dirichlet(np.ones(5), (3, 400))).mean() for _ in range(50)]
        many = mutual_information(generator.dirichlet(np.ones(5), (300, 400))).mean()
        assert np.mean(few) + 20 * np.std(few) / np.sqrt(50) < many

    def test_confident_models_that_contradict_each_other_have_all_of_it(self):
        assert mutual_information(np.eye(3)[:, None, :]) == pytest.approx(np.log(3))

    def test_logits_are_told_apart_from_probabilities(self):
        with pytest.raises(ValueError, match="are these logits"):
            mutual_information(np.random.default_rng(0).normal(size=(3, 4, 5)))


class TestThreeCaseTableTrap:
    """Log-probabilities of many sampled models, for one input and three classes."""

    @staticmethod
    def summary(log_probs):
        parts = decompose(from_logits(log_probs))
        return [float(part[0]) for part in (parts.confidence, parts.total, parts.aleatoric, parts.epistemic)]

    def test_confident(self):
        log_probs = np.log(np.tile([1.0, 1e-12, 1e-12], (300, 1, 1)))
        assert self.summary(log_probs) == pytest.approx([1, 0, 0, 0], abs=1e-9)

    def test_aleatoric(self):
        logits = np.random.default_rng(0).normal(scale=0.1, size=(300, 1, 3))
        confidence, total, aleatoric, epistemic = self.summary(
            logits - special.logsumexp(logits, -1)[..., None]
        )
        assert confidence == pytest.approx(1 / 3, abs=0.01)
        assert total == pytest.approx(np.log(3), abs=1e-3)
        assert aleatoric == pytest.approx(np.log(3), abs=0.02)
        assert 0 < epistemic < 0.02

    def test_epistemic(self):
        log_probs = np.log(np.repeat(np.eye(3) * 0.997 + 0.001, 100, axis=0))[:, None]
        confidence, total, aleatoric, epistemic = self.summary(log_probs)
        assert confidence == pytest.approx(1 / 3, abs=1e-9)
        assert total == pytest.approx(np.log(3), abs=1e-9)
        assert 0 < aleatoric < 0.02
        assert epistemic == pytest.approx(np.log(3), abs=0.02)


class TestAurcTiesTrap:
    def test_ten_errors_among_100_ties_have_a_tenth_in_any_order(self):
        wrong = np.arange(100) < 10
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(100)
            assert aurc(np.zeros(100), wrong[order]) == pytest.approx(0.1, abs=1e-12)

    def test_the_plain_formula_depends_on_the_order(self):
        def plain(wrong):
            return (np.cumsum(wrong) / np.arange(1, 101)).mean()

        wrong = np.arange(100) < 10
        assert plain(wrong) > 0.3
        assert plain(wrong[::-1]) < 0.01

    def test_is_the_mean_risk_over_all_coverages(self):
        assert aurc([1, 2, 3, 4], [0, 1, 0, 1]) == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)
        assert aurc([1, 2, 2, 4], [0, 1, 0, 1]) == pytest.approx((0 + 1 / 3 + 1 / 3 + 2 / 4) / 4)

    def test_the_excess_is_what_lies_above_the_best_ranking_of_the_same_errors(self):
        rng = np.random.default_rng(0)
        for errors in (1, 3, 99, 100):
            wrong = rng.permutation(np.arange(100) < errors)
            risks = np.cumsum(np.sort(wrong)) / np.arange(1, 101)  # the right ones first
            assert eaurc(np.arange(100), wrong) == pytest.approx(aurc(np.arange(100), wrong) - risks.mean())

    @pytest.mark.parametrize(("inputs", "errors"), [(10, 1), (100, 7), (1000, 333), (7, 7)])
    def test_a_perfect_ranking_has_exactly_no_excess(self, inputs, errors):
        wrong = np.arange(inputs) >= inputs - errors
        assert eaurc(np.arange(inputs), wrong) == 0
        assert eaurc(np.maximum(np.arange(inputs), inputs - errors - 1), wrong) == 0  # the right ones tied
        rate = errors / inputs
        if rate < 1:
            assert aurc(np.arange(inputs), wrong) > rate + (1 - rate) * np.log1p(-rate)  # the continuous form

    def test_no_errors_have_no_area(self):
        assert aurc([1, 2], [0, 0]) == eaurc([1, 2], [0, 0]) == metrics.augrc([1, 2], [0, 0]) == 0

    @pytest.mark.parametrize("errors", [1, 10, 50])
    def test_augrc_of_the_ideal_is_half_the_squared_error_rate(self, errors):
        wrong = np.arange(100) >= 100 - errors
        assert metrics.augrc(np.arange(100), wrong) == pytest.approx((errors / 100) ** 2 / 2)
        assert metrics.augrc(np.zeros(100), wrong) == pytest.approx(errors / 200)
        rate = errors / 100
        assert metrics.augrc(-np.arange(100), wrong) == pytest.approx(rate - rate**2 / 2)


@pytest.fixture(scope="module")
def failures():
    """Scores with ties, higher where predictions are wrong."""
    generator = np.random.default_rng(0)
    wrong = generator.random(3000) < 0.1
    return np.round(generator.normal(size=3000) + 1.5 * wrong, 2), wrong


class TestAuprTrap:
    def test_success_and_error_agree_with_scikit_learn(self, failures):
        from sklearn.metrics import average_precision_score

        score, wrong = failures
        assert metrics.aupr_success(score, wrong) == pytest.approx(
            average_precision_score(~wrong, -score), 1e-12
        )
        assert metrics.aupr_error(score, wrong) == pytest.approx(average_precision_score(wrong, score), 1e-12)

    def test_the_prevalence_stands_beside_it(self, failures):
        score, wrong = failures
        error, success = metrics.aupr_error(score, wrong), metrics.aupr_success(score, wrong)
        assert (error.positive, success.positive) == ("wrong", "correct")
        assert error.prevalence == pytest.approx(wrong.mean())
        assert success.prevalence == pytest.approx(1 - wrong.mean())
        assert f"prevalence {wrong.mean():.4f}" in repr(error)

    def test_a_score_that_knows_nothing_has_the_prevalence(self):
        assert metrics.aupr_error(np.zeros(50), np.arange(50) < 5) == pytest.approx(0.1)


class TestFpr95Trap:
    def test_all_scores_equal_is_the_worst(self):
        assert fpr95(np.ones(100), np.arange(100) < 40) == 1

    def test_saturated_confidences_are_ranked(self):
        confidence = np.repeat([1.0, 0.5], [95, 105])
        correct = np.r_[np.ones(95, bool), np.ones(5, bool), np.zeros(100, bool)]
        assert fpr95(confidence, correct, "correct") == 0

    def test_is_the_first_point_that_finds_19_of_20(self):
        positive = np.arange(40) % 2 == 0  # alternating, the highest score positive
        assert fpr95(-np.arange(40), positive) == 18 / 20

    @pytest.mark.parametrize("positives", [20, 40, 60, 100, 180, 360, 1000])
    def test_95_percent_is_reached_exactly(self, positives):
        found = positives * 19 // 20
        score = np.r_[np.full(found, 2.0), np.zeros(positives - found), np.ones(10)]
        assert fpr95(score, np.arange(len(score)) < positives) == 0

    def test_agrees_with_scikit_learns_curve(self, failures):
        from sklearn.metrics import roc_curve

        score, wrong = failures
        false, true, _ = roc_curve(wrong, score, drop_intermediate=False)
        assert fpr95(score, wrong) == pytest.approx(false[np.argmax(true >= 0.95)])

    def test_the_positive_class_changes_the_figure_and_is_said(self, failures):
        score, wrong = failures
        ood, correct = fpr95(score, wrong, "wrong"), fpr95(-score, ~wrong, "correct")
        assert abs(ood - correct) > 0.01
        assert (ood.positive, correct.positive) == ("wrong", "correct")
        assert repr(correct).endswith(f"(positive: correct, prevalence {1 - wrong.mean():.4f})")

    def test_the_result_is_a_float_that_pickles(self):
        figure = fpr95([1, 2, 3], [0, 1, 1], "OOD")
        assert isinstance(figure, float)
        copy = pickle.loads(pickle.dumps(figure))
        assert (copy, copy.positive, copy.prevalence) == (figure, "OOD", figure.prevalence)


def reference_temperature(logits, labels):
    """By scipy, over a bracket that holds every optimum used here."""

    def loss(temperature):
        scaled = logits / temperature
        return (special.logsumexp(scaled, axis=1) - scaled[np.arange(len(labels)), labels]).mean()

    return optimize.minimize_scalar(loss, bounds=(0.02, 90), method="bounded", options={"xatol": 1e-8}).x


class TestTemperatureTrap:
    @pytest.mark.parametrize("optimum", [0.05, 0.3, 1.0, 1.88, 5.17, 20.5, 80.0])
    def test_the_optimum_is_found_wherever_it_is(self, optimum):
        logits, labels = drawn()
        logits = logits * (optimum / reference_temperature(logits, labels))
        assert fit_temperature(logits, labels) == pytest.approx(optimum, rel=1e-4)
        assert fit_temperature(logits, labels) == pytest.approx(
            reference_temperature(logits, labels), rel=0.01
        )

    def test_a_fixed_number_of_gradient_steps_stops_short(self):
        torch = pytest.importorskip("uqhelpers._torch").torch
        logits, labels = drawn()
        logits = logits * (5.17 / reference_temperature(logits, labels))
        temperature = torch.full((1,), 1.5, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

        def closure():
            optimiser.zero_grad()
            scaled = torch.as_tensor(logits) / temperature
            loss = torch.nn.functional.cross_entropy(scaled, torch.as_tensor(labels))
            loss.backward()
            return loss

        optimiser.step(closure)
        assert temperature.item() < 0.6 * 5.17
        assert fit_temperature(logits, labels) == pytest.approx(5.17, rel=1e-4)

    def test_the_search_does_not_depend_on_the_logits_scale(self):
        logits, labels = drawn()
        optimum = fit_temperature(logits, labels)
        assert fit_temperature(1e150 * logits, labels, high=1e200) == pytest.approx(1e150 * optimum)
        assert fit_temperature(1e-150 * logits, labels, low=1e-200) == pytest.approx(1e-150 * optimum)

    def test_separable_logits_return_the_bound_and_warn(self):
        for scale in (1e-3, 2.0, 1e6):
            with pytest.warns(RuntimeWarning, match="separable logits have no optimum"):
                assert fit_temperature(scale * np.eye(4), np.arange(4)) == 0.01

    def test_predictions_worse_than_chance_return_the_other_bound(self):
        with pytest.warns(RuntimeWarning, match="hotter is still better"):
            assert fit_temperature(2 * np.eye(4), (np.arange(4) + 1) % 4) == 100

    def test_constant_logits_have_no_temperature(self):
        with pytest.warns(RuntimeWarning, match="no temperature matters"):
            assert fit_temperature(np.ones((3, 2)), [0, 1, 0]) == 1

    def test_probabilities_have_no_temperature_but_their_logarithms_have(self):
        logits, labels = drawn()
        probs = metrics.from_logits(logits)
        assert fit_temperature(np.log(probs), labels) == pytest.approx(fit_temperature(logits, labels))
        with pytest.raises(ValueError, match="logits: expected logits, got rows that sum to 1"):
            fit_temperature(probs, labels)

    def test_predicted_classes_stay(self):
        logits, labels = drawn()
        tempered = metrics.apply_temperature(7 * logits, fit_temperature(7 * logits, labels))
        assert np.array_equal(tempered.argmax(axis=1), logits.argmax(axis=1))
        assert (
            abs(calibration_gap(tempered, labels)) < 0.03 < calibration_gap(from_logits(7 * logits), labels)
        )

    def test_temperature_one_changes_nothing_and_extremes_stay_distributions(self):
        logits, _ = drawn(20)
        assert metrics.apply_temperature(logits, 1) == pytest.approx(special.softmax(logits, axis=1))
        assert predictive_entropy(metrics.apply_temperature(logits, 1e-300)).max() == 0
        assert predictive_entropy(metrics.apply_temperature(logits, 1e300)) == pytest.approx(np.log(5))

    @pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf, "2", None])
    def test_only_positive_numbers_are_temperatures(self, bad):
        with pytest.raises(ValueError, match=r"^temperature: "):
            metrics.apply_temperature([[0.0, 1.0]], bad)


SAMPLED_SCORES = ("expected_entropy", "mutual_information", "variation_ratio")
SINGLE_SCORES = ("msp_score", "predictive_entropy")


class TestOrientationTrap:
    CLEAN = from_logits(np.tile([9.0, 0, 0], (6, 1, 1)))
    FAR = from_logits(np.repeat(3 * np.eye(3), 2, axis=0)[:, None])

    @pytest.mark.parametrize("name", SAMPLED_SCORES + SINGLE_SCORES)
    def test_every_score_is_higher_for_the_far_input(self, name):
        score = getattr(metrics, name)
        assert score(self.FAR) > score(self.CLEAN)

    def test_no_score_was_forgotten(self):
        scores = {name for name in metrics.__all__ if name.endswith("_score")}
        assert scores - {"brier_score"} <= set(SAMPLED_SCORES + SINGLE_SCORES)  # that one scores forecasts

    @pytest.mark.parametrize("name", ["max_probability", "margin"])
    def test_what_has_its_own_name_keeps_its_own_sign(self, name):
        certainty = getattr(metrics, name)
        assert certainty(self.CLEAN) > certainty(self.FAR)
        assert metrics.msp_score(self.FAR) == -metrics.max_probability(self.FAR)

    def test_losses_are_higher_for_the_far_input(self):
        for loss in (metrics.negative_log_likelihood, metrics.brier_score):
            assert loss(self.FAR, [0]) > loss(self.CLEAN, [0])


class TestOneClassOnlyTrap:
    @pytest.mark.parametrize("wrong", [np.zeros(5, bool), np.ones(5, bool)], ids=["all correct", "all wrong"])
    @pytest.mark.parametrize("name", ["auroc", "aupr", "fpr95", "aupr_success", "aupr_error"])
    def test_is_undefined_with_a_warning(self, name, wrong):
        with pytest.warns(RuntimeWarning, match="is undefined: (every|no) input is"):
            figure = getattr(metrics, name)(np.arange(5.0), wrong)
        assert np.isnan(figure)
        assert figure.prevalence in (0, 1)


class TestDecomposition:
    def test_agrees_with_the_definition(self):
        probs = np.random.default_rng(0).dirichlet(np.full(7, 0.2), size=(9, 5000))
        parts = decompose(probs)
        mean = probs.mean(axis=0)
        assert parts.mean == pytest.approx(mean, rel=1e-13)
        assert parts.total == pytest.approx(special.entr(mean).sum(axis=1), rel=1e-12)
        assert parts.aleatoric == pytest.approx(special.entr(probs).sum(axis=2).mean(axis=0), rel=1e-12)
        assert parts.confidence == pytest.approx(mean.max(axis=1), rel=1e-13)
        assert np.array_equal(parts.total, predictive_entropy(probs))
        assert np.array_equal(parts.aleatoric, metrics.expected_entropy(probs))

    def test_layout_and_kind_of_the_array_do_not_matter(self):
        torch = pytest.importorskip("uqhelpers._torch").torch
        jax = pytest.importorskip("jax")
        probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 50))
        expected = decompose(probs).epistemic
        for other in (np.asfortranarray(probs), torch.tensor(probs), probs.tolist()):
            assert np.array_equal(decompose(other).epistemic, expected)
        assert decompose(jax.numpy.array(probs)).epistemic == pytest.approx(expected, abs=1e-6)
        assert decompose(probs).total.dtype == decompose(probs.astype(np.float32)).total.dtype == np.float64

    def test_float32_is_computed_in_float64(self):
        probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(5, 50)).astype(np.float32)
        narrow, wide = decompose(probs), decompose(probs.astype(np.float64))
        for field in FIELDS:
            assert np.array_equal(getattr(narrow, field), getattr(wide, field)), field

    def test_the_input_is_left_as_it_was(self):
        probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 50))
        copy = probs.copy()
        decompose(probs), variation_ratio(probs), metrics.brier_score(probs[0], np.zeros(50, int))
        assert np.array_equal(probs, copy)

    def test_many_classes_take_the_same_way(self):
        probs = np.random.default_rng(0).dirichlet(np.ones(300), size=(3, 40))
        assert metrics.max_probability(probs) == pytest.approx(probs.mean(axis=0).max(axis=1))
        assert metrics.accuracy(probs, probs.mean(axis=0).argmax(axis=1)) == 1

    def test_votes_against_the_most_voted_class(self):
        votes = np.eye(3)[[[0, 0], [0, 1], [1, 2], [0, 1]]]
        assert variation_ratio(votes).tolist() == [0.25, 0.5]
        tied = np.eye(3)[[[0], [1]]]
        assert variation_ratio(tied).tolist() == [0.5]
        undecided = np.array([[[0.5, 0.5]], [[0.4, 0.6]]])  # the first sample votes for class 0
        assert variation_ratio(undecided).tolist() == [0.5]

    def test_margin_is_the_lead_over_the_second(self):
        assert metrics.margin([[0.5, 0.2, 0.3], [0.4, 0.4, 0.2]]) == pytest.approx([0.2, 0])
        with pytest.raises(ValueError, match=r"^probs: expected at least two classes"):
            metrics.margin([[1.0]])

    def test_logits_become_probabilities(self):
        logits = np.random.default_rng(0).normal(scale=300, size=(2, 5, 4))
        assert from_logits(logits) == pytest.approx(special.softmax(logits, axis=-1), rel=1e-12)
        assert from_logits([0.0, -np.inf]).tolist() == [1, 0]
        assert from_logits([1e308, -1e308]).tolist() == [1, 0]


class TestScoringRules:
    def test_agree_with_hand_computed_values(self):
        probs, labels = [[0.7, 0.3], [0.4, 0.6]], [0, 0]
        assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(-np.log(0.7 * 0.4) / 2)
        assert metrics.brier_score(probs, labels) == pytest.approx((2 * 0.09 + 2 * 0.36) / 2)
        assert metrics.accuracy(probs, labels) == 0.5

    def test_agree_with_scikit_learn(self):
        from sklearn.metrics import accuracy_score, log_loss

        logits, labels = drawn()
        probs = from_logits(logits)
        assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(
            log_loss(labels, probs), rel=1e-12
        )
        assert metrics.accuracy(probs, labels) == accuracy_score(labels, probs.argmax(axis=1))

    def test_the_impossible_that_happened_costs_infinity(self):
        assert metrics.negative_log_likelihood(np.eye(2), [0, 0]) == np.inf
        assert metrics.negative_log_likelihood(np.eye(2), [0, 1]) == 0

    def test_samples_are_averaged_first(self):
        probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 50))
        labels = np.arange(50) % 3
        for measure in (metrics.negative_log_likelihood, metrics.brier_score, metrics.accuracy):
            assert measure(probs, labels) == pytest.approx(measure(probs.mean(axis=0), labels))

    def test_the_truth_has_the_best_expected_score(self):
        logits, labels = drawn(20_000)
        for rule in (metrics.negative_log_likelihood, metrics.brier_score):
            honest = rule(from_logits(logits), labels)
            assert honest < min(rule(from_logits(factor * logits), labels) for factor in (0.7, 1.4))

    def test_the_first_of_tied_classes_is_predicted(self):
        assert metrics.accuracy([[0.5, 0.5], [0.5, 0.5]], [0, 1]) == 0.5


class TestCalibration:
    def test_agrees_with_torchmetrics_away_from_the_edges(self, torchmetrics):
        torch, functions = torchmetrics
        logits, labels = drawn()
        probs = from_logits(2 * logits)
        probs = probs[probs.max(axis=1) < 1]
        labels = labels[: len(probs)]
        for norm, ours in (("l1", expected_calibration_error), ("max", metrics.maximum_calibration_error)):
            theirs = functions.multiclass_calibration_error(
                torch.tensor(probs), torch.tensor(labels), num_classes=5, n_bins=15, norm=norm
            )
            assert ours(probs, labels, 15) == pytest.approx(float(theirs), abs=1e-6)

    def test_the_curve_leaves_empty_bins_out(self):
        curve = reliability_curve(binary([0.95, 0.95, 0.65]), [1, 0, 1])
        assert curve.index.tolist() == [6, 9]
        assert curve.count.tolist() == [1, 2]
        assert curve.confidence == pytest.approx([0.65, 0.95])
        assert curve.accuracy == pytest.approx([1, 0.5])
        assert curve.lower == pytest.approx([0.6, 0.9])
        assert curve.upper == pytest.approx([0.7, 1])
        assert curve.gap == pytest.approx([-0.35, 0.45])
        assert curve.expected_error == pytest.approx(0.35 / 3 + 0.9 / 3)
        assert curve.maximum_error == pytest.approx(0.45)
        assert metrics.maximum_calibration_error(binary([0.95, 0.95, 0.65]), [1, 0, 1]) == curve.maximum_error

    def test_the_gap_says_which_way(self):
        assert calibration_gap(binary([0.9, 0.9]), [1, 0]) == pytest.approx(0.4)
        assert calibration_gap(binary([0.6, 0.6]), [1, 1]) == pytest.approx(-0.4)

    def test_equal_mass_bins_hold_equally_many(self):
        confidence = np.linspace(0.5, 0.99, 100)
        curve = reliability_from_confidence(confidence, np.ones(100), bins=8, spacing="mass")
        assert set(curve.count) == {12, 13}
        assert (curve.confidence > curve.lower).all()
        assert (curve.confidence <= curve.upper).all()

    def test_equal_mass_bins_keep_ties_together(self):
        confidence = np.repeat([0.6, 0.9, 1.0], [5, 50, 45])
        correct = np.random.default_rng(0).random(100) < 0.8
        curve = reliability_from_confidence(confidence, correct, bins=10, spacing="mass")
        assert curve.count.tolist() == [55, 45]
        probs = binary(confidence)
        order = np.random.default_rng(1).permutation(100)
        labels = correct.astype(int)
        assert adaptive_calibration_error(probs[order], labels[order]) == pytest.approx(
            adaptive_calibration_error(probs, labels)
        )

    def test_classwise_averages_over_the_classes(self):
        logits, labels = drawn()
        probs = from_logits(logits)
        for spacing in ("width", "mass"):
            each = [
                calibration_error_from_confidence(probs[:, k], labels == k, spacing=spacing) for k in range(5)
            ]
            assert metrics.classwise_calibration_error(probs, labels, spacing=spacing) == pytest.approx(
                np.mean(each)
            )

    def test_a_calibrated_model_has_little_error_and_less_when_the_bias_is_taken_off(self):
        # 40 draws: the plain root mean square is biased up by sqrt(bins * a (1 - a) / n).
        plain, debiased = [], []
        for seed in range(40):
            logits, labels = drawn(500, seed=seed)
            probs = from_logits(logits)
            curve = reliability_curve(probs, labels, 15, "mass")
            plain.append(curve.share @ curve.gap**2)
            debiased.append(metrics.debiased_calibration_error(probs, labels) ** 2)
        assert np.mean(debiased) < 0.5 * np.mean(plain)

    def test_debiased_error_is_unbiased_where_there_is_an_error(self):
        # Confidence .9, right with probability .8: the square is .01; interval of 4 standard errors.
        generator = np.random.default_rng(0)
        probs = binary(np.full(400, 0.9))
        squares = [
            metrics.debiased_calibration_error(probs, (generator.random(400) < 0.8).astype(int)) ** 2
            for _ in range(400)
        ]
        assert abs(np.mean(squares) - 0.01) < 4 * np.std(squares) / 20

    def test_debiased_error_by_hand(self):
        probs, labels = binary([0.6, 0.6, 0.9, 0.9]), [1, 0, 1, 1]
        expected = ((0.1**2 - 0.25) + (0.1**2 - 0)) / 2
        assert expected < 0
        assert metrics.debiased_calibration_error(probs, labels, bins=2) == 0
        labels = [0, 0, 1, 1]
        expected = (0.6**2 + 0.1**2) / 2
        assert metrics.debiased_calibration_error(probs, labels, bins=2) == pytest.approx(expected**0.5)
        four = binary(np.full(4, 0.9))
        assert metrics.debiased_calibration_error(four, [1, 0, 0, 0], bins=1) == pytest.approx(0.6)
        with pytest.raises(ValueError, match=r"^probs: expected at least two inputs"):
            metrics.debiased_calibration_error(probs[:1], [0])

    def test_a_bin_that_ties_leave_with_one_prediction_is_joined_with_the_next(self):
        probs, labels = binary([0.6, 0.6, 0.6, 0.9]), [0, 0, 0, 1]
        expected = (0.675 - 0.25) ** 2 - 0.25 * 0.75 / 3
        assert metrics.debiased_calibration_error(probs, labels, bins=2) == pytest.approx(expected**0.5)

    def test_the_sweep_stops_before_the_curve_falls(self):
        probs, labels = binary([0.6, 0.7, 0.8, 0.9]), [0, 1, 0, 1]
        # Two bins rise from 1/2 to 1/2; three (sizes 2, 1, 1) fall from 1/2 to 0.
        assert metrics.sweep_calibration_error(probs, labels) == pytest.approx(
            adaptive_calibration_error(probs, labels, 2)
        )

    def test_the_sweep_uses_the_finest_bins_when_all_is_right(self):
        probs = binary(np.linspace(0.51, 0.99, 2000))
        assert metrics.sweep_calibration_error(probs, np.ones(2000, int)) == pytest.approx(0.25)

    def test_rounding_above_1_falls_into_the_last_bin(self):
        probs = np.array([[1.0003, 0.0], [0.9, 0.1]])
        assert reliability_curve(probs, [0, 0]).index.tolist() == [8, 9]
        assert np.isfinite(adaptive_calibration_error(probs, [0, 0]))


class TestSelective:
    def test_the_curve_has_one_point_for_each_distinct_score(self):
        curve = metrics.risk_coverage([3, 1, 1, 2], [1, 0, 1, 0])
        assert curve.thresholds.tolist() == [1, 2, 3]
        assert curve.coverage.tolist() == [0.5, 0.75, 1]
        assert curve.risk == pytest.approx([1 / 2, 1 / 3, 1 / 2])

    def test_infinite_scores_are_ranked(self):
        assert metrics.risk_coverage([np.inf, 0, -np.inf], [1, 0, 0]).risk.tolist() == [0, 0, 1 / 3]

    def test_the_table_goes_from_the_smallest_score_to_the_largest(self):
        generator = np.random.default_rng(0)
        score = generator.random(500)
        wrong = generator.random(500) < 0.3 * score
        table = metrics.accuracy_coverage(score, wrong)
        assert table.thresholds == pytest.approx(np.linspace(score.min(), score.max(), 15))
        for threshold, coverage, accuracy in zip(
            table.thresholds, table.coverage, table.accuracy, strict=True
        ):
            kept = score <= threshold
            assert coverage == pytest.approx(kept.mean())
            assert accuracy == pytest.approx(1 - wrong[kept].mean())

    def test_thresholds_that_keep_nothing_are_left_out(self):
        table = metrics.accuracy_coverage([1.0, 2.0], [0, 1], thresholds=[0.5, 1.5, 9])
        assert table.thresholds.tolist() == [1.5, 9]
        assert table.accuracy.tolist() == [1, 0.5]
        with pytest.raises(ValueError, match=r"^thresholds: expected one of at least the smallest score, 1"):
            metrics.accuracy_coverage([1.0, 2.0], [0, 1], thresholds=[0.5])

    def test_equal_scores_make_a_table_too(self):
        assert metrics.accuracy_coverage(np.full(4, 0.3), [0, 0, 0, 1]).accuracy == pytest.approx(
            np.full(15, 0.75)
        )

    def test_coverage_at_an_accuracy(self):
        score, wrong = np.arange(10), np.isin(np.arange(10), [5, 8])
        assert metrics.coverage_at_accuracy(score, wrong, 1.0) == 0.5
        assert metrics.coverage_at_accuracy(score, wrong, 0.8) == 1
        assert metrics.coverage_at_accuracy(score, wrong, 0.85) == 0.8
        assert metrics.coverage_at_accuracy(-score, np.arange(10) > 8, 1.0) == 0


class TestDetection:
    def test_auroc_agrees_with_scikit_learn(self, failures):
        from sklearn.metrics import roc_auc_score

        score, wrong = failures
        assert auroc(score, wrong) == pytest.approx(roc_auc_score(wrong, score), rel=1e-12)
        assert auroc(score, wrong) == pytest.approx(1 - auroc(score, ~wrong), rel=1e-12)

    def test_auroc_is_the_chance_of_a_correct_order(self):
        assert auroc([1, 2, 2, 3], [0, 0, 1, 1]) == pytest.approx((1 + 0.5 + 1 + 1) / 4)

    def test_agrees_with_torchmetrics(self, failures, torchmetrics):
        torch, functions = torchmetrics
        score, wrong = failures
        scaled = torch.tensor((score - score.min()) / np.ptp(score))
        flags = torch.tensor(wrong).long()
        assert auroc(score, wrong) == pytest.approx(float(functions.binary_auroc(scaled, flags)), abs=1e-5)
        theirs = float(functions.binary_average_precision(scaled, flags))
        assert aupr(score, wrong) == pytest.approx(theirs, abs=1e-5)

    def test_infinite_scores_are_ranked(self):
        assert auroc([-np.inf, 0, np.inf], [0, 0, 1]) == 1

    def test_the_positive_class_has_a_name(self):
        with pytest.raises(ValueError, match=r"^positive_class: expected a name"):
            auroc([1, 2], [0, 1], positive_class=1)


class TestRegression:
    MEAN = np.array([0.0, 1.0, -2.0])
    STD = np.array([1.0, 0.5, 3.0])
    Y = np.array([0.3, 2.5, -2.0])

    def test_gaussian_nll_agrees_with_scipy(self):
        expected = -stats.norm(self.MEAN, self.STD).logpdf(self.Y).mean()
        assert metrics.gaussian_nll(self.MEAN, self.STD, self.Y) == pytest.approx(expected, rel=1e-12)

    def test_std_is_not_the_variance(self):
        assert metrics.gaussian_nll(0.0, 2.0, [2.0]) == pytest.approx(np.log(2) + np.log(2 * np.pi) / 2 + 0.5)

    def test_crps_agrees_with_its_integral(self):
        expected = []
        for mean, std, y in zip(self.MEAN, self.STD, self.Y, strict=True):
            below, _ = integrate.quad(lambda x, m=mean, s=std: special.ndtr((x - m) / s) ** 2, -60, y)
            above, _ = integrate.quad(lambda x, m=mean, s=std: special.ndtr((m - x) / s) ** 2, y, 60)
            expected.append(below + above)
        assert metrics.crps_gaussian(self.MEAN, self.STD, self.Y) == pytest.approx(
            np.mean(expected), rel=1e-8
        )

    def test_crps_of_a_sharp_prediction_is_the_absolute_error(self):
        assert metrics.crps_gaussian(1.0, 1e-300, [3.0, 0.0]) == pytest.approx(1.5)

    @pytest.mark.parametrize("rule", [metrics.gaussian_nll, metrics.crps_gaussian])
    def test_the_truth_has_the_best_expected_score(self, rule):
        y = np.random.default_rng(0).normal(1.0, 2.0, size=20_000)
        honest = rule(1.0, 2.0, y)
        assert honest < min(rule(1.0, 1.6, y), rule(1.0, 2.5, y), rule(0.5, 2.0, y), rule(1.5, 2.0, y))

    def test_beyond_the_largest_float_is_infinity_not_nan(self):
        assert metrics.gaussian_nll(0.0, 1e-200, [1e200]) == np.inf
        assert metrics.crps_gaussian(-1e308, 1.0, [1e308]) == np.inf

    def test_intervals_include_their_ends(self):
        lower, upper = [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 3.0]
        assert metrics.interval_coverage(lower, upper, [0.0, 1.0, 1.1, -0.1]) == 0.5
        assert metrics.interval_width(lower, upper) == 1.5

    def test_an_interval_that_ends_before_it_begins_is_refused(self):
        with pytest.raises(ValueError, match=r"^upper: expected no upper end below"):
            metrics.interval_width([0.0, 2.0], [1.0, 1.0])

    @pytest.mark.parametrize("kind", ["interval", "quantile"])
    def test_the_curve_of_the_truth_is_the_diagonal(self, kind):
        y = np.random.default_rng(0).normal(1.0, 2.0, size=20_000)
        curve = metrics.regression_calibration_curve(1.0, 2.0, y, kind=kind)
        assert np.abs(curve.observed - curve.expected).max() < 0.02  # 5 standard errors of a share
        assert curve.error < 0.02
        narrow = metrics.regression_calibration_curve(1.0, 1.0, y)
        assert (narrow.observed < narrow.expected).all()

    def test_the_interval_curve_is_the_coverage_of_central_intervals(self):
        y = np.random.default_rng(0).normal(size=300)
        curve = metrics.regression_calibration_curve(0.1, 0.8, y, levels=[0.5, 0.9])
        for level, observed in zip(curve.expected, curve.observed, strict=True):
            half = 0.8 * stats.norm.ppf(0.5 + level / 2)
            covered = metrics.interval_coverage(np.full(300, 0.1 - half), np.full(300, 0.1 + half), y)
            assert observed == pytest.approx(covered)

    def test_a_shift_is_seen_by_the_quantiles(self):
        y = np.random.default_rng(0).normal(size=5000)
        curve = metrics.regression_calibration_curve(1.0, 1.0, y, kind="quantile")
        assert (curve.observed > curve.expected).all()

    @pytest.mark.parametrize("std", [0.0, -1.0, [1.0, 0.0, 1.0]])
    def test_a_standard_deviation_is_above_0(self, std):
        with pytest.raises(ValueError, match=r"^std: expected standard deviations above 0"):
            metrics.gaussian_nll(self.MEAN, std, self.Y)


class TestSampleAccumulator:
    PROBS = np.random.default_rng(0).dirichlet(np.full(4, 0.4), size=(30, 200))

    def same_as_batch(self, result, probs=PROBS):
        batch = decompose(probs)
        for field in FIELDS:
            assert np.abs(getattr(result, field) - getattr(batch, field)).max() < 1e-12, field
        assert np.abs(result.variation_ratio - variation_ratio(probs)).max() < 1e-12
        assert result.count == len(probs)

    def test_one_by_one_in_parts_or_at_once_is_the_same(self):
        single = SampleAccumulator()
        for sample in self.PROBS:
            single.add(sample)
        self.same_as_batch(single.result())
        self.same_as_batch(SampleAccumulator().add(self.PROBS).result())
        self.same_as_batch(
            SampleAccumulator().add(self.PROBS[:7]).add(self.PROBS[7]).add(self.PROBS[8:]).result()
        )

    def test_merging_is_associative_and_commutative(self):
        parts = [SampleAccumulator().add(part) for part in np.split(self.PROBS, [5, 17])]
        left = parts[0].merge(parts[1]).merge(parts[2])
        right = parts[0].merge(parts[1].merge(parts[2]))
        turned = parts[2].merge(parts[0]).merge(parts[1])
        for merged in (left, right, turned):
            self.same_as_batch(merged.result())

    def test_merging_leaves_both_as_they_were(self):
        first, second = (SampleAccumulator().add(part) for part in np.split(self.PROBS, [10]))
        merged = first.merge(second)
        merged.add(self.PROBS)
        self.same_as_batch(first.result(), self.PROBS[:10])
        self.same_as_batch(second.result(), self.PROBS[10:])

    def test_an_empty_one_changes_nothing(self):
        filled = SampleAccumulator().add(self.PROBS)
        self.same_as_batch(filled.merge(SampleAccumulator()).result())
        merged = SampleAccumulator().merge(filled)
        merged.add(self.PROBS)
        self.same_as_batch(filled.result())

    def test_parts_travel_between_machines(self):
        parts = [pickle.dumps(SampleAccumulator().add(part)) for part in np.split(self.PROBS, 3)]
        merged = SampleAccumulator()
        for part in parts:
            merged = merged.merge(pickle.loads(part))
        self.same_as_batch(merged.result())
        assert all(isinstance(value, int | np.ndarray) for value in vars(merged).values())

    def test_float32_samples_that_agree_have_no_mutual_information(self):
        sample = from_logits(np.random.default_rng(0).normal(size=(50, 10))).astype(np.float32)
        accumulator = SampleAccumulator()
        for _ in range(50):
            accumulator.add(sample)
        assert accumulator.result().epistemic.max() < 1e-12

    def test_what_does_not_fit_is_refused_and_nothing_is_added(self):
        accumulator = SampleAccumulator().add(self.PROBS)
        for bad in (self.PROBS[:, :5], self.PROBS[0, :5], self.PROBS * 2, "text"):
            with pytest.raises(ValueError, match=r"^probs: expected"):
                accumulator.add(bad)
        with pytest.raises(ValueError, match=r"^other: expected 200 inputs and 4 classes"):
            accumulator.merge(SampleAccumulator().add(self.PROBS[:, :5]))
        with pytest.raises(ValueError, match=r"^other: expected a SampleAccumulator"):
            accumulator.merge(self.PROBS)
        self.same_as_batch(accumulator.result())

    def test_nothing_added_has_no_result(self):
        with pytest.raises(ValueError, match="at least one sample"):
            SampleAccumulator().result()


class TestPrecision:
    """.6 in float32 is another number than .6 in float64: what is compared is compared in one of the two."""

    EDGES = np.array([0.6, 0.7, 0.9])

    @pytest.mark.parametrize("kind", [np.float16, np.float32])
    def test_an_average_of_predictions_on_an_edge_stays_in_the_bin_of_each(self, kind):
        rows = np.stack([self.EDGES, 1 - self.EDGES], axis=1).astype(kind)
        for samples in (1, 3, 5):
            curve = reliability_curve(np.tile(rows, (samples, 1, 1)), [0, 0, 0])
            assert curve.index.tolist() == reliability_curve(rows, [0, 0, 0]).index.tolist() == [5, 6, 8]

    def test_classwise_too(self):
        rows = np.stack([self.EDGES, 1 - self.EDGES], axis=1).astype(np.float32)
        labels = [0, 1, 0]
        assert classwise_calibration_error(rows[None], labels) == classwise_calibration_error(rows, labels)

    @pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
    def test_a_score_at_the_threshold_is_kept(self, kind):
        table = accuracy_coverage(np.array([0.1, 0.6, 0.7], kind), [0, 1, 0], thresholds=[0.1, 0.6, 0.7])
        assert table.coverage.tolist() == [1 / 3, 2 / 3, 1]
        assert table.thresholds.tolist() == [0.1, 0.6, 0.7]

    def test_a_threshold_beyond_the_largest_score_of_its_type_keeps_all(self):
        assert accuracy_coverage(np.array([1, 2], np.float16), [0, 1], [1e9]).coverage.tolist() == [1]

    @pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
    def test_a_target_on_the_end_of_its_interval_is_inside(self, kind):
        ends = np.array([0.1, 0.6, 0.7])
        assert interval_coverage(ends - 1, ends, ends.astype(kind)) == 1
        assert interval_coverage(ends.astype(kind), ends, ends) == 1
        assert interval_coverage(ends, ends.astype(kind), ends.astype(np.float32)) == 1
        assert interval_coverage(ends, ends, np.nextafter(ends, 1)) == 0

    def test_an_interval_without_width_is_one_in_any_two_precisions(self):
        ends = np.array([0.1, 0.6, 0.7])
        assert interval_width(ends.astype(np.float32), ends) == pytest.approx(0, abs=1e-7)


class TestMasks:
    @pytest.mark.parametrize(
        "use",
        [
            decompose,
            predictive_entropy,
            lambda p: expected_calibration_error(p, [0, 1]),
            lambda p: brier_score(p, [0, 1]),
            lambda p: SampleAccumulator().add(p),
        ],
    )
    def test_a_mask_is_never_ignored(self, use):
        probs = np.ma.masked_array(np.full((1, 2, 2), 0.5), mask=[[[0, 0], [1, 1]]])
        with pytest.raises(ValueError, match=r"^probs: expected an array without a mask"):
            use(probs)
