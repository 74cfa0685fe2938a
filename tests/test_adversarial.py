"""Attacks, what they do to doubt, and promises against them."""

import functools
import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from uqhelpers import adversarial, mc_dropout, metrics, models, training
from uqhelpers.adversarial import spaces, victims
from uqhelpers.dropout import Masks

nn = torch.nn
MEAN, STD = 0.1307, 0.3081  # of MNIST's training pixels


def images(n=40, shape=(1, 8, 8), seed=0):
    return np.random.default_rng(seed).random((n, *shape), dtype=np.float32)


def network(dropout=0.5, seed=0, mean=0.0, std=1.0, shape=(1, 8, 8)):
    with training.seeded(seed):
        return models.SimpleNet(shape, 10, dropout, mean, std).eval()


def labels_of(model, inputs):
    """What the model says: every attack is then a change of its mind."""
    return training.predict(model, inputs).argmax(axis=1)


class Linear(nn.Module):
    """Two classes, the second one's logit ahead by ``x·w + b``."""

    def __init__(self, weight, bias=0.0, factor=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.as_tensor(weight, dtype=torch.float64))
        self.bias, self.factor = bias, factor

    def forward(self, inputs):
        ahead = self.factor * (inputs.flatten(1) @ self.weight + self.bias)
        return torch.stack([-ahead / 2, ahead / 2], dim=1)


@pytest.fixture
def line():
    rng = np.random.default_rng(3)
    weight, inputs = rng.normal(size=6), rng.normal(size=(50, 6))
    return weight, Linear(weight, 0.3), inputs, rng.integers(0, 2, 50)


# --- the budget -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ["fgsm", "pgd", "random_search"])
def test_no_pixel_moves_further_than_the_budget_or_out_of_range(attack):
    net, inputs = network(), images()
    settings = {"queries": 20} if attack == "random_search" else {}
    moved = getattr(adversarial, attack)(net, inputs, labels_of(net, inputs), 0.07, **settings)
    assert moved.dtype == np.float32
    assert np.abs(moved - inputs).max() <= 0.07 + 1e-6
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert np.abs(moved - inputs).max() > 0.069


def test_a_budget_of_nothing_changes_nothing():
    net, inputs = network(), images()
    for attack in (adversarial.fgsm, adversarial.pgd, adversarial.random_search):
        assert (attack(net, inputs, labels_of(net, inputs), 0) == inputs).all()


def test_a_round_budget_is_one_of_the_whole_change():
    net, inputs = network(), images()
    moved = adversarial.pgd(net, inputs, labels_of(net, inputs), 0.8, norm=2)
    lengths = np.linalg.norm((moved - inputs).reshape(len(inputs), -1), axis=1)
    assert lengths.max() <= 0.8 + 1e-5
    assert np.median(lengths) > 0.7


def test_the_budget_counts_in_pixels_wherever_they_are_standardised():
    inside, outside = network(mean=MEAN, std=STD), network()
    outside.load_state_dict(
        inside.state_dict() | {"standardise.mean": torch.tensor(0.0), "standardise.std": torch.tensor(1.0)}
    )
    pixels = images()
    scaled, labels = (pixels - MEAN) / STD, labels_of(inside, pixels)
    for attack in (adversarial.fgsm, functools.partial(adversarial.pgd, random_start=False)):
        plain = attack(inside, pixels, labels, 0.1)
        other = attack(outside, scaled.astype(np.float32), labels, 0.1, mean=MEAN, std=STD)
        assert other * STD + MEAN == pytest.approx(plain, abs=2e-6)
        assert other.min() >= (0 - MEAN) / STD - 1e-6
        assert other.max() <= (1 - MEAN) / STD + 1e-6


def test_the_bounds_of_standardised_mnist_are_those_of_its_range():
    space = spaces.Space.of(torch.zeros(1, 1, 28, 28), (0, 1), MEAN, STD)
    assert (space.low.item(), space.high.item()) == pytest.approx((-0.4242, 2.8215), abs=1e-4)


def test_standardised_pixels_without_their_scale_are_told():
    with pytest.raises(ValueError, match=r"inputs: expected pixels from 0 to 1.*mean= and std="):
        adversarial.fgsm(network(), (images() - MEAN) / STD, np.zeros(40, int), 0.1)


def test_every_channel_has_its_own_scale():
    net, inputs = network(shape=(3, 8, 8)), images(5, (3, 8, 8))
    moved = adversarial.fgsm(
        net, inputs, labels_of(net, inputs), 0.01, std=[0.5, 0.25, 1.0], bounds=(-9, 9), mean=0
    )
    assert np.abs(moved - inputs).max(axis=(0, 2, 3)) == pytest.approx([0.02, 0.04, 0.01], rel=1e-3)


# --- the step ---------------------------------------------------------------------------------------------


def test_the_step_is_the_sign_of_the_gradient():
    net, inputs = network(), images()
    labels = labels_of(net, inputs)
    tensor = torch.from_numpy(inputs).requires_grad_()
    torch.nn.functional.cross_entropy(net(tensor), torch.from_numpy(labels)).backward()
    expected = (tensor + 0.05 * tensor.grad.sign()).clamp(0, 1).detach().numpy()
    assert (adversarial.fgsm(net, inputs, labels, 0.05) == expected).mean() > 0.999


@pytest.mark.parametrize("attack", [adversarial.fgsm, adversarial.pgd])
def test_on_a_linear_model_both_attain_the_worst_that_there_is(attack, line):
    weight, model, inputs, labels = line
    moved = attack(model, inputs, labels, 0.2, bounds=None)
    signed = np.where(labels == 1, 1, -1)

    def loss(x):
        return np.logaddexp(0, -signed * (x @ weight + 0.3))

    worst = np.logaddexp(0, -(signed * (inputs @ weight + 0.3) - 0.2 * np.abs(weight).sum()))
    assert loss(moved) == pytest.approx(worst, rel=1e-9)


