"""Data files: read-only folder, cache, mirrors, and everything that can go wrong with them. No network."""

import gzip
import hashlib
import http.server
import multiprocessing
import os
import struct
import threading
import time
import urllib.error
from pathlib import Path

import numpy as np
import pytest

from uqhelpers import data
from uqhelpers.data import archives
from uqhelpers.data.archives import ARCHIVES, Archive, DataUnavailable, unpacked

NAMES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
IMAGES = "t10k-images-idx3-ubyte"


def idx(array):
    """An array of bytes in idx format."""
    return (
        struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.fixture(scope="module")
def files():
    """Tiny files in MNIST's format: 5,010 training images, 12 test images."""
    rng = np.random.default_rng(0)
    found = {}
    for part, count in (("train", 5010), ("t10k", 12)):
        found[f"{part}-images-idx3-ubyte"] = idx(rng.integers(256, size=(count, 28, 28), dtype=np.uint8))
        found[f"{part}-labels-idx1-ubyte"] = idx(rng.integers(10, size=count, dtype=np.uint8))
    return {name: (gzip.compress(content, mtime=0), content) for name, content in found.items()}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty folder to read from and an empty cache, both in use."""
    source, cache = tmp_path / "source", tmp_path / "cache"
    source.mkdir()
    monkeypatch.setenv("UQHELPERS_DATA", str(source))
    monkeypatch.setenv("UQHELPERS_CACHE", str(cache))
    monkeypatch.setenv("no_proxy", "*")
    return source, cache


@pytest.fixture
def archive(files, monkeypatch):
    """The tiny files in MNIST's place, and no mirror that could be reached."""
    sums = {name: (md5(packed), md5(content)) for name, (packed, content) in files.items()}
    fake = Archive("MNIST", ("http://mirror.invalid/",), sums)
    monkeypatch.setitem(ARCHIVES, "mnist", fake)
    monkeypatch.setattr(archives, "_open", refuse)
    return fake


def refuse(url):
    raise urllib.error.URLError("no network here")


def put(files, folder, names=NAMES, suffix=".gz"):
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name in names:
        (raw / f"{name}{suffix}").write_bytes(files[name][0 if suffix else 1])
    return raw


def everything_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def mirror(files):
    """A server on this machine; ``answers`` says what each path gets: (content, length it claims)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if self.path not in answers:
                self.send_error(404)
                return
            content, length = answers[self.path]
            self.send_response(200)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    answers, asked = {}, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.answers, server.asked = answers, asked
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def served(mirror, files, folders, monkeypatch):
    """An archive with two mirrors on this machine, ``/a/`` and ``/b/``, which have nothing yet."""
    monkeypatch.delenv("UQHELPERS_DATA")
    sums = {name: (md5(packed), md5(content)) for name, (packed, content) in files.items()}
    return Archive("MNIST", (f"{mirror.url}/a/", f"{mirror.url}/b/"), sums)


# The folder that is only read


def test_gzipped_files_become_the_mnist_edition(files, folders, archive):
    source, cache = folders
    put(files, source)
    before = everything_in(source)
    found = data.load("mnist", progress=False)
    assert (len(found.train), len(found.validation), len(found.test)) == (10, 5000, 12)
    assert found.image_shape == (1, 28, 28)
    pixels = np.frombuffer(files[IMAGES][1][16:], np.uint8).reshape(12, 1, 28, 28)
    assert found.test.images == pytest.approx(pixels / 255, abs=1e-7)
    assert np.array_equal(found.test.labels, np.frombuffer(files["t10k-labels-idx1-ubyte"][1][8:], np.uint8))
    everything = np.frombuffer(files["train-images-idx3-ubyte"][1][16:], np.uint8) / 255
    assert found.mean == pytest.approx(everything.mean())
    assert found.std == pytest.approx(everything.std())
    last = everything.reshape(-1, 28, 28)[-1]
    assert found.validation.images[-1, 0] == pytest.approx(last, abs=1e-7)  # the last of the training file
    assert everything_in(source) == before  # nothing was written there
    assert sorted(path.name for path in (cache / "MNIST" / "raw").iterdir()) == sorted(NAMES)


def test_a_folder_that_cannot_be_written_to_is_enough(files, folders, archive):
    source, _ = folders
    raw = put(files, source)
    for path in (raw, source):
        path.chmod(0o555)
    try:
        assert len(data.load_images("mnist")) == 12
    finally:
        for path in (raw, source):
            path.chmod(0o755)


def test_unpacked_files_will_do_as_well(files, folders, archive):
    put(files, folders[0], suffix="")
    assert len(data.load_images("mnist")) == 12


def test_the_cache_is_enough_the_second_time(files, folders, archive, monkeypatch):
    put(files, folders[0])
    first = data.load_images("mnist")
    monkeypatch.delenv("UQHELPERS_DATA")
    assert np.array_equal(data.load_images("mnist").images, first.images)


def test_only_the_part_that_is_asked_for_is_needed(files, folders, archive):
    put(files, folders[0], NAMES[2:])
    assert len(data.load_images("mnist", "test")) == 12
    with pytest.raises(DataUnavailable, match="train-images-idx3-ubyte"):
        data.load_images("mnist", "train")


def test_a_set_that_torchvision_does_not_know_is_read_in_the_same_manner(
    files, folders, archive, monkeypatch
):
    source, _ = folders
    put(files, source)
    (source / "MNIST").rename(source / "notMNIST")
    monkeypatch.setitem(ARCHIVES, "notmnist", Archive("notMNIST", (), archive.files))
    found = data.load_ood("notmnist", "mnist")
    assert found.images.shape == (12, 1, 28, 28)
    assert data.load_ood("notmnist", "digits").images.shape == (12, 1, 8, 8)


def test_a_folder_that_is_none_is_named(folders, archive, monkeypatch):
    monkeypatch.setenv("UQHELPERS_DATA", "/no/such/folder")
    with pytest.raises(ValueError, match="UQHELPERS_DATA: expected a folder, got '/no/such/folder'"):
        data.load("mnist")


@pytest.mark.parametrize("harm", ["truncated", "altered", "empty", "something else"])
@pytest.mark.parametrize("suffix", [".gz", ""])
def test_a_harmed_file_is_named_and_leaves_nothing_in_the_cache(files, folders, archive, harm, suffix):
    source, cache = folders
    path = put(files, source, suffix=suffix) / f"{IMAGES}{suffix}"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    harmed = {
        "truncated": path.read_bytes()[:-10],
        "altered": bytes(content),
        "empty": b"",
        "something else": b"<html>Not found</html>",
    }[harm]
    path.write_bytes(harmed)
    with pytest.raises(ValueError, match=r"damaged, cut short or altered.*UQHELPERS_DATA") as caught:
        data.load_images("mnist")
    assert str(path) in str(caught.value)
    assert everything_in(cache) == {}


def test_a_harmed_file_in_the_cache_is_named_and_can_be_deleted(files, folders, archive):
    source, cache = folders
    put(files, source)
    data.load_images("mnist")
    path = cache / "MNIST" / "raw" / IMAGES
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="Delete it, and it will be made anew") as caught:
        data.load_images("mnist")
    assert str(path) in str(caught.value)
    path.unlink()
    assert len(data.load_images("mnist")) == 12


def test_a_gzip_file_that_breaks_off_is_named(files, folders, monkeypatch):
    """Even if its own md5 were as expected."""
    source, _ = folders
    packed, content = files[IMAGES]
    fake = Archive("MNIST", (), {IMAGES: (md5(packed[:-10]), md5(content))})
    put({IMAGES: (packed[:-10], content)}, source, [IMAGES])
    with pytest.raises(ValueError, match="not a complete gzip file"):
        unpacked(fake, IMAGES)


def test_a_file_that_is_no_idx_file_is_named(folders, monkeypatch):
    source, _ = folders
    odd = {name: (gzip.compress(b"odd", mtime=0), b"odd") for name in NAMES}
    put(odd, source)
    sums = {name: (md5(packed), md5(content)) for name, (packed, content) in odd.items()}
    monkeypatch.setitem(ARCHIVES, "mnist", Archive("MNIST", (), sums))
    with pytest.raises(ValueError, match="not a data file in idx format"):
        data.load_images("mnist")


# Interruptions and company


def test_an_interrupted_unpacking_leaves_nothing_that_looks_finished(files, folders, archive, monkeypatch):
    source, cache = folders
    put(files, source)

    def interrupt(descriptor):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(archives.os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            unpacked(archive, IMAGES)
    assert everything_in(cache) == {}
    assert unpacked(archive, IMAGES).read_bytes() == files[IMAGES][1]


def test_what_a_killed_process_left_behind_is_not_taken_for_the_file(files, folders, archive):
    source, cache = folders
    put(files, source)
    raw = cache / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / f"{IMAGES}.0123.part").write_bytes(files[IMAGES][1][:100])
    assert unpacked(archive, IMAGES).read_bytes() == files[IMAGES][1]


def unpack_when_all_are_ready(archive, name, barrier, results):
    barrier.wait(30)
    results.put(md5(unpacked(archive, name).read_bytes()))


def test_processes_that_unpack_at_once_do_not_disturb_each_other(folders):
    source, cache = folders
    content = np.random.default_rng(0).integers(64, size=4_000_000, dtype=np.uint8).tobytes()
    packed = gzip.compress(content, 1, mtime=0)
    put({IMAGES: (packed, content)}, source, [IMAGES])
    archive = Archive("MNIST", (), {IMAGES: (md5(packed), md5(content))})
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    workers = [
        context.Process(target=unpack_when_all_are_ready, args=(archive, IMAGES, barrier, results))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert found == [md5(content)] * 4
    assert [path.name for path in (cache / "MNIST" / "raw").iterdir()] == [IMAGES]


# Mirrors


def test_a_file_is_downloaded_checked_and_unpacked(mirror, served, files, folders):
    packed, content = files[IMAGES]
    mirror.answers[f"/a/{IMAGES}.gz"] = (packed, len(packed))
    assert unpacked(served, IMAGES, progress=False).read_bytes() == content
    assert mirror.asked == [f"/a/{IMAGES}.gz"]
    unpacked(served, IMAGES, progress=False)
    assert len(mirror.asked) == 1  # not again


def test_a_server_that_does_not_say_the_length_will_do(mirror, served, files):
    packed, content = files[IMAGES]
    mirror.answers[f"/a/{IMAGES}.gz"] = (packed, None)
    assert unpacked(served, IMAGES, progress=False).read_bytes() == content


@pytest.mark.parametrize("harm", ["missing", "truncated", "altered", "an error page"])
def test_the_next_mirror_mends_what_the_first_spoils(mirror, served, files, folders, harm):
    packed, content = files[IMAGES]
    if harm != "missing":
        mirror.answers[f"/a/{IMAGES}.gz"] = {
            "truncated": (packed[:50], len(packed)),
            "altered": (packed[:-1] + b"?", len(packed)),
            "an error page": (b"<html>sorry</html>", 18),
        }[harm]
    mirror.answers[f"/b/{IMAGES}.gz"] = (packed, len(packed))
    assert unpacked(served, IMAGES, progress=False).read_bytes() == content
    assert mirror.asked == [f"/a/{IMAGES}.gz", f"/b/{IMAGES}.gz"]
    names = {path.name for path in (folders[1] / "MNIST" / "raw").iterdir()}
    assert names == {IMAGES, f"{IMAGES}.gz"}


@pytest.mark.parametrize(("share", "message"), [(0.5, "cut short after"), (1, "expected md5")])
def test_bad_copies_everywhere_are_a_bad_file(mirror, served, files, folders, share, message):
    packed, _ = files[IMAGES]
    bad = packed[: int(share * len(packed)) - 1]
    for side in "ab":
        mirror.answers[f"/{side}/{IMAGES}.gz"] = (bad, len(packed) if share < 1 else len(bad))
    with pytest.raises(ValueError, match=message) as caught:
        unpacked(served, IMAGES, progress=False)
    text = str(caught.value)
    assert f"MNIST/raw/{IMAGES}.gz could not be downloaded" in text
    assert f"{mirror.url}/a/" in text
    assert f"{mirror.url}/b/" in text
    assert everything_in(folders[1]) == {}


def test_mirrors_without_the_file_are_no_bad_file(mirror, served):
    with pytest.raises(DataUnavailable, match="404"):
        unpacked(served, IMAGES, progress=False)


def test_a_download_that_breaks_off_leaves_nothing_that_looks_finished(served, files, folders, monkeypatch):
    class Response:
        headers = {"Content-Length": "1000"}  # noqa: RUF012

        def __enter__(self):
            return self

        def __exit__(self, *args):
            return None

        def read(self, size):
            parts = list((folders[1] / "MNIST" / "raw").iterdir())
            assert [path.suffix for path in parts] == [".part"]  # under no other name while it lasts
            raise KeyboardInterrupt

    monkeypatch.setattr(archives, "_open", lambda url: Response())
    with pytest.raises(KeyboardInterrupt):
        unpacked(served, IMAGES, progress=False)
    assert everything_in(folders[1]) == {}


def test_a_harmed_download_in_the_cache_is_named(served, folders):
    raw = folders[1] / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / f"{IMAGES}.gz").write_bytes(b"half")
    with pytest.raises(ValueError, match="Delete it, and it will be downloaded anew"):
        unpacked(served, IMAGES)


def test_without_a_network_the_message_says_what_to_do(folders, archive):
    start = time.perf_counter()
    with pytest.raises(DataUnavailable) as caught:
        data.load("mnist")
    assert time.perf_counter() - start < 2
    text = str(caught.value)
    assert "MNIST/raw/train-images-idx3-ubyte.gz could not be downloaded" in text
    assert f"is not in UQHELPERS_DATA ({folders[0]})" in text
    assert "Set UQHELPERS_DATA to a folder" in text
    assert "UQ_DATASET=digits" in text
    assert "http://mirror.invalid/train-images-idx3-ubyte.gz: " in text
    assert "no network here" in text
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("progress", [True, False])
def test_the_bar_of_a_download_can_be_switched_off(mirror, served, files, monkeypatch, progress):
    seen = []

    def bar(chunks, show, **options):
        seen.append((show, options["desc"], options["total"]))
        return chunks

    monkeypatch.setattr(archives, "bar", bar)
    packed, _ = files[IMAGES]
    mirror.answers[f"/a/{IMAGES}.gz"] = (packed, len(packed))
    unpacked(served, IMAGES, progress=progress)
    assert seen == [(progress, f"{IMAGES}.gz", 1)]


# Where things are kept


def test_the_cache_is_the_platforms_unless_told(monkeypatch):
    import platformdirs

    monkeypatch.delenv("UQHELPERS_CACHE", raising=False)
    assert data.cache_folder() == platformdirs.user_cache_path("uqhelpers", appauthor=False)
    monkeypatch.setenv("UQHELPERS_CACHE", "~/elsewhere")
    assert data.cache_folder() == Path.home() / "elsewhere"


def test_the_checksums_are_torchvisions():
    import uqhelpers._torch

    from torchvision import datasets  # isort: skip

    assert uqhelpers._torch.torch
    for name in ("mnist", "fashion_mnist", "kmnist"):
        archive = ARCHIVES[name]
        published = dict(getattr(datasets, archive.folder).resources)
        for file, (packed_md5, _) in archive.files.items():
            assert published[f"{file}.gz"] == packed_md5


def test_the_page_of_data_sets_lists_every_checksum():
    page = Path(__file__).parents[1] / "book" / "reference" / "datasets.md"
    text = page.read_text(encoding="utf-8")
    for archive in ARCHIVES.values():
        for name, sums in archive.files.items():
            assert f"| `{archive.folder}/raw/{name}` | `{sums[0]}` | `{sums[1]}` |" in text


# The real files


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def real_files(shared_cache, monkeypatch):
    if not os.environ.get("UQHELPERS_DATA"):
        pytest.skip("UQHELPERS_DATA is not set: no files of the MNIST edition to test with")
    monkeypatch.setenv("UQHELPERS_CACHE", str(shared_cache))
    monkeypatch.setattr(archives, "_open", refuse)


@pytest.mark.mnist
def test_the_mnist_edition_is_the_published_one(real_files):
    found = data.load("mnist")
    assert (len(found.train), len(found.validation), len(found.test)) == (55_000, 5_000, 10_000)
    assert (round(found.mean, 4), round(found.std, 4)) == (0.1307, 0.3081)
    assert np.bincount(found.test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert found.test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert (found.train.images.min(), found.train.images.max()) == (0, 1)


@pytest.mark.mnist
@pytest.mark.parametrize("name", ["fashion_mnist", "kmnist", "notmnist"])
def test_the_sets_from_outside_hold_a_thousand_images_a_class(name, real_files):
    found = data.load_ood(name, "mnist")
    assert found.images.shape == (10_000, 1, 28, 28)
    assert np.bincount(found.labels).tolist() == [1000] * 10
    assert data.load_ood(name, "digits").images.shape == (10_000, 1, 8, 8)


@pytest.mark.mnist
def test_mnist_digits_blend_into_ambiguous_ones(real_files):
    found = data.ambiguous_digits(20, edition="mnist")
    assert found.images.shape == (20, 1, 28, 28)
    assert np.all(found.labels[:, 0] != found.labels[:, 1])
    assert found.images.max() <= 1
