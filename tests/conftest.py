"""What all tests share: one thread a worker, no windows, and the site in a browser."""

import os
import shutil

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; the workers fill the cores
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
from hypothesis import settings

from tools.book import ROOT

settings.register_profile("book", deadline=None)  # a busy machine is slow, not wrong
settings.load_profile("book")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    "--no-sandbox",  # needed by root; the pages are our own
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
]


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
