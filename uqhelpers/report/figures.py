"""The figures of the cards."""

import numpy as np

from uqhelpers import metrics
from uqhelpers.report import intervals
from uqhelpers.report.charts import Chart, span
from uqhelpers.report.words import listed, percent, plain

POINTS = 240  # of a curve; more cannot be seen
CLOUD = 500  # points of a scatter
ROWS = 30  # of a forest
KINDS = ("orange", "green", "plum", "ink")  # of strange inputs


def thinned(values, most=POINTS):
    """Indices that spread evenly over a length, the last among them."""
    return np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int))


def kind_of(number):
    """The colour and the dashes of a kind of strange inputs."""
    return f"{KINDS[number % len(KINDS)]} dash{number // len(KINDS)}"


def reliability(evidence):
    """Accuracy against confidence, beside what counting alone allows."""
    curve, (low, high) = evidence.curve, evidence.band
    shares = [
        intervals.share(round(rate * number), number, evidence.level)
        for rate, number in zip(curve.accuracy, curve.count, strict=True)
    ]
    outside = (curve.accuracy < low - 1e-12) | (curve.accuracy > high + 1e-12)
    start = float(curve.lower.min())
    floor = min([start, *(number.low for number in shares)])
    words = (
        f"Reliability diagram: accuracy against confidence in {len(curve.count)} filled bins. "
        f"{int(outside.sum())} of them lie outside the band in which a calibrated classifier's bins would "
        "fall."
    )
    chart = Chart(words, (start, 1.0), (np.floor(10 * floor + 1e-9) / 10, 1.0), "confidence", "accuracy")
    tallest = 0.16 * (chart.y[1] - chart.y[0]) / curve.share.max()
    for a, b, c, d, share in zip(curve.lower, curve.upper, low, high, curve.share, strict=True):
        chart.bar(a, b, chart.y[0], chart.y[0] + share * tallest, "count")
        chart.bar(a, b, c, d)
    chart.line((max(start, chart.y[0]), 1), (max(start, chart.y[0]), 1), "rule")
    for x, y, number, out in zip(curve.confidence, curve.accuracy, shares, outside, strict=True):
        kind = "orange" if out else "blue"
        chart.whisker(x, (number.low, number.high), kind).dot(x, y, kind)
    return chart


def risk_coverage(evidence):
    """The risk of what is accepted, from the surest input on."""
    curve = metrics.risk_coverage(evidence.score, ~evidence.correct)
    found, error = evidence.numbers["coverage at risk"], 1 - evidence.numbers["accuracy"].value
    kept = thinned(curve.coverage)
    x, y = np.append(0, curve.coverage[kept]), np.append(curve.risk[kept[0]], curve.risk[kept])
    top = max(float(y[x >= 0.05].max()), evidence.risk) * 1.15
    words = (
        f"Risk-coverage curve: accepting every input, {percent(error)} are wrong; at a risk of "
        f"{percent(evidence.risk)} the coverage is {percent(found.value)}."
    )
    chart = Chart(
        words, (0.0, 1.0), (0.0, top), "coverage: share of the inputs decided", "risk: share of these wrong"
    )
    chart.level(evidence.risk, "rule").line(x, np.minimum(y, top))
    if found.low:
        chart.upright(found.low, "promise")
    if found.value:
        chart.dot(found.value, min(evidence.risk, top), "orange", 5)
    return chart


def forest(rows, whole, xlabel, what, as_share, promised=None):
    """A row for each part: its figure, its interval, and where the whole lies.

    Parameters
    ----------
    rows : list of (str, Number, bool)
        Name, figure, and whether it stands out.
    whole : float
    xlabel, what : str
    as_share : bool
    promised : float, optional
        Another line.
    """
    ends = [end for _, number, _ in rows for end in number if end is not None and np.isfinite(end)]
    low, high = span([*ends, whole, *([] if promised is None else [promised])])
    if as_share:
        low, high = max(low, 0.0), min(high, 1.0)
    out = [name for name, _, stands in rows if stands]
    words = f"{what} of {len(rows)} parts with intervals. "
    words += f"Beyond chance: {listed(out)}." if out else "None stands out beyond chance."
    names = [name for name, _, _ in rows]
    chart = Chart(words, (low, high), (0, 1), xlabel, shares="x" if as_share else "", rows=names)
    chart.upright(whole, "rule")
    if promised is not None:
        chart.upright(promised, "promise")
    for place, (_, number, stands) in enumerate(rows):
        kind = "orange" if stands else "blue"
        if number.low is not None:
            chart.whisker((number.low, number.high), place, kind)
        if np.isfinite(number.value):
            chart.dot(number.value, place, kind)
    return chart


