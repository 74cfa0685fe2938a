"""The benchmarks run, at a size that takes seconds; what they say of speed holds with a wide margin."""

import collections
import io
import json
import re

import numpy as np
import pytest

from benchmarks import (
    before_after,
    bench,
    bench_active_learning,
    bench_conformal,
    bench_ddu,
    bench_language_models,
    bench_mc_dropout,
    bench_mcmc,
    bench_report,
    limits,
    provenance,
    reproduce,
    reproduce_laplace_and_vi,
    tables,
    timing,
)
from tools.book import ROOT
from uqhelpers._torch import torch


def test_every_benchmark_and_every_table_can_be_run_by_name():
    assert {"mc_dropout", "metrics"} <= set(bench.stems())
    assert "first_seed" in reproduce.stems()


def test_passes_are_not_repeated_where_they_are_all_the_same(monkeypatch):
    """Half of what `make bench` has to show, on a machine that does other things meanwhile."""
    peak = bench_mc_dropout.peak_memory  # of hundreds of passes: here a few will do
    monkeypatch.setattr(bench_mc_dropout, "peak_memory", lambda net, images, n: peak(net, images[:9], n // 5))
    rows = {row["name"]: row for row in bench_mc_dropout.rows(inputs=250, passes=20, repeats=1)}
    for masks, bound in bench_mc_dropout.BOUNDS.items():
        assert 1 / rows[f"{masks} masks"]["ratio"] > bound / 2
        assert len(bench.line(rows[f"{masks} masks"])) == len(bench.HEAD)


def test_a_stored_figure_says_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "RESULTS", tmp_path)
    provenance.store("bench_mc_dropout", {"rows": []}, "# Title", seeds=(1, 2))
    stored = json.loads((tmp_path / "bench_mc_dropout.json").read_text())
    assert {"code", "date", "machine", "python", "versions", "seeds", "rows"} == set(stored)
    assert stored["seeds"] == [1, 2]
    assert stored["versions"]["torch"]
    assert stored["code"] in (tmp_path / "bench_mc_dropout.md").read_text()
    assert not list(tmp_path.glob("*.part"))


def test_the_hash_changes_with_what_the_benchmark_uses_and_with_nothing_else(tmp_path, monkeypatch):
    for path in ("benchmarks/b.py", "uqhelpers/__init__.py", "uqhelpers/used.py", "uqhelpers/other.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("from uqhelpers import used\n" if path.endswith("b.py") else "")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    before = provenance.code_hash("b")
    (tmp_path / "uqhelpers/other.py").write_text("x = 1\n")
    assert provenance.code_hash("b") == before
    (tmp_path / "uqhelpers/used.py").write_text("x = 1\n")
    assert provenance.code_hash("b") != before


def test_what_was_computed_is_not_computed_again_and_says_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "ROOT", tmp_path)
    monkeypatch.setattr(reproduce, "origins", collections.defaultdict(list))
    for module in (reproduce, provenance):
        monkeypatch.setattr(module, "code_hash", lambda name: "same")
    assert reproduce.kept("table", 0, lambda: [1.5]) == [1.5]
    assert reproduce.kept("table", 0, lambda: pytest.fail("computed twice")) == [1.5]
    monkeypatch.setattr(provenance, "processor", lambda: "another one")
    assert reproduce.kept("table", 1, lambda: [2.5]) == [2.5]
    first, second = reproduce.origins["table"]
    assert second["machine"].startswith("another one, ")
    assert first["machine"] != second["machine"]
    assert first["versions"] == second["versions"]
    assert set(reproduce.origins) == {"table"}


def test_a_stored_table_names_the_other_machines_that_parts_of_it_come_from(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "RESULTS", tmp_path)
    monkeypatch.setattr(provenance, "code_hash", lambda name: "same")
    here = provenance.surroundings("table")
    there = {**here, "machine": "a larger one"}
    provenance.store("table", {"runs": []}, "# Table", (3, 4), [{**here, "date": "2001-01-01"}, there])
    page, content = (tmp_path / "table.md").read_text(), json.loads((tmp_path / "table.json").read_text())
    assert content["parts"] == [there]
    assert page.startswith("# Table\n\n*Code same; ")
    assert f"{here['machine']}; Python" in page
    assert "seeds 3, 4. Parts of it: code same; " in page
    assert page.count("a larger one") == 1


@pytest.mark.parametrize("stored", sorted(provenance.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_stored_results_are_complete(stored):
    content = json.loads(stored.read_text())
    assert {"code", "date", "machine", "python", "versions", "seeds"} <= set(content)
    assert stored.with_suffix(".md").exists()


def test_calibration_is_ahead_of_both_libraries_in_the_stored_run():
    rows = json.loads((provenance.RESULTS / "bench_metrics.json").read_text())["rows"]
    wanted = {"expected_calibration_error", "adaptive_calibration_error", "fit_temperature"}
    beside = [row for row in rows if row["name"] in wanted and row["baseline"] in ("torchmetrics", "netcal")]
    assert {row["name"] for row in beside} == wanted
    assert {row["baseline"] for row in beside} == {"torchmetrics", "netcal"}
    assert all(row["ratio"] < 1 for row in beside)  # our time over theirs


def stored_rows(stem):
    """The rows of a stored benchmark by what they are called."""
    path = provenance.RESULTS / f"bench_{stem}.json"
    if not path.exists():
        pytest.skip(f"nothing is stored for {stem}: `make bench` measures it")
    return {row["name"]: row for row in json.loads(path.read_text())["rows"]}


@pytest.mark.parametrize("members", [6, 32])
def test_all_members_at_once_were_eight_times_as_fast_as_a_loop(members):
    assert stored_rows("deep_ensembles")[f"{members} members"]["ratio"] < 1 / 8


def test_thirty_two_members_were_ahead_with_compilation_too():
    assert stored_rows("deep_ensembles")["32 members, compilation included"]["ratio"] < 1


def test_densities_were_as_many_times_as_fast_as_promised():
    rows = stored_rows("ddu")
    for name, bound in bench_ddu.BOUNDS.items():
        assert rows[f"density of features, {name}"]["ratio"] < 1 / bound


def test_detectors_were_as_fast_as_pytorch_ood():
    # In batches of one size both make the same three passes: equal but for the clock.
    path = provenance.RESULTS / "bench_odin.json"
    rows = json.loads(path.read_text())["rows"]
    assert {row["name"].split(",")[0] for row in rows} == {"ODIN", "energy", "Mahalanobis"}
    assert all(row["baseline"].startswith("pytorch-ood") and row["ratio"] <= 1.05 for row in rows)


def test_sets_were_as_many_times_as_fast_as_mapies_as_promised():
    rows = stored_rows("conformal")
    for name, bound in bench_conformal.BOUNDS.items():
        assert rows[f"{name} sets"]["ratio"] < 1 / bound
    assert rows["LAC sets"]["same"] == 1
    assert rows["CQR intervals"]["same"] == 1
    assert rows["CQR intervals, beside copying"]["ratio"] <= 2


def test_chains_were_ahead_of_nuts_and_predicted_the_same():
    rows = json.loads((provenance.RESULTS / "bench_mcmc.json").read_text())["rows"]
    beside = [row for row in rows if row.get("settings")]
    kinds = {(row["problem"], row["baseline"].split()[0], row["settings"]) for row in beside}
    for name in bench_mcmc.DEPTHS:
        assert {(name, "BlackJAX", "defaults"), (name, "NumPyro", "defaults")} < kinds
        assert (name, "BlackJAX", "best depth") in kinds
    for row in beside:
        assert row["ratio"] < (1 / bench_mcmc.BOUND if row["settings"] == "defaults" else 1)
        assert row["apart"] < 2  # standard errors: places move together, so 1 is only the average


def test_chains_in_one_call_were_ahead_of_a_loop_over_chains():
    rows = stored_rows("mcmc")
    for name, bound in (("moons: network", "network"), ("gap: network", "network"), ("banana", "banana")):
        assert rows[f"{name}, fixed step"]["ratio"] < 1 / bench_mcmc.LOOP[bound]


@pytest.mark.parametrize("kind", ["wide", "of five members"])
def test_a_hundred_thousand_boxes_took_two_seconds(kind):
    rows = stored_rows("conformal")
    assert rows[f"lower entropy, {kind}"]["ours_s"] + rows[f"upper entropy, {kind}"]["ours_s"] <= 2


def test_the_benchmark_of_sets_and_boxes_runs_small():
    rows = {row["name"]: row for row in bench_conformal.rows(inputs=3000, boxes=200, repeats=1)}
    assert len(rows) == 9
    assert all(row["ours_s"] > 0 for row in rows.values())


def test_answers_were_drawn_as_many_times_as_fast_as_promised():
    rows = stored_rows("language_models")
    for name, bound in bench_language_models.BOUNDS.items():
        assert rows[f"samples, {name}"]["ratio"] < 1 / bound
        assert rows[f"samples, {name}"]["same"] > 0.999


def test_the_benchmark_of_answers_runs_small_and_draws_the_same():
    rows = bench_language_models.rows(prompts=8, samples=20, repeats=1, epochs=1)
    assert len(rows) == len(bench_language_models.BOUNDS)
    assert all(row["same"] > 0.98 for row in rows)


def test_a_card_of_a_million_predictions_kept_to_its_seconds_and_its_memory():
    rows = stored_rows("report")
    assert len(rows) == 3
    for row in rows.values():
        assert "1,000,000" in row["note"]
        assert row["ours_s"] <= bench_report.SECONDS
        assert row["peak_bytes"] < bench_report.GIBIBYTES * 2**30


def test_the_benchmark_of_cards_runs_small():
    rows = bench_report.rows(inputs=2000, repeats=1)
    assert [row["ratio"] is None for row in rows] == [False, True, True]
    assert all(row["peak_bytes"] > 0 for row in rows)


# --- the least there is to do -------------------------------------------------------------------------------


def test_a_limit_does_the_work_that_it_names():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 7))
    assert limits.one_pass(x, x[0])() == pytest.approx([x.sum(), x[0].sum()])
    assert np.allclose(np.triu(limits.gram(x)()), np.triu(x.T @ x))
    assert np.allclose(limits.gram(x.astype(np.float32))()[0, 0], (x[:, 0] ** 2).sum(), atol=1e-4)
    assert limits.product(3, 5, 2)().tolist() == [[5.0, 5.0]] * 3
    assert limits.whitened(4, 3)().shape == (3, 4)
    assert limits.several(limits.product(1, 2, 1), limits.one_pass(x))()[0].item() == 2


def test_a_function_of_every_number_meets_every_number_once():
    met = []

    def function(part, out):
        met.append(part.copy())
        out[:] = part

    x = np.arange(2.5 * limits.CACHED).reshape(5, -1)
    limits.elementwise(function, x, x[0])()
    assert np.array_equal(np.concatenate(met), np.concatenate([x.ravel(), x[0]]))
    assert max(map(len, met)) <= limits.CACHED


def test_a_network_is_passed_once_and_back():
    seen = []
    network = torch.nn.Linear(3, 2)
    network.register_forward_hook(lambda layer, given, out: seen.append((len(given[0]), out.requires_grad)))
    x = np.ones((7, 3), np.float32)
    limits.passes(network, x, batch=4)()
    limits.passes_and_back(network, x, batch=4)()
    assert seen == [(4, False), (3, False), (4, True), (3, True)]
    assert network.weight.grad is None


@pytest.mark.parametrize(("ours", "told"), [(1.9, False), (2.1, True)])
def test_what_takes_more_than_twice_its_limit_says_why(ours, told):
    limit = limits.Limit("one sort", sorted, why="it is done by hand")
    row = limits.beside({"ours_s": ours, "note": "ten inputs"}, limit, 1.0)
    assert row["over_limit"] == ours
    assert row["note"].startswith("ten inputs; limit: one sort")
    assert ("above it: it is done by hand" in row["note"]) == told


def test_ours_its_limit_and_the_baseline_take_turns():
    order = []
    limit = limits.Limit("half of the work", lambda: order.append("limit"), times=2.0)
    row = timing.row("x", lambda: order.append("ours"), "y", lambda: order.append("theirs"), 2, "note", limit)
    assert order == ["ours", "limit", "theirs"] * 2
    assert row["over_limit"] == pytest.approx(row["ours_s"] / row["limit_s"])
    assert len(bench.line(row)) == len(bench.HEAD)


STORED = sorted(provenance.RESULTS.glob("bench_*.json"))


@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.stem)
def test_every_stored_row_has_its_limit_and_a_reason_where_it_is_far(stored):
    for row in json.loads(stored.read_text())["rows"]:
        assert row["limit_s"] > 0, row["name"]
        assert row["over_limit"] == pytest.approx(row["ours_s"] / row["limit_s"])
        assert "; limit: " in row["note"]
        assert row["over_limit"] <= limits.ENOUGH or re.search("above it: (?!unexplained)", row["note"])
    page = stored.with_suffix(".md").read_text()
    rows = json.loads(stored.read_text())["rows"]
    assert tables.markdown(bench.HEAD, map(bench.line, rows)) in page


