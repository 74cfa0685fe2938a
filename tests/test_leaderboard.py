"""The leaderboard: its worlds, its questions, what it refuses, and who is better than whom."""

import json
import sys
import textwrap

import numpy as np
import pytest
from scipy import stats

from uqhelpers import data, leaderboard, metrics
from uqhelpers._torch import torch
from uqhelpers.leaderboard import Answer, columns, networks, posthoc, regression, runs, trained, worlds

FEW = 3  # resamplings: what they are good for is tested once


@pytest.fixture(scope="module")
def here():
    return leaderboard.world()


def known_answer(world, sure=0.9):
    """Somebody who is right about every image but the first ten of the test, and says so."""
    images, places = world.questions()
    labels = np.zeros(len(images), int)
    labels[places["test"]] = world.test.labels
    labels[places["corrupted"]] = np.tile(world.test.labels, 5)
    labels[places["validation"]] = world.validation.labels
    first = np.arange(places["test"].start, places["test"].start + 10)
    labels[first] = (labels[first] + 1) % 10
    confidence = np.full(len(images), sure)
    confidence[first] = 0.5
    confidence[places["near"]] = 0.4
    confidence[places["far"]] = 0.3
    probs = np.repeat((1 - confidence)[:, None] / 9, 10, axis=1)
    probs[np.arange(len(images)), labels] = confidence
    return probs, places


# --- worlds -------------------------------------------------------------------------------------------------


def test_every_third_training_image_is_a_blend_and_the_test_is_clean(here):
    digits = data.load()
    assert len(here.train) == 900 + 450
    assert np.array_equal(here.train.images[:900], digits.train.images)
    assert np.array_equal(here.test.images, digits.test.images)
    assert np.array_equal(here.validation.labels, digits.validation.labels)


def test_labels_of_blends_are_drawn_by_the_share():
    split = data.load().train
    blended, entropy = leaderboard.blends(split, 4000, seed=3)
    first = np.arange(4000) % 10
    assert set((blended.labels - first) % 10) == {0, 1}
    assert entropy.min() >= 0
    assert entropy.max() <= np.log(2)
    # Which of the two an image is nearer to tells the larger share; how often it is the label, the entropy.
    means = np.stack([split.images[split.labels == c].mean(axis=0) for c in range(10)])
    away = [((blended.images - means[c]) ** 2).sum(axis=(1, 2, 3)) for c in (first, (first + 1) % 10)]
    nearer = np.where(away[0] < away[1], first, (first + 1) % 10)
    agrees = nearer == blended.labels
    sure, torn = entropy < 0.2, entropy > 0.68
    assert agrees[sure].mean() > 0.85
    assert abs(agrees[torn].mean() - 0.5) < 0.08


def test_one_thing_is_changed_in_each_world(here):
    noisy, few, uneven = (leaderboard.world(n) for n in ("noise 40 %", "an eighth", "uneven"))
    assert np.array_equal(noisy.train.images, here.train.images)
    wrong = noisy.train.labels != here.train.labels
    assert abs(wrong.mean() - 0.4) < 4 * np.sqrt(0.24 / len(wrong))
    assert abs(np.mean(noisy.validation.labels != here.validation.labels) - 0.4) < 0.12
    assert abs(len(few.train) / len(here.train) - 1 / 8) < 0.01
    counts = np.sort(np.unique(uneven.examples))
    assert counts[-1] > 80
    assert counts[0] < 8
    for changed in (noisy, few, uneven):
        assert np.array_equal(changed.test.images, here.test.images)
        assert np.array_equal(changed.near, here.near)


def test_which_class_is_rare_depends_on_the_seed_alone():
    first, again, other = (leaderboard.world("uneven", seed) for seed in (0, 0, 1))
    assert np.array_equal(first.examples, again.examples)
    assert not np.array_equal(first.examples, other.examples)


def test_each_test_image_is_damaged_by_one_kind(here):
    for place, kind in enumerate(data.CORRUPTIONS):
        rows = slice(place, None, len(data.CORRUPTIONS))
        want = data.corrupt(here.test.images[rows], kind, 4, seed=worlds.DATA_SEED)
        assert np.array_equal(here.corrupted[3][rows], want)


def test_blends_need_images_of_every_class():
    split = data.load().train
    with pytest.raises(ValueError, match="split: expected images of all 10 classes"):
        leaderboard.blends(split[split.labels < 5], 10)


# --- questions ----------------------------------------------------------------------------------------------


def test_the_columns_are_what_the_metrics_say(here):
    probs, places = known_answer(here)
    answer = leaderboard.as_answer(probs, len(probs), 10)
    figures, resampled = leaderboard.judge(answer, here, places, resamples=FEW)
    test, labels = probs[places["test"]], here.test.labels
    assert figures["accuracy"] == pytest.approx(1 - 10 / 600)
    assert figures["nll"] == pytest.approx(metrics.negative_log_likelihood(test, labels), abs=1e-9)
    assert figures["brier"] == pytest.approx(metrics.brier_score(test, labels))
    assert figures["gap"] == pytest.approx(test.max(axis=1).mean() - 590 / 600)
    assert figures["errors"] == 1  # the ten errors are the ten of which it is least sure
    assert figures["augrc"] == pytest.approx(0.5 * (10 / 600) ** 2)
    assert figures["near"] == figures["far"] == 1
    assert figures["accuracy_5"] == 1
    assert np.isnan(figures["together"])
    assert np.isnan(figures["errors_by_epistemic"])
    assert all(len(values) == FEW for values in resampled.values())