def scores(evidence):
    """How the scores of strange inputs lie beside those of the familiar."""
    kinds = {"familiar": evidence.score, **evidence.strange}
    low, high = span(np.concatenate(list(kinds.values())), 0.0)
    edges = np.linspace(low, high if high > low else low + 1, 31)
    heights = {}
    for name, values in kinds.items():
        finite = values[np.isfinite(values)]
        heights[name] = np.histogram(finite, edges)[0] / max(len(values), 1)
    top = max(float(height.max()) for height in heights.values()) * 1.1 or 1.0
    areas = [f"{name}: AUROC {plain(evidence.numbers[f'AUROC[{name}]'].value)}" for name in evidence.strange]
    words = f"Histograms of the score for familiar and strange inputs. {'; '.join(areas)}."
    chart = Chart(
        words, (edges[0], edges[-1]), (0.0, top), "score: higher is stranger", "share of the inputs", "y"
    )
    for number, height in enumerate(heights.values()):
        if number == 0:
            for a, b, share in zip(edges[:-1], edges[1:], height, strict=True):
                chart.bar(a, b, 0, share, "familiar")
            continue
        chart.line(np.repeat(edges, 2), [0, *np.repeat(height, 2), 0], kind_of(number - 1))
    return chart


def cost_curve(bill, chances, labels):
    """Of two classes and two acts, thresholds on the probability of class 1 and the mean cost from there on.

    Returns
    -------
    cuts, paid : array, shape (K,)
        Thresholds, falling from 1 to 0, and the mean cost if inputs with at least that
        probability get the act that is cheaper for large ones.
    """
    (below, *_), (above, *_) = bill.spans
    order = np.argsort(-chances, kind="stable")
    ranked = chances[order].astype(np.float64)
    change = (bill.matrix[above] - bill.matrix[below])[labels[order]]
    last = np.append(ranked[1:] != ranked[:-1], True)
    paid = bill.matrix[below][labels].mean() + np.append(0, np.cumsum(change)[last]) / len(labels)
    return np.append(1.0, ranked[last]), paid


def cost_of_thresholds(evidence):
    """Of two classes and two acts, the mean cost at every threshold."""
    cuts, paid = cost_curve(evidence.bill, evidence.chances, evidence.labels)
    kept = thinned(cuts, 4 * POINTS)
    cuts, paid = np.append(cuts[kept], 0.0), np.append(paid[kept], paid[-1])
    at = evidence.numbers["threshold"].value
    low, high = span([*paid, 0.0] if paid.min() >= 0 else paid, 0.08)
    words = (
        f"Mean cost against the threshold on the probability of {evidence.class_names[1]}. The costs put it "
        f"at {percent(at)}; habit puts it at 50 %."
    )
    chart = Chart(
        words,
        (0.0, 1.0),
        (max(low, 0.0) if paid.min() >= 0 else low, high),
        f"threshold on the probability of {evidence.class_names[1]}",
        "mean cost of an input",
        "x",
    )
    # From one probability that occurs to the next a threshold decides the same: a curve of steps.
    chart.upright(0.5, "rule").upright(at, "promise")
    return chart.line(np.repeat(cuts, 2)[1:], np.repeat(paid, 2)[:-1])


# --- regression ---------------------------------------------------------------------------------------------


def cloud(evidence):
    """Targets against predictions, of some inputs drawn by lot."""
    rng = np.random.default_rng(evidence.seed)
    some = np.sort(rng.permutation(evidence.count)[:CLOUD])
    x, y = evidence.mean[some], evidence.targets[some]
    ends = span([*x, *y], 0.03)
    unit = f" ({evidence.unit})" if evidence.unit else ""
    words = (
        f"Targets against predictions of {len(some)} inputs; root mean square error "
        f"{plain(evidence.numbers['RMSE'].value)}{unit}."
    )
    chart = Chart(words, ends, ends, f"predicted{unit}", f"true{unit}", "")
    if evidence.ends is not None and len(some) <= CLOUD:
        low, high = (np.asarray(end)[some] for end in evidence.ends)
        order = np.argsort(x, kind="stable")
        for number in order[:: max(1, len(order) // 120)]:
            chart.whisker(float(x[number]), (float(low[number]), float(high[number])), "faint")
    chart.line(ends, ends, "rule")
    for a, b in zip(x, y, strict=True):
        chart.dot(a, b, "point", 2.4)
    return chart


def histogram_of_places(evidence, bins=10):
    """Where in their Gaussians the targets fell, beside what counting alone allows."""
    from scipy.stats import binom

    counts = np.histogram(evidence.place, bins, (0, 1))[0]
    tail = (1 - evidence.level) / 2
    low, high = (binom.ppf(q, evidence.count, 1 / bins) / evidence.count for q in (tail, 1 - tail))
    shares = counts / evidence.count
    outside = int(((shares < low) | (shares > high)).sum())
    words = (
        f"Histogram of where in its predicted Gaussian each target fell, in {bins} bins: flat if the "
        f"Gaussians are right. {outside} of {bins} bars lie outside what counting alone allows."
    )
    top = 1.12 * max(float(shares.max()), high)
    chart = Chart(
        words, (0.0, 1.0), (0.0, top), "place of the target in its Gaussian", "share of the inputs", "y"
    )
    for number, share in enumerate(shares):
        kind = "out" if share < low or share > high else "familiar"
        chart.bar(number / bins + 0.004, (number + 1) / bins - 0.004, 0, share, kind)
    return chart.bar(0, 1, low, high).level(1 / bins, "rule")
