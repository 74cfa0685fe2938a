"""The house of the package: floors whose imports point down only, files that can be read in one sitting.

The ground floor knows nothing of methods. A method stands on it and knows no
other method. A synthesis may call methods, and nothing imports it. Grading
stands apart: it may import anything, and nothing outside imports it.
"""

import subprocess
import sys

import pytest

from tools import imports
from tools.book import ROOT, notebooks
from tools.protocol import APART, GROUND, SYNTHESIS

LONGEST = 500  # lines
PACKAGE = ROOT / "uqhelpers"


def sources():
    """The code of each module of the package, by its dotted name."""
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in imports.modules(PACKAGE).items()
        if "solutions" not in path.parts
    }


def unit(name):
    """The part of the package that a module belongs to: ``metrics`` for ``uqhelpers.metrics.scoring``."""
    return name.split(".")[1] if "." in name else ""


def is_ground(name):
    """Whether a part of the package belongs to the ground floor, as all private ones do."""
    return name in GROUND or name.startswith("_")


def methods(names):
    """What is neither ground floor nor synthesis nor grading: the methods."""
    units = {unit(name) for name in names} - SYNTHESIS - APART - {""}
    return {name for name in units if not is_ground(name)}


def users(code, packages):
    """For each module, the modules that import it."""
    found = {name: set() for name in code}
    for name, source in code.items():
        inside = name if name in packages else name.rpartition(".")[0]
        # The package itself imports whatever it is asked for, when it is asked.
        for used in imports.directly_used(source, frozenset(code), inside, follow_dynamic=bool(unit(name))):
            if used != name:
                found[used].add(name)
    return found


def folders(code):
    """The modules that are packages: those that others stand in."""
    return {name.rpartition(".")[0] for name in code} - {""}


def breaches(code):
    """Every import that does not point down, as (who, whom)."""
    found = set()
    for used, by in users(code, folders(code)).items():
        for name in by:
            here, there = unit(name), unit(used)
            if not there or not here or here == there or here in APART:
                continue
            down = is_ground(there) or (here in SYNTHESIS and there not in SYNTHESIS | APART)
            if not down:
                found.add((name, used))
    return found


def circles(code):
    """The units that import each other, directly or in turn."""
    below = {unit(name): set() for name in code}
    for used, by in users(code, folders(code)).items():
        for name in by - {"uqhelpers"}:
            if unit(used) and unit(name) not in APART:
                below[unit(name)].add(unit(used))
    below = {name: found - {name} for name, found in below.items()}
    while loose := [name for name, found in below.items() if not found]:
        below = {name: found - set(loose) for name, found in below.items() if name not in loose}
    return set(below)


def servants(code):
    """Private modules that serve one module beside them alone: they belong into it, or deserve a name."""
    found = set()
    for name, by in users(code, folders(code)).items():
        place, _, last = name.rpartition(".")
        if last.startswith("_") and not last.startswith("__") and unit(name) not in APART:
            masters = by - {"uqhelpers"}
            if len(masters) == 1 and masters.pop().rpartition(".")[0] in (place, place.rpartition(".")[0]):
                found.add(name)
    return found


# --- the package --------------------------------------------------------------------------------------------


def test_imports_point_down_only():
    assert not breaches(sources())


def test_no_two_parts_of_the_package_need_each_other():
    assert not circles(sources())


def test_no_private_module_serves_one_public_module_alone():
    assert not servants(sources())


def test_a_method_has_the_name_of_a_chapter():
    chapters = {path.stem for path in notebooks() if "exercises" not in path.parts}
    assert methods(sources()) - {"credal"} <= chapters  # the second idea of the chapter `conformal`


