"""``python -m uqhelpers.leaderboard``: run what is missing of the table, or a method of your own."""

import argparse
import os
import sys

from uqhelpers.leaderboard import STORED, WORLDS, gather, regression, run, stored

SHOWN = ("accuracy", "nll", "brier", "gap", "augrc", "errors", "near", "far", "nll_3", "known_doubt",
         "set_size", "fit_cost", "predict_cost")  # fmt: skip


def parser():
    """The command's arguments."""
    made = argparse.ArgumentParser(prog="python -m uqhelpers.leaderboard", description=__doc__)
    made.add_argument(
        "--method", action="append", metavar="MODULE:FUNCTION",
        help="a method of your own, or a name of the table; may be given more than once",
    )  # fmt: skip
    made.add_argument("--seeds", type=int, default=5, help="how many seeds (5)")
    made.add_argument("--world", action="append", choices=sorted(WORLDS), help="the standard world, if none")
    made.add_argument("--edition", choices=("digits", "mnist"), default=None)
    made.add_argument("--folder", default="leaderboard-runs", help="where finished runs are kept")
    made.add_argument("--jobs", type=int, default=None, help="as joblib has it")
    made.add_argument("--columns", nargs="*", default=None, help="which columns are printed")
    made.add_argument(
        "--regression", nargs="*", metavar="TABLE", default=None,
        help="the table of regression instead; tables of your own as text files, the last column the target",
    )  # fmt: skip
    return made


def main(arguments=None):
    """Run, and print a table."""
    asked = parser().parse_args(arguments)
    if asked.regression is not None:
        print(regression.markdown(regression.run(asked.regression, seeds=range(asked.seeds))))
        return
    sys.path.insert(0, "")  # a module in the folder where the command is given
    worlds = asked.world or ["standard"]
    finished = run(
        asked.method, range(asked.seeds), worlds,
        folder=asked.folder, edition=asked.edition, n_jobs=asked.jobs,
    )  # fmt: skip
    board = gather(finished)
    edition = asked.edition or os.environ.get("UQ_DATASET") or "digits"
    if asked.method and edition in STORED and worlds == ["standard"]:
        board = stored(edition).with_runs(finished)
    for name in worlds:
        print(f"\n{name}\n\n{board.markdown(asked.columns or SHOWN, world=name)}")


def cli():
    """The command: a refusal is a sentence, no traceback."""
    try:
        main()
    except ValueError as error:
        raise SystemExit(f"refused: {error}") from None


if __name__ == "__main__":
    cli()
