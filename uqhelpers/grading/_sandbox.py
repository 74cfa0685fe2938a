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

import ast
import contextlib
import itertools
import json
import os
import pwd
import select
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ._engine import Failed, NotYet, Raised, Stopped
from ._forbidden import places, words
from ._wire import decode, encode, parse

PACKAGE = Path(__file__).resolve().parents[1]
SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
ENTER = ("grading/__init__.py", "grading/_wire.py")  # all that a submission sees of uqhelpers.grading
FIRST_UID = 1_800_000_000  # far above what any distribution hands out
MEGABYTE = 2**20


class SandboxUnavailable(RuntimeError):
    """There is no working sandbox here; nothing untrusted is run."""


@dataclass(frozen=True)
class Limits:
    """What one submission may spend.

    Attributes
    ----------
    cell, call, total : float
        Seconds for one cell, for one answer, and for everything.
    memory, disk, answer : int
        Bytes of resident memory, of files, and of one answer.
    processes : int
        Processes and threads.
    restarts : int
        Fresh sandboxes after one that ended or hung.
    """

    cell: float = 60.0
    call: float = 20.0
    total: float = 240.0
    memory: int = 3072 * MEGABYTE
    disk: int = 256 * MEGABYTE
    answer: int = 4 * MEGABYTE
    processes: int = 128
    restarts: int = 3


def find_bubblewrap():
    """The path of ``bwrap``; `SandboxUnavailable`, saying what to do, if there is none."""
    path = shutil.which("bwrap", path=os.defpath + ":/usr/local/bin:/usr/bin:/bin")
    if sys.platform != "linux" or path is None:
        raise SandboxUnavailable(
            "bubblewrap (bwrap) was not found, and a submission is never run without it. Install it (Debian, "
            "Ubuntu: apt install bubblewrap), or grade in the container that the instructor's page describes."
        )
    return path


def copy_package(folder, forbids=()):
    """This package as a submission may see it.

    Parameters
    ----------
    folder : path
        Gets ``uqhelpers``.
    forbids : sequence of str
        Functions whose bodies are left out, such as ``"metrics.mutual_information"``,
        and with them those of the private ones that they call.

    Raises
    ------
    ValueError
        If a forbidden function does not exist: a misspelt name would let it in.
    """
    target = Path(folder) / "uqhelpers"
    for source in PACKAGE.rglob("*"):
        inside = source.relative_to(PACKAGE)
        if not source.is_file() or "__pycache__" in inside.parts:  # compiled files hold what is left out
            continue
        if inside.parts[0] == "grading" and str(inside) not in ENTER:
            continue
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / inside)
    shutil.copyfile(PACKAGE / "grading" / "_in_sandbox.py", target / "grading" / "__init__.py")
    for name in forbids:
        for path, function in places(name):
            leave_out(target / path, function, name)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def leave_out(path, function, name):
    """Replace a function or a class by one that says "write this one yourself"; whether the file has it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = [node for node in tree.body if isinstance(node, kinds) and node.name == function]
    refusal = f"raise RuntimeError({words(name)!r})"
    for node in found:
        if isinstance(node, ast.ClassDef):
            node.bases, node.keywords = [], []
            refusal = f"def __init__(self, *args, **kwargs):\n    {refusal}"
        node.decorator_list = []
        node.body = ast.parse(refusal).body
    if found:
        path.write_text(ast.unparse(tree), encoding="utf-8")
    return bool(found)


def mounts(library, runner):
    """What the sandbox sees, as bubblewrap's arguments.

    Parameters
    ----------
    library : path
        Holds the copy of the package.
    runner : path
        The program that runs in there.

    Returns
    -------
    list of str
    """
    arguments, made = [], set()

    def parents(path):
        # Bubblewrap makes missing parents for its own user only: make them readable first.
        for parent in reversed(Path(path).parents):
            if str(parent) not in (*made, "/", "/tmp", "/usr"):
                made.add(str(parent))
                arguments.extend(["--perms", "0755", "--dir", str(parent)])

    def bind(source, target):
        parents(target)
        arguments.extend(["--ro-bind", str(source), str(target)])

    for path in SYSTEM:
        if os.path.islink(path):
            parents(path)
            arguments.extend(["--symlink", os.readlink(path), path])
        elif os.path.exists(path):
            bind(path, path)
    for path in environment():
        bind(path, path)
    for path in installed_packages():  # an installed copy would hold checks and solutions
        bind(Path(library) / "uqhelpers", path)
    bind(library, "/sandbox/lib")
    bind(runner, "/sandbox/runner.py")
    return arguments


def environment():
    """The interpreter's folders outside /usr, outermost first."""
    folders = sorted({os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix)})
    folders += [str(p) for p in (sys.prefix, sys.base_prefix) if p not in folders]  # reached by another name
    return [p for p in folders if not Path(p).is_relative_to("/usr")]


