"""No point without the work: constants, NaN, the first answer again, and the package's own pieces."""

import functools
import importlib
import inspect
import itertools
import pkgutil

import numpy as np
import pytest

import uqhelpers
from tests.grading.test_exercises import QUESTIONS, solved, unanswered  # noqa: F401
from uqhelpers.grading._engine import LEARNERS_SEED, Learner, checks_by_question, load_checks, run_question
from uqhelpers.grading._expect import NotYet, Raised
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
    calls = len(asked_of(checks, solved[stem], SEED))
    for numbers in itertools.product([0, 0.2, 0.5, 1, np.nan], repeat=min(calls, 3)):
        assert points(checks, lambda called, args, i, n=numbers: n[i % len(n)] if n else None) == 0, numbers


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
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
