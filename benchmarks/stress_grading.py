"""``python -m benchmarks.stress_grading``: the grader at size, killed half-way, and over a cluster.

Two hundred submissions, right, wrong, crashing, looping and hostile, of the
small exercise in ``tests/grading``: what each honestly earns is known. Among
them are those that aim at the others: names that would share a file, one that
ends at its deadline, one that starts many busy processes, one whose answer is
huge. The figures are stored beside those of the other benchmarks.
"""

import argparse
import contextlib
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

from benchmarks import tables
from tests.grading.corpus import DOUBLE, corpus, notebook
from uqhelpers.grading._submissions import slug

ROOT = Path(__file__).resolve().parents[1]
CHECKS = ROOT / "tests" / "grading" / "toy_checks.py"
LIMITS = {"cell": 4, "call": 3, "total": 30, "memory": 700, "disk": 32, "processes": 48}
SECRET = "5eed" * 16  # the same for every run, so that they can be compared
# A class: of ten, six that work, two that crash or loop, two that attack.
HONEST = ["everything_right", "one_right", "all_wrong", "everything_right", "shell_and_magics", "unanswered"]
TROUBLE = ["crashing_cells", "crashing_answer", "loop_in_an_answer", "loop_in_a_cell", "os_exit_in_a_cell"]
ENDS_AT_THE_DEADLINE = [
    "import os, time\nbegan = time.time()",
    *["time.sleep(3.5)"] * 8,
    "os._exit(0)",
    DOUBLE,
]
EATS_TIME = """import os, time
end = time.time() + 3
for _ in range(28):
    if os.fork() == 0:
        os.setsid()
        while time.time() < end:
            pass
        os._exit(0)
while time.time() < end:
    pass"""
HUGE = "double = lambda x: ['x' * 500_000] + ['y'] * 2000"
SPITEFUL = {  # cells, and what they honestly earn
    "ann lee": ([DOUBLE], 2),
    slug("ann lee"): (["x = 1"], 0),
    slug("ann lee")[:18]: (["x = 2"], 0),
    "ends at the deadline": (ENDS_AT_THE_DEADLINE, 0),
    "eats its neighbours' time": ([EATS_TIME, DOUBLE], 2),
    "huge answer": ([HUGE], 0),
}


def make_class(folder, count, out):
    """Write ``count`` submissions; returns what each student honestly earns.

    From forty on, the last are the spiteful ones.
    """
    entries = corpus(ROOT, folder, out)
    spiteful = SPITEFUL if count >= 40 else {}
    attacks = sorted(set(entries) - set(HONEST) - set(TROUBLE))
    earns = {}
    for student, (cells, points) in spiteful.items():
        (Path(folder) / f"{student}.ipynb").write_bytes(notebook(cells))
        earns[student] = points
    for number in range(count - len(spiteful)):
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
        state = {"format": 2, "exercise": "toy", "secret": SECRET}
        (out / "state.json").write_text(json.dumps(state))
    command = [sys.executable, "-m", "uqhelpers.grading", "grade", "toy", str(submissions), "--out", str(out)]
    command += ["--checks", str(CHECKS), "--quiet", "--jobs", str(jobs)]
    command += ["--dask", "local"] if dask else []
    for name, value in LIMITS.items():
        command += [f"--{name}", str(value)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TOPSECRET": "TOPSECRET"}
    environment["TMPDIR"] = str(temporary(out))
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def temporary(out):
    """Where a batch keeps what it needs while it runs: everything that it starts can be told by this name."""
    folder = Path(out).with_suffix(".tmp")
    folder.mkdir(exist_ok=True)
    return folder


def left_behind(out, seconds=10):
    """What still runs of a batch, or lies in its folder, some seconds after its end: processes and paths."""
    mark, end = os.fsencode(temporary(out)), time.monotonic() + seconds
    while True:
        running = []
        for process in Path("/proc").glob("[0-9]*"):
            for fact in ("cmdline", "environ", "mountinfo"):
                with contextlib.suppress(OSError):
                    if mark in (process / fact).read_bytes():
                        running.append(process.name)
                        break
        left = running + [path.name for path in temporary(out).iterdir() if path.name.startswith("uqhelpers")]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


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
    assert left_behind(out) == [], "something goes on after the end of the batch"
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
    assert left_behind(out) == [], "something goes on after the batch was killed"
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
        "wall time a submission": f"{result['seconds'] / result['count']:.2f} s",
        "one, median": f"{statistics.median(each):.1f} s",
        f"one, longest (`{worst.partition('_')[2] or worst}`)": f"{max(each):.1f} s",
        "the parent's memory, grown while it graded": f"{memory_growth(result):.1f} MiB",
        "killed (`kill -9`) with so many grades, resumed": f"{result['kept_when_killed']}, the same CSV",
    }
    if "cluster_seconds" in result:
        rows["over Dask, 2 workers"] = f"{result['cluster_seconds']:.0f} s, the same CSV"
    return "# The grader at size\n\n" + tables.markdown(["what", "figure"], rows.items())


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
