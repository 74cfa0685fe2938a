"""Run each notebook that needs it, once: what proves it also fills the book's pages.

nbval runs copies of the notebooks, each in an empty folder and with only the
installed wheel beside it: that is what Colab is. What the cells put out is kept
in ``_build/executed`` under a key, and handed to the book's execution cache;
the build of the site then executes nothing.

The key of a run is a hash of all that can change its outcome: the notebook's
code, the modules of ``uqhelpers`` that this notebook uses (also those which they
use in turn), the lock file, the edition of the data, the training seeds and the Python version. A
notebook whose key has a kept run is proven, and is not run again.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn

from tools import imports
from tools.book import ROOT, notebooks

HARVEST = Path("tests/harvest/conftest.py")
STORE = Path("_build/executed")
CACHE = Path("_build/.jupyter_cache")
PROCESSES = 2
CELL_TIMEOUT = 600  # seconds
QUICK = 60  # seconds of CPU that a notebook may take on a quiet machine
# What the kernels get to know beside the caller's environment: one thread each, as two run side
# by side, and no progress bars, which are neither prose nor figure.
SURROUNDINGS = {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def sha(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def helpers(notebook, root=ROOT):
    """The modules of ``uqhelpers`` whose change makes ``notebook`` run again: {name: path}."""
    package = root / "uqhelpers"
    transform = TransformerManager().transform_cell  # magics become calls that Python can parse
    cells = [cell.source for cell in code_cells(notebook)]
    used = imports.used([transform(c) for c in cells if not c.lstrip().startswith("%%")], package)
    # A data file belongs to everyone, as nothing says who reads it; one in a subpackage, to its users.
    for path in package.rglob("*"):
        inside = path.relative_to(package).parts
        is_data = path.is_file() and path.suffix not in (".py", ".pyc")
        if is_data and (len(inside) == 1 or f"{imports.PACKAGE}.{inside[0]}" in used):
            used[path.relative_to(root).as_posix()] = path
    return used


def key(path, root=ROOT):
    """The hash of all that can change the outcome of the notebook at ``path``.

    Its prose and the metadata of its cells (captions, alt texts) are not part
    of that: they change the page, not the run.
    """
    notebook = nbformat.read(root / path, as_version=4)
    parts = {
        "code": [[c.source, c.outputs, c.metadata.get("tags", [])] for c in code_cells(notebook)],
        "helpers": {name: sha(p.read_bytes()) for name, p in sorted(helpers(notebook, root).items())},
        "lock": sha((root / "requirements.txt").read_bytes()),
        "harvest": sha((root / HARVEST).read_bytes()),
        "surroundings": SURROUNDINGS,
        "edition": os.environ.get("UQ_DATASET", "digits"),
        "seeds": os.environ.get("UQ_SEEDS", "0"),
        "python": sys.version,
    }
    return sha(json.dumps(parts, sort_keys=True))


def stored(path, root=ROOT):
    """Where the run of the notebook at ``path`` is kept, or will be."""
    return root / STORE / path.with_suffix("") / f"{key(path, root)}.json"


def run(paths, root=ROOT, keep=True, loud=True, **environment):
    """Run notebooks under nbval; keep the runs in which every cell passed.

    Parameters
    ----------
    paths : list of pathlib.Path
        Notebooks, relative to ``root``.
    root : pathlib.Path
        The book.
    keep : bool
        Whether what they put out is for the book.
    loud : bool
        Whether pytest speaks as it goes; otherwise only of what failed.
    **environment
        Variables for the kernels beside those of this process.

    Returns
    -------
    int
        pytest's exit status: 0 if every cell of every notebook passed.
    """
    # Under the keys of now: what is edited while they run is not what they prove.
    targets = {path: stored(path, root) for path in paths}
    # Nothing that leads back to the checkout, or to a pytest that runs this one.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith("PYTEST_")}
    environment = {**inherited, **SURROUNDINGS, **environment}
    with tempfile.TemporaryDirectory(prefix="notebooks-") as folder:
        folder = Path(folder).resolve()
        slugs = {path: "-".join(path.with_suffix("").parts[1:]) for path in paths}
        for path, slug in slugs.items():
            (folder / slug).mkdir()
            shutil.copyfile(root / path, folder / slug / path.name)
        shutil.copyfile(root / HARVEST, folder / "conftest.py")
        (folder / "pytest.ini").write_text("[pytest]\naddopts =\n")
        harvest = folder / ".harvest"
        harvest.mkdir()
        command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env"]
        command += [f"--nbval-cell-timeout={CELL_TIMEOUT}", "-p", "no:cacheprovider", "-q"]
        if len(paths) > 1 and loud:
            command += ["-n", str(min(PROCESSES, len(paths))), "--dist", "loadfile"]
        how = {"cwd": folder, "env": {**environment, "UQ_HARVEST": str(harvest)}, "check": False}
        if loud:
            status = subprocess.run([*command, "--color=yes"], **how).returncode
        else:
            done = subprocess.run(command, capture_output=True, text=True, **how)
            status = done.returncode
            print(done.stdout + done.stderr if status else "", end="", flush=True)
        for path, slug in slugs.items():
            if keep and (harvest / f"{slug}.json").exists():
                targets[path].parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(harvest / f"{slug}.json", targets[path])
    return status


def seconds_of(kept):
    """How long the kept run took."""
    return json.loads(kept.read_text(encoding="utf-8"))["seconds"]


def shown(outputs):
    """The outputs of a cell that belong on the page.

    A cell that draws also returns what its last call returned, mostly a list
    of matplotlib's objects: that is no result, and is left out.
    """
    draws = any("image/png" in output.get("data", {}) for output in outputs)
    return [
        o
        for o in outputs
        if not (draws and o["output_type"] == "execute_result" and list(o["data"]) == ["text/plain"])
    ]


def fill_cache(kept_runs, root=ROOT):
    """Hand the kept runs, a dict by notebook, to the book's execution cache."""
    cache = get_cache(root / CACHE)
    keys = {}
    for path, kept in kept_runs.items():
        keys[path.with_suffix("").as_posix()] = kept.stem
        notebook = nbformat.read(root / path, as_version=4)
        try:
            if cache.match_cache_notebook(notebook).data.get("key") == kept.stem:
                continue
        except KeyError:
            pass
        outcome = json.loads(kept.read_text(encoding="utf-8"))
        for number, (cell, outputs) in enumerate(zip(code_cells(notebook), outcome["outputs"], strict=True)):
            cell.outputs = [nbformat.from_dict(output) for output in shown(outputs)]
            cell.execution_count = number + 1
        bundle = CacheBundleIn(
            notebook, path.as_posix(), data={"key": kept.stem, "execution_seconds": outcome["seconds"]}
        )
        cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    # The book's extension reads this to learn which pages show an older run (_ext/known_unknowns.py).
    (root / STORE).mkdir(parents=True, exist_ok=True)
    (root / STORE / "keys.json").write_text(json.dumps(keys, indent=1, sort_keys=True))


