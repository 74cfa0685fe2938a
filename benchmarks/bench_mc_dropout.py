"""MC-Dropout on SimpleNet, beside a plain loop of full passes."""

import tracemalloc

import numpy as np

from benchmarks.timing import best_of
from uqhelpers import data, mc_dropout, models
from uqhelpers._torch import torch

BOUNDS = {"independent": 4, "shared": 10, "paired": 14}  # times as fast as the plain loop, at least


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


def rows(inputs=10_000, passes=20, repeats=2):
    """Measure all kinds of masks; the sizes are arguments so that a test can run it small.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline) and ``note``.
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

        seconds = best_of(ours, repeats)
        table.append(
            {
                "name": f"{masks} masks",
                "ours_s": seconds,
                "baseline": "plain loop of full passes",
                "baseline_s": plain,
                "ratio": seconds / plain,
                "note": f"{passes} passes, {len(images):,} {what}; at least {BOUNDS[masks]} × asked; "
                f"peak of a streamed prediction of 250: {few / 1e6:.2f} MB after 5 passes, "
                f"{many / 1e6:.2f} MB after 500",
            }
        )
    return table
