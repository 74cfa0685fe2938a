"""Where a submission runs: behind bubblewrap, watched from outside.

What it can see is a list (`mounts`): the system's libraries and the
interpreter's environment, read-only; a copy of this package without checks,
solutions and forbidden helpers; and an empty folder in memory. It has no
network, no environment variables, no other user's processes.

What it can spend is limited (`Limits`). Resident memory and the number of
processes are watched from outside rather than limited by address space,
because torch maps far more than it uses; disk is a memory file system of fixed
size; ``RLIMIT_NPROC`` stops a fork bomb before the watcher looks. That limit
does not bind root and counts by user, so under root the sandbox takes a real
user id that nobody else has, one a thread.

A sandbox that ends or hangs costs the answer it hung on: the others are asked
in a fresh one, a few times over.
"""

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from ._box import Box, OutOfTime
from ._copy import PACKAGE, copy_package
from ._engine import Failed, NotYet, Raised, Stopped, stems
from ._limits import Limits, SandboxUnavailable
from ._mounts import covered, visible
from ._wire import decode, encode

STARVED = 0.15  # the share of an answer's time that was spent waiting for a processor

MISSING = {
    "missing": "`{name}` is not defined yet",
    "not a function": "`{name}` is not a function",
    "nothing": "`{name}` returns nothing yet",
}


class SandboxedLearner:
    """A submission as a check sees it: the same two methods as `Learner`, at arm's length.

    Use it as a context manager.

    Parameters
    ----------
    cells : list of str
        The notebook's code cells.
    forbids : sequence of str
        Helpers that the package's copy leaves out.
    seed : int
        What the submission's own random generators start from. It must tell
        nothing about the seed of the checks.
    limits : Limits

    Attributes
    ----------
    log : list of str
        What happened to its cells.
    starved : bool
        Whether it ran out of time while others had its processor.
    """

    def __init__(self, cells, forbids=(), seed=0, limits=None):
        self.cells, self.seed, self.limits = list(cells), seed, limits or Limits()
        self.library_forbids, self.forbids = tuple(forbids), ()
        self.log, self.skipped, self.box, self.asked = [], set(), None, 0
        self.restarts, self.starved = self.limits.restarts, False

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="uqhelpers-grading-")
        try:
            copy_package(Path(self.folder) / "lib", self.library_forbids)
            shutil.copyfile(Path(__file__).parent / "_runner.py", Path(self.folder) / "runner.py")
            os.chmod(Path(self.folder) / "runner.py", 0o644)
            os.chmod(Path(self.folder) / "lib", 0o755)
            self.deadline = time.monotonic() + self.limits.total
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        if self.box is not None:
            self.box.close()
            self.box = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self):
        """A sandbox in which every cell has run, except those that ended one before."""
        while True:
            self.box = Box(self.folder, self.limits, self.deadline)
            for number, source in enumerate(self.cells, start=1):
                if number in self.skipped or not source.strip():
                    continue
                try:
                    answer = self._put({"source": source, "seed": self.seed + number}, self.limits.cell)
                except Stopped as error:
                    self._note(f"code cell {number}: {error}")
                    self.skipped.add(number)
                    self._drop()
                    break
                if answer.get("ok") is not True:
                    self._note(f"code cell {number}: {_reason(answer, self.limits.cell)}")
            else:
                return
            if not self._may_restart():
                return

    def _put(self, request, seconds):
        """Ask the box, and note whether an answer that did not come in time had to wait for a processor."""
        before, began, late = self.box.waited(), time.monotonic(), False
        try:
            answer = self.box.ask(request, seconds)
            late = answer.get("kind") == "time"
        except OutOfTime:
            late = True
            raise
        finally:
            if late:
                spent = time.monotonic() - began
                self.starved = self.starved or self.box.waited() - before > STARVED * spent
        return answer

    def _note(self, line):
        if line not in self.log and len(self.log) < 50:
            self.log.append(line)

    def _drop(self):
        self.box.close()
        self.box = None

    def _may_restart(self):
        self.restarts -= 1
        return self.restarts >= 0 and time.monotonic() < self.deadline

    def call(self, name, *args):
        """As `Learner.call`."""
        return self._ask(name, {"name": name, "args": [encode(arg) for arg in args]})

    def value(self, name):
        """As `Learner.value`."""
        return self._ask(name, {"name": name})

    def _ask(self, name, request):
        if self.box is None and self._may_restart():
            self._start()
        if self.box is None:
            raise Stopped("not run: the notebook ended, or hung, too often")
        self.asked += 1
        try:
            answer = self._put({**request, "seed": self.seed + 10_000 + self.asked}, self.limits.call)
        except Stopped:
            self._drop()
            raise
        if answer.get("ok") is True:
            try:
                value = decode(answer.get("value"))
            except ValueError as error:
                raise Failed(f"`{name}` answered in a form that cannot be read: {error}") from None
            if value is None:
                raise NotYet(f"`{name}` returns nothing yet")
            return value
        kind = answer.get("kind")
        if kind == "time":
            raise Stopped(_reason(answer, self.limits.call))
        if kind in ("missing", "not a function", "nothing"):
            raise NotYet(MISSING[kind].format(name=name))
        if kind == "unreadable":
            raise Raised(f"`{name}` returns something that cannot be read: {_text(answer)}")
        raise Raised(_reason(answer, self.limits.call))


def _text(answer):
    error = answer.get("error")
    return error[:300] if type(error) is str else "no reason was given"


def _reason(answer, seconds):
    kind = answer.get("kind")
    if kind == "time":
        return f"your code ran longer than {seconds:g} seconds"
    if kind == "forbidden":
        return _text(answer)
    return f"your code raised {_text(answer)}"


def try_sandbox(checks=None):
    """Run a trivial submission; the first time, it looks at all that a submission could see.

    Parameters
    ----------
    checks : path, optional
        A file of checks of one's own, which must not be seen either.

    Raises
    ------
    SandboxUnavailable
        Saying why, if it does not run, or could read checks or solutions.
    """
    look = (Path(__file__).parent / "_sweep.py").read_text(encoding="utf-8")
    cells = ["import numpy\nanswer = numpy.arange(3).sum()", look]
    secrets = secret_files(checks)
    looked_at = repr((sorted(secrets.items()), visible(), covered()))
    with SandboxedLearner(cells, limits=Limits(total=600, call=500)) as learner:
        if learner.value("answer") != 3:
            raise SandboxUnavailable("the sandbox runs, and does not compute")
        found = [] if looked_at in SWEPT else learner.call("seen", stems(), secrets)
    if found != []:
        raise SandboxUnavailable(
            f"submissions could read checks or solutions here: {', '.join(map(str, found))}. "
            "Remove them, or grade in an environment that does not hold them."
        )
    SWEPT.add(looked_at)


SWEPT = set()  # what this process has already looked at


def secret_files(checks=None):
    """What no submission may read, as ``{size: [sha256]}``, the sizes as text."""
    paths = [*(PACKAGE / "grading" / "checks").glob("*.py"), *(PACKAGE / "grading" / "solutions").iterdir()]
    digests = {}
    for path in [*paths, *([Path(checks)] if checks else [])]:
        if path.is_file() and path.name != "__init__.py":
            content = path.read_bytes()
            digests.setdefault(str(len(content)), []).append(hashlib.sha256(content).hexdigest())
    return digests
