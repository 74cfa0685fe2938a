"""Who has what: the methods of the book, what their predictions name, and what ranks by a score.

The modules, their predictors and scores are found; what a predictor answers
with is read from its docstring. A test calls every one of them and holds the
answer against that, so the table of the book is what was tested.
"""

import importlib
import inspect
import re
from dataclasses import dataclass

from tools import imports
from tools.book import ROOT

PARTS = ("mean", "total", "aleatoric", "epistemic", "confidence")
GROUND = {"batches", "data", "dropout", "features", "logistic", "metrics", "models", "plots", "training"}
SYNTHESIS = {"case_study", "language_models", "leaderboard", "report"}
APART = {"grading"}
RETURNS = re.compile(r"^Returns\n-+\n(?:\w+ : )?([\w.]+)", re.MULTILINE)

# What predicts and does not answer with named parts, or ranks without a score: why.
EXCEPTIONS = {
    "adversarial.Smoothed.predict": "the class that wins under noise, or -1: a vote, no probabilities",
    "calibration.HistogramBinning.predict": "a map from probabilities to probabilities: no parts to name",
    "calibration.IsotonicCalibration.predict": "a map from probabilities to probabilities, likewise",
    "calibration.VectorScaling.predict": "a map from logits to probabilities: no parts to name",
    "conformal.SplitClassifier.predict": "sets of classes with a promise, instead of one distribution",
    "conformal.SplitRegressor.predict": "intervals with a promise: two ends, and no mean of their own",
    "laplace.LastLayerLaplace.predict": (
        "the array of probabilities: the formulas average without samples, so there are no parts; "
        "`laplace.predict(posterior, inputs)` samples them"
    ),
    "laplace.LaplaceTorch.predict": "as `LastLayerLaplace.predict`, to be compared with it",
}


@dataclass(frozen=True)
class Entry:
    """One function or method of the public face of a method.

    Attributes
    ----------
    name : str
        As one would write it after ``uqhelpers.``: ``"odin.Mahalanobis.score"``.
    call : callable
        The function itself.
    answer : type or None
        The class of its answer, if that has named parts.
    """

    name: str
    call: object
    answer: object = None

    @property
    def predicts(self):
        return self.name.rpartition(".")[2].startswith("predict")

    @property
    def parts(self):
        """Which of the agreed names the answer has."""
        names = set(getattr(self.answer, "__dataclass_fields__", ())) | set(dir(self.answer))
        return tuple(part for part in PARTS if self.answer is not None and part in names)


def methods(root=ROOT):
    """The names of the modules that are methods: neither ground floor nor synthesis nor grading."""
    units = {name.split(".")[1] for name in imports.modules(root / "uqhelpers") if "." in name}
    return sorted(name for name in units - GROUND - SYNTHESIS - APART if not name.startswith("_"))


def answer_of(call, module):
    """The class that a docstring names first under Returns, if it is one of the package's."""
    named = RETURNS.search(inspect.getdoc(call) or "")
    if not named:
        return None
    *path, name = named[1].split(".")
    places = [importlib.import_module(".".join(path))] if path else [module]
    places += [importlib.import_module(f"uqhelpers.{ground}") for ground in ("metrics", "training")]
    found = next((getattr(place, name) for place in places if hasattr(place, name)), None)
    return found if inspect.isclass(found) else None


def entries():
    """Everything public in the methods that predicts or scores, in the order of modules and names."""
    found = []
    for name in methods():
        module = importlib.import_module(f"uqhelpers.{name}")
        for each, call in _calls(module):
            last = each.rpartition(".")[2]
            if last.startswith("predict") or last == "score" or last.endswith("_score"):
                found.append(Entry(f"{name}.{each}", call, answer_of(call, module)))
    return found


def fitters():
    """The name and the function of everything public in the methods that is fitted to data."""
    return {
        f"{name}.{each}": call
        for name in methods()
        for each, call in _calls(importlib.import_module(f"uqhelpers.{name}"))
        if each.rpartition(".")[2] == "fit" or (each.startswith("fit_") and each != "fit_members")
    }


def _calls(module):
    """The public functions of a module and of its public classes, with their names."""
    for public in module.__all__:
        thing = getattr(module, public)
        if not inspect.isclass(thing):
            yield from [(public, thing)] if inspect.isfunction(thing) else []
            continue
        for each in dir(thing):
            if each[0] != "_" and inspect.isfunction(getattr(thing, each)):
                yield f"{public}.{each}", getattr(thing, each)


def unranked():
    """Classes of methods that tell how sure or how dense, but have no score."""
    found = []
    for name in methods():
        module = importlib.import_module(f"uqhelpers.{name}")
        for public in module.__all__:
            thing = getattr(module, public)
            ranks = inspect.isclass(thing) and any(
                inspect.isfunction(getattr(thing, each, None)) for each in ("confidence", "log_density")
            )
            if ranks and not hasattr(thing, "score"):
                found.append(f"{name}.{public}")
    return found


def table():
    """The table of the book, in Markdown, and the exceptions below it with their reasons."""
    lines, before = ["| method | what | names |", "| --- | --- | --- |"], None
    for entry in entries():
        if entry.name in EXCEPTIONS:
            continue
        module, _, what = entry.name.partition(".")
        link = f"[{module.replace('_', ' ')}](api/{module}.md)" if module != before else ""
        names = ", ".join(entry.parts) if entry.predicts else "*a score*"
        lines.append(f"| {link} | `{what}` | {names} |")
        before = module
    lines += ["", "Exceptions:", ""]
    lines += [f"- `{name}`: {why}." for name, why in sorted(EXCEPTIONS.items())]
    return "\n".join(lines)
