"""Docstrings: every argument is described, and what holds everywhere is said on one page."""

import importlib
import importlib.util
import inspect
import re

import pytest

from tools.book import ROOT

pytest.importorskip("jax")

MODULES = sorted(path.stem for path in (ROOT / "book/reference/api").glob("*.md"))
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def sections(text):
    """The sections of a docstring by their headings; what stands above them is called ``""``."""
    first, *parts = SECTION.split(inspect.cleandoc(text))
    return {"": first, **dict(zip(parts[::2], parts[1::2], strict=True))}


def described(text):
    """The arguments that a docstring describes."""
    lines = sections(text).get("Parameters", "").splitlines()
    heads = [line.partition(" : ")[0] for line in lines if line and not line.startswith(" ")]
    return {name.strip() for head in heads for name in head.split(",")}


def documented():
    """The functions of the API pages by dotted names; of methods those that say more than a sentence."""
    found = {}
    for module in map(importlib.import_module, (f"uqhelpers.{name}" for name in MODULES)):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                found[f"{module.__name__}.{name}"] = thing
            elif inspect.isclass(thing):
                own = [(key, value) for key, value in vars(thing).items() if inspect.isfunction(value)]
                shown = [pair for pair in own if "---" in (pair[1].__doc__ or "") and pair[0][0] != "_"]
                found |= {f"{module.__name__}.{name}.{key}": value for key, value in shown}
    return found


DOCUMENTED = documented()


def refers(text):
    """Whether a docstring leaves its arguments to another's."""
    return "Parameters are those of" in " ".join(text.split())


def test_the_package_is_here():
    assert len(DOCUMENTED) > 200
    assert {"uqhelpers.metrics.auroc", "uqhelpers.laplace.LastLayerLaplace.fit"} <= set(DOCUMENTED)


def test_every_argument_is_described():
    silent = {}
    for name, function in DOCUMENTED.items():
        text, taken = function.__doc__, set(inspect.signature(function).parameters) - {"self"}
        if not refers(text) and taken - described(text):
            silent[name] = taken - described(text)
    assert not silent


def test_what_holds_everywhere_is_not_repeated():
    repeated = re.compile("As everywhere|not as described|as above|out of range|empty or not finite")
    raises = {name: sections(function.__doc__).get("Raises", "") for name, function in DOCUMENTED.items()}
    assert not [name for name, text in raises.items() if repeated.search(" ".join(text.split()))]


# --- what the site adds -------------------------------------------------------------------------------------

TAKES = """One line.

    Parameters
    ----------
    x : float
    {raises}
    Returns
    -------
    float

    References
    ----------
    Somebody (1950).
    """
RAISES = """
    Raises
    ------
    ValueError
        If ``x`` is an old number.
"""


@pytest.fixture(scope="module")
def shown():
    """What the site reads instead of a docstring."""
    found = importlib.util.spec_from_file_location("known_unknowns", ROOT / "_ext/known_unknowns.py")
    extension = importlib.util.module_from_spec(found)
    found.loader.exec_module(extension)

    def read(text):
        lines = inspect.cleandoc(text).splitlines()
        extension.say_what_raises(None, "function", "f", None, {}, lines)
        return "\n".join(lines)

    return read


def test_a_page_leads_to_what_raises_everywhere(shown):
    read = sections(shown(TAKES.format(raises="")))
    assert list(read) == ["", "Parameters", "Returns", "Raises", "References"]
    assert read["Raises"].split()[0] == "ValueError"
    assert "/book/reference/conventions" in read["Raises"]
    assert (ROOT / "book/reference/conventions.md").exists()


def test_what_is_special_to_a_function_is_left_as_it_stands(shown):
    special = TAKES.format(raises=RAISES)
    assert shown(special) == inspect.cleandoc(special)


def test_a_docstring_whose_arguments_are_those_of_another_leads_there_too(shown):
    read = sections(shown("One line.\n\nParameters are those of :func:`g`.\n\nReturns\n-------\nfloat"))
    assert list(read) == ["", "Returns", "Raises"]


def test_what_takes_nothing_raises_nothing(shown):
    text = "One line.\n\nAttributes\n----------\nx : float"
    assert shown(text) == text


def test_what_a_property_says_before_a_colon_is_not_taken_for_its_type():
    texts = [
        path.read_text(encoding="utf-8") for path in (ROOT / "_build/html/book/reference/api").glob("*.html")
    ]
    if not texts:
        pytest.skip("there is no built site: `make book` builds it")
    attribute = r'<dl class="py property">(?:(?!<dl class="py).)*?<dt class="field-odd">Type'
    assert [found[:200] for text in texts for found in re.findall(attribute, text, re.DOTALL)] == []
