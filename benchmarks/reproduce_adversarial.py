"""The attack sweep of a course notebook on MNIST, and what it leaves out: many steps, other predictors.

The notebook attacks the first 2,000 test images with one step of the gradient's
sign and asks MC-Dropout's entropy whether it notices. Here the same attack is
followed by ten steps of projected gradient descent, the same inputs are put to
one network, to MC-Dropout, to an ensemble and to a Laplace approximation, each of
them is also attacked through itself, and the notebook's slip (from the second
budget on the attack meets a network whose dropout was left on) is made and undone.
"""

import functools

import numpy as np

from benchmarks.reproduce import kept
from benchmarks.tables import markdown, spread
from uqhelpers import adversarial, data, laplace, mc_dropout, metrics, models, training
from uqhelpers._torch import torch

SCRIPT = "reproduce_adversarial"
SEEDS = (0, 1, 2, 3, 4)
EPOCHS = 3
BATCH = 128
MEAN, STD = 0.1307, 0.3081  # of MNIST's training pixels
INPUTS = 2_000
EPSILONS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
PUBLISHED_EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.3)
THROUGH = (0.0, 0.1, 0.2, 0.3)  # of the attacks that know what answers
PASSES, STEPS, MASKS, TRIPLE = 20, 10, 10, 3
SURE = 0.9
PREDICTORS = {
    "dropout": f"MC-Dropout, {PASSES} passes",
    "single": "one network",
    "ensemble": f"ensemble of {TRIPLE}",
    "laplace": f"Laplace, last layer, {PASSES} samples",
}
ATTACKS = {
    "fgsm": "one step (FGSM) on the network",
    "pgd": f"{STEPS} steps (PGD) on the network",
    "slip": "one step on the network with its dropout left on",
    "signs": "random signs",
    "fgsm through": "one step through what answers",
    "pgd through": f"{STEPS} steps through what answers",
}


def simple_net(seed):
    """The network, untrained; it standardises inside."""
    with training.seeded(seed):
        return models.SimpleNet(mean=MEAN, std=STD)


def trained_weights(seed, train, epochs):
    """Weights after training, in double precision's decimals."""
    net = simple_net(seed)
    training.fit(net, train.images, train.labels, epochs=epochs, batch_size=BATCH, seed=seed)
    return {name: value.tolist() for name, value in net.cpu().state_dict().items()}


def with_weights(weights):
    """A network with the weights that were kept."""
    net = simple_net(0)
    net.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    return net.eval()


def random_signs(seed, images, labels, epsilon):
    """As far as the attack and as blind as can be."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=images.shape)
    return np.clip(images + epsilon * signs, 0, 1).astype(np.float32)


def predictors(net, members, posterior, seed):
    """From images to sampled probabilities, by name; masks and weights that no attack has seen."""
    return {
        "dropout": functools.partial(mc_dropout.predict, net, passes=PASSES, seed=1000 + seed),
        "single": functools.partial(training.predict, net),
        "ensemble": lambda x: np.stack([training.predict(member, x) for member in members]),
        "laplace": lambda x: posterior.sample(x, PASSES, seed=1000 + seed),
    }


def one_run(net, members, posterior, seed, images, labels, epsilons=EPSILONS, through=THROUGH):
    """All figures of one network.

    Parameters
    ----------
    net : torch.nn.Module
    members : list of torch.nn.Module
        The ensemble, ``net`` among them.
    posterior : uqhelpers.laplace.LastLayerLaplace
        Of ``net``, fitted.
    seed : int
        Of masks, starts and weights.
    images, labels : array
        What is attacked.
    epsilons, through : sequence of float
        Budgets in pixels, of the plain attacks and of those through the predictor.

    Returns
    -------
    dict
        By attack and predictor: lists over the budgets.
    """
    ask = predictors(net, members, posterior, seed)
    attacks = {
        "fgsm": functools.partial(adversarial.fgsm, net),
        "pgd": functools.partial(adversarial.pgd, net, steps=STEPS, seed=seed),
        "slip": functools.partial(adversarial.fgsm, net, passes=1, seed=seed),
        "signs": functools.partial(random_signs, seed),
    }
    found = {}
    for name, attack in attacks.items():
        for predictor, run in adversarial.sweep(attack, ask, images, labels, epsilons).items():
            found[f"{name}, {predictor}"] = figures(run)
    knowing = {
        "dropout": {"model": net, "passes": MASKS, "seed": seed},
        "ensemble": {"model": members},
    }
    for predictor, settings in knowing.items():
        for name, attack in (("fgsm", adversarial.fgsm), ("pgd", adversarial.pgd)):

            def informed(x, y, epsilon, attack=attack, settings=settings, name=name):
                more = {"steps": STEPS} if name == "pgd" else {}
                return attack(inputs=x, labels=y, epsilon=epsilon, **settings, **more)

            run = adversarial.sweep(informed, ask[predictor], images, labels, through)
            found[f"{name} through, {predictor}"] = figures(run)
    return found


def figures(run):
    """What is stored of a sweep; quartiles and whiskers stand for the box plots."""
    wrong = [run.total[row][wrong].tolist() for row, wrong in enumerate(run.wrong)]
    return {
        "epsilons": run.epsilons.tolist(),
        "accuracy": run.accuracy.tolist(),
        "entropy": run.total.mean(axis=1).tolist(),
        "entropy sd": run.total.std(axis=1).tolist(),
        "aleatoric": run.aleatoric.mean(axis=1).tolist(),
        "epistemic": run.epistemic.mean(axis=1).tolist(),
        "sure and wrong": run.sure_and_wrong(SURE).tolist(),
        "entropy of wrong answers": [float(np.mean(row)) if row else None for row in wrong],
        "box": [box(row) for row in run.total],
    }


def box(values):
    """Lower whisker, quartiles, upper whisker: the last values within 1.5 interquartile ranges."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    reach = 1.5 * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    return [float(value) for value in (inside.min(), low, middle, high, inside.max())]


