"""The published tables beside ours: what they are computed with, and that stored figures and pages agree."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from benchmarks import (
    boxes_adversarial,
    provenance,
    reproduce_active_learning,
    reproduce_active_learning_models,
    reproduce_active_learning_pools,
    reproduce_adversarial,
    reproduce_case_study,
    reproduce_confidnet,
    reproduce_conformal,
    reproduce_ddu,
    reproduce_deep_ensembles,
    reproduce_first_seed,
    reproduce_first_seed_thresholds,
    reproduce_language_models,
    reproduce_language_models_again,
    reproduce_ood,
    reproduce_uci,
    reproduce_uci_rate,
    stored_loops,
)
from uqhelpers import confidnet, conformal, data, metrics, models, training


def stored(name):
    """The stored figures of a table, and its page."""
    path = provenance.RESULTS / f"reproduce_{name}.json"
    if not path.exists():
        pytest.skip(f"nothing is stored for {name}: `make reproduce` computes it")
    return json.loads(path.read_text()), path.with_suffix(".md").read_text()


# --- MNIST ----------------------------------------------------------------------------------------------


def test_a_temperature_changes_how_sure_the_mean_is_and_never_what_it_predicts():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(4), size=3000)
    labels = np.array([rng.choice(4, p=row) for row in truth])
    sure = truth**2 / (truth**2).sum(axis=1, keepdims=True)  # the truth at a temperature of one half
    temperature, calibrated = reproduce_first_seed.calibrate(sure, labels, sure)
    assert temperature == pytest.approx(2, rel=0.15)
    assert np.allclose(calibrated.sum(axis=1), 1)
    assert (calibrated.argmax(axis=1) == sure.argmax(axis=1)).all()
    assert metrics.negative_log_likelihood(calibrated, labels) < metrics.negative_log_likelihood(sure, labels)


def test_the_stored_page_of_mnist_is_that_of_the_stored_figures():
    content, page = stored("first_seed")
    assert page.startswith(reproduce_first_seed.page(content["runs"], content["seconds an epoch"]))


def test_all_fifteen_published_thresholds_are_stored_and_their_page_is_that_of_the_figures():
    content, page = stored("first_seed_thresholds")
    assert page.startswith(reproduce_first_seed_thresholds.page(content["runs"]))
    published = np.array(list(reproduce_first_seed_thresholds.PUBLISHED.values()))
    assert len(published) == 15
    ours = np.array([run["MC-Dropout"]["coverage"] for run in content["runs"]])
    assert np.abs(ours.mean(axis=0) - published[:, 0]).max() < 0.02


def test_what_keeps_nothing_has_no_accuracy():
    found = reproduce_first_seed_thresholds.kept_up_to(
        (0.1, 0.5, 1.0), np.array([0.2, 0.5, 0.9, 0.4]), np.array([False, True, True, False])
    )
    assert found == {"coverage": [0.0, 0.75, 1.0], "accuracy": [None, pytest.approx(2 / 3), 0.5]}


def test_the_calibrated_ensemble_is_as_accurate_and_as_calibrated_as_published():
    runs = stored("first_seed")[0]["runs"]
    assert np.mean([run["calibrated ensemble"]["accuracy"] for run in runs]) >= 0.990
    assert np.mean([run["calibrated ensemble"]["ece"] for run in runs]) <= 0.0076


# --- the practical's cube and spirals -------------------------------------------------------------------


def test_the_practicals_points_have_the_constants_that_its_members_are_measured_by():
    x, y = data.cubic()
    assert metrics.gaussian_nll(y.mean(), y.std(), y) == pytest.approx(4.58, abs=0.005)
    assert metrics.gaussian_nll(x**3, 3.0, y) == pytest.approx(2.39, abs=0.005)
    assert sum(nll > 4.58 for nll in reproduce_deep_ensembles.PUBLISHED["cubic"]) == 4


def test_the_way_from_the_constant_to_the_truth_and_who_loses():
    run = {
        "train": {"constant": 4.5, "truth": 2.5},
        "held-out": {"constant": 4.5, "truth": 2.5},
        "ours": {"members": [4.0, 4.5, 5.0], "held-out": 3.0},
    }
    assert reproduce_deep_ensembles.losing(run, "ours") == 1
    assert reproduce_deep_ensembles.way(run, "ours") == pytest.approx(0.75)


def test_the_true_probabilities_of_the_spirals_are_scored_without_training():
    found = reproduce_deep_ensembles.spirals_run(0, None)
    assert 0.9 < found["held-out"]["accuracy"] < 1
    assert found["held-out"]["nll"] == pytest.approx(found["train"]["nll"], abs=0.03)


def test_the_stored_page_of_the_practical_is_that_of_the_stored_figures():
    content, page = stored("deep_ensembles")
    seeds = content["seeds"][: len(content["cubic"])]
    assert page.startswith(reproduce_deep_ensembles.page(content["cubic"], content["spirals"], seeds))


def test_every_member_of_ours_beats_the_constant_and_the_mixture_is_nearer_to_the_truth():
    runs = stored("deep_ensembles")[0]["cubic"]
    assert sum(reproduce_deep_ensembles.losing(run, "practical") for run in runs) > 0
    for run in runs:
        assert reproduce_deep_ensembles.losing(run, "ours") == 0
        assert reproduce_deep_ensembles.way(run, "ours") > 0.5


def test_ours_is_ahead_of_the_spirals_published_figures_and_of_its_set_up_on_new_points():
    runs = stored("deep_ensembles")[0]["spirals"]

    def mean(name, part, key):
        return np.mean([run[part][key] for run in runs[name]])

    published = reproduce_deep_ensembles.PUBLISHED["spirals"]
    assert mean("ours", "train", "accuracy") > published["accuracy"]
    assert mean("ours", "train", "nll") < published["nll"]
    assert mean("ours", "held-out", "nll") < mean("practical", "held-out", "nll")
    assert mean("ours", "held-out", "accuracy") > mean("practical", "held-out", "accuracy")
    assert mean("truth", "held-out", "nll") < mean("ours", "held-out", "nll")


@pytest.mark.parametrize("name", ["practical", "practical, mended"])
def test_the_published_spirals_could_be_one_more_run_of_their_set_up(name):
    runs = stored("deep_ensembles")[0]["spirals"][name]
    for key, figure in reproduce_deep_ensembles.PUBLISHED["spirals"].items():
        away = reproduce_deep_ensembles.away([run["train"][key] for run in runs], figure)
        assert abs(away) < reproduce_deep_ensembles.bound_for_one_more(len(runs))


def test_one_more_of_normal_runs_is_that_near_nineteen_times_in_twenty():
    rng = np.random.default_rng(0)
    bound = reproduce_deep_ensembles.bound_for_one_more(5)
    inside = [
        abs(reproduce_deep_ensembles.away(rng.normal(size=5), rng.normal())) < bound for _ in range(4000)
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)  # four standard deviations of the share


def test_a_figure_is_so_many_standard_deviations_away():
    assert reproduce_deep_ensembles.away([1.0, 2.0, 3.0], 4.0) == pytest.approx(2)


# --- the tables of the UCI repository -------------------------------------------------------------------


def test_every_split_holds_every_row_once_and_nine_tenths_of_them_train():
    train, test = reproduce_uci.splits(308)
    assert train.shape == (20, 277)
    assert test.shape == (20, 31)
    assert (np.sort(np.concatenate([train, test], axis=1)) == np.arange(308)).all()
    assert len({tuple(rows) for rows in train}) == 20
    # The first row of the published recipe, by hand.
    assert (train[0] == np.random.RandomState(1).permutation(308)[:277]).all()


def test_each_split_is_standardised_by_its_own_training_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 2, size=(2, 50, 3))
    rows[..., 2] = 7.0  # a constant column
    values, mean, std = reproduce_uci.standardised(rows, rows[:, :40])
    assert np.allclose(values[:, :40, :2].mean(axis=1), 0)
    assert np.allclose(values[:, :40, :2].std(axis=1), 1)
    assert (values[..., 2] == 0).all()
    assert np.allclose(values * std + mean, rows)


def test_passes_with_noise_are_a_mixture_of_gaussians():
    rng = np.random.default_rng(0)
    samples, y = rng.normal(size=(7, 3, 5)), rng.normal(size=(3, 5))
    noise = np.array([0.5, 1.0, 2.0])
    logs = stats.norm(samples, noise[:, None]).logpdf(y)
    expected = -(logsumexp(logs, axis=0) - np.log(7)).mean(axis=-1)
    assert np.allclose(reproduce_uci.mixture_of_passes_nll(samples, noise, y), expected)


def test_one_gaussian_an_input_is_scored_as_everywhere_else():
    rng = np.random.default_rng(0)
    mean, variance, y = rng.normal(size=(2, 6)), rng.uniform(0.1, 2, size=(2, 6)), rng.normal(size=(2, 6))
    rmse, nll = reproduce_uci.gaussian_scores(mean, variance, y)
    for split in range(2):
        assert nll[split] == pytest.approx(
            metrics.gaussian_nll(mean[split], np.sqrt(variance[split]), y[split])
        )
        assert rmse[split] == pytest.approx(np.sqrt(np.mean((mean[split] - y[split]) ** 2)))


def test_scores_are_told_in_the_units_of_the_table():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.normal(100, 25, size=40)
    train, test = reproduce_uci.splits(40, count=2)
    split = reproduce_uci.Split(x, y, train, test)
    rmse, nll = reproduce_uci.gaussian_scores(np.zeros((2, 4)), np.ones((2, 4)), split.y_test)
    told = split.in_units(rmse, nll)
    for one in range(2):
        mean, std = y[train[one]].mean(), y[train[one]].std()
        assert told["rmse"][one] == pytest.approx(np.sqrt(np.mean((y[test[one]] - mean) ** 2)))
        assert told["nll"][one] == pytest.approx(metrics.gaussian_nll(mean, std, y[test[one]]))


def problem(rows=60):
    """Two splits of a line with noise, standardised."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, rows, 1))
    return x, 0.9 * x[..., 0] + 0.4 * rng.normal(size=(2, rows))


