"""A fair share of the machine for each sandbox: a processor, and a control group where there are any.

Each sandbox runs on one processor and cannot leave it, so that what it starts
takes time from itself and from nobody else, as long as there are as many
processors as sandboxes. Where control groups can be made (version 2, or 1), it
has one: processors that have to be shared are shared by sandbox, not by
process, and the kernel itself bounds its processes and all its memory.
"""

import contextlib
import itertools
import os
import signal
import socket
import time
from pathlib import Path

from ._limits import MEGABYTE
from ._usage import LEAST_ADJUSTMENT

NUMBERS = itertools.count()
HELD = "uqhelpers-grading-processor"
SLACK = 192 * MEGABYTE  # the kernel's own for a sandbox, shared memory, the start


class Share:
    """What one sandbox gets of the machine.

    Parameters
    ----------
    limits : Limits
    """

    def __init__(self, limits):
        self.core, self.lock = own_processor()
        self.folders = []
        most = {
            "pids.max": limits.processes + 4,
            "memory.max": limits.memory + limits.disk + SLACK,
            "memory.swap.max": 0,
            "memory.limit_in_bytes": limits.memory + limits.disk + SLACK,
        }
        name = f"uqhelpers-{os.getpid()}-{next(NUMBERS)}"
        for place in places():
            folder = place / name
            with contextlib.suppress(OSError):
                folder.mkdir()
                self.folders.append(folder)
            for file, value in most.items():
                with contextlib.suppress(OSError):
                    if (folder / file).exists():
                        (folder / file).write_text(str(value))

    def admit(self, pid):
        """Put a process in its place, before it runs anything; all that it starts stays there."""
        os.sched_setaffinity(pid, {self.core})
        for folder in self.folders:
            with contextlib.suppress(OSError):
                (folder / "cgroup.procs").write_text(str(pid))
        # Written by root, it cannot be lowered from inside; by others, the watcher looks at it.
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(LEAST_ADJUSTMENT))

    def out_of_memory(self):
        """Whether the kernel has ended one of its processes for want of memory."""
        for folder in self.folders:
            for file in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (folder / file).read_text().splitlines():
                        name, _, count = line.partition(" ")
                        if name == "oom_kill" and int(count):
                            return True
        return False

    def close(self):
        """Give everything back; what should still be in the group is ended."""
        deadline = time.monotonic() + 5
        for folder in self.folders:
            while folder.exists() and time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                with contextlib.suppress(OSError, ValueError):
                    for pid in (folder / "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.005)
        self.folders = []
        self.lock.close()


def own_processor():
    """A processor that no other sandbox of this machine holds, if there is one, and what holds it.

    The hold is a name in the kernel that goes with the process: nothing is left when that is killed.
    """
    cores = sorted(os.sched_getaffinity(0))
    for core in cores:
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0{HELD}-{core}")
            return core, lock
        except OSError:
            lock.close()
    return cores[next(NUMBERS) % len(cores)], socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def places():
    """The folders in which this process may make control groups: one, or one for each kind; often none."""
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        mounted = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return []
    found = []
    for _, controllers, own in lines:
        for _, top, kind, options, *_ in mounted:
            names = set(controllers.split(","))
            if kind == "cgroup" and names & {"cpu", "memory", "pids"} & set(options.split(",")):
                found.append(Path(top, own.lstrip("/")))
            elif kind == "cgroup2" and not controllers:
                # Beside our own group, not in it: one that holds processes has no groups with limits.
                beside = Path(top, own.lstrip("/")).parent if own != "/" else Path(top)
                found.append(Path(top) if os.geteuid() == 0 and shares_time(Path(top)) else beside)
    return [place for place in dict.fromkeys(found) if usable(place)]


def shares_time(place):
    """Whether the groups made in a folder of version 2 would share the processors."""
    with contextlib.suppress(OSError):
        return "cpu" in (place / "cgroup.subtree_control").read_text().split()
    return False


def usable(place):
    version2 = (place / "cgroup.subtree_control").exists()
    return os.access(place, os.W_OK) and (not version2 or shares_time(place))
