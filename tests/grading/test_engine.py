"""What a check is made of, and what a learner sees of it."""

import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import uqhelpers.grading as grading
from uqhelpers import metrics
from uqhelpers.grading import _notebooks
from uqhelpers.grading._engine import (
    Failed,
    Learner,
    NotYet,
    Raised,
    Stopped,
    as_numbers,
    expect,
    expect_choice,
    expect_close,
    expect_parts,
    question,
    run_question,
)
from uqhelpers.grading._wire import DEPTH, Network, decode, encode, parse, plain

# --- what is expected ------------------------------------------------------------------------------


def test_the_right_answer_passes_as_array_list_or_tuple():
    for got in (np.array([1.0, 2.0]), [1, 2], plain((1.0, 2.0))):
        expect_close(got, [1, 2])


def test_a_wrong_answer_gets_the_hint_whose_value_it_is():
    with pytest.raises(Failed, match="the square"):
        expect_close([1.0, 4.0], [1, 2], hints={"the cube": [1, 8], "the square": [1, 4]})


def test_a_hint_may_have_another_shape_or_be_nan():
    with pytest.raises(Failed, match="the mean"):
        expect_close(1.5, [1, 2], hints={"the mean": 1.5})
    with pytest.raises(Failed, match="zero times infinity"):
        expect_close([np.nan, 1], [0, 1], hints={"zero times infinity": [np.nan, 1]})


