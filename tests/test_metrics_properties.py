"""What holds for every input: bounds, identities, and what must not matter."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize, special

from uqhelpers import metrics

ROUNDING = 1e-12
quick = settings(max_examples=50, deadline=None)  # a busy machine is no failure


@st.composite
def sampled_probabilities(draw):
    """Shape (S, N, C): from spread to one-hot, in float64 or float32, with exact zeros among them."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 8), st.integers(2, 6)))
    logits = draw(hnp.arrays(np.float64, shape, elements=st.floats(-60, 60, width=32)))
    probs = special.softmax(logits, axis=-1)
    if draw(st.booleans()):
        probs = np.where(probs < 1e-6, 0, probs)
        probs /= probs.sum(axis=-1, keepdims=True)
    return probs.astype(draw(st.sampled_from([np.float64, np.float32])))


@st.composite
def labelled(draw):
    """Single predictions with labels."""
    probs = draw(sampled_probabilities())[0]
    labels = draw(hnp.arrays(np.int64, len(probs), elements=st.integers(0, probs.shape[1] - 1)))
    return probs, labels


@st.composite
def ranked(draw):
    """Scores with many ties, and which of the predictions are wrong."""
    size = draw(st.integers(1, 30))
    score = draw(hnp.arrays(np.float64, size, elements=st.integers(-3, 8).map(float)))
    return score, draw(hnp.arrays(bool, size))


class TestDecomposition:
    @quick
    @given(sampled_probabilities())
    def test_stays_within_its_bounds(self, probs):
        samples, inputs, classes = probs.shape
        slack = 1e-5 if probs.dtype == np.float32 else ROUNDING
        parts = metrics.decompose(probs)
        for part in (parts.total, parts.aleatoric):
            assert part.shape == (inputs,)
            assert (part >= 0).all()
            assert (part <= np.log(classes) + slack).all()
        assert (parts.epistemic >= 0).all()
        assert (parts.epistemic <= np.log(min(samples, classes)) + slack).all()
        assert (parts.confidence >= 1 / classes - slack).all()
        assert (parts.confidence <= 1 + slack).all()
        ratio = metrics.variation_ratio(probs)
        assert (ratio >= 0).all()
        assert (ratio <= 1 - 1 / min(samples, classes) + ROUNDING).all()
        margin = metrics.margin(probs)
        assert ((margin >= 0) & (margin <= 1 + slack)).all()

    @quick
    @given(sampled_probabilities())
    def test_parts_sum_to_the_total(self, probs):
        parts = metrics.decompose(probs)
        assert np.abs(parts.aleatoric + parts.epistemic - parts.total).max() < ROUNDING

    @quick
    @given(sampled_probabilities(), st.randoms(use_true_random=False))
    def test_the_order_of_samples_inputs_and_classes_does_not_matter(self, probs, random):
        orders = [random.sample(range(size), size) for size in probs.shape]
        turned = probs[np.ix_(*orders)]
        for name in ("predictive_entropy", "expected_entropy", "mutual_information", "max_probability"):
            measure = getattr(metrics, name)
            assert np.abs(measure(turned) - measure(probs)[orders[1]]).max() < ROUNDING, name

    @quick
    @given(sampled_probabilities())
    def test_agrees_with_scipy(self, probs):
        exact = special.entr(probs.astype(np.float64))
        each = np.maximum(exact.sum(axis=-1), 0)  # a float32 row can sum to a little more than 1
        assert np.abs(metrics.expected_entropy(probs) - each.mean(axis=0)).max() < ROUNDING
        single = special.entr(probs[0].astype(np.float64)).sum(axis=-1)
        assert np.abs(metrics.predictive_entropy(probs[0]) - np.maximum(single, 0)).max() < ROUNDING

    @quick
    @given(sampled_probabilities())
    def test_one_sample_has_no_disagreement(self, probs):
        assert metrics.mutual_information(probs[:1]).max() < ROUNDING
        assert metrics.variation_ratio(probs[:1]).max() == 0

    @quick
    @given(sampled_probabilities(), st.integers(0, 6), st.integers(0, 6))
    def test_accumulated_in_any_parts_is_the_same(self, probs, first, second):
        merged = metrics.SampleAccumulator()
        for part in np.split(probs, sorted((min(first, len(probs)), min(second, len(probs))))):
            if len(part):
                merged = merged.merge(metrics.SampleAccumulator().add(part))
        result, batch = merged.result(), metrics.decompose(probs)
        for field in ("mean", "total", "aleatoric", "epistemic", "confidence"):
            assert np.abs(getattr(result, field) - getattr(batch, field)).max() < ROUNDING, field
        assert np.array_equal(result.variation_ratio, metrics.variation_ratio(probs))


