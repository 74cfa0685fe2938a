"""Which images a chapter works on: the two editions, and the sets from outside the distribution."""

import os

import numpy as np

from uqhelpers._checks import as_choice
from uqhelpers.data.alphabet import letters
from uqhelpers.data.archives import ARCHIVES, cache_folder, unpacked
from uqhelpers.data.containers import Split, make_image_data
from uqhelpers.data.digits import load_digits_edition

EDITIONS = ("digits", "mnist")
OOD_SETS = ("letters", "fashion_mnist", "kmnist", "notmnist")

DIGIT_NAMES = tuple("0123456789")
CLASS_NAMES = {
    "digits": DIGIT_NAMES,
    "mnist": DIGIT_NAMES,
    "fashion_mnist": (
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
    "kmnist": ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
    "notmnist": tuple("ABCDEFGHIJ"),
    "letters": tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
}
"""What each class of each data set is called, by label."""

VALIDATION = 5_000  # the last images of MNIST's training file


def chosen_edition(edition=None):
    """The edition asked for, or else the one that ``UQ_DATASET`` names, or else ``"digits"``."""
    if edition is not None:
        return as_choice(edition, "edition", EDITIONS)
    return as_choice(os.environ.get("UQ_DATASET") or "digits", "UQ_DATASET", EDITIONS)


def load(edition=None, *, progress=True):
    """The images that the chapters train, tune and test on.

    The digits edition needs no network and no files: 1,797 handwritten digits
    of 8 × 8 pixels that come with scikit-learn, split once and for all,
    stratified by class, into 900 for training, 297 for validation and 600 for
    testing. The MNIST edition has 28 × 28 pixels: 55,000 for training, the
    last 5,000 of the training file for validation, 10,000 for testing.

    Parameters
    ----------
    edition : {"digits", "mnist"}, optional
        By default what the environment variable ``UQ_DATASET`` says, and
        ``"digits"`` where it says nothing.
    progress : bool
        Whether a download shows a bar.

    Returns
    -------
    ImageData
        Pixels are float32 in [0, 1], shape (N, 1, H, W); labels int64, shape (N,).

    Raises
    ------
    ValueError
        If there is no such edition, or a file of it is damaged.
    DataUnavailable
        If a file of the MNIST edition is not here and cannot be downloaded.

    References
    ----------
    Alpaydin and Kaynak (1998), Optical recognition of handwritten digits, UCI
    Machine Learning Repository. LeCun, Bottou, Bengio and Haffner (1998),
    Gradient-based learning applied to document recognition.
    """
    if chosen_edition(edition) == "digits":
        return load_digits_edition()
    everything = load_images("mnist", "train", progress=progress)
    test = load_images("mnist", "test", progress=progress)
    return make_image_data("mnist", everything[:-VALIDATION], everything[-VALIDATION:], test, of=everything)


def load_images(name, split="test", *, progress=True):
    """One part of an MNIST-like data set, 28 × 28 pixels, as it is published.

    Parameters
    ----------
    name : {"mnist", "fashion_mnist", "kmnist", "notmnist"}
        The data set.
    split : {"test", "train"}
        10,000 or 60,000 images. KMNIST and notMNIST serve as
        out-of-distribution sets here, and have only the test part.
    progress : bool
        Whether a download shows a bar.

    Returns
    -------
    Split
        Images of shape (N, 1, 28, 28), float32 in [0, 1]; labels 0 to 9.

    Raises
    ------
    ValueError
        If there is no such set or part, or one of its files is damaged.
    DataUnavailable
        If a file is not here and cannot be downloaded.

    References
    ----------
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST. Clanuwat et al. (2018),
    Deep learning for classical Japanese literature (KMNIST). Bulatov (2011),
    notMNIST.
    """
    archive = ARCHIVES[as_choice(name, "name", ARCHIVES)]
    as_choice(split, "split", ("test", "train"))
    prefix = {"test": "t10k", "train": "train"}[split]
    needed = [f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"]
    if needed[0] not in archive.files:
        raise ValueError(f"split: {name} has only its test part here, got {split!r}")
    paths = [unpacked(archive, file, progress) for file in needed]
    try:
        images, labels = _read(archive, needed, train=split == "train")
    except (RuntimeError, AssertionError, IndexError) as error:  # what torchvision says of odd idx files
        raise ValueError(f"{paths[0]}: not a data file in idx format ({error})") from error
    return Split((images[:, None] / np.float32(255)), labels.astype(np.int64))


def _read(archive, needed, train):
    """Pixels (N, 28, 28) uint8 and labels (N,) through torchvision's own loader."""
    import uqhelpers._torch  # first: without it torchvision may not import

    from torchvision import datasets  # isort: skip

    # torchvision wants all four files of a set, although it reads two: tell it of those two only.
    # It has no loader for notMNIST; MNIST's reads the same format from a folder of the class's name.
    base = getattr(datasets, archive.folder, datasets.MNIST)
    resources = [(f"{name}.gz", archive.files[name][0]) for name in needed]
    loader = type(archive.folder, (base,), {"resources": resources})
    dataset = loader(cache_folder(), train=train, download=False)
    return dataset.data.numpy(), dataset.targets.numpy()


def load_ood(name, edition=None, *, progress=True):
    """Images of no class that the edition's classifier knows, in the edition's own size.

    Letters are rendered here and need no files. The other sets are the 10,000
    test images of the named data set; for the digits edition they are brought
    to 8 × 8 pixels the way the digits themselves once were: from 32 × 32 by
    averaging blocks of 4 × 4.

    Parameters
    ----------
    name : {"letters", "fashion_mnist", "kmnist", "notmnist"}
        The data set.
    edition : {"digits", "mnist"}, optional
        As in ``load``.
    progress : bool
        Whether a download shows a bar.

    Returns
    -------
    Split
        Letters: as many as the edition has test images. Labels are those of
        the set itself (see ``CLASS_NAMES``), not of the edition.

    Raises
    ------
    ValueError
        If there is no such set or edition, or a file is damaged.
    DataUnavailable
        If a file is not here and cannot be downloaded.
    """
    as_choice(name, "name", OOD_SETS)
    edition = chosen_edition(edition)
    if name == "letters":
        small = edition == "digits"
        return letters(600, (1, 8, 8)) if small else letters(10_000, (1, 28, 28))
    found = load_images(name, "test", progress=progress)
    return found if edition == "mnist" else Split(shrink(found.images), found.labels)


def shrink(images):
    """Images of 28 × 28 pixels brought to 8 × 8: a margin of two pixels, then means of 4 × 4 blocks."""
    framed = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    count, channels = images.shape[:2]
    return framed.reshape(count, channels, 8, 4, 8, 4).mean(axis=(3, 5), dtype=np.float32)
