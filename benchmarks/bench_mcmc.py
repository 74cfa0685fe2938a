"""Posteriors of small networks beside NUTS of BlackJAX and NumPyro: seconds for a thousand effective draws.

In each row ``ours_s`` and ``baseline_s`` are seconds of sampling for a thousand
effective draws, by the smallest bulk effective size over the predictions;
warm-up and compilation are outside of both. A baseline that is not installed
leaves its time empty (``make peers`` makes an environment that holds them).
Both peers run in the two ways there are: all chains in one ``vmap``, and one
chain after the other. ``draws`` rows compare chains in one ``vmap`` with a
Python loop over chains, both ours. The limits: the gradients alone, of all chains
at once, compiled; one for each effective draw, or one for each leapfrog step.
"""

import time

import numpy as np

from benchmarks import posterior_references as references
from benchmarks.limits import Limit, beside
from benchmarks.timing import best_of, installed
from uqhelpers import mcmc
from uqhelpers.mcmc import jax_networks

CHAINS = 4
BOUND = 2.0  # times as many effective draws a second as NUTS at its defaults
TRAJECTORIES = "a draw that depends little on the one before is many leapfrog steps away, a gradient each"
LEAPFROG = "steps also draw momenta, move positions, and accept or reject"
LOOP = {"network": 1.2, "banana": 8.0}  # times as fast as a loop over chains


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


def worth(draws, plan, places):
    """The smallest bulk effective size over the predictions of draws, shape (chains, draws, weights)."""
    flat = np.asarray(draws, np.float32).reshape(-1, draws.shape[-1])
    values = np.asarray(jax_networks.outputs_of_all(flat, places, plan), np.float64)
    values = 1 / (1 + np.exp(values[..., 0] - values[..., 1])) if values.shape[-1] == 2 else values[..., 0]
    return float(mcmc.effective_sample_size(values.reshape(*draws.shape[:2], -1)).min())


def ours(name, draws, warmup):
    """Seconds for a thousand effective draws of ours."""
    toy, plan, _, places = problem(name)
    model = references.PROBLEMS[name]["model"]
    kind = {} if toy.noise is None else {"likelihood": "gaussian", "noise": toy.noise}
    for _ in range(2):  # the first one compiles
        drawn = mcmc.network_posterior(
            *toy, **model, **kind, draws=draws, warmup=warmup, progress=False, chains=CHAINS
        ).chains
    return 1000 * drawn.seconds / worth(drawn.draws, plan, places)


def blackjax_nuts(name, draws, warmup, together, **options):
    """The same of BlackJAX's NUTS with its window adaptation."""
    import blackjax
    import jax

    _, plan, told, places = problem(name)
    density = jax_networks.density(plan)

    def log_density(position):
        return density(position, *told)

    size = jax_networks.count(plan)
    start = np.random.default_rng(0).standard_normal((CHAINS, size)).astype(np.float32)
    keys = jax.random.split(jax.random.key(0), CHAINS)
    adapt = blackjax.window_adaptation(blackjax.nuts, log_density, **options)

    def warm(key, position):
        (state, found), _ = adapt.run(key, position, num_steps=warmup)
        return state, found

    def chain(key, state, found):
        step = blackjax.nuts(log_density, **found, **options).step

        def one(state, key):
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key, draws))[1]

    states, found = jax.jit(jax.vmap(warm))(keys, start)
    if together:
        run = jax.jit(jax.vmap(chain))
        return timed(lambda: run(keys, states, found), plan, places)
    alone = jax.jit(chain)

    def each():
        parts = []
        for number in range(CHAINS):
            own = jax.tree.map(lambda leaf: leaf[number], (keys, states, found))  # noqa: B023
            parts.append(np.asarray(alone(*own)))
        return np.stack(parts)

    return timed(each, plan, places)


def numpyro_nuts(name, draws, warmup, together, **options):
    """The same of NumPyro's NUTS."""
    import jax
    from numpyro.infer import MCMC, NUTS

    _, plan, told, places = problem(name)
    density = jax_networks.density(plan)
    start = np.random.default_rng(0).standard_normal((CHAINS, jax_networks.count(plan))).astype(np.float32)
    sampler = MCMC(
        NUTS(potential_fn=lambda position: -density(position, *told), **options),
        num_warmup=warmup,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized" if together else "sequential",
        progress_bar=False,
    )
    sampler.warmup(jax.random.key(0), init_params=start)

    def run():
        sampler.post_warmup_state = sampler.post_warmup_state or sampler.last_state
        sampler.run(jax.random.key(1))
        return sampler.get_samples(group_by_chain=True)

    return timed(run, plan, places)


def timed(run, plan, places):
    """Seconds for a thousand effective draws of the second call; the first one compiles."""
    np.asarray(run())
    began = time.perf_counter()
    drawn = np.asarray(run())
    return 1000 * (time.perf_counter() - began) / worth(drawn, plan, places)


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


def in_a_loop(log_density, start, arguments, draws, **options):
    """Seconds of sampling of all chains at once, and of one chain after the other."""
    call = {"draws": draws, "warmup": 5, "arguments": arguments, "progress": False, "mass": "unit", **options}
    for _ in range(2):
        together = mcmc.sample(log_density, start, **call).seconds
        alone = [mcmc.sample(log_density, start[[m]], **call, seed=m).seconds for m in range(len(start))]
    return together, sum(alone)


def banana(theta):
    return -0.5 * theta[0] ** 2 - 2 * (theta[1] - theta[0] ** 2) ** 2


def rows(draws=400, warmup=300, problems=("moons", "gap"), banana_draws=2000):
    """Measure all; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    draws, warmup : int
        Of each chain.
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
    peers = (("BlackJAX", "blackjax", blackjax_nuts), ("NumPyro", "numpyro", numpyro_nuts))
    for name in problems:
        own = ours(name, draws, warmup)
        _, plan, told, _ = problem(name)
        density = jax_networks.density(plan)
        start = np.random.default_rng(0).standard_normal((CHAINS, jax_networks.count(plan)))
        words = "one gradient for each of a thousand draws"
        least = gradients(density, start, told, 1000 / CHAINS, words, TRAJECTORIES)
        for title, module, run in peers:
            for together in (True, False):
                how = "one vmap" if together else "chain by chain"
                theirs = run(name, draws, warmup, together) if installed(module) else None
                note = f"{CHAINS} chains of {draws} draws, defaults, {how}"
                table.append(
                    entry(f"{name}: 1,000 effective draws", own, f"{title} NUTS", theirs, note, least)
                )
        fixed = {"step_size": 0.03 if name == "moons" else 0.0025, "trajectory": 0.5, "jitter": 0.0}
        times = in_a_loop(density, start, told, draws // 2, **fixed)
        count = draws // 2 * fixed["trajectory"] / fixed["step_size"]
        least = gradients(density, start, told, count, "one gradient for each leapfrog step", LEAPFROG)
        title = f"{name}: network, fixed step"
        table.append(entry(title, times[0], "a loop over chains", times[1], "ours", least))
    start = np.random.default_rng(0).standard_normal((16, 2))
    times = in_a_loop(banana, start, (), banana_draws, step_size=0.15, trajectory=3.0)
    note = f"ours, 16 chains of {banana_draws} draws"
    words = "one gradient for each leapfrog step"
    least = gradients(banana, start, (), banana_draws * 3.0 / 0.15, words, LEAPFROG)
    return [*table, entry("banana, fixed step", times[0], "a loop over chains", times[1], note, least)]
