"""The guide to a method: its page made from ``book/reference/choose.yml`` and the stored results.

The same leaves stand below each other for whoever has no script; ``_static/choose.js``
shows those that fit what a reader has ticked, by the rule of :func:`fitting`.
What a leaf claims is held against the rows before a word is written: a result
that changed stops the build.
"""

import functools
import html
import re
from itertools import combinations

import yaml

from tools import glance, measured
from tools.book import ROOT
from uqhelpers import leaderboard

SOURCE = ROOT / "book" / "reference" / "choose.yml"
SAID = {measured.BETTER: "better", measured.WORSE: "worse", measured.UNTOLD: "cannot be told"}
PLACE = re.compile(r"\{([^{}|]+(?:\|[^{}|]+)+)\}")
MANY_PASSES = 12  # of the network, by the clock: from here on a prediction costs "a dozen passes or more"


@functools.cache
def guide():
    """The source, read once."""
    return yaml.safe_load(SOURCE.read_text(encoding="utf-8"))


def name(leaf):
    """By which a leaf is linked to: ``strange-density``."""
    return f"{leaf['need']}-{leaf['id']}"


# --- which leaves fit ------------------------------------------------------------------------------


def brought(have):
    """What somebody has who has these: a budget brings a network along."""
    answers = guide()["questions"]["have"]["answers"]
    return set(have).union(*(answers[each].get("brings", []) for each in have))


def fitting(have=(), need=None, cost=None):
    """The leaves that fit; a question without an answer leaves all in."""
    there, allowed = (
        brought(have),
        set(guide()["questions"]["cost"]["answers"].get(cost, {}).get("allows", [])),
    )
    return [
        leaf
        for leaf in guide()["leaves"]
        if (not have or set(leaf["asks"]) <= there)
        and need in (None, leaf["need"])
        and (cost is None or set(leaf["costs"]) <= allowed)
    ]


def excuse(have=(), need=None):
    """What is said where nothing fits."""
    if have and "network" not in brought(have):
        return guide()["without_network"]
    return guide()["needs"][need]["nothing"] if need else guide()["without_network"]


def combinations_of_answers():
    """All that can be ticked: (have, need, cost)."""
    questions = {name: list(asked["answers"]) for name, asked in guide()["questions"].items()}
    haves = [
        subset
        for size in range(len(questions["have"]) + 1)
        for subset in combinations(questions["have"], size)
    ]
    needs, costs = [None, *questions["need"]], [None, *questions["cost"]]
    return [(have, need, cost) for have in haves for need in needs for cost in costs]


# --- what the rows must say ------------------------------------------------------------------------


def claims():
    """Every claim of the guide with where it is made: (place, claim)."""
    for leaf in guide()["leaves"]:
        yield from ((name(leaf), claim) for claim in [*leaf["claims"], *leaf.get("holds", [])])
    for pair in guide()["versus"]:
        yield from ((pair["id"], claim) for claim in pair["rows"])


def claims_of_parts():
    """Likewise those about what is found by one part of a doubt or by another."""
    for place, part in _places():
        yield from ((place, claim) for claim in [*part.get("parts", []), *part.get("holds_parts", [])])


def _places():
    yield from ((name(leaf), leaf) for leaf in guide()["leaves"])
    yield from guide()["needs"].items()


def said(claim):
    """What the rows say of a claim, whatever it says itself."""
    table, row, rival, column, _ = claim
    mean, half = measured.difference(table, row, rival, column)
    return measured.verdict(mean, half, measured.table(table).columns[column].best)


def said_of_parts(claim):
    """The same of a claim about parts."""
    return measured.verdict(*measured.difference_of_parts(*claim[:4]), "max")


def refuted():
    """What the guide says and the rows do not: nothing, or the page is not made."""
    found = [f"{place}: {claim} but {said(claim)}" for place, claim in claims() if said(claim) != claim[-1]]
    found += [
        f"{place}: {claim} but {said_of_parts(claim)}"
        for place, claim in claims_of_parts()
        if said_of_parts(claim) != claim[-1]
    ]
    for place, part in _places():
        if "only" in part and part["only"] != measured.keeps_both_promises():
            found.append(f"{place}: not only {part['only']} but {measured.keeps_both_promises()}")
        found += [
            f"{place}: somebody beats {c}" for c in part.get("nobody", []) if not measured.nobody_beats(*c)
        ]
        found += [
            f"{place}: {c} does not beat all" for c in part.get("best", []) if not measured.beats_all(*c)
        ]
        found += [
            f"{place}: {row} does not answer more to noise"
            for row in part.get("noisy", [])
            if not measured.answers_more_to_noise(row)
        ]
    return found


# --- words -----------------------------------------------------------------------------------------


