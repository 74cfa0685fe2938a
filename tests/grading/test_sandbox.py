"""The sandbox: what is seen from inside, what outlives it, what it takes from neighbours and the machine."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from uqhelpers.grading import _box, _mounts, _share, _worker
from uqhelpers.grading._engine import Stopped
from uqhelpers.grading._limits import SandboxUnavailable
from uqhelpers.grading._sandbox import SandboxedLearner, try_sandbox
from uqhelpers.grading._usage import family

from .corpus import DOUBLE
from .test_grade import LOW, ROOT, TOY, sandboxed, toy

# Walks all that can be seen and returns where checks or solutions lie.
WALK = """
import os
def found():
    places = []
    for top in ("/usr", "/sandbox", *{p for p in os.listdir("/") if p not in ("proc", "dev", "usr", "tmp")}):
        for folder, folders, files in os.walk("/" + top.lstrip("/")):
            if folder.endswith("/grading"):
                places += [folder + "/" + name for name in folders if name != "__pycache__"]
    return places
"""


@pytest.fixture
def ordinary(monkeypatch):
    """As an ordinary user, whoever runs the tests: a user namespace in place of another user."""
    monkeypatch.setattr(_box, "unused_uid", lambda: None)


@pytest.fixture(params=["as it comes", "ordinary"])
def either(request, monkeypatch):
    """Both ways in which a sandbox is made."""
    if request.param == "ordinary":
        monkeypatch.setattr(_box, "unused_uid", lambda: None)


# --- what can be seen ---------------------------------------------------------------------------------------


def package(place):
    """A copy of this package, in small."""
    for name in ("checks", "solutions"):
        (place / "uqhelpers" / "grading" / name).mkdir(parents=True)
        (place / "uqhelpers" / "grading" / name / "uncertainty.py").write_text("expected = 3")
    return place / "uqhelpers"


@pytest.fixture
def more(tmp_path, monkeypatch):
    """A folder that is mounted beside the interpreter's environment."""
    folders = _mounts.environment()
    monkeypatch.setattr(_mounts, "environment", lambda: [*folders, str(tmp_path / "more")])
    (tmp_path / "more" / "lib").mkdir(parents=True)
    return tmp_path / "more"


def test_a_copy_is_covered_at_every_name_of_its_folder(tmp_path, monkeypatch):
    real, link = tmp_path / "real", tmp_path / "link"
    copy = package(real / "lib" / "python3.11" / "site-packages")
    link.symlink_to(real)
    monkeypatch.setattr(_mounts, "environment", lambda: [str(real), str(link)])
    monkeypatch.syspath_prepend(str(link / "lib" / "python3.11" / "site-packages"))
    assert {str(copy), str(link / copy.relative_to(real))} <= set(_mounts.covered())


@pytest.mark.parametrize(
    "place", ["lib/python3.11/site-packages", "lib/python3/dist-packages", "lib64/python3.12/site-packages"]
)
def test_a_copy_of_another_interpreter_in_the_same_folder_is_covered(place, more):
    assert str(package(more / place)) in _mounts.covered()


