"""``python -m benchmarks.bench [NAME ...]``: our ways beside the naive ones and the least there is to do.

Every ``benchmarks/bench_<stem>.py`` has a function ``rows`` that measures and
returns rows. The results are stored as Markdown and JSON in
``benchmarks/results``.
"""

import argparse
import importlib
from pathlib import Path

from benchmarks.provenance import store
from benchmarks.tables import markdown

HEAD = ("what", "ours (s)", "beside", "theirs (s)", "theirs / ours", "limit (s)", "ours / limit", "note")


def stems():
    """The benchmarks that there are."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def line(entry):
    """One row of the table; what was not measured stays empty."""
    ours, theirs, limit = (
        f"{entry[key]:.3f}" if entry[key] else "" for key in ("ours_s", "baseline_s", "limit_s")
    )
    faster = f"{1 / entry['ratio']:.1f} ×" if entry["ratio"] else ""
    over = f"{entry['over_limit']:.1f}"
    return [entry["name"], ours, entry["baseline"], theirs, faster, limit, over, entry["note"]]


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
        table = markdown(HEAD, map(line, rows))
        print(f"\n{name}\n\n{table}", flush=True)
        store(f"bench_{name}", {"rows": rows}, f"# Speed: `{name}`\n\n{table}")


if __name__ == "__main__":
    main()