def test_in_the_round_the_worst_of_a_linear_model_is_along_its_weights(line):
    weight, model, inputs, labels = line
    moved = adversarial.pgd(model, inputs, labels, 0.5, norm=2, bounds=None, step_size=50.0)
    away = np.where(labels == 1, -1, 1)[:, None] * 0.5 * weight / np.linalg.norm(weight)
    assert moved - inputs == pytest.approx(np.broadcast_to(away, inputs.shape), abs=1e-3)


def test_more_steps_and_more_restarts_find_more():
    net, inputs = network(), images(80)
    labels = labels_of(net, inputs)

    def loss(moved):
        return -np.log(training.predict(net, moved)[np.arange(len(labels)), labels])

    one, many = (adversarial.pgd(net, inputs, labels, 0.03, steps=5, restarts=r) for r in (1, 5))
    fast = adversarial.fgsm(net, inputs, labels, 0.03)
    errs = [labels_of(net, moved) != labels for moved in (fast, one, many)]
    assert (errs[2] >= errs[1]).all()  # each input keeps its best ending
    same = errs[2] == errs[1]
    assert (loss(many)[same] >= loss(one)[same] - 1e-6).all()
    assert loss(one).mean() > loss(fast).mean()


def test_every_image_in_reach_means_that_none_is_left():
    net, inputs = network(), images()
    labels = labels_of(net, inputs)
    moved = adversarial.pgd(net, inputs, labels, 1.0, steps=30)
    assert (labels_of(net, moved) == labels).mean() < 0.05


def test_the_same_seed_gives_the_same_attack_and_leaves_the_global_generators():
    net, inputs = network(), images()
    labels = labels_of(net, inputs)
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for attack in (
        functools.partial(adversarial.pgd, steps=2, restarts=2, passes=3),
        functools.partial(adversarial.random_search, queries=5),
    ):
        first, again, other = (attack(net, inputs, labels, 0.1, seed=seed) for seed in (0, 0, 1))
        assert (first == again).all()
        assert not (first == other).all()
    assert (torch_before == torch.get_rng_state()).all()
    assert (numpy_before == np.random.get_state()[1]).all()  # noqa: NPY002


# --- what a sure network hides ----------------------------------------------------------------------------


def test_a_saturated_softmax_stops_the_plain_gradient_and_not_ours():
    net, inputs = network(), images()
    labels = labels_of(net, inputs)
    sure = nn.Sequential(net, Scaled(3e4)).eval()
    tensor = torch.from_numpy(inputs).requires_grad_()
    torch.nn.functional.cross_entropy(sure(tensor), torch.from_numpy(labels)).backward()
    assert (tensor.grad == 0).flatten(1).all(dim=1).float().mean() > 0.5  # sign(0): nothing moves
    plain = adversarial.fgsm(net, inputs, labels, 0.05, loss="margin")
    assert (adversarial.fgsm(sure, inputs, labels, 0.05) == plain).mean() > 0.99


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, values):
        return values * self.factor


@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "sure_and_wrong", "entropy"])
def test_each_loss_raises_what_it_is_named_after(loss):
    net, inputs = network(0.0), images(60)
    labels = labels_of(net, inputs)
    moved = adversarial.pgd(net, inputs, labels, 0.05, loss=loss)
    before, after = (training.predict(net, x) for x in (inputs, moved))
    rows = np.arange(len(labels))

    def others(probs):
        probs = probs.copy()
        probs[rows, labels] = 0
        return probs.max(axis=1)

    gained = {
        "cross_entropy": lambda p: -np.log(p[rows, labels]),
        "margin": lambda p: np.log(others(p)) - np.log(p[rows, labels]),
        "sure_and_wrong": others,
        "entropy": metrics.predictive_entropy,
    }[loss]
    assert (gained(after) > gained(before)).mean() > 0.95


def test_of_the_named_losses_only_entropy_has_no_gradient_where_the_softmax_has_rounded():
    sure = nn.Sequential(nn.Flatten(), Linear(np.ones(4), factor=1e4))
    inputs = np.full((3, 1, 2, 2), 0.7)
    for loss in adversarial.LOSSES:
        moved = adversarial.fgsm(sure, inputs, np.ones(3, int), 0.1, loss=loss)
        assert (moved == inputs).all() == (loss == "entropy")


def test_random_starts_belong_to_a_batch():
    net, inputs = network(), images(6)
    attack = functools.partial(
        adversarial.pgd, net, inputs, labels_of(net, inputs), 0.1, steps=1, step_size=1e-6
    )
    whole, halves = attack(batch_size=6), attack(batch_size=3)
    apart = np.abs(whole - halves).max(axis=(1, 2, 3))
    assert apart[:3].max() < 1e-5  # the first batch begins with the same draws
    assert apart[3:].min() > 0.05  # the second one with its own
    assert (whole == attack(batch_size=6)).all()


def test_a_loss_of_ones_own_is_followed():
    net, inputs = network(), images()
    labels = labels_of(net, inputs)
    own = adversarial.fgsm(net, inputs, labels, 0.05, loss=lambda logs, labels, x: logs[0, :, 3])
    named = adversarial.fgsm(net, inputs, np.full(len(labels), 3), 0.05, targeted=True)
    assert (own == named).mean() > 0.999


# --- ensembles and dropout --------------------------------------------------------------------------------


def test_an_ensemble_is_attacked_through_its_average():
    nets, inputs = [network(seed=seed) for seed in range(3)], images()
    labels = labels_of(nets[0], inputs)
    tensor = torch.from_numpy(inputs).requires_grad_()
    average = torch.stack([net(tensor).softmax(1) for net in nets]).mean(0)
    torch.nn.functional.nll_loss(average.log(), torch.from_numpy(labels)).backward()
    expected = (tensor + 0.05 * tensor.grad.sign()).clamp(0, 1).detach().numpy()
    assert (adversarial.fgsm(nets, inputs, labels, 0.05) == expected).mean() > 0.999


