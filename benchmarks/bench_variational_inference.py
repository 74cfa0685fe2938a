"""A training step of a variational network, beside that of the deterministic one in the same run.

``rows()`` measures; ``python benchmarks/bench_variational_inference.py`` prints
what it measured. In each row ``ratio`` is our time over the baseline's: 2 means
that the variational step takes twice as long. Both steps are forward, backward
and Adam, on one thread; they are taken in turn, and the shortest of each
counts: the one that was disturbed least.
"""

import argparse
import time

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


def in_turn(functions, repeats):
    """Shortest time of each function, in seconds, when they run one after the other again and again."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


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
        (ours / baseline) and ``note``.
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
            baseline, *ours = in_turn(steppers, steps)
        images = x.numpy()
        passes = in_turn(
            [
                lambda: [training.predict(plain, images) for _ in range(20)],
                lambda: vi.sample(local, images, samples=20),
            ],
            max(1, steps // 20),
        )
    finally:
        torch.set_num_threads(threads)
    size = f"{inputs}-{hidden}-{hidden}-10, batches of {batch}, one thread"
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
    return [
        {"name": name, "ours_s": s, "baseline": what, "baseline_s": other, "ratio": s / other, "note": note}
        for name, s, what, other, note in measured
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    print("| what | ours, s | baseline | baseline, s | ours / baseline | note |")
    print("| --- | --- | --- | --- | --- | --- |")
    for entry in rows(steps=options.steps):
        figures = [f"{entry[key]:.4f}" for key in ("ours_s", "baseline_s", "ratio")]
        cells = [entry["name"], figures[0], entry["baseline"], *figures[1:], entry["note"]]
        print(f"| {' | '.join(cells)} |")
