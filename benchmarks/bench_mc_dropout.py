"""MC-Dropout on SimpleNet, beside a plain loop of full passes.

The limits: the convolutions once, and of the product that follows the dropout
what a kind of mask leaves to be done: all of it for every pass where each input
has its own mask, half of it where a mask drops half of the columns for all, and
of a complementary pair one half, if the whole is known.
"""

import tracemalloc

import numpy as np

from benchmarks.limits import Limit, beside
from benchmarks.timing import best_of, in_turn
from uqhelpers import data, mc_dropout, models
from uqhelpers._torch import torch

BOUNDS = {"independent": 4, "shared": 10, "paired": 14}  # times as fast as the plain loop, at least
DRAWN = {
    "independent": "a random number for every input, feature and pass costs more than its multiplications",
    "shared": "the columns that a mask keeps are gathered anew for every pass",
    "paired": "the columns that a mask keeps are gathered anew for every pair",
}


def test_images(count):
    """Images of the MNIST test set, or noise of their size where the files are not at hand."""
    try:
        return data.load("mnist").test.images[:count], "MNIST test images"
    except data.DataUnavailable:
        return np.random.default_rng(0).random((count, 1, 28, 28), dtype=np.float32), "images of noise"


def plain_loop(net, images, passes, batch_size=250):
    """Every pass through the whole network, without gradients, in batches of the same size as ours."""
    batches = torch.from_numpy(images).split(batch_size)
    samples = []
    with mc_dropout.dropout_on(net), torch.inference_mode():
        for _ in range(passes):
            samples.append(torch.cat([net(batch).double().softmax(-1) for batch in batches]))
    return torch.stack(samples).numpy()


def peak_memory(net, images, passes):
    """Peak of what NumPy and Python allocate while a prediction accumulates, in bytes."""
    tracemalloc.start()
    try:
        mc_dropout.predict(net, images, passes)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def least(net, images, passes, masks, batch_size=250):
    """The convolutions once, and as much of the hidden layer's product as the masks leave to be done."""
    width = net.hidden.in_features // (1 if masks == "independent" else 2)
    count = {"independent": passes, "shared": passes, "paired": -(-passes // 2) + 2}[masks]
    weight = net.hidden.weight[:, :width].T.contiguous()
    with torch.inference_mode():
        for batch in torch.from_numpy(images).split(batch_size):
            seen = net.features(net.standardise(batch))[:, :width].contiguous()
            for _ in range(count):
                seen @ weight


def rows(inputs=10_000, passes=20, repeats=2):
    """Measure all kinds of masks; the sizes are arguments so that a test can run it small.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``.
    """
    images, what = test_images(inputs)
    net = models.SimpleNet().eval()
    mc_dropout.predict(net, images[:250], 2)  # the first call of anything is slower
    plain = best_of(lambda: plain_loop(net, images, passes), repeats)
    few, many = (peak_memory(net, images[:250], count) for count in (5, 500))
    table = []
    for masks in mc_dropout.MASKS:

        def ours(masks=masks):
            return mc_dropout.sample(net, images, passes, masks=masks)

        limit = Limit(
            "the convolutions once, and what the masks leave of the hidden layer's products",
            lambda masks=masks: least(net, images, passes, masks),
            why=DRAWN[masks],
        )
        seconds, limit_s = in_turn([ours, limit.work], repeats, [f"{masks} masks"])
        entry = {
            "name": f"{masks} masks",
            "ours_s": seconds,
            "baseline": "plain loop of full passes",
            "baseline_s": plain,
            "ratio": seconds / plain,
            "note": f"{passes} passes, {len(images):,} {what}; at least {BOUNDS[masks]} × asked; "
            f"peak of a streamed prediction of 250: {few / 1e6:.2f} MB after 5 passes, "
            f"{many / 1e6:.2f} MB after 500",
        }
        table.append(beside(entry, limit, limit_s))
    return table
