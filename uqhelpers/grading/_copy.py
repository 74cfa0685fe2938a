"""The package as a submission may see it: without checks, solutions and forbidden helpers."""

import ast
import shutil
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ENTER = ("grading/__init__.py", "grading/_wire.py")  # all that a submission sees of uqhelpers.grading


def copy_package(folder, forbids=()):
    """This package as a submission may see it.

    Parameters
    ----------
    folder : path
        Gets ``uqhelpers``.
    forbids : sequence of str
        Functions whose bodies are left out, such as ``"metrics.mutual_information"``.

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
        module, function = name.rsplit(".", 1)
        place = target.joinpath(*module.split("."))
        paths = sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        changed = [leave_out(path, function, name) for path in paths if path.exists()]
        if not any(changed):
            raise ValueError(f"forbids: expected a function of uqhelpers, got {name!r}")
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def leave_out(path, function, name):
    """Replace a function or a class by one that says "write this one yourself"; whether the file has it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = [node for node in tree.body if isinstance(node, kinds) and node.name == function]
    refusal = f"raise RuntimeError({f'write this one yourself: `{name}` is what the question asks for'!r})"
    for node in found:
        if isinstance(node, ast.ClassDef):
            node.bases, node.keywords = [], []
            refusal = f"def __init__(self, *args, **kwargs):\n    {refusal}"
        node.decorator_list = []
        node.body = ast.parse(refusal).body
    if found:
        path.write_text(ast.unparse(tree), encoding="utf-8")
    return bool(found)
