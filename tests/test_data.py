"""The two editions, and the image sets made from them. Files and mirrors: test_data_archives.py."""

import hashlib
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uqhelpers import data
from uqhelpers.data.corruptions import LEVELS
from uqhelpers.data.images import shrink


@pytest.fixture(scope="module")
def digits():
    return data.load("digits")


def digest(array, dtype):
    return hashlib.sha256(np.ascontiguousarray(array, dtype=dtype).tobytes()).hexdigest()


# Containers


def test_a_slice_of_a_split_is_a_split(digits):
    some = digits.train[10:20]
    assert isinstance(some, data.Split)
    assert len(some) == 10
    assert np.array_equal(some.images, digits.train.images[10:20])
    assert np.array_equal(some.labels, digits.train.labels[10:20])


def test_masks_lists_and_single_numbers_index_a_split(digits):
    sevens = digits.test[digits.test.labels == 7]
    assert set(sevens.labels) == {7}
    assert np.array_equal(digits.test[[3, 1]].labels, digits.test.labels[[3, 1]])
    assert digits.test[5].images.shape == (1, 1, 8, 8)
    assert len(list(digits.test[:4])) == 4  # iteration ends


def test_a_split_cannot_be_reassigned(digits):
    with pytest.raises(AttributeError):
        digits.train.labels = None


def test_a_split_needs_one_label_an_image():
    with pytest.raises(ValueError, match="labels: expected one an image"):
        data.Split(np.zeros((3, 1, 8, 8), np.float32), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="images: expected shape"):
        data.Split(np.zeros((3, 8, 8), np.float32), np.zeros(3, np.int64))
    with pytest.raises(ValueError, match=r"^images: expected an array without a mask"):
        data.Split(np.ma.zeros((3, 1, 8, 8)), np.zeros(3, np.int64))
    with pytest.raises(ValueError, match=r"^labels: expected an array without a mask"):
        data.Split(np.zeros((3, 1, 8, 8)), np.ma.zeros(3))


def test_lists_become_a_split_and_arrays_stay_themselves():
    assert data.Split([[[[0.0]]]], [3]).labels.shape == (1,)
    images = np.zeros((3, 1, 8, 8), np.float32)
    assert data.Split(images, np.zeros(3, np.int64)).images is images


# The digits edition


def test_the_digits_are_split_once_and_for_all():
    """A changed split would change every number in the book."""
    indices = data.digits_indices()
    assert {part: digest(index, "<i8") for part, index in indices.items()} == {
        "train": "7ccb54087ca1e2f08f29b3fee77e6edd0ee9a25a4c9739b90a378b6cac71b9de",
        "validation": "062a9e823068a645bf26677c994a8dc9f431b3a8c0b25bb793dc27b52eed72df",
        "test": "b4fea6b27f27e9e1bff4fb89acf6e80260b6e4265c855cf0cc7c5c4369c0e5f7",
    }


def test_the_digits_themselves_are_the_ones_the_book_was_written_with(digits):
    assert (
        digest(digits.test.images, "<f4")
        == "f282a93cbc4ae90f89a150bf6200d18968f088a52f09d6bbbe925a3c44b15100"
    )


def test_no_digit_is_in_two_parts_and_none_is_lost():
    indices = data.digits_indices()
    assert [len(indices[part]) for part in ("train", "validation", "test")] == [900, 297, 600]
    assert np.array_equal(np.sort(np.concatenate(list(indices.values()))), np.arange(1797))


def test_every_part_holds_every_class_in_its_share(digits):
    parts = (digits.train, digits.validation, digits.test)
    counts = np.array([np.bincount(part.labels, minlength=10) for part in parts])
    shares = counts.sum(axis=1, keepdims=True) / counts.sum()
    assert np.abs(counts - shares * counts.sum(axis=0)).max() <= 1


def test_pixels_fill_zero_to_one(digits):
    for part in (digits.train, digits.validation, digits.test):
        assert part.images.dtype == np.float32
        assert part.images.shape[1:] == digits.image_shape == (1, 8, 8)
        assert (part.images.min(), part.images.max()) == (0, 1)
        assert part.labels.dtype == np.int64
    assert digits.mean == pytest.approx(digits.train.images.mean(), abs=1e-6)
    assert digits.std == pytest.approx(digits.train.images.std(), abs=1e-6)
    assert digits.classes == 10


def test_changing_what_was_loaded_does_not_change_what_is_loaded_next():
    first = data.load("digits")
    first.train.images[:] = 0
    assert data.load("digits").train.images.max() == 1


