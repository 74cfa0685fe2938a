"""The book's figures: a style worth copying, static plots, and interactive ones that work everywhere.

Every plot takes ``ax=None`` and returns what it drew on: one Axes, or an array
of Axes where there are several panels. None calls ``plt.show``. Colours are
told apart by colour-blind readers, mean the same in every chapter (blue:
epistemic, orange: aleatoric) and are never the only carrier of a message.
"""

import sys
from collections.abc import Mapping

import numpy as np

from uqhelpers import metrics
from uqhelpers._checks import (
    as_choice,
    as_distributions,
    as_flags,
    as_labels,
    as_number,
    as_real,
    as_whole,
    to_numpy,
)

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
_LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<", ">", "*")


# --- style and text ---------------------------------------------------------------------------------------


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


def say(text):
    """Display a sentence of Markdown, usually one that carries a result.

    Parameters
    ----------
    text : str
        Markdown. May hold formulas between dollar signs.

    Raises
    ------
    ValueError
        If ``text`` is not a string, or blank.
    """
    from IPython.display import Markdown, display

    display(Markdown(_as_text(text, "text")))


# --- interactive figures ----------------------------------------------------------------------------------


class InteractiveFigure:
    """A Plotly figure as notebooks and the book's pages take it; made by :func:`show`.

    Parameters
    ----------
    fig : plotly.graph_objects.Figure
        The figure; not changed.
    alt : str
        What the figure shows, for those who cannot see it.
    div_id : str, optional
        The HTML id; by default made from the figure's content.
    caption : str, optional
        A line of plain text below the figure.

    Attributes
    ----------
    spec : str
        The figure as JSON, safe to stand inside an HTML script element.
    """

    def __init__(self, fig, alt, div_id=None, caption=None):
        import hashlib
        import json
        import re

        self.alt = _as_text(alt, "alt")
        self.caption = None if caption is None else _as_text(caption, "caption")
        self.figure = _light(fig)
        # Through json once more: plotly escapes every "/" of the base64 arrays, at six characters each.
        content = json.loads(self.figure.to_json())
        content = {"data": content["data"], "layout": content["layout"]}
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        self.spec = text.replace("<", "\\u003c")  # neither "</script>" nor "<!--" can end the element
        if div_id is None:
            div_id = "uq-" + hashlib.sha256((self.spec + self.alt).encode()).hexdigest()[:12]
        if not isinstance(div_id, str) or not re.fullmatch(r"[A-Za-z][\w:.-]*", div_id, flags=re.ASCII):
            raise ValueError(f"div_id: expected a letter, then letters, digits, '-' or '_', got {div_id!r}")
        self.div_id = div_id

    def __repr__(self):
        return f"Interactive figure: {self.alt}"

    def _figure_element(self, inside):
        from html import escape

        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        label = escape(self.alt, quote=True)
        opening = f'<figure class="uq-plotly" id="{self.div_id}" role="group" aria-label="{label}">'
        return f"{opening}{inside}{caption}</figure>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        import json

        if "google.colab" in sys.modules:  # Colab shows HTML only, each output in a frame of its own
            inside = self.figure.to_html(
                include_plotlyjs="cdn", full_html=False, div_id=f"{self.div_id}-plot"
            )
            return {"text/html": self._figure_element(inside), "text/plain": self.alt}
        box = f'<div class="uq-plotly-box"></div><script type="application/json">{self.spec}</script>'
        return {
            "text/html": self._figure_element(box),
            "application/vnd.plotly.v1+json": {**json.loads(self.spec), "config": {"displaylogo": False}},
            "text/plain": self.alt,
        }


def show(fig, alt, div_id=None, caption=None):
    """Display an interactive Plotly figure in the book, in Jupyter and in Colab.

    The book's page gets the figure as JSON beside one shared plotly.js and asks
    no other host for anything; Jupyter gets Plotly's own format; Colab, which
    shows HTML only, gets Plotly's HTML. The same figure gives the same bytes.

    Parameters
    ----------
    fig : plotly.graph_objects.Figure
        The figure. Not changed: what is shown is a copy in the book's template,
        its coordinates in single precision where that cannot be seen.
    alt : str
        What the figure shows and what moving it teaches, for screen readers.
    div_id : str, optional
        The HTML id, to link to; by default made from the figure's content.
    caption : str, optional
        A line of plain text below the figure.

    Raises
    ------
    ValueError
        If ``alt`` is missing or blank, ``fig`` is no Plotly figure, or ``div_id``
        cannot be an HTML id.
    """
    from IPython.display import display

    display(InteractiveFigure(fig, alt, div_id=div_id, caption=caption))


def slider_figure(frames, fixed=(), name="", active=0, **layout):
    """An interactive figure with a slider that swaps traces, without a server.

    All traces are in the figure; the slider switches their visibility, which a
    static page can do by itself.

    Parameters
    ----------
    frames : list of (str, list of traces)
        For each position of the slider its label and the Plotly traces (or dicts
        with a ``type``) that are seen there.
    fixed : list of traces
        Traces seen at every position, drawn below the others.
    name : str
        What the slider sets, written before the label of its position.
    active : int
        The position that is shown first.
    **layout
        Layout of the figure, such as ``xaxis_title="x"``. Fix the axes' ranges:
        what changes can then be compared.

    Returns
    -------
    plotly.graph_objects.Figure
        To be handed to :func:`show`.

    Raises
    ------
    ValueError
        If there is no frame, a frame is not a label with traces, or ``active`` is
        not a position.
    """
    import plotly.graph_objects as go

    try:
        frames = [(str(label), list(traces)) for label, traces in frames]
    except (TypeError, ValueError) as error:
        raise ValueError("frames: expected a list of (label, list of traces)") from error
    if not frames or not all(traces for _, traces in frames):
        raise ValueError("frames: expected at least one frame, each with at least one trace")
    active = as_whole(active, "active", low=0, high=len(frames) - 1)

    fig = go.Figure()
    fig.add_traces(list(fixed))
    owner = [None] * len(fig.data)  # the position at which a trace is seen; None: at all
    for position, (_, traces) in enumerate(frames):
        fig.add_traces(traces)
        owner += [position] * len(traces)

    def seen_at(position):
        return [at is None or at == position for at in owner]

    for trace, visible in zip(fig.data, seen_at(active), strict=True):
        trace.visible = visible
    steps = [
        {"method": "restyle", "label": label, "args": [{"visible": seen_at(position)}]}
        for position, (label, _) in enumerate(frames)
    ]
    slider = {
        "active": active,
        "steps": steps,
        "currentvalue": {"prefix": f"{name}: " if name else "", "xanchor": "left", "font": {"size": 15}},
        "pad": {"t": 60, "b": 4},
        "ticklen": 5,
        "minorticklen": 0,
    }
    fig.update_layout(sliders=[slider], height=500)
    return fig.update_layout(**layout)


