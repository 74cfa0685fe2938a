"""Tables of stored results, as Markdown."""

import numpy as np


def markdown(head, rows, numbers=False, words=1):
    """A table of Markdown.

    Parameters
    ----------
    head : sequence of str
        What stands above each column; the first names the rows.
    rows : iterable of sequences of str
        The cells of each row, as many as headings.
    numbers : bool
        Whether all columns but the first ``words`` are set to the right.
    words : int
        How many columns these are.

    Returns
    -------
    str
        A line for the head, one for the rule, and one for each row.
    """
    rows = [list(row) for row in rows]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"rows: expected {len(head)} cells, as many as headings, got {row!r}")
    rule = ["--:" if numbers and column >= words else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def spread(values, digits=3, scale=1):
    """Mean and standard deviation of a few runs, times ``scale``; of a single run only what it gave."""
    values = scale * np.asarray(values, dtype=float)
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"
