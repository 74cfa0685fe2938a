"""What was measured in small worlds, once, and kept with the package."""

import json
from importlib import resources

import numpy as np

__all__ = ["measured_worlds"]


def measured_worlds():
    """Which score parts whom in small worlds, and what samples are worth: stored figures.

    ``python -m benchmarks.reproduce language_models language_models_again`` measures them again.

    Returns
    -------
    dict
        ``"worlds"`` holds, by kind of world, ``"area"`` (AUROC by score and
        group) and ``"samples"`` (by number, kind of estimate and figure);
        ``"again"`` what two texts about second questions teach, in worlds where
        names tell. Each figure is an array with one entry a world. ``"names"``
        says each score in words, ``"seeds"`` are those of the worlds (of the first so
        many in ``"again"``), ``"about"`` says where all this comes from.

    Examples
    --------
    >>> from uqhelpers import language_models as lm
    >>> lm.measured_worlds()["worlds"]["names tell"]["area"]["semantic"]["ambiguous"].mean()
    """
    file = resources.files("uqhelpers.language_models") / "measured.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    return stored | {key: _as_arrays(stored[key]) for key in ("worlds", "again")}


def _as_arrays(tree):
    if isinstance(tree, dict):
        return {key: _as_arrays(value) for key, value in tree.items()}
    return np.array(tree, dtype=float)
