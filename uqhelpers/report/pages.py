"""The page of a card: what is said about each figure, in the order in which one asks."""

from importlib.metadata import PackageNotFoundError, version

import numpy as np

from uqhelpers.report import classes, figures
from uqhelpers.report.arguments import SECTIONS
from uqhelpers.report.limits import UNUSUAL
from uqhelpers.report.markup import (
    beside,
    bullets,
    figure,
    key,
    page,
    paragraph,
    said,
    section,
    table,
    tiles,
)
from uqhelpers.report.words import MINUS, PERCENT, drawn, listed, percent, promise_of, short, shown

SIGNED = SECTIONS["signed"]


def own_version():
    """The version of the package that wrote the card."""
    try:
        return version("uqhelpers")
    except PackageNotFoundError:  # not installed: read from a checkout
        from uqhelpers import __version__

        return __version__


def source(evidence, what, *given):
    """What the card was computed from."""
    also = [words for words, there in given if there]
    text = f"Computed from {what}, {f'with {listed(also)}' if also else 'and from nothing else'}. "
    text += f"Intervals at {percent(evidence.level)}; seed {evidence.seed}; uqhelpers {own_version()}."
    return f"{text} Dated {evidence.date}." if evidence.date else text


def people(evidence):
    """What only a person can say: first what the model is for, and at the end who signed."""
    headings = [heading for heading in SECTIONS.values() if heading != SIGNED]
    headings += [heading for heading in evidence.said if heading not in SECTIONS.values()]
    blocks = [said(heading, evidence.said.get(heading)) for heading in headings]
    return section("In the words of those who are responsible", *blocks, kind="people")


def signature(evidence):
    return section("Signature", said(SIGNED, evidence.said.get(SIGNED)))


def tile(evidence, name, called=None, as_percent=False, unit=None):
    value, interval = shown(evidence.numbers[name], as_percent)
    if unit:
        interval = f"{interval} {unit}" if interval else unit
    return (called or name[0].upper() + name[1:], value, interval)


def row(evidence, name, meaning, as_percent=False, called=None):
    """A row of a table of figures: its value, its interval, what it means."""
    value, interval = shown(evidence.numbers[name], as_percent)
    return ((called or name[0].upper() + name[1:], meaning), [value, interval or "–"])


# What a subgroup may have more of than chance explains.
EVENTS = {
    "accuracy": "being wrong",
    "coverage": "falling outside the interval",
    "RMSE": "being among the tenth with the largest errors",
}
FIGURES = ["figure", "value", "interval"]


# --- classification -----------------------------------------------------------------------------------------


def classification_page(evidence, limits):
    """The page of a classifier, and the part of it that can stand in another."""
    sections = [
        glance_of_classes(evidence),
        people(evidence),
        section("What these numbers may not be used for", bullets(limits), kind="limits"),
        probabilities(evidence),
        abstaining(evidence),
        classes.section_of(evidence),
        parts(evidence, "accuracy", "accuracy"),
        deciding(evidence),
        strangers(evidence),
        signature(evidence),
    ]
    what = f"{evidence.count:,} predictions of {len(evidence.class_names)} classes and their labels"
    scored, costly = evidence.own_score, evidence.bill is not None
    given = [("a score of uncertainty", scored), ("subgroups", evidence.judged), ("costs", costly)]
    text = source(evidence, what, *given, ("strange inputs", evidence.strange))
    return page(evidence.title, "Model card · classifier", text, filter(None, sections))


def glance_of_classes(evidence):
    numbers = evidence.numbers
    band = numbers["expected calibration error if calibrated"]
    entries = [
        tile(evidence, "accuracy", as_percent=True),
        tile(evidence, "negative log-likelihood", "Negative log-likelihood (nats)"),
        (
            "Calibration error",
            percent(numbers["expected calibration error"].value),
            f"by counting alone {percent(band.low).removesuffix(PERCENT)} to {percent(band.high)}",
        ),
        (
            f"Decided at a risk of {percent(evidence.risk)}",
            percent(numbers["coverage at risk"].value),
            f"promised: {promise_of(numbers['coverage at risk'])}",
        ),
    ]
    if evidence.bill is not None:
        entries.append(tile(evidence, "cost", "Cost of a decision"))
    entries += [tile(evidence, f"AUROC[{name}]", f"AUROC, {name}") for name in list(evidence.strange)[:2]]
    return section("At a glance", tiles(entries), kind="glance")


