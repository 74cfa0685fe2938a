"""What a check is made of: questions, the learner's side, expectations, results.

A check is an ordinary function ``check(learner, seed)`` that asks the learner's
functions for answers and says what it expects. The same function serves the
learner, in the notebook, and the batch grader, which hands it a learner that
lives in a sandbox.
"""

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ._expect import (
    Failed,
    NotYet,
    Raised,
    Stopped,
    as_number,
    as_numbers,
    expect,
    expect_choice,
    expect_close,
    expect_parts,
    expect_words,
    judged,
    part,
)
from ._forbidden import WriteItYourself, helpers_forbidden, is_loaded
from ._wire import Network, plain

__all__ = [
    "Failed",
    "Learner",
    "Manual",
    "NotYet",
    "Raised",
    "Result",
    "Stopped",
    "as_number",
    "as_numbers",
    "checks_by_question",
    "expect",
    "expect_choice",
    "expect_close",
    "expect_parts",
    "expect_words",
    "forbidden",
    "load_checks",
    "manual",
    "manual_questions",
    "part",
    "points_in_words",
    "question",
    "run_question",
    "stems",
]

LEARNERS_SEED = 1  # what the notebook's own check draws with; the grader's seed is fresh and secret
WHOLE = "the answer"  # what the only part of a question is called
STEM = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True)
class Mark:
    """What `question` notes on a check.

    Attributes
    ----------
    name : str
        The question.
    parts : dict
        The points of each part, by its name.
    hint : str
        Free.
    forbids : tuple of str
    read : str
        The heading in the chapter under which it is explained.
    """

    name: str
    parts: Mapping
    hint: str
    forbids: tuple
    read: str

    @property
    def points(self):
        return sum(self.parts.values())


@dataclass(frozen=True)
class Manual:
    """A question that a person grades: criteria with their points."""

    name: str
    prompt: str
    criteria: dict

    @property
    def points(self):
        return sum(self.criteria.values())


@dataclass(frozen=True)
class Result:
    """What came of one part of a question.

    Attributes
    ----------
    question, check : str
        The question, and the part's name.
    points, earned : float
    status : str
        passed, failed, not yet, or not run.
    message : str
        What is wrong; of a part that passed, what is true.
    mistakes : tuple of str
        The known mistakes that the answer looks like.
    asked : tuple of str
        The learner's names that were asked for.
    computed : bool
        Whether numbers came that could be compared.
    """

    question: str
    check: str
    points: float
    earned: float
    status: str
    message: str
    mistakes: tuple = ()
    asked: tuple = ()
    computed: bool = False


def question(name, points=1, *, hint="", forbids=(), read=""):
    """Mark a check: the question it belongs to and what it is worth.

    Parameters
    ----------
    name : str
        Such as ``"q3"``. A question may have several checks; its points add up.
    points : float or dict
        At least 0. A dictionary gives the points of each part by its name, such
        as ``{"the mean": 2, "the covariance": 1}``; the check then judges each
        in ``with part("the mean"):``. The names are read before the answer is
        given, so they say what is asked and not what is right.
    hint : str
        What ``hint(stem, name)`` shows. It costs nothing.
    forbids : sequence of str
        Helpers the learner is to write, such as ``"metrics.mutual_information"``.
        Calling one in the answer, or what of the package's own it calls, says
        "write this one yourself".
    read : str
        The heading of the chapter's section to read again.
    """
    by_part = isinstance(points, Mapping)
    values = list(points.values()) if by_part else [points]
    if not values or not all(value >= 0 for value in values):
        raise ValueError(f"points: expected numbers of at least 0, got {points!r}")

    def mark(check):
        parts = dict(points) if by_part else {WHOLE: points}
        check.mark = Mark(name, parts, hint, tuple(forbids), read)
        return check

    return mark


def points_in_words(checks):
    """What each part of a question is worth, as its text says it; empty if it has one part."""
    parts = {name: value for check in checks for name, value in check.mark.parts.items()}
    if len(parts) < 2:
        return ""
    (first, value), *rest = parts.items()
    listed = [f"{value:g} point{'s' if value != 1 else ''} for {first}"]
    return ", ".join(listed + [f"{value:g} for {name}" for name, value in rest])


def manual(name, prompt, criteria):
    """A question graded by a person: ``criteria`` maps what is looked for to its points."""
    return Manual(name, prompt, dict(criteria))


def title(check):
    """A check's name as a sentence."""
    return check.__name__.replace("_", " ")


def load_checks(stem, path=None):
    """The module of checks for an exercise.

    Parameters
    ----------
    stem : str
        Such as ``"mc_dropout"``.
    path : path, optional
        A file of checks of one's own; default is the one in this package.

    Raises
    ------
    ValueError
        If there is no such exercise; the message names those there are.
    """
    if path is not None:
        name = "_checks_" + hashlib.sha256(str(Path(path).resolve()).encode()).hexdigest()[:12]
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[name] = module
        return sys.modules[name]
    if not isinstance(stem, str) or stem not in stems():
        raise ValueError(f"stem: expected one of {', '.join(stems()) or 'none yet'}, got {stem!r}")
    return importlib.import_module(f"uqhelpers.grading.checks.{stem}")


def stems():
    """The exercises there are."""
    folder = Path(__file__).parent / "checks"
    return sorted(path.stem for path in folder.glob("*.py") if STEM.match(path.stem))


def checks_by_question(module):
    """The module's checks, grouped by question, in the order in which they are written."""
    groups = {}
    for member in vars(module).values():
        if inspect.isfunction(member) and hasattr(member, "mark") and member.__module__ == module.__name__:
            groups.setdefault(member.mark.name, []).append(member)
    return groups


