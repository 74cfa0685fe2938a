import copy
import itertools
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from uqhelpers import deep_ensembles as de
from uqhelpers import metrics, training
from uqhelpers._torch import torch
from uqhelpers.data import toys
from uqhelpers.models import MLP

distributions = torch.distributions
nn = torch.nn


@pytest.fixture(scope="module")
def members():
    """Locations and scales of five members at seven inputs, and targets."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 7)) * 3, rng.gamma(2, size=(5, 7)) + 0.1, rng.normal(size=7) * 4


@pytest.fixture(scope="module")
def moons():
    toy = toys.two_moons(120, noise=0.3, seed=0)
    return toy.inputs.astype(np.float32), toy.targets


def small_network():
    return MLP(2, 2, hidden=(8,))


def quick(inputs, labels, epochs=3):
    """A ``fit`` for ``fit_members``."""

    def fit(network, seed):
        training.fit(network, inputs, labels, epochs=epochs, seed=seed, device="cpu", progress=False)

    return fit


def trained(moons, members=3, **options):
    return de.fit_members(small_network, quick(*moons), members, progress=False, **options)


# --- formulas -----------------------------------------------------------------------------------------


def mixture(locations, scales, likelihood):
    parts = {"gaussian": distributions.Normal, "laplace": distributions.Laplace}[likelihood]
    weights = distributions.Categorical(torch.ones(locations.shape[1], len(locations)))
    return distributions.MixtureSameFamily(
        weights, parts(torch.from_numpy(locations.T.copy()), torch.from_numpy(scales.T.copy()))
    )


@pytest.mark.parametrize("likelihood", ["gaussian", "laplace"])
class TestMixtures:
    def test_moments_are_those_of_torchs_mixture(self, members, likelihood):
        locations, scales, _ = members
        ours, theirs = de.mixture_moments(locations, scales, likelihood), mixture(*members[:2], likelihood)
        assert np.allclose(ours.mean, theirs.mean)
        assert np.allclose(ours.total**2, theirs.variance)
        assert np.allclose(ours.total**2, ours.aleatoric**2 + ours.epistemic**2)

    def test_likelihood_is_that_of_torchs_mixture(self, members, likelihood):
        theirs = -mixture(*members[:2], likelihood).log_prob(torch.from_numpy(members[2])).mean().item()
        assert de.mixture_nll(*members, likelihood) == pytest.approx(theirs, rel=1e-6)

    def test_likelihood_is_that_of_jax(self, members, likelihood):
        stats = pytest.importorskip("jax.scipy.stats")
        density = {"gaussian": stats.norm, "laplace": stats.laplace}[likelihood].logpdf
        locations, scales, targets = members
        theirs = -np.asarray(density(targets, locations, scales)).mean()
        nll = {"gaussian": de.gaussian_nll, "laplace": de.laplace_nll}[likelihood]
        assert nll(locations, scales, np.tile(targets, (5, 1))) == pytest.approx(theirs, rel=1e-5)

    def test_one_member_is_no_mixture(self, members, likelihood):
        locations, scales, targets = (values[:1] for values in (*members[:2], members[2][None]))
        nll = {"gaussian": de.gaussian_nll, "laplace": de.laplace_nll}[likelihood]
        assert de.mixture_nll(locations, scales, targets[0], likelihood) == pytest.approx(
            nll(locations, scales, targets)
        )
        assert de.mixture_moments(locations, scales, likelihood).epistemic == pytest.approx(0)

    def test_a_mixture_is_never_worse_than_its_members_on_average(self, members, likelihood):
        locations, scales, targets = members
        alone = [de.mixture_nll(m[None], s[None], targets, likelihood) for m, s in zip(locations, scales)]  # noqa: B905
        assert de.mixture_nll(*members, likelihood) <= np.mean(alone)

    def test_far_targets_have_a_finite_likelihood(self, members, likelihood):
        assert np.isfinite(de.mixture_nll(*members[:2], members[2] + 1e6, likelihood))

    def test_moments_are_those_of_draws(self, members, likelihood):
        draws = mixture(*members[:2], likelihood)
        with training.seeded(0):
            values = draws.sample((100_000,)).numpy()
        ours = de.mixture_moments(*members[:2], likelihood)
        assert np.allclose(values.std(axis=0), ours.total, rtol=0.03)


def test_members_without_scales_have_no_aleatoric_part(members):
    moments = de.mixture_moments(members[0])
    assert not moments.aleatoric.any()
    assert np.allclose(moments.total, members[0].std(axis=0))


def test_a_dirichlet_is_that_of_torch():
    rng = np.random.default_rng(0)
    alphas, probs = rng.gamma(2, size=(6, 4)) + 0.1, rng.dirichlet(np.ones(4), size=(3, 6))
    theirs = distributions.Dirichlet(torch.from_numpy(alphas)).log_prob(torch.from_numpy(probs))
    assert de.dirichlet_nll(alphas, probs) == pytest.approx(-theirs.mean().item())


def test_uncertainties_of_a_dirichlet_are_those_of_many_draws():
    rng = np.random.default_rng(0)
    alphas = np.array([[0.5, 1, 2], [20, 10, 30], [0.2, 0.2, 0.2]])
    draws = np.stack([rng.dirichlet(alpha, size=40_000) for alpha in alphas], axis=1)
    drawn, closed = metrics.decompose(draws), de.dirichlet_decomposition(alphas)
    for part in ("mean", "total", "aleatoric", "epistemic"):
        assert np.allclose(getattr(drawn, part), getattr(closed, part), atol=0.01)


# --- small networks in JAX ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.fixture(scope="module")
def cubic():
    return toys.cubic()


@pytest.fixture(scope="module")
def part(jax):
    from uqhelpers.deep_ensembles import jax_ground

    return jax_ground


def regression(**options):
    return de.RegressionEnsemble((6, 5), **{"members": 3, "epochs": 20, **options})


class TestNetworksInJax:
    @pytest.mark.parametrize("likelihood", ["gaussian", "laplace"])
    def test_losses_are_the_likelihoods_of_what_is_predicted(self, part, cubic, likelihood):
        ensemble = regression(likelihood=likelihood, epochs=2, learning_rate=1e-9).fit(*cubic)
        told = ensemble.member_nll(*cubic)
        assert np.allclose(ensemble.history.data_loss[:, -1], told, rtol=1e-4)
        assert ensemble.nll(*cubic) <= told.mean()

    @pytest.mark.parametrize(("likelihood", "power"), [("mse", 2), ("l1", 1)])
    def test_losses_without_a_scale_are_in_the_units_of_the_targets(self, part, cubic, likelihood, power):
        ensemble = regression(likelihood=likelihood, epochs=2, learning_rate=1e-9).fit(*cubic)
        locations, scales = ensemble.sample_members(cubic.inputs)
        assert scales is None
        told = (np.abs(locations - cubic.targets) ** power).mean(axis=(1, 2))
        assert np.allclose(ensemble.history.data_loss[:, -1], told, rtol=1e-4)

    def test_the_cross_entropy_sums_over_classes_and_averages_over_examples(self, part):
        x, labels = toys.spirals(20)
        ensemble = de.ClassificationEnsemble((5,), epochs=2, learning_rate=1e-9).fit(x, labels)
        told = [metrics.negative_log_likelihood(probs, labels) for probs in ensemble.sample(x)]
        assert np.allclose(ensemble.history.data_loss[:, -1], told, rtol=1e-4)
        accuracies = [metrics.accuracy(probs, labels) for probs in ensemble.sample(x)]
        assert np.allclose(ensemble.history.accuracy[:, -1], accuracies)

    def test_all_at_once_is_as_one_by_one(self, part, cubic, jax):
        x, y = (values.astype(np.float32) / 10 for values in cubic)
        generators, bits = part.streams(0, 4)
        networks = part.initialise(generators, (1, 6, 5, 2), "he")
        plan = part.Plan("gaussian", "relu", "squared", "gradient_sign", "cosine", True)
        numbers = part.Numbers(1e-2, 1e-3, np.float32(0.01))
        together, told = part.train(networks, bits, x, y, plan, numbers, epochs=8)

        step = jax.jit(jax.value_and_grad(part.objective, has_aux=True), static_argnums=4)
        for member in range(4):
            network = jax.tree.map(lambda leaf: leaf[member], networks)  # noqa: B023
            flat, shape = jax.flatten_util.ravel_pytree(network)
            state = (0, 0 * flat, 0 * flat)
            for number in range(8):
                (loss, _), slope = step(shape(flat), x, y, None, plan, numbers)
                assert told[0][member, number] == pytest.approx(float(loss), rel=1e-3)
                rate = 1e-2 * 0.5 * (1 + np.cos(np.pi * number / 8))
                flat, state = part.adam(flat, state, jax.flatten_util.ravel_pytree(slope)[0], rate)
            for ours, theirs in zip(together, shape(flat), strict=True):
                assert np.allclose(ours[0][member], theirs[0], atol=1e-3)

    @pytest.mark.parametrize("decay", [0.0, 0.3])
    def test_adam_with_weight_decay_is_that_of_torch(self, part, cubic, decay):
        x, y = (values.astype(np.float32) / 10 for values in cubic)
        ensemble = de.RegressionEnsemble(
            (6,), 2, "mse", epochs=10, weight_decay=decay, standardise=False, activation="tanh"
        )
        generators, _ = part.streams(0, 2)
        start = part.initialise(generators, (1, 6, 1), "he")
        network = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1))
        with torch.no_grad():
            for layer, (weight, bias) in zip(network[::2], start, strict=True):
                layer.weight.copy_(torch.from_numpy(weight[1].T.copy()))
                layer.bias.copy_(torch.from_numpy(bias[1]))
        step = torch.optim.Adam(network.parameters(), lr=1e-2, weight_decay=decay)
        for _ in range(10):
            step.zero_grad()
            nn.functional.mse_loss(network(torch.from_numpy(x)), torch.from_numpy(y)).backward()
            step.step()
        theirs = training.predict_outputs(network, x)
        assert np.allclose(ensemble.fit(x, y).sample_members(x).locations[1], theirs, atol=1e-4)

    def test_the_same_seed_gives_the_same_members_and_another_one_others(self, part, cubic):
        grid = np.linspace(-6, 6, 5)[:, None]
        first, again = (regression().fit(*cubic).sample_members(grid).locations for _ in range(2))
        assert np.array_equal(first, again)
        assert not np.allclose(first, regression(seed=1).fit(*cubic).sample_members(grid).locations)
        assert all(not np.allclose(a, b) for a, b in itertools.combinations(first, 2))

    @pytest.mark.parametrize("options", [{}, {"batch_size": 8, "bootstrap": True}])
    def test_more_members_leave_the_first_ones_as_they_are(self, part, cubic, options):
        few = regression(members=2, epochs=3, **options).fit(*cubic)
        many = regression(members=4, epochs=3, **options).fit(*cubic)
        a, b = (one.sample_members(cubic.inputs).locations[:2] for one in (few, many))
        assert np.allclose(a, b, atol=1e-3)

    def test_global_random_numbers_are_left_alone(self, part, cubic):
        np.random.seed(3)  # noqa: NPY002
        expected = np.random.random(2)  # noqa: NPY002
        np.random.seed(3)  # noqa: NPY002
        regression(epochs=1).fit(*cubic)
        assert np.array_equal(np.random.random(2), expected)  # noqa: NPY002

    def test_minibatches_see_every_example_once_an_epoch(self, part):
        generators, _ = part.streams(0, 2)
        order = part.orders(generators, 20, 3, 5)
        assert order.shape == (2, 12, 5)
        epochs = order.reshape(6, 20)
        assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) == 6
        assert part.orders(generators, 23, 3, 5).shape == (2, 12, 5)

    def test_a_resample_holds_about_two_thirds_of_the_data(self, part):
        drawn = part.resamples(part.streams(0, 2)[0], 10_000)
        assert [len(np.unique(rows)) / 10_000 for rows in drawn] == pytest.approx(
            [1 - np.exp(-1)] * 2, abs=0.02
        )
        assert not np.array_equal(*drawn)

    def test_the_unit_of_the_data_changes_nothing(self, part, cubic):
        x, y = cubic
        plain, scaled = regression().fit(x, y), regression().fit(1000 * x + 5, 50 * y - 7)
        a, b = plain.predict(x), scaled.predict(1000 * x + 5)
        assert np.allclose(50 * a.mean - 7, b.mean, atol=0.5)
        assert np.allclose(50 * a.total, b.total, rtol=0.01)

    @pytest.mark.parametrize("columns", [(), (3,)])
    def test_predictions_have_the_shape_of_the_targets(self, part, columns):
        rng = np.random.default_rng(0)
        ensemble = regression(epochs=2).fit(rng.normal(size=(9, 2)), rng.normal(size=(9, *columns)))
        x = rng.normal(size=(4, 2))
        assert ensemble.sample_members(x).scales.shape == (3, 4, *columns)
        assert ensemble.predict(x).total.shape == (4, *columns)
        assert ensemble.member_nll(x, np.zeros((4, *columns))).shape == (3,)
        assert ensemble.history.loss.shape == (3, 2)

    def test_a_line_ends_at_its_members(self, part):
        x, labels = toys.spirals(20)
        ensemble = de.ClassificationEnsemble((5,), epochs=5).fit(x, labels)
        line = ensemble.between(3, 1, points=5).sample(x)
        assert line.shape == (5, 60, 3)
        assert np.allclose(line[[0, 4]], ensemble.sample(x)[[3, 1]], atol=1e-6)
        assert np.allclose(ensemble.subset([3, 1]).sample(x), line[[0, 4]], atol=1e-6)
        assert len(ensemble.subset(2).sample(x)) == 2
        assert ensemble.members == 5

    def test_initial_weights_are_as_wide_as_asked(self, part):
        generators, _ = part.streams(0, 2)
        (he, bias), *_ = part.initialise(generators, (200, 300, 2), "he")
        assert he.std() == pytest.approx(0.1, rel=0.05)
        assert not bias.any()
        generators, _ = part.streams(0, 2)
        (weight, bias), *_ = part.initialise(generators, (200, 300, 2), np.array([0.1, 3.0]))
        assert weight.std(axis=(1, 2)) == pytest.approx([0.1, 3], rel=0.05)
        assert bias.std(axis=1) == pytest.approx([0.1, 3], rel=0.2)
        ones = regression(epochs=1, init=lambda rng, a, b: (np.ones((a, b)), np.ones(b)))
        locations = ones.fit(*toys.cubic()).sample_members([[0.0]]).locations
        assert np.ptp(locations) == pytest.approx(0)

    def test_penalties_are_what_they_are_called(self, part):
        network = [(np.array([[3.0]]), np.array([4.0]))]
        assert float(part.penalty_of(network, "squared")) == pytest.approx(12.5)
        assert float(part.penalty_of(network, "norm")) == pytest.approx(5)
        assert part.penalty_of(network, lambda one: one[0][1][0]) == 4

    def test_a_penalty_keeps_weights_small(self, part, cubic):
        free, bound = (
            regression(weight_decay=decay, penalty="norm", learning_rate=0.1).fit(*cubic)
            for decay in (0.0, 10.0)
        )
        sizes = [
            sum(np.square(leaf).sum() for pair in one._networks for leaf in pair) for one in (free, bound)
        ]
        assert sizes[1] < 0.7 * sizes[0]


class TestAttacksInJax:
    def test_the_gradient_sign_moves_every_coordinate_against_the_target(self, jax):
        inputs = np.array([[1.0, -2.0], [0.5, 3.0]])
        moved = de.gradient_sign(lambda x: (x**2).sum(), inputs, 0.25)
        assert np.allclose(moved, inputs + 0.25 * np.sign(inputs))

    def test_the_attacked_loss_is_averaged_with_the_clean_one(self, part):
        network = [(np.array([[2.0]], np.float32), np.array([0.0], np.float32))]
        x, y = np.array([[1.0]], np.float32), np.array([[0.0]], np.float32)
        plan = part.Plan("mse", "relu", "squared", "gradient_sign", "constant", False)
        loss, (clean, _) = part.objective(network, x, y, None, plan, part.Numbers(0.1, 0.0, 0.5))
        assert float(clean) == pytest.approx(4)
        assert float(loss) == pytest.approx((4 + 9) / 2)

    def test_an_attack_is_in_the_units_of_the_inputs(self, part, cubic):
        x, y = cubic
        options = {"adversarial": "gradient_sign", "epochs": 3}
        one = regression(epsilon=0.5, **options).fit(x, y)
        other = regression(epsilon=500.0, **options).fit(1000 * x, y)
        assert np.allclose(one.history.loss, other.history.loss, rtol=1e-3)

    def test_the_virtual_direction_is_where_the_prediction_moves_most(self, jax):
        # Of two coordinates the logits feel the second one five times as strongly.
        weight = np.array([[1.0, 0, 0], [0, 5.0, 0]], np.float32)
        inputs = np.zeros((4, 2), np.float32)
        key = jax.random.key(0)
        found = [
            float(de.virtual_adversarial_loss(lambda x: x @ weight, inputs, key, 0.01, iterations=n))
            for n in (1, 20)
        ]
        best = _kl_after(weight, np.array([0.0, 0.01]))
        assert found[1] == pytest.approx(best, rel=0.02)
        assert 0 < found[0] <= best * 1.02

    @pytest.mark.parametrize("likelihood", ["gaussian", "laplace"])
    def test_divergences_are_those_of_torch(self, part, likelihood):
        rng = np.random.default_rng(0)
        before, after = rng.normal(size=(2, 5, 2)).astype(np.float32)
        make = {"gaussian": distributions.Normal, "laplace": distributions.Laplace}[likelihood]
        p, q = (make(*(torch.from_numpy(np.array(one)) for one in part.heads(x))) for x in (before, after))
        theirs = distributions.kl_divergence(p, q).mean().item()
        assert float(part.divergence(before, after, likelihood)) == pytest.approx(theirs, rel=1e-4)

    @pytest.mark.parametrize("likelihood", ["mse", "l1"])
    def test_without_a_scale_the_divergence_is_half_the_squared_distance(self, part, likelihood):
        before, after = np.array([[1.0, 2], [0, 0]]), np.array([[1.0, 5], [1, 0]])
        assert float(part.divergence(before, after, likelihood)) == pytest.approx((4.5 + 0.5) / 2)

    def test_virtual_training_runs_for_numbers(self, part, cubic):
        history = regression(adversarial="virtual", epsilon=0.1, epochs=2).fit(*cubic).history
        assert (history.loss >= history.data_loss - np.log(cubic.targets.std()) - 1e-5).all()

    def test_virtual_training_runs_for_classes(self, part):
        x, labels = toys.spirals(20)
        ensemble = de.ClassificationEnsemble((5,), epochs=2, adversarial="virtual", epsilon=0.1)
        history = ensemble.fit(x, labels).history
        assert (history.loss >= history.data_loss - 1e-6).all()


def _kl_after(weight, change):
    weight = torch.from_numpy(weight).double()
    before, after = (nn.functional.log_softmax(torch.tensor(k * change) @ weight, 0) for k in (0.0, 1.0))
    return nn.functional.kl_div(after, before, log_target=True, reduction="sum").item()


# --- torch networks -----------------------------------------------------------------------------------


class TestMembers:
    def test_seeds_are_apart_and_none_is_that_of_the_baseline(self):
        seeds = de.member_seeds(200, seed=42)
        assert len(set(seeds)) == 200
        assert not {42, *range(1000)} & set(seeds)
        assert de.member_seeds(5, seed=42) == seeds[:5]
        assert not set(de.member_seeds(200, seed=43)) & set(seeds)

    def test_members_differ_and_come_again(self, moons):
        first, again = (de.sample(trained(moons), moons[0]) for _ in range(2))
        assert np.array_equal(first, again)
        assert all(not np.allclose(a, b) for a, b in itertools.combinations(first, 2))
        assert not np.allclose(first, de.sample(trained(moons, seed=1), moons[0]))

    def test_more_members_leave_the_first_ones_as_they_are(self, moons):
        assert np.array_equal(
            de.sample(trained(moons, members=2), moons[0]),
            de.sample(trained(moons, members=3)[:2], moons[0]),
        )

    def test_global_random_numbers_are_left_alone(self, moons):
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        trained(moons)
        assert torch.equal(torch.rand(2), expected)

    def test_threads_do_not_mix_their_random_numbers(self, moons):
        import joblib

        def noisy(network, seed):
            time.sleep(0.02)
            with torch.no_grad():
                for value in network.parameters():
                    value.normal_()

        def made():
            return de.sample(de.fit_members(small_network, noisy, 4, progress=False), moons[0])

        expected = made()
        with joblib.parallel_config("threading", n_jobs=4):
            assert np.array_equal(made(), expected)

    def test_predict_is_the_decomposition_of_the_samples(self, moons):
        networks = trained(moons)
        result, expected = de.predict(networks, moons[0]), metrics.decompose(de.sample(networks, moons[0]))
        assert np.allclose(result.epistemic, expected.epistemic)
        assert result.count == 3
        assert not any(network.training for network in networks)
        assert de.sample_outputs(networks, moons[0]).shape == (3, 120, 2)

    def test_threads_are_given_back(self, moons):
        before = torch.get_num_threads()
        trained(moons, members=1, threads=before + 1)
        assert torch.get_num_threads() == before

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"members": 0}, "members: expected a whole number"),
            ({"seed": -1}, "seed: expected"),
            ({"make_network": None}, "make_network: expected a callable"),
            ({"make_network": dict}, "make_network: expected a torch.nn.Module"),
            ({"fit": 3}, "fit: expected a callable"),
            ({"threads": 0}, "threads: expected"),
            ({"folder": "x"}, "settings: expected what decides"),
            ({"settings": 3}, "settings: expected a dict"),
            ({"settings": {"net": nn.ReLU()}}, r"settings\['net'\]: expected numbers"),
        ],
    )
    def test_bad_arguments_are_named(self, arguments, message):
        given = {"make_network": small_network, "fit": lambda network, seed: None, "members": 2, **arguments}
        with pytest.raises(ValueError, match=message):
            de.fit_members(**given, progress=False)

    def test_one_network_made_again_and_again_is_no_ensemble(self, moons):
        network = small_network()
        with pytest.raises(ValueError, match=r"^make_network: expected a new network at each call"):
            de.fit_members(lambda: network, quick(*moons), 2, progress=False)

    def test_weights_that_are_not_finite_are_refused(self):
        def spoil(network, seed):
            with torch.no_grad():
                next(network.parameters()).fill_(torch.nan)

        with pytest.raises(ValueError, match="fit: expected finite weights"):
            de.fit_members(small_network, spoil, 1, progress=False)


class TestKeptMembers:
    def kept(self, moons, folder, fit=None, settings=None, **options):
        self.trained = []

        def counted(network, seed):
            self.trained.append(seed)
            (fit or quick(*moons))(network, seed)

        return de.fit_members(
            options.pop("make_network", small_network),
            counted,
            options.pop("members", 3),
            folder=folder,
            settings={"epochs": 3} if settings is None else settings,
            progress=False,
            **options,
        )

    def test_what_is_kept_is_not_trained_again(self, moons, tmp_path):
        first = de.sample(self.kept(moons, tmp_path), moons[0])
        assert len(self.trained) == 3
        assert np.array_equal(de.sample(self.kept(moons, tmp_path), moons[0]), first)
        assert not self.trained
        assert np.array_equal(de.sample(trained(moons), moons[0]), first)

    def test_more_members_are_added_to_those_that_are_kept(self, moons, tmp_path):
        self.kept(moons, tmp_path)
        self.kept(moons, tmp_path, members=4)
        assert self.trained == de.member_seeds(4)[3:]

    def test_an_interrupted_run_goes_on(self, moons, tmp_path):
        def interrupted(network, seed):
            if seed == de.member_seeds(3)[1]:
                raise KeyboardInterrupt
            quick(*moons)(network, seed)

        with pytest.raises(KeyboardInterrupt):
            self.kept(moons, tmp_path, interrupted)
        networks = self.kept(moons, tmp_path)
        assert self.trained == de.member_seeds(3)[1:]
        assert np.array_equal(de.sample(networks, moons[0]), de.sample(trained(moons), moons[0]))

    @pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "pickle"])
    def test_a_damaged_file_is_trained_again(self, moons, tmp_path, damage):
        expected = de.sample(self.kept(moons, tmp_path), moons[0])
        path = sorted(tmp_path.iterdir())[1]
        content = bytearray(path.read_bytes())
        if damage == "flipped":
            state = torch.load(path, weights_only=True)["state"]
            place = bytes(content).find(max(state.values(), key=torch.numel).numpy().tobytes())
            assert place > 0
            content[place] ^= 0x40
        spoilt = {
            "empty": b"",
            "cut": bytes(content[: len(content) // 2]),
            "flipped": bytes(content),
            "text": b"no network",
            # A pickle that would run a command, were it read without weights_only.
            "pickle": b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR.",
        }[damage]
        path.write_bytes(spoilt)
        assert np.array_equal(de.sample(self.kept(moons, tmp_path), moons[0]), expected)
        assert self.trained == [de.member_seeds(3)[1]]
        assert not (tmp_path / "ran").exists()
        self.kept(moons, tmp_path)
        assert not self.trained

    def test_nothing_half_written_is_left_behind(self, moons, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
        with pytest.raises(OSError, match="no room"):
            self.kept(moons, tmp_path)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"settings": {"epochs": 4}}, "epochs was 3, now 4"),
            ({"settings": {"epochs": 3, "x": np.ones(2)}}, "x was None, now 'float64"),
            ({"seed": 1}, "its seed differs"),
            ({"make_network": lambda: MLP(2, 2, hidden=(9,))}, "its architecture differs"),
            ({"make_network": lambda: nn.Sequential(*MLP(2, 2, (8,)))}, None),
        ],
    )
    def test_members_of_another_run_are_not_mixed_in(self, moons, tmp_path, options, message):
        self.kept(moons, tmp_path)
        if message is None:
            self.kept(moons, tmp_path, **options)  # other words for the same network
            assert not self.trained
            return
        with pytest.raises(ValueError, match=message):
            self.kept(moons, tmp_path, **options)
        assert not self.trained

    def test_arrays_in_the_settings_are_compared_by_content(self, moons, tmp_path):
        data = {"x": torch.from_numpy(moons[0]), "more": {"sizes": (1, 2)}}
        self.kept(moons, tmp_path, settings=data)
        self.kept(moons, tmp_path, settings={"x": moons[0].copy(), "more": {"sizes": [1, 2]}})
        assert not self.trained
        with pytest.raises(ValueError, match="x was 'float32"):
            self.kept(moons, tmp_path, settings={**data, "x": moons[0] + 1})

    def test_a_killed_process_loses_only_what_was_not_finished(self, moons, tmp_path):
        code = """
            import sys, time, numpy as np
            from uqhelpers import deep_ensembles as de, training
            from uqhelpers.models import MLP
            x, y = np.load(sys.argv[1] + "/x.npy"), np.load(sys.argv[1] + "/y.npy")
            def fit(network, seed):
                if seed == de.member_seeds(3)[2]:
                    time.sleep(600)
                training.fit(network, x, y, epochs=3, seed=seed, device="cpu", progress=False)
            de.fit_members(lambda: MLP(2, 2, hidden=(8,)), fit, 3, folder=sys.argv[1] + "/kept",
                           settings={"epochs": 3}, progress=False)
        """
        np.save(tmp_path / "x.npy", moons[0])
        np.save(tmp_path / "y.npy", moons[1])
        code = "\n".join(line[12:] for line in code.splitlines())
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        second = tmp_path / "kept" / "member_001.pt"
        deadline = time.monotonic() + 120
        while not second.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert second.exists()
        networks = self.kept(moons, tmp_path / "kept")
        assert self.trained == de.member_seeds(3)[2:]
        assert np.allclose(de.sample(networks, moons[0]), de.sample(trained(moons), moons[0]), atol=1e-5)


# --- between members ----------------------------------------------------------------------------------


class TestLines:
    def test_both_ends_are_the_networks_themselves(self, moons):
        a, b, _ = trained(moons)
        for position, end in ((0, a), (1, b)):
            ours = de.interpolate(a, b, position).state_dict()
            assert all(torch.equal(ours[name], value) for name, value in end.state_dict().items())

    def test_the_middle_is_the_average_and_nothing_else_changes(self, moons):
        a, b, _ = trained(moons)
        before = [value.clone() for value in a.parameters()]
        middle = de.interpolate(a, b, 0.5)
        assert all(
            torch.allclose(m, (x + y) / 2)
            for m, x, y in zip(middle.parameters(), a.parameters(), b.parameters(), strict=True)
        )
        assert all(map(torch.equal, before, a.parameters()))

    def test_a_convex_loss_has_no_barrier_and_a_concave_one_has(self):
        a, b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        nn.init.constant_(a.weight, 0.0)
        nn.init.constant_(b.weight, 2.0)
        bowl = de.loss_along_line(a, b, lambda network: network.weight.item() ** 2, points=5)
        assert np.allclose(bowl.positions, [0, 0.25, 0.5, 0.75, 1])
        assert np.allclose(bowl.losses, [0, 0.25, 1, 2.25, 4])
        assert bowl.barrier == 0
        hill = de.loss_along_line(a, b, lambda network: -(network.weight.item() ** 2), points=[0, 0.5, 1])
        assert hill.barrier == pytest.approx(1)

    def test_a_renumbered_copy_is_the_same_function_behind_a_barrier(self):
        x, labels = toys.two_moons(200, noise=0.2, seed=0)
        with training.seeded(0):
            net = MLP(2, 2, hidden=(16,))
        training.fit(net, x, labels, epochs=60, learning_rate=0.02, device="cpu", progress=False)
        first, second = (layer for layer in net if isinstance(layer, nn.Linear))
        copied, order = copy.deepcopy(net), np.roll(np.arange(16), 5)
        into, out = (layer for layer in copied if isinstance(layer, nn.Linear))
        with torch.no_grad():
            into.weight.copy_(first.weight[order])
            into.bias.copy_(first.bias[order])
            out.weight.copy_(second.weight[:, order])

        def loss(network):
            return metrics.negative_log_likelihood(training.predict(network, x), labels)

        assert de.disagreement(de.sample([net, copied], x)).mean_total_variation < 1e-6
        assert de.loss_along_line(net, copied, loss).barrier > 0.05

    def test_bad_arguments_are_named(self, moons):
        a, b, _ = trained(moons)
        with pytest.raises(ValueError, match="network_b: expected the architecture"):
            de.interpolate(a, MLP(2, 2, hidden=(9,)), 0.5)
        with pytest.raises(ValueError, match=r"network_a: expected a torch\.nn\.Module"):
            de.interpolate(3, b, 0.5)
        for points in (1, [0.5], [1, 0], [[0, 1]], [0, np.nan]):
            with pytest.raises(ValueError, match="points: expected"):
                de.loss_along_line(a, b, lambda network: 0, points=points)
        with pytest.raises(ValueError, match="loss: expected a callable"):
            de.loss_along_line(a, b, None)


class TestDisagreement:
    def test_members_that_agree_have_none(self):
        probs = np.tile(np.random.default_rng(0).dirichlet(np.ones(3), size=6), (4, 1, 1))
        apart = de.disagreement(probs)
        assert apart.mean_differs == apart.mean_total_variation == 0
        assert apart.mean_jensen_shannon == pytest.approx(0, abs=1e-12)

    def test_members_that_contradict_each_other_are_as_far_apart_as_can_be(self):
        probs = np.array([[[1.0, 0]], [[0, 1.0]]])
        apart = de.disagreement(probs)
        assert apart.mean_differs == apart.mean_total_variation == 1
        assert apart.mean_jensen_shannon == pytest.approx(np.log(2))

    def test_of_a_pair_it_is_the_mutual_information(self):
        probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 50))
        apart = de.disagreement(probs)
        pair = metrics.mutual_information(probs[[0, 2]]).mean()
        assert apart.jensen_shannon[0, 2] == apart.jensen_shannon[2, 0] == pytest.approx(pair)
        assert apart.differs[1, 2] == (probs[1].argmax(-1) != probs[2].argmax(-1)).mean()
        variation = np.abs(probs[0] - probs[1]).sum(-1).mean() / 2
        assert apart.total_variation[0, 1] == pytest.approx(variation)

    @pytest.mark.parametrize(
        "probs", [np.ones((1, 2, 1)), np.ones((2, 1)), np.ones((2, 2, 2)), [[[np.nan]]] * 2]
    )
    def test_bad_input_is_named(self, probs):
        with pytest.raises(ValueError, match="probs: expected"):
            de.disagreement(probs)


# --- SWAG -----------------------------------------------------------------------------------------------


def walked(network, steps, rank, seed=0):
    """SWAG of a random walk, with all weights that went in."""
    rng, swag, path = np.random.default_rng(seed), de.Swag(network, rank=rank), []
    for _ in range(steps):
        weights = torch.from_numpy(rng.normal(size=sum(value.numel() for value in network.parameters())))
        nn.utils.vector_to_parameters(weights.float(), network.parameters())
        swag.collect(network)
        path.append(nn.utils.parameters_to_vector(network.parameters()).detach().double().numpy())
    return swag, np.array(path)


class TestSwag:
    def test_the_mean_is_that_of_the_snapshots(self):
        swag, path = walked(nn.Linear(2, 2), 9, rank=3)
        mean = nn.utils.parameters_to_vector(swag.mean_network().parameters()).detach()
        assert np.allclose(mean, path.mean(axis=0), atol=1e-6)
        assert swag.snapshots == 9

    def test_the_covariance_is_half_diagonal_and_half_of_low_rank(self):
        swag, path = walked(nn.Linear(2, 2), 9, rank=3)
        running = np.cumsum(path, axis=0) / np.arange(1, 10)[:, None]
        deviations = (path - running)[-3:]
        expected = 0.5 * np.diag(path.var(axis=0)) + deviations.T @ deviations / (2 * 2)
        draws = np.array(
            [
                nn.utils.parameters_to_vector(network.parameters()).detach().numpy()
                for network in swag.sample_networks(6000, seed=1)
            ]
        )
        assert np.abs(np.cov(draws.T) - expected).max() < 0.12 * np.abs(expected).max()

    def test_the_scale_is_that_of_the_covariance(self, moons):
        swag, _ = walked(MLP(2, 2, hidden=(3,)), 4, rank=2)
        none = swag.sample(moons[0], samples=2, scale=0)
        assert np.allclose(none, training.predict(swag.mean_network(), moons[0]))
        wide, narrow = ([_vector(n) for n in swag.sample_networks(1, scale=s)][0] for s in (1.0, 0.25))  # noqa: RUF015
        centre = _vector(swag.mean_network())
        assert torch.allclose(wide - centre, 2 * (narrow - centre), atol=1e-5)

    def test_fit_walks_from_the_network_and_leaves_it_alone(self, moons):
        network = trained(moons, members=1)[0]
        before = _vector(network).clone()
        swag = de.Swag(network, rank=4).fit(*moons, epochs=5, device="cpu", progress=False)
        assert torch.equal(_vector(network), before)
        assert swag.snapshots == 5
        samples = swag.sample(moons[0], samples=3)
        assert np.array_equal(samples, swag.sample(moons[0], samples=3))
        assert not np.allclose(samples[0], samples[1])
        assert np.allclose(swag.predict(moons[0], samples=3).mean, samples.mean(axis=0))

    def test_batch_normalisation_gets_the_statistics_of_the_new_weights(self):
        x = np.random.default_rng(0).normal(3, 2, size=(300, 2)).astype(np.float32)
        labels = (x[:, 0] > 3).astype(np.int64)
        with training.seeded(0):
            network = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
        training.fit(network, x, labels, epochs=2, progress=False, device="cpu")
        swag = de.Swag(network, rank=2).fit(x, labels, epochs=3, device="cpu", progress=False)
        for drawn in swag.sample_networks(3):
            with torch.no_grad():
                hidden = drawn[0](torch.from_numpy(x))
            assert torch.allclose(drawn[1].running_mean, hidden.mean(0), atol=1e-4)
            assert drawn[1].momentum == 0.1
            assert not drawn.training
        alone = de.Swag(network).collect(network).collect(network)
        with pytest.raises(ValueError, match="train_inputs: expected training inputs"):
            alone.sample(x)
        assert alone.sample(x, samples=2, train_inputs=x).shape == (2, 300, 2)

    def test_running_averages_are_as_they_were_if_the_inputs_do_not_fit(self):
        with training.seeded(0):
            network = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
        network(torch.randn(50, 2))  # in training mode: the averages have moved
        before = copy.deepcopy(network.state_dict())
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            de.recompute_batch_norm(network, np.ones((20, 3)))
        assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
        assert network.training
        assert network[1].momentum == 0.1
        with pytest.raises(ValueError, match=r"^network: expected a torch.nn.Module"):
            de.recompute_batch_norm(None, np.ones((20, 2)))

    def test_bad_arguments_are_named(self, moons):
        network = small_network()
        for make, message in (
            (lambda: de.Swag(3), "network: expected a torch"),
            (lambda: de.Swag(network, rank=1), "rank: expected"),
            (lambda: de.Swag(network).mean_network(), "collect: expected at least 1"),
            (lambda: de.Swag(network).collect(network).sample(moons[0]), "collect: expected at least 2"),
            (lambda: de.Swag(network).collect(nn.Linear(2, 2)), "network: expected the architecture"),
            (lambda: de.Swag(network).fit(*moons, epochs=1), "epochs: expected"),
        ):
            with pytest.raises(ValueError, match=message):
                make()


def _vector(network):
    return nn.utils.parameters_to_vector(network.parameters()).detach()


# --- distillation ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def teachers():
    """Members that agree on the left and contradict each other on the right."""
    x = np.linspace(-2, 2, 200, dtype=np.float32)[:, None]
    sure = np.array([0.9, 0.1])
    return x, np.array([np.where(x < 0, sure, sure[::sign]) for sign in (1, -1, 1, -1)])


class TestDistillation:
    def student(self):
        with training.seeded(0):
            return MLP(1, 2, hidden=(32,))

    def test_a_distribution_keeps_what_the_members_disagree_about(self, teachers):
        x, probs = teachers
        student = self.student()
        de.distill(student, x, probs, epochs=150, learning_rate=1e-2, device="cpu", progress=False)
        told, truth = de.predict_distilled(student, x), metrics.decompose(probs)
        left, right = x[:, 0] < -0.5, x[:, 0] > 0.5
        assert told.epistemic[left].mean() < 0.1 < 0.12 < told.epistemic[right].mean()
        apart = np.abs(told.mean - truth.mean)
        assert apart[left].mean() < 0.15
        assert apart[right].mean() < 0.2
        assert np.abs(told.aleatoric - truth.aleatoric)[left].mean() < 0.2

    def test_the_mean_keeps_the_prediction_alone(self, teachers):
        x, probs = teachers
        student = self.student()
        de.distill(
            student, x, probs, method="mean", epochs=100, learning_rate=1e-2, device="cpu", progress=False
        )
        away = np.abs(x[:, 0]) > 0.5
        assert np.allclose(training.predict(student, x)[away], probs.mean(axis=0)[away], atol=0.1)

    def test_the_loss_ends_as_the_likelihood_of_the_members(self, teachers):
        x, probs = teachers
        student = self.student()
        history = de.distill(
            student, x, probs, epochs=3, learning_rate=1e-9, temperature=1, batch_size=200, device="cpu",
            progress=False,
        )  # fmt: skip
        smooth = 0.999 * probs + 0.001 / 2
        assert history.loss[-1] == pytest.approx(
            de.dirichlet_nll(de.concentrations(student, x), smooth), 1e-4
        )

    def test_the_temperature_falls_to_one(self):
        from uqhelpers.deep_ensembles.distillation import _TemperedDirichlet

        outputs, targets = torch.tensor([[1.0, 2.0]]), torch.tensor([[[0.3, 0.7]]])
        loss = _TemperedDirichlet(10.0, steps=9)
        values = [loss(outputs, targets).item() for _ in range(9)]
        assert values[0] == values[3]
        assert len({round(value, 9) for value in values[3:7]}) == 4
        assert values[6] == values[8] == pytest.approx(de.dirichlet_nll(np.exp([[1.0, 2]]), [[[0.3, 0.7]]]))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"probs": np.ones((2, 5, 1))}, "probs: expected predictions for 200 inputs"),
            ({"method": "both"}, "method: expected"),
            ({"temperature": 0.5}, "temperature: expected"),
            ({"smoothing": 0}, "smoothing: expected"),
            ({"smoothing": 1}, "smoothing: expected"),
            ({"epochs": 0}, "epochs: expected"),
            ({"student": MLP(1, 3)}, "student: expected 2 outputs"),
        ],
    )
    def test_bad_arguments_are_named(self, teachers, change, message):
        given = {
            "student": self.student(),
            "inputs": teachers[0],
            "probs": teachers[1],
            "epochs": 1,
            **change,
        }
        with pytest.raises(ValueError, match=message):
            de.distill(**given, device="cpu", progress=False)

    def test_a_dirichlet_wants_numbers_above_0(self):
        for wrong in ([[0.0, 1]], [[-1.0, 1]], [[np.nan, 1]], [1.0, 2], [[]]):
            with pytest.raises(ValueError, match="concentrations: expected"):
                de.dirichlet_decomposition(wrong)
        with pytest.raises(ValueError, match="probs: expected probabilities above 0"):
            de.dirichlet_nll([[1.0, 1]], [[[0.0, 1]]])
        with pytest.raises(ValueError, match="probs: expected shape"):
            de.dirichlet_nll([[1.0, 1]], [[[0.2, 0.3, 0.5]]])


# --- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: de.mixture_moments([1.0, 2.0]), "locations: expected"),
        (lambda: de.mixture_moments(np.ones((2, 3)), np.ones((2, 2))), "scales: expected the shape"),
        (lambda: de.mixture_moments(np.ones((2, 3)), np.zeros((2, 3))), "scales: expected values above 0"),
        (lambda: de.mixture_moments(np.ones((2, 3)), -np.ones((2, 3))), "scales: expected values above 0"),
        (lambda: de.mixture_moments([[np.nan]]), "locations: expected finite"),
        (lambda: de.mixture_moments(np.ones((0, 3))), "locations: expected at least one"),
        (lambda: de.mixture_moments([["a"]]), "locations: expected numbers"),
        (lambda: de.mixture_moments(np.ones((2, 3)), np.ones((2, 3)), "mse"), "likelihood: expected"),
        (lambda: de.mixture_nll(np.ones((2, 3)), None, np.ones(3)), "scales: expected the members' scales"),
        (lambda: de.mixture_nll(np.ones((2, 3)), np.ones((2, 3)), np.ones(2)), "targets: expected shape"),
        (
            lambda: de.mixture_nll(np.ones((2, 3)), np.ones((2, 3)), [1, 2, np.inf]),
            "targets: expected finite",
        ),
        (lambda: de.mixture_nll(np.ones((2, 3)), np.ones((2, 3)), np.ones(3), "t"), "likelihood: expected"),
        (lambda: de.laplace_nll(0, 0, [1.0]), "scale: expected values above 0"),
        (lambda: de.laplace_nll([0, 1], 1, [1.0]), "location: expected a number or the shape"),
        (lambda: de.laplace_nll(0, 1, []), "y: expected at least one"),
        (lambda: de.RegressionEnsemble(hidden=3), "hidden: expected a sequence"),
        (lambda: de.RegressionEnsemble(hidden=(3, 0)), "hidden: expected a whole number"),
        (lambda: de.RegressionEnsemble(members=0), "members: expected"),
        (lambda: de.RegressionEnsemble(likelihood="student"), "likelihood: expected one of"),
        (lambda: de.RegressionEnsemble(likelihood="categorical"), "likelihood: expected one of"),
        (lambda: de.RegressionEnsemble(epochs=1.5), "epochs: expected"),
        (lambda: de.RegressionEnsemble(batch_size=0), "batch_size: expected"),
        (lambda: de.RegressionEnsemble(learning_rate=0), "learning_rate: expected"),
        (lambda: de.RegressionEnsemble(schedule="step"), "schedule: expected"),
        (lambda: de.RegressionEnsemble(activation="sine"), "activation: expected"),
        (lambda: de.RegressionEnsemble(init="xavier"), "init: expected"),
        (lambda: de.RegressionEnsemble(init=-0.1), "init: expected"),
        (lambda: de.RegressionEnsemble(members=3, init=[0.1, 0.2]), "init: expected"),
        (lambda: de.RegressionEnsemble(weight_decay=-1), "weight_decay: expected"),
        (lambda: de.RegressionEnsemble(penalty="l1"), "penalty: expected"),
        (lambda: de.RegressionEnsemble(adversarial="pgd"), "adversarial: expected"),
        (lambda: de.RegressionEnsemble(epsilon=-0.1), "epsilon: expected"),
        (lambda: de.RegressionEnsemble(epsilon=[[0.1]]), "epsilon: expected"),
        (lambda: de.RegressionEnsemble(bootstrap=1), "bootstrap: expected"),
        (lambda: de.RegressionEnsemble(standardise="yes"), "standardise: expected"),
        (lambda: de.ClassificationEnsemble(seed=-1), "seed: expected"),
        (lambda: de.RegressionEnsemble().predict([[1.0]]), "fit: expected an ensemble that was fitted"),
        (lambda: de.RegressionEnsemble().between(0, 1), "fit: expected an ensemble that was fitted"),
        (lambda: de.sample([], [[1.0]]), "networks: expected at least one"),
        (lambda: de.sample(nn.Linear(1, 2), [[1.0]]), "networks: expected a sequence"),
        (lambda: de.sample(3, [[1.0]]), "networks: expected a sequence"),
        (lambda: de.predict([None], [[1.0]]), "networks: expected torch networks"),
        (lambda: de.sample([nn.Linear(1, 2)], [[np.nan]]), "inputs: expected finite"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (np.ones(3), np.ones(3), {}, "inputs: expected 2 dimension"),
        (np.ones((0, 1)), np.ones(0), {}, "inputs: expected at least one"),
        ([[np.nan]], [1.0], {}, "inputs: expected finite"),
        (np.ones((3, 1)), np.ones(2), {}, "targets: expected shape"),
        (np.ones((3, 1)), np.ones((3, 1, 1)), {}, "targets: expected shape"),
        (np.ones((3, 1)), [1, 2, np.inf], {}, "targets: expected finite"),
        (np.ones((3, 1)), np.ones(3), {"batch_size": 4}, "batch_size: expected at most 3"),
        (
            np.ones((3, 1)),
            np.ones(3),
            {"epsilon": [0.1, 0.2], "adversarial": "virtual"},
            "epsilon: expected one number or 1",
        ),
    ],
)
def test_bad_data_are_named(jax, x, y, options, message):
    with pytest.raises(ValueError, match=message):
        de.RegressionEnsemble((3,), **options).fit(x, y)


def test_bad_labels_are_named(jax):
    x = np.ones((3, 2))
    for labels in ([0, 1], [0, 1, -1], [0, 0.5, 1], [[0], [1], [0]]):
        with pytest.raises(ValueError, match="labels: expected"):
            de.ClassificationEnsemble((3,)).fit(x, labels)
    with pytest.raises(ValueError, match="labels: expected labels from 0 to 1"):
        de.ClassificationEnsemble((3,)).fit(x, [0, 1, 2], classes=2)


def test_a_fitted_ensemble_wants_the_inputs_it_knows(jax, cubic):
    ensemble = regression(epochs=1, likelihood="mse").fit(*cubic)
    with pytest.raises(ValueError, match=r"inputs: expected shape \(inputs, 1\)"):
        ensemble.predict(np.ones((2, 3)))
    with pytest.raises(ValueError, match="likelihood: expected one with a scale"):
        ensemble.nll(*cubic)
    with pytest.raises(ValueError, match="second: expected"):
        ensemble.between(0, 3)
    with pytest.raises(ValueError, match="members: expected"):
        ensemble.subset([0, 7])


def test_a_training_that_diverges_is_told(jax, cubic):
    with pytest.raises(ValueError, match="learning_rate: training diverged for member"):
        regression(learning_rate=1e30).fit(*cubic)


def test_the_loop_that_the_benchmark_times_trains_the_same_networks(jax, cubic):
    from benchmarks import bench_deep_ensembles as bench

    networks = bench.plain_loop(*cubic, members=2, steps=4)()
    ensemble = de.RegressionEnsemble(bench.HIDDEN, 2, epochs=4).fit(*cubic)
    for layer, ours in enumerate(ensemble._networks):
        assert np.allclose(ours[0], [network[layer][0] for network in networks], atol=1e-3)


@pytest.mark.slow
def test_all_at_once_is_faster_than_a_loop(jax):
    """Half of what `make bench` has to show, on a machine that does other things meanwhile."""
    from benchmarks import bench, bench_deep_ensembles

    apart, included = bench_deep_ensembles.rows(members=(6,), repeats=1)
    assert 1 / apart["ratio"] > 4
    assert all(len(bench.line(row)) == len(bench.HEAD) for row in (apart, included))


def test_the_module_is_there_without_jax():
    code = "import sys; from uqhelpers import deep_ensembles; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- what once went wrong in silence ----------------------------------------------------------------------


def test_a_strength_without_an_attack_is_refused():
    for make in (de.RegressionEnsemble, de.ClassificationEnsemble):
        with pytest.raises(ValueError, match="epsilon: expected 0 without an attack, got 1"):
            make(epsilon=1)
        make(adversarial="gradient_sign", epsilon=0)  # an attack of no strength is a control


def test_what_only_diversity_needs_is_refused_where_only_the_mean_is_kept(teachers):
    x, probs = teachers
    for name, value in (("temperature", 5.0), ("smoothing", 0.1)):
        with pytest.raises(ValueError, match=f'{name}: has no effect on the method "mean"'):
            de.distill(MLP(1, 2), x, probs, method="mean", **{name: value})


def test_a_fit_that_fails_leaves_the_ensemble_as_it_was(jax, cubic):
    ensemble = regression(standardise=True).fit(*cubic)
    before, history = ensemble.predict(cubic.inputs), ensemble.history
    x, y = 100 + 7 * cubic.inputs, 1e3 * cubic.targets
    with pytest.raises(ValueError, match="targets: expected shape"):
        ensemble.fit(x, y[:-1])
    ensemble.learning_rate = 1e30
    with pytest.raises(ValueError, match="learning_rate: training diverged"):
        ensemble.fit(x, y)
    after = ensemble.predict(cubic.inputs)
    assert np.array_equal(after.mean, before.mean)
    assert np.array_equal(after.total, before.total)
    assert ensemble.history is history


def test_a_column_that_only_rounding_varies_is_left_alone(jax, cubic):
    tenths = np.where(np.arange(len(cubic.inputs)) % 2, 0.1, np.nextafter(0.1, 1))
    x = np.column_stack([cubic.inputs, tenths])
    ensemble = regression(standardise=True).fit(x, cubic.targets)
    moved = ensemble.predict(np.column_stack([cubic.inputs, tenths + 0.01])).mean
    assert np.abs(moved - ensemble.predict(x).mean).max() < 10 * np.abs(cubic.targets).max()


def test_a_walk_that_fails_leaves_no_snapshots(moons):
    network = small_network()
    swag = de.Swag(network).fit(*moons, epochs=2, device="cpu", progress=False)
    before = swag.sample(moons[0], samples=2)
    with pytest.raises(ValueError, match="learning_rate"):
        swag.fit(*moons, epochs=9, learning_rate=1e25, device="cpu", progress=False)
    assert swag.snapshots == 2
    assert np.array_equal(swag.sample(moons[0], samples=2), before)


def test_a_network_without_weights_is_refused_by_name(moons):
    with pytest.raises(ValueError, match="network: expected one with weights"):
        de.Swag(torch.nn.ReLU())
    with pytest.raises(ValueError, match="model: expected a network with weights"):
        de.predict([torch.nn.ReLU()], moons[0])


def test_one_logit_is_the_log_odds_of_two_classes(moons):
    networks = [MLP(2, 1, hidden=(4,)) for _ in range(2)]
    odds = de.sample_outputs(networks, moons[0])
    assert de.sample(networks, moons[0])[..., 1] == pytest.approx(1 / (1 + np.exp(-odds[..., 0])))
    assert de.predict(networks, moons[0]).mean.shape == (len(moons[0]), 2)


def test_a_softmax_in_the_network_is_refused(moons):
    network = torch.nn.Sequential(small_network(), torch.nn.Softmax(-1))
    for use in (de.sample, de.predict):
        with pytest.raises(ValueError, match="leave the softmax out"):
            use([network], moons[0])


def test_masked_arrays_are_refused_by_name(cubic, moons):
    masked = np.ma.masked_greater(cubic.inputs, 1)
    with pytest.raises(ValueError, match=r"inputs: .*mask"):
        regression().fit(masked, cubic.targets)
    with pytest.raises(ValueError, match=r"locations: .*mask"):
        de.mixture_moments(np.ma.masked_greater(np.ones((2, 3)), 0))


# --- loaders ----------------------------------------------------------------------------------------------


def loader_of(x, y):
    pairs = torch.utils.data.TensorDataset(torch.as_tensor(x), torch.as_tensor(y))
    return torch.utils.data.DataLoader(pairs, batch_size=7)


def test_small_networks_take_a_loader(jax, cubic, moons):
    ours, loaded = regression().fit(*cubic), regression().fit(loader_of(*cubic))
    assert np.array_equal(ours.predict(cubic.inputs).mean, loaded.predict(cubic.inputs).mean)
    make = lambda: de.ClassificationEnsemble((4,), members=2, epochs=3)  # noqa: E731
    probs = [make().fit(*data).sample(moons[0]) for data in (moons, (loader_of(*moons),))]
    assert np.array_equal(*probs)


def test_torch_networks_take_a_loader(moons, teachers):
    loader, network = loader_of(*moons), small_network()
    assert de.predict([network], loader).mean == pytest.approx(de.predict([network], moons[0]).mean, abs=1e-6)
    walks = [de.Swag(network).fit(*data, epochs=2, device="cpu") for data in (moons, (loader,))]
    assert np.array_equal(*(walk.sample(moons[0], samples=2) for walk in walks))
    x, probs = teachers
    student = MLP(1, 2)
    students = [student, copy.deepcopy(student)]
    for student, inputs in zip(students, (x, loader_of(x, x)), strict=True):
        de.distill(student, inputs, probs, epochs=1, device="cpu", progress=False)
    assert np.array_equal(*(de.concentrations(student, x) for student in students))


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
def test_the_moments_of_a_mixture_come_in_the_unit_of_the_members(unit):
    rng = np.random.default_rng(0)
    locations, scales = rng.normal(size=(3, 5, 2)), rng.uniform(0.5, 2, size=(3, 5, 2))
    units = np.array([unit, 1.0])  # of two targets, one
    for given in (scales, None):
        plain = de.mixture_moments(locations, given, "laplace")
        scaled = de.mixture_moments(units * locations, None if given is None else units * given, "laplace")
        for name in ("mean", "epistemic", "total", "aleatoric"):
            assert np.array_equal(getattr(scaled, name), units * getattr(plain, name)), name


# --- what fails half-way, and what is not the caller's any more ----------------------------------------


def normalised_network():
    with training.seeded(0):
        network = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    network[1].running_mean.fill_(5.0)
    network[1].running_var.fill_(3.0)
    return network


@pytest.mark.parametrize("inputs", [np.ones((9, 3), np.float32), np.ones((1, 2), np.float32)])
def test_averages_that_cannot_be_recomputed_stay_what_they_were(inputs):
    network = normalised_network().train()
    with pytest.raises((RuntimeError, ValueError)):
        de.recompute_batch_norm(network, inputs)
    assert network[1].running_mean.tolist() == [5.0] * 6
    assert network[1].running_var.tolist() == [3.0] * 6
    assert network[1].num_batches_tracked == 0
    assert network.training
    assert network[1].momentum == 0.1
    with pytest.raises(ValueError, match=r"network: expected a torch\.nn\.Module, got str"):
        de.recompute_batch_norm("net", inputs)


def test_a_walk_that_is_interrupted_leaves_no_snapshots(moons, monkeypatch):
    swag = de.Swag(small_network())
    walked, fit = [], training.fit

    def impatient(*arguments, **options):
        walked.append(1)
        if len(walked) == 3:
            raise KeyboardInterrupt
        return fit(*arguments, **options)

    monkeypatch.setattr(training, "fit", impatient)
    with pytest.raises(KeyboardInterrupt):
        swag.fit(*moons, epochs=5, device="cpu", progress=False)
    assert swag.snapshots == 0
    with pytest.raises(ValueError, match="expected at least 2 snapshot"):
        swag.sample(moons[0])
    with pytest.raises(ValueError, match=r"network: expected a torch\.nn\.Module, got str"):
        swag.collect("net")


def test_what_a_walk_was_fitted_to_may_change_afterwards(moons):
    x, y = np.array(moons[0]), moons[1]
    swag = de.Swag(normalised_network()).fit(x, y, epochs=2, device="cpu", progress=False)
    before = swag.sample(moons[0], samples=2)
    x[:] = 1e6
    assert np.array_equal(swag.sample(moons[0], samples=2), before)


def test_strengths_of_an_attack_are_kept_as_they_came():
    epsilon = np.array([0.1, 0.2])
    ensemble = de.RegressionEnsemble(adversarial="gradient_sign", epsilon=epsilon)
    epsilon[:] = 99
    assert ensemble.epsilon.tolist() == [0.1, 0.2]


@pytest.mark.parametrize("unit", [2.0**-600, 2.0**600])
def test_inputs_and_targets_of_any_unit_are_standardised(unit, cubic, moons):
    x = moons[0].astype(np.float64)
    plain = de.ClassificationEnsemble(members=2, epochs=3).fit(x, moons[1]).sample(x)
    scaled = de.ClassificationEnsemble(members=2, epochs=3).fit(unit * x, moons[1])
    assert np.array_equal(scaled.sample(unit * x), plain)
    assert plain.std(axis=1).max() > 1e-3
    x, y = cubic
    plain = de.RegressionEnsemble(members=2, epochs=3).fit(x, y).sample_members(x)
    scaled = de.RegressionEnsemble(members=2, epochs=3).fit(unit * x, unit * y).sample_members(unit * x)
    assert np.array_equal(scaled.locations / unit, plain.locations)


def test_a_student_that_ends_in_a_softmax_is_refused():
    x, probs = np.random.default_rng(0).normal(size=(30, 2)), np.full((3, 30, 4), 0.25)
    student = torch.nn.Sequential(MLP(2, 4), torch.nn.Softmax(1))
    for method in ("mean", "distribution"):
        with pytest.raises(ValueError, match="student: expected logits, got rows that sum to 1"):
            de.distill(student, x, probs, method=method, epochs=1, progress=False)
    for use in (de.concentrations, de.predict_distilled):
        with pytest.raises(ValueError, match="student: expected logits, got rows that sum to 1"):
            use(student, x)


def test_concentrations_that_leave_a_density_no_digits_are_refused():
    assert de.dirichlet_nll([[1e10, 1e10]], [[[0.5, 0.5]]]) == pytest.approx(
        -0.5 * np.log(8e10 / (2 * np.pi)),
        abs=0.01,  # a Gaussian of variance 1 / 8e10
    )
    with pytest.raises(ValueError, match=r"^concentrations: expected at most 1e\+10"):
        de.dirichlet_nll([[1e15, 1e15]], [[[0.5, 0.5]]])


def test_members_that_share_their_weights_are_refused(moons):
    network = small_network()
    with pytest.raises(ValueError, match="make_network: expected a new network at each call"):
        de.fit_members(lambda: network, quick(*moons), 2, progress=False)
    body = nn.Linear(2, 8)
    with pytest.raises(ValueError, match="make_network: expected a new network at each call"):
        de.fit_members(lambda: nn.Sequential(body, nn.Linear(8, 2)), quick(*moons), 2, progress=False)
    assert len(de.fit_members(lambda: network, quick(*moons), 1, progress=False)) == 1
