"""Every notebook of the book is held to the same form; and the checks themselves can fail."""

import copy
import json
import subprocess
import sys

import nbformat
import pytest

from tools import hygiene
from tools.book import ROOT, UNPUBLISHED, notebooks, repository
from tools.execute import QUICK, STORE, stored
from tools.setup_cell import guard
from tools.tidy import METADATA, tidied

NOTEBOOKS = notebooks()
CHAPTERS = [path for path in NOTEBOOKS if "exercises" not in path.parts]
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=str)
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=str)


def read(path):
    return nbformat.read(ROOT / path, as_version=4)


# --- the notebooks --------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("check", ["form", "outputs", "size", "debris"])
def test_a_notebook_has_the_form_of_the_book(path, check):
    assert getattr(hygiene, check)(read(path)) == []


@each
@pytest.mark.parametrize("check", ["setup", "places"])
def test_a_notebook_asks_for_nothing_but_the_helpers(path, check):
    assert getattr(hygiene, check)(read(path), repository()) == []


@each
def test_a_notebook_is_tidy(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert tidied(text) == text, "`make tidy` mends it"


@each_chapter
def test_a_chapter_has_all_its_parts(path):
    assert hygiene.chapter(read(path)) == []


@each_chapter
def test_no_result_in_the_prose_of_a_chapter_is_typed_by_hand(path):
    assert hygiene.typed_numbers(read(path), path.stem) == []


@each_chapter
def test_the_figures_of_a_chapter_are_described(path):
    assert hygiene.figures(read(path), kept_run(path)["outputs"]) == []


@each
def test_a_notebook_is_proven_for_the_present_code_and_quick(path):
    # CPU time, as the wall clock counts what else the machine does.
    assert kept_run(path)["cpu"] < QUICK


def kept_run(path):
    if not (ROOT / STORE).exists():
        pytest.skip("no notebook was run here: `make execute` runs them")
    assert stored(path).exists(), "changed since it was run: `make execute` runs it"
    return json.loads(stored(path).read_text(encoding="utf-8"))


def test_the_notebooks_are_clean_for_ruff():
    if not NOTEBOOKS:
        pytest.skip("there is no notebook yet")
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *NOTEBOOKS], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout


def test_every_notebook_of_a_chapter_is_in_the_table_of_contents():
    parts = ("foundations", "posteriors", "decisions", "synthesis")
    present = {p.relative_to(ROOT) for part in parts for p in (ROOT / "book" / part).glob("*.ipynb")}
    assert present <= set(NOTEBOOKS)


# --- the checks -----------------------------------------------------------------------------------


@pytest.fixture
def good():
    """A small notebook without a fault."""
    v4 = nbformat.v4
    text = """# Doubt

You will measure doubt.

**Objectives.** Measure. **Prerequisites.** None. 5 minutes, 3 s.

The [entropy](../reference/glossary.md#entropy) tells. **Predict, then run:** more or less?"""
    headings = ["Where it fails", "On your own model", "Take-aways", "Quiz", "Sources"]
    end = "\n\n".join(f"## {heading}" for heading in headings) + "\n\nGal (2016), p. 0.25."
    notebook = v4.new_notebook(metadata=METADATA)
    notebook.nbformat_minor = 5
    figure = {
        "mystnb": {"image": {"alt": "A line that rises slowly."}, "figure": {"caption": "It rises."}},
    }
    notebook.cells = [
        v4.new_markdown_cell(text),
        v4.new_code_cell(guard(UNPUBLISHED) + "\nSEED = 0"),
        v4.new_code_cell("ax.plot([1, 2])", metadata=figure),
        v4.new_code_cell("assert SEED == 0", metadata={"tags": ["remove-cell"]}),
        v4.new_markdown_cell(end),
    ]
    return notebook


