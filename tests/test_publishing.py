"""One place names the published repository, and everything else follows it."""

import re
import shutil

import nbformat
import pytest

from tools.book import ROOT, UNPUBLISHED, repository
from tools.publish_as import PATTERNS, check_name, publish_as
from tools.readme import written
from tools.setup_cell import guard
from tools.tidy import METADATA

NAME = "some-one/a.book_2"


@pytest.fixture
def copy(tmp_path):
    """A copy of all that holds the name, with one notebook for certain."""
    for pattern in [*PATTERNS, "book/cards.yml"]:
        for path in ROOT.glob(pattern):
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    v4 = nbformat.v4
    link = f"[source](https://github.com/{repository()}/tree/main)"
    cells = [v4.new_markdown_cell(link), v4.new_code_cell(guard(repository()) + "\nimport numpy")]
    notebook = v4.new_notebook(cells=cells, metadata=METADATA)
    (tmp_path / "book/posteriors").mkdir(parents=True, exist_ok=True)
    (tmp_path / "book/posteriors/example.ipynb").write_text(nbformat.writes(notebook).rstrip("\n") + "\n")
    return tmp_path


def texts(folder):
    return {p.relative_to(folder): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_name_goes_everywhere(copy):
    publish_as(NAME, copy)
    assert repository(copy) == NAME
    everything = texts(copy)
    assert [path for path, text in everything.items() if "github.com/your_account" in text] == []
    assert [path for path, text in everything.items() if "your_account.github.io" in text] == []
    setup = nbformat.read(copy / "book/posteriors/example.ipynb", 4).cells[1].source
    assert f'%pip install -q "uqhelpers @ git+https://github.com/{NAME}"' in setup
    assert "SystemExit" not in setup
    assert setup.endswith("import numpy")


def test_every_place_that_holds_the_name_holds_the_same():
    for path in ["README.md", "CITATION.cff", "book/getting_started.md"]:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"github.com/{repository()}" in text or path == "README.md", path
        assert set(re.findall(r"github\.com/([\w.-]+/known-unknowns)\b", text)) <= {repository()}, path


def test_badges_and_ways_to_colab_come_with_the_name(copy):
    readme = (copy / "README.md").read_text()
    assert "badge.svg" not in readme
    assert "colab" not in readme.split("<!-- end of chapters -->")[0].lower()
    publish_as(NAME, copy)
    readme = (copy / "README.md").read_text()
    assert f"(https://github.com/{NAME}/actions/workflows/book.yml)" in readme
    assert f"colab.research.google.com/github/{NAME}/blob/main/book/foundations/calibration.ipynb" in readme
    publish_as(UNPUBLISHED, copy)
    assert (copy / "README.md").read_text() == (ROOT / "README.md").read_text()


def test_the_readme_is_that_of_the_table_of_contents():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert written(text, repository()) == text


def test_publishing_twice_changes_nothing_more(copy):
    assert publish_as(NAME, copy) != []
    assert publish_as(NAME, copy) == []


def test_there_is_a_way_to_another_name_and_back(copy):
    before = texts(copy)
    original = repository(copy)
    for name in [NAME, "another/one", UNPUBLISHED, original]:
        publish_as(name, copy)
    assert texts(copy) == before


def test_a_name_that_begins_like_the_old_one_is_left_alone(copy):
    other = f"https://github.com/{repository(copy)}-slides"
    path = copy / "README.md"
    path.write_text(f"{path.read_text()}\n{other}\n")
    publish_as(NAME, copy)
    assert path.read_text().endswith(f"\n{other}\n")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "known-unknowns",
        "a/b/c",
        "under_score/book",
        "-dash/book",
        "dash-/book",
        "two--dashes/book",
        "owner/",
        "owner/..",
        "owner/book.git",
        "owner/bo ok",
        'owner/book" && "',
        "https://github.com/owner/book",
        "owner/book\n",
        "a" * 40 + "/book",
    ],
)
def test_what_cannot_be_a_repository_is_refused(name, copy):
    before = texts(copy)
    with pytest.raises(ValueError, match="owner/name"):
        publish_as(name, copy)
    assert texts(copy) == before


def test_a_name_that_can_be_one_is_taken():
    for name in [NAME, "a/b", UNPUBLISHED, "A1-b2/known-unknowns", "a" * 39 + "/book"]:
        assert check_name(name) == name


def test_a_setup_cell_of_another_form_is_not_overwritten(copy):
    path = copy / "book/posteriors/example.ipynb"
    path.write_text(path.read_text().replace("except ImportError", "except Exception"))
    before = texts(copy)
    with pytest.raises(ValueError, match="setup cell"):
        publish_as(NAME, copy)
    assert texts(copy) == before