def test_the_environment_chooses_the_edition(monkeypatch):
    monkeypatch.delenv("UQ_DATASET", raising=False)
    assert data.load().name == "digits"
    monkeypatch.setenv("UQ_DATASET", "")
    assert data.load().name == "digits"
    monkeypatch.setenv("UQ_DATASET", "cifar")
    with pytest.raises(ValueError, match="UQ_DATASET: expected one of 'digits', 'mnist', got 'cifar'"):
        data.load()
    assert data.load("digits").name == "digits"  # what is asked for comes first


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: data.load("imagenet"), "edition"),
        (lambda: data.load_images("digits"), "name"),
        (lambda: data.load_images("mnist", "validation"), "split"),
        (lambda: data.load_images("kmnist", "train"), "split"),
        (lambda: data.load_ood("mnist"), "name"),
        (lambda: data.load_ood("letters", "imagenet"), "edition"),
        (lambda: data.letters(0), "n"),
        (lambda: data.letters(5, (3, 8, 8)), "image_shape"),
        (lambda: data.letters(5, (8, 8)), "image_shape"),
        (lambda: data.letters(5, 8), "image_shape"),
        (lambda: data.letters(5, (1, 8, 2)), "image_shape"),
        (lambda: data.letters(5, seed="one"), "seed"),
        (lambda: data.ambiguous_digits(0), "n"),
        (lambda: data.ambiguous_digits(split="all"), "split"),
        (lambda: data.ambiguous_digits(seed=-1), "seed"),
    ],
)
def test_a_wrong_argument_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        call()


def test_importing_the_data_imports_nothing_heavy():
    code = (
        "import sys, uqhelpers.data; "
        "print([m for m in ('torch', 'jax', 'sklearn', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    data.letters(3)
    data.ambiguous_digits(3)
    data.corrupt(np.zeros((2, 1, 8, 8)), "gaussian_noise", 1)
    data.cubic()
    data.two_moons()
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


# Letters


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (1, 12, 16)])
def test_letters_come_in_any_size(shape):
    found = data.letters(40, shape)
    assert found.images.shape == (40, *shape)
    assert found.images.dtype == np.float32
    assert found.images.min() == 0
    assert 0.9 < found.images.max() <= 1
    assert found.labels.dtype == np.int64


def test_letters_repeat_with_the_seed_and_differ_without():
    assert np.array_equal(data.letters(20, seed=3).images, data.letters(20, seed=3).images)
    assert not np.array_equal(data.letters(20, seed=3).images, data.letters(20, seed=4).images)


def test_letters_are_as_bright_and_as_large_as_the_digits(digits):
    found = data.letters(600).images
    assert found.mean() == pytest.approx(digits.train.images.mean(), rel=0.05)
    for axis in (2, 3):  # what a row or a column holds: neither squeezed nor cut off
        ours, theirs = (
            np.ptp(np.argwhere(x.mean(axis=(0, 1, axis)) > 0.1)) for x in (found, digits.train.images)
        )
        assert abs(ours - theirs) <= 1


def test_large_letters_have_their_centre_of_mass_in_the_middle():
    images = data.letters(100, (1, 28, 28)).images[:, 0].astype(np.float64)
    place = np.arange(28) + 0.5
    mass = images.sum(axis=(1, 2))
    assert np.abs(images.sum(axis=1) @ place / mass - 14).max() < 0.1
    assert np.abs(images.sum(axis=2) @ place / mass - 14).max() < 0.1


