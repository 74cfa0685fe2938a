"""What runs on every push: well-formed, no doors left open, and nothing that skips in silence."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.book import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
RUN = ROOT / ".ci/run"


def tool(name):
    return str(Path(sys.executable).with_name(name))


def said(command, **how):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_well_formed(path):
    status, words = said([tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", path])
    assert status == 0, words


def test_a_workflow_that_is_not_well_formed_is_found(tmp_path):
    wrong = WORKFLOWS[0].read_text(encoding="utf-8").replace("runs-on:", "run-on:")
    (tmp_path / "wrong.yml").write_text(wrong)
    status, _ = said(
        [tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", tmp_path / "wrong.yml"]
    )
    assert status != 0


def test_the_workflows_leave_no_door_open():
    status, words = said([tool("zizmor"), "--offline", "--no-progress", *WORKFLOWS])
    assert status == 0, words


def test_a_door_left_open_is_found(tmp_path):
    wrong = WORKFLOWS[0].read_text(encoding="utf-8").replace("persist-credentials: false", "")
    wrong = re.sub(r"@[0-9a-f]{40}", "@main", wrong)
    wrong = wrong.replace("run: .ci/run", "run: echo ${{ github.event.pull_request.title }}")
    (tmp_path / "wrong.yml").write_text(wrong)
    status, _ = said([tool("zizmor"), "--offline", "--no-progress", tmp_path / "wrong.yml"])
    assert status != 0


def test_the_oldest_python_and_that_of_colab_are_tried():
    flow = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text(encoding="utf-8"))
    assert flow["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.13"]
    oldest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert oldest == "3.11"


# --- a skip that is a failure ---------------------------------------------------------------------

TESTS = """
import pytest

def test_sees():
    pytest.skip("no browser on the path (chromium)")

@pytest.mark.skipif(True, reason="no sandbox here: bubblewrap is missing")
def test_grades():
    pass

def test_computes_on_a_gpu():
    pytest.skip("no GPU")
"""


@pytest.mark.parametrize(("ci", "failed", "skipped"), [("true", 2, 1), ("", 0, 3)])
def test_what_is_missing_fails_where_it_must_be_there(ci, failed, skipped, tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {"CI": ci, "PYTHONPATH": str(ROOT)}
    status, words = said([*command, "--rootdir", tmp_path, "test_some.py"], cwd=tmp_path, env=environment)
    assert (status != 0) == bool(failed)
    assert f"{skipped} skipped" in words, words
    found = [line for line in words.splitlines() if line.startswith(("FAILED", "ERROR "))]
    assert len(found) == failed, words
    assert ("what the tests need must be there" in words) == bool(failed)


# --- .ci/run as who may do what -------------------------------------------------------------------


def installs(tmp_path, user, sudo, missing=""):
    """What ``.ci/run`` would do with these rights and neither browser nor bubblewrap: its calls, in order."""
    (tmp_path / "project/.ci").mkdir(parents=True)
    shutil.copy(RUN, tmp_path / "project/.ci/run")
    tools, log = tmp_path / "bin", tmp_path / "log"
    tools.mkdir()

    def stand_in(name, body):
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)

    for name in ("bash", "dirname", "env", "cat", "false", "true"):
        (tools / name).symlink_to(shutil.which(name))
    stand_in("id", f"echo {0 if user == 'root' else 1000}")
    for name in ("apt-get", "make", "sysctl"):
        stand_in(name, f'echo "{name} $*" >> {log}; [[ -z "{missing}" || "$*" != *"{missing}" ]]')
    if sudo is not None:
        stand_in("sudo", f'shift; echo "sudo $1" >> {log}; "$@"' if sudo else "exit 1")
    done = subprocess.run(
        [tmp_path / "project/.ci/run"], env={"PATH": str(tools)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines(), done.stdout


@pytest.mark.parametrize(
    ("user", "sudo"), [("root", None), ("runner", True)], ids=["root", "who may use sudo"]
)
def test_who_may_install_gets_a_browser_and_a_sandbox(user, sudo, tmp_path):
    calls, _ = installs(tmp_path, user, sudo)
    installed = [call.split()[-1] for call in calls if call.startswith("apt-get install")]
    assert installed == ["chromium", "bubblewrap"]
    assert ("sudo apt-get" in calls) == (user != "root")
    assert calls[-1] == "make test"


@pytest.mark.parametrize("sudo", [None, False], ids=["no sudo", "sudo that asks for a password"])
def test_who_may_not_install_is_told_and_goes_on(sudo, tmp_path):
    calls, words = installs(tmp_path, "runner", sudo)
    assert calls == ["make test"]
    assert "could not install chromium:" in words
    assert "could not install bubblewrap:" in words


def test_what_cannot_be_had_takes_nothing_else_with_it(tmp_path):
    calls, words = installs(tmp_path, "root", None, missing="chromium")
    assert [call.split()[-1] for call in calls] == ["-qq", "chromium", "bubblewrap", "test"]
    assert "could not install chromium:" in words
    assert "bubblewrap" not in words


@pytest.mark.parametrize(("printing", "testing"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_make_test_is_green_only_if_the_pdf_and_the_tests_are(printing, testing, tmp_path):
    python, log = tmp_path / "python", tmp_path / "log"
    python.write_text(
        f"#!/bin/sh\n[ $2 = tools.pdf ] && {{ sleep 0.2; echo pdf >> {log}; exit {printing}; }}\n"
        f"echo $2 >> {log}; exit {testing}\n"
    )
    python.chmod(0o755)
    command = ["make", "-f", ROOT / "Makefile", "test", f"PY={python}", "-o", "lint", "-o", "book"]
    status, words = said(command, cwd=tmp_path)
    assert (status == 0) == (printing == testing == 0), words
    assert log.read_text().split() == ["pytest", "pdf"]  # both have ended