def test_what_is_found_by_chance_is_one_half(here):
    probs, places = known_answer(here)
    noise = np.random.default_rng(0).normal(size=len(probs))
    answer = leaderboard.as_answer(Answer(probs, doubt=noise, strangeness=noise), len(probs), 10)
    figures, _ = leaderboard.judge(answer, here, places, resamples=FEW)
    assert abs(figures["near"] - 0.5) < 0.1
    assert abs(figures["far"] - 0.5) < 0.1
    assert figures["nll"] < 0.3  # the doubt is another question than the probabilities


def test_resampled_inputs_spread_as_the_binomial_does(here):
    probs, places = known_answer(here)
    answer = leaderboard.as_answer(probs, len(probs), 10)
    _, drawn = leaderboard.judge(answer, here, places, resamples=60)
    expected = np.sqrt(10 / 600 * 590 / 600 / 600)
    assert np.std(drawn["accuracy"]) == pytest.approx(expected, rel=0.3)
    _, again = leaderboard.judge(answer, here, places, resamples=2)
    assert drawn["nll"][:2] == again["nll"]  # all methods meet the same draws


def test_sampled_models_are_decomposed():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=(6, 9))
    got = leaderboard.as_answer(probs, 9, 4)
    want = metrics.decompose(probs)
    assert np.allclose(got.aleatoric, want.aleatoric)
    assert np.allclose(got.epistemic, want.epistemic)
    assert np.allclose(got.strangeness, want.epistemic)
    assert np.allclose(got.doubt, -want.mean.max(axis=1))
    assert got.members == 6
    assert got.splits


def test_every_column_can_be_asked_of_a_method_that_parts(here):
    images, places = here.questions()
    probs = np.random.default_rng(0).dirichlet(np.ones(10), size=(3, len(images)))
    figures, _ = leaderboard.judge(leaderboard.as_answer(probs, len(images), 10), here, places, resamples=1)
    later = {"fit_cost", "predict_cost", "kept", "scarcity", "stray_scarcity"}
    assert set(figures) | later == set(leaderboard.COLUMNS)
    assert all(np.isfinite(figures[name]) for name in set(figures) - later)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.full((5, 3), 1 / 3), r"mine: probs: expected shape \(4, 3\), got \(5, 3\)"),
        (np.full((4, 2), 1 / 2), r"mine: probs: expected shape \(4, 3\), got \(4, 2\)"),
        (np.full((4, 3), 0.5), "mine: probs: expected rows that sum to 1"),
        (np.random.default_rng(0).normal(size=(4, 3)), "mine: probs.*are these logits"),
        (np.zeros(4, int), r"mine: probs: expected shape \(inputs, classes\)"),
        (np.full((4, 3), np.nan), "mine: probs: expected probabilities, got NaN"),
        (Answer(np.full((4, 3), 1 / 3), doubt=np.zeros(3)), "mine: doubt: expected length 4, got 3"),
        (Answer(np.full((4, 3), 1 / 3), epistemic=np.full(4, np.nan)), "mine: epistemic: .*got NaN"),
        ("three", "mine: probs"),
    ],
)
def test_an_answer_that_is_none_is_refused_by_the_name_of_its_method(answer, words):
    with pytest.raises(ValueError, match=words):
        leaderboard.as_answer(answer, 4, 3, "mine")


# --- methods ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Small runs of every method, with networks that hardly learn: form, not figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "BUDGET", {**networks.BUDGET, "epochs": 3})
        for module in (posthoc, trained):
            patch.setattr(module, "DRAWS", 5)
        return leaderboard.gather(
            [leaderboard.evaluate(name, world_name="uneven", resamples=FEW) for name in leaderboard.METHODS]
        )


def test_every_method_answers_every_question(few):
    for name, row in few.figures["uneven"].items():
        assert 0.15 < row["accuracy"][0] <= 1, name
        for column in ("nll", "near", "far", "known_doubt", "scarcity", "set_size", "kept"):
            assert np.isfinite(row[column]).all(), (name, column)
    assert len(few.figures["uneven"]) == len(leaderboard.METHODS) >= 22


def test_readings_of_one_network_share_its_predictions(few):
    rows = few.figures["uneven"]
    same = ["max_probability", "entropy", "max_logit", "energy", "odin", "mahalanobis", "neighbours", "ddu",
            "confidnet", "trust_score", "conformal"]  # fmt: skip
    for name in same[1:]:
        assert rows[name]["nll"] == rows["max_probability"]["nll"], name
        assert rows[name]["brier"] == rows["max_probability"]["brier"], name
    near = {float(rows[name]["near"][0]) for name in same}
    assert len(near) >= 9  # the strange are another question


