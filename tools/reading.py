"""How long a chapter takes to read, by one rule: 130 words of prose and 7 visible lines of code a minute.

That is the pace which readers of the first chapters needed, with the thinking
that a formula and a line of code ask for. Words are those of the notebook's own
text and of the sentences that its cells put out, without the quiz and the list
of sources; lines of code are those that the page shows unfolded. Sections whose
heading begins with "Further" are counted apart: the stated time is that of the
core path.
"""

import argparse
import json
import re

import nbformat

from tools.book import ROOT, notebooks
from tools.execute import stored

WORDS_A_MINUTE, LINES_A_MINUTE = 130, 7
LONGEST = 45  # minutes of a chapter's core path
STATED = re.compile(r"(?<=\*Time:\* about )\d+(?= minutes to read)")
HEADING = re.compile(r"^(#{1,6}) +(.*)$")
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
SILENT = {"hide-output", "hide-cell", "remove-output", "remove-cell"}
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)  # a recipe: copied, not read
UNREAD = re.compile(r"(?i)further|quiz|sources|exercise")  # what begins so is no part of the core path


def words(text):
    """The number of words in Markdown; a formula counts as one, code and links as what they show."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$", " formula ", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)|<[^>]*>|^:::.*$", " ", text, flags=re.MULTILINE)
    return len(re.findall(r"\w[\w'’.,-]*", text))


def lines(source):
    """The lines of code that have something on them."""
    return sum(bool(line.strip()) for line in source.splitlines())


def minutes(notebook, runs):
    """Minutes that the core path of a chapter takes, and its further sections.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
        The chapter.
    runs : list of list of dict
        The outputs of its code cells.

    Returns
    -------
    (float, float)
    """
    spent = {"core": 0.0, "further": 0.0, "apart": 0.0}
    where, depth = "core", 0
    outcomes = iter(runs)
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type == "markdown":
            for block in re.split(r"(?m)^(?=#{1,6} )", FENCED.sub("", cell.source)):
                heading = HEADING.match(block.split("\n", 1)[0])
                if heading and (where == "core" or len(heading[1]) <= depth):
                    begins = UNREAD.match(heading[2])
                    where = ("further" if begins[0].lower() == "further" else "apart") if begins else "core"
                    depth = len(heading[1])
                spent[where] += words(block) / WORDS_A_MINUTE
            continue
        outputs = next(outcomes)
        if not tags & FOLDED:
            spent[where] += lines(cell.source) / LINES_A_MINUTE
        if not tags & SILENT:
            said = ["".join(output.get("data", {}).get("text/markdown", "")) for output in outputs]
            spent[where] += sum(map(words, said)) / WORDS_A_MINUTE
    return spent["core"], spent["further"]


def of(path):
    """The minutes of the chapter at ``path``, from its kept run."""
    run = json.loads(stored(path).read_text(encoding="utf-8"))
    return minutes(nbformat.read(ROOT / path, as_version=4), run["outputs"])


def chapters():
    """The chapters: the notebooks that state a time."""
    return [path for path in notebooks() if "exercises" not in path.parts]


def write(path):
    """State the computed minutes of the chapter at ``path``; returns them."""
    core = round(of(path)[0])
    text = (ROOT / path).read_text(encoding="utf-8")
    (ROOT / path).write_text(STATED.sub(str(core), text), encoding="utf-8")
    return core


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How long the chapters take to read.")
    parser.add_argument("--write", action="store_true", help="state it in the chapters")
    chosen = parser.parse_args()
    for chapter in chapters():
        core, further = of(chapter)
        print(f"{chapter}: {core:.0f} min, further sections {further:.0f} min")
        if chosen.write:
            write(chapter)
