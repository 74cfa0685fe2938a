"""Active learning: information on grids and from samples, batches, diversity, honest weights, loops."""

import itertools
import json

import numpy as np
import pytest

from uqhelpers import active_learning as al
from uqhelpers import metrics


def sampled(samples=8, inputs=12, classes=3, seed=0, power=1.0):
    """Class probabilities of sampled networks."""
    return np.random.default_rng(seed).dirichlet(power * np.ones(classes), (samples, inputs))


# --- information ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_what_a_label_tells_about_the_network_is_what_the_network_tells_about_the_label(seed):
    likelihood = sampled(seed=seed)
    equal = np.full(8, 1 / 8)
    gain = al.expected_information_gain(equal, likelihood)
    assert np.allclose(gain, metrics.mutual_information(likelihood), atol=1e-12)
    # A prior with whole-number weights is one of so many copies.
    counts = np.random.default_rng(seed).integers(1, 5, 8)
    gain = al.expected_information_gain(counts / counts.sum(), likelihood)
    assert np.allclose(gain, metrics.mutual_information(np.repeat(likelihood, counts, axis=0)), atol=1e-12)


def test_the_average_is_the_best_prediction_and_information_what_it_must_expect_to_lose():
    rng, likelihood = np.random.default_rng(0), sampled()
    prior = rng.dirichlet(np.ones(8))
    mean = np.tensordot(prior, likelihood, axes=1)
    gain = al.expected_information_gain(prior, likelihood)

    def loss(q):
        return np.tensordot(prior, np.sum(likelihood * np.log(likelihood / q), axis=-1), axes=1)

    assert np.allclose(loss(mean), gain)
    for _ in range(20):
        q = rng.dirichlet(np.ones(3), 12)
        assert np.allclose(loss(q), gain + np.sum(mean * np.log(mean / q), axis=-1))
        assert (loss(q) >= gain).all()


def test_nothing_is_gained_where_everything_is_known_and_all_of_it_by_a_label_that_tells():
    assert np.all(al.expected_information_gain([0, 1, 0], sampled(3)) == 0)
    telling = np.eye(4)[:, None, :]
    assert al.expected_information_gain([0.1, 0.2, 0.3, 0.4], telling) == pytest.approx(
        -np.sum([p * np.log(p) for p in (0.1, 0.2, 0.3, 0.4)])
    )


def epig_by_definition(probs, targets):
    found = []
    for i in range(probs.shape[1]):
        values = []
        for j in range(targets.shape[1]):
            joint = np.einsum("sy,sz->yz", probs[:, i], targets[:, j]) / len(probs)
            product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            values.append(np.sum(joint * np.log(joint / product)))
        found.append(np.mean(values))
    return np.array(found)


@pytest.mark.parametrize("seed", range(3))
def test_epig_is_mutual_information_between_two_labels_and_at_most_bald(seed):
    probs, targets = sampled(seed=seed), sampled(inputs=5, seed=100 + seed)
    got = al.epig(probs, targets)
    assert np.allclose(got, epig_by_definition(probs, targets), atol=1e-12)
    assert (got <= metrics.mutual_information(probs) + 1e-12).all()


def test_targets_on_which_all_networks_agree_are_told_nothing():
    assert np.all(al.epig(sampled(), np.tile([[0.2, 0.3, 0.5]], (8, 4, 1))) < 1e-12)


def test_epig_of_a_large_pool_is_that_of_its_parts():
    probs, targets = sampled(5, 3000), sampled(5, 50, seed=1)
    got = al.epig(probs, targets)
    assert np.allclose(got[2990:], al.epig(probs[:, 2990:], targets), atol=1e-13)


# --- batches --------------------------------------------------------------------------------------------


def joint_by_definition(probs, batch):
    """I[Θ; Y_B] as entropy of the mixture minus the average entropy, configuration by configuration."""
    together = inside = 0.0
    for labels in itertools.product(range(probs.shape[2]), repeat=len(batch)):
        each = np.prod([probs[:, i, y] for i, y in zip(batch, labels, strict=True)], axis=0)
        together -= each.mean() * np.log(each.mean())
        inside -= np.mean(each * np.log(each))
    return together - inside


@pytest.mark.parametrize("batch", [[3], [0, 5], [2, 7, 4], [1, 1]])
def test_joint_information_is_that_of_all_configurations(batch):
    probs = sampled()
    assert al.joint_mutual_information(probs, batch) == pytest.approx(joint_by_definition(probs, batch))


