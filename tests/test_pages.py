"""Every page as a reader meets it: in a real browser, in light, in dark, on a desk and on a phone."""

import pytest

from tools import look

AXE = pytest.importorskip("axe_playwright_python.base").AXE_SCRIPT
# Without preload: axe would fetch the style sheets a second time, which a page on a disk may not.
OPTIONS = {"resultTypes": ["violations"], "preload": False}
COLOURS_ONLY = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}  # what a theme changes
ALL_BUT_COLOURS = {"rules": {"color-contrast": {"enabled": False}}}  # what a width changes
# A word of code has one of thirty looks. Those that a page has shown before are left out of what axe is
# shown: it takes a second for a thousand words. Formulas are one element each to those who hear them.
SHOW_EACH_LOOK_ONCE = """() => {
  const seen = new Set();
  document.querySelectorAll('div.highlight pre').forEach(block => {
    const looks = new Set([...block.querySelectorAll('span[class]')].map(e => e.className));
    if ([...looks].every(look => seen.has(look))) { block.replaceChildren('code'); }
    looks.forEach(look => seen.add(look));
  });
  document.querySelectorAll('mjx-container > mjx-math').forEach(e => e.replaceChildren());
}"""

# Whether words can be read depends on how they are painted and on what is painted behind them. Of those for
# which all of that is the same, one is marked; what leaves its place in the text is compared with nobody.
MARK_EACH_PAINT_ONCE = """() => {
  const marked = new Set(), grounds = new Map();
  const ground = e => {
    if (e === null) { return ''; }
    if (!grounds.has(e)) {
      const s = getComputedStyle(e), away = ['absolute', 'fixed'].includes(s.position) || e.matches('svg *');
      grounds.set(e, [s.backgroundColor, s.backgroundImage, s.opacity, s.filter, s.mixBlendMode, s.position,
        away ? grounds.size : '', ground(e.parentElement)].join());
    }
    return grounds.get(e);
  };
  document.querySelectorAll('[data-marked]').forEach(e => e.removeAttribute('data-marked'));
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement, s = getComputedStyle(e);
    const seen = e.getClientRects().length && s.visibility === 'visible';
    if (!seen || !texts.currentNode.data.trim()) { continue; }
    const paint = [s.color, s.fontSize, s.fontWeight, s.textShadow, s.webkitTextFillColor, ground(e)].join();
    if (!marked.has(paint)) { marked.add(paint); e.setAttribute('data-marked', ''); }
  }
}"""
RUN = """([context, options]) => axe.run(context, options).then(found => found.violations.flatMap(
  rule => rule.nodes.map(node => `${rule.id}: ${node.html.slice(0, 160)}`)))"""


