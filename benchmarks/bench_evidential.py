"""Evidential networks: the closed-form split beside draws, and one pass beside many.

In each row ``ratio`` is our time over the baseline's: below 1 we are faster.
The limits: a digamma function of every concentration, and the network's pass.
"""

import numpy as np

from benchmarks import limits
from benchmarks.limits import Limit
from benchmarks.timing import row
from uqhelpers import evidential, mc_dropout, metrics, models


def rows(inputs=50_000, classes=10, draws=100, repeats=3):
    """Measure everything once, on one thread; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs, classes : int
        Size of the predictions.
    draws : int
        Draws from each Dirichlet; passes of MC-Dropout are a fifth of them.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``.
    """
    from scipy.special import digamma

    from uqhelpers._torch import torch
    from uqhelpers.training import seeded

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    alpha = 1 + rng.gamma(1.0, 5.0, size=(inputs, classes))
    part = max(1, inputs // 25)
    x = rng.standard_normal((inputs, 64)).astype(np.float32)
    with seeded(0):
        plain = models.MLP(64, classes, (128, 128), dropout=0.2)
    one_pass = torch.nn.Sequential(plain, evidential.DirichletHead())
    passes = max(1, draws // 5)
    table = [
        row(
            "split of a Dirichlet, closed form",
            lambda: evidential.decompose(alpha),
            f"{draws} draws, averaged, on a 25th of the inputs",
            lambda: metrics.decompose(evidential.sample(alpha[:part], draws)),
            repeats,
            f"{inputs:,} x {classes}; the baseline's time is multiplied by {inputs / part:g}",
            Limit(
                "one digamma function of every concentration",
                limits.elementwise(digamma, alpha),
                why="the concentrations are checked and added up, and the mean has an entropy of its own",
            ),
        ),
        row(
            "prediction in one pass",
            lambda: evidential.predict(one_pass, x),
            f"MC-Dropout, {passes} passes",
            lambda: mc_dropout.predict(plain, x, passes=passes),
            repeats,
            f"{inputs:,} inputs, the same network of 64-128-128-{classes}",
            Limit(
                "one pass of the network",
                limits.passes(one_pass, x),
                why="what follows the pass costs more than this small network: see the row above",
            ),
        ),
    ]
    table[0]["baseline_s"] *= inputs / part
    table[0]["ratio"] = table[0]["ours_s"] / table[0]["baseline_s"]
    return table
