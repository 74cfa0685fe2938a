"""What a check expects of an answer, and what it says of another one.

A known mistake is told as a change of the right computation: other values for
some of its keywords, or something done to what came out. So two mistakes can
be made at once, and are named together. What is said of an answer that nobody
foresaw holds no digits: a number that follows from the expected answer would
hand it out, one attempt after the other.
"""

import contextlib
import contextvars
import itertools
from collections.abc import Mapping

import numpy as np


class Failed(AssertionError):
    """An answer that is there and not right; the message is for the learner.

    Attributes
    ----------
    mistakes : tuple of str
        The known mistakes that it looks like; none if nobody foresaw it.
    got : array or None
        What was answered, if that is numbers.
    want : array or None
        What was expected instead.
    """

    def __init__(self, message="", mistakes=(), got=None, want=None):
        super().__init__(message)
        self.mistakes, self.got, self.want = tuple(mistakes), got, want


class NotYet(Failed):
    """No answer yet."""


class Raised(Failed):
    """The learner's code raised, or could not be run to its end."""


class Stopped(Raised):
    """The learner's code ran out of time, or ended its process: no more is asked in this question."""


# --- the parts of a question -------------------------------------------------------------------------

_PARTS = contextvars.ContextVar("the parts of the check that runs, and what came of them", default=None)


@contextlib.contextmanager
def part(name):
    """A part of a check, with points of its own: what fails in it costs the others nothing.

    Parameters
    ----------
    name : str
        As in the points of `question`. A part may be entered several times; all have to pass.
    """
    outcomes = _PARTS.get()
    if outcomes is None:  # the check is called by itself
        yield
        return
    if name not in outcomes:
        raise ValueError(f"part: expected one of {', '.join(outcomes)}, got {name!r}")
    try:
        yield
    except Failed as error:
        if not isinstance(outcomes[name], Failed):
            outcomes[name] = error
        if isinstance(error, Stopped):
            raise
    else:
        outcomes[name] = outcomes[name] or "passed"


@contextlib.contextmanager
def judged(names):
    """A dictionary that takes what comes of each part: "passed", an error, or None if it was not reached."""
    outcomes = dict.fromkeys(names)
    token = _PARTS.set(outcomes)
    try:
        yield outcomes
    finally:
        _PARTS.reset(token)


# --- expectations ------------------------------------------------------------------------------------


def expect(condition, message):
    """Fail with ``message`` unless ``condition`` is true.

    Not ``assert``, which ``python -O`` removes. Write ``expect(error < limit, …)``,
    never ``not error > limit``: a NaN must fail. The message names a mistake,
    and no number that follows from what was expected.
    """
    if not bool(condition):
        raise Failed(message, [message])


def expect_close(got, right, mistakes=None, rtol=1e-6, atol=1e-9, what="the answer"):
    """Fail unless ``got`` equals ``right``, with the one or two known mistakes that give it away.

    Parameters
    ----------
    got : plain data
        The learner's answer.
    right : array, number or function
        What is right, or the right computation: a function whose keywords have
        the right values as defaults.
    mistakes : dict, optional
        What to say of a mistake, and what it is: a dictionary of other values
        for keywords of ``right``; a function of the outcome; or simply the
        wrong outcome, if it is no change of the right computation.
    rtol, atol : float
        As in ``numpy.allclose``.
    what : str
        What the message calls the answer.
    """
    array = as_numbers(got, what)
    want = _made(right)
    if _equal(array, want, rtol, atol):
        return
    named = diagnose(array, right, mistakes or {}, rtol, atol)
    if named:
        raise Failed(in_words(named), named, array, want)
    if array.shape != want.shape:
        text = f"{what}: expected {_shape(want)}, got {_shape(array)}"
    elif not np.isfinite(array).all() and np.isfinite(want).all():
        text = f"{what} is NaN or infinite" + (" in places" if np.isfinite(array).any() else "")
    else:
        text = f"{what} is not right yet{_smell(array, want)}"
    raise Failed(text, (), array, want)


def expect_words(got, right, choices, mistakes=None, what="the answer"):
    """As `expect_close`, for a list of words.

    Parameters
    ----------
    got : list of plain data
    right : list of str, or a function that returns it
    choices : sequence of str
        The words there are.
    mistakes : dict, optional
        As for `expect_close`.
    what : str
    """
    want = _made(right, list)
    options = ", ".join(map(repr, choices))
    if type(got) is not list or len(got) != len(want):
        raise Failed(f"{what}: expected a list of {len(want)} words")
    if not all(type(word) is str and word in choices for word in got):
        raise Failed(f"{what}: expected one of {options} for each")
    if got == want:
        return
    named = diagnose(got, right, mistakes or {}, make=list)
    raise Failed(in_words(named) or f"{what}: not all are judged rightly", named)


def expect_choice(got, want, reasons, what="the answer"):
    """Fail unless the text ``got`` is ``want``; ``reasons`` says what each other choice overlooks."""
    options = ", ".join(map(repr, sorted([want, *reasons])))
    if type(got) is not str:
        raise Failed(f"{what}: expected one of {options}")
    choice = got.strip().lower()
    if choice != want:
        if choice in reasons:
            raise Failed(reasons[choice], [reasons[choice]])
        raise Failed(f"{what}: expected one of {options}, got {got[:40]!r}")