@pytest.mark.parametrize(
    ("got", "message"),
    [
        ([2.0, 4.0], "2 times as large as it should be everywhere"),
        ([4.0, 5.0], "off by 3"),
        ([1.0, 5.0], "largest difference is 3, at \\[1\\]"),
        ([1.0], "expected an array of shape \\(2,\\), got an array of shape \\(1,\\)"),
        (1.0, "got one number"),
        ([np.nan, 2.0], "NaN or infinite in 1 of 2"),
        ("text", "expected numbers, got str"),
        ([[1], [2, 3]], "rows of different lengths"),
        ({"a": 1}, "expected numbers, got dict"),
        ([None, 1], "expected numbers"),
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
    with pytest.raises(ValueError, match="points"):
        question("q1", points=-1)


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


# --- the learner's side -----------------------------------------------------------------------------


def test_a_missing_or_empty_answer_is_not_yet():
    learner = Learner({"f": lambda: None, "g": lambda: ..., "h": ..., "x": None})
    for ask, name in [
        ("call", "f"),
        ("call", "g"),
        ("call", "no"),
        ("value", "h"),
        ("value", "x"),
        ("value", "no"),
    ]:
        with pytest.raises(NotYet):
            getattr(learner, ask)(name)


def test_what_the_learners_code_raises_is_told_with_its_line():
    namespace = {"__name__": "__main__"}
    exec("def f(x):\n    y = 1\n    return x / 0", namespace)
    with pytest.raises(Raised, match=r"ZeroDivisionError.*line 3"):
        Learner(namespace).call("f", 1.0)


def test_the_learner_cannot_change_what_the_check_holds():
    def spoil(x):
        x[:] = 0
        return x

    held = np.ones(3)
    Learner({"f": spoil}).call("f", held)
    assert np.array_equal(held, np.ones(3))


def test_a_forbidden_helper_says_so_under_whatever_name_and_comes_back():
    probs = np.full((2, 3, 4), 0.25)
    alias = metrics.mutual_information
    answers = {
        "by_module": lambda p: metrics.mutual_information(p),
        "by_import": eval("lambda p: mine(p)", namespace := {"mine": alias}),
        "by_submodule": lambda p: metrics.decomposition.mutual_information(p),
    }
    namespace |= answers
    learner = Learner(namespace)
    learner.forbids = ("metrics.mutual_information",)
    for name in answers:
        with pytest.raises(Raised, match="write this one yourself"):
            learner.call(name, probs)
    assert metrics.mutual_information is alias
    assert namespace["mine"] is alias
    learner.forbids = ()
    assert np.allclose(learner.call("by_module", probs), 0)


def test_a_forbidden_helper_that_the_answer_itself_loads_is_found_too():
    asked = """
import subprocess
import sys
from uqhelpers.grading._engine import Learner, Raised

def f(x):
    from uqhelpers import calibration
    return calibration.brier_decomposition([[0.5, 0.5]] * 2, [0, 1]).resolution

for answer, loads in ((lambda x: x, False), (f, True)):
    learner = Learner({"f": answer})
    learner.forbids = ("calibration.brier_decomposition",)
    try:
        print(learner.call("f", 1))
    except Raised as error:
        print(error)
    assert ("uqhelpers.calibration" in sys.modules) is loads
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "1"
    assert second.startswith("write this one yourself")


def test_a_question_stops_after_an_answer_that_ran_out_of_time():
    asked = []

    def slow(learner, seed):
        asked.append(1)
        raise Stopped("too long")

    checks = [question("q1", points=p)(lambda learner, seed, f=slow: f(learner, seed)) for p in (1, 2)]
    results = run_question(checks, SimpleNamespace(forbids=()), 0)
    assert [r.status for r in results] == ["failed", "not run"]
    assert len(asked) == 1


def test_a_check_that_cannot_read_an_answer_fails_it():
    @question("q1", points=1)
    def trips(learner, seed):
        return {}["no"]

    (result,) = run_question([trips], SimpleNamespace(forbids=()), 0)
    assert (result.status, result.earned) == ("failed", 0)


# --- plain data ---------------------------------------------------------------------------------------

VALUES = [None, True, 3, -2.5, "text", [1, [2.0]], {"a": [1]}, np.arange(6.0).reshape(2, 3), np.array(True)]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_plain_data_crosses_unchanged(value):
    import json

    back = decode(json.loads(json.dumps(encode(plain(value)))))
    assert type(back) is type(value)
    np.testing.assert_equal(back, value)


def test_tensors_and_numpy_numbers_become_plain():
    from uqhelpers._torch import torch

    assert plain(np.float32(0.5)) == 0.5
    assert type(plain(np.int64(3))) is int
    assert plain(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    assert plain(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array(["a"]), np.array([None]), 1j, b"x", lambda: 1])
def test_nothing_else_is_plain(value):
    with pytest.raises(TypeError):
        plain(value)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "message",
    [
        {"v": 2**64},
        {"v": [1]},
        {"v": 1, "l": []},
        {"o": 1},
        {},
        [],
        "v",
        {"l": {"v": 1}},
        {"a": ["<f8", [2], "AAAA"]},
        {"a": ["<f8", [-1], ""]},
        {"a": ["<f8", [10**9, 10**9], ""]},
        {"a": ["|O8", [1], "AAAAAAAAAAA="]},
        {"a": ["<f8", "2", ""]},
        {"a": [["<f8"], [0], ""]},
        {"a": ["<f8", [1], "not base64!"]},
        {"a": ["<f8", [True], ""]},
        {"n": []},
        encode(nested(DEPTH + 1)),
    ],
    ids=str,
)
def test_a_malformed_answer_is_refused(message):
    with pytest.raises(ValueError):  # noqa: PT011
        decode(message)


@pytest.mark.parametrize("line", [b"", b"[]", b"3", b"{", b"\xff", b"[" * 100_000, b"9" * 10_000])
def test_a_line_that_is_no_object_is_refused(line):
    with pytest.raises(ValueError, match="not a"):
        parse(line)


def test_a_network_computes_alike_on_both_sides():
    rng = np.random.default_rng(0)
    first, last = rng.normal(size=(5, 3)), rng.normal(size=(2, 5))
    normal = ("batchnorm", rng.normal(size=5), np.full(5, 2.0))
    net = Network(
        (("linear", first, np.ones(5)), normal, ("relu",), ("dropout", 0.5), ("linear", last, np.zeros(2)))
    )
    from uqhelpers._torch import torch

    inputs = rng.normal(size=(4, 3))
    built = decode(encode(net), build=True)
    assert np.allclose(built(torch.tensor(inputs)).detach().numpy(), net(inputs))
    with pytest.raises(ValueError, match="layers"):
        Network((("attention",),)).build()


# --- what shows ----------------------------------------------------------------------------------------


def test_check_answers_quickly_and_says_not_yet_for_an_empty_notebook():
    began = time.perf_counter()
    feedback = grading.check("uncertainty", "q1", namespace={})
    assert time.perf_counter() - began < 1
    assert "not yet" in repr(feedback)
    assert 'hint("uncertainty", "q1")' in repr(feedback)


def test_score_adds_up_what_is_right():
    namespace = {}
    exec("import numpy as np\ndef best_prediction(weights, probs):\n    return weights @ probs", namespace)
    assert "1 of 19 points so far" in repr(grading.score("uncertainty", namespace))


def test_a_hint_costs_nothing_and_a_manual_question_shows_its_criteria():
    assert "kept" in repr(grading.hint("mc_dropout", "q1"))
    assert "instructor" in repr(grading.check("mc_dropout", "q8", {}))
    assert repr(grading.hint("mc_dropout", "q8"))


def test_feedback_is_escaped_in_html():
    namespace = {}
    exec("def entropy(p):\n    raise ValueError('<script>alert(1)</script>')", namespace)
    shown = grading.check("uncertainty", "q1", namespace)._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("no_such", "q1"), "stem: expected one of"), (("../x", "q1"), "stem"), ((3, "q1"), "stem"),
     (("uncertainty", "q99"), "question: expected one of q1")],
)  # fmt: skip
def test_a_name_that_does_not_exist_is_told_which_do(arguments, message):
    with pytest.raises(ValueError, match=message):
        grading.check(*arguments)


def test_the_checks_work_without_ipython_and_without_torch():
    code = (
        "import sys, uqhelpers.grading as g\n"
        "def entropy(p): return p.sum(-1)\n"
        "print(g.check('uncertainty', 'q1'))\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "not yet right" in done.stdout, done.stderr


# --- notebooks -------------------------------------------------------------------------------------------


def cell(source, *tags, kind="code", **metadata):
    return {"cell_type": kind, "id": "x", "source": source, "metadata": {"tags": list(tags), **metadata}}


MARKED = """def f():
    # BEGIN SOLUTION
    return 1
    # END SOLUTION

# BEGIN SOLUTION: a = ...
a = 1
# END SOLUTION"""


def test_what_lies_between_the_markers_becomes_a_stub():
    wrong = cell("# hint: y\n1", "wrong-answer", kind="raw", question="q1")
    text = cell("because", "solution", kind="markdown")
    master = {"cells": [cell(MARKED, "solution"), cell("x", "instructor"), wrong, text]}
    cells = _notebooks.learners_version(master)["cells"]
    assert _notebooks.source_of(cells[0]) == "def f():\n    # your code here\n    ...\n\na = ..."
    assert "because" not in _notebooks.source_of(cells[1])
    assert len(cells) == 2
    assert len(_notebooks.solved_version(master)["cells"]) == 2
    assert _notebooks.wrong_answers(master) == [("q1", "y", "# hint: y\n1")]


@pytest.mark.parametrize(
    "bad",
    [
        cell("# BEGIN SOLUTION\nx = 1", "solution"),
        cell("x = 1", "solution"),
        cell("# BEGIN SOLUTION\nx = 1\n# END SOLUTION"),
        cell("# BEGIN SOLUTION\n# END SOLUTION\n# END SOLUTION", "solution"),
    ],
)
def test_unbalanced_markers_are_refused(bad):
    with pytest.raises(ValueError, match="solution"):
        _notebooks.learners_version({"cells": [bad]})


def test_a_wrong_answer_without_a_hint_is_refused():
    with pytest.raises(ValueError, match="wrong-answer"):
        _notebooks.wrong_answers({"cells": [cell("1", "wrong-answer", question="q1")]})


def test_the_solution_comes_after_a_try(tmp_path, monkeypatch, capsys):
    import io

    from uqhelpers.grading.__main__ import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert main(["solution", "mc_dropout"]) == 0
    assert "Then try first" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert main(["solution", "mc_dropout", "--yes", "--question", "q2"]) == 0
    assert "inputs**2" in capsys.readouterr().out
    assert main(["solution", "mc_dropout", "--yes"]) == 0
    assert (tmp_path / "mc_dropout_solution.ipynb").exists()
    assert main(["solution", "mc_dropout", "--yes"]) == 1  # never over a learner's file
    assert main(["solution", "no_such", "--yes"]) == 1
    assert "expected one of" in capsys.readouterr().err
