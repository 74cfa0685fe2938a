"""One execution proves a chapter and fills its page; what did not change is not run again."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_cache import get_cache

from tools import execute, imports, site, wheel
from tools.book import ROOT, notebooks, pages
from tools.tidy import METADATA

v4 = nbformat.v4


# --- which modules a notebook uses ----------------------------------------------------------------


@pytest.fixture
def package(tmp_path):
    """A package with every way to import, and modules that nobody imports."""
    sources = {
        "__init__.py": "import importlib\ndef __getattr__(name): return importlib.import_module(name)",
        "_checks.py": "",
        "metrics.py": "from uqhelpers._checks import as_real",
        "plots.py": "def draw():\n    from . import metrics",
        "training.py": '"""See uqhelpers.plots."""\nimport uqhelpers._checks as checks',
        "loop.py": "from uqhelpers import pool",
        "pool.py": "from uqhelpers import loop",
        "data/__init__.py": "from .digits import load",
        "data/digits.py": "from .. import _checks",
        "data/toys.py": "",
        "grading/__init__.py": "import importlib\ndef check(name): importlib.import_module(f'{name}')",
        "grading/checks/one.py": "import uqhelpers\n\ndef check():\n    return uqhelpers.training.fit()",
    }
    for name, text in sources.items():
        path = tmp_path / "uqhelpers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "uqhelpers"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import numpy", ""),
        ("import uqhelpers", " "),
        ("from uqhelpers import metrics", " metrics _checks"),
        ("import uqhelpers.metrics", " metrics _checks"),
        ("from uqhelpers.metrics import brier_score", " metrics _checks"),
        ("import uqhelpers\nuqhelpers.metrics.brier_score(p)", " metrics _checks"),
        ("import uqhelpers as uq\nuq.metrics", " metrics _checks"),
        ("from uqhelpers import plots as p", " plots metrics _checks"),
        ("def f():\n    from uqhelpers import training", " training _checks"),
        ("from uqhelpers import data", " data data.digits _checks"),
        ("from uqhelpers import data\ndata.toys.line()", " data data.digits data.toys _checks"),
        ("from uqhelpers import loop", " loop pool"),
        (
            "from uqhelpers.grading import check",
            " grading grading.checks.one training _checks",
        ),
        ('get_ipython().system("python -m uqhelpers.training")', " training _checks"),
        ('import importlib\nimportlib.import_module("uqhelpers.training")', None),
    ],
)
def test_what_a_piece_of_code_uses(code, expected, package):
    used = set(imports.used(code, package))
    if expected is None:  # chosen at run time: all
        assert used == set(imports.modules(package))
    else:
        names = expected.split(" ") if expected else []
        assert used == {f"uqhelpers.{name}".rstrip(".") for name in names}


def test_the_first_chapter_does_not_depend_on_what_it_does_not_use():
    used = imports.used("from uqhelpers import metrics", ROOT / "uqhelpers")
    assert "uqhelpers.metrics" in used
    assert "uqhelpers._checks" in used
    assert "uqhelpers.training" not in used


# --- what makes a notebook run again --------------------------------------------------------------


def notebook(*cells):
    made = v4.new_notebook(cells=[v4.new_markdown_cell("# One\n\nIt counts."), *cells], metadata=METADATA)
    made.nbformat_minor = 5
    return made


@pytest.fixture
def book(tmp_path):
    """A book of two chapters; the first uses ``metrics``, the second does not."""
    helpers = {
        "uqhelpers/__init__.py": "",
        "uqhelpers/metrics.py": "from uqhelpers import _checks\n\nANSWER = 41 + _checks.ONE",
        "uqhelpers/_checks.py": "ONE = 1",
        "uqhelpers/plots.py": "NAME = 'plots'",
        "requirements.txt": "numpy==2.0",
        "_toc.yml": "format: jb-book\nroot: book/index\nchapters:\n- file: book/first\n- file: book/second",
        "book/index.md": "# Book\n\n{chapters}\n",
    }
    for name, text in helpers.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    write(tmp_path, "first", "from uqhelpers import metrics\nprint('answer', metrics.ANSWER)")
    write(tmp_path, "second", "from uqhelpers import plots\nprint(plots.NAME)")
    (tmp_path / execute.HARVEST).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / execute.HARVEST, tmp_path / execute.HARVEST)
    return tmp_path


def write(book, stem, *sources):
    cells = [v4.new_code_cell(source, id=f"{stem}-{n}") for n, source in enumerate(sources)]
    nbformat.write(notebook(*cells), book / "book" / f"{stem}.ipynb")


FIRST, SECOND = Path("book/first.ipynb"), Path("book/second.ipynb")


def edit(path, old, new):
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "again"),
    [
        ("uqhelpers/metrics.py", "41", "42", {FIRST}),
        ("uqhelpers/_checks.py", "1", "2", {FIRST}),
        ("uqhelpers/plots.py", "plots", "drawn", {SECOND}),
        ("uqhelpers/__init__.py", "", "X = 1", {FIRST, SECOND}),
        ("requirements.txt", "2.0", "2.1", {FIRST, SECOND}),
        ("book/first.ipynb", "'answer'", "'result'", {FIRST}),
        ("book/first.ipynb", "It counts.", "It adds.", set()),
        ("tests/harvest/conftest.py", "earlier", "previous", {FIRST, SECOND}),
    ],
)
def test_a_change_makes_those_run_again_that_use_it(name, old, new, again, book):
    before = {path: execute.key(path, book) for path in notebooks(book)}
    edit(book / name, old, new)
    assert {path for path in before if execute.key(path, book) != before[path]} == again


def test_the_edition_of_the_data_is_part_of_the_key(book, monkeypatch):
    monkeypatch.delenv("UQ_DATASET", raising=False)
    before = execute.key(FIRST, book)
    monkeypatch.setenv("UQ_DATASET", "mnist")
    assert execute.key(FIRST, book) != before
    monkeypatch.setenv("UQ_DATASET", "digits")
    assert execute.key(FIRST, book) == before


def test_a_data_file_in_the_package_belongs_to_everyone(book):
    before = [execute.key(path, book) for path in (FIRST, SECOND)]
    (book / "uqhelpers/table.csv").write_text("1,2")
    assert all(execute.key(path, book) != key for path, key in zip((FIRST, SECOND), before, strict=True))


def test_a_data_file_of_a_subpackage_belongs_to_those_who_use_it(book):
    before = execute.key(FIRST, book)
    (book / "uqhelpers/data").mkdir()
    (book / "uqhelpers/data/__init__.py").touch()
    (book / "uqhelpers/data/table.csv").write_text("1,2")
    assert execute.key(FIRST, book) == before
    write(book, "second", "from uqhelpers import data")
    assert "uqhelpers/data/table.csv" in execute.helpers(nbformat.read(book / SECOND, 4), book)


def test_a_caption_is_no_reason_to_run(book):
    before = execute.key(FIRST, book)
    changed = nbformat.read(book / FIRST, 4)
    changed.cells[1].metadata["mystnb"] = {"image": {"alt": "An answer."}}
    nbformat.write(changed, book / FIRST)
    assert execute.key(FIRST, book) == before


# --- running, and what becomes of it --------------------------------------------------------------


def test_a_notebook_runs_once_and_its_page_shows_it(book):
    """The whole way, twice: run, build, change a helper, run and build again."""
    shutil.copytree(ROOT / "_ext", book / "_ext")
    (book / "_config.yml").write_text(
        "title: Book\nonly_build_toc_files: true\n"
        "execute: {execute_notebooks: cache, raise_on_error: true}\n"
        "sphinx: {local_extensions: {known_unknowns: _ext}}\n"
    )
    beside = {"PYTHONPATH": str(book)}  # in place of the installed wheel
    ran, status = execute.execute(book, **beside)
    assert (ran, status) == ([FIRST, SECOND], 0)
    assert site.build(book) == 0
    page = book / "_build/html/book/first.html"
    assert "answer 42" in page.read_text()

    ran, status = execute.execute(book, **beside)
    assert (ran, status) == ([], 0)

    edit(book / "uqhelpers/metrics.py", "41", "99")
    second_page = (book / "_build/html/book/second.html").stat().st_mtime_ns
    ran, status = execute.execute(book, **beside)
    assert (ran, status) == ([FIRST], 0)
    assert site.build(book) == 0
    assert "answer 100" in page.read_text()
    assert (book / "_build/html/book/second.html").stat().st_mtime_ns == second_page
    assert get_cache(book / execute.CACHE).list_project_records() == []  # the build itself ran nothing

    edit(book / FIRST, "'answer'", "'result'")  # and it refuses to
    assert site.build(book) != 0
    assert get_cache(book / execute.CACHE).list_project_records() == []


def test_what_seems_slow_runs_once_more_by_itself(book, monkeypatch):
    """A loaded machine counts more seconds of CPU; what is slow by itself stays slow, and is seen."""
    asked = []

    def run(paths, root, **environment):
        asked.append(list(paths))
        for path in paths:
            kept = execute.stored(path, root)
            kept.parent.mkdir(parents=True, exist_ok=True)
            cpu = {FIRST: 90 - 40 * (len(asked) > 1), SECOND: 20}[path]
            kept.write_text(json.dumps({"cpu": cpu, "seconds": cpu, "outputs": []}))
        return 0

    monkeypatch.setattr(execute, "run", run)
    monkeypatch.setattr(execute, "fill_cache", lambda kept_runs, root: None)
    assert execute.execute(book) == ([FIRST, SECOND], 0)
    assert asked == [[FIRST, SECOND], [FIRST]]
    assert json.loads(execute.stored(FIRST, book).read_text())["cpu"] == 50
    assert execute.execute(book) == ([], 0)  # proven: neither runs again
    assert len(asked) == 2


LOOK = """
import os, pathlib
print(sorted(p.name for p in pathlib.Path().iterdir()), os.getenv("PYTHONPATH"))
print(os.environ["OMP_NUM_THREADS"], os.environ["TQDM_DISABLE"])
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Five notebooks that are run at once: the book, what was said, and the exit status."""
    book = tmp_path_factory.mktemp("five")
    for name in (execute.HARVEST, "requirements.txt"):
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, book / name)
    (book / "uqhelpers").mkdir()
    (book / "uqhelpers" / "__init__.py").touch()
    (book / "book").mkdir()
    write(book, "failing", "x = 1", "raise RuntimeError('the claim does not hold')", "print(x)")
    write(book, "passing", "print(1)")
    write(book, "looking", LOOK.strip())
    for stem, shown in (("same", "5\n"), ("other", "6\n")):
        cell = v4.new_code_cell("#NBVAL_CHECK_OUTPUT\nprint(5)", id=stem, execution_count=1)
        cell.outputs = [v4.new_output("stream", text=shown)]
        nbformat.write(notebook(cell), book / "book" / f"{stem}.ipynb")
    stems = ["failing", "passing", "looking", "same", "other"]
    # In a process of its own, whose output is kept, and with a way back to the checkout to be shut.
    code = (
        "import sys; from pathlib import Path; from tools import execute; root = Path(sys.argv[1]);"
        "sys.exit(execute.run([Path('book', f'{stem}.ipynb') for stem in sys.argv[2:]], root))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(book), *stems],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    kept = {stem: execute.stored(Path("book", f"{stem}.ipynb"), book) for stem in stems}
    return kept, done.stdout, done.returncode


def test_a_failing_cell_fails_loudly_and_keeps_what_passed(outcome):
    kept, said, status = outcome
    assert status == 1
    assert "the claim does not hold" in said
    assert "RuntimeError" in said
    assert "an earlier cell of this notebook failed" in said or "1 skipped" in said
    assert kept["passing"].exists()
    assert not kept["failing"].exists()


def test_a_notebook_sees_an_empty_folder_and_not_the_checkout(outcome):
    outputs = json.loads(outcome[0]["looking"].read_text())["outputs"][0]
    assert outputs[0]["text"] == "['looking.ipynb'] None\n1 1\n"


def test_an_output_that_differs_from_the_stored_one_fails(outcome):
    kept, said, _ = outcome
    assert kept["same"].exists()
    assert not kept["other"].exists()
    assert "2 failed" in said  # this one, and the cell that raises


def test_what_a_plot_returns_is_not_shown_beside_it():
    returned = {"output_type": "execute_result", "data": {"text/plain": "[<Line2D>]"}}
    figure = {"output_type": "display_data", "data": {"image/png": "", "text/plain": "<Figure>"}}
    printed = {"output_type": "stream", "name": "stdout", "text": "5"}
    assert execute.shown([returned, figure, printed]) == [figure, printed]
    assert execute.shown([returned, printed]) == [returned, printed]


# --- the book itself ------------------------------------------------------------------------------

built = pytest.mark.skipif(
    not (ROOT / "_build/html/index.html").exists(), reason="there is no built site: `make book` builds it"
)


@built
def test_building_the_site_executed_nothing():
    cache = get_cache(ROOT / execute.CACHE)
    assert cache.list_project_records() == []
    for path in notebooks():
        record = cache.match_cache_notebook(nbformat.read(ROOT / path, as_version=4))
        assert record.data["key"] == execute.key(path)


@built
@pytest.mark.parametrize("path", [p for p in notebooks() if p.with_suffix("").as_posix() in pages()], ids=str)
def test_the_page_of_a_chapter_carries_the_outputs_of_its_proof(path):
    html = (ROOT / "_build/html" / path.with_suffix(".html")).read_text(encoding="utf-8")
    outcome = json.loads(execute.stored(path).read_text(encoding="utf-8"))["outputs"]
    cells = execute.code_cells(nbformat.read(ROOT / path, as_version=4))
    hidden = {"remove-cell", "remove-output"}
    expected = 0
    for cell, outputs in zip(cells, outcome, strict=True):
        for output in outputs if not hidden & set(cell.metadata.get("tags", [])) else []:
            if "image/png" in output.get("data", {}):
                picture = base64.decodebytes(output["data"]["image/png"].encode())
                assert f"{hashlib.sha256(picture).hexdigest()}.png" in html
                expected += 1
    assert expected > 0 or "exercises" in path.parts


# --- the wheel ------------------------------------------------------------------------------------


def test_the_same_sources_give_the_same_wheel(tmp_path):
    first, second = (wheel.build(tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_a_deleted_module_changes_the_digest(tmp_path):
    for path in wheel.sources():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / path)
    assert wheel.digest(tmp_path) == wheel.digest()
    (tmp_path / "uqhelpers/models.py").unlink()
    assert wheel.digest(tmp_path) != wheel.digest()


def test_the_makefile_says_what_it_can_do():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ["book", "test", "bench", "reproduce", "publish-as", "clean"]:
        assert f"make {target}" in done.stdout


def test_publishing_under_an_impossible_name_fails():
    command = [sys.executable, "-m", "tools.publish_as", "no name"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "owner/name" in done.stderr
