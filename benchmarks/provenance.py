"""Where a figure comes from: code, machine, versions, seeds. And how it is stored."""

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
from pathlib import Path

from tools import imports

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("jax", "laplace-torch", "numpy", "scikit-learn", "scipy", "torch", "torchmetrics", "torchvision")


def code_hash(script):
    """A hash of a benchmark's script and of the helpers that it uses: what decides about its figures."""
    paths = [ROOT / "benchmarks" / f"{script}.py"]
    paths += imports.used(paths[0].read_text(encoding="utf-8"), ROOT / "uqhelpers").values()
    total = hashlib.sha256()
    for path in paths:
        total.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return total.hexdigest()[:16]


def processor():
    """The name of the processor, as far as the system gives it away."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def accelerator():
    """The name of the GPU that training would take, or None."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def surroundings(script):
    """The code, the day, the machine and the versions: what one of a few runs can differ in."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    machine = f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    return {
        "code": code_hash(script),
        "date": datetime.date.today().isoformat(),
        "machine": ", ".join(filter(None, (machine, accelerator()))),
        "python": platform.python_version(),
        "versions": versions,
    }


def sentence(where):
    """The same for a reader."""
    versions = ", ".join(f"{package} {version}" for package, version in where["versions"].items())
    return f"code {where['code']}; {where['date']}; {where['machine']}; Python {where['python']}; {versions}"


def store(name, content, markdown, seeds=(), parts=()):
    """Write ``name.json`` and ``name.md`` into the results, each whole or not at all.

    Parameters
    ----------
    name : str
        The name of the benchmark's script, and of both files.
    content : dict
        What JSON can hold.
    markdown : str
        The same for a reader.
    seeds : sequence of int
        The seeds behind the figures.
    parts : sequence of dict
        The surroundings of runs that were made elsewhere or earlier.
    """
    here = surroundings(name)
    elsewhere = [part for part in parts if {**part, "date": None} != {**here, "date": None}]
    origin = {**here, "seeds": list(seeds)} | ({"parts": elsewhere} if elsewhere else {})
    RESULTS.mkdir(parents=True, exist_ok=True)
    words = sentence(here) + (f"; seeds {', '.join(map(str, seeds))}" if seeds else "") + "."
    words += "".join(f" Parts of it: {sentence(part)}." for part in elsewhere)
    footer = f"\n\n*{words[0].upper()}{words[1:]}*\n"
    replace(RESULTS / f"{name}.json", lines({**origin, **content}) + "\n")
    replace(RESULTS / f"{name}.md", markdown.rstrip() + footer)


def lines(content):
    """As JSON with a line for each entry, and one for each list of numbers."""
    text = json.dumps(content, indent=1)
    return re.sub(r"\[[-+\d.eEnulNa,\s]*\]", lambda numbers: re.sub(r"\n\s*", "", numbers[0]), text)


def replace(path, text):
    """Write a file next to its place, then move it there: it is never half-written."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