class TestScoringAndCalibration:
    @quick
    @given(labelled())
    def test_losses_stay_within_their_bounds(self, case):
        assert metrics.negative_log_likelihood(*case) >= -1e-5
        assert 0 <= metrics.brier_score(*case) <= 2 + 1e-5
        assert 0 <= metrics.accuracy(*case) <= 1

    @quick
    @given(labelled(), st.integers(1, 20))
    def test_calibration_errors_lie_between_the_gap_and_one(self, case, bins):
        gap = abs(metrics.calibration_gap(*case))
        expected = metrics.expected_calibration_error(*case, bins)
        largest = metrics.maximum_calibration_error(*case, bins)
        adaptive = metrics.adaptive_calibration_error(*case, bins)
        assert gap - 1e-6 <= expected <= largest + ROUNDING <= 1 + 1e-5
        assert gap - 1e-6 <= adaptive <= 1 + 1e-5
        assert gap - 1e-6 <= metrics.sweep_calibration_error(*case) <= 1 + 1e-5
        for spacing in ("width", "mass"):
            assert 0 <= metrics.classwise_calibration_error(*case, bins, spacing) <= 1 + 1e-5

    @quick
    @given(labelled(), st.integers(1, 20), st.sampled_from(["width", "mass"]))
    def test_the_curve_holds_every_prediction_once(self, case, bins, spacing):
        curve = metrics.reliability_curve(*case, bins, spacing)
        assert curve.count.sum() == len(case[1])
        assert (curve.count > 0).all()
        slack = 1e-6
        assert (curve.confidence <= curve.upper + slack).all()
        assert (curve.confidence >= curve.lower - slack).all()
        assert (np.diff(curve.edges) >= 0).all()
        assert np.isclose(curve.share @ curve.accuracy, metrics.accuracy(*case))

    @quick
    @given(labelled(), st.randoms(use_true_random=False))
    def test_the_order_of_the_inputs_does_not_matter(self, case, random):
        probs, labels = case
        order = random.sample(range(len(labels)), len(labels))
        for name in (
            "negative_log_likelihood",
            "brier_score",
            "expected_calibration_error",
            "adaptive_calibration_error",
            "classwise_calibration_error",
            "sweep_calibration_error",
        ):
            measure = getattr(metrics, name)
            assert np.isclose(measure(probs[order], labels[order]), measure(probs, labels), atol=1e-9), name

    @quick
    @given(labelled())
    def test_the_debiased_error_is_not_above_the_plain_one(self, case):
        assume(len(case[1]) >= 2)
        probs, labels = np.concatenate([case[0]] * 3), np.concatenate([case[1]] * 3)  # no bin of one
        curve = metrics.reliability_curve(probs, labels, 1, "mass")
        debiased = metrics.debiased_calibration_error(probs, labels, 1)
        assert 0 <= debiased <= np.sqrt(curve.share @ curve.gap**2) + 1e-9

    @quick
    @given(st.integers(0, 10_000), st.floats(-3, 3), st.integers(20, 200))
    def test_the_temperature_is_as_good_as_scipys(self, seed, log_scale, size):
        generator = np.random.default_rng(seed)
        labels = generator.integers(3, size=size)
        logits = (generator.normal(size=(size, 3)) + np.eye(3)[labels]) * np.exp(log_scale)

        def loss(inverse):
            scaled = logits * inverse
            return (special.logsumexp(scaled, axis=1) - scaled[np.arange(size), labels]).mean()

        best = optimize.minimize_scalar(loss, bounds=(1e-4, 1e4), method="bounded", options={"xatol": 1e-10})
        assume(2e-4 < best.x < 5e3)
        found = metrics.fit_temperature(logits, labels, low=1e-4, high=1e4)
        assert found > 0
        assert loss(1 / found) <= best.fun + 1e-9


