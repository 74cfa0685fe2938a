"""``python -m benchmarks.bench [NAME ...]``: our ways beside the naive ones, timed in one run.

Every ``benchmarks/bench_<stem>.py`` has a function ``rows`` that measures and
returns rows. The results are stored as Markdown and JSON in
``benchmarks/results``.
"""

import argparse
import importlib
from pathlib import Path

from benchmarks.provenance import store

HEAD = "| what | ours (s) | beside | theirs (s) | theirs / ours | note |\n" + "| --- " * 6 + "|\n"


def stems():
    """The benchmarks that there are."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def line(entry):
    """One row of the table; what was not measured stays empty."""
    ours, theirs = (f"{entry[key]:.3f}" if entry[key] else "" for key in ("ours_s", "baseline_s"))
    faster = f"{1 / entry['ratio']:.1f} ×" if entry["ratio"] else ""
    return f"| {' | '.join([entry['name'], ours, entry['baseline'], theirs, faster, entry['note']])} |"


def main():
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=[], help=f"of {', '.join(stems())}; all without any")
    names = parser.parse_args().names or stems()
    for name in names:
        if name not in stems():
            parser.error(f"expected names of {', '.join(stems())}, got {name!r}")
    for name in names:
        rows = importlib.import_module(f"benchmarks.bench_{name}").rows()
        table = HEAD + "\n".join(map(line, rows))
        print(f"\n{name}\n\n{table}", flush=True)
        store(f"bench_{name}", {"rows": rows}, f"# Speed: `{name}`\n\n{table}")


if __name__ == "__main__":
    main()
