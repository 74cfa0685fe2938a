"""What a check is made of, and what a learner sees of it."""

import importlib
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import uqhelpers.grading as grading
from uqhelpers import metrics
from uqhelpers.grading import _forbidden, _notebooks
from uqhelpers.grading._engine import (
    Learner,
    NotYet,
    Raised,
    Stopped,
    expect_close,
    expect_parts,
    part,
    points_in_words,
    question,
    run_question,
)
from uqhelpers.grading._wire import DEPTH, Network, decode, encode, parse, plain

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


# --- the parts of a question ----------------------------------------------------------------------------


@question("q1", points={"the sum": 2, "the product": 1})
def two_things(learner, seed):
    for x in (2.0, 3.0):
        got = expect_parts(learner.call("f", x), ["the sum", "the product"])
        with part("the sum"):
            expect_close(got[0], x + x)
        with part("the product"):
            expect_close(got[1], x * x, {"the sum once more": x + x})


@pytest.mark.parametrize(
    ("answer", "earned"),
    [
        (lambda x: (x + x, x * x), [2, 1]),
        (lambda x: (x + x, 0.0), [2, 0]),
        (lambda x: (None, x * x), [0, 1]),
        (lambda x: (..., x * x), [0, 1]),
        (lambda x: (4.0, x * x), [0, 1]),
        (lambda x: (x + x, x * x) if x < 3 else None, [0, 0]),
        (lambda x: (x + x, x * x) if x < 3 else 1 / 0, [0, 0]),
        (lambda x: (x + x, x * x, 1), [0, 0]),
        (lambda x: None, [0, 0]),
    ],
)
def test_a_right_half_earns_its_half_and_what_is_common_costs_both(answer, earned):
    results = run_question([two_things], Learner({"f": answer}), 0)
    assert [result.earned for result in results] == earned
    assert [result.check for result in results] == ["the sum", "the product"]


def test_an_answer_that_leaves_a_part_open_is_not_yet_there():
    results = run_question([two_things], Learner({"f": lambda x: (..., x * x)}), 0)
    assert [result.status for result in results] == ["not yet", "passed"]


def test_a_result_says_which_mistakes_it_looks_like_and_what_was_asked_for():
    results = run_question([two_things], Learner({"f": lambda x: (x + x, x + x)}), 0)
    assert results[1].mistakes == ("the sum once more",)
    assert results[0].mistakes == ()
    assert results[0].asked == ("f",)


def test_a_part_that_the_check_never_reaches_earns_nothing():
    @question("q1", points={"first": 1, "second": 1})
    def forgets(learner, seed):
        with part("first"):
            pass

    assert [result.earned for result in run_question([forgets], Learner({}), 0)] == [1, 0]


def test_a_part_that_was_not_announced_is_an_error():
    @question("q1", points={"first": 1, "second": 1})
    def misspelt(learner, seed):
        with part("frist"):
            pass

    results = run_question([misspelt], Learner({}), 0)
    assert sum(result.earned for result in results) == 0
    assert "expected one of first, second, got 'frist'" in results[0].message


def test_an_answer_stopped_in_one_part_keeps_the_parts_before_it():
    @question("q1", points={"first": 1, "second": 1, "third": 1})
    def slow(learner, seed):
        with part("first"):
            pass
        with part("second"):
            raise Stopped("too long")
        with part("third"):
            pass

    results = run_question([slow], Learner({}), 0)
    assert [result.earned for result in results] == [1, 0, 0]


def test_the_points_of_parts_are_said_in_words():
    assert points_in_words([two_things]) == "2 points for the sum, 1 for the product"
    assert points_in_words([question("q2", points=3)(lambda learner, seed: None)]) == ""


# --- what is forbidden --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("helper", "called"),
    [
        ("bayesian_linear_regression.BayesianLinearRegression", "combine"),
        ("evidential.evidential_loss", "_kl"),
        ("variational_inference.kl_of", "kl_of_layers"),
        ("variational_inference.kl_of", "_GaussianKL"),
        ("odin.perturb", "_Settings"),
        ("dropout.forward_passes", "_full_passes"),
        ("metrics.eaurc", "_groups"),
        ("calibration.brier_decomposition", "_murphy"),
        ("metrics.predictive_entropy", "_entropy"),
    ],
)
def test_what_is_forbidden_is_followed_to_what_it_calls(helper, called):
    found = _forbidden.followed(helper)
    assert called in [name for _, name in found]
    for module, name in found:
        assert hasattr(importlib.import_module(f"uqhelpers.{module}"), name)


def test_what_only_reads_arguments_is_not_forbidden():
    names = [name for _, name in _forbidden.followed("evidential.vacuity")]
    assert names == ["vacuity"]
    for helper in ("metrics.aurc", "deep_ensembles.mixture_nll", "ddu.GaussianFeatureDensity"):
        assert not any("_checks" in module for module, _ in _forbidden.followed(helper))


def test_a_private_piece_of_a_forbidden_helper_is_refused_wherever_it_lies():
    from uqhelpers.bayesian_linear_regression import triangle as module

    piece = module.combine
    namespace = {"mine": piece, "f": lambda: module.combine()}
    namespace["g"] = eval("lambda: mine()", namespace)
    learner = Learner(namespace)
    learner.forbids = ("bayesian_linear_regression.BayesianLinearRegression",)
    for name in "fg":
        with pytest.raises(Raised, match="write this one yourself: `bayesian"):
            learner.call(name)
    assert module.combine is piece


def test_a_misspelt_helper_is_refused():
    for name in ("metrics.mutual_infomation", "no_such.thing", "metrics", "evidential.__all__"):
        with pytest.raises(ValueError, match="forbids: expected a function"):
            _forbidden.followed(name)


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
    answer = "def regret(mean, epistemic, q):\n    return epistemic + ((mean - q) ** 2).sum()"
    exec(f"{answer}\ndef squared(weights, probs):\n    return 0.0, 0.0, 0.0", namespace)
    assert "1 of 18 points so far" in repr(grading.score("uncertainty", namespace))


def test_a_hint_costs_nothing_and_a_manual_question_shows_its_criteria():
    assert "kept" in repr(grading.hint("mc_dropout", "q1"))
    assert "instructor" in repr(grading.check("mc_dropout", "q9", {}))
    assert repr(grading.hint("mc_dropout", "q9"))


def test_feedback_is_escaped_in_html():
    namespace = {}
    exec("def together(weights, probs):\n    raise ValueError('<script>alert(1)</script>')", namespace)
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
        "def together(weights, probs): return probs.sum()\n"
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
    assert "one_mask" in capsys.readouterr().out
    assert main(["solution", "mc_dropout", "--yes"]) == 0
    assert (tmp_path / "mc_dropout_solution.ipynb").exists()
    assert main(["solution", "mc_dropout", "--yes"]) == 1  # never over a learner's file
    assert main(["solution", "no_such", "--yes"]) == 1
    assert "expected one of" in capsys.readouterr().err