def _template(kinds=()):
    """Plotly's look in the book, in one small dict: their own template weighs 7 kB a figure."""
    axis = {
        "automargin": True,
        "gridcolor": "#E3E6EA",
        "linecolor": INK,
        "showline": True,
        "ticks": "outside",
        "zeroline": False,
    }
    return {
        "data": {kind: [{"colorscale": "Cividis"}] for kind in ("contour", "heatmap") if kind in kinds},
        "layout": {
            "colorway": list(PALETTE),
            "font": {"family": "system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif", "size": 14},
            "hovermode": "closest",
            "margin": {"l": 56, "r": 16, "t": 40, "b": 48},
            "paper_bgcolor": "white",
            "plot_bgcolor": "white",
            "xaxis": axis,
            "yaxis": axis,
        },
    }


def _light(fig):
    """A copy of a Plotly figure in the book's template, its coordinates small."""
    import plotly.graph_objects as go

    if isinstance(fig, (Mapping, go.Figure)):
        try:
            fig = go.Figure(fig)
        except (TypeError, ValueError) as error:
            raise ValueError(f"fig: expected a Plotly figure, got {type(fig).__name__}") from error
    else:
        raise ValueError(f"fig: expected a Plotly figure, got {type(fig).__name__}")
    fig.layout.template = _template({trace.type for trace in fig.data})
    if fig.layout.height is None:
        fig.layout.height = 420
    for trace in fig.data:
        for key in ("x", "y", "z", "a", "b", "c"):
            if key in trace and trace[key] is not None:
                trace[key] = _single(trace[key])
    return fig


def _single(values):
    """Float64 coordinates in float32 where the difference is far below a pixel; others as they came."""
    array = np.asarray(values) if not isinstance(values, tuple) or _all_floats(values) else None
    if array is None or array.dtype != np.float64 or array.size == 0:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        small = array.astype(np.float32)
        finite = np.isfinite(array)
        if not np.isfinite(small[finite]).all():
            return values
        error = np.abs(small - array)[finite].max(initial=0.0)
        span = np.ptp(array[finite]) if finite.any() else 0.0
    return small if error <= 1e-5 * span else values


def _all_floats(values):
    return len(values) > 0 and all(isinstance(value, float) for value in values)


# --- images -----------------------------------------------------------------------------------------------


