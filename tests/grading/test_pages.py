"""What a student and an instructor read: complete, escaped, and fit for every reader."""

import dataclasses
import html
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from uqhelpers.grading import _notebooks, _pages, _questions, _survey, _words, check
from uqhelpers.grading._class_page import bins, summary_page
from uqhelpers.grading._engine import Learner, checks_by_question, load_checks, run_question, stems
from uqhelpers.grading._markup import blocks, inline
from uqhelpers.grading._pages import feedback_page
from uqhelpers.grading._tables import with_manual

STEM = "bayesian_linear_regression"
MODULE = load_checks(STEM)
SOLVED = [
    c
    for c in _notebooks.code_cells(_questions.shipped(STEM))
    if c.startswith("def ") and not c.startswith("def broken")
]
HALF = """def posterior(features, y, noise_std, prior_mean, prior_precision):
    weighted = features / noise_std[:, None] ** 2
    precision = prior_precision + weighted.T @ features
    return np.linalg.solve(precision, prior_precision @ prior_mean + weighted.T @ y), precision"""
TWO = """def mended(features, y, new, k):
    weights = np.linalg.lstsq(features, y, rcond=None)[0]
    squared = ((y - features @ weights) ** 2).mean()
    fan = (new * np.linalg.solve(features.T @ features, new.T).T).sum(axis=1)
    return 1.959963984540054 * np.sqrt(squared * (1 / k + fan))"""
UNKNOWN = """def log_evidence(features, y, ratio, shape, rate):
    # a misconception that nobody foresaw
    return (1 / len(y) + np.abs(ratio - np.median(y)) / np.ptp(y)) / rate"""
HOSTILE = '''def after(*args):
    """</code></pre><script>alert("a")</script><img src=x onerror=alert(1)>"""
    raise ValueError("<script>alert(1)</script> `<b>`")'''


def record(student, cells, problem="", seed=None):
    """What a batch keeps of one student, without its sandbox."""
    namespace = {"__name__": "__main__", "np": np}
    for cell in cells:
        exec(cell, namespace)
    results, surveyed, seed = [], [], seed or sum(map(ord, student))
    for checks in checks_by_question(MODULE).values():
        found = run_question(checks, Learner(namespace), seed)
        surveyed += _survey.survey(checks, found, Learner(namespace), 4711)
        results += [dataclasses.asdict(one) for one in found]
    kept = {
        "student": student,
        "slug": re.sub(r"\W", "_", student),
        "exercise": STEM,
        "results": [] if problem else results,
        "automatic": 0 if problem else sum(one["earned"] for one in results),
        "out_of": sum(one["points"] for one in results),
        "log": [],
        "problem": problem,
        "texts": {"q7": "The band is about *lines*.\n\nThe rest is noise."},
        "code": _questions.code(cells, results),
        "survey": surveyed,
        "times": {name: 0.01 * number for number, name in enumerate(checks_by_question(MODULE))},
    }
    return with_manual(kept, MODULE, {(student, "q7"): 1, (kept["slug"], "q7"): 1})


@pytest.fixture(scope="module")
def ann():
    return record("Ann Müller", [*SOLVED, HALF, TWO, UNKNOWN, HOSTILE])


@pytest.fixture(scope="module")
def everybody(ann):
    found = [ann, record("none", []), record("all right", SOLVED), record("<b>bold</b>", [HOSTILE])]
    found += [record(f"student {i}", [*SOLVED[: i + 1], UNKNOWN]) for i in range(5)]
    found += [record(f"careless {i}", [*SOLVED, TWO]) for i in range(3)]
    return [*found, record("late", [], problem="the file is empty")]


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def test_the_page_names_question_code_expectation_mistake_section_and_hint(ann):
    page = feedback_page(ann, MODULE)
    for words in (
        "q1 · Unequal instruments, and an opinion",  # the question
        "the mean (2 of 2)",
        "that is the precision: the covariance is its inverse",  # the mistake
        "two things: the noise is still taken as known: Student's quantile, not the normal one; "
        "and the scatter still divides by n: the weights have used up some of it",
        "What was expected",
        "the half widths of the exact classical 95 % intervals",
        "What you handed in",
        "precision = prior_precision + weighted.T @ features",  # the code
        "Read again in the chapter",
        "What it costs to act as if we knew",
        "A hint",
        "Each square is divided by its own variance",
    ):
        assert words in re.sub(r"\s+", " ", text_of(page)), words


