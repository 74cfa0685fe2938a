"""What every public function does with its arguments first."""

import importlib
import re
import warnings

import numpy as np
import pytest

from uqhelpers import _checks as checks


class TestArrays:
    def test_lists_numpy_torch_and_jax_are_read_alike(self):
        torch = pytest.importorskip("uqhelpers._torch").torch
        jax = pytest.importorskip("jax")
        rows = [[0.25, 0.75]]
        kinds = [rows, np.array(rows), torch.tensor(rows, requires_grad=True), jax.numpy.array(rows)]
        for kind in kinds:
            assert np.array_equal(checks.to_numpy(kind, "x"), [[0.25, 0.75]])

    def test_bfloat16_is_read_as_float32(self):
        torch = pytest.importorskip("uqhelpers._torch").torch
        jax = pytest.importorskip("jax")
        for array in (torch.ones(2, dtype=torch.bfloat16), jax.numpy.ones(2, dtype="bfloat16")):
            assert checks.to_numpy(array, "x").dtype == np.float32

    def test_a_sparse_tensor_is_refused_by_name(self):
        torch = pytest.importorskip("uqhelpers._torch").torch
        with pytest.raises(ValueError, match=r"^x: expected a dense tensor"):
            checks.to_numpy(torch.eye(2).to_sparse(), "x")

    @pytest.mark.parametrize("value", [None, "text", ["a"], {}, [[1], [1, 2]], [1j], [object()]])
    def test_what_holds_no_numbers_is_refused_by_name(self, value):
        with pytest.raises(ValueError, match=r"^x: expected"):
            checks.to_numpy(value, "x")

    @pytest.mark.parametrize("mask", [False, [True, False]])
    def test_a_mask_is_not_dropped_in_silence_but_refused_by_name(self, mask):
        masked = np.ma.array([0.25, 0.75], mask=mask)
        for value in (masked, [masked, masked], [[masked]], [0.5, np.ma.masked]):
            for check in (checks.to_numpy, checks.as_real, checks.as_scores):
                with pytest.raises(ValueError, match=r"^x: expected an array without a mask"):
                    check(value, "x")

    def test_a_masked_tensor_of_torch_is_refused_too(self):
        torch = pytest.importorskip("uqhelpers._torch").torch
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls its masks a prototype
            masked = torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))
        with pytest.raises(ValueError, match=r"^x: expected an array without a mask"):
            checks.to_numpy(masked, "x")

    @pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
    def test_own_numbers_keep_the_precision_they_came_in(self, kind):
        assert checks.as_own_real(np.ones(2, kind), "x").dtype == kind
        assert checks.as_own_scores(np.ones(2, kind), "x").dtype == kind
        assert checks.as_real(np.ones(2, kind), "x").dtype == np.float64
        assert checks.as_own_real(np.ones(2, int), "x").dtype == np.float64

    @pytest.mark.parametrize("value", [[], [np.nan], [np.inf], [[1.0]]])
    def test_real_numbers_are_finite_and_there_are_some(self, value):
        with pytest.raises(ValueError, match=r"^x: expected"):
            checks.as_real(value, "x", ndim=1)

    def test_scores_may_be_infinite_but_not_nan(self):
        assert checks.as_scores([np.inf, 1], "x").tolist() == [np.inf, 1.0]
        with pytest.raises(ValueError, match=r"^x: .*NaN"):
            checks.as_scores([np.nan, 1], "x")
        with pytest.raises(ValueError, match=r"^x: expected length 3"):
            checks.as_scores([1, 2], "x", length=3)


