"""What the processes of a sandbox spend, as seen from outside."""

import os

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