def image_grid(images, titles=None, columns=5, *, emphasis=None, ax=None):
    """Images side by side, each under its title.

    Parameters
    ----------
    images : array, shape (N, H, W), (N, 1, H, W), (N, 3, H, W) or (N, H, W, 3)
        Values in [0, 1] are drawn on that scale, others from least to greatest.
    titles : list of str, optional
        One for each image.
    columns : int
        Images in a row.
    emphasis : array of bool, shape (N,), optional
        Which titles and frames to set apart, as for wrong predictions.
    ax : array of Axes, optional
        At least ``N`` of them; by default a new figure.

    Returns
    -------
    array of Axes, shape (rows, columns)
        Or ``ax`` as it was handed in.

    Raises
    ------
    ValueError
        If the images have another shape, or there are not as many titles as images.
    """
    images = _as_images(images)
    count = len(images)
    columns = min(as_whole(columns, "columns"), count)
    titles = _as_strings(titles, "titles", count, [""] * count)
    emphasis = np.zeros(count, bool) if emphasis is None else as_flags(emphasis, "emphasis", length=count)

    rows = -(-count // columns)
    lines = max(title.count("\n") + 1 if title else 0 for title in titles)
    width = min(5.8, 1.16 * columns)
    cell = width / columns
    height = rows * (cell * images.shape[1] / images.shape[2] + 0.19 * lines + 0.06)
    panels, axes = _panels(ax, rows, columns, (width, height))
    if len(panels) < count:
        raise ValueError(f"ax: expected at least {count} axes, one an image, got {len(panels)}")

    low, high = images.min(), images.max()
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    # The longest line must fit into a cell; a bold letter is about .7 of its size wide.
    longest = max((len(line) for title in titles for line in title.split("\n")), default=0)
    size = min(9.5, cell * 72 / ((0.7 if emphasis.any() else 0.58) * max(longest, 1)))
    for panel, image, title, marked in zip(panels, images, titles, emphasis, strict=False):
        panel.imshow(image, cmap="gray_r", vmin=low, vmax=high, interpolation="nearest")
        panel.set(xticks=[], yticks=[])
        colour = COLOURS["wrong"] if marked else INK
        panel.set_title(
            title, fontsize=size, loc="center", color=colour, pad=4, weight="bold" if marked else "normal"
        )
        for spine in panel.spines.values():
            spine.set(visible=True, color=colour if marked else "#C4C9D0", linewidth=1.8 if marked else 0.7)
    for panel in panels[count:]:
        panel.set_axis_off()
    return axes


def most_and_least(images, score, predictions, labels, k=5, *, units="nats", classes=None, ax=None):
    """The most and the least certain images, with prediction, truth and score.

    Parameters
    ----------
    images : array, shape (N, H, W) or another that :func:`image_grid` takes
    score : array, shape (N,)
        Higher is more uncertain.
    predictions, labels : array of int, shape (N,)
        The predicted and the true class.
    k : int
        Images in a row.
    units : str
        What the score is measured in.
    classes : list of str, optional
        Names of the classes; by default their numbers.
    ax : array of Axes, optional
        ``2 k`` of them; by default a new figure.

    Returns
    -------
    array of Axes, shape (2, k)
        The most certain in the first row, the least certain in the second; those
        with a wrong prediction are framed.

    Raises
    ------
    ValueError
        If the lengths differ or there are fewer than ``k`` images.
    """
    images = _as_images(images)
    count = len(images)
    k = as_whole(k, "k", high=count)
    score = _as_column(score, "score", count)
    if classes is not None:
        classes = _as_strings(classes, "classes", len(np.atleast_1d(classes)), None)
    limit = np.iinfo(np.int64).max if classes is None else len(classes)
    predictions = as_labels(predictions, limit, "predictions", length=count)
    labels = as_labels(labels, limit, "labels", length=count)

    order = np.argsort(score, kind="stable")
    chosen = np.concatenate([order[:k], order[::-1][:k]])
    names = str if classes is None else classes.__getitem__
    # Under 0.001 the third decimal says nothing.
    amount = [f"{score[i]:.3f}" if not 0 < abs(score[i]) < 5e-4 else f"{score[i]:.0e}" for i in chosen]
    titles = [
        f"predicts {names(predictions[i])}\ntruth {names(labels[i])}\n{value} {units}".rstrip()
        for i, value in zip(chosen, amount, strict=True)
    ]
    wrong = predictions[chosen] != labels[chosen]
    axes = image_grid(images[chosen], titles, columns=k, emphasis=wrong, ax=ax)
    panels = np.ravel(axes)
    panels[0].set_ylabel("most certain", fontsize=10)
    panels[k].set_ylabel("least certain", fontsize=10)
    return axes


# --- classes and places -----------------------------------------------------------------------------------


def confusion(matrix, *, classes=None, ax=None):
    """A table of which class was taken for which, its errors in colour.

    The colour of an error is its share of the true class's inputs. Right
    predictions stand on the diagonal in grey: they are so many more that the
    errors would be invisible beside them.

    Parameters
    ----------
    matrix : array, shape (C, C)
        Counts of at least 0; rows are the true classes, columns the predicted ones.
    classes : list of str, optional
        Names of the classes; by default their numbers.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If ``matrix`` is not square, or a count is negative or no number.
    """
    matrix = as_real(matrix, "matrix", ndim=2)
    if matrix.shape[0] != matrix.shape[1] or matrix.min() < 0:
        raise ValueError(
            f"matrix: expected counts of shape (classes, classes), got {matrix.shape} from {matrix.min():g}"
        )
    count = len(matrix)
    names = _as_strings(classes, "classes", count, [str(c) for c in range(count)])
    ax = _axes(ax, (4.9, 4.6))

    share = 100 * matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-300)
    errors = np.ma.masked_array(share, mask=np.eye(count, dtype=bool) | (matrix == 0))
    most = errors.max() if errors.count() else 1.0
    shades = _sequential("aleatoric").with_extremes(bad="white")
    table = ax.imshow(errors, cmap=shades, vmin=0, vmax=most)
    for i in range(count):
        ax.add_patch(_square(i))
        for j in range(count):
            if matrix[i, j] > 0:
                ax.text(j, i, f"{matrix[i, j]:.4g}", ha="center", va="center", fontsize=8.5)
    ax.set(xlabel="predicted class", ylabel="true class")
    ax.set_xticks(range(count), names)
    ax.set_yticks(range(count), names)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.figure.colorbar(table, ax=ax, shrink=0.75, label="share of the true class (%)")
    return ax


def embedding(points, labels, *, foreign=None, ax=None):
    """Inputs as points of the plane, each drawn as the number of its class.

    Parameters
    ----------
    points : array, shape (N, 2)
        Where they are.
    labels : array of int, shape (N,)
        Their classes, which are the numerals that are drawn.
    foreign : array, shape (M, 2), optional
        Inputs of no class, drawn as crosses above the others.
    ax : Axes, optional

    Returns
    -------
    Axes
        With equal scales, as distances are what one looks at.

    Raises
    ------
    ValueError
        If points are not in the plane, or there is not one label a point.
    """
    points = _as_plane(points, "points")
    labels = as_labels(labels, np.iinfo(np.int64).max, length=len(points))
    foreign = None if foreign is None else _as_plane(foreign, "foreign")
    ax = _axes(ax, (5.8, 4.6))
    for c in np.unique(labels):
        colour = _shade(PALETTE[c % len(PALETTE)], 0.82)
        ax.scatter(*points[labels == c].T, s=26, marker=f"${c}$", color=colour, lw=0.3, zorder=2)
    if foreign is not None:
        ax.scatter(*foreign.T, s=22, marker="x", color=INK, lw=1.1, zorder=3, label="of no class")
        ax.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="none", handletextpad=0.2)
    ax.set_aspect("equal", adjustable="datalim")
    return ax


# --- distributions ----------------------------------------------------------------------------------------


