"""Exercises that answer at once, and grades that cannot be forged.

In a notebook, wherever it runs::

    from uqhelpers.grading import check, hint, score
    check("mc_dropout", "q1")

For a class, on the instructor's machine::

    python -m uqhelpers.grading grade mc_dropout submissions --out grades

The threat model. A submission is a program written by somebody who may want a
better grade, another student's work, or the grader's machine. Whatever runs in
the same process as that program can be changed by it, so

- checks, expected values, seeds and scores exist only in the trusted process
  (``_batch``, ``_engine``, ``checks``), and never enter the sandbox;
- the notebook runs in a bubblewrap sandbox (``_sandbox``): no network, no
  environment, a read-only system, its own process, user and file view, limits
  of time, memory, processes, disk and output;
- the only code of ours in there is ``_runner``, which the submission may
  replace: all that it says is taken as the submission's answer and as nothing
  else;
- what crosses is JSON of bounded size, decoded into plain data (``_wire``):
  nothing is unpickled, and no object with methods of the student's arrives;
- a question that asks for an implementation runs where that helper is absent;
- names and messages are escaped wherever they are written (``_tables``, ``_pages``), and
  file names of ours are derived, never taken over.

What stays possible: a right answer copied from another student, or from the
web. Fresh seeds make a copied *number* worthless, not a copied function.
"""

import dataclasses

from . import _words
from ._engine import (
    LEARNERS_SEED,
    Learner,
    checks_by_question,
    load_checks,
    manual_questions,
    run_question,
)
from ._words import Feedback

__all__ = ["check", "hint", "score"]


def check(stem, question, namespace=None):
    """What is right, and what is not yet, in the answer to one question.

    Parameters
    ----------
    stem : str
        The exercise, such as ``"mc_dropout"``.
    question : str
        Such as ``"q1"``.
    namespace : dict, optional
        Where the answers are; default is the notebook, or the interpreter's main module.

    Returns
    -------
    Feedback
        Shows itself as the last line of a cell. An answer that is missing
        is "not yet", never an error.

    Raises
    ------
    ValueError
        If there is no such exercise or question.
    """
    module = load_checks(stem)
    if question in manual_questions(module):
        asked = manual_questions(module)[question]
        lines = [("", f"{text} ({points:g})") for text, points in asked.criteria.items()]
        return Feedback(f"{question}: read by your instructor, {asked.points:g} points for", lines)
    checks = _checks_of(module, question)
    results = _results(checks, Learner(_namespace(namespace)))
    lines, links = _words.lines(results), []
    if any(result["status"] != "passed" for result in results):
        if any(one.mark.hint for one in checks):
            lines.append(("", f'A hint costs nothing: hint("{stem}", "{question}")'))
        if any(result["status"] == "failed" for result in results):
            links = _words.section(stem, checks)
    return Feedback(_words.heading(question, results), lines, links)


def hint(stem, question):
    """The hint for a question. It costs nothing.

    Parameters
    ----------
    stem, question : str

    Returns
    -------
    Feedback

    Raises
    ------
    ValueError
        If there is no such exercise or question.
    """
    module = load_checks(stem)
    if question in manual_questions(module):
        return Feedback(f"{question}: a hint", [("", manual_questions(module)[question].prompt)])
    hints = [one.mark.hint for one in _checks_of(module, question) if one.mark.hint]
    return Feedback(f"{question}: a hint", [("", text) for text in hints or ["There is none."]])


def score(stem, namespace=None):
    """The points so far, question by question.

    Parameters
    ----------
    stem : str
    namespace : dict, optional
        As for `check`.

    Returns
    -------
    Feedback
    """
    module = load_checks(stem)
    learner = Learner(_namespace(namespace))
    lines, total, most = [], 0, 0
    for name, checks in checks_by_question(module).items():
        earned, points = _words.totals(_results(checks, learner))
        total, most = total + earned, most + points
        status = "passed" if earned == points else "failed" if earned else "not yet"
        lines.append((status, f"{name}: {earned:g} of {points:g}"))
    lines += [
        ("", f"{name}: {asked.points:g} points, read by your instructor")
        for name, asked in manual_questions(module).items()
    ]
    return Feedback(f"{stem}: {total:g} of {most:g} points so far", lines)


def _checks_of(module, question):
    groups = checks_by_question(module)
    if question not in groups:
        names = [*groups, *manual_questions(module)]
        raise ValueError(f"question: expected one of {', '.join(names)}, got {question!r}")
    return groups[question]


def _namespace(namespace):
    """The notebook's variables; on a plain interpreter, those of its main module."""
    if namespace is not None:
        return namespace
    from IPython import get_ipython

    import __main__

    shell = get_ipython()
    return vars(__main__) if shell is None else shell.user_ns


def _results(checks, learner):
    return [dataclasses.asdict(result) for result in run_question(checks, learner, LEARNERS_SEED)]
