"""Every public function with bad input: a ``ValueError`` that names the argument, or a right answer.

Each function is called with good arguments, one of which is replaced by
something else. What comes back holds no NaN, unless a warning says so.
"""

import dataclasses
import inspect
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from uqhelpers import metrics

GENERATOR = np.random.default_rng(0)
SAMPLED = GENERATOR.dirichlet(np.ones(3), size=(4, 6))
LABELS = np.array([0, 1, 2, 0, 1, 2])
SCORE = np.array([0.1, 0.4, 0.4, 0.2, 0.9, 0.7])
FLAGS = np.array([0, 1, 0, 0, 1, 1])
REAL = {"mean": SCORE, "std": SCORE, "y": SCORE}
INTERVAL = {"lower": SCORE - 1, "upper": SCORE}

sampled = {"probs": SAMPLED}
judged = {"probs": SAMPLED[0], "labels": LABELS}
binned = {**judged, "bins": 5}
ranked = {"score": SCORE, "wrong": FLAGS}
detected = {"score": SCORE, "positive": FLAGS, "positive_class": "OOD"}
confident = {"confidence": SCORE, "correct": FLAGS, "bins": 5, "spacing": "mass"}

ARGUMENTS = {
    "accuracy": judged,
    "accuracy_coverage": {**ranked, "thresholds": 4},
    "adaptive_calibration_error": binned,
    "apply_temperature": {"logits": SAMPLED, "temperature": 2.0},
    "augrc": ranked,
    "aupr": detected,
    "aupr_error": ranked,
    "aupr_success": ranked,
    "aurc": ranked,
    "auroc": detected,
    "brier_score": judged,
    "calibration_error_from_confidence": confident,
    "calibration_gap": judged,
    "classwise_calibration_error": {**binned, "spacing": "mass"},
    "coverage_at_accuracy": {**ranked, "accuracy": 0.9},
    "crps_gaussian": REAL,
    "debiased_calibration_error": binned,
    "decompose": sampled,
    "eaurc": ranked,
    "expected_calibration_error": binned,
    "expected_entropy": sampled,
    "fit_temperature": {"logits": 3 * SAMPLED[0], "labels": LABELS, "low": 0.01, "high": 50.0},
    "fpr95": detected,
    "from_logits": {"logits": SAMPLED},
    "gaussian_nll": REAL,
    "interval_coverage": {**INTERVAL, "y": SCORE},
    "interval_width": INTERVAL,
    "margin": sampled,
    "max_probability": sampled,
    "maximum_calibration_error": binned,
    "msp_score": sampled,
    "mutual_information": sampled,
    "negative_log_likelihood": judged,
    "predictive_entropy": sampled,
    "regression_calibration_curve": {**REAL, "levels": SCORE, "kind": "quantile"},
    "reliability_curve": {**binned, "spacing": "mass"},
    "reliability_from_confidence": confident,
    "risk_coverage": ranked,
    "sweep_calibration_error": judged,
    "variation_ratio": sampled,
}
CASES = [(name, argument) for name, arguments in ARGUMENTS.items() for argument in arguments]

NONSENSE = {
    "nothing": None,
    "text": "text",
    "texts": ["a"] * 6,
    "a mapping": {},
    "ragged": [[0.5, 0.5], [1.0]],
    "complex": np.full((6, 3), 0.3j),
    "objects": np.array([None] * 6),
    "empty": [],
    "empty rows": np.empty((6, 0)),
    "no rows": np.empty((0, 3)),
    "NaN": np.full(6, np.nan),
    "NaN rows": np.full((6, 3), np.nan),
    "one NaN in a sample": np.where(np.arange(72).reshape(4, 6, 3) == 40, np.nan, SAMPLED),
    "infinite": np.full(6, np.inf),
    "infinite rows": np.full((6, 3), np.inf),
    "negative rows": np.tile([-0.5, 0.5, 1.0], (6, 1)),
    "negative samples": np.tile([-0.5, 0.5, 1.0], (4, 6, 1)),
    "unnormalised rows": np.full((6, 3), 0.4),
    "unnormalised samples": np.full((4, 6, 3), 0.4),
    "logits": np.linspace(-8, 9, 72).reshape(4, 6, 3),
    "too many axes": np.full((2, 2, 2, 2), 0.5),
    "negative numbers": -np.arange(1, 7),
    "large numbers": np.arange(6) + 100,
    "fractions": np.arange(6) + 0.5,
    "too long": np.zeros(7),
    "too short": np.zeros(5, int),
    "a NaN": np.nan,
    "an infinity": -np.inf,
    "zero": 0,
    "less than zero": -3,
    "a fraction": 0.5,
    "huge": 1e300,
    "a huge count": 10**15,
    "truth": True,
}


def holds_nan(result):
    if dataclasses.is_dataclass(result):
        return any(holds_nan(getattr(result, field.name)) for field in dataclasses.fields(result))
    return bool(np.isnan(np.asarray(result, dtype=np.float64)).any())


def call(name, arguments):
    """The result, or ``None`` where the arguments were refused in the way they should be."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = getattr(metrics, name)(**arguments)
        except ValueError as error:
            refusal = str(error)
        else:
            refusal = None
    if refusal is not None:
        assert refusal.split(":")[0] in arguments, f"names no argument: {refusal}"
        assert "expected" in refusal
        return None
    undefined = any("undefined" in str(warning.message) for warning in caught)
    expected = ("undefined", "no optimal temperature", "no temperature matters")
    for warning in caught:
        assert any(words in str(warning.message) for words in expected), warning.message
    assert undefined or not holds_nan(result), "a silent NaN"
    return result


def test_every_public_function_is_here():
    public = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    assert public == set(ARGUMENTS)
    for name in ARGUMENTS:
        assert set(ARGUMENTS[name]) == set(inspect.signature(getattr(metrics, name)).parameters), name


def test_every_public_function_says_what_it_takes_and_returns():
    for name in ARGUMENTS:
        text = inspect.getdoc(getattr(metrics, name))
        for section in ("Parameters\n---", "Returns\n---"):
            assert section in text, (name, section)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_good_arguments_have_a_result(name):
    assert call(name, ARGUMENTS[name]) is not None


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_nonsense_is_refused_by_name_or_answered_rightly(name, argument):
    for nonsense in NONSENSE.values():
        call(name, {**ARGUMENTS[name], argument: nonsense})


PROBABILITIES = [name for name, arguments in ARGUMENTS.items() if "probs" in arguments]


@pytest.mark.parametrize("name", PROBABILITIES)
@pytest.mark.parametrize("kind", [kind for kind in NONSENSE if kind not in ("truth", "zero")])
def test_no_nonsense_passes_for_probabilities(name, kind):
    assert call(name, {**ARGUMENTS[name], "probs": NONSENSE[kind]}) is None


@pytest.mark.parametrize("name", [name for name, arguments in ARGUMENTS.items() if "labels" in arguments])
@pytest.mark.parametrize(
    "kind", ["negative numbers", "large numbers", "fractions", "NaN", "too long", "too short"]
)
def test_no_nonsense_passes_for_labels(name, kind):
    assert call(name, {**ARGUMENTS[name], "labels": NONSENSE[kind]}) is None


anything = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.integers(-3, 20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.lists(st.lists(st.floats(0, 1), max_size=3), max_size=6),
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_]),
        st.one_of(
            st.sampled_from([(6,), (6, 3), (4, 6, 3)]),
            hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
        ),
    ),
)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(CASES), anything)
def test_anything_at_all_is_refused_by_name_or_answered_rightly(case, value):
    name, argument = case
    call(name, {**ARGUMENTS[name], argument: value})
