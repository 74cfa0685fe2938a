"""Plots are judged by what they draw: labels, units, heights, colours, and what they leave alone."""

import json
import os
import re
import subprocess
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import plotly.graph_objects as go
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from uqhelpers import metrics, plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def sampled(rng):
    return rng.dirichlet(np.ones(10), size=(7, 60))


@pytest.fixture
def displayed(monkeypatch):
    """What the code under test displays."""
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    return shown


def two_samples(inputs):
    """Two sampled models of two classes that disagree far to the right."""
    right = 1 / (1 + np.exp(-inputs[:, 0]))
    return np.stack([np.stack([1 - p, p], axis=-1) for p in (right, right[::-1])])


def every_plot(sampled, rng):
    """Each static plot drawn once: (name, what it returns)."""
    probs = sampled.mean(axis=0)
    labels = rng.integers(0, 10, 60)
    wrong = probs.argmax(axis=1) != labels
    score = metrics.predictive_entropy(sampled)
    images = rng.random((60, 1, 8, 8))
    x = np.linspace(-1, 1, 30)
    yield "image_grid", lambda **ax: plots.image_grid(images[:1], **ax)
    yield "class_probabilities", lambda **ax: plots.class_probabilities(sampled[:, 0], **ax)
    yield "histograms", lambda **ax: plots.histograms({"total": score}, **ax)
    yield "reliability_diagram", lambda **ax: plots.reliability_diagram(probs, labels, **ax)
    yield "risk_coverage", lambda **ax: plots.risk_coverage({"entropy": score}, wrong, **ax)
    yield "accuracy_coverage", lambda **ax: plots.accuracy_coverage(score, wrong, target=0.5, **ax)
    yield "precision_recall", lambda **ax: plots.precision_recall({"entropy": [score, -score]}, wrong, **ax)
    yield "roc", lambda **ax: plots.roc(score, wrong, **ax)
    yield "predictive_band", lambda **ax: plots.predictive_band(x, x**2, 0.1, 0.2, **ax)
    points, classes = rng.normal(size=(9, 2)), np.arange(9) % 2
    yield "decision_map", lambda **ax: plots.decision_map(two_samples, points, classes, resolution=9, **ax)
    yield "simplex", lambda **ax: plots.simplex(rng.dirichlet(np.ones(3), 5), mean=True, **ax)
    yield "confusion", lambda **ax: plots.confusion(rng.integers(0, 9, (4, 4)), **ax)
    yield "embedding", lambda **ax: plots.embedding(points, classes, foreign=points[:2], **ax)


# --- all of them ------------------------------------------------------------------------------------------


def test_every_plot_draws_on_the_axes_it_is_given_and_returns_them(sampled, rng):
    for name, draw in every_plot(sampled, rng):
        ax = plt.figure().add_subplot()
        given = plt.get_fignums()
        assert draw(ax=ax) is ax, name
        assert ax.has_data(), name
        assert plt.get_fignums() == given, f"{name} opened another figure"


def test_every_plot_makes_axes_of_its_own_when_given_none(sampled, rng):
    for name, draw in every_plot(sampled, rng):
        axes = np.ravel(np.array(draw(), dtype=object))
        assert all(isinstance(ax, Axes) for ax in axes), name
        axes[0].figure.canvas.draw()  # lays out without a warning


def test_no_plot_shows_a_figure_changes_settings_or_draws_random_numbers(sampled, rng, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("plt.show was called"))
    before, state = dict(matplotlib.rcParams), np.random.get_state()[1].copy()  # noqa: NPY002
    for _, draw in every_plot(sampled, rng):
        draw()
    assert dict(matplotlib.rcParams) == before
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_something_that_is_no_axes_is_refused(sampled, rng):
    for _, draw in every_plot(sampled, rng):
        with pytest.raises(ValueError, match="ax: expected"):
            draw(ax="axes")


def test_importing_plots_is_light():
    heavy = ("torch", "jax", "matplotlib", "seaborn", "plotly", "pandas", "sklearn")
    code = f"import sys, uqhelpers.plots; print([m for m in {heavy} if m in sys.modules])"
    root = os.path.dirname(os.path.dirname(plots.__file__))
    env = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "[]"


# --- style ------------------------------------------------------------------------------------------------


def test_the_palette_is_seaborns_for_the_colour_blind():
    import seaborn as sns

    assert [to_hex(c) for c in sns.color_palette("colorblind")] == [c.lower() for c in plots.PALETTE]


def test_the_style_is_white_without_upper_and_right_spine():
    with matplotlib.rc_context():
        plots.use_style()
        ax = plt.figure().add_subplot()
        assert not ax.spines["top"].get_visible()
        assert not ax.spines["right"].get_visible()
        assert to_hex(ax.figure.get_facecolor()) == "#ffffff"
        assert [to_hex(c) for c in plt.rcParams["axes.prop_cycle"].by_key()["color"]] == [
            c.lower() for c in plots.PALETTE
        ]
        assert plt.rcParams["figure.constrained_layout.use"]


