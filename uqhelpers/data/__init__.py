"""The data of the book: images in two editions, what is made from them, and toy sets.

``load`` gives the edition's images, ``load_ood`` images from elsewhere,
``corrupt`` harder ones, ``ambiguous_digits`` ones that are two digits at once.
The toy sets carry the truth they were drawn from, and ``reference_posterior``
gives what the exact posterior of a small network predicts on some of them.
``biographies`` and ``mentions`` are worlds for a small language model.
"""

from uqhelpers.data.alphabet import LETTERS, MISTAKABLE, letters
from uqhelpers.data.archives import DataUnavailable, cache_folder
from uqhelpers.data.biographies import Biographies, biographies, mentions
from uqhelpers.data.blends import Blends, ambiguous_digits
from uqhelpers.data.containers import ImageData, Split
from uqhelpers.data.corruptions import CORRUPTIONS, corrupt
from uqhelpers.data.digits import digits_indices
from uqhelpers.data.images import CLASS_NAMES, EDITIONS, OOD_SETS, load, load_images, load_ood
from uqhelpers.data.posteriors import (
    REFERENCES,
    ReferencePosterior,
    ReferencePrediction,
    posterior_distances,
    reference_posterior,
)
from uqhelpers.data.seeds import seeds
from uqhelpers.data.toys import (
    Toy,
    cubic,
    gap_line,
    line,
    logistic,
    one_dimensional,
    sinusoid,
    spirals,
    two_moons,
)

__all__ = [
    "CLASS_NAMES",
    "CORRUPTIONS",
    "EDITIONS",
    "LETTERS",
    "MISTAKABLE",
    "OOD_SETS",
    "REFERENCES",
    "Biographies",
    "Blends",
    "DataUnavailable",
    "ImageData",
    "ReferencePosterior",
    "ReferencePrediction",
    "Split",
    "Toy",
    "ambiguous_digits",
    "biographies",
    "cache_folder",
    "corrupt",
    "cubic",
    "digits_indices",
    "gap_line",
    "letters",
    "line",
    "load",
    "load_images",
    "load_ood",
    "logistic",
    "mentions",
    "one_dimensional",
    "posterior_distances",
    "reference_posterior",
    "seeds",
    "sinusoid",
    "spirals",
    "two_moons",
]
