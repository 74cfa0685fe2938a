"""Posteriors of small networks beside NUTS of BlackJAX and NumPyro: seconds for a thousand effective draws.

In each of the first rows ``ours_s`` and ``baseline_s`` are seconds of sampling for
a thousand effective draws, by the smallest bulk effective size over the
predictions; warm-up and compilation are outside of both. All start at the same
draws from the prior and warm up equally long. Both peers run in the two ways
there are: all chains in one ``vmap``, and one chain after the other; at their
defaults, and with the depth of their trees at the best of three. A baseline that
is not installed leaves its time empty (``make peers`` makes an environment that
holds them). ``apart`` says how far their predictions are from ours, as the root
of the mean square over the places, in standard errors.

The last rows compare chains in one ``vmap`` with a Python loop over chains, both
ours. The limits: the gradients alone, of all chains at once, compiled; one for
each effective draw, or one for each leapfrog step.
"""

import dataclasses
import importlib.metadata
import time

import numpy as np

from benchmarks import posterior_references as references
from benchmarks.limits import Limit, beside
from benchmarks.timing import best_of, installed
from uqhelpers import mcmc
from uqhelpers.mcmc import jax_networks

CHAINS = 4
BOUND = 2.0  # times as many effective draws a second as NUTS at its defaults
LOOP = {"network": 1.2, "banana": 8.0}  # times as fast as a loop over chains
DEPTHS = {"moons": (5, 6, 7), "gap": (6, 7, 8)}  # of trees of at most 2^depth - 1 steps; the default is 10
TUNED = ("blackjax",)  # in which library: the other one's trees are the same
TOGETHER, ALONE = "one vmap", "chain by chain"
TRAJECTORIES = "a draw that depends little on the one before is many leapfrog steps away, a gradient each"
LEAPFROG = "steps also draw momenta, move positions, and accept or reject"


@dataclasses.dataclass
class Drawn:
    """What a sampler drew, in how long, and how long its trajectories were."""

    draws: np.ndarray  # (chains, draws, weights)
    seconds: float
    steps: float  # leapfrog steps a draw, on average


# --- the problems -------------------------------------------------------------------------------------------


def problem(name):
    """Toy set, plan, arguments of the density and inputs to predict at."""
    recipe = references.PROBLEMS[name]
    toy, model = references.toy_of(*recipe["toy"]), recipe["model"]
    classes = toy.noise is None
    sizes = (toy.inputs.shape[1], *model["hidden"], 2 if classes else 1)
    kind = "categorical" if classes else "gaussian"
    plan = jax_networks.plan_for(sizes, model["activation"], model["prior_std"], model["scaling"], kind)
    targets = np.eye(2)[toy.targets] if classes else toy.targets
    told = (toy.inputs, targets, toy.noise or 1.0, 1.0)
    places, _ = references.grid_of([(low, high, 12) for low, high, _ in recipe["grid"]])
    return toy, plan, tuple(np.asarray(value, np.float32) for value in told), places.astype(np.float32)


def starts(plan, seed):
    """Where all samplers begin: the same draws from the prior as ``network_posterior`` takes."""
    return np.random.default_rng([seed, 17]).standard_normal((CHAINS, jax_networks.count(plan)))


def predicted(drawn, name):
    """Predictions at the places, shape (chains, draws, places)."""
    _, plan, _, places = problem(name)
    draws = np.asarray(drawn.draws, np.float32)
    values = jax_networks.outputs_of_all(draws.reshape(-1, draws.shape[-1]), places, plan)
    values = np.asarray(values, np.float64)
    values = 1 / (1 + np.exp(values[..., 0] - values[..., 1])) if values.shape[-1] == 2 else values[..., 0]
    return values.reshape(*draws.shape[:2], -1)


def price(runs, name):
    """Seconds for a thousand effective draws, of the runs of all seeds together."""
    worth = [mcmc.effective_sample_size(predicted(run, name)).min() for run in runs]
    return 1000 * sum(run.seconds for run in runs) / sum(worth)


def apart(runs, others, name):
    """How far the mean predictions of two samplers are apart, in standard errors, and absolutely at most."""
    values = [np.concatenate([predicted(run, name) for run in some]) for some in (runs, others)]
    away = values[0].mean(axis=(0, 1)) - values[1].mean(axis=(0, 1))
    error = np.hypot(*(mcmc.monte_carlo_error(some) for some in values))
    return float(np.sqrt(np.mean((away / error) ** 2))), float(np.abs(away).max())


# --- the samplers -------------------------------------------------------------------------------------------


