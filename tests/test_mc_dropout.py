import copy
import random
import tracemalloc

import numpy as np
import pytest

from uqhelpers import mc_dropout, metrics, training
from uqhelpers._torch import torch
from uqhelpers.models import MLP, LeNet, SimpleNet

nn = torch.nn
MASKS = mc_dropout.MASKS


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).random((12, 1, 8, 8), dtype=np.float32)


def network(make=SimpleNet, seed=0, **options):
    with training.seeded(seed):
        return make((1, 8, 8), **options).eval()


def plain_loop(net, images, passes, seed=0):
    """What everybody writes, done right: the reference for everything here."""
    layers = [layer for layer in net.modules() if isinstance(layer, nn.modules.dropout._DropoutNd)]
    for layer in layers:
        layer.train()
    with training.seeded(seed), torch.no_grad():
        samples = torch.stack([net(torch.as_tensor(images)).softmax(-1) for _ in range(passes)])
    net.eval()
    return samples.double().numpy()


class Residual(nn.Module):
    """Dropout inside a branch: what passes by it must meet what was dropped."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        h = torch.relu(self.first(x.flatten(1)))
        return self.out(h + self.dropout(torch.relu(self.second(self.dropout(h)))))


class Channels(nn.Module):
    """Convolutions with dropped channels, batch normalisation between."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Dropout2d(0.25), nn.Conv2d(8, 8, 3), nn.Flatten(),
            nn.Dropout(0.1), nn.Linear(128, 10),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)


class Untraceable(Residual):
    """A forward that looks at its values, which no tracer can follow."""

    def forward(self, x):
        return super().forward(x) if x.sum() > -1e9 else x


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 16, num_layers=2, dropout=0.4, batch_first=True), nn.Linear(16, 10)

    def forward(self, x):
        return self.out(self.lstm(x.flatten(0, 1))[0][:, -1])


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.4, batch_first=True)
        self.out = nn.Linear(8, 10)

    def forward(self, x):
        return self.out(self.layer(x.flatten(0, 1)).mean(1))


NETWORKS = {
    "one dropout layer": lambda: network(SimpleNet),
    "two dropout layers": lambda: network(LeNet),
    "an MLP": lambda: seeded(lambda: MLP(64, 10, dropout=0.2)),
    "a branch": lambda: seeded(Residual),
    "dropped channels": lambda: seeded(Channels),
}
FULL_PASSES = {"untraceable": Untraceable, "recurrent": Recurrent, "transformer": Transformer}


def seeded(make):
    with training.seeded(0):
        return make().eval()


# What is sampled


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_kind_of_mask_has_the_distribution_of_a_plain_loop(name, masks, images):
    """Mean and variance of each input's probabilities; false alarm about 1 in 10,000 a case."""
    net, passes = NETWORKS[name](), 3000
    ours = mc_dropout.sample(net, images[:3], passes, seed=1, masks=masks)
    plain = plain_loop(net, images[:3], passes)
    # Pairs have half as many independent draws, so their error is taken as if only half were there.
    independent = passes / 2 if masks == "paired" else passes
    error = np.sqrt(plain.var(0) / passes + plain.var(0) / independent)
    assert np.all(np.abs(ours.mean(0) - plain.mean(0)) < 5 * error + 1e-9)
    fourth = ((plain - plain.mean(0)) ** 4).mean(0)
    error = np.sqrt((fourth - plain.var(0) ** 2) * (1 / passes + 1 / independent))
    assert np.all(np.abs(ours.var(0) - plain.var(0)) < 5 * error + 1e-12)


def test_a_dropped_linear_layer_has_the_mean_and_variance_of_the_formula():
    """For z = W (m ∘ h) / q with keep probability q: mean W h, variance (1 − q)/q · W² h²."""
    with training.seeded(0):
        net = nn.Sequential(nn.Dropout(0.3), nn.Linear(20, 4, bias=False)).double()
    h = np.random.default_rng(0).normal(size=(2, 20))
    weight = net[1].weight.detach().numpy()
    variance = 0.3 / 0.7 * h**2 @ weight.T**2
    for masks in MASKS:
        outputs = mc_dropout.sample_outputs(net, h, passes=20_000, masks=masks)
        assert np.all(np.abs(outputs.mean(0) - h @ weight.T) < 5 * np.sqrt(variance / 10_000))
        assert np.allclose(outputs.var(0), variance, rtol=0.08)