def test_text_is_as_dark_as_accessibility_asks():
    def luminance(colour):
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    for colour in (plots.INK, plots.GREY, plots.COLOURS["wrong"]):
        assert 1.05 / (luminance(colour) + 0.05) >= 4.5


# --- images -----------------------------------------------------------------------------------------------


def test_a_grid_shows_each_image_under_its_title(rng):
    images = rng.random((7, 1, 8, 8))
    axes = plots.image_grid(images, titles="abcdefg", columns=4)
    assert axes.shape == (2, 4)
    assert [ax.get_title() for ax in axes.flat] == [*"abcdefg", ""]
    assert np.array_equal(axes[1, 2].images[0].get_array(), images[6, 0])
    assert not axes[1, 3].axison


def test_pixels_in_0_to_1_are_drawn_on_that_scale():
    assert plots.image_grid(np.full((1, 4, 4), 0.5))[0, 0].images[0].get_clim() == (0, 1)


@pytest.mark.parametrize(
    ("side", "smooth", "way"),
    [(8, None, "bicubic"), (28, None, "nearest"), (8, False, "nearest"), (28, True, "bicubic")],
)
def test_small_images_are_enlarged_smoothly(side, smooth, way):
    panel = plots.image_grid(np.zeros((1, side, side)), smooth=smooth)[0, 0]
    assert panel.images[0].get_interpolation() == way


def test_smooth_is_a_yes_or_a_no():
    with pytest.raises(ValueError, match="smooth"):
        plots.image_grid(np.zeros((1, 8, 8)), smooth="very")


def test_colour_images_keep_their_channels(rng):
    images = rng.random((2, 3, 4, 5))
    shown = plots.image_grid(images)[0, 1].images[0].get_array()
    assert np.array_equal(shown, np.moveaxis(images[1], 0, -1))


def test_the_most_certain_come_first_and_wrong_ones_are_framed():
    images = np.arange(6)[:, None, None] * np.ones((6, 2, 2)) / 6
    score = np.array([0.5, 0.1, 0.9, 0.3, 0.7, 0.2])
    predictions, labels = np.array([0, 1, 2, 3, 4, 5]), np.array([0, 1, 7, 3, 4, 5])
    axes = plots.most_and_least(images, score, predictions, labels, k=2)
    assert axes.shape == (2, 2)
    shown = [round(ax.images[0].get_array()[0, 0] * 6) for ax in axes.flat]
    assert shown == [1, 5, 2, 4]
    assert axes[1, 0].get_title() == "predicts 2\ntruth 7\n0.900 nats"
    assert axes[0, 0].get_ylabel() == "most certain"
    assert axes[1, 0].get_ylabel() == "least certain"
    weights = [ax.title.get_fontweight() for ax in axes.flat]
    assert weights == ["normal", "normal", "bold", "normal"]  # told by more than a colour


def test_class_names_stand_for_numbers():
    axes = plots.most_and_least(np.zeros((2, 2, 2)), [0, 1], [0, 1], [1, 1], k=1, classes=["cat", "dog"])
    assert axes[0, 0].get_title().startswith("predicts cat\ntruth dog")


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"images": np.zeros((4, 2))}, "images"),
        ({"images": np.full((4, 2, 2), np.nan)}, "images"),
        ({"score": [1.0, 2.0]}, "score"),
        ({"score": [np.nan, 0, 0, 0]}, "score"),
        ({"predictions": [0, 1, 2, -1]}, "predictions"),
        ({"labels": [0, 1, 2]}, "labels"),
        ({"classes": ["only", "two"]}, "predictions"),
        ({"k": 5}, "k"),
        ({"k": 0}, "k"),
        ({"ax": []}, "ax"),
    ],
)
def test_bad_input_to_most_and_least_is_named(change, argument):
    good = {
        "images": np.zeros((4, 2, 2)),
        "score": np.arange(4.0),
        "predictions": np.arange(4),
        "labels": np.arange(4),
        "k": 2,
    }
    with pytest.raises(ValueError, match=f"^{argument}:"):
        plots.most_and_least(**{**good, **change})


@pytest.mark.parametrize("titles", [["one"], 5])
def test_titles_must_match_the_images(titles):
    with pytest.raises(ValueError, match="titles: expected"):
        plots.image_grid(np.zeros((2, 3, 3)), titles)


# --- distributions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["box", "strip", "violin"])
def test_the_spread_of_one_image_has_a_place_for_each_class(sampled, kind):
    ax = plots.class_probabilities(sampled[:, 3], kind=kind, truth=4)
    assert [t.get_text() for t in ax.get_xticklabels()] == [str(c) for c in range(10)]
    assert ax.get_ylabel() == "probability"
    assert "true one, 4" in ax.get_xlabel()