class TestDistributions:
    def test_come_out_in_float64_or_in_their_own_precision(self):
        rows = np.array([[0.5, 0.5]], np.float32)
        assert checks.as_distributions(rows, "NC").dtype == np.float64
        assert checks.as_own_distributions(rows, "NC").dtype == np.float32
        assert checks.as_own_distributions(rows.astype(np.float16), "NC").dtype == np.float16

    def test_one_hot_integers_and_booleans_are_distributions(self):
        assert checks.as_distributions(np.eye(3, dtype=int), "NC").dtype == np.float64
        assert checks.as_distributions(np.eye(3, dtype=bool), "NC").sum() == 3

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_rounded_rows_pass(self, dtype):
        rows = np.random.default_rng(0).dirichlet(np.ones(1000), size=50).astype(dtype)
        checks.as_distributions(rows, "NC")

    @pytest.mark.parametrize("place", [(0, 0), (-1, -1), (40_000, 1)])
    @pytest.mark.parametrize(
        ("value", "message"),
        [(np.nan, "NaN or infinity"), (np.inf, "NaN or infinity"), (-0.5, "are these logits"), (7, "logits")],
    )
    def test_one_bad_number_is_found_wherever_it_is(self, place, value, message):
        rows = np.full((50_000, 4), 0.25)
        rows[place] = value
        with pytest.raises(ValueError, match=f"^probs: .*{message}"):
            checks.as_distributions(rows, "NC")

    def test_a_row_that_does_not_sum_to_one_is_named(self):
        with pytest.raises(ValueError, match=r"^probs: .*sums to 0\.9$"):
            checks.as_distributions([[0.5, 0.5], [0.5, 0.4]], "NC")

    def test_several_shapes_can_be_allowed(self):
        checks.as_distributions([[1.0, 0.0]], ("NC", "SNC"))
        with pytest.raises(
            ValueError, match=r"\(inputs, classes\) or \(samples, inputs, classes\), got \(2,\)"
        ):
            checks.as_distributions([1.0, 0.0], ("NC", "SNC"))

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 2)])
    def test_nothing_at_all_is_refused(self, shape):
        with pytest.raises(ValueError, match=r"^probs: .*empty"):
            checks.as_distributions(np.empty(shape), ("NC", "SNC"))


class TestLabelsAndFlags:
    def test_whole_floats_are_labels(self):
        assert checks.as_labels([0.0, 2.0], 3).dtype == np.int64

    @pytest.mark.parametrize(
        "labels", [[-1, 0], [0, 3], [0.5, 1], [np.nan, 0], [np.inf, 0], [1e300, 0], [True, False], [[0]], []]
    )
    def test_what_is_no_class_is_refused(self, labels):
        with pytest.raises(ValueError, match=r"^labels: expected"):
            checks.as_labels(labels, 3)

    def test_true_and_false_are_labels_of_two_classes(self):
        labels = checks.as_labels([True, False], 2)
        assert labels.tolist() == [1, 0]
        assert labels.dtype == np.int64

    def test_as_many_as_there_are_inputs(self):
        with pytest.raises(ValueError, match=r"^labels: expected 3 labels"):
            checks.as_labels([0, 1], 2, length=3)

    def test_zeros_and_ones_are_flags(self):
        assert checks.as_flags([0.0, 1.0], "x").tolist() == [False, True]

    @pytest.mark.parametrize("flags", [[0, 2], [np.nan, 1], [[True]], [], True])
    def test_other_values_are_no_flags(self, flags):
        with pytest.raises(ValueError, match=r"^x: expected"):
            checks.as_flags(flags, "x")


class TestSettings:
    @pytest.mark.parametrize("value", [0, 11, 2.0, "3", True, None, np.array([3])])
    def test_what_is_no_whole_number_in_range_is_refused(self, value):
        with pytest.raises(ValueError, match=r"^x: expected a whole number"):
            checks.as_whole(value, "x", low=1, high=10)

    def test_numpy_whole_numbers_pass(self):
        assert checks.as_whole(np.int64(3), "x") == 3

    @pytest.mark.parametrize("value", ["1", b"1", None, np.nan, np.inf, 0, 2.5, [1, 2], np.ones(2)])
    def test_what_is_no_number_in_range_is_refused(self, value):
        with pytest.raises(ValueError, match=r"^x: expected a number"):
            checks.as_number(value, "x", low=0, high=2, open_low=True)

    @pytest.mark.parametrize(
        ("limits", "span"),
        [
            ({"low": 0, "open_low": True}, "(0, inf)"),
            ({}, "(-inf, inf)"),
            ({"high": 1}, "(-inf, 1]"),
            ({"low": 0, "high": 1}, "[0, 1]"),
        ],
    )
    def test_an_infinite_bound_is_not_said_to_be_allowed(self, limits, span):
        with pytest.raises(ValueError, match=re.escape(f"x: expected a number in {span}, got inf")):
            checks.as_number(np.inf, "x", **limits)

    @pytest.mark.parametrize("value", ["no", 0, 1, None, np.array([True])])
    def test_what_merely_counts_as_true_or_false_is_no_switch(self, value):
        assert checks.as_switch(np.True_, "x") is True
        with pytest.raises(ValueError, match=r"^x: expected True or False"):
            checks.as_switch(value, "x")

    @pytest.mark.parametrize("value", ["c", None, np.array(["a", "b"]), ["a"]])
    def test_what_is_not_among_the_choices_is_refused(self, value):
        with pytest.raises(ValueError, match=r"^x: expected one of 'a', 'b'"):
            checks.as_choice(value, "x", ("a", "b"))

    def test_a_seed_repeats_and_leaves_the_global_generator_alone(self):
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        assert checks.as_generator(3).random() == checks.as_generator(3).random()
        generator = np.random.default_rng(0)
        assert checks.as_generator(generator) is generator
        assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
        with pytest.raises(ValueError, match=r"^seed: expected"):
            checks.as_generator(-1)


