"""Where the MNIST-like files come from, and how they get into the cache unharmed.

A file is looked for in the cache, then in the folder that ``UQHELPERS_DATA``
names (which is only read), then on the mirrors. Whatever ends up in the cache
under its own name has been checked against its md5 and was put there in one
step, so that an interrupted download never looks finished, and processes that
unpack the same file at once do not disturb each other.
"""

import gzip
import hashlib
import http.client
import os
import urllib.request
import uuid
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from uqhelpers._progress import bar

__all__ = ["ARCHIVES", "Archive", "DataUnavailable", "cache_folder", "unpacked"]

TIMEOUT = 20  # seconds without an answer, after which the next mirror is tried
CHUNK = 1 << 18


class DataUnavailable(OSError):
    """A data file is neither on this machine nor to be had from the network."""


@dataclass(frozen=True)
class Archive:
    """The files of one data set: folder name, mirrors, and md5 sums by file name.

    ``files`` maps the unpacked name to the md5 of the gzipped and of the unpacked file.
    """

    folder: str
    mirrors: tuple
    files: dict


ARCHIVES = {
    "mnist": Archive(
        "MNIST",
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        {
            "train-images-idx3-ubyte": (
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "6bbc9ace898e44ae57da46a324031adb",
            ),
            "train-labels-idx1-ubyte": (
                "d53e105ee54ea40749a09fcbcd1e9432",
                "a25bea736e30d166cdddb491f175f624",
            ),
            "t10k-images-idx3-ubyte": (
                "9fb629c4189551a2d022fa330f9573f3",
                "2646ac647ad5339dbf082846283269ea",
            ),
            "t10k-labels-idx1-ubyte": (
                "ec29112dd5afa0611ce80d1b7f02629c",
                "27ae3e4e09519cfbb04c329615203637",
            ),
        },
    ),
    "fashion_mnist": Archive(
        "FashionMNIST",
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/"
            "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/",
        ),
        {
            "train-images-idx3-ubyte": (
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            ),
            "train-labels-idx1-ubyte": (
                "25c81989df183df01b3e8a0aad5dffbe",
                "9018921c3c673c538a1fc5bad174d6f9",
            ),
            "t10k-images-idx3-ubyte": (
                "bef4ecab320f06d8554ea6380940ec79",
                "8181f5470baa50b63fa0f6fddb340f0a",
            ),
            "t10k-labels-idx1-ubyte": (
                "bb300cfdad3c16e7a12a480ee83cd310",
                "15d484375f8d13e6eb1aabb0c3f46965",
            ),
        },
    ),
    "kmnist": Archive(
        "KMNIST",
        ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
        {
            "t10k-images-idx3-ubyte": (
                "5c965bf0a639b31b8f53240b1b52f4d7",
                "bf305b8cd328700fbc17f5acbc2856d2",
            ),
            "t10k-labels-idx1-ubyte": (
                "7320c461ea6c1c855c0b718fb2a4b134",
                "9f55f451c0988b028eccdf7d5cc265ab",
            ),
        },
    ),
    "notmnist": Archive(
        "notMNIST",
        (
            "https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/"
            "17823f4d4a3acd8317c07866702d2eb2ac79c7a0/",
        ),
        {
            "t10k-images-idx3-ubyte": (
                "2c87c839a4ef9b238846600eec8c35b7",
                "1e78b07d677d6e4de2c8857bafff012e",
            ),
            "t10k-labels-idx1-ubyte": (
                "7ea9118cbafd0f6e3ee2ad771d782a01",
                "b10b3ef34b4e468313a7b24c216c6a53",
            ),
        },
    ),
}


