"""Charts as inline SVG: no script, colours from the page's own variables, what they show said in words."""

from html import escape

import numpy as np

from uqhelpers.report.words import percent, short

WIDTH, HEIGHT = 470, 330
TOP, RIGHT, BOTTOM = 14, 18, 52
ROW = 25  # height of a row in a forest
LONGEST = 25  # signs of a name beside a chart


def ticks(low, high, count=5):
    """Round numbers between two ends."""
    from matplotlib.ticker import MaxNLocator

    values = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    slack = 1e-9 * (high - low)
    return [float(value) for value in values if low - slack <= value <= high + slack]


def span(values, room=0.06):
    """From the least to the greatest finite value, with some room; never empty."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    wide = (high - low) or abs(high) or 1.0
    return low - room * wide, high + room * wide


class Chart:
    """One pair of axes.

    Parameters
    ----------
    words : str
        What the chart shows, for those who do not see it.
    x, y : (float, float)
        Ends of the axes.
    xlabel, ylabel : str
        With their units.
    shares : str
        Which of the axes, ``"xy"``, are written in percent.
    rows : list of str, optional
        Names along the vertical axis instead of numbers: a forest.
    """

    def __init__(self, words, x, y, xlabel, ylabel="", shares="xy", rows=None):
        self.words, self.x, self.y, self.rows = words, x, y, rows
        self.height = HEIGHT if rows is None else TOP + BOTTOM + ROW * len(rows)
        self.left = 66 if rows is None else 178
        self.parts = []
        self._frame(xlabel, ylabel, shares)

    def across(self, x):
        return self.left + (np.asarray(x, float) - self.x[0]) / (self.x[1] - self.x[0]) * (
            WIDTH - RIGHT - self.left
        )

    def down(self, y):
        return TOP + (self.y[1] - np.asarray(y, float)) / (self.y[1] - self.y[0]) * (
            self.height - TOP - BOTTOM
        )

    def _frame(self, xlabel, ylabel, shares):
        foot = self.height - BOTTOM
        for value in ticks(*self.x):
            at = f"{self.across(value):.1f}"
            text = percent(value) if "x" in shares else short(value)
            self.parts.append(f'<path class="grid" d="M{at} {TOP}V{foot}"/>')
            self.parts.append(f'<text x="{at}" y="{foot + 19}" text-anchor="middle">{text}</text>')
        middle = (self.left + WIDTH - RIGHT) / 2
        self.parts.append(
            f'<text class="name" x="{middle:.1f}" y="{foot + 42}" text-anchor="middle">'
            f"{escape(xlabel)}</text>"
        )
        if self.rows is not None:
            for number, name in enumerate(self.rows):
                if len(name) > LONGEST:  # what tells names apart may stand at either end
                    name = f"{name[: LONGEST // 2]}…{name[-(LONGEST // 2) :]}"
                self.parts.append(
                    f'<text class="row" x="{self.left - 10}" y="{self.row(number) + 4.5:.1f}" '
                    f'text-anchor="end">{escape(name)}</text>'
                )
            return
        for value in ticks(*self.y):
            at = float(self.down(value))
            text = percent(value) if "y" in shares else short(value)
            self.parts.append(f'<path class="grid" d="M{self.left} {at:.1f}H{WIDTH - RIGHT}"/>')
            self.parts.append(f'<text x="{self.left - 8}" y="{at + 4.5:.1f}" text-anchor="end">{text}</text>')
        centre = (TOP + foot) / 2
        self.parts.append(
            f'<text class="name" transform="translate(14 {centre:.1f}) rotate(-90)" '
            f'text-anchor="middle">{escape(ylabel)}</text>'
        )

    def row(self, number):
        """The height of a forest's row."""
        return TOP + ROW * (number + 0.5)

    def line(self, x, y, kind="blue"):
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(self.across(x), self.down(y), strict=True))
        self.parts.append(f'<polyline class="line {kind}" points="{points}"/>')
        return self

    def bar(self, left, right, low, high, kind="band"):
        a, b = sorted((float(self.across(left)), float(self.across(right))))
        c, d = sorted((float(self.down(low)), float(self.down(high))))
        self.parts.append(
            f'<rect class="{kind}" x="{a:.1f}" y="{c:.1f}" width="{max(b - a, 0.5):.1f}" '
            f'height="{d - c:.1f}"/>'
        )
        return self

    def dot(self, x, y, kind="blue", size=4.5):
        """A point at (x, y); in a forest y is the number of a row."""
        return self._dot(float(self.across(x)), float(self._height(y)), kind, size)

    def _dot(self, x, y, kind, size):
        self.parts.append(f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>')
        return self

    def whisker(self, x, y, kind="blue"):
        """A stroke from one end to another: one of ``x`` and ``y`` is a pair."""
        if isinstance(x, tuple):
            a, b = self.across(np.clip(x, *self.x))
            path = f"M{a:.1f} {float(self._height(y)):.1f}H{b:.1f}"
        else:
            a, b = self.down(np.clip(y, *self.y))
            path = f"M{float(self.across(x)):.1f} {a:.1f}V{b:.1f}"
        self.parts.append(f'<path class="line {kind}" d="{path}"/>')
        return self

    def _height(self, y):
        return self.down(y) if self.rows is None else self.row(y)

    def upright(self, x, kind="rule"):
        """A line from top to bottom."""
        self.parts.append(
            f'<path class="line {kind}" d="M{float(self.across(x)):.1f} {TOP}V{self.height - BOTTOM}"/>'
        )
        return self

    def level(self, y, kind="rule"):
        """A line from left to right."""
        self.parts.append(
            f'<path class="line {kind}" d="M{self.left} {float(self.down(y)):.1f}H{WIDTH - RIGHT}"/>'
        )
        return self

    def say(self, x, y, text, kind="blue", anchor="start"):
        """Some words beside what they name."""
        x, y = float(self.across(x)), float(self.down(y))
        self.parts.append(
            f'<text class="word {kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )
        return self

    def __str__(self):
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.words)}">'
            f"{''.join(self.parts)}</svg>"
        )
