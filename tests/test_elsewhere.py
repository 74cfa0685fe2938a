"""Every notebook under the rounding of other processors: all of them, the longest first, none twice."""

import re
from pathlib import Path

import nbformat
import pytest
import yaml

from tools import elsewhere, execute
from tools.book import ROOT, notebooks

LONG, SHORT, EXERCISE = Path("book/long.ipynb"), Path("book/short.ipynb"), Path("book/exercises/long.ipynb")


@pytest.fixture
def book(tmp_path):
    """A book of two chapters and an exercise, of which the first is the longest to run."""
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nchapters:\n- file: book/short\n- file: book/long\n"
        "- file: book/exercises/long"
    )
    for name in ("requirements.txt", "uqhelpers/__init__.py", "book/index.md", str(execute.HARVEST)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "book/exercises").mkdir()
    for path, lines in ((LONG, 3000), (SHORT, 10), (EXERCISE, 1)):
        cell = nbformat.v4.new_code_cell("\n".join(f"x = {n}" for n in range(lines)), id="only")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / path)
    return tmp_path


@pytest.fixture
def ran(monkeypatch):
    """What was run, as (setting, path), instead of running it; what stands in ``fails`` fails."""

    def run(paths, root, keep, loud, **environment):
        setting = next(name for name, known in elsewhere.KNOWN.items() if known == environment)
        assert not keep
        found.extend((setting, path) for path in paths)
        return int(any((setting, path) in found.fails for path in paths))

    class Found(list):
        fails = frozenset()

    found = Found()
    monkeypatch.setattr(execute, "run", run)
    monkeypatch.setattr(elsewhere, "others", lambda: elsewhere.SETTINGS)
    return found


def test_every_notebook_runs_under_every_setting_once(book, ran):
    assert elsewhere.elsewhere(book, processes=1) == 0
    assert sorted(ran) == sorted(
        (name, path) for name in elsewhere.SETTINGS for path in (LONG, SHORT, EXERCISE)
    )


def test_the_whole_book_is_covered():
    listed = [
        (setting, path) for setting, paths in elsewhere.jobs(settings=elsewhere.SETTINGS) for path in paths
    ]
    assert sorted(listed) == sorted((name, path) for name in elsewhere.SETTINGS for path in notebooks())


def test_other_seeds_concern_what_reads_them(book, ran):
    notebook = nbformat.read(book / SHORT, as_version=4)
    notebook.cells[0].source = "from uqhelpers import data\nSEEDS = data.seeds(5)"
    nbformat.write(notebook, book / SHORT)
    assert elsewhere.elsewhere(book, processes=1, settings=elsewhere.SEEDS) == 0
    assert sorted(ran) == sorted((name, SHORT) for name in elsewhere.SEEDS)


def test_a_run_from_other_seeds_proves_nothing_of_these(book, monkeypatch):
    ordinary = execute.key(SHORT, book)
    monkeypatch.setenv("UQ_SEEDS", "1")
    assert execute.key(SHORT, book) != ordinary


def test_the_longest_begin_first(book, ran):
    elsewhere.elsewhere(book, processes=1)
    assert ran[0] == ("without vector instructions", LONG)
    assert [path for _, path in ran].index(LONG) < [path for _, path in ran].index(SHORT)


def test_a_claim_that_does_not_hold_is_said_and_only_that_is_run_again(book, ran, capsys):
    ran.fails = {("with AVX2", SHORT)}
    assert elsewhere.elsewhere(book) == 1
    said = capsys.readouterr().out
    assert f"{SHORT}, with AVX2: FAILED" in said
    assert f"{SHORT}, without vector instructions: holds" in said
    ran.clear()
    ran.fails = frozenset()
    assert elsewhere.elsewhere(book) == 0
    assert ran == [("with AVX2", SHORT)]


def test_a_change_of_a_notebook_makes_it_run_again(book, ran):
    elsewhere.elsewhere(book)
    ran.clear()
    (book / SHORT).write_text((book / SHORT).read_text().replace("x = 1", "x = 5"))
    assert elsewhere.elsewhere(book) == 0
    assert {path for _, path in ran} == {SHORT}


@pytest.mark.parametrize(("own", "left"), [("AVX2", 1), ("DEFAULT", 1), ("AVX512", 2), ("SVE", 2)])
def test_what_the_processor_does_anyway_is_not_run_again(own, left, monkeypatch):
    torch = pytest.importorskip("uqhelpers._torch").torch
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: own)
    assert len(elsewhere.others()) == left


def test_the_settings_reach_the_arithmetic_of_torch():
    """Asked of a fresh interpreter: torch itself says which instructions it uses."""
    import os
    import subprocess
    import sys

    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    environment = {**os.environ, **elsewhere.SETTINGS["without vector instructions"]}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "DEFAULT"


def test_the_workflow_asks_once_a_week():
    flow = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text(encoding="utf-8"))
    triggers = flow[True]  # YAML reads the key "on" as a truth
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", triggers["schedule"][0]["cron"])
    weekly = flow["jobs"]["elsewhere"]
    assert "schedule" in weekly["if"]
    assert any(step.get("run") == "make elsewhere" for step in weekly["steps"])
    assert "schedule" in flow["jobs"]["test"]["if"]
