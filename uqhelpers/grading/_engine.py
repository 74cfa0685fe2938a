"""What a check is made of: questions, the learner's side, expectations, results.

A check is an ordinary function ``check(learner, seed)`` that asks the learner's
functions for answers and says what it expects. The same function serves the
learner, in the notebook, and the batch grader, which hands it a learner that
lives in a sandbox.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._wire import Network, plain

LEARNERS_SEED = 1  # what the notebook's own check draws with; the grader's seed is fresh and secret
STEM = re.compile(r"[a-z][a-z0-9_]*\Z")


class Failed(AssertionError):
    """An answer that is there and not right; the message is for the learner."""


class NotYet(Failed):
    """No answer yet."""


class Raised(Failed):
    """The learner's code raised, or could not be run to its end."""


class Stopped(Raised):
    """The learner's code ran out of time, or ended its process: no more is asked in this question."""


class WriteItYourself(RuntimeError):
    """A helper was called that the question asks the learner to write."""


@dataclass(frozen=True)
class Mark:
    """What `question` notes on a check: its question, points, free hint, forbidden helpers."""

    name: str
    points: float
    hint: str
    forbids: tuple


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
    """What came of one check: ``status`` is passed, failed, not yet, or not run."""

    question: str
    check: str
    points: float
    earned: float
    status: str
    message: str


def question(name, points=1, *, hint="", forbids=()):
    """Mark a check: the question it belongs to and what it is worth.

    Parameters
    ----------
    name : str
        Such as ``"q3"``. A question may have several checks; its points add up.
    points : float
        At least 0.
    hint : str
        What ``hint(stem, name)`` shows. It costs nothing.
    forbids : sequence of str
        Helpers the learner is to write, such as ``"metrics.mutual_information"``.
        Calling one in the answer says "write this one yourself".
    """
    if not points >= 0:
        raise ValueError(f"points: expected a number of at least 0, got {points!r}")

    def mark(check):
        check.mark = Mark(name, points, hint, tuple(forbids))
        return check

    return mark


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


def is_loaded(helper):
    """Whether the module of a helper, such as ``"metrics.aurc"``, has been imported."""
    return f"uqhelpers.{helper.rsplit('.', 1)[0]}" in sys.modules


@contextlib.contextmanager
def helpers_forbidden(names, namespace):
    """While it lasts, each named helper that is loaded says "write this one yourself".

    It is replaced in its module and wherever the notebook holds it under a
    name of its own. A module that is not loaded stays so: some take torch with
    them, and a first answer should not wait for that. This is a reminder; in
    the sandbox the helper is not there.
    """
    undo = []

    def replace(owner, key, stub):
        undo.append((owner, key, owner[key]))
        owner[key] = stub

    for name in filter(is_loaded, names):
        module_name, function_name = name.rsplit(".", 1)
        module = sys.modules[f"uqhelpers.{module_name}"]
        original, stub = getattr(module, function_name), refuse(name)
        for owner in {module, sys.modules[original.__module__]}:
            replace(vars(owner), function_name, stub)
        for key in [key for key, value in namespace.items() if value is original]:
            replace(namespace, key, stub)
    try:
        yield
    finally:
        for owner, key, value in reversed(undo):
            owner[key] = value


def refuse(name):
    """A stand-in for a forbidden helper."""

    def stub(*args, **kwargs):
        raise WriteItYourself(f"write this one yourself: `{name}` is what the question asks for")

    return stub


