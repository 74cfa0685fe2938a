"""Give the book its published name everywhere at once: ``make publish-as REPO=owner/name``.

`_config.yml` holds the name; the setup cells, badges and links follow it. With
the name ``your_account/known-unknowns`` the copy is unpublished again.
"""

import re
import sys

import nbformat

from tools import readme
from tools.book import ROOT, UNPUBLISHED, repository
from tools.setup_cell import replace_guard

OWNER = r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}"
NAME = r"[A-Za-z0-9._-]{1,100}"
PATTERNS = [
    "*.md",
    "*.cff",
    "*.toml",
    "*.yml",
    "book/**/*.md",
    "book/**/*.ipynb",
    "uqhelpers/grading/_questions.py",
    "uqhelpers/grading/solutions/*.ipynb",
]


def check_name(name):
    """``name`` itself, if it can be a repository's: ``owner/name``.

    Raises
    ------
    ValueError
        If it cannot.
    """
    usable = re.fullmatch(f"{OWNER}/{NAME}", name) and not name.endswith((".git", "/.", "/.."))
    if name != UNPUBLISHED and not usable:
        raise ValueError(f"REPO: expected a GitHub repository as owner/name, got {name!r}")
    return name


def rename_links(text, old, new):
    """``text`` with every link to the repository ``old``, or to its pages, led to ``new``."""
    text = re.sub(rf"(?<=github\.com/){re.escape(old)}(?![\w-])", new, text)
    text = re.sub(rf"(?<=colab\.research\.google\.com/github/){re.escape(old)}(?![\w-])", new, text)
    (old_owner, old_name), (owner, name) = old.split("/"), new.split("/")
    return re.sub(
        rf"{re.escape(f'{old_owner}.github.io/{old_name}')}(?![\w-])", f"{owner}.github.io/{name}", text
    )


def rename_notebook(text, old, new):
    """The text of a notebook with its setup cell and its links led from ``old`` to ``new``."""
    notebook = nbformat.reads(text, as_version=4)
    first = True
    for cell in notebook.cells:
        if cell.cell_type == "code" and first:
            cell.source, first = replace_guard(cell.source, old, new), False
        cell.source = rename_links(cell.source, old, new)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def publish_as(name, root=ROOT):
    """Rewrite the book's files for the repository ``name``; returns the paths that changed."""
    old, new = repository(root), check_name(name)
    changed = {}
    for path in sorted({path for pattern in PATTERNS for path in root.glob(pattern)}):
        text = path.read_text(encoding="utf-8")
        rename = rename_notebook if path.suffix == ".ipynb" else rename_links
        renamed = rename(text, old, new)
        if path.name == "README.md":
            renamed = readme.written(renamed, new, root)
        if renamed != text:
            changed[path] = renamed
    for path, text in changed.items():  # only now: all files, or none
        path.write_text(text, encoding="utf-8")
    return [path.relative_to(root) for path in changed]


if __name__ == "__main__":
    try:
        for path in publish_as(sys.argv[1] if len(sys.argv) > 1 else ""):
            print(path)
    except ValueError as error:
        sys.exit(str(error))
