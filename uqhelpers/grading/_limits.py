"""What a submission may spend, and what is said where it cannot be run."""

from dataclasses import dataclass

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
        Bytes of memory, of files, and of one answer.
    processes : int
        Processes and threads.
    files, sockets : int
        Files and folders that exist, and sockets: each takes room in the
        kernel that is no process's memory.
    restarts : int
        Fresh sandboxes after one that ended or hung.
    """

    cell: float = 60.0
    call: float = 20.0
    total: float = 240.0
    memory: int = 3072 * MEGABYTE
    disk: int = 256 * MEGABYTE
    answer: int = 4 * MEGABYTE
    processes: int = 32
    files: int = 20_000
    sockets: int = 64
    restarts: int = 3