def test_a_batch_of_one_is_bald():
    for seed in range(5):
        probs = sampled(seed=seed)
        scores = metrics.mutual_information(probs)
        found = al.batch_bald(probs, 1)
        assert found.indices.tolist() == [scores.argmax()]
        assert found.information == pytest.approx(scores.max())


def test_information_is_monotone_and_submodular_and_bounded_by_the_number_of_networks():
    probs = sampled(4, 6, power=0.2)
    for small, large in [((0,), (0, 1)), ((0, 2), (0, 2, 3)), ((4,), (4, 5, 1))]:
        lower, upper = (al.joint_mutual_information(probs, list(batch)) for batch in (small, large))
        assert lower <= upper + 1e-12 <= np.log(4) + 2e-12
        more = [
            al.joint_mutual_information(probs, [*batch, 2 if 2 not in large else 0])
            for batch in (small, large)
        ]
        assert more[0] - lower >= more[1] - upper - 1e-12  # what one more adds can only shrink


def test_greed_reaches_its_guarantee_and_every_batch_is_within_it():
    for seed in range(6):
        probs = sampled(6, 9, power=0.3, seed=seed)
        found = al.batch_bald(probs, 3)
        best = max(al.joint_mutual_information(probs, list(b)) for b in itertools.combinations(range(9), 3))
        assert found.exact
        assert (1 - np.exp(-1)) * best <= found.information <= best + 1e-12
        assert found.information == pytest.approx(joint_by_definition(probs, found.indices))
        assert np.all(np.diff(found.gains) <= 1e-12)


def greedy_by_definition(probs, size):
    batch = []
    for _ in range(size):
        gains = [
            -1 if i in batch else al.joint_mutual_information(probs, [*batch, i])
            for i in range(probs.shape[1])
        ]
        batch.append(int(np.argmax(gains)))
    return batch


@pytest.mark.parametrize("seed", range(4))
def test_shortcuts_change_no_choice(seed):
    probs = sampled(20, 300, 4, seed, power=0.5)  # 4^5 configurations: bounds and heats are at work
    assert al.batch_bald(probs, 5).indices.tolist() == greedy_by_definition(probs, 5)


def test_what_is_drawn_is_near_what_is_enumerated():
    probs = sampled(30, 40, 3, power=0.4)
    exact = al.batch_bald(probs, 7)
    drawn = [al.batch_bald(probs, 7, configurations=500, seed=seed) for seed in range(5)]
    assert exact.exact
    assert not any(one.exact for one in drawn)
    for one in drawn:
        assert len(set(one.indices.tolist())) == 7
        true = al.joint_mutual_information(probs, one.indices)
        assert one.information == pytest.approx(true, abs=0.05)
        assert true > 0.98 * exact.information


@pytest.mark.parametrize("sizes", [(15, 400, 5), (40, 250, 10)])
def test_drawn_configurations_are_scored_as_the_plain_formula_scores_them(sizes):
    from benchmarks.bench_active_learning import plain_batch_bald

    probs = sampled(*sizes, power=0.3, seed=sizes[0])
    got = al.batch_bald(probs, 6, configurations=3000, seed=5)
    want, gains = plain_batch_bald(probs, 6, configurations=3000, seed=5)
    assert got.indices.tolist() == want
    assert np.allclose(got.gains, gains, atol=1e-9)


def test_ties_go_to_the_lowest_place_and_no_place_is_taken_twice():
    one = sampled(6, 1)
    probs = np.repeat(one, 5, axis=1)
    assert al.batch_bald(probs, 5).indices.tolist() == [0, 1, 2, 3, 4]
    assert al.acquire(probs, "bald", 3).tolist() == [0, 1, 2]


def test_a_second_label_of_the_same_input_may_tell_more_than_the_first_of_another():
    unsure = np.array([[0.9, 0.1], [0.1, 0.9]])[:, None]
    dull = np.array([[0.52, 0.48], [0.48, 0.52]])[:, None]
    probs = np.concatenate([unsure, unsure, dull], axis=1)
    assert al.batch_bald(probs, 2).indices.tolist() == [0, 1]
    assert al.joint_mutual_information(probs, [0, 1]) > al.joint_mutual_information(probs, [0, 2])


def test_certain_networks_and_impossible_labels_do_no_harm():
    probs = np.zeros((4, 6, 3))
    probs[..., 0] = 1
    found = al.batch_bald(probs, 6, configurations=10)
    assert found.indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.information == 0
    probs = np.eye(3)[np.random.default_rng(0).integers(0, 3, (5, 30))]  # every network is sure
    found = al.batch_bald(probs, 8, configurations=20, seed=1)
    assert found.information <= np.log(5) + 1e-9
    assert np.isfinite(found.gains).all()