def test_a_temperature_changes_no_answer(few):
    rows = few.figures["uneven"]
    assert rows["temperature"]["accuracy"] == rows["max_probability"]["accuracy"]
    assert rows["temperature"]["nll"] != rows["max_probability"]["nll"]


def test_an_account_pays_once_for_a_network_that_it_asks_for_twice(monkeypatch):
    monkeypatch.setattr(networks, "BUDGET", {**networks.BUDGET, "epochs": 1})
    train, before = leaderboard.world("standard", seed=0).train, networks.spent()
    networks.open_account()
    networks.network(train, 0)
    once = networks.spent() - before
    networks.features(train, 0)  # asks for the network, too
    seen = networks.spent() - before - once
    assert 0 < seen < once
    networks.open_account()
    networks.features(train, 0)
    assert networks.spent() - before == pytest.approx(2 * (once + seen))


def test_costs_are_counted_where_work_is_shared(few):
    rows = few.figures["uneven"]
    assert rows["max_probability"]["fit_cost"][0] == pytest.approx(1, abs=0.3)
    assert 3 < rows["ensemble"]["fit_cost"][0] < 9
    assert rows["ensemble"]["kept"][0] == 5
    assert rows["mahalanobis"]["kept"][0] > 1
    assert rows["mc_dropout"]["predict_cost"][0] > 2


def test_members_of_an_ensemble_differ_and_come_again(here):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "BUDGET", {**networks.BUDGET, "epochs": 1})
        first, second = networks.members(here.train, 7)[:2]
        assert not torch.equal(first[-1].weight, second[-1].weight)
        networks.forget()
        assert torch.equal(first[-1].weight, networks.network(here.train, 7)[-1].weight)
        networks.forget()


# --- a stranger's method ------------------------------------------------------------------------------------

TEN_LINES = """
    import numpy as np

    def fit(train, validation):
        means = np.stack([train.images[train.labels == c].mean(0) for c in range(10)])
        def predict(images):
            away = ((images[:, None] - means) ** 2).sum((2, 3, 4))
            scores = np.exp(away.min(1, keepdims=True) - away)
            return scores / scores.sum(1, keepdims=True)
        return predict

    def unfinished(train, validation):
        return lambda images: np.ones((len(images), 10))

    def forgot(train, validation):
        return None
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with a stranger's module, in which a command is given."""
    (tmp_path / "my_method.py").write_text(textwrap.dedent(TEN_LINES))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(networks, "BUDGET", {**networks.BUDGET, "epochs": 2})
    networks.forget()
    yield tmp_path
    sys.modules.pop("my_method", None)
    networks.forget()


def test_a_strangers_method_gets_a_row_beside_the_stored_ones(shop, capsys):
    from uqhelpers.leaderboard.__main__ import main

    main(["--method", "my_method:fit", "--seeds", "2"])
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[-1].startswith("| my_method:fit |")
    assert len(rows) == 2 + len(leaderboard.METHODS) + 1
    assert len({line.count("|") for line in rows}) == 1
    files = list((shop / "leaderboard-runs").glob("*.json"))
    assert len(files) == 2


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("unfinished", "my_method:unfinished: probs"),
        ("forgot", "my_method:forgot: fit: expected it to return a function"),
        ("absent", "method: expected module:function that can be imported"),
    ],
)
def test_a_stranger_is_refused_by_name(shop, function, words):
    with pytest.raises(ValueError, match=words):
        leaderboard.run([f"my_method:{function}"], [0], folder=shop / "runs", resamples=1, progress=False)


def test_a_function_in_a_notebook_is_a_method_too(here):
    def fit(train, validation, seed):
        assert seed == 5
        shares = np.bincount(train.labels, minlength=10) / len(train)
        return lambda images: np.tile(shares, (len(images), 1))

    networks_budget = {**networks.BUDGET, "epochs": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "BUDGET", networks_budget)
        row = leaderboard.evaluate("shares", 5, fit=fit, resamples=1)
    assert 0 < row.figures["accuracy"] < 0.2
    assert row.figures["near"] == 0.5
    assert np.isnan(row.figures["known_doubt"])


# --- interrupted and resumed --------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Runs that cost nothing, and who was asked for."""
    asked = []

    def evaluate(name, seed, world_name="standard", edition=None, resamples=1):
        asked.append((name, seed))
        if len(asked) == evaluate.breaks_at:
            raise KeyboardInterrupt
        value = float(np.random.default_rng([seed, len(name)]).normal())
        return runs.Run(name, world_name, seed, {"nll": value}, {"nll": [value, value + 1]})

    evaluate.breaks_at = None
    monkeypatch.setattr(runs, "evaluate", evaluate)
    return asked, evaluate


def table(folder, **more):
    return leaderboard.run(
        ["entropy", "energy", "odin"], range(2), folder=folder, progress=False, resamples=1, **more
    )


def test_an_interrupted_table_goes_on_where_it_stopped(counted, tmp_path):
    asked, evaluate = counted
    whole = table(tmp_path / "whole")
    asked.clear()
    evaluate.breaks_at = 5
    with pytest.raises(KeyboardInterrupt):
        table(tmp_path / "broken")
    asked.clear()
    evaluate.breaks_at = None
    assert table(tmp_path / "broken") == whole
    assert asked == [("energy", 1), ("odin", 1)]
    assert not list((tmp_path / "broken").glob("*.part"))


