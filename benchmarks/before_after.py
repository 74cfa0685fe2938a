"""``python -m benchmarks.before_after FOLDER [NAME ...]``: our rows with two versions of the package.

``FOLDER`` holds the other version (``pip install --no-deps --target FOLDER
some.whl``). A process for each version goes through the rows of each benchmark;
at each row the two take turns, so that a slow minute of the machine meets both,
and the median of each counts. Baselines and limits are left out, and what the other
version lacks is passed over. Named benchmarks replace their stored rows, and
leave the others.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.timing import seconds

ROUNDS = 5
LOST = 1.1  # times as long as before is slower by more than a tenth
# Sizes at which a row takes a good part of a second at the most.
SIZES = {
    "bayesian_linear_regression": {"n": 200_000, "wide": 500},
    "ddu": {"inputs": 20_000, "images": 500},
    "laplace": {"inputs": 20_000},
    "mc_dropout": {"inputs": 1_000},
    "metrics": {"inputs": 200_000},
    "odin": {"inputs": 500},
    "variational_inference": {"steps": 20},
}


# --- one version ----------------------------------------------------------------------------------------


def serve(name):
    """Go through the rows of a benchmark; at each, run ours whenever the other side says so."""
    from benchmarks import timing

    told = Told(sys.stdin, os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)  # what others print does not stand between
    timing.row, timing.in_turn = told.row, told.in_turn
    timing.installed = lambda module: module == "jax"
    timing.best_of = lambda function, repeats: 1.0
    importlib.import_module(f"benchmarks.bench_{name}").rows(**SIZES.get(name, {}))


class Told:
    """What stands in for the timing of a row: it is timed as often as it is told, and not else."""

    def __init__(self, heard, said):
        self.heard, self.said = heard, said

    def say(self, what):
        print(json.dumps(what), file=self.said, flush=True)

    def row(self, name, ours, *others):
        self.say(name)
        while self.heard.readline().strip() == "run":
            self.say(seconds(ours))
        return dict.fromkeys(("ours_s", "baseline_s", "ratio", "limit_s", "over_limit"), 1.0) | {
            "name": name,
            "note": "",
        }

    def in_turn(self, functions, repeats, ours=()):
        for name, function in zip(ours, functions, strict=False):
            if name:
                self.row(name, function)
        return [1.0] * len(functions)


# --- both -------------------------------------------------------------------------------------------------


class Version:
    """A process that serves one version of the package."""

    def __init__(self, name, folder):
        root = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, [folder, root]))
        command = [sys.executable, "-m", "benchmarks.before_after", "--serve", name]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=folder or root,
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "TQDM_DISABLE": "1"},
        )

    def hear(self):
        """What it says next; nothing where it has come to an end."""
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def tell(self, what):
        print(what, file=self.process.stdin, flush=True)

    def run(self):
        """The seconds of a row, once more."""
        self.tell("run")
        return self.hear()

    def end(self):
        self.process.kill()
        self.process.wait()


def in_order(versions, turned):
    """The seconds of both, side by side; whoever began last time is second this time."""
    times = [version.run() for version in (versions[::-1] if turned else versions)]
    return times[::-1] if turned else times


def compared(name, folder, rounds=ROUNDS):
    """The rows of one benchmark: the median seconds of the other version and of this one, and of their ratio.

    The ratio is that of two runs side by side: what disturbs both leaves it as it is.
    """
    versions = [Version(name, folder), Version(name, None)]
    try:
        found = {}
        while True:
            said = [version.hear() for version in versions]
            if None in said or said[0] != said[1]:
                return found
            for version in versions:
                version.run()  # the first call of anything is slower
            times = [in_order(versions, number % 2) for number in range(rounds)]
            columns = [*zip(*times, strict=True), [after / before for before, after in times]]
            again = sum(what.startswith(said[1]) for what in found)
            what = f"{said[1]} ({again + 1})" if again else said[1]
            found[what] = [statistics.median(column) for column in columns]
            for version in versions:
                version.tell("next")
    finally:
        for version in versions:
            version.end()


def kept(measured):
    """The stored rows of the benchmarks that are not measured anew; none where all are."""
    from benchmarks.provenance import RESULTS

    path = RESULTS / "before_after.json"
    rows = json.loads(path.read_text())["rows"] if measured and path.exists() else {}
    return {name: each for name, each in rows.items() if name not in measured}


def page(found):
    """The table as Markdown."""
    from benchmarks.tables import markdown

    rows = [
        [f"`{name}`", what, f"{before:.4f}", f"{after:.4f}", f"{ratio:.2f}"]
        for name, each in found.items()
        for what, (before, after, ratio) in each.items()
    ]
    head = ["benchmark", "row", "before (s)", "after (s)", "after / before"]
    return f"# Speed before and after\n\n{markdown(head, rows)}"


def main():
    """Measure, print and store."""
    from benchmarks.bench import stems
    from benchmarks.provenance import store

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--serve")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    if options.serve:
        return serve(options.serve)
    folder = str(Path(options.folder).resolve())
    found = {name: compared(name, folder, options.rounds) for name in options.names or stems()}
    found = kept(options.names) | {name: each for name, each in found.items() if each}
    print(page(found))
    slower = [what for each in found.values() for what, (*_, ratio) in each.items() if ratio > LOST]
    print("\nslower by more than a tenth:", ", ".join(slower) or "none")
    found = dict(sorted(found.items()))
    return store("before_after", {"rows": found}, page(found))


if __name__ == "__main__":
    main()
