"""The questions of an exercise as its notebook asks them, and what of a submission answers which.

The text is that of the solution which ships with the package; the chapter's
place comes with it, as does the heading under which to read again.
"""

import ast
import functools
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from ._notebooks import read, source_of

BOOK = "https://your_account.github.io/known-unknowns"
SHOWN = 6000  # characters of an answer on a page
CELLS = 8


@dataclass(frozen=True)
class Asked:
    """A question: its title without the points, and its text, in Markdown."""

    name: str
    title: str = ""
    text: str = ""


@functools.cache
def questions(stem):
    """The questions of an exercise by name; none if it is not one of the package's."""
    notebook = shipped(stem)
    found, name = {}, None
    for cell in notebook["cells"] if notebook else []:
        if cell["cell_type"] != "markdown":
            continue
        text = source_of(cell)
        heading = re.match(r"##\s+(q\d+)\s*·?\s*(.*?)\s*(?:\([\d.]+ points?\))?\s*(?:\n|\Z)", text)
        if heading:
            name = heading[1]
            found[name] = Asked(name, heading[2], text[heading.end() :].strip())
        elif re.match(r"#+\s", text):
            name = None
        elif name and "answer" not in cell["metadata"].get("tags", []) and not _is_solution(cell):
            found[name] = Asked(name, found[name].title, f"{found[name].text}\n\n{text}".strip())
    return found


def _is_solution(cell):
    return "solution" in cell["metadata"].get("tags", [])


@functools.cache
def shipped(stem):
    """The notebook of the exercise in the package; None if there is none."""
    path = Path(__file__).parent / "solutions" / f"{stem}.ipynb"
    return read(path) if path.is_file() else None


def expected(asked, names):
    """A question's text in two: what stands around, and the paragraphs that say what is to be handed in.

    Parameters
    ----------
    asked : Asked
    names : sequence of str
        The functions and variables that the checks ask for.

    Returns
    -------
    around, wanted : str
        In Markdown, without the line of points.
    """
    pieces = [
        piece for piece in re.split(r"\n\s*\n", asked.text) if not re.match(r"\*[\d.]+ points? for ", piece)
    ]
    wanted = [piece for piece in pieces if any(re.search(rf"`{re.escape(n)}[`(]", piece) for n in names)]
    return "\n\n".join(piece for piece in pieces if piece not in wanted), "\n\n".join(wanted)


def handed_in(cells, names):
    """The cells of a submission that define names, the last for each, as one piece of text.

    Parameters
    ----------
    cells : list of str
    names : sequence of str

    Returns
    -------
    str
    """
    defines = [defined(cell) for cell in cells]
    chosen = set()
    for name in names:
        chosen.update([number for number, found in enumerate(defines) if name in found][-1:])
    text = "\n\n".join(cells[number].strip("\n") for number in sorted(chosen)[:CELLS])
    return text if len(text) <= SHOWN else text[:SHOWN] + "\n…"


def code(cells, results):
    """What a submission has for each question, by its name: the cells that define what was asked for."""
    asked = {}
    for result in results:
        asked.setdefault(result["question"], []).extend(result["asked"])
    return {name: handed_in(cells, names) for name, names in asked.items()}


def defined(cell):
    """The names that a cell of code gives a value, as far as it can be read."""
    try:
        tree = ast.parse("\n".join("pass" if line[:1] in "%!" else line for line in cell.split("\n")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(re.findall(r"(?m)^(?:def\s+)?([A-Za-z_]\w*)\s*(?:\(|=(?!=))", cell))
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            names.update(
                n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def chapter(stem):
    """Where an exercise's chapter stands in the book, such as ``"posteriors/laplace"``, or nothing."""
    notebook = shipped(stem)
    return notebook["metadata"].get("uqhelpers", {}).get("chapter", "") if notebook else ""


def section_link(stem, heading):
    """The address of a chapter's section; of the chapter without a heading; empty if there is no chapter."""
    place = chapter(stem)
    return f"{BOOK}/{place}.html" + (f"#{anchor(heading)}" if heading else "") if place else ""


def anchor(heading):
    """A heading's name in an address, as the book's builder makes it."""
    plain = (
        unicodedata.normalize("NFKD", heading.replace("ß", "sz").lower()).encode("ascii", "ignore").decode()
    )
    return re.sub(r"^[-0-9]+|-+$", "", re.sub(r"[^a-z0-9]+", "-", " ".join(plain.split())))
