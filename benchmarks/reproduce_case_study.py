"""The case study's alarms: how often they ring in ten thousand quiet years, and how late after a change.

Ten draws of the parts of the table, a network each; 1,000 quiet years a network,
and 100 years of each change, at once or creeping, and of verdicts that come late,
the malignant ones sooner. Patients are drawn with replacement from the rows that
the network has not seen.
"""

import warnings

import numpy as np

from benchmarks import tables
from benchmarks.reproduce import kept
from uqhelpers import case_study, conformal, metrics, models, training

SCRIPT = "reproduce_case_study"
SEEDS = tuple(range(10))
ONSET, PATIENTS = 100, 500
CHANGES = {
    "lengths 5 % too large": ("magnification", 0.05),
    "lengths 10 % too large": ("magnification", 0.1),
    "lengths 20 % too large": ("magnification", 0.2),
    "lengths 30 % too large": ("magnification", 0.3),
    "1.6 times as many cancers": ("more cancers", 1.6),
    "hard decisions 5 times as often": ("harder patients", 5.0),
    "one verdict in twenty otherwise": ("another disease", 0.05),
    "one verdict in ten otherwise": ("another disease", 0.1),
}
CREEPING = {  # size of the change, and the patients over which it grows
    (size, ramp): f"lengths {100 * size:.0f} % too large, {f'over {ramp} patients' if ramp else 'at once'}"
    for size in (0.1, 0.2, 0.3)
    for ramp in (0, 100, 200, 400)
}
WAITS = (10, 60), (10, 200)  # patients until a verdict is known: malignant, benign
ORDERS = (
    "as they become known, from a first day on",
    "as they become known, in a running service",
    "in the order of the patients",
)
SLOW = "misfit", "gap"  # the scores that wait for verdicts


def alarms():
    """All alarms with a stated rate, by name: the score that each follows, and the alarm."""
    tenth = case_study.miss_bet(0.1, 2)
    found = {f"{s}, CUSUM": (s, case_study.Alarm(case_study.usual_bets(s))) for s in case_study.SCORES}
    found["misfit, a stake at each step"] = "misfit", case_study.Alarm(tenth, statistic="restarts")
    found["misfit, one stake for ever"] = "misfit", case_study.Alarm(tenth, statistic="wealth")
    return found


def clinic(seed):
    """The clinic of one draw of the parts: a network with a temperature, and a distance of inputs."""
    from sklearn.covariance import LedoitWolf

    rows = case_study.cancer()
    learn, choose, *unseen = case_study.split(rows.targets, seed)
    unseen = np.concatenate(unseen)
    mean, std = rows.features[learn].mean(axis=0), rows.features[learn].std(axis=0)

    def scaled(features):
        return ((features - mean) / std).astype(np.float32)

    x, y = scaled(rows.features), rows.targets
    with training.seeded(seed):
        net = models.MLP(x.shape[1], 2, (64, 64))
    training.fit(net, x[learn], y[learn], epochs=60, batch_size=32, seed=seed, progress=False)
    with warnings.catch_warnings(action="ignore"):  # without an error there is no optimum
        fitted = metrics.fit_temperature(training.predict_outputs(net, x[choose]), y[choose])
    distance = LedoitWolf().fit(x[learn]).mahalanobis

    def predict(features):
        logits = training.predict_outputs(net, scaled(features))
        return metrics.apply_temperature(logits, max(fitted, 1.0))[:, 1]

    return case_study.Clinic(
        rows.features[unseen], y[unseen] == 1, predict, lambda f: distance(scaled(f)), rows.names
    )