def cache_folder():
    """The folder that downloaded and unpacked files go to.

    Returns
    -------
    pathlib.Path
        ``UQHELPERS_CACHE`` if set, otherwise the platform's cache folder for
        ``uqhelpers``. It need not exist yet.
    """
    chosen = os.environ.get("UQHELPERS_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("uqhelpers", appauthor=False)


def data_folder():
    """The folder that ``UQHELPERS_DATA`` names, or ``None``; it is only read."""
    chosen = os.environ.get("UQHELPERS_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise ValueError(f"UQHELPERS_DATA: expected a folder, got {chosen!r}, which is none")
    return folder


def unpacked(archive, name, progress=True):
    """One unpacked file of an archive in the cache, checked; fetched first if need be.

    Parameters
    ----------
    archive : Archive
        One of ``ARCHIVES``.
    name : str
        The unpacked file's name, for example ``"t10k-images-idx3-ubyte"``.
    progress : bool
        Whether a download shows a bar.

    Returns
    -------
    pathlib.Path
        ``<cache>/<folder>/raw/<name>``.

    Raises
    ------
    ValueError
        If a file is damaged, cut short or altered, wherever it was found.
    DataUnavailable
        If the file is not here, and no mirror answers.
    """
    packed_md5, md5 = archive.files[name]
    target = cache_folder() / archive.folder / "raw" / name
    if target.exists():
        _check(target, target.read_bytes(), md5, "Delete it, and it will be made anew.")
        return target
    source = _local_source(archive, name)
    if source is None:
        source = target.with_name(f"{name}.gz")
        remedy = "Delete it, and it will be downloaded anew."
        if not source.exists():
            _download(archive, f"{name}.gz", packed_md5, source, progress)
    else:
        remedy = "Replace it, or unset UQHELPERS_DATA to have it downloaded."
    content = source.read_bytes()
    if source.suffix == ".gz":
        _check(source, content, packed_md5, remedy)
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{source}: not a complete gzip file ({error}). {remedy}") from error
    _check(source, content, md5, remedy)
    with _replacing(target) as part:
        part.write(content)
    return target


def _local_source(archive, name):
    """The gzipped or unpacked file in the folder that is only read, if it is there."""
    folder = data_folder()
    if folder is None:
        return None
    for candidate in (f"{name}.gz", name):
        path = folder / archive.folder / "raw" / candidate
        if path.exists():
            return path
    return None


def _check(path, content, md5, remedy):
    """Raise unless the content of the file is what it should be."""
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise ValueError(
            f"{path}: damaged, cut short or altered: {len(content)} bytes with md5 {found}, "
            f"expected md5 {md5}. {remedy}"
        )


@contextmanager
def _replacing(target):
    """A file to write to that takes the target's name only once it is whole and on the disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # A name of one's own: another process may be writing the same file at this moment.
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _open(url):
    """The response of a mirror."""
    request = urllib.request.Request(url, headers={"User-Agent": "uqhelpers"})
    return urllib.request.urlopen(request, timeout=TIMEOUT)


def _download(archive, name, md5, target, progress):
    """Download a file from the first mirror that gives the right one."""
    failures, reached = [], False
    for mirror in archive.mirrors:
        url = mirror + name
        try:
            with _replacing(target) as part:
                _copy(url, part, md5, progress)
            return
        except ValueError as error:  # it answered, with something else
            reached = True
            failures.append(str(error))
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{url}: {error}")
    where = f"{archive.folder}/raw/{name}"
    searched = "" if data_folder() is None else f" and is not in UQHELPERS_DATA ({data_folder()})"
    message = (
        f"{where} could not be downloaded{searched}. Set UQHELPERS_DATA to a folder that holds {where}, "
        "or use the digits edition, which needs no files: UQ_DATASET=digits.\n  " + "\n  ".join(failures)
    )
    raise ValueError(message) if reached else DataUnavailable(message)


def _copy(url, part, md5, progress):
    """Write what the address gives to an open file; raise ``ValueError`` if it is not what it should be."""
    digest, received = hashlib.md5(usedforsecurity=False), 0
    with _open(url) as response:
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        chunks = iter(lambda: response.read(CHUNK), b"")
        steps = total and -(-total // CHUNK)
        for chunk in bar(
            chunks, progress, total=steps, desc=url.rsplit("/", 1)[-1], unit="B", unit_scale=CHUNK
        ):
            part.write(chunk)
            digest.update(chunk)
            received += len(chunk)
    if total is not None and received < total:
        raise ValueError(f"{url}: cut short after {received} of {total} bytes")
    if digest.hexdigest() != md5:
        raise ValueError(f"{url}: {received} bytes with md5 {digest.hexdigest()}, expected md5 {md5}")
