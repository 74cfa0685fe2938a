"""One running sandbox: how it is started, asked, watched and ended."""

import contextlib
import itertools
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from ._engine import Stopped
from ._limits import MEGABYTE, SandboxUnavailable
from ._mounts import mounts
from ._seccomp import seccomp_filter
from ._share import Share
from ._usage import Kernel, family, usage, waited
from ._wire import parse

FIRST_UID = 1_800_000_000  # far above what any distribution hands out


def find_bubblewrap():
    """The path of ``bwrap``; `SandboxUnavailable`, saying what to do, if there is none."""
    path = shutil.which("bwrap", path=os.defpath + ":/usr/local/bin:/usr/bin:/bin")
    if sys.platform != "linux" or path is None:
        raise SandboxUnavailable(
            "bubblewrap (bwrap) was not found, and a submission is never run without it. Install it (Debian, "
            "Ubuntu: apt install bubblewrap), or grade in the container that the instructor's page describes."
        )
    return path


def command(folder, limits, uid):
    """Bubblewrap's command line.

    Parameters
    ----------
    folder : path
        Holds ``lib`` (the copy of the package) and ``runner.py``.
    limits : Limits
    uid : int or None
        The real user to become, if this is root.
    """
    disk, shared = str(limits.disk), str(64 * MEGABYTE)
    arguments = [find_bubblewrap(), "--die-with-parent", "--as-pid-1", "--new-session", "--clearenv"]
    for what in ("ipc", "pid", "net", "uts", "cgroup-try"):
        arguments.append(f"--unshare-{what}")
    if uid is None:
        arguments += ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    else:  # root sets the stage, then becomes nobody in particular
        arguments += ["--cap-drop", "ALL"]
        for capability in ("SETUID", "SETGID", "SETPCAP"):
            arguments += ["--cap-add", f"CAP_{capability}"]
    arguments += ["--perms", "1777", "--size", disk, "--tmpfs", "/tmp"]
    arguments += mounts(Path(folder) / "lib", Path(folder) / "runner.py")
    arguments += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", shared]
    arguments += ["--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--remount-ro", "/"]
    variables = {
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "HOME": "/tmp/home",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "UQHELPERS_CACHE": "/tmp/home/cache",
    }
    for name, value in variables.items():
        arguments += ["--setenv", name, value]
    arguments += ["--chdir", "/tmp", "--"]
    if uid is not None:
        arguments += ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        arguments += ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"]
    processes = limits.processes if uid is not None else limits.processes + own_threads()
    arguments += ["prlimit", f"--nproc={processes}", f"--fsize={limits.disk}", "--core=0", "--nofile=512"]
    arguments += [f"--cpu={int(limits.total) + 5}", "--memlock=65536", "--msgqueue=0", "--sigpending=256"]
    arguments += ["--as=unlimited", "--"]  # torch maps far more than it uses
    return [*arguments, os.path.abspath(sys.executable), "-I", "-B", "/sandbox/runner.py"]


def own_threads():
    """How many threads this user runs already: some kernels count them against the limit."""
    total = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                total += len(os.listdir(entry / "task"))
    return total


SANDBOXES = itertools.count()


def unused_uid():
    """A user id that no account and no other sandbox has; None if this is not root.

    One a thread of this machine (thread ids are below 2²²), and a new one for
    each of its sandboxes: what still dies in the last counts for nobody.
    """
    if os.geteuid() != 0:
        return None
    while True:
        uid = FIRST_UID + threading.get_native_id() + 2**22 * (next(SANDBOXES) % 64)
        if not _known(uid):
            return uid


def _known(uid):
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


START = 60.0  # seconds that a sandbox may take to be there: ours, not the submission's
END = 30.0  # seconds that its processes may take to be gone


class OutOfTime(Stopped):
    """The learner's code ran out of time, rather than ended."""