def test_a_function_of_samples_is_attacked_like_an_ensemble():
    nets, inputs = [network(seed=seed) for seed in range(3)], images()
    labels = labels_of(nets[0], inputs)
    sampled = adversarial.fgsm(lambda x: torch.stack([net(x) for net in nets]), inputs, labels, 0.05)
    assert (sampled == adversarial.fgsm(nets, inputs, labels, 0.05)).all()


def test_passes_share_what_comes_before_the_dropout_and_differ_behind_it():
    net, tensor = network(), torch.from_numpy(images(7))
    victim = victims.as_victim(net, passes=5, seed=2)
    with victim.settled(), torch.no_grad():
        found = victim.logits(tensor, (4, 0))
        features = net.features(net.standardise(tensor)).repeat(5, 1)
        masks = Masks("independent", victims.OWN + 2, 0, tensor.device, len(features))
        masks.start(4)
        kept, scale = masks.draw(features, net.dropout)
        expected = net.output(torch.relu(net.hidden(features * kept * scale))).reshape(5, 7, 10)
    assert torch.allclose(found, expected, atol=1e-6)
    assert found.std(dim=0).min() > 0


def test_the_passes_of_an_attack_are_those_of_mc_dropout_in_distribution():
    net, inputs = network(), images(4)
    victim = victims.as_victim(net, passes=1500)
    with victim.settled(), torch.no_grad():
        ours = victim.logits(torch.from_numpy(inputs), (0, 0)).double().numpy()
    theirs = mc_dropout.sample_outputs(net, inputs, passes=1500, seed=5)
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 1500)
    assert np.abs((ours.mean(axis=0) - theirs.mean(axis=0)) / error).max() < 5
    assert ours.std(axis=0) == pytest.approx(theirs.std(axis=0), rel=0.1)


class Shortcut(nn.Module):
    """The dropout is on one of two ways; their results are added."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.dropout = nn.Linear(4, 6), nn.Linear(4, 6), nn.Dropout(0.5)
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        return self.out(self.dropout(self.one(x)) + self.two(x))


class Attention(nn.Module):
    """A layer with a dropout rate of its own."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 1, dropout=0.5, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = x[:, None].repeat(1, 3, 1)
        return self.out(self.attention(x, x, x)[0].mean(dim=1))


@pytest.mark.parametrize("kind", [Shortcut, Attention])
def test_a_network_that_cannot_be_cut_is_sampled_all_the_same(kind):
    with training.seeded(0):
        net = kind()
    victim, tensor = victims.as_victim(net, passes=300), torch.rand(5, 4, generator=torch.Generator())
    with victim.settled(), torch.no_grad():
        found = victim.logits(tensor, (0, 0))
    assert found.shape == (300, 5, 3)
    sampled = mc_dropout.sample_outputs(net, tensor, passes=300)
    spread = np.sqrt((found.numpy().var(axis=0) + sampled.var(axis=0)) / 300)
    assert (np.abs(found.numpy().mean(axis=0) - sampled.mean(axis=0)) < 5 * spread + 1e-6).all()
    assert found.std(dim=0).max() > 0


def test_an_attack_through_many_masks_hurts_the_average_more_than_one_through_a_single_mask():
    net, inputs = network(), images(60)
    labels = labels_of(net, inputs)
    losses = []
    for passes in (1, 20):
        moved = adversarial.fgsm(net, inputs, labels, 0.05, passes=passes)
        probs = mc_dropout.predict(net, moved, passes=200, seed=9).mean
        losses.append(-np.log(probs[np.arange(len(labels)), labels]))
    assert (losses[1] - losses[0]).mean() > 0


# --- nothing is left behind -------------------------------------------------------------------------------


def state(net):
    grads = [parameter.grad for parameter in net.parameters()]
    modes = [module.training for module in net.modules()]
    needs = [parameter.requires_grad for parameter in net.parameters()]
    hooks = [len(module._forward_hooks) for module in net.modules()]
    return {key: value.clone() for key, value in net.state_dict().items()}, grads, modes, needs, hooks


def failing(net):
    with pytest.raises(ValueError, match="loss: expected one number"):
        adversarial.fgsm(net, images(6), np.zeros(6, int), 0.1, passes=2, loss=lambda *_: None)


def uses():
    inputs = images(6)
    labels = np.zeros(6, int)
    return {
        "fgsm": lambda net: adversarial.fgsm(net, inputs, labels, 0.1),
        "fgsm, passes": lambda net: adversarial.fgsm(net, inputs, labels, 0.1, passes=3),
        "pgd": lambda net: adversarial.pgd(net, inputs, labels, 0.1, steps=2, restarts=2),
        "random_search": lambda net: adversarial.random_search(net, inputs, labels, 0.1, queries=3),
        "report": lambda net: adversarial.masked_gradient_report(
            net, images(20), np.zeros(20, int), 0.1, steps=2, queries=3
        ),
        "smoothing": lambda net: adversarial.Smoothed(net, 0.1).certify(inputs, 10, selection=5),
        "adversarial_loss": lambda net: adversarial.adversarial_loss(net, inputs, labels, 0.1),
        "virtual": lambda net: adversarial.virtual_adversarial_loss(net, inputs, 0.1),
        "an exception": failing,
    }