def expect_parts(got, names):
    """The parts of an answer that is to have one for each of ``names``; `Failed`, naming them, if not."""
    parts = list(got) if type(got) is list or (type(got) is np.ndarray and got.ndim > 0) else None
    if parts is None or len(parts) != len(names):
        came = f"{len(parts)} parts" if parts is not None else f"a single {type(got).__name__}"
        raise Failed(f"expected {len(names)} things, {', '.join(names)}; got {came}")
    return parts


def as_numbers(got, what="the answer"):
    """Plain data as a float64 array; `Failed`, saying what came, if it is not numbers."""
    if got is None:
        raise NotYet(f"{what} is still missing")
    other = _not_a_number(got)
    if other is not None:
        raise Failed(f"{what}: expected numbers, got {other}")
    try:
        return np.asarray(got, dtype=np.float64)
    except ValueError:
        raise Failed(f"{what}: expected an array, got rows of different lengths") from None


def as_number(got, what="the answer"):
    """Plain data as one number, which may be NaN; `Failed`, saying what came, if it is not one."""
    array = as_numbers(got, what)
    if array.size != 1:
        raise Failed(f"{what}: expected one number, got {_shape(array)}")
    return float(array.reshape(()))


def _not_a_number(got):
    """The type of the first thing in it that is no number, if any.

    Looked for before NumPy sees it: an array of texts would take the room of
    the longest for each.
    """
    if type(got) is list:
        return next(filter(None, map(_not_a_number, got)), None)
    return None if type(got) in (bool, int, float, np.ndarray) else type(got).__name__


# --- known mistakes ------------------------------------------------------------------------------------


def in_words(named):
    """One mistake as it is; two as "two things: …"."""
    return f"two things: {named[0]}; and {named[1]}" if len(named) == 2 else "".join(named)


def diagnose(got, right, mistakes, rtol=1e-6, atol=1e-9, make=None):
    """The known mistake, or the two of them, whose outcome ``got`` is; nothing if there are none.

    Parameters
    ----------
    got : array, or list of words
    right, mistakes, rtol, atol
        As for `expect_close`.
    make : callable, optional
        What an outcome is made into; default is a float64 array.

    Returns
    -------
    tuple of str
    """
    make = make or _floats
    for text, mistake in mistakes.items():
        if any(_same(got, outcome, rtol, atol) for outcome in outcomes(right, [mistake], make)):
            return (text,)
    for one, other in itertools.combinations(mistakes, 2):
        both = outcomes(right, [mistakes[one], mistakes[other]], make)
        if any(_same(got, outcome, rtol, atol) for outcome in both):
            return (one, other)
    return ()


def outcomes(right, mistakes, make=None):
    """What may come out of the right computation with one or two mistakes in it.

    Changes of keywords are made together, unless they change the same one;
    functions are applied to the outcome in either order. Two wrong outcomes
    say nothing of how to make both: what each adds, or multiplies with, is
    taken together.

    Yields
    ------
    array, or list of words
    """
    make = make or _floats
    changes = [one for one in mistakes if isinstance(one, Mapping)]
    after = [one for one in mistakes if callable(one)]
    fixed = [one for one in mistakes if not (isinstance(one, Mapping) or callable(one))]
    keywords = list(itertools.chain(*changes))
    if len(keywords) > len(set(keywords)):  # one excludes the other
        return
    with np.errstate(all="ignore"), contextlib.suppress(ArithmeticError, ValueError, IndexError):
        begun = [_made(right, make, changes)] if not fixed else [make(fixed[0])]
        if fixed and len(mistakes) - len(after) == 2 and make is _floats:
            begun = list(
                _together(_made(right), begun[0], _made(right, make, changes) if changes else fixed[1])
            )
        for start in begun:
            for order in itertools.permutations(after):
                value = start
                for function in order:
                    value = make(function(value))
                yield value


def _together(want, one, other):
    """Two wrong outcomes in one: by what they add to the right one, and by what they multiply it with."""
    other = _floats(other)
    if one.shape == other.shape == want.shape:
        yield one + other - want
        yield one * other / want


def _made(right, make=None, changes=()):
    keywords = {key: value for change in changes for key, value in change.items()}
    if keywords and not callable(right):
        raise TypeError("a change of keywords needs the right computation as a function")
    return (make or _floats)(right(**keywords) if callable(right) else right)


def _floats(value):
    return np.asarray(value, dtype=np.float64)


def _same(got, outcome, rtol, atol):
    if type(got) is list:
        return got == outcome
    return _equal(got, outcome, rtol, atol)


def _equal(array, other, rtol, atol):
    return array.shape == other.shape and np.allclose(array, other, rtol=rtol, atol=atol, equal_nan=True)


def _shape(array):
    return "one number" if array.ndim == 0 else f"an array of shape {array.shape}"


def _smell(array, want):
    """What the difference looks like, without a digit of what was expected."""
    with np.errstate(all="ignore"):
        ratio, offset = np.ravel(array / want), np.ravel(array - want)
    if array.size > 1:
        for values, words in (
            (ratio, "it is wrong by the same factor"),
            (offset, "it is off by the same amount"),
        ):
            if np.isfinite(values).all() and np.ptp(values) <= 1e-6 * abs(values[0]):
                return f": {words} everywhere"
        if np.allclose(np.sort(array, axis=None), np.sort(want, axis=None)):
            return ": the right numbers, in another order"
    if np.allclose(np.abs(array), np.abs(want)):
        return ": the size is right, the sign is not" + (" everywhere" if array.size > 1 else "")
    wrong = ~np.isclose(array, want, rtol=1e-6)
    if not wrong.all() and array.ndim:
        return ": right in some places, and not in others"
    return ""