def reproduce(seeds=SEEDS):
    """The sweep, each seed.

    Returns
    -------
    dict, str, tuple of int
        The figures of each run, a Markdown page, and the seeds.
    """
    images = data.load("mnist")
    weights = [
        kept(SCRIPT, f"{seed}-weights", lambda seed=seed: trained_weights(seed, images.train, EPOCHS))
        for seed in seeds
    ]
    nets = [with_weights(one) for one in weights]
    few = images.test[:INPUTS]

    def run(place, seed):
        members = [nets[(place + i) % len(nets)] for i in range(TRIPLE)]
        posterior = laplace.LastLayerLaplace(nets[place]).fit(images.train.images, images.train.labels)
        posterior.tune_prior_precision()
        found = one_run(nets[place], members, posterior, seed, few.images, few.labels)
        clean = metrics.accuracy(training.predict(nets[place], images.test.images), images.test.labels)
        return {"accuracy": clean, "found": found}

    runs = [
        kept(SCRIPT, f"{seed}-figures-of-{len(seeds)}", lambda place=place, seed=seed: run(place, seed))
        for place, seed in enumerate(seeds)
    ]
    return {"runs": runs}, page(runs), seeds


def column(runs, row, key):
    """One figure of all runs, shape (runs, budgets)."""
    return np.array([run["found"][row][key] for run in runs], dtype=float)


def page(runs):
    """The runs as Markdown."""
    clean = spread([run["accuracy"] for run in runs], 4)
    lines = [
        "# MNIST, SimpleNet: attacked",
        "",
        f"Mean ± standard deviation over {len(runs)} networks (seeds), {EPOCHS} epochs; accuracy on all test "
        f"images {clean}. The first {INPUTS:,} of them are attacked. ε "
        f"counts in pixels from 0 to 1, and below it in units of pixels standardised by {MEAN} and {STD}. "
        "Entropies in nats: the mean over the inputs, and (in brackets) their standard deviation among the "
        f"inputs. *Sure and wrong*: the share of inputs whose answer is wrong and at least {SURE:.0%} sure. "
        f"Ensembles are {TRIPLE} of the networks, overlapping from row to row, so that their spread is too "
        f"small. Attacks through MC-Dropout draw {MASKS} new masks an input in each step.",
    ]
    for name, label in ATTACKS.items():
        lines += ["", f"## {label[0].upper()}{label[1:]}"]
        for predictor, words in PREDICTORS.items():
            row = f"{name}, {predictor}"
            if row in runs[0]["found"]:
                lines += ["", f"### {words}", "", table(runs, row)]
    return "\n".join(lines)


def table(runs, row):
    """One attack on one predictor: a line for each budget."""
    epsilons = runs[0]["found"][row]["epsilons"]
    head = ["ε, pixels", "ε, standardised", "accuracy", "entropy (among inputs)"]
    head += ["aleatoric", "epistemic", "sure and wrong"]
    lines = []
    for place, epsilon in enumerate(epsilons):
        values = {
            key: column(runs, row, key)[:, place]
            for key in ("accuracy", "entropy", "entropy sd", "aleatoric", "epistemic", "sure and wrong")
        }
        within = f"({values['entropy sd'].mean():.2f})"
        line = [
            f"{epsilon:g}",
            f"{epsilon / STD:.4f}",
            spread(values["accuracy"]),
            f"{spread(values['entropy'])} {within}",
            spread(values["aleatoric"]),
            spread(values["epistemic"]),
            spread(values["sure and wrong"]),
        ]
        lines.append(line)
    return markdown(head, lines)
