"""Print the whole book as one PDF, from the pages of the built site.

The articles of all pages are put one after the other into a single page, with
a cover and a table of contents before them; their links lead to each other
inside it. The browser prints that page: outline, tags, fonts and page numbers
are its work. What a reader of paper cannot open is closed or moved: code that
the site folds away is left out, and the answers of a quiz stand at the end.
"""

import argparse
import contextlib
import fcntl
import html
import json
import os
import re
import shutil
import sys
from itertools import pairwise
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from pypdf import PdfReader, PdfWriter
from pypdf.generic import FloatObject, NameObject, TextStringObject

from tools import fresh
from tools.book import ROOT, pages

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NAME = "known-unknowns.pdf"
MARGINS = {"top": "16mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}
ROUTINE = ("On your own model", "Take-aways", "Quiz", "Sources")  # in every chapter: not in the contents
ANSWERS = "Answers to the quizzes"
FOOT = 54  # points from the lower edge: nothing but the number of the page stands below
COLUMNS = (109.5, 16)  # mm from the right edge to where the columns of the contents end
WIDTH = 673  # of an A4 page between its margins, in the browser's pixels
FOOTER = """<div style="width: 100%; font: 8px sans-serif; color: #555; padding: 0 16mm; display: flex;
justify-content: space-between"><span>Known Unknowns</span><span class="pageNumber"></span></div>"""
STYLE = """
html { font-size: 13px; scroll-padding: 0 }
body { background: #fff; color: #111; padding: 0 }
article.print { max-width: none; padding: 0; break-before: page; line-height: 1.55 }
article.print h1 { margin-top: 0 }
h1, h2, h3, h4, h5, h6, summary, dt, p.rubric, thead, .uq-table caption { break-after: avoid }
h1, h2, h3, h4, h5, h6, dt, figure, img, .math, table tr, .admonition, .sd-card { break-inside: avoid }
.cell_input, pre, .text_html > div[style] { break-inside: avoid }
img { max-width: 100%; height: auto }
a { color: #0b5394; text-decoration: none }
a.headerlink, button, .uq-progress, .uq-pdf, .sd-summary-state-marker { display: none !important }
div.highlight pre, .cell_output pre, pre {
  font-size: 10.2px; white-space: pre-wrap; overflow-wrap: anywhere; overflow: visible; max-height: none }
.uq-wide, .uq-table, .pst-scrollable-table-container, .cell_output,
mjx-container { overflow: visible !important }
table { font-size: 10.5px; max-width: 100% }
.bd-content .uq-wide :is(td, th) { padding: 3px 6px }
.bd-content .uq-wide :is(td, th):first-child { position: static; background: none }
:is(h1, h2, h3, h4) code { background: none !important; border: 0 !important }
p, li, dd { orphans: 2; widows: 2 }
.bd-content .uq-foot { margin-top: 20px; break-before: avoid }
.bd-content { display: block !important; max-width: none; padding: 0 }
.bd-content h1 { font-size: 26px }
.bd-content h2 { font-size: 19px; margin-top: 24px }
.bd-content h3 { font-size: 15.5px }
.bd-content dl { margin-bottom: 12px !important }
.bd-content dl.field-list { display: block !important; margin-bottom: 6px !important }
section.cover { text-align: center; padding-top: 60mm }
section.cover h1 { font-size: 40px; border: 0 }
section.cover img { width: 150mm; margin: 10mm auto }
.contents ul { list-style: none; padding-left: 1.5em; margin: 0 }
.contents > ul { padding-left: 0; columns: 2; column-gap: 9mm; font-size: 12px }
.contents > ul > li { margin-bottom: 3px }
.contents .chapter { font-weight: 650; margin-top: 7px; break-after: avoid }
.contents div { padding-right: 2.5em; break-inside: avoid }
.number { position: absolute; text-align: right; width: 3em; font-size: 12px }
.sheet { position: relative; width: 210mm; height: 296.9mm; overflow: hidden; break-after: page }
.uq-cards .sd-row { display: block }
.uq-cards .sd-col { display: inline-block !important; vertical-align: top; width: 32.5% !important }
.uq-cards .sd-card-body { padding: 6px 8px !important }
.uq-cards .sd-card :is(.sd-card-title, p) { font-size: 11px; margin-bottom: 2px !important }
.together { white-space: nowrap }
.answer { margin: 0 0 .8em; break-inside: avoid }
.uq-plotly-box { break-inside: avoid; zoom: .82 }
"""
READY = """async () => {
  await (window.MathJax && MathJax.startup ? MathJax.startup.promise : null);
  window.dispatchEvent(new Event('beforeprint'));
}"""
DRAWN = """() => [...document.querySelectorAll('.uq-plotly-box')].every(e => e.querySelector('.main-svg'))
  && [...document.images].every(i => i.complete)"""
# What is laid over the pages of the contents: the number of each line, at the end of its column.
NUMBERED = """(sheets) => {
  const line = ([right, top, high, number]) => `<span class="number"
    style="right: ${right}mm; top: ${top}pt; line-height: ${high}pt">${number}</span>`;
  document.body.innerHTML = sheets.map(s => `<div class="sheet">${s.map(line).join('')}</div>`).join('');
}"""
HEADINGS = """() => {
  const words = e => [...e.childNodes].filter(c => c.className !== 'headerlink').map(c => c.textContent);
  return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter(e => e.getClientRects().length)
    .map(e => words(e).join('').trim().replace(/\\s+/g, ' '));
}"""
# What is still wider than the page is made smaller as a whole, never cut; what is low stays on one page.
FIT = """(width) => {
  const found = [];
  document.querySelectorAll('figure img').forEach(e => {  // letters in it stay as large as those of the text
    e.style.maxHeight = `${Math.max(380, .75 * e.getBoundingClientRect().height)}px`;
    e.style.width = 'auto';
  });
  document.querySelectorAll('.uq-wide th:last-child').forEach(e => {
    if (e.textContent.trim() === 'note') { e.style.width = '42%'; }
  });
  document.querySelectorAll('.cell, .cell_output, .uq-table, .uq-wide').forEach(e => {
    const low = e.matches('.cell') ? 260 : 420;
    if (e.getBoundingClientRect().height < low) { e.style.breakInside = 'avoid'; }
  });
  document.querySelectorAll('table, mjx-container, .uq-plotly-box, pre, img').forEach(e => {
    const zoomed = e.closest('[data-zoomed]');
    const over = e.getBoundingClientRect().right - width;
    if (over > 1 && !zoomed) {
      const whole = e.getBoundingClientRect().width;
      e.style.zoom = Math.max(.4, (whole - over) / whole);
      e.dataset.zoomed = '';
    }
  });
  const lines = 'th, td, div.math, p, li, dt, dd, h1, h2, h3, h4, figcaption';
  document.querySelectorAll(`table, mjx-container, .uq-plotly-box, pre, img, ${lines}`).forEach(e => {
    const box = e.getBoundingClientRect();
    const formula = e.localName === 'mjx-container';  // its own counts what only a screen reader gets
    const right = Math.max(box.right, formula ? 0 : box.left + e.scrollWidth * (e.currentCSSZoom || 1));
    const hides = getComputedStyle(e).overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 2;
    if (right > width + 2 || (hides && e.clientWidth)) {
      found.push([e.tagName, Math.round(right), e.textContent.slice(0, 60)]);
    }
  });
  return found;
}"""


def slug(page):
    """The prefix of a page's anchors: book/foundations/calibration is foundations-calibration."""
    return page.removeprefix("book/").replace("/", "-")


def located(address, page, known):
    """Where an address of ``page`` leads in the one big page; None if it is not in the book."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return address
    target = page
    if parts.path:
        target = os.path.normpath(os.path.join(os.path.dirname(page), unquote(parts.path)))
        target = target.removesuffix(".html")
    if target not in known:
        return None
    return f"#{slug(target)}--{parts.fragment}" if parts.fragment else f"#{slug(target)}"


def settled(article, page, known):
    """The article of a page, its anchors and addresses made those of the one big page."""
    home = "../html/" + os.path.dirname(page)
    for tag in article.find_all(["script", "nav"]):
        if tag.name == "nav" or tag.get("type") != "application/json":
            tag.decompose()
    for tag in article.find_all("details", class_="above-input"):
        tag.decompose()
    for tag in article.find_all("p", class_="uq-foot"):
        if tag.find("code"):  # what ran says when, and what; the cover has the version
            article.find_all("section")[-1].append(tag)
        else:
            tag.decompose()
    for tag in article.find_all(id=True):
        tag["id"] = f"{slug(page)}--{tag['id']}"
    for tag in article.find_all(src=True):
        if not urlsplit(tag["src"]).scheme:
            tag["src"] = os.path.normpath(f"{home}/{tag['src']}")
    for tag in article.find_all("a", href=True):
        address = located(tag["href"], page, known)
        if address is None:
            tag.unwrap()
        else:
            tag["href"] = address
    return article


def take_answers(article, page, soup):
    """Close the quiz of an article: its questions stay, its answers are returned, in order."""
    answers = []
    for details in article.select("details.sd-dropdown"):
        question = details.find("summary")
        words, content = question.get_text(" ", strip=True), details.find(class_="sd-summary-content")
        if not details.find_parent("section", id=re.compile("--quiz")):
            details["open"] = ""
            continue
        name = f"{slug(page)}--answer-{len(answers) + 1}"
        left = soup.new_tag("p", id=f"{name}-question")
        left.append(words + " ")
        link = soup.new_tag("a", href=f"#{name}")
        link.string = "Answer"
        left.append(link)
        kept = soup.new_tag("div", id=name, attrs={"class": "answer"})
        back = soup.new_tag("a", href=f"#{name}-question")
        back.string = words
        kept.append(back)
        for child in list(content.children):
            kept.append(child.extract())
        details.replace_with(left)
        answers.append(kept)
    return answers


def outline(articles):
    """The table of contents: a line for each page, and one for each section that not every chapter has."""
    lines = []

    def line(heading, place, kind=""):
        words = html.escape(heading.get_text().rstrip("#¶ "))
        return f'<div{kind}><a href="#{place}">{words}</a></div>'

    for page, article in articles:
        small = re.search("api-|exercises-", slug(page))
        lines.append("<li>" + line(article.find("h1"), slug(page), "" if small else ' class="chapter"'))
        sections = [h for h in article.find_all("h2") if h.parent.get("id") and not small]
        inner = [line(h, h.parent["id"]) for h in sections if h.get_text().rstrip("#¶ ") not in ROUTINE]
        lines.append("".join(["<ul>", *[f"<li>{one}</li>" for one in inner], "</ul></li>"]))
    lines.append(f'<li><div class="chapter"><a href="#answers">{ANSWERS}</a></div></li>')
    return f"<ul>{''.join(lines)}</ul>"


def head_of(soup):
    """What a page loads of style sheets, formulas and figures; nothing else."""
    kept = []
    for tag in soup.head.find_all(["link", "script"]):
        source = tag.get("href") or tag.get("src") or ""
        wanted = (tag.name == "link" and tag.get("rel") == ["stylesheet"]) or (
            tag.name == "script" and ("MathJax" in tag.text or re.search("mathjax/|interactive.js", source))
        )
        if wanted:
            for key in ("href", "src"):
                if tag.get(key):
                    tag[key] = "../html/" + re.sub(r"^(\.\./)+", "", tag[key])
            kept.append(str(tag))
    return kept


def together(text):
    """No line begins with the full stop of a formula that ends the line before."""
    formula = r'(<span class="math notranslate nohighlight">\\\([^<]*\\\)</span>[.,;:!?)\]’”]+)'
    return re.sub(formula, r'<span class="together">\1</span>', text)


def compose(root=ROOT):
    """Write the one big page, ``_build/pdf/book.html``; returns its path."""
    site = root / "_build" / "html"
    known, articles, answers, head = pages(root), [], [], {}
    for page in known:
        soup = BeautifulSoup((site / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
        article = settled(soup.select_one("article.bd-article"), page, known)
        article["id"], article["class"] = slug(page), ["bd-article", "print"]
        answered = take_answers(article, page, soup)
        title = article.find("h1").get_text().rstrip("#¶ ")
        if answered:
            answers.append(f"<h2>{html.escape(title)}</h2>" + "".join(map(str, answered)))
        articles.append((page, article))
        head |= dict.fromkeys(head_of(soup))
    version = re.search(r'version = "([^"]+)"', (root / "pyproject.toml").read_text(encoding="utf-8"))[1]
    cover = f"""<section class="cover"><h1>Known Unknowns</h1>
<p>Uncertainty in deep learning: a course with tested code</p>
<img src="../html/_static/cover.svg" alt=""><p>Version {version}</p>
<p>Code that the site folds away is left out; interactive figures stand as they begin.</p></section>"""
    body = [cover, f'<article class="print contents"><h1>Contents</h1>{outline(articles)}</article>']
    body += [str(article) for _, article in articles]
    body.append(f'<article class="print" id="answers"><h1>{ANSWERS}</h1>{"".join(answers)}</article>')
    page = f"""<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8"><title>Known Unknowns</title>
{"".join(head)}<style>{STYLE}</style></head>
<body><div class="bd-content"><div>{"".join(body)}</div></div></body></html>"""
    target = root / "_build" / "pdf" / "book.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(together(page), encoding="utf-8")
    return target


def browser_path():
    """Where the browser is; None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def announce(root=ROOT, there=True):
    """Show the first page's link to the PDF if it is there, and hide it if not."""
    page = root / "_build" / "html" / "book" / "index.html"
    if not page.exists():
        return
    text = page.read_text(encoding="utf-8")
    hidden, shown = '<p class="uq-pdf" hidden><a>', f'<p class="uq-pdf"><a href="../{NAME}">'
    partial = page.with_suffix(".partial")
    partial.write_text(text.replace(*((hidden, shown) if there else (shown, hidden))), encoding="utf-8")
    os.replace(partial, page)  # somebody may be reading it


def withdraw(root=ROOT):
    """The site was built anew: the PDF of its former state goes."""
    (root / "_build" / "html" / NAME).unlink(missing_ok=True)
    announce(root, there=False)


@contextlib.contextmanager
def alone(root=ROOT):
    """One prints at a time; who comes second waits until the first has done, or has ended."""
    folder = root / "_build" / "pdf"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def printing(width, height):
    """A page of the browser as paper would be, ``width`` by ``height`` of its pixels."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=options)
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        page.set_default_timeout(600_000)
        page.emulate_media(media="print", color_scheme="light")
        yield page
        browser.close()


def load(page, source):
    """Open ``source``, its formulas set and its figures drawn."""
    page.goto(source.as_uri(), wait_until="load")
    page.evaluate(READY)
    page.wait_for_function(DRAWN)


def print_page(source, target):
    """Let the browser print ``source``; returns what is too wide, which should be nothing, and its headings.

    Beside ``target`` lies then ``numbers.pdf``, to be laid over the table of contents.
    """
    how = {"format": "A4", "margin": MARGINS, "print_background": True}
    feet = {"header_template": "<span></span>", "footer_template": FOOTER, "display_header_footer": True}
    with printing(WIDTH, 1000) as page:
        load(page, source)
        wide, headings = page.evaluate(FIT, WIDTH), page.evaluate(HEADINGS)
        page.pdf(path=target, outline=True, tagged=True, **how, **feet)
        page.evaluate(NUMBERED, contents(PdfReader(target)))
        page.pdf(path=target.with_name("numbers.pdf"), format="A4")
    return wide, headings


def numbers(reader):
    """The number of the page on which each named place of a PDF stands."""
    order = {page.indirect_reference.idnum: number for number, page in enumerate(reader.pages, start=1)}
    places = reader.root_object.get("/Dests", {})
    return {name: order[place.get_object()[0].idnum] for name, place in places.items()}


def contents(reader):
    """Where the numbers of the table of contents belong: (mm from the right, top, height, number)."""
    places, sheets = numbers(reader), []
    for page in reader.pages[1 : places[f"/{slug(pages()[0])}"] - 1]:
        first = {}  # a link of two lines has two rectangles
        for link in (one.get_object() for one in page.get("/Annots", [])):
            left, low, _, high = map(float, link["/Rect"])
            if link["/Dest"] not in first or high > first[link["/Dest"]][2]:
                first[link["/Dest"]] = (left, low, high)
        middle, top = float(page.mediabox.right) / 2, float(page.mediabox.top)
        lines = [(COLUMNS[a > middle], top - d, d - b, places[name]) for name, (a, b, d) in first.items()]
        sheets.append(lines)
    return sheets


def outlined(entry):
    """The entries of an outline from ``entry`` on, in the order of the book."""
    while entry is not None:
        entry = entry.get_object()
        if "/Title" in entry:
            yield entry
        yield from outlined(entry.get("/First"))
        entry = entry.get("/Next")


def finish(source, target, headings):
    """Set the numbers into the contents and the headings into the outline, and say in the file what it is.

    Chromium's own outline has twice what stands at the top of a page, joins lines without a space, and leads
    to the foot of the page before.
    """
    writer = PdfWriter(source, incremental=True)  # half the time of writing all of it
    for page, over in zip(writer.pages[1:], PdfReader(source.with_name("numbers.pdf")).pages, strict=False):
        page.merge_page(over)
    after = {a.indirect_reference.idnum: b.indirect_reference for a, b in pairwise(writer.pages)}
    for entry, heading in zip(outlined(writer.root_object.get("/Outlines")), headings, strict=True):
        entry[NameObject("/Title")] = TextStringObject(heading)
        page, _, _, top, _ = place = entry["/Dest"]
        if top < FOOT:
            place[0], place[3] = after[page.idnum], FloatObject(place[0].get_object().mediabox.top)
    writer.add_metadata({"/Title": "Known Unknowns", "/Author": "The authors of Known Unknowns"})
    writer.write(target)


def build(root=ROOT):
    """Print the book into the site's folder, unless it is there already; returns what is too wide."""
    target, note = root / "_build" / "html" / NAME, root / "_build" / "pdf" / "printed.json"
    site = (root / fresh.STAMP).read_text() if (root / fresh.STAMP).exists() else None
    if target.exists() and note.exists():
        known = json.loads(note.read_text())
        if known.get("site") == site:
            return known["wide"]
    source = compose(root)
    partial = source.with_name(NAME)
    wide, headings = print_page(source, partial)
    finish(partial, source.with_name("finished.pdf"), headings)
    shutil.move(source.with_name("finished.pdf"), target)
    announce(root)
    note.write_text(json.dumps({"site": site, "wide": wide}))
    return wide


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the built site as one PDF.")
    parser.add_argument("--if-possible", action="store_true", help="without a browser say so, and be content")
    without = f"no PDF: no browser on the path ({', '.join(BROWSERS)})"
    if browser_path() is None:
        sys.exit(print(without) if parser.parse_args().if_possible else without)
    with alone():
        too_wide = build()
    for tag, right, text in too_wide:
        print(f"cut off at {right} of {WIDTH}: <{tag.lower()}> {' '.join(text.split())}")
    print(f"the book on paper: _build/html/{NAME}")
    sys.exit(bool(too_wide))
