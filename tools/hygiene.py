"""What a notebook of this book is held to, as far as a machine can tell.

Each check takes a notebook and returns complaints, an empty list if there are
none. ``tests/test_notebooks.py`` runs them all, on the notebooks and on
notebooks that are wrong on purpose.
"""

import re
import warnings

import nbformat

from tools.setup_cell import guard
from tools.tidy import METADATA, is_checked

LONGEST_CELL, LONGEST_SCRATCH_CELL = 25, 15
TAGS = {
    "hide-input",  # a sentence with a result, a long figure
    "hide-output",
    "hide-cell",
    "remove-cell",  # a claim, held by an assertion
    "remove-input",
    "remove-output",
    "scratch",  # the idea built from scratch: short cells
    "answer",  # of a learner, in an exercise
    "raises-exception",  # an error that the reader is meant to see
}
# Numbers that may stand in prose, because no run of ours has to confirm them: settings, examples, and
# figures that others published. Results of our own are computed where they are said.
ALLOWED = {
    "": ["95 %", "0.5"],  # every chapter: the rate that gives FPR95 its name, a fair coin
    "bayesian_linear_regression": ["95 %"],  # what is promised, not what was reached
    "case_study": ["at 5 %", "the 5 %", "with 5 %", "20 % too large"],  # meant, or chosen
    "conformal": ["90 %", "85 %", "at most 5 %"],  # what is promised, not what was reached
    "leaderboard": ["in 98 %", "than 90 %"],  # promised
    "mc_dropout": [
        "more than 90 % sure",  # the threshold in the cell above it
        "between 0.2 and 0.4",
        "dropout rate of 0.1",
        "80 % confidence, are 80 % right",
        "ECE of .0082",
        "of .9899",
        "of .9817",
        "*is* the .0082",
    ],
}
DEBRIS = re.compile(r"\{(?:cite|term|glue)(?::\w+)?\}|```\s*\{")
ABSOLUTE = re.compile(r"""["'\s=(](?:/(?:home|root|tmp|work|Users|usr|var|mnt|opt|content)/|[A-Z]:\\\\)""")
HOST = re.compile(r"https?://[^\s\"')]+")
NUMBER = re.compile(r"(?<![\w.,])(?:\d+(?:[.,]\d+)?\s?(?:%|percent\b|per cent\b)|\d*\.\d+)(?![\w.]*\d)")
UNBOUND = re.compile(r"(?ims)^#+ [^\n]*(?:sources|quiz).*?(?=^#|\Z)")  # a quiz asks about invented cases

# What every chapter has, and how to recognise it in its text.
PARTS = {
    "one title": r"\A# \S",
    "objectives": r"(?i)objectives|you will be able to",
    "prerequisites": r"(?i)prerequisites|before you start",
    "reading minutes": r"(?i)\d+ min",
    "seconds on a CPU": r"(?i)\d+ s(?:econds)?\b",
    "a prediction to make before running": r"(?i)predict, then run",
    "a case where it fails": r"(?im)^#+ .*(?:fail|break)",
    "a recipe for the reader's own model": r"(?im)^#+ .*your own model",
    "take-aways": r"(?im)^#+ .*take-?aways",
    "a quiz": r"(?im)^#+ .*quiz",
    "sources": r"(?im)^#+ .*sources",
    "a link to the glossary": r"reference/glossary\.md",
}


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def about(cell):
    """A few words that tell which cell is meant."""
    first = (cell.source.strip() or "empty").splitlines()[0]
    return f"cell {cell.get('id', '?')} ({first[:50]})"


def tags(cell):
    return cell.metadata.get("tags", [])


def form(notebook):
    """Valid, of format 4.5, one kind of metadata, known tags."""
    found = []
    ids = [cell.get("id") for cell in notebook.cells]  # before nbformat mends them
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        found.append(f"not valid: {error.message}")
    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        found.append(f"format {notebook.nbformat}.{notebook.nbformat_minor}, expected 4.5")
    if {key: value for key, value in notebook.metadata.items() if key != "uqhelpers"} != METADATA:
        found.append("other metadata than python3's: `make tidy` mends it")
    if len(set(ids)) != len(ids) or not all(ids):
        found.append("cells need ids, each its own")
    for cell in notebook.cells:
        found += [f"unknown tag {tag!r} on {about(cell)}" for tag in set(tags(cell)) - TAGS]
    return found


