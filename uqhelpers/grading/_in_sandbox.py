"""Stands in for ``uqhelpers.grading`` inside the sandbox, where there are no checks.

A submission calls ``check`` in its own cells; there it only says that the
grader will look.
"""

__all__ = ["check", "hint", "score"]


def check(*args, **kwargs):
    """Nothing to see here: the answers are checked from outside."""
    return "the grader checks this"


hint = score = check