def test_half_a_file_is_computed_again(counted, tmp_path):
    asked, _ = counted
    whole = table(tmp_path)
    path = sorted(tmp_path.glob("*.json"))[0]
    path.write_text(path.read_text()[:40])
    asked.clear()
    assert table(tmp_path) == whole
    assert len(asked) == 1


def test_other_code_of_a_stranger_is_another_run(counted, shop):
    asked, _ = counted
    for _ in range(2):
        leaderboard.run(["my_method:fit"], [0], folder=shop / "runs", progress=False)
    assert len(asked) == 1
    (shop / "my_method.py").write_text((shop / "my_method.py").read_text() + "\n# another\n")
    leaderboard.run(["my_method:fit"], [0], folder=shop / "runs", progress=False)
    assert len(asked) == 2


def test_an_unknown_method_is_refused_before_anything_runs(counted, tmp_path):
    with pytest.raises(ValueError, match="method: expected one of 'max_probability'"):
        leaderboard.run(["entropy", "magic"], folder=tmp_path)
    assert counted[0] == []


def test_what_lies_in_a_folder_is_gathered_by_whole_seeds_and_nothing_is_computed(counted, tmp_path):
    asked, _ = counted
    whole = table(tmp_path)
    leaderboard.run(["entropy"], [2], folder=tmp_path, progress=False, resamples=1)
    asked.clear()
    names = ["entropy", "energy", "odin"]
    assert leaderboard.finished(names, range(4), folder=tmp_path) == whole
    assert [run.seed for run in leaderboard.finished(["entropy"], range(4), folder=tmp_path)] == [0, 1, 2]
    assert leaderboard.finished(names, range(4), folder=tmp_path, edition="mnist") == []
    assert asked == []


def test_a_row_stands_beside_the_table_of_its_own_edition(counted, shop, capsys):
    from uqhelpers.leaderboard.__main__ import main

    main(["--method", "my_method:fit", "--edition", "mnist", "--seeds", "1", "--columns", "nll"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    mean = leaderboard.stored("mnist").column("nll")["ensemble"].mean()
    (stored,) = (line for line in rows if line.startswith("| ensemble |"))
    assert f"{mean:.3f}" in stored
    assert rows[-1].startswith("| my_method:fit |")
    assert [path.name[:6] for path in (shop / "leaderboard-runs").glob("*.json")] == ["mnist-"]


def test_the_mnist_edition_is_stored_from_a_folder_of_runs(counted, tmp_path, monkeypatch):
    from benchmarks import reproduce_leaderboard_mnist as script

    monkeypatch.setattr(script, "STORED", tmp_path / "mnist.json")
    with pytest.raises(ValueError, match="folder: expected all methods of one seed or more"):
        script.reproduce(folder=tmp_path)
    leaderboard.run(seeds=range(2), folder=tmp_path, edition="mnist", progress=False)
    leaderboard.run(["odin"], [2], folder=tmp_path, edition="mnist", progress=False)
    content, page, seeds = script.reproduce(folder=tmp_path)
    assert seeds == [0, 1]
    kept = json.loads((tmp_path / "mnist.json").read_text())
    assert kept["figures"]["standard"]["odin"]["nll"] == pytest.approx(content["odin"]["nll"], rel=1e-3)
    assert {"code", "date", "machine", "versions"} <= set(kept["provenance"])
    assert "of 2 seeds" in page
    assert page.count("\n| ODIN |") == 1


# --- ranks and differences ----------------------------------------------------------------------------------


def test_ranks_and_friedmans_test_are_scipys():
    table = np.random.default_rng(0).normal(size=(5, 8)) + np.arange(5)[:, None] / 3
    found = leaderboard.ranks({str(k): row for k, row in enumerate(table)})
    want = stats.friedmanchisquare(*table)
    assert found.p_value == pytest.approx(want.pvalue)
    assert found.mean == pytest.approx(
        {str(k): r for k, r in enumerate(stats.rankdata(table, axis=0).mean(axis=1))}
    )
    tied = np.round(table)
    assert leaderboard.ranks(dict(enumerate(tied))).p_value == pytest.approx(
        stats.friedmanchisquare(*tied).pvalue
    )


def test_the_critical_difference_is_the_published_one():
    # Demšar (2006), table 5a: q = 2.569 for four methods, 2.343 for three, at 5 %.
    assert leaderboard.critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(20 / 84), abs=2e-3)
    assert leaderboard.critical_difference(3, 10) == pytest.approx(2.343 * np.sqrt(12 / 60), abs=2e-3)


def test_chance_exceeds_the_critical_difference_as_rarely_as_promised():
    rng = np.random.default_rng(1)
    critical = leaderboard.critical_difference(6, 30)
    ranks = stats.rankdata(rng.random((2000, 30, 6)), axis=2).mean(axis=1)
    assert 0.025 < np.mean(np.ptp(ranks, axis=1) > critical) < 0.065


def test_one_resample_has_no_variance_and_is_refused():
    with pytest.raises(ValueError, match="first_resampled: expected two resamples"):
        leaderboard.difference([1.0, 2.0, 3.0], [0.0, 0.0, 1.0], [1.0], [0.5])


@pytest.mark.parametrize("level", [95, 1, 0, -0.5, np.nan, None, "0.95"])
def test_a_level_that_is_no_share_is_refused_rather_than_answered_with_nan(level):
    figures, resampled = np.random.default_rng(0).normal(size=(2, 4, 3)), np.zeros((2, 4, 5))
    with pytest.raises(ValueError, match=r"^level: expected a number"):
        leaderboard.difference(*figures[:, 0], level=level)
    with pytest.raises(ValueError, match=r"^level: expected a number"):
        leaderboard.agreement(*figures, *resampled, level=level)


@pytest.mark.parametrize("shape", [(), (4, 9), (2, 3, 9)])
def test_resampled_figures_of_other_seeds_are_refused(shape):
    resampled = np.random.default_rng(0).normal(size=shape)
    with pytest.raises(ValueError, match=r"^first_resampled: expected shape"):
        leaderboard.difference([1.0, 2.0, 3.0], [0.0, 0.0, 1.0], resampled, resampled)


def test_methods_that_are_all_alike_have_no_order_to_agree_on():
    figures, alike = np.random.default_rng(0).normal(size=(4, 3)), np.ones((4, 3))
    for first, second, name in ((alike, figures, "first"), (figures, alike, "second")):
        with pytest.raises(ValueError, match=f"^{name}: expected methods that differ"):
            leaderboard.agreement(first, second, first, second)


def test_ranks_need_figures_by_method():
    with pytest.raises(ValueError, match=r"^figures: expected a dict of figures by method"):
        leaderboard.ranks([[1.0, 2.0], [2.0, 1.0]])


def test_groups_hold_whom_the_ranks_do_not_tell_apart():
    found = leaderboard.Ranks({"a": 1.0, "b": 1.5, "c": 3.3, "d": 3.4, "e": 6.0}, 2.0, 0.01, 5)
    assert found.groups() == [["a", "b"], ["b", "c", "d"]]


def test_an_interval_over_paired_seeds_is_students():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=6), rng.normal(size=6)
    mean, half = leaderboard.difference(first, second)
    low, high = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((low, high))