def test_every_pass_is_a_dot_at_its_probability(sampled):
    ax = plots.class_probabilities(sampled[:, 3], kind="strip")
    heights = np.array([dots.get_offsets()[:, 1] for dots in ax.collections])
    assert np.allclose(heights.T, sampled[:, 3])


def test_passes_that_all_agree_can_be_drawn():
    for kind in ("box", "strip", "violin"):
        plots.class_probabilities(np.tile([0.0, 1.0, 0.0], (4, 1)), kind=kind).figure.canvas.draw()


def test_probabilities_of_many_images_are_refused(sampled):
    with pytest.raises(ValueError, match=r"probs: expected shape \(samples, classes\)"):
        plots.class_probabilities(sampled)
    with pytest.raises(ValueError, match="labels: expected 10"):
        plots.class_probabilities(sampled[:, 0], labels=["a", "b"])
    with pytest.raises(ValueError, match="kind:"):
        plots.class_probabilities(sampled[:, 0], kind="pie")
    with pytest.raises(ValueError, match="truth:"):
        plots.class_probabilities(sampled[:, 0], truth=10)


def test_a_decomposition_has_four_panels_with_units(sampled):
    axes = plots.histograms(metrics.decompose(sampled))
    labels = [ax.get_xlabel() for ax in axes.flat]
    assert labels == [
        "total uncertainty (nats)",
        "aleatoric uncertainty (nats)",
        "epistemic uncertainty (nats)",
        "confidence (probability)",
    ]
    assert all(ax.get_ylabel() == "share of inputs (%)" for ax in axes.flat)


def test_each_histogram_sums_to_100_percent(rng):
    ax = np.ravel(plots.histograms({"total": rng.random(37)}, bins=7, ax=plt.figure().add_subplot()))[0]
    corners = ax.patches[0].get_xy()
    edges, heights = np.unique(corners[:, 0]), corners[1 : 2 * 7 : 2, 1]
    assert len(edges) == 8
    assert heights.sum() == pytest.approx(100)


def test_methods_are_overlaid_in_the_same_bins_and_named_in_a_legend(sampled):
    first, second = metrics.decompose(sampled), metrics.decompose(sampled[:2])
    axes = plots.histograms({"many": first, "few": second})
    spans = [np.ptp(patch.get_xy()[:, 0]) for patch in axes[0, 0].patches]
    assert np.ptp(spans) < 1e-12
    assert [t.get_text() for t in axes[0, 0].figure.legends[0].get_texts()] == ["many", "few"]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        None,
        5,
        {"a": []},
        {"a": [np.nan]},
        {"a": {"x": [1]}, "b": {"y": [1]}},
        {"a": {"x": [1]}, "b": [1]},
        {"a": {}},
    ],
)
def test_columns_that_cannot_be_drawn_are_named(columns):
    with pytest.raises(ValueError, match=r"^columns"):
        plots.histograms(columns)


def test_values_that_are_all_equal_can_be_drawn():
    plots.histograms({"epistemic": np.zeros(5)})


# --- calibration and selection ----------------------------------------------------------------------------


def gaps(ax):
    """The hatched rectangles: (left, bottom, height, colour)."""
    found = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_hatch()]
    return [(p.get_x(), p.get_y(), p.get_height(), p.get_hatch()) for p in found]


def test_gaps_reach_from_accuracy_to_confidence_and_tell_their_sign():
    # Confidence .95 and one of four right; confidence .55 and all right.
    probs = np.array([[0.95, 0.05]] * 4 + [[0.55, 0.45]] * 2)
    ax = plots.reliability_diagram(probs, np.array([0, 1, 1, 1, 0, 0]))
    under, over = sorted(gaps(ax))
    assert under[:3] == pytest.approx((0.5, 0.55, 0.45))
    assert over[:3] == pytest.approx((0.9, 0.25, 0.70))
    assert under[3] != over[3]  # told apart without colour
    legend = ax.get_legend()
    assert [t.get_text() for t in legend.get_texts()] == ["over-confident", "under-confident"]
    assert legend.get_title().get_text() == "ECE 0.617\nsigned gap +0.317"


def test_the_figures_in_the_diagram_are_those_of_the_metrics(sampled, rng):
    probs, labels = sampled.mean(axis=0), rng.integers(0, 10, 60)
    title = plots.reliability_diagram(probs, labels).get_legend().get_title().get_text()
    ece, gap = (float(n.replace("−", "-")) for n in re.findall(r"[+−]?\d+\.\d+", title))
    assert ece == pytest.approx(metrics.expected_calibration_error(probs, labels), abs=5e-4)
    assert gap == pytest.approx(metrics.calibration_gap(probs, labels), abs=5e-4)


def test_empty_bins_are_left_out():
    probs = np.array([[0.95, 0.05]] * 4)
    ax = plots.reliability_diagram(probs, np.zeros(4, int), counts=False)
    bars = [p for p in ax.patches if isinstance(p, Rectangle) and not p.get_hatch()]
    assert [round(bar.get_x(), 9) for bar in bars] == [0.9]
    assert not ax.child_axes
    assert ax.get_xlabel() == "confidence (maximum probability)"


