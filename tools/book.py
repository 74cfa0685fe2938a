"""What the other tools ask about the book: its pages, its notebooks, its published name."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
MADE_PAGES = ["genindex", "py-modindex", "search"]  # by Sphinx itself
UNPUBLISHED = "your_account/known-unknowns"  # no account can have an underscore, so nobody can claim it


def pages(root=ROOT):
    """The pages of the table of contents, root first, as Sphinx names them (no ending)."""

    def files(node):
        if isinstance(node, dict):
            own = [node[key] for key in ("root", "file") if key in node]
            for pattern in [node["glob"]] if "glob" in node else []:
                own += sorted(p.relative_to(root).with_suffix("").as_posix() for p in root.glob(pattern))
            return own + [name for value in node.values() for name in files(value)]
        return [name for item in node for name in files(item)] if isinstance(node, list) else []

    return files(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8")))


def notebooks(root=ROOT):
    """The notebooks that are executed: those of the table of contents, and the learner's exercises.

    Returns
    -------
    list of pathlib.Path
        Relative to ``root``.
    """
    chapters = [Path(f"{page}.ipynb") for page in pages(root)]
    chapters = [path for path in chapters if (root / path).exists()]
    exercises = sorted(path.relative_to(root) for path in (root / "book/exercises").glob("*.ipynb"))
    return chapters + [path for path in exercises if path not in chapters]


def repository(root=ROOT):
    """The published name, ``owner/name``: `_config.yml` is the one place that holds it."""
    url = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    match = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)", url)
    if match is None:
        raise ValueError(f"_config.yml: expected a repository url https://github.com/owner/name, got {url!r}")
    return match[1]
