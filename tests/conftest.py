"""What all tests share: one thread a worker, no windows, and the site in a browser."""

import os
import shutil
from urllib.parse import urlsplit

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; the workers fill the cores
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
from hypothesis import settings

from tools import look
from tools.book import MADE_PAGES, ROOT, pages

settings.register_profile("book", deadline=None)  # a busy machine is slow, not wrong
settings.load_profile("book")

PATIENCE = 240_000  # milliseconds: a busy machine is slow, not wrong
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    "--no-sandbox",  # needed by root; the pages are our own
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
]


NEEDED = (
    "no browser on the path",
    "no sandbox here",
    "there is no built site",
    "there is no PDF",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Under ``CI=true`` a test that skips for want of a browser, a sandbox or the site has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)
        if any(needed in reason for needed in NEEDED):
            report.outcome = "failed"
            report.longrepr = f"{reason}\nCI=true: what the tests need must be there (.ci/run installs it)"
    return report


@pytest.fixture(scope="session")
def site():
    """The folder of the built site."""
    folder = ROOT / "_build" / "html"
    if not (folder / "index.html").exists():
        pytest.skip("there is no built site: `make book` builds it")
    return folder


@pytest.fixture(scope="session")
def browser():
    """Chromium, one for each worker."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"no browser on the path ({', '.join(BROWSERS)})")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=OPTIONS)
        yield started
        started.close()


def pytest_generate_tests(metafunc):
    """A test that takes ``page_name`` is made for every page of the site."""
    if "page_name" in metafunc.fixturenames:
        metafunc.parametrize("page_name", [*pages(), *MADE_PAGES])


class Visit:
    """A browser's page that notes every request and every complaint."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(reduced_motion="reduce", **options)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", lambda request: self.complaints.append(f"failed: {request.url}"))
        self.page.on("console", self.listen)

    def listen(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, address):
        self.page.goto(address, wait_until="load")
        look.settled(self.page)
        for figure in self.page.query_selector_all("figure.uq-plotly"):
            figure.scroll_into_view_if_needed()
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.uq-plotly-box')].every(e => e.querySelector('.main-svg'))"
        )
        return self.page

    def hosts(self):
        return {urlsplit(url).netloc for url in self.requests if urlsplit(url).scheme.startswith("http")}


@pytest.fixture
def visit(browser):
    visits = []

    def start(**options):
        visits.append(Visit(browser, **options))
        return visits[-1]

    yield start
    for each in visits:
        each.context.close()
