"""What a batch leaves: records, a CSV, feedback pages, a class summary, JUnit, Gradescope, a rubric sheet.

Names, messages and answers come from students. They are escaped in HTML and
XML, cannot begin a formula in a spreadsheet, and name no file. The pages carry
no script, and a policy that would stop one.
"""

import base64
import csv
import html
import io
import json
import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from ._engine import checks_by_question, manual_questions

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2rem .6rem;text-align:left}"
    "li.passed::marker{content:'✓ '}li.failed::marker{content:'✗ '}li.open::marker{content:'… '}"
    "img{max-width:100%}:root{color-scheme:light dark}"
)


def write_atomically(path, text, mode=0o644):
    """Write a file so that it is there wholly or not at all, even if the machine stops."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
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
    text = re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", str(value))
    # The signs a formula starts with, their full-width forms too, whatever space stands before them.
    return "'" + text if re.match(r"[\s\u200b\ufeff]*[=+\-@|%＝＋－＠]", text) else text


def table(rows):
    """Rows as CSV text."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[cell(value) for value in row] for row in rows])
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
        From `read_rubric`: ``{(student, question): points}``.
    """
    asked = manual_questions(module)
    given = {name: points.get((record["student"], name)) for name in asked}
    record["manual"] = given
    record["score"] = record["automatic"] + sum(value or 0 for value in given.values())
    record["most"] = record["out_of"] + sum(one.points for one in asked.values())
    record["waiting"] = [name for name, value in given.items() if value is None]
    return record


def read_rubric(path, module):
    """The points of a rubric sheet that was filled in.

    Parameters
    ----------
    path : path
        The CSV that `rubric_sheet` made; ``points`` may be empty.
    module : module
        The exercise's checks.

    Returns
    -------
    dict
        ``{(student, question): points}`` of the questions all of whose criteria have points.

    Raises
    ------
    ValueError
        If a line names no criterion, or gives points it does not have; the message names the line.
    """
    asked, given = manual_questions(module), {}
    with open(path, encoding="utf-8-sig", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            student, name = (row.get("student") or "").removeprefix("'"), row.get("question") or ""
            criteria = asked[name].criteria if name in asked else {}
            if row.get("criterion") not in criteria:
                raise ValueError(f"rubric: line {number} names no criterion of this exercise")
            text, most = (row.get("points") or "").strip(), criteria[row["criterion"]]
            if not text:
                continue
            value = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else -1
            if not 0 <= value <= most:
                raise ValueError(
                    f"rubric: line {number}: expected points from 0 to {most:g}, got {text[:20]!r}"
                )
            given.setdefault((student, name), {})[row["criterion"]] = value
    return {
        key: sum(values.values())
        for key, values in given.items()
        if len(values) == len(asked[key[1]].criteria)
    }


def rubric_sheet(records, module):
    """One line for each student and criterion, with the answer and what was given so far."""
    rows = [["student", "question", "criterion", "most", "points", "answer"]]
    for record in records:
        for name, asked in manual_questions(module).items():
            answer = (record.get("texts") or {}).get(name, "")
            for criterion, most in asked.criteria.items():
                rows.append([record["student"], name, criterion, most, "", answer])
    return table(rows)


def grades(records, module):
    """The class as CSV: no times, so that a batch that was resumed gives the same."""
    names, asked = list(checks_by_question(module)), list(manual_questions(module))
    rows = [["student", "score", "out_of", *names, *asked, "note"]]
    for record in records:
        earned = question_points(record)
        given = ["" if record["manual"][name] is None else record["manual"][name] for name in asked]
        rows.append(
            [record["student"], record["score"], record["most"]]
            + [earned.get(name, 0) for name in names]
            + [*given, record["problem"]]
        )
    return table(rows)


def page(title, body):
    """A page of HTML without script."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def feedback_page(record, module):
    """What one student reads."""
    escape = html.escape
    parts = [f"<h1>{escape(record['exercise'])}: {escape(record['student'])}</h1>"]
    parts.append(f"<p><strong>{record['score']:g} of {record['most']:g} points</strong></p>")
    if record["problem"]:
        parts.append(f"<p>Not graded: {escape(record['problem'])}.</p>")
    for name, checks in checks_by_question(module).items():
        results = [result for result in record["results"] if result["question"] == name]
        most = sum(one.mark.points for one in checks)
        parts.append(f"<h2>{escape(name)}: {question_points(record).get(name, 0):g} of {most:g}</h2><ul>")
        for result in results:
            status = result["status"] if result["status"] in ("passed", "failed") else "open"
            text = escape(result["check"]) + (f": {escape(result['message'])}" if result["message"] else "")
            parts.append(f'<li class="{status}">{text}</li>')
        parts.append("</ul>")
    for name, asked in manual_questions(module).items():
        value = record["manual"][name]
        text = f"{value:g} of {asked.points:g}" if value is not None else "read by your instructor"
        parts.append(f"<h2>{escape(name)}: {text}</h2>")
    if record["log"]:
        lines = "".join(f"<li>{escape(line)}</li>" for line in record["log"])
        parts.append(f"<h2>While your notebook ran</h2><ul>{lines}</ul>")
    return page(f"{record['exercise']}: {record['student']}", "".join(parts))