def test_an_interval_over_seeds_and_inputs_holds_what_it_promises():
    # Truth: difference 0. Errors of inputs are shared by all seeds, those of seeds by all inputs.
    rng, seeds, inputs, held = np.random.default_rng(3), 5, 150, []
    for _ in range(400):
        losses = (
            rng.normal(size=(seeds, 1)) * 0.05 + rng.normal(size=inputs) + rng.normal(size=(seeds, inputs))
        )
        draws = rng.integers(inputs, size=(60, inputs))
        drawn = losses.mean(axis=0)[draws].mean(axis=1)
        mean, half = leaderboard.difference(losses.mean(axis=1), np.zeros(seeds), drawn, np.zeros(60))
        held.append(abs(mean) <= half)
    assert 0.93 < np.mean(held) <= 1
    with pytest.raises(ValueError, match="second_resampled"):
        leaderboard.difference(np.zeros(3), np.ones(3), np.zeros(4))


def drawn_tables(rng, truth, noise=0.3, seeds=5, inputs=200):
    """Figures of methods whose true means are known, and the same from resampled inputs."""
    losses = truth[:, None, None] + noise * (
        0.5 * rng.normal(size=(len(truth), seeds, 1)) + 5 * rng.normal(size=(len(truth), 1, inputs))
    )
    draws = rng.integers(inputs, size=(40, inputs))
    return losses.mean(axis=2), losses.mean(axis=1)[:, draws].mean(axis=2)


def test_two_tables_agree_as_far_as_spearman_says():
    rng = np.random.default_rng(0)
    (first, a), (second, b) = (drawn_tables(rng, rng.normal(size=9)) for _ in range(2))
    found, low, high = leaderboard.agreement(first, second, a, b, draws=200)
    assert found == pytest.approx(stats.spearmanr(first.mean(axis=1), second.mean(axis=1)).statistic)
    assert low <= found <= high
    assert leaderboard.agreement(first, first, a, a, draws=50)[0] == pytest.approx(1)
    with pytest.raises(ValueError, match="second: expected figures of the same three methods"):
        leaderboard.agreement(first, second[:4], a, b)


def test_an_interval_of_an_agreement_holds_what_it_promises():
    rng, held = np.random.default_rng(1), []
    for _ in range(150):
        truth = rng.normal(size=(2, 20))
        truth[1] += truth[0]
        tables = [drawn_tables(rng, row) for row in truth]
        _, low, high = leaderboard.agreement(*(t[0] for t in tables), *(t[1] for t in tables), draws=300)
        held.append(low <= stats.spearmanr(*truth).statistic <= high)
    assert np.mean(held) > 0.88