def filled(text):
    """A sentence with its figures: ``{row | column}`` of the leaderboard, or ``{table | row | column}``.

    A last part that begins with a dot is a form of its own, and asks for the mean alone.
    """

    def figure(found):
        parts = [part.strip() for part in found[1].split("|")]
        form = parts.pop() if parts[-1].startswith(".") else None
        table, row, column = parts if len(parts) == 3 else ("board", *parts)
        values = measured.figure(table, row, column)
        if form:
            return measured.number(values.mean(), form)
        return measured.spread(values, measured.table(table).columns[column].form)

    return PLACE.sub(figure, " ".join(text.split()))


def gap(mean, half, form, says):
    """A difference and its interval, with as many digits as it takes to see what they say."""
    digits = int(form.lstrip("+")[1])
    for more in range(digits, digits + 3):
        sure = abs(round(mean, more)) > round(half, more)
        if sure == (says != measured.UNTOLD):
            break
    return f"{measured.number(mean, f'+.{more}f')} ± {measured.number(half, f'.{more}f')}"


def claim_line(claim):
    """One line of a leaf: the verdict, the column, the rival, the difference, and both figures."""
    table, row, rival, column, says = claim
    about, found = measured.table(table).columns[column], measured.table(table)
    mean, half = measured.difference(table, row, rival, column)
    found_gap = gap(mean, half, about.form, says)
    units = f" {about.units}" if about.units else ""
    ours, theirs = (measured.number(found.rows[each][column].mean(), about.form) for each in (row, rival))
    return (
        f"[{SAID[says]}]{{.uq-{says}}} {about.title}, against *{measured.title(table, rival)}*: "
        f"{found_gap}{units} ({ours} against {theirs}; {found.title})"
    )


def parts_line(claim):
    """The same for two parts of one doubt."""
    row, what, part, other, says = claim
    mean, half = measured.difference_of_parts(row, what, part, other)
    things = {"near": "letters", "blends": "blends", "errors": "errors"}
    whole = {"total": "whole"}.get(other, f"{other} part")
    found = f"{things[what]} found by the {part} part, against the {whole}"
    return f"[{SAID[says]}]{{.uq-{says}}} {found}: {gap(mean, half, '.3f', says)} (digits)"


def price(leaf):
    """What a leaf costs, from the clock of the leaderboard."""
    if "row" not in leaf:
        loop = leaf.get("table") == "pools"
        return "a training for each round" if loop else leaf["price"]
    passes, kept, fit = (
        measured.figure("board", leaf["row"], column).mean()
        for column in ("predict_cost", "kept", "fit_cost")
    )
    training = "no further training"
    if not leaderboard.METHODS[leaf["row"]].post_hoc:
        training = f"{measured.number(fit, '.1f')} trainings"
    elif any(each.get("row") == leaf["row"] and each.get("trains") for each in guide()["leaves"]):
        training = f"a second network: {measured.number(fit - 1, '.1f')} trainings beside the first"
    return (
        f"{training}; a prediction {measured.number(passes, '.1f')} passes; "
        f"keeps {measured.number(kept, '.1f')} networks' numbers"
    )


def short_price(leaf):
    """The same in a few words, for the sheet."""
    words = {(): "post hoc", ("passes",): "passes", ("trainings",): "trainings"}
    return words.get(tuple(leaf["costs"]), "passes, trainings")


def link(text, place):
    return f"[{text}](../{place})"


def row_of(leaf):
    """Where a leaf's row stands: a link, and what it is called there."""
    found = []
    if "row" in leaf:
        place, name = measured.table("board").place, measured.title("board", leaf["row"])
        found.append(f"{link('the leaderboard', place)}, *{name}*")
    if "table" in leaf:
        table, name = measured.table(leaf["table"]), measured.title(leaf["table"], leaf["of"])
        found.append(f"{link(table.title, table.place)}, *{name}*")
    return "; ".join(found) or "none: it rests on the theorem"


def leaf_page(leaf):
    """One leaf as Markdown: a heading, what to do, and what that rests on."""
    lines = [claim_line(claim) for claim in leaf["claims"]] + [parts_line(c) for c in leaf.get("parts", [])]
    classes = [f"have-{each}" for each in leaf["asks"]] + [f"cost-{each}" for each in leaf["costs"]]
    answers = guide()["questions"]["have"]["answers"]
    asks = ", ".join(answers[each]["title"] for each in leaf["asks"])
    entries = [("Asks for", asks), ("Costs", price(leaf)), ("Row", row_of(leaf))]
    if "theorem" in leaf:
        entries.append(("Theorem", link(*leaf["theorem"])))
    entries += [("Fails", link(*leaf["fails"])), ("Test", f"`{leaf['test']}`")]
    return "\n".join(
        [
            f"(choose-{name(leaf)})=",
            f"### {leaf['method']}",
            "",
            f"::::{{div}} uq-leaf need-{leaf['need']} {' '.join(classes)}",
            filled(leaf["advice"]),
            "",
            *(f"- {line}" for line in lines),
            "",
            "```python",
            leaf["code"],
            "```",
            "",
            *(f"{name}\n: {words}\n" for name, words in entries),
            "::::",
            "",
        ]
    )