def slow(kept_runs):
    """Those of the notebooks, {path: kept run}, that took more CPU than they may.

    Seconds of CPU grow on a loaded machine, too, where two programs share a core's
    caches. So these run again, by themselves: what is slow then is slow.
    """
    return [
        path
        for path, kept in kept_runs.items()
        if json.loads(kept.read_text(encoding="utf-8"))["cpu"] >= QUICK
    ]


def execute(root=ROOT, **environment):
    """Run what is not proven yet, what seems slow once more, then fill the book's cache.

    Returns
    -------
    (list of pathlib.Path, int)
        The notebooks that ran, and the exit status.
    """
    kept_runs = {path: stored(path, root) for path in notebooks(root)}
    stale = [path for path, kept in kept_runs.items() if not kept.exists()]
    status = run(stale, root, **environment) if stale else 0
    if status == 0:
        for path in slow({path: kept_runs[path] for path in stale}):
            status |= run([path], root, **environment)
    if status == 0:
        fill_cache(kept_runs, root)
    for path, kept in kept_runs.items():
        if not kept.exists():
            print(f"{path}: FAILED")
        else:
            outcome = json.loads(kept.read_text(encoding="utf-8"))
            how = "ran" if path in stale else "proven before"
            print(f"{path}: {how}, {outcome['seconds']:.0f} s ({outcome['cpu']:.0f} s of CPU)")
    return stale, status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the notebooks that are not proven yet.")
    parser.add_argument("--which", action="store_true", help="only say which would run")
    parser.add_argument("--elsewhere", action="store_true", help="run all, as other processors round")
    parser.add_argument("--seeds", action="store_true", help="run the chapters from other training seeds")
    parser.add_argument("--mnist", action="store_true", help="run the chapters of images on MNIST")
    chosen = parser.parse_args()
    if chosen.which:
        for path in notebooks():
            print(f"{path}: {'proven' if stored(path).exists() else 'would run'}")
    elif chosen.elsewhere or chosen.seeds or chosen.mnist:
        from tools import elsewhere  # which imports this module

        where = elsewhere.SEEDS if chosen.seeds else elsewhere.EDITION if chosen.mnist else None
        sys.exit(elsewhere.elsewhere(settings=where))
    else:
        sys.exit(execute()[1])
