"""Notebooks as what they are, JSON: master to learner's version, and reading what was handed in.

A master (``book/exercises/solutions/<stem>.ipynb``) is an ordinary notebook
whose cells may carry these tags:

``solution``
    In a code cell, what lies between ``# BEGIN SOLUTION`` and ``# END SOLUTION``
    becomes ``# your code here`` and ``...``, or what follows a colon after
    ``BEGIN SOLUTION``. A text cell becomes an invitation to write.
``wrong-answer``
    A raw cell, which never runs, with a known wrong answer to the question that
    the cell's metadata names. Its first line, ``# hint: …``, is part of what the
    check must say. Only the tests see these cells.
``from-the-page``
    A raw cell with the best that can be pasted from the chapter as an answer to
    the question that its metadata names, renamed so that it runs. Its first
    line, ``# from: …``, says from where. Only the tests see these cells.
``instructor``
    For instructors; dropped.
"""

import copy
import json
import re
from pathlib import Path

STUB = "# your code here\n{indent}..."
INVITATION = "*Write your answer here, in place of this line.*"
SOLUTION = re.compile(
    r"(?ms)^([ \t]*)# BEGIN SOLUTION(?::[ \t]*([^\n]*))?[ \t]*\n.*?^[ \t]*# END SOLUTION[ \t]*$"
)
HINT = re.compile(r"# hint: (.+)")
PASTE = re.compile(r"# from: (.+)")
FOR_TESTS = {"wrong-answer", "from-the-page"}
LARGEST = 10 * 2**20  # bytes of a submission
MOST_CELLS = 1000
CALL = re.compile(r"\b(?:check|score|hint)\(\s*[\"']([a-z][a-z0-9_]*)[\"']")


class NotASubmission(ValueError):
    """A file that cannot be graded; the message says why, in one line."""


def read(path):
    """A notebook of our own as a dictionary."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def dump(notebook):
    """A notebook as the text that is committed."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def source_of(cell):
    """A cell's text; notebooks keep it as one string or as lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def tags_of(cell):
    return set(cell.get("metadata", {}).get("tags", []))


def learners_version(master):
    """The learner's notebook of a master.

    Parameters
    ----------
    master : dict

    Returns
    -------
    dict
        Without solutions, outputs, wrong answers and instructor's cells.

    Raises
    ------
    ValueError
        If solution markers are unbalanced, or stand in a cell that is not tagged ``solution``.
    """
    return _select(master, _hide)


def solved_version(master):
    """The notebook with its solutions, for whoever has tried: no wrong answers, no instructor's cells."""
    return _select(master, lambda cell: cell)


def _select(master, change):
    notebook = copy.deepcopy(master)
    cells = [c for c in notebook["cells"] if not tags_of(c) & {"instructor", *FOR_TESTS}]
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    notebook["cells"] = [change(cell) for cell in cells]
    return notebook


def _hide(cell):
    source = source_of(cell)
    if "solution" in tags_of(cell):
        if cell["cell_type"] == "markdown":
            source, count = INVITATION, 1
        else:
            source, count = SOLUTION.subn(lambda m: m[1] + (m[2] or STUB.format(indent=m[1])), source)
        if count == 0:
            raise ValueError(f"solution: expected BEGIN and END markers in cell {cell.get('id')}")
        cell["metadata"]["tags"] = sorted(tags_of(cell) - {"solution"} | {"answer"})
    if re.search(r"(BEGIN|END) SOLUTION", source):
        raise ValueError(f"solution: markers that are unbalanced, or not tagged, in cell {cell.get('id')}")
    cell["source"] = source.splitlines(keepends=True)
    return cell


def wrong_answers(master):
    """The known wrong answers of a master: a list of (question, part of the expected message, source)."""
    found = []
    for cell in master["cells"]:
        if "wrong-answer" in tags_of(cell):
            source = source_of(cell)
            hint = HINT.match(source)
            question = cell["metadata"].get("question")
            if not hint or not question:
                raise ValueError(
                    f"wrong-answer: expected a question and a first line '# hint: ', cell {cell.get('id')}"
                )
            found.append((question, hint[1].strip(), source))
    return found


def from_the_page(master):
    """What can be pasted from the chapter: a list of (question, where it stands there, source)."""
    found = []
    for cell in master["cells"]:
        if "from-the-page" in tags_of(cell):
            source = source_of(cell)
            origin = PASTE.match(source)
            question = cell["metadata"].get("question")
            if not origin or not question:
                raise ValueError(
                    f"from-the-page: expected a question and a first line '# from: ', cell {cell.get('id')}"
                )
            found.append((question, origin[1].strip(), source))
    return found


def code_cells(notebook):
    """The sources of a notebook's code cells."""
    return [source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def solution_of(notebook, question):
    """The cells from a question's heading (``## q3 …``) to the next, as text."""
    taken, inside = [], False
    for cell in notebook["cells"]:
        source = source_of(cell)
        heading = re.match(r"##\s+(q\d+)\b", source) if cell["cell_type"] == "markdown" else None
        if heading:
            inside = heading[1] == question
        if inside:
            taken.append(source)
    if not taken:
        raise ValueError(f"question: expected one of the exercise's, got {question!r}")
    return "\n\n".join(taken)


def read_submission(data, stem):
    """The code cells and text cells of what a student handed in. Nothing in it is trusted.

    Parameters
    ----------
    data : bytes
    stem : str
        The exercise that is graded.

    Returns
    -------
    cells, texts : list of str

    Raises
    ------
    NotASubmission
        If it is no notebook, too large, or answers another exercise.
    """
    if not data.strip():
        raise NotASubmission("the file is empty")
    if len(data) > LARGEST:
        raise NotASubmission(f"the file is larger than {LARGEST >> 20} MiB: clear its outputs")
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError, UnicodeDecodeError):
        raise NotASubmission("not a notebook, or cut short: it cannot be read as JSON") from None
    cells = notebook.get("cells") if type(notebook) is dict else None
    if type(cells) is not list:
        raise NotASubmission("not a notebook of format 4: it has no list of cells")
    if len(cells) > MOST_CELLS:
        raise NotASubmission(f"more than {MOST_CELLS} cells")
    found = {"code": [], "markdown": []}
    for cell in cells:
        kind = cell.get("cell_type") if type(cell) is dict else None
        source = cell.get("source", "") if type(cell) is dict else None
        if type(source) is list and all(type(line) is str for line in source):
            source = "".join(source)
        if type(kind) is not str or type(source) is not str:
            raise NotASubmission("not a notebook: a cell is malformed")
        if kind in found:
            found[kind].append(source.encode(errors="replace").decode())
    _is_of(stem, notebook, found["code"])
    return found["code"], found["markdown"]


def _is_of(stem, notebook, cells):
    """Refuse a notebook that says it is of another exercise, or only checks another."""
    metadata = notebook.get("metadata")
    ours = metadata.get("uqhelpers") if type(metadata) is dict else None
    named = ours.get("exercise") if type(ours) is dict else None
    checked = {name for source in cells for name in CALL.findall(source)}
    if stem in checked or named == stem:
        return
    others = sorted(checked | ({named} if type(named) is str else set()))
    if others:
        raise NotASubmission(f"this notebook answers {others[0][:60]!r}, not {stem!r}")
