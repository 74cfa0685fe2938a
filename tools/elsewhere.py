"""Run notebooks under other circumstances: do their claims still hold there?

As other processors round: rounding differs between processors, so trained
networks do, and what a chapter claims must not. From other training seeds. On
the other edition of the data. Each notebook and setting is a job of its own, and the longest
begin first, so that both cores are busy to the end. A job that passed is
remembered under the notebook's key and not repeated until something changes;
the rounding that this processor has anyway was proven by the ordinary run.
"""

from concurrent.futures import ThreadPoolExecutor, as_completed

from tools import execute
from tools.book import ROOT, notebooks

STORE = execute.STORE.with_name("elsewhere")
SETTINGS = {
    "without vector instructions": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "MKL_CBWR": "COMPATIBLE",
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
    },
    "with AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_CBWR": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
}
SEEDS = {f"from the seeds of UQ_SEEDS={n}": {"UQ_SEEDS": str(n)} for n in (1, 2, 3)}
EDITION = {"on MNIST": {"UQ_DATASET": "mnist"}}
KNOWN = SETTINGS | SEEDS | EDITION
OWN = {"DEFAULT": "without vector instructions", "AVX2": "with AVX2"}  # by torch's name for a processor


def others():
    """The settings that are not what this processor does anyway."""
    from uqhelpers._torch import torch

    own = OWN.get(torch.backends.cpu.get_cpu_capability())
    return {name: settings for name, settings in SETTINGS.items() if name != own}


def weight(paths, root=ROOT):
    """About how long these notebooks take: what an ordinary run took, else a guess by their size."""
    total = 0.0
    for path in paths:
        runs = list((root / execute.STORE / path.with_suffix("")).glob("*.json"))
        total += execute.seconds_of(runs[0]) if runs else (root / path).stat().st_size / 1e4
    return total


def concerns(setting, path, root=ROOT):
    """Whether the notebook at ``path`` can run otherwise under ``setting`` than it does anyway."""
    says = {"UQ_SEEDS": "data.seeds(", "UQ_DATASET": "data.load("}
    source = (root / path).read_text(encoding="utf-8")
    return all(said in source for variable, said in says.items() if variable in KNOWN[setting])


def jobs(root=ROOT, settings=None):
    """What is to run: (setting, notebooks), the longest first.

    A chapter is a job. The exercises as learners get them take a second each, most of it to
    start, and claim little: all together are one.
    """
    every = notebooks(root)
    exercises = [path for path in every if "exercises" in path.parts]
    groups = [[path] for path in every if path not in exercises] + ([exercises] if exercises else [])
    listed = [
        (name, concerned)
        for name in (others() if settings is None else settings)
        for group in groups
        if (concerned := [path for path in group if concerns(name, path, root)])
    ]
    # A processor without vector instructions takes about twice as long.
    return sorted(
        listed,
        key=lambda job: -weight(job[1], root) * (2 if job[0] == "without vector instructions" else 1),
    )


def proof(setting, path, root=ROOT):
    """The empty file that says that a notebook passed."""
    name = f"{execute.key(path, root)}-{execute.sha(str(KNOWN[setting]))[:8]}"
    return root / STORE / setting.replace(" ", "-") / path.with_suffix("") / name


def elsewhere(root=ROOT, processes=execute.PROCESSES, settings=None):
    """Run what is not proven yet, by default as other processors round; returns 0 if all claims hold."""
    status = 0

    def run(setting, paths):
        return execute.run(paths, root, keep=False, loud=False, **KNOWN[setting])

    with ThreadPoolExecutor(processes) as pool:
        running = {}
        for setting, paths in jobs(root, settings):
            stale = [path for path in paths if not proof(setting, path, root).exists()]
            for path in set(paths) - set(stale):
                print(f"{path}, {setting}: proven before")
            if stale:
                running[pool.submit(run, setting, stale)] = setting, stale
        for done in as_completed(running):
            setting, paths = running[done]
            failed = done.result() != 0
            status |= failed
            for path in paths:
                print(f"{path}, {setting}: {'FAILED' if failed else 'holds'}", flush=True)
                if not failed:
                    target = proof(setting, path, root)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.touch()
    return int(status)