# --- strategies -----------------------------------------------------------------------------------------


def test_each_score_is_that_of_the_metrics_and_asks_for_the_unsure():
    probs = sampled()
    for name, want in {
        "entropy": metrics.predictive_entropy(probs),
        "least_confidence": 1 - metrics.max_probability(probs),
        "margin": 1 - metrics.margin(probs),
        "variation_ratio": metrics.variation_ratio(probs),
        "bald": metrics.mutual_information(probs),
    }.items():
        assert np.array_equal(al.score(probs, name), want)
        assert al.acquire(probs, name, 12).tolist() == np.argsort(-want, kind="stable").tolist()


def test_for_two_classes_three_scores_are_one_order():
    probs = sampled(1, 50, 2)[0]
    orders = [al.acquire(probs, name, 50).tolist() for name in ("entropy", "least_confidence", "margin")]
    assert orders[0] == orders[1] == orders[2]


@pytest.mark.parametrize("strategy", ["random", "entropy", "bald", "margin", "power_bald"])
def test_a_pool_in_chunks_is_the_pool(strategy):
    probs = sampled(5, 103)
    chunks = (probs[:, start : start + 20] for start in range(0, 103, 20))
    assert al.acquire(chunks, strategy, 7, seed=3).tolist() == al.acquire(probs, strategy, 7, seed=3).tolist()


@pytest.mark.parametrize("strategy", al.STRATEGIES)
def test_every_strategy_chooses_different_places_and_the_same_ones_again(strategy):
    probs, rng = sampled(), np.random.default_rng(1)
    options = {
        "epig": {"targets": sampled(inputs=4, seed=9)},
        "k_center": {"features": rng.normal(size=(12, 2)), "known": rng.normal(size=(3, 2))},
        "badge": {"features": rng.normal(size=(12, 2))},
    }.get(strategy, {})
    got = al.acquire(probs, strategy, 6, seed=4, **options)
    assert len(set(got.tolist())) == 6
    assert got.min() >= 0
    assert got.max() < 12
    assert got.tolist() == al.acquire(probs, strategy, 6, seed=4, **options).tolist()


def test_power_bald_draws_in_proportion_to_powers_of_the_scores_without_replacement():
    scores, beta = np.array([1.0, 2.0, 4.0, 0.0]), 2.0
    weights = scores[:3] ** beta
    first = np.zeros(4)
    pairs = {}
    for seed in range(6000):
        one, two = al.power_bald(scores, 2, beta, seed)
        first[one] += 1
        pairs[one, two] = pairs.get((one, two), 0) + 1
    assert first[3] == 0
    p = weights / weights.sum()
    for i, j in itertools.permutations(range(3), 2):
        want = p[i] * p[j] / (1 - p[i])
        assert abs(pairs.get((i, j), 0) / 6000 - want) < 5 * np.sqrt(want * (1 - want) / 6000)
    assert set(al.power_bald(scores, 4, seed=0).tolist()) == {0, 1, 2, 3}


def test_a_large_power_takes_the_top():
    scores = np.array([0.5, 3.0, 1.0, 2.0])
    assert al.power_bald(scores, 3, beta=1e6).tolist() == [1, 3, 2]


# --- diversity ------------------------------------------------------------------------------------------


def test_farthest_first_covers_within_twice_the_best():
    rng = np.random.default_rng(0)
    for _ in range(5):
        points = rng.normal(size=(10, 2))
        apart = np.sqrt(np.square(points[:, None] - points).sum(axis=2))
        chosen = al.k_center(points, 3)
        best = min(apart[:, list(c)].min(axis=1).max() for c in itertools.combinations(range(10), 3))
        assert apart[:, chosen].min(axis=1).max() <= 2 * best + 1e-12


def test_the_next_centre_is_the_point_farthest_from_what_is_known():
    points = np.array([[0.0], [1.0], [5.0], [6.0], [-3.0]])
    assert al.k_center(points, 3, known=[[0.0]]).tolist() == [3, 4, 1]


def test_the_inner_products_are_those_of_the_last_layers_gradients():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(7, 4))
    layer = torch.nn.Linear(4, 3, bias=False, dtype=torch.float64)
    logits = layer(torch.as_tensor(features))
    probs = logits.softmax(dim=1).detach().numpy()
    rows = []
    for row in range(7):
        loss = torch.nn.functional.cross_entropy(logits[row : row + 1], logits[row : row + 1].argmax(dim=1))
        rows.append(torch.autograd.grad(loss, layer.weight, retain_graph=True)[0].ravel().numpy())
    rows = np.array(rows)
    assert np.allclose(al.gradient_gram(probs, features, [2, 5]), rows @ rows[[2, 5]].T)