def probabilities(evidence):
    numbers = evidence.numbers
    band, way = numbers["expected calibration error if calibrated"], numbers["calibration gap"]
    rows = [
        row(evidence, "accuracy", "share of the inputs whose likeliest class is the true one", True),
        row(evidence, "negative log-likelihood", "nats an input; lower is better; punishes false certainty"),
        row(evidence, "Brier score", "from 0 to 2; lower is better; the squared distance from the truth"),
        row(
            evidence,
            "expected calibration error",
            "mean distance of confidence and accuracy over the bins",
            True,
        ),
        row(
            evidence,
            "expected calibration error if calibrated",
            "what the same confidences would show if they were right: counting alone",
            True,
        ),
        row(evidence, "calibration gap", "mean confidence minus accuracy: above 0 is over-confident", True),
    ]
    beyond = numbers["expected calibration error"].value > band.high
    verdict = (
        f"The calibration error is {'beyond' if beyond else 'no more than'} what counting alone explains: a "
    )
    verdict += "calibrated classifier with these confidences would show at least as much in "
    verdict += f"{drawn(evidence.excess)}. "
    if way.low > 0 or way.high < 0:
        verdict += f"On average the model is {'over' if way.low > 0 else 'under'}-confident."
    else:
        verdict += "Whether it is over- or under-confident on average cannot be told."
    caption = (
        "Each dot is a bin with its interval. Shaded: where the dot of a calibrated classifier would lie, "
        "bin by bin; orange dots lie outside. Grey columns: how many inputs a bin holds."
    )
    chart = figure(figures.reliability(evidence), caption)
    return section(
        "Do the probabilities mean what they say?",
        beside(paragraph(verdict) + table("Scores", FIGURES, rows), chart),
    )


def abstaining(evidence):
    found = evidence.numbers["coverage at risk"]
    by = "the score that was given" if evidence.own_score else "one minus the largest probability"
    text = (
        f"Inputs are ranked by {by}; the surest are decided, the rest is left to somebody else. At most "
        f"{percent(evidence.risk)} of the decided may be wrong: on these inputs {percent(found.value)} can "
        f"be decided. That coverage was found on the same inputs; {promise_of(found)} can be promised with "
        f"{percent(evidence.level)} confidence."
    )
    caption = (
        "Risk of what is decided as more and more is decided. Grey: the stated risk, reached at the orange "
        "dot; green: the coverage that can be promised."
    )
    rows = [
        row(
            evidence,
            "AUGRC",
            "chance that a random input is decided and wrong, over all coverages; lower is better",
        ),
        (
            (f"Coverage at a risk of {percent(evidence.risk)}", "share of the inputs that can be decided"),
            [percent(found.value), f"promised: {promise_of(found)}"],
        ),
    ]
    return section(
        "When should it leave the decision to somebody else?",
        beside(
            paragraph(text) + table("Deciding and abstaining", FIGURES, rows),
            figure(figures.risk_coverage(evidence), caption),
        ),
    )