def one_run(seed, quiet=1000, changed=100):
    """All figures of one network: by name of the alarm the years that ring, and the delays."""
    here, watched = clinic(seed), alarms()
    years = here.years(years=quiet, onset=ONSET, patients=PATIENTS, seed=seed)
    rings = {name: watch.follow(years.ranks[s]).rings for name, (s, watch) in watched.items()}
    limits = [conformal.quantile(past, 0.1) for past in years.past["misfit"]]
    misses = years.scores["misfit"] > np.array(limits)[:, None]
    rings["a test at 5 % for each patient"] = np.array([case_study.repeated_test(m, 0.1) for m in misses])
    delays = {}
    for number, (change, (drift, size)) in enumerate(CHANGES.items()):
        simulated = here.years(drift, size, changed, PATIENTS, ONSET, seed=1000 * seed + number + 1)
        for name, (score, watch) in watched.items():
            found = watch.follow(simulated.ranks[score]).rings
            late = found[found >= ONSET] - ONSET
            delays.setdefault(name, {})[change] = [None if np.isinf(d) else int(d) for d in late]
    return {
        "quiet": {n: float(np.isfinite(r).mean()) for n, r in rings.items()},
        "delays": delays,
        "creeping": creeping(here, watched, changed, seed),
        "late": {
            str(waits): late_verdicts(here, watched, waits, quiet // 2, changed, seed) for waits in WAITS
        },
    }


def creeping(here, watched, years, seed):
    """The delays, from its beginning on, after a change that grows slowly."""
    delays = {}
    for number, ((size, ramp), name) in enumerate(CREEPING.items()):
        rng = np.random.default_rng([seed, number])
        found = here.years("magnification", size, years, PATIENTS, ONSET, seed=rng, scores=SLOW, ramp=ramp)
        for score in SLOW:
            rings = watched[f"{score}, CUSUM"][1].follow(found.ranks[score]).rings
            late = rings[rings >= ONSET] - ONSET
            delays.setdefault(score, {})[name] = [None if np.isinf(d) else int(d) for d in late]
    return delays


def as_used(known, order, first, count):
    """The places of the verdicts of a year in the order in which they are used, and when each is."""
    if order == ORDERS[2]:  # when all those of earlier patients are known, too
        places = np.arange(first, len(known))
        at = np.maximum.accumulate(known[first:])
    else:
        places = np.argsort(known, kind="stable")
        places = places[places >= (first if order == ORDERS[0] else 0)]
        at = known[places]
    inside = (at >= first) & (at < count)
    return places[inside], at[inside]


def late_verdicts(here, watched, waits, quiet, changed, seed, before=400):
    """Alarms on verdicts that come late: quiet years that ring, and delays in patients.

    In a running service ``before`` patients came earlier, whose verdicts are among
    the first to come in; the others begin with the first patient of the year.
    """
    found = {}
    for drift, size, years in (("quiet", 0.0, quiet), ("magnification", 0.2, changed)):
        rng = np.random.default_rng([seed, years, *waits])
        count = before + PATIENTS
        world = here.years(drift, size, years, count, before + ONSET, seed=rng, scores=SLOW)
        known = np.arange(count) + np.where(world.events, *waits)
        for order in ORDERS:
            for score in SLOW:
                rung = []
                for past, scores, when in zip(world.past[score], world.scores[score], known, strict=True):
                    places, at = as_used(when, order, before, count)
                    p = case_study.online_p_values(past, scores[places], rng)
                    ring = watched[f"{score}, CUSUM"][1].follow(p).rings
                    rung.append(at[int(ring)] - before if np.isfinite(ring) else np.inf)
                rung = np.array(rung)
                late = rung[rung >= ONSET] - ONSET
                figures = found.setdefault(order, {}).setdefault(score, {})
                if drift == "quiet":
                    figures["quiet"] = float(np.isfinite(rung).mean())
                else:
                    figures["delays"] = [None if np.isinf(d) else int(d) for d in late]
    return found


def reproduce(seeds=SEEDS):
    """All networks.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    runs = [kept(SCRIPT, seed, lambda seed=seed: one_run(seed)) for seed in seeds]
    return {"runs": runs}, page(runs), seeds


def page(runs):
    """The runs as Markdown."""
    names = list(runs[0]["quiet"])
    quiet = [
        [name, tables.spread([run["quiet"][name] for run in runs], 1, 100), extremes(runs, name)]
        for name in names
    ]
    head = ["alarm", "quiet years that ring (%)", "over networks (%)"]
    lines = [
        "# Alarms of the case study",
        "",
        f"{len(runs)} networks, 1,000 quiet years each, of {PATIENTS} patients; stated: at most 5 % a year. "
        "Mean ± standard deviation over networks.",
        "",
        tables.markdown(head, quiet, numbers=True),
        "",
        f"## How late, after a change at patient {ONSET}",
        "",
        "Median number of patients until it rings, and in brackets the share of years in which it does "
        f"before the end of the year, {PATIENTS - ONSET} patients later; a dash where it is less than half.",
        "",
    ]
    rows = [
        [change, *(late(runs, "delays", name, change) for name in runs[0]["delays"])]
        for change in runs[0]["delays"][names[0]]
    ]
    lines.append(tables.markdown(["change", *runs[0]["delays"]], rows, numbers=True))
    return "\n".join([*lines, "", *page_of_creeping(runs), "", *page_of_late(runs)])


def page_of_creeping(runs):
    ramps = dict.fromkeys(ramp for _, ramp in CREEPING)
    rows = [
        [f"lengths {100 * size:.0f} % too large, {score}"]
        + [late(runs, "creeping", score, CREEPING[size, ramp]) for ramp in ramps]
        for size in dict.fromkeys(size for size, _ in CREEPING)
        for score in SLOW
    ]
    head = ["change, score", *(f"over {ramp} patients" if ramp else "at once" for ramp in ramps)]
    return [
        "## A change that creeps",
        "",
        f"The same, for a microscope that goes wrong slowly, in {case_study.worlds.CREEPS} steps: counted "
        "from the first step on, CUSUM.",
        "",
        tables.markdown(head, rows, numbers=True),
    ]


def page_of_late(runs):
    rows = []
    for waits in map(str, WAITS):
        for order in ORDERS:
            row = [f"{waits[1:-1].replace(',', ' and')}, {order}"]
            for score in SLOW:
                shares = [run["late"][waits][order][score]["quiet"] for run in runs]
                row += [tables.spread(shares, 1, 100), late(runs, "late", waits, order, score, "delays")]
            rows.append(row)
    head = ["patients until a verdict is known (malignant, benign), and how verdicts are used"]
    for score in SLOW:
        head += [f"{score}: quiet years that ring (%)", f"{score}: how late"]
    return [
        "## Verdicts that come late",
        "",
        "Malignant ones are known sooner than benign ones. How late: lengths 20 % too large at once, in "
        "patients from the change on, within the same 400. 500 quiet years a network, CUSUM.",
        "",
        tables.markdown(head, rows, numbers=True),
    ]


def extremes(runs, name):
    shares = [100 * run["quiet"][name] for run in runs]
    return f"{min(shares):.1f} to {max(shares):.1f}"


def late(runs, *path):
    found = []
    for run in runs:
        for name in path:
            run = run[name]
        found += [np.inf if d is None else d for d in run]
    if not found:  # of very few years all had rung before
        return "–"
    middle, share = np.median(found), np.isfinite(found).mean()
    return f"{'–' if np.isinf(middle) else f'{middle:.0f}'} ({share:.0%})"