@pytest.mark.parametrize("name", uses())
@pytest.mark.parametrize("mode", ["training", "evaluation", "dropout on"])
def test_the_model_comes_back_as_it_came(name, mode):
    with training.seeded(0):
        net = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 9), nn.BatchNorm1d(9), nn.Dropout(0.5), nn.Linear(9, 4)
        )
    net.train(mode == "training")
    net[3].training = mode != "evaluation"
    net[1].weight.requires_grad_(False)
    before = state(net)
    uses()[name](net)
    after = state(net)
    if not (
        mode == "training" and name in ("adversarial_loss", "virtual")
    ):  # there the averages belong to training
        assert all((before[0][key] == after[0][key]).all() for key in before[0])
    assert before[1:] == after[1:]


# --- the sweep --------------------------------------------------------------------------------------------


def test_a_sweep_says_what_the_predictor_says_of_each_attacked_input():
    net, inputs = network(), images()
    labels = labels_of(net, inputs)
    attack = functools.partial(adversarial.fgsm, net)
    sample = functools.partial(mc_dropout.sample, net, passes=5)
    found = adversarial.sweep(
        attack,
        {
            "sampled": sample,
            "summed": functools.partial(mc_dropout.predict, net, passes=5),
            "plain": functools.partial(training.predict, net),
        },
        inputs,
        labels,
        [0, 0.1],
    )
    moved = adversarial.fgsm(net, inputs, labels, 0.1)
    parts = metrics.decompose(sample(moved))
    assert found["sampled"].total[1] == pytest.approx(parts.total)
    assert found["sampled"].aleatoric[1] == pytest.approx(parts.aleatoric)
    assert found["sampled"].epistemic[1] == pytest.approx(parts.epistemic)
    assert found["summed"].total == pytest.approx(found["sampled"].total)
    assert found["plain"].accuracy[0] == 1
    assert (found["plain"].epistemic == 0).all()
    plain = training.predict(net, moved)
    assert found["plain"].accuracy[1] == metrics.accuracy(plain, labels)
    red = (plain.argmax(axis=1) != labels) & (plain.max(axis=1) >= 0.2)
    assert found["plain"].sure_and_wrong(0.2)[1] == red.mean()


def test_an_attack_that_writes_in_place_changes_only_its_own_copy():
    def spoils(x, labels, epsilon):
        x += epsilon
        labels[:] = 0
        return x

    def copied(x):
        return torch.as_tensor(x).clone().numpy()

    for given in (images(5), torch.from_numpy(images(5)), images(5).tolist()):
        before, asked = copied(given), []

        def predict(x, asked=asked):
            asked.append(copied(x))
            return np.full((5, 10), 0.1)

        attack = (
            spoils if not isinstance(given, list) else lambda x, labels, e: spoils(np.array(x), labels, e)
        )
        labels = np.arange(5)
        found = adversarial.sweep(attack, predict, given, labels, [0, 0.1, 0.2])
        assert np.array_equal(copied(given), before)
        assert labels.tolist() == found.labels.tolist() == [0, 1, 2, 3, 4]
        assert np.allclose([x - before for x in asked], np.reshape([0, 0.1, 0.2], (3, 1, 1, 1, 1)))


# --- losses to train with ---------------------------------------------------------------------------------


def test_the_adversarial_loss_is_half_of_each():
    net, inputs = network(0.0), images()
    labels = labels_of(net, inputs)
    moved = adversarial.fgsm(net, inputs, labels, 0.1)
    with torch.no_grad():
        parts = [
            torch.nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(labels))
            for x in (inputs, moved)
        ]
    loss = adversarial.adversarial_loss(net, inputs, labels, 0.1)
    assert loss.item() == pytest.approx(sum(parts).item() / 2, rel=1e-5)
    loss.backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    plain = adversarial.adversarial_loss(net, inputs, labels, 0)
    assert plain.item() == pytest.approx(parts[0].item(), rel=1e-5)
    assert adversarial.adversarial_loss(net, inputs, labels, 0.1, steps=5).item() > plain.item()


def test_the_virtual_loss_finds_the_most_curved_direction():
    """Of a softmax of a linear map the divergence's Hessian is Wᵀ(diag p - ppᵀ)W, known in full."""
    with training.seeded(0):
        net = nn.Linear(5, 3).double()
    inputs = np.random.default_rng(0).normal(size=(4, 5))
    found = adversarial.virtual_adversarial_loss(net, inputs, 1e-3, iterations=200).item()
    weight = net.weight.detach().numpy()
    tops = []
    for p in torch.softmax(net(torch.from_numpy(inputs)), 1).detach().numpy():
        tops.append(np.linalg.eigvalsh(weight.T @ (np.diag(p) - np.outer(p, p)) @ weight)[-1])
    assert found == pytest.approx(0.5e-6 * np.mean(tops), rel=1e-3)


def test_one_step_of_the_power_method_is_further_than_chance():
    net, inputs = network(0.0), images()
    found = adversarial.virtual_adversarial_loss(net, inputs, 0.5).item()
    noise = np.random.default_rng(1).normal(size=inputs.shape)
    noise /= np.linalg.norm(noise.reshape(len(inputs), -1), axis=1)[:, None, None, None]
    before, after = (training.predict(net, x) for x in (inputs, (inputs + 0.5 * noise).astype(np.float32)))
    chance = (before * np.log(before / after)).sum(axis=1).mean()
    assert found > 2 * chance
    assert adversarial.virtual_adversarial_loss(net, inputs, 0.0).item() == pytest.approx(0, abs=1e-7)


def test_the_masks_before_and_after_are_the_same():
    net = network(0.5).train()
    assert adversarial.virtual_adversarial_loss(net, images(), 0.0).item() == pytest.approx(0, abs=1e-7)


