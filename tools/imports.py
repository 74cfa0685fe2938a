"""Which modules of ``uqhelpers`` a piece of code uses, found without running it.

What a notebook imports decides when it must run again. Imports inside
functions count, and so do imports that the imported modules make in turn.
"""

import ast
import functools
import re

PACKAGE = "uqhelpers"
MENTION = re.compile(rf"\b{PACKAGE}(?:\.\w+)+")  # in strings: "python -m uqhelpers.grading"

DYNAMIC = ("import_module", "__import__")


def modules(folder):
    """The modules of the package in ``folder``: a dict from dotted name to path."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join((PACKAGE, *parts))] = path
    return found


def dotted(node):
    """The dotted name that an attribute chain spells, or None."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else None


@functools.lru_cache(maxsize=4096)
def directly_used(code, known, package=None, follow_dynamic=True):
    """The names out of ``known`` that ``code`` imports or names.

    Parameters
    ----------
    code : str
        Python source.
    known : tuple of str
        Dotted names of the package's modules.
    package : str, optional
        The package that the code itself belongs to; relative imports start there.
    follow_dynamic : bool
        Whether a module that is chosen at run time counts as any of its package's.

    Returns
    -------
    frozenset of str
        With every enclosing package, which Python imports too.
    """
    names, bound = set(), {}
    nodes = list(ast.walk(ast.parse(code)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.add(alias.name)
                bound[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level and package:
                parents = package.split(".")
                base = ".".join(filter(None, [*parents[: len(parents) - node.level + 1], base]))
            for alias in node.names:
                names.update(name for name in known if alias.name == "*" and name.startswith(base))
                names.add(f"{base}.{alias.name}")
                bound[alias.asname or alias.name] = f"{base}.{alias.name}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            names.update(MENTION.findall(node.value))
    for node in nodes:
        chain = dotted(node) if isinstance(node, ast.Attribute) else None
        if chain and chain.split(".")[0] in bound:
            head, _, rest = chain.partition(".")
            names.add(f"{bound[head]}.{rest}")
        callee = getattr(node, "func", None)
        if follow_dynamic and getattr(callee, "attr", getattr(callee, "id", "")) in DYNAMIC:
            names.update(name for name in known if name.startswith(package or PACKAGE))
    prefixes = {".".join(name.split(".")[:n]) for name in names for n in range(1, name.count(".") + 2)}
    return frozenset(prefixes & set(known))


def used(code, folder):
    """The modules that ``code`` uses, directly or through other modules of the package.

    Parameters
    ----------
    code : str, or iterable of str
        Python source, for example of a notebook's cells.
    folder : pathlib.Path
        Where the package's sources stand.

    Returns
    -------
    dict
        From dotted name to path.
    """
    known = modules(folder)
    names = tuple(known)
    pieces = [code] if isinstance(code, str) else code
    waiting, found = set().union(*(directly_used(piece, names) for piece in pieces)), {}
    while waiting:
        name = waiting.pop()
        found[name] = known[name]
        is_package = known[name].name == "__init__.py"
        inside = name if is_package else name.rpartition(".")[0]
        # uqhelpers/__init__.py imports by name whatever attribute is asked for: that is followed
        # where the attribute is written.
        code = known[name].read_text(encoding="utf-8")
        waiting |= directly_used(code, names, inside, follow_dynamic=name != PACKAGE) - found.keys()
    return dict(sorted(found.items()))
