"""``python -m benchmarks.stress_grading``: the grader at size, killed half-way, and over a cluster.

Two hundred submissions, right, wrong, crashing, looping and hostile, of the
small exercise in ``tests/grading``: what each honestly earns is known. The
figures are stored beside those of the other benchmarks.
"""

import argparse
import csv
import io
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.grading.corpus import corpus

ROOT = Path(__file__).resolve().parents[1]
CHECKS = ROOT / "tests" / "grading" / "toy_checks.py"
LIMITS = {"cell": 4, "call": 3, "total": 30, "memory": 700, "disk": 32, "processes": 48}
SECRET = "5eed" * 16  # the same for every run, so that they can be compared
# A class: of ten, six that work, two that crash or loop, two that attack.
HONEST = ["everything_right", "one_right", "all_wrong", "everything_right", "shell_and_magics", "unanswered"]
TROUBLE = ["crashing_cells", "crashing_answer", "loop_in_an_answer", "loop_in_a_cell", "os_exit_in_a_cell"]


def make_class(folder, count, out):
    """Write ``count`` submissions; returns what each student honestly earns."""
    entries = corpus(ROOT, folder, out)
    attacks = sorted(set(entries) - set(HONEST) - set(TROUBLE))
    earns = {}
    for number in range(count):
        tens, place = divmod(number, 10)
        if place < 6:
            name = HONEST[place]
        elif place < 8:
            name = TROUBLE[(2 * tens + place) % len(TROUBLE)]
        else:
            name = attacks[(2 * tens + place) % len(attacks)]
        student = f"s{number:03d}_{name}"
        (Path(folder) / f"{student}.ipynb").write_bytes(entries[name].data())
        earns[student] = entries[name].earns
    return earns


def start(submissions, out, *, dask=False, jobs=2, new=True):
    """A batch in a process of its own."""
    out = Path(out)
    if new:
        out.mkdir(parents=True)
        state = {"format": 1, "exercise": "toy", "secret": SECRET}
        (out / "state.json").write_text(json.dumps(state))
    command = [sys.executable, "-m", "uqhelpers.grading", "grade", "toy", str(submissions), "--out", str(out)]
    command += ["--checks", str(CHECKS), "--quiet", "--jobs", str(jobs)]
    command += ["--dask", "local"] if dask else []
    for name, value in LIMITS.items():
        command += [f"--{name}", str(value)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TOPSECRET": "TOPSECRET"}
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finished(out):
    """How many grades are kept so far."""
    folder = Path(out) / "records"
    return sum(path.suffix == ".json" for path in folder.iterdir()) if folder.is_dir() else 0


def highest_memory(process):
    """The most memory that a process itself has held so far, in MiB."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None


def run(submissions, out, count, **options):
    """A batch to its end: seconds, and the parent's memory by the number of grades kept."""
    began, process, memory = time.perf_counter(), start(submissions, out, **options), {}
    while process.poll() is None:
        value = highest_memory(process)
        if value:
            memory[finished(out)] = value
        time.sleep(0.2)
    said = process.communicate()[0].decode()
    if process.returncode:
        raise RuntimeError(f"the batch failed: {said}")
    return {"seconds": time.perf_counter() - began, "memory": memory, "count": count}


def run_killed(submissions, out, count):
    """A batch that is killed half-way and started again; returns the grades kept when it died."""
    process = start(submissions, out)
    while process.poll() is None and finished(out) < count // 2:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    kept = finished(out)
    again = start(submissions, out, new=False)
    said = again.communicate()[0].decode()
    if again.returncode:
        raise RuntimeError(f"the batch failed when it was resumed: {said}")
    return kept


def scores(out):
    """What each student got, from the CSV."""
    text = (Path(out) / "grades.csv").read_text(encoding="utf-8")
    return {row["student"]: float(row["score"]) for row in csv.DictReader(io.StringIO(text))}


def table(out):
    return (Path(out) / "grades.csv").read_bytes()


def times(out):
    """Seconds of each submission."""
    records = [json.loads(path.read_text()) for path in sorted((Path(out) / "records").glob("*.json"))]
    return {record["student"]: record["seconds"] for record in records}


def stress(count, folder, dask=True):
    """All of it; raises AssertionError if a grade is lost, moved or different.

    Parameters
    ----------
    count : int
        Submissions.
    folder : path
        Empty; outside the folders that submissions can read.
    dask : bool
        Whether to do it over a cluster of two workers, too.

    Returns
    -------
    dict
        What was measured.
    """
    folder = Path(folder)
    submissions = folder / "submissions"
    submissions.mkdir()
    earns = make_class(submissions, count, folder / "whole")
    before = {path.name: path.read_bytes() for path in submissions.iterdir()}
    whole = run(submissions, folder / "whole", count)
    assert scores(folder / "whole") == earns, wrong(folder / "whole", earns)
    kept = run_killed(submissions, folder / "killed", count)
    assert kept < count, "the batch was over before it could be killed"
    assert table(folder / "killed") == table(folder / "whole"), wrong(folder / "killed", earns)
    result = {"count": count, "seconds": whole["seconds"], "kept_when_killed": kept}
    if dask:
        cluster = run(submissions, folder / "cluster", count, dask=True)
        assert table(folder / "cluster") == table(folder / "whole"), wrong(folder / "cluster", earns)
        result["cluster_seconds"] = cluster["seconds"]
    assert {path.name: path.read_bytes() for path in submissions.iterdir()} == before
    quarter = folder / "quarter"
    quarter.mkdir()
    make_class(quarter, count // 4, folder / "part")
    result["quarter_seconds"] = run(quarter, folder / "part", count // 4)["seconds"]
    result["memory"] = {str(done): round(value, 1) for done, value in sorted(whole["memory"].items())}
    result["times"] = times(folder / "whole")
    return result


def wrong(out, earns):
    """The students whose score is not what they earned."""
    return {name: (got, earns.get(name)) for name, got in scores(out).items() if got != earns.get(name)}


def memory_growth(result):
    """MiB that the parent's highest memory grew, from a quarter of the grades to the last."""
    memory = {int(done): value for done, value in result["memory"].items() if int(done) < result["count"]}
    early = [value for done, value in memory.items() if done <= result["count"] // 4]
    return max(memory.values()) - max(early)


def markdown(result):
    each = result["times"].values()
    worst = max(result["times"], key=result["times"].get)
    rows = {
        "submissions": result["count"],
        "all, on 2 cores": f"{result['seconds']:.0f} s",
        "a quarter of them": f"{result['quarter_seconds']:.0f} s",
        "one, median": f"{statistics.median(each):.1f} s",
        f"one, longest (`{worst.partition('_')[2]}`)": f"{max(each):.1f} s",
        "the parent's memory, grown while it graded": f"{memory_growth(result):.1f} MiB",
        "killed (`kill -9`) with so many grades, resumed": f"{result['kept_when_killed']}, the same CSV",
    }
    if "cluster_seconds" in result:
        rows["over Dask, 2 workers"] = f"{result['cluster_seconds']:.0f} s, the same CSV"
    return "# The grader at size\n\n| what | figure |\n| --- | --- |\n" + "\n".join(
        f"| {what} | {figure} |" for what, figure in rows.items()
    )


def main():
    from benchmarks.provenance import store

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--no-dask", action="store_true")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="stress-")
    try:
        result = stress(options.count, folder, dask=not options.no_dask)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(markdown(result))
    store("stress_grading", result, markdown(result))


if __name__ == "__main__":
    main()