def test_badge_draws_by_squared_distance_to_what_was_chosen():
    rng = np.random.default_rng(0)
    probs, features = rng.dirichlet(np.ones(3), 6), rng.normal(size=(6, 4))
    gradients = np.einsum("nc,nd->ncd", probs - np.eye(3)[probs.argmax(axis=1)], features).reshape(6, -1)
    first = np.square(gradients).sum(axis=1).argmax()
    chance = np.square(gradients - gradients[first]).sum(axis=1)
    chance /= chance.sum()
    seen = np.zeros(6)
    for seed in range(3000):
        one, two = al.badge(probs, features, 2, seed)
        assert one == first
        seen[two] += 1
    assert np.all(np.abs(seen / 3000 - chance) < 5 * np.sqrt(chance * (1 - chance) / 3000) + 1e-9)


def test_features_of_any_unit_give_the_same_batch():
    rng = np.random.default_rng(0)
    probs, features = rng.dirichlet(np.ones(3), 20), rng.normal(size=(20, 4))
    for unit in (2.0**-600, 2.0**600):
        assert np.array_equal(al.badge(probs, unit * features, 5), al.badge(probs, features, 5))
        assert np.array_equal(al.k_center(unit * features, 5), al.k_center(features, 5))
        known = features[:2] + 0.1
        assert np.array_equal(
            al.k_center(unit * features, 5, known=unit * known), al.k_center(features, 5, known=known)
        )
    assert len(al.badge(probs, 0 * features, 5)) == 5


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("probs", {"probs": 3 * np.ones((4, 2))}),
        ("probs", {"probs": np.ma.masked_greater(np.full((4, 2), 0.5), 0.4)}),
        ("features", {"features": np.full((4, 3), np.nan)}),
        ("features", {"features": np.ones((3, 3))}),
        ("places", {"places": [4]}),
        ("places", {"places": [-1]}),
        ("places", {"places": [0.5]}),
    ],
)
def test_a_gram_matrix_of_nonsense_is_refused_by_name(name, wrong):
    given = {"probs": np.full((4, 2), 0.5), "features": np.ones((4, 3)), "places": [0]}
    assert al.gradient_gram(**given).shape == (4, 1)
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        al.gradient_gram(**(given | wrong))


def test_badge_goes_on_where_nothing_is_left_to_tell_apart():
    assert set(al.badge(np.tile([0.5, 0.5], (5, 1)), np.ones((5, 2)), 5).tolist()) == {0, 1, 2, 3, 4}


# --- honest averages ------------------------------------------------------------------------------------


def orders_and_chances(scores, taken):
    """Every order in which so many can be drawn, with its probability and the chances along the way."""
    for order in itertools.permutations(range(len(scores)), taken):
        left, chances = list(range(len(scores))), []
        for place in order:
            chances.append(scores[place] / sum(scores[i] for i in left))
            left.remove(place)
        yield list(order), np.prod(chances), np.array(chances)


@pytest.mark.parametrize("taken", [1, 2, 3, 4, 5])
def test_the_weighted_average_is_the_pools_in_expectation_over_all_orders(taken):
    losses, scores = np.array([0.1, 0.9, 0.4, 0.2, 0.177]), np.array([1.0, 5.0, 2.0, 0.5, 1.5])
    weighted = plain = total = 0.0
    for order, chance, chances in orders_and_chances(scores, taken):
        weighted += chance * al.lure_risk(losses[order], chances, 5)
        plain += chance * losses[order].mean()
        total += chance
    assert total == pytest.approx(1)
    assert weighted == pytest.approx(losses.mean(), abs=1e-12)
    assert taken == 5 or plain > losses.mean() + 0.01


def test_weights_are_above_zero():
    rng = np.random.default_rng(0)
    for _ in range(500):
        pool = int(rng.integers(1, 30))
        taken = int(rng.integers(1, pool + 1))
        assert al.lure_weights(rng.uniform(1e-3, 1, taken), pool).min() > 0


def test_uniform_choices_have_weight_one():
    assert np.allclose(al.lure_weights(1 / np.arange(30, 20, -1), 30), 1)
    assert np.allclose(al.lure_weights([0.3, 0.2, 1.0], 3), 1)


