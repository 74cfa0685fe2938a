"""No point without the work: constants, NaN, the first answer again, and the package's own pieces."""

import ast
import functools
import importlib
import inspect
import itertools
import pkgutil
import re
import subprocess
import sys

import numpy as np
import pytest

import uqhelpers
from tests.grading.test_exercises import QUESTIONS, solved, unanswered  # noqa: F401
from uqhelpers.grading._engine import (
    LEARNERS_SEED,
    Learner,
    checks_by_question,
    forbidden,
    load_checks,
    run_question,
    stems,
)
from uqhelpers.grading._expect import NotYet, Raised, diagnose, outcomes
from uqhelpers.grading._sandbox import copy_package
from uqhelpers.grading._wire import plain

SEED = 2**40 + 7
CONSTANTS = [0, 1, -1, 0.5, 2, 1e-12, 1e300, np.nan, np.inf, -np.inf, True]
STRANGE = ["", "nan", [], {}, [[]], [None, None], np.zeros(0), np.zeros((1, 1, 1)), [1, [2, 3]], {"a": 1}]


class Cheat:
    """Answers by ``rule(name, args, number of the call)``; a variable is no call and stays unanswered."""

    forbids = ()

    def __init__(self, rule):
        self.rule, self.calls = rule, 0

    def call(self, name, *args):
        self.calls += 1
        answer = self.rule(name, args, self.calls - 1)
        if answer is None:
            raise NotYet("nothing")
        return plain(answer)

    def value(self, name):
        raise NotYet("nothing")


def asked_of(checks, namespace, seed):
    """The calls that the checks make, with the right answers."""
    seen, learner = [], Learner(namespace)

    def rule(name, args, number):
        answer = learner.call(name, *args)
        seen.append((name, args, answer))
        return answer

    run_question(checks, Cheat(rule), seed)
    return seen


def filled(answer, constant):
    """The same shapes and parts, with one number in all places."""
    if type(answer) is list:
        return [filled(one, constant) for one in answer]
    if type(answer) is np.ndarray:
        return np.full(answer.shape, constant, dtype=np.float64)
    return str(constant) if type(answer) is str else constant


def points(checks, rule, seed=SEED):
    with np.errstate(all="ignore"):
        return sum(result.earned for result in run_question(checks, Cheat(rule), seed))


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
def test_constants_zeros_nan_and_infinities_earn_nothing(stem, name, solved):  # noqa: F811
    checks = checks_by_question(load_checks(stem))[name]
    seen = asked_of(checks, solved[stem], SEED)
    right = {called: answer for called, _, answer in seen if type(answer) is not str}
    for constant in CONSTANTS:
        assert points(checks, lambda called, args, i, c=constant: c) == 0, constant
        assert points(checks, lambda called, args, i, c=constant: filled(right.get(called), c)) == 0, constant
    for thing in STRANGE:
        assert points(checks, lambda called, args, i, t=thing: t) == 0, thing


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
def test_a_number_for_each_call_earns_nothing(stem, name, solved):  # noqa: F811
    checks = checks_by_question(load_checks(stem))[name]
    seen = asked_of(checks, solved[stem], SEED)
    if not any(type(answer) in (int, float) for *_, answer in seen):
        return  # arrays are asked for: numbers have the wrong shape
    for numbers in itertools.product([0, 0.2, 0.5, 1, np.nan], repeat=min(len(seen), 3)):
        assert points(checks, lambda called, args, i, n=numbers: n[i % len(n)] if n else None) == 0, numbers


# Where an argument is the answer, which one is the question: the estimate along the path is the slope.
AN_ARGUMENT = {("variational_inference", "q7")}


@pytest.mark.parametrize(("stem", "name"), sorted(set(QUESTIONS) - AN_ARGUMENT))
def test_the_arguments_handed_back_earn_nothing(stem, name):
    checks = checks_by_question(load_checks(stem))[name]
    for k in range(6):
        for what in (lambda x: x, np.mean, np.zeros_like, lambda x: [x, x], lambda x: [x, x, x]):

            def rule(called, args, number, k=k, what=what):
                try:
                    return what(args[k])
                except Exception as error:
                    raise Raised(str(error)) from error

            assert points(checks, rule) == 0, (k, what)


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
def test_the_first_answer_again_earns_nothing(stem, name, solved):  # noqa: F811
    checks = checks_by_question(load_checks(stem))[name]
    typed = [answer for *_, answer in asked_of(checks, solved[stem], LEARNERS_SEED)]
    if typed:
        assert points(checks, lambda called, args, i: typed[i % len(typed)]) == 0


