"""The wheel: what is in it, what it asks for, and how quickly it is there."""

import ast
import shutil
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from email.parser import Parser

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import wheel
from tools.book import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LEARNERS = {Requirement(line).name for line in PROJECT["dependencies"]}


def colab():
    """What Colab ships: {name: version}, Python itself among it."""
    lines = (ROOT / "tests/colab_versions.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, opened."""
    with zipfile.ZipFile(wheel.build(tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(built):
    name = next(name for name in built.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(built.read(name).decode())


# --- what is in it --------------------------------------------------------------------------------


def test_the_wheel_holds_the_package_as_it_stands_here(built):
    held = {name for name in built.namelist() if ".dist-info/" not in name}
    here = {path.as_posix() for path in wheel.sources() if path.parts[0] == "uqhelpers"}
    assert held == here
    assert all(built.read(name) == (ROOT / name).read_bytes() for name in held)


def test_the_wheel_carries_both_licences(built):
    text = next(built.read(name).decode() for name in built.namelist() if name.endswith("/LICENSE"))
    assert "BSD 3-Clause License" in text
    assert "creativecommons.org/licenses/by/4.0/" in text


def test_the_version_is_the_same_everywhere(metadata):
    import uqhelpers

    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert metadata["Version"] == uqhelpers.__version__ == PROJECT["version"]
    assert f"version: {uqhelpers.__version__}\n" in citation
    assert f"## {uqhelpers.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# --- what it asks for -----------------------------------------------------------------------------


def test_installing_the_helpers_in_colab_replaces_nothing(metadata):
    shipped = colab()
    for line in metadata.get_all("Requires-Dist"):
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue  # an extra, which a learner does not install
        name = canonicalize_name(requirement.name)
        assert name in shipped, f"{name}: Colab would have to install it"
        assert requirement.specifier.contains(shipped[name]), f"{line} against {shipped[name]}"
    assert SpecifierSet(metadata["Requires-Python"]).contains(shipped["python"])


def test_a_learner_gets_the_package_and_nothing_else():
    for heavy in ["jupyter-book", "sphinx", "jax", "dask", "distributed", "pytest", "laplace-torch"]:
        assert heavy not in LEARNERS


def test_every_import_of_the_package_is_declared():
    from_names = {"sklearn": "scikit-learn", "IPython": "ipython", "laplace": "laplace-torch"}
    extras = {Requirement(line).name for lines in PROJECT["optional-dependencies"].values() for line in lines}
    imported = set()
    for path in (ROOT / "uqhelpers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
    foreign = {name for name in imported if name not in sys.stdlib_module_names} - {"uqhelpers", "__main__"}
    foreign = {canonicalize_name(from_names.get(name, name)) for name in foreign}
    assert foreign <= {canonicalize_name(name) for name in LEARNERS | extras}


OWN_MODEL = "transformers"  # an extra that the book's own environment leaves out


def test_the_library_transformers_is_an_extra_that_neither_learner_nor_book_installs():
    (line,) = PROJECT["optional-dependencies"][OWN_MODEL]
    name = Requirement(line).name
    assert name == "transformers"
    assert name not in LEARNERS
    assert f"\n{name}==" not in (ROOT / "requirements.txt").read_text(encoding="utf-8")


def test_the_lock_satisfies_the_ranges():
    lock = {}
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, version = line.split("==")
            lock[canonicalize_name(name)] = Version(version)
    extras = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name != OWN_MODEL}
    groups = [PROJECT["dependencies"], *extras.values()]
    for requirement in (Requirement(line) for group in groups for line in group):
        name = canonicalize_name(requirement.name)
        assert name in lock, name
        assert requirement.specifier.contains(lock[name]), requirement


# --- how quickly it is there ----------------------------------------------------------------------


def python(code, *arguments):
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_import_is_quick_and_loads_no_framework():
    code = """
        import sys, time
        start = time.perf_counter()
        import uqhelpers
        print(time.perf_counter() - start, "torch" in sys.modules, "jax" in sys.modules)
    """
    runs = [python(code).split() for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in runs) <= 0.3
    assert all(loaded == ["False", "False"] for _, *loaded in runs)


def test_what_needs_no_framework_loads_none():
    code = """
        import importlib, sys
        for module in ("metrics", "data", "logistic", "plots"):
            importlib.import_module("uqhelpers." + module)
            print(module, "torch" in sys.modules, "jax" in sys.modules)
    """
    said = python(code).splitlines()
    assert said == [f"{module} False False" for module in ("metrics", "data", "logistic", "plots")]


# --- torchvision beside a torch without CUDA ------------------------------------------------------

# One interpreter loads torch, which takes seconds; each case is a child of it and knows no other.
CASES = """
    import os, sys
    import torch

    for folder in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            try:
                sys.path[:0] = [folder] if os.path.isdir(folder) else []
                from uqhelpers import _torch
                import torchvision
                if not os.path.isdir(folder):
                    import laplace, torchmetrics
                    print(folder, torchvision.__name__, torchmetrics.__name__, laplace.__name__, flush=True)
                    os._exit(0)
                assert torchvision.__file__.startswith(folder), torchvision.__file__
                operators = [hasattr(torch.ops.torchvision, name) for name in ("nms", "qnms")]
                loads = _torch.extension_loads(torchvision.__path__[0])
                print(os.path.basename(folder), loads, *operators, flush=True)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0, folder
"""


@pytest.fixture(scope="module")
def beside_torchvision(tmp_path_factory):
    """What is said beside three torchvisions that only hold an extension or none, and the real one."""
    import numpy.random._common as some_extension  # any library that loads will do

    folders = [tmp_path_factory.mktemp(name, numbered=False) for name in ("loads", "fails", "none")]
    for folder in folders:
        (folder / "torchvision").mkdir()
        (folder / "torchvision" / "__init__.py").touch()
    shutil.copyfile(some_extension.__file__, folders[0] / "torchvision" / "_C.so")
    (folders[1] / "torchvision" / "_C.so").write_bytes(b"built for another machine")
    return dict(line.split(" ", 1) for line in python(CASES, *folders, "real").splitlines())


def test_nothing_is_declared_where_the_extension_loads(beside_torchvision):
    assert beside_torchvision["loads"] == "True False False"


def test_both_operators_are_declared_where_the_extension_does_not_load(beside_torchvision):
    assert beside_torchvision["fails"] == "False True True"


def test_both_operators_are_declared_where_there_is_no_extension(beside_torchvision):
    assert beside_torchvision["none"] == "False True True"


def test_what_imports_torchvision_can_be_imported(beside_torchvision):
    assert beside_torchvision["real"] == "torchvision torchmetrics laplace"