def test_readings_of_one_network_count_once_in_an_agreement(board):
    correlation, low, high, methods = board.agreement("nll", board)
    assert methods == len({tuple(values) for values in board.column("nll").values()})
    assert correlation == pytest.approx(1)
    assert low <= correlation <= high + 1e-9
    assert board.agreement("near", board)[-1] > methods


def test_the_front_holds_whom_nobody_beats():
    cost, loss = np.array([1, 2, 3, 1, 5]), np.array([5, 3, 3, 5, 1])
    assert leaderboard.pareto_front(cost, loss).tolist() == [True, True, False, True, True]
    rng = np.random.default_rng(0)
    points = rng.integers(6, size=(2, 40))
    front = leaderboard.pareto_front(*points)
    for k in range(40):
        beaten = [
            np.all(points[:, j] <= points[:, k]) and np.any(points[:, j] < points[:, k]) for j in range(40)
        ]
        assert front[k] == (not any(beaten))


# --- disentanglement ----------------------------------------------------------------------------------------

CASES = {  # log-probabilities of what three models say of one input: total, aleatoric, epistemic
    "all sure and agreed": (np.tile([[1.0, 0, 0]], (3, 1)), (0, 0, 0)),
    "all torn alike": (np.full((3, 3), 1 / 3), (np.log(3), np.log(3), 0)),
    "each sure of another": (np.eye(3), (np.log(3), 0, np.log(3))),
}


@pytest.mark.parametrize("case", CASES)
def test_the_three_known_cases_are_parted_as_they_must(case):
    members, want = CASES[case]
    got = leaderboard.as_answer(members[:, None], 1, 3)
    assert [got.total[0], got.aleatoric[0], got.epistemic[0]] == pytest.approx(want, abs=1e-12)


def test_total_ignorance_of_two_classes_is_mostly_called_aleatoric():
    first = (np.arange(20_000) + 0.5) / 20_000  # Beta(1, 1)
    parts = metrics.decompose(np.stack([first, 1 - first], axis=1)[:, None])
    assert parts.aleatoric[0] == pytest.approx(0.5, abs=1e-6)
    assert parts.epistemic[0] == pytest.approx(np.log(2) - 0.5, abs=1e-6)


def test_pairwise_divergence_is_mutual_information_and_its_mirror_image():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=(5, 7))
    mean = probs.mean(axis=0)
    mirror = (mean * np.log(mean / probs)).sum(axis=-1).mean(axis=0)
    pairs = np.mean(
        [[stats.entropy(a, b, axis=-1) for b in probs] for a in probs],
        axis=(0, 1),
    )
    got = leaderboard.pairwise_divergence(probs)
    assert got == pytest.approx(pairs)
    assert got == pytest.approx(metrics.mutual_information(probs) + mirror)


def test_random_splits_obey_the_bounds():
    total = np.random.default_rng(0).uniform(0, np.log(10), 500)
    aleatoric, epistemic = leaderboard.split_at_random(total, members=3)
    assert np.allclose(aleatoric + epistemic, total)
    assert epistemic.max() <= np.log(3)
    assert min(aleatoric.min(), epistemic.min()) >= 0
    assert leaderboard.largest_epistemic(total).max() == total.max()


def test_five_models_stay_far_below_the_bound_where_the_total_is_small():
    rng, doubt = np.random.default_rng(0), np.linspace(1e-4, 0.5, 5000)
    members = np.zeros((5, len(doubt), 2))
    members[..., 0] = 1
    members[4] = np.stack([1 - doubt, doubt], axis=1)  # four are sure, the fifth is not
    built = metrics.decompose(members)
    best = np.interp(0.1, built.total, built.epistemic)
    assert best == pytest.approx(0.034, abs=5e-4)
    minor = rng.dirichlet(np.full(3, 0.3), size=(5, 40_000)) * 10 ** rng.uniform(-6, -0.3, (5, 40_000, 1))
    drawn = metrics.decompose(np.concatenate([1 - minor.sum(axis=2, keepdims=True), minor], axis=2))
    small = drawn.total <= 0.1
    assert small.sum() > 1000
    assert drawn.epistemic[small].max() < best + 0.001
    assert leaderboard.largest_epistemic(np.array([0.1]), members=5)[0] == 0.1


def test_shares_of_another_law_correlate_otherwise():
    rng = np.random.default_rng(0)
    total = 10 ** rng.uniform(-4, 0, 1000)
    uniform = leaderboard.forced_correlation(total).mean()
    found = [
        leaderboard.rank_correlation(total * (1 - share), total * share)
        for share in (rng.beta(0.2, 0.2, 1000), np.full(1000, 0.1))
    ]
    assert found[0] < uniform - 0.3
    assert found[1] > uniform + 0.1


def test_uniform_lots_correlate_where_totals_spread_over_decades():
    rng = np.random.default_rng(0)
    wide, narrow = 10 ** rng.uniform(-6, 0, 1000), rng.uniform(0.99, 1, 1000)
    assert leaderboard.forced_correlation(wide).mean() > 0.8
    assert leaderboard.forced_correlation(narrow).mean() < -0.9  # what one part gains the other loses


