"""The cheat sheet: its page made from ``book/reference/cheat_sheet.yml``."""

import functools

import yaml

from tools.book import ROOT

SOURCE = ROOT / "book" / "reference" / "cheat_sheet.yml"


@functools.cache
def sheet():
    """The source, read once."""
    return yaml.safe_load(SOURCE.read_text(encoding="utf-8"))


def lines():
    """Every line of every card."""
    return [line for card in sheet()["cards"] for line in card["lines"]]


def sources():
    """All that the page is made of."""
    return [SOURCE, ROOT / "tools" / "cheat_sheet.py"]


def line_page(line):
    """One formula: its name, what it is, its units, what it is for and what not."""
    formula = line["formula"].replace(r"\frac", r"\dfrac")  # legible in a line of print
    words = [f"**{line['name']}** ${formula}$ [{line['units']}]{{.uq-unit}}"]
    words.append(f"[✓\u00a0{line['for']}]{{.uq-for}}")
    if "not" in line:
        words.append(f"[✗\u00a0not: {line['not']}]{{.uq-not}}")
    return " ".join(words)


def expand(source):
    """The page with its cards."""
    cards = []
    for card in sheet()["cards"]:
        inner = "\n\n".join(line_page(line) for line in card["lines"])
        cards.append(f":::{{div}} uq-group\n```{{rubric}} {card['title']}\n```\n\n{inner}\n:::")
    signs = "\n\n".join(sheet()["signs"])
    cards.insert(0, f":::{{div}} uq-group\n```{{rubric}} Signs, units, shapes\n```\n\n{signs}\n:::")
    return source.replace("{cards}", "\n\n".join(cards))