def class_probabilities(probs, labels=None, *, kind="box", truth=None, ax=None):
    """How the class probabilities of one input spread over the sampled models.

    Parameters
    ----------
    probs : array, shape (S, C)
        Class probabilities of ``S`` sampled models for one input.
    labels : list of str, optional
        Names of the classes; by default their numbers.
    kind : {"box", "strip", "violin"}
        Boxes (median, quartiles, whiskers to 1.5 times the quartiles' distance)
        with every sample as a dot, dots alone, or smoothed densities.
    truth : int, optional
        The true class, to be marked.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If ``probs`` is not two-dimensional or its rows are not distributions.
    """
    kind = as_choice(kind, "kind", ("box", "strip", "violin"))
    probs = _as_rows(probs, "probs", "(samples, classes)")
    samples, classes = probs.shape
    names = _as_strings(labels, "labels", classes, [str(c) for c in range(classes)])
    if truth is not None:
        truth = as_whole(truth, "truth", low=0, high=classes - 1)
    ax = _axes(ax)

    positions = np.arange(classes)
    colours = [PALETTE[1] if c == truth else PALETTE[0] for c in positions]
    if kind == "box":
        boxes = ax.boxplot(
            probs,
            positions=positions,
            widths=0.62,
            patch_artist=True,
            showfliers=False,
            manage_ticks=False,
            medianprops={"color": INK, "linewidth": 1.8},
            whiskerprops={"color": GREY},
            capprops={"color": GREY},
        )
        for box, colour in zip(boxes["boxes"], colours, strict=True):
            box.set(facecolor=colour, alpha=0.35, edgecolor=colour)
    elif kind == "violin":
        # A kernel density needs some spread: nothing to smooth for a class whose samples all agree.
        spread = [c for c in positions if np.ptp(probs[:, c]) > 1e-6]
        if spread:
            parts = ax.violinplot(probs[:, spread], positions=spread, widths=0.8, showextrema=False)
            for body, c in zip(parts["bodies"], spread, strict=True):
                body.set(facecolor=colours[c], alpha=0.45, edgecolor=colours[c])
        ax.scatter(positions, np.median(probs, axis=0), color=INK, s=20, zorder=3)
    if kind != "violin":
        # The same small steps aside in every run: dots that lie on each other hide how many they are.
        aside = 0.22 * np.sin(np.arange(samples) * 2.4) if samples > 1 else np.zeros(1)
        for c in positions:
            ax.scatter(c + aside, probs[:, c], s=9, color=colours[c], alpha=0.65, linewidths=0, zorder=3)
    ax.set(xlabel="class", ylabel="probability", ylim=(-0.03, 1.03), xlim=(-0.7, classes - 0.3))
    longest = max(len(name) for name in names)
    ax.set_xticks(positions, names, rotation=35 if longest * classes > 60 else 0)
    if longest * classes > 60:
        for tick in ax.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
    if truth is not None:
        ax.get_xticklabels()[truth].set(weight="bold", color=COLOURS["wrong"])
        ax.set_xlabel(f"class (in orange the true one, {names[truth]})")
    return ax


