"""A deck for each chapter, made of what stands in it and of nothing else."""

import subprocess
import sys

import pytest
from bs4 import BeautifulSoup

from tools import pdf, slides
from tools.book import ROOT, notebooks

CHAPTERS = [path for path in notebooks() if "exercises" not in path.parts]
ARTICLE = """<article class="bd-article"><section id="t"><h1>Title</h1><p><strong>A promise.</strong></p>
<ul><li>a goal</li></ul>
<section id="idea"><h2>The idea</h2><p>A sentence.</p><div class="math">\\[a\\]</div>
<p><strong>Predict, then run:</strong> what comes?</p>
<figure id="f"><img src="x.png" alt="y"></figure>
<p>A rule. <strong>Predict, then push:</strong> does it hold?</p></section>
<section id="take-aways"><h2>Take-aways</h2><ul><li>One.</li></ul></section>
<section id="further"><h2>Further: more</h2><figure><img src="z.png" alt="z"></figure></section>
</section></article>"""


def test_slides_stand_in_the_order_of_the_page_and_further_is_left_out():
    found = slides.slides_of(BeautifulSoup(ARTICLE, "html.parser").article)
    assert [kind for kind, _, _ in found] == ["title", "formula", "question", "figure", "question", "points"]
    assert "z.png" not in str(found)


def test_a_question_inside_a_paragraph_is_asked_with_it():
    found = slides.slides_of(BeautifulSoup(ARTICLE, "html.parser").article)
    assert "A rule." in [content for kind, _, content in found if kind == "question"][1]


def test_a_formula_comes_with_the_sentence_before_it():
    found = slides.slides_of(BeautifulSoup(ARTICLE, "html.parser").article)
    (content,) = [content for kind, _, content in found if kind == "formula"]
    assert "A sentence." in content
    assert "a" in content


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_each_chapter_has_figures_and_questions_to_show(path, site):
    article = BeautifulSoup((site / path.with_suffix(".html")).read_text(encoding="utf-8"), "html.parser")
    kinds = [kind for kind, _, _ in slides.slides_of(article.select_one("article.bd-article"))]
    assert kinds[0] == "title"
    assert kinds[-1] == "points"
    assert kinds.count("figure") >= 3
    assert "question" in kinds


def test_a_deck_is_printed_a_slide_a_page(site):
    if pdf.browser_path() is None:
        pytest.skip(f"no browser on the path ({', '.join(pdf.BROWSERS)})")
    code = f"from pathlib import Path\nfrom tools import slides\nprint(slides.build([Path('{CHAPTERS[0]}')]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "{}", done.stderr  # nothing overflows
    deck = pytest.importorskip("pypdf").PdfReader(ROOT / f"_build/slides/{CHAPTERS[0].stem}.pdf")
    page = (site / CHAPTERS[0].with_suffix(".html")).read_text(encoding="utf-8")
    article = BeautifulSoup(page, "html.parser").select_one("article.bd-article")
    assert len(deck.pages) == len(slides.slides_of(article))
    width, height = deck.pages[0].mediabox[2:]
    assert abs(float(width / height) - 16 / 9) < 0.01