def installed_packages():
    """Every ``uqhelpers`` inside a folder that is mounted: each is covered by the copy."""
    places = {Path(p) for p in (*sys.path, *map(sysconfig.get_path, ("purelib", "platlib"))) if p}
    found = [place / "uqhelpers" for place in places if (place / "uqhelpers").is_dir()]
    visible = [Path(p) for p in (*SYSTEM, *environment())]
    return sorted(p for p in found if any(p.is_relative_to(v) for v in visible))


def check_apart(*paths):
    """Refuse to grade what a submission could read: ``paths`` must lie outside the mounted folders."""
    for path in map(Path, paths):
        for folder in (*SYSTEM, *environment()):
            if path.resolve().is_relative_to(folder):
                raise SandboxUnavailable(
                    f"{path} lies inside {folder}, which submissions can read: move it elsewhere"
                )


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
    arguments = [find_bubblewrap(), "--die-with-parent", "--new-session", "--clearenv"]
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
    arguments += [f"--cpu={int(limits.total) + 5}", "--memlock=65536", "--msgqueue=0", "--"]
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


# What no exercise needs: memory that no watcher sees, other namespaces, other processes' memory, keys.
DENIED = {
    "x86_64": {
        "arch": 0xC000003E,
        "clone": 56,
        "numbers": {
            29,
            64,
            68,
            101,
            155,
            165,
            166,
            246,
            248,
            249,
            250,
            272,
            298,
            304,
            308,
            310,
            311,
            319,
            321,
            323,
        },
    },
    "aarch64": {
        "arch": 0xC00000B7,
        "clone": 220,
        "numbers": {
            39,
            40,
            41,
            97,
            104,
            117,
            186,
            190,
            194,
            217,
            218,
            219,
            241,
            265,
            268,
            270,
            271,
            279,
            280,
            282,
        },
    },
}
EVERYWHERE = {425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 447}  # the same numbers on both
CLONE3, CLONE_NEWUSER, X32 = 435, 0x10000000, 0x40000000


def seccomp_filter(machine):
    """A filter of system calls as a BPF program; empty bytes where the machine's numbers are not known here.

    Denied calls fail with EPERM; ``clone3``, whose flags a filter cannot see, with ENOSYS, so that libc falls
    back to ``clone``.
    """
    if machine not in DENIED:
        return b""
    table = DENIED[machine]
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, deny, absent, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000

    program = [(load, 0, 0, 4), (equal, 1, 0, table["arch"]), (give, 0, 0, kill), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, X32), (give, 0, 0, deny)]
    program += [(equal, 0, 1, CLONE3), (give, 0, 0, absent)]
    for number in sorted(table["numbers"] | EVERYWHERE):
        program += [(equal, 0, 1, number), (give, 0, 0, deny)]
    program += [(equal, 0, 3, table["clone"]), (load, 0, 0, 16), (any_bit, 0, 1, CLONE_NEWUSER)]
    program += [(give, 0, 0, deny), (give, 0, 0, allow)]
    return b"".join(struct.pack("=HBBI", *line) for line in program)


