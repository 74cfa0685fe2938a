"""What wrong answers that no hint knows have in common: each is asked once more, all with the same numbers.

What a check draws for a grade differs from one submission to the next, so
equal mistakes answer differently. For the class's page every unforeseen answer
is therefore computed again from one seed that the batch keeps to itself.
Nothing of it reaches a student.
"""

import hashlib
from collections import Counter

import numpy as np

from ._engine import outcomes_of

DIGITS = 5  # of a computed value: two programs that do the same differ in the last few of sixteen
FEW = 3


def unforeseen(results):
    """The parts of one question that computed something wrong in which no known mistake was seen."""
    return [
        result.check
        for result in results
        if result.status == "failed" and result.computed and not result.mistakes
    ]


def survey(checks, results, learner, seed):
    """What the unforeseen answers to one question compute for the seed that all are asked with.

    Parameters
    ----------
    checks : sequence of functions
        Those of the question.
    results : list of Result
        What came of them for the grade.
    learner : Learner
        Or the sandbox's.
    seed : int
        The same for the whole class.

    Returns
    -------
    list of dict
        The question, its part, a digest of what was computed, and an example of it beside the right one.
    """
    parts = unforeseen(results)
    if not parts:
        return []
    found = []
    for check, name, outcome, _ in outcomes_of(checks, learner, seed):
        got, want = getattr(outcome, "got", None), getattr(outcome, "want", None)
        if name in parts and got is not None:
            found.append(
                {
                    "question": check.mark.name,
                    "part": name,
                    "computes": digest(got),
                    "example": f"{few(got)} where {few(want)} is right",
                }
            )
    return found


def digest(values):
    """The same for arrays of the same shape whose values agree to five digits."""
    rounded = [f"{value + 0.0:.{DIGITS - 1}e}" for value in np.ravel(values)]
    return hashlib.sha256(f"{np.shape(values)} {' '.join(rounded)}".encode()).hexdigest()[:16]


def few(values):
    """The first few of some values, in words."""
    flat = np.ravel(values)
    shown = ", ".join(f"{value:.3g}" for value in flat[:FEW])
    return f"{shown}, …" if flat.size > FEW else shown or "nothing"


def groups(records, least=2):
    """Unforeseen answers that several students share.

    Parameters
    ----------
    records : list of dict
    least : int
        Students that make a group.

    Returns
    -------
    list of dict
        The largest first: question, part, example, the number of students, and the code of one of them.
    """
    members = {}
    for record in records:
        for one in record.get("survey") or []:
            members.setdefault((one["question"], one["part"], one["computes"]), []).append((record, one))
    found = [
        {
            "question": question,
            "part": part,
            "students": [record["student"] for record, _ in group],
            "example": group[0][1]["example"],
            "code": (group[0][0].get("code") or {}).get(question, ""),
        }
        for (question, part, _), group in members.items()
        if len(group) >= least
    ]
    return sorted(found, key=lambda one: (-len(one["students"]), one["question"], one["part"]))


def known_mistakes(records):
    """How many students made each known mistake: a list of ((question, mistake), number), most first."""
    counts = Counter()
    for record in records:
        counts.update({(r["question"], text) for r in record["results"] for text in r.get("mistakes") or []})
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