def trained(x, y, epochs=2 * reproduce_uci.CHUNK, **settings):
    """Parameters of three networks a split."""
    rates = np.full((len(x), 3), 0.02)
    training = reproduce_uci.Training(x, y, rates, likelihood="gaussian", batch=25, seed=0, **settings)
    return training.advance(epochs)


def test_many_networks_trained_at_once_learn_and_never_see_the_rows_of_another_split():
    x, y = problem()
    params = trained(x, y)
    assert not np.allclose(params["w"][0, 0], params["w"][0, 1])  # members are their own
    mean, variance = reproduce_uci.mixture(params, x)
    rmse, nll = reproduce_uci.gaussian_scores(mean, variance, y)
    assert (rmse < 0.6 * y.std(axis=1)).all()
    assert (nll < [metrics.gaussian_nll(0, row.std(), row) for row in y]).all()
    other = y.copy()
    other[1] *= -1
    again = trained(x, other)
    assert np.allclose(again["w"][0], params["w"][0], atol=1e-5)
    assert not np.allclose(again["w"][1], params["w"][1], atol=1e-2)


def test_a_smaller_rate_mends_what_the_published_one_does_not_and_a_bound_does_not_mend_everything():
    content, page = stored("uci_rate")
    assert page.startswith(reproduce_uci_rate.page(content["tables"]))
    mean = {
        name: {label: np.mean(row["rmse"]) for label, row in rows.items()}
        for name, rows in content["tables"].items()
    }
    plain = "their rate and epochs"
    for rows in mean.values():
        assert rows["rate 0.01"] < 0.9 * rows[plain]
    assert mean["energy"]["gradient bounded"] < 0.6 * mean["energy"][plain]
    assert mean["kin8nm"]["gradient bounded"] > 0.95 * mean["kin8nm"][plain]


