"""The colours and the style of all figures: told apart by colour-blind readers, the same in every chapter."""

import numpy as np

# seaborn's "colorblind" palette, written out so that a plot does not have to import seaborn.
PALETTE = (
    "#0173B2",
    "#DE8F05",
    "#029E73",
    "#D55E00",
    "#CC78BC",
    "#CA9161",
    "#FBAFE4",
    "#949494",
    "#ECE133",
    "#56B4E9",
)
INK = "#222832"
GREY = "#6B7280"
COLOURS = {
    "total": "#3F4754",
    "epistemic": "#0173B2",
    "aleatoric": "#DE8F05",
    "over-confident": "#D55E00",
    "under-confident": "#0173B2",
    "wrong": "#B84A00",
}
# What a quantity is called on an axis.
AXIS_LABELS = {
    "total": "total uncertainty (nats)",
    "aleatoric": "aleatoric uncertainty (nats)",
    "epistemic": "epistemic uncertainty (nats)",
    "entropy": "entropy (nats)",
    "mutual_information": "mutual information (nats)",
    "confidence": "confidence (probability)",
    "probability": "probability",
    "variation_ratio": "variation ratio (share of passes)",
}
LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<", ">", "*")


def use_style():
    """Set the book's style for all matplotlib and seaborn figures that follow.

    Seaborn's ticks and colour-blind palette, a white background, no upper and
    right spine, and a size whose letters can be read in a wide page and on a
    phone. The one function of this module that changes matplotlib's settings.
    """
    import seaborn as sns

    sns.set_theme(
        context="notebook",
        style="ticks",
        palette="colorblind",
        font="DejaVu Sans",  # comes with matplotlib: the same picture on every machine
        rc={
            "figure.figsize": (5.8, 3.5),
            "figure.dpi": 120,
            "savefig.dpi": 120,
            "figure.facecolor": "white",
            "axes.facecolor": "white",
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": INK,
            "axes.linewidth": 0.9,
            "axes.labelcolor": INK,
            "axes.labelsize": 10.5,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "xtick.labelsize": 9.5,
            "ytick.labelsize": 9.5,
            "xtick.major.width": 0.9,
            "ytick.major.width": 0.9,
            "xtick.major.size": 4,
            "ytick.major.size": 4,
            "legend.fontsize": 9.5,
            "legend.title_fontsize": 9.5,
            "legend.frameon": False,
            "lines.linewidth": 2.0,
            "lines.markersize": 5.5,
            "grid.color": "#E3E6EA",
            "svg.hashsalt": "uqhelpers",  # ids in SVG files repeat from run to run
        },
    )


def sequential(name, strength=1.0):
    """From white to the colour that the quantity has in every figure."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(name, ["#FFFFFF", tint(COLOURS[name], strength)])


def tint(colour, strength):
    """A colour mixed with white; opaque, so that what lies below does not shine through."""
    from matplotlib.colors import to_hex, to_rgb

    return to_hex(1 - strength * (1 - np.array(to_rgb(colour))))


def shade(colour, strength):
    """A colour mixed with black: thin strokes in the light colours of the palette are hard to see."""
    from matplotlib.colors import to_hex, to_rgb

    return to_hex(strength * np.array(to_rgb(colour)))


def gap_style(sign):
    colour = COLOURS[sign]
    hatch = "///" if sign == "over-confident" else "..."
    return {"facecolor": tint(colour, 0.35), "edgecolor": colour, "hatch": hatch, "linewidth": 0.8}
