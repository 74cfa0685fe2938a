"""Which class is taken for which."""

import numpy as np

from uqhelpers.report.intervals import share
from uqhelpers.report.markup import paragraph, section, table
from uqhelpers.report.words import shown

WHOLE = 12  # classes whose confusions are shown as a square
ROWS = 40  # classes in a table of them
WORST = 15  # confusions in a list of them


def section_of(evidence):
    """Confusions, and recall and precision of each class."""
    names, matrix = evidence.class_names, evidence.matrix
    errors = int(matrix.sum() - np.trace(matrix))
    if not errors:
        text = "No input was taken for another class: in each the true one is the likeliest."
    else:
        off = matrix - np.diag(np.diag(matrix))
        truth, taken = np.unravel_index(off.argmax(), off.shape)
        text = (
            f"{errors:,} inputs were taken for another class; most often {names[truth]} for {names[taken]}, "
            f"{int(off[truth, taken]):,} of {int(matrix[truth].sum()):,}. An input is "
            "taken for its likeliest class."
        )
    if evidence.bill is not None:
        text += (
            " Confusions, recall and precision are those of the likeliest class, not of the act that the "
            "costs choose: what that meets is under “What do its errors cost?”."
        )
    shape = square(names, matrix) if len(names) <= WHOLE else confusions(names, matrix, evidence.level)
    return section("Which class is taken for which?", paragraph(text), shape, by_class(evidence))


def square(names, matrix):
    """All confusions: rows are the true classes."""
    share_of_row = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    off = share_of_row - np.diag(np.diag(share_of_row))
    strength = off / (off.max() or 1)
    rows = [
        (name, [(f"{int(count):,}", float(heat)) for count, heat in zip(*pair, strict=True)])
        for name, *pair in zip(names, matrix, strength, strict=True)
    ]
    return table(
        "Confusions: inputs of each true class (rows) by likeliest class", ["true class", *names], rows
    )


def confusions(names, matrix, level):
    """The most frequent confusions of many classes."""
    off = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-off, axis=None, kind="stable")[:WORST]
    rows = []
    for truth, taken in zip(*np.unravel_index(order, off.shape), strict=True):
        if off[truth, taken]:
            part, interval = shown(share(off[truth, taken], matrix[truth].sum(), level), as_percent=True)
            rows.append((names[truth], [names[taken], f"{int(off[truth, taken]):,}", part, interval]))
    if not rows:
        return ""
    head = ["true class", "taken for", "inputs", "of the true class", "interval"]
    return table(f"The {len(rows)} most frequent confusions", head, rows, (1,))


def by_class(evidence):
    """Recall and precision; of very many classes those with the lowest recall."""
    names, matrix, numbers = evidence.class_names, evidence.matrix, evidence.numbers
    recall = np.array([numbers[f"recall[{name}]"].value for name in names])
    order = range(len(names)) if len(names) <= ROWS else np.argsort(np.nan_to_num(recall, nan=-1))[:ROWS]
    rows = []
    for number in order:
        cells = [f"{int(matrix[number].sum()):,}"]
        for kind in ("recall", "precision"):
            cells += [text or "–" for text in shown(numbers[f"{kind}[{names[number]}]"], as_percent=True)]
        rows.append((names[number], cells))
    caption = "Recall and precision of each class, if the likeliest is named"
    if len(names) > ROWS:
        caption += f": the {ROWS} of {len(names)} with the lowest recall"
    found = table(caption, ["class", "inputs", "recall", "interval", "precision", "interval"], rows)
    empty = int((matrix.sum(axis=1) == 0).sum())
    return found + (paragraph(f"Without any input: {empty} of {len(names)} classes.") if empty else "")
