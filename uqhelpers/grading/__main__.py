"""The command line: ``python -m uqhelpers.grading``."""

import argparse
import contextlib
import dataclasses
import sys
from pathlib import Path

from . import _notebooks
from ._engine import load_checks, stems

SOLUTIONS = Path(__file__).parent / "solutions"
LIMITS = {  # the option, what it limits, how it is told
    "cell": ("seconds for one cell", 1),
    "call": ("seconds for one answer", 1),
    "total": ("seconds for one submission", 1),
    "memory": ("resident memory of a submission, MiB", 2**20),
    "disk": ("files of a submission, MiB", 2**20),
    "processes": ("processes and threads of a submission", 1),
}


def parser():
    """What can be asked for."""
    top = argparse.ArgumentParser(
        prog="python -m uqhelpers.grading", description="Exercises and their grades."
    )
    commands = top.add_subparsers(dest="command", required=True)

    learner = commands.add_parser("learner", help="make the learner's notebook from its master")
    learner.add_argument("stem", help="an exercise, such as mc_dropout")
    learner.add_argument("--book", default="book/exercises", help="the folder of the exercises")

    solution = commands.add_parser("solution", help="show the solution, after a try")
    solution.add_argument("stem")
    solution.add_argument("--question", help="only this one, such as q3")
    solution.add_argument("--out", help="where to write the notebook; default is STEM_solution.ipynb")
    solution.add_argument("--yes", action="store_true", help="I have tried")

    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("stem")
    grade.add_argument("submissions", help="a notebook a student, or a folder a student")
    grade.add_argument("--out", required=True, help="where the grades go")
    grade.add_argument("--jobs", type=int, default=-1, help="submissions at a time; default is one a core")
    grade.add_argument(
        "--dask", metavar="ADDRESS", help="a Dask scheduler, or 'local' for one on this machine"
    )
    grade.add_argument("--checks", help="a file of checks of your own")
    grade.add_argument("--rubric", help="the rubric sheet, filled in")
    grade.add_argument("--junit", help="where to write JUnit XML")
    grade.add_argument("--gradescope", action="store_true", help="write Gradescope's results.json a student")
    grade.add_argument("--quiet", action="store_true", help="no progress bar")
    for name, (text, _) in LIMITS.items():
        grade.add_argument(f"--{name}", type=float, help=text)

    commands.add_parser("sandbox", help="say whether submissions can be run here")
    return top


def make_learner(stem, book):
    """Write the learner's notebook and the solution that ships with the package, from the master.

    Parameters
    ----------
    stem : str
    book : path
        Holds ``solutions/<stem>.ipynb``, gets ``<stem>.ipynb``.

    Returns
    -------
    list of path
        The files written.
    """
    master = _notebooks.read(Path(book) / "solutions" / f"{stem}.ipynb")
    written = {
        Path(book) / f"{stem}.ipynb": _notebooks.learners_version(master),
        SOLUTIONS / f"{stem}.ipynb": _notebooks.solved_version(master),
    }
    for path, notebook in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_notebooks.dump(notebook), encoding="utf-8")
    return list(written)


def show_solution(options):
    """Print one question's solution, or write the whole notebook, to whoever has tried."""
    path = SOLUTIONS / f"{options.stem}.ipynb"
    if options.stem not in stems() or not path.exists():
        raise ValueError(f"stem: expected one of {', '.join(stems())}, got {options.stem!r}")
    if not options.yes:
        print("A solution read before a try teaches little. Have you tried? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("Then try first: a hint costs nothing.")
            return
    notebook = _notebooks.read(path)
    if options.question:
        print(_notebooks.solution_of(notebook, options.question))
        return
    out = Path(options.out or f"{options.stem}_solution.ipynb")
    if out.exists():
        raise ValueError(f"out: {out} is there already")
    out.write_text(_notebooks.dump(notebook), encoding="utf-8")
    print(f"Written to {out}.")


@contextlib.contextmanager
def backend(address):
    """joblib's own processes, or a Dask cluster's."""
    if address is None:
        yield
        return
    import joblib
    from distributed import Client, LocalCluster

    with contextlib.ExitStack() as stack:
        if address == "local":
            # Loopback only, and no dashboard: nothing listens to anybody else. The scheduler's own pages
            # (health and metrics) stay, on any free port of the loopback.
            cluster = LocalCluster(
                host="127.0.0.1",
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                threads_per_worker=1,
            )
            address = stack.enter_context(cluster).scheduler_address
        stack.enter_context(Client(address))
        stack.enter_context(joblib.parallel_config("dask"))
        yield


def grade(options):
    """Grade a folder, and say where the grades are."""
    from ._batch import grade as grade_folder
    from ._limits import Limits

    load_checks(options.stem, options.checks)
    given = {name: getattr(options, name) for name in LIMITS if getattr(options, name) is not None}
    limits = Limits()
    for name, value in given.items():
        kind = type(getattr(limits, name))
        limits = dataclasses.replace(limits, **{name: kind(value * LIMITS[name][1])})
    with backend(options.dask):
        records = grade_folder(
            options.stem,
            options.submissions,
            options.out,
            jobs=options.jobs,
            limits=limits,
            checks=options.checks,
            rubric=options.rubric,
            junit=options.junit,
            gradescope=options.gradescope,
            progress=not options.quiet,
        )
    for record in records:
        if record["problem"]:
            print(f"{record['student']}: {record['problem']}")
    waiting = sum(bool(record["waiting"]) for record in records)
    print(
        f"{len(records)} students: {Path(options.out) / 'grades.csv'}, {Path(options.out) / 'summary.html'}"
    )
    if waiting:
        print(
            f"{waiting} wait for a person: fill in {Path(options.out) / 'rubric.csv'} and pass it as --rubric"
        )


def main(arguments=None):
    """Run a command; 0 if it went well, 1 with a line on what did not."""
    from ._limits import SandboxUnavailable
    from ._sandbox import try_sandbox

    options = parser().parse_args(arguments)
    try:
        if options.command == "learner":
            for path in make_learner(options.stem, options.book):
                print(path)
        elif options.command == "solution":
            show_solution(options)
        elif options.command == "grade":
            grade(options)
        else:
            try_sandbox()
            print("Submissions can be run here.")
    except (SandboxUnavailable, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