# --- tables ---------------------------------------------------------------------------------------------


def test_a_table_is_a_head_a_rule_and_rows():
    assert tables.markdown(["a", "b"], [["1", ""], ["2", "x"]]).splitlines() == [
        "| a | b |",
        "| --- | --- |",
        "| 1 |  |",
        "| 2 | x |",
    ]
    assert tables.markdown(["a", "b"], [], numbers=True).splitlines()[1] == "| --- | --: |"


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="rows: expected 2 cells"):
        tables.markdown(["a", "b"], [["1"]])


def test_no_table_is_joined_by_hand():
    by_hand = re.compile(r"\| --|' \| '|\" \| \"")
    scripts = set((ROOT / "benchmarks").glob("*.py")) - {ROOT / "benchmarks/tables.py"}
    assert not [path.name for path in scripts if by_hand.search(path.read_text(encoding="utf-8"))]


def test_a_spread_is_written_as_everywhere():
    assert tables.spread([1.0, 2.0, 3.0], 2) == "2.00 ± 1.00"
    assert tables.spread([0.5], 1, scale=100) == "50.0"


def test_the_stored_page_of_laplace_and_variational_inference_is_that_of_the_stored_figures():
    path = provenance.RESULTS / "reproduce_laplace_and_vi.json"
    page = reproduce_laplace_and_vi.page(json.loads(path.read_text())["runs"], 55_000)
    assert path.with_suffix(".md").read_text().startswith(page)