@functools.cache
def pieces():
    """Functions of the package that its users do not see."""
    found = {}
    for module in pkgutil.walk_packages(uqhelpers.__path__, "uqhelpers."):
        if set(module.name.split(".")) & {
            "grading",
            "plots",
            "data",
            "_checks",
            "_torch",
            "_progress",
            "training",
        }:
            continue
        for name, member in vars(importlib.import_module(module.name)).items():
            own = getattr(member, "__module__", "") == module.name
            private = "._" in module.name or name.startswith("_")
            if own and inspect.isfunction(member) and private:
                found[f"{module.name}.{name}"] = member
    return found


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
def test_the_packages_own_pieces_earn_nothing(stem, name, solved):  # noqa: F811
    checks = checks_by_question(load_checks(stem))[name]
    called = {called: len(args) for called, args, _ in asked_of(checks, solved[stem], SEED)}
    most = max(called.values(), default=0)
    for path, piece in pieces().items():
        if not any(takes(piece, number) for number in called.values()):
            continue
        near = f".{stem}." in path + "." and most <= 3
        for order in itertools.permutations(range(most)) if near else [range(most)]:
            results = run_question(checks, Learner(held(piece, order, called)), SEED)
            assert sum(result.earned for result in results) == 0, (path, order)


def takes(piece, number):
    """Whether a function can be called with so many arguments, or with fewer of them."""
    needed = [p for p in inspect.signature(piece).parameters.values() if p.default is p.empty]
    return len([p for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]) <= number


def held(piece, order, called):
    """A notebook in which a piece of the package stands in for every function asked for."""
    namespace = {"piece": piece, "order": tuple(order)}
    for one in called:
        namespace[one] = eval("lambda *args: piece(*[args[i] for i in order if i < len(args)])", namespace)
    return namespace


# --- what is said, and who reads answers ---------------------------------------------------------------

READERS = {"as_number", "as_numbers", "expect_choice", "expect_close", "expect_parts", "expect_words"}


class Readers(ast.NodeVisitor):
    """Whatever a check does with a learner's answer besides handing it to `READERS`."""

    def __init__(self, tree):
        self.tainted, self.wrong = set(), []
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for _ in range(3):  # until nothing new is found: names that are given on
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign) and self.holds(node.value):
                    self.taint(*node.targets)
                if isinstance(node, (ast.For, ast.comprehension)):
                    zipped = getattr(getattr(node.iter, "func", None), "id", "") == "zip"
                    if zipped and isinstance(node.target, ast.Tuple):
                        pairs = zip(node.target.elts, node.iter.args, strict=True)
                        self.taint(*(target for target, one in pairs if self.holds(one)))
                    elif self.holds(node.iter):
                        self.taint(node.target)
        for node in ast.walk(tree):
            held = isinstance(node, ast.Name) and node.id in self.tainted and isinstance(node.ctx, ast.Load)
            if held or (isinstance(node, ast.Call) and self.asks(node)):
                self.look(node)

    def taint(self, *targets):
        self.tainted.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))

    @staticmethod
    def asks(node):
        return (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "learner"
        )

    def holds(self, node):
        """Whether a value is an answer, or holds some, that nobody has read yet."""
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", "")
            if self.asks(node) or name == "expect_parts":
                return True
            return name == "zip" and any(self.holds(one) for one in node.args)
        if isinstance(node, ast.Name):
            return node.id in self.tainted
        if isinstance(node, ast.Subscript):
            return self.holds(node.value)
        if isinstance(node, ast.ListComp):
            return self.holds(node.elt)
        return isinstance(node, (ast.List, ast.Tuple)) and any(self.holds(one) for one in node.elts)

    def look(self, node):
        parent = self.parents[node]
        while isinstance(parent, (ast.Subscript, ast.ListComp, ast.keyword)) and parent is not node:
            node, parent = parent, self.parents[parent]
        if isinstance(parent, ast.Call):
            name = getattr(parent.func, "id", getattr(parent.func, "attr", ""))
            fine = name in READERS or name == "zip"
        else:
            fine = isinstance(parent, (ast.Assign, ast.comprehension, ast.For, ast.withitem))
        if not fine:
            self.wrong.append(ast.unparse(parent))


@pytest.mark.parametrize("stem", stems())
def test_only_what_is_made_for_it_touches_answers(stem):
    tree = ast.parse(inspect.getsource(load_checks(stem)))
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        if any(argument.arg == "learner" for argument in function.args.args):
            assert Readers(function).wrong == [], function.name