def test_letters_stand_upright():
    """P and p both have their bowl, and so most of their ink, in the upper half."""
    found = data.letters(400, (1, 28, 28))
    bowls = found.images[found.labels == ord("P") - ord("A"), 0]
    assert len(bowls) > 5
    for image in bowls:
        rows = image.sum(axis=1)
        inked = rows[rows > 0]
        assert inked[: len(inked) // 2].sum() > inked[len(inked) // 2 :].sum()


def test_no_letter_that_looks_like_a_digit_is_rendered():
    labels = set(data.letters(2000).labels)
    for letter in "OISZBG":
        assert ord(letter) - ord("A") not in labels
    assert not set(data.LETTERS) & set(data.MISTAKABLE)
    assert len(data.LETTERS) + len(data.MISTAKABLE) == 52
    assert {ord(c.upper()) - ord("A") for c in data.LETTERS if c not in "MWmw"} == labels


def test_letters_of_the_edition_come_in_its_size():
    assert data.load_ood("letters", "digits").images.shape == (600, 1, 8, 8)


# Ambiguous digits


def test_blends_are_what_their_weights_say(digits):
    found = data.ambiguous_digits(50, seed=1)
    assert found.images.shape == (50, 1, 8, 8)
    assert found.images.dtype == np.float32
    assert found.weights == pytest.approx(1 - found.weights[:, ::-1])
    assert np.all((found.weights > 0.39) & (found.weights < 0.61))
    # The two originals must be among the digits: for one of them, the rest after taking the other away.
    pixels = digits.test.images
    for image, labels, weights in zip(found.images[:5], found.labels, found.weights, strict=False):
        first = pixels[digits.test.labels == labels[0]]
        second = pixels[digits.test.labels == labels[1]]
        rest = (image - weights[0] * first) / weights[1]
        distance = np.abs(rest[:, None] - second[None]).max(axis=(2, 3, 4))
        assert distance.min() < 1e-5


def test_both_labels_of_a_blend_are_different_classes():
    labels = data.ambiguous_digits(200).labels
    assert labels.dtype == np.int64
    assert np.all(labels[:, 0] != labels[:, 1])
    assert (labels[:, 0] < labels[:, 1]).mean() == pytest.approx(0.5, abs=0.15)


def test_blends_are_of_many_kinds():
    kinds, counts = np.unique(np.sort(data.ambiguous_digits(600).labels), axis=0, return_counts=True)
    assert len(kinds) >= 20
    assert counts.max() < 60


def test_classifiers_doubt_ambiguous_digits_and_name_one_of_the_two(digits):
    from sklearn.linear_model import LogisticRegression

    def flat(images):
        return images.reshape(len(images), -1)

    model = LogisticRegression(C=0.1, max_iter=500).fit(flat(digits.train.images), digits.train.labels)
    found = data.ambiguous_digits(300)
    probs = model.predict_proba(flat(found.images))
    clear = model.predict_proba(flat(digits.test.images))
    assert probs.max(axis=1).mean() < clear.max(axis=1).mean() - 0.15
    assert (found.labels == probs.argmax(axis=1)[:, None]).any(axis=1).mean() > 0.85
    both = np.take_along_axis(probs, found.labels, axis=1).sum(axis=1)
    assert np.median(both) > 0.5  # of ten classes


def test_blends_repeat_with_the_seed():
    assert np.array_equal(data.ambiguous_digits(9, seed=2).images, data.ambiguous_digits(9, seed=2).images)
    assert not np.array_equal(
        data.ambiguous_digits(9, seed=2).images, data.ambiguous_digits(9, seed=3).images
    )


@pytest.mark.parametrize("split", ["train", "validation"])
def test_any_part_can_be_blended(split):
    assert len(data.ambiguous_digits(7, split=split)) == 7


# Corruptions


def damage(images, kind, severity, seed=0):
    return float(np.sqrt(((data.corrupt(images, kind, severity, seed) - images) ** 2).mean()))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", data.CORRUPTIONS)
def test_a_higher_severity_does_more_damage(kind, seed, digits):
    amounts = [damage(digits.test.images[:200], kind, severity, seed) for severity in range(1, 6)]
    assert amounts[0] > 0.01
    assert np.all(np.diff(amounts) > 0.01)


@pytest.mark.parametrize("kind", data.CORRUPTIONS)
def test_a_higher_severity_does_more_damage_to_large_images(kind):
    images = data.letters(60, (1, 28, 28)).images
    amounts = [damage(images, kind, severity) for severity in range(1, 6)]
    assert np.all(np.diff(amounts) > 0.005)


@pytest.mark.parametrize("kind", ["gaussian_noise", "contrast", "occlusion", "pixel_dropout"])
def test_a_higher_severity_is_more_of_the_same(kind, digits):
    images = digits.test.images[:100]
    away = [np.abs(data.corrupt(images, kind, severity) - images) for severity in range(1, 6)]
    for less, more in pairwise(away):
        assert np.all(more >= less - 1e-6)


def test_severe_corruption_costs_accuracy(digits):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.1, max_iter=500)
    model.fit(digits.train.images.reshape(900, -1), digits.train.labels)
    for kind in data.CORRUPTIONS:
        scores = [
            model.score(data.corrupt(digits.test.images, kind, s).reshape(600, -1), digits.test.labels)
            for s in (1, 5)
        ]
        assert scores[0] > 0.8, kind
        assert scores[1] < scores[0] - 0.1, kind


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(data.CORRUPTIONS),
    severity=st.integers(1, 5),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 17), st.integers(1, 17)),
    seed=st.integers(0, 2**32),
)
def test_corrupted_images_are_images(kind, severity, shape, seed):
    images = np.random.default_rng(seed).random(shape)
    before = images.copy()
    found = data.corrupt(images, kind, severity, seed)
    assert found.shape == shape
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert found.min() >= 0
    assert found.max() <= 1
    assert np.array_equal(images, before)
    assert np.array_equal(found, data.corrupt(images, kind, severity, seed))


