"""When ``make book`` has nothing to do."""

import pytest

from tools import fresh

FILES = {
    "_build/html/index.html": "the site",
    "_config.yml": "title: A",
    "book/index.md": "# A",
    "uqhelpers/__init__.py": "",
    "uqhelpers/data/digits.py": "SIZE = 8",
    "tools/site.py": "",
}


@pytest.fixture
def book(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert not fresh.is_fresh(tmp_path)
    fresh.done(tmp_path)
    return tmp_path


def test_a_site_is_fresh_after_it_was_built(book):
    assert fresh.is_fresh(book)
    assert fresh.is_fresh(book)


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("_build")])
def test_a_changed_source_makes_it_stale(book, name):
    (book / name).write_text(FILES[name] + " ")
    assert not fresh.is_fresh(book)


@pytest.mark.parametrize("name", ["book/new.md", "uqhelpers/new.py", "benchmarks/results/new.md"])
def test_a_new_source_makes_it_stale(book, name):
    (book / name).parent.mkdir(parents=True, exist_ok=True)
    (book / name).write_text("")
    assert not fresh.is_fresh(book)


def test_a_source_that_is_gone_or_has_moved_makes_it_stale(book):
    (book / "book/index.md").rename(book / "book/start.md")
    assert not fresh.is_fresh(book)
    (book / "book/start.md").unlink()
    assert not fresh.is_fresh(book)


def test_another_edition_makes_it_stale(book, monkeypatch):
    monkeypatch.setenv("UQ_DATASET", "mnist")
    assert not fresh.is_fresh(book)


def test_a_site_that_was_removed_is_built_again(book):
    (book / "_build/html/index.html").unlink()
    assert not fresh.is_fresh(book)


def test_compiled_files_are_no_sources(book):
    (book / "uqhelpers/__pycache__").mkdir()
    (book / "uqhelpers/__pycache__/a.pyc").write_text("x")
    assert fresh.is_fresh(book)


def test_what_changes_during_the_build_is_built_the_next_time(book):
    (book / "book/index.md").write_text("# B")
    assert not fresh.is_fresh(book)
    (book / "book/index.md").write_text("# C")  # after Sphinx has read it
    fresh.done(book)
    assert not fresh.is_fresh(book)


def test_a_build_that_failed_leaves_the_site_stale(book):
    (book / "book/index.md").write_text("# B")
    assert not fresh.is_fresh(book)
    assert not fresh.is_fresh(book)  # nobody said that it was done
    (book / "book/index.md").write_text(FILES["book/index.md"])
    assert not fresh.is_fresh(book)  # what stands in the folder may be half of the new one
