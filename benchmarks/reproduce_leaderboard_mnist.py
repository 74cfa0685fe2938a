"""The leaderboard's MNIST edition: all methods in the standard world, stored beside the digits'.

``python -m benchmarks.reproduce leaderboard_mnist`` computes what is missing of
it, hours on two cores. What the command has computed elsewhere,

    python -m uqhelpers.leaderboard --edition mnist --seeds 5 --folder FOLDER

is stored by ``python -m benchmarks.reproduce_leaderboard_mnist FOLDER``: those
seeds that are there with all methods.
"""

import json
import sys

from benchmarks.provenance import ROOT, replace, store, surroundings
from benchmarks.reproduce_leaderboard import GROUPS, figures
from uqhelpers import leaderboard

SEEDS = range(5)
NAME, EDITION = "reproduce_leaderboard_mnist", "mnist"
STORED = ROOT / "uqhelpers" / "leaderboard" / "stored" / "mnist.json"
ELSEWHERE = {"scarcity", "stray_scarcity"}  # of the uneven world, which was not run


def reproduce(progress=True, folder=None):
    """The content for JSON, the same as Markdown, and the seeds.

    Parameters
    ----------
    progress : bool
    folder : path, optional
        With finished runs: nothing is computed. Without one, what is missing is.
    """
    if folder is None:
        place = ROOT / "_build" / "leaderboard"
        runs = leaderboard.run(seeds=SEEDS, folder=place, edition=EDITION, progress=progress)
    else:
        runs = leaderboard.finished(seeds=SEEDS, folder=folder, edition=EDITION)
    if not runs:
        raise ValueError(
            f"folder: expected all methods of one seed or more, by the present code, in {folder}"
        )
    board = leaderboard.gather(runs)
    seeds = board.seeds["standard"]
    replace(STORED, board.as_json(**surroundings(NAME)) + "\n")
    content, blocks = figures(
        board, {group: [c for c in columns if c not in ELSEWHERE] for group, columns in GROUPS.items()}
    )
    digits, blends, asked = leaderboard.worlds.SIZES[EDITION]
    head = (
        f"# The leaderboard on MNIST\n\n{digits:,} digits and {blends:,} blends to train on, {asked:,} "
        f"digits to choose settings by, {asked:,} to judge by; the network, its epochs and all settings to "
        f"choose from are those of the digits edition. Mean ± standard deviation of {len(seeds)} seeds; the "
        "standard world alone."
    )
    return json.loads(json.dumps(content).replace("NaN", "null")), "\n\n".join([head, *blocks]), seeds


if __name__ == "__main__":
    store(NAME, *reproduce(folder=sys.argv[1] if sys.argv[1:] else None))
