"""Four outputs at a glance, drawn small from stored results, in the colours of the page."""

import html
import json

import numpy as np

from tools import measured

WIDE, HIGH = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 26, 36


class Panel:
    """A small picture with two axes; what is drawn is given in the units of the data."""

    def __init__(self, title, x, y, said, xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1)):
        self.title, self.said, self.xlim, self.ylim = title, said, xlim, ylim
        self.parts = []
        for value in xticks:
            self._text(self._x(value), HIGH - BOTTOM + 13, f"{value:g}", "middle")
        for value in yticks:
            self.parts.append(f'<path class="g" d="M{LEFT} {self._y(value):.1f}H{WIDE - RIGHT}"/>')
            self._text(LEFT - 5, self._y(value) + 4, f"{value:g}", "end")
        self._text((LEFT + WIDE - RIGHT) / 2, HIGH - 6, x, "middle")
        self._text(LEFT - 30, TOP - 12, y, "start")

    def _x(self, value):
        low, high = self.xlim
        return LEFT + (value - low) / (high - low) * (WIDE - LEFT - RIGHT)

    def _y(self, value):
        low, high = self.ylim
        return HIGH - BOTTOM - (value - low) / (high - low) * (HIGH - TOP - BOTTOM)

    def _text(self, x, y, words, anchor, kind=""):
        kind = f' class="{kind}"' if kind else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{html.escape(words)}</text>'
        )

    def line(self, x, y, kind):
        points = "L".join(f"{self._x(a):.1f} {self._y(b):.1f}" for a, b in zip(x, y, strict=True))
        self.parts.append(f'<path class="l {kind}" d="M{points}"/>')

    def dots(self, x, y, sizes, kind):
        for a, b, size in zip(x, y, sizes, strict=True):
            self.parts.append(
                f'<circle class="{kind}" cx="{self._x(a):.1f}" cy="{self._y(b):.1f}" r="{size:.1f}"/>'
            )

    def bars(self, edges, heights, kind):
        for low, high, value in zip(edges[:-1], edges[1:], heights, strict=True):
            top, width = self._y(value), self._x(high) - self._x(low)
            self.parts.append(
                f'<rect class="b {kind}" x="{self._x(low):.1f}" y="{top:.1f}" '
                f'width="{width:.1f}" height="{self._y(0) - top:.1f}"/>'
            )

    def label(self, x, y, words, kind, anchor="middle"):
        self._text(self._x(x), self._y(y), words, anchor, kind)

    def svg(self):
        head = f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{html.escape(self.said)}">'
        return (
            f'<div class="uq-panel"><p class="uq-panel-title">{html.escape(self.title)}</p>'
            f"{head}{''.join(self.parts)}</svg></div>"
        )


def read():
    """The curves of the first three figures."""
    return json.loads((measured.RESULTS / "reproduce_glance.json").read_text(encoding="utf-8"))


