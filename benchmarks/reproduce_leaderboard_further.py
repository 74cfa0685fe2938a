"""Beside the leaderboard: regression on UCI tables, worlds with settings held fixed, other chapters' columns.

Three parts. *Tables*: the methods for real numbers on UCI tables, stored in the
package together with the regressions that the leaderboard has computed already.
*Fixed*: the worlds of noisy labels and of few data again, with the settings that
were chosen in the standard world and with as many steps of training. *Columns*:
an attacker and the gain in active learning, out of the stored results of their
chapters; nothing is computed for them.

``python -m benchmarks.reproduce leaderboard_further`` computes what is missing.
"""

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks import reproduce_active_learning_pools as pools
from benchmarks.provenance import RESULTS, ROOT, replace, surroundings
from benchmarks.reproduce import kept
from benchmarks.reproduce_uci import table
from benchmarks.tables import markdown, spread
from uqhelpers import leaderboard
from uqhelpers.leaderboard import networks, posthoc, regression, trained

SCRIPT = "reproduce_leaderboard_further"
SEEDS, FEW = range(5), range(3)
STORED = ROOT / "uqhelpers" / "leaderboard" / "stored"
TABLES = ("yacht", "energy", "concrete", "wine", "kin8nm")
MOST = 1_000  # rows of a table: of longer ones the first so many, in an order of our own
HELD = ("laplace_sampled", "variational", "mc_dropout", "ensemble")
CHANGED = {"noise 40 %": 1, "an eighth": 8}  # and how many times the epochs make as many steps
EPSILON = 0.1


# --- UCI tables -------------------------------------------------------------------------------------------


def shortened(name):
    """The rows of a table, inputs and target; of a long one as many as are used."""
    x, y = table(name)
    order = np.random.default_rng(0).permutation(len(x))[:MOST]
    return np.column_stack([x, y])[np.sort(order)]