def test_a_question_that_is_right_is_one_line(ann):
    sections = feedback_page(ann, MODULE).split("<section>")
    (right,) = [one for one in sections if one.startswith("<h2>q6")]
    assert "What you handed in" not in right
    assert "four kinds of what is called noise" in right


def test_no_backtick_is_raw_and_no_heading_stands_over_nothing(everybody):
    for page in [*(feedback_page(one, MODULE) for one in everybody), summary_page(everybody, MODULE, STEM)]:
        prose = re.sub(r"<(pre|code)[ >].*?</\1>", "", page, flags=re.DOTALL)
        assert "`" not in prose
        assert not re.search(r"</h([1-6])>\s*(<h\1|</section>|</main>|<ul[^>]*></ul>)", page)


def test_nothing_of_a_student_becomes_markup(everybody):
    for page in [*(feedback_page(one, MODULE) for one in everybody), summary_page(everybody, MODULE, STEM)]:
        assert "<script" not in page
        assert not re.search(r"<[^>]*\son\w+=", page)
        assert "<b>" not in page
        assert "default-src 'none'" in page
    assert "<script>alert" in text_of(feedback_page(everybody[0], MODULE))


def test_the_notebook_says_the_words_of_the_page(ann):
    namespace = {"np": np}
    exec(HALF, namespace)
    exec(TWO, namespace)
    for name in ("q1", "q4"):
        shown = text_of(check(STEM, name, namespace)._repr_html_())
        page = text_of(feedback_page(ann, MODULE))
        results = [r for r in ann["results"] if r["question"] == name]
        for _, said in _words.lines(results):
            assert said in shown
            assert said in page


def test_an_unpublished_book_gets_no_dead_links(ann, monkeypatch):
    assert 'href="http' not in feedback_page(ann, MODULE)
    monkeypatch.setattr(_words, "BOOK", "https://somebody.github.io/book")
    monkeypatch.setattr(_questions, "BOOK", "https://somebody.github.io/book")
    address = "https://somebody.github.io/book/posteriors/bayesian_linear_regression.html#the-posterior"
    assert f'href="{address}"' in feedback_page(ann, MODULE)
    assert f'href="{address}"' in check(STEM, "q1", {"posterior": lambda *a: (1, 2)})._repr_html_()


def test_five_identical_mistakes_that_nobody_foresaw_are_a_group(everybody):
    groups = _survey.groups(everybody)
    (group,) = [one for one in groups if one["question"] == "q5"]
    assert group["students"] == ["Ann Müller", *(f"student {i}" for i in range(5))]
    assert "a misconception that nobody foresaw" in group["code"]
    page = text_of(summary_page(everybody, MODULE, STEM))
    assert "6 students" in page
    assert "a misconception that nobody foresaw" in page


def test_equal_programs_in_other_words_are_one_group_and_others_are_not():
    other = UNKNOWN.replace("(1 / len(y) + ", "(np.ones(len(y)).mean() / y.size + ")
    third = UNKNOWN.replace("np.median(y)", "np.max(y)")
    assert len({UNKNOWN, other, third}) == 3
    found = [record(f"s{i}", [cell]) for i, cell in enumerate([UNKNOWN, other, third])]
    assert [one["students"] for one in _survey.groups(found)] == [["s0", "s1"]]


def test_a_known_mistake_is_counted_and_is_no_unknown_one(everybody):
    counted = dict(_survey.known_mistakes(everybody))
    assert counted[("q4", "the scatter still divides by n: the weights have used up some of it")] == 4
    assert not [one for one in _survey.groups(everybody) if one["question"] == "q4"]
    assert "the scatter still divides by n" in text_of(summary_page(everybody, MODULE, STEM))


def test_nothing_of_the_survey_reaches_a_student(ann):
    assert ann["survey"]
    for one in ann["survey"]:
        assert one["example"] not in text_of(feedback_page(ann, MODULE))
        assert one["computes"] not in feedback_page(ann, MODULE)


