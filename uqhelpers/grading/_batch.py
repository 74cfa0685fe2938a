"""Grade a folder: find the submissions, run each in its sandbox, keep every finished grade.

The output folder holds ``state.json`` with the batch's secret seed, one record
a student, written once and in one step, and what is made from the records at
the end: the CSV, the feedback pages, the summary. A batch that was killed goes
on where it stopped; a submission is graded again only if it, the checks, the
package or the limits changed.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from . import _notebooks, _reports, _tables
from ._engine import (
    checks_by_question,
    forbidden,
    load_checks,
    manual_questions,
    run_question,
)
from ._sandbox import PACKAGE, Limits, SandboxedLearner, SandboxUnavailable, check_apart, try_sandbox

FORMAT = 1


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
        if entry.name.startswith(".") or os.path.realpath(entry.path) in left_out:
            continue
        for one in _look_at(entry, stem):
            by_student.setdefault(one.student, []).append(one)
    found = []
    for student, handed_in in by_student.items():
        problem = handed_in[0].problem
        if len(handed_in) > 1:
            names = ", ".join(readable(os.path.basename(one.path)) for one in handed_in)
            problem = f"{len(handed_in)} files of one student: {names}; keep one"
        found.append(Submission(student, handed_in[0].path, problem))
    return sorted(found, key=lambda one: one.student)


def _look_at(entry, stem):
    """The submissions of one entry of the folder: itself, or the notebooks in it."""
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


def readable(name):
    """A file name as text that can be written anywhere: bytes that are not UTF-8 as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _student(name, stem):
    base = readable(name).removesuffix(".ipynb")
    return re.sub(rf"[-_ ]+{re.escape(stem)}$", "", base) or base


def slug(student):
    """A file name for a student: plain letters, never a path, never one of two students'."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", student).strip("_")[:40] or "student"
    if plain == student and plain == plain.lower():
        return plain
    return f"{plain}-{hashlib.sha256(student.encode()).hexdigest()[:10]}"


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


def derived_seed(secret, purpose):
    """A seed of 31 bits for one purpose; knowing one tells nothing about another."""
    return int.from_bytes(hmac.new(secret, purpose.encode(), "sha256").digest()[:4], "big") >> 1


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
        ``results`` (one a check), ``log`` (what happened to its cells), ``problem`` and ``texts``.
    """
    limits = limits or Limits()
    module = load_checks(stem, checks)
    groups = checks_by_question(module)
    try:
        cells, texts = _notebooks.read_submission(data, stem)
    except _notebooks.NotASubmission as error:
        return {"results": nothing_earned(module, str(error)), "log": [], "problem": str(error), "texts": {}}
    results = []
    submissions_seed = derived_seed(secret, "submission")
    with SandboxedLearner(cells, forbidden(module), submissions_seed, limits) as learner:
        for name, checks_of_one in groups.items():
            results += run_question(checks_of_one, learner, derived_seed(secret, f"question {name}"))
        log = list(learner.log)
    results = [dataclasses.asdict(result) for result in results]
    return {"results": results, "log": log, "problem": "", "texts": answers_for_a_person(module, texts)}


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


def fingerprint(stem, checks, limits):
    """Changes whenever a grade could: with the package, the checks, the limits, Python."""
    digest = hashlib.sha256(f"{FORMAT} {stem} {limits} {sys.version}".encode())
    paths = sorted(PACKAGE.rglob("*.py")) + ([Path(checks)] if checks else [])
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _job(submission, payload):
    """One submission, wherever joblib runs it; never raises because of what it was handed."""
    stem, secret, limits, checks, data, problem = payload
    began = time.perf_counter()
    try:
        if problem:
            results = nothing_earned(load_checks(stem, checks), problem)
            graded = {"results": results, "log": [], "problem": problem, "texts": {}}
        else:
            graded = grade_notebook(data, stem, secret, limits, checks)
    except Exception as error:  # this machine's fault, or ours: no grade comes of it, and the batch goes on
        return submission, None, f"{readable(submission.student)}: {type(error).__name__}: {error}"
    graded["seconds"] = round(time.perf_counter() - began, 2)
    return submission, graded, ""