def test_each_network_sees_every_row_once_an_epoch_in_its_own_order():
    order = reproduce_uci_rate.orders(rows=7, networks=2, epochs=3, batch=4, seed=0)
    assert order.shape == (6, 2, 4)
    first = order[:2, 0].ravel()
    assert sorted(first[:7]) == list(range(7))
    assert first[7] == first[0]  # the last batch is filled up
    assert not np.array_equal(order[:, 0], order[:, 1])


def test_training_goes_on_where_it_stopped_and_an_attack_changes_it():
    x, y = problem()
    attack = 0.2 * np.ptp(x, axis=1)[:, None, None]
    epochs = reproduce_uci.CHUNK  # what the test above has compiled already
    clean, attacked = trained(x, y, epochs), trained(x, y, epochs, attack=attack)
    assert not np.allclose(clean["w"], attacked["w"], atol=1e-3)
    assert all(np.isfinite(leaf).all() for leaf in attacked.values())
    rates = np.full((2, 3), 0.02)
    training = reproduce_uci.Training(x, y, rates, likelihood="gaussian", batch=25, seed=0)
    first = training.advance(epochs)["w"]
    assert np.array_equal(first, clean["w"])
    assert not np.allclose(training.advance(epochs)["w"], first, atol=1e-3)


def test_a_pass_drops_units_at_the_rate_of_its_own_network_and_keeps_the_mean():
    units, rates = reproduce_uci.HIDDEN, np.array([[0.0, 0.1, 0.5]])
    params = {
        "w": np.zeros((1, 3, 2, units), np.float32),
        "b": np.ones((1, 3, 1, units), np.float32),
        "v": np.full((1, 3, units, 1), 1 / units, np.float32),
        "c": np.zeros((1, 3, 1, 1), np.float32),
    }
    # Without weights the inputs do not matter: the output is the share of the hidden units that are kept,
    # scaled up. Its variance is p / (1 - p) / units.
    samples = reproduce_uci.dropout_samples(params, np.ones((1, 40, 2)), rates, passes=200, seed=0)[:, 0]
    assert samples.shape == (200, 3, 40)
    assert samples[:, 0] == pytest.approx(1.0, abs=1e-5)
    for network, rate in ((1, 0.1), (2, 0.5)):
        expected = rate / (1 - rate) / units
        assert samples[:, network].mean() == pytest.approx(1, abs=6 * np.sqrt(expected / 8000))
        assert samples[:, network].var() == pytest.approx(expected, rel=0.1)


def test_a_missing_table_says_how_to_find_it(tmp_path, monkeypatch):
    monkeypatch.setenv("UQHELPERS_DATA", str(tmp_path))
    with pytest.raises(data.DataUnavailable, match=r"uci/yacht\.txt: set UQHELPERS_DATA"):
        reproduce_uci.table("yacht")
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "yacht.txt").write_text("1 2 3\n")
    with pytest.raises(ValueError, match="md5"):
        reproduce_uci.table("yacht")