def test_draws_have_the_chances_that_they_say():
    scores = np.array([1.0, 3.0, 0.5, 2.0])
    want = {tuple(order): (chance, q) for order, chance, q in orders_and_chances(scores, 2)}
    seen = dict.fromkeys(want, 0)
    for seed in range(6000):
        drawn = al.draw(scores, 2, seed)
        key = tuple(drawn.indices.tolist())
        seen[key] += 1
        assert np.allclose(drawn.chances, want[key][1])
    for key, (chance, _) in want.items():
        assert abs(seen[key] / 6000 - chance) < 5 * np.sqrt(chance * (1 - chance) / 6000)


# --- pools ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64])
def test_a_mean_of_whole_numbers_is_not_cut_to_whole_numbers(kind):
    images = np.arange(12).reshape(6, 1, 1, 2).astype(kind)
    mixed, _ = al.scrawls(images, np.arange(6), 20, parts=3, seed=1)
    assert mixed.dtype == np.float64
    assert np.array_equal(mixed, al.scrawls(images.astype(float), np.arange(6), 20, parts=3, seed=1)[0])
    assert (mixed % 1 > 0).any()


@pytest.mark.parametrize("images", [np.full((2, 1, 2, 2), 255), np.full((2, 1, 2, 2), -0.5)])
def test_pixels_beyond_their_range_are_refused_and_not_cut(images):
    with pytest.raises(ValueError, match=r"^images: expected pixels in \[0, 1\]"):
        al.repeated(images, [0, 1])


def test_a_scrawl_is_a_mean_of_images_of_different_classes_and_bears_the_label_of_one():
    images = np.eye(6).reshape(6, 1, 1, 6).astype(np.float32)  # image i lights pixel i
    labels = np.array([0, 1, 2, 3, 4, 4])
    mixed, said = al.scrawls(images, labels, 200, parts=3, seed=0)
    lit = mixed[:, 0, 0] > 0
    assert mixed.dtype == np.float32
    assert (lit.sum(axis=1) == 3).all()
    assert np.allclose(mixed[:, 0, 0][lit], 1 / 3)
    assert not (lit[:, 4] & lit[:, 5]).any()  # both are of class 4
    assert all(said[i] in labels[lit[i]] for i in range(200))


def test_copies_stand_where_they_say():
    images = np.random.default_rng(0).random((5, 1, 2, 2)).astype(np.float32)
    copies, labels = al.repeated(images, np.arange(5), 3, 0.01)
    assert copies.shape == (15, 1, 2, 2)
    assert labels.tolist() == list(range(5)) * 3
    assert np.abs(copies - np.concatenate([images] * 3)).max() < 0.06
    assert not np.array_equal(copies[:5], copies[5:10])
    assert np.array_equal(al.repeated(images, np.arange(5), 2, 0)[0][5:], images)


# --- loops ----------------------------------------------------------------------------------------------


class World:
    """Two clouds, and a "network" that is a jittered centroid: quick, and all its calls counted."""

    def __init__(self, inputs=80):
        rng = np.random.default_rng(0)
        self.labels = np.arange(inputs) % 2
        self.inputs = rng.normal(size=(inputs, 2)) + 3 * self.labels[:, None]
        self.fits = []
        self.stop_after = None

    def fit(self, x, y, seed):
        if self.stop_after is not None and len(self.fits) >= self.stop_after:
            raise KeyboardInterrupt
        self.fits.append((len(y), seed))
        return x.mean(axis=0), seed

    def sample(self, model, x, seed):
        rng = np.random.default_rng(seed)
        one = 1 / (1 + np.exp(-((x - model[0]).sum(axis=1) + rng.normal(size=(6, 1)))))
        return np.stack([1 - one, one], axis=-1)

    def evaluate(self, model):
        return {"accuracy": float(model[0].sum()), "seed": model[1]}

    def learner(self):
        return al.Learner(self.fit, self.sample, self.evaluate, lambda model, x: x)


def run(world, strategy="bald", **settings):
    settings = {"initial": 4, "batch": 3, "rounds": 5, "seeds": [1, 2]} | settings
    return al.simulate(world.learner(), world.inputs, world.labels, strategy, **settings)


@pytest.mark.parametrize("strategy", al.STRATEGIES)
def test_a_loop_asks_for_different_inputs_and_counts_the_first_labels(strategy):
    world = World()
    options = {"targets": world.inputs[:5]} if strategy == "epig" else None
    for curve in run(world, strategy, options=options):
        assert curve.labels.tolist() == [4, 7, 10, 13, 16, 19]
        assert len(set(curve.asked.tolist())) == 19
        assert curve.figures["accuracy"].shape == (6,)
    assert [size for size, _ in world.fits] == [4, 7, 10, 13, 16, 19] * 2