def test_a_complementary_pair_averages_to_the_network_without_dropout():
    """Exactly so where everything behind the dropout is linear, at rate 1/2."""
    with training.seeded(0):
        net = nn.Sequential(nn.Linear(5, 20), nn.Dropout(0.5), nn.Linear(20, 3)).double().eval()
    x = np.random.default_rng(0).normal(size=(7, 5))
    outputs = mc_dropout.sample_outputs(net, x, passes=6, masks="paired")
    pairs = outputs.reshape(3, 2, 7, 3).mean(1)
    assert np.allclose(pairs, training.predict_outputs(net, x), atol=1e-12)
    assert outputs.std(0).min() > 1e-3


def test_complementary_masks_follow_the_same_masks_as_shared_ones(images):
    """Pass 0 of a pair is a shared pass; the shortcut of pass 1 equals running its mask."""
    net = network().double()
    paired = mc_dropout.sample_outputs(net, images, passes=4, masks="paired")
    shared = mc_dropout.sample_outputs(net, images, passes=4, masks="shared")
    assert np.allclose(paired[::2], shared[::2], atol=1e-12)
    features = training.predict_outputs(net.features, images)
    kept = np.random.default_rng(np.random.SeedSequence((0, 0)))
    levels = kept.integers(2**64 - 1, size=-(-features.shape[1] // 4), dtype=np.uint64, endpoint=True)
    dropped = levels.view(np.uint16)[: features.shape[1]] < 2**15
    mirrored = torch.from_numpy(features * ~dropped * 2)
    with torch.no_grad():
        expected = net.output(torch.relu(net.hidden(mirrored)))
    assert np.allclose(paired[1], expected.numpy(), atol=1e-10)


def test_inputs_have_masks_of_their_own_unless_shared(images):
    twins = np.repeat(images[:1], 2, axis=0)
    independent = mc_dropout.sample(network(), twins, masks="independent")
    shared = mc_dropout.sample(network(), twins, masks="shared")
    assert not np.allclose(independent[:, 0], independent[:, 1])
    assert np.allclose(shared[:, 0], shared[:, 1], atol=1e-12)


@pytest.mark.parametrize("masks", ["shared", "paired"])
def test_a_shared_mask_is_the_same_in_every_batch(masks, images):
    net = network()
    whole = mc_dropout.sample(net, images, 6, masks=masks)
    parts = mc_dropout.sample(net, images, 6, masks=masks, batch_size=5)
    assert np.allclose(whole, parts, atol=1e-6)


@pytest.mark.parametrize("masks", ["shared", "paired"])
def test_inputs_that_move_together_make_averages_over_the_data_vary_more(masks):
    net = network()
    images = np.random.default_rng(1).random((100, 1, 8, 8), dtype=np.float32)

    def spread(kind):
        means = [
            metrics.mutual_information(mc_dropout.sample(net, images, 6, seed=seed, masks=kind)).mean()
            for seed in range(25)
        ]
        return np.std(means)

    assert spread(masks) > 2 * spread("independent")


def test_a_rate_of_zero_samples_one_network(images):
    probs = mc_dropout.sample(network(dropout=0.5), images, 3)
    assert probs.std(0).max() > 1e-4
    net = network()
    net.dropout.p = 0.0
    assert np.allclose(mc_dropout.sample(net, images, 3), training.predict(net, images), atol=1e-7)


@pytest.mark.parametrize("name", FULL_PASSES)
def test_networks_that_cannot_be_cut_run_in_full(name, images):
    net = seeded(FULL_PASSES[name])
    probs = mc_dropout.sample(net, images, passes=8)
    assert probs.std(0).max() > 1e-3
    assert np.array_equal(probs, mc_dropout.sample(net, images, passes=8))
    assert not np.allclose(probs, mc_dropout.sample(net, images, passes=8, seed=1))
    for masks in ("shared", "paired"):
        with pytest.raises(ValueError, match="masks: expected 'independent'"):
            mc_dropout.sample(net, images, masks=masks)


def test_randomness_that_is_not_dropout_is_not_frozen(images):
    class Noisy(SimpleNet):
        def forward(self, x):
            return super().forward(x + torch.randn_like(x))

    with training.seeded(0):
        net = Noisy((1, 8, 8)).eval()
    net.dropout.p = 0.0
    assert mc_dropout.sample(net, images, 4).std(0).max() > 1e-3


def test_the_transformers_fused_kernel_does_not_swallow_the_dropout(images):
    net = seeded(Transformer)
    assert torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad(), mc_dropout.dropout_on(net):
        first, second = (net(torch.from_numpy(images)) for _ in range(2))
    assert not torch.allclose(first, second)
    assert torch.backends.mha.get_fastpath_enabled()


# What is left as it was


def everything(net):
    state = {name: value.clone() for name, value in net.state_dict().items()}
    return state, [module.training for module in net.modules()]


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("make", [Channels, Untraceable])
def test_batch_normalisation_does_not_move_and_the_model_comes_back_as_it_came(make, mode, images):
    net = seeded(make).train(mode)
    state, modes = everything(net)
    mc_dropout.sample(net, images, 5)
    after, modes_after = everything(net)
    assert modes == modes_after
    assert all(torch.equal(state[name], after[name]) for name in state)


def test_a_frozen_layer_stays_frozen_and_the_rest_stays_in_training(images):
    net = seeded(Channels).train()
    net.net[1].eval()
    before = [module.training for module in net.modules()]
    mc_dropout.sample(net, images, 2)
    assert [module.training for module in net.modules()] == before


@pytest.mark.parametrize("make", [SimpleNet, Channels, Untraceable])
def test_a_later_evaluation_is_deterministic(make, images):
    net = network() if make is SimpleNet else seeded(make)
    x = torch.from_numpy(images)
    with torch.no_grad():
        before = net(x)
        mc_dropout.sample(net, images, 3)
        assert torch.equal(net(x), before)
        assert torch.equal(net(x), net(x))


class Failing(SimpleNet):
    """Raises in its second half, once it has seen a batch of three."""

    def forward(self, x):
        out = super().forward(x)
        if out.shape[0] == 3:
            raise RuntimeError("half-way")
        return out


def test_the_model_comes_back_also_after_an_exception(images):
    with training.seeded(0):
        net = Failing((1, 8, 8)).train()
    before = [module.training for module in net.modules()]
    with pytest.raises(RuntimeError, match="half-way"):
        mc_dropout.sample(net, images[:8], 2, batch_size=5)
    assert [module.training for module in net.modules()] == before
    with pytest.raises(RuntimeError, match="mine"), mc_dropout.dropout_on(net):
        raise RuntimeError("mine")
    assert [module.training for module in net.modules()] == before


def test_a_model_half_way_through_a_sample_is_in_its_own_mode(images):
    net = network().train()
    states = []
    handle = net.features.register_forward_hook(lambda *_: states.append(net.training))
    mc_dropout.sample(net, images, 2)
    handle.remove()
    assert net.training
    assert all(module.training for module in net.modules())


def test_no_module_is_added_to_the_model(images):
    net = network()
    names = [name for name, _ in net.named_modules()]
    mc_dropout.sample(net, images, 2, masks="paired")
    assert [name for name, _ in net.named_modules()] == names


def test_one_seed_repeats_and_two_seeds_differ_and_the_global_generators_stand_still(images):
    net = network()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again, other = (mc_dropout.sample(net, images, 4, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_batches_of_one_seed_do_not_repeat_each_other(images):
    twins = np.repeat(images[:1], 4, axis=0)
    probs = mc_dropout.sample(network(), twins, 5, batch_size=2)
    assert not np.allclose(probs[:, :2], probs[:, 2:])


def test_double_precision_stays_double(images):
    net = network().double()
    single = mc_dropout.sample(copy.deepcopy(net).float(), images, 3)
    double = mc_dropout.sample(net, images, 3)
    assert np.allclose(single, double, atol=1e-5)
    assert np.abs(double.sum(-1) - 1).max() < 1e-14


# What is made of the samples


def test_the_streamed_prediction_equals_that_of_all_samples(images):
    net = network()
    samples = mc_dropout.sample(net, images, 30, batch_size=5)
    streamed = mc_dropout.predict(net, images, 30, batch_size=5)
    whole = metrics.decompose(samples)
    for name in ("mean", "total", "aleatoric", "epistemic"):
        assert np.allclose(getattr(streamed, name), getattr(whole, name), atol=1e-12), name


def test_the_streamed_moments_of_a_regression_equal_those_of_all_samples():
    with training.seeded(0):
        net = MLP(1, 1, dropout=0.1).double()
    x = np.linspace(-1, 1, 9)[:, None]
    outputs = mc_dropout.sample_outputs(net, x, 50)
    moments = mc_dropout.predict_regression(net, x, noise_std=0.2, passes=50)
    assert np.allclose(moments.mean, outputs.mean(0), atol=1e-12)
    assert np.allclose(moments.epistemic, outputs.std(0, ddof=1), atol=1e-12)
    assert np.allclose(moments.total**2, moments.epistemic**2 + 0.04, atol=1e-12)


def test_memory_does_not_grow_with_the_passes(images):
    net = network()
    mc_dropout.predict(net, images, 2)  # what is loaded once is loaded now

    def peak(passes):
        tracemalloc.start()
        mc_dropout.predict(net, images, passes)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(300) < 1.5 * peak(10) + 50_000


# What is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": nn.Linear(2, 2)}, "model: expected at least one dropout layer.*functional"),
        ({"model": "net"}, "model: expected a torch.nn.Module, got str"),
        ({"inputs": np.empty((0, 1, 8, 8), np.float32)}, "inputs: expected at least one"),
        ({"inputs": np.full((2, 1, 8, 8), np.nan, np.float32)}, "inputs: expected finite"),
        ({"inputs": "images"}, "inputs: expected numbers"),
        ({"passes": 0}, "passes: expected a whole number at least 1"),
        ({"passes": 1.5}, "passes: expected a whole number"),
        ({"seed": -1}, "seed: expected"),
        ({"seed": None}, "seed: expected"),
        ({"masks": "complementary"}, "masks: expected one of 'independent', 'shared', 'paired'"),
        ({"batch_size": 0}, "batch_size: expected"),
    ],
)
def test_bad_input_is_named(change, message, images):
    arguments = {"model": network(), "inputs": images, **change}
    with pytest.raises(ValueError, match=message):
        mc_dropout.sample(**arguments)


def test_functional_dropout_cannot_be_found_and_the_message_says_so():
    class Functional(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x, training=self.training)

    with pytest.raises(ValueError, match=r"torch\.nn\.functional\.dropout"):
        mc_dropout.dropout_layers(Functional())


def test_outputs_that_are_no_prediction_are_named(images):
    class Pair(SimpleNet):
        def forward(self, x):
            return super().forward(x), x

    with training.seeded(0):
        pair, broken = Pair((1, 8, 8)), SimpleNet((1, 8, 8))
    with pytest.raises(ValueError, match="model: expected outputs of shape"):
        mc_dropout.sample(pair, images)
    with torch.no_grad():
        broken.output.bias[0] = float("nan")
    with pytest.raises(ValueError, match="model: expected finite outputs"):
        mc_dropout.sample(broken, images)


def test_a_regression_needs_two_passes_and_a_noise():
    net = MLP(1, 1, dropout=0.1)
    with pytest.raises(ValueError, match="passes"):
        mc_dropout.predict_regression(net, np.zeros((2, 1)), noise_std=1, passes=1)
    with pytest.raises(ValueError, match="noise_std"):
        mc_dropout.predict_regression(net, np.zeros((2, 1)), noise_std=-1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("masks", MASKS)
def test_a_gpu_samples_the_same_distribution(masks, images):
    net = network()
    cpu = mc_dropout.sample(net, images[:2], 3000)
    gpu = mc_dropout.sample(net.to("cuda"), images[:2], 3000, masks=masks)
    assert np.allclose(cpu.mean(0), gpu.mean(0), atol=5 * cpu.std(0).max() / np.sqrt(1500))


# --- what once went wrong in silence ----------------------------------------------------------------


class FromWithin(nn.Module):
    """A layer drops, and so does a call of the function."""

    def __init__(self, rate=0.5, training=None):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        self.dropout, self.rate, self.forced = nn.Dropout(0.5), rate, training

    def forward(self, x):
        h = self.dropout(torch.relu(self.first(x.flatten(1))))
        on = self.training if self.forced is None else self.forced
        return self.out(nn.functional.dropout(torch.relu(self.second(h)), self.rate, on))


@pytest.mark.parametrize("use", [mc_dropout.sample, mc_dropout.predict, mc_dropout.sample_outputs])
def test_dropout_as_a_function_beside_a_layer_is_refused_and_not_sampled_by_half(use, images):
    with pytest.raises(ValueError, match=r"expected dropout in layers only, got torch\.nn\.functional"):
        use(seeded(FromWithin), images)


@pytest.mark.parametrize("harmless", [{"rate": 0.0}, {"training": True}])
def test_dropout_as_a_function_that_is_never_off_may_stay(harmless, images):
    assert mc_dropout.sample(seeded(lambda: FromWithin(**harmless)), images).shape == (20, 12, 10)


class Tokens(nn.Module):
    """Five tokens an input, folded into the batch before dropout and unfolded after it."""

    def __init__(self, tokens_first=False):
        super().__init__()
        self.embed, self.out, self.dropout = nn.Linear(8, 16), nn.Linear(16, 3), nn.Dropout(0.5)
        self.tokens_first = tokens_first

    def forward(self, x):  # (N, 5, 8)
        if self.tokens_first:
            return self.out(self.dropout(self.embed(x.transpose(0, 1)))).mean(0)
        h = self.dropout(self.embed(x.flatten(0, 1)))
        return self.out(h).unflatten(0, (len(x), 5)).mean(1)


@pytest.mark.parametrize("tokens_first", [False, True])
@pytest.mark.parametrize("masks", ["shared", "paired"])
@pytest.mark.parametrize("inputs", [1, 5, 12])  # as many inputs as tokens among them
def test_masks_are_not_shared_along_tokens(masks, tokens_first, inputs):
    net = seeded(lambda: Tokens(tokens_first))
    x = np.random.default_rng(0).standard_normal((inputs, 5, 8)).astype(np.float32)
    assert mc_dropout.sample(net, x, passes=2).shape == (2, inputs, 3)
    with pytest.raises(ValueError, match="so it is not the inputs'"):
        mc_dropout.sample(net, x, passes=2, masks=masks)


class Once(nn.Module):
    """One token, first: a single input does not tell its axis from that of the inputs."""

    def __init__(self):
        super().__init__()
        self.out, self.dropout = nn.Linear(8, 3), nn.Dropout(0.5)

    def forward(self, x):
        return self.out(self.dropout(x[None]))[0]


def test_an_axis_of_one_token_is_not_taken_for_that_of_the_inputs():
    with pytest.raises(ValueError, match="first axis of length 1 for 12 input"):
        mc_dropout.sample(seeded(Once), np.ones((12, 8), np.float32), passes=2, masks="shared")


@pytest.mark.parametrize("masks", MASKS)
def test_one_logit_is_the_log_odds_of_two_classes(masks, images):
    with training.seeded(3):
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, 1)).eval()
    odds = mc_dropout.sample_outputs(net, images, passes=6, masks=masks)
    probs = mc_dropout.sample(net, images, passes=6, masks=masks)
    assert probs.shape == (6, 12, 2)
    assert probs[..., 1] == pytest.approx(1 / (1 + np.exp(-odds[..., 0])))
    assert mc_dropout.predict(net, images, passes=6, masks=masks).mean == pytest.approx(probs.mean(axis=0))


def test_a_softmax_in_the_network_is_refused(images):
    net = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10), nn.Softmax(-1)))
    for use in (mc_dropout.sample, mc_dropout.predict):
        with pytest.raises(ValueError, match="leave the softmax out"):
            use(net, images)