def uci(name, seeds=SEEDS):
    """All methods for real numbers on one table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.txt"
        np.savetxt(path, shortened(name), fmt="%.17g")
        found = regression.run([path], seeds)[name]
    return {method: {c: _plain(v) for c, v in row.items()} for method, row in found.items()}


def _plain(values):
    return [round(float(v), 5) if np.isfinite(v) else None for v in values]


# --- settings and steps held fixed ------------------------------------------------------------------------


@contextmanager
def settings_of(standard):
    """Every choice of a setting is remembered (``standard`` empty), or taken from what is remembered."""
    replay, left = bool(standard), list(standard)
    before = trained._best_network, posthoc.chosen

    def best_network(make, settings, validation, probs):
        if replay:
            return make(left.pop(0))
        tried = {setting: make(setting) for setting in settings}
        best = trained.chosen(
            tried, lambda one: trained.log_loss(probs(tried[one], validation.images), validation)
        )
        standard.append(best)
        return tried[best]

    def chosen(settings, loss):
        best = left.pop(0) if replay else before[1](settings, loss)
        if not replay:
            standard.append(best)
        return best

    trained._best_network, posthoc.chosen = best_network, chosen
    try:
        yield standard
    finally:
        trained._best_network, posthoc.chosen = before


@contextmanager
def epochs(times):
    """So many times the epochs."""
    before = networks.BUDGET["epochs"]
    networks.BUDGET["epochs"] = times * before
    try:
        yield
    finally:
        networks.BUDGET["epochs"] = before


def held(seed):
    """Mean parts of the test digits in the standard world, and in changed ones with its settings."""
    found = {}
    for name in HELD:
        fit = leaderboard.METHODS[name].fit
        with settings_of([]) as settings:
            found.setdefault("standard", {})[name] = _parts(fit, "standard", seed)
        for world, times in CHANGED.items():
            with settings_of(settings), epochs(times):
                found.setdefault(world, {})[name] = _parts(fit, world, seed)
        found["standard"][name]["settings"] = [float(value) for value in settings]
    networks.forget()
    return found


def _parts(fit, world_name, seed):
    here = leaderboard.world(world_name, seed, "digits")
    predict = fit(here.train, here.validation, seed=seed)
    answer = leaderboard.as_answer(predict(here.test.images), len(here.test), here.classes)
    return {f"mean_{part}": float(getattr(answer, part).mean()) for part in ("aleatoric", "epistemic")}


# --- columns of other chapters ----------------------------------------------------------------------------

ATTACKED = {"max_probability": "single", "mc_dropout": "dropout", "ensemble": "ensemble",
            "laplace_sampled": "laplace"}  # fmt: skip
COLUMNS = {  # by name: title, unit, better end, where it was measured
    "pushed": (f"accuracy, the network attacked, ε = {EPSILON}", "", "max", "adversarial-inputs"),
    "pushed_itself": (f"accuracy, itself attacked, ε = {EPSILON}", "", "max", "adversarial-inputs"),
    "pushed_sure": (f"sure and wrong, itself attacked, ε = {EPSILON}", "", "min", "adversarial-inputs"),
    "asks_well": ("gain of asked labels over random ones", "points", "max", "active-learning"),
}


def columns():
    """The columns that other chapters have measured, out of their stored results."""
    runs = json.loads((RESULTS / "reproduce_adversarial.json").read_text(encoding="utf-8"))["runs"]

    def attacked(attack, figure):
        found = {}
        for method, name in ATTACKED.items():
            one = f"{'pgd' if name == 'single' else attack}, {name}"  # through the one network is on it
            if one in runs[0]["found"]:
                sweeps = [run["found"][one] for run in runs]
                at = [int(np.argmin(np.abs(np.array(s["epsilons"]) - EPSILON))) for s in sweeps]
                found[method] = [round(s[figure][k], 5) for s, k in zip(sweeps, at, strict=True)]
        return found

    loops = json.loads((RESULTS / f"{pools.SCRIPT}.json").read_text(encoding="utf-8"))["loops"]["clean"]
    gain = 100 * (pools.over_rounds(loops["batch_bald"]) - pools.over_rounds(loops["random"]))
    values = {
        "pushed": attacked("pgd", "accuracy"),
        "pushed_itself": attacked("pgd through", "accuracy"),
        "pushed_sure": attacked("pgd through", "sure and wrong"),
        "asks_well": {"mc_dropout": [round(float(v), 3) for v in gain]},
    }
    return {
        name: {"title": title, "units": units, "best": best, "source": source, "values": values[name]}
        for name, (title, units, best, source) in COLUMNS.items()
    }


# --- the page ---------------------------------------------------------------------------------------------


def reproduce(progress=True):
    """The content for JSON, the same as Markdown, and the seeds; what the package reads is stored, too."""
    found = {name: kept(SCRIPT, f"uci-{name}", lambda one=name: uci(one)) for name in TABLES}
    runs = [kept(SCRIPT, f"held-{seed}", lambda one=seed: held(one)) for seed in FEW]
    fixed = {
        world: {
            name: {figure: [run[world][name][figure] for run in runs] for figure in row}
            for name, row in runs[0][world].items()
        }
        for world in runs[0]
    }
    own = json.loads((RESULTS / "reproduce_leaderboard.json").read_text(encoding="utf-8"))
    where = {**surroundings(SCRIPT), "seeds": list(SEEDS)}
    regressions = {"figures": {**own["regression"], **found}, "provenance": where}
    replace(STORED / "regression.json", json.dumps(regressions) + "\n")
    further = {"columns": columns(), "fixed": fixed, "provenance": {**where, "seeds": list(FEW)}}
    replace(STORED / "further.json", json.dumps(further) + "\n")
    return {"uci": found, "fixed": fixed, "columns": columns()}, page(found, fixed), SEEDS


def page(found, fixed):
    """The three parts as Markdown."""
    titles = {name: method.title for name, method in leaderboard.METHODS.items()}
    arrays = {
        name: {m: {c: np.array(v, float) for c, v in row.items()} for m, row in rows.items()}
        for name, rows in found.items()
    }
    held_rows = [
        [titles[name], *(spread(_growth(fixed, name, w, p), 2) for p in PARTS for w in CHANGED)]
        for name in HELD
    ]
    beside = columns()
    other = [
        [title, *(spread(c["values"][m]) if m in c["values"] else "–" for c in beside.values())]
        for m, title in titles.items()
    ]
    return "\n\n".join(
        [
            "# Beside the leaderboard",
            "## Regression on UCI tables",
            f"{len(SEEDS)} splits of 60 %, 20 % and 20 %; CRPS and widths in standard deviations of "
            f"the targets. Of longer tables {MOST:,} rows, drawn once.",
            regression.markdown(arrays),
            "## Settings and steps held fixed",
            "Logarithm of the factor by which a mean part grows in a changed world: with the settings that "
            "the standard world chose, and with as many steps of training as there "
            f"({CHANGED['an eighth']} times the epochs for an eighth of the data). {len(FEW)} seeds.",
            markdown(["method", *(f"{p}, {w}" for p in PARTS for w in CHANGED)], held_rows, numbers=True),
            "## An attacker, and which label next",
            "From the stored results under [adversarial inputs](#adversarial-inputs) (MNIST, a convolutional "
            "network, an ensemble of three, ten steps; *the network attacked*: others answer what was made "
            "against the one network; *itself*: made against what answers) and [active "
            "learning](#active-learning) (the clean pool of digits, BatchBALD by MC-Dropout against random "
            "labels, points of accuracy, mean of ten rounds). Other networks than the leaderboard's; a dash: "
            "not measured.",
            markdown(["method", *(c["title"] for c in beside.values())], other, numbers=True),
        ]
    )


PARTS = ("aleatoric", "epistemic")


def _growth(fixed, name, world, part):
    changed, before = (np.array(fixed[w][name][f"mean_{part}"]) for w in (world, "standard"))
    return np.log(changed / before)
