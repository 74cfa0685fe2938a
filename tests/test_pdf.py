"""The book on paper: all of it, with an outline and its fonts, nothing cut off and nothing left raw."""

import fcntl
import html
import json
import re

import pytest
from bs4 import BeautifulSoup

from tools import pdf
from tools.book import ROOT, pages

pypdf = pytest.importorskip("pypdf")
FILE = ROOT / "_build/html" / pdf.NAME


@pytest.fixture(scope="module")
def printed():
    """The file, once nobody prints any more: `make test` prints it while the tests begin."""
    if pdf.browser_path() is None:
        pytest.skip(f"no browser on the path ({', '.join(pdf.BROWSERS)})")
    with pdf.alone():
        pass
    if not FILE.exists():
        pytest.skip("there is no PDF: `make pdf` prints it")
    return FILE


@pytest.fixture(scope="module")
def book(printed):
    return pypdf.PdfReader(printed)


def entries(outline, depth=1):
    """The entries of an outline: (depth, title)."""
    for entry in outline:
        if isinstance(entry, list):
            yield from entries(entry, depth + 1)
        else:
            yield depth, entry.title


def test_every_page_of_the_book_is_in_the_outline(book):
    first = [title for depth, title in entries(book.outline) if depth == 1]
    assert len(first) == len(pages()) + 3  # the cover, the contents, and the answers
    assert first[-1].startswith("Answers to the quizzes")


def test_the_outline_says_every_heading_as_it_stands(book):
    text = (ROOT / "_build/pdf/book.html").read_text(encoding="utf-8")
    headings = [words for _, words in re.findall(r"<h([1-6])[^>]*>(.*?)</h\1>", text, re.DOTALL)]
    bare = [re.sub('<a class="headerlink".*?</a>|<[^>]*>', "", words, flags=re.DOTALL) for words in headings]
    assert [title for _, title in entries(book.outline)] == [" ".join(html.unescape(b).split()) for b in bare]


def test_the_outline_leads_to_where_something_stands(book):
    places = {entry["/Title"]: entry["/Dest"] for entry in pdf.outlined(book.root_object["/Outlines"])}
    assert [title for title, (_, _, _, top, _) in places.items() if top < pdf.FOOT] == []


def test_each_line_of_the_contents_names_the_page_to_which_it_leads(book):
    places, sheets = pdf.numbers(book), pdf.contents(book)
    named = [number for sheet in sheets for *_, number in sheet]
    assert {places[f"/{pdf.slug(page)}"] for page in pages()} <= set(named)
    for page, sheet in zip(book.pages[1:], sheets, strict=False):
        found = []  # (left edge, height on the page, number) of what is nothing but a number

        def note(text, cm, tm, *_, found=found):
            if text.strip().isdigit():
                x, y = tm[4] * cm[0] + tm[5] * cm[2] + cm[4], tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
                found.append((x, y, int(text)))

        page.extract_text(visitor_text=note)
        right, top = float(page.mediabox.right), float(page.mediabox.top)
        for column, down, high, number in sheet:
            end, upper = right - column * 72 / 25.4, top - down
            assert any(n == number and 0 < end - x < 30 and 0 < upper - y < high for x, y, n in found), number


def test_the_outline_goes_to_the_third_level(book):
    assert {1, 2, 3} <= {depth for depth, _ in entries(book.outline)}


@pytest.mark.usefixtures("printed")
def test_nothing_is_cut_off():
    assert json.loads((ROOT / "_build/pdf/printed.json").read_text())["wide"] == []


LONG = "x" * 300
SHEETS = {
    "words": (f"<p style='white-space: nowrap'>{LONG}</p>", ["P"]),
    "what is hidden": (f"<p style='overflow: hidden; white-space: nowrap'>{LONG}</p>", ["P"]),
    "a table, which is made smaller": (
        f"<table><tr><td style='min-width: 900px'>{LONG[:40]}</td></tr></table>",
        [],
    ),
    "a table beyond help": (f"<table><tr><td>{LONG * 2}</td></tr></table>", ["TABLE", "TD"]),
    "nothing": ("<p>a line</p>", []),
}


@pytest.mark.browser
@pytest.mark.parametrize("what", SHEETS)
def test_what_is_wider_than_the_paper_is_found(what, browser):
    text, found = SHEETS[what]
    page = browser.new_page(viewport={"width": pdf.WIDTH, "height": 1000})
    page.set_content(text)
    assert [tag for tag, *_ in page.evaluate(pdf.FIT, pdf.WIDTH)] == found
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(("height", "kept"), [(300, "avoid"), (900, "auto")])
def test_a_low_table_stays_on_one_page(height, kept, browser):
    page = browser.new_page(viewport={"width": pdf.WIDTH, "height": 1000})
    page.set_content(f"<div class='uq-table' style='height: {height}px'></div>")
    page.evaluate(pdf.FIT, pdf.WIDTH)
    assert page.eval_on_selector(".uq-table", "e => getComputedStyle(e).breakInside") == kept
    page.close()