def test_strategies_are_paired():
    curves = {name: run(World(), name)[0] for name in ("random", "entropy", "bald")}
    firsts = {name: curve.asked[:4].tolist() for name, curve in curves.items()}
    seeds = {name: curve.figures["seed"].tolist() for name, curve in curves.items()}
    assert firsts["random"] == firsts["entropy"] == firsts["bald"]
    assert seeds["random"] == seeds["entropy"] == seeds["bald"]
    assert curves["random"].asked[4:].tolist() != curves["bald"].asked[4:].tolist()


def test_two_copies_of_random_with_one_seed_are_one():
    one, two = run(World(), "random"), run(World(), "random")
    assert [c.asked.tolist() for c in one] == [c.asked.tolist() for c in two]
    assert one[0].asked.tolist() != one[1].asked.tolist()


@pytest.mark.parametrize("strategy", ["bald", "batch_bald", "power_bald"])
def test_a_loop_that_was_cut_off_goes_on_as_if_nothing_had_happened(strategy, tmp_path):
    whole = run(World(), strategy)
    world = World()
    world.stop_after = 8
    with pytest.raises(KeyboardInterrupt):
        run(world, strategy, folder=tmp_path)
    world.stop_after = None
    resumed = run(world, strategy, folder=tmp_path)
    assert len(world.fits) == 12
    for a, b in zip(whole, resumed, strict=True):
        assert a.asked.tolist() == b.asked.tolist()
        assert np.array_equal(a.figures["accuracy"], b.figures["accuracy"])
    run(world, strategy, folder=tmp_path)
    assert len(world.fits) == 12  # all of it is there


def test_a_loop_that_was_kept_can_be_cut_short_or_made_longer(tmp_path):
    world = World()
    long = run(world, folder=tmp_path)
    short = run(world, folder=tmp_path, rounds=2)
    assert len(world.fits) == 12
    assert short[0].asked.tolist() == long[0].asked[:10].tolist()
    assert len(short[0].figures["accuracy"]) == 3
    longer = run(world, folder=tmp_path, rounds=7)
    assert longer[0].asked[:19].tolist() == long[0].asked.tolist()
    assert len(longer[0].asked) == 25


def test_files_of_another_run_are_refused_and_torn_ones_begun_anew(tmp_path):
    run(World(), folder=tmp_path, settings={"epochs": 3})
    with pytest.raises(ValueError, match="folder"):
        run(World(), folder=tmp_path, settings={"epochs": 4})
    path = tmp_path / "bald-1.json"
    path.write_text(path.read_text()[:40])
    world = World()
    run(world, folder=tmp_path, settings={"epochs": 3})
    assert len(world.fits) == 6
    assert json.loads(path.read_text())["settings"]["epochs"] == 3


def test_a_folder_tells_pools_options_candidates_and_first_labels_apart(tmp_path):
    run(World(), "power_bald", options={"beta": 0.0}, folder=tmp_path)
    other = World(90)
    for world, settings in (
        (World(), {"options": {"beta": 50.0}}),
        (World(), {"options": {"beta": 0.0}, "candidates": 20}),
        (World(), {"options": {"beta": 0.0}, "initial": lambda rng: [0, 1, 2, 3]}),
        (other, {"options": {"beta": 0.0}}),
    ):
        with pytest.raises(ValueError, match="folder"):
            run(world, "power_bald", folder=tmp_path, **settings)
    with pytest.raises(ValueError, match="name"):
        run(World(), lambda seen: np.arange(seen.batch), folder=tmp_path)


def test_no_more_is_looked_at_than_asked_for_and_chunks_change_nothing():
    world, sizes = World(), []
    sample = world.sample

    def counting(model, x, seed):
        sizes.append(len(x))
        return sample(model, x, seed)

    world.sample = counting
    curves = run(world, candidates=20)
    assert set(sizes) == {20}
    sizes.clear()
    chunked = run(world, candidates=20, chunk=6)
    assert max(sizes) == 6
    assert [c.asked.tolist() for c in curves] == [c.asked.tolist() for c in chunked]


