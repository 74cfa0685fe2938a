"""Tables of results: what is shown, what is marked, and what is refused."""

import re

import numpy as np
import pytest
from scipy import stats

from uqhelpers import plots

SEEDS = 5
BASE = np.array([0.90, 0.91, 0.92, 0.93, 0.94])


def html(*arguments, **options):
    return plots.table(*arguments, **options)._repr_html_()


def cells(page):
    return re.findall(r"<td[^>]*>(.*?)</td>", page.partition("<tbody>")[2])


def headings(page):
    return re.findall(r'<th scope="col"[^>]*>(.*?)</th>', page)


def test_runs_are_shown_as_mean_and_standard_deviation():
    page = html({"one": {"accuracy": BASE}})
    assert cells(page) == [f"{BASE.mean():.3f} ± {BASE.std(ddof=1):.3f}"]
    assert "standard deviation over 5 seeds" in page


def test_a_single_run_has_no_spread():
    assert cells(html({"one": {"accuracy": [0.5]}})) == ["0.500"]


def test_a_percent_sign_stands_in_the_heading_once():
    page = html({"one": {"accuracy": 0.987, "n": 3}}, formats={"accuracy": ".1%"})
    assert headings(page)[-2:] == ["accuracy (%)", "n"]
    assert cells(page) == ["98.7", "3"]


def test_a_row_in_percent_says_so_in_its_cells():
    assert cells(html({"share": {"a": (0.25, 0.01)}}, formats={"share": ".0%"})) == ["25 ± 1 %"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (12_345, "12,345"),
        (np.float32(0.5), "0.500"),
        (-0.25, "−0.250"),
        (-1e-9, "0.000"),
        (float("nan"), "n/a"),
        (float("inf"), "∞"),
        (-np.inf, "−∞"),
        (True, "yes"),
        ((1.5, 0.25), "1.500 ± 0.250"),
        ("`fit` <b>", "<code>fit</code> &lt;b&gt;"),
        ("**most**", "<strong>most</strong>"),
    ],
)
def test_a_value_is_shown_as(value, shown):
    assert cells(html({"row": {"column": value}})) == [shown]


def test_formulas_are_left_to_mathjax():
    page = html({"$H[p]$": {"$a<b$": 1.0}})
    assert r"\(H[p]\)" in page
    assert r"\(a&lt;b\)" in page
    assert page.count("mathjax_process") == 2


def test_a_price_of_two_dollars_is_no_formula():
    assert cells(html({"a": {"b": "from $5 to $ 7"}})) == ["from $5 to $ 7"]


def test_the_best_is_marked_where_every_paired_interval_excludes_nothing():
    shift = 0.02 + 0.001 * np.array([1, -1, 0, 1, -1])
    page = html({"a": {"x": BASE}, "b": {"x": BASE + shift}}, best={"x": "max"})
    assert [cell.startswith("<strong>") for cell in cells(page)] == [False, True]
    assert "Bold" in page
    least = html({"a": {"x": BASE}, "b": {"x": BASE + shift}}, best={"x": "min"})
    assert [cell.startswith("<strong>") for cell in cells(least)] == [True, False]


def test_the_best_is_not_marked_where_one_rival_may_be_as_good():
    rows = {
        "a": {"x": BASE},
        "b": {"x": BASE + 0.1},
        "c": {"x": BASE + 0.1 + 0.05 * np.array([1, -1, 1, -1, 0.1])},
    }
    page = html(rows, best={"x": "max"})
    assert "<strong>" not in page
    assert "Bold" not in page


def test_the_mark_is_that_of_the_paired_t_test():
    rng = np.random.default_rng(0)
    marked = 0
    for _ in range(200):
        a, b = rng.normal(size=SEEDS), rng.normal(size=SEEDS)
        told = stats.ttest_rel(a, b).pvalue < 0.05
        assert ("<strong>" in html({"a": {"x": a}, "b": {"x": b}}, best={"x": "max"})) == told
        marked += told
    assert 0 < marked < 30  # equal rows: one in twenty, and not none


@pytest.mark.parametrize("other", [0.3, (0.3, 0.01), BASE[:4]])
def test_nothing_is_marked_beside_a_value_that_cannot_be_paired(other):
    assert "<strong>" not in html({"a": {"x": BASE}, "b": {"x": other}}, best={"x": "max"})


def test_numbers_stand_to_the_right_and_words_to_the_left():
    page = html({"a": {"x": 1.0, "why": "because"}})
    assert '<td class="uq-words">because</td>' in page
    assert "<td>1.000</td>" in page


def test_a_number_among_words_stands_in_one_line():
    page = html({"a": {"x": "+0.012 ± 0.003"}, "b": {"x": "none was tried"}})
    assert "<td>+0.012 ± 0.003</td>" in page
    assert '<td class="uq-words">none was tried</td>' in page


def test_groups_span_their_columns():
    rows = {"a": {"n": 1, "x": 0.1, "y": 0.2, "z": 0.3}}
    page = html(rows, groups={"clean": ["x", "y"]})
    assert '<td colspan="1"></td><th colspan="2" scope="colgroup">clean</th><td colspan="1"></td>' in page


def test_an_empty_corner_is_no_heading():
    assert "<td></td>" in html({"a": {"x": 1}}).partition("<tbody>")[0]
    assert '<th scope="col">method</th>' in html({"a": {"x": 1}}, corner="method")


def test_a_blank_column_has_no_heading():
    assert '<tr><td></td><td></td><th scope="col">x</th></tr>' in html({"a": {" ": "why", "x": 1}})


def test_a_terminal_gets_the_same_table():
    text = repr(plots.table({"one": {"x": BASE}, "two": {"y": 3}}, "What was measured", corner="method"))
    assert text.splitlines() == [
        "What was measured",
        "method              x  y",
        "one     0.920 ± 0.016  –",
        "two                 –  3",
        "Mean ± standard deviation over 5 seeds.",
    ]


GOOD = {"a": {"x": BASE, "y": 1.0, "z": 2.0}}


@pytest.mark.parametrize(
    ("rows", "options", "named"),
    [
        ({}, {}, "rows"),
        ([1], {}, "rows"),
        ({"a": 3}, {}, r"rows\['a'\]"),
        ({"a": {}}, {}, "rows"),
        ({"a": {"x": [[1, 2]]}}, {}, r"rows\['a'\]\['x'\]"),
        ({"a": {"x": []}}, {}, r"rows\['a'\]\['x'\]"),
        ({"a": {"x": ["b", "c"]}}, {}, r"rows\['a'\]\['x'\]"),
        ({"a": {"x": (1, 2, 3)}}, {}, "pair"),
        (GOOD, {"best": {"x": "greatest"}}, r"best\['x'\]"),
        (GOOD, {"best": {"w": "max"}}, "best"),
        (GOOD, {"units": {"w": "nats"}}, "units"),
        (GOOD, {"units": "nats"}, "units"),
        (GOOD, {"formats": {"w": ".3f"}}, "formats"),
        (GOOD, {"formats": "three"}, "formats"),
        (GOOD, {"formats": 3}, "formats"),
        (GOOD, {"groups": {"g": ["w"]}}, "groups"),
        (GOOD, {"groups": {"g": ["x", "z"]}}, "side by side"),
        (GOOD, {"groups": {"g": ["x"], "h": ["x"]}}, "groups"),
        (GOOD, {"caption": " "}, "caption"),
        (GOOD, {"note": 3}, "note"),
    ],
)
def test_a_table_refuses(rows, options, named):
    with pytest.raises(ValueError, match=named):
        plots.table(rows, **options)