def test_rank_correlation_is_scipys_and_silent_on_constants():
    rng = np.random.default_rng(0)
    first, second = rng.integers(5, size=50).astype(float), rng.normal(size=50)
    want = stats.spearmanr(first, second).statistic
    assert leaderboard.disentanglement.rank_correlation(first, second) == pytest.approx(want)
    assert np.isnan(leaderboard.disentanglement.rank_correlation(np.ones(4), np.arange(4)))


# --- the stored table ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def board():
    return leaderboard.stored()


def test_the_stored_table_has_all_methods_worlds_and_five_seeds(board):
    assert set(board.figures) == set(leaderboard.WORLDS)
    assert list(board.figures["standard"]) == list(leaderboard.METHODS)
    assert board.seeds["standard"] == list(range(5))
    assert {"code", "machine", "date", "versions"} <= set(board.provenance)
    for name, row in board.figures["standard"].items():
        assert set(row) <= set(leaderboard.COLUMNS), name
        assert np.isfinite(row["nll"]).all()


def test_every_edition_that_is_stored_has_all_methods_and_says_where_it_was_made():
    for edition in leaderboard.STORED:
        board = leaderboard.stored(edition)
        assert list(board.figures["standard"]) == list(leaderboard.METHODS)
        assert {"code", "machine", "date", "versions"} <= set(board.provenance)
        assert len(board.column("nll")["ensemble"]) == len(board.seeds["standard"]) >= 2
        assert set(board.resampled["standard"]["odin"]) >= {"nll", "errors", "near", "far", "nll_5"}
    with pytest.raises(ValueError, match="edition: expected one of 'digits', 'mnist'"):
        leaderboard.stored("letters")


def test_columns_of_other_chapters_are_those_of_their_stored_results():
    from benchmarks import reproduce_leaderboard_further as script

    kept, fixed = leaderboard.further()
    assert {
        name: {**c, "values": {m: v.tolist() for m, v in c["values"].items()}} for name, c in kept.items()
    } == (script.columns())
    places = (script.ROOT / "book/reference/measurements.md").read_text(encoding="utf-8")
    for column in kept.values():
        assert f"\n## {column['source'].replace('-', ' ').capitalize()}\n" in places
        assert set(column["values"]) <= set(leaderboard.METHODS)
    own, asked = leaderboard.stored(), json.loads((script.RESULTS / f"{script.SCRIPT}.json").read_text())
    for name in script.HELD:  # the same networks, before anything is changed
        for part in ("mean_aleatoric", "mean_epistemic"):
            want = own.figures["standard"][name][part][:3]
            assert fixed["standard"][name][part] == pytest.approx(want, rel=0.05)
            assert fixed["an eighth"][name][part].tolist() == asked["fixed"]["an eighth"][name][part]


def test_settings_that_are_held_are_those_of_the_first_time():
    from benchmarks import reproduce_leaderboard_further as script

    before = posthoc.chosen, trained._best_network, dict(networks.BUDGET)
    with script.settings_of([]) as first:
        assert posthoc.chosen([3, 1, 2], lambda value: value) == 1
    with script.settings_of(first), script.epochs(8):
        assert posthoc.chosen([3, 1, 2], lambda value: -value) == 1
        assert networks.BUDGET["epochs"] == 8 * before[2]["epochs"]
    with script.settings_of([7]):
        assert trained._best_network(lambda setting: setting, (1, 2), None, None) == 7
    assert (posthoc.chosen, trained._best_network, networks.BUDGET) == before


def test_a_table_written_and_read_again_is_the_same(board, tmp_path, monkeypatch):
    content = json.loads(board.as_json(**board.provenance))
    assert content["figures"]["standard"]["odin"]["nll"] == pytest.approx(
        board.figures["standard"]["odin"]["nll"], rel=1e-3
    )


def test_one_stored_row_comes_out_again(board):
    rows = [leaderboard.evaluate(name, 0, resamples=1) for name in ("temperature", "mahalanobis")]
    for row in rows:
        kept = board.figures["standard"][row.method]
        for name, margin in {"accuracy": 0.02, "nll": 0.03, "near": 0.03, "known_doubt": 0.06}.items():
            assert row.figures[name] == pytest.approx(kept[name][0], abs=margin), (row.method, name)
    networks.forget()


def test_a_column_without_a_better_end_has_no_ranks(board):
    with pytest.raises(ValueError, match="column: expected one with a better end, got 'gap'"):
        board.ranks("gap")
    assert set(board.ranks("nll").mean) == set(board.column("nll"))


# --- regression ---------------------------------------------------------------------------------------------


def test_intervals_of_the_truth_cover_as_they_promise():
    here = regression.task("gap", 0)
    x, y = here.train
    fitted = np.polynomial.Polynomial.fit(x[:, 0], y, 15)  # knows the sine where there are points

    def predict(x):
        return fitted(x[:, 0]), np.full(len(x), 0.1 / 0.7)

    figures = regression.judge(predict, here)
    assert 0.8 < figures["coverage"] < 0.97
    assert figures["coverage_gap"] < 0.5  # and nothing of it where there are none


