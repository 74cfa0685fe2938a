"""The benchmark runs, and what costs memory or import time stays small."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def bench():
    path = ROOT / "benchmarks" / "bench_metrics.py"
    if not path.exists():
        pytest.skip("benchmarks/ is not beside the tests")
    spec = importlib.util.spec_from_file_location("bench_metrics", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_of_the_benchmark_is_measured(bench):
    table = bench.rows(inputs=2000, samples=4, repeats=1)
    assert {entry["name"] for entry in table} == {
        "decompose",
        "SampleAccumulator",
        "expected_calibration_error",
        "adaptive_calibration_error",
        "fit_temperature",
        "aurc",
    }
    for entry in table:
        assert entry["ours_s"] > 0
        if entry["baseline_s"] is None:
            assert "baseline not installed" in entry["note"]
        else:
            assert entry["ratio"] == pytest.approx(entry["ours_s"] / entry["baseline_s"])


def test_the_plain_formulas_it_is_compared_with_agree(bench):
    from uqhelpers import metrics

    probs = bench.draw((3, 50, 4), 0)
    mean, total, aleatoric, epistemic = bench.plain_decomposition(probs)
    parts = metrics.decompose(probs)
    assert parts.mean == pytest.approx(mean)
    assert parts.total == pytest.approx(total)
    assert parts.aleatoric == pytest.approx(aleatoric)
    assert parts.epistemic == pytest.approx(epistemic, abs=1e-12)
    score, wrong = metrics.msp_score(probs), probs[0].argmax(axis=1) > 1
    assert metrics.aurc(score, wrong) == pytest.approx(bench.plain_aurc(score, wrong))


def test_the_accumulators_memory_does_not_grow_with_the_samples(bench):
    few, many = (bench.accumulator_peak(count, 5000, 10) for count in (5, 500))
    assert many < 1.05 * few
    assert many < 8 * 5000 * 10 * 8  # a few arrays of one sample's size


def test_decomposing_takes_little_more_memory_than_its_result(bench):
    import tracemalloc

    from uqhelpers import metrics

    probs = bench.draw((50, 5000, 10), 0)
    tracemalloc.start()
    try:
        metrics.decompose(probs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < probs.nbytes / 4


def test_importing_the_metrics_loads_nothing_heavy():
    code = (
        "import sys, uqhelpers.metrics; "
        "print([m for m in ('torch', 'jax', 'sklearn', 'scipy', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
