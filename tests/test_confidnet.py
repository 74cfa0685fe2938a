"""ConfidNet, trust score and the table of failures: against hand computations and brute force."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uqhelpers import metrics, models, training
from uqhelpers._torch import torch
from uqhelpers.confidnet import (
    FEW_ERRORS,
    ConfidNet,
    TrustScore,
    confidence_loss,
    failure_table,
    true_class_probability,
)

nn = torch.nn
SHAPE = (1, 8, 8)


def images(n=80, seed=0):
    return np.random.default_rng(seed).random((n, *SHAPE), dtype=np.float32), np.arange(n) % 4


def network(kind="mlp", seed=0):
    with training.seeded(seed):
        return {
            "mlp": lambda: models.MLP(64, 4, hidden=(20,), dropout=0.5),
            "lenet": lambda: models.LeNet(SHAPE, 4),
            "simple": lambda: models.SimpleNet(SHAPE, 4),
            "normalised": lambda: nn.Sequential(
                nn.Flatten(),
                nn.Linear(64, 12),
                nn.BatchNorm1d(12),
                nn.ReLU(),
                nn.Dropout(0.5),
                nn.Linear(12, 4),
            ),
        }[kind]()


KINDS = ("mlp", "lenet", "simple", "normalised")


def fitted(net, seed=0, epochs=3, **options):
    x, y = images()
    return ConfidNet(net, hidden=(16, 16)).fit(x, y, epochs=epochs, seed=seed, progress=False, **options)


# --- true class probability and loss ----------------------------------------------------------------------


def test_the_true_class_probability_is_that_of_the_label():
    probs = [[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]
    assert true_class_probability(probs, [0, 2, 1]).tolist() == [0.7, 0.1, 0.3]


@given(st.integers(0, 10**6), st.integers(2, 7))
@settings(max_examples=30)
def test_above_one_half_the_answer_is_right_and_below_one_in_k_it_is_wrong(seed, classes):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(classes, 0.7), size=200)
    labels = rng.integers(classes, size=200)
    truth, right = true_class_probability(probs, labels), probs.argmax(axis=1) == labels
    assert right[truth > 0.5].all()
    assert not right[truth < 1 / classes].any()
    assert np.array_equal(truth[right], probs.max(axis=1)[right])
    assert np.all(truth <= probs.max(axis=1))


def test_the_loss_is_the_mean_squared_distance_from_the_target():
    logits, targets = torch.tensor([[0.0], [1.0], [-2.0]]), torch.tensor([1.0, 0.5, 0.25])
    squares = (1 / (1 + np.exp([0.0, -1.0, 2.0])) - [1.0, 0.5, 0.25]) ** 2
    assert confidence_loss(logits, targets).item() == pytest.approx(squares.mean(), rel=1e-6)
    weights = torch.tensor([1.0, 3.0, 0.0])
    weighted = (squares * [1, 3, 0]).sum() / 3
    assert confidence_loss(logits, targets, weights).item() == pytest.approx(weighted, rel=1e-6)


def test_a_loss_of_unequal_sizes_is_refused():
    with pytest.raises(ValueError, match="targets: expected 3 values"):
        confidence_loss(torch.zeros(3, 1), torch.zeros(1))


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, 1.1])
def test_a_target_is_a_probability_and_a_weight_at_least_0(value):
    odd, fair = torch.tensor([0.5, value, 0.5]), torch.full((3,), 0.5)
    with pytest.raises(ValueError, match=r"^targets: expected numbers from 0 to 1"):
        confidence_loss(torch.zeros(3), odd)
    if not value >= 1:
        with pytest.raises(ValueError, match=r"^weights: expected numbers from 0"):
            confidence_loss(torch.zeros(3), fair, odd)


def test_the_loss_that_is_reported_is_that_of_the_definition():
    net, (x, y) = network(), images()
    probs = training.predict(net, x)
    right = probs.argmax(axis=1) == y
    whole = {"epochs": 1, "batch_size": len(x)}
    untrained = fitted(net, learning_rate=1e-30, **whole)  # a rate that moves nothing
    squares = (untrained.confidence(x) - true_class_probability(probs, y)) ** 2
    assert untrained.history.loss[0] == pytest.approx(squares.mean(), rel=1e-5)
    heavy = fitted(net, learning_rate=1e-30, error_weight=5.0, **whole)
    assert heavy.history.loss[0] == pytest.approx((np.where(right, 1, 5) * squares).mean(), rel=1e-5)
    assert heavy.history.errors == np.sum(~right)
    assert heavy.history.inputs == len(x)


# --- ConfidNet --------------------------------------------------------------------------------------------


def test_the_network_has_the_published_layers():
    confidnet = ConfidNet(network()).fit(*images(), epochs=1, progress=False)
    layers = dict(confidnet.network.named_children())
    linear = {name: layer for name, layer in layers.items() if isinstance(layer, nn.Linear)}
    assert list(linear) == [f"uncertainty{i}" for i in range(1, 6)]
    assert [layer.out_features for layer in linear.values()] == [400, 400, 400, 400, 1]
    assert sum(isinstance(layer, nn.ReLU) for layer in layers.values()) == 4
    assert isinstance(list(layers.values())[-1], nn.Linear)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fine_tune_epochs", [0, 2])
def test_the_classifier_does_not_move_by_a_bit(kind, fine_tune_epochs):
    net, (x, _) = network(kind), images()
    net.train()
    list(net.modules())[-1].eval()  # a mixture of modes
    next(net.parameters()).requires_grad_(False)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    answers = training.predict(net, x)
    confidnet = fitted(net, fine_tune_epochs=fine_tune_epochs, fine_tune_rate=1e-2)
    confidnet.confidence(x)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [module.training for module in net.modules()] == modes
    assert np.array_equal(training.predict(net, x), answers)
    assert all(parameter.grad is None for parameter in net.parameters())
    assert [parameter.requires_grad for parameter in net.parameters()][:2] == [False, True]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_off_and_batch_normalisation_fixed_in_both_stages(kind):
    net, modes = network(kind), []
    net.train()
    for layer in net.modules():
        if isinstance(layer, nn.Dropout | nn.BatchNorm1d):
            layer.register_forward_hook(lambda layer, *_: modes.append(layer.training))
    confidnet = fitted(net, fine_tune_epochs=2, fine_tune_rate=1e-2)
    assert modes  # the hooks were carried along, to the copy too
    assert not any(modes)
    moved = dict(confidnet.encoder.named_buffers())
    assert all(torch.equal(value, moved[name]) for name, value in net.named_buffers())


class Blackout(nn.Dropout):
    """Drops everything: what a thinned network says is then known."""

    def forward(self, values):
        return 0 * values if self.training else values


def test_with_dropout_on_the_answers_of_the_thinned_network_are_the_lesson():
    net, (x, y) = network(), images()
    net[4] = Blackout(0.5)
    whole = {"epochs": 1, "batch_size": len(x), "learning_rate": 1e-30}
    confidnet = fitted(net, dropout=True, error_weight=3.0, **whole)
    bias = net[5].bias.detach()
    with torch.no_grad():
        confidence = confidnet.network(torch.zeros(1, 20)).sigmoid().item()
    errors = y != bias.argmax().item()
    squares = (confidence - bias.softmax(-1).numpy()[y]) ** 2
    assert confidnet.history.loss[0] == pytest.approx(np.mean(np.where(errors, 3, 1) * squares), rel=1e-5)
    assert confidnet.history.errors == errors.sum()


def test_dropout_that_drops_nothing_changes_nothing():
    net, (x, _) = network(), images()
    net[4] = nn.Dropout(1e-12)
    on, off = (fitted(net, dropout=dropout, fine_tune_epochs=1) for dropout in (True, False))
    assert on.history.errors == off.history.errors
    assert np.allclose(on.confidence(x), off.confidence(x), atol=1e-6)


@pytest.mark.parametrize("kind", ["mlp", "normalised"])
def test_dropout_stays_on_in_the_first_stage_only(kind):
    net, modes = network(kind), []
    for layer in net.modules():
        if isinstance(layer, nn.Dropout):
            layer.register_forward_hook(lambda layer, *_: modes.append(layer.training))
        if isinstance(layer, nn.BatchNorm1d):
            layer.register_forward_hook(lambda layer, *_: modes.append(None if layer.training else ...))
    fitted(net, epochs=3, batch_size=40, fine_tune_epochs=2, dropout=True)
    drops = [mode for mode in modes if isinstance(mode, bool)]
    start = drops.index(True)
    passes = 1 + 3 * 2  # to count the errors; three epochs of two batches
    assert drops[start : start + passes] == [True] * passes
    assert not any(drops[start + passes :])
    assert len(drops) == start + passes + 2 * 2
    assert None not in modes
    state = torch.get_rng_state()
    one, again = (fitted(net, dropout=True).confidence(images()[0]) for _ in range(2))
    assert np.array_equal(one, again)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_second_stage_moves_a_copy_of_the_encoder_but_not_its_last_layer():
    net, (x, _) = network(), images()
    confidnet = fitted(net, fine_tune_epochs=2, fine_tune_rate=1e-2)
    state, moved = net.state_dict(), confidnet.encoder.state_dict()
    same = {name: torch.equal(value, moved[name]) for name, value in state.items()}
    assert not same["2.weight"]
    assert same["5.weight"]
    assert len(confidnet.history.fine_tune_loss) == 2
    assert not np.allclose(confidnet.confidence(x), fitted(net).confidence(x), atol=1e-4)
    assert fitted(net).encoder is None


def test_confidences_are_probabilities_and_scores_their_negative():
    confidnet, (x, _) = fitted(network()), images()
    confidence = confidnet.confidence(x, batch_size=7)
    assert confidence.dtype == np.float64
    assert confidence.shape == (len(x),)
    assert np.all((confidence > 0) & (confidence < 1))
    assert confidence == pytest.approx(confidnet.confidence(x), abs=1e-6)
    assert np.array_equal(confidnet.score(x), -confidnet.confidence(x))


def test_confidences_near_one_keep_their_order():
    confidnet, (x, _) = fitted(network()), images()
    confidnet.network[-1].bias.fill_(25.0)  # where a float32 sigmoid is 1 for all
    confidence = confidnet.confidence(x)
    assert confidence.min() > 1 - 1e-7
    assert len(np.unique(confidence)) > len(x) / 2


@pytest.mark.parametrize("fine_tune_epochs", [0, 2])
def test_one_seed_repeats_and_two_seeds_differ(fine_tune_epochs):
    net, (x, _) = network(), images()
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    one, again, other = (
        fitted(net, seed, fine_tune_epochs=fine_tune_epochs).confidence(x) for seed in (0, 0, 1)
    )
    assert np.array_equal(one, again)
    assert not np.allclose(one, other, atol=1e-6)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def test_a_confidence_can_be_learned_where_there_is_one():
    # Inputs that the classifier reads wrongly exactly where the first feature is large.
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 5)).astype(np.float32)
    net = nn.Sequential(nn.Identity(), nn.Linear(5, 2))
    with torch.no_grad():
        net[1].weight.zero_()
        net[1].weight[1, 1] = 4.0
    labels = (x[:, 1] > 0) ^ (x[:, 0] > 1)
    known, new = slice(0, 400), slice(400, 600)
    confidnet = ConfidNet(net, hidden=(64, 64))
    confidnet.fit(x[known], labels[known].astype(int), epochs=60, progress=False)
    wrong = training.predict(net, x[new]).argmax(axis=1) != labels[new]
    auroc = metrics.auroc(confidnet.score(x[new]), wrong)
    assert auroc > 0.8  # what the probabilities themselves say is near .5: they do not know the first feature
    assert metrics.auroc(metrics.msp_score(training.predict(net, x[new])), wrong) < 0.7


def test_a_classifier_with_next_to_no_errors_is_told_with_figures():
    net, (x, _) = network(), images()
    answers = training.predict(net, x).argmax(axis=1)
    with pytest.warns(
        RuntimeWarning, match=r"misreads 0 of these 80 inputs \(mean true class probability 0\.\d+"
    ):
        confidnet = ConfidNet(net, hidden=(4,)).fit(x, answers, epochs=1, progress=False)
    assert confidnet.history.errors == 0
    enough = np.where(np.arange(len(x)) < FEW_ERRORS, (answers + 1) % 4, answers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConfidNet(net, hidden=(4,)).fit(x, enough, epochs=1, progress=False)


BAD = {
    "hidden": lambda: ConfidNet(network(), hidden=(4, 0)),
    "hidden: expected a sequence": lambda: ConfidNet(network(), hidden=4),
    "model: expected a torch": lambda: ConfidNet(lambda x: x),
    "which has no weights": lambda: ConfidNet(nn.ReLU()),
    "leave the softmax out": lambda: fitted(nn.Sequential(network(), nn.Softmax(-1))),
    "epochs": lambda: fitted(network(), epochs=0),
    "fine_tune_epochs": lambda: fitted(network(), fine_tune_epochs=-1),
    "learning_rate": lambda: fitted(network(), learning_rate=0.0),
    "fine_tune_rate": lambda: fitted(network(), fine_tune_rate=np.nan),
    "batch_size": lambda: fitted(network(), batch_size=0),
    "error_weight": lambda: fitted(network(), error_weight=-1.0),
    "dropout: expected one of False, True": lambda: fitted(network(), dropout=0.5),
    "model: expected at least one dropout layer": lambda: fitted(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), dropout=True
    ),
    "seed": lambda: fitted(network(), seed=-1),
    "labels: expected labels from 0 to 3": lambda: ConfidNet(network()).fit(images()[0], images()[1] + 1),
    "labels: expected 80 labels": lambda: ConfidNet(network()).fit(images()[0], images()[1][1:]),
    "inputs: expected finite": lambda: ConfidNet(network()).fit(images()[0] * np.nan, images()[1]),
    "inputs: expected at least one": lambda: ConfidNet(network()).fit(images()[0][:0], images()[1][:0]),
    "fit: expected to be called first": lambda: ConfidNet(network()).confidence(images()[0]),
    "inputs: expected finite numbers": lambda: fitted(network()).confidence(images()[0] * np.inf),
    "probs: expected rows that sum to 1": lambda: true_class_probability([[0.5, 0.2]], [0]),
    "labels: expected labels from 0 to 1": lambda: true_class_probability([[0.5, 0.5]], [2]),
    "labels: expected 1 labels": lambda: true_class_probability([[0.5, 0.5]], [0, 1]),
}


@pytest.mark.parametrize("message", BAD)
def test_what_makes_no_sense_is_refused_by_name(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_a_refused_fit_leaves_the_earlier_one_and_the_model_as_they_were():
    net, (x, y) = network("normalised"), images()
    net.train()
    confidnet = fitted(net)
    before = confidnet.confidence(x)
    with pytest.raises(ValueError, match="labels"):
        confidnet.fit(x, y + 1, epochs=1)
    assert np.array_equal(confidnet.confidence(x), before)
    assert all(module.training for module in net.modules())


# --- trust score ------------------------------------------------------------------------------------------


def by_brute_force(train, labels, points, predicted, k, alpha):
    def distance(a, b):
        return np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=-1))

    columns = []
    for c in np.unique(labels):
        members = train[labels == c]
        radius = np.sort(distance(members, members), axis=1)[:, min(k, len(members)) - 1]
        kept = members[radius <= np.quantile(radius, 1 - alpha)] if alpha else members
        columns.append(distance(points, kept).min(axis=1))
    columns, own = np.stack(columns, axis=1), np.searchsorted(np.unique(labels), predicted)
    rows = np.arange(len(points))
    nearest = columns[rows, own]
    columns[rows, own] = np.inf
    return columns.min(axis=1) / nearest


@pytest.mark.parametrize(("k", "alpha"), [(10, 0.0), (3, 0.2), (5, 0.5), (500, 0.1)])
@pytest.mark.parametrize("width", [2, 20])
def test_the_trust_score_is_that_of_the_definition(k, alpha, width):
    rng = np.random.default_rng(k)
    train, labels = rng.normal(size=(150, width)), rng.choice([0, 2, 5], size=150)
    points, predicted = rng.normal(size=(60, width)), rng.choice([0, 2, 5], size=60)
    trust = TrustScore(k, alpha).fit(train, labels)
    expected = by_brute_force(train, labels, points, predicted, k, alpha)
    assert trust.confidence(points, predicted) == pytest.approx(expected, rel=1e-9)
    assert np.array_equal(trust.score(points, predicted), -trust.confidence(points, predicted))


def test_a_ratio_of_distances_by_hand():
    trust = TrustScore().fit([[0.0], [1.0], [4.0]], [0, 0, 1])
    assert trust.confidence([[2.0], [2.0], [1.0], [4.0]], [0, 1, 0, 0]).tolist() == [2.0, 0.5, np.inf, 0.0]


def test_an_input_that_two_classes_share_has_a_trust_of_one():
    trust = TrustScore().fit([[0.0], [0.0], [4.0]], [0, 1, 1])
    assert trust.confidence([[0.0]], [1]).tolist() == [1.0]


def test_outliers_do_not_speak_for_their_class_once_they_are_left_out():
    cloud = np.random.default_rng(0).normal(size=(50, 2))
    train = np.concatenate([cloud, [[9.0, 9.0]], cloud + 10])  # one of class 0 among those of class 1
    labels = np.repeat([0, 1], [51, 50])
    point, said = np.array([[9.0, 9.1]]), [0]
    assert TrustScore().fit(train, labels).confidence(point, said) > 1
    assert TrustScore(k=5, alpha=0.05).fit(train, labels).confidence(point, said) < 0.5


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1.0, 1e9, 1e200])
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_a_common_factor_of_the_features_changes_no_trust(scale, alpha):
    rng = np.random.default_rng(0)
    known, labels = rng.normal(size=(60, 12)), np.arange(60) % 3
    asked, said = rng.normal(size=(20, 12)), np.arange(20) % 3
    plain = TrustScore(k=3, alpha=alpha).fit(known, labels).confidence(asked, said)
    scaled = TrustScore(k=3, alpha=alpha).fit(scale * known, labels).confidence(scale * asked, said)
    assert scaled == pytest.approx(plain, rel=1e-12)
    assert np.ptp(plain) > 0.1


def test_trust_does_not_depend_on_where_the_origin_is():
    rng = np.random.default_rng(0)
    known, labels = rng.integers(-(2**20), 2**20, size=(60, 12)) / 2**30, np.arange(60) % 3
    asked, said = rng.integers(-(2**20), 2**20, size=(20, 12)) / 2**30, np.arange(20) % 3
    plain = TrustScore(k=3, alpha=0.2).fit(known, labels).confidence(asked, said)
    moved = TrustScore(k=3, alpha=0.2).fit(known + 2**20, labels).confidence(asked + 2**20, said)
    assert moved == pytest.approx(plain, rel=1e-12)


def test_loaders_are_taken_where_arrays_are():
    net, (x, y) = network(), images()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=32
    )
    by_batches = ConfidNet(net, hidden=(8,)).fit(loader, epochs=3, progress=False)
    by_arrays = ConfidNet(net, hidden=(8,)).fit(x, y, epochs=3, progress=False)
    assert by_batches.confidence(loader) == pytest.approx(by_arrays.confidence(x), abs=1e-6)
    features = training.features(net, x)
    pairs = torch.utils.data.TensorDataset(torch.tensor(features), torch.tensor(y))
    trust = TrustScore().fit(torch.utils.data.DataLoader(pairs, batch_size=9))
    assert np.array_equal(
        trust.confidence(features + 1, y), TrustScore().fit(features, y).confidence(features + 1, y)
    )


def test_a_prediction_names_the_classifiers_answers_and_the_learned_confidence():
    net, (x, y) = network(), images()
    confidnet = ConfidNet(net, hidden=(8,)).fit(x, y, epochs=3, progress=False)
    said = confidnet.predict(x)
    assert np.array_equal(said.mean, training.predict(net, x))
    assert np.array_equal(said.confidence, confidnet.confidence(x))
    with pytest.raises(ValueError, match="fit: expected to be called first"):
        ConfidNet(net).predict(x)


BAD_TRUST = {
    "k": lambda: TrustScore(k=0),
    "alpha": lambda: TrustScore(alpha=-0.1),
    "alpha: expected a share": lambda: TrustScore(alpha=1),
    "labels: expected at least two": lambda: TrustScore().fit([[0.0], [1.0]], [3, 3]),
    "labels: expected 2 labels": lambda: TrustScore().fit([[0.0], [1.0]], [0]),
    "features: expected finite": lambda: TrustScore().fit([[np.nan], [1.0]], [0, 1]),
    "features: expected 2 dim": lambda: TrustScore().fit([0.0, 1.0], [0, 1]),
    "fit: expected to be called": lambda: TrustScore().confidence([[0.0]], [0]),
    "features: expected 1 columns": lambda: small_trust().confidence([[0.0, 1.0]], [0]),
    "predicted: expected classes": lambda: small_trust().confidence([[0.0]], [7]),
    "predicted: expected 1 labels": lambda: small_trust().confidence([[0.0]], [0, 1]),
}


def small_trust():
    return TrustScore().fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("message", BAD_TRUST)
def test_a_trust_without_a_meaning_is_refused_by_name(message):
    with pytest.raises(ValueError, match=message):
        BAD_TRUST[message]()


# --- the table --------------------------------------------------------------------------------------------


def test_the_table_says_what_scikit_learn_says():
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    rng = np.random.default_rng(0)
    wrong = rng.random(400) < 0.2
    surer = rng.normal(size=400) - wrong
    row = failure_table({"a": surer}, wrong)["a"]
    assert row.aupr_error == pytest.approx(average_precision_score(wrong, -surer))
    assert row.aupr_success == pytest.approx(average_precision_score(~wrong, surer))
    assert row.auroc == pytest.approx(roc_auc_score(~wrong, surer))
    assert (row.errors, row.inputs) == (wrong.sum(), 400)
    assert row.aupr_error.prevalence == pytest.approx(wrong.mean())
    assert row.fpr95.positive == "correct"
    false, true, _ = roc_curve(~wrong, surer, drop_intermediate=False)
    assert row.fpr95 == pytest.approx(false[np.argmax(true >= 0.95)])


def test_a_perfect_confidence_gets_the_best_of_every_figure():
    wrong = np.arange(50) < 10
    row = failure_table({"a": np.arange(50.0)}, wrong)["a"]
    assert (row.fpr95, row.eaurc) == (0, 0)
    assert (row.aupr_error, row.aupr_success, row.auroc) == (1, 1, 1)
    assert row.augrc == pytest.approx(0.2**2 / 2)
    assert row.as_dict()["errors"] == 10


def test_the_excess_is_what_a_perfect_ranking_of_the_same_answers_does_not_have():
    wrong = np.random.default_rng(1).random(60) < 0.3
    row = failure_table({"a": -np.arange(60.0)}, wrong)["a"]
    best = (np.cumsum(np.sort(wrong)) / np.arange(1, 61)).mean()
    assert row.aurc == pytest.approx((np.cumsum(wrong) / np.arange(1, 61)).mean())
    assert row.eaurc == pytest.approx(row.aurc - best)


def test_methods_may_err_by_themselves():
    table = failure_table({"a": [1.0, 2, 3], "b": [3.0, 2, 1]}, {"a": [1, 0, 0], "b": [0, 1, 1]})
    assert (table["a"].errors, table["b"].errors) == (1, 2)
    assert table["a"].auroc == table["b"].auroc == 1


def test_without_an_error_nothing_is_defined_but_the_risk():
    with pytest.warns(RuntimeWarning, match="undefined"):
        row = failure_table({"a": [1.0, 2.0]}, [False, False])["a"]
    assert all(np.isnan([row.fpr95, row.aupr_error, row.aupr_success, row.auroc]))
    assert (row.aurc, row.augrc) == (0, 0)


BAD_TABLE = {
    "confidences: expected arrays": lambda: failure_table([1.0, 2.0], [True, False]),
    "confidences: expected arrays by": lambda: failure_table({}, [True]),
    "confidences.*NaN": lambda: failure_table({"a": [np.nan, 1.0]}, [True, False]),
    "wrong: expected length 2": lambda: failure_table({"a": [0.0, 1.0]}, [True]),
    "wrong: expected flags for": lambda: failure_table({"a": [0.0]}, {"b": [True]}),
    "wrong: expected flags for .* got": lambda: failure_table({"a": [0.0], 1: [0.0]}, {"a": [True]}),
    "wrong: expected true/false": lambda: failure_table({"a": [0.0, 1.0]}, [0.5, 1.0]),
}


@pytest.mark.parametrize("message", BAD_TABLE)
def test_a_table_without_a_meaning_is_refused_by_name(message):
    with pytest.raises(ValueError, match=message):
        BAD_TABLE[message]()


JUNK = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.floats(allow_nan=True),
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=4),
    st.lists(st.lists(st.floats(-1, 2, width=32), max_size=3), max_size=3),
)


def complaint(call):
    try:
        call()
    except ValueError as error:
        return str(error)
    return None


@given(JUNK, JUNK)
@settings(max_examples=60)
def test_junk_raises_a_value_error_or_gives_an_answer(first, second):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in (
            lambda: true_class_probability(first, second),
            lambda: TrustScore().fit(first, second),
            lambda: small_trust().confidence(first, second),
            lambda: failure_table({"a": first}, second),
        ):
            if (said := complaint(call)) is not None:
                assert ": expected" in said
