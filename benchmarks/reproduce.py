"""``python -m benchmarks.reproduce [NAME ...]``: published tables beside our own figures (MNIST edition).

Every ``benchmarks/reproduce_<stem>.py`` has a function ``reproduce(progress)``
that returns the content for JSON, the same as Markdown, and the seeds. What has
been computed is kept in ``_build/reproduce``: an interrupted run goes on where
it stopped. The results are stored in ``benchmarks/results``.
"""

import argparse
import collections
import importlib
import json
from pathlib import Path

from benchmarks.provenance import ROOT, code_hash, replace, store, surroundings

origins = collections.defaultdict(list)
"""By script: where the parts that ``kept`` has given out were computed."""


def stems():
    """The tables that there are."""
    return sorted(
        path.stem.removeprefix("reproduce_") for path in Path(__file__).parent.glob("reproduce_*.py")
    )


def kept(name, seed, compute):
    """The result of ``compute()`` for one seed, from an earlier run of the same code if there is one.

    Where it was computed is kept beside it, for it may have been another machine.
    """
    path = ROOT / "_build" / "reproduce" / f"{name}-{seed}-{code_hash(name)}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, json.dumps({"where": surroundings(name), "result": compute()}))
    part = json.loads(path.read_text())
    if part["where"] not in origins[name]:
        origins[name].append(part["where"])
    return part["result"]


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
        # Not this module's own list where it runs as a script: the tables import it by its name.
        parts = importlib.import_module("benchmarks.reproduce").origins[f"reproduce_{name}"]
        store(f"reproduce_{name}", content, markdown, seeds, parts)


if __name__ == "__main__":
    main()