def test_published_cells_stay_empty_where_there_is_no_figure():
    assert reproduce_uci.cell({}, "concrete", "ensemble published", 0) == "6.03"
    assert reproduce_uci.cell({}, "yacht", "MC-Dropout again published", 1) == "1.25"
    assert reproduce_uci.cell({}, "wine", "ensemble published", 1) == ""
    assert reproduce_uci.with_error([1.0, 2.0, 3.0], 2) == "2.00 ± 0.58"


def test_a_median_is_not_moved_by_a_diverged_split():
    found = {"yacht": {"ensemble": {"rmse": [1.0, 1.1, 400.0], "nll": [2.0, 2.5, 1e6]}}}
    columns = {"ensemble": "ours"}
    lines = reproduce_uci.table_of(found, columns, reproduce_uci.median_cell, 0).splitlines()
    assert lines[0] == "| table | ours |"
    assert float(lines[-1].split("|")[2]) == 1.1
    assert reproduce_uci.median_cell(found, "yacht", "ensemble", 1) == "2.50"


def test_the_stored_page_of_uci_is_that_of_the_stored_figures():
    content, page = stored("uci")
    assert page.startswith(reproduce_uci.page(content["tables"]))
    for scores in content["tables"].values():
        assert {len(column["rmse"]) for column in scores.values()} == {reproduce_uci.SPLITS}


# --- deciding with uncertainty --------------------------------------------------------------------------


def test_the_stored_page_of_the_density_picture_is_that_of_the_stored_figures():
    content, page = stored("ddu")
    assert page.startswith(reproduce_ddu.page(content["runs"], 55_000))


def test_entropy_finds_the_ambiguous_and_density_the_strange_on_every_seed():
    runs = stored("ddu")[0]["runs"]["ddu"]
    assert len(runs) >= 5
    for run in runs:
        assert run["ambiguous entropy"] > 0.9
        assert all(run[f"{name} density"] > 0.9 for name in reproduce_ddu.STRANGE)
        assert run["ambiguous density"] < run["ambiguous entropy"]
        assert all(run[f"{name} entropy"] < run[f"{name} density"] for name in reproduce_ddu.STRANGE)


def test_the_stored_page_of_the_detectors_is_that_of_the_stored_figures():
    content, page = stored("ood")
    assert page.startswith(reproduce_ood.page(content["runs"], 55_000, 10_000))


def test_every_detector_has_every_figure_on_every_set_and_no_setting_was_chosen_on_them():
    runs = stored("ood")[0]["runs"]
    assert len(runs) >= 5
    for run in runs:
        names = {
            f"{detector}, {name}" for detector in reproduce_ood.DETECTORS for name in reproduce_ood.STRANGE
        }
        assert set(run["figures"]) == names
        assert all(0 <= row[key] <= 1 for row in run["figures"].values() for key in reproduce_ood.COLUMNS)
    for name in reproduce_ood.STRANGE:

        def mean(detector, name=name):
            return np.mean([run["figures"][f"{detector}, {name}"]["auroc"] for run in runs])

        assert mean("ensemble") > mean("softmax")
        assert mean("neighbours") > 0.95


def test_the_stored_page_of_failure_prediction_is_that_of_the_stored_figures():
    content, page = stored("confidnet")
    images = SimpleNamespace(  # only their numbers are on the page
        train=range(55_000), validation=range(5_000), test=range(10_000)
    )
    assert page.startswith(reproduce_confidnet.page(content["runs"], images))


def test_the_published_gain_of_confidnet_rests_on_the_dropout_left_on():
    runs = stored("confidnet")[0]["runs"]["MLP"]
    assert len(runs) >= 5
    for key in ("aupr_error", "auroc"):
        on, off, usual = (
            np.array([run["rows"][name][key] for run in runs])
            for name in ("ConfidNet", "ConfidNet, dropout off", "MCP")
        )
        assert np.all(on > off)
        assert on.mean() > usual.mean() > off.mean()


def test_the_dropout_decides_with_the_small_convolutional_network_too():
    runs = stored("confidnet")[0]["runs"]["ConvNet"]
    again = [run["trained again"] for run in runs]
    assert len(again) >= 5

    def ends(name, key):  # of the 95 % interval of the paired difference from MCP; above zero is better
        better = -1 if key == "fpr95" else 1
        gain = [better * (rows[name][key] - rows["MCP"][key]) for rows in again]
        half = stats.t.ppf(0.975, len(gain) - 1) * stats.sem(gain)
        return np.mean(gain) - half, np.mean(gain) + half

    for key in reproduce_confidnet.COLUMNS:
        assert ends("ConfidNet", key)[0] > 0
        assert ends("ConfidNet, dropout off", key)[1] < 0 or key == "fpr95"
    low, high = ends("ConfidNet, dropout off", "fpr95")
    assert low < 0 < high
    ours = np.array([100 * run["rows"]["ConfidNet"]["aupr_error"] for run in runs])
    half = stats.t.ppf(0.975, len(ours) - 1) * stats.sem(ours)
    assert abs(ours.mean() - reproduce_confidnet.PUBLISHED["ConvNet"]["ConfidNet"][1]) < half