def grade(
    stem, submissions, out, *, jobs=-1, limits=None, checks=None, rubric=None, junit=None, gradescope=False,
    progress=True,
):  # fmt: skip
    """Grade a folder of submissions.

    Parameters
    ----------
    stem : str
        The exercise.
    submissions, out : path
        Where they are, and where the grades go.
    jobs : int
        Submissions at a time; -1 for one a core. Under ``joblib.parallel_config`` another backend runs them.
    limits : Limits, optional
    checks : path, optional
        A file of checks of one's own.
    rubric : path, optional
        The rubric sheet, filled in.
    junit : path, optional
        Where to write JUnit XML.
    gradescope : bool
        Whether to write a results file for Gradescope a student.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    list of dict
        The records, sorted by student.

    Raises
    ------
    SandboxUnavailable
        If there is no working sandbox; nothing is run then.
    ValueError
        If the folder of submissions cannot be read, or another batch is at work in ``out``.
    """
    module, limits, out = load_checks(stem, checks), limits or Limits(), Path(out)
    check_apart(submissions, out)
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(out):
        found = find_submissions(submissions, stem, [out])
        try_sandbox()
        state = load_state(out, stem)
        grader = Grader(stem, out, limits, checks, module, state)
        grader.run(found, jobs, progress)
        records = [grader.finished(one) for one in found]
        points = _tables.read_rubric(rubric, module) if rubric else {}
        records = [_tables.with_manual(record, module, points) for record in records]
        for record in records:
            record["slug"] = slug(record["student"])
        _reports.write_all(records, module, stem, out, junit, gradescope)
    return records


@dataclass
class Grader:
    """A batch at work: what is finished, what is still to be done."""

    stem: str
    out: Path
    limits: Limits
    checks: object
    module: object
    state: dict

    def __post_init__(self):
        self.version = fingerprint(self.stem, self.checks, self.limits)
        self.secret = bytes.fromhex(self.state["secret"])
        (self.out / "records").mkdir(exist_ok=True)

    def run(self, found, jobs, progress):
        """Grade what is not yet graded, several at a time, and keep each as soon as it is there."""
        from joblib import Parallel, delayed
        from tqdm.auto import tqdm

        todo = self.open_jobs(found)
        bar = tqdm(total=len(found), desc=self.stem, unit="submission", disable=not progress)
        # Read lazily and kept at once: the parent never holds more than a few submissions.
        work = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
        unavailable = ""
        with bar:
            bar.update(len(found) - self.count)
            for submission, graded, trouble in work(delayed(_job)(one, payload) for one, payload in todo):
                if graded is None:
                    unavailable = trouble
                else:
                    self.keep(submission, graded, self.keys[submission])
                bar.update()
        if unavailable:
            raise SandboxUnavailable(f"{unavailable}; what was graded is kept: mend this and run again")

    def open_jobs(self, found):
        """A generator of what is to be graded, which reads a file only when its turn comes."""
        open_ones = [one for one in found if (self.load(one) or {}).get("key") != self.key(*self.fetch(one))]
        self.count = len(open_ones)
        self.keys = {}
        return self._read(open_ones)

    def _read(self, open_ones):
        for submission in open_ones:
            data, problem = self.fetch(submission)
            self.keys[submission] = self.key(data, problem)
            yield submission, (self.stem, self.secret, self.limits, self.checks, data, problem)

    def fetch(self, submission):
        """The bytes of a submission, or why there are none."""
        if submission.problem:
            return b"", submission.problem
        try:
            return read_file(submission.path), ""
        except _notebooks.NotASubmission as error:
            return b"", str(error)

    def key(self, data, problem):
        """What a grade depends on; a record with another key is out of date."""
        digest = hashlib.sha256(f"{self.version} {problem} ".encode() + self.secret)
        digest.update(data)
        return digest.hexdigest()

    def path(self, submission):
        return self.out / "records" / f"{slug(submission.student)}.json"

    def load(self, submission):
        """The record of a submission; None if there is none that can be read."""
        with contextlib.suppress(OSError, ValueError):
            record = json.loads(self.path(submission).read_text(encoding="utf-8"))
            if type(record) is dict and record.get("student") == submission.student:
                return record
        return None

    def finished(self, submission):
        record = self.load(submission)
        if record is None:
            raise RuntimeError(f"the record of {submission.student} is gone from {self.out}")
        return record

    def keep(self, submission, graded, key):
        earned = sum(result["earned"] for result in graded["results"])
        record = {
            "student": submission.student,
            "file": readable(os.path.basename(submission.path)),
            "exercise": self.stem,
            "key": key,
            "automatic": earned,
            "out_of": sum(result["points"] for result in graded["results"]),
            **graded,
        }
        _tables.write_atomically(self.path(submission), json.dumps(record, indent=1, allow_nan=False))


def load_state(out, stem):
    """The batch's secret: made once, for its owner's eyes, so that a resumed batch asks the same."""
    path = Path(out) / "state.json"
    if path.exists():
        state = json.loads(path.read_text(encoding="utf-8"))
        if state.get("exercise") != stem:
            other = state.get("exercise")
            raise ValueError(f"out: expected a folder for {stem!r}, got one that holds {other!r}")
        return state
    state = {"format": FORMAT, "exercise": stem, "secret": secrets.token_hex(32)}
    _tables.write_atomically(path, json.dumps(state, indent=1), mode=0o600)
    return state


@contextlib.contextmanager
def locked(out):
    """Only one batch at a time in one output folder; the lock goes with the process."""
    with open(Path(out) / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"out: another batch is at work in {out}") from None
        yield