def test_counts_stand_below():
    probs = np.array([[0.95, 0.05]] * 4 + [[0.55, 0.45]])
    (below,) = plots.reliability_diagram(probs, np.zeros(5, int)).child_axes
    assert [bar.get_height() for bar in below.patches] == [1, 4]
    assert below.get_ylabel() == "inputs"
    assert below.get_xlabel() == "confidence (maximum probability)"


def test_a_calibration_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="are these logits"):
        plots.reliability_diagram(np.array([[2.0, -1.0]]), [0])
    with pytest.raises(ValueError, match=r"^labels"):
        plots.reliability_diagram(np.array([[0.5, 0.5]]), [2])
    with pytest.raises(ValueError, match=r"^bins"):
        plots.reliability_diagram(np.array([[0.5, 0.5]]), [1], bins=0)


def curve(ax, label):
    (line,) = [line for line in ax.lines if line.get_label().startswith(label)]
    return line.get_xdata(), line.get_ydata()


def test_risk_and_accuracy_are_those_of_what_is_kept():
    score, wrong = [0.1, 0.2, 0.3, 0.4], [False, True, False, True]
    coverage, risk = curve(plots.risk_coverage({"entropy": score}, wrong), "entropy")
    assert coverage == pytest.approx([25, 50, 75, 100])
    assert risk == pytest.approx([0, 50, 100 / 3, 50])
    _, accuracy = curve(plots.accuracy_coverage({"entropy": score}, wrong), "entropy")
    assert accuracy == pytest.approx(100 - risk)


def test_ties_are_kept_or_rejected_together():
    coverage, risk = curve(plots.risk_coverage({"flat": np.ones(4)}, [0, 0, 0, 1]), "flat")
    assert coverage == pytest.approx([100])
    assert risk == pytest.approx([25])


def test_no_ranking_beats_the_perfect_one(rng):
    wrong, score = rng.random(200) < 0.2, rng.random(200)
    ax = plots.risk_coverage({"chance": score}, wrong)
    best, lowest = curve(ax, "perfect ranking")
    coverage, risk = curve(ax, "chance")
    assert np.all(np.interp(coverage, [0, *best], [0, *lowest]) <= risk + 1e-9)


def test_the_legend_carries_the_area():
    score, wrong = [0.1, 0.2, 0.3, 0.4], [False, True, False, True]
    ax = plots.risk_coverage({"entropy": score}, wrong)
    texts = [t.get_text() for t in ax.get_legend().get_texts()]
    assert f"entropy (AURC {metrics.aurc(score, wrong):.4f})" in texts


def test_selective_axes_are_in_percent():
    ax = plots.accuracy_coverage([0.1, 0.2], [False, True], target=0.99)
    assert ax.get_xlabel() == "coverage: inputs kept (%)"
    assert ax.get_ylabel() == "accuracy of those kept (%)"
    assert ax.texts[0].get_text() == "99 %"


def test_all_right_and_all_wrong_can_be_drawn():
    for wrong in ([True, True], [False, False]):
        plots.risk_coverage([0.1, 0.2], wrong).figure.canvas.draw()


def test_curves_of_many_inputs_have_no_more_points_than_can_be_seen(rng):
    x, _ = curve(plots.risk_coverage(rng.random(20_000), rng.random(20_000) < 0.1), "score")
    assert len(x) <= 1500
    assert x[-1] == 100


@pytest.mark.parametrize(
    ("scores", "wrong", "argument"),
    [
        ({}, [True], "scores"),
        ({"a": [1, 2, 3]}, [True, False], r"scores\['a'\]"),
        ({"a": [np.nan, 1]}, [True, False], r"scores\['a'\]"),
        ({"a": [1, 2]}, [3, 4], "wrong"),
        ({"a": [1, 2]}, [], "wrong"),
    ],
)
def test_bad_selection_input_is_named(scores, wrong, argument):
    for plot in (plots.risk_coverage, plots.accuracy_coverage):
        with pytest.raises(ValueError, match=f"^{argument}"):
            plot(scores, wrong)


def test_a_target_is_an_accuracy():
    with pytest.raises(ValueError, match=r"^target"):
        plots.accuracy_coverage([1, 2], [0, 1], target=99)


# --- finding the positives --------------------------------------------------------------------------------


def area_under(line):
    """The area under a drawn line, by its own rule: steps, or straight lines."""
    x, y = line.get_xdata() / 100, line.get_ydata() / 100
    if line.get_drawstyle() == "steps-pre":
        return np.sum(np.diff(x) * y[1:])
    return np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)


