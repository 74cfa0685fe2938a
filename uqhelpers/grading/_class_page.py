"""The page that an instructor reads: the class at a glance, and what it has not understood.

It holds examples of wrong answers and belongs to the instructor alone. Names
and code come from students and are escaped.
"""

import html
from collections import Counter

from . import _survey
from ._engine import checks_by_question
from ._markup import code, inline
from ._pages import page, readable
from ._questions import Asked, questions
from ._tables import question_points

BARS = 12  # of the histogram, at most
MOST = 20  # rows of a table of mistakes


def summary_page(records, module, stem):
    """The class at a glance: scores, where it struggles, with what, and with what nobody foresaw.

    Parameters
    ----------
    records : list of dict
    module : module
        The exercise's checks.
    stem : str

    Returns
    -------
    str
    """
    graded = [record for record in records if not record["problem"]]
    parts = [f"<h1>{html.escape(readable(stem))}: the class</h1>", f"<p>{in_short(records, graded)}</p>"]
    if graded:
        parts.append(section("Scores", histogram(graded)))
        parts.append(section("Questions, the hardest first", by_question(graded, module, stem)))
        parts.append(section("Known mistakes", known(graded)))
        parts.append(section("Shared wrong answers that no hint knows", unknown(graded)))
    problems = [record for record in records if record["problem"]]
    if problems:
        rows = [[link(record), inline(record["problem"])] for record in problems]
        parts.append(section("Not graded", table(["student", "why"], rows)))
    rows = [[link(record), f"{record['score']:g} of {record['most']:g}"] for record in records]
    parts.append(section("Students", table(["student", "points"], rows, numbers=(1,))))
    return page(f"{readable(stem)}: the class", "".join(parts))


def section(heading, body):
    return f"<section><h2>{html.escape(heading)}</h2>{body}</section>"


def link(record):
    """A student's name, which leads to the page that the student gets."""
    return f'<a href="feedback/{html.escape(record["slug"])}.html">{html.escape(record["student"])}</a>'


def table(heads, rows, numbers=()):
    """Rows of HTML as a table; ``numbers`` are the columns set to the right."""
    kind = ['class="number"' if column in numbers else "" for column in range(len(heads))]
    head = "".join(
        f'<th scope="col" {k}>{html.escape(text)}</th>' for text, k in zip(heads, kind, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f"<td {k}>{text}</td>" for text, k in zip(row, kind, strict=True)) + "</tr>"
        for row in rows
    )
    inside = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="group" aria-label="a table">{inside}</div>'


def in_short(records, graded):
    """How many there are, and how they did."""
    said = f"{len(records)} students, {len(graded)} graded"
    scores = [record["score"] for record in graded]
    if scores:
        middle = sum(scores) / len(scores)
        most = graded[0]["most"]
        said += f", from {min(scores):g} to {max(scores):g} of {most:g} points, {middle:.3g} on average"
    waiting = sum(bool(record.get("waiting")) for record in graded)
    return (
        said
        + "."
        + (f" {waiting} wait for somebody to read their words: fill in the rubric sheet." if waiting else "")
    )