def test_training_on_attacked_copies_resists_them():
    from uqhelpers import data

    digits = data.load("digits")
    found = []
    for epsilon in (0.0, 0.1):
        net = network(0.0, mean=digits.mean, std=digits.std)
        step = torch.optim.Adam(net.parameters(), 3e-3)
        order = np.random.default_rng(0)
        for _ in range(6):
            for batch in np.array_split(order.permutation(len(digits.train)), 8):
                loss = adversarial.adversarial_loss(
                    net, digits.train.images[batch], digits.train.labels[batch], epsilon
                )
                step.zero_grad()
                loss.backward()
                step.step()
        held = digits.test[:200]
        moved = adversarial.pgd(net, held.images, held.labels, 0.1)
        found.append(metrics.accuracy(training.predict(net, moved), held.labels))
    assert found[1] > found[0] + 0.1


# --- masked gradients -------------------------------------------------------------------------------------


class Rounded(nn.Module):
    """Rounds the pixels before an honest network sees them: no gradient passes."""

    def __init__(self, net, levels=4):
        super().__init__()
        self.net, self.levels = net, levels

    def forward(self, pixels):
        return self.net(torch.round(pixels * self.levels) / self.levels)


@pytest.mark.parametrize("attack", [adversarial.fgsm, adversarial.pgd, adversarial.random_search])
def test_a_network_in_a_precision_that_numpy_lacks_is_attacked_too(attack):
    x = images(4)
    for epsilon in (0, 0.1):
        moved = attack(network(0.0).to(torch.bfloat16), x, np.arange(4), epsilon)
        assert moved.dtype == np.float32
        assert np.abs(moved - x).max() <= epsilon + 2**-8  # bfloat16 keeps eight bits


@pytest.fixture(scope="module")
def honest():
    """A trained network, another one, and images that both read."""
    from uqhelpers import data

    digits = data.load("digits")
    nets = []
    for seed in (0, 1):
        net = network(0.0, seed, digits.mean, digits.std)
        training.fit(net, digits.train.images, digits.train.labels, epochs=8, seed=seed, progress=False)
        nets.append(net)
    return *nets, digits.test[:100]


def test_a_targeted_attack_arrives(honest):
    net, _, held = honest
    targets = (held.labels + 1) % 10
    for loss in ("cross_entropy", "margin"):
        moved = adversarial.pgd(net, held.images, targets, 0.4, targeted=True, loss=loss)
        assert (labels_of(net, moved) == targets).mean() > 0.8


def report(model, held, **options):
    return adversarial.masked_gradient_report(
        model, held.images, held.labels, 0.1, steps=10, queries=60, **options
    )


def test_an_honest_network_passes_the_list(honest):
    net, other, held = honest
    found = report(net, held, surrogate=other)
    assert not found.masked, found
    assert len(found.checks) == 8


def test_the_list_says_which_gradients_are_masked(honest):
    net, other, held = honest
    found = report(Rounded(net), held, surrogate=other)
    assert found.masked
    assert {
        "the cross-entropy has a gradient",
        "with every image in reach nothing is left",
        "no gradient is no stronger",
        "another model's attack is no stronger",
    } <= set(found.failed)
    assert "FAILED" in str(found)


def test_a_saturated_softmax_is_on_the_list_though_our_attacks_pass_it(honest):
    net, _, held = honest
    found = report(nn.Sequential(net, Scaled(200.0)), held)
    assert found.failed == ["the cross-entropy has a gradient"]


def test_a_search_without_gradients_beats_chance_at_the_same_budget(honest):
    net, _, held = honest
    searched = adversarial.random_search(net, held.images, held.labels, 0.15, queries=150)
    signs = np.random.default_rng(0).choice([-0.15, 0.15], size=held.images.shape)
    chance = np.clip(held.images + signs, 0, 1).astype(np.float32)
    left = [metrics.accuracy(training.predict(net, x), held.labels) for x in (searched, chance)]
    assert left[0] < left[1] - 0.1


def test_a_search_without_gradients_takes_inputs_that_are_no_images(line):
    weight, model, inputs, labels = line
    moved = adversarial.random_search(model, inputs, labels, 0.2, queries=300, bounds=None)
    signed = np.where(labels == 1, 1, -1)
    lost = signed * ((inputs - moved) @ weight) / (0.2 * np.abs(weight).sum())
    assert lost.mean() > 0.95  # of what the best attack would cost


# --- promises ---------------------------------------------------------------------------------------------


def test_the_bound_is_that_of_clopper_and_pearson():
    for successes, trials in itertools.product((0, 1, 7, 50), (50, 120)):
        expected = stats.binomtest(successes, trials).proportion_ci(0.98, method="exact").low
        assert adversarial.clopper_pearson(successes, trials, 0.01) == pytest.approx(expected, abs=1e-12)
    assert adversarial.clopper_pearson(1000, 1000, 0.001) == pytest.approx(0.001 ** (1 / 1000))


def test_the_bound_is_too_high_no_more_often_than_it_says():
    draws = np.random.default_rng(0).binomial(200, 0.8, size=1000)
    broken = (adversarial.clopper_pearson(draws, 200, 0.05) > 0.8).sum()
    assert broken <= stats.binom.ppf(0.999, 1000, 0.05)
    assert broken > stats.binom.ppf(0.001, 1000, 0.02)  # it is no bound that never binds


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
def test_of_a_linear_classifier_the_radius_is_the_distance_for_every_noise(sigma):
    weight = np.array([3.0, 4.0])
    p = stats.norm.cdf(0.7 / sigma)  # the share of the noise that stays on this side
    assert sigma * stats.norm.ppf(p) == pytest.approx(0.7)
    inputs = np.tile(0.7 * weight / 5, (3, 1)) + np.array([[0.0, 0.0], [4.0, -3.0], [8.0, -6.0]])
    found = adversarial.Smoothed(Linear(weight), sigma).certify(inputs, 20_000, alpha=0.01)
    limit = sigma * stats.norm.ppf(0.01 ** (1 / 20_000))  # beyond it nothing can be promised
    assert (found.classes == 1).all()
    assert (found.radius <= 0.7 + 1e-9).all()
    assert (found.radius > min(0.7, limit) - 0.05 * max(1, sigma)).all()