def deciding(evidence):
    bill = evidence.bill
    if bill is None:
        return None
    numbers, count = evidence.numbers, len(evidence.class_names)
    names = {"cost": "Cost of the cheapest act, input by input"}
    meanings = {
        "cost": "what deciding by expected cost comes to, an input",
        "cost of the likeliest class": "what habit comes to",
        "saving over the likeliest class": "the difference of the two, paired",
        "cost of the best single act": f"“{bill.acts[bill.single]}” for every input, chosen on these inputs",
    }
    if count <= classes.WHOLE:
        for true, name in enumerate(evidence.class_names):
            paid = bill.matrix[:, true]
            best = [f"“{bill.acts[act]}”" for act in np.flatnonzero(paid == paid.min())]
            meanings[f"best act[{name}]"] = f"share of them that got {listed(best, 20)}"
            names[f"best act[{name}]"] = f"Truly {name}, and the best act for them"
    rows = [
        row(evidence, name, meanings[name], name.startswith("best"), called=names.get(name))
        for name in meanings
        if name in numbers
    ]
    matrix = [
        (
            act,
            [*(short(cost) for cost in costs), f"{int((bill.chosen == number).sum()):,}"],
        )
        for number, (act, costs) in enumerate(zip(bill.acts, bill.matrix, strict=True))
    ]
    made = [
        (act, [f"{int((evidence.labels[bill.chosen == number] == true).sum()):,}" for true in range(count)])
        for number, act in enumerate(bill.acts)
    ]
    text = "For each input the act of least expected cost is taken."
    if bill.spans:
        steps = [f"“{bill.acts[act]}” from {percent(a)} to {percent(b)}" for act, a, b in bill.spans]
        text = f"By the probability of {evidence.class_names[1]}, the cheapest act is {listed(steps, 20)}."
    body = paragraph(text) + table("What decisions cost", FIGURES, rows)
    if "threshold" in numbers:
        caption = (
            "Mean cost on these inputs for every threshold. Green: the threshold that the costs imply for "
            "calibrated probabilities; grey: one half."
        )
        body = beside(body, figure(figures.cost_of_thresholds(evidence), caption))
    return section(
        "What do its errors cost?",
        body,
        table("Costs", ["act", *(f"if {name}" for name in evidence.class_names), "chosen for"], matrix),
        table("Chosen acts (rows) by true class", ["act", *evidence.class_names], made)
        if count <= classes.WHOLE
        else "",
    )


def strangers(evidence):
    if not evidence.strange:
        return None
    rows = []
    for name, scores in evidence.strange.items():
        cells = [f"{len(scores):,}"]
        for number, as_percent in ((f"AUROC[{name}]", False), (f"FPR95[{name}]", True)):
            value, interval = shown(evidence.numbers[number], as_percent)
            cells += [value, interval or "–"]
        rows.append((name, cells))
    head = ["kind", "inputs", "AUROC", "interval", "false alarms at 95 % found", "interval"]
    entries = [('<rect class="familiar" width="26" height="12"/>', "familiar")]
    for number, name in enumerate(evidence.strange):
        entries.append((f'<path class="line {figures.kind_of(number)}" d="M1 6H25"/>', name))
    caption = "Scores of familiar and of strange inputs, each as shares of their own number."
    chart = figure(f"{figures.scores(evidence)}{key(entries)}", caption)
    text = (
        "AUROC is the chance that a strange input scores above a familiar one; .5 is chance. The false "
        "alarms are the familiar inputs at or above the score that finds 95 % of the strange."
    )
    return section(
        "Does it notice what is strange?",
        beside(paragraph(text), chart),
        table("Strange inputs", head, rows),
    )


# --- both ---------------------------------------------------------------------------------------------------


