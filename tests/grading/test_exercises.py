"""Every question: the solution earns all of it, nothing earns nothing, each wrong answer its hint."""

import html
import importlib
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

from uqhelpers import metrics
from uqhelpers.grading import _engine, _forbidden, _notebooks
from uqhelpers.grading._engine import (
    Learner,
    checks_by_question,
    load_checks,
    manual_questions,
    points_in_words,
    run_question,
)

EXERCISES = Path(__file__).resolve().parents[2] / "book" / "exercises"
STEMS = _engine.stems()
SEEDS = range(20)
SHOWING = (
    "-look",
    "-train",
    "-table",
    "-broken",
    "-check",
    "score",
)  # ends of the ids of cells that only show


def master(stem):
    path = EXERCISES / "solutions" / f"{stem}.ipynb"
    if not path.exists():
        pytest.skip(f"the master of {stem} is not here: the tests run outside the book's checkout")
    return _notebooks.read(path)


def run(cells, namespace=None):
    """A notebook's cells as plain Python, those that show things left out."""
    namespace = namespace if namespace is not None else {"__name__": "__main__"}
    for source in cells:
        if not source.startswith(("check(", "score(")):
            exec(compile(source, "<cell>", "exec"), namespace)
    return namespace


def quick(notebook):
    """The code cells without those that only train, draw or print."""
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    kept = [c for c in cells if not c["id"].endswith(SHOWING)]
    return [_notebooks.source_of(c) for c in kept]


class Namespaces(dict):
    """The namespace of each exercise in one version, run once when it is asked for."""

    def __init__(self, version):
        super().__init__()
        self.version = version

    def __missing__(self, stem):
        self[stem] = run(quick(self.version(master(stem))))
        return self[stem]


@pytest.fixture(scope="module")
def solved():
    return Namespaces(_notebooks.solved_version)


@pytest.fixture(scope="module")
def unanswered():
    return Namespaces(_notebooks.learners_version)


def earned(checks, namespace, seed):
    return run_question(checks, Learner(namespace), seed)


QUESTIONS = [(stem, name) for stem in STEMS for name in checks_by_question(load_checks(stem))]


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
def test_the_solution_earns_all_points_with_every_seed(stem, name, solved):
    checks = checks_by_question(load_checks(stem))[name]
    for seed in SEEDS:
        assert [r.message for r in earned(checks, solved[stem], seed) if r.status != "passed"] == []


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
def test_no_answer_earns_nothing_and_is_no_error(stem, name, unanswered):
    checks = checks_by_question(load_checks(stem))[name]
    for seed in SEEDS:
        results = earned(checks, unanswered[stem], seed)
        assert sum(r.earned for r in results) == 0
        assert {r.status for r in results} == {"not yet"}


WRONG = [(stem, *wrong) for stem in STEMS for wrong in _notebooks.wrong_answers(master(stem))]


@pytest.mark.parametrize(
    ("stem", "name", "hint", "source"), WRONG, ids=[f"{s}-{q}-{h[:30]}" for s, q, h, _ in WRONG]
)
def test_each_wrong_answer_fails_with_its_own_hint(stem, name, hint, source, solved):
    checks = checks_by_question(load_checks(stem))[name]
    namespace = run([source], dict(solved[stem]))
    for seed in SEEDS:
        results = earned(checks, namespace, seed)
        assert sum(r.earned for r in results) < sum(r.points for r in results)
        assert any(hint in r.message for r in results), [r.message for r in results]


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
def test_every_question_has_three_wrong_answers_with_different_hints(stem, name):
    hints = {hint for question, hint, _ in _notebooks.wrong_answers(master(stem)) if question == name}
    assert len(hints) >= 3


@pytest.mark.parametrize("stem", STEMS)
def test_every_question_has_a_hint_that_costs_nothing(stem):
    for name, checks in checks_by_question(load_checks(stem)).items():
        assert any(check.mark.hint for check in checks), name


@pytest.mark.parametrize("stem", STEMS)
def test_the_text_names_the_points_of_each_question(stem):
    text = "\n".join(_notebooks.source_of(cell) for cell in master(stem)["cells"])
    module = load_checks(stem)
    points = {n: sum(c.mark.points for c in checks) for n, checks in checks_by_question(module).items()}
    points |= {name: asked.points for name, asked in manual_questions(module).items()}
    for name, value in points.items():
        assert any(
            line.startswith(f"## {name} ") and f"({value:g} point" in line for line in text.splitlines()
        )
    total = sum(points.values())
    stated = (
        f"{total:g} points, about an hour",
        f"{total:g} points, about {4 * total:g} minutes (4 a point)",
    )
    assert any(time in text for time in stated)


@pytest.mark.parametrize(("stem", "name"), QUESTIONS)
def test_the_text_says_what_each_part_is_worth(stem, name):
    said = points_in_words(checks_by_question(load_checks(stem))[name])
    text = _notebooks.solution_of(master(stem), name)
    parts = [part for check in checks_by_question(load_checks(stem))[name] for part in check.mark.parts]
    assert len(set(parts)) == len(parts)
    assert f"*{said[:1].upper()}{said[1:]}.*\n" in text if said else "*1 point for" not in text


