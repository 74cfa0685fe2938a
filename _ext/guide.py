"""The guide and the cheat sheet: pages whose lines stand for what ``tools`` makes of the stored results."""

import hashlib
import importlib
import sys
from pathlib import Path

PAGES = {"book/reference/choose": "choose", "book/reference/cheat_sheet": "cheat_sheet"}


def expand(app, docname, source):
    """Put in what ``tools`` makes of the page; it is read again when what that is made of changes."""
    if docname not in PAGES:
        return
    sys.path.insert(0, str(app.srcdir))
    try:
        maker = importlib.import_module(f"tools.{PAGES[docname]}")
    finally:
        sys.path.remove(str(app.srcdir))
    for path in maker.sources():
        app.env.note_dependency(str(path))
    source[0] = maker.expand(source[0])


def setup(app):
    app.connect("source-read", expand)
    version = int(hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8], 16)
    return {"env_version": version, "parallel_read_safe": True, "parallel_write_safe": True}