IMAGE = {"output_type": "display_data", "data": {"image/png": "", "text/plain": ""}}
LIVE = {
    "output_type": "display_data",
    "data": {"text/html": '<figure class="uq-plotly" aria-label="A curve that bends when it is moved">'},
}
RUNS = [[], [IMAGE, LIVE], []]
CHECKS = {
    "form": hygiene.form,
    "outputs": hygiene.outputs,
    "size": hygiene.size,
    "typed_numbers": hygiene.typed_numbers,
    "debris": hygiene.debris,
    "chapter": hygiene.chapter,
    "setup": lambda notebook: hygiene.setup(notebook, UNPUBLISHED),
    "places": lambda notebook: hygiene.places(notebook, UNPUBLISHED),
    "figures": lambda notebook: hygiene.figures(notebook, RUNS),
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_faultless_notebook_passes(check, good):
    assert CHECKS[check](good) == []


def text(words):
    return lambda notebook: notebook.cells[0].update(source=notebook.cells[0].source + "\n\n" + words)


def line(words):
    return lambda notebook: notebook.cells[2].update(source=words)


def without(words):
    def change(notebook):
        for cell in notebook.cells:
            cell.source = cell.source.replace(words, "")

    return change


def output(notebook):
    notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="5")]


FAULTS = {
    "an unknown tag": ("form", lambda n: n.cells[3].metadata.update(tags=["nbval-skip"])),
    "another kernel": ("form", lambda n: n.metadata.kernelspec.update(name="conda-env")),
    "an id twice": ("form", lambda n: n.cells[3].update(id=n.cells[2].id)),
    "an old format": ("form", lambda n: n.update(nbformat_minor=4)),
    "a stored output": ("outputs", output),
    "an execution count": ("outputs", lambda n: n.cells[2].update(execution_count=3)),
    "nothing to compare with": ("outputs", line("#NBVAL_CHECK_OUTPUT\nprint(5)")),
    "a long cell": ("size", line("x = 1\n" * 26)),
    "an empty cell": ("size", line("")),
    "a long scratch cell": (
        "size",
        lambda n: n.cells[2].update(source="x = 1\n" * 16, metadata={"tags": ["scratch"]}),
    ),
    "another guard": ("setup", without("import uqhelpers")),
    "an installation": ("setup", line("%pip install torch")),
    "an absolute path": ("places", line('open("/home/me/data.csv")')),
    "another host": ("places", line('read_csv("https://example.com/a.csv")')),
    "a percentage": ("typed_numbers", text("The accuracy is 97 %.")),
    "a decimal": ("typed_numbers", text("The accuracy is 0.97 here.")),
    "a decimal without its zero": ("typed_numbers", text("It falls to .03.")),
    "a citation": ("debris", text("As {cite:t}`gal2016` says.")),
    "a fence of the site": ("debris", text("```{note}\nThis.\n```")),
    "no quiz": ("chapter", without("## Quiz")),
    "no failure": ("chapter", without("## Where it fails")),
    "two titles": ("chapter", text("# Another")),
    "no assertion": ("chapter", without("assert SEED == 0")),
    "no alt text": ("figures", lambda n: n.cells[2].metadata.mystnb.pop("image")),
    "no caption": ("figures", lambda n: n.cells[2].metadata.mystnb.pop("figure")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_notebook_with(fault, good):
    check, spoil = FAULTS[fault]
    bad = copy.deepcopy(good)
    spoil(bad)
    assert CHECKS[check](bad) != []


def test_numbers_that_define_something_may_stand_in_prose(good):
    text("At $p = 0.25$, with `p=0.1`, of 10 classes, in [a paper](https://x.org/1.5), at 95 % recall.")(good)
    assert hygiene.typed_numbers(good) == []


def test_a_chapter_without_an_interactive_figure_is_told_so(good):
    assert hygiene.figures(good, [[], [IMAGE], []]) == ["missing: an interactive figure"]


def test_an_interactive_figure_without_words_is_found(good):
    silent = {"output_type": "display_data", "data": {"text/html": '<figure class="uq-plotly">'}}
    assert len(hygiene.figures(good, [[], [LIVE, IMAGE, silent], []])) == 1


def test_tidying_keeps_what_nbval_compares(good):
    good.cells[3].source = "#NBVAL_CHECK_OUTPUT\nprint(5)"
    good.cells[3].execution_count = 9
    good.cells[3].outputs = [nbformat.v4.new_output("stream", text="5\n")]
    output(good)
    tidy = nbformat.reads(tidied(nbformat.writes(good)), as_version=4)
    assert tidy.cells[2].outputs == []
    assert tidy.cells[3].outputs[0].text == "5\n"
    assert tidied(nbformat.writes(tidy)) == nbformat.writes(tidy).rstrip("\n") + "\n"
    assert hygiene.form(tidy) == []
