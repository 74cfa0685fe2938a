"""ODIN, Mahalanobis and energy on many images, beside pytorch-ood in the same run.

In each row ``ratio`` is our time over the baseline's: below 1 we are faster. A
baseline that is not installed leaves its time empty (``make peers`` makes an
environment that holds it). Both get the same network and one thread; ours
computes what follows the network in float64, theirs in float32. ODIN's
intermediate values fill a cache quickly, so it is timed beside batches of both
our size and a usual one. What is timed beside each other should compute the
same: the notes of ODIN and energy say how far the scores are apart, and how far
the inputs are apart on the same scale. The limits: the network's passes, forward
and back, by torch alone; of features one product with themselves and one with
what whitens them.
"""

import numpy as np

from benchmarks.bench_mc_dropout import test_images
from benchmarks.limits import Limit, gram, passes, passes_and_back, several, whitened
from benchmarks.timing import installed, row
from uqhelpers import models, odin, training

BATCH, USUAL = 100, 250
SETTINGS = {"temperature": 1000.0, "epsilon": 0.0014}
BASELINE = "pytorch-ood"


def theirs(detector, images, batch=BATCH):
    """One of pytorch-ood's detectors over all images, batch by batch."""
    from uqhelpers._torch import torch

    return torch.cat([detector(part) for part in torch.from_numpy(images).split(batch)])


def apart(ours, detector, images):
    """How far our scores of the first images are from one of their detectors', and words for it.

    Parameters
    ----------
    ours : callable
        From images to scores, shape (N,).
    detector : callable or None
        One of pytorch-ood's; ``None`` where it is not installed.
    images : array, shape (N, ...)
        The first five batches of them are compared.

    Returns
    -------
    (dict, str)
        ``apart``, the largest difference, and ``span``, the difference between our
        largest and our smallest score: the first is only small beside the second.
        Empty where there is nothing to compare with.
    """
    if detector is None:
        return {}, "scores not compared"
    few = images[: 5 * BATCH]
    scores = ours(few)
    found = {
        "apart": float(np.abs(scores - theirs(detector, few).detach().double().numpy()).max()),
        "span": float(np.ptp(scores)),
    }
    return found, f"scores at most {found['apart']:.1g} apart, of a span of {found['span']:.1g}"


def rows(inputs=10_000, features=128, classes=10, repeats=5):
    """Measure all three; the sizes are arguments so that a test can run it small.

    Parameters
    ----------
    inputs : int
        Images, and rows of features.
    features, classes : int
        Size of the Mahalanobis problem.
    repeats : int
        The shortest of so many times counts.

    Returns
    -------
    list of dict
        With ``name``, ``ours_s``, ``baseline``, ``baseline_s``, ``ratio``
        (ours / baseline), ``limit_s``, ``over_limit`` and ``note``; where both
        libraries' scores were compared, also with ``apart`` and ``span``.
    """
    from threadpoolctl import threadpool_limits

    from uqhelpers._torch import torch

    torch.set_num_threads(1)
    images, what = test_images(inputs)
    with training.seeded(0):
        net = models.SimpleNet().eval()
    there, nudge, energy = installed("pytorch_ood"), None, None
    if there:
        from pytorch_ood.detector import ODIN, EnergyBased, Mahalanobis

        nudge = ODIN(net, eps=SETTINGS["epsilon"], temperature=SETTINGS["temperature"])
        energy = EnergyBased(net)

    def nudged(images):
        return odin.odin_score(net, images, **SETTINGS, batch_size=BATCH)

    def energies(images):
        return odin.energy_score(training.predict_outputs(net, images, batch_size=BATCH))

    nudged(images[:BATCH])  # the first call of anything is slower

    rng = np.random.default_rng(0)
    labels = np.arange(inputs) % classes
    centres = 2 * rng.standard_normal((classes, features))
    known = (centres[labels] + rng.standard_normal((inputs, features))).astype(np.float32)
    new = (centres[labels] + 1.5 * rng.standard_normal((inputs, features))).astype(np.float32)
    tensors = [torch.from_numpy(array) for array in (known, labels, new)]

    def ours_by_distance():
        return odin.Mahalanobis().fit(known, labels).score(new)

    def theirs_by_distance():
        return Mahalanobis(None).fit_features(*tensors[:2]).predict_features(tensors[2])

    forward, back = passes(net, images, BATCH), passes_and_back(net, images, BATCH)
    nudging = Limit("three passes of the network: forward, back, and forward again", several(back, forward))
    products = Limit(
        "a product of the features with themselves, and one with what whitens them",
        several(gram(known.astype(np.float64)), whitened(inputs, features)),
        why="features of ten classes are gathered, centred and squared, in passes over memory",
    )
    size = f"{len(images):,} {what}, SimpleNet, ours in batches of {BATCH}, one thread"
    with threadpool_limits(1):
        same = {"ODIN": apart(nudged, nudge, images), "energy": apart(energies, energy, images)}
        table = [
            *(
                row(
                    "ODIN, T = 1000, step .0014",
                    lambda: nudged(images),
                    f"{BASELINE}, batches of {batch}",
                    (lambda batch=batch: theirs(nudge, images, batch)) if there else None,
                    repeats,
                    f"{size}; {same['ODIN'][1]}; bound 1",
                    nudging,
                )
                for batch in (BATCH, USUAL)
            ),
            row(
                "energy, from images",
                lambda: energies(images),
                f"{BASELINE}, batches of {BATCH}",
                (lambda: theirs(energy, images)) if there else None,
                repeats,
                f"{size}; {same['energy'][1]}; bound 1",
                Limit("one pass of the network", forward),
            ),
            row(
                "Mahalanobis, fit and score",
                ours_by_distance,
                BASELINE,
                theirs_by_distance if there else None,
                repeats,
                f"{inputs:,} x {features} features to fit and as many to score, {classes} classes; bound 1",
                products,
            ),
        ]
    for entry in table:
        entry.update(same.get(entry["name"].split(",")[0], ({}, ""))[0])
    return table
