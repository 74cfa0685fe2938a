"""The pictures of README: a figure of the book and one of its pages, in light and in dark.

``python -m tools.pictures`` takes them from the built site; they are committed.
"""

import io

from PIL import Image
from playwright.sync_api import sync_playwright

from tools import look, pdf
from tools.book import ROOT

FOLDER = ROOT / "pictures"
SHOTS = {  # what is shown: page, the element (None: what fits on the screen), width of the window
    "page": ("book/index", None, 1280),
    "figure": ("book/posteriors/deep_ensembles", "figure.uq-plotly", 1280),
}


def shoot(browser, page_name, selector, width, scheme):
    """A picture of one element, or of the top of the page."""
    page = browser.new_page(
        viewport={"width": width, "height": 760}, color_scheme=scheme, device_scale_factor=1.5
    )
    page.goto((ROOT / "_build/html" / f"{page_name}.html").as_uri())
    look.settled(page)
    if selector is None:
        shot = page.screenshot()
    else:
        element = page.query_selector(selector)
        element.scroll_into_view_if_needed()
        page.wait_for_selector(f"{selector} .main-svg")
        page.wait_for_timeout(500)
        shot = element.screenshot()
    page.close()
    return Image.open(io.BytesIO(shot)).convert("RGB").quantize(128)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=pdf.browser_path(), args=["--no-sandbox"])
        for name, shot in SHOTS.items():
            for scheme in ("light", "dark"):
                shoot(browser, *shot, scheme).save(FOLDER / f"{name}-{scheme}.png", optimize=True)
        browser.close()
