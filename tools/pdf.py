"""Print the whole book as one PDF, from the pages of the built site.

The articles of all pages are put one after the other into a single page, with
a cover and a table of contents before them; their links lead to each other
inside it. The browser prints that page: outline, tags, fonts and page numbers
are its work. What a reader of paper cannot open is closed or moved: code that
the site folds away is left out, and the answers of a quiz stand at the end.
"""

import argparse
import contextlib
import html
import json
import os
import re
import shutil
import sys
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from pypdf import PdfWriter
from pypdf.generic import NameObject, TextStringObject

from tools import fresh
from tools.book import ROOT, pages

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NAME = "known-unknowns.pdf"
MARGINS = {"top": "16mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}
WIDTH = 673  # of an A4 page between its margins, in the browser's pixels
FOOTER = """<div style="width: 100%; font: 8px sans-serif; color: #555; padding: 0 16mm; display: flex;
justify-content: space-between"><span>Known Unknowns</span><span class="pageNumber"></span></div>"""
STYLE = """
html { font-size: 13px; scroll-padding: 0 }
body { background: #fff; color: #111; padding: 0 }
article.print { max-width: none; padding: 0; break-before: page }
article.print h1 { margin-top: 0 }
h1, h2, h3, h4, summary, .uq-table caption { break-after: avoid }
figure, img, .math, table tr, .admonition { break-inside: avoid }
img { max-width: 100%; height: auto }
a { color: #0b5394; text-decoration: none }
a.headerlink, button, .uq-progress, .uq-pdf, .sd-summary-state-marker { display: none !important }
div.highlight pre, .cell_output pre, pre {
  font-size: 10.2px; white-space: pre-wrap; overflow-wrap: anywhere; overflow: visible; max-height: none }
.uq-wide, .uq-table, .pst-scrollable-table-container, .cell_output,
mjx-container { overflow: visible !important }
table { font-size: 10.5px; max-width: 100% }
.bd-content { display: block !important; max-width: none; padding: 0 }
.bd-content h1 { font-size: 26px }
.bd-content h2 { font-size: 19px; margin-top: 24px }
.bd-content h3 { font-size: 15.5px }
.cover { text-align: center; padding-top: 60mm }
.cover h1 { font-size: 40px; border: 0 }
.cover img { width: 150mm; margin: 10mm auto }
.contents ol, .contents ul { list-style: none; padding-left: 1.5em }
.contents > ul { padding-left: 0; columns: 2; font-size: 12px }
.answer { margin: 0 0 .8em; break-inside: avoid }
.uq-plotly-box { break-inside: avoid }
"""
READY = """async () => {
  await (window.MathJax && MathJax.startup ? MathJax.startup.promise : null);
  window.dispatchEvent(new Event('beforeprint'));
}"""
DRAWN = """() => [...document.querySelectorAll('.uq-plotly-box')].every(e => e.querySelector('.main-svg'))
  && [...document.images].every(i => i.complete)"""
# What is still wider than the page is made smaller as a whole, never cut.
FIT = """(width) => {
  const found = [];
  document.querySelectorAll('table, mjx-container, .uq-plotly-box, pre, img').forEach(e => {
    const zoomed = e.closest('[data-zoomed]');
    const over = e.getBoundingClientRect().right - width;
    if (over > 1 && !zoomed) {
      const whole = e.getBoundingClientRect().width;
      e.style.zoom = Math.max(.4, (whole - over) / whole);
      e.dataset.zoomed = '';
    }
  });
  document.querySelectorAll('table, mjx-container, .uq-plotly-box, pre, img').forEach(e => {
    const right = e.getBoundingClientRect().right;
    if (right > width + 2) { found.push([e.tagName, Math.round(right), e.textContent.slice(0, 60)]); }
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
    """The table of contents: a line for each page, and one for each of its sections."""
    lines = []
    for page, article in articles:
        title = article.find("h1").get_text().rstrip("#¶ ")
        lines.append(f'<li><a href="#{slug(page)}">{html.escape(title)}</a>')
        sections = [h for h in article.find_all("h2") if h.parent.get("id")]
        if sections and "api-" not in slug(page) and "exercises-" not in slug(page):
            inner = "".join(
                f'<li><a href="#{h.parent["id"]}">{html.escape(h.get_text().rstrip("#¶ "))}</a></li>'
                for h in sections
            )
            lines.append(f"<ul>{inner}</ul>")
        lines.append("</li>")
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
    body.append(f'<article class="print"><h1>Answers to the quizzes</h1>{"".join(answers)}</article>')
    page = f"""<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8"><title>Known Unknowns</title>
{"".join(head)}<style>{STYLE}</style></head>
<body><div class="bd-content"><div>{"".join(body)}</div></div></body></html>"""
    target = root / "_build" / "pdf" / "book.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")
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
    page.write_text(text.replace(*((hidden, shown) if there else (shown, hidden))), encoding="utf-8")


def withdraw(root=ROOT):
    """The site was built anew: the PDF of its former state goes."""
    (root / "_build" / "html" / NAME).unlink(missing_ok=True)
    announce(root, there=False)


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
    """Let the browser print ``source``; returns what is wider than the paper, which should be nothing."""
    with printing(WIDTH, 1000) as page:
        load(page, source)
        wide = page.evaluate(FIT, WIDTH)
        how = {"print_background": True, "outline": True, "tagged": True, "margin": MARGINS}
        feet = {"header_template": "<span></span>", "footer_template": FOOTER}
        page.pdf(path=target, format="A4", display_header_footer=True, **how, **feet)
    return wide


NAMES = {page.rsplit("/", 1)[-1] for page in pages()}  # "mcmc" is a name, and not "mc" said twice


def said_once(title):
    """A title of the outline; Chromium says those twice that stand at the top of a page."""
    half = len(title) // 2
    return title[:half] if title and title[:half] == title[half:] and title not in NAMES else title


def finish(source, target):
    """Mend the outline's titles, and say in the file what it is."""
    writer = PdfWriter(source, incremental=True)  # half the time of writing all of it

    def mend(entry):
        while entry is not None:
            entry = entry.get_object()
            if "/Title" in entry:
                entry[NameObject("/Title")] = TextStringObject(said_once(str(entry["/Title"])))
            mend(entry.get("/First"))
            entry = entry.get("/Next")

    mend(writer.root_object.get("/Outlines"))
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
    wide = print_page(source, partial)
    finish(partial, source.with_name("finished.pdf"))
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
    too_wide = build()
    for tag, right, text in too_wide:
        print(f"cut off at {right} of {WIDTH}: <{tag.lower()}> {' '.join(text.split())}")
    print(f"the book on paper: _build/html/{NAME}")
    sys.exit(bool(too_wide))
