"""The package as a submission may see it: without checks, solutions and forbidden helpers."""

import ast
import shutil
from pathlib import Path

from ._forbidden import places, words

PACKAGE = Path(__file__).resolve().parents[1]
ENTER = ("grading/__init__.py", "grading/_wire.py")  # all that a submission sees of uqhelpers.grading


def copy_package(folder, forbids=()):
    """This package as a submission may see it.

    Parameters
    ----------
    folder : path
        Gets ``uqhelpers``.
    forbids : sequence of str
        Functions whose bodies are left out, such as ``"metrics.mutual_information"``,
        and with them those of the private ones that they call.

    Raises
    ------
    ValueError
        If a forbidden function does not exist: a misspelt name would let it in.
    """
    target = Path(folder) / "uqhelpers"
    for source in PACKAGE.rglob("*"):
        inside = source.relative_to(PACKAGE)
        if not source.is_file() or "__pycache__" in inside.parts:  # compiled files hold what is left out
            continue
        if inside.parts[0] == "grading" and str(inside) not in ENTER:
            continue
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / inside)
    shutil.copyfile(PACKAGE / "grading" / "_in_sandbox.py", target / "grading" / "__init__.py")
    for name in forbids:
        for path, function in places(name):
            leave_out(target / path, function, name)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def leave_out(path, function, name):
    """Replace a function or a class by one that says "write this one yourself"; whether the file has it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = [node for node in tree.body if isinstance(node, kinds) and node.name == function]
    refusal = f"raise RuntimeError({words(name)!r})"
    for node in found:
        if isinstance(node, ast.ClassDef):
            node.bases, node.keywords = [], []
            refusal = f"def __init__(self, *args, **kwargs):\n    {refusal}"
        node.decorator_list = []
        node.body = ast.parse(refusal).body
    if found:
        path.write_text(ast.unparse(tree), encoding="utf-8")
    return bool(found)