def sheet():
    """All leaves on one sheet, a line each."""
    answers = guide()["questions"]["have"]["answers"]
    lines = ["| you need | method | you have | it costs | the rows say |", "| --- | --- | --- | --- | --- |"]
    before = None
    for leaf in guide()["leaves"]:
        title = guide()["questions"]["need"]["answers"][leaf["need"]]["title"]
        asks = ", ".join(answers[each]["short"] for each in leaf["asks"])
        need = title if leaf["need"] != before else ""
        method = f"[{leaf['method']}](#choose-{name(leaf)})"
        lines.append(f"| {need} | {method} | {asks} | {short_price(leaf)} | {in_short(leaf)} |")
        before = leaf["need"]
    return "\n".join(lines)


def in_short(leaf):
    """What the first claim of a leaf says, in a few words."""
    if leaf.get("parts"):
        _, what, part, _, says = leaf["parts"][0]
        things = {"near": "letters", "blends": "blends"}
        return f"{things[what]} by its {part} part: {SAID[says]}"
    if not leaf["claims"]:
        return "a theorem" if "theorem" in leaf else "no interval"
    table, row, rival, column, says = leaf["claims"][0]
    about = measured.table(table).columns[column]
    found = gap(*measured.difference(table, row, rival, column), about.form, says)
    rival = measured.title(table, rival).removesuffix(": max probability")
    joint = "from" if says == measured.UNTOLD else "than"
    return f"{about.title}: {SAID[says]} {joint} {rival} ({found})"


def versus(pair):
    """Two methods side by side: an answer, the rows it rests on, the prices."""
    lines = ["| question | on | difference | it is |", "| --- | --- | --: | --- |"]
    for table, row, rival, column, says in pair["rows"]:
        about = measured.table(table).columns[column]
        found = gap(*measured.difference(table, row, rival, column), about.form, says)
        names = f"*{measured.title(table, row)}* minus *{measured.title(table, rival)}*"
        lines.append(
            f"| {about.title}: {names} | {measured.table(table).title} | {found} "
            f"| [{SAID[says]}]{{.uq-{says}}} |"
        )
    prices = "; ".join(
        f"*{measured.title('board', row)}*: {price({'row': row, 'costs': []})}" for row in pair["costs"]
    )
    head = [f"({pair['id']})=", f"### {pair['title']}", "", filled(pair["answer"]), ""]
    return "\n".join([*head, *lines, "", f"Prices: {prices}.", ""])


def form():
    """The questions as a form; a page without a script never shows it."""
    lines = ['<form class="uq-choose" hidden aria-label="Find a method">']
    for name, asked in guide()["questions"].items():
        kind = "checkbox" if name == "have" else "radio"
        lines.append(f"<fieldset><legend>{html.escape(asked['title'])}</legend>")
        if kind == "radio":
            anything = "anything" if name == "need" else "whatever it takes"
            lines.append(f'<label><input type="radio" name="{name}" value="" checked> {anything}</label>')
        for value, answer in asked["answers"].items():
            brings = " ".join(answer.get("brings", answer.get("allows", [])))
            lines.append(
                f'<label><input type="{kind}" name="{name}" value="{value}" data-brings="{brings}"> '
                f"{html.escape(answer['title'])}</label>"
            )
        lines.append("</fieldset>")
    lines.append('<div class="uq-result"><button type="reset">Begin anew</button>')
    lines.append('<p class="uq-found" role="status" aria-live="polite"></p>')
    lines.append('<ul class="uq-list" hidden></ul></div></form>')
    return "\n".join(["```{raw} html", *lines, "```"])


def needs():
    """The leaves, need by need."""
    parts = []
    for name, need in guide()["needs"].items():
        parts += [f"(choose-{name})=", f"## {need['title']}", "", filled(need["intro"]), ""]
        parts += [
            f":::{{div}} uq-nothing need-{name}",
            f"*If nothing fits:* {filled(need['nothing'])}",
            ":::",
            "",
        ]
        parts += [leaf_page(leaf) for leaf in guide()["leaves"] if leaf["need"] == name]
    return "\n".join(parts)


def sources():
    """All that the page is made of."""
    made = [ROOT / "tools" / f"{name}.py" for name in ("choose", "glance", "measured")]
    return [SOURCE, *made, *measured.paths(), measured.RESULTS / "reproduce_glance.json"]


def expand(source):
    """The page with all that stands for more."""
    wrong = refuted()
    if wrong:
        raise ValueError("book/reference/choose.yml says what the stored rows do not:\n" + "\n".join(wrong))
    count = len(list(claims())) + len(list(claims_of_parts()))
    made = {
        "form": form(),
        "sheet": sheet(),
        "leaves": needs(),
        "versus": "\n".join(versus(pair) for pair in guide()["versus"]),
        "glance": glance.figures(),
        "claims": str(count),
        "wrong by chance": str(round(count / 20)),
        "without": f":::{{div}} uq-without\n{filled(guide()['without_network'])}\n:::",
    }
    for name, text in made.items():
        source = source.replace("{" + name + "}", text)
    return source
