"""Bring notebooks into the form in which they are committed: no outputs, one kind of metadata.

The cells marked ``#NBVAL_CHECK_OUTPUT`` keep their outputs: a test compares
them with every run.
"""

import nbformat

from tools.book import ROOT

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("tags", "mystnb", "question")  # of a cell's metadata


def is_checked(cell):
    """Whether the cell's output is compared with every run."""
    return any(line.replace(" ", "") == "#NBVAL_CHECK_OUTPUT" for line in cell.source.splitlines())


def tidied(text):
    """The text of a notebook as it is committed."""
    notebook = nbformat.reads(text, as_version=4)
    notebook.nbformat_minor = 5
    exercise = {key: value for key, value in notebook.metadata.items() if key == "uqhelpers"}
    notebook.metadata = nbformat.from_dict(METADATA | exercise)
    for number, cell in enumerate(notebook.cells):
        cell.setdefault("id", f"cell-{number:03d}")
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k in KEPT and v})
        if cell.cell_type == "code" and is_checked(cell):
            cell.execution_count = cell.execution_count or 1
            for output in cell.outputs:
                if "metadata" in output:  # what is printed has none
                    output.metadata = nbformat.from_dict({})
        elif cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return nbformat.writes(notebook).rstrip("\n") + "\n"


if __name__ == "__main__":
    for path in sorted((ROOT / "book").rglob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        if tidied(text) != text:
            path.write_text(tidied(text), encoding="utf-8")
            print(path.relative_to(ROOT))