def test_what_touches_an_answer_by_itself_is_found():
    for line in (
        "np.ndim(got)",
        "float(got)",
        "got[0] + 1",
        "[str(word) for word in got]",
        "got == 'a'",
        "f'{got}'",
    ):
        tree = ast.parse(f"def check(learner, seed):\n    got = learner.call('f', 1)\n    {line}")
        assert Readers(tree.body[0]).wrong, line


@pytest.mark.parametrize("stem", stems())
def test_what_is_said_holds_no_digit_that_a_seed_decides(stem, solved):  # noqa: F811
    rng = np.random.default_rng(0)
    wrongs = [
        lambda a: filled(a, 0.3),
        lambda a: filled(a, np.nan),
        lambda a: shaken(a, 1.1),
        lambda a: shaken(a, 3),
    ]
    wrongs += [lambda a: shaken(a, rng.uniform(0.5, 2))]
    for checks in checks_by_question(load_checks(stem)).values():
        for wrong in wrongs:
            said = {}
            for seed in range(6):
                learner = Learner(solved[stem])
                rule = lambda name, args, i, ask=learner, wrong=wrong: wrong(ask.call(name, *args))  # noqa: E731
                for result in run_question(checks, Cheat(rule), seed):
                    said.setdefault(re.sub(r"\d", "#", result.message), set()).add(result.message)
            assert all(len(same) == 1 for same in said.values()), said


def shaken(answer, factor):
    """Numbers times a factor."""
    if type(answer) is list:
        return [shaken(one, factor) for one in answer]
    return answer * factor if type(answer) in (int, float, np.ndarray) else answer


# --- two known mistakes at once ------------------------------------------------------------------------


def expectations(stem, namespace, seed, monkeypatch):
    """All that a solution is compared with: question, right answer, mistakes, tolerances."""
    module, seen = load_checks(stem), []
    for name, make in (("expect_close", None), ("expect_words", list)):
        original = getattr(module, name, None)
        if original is None:
            continue

        def watch(*args, original=original, make=make, **keywords):
            bound = inspect.signature(original).bind(*args, **keywords)
            bound.apply_defaults()
            seen.append((current[0], make, bound.arguments))
            return original(*args, **keywords)

        monkeypatch.setattr(module, name, watch)
    for question, checks in checks_by_question(module).items():
        current = [question]
        run_question(checks, Learner(namespace), seed)
    monkeypatch.undo()
    return seen


def pairs_named(stem, namespace, seed, monkeypatch):
    """How many pairs of known mistakes show in the answer, and how many of these are named.

    A mistake that changes nothing where the other one was made cannot be seen, and is no pair.
    """
    found = {}
    for question, make, given in expectations(stem, namespace, seed, monkeypatch):
        right, mistakes = given["right"], given["mistakes"] or {}
        limits = (given.get("rtol", 1e-6), given.get("atol", 1e-9), make)
        for one, other in itertools.combinations(mistakes, 2):
            for value in outcomes(right, [mistakes[one], mistakes[other]], make):
                singles = [w for text in (one, other) for w in outcomes(right, [mistakes[text]], make)]
                if any(same(value, single, *limits[:2]) for single in singles):
                    continue
                named = diagnose(value, right, mistakes, *limits)
                tried, right_ones = found.get(question, (0, 0))
                found[question] = tried + 1, right_ones + (set(named) == {one, other})
    return found


def same(one, other, rtol, atol):
    """Whether two outcomes are equal, or say nothing."""
    if type(one) is list:
        return one == other
    if not np.isfinite(one).all():
        return True
    return one.shape == other.shape and np.allclose(one, other, rtol=rtol, atol=atol)


@pytest.mark.parametrize("stem", stems())
def test_two_known_mistakes_at_once_are_both_named(stem, solved, monkeypatch, record_property):  # noqa: F811
    found = pairs_named(stem, solved[stem], SEED, monkeypatch)
    tried, named = (sum(column) for column in zip(*found.values(), strict=True))
    record_property("pairs", f"{named} of {tried}")
    print(f"{stem}: {named} of {tried} pairs named ({named / tried:.1%})", found)
    assert named >= 0.9 * tried, {question: both for question, both in found.items() if both[0] > both[1]}


def test_the_package_without_what_is_forbidden_still_loads(tmp_path):
    copy_package(tmp_path, sorted({name for stem in stems() for name in forbidden(load_checks(stem))}))
    modules = [m.name for m in pkgutil.iter_modules(uqhelpers.__path__) if m.name != "grading"]
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom uqhelpers import {', '.join(modules)}"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