def parts(evidence, name, xlabel):
    """Every subgroup, and what looking at all of them means."""
    judged = evidence.judged
    if not judged:
        return None
    numbers, as_share = evidence.numbers, name in ("accuracy", "coverage")
    others = [
        other for other in ("calibration gap", "RMSE", "bias") if f"{other}[{judged[0].name}]" in numbers
    ]
    others = [other for other in others if other != name]
    worst = min(judged, key=lambda group: group.p_value)
    shown_rows = sorted(judged, key=lambda group: group.p_value)[: figures.ROWS]
    kept = [group for group in judged if group in shown_rows]
    forest = figures.forest(
        [(group.name, numbers[f"{name}[{group.name}]"], group.p_value < UNUSUAL) for group in kept],
        numbers[name].value,
        xlabel,
        xlabel[0].upper() + xlabel[1:],
        as_share,
        getattr(evidence, "promised", None) if name == "coverage" else None,
    )
    value = shown(numbers[f"{name}[{worst.name}]"], as_share)[0]
    text = (
        f"The most unusual of the {len(judged)} subgroups is “{worst.name}”, with {xlabel} {value}; that of "
        f"all inputs is {shown(numbers[name], as_share)[0]}. If {EVENTS[name]} had nothing to do with any "
        f"of them, the most unusual of {len(judged)} would still stand out at least as far in "
        f"{drawn(worst.p_value)}: "
    )
    text += (
        "chance alone seldom does that." if worst.p_value < UNUSUAL else "chance alone can bring that about."
    )
    caption = (
        f"{xlabel[0].upper()}{xlabel[1:]} of each subgroup with its interval. Grey: all inputs; orange: "
        f"adjusted p below {short(UNUSUAL)}."
    )
    if len(kept) < len(judged):
        caption += f" The {len(kept)} most unusual of {len(judged)}."
    head = ["subgroup", "inputs", xlabel, "interval"]
    for other in others:
        head += [other, "interval"]
    rows = []
    for group in judged:
        cells = [f"{group.count:,}"]
        for each in (name, *others):
            share = each in ("accuracy", "coverage", "calibration gap")
            value, interval = shown(numbers[f"{each}[{group.name}]"], share)
            cells += [value, interval or "–"]
        rows.append((group.name, [*cells, f"{group.p_value:.{2 if group.p_value >= 0.095 else 4}f}"]))
    return section(
        "For whom does it work worse?",
        beside(paragraph(text), figure(forest, caption)),
        table("Subgroups", [*head, "adjusted p"], rows),
    )


# --- regression ---------------------------------------------------------------------------------------------


def regression_page(evidence, limits):
    """The page of a regressor, and the part of it that can stand in another."""
    name = "RMSE" if evidence.ends is None else "coverage"
    label = "root mean square error" if evidence.ends is None else "coverage"
    sections = [
        glance_of_numbers(evidence),
        people(evidence),
        section("What these numbers may not be used for", bullets(limits), kind="limits"),
        errors(evidence),
        promises(evidence),
        by_size(evidence, name, label),
        parts(evidence, name, label),
        signature(evidence),
    ]
    given = [("a Gaussian scale", evidence.gaussian), ("intervals", evidence.given_ends)]
    what = f"{evidence.count:,} predictions and their targets"
    text = source(evidence, what, *given, ("subgroups", evidence.judged))
    return page(evidence.title, "Model card · regressor", text, filter(None, sections))


def glance_of_numbers(evidence):
    unit = evidence.unit
    entries = [tile(evidence, "RMSE", "Root mean square error", unit=unit), tile(evidence, "bias", unit=unit)]
    if evidence.ends is not None:
        promise = f"Coverage, promised {percent(evidence.promised)}"
        entries += [tile(evidence, "coverage", promise, True), tile(evidence, "width", unit=unit)]
    if evidence.gaussian:
        entries += [tile(evidence, "CRPS", unit=unit), tile(evidence, "negative log-likelihood")]
    return section("At a glance", tiles(entries), kind="glance")


