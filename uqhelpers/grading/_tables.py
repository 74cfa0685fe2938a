"""The class as tables: a CSV, JUnit, Gradescope, a rubric sheet that goes out and comes back.

Names, messages and answers come from students. They are escaped in XML, cannot
begin a formula or a column in a spreadsheet, and name no file. What is to come
back is keyed by the slug, which only the grader makes.
"""

import csv
import io
import os
import re
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from ._engine import checks_by_question, manual_questions
from ._text import printable


def write_atomically(path, text, mode=0o600):
    """Write a file so that it is there wholly or not at all, whatever stops; for its owner only."""
    path = Path(path)
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def cell(value):
    """A value that a spreadsheet takes for text or a number, never for a formula."""
    if isinstance(value, (int, float)):
        return f"{value:g}"
    text = re.sub(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+", " ", str(value))
    # The signs a formula starts with, their full-width forms too, whatever space stands before them; and what
    # would start one if a program took the semicolon for the end of the cell.
    return printable(re.sub(r"(^|;)(?=[\s\u200b\ufeff]*[=+\-@|%＝＋－＠])", r"\1'", text))


def table(rows):
    """Rows as CSV text, every field in quotes: a name may hold whatever divides columns elsewhere."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(
        [[cell(value) for value in row] for row in rows]
    )
    return out.getvalue()


def question_points(record):
    """Points earned in each question, in order."""
    earned = {}
    for result in record["results"]:
        earned[result["question"]] = earned.get(result["question"], 0) + result["earned"]
    return earned


def with_manual(record, module, points):
    """The record with the points that a person gave, and its score.

    Parameters
    ----------
    points : dict
        From `read_rubric`: ``{(slug, question): points}``.
    """
    asked = manual_questions(module)
    given = {name: points.get((record["slug"], name)) for name in asked}
    record["manual"] = given
    record["score"] = record["automatic"] + sum(value or 0 for value in given.values())
    record["most"] = record["out_of"] + sum(one.points for one in asked.values())
    record["waiting"] = [name for name, value in given.items() if value is None]
    return record


RUBRIC = ["student", "slug", "question", "criterion", "most", "points", "answer"]


def read_rubric(path, module, slugs):
    """The points of a rubric sheet that was filled in.

    Parameters
    ----------
    path : path
        The CSV that `rubric_sheet` made; ``points`` may be empty. A student is found by the slug: names may
        look alike, and a spreadsheet may change them.
    module : module
        The exercise's checks.
    slugs : sequence of str
        Of the students of this batch.

    Returns
    -------
    dict
        ``{(slug, question): points}`` of the questions all of whose criteria have points.

    Raises
    ------
    ValueError
        If the sheet lacks a column, or a line names no student or criterion of this batch, gives points that
        the criterion does not have, or repeats an earlier line; the message names the line.
    """
    asked, given, known = manual_questions(module), {}, set(slugs)
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        missing = [
            name
            for name in ("slug", "question", "criterion", "points")
            if name not in (reader.fieldnames or [])
        ]
        if missing:
            raise ValueError(
                f"rubric: expected the columns {', '.join(RUBRIC)}; {', '.join(missing)} is missing"
            )
        for number, row in enumerate(reader, start=2):
            student, name, criterion = ((row[key] or "") for key in ("slug", "question", "criterion"))
            if student not in known:
                raise ValueError(
                    f"rubric: line {number} names no student of this batch: {printable(student[:80])!r}"
                )
            criteria = asked[name].criteria if name in asked else {}
            if criterion not in criteria or None in row:
                raise ValueError(f"rubric: line {number} names no criterion of this exercise")
            text, most = (row["points"] or "").strip(), criteria[criterion]
            if not text:
                continue
            value = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else -1
            if not 0 <= value <= most:
                raise ValueError(
                    f"rubric: line {number}: expected points from 0 to {most:g}, got {text[:20]!r}"
                )
            if criterion in given.setdefault((student, name), {}):
                raise ValueError(f"rubric: line {number} gives points that an earlier line gave already")
            given[student, name][criterion] = value
    return {
        key: sum(values.values())
        for key, values in given.items()
        if len(values) == len(asked[key[1]].criteria)
    }


def rubric_sheet(records, module):
    """One line for each student and criterion, with the answer and what was given so far."""
    rows = [RUBRIC]
    for record in records:
        for name, asked in manual_questions(module).items():
            answer = (record.get("texts") or {}).get(name, "")
            for criterion, most in asked.criteria.items():
                rows.append([printable(record["student"]), record["slug"], name, criterion, most, "", answer])
    return table(rows)


def grades(records, module):
    """The class as CSV: no times, so that a batch that was resumed gives the same."""
    names, asked = list(checks_by_question(module)), list(manual_questions(module))
    rows = [["student", "slug", "score", "out_of", *names, *asked, "note"]]
    for record in records:
        earned = question_points(record)
        given = ["" if record["manual"][name] is None else record["manual"][name] for name in asked]
        rows.append(
            [printable(record["student"]), record["slug"], record["score"], record["most"]]
            + [earned.get(name, 0) for name in names]
            + [*given, record["problem"]]
        )
    return table(rows)


def junit(records, stem):
    """JUnit XML: a suite a student, a case a check."""
    root = ElementTree.Element("testsuites", name=stem)
    for record in records:
        results = record["results"]
        failed = sum(result["status"] != "passed" for result in results)
        suite = ElementTree.SubElement(
            root, "testsuite", name=legal(record["student"]), tests=str(len(results))
        )
        suite.set("failures", str(failed))
        for result in results:
            name, group = legal(result["check"]), legal(f"{stem}.{result['question']}")
            case = ElementTree.SubElement(suite, "testcase", name=name, classname=group)
            if result["status"] != "passed":
                message = legal(result["message"] or result["status"])
                ElementTree.SubElement(case, "failure", message=message)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def legal(text):
    """Text without the characters that XML has no way to write."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)


def gradescope_results(record):
    """Gradescope's ``results.json`` of one student."""
    tests = [
        {
            "name": f"{result['question']}: {result['check']}",
            "score": result["earned"],
            "max_score": result["points"],
            "output": result["message"],
            "output_format": "text",
            "visibility": "visible",
        }
        for result in record["results"]
    ]
    output = record["problem"] or "\n".join(record["log"])
    return {"score": record["score"], "output": output, "output_format": "text", "tests": tests}