def bins(graded):
    """The histogram of scores: a list of (from, to, students), equally wide, of whole points."""
    most = max(1, int(-(-graded[0]["most"] // 1)))
    width = -(-(most + 1) // BARS)
    counts = Counter(min(int(record["score"] // width), most // width) for record in graded)
    return [(k * width, min((k + 1) * width - 1, most), counts.get(k, 0)) for k in range(most // width + 1)]


def histogram(graded):
    """Scores as a drawing whose words say the same."""
    found, tall, wide, gap = bins(graded), 130, 44, 6
    most = max(count for *_, count in found)
    bars, said = [], []
    for i, (low, high, count) in enumerate(found):
        name = f"{low:g}" if low == high else f"{low:g}-{high:g}".replace("-", "\N{EN DASH}")
        height = round((tall - 20) * count / most)
        x, y = i * wide + gap, tall - height
        size = f'width="{wide - gap}" height="{height}"'
        bars.append(f'<rect class="bar" x="{x}" y="{y}" {size}/>')
        middle = x + (wide - gap) / 2
        if count:
            bars.append(f'<text x="{middle}" y="{y - 4}" text-anchor="middle">{count}</text>')
            said.append(f"{count} with {name}")
        bars.append(f'<text x="{middle}" y="{tall + 16}" text-anchor="middle">{name}</text>')
    width, label = len(found) * wide + gap, f"Students by points: {', '.join(said)}"
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="a drawing">'
        f'<svg viewBox="0 0 {width} {tall + 42}" width="{width}" role="img" '
        f'aria-label="{html.escape(label)}">'
        f'<line x1="0" x2="{width}" y1="{tall}" y2="{tall}" stroke="currentColor"/>{"".join(bars)}'
        f'<text x="{width / 2}" y="{tall + 36}" text-anchor="middle">points (students above)</text>'
        "</svg></div>"
    )


def shares(graded, module):
    """For each question, the share of its points that the class earned."""
    found = {}
    for name, checks in checks_by_question(module).items():
        most = sum(one.mark.points for one in checks) * len(graded)
        earned = sum(question_points(record).get(name, 0) for record in graded)
        found[name] = earned / most if most else 0.0
    return found


def by_question(graded, module, stem):
    """Each question: what the class earned, how many have all of it or nothing, how long it ran."""
    texts, found, rows = questions(stem), shares(graded, module), []
    for name, share in sorted(found.items(), key=lambda item: item[1]):
        most = sum(one.mark.points for one in checks_by_question(module)[name])
        points = [question_points(record).get(name, 0) for record in graded]
        asked = texts.get(name, Asked(name))
        silent = sum(not_answered(record, name) for record in graded)
        times = sorted((record.get("times") or {}).get(name, 0) for record in graded)
        rows.append(
            [
                inline(f"{name} · {asked.title}" if asked.title else name, True),
                bar(share),
                str(sum(value >= most for value in points)),
                str(sum(value == 0 for value in points) - silent),
                str(silent),
                f"{times[len(times) // 2]:.2g}",
                f"{times[-1]:.2g}",
            ]
        )
    heads = ["question", "points earned", "all right", "all wrong", "no answer", "seconds", "at most"]
    return table(heads, rows, numbers=(2, 3, 4, 5, 6))


def bar(share):
    """A share as a bar and in figures."""
    drawn = f'<span class="track"><i style="width:{share:.0%}"></i></span>'
    return f'<span class="share">{drawn} {share:.0%}</span>'


def not_answered(record, question):
    """Whether a student left a question as it was."""
    return all(r["status"] == "not yet" for r in record["results"] if r["question"] == question)


def known(graded):
    """The mistakes that the hints know, by how many made them."""
    rows = [
        [html.escape(name), inline(text), str(count)]
        for (name, text), count in _survey.known_mistakes(graded)[:MOST]
    ]
    if not rows:
        return "<p>None was seen.</p>"
    return table(["question", "what it looks like", "students"], rows, numbers=(2,))


def unknown(graded):
    """Answers that compute the same wrong thing, which no hint knows: what the book has not met."""
    found = _survey.groups(graded)
    if not found:
        return "<p>No two students share one.</p>"
    parts = ["<p>All were asked with the same numbers; those that compute the same stand together.</p>"]
    for group in found[:MOST]:
        names = ", ".join(html.escape(name) for name in group["students"])
        parts.append(
            f"<h3>{html.escape(group['question'])}, {inline(group['part'])}: "
            f"{len(group['students'])} students</h3>"
            f"<p>{names}</p><p>It computes {html.escape(group['example'])}. One of them wrote:</p>"
            + (code(group["code"]) if group["code"] else "")
        )
    return "".join(parts)