def test_precision_stands_in_steps_at_the_highest_threshold_that_reaches_a_recall():
    score, positive = [0.9, 0.8, 0.7, 0.6], [True, False, False, True]
    ax = plots.precision_recall({"a": score}, positive)
    recall, precision = curve(ax, "a")
    assert recall == pytest.approx([0, 50, 100])
    assert precision == pytest.approx([100, 100, 50])  # a straight line would promise 75 at a recall of 75
    assert ax.lines[0].get_drawstyle() == "steps-pre"


@pytest.mark.parametrize("rounded", [1, 9])
def test_the_areas_drawn_are_those_of_the_metrics(rng, rounded):
    positive = rng.random(300) < 0.2
    score = np.round(rng.random(300) + positive / 3, rounded)
    for plot, metric in ((plots.precision_recall, metrics.aupr), (plots.roc, metrics.auroc)):
        line = plot({"a": score}, positive).lines[0]
        assert area_under(line) == pytest.approx(metric(score, positive), abs=1e-12)
        assert f"{metric(score, positive):.3f}" in line.get_label()


def test_the_mean_curve_of_several_networks_has_their_mean_area(rng):
    for positive in (rng.random(200) < 0.3, rng.random((4, 200)) < 0.3):
        score = rng.random((4, 200)) + positive / 4
        flags = np.broadcast_to(positive, score.shape)
        for plot, metric in ((plots.precision_recall, metrics.aupr), (plots.roc, metrics.auroc)):
            ax, areas = (
                plot({"a": score}, positive),
                [metric(*pair) for pair in zip(score, flags, strict=True)],
            )
            assert area_under(ax.lines[0]) == pytest.approx(np.mean(areas), abs=1e-12)
            assert f"{np.mean(areas):.3f} ± {np.std(areas, ddof=1):.3f}" in ax.lines[0].get_label()
            assert len(ax.collections) == 1


def test_networks_that_agree_have_a_band_without_height():
    ax = plots.precision_recall({"a": [[3, 2, 1]] * 3}, [True, False, True])
    (band,) = ax.collections
    _, height = curve(ax, "a")
    assert set(np.round(band.get_paths()[0].vertices[:, 1], 6)) <= set(np.round(height, 6))


def test_a_score_that_knows_nothing_lies_on_the_lines_of_the_ignorant():
    ax = plots.precision_recall({"flat": np.ones(8)}, [True, *[False] * 7])
    _, precision = curve(ax, "flat")
    _, prevalence = curve(ax, "prevalence")
    assert precision == pytest.approx(12.5)
    assert prevalence == pytest.approx([12.5, 12.5])
    x, y = curve(plots.roc({"flat": np.ones(8)}, [True, *[False] * 7]), "flat")
    assert x == pytest.approx(y)


def test_curves_of_many_positives_have_no_more_points_than_can_be_seen(rng):
    positive = rng.random(20_000) < 0.4
    score = rng.random(20_000) + positive
    for plot, metric in ((plots.precision_recall, metrics.aupr), (plots.roc, metrics.auroc)):
        line = plot(score, positive).lines[0]
        assert len(line.get_xdata()) <= 3001
        assert area_under(line) == pytest.approx(metric(score, positive), abs=2e-3)


@pytest.mark.parametrize(
    ("scores", "positive", "argument"),
    [
        ({}, [True, False], "scores"),
        ({"a": [1, 2, 3]}, [True, False], r"scores\['a'\]"),
        ({"a": [np.nan, 1]}, [True, False], r"scores\['a'\]"),
        ({"a": [[1, 2]] * 3}, [[True, False]] * 2, r"scores\['a'\]"),
        ({"a": [1, 2]}, [True, True], "positive"),
        ({"a": [1, 2]}, [False, False], "positive"),
        ({"a": [1, 2]}, [3, 4], "positive"),
        ({"a": [1, 2]}, [], "positive"),
    ],
)
def test_bad_detection_input_is_named(scores, positive, argument):
    for plot in (plots.precision_recall, plots.roc):
        with pytest.raises(ValueError, match=f"^{argument}"):
            plot(scores, positive)


# --- regression, maps, simplex ----------------------------------------------------------------------------


def reach(band):
    """Half the height of a band at its middle."""
    return np.ptp(band.get_paths()[0].vertices[:, 1]) / 2


def test_bands_are_one_and_two_standard_deviations_wide():
    ax = plots.predictive_band(np.arange(5.0), np.zeros(5), total=np.full(5, 0.3))
    assert [reach(band) for band in ax.collections] == pytest.approx([0.6, 0.3])
    assert "total, ±1 and 2 std" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_variances_of_the_two_kinds_add_up():
    ax = plots.predictive_band(np.arange(5.0), np.zeros(5), epistemic=0.3, aleatoric=0.4, widths=(1,))
    assert [reach(band) for band in ax.collections] == pytest.approx([0.5, 0.3])
    assert to_hex(ax.collections[0].get_facecolor()[0]) != to_hex(ax.collections[1].get_facecolor()[0])