def test_a_strategy_of_ones_own_sees_no_labels_of_candidates_and_is_held_to_the_batch():
    def last(seen):
        assert len(seen.inputs) + len(seen.known) == 80
        assert len(seen.known) == len(seen.known_labels)
        assert seen.sample().shape == (6, len(seen.inputs), 2)
        return np.arange(len(seen.inputs))[-seen.batch :]

    curve = run(World(), last)[0]
    assert curve.strategy == "last"
    assert set(curve.asked[4:7].tolist()) == set(sorted(set(range(80)) - set(curve.asked[:4].tolist()))[-3:])
    for wrong in ([0, 0, 1], [0, 1], [0, 1, 500], [0.0, 1.0, 2.0]):
        with pytest.raises(ValueError, match="strategy"):
            run(World(), lambda seen, wrong=wrong: wrong)


@pytest.mark.parametrize("strategy", ["random", "bald", lambda seen: np.arange(seen.batch)])
@pytest.mark.parametrize("wrong", ["one of them thrice", "known", "beyond the pool", "too few", "floats"])
def test_candidates_of_ones_own_are_different_and_have_no_label(strategy, wrong):
    def candidates(places, rng):
        known = np.setdiff1d(np.arange(80), places)[:3]
        return {
            "one of them thrice": places[[5, 5, 5, 6]],
            "known": known,
            "beyond the pool": [100, 101, 102],
            "too few": places[:2],
            "floats": places[:3] + 0.5,
        }[wrong]

    with pytest.raises(ValueError, match=r"^candidates: expected at least 3 different places out of those"):
        run(World(), strategy, candidates=candidates, name="own")


@pytest.mark.parametrize("strategy", ["bald", "batch_bald", "epig", "badge", "k_center"])
def test_a_learner_that_leaves_out_inputs_is_refused_and_not_taken_for_all_of_them(strategy):
    class Short(World):
        def sample(self, model, x, seed):
            return super().sample(model, x[:-1], seed)

        def learner(self):
            short = super().learner()
            return al.Learner(short.fit, short.sample, short.evaluate, lambda model, x: x[1:])

    options = {"targets": np.ones((4, 2))} if strategy == "epig" else {}
    with pytest.raises(ValueError, match=r"^learner: expected (probabilities|features) of \d+ inputs, got"):
        run(Short(), strategy, options=options)


@pytest.mark.parametrize("seeds", [3, [1, 1], [0, 2, 0]])
def test_each_loop_has_a_seed_of_its_own(seeds):
    with pytest.raises(ValueError, match=r"^seeds: expected"):
        run(World(), seeds=seeds)


def test_seeds_may_run_side_by_side():
    world = World()
    one, two = run(world), run(world, n_jobs=2)
    assert [c.asked.tolist() for c in one] == [c.asked.tolist() for c in two]


def test_two_ways_to_draw_at_random_tie_within_the_interval_of_their_paired_differences():
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    inputs = rng.normal(size=(200, 3)) + 0.8 * labels[:, None]
    new, truth = rng.normal(size=(500, 3)), np.arange(500) % 2
    new += 0.8 * truth[:, None]

    def fit(x, y, seed):
        return [x[y == c].mean(axis=0) if (y == c).any() else np.full(3, 0.4) for c in (0, 1)]

    def evaluate(means):
        nearer = np.square(new - means[0]).sum(axis=1) > np.square(new - means[1]).sum(axis=1)
        return float(np.mean(nearer == truth))

    def another(seen):
        return np.random.default_rng([seen.seed, 1]).permutation(len(seen.inputs))[: seen.batch]

    learner = al.Learner(fit, lambda model, x, seed: np.full((1, len(x), 2), 0.5), evaluate)
    settings = {"initial": 4, "batch": 4, "rounds": 6, "seeds": range(60)}
    one, two = (al.simulate(learner, inputs, labels, by, **settings) for by in ("random", another))
    d = [b.figures["accuracy"].mean() - a.figures["accuracy"].mean() for a, b in zip(one, two, strict=True)]
    assert np.std(d) > 0
    assert abs(np.mean(d)) < 3 * np.std(d, ddof=1) / np.sqrt(60)  # three standard errors


def test_labels_to_a_level_counts_all_and_says_when_it_was_not_reached():
    curve = al.Curve("x", 0, np.array([20, 30, 40]), {"accuracy": np.array([0.5, 0.9, 0.8])}, np.arange(40))
    assert curve.labels_to(0.9) == 30
    assert curve.labels_to(0.95) is None


# --- nonsense -------------------------------------------------------------------------------------------

