"""A training step of a variational network, beside that of the deterministic one in the same run.

In each row ``ratio`` is our time over the baseline's: 2 means
that the variational step takes twice as long. Both steps are forward, backward
and Adam, on one thread; they are taken in turn, and the shortest of each
counts: the one that was disturbed least. The limits: mean and variance of a layer
are a product each, so two deterministic steps; drawn weights are one step and a
random number a weight.
"""

from benchmarks.limits import Limit, beside, several
from benchmarks.timing import in_turn
from uqhelpers import models, training
from uqhelpers import variational_inference as vi
from uqhelpers._torch import torch

functional = torch.nn.functional

STEP, DRAWN, PREDICTION = (
    "training step, local reparameterisation",
    "training step, weights drawn",
    "20 sampled networks",
)
NAMES = (STEP, DRAWN, PREDICTION)


def stepper(model, inputs, targets, variational):
    """One step of training: the same loss, with the divergence added where there is one."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.train()

    def step():
        loss = functional.cross_entropy(model(inputs), targets)
        if variational:
            loss = loss + vi.kl_of(model) / 60_000
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def draws(model):
    """A random number for every parameter."""
    places = [torch.empty_like(parameter) for parameter in model.parameters()]
    return lambda: [place.normal_() for place in places]


def rows(inputs=784, hidden=400, batch=128, steps=100):
    """Measure everything once; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs, hidden, batch : int
        A network of two hidden layers, and the inputs a step; by default that
        of Blundell et al. (2015) on MNIST.
    steps : int
        The shortest of so many counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with training.seeded(0):
            plain = models.MLP(inputs, 10, hidden=(hidden, hidden))
            x, y = torch.randn(batch, inputs), torch.randint(0, 10, (batch,))
            local = vi.make_variational(plain)
            drawn = vi.make_variational(plain, local_reparameterisation=False)
            steppers = [stepper(net, x, y, net is not plain) for net in (plain, local, drawn)]
            drawing = draws(plain)
            baseline, *ours, drawing_s = in_turn([*steppers, drawing], steps, [None, STEP, DRAWN])
        images = x.numpy()
        passes = in_turn(
            [
                lambda: [training.predict(plain, images) for _ in range(20)],
                lambda: vi.sample(local, images, samples=20),
            ],
            max(1, steps // 20),
            [None, PREDICTION],
        )
    finally:
        torch.set_num_threads(threads)
    size = f"{inputs}-{hidden}-{hidden}-10, batches of {batch}, one thread"
    limits = (
        Limit("two deterministic steps", steppers[0], 2.0),
        Limit("a deterministic step, and a random number for every weight", several(steppers[0], drawing)),
        Limit("20 deterministic passes, and 20 random numbers for every weight", drawing),
    )
    least = (2 * baseline, baseline + drawing_s, passes[0] + 20 * drawing_s)
    measured = [
        (STEP, ours[0], "deterministic step", baseline, f"{size}; bound 3"),
        (DRAWN, ours[1], "deterministic step", baseline, f"{size}; bound 3"),
        (
            PREDICTION,
            passes[1],
            "20 deterministic passes",
            passes[0],
            f"{size}; a draw of all weights a network",
        ),
    ]
    table = [
        {"name": name, "ours_s": s, "baseline": what, "baseline_s": other, "ratio": s / other, "note": note}
        for name, s, what, other, note in measured
    ]
    return [beside(*entry) for entry in zip(table, limits, least, strict=True)]