def violations(page, options, context="html"):
    """What axe-core finds, short enough to read."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE)
    return page.evaluate(RUN, [context, {**OPTIONS, **options}])


def faint(page):
    """Words that can hardly be read for their colour."""
    page.evaluate(MARK_EACH_PAINT_ONCE)
    return violations(page, COLOURS_ONLY, {"include": [["[data-marked]"]]})


def resize(page, place):
    """Another width, and all that watches the width has acted: interactive figures take their time."""
    page.set_viewport_size({"width": look.WIDTHS[place], "height": 900})
    wait = 500 if page.query_selector(".uq-plotly-box") else 50
    page.evaluate(f"() => new Promise(done => requestAnimationFrame(() => setTimeout(done, {wait})))")


@pytest.mark.browser
def test_a_page_stands_in_light_in_dark_and_on_a_phone(page_name, site, visit):
    guest = visit(viewport={"width": look.WIDTHS["a desk"], "height": 900}, color_scheme="light")
    page = guest.open((site / f"{page_name}.html").as_uri())
    assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
    assert look.wrong(page, phone=False) == {}
    resize(page, "a phone")
    assert look.wrong(page, phone=True) == {}
    page.evaluate(SHOW_EACH_LOOK_ONCE)
    assert violations(page, ALL_BUT_COLOURS) == []
    resize(page, "a desk")
    assert violations(page, ALL_BUT_COLOURS) == []
    assert faint(page) == []
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")
    assert faint(page) == []
    assert guest.complaints == []
    assert guest.hosts() == set()


ROWS = "<tr><td>a word</td><td><b>bold</b></td></tr>" * 40
FAINT = {
    "alone": "<p style='color:#aaa'>faint</p>",
    "in a table": f"<table>{ROWS}<tr><td style='color:#aaa'>faint</td></tr>{ROWS}</table>",
    "for its ground": f"<table>{ROWS}<tr style='background:#222'><td>faint</td></tr>{ROWS}</table>",
    "for what is around": f"<div style='background:#333'><p>faint</p></div><table>{ROWS}</table>",
    "for being half there": f"<table>{ROWS}</table><div style='opacity:.3'><p>faint</p></div>",
    "by its place in the row": "<style>td:last-child b {color:#999}</style><table>" + ROWS + "</table>",
    "small": "<p style='color:#888;font-size:24px'>large</p><p style='color:#888'>faint</p>",
    "on a panel": f"{'<p>a word</p>' * 40}<p style='position:absolute;background:#222'>faint</p>",
}


@pytest.mark.browser
@pytest.mark.parametrize("why", FAINT)
def test_one_faint_word_among_many_is_found(why, browser):
    page = browser.new_page()
    page.set_content(f"<!DOCTYPE html><title>t</title><main>{FAINT[why]}</main>")
    (found,) = faint(page)
    assert found.startswith("color-contrast")
    assert "faint" in found or "bold" in found
    page.close()


@pytest.mark.browser
def test_words_that_can_be_read_are_not_faint(browser):
    page = browser.new_page()
    page.set_content(f"<!DOCTYPE html><title>t</title><main><p>a word</p><table>{ROWS}</table></main>")
    assert faint(page) == []
    page.close()


GOOD = "<p>A sentence with <code>a | b | c</code> and $1 to $ 2.</p><img alt='a dot' src='{dot}'>"
DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
WIDE = "x" * 400
FAULTS = {
    "a raw table": "<p>| a | b |\n| --- | --- |\n| 1 | 2 |</p>",
    "raw bold": "<p>this is **important** here</p>",
    "raw code": "<p>call `fit` first</p>",
    "a raw formula": "<p>where $x^2$ is</p>",
    "a raw directive": "<p>:::{note}</p>",
    "a raw link": "<p>see [the page](other.md) there</p>",
    "a formula in error": "<mjx-container><mjx-merror>x</mjx-merror></mjx-container>",
    "code cut off": f"<div class='highlight'><pre style='overflow:auto'>{WIDE}</pre></div>",
    "a formula cut off": f"<div class='math' style='overflow:auto'>{WIDE}</div>",
    "a table too wide": f"<div style='overflow:auto'><table><tr><td>{WIDE}</td></tr></table></div>",
    "a number broken": "<table><tr><td style='max-width:3em'>0.9894 ± 0.0010</td></tr></table>",
    "a picture missing": "<img alt='a dot that is gone' src='gone.png'>",
    "a picture without words": f"<img src='{DOT}'>",
    "a picture too wide": f"<img alt='a dot' style='width:3000px' src='{DOT}'>",
    "an object printed": "<div class='cell_output'><pre>History(loss=array([0.7]))</pre></div>",
    "a complaint printed": "<div class='cell_output'><pre class='stderr'>Warning</pre></div>",
    "words cut off": f"<p style='overflow:hidden;width:9em'>{WIDE}</p>",
    "a scroll out of reach": f"<pre style='overflow:auto'>{WIDE}</pre>",
    "a page too wide": "<div style='width:3000px'>wide</div>",
}


def shown(browser, tmp_path, body, width=1400):
    path = tmp_path / "page.html"
    path.write_text(f"<!DOCTYPE html><title>t</title><main>{body}</main>", encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    found = look.wrong(page, phone=width < 800)
    page.close()
    return found


@pytest.mark.browser
@pytest.mark.parametrize("what", FAULTS)
def test_a_look_finds(what, browser, tmp_path):
    assert what in shown(browser, tmp_path, FAULTS[what])


@pytest.mark.browser
def test_a_look_finds_nothing_in_a_page_without_fault(browser, tmp_path):
    assert shown(browser, tmp_path, GOOD.format(dot=DOT)) == {}


@pytest.mark.browser
def test_code_may_scroll_on_a_phone_and_words_may_not(browser, tmp_path):
    code = FAULTS["code cut off"].replace("<pre", "<pre tabindex=0")
    assert shown(browser, tmp_path, code, width=390) == {}
    assert "words cut off" in shown(browser, tmp_path, FAULTS["words cut off"], width=390)


@pytest.mark.browser
def test_a_table_that_scrolls_inside_itself_is_not_too_wide(browser, tmp_path):
    frame = (
        "<div tabindex=0 style='overflow-x:auto'><div style='width:max-content;min-width:100%'>{}</div></div>"
    )
    table = f"<table><tr><td>{WIDE}</td></tr></table>"
    assert shown(browser, tmp_path, frame.format(table), width=390) == {}