def test_a_network_without_weights_is_refused_by_name(images):
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5))
    for use in (mc_dropout.sample, mc_dropout.predict):
        with pytest.raises(ValueError, match="model: expected a network with weights"):
            use(net, images)


class Reused(nn.Module):
    """Dropout in place on a value that is read again: both readers see it dropped."""

    def __init__(self, view=False):
        super().__init__()
        self.first, self.out = nn.Linear(64, 32), nn.Linear(32, 10)
        self.dropout, self.view = nn.Dropout(0.5, inplace=True), view

    def forward(self, x):
        h = self.first(x.flatten(1))
        dropped = self.dropout(h.view(-1, 4, 8)).flatten(1) if self.view else self.dropout(h)
        return self.out(h + 0 * dropped)


@pytest.mark.parametrize("view", [False, True])
def test_dropout_in_place_is_seen_by_whoever_reads_the_value_again(view, images):
    net = seeded(lambda: Reused(view))
    samples = mc_dropout.sample(net, images, passes=200)
    reference = plain_loop(net, images, 200)
    assert samples.std(axis=0).mean() == pytest.approx(reference.std(axis=0).mean(), rel=0.2)


class Accumulating(nn.Module):
    """Something that no dropout touched is added to, in place, in every pass."""

    def __init__(self):
        super().__init__()
        self.first, self.out, self.dropout = nn.Linear(64, 32), nn.Linear(32, 10), nn.Dropout(0.5)

    def forward(self, x):
        h = self.first(x.flatten(1))
        return self.out(h.add_(self.dropout(torch.relu(h))))


