"""What the processes of a sandbox spend, as seen from outside."""

import contextlib
import os
from dataclasses import dataclass

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
LEAST_ADJUSTMENT = 1000  # what every process of a sandbox has for its oom_score_adj: it goes first


@dataclass(frozen=True)
class Usage:
    """What a tree of processes holds.

    Attributes
    ----------
    memory : int
        Bytes: resident, swapped out, and in page tables.
    tasks : int
        Processes and threads.
    shielded : bool
        Whether one of them has made itself harder to end when the machine runs out of memory.
    """

    memory: int
    tasks: int
    shielded: bool


def family(root):
    """``root`` and all processes below it."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry.name}/stat", "rb") as file:
                parents[int(entry.name)] = int(file.read().rpartition(b")")[2].split()[1])
    below, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below, grown = below | more, bool(more)
    return below


def usage(root, enough=0):
    """What ``root`` and everything below it holds, as a `Usage`.

    What forked processes share is counted once, which takes longer; it is done
    only if the plain sum exceeds ``enough``.
    """
    memory, tasks, shielded = {}, 0, False
    for pid in family(root):
        with contextlib.suppress(OSError):
            facts = status(pid)
            memory[pid] = 1024 * sum(facts.get(name, 0) for name in ("VmRSS", "VmSwap", "VmPTE"))
            tasks += facts.get("Threads", 1)
            with open(f"/proc/{pid}/oom_score_adj") as file:
                shielded = shielded or int(file.read()) < LEAST_ADJUSTMENT
    total = sum(memory.values())
    if total > enough:
        total = sum(proportional(pid, resident) for pid, resident in memory.items())
    return Usage(total, tasks, shielded)


def status(pid):
    """The numbers of a process's status, by name; sizes in KiB."""
    facts = {}
    with open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            name, _, rest = line.partition(b":")
            words = rest.split()
            if words and words[0].isdigit():
                facts[name.decode()] = int(words[0])
    return facts


def proportional(pid, resident):
    """A process's bytes, those that it shares divided among the sharers."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            facts = {line.split(b":")[0]: line.split()[1] for line in file if line.count(b"kB") == 1}
        tables = status(pid).get("VmPTE", 0)
        return 1024 * (int(facts[b"Pss"]) + int(facts.get(b"SwapPss", 0)) + tables)
    except (OSError, KeyError):  # gone, or not for us to read
        return resident


def waited(pid):
    """Seconds that a process's first thread was ready to run and had no processor; None if nobody counts."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return None


class Kernel:
    """What a sandbox makes the kernel hold that is no process's memory: files and sockets.

    Opened before anything untrusted runs, and looked at through what was opened.

    Parameters
    ----------
    pid : int
        A process of the sandbox.
    """

    def __init__(self, pid):
        self.folders, self.sockets = [], None
        for name in ("tmp", "dev/shm"):
            with contextlib.suppress(OSError):
                self.folders.append(os.open(f"/proc/{pid}/root/{name}", os.O_PATH | os.O_DIRECTORY))
        with contextlib.suppress(OSError):
            self.sockets = os.open(f"/proc/{pid}/net/sockstat", os.O_RDONLY)

    def files_in_use(self):
        """Files and folders in its file systems in memory, deleted ones that are open among them."""
        facts = [os.fstatvfs(folder) for folder in self.folders]
        return sum(fact.f_files - fact.f_ffree for fact in facts)

    def sockets_in_use(self):
        if self.sockets is None:
            return 0
        return int(os.pread(self.sockets, 100, 0).split()[2])

    def close(self):
        for descriptor in (*self.folders, self.sockets):
            if descriptor is not None:
                os.close(descriptor)
        self.folders, self.sockets = [], None