def manual_questions(module):
    """The module's questions for a person, by name."""
    return {member.name: member for member in vars(module).values() if isinstance(member, Manual)}


def forbidden(module):
    """Every helper that any question of the module forbids, sorted."""
    return sorted(
        {name for checks in checks_by_question(module).values() for c in checks for name in c.mark.forbids}
    )


class Learner:
    """The learner's own notebook: its functions and values, by name.

    Parameters
    ----------
    namespace : dict
        The notebook's variables.
    """

    def __init__(self, namespace):
        self.namespace = namespace
        self.forbids = ()

    def call(self, name, *args):
        """What the learner's function answers, as plain data.

        Raises
        ------
        NotYet
            If there is no such function, or it returns nothing.
        Raised
            If it raises, or returns something that is not plain.
        """
        function = self.namespace.get(name, ...)
        if function is ...:
            raise NotYet(f"`{name}` is not defined yet: run its cell first")
        if not callable(function):
            raise NotYet(f"`{name}` is not a function")
        not_loaded = [helper for helper in self.forbids if not is_loaded(helper)]
        answer = self._ask(function, args)
        if any(map(is_loaded, not_loaded)):
            # The answer loaded a helper that was not to be had: ask again without it.
            answer = self._ask(function, args)
        return self._plain(name, answer, "returns")

    def _ask(self, function, args):
        """What the function returns for arguments of its own, which it may change."""
        own = [
            arg.build() if isinstance(arg, Network) else arg.copy() if hasattr(arg, "copy") else arg
            for arg in args
        ]
        try:
            with helpers_forbidden(self.forbids, self.namespace):
                return function(*own)
        except Exception as error:
            raise Raised(describe(error)) from error

    def value(self, name):
        """The learner's variable, as plain data; `NotYet` if it is not set."""
        return self._plain(name, self.namespace.get(name, ...), "is")

    def _plain(self, name, answer, verb):
        if answer is ... or answer is None:
            raise NotYet(f"`{name}` {verb} nothing yet" if verb == "returns" else f"`{name}` is not set yet")
        try:
            return plain(answer)
        except Exception as error:
            raise Raised(f"`{name}` {verb} something that cannot be read: {error}") from error


def describe(error):
    """One line on what the learner's code raised, and in which line of it."""
    if isinstance(error, WriteItYourself):
        return str(error)
    text = f"your code raised {type(error).__name__}: {str(error)[:300]}"
    trace, line = error.__traceback__, None
    while trace is not None:  # the last frame that is the learner's own
        if trace.tb_frame.f_globals.get("__name__") == "__main__":
            line = trace.tb_lineno
        trace = trace.tb_next
    return text if line is None else f"{text} (line {line} of its cell)"


class NotRun(Failed):
    """A part that was not reached."""


LATE = "an earlier check of this question was stopped"
STATUS = {NotYet: "not yet", NotRun: "not run"}


class Asking:
    """A learner, and which of its names a check asks for."""

    def __init__(self, learner):
        self.learner, self.asked = learner, []

    def call(self, name, *args):
        self.asked.append(name)
        return self.learner.call(name, *args)

    def value(self, name):
        self.asked.append(name)
        return self.learner.value(name)


def run_question(checks, learner, seed):
    """The results of one question's parts.

    After an answer that ran out of time the rest is not run: each would cost
    its time again.

    Parameters
    ----------
    checks : sequence of functions
        Those of one question.
    learner : Learner
        Or the sandbox's, with the same two methods.
    seed : int

    Returns
    -------
    list of Result
    """
    return [_result(*one) for one in outcomes_of(checks, learner, seed)]


def outcomes_of(checks, learner, seed):
    """What came of each part of a question: check, part, "passed" or an error, and the names asked for."""
    found, stopped = [], False
    for check in checks:
        learner.forbids = check.mark.forbids
        if stopped:
            found += [(check, name, NotRun(f"not run: {LATE}"), ()) for name in check.mark.parts]
            continue
        asking = Asking(learner)
        outcomes, stopped = _judge(check, asking, seed)
        asked = tuple(dict.fromkeys(asking.asked))
        found += [(check, name, outcome, asked) for name, outcome in outcomes.items()]
    return found


def _judge(check, learner, seed):
    """What came of each part of a check, and whether it had to be stopped.

    What goes wrong inside a part is that part's; anything else is common to all.
    """
    last = None
    with judged(check.mark.parts) as outcomes:
        try:
            check(learner, seed)
        except Failed as error:
            last = error
        except Exception as error:  # an answer of a form that the check did not foresee
            last = Failed(f"the answer has a form that cannot be checked ({type(error).__name__}: {error})")
    common = last is not None and not any(outcome is last for outcome in outcomes.values())
    found = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, Failed):
            found[name] = outcome
        elif common:
            found[name] = last
        elif outcome is None and len(outcomes) > 1:
            found[name] = NotRun("not run: an earlier part was stopped")
        else:
            found[name] = "passed"
    return found, isinstance(last, Stopped)


def _result(check, name, outcome, asked):
    """The result of one part."""
    mark = check.mark
    if outcome == "passed":
        said = (
            title(check) if len(mark.parts) == 1 else ""
        )  # what is true, and would have told too much before
        return Result(mark.name, name, mark.parts[name], mark.parts[name], "passed", said, (), asked)
    status = next((word for kind, word in STATUS.items() if isinstance(outcome, kind)), "failed")
    computed = outcome.got is not None
    message = str(outcome)[:600]
    return Result(mark.name, name, mark.parts[name], 0, status, message, outcome.mistakes, asked, computed)