# --- every function that takes arrays ---------------------------------------------------------------------

RNG = np.random.default_rng(0)
N = 12
PROBS, SAMPLED = RNG.dirichlet(np.ones(3), N), RNG.dirichlet(np.ones(3), (4, N))
LABELS, FLAGS = np.arange(N) % 3, np.arange(N) % 2 == 0
POINTS, VALUES, OTHERS, ABOVE = (RNG.normal(size=s) for s in ((N, 2), N, N, N))
ABOVE, UNIT, SQUARE = np.exp(ABOVE), RNG.random(N), RNG.normal(size=(4, N))
TABLE = {"first": SQUARE, "second": -SQUARE, "first_resampled": SQUARE, "second_resampled": SQUARE}
ONE = {"probs": PROBS}
LABELLED = {"probs": PROBS, "labels": LABELS}
SCORED = {"score": VALUES, "wrong": FLAGS}
NORMAL = {"mean": VALUES, "std": ABOVE, "y": OTHERS}
PRICES = {"miss": 10, "needless": 1}
CALLS = {
    "active_learning": {
        "score": {"probs": SAMPLED},
        "acquire": {"probs": SAMPLED, "batch": 2},
        "power_bald": {"scores": ABOVE, "batch": 2},
        "epig": {"probs": SAMPLED, "targets": SAMPLED[:, :3]},
        "batch_bald": {"probs": SAMPLED, "batch": 2},
        "joint_mutual_information": {"probs": SAMPLED, "indices": LABELS[:2]},
        "badge": {"probs": PROBS, "features": POINTS, "batch": 2},
        "gradient_gram": {"probs": PROBS, "features": POINTS, "places": LABELS[:2]},
        "k_center": {"features": POINTS, "known": POINTS[:2], "batch": 2},
        "draw": {"scores": ABOVE, "count": 2},
        "lure_risk": {"losses": ABOVE, "chances": np.full(N, 0.5), "pool": 20},
    },
    "calibration": {"brier_decomposition": LABELLED},
    "case_study": {
        "split": {"labels": LABELS, "seed": 0, "shares": np.array([0.5, 0.5])},
        "over_splits": {"values": VALUES, "learned": 30, "judged": 10},
        "expected_price": {"probs": UNIT, **PRICES},
        "price": {"acted": FLAGS, "events": ~FLAGS, **PRICES},
        "cheapest": {"probs": UNIT, "doubts": UNIT, **PRICES},
        "online_p_values": {"past": VALUES, "stream": OTHERS, "seed": 0},
        "gap_bets": {"labels": FLAGS, "probs": UNIT},
        "miss_chances": {"misses": FLAGS, "n": 20, "alpha": 0.1},
        "wealth": {"factors": ABOVE},
        "adwin": {"values": UNIT},
        "page_hinkley": {"values": VALUES},
        "repeated_test": {"misses": FLAGS, "alpha": 0.1, "window": 5},
        "magnified": {"features": POINTS, "names": ("a radius", "b"), "size": 0.1},
    },
    "confidnet": {"true_class_probability": LABELLED},
    "conformal": {
        "quantile": {"scores": VALUES, "alpha": 0.3, "weights": ABOVE, "new_weights": ABOVE},
        "p_values": {"calibration": VALUES, "scores": OTHERS},
        "adaptive_scores": {"probs": PROBS, "u": UNIT},
        "lac_scores": ONE,
        "jackknife_plus": {"residuals": ABOVE, "predictions": SQUARE.T, "alpha": 0.3},
        "cv_plus": {"residuals": ABOVE, "predictions": SQUARE, "folds": np.arange(N) % 4, "alpha": 0.3},
        "control_risk": {"losses": np.sort(PROBS)[:, ::-1], "alpha": 0.6},
        "coverage_report": {"sets": PROBS > 0.2, "targets": LABELS, "by": LABELS},
        "set_sizes": {"sets": PROBS > 0.2},
    },
    "credal": {
        "Box": {"lower": PROBS * 0.8, "upper": np.minimum(PROBS * 1.2, 1)},
        "from_ensemble": {"probs": SAMPLED},
        "imprecise_dirichlet": {"counts": np.ones((2, 3))},
    },
    "ddu": {
        "ddu_score": {"log_density": VALUES},
        "quantile": {"log_density": VALUES, "held_out": OTHERS},
    },
    "deep_ensembles": {
        "disagreement": {"probs": SAMPLED},
        "dirichlet_decomposition": {"concentrations": 1 + PROBS},
        "dirichlet_nll": {"concentrations": 1 + PROBS, "probs": SAMPLED},
        "mixture_moments": {"locations": SQUARE, "scales": np.exp(SQUARE)},
        "mixture_nll": {"locations": SQUARE, "scales": np.exp(SQUARE), "targets": VALUES},
    },
    "evidential": {
        "decompose": {"alpha": 1 + PROBS},
        "dirichlet_kl": {"alpha": 1 + PROBS, "beta": 2 + PROBS},
        "sample": {"alpha": 1 + PROBS},
        "nig_nll": {"y": VALUES, "gamma": OTHERS, "nu": ABOVE, "alpha": 1 + ABOVE, "beta": ABOVE},
    },
    "features": {"to_unit_length": {"features": POINTS}},
    "first_classifier": {
        "class_scores": {"predictions": LABELS, "labels": LABELS, "classes": 3, "priors": PROBS[0]},
        "in_another_mix": {"probs": PROBS, "old": PROBS[0], "new": PROBS[1]},
        "most_confident_errors": LABELLED,
        "neighbours_kept": {"points": POINTS, "shown": POINTS, "k": 2},
    },
    "language_models": {
        "meaning_probs": {"log_probs": np.log(PROBS), "meanings": LABELS[:3]},
        "good_turing": {"counts": LABELS},
        "abstention_policy": {"confidence": UNIT},
    },
    "laplace": {
        "probit": {"mean": POINTS, "variance": np.exp(POINTS)},
        "pairwise_probit": {"mean": POINTS, "covariance": np.tile(np.eye(2), (N, 1, 1))},
    },
    "leaderboard": {
        "difference": {"first": VALUES, "second": OTHERS},
        "agreement": {**TABLE, "draws": 9},
        "pareto_front": {"costs": VALUES, "losses": OTHERS},
        "split_at_random": {"total": ABOVE},
        "pairwise_divergence": {"probs": SAMPLED},
        "rank_correlation": {"first": VALUES, "second": OTHERS},
    },
    "logistic": {
        "map_estimate": {"inputs": POINTS, "labels": FLAGS},
        "hessian": {"weights": np.ones(2), "inputs": POINTS},
        "total_variation": {"probs": PROBS, "other": PROBS[::-1]},
    },
    "mcmc": {name: {"draws": SQUARE} for name in ("r_hat", "effective_sample_size", "monte_carlo_error")},
    "metrics": {
        **dict.fromkeys(("margin", "max_probability", "msp_score", "predictive_entropy"), ONE),
        **dict.fromkeys(
            ("accuracy", "brier_score", "expected_calibration_error", "calibration_gap"), LABELLED
        ),
        **dict.fromkeys(("aurc", "eaurc", "augrc", "risk_coverage", "accuracy_coverage"), SCORED),
        **dict.fromkeys(("gaussian_nll", "crps_gaussian", "regression_calibration_curve"), NORMAL),
        "decompose": {"probs": SAMPLED},
        "auroc": {"score": VALUES, "positive": FLAGS},
        "interval_coverage": {"lower": VALUES - 1, "upper": VALUES + 1, "y": OTHERS},
        "reliability_from_confidence": {"confidence": UNIT, "correct": FLAGS},
        "fit_temperature": {"logits": 9 * np.eye(3)[LABELS], "labels": LABELS * (UNIT < 0.8)},
    },
    "odin": {name: {"logits": POINTS} for name in ("energy_score", "max_logit_score", "softmax_score")},
}
ARGUMENTS = [
    (f"{module}.{function}", name)
    for module, functions in CALLS.items()
    for function, given in functions.items()
    for name, value in given.items()
    if isinstance(value, np.ndarray)
]


@pytest.mark.parametrize(("path", "name"), ARGUMENTS)
def test_no_array_is_taken_that_holds_no_plain_numbers(path, name):
    """Masks, complex numbers, missing values, and none at all: refused by the argument's name."""
    module, function = path.split(".")
    call = getattr(importlib.import_module(f"uqhelpers.{module}"), function)
    given = CALLS[module][function]
    call(**given)
    whole = given[name].astype(float)
    missing = whole.astype(object)
    missing.flat[0] = None
    nan = whole.copy()
    nan.flat[0] = np.nan
    masked = np.ma.masked_equal(given[name], given[name].flat[0])
    for kind in (masked, whole + 0j, missing, nan, given[name][:0], "text"):
        with pytest.raises(ValueError, match=rf"^{name}\b"):
            call(**(given | {name: kind}))
