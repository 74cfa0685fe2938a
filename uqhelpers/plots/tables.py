"""Tables of results: from names and numbers to a page."""

import re
from collections.abc import Mapping
from html import escape
from numbers import Integral, Real

import numpy as np

from uqhelpers._checks import to_numpy
from uqhelpers.plots.words import as_text

DIRECTIONS = ("min", "max")
MISSING = "–"
# Jupyter and Colab know nothing of the book's style sheet, so a table brings what it needs.
STYLE = """\
.uq-table{overflow-x:auto;margin:.6rem 0}
.uq-table>div{width:100%;min-width:min-content}
.uq-table table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:0}
.uq-table caption{caption-side:top;text-align:left;padding:.2rem 0 .4rem}
.uq-table caption>span{position:sticky;left:0;display:inline-block;max-width:min(46rem,86vw)}
.uq-table th,.uq-table td{padding:.25rem .7rem;text-align:right;white-space:nowrap;border:0;font-weight:400}
.uq-table .uq-words{text-align:left;white-space:normal;min-width:8em}
.uq-table thead th{font-weight:600;vertical-align:bottom;white-space:normal;max-width:11em}
.uq-table thead th,.uq-table thead tr:last-child>*{border-bottom:1px solid currentColor}
.uq-table tbody th{min-width:min(7em,30vw)}
.uq-table thead th[colspan]{text-align:center;max-width:none}
.uq-table thead th .uq-unit{font-weight:400}
.uq-table tbody tr:last-child>*{border-bottom:1px solid currentColor}
.uq-table tr>:first-child{position:sticky;left:0;text-align:left;white-space:normal;max-width:min(18em,42vw);\
background:var(--pst-color-background,var(--jp-layout-color0,var(--colab-primary-surface-color,Canvas)))}
.uq-table td strong{font-weight:700}
.uq-table-note{font-size:.88em;margin:.2rem 0 1rem}"""


