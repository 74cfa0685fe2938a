"""What README says of the chapters, and of the published book: made from the table of contents.

Between its comments ``chapters`` stands a row for each chapter; between ``badges``
nothing, until the book has a published name (``make publish-as``).
"""

import json
import re

import yaml

from tools.book import ROOT, UNPUBLISHED, notebooks, repository

COLAB = "https://colab.research.google.com"


def badges(name):
    """The badges of the repository ``name``; an unpublished copy has none that could lead anywhere."""
    if name == UNPUBLISHED:
        return ""
    owner, project = name.split("/")
    workflow, site = (
        f"https://github.com/{name}/actions/workflows/book.yml",
        f"https://{owner}.github.io/{project}/",
    )
    return "\n".join(
        [
            f"[![tests]({workflow}/badge.svg)]({workflow})",
            f"[![book](https://img.shields.io/badge/read-the_book-0173B2)]({site})",
        ]
    )


def chapters(name, root=ROOT):
    """A row for each chapter: its title, its question, and once the book is published the way to Colab."""
    questions = yaml.safe_load((root / "book/cards.yml").read_text(encoding="utf-8"))
    published = name != UNPUBLISHED
    rows = [
        "| chapter | the question |" + (" |" if published else ""),
        "| --- | --- |" + (" --- |" if published else ""),
    ]
    for path in notebooks(root):
        if "exercises" not in path.parts:
            cells = json.loads((root / path).read_text(encoding="utf-8"))["cells"]
            title = "".join(cells[0]["source"]).split("\n")[0].lstrip("# ")
            row = f"| [{title}]({path.as_posix()}) | {questions.get(path.stem, {}).get('question', '')} |"
            link = f" [Colab]({COLAB}/github/{name}/blob/main/{path.as_posix()}) |"
            rows.append(row + (link if published else ""))
    return "\n".join(rows)


def written(text, name, root=ROOT):
    """``text`` with what stands between its comments written anew for the repository ``name``."""
    for what, content in {"badges": badges(name), "chapters": chapters(name, root)}.items():
        inside = f"\n{content}\n" if content else "\n"
        text, count = re.subn(
            f"(<!-- {what} -->).*?(<!-- end of {what} -->)",
            lambda found, inside=inside: found[1] + inside + found[2],
            text,
            flags=re.DOTALL,
        )
        if count != 1:
            raise ValueError(
                f"README.md: expected the comments <!-- {what} --> and <!-- end of {what} --> once"
            )
    return text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(written(readme.read_text(encoding="utf-8"), repository()), encoding="utf-8")