# --- two versions -----------------------------------------------------------------------------------------


def test_a_row_runs_as_often_as_it_is_told(monkeypatch):
    said, calls = io.StringIO(), []
    told = before_after.Told(io.StringIO("run\nrun\nnext\nnext\n"), said)
    told.row("first", lambda: calls.append(1), "beside", None)
    told.in_turn([lambda: calls.append(2), lambda: calls.append(3)], 3, [None, "second"])
    assert calls == [1, 1]
    first, *times, second = map(json.loads, said.getvalue().splitlines())
    assert (first, second) == ("first", "second")
    assert len(times) == 2
    assert all(value >= 0 for value in times)


def test_a_page_says_how_many_times_as_long():
    page = before_after.page({"metrics": {"aurc": [0.1, 0.12, 1.25]}})
    assert page.splitlines()[-1] == "| `metrics` | aurc | 0.1000 | 0.1200 | 1.25 |"


@pytest.mark.parametrize("name", list(bench_active_learning.BOUNDS))
def test_batches_were_chosen_as_many_times_as_fast_as_promised_and_were_the_same(name):
    rows = stored_rows("active_learning")
    found = [row for key, row in rows.items() if key.startswith(f"batch_bald, {name}")]
    assert found
    for row in found:
        assert row["ratio"] < 1 / bench_active_learning.BOUNDS[name]
        assert row["same"]
        assert row["mib"] < bench_active_learning.MEMORY


def test_ten_times_the_pool_took_no_more_memory():
    tenth, whole = stored_rows("active_learning")["bald, streamed"]["mib"]
    assert whole < tenth + 64  # a million scores are 8 MB, and sorting them takes some


def test_the_benchmark_of_batches_runs_small():
    rows = bench_active_learning.rows(inputs=200, samples=10, batch=3, streamed=1000, mnist=False)
    assert all(row["same"] for row in rows[:-1])
    assert len(rows) == 2
