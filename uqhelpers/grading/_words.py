"""What is said of an answer: the same words in a notebook, on a terminal and on a page."""

import html

from ._markup import bare, inline
from ._questions import BOOK, section_link

MARKS = {"passed": "✓", "failed": "✗", "not yet": "…", "not run": "…"}


def heading(name, results):
    """One line on a question: its name, whether it is right, its points."""
    earned, most = totals(results)
    if earned == most:
        verdict = "right"
    elif all(result["status"] == "not yet" for result in results):
        return f"{name}: not yet"
    else:
        verdict = "partly right" if earned else "not yet right"
    return f"{name}: {verdict} ({earned:g} of {most:g} points)"


def totals(results):
    """Points earned, and points there are."""
    return sum(result["earned"] for result in results), sum(result["points"] for result in results)


def lines(results):
    """A line for each part: its status, and what is said of it."""
    several = len(results) > 1
    return [(result["status"], line(result, several)) for result in results]


def line(result, several=True):
    """What is said of one part: its name and points if there are several, and what is wrong with it."""
    if not several:
        return result["message"] or result["check"]
    points = f"{result['check']} ({result['earned']:g} of {result['points']:g})"
    return f"{points}: {result['message']}" if result["message"] else points


def section(stem, checks):
    """The sections of the chapter to read again, each with its address where the book is published."""
    headings = dict.fromkeys(check.mark.read for check in checks if check.mark.read)
    published = "your_account" not in BOOK
    return [(heading, section_link(stem, heading) if published else "") for heading in headings]


class Feedback:
    """Lines of feedback that show as HTML in a notebook and as text on a terminal.

    Parameters
    ----------
    heading : str
    lines : list of (status, text)
        ``status`` is one of passed, failed, not yet, not run, or empty.
    links : list of (text, address)
        Sections to read again; an address may be empty.
    """

    def __init__(self, heading, lines, links=()):
        self.heading, self.lines, self.links = heading, lines, list(links)

    def __repr__(self):
        text = [self.heading, *(f"  {MARKS.get(status, ' ')} {bare(said)}" for status, said in self.lines)]
        text += [f"    Read again in the chapter: {bare(said)}" for said, _ in self.links]
        return "\n".join(text)

    def _repr_pretty_(self, printer, cycle):
        printer.text(repr(self))

    def _repr_html_(self):
        colours = {"passed": "#2e8540", "failed": "#c0392b", "not yet": "#8a6d00", "not run": "#8a6d00"}
        rows = "".join(
            f'<li><span aria-hidden="true" style="color:{colours.get(status, "inherit")};font-weight:bold">'
            f"{MARKS.get(status, '')}</span> {inline(said)}</li>"
            for status, said in self.lines
        )
        rows += "".join(f"<li>Read again in the chapter: {linked(*link)}</li>" for link in self.links)
        return (
            f'<div style="border-left:4px solid #888;padding:.3em .8em"><strong>{inline(self.heading)}'
            f'</strong><ul style="list-style:none;margin:.3em 0;padding:0">{rows}</ul></div>'
        )


def linked(text, address):
    """A section's title, as a link if there is an address."""
    shown = inline(text)
    return f'<a href="{html.escape(address)}">{shown}</a>' if address else shown
