"""What a batch leaves: a CSV, feedback pages, a class summary, JUnit, Gradescope, a rubric sheet."""

import json
from pathlib import Path

from ._class_page import summary_page
from ._engine import manual_questions
from ._pages import feedback_page
from ._tables import grades, gradescope_results, junit, rubric_sheet, write_atomically


def write_all(records, module, stem, out, junit_path=None, with_gradescope=False):
    """Everything that is made from the records. Each file is replaced in one step."""
    out = Path(out)
    for record in records:
        write_atomically(out / "feedback" / f"{record['slug']}.html", feedback_page(record, module))
        if with_gradescope:
            text = json.dumps(gradescope_results(record), indent=1)
            write_atomically(out / "gradescope" / record["slug"] / "results.json", text)
    write_atomically(out / "grades.csv", grades(records, module))
    write_atomically(out / "summary.html", summary_page(records, module, stem))
    if manual_questions(module):
        write_atomically(out / "rubric.csv", rubric_sheet(records, module))
    if junit_path:
        write_atomically(junit_path, junit(records, stem))