@pytest.mark.parametrize("kind", ["rotation", "translation"])
def test_moving_an_image_keeps_what_stays_inside(kind):
    images = np.zeros((20, 1, 28, 28))
    images[:, :, 12:16, 10:18] = 1  # far from every border
    found = data.corrupt(images, kind, 5)
    assert found.sum(axis=(1, 2, 3)) == pytest.approx(images.sum(axis=(1, 2, 3)), rel=0.05)
    assert not np.allclose(found, images, atol=0.3)


def test_a_rotation_turns_about_the_middle():
    images = np.zeros((1, 1, 9, 9))
    images[..., 4, 4] = 1
    assert data.corrupt(images, "rotation", 5)[0, 0, 4, 4] == pytest.approx(1)


def test_colour_images_are_corrupted_all_channels_alike():
    images = np.repeat(data.load("digits").test.images[:5], 3, axis=1)
    for kind in ("rotation", "translation", "blur", "occlusion"):
        found = data.corrupt(images, kind, 3)
        assert np.array_equal(found[:, 0], found[:, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((8, 8)), "blur", 1), "images: expected 4 dimension"),
        ((np.zeros((0, 1, 8, 8)), "blur", 1), "images: expected at least one value"),
        ((np.full((1, 1, 8, 8), np.nan), "blur", 1), "images: expected finite"),
        ((np.full((1, 1, 8, 8), 2.8), "blur", 1), "images: expected pixels in .0, 1.*are these normalised"),
        ((np.zeros((1, 1, 8, 8)), "fog", 1), "kind: expected one of 'gaussian_noise'"),
        ((np.zeros((1, 1, 8, 8)), "blur", 0), "severity: expected a whole number from 1 to 5"),
        ((np.zeros((1, 1, 8, 8)), "blur", 6), "severity: expected a whole number from 1 to 5"),
        ((np.zeros((1, 1, 8, 8)), "blur", 2.5), "severity: expected a whole number"),
        ((np.zeros((1, 1, 8, 8)), "blur", 1, "x"), "seed: expected a whole number"),
    ],
)
def test_what_cannot_be_corrupted_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        data.corrupt(*arguments)


# 28 × 28 brought to 8 × 8


def test_shrinking_keeps_the_ink():
    images = np.random.default_rng(0).random((3, 1, 28, 28)).astype(np.float32)
    small = shrink(images)
    assert small.shape == (3, 1, 8, 8)
    assert 16 * small.sum(axis=(1, 2, 3)) == pytest.approx(images.sum(axis=(1, 2, 3)), rel=1e-5)
    assert small[0, 0, 3, 4] == pytest.approx(images[0, 0, 10:14, 14:18].mean(), rel=1e-5)


# The page that describes all this


def test_the_page_of_data_sets_says_what_the_code_does(digits):
    text = (Path(__file__).parents[1] / "book" / "reference" / "datasets.md").read_text(encoding="utf-8")
    for kind, levels in LEVELS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{kind}` |"))
        assert row.endswith(f"| {' · '.join(f'{level:g}' for level in levels)} |")
    assert f"`{' '.join(data.LETTERS)}`" in text
    for variable in ("UQ_DATASET", "UQHELPERS_DATA", "UQHELPERS_CACHE"):
        assert f"| `{variable}` |" in text
    for part in (digits.train, digits.validation, digits.test):
        assert str(len(part)) in text


# --- seeds ----------------------------------------------------------------------------------------


def test_the_seeds_of_a_chapter_are_moved_from_outside(monkeypatch):
    monkeypatch.delenv("UQ_SEEDS", raising=False)
    ordinary = data.seeds(5)
    assert list(ordinary) == [0, 1, 2, 3, 4]
    monkeypatch.setenv("UQ_SEEDS", "2")
    assert list(data.seeds(3)) == [2000, 2001, 2002]
    assert not set(data.seeds(1000)) & set(ordinary)


@pytest.mark.parametrize("wrong", ["-1", "one", "1.5", "²"])
def test_seeds_that_are_no_number_are_refused_by_name(wrong, monkeypatch):
    monkeypatch.setenv("UQ_SEEDS", wrong)
    with pytest.raises(ValueError, match="UQ_SEEDS: expected a whole number"):
        data.seeds(5)


@pytest.mark.parametrize("wrong", [0, 1001, 2.5])
def test_how_many_seeds_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="count"):
        data.seeds(wrong)
