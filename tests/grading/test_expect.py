"""What is expected of an answer, and what is said of another one."""

import itertools
import re

import numpy as np
import pytest

from uqhelpers.grading._engine import (
    Failed,
    Learner,
    as_number,
    as_numbers,
    expect,
    expect_choice,
    expect_close,
    expect_parts,
    expect_words,
    question,
)
from uqhelpers.grading._expect import diagnose, outcomes
from uqhelpers.grading._wire import plain

# --- answers ------------------------------------------------------------------------------


def test_the_right_answer_passes_as_array_list_or_tuple():
    for got in (np.array([1.0, 2.0]), [1, 2], plain((1.0, 2.0))):
        expect_close(got, [1, 2])


def test_a_wrong_answer_gets_the_hint_whose_value_it_is():
    with pytest.raises(Failed, match="the square"):
        expect_close([1.0, 4.0], [1, 2], {"the cube": [1, 8], "the square": [1, 4]})


def test_a_hint_may_have_another_shape_or_be_nan():
    with pytest.raises(Failed, match="the mean"):
        expect_close(1.5, [1, 2], {"the mean": 1.5})
    with pytest.raises(Failed, match="zero times infinity"):
        expect_close([np.nan, 1], [0, 1], {"zero times infinity": [np.nan, 1]})


@pytest.mark.parametrize(
    ("got", "message"),
    [
        ([2.0, 4.0], "by the same factor everywhere$"),
        ([4.0, 5.0], "off by the same amount everywhere$"),
        ([1.0, 5.0], "right in some places, and not in others$"),
        ([2.0, 1.0], "the right numbers, in another order$"),
        ([1.0, -2.0], "the size is right, the sign is not everywhere$"),
        ([3.3, 7.1], "not right yet$"),
        ([1.0], "expected an array of shape \\(2,\\), got an array of shape \\(1,\\)"),
        (1.0, "got one number"),
        ([np.nan, 2.0], "NaN or infinite in places$"),
        ("text", "expected numbers, got str"),
        ([[1], [2, 3]], "rows of different lengths"),
        ({"a": 1}, "expected numbers, got dict"),
        ([None, 1], "expected numbers"),
        (None, "still missing"),
    ],
)
def test_another_wrong_answer_is_described(got, message):
    with pytest.raises(Failed, match=message):
        expect_close(got, [1.0, 2.0])


def test_nan_is_never_right():
    with pytest.raises(Failed):
        expect(abs(np.nan - 1) < 1e-6, "no")
    with pytest.raises(Failed):
        expect_close(np.nan, 1.0)


def test_a_choice_says_what_the_other_one_overlooks():
    expect_choice("Too Low ", "too low", {})
    with pytest.raises(Failed, match="because"):
        expect_choice("high", "too low", {"high": "because"})
    with pytest.raises(Failed, match="expected one of 'high', 'too low', got 'up'"):
        expect_choice("up", "too low", {"high": "because"})
    with pytest.raises(Failed, match="expected one of"):
        expect_choice(3, "too low", {})


def test_the_parts_of_an_answer_are_counted():
    assert expect_parts([1, 2], ["a", "b"]) == [1, 2]
    assert len(expect_parts(np.zeros((2, 3)), ["a", "b"])) == 2
    for got in ([1], 3.0, "ab", {"a": 1, "b": 2}, np.array(3.0)):
        with pytest.raises(Failed, match="expected 2 things, a, b"):
            expect_parts(got, ["a", "b"])


def test_points_below_zero_are_refused():
    for points in (-1, {"a": 1, "b": -1}, {}, np.nan):
        with pytest.raises(ValueError, match="points"):
            question("q1", points=points)


def test_texts_are_refused_before_they_take_any_room():
    with pytest.raises(Failed, match="expected numbers, got str"):
        expect_close(["x" * 1_000_000] + ["y"] * 1_000_000, [1.0])


def test_an_answer_can_be_tied_to_the_learners_own_number():
    def own(learner, seed):
        sample = np.random.default_rng(int(as_numbers(learner.value("my_number")))).normal(size=50)
        expect_close(learner.value("my_mean"), sample.mean())

    mean = np.random.default_rng(4711).normal(size=50).mean()
    own(Learner({"my_number": 4711, "my_mean": mean}), 0)
    with pytest.raises(Failed):
        own(Learner({"my_number": 4712, "my_mean": mean}), 0)


# --- known mistakes -----------------------------------------------------------------------------------

VALUES = np.array([[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]])


def energy(heat=2.5, factor=2.5, axis=1):
    return -factor * np.log(np.exp(VALUES / heat).sum(axis=axis))


MISTAKES = {
    "the sign": np.negative,
    "the temperature is multiplied": {"heat": 1 / 2.5},
    "the factor is missing": {"factor": 1},
    "over the inputs": {"axis": 0},
}


