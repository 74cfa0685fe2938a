"""What the sandbox sees of this machine: a list, and nothing else.

Of the interpreter's environment only the parts are mounted that run programs,
at the names by which the interpreter knows them. A copy of this package that
lies in there is covered by the one without checks at every name it has: what
counts is the real folder, not the path by which somebody came to it. Whether
that was enough is not believed but looked at, from inside (``_sweep``).
"""

import os
import sys
import sysconfig
from pathlib import Path

from ._copy import PACKAGE
from ._limits import SandboxUnavailable

SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
PARTS = (
    "bin",
    "lib",
    "lib32",
    "lib64",
    "pyvenv.cfg",
)  # of an environment: what runs
PACKAGES = "lib*/python*/*-packages"


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

    for path in visible():
        if os.path.islink(path):
            parents(path)
            arguments.extend(["--symlink", os.readlink(path), path])
        else:
            bind(path, path)
    for path in covered():
        bind(Path(library) / "uqhelpers", path)
    bind(library, "/sandbox/lib")
    bind(runner, "/sandbox/runner.py")
    return arguments


def environment():
    """The interpreter's folders outside /usr, outermost first."""
    folders = sorted({os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix)})
    folders += [str(p) for p in (sys.prefix, sys.base_prefix) if p not in folders]  # reached by another name
    return [p for p in folders if not Path(p).is_relative_to("/usr")]


def visible():
    """Every file, folder and link that is mounted, under its own name."""
    paths = [*SYSTEM, *(os.path.join(folder, part) for folder in environment() for part in PARTS)]
    return [path for path in paths if os.path.lexists(path)]


def copies():
    """The real folders of every copy of this package that an interpreter of here could import."""
    tops = [Path(top) for top in (*environment(), "/usr", "/usr/local")]
    places = {place for top in tops for place in top.glob(PACKAGES)}
    places |= {Path(p) for p in (*sys.path, *map(sysconfig.get_path, ("purelib", "platlib"))) if p}
    found = [PACKAGE, *(place / "uqhelpers" for place in places)]
    return sorted({os.path.realpath(path) for path in found if path.is_dir()})


def covered():
    """Every name that a copy of this package has in a mounted folder."""
    names = set()
    for path in visible():
        top = os.path.realpath(path)
        names |= {
            str(Path(path, os.path.relpath(one, top))) for one in copies() if Path(one).is_relative_to(top)
        }
    return sorted(names)


def check_apart(*paths):
    """Refuse to grade what a submission could read: ``paths`` must lie outside the mounted folders."""
    for path in paths:
        for folder in visible():
            if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                raise SandboxUnavailable(
                    f"{path} lies inside {folder}, which submissions can read: move it elsewhere"
                )
