"""Where other libraries answer otherwise, as a Markdown table.

``python -m tests.peers.table`` prints the table; with ``--write`` it writes the
page of the book that shows it. Their figures are the stored ones; what is right
is computed when the table is made.
"""

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.peers.cases import make_cases
from tests.peers.chains import chains
from tests.peers.record import STORED
from tools.book import ROOT
from uqhelpers import active_learning, conformal, credal, mcmc, metrics

PAGE = ROOT / "book" / "reference" / "disagreements.md"


@dataclass(frozen=True)
class Row:
    """One disagreement: which stored answer, what is right, and why they differ."""

    library: str
    quantity: str
    answer: str
    right: Callable
    why: str
    pick: int | None = None  # of an answer that holds several

    def figures(self, stored, cases):
        """What is right, and what the library answers: a number, or the words of its error."""
        found = stored["values"][self.library][self.answer]
        if self.pick is not None:
            found = found[self.pick]
        if isinstance(found, str) and found not in ("nan", "inf"):
            found = found.partition(":")[0]
        else:
            found = float(found)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what is undefined warns, and is NaN
            return float(self.right(cases)), found


def calibration(name, metric=metrics.expected_calibration_error, labels="labels"):
    return lambda cases: metric(cases[name]["probs"], cases[name][labels])


def detection(name, metric):
    return lambda cases: metric(cases[name]["score"], cases[name]["strange"])


def selective(name, metric, labels):
    def figure(cases):
        probs = cases[name]["probs"]
        return metric(metrics.msp_score(probs), probs.argmax(axis=1) != cases[name][labels])

    return figure


def temperature(place):
    def figure(cases):
        case = cases["temperature"]
        return metrics.fit_temperature(case["factors"][place] * case["logits"], case["labels"])

    return figure


def mean_of_samples(metric, key="probs"):
    """The metric's mean over the inputs of the sampled case."""

    def figure(cases):
        values = cases["sampled"][key]
        return metric(metrics.from_logits(values) if key == "logits" else values)[0]

    return figure


def place_of_the_best(cases):
    """Where the input with the largest mutual information stands in our batch of five."""
    probs = cases["sampled"]["probs"]
    batch = active_learning.batch_bald(probs, 5).indices.tolist()
    return batch.index(int(metrics.mutual_information(probs).argmax()))


def information_of_the_batch(cases):
    """The information of our batch of five, all configurations enumerated."""
    return active_learning.batch_bald(cases["sampled"]["probs"], 5).information


def median_quantile(cases):
    case = cases["regression"]
    curve = metrics.regression_calibration_curve(
        case["mean"], case["std"], case["y"], levels=[0.5], kind="quantile"
    )
    return curve.observed[0]


def strange_features(name):
    """AUROC of our Mahalanobis distance on features that go wrong."""

    def figure(cases):
        from uqhelpers import odin

        case = cases["features"]
        detector = odin.Mahalanobis().fit(case[name], case["labels"])
        return metrics.auroc(detector.score(case[f"{name}, new"]), case["strange"])

    return figure


def moved_when_sure(cases):
    """Share of the inner pixels that our one step moves where the softmax is sure."""
    from tests.peers import record
    from uqhelpers import adversarial
    from uqhelpers._torch import torch

    case = cases["images"]
    model, images = record.sure(record.classifier(case)), case["images"].astype(np.float32)
    labels = model(torch.from_numpy(images)).argmax(dim=1)
    moved = adversarial.fgsm(model, images, labels, record.ATTACK["epsilon"])
    return record.share_moved(torch.from_numpy(moved), torch.from_numpy(images)).item()


def farthest_when_standardised(cases):
    """How far our one step moves standardised pixels, in their own units, given a budget in these."""
    from tests.peers import record
    from uqhelpers import adversarial
    from uqhelpers._torch import torch

    case, budget = cases["images"], record.ATTACK["epsilon"]
    model = record.classifier(case)
    labels = model(torch.from_numpy(case["images"])).argmax(dim=1)
    images = (case["images"] - 0.5) / case["std"][:, None, None]
    ends = images.min() - 1, images.max() + 1
    return np.abs(adversarial.fgsm(model, images, labels, budget, bounds=ends) - images).max()


def of_rank(place):
    """The rank that bounds the next score, for one of the sizes."""
    return lambda cases: conformal.rank(int(cases["ranks"]["sizes"][place]), 0.1)