def test_thinned_networks_that_begin_at_the_dropout_teach_what_whole_ones_do():
    images, labels = np.random.default_rng(0).random((60, 1, 8, 8), dtype=np.float32), np.arange(60) % 4
    with training.seeded(0):
        net = models.SimpleNet((1, 8, 8), 4)
    before, after = reproduce_confidnet.parted(net.eval())
    options = {"epochs": 2, "dropout": True, "batch_size": 20, "progress": False}
    whole = confidnet.ConfidNet(net, hidden=(8,)).fit(images, labels, **options)
    part = confidnet.ConfidNet(after, hidden=(8,)).fit(before(images), labels, **options)
    assert part.history.errors == whole.history.errors
    assert part.confidence(before(images)) == pytest.approx(whole.confidence(images), abs=1e-5)


def test_no_published_cell_of_confidnet_stands_without_ours():
    content, _ = stored("confidnet")
    for kind, runs in content["runs"].items():
        for name in reproduce_confidnet.PUBLISHED[kind]:
            assert sum(name in run["rows"] for run in runs) >= 5, (kind, name)


def test_the_stored_page_of_the_attacks_is_that_of_the_stored_figures():
    content, page = stored("adversarial")
    assert page.startswith(reproduce_adversarial.page(content["runs"]))


def test_doubt_rises_under_one_step_and_turns_under_many_on_every_seed():
    runs = stored("adversarial")[0]["runs"]
    assert len(runs) >= 5
    for predictor in ("dropout", "single", "laplace"):
        one, many = (
            reproduce_adversarial.column(runs, f"{attack}, {predictor}", "entropy")
            for attack in ("fgsm", "pgd")
        )
        place = reproduce_adversarial.EPSILONS.index(0.2)
        assert (np.diff(one[:, : place + 1], axis=1) > 0).all()
        assert (many[:, -1] < 0.5 * many.max(axis=1)).all()
        flags = reproduce_adversarial.column(runs, f"pgd, {predictor}", "sure and wrong")
        assert (flags[:, -1] > 0.8).all()
    accuracy = reproduce_adversarial.column(runs, "pgd, dropout", "accuracy")
    assert (np.diff(accuracy, axis=1) <= 0).all()


def test_the_slip_of_the_notebook_flatters_on_every_seed():
    runs = stored("adversarial")[0]["runs"]
    left = {
        name: reproduce_adversarial.column(runs, f"{name}, dropout", "accuracy") for name in ("slip", "fgsm")
    }
    assert (left["slip"][:, 4] > left["fgsm"][:, 4] + 0.03).all()


def test_a_box_holds_the_quartiles_and_whiskers_without_the_outliers():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 100.0, -50.0])
    assert reproduce_adversarial.box(values) == pytest.approx([1.0, 1.5, 3.0, 4.5, 5.0])


# --- conformal sets -------------------------------------------------------------------------------------


def test_the_stored_page_of_conformal_sets_is_that_of_the_stored_figures():
    content, page = stored("conformal")
    assert len(content["runs"]) >= 5
    assert page.startswith(reproduce_conformal.page(content["runs"]))


@pytest.mark.parametrize("alpha", reproduce_conformal.LEVELS)
def test_conformal_sets_of_mnist_kept_their_promise_and_the_naive_ones_missed_it(alpha):
    runs = stored("conformal")[0]["runs"]
    law = conformal.coverage_law(reproduce_conformal.CALIBRATION, alpha)
    for method in reproduce_conformal.OPTIONS:
        found = np.mean([run["clean"][f"{method}, {alpha}"]["coverage"] for run in runs])
        error = law.std / np.sqrt(len(runs) * reproduce_conformal.SPLITS)
        assert found > 1 - alpha - 5 * error, method
        if method != "lac by class":  # which has few calibration digits for each, and rounds up
            assert found < law.mean + 5 * error, method
    naive = np.mean([run["clean"][f"naive, {alpha}"]["coverage"] for run in runs])
    assert naive > 1 - alpha / 2


def test_damage_breaks_the_promise_and_the_score_decides_how():
    runs = stored("conformal")[0]["runs"]

    def coverage(method, kind):
        return np.mean([run["damaged"][f"{method}, {kind}, 5"]["coverage"] for run in runs])

    for kind in reproduce_conformal.DAMAGES:
        assert coverage("lac", kind) < 0.3
        assert coverage("lac", kind) < coverage("aps", kind) - 0.2
        assert coverage("aps", kind) < 0.9


