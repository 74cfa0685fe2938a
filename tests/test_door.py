"""What a visitor meets first, and what accompanies a long read."""

import contextlib
import io
import json
import re

import pytest
import yaml

from tools.book import ROOT, notebooks, pages

CHAPTERS = [path for path in notebooks() if "exercises" not in path.parts]
CARDS = yaml.safe_load((ROOT / "book/cards.yml").read_text(encoding="utf-8"))


def address(site, page):
    return (site / f"{page}.html").as_uri()


# --- the first page -------------------------------------------------------------------------------


def test_every_chapter_has_its_question():
    assert set(CARDS) == {path.stem for path in CHAPTERS}
    assert all(about["question"].endswith(("?", ".")) for about in CARDS.values())


def test_the_picture_on_a_card_is_a_figure_of_its_chapter():
    for path in CHAPTERS:
        wanted = CARDS[path.stem].get("picture")
        cells = json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]
        assert wanted is None or wanted in [cell["id"] for cell in cells], path


def test_each_card_shows_a_picture_and_the_question(site, visit):
    page = visit().open(address(site, "book/index"))
    cards = page.query_selector_all(".uq-cards .sd-card")
    assert len(cards) == len(CHAPTERS)
    for card, path in zip(cards, CHAPTERS, strict=True):
        assert card.query_selector("img").evaluate("e => e.naturalWidth") >= 600, path
        assert CARDS[path.stem]["question"][:20] in card.inner_text(), path
        assert card.query_selector("a").get_attribute("href").endswith(f"{path.stem}.html")


def test_every_chapter_is_on_some_path():
    text = (ROOT / "book/paths.md").read_text(encoding="utf-8")
    assert {path.stem for path in CHAPTERS} <= set(re.findall(r"\(\w+/(\w+)\.ipynb\)", text))


def test_the_paths_add_up_what_the_chapters_state(site):
    text = re.sub("<.*?>", "", (site / "book/paths.html").read_text(encoding="utf-8"))
    asked = re.findall(r"\{minutes ([\w/ ]+)\}", (ROOT / "book/paths.md").read_text(encoding="utf-8"))
    said = [
        60 * int(h or 0) + int(m) for h, m in re.findall(r"About (?:(\d+) h )?(\d+) min\w* of reading", text)
    ]
    assert len(asked) == len(said) == 2
    for names, minutes in zip(asked, said, strict=True):
        cells = [json.loads((ROOT / f"book/{n}.ipynb").read_text())["cells"][0] for n in names.split()]
        stated = [int(re.search(r"about (\d+) minutes", "".join(c["source"]))[1]) for c in cells]
        assert abs(minutes - sum(stated)) <= 2.5


def test_the_primer_prints_what_it_says():
    pytest.importorskip("jax")
    text = (ROOT / "book/primer.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block, {})
        expected = re.findall(r"print\(.*\)  # (.*)", block)
        assert expected
        for line, words in zip(printed.getvalue().splitlines(), expected, strict=True):
            assert words.startswith(line.replace("Size(", "Size(")), (line, words)


def test_the_readme_names_every_chapter_with_its_question():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in CHAPTERS:
        row = next(line for line in text.splitlines() if f"({path.as_posix()})" in line)
        assert CARDS[path.stem]["question"] in row


def test_the_readme_has_its_pictures_in_light_and_dark():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:srcset|src)=\"([^\"]+)\"", text))
    assert len(named) >= 4
    for name in named:
        assert (ROOT / name).exists(), name
    assert {name.replace("light", "dark") for name in named} == {n.replace("light", "dark") for n in named}


# --- the foot of a page ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages())
def test_each_page_says_which_version_it_is(page, site):
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    version = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    foot = re.search(r'<p class="uq-foot">(.*?)</p>', text)[1]
    assert foot.startswith(f"Known Unknowns {version}")
    assert "how to cite</a>" in foot


def test_a_chapter_says_when_it_ran_and_with_which_code(site):
    keys = json.loads((ROOT / "_build/executed/keys.json").read_text())
    for path in CHAPTERS:
        page = path.with_suffix("").as_posix()
        foot = re.search(
            r'<p class="uq-foot">(.*?)</p>', (site / f"{page}.html").read_text(encoding="utf-8")
        )[1]
        assert keys[page] in foot
        assert re.search(r"run on 20\d\d-\d\d-\d\d", foot)


# --- what the browser remembers -------------------------------------------------------------------

PAGE = CHAPTERS[0].with_suffix("").as_posix()


def test_a_chapter_that_was_read_stays_read(site, visit):
    reader = visit()
    page = reader.open(address(site, PAGE))
    page.evaluate("() => localStorage.clear()")
    page.reload()
    assert page.inner_text(".uq-read") == "Mark as read"
    page.click(".uq-read")
    page.reload()
    assert page.get_attribute(".uq-read", "aria-pressed") == "true"
    assert page.query_selector(".bd-links .uq-tick")
    page.goto(address(site, "book/index"))
    assert "read" in page.inner_text(".uq-state")
    assert f"1 of {len(CHAPTERS)} chapters" in page.inner_text(".uq-progress")
    assert reader.hosts() == set()


def test_answers_that_were_opened_are_counted_once(site, visit):
    page = visit().open(address(site, PAGE))
    page.evaluate("() => localStorage.clear()")  # whoever looks at a page for a test opens what is folded
    page.reload()
    quiz = page.query_selector_all("#quiz details.sd-dropdown")
    for _ in range(2):  # open, close, and open again
        quiz[1].evaluate("e => { e.open = true }")
        page.wait_for_selector("#quiz details.uq-seen")
        quiz[1].evaluate("e => { e.open = false }")
    page.goto(address(site, "book/index"))
    assert "1 answer of the quiz opened" in page.inner_text(".uq-state")


def test_it_can_be_forgotten(site, visit):
    page = visit().open(address(site, PAGE))
    page.click(".uq-read")
    page.goto(address(site, "book/index"))
    page.click(".uq-forget")
    assert page.query_selector(".uq-state") is None
    assert not page.is_visible(".uq-progress")
    assert page.evaluate("() => localStorage.getItem('known-unknowns-progress')") is None
    page.goto(address(site, PAGE))
    assert page.get_attribute(".uq-read", "aria-pressed") == "false"


def test_a_memory_that_is_not_ours_is_no_harm(site, visit):
    reader = visit()
    page = reader.open(address(site, PAGE))
    page.evaluate("() => localStorage.setItem('known-unknowns-progress', '{broken')")
    page.reload()
    assert page.inner_text(".uq-read") == "Mark as read"
    assert reader.complaints == []