def test_unordered_inputs_are_ordered():
    ax = plots.predictive_band([2.0, 0.0, 1.0], [20.0, 0.0, 10.0], total=1.0, truth=lambda x: x)
    mean = ax.lines[-1]
    assert mean.get_xdata().tolist() == [0, 1, 2]
    assert mean.get_ydata().tolist() == [0, 10, 20]
    assert ax.lines[0].get_ydata().tolist() == [0, 1, 2]


def test_a_column_is_taken_for_a_vector():
    plots.predictive_band(np.zeros((3, 1)) + np.arange(3)[:, None], np.zeros((3, 1)), np.ones((3, 1)))


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"epistemic": None}, "epistemic"),
        ({"epistemic": -1.0}, "epistemic"),
        ({"total": 1.0}, "total"),
        ({"mean": [0.0]}, "mean"),
        ({"x": [0.0, np.inf, 1.0]}, "x"),
        ({"data": 3}, "data"),
        ({"data": ([1, 2], [1])}, "data"),
        ({"truth": [1.0]}, "truth"),
        ({"widths": (0, 1)}, "widths"),
    ],
)
def test_bad_bands_are_named(change, argument):
    good = {"x": np.arange(3.0), "mean": np.zeros(3), "epistemic": 1.0}
    with pytest.raises(ValueError, match=f"^{argument}:"):
        plots.predictive_band(**{**good, **change})


BOX = (-3, 3, -2, 2)


@pytest.mark.parametrize(
    ("what", "label"),
    [
        ("probability", "probability of class 1"),
        ("class", "predicted class"),
        ("confidence", "confidence (probability)"),
        ("entropy", "total uncertainty (nats)"),
        ("total", "total uncertainty (nats)"),
        ("aleatoric", "aleatoric uncertainty (nats)"),
        ("epistemic", "epistemic uncertainty (nats)"),
    ],
)
def test_a_map_says_what_it_shows_in_which_units(what, label):
    ax = plots.decision_map(two_samples, what=what, bounds=BOX, resolution=7)
    assert ax.figure.axes[1].get_ylabel() == label
    assert (ax.get_xlim(), ax.get_ylim()) == ((-3, 3), (-2, 2))


def test_a_map_holds_what_the_metrics_say_at_each_place():
    ax = plots.decision_map(two_samples, what="epistemic", bounds=BOX, resolution=7)
    columns, rows = np.meshgrid(np.linspace(-3, 3, 7), np.linspace(-2, 2, 7))
    inputs = np.stack([columns.ravel(), rows.ravel()], axis=-1).astype(np.float32)
    expected = metrics.mutual_information(two_samples(inputs))
    assert np.allclose(np.ravel(ax.collections[0].get_array()), expected, atol=1e-12)


def test_maps_run_along_x_first():
    ax = plots.decision_map(lambda inputs: inputs[:, 0], what="value", bounds=BOX, resolution=5)
    grid = np.reshape(ax.collections[0].get_array(), (5, 5))
    assert np.allclose(grid[2], np.linspace(-3, 3, 5))


def test_maps_of_one_quantity_can_share_a_scale():
    ax = plots.decision_map(two_samples, what="epistemic", bounds=BOX, resolution=5, vmax=0.5)
    assert ax.collections[0].get_clim() == (0, 0.5)


def test_a_grid_of_values_can_be_drawn():
    ax = plots.decision_map(
        ([0, 1, 2], [0, 1], np.arange(6.0).reshape(2, 3)), what="value", label="log density (nats)"
    )
    assert ax.figure.axes[1].get_ylabel() == "log density (nats)"


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"what": "colour"}, "what"),
        ({"what": "epistemic", "predict": lambda x: two_samples(x)[0]}, "what"),
        ({"predict": lambda x: np.full((len(x), 3), 1 / 3)}, "what"),
        ({"predict": lambda x: np.ones((len(x), 2))}, "predict"),
        ({"predict": lambda x: np.ones(3)}, "predict"),
        ({"predict": lambda x: None}, "predict"),
        ({"predict": 3}, "predict"),
        ({"predict": ([0, 1], [0, 1], np.zeros((3, 3)))}, "predict"),
        ({"bounds": None}, "bounds"),
        ({"bounds": (1, 0, 0, 1)}, "bounds"),
        ({"X": np.zeros((3, 3))}, "X"),
        ({"y": [0, 1]}, "y"),
        ({"X": np.zeros((3, 2)), "y": [0, 1]}, "y"),
        ({"resolution": 1}, "resolution"),
        ({"vmax": "high"}, "vmax"),
    ],
)
def test_bad_maps_are_named(change, argument):
    good = {"predict": two_samples, "bounds": BOX, "resolution": 5}
    with pytest.raises(ValueError, match=f"^{argument}:"):
        plots.decision_map(**{**good, **change})


def test_corners_of_the_simplex_are_certainty():
    ax = plots.simplex(np.eye(3), labels=["cat", "dog", "bird"], contours=False)
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    assert np.allclose(ax.collections[0].get_offsets(), corners)
    assert [text.get_text() for text in ax.texts] == ["cat", "dog", "bird"]
    assert np.allclose([text.xy for text in ax.texts], corners)