def test_passes_do_not_add_up_in_place(images):
    net = seeded(Accumulating)
    samples = mc_dropout.sample_outputs(net, images, passes=60)
    assert samples[40:].mean(axis=0) == pytest.approx(samples[:20].mean(axis=0), abs=0.5)
    assert np.abs(samples[-1]).max() < 3 * np.abs(samples[0]).max()


def test_a_complementary_pair_survives_work_in_place(images):
    def make(inplace):
        first, last = nn.Linear(64, 32), nn.Linear(16, 10)
        return nn.Sequential(
            nn.Flatten(), first, nn.Dropout(0.5), nn.Linear(32, 16), nn.ReLU(inplace=inplace), last
        )

    plain, in_place = (seeded(lambda inplace=inplace: make(inplace)) for inplace in (False, True))
    expected = mc_dropout.sample(plain, images, passes=6, masks="paired")
    assert np.array_equal(mc_dropout.sample(in_place, images, passes=6, masks="paired"), expected)


@pytest.mark.parametrize("masks", ["independent", "shared"])
def test_the_inputs_are_left_as_they_were_also_by_layers_that_work_in_place(masks):
    with training.seeded(0):
        net = nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Linear(8, 3)).eval()
    x = np.ones((12, 8), np.float32)
    samples = mc_dropout.sample(net, x, passes=40, masks=masks)
    assert np.array_equal(x, np.ones_like(x))
    assert samples[20:].std(axis=0).min() > 0.02  # nor has the first pass dropped everything for the last


