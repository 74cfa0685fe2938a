"""``python -m benchmarks.reproduce [NAME ...]``: published tables beside our own figures (MNIST edition).

Every ``benchmarks/reproduce_<stem>.py`` has a function ``reproduce(progress)``
that returns the content for JSON, the same as Markdown, and the seeds. What has
been computed is kept in ``_build/reproduce``: an interrupted run goes on where
it stopped. The results are stored in ``benchmarks/results``.
"""

import argparse
import importlib
import json
from pathlib import Path

from benchmarks.provenance import ROOT, code_hash, replace, store


def stems():
    """The tables that there are."""
    return sorted(
        path.stem.removeprefix("reproduce_") for path in Path(__file__).parent.glob("reproduce_*.py")
    )


def kept(name, seed, compute):
    """The result of ``compute()`` for one seed, from an earlier run of the same code if there is one."""
    path = ROOT / "_build" / "reproduce" / f"{name}-{seed}-{code_hash(name)}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, json.dumps(compute()))
    return json.loads(path.read_text())


def main():
    """Compute, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=[], help=f"of {', '.join(stems())}; all without any")
    names = parser.parse_args().names or stems()
    for name in names:
        if name not in stems():
            parser.error(f"expected names of {', '.join(stems())}, got {name!r}")
    for name in names:
        content, markdown, seeds = importlib.import_module(f"benchmarks.reproduce_{name}").reproduce()
        print(f"\n{markdown}", flush=True)
        store(f"reproduce_{name}", content, markdown, seeds)


if __name__ == "__main__":
    main()
