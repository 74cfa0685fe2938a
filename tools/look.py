"""What a reader would see wrong: ``python -m tools.look [FOLDER]`` opens every page, wide and narrow.

Markup that was not rendered, code or words cut off, tables wider than their
place or with numbers broken over lines, pictures that are missing or have no
alternative in words, objects printed by accident. Code may scroll on a phone,
and nothing else may be wider than it.
"""

import argparse
import sys
from pathlib import Path

from tools import pdf
from tools.book import ROOT

WIDTHS = {"a desk": 1400, "a phone": 390}
LOOK = r"""(phone) => {
  const main = document.querySelector('main'), found = {};
  const seen = e => e.offsetParent !== null;
  const add = (what, elements) => {
    const bad = [...elements].filter(seen);
    if (bad.length) { found[what] = bad.map(e => e.textContent.trim().replace(/\s+/g, ' ').slice(0, 60)); }
  };
  const over = (e, slack) => e.scrollWidth > e.clientWidth + slack;
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);

  // Markup that nobody rendered, outside of code.
  const words = main.cloneNode(true);
  words.querySelectorAll('pre, code, script, style, mjx-container, dt.sig').forEach(e => e.remove());
  const raw = {
    'a raw table': /\|\s*:?-{3,}|\|\s—\s\||^\s*\|.*\|.*\|\s*$/m,
    'raw bold': /\*\*[^*\s][^*]*\*\*/,
    'raw code': /(^|\s)`[^`\n]+`(?=[\s.,;:)]|$)/,
    'a raw formula': /\$[^$\s]([^$\n]*[^$\s])?\$|\\\(|\\\[/,
    'a raw directive': /:::|\{(note|figure|cite|term|glue|math|ref)\}|<<<|>>>>/,
    'a raw link': /\]\([^)\s]+\)/,
  };
  const text = words.textContent;
  for (const [what, pattern] of Object.entries(raw)) {
    const match = text.match(pattern);
    if (match) { found[what] = [text.slice(Math.max(0, match.index - 20), match.index + 60).trim()]; }
  }
  add('a formula in error', main.querySelectorAll('mjx-merror, mjx-container [data-mml-node="merror"]'));

  // Code, tables, pictures.
  const code = [...main.querySelectorAll('div.highlight pre')];
  if (!phone) {
    add('code cut off', code.filter(e => over(e, 2)));
    const formulas = [...main.querySelectorAll('div.math, mjx-container[display]')];
    add('a formula cut off', formulas.filter(e => over(e, 2)));
  }
  const tables = [...main.querySelectorAll('table')].filter(seen);
  add('a table too wide', tables.filter(e => over(e.parentElement, 2)));
  add('a number broken', [...main.querySelectorAll('td')].filter(e => {
    const plain = /^[−+-]?[\d.,]+(\s±\s[\d.,]+)?\s?%?$/.test(e.textContent.trim());
    const range = document.createRange();
    range.selectNodeContents(e);
    const boxes = [...range.getClientRects()].sort((a, b) => a.top - b.top);
    return plain && boxes.some((box, i) => i && box.top > boxes[i - 1].bottom - 3);
  }));
  add('a picture missing', [...main.querySelectorAll('img')].filter(e => e.complete && !e.naturalWidth));
  const silent = [...main.querySelectorAll('img')].filter(e => !e.hasAttribute('alt'));
  if (silent.length) { found['a picture without words'] = silent.map(e => e.src.split('/').pop()); }
  add('a picture too wide', [...main.querySelectorAll('img, figure, .uq-plotly-box')].filter(
    e => e.getBoundingClientRect().right > innerWidth + 2));

  // What a cell put out by accident.
  const accident = /^\(?(<[A-Za-z_.]+ (object )?at 0x|[A-Z]\w+\(\w+=|\[<|Text\(|array\(|tensor\(|\[?\(array)/;
  const printed = [...main.querySelectorAll('div.cell_output pre')];
  add('an object printed', printed.filter(e => accident.test(e.textContent.trim())));
  add('a complaint printed', main.querySelectorAll('div.cell_output .stderr, div.cell_output .traceback'));

  // Words that leave their place.
  add('words cut off', [...main.querySelectorAll('p, li, dt, dd, h1, h2, h3, figcaption, caption')].filter(
    e => !e.closest('table, pre, mjx-container, div.math, .plotly') && over(e, 2) && !scrolls(e)
      && !e.querySelector('mjx-container, img, pre, table')));
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) { found['a page too wide'] = [`${width} pixels`]; }
  const places = main.querySelectorAll('pre, .uq-table, .pst-scrollable-table-container, div.math');
  add('a scroll out of reach', [...places].filter(e => scrolls(e) && over(e, 1) && e.tabIndex < 0));
  return found;
}"""


def wrong(page, phone):
    """What a reader of the open ``page`` would see wrong: {kind: [where it begins, ...]}."""
    return page.evaluate(LOOK, phone)


def settled(page):
    """Wait until formulas are set, letters have come, and what is folded is unfolded."""
    page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise")
    page.evaluate("() => document.querySelectorAll('details').forEach(e => { e.open = true; })")
    page.evaluate("() => document.fonts.ready.then(() => true)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "_build" / "html")
    site = parser.parse_args().site.resolve()
    pages = sorted((site / "book").rglob("*.html"))
    if not pages:
        sys.exit(f"no pages in {site}: make book first")
    from playwright.sync_api import sync_playwright

    listed = set()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=pdf.browser_path(), args=["--no-sandbox"])
        for path in pages:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(path.as_uri())
            for place, width in WIDTHS.items():
                page.set_viewport_size({"width": width, "height": 900})
                settled(page)
                for what, where in wrong(page, width < 800).items():
                    listed.add(path)
                    print(f"{path.relative_to(site / 'book')}, on {place}: {what} ({len(where)}): {where[0]}")
            page.close()
        browser.close()
    print(f"{len(listed)} of {len(pages)} pages have something to mend")
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main())
