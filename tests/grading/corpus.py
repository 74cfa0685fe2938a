"""Submissions for the toy exercise: honest ones, and one for every kind of attack (``attacks.txt``)."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

TEXT = Path(__file__).with_name("attacks.txt").read_text(encoding="utf-8")
SECTION = re.compile(r"^=== (\w+): (\d)\n(.*?)(?=^===|^# |\Z)", re.MULTILINE | re.DOTALL)
DOUBLE = "def double(x):\n    return 2 * x"


@dataclass(frozen=True)
class Entry:
    """Cells or raw bytes, and what they honestly earn of 5 points."""

    cells: tuple = ()
    earns: float = 0
    metadata: dict = field(default_factory=dict)
    raw: bytes | None = None

    def data(self):
        return self.raw if self.raw is not None else notebook(self.cells, self.metadata)


def notebook(cells, metadata=None):
    """A notebook's bytes from the sources of its code cells."""
    cells = [
        {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for source in cells
    ]
    content = {"cells": cells, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content).encode()


def corpus(repository, submissions, out):
    """Every submission by name; the arguments are paths that an attacker may have guessed."""
    text = TEXT
    for name, path in (("repository", repository), ("submissions", submissions), ("out", out)):
        text = text.replace(f"@{name}@", str(path))
    entries = {
        name: Entry(tuple(cell.strip("\n") for cell in cells.split("\n---\n")), int(earns))
        for name, earns, cells in SECTION.findall(text)
    }
    return entries | files(submissions)


def files(submissions):
    """Those whose file is the attack."""
    kernelspec = {"name": "../../bin/sh", "argv": ["touch", f"{submissions}/pwned"], "language": "sh"}
    metadata = {"kernelspec": kernelspec, "language_info": {"name": {"not": "text"}}, "uqhelpers": ["no"]}
    strange = {"cells": [1, None, {"cell_type": {}}], "nbformat": 4}
    return {
        "hostile_kernelspec": Entry((DOUBLE,), 2, metadata),
        "metadata_bomb": Entry((DOUBLE,), 2, {"x": [[[[["deep"] * 10] * 10] * 10] * 10]}),
        "strange_cells": Entry(raw=json.dumps(strange).encode()),
        "not_a_notebook": Entry(raw=b"\x7fELF\x00\x01 this is not JSON"),
        "empty": Entry(raw=b""),
        "truncated": Entry(raw=notebook([DOUBLE])[:-40]),
        "nested_json": Entry(raw=b"[" * 200_000),
        "wrong_format": Entry(raw=b'{"worksheets": [], "nbformat": 3}'),
    }