def test_entropy_in_the_simplex_is_in_nats():
    ax = plots.simplex([[0.2, 0.3, 0.5]])
    assert ax.figure.axes[1].get_ylabel() == "entropy (nats)"
    assert len(plots.simplex([[0.2, 0.3, 0.5]], colorbar=False).figure.axes) == 1


def test_the_simplex_is_for_three_classes():
    for points in ([[0.5, 0.5]], [0.2, 0.3, 0.5], [[1, 1, 1]]):
        with pytest.raises(ValueError, match=r"^points:"):
            plots.simplex(points)


# --- text and interactive figures -------------------------------------------------------------------------


def test_say_displays_markdown(displayed):
    plots.say("**90 %** of $x$")
    assert displayed[0]._repr_markdown_() == "**90 %** of $x$"
    for nothing in ("", "  ", None, 3):
        with pytest.raises(ValueError, match=r"^text:"):
            plots.say(nothing)


def scatter(values=(0.5, 0.25), **more):
    return go.Figure(go.Scatter(x=np.arange(len(values)), y=np.array(values), **more))


def bundle(*arguments, **named):
    return plots.InteractiveFigure(*arguments, **named)._repr_mimebundle_()


CONTRACT = re.compile(
    r'<figure class="uq-plotly" id="([^"]+)" role="group" aria-label="([^"]*)">'
    r'<div class="uq-plotly-box"></div><script type="application/json">(.*)</script></figure>',
    re.DOTALL,
)


def test_the_page_gets_json_and_asks_nobody_for_anything():
    html = bundle(scatter(), alt="A line.", div_id="a-line")["text/html"]
    id_, label, spec = CONTRACT.fullmatch(html).groups()
    assert (id_, label) == ("a-line", "A line.")
    assert set(json.loads(spec)) == {"data", "layout"}
    assert "http" not in html


def test_jupyter_gets_plotlys_own_format():
    plotly = bundle(scatter(), alt="A line.")["application/vnd.plotly.v1+json"]
    assert plotly["data"][0]["type"] == "scatter"
    assert go.Figure(plotly["data"], plotly["layout"]).data[0].y is not None


def test_colab_gets_html_that_brings_its_script(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    shown = bundle(scatter(), alt="A line.", caption="See.")
    assert set(shown) == {"text/html", "text/plain"}
    assert re.search(r'<script[^>]*src="https://cdn\.plot\.ly/', shown["text/html"])
    assert 'aria-label="A line."' in shown["text/html"]


def test_show_displays_one_figure(displayed):
    assert plots.show(scatter(), alt="A line.") is None
    (shown,) = displayed
    assert CONTRACT.fullmatch(shown._repr_mimebundle_()["text/html"])
    assert "A line." in repr(shown)


def test_the_same_figure_gives_the_same_bytes_and_another_another_id():
    first, again, other = (bundle(scatter(v), alt="A line.")["text/html"] for v in ((1, 2), (1, 2), (1, 3)))
    assert first == again
    assert CONTRACT.fullmatch(first)[1] != CONTRACT.fullmatch(other)[1]


def test_text_cannot_leave_its_place():
    nasty = 'a "quote" & </script><!--<b>'
    html = bundle(scatter(name=nasty), alt=nasty, caption=nasty)["text/html"]
    assert html.count("</script>") == 1
    assert "<!--" not in html
    assert "<b>" not in html
    spec = re.search(r'application/json">(.*?)</script>', html, re.DOTALL)[1]
    assert json.loads(spec)["data"][0]["name"] == nasty
    assert "<figcaption>a &quot;quote&quot;" in html


@pytest.mark.parametrize("alt", ["", "  ", None, 3])
def test_a_figure_without_alt_text_is_refused(alt):
    with pytest.raises(ValueError, match=r"^alt:"):
        plots.show(scatter(), alt)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"fig": None}, "fig"),
        ({"fig": 3}, "fig"),
        ({"fig": {"data": 5}}, "fig"),
        ({"div_id": "two words"}, "div_id"),
        ({"div_id": '"><script>'}, "div_id"),
        ({"div_id": ""}, "div_id"),
        ({"caption": ""}, "caption"),
    ],
)
def test_a_bad_interactive_figure_is_named(change, argument):
    with pytest.raises(ValueError, match=f"^{argument}:"):
        plots.show(**{"fig": scatter(), "alt": "A line.", **change})


def test_showing_leaves_the_figure_as_it_was():
    fig = scatter(np.linspace(0, 1, 7))
    before = fig.to_json()
    bundle(fig, alt="A line.")
    assert fig.to_json() == before


def test_a_figure_is_small():
    fig = scatter(np.random.default_rng(0).random(1000))
    assert len(plots.InteractiveFigure(scatter(), alt="A line.").spec) < 2000  # plotly's template alone: 7 kB
    assert len(plots.InteractiveFigure(fig, alt="A line.").spec) < 9000  # 1,000 × (4 + 2) bytes in base64