def test_the_stored_boxes_are_drawn_one_for_each_budget():
    runs = stored("adversarial")[0]["runs"]
    fig = boxes_adversarial.draw(runs)
    panels = np.array(fig.axes[: len(boxes_adversarial.ROWS) * len(runs)])
    assert len(panels) == len(boxes_adversarial.ROWS) * len(runs)
    budgets = runs[0]["found"]["fgsm, dropout"]["epsilons"]
    for box, drawn in zip(boxes_adversarial.boxes(runs[0], "fgsm, dropout"), budgets, strict=True):
        assert box["whislo"] <= box["q1"] <= box["med"] <= box["q3"] <= box["whishi"], drawn
    assert [label.get_text() for label in panels[0].get_xticklabels()] == [f"{e:g}" for e in budgets]


# --- active learning ------------------------------------------------------------------------------------


def test_the_stored_pages_of_active_learning_are_those_of_the_stored_figures():
    for name, module in (
        ("active_learning", reproduce_active_learning),
        ("active_learning_models", reproduce_active_learning_models),
        ("active_learning_pools", reproduce_active_learning_pools),
    ):
        content, page = stored(name)
        assert page.startswith(module.page(content["loops"]))


def test_on_the_repeated_pool_batches_pay_and_the_top_ten_lose():
    loops = stored("active_learning")[0]["loops"]["repeated"]
    at = {
        name: np.mean([run["accuracy"][run["labels"].index(300)] for run in runs.values()])
        for name, runs in loops.items()
    }
    assert at["bald"] < at["random"] < at["batch_bald"]


def test_entropy_is_below_random_among_scrawls_and_bald_is_not():
    loops = stored("active_learning_pools")[0]["loops"]["scrawls"]
    base = reproduce_active_learning_pools.over_rounds(loops["random"])
    gap = {
        name: reproduce_active_learning_pools.over_rounds(loops[name]) - base for name in ("entropy", "bald")
    }
    assert gap["entropy"].max() < 0
    assert gap["bald"].mean() > -0.02


def test_the_stored_loops_say_what_the_chapter_says_of_them():
    from scipy import stats as laws

    loops = stored("active_learning_pools")[0]["loops"]

    def ahead(pool, strategy, other="random"):
        """1, -1 or 0: ahead of another, behind it, or neither, by the 95 % interval."""
        runs, base = (reproduce_active_learning_pools.over_rounds(loops[pool][s]) for s in (strategy, other))
        d = runs - base
        reach = laws.t(len(d) - 1).ppf(0.975) * laws.sem(d)
        return int(np.sign(d.mean()) * (abs(d.mean()) > reach))

    pools = ("clean", "scrawls", "blends", "repeated", "imbalanced")
    assert [ahead(pool, "batch_bald") for pool in pools] == [1, 1, 1, 1, 1]
    assert [ahead(pool, "k_center") for pool in pools] == [1, 1, 1, 1, 1]
    assert all(ahead(pool, "k_center", other) >= 0 for pool in loops for other in loops[pool])
    assert [ahead(pool, "k_center", "batch_bald") for pool in loops] == [1, 0, 0, 0, 1, 0]
    assert [ahead(pool, "k_center", "margin_once") for pool in loops] == [0, 1, 1, 1, 1, 0]
    assert [ahead(pool, "batch_bald", "margin_once") for pool in loops] == [-1, 1, 0, 0, -1, 1]
    assert max(ahead(pool, "gate", "bald") for pool in loops) == 0
    assert [ahead(pool, "bald") for pool in pools] == [0, 0, 0, -1, 1]
    assert [pool for pool in loops if ahead(pool, "gate") == 1] == ["imbalanced"]
    assert [strategy for strategy in loops["letters"] if ahead("letters", strategy) == 1] == ["margin"]
    assert [pool for pool in loops if ahead(pool, "margin") != 1] == ["scrawls"]
    assert [pool for pool in loops if ahead(pool, "margin_once") != 1] == ["scrawls", "letters"]
    foreign = {name: np.mean([run["foreign"] for run in runs]) for name, runs in loops["letters"].items()}
    assert foreign["epig"] == min(foreign.values())
    assert np.mean([run["foreign"] for run in loops["scrawls"]["margin"]]) > 0.4
    assert np.mean([run["foreign"] for run in loops["scrawls"]["k_center"]]) < 0.1


def test_the_chapter_on_active_learning_reads_what_is_stored():
    there = json.loads(stored_loops.STORED.read_text(encoding="utf-8"))
    assert there == stored_loops.condensed()


def test_the_grid_of_pools_has_ten_paired_seeds_of_every_strategy():
    content = stored("active_learning_pools")[0]
    assert len(content["seeds"]) >= 10
    assert set(content["loops"]) == set(reproduce_active_learning_pools.POOLS)
    for strategies in content["loops"].values():
        assert set(strategies) == set(reproduce_active_learning_pools.STRATEGIES)
        assert {len(runs) for runs in strategies.values()} == {len(content["seeds"])}


