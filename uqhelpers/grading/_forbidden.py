"""What a question forbids: the helper it names, and what of the package's own that helper calls.

A helper's name is public and stays; how its module is cut into private pieces
does not. So what it calls is looked up in the package's source each time, from
the helper's definition on, through every private function and class. What all
modules use to read their arguments is left alone.
"""

import ast
import contextlib
import functools
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
NAME = PACKAGE.name
PLUMBING = {"_checks", "_common", "_progress", "_torch", "grading"}  # modules that compute nothing asked for
READERS = ("as_", "check", "expect", "refuse")  # how functions begin that only look at arguments
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


class WriteItYourself(RuntimeError):
    """A helper was called that the question asks the learner to write."""


class Source:
    """One file of the package: what it defines, and where its other names come from."""

    def __init__(self, path):
        self.path = path
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__")
        self.module = self.module.rstrip(".")
        package = self.module if path.name == "__init__.py" else self.module.rpartition(".")[0]
        self.defined, self.imported, self.starred, self.private_module = {}, {}, [], "._" in f".{self.module}"
        for node in tree.body:
            if isinstance(node, DEFINITIONS):
                self.defined[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.defined.setdefault(target.id, node)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                origin = self._origin(node, package)
                if origin is None:
                    continue
                for alias in node.names:
                    if alias.name == "*":
                        self.starred.append(origin)
                    else:
                        self.imported[alias.asname or alias.name] = (origin, alias.name)

    def _origin(self, node, package):
        """The module that is imported from, without the package's name; None if it is another package's."""
        if node.level == 0:
            name = node.module or ""
            return name.removeprefix(NAME).lstrip(".") if name.split(".")[0] == NAME else None
        parts = package.split(".") if package else []
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *filter(None, [node.module])])


@functools.cache
def source(module):
    """The file of a module, such as ``"metrics.selective"``; None if there is none."""
    place = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return Source(path)
    return None


def find(module, name, seen=()):
    """The file that defines a name which a module has, following its imports, and the name there."""
    here = source(module)
    if here is None or (module, name) in seen:
        return None
    seen = (*seen, (module, name))
    if name in here.defined:
        return here, name
    if name in here.imported:
        return find(*here.imported[name], seen)
    for origin in here.starred:
        if found := find(origin, name, seen):
            return found
    return None


@functools.cache
def followed(helper):
    """A helper and every private function or class of the package that it calls, directly or through others.

    Parameters
    ----------
    helper : str
        Such as ``"metrics.mutual_information"``.

    Returns
    -------
    tuple of (module, name)
        Where each is defined: the helper's own first.

    Raises
    ------
    ValueError
        If there is no such function or class: a misspelt name would let it in.
    """
    module, _, name = helper.rpartition(".")
    found = find(module, name)
    if found is None or not isinstance(found[0].defined[found[1]], DEFINITIONS):
        raise ValueError(f"forbids: expected a function of {NAME}, got {helper!r}")
    todo, seen = [found], []
    while todo:
        here, name = todo.pop()
        if (here.module, name) in seen:
            continue
        seen.append((here.module, name))
        todo += [one for one in called(here, name) if is_private(*one)]
    return tuple(one for one in seen if isinstance(source(one[0]).defined[one[1]], DEFINITIONS))


def called(here, name):
    """The definitions of the package that a definition mentions."""
    for node in ast.walk(here.defined[name]):
        if isinstance(node, ast.Name):
            found = find(here.module, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            origin, inside = here.imported.get(node.value.id, ("", ""))
            found = inside and find(f"{origin}.{inside}".lstrip("."), node.attr)
        else:
            continue
        if found:
            yield found


def is_private(here, name):
    """Whether a definition is the package's own business, and of a kind that computes something."""
    if PLUMBING & set(here.module.split(".")) or name.lstrip("_").startswith(READERS):
        return False
    inside = "." in here.module or here.private_module
    return name.startswith("_") or (inside and not is_public(here, name))


def is_public(here, name):
    """Whether the file itself, or a public module above it, says that the name is for everybody."""
    if _exports(here, name):
        return True
    parts = here.module.split(".")
    public = [source(".".join(parts[:depth])) for depth in range(1, len(parts))]
    public += [source(str(path.stem)) for path in PACKAGE.glob("[a-z]*.py") if len(parts) == 1]
    return any(one and _exports(one, name) for one in public)


def _exports(one, name):
    """Whether ``__all__`` of a module names it."""
    listed = one.defined.get("__all__")
    if listed is None:
        return False
    return any(isinstance(node, ast.Constant) and node.value == name for node in ast.walk(listed))


def places(helper):
    """As `followed`, with the file of each, relative to the package."""
    return [(source(module).path.relative_to(PACKAGE), name) for module, name in followed(helper)]


def words(helper):
    """What a forbidden helper says."""
    return f"write this one yourself: `{helper}` is what the question asks for"


def refuse(helper):
    """A stand-in for a forbidden helper."""

    def stub(*args, **kwargs):
        raise WriteItYourself(words(helper))

    return stub


def is_loaded(helper):
    """Whether the module that defines a helper, such as ``"metrics.aurc"``, has been imported."""
    return any(f"{NAME}.{module}" in sys.modules for module, _ in followed(helper))


def loaded():
    """The namespaces of the package's modules that have been imported."""
    own = [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]
    return [vars(sys.modules[name]) for name in own]


@contextlib.contextmanager
def helpers_forbidden(helpers, namespace):
    """While it lasts, each named helper that is loaded, and what it calls, says "write this one yourself".

    It is replaced in every module of the package and wherever the notebook
    holds it under a name of its own. A module that is not loaded stays so:
    some take torch with them, and a first answer should not wait for that.
    This is a reminder; in the sandbox the helper is not there.
    """
    stubs = {}
    for helper in helpers:
        for module, name in followed(helper):
            original = getattr(sys.modules.get(f"{NAME}.{module}"), name, None)
            if original is not None:
                stubs.setdefault(id(original), (original, refuse(helper)))
    undo = []
    for place in [*loaded(), namespace] if stubs else []:
        for key in [key for key, value in place.items() if id(value) in stubs]:
            undo.append((place, key, place[key]))
            place[key] = stubs[id(place[key])][1]
    try:
        yield
    finally:
        for place, key, value in undo:
            place[key] = value