def errors(evidence):
    unit = f" in {evidence.unit}" if evidence.unit else ""
    rows = [
        row(evidence, "RMSE", f"root of the mean squared error{unit}; the large errors decide it"),
        row(evidence, "mean absolute error", f"mean size of the errors{unit}"),
        row(evidence, "bias", f"mean of prediction minus truth{unit}: above 0 is too high"),
    ]
    if evidence.gaussian:
        rows += [
            row(
                evidence,
                "negative log-likelihood",
                "nats an input; lower is better; punishes a scale that is too small",
            ),
            row(evidence, "CRPS", f"the absolute error of a distribution{unit}; lower is better"),
        ]
    own = f" {evidence.unit}" if evidence.unit else ""
    text = (
        f"A prediction is off by {shown(evidence.numbers['mean absolute error'])[0]}{own} on average, and "
        f"by {shown(evidence.numbers['RMSE'])[0]} in the root mean square, which large errors decide. "
    )
    bias = evidence.numbers["bias"]
    if bias.low is not None and (bias.low > 0 or bias.high < 0):
        text += (
            f"On average it is too {'high' if bias.low > 0 else 'low'}, by {shown(bias)[0].lstrip(MINUS)}."
        )
    else:
        text += "Whether it is too high or too low on average cannot be told."
    some = f", {figures.CLOUD} of {evidence.count:,} by lot" if evidence.count > figures.CLOUD else ""
    bars = "; bars: intervals of some of them" if evidence.ends is not None else ""
    chart = figure(figures.cloud(evidence), f"True values against predictions{some}{bars}.")
    return section("How far off is it?", beside(paragraph(text) + table("Errors", FIGURES, rows), chart))


def promises(evidence):
    if evidence.ends is None:
        return None
    found, promised = evidence.numbers["coverage"], evidence.promised
    agree = found.low <= promised <= found.high
    text = (
        f"The intervals promise to hold {percent(promised)} of the targets, and held "
        f"{shown(found, True)[0]} ({shown(found, True)[1]}): "
        f"{'in agreement' if agree else 'not in agreement'}."
    )
    rows = [
        row(evidence, "coverage", f"share of the targets inside; promised {percent(promised)}", True),
        row(evidence, "width", "mean width: among intervals that cover as promised, narrower is better"),
        row(evidence, "interval score", "width plus a fine for every miss; lower is better"),
    ]
    body = paragraph(text) + table("Intervals", FIGURES, rows)
    if evidence.gaussian:
        text = (
            "The histogram shows where in its predicted Gaussian each target fell. It is flat if the "
            "Gaussians are right; a hill says that they are too wide, a valley too narrow, a slope that "
            "there is a bias."
        )
        caption = "Places of the targets. Shaded: what counting alone allows; orange: outside."
        body = beside(body + paragraph(text), figure(figures.histogram_of_places(evidence), caption))
    return section("Do the intervals keep their promise?", body)


def by_size(evidence, name, label):
    names = evidence.parts.names
    numbers, as_share = evidence.part_numbers, name == "coverage"
    promised = evidence.promised
    out = [
        as_share and not numbers[f"{name}[{part}]"].low <= promised <= numbers[f"{name}[{part}]"].high
        for part in names
    ]
    short = [part.split(": ", 1)[1] for part in names]
    rows = [
        (part, numbers[f"{name}[{whole}]"], stands)
        for part, whole, stands in zip(short, names, out, strict=True)
    ]
    chart = figures.forest(rows, evidence.numbers[name].value, label, label, as_share, promised)
    caption = (
        f"{label[0].upper()}{label[1:]} where predictions are small and where they are large. Grey: all "
        "inputs"
    )
    caption += "; green: the promise; orange: an interval that does not hold it." if as_share else "."
    text = (
        f"The inputs, parted into {len(names)} by the size of the prediction, as nearly equal as ties allow. "
    )
    if as_share:
        text += f"In {sum(out)} of them the interval of the coverage does not hold the promise."
    else:
        text += (
            "A model whose errors grow with what it predicts needs a scale, or the logarithm of its target."
        )
    kinds = [kind for kind in ("coverage", "RMSE", "bias") if f"{kind}[{names[0]}]" in numbers]
    head, body = ["prediction", "inputs"], []
    for kind in kinds:
        head += [kind, "interval"]
    for part, whole, count in zip(short, names, evidence.parts.counts, strict=True):
        cells = [f"{int(count):,}"]
        for kind in kinds:
            value, interval = shown(numbers[f"{kind}[{whole}]"], kind == "coverage")
            cells += [value, interval or "–"]
        body.append((part, cells))
    return section(
        "Is it as good where predictions are large?",
        beside(paragraph(text), figure(chart, caption)),
        table("By size of the prediction", head, body),
    )