def histogram(curves):
    """Doubt about what is known and about what is strange: apart, or one upon the other."""
    panels = []
    titles = {"ensemble": "good: an ensemble", "long_network": "bad: one network, trained too long"}
    for name, title in titles.items():
        shares = {what: np.array(n) / np.sum(n) for what, n in curves["entropies"][name].items()}
        edges = np.array(curves["edges"])
        low = [shares[what][: len(shares[what]) // 7].sum() for what in ("digits", "letters")]
        panel = Panel(
            title, "entropy (nats)", "share",
            f"Two histograms of entropy. {low[0]:.0%} of the digits and {low[1]:.0%} of the letters "
            "lie at its lower end.",
            (0, edges[-1]), (0, 1), (0, 1, 2),
        )  # fmt: skip
        panel.bars(edges, shares["digits"], "a")
        panel.bars(edges, shares["letters"], "c")
        panel.label(0.55, 0.82, "digits", "a", "start")
        panel.label(1.5, 0.24, "letters", "c", "start")
        panels.append(panel)
    return panels


def reliability(curves):
    """Confidence and how often it was right."""
    panels = []
    for what, title in (
        ("clean", "good: clean digits"),
        ("severity 5", "bad: the same network, damaged digits"),
    ):
        curve = {key: np.array(values) for key, values in curves["reliability"][what].items()}
        gap = (curve["count"] * (curve["confidence"] - curve["accuracy"])).sum() / curve["count"].sum()
        panel = Panel(
            title, "confidence", "accuracy",
            f"Accuracy against confidence in ten bins. On average confidence minus accuracy is {gap:+.2f}.",
        )  # fmt: skip
        panel.line([0, 1], [0, 1], "d")
        panel.line(curve["confidence"], curve["accuracy"], "a")
        sizes = 2 + 6 * np.sqrt(curve["count"] / curve["count"].max())
        panel.dots(curve["confidence"], curve["accuracy"], sizes, "a")
        panel.label(0.97, 0.06, f"signed gap {measured.number(gap, '+.3f')}", "", "end")
        panels.append(panel)
    return panels


def coverage(curves):
    """What is gained by handing over the doubtful."""
    panels = []
    titles = {"entropy": "good: by entropy", "mahalanobis": "bad: by Mahalanobis distance"}
    for name, title in titles.items():
        values = curves["kept"][name]
        panel = Panel(
            title, "share that is kept", "accuracy",
            f"Accuracy of what is kept is {values[0]:.2f} at the left end, {values[9]:.2f} at one half, "
            f"{values[15]:.2f} at four fifths and {values[-1]:.2f} when all is kept.",
            (0, 1), (0.5, 1), (0, 0.5, 1), (0.5, 0.75, 1),
        )  # fmt: skip
        panel.line([0, 1], [values[-1]] * 2, "d")
        panel.line(curves["coverages"], values, "a")
        panel.label(0.03, values[-1] - 0.06, "by lot", "", "start")
        panels.append(panel)
    return panels


def attack():
    """Accuracy and doubt under a growing push."""
    runs, panels = measured.read("reproduce_adversarial")["runs"], []
    for sweep, title in (("fgsm", "one step: looks healthy"), ("pgd", "ten steps: wrong and sure")):
        found = [run["found"][f"{sweep}, dropout"] for run in runs]
        budgets = found[0]["epsilons"]
        accuracy, entropy, sure = (
            np.mean([one[key] for one in found], axis=0) for key in ("accuracy", "entropy", "sure and wrong")
        )
        panel = Panel(
            title, "budget ε (pixels)", "share; entropy (nats)",
            f"Accuracy falls from {accuracy[0]:.2f} to {accuracy[-1]:.2f}. Entropy ends at {entropy[-1]:.2f} "
            f"nats, after {entropy.max():.2f} at most; {sure[-1]:.2f} of all are then wrong and sure.",
            (0, budgets[-1]), (0, 1.05), (0, 0.1, 0.2, 0.3), (0, 0.5, 1),
        )  # fmt: skip
        panel.line(budgets, accuracy, "a")
        panel.line(budgets, entropy, "c")
        panel.line(budgets, sure, "e")
        panels.append(panel)
    panels[0].label(0.005, 0.8, "accuracy", "a", "start")
    panels[0].label(0.295, 0.8, "entropy", "c", "end")
    panels[0].label(0.2, 0.2, "wrong and sure", "e", "end")
    panels[1].label(0.005, 0.76, "accuracy", "a", "start")
    panels[1].label(0.075, 0.42, "entropy", "c", "end")
    panels[1].label(0.297, 0.62, "wrong and sure", "e", "end")
    return panels


READINGS = {
    "A histogram of doubt": (
        histogram,
        """Digits the network knows, and letters it has never seen. *Read:* how little the two overlap; a
        threshold goes between them. *Bad:* most letters lie at the left end with the digits, sure. Then no
        threshold parts them. A wide heap of the familiar is no fault:
        contested digits belong to the right.""",
        "decisions/odin.ipynb#near-far-and-not-strange-at-all",
    ),
    "A reliability diagram": (
        reliability,
        """Each dot a bin, the larger the more inputs. *Read:* dots on the line keep their word; below it the
        network is over-confident, above it timid. Begin with the large dots and with the signed gap. *Bad:*
        the large dots far below the line. A small dot off the line is a handful of inputs; bins that hold
        nothing are left out.""",
        "foundations/calibration.ipynb#the-expected-calibration-error-and-its-family",
    ),
    "A coverage curve": (
        coverage,
        """Digits, half of them blurred; the most doubtful are handed over first. *Read:* from the right: how
        fast accuracy rises for each share that is given up, against the level of a choice by lot. *Bad:* a
        curve that, from the right, stays on that level or falls below it: the score trusts the wrong ones.
        Its leftmost end is a few inputs.""",
        "decisions/confidnet.ipynb#what-does-rejecting-buy",
    ),
    "An attack curve": (
        attack,
        """MC-Dropout on MNIST, pushed ever harder. *Read:* three lines together. Where accuracy falls, doubt
        should rise. *Bad:* doubt falls again, and the answers are wrong *and sure*. One step alone does not
        show it: iterate before you believe the first picture.""",
        "decisions/adversarial.ipynb#does-doubt-rise",
    ),
}


def figures():
    """All four: a heading, the pictures, how to read them."""
    curves, lines = read(), []
    for title, (draw, words, place) in READINGS.items():
        panels = draw() if draw is attack else draw(curves)
        pictures = "".join(panel.svg() for panel in panels)
        lines += [f"### {title}", "", "```{raw} html", f'<div class="uq-glance">{pictures}</div>', "```", ""]
        lines += [f"{' '.join(words.split())} ([more](../{place}))", ""]
    return "\n".join(lines)