def run_question(checks, learner, seed):
    """The results of one question's checks.

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
    results, stopped = [], False
    for check in checks:
        mark, earned = check.mark, 0
        learner.forbids = mark.forbids
        if stopped:
            status, message = "not run", "not run: an earlier check of this question was stopped"
        else:
            try:
                check(learner, seed)
                status, message, earned = "passed", "", mark.points
            except NotYet as error:
                status, message = "not yet", str(error)
            except Stopped as error:
                status, message, stopped = "failed", str(error), True
            except Failed as error:
                status, message = "failed", str(error)
            except Exception as error:  # an answer of a form that the check did not foresee
                status = "failed"
                message = f"the answer has a form that cannot be checked ({type(error).__name__}: {error})"
        results.append(Result(mark.name, title(check), mark.points, earned, status, message[:600]))
    return results


def expect(condition, message):
    """Fail with ``message`` unless ``condition`` is true.

    Not ``assert``, which ``python -O`` removes. Write ``expect(error < limit, …)``,
    never ``not error > limit``: a NaN must fail.
    """
    if not bool(condition):
        raise Failed(message)


def expect_close(got, want, hints=None, rtol=1e-6, atol=1e-9, what="the answer"):
    """Fail unless ``got`` equals ``want``, with the hint whose wrong value it equals.

    Parameters
    ----------
    got : plain data
        The learner's answer.
    want : array or number
    hints : dict, optional
        What to say, and the wrong value that gives it away.
    rtol, atol : float
        As in ``numpy.allclose``.
    what : str
        What the message calls the answer.
    """
    array = as_numbers(got, what)
    want = np.asarray(want, dtype=np.float64)
    if _equal(array, want, rtol, atol):
        return
    for text, wrong in (hints or {}).items():
        if _equal(array, np.asarray(wrong, dtype=np.float64), rtol, atol):
            raise Failed(text)
    if array.shape != want.shape:
        raise Failed(f"{what}: expected {_shape(want)}, got {_shape(array)}")
    if not np.isfinite(array).all() and np.isfinite(want).all():
        raise Failed(f"{what} is NaN or infinite in {np.sum(~np.isfinite(array))} of {array.size} places")
    raise Failed(f"{what} is not right yet{_smell(array, want)}")


def expect_choice(got, want, reasons, what="the answer"):
    """Fail unless the text ``got`` is ``want``; ``reasons`` says what each other choice overlooks."""
    if type(got) is not str:
        raise Failed(f"{what}: expected one of {', '.join(map(repr, sorted([want, *reasons])))}")
    choice = got.strip().lower()
    if choice != want:
        options = ", ".join(map(repr, sorted([want, *reasons])))
        raise Failed(reasons.get(choice, f"{what}: expected one of {options}, got {got[:40]!r}"))


def expect_parts(got, names):
    """The parts of an answer that is to have one for each of ``names``; `Failed`, naming them, if not."""
    parts = list(got) if type(got) is list or (type(got) is np.ndarray and got.ndim > 0) else None
    if parts is None or len(parts) != len(names):
        came = f"{len(parts)} parts" if parts is not None else f"a single {type(got).__name__}"
        raise Failed(f"expected {len(names)} things, {', '.join(names)}; got {came}")
    return parts


def as_numbers(got, what="the answer"):
    """Plain data as a float64 array; `Failed`, saying what came, if it is not numbers."""
    other = _not_a_number(got)
    if other is not None:
        raise Failed(f"{what}: expected numbers, got {other}")
    try:
        return np.asarray(got, dtype=np.float64)
    except ValueError:
        raise Failed(f"{what}: expected an array, got rows of different lengths") from None


def _not_a_number(got):
    """The type of the first thing in it that is no number, if any.

    Looked for before NumPy sees it: an array of texts would take the room of
    the longest for each.
    """
    if type(got) is list:
        return next(filter(None, map(_not_a_number, got)), None)
    return None if type(got) in (bool, int, float, np.ndarray) else type(got).__name__


def _equal(array, other, rtol, atol):
    return array.shape == other.shape and np.allclose(array, other, rtol=rtol, atol=atol, equal_nan=True)


def _shape(array):
    return "one number" if array.ndim == 0 else f"an array of shape {array.shape}"


def _smell(array, want):
    """A factor or an offset that is the same everywhere, if there is one."""
    with np.errstate(all="ignore"):
        ratio, offset = np.ravel(array / want), np.ravel(array - want)
    for values, words in ((ratio, "{:.4g} times as large as it should be"), (offset, "off by {:.4g}")):
        if values.size and np.isfinite(values).all() and np.ptp(values) <= 1e-6 * abs(values[0]):
            return f": it is {words.format(values[0])}" + (" everywhere" if values.size > 1 else "")
    worst = np.unravel_index(np.abs(array - want).argmax(), want.shape)
    return f": the largest difference is {abs(array - want)[worst]:.3g}, at {list(map(int, worst))}"
