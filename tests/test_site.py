"""The built site, as a reader meets it: every page in a real browser, in light, dark and on a phone."""

import functools
import http.server
import re
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools.book import MADE_PAGES, ROOT, notebooks, pages, repository

PAGES = [*pages(), *MADE_PAGES]
NOTEBOOK_PAGES = [path for path in notebooks() if path.with_suffix("").as_posix() in PAGES]


class Page(HTMLParser):
    """The parts of a page that the tests ask for."""

    def __init__(self, path):
        super().__init__()
        self.images, self.links, self.ids = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag == "img":
            self.images.append(attributes)
        for key in ("href", "src"):
            if attributes.get(key):
                self.links.append((tag, attributes[key]))


@pytest.fixture(scope="session")
def page_of(site):
    """A page by its path, read once."""
    return functools.cache(lambda path: Page(site / path))


# --- what can be read off the files ---------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_every_image_says_in_words_what_it_shows(name, page_of):
    silent = [image.get("src") for image in page_of(f"{name}.html").images if "alt" not in image]
    # The logo stands beside its name; Sphinx's own index has a minus sign in a picture.
    content = [i for i in page_of(f"{name}.html").images if not re.search("logo|minus", i.get("src", ""))]
    assert not silent
    assert all(len(image["alt"].split()) > 2 for image in content)


@pytest.mark.parametrize("name", PAGES)
def test_every_link_inside_the_book_leads_somewhere(name, site, page_of):
    here = Path(f"{name}.html")
    broken = []
    for _, link in page_of(here).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or link.startswith("#"):
            continue
        target = (site / here.parent / unquote(parts.path)).resolve()
        leads_on = target.exists()
        if leads_on and target.suffix == ".html" and parts.fragment:
            leads_on = unquote(parts.fragment) in page_of(target.relative_to(site.resolve())).ids
        if not leads_on:
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_loaded_from_elsewhere(name, page_of):
    loading = [link for tag, link in page_of(f"{name}.html").links if tag not in ("a", "link")]
    assert [link for link in loading if urlsplit(link).netloc] == []


@pytest.mark.parametrize("path", NOTEBOOK_PAGES, ids=str)
def test_a_chapter_opens_in_colab(path, page_of):
    address = f"https://colab.research.google.com/github/{repository()}/blob/main/{path.as_posix()}"
    links = [link for tag, link in page_of(path.with_suffix(".html")).links if "colab" in link and tag == "a"]
    assert links
    assert set(links) == {address}


def test_no_path_of_this_machine_is_on_the_site(site):
    told = [str(ROOT), sys.prefix, f"{Path.home()}/", str(Path(tempfile.gettempdir(), "notebooks-"))]
    for path in site.rglob("*"):
        if path.suffix in (".html", ".md", ".ipynb", ".txt", ".json") or path.name == "searchindex.js":
            text = path.read_text(encoding="utf-8")
            assert [words for words in told if words in text] == [], path


def test_the_front_door_leads_to_the_first_page(site):
    assert f"url={pages()[0]}.html" in (site / "index.html").read_text(encoding="utf-8")


def test_every_module_is_documented(page_of):
    public = {p.stem for p in (ROOT / "uqhelpers").iterdir() if not p.name.startswith("_")} - {"grading"}
    documented = {p.stem for p in (ROOT / "book/reference/api").glob("*.md")}
    assert public <= documented
    for name in documented:
        assert f"module-uqhelpers.{name}" in page_of(f"book/reference/api/{name}.html").ids


# --- what only a browser knows --------------------------------------------------------------------


@pytest.mark.browser
def test_the_front_door_leads_on_at_once(site, visit):
    guest = visit()
    guest.page.goto((site / "index.html").as_uri(), wait_until="commit")
    guest.page.wait_for_url("**/book/index.html")
    assert guest.complaints == []


@pytest.mark.browser
def test_search_finds_dropout_on_a_disk(site, visit):
    guest = visit()
    page = guest.open((site / "search.html").as_uri() + "?q=dropout")
    page.wait_for_selector("#search-results ul.search a")
    found = [link.get_attribute("href") for link in page.query_selector_all("#search-results ul.search a")]
    assert any("glossary" in link or "dropout" in link for link in found)
    assert guest.complaints == []


@pytest.mark.browser
def test_search_shows_where_the_word_stands_on_a_server(site, visit):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    handler = functools.partial(Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        guest = visit()
        page = guest.open(f"http://{host}/search.html?q=dropout")
        page.wait_for_selector("#search-results ul.search p.context")
        assert re.search("dropout", page.inner_text("#search-results"), re.IGNORECASE)
        assert guest.hosts() == {host}
        assert guest.complaints == []
        guest.context.close()
        server.shutdown()


@pytest.mark.browser
def test_the_theme_switch_turns_the_page_dark(site, visit):
    page = visit(color_scheme="light").open((site / f"{pages()[0]}.html").as_uri())
    seen = set()
    for _ in range(3):  # auto, light, dark, in whatever order
        page.locator("button.theme-switch-button:visible").first.click()
        seen.add(page.evaluate("() => document.documentElement.dataset.theme"))
    assert seen == {"light", "dark"}


def test_what_is_drawn_in_ink_is_seen_in_the_dark(site, visit):
    """The data and the truth of an interactive figure are black in the light, and light in the dark."""
    colours = """() => document.querySelector(".uq-plotly-box").data
        .flatMap(t => [t.marker && t.marker.color, t.line && t.line.color])
        .filter(c => typeof c === "string")"""
    address = (site / "book/posteriors/bayesian_linear_regression.html").as_uri()
    light = visit(color_scheme="light").open(address).evaluate(colours)
    page = visit(color_scheme="dark").open(address)
    page.wait_for_function(f"() => ({colours})().includes('#ced6dd')")
    dark = page.evaluate(colours)
    black = [place for place, colour in enumerate(light) if colour.lower() in ("#222832", "#333333", "black")]
    assert black
    assert {dark[place] for place in black} == {"#ced6dd"}
    assert [c for i, c in enumerate(dark) if i not in black] == [
        c for i, c in enumerate(light) if i not in black
    ]