def test_the_package_names_all_of_its_parts():
    import uqhelpers

    assert set(uqhelpers._MODULES) == {unit(name) for name in sources() if not unit(name).startswith("_")} - {
        ""
    }


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
def test_a_file_can_be_read_in_one_sitting(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


# --- packages that are wrong on purpose ---------------------------------------------------------------------

HOUSE = {
    "uqhelpers": "import importlib\ndef __getattr__(name):\n    return importlib.import_module(name)",
    "uqhelpers._checks": "import numpy as np",
    "uqhelpers.metrics": "from uqhelpers._checks import as_real",
    "uqhelpers.training": "from uqhelpers import _checks, metrics",
    "uqhelpers.odin": "from uqhelpers import training",
    "uqhelpers.laplace": "from uqhelpers.laplace import curvature",
    "uqhelpers.laplace.curvature": "from uqhelpers.metrics import auroc",
    "uqhelpers.leaderboard": "from uqhelpers import laplace, odin",
    "uqhelpers.grading": "from uqhelpers import odin, leaderboard",
}


def test_a_house_as_it_should_be_has_no_fault():
    assert not breaches(HOUSE)
    assert not circles(HOUSE)
    assert not servants(HOUSE)
    assert methods(HOUSE) == {"odin", "laplace"}


@pytest.mark.parametrize(
    ("who", "code"),
    [
        ("metrics", "from uqhelpers import odin"),
        ("_checks", "from uqhelpers import odin"),
        ("metrics", "def late():\n    import uqhelpers.laplace.curvature as c"),
        ("metrics", "from . import odin"),
        ("metrics", "import uqhelpers\nodin = uqhelpers.odin"),
        ("metrics", "import importlib\nimportlib.import_module('uqhelpers.odin')"),
        ("metrics", "import importlib\ndef any(name):\n    return importlib.import_module(name)"),
        ("odin", "from uqhelpers.laplace import fit"),
        ("laplace.curvature", "from .. import odin"),
        ("odin", "from uqhelpers import grading"),
        ("training", "from uqhelpers.grading import check"),
        ("laplace", "from uqhelpers import leaderboard"),
        ("plots", "from uqhelpers.leaderboard import rows"),
        ("leaderboard", "from uqhelpers.grading import check"),
        ("leaderboard", "from uqhelpers import language_models"),
    ],
)
def test_an_import_that_does_not_point_down_is_found(who, code):
    house = {**HOUSE, "uqhelpers.language_models": "", f"uqhelpers.{who}": code}
    found = breaches(house)
    assert found
    assert {name for name, _ in found} == {f"uqhelpers.{who}"}


def test_two_parts_of_the_ground_floor_that_need_each_other_are_found():
    assert circles({**HOUSE, "uqhelpers.metrics": "from uqhelpers.training import fit"}) >= {
        "metrics",
        "training",
    }


@pytest.mark.parametrize(
    ("name", "users"),
    [("_odin_nudge", ["odin"]), ("laplace._curves", ["laplace"]), ("laplace._curves", ["laplace.curvature"])],
)
def test_a_private_module_with_one_master_is_found(name, users):
    code = f"from uqhelpers.{name} import x"
    house = {**HOUSE, f"uqhelpers.{name}": "", **{f"uqhelpers.{user}": code for user in users}}
    assert servants(house) == {f"uqhelpers.{name}"}
    house["uqhelpers.plots" if "." not in name else "uqhelpers.laplace.shared"] = code
    assert not servants(house)


@pytest.mark.parametrize(
    "call",
    [
        "deep_ensembles.RegressionEnsemble(hidden=(), epochs=1, members=1).fit([[0.0], [1.0]], [0.0, 1.0])",
        "mcmc.sample(lambda x: -(x**2).sum(), [[0.0]], 1, 1, mass='unit', progress=False)",
    ],
)
def test_the_first_import_of_jax_leaves_numpys_global_generator_where_it_stood(call):
    pytest.importorskip("jax")
    code = f"""
import numpy as np, sys
from uqhelpers import deep_ensembles, mcmc
assert "jax" not in sys.modules
np.random.seed(0)
{call}
assert "jax" in sys.modules
assert np.random.rand() == np.random.RandomState(0).rand()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