class Table:
    """A table of results as notebooks and the book's pages show it; made by :func:`table`.

    Parameters
    ----------
    head : list of str
        The corner, then a heading for each column.
    groups : list of (str, int)
        Headings above those of the columns, each with the number of columns it spans; empty if none.
    body : list of (str, list of str)
        The name of each row, and its cells.
    bold : set of (int, int)
        Row and column of the cells that are marked.
    numeric : list of bool
        For each column whether it holds numbers, which are set to the right.
    caption, note : str or None
        What stands above, and below.
    """

    def __init__(self, head, groups, body, bold, numeric, caption, note):
        self.head, self.groups, self.body, self.bold = head, groups, body, bold
        self.numeric, self.caption, self.note = numeric, caption, note

    def _repr_html_(self):
        lines = [f"<style>{STYLE}</style>", '<div class="uq-table"><div><table>']
        if self.caption:
            lines.append(f"<caption><span>{inline(self.caption)}</span></caption>")
        lines.append("<thead>")
        corner = f'<th scope="col">{inline(self.head[0])}</th>' if self.head[0] else "<td></td>"
        if self.groups:
            spans = [
                f'<th colspan="{width}" scope="colgroup">{inline(name)}</th>'
                if name
                else f'<td colspan="{width}"></td>'
                for name, width in self.groups
            ]
            lines.append(f"<tr><td></td>{''.join(spans)}</tr>")
        columns = zip(self.head[1:], self.numeric, strict=True)
        headings = [
            f'<th scope="col"{words(number)}>{inline(name)}</th>' if name.strip() else "<td></td>"
            for name, number in columns
        ]
        lines += [f"<tr>{corner}{''.join(headings)}</tr>", "</thead>", "<tbody>"]
        for i, (name, cells) in enumerate(self.body):
            shown = [
                f"<td{words(number or is_figure(cell))}>{mark(inline(cell), (i, j) in self.bold)}</td>"
                for j, (cell, number) in enumerate(zip(cells, self.numeric, strict=True))
            ]
            lines.append(f'<tr><th scope="row">{inline(name)}</th>{"".join(shown)}</tr>')
        lines += ["</tbody>", "</table></div></div>"]
        if self.note:
            lines.append(f'<p class="uq-table-note">{inline(self.note)}</p>')
        return "\n".join(lines)

    def __repr__(self):
        rows = [self.head, *([name, *cells] for name, cells in self.body)]
        rows = [
            [f"*{cell}*" if (i - 1, j - 1) in self.bold else cell for j, cell in enumerate(row)]
            for i, row in enumerate(rows)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        sides = ["<", *(">" if number else "<" for number in self.numeric)]
        text = [
            "  ".join(f"{c:{s}{w}}" for c, s, w in zip(row, sides, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join(filter(None, [self.caption, *text, self.note]))


def table(
    rows,
    caption=None,
    *,
    units=None,
    formats=None,
    best=None,
    groups=None,
    corner="",
    over="seeds",
    note=None,
):
    """A table of results, shown alike in the book, in Jupyter and in Colab.

    Numbers stand to the right under each other, a spread is never parted from
    its mean, and a wide table scrolls inside itself with its first column kept.

    Parameters
    ----------
    rows : dict of dict
        For each row its name, and what stands under each column's name. A value is

        - a number, or text (``code``, ``**bold**`` and ``$formulas$`` are set);
        - an array or list of numbers, one for each run: shown as mean ± standard deviation;
        - a pair ``(value, spread)``, a tuple: shown as value ± spread;
        - ``None``, as a column that the row lacks: shown as a dash.
    caption : str, optional
        A line above the table.
    units : dict, optional
        By column, the unit that stands behind its name.
    formats : str or dict, optional
        How numbers are written, as in ``format(x, ".3f")``: one for all, or by the
        name of a column or of a row, and for all others under the key ``None``. With
        a format in percent, ``".1%"``, the sign moves into the column's heading.
        Without a format: three decimals, and none for integers.
    best : dict, optional
        By column, whether the best is the least (``"min"``) or the greatest (``"max"``).
        It is set in bold where the runs allow it to be told: where, for every
        other row with as many runs, the 95 % t-interval of the paired difference
        excludes 0. Runs in one place of the arrays are one pair, so they have to
        share seeds or data. Values without runs are not marked.
    groups : dict, optional
        Headings above neighbouring columns: for each the names of its columns.
    corner : str
        What the names of the rows are.
    over : str
        What was drawn anew in each run, for the line below: ``"seeds"``, ``"networks"``.
    note : str, optional
        More to be said below.

    Returns
    -------
    Table
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        If ``rows`` is empty or no dict of dicts, a value is of another kind, an
        option names a column that is not there, or ``groups`` parts neighbours.
    """
    columns = column_names(rows)
    units, best = by_column(units, "units", columns), by_column(best, "best", columns)
    for column, direction in best.items():
        if direction not in DIRECTIONS:
            raise ValueError(f"best[{column!r}]: expected one of {DIRECTIONS}, got {direction!r}")
    formats = as_formats(formats, columns, rows)
    cells = {
        (row, column): as_cell(values.get(column), f"rows[{row!r}][{column!r}]")
        for row, values in rows.items()
        for column in columns
    }
    percent = {column for column in columns if formats.get(column, formats.get(None, "")).endswith("%")}
    for column in percent:
        units.setdefault(column, "%")

    def written(row, column):
        own = formats.get(column) or formats.get(row) or formats.get(None)
        return write(cells[row, column], own, sign=column not in percent)

    head = [f"{column} ({units[column]})" if column in units else str(column) for column in columns]
    body = [(str(row), [written(row, column) for column in columns]) for row in rows]
    bold = {
        (list(rows).index(row), columns.index(column))
        for column in best
        for row in clear_winner({row: cells[row, column] for row in rows}, best[column])
    }
    numeric = [not any(isinstance(cells[row, column], str) for row in rows) for column in columns]
    runs = sorted({len(cell) for cell in cells.values() if isinstance(cell, np.ndarray) and len(cell) > 1})
    said = [] if note is None else [as_text(note, "note")]
    if runs:
        counts = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        said.insert(0, f"Mean ± standard deviation over {counts} {as_text(over, 'over')}.")
    if bold:
        said.append("Bold: ahead of each other row by the 95 % interval of the paired difference.")
    return Table(
        [str(corner), *head],
        spans(groups, columns),
        body,
        bold,
        numeric,
        None if caption is None else as_text(caption, "caption"),
        " ".join(said) or None,
    )


def column_names(rows):
    """The names of all columns, in the order in which the rows name them first."""
    if not isinstance(rows, Mapping) or not rows:
        raise ValueError(f"rows: expected a dict of at least one row, got {rows!r}")
    for name, values in rows.items():
        if not isinstance(values, Mapping):
            raise ValueError(f"rows[{name!r}]: expected values by column, got {type(values).__name__}")
    columns = list(dict.fromkeys(column for values in rows.values() for column in values))
    if not columns:
        raise ValueError("rows: expected at least one column, got none")
    return columns


def by_column(option, name, columns):
    """An option that maps columns to something; unknown columns are refused."""
    if option is None:
        return {}
    if not isinstance(option, Mapping):
        raise ValueError(f"{name}: expected a dict by column, got {type(option).__name__}")
    for column in option:
        if column not in columns:
            raise ValueError(f"{name}: expected columns out of {columns}, got {column!r}")
    return dict(option)


def as_formats(formats, columns, rows):
    """Formats by column or row; the one for all others has the key None."""
    if formats is None or isinstance(formats, str):
        formats = {} if formats is None else {None: formats}
    elif not isinstance(formats, Mapping):
        raise ValueError(f"formats: expected a format or a dict, got {type(formats).__name__}")
    for name, spec in formats.items():
        if name is not None and name not in columns and name not in rows:
            raise ValueError(f"formats: expected names of columns or rows, got {name!r}")
        try:
            format(1.0, spec)
        except (TypeError, ValueError) as error:
            raise ValueError(f"formats[{name!r}]: expected a format of numbers, got {spec!r}") from error
    return dict(formats)


def as_cell(value, name):
    """A value as text, None, a number, a pair, or an array of runs."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        if len(value) != 2 or not all(isinstance(part, Real) for part in value):
            raise ValueError(f"{name}: expected a pair (value, spread), got {value!r}")
        return tuple(float(part) for part in value)
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    array = to_numpy(value, name)
    if array.ndim > 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise ValueError(f"{name}: expected a number, text, a pair or one number a run, got {value!r}")
    return array.item() if array.ndim == 0 else array.astype(np.float64)


def write(cell, spec, sign):
    """A cell as text; ``sign``: whether a percentage says that it is one."""
    if cell is None:
        return MISSING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}" if spec is None else number(cell, spec) + percent_sign(spec, sign)
    spec = spec or ".3f"
    if isinstance(cell, float):
        return number(cell, spec) + percent_sign(spec, sign)
    if isinstance(cell, np.ndarray):
        cell = (cell.mean(), cell.std(ddof=1)) if len(cell) > 1 else (cell[0], np.nan)
    value, spread = cell
    if np.isnan(spread):
        return number(value, spec) + percent_sign(spec, sign)
    return f"{number(value, spec)} ± {number(spread, spec.lstrip('+'))}{percent_sign(spec, sign)}"


def number(value, spec):
    """A number as it is printed: a true minus, no percent sign, no minus before a zero."""
    if np.isnan(value):
        return "n/a"
    text = format(value, spec).removesuffix("%")
    if not re.search("[1-9]", text) and "inf" not in text:
        text = text.replace("-", "")
    return text.replace("-", "−").replace("inf", "∞")


def percent_sign(spec, sign):
    return " %" if sign and spec.endswith("%") else ""


def clear_winner(column, direction):
    """The one row that is ahead of all others as far as the runs tell, in a list; else an empty one."""
    from scipy.stats import t

    runs = {row: cell for row, cell in column.items() if isinstance(cell, np.ndarray)}
    others = [cell for cell in column.values() if cell is not None and not isinstance(cell, str | np.ndarray)]
    if len(runs) < 2 or others or len({len(cell) for cell in runs.values()}) > 1:
        return []
    sign = 1 if direction == "max" else -1
    winner = max(runs, key=lambda row: sign * runs[row].mean())
    count = len(runs[winner])
    if count < 3:
        return []
    for row, cell in runs.items():
        lead = sign * (runs[winner] - cell)
        if row != winner and not lead.mean() > t.ppf(0.975, count - 1) * lead.std(ddof=1) / np.sqrt(count):
            return []
    return [winner]


def spans(groups, columns):
    """The upper headings with their widths, in the order of the columns; those without one are blank."""
    if groups is None:
        return []
    if not isinstance(groups, Mapping):
        raise ValueError(f"groups: expected a dict of lists of columns, got {type(groups).__name__}")
    owner = {}
    for name, members in groups.items():
        for member in members:
            if member not in columns or member in owner:
                raise ValueError(
                    f"groups[{name!r}]: expected columns out of {columns}, each once, got {member!r}"
                )
            owner[member] = str(name)
    found = []
    for column in columns:
        name = owner.get(column, "")
        if found and found[-1][0] == name:
            found[-1][1] += 1
        else:
            found.append([name, 1])
    named = [name for name, _ in found if name]
    if len(named) != len(set(named)):
        raise ValueError("groups: expected the columns of a group side by side, got others between them")
    return [tuple(pair) for pair in found]


def inline(text):
    """Text as HTML: code, bold and formulas are set, everything else is shown as it is."""
    parts = re.split(r"(`[^`]+`|\$[^$\s](?:[^$]*[^$\s])?\$|\*\*[^*]+\*\*)", str(text))
    for i in range(1, len(parts), 2):
        inside = escape(parts[i].strip("`$*"))
        if parts[i].startswith("`"):
            parts[i] = f"<code>{inside}</code>"
        elif parts[i].startswith("$"):
            parts[i] = f'<span class="math notranslate nohighlight mathjax_process">\\({inside}\\)</span>'
        else:
            parts[i] = f"<strong>{inside}</strong>"
    parts[::2] = [escape(part) for part in parts[::2]]
    return "".join(parts)


def is_figure(text):
    """Whether text is a number, with or without a spread: then it stands in one line."""
    return re.fullmatch(r"[−+-]?[\d.,]+( ± [\d.,]+)?[ ]?%?", text) is not None


def words(is_number):
    return "" if is_number else ' class="uq-words"'


def mark(text, bold):
    return f"<strong>{text}</strong>" if bold else text
