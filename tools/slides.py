"""Print a deck for each chapter: its figures, formulas and questions, for whoever lectures on it.

Nothing is written twice: the slides are made of the pages of the built site, in
their order. A figure comes with its caption, a formula with the sentence before
it, a question with the paragraph that asks it, so that a room can answer before the next slide does.
What is marked *Further* is left out.
"""

import copy
import html
import re
import sys

from bs4 import BeautifulSoup

from tools import pdf
from tools.book import ROOT, notebooks

WIDTH, HEIGHT = 1280, 720
STYLE = """
@page { size: 1280px 720px; margin: 0 }
body { margin: 0; background: #fff; color: #111; padding: 0 }
.bd-content { display: block !important; max-width: none; padding: 0 }
.slide { width: 1280px; height: 720px; padding: 48px 72px; box-sizing: border-box; break-after: page;
  overflow: hidden; position: relative; display: flex; flex-direction: column }
.slide > h2 { font-size: 26px !important; margin: 0 0 18px !important; color: #0b5394 }
.slide .content { flex: 1; min-height: 0; display: flex; flex-direction: column; justify-content: center }
.slide .fitted { width: 100% }
.slide.title h1 { font-size: 46px !important }
.slide p, .slide li { font-size: 25px; line-height: 1.45 }
.slide.question p { font-size: 34px }
.slide.question { background: #fff8e8 }
.slide figure { text-align: center; margin: 0 }
.slide figure img { max-width: 100%; max-height: 500px; width: auto; height: auto; zoom: 1.35 }
.slide figcaption, .slide figcaption p { font-size: 19px !important; color: #333 }
.slide mjx-container { font-size: 108% !important }
.slide div.math { font-size: 27px }
.slide .uq-plotly-box { width: 800px; margin: 0 auto; zoom: 1.4 }
.slide .foot { position: absolute; right: 72px; bottom: 18px; font-size: 14px; color: #555 }
a.headerlink { display: none }
a { color: inherit; text-decoration: none }
"""
# What is too large for its slide is made smaller as a whole; returns the slides that still overflow.
FIT = """() => {
  const over = [];
  document.querySelectorAll('.slide').forEach((slide, number) => {
    const content = slide.querySelector('.content'), fitted = slide.querySelector('.fitted');
    for (let zoom = 1; zoom > .35; zoom -= .05) {
      fitted.style.zoom = zoom;
      if (fitted.scrollHeight * zoom <= content.clientHeight + 1
          && fitted.scrollWidth <= fitted.clientWidth + 1) { return; }
    }
    over.push(number + 1);
  });
  return over;
}"""


def words_of(tag):
    return tag.get_text(" ", strip=True).rstrip("#¶ ")


def heading_of(tag):
    """The heading of the section in which ``tag`` stands."""
    return words_of(tag.find_parent("section").find(re.compile("^h[1-6]$")))


def is_further(tag):
    return any(
        words_of(s.find(re.compile("^h[1-6]$"))).startswith("Further") for s in tag.find_parents("section")
    )


def slides_of(article):
    """The slides of an article, in order: (kind, heading, content)."""
    title = article.find("h1")
    promise = title.find_next("p")
    goals = title.find_next("ul")
    found = [("title", None, f"<h1>{html.escape(words_of(title))}</h1>{promise}{goals}")]
    for tag in article.find_all(["figure", "div", "p"]):
        if tag.find_parent("figure") or tag.find_parent("section") is None or is_further(tag):
            continue
        if tag.name == "figure":
            found.append(("figure", heading_of(tag), str(tag)))
        elif (
            tag.name == "div"
            and "math" in tag.get("class", [])
            and not tag.find_parent(["figure", "details"])
        ):
            before = tag.find_previous_sibling()
            said = str(before) if before is not None and before.name == "p" else ""
            found.append(("formula", heading_of(tag), said + str(tag)))
        elif tag.name == "p" and tag.find("strong", string=re.compile("^Predict, then")):
            found.append(("question", heading_of(tag), str(tag)))
    last = article.find("section", id=re.compile("take-aways"))
    for points in last.find_all("ul", recursive=False)[:1] if last else []:
        found.append(("points", heading_of(points), str(points)))
    return found


def compose(path, root=ROOT):
    """Write the deck of the chapter at ``path`` as one page of HTML; returns its path."""
    page = path.with_suffix("").as_posix()
    text = (root / "_build/html" / f"{page}.html").read_text(encoding="utf-8")
    soup = BeautifulSoup(text, "html.parser")
    article = pdf.settled(copy.copy(soup.select_one("article.bd-article")), page, [page])
    title, parts = words_of(article.find("h1")), []
    for number, (kind, heading, content) in enumerate(slides_of(article), start=1):
        top = f"<h2>{html.escape(heading)}</h2>" if heading else ""
        foot = f'<div class="foot">{html.escape(title)} · {number}</div>'
        inner = f'<div class="content"><div class="fitted">{content}</div></div>'
        parts.append(f'<section class="slide {kind}">{top}{inner}{foot}</section>')
    target = root / "_build" / "slides" / f"{path.stem}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        f"""<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8">
<title>{html.escape(title)}</title>{"".join(pdf.head_of(soup))}<style>{STYLE}</style></head>
<body><div class="bd-content">{"".join(parts)}</div></body></html>""",
        encoding="utf-8",
    )
    return target


def build(paths, root=ROOT):
    """Print the decks of the chapters ``paths``; returns the slides that overflow, by chapter."""
    over = {}
    with pdf.printing(WIDTH, HEIGHT) as page:
        for path in paths:
            source = compose(path, root)
            pdf.load(page, source)
            over[path.stem] = page.evaluate(FIT)
            size = {"width": f"{WIDTH}px", "height": f"{HEIGHT}px"}
            page.pdf(path=source.with_suffix(".pdf"), print_background=True, tagged=True, **size)
            print(f"_build/slides/{path.stem}.pdf", flush=True)
    return {stem: numbers for stem, numbers in over.items() if numbers}


if __name__ == "__main__":
    if pdf.browser_path() is None:
        sys.exit(f"no slides: no browser on the path ({', '.join(pdf.BROWSERS)})")
    overflowing = build([path for path in notebooks() if "exercises" not in path.parts])
    for stem, numbers in overflowing.items():
        print(f"{stem}: slides {numbers} do not fit")
    sys.exit(bool(overflowing))