def test_coordinates_lose_precision_only_where_nobody_sees_it():
    fine = np.linspace(0, 1, 50)
    far = 1e9 + fine  # single precision would put all of them on one spot
    figure = plots.InteractiveFigure(go.Figure(go.Scatter(x=far, y=fine, customdata=fine)), alt="x").figure
    assert figure.data[0].y.dtype == np.float32
    assert np.array_equal(figure.data[0].x, far)
    assert figure.data[0].customdata.dtype == np.float64


def test_text_and_dates_are_left_alone():
    figure = plots.InteractiveFigure(go.Figure(go.Bar(x=["a", "b"], y=[1, 2])), alt="x").figure
    assert list(figure.data[0].x) == ["a", "b"]
    assert list(figure.data[0].y) == [1, 2]


def frames(count=3):
    return [(f"{k}", [go.Scatter(y=[k, k]), {"type": "scatter", "y": [0, k]}]) for k in range(count)]


def test_a_slider_shows_the_traces_of_its_position_and_the_fixed_ones():
    fig = plots.slider_figure(frames(), fixed=[go.Scatter(y=[9])], name="rate", active=1, xaxis_title="x")
    assert [trace.visible for trace in fig.data] == [True, False, False, True, True, False, False]
    (slider,) = fig.layout.sliders
    assert slider.active == 1
    assert slider.currentvalue.prefix == "rate: "
    assert [step.label for step in slider.steps] == ["0", "1", "2"]
    assert slider.steps[2].args[0]["visible"] == [True, False, False, False, False, True, True]
    assert fig.layout.xaxis.title.text == "x"
    assert not fig.frames  # a static page draws data and layout only


@pytest.mark.parametrize(
    ("bad", "argument"),
    [([], "frames"), (None, "frames"), ([("a", [])], "frames"), ([3], "frames"), ([("a", 3)], "frames")],
)
def test_frames_that_cannot_be_drawn_are_named(bad, argument):
    with pytest.raises(ValueError, match=f"^{argument}:"):
        plots.slider_figure(bad)


def test_the_slider_starts_at_one_of_its_positions():
    with pytest.raises(ValueError, match=r"^active:"):
        plots.slider_figure(frames(), active=3)


# --- classes and places -----------------------------------------------------------------------------------


def test_a_confusion_shows_every_count_that_is_not_nought_where_it_belongs():
    ax = plots.confusion([[90, 10, 0], [0, 50, 0], [3, 0, 7]], classes=["cat", "dog", "eel"])
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written == {(0, 0): "90", (1, 0): "10", (1, 1): "50", (0, 2): "3", (2, 2): "7"}
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["cat", "dog", "eel"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted class", "true class")


def test_the_colour_of_a_confusion_is_the_share_of_the_true_class():
    shares = plots.confusion([[90, 10, 0], [0, 50, 0], [3, 0, 7]]).images[0].get_array()
    assert shares[0, 1] == 10
    assert shares[2, 0] == pytest.approx(30)
    assert shares.mask.tolist() == [[True, False, True], [True, True, True], [False, True, True]]


def test_a_confusion_without_errors_and_one_with_an_empty_class_can_be_drawn():
    assert len(plots.confusion(5 * np.eye(3)).texts) == 3
    assert len(plots.confusion([[2, 1], [0, 0]]).texts) == 2


def test_an_embedding_draws_each_class_as_its_numeral_and_the_foreign_as_crosses():
    ax = plots.embedding([[0, 1], [2, 3], [4, 5]], [7, 3, 7], foreign=[[9, 9]])
    places = [drawn.get_offsets().tolist() for drawn in ax.collections]
    assert places == [[[2, 3]], [[0, 1], [4, 5]], [[9, 9]]]
    assert ax.get_aspect() == 1
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["of no class"]
    assert plots.embedding([[0, 1]], [0]).get_legend() is None


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.confusion(np.ones((2, 3))), r"matrix: expected counts of shape .*got \(2, 3\)"),
        (lambda: plots.confusion([[1, -1], [0, 1]]), "matrix: expected counts"),
        (lambda: plots.confusion([[1, np.nan], [0, 1]]), "matrix: expected finite"),
        (lambda: plots.confusion(np.eye(2), classes=["a"]), "classes: expected 2 of them, got 1"),
        (lambda: plots.embedding(np.ones((2, 3)), [0, 1]), "points: expected points of the plane"),
        (lambda: plots.embedding(np.ones((2, 2)), [0]), "labels: expected 2 labels"),
        (lambda: plots.embedding(np.ones((2, 2)), [0, 1], foreign=[1.0]), "foreign: expected 2 dimension"),
        (lambda: plots.embedding(np.ones((0, 2)), []), "points: expected at least one value"),
    ],
)
def test_what_is_no_table_or_place_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