def covered_by_adaptive_sets(cases):
    """Mean coverage of our adaptive sets, randomised alike at calibration and prediction."""
    case, size, found = cases["sets"], cases["sets"]["inputs"][0], []
    for start in range(0, len(case["labels"]), size):
        probs, labels = case["probs"][start : start + size], case["labels"][start : start + size]
        fitted = conformal.SplitClassifier("aps", seed=start).fit(probs[:200], labels[:200])
        found.append(conformal.covered(fitted.predict(probs[200:]), labels[200:]).mean())
    return np.mean(found)


def ten_alike():
    """Calibration data for which the threshold lies above .9: ten classes alike, all of them true in turn."""
    return np.full((100, 10), 0.1), np.arange(100) % 10


def set_of_alike(cases):
    """How many of ten classes that are alike are in one input's set."""
    fitted = conformal.SplitClassifier("aps").fit(*ten_alike())
    return fitted.predict(cases["alike"]["probs"]).sum()


def of_chains(name, diagnostic):
    return lambda cases: diagnostic(chains()[name])


def bound_of_members(kind, bound):
    """Mean entropy bound of the sampled members' credal sets."""

    return lambda cases: bound(credal.from_ensemble(cases["members"]["probs"], kind)).mean()


PHANTOM = "a bin of its own for confidence 1: eleven where ten were asked for"
LEFT = "bins closed on the left: a confidence on an edge falls into the bin above"
ORDER = "tied predictions are ranked by the order of the inputs"
SURE = "fgsm, moved by a sure network"
SIGN_OF_ZERO = "the softmax rounds to 1, its gradient to 0, and the sign of 0 moves nothing"
STEPS = "a fixed number of small steps from a fixed start"

FLOATS = "(1 - .9)(n + 1) lies just below a whole number in floats, and is cut off: one rank too high"
MIXED = "calibrated with a random share of the last class, predicted with all or none of it"
SEARCH = "one local search from the average; entropy is concave, and its minimum at a vertex"

