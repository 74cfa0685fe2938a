"""What lies under the methods that look at features: where a network keeps its inputs, and how far apart.

Features are what the last linear layer of a network is given: ``features``
takes them out of it, in evaluation mode. ``NearestNeighbours`` finds the nearest
of some points, with distances that neither offset nor scale nor mixed units
spoil. ``ClassGaussians`` puts a Gaussian around the mean of each class, with a
ridge that keeps its covariance invertible. Nothing here knows of a method.
"""

from uqhelpers.features import gaussians, neighbours, sources
from uqhelpers.features.gaussians import *  # noqa: F403
from uqhelpers.features.neighbours import *  # noqa: F403
from uqhelpers.features.sources import *  # noqa: F403

OF_NETWORKS = ("features", "features_and_outputs")

__all__ = [*gaussians.__all__, *neighbours.__all__, *sources.__all__, *OF_NETWORKS]


def __getattr__(name):
    if name in OF_NETWORKS:
        from uqhelpers import training  # takes torch with it

        return getattr(training, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *OF_NETWORKS])