class Untouched(Reused):
    """Cannot be traced: every pass runs in full."""

    def forward(self, x):
        x = self.dropout(x.flatten(1))
        return self.out(self.first(x)) if x.sum() > -1e9 else x


def test_full_passes_do_not_inherit_what_the_one_before_dropped(images):
    samples = mc_dropout.sample_outputs(seeded(Untouched), images, passes=60)
    assert samples[-1].std(axis=0).mean() > 0.5 * samples[0].std(axis=0).mean()
    assert samples[50:].std(axis=0).mean() > 0.5 * samples[:10].std(axis=0).mean()


def test_a_recurrent_layer_of_one_level_drops_nothing():
    with pytest.warns(UserWarning, match="dropout option"):
        lonely = nn.LSTM(4, 4, dropout=0.5)
    with pytest.raises(ValueError, match="at least one dropout layer"):
        mc_dropout.dropout_layers(lonely)
    assert mc_dropout.dropout_layers(nn.LSTM(4, 4, num_layers=2, dropout=0.5))


def test_a_loader_gives_what_its_inputs_give(images):
    net = network()
    whole = torch.utils.data.TensorDataset(torch.tensor(images), torch.arange(12))
    batched = mc_dropout.predict(net, torch.utils.data.DataLoader(whole, batch_size=5), seed=3)
    assert np.array_equal(batched.mean, mc_dropout.predict(net, images, seed=3).mean)
    with pytest.raises(ValueError, match="shuffle=True"):
        mc_dropout.predict(net, torch.utils.data.DataLoader(whole, shuffle=True))