P, F = sampled(), np.zeros((12, 2))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: al.acquire(P, "best"), "strategy"),
        (lambda: al.acquire(P, "bald", 13), "batch"),
        (lambda: al.acquire(P, "bald", 0), "batch"),
        (lambda: al.acquire(P, "bald", 3, beta=2), "beta"),
        (lambda: al.acquire(P, "epig", 3), "targets"),
        (lambda: al.acquire(P, "k_center", 3), "features"),
        (lambda: al.acquire(P, "k_center", 3, features=F[:5]), "features"),
        (lambda: al.acquire(P, "badge", 3, features=F[:5]), "features"),
        (lambda: al.acquire(P, "badge", 3, features=None), "features"),
        (lambda: al.acquire(P[0], "bald", 3), "probs"),
        (lambda: al.acquire(iter([]), "bald", 3), "probs"),
        (lambda: al.acquire(iter([P]), "batch_bald", 3), "strategy"),
        (lambda: al.acquire(np.log(P), "random", 3), "probs"),
        (lambda: al.score(P, "batch_bald"), "strategy"),
        (lambda: al.batch_bald(P, 3, configurations=2), "configurations"),
        (lambda: al.batch_bald(P * np.nan, 3), "probs"),
        (lambda: al.joint_mutual_information(P, []), "indices"),
        (lambda: al.joint_mutual_information(P, [12]), "indices"),
        (lambda: al.joint_mutual_information(P, [-1]), "indices"),
        (lambda: al.joint_mutual_information(P, [0] * 20), "indices"),
        (lambda: al.epig(P, P[:4]), "targets"),
        (lambda: al.epig(P, P[..., :2] / P[..., :2].sum(-1, keepdims=True)), "targets"),
        (lambda: al.expected_information_gain([0.5, 0.5], P), "prior"),
        (lambda: al.expected_information_gain(np.ones(8), P), "prior"),
        (lambda: al.power_bald([-1.0, 2.0], 1), "scores"),
        (lambda: al.power_bald([1.0, np.inf], 1), "scores"),
        (lambda: al.power_bald([1.0, 2.0], 1, beta=-1), "beta"),
        (lambda: al.k_center(F, 2, known=[[0.0]]), "known"),
        (lambda: al.draw([1.0, 0.0], 1), "scores"),
        (lambda: al.draw([1.0, 1e-320], 1), "scores"),
        (lambda: al.draw([1.0, 2.0], 3), "count"),
        (lambda: al.lure_weights([0.5, 1.5], 5), "chances"),
        (lambda: al.lure_weights([0.5, 0.0], 5), "chances"),
        (lambda: al.lure_weights([0.5, 0.5], 1), "chances"),
        (lambda: al.lure_risk([1.0], [0.5, 0.5], 5), "losses"),
        (lambda: al.scrawls(F, np.zeros(12, int), 3), "parts"),
        (lambda: al.repeated(F, np.zeros(12, int), 0), "times"),
        (lambda: al.repeated(F, np.zeros(12, int), 2, -1), "noise"),
        (lambda: run(World(), "best"), "strategy"),
        (lambda: run(World(), rounds=40), "rounds"),
        (lambda: run(World(), initial=lambda rng: [0, 0]), "initial"),
        (lambda: run(World(), initial=lambda rng: [99]), "initial"),
        (lambda: run(World(), candidates=2), "candidates"),
        (lambda: run(World(), seeds=[-1]), "seeds"),
        (lambda: al.simulate("net", F, np.zeros(12, int)), "learner"),
    ],
)
def test_nonsense_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        call()


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
def test_a_common_factor_of_the_features_changes_no_batch(unit):
    rng = np.random.default_rng(0)
    features, probs = rng.normal(size=(50, 5)), rng.dirichlet(np.ones(3), size=50)
    for choose in (
        lambda x: al.k_center(x, 5, known=x[:2]),
        lambda x: al.k_center(x, 5),
        lambda x: al.badge(probs, x, 5),
    ):
        assert np.array_equal(choose(unit * features), choose(features))


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("random", {"beta": 2.0}),
        ("entropy", {"beta": 2.0}),
        (lambda seen: np.arange(seen.batch), {"beta": 2.0}),
        ("k_center", {"known": np.ones((3, 2))}),
        ("badge", {"features": np.ones((3, 2))}),
        ("epig", None),
        ("epig", {"target": np.ones((3, 2))}),
    ],
)
def test_options_without_effect_and_missing_ones_are_refused_before_anything_is_trained(strategy, options):
    def never(*arguments):
        raise AssertionError("trained")

    learner = al.Learner(never, never, never, never)
    with pytest.raises(ValueError, match="options: expected"):
        al.simulate(learner, np.ones((40, 2)), np.arange(40) % 3, strategy, options=options, name="own")