def outputs(notebook):
    """Outputs only where nbval compares them, and there with an execution count."""
    found = []
    for cell in code(notebook):
        if is_checked(cell):
            if not cell.outputs or cell.execution_count is None:
                found.append(f"nothing to compare with: {about(cell)}")
        elif cell.outputs or cell.execution_count is not None:
            found.append(f"stored output: {about(cell)}")
    return found


def size(notebook):
    """Cells that can be read at one look."""
    found = []
    for cell in code(notebook):
        lines = len(cell.source.splitlines())
        allowed = LONGEST_SCRATCH_CELL if "scratch" in tags(cell) else LONGEST_CELL
        if lines > allowed:
            found.append(f"{lines} lines, at most {allowed}: {about(cell)}")
        if not cell.source.strip():
            found.append(f"nothing in it: {about(cell)}")
    return found


def setup(notebook, repository):
    """The guard for ``repository`` comes first, and nothing else installs anything."""
    cells = code(notebook)
    found = []
    if not cells or not (cells[0].source + "\n").startswith(guard(repository)):
        found.append(f"the first code cell does not begin with the setup guard for {repository}")
    for cell in cells[1:]:
        if re.search(r"\bpip\b.*\binstall\b", cell.source):
            found.append(f"installs something: {about(cell)}")
    return found


def places(notebook, repository):
    """No absolute path and no other host in code."""
    found = []
    for cell in code(notebook):
        source = cell.source.replace(guard(repository).rstrip("\n"), "")
        if ABSOLUTE.search(source):
            found.append(f"absolute path: {about(cell)}")
        if HOST.search(source):
            found.append(f"names a host: {about(cell)}")
    return found


def typed_numbers(notebook, stem=""):
    """Percentages and decimals in prose: a result belongs into a cell that computes it.

    Formulas, code, links, the quiz and the list of sources may hold numbers, and
    so may the phrases that are allowed to the chapter ``stem``.
    """
    found = []
    for cell in prose(notebook):
        text = UNBOUND.sub(" ", cell.source)
        text = re.sub(r"```.*?```|`[^`]*`", " ", text, flags=re.DOTALL)
        text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$", " ", text, flags=re.DOTALL)
        text = re.sub(r"\]\([^)]*\)|<?https?://\S+", "]", text)
        text = re.sub(r"\s+", " ", text)
        for phrase in ALLOWED[""] + ALLOWED.get(stem, []):
            text = text.replace(phrase, " ")
        found += [f"number typed by hand, {number!r}: {about(cell)}" for number in NUMBER.findall(text)]
    return found


def debris(notebook):
    """Roles that only the site understands."""
    return [f"debris in Colab, {m!r}: {about(c)}" for c in prose(notebook) for m in DEBRIS.findall(c.source)]


def chapter(notebook):
    """The parts that a chapter has."""
    text = "\n\n".join(cell.source for cell in prose(notebook))
    found = [f"missing: {part}" for part, pattern in PARTS.items() if not re.search(pattern, text)]
    if len(re.findall(r"(?m)^# ", re.sub(r"```.*?```", "", text, flags=re.DOTALL))) > 1:
        found.append("more than one title")
    if not any("assert " in cell.source for cell in code(notebook)):
        found.append("missing: an assertion")
    return found


def figures(notebook, runs):
    """Alt text and caption for every figure that the run put out.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
        The notebook as committed.
    runs : list of list of dict
        The outputs of its code cells.
    """
    found, interactive = [], False
    for cell, outcome in zip(code(notebook), runs, strict=True):
        bundles = [output.get("data", {}) for output in outcome]
        if {"remove-cell", "remove-output"} & set(tags(cell)):
            continue
        if any("image/png" in data or "image/svg+xml" in data for data in bundles):
            settings = cell.metadata.get("mystnb", {})
            if len(settings.get("image", {}).get("alt", "").split()) < 4:
                found.append(f"figure without alt text: {about(cell)}")
            if not settings.get("figure", {}).get("caption", "").strip():
                found.append(f"figure without caption: {about(cell)}")
        for data in bundles:
            page = "".join(data.get("text/html", ""))
            if 'class="uq-plotly"' in page:
                interactive = True
                if not re.search(r'aria-label="[^"]{20,}"', page):
                    found.append(f"interactive figure without alt text: {about(cell)}")
            elif "application/vnd.plotly.v1+json" in data:
                found.append(f"plotly figure not shown by plots.show: {about(cell)}")
    return found if interactive else [*found, "missing: an interactive figure"]