@pytest.mark.parametrize("masks", MASKS)
def test_batch_normalisation_that_always_uses_the_batch_is_sampled_as_it_predicts(masks):
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(6, track_running_stats=False)
    net = nn.Sequential(nn.Linear(4, 6), norm, nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)).eval()
    x = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    outputs = mc_dropout.sample_outputs(net, x, passes=4000, masks=masks)
    error = outputs.std(axis=0) / (4000 if masks != "paired" else 2000) ** 0.5
    expected = net(torch.tensor(x)).detach().numpy()
    assert np.all(np.abs(outputs.mean(axis=0) - expected) < 6 * error + 1e-6)


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
def test_the_second_of_a_pair_is_as_unlike_the_first_as_the_rate_allows(rate):
    net = nn.Sequential(nn.Dropout(rate), nn.Linear(400, 400, bias=False)).double()
    net[1].weight.data = torch.eye(400, dtype=torch.float64)
    first, second = mc_dropout.sample_outputs(net, np.ones((1, 400)), passes=2, masks="paired")[:, 0] != 0
    if rate <= 0.5:
        assert second[~first].all()  # whatever one drops, the other keeps
    if rate >= 0.5:
        assert not (first & second).any()  # whatever one keeps, the other drops


class DropPath(nn.Module):
    """Stochastic depth, as people write it: no layer of torch's."""

    def forward(self, x):
        return x * 2 * torch.empty(len(x), 1).bernoulli_(0.5) if self.training else x