def histograms(columns, *, bins=30, log=False, ax=None):
    """Histograms of uncertainties, a panel for each, one or several methods overlaid.

    Parameters
    ----------
    columns : dict of arrays, decomposition, or dict of these by method
        Values by name, ``{"total": (N,), "aleatoric": (N,), "epistemic": (N,),
        "confidence": (N,)}``; what ``metrics.decompose`` returns; or, to compare
        methods, ``{"dropout": {...}, "ensemble": {...}}`` with the same names in each.
    bins : int
        Bins of each panel, the same for all methods.
    log : bool
        A logarithmic vertical axis: shows the few uncertain inputs beside the many
        certain ones.
    ax : array of Axes, optional
        One for each name; by default a new figure with two columns.

    Returns
    -------
    array of Axes

    Raises
    ------
    ValueError
        If there are no values, values are not finite, or methods have different names.
    """
    bins = as_whole(bins, "bins")
    methods = _as_methods(columns)
    names = list(next(iter(methods.values())))
    rows = -(-len(names) // 2)
    panels, axes = _panels(ax, rows, min(2, len(names)), (6.0, 2.25 * rows))
    if len(panels) < len(names):
        raise ValueError(f"ax: expected {len(names)} axes, one a panel, got {len(panels)}")

    for panel, name in zip(panels, names, strict=False):
        values = [table[name] for table in methods.values()]
        low, high = min(v.min() for v in values), max(v.max() for v in values)
        if high - low < 1e-9:  # all the same: one bin around it
            low, high = low - 0.05, high + 0.05
        edges = np.linspace(low, high, bins + 1)
        for index, (method, value) in enumerate(zip(methods, values, strict=True)):
            colour = PALETTE[index % len(PALETTE)]
            if len(methods) == 1:
                colour = COLOURS.get(name, COLOURS["total"])
            weights = np.full(len(value), 100 / len(value))
            style = {"bins": edges, "weights": weights, "label": method, "log": bool(log)}
            panel.hist(value, histtype="stepfilled", color=colour, alpha=0.3, **{**style, "label": None})
            panel.hist(value, histtype="step", color=colour, ls=_LINES[index % len(_LINES)], lw=1.7, **style)
        panel.set(xlabel=AXIS_LABELS.get(name, name), ylabel="share of inputs (%)")
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    if len(methods) > 1 and ax is None:
        handles, labels = panels[0].get_legend_handles_labels()
        panels[0].figure.legend(handles, labels, loc="outside upper center", ncols=3, handlelength=1.6)
    elif len(methods) > 1:
        panels[0].legend(loc="best", handlelength=1.6)
    return axes


# --- calibration and selection ----------------------------------------------------------------------------


def reliability_diagram(probs, labels, bins=10, *, counts=True, ax=None):
    """Accuracy against confidence, with the sign of every gap to be seen.

    A bar for each bin of the maximum probability reaches to the bin's accuracy;
    the gap to its mean confidence is orange-red with ``/`` hatching where the model is
    over-confident and blue with dots where it is under-confident. Empty bins are left out.

    Parameters
    ----------
    probs : array, shape (N, C)
        Class probabilities.
    labels : array of int, shape (N,)
        True classes.
    bins : int
        Bins of equal width, right-closed.
    counts : bool
        Whether to show below how many inputs each bin holds.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If ``probs`` are not distributions or ``labels`` do not fit.

    References
    ----------
    Guo et al. (2017), On calibration of modern neural networks, figure 1.
    """
    from matplotlib.patches import Patch, Rectangle

    curve = metrics.reliability_curve(probs, labels, bins)
    gap = metrics.calibration_gap(probs, labels)
    ax = _axes(ax, (5.0, 5.0 if counts else 4.0))

    ax.plot([0, 1], [0, 1], ls="--", lw=1.2, color=GREY, zorder=3)
    seen = set()
    for left, right, conf, acc in zip(
        curve.lower, curve.upper, curve.confidence, curve.accuracy, strict=True
    ):
        sign = "over-confident" if conf > acc else "under-confident"
        width = right - left
        ax.add_patch(Rectangle((left, 0), width, acc, facecolor="#D9DDE3", edgecolor="white", lw=1, zorder=1))
        if abs(conf - acc) > 1e-12:
            seen.add(sign)
            patch = Rectangle((left, min(acc, conf)), width, abs(conf - acc), zorder=2, **_gap_style(sign))
            ax.add_patch(patch)
        ax.plot([left, right], [acc, acc], color=INK, lw=1.8, solid_capstyle="butt", zorder=4)
    ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy", xlabel="confidence (maximum probability)")

    handles = [Patch(label=sign, **_gap_style(sign)) for sign in sorted(seen)]
    ax.legend(
        handles=handles,
        # Over-confidence leaves the half above the diagonal empty; under-confidence fills the
        # one below it with plain bars.
        loc="upper left" if gap > 0 else "lower right",
        frameon=True,
        framealpha=0.95,
        edgecolor="none",
        title=f"ECE {curve.expected_error:.3f}\nsigned gap {gap:+.3f}".replace("-", "−"),
        alignment="left",
        handlelength=1.4,
    )
    if counts:
        below = ax.inset_axes([0, -0.30, 1, 0.22], sharex=ax)
        below.bar(
            curve.lower,
            curve.count,
            width=curve.upper - curve.lower,
            align="edge",
            color="#AEB5BF",
            edgecolor="white",
        )
        below.set_yscale("log")
        below.set(ylim=(0.7, curve.count.sum() * 2), ylabel="inputs", xlabel=ax.get_xlabel())
        below.yaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
        below.minorticks_off()
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
    return ax


def risk_coverage(scores, wrong, *, ax=None):
    """The error rate of what is kept, when the most uncertain inputs are rejected.

    Parameters
    ----------
    scores : dict of arrays, shape (N,), or one array
        Scores by name, higher is more uncertain.
    wrong : array of bool, shape (N,)
        Whether the prediction was wrong; the same predictions for all scores.
    ax : Axes, optional

    Returns
    -------
    Axes
        A curve for each score, with its area (AURC) in the legend, and the curve of
        a perfect ranking. Inputs with equal scores are kept or rejected together.

    Raises
    ------
    ValueError
        If lengths differ or a score is NaN.

    References
    ----------
    Geifman, Uziel and El-Yaniv (2019), Bias-reduced uncertainty estimation for deep
    neural classifiers.
    """
    ax = _selective(scores, wrong, ax, as_accuracy=False)
    ax.set(ylabel="error rate of those kept (%)")
    ax.set_ylim(bottom=0)
    return ax


def accuracy_coverage(scores, wrong, *, target=None, ax=None):
    """The accuracy of what is kept, when the most uncertain inputs are rejected.

    Parameters
    ----------
    scores : dict of arrays, shape (N,), or one array
        Scores by name, higher is more uncertain.
    wrong : array of bool, shape (N,)
        Whether the prediction was wrong; the same predictions for all scores.
    target : float, optional
        An accuracy in [0, 1] to be marked by a line.
    ax : Axes, optional

    Returns
    -------
    Axes
        A curve for each score, and the curve of a perfect ranking.

    Raises
    ------
    ValueError
        If lengths differ, a score is NaN, or ``target`` is no accuracy.
    """
    if target is not None:
        target = as_number(target, "target", 0, 1)
    ax = _selective(scores, wrong, ax, as_accuracy=True)
    ax.set(ylabel="accuracy of those kept (%)")
    if target is not None:
        ax.axhline(100 * target, color=GREY, lw=1, ls=":")
        ax.annotate(
            f"{100 * target:g} %",
            (1.01, 100 * target),
            xycoords=("axes fraction", "data"),
            va="center",
            color=GREY,
            fontsize=9,
        )
    return ax


def _selective(scores, wrong, ax, as_accuracy):
    wrong = as_flags(wrong, "wrong")
    if not isinstance(scores, Mapping):
        scores = {"score": scores}
    if not scores:
        raise ValueError("scores: expected at least one score, got none")
    curves = {}
    for name, score in scores.items():
        try:
            area = metrics.aurc(score, wrong)
            curves[name if as_accuracy else f"{name} (AURC {area:.4f})"] = metrics.risk_coverage(score, wrong)
        except ValueError as error:
            raise ValueError(f"scores[{name!r}]: {error}") from error
    # All that is right first, as one group, then one error after the other.
    ideal = metrics.risk_coverage(np.cumsum(wrong) * wrong, wrong)
    ax = _axes(ax)

    def draw(curve, **style):
        # More points than pixels would only make the file large.
        few = np.unique(np.linspace(0, len(curve.risk) - 1, 1500).astype(int))
        height = 1 - curve.risk[few] if as_accuracy else curve.risk[few]
        ax.plot(100 * curve.coverage[few], 100 * height, **style)

    start = 0.0 if wrong.all() else 1 - wrong.mean()
    ax.plot([0, 100 * start], [100 if as_accuracy else 0] * 2, color=GREY, lw=1.2, ls=(0, (1, 1.5)))
    draw(ideal, color=GREY, lw=1.2, ls=(0, (1, 1.5)), label="perfect ranking")
    for index, (name, curve) in enumerate(curves.items()):
        draw(curve, color=PALETTE[index % len(PALETTE)], ls=_LINES[index % len(_LINES)], label=name)
    ax.set(xlabel="coverage: inputs kept (%)", xlim=(0, 100))
    _legend_below(ax, 2)
    return ax


# --- regression, maps, simplex ----------------------------------------------------------------------------


def predictive_band(
    x, mean, epistemic=None, aleatoric=None, *, total=None, data=None, truth=None, widths=(1, 2), ax=None
):
    """A predicted curve within bands of one and two standard deviations.

    Parameters
    ----------
    x : array, shape (N,)
        Where the predictions are; in any order.
    mean : array, shape (N,)
        The predictive mean.
    epistemic, aleatoric : array, shape (N,), or float, optional
        Standard deviations. With both, there is one band of each, as wide as the
        largest of ``widths``: the inner is epistemic, the outer adds the noise
        (variances sum up).
    total : array, shape (N,), or float, optional
        Instead of the two, the standard deviation of the prediction as a whole.
    data : (x, y), optional
        Training points to be drawn over the bands.
    truth : array, shape (N,), or callable, optional
        The true curve, as values or as a function of ``x``.
    widths : tuple of float
        Half widths of the bands in standard deviations.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If lengths differ, a standard deviation is negative, or none is given.
    """
    x = _as_column(x, "x")
    mean = _as_column(mean, "mean", len(x))
    parts = {"epistemic": epistemic, "aleatoric": aleatoric, "total": total}
    parts = {name: _as_std(std, name, len(x)) for name, std in parts.items() if std is not None}
    if not parts:
        raise ValueError("epistemic: expected a standard deviation (epistemic, aleatoric or total), got none")
    if "total" in parts and len(parts) > 1:
        raise ValueError("total: expected either total or its parts, got both")
    widths = sorted(as_real(widths, "widths", ndim=1), reverse=True)
    if widths[-1] <= 0:
        raise ValueError(f"widths: expected positive numbers, got {widths[-1]:g}")

    bands = dict(parts)
    if len(parts) == 2:
        widths = widths[:1]  # bands of two kinds and two widths would cover each other
        bands = {
            "plus aleatoric": np.hypot(parts["epistemic"], parts["aleatoric"]),
            "epistemic": parts["epistemic"],
        }
    ax = _axes(ax)
    order = np.argsort(x, kind="stable")
    span = " and ".join(f"{width:g}" for width in reversed(widths))
    for name, std in bands.items():
        colour = COLOURS["aleatoric" if name == "plus aleatoric" else name]
        for depth, width in enumerate(widths):
            ax.fill_between(
                x[order],
                (mean - width * std)[order],
                (mean + width * std)[order],
                color=_tint(colour, 0.36 if len(widths) == 1 else 0.22 + 0.25 * depth / (len(widths) - 1)),
                lw=0,
                label=f"{name}, ±{span} std" if depth == len(widths) - 1 else None,
            )
    if truth is not None:
        curve = _as_column(truth(x) if callable(truth) else truth, "truth", len(x))
        ax.plot(x[order], curve[order], color=INK, lw=1.3, ls="--", label="truth")
    ax.plot(x[order], mean[order], color=INK, lw=1.9, label="mean")
    if data is not None:
        try:
            data_x, data_y = data
        except (TypeError, ValueError) as error:
            raise ValueError("data: expected a pair (x, y)") from error
        data_x = _as_column(data_x, "data")
        data_y = _as_column(data_y, "data", len(data_x))
        ax.scatter(data_x, data_y, s=16, color=INK, edgecolor="white", lw=0.5, zorder=4, label="data")
    ax.set(xlabel="x", ylabel="y", xlim=(x.min(), x.max()))
    _legend_below(ax, 3)
    return ax


def decision_map(
    predict,
    X=None,
    y=None,
    *,
    what="probability",
    label=None,
    bounds=None,
    resolution=120,
    vmax=None,
    colorbar=True,
    ax=None,
):
    """A map of decisions or of uncertainty over a two-dimensional input.

    Parameters
    ----------
    predict : callable or (x values, y values, grid)
        A function from inputs ``(M, 2)``, float32, to class probabilities ``(M, C)``,
        to those of sampled models ``(S, M, C)``, or to any value ``(M,)``. Or what
        is to be drawn: coordinates ``(W,)`` and ``(H,)`` and a grid ``(H, W)``.
    X : array, shape (N, 2), optional
        Points to be drawn over the map; they also set its bounds.
    y : array of int, shape (N,), optional
        Their classes.
    what : {"probability", "class", "confidence", "total", "aleatoric", "epistemic", "value"}
        ``"probability"`` is that of class 1 of two; ``"entropy"`` is another word for
        ``"total"``; ``"aleatoric"`` and ``"epistemic"`` need sampled models;
        ``"value"`` draws what ``predict`` returns.
    label : str, optional
        The colour bar's label, with units.
    bounds : (left, right, bottom, top), optional
        By default those of ``X`` and a third more on each side.
    resolution : int
        Points along each side.
    vmax : float, optional
        Where the colours of an uncertainty end; give maps to be compared the same.
    colorbar : bool
        Whether to draw the colour bar.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If shapes do not fit, or ``what`` cannot be had from what ``predict`` returns.
    """
    what = "total" if what == "entropy" else what
    what = as_choice(
        what, "what", ("probability", "class", "confidence", "total", "aleatoric", "epistemic", "value")
    )
    if vmax is not None:
        vmax = as_number(vmax, "vmax", low=0, open_low=True)
    if X is not None:
        X = as_real(X, "X", ndim=2)
        if X.shape[1] != 2:
            raise ValueError(f"X: expected points in two dimensions, shape (N, 2), got {X.shape}")
    if y is not None:
        if X is None:
            raise ValueError("y: expected points X to go with the classes")
        y = as_labels(y, 10, "y", length=len(X))
    if callable(predict):
        columns, rows, grid, classes = _evaluate(predict, X, what, bounds, resolution)
    else:
        columns, rows, grid = _as_grid(predict)
        classes = int(grid.max()) + 1 if what == "class" else 2
    ax = _axes(ax, (5.2, 3.9))

    colours, low, high = _map_colours(what, grid, classes, vmax)
    mesh = ax.pcolormesh(
        columns, rows, grid, cmap=colours, vmin=low, vmax=high, shading="nearest", rasterized=True
    )
    if what == "probability" and grid.min() < 0.5 < grid.max():
        ax.contour(columns, rows, grid, levels=[0.5], colors=[INK], linewidths=1.3)
    if X is not None:
        _scatter_classes(ax, X, y)
    ax.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(columns[0], columns[-1]), ylim=(rows[0], rows[-1]))
    if colorbar:
        default = {"probability": "probability of class 1", "class": "predicted class", "value": "value"}
        label = label or default.get(what) or AXIS_LABELS[what]
        ticks = np.arange(classes) if what == "class" else None
        bar = ax.figure.colorbar(mesh, ax=ax, label=label, ticks=ticks, pad=0.02, aspect=25)
        bar.outline.set_visible(False)
    return ax


