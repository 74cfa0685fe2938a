"""``python -m benchmarks.boxes_adversarial``: the stored MNIST sweep as box plots, without fliers.

One row for each predictor and attack, one column for each network that was stored; the
boxes are those of ``reproduce_adversarial.json``, nothing is computed again.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.reproduce_adversarial import STD
from uqhelpers import plots

RESULTS = Path(__file__).parent / "results"
ROWS = {"fgsm, dropout": "MC-Dropout, one step", "pgd, dropout": "MC-Dropout, ten steps"}
ROWS |= {"fgsm, ensemble": "ensemble of 3, one step", "pgd, ensemble": "ensemble of 3, ten steps"}


def boxes(run, row):
    """What ``Axes.bxp`` draws of one row: a box for each budget."""
    names = ("whislo", "q1", "med", "q3", "whishi")
    return [dict(zip(names, values, strict=True)) | {"fliers": []} for values in run["found"][row]["box"]]


def draw(runs):
    """All networks' entropies under each attack: budgets in pixels below, standardised above."""
    shape = {"figsize": (12, 2.3 * len(ROWS)), "sharey": True, "layout": "constrained"}
    fig, axes = plt.subplots(len(ROWS), len(runs), **shape)
    for (row, label), line in zip(ROWS.items(), axes, strict=True):
        for number, (run, ax) in enumerate(zip(runs, line, strict=True)):
            epsilons = run["found"][row]["epsilons"]
            places = range(len(epsilons))
            ax.bxp(boxes(run, row), positions=places, showfliers=False, medianprops={"lw": 2})
            ax.set_xticks(places, [f"{e:g}" for e in epsilons], fontsize=7)
            if row == next(iter(ROWS)):
                above = ax.secondary_xaxis("top")
                above.set_xticks(places, [f"{e / STD:.2f}" for e in epsilons], fontsize=7)
                above.set_xlabel(f"network {number}; ε / {STD}", fontsize=8)
        line[0].set_ylabel(f"{label}\nentropy (nats)", fontsize=8)
    for ax in axes[-1]:
        ax.set_xlabel("ε (pixels)", fontsize=8)
    return fig


if __name__ == "__main__":
    plots.use_style()
    stored = json.loads((RESULTS / "reproduce_adversarial.json").read_text(encoding="utf-8"))
    draw(stored["runs"]).savefig(RESULTS / "reproduce_adversarial.png", dpi=110)