class TestRanking:
    @quick
    @given(ranked(), st.randoms(use_true_random=False))
    def test_the_order_of_the_inputs_does_not_matter(self, case, random):
        score, wrong = case
        order = random.sample(range(len(score)), len(score))
        assume(0 < wrong.sum() < len(wrong))
        for name in ("aurc", "eaurc", "augrc", "auroc", "aupr", "fpr95", "aupr_success", "aupr_error"):
            measure = getattr(metrics, name)
            assert np.isclose(measure(score[order], wrong[order]), measure(score, wrong), atol=1e-12), name

    @quick
    @given(ranked())
    def test_only_the_ranks_matter(self, case):
        score, wrong = case
        assume(0 < wrong.sum() < len(wrong))
        for name in ("aurc", "eaurc", "augrc", "auroc", "aupr", "fpr95"):
            measure = getattr(metrics, name)
            assert measure(np.exp(score / 3) - 5, wrong) == measure(score, wrong), name

    @quick
    @given(ranked())
    def test_areas_stay_within_their_bounds(self, case):
        score, wrong = case
        rate = wrong.mean()
        area = metrics.aurc(score, wrong)
        assert 0 <= metrics.eaurc(score, wrong) <= area + ROUNDING <= 1 + 2 * ROUNDING
        assert rate**2 / 2 - ROUNDING <= metrics.augrc(score, wrong) <= rate - rate**2 / 2 + ROUNDING
        curve = metrics.risk_coverage(score, wrong)
        assert curve.coverage[-1] == 1
        assert curve.risk[-1] == rate
        assert np.isclose(area, np.diff(curve.coverage, prepend=0) @ curve.risk)

    @quick
    @given(ranked())
    def test_the_generalised_area_is_bound_to_the_auroc(self, case):
        # Traub et al. 2024, proposition 3.1: (1 - AUROC) * accuracy * error + error ** 2 / 2.
        score, wrong = case
        assume(0 < wrong.sum() < len(wrong))
        rate = wrong.mean()
        expected = (1 - metrics.auroc(score, wrong)) * (1 - rate) * rate + rate**2 / 2
        assert np.isclose(metrics.augrc(score, wrong), expected, atol=1e-12)

    @quick
    @given(ranked())
    def test_turning_the_score_and_the_classes_changes_no_auroc(self, case):
        score, wrong = case
        assume(0 < wrong.sum() < len(wrong))
        assert np.isclose(metrics.auroc(-score, ~wrong), metrics.auroc(score, wrong), atol=1e-12)
        assert np.isclose(metrics.auroc(-score, wrong), 1 - metrics.auroc(score, wrong), atol=1e-12)

    @quick
    @given(ranked(), st.floats(0, 1))
    def test_what_is_kept_is_as_accurate_as_promised(self, case, accuracy):
        score, wrong = case
        coverage = metrics.coverage_at_accuracy(score, wrong, accuracy)
        if coverage:
            kept = np.sort(score)[round(coverage * len(score)) - 1]
            assert 1 - wrong[score <= kept].mean() >= accuracy - ROUNDING


numbers = st.floats(-1e6, 1e6)


class TestRegression:
    @quick
    @given(
        st.integers(1, 12).flatmap(
            lambda size: st.tuples(
                hnp.arrays(np.float64, size, elements=numbers),
                hnp.arrays(np.float64, size, elements=st.floats(1e-3, 1e6)),
                hnp.arrays(np.float64, size, elements=numbers),
            )
        )
    )
    def test_scores_stay_within_their_bounds(self, case):
        mean, std, y = case
        crps = metrics.crps_gaussian(mean, std, y)
        assert 0 <= crps <= np.abs(y - mean).mean() + std.mean()
        shifted = metrics.gaussian_nll(mean, std, y)
        assert shifted >= np.log(std).mean() + 0.5 * np.log(2 * np.pi) - 1e-9
        assert np.isclose(metrics.crps_gaussian(-mean, std, -y), crps)
        assert np.isclose(metrics.crps_gaussian(2 * mean, 2 * std, 2 * y), 2 * crps)
        curve = metrics.regression_calibration_curve(mean, std, y)
        assert (np.diff(curve.observed) >= 0).all()
        assert 0 <= curve.error <= 1