def ours(name, draws, warmup, seed):
    """The chains of the package, as a call without further arguments draws them."""
    toy, *_ = problem(name)
    model = references.PROBLEMS[name]["model"]
    kind = {} if toy.noise is None else {"likelihood": "gaussian", "noise": toy.noise}
    call = {**model, **kind, "chains": CHAINS, "progress": False, "seed": seed, "warmup": warmup}
    mcmc.network_posterior(*toy, **call, draws=draws)  # compiles
    drawn = mcmc.network_posterior(*toy, **call, draws=draws).chains
    return Drawn(drawn.draws, drawn.seconds, float(drawn.steps.mean()))


def blackjax_nuts(name, draws, warmup, seed, depth=10):
    """BlackJAX's NUTS after its window adaptation, in both ways of running it."""
    import blackjax
    import jax

    _, plan, told, _ = problem(name)
    density = jax_networks.density(plan)

    def log_density(position):
        return density(position, *told)

    start = starts(plan, seed).astype(np.float32)
    keys = jax.random.split(jax.random.key(seed), CHAINS)
    adapt = blackjax.window_adaptation(blackjax.nuts, log_density, max_num_doublings=depth)

    def warm(key, position):
        (state, found), _ = adapt.run(key, position, num_steps=warmup)
        return state, found["step_size"], found["inverse_mass_matrix"]

    def chain(key, state, step_size, inverse_mass):
        nuts = blackjax.nuts(log_density, step_size, inverse_mass, max_num_doublings=depth)

        def one(state, key):
            state, told = nuts.step(key, state)
            return state, (state.position, told.num_integration_steps)

        return jax.lax.scan(one, state, jax.random.split(jax.random.fold_in(key, 1), draws))[1]

    given = (keys, *jax.jit(jax.vmap(warm))(keys, start))
    each = [jax.tree.map(lambda leaf, m=m: leaf[m], given) for m in range(CHAINS)]
    together = jax.jit(jax.vmap(chain)).lower(*given).compile()
    alone = jax.jit(chain).lower(*each[0]).compile()

    def stacked():
        parts = [[np.asarray(value) for value in alone(*own)] for own in each]
        return [np.stack(some) for some in zip(*parts, strict=True)]

    ways = {TOGETHER: lambda: [np.asarray(value) for value in together(*given)], ALONE: stacked}
    return {way: timed(run) for way, run in ways.items()}


def numpyro_nuts(name, draws, warmup, seed, depth=10):
    """NumPyro's NUTS, in both ways of running it.

    Its kernel is compiled here: ``MCMC.run`` compiles again in every call, which would be timed.
    """
    import jax
    from numpyro.infer import MCMC, NUTS

    _, plan, told, _ = problem(name)
    density = jax_networks.density(plan)
    start = starts(plan, seed).astype(np.float32)

    def warmed(chains, steps, start):
        kernel = NUTS(potential_fn=lambda position: -density(position, *told), max_tree_depth=depth)
        own = {"num_warmup": steps, "num_samples": draws, "num_chains": chains, "progress_bar": False}
        sampler = MCMC(kernel, chain_method="vectorized", **own)
        sampler.warmup(jax.random.key(seed), init_params=start)

        def chain(state):
            def one(state, _):
                state = kernel.sample(state, (), {})
                return state, (state.z, state.num_steps)

            return jax.lax.scan(one, state, length=draws)[1]

        return chain, sampler.post_warmup_state

    chains, given = warmed(CHAINS, warmup, start)
    single, _ = warmed(1, 1, start[0])
    each = [jax.tree.map(lambda leaf, m=m: leaf[m], given) for m in range(CHAINS)]
    together = jax.jit(chains).lower(given).compile()
    alone = jax.jit(single).lower(each[0]).compile()

    def at_once():
        return [np.swapaxes(np.asarray(value), 0, 1) for value in together(given)]

    def stacked():
        parts = [[np.asarray(value) for value in alone(own)] for own in each]
        return [np.stack(some) for some in zip(*parts, strict=True)]

    return {way: timed(run) for way, run in {TOGETHER: at_once, ALONE: stacked}.items()}


def timed(run):
    """What a compiled sampler draws, and in how long."""
    began = time.perf_counter()
    draws, steps = run()
    return Drawn(draws, time.perf_counter() - began, float(steps.mean()))


# --- rows ---------------------------------------------------------------------------------------------------


def gradients(log_density, start, arguments, count, words, why):
    """So many gradients of the density, one after the other, of all chains at once, and nothing else."""
    import jax

    slope = jax.vmap(jax.grad(lambda position: log_density(position, *arguments)))
    some = min(int(np.ceil(count)), 1000)  # the rest takes as long

    @jax.jit
    def run(position):
        # A step of no length: the next gradient has to wait for this one.
        return jax.lax.scan(lambda at, _: (at + 1e-9 * slope(at), None), position, length=some)[0]

    start = np.asarray(start, np.float32)
    jax.block_until_ready(run(start))  # compiles
    return Limit(words, lambda: jax.block_until_ready(run(start)), count / some, why)


