"""A process that grades one submission after another, each in a child of its own.

An answer that drives a check out of memory, or out of time, ends that child and
nothing else. And nothing is lost sight of: whatever a child leaves behind is
adopted here, ended, and waited for, before the next submission has its turn.
"""

import base64
import contextlib
import ctypes
import dataclasses
import functools
import json
import os
import queue
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ._copy import PACKAGE
from ._limits import MEGABYTE, Limits
from ._usage import family, status

ROOM = 1024 * MEGABYTE  # of memory for the checks of one submission, beyond what they start with
BURIAL = 30.0  # seconds for what a child left behind to be gone
KILL_WITH_PARENT, ADOPT = 1, 36
BOOT = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from uqhelpers.grading._worker import serve
serve()
"""


class Worker:
    """The near end: starts the process, hands it jobs."""

    def __init__(self):
        # Never the working folder, which may hold a student's modules; this package before any other copy.
        paths = [
            str(PACKAGE.parent),
            *(path for path in sys.path if path and os.path.abspath(path) != os.getcwd()),
        ]
        paths = [path for path in sys.path if path in paths] if paths[0] in sys.path else paths
        alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, json.dumps(paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **alone},
        )

    def grade(self, job):
        """What comes of one job, as a dictionary with ``graded`` or ``trouble``; None if the process died."""
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = b""
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self):
        """The process ends when nobody can send it a job any more."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(timeout=BURIAL)
        self.process.kill()
        return self.process.wait()


IDLE = queue.SimpleQueue()


def grade_apart(stem, secret, limits, checks, data):
    """Grade one submission in a process of its own.

    Parameters
    ----------
    stem, secret, limits, checks, data
        As for `grade_notebook`.

    Returns
    -------
    graded : dict or None
    trouble : str
        Why there is no grade.
    """
    try:
        worker = IDLE.get_nowait()
    except queue.Empty:
        worker = Worker()
    job = {"stem": stem, "secret": secret.hex(), "limits": dataclasses.asdict(limits), "here": here()}
    job |= {"checks": str(checks) if checks else None, "data": base64.b64encode(data).decode()}
    try:
        outcome = worker.grade(job)
    except BaseException:
        worker.close()
        raise
    if outcome is None:
        return None, f"the process that graded it ended ({ending(worker.close())})"
    IDLE.put(worker)
    return outcome.get("graded"), outcome.get("trouble", "")


def dismiss():
    """End the processes that wait for a job."""
    with contextlib.suppress(queue.Empty):
        while True:
            IDLE.get_nowait().close()


def here():
    """This machine and this environment: where one has looked at what submissions see, another need not."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return [boot, os.readlink("/proc/self/ns/mnt"), sys.prefix, str(PACKAGE)]


def ending(code):
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"{name}, perhaps for want of memory" if -code == signal.SIGKILL else name


# --- the far end --------------------------------------------------------------------------------------


def serve():
    """Take jobs, one a line, until nobody can send any more."""
    jobs, outcomes = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    while line := read_line(jobs):
        job = json.loads(line)
        try:
            outcome = one(job, jobs)
        except Exception as error:
            outcome = {"trouble": f"{type(error).__name__}: {error}"}
        send(outcomes, json.dumps(outcome).encode() + b"\n")


def read_line(descriptor):
    """One line; empty at the end. No second one is behind it before the first has been answered."""
    parts = []
    while data := os.read(descriptor, 2**20):
        parts.append(data)
        if data.endswith(b"\n"):
            return b"".join(parts)
    return b""


def send(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def one(job, jobs):
    """One submission, in a child; afterwards there are no descendants."""
    limits = Limits(**job["limits"])
    prepare(job["stem"], job["checks"], tuple(job["here"]))
    deadline = time.monotonic() + 2 * limits.total + 120
    folder = tempfile.mkdtemp(prefix="uqhelpers-grading-")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        work(job, limits, folder, writer)
    os.close(writer)
    try:
        said = collect(reader, jobs, deadline)
    finally:
        os.close(reader)
        code = end(child)
        bury()
        shutil.rmtree(folder, ignore_errors=True)
    if said is None:
        return {"trouble": f"grading it took longer than {2 * limits.total + 120:g} seconds"}
    try:
        return json.loads(said)
    except ValueError:
        return {"trouble": f"the process that graded it ended ({ending(code)})"}


@functools.cache
def prepare(stem, checks, where):
    """Load what every child needs; on another machine than the batch's, look at what submissions see."""
    from . import _marking, _sandbox

    _marking.load_checks(stem, checks)
    if list(where) != here():
        _sandbox.try_sandbox(checks)


def work(job, limits, folder, writer):
    """The child: grade, say so, end."""
    try:
        ctypes.CDLL(None).prctl(KILL_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        from ._marking import grade_notebook

        tempfile.tempdir = folder
        most = 1024 * status(os.getpid())["VmSize"] + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
        data, secret = base64.b64decode(job["data"]), bytes.fromhex(job["secret"])
        outcome = {"graded": grade_notebook(data, job["stem"], secret, limits, job["checks"])}
    except MemoryError:
        outcome = {"trouble": f"its answers took more than {ROOM // MEGABYTE} MiB of the grader's memory"}
    except Exception as error:  # this machine's fault, or ours
        outcome = {"trouble": f"{type(error).__name__}: {error}"}
    try:
        send(writer, json.dumps(outcome).encode())
    finally:
        os._exit(0)


def collect(reader, jobs, deadline):
    """All that the child says; None if it takes too long. If nobody waits for it any more, this ends."""
    parts = []
    while (rest := deadline - time.monotonic()) > 0:
        ready = select.select([reader, jobs], [], [], rest)[0]
        if reader in ready:
            data = os.read(reader, 2**20)
            if not data:
                return b"".join(parts)
            parts.append(data)
        elif jobs in ready:  # no job comes while one is at work: the other end is closed
            raise SystemExit
    return None


def end(child):
    """The exit code of a child, which is killed if it has not ended."""
    gone, code = os.waitpid(child, os.WNOHANG)
    if not gone:
        os.kill(child, signal.SIGKILL)
        gone, code = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(code)


def bury():
    """End all descendants and wait for them; the kernel's word that there is none is the proof.

    Raises
    ------
    RuntimeError
        If one cannot be ended.
    """
    deadline = time.monotonic() + BURIAL
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        left = family(os.getpid()) - {os.getpid()}
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes that cannot be ended: {sorted(left)}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
