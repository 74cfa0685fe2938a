"""What methods that look at features stand on: neighbours that rounding does not choose, and Gaussians."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from uqhelpers import features, training
from uqhelpers.features import ClassGaussians, NearestNeighbours, squared_distances, to_unit_length


def by_definition(points, queries, k, alone):
    """Distances in extended precision, sorted."""
    apart = queries.astype(np.longdouble)[:, None] - points.astype(np.longdouble)
    distances = np.sqrt((apart**2).sum(axis=-1))
    if alone:
        np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), order


def situation(name, width, seed=0):
    """Points and queries that are hard on a search by expanded squares."""
    rng = np.random.default_rng(seed)
    points, queries = rng.normal(size=(300, width)), rng.normal(size=(40, width))
    units, sides = 10.0 ** rng.uniform(-8, 8, width), 1e9 * (np.arange(300) % 2)[:, None]
    scale, shift = {
        "plain": (1, 0),
        "far offset": (1e-3, 1e8),
        "tiny": (1e-200, 0),
        "huge": (1e200, 0),
        "mixed units": (units, 0),
        "two distant clusters": (1, sides),
    }.get(name, (1, 0))
    points, queries = points * scale + shift, queries * scale + (shift if np.ndim(shift) == 0 else shift[:40])
    if name == "duplicates":
        points[200:], queries[:20] = points[:100], points[:20]
    if name == "almost the points":
        queries = points[:40] * (1 + 1e-12)
    if name == "one outlier":
        points[0] = queries[0] = 1e60
    if name == "far queries":
        queries = queries + 1e12
    return points, queries


SITUATIONS = [
    "plain",
    "far offset",
    "tiny",
    "huge",
    "mixed units",
    "two distant clusters",
    "duplicates",
    "almost the points",
    "one outlier",
    "far queries",
]


# --- neighbours -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("width", [2, 9, 40])
def test_neighbours_and_distances_are_right_whatever_offset_scale_and_units(name, width):
    points, queries = situation(name, width)
    for k in (1, 7):
        right, _ = by_definition(points, queries, k, alone=False)
        distances, places = NearestNeighbours(points).find(queries, k)
        np.testing.assert_allclose(distances, right.astype(float), rtol=1e-14, atol=0)
        apart = queries.astype(np.longdouble)[:, None] - points.astype(np.longdouble)[places]
        np.testing.assert_allclose(np.sqrt((apart**2).sum(-1)).astype(float), distances, rtol=1e-14, atol=0)
        assert all(len(set(row)) == k for row in places.tolist())


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("width", [2, 40])
def test_among_themselves_no_point_is_its_own_neighbour_but_its_twin_is(name, width):
    points, _ = situation(name, width)
    distances, places = NearestNeighbours(points).find(k=3)
    np.testing.assert_allclose(
        distances, by_definition(points, points, 3, alone=True)[0].astype(float), rtol=1e-14
    )
    assert (places != np.arange(len(points))[:, None]).all()
    if name == "duplicates":
        assert (distances[:100, 0] == 0).all()
        assert np.array_equal(places[:100, 0], np.arange(200, 300))


def test_of_equally_near_ones_the_first_come_first():
    points = np.repeat(np.eye(12)[:3], 4, axis=0)
    distances, places = NearestNeighbours(points).find(np.eye(12)[:1], 6)
    assert np.array_equal(places[0, :4], [0, 1, 2, 3])
    assert np.array_equal(distances[0], np.repeat([0, np.sqrt(2)], [4, 2]))


def test_all_points_can_be_asked_for():
    points, queries = situation("plain", 20)
    distances, places = NearestNeighbours(points).find(queries, len(points))
    assert np.array_equal(np.sort(places, axis=1), np.tile(np.arange(300), (40, 1)))
    assert (np.diff(distances, axis=1) >= 0).all()
    assert NearestNeighbours(points).find(k=299)[0].shape == (300, 299)


def test_blocks_of_queries_change_nothing(monkeypatch):
    points, queries = situation("plain", 20)
    whole = NearestNeighbours(points).find(queries, 5)
    monkeypatch.setattr("uqhelpers.features.neighbours.BLOCK", 100)
    parts = NearestNeighbours(points).find(queries, 5)
    assert np.array_equal(whole[0], parts[0])
    assert np.array_equal(whole[1], parts[1])


def test_memory_does_not_grow_with_the_product_of_points_and_queries():
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(4000, 16)), rng.normal(size=(6000, 16))
    search = NearestNeighbours(points)
    search.find(queries[:1], 5)
    tracemalloc.start()
    search.find(queries, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000 * 6000 * 4 / 5  # a fifth of all distances in single precision


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NearestNeighbours([[np.nan]]), "points: expected finite"),
        (lambda: NearestNeighbours([1.0, 2.0]), "points: expected 2 dim"),
        (lambda: NearestNeighbours(np.eye(3)).find(np.eye(2)), "queries: expected width 3, got 2"),
        (lambda: NearestNeighbours(np.eye(3)).find([[np.inf, 0, 0]]), "queries: expected finite"),
        (lambda: NearestNeighbours(np.eye(3)).find(np.eye(3), 4), "k: expected a whole number from 1 to 3"),
        (lambda: NearestNeighbours(np.eye(3)).find(k=3), "k: expected a whole number from 1 to 2"),
    ],
)
def test_a_search_without_sense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["plain", "far offset", "two distant clusters", "duplicates"])
def test_squared_distances_keep_six_digits_however_near(name):
    points, queries = situation(name, 9)
    near = np.concatenate([queries, points[:30] + 1e-4])
    apart = near.astype(np.longdouble)[:, None] - points.astype(np.longdouble)
    right = (apart**2).sum(axis=-1).astype(float)
    np.testing.assert_allclose(np.concatenate(list(squared_distances(near, points))), right, rtol=1e-6)


def test_squared_distances_end_at_infinity_and_not_in_nan():
    far = np.concatenate(list(squared_distances(np.array([[1e200, 0.0], [0.0, 0.0]]), np.eye(2))))
    assert np.array_equal(far, [[np.inf, np.inf], [1, 1]])


def test_lengths_become_one_and_nothing_stays_nothing():
    rows = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]])
    np.testing.assert_allclose(to_unit_length(rows), [[0.6, 0.8], [0.6, 0.8], [0, 0]])


# --- Gaussians --------------------------------------------------------------------------------------------


def clusters(n=300, width=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    mixing = rng.normal(size=(width, width))
    return rng.normal(size=(n, width)) @ mixing + 4 * rng.normal(size=(classes, width))[labels], labels


def gaussians(values, labels, ridge=1e-6, units="common", shared=False):
    labels, members = features.class_members(labels, len(values))
    counts = np.bincount(labels)
    if shared:
        return ClassGaussians(*features.shared_moments(values, labels, members), counts, ridge, units)
    return ClassGaussians(*features.class_moments(values, members), counts, ridge, units)


@pytest.mark.parametrize("shared", [False, True])
def test_distances_and_volumes_are_those_of_scipys_gaussians(shared):
    values, labels = clusters()
    ours = gaussians(values, labels, shared=shared)
    centred = values - np.stack([values[labels == c].mean(axis=0) for c in range(3)])[labels]
    for label in range(3):
        rows = centred if shared else centred[labels == label]
        covariance = rows.T @ rows / len(rows) + ours.ridge * np.eye(5)
        theirs = multivariate_normal(values[labels == label].mean(axis=0), covariance).logpdf(values)
        volume = ours.log_volumes[0 if shared else label] - 2.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(volume - ours.distances(values)[:, label] / 2, theirs, rtol=1e-8)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("factor", [1e-12, 1e4, 1e8, 1e30])
def test_with_units_of_their_own_a_factor_of_one_feature_changes_no_distance(shared, factor):
    values, labels = clusters()
    values[:, 2] = 0.25  # and one that never varies
    scaled = values.copy()
    scaled[:, 0] *= factor
    plain = gaussians(values, labels, 1e-3, "own", shared).distances(values)
    np.testing.assert_allclose(
        gaussians(scaled, labels, 1e-3, "own", shared).distances(scaled), plain, rtol=1e-6
    )


def test_in_a_common_unit_such_a_factor_drowns_the_other_features():
    values, labels = clusters()
    scaled = values * [1e8, 1, 1, 1, 1]
    moved = values + np.array([0, 30, 0, 0, 0])
    assert gaussians(values, labels).distances(moved).min(axis=1).mean() > 100
    assert gaussians(scaled, labels).distances(moved * [1e8, 1, 1, 1, 1]).min(axis=1).mean() < 10
    own = gaussians(scaled, labels, units="own")
    assert own.distances(moved * [1e8, 1, 1, 1, 1]).min(axis=1).mean() > 100


@pytest.mark.parametrize("scale", [1e-200, 0.0])
def test_a_variance_that_float64_cannot_hold_is_told(scale):
    values, labels = clusters()
    with pytest.raises(ValueError, match="features: expected features that vary, and by more than"):
        gaussians(scale * values, labels)


# --- whom it serves ---------------------------------------------------------------------------------------


def test_features_of_a_network_are_those_that_training_finds():
    assert features.features is training.features
    assert features.features_and_outputs is training.features_and_outputs


def test_it_knows_no_method_and_takes_torch_only_when_asked_for_a_network():
    code = (
        "import sys; from uqhelpers import features; features.NearestNeighbours;"
        "methods = {'odin', 'ddu', 'confidnet', 'first_classifier', 'training'};"
        "print('torch' in sys.modules, any('uqhelpers.' + name in sys.modules for name in methods))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    with pytest.raises(AttributeError, match="no attribute 'neighbors'"):
        _ = features.neighbors


@pytest.mark.parametrize(
    "rows", [np.ma.masked_greater(np.eye(2), 0), [[1.0, np.nan]], [[np.inf, 1.0]], np.ones(3), [[1j, 1]], []]
)
def test_only_a_table_of_finite_numbers_has_rows_of_a_length(rows):
    with pytest.raises(ValueError, match=r"^features: expected"):
        to_unit_length(rows)


@pytest.mark.parametrize("far", [3, 7, 2**40, 2**62])
def test_a_class_number_far_out_leaves_classes_empty_and_counts_nothing_up(far):
    labels = np.array([0, 0, 1, 1, far])
    with pytest.raises(
        ValueError, match=rf"^labels: expected at least 1 input of each of {far + 1} classes, got 0"
    ):
        features.class_members(labels, 5)
