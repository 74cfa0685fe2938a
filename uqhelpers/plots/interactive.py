"""Plotly figures that work on a static page, in Jupyter and in Colab."""

import sys
from collections.abc import Mapping

import numpy as np

from uqhelpers._checks import as_whole
from uqhelpers.plots.style import INK, PALETTE
from uqhelpers.plots.words import as_text


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

        self.alt = as_text(alt, "alt")
        self.caption = None if caption is None else as_text(caption, "caption")
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
    layout : keyword arguments
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