class Box:
    """One running sandbox: asks the runner, and watches what it spends.

    Parameters
    ----------
    folder : path
        As for `command`.
    limits : Limits
    deadline : float
        On the monotonic clock: when everything must be over.
    """

    def __init__(self, folder, limits, deadline):
        self.limits, self.deadline, self.buffer, self.asked = limits, deadline, b"", 0
        self.uid = unused_uid()
        arguments = command(folder, limits, self.uid)
        descriptors = []
        program = seccomp_filter(os.uname().machine)
        if program:
            reader, writer = os.pipe()
            os.write(writer, program)
            os.close(writer)
            descriptors = [reader]
            arguments[1:1] = ["--seccomp", str(reader)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(arguments, **pipes, bufsize=0, pass_fds=descriptors, env={}, cwd="/")
        for descriptor in descriptors:
            os.close(descriptor)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            os.set_blocking(stream.fileno(), False)
        try:
            if self._read_line(min(deadline, time.monotonic() + 60)).get("ready") is not True:
                raise Stopped("the sandbox did not start")
        except Stopped as error:
            said = self.process.stderr.read(2000) or b""
            self.close()
            raise SandboxUnavailable(
                f"the sandbox did not start ({error}): {said.decode(errors='replace').strip()}"
            ) from error

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
                raise Stopped("your code ran out of time")
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
                raise Stopped("your code ended its process") from None

    def _read_line(self, deadline):
        while b"\n" not in self.buffer:
            self._wait([self.process.stdout], [], deadline)
            try:
                data = os.read(self.process.stdout.fileno(), 2**18)
            except BlockingIOError:
                continue
            if not data:
                raise Stopped("your code ended its process")
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
                raise Stopped("your code ran out of time")
            ready = select.select(readers, writers, [], min(0.1, rest))
            if ready[0] or ready[1]:
                return

    def _watch(self):
        resident, count = usage(self.process.pid, self.limits.memory)
        if resident > self.limits.memory:
            raise Stopped(f"your code used more than {self.limits.memory // MEGABYTE} MiB of memory")
        if count > self.limits.processes:
            raise Stopped(f"your code started more than {self.limits.processes} processes")

    def close(self):
        """End every process in the sandbox: they live in one namespace and die with its first."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def usage(root, enough=0):
    """Resident bytes and number of all processes below ``root``.

    What forked processes share is counted once, which takes longer; it is done
    only if the plain sum exceeds ``enough``.
    """
    parents, resident = {}, {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"/proc/{entry.name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # gone in the meantime
            continue
        parents[int(entry.name)] = int(fields[1])
        resident[int(entry.name)] = int(fields[21]) * PAGE
    below, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below, grown = below | more, bool(more)
    total = sum(resident.get(pid, 0) for pid in below)
    if total > enough:
        total = sum(proportional(pid, resident.get(pid, 0)) for pid in below)
    return total, len(below)


def proportional(pid, resident):
    """A process's resident bytes, those that it shares divided among the sharers."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return 1024 * int(line.split()[1])
    except OSError:  # gone, or not for us to read
        pass
    return resident


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
    """

    def __init__(self, cells, forbids=(), seed=0, limits=None):
        self.cells, self.seed, self.limits = list(cells), seed, limits or Limits()
        self.library_forbids, self.forbids = tuple(forbids), ()
        self.log, self.skipped, self.box, self.asked = [], set(), None, 0
        self.restarts = self.limits.restarts

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
                    answer = self.box.ask({"source": source, "seed": self.seed + number}, self.limits.cell)
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
            answer = self.box.ask({**request, "seed": self.seed + 10_000 + self.asked}, self.limits.call)
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


def try_sandbox():
    """Run a trivial submission; `SandboxUnavailable`, saying why, if that does not work here."""
    cell = "import numpy\nanswer = numpy.arange(3).sum()"
    with SandboxedLearner([cell], limits=Limits(total=60)) as learner:
        if learner.value("answer") != 3:
            raise SandboxUnavailable("the sandbox runs, and does not compute")
