"""What was handed in: one submission a student, whatever the folder holds."""

import hashlib
import os
import re
import stat
from dataclasses import dataclass

from . import _notebooks
from ._text import printable, readable


@dataclass(frozen=True)
class Submission:
    """One student's file, or why there is none to grade."""

    student: str
    path: str
    problem: str = ""


def find_submissions(folder, stem, leave_out=()):
    """One submission a student.

    Either a folder a student with a notebook in it, or a notebook a student,
    perhaps with the exercise's name behind the student's.

    Parameters
    ----------
    folder : path
    stem : str
    leave_out : sequence of path
        Folders that are no submissions, such as the output.

    Returns
    -------
    list of Submission
        Sorted by student. What cannot be graded carries its problem.

    Raises
    ------
    ValueError
        If ``folder`` is not a folder that can be read.
    """
    try:
        entries = sorted(os.scandir(os.fspath(folder)), key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise ValueError(f"submissions: expected a folder that can be read, got {folder}: {error}") from error
    left_out = {os.path.realpath(path) for path in leave_out}
    by_student = {}
    for entry in entries:
        if os.path.realpath(entry.path) in left_out or (hidden(entry) and not _holds_notebook(entry)):
            continue
        for one in _look_at(entry, stem):
            by_student.setdefault(one.student, []).append(one)
    found = []
    for student, handed_in in by_student.items():
        problem = handed_in[0].problem
        if len(handed_in) > 1:
            names = ", ".join(printable(readable(os.path.basename(one.path))) for one in handed_in)
            problem = f"{len(handed_in)} files of one student: {names}; keep one"
        found.append(Submission(student, handed_in[0].path, problem))
    return sorted(found, key=lambda one: one.student)


def hidden(entry):
    """Whether a file manager would not show it."""
    return entry.name.startswith(".")


def hidden_files(folder):
    """The hidden entries of a folder that hold no notebook: left out, and said so."""
    with os.scandir(folder) as entries:
        return sorted(readable(one.name) for one in entries if hidden(one) and not _holds_notebook(one))


def _holds_notebook(entry):
    if entry.is_symlink() or not entry.is_dir():
        return entry.name.endswith(".ipynb")
    try:
        return any(name.endswith(".ipynb") for name in os.listdir(entry.path))
    except OSError:
        return True  # nobody knows


def _look_at(entry, stem):
    """The submissions of one entry of the folder: itself, or the notebooks in it."""
    if hidden(entry):
        return [Submission(_student(entry.name, stem), entry.path, "hidden: its name begins with a dot")]
    if entry.is_symlink():
        return [Submission(_student(entry.name, stem), entry.path, "a link, not a file")]
    if not entry.is_dir():
        return [Submission(_student(entry.name, stem), entry.path)]
    student = readable(entry.name)
    try:
        inside = sorted(os.listdir(entry.path), key=os.fsencode)
    except OSError as error:
        return [Submission(student, entry.path, f"the folder cannot be read: {error.strerror}")]
    notebooks = [os.path.join(entry.path, name) for name in inside if name.endswith(".ipynb")]
    if not notebooks:
        return [Submission(student, entry.path, "no notebook (.ipynb) in this student's folder")]
    return [Submission(student, path) for path in notebooks]


def _student(name, stem):
    base = readable(name).removesuffix(".ipynb")
    return re.sub(rf"[-_ ]+{re.escape(stem)}$", "", base) or base


def slug(student):
    """A file name for a student: plain letters, never a path, never one of two students'.

    A name of at most 40 plain letters stands for itself. Any other carries its whole digest, which makes it
    longer than those.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", student).strip("_")[:40] or "student"
    if plain == student and plain == plain.lower():
        return plain
    return f"{plain}-{hashlib.sha256(student.encode()).hexdigest()}"


def read_file(path):
    """The bytes of a submission, if it is an ordinary file of ordinary size.

    Raises
    ------
    NotASubmission
        If it is a link, a pipe, a device, too large, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = "a link, not a file" if os.path.islink(path) else f"cannot be read: {error.strerror}"
        raise _notebooks.NotASubmission(reason) from None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise _notebooks.NotASubmission("not an ordinary file")
        if facts.st_size > _notebooks.LARGEST:
            limit = _notebooks.LARGEST >> 20
            raise _notebooks.NotASubmission(
                f"{facts.st_size >> 20} MiB; a submission has at most {limit} MiB: clear its outputs"
            )
        try:
            return file.read(_notebooks.LARGEST + 1)
        except OSError as error:
            raise _notebooks.NotASubmission(f"cannot be read: {error.strerror}") from None