class Attending(nn.Module):
    """Attention called as a function, with a rate that asks for the network's own flag."""

    def __init__(self):
        super().__init__()
        self.dropout, self.out = nn.Dropout(0.001), nn.Linear(64, 10)

    def forward(self, x):
        h, rate = x.flatten(1).unflatten(1, (8, 8)), 0.5 if self.training else 0.0
        h = nn.functional.scaled_dot_product_attention(h, h, h, dropout_p=rate)
        return self.out(self.dropout(h.flatten(1)))


def deep():
    return nn.Sequential(nn.Flatten(), DropPath(), nn.Dropout(0.001), nn.Linear(64, 10))


@pytest.mark.parametrize("make", [Attending, deep])
def test_a_copy_in_training_mode_shows_what_the_docstring_says_is_not_found(make, images):
    net = seeded(make)
    ours = mc_dropout.sample_outputs(net, images, passes=100).std(axis=0).mean()
    awake = copy.deepcopy(net).train()
    with training.seeded(0), torch.no_grad():
        passes = torch.stack([awake(torch.from_numpy(images)) for _ in range(100)])
    assert passes.std(axis=0).mean() > 5 * ours
    for word in ("scaled_dot_product_attention", "stochastic depth"):
        assert word in mc_dropout.dropout_layers.__doc__


class Rows(nn.Module):
    """Channel dropout on what has an axis too few: torch takes the inputs for channels, drops whole rows."""

    def __init__(self, layer, convolution=False):
        super().__init__()
        first = nn.Conv2d(1, 4, 3) if convolution else nn.Sequential(nn.Flatten(), nn.Linear(64, 32))
        self.net = nn.Sequential(first, layer(0.5), nn.Flatten(), nn.Linear(144 if convolution else 32, 10))

    def forward(self, x):
        return self.net(x)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize(("layer", "convolution"), [(nn.Dropout1d, False), (nn.Dropout3d, True)])
