"""Build the wheel of ``uqhelpers`` and install it into this environment, if its sources changed.

The chapters run against this wheel, not against the checkout: a file that the
wheel lacks is then missing for us too, not for a learner in Colab only.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.book import ROOT

SOURCES = ["pyproject.toml", "README.md", "LICENSE"]


def sources(root=ROOT):
    """The files that the wheel is made of, relative to ``root``."""
    package = [path.relative_to(root) for path in (root / "uqhelpers").rglob("*") if path.is_file()]
    return [Path(name) for name in SOURCES] + sorted(p for p in package if "__pycache__" not in p.parts)


def digest(root=ROOT):
    """A hash of those files, their names and their contents."""
    total = hashlib.sha256()
    for path in sources(root):
        content = (root / path).read_bytes()
        total.update(f"{path.as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()


def build(target, root=ROOT):
    """Build the wheel into the folder ``target``, from a copy: a checkout keeps what was deleted."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for path in sources(root):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, folder / path)
        pip("wheel", "--no-build-isolation", "--wheel-dir", target, folder)
    return next(Path(target).glob("uqhelpers-*.whl"))


def pip(command, *arguments):
    """Run pip for one package of ours: quietly, from here, without its dependencies."""
    # The date in the archive is fixed, so that the same sources give the same wheel.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1577836800"}
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", command, *options, *arguments], check=True, env=environment)


def main():
    """Bring the installed wheel up to date."""
    stamp = Path(sys.prefix) / "uqhelpers.sha256"
    wanted = digest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    target = ROOT / "_build" / "wheel"
    shutil.rmtree(target, ignore_errors=True)
    wheel = build(target)
    pip("install", "--force-reinstall", wheel)
    stamp.write_text(wanted)
    print(f"installed {wheel.name}")


if __name__ == "__main__":
    main()
