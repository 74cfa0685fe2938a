"""The command line: ``uqhelpers-grading``, or ``python -P -m uqhelpers.grading``."""

import argparse
import contextlib
import dataclasses
import os
import sys
from pathlib import Path

from . import _notebooks
from ._engine import load_checks, stems
from ._text import printable

SOLUTIONS = Path(__file__).parent / "solutions"
LIMITS = {  # the option, what it limits, how it is told
    "cell": ("seconds for one cell", 1),
    "call": ("seconds for one answer", 1),
    "total": ("seconds for one submission", 1),
    "memory": ("resident memory of a submission, MiB", 2**20),
    "disk": ("files of a submission, MiB", 2**20),
    "processes": ("processes and threads of a submission", 1),
    "files": ("files and folders of a submission", 1),
}


def parser():
    """What can be asked for."""
    top = argparse.ArgumentParser(prog="uqhelpers-grading", description="Exercises and their grades.")
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
    """joblib's own threads, or a Dask cluster.

    Whoever can talk to a scheduler can run code on its workers, other accounts of this machine too. So a
    cluster of ours talks TLS, with a certificate made for this batch and kept in memory; one that is there
    already must have its own, named in Dask's configuration.

    Raises
    ------
    ValueError
        If the address is not one of TLS, or Dask knows no certificates for it.
    """
    if address is None:
        yield
        return
    import joblib
    from distributed import Client, LocalCluster
    from distributed.security import Security

    with contextlib.ExitStack() as stack:
        if address == "local":
            try:
                security = Security.temporary()
            except ImportError as error:
                raise ValueError(f"dask: certificates cannot be made here: {error}") from None
            # Loopback only, and no dashboard: nothing listens to anybody else. The scheduler's own pages
            # (health and metrics) stay, on any free port of the loopback.
            cluster = LocalCluster(
                host="127.0.0.1",
                protocol="tls://",
                security=security,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                threads_per_worker=1,
            )
            address = stack.enter_context(cluster).scheduler_address
        else:
            security = Security(require_encryption=True)
            if not address.startswith("tls://") or not security.tls_client_cert:
                raise ValueError(
                    f"dask: expected 'local', or a tls:// address and certificates in Dask's configuration, "
                    f"got {address!r}: without them, whoever reaches it can run code on the workers"
                )
        stack.enter_context(Client(address, security=security))
        stack.enter_context(joblib.parallel_config("dask"))
        yield


def grade(options, from_here=False):
    """Grade a folder, and say where the grades are; 1 if somebody could not be graded, 0 otherwise.

    Parameters
    ----------
    options : argparse.Namespace
    from_here : bool
        Whether this process looked for its modules in the working folder.
    """
    from ._batch import grade as grade_folder
    from ._limits import Limits
    from ._submissions import hidden_files

    here, folder = Path.cwd(), Path(options.submissions).resolve()
    if from_here and (folder == here or folder in here.parents):
        raise ValueError(
            "submissions: Python was started so that it looks for modules in this folder, where a student "
            "may have put some: use the command uqhelpers-grading, or python -P -m uqhelpers.grading"
        )
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
    for name in hidden_files(options.submissions):
        print(f"left out, hidden and no notebook: {printable(name)}")
    for record in records:
        if record["problem"]:
            print(f"{printable(record['student'])}: {printable(record['problem'])}")
    waiting = sum(bool(record["waiting"]) for record in records)
    print(
        f"{len(records)} students: {Path(options.out) / 'grades.csv'}, {Path(options.out) / 'summary.html'}"
    )
    if waiting:
        print(
            f"{waiting} wait for a person: fill in {Path(options.out) / 'rubric.csv'} and pass it as --rubric"
        )
    troubled = [printable(record["student"]) for record in records if record["trouble"]]
    if troubled:
        print(f"error: not graded, and tried again next time: {', '.join(troubled)}", file=sys.stderr)
    return int(bool(troubled))


def main(arguments=None, from_here=False):
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
            return grade(options, from_here)
        else:
            try_sandbox()
            print("Submissions can be run here.")
    except (SandboxUnavailable, ValueError, OSError) as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 1
    return 0


def run():
    """The command itself: as `main`, with modules looked for where they are installed.

    The working folder may be the folder of submissions. Neither this process nor those that it starts take a
    module from there. (A plain ``python -m`` has looked there before this line runs; `grade` refuses that.)
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    from_here = not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()])
    if from_here:
        sys.path.pop(0)
    return main(from_here=from_here)


if __name__ == "__main__":
    sys.exit(run())