def entry(name, own, baseline, theirs, note, limit):
    """One row, as ``timing.row`` makes them."""
    made = {
        "name": name,
        "ours_s": own,
        "baseline": baseline,
        "baseline_s": theirs,
        "ratio": None if theirs is None else own / theirs,
        "note": note if theirs is not None else f"{note}; baseline not installed",
    }
    return beside(made, limit, limit.times * best_of(limit.work, 3))


def beside_nuts(name, draws, warmup, seeds, limit):
    """Rows of one problem: ours beside both peers, in both ways, at their defaults and tuned."""
    size = f"{CHAINS} chains of {draws} draws, {len(seeds)} seeds"
    own = [ours(name, draws, warmup, seed) for seed in seeds]
    cost, title = price(own, name), f"{name}: 1,000 effective draws"
    about = f"{size}, {np.mean([run.steps for run in own]):.0f} leapfrog steps a draw, theirs"
    for library, module, run in (
        ("BlackJAX", "blackjax", blackjax_nuts),
        ("NumPyro", "numpyro", numpyro_nuts),
    ):
        if not installed(module):
            for way in (TOGETHER, ALONE):
                yield entry(title, cost, f"{library} NUTS, {way}", None, size, limit)
            continue
        library = f"{library} {importlib.metadata.version(module)} NUTS"
        usual = [run(name, draws, warmup, seed) for seed in seeds]
        tried = {
            depth: [run(name, draws, warmup, seed, depth=depth) for seed in seeds]
            for depth in (DEPTHS[name] if module in TUNED else ())
        }
        for way in (TOGETHER, ALONE):
            prices = {depth: price([some[way] for some in runs], name) for depth, runs in tried.items()}
            shown = [(usual, "defaults")]
            if tried:
                best = min(prices, key=prices.get)
                shown.append((tried[best], f"best depth ({best}) of {DEPTHS[name]}"))
            for runs, kind in shown:
                theirs = [some[way] for some in runs]
                away, most = apart(own, theirs, name)
                note = (
                    f"{kind}; {about} {np.mean([one.steps for one in theirs]):.0f}; predictions "
                    f"{away:.2f} standard errors apart (root mean square), at most {most:.3f}"
                )
                made = entry(title, cost, f"{library}, {way}", price(theirs, name), note, limit)
                yield made | {"problem": name, "settings": kind.split(" (")[0], "way": way, "apart": away}


def in_a_loop(log_density, start, arguments, draws, **options):
    """Seconds of sampling of all chains at once, and of one chain after the other."""
    call = {"draws": draws, "warmup": 5, "arguments": arguments, "progress": False, "mass": "unit", **options}
    for _ in range(2):
        together = mcmc.sample(log_density, start, **call).seconds
        alone = [mcmc.sample(log_density, start[[m]], **call, seed=m).seconds for m in range(len(start))]
    return together, sum(alone)


def banana(theta):
    return -0.5 * theta[0] ** 2 - 2 * (theta[1] - theta[0] ** 2) ** 2


def rows(draws=400, warmup=300, seeds=(0, 1), problems=("moons", "gap"), banana_draws=2000):
    """Measure all; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    draws, warmup : int
        Of each chain.
    seeds : sequence of int
        Each sampler draws once from each; times and effective sizes are added.
    problems : sequence of str
        Which networks.
    banana_draws : int

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline) and ``note``.
    """
    table = []
    for name in problems:
        _, plan, told, _ = problem(name)
        density, start = jax_networks.density(plan), starts(plan, 0)
        words = "one gradient for each of a thousand draws"
        least = gradients(density, start, told, 1000 / CHAINS, words, TRAJECTORIES)
        table += beside_nuts(name, draws, warmup, seeds, least)
        fixed = {"step_size": 0.03 if name == "moons" else 0.0025, "trajectory": 0.5, "jitter": 0.0}
        times = in_a_loop(density, start, told, draws // 2, **fixed)
        count = draws // 2 * fixed["trajectory"] / fixed["step_size"]
        least = gradients(density, start, told, count, "one gradient for each leapfrog step", LEAPFROG)
        title = f"{name}: network, fixed step"
        table.append(entry(title, times[0], "a loop over chains", times[1], f"ours, {CHAINS} chains", least))
    start = np.random.default_rng(0).standard_normal((16, 2))
    times = in_a_loop(banana, start, (), banana_draws, step_size=0.15, trajectory=3.0)
    note = f"ours, 16 chains of {banana_draws} draws"
    words = "one gradient for each leapfrog step"
    least = gradients(banana, start, (), banana_draws * 3.0 / 0.15, words, LEAPFROG)
    return [*table, entry("banana, fixed step", times[0], "a loop over chains", times[1], note, least)]