def test_the_histogram_counts_everybody_who_was_graded(everybody):
    graded = [one for one in everybody if not one["problem"]]
    found = bins(graded)
    assert sum(count for *_, count in found) == len(graded)
    assert found[-1][1] == graded[0]["most"]
    assert all(low == high + 1 for (_, high, _), (low, _, _) in itertools.pairwise(found))


def test_a_class_of_which_nobody_was_graded_has_a_page():
    page = summary_page([record("late", [], problem="the file is empty")], MODULE, STEM)
    assert "1 students, 0 graded" in page
    assert "the file is empty" in page


def test_formulas_become_mathml_and_messages_do_not():
    shown = inline(r"the $\hat\theta_{ij}^2$ of `f(x)` and *this*", math=True)
    assert "<msubsup><mover" in shown
    assert "<code>f(x)</code>" in shown
    assert "<em>this</em>" in shown
    assert inline("it cost $1 and $2") == "it cost $1 and $2"
    for stem in stems():
        for asked in _questions.questions(stem).values():
            page = blocks(asked.text)
            assert page.count("<math") == page.count("</math>")
            assert "$" not in re.sub(r"<(pre|code)[ >].*?</\1>", "", page, flags=re.DOTALL), (
                stem,
                asked.name,
            )
            assert "\\" not in re.sub(r"<(pre|code)[ >].*?</\1>", "", page, flags=re.DOTALL), (
                stem,
                asked.name,
            )


@pytest.mark.parametrize("stem", stems())
def test_every_question_has_a_title_and_says_what_is_expected(stem):
    namespace = {}
    for name, checks in checks_by_question(load_checks(stem)).items():
        asked = _questions.questions(stem)[name]
        assert asked.title
        names = [one for r in run_question(checks, Learner(namespace), 0) for one in r.asked]
        assert names
        assert _questions.expected(asked, names)[1] or len(names) > 1


@pytest.mark.parametrize("stem", stems())
def test_every_question_leads_to_a_section_of_its_chapter(stem):
    place = Path(__file__).resolve().parents[2] / "book" / f"{_questions.chapter(stem)}.ipynb"
    if not place.parent.parent.is_dir():
        pytest.skip("the book is not here")
    text = "\n".join(_notebooks.source_of(cell) for cell in _notebooks.read(place)["cells"])
    headings = re.findall(r"(?m)^#{2,3} (.+)$", text)
    for checks in checks_by_question(load_checks(stem)).values():
        for one in checks:
            assert one.mark.read in headings, (one.__name__, one.mark.read)


def test_a_heading_has_the_anchor_that_the_book_builder_gives_it():
    nodes = pytest.importorskip("docutils.nodes")
    for stem in stems():
        for checks in checks_by_question(load_checks(stem)).values():
            for one in checks:
                plain = one.mark.read.replace("`", "")
                assert _questions.anchor(one.mark.read) == nodes.make_id(plain), one.mark.read


def test_what_was_handed_in_is_the_last_cell_that_defines_what_was_asked():
    cells = [
        "def f(x):\n    return 1",
        "%matplotlib inline\ng = 2",
        "def f(x):\n    return 2",
        "f(1)",
        "h = = =",
    ]
    assert _questions.handed_in(cells, ["f", "g"]) == "%matplotlib inline\ng = 2\n\ndef f(x):\n    return 2"
    assert _questions.handed_in(cells, ["h"]) == "h = = ="
    assert _questions.handed_in(cells, ["nothing"]) == ""
    assert len(_questions.handed_in(["x = '" + "a" * 100_000 + "'"], ["x"])) < 7000


# --- before a browser ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_the_pages_fit_and_are_accessible(browser, everybody, scheme, width, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    pages = {"feedback": feedback_page(everybody[0], MODULE), "class": summary_page(everybody, MODULE, STEM)}
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
    )
    for name, text in pages.items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
        shown = context.new_page()
        shown.goto(f"file://{tmp_path}/{name}.html")
        found = axe.run(shown, options={"resultTypes": ["violations"], "preload": False}).response[
            "violations"
        ]
        assert [(one["id"], [n["html"][:80] for n in one["nodes"]]) for one in found] == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
