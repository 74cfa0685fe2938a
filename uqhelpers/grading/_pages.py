"""The page that a student reads: what was asked, what was handed in, what it looks like, where to read again.

Names, messages and answers come from students and are escaped. The pages carry
no script, and a policy that would stop one.
"""

import html

from . import _words
from ._engine import checks_by_question, manual_questions
from ._markup import blocks, code, inline
from ._questions import Asked, expected, questions

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#f3f4f6;--line:#8a919a;
--quiet:#4b535d;--right:#1d6b2d;
--wrong:#a3261b;--open:#6b5200;--link:#0b57a4;--bar:#0072b2}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#15181c;--soft:#20252b;--line:#7b848e;
--quiet:#b3bac2;
--right:#7fd08f;--wrong:#ff9a8f;--open:#e5c558;--link:#8ec2ff;--bar:#5db3e6}}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0}
main{max-width:52rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.2rem;margin:0 0 .3rem}
h3{font-size:.95rem;margin:1.1rem 0 .2rem;color:var(--quiet)}
a{color:var(--link)}p{margin:.4rem 0}
section{border-top:1px solid var(--line);padding:1.1rem 0 .6rem}
code{font:.9em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
p code,li code,td code,h2 code{background:var(--soft);padding:0 .25em;border-radius:3px;
overflow-wrap:anywhere}
pre code{font-size:.85em}
pre{background:var(--soft);border-left:3px solid var(--line);padding:.6rem .8rem;overflow:auto;
max-height:26rem;margin:.3rem 0}
ul.parts{list-style:none;margin:.4rem 0;padding:0}ul.parts li{padding-left:1.5rem;
text-indent:-1.5rem;margin:.25rem 0}
.mark{display:inline-block;width:1.5rem;text-indent:0;font-weight:700}
.passed .mark,.right{color:var(--right)}.failed .mark,.wrong{color:var(--wrong)}
.open .mark{color:var(--open)}
.points{font-weight:400;color:var(--quiet)}
math[display=block]{margin:.5rem 0;overflow-x:auto;max-width:100%}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0}th,td{border:1px solid var(--line);
padding:.25rem .6rem;text-align:left;vertical-align:top}
td.number,th.number{text-align:right}
svg{max-width:100%;height:auto;color:var(--ink)}svg .bar{fill:var(--bar)}svg text{fill:currentColor;
font:13px system-ui,sans-serif}
.share{white-space:nowrap}.wide svg{max-width:none}
.track{display:inline-block;width:5rem;height:.75rem;background:var(--soft);
border:1px solid var(--line);vertical-align:middle}
.track i{display:block;height:100%;background:var(--bar)}
@media print{:root{--ink:#000;--paper:#fff;--soft:#f5f5f5;--line:#777;--quiet:#333;--right:#1d6b2d;
--wrong:#a3261b;
--open:#6b5200;--link:#000;--bar:#0072b2}body{font-size:11pt}main{max-width:none;padding:0}
pre{overflow:visible;max-height:none;white-space:pre-wrap}h2,h3{break-after:avoid}
li,tr{break-inside:avoid}
a[href^=http]::after{content:" (" attr(href) ")";font-size:.8em;overflow-wrap:anywhere}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""


def page(title, body):
    """A page of HTML without script."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def feedback_page(record, module):
    """What one student reads.

    Parameters
    ----------
    record : dict
        With its manual points (`with_manual`).
    module : module
        The exercise's checks.

    Returns
    -------
    str
    """
    stem, texts = record["exercise"], questions(record["exercise"])
    parts = [
        f"<h1>{html.escape(readable(stem))}: {html.escape(record['student'])}</h1>",
        f"<p><strong>{record['score']:g} of {record['most']:g} points</strong>{waiting(record)}</p>",
    ]
    if record["problem"]:
        parts.append(f"<p>Nothing could be graded: {inline(record['problem'])}.</p>")
    else:
        for name, checks in checks_by_question(module).items():
            results = [result for result in record["results"] if result["question"] == name]
            handed_in = (record.get("code") or {}).get(name, "")
            parts.append(answered(stem, texts.get(name, Asked(name)), checks, results, handed_in))
        parts += [
            by_hand(record, texts.get(name, Asked(name)), one)
            for name, one in manual_questions(module).items()
        ]
    if record["log"]:
        lines = "".join(f"<li>{inline(line)}</li>" for line in record["log"])
        parts.append(f"<section><h2>While your notebook ran</h2><ul>{lines}</ul></section>")
    return page(f"{readable(stem)}: {record['student']}", "".join(parts))


def readable(stem):
    """An exercise's name as one reads it."""
    return stem.replace("_", " ").capitalize()


def waiting(record):
    """What a person has still to read, if anything."""
    names = record.get("waiting") or []
    return f" so far: {', '.join(map(html.escape, names))} will be read by your instructor" if names else ""


def title(asked, points):
    """A question's heading."""
    named = f"{asked.name} · {asked.title}" if asked.title else asked.name
    return f'<h2>{inline(named, True)} <span class="points">{points}</span></h2>'


def answered(stem, asked, checks, results, handed_in):
    """One question: what is right and what is not, what was asked and handed in, where to go on."""
    earned, most = _words.totals(results)
    names = [name for result in results for name in result.get("asked") or []]
    around, wanted = expected(asked, names)
    parts = [title(asked, f"{earned:g} of {most:g} points"), judged(results)]
    if earned < most:
        parts += under("The question", blocks(around)) if around else []
        parts += under("What was expected", blocks(wanted)) if wanted else []
        parts += under("What you handed in", code(handed_in)) if handed_in else []
        hints = list(dict.fromkeys(check.mark.hint for check in checks if check.mark.hint))
        parts += under("A hint", "".join(f"<p>{inline(text)}</p>" for text in hints)) if hints else []
        links = [_words.linked(*one) for one in _words.section(stem, checks)]
        parts += under("Read again in the chapter", f"<p>{'; '.join(links)}</p>") if links else []
    return f"<section>{''.join(parts)}</section>"


def judged(results):
    """The parts of a question with their marks: the lines that `check` shows."""
    rows = []
    for status, said in _words.lines(results):
        kind = status if status in ("passed", "failed") else "open"
        word = {"passed": "right", "failed": "wrong"}.get(kind, "open")
        rows.append(
            f'<li class="{kind}"><span class="mark" role="img" aria-label="{word}">'
            f"{_words.MARKS.get(status, '…')}</span>{inline(said)}</li>"
        )
    return f'<ul class="parts">{"".join(rows)}</ul>'


def under(heading, body):
    """A smaller heading and what stands under it."""
    return [f"<h3>{heading}</h3>", body]


def by_hand(record, asked, manual):
    """A question that a person grades: the answer, and what counts."""
    value = record["manual"][manual.name]
    points = f"{value:g} of {manual.points:g} points" if value is not None else "read by your instructor"
    answer = (record.get("texts") or {}).get(manual.name, "")
    parts = [title(asked, points)]
    parts += under("The question", blocks(asked.text)) if asked.text else []
    parts += (
        under("What you handed in", "".join(f"<p>{inline(p)}</p>" for p in answer.split("\n\n")))
        if answer
        else []
    )
    if value is not None:
        listed = "".join(f"<li>{inline(text)} ({most:g})</li>" for text, most in manual.criteria.items())
        parts += under("What counts", f"<ul>{listed}</ul>")
    return f"<section>{''.join(parts)}</section>"
