"""From text and rows to HTML: everything that comes from outside is escaped here."""

from html import escape
from importlib import resources

NOTHING_FETCHED = "default-src 'none'; style-src 'unsafe-inline'"
MISSING = "Nobody has written this yet."


def paragraph(text, kind=""):
    """A paragraph of plain text."""
    return f"<p{_class(kind)}>{escape(text)}</p>"


def paragraphs(text):
    """Plain text whose blank lines part paragraphs."""
    return "".join(paragraph(part.strip()) for part in text.split("\n\n") if part.strip())


def _class(kind):
    return f' class="{kind}"' if kind else ""


def section(heading, *parts, kind=""):
    """A heading and what stands below it."""
    return f"<section{_class(kind)}><h2>{escape(heading)}</h2>{''.join(map(str, parts))}</section>"


def figure(chart, caption):
    """A chart with a line of plain text below it."""
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def beside(words, drawn):
    """Words and tables beside a figure, where there is room."""
    return f'<div class="beside"><div>{words}</div>{drawn}</div>'


def table(caption, head, rows, words=()):
    """A table that scrolls inside itself where it is too wide.

    Parameters
    ----------
    caption : str
        Different from those of the card's other tables.
    head : list of str
        What the rows are, then a heading for each column.
    rows : list of (str, list)
        Name (or name and its meaning) and cells of each row; a cell is text, or text
        and the strength of its colour from 0 to 1.
    words : collection of int
        Columns that hold words instead of numbers.
    """
    heads = "".join(
        f'<th scope="col"{_class("words" if number in (0, *words) else "")}>{escape(name)}</th>'
        for number, name in enumerate(head)
    )
    body = "".join(
        f'<tr><th scope="row">{_name(name)}</th>'
        f"{''.join(_cell(cell, number + 1 in words) for number, cell in enumerate(cells))}</tr>"
        for name, cells in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="Table: {escape(caption)}"><div><table>'
        f"<caption><span>{escape(caption)}</span></caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div></div>"
    )


def _name(name):
    """What a row is, and under it, if given, what that means."""
    if isinstance(name, str):
        return escape(name)
    return f"{escape(name[0])} <small>{escape(name[1])}</small>"


def _cell(cell, wordy):
    text, strength = cell if isinstance(cell, tuple) else (cell, 0.0)
    heat = f' style="--heat:{strength:.2f}"' if strength > 0 else ""
    kind = "words" if wordy else "heat" if strength > 0 else ""
    return f"<td{_class(kind)}{heat}>{escape(text)}</td>"


def tiles(entries):
    """The figures at a glance: (name, value, interval)."""
    return f"<dl>{''.join(map(_tile, entries))}</dl>"


def _tile(entry):
    name, value, interval = (escape(text) for text in entry)
    below = f"<span>{interval}</span>" if interval else ""
    return f"<div><dt>{name}</dt><dd><b>{value}</b>{below}</dd></div>"


def said(heading, text):
    """What a person said under a heading, or that nobody has."""
    body = paragraphs(text) if text is not None else paragraph(MISSING)
    kind = "said" if text is not None else "said missing"
    return f'<div class="{kind}"><h3>{escape(heading)}</h3>{body}</div>'


def key(entries):
    """What the colours of a chart stand for: (shape of SVG, name)."""
    sample = '<svg viewBox="0 0 26 12" aria-hidden="true">{}</svg>'
    lines = "".join(f"<li>{sample.format(shape)}{escape(name)}</li>" for shape, name in entries)
    return f'<ul class="key">{lines}</ul>'


def bullets(sentences):
    """A list of plain sentences."""
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def page(title, kind, source, sections):
    """The whole page, and the part of it that can stand in another."""
    style = resources.files("uqhelpers.report").joinpath("card.css").read_text(encoding="utf-8")
    head = f"{paragraph(kind, 'kind')}<h1>{escape(title)}</h1>{paragraph(source, 'source')}"
    article = f'<article class="uq-card"><header>{head}</header>{"".join(sections)}</article>'
    whole = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{NOTHING_FETCHED}">'
        f"<title>{escape(title)}</title><style>\n{style}</style></head>\n"
        f'<body class="uq-page"><main>{article}</main></body></html>\n'
    )
    # In another page the headings stand two levels lower. Text has no tags of its own: all is escaped.
    inner = article
    for level in (3, 2, 1):
        inner = inner.replace(f"<h{level}>", f"<h{level + 2}>").replace(f"</h{level}>", f"</h{level + 2}>")
    return whole, f"<style>\n{style}</style>{inner}"