def test_a_promise_is_broken_no_more_often_than_it_says():
    """A thousand certificates of one point whose distance is known: an exact binomial limit at 99.9 %."""
    weight, distance, sigma, alpha = np.array([1.0, 0.0]), 0.4, 0.5, 0.05
    inputs = np.tile(distance * weight, (1000, 1))
    found = adversarial.Smoothed(Linear(weight), sigma).certify(inputs, 200, alpha, selection=20)
    broken = (found.radius > distance).sum()
    assert broken <= stats.binom.ppf(0.999, 1000, alpha)
    assert broken > stats.binom.ppf(0.001, 1000, 0.5 * alpha)


def test_what_is_undecided_abstains():
    smoothed = adversarial.Smoothed(Linear([1.0, 0.0]), 0.5)
    inputs = np.array([[0.0, 0.0], [2.0, 0.0], [-2.0, 0.0]])
    assert smoothed.predict(inputs, 200).tolist() == [-1, 1, 0]
    found = smoothed.certify(inputs, 200)
    assert found.classes.tolist() == [-1, 1, 0]
    assert found.radius[0] == 0
    assert found.certified_accuracy([0, 1, 0], [0.0, 0.5, 50.0]).tolist() == pytest.approx([2 / 3, 2 / 3, 0])


def test_choosing_and_bounding_on_the_same_draws_promises_too_much():
    """Why two samples are taken: two classes alike, and the winner of the draws looks like a favourite."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(100, np.full(2, 0.5), size=2000)
    same = adversarial.clopper_pearson(counts.max(axis=1), 100, 0.05) > 0.5
    other = rng.multinomial(100, np.full(2, 0.5), size=2000)[np.arange(2000), counts.argmax(axis=1)]
    apart = adversarial.clopper_pearson(other, 100, 0.05) > 0.5
    assert same.mean() > 0.06
    assert apart.sum() <= stats.binom.ppf(0.999, 2000, 0.05)


def test_the_noise_counts_in_pixels():
    weight = np.array([[[[1.0]], [[2.0]]]])
    pixels = np.full((1, 2, 1, 1), 0.3)
    plain = adversarial.Smoothed(Linear(weight.ravel(), -0.5), 0.25).counts(pixels, 1500)
    std = np.array([0.5, 0.25])
    scaled = Linear((weight * std[:, None, None]).ravel(), -0.5)
    other = adversarial.Smoothed(scaled, 0.25, std=std).counts(pixels / std[:, None, None], 1500)
    assert (plain == other).all()


def test_radii_are_a_number_or_a_vector():
    found = adversarial.Certificate(np.array([1, -1]), np.array([0.3, 0.0]), np.array([0.9, 0.4]))
    assert found.certified_accuracy([1, 1], 0.2).tolist() == [0.5]
    assert found.certified_accuracy([1, 1], [0.2, 0.4]).tolist() == [0.5, 0.0]
    with pytest.raises(ValueError, match=r"radii: expected 1 dimension"):
        found.certified_accuracy([1, 1], [[0.2, 0.4]])


@pytest.mark.parametrize(
    "labels", [[1], [1, 1, 1], ["a", "b"], [0.5, 1], [1, -2], [[1, 1]], np.ma.masked_greater([1, 2], 1)]
)
def test_a_certificate_is_held_against_labels(labels):
    found = adversarial.Certificate(np.array([1, -1]), np.array([0.3, 0.0]), np.array([0.9, 0.4]))
    with pytest.raises(ValueError, match=r"^labels: expected"):
        found.certified_accuracy(labels, 0.2)


# --- refused ----------------------------------------------------------------------------------------------

GOOD = {"inputs": images(4), "labels": np.zeros(4, int), "epsilon": 0.1}
REFUSED = [
    ({"epsilon": -0.1}, "epsilon: expected a number in"),
    ({"epsilon": np.nan}, "epsilon: expected a number in"),
    ({"labels": np.zeros(3, int)}, "labels: expected 4 labels"),
    ({"labels": np.full(4, 10)}, "labels: expected labels from 0 to 9"),
    ({"inputs": np.zeros((4, 1, 8, 8), int)}, "inputs: expected real numbers"),
    ({"inputs": np.full((4, 1, 8, 8), np.nan)}, "inputs: expected finite numbers"),
    ({"inputs": images(4) + 1}, "inputs: expected pixels from 0 to 1"),
    ({"inputs": np.zeros((0, 1, 8, 8))}, "inputs: expected real numbers"),
    ({"loss": "nll"}, "loss: expected one of 'cross_entropy'"),
    ({"loss": lambda logs, labels, x: logs.sum()}, "loss: expected one number an input"),
    ({"loss": "entropy", "targeted": True}, "targeted: expected False"),
    ({"std": 0}, "std: expected numbers above 0"),
    ({"std": [1.0, 1.0]}, "std: expected a number, or one for each of 1 channels"),
    ({"bounds": (1, 0)}, "bounds: expected None or"),
    ({"passes": 0}, "passes: expected a whole number"),
    ({"batch_size": 0}, "batch_size: expected a whole number"),
    ({"seed": -1}, "seed: expected a whole number"),
]


@pytest.mark.parametrize(
    ("change", "message"), REFUSED, ids=lambda value: ", ".join(value) if isinstance(value, dict) else value
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        adversarial.fgsm(network(), **(GOOD | change))


class Detached(nn.Module):
    """Its weights have a gradient, its inputs have none."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 3)

    def forward(self, x):
        return self.linear(x.detach().flatten(1))


def test_the_masks_of_an_attack_are_not_those_that_answer():
    net, inputs = network(), images(5)
    victim = victims.as_victim(net, passes=1, seed=0)
    with victim.settled(), torch.no_grad():
        ours = victim.logits(torch.from_numpy(inputs), (0, 0))[0].double().numpy()
    answers = mc_dropout.sample_outputs(net, inputs, passes=3, seed=0)
    assert np.abs(answers - ours).max(axis=(1, 2)).min() > 1e-3


