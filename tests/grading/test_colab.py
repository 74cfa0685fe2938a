"""The learner's side where most learners are: Colab's IPython, a renamed notebook alone in a folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEMS = sorted(path.stem for path in (ROOT / "book" / "exercises").glob("*.ipynb"))

# What Colab ships and the book's own environment does not.
COLAB = ["ipython==7.34.0", "traitlets==5.7.1", "pickleshare==0.7.5", "backcall==0.2.0", "decorator==4.4.2"]

# Runs a notebook's cells one after the other, and reports how long each took and what it showed.
RUN = """
import json, sys, time
import IPython
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

assert IPython.version_info[:2] == (7, 34), IPython.__version__
shell = InteractiveShell.instance()
report = []
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        source = "".join(cell["source"])
        with capture_output() as shown:
            start = time.perf_counter()
            result = shell.run_cell(source)
            seconds = time.perf_counter() - start
        texts = [str(output.data.get("text/plain", "")) for output in shown.outputs]
        texts.append(repr(result.result) if result.result is not None else "")
        report.append([source, seconds, result.success, shown.stdout + "".join(texts)])
json.dump(report, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """A folder that puts Colab's IPython before ours."""
    folder = tmp_path_factory.mktemp("colab")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *COLAB]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("Colab's IPython could not be installed (no network?)")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_an_unanswered_exercise_runs_through_and_every_check_says_not_yet(stem, colab, tmp_path):
    notebook = tmp_path / "Copy of my homework (1).ipynb"
    notebook.write_bytes((ROOT / "book" / "exercises" / f"{stem}.ipynb").read_bytes())
    environment = {
        **os.environ,
        "PYTHONPATH": f"{colab}{os.pathsep}{ROOT}",
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, notebook.name, "report.json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert all(success for _, _, success, _ in report), [row for row in report if not row[2]]
    checks = [row for row in report if row[0].startswith("check(")]
    assert len(checks) >= 5
    for source, seconds, _, shown in checks:
        assert "not yet" in shown.lower(), (source, shown)
        assert seconds < 1 * max(1, os.getloadavg()[0] / os.cpu_count()), (source, seconds)