def test_channel_dropout_on_too_few_axes_drops_what_torch_drops(layer, convolution, masks, images):
    net = seeded(lambda: Rows(layer, convolution))
    samples = mc_dropout.sample(net, images, passes=40, masks=masks)
    means = torch.as_tensor(images)
    with torch.no_grad():
        scaled = net.net[3](net.net[2](2 * net.net[0](means))).softmax(-1).double().numpy()
        empty = net.net[3].bias.softmax(-1).double().numpy()
    kept = np.isclose(samples, scaled, atol=1e-6).all(axis=-1)
    assert (kept | np.isclose(samples, empty, atol=1e-6).all(axis=-1)).all()
    assert 0.25 < kept.mean() < 0.75
    assert plain_loop(net, images, 400).std(0).mean() == pytest.approx(samples.std(0).mean(), rel=0.2)


@pytest.mark.parametrize("where", ["the dropout layer", "before the dropout layer", "the whole"])
def test_hooks_that_change_what_passes_are_not_lost(where, images):
    net = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Dropout(0.5), nn.Linear(32, 10)))
    if where == "the whole":
        handle = net.register_forward_hook(lambda _, given, output: 0 * output)
    elif where == "the dropout layer":
        handle = net[2].register_forward_hook(lambda _, given, output: 0 * output)
    else:
        handle = net[2].register_forward_pre_hook(lambda _, given: (0 * given[0],))
    assert mc_dropout.sample(net, images, passes=4).std(axis=0).max() == 0
    with pytest.raises(ValueError, match="no hooks on its blocks"):
        mc_dropout.sample(net, images, passes=4, masks="shared")
    handle.remove()
    assert mc_dropout.sample(net, images, passes=4, masks="shared").std(axis=0).max() > 0.01


def test_a_hook_that_looks_at_a_block_sees_numbers_and_every_pass(images):
    net = seeded(lambda: nn.Sequential(nn.Sequential(nn.Flatten(), nn.Dropout(0.5)), nn.Linear(64, 10)))
    seen = []
    with_hook = net[0].register_forward_hook(lambda _, given, output: seen.append(output))
    mc_dropout.sample(net, images, passes=4)
    with_hook.remove()
    assert all(torch.is_tensor(one) for one in seen)
    assert len(seen) >= 4


class OwnNoise(nn.Module):
    """Noise that does not ask how many inputs there are, drawn by one generator or another."""

    def __init__(self, draw, before=False):
        super().__init__()
        self.first, self.dropout, self.out = nn.Linear(64, 32), nn.Dropout(1e-9), nn.Linear(32, 10)
        self.draw, self.before = draw, before

    def forward(self, x):
        h = self.first(x.flatten(1))
        h = h + self.draw(h) if self.before else h
        h = self.out(self.dropout(h))
        return h if self.before else h + self.draw(h)


@pytest.mark.parametrize(
    "draw",
    [
        lambda h: torch.randn(1),
        lambda h: random.gauss(0, 1),
        lambda h: np.random.normal(),  # noqa: NPY002
        lambda h: torch.normal(h, 1.0),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_noise_of_the_networks_own_is_drawn_in_every_pass_and_not_once(draw, before, images):
    net = seeded(lambda: OwnNoise(draw, before))
    assert mc_dropout.sample_outputs(net, images, passes=20).std(axis=0).mean() > 0.05


def test_a_network_that_draws_while_it_is_traced_leaves_the_global_generators_alone(images):
    net = seeded(lambda: OwnNoise(lambda h: torch.randn(1)))
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    first, second = (mc_dropout.sample_outputs(net, images, passes=4) for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    assert np.array_equal(first, second)


class Guarded(nn.Module):
    """A dropout layer that is passed by unless the network itself is in training."""

    def __init__(self, guarded=True):
        super().__init__()
        self.out, self.dropout, self.guarded = nn.Linear(64, 10), nn.Dropout(0.5), guarded

    def forward(self, x):
        x = x.flatten(1)
        return self.out(self.dropout(x) if self.training or not self.guarded else x)


@pytest.mark.parametrize("use", [mc_dropout.sample, mc_dropout.predict, mc_dropout.sample_outputs])
def test_a_dropout_layer_that_never_runs_is_told_and_samples_no_single_network(use, images):
    with pytest.raises(ValueError, match="expected a dropout layer that runs when it predicts"):
        use(seeded(Guarded), images)
    assert mc_dropout.sample(seeded(lambda: Guarded(False)), images).std(axis=0).max() > 0.01
