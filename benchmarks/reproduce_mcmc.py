"""How far every approximation is from the posterior: small networks, where the answer is known.

First the stored references of the toy sets are made again. Then, on several
data sets of each of two problems, long chains are run, and each approximation
is measured against them: at its usual setting, and at the one of those tried
that came nearest on *other* data sets. The last row of what is measured is the
sampler itself: a second run of it, thinned to as many networks as the
approximations draw.
"""

import json

import jax
import numpy as np
from scipy.special import log_softmax, ndtr, softmax

from benchmarks import posterior_methods as methods
from benchmarks import posterior_references as references
from benchmarks.provenance import replace, surroundings
from benchmarks.reproduce import kept
from benchmarks.tables import markdown
from uqhelpers import data, mcmc, metrics
from uqhelpers.mcmc import jax_networks

SCRIPT = "reproduce_mcmc"
SEEDS = (0, 1, 2, 3, 4)
TUNING = (100, 101)
TEMPERATURE_SEEDS = range(10)
PROBLEMS = ("moons", "gap")
TEMPERATURES = (0.03, 0.1, 0.3, 1.0, 3.0)
BANDS = ("MAP", "Laplace, linearised", "mean field", "MC-Dropout", "SWAG", "ensemble of 5")
AGAIN = f"the sampler again, {methods.SAMPLES} draws"
CHOSEN_BY = "distance"  # the mean over the regions of each problem
LEVELS = np.arange(-8, 8.001, 0.04)  # of the target, for densities
STORED = references.FOLDER / "distances.json"


# --- problems and places --------------------------------------------------------------------------------


def problem_of(name, seed):
    """Toy set, arrays for the methods, and the plan of the network."""
    recipe = references.PROBLEMS[name]
    toy = references.toy_of(recipe["toy"][0], recipe["toy"][1] | {"seed": seed})
    model = recipe["model"]
    outputs, kind = (2, "categorical") if toy.noise is None else (1, "gaussian")
    sizes = (toy.inputs.shape[1], *model["hidden"], outputs)
    plan = jax_networks.plan_for(sizes, model["activation"], model["prior_std"], model["scaling"], kind)
    targets = np.eye(2)[toy.targets] if toy.noise is None else toy.targets
    arrays = (toy.inputs, targets, 1.0 if toy.noise is None else toy.noise)
    return toy, tuple(np.asarray(value, np.float32) for value in arrays), plan


def places_of(name):
    """Inputs by region: between and around the data, and far away."""
    if name == "moons":
        across, _ = references.grid_of(((-2.5, 3.5, 21), (-2.5, 3.0, 21)))
        angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        ring = np.array([0.5, 0.25]) + 10 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return {"around": across, "far": ring}
    return {
        "data": np.concatenate([np.linspace(-4, -1.5, 21), np.linspace(1.5, 4, 21)])[:, None],
        "gap": np.linspace(-1.5, 1.5, 41)[1:-1, None],
        "far": np.concatenate([np.linspace(-8, -5, 21), np.linspace(5, 8, 21)])[:, None],
    }


def held_out(name, seed, n=300):
    """New points of the same law; of the sine, those of the gap as well."""
    of, arguments = references.held_out_of(*references.PROBLEMS[name]["toy"], n)
    return references.toy_of(of, arguments | {"seed": 10_000 + seed})


def shifted(new, angle=np.pi / 6):
    """New points, turned around the middle of the moons: the labels stay, the law moves."""
    middle, turn = (
        np.array([0.5, 0.25]),
        np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]),
    )
    return middle + (new.inputs - middle) @ turn.T


def posterior_of(name, seed, again=0):
    """A long run of the sampler."""
    recipe = references.PROBLEMS[name]
    toy = references.toy_of(recipe["toy"][0], recipe["toy"][1] | {"seed": seed})
    return references.drawn(
        recipe | {"toy": (recipe["toy"][0], recipe["toy"][1] | {"seed": seed})},
        seed=10 * seed + again, progress=False,
    )[1], toy  # fmt: skip