class Box:
    """One running sandbox: asks the runner, and watches what it spends.

    It waits at its door until it has been put in its place: on one processor,
    in a group of its own, first to go when memory runs out. Its first process
    is held by a descriptor; when that one ends, the kernel ends all others.

    Parameters
    ----------
    folder : path
        As for `command`.
    limits : Limits
    deadline : float
        On the monotonic clock: when everything must be over. The start does
        not count.

    Raises
    ------
    SandboxUnavailable
        If it does not start.
    """

    def __init__(self, folder, limits, deadline):
        self.limits, self.deadline, self.buffer, self.asked = limits, deadline, b"", 0
        self.uid, self.process, self.init, self.pid, self.kernel = unused_uid(), None, None, None, None
        arguments = command(folder, limits, self.uid)
        self.share = Share(limits)
        try:
            self._launch(arguments)
            if self._read_line(time.monotonic() + START).get("ready") is not True:
                raise Stopped("something else answered")
            (self.pid,) = family(self.first) - {self.first}
            self.kernel = Kernel(self.pid)
        except (Stopped, OSError, ValueError) as error:
            said = self.process.stderr.read(2000) or b"" if self.process else b""
            self.close()
            raise SandboxUnavailable(
                f"the sandbox did not start ({error}): {said.decode(errors='replace').strip()}"
            ) from error
        self.began = time.monotonic()

    def _launch(self, arguments):
        """Start bubblewrap, and let it in when it stands where it belongs."""
        inner, outer = [], []  # the ends of pipes that bubblewrap gets, and ours

        def pipe(option, we_read):
            ends = os.pipe()
            inner.append(ends[we_read])
            outer.append(ends[not we_read])
            arguments[1:1] = [option, str(inner[-1])]
            return outer[-1]

        told, knock = pipe("--info-fd", True), pipe("--block-fd", False)
        program = seccomp_filter(os.uname().machine)
        if program:
            os.write(pipe("--seccomp", False), program)
            os.close(outer.pop())
        try:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self.process = subprocess.Popen(arguments, **pipes, bufsize=0, pass_fds=inner, env={}, cwd="/")
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                os.set_blocking(stream.fileno(), False)
            while inner:
                os.close(inner.pop())
            self.first = _first_process(told)
            self.init = os.pidfd_open(self.first)
            self.share.admit(self.first)
            os.write(knock, b"1")
        finally:
            for end in (*inner, *outer):
                os.close(end)

    def ask(self, request, seconds):
        """The runner's answer to one request, as the dictionary it sent."""
        self.asked += 1
        line = json.dumps({"id": self.asked, "seconds": seconds, **request}).encode() + b"\n"
        # The runner stops its code by itself; what does not let itself be stopped is killed a little later.
        deadline = min(self.deadline, time.monotonic() + seconds + 2.0)
        self._write(line, deadline)
        while True:
            answer = self._read_line(deadline)
            if time.monotonic() > deadline:  # lines without end, none of them the answer
                raise OutOfTime("your code ran out of time")
            if answer.get("id") == self.asked:
                self._watch()  # who leaves too much behind is blamed, not who comes next
                return answer

    def _write(self, data, deadline):
        view = memoryview(data)
        while view:
            self._wait([], [self.process.stdin], deadline)
            try:
                view = view[os.write(self.process.stdin.fileno(), view[:65536]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._ended() from None

    def _read_line(self, deadline):
        while b"\n" not in self.buffer:
            self._wait([self.process.stdout], [], deadline)
            try:
                data = os.read(self.process.stdout.fileno(), 2**18)
            except BlockingIOError:
                continue
            if not data:
                raise self._ended()
            self.buffer += data
            if len(self.buffer) > self.limits.answer:
                raise Stopped(f"your code answered with more than {self.limits.answer // MEGABYTE} MiB")
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            return parse(line)
        except ValueError:
            raise Stopped("your code answered with something that cannot be read") from None

    def _wait(self, readers, writers, deadline):
        """Until a stream is ready, looking ten times a second at what the sandbox spends."""
        while True:
            self._watch()
            rest = deadline - time.monotonic()
            if rest <= 0:
                raise OutOfTime("your code ran out of time")
            ready = select.select(readers, writers, [], min(0.1, rest))
            if ready[0] or ready[1]:
                return

    def _ended(self):
        """Why the process is gone: the kernel may have ended it before the watch looked."""
        if self.share.out_of_memory():
            return Stopped(f"your code used more than {self.limits.memory // MEGABYTE} MiB of memory")
        return Stopped("your code ended its process")

    def _watch(self):
        if self.init is None:
            return
        spent, limits = usage(self.first, self.limits.memory), self.limits
        if spent.memory > limits.memory:
            raise Stopped(f"your code used more than {limits.memory // MEGABYTE} MiB of memory")
        if spent.tasks - 1 > limits.processes:
            raise Stopped(f"your code started more than {limits.processes} processes and threads")
        if spent.shielded and self.pid is not None:
            raise Stopped("your code shielded itself from being ended when memory runs out")
        if self.kernel is not None and self.kernel.files_in_use() > limits.files:
            raise Stopped(f"your code made more than {limits.files} files")
        if self.kernel is not None and self.kernel.sockets_in_use() > limits.sockets:
            raise Stopped(f"your code opened more than {limits.sockets} sockets")

    def waited(self):
        """Seconds for which the runner was ready and had no processor; all seconds if nobody counts them."""
        value = waited(self.pid)
        return time.monotonic() - self.began if value is None else value

    def close(self):
        """End every process in the sandbox, and see that they have ended.

        They live in one namespace. The kernel ends them all with its first
        process, and that one counts as ended when the others have gone.

        Raises
        ------
        SandboxUnavailable
            If they have not gone after half a minute.
        """
        gone = True
        if self.init is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.init, signal.SIGKILL)
            gone = bool(select.select([self.init], [], [], END)[0])
            os.close(self.init)
            self.init = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                stream.close()
        if self.kernel is not None:
            self.kernel.close()
        self.share.close()
        if not gone:
            raise SandboxUnavailable(f"a sandbox could not be ended: process {self.first} goes on")


def _first_process(descriptor):
    """The process that bubblewrap tells us is the sandbox's first."""
    said = b""
    while not said.rstrip().endswith(b"}"):
        if not select.select([descriptor], [], [], START)[0]:
            raise Stopped("bubblewrap says nothing")
        data = os.read(descriptor, 4096)
        if not data:
            raise Stopped("bubblewrap ended")
        said += data
    return int(json.loads(said)["child-pid"])
