"""What the sandbox sees of this machine: a list, and nothing else."""

import os
import sys
import sysconfig
from pathlib import Path

from ._limits import SandboxUnavailable

SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")


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