def test_nothing_is_certified_of_a_network_that_puts_out_no_numbers():
    with pytest.raises(ValueError, match="finite logits"):
        adversarial.Smoothed(lambda x: x.flatten(1)[:, :3] * np.nan, 0.1).certify(images(2), 10)


def test_a_model_that_cannot_be_attacked_is_refused():
    for model, message in [
        (3, "model: expected a torch.nn.Module"),
        ([], "model: expected a torch.nn.Module"),
        (nn.Flatten(0), "model: expected logits"),
        (lambda x: torch.zeros(len(x), 2), "outputs that depend on the inputs"),
        (lambda x: x.sum(), "from the function"),
        (Detached(), "outputs that depend on the inputs"),
        (lambda x: x.flatten(1)[:, :3] * np.nan, "finite logits"),
    ]:
        with pytest.raises(ValueError, match=message):
            adversarial.fgsm(model, **(GOOD | {"labels": np.zeros(4, int)}))
    with pytest.raises(ValueError, match="at least one dropout layer"):
        adversarial.fgsm(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), **GOOD, passes=2)
    with pytest.raises(ValueError, match="passes: expected None"):
        adversarial.fgsm([network()], **GOOD, passes=2)


def test_settings_of_the_other_tools_are_checked():
    net = network()
    for call, message in [
        (lambda: adversarial.pgd(net, **GOOD, norm=1), "norm: expected 2 or"),
        (lambda: adversarial.pgd(net, **GOOD, norm=np.array([2, 2])), "norm: expected 2 or"),
        (lambda: adversarial.pgd(net, **GOOD, norm="inf"), "norm: expected 2 or"),
        (lambda: adversarial.pgd(net, **GOOD, restarts=2, random_start=False), "restarts: expected 1"),
        (lambda: adversarial.pgd(net, **GOOD, step_size=0), "step_size: expected a number"),
        (lambda: adversarial.random_search(net, **GOOD, queries=0), "queries: expected"),
        (lambda: adversarial.Smoothed(net, 0), "sigma: expected a number"),
        (
            lambda: adversarial.Smoothed(net, 0.1).certify(GOOD["inputs"], alpha=1),
            r"alpha: .* in \(0, 1\), got 1",
        ),
        (lambda: adversarial.clopper_pearson(1, 10, alpha=0), r"alpha: .* in \(0, 1\), got 0"),
        (lambda: adversarial.clopper_pearson(1, 10, alpha=2), r"alpha: .* in \(0, 1\), got 2"),
        (lambda: adversarial.clopper_pearson(11, 10), "successes: expected whole numbers from 0 to 10"),
        (lambda: adversarial.clopper_pearson(True, 5), "successes: expected whole numbers from 0 to 5"),
        (lambda: adversarial.clopper_pearson([True, False], 5), "successes: expected whole numbers"),
        (lambda: adversarial.masked_gradient_report(net, **GOOD, bounds=None), "bounds: expected"),
        (lambda: adversarial.masked_gradient_report(net, **GOOD, restarts=1), "restarts: expected"),
        (lambda: adversarial.masked_gradient_report(net, **GOOD), "inputs: expected at least 20"),
        (
            lambda: adversarial.masked_gradient_report(net, **(GOOD | {"epsilon": 1.1})),
            r"epsilon: expected a number in \(0, 1.0\]",
        ),
        (lambda: adversarial.virtual_adversarial_loss(net, 5.0, 0.1), "inputs: expected real numbers"),
        (lambda: adversarial.virtual_adversarial_loss(net, None, 0.1), "inputs: expected numbers"),
        (lambda: adversarial.adversarial_loss([net], **GOOD), "model: expected a torch.nn.Module"),
        (lambda: adversarial.sweep(None, None, GOOD["inputs"], GOOD["labels"], [0]), "expected functions"),
        (
            lambda: adversarial.sweep(
                functools.partial(adversarial.fgsm, net),
                lambda x: np.eye(3),
                GOOD["inputs"],
                GOOD["labels"],
                [0],
            ),
            "predict: expected 4 predictions",
        ),
        (
            lambda: adversarial.sweep(
                functools.partial(adversarial.fgsm, net),
                functools.partial(training.predict, net),
                GOOD["inputs"],
                np.full(4, 10),
                [0],
            ),
            "labels: expected labels from 0 to 9",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


# --- measured ---------------------------------------------------------------------------------------------


def test_the_benchmark_runs_without_foolbox_and_says_so(monkeypatch):
    from benchmarks import bench, bench_adversarial

    noise = images(40, (1, 28, 28))
    monkeypatch.setattr(bench_adversarial, "test_images", lambda count: (noise, "images of noise"))
    monkeypatch.setattr(bench_adversarial, "installed", lambda module: False)
    rows = bench_adversarial.rows(inputs=40, repeats=1)
    assert [row["ratio"] is None for row in rows] == [True, True, False]
    assert "baseline not installed" in rows[0]["note"]
    assert all(len(bench.line(row)) == len(bench.HEAD) for row in rows)


def test_the_stored_attacks_are_foolboxs_and_no_slower():
    import json

    from benchmarks import provenance

    fast, many, masked = json.loads((provenance.RESULTS / "bench_adversarial.json").read_text())["rows"]
    for row in (fast, many):
        assert row["apart"] < 1e-6
        assert row["ratio"] < 1
    assert masked["ratio"] < 1  # a step through twenty masks, beside six plain passes


@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: [net, net], lambda net: lambda x: net(x)])
def test_a_softmax_at_the_end_is_refused(wrap):
    net = wrap(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4), torch.nn.Softmax(1)))
    x, labels = np.random.default_rng(0).uniform(size=(20, 1, 8, 8)).astype(np.float32), np.zeros(20, int)
    uses = [
        lambda: adversarial.fgsm(net, x, labels, 0.1),
        lambda: adversarial.pgd(net, x, labels, 0.1, steps=2),
        lambda: adversarial.random_search(net, x, labels, 0.1, queries=2),
        lambda: adversarial.masked_gradient_report(net, x, labels, 0.1),
        lambda: adversarial.Smoothed(net, 0.1).predict(x),
    ]
    if isinstance(net, torch.nn.Module):
        uses += [
            lambda: adversarial.adversarial_loss(net, x, labels, 0.1),
            lambda: adversarial.virtual_adversarial_loss(net, x, 0.1),
        ]
    for use in uses:
        with pytest.raises(ValueError, match=r"model: expected logits, .* leave the softmax out"):
            use()


