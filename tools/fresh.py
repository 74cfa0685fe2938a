"""Whether the site is that of the present sources: then ``make book`` has nothing to do.

``python -m tools.fresh`` ends with 0 if it is. If not, it notes what the sources
are now; after a build that succeeded, ``--done`` says that the site is theirs.
What changes while the site is being built is thus built the next time.
"""

import argparse
import hashlib
import os
import sys
from pathlib import Path

from tools.book import ROOT

STAMP, PENDING = Path("_build/book.sha256"), Path("_build/book.pending")
SOURCES = (
    "_config.yml",
    "_ext",
    "_static",
    "_toc.yml",
    "benchmarks/results",
    "book",
    "LICENSE",
    "pyproject.toml",
    "README.md",
    "requirements.txt",
    "tests/harvest",
    "tools",
    "uqhelpers",
)


def files(root=ROOT):
    """All files that the site is made of."""
    found = [path for name in SOURCES for path in [root / name, *(root / name).rglob("*")]]
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


def digest(root=ROOT):
    """A hash of those files, of the edition of the data, and of Python."""
    total = hashlib.sha256(f"{os.environ.get('UQ_DATASET', 'digits')} {sys.version}\n".encode())
    for path in files(root):
        content = path.read_bytes()
        total.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()


def is_fresh(root=ROOT):
    """Whether the site is there and was built from the present sources; notes what they are if not."""
    now, stamp = digest(root), root / STAMP
    built = root / "_build" / "html" / "index.html"
    if built.exists() and stamp.exists() and stamp.read_text() == now:
        return True
    stamp.unlink(missing_ok=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    (root / PENDING).write_text(now)
    return False


def done(root=ROOT):
    """The site was built from the sources that were noted."""
    os.replace(root / PENDING, root / STAMP)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Whether the site is that of the present sources.")
    parser.add_argument("--done", action="store_true", help="it is now: the build has succeeded")
    if parser.parse_args().done:
        done()
    elif is_fresh():
        print("the site: _build/html/index.html, nothing has changed")
    else:
        sys.exit(1)
