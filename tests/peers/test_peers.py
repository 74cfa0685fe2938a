"""uqhelpers beside the libraries that others use: where they agree, and where they do not.

What is installed in the book's own environment is asked anew; what the others
answered is stored (``make peers`` asks them again). Where they agree the test
says how closely; where they do not, it is named by what is true, and holds
both numbers.
"""

import functools
import json

import numpy as np
import pytest

from tests.peers import cases as inputs
from tests.peers import chains as asked
from tests.peers import record, table
from tools.book import ROOT
from uqhelpers import active_learning, conformal, credal, mcmc, metrics

INSTALLED = ("scikit-learn", "scipy", "torchmetrics", "popular recipe")  # beside the pinned environment
SINGLE = 1e-5  # what float32 arithmetic, and a constant added to a denominator, leave
DOUBLE = 1e-8  # nine digits are stored
CASES = inputs.make_cases()
STORED = json.loads(record.STORED.read_text(encoding="utf-8"))


def pinned(name):
    """The versions that a file of requirements pins, by package."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


@functools.cache
def answers(library):
    """What a library answers, now if it is installed and else as it is stored."""
    if library in INSTALLED:
        return record.evaluate(library, CASES)
    if library in STORED["skipped"]:
        pytest.skip(f"{library} could not be asked: {STORED['skipped'][library]}")
    return STORED["values"][library]


def theirs(library, name):
    """One answer, as a number or an array, or as the words of an error."""
    answer = answers(library)[name]
    if isinstance(answer, str) and answer not in ("nan", "inf", "-inf"):
        return answer
    return np.array(answer, dtype=float)


def case(name, *keys):
    return tuple(CASES[name][key] for key in keys)


def wrong(probs, labels):
    return probs.argmax(axis=1) != labels


DRAWN = case("drawn", "probs", "labels")
SAMPLED = CASES["sampled"]["probs"]
DETECTION = case("detection", "score", "strange")
REGRESSION = case("regression", "mean", "std", "y")


def interval(level=0.9):
    """The central interval of each predicted Gaussian."""
    from scipy.special import ndtri

    mean, std, _ = REGRESSION
    half = ndtri(0.5 + level / 2) * std
    return mean - half, mean + half


def temperatures():
    logits, labels, factors = case("temperature", "logits", "labels", "factors")
    return np.array([metrics.fit_temperature(factor * logits, labels) for factor in factors])


class TestTheStoredValues:
    def test_belong_to_these_inputs(self):
        assert STORED["inputs"] == inputs.fingerprint(CASES), "the inputs changed: `make peers` records anew"

    def test_the_inputs_are_the_same_in_single_precision(self):
        for name, key in (
            ("drawn", "probs"),
            ("drawn", "logits"),
            ("sampled", "probs"),
            ("detection", "score"),
        ):
            values = CASES[name][key]
            assert (values.astype(np.float32) == values).all(), name

    def test_another_input_has_another_fingerprint(self):
        changed = inputs.make_cases()
        changed["detection"]["score"][0] += 2.0**-40
        assert inputs.fingerprint(changed) != STORED["inputs"]

    def test_every_library_answered_or_says_why_not(self):
        assert set(STORED["values"]) | set(STORED["skipped"]) == set(record.LIBRARIES)
        assert set(STORED["values"]) == set(STORED["versions"])

    @pytest.mark.parametrize("library", INSTALLED)
    def test_what_is_installed_still_answers_as_stored(self, library):
        assert answers(library).keys() == STORED["values"][library].keys()
        for name, stored in STORED["values"][library].items():
            now = answers(library)[name]
            assert np.array(now, dtype=float) == pytest.approx(
                np.array(stored, dtype=float), rel=1e-4, abs=1e-6, nan_ok=True
            ), name

    def test_come_from_the_pinned_versions(self):
        pins = pinned("requirements-peers.txt")
        for library, number in STORED["versions"].items():
            assert pins[record.PACKAGES.get(library, library)] == number

    def test_both_environments_hold_the_same_versions(self):
        pins, ours = pinned("requirements-peers.txt"), pinned("requirements.txt")
        shared = {name.lower(): number for name, number in ours.items()}
        differing = {name for name, number in pins.items() if shared.get(name.lower(), number) != number}
        assert not differing
        assert {"torch", "numpy", "torchmetrics"} <= pins.keys() & ours.keys()

    def test_name_no_machine(self):
        text = record.STORED.read_text(encoding="utf-8")
        assert "site-packages" not in text
        assert "/" not in text.replace("BatchNorm moved, in", "")


def ece(bins=10):
    return metrics.expected_calibration_error(*DRAWN, bins)


def aurc_of(name, labels="labels", area=metrics.aurc):
    probs, labels = case(name, "probs", labels)
    return area(metrics.msp_score(probs), wrong(probs, labels))


def coverage():
    return metrics.interval_coverage(*interval(), REGRESSION[2])


def width():
    return metrics.interval_width(*interval())


def first_crps():
    return metrics.crps_gaussian(*(values[:20] for values in REGRESSION))


def familiar_fpr95():
    score, strange = DETECTION
    return metrics.fpr95(-score, ~strange, "familiar")


def detected(figure, name="detection"):
    return figure(*case(name, "score", "strange"))


def evidential(kind, weight):
    """Our loss on the concentrations that their evidence stands for."""

    def values():
        from uqhelpers._torch import torch
        from uqhelpers.evidential import evidential_loss

        evidence, labels = (torch.from_numpy(array) for array in case("evidence", "evidence", "labels"))
        return evidential_loss(evidence + 1, labels, kind, weight).numpy()

    return values


# library, its answer, ours, how closely they agree
AGREEMENTS = [
    ("scikit-learn", "auroc", lambda: detected(metrics.auroc), DOUBLE),
    ("scikit-learn", "aupr", lambda: detected(metrics.aupr), DOUBLE),
    ("scikit-learn", "fpr95", lambda: detected(metrics.fpr95), DOUBLE),
    ("scikit-learn", "accuracy", lambda: metrics.accuracy(*DRAWN), DOUBLE),
    ("scikit-learn", "nll", lambda: metrics.negative_log_likelihood(*DRAWN), DOUBLE),
    ("scikit-learn", "brier", lambda: metrics.brier_score(*DRAWN), DOUBLE),
    ("scipy", "predictive entropy", lambda: metrics.predictive_entropy(SAMPLED), DOUBLE),
    ("scipy", "expected entropy", lambda: metrics.expected_entropy(SAMPLED), DOUBLE),
    ("scipy", "entropy of one-hot", lambda: metrics.predictive_entropy(CASES["one-hot"]["probs"]), 0),
    ("scipy", "temperature", temperatures, 1e-6),
    ("scipy", "gaussian nll", lambda: metrics.gaussian_nll(*REGRESSION), DOUBLE),
    ("scipy", "coverage", coverage, DOUBLE),
    ("scipy", "width", width, DOUBLE),
    ("scipy", "crps of the first 20", first_crps, 1e-7),
    ("torchmetrics", "ece", ece, SINGLE),
    ("torchmetrics", "mce", lambda: metrics.maximum_calibration_error(*DRAWN), SINGLE),
    ("torchmetrics", "auroc of detection", lambda: detected(metrics.auroc), SINGLE),
    ("torchmetrics", "aupr of detection", lambda: detected(metrics.aupr), SINGLE),
    ("netcal", "ece", ece, DOUBLE),
    ("netcal", "mce", lambda: metrics.maximum_calibration_error(*DRAWN), DOUBLE),
    ("netcal", "ece of equal mass", lambda: metrics.adaptive_calibration_error(*DRAWN), DOUBLE),
    (
        "netcal",
        "ece of certainty",
        lambda: metrics.expected_calibration_error(*case("certain", "probs", "labels")),
        DOUBLE,
    ),
    (
        "netcal",
        "ece of two",
        lambda: metrics.expected_calibration_error(*case("two", "probs", "labels")),
        DOUBLE,
    ),
    ("netcal", "gaussian nll", lambda: metrics.gaussian_nll(*REGRESSION), DOUBLE),
    ("netcal", "coverage", coverage, DOUBLE),
    ("netcal", "width", width, DOUBLE),
    ("baal", "mutual information", lambda: metrics.mutual_information(SAMPLED), DOUBLE),
    ("baal", "predictive entropy", lambda: metrics.predictive_entropy(SAMPLED), DOUBLE),
    ("baal", "entropy of one-hot", lambda: metrics.predictive_entropy(CASES["one-hot"]["probs"]), 0),
    ("baal", "margin", lambda: metrics.margin(SAMPLED), DOUBLE),
    ("baal", "certainty", lambda: metrics.max_probability(SAMPLED), DOUBLE),
    ("pytorch-ood", "auroc of detection", lambda: detected(metrics.auroc), DOUBLE),
    ("pytorch-ood", "auroc of large scores", lambda: detected(metrics.auroc, "large scores"), DOUBLE),
    ("pytorch-ood", "auroc of all tied", lambda: detected(metrics.auroc, "all tied"), DOUBLE),
    ("pytorch-ood", "fpr95 of detection", lambda: detected(metrics.fpr95), DOUBLE),
    ("pytorch-ood", "fpr95 of all tied", lambda: detected(metrics.fpr95, "all tied"), DOUBLE),
    ("pytorch-ood", "ece of equal mass", lambda: metrics.adaptive_calibration_error(*DRAWN), DOUBLE),
    ("pytorch-ood", "accuracy over coverage", lambda: 1 - aurc_of("drawn"), DOUBLE),
    ("torch-uncertainty", "nll", lambda: metrics.negative_log_likelihood(*DRAWN), SINGLE),
    ("torch-uncertainty", "brier", lambda: metrics.brier_score(*DRAWN), SINGLE),
    ("torch-uncertainty", "ece", ece, SINGLE),
    ("torch-uncertainty", "mce", lambda: metrics.maximum_calibration_error(*DRAWN), SINGLE),
    ("torch-uncertainty", "ece of equal mass", lambda: metrics.adaptive_calibration_error(*DRAWN), SINGLE),
    ("torch-uncertainty", "classwise ece", lambda: metrics.classwise_calibration_error(*DRAWN), SINGLE),
    ("torch-uncertainty", "fpr95 of detection", lambda: detected(metrics.fpr95), SINGLE),
    ("torch-uncertainty", "fpr95 of the familiar", familiar_fpr95, SINGLE),
    ("torch-uncertainty", "fpr95 of all tied", lambda: detected(metrics.fpr95, "all tied"), SINGLE),
    ("torch-uncertainty", "mutual information", lambda: metrics.mutual_information(SAMPLED), SINGLE),
    (
        "torch-uncertainty",
        "entropy of one-hot",
        lambda: metrics.predictive_entropy(CASES["one-hot"]["probs"]),
        0,
    ),
    ("torch-uncertainty", "gaussian nll", lambda: metrics.gaussian_nll(*REGRESSION), SINGLE),
    (
        "torch-uncertainty",
        "calibration error",
        lambda: metrics.regression_calibration_curve(*REGRESSION, levels=record.LEVELS).error,
        SINGLE,
    ),
    ("torch-uncertainty", "coverage", coverage, SINGLE),
    ("torch-uncertainty", "width", width, SINGLE),
    ("uncertainty-toolbox", "gaussian nll", lambda: metrics.gaussian_nll(*REGRESSION), DOUBLE),
    ("uncertainty-toolbox", "crps", lambda: metrics.crps_gaussian(*REGRESSION), DOUBLE),
    ("uncertainty-toolbox", "coverage", coverage, DOUBLE),
    (
        "uncertainty-toolbox",
        "calibration error",
        lambda: metrics.regression_calibration_curve(*REGRESSION, levels=np.linspace(0, 1, 11)).error,
        DOUBLE,
    ),
    (
        "uncertainty-toolbox",
        "curve of intervals",
        lambda: metrics.regression_calibration_curve(*REGRESSION, levels=np.linspace(0, 1, 11)).observed,
        DOUBLE,
    ),
    *(
        ("torch-uncertainty", f"evidential {kind}, penalty {weight:g}", evidential(kind, weight), DOUBLE)
        for kind in ("mse", "log", "digamma")
        for weight in (0.0, 0.5)
    ),
]


@pytest.mark.parametrize(
    ("library", "name", "ours", "closely"), AGREEMENTS, ids=[f"{row[0]}: {row[1]}" for row in AGREEMENTS]
)
def test_agrees_with(library, name, ours, closely):
    assert ours() == pytest.approx(theirs(library, name), rel=closely, abs=closely)


class TestCalibrationError:
    def test_scikit_learn_draws_the_same_reliability_curve(self):
        curve = metrics.reliability_curve(*DRAWN)
        accuracy, confidence = theirs("scikit-learn", "reliability curve")
        assert curve.accuracy == pytest.approx(accuracy, rel=DOUBLE)
        assert curve.confidence == pytest.approx(confidence, rel=DOUBLE)

    @pytest.mark.parametrize("library", ["torchmetrics", "torch-uncertainty"])
    def test_torchmetrics_opens_a_phantom_bin_for_confidence_one(self, library):
        ours = metrics.expected_calibration_error(*case("certain", "probs", "labels"))
        assert ours == pytest.approx(0.075, abs=1e-12)
        assert theirs(library, "ece of certainty") == pytest.approx(0.125, abs=SINGLE)

    def test_torchmetrics_bins_are_closed_on_the_left(self):
        ours = metrics.expected_calibration_error(*case("two", "probs", "labels"))
        assert ours == pytest.approx(0.075, abs=1e-12)
        assert theirs("torchmetrics", "ece of two") == pytest.approx(0.475, abs=SINGLE)

    def test_an_edge_belongs_to_the_bin_below_it_and_not_above_as_in_netcal(self):
        probs, labels = case("edge", "probs", "labels")
        # .5 and .4375 share the bin (.4, .5], .25 has its own.
        by_hand = abs((1 - 0.5) + (0 - 0.4375)) / 3 + 0.25 / 3
        assert wrong(probs, labels).tolist() == [False, True, True]
        assert metrics.expected_calibration_error(probs, labels) == pytest.approx(by_hand)
        apart = (0.5 + 0.4375 + 0.25) / 3
        for library in ("netcal", "torchmetrics"):
            assert theirs(library, "ece on an edge") == pytest.approx(apart, abs=SINGLE)
        assert apart > 3 * by_hand

    def test_netcal_refuses_classes_that_no_label_names(self):
        assert theirs("netcal", "ece of a missing class").startswith("RuntimeError: Asserted binary")
        ours = metrics.expected_calibration_error(*case("missing class", "probs", "labels"))
        assert ours == pytest.approx((0.25 + 0.375) / 2)

    def test_netcal_bins_the_positive_class_when_there_are_two(self):
        probs, labels = case("binary", "probs", "labels")
        ours = metrics.expected_calibration_error(probs, labels)
        assert ours == pytest.approx(0.875 - 11 / 16)  # of the predicted class: one bin
        positive = metrics.calibration_error_from_confidence(probs[:, 1], labels)
        assert theirs("netcal", "ece of binary") == pytest.approx(positive, rel=DOUBLE)

    def test_netcals_ace_is_an_average_over_bins_and_not_the_adaptive_error(self):
        curve = metrics.reliability_curve(*DRAWN)
        assert theirs("netcal", "ace") == pytest.approx(np.abs(curve.gap).mean(), rel=DOUBLE)
        assert abs(theirs("netcal", "ace") - metrics.adaptive_calibration_error(*DRAWN)) > 0.01

    def test_equal_confidences_share_a_bin_and_torch_uncertainty_parts_them_by_input_order(self):
        ours = [
            metrics.adaptive_calibration_error(*case("saturated", "probs", order))
            for order in ("first", "last")
        ]
        assert ours[0] == pytest.approx(ours[1], abs=1e-12)
        found = [
            theirs("torch-uncertainty", f"ece of equal mass, errors {order}") for order in ("first", "last")
        ]
        assert abs(found[0] - found[1]) > 0.01
        assert min(found) > 1.5 * ours[0]


class TestScoringRules:
    def test_scikit_learn_halves_the_brier_score_of_two_classes(self):
        ours = metrics.brier_score(*case("binary", "probs", "labels"))
        assert ours == pytest.approx(2 * theirs("scikit-learn", "brier of two classes"), rel=DOUBLE)

    def test_the_impossible_costs_infinity_and_scikit_learn_clips_it(self):
        assert metrics.negative_log_likelihood(*case("impossible", "probs", "labels")) == np.inf
        assert theirs("torch-uncertainty", "nll of the impossible") == np.inf
        clipped = -np.log(np.finfo(np.float64).eps) / 2  # one of the two inputs
        assert theirs("scikit-learn", "nll of the impossible") == pytest.approx(clipped, rel=1e-6)


class TestSelective:
    def test_aurc_of_ties_is_the_error_rate_and_torch_uncertainty_depends_on_input_order(self):
        ours = [aurc_of("ties", order) for order in ("first", "last", "spread")]
        assert ours == pytest.approx([0.1] * 3, abs=1e-12)
        found = [
            theirs("torch-uncertainty", f"aurc, errors {order}") for order in ("first", "last", "spread")
        ]
        assert found == pytest.approx([0.033, 0.119, 0.090], abs=5e-4)

    def test_augrc_of_ties_is_half_the_error_rate_and_torch_uncertainty_depends_on_input_order(self):
        ours = [aurc_of("ties", order, metrics.augrc) for order in ("first", "last", "spread")]
        assert ours == pytest.approx([0.05] * 3, abs=1e-12)
        found = [
            theirs("torch-uncertainty", f"augrc, errors {order}") for order in ("first", "last", "spread")
        ]
        assert max(found) > 2 * min(found)

    def test_pytorch_oods_accuracy_over_coverage_depends_on_input_order(self):
        found = [
            theirs("pytorch-ood", f"accuracy over coverage, errors {order}")
            for order in ("first", "last", "spread")
        ]
        assert 1 - aurc_of("ties", "first") == pytest.approx(0.9)
        assert max(found) - min(found) > 0.05

    def test_aurc_is_a_mean_over_all_coverages_and_torch_uncertainty_leaves_half_of_both_ends_out(self):
        assert aurc_of("few") == pytest.approx((0 + 0 + 0 + 1 / 4) / 4)
        # The trapezoid over coverages 1/4 to 1, stretched to 0 to 1.
        trapezoid = (0 + 0 + (0 + 1 / 4) / 2) / 3
        assert theirs("torch-uncertainty", "aurc of few") == pytest.approx(trapezoid, abs=1e-6)
        assert theirs("torch-uncertainty", "aurc") == pytest.approx(aurc_of("drawn"), rel=0.005)

    def test_augrc_begins_where_nothing_is_accepted_and_torch_uncertainty_one_input_later(self):
        assert aurc_of("few", area=metrics.augrc) == pytest.approx((1 / 4) ** 2 / 2)
        assert theirs("torch-uncertainty", "augrc of few") == pytest.approx((1 / 4) / 2 / 3, abs=1e-6)
        augrc = aurc_of("drawn", area=metrics.augrc)
        assert theirs("torch-uncertainty", "augrc") == pytest.approx(augrc, rel=0.005)


class TestDetection:
    def test_average_precision_goes_by_steps_and_pytorch_ood_joins_them_by_lines(self):
        ours = metrics.aupr(*DETECTION)
        lines = theirs("pytorch-ood", "aupr of detection")
        assert lines == pytest.approx(theirs("scikit-learn", "aupr by trapezoid"), rel=DOUBLE)
        assert abs(lines - ours) > 5e-4

    def test_a_score_that_knows_nothing_has_the_prevalence_and_pytorch_ood_gives_it_more_than_double(self):
        score, strange = case("all tied", "score", "strange")
        ours = metrics.aupr(score, strange)
        assert ours == ours.prevalence == 0.25
        assert theirs("pytorch-ood", "aupr of all tied") == pytest.approx(0.625)

    def test_torchmetrics_sends_scores_above_one_through_a_sigmoid_that_ties_them(self):
        large = case("large scores", "score", "strange")
        assert metrics.auroc(*large) == metrics.auroc(*DETECTION)
        assert theirs("torchmetrics", "auroc of large scores") < metrics.auroc(*large) - 0.3
        assert theirs("torchmetrics", "aupr of large scores") < metrics.aupr(*large) - 0.4

    def test_one_class_has_no_auroc_and_torchmetrics_calls_it_zero(self):
        with pytest.warns(RuntimeWarning, match="AUROC is undefined"):
            assert np.isnan(metrics.auroc(*case("one class", "score", "strange")))
        assert np.isnan(theirs("scikit-learn", "auroc of one class"))
        assert np.isnan(theirs("torch-uncertainty", "fpr95 of one class"))
        assert theirs("pytorch-ood", "auroc of one class").startswith("ValueError: ")
        assert theirs("torchmetrics", "auroc of one class") == 0

    @pytest.mark.parametrize("library", ["scikit-learn", "torchmetrics"])
    def test_no_positive_input_has_no_average_precision_and_others_call_it_zero(self, library):
        with pytest.warns(RuntimeWarning, match="AUPR is undefined"):
            assert np.isnan(metrics.aupr(*case("one class", "score", "strange")))
        assert theirs(library, "aupr of one class") == 0

    def test_fpr95_changes_with_the_positive_class(self):
        assert familiar_fpr95() != metrics.fpr95(*DETECTION)
        assert theirs("torch-uncertainty", "fpr95 of the familiar") != theirs(
            "torch-uncertainty", "fpr95 of detection"
        )


class TestOutOfDistribution:
    LOGITS = CASES["drawn"]["logits"][:60]

    @pytest.mark.parametrize("temperature", record.ENERGY_TEMPERATURES)
    def test_the_energy_is_that_of_pytorch_ood(self, temperature):
        from uqhelpers import odin

        expected = theirs("pytorch-ood", f"energy, T = {temperature:g}")
        assert odin.energy_score(self.LOGITS, temperature) == pytest.approx(expected, rel=DOUBLE)

    def test_the_largest_logit_is_that_of_pytorch_ood(self):
        from uqhelpers import odin

        expected = theirs("pytorch-ood", "max logit")
        assert odin.max_logit_score(self.LOGITS) == pytest.approx(expected, rel=DOUBLE)

    @pytest.mark.parametrize(("temperature", "epsilon", "scaled"), record.ODIN_SETTINGS)
    def test_odin_is_that_of_pytorch_ood(self, temperature, epsilon, scaled):
        from uqhelpers import odin

        model, images, std = record.classifier(CASES["images"]), *case("images", "images", "std")
        ours = odin.odin_score(model, images, temperature, epsilon, std if scaled else None)
        expected = theirs("pytorch-ood", record.odin_name(temperature, epsilon, scaled))
        # Nine digits are stored, and at a high temperature the scores differ in the last of them only.
        assert ours == pytest.approx(expected, abs=1e-9 / 2)
        away_from_uniform = ours + 1 / 4
        assert away_from_uniform == pytest.approx(expected + 1 / 4, rel=1e-4)

    def test_a_step_does_something(self):
        scores = [theirs("pytorch-ood", record.odin_name(*setting)) for setting in record.ODIN_SETTINGS]
        assert (scores[2] < scores[0]).all()
        assert (scores[3] < scores[1]).all()
        assert (scores[4] < scores[3]).all()  # further, because divided by less than 1

    @staticmethod
    def mahalanobis(name, relative_ridge):
        from uqhelpers import odin

        known, labels, new = case("features", name, "labels", f"{name}, new")
        return odin.Mahalanobis(relative_ridge).fit(known, labels), new

    def test_well_conditioned_features_have_the_same_mahalanobis_distances(self):
        known, labels = case("features", "plain", "labels")
        centred = known - np.stack([known[labels == k].mean(axis=0) for k in range(3)])[labels]
        # Theirs is half the distance under N times the covariance plus 1e-6: a ridge of 1e-6 / N on ours.
        ridge = 1e-6 / len(known) / (centred**2).sum() * len(known) * known.shape[1]
        ours, new = self.mahalanobis("plain", ridge)
        assert ours.ridge == pytest.approx(1e-6 / len(known))
        expected = 2 * len(known) * theirs("pytorch-ood", "Mahalanobis, plain")
        assert ours.score(new) == pytest.approx(expected, rel=1e-4)  # float32

    @pytest.mark.parametrize("name", ["dependent", "small"])
    def test_a_fixed_ridge_fails_where_features_depend_on_each_other_or_are_small(self, name):
        ours, new = self.mahalanobis(name, 1e-6)
        strange = CASES["features"]["strange"]
        assert metrics.auroc(ours.score(new), strange) > 0.99
        found = theirs("pytorch-ood", f"Mahalanobis, {name}")
        assert metrics.auroc(found, strange) < 0.95
        assert metrics.auroc(found, strange) == pytest.approx(
            theirs("pytorch-ood", f"auroc of Mahalanobis, {name}"), abs=1e-6
        )

    def test_no_distance_is_negative_and_many_of_pytorch_oods_are(self):
        ours, new = self.mahalanobis("dependent", 1e-6)
        assert ours.score(new).min() > 0
        assert (theirs("pytorch-ood", "Mahalanobis, dependent") < 0).mean() > 0.2


class TestOrientation:
    """A clear input, then an undecided one."""

    @pytest.mark.parametrize("library", ["pytorch-ood", "torch-uncertainty"])
    def test_outlier_scores_are_higher_for_the_undecided(self, library):
        found = [name for name in answers(library) if name.endswith(", clear and undecided")]
        assert len(found) == 4
        for name in found:
            clear, undecided = theirs(library, name)
            assert undecided > clear, name

    def test_msp_score_is_that_of_pytorch_ood(self):
        probs = metrics.from_logits(CASES["orientation"]["logits"])
        for library, name in (("pytorch-ood", "MaxSoftmax"), ("torch-uncertainty", "MaxSoftmax")):
            expected = theirs(library, f"{name}, clear and undecided")
            assert metrics.msp_score(probs) == pytest.approx(expected, rel=DOUBLE)
            entropy = theirs(library, "Entropy, clear and undecided")
            assert metrics.predictive_entropy(probs) == pytest.approx(entropy, rel=DOUBLE)

    def test_what_has_its_own_name_keeps_its_own_sign_in_baal_too(self):
        for name in ("certainty", "margin"):
            clear, undecided = theirs("baal", f"{name}, clear and undecided")
            assert undecided < clear
        clear, undecided = theirs("baal", "entropy, clear and undecided")
        assert undecided > clear


class TestSampledPredictions:
    def test_members_that_agree_have_no_mutual_information_and_baals_goes_below_zero(self):
        ours = metrics.mutual_information(CASES["same members"]["probs"])
        assert ours.min() >= 0
        assert ours.max() < 1e-12
        assert -1e-5 < theirs("baal", "smallest mutual information of same members") < -1e-7
        assert theirs("baal", "share of it below 0") > 0.05

    def test_mutual_information_is_clamped_by_input_and_torch_uncertainty_clamps_its_sum(self):
        by_input = theirs("torch-uncertainty", "mutual information of same members, none")
        summed = theirs("torch-uncertainty", "mutual information of same members, sum")
        assert by_input > 1e-6
        assert summed < by_input / 2

    def test_entropy_of_one_hot_rows_is_exactly_zero_and_pytorch_ood_adds_a_constant(self):
        ours = metrics.predictive_entropy(metrics.from_logits(CASES["one-hot"]["logits"]))
        assert (ours == 0).all()
        expected = 9 * -1e-7 * np.log(1e-7)
        assert theirs("pytorch-ood", "entropy of one-hot") == pytest.approx(np.full(10, expected), rel=1e-3)

    def test_torch_uncertaintys_entropy_of_samples_is_the_expected_one(self):
        found = theirs("torch-uncertainty", "entropy of samples")
        assert metrics.expected_entropy(SAMPLED) == pytest.approx(found, rel=SINGLE)
        assert metrics.predictive_entropy(SAMPLED).mean() > found.mean() + 0.1

    def test_samples_are_averaged_as_probabilities_and_baal_averages_logits(self):
        probs = metrics.from_logits(CASES["sampled"]["logits"])
        found = theirs("baal", "predictive entropy of logits")
        assert (
            metrics.predictive_entropy(metrics.from_logits(CASES["sampled"]["logits"].mean(axis=0)))
            == pytest.approx(found, rel=DOUBLE)
        )  # fmt: skip
        assert metrics.predictive_entropy(probs).mean() > found.mean() + 0.1

    def test_torch_uncertaintys_default_variation_ratio_counts_no_votes(self):
        found = theirs("torch-uncertainty", "variation ratio")
        assert found == pytest.approx(1 - metrics.max_probability(SAMPLED), rel=SINGLE)
        assert (found > metrics.variation_ratio(SAMPLED)).any()
        assert (found < metrics.variation_ratio(SAMPLED)).any()

    def test_the_modal_class_has_most_votes_and_torch_uncertainty_takes_that_of_the_average(self):
        found = theirs("torch-uncertainty", "variation ratio by votes")
        ours = metrics.variation_ratio(SAMPLED)
        assert (found > ours - SINGLE).all()
        same = np.abs(found - ours) < SINGLE
        assert 0.5 < same.mean() < 1
        votes = SAMPLED.argmax(axis=2)
        average = SAMPLED.mean(axis=0).argmax(axis=1)
        assert found == pytest.approx((votes != average).mean(axis=0), abs=SINGLE)


class TestTemperature:
    OPTIMA = (0.30, 1.00, 5.17, 20.5)

    def test_the_optimum_is_found_wherever_it_is(self):
        assert temperatures() == pytest.approx(self.OPTIMA, rel=0.02)

    def test_a_popular_recipe_of_fifty_steps_stops_near_where_it_starts(self):
        found = theirs("popular recipe", "temperature")
        assert (np.abs(found - 1.5) < 0.5).all()  # whatever the optimum
        assert found[2] == pytest.approx(1.87, abs=0.02)

    def test_pytorch_oods_fifty_steps_stop_at_a_quarter_of_the_way(self):
        found = theirs("pytorch-ood", "temperature")
        assert found[2] == pytest.approx(1.27, abs=0.01)
        assert found[3] < 1.3

    def test_torch_uncertainty_finds_five_and_loses_twenty(self):
        found = theirs("torch-uncertainty", "temperature")
        assert found[:3] == pytest.approx(temperatures()[:3], rel=0.01)
        assert found[3] < 1e-3

    def test_netcal_finds_five_and_clips_what_it_needs_for_twenty(self):
        found = theirs("netcal", "temperature")
        assert found[:3] == pytest.approx(temperatures()[:3], rel=0.01)
        # It takes probabilities; those below the rounding unit are raised to it on the way back to logits.
        logits, labels, factors = case("temperature", "logits", "labels", "factors")
        clipped = np.maximum(metrics.from_logits(factors[3] * logits), np.finfo(np.float64).eps)
        assert found[3] == pytest.approx(metrics.fit_temperature(np.log(clipped), labels), rel=1e-4)
        assert found[3] < 0.7 * temperatures()[3]


class TestRegression:
    def test_uncertainty_toolboxs_quantile_curve_is_mirrored(self):
        levels = np.linspace(0, 1, 11)
        ours = metrics.regression_calibration_curve(*REGRESSION, levels=levels, kind="quantile").observed
        found = theirs("uncertainty-toolbox", "curve of quantiles")
        # One target lies on its median, and counts on both sides.
        assert found == pytest.approx(1 - ours[::-1], abs=1.01 / len(REGRESSION[2]))
        # The predictions are too high, so more targets than promised lie below each quantile.
        mean, _, y = REGRESSION
        assert (y < mean).mean() > 0.55
        assert ours[5] == pytest.approx((y <= mean).mean())
        assert found[5] < 0.45

    def test_uncertainty_toolboxs_sharpness_is_a_root_mean_square(self):
        std = REGRESSION[1]
        assert theirs("uncertainty-toolbox", "sharpness") == pytest.approx(np.sqrt((std**2).mean()))
        assert theirs("uncertainty-toolbox", "sharpness") > std.mean() * 1.02


def exact_dropout():
    """Mean prediction over all masks, and its standard error over the recorded passes."""
    hidden, output, points = case("dropout", "hidden", "output", "inputs")
    masks = 2.0 * ((np.arange(1024)[:, None] >> np.arange(10)) & 1)  # kept units are doubled
    units = np.maximum(points @ hidden.T, 0)
    probs = metrics.from_logits((masks[:, None] * units) @ output.T)
    return probs, probs.std(axis=0) / np.sqrt(record.PASSES)


class TestDropout:
    @pytest.mark.parametrize("library", ["baal", "pytorch-ood", "torch-uncertainty"])
    def test_averages_the_same_masks(self, library):
        probs, error = exact_dropout()
        # 32 figures, five standard errors: a false alarm in 50,000 recordings.
        assert (np.abs(theirs(library, "dropout mean") - probs.mean(axis=0)) < 5 * error + 1e-5).all()

    @pytest.mark.parametrize("masks", ["independent", "shared"])
    def test_and_so_does_mc_dropout(self, masks):
        from uqhelpers import mc_dropout

        probs, error = exact_dropout()
        model = record.network(CASES["dropout"]).float()
        ours = mc_dropout.sample(
            model, CASES["dropout"]["inputs"].astype(np.float32), passes=record.PASSES, masks=masks
        )
        assert (np.abs(ours.mean(axis=0) - probs.mean(axis=0)) < 5 * error + 1e-5).all()
        information = metrics.mutual_information(probs)
        assert metrics.mutual_information(ours) == pytest.approx(information, abs=0.05)

    def test_without_dropout_is_an_error_and_pytorch_ood_is_certain(self):
        from uqhelpers import mc_dropout

        model = record.without_dropout(record.network(CASES["dropout"])).float()
        with pytest.raises(ValueError, match="dropout"):
            mc_dropout.sample(model, CASES["dropout"]["inputs"].astype(np.float32), passes=2)
        assert theirs("torch-uncertainty", "no dropout") == "ValueError"
        assert (theirs("pytorch-ood", "variance without dropout") == 0).all()

    def test_batch_normalisation_stands_still_and_moves_in_two_libraries(self):
        from uqhelpers import mc_dropout

        ours = record.moved_buffers(
            lambda model, points: mc_dropout.sample(model, points.numpy(), passes=2, masks="independent")
        )
        assert not any(ours.values())
        for library, moves in (("torch-uncertainty", False), ("baal", True), ("pytorch-ood", True)):
            assert answers(library)["BatchNorm moved, in training"] is moves
            assert answers(library)["BatchNorm moved, in evaluation"] is False


class TestAttacks:
    def attack(self, name, **options):
        from uqhelpers import adversarial

        model, images = record.classifier(CASES["images"]), CASES["images"]["images"]
        labels = model(record.tensors(CASES["images"], "images")[0]).argmax(dim=1)
        settings = {"epsilon": record.ATTACK["epsilon"], **options}
        return getattr(adversarial, name)(model, images, labels, **settings)

    @property
    def many(self):
        return {
            "steps": record.ATTACK["steps"],
            "step_size": record.ATTACK["size"],
            "random_start": False,
        }

    @pytest.mark.parametrize("library", ["foolbox", "torchattacks"])
    def test_one_step_is_theirs(self, library):
        assert self.attack("fgsm") == pytest.approx(theirs(library, "fgsm"), abs=1e-6)

    @pytest.mark.parametrize("library", ["foolbox", "torchattacks"])
    def test_many_steps_are_theirs(self, library):
        assert self.attack("pgd", **self.many) == pytest.approx(theirs(library, "pgd"), abs=1e-6)

    def test_many_steps_in_the_round_are_foolboxs(self):
        ours = self.attack("pgd", norm=2, **self.many)
        assert ours == pytest.approx(theirs("foolbox", "pgd, Euclidean"), abs=1e-6)

    def test_pixels_standardised_outside_are_attacked_as_foolbox_does(self):
        from uqhelpers import adversarial

        images, std = case("images", "images", "std")
        model = record.classifier(CASES["images"])
        labels = model(record.tensors(CASES["images"], "images")[0]).argmax(dim=1)
        scaled = (images - 0.5) / std[:, None, None]
        ours = adversarial.fgsm(model, scaled, labels, record.ATTACK["epsilon"], mean=0.5, std=std)
        pixels = ours * std[:, None, None] + 0.5
        assert pixels == pytest.approx(theirs("foolbox", "fgsm, standardised"), abs=1e-6)

    def test_dropout_that_was_on_stays_on_and_is_switched_off_by_torchattacks(self):
        from uqhelpers import adversarial
        from uqhelpers._torch import torch

        model = torch.nn.Sequential(torch.nn.Dropout(0.5), record.classifier(CASES["images"])).eval()
        model[0].train()
        adversarial.fgsm(model, CASES["images"]["images"], np.zeros(8, int), 0.1)
        assert model[0].training
        assert answers("torchattacks")["dropout still on"] is False


class TestTable:
    @pytest.mark.parametrize("row", table.ROWS, ids=[f"{row.library}: {row.quantity}" for row in table.ROWS])
    def test_every_row_is_a_disagreement(self, row):
        if row.library in STORED["skipped"]:
            pytest.skip(STORED["skipped"][row.library])
        right, found = row.figures(STORED, CASES)
        assert isinstance(found, str) or found != pytest.approx(right, rel=0.01, abs=1e-9, nan_ok=True)

    def test_is_markdown_with_a_line_for_every_row(self):
        lines = table.markdown(STORED).splitlines()
        answered = [row for row in table.ROWS if row.library not in STORED["skipped"]]
        assert len(lines) == 2 + len(answered)
        assert {line.count(" | ") for line in lines if not line.startswith("| ---")} == {4}

    def test_the_page_of_the_book_shows_what_is_stored(self):
        told = "out of date: `python -m tests.peers.table --write` writes it"
        assert table.PAGE.read_text(encoding="utf-8") == table.page(STORED), told

    def test_writing_the_page_is_asked_for(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(table, "PAGE", tmp_path / "page.md")
        table.main([])
        assert not table.PAGE.exists()
        assert capsys.readouterr().out.strip() == table.markdown(STORED)
        table.main(["--write"])
        assert table.markdown(STORED) in table.PAGE.read_text(encoding="utf-8")


SIZES = CASES["ranks"]["sizes"].tolist()
RANKS = [conformal.rank(n, 0.1) for n in SIZES]


class TestBatches:
    """One batch of five from 60 inputs and six networks."""

    def test_with_enough_draws_another_librarys_batch_is_ours(self):
        ours = active_learning.batch_bald(SAMPLED, 5)
        assert ours.indices.tolist() == theirs("scikit-activeml", "batch, 1,000 draws").tolist()
        drawn = theirs("scikit-activeml", "largest information, 1,000 draws")
        assert drawn == pytest.approx(ours.information, abs=0.02)

    def test_six_networks_cannot_tell_more_than_log_six(self):
        assert active_learning.batch_bald(SAMPLED, 5).information < np.log(6)
        assert theirs("scikit-activeml", "largest information, by default") > np.log(6) + 0.05

    def test_the_best_input_comes_first_and_not_after_the_batch(self):
        assert table.place_of_the_best(CASES) == 0
        assert theirs("baal", "place of the best input in a batch of five") == 5


class TestConformalPrediction:
    """Ranks, adaptive sets, and the entropies of credal sets."""

    @pytest.mark.parametrize("library", ["mapie", "puncc"])
    def test_the_rank_is_theirs(self, library):
        assert theirs(library, "ranks").tolist() == RANKS

    def test_counted_from_above_in_floats_it_is_one_too_high(self):
        assert (theirs("crepes", "ranks") - RANKS).tolist() == [1, 0, 1, 1]

    def test_without_the_new_score_it_is_too_low(self):
        for n, rank, found in zip(SIZES, RANKS, theirs("torch-uncertainty", "ranks"), strict=True):
            assert found == pytest.approx(1 + 0.9 * (n - 1), rel=1e-6)
            assert found / (n + 1) < 0.9 <= rank / (n + 1)

    def test_adaptive_sets_randomised_alike_keep_the_promise_and_others_do_not(self):
        ours = table.covered_by_adaptive_sets(CASES)
        assert ours == pytest.approx(0.9, abs=0.01)
        assert theirs("mapie", "coverage of APS, last class randomized") == pytest.approx(0.9, abs=0.01)
        assert theirs("mapie", "coverage of APS, last class True") > 0.92
        assert theirs("mapie", "coverage of APS, last class False") < 0.85

    def test_a_set_does_not_depend_on_how_many_are_asked_about(self):
        assert theirs("puncc", "set of one input") != theirs("puncc", "set of one among fifty")
        fitted = conformal.SplitClassifier("aps").fit(*table.ten_alike())
        alike = CASES["alike"]["probs"]
        assert fitted.predict(alike).sum() == fitted.predict(np.repeat(alike, 50, axis=0))[0].sum()

    @pytest.mark.parametrize(
        ("name", "kind"), [("upper_entropy", "box"), ("upper_entropy_convex_hull", "hull")]
    )
    def test_upper_entropies_are_theirs(self, name, kind):
        ours = credal.upper_entropy(credal.from_ensemble(CASES["members"]["probs"], kind))
        assert np.abs(ours - theirs("probly", name)).max() < 1e-5

    @pytest.mark.parametrize(
        ("name", "kind", "share"),
        [("lower_entropy", "box", 0.2), ("lower_entropy_convex_hull", "hull", 0.05)],
    )
    def test_a_local_search_stops_above_the_lower_entropy(self, name, kind, share):
        ours = credal.lower_entropy(credal.from_ensemble(CASES["members"]["probs"], kind))
        above = theirs("probly", name) - ours
        assert above.min() > -1e-6
        assert np.mean(above > 1e-4) > share


class TestChains:
    @pytest.mark.parametrize(
        ("kind", "ours"),
        [
            ("rhat", mcmc.r_hat),
            ("ess_bulk", mcmc.effective_sample_size),
            ("ess_tail", lambda draws: mcmc.effective_sample_size(draws, "tail")),
        ],
    )
    def test_the_modern_diagnostics_are_those_of_blackjax(self, kind, ours):
        long = [draws for name, draws in asked.chains().items() if record.LONG in name]
        assert len(long) == len(asked.CORRELATIONS)
        assert theirs("blackjax", kind) == pytest.approx([ours(draws) for draws in long], rel=1e-3)

    @pytest.mark.parametrize(
        ("library", "name"),
        [("numpyro", "one wide"), ("numpyro", "heavy tails, one apart"), ("blackjax", "a trend")],
    )
    def test_a_classical_r_hat_passes_chains_that_differ(self, library, name):
        assert theirs(library, f"R̂, {name}") < 1.005
        assert mcmc.r_hat(asked.chains()[name]) > 1.05

    def test_a_number_of_draws_is_not_negative(self):
        name = "4 x 400, correlation -0.9"
        assert theirs("numpyro", f"effective, {name}") < 0
        ours = mcmc.effective_sample_size(asked.chains()[name])
        assert ours == pytest.approx(1600 * np.log10(1600))  # the most that is believed
