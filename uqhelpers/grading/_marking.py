"""What one submission earns."""

import dataclasses
import hashlib
import hmac
import re
import time

from . import _notebooks, _questions, _survey
from ._engine import checks_by_question, forbidden, load_checks, manual_questions, run_question
from ._limits import Limits
from ._sandbox import SandboxedLearner


def derived_seed(secret, purpose, data=b""):
    """A seed of 64 bits for one purpose and one submission; knowing one tells nothing about another.

    A notebook that changes by one letter is asked other questions: what a
    check said of its numbers is no help with the next ones.

    Parameters
    ----------
    secret : bytes
        The batch's.
    purpose : str
    data : bytes
        The submission; nothing for what a whole class has in common.
    """
    digest = hashlib.sha256(data).digest()
    return int.from_bytes(hmac.new(secret, purpose.encode() + b"\0" + digest, "sha256").digest()[:8], "big")


def grade_notebook(data, stem, secret, limits=None, checks=None):
    """What one submission earns.

    Parameters
    ----------
    data : bytes
        The notebook.
    stem : str
    secret : bytes
        The batch's; the seeds of the checks come from it.
    limits : Limits, optional
    checks : path, optional
        A file of checks of one's own.

    Returns
    -------
    dict
        ``results`` (one a check), ``log`` (what happened to its cells), ``problem``, ``texts``, and
        ``starved``: whether it ran out of time while others had its processor.
    """
    limits = limits or Limits()
    module = load_checks(stem, checks)
    groups = checks_by_question(module)
    try:
        cells, texts = _notebooks.read_submission(data, stem)
    except _notebooks.NotASubmission as error:
        return not_graded(module, str(error))
    results, surveyed, times = [], [], {}
    submissions_seed = derived_seed(secret, "submission", data) >> 2  # room to count up in
    with SandboxedLearner(cells, forbidden(module), submissions_seed, limits) as learner:
        for name, checks_of_one in groups.items():
            began = time.perf_counter()
            found = run_question(checks_of_one, learner, derived_seed(secret, f"question {name}", data))
            times[name] = round(time.perf_counter() - began, 3)
            surveyed += _survey.survey(checks_of_one, found, learner, derived_seed(secret, f"class {name}"))
            results += found
        log, starved = list(learner.log), learner.starved
    results = [dataclasses.asdict(result) for result in results]
    return {
        "results": results,
        "log": log,
        "problem": "",
        "texts": answers_for_a_person(module, texts),
        "code": _questions.code(cells, results),
        "survey": surveyed,
        "times": times,
        "starved": starved,
    }


def not_graded(module, problem):
    """The outcome of a submission that could not be run."""
    results = nothing_earned(module, problem)
    return {"results": results, "log": [], "problem": problem, "texts": {}, "starved": False}


def nothing_earned(module, message):
    """The results of a submission that could not be run."""
    return [
        {"question": name, "check": part, "points": points}
        | {"earned": 0, "status": "not run", "message": message, "mistakes": [], "asked": []}
        for name, checks in checks_by_question(module).items()
        for one in checks
        for part, points in one.mark.parts.items()
    ]


def answers_for_a_person(module, texts):
    """What stands under the heading of each question that a person grades, as far as it can be found."""
    if not manual_questions(module):
        return {}
    found, current = {}, None
    for text in texts:
        heading = re.match(r"##\s+(q\d+)\b", text)
        if heading:
            current = heading[1]
        elif current in manual_questions(module):
            found[current] = (found.get(current, "") + "\n" + text).strip()[:4000]
    return found