def test_every_regression_method_has_its_row(monkeypatch):
    monkeypatch.setattr(regression, "LENGTHS", (8,))
    found = regression.run(["gap"], [0])["gap"]
    assert set(found) == set(leaderboard.regression.REGRESSION_METHODS)
    for name, row in found.items():
        assert np.isfinite(row["coverage_gap"]).all(), name
        assert np.isfinite(row["nll"]).all() == (name != "conformal quantiles")
    assert regression.markdown({"gap": found}).count("\n| ") == 2 + len(found)


def test_the_stored_regressions_are_those_of_the_stored_results():
    from benchmarks.provenance import RESULTS

    kept = regression.stored()
    own = json.loads((RESULTS / "reproduce_leaderboard.json").read_text())["regression"]
    uci = json.loads((RESULTS / "reproduce_leaderboard_further.json").read_text())["uci"]
    assert set(kept) == {*own, *uci}
    assert set(own) == set(regression.TASKS)
    for name, rows in {**own, **uci}.items():
        assert set(kept[name]) == set(regression.REGRESSION_METHODS)
        for method, row in rows.items():
            for column, values in row.items():
                got = kept[name][method][column]
                assert got.shape == (5,)
                assert np.array_equal(got, np.array(values, float), equal_nan=True)


def test_a_table_of_ones_own_is_read(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "mine.csv", rng.normal(size=(50, 3)), delimiter=",")
    here = regression.table_task(tmp_path / "mine.csv")
    assert [len(part[0]) for part in (here.train, here.validation, here.test)] == [30, 10, 10]
    assert here.train[0].mean(axis=0) == pytest.approx(0, abs=1e-6)
    (tmp_path / "words.csv").write_text("a,b\nc,d\n")
    with pytest.raises(ValueError, match=r"words\.csv: expected rows of numbers"):
        regression.table_task(tmp_path / "words.csv")


def test_two_tables_of_one_name_are_refused_rather_than_filed_as_one(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        np.savetxt(tmp_path / folder / "mine.txt", np.random.default_rng(0).normal(size=(50, 3)))
    known = {"alike": lambda train, validation, seed: lambda x: (np.zeros(len(x)), np.ones(len(x)))}
    paths = [tmp_path / "one" / "mine.txt", tmp_path / "two" / "mine.txt"]
    for tasks in (paths, ["gap", tmp_path / "gap.txt"], [tmp_path / "a.csv", tmp_path / "a.txt"]):
        with pytest.raises(ValueError, match=r"^tasks: expected files of different names, got .* filed as"):
            regression.run(tasks, [0], known)
    with pytest.raises(ValueError, match=r"^tasks: expected a sequence of names and files, got 'gap' alone"):
        regression.run("gap", [0], known)
    assert list(regression.run([paths[0], "gap"], [0], known)) == ["mine", "gap"]


def test_targets_that_are_all_the_same_cannot_be_measured_in_their_spread(tmp_path):
    rows = np.column_stack([np.random.default_rng(0).normal(size=(50, 2)), np.ones(50)])
    np.savetxt(tmp_path / "flat.txt", rows)
    with pytest.raises(ValueError, match=r"^targets: expected some that differ"):
        regression.table_task(tmp_path / "flat.txt")


def test_columns_say_how_they_are_written():
    for column in columns.COLUMNS.values():
        assert format(0.5, column.form)
        assert column.best in ("min", "max", None)


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
def test_a_difference_comes_in_the_unit_of_its_figures(unit):
    rng = np.random.default_rng(0)
    figures, resampled = rng.normal(size=(2, 5)), rng.normal(size=(2, 30))
    for given in ((), tuple(resampled)):
        plain = np.array(leaderboard.difference(*figures, *given))
        scaled = leaderboard.difference(*(unit * part for part in (*figures, *given)))
        assert np.array_equal(np.array(scaled), unit * plain)


@pytest.mark.parametrize("level", [0.0, 1.0, 2.0, "x"])
def test_a_level_without_an_interval_is_refused_by_name(level):
    table = np.random.default_rng(0).normal(size=(4, 9))
    with pytest.raises(ValueError, match=r"^level: expected a number"):
        leaderboard.difference([1.0, 2.0], [1.0, 3.0], level=level)
    with pytest.raises(ValueError, match=r"^level: expected a number"):
        leaderboard.agreement(table, table, table, table, level=level)
    with pytest.raises(ValueError, match=r"^alpha: expected a number"):
        leaderboard.critical_difference(3, 5, level)


def test_levels_that_are_none_are_refused_and_give_no_nan():
    figures, drawn = np.random.default_rng(0).random((4, 5)), np.random.default_rng(1).random((4, 9))
    for level in (95, 1, 0, -0.5):
        with pytest.raises(ValueError, match="level: expected a number"):
            leaderboard.difference([1.0, 2.0, 3.0], [0.0, 0.0, 1.0], level=level)
        with pytest.raises(ValueError, match="level: expected a number"):
            leaderboard.agreement(figures, figures, drawn, drawn, level=level)


def test_a_bound_on_the_epistemic_part_is_no_other_name_for_the_total():
    total = np.array([0.1, 0.2])
    bound = leaderboard.largest_epistemic(total)
    bound[:] = 9
    assert total.tolist() == [0.1, 0.2]
