"""The minutes at the top of a chapter are those that its page takes, by one rule."""

import nbformat
import pytest
from nbformat import v4

from tools import reading
from tools.book import ROOT
from tools.execute import stored

CHAPTERS = reading.chapters()


def run_of(path):
    if not stored(path).exists():
        pytest.fail(f"{path} is not executed: make book first")
    return reading.of(path)


@pytest.mark.parametrize("path", CHAPTERS, ids=str)
def test_the_stated_minutes_are_those_of_the_core_path(path):
    core, _ = run_of(path)
    stated = reading.STATED.findall((ROOT / path).read_text(encoding="utf-8"))
    assert len(stated) == 1
    assert abs(int(stated[0]) - core) <= 1, f"python -m tools.reading --write states {core:.0f}"


@pytest.mark.parametrize("path", CHAPTERS, ids=str)
def test_the_core_path_takes_forty_five_minutes(path):
    core, _ = run_of(path)
    assert core <= reading.LONGEST


def notebook(*cells):
    return v4.new_notebook(cells=list(cells))


def text(words, before=""):
    return v4.new_markdown_cell(before + " ".join(["word"] * words))


def code(lines, *tags):
    cell = v4.new_code_cell("\n\n".join(["x = 1"] * lines))
    cell.metadata["tags"] = list(tags)
    return cell


def test_a_minute_is_130_words_or_seven_lines():
    assert reading.minutes(notebook(text(130), code(7)), [[]]) == (2, 0)


@pytest.mark.parametrize("tag", ["hide-input", "remove-cell", "hide-cell", "remove-input"])
def test_folded_code_takes_no_time(tag):
    assert reading.minutes(notebook(code(7, tag)), [[]]) == (0, 0)


def test_a_sentence_that_a_cell_puts_out_is_read():
    said = [[{"output_type": "display_data", "data": {"text/markdown": " ".join(["word"] * 65)}}]]
    assert reading.minutes(notebook(code(7, "hide-input")), said) == (0.5, 0)
    assert reading.minutes(notebook(code(7, "remove-cell")), said) == (0, 0)


def test_further_sections_are_counted_apart_until_a_heading_of_their_level():
    cells = [
        text(129, "## Core\n"),
        text(128, "## Further: more\n"),
        text(129, "### Inside\n"),
        text(129, "## Again\n"),
    ]
    core, further = reading.minutes(notebook(*cells), [])
    assert (core, further) == (2, 2)


def test_the_quiz_and_the_sources_are_not_counted():
    cells = [text(129, "## Core\n"), text(500, "## Quiz\n"), code(70), text(500, "## Sources\n")]
    assert reading.minutes(notebook(*cells), [[]]) == (1, 0)


def test_a_comment_in_a_recipe_is_no_heading():
    recipe = "## On your own model\n\n```python\n# sources of doubt\nx = 1\n```\n\n" + "word " * 126
    assert reading.minutes(notebook(v4.new_markdown_cell(recipe)), []) == (1, 0)


@pytest.mark.parametrize(
    ("markdown", "count"),
    [
        ("a formula $x + y = z$ here", 4),
        ("$$ \\int p(x)\\, dx = 1 $$", 1),
        ("[the glossary](../reference/glossary.md#dropout) says", 3),
        ("**bold** and `code`", 3),
        ("", 0),
    ],
)
def test_words_are_what_is_read(markdown, count):
    assert reading.words(markdown) == count


def test_a_stated_time_is_replaced_and_nothing_else():
    before = "*Time:* about 50 minutes to read, about 40 seconds of computing."
    assert reading.STATED.sub("45", before) == before.replace("50", "45")


def test_the_first_page_of_every_chapter_states_one():
    for path in CHAPTERS:
        first = nbformat.read(ROOT / path, as_version=4).cells[0].source
        assert len(reading.STATED.findall(first)) == 1, path
