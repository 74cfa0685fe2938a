"""Attacks on many images, beside foolbox in the same run; a step through many masks beside plain passes.

In each row ``ratio`` is our time over the baseline's: below 1 we are faster. A
baseline that is not installed leaves its time empty (``make peers`` makes an
environment that holds it). Both get the same network, the same batches and one
thread, and the notes say how far the attacked images are apart. The last row
compares a step of the attack through twenty masks, which runs what comes before
the dropout once, with plain passes of the network, forward and back. The limits:
the same passes by torch alone, through masks only what comes after the dropout.
"""

import numpy as np

from benchmarks.bench_mc_dropout import test_images
from benchmarks.limits import Limit, passes_and_back
from benchmarks.timing import installed, row
from uqhelpers import adversarial, models, training

EPSILON, STEPS, BATCH, PASSES = 0.1, 10, 100, 20
PLAIN = 6  # plain passes that a step through all masks may cost
BASELINE = "foolbox"


def theirs(attack, net, images, labels, batch=BATCH):
    """One of foolbox's attacks over all images, batch by batch."""
    from foolbox import PyTorchModel

    from uqhelpers._torch import torch

    wrapped = PyTorchModel(net, bounds=(0, 1), device="cpu")
    parts = zip(torch.from_numpy(images).split(batch), torch.from_numpy(labels).split(batch), strict=True)
    return torch.cat([attack(wrapped, part, there, epsilons=EPSILON)[1] for part, there in parts]).numpy()


def plain_passes(net, images, labels, count=PLAIN, batch=BATCH):
    """So many passes forward and back, to the inputs, over all images."""
    from uqhelpers._torch import torch

    parts = zip(torch.from_numpy(images).split(batch), torch.from_numpy(labels).split(batch), strict=True)
    for part, there in parts:
        for _ in range(count):
            part = part.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(net(part), there, reduction="sum")
            torch.autograd.grad(loss, part)


def through_masks(net, images, batch=BATCH):
    """Once forward and back through what comes before the dropout, and so many times through the rest."""
    from uqhelpers._torch import torch

    for part in torch.from_numpy(images).split(batch):
        part = part.detach().requires_grad_()
        seen = net.features(net.standardise(part))
        outputs = [net.output(torch.relu(net.hidden(seen))).sum() for _ in range(PASSES)]
        torch.autograd.grad(sum(outputs), part)


def rows(inputs=2_000, repeats=5):
    """Measure all three; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs : int
        Images.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``; with ``apart``
        where both libraries' images were compared.
    """
    from threadpoolctl import threadpool_limits

    from uqhelpers._torch import torch

    torch.set_num_threads(1)
    images, what = test_images(inputs)
    with training.seeded(0):
        net = models.SimpleNet().eval()
    labels = training.predict(net, images).argmax(axis=1)
    fast = many = None
    if installed("foolbox"):
        from foolbox.attacks import LinfFastGradientAttack, LinfPGD

        fast = LinfFastGradientAttack(random_start=False)
        many = LinfPGD(abs_stepsize=EPSILON / 4, steps=STEPS, random_start=False)

    def one_step(images=images, labels=labels):
        return adversarial.fgsm(net, images, labels, EPSILON)

    def steps(images=images, labels=labels):
        return adversarial.pgd(
            net, images, labels, EPSILON, steps=STEPS, step_size=EPSILON / 4, random_start=False
        )

    size = f"{len(images):,} {what}, SimpleNet, batches of {BATCH}, one thread"
    table = []
    with threadpool_limits(1):
        for name, ours, attack, count in (
            ("FGSM", one_step, fast, 1),
            (f"PGD, {STEPS} steps", steps, many, STEPS),
        ):
            limit = Limit(
                f"{count} × the network forward and back", passes_and_back(net, images, BATCH), count
            )
            few = images[:BATCH], labels[:BATCH]
            found, words = {}, "images not compared"
            if attack:
                found["apart"] = float(np.abs(ours(*few) - theirs(attack, net, *few)).max())
                words = f"images at most {found['apart']:.1g} apart"
            other = (lambda attack=attack: theirs(attack, net, images, labels)) if attack else None
            entry = row(name, ours, BASELINE, other, repeats, f"{size}; {words}; bound 1", limit)
            table.append(entry | found)
        table.append(
            row(
                f"FGSM through {PASSES} masks",
                lambda: adversarial.fgsm(net, images, labels, EPSILON, passes=PASSES),
                f"{PLAIN} plain passes, forward and back",
                lambda: plain_passes(net, images, labels),
                repeats,
                f"{size}; what comes before the dropout runs once; bound 1",
                Limit(
                    f"the convolutions once forward and back, and {PASSES} × what follows the dropout",
                    lambda: through_masks(net, images),
                    why="a mask is drawn for every input, feature and pass",
                ),
            )
        )
    return table
