import numpy as np
import pytest

from uqhelpers import adversarial, confidnet, language_models, laplace, models, odin, training
from uqhelpers import variational_inference as vi
from uqhelpers._torch import torch
from uqhelpers.language_models import TinyTransformer
from uqhelpers.models import MLP

nn = torch.nn


def blobs(seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=200)
    return (rng.normal(size=(200, 2)) + 4 * labels[:, None]).astype(np.float32), labels


def trained(seed, **options):
    inputs, labels = blobs()
    with training.seeded(seed):
        net = MLP(2, 2, dropout=0.2)
    history = training.fit(net, inputs, labels, epochs=20, seed=seed, device="cpu", **options)
    return net, history


def test_a_separable_problem_is_learned():
    inputs, labels = blobs()
    net, history = trained(0, learning_rate=1e-2)
    assert (training.predict(net, inputs).argmax(-1) == labels).mean() > 0.97
    assert history.loss[-1] < 0.3 * history.loss[0]
    assert len(history.loss) == 20


def test_one_seed_repeats_and_two_seeds_differ():
    inputs, _ = blobs()
    first, again, other = (training.predict(trained(seed)[0], inputs) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def test_the_global_generators_are_left_alone():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 - it is the global generator that is watched
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    trained(0)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


def test_training_ends_in_evaluation_mode():
    net, _ = trained(0)
    assert not any(module.training for module in net.modules())


def test_predicting_leaves_every_module_in_its_own_mode():
    net, _ = trained(0)
    net.train()
    net[2].eval()
    before = [module.training for module in net.modules()]
    training.predict(net, blobs()[0])
    assert [module.training for module in net.modules()] == before


def test_the_batch_size_of_a_prediction_does_not_matter():
    net, _ = trained(0)
    inputs, _ = blobs()
    assert np.allclose(training.predict(net, inputs, 7), training.predict(net, inputs, 200), atol=1e-7)


def test_a_column_of_targets_is_not_broadcast_against_a_row_of_outputs():
    """The classic: (N, 1) minus (N,) is (N, N), and the network learns the mean."""
    x = np.linspace(-1, 1, 100, dtype=np.float32)[:, None]
    with training.seeded(0):
        net = MLP(1, 1)
    history = training.fit(net, x, 3 * x[:, 0], epochs=100, learning_rate=1e-2, loss="mse", device="cpu")
    assert history.loss[-1] < 1e-2


def test_probabilities_are_the_softmax_of_the_outputs():
    net, _ = trained(0)
    inputs, _ = blobs()
    logits = training.predict_outputs(net, inputs)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert np.allclose(training.predict(net, inputs), expected, atol=1e-12)


def test_the_best_device_trains():
    inputs, labels = blobs()
    net = MLP(2, 2)
    training.fit(net, inputs, labels, epochs=1)
    assert next(net.parameters()).device.type == training.best_device().type


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_a_loss_that_is_handed_in_gets_whole_numbers_as_they_are(kind):
    inputs, labels = blobs()
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    history = training.fit(MLP(2, 2), inputs, labels.astype(kind), epochs=2, loss=loss)
    assert np.isfinite(history.loss).all()


def test_a_loss_that_is_handed_in_gets_other_numbers_in_the_precision_of_the_network():
    seen = []
    loss = lambda outputs, targets: seen.append(targets.dtype) or (outputs - targets).square().mean()  # noqa: E731
    for targets in (np.ones((4, 1)), np.ones((4, 1), np.float32), np.ones((4, 1), bool)):
        training.fit(MLP(2, 1), np.ones((4, 2)), targets, loss=loss, **GOOD)
    assert seen == [torch.float32] * 3


def test_true_and_false_are_the_labels_of_two_classes():
    inputs, labels = blobs()
    as_numbers = training.fit(seeded_net(), inputs, labels, **GOOD)
    assert training.fit(seeded_net(), inputs, labels == 1, **GOOD).loss == as_numbers.loss


def seeded_net():
    with training.seeded(0):
        return MLP(2, 2)


# --- a training that fails --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["diverges", "loss raises"])
def test_a_training_that_fails_leaves_the_network_as_it_was(fault):
    inputs, labels = blobs()
    net = seeded_net().train()
    net[2].eval()
    before, modes = {k: v.clone() for k, v in net.state_dict().items()}, [m.training for m in net.modules()]
    calls = []

    def raising(outputs, targets):
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("no more")
        return outputs.square().mean()

    options = {"loss": raising} if fault == "loss raises" else {"learning_rate": 1e30}
    with pytest.raises(RuntimeError if fault == "loss raises" else ValueError, match=r"no more|diverged"):
        training.fit(net, inputs, labels, **{**GOOD, "epochs": 20, "batch_size": 50, **options})
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert [m.training for m in net.modules()] == modes


def test_a_history_fits_on_a_line():
    _, history = trained(0)
    assert repr(history).startswith("History(20 epochs in ")
    assert "\n" not in repr(history)


GOOD = {"epochs": 1, "progress": False, "device": "cpu"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"inputs": np.empty((0, 2))}, "inputs"),
        ({"inputs": np.full((200, 2), np.nan)}, "inputs"),
        ({"inputs": [["a", "b"]] * 200}, "inputs"),
        ({"targets": np.zeros(3, int)}, "targets"),
        ({"targets": np.full(200, 2)}, "targets"),
        ({"targets": np.full(200, -1)}, "targets"),
        ({"targets": np.full(200, 0.5)}, "targets"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": 2.5}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": 1e30}, "learning_rate"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"optimiser": "adm"}, "optimiser"),
        ({"loss": "hinge"}, "loss"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_named(change, named):
    inputs, labels = blobs()
    arguments = {"inputs": inputs, "targets": labels, **GOOD, **change}
    if "learning_rate" in change:
        arguments["epochs"] = 20
    with pytest.raises(ValueError, match=f"^{named}: "):
        training.fit(MLP(2, 2), **arguments)


def test_bad_targets_of_a_regression_are_named():
    with pytest.raises(ValueError, match="targets: expected finite"):
        training.fit(MLP(2, 1), np.ones((3, 2)), [1.0, np.inf, 2.0], loss="mse", **GOOD)


# --- networks that are not what they are taken for --------------------------------------------------------


@pytest.mark.parametrize("net", [nn.ReLU(), "net", nn.Flatten()], ids=["ReLU", "text", "Flatten"])
@pytest.mark.parametrize(
    "use",
    [
        training.predict,
        training.predict_outputs,
        training.features,
        lambda net, inputs: training.fit(net, inputs, np.zeros(3, int), epochs=1),
        lambda net, inputs: training.as_inputs(inputs, net),
    ],
)
def test_a_model_without_weights_is_named(use, net):
    with pytest.raises(ValueError, match=r"^model: expected a (network with weights|torch.nn.Module), got"):
        use(net, np.ones((3, 2)))


def test_a_network_that_is_frozen_has_nothing_to_train():
    with pytest.raises(ValueError, match=r"^model: expected weights that can be trained"):
        training.fit(MLP(2, 2).requires_grad_(False), *blobs(), **GOOD)


@pytest.mark.parametrize("flat", [False, True])
def test_one_logit_is_the_odds_of_two_classes(flat):
    inputs = blobs()[0]
    one = seeded_net()
    one[-1] = nn.Linear(64, 1)
    two = seeded_net()
    two[:-1].load_state_dict(one[:-1].state_dict())
    with torch.no_grad():
        two[-1].weight.zero_()[1] = one[-1].weight[0]
        two[-1].bias.zero_()[1] = one[-1].bias[0]
    one = nn.Sequential(one, nn.Flatten(0)) if flat else one
    np.testing.assert_allclose(training.predict(one, inputs), training.predict(two, inputs), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_a_softmax_is_not_taken_twice(classes):
    inputs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    for net in (MLP(4, classes), MLP(4, classes).double(), MLP(4, classes).half()):
        with pytest.raises(ValueError, match=r"^model: expected logits, got rows that are probabilities"):
            training.predict(nn.Sequential(net, nn.Softmax(-1)), inputs)
        training.predict(nn.Sequential(net, nn.LogSoftmax(-1)), inputs)


class TimeFirst(nn.Module):
    """What a recurrent layer puts out by default: steps first, inputs second."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, inputs):
        return self.layer(inputs).swapaxes(0, 1)


def test_steps_are_not_taken_for_inputs():
    with pytest.raises(
        ValueError, match=r"^model: expected outputs of shape \(2, outputs\), got \(5, 2, 2\)"
    ):
        training.predict_outputs(TimeFirst(), np.zeros((2, 5, 4)))


class Twice(nn.Module):
    """A network whose last layer also ran earlier."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs):
        return self.layer(torch.relu(self.layer(inputs)))


def test_a_last_layer_that_runs_twice_is_refused():
    for use in (training.features, lambda net, x: training.last_linear(net, training.as_inputs(x, net))):
        with pytest.raises(ValueError, match=r"^model: .*runs once, got 'layer', which runs 2 times"):
            use(Twice(), np.zeros((3, 4)))


# --- features ---------------------------------------------------------------------------------------------


def networks():
    yield models.MLP(64, 10, (32, 16), dropout=0.5), "-1"
    yield models.SimpleNet((1, 8, 8)), "output"
    yield models.LeNet((1, 8, 8)), "head.6"


@pytest.mark.parametrize(("net", "last"), list(networks()), ids=["MLP", "SimpleNet", "LeNet"])
def test_the_last_layer_makes_the_logits_of_what_is_embedded(net, last):
    images = np.random.default_rng(0).random((7, 1, 8, 8)).astype(np.float32)
    layer = list(net.modules())[-1] if last == "-1" else net.get_submodule(last)
    features = training.features(net, images, batch_size=3)
    assert features.dtype == np.float64
    with torch.no_grad():
        logits = layer(torch.tensor(features, dtype=torch.float32))
    np.testing.assert_allclose(logits, training.predict_outputs(net, images), atol=1e-5)


def test_a_network_is_left_as_it_came():
    net = models.MLP(4, 2, (8,), dropout=0.5).train()
    first, second = (training.features(net, np.full((5, 4), 0.3)) for _ in range(2))
    assert np.array_equal(first, second)  # dropout was off
    assert net.training
    assert not any(layer._forward_pre_hooks or layer._forward_hooks for layer in net.modules())


def test_a_network_that_fails_is_left_as_it_came_too():
    net = models.MLP(4, 2, (8,))
    with pytest.raises(RuntimeError):
        training.features(net, np.ones((5, 3)))
    assert not any(layer._forward_pre_hooks or layer._forward_hooks for layer in net.modules())


class Tokens(torch.nn.Module):
    """A network whose last linear layer sees a row of vectors an input."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return self.layer(inputs.unsqueeze(1).expand(-1, 3, -1)).mean(dim=1)


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (Tokens(), (2, 4)),
        (torch.nn.Linear(4, 2), (2, 1, 4)),
        (torch.nn.Conv2d(1, 1, 1), (2, 1, 4, 4)),
        (torch.nn.Sequential(models.MLP(4, 3), torch.nn.Softmax(dim=-1)), (2, 4)),
        (torch.nn.Sequential(models.MLP(4, 3), torch.nn.ReLU()), (2, 4)),
    ],
    ids=["rows", "rows put out", "no linear layer", "softmax behind it", "ReLU behind it"],
)
def test_a_network_that_does_not_end_in_a_linear_layer_is_refused(net, shape):
    with pytest.raises(
        ValueError, match=r"model: expected a network whose output, .* is that of a torch\.nn\.Linear"
    ):
        training.features(net, np.zeros(shape))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("net", np.zeros((2, 4))), "model: expected a torch.nn.Module"),
        ((torch.nn.ReLU(), np.zeros((2, 4))), "model: expected .* which has no weights"),
        ((models.MLP(4, 2), np.zeros((0, 4))), "inputs: expected"),
        ((models.MLP(4, 2), np.full((2, 4), np.nan)), "inputs: expected"),
        ((models.MLP(4, 2), np.zeros((2, 4)), 0), "batch_size: expected"),
    ],
)
def test_features_of_nonsense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        training.features(*arguments)


def test_features_and_outputs_come_from_one_pass():
    net, inputs = models.MLP(4, 3, (8,)), np.linspace(-1, 1, 20).reshape(5, 4)
    seen, outputs = training.features_and_outputs(net, inputs, batch_size=2)
    assert np.array_equal(seen, training.features(net, inputs, batch_size=2))
    assert np.array_equal(outputs, training.predict_outputs(net, inputs, batch_size=2))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_network_that_ends_in_a_softmax_is_not_trained_by_the_cross_entropy(precision):
    net = torch.nn.Sequential(MLP(2, 3), torch.nn.Softmax(1)).to(precision)
    inputs, labels = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(inputs), torch.tensor(labels)), batch_size=10
    )
    for given in ((inputs, labels), (loader,)):
        with pytest.raises(ValueError, match=r"model: expected logits, .* leave the softmax out"):
            training.fit(net, *given, epochs=1)


def test_one_row_of_logits_may_sum_to_one():
    net = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        net.weight[:] = torch.eye(2)
    training.fit(net, [[0.25, 0.75], [1.0, 2.0]], [0, 1], epochs=1)


# --- a first layer that works in place --------------------------------------------------------------


class Doubling(nn.Module):
    """Writes into what it is given."""

    def forward(self, x):
        return x.mul_(2)


def doubling_net(classes=2):
    with training.seeded(0):
        return nn.Sequential(Doubling(), nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, classes)).eval()


def batches_of(inputs, labels):
    return [(inputs[i : i + 50], labels[i : i + 50]) for i in range(0, 200, 50)]


IN_PLACE = {
    "fit": lambda net, x, y: training.fit(net, x, y, epochs=1, device="cpu", progress=False),
    "fit from batches": lambda net, x, y: training.fit(net, batches_of(x, y), epochs=2, device="cpu"),
    "predict": lambda net, x, y: training.predict(net, x, batch_size=7),
    "predict from batches": lambda net, x, y: training.predict(net, batches_of(x, y)),
    "predict_outputs": lambda net, x, y: training.predict_outputs(net, x),
    "features": lambda net, x, y: training.features(net, x),
    "last_linear": lambda net, x, y: training.last_linear(net, torch.from_numpy(x)),
    "confidnet": lambda net, x, y: (
        confidnet.ConfidNet(net, hidden=(4,))
        .fit(x, y, epochs=1, fine_tune_epochs=1, progress=False)
        .confidence(x)
    ),
    "laplace": lambda net, x, y: laplace.LastLayerLaplace(net).fit(x, y).predict(x),
    "odin": lambda net, x, y: odin.odin_score(net, x, epsilon=0.1),
    "odin tuned": lambda net, x, y: odin.tune(net, x[:50], x[50:], [1.0], [0.0, 0.1]),
    "fgsm": lambda net, x, y: adversarial.fgsm(net, x, y, 0.1, bounds=None),
    "pgd": lambda net, x, y: adversarial.pgd([net, net], x, y, 0.1, steps=2, bounds=None),
    "a search": lambda net, x, y: adversarial.random_search(net, x, y, 0.1, queries=3, bounds=None),
    "virtual": lambda net, x, y: adversarial.virtual_adversarial_loss(net, x, 0.1),
}


@pytest.mark.parametrize("use", IN_PLACE.values(), ids=IN_PLACE.keys())
@pytest.mark.filterwarnings("ignore:the classifier misreads")
def test_no_array_of_the_callers_is_written_into(use):
    x, y = blobs()
    kept = x.copy()
    use(doubling_net(), x, y)
    assert np.array_equal(x, kept)


def test_an_attack_on_a_network_that_works_in_place_is_that_on_one_that_does_not():
    x, y = blobs()
    net = doubling_net()
    plain = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    plain.load_state_dict({f"{int(k[0]) - 1}{k[1:]}": v for k, v in net.state_dict().items()})
    moved = [
        adversarial.fgsm(one, x, y, 0.1, bounds=None)
        for one in (net, lambda part: plain(2 * part), [net, net])
    ]
    assert np.allclose(moved[0], moved[1])
    assert np.allclose(moved[0], moved[2])
    scores = [training.predict(net, x), training.predict(plain, 2 * x)]
    assert np.allclose(*scores)


# --- what diverges in the last step, which no loss sees -----------------------------------------------


@pytest.mark.parametrize("how", ["plain", "variational", "language", "confidnet"])
@pytest.mark.filterwarnings("ignore:the classifier misreads", "ignore:Detected call of")
def test_a_last_step_that_ruins_the_weights_is_refused_and_taken_back(how, monkeypatch):
    x, y = blobs()
    with training.seeded(0):
        net = nn.Sequential(nn.Linear(2, 2)) if how != "language" else TinyTransformer(5, 4, 8, heads=2)
        net = vi.make_variational(net) if how == "variational" else net
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for kind in (torch.optim.Adam, torch.optim.AdamW):

        def ruin(self, closure=None):
            for group in self.param_groups:
                group["params"][0].data.fill_(float("inf"))

        monkeypatch.setattr(kind, "step", ruin)
    fits = {
        "plain": lambda: training.fit(net, x, y, epochs=1, batch_size=200, device="cpu", progress=False),
        "variational": lambda: vi.fit_variational(net, x, y, epochs=1, batch_size=200, device="cpu"),
        "language": lambda: language_models.fit(net, [[2, 3]], [[4, 1]], 1, epochs=1, progress=False),
        "confidnet": lambda: confidnet.ConfidNet(net, hidden=(4,)).fit(x, y, epochs=1, batch_size=200),
    }
    with pytest.raises(ValueError, match="learning_rate: training diverged to weights"):
        fits[how]()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("use", [training.predict, training.predict_outputs, training.features])
def test_a_network_that_has_diverged_is_named_and_predicts_no_nan(use):
    x, _ = blobs()
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        net[0].weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="model: expected numbers, got NaN"):
        use(net, x)


def test_classes_that_are_ruled_out_by_minus_infinity_have_probability_nought():
    class Masked(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.tensor([0.0, 0.0, -torch.inf])

    x, _ = blobs()
    with training.seeded(0):
        net = Masked(2, 3)
    assert training.predict(net, x)[:, 2].max() == 0
    with torch.no_grad():
        net.bias.fill_(float("inf"))
    with pytest.raises(ValueError, match="model: expected "):
        training.predict(net, x)


def test_the_generator_of_an_apple_gpu_is_put_back_too(monkeypatch):
    state = {"now": "as it was"}
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: state["now"])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda value: state.update(now=value))
    with training.seeded(0):
        state["now"] = "moved"
    assert state["now"] == "as it was"