@pytest.mark.parametrize(("foot", "kept"), [("run on a day, <code>abc</code>", 1), ("version 1", 0)])
def test_the_foot_of_what_ran_stays_with_its_last_words(foot, kept):
    text = f"<article><section><p>last words</p></section><p class='uq-foot'>{foot}</p></article>"
    article = BeautifulSoup(text, "html.parser").article
    assert len(pdf.settled(article, "book/a", ["book/a"]).select("section > p.uq-foot")) == kept
    assert len(article.select("p.uq-foot")) == kept


def test_the_fonts_are_inside(book):
    found, missing = set(), set()
    for page in book.pages[:: max(1, len(book.pages) // 40)]:
        for font in page["/Resources"].get_object().get("/Font", {}).values():
            font = font.get_object()
            for one in [f.get_object() for f in font.get("/DescendantFonts", [font])]:
                described = one.get("/FontDescriptor", {}).get_object() if "/FontDescriptor" in one else {}
                inside = font["/Subtype"] == "/Type3" or any(k.startswith("/FontFile") for k in described)
                (found if inside else missing).add(str(font.get("/BaseFont", "/Type3")))
    assert found
    assert not missing


def test_no_markup_is_left_raw(book):
    raw = re.compile(r"\\[(\[]|\\(mathcal|frac|sum)|\*\*|:::|\{(figure|image|math|dropdown)\}")
    left = {}
    for number, page in list(enumerate(book.pages, start=1))[::6]:
        words = [line for line in page.extract_text().splitlines() if not re.search(r"[=#(,\"']", line)]
        found = [line for line in words if raw.search(line)]
        if found:
            left[number] = found
    assert not left


def test_pages_carry_their_numbers(book):
    for number in (2, len(book.pages) // 2, len(book.pages)):
        assert str(number) in book.pages[number - 1].extract_text().split()


def test_links_lead_inside_the_book(book):
    inside = 0
    for page in book.pages[::25]:
        for annotation in page.get("/Annots", []):
            action = annotation.get_object().get("/A", {})
            uri = str(action.get("/URI", ""))
            assert not uri.startswith("file:"), uri
            inside += "/Dest" in annotation.get_object() or action.get("/S") == "/GoTo"
    assert inside > 10


@pytest.mark.parametrize(
    ("address", "leads"),
    [
        ("#the-idea", "#posteriors-laplace--the-idea"),
        ("laplace.html#the-idea", "#posteriors-laplace--the-idea"),
        ("../reference/glossary.html#term-AUROC", "#reference-glossary--term-AUROC"),
        ("../decisions/odin.html", "#decisions-odin"),
        ("https://example.org/x#y", "https://example.org/x#y"),
        ("../../_downloads/x.ipynb", None),
    ],
)
def test_where_a_link_leads_on_paper(address, leads):
    known = ["book/posteriors/laplace", "book/reference/glossary", "book/decisions/odin"]
    assert pdf.located(address, "book/posteriors/laplace", known) == leads


def test_a_formula_keeps_the_full_stop_behind_it():
    formula = r'<span class="math notranslate nohighlight">\(a\)</span>'
    assert pdf.together(f"{formula}. {formula} b") == f'<span class="together">{formula}.</span> {formula} b'


def test_the_first_page_links_to_it_only_when_it_is_there(tmp_path):
    page = tmp_path / "_build/html/book/index.html"
    page.parent.mkdir(parents=True)
    page.write_text('<p class="uq-pdf" hidden><a>one</a></p>')
    (tmp_path / "_build/html" / pdf.NAME).write_bytes(b"old")
    pdf.announce(tmp_path)
    assert page.read_text() == f'<p class="uq-pdf"><a href="../{pdf.NAME}">one</a></p>'
    pdf.withdraw(tmp_path)
    assert page.read_text() == '<p class="uq-pdf" hidden><a>one</a></p>'
    assert not (tmp_path / "_build/html" / pdf.NAME).exists()


def test_one_prints_at_a_time(tmp_path):
    with (
        pdf.alone(tmp_path),
        open(tmp_path / "_build/pdf/lock") as second,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(tmp_path / "_build/pdf/lock") as next_one:
        fcntl.flock(next_one, fcntl.LOCK_EX | fcntl.LOCK_NB)