# --- figures --------------------------------------------------------------------------------------------


def density(values, noise):
    """Predictive density over the levels of the target, shape (N, levels), from values (S, N)."""
    edges = np.append(LEVELS - 0.02, LEVELS[-1] + 0.02)
    total = np.zeros((values.shape[1], len(LEVELS)))
    for some in np.array_split(values, max(1, len(values) // 100)):
        below = ndtr((edges - some[..., None]) / noise)
        total += np.diff(below, axis=-1).sum(axis=0)
    return total / len(values)


def apart(ours, theirs):
    """Total variation of two predictive distributions, input by input."""
    return 1 - np.minimum(ours, theirs).sum(axis=-1)


def summary(name, outputs, new, noise):
    """What sampled outputs say in each region and of new points: all that is compared."""
    found = {}
    for region, values in outputs.items():
        if name == "moons":
            probs = softmax(values, axis=-1)
            found[region] = {"law": probs.mean(axis=0), "spread": metrics.mutual_information(probs)}
        else:
            spread = values[..., 0].std(axis=0)
            found[region] = {"law": density(values[..., 0], noise), "spread": spread}
    values = outputs["new"]
    if name == "moons":
        averaged = np.log(np.exp(log_softmax(values, axis=-1)).mean(axis=0))
        found["nll"] = float(-np.take_along_axis(averaged, new.targets[:, None], axis=1).mean())
        found["right"] = float((averaged.argmax(axis=1) == new.targets).mean())
        turned = np.log(np.exp(log_softmax(outputs["turned"], axis=-1)).mean(axis=0))
        found["nll, turned"] = float(-np.take_along_axis(turned, new.targets[:, None], axis=1).mean())
        found["right, turned"] = float((turned.argmax(axis=1) == new.targets).mean())
    else:
        law = density(values[..., 0], noise)
        level = np.abs(LEVELS - new.targets).argmin(axis=1)
        rows = np.arange(len(new))
        at = -np.log(np.maximum(law[rows, level] / 0.04, 1e-12))
        below = law.cumsum(axis=1)[rows, level]
        inside = np.abs(new.inputs[:, 0]) < 1.5
        covered = (below > 0.025) & (below < 0.975)
        found["nll"] = float(at[~inside].mean())
        found["nll in the gap"] = float(at[inside].mean())
        found["coverage"] = float(covered[~inside].mean())
        found["coverage in the gap"] = float(covered[inside].mean())
    return found


def figures(name, ours, reference):
    """Distances and figures of one method on one data set."""
    regions = places_of(name)
    row = {key: value for key, value in ours.items() if isinstance(value, float)}
    for region in regions:
        row[f"distance, {region}"] = float(apart(ours[region]["law"], reference[region]["law"]).mean())
        row[f"spread, {region}"] = float(ours[region]["spread"].mean())
        if name == "moons":
            same = ours[region]["law"].argmax(axis=1) == reference[region]["law"].argmax(axis=1)
            row[f"same class, {region}"] = float(same.mean())
    row[CHOSEN_BY] = float(np.mean([row[f"distance, {region}"] for region in regions]))
    return row


# --- runs -----------------------------------------------------------------------------------------------


def one_run(name, seed, chosen=None):
    """All methods on one data set: every setting, or the usual and the chosen one."""
    toy, problem, plan = problem_of(name, seed)
    new = held_out(name, seed)
    regions = places_of(name)
    inputs = {**regions, "new": new.inputs}
    if name == "moons":
        inputs["turned"] = shifted(new)
    ends = np.cumsum([len(values) for values in inputs.values()])[:-1]
    every = np.concatenate(list(inputs.values())).astype(np.float32)

    def parted(values):
        return dict(zip(inputs, np.split(values, ends, axis=1), strict=True))

    def told(values):
        return summary(name, parted(values), new, toy.noise)

    posterior, _ = posterior_of(name, seed)
    drawn = posterior.sample_outputs(every)
    chains = np.asarray(softmax(drawn, axis=-1)[..., 1] if name == "moons" else drawn[..., 0])
    by_chain = chains.reshape(4, -1, len(every))
    reference = told(drawn)
    rows = {"the posterior": [figures(name, reference, reference)]}
    hats = mcmc.r_hat(by_chain)
    worth = float(mcmc.effective_sample_size(by_chain).min())
    checks = {
        "r_hat": float(hats.max()),
        "share of r_hat up to 1.01": float(np.mean(hats <= 1.01)),
        "effective": worth,
        "divergences": int(mcmc.divergences(posterior.chains).sum()),
        "r_hat of the weights": float(mcmc.r_hat(posterior.chains.draws).max()),
        "seconds": posterior.chains.warmup_seconds + posterior.chains.seconds,
        "gradients": posterior.chains.gradients,
    }
    other, _ = posterior_of(name, seed, again=1)
    few = np.linspace(0, len(other.weights) - 1, methods.SAMPLES).round().astype(int)
    rows[AGAIN] = [figures(name, told(other.sample_outputs(every)[few]), reference)]
    for number, method in enumerate(methods.METHODS):
        tried, usual = methods.settings_of(method)
        wanted = range(len(tried)) if chosen is None else sorted({usual, chosen[method]})
        rows[method] = [None] * len(tried)
        for which in wanted:
            key = jax.random.key(1000 * seed + number)
            values = methods.run(method, tried[which], key, problem, every, plan)
            if np.isfinite(values).all():
                rows[method][which] = figures(name, told(values), reference)
    return {"checks": checks, "rows": rows}


def temperatures(seed):
    """Likelihood of new points under posteriors to a power, one over the temperature; the moons."""
    recipe = references.PROBLEMS["moons"]
    toy, _, _ = problem_of("moons", seed)
    new, found = held_out("moons", seed), {}
    for temperature in TEMPERATURES:
        posterior = mcmc.network_posterior(
            *toy, temperature=temperature, seed=seed, progress=False, **recipe["model"], warmup=600
        )
        probs = posterior.sample(new.inputs)
        hats = mcmc.r_hat(probs[..., 1].reshape(4, -1, len(new)))
        nll = metrics.negative_log_likelihood(probs.mean(axis=0), new.targets)
        turned = posterior.sample(shifted(new)).mean(axis=0)
        moved = metrics.negative_log_likelihood(turned, new.targets)
        found[str(temperature)] = {"nll": float(nll), "nll, turned": float(moved), "r_hat": float(hats.max())}
    return found


def bands():
    """Mean and standard deviation of a new observation along the gap, by some methods as usually set."""
    toy, problem, plan = problem_of("gap", 0)
    x = np.linspace(-6, 6, 121, dtype=np.float32)[:, None]
    found = {"x": x[:, 0].tolist()}
    for number, method in enumerate(BANDS):
        tried, usual = methods.settings_of(method)
        values = methods.run(method, tried[usual], jax.random.key(number), problem, x, plan)[..., 0]
        total = np.sqrt(values.var(axis=0) + toy.noise**2)
        found[method] = [[rounded(v) for v in row] for row in (values.mean(axis=0), total)]
    return found


def best_settings(runs):
    """For each method the setting that is nearest on average over data sets; one that ever fails is none."""
    found = {}
    for method in methods.METHODS:
        tried, _ = methods.settings_of(method)
        far = [
            np.mean(
                [
                    np.inf if run["rows"][method][i] is None else run["rows"][method][i][CHOSEN_BY]
                    for run in runs
                ]
            )
            for i in range(len(tried))
        ]
        found[method] = int(np.argmin(far))
    return found


def reproduce(seeds=SEEDS, tuning=TUNING):
    """References, tuning, measurement.

    Returns
    -------
    dict, str, tuple of int
        The figures of each problem, a Markdown page, and the seeds.
    """
    checked = {
        name: kept(SCRIPT, f"reference-{name}", lambda name=name: references.make(name, SCRIPT))
        for name in data.REFERENCES
    }
    problems = {}
    for name in PROBLEMS:
        on = [kept(SCRIPT, f"{name}-tuning-{s}", lambda n=name, s=s: one_run(n, s)) for s in tuning]
        chosen = best_settings(on)
        runs = [kept(SCRIPT, f"{name}-{s}", lambda n=name, s=s, c=chosen: one_run(n, s, c)) for s in seeds]
        problems[name] = {
            "settings": {
                method: {
                    "usual": methods.settings_of(method)[0][methods.settings_of(method)[1]],
                    "chosen": methods.settings_of(method)[0][chosen[method]],
                }
                for method in methods.METHODS
            },
            "checks": [run["checks"] for run in runs],
            "usual": table(runs, {m: methods.settings_of(m)[1] for m in methods.METHODS}),
            "chosen": table(runs, chosen),
        }
    by_temperature = [
        kept(SCRIPT, f"temperatures-{s}", lambda s=s: temperatures(s)) for s in TEMPERATURE_SEEDS
    ]
    cold = {
        t: {key: [rounded(run[t][key]) for run in by_temperature] for key in by_temperature[0][t]}
        for t in by_temperature[0]
    }
    drawn = kept(SCRIPT, "bands", bands)
    content = {"references": checked, "problems": problems, "temperatures": cold, "bands": drawn}
    about = {**surroundings(SCRIPT), "seeds": list(seeds), "tuning": list(tuning)}
    replace(STORED, json.dumps({"about": about, **problems, "temperatures": cold, "bands": drawn}) + "\n")
    return content, page(content, len(seeds)), seeds


def table(runs, which):
    """Figures by method, each a list with one entry a data set."""
    found = {}
    for method in runs[0]["rows"]:
        rows = [run["rows"][method][which.get(method, 0)] for run in runs]
        keys = next((row for row in rows if row is not None), {})
        found[method] = {key: [None if row is None else rounded(row[key]) for row in rows] for key in keys}
    return found


def rounded(value, digits=5):
    """Few digits: more are no information."""
    return float(f"{value:.{digits}g}")


COLUMNS = {
    "moons": (
        "distance, around", "distance, far", "same class, around", "spread, around", "spread, far", "nll",
        "nll, turned",
    ),
    "gap": (
        "distance, data", "distance, gap", "distance, far", "spread, gap", "spread, far",
        "nll", "nll in the gap", "coverage in the gap",
    ),
}  # fmt: skip


def page(content, sets):
    """The content as Markdown."""
    lines = [
        "# How far every approximation is from the posterior",
        "",
        f"Means ± standard deviations over {sets} data sets. Distance: total variation of the predictive "
        "distributions, averaged over inputs of the region. Spread: mutual information in nats (moons), or "
        "the standard deviation of the function (gap). A dash: the setting failed on a data set.",
    ]
    for name, found in content["problems"].items():
        worst = max(check["r_hat"] for check in found["checks"])
        lines += ["", f"## {name}", "", f"Largest R̂ of a prediction of the reference: {worst:.4f}."]
        for kind in ("usual", "chosen"):
            rows = []
            for method, row in found[kind].items():
                setting = found["settings"].get(method, {}).get(kind, {})
                words = ", ".join(f"{key} {value}" for key, value in setting.items())
                cells = [spread(row.get(column, [None])) for column in COLUMNS[name]]
                rows.append([method, words, *cells])
            head = ["method", "setting", *COLUMNS[name]]
            lines += ["", f"### {kind} setting", "", markdown(head, rows, numbers=True, words=2)]
    rows = []
    for t, row in content["temperatures"].items():
        cells = [spread(row["nll"]), spread(row["nll, turned"]), f"{max(row['r_hat']):.4f}"]
        rows.append([t, *cells])
    head = ["temperature", "NLL", "NLL, turned", "largest R̂"]
    lines += ["", "## Temperature (moons)", "", markdown(head, rows, numbers=True, words=0)]
    return "\n".join(lines)


def spread(values):
    """Mean ± standard deviation, or a dash."""
    if any(value is None for value in values):
        return "–"
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