ROWS = [
    Row("torchmetrics", "ECE, half of it certain", "ece of certainty", calibration("certain"), PHANTOM),
    Row("torch-uncertainty", "ECE, half of it certain", "ece of certainty", calibration("certain"), PHANTOM),
    Row("torchmetrics", "ECE of .6 (right) and .55 (wrong)", "ece of two", calibration("two"), LEFT),
    Row("netcal", "ECE with a confidence of .5", "ece on an edge", calibration("edge"), LEFT),
    Row(
        "netcal",
        "ECE, three classes, labels of two",
        "ece of a missing class",
        calibration("missing class"),
        "labels of two classes are taken for a binary problem",
    ),
    Row(
        "netcal",
        "“ACE” against adaptive ECE",
        "ace",
        calibration("drawn", metrics.adaptive_calibration_error),
        "the average over equal-width bins, whatever they hold: another quantity of the same name",
    ),
    Row(
        "torch-uncertainty",
        "adaptive ECE, errors first",
        "ece of equal mass, errors first",
        calibration("saturated", metrics.adaptive_calibration_error, "first"),
        "equal confidences are parted into several bins, by the order of the inputs",
    ),
    Row(
        "torch-uncertainty",
        "adaptive ECE, errors last",
        "ece of equal mass, errors last",
        calibration("saturated", metrics.adaptive_calibration_error, "last"),
        "the same predictions in another order",
    ),
    Row(
        "scikit-learn",
        "Brier score, two classes",
        "brier of two classes",
        calibration("binary", metrics.brier_score),
        "half of the sum over the classes, for two classes only",
    ),
    Row(
        "scikit-learn",
        "NLL when the impossible happens",
        "nll of the impossible",
        calibration("impossible", metrics.negative_log_likelihood),
        "probabilities are clipped at the rounding unit",
    ),
    Row(
        "torch-uncertainty",
        "AURC, all tied, errors first",
        "aurc, errors first",
        selective("ties", metrics.aurc, "first"),
        ORDER,
    ),
    Row(
        "torch-uncertainty",
        "AURC, all tied, errors last",
        "aurc, errors last",
        selective("ties", metrics.aurc, "last"),
        ORDER,
    ),
    Row(
        "torch-uncertainty",
        "AUGRC, all tied, errors first",
        "augrc, errors first",
        selective("ties", metrics.augrc, "first"),
        ORDER,
    ),
    Row(
        "torch-uncertainty",
        "AURC of four predictions",
        "aurc of few",
        selective("few", metrics.aurc, "labels"),
        "a trapezoid from coverage 1/N on, stretched to the whole",
    ),
    Row(
        "pytorch-ood",
        "AUPR of a score that knows nothing",
        "aupr of all tied",
        detection("all tied", metrics.aupr),
        "points joined by lines, up to precision 1 at recall 0; right is the prevalence",
    ),
    Row(
        "torchmetrics",
        "AUROC of scores around 20",
        "auroc of large scores",
        detection("large scores", metrics.auroc),
        "scores outside of 0 to 1 go through a sigmoid, which ties them in single precision",
    ),
    Row(
        "torchmetrics",
        "AUROC of one class",
        "auroc of one class",
        detection("one class", metrics.auroc),
        "undefined, and called the worst",
    ),
    Row(
        "scikit-learn",
        "AUPR without a positive",
        "aupr of one class",
        detection("one class", metrics.aupr),
        "undefined, and called the worst",
    ),
    Row(
        "baal",
        "mutual information of equal members (smallest)",
        "smallest mutual information of same members",
        lambda cases: metrics.mutual_information(cases["same members"]["probs"]).min(),
        "float32 rounding below 0 is not clamped",
    ),
    Row(
        "baal",
        "predictive entropy of sampled logits (first input)",
        "predictive entropy of logits",
        mean_of_samples(metrics.predictive_entropy, "logits"),
        "logits are averaged, not probabilities",
        0,
    ),
    Row(
        "baal",
        "BatchBALD, batch of five: place of the best input, counted from 0",
        "place of the best input in a batch of five",
        place_of_the_best,
        "the batch is ranked in reverse, one input too late: the best one falls out of it",
    ),
    Row(
        "scikit-activeml",
        "BatchBALD: information of a batch that it says it found, six networks (at most log 6)",
        "largest information, by default",
        information_of_the_batch,
        "as many draws as networks by default: the estimate passes what six networks can tell apart",
    ),
    Row(
        "torch-uncertainty",
        "entropy of samples (first input)",
        "entropy of samples",
        mean_of_samples(metrics.predictive_entropy),
        "the average of the members' entropies, not the entropy of their average",
        0,
    ),
    Row(
        "torch-uncertainty",
        "variation ratio (first input)",
        "variation ratio",
        mean_of_samples(metrics.variation_ratio),
        "by default one minus the largest averaged probability: no votes are counted",
        0,
    ),
    Row(
        "pytorch-ood",
        "entropy of a one-hot row",
        "entropy of one-hot",
        lambda cases: metrics.predictive_entropy(cases["one-hot"]["probs"])[0],
        "probabilities are clipped at 1e-7 inside the logarithm",
        0,
    ),
    Row(
        "pytorch-ood",
        "AUROC of Mahalanobis, dependent features",
        "auroc of Mahalanobis, dependent",
        strange_features("dependent"),
        "a ridge of 1e-6 is lost in the rounding of float32: some “distances” are negative",
    ),
    Row(
        "pytorch-ood",
        "AUROC of Mahalanobis, small features",
        "auroc of Mahalanobis, small",
        strange_features("small"),
        "a ridge of 1e-6 is larger than what small features vary by",
    ),
    Row("foolbox", "share of pixels that FGSM moves, a sure network", SURE, moved_when_sure, SIGN_OF_ZERO),
    Row(
        "torchattacks", "share of pixels that FGSM moves, a sure network", SURE, moved_when_sure, SIGN_OF_ZERO
    ),
    Row(
        "torchattacks",
        "dropout layers still on after an attack (of one)",
        "dropout still on",
        lambda cases: 1.0,
        "the model is put into evaluation mode; its parts are not put back where the whole was in it",
    ),
    Row(
        "torchattacks",
        "farthest move of a standardised pixel, budget 0.125",
        "fgsm, farthest of standardised pixels",
        farthest_when_standardised,
        "clamped to the range from 0 to 1, which standardised pixels leave",
    ),
    Row("popular recipe", "temperature", "temperature", temperature(2), STEPS, 2),
    Row("pytorch-ood", "temperature", "temperature", temperature(2), STEPS, 2),
    Row("popular recipe", "temperature, hotter", "temperature", temperature(3), STEPS, 3),
    Row(
        "torch-uncertainty",
        "temperature, hotter",
        "temperature",
        temperature(3),
        "steps without a line search: the inverse temperature jumps below 0, then far away",
        3,
    ),
    Row(
        "netcal",
        "temperature, hotter",
        "temperature",
        temperature(3),
        "takes probabilities, and clips them at the rounding unit on the way back to logits",
        3,
    ),
    Row(
        "uncertainty-toolbox",
        "share of targets below the predicted median",
        "curve of quantiles",
        median_quantile,
        "prediction minus target, where target minus prediction is meant: the curve is mirrored",
        5,
    ),
    Row(
        "crepes",
        "rank of the threshold, 19 scores, α = .1",
        "ranks",
        of_rank(0),
        FLOATS,
        pick=0,
    ),
    Row("crepes", "rank of the threshold, 99 scores, α = .1", "ranks", of_rank(2), FLOATS, pick=2),
    Row(
        "torch-uncertainty",
        "rank of the threshold, 20 scores, α = .1",
        "ranks",
        of_rank(1),
        "the plain quantile of the calibration scores: no place for the new one, coverage below the promise",
        pick=1,
    ),
    Row(
        "mapie",
        "coverage of APS sets, promised .9, last class in",
        "coverage of APS, last class True",
        covered_by_adaptive_sets,
        MIXED,
    ),
    Row(
        "mapie",
        "coverage of APS sets, promised .9, last class out",
        "coverage of APS, last class False",
        covered_by_adaptive_sets,
        MIXED,
    ),
    Row(
        "puncc",
        "classes in a set of ten alike ones, one input asked about",
        "set of one input",
        set_of_alike,
        "the size is capped at the number of inputs, not of classes",
    ),
    Row(
        "probly",
        "lower entropy of a box, mean over inputs",
        "mean of lower_entropy",
        bound_of_members("box", credal.lower_entropy),
        SEARCH,
    ),
    Row(
        "probly",
        "lower entropy of a hull, mean over inputs",
        "mean of lower_entropy_convex_hull",
        bound_of_members("hull", credal.lower_entropy),
        SEARCH,
    ),
    Row(
        "numpyro",
        "effective draws of four chains of 400 that overshoot (correlation −.9)",
        "effective, 4 x 400, correlation -0.9",
        of_chains("4 x 400, correlation -0.9", mcmc.effective_sample_size),
        "no bound below the sum of correlations: it turns negative, and the number with it",
    ),
    Row(
        "numpyro",
        "R̂, one chain of four is four times as wide",
        "R̂, one wide",
        of_chains("one wide", mcmc.r_hat),
        "means of halves are compared, not their widths",
    ),
    Row(
        "numpyro",
        "R̂, heavy tails, one chain of four elsewhere",
        "R̂, heavy tails, one apart",
        of_chains("heavy tails, one apart", mcmc.r_hat),
        "of the draws themselves, not of their ranks: the variance of heavy tails hides all",
    ),
    Row(
        "blackjax",
        "R̂ by `potential_scale_reduction`, four chains with one trend",
        "R̂, a trend",
        of_chains("a trend", mcmc.r_hat),
        "whole chains, not their halves (its `rhat` is the modern one, and agrees)",
    ),
]