def test_the_judged_network_is_the_same_wherever_its_samples_come_from():
    digits, sources = data.load("digits"), reproduce_active_learning_models
    some = digits.train[:40]
    alone = reproduce_active_learning_pools.fit(some.images, some.labels, 3)
    nets = sources.fit_ensemble(some.images, some.labels, 3)
    posterior = sources.fit_laplace(some.images, some.labels, 3)
    images = digits.test.images[:20]
    expected = training.predict(alone, images)
    assert np.array_equal(training.predict(nets[0], images), expected)
    assert np.array_equal(training.predict(posterior.model, images), expected)
    assert not np.allclose(training.predict(nets[1], images), expected, atol=0.01)


def test_labels_to_a_level_are_the_first_that_reach_it():
    found = {"labels": [20, 30, 40], "accuracy": [0.5, 0.91, 0.89]}
    assert reproduce_active_learning.labels_to(found, 0.9) == 30
    assert reproduce_active_learning.labels_to(found, 0.95) is None


def test_a_triple_is_looked_at_whole_but_for_what_has_a_label():
    rng = np.random.default_rng(0)
    left = np.setdiff1d(np.arange(9000), [5, 3005])
    drawn = reproduce_active_learning.triples(3000)(left, rng)
    counts = np.bincount(drawn % 3000)
    assert len(drawn) <= reproduce_active_learning.SCORED
    assert set(np.delete(counts, 5).tolist()) <= {0, 3}
    assert counts[5] in (0, 1)


# --- language models --------------------------------------------------------------------------------------


def test_the_stored_page_of_language_models_is_that_of_the_stored_figures():
    content, page = stored("language_models")
    assert all(len(found) >= 5 for found in content["runs"].values())
    assert page.startswith(reproduce_language_models.page(content["runs"], content["inventions"]))


def test_semantic_entropy_parts_the_ambiguous_from_the_unseen_in_one_world_and_an_ensemble_in_both():
    runs = stored("language_models")[0]["runs"]

    def areas(words, score, low="ambiguous"):
        return [run["area"][score][low] for run in runs[words]]

    assert np.mean(areas("names tell nothing", "semantic")) > 0.65
    assert max(areas("names tell", "semantic")) < 0.6
    for words in runs:
        assert min(areas(words, "semantic", "known")) > 0.9
        assert min(areas(words, "epistemic")) > 0.9
        # In one world a member had not learned a few of the known yet: those are disagreed about, too.
        assert np.mean(areas(words, "epistemic", "known")) > 0.9


def test_second_questions_and_a_probe_did_not_do_what_is_hoped_of_them():
    for runs in stored("language_models")[0]["runs"].values():

        def mean(score, low, runs=runs):
            return np.mean([run["area"][score][low] for run in runs])

        assert max(mean("p true", "known"), mean("probe", "known")) < 0.7
        assert mean("again", "known") > 0.85
        assert mean("again", "ambiguous") < mean("second semantic", "ambiguous") + 0.05


def test_what_was_never_told_was_invented_at_the_rate_that_the_singletons_foretold():
    rates = stored("language_models")[0]["inventions"]
    late = [run["likeliest, 40"] for run in rates]
    assert abs(np.mean(late) - np.mean([run["foretold"] for run in rates])) < 0.02
    for run in rates:
        assert abs(run["likeliest, 40"] - run["never told"]) < 0.015
        assert run["drawn, 10"] > run["drawn, 80"] + 0.05
        assert run["drawn, 80"] > run["never told"] - 0.01


def test_what_a_second_answer_betrays_is_what_the_text_about_second_questions_taught():
    content, page = stored("language_models_again")
    runs = content["runs"]
    assert page.startswith(reproduce_language_models_again.page(runs))
    beside = stored("language_models")[0]["runs"]["names tell"]
    for seed, run in zip(content["seeds"], runs, strict=True):
        told, apart = run["told"], run["apart"]
        # The same network as in the other table, found again.
        area = beside[seed]["area"]
        assert told["again, ambiguous"] == pytest.approx(area["again"]["ambiguous"], abs=0.03)
        assert told["p true, known"] == pytest.approx(area["p true"]["known"], abs=0.03)
        # Of two true places the one foretells the other only where the text has it so.
        assert told["information, ambiguous"] > 0.05 > 10 * told["information, known"]
        assert max(apart[f"information, {group}"] for group in reproduce_language_models_again.GROUPS) < 0.02


def test_what_the_chapter_reads_is_what_is_stored():
    content, beside = stored("language_models_again")[0], stored("language_models")[0]
    kept = json.loads(reproduce_language_models_again.STORED.read_text(encoding="utf-8"))
    packed = reproduce_language_models_again.packed(beside, content["runs"])
    assert {key: kept[key] for key in packed} == packed