def class_shares(records, module):
    """For each question, the share of its points that the class earned (of those graded)."""
    graded = [record for record in records if not record["problem"]]
    shares = {}
    for name, checks in checks_by_question(module).items():
        most = sum(one.mark.points for one in checks) * len(graded)
        earned = sum(question_points(record).get(name, 0) for record in graded)
        shares[name] = earned / most if most else 0.0
    return shares


def plot_shares(shares, ax):
    """Bars of the share of points earned, a question each.

    Parameters
    ----------
    shares : dict
        From `class_shares`.
    ax : matplotlib.axes.Axes

    Returns
    -------
    matplotlib.axes.Axes
    """
    bars = ax.barh(list(shares), [100 * share for share in shares.values()], color="#0072B2")
    ax.bar_label(bars, fmt="%.0f %%", padding=3)
    ax.invert_yaxis()
    ax.set(xlim=(0, 112), xlabel="points earned by the class (%)", ylabel="question")
    return ax


def summary_page(records, module, stem):
    """The class at a glance: scores, where it struggles, and with what."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shares = class_shares(records, module)
    figure = Figure(figsize=(7, 1 + 0.4 * max(len(shares), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    plot_shares(shares, figure.add_subplot())
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    words = "; ".join(f"{name} {share:.0%}" for name, share in shares.items())
    scores = [record["score"] for record in records if not record["problem"]]
    parts = [f"<h1>{html.escape(stem)}: the class</h1><p>{len(records)} students, {len(scores)} graded"]
    if scores:
        parts.append(
            f", from {min(scores):g} to {max(scores):g} points, {sum(scores) / len(scores):.3g} on average"
        )
    parts.append(
        ".</p><h2>Where the class struggles</h2>"
        f'<img alt="Share of points earned by question: {html.escape(words)}" '
        f'src="data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}">'
    )
    parts.append("<h2>With what</h2><table><tr><th>question</th><th>students</th><th>message</th></tr>")
    for (name, message), count in common_messages(records):
        parts.append(f"<tr><td>{html.escape(name)}</td><td>{count}</td><td>{html.escape(message)}</td></tr>")
    parts.append("</table><h2>Not graded</h2><ul>")
    parts += [
        f"<li>{html.escape(record['student'])}: {html.escape(record['problem'])}</li>"
        for record in records
        if record["problem"]
    ]
    parts.append("</ul><h2>Students</h2><table><tr><th>student</th><th>score</th></tr>")
    for record in records:
        link = f'<a href="feedback/{record["slug"]}.html">{html.escape(record["student"])}</a>'
        parts.append(f"<tr><td>{link}</td><td>{record['score']:g} of {record['most']:g}</td></tr>")
    return page(f"{stem}: the class", "".join(parts) + "</table>")


def common_messages(records, most=12):
    """The messages most students got: a list of ((question, message), students)."""
    counts = Counter()
    for record in records:
        if not record["problem"]:
            counts.update(
                {(r["question"], r["message"]) for r in record["results"] if r["status"] == "failed"}
            )
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]


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