def simplex(
    points,
    ax=None,
    *,
    labels=None,
    values=None,
    value_label="value",
    contours=True,
    mean=False,
    colorbar=True,
):
    """Predictions for three classes as points in a triangle, over contours of entropy.

    Parameters
    ----------
    points : array, shape (N, 3)
        Class probabilities: each corner is certainty of one class.
    ax : Axes, optional
    labels : list of str, optional
        Names of the three classes.
    values : array, shape (N,), optional
        Values that colour the points.
    value_label : str
        What the values are, with units.
    contours : bool
        Whether to draw lines of equal entropy.
    mean : bool
        Whether to mark the mean of the points, the prediction of the average model.
    colorbar : bool
        Whether to draw the colour bar of the entropy.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If ``points`` are not distributions over three classes.
    """
    points = _as_rows(points, "points", "(N, 3)")
    if points.shape[1] != 3:
        raise ValueError(f"points: expected three classes, shape (N, 3), got {points.shape}")
    names = _as_strings(labels, "labels", 3, [f"class {c}" for c in range(3)])
    if values is not None:
        values = _as_column(values, "values", len(points))
    ax = _axes(ax, (5.0, 4.2))

    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    outline = np.vstack([corners, corners[:1]])
    if contours:
        side = np.linspace(0, 1, 121)
        a, b = np.meshgrid(side, side)
        inside = a + b <= 1 + 1e-9
        grid = np.stack([1 - a[inside] - b[inside], a[inside], b[inside]], axis=-1).clip(0, 1)
        place, entropy = grid @ corners, metrics.predictive_entropy(grid)
        levels = [0, 0.2, 0.4, 0.6, 0.8, 1.0, np.log(3)]
        shades = ax.tricontourf(*place.T, entropy, levels=levels, cmap=_sequential("total", strength=0.45))
        if colorbar:
            bar = ax.figure.colorbar(
                shades, ax=ax, label=AXIS_LABELS["entropy"], shrink=0.75, pad=0.02, aspect=22
            )
            bar.set_ticks(levels, labels=["0", ".2", ".4", ".6", ".8", "1", "log 3"])
            bar.outline.set_visible(False)
    ax.plot(*outline.T, color=INK, lw=1.3, zorder=2)
    place = points @ corners
    if values is None:
        ax.scatter(*place.T, s=26, color=PALETTE[0], edgecolor="white", lw=0.6, zorder=3, clip_on=False)
    else:
        dots = ax.scatter(*place.T, s=26, c=values, cmap="viridis", edgecolor="white", lw=0.6, zorder=3)
        ax.figure.colorbar(dots, ax=ax, label=value_label, shrink=0.75, pad=0.02, aspect=22)
    if mean:
        middle = points.mean(axis=0) @ corners
        ax.scatter(*middle, s=150, marker="*", color=PALETTE[1], edgecolor=INK, lw=0.8, zorder=4)
        halo = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
        ax.annotate("mean", middle, (8, 7), textcoords="offset points", zorder=5, bbox=halo)
    for (cx, cy), name in zip(corners, names, strict=True):
        top = cy > 0
        ax.annotate(
            name,
            (cx, cy),
            (0, 6 if top else -6),
            textcoords="offset points",
            ha="center",
            va="bottom" if top else "top",
        )
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