def number(value):
    """Four significant digits; infinity and NaN as the signs of the field."""
    if isinstance(value, str):
        return value
    if np.isinf(value):
        return "∞"
    return "undefined" if np.isnan(value) else f"{value:.4g}"


def markdown(stored):
    """The table.

    Parameters
    ----------
    stored : dict
        What ``record`` wrote.

    Returns
    -------
    str
        Markdown with a line for every row whose library could be asked.
    """
    cases = make_cases()
    lines = ["| library | quantity | right | theirs | why |", "| --- | --- | --- | --- | --- |"]
    for row in ROWS:
        if row.library in stored["values"]:
            right, found = row.figures(stored, cases)
            name = f"{row.library} {stored['versions'][row.library]}"
            if row.library == "popular recipe":
                name = "a popular recipe"
            lines.append(f"| {name} | {row.quantity} | {number(right)} | {number(found)} | {row.why} |")
    return "\n".join(lines)


def page(stored):
    """The page of the book that holds the table.

    Parameters
    ----------
    stored : dict
        What ``record`` wrote.

    Returns
    -------
    str
        Markdown.
    """
    return f"""# Where libraries disagree

Each row is one question. "Right" is the answer by the published definition, computed by this book's
helpers and held by its tests; "theirs" is what the library answered to the same input, in the version
that is named. Most rows are conventions or edge cases, some are errors of rounding, some are searches
that stop before they arrive. Where a library agrees, it is not listed. The [chapter on
calibration](../foundations/calibration.ipynb) takes three of these cases apart.

{markdown(stored)}

*Undefined*: the quantity does not exist on that input, and the helpers say so. The words of an error
stand where a library gave no number. The inputs are in `tests/peers/cases.py`; `make peers` asks the
libraries again, and writes this page.
"""


def main(arguments):
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    if "--write" in arguments:
        PAGE.write_text(page(stored), encoding="utf-8")
    else:
        print(markdown(stored))


if __name__ == "__main__":
    main(sys.argv[1:])