def test_one_row_of_logits_that_sums_to_one_is_no_softmax():
    x = np.array([[0.25, 0.75], [0.5, 0.25], [1.0, 0.75]], np.float32)
    assert adversarial.fgsm(lambda x: x * 1.0, x, [0, 0, 1], 0.1).shape == x.shape


def test_one_logit_has_no_divergence():
    with pytest.raises(ValueError, match=r"model: expected logits of shape .* at least 2 classes"):
        adversarial.virtual_adversarial_loss(torch.nn.Linear(3, 1), np.ones((4, 3), np.float32), 0.1)


def test_a_budget_below_single_precision_moves_nothing():
    x = np.random.default_rng(0).uniform(size=(5, 3)).astype(np.float32)
    moved = adversarial.pgd(torch.nn.Linear(3, 2), x, [0, 1, 0, 1, 0], 1e-50, norm=2, steps=2)
    assert np.array_equal(moved, x)


@pytest.mark.parametrize("labels", [[0.5, 1, 0], [-1, 0, 0], ["a", "b", "c"], [0, 1]])
def test_a_certificate_is_judged_by_classes(labels):
    certificate = adversarial.Certificate(np.array([0, -1, 1]), np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match=r"^labels: expected"):
        certificate.certified_accuracy(labels, 0.1)


# --- what once went wrong in silence ----------------------------------------------------------------------


class Tokens(nn.Module):
    """Several tokens an input; dropout meets them folded into the inputs, or before the inputs."""

    def __init__(self, order):
        super().__init__()
        self.embed, self.dropout, self.out = nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 3)
        self.order = order

    def forward(self, x):  # (N, T, 4)
        if self.order == "folded":
            h = self.dropout(self.embed(x.flatten(0, 1)))
            return self.out(h).unflatten(0, (len(x), x.shape[1])).mean(1)
        h = self.out(self.dropout(self.embed(x.transpose(0, 1))))
        return h[-1] if self.order == "last" else h.mean(0)


@pytest.mark.parametrize("order", ["folded", "last", "mean"])
@pytest.mark.parametrize("tokens", [5, 7])  # as many as there are inputs, or more
def test_every_pass_has_masks_of_its_own_where_dropout_meets_tokens(order, tokens):
    with training.seeded(0):
        net, tensor = Tokens(order), torch.randn(5, tokens, 4)
    victim = victims.as_victim(net, passes=400)
    with victim.settled(), torch.no_grad():
        found = victim.logits(tensor, (0, 0)).double().numpy()
    sampled = mc_dropout.sample_outputs(net, tensor, passes=400)
    assert found.std(axis=0) == pytest.approx(sampled.std(axis=0), rel=0.25)
    spread = np.sqrt((found.var(axis=0) + sampled.var(axis=0)) / 400)
    assert (np.abs(found.mean(axis=0) - sampled.mean(axis=0)) < 5 * spread).all()


class Halves(nn.Module):
    """A layer drops, and so does a call of the function."""

    def __init__(self):
        super().__init__()
        self.embed, self.dropout, self.out = nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.dropout(nn.functional.dropout(self.embed(x), 0.5, self.training)))


def test_dropout_as_a_function_is_refused_and_not_attacked_by_half():
    inputs = np.zeros((4, 4), np.float32)
    with pytest.raises(ValueError, match="model: expected dropout in layers only"):
        adversarial.fgsm(Halves(), inputs, [0, 1, 2, 0], 0.1, passes=3)
    assert adversarial.fgsm(Halves(), inputs, [0, 1, 2, 0], 0.1).shape == (4, 4)


def test_one_seed_smooths_alike_whatever_the_batch_size():
    with training.seeded(0):
        smoothed = adversarial.Smoothed(nn.Sequential(nn.Flatten(), nn.Linear(9, 3)), 1.0)
    inputs = np.random.default_rng(0).random((3, 3, 3))
    expected = smoothed.counts(inputs, 1100)
    for batch_size in (7, 100, 999, 5000):
        assert np.array_equal(smoothed.counts(inputs, 1100, batch_size=batch_size), expected)
    assert not np.array_equal(smoothed.counts(inputs, 1100, seed=1), expected)


def test_the_labels_of_a_sweep_are_its_own():
    labels = np.arange(3)
    found = adversarial.sweep(lambda x, y, e: x, lambda x: np.eye(3), np.zeros((3, 2)), labels, [0.0, 0.1])
    labels[:] = 0
    assert found.accuracy.tolist() == [1, 1]


@pytest.mark.parametrize("attack", [adversarial.fgsm, adversarial.pgd, adversarial.random_search])
def test_a_budget_beyond_single_precision_is_refused(attack):
    x = np.random.default_rng(0).uniform(size=(5, 3)).astype(np.float32)
    with pytest.raises(ValueError, match=r"^epsilon: expected a number in"):
        attack(torch.nn.Linear(3, 2), x, [0, 1, 0, 1, 0], 1e39)