def test_a_place_named_apart_says_nothing_of_what_follows():
    world = data.biographies(telling=True, seed=3, people=12, surnames=12, repeats=2000)
    told = world.meanings[world.told]

    def follows(lines):
        """How much more often a true place follows where it is the one that was named: ambiguous people."""
        prompts, answers = lines
        named = np.array([np.flatnonzero(world.answers[::4, 0] == token)[0] for token in prompts[:, 5]])
        assert np.array_equal(answers, world.answers[world.told])
        gaps = []
        for who in world.of("ambiguous"):
            mine, place = world.people == who, world.truth[who].argmax()
            gaps.append(np.mean(told[mine & (named == place)] == place) - 0.6)
        return np.mean(gaps)

    assert abs(follows(reproduce_language_models_again.apart_lines(world, 0))) < 0.02
    assert follows(world.second_lines("again?", 0)) > 0.08


def test_the_worlds_run_small():
    small = reproduce_language_models_again.one_world(0, epochs=1, people=6, surnames=3, places=5, repeats=5)
    assert set(small["told"]) == set(small["apart"]) == set(reproduce_language_models_again.FIGURES)
    world = reproduce_language_models.one_world(True, 0, epochs=1, people=6, surnames=3, places=5, repeats=5)
    assert set(world["area"]) == set(reproduce_language_models.SCORES)
    rates = reproduce_language_models.inventions(0, (1,), people=30, lines=60, places=5)
    assert 0 <= rates["likeliest, 1"] <= 1


# --- the case study -----------------------------------------------------------------------------------------


def test_the_stored_page_of_the_case_is_that_of_the_stored_figures():
    content, page = stored("case_study")
    assert len(content["runs"]) >= 10
    assert page.startswith(reproduce_case_study.page(content["runs"]))


def test_ten_thousand_quiet_years_keep_to_the_stated_rate():
    runs = stored("case_study")[0]["runs"]
    for name in reproduce_case_study.alarms():
        shares = [run["quiet"][name] for run in runs]
        # A thousand years for each network, and one simulated limit for all of them.
        assert np.mean(shares) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 10_000 + 0.05 * 0.95 / 2000)
    assert min(run["quiet"]["a test at 5 % for each patient"] for run in runs) > 0.25


def test_each_change_is_heard_by_the_alarms_that_can_hear_it():
    runs = stored("case_study")[0]["runs"]

    def heard(name, change):
        late = [d for run in runs for d in run["delays"][name][change]]
        return np.mean([d is not None for d in late])

    verdicts, cancers = "one verdict in ten otherwise", "1.6 times as many cancers"
    assert heard("misfit, CUSUM", verdicts) > 0.6
    assert max(heard("inputs, CUSUM", verdicts), heard("predictions, CUSUM", verdicts)) < 0.1
    assert heard("predictions, CUSUM", cancers) > 0.7 > 0.2 > heard("misfit, CUSUM", cancers)
    sizes = [heard("gap, CUSUM", f"lengths {size} % too large") for size in (5, 10, 20, 30)]
    assert sizes == sorted(sizes)


def test_what_creeps_is_heard_later_than_what_jumps_to_the_same_size():
    runs = stored("case_study")[0]["runs"]
    for score in reproduce_case_study.SLOW:
        for size in (0.2, 0.3):
            middles = []
            for ramp in (0, 100, 200, 400):
                name = reproduce_case_study.CREEPING[size, ramp]
                late = [d for run in runs for d in run["creeping"][score][name]]
                middles.append(np.median([np.inf if d is None else d for d in late]))
            assert middles == sorted(middles)


def test_verdicts_that_come_the_sooner_for_what_they_say_break_the_rate_of_the_gap_on_a_first_day():
    runs = stored("case_study")[0]["runs"]
    first, running, ordered = reproduce_case_study.ORDERS

    def rings(order, score, waits="(10, 200)"):
        return np.mean([run["late"][waits][order][score]["quiet"] for run in runs])

    assert rings(first, "gap") > 0.2
    assert max(run["late"]["(10, 200)"][first]["misfit"]["quiet"] for run in runs) > 0.1
    for score in reproduce_case_study.SLOW:  # the chance of the simulated limit included
        assert rings(ordered, score) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 5000 + 0.05 * 0.95 / 2000)
        assert rings(running, score) < 0.08


def test_verdicts_are_used_as_they_are_said_to_be():
    """Patients 0 to 5, of whom 2 to 4 come in the year; those of 1 and 3 wait for 3, the others for 1."""
    known = np.array([1, 4, 3, 6, 5, 6])
    used = {o: reproduce_case_study.as_used(known, o, 2, 6) for o in reproduce_case_study.ORDERS}
    places, at = zip(*used.values(), strict=True)
    assert [p.tolist() for p in places] == [[2, 4], [2, 1, 4], [2]]
    assert [when.tolist() for when in at] == [[3, 5], [3, 4, 5], [3]]


def test_the_case_runs_small():
    run = reproduce_case_study.one_run(0, quiet=2, changed=1)
    assert set(run["quiet"]) == {*reproduce_case_study.alarms(), "a test at 5 % for each patient"}
    assert reproduce_case_study.page([run, run]).startswith("# Alarms")