# --- what the plots share ---------------------------------------------------------------------------------


def _axes(ax, size=None):
    """The Axes that was handed in, or one in a new figure."""
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise ValueError(f"ax: expected a matplotlib Axes, got {type(ax).__name__}")
    return ax


def _panels(ax, rows, columns, size):
    """A flat array of Axes to draw on, and what is handed back."""
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[1]
        return axes.ravel(), axes
    panels = np.ravel(np.array(ax, dtype=object))
    if not all(isinstance(panel, Axes) for panel in panels):
        raise ValueError(f"ax: expected an array of matplotlib Axes, got {type(ax).__name__}")
    return panels, ax


def _legend_below(ax, columns):
    """A legend below the horizontal axis, where it covers nothing, however large the Axes are."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4.2, ncols=columns, handlelength=1.8)


def _as_text(text, name):
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name}: expected some text, got {text!r}")
    return text


def _as_images(images):
    """Images as (N, H, W) or (N, H, W, 3)."""
    images = as_real(images, "images")
    if images.ndim == 4 and images.shape[1] == 1:
        return images[:, 0]
    if images.ndim == 4 and images.shape[1] == 3:
        return np.moveaxis(images, 1, -1)
    if images.ndim == 3 or (images.ndim == 4 and images.shape[-1] == 3):
        return images
    raise ValueError(f"images: expected shape (N, H, W), (N, 1, H, W) or (N, 3, H, W), got {images.shape}")


def _as_column(values, name, length=None):
    """One finite number an input; a trailing axis of one is dropped."""
    array = to_numpy(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    array = as_real(array, name, ndim=1)
    if length is not None and len(array) != length:
        raise ValueError(f"{name}: expected {length} values, one an input, got {len(array)}")
    return array


def _as_std(std, name, length):
    array = to_numpy(std, name)
    array = np.full(length, array, dtype=np.float64) if array.ndim == 0 else array
    array = _as_column(array, name, length)
    if array.min() < 0:
        raise ValueError(f"{name}: expected standard deviations of at least 0, got {array.min():.4g}")
    return array


def _as_rows(probs, name, shape):
    """Rows that are distributions, whatever the first axis stands for."""
    if to_numpy(probs, name).ndim != 2:
        raise ValueError(f"{name}: expected shape {shape}, got {to_numpy(probs, name).shape}")
    return as_distributions(probs, axes="NC", name=name)


def _as_plane(points, name):
    """Finite points of the plane."""
    points = as_real(points, name, ndim=2)
    if points.shape[1] != 2:
        raise ValueError(f"{name}: expected points of the plane, shape (N, 2), got {points.shape}")
    return points


def _square(i):
    """A grey square behind the i-th right count of a confusion matrix."""
    from matplotlib.patches import Rectangle

    return Rectangle((i - 0.5, i - 0.5), 1, 1, facecolor="#E3E6EA", edgecolor="none", zorder=1)


def _as_strings(values, name, count, default):
    """As many strings as ``count``, or the default."""
    if values is None:
        return default
    try:
        strings = [str(value) for value in values]
    except TypeError as error:
        raise ValueError(f"{name}: expected a list of {count}, got {values!r}") from error
    if len(strings) != count:
        raise ValueError(f"{name}: expected {count} of them, got {len(strings)}")
    return strings


def _as_methods(columns):
    """{method: {name: values}} from one table, a decomposition, or several by method."""

    def table(value):
        if isinstance(value, Mapping):
            return dict(value)
        if hasattr(value, "_asdict"):
            return value._asdict()
        if all(hasattr(value, name) for name in ("total", "aleatoric", "epistemic")):
            names = ("total", "aleatoric", "epistemic", "confidence")
            return {name: getattr(value, name) for name in names if hasattr(value, name)}
        return None

    outer = table(columns)
    if not outer:
        raise ValueError(f"columns: expected values by name or a decomposition, got {type(columns).__name__}")
    inner = {str(method): table(value) for method, value in outer.items()}
    if all(value is None for value in inner.values()):
        inner = {"": outer}
    elif any(value is None for value in inner.values()):
        raise ValueError("columns: expected arrays by name, or tables by method, got a mixture")
    first = list(next(iter(inner.values())))
    for method, values in inner.items():
        if list(values) != first or not first:
            raise ValueError(
                f"columns: expected the names {first} for every method, {method} has {list(values)}"
            )
    return {
        method: {name: _as_column(column, f"columns[{name!r}]") for name, column in values.items()}
        for method, values in inner.items()
    }


def _as_grid(values):
    try:
        columns, rows, grid = values
    except (TypeError, ValueError) as error:
        raise ValueError("predict: expected a function, or x values, y values and a grid") from error
    columns, rows = _as_column(columns, "predict"), _as_column(rows, "predict")
    grid = as_real(grid, "predict", ndim=2)
    if grid.shape != (len(rows), len(columns)):
        raise ValueError(f"predict: expected a grid of shape {(len(rows), len(columns))}, got {grid.shape}")
    return columns, rows, grid


def _evaluate(predict, X, what, bounds, resolution):
    """The quantity ``what`` on a grid over ``bounds``."""
    resolution = as_whole(resolution, "resolution", low=2)
    if bounds is None:
        if X is None:
            raise ValueError(
                "bounds: expected (left, right, bottom, top), as there are no points X to set them"
            )
        low, high = X.min(axis=0), X.max(axis=0)
        margin = np.where(high > low, (high - low) / 3, 1.0)
        bounds = low[0] - margin[0], high[0] + margin[0], low[1] - margin[1], high[1] + margin[1]
    bounds = as_real(bounds, "bounds", ndim=1)
    if len(bounds) != 4 or bounds[0] >= bounds[1] or bounds[2] >= bounds[3]:
        raise ValueError(f"bounds: expected (left, right, bottom, top) in this order, got {bounds.tolist()}")
    columns = np.linspace(bounds[0], bounds[1], resolution)
    rows = np.linspace(bounds[2], bounds[3], resolution)
    inputs = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2).astype(np.float32)
    output = to_numpy(predict(inputs), "predict")
    if output.ndim not in (1, 2, 3) or output.shape[max(output.ndim - 2, 0)] != len(inputs):
        raise ValueError(
            f"predict: expected (M, C), (S, M, C) or (M,) for M = {len(inputs)}, got {output.shape}"
        )
    if output.ndim == 1 or what == "value":
        grid, classes = _as_column(output, "predict", len(inputs)), 2
        if what == "class":
            classes = int(grid.max()) + 1
    else:
        samples = as_distributions(output, axes="SNC"[-output.ndim :], name="predict")
        grid, classes = _quantity(samples, what), samples.shape[-1]
    return columns, rows, grid.reshape(resolution, resolution), classes


def _quantity(probs, what):
    if what in ("aleatoric", "epistemic") and probs.ndim == 2:
        raise ValueError(
            f"what: expected predictions (S, M, C) of sampled models for {what!r}, got {probs.shape}"
        )
    if what in ("aleatoric", "epistemic"):
        return getattr(metrics.decompose(probs), what)
    if what == "total":
        return metrics.predictive_entropy(probs)
    if what == "confidence":
        return metrics.max_probability(probs)
    average = probs.mean(axis=0) if probs.ndim == 3 else probs
    if what == "class":
        return average.argmax(axis=1).astype(float)
    if average.shape[1] != 2:
        raise ValueError(
            f"what: 'probability' is for two classes, got {average.shape[1]}: try 'class' or 'confidence'"
        )
    return average[:, 1]


def _map_colours(what, grid, classes, vmax):
    """Colour map and its ends."""
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    if what == "probability":
        ends = [_tint(PALETTE[0], 0.75), "#FAFAFA", _tint(PALETTE[1], 0.85)]
        return LinearSegmentedColormap.from_list("classes", ends), 0.0, 1.0
    if what == "class":
        shades = [_tint(PALETTE[c % len(PALETTE)], 0.4) for c in range(classes)]
        return ListedColormap(shades), -0.5, classes - 0.5
    if what == "confidence":
        return _sequential("total").reversed(), min(grid.min(), 1 / classes), 1.0
    low = 0.0 if what != "value" or grid.min() >= 0 else grid.min()
    high = vmax if vmax is not None else max(grid.max(), low + 1e-9)
    return _sequential("total" if what == "value" else what), low, high


def _sequential(name, strength=1.0):
    """From white to the colour that the quantity has in every figure."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(name, ["#FFFFFF", _tint(COLOURS[name], strength)])


def _tint(colour, strength):
    """A colour mixed with white; opaque, so that what lies below does not shine through."""
    from matplotlib.colors import to_hex, to_rgb

    return to_hex(1 - strength * (1 - np.array(to_rgb(colour))))


def _shade(colour, strength):
    """A colour mixed with black: thin strokes in the light colours of the palette are hard to see."""
    from matplotlib.colors import to_hex, to_rgb

    return to_hex(strength * np.array(to_rgb(colour)))


def _gap_style(sign):
    colour = COLOURS[sign]
    hatch = "///" if sign == "over-confident" else "..."
    return {"facecolor": _tint(colour, 0.35), "edgecolor": colour, "hatch": hatch, "linewidth": 0.8}


def _scatter_classes(ax, X, y):
    if y is None:
        ax.scatter(*X.T, s=18, color=INK, edgecolor="white", lw=0.6, zorder=3)
        return
    for c in np.unique(y):
        colour = _tint(PALETTE[c % len(PALETTE)], 1.0)
        marker = _MARKERS[c % len(_MARKERS)]
        ax.scatter(
            *X[y == c].T, s=20, color=colour, marker=marker, edgecolor="white", lw=0.6, label=f"class {c}"
        )