@pytest.mark.parametrize("stem", STEMS)
def test_what_can_be_pasted_from_the_page_earns_a_third_at_most(stem, unanswered):
    groups = checks_by_question(load_checks(stem))
    pastes = _notebooks.from_the_page(master(stem))
    assert {name for name, _, _ in pastes} == set(groups), "each question has its best paste, even a poor one"
    for seed in range(3):
        best = dict.fromkeys(groups, 0)
        for name, _, source in pastes:
            results = earned(groups[name], run([source], dict(unanswered[stem])), seed)
            assert not any("is not defined" in r.message or "raised" in r.message for r in results)
            best[name] = max(best[name], sum(r.earned for r in results))
        most = sum(c.mark.points for checks in groups.values() for c in checks)
        assert sum(best.values()) <= most / 3, best


@pytest.mark.parametrize("stem", STEMS)
def test_the_forbidden_helpers_exist(stem):
    for name in _engine.forbidden(load_checks(stem)):
        for module, found in _forbidden.followed(name):
            assert callable(getattr(importlib.import_module(f"uqhelpers.{module}"), found))


@pytest.mark.parametrize("stem", STEMS)
def test_the_learners_notebook_is_its_masters(stem):
    committed = (EXERCISES / f"{stem}.ipynb").read_text(encoding="utf-8")
    expected = _notebooks.dump(_notebooks.learners_version(master(stem)))
    assert committed == expected, f"run `python -m uqhelpers.grading learner {stem}`"


@pytest.mark.parametrize("stem", STEMS)
def test_the_solution_in_the_package_is_its_masters(stem):
    shipped = Path(_engine.__file__).parent / "solutions" / f"{stem}.ipynb"
    expected = _notebooks.dump(_notebooks.solved_version(master(stem)))
    assert shipped.read_text(encoding="utf-8") == expected, (
        f"run `python -m uqhelpers.grading learner {stem}`"
    )


@pytest.mark.parametrize("stem", STEMS)
def test_the_learners_notebook_holds_no_solution_and_is_valid(stem):
    nbformat = pytest.importorskip("nbformat")
    notebook = _notebooks.read(EXERCISES / f"{stem}.ipynb")
    nbformat.validate(nbformat.from_dict(notebook))
    nbformat.validate(nbformat.from_dict(master(stem)))
    text = json.dumps(notebook)
    assert "BEGIN SOLUTION" not in text
    assert "wrong-answer" not in text
    assert "from-the-page" not in text
    for block in solution_blocks(stem):
        assert block not in "\n".join(_notebooks.source_of(cell) for cell in notebook["cells"])


def solution_blocks(stem):
    """The hidden parts of a master, as texts of some length."""
    blocks = []
    for cell in master(stem)["cells"]:
        source, tags = _notebooks.source_of(cell), _notebooks.tags_of(cell)
        if tags & _notebooks.FOR_TESTS or ("solution" in tags and cell["cell_type"] == "markdown"):
            blocks.append(source)
        elif "solution" in tags:
            blocks += [m[0] for m in _notebooks.SOLUTION.finditer(source)]
    return [block for block in blocks if len(block) > 40]


def test_the_published_site_holds_no_solution():
    site = EXERCISES.parents[1] / "_build" / "html"
    if not site.is_dir():
        pytest.skip("the site is not built: `make book`")
    hidden = []
    for stem in STEMS:
        for block in solution_blocks(stem):
            hidden.append(squeezed(block.replace("# BEGIN SOLUTION", "").replace("# END SOLUTION", "")))
        for check in (c for group in checks_by_question(load_checks(stem)).values() for c in group):
            hidden.append(squeezed(inspect.getsource(check)))
    for path in site.rglob("*"):
        if path.suffix in (".html", ".ipynb", ".txt", ".md", ".js", ".json", ".py"):
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.stem not in ("instructors", "searchindex"):  # which explain the markers
                assert "BEGIN SOLUTION" not in text, path
                assert "wrong-answer" not in text, path
            # Highlighted code is cut up by tags; a notebook's JSON by quotes, commas and escapes.
            for version in (text, html.unescape(re.sub(r"<[^>]*>", "", text))):
                letters = squeezed(version)
                found = [block for block in hidden if block in letters]
                assert not found, (path, found)


def squeezed(text):
    """Letters and digits only: what survives highlighting and escaping."""
    return "".join(
        character for character in text.replace("\\n", "").replace('\\"', "") if character.isalnum()
    )


def test_the_two_systems_of_the_exercise_on_confidnet_part_augrc_and_price():
    """What q6 says of them holds: AUGRC prefers A, and from one price on B is the cheaper."""
    checks = importlib.import_module("uqhelpers.grading.checks.confidnet")
    namespace = {"np": np}
    (look,) = [c for c in master("confidnet")["cells"] if c["id"] == "q6-look"]
    exec(_notebooks.source_of(look), namespace)
    a, b = systems = [namespace["wrong_in_a"], namespace["wrong_in_b"]]
    place = np.arange(200.0)
    assert metrics.augrc(place, a) < metrics.augrc(place, b)
    ahead = [
        np.subtract(*(checks.cheapest(-place, w, person) for w in systems)) > 0
        for person in np.linspace(0.01, 0.99, 99)
    ]
    assert not ahead[0]
    assert ahead[-1]
    assert np.sum(np.diff(ahead)) == 1


def test_no_seed_lets_rounding_decide_how_many_images_are_needed():
    """Two right ways to the number agree: none of the drawn cases lies on a whole one."""
    checks = importlib.import_module("uqhelpers.grading.checks.first_classifier")
    for seed in (*range(300), 552547096):
        a, b = checks.two_classifiers(seed)
        gap = a.astype(float) - b
        assert np.ceil((2 * np.std(gap) / np.mean(gap)) ** 2) == checks.needed(a, b)
