"""Grade a folder: find the submissions, run each in its sandbox, keep every finished grade.

The output folder holds ``state.json`` with the batch's secret seed, one record
a student, written once and in one step, and what is made from the records at
the end: the CSV, the feedback pages, the summary. A batch that was killed goes
on where it stopped; a submission is graded again only if it, the checks, the
package or the limits changed.

Whatever becomes of one submission, the others have their grades: each is graded
by a process of its own (``_worker``). Those that ran out of time while others
had their processor, or whose process ended, are graded once more when all
others are done, alone.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import _notebooks, _reports, _tables
from ._copy import PACKAGE
from ._engine import load_checks
from ._limits import Limits
from ._marking import not_graded
from ._mounts import check_apart
from ._sandbox import try_sandbox
from ._submissions import find_submissions, read_file, slug
from ._text import readable
from ._worker import dismiss, grade_apart

FORMAT = 2


def fingerprint(stem, checks, limits):
    """Changes whenever a grade could: with the package, the checks, the limits, Python."""
    digest = hashlib.sha256(f"{FORMAT} {stem} {limits} {sys.version}".encode())
    paths = sorted(PACKAGE.rglob("*.py")) + ([Path(checks)] if checks else [])
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _job(submission, payload):
    """One submission, wherever joblib runs it: what it earned, or why nobody knows. It never raises."""
    stem, secret, limits, checks, data, problem = payload
    began = time.perf_counter()
    try:
        if problem:
            graded, trouble = not_graded(load_checks(stem, checks), problem), ""
        else:
            graded, trouble = grade_apart(stem, secret, limits, checks, data)
    except Exception as error:  # this machine's fault, or ours
        graded, trouble = None, f"{type(error).__name__}: {error}"
    if graded is not None:
        graded["seconds"] = round(time.perf_counter() - began, 2)
    return submission, graded, trouble


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
        The records, sorted by student. One that has ``trouble`` could not be graded for a reason that may be
        this machine's; the next batch tries it again.

    Raises
    ------
    SandboxUnavailable
        If there is no working sandbox, or submissions could see checks, solutions, or one of the paths;
        nothing is run then.
    ValueError
        If the folder of submissions or the rubric sheet cannot be read, or another batch is at work in
        ``out``.
    """
    checks = os.path.abspath(checks) if checks else None
    module, limits, out = load_checks(stem, checks), limits or Limits(), Path(out)
    check_apart(*filter(None, (submissions, out, checks, rubric, junit)))
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    out.chmod(0o700)  # other people's grades are nobody else's to read
    with locked(out):
        found = find_submissions(submissions, stem, [out])
        points = _tables.read_rubric(rubric, module, [slug(one.student) for one in found]) if rubric else {}
        try_sandbox(checks)
        grader = Grader(stem, out, limits, checks, module, load_state(out, stem))
        try:
            grader.run(found, jobs, progress)
        finally:
            dismiss()
        records = [_tables.with_manual(grader.finished(one), module, points) for one in found]
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
    again: dict = field(default_factory=dict)  # to be graded alone, and why
    keys: dict = field(default_factory=dict)  # of those whose turn has come

    def __post_init__(self):
        self.version = fingerprint(self.stem, self.checks, self.limits)
        self.secret = bytes.fromhex(self.state["secret"])
        (self.out / "records").mkdir(exist_ok=True, mode=0o700)

    def run(self, found, jobs, progress):
        """Grade what is not yet graded, several at a time; keep each as soon as it is there."""
        from joblib import Parallel, delayed
        from tqdm.auto import tqdm

        open_ones = [one for one in found if (self.load(one) or {}).get("key") != self.key(*self.fetch(one))]
        left = dict.fromkeys(open_ones)
        # The threads only wait for processes. Read lazily and kept at once: never more than a few are held.
        work = Parallel(
            n_jobs=jobs,
            prefer="threads",
            return_as="generator_unordered",
            pre_dispatch="2*n_jobs",
            batch_size=1,
        )
        with tqdm(total=len(found), desc=self.stem, unit="submission", disable=not progress) as bar:
            bar.update(len(found) - len(open_ones))
            try:
                for submission, graded, trouble in work(delayed(_job)(*one) for one in self.jobs(open_ones)):
                    self.keep(submission, graded, trouble, together=jobs != 1)
                    del left[submission]
                    bar.update()
            except Exception as error:  # a cluster that broke down: what it left undone is done here
                self.again |= dict.fromkeys(left, f"{type(error).__name__}: {error}")
            bar.total += len(self.again)
            for one in self.jobs(list(self.again)):
                self.keep(*_job(*one), together=False)
                bar.update()

    def jobs(self, open_ones):
        """What `_job` takes for each; a file is read only when its turn comes."""
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
        """The record of a submission; one that says so if it is gone."""
        return self.load(submission) or self.record(submission, None, "its record is gone", "")

    def keep(self, submission, graded, trouble, together):
        """Write what is known of a submission; what was disturbed, or failed, gets a second try alone.

        Parameters
        ----------
        together : bool
            Whether others were graded at the same time.
        """
        disturbed = trouble or (graded["starved"] and "ran out of time while others had its processor")
        if together and disturbed:
            self.again[submission] = disturbed
        # Without a key it is not final: a batch that is stopped here takes it up again.
        final = not trouble and not (together and disturbed)
        key = self.keys[submission] if final else ""
        record = self.record(submission, graded, trouble, key)
        _tables.write_atomically(self.path(submission), json.dumps(record, indent=1, allow_nan=False))

    def record(self, submission, graded, trouble, key):
        graded = graded or not_graded(self.module, f"could not be graded: {trouble}")
        return {
            "student": submission.student,
            "slug": slug(submission.student),
            "file": readable(os.path.basename(submission.path)),
            "exercise": self.stem,
            "key": key,
            "trouble": trouble,
            "automatic": sum(result["earned"] for result in graded["results"]),
            "out_of": sum(result["points"] for result in graded["results"]),
            **graded,
        }


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