@sandboxed
@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="the interpreter has no environment of its own")
def test_an_environment_reached_through_a_link_shows_no_solutions(tmp_path):
    (tmp_path / "link").symlink_to(sys.prefix)
    asked = f"""
import sys
from uqhelpers.grading._sandbox import SandboxedLearner
assert sys.prefix == {str(tmp_path / "link")!r}
with SandboxedLearner([{WALK!r}]) as learner:
    print(learner.call("found"))
"""
    done = subprocess.run(
        [tmp_path / "link" / "bin" / "python", "-P", "-c", asked],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr


@sandboxed
def test_of_an_environment_only_what_runs_is_seen(more):
    (more / "secrets").mkdir()
    cell = f"import os\nfound = os.listdir({str(more)!r})"
    with SandboxedLearner([cell], limits=LOW) as learner:
        assert learner.value("found") == ["lib"]


@sandboxed
def test_where_checks_or_solutions_can_be_seen_nothing_starts(more):
    """An editable install, a checkout, a copy inside another package, another name, an archive."""
    planted = [
        package(more / "lib" / "src") / "grading" / "checks",
        package(more / "lib" / "python3.11" / "site-packages" / "vendored") / "grading" / "solutions",
        more / "lib" / "book" / "exercises" / "solutions",
        more / "lib" / "renamed.txt",
        more / "lib" / "uqhelpers-0.1.0-py3-none-any.whl",
    ]
    planted[2].mkdir(parents=True)
    (planted[2] / "odin.ipynb").write_text("{}")
    shutil.copy(TOY, planted[3])
    planted[4].write_text("")
    with pytest.raises(SandboxUnavailable, match="could read checks or solutions here") as caught:
        try_sandbox(TOY)
    assert [path for path in planted if str(path) not in str(caught.value)] == []


def test_checks_of_ones_own_that_submissions_could_read_are_refused(more, tmp_path):
    (tmp_path / "submissions").mkdir()
    shutil.copy(TOY, more / "lib" / "checks.py")
    with pytest.raises(
        SandboxUnavailable, match=r"checks.py lies inside .*/more/lib, which submissions can read"
    ):
        toy(tmp_path / "submissions", tmp_path / "out", checks=more / "lib" / "checks.py")


def test_a_path_is_refused_by_whatever_name_it_has(more, tmp_path):
    (tmp_path / "link").symlink_to(more / "lib")
    with pytest.raises(SandboxUnavailable, match="which submissions can read"):
        _mounts.check_apart(tmp_path / "link" / "grades")


# --- what outlives it ---------------------------------------------------------------------------------------


@sandboxed
def test_nobody_inside_can_rewrite_its_first_process(either):
    cell = """
def tries():
    done = []
    for name, mode in (("mem", "r+b"), ("mem", "rb"), ("environ", "rb"), ("fd/0", "wb"), ("root/x", "wb")):
        try:
            open("/proc/1/" + name, mode)
            done.append(name)
        except OSError:
            pass
    return done
"""
    with SandboxedLearner([cell], limits=LOW) as learner:
        assert learner.call("tries") == []


def alive(pids):
    """Those that run; one that has ended and that nobody has waited for does not."""
    states = {pid: Path(f"/proc/{pid}/stat") for pid in pids}
    return [pid for pid, path in states.items() if path.exists() and path.read_text().split()[2] != "Z"]


DAEMON = """
import os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
"""


@sandboxed
def test_its_end_is_the_end_of_every_process_even_if_bubblewrap_does_not_see_to_it(either, monkeypatch):
    whole = _box.command
    monkeypatch.setattr(
        _box, "command", lambda *a: [part for part in whole(*a) if part != "--die-with-parent"]
    )
    monkeypatch.setattr(subprocess.Popen, "kill", lambda self: os.kill(self.pid, signal.SIGTERM))
    with SandboxedLearner([DAEMON, DOUBLE], limits=LOW) as learner:
        assert learner.call("double", 1) == 2
        processes = family(learner.box.process.pid)
        assert len(processes) >= 4
    assert alive(processes) == []


@sandboxed
def test_a_sandbox_that_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr(_box, "END", 0.2)
    with SandboxedLearner([DOUBLE], limits=LOW) as learner, monkeypatch.context() as patch:
        patch.setattr(signal, "pidfd_send_signal", lambda *a: None)
        with pytest.raises(SandboxUnavailable, match="could not be ended"):
            learner.box.close()
        learner.box = None


def test_what_a_child_leaves_behind_is_adopted_and_ended():
    asked = """
import ctypes, os, time
from uqhelpers.grading import _worker
ctypes.CDLL(None).prctl(_worker.ADOPT, 1, 0, 0, 0)
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        time.sleep(60)
    os._exit(0)
left = int(os.read(reader, 20))
_worker.bury()
assert not os.path.exists(f"/proc/{left}")
print("gone")
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, cwd=ROOT, timeout=30)
    assert done.stdout == "gone\n", done.stderr


@sandboxed
def test_a_grader_that_is_killed_takes_its_sandboxes_with_it(either, tmp_path):
    asked = f"""
import os, sys
from uqhelpers.grading import _box
from uqhelpers.grading._sandbox import SandboxedLearner
if {_box.unused_uid() is None}:
    _box.unused_uid = lambda: None
learner = SandboxedLearner([{DAEMON!r}]).__enter__()
print(*_box.family(learner.box.process.pid), flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", asked], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    processes = [int(word) for word in process.stdout.readline().split()]
    assert len(alive(processes)) >= 3
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while alive(processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(processes) == []


# --- what it takes from its neighbours --------------------------------------------------------------------


@pytest.fixture
def processors(monkeypatch, tmp_path):
    """All of this machine's: held by no sandbox of other tests, or of other people."""
    monkeypatch.setattr(_share, "HELD", f"test-{os.getpid()}-{tmp_path.name}")
    return len(os.sched_getaffinity(0))


@sandboxed
def test_each_runs_on_one_processor_and_cannot_leave_it(either, processors):
    cell = """
import os
def processors():
    try:
        os.sched_setaffinity(0, range(64))
    except OSError:
        pass
    return sorted(os.sched_getaffinity(0))
"""
    with SandboxedLearner([cell], limits=LOW) as one, SandboxedLearner([cell], limits=LOW) as other:
        first, second = one.call("processors"), other.call("processors")
    assert len(first) == len(second) == 1
    if processors > 1:
        assert first != second


def test_a_processor_is_held_by_one_sandbox_and_given_back(processors):
    held = [_share.own_processor() for _ in range(processors)]
    assert len({core for core, _ in held}) == len(held)
    core, lock = _share.own_processor()  # all are taken: shared, not left
    assert core in os.sched_getaffinity(0)
    for one in (*held, (core, lock)):
        one[1].close()
    again = _share.own_processor()
    assert again[0] == held[0][0]
    again[1].close()


@sandboxed
@pytest.mark.skipif(not _share.places(), reason="no control groups can be made here")
def test_a_control_group_bounds_it_and_is_given_back():
    with SandboxedLearner([DOUBLE], limits=LOW) as learner:
        folders = list(learner.box.share.folders)
        inside = {int(pid) for folder in folders for pid in (folder / "cgroup.procs").read_text().split()}
        assert learner.box.pid in inside
        assert any(
            (folder / "pids.max").exists() and (folder / "pids.max").read_text().strip() == "52"
            for folder in folders
        )
    assert folders
    assert not any(folder.exists() for folder in folders)


HOG = """
import os, time
def double(x):
    return 2 * x
for _ in range(28):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
end = time.time() + 3
while time.time() < end:
    pass
"""
WORK = "import time\nwhile time.process_time() < 0.5:\n    pass\ndef double(x):\n    return 2 * x"


@sandboxed
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two at a time need two processors")
def test_a_neighbour_with_many_busy_processes_costs_nobody_a_point(tmp_path):
    from .corpus import notebook

    (tmp_path / "submissions").mkdir()
    for name in ("hog", "honest"):
        (tmp_path / "submissions" / f"{name}.ipynb").write_bytes(notebook([HOG if name == "hog" else WORK]))
    for attempt in range(3):  # other tests, or other people, may hold the processors for a while
        record = toy(tmp_path / "submissions", tmp_path / f"out{attempt}")["honest"]
        if record["score"] == 2:
            break
    assert record["score"] == 2
    assert record["log"] == []


@sandboxed
def test_an_answer_that_waited_for_a_processor_is_told_apart_from_one_that_slept():
    slow = "import time\ndef sleeps():\n    time.sleep(60)\ndef works():\n    while True:\n        pass"
    with SandboxedLearner([slow], limits=LOW) as learner:
        with pytest.raises(Stopped, match="ran longer than 3 seconds"):
            learner.call("sleeps")
        assert not learner.starved
        core = os.sched_getaffinity(learner.box.pid)
        rivals = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
        for rival in rivals:
            os.sched_setaffinity(rival.pid, core)
        with pytest.raises(Stopped, match="ran longer than 3 seconds"):
            learner.call("works")
        for rival in rivals:
            rival.kill()
            rival.wait()
        assert learner.starved


# --- what it takes from the machine -----------------------------------------------------------------------


@sandboxed
@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("for n in range(10**6):\n    open(f'/tmp/home/{n}', 'w').close()", "more than 20000 files"),
        ("import socket\nkept = [socket.socketpair() for _ in range(200)]\n__import__('time').sleep(3)",
         "more than 64 sockets"),
        ("import mmap, time\nm = mmap.mmap(-1, 2**40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\n"
         "for place in range(0, 2**40, 2**21):\n    m[place]\ntime.sleep(3)", "more than 700 MiB of memory"),
    ],
    ids=["files", "sockets", "page tables"],
)  # fmt: skip
def test_what_the_kernel_holds_for_it_is_limited(cell, told, either):
    with SandboxedLearner([cell], limits=LOW) as learner:
        assert any(told in line for line in learner.log), learner.log


@sandboxed
def test_it_reaches_no_network_that_no_namespace_encloses(either):
    cell = """
import socket
opened = []
for family in (16, 17, 31, 38, 40, 44):  # netlink, packet, bluetooth, crypto, vsock, xdp
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind).close()
            opened.append(family)
        except OSError:
            pass
local = [len(socket.socketpair()), socket.socket(socket.AF_INET).fileno() > 0]
"""
    with SandboxedLearner([cell], limits=LOW) as learner:
        assert learner.value("opened") == []
        assert learner.value("local") == [2, True]


@sandboxed
def test_it_stays_the_first_to_go_when_memory_runs_out(either):
    cell = """
import time
def shield():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("0")
    time.sleep(1)
    return True
"""
    with SandboxedLearner([cell], limits=LOW) as learner:
        pid = learner.box.pid
        assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "1000"
        with pytest.raises(Exception, match=r"shielded itself|PermissionError"):
            learner.call("shield")


# --- late, and often ---------------------------------------------------------------------------------------


@sandboxed
def test_a_sandbox_that_ends_just_before_the_deadline_is_out_of_time_and_no_fault_of_the_machine():
    with SandboxedLearner([DOUBLE], limits=LOW) as learner:
        learner._drop()
        learner.deadline = time.monotonic() + 0.05
        with pytest.raises(Stopped, match=r"ran out of time|too often"):
            learner.call("double", 1)


@sandboxed
def test_many_at_once_do_not_meet():
    values, errors = [], []

    def one(number):
        try:
            with SandboxedLearner([DOUBLE], limits=LOW) as learner:
                values.append(learner.call("double", number))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(values) == [0, 2, 4, 6, 8, 10]


def test_a_worker_finds_this_package_and_nothing_in_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "joblib.py").write_text("raise SystemExit('imported from the working folder')")
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported from the working folder')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    worker = _worker.Worker()
    assert worker.grade({}) == {"trouble": "KeyError: 'limits'"}
    assert worker.close() == 0