def test_a_mistake_is_a_change_of_the_right_computation():
    expect_close(energy(), energy, MISTAKES)
    for text, wrong in {
        "the sign": -energy(),
        "the temperature is multiplied": energy(heat=0.4),
        "over the inputs": energy(axis=0),
    }.items():
        with pytest.raises(Failed, match=f"^{text}$") as caught:
            expect_close(wrong, energy, MISTAKES)
        assert caught.value.mistakes == (text,)


def test_two_mistakes_at_once_are_both_named():
    with pytest.raises(Failed, match=r"^two things: the sign; and the temperature is multiplied$") as caught:
        expect_close(-energy(heat=0.4), energy, MISTAKES)
    assert len(caught.value.mistakes) == 2
    for one, other in itertools.combinations(MISTAKES, 2):
        (value,) = outcomes(energy, [MISTAKES[one], MISTAKES[other]])
        assert diagnose(value, energy, MISTAKES) == (one, other)


def test_two_functions_of_the_outcome_are_tried_in_either_order():
    mistakes = {"the root": np.sqrt, "twice": lambda v: 2 * v}
    for wrong in (2 * np.sqrt([3.0, 5.0]), np.sqrt([6.0, 10.0])):
        assert diagnose(wrong, np.array([3.0, 5.0]), mistakes) == ("the root", "twice")


def test_mistakes_that_exclude_each_other_are_no_pair():
    mistakes = {"hot": {"heat": 10.0}, "cold": {"heat": 0.1}}
    assert list(outcomes(energy, list(mistakes.values()))) == []


def test_two_wrong_outcomes_are_taken_together_by_what_they_add_or_multiply_with():
    want, noise, constant = np.array([3.0, 5.0]), np.array([0.3, 0.7]), 1.8
    mistakes = {"no noise": want - noise, "no constant": want - constant, "in bits": want / np.log(2)}
    assert diagnose(want - noise - constant, want, mistakes) == ("no noise", "no constant")
    assert diagnose((want - noise) / np.log(2), want, mistakes) == ("no noise", "in bits")


def test_one_mistake_is_preferred_to_two_and_nothing_is_made_up():
    mistakes = {"half": lambda v: v / 2, "a quarter": lambda v: v / 4, "half again": lambda v: v / 2}
    assert diagnose(np.array([1.0, 2.0]), np.array([4.0, 8.0]), mistakes) == ("a quarter",)
    assert diagnose(np.array([1.1, 2.0]), np.array([4.0, 8.0]), mistakes) == ()


def test_a_change_of_a_keyword_needs_a_function():
    with pytest.raises(TypeError, match="as a function"):
        expect_close([1.0], [2.0], {"the sign": {"sign": -1}})


def test_a_mistake_that_cannot_be_computed_names_nothing():
    mistakes = {"the inverse": np.linalg.inv, "twice": lambda v: 2 * v}
    with pytest.raises(Failed, match="not right yet"):
        expect_close([[9.0, 1.0], [1.0, 1.0]], np.ones((2, 2)), mistakes)


def judged(sign=1, margin=1.0):
    gaps = sign * np.array([3, -3, 0.5, -0.5])
    return ["up" if gap > margin else "down" if -gap > margin else "flat" for gap in gaps]


def test_lists_of_words_have_known_mistakes_too():
    words, mistakes = ("up", "down", "flat"), {"the sign": {"sign": -1}, "no margin": {"margin": 0}}
    expect_words(judged(), judged, words, mistakes)
    for got, text in (
        (judged(sign=-1), "^the sign$"),
        (judged(sign=-1, margin=0), "^two things: the sign; and no margin$"),
        (["up"] * 4, "not all are judged rightly$"),
        (["up"] * 3, "a list of 4 words"),
        (["left"] * 4, "one of 'up', 'down', 'flat' for each"),
        (1.0, "a list of 4 words"),
    ):
        with pytest.raises(Failed, match=text):
            expect_words(got, judged, words, mistakes)


def test_what_is_said_of_an_unforeseen_answer_holds_no_digit_of_the_right_one():
    rng = np.random.default_rng(0)
    for _ in range(200):
        want = rng.normal(size=rng.integers(1, 5))
        other = rng.normal(size=want.size)
        for got in (want * 1.7, want + 0.3, want + other, -want, want[::-1] * 1.01, want * np.nan):
            with pytest.raises(Failed) as caught:
                expect_close(got, want)
            assert not re.search(r"\d", str(caught.value)), str(caught.value)


def test_one_number_may_come_as_an_array_of_one():
    assert as_number([[3]]) == 3
    assert np.isnan(as_number(np.nan))
    for got in ([1.0, 2.0], "3", []):
        with pytest.raises(Failed, match="expected"):
            as_number(got)
