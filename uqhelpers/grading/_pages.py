"""The pages that a person reads: feedback for a student, the class for the instructor.

Names, messages and answers come from students and are escaped. The pages carry
no script, and a policy that would stop one.
"""

import base64
import html
import io
from collections import Counter

from ._engine import checks_by_question, manual_questions
from ._tables import question_points

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2rem .6rem;text-align:left}"
    "li.passed::marker{content:'✓ '}li.failed::marker{content:'✗ '}li.open::marker{content:'… '}"
    "img{max-width:100%}:root{color-scheme:light dark}"
)


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
