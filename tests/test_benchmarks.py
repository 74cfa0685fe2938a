"""The benchmarks run, at a size that takes seconds; what they say of speed holds with a wide margin."""

import collections
import json

import pytest

from benchmarks import (
    bench,
    bench_active_learning,
    bench_conformal,
    bench_ddu,
    bench_mc_dropout,
    provenance,
    reproduce,
)


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
        assert bench.line(rows[f"{masks} masks"]).count("|") == 7


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


def test_detectors_were_no_slower_than_pytorch_ood():
    path = provenance.RESULTS / "bench_odin.json"
    rows = json.loads(path.read_text())["rows"]
    assert {row["name"].split(",")[0] for row in rows} == {"ODIN", "energy", "Mahalanobis"}
    assert all(row["baseline"].startswith("pytorch-ood") and row["ratio"] <= 1 for row in rows)


def test_sets_were_as_many_times_as_fast_as_mapies_as_promised():
    rows = stored_rows("conformal")
    for name, bound in bench_conformal.BOUNDS.items():
        assert rows[f"{name} sets"]["ratio"] < 1 / bound
    assert rows["LAC sets"]["same"] == 1
    assert rows["CQR intervals"]["same"] == 1
    assert rows["CQR intervals, beside copying"]["ratio"] <= 2


@pytest.mark.parametrize("kind", ["wide", "of five members"])
def test_a_hundred_thousand_boxes_took_two_seconds(kind):
    rows = stored_rows("conformal")
    assert rows[f"lower entropy, {kind}"]["ours_s"] + rows[f"upper entropy, {kind}"]["ours_s"] <= 2


def test_the_benchmark_of_sets_and_boxes_runs_small():
    rows = {row["name"]: row for row in bench_conformal.rows(inputs=3000, boxes=200, repeats=1)}
    assert len(rows) == 9
    assert all(row["ours_s"] > 0 for row in rows.values())


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
