"""Build the site into ``_build/html``, strictly: every warning is an error.

The notebooks have run before (`tools.execute`); here nothing is executed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tools import pdf
from tools.book import ROOT, pages

REDIRECT = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Known Unknowns</title>
<meta http-equiv="refresh" content="0; url={first}.html">
</head>
<body><main><h1>Known Unknowns</h1><p><a href="{first}.html">Open the book</a></p></main></body>
</html>
"""


def build(root=ROOT, quiet=True):
    """Build the site of the book in ``root``; returns the exit status."""
    command = [Path(sys.executable).with_name("jupyter-book"), "build", "-W", "-n", "--keep-going"]
    status = subprocess.run([*command, *(["-q"] if quiet else []), root], check=False).returncode
    if status:
        # Sphinx does not read a page twice: without this, a warning would be gone the next time.
        shutil.rmtree(root / "_build" / ".doctrees", ignore_errors=True)
        return status
    html = root / "_build" / "html"
    if (root / "_static").is_dir():  # Sphinx copies it only when a page has changed, too
        shutil.copytree(root / "_static", html / "_static", dirs_exist_ok=True)
    present = {html / f"{page}.html" for page in pages(root)}
    for stale in set((html / "book").rglob("*.html")) - present:
        stale.unlink()
    (html / "index.html").write_text(REDIRECT.format(first=pages(root)[0]), encoding="utf-8")
    pdf.withdraw(root)
    (html / ".nojekyll").touch()  # GitHub Pages would leave out the folders that begin with "_"
    return 0


if __name__ == "__main__":
    status = build()
    if status == 0:
        print("the site: _build/html/index.html")
    sys.exit(status)
