"""The guide and the cheat sheet: what they say is what the rows say, and each line of them works."""

import ast
import copy
import functools
import json
import re
import unicodedata
from pathlib import Path

import nbformat
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import average_precision_score

from tools import cheat_sheet, choose, glance, look, measured
from tools.book import ROOT
from uqhelpers import leaderboard

GUIDE = choose.guide()
LEAVES = {choose.name(leaf): leaf for leaf in GUIDE["leaves"]}
PAGE, SHEET = "book/reference/choose.html", "book/reference/cheat_sheet.html"
MADE = choose.expand((ROOT / "book/reference/choose.md").read_text(encoding="utf-8"))


# --- what is said is what the rows say -------------------------------------------------------------


@pytest.mark.parametrize(("place", "claim"), list(choose.claims()), ids=str)
def test_a_claim_has_the_sign_and_the_certainty_of_its_interval(place, claim):
    table, row, rival, column, says = claim
    mean, half = measured.difference(table, row, rival, column)
    sign = 1 if measured.table(table).columns[column].best == "max" else -1
    assert says in (measured.BETTER, measured.WORSE, measured.UNTOLD)
    assert (sign * mean - half > 0) == (says == measured.BETTER)
    assert (sign * mean + half < 0) == (says == measured.WORSE)


def test_what_is_said_of_parts_and_of_all_rivals_holds():
    assert choose.refuted() == []
    board = leaderboard.stored()
    rivals = [name for name in board.column("errors") if name != "entropy"]
    assert [n for n in rivals if np.subtract(*board.difference("errors", n, "entropy")) > 0] == []


@pytest.mark.parametrize(
    ("shift", "place"), [(0.2, "probabilities-ensemble"), (-0.2, "probabilities-evidential")]
)
def test_rows_that_changed_stop_the_page(shift, place, monkeypatch):
    found = measured.table("board")
    changed = copy.copy(found)
    rows = {
        **found.rows,
        "ensemble": {**found.rows["ensemble"], "nll": found.rows["ensemble"]["nll"] + shift},
    }
    object.__setattr__(changed, "rows", rows)
    exact = measured.table
    monkeypatch.setattr(measured, "table", lambda name: changed if name == "board" else exact(name))
    assert any(found.startswith(f"{place}: ") for found in choose.refuted())
    with pytest.raises(ValueError, match="what the stored rows do not"):
        choose.expand("")


def test_wider_intervals_take_a_preference_back(monkeypatch):
    exact = measured.difference
    monkeypatch.setattr(measured, "difference", lambda *c: (exact(*c)[0], 100 * exact(*c)[1] + 1))
    assert {place.split(":")[0] for place in choose.refuted()} >= {pair["id"] for pair in GUIDE["versus"]}


def test_no_interval_is_made_of_runs_that_share_networks():
    with pytest.raises(ValueError, match="independent"):
        measured.difference("attacked", "pgd through, ensemble", "pgd, single", "accuracy 0.1")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: measured.table("none"), "table: expected one of"),
        (lambda: measured.figure("board", "none", "nll"), "board: expected one of the rows"),
        (lambda: measured.figure("board", "ensemble", "none"), "board, ensemble: expected one of"),
        (lambda: measured.verdict(1.0, 0.5, None), "best: expected"),
    ],
)
def test_rows_that_are_not_there_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_verdict_needs_an_interval_without_nought():
    assert measured.verdict(0.2, 0.1, "max") == measured.BETTER
    assert measured.verdict(0.2, 0.1, "min") == measured.WORSE
    assert measured.verdict(-0.2, 0.1, "min") == measured.BETTER
    assert measured.verdict(0.1, 0.1, "min") == measured.UNTOLD
    assert measured.verdict(0.0, 0.0, "max") == measured.UNTOLD  # copies of one row


# --- figures ---------------------------------------------------------------------------------------


def rows_of(path):
    """``{row: {column: text}}`` of every table of a stored page."""
    found = {}
    for block in re.findall(r"(?:^\|.*\n)+", path.read_text(encoding="utf-8"), re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()
        )
        for row in rows:
            found.setdefault(row[0], {}).update(zip(head[1:], row[1:], strict=True))
    return found


def test_the_figures_of_the_leaderboard_are_those_of_its_stored_page():
    page, seen = rows_of(measured.RESULTS / "reproduce_leaderboard.md"), 0
    for _, (table, row, rival, column, _) in choose.claims():
        about = measured.table(table).columns[column]
        for each in (row, rival):
            text = page.get(measured.title(table, each), {}).get(about.title) if table == "board" else None
            if text:
                mean = measured.figure(table, each, column).mean()
                assert float(text.split(" ±")[0]) == pytest.approx(mean, abs=0.0011)
                seen += 1
    assert seen > 60


def test_the_differences_of_the_pools_are_those_of_their_stored_page():
    text = (measured.RESULTS / "reproduce_active_learning_pools.md").read_text()
    names = {"batch_bald": "BatchBALD", "margin": "margin", "bald": "BALD, the top ten", "entropy": "entropy"}
    names |= {"margin_once": "margin, one pass", "k_center": "k-center"}
    for pool, block in zip(measured.table("pools").columns, text.split("\n## ")[1:], strict=True):
        for row, name in names.items():
            mean, half = measured.difference("pools", row, "random", pool)
            assert f"{mean:+.1f} ± {half:.1f}" in re.search(rf"^\| {name} \|.*", block, re.MULTILINE)[0]


def test_every_figure_in_a_sentence_is_read_from_the_files():
    """Of the leaderboard's file itself, without the code that the page uses."""
    raw = json.loads((ROOT / "uqhelpers/leaderboard/stored/digits.json").read_text())["figures"]["standard"]
    told = 0
    for leaf in GUIDE["leaves"]:
        for found in re.findall(r"\{(\w+) \| (\w+)\}", leaf["advice"]):
            values = np.array(raw[found[0]][found[1]])
            said = re.findall(r"[−\d.]+ ± [\d.]+", choose.filled(f"{{{found[0]} | {found[1]}}}"))[0]
            mean, spread = (float(part.replace("−", "-")) for part in said.split(" ± "))
            assert mean == pytest.approx(values.mean(), abs=0.0006)
            assert spread == pytest.approx(values.std(ddof=1), abs=0.0006)
            told += 1
    assert told > 5
    assert "{" not in "".join(choose.filled(leaf["advice"]) for leaf in GUIDE["leaves"])


MEASURED = re.compile(r"(?<![\w.=α])(?:\d*\.\d{2,}|\.\d+)")
PROMISED = {".01", ".1", ".2", ".25"}  # levels and budgets: settings, not results


def test_no_result_is_typed_by_hand():
    texts = [leaf["advice"] for leaf in GUIDE["leaves"]] + [pair["answer"] for pair in GUIDE["versus"]]
    texts += [need[part] for need in GUIDE["needs"].values() for part in ("intro", "nothing")]
    typed = {number for text in texts for number in MEASURED.findall(choose.PLACE.sub("", text))}
    assert typed <= PROMISED


# --- every leaf leads somewhere --------------------------------------------------------------------


@functools.cache
def headings(path):
    """The fragments of a page of the book that links can lead to."""
    file = ROOT / "book" / path
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        text = "\n".join(c.source for c in nbformat.reads(text, 4).cells if c.cell_type == "markdown")
    for found in re.findall(r"\{include\} (\S+)", text):
        text += "\n" + (file.parent / found).read_text(encoding="utf-8")
    return {
        re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        for words in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


@functools.cache
def functions(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_leads_to_a_row_or_a_theorem_and_to_a_failure_and_a_test(name):
    leaf = LEAVES[name]
    places = [leaf["fails"][1], *([leaf["theorem"][1]] if "theorem" in leaf else [])]
    if "table" in leaf:
        assert leaf["of"] in measured.table(leaf["table"]).rows
        places.append(measured.table(leaf["table"]).place)
    if "row" in leaf:
        assert leaf["row"] in leaderboard.METHODS
        places.append(measured.table("board").place)
    assert leaf["claims"] or leaf.get("parts") or "theorem" in leaf or "no interval" in leaf["advice"]
    for place in places:
        path, _, fragment = place.partition("#")
        assert fragment in headings(path), place
    path, _, test = leaf["test"].partition("::")
    assert test.startswith("test_")
    assert test in functions(path)


@pytest.mark.parametrize("name", [name for name, leaf in LEAVES.items() if "row" in leaf])
def test_the_price_of_a_leaf_is_that_of_its_row(name):
    leaf = LEAVES[name]
    if leaf["need"] in ("labels", "attack"):
        return  # their price is that of a loop, or of an attacker's steps
    passes = measured.figure("board", leaf["row"], "predict_cost").mean()
    trains = leaf.get("trains", False) or not leaderboard.METHODS[leaf["row"]].post_hoc
    assert ("trainings" in leaf["costs"]) == trains
    assert ("passes" in leaf["costs"]) == (passes > choose.MANY_PASSES)
    assert ("budget" in leaf["asks"] or "machines" in leaf["asks"]) == ("trainings" in leaf["costs"])


def test_each_combination_of_answers_has_a_leaf_or_a_reason():
    combinations = choose.combinations_of_answers()
    assert len(combinations) == 16 * 8 * 5
    empty = []
    for have, need, cost in combinations:
        if not choose.fitting(have, need, cost):
            reason = choose.excuse(have, need)
            assert len(reason.split()) > 8
            empty.append((have, need, cost))
    assert (("held_out",), "sets", None) in empty
    assert (("network",), "sets", None) in empty
    assert (("network",), "labels", "posthoc") in empty
    assert not choose.fitting(("network",), "sets")  # no promise without held-out data or a budget
    for need in GUIDE["needs"]:  # with all there is, every need is served
        assert choose.fitting(("machines", "held_out"), need, "both")
        assert choose.fitting((), need)


def test_less_to_pay_and_less_to_have_leave_fewer():
    everything = {leaf["id"] for leaf in choose.fitting()}
    assert everything == {leaf["id"] for leaf in choose.fitting(("machines", "held_out"), None, "both")}
    for have, need, cost in choose.combinations_of_answers():
        found = [leaf["id"] for leaf in choose.fitting(have, need, cost)]
        if have:
            assert set(found) <= {
                leaf["id"] for leaf in choose.fitting((*have, "held_out", "machines"), need, cost)
            }
        if cost:
            assert set(found) <= {leaf["id"] for leaf in choose.fitting(have, need, "both")}


# --- every line of code runs -----------------------------------------------------------------------


class Names(dict):
    """What the lines may use, made when it is first asked for; the helpers are imported by their names."""

    def __missing__(self, name):
        if name in MAKERS:
            self[name] = MAKERS[name](self)
            return self[name]
        import importlib

        try:
            self[name] = importlib.import_module(f"uqhelpers.{name}")
        except ImportError:
            raise KeyError(name) from None
        return self[name]


EPOCHS = {"epochs": 6, "batch_size": 32, "learning_rate": 5e-3, "progress": False, "device": "cpu"}


def _digits(_):
    from uqhelpers import data

    return data.load("digits")


def _fresh(_=None):
    from uqhelpers.models import MLP

    return MLP(64, 10, (24,), dropout=0.2)


def _fit(network, seed):
    from uqhelpers import data, training

    train = data.load("digits").train[:200]
    return training.fit(network, train.images, train.labels, seed=seed, **EPOCHS)


def _net(_):
    from uqhelpers import training

    with training.seeded(0):
        net = _fresh()
    _fit(net, 0)
    return net


def _from(code):
    """A maker that evaluates a line with the names there are."""
    return lambda names: eval(code, {}, names)


LINE = np.random.default_rng(0)
MAKERS = {
    "functools": lambda _: functools,
    "digits": _digits,
    "net": _net,
    "make": lambda _: _fresh,
    "fit": lambda _: _fit,
    "new": _fresh,
    "nets": _from("[net, make()]"),
    "train_x": _from("digits.train[:200].images"),
    "train_y": _from("digits.train[:200].labels"),
    "held_x": _from("digits.validation[:80].images"),
    "held_y": _from("digits.validation[:80].labels"),
    "x": _from("digits.test[:12].images"),
    "pool": _from("digits.test[:40].images"),
    "stand_in": _from("1 - held_x"),
    "logits": _from("training.predict_outputs(net, x)"),
    "held_logits": _from("training.predict_outputs(net, held_x)"),
    "probs": _from("training.predict(net, x)"),
    "held_probs": _from("training.predict(net, held_x)"),
    "held_strange": _from("metrics.predictive_entropy(held_probs)"),
    "strange": _from("metrics.predictive_entropy(probs)"),
    "density": _from("ddu.GaussianFeatureDensity().fit(training.features(net, train_x), train_y)"),
    "held_targets": lambda _: LINE.normal(size=50),
    "held_quantiles": lambda _: np.stack([np.full(50, -1.0), np.ones(50)], axis=1),
    "quantiles": lambda _: np.array([[-1.0, 1.0]]),
    "left_out_errors": lambda _: np.abs(LINE.normal(size=40)),
    "fold_predictions": lambda _: LINE.normal(size=(4, 3)),
    "folds": lambda _: np.arange(40) % 4,
    "line_x": lambda _: LINE.normal(size=(30, 1)),
    "line_y": lambda names: names["line_x"][:, 0] + 0.1 * LINE.normal(size=30),
    "line_new": lambda _: np.array([[0.0], [9.0]]),
}
QUICK = {  # the same lines, shorter: what takes long is made small, nothing else
    "epochs=40": "epochs=2",
    "draws=1000": "draws=50",
    "members=5": "members=2",
    "ConfidNet(net).fit(train_x, train_y,": "ConfidNet(net, hidden=(8,)).fit(train_x, train_y, epochs=2,",
    "deep_ensembles.sample(nets, train_x))": "deep_ensembles.sample(nets, train_x), epochs=3)",
    "[0, 0.1]": "[0.1]",
}


@pytest.fixture(scope="module")
def names():
    shared = Names()
    for name in ("net", "nets"):
        shared[name]
    return shared


@pytest.mark.filterwarnings("ignore:prior_precision")  # a network of six epochs has no good one
@pytest.mark.parametrize("name", LEAVES)
def test_the_line_of_code_runs(name, names):
    import joblib

    code = LEAVES[name]["code"]
    for slow, quick in QUICK.items():
        code = code.replace(slow, quick)
    own = Names(names)
    own.pop("new", None)  # trained in place: each has its own
    own["digits"] = names["digits"]
    before = set(own)
    if "evidential.predict(new" in code and "append" not in code:
        own["new"].append(own["evidential"].DirichletHead("exp"))
    with joblib.parallel_config(backend="threading"):
        exec(compile(code, name, "exec"), {"__builtins__": __builtins__}, own)
    names.update({key: own[key] for key in set(own) - before if key in MAKERS and key != "new"})
    said = own.get("probs")
    if LEAVES[name]["need"] == "probabilities" and "probs =" in code:
        assert said.shape == (12, 10)
        assert np.allclose(np.sum(said, axis=1), 1, atol=1e-4)
    for score in ("doubt", "strange"):
        if f"{score} =" in code:
            assert len(own[score]) == 12
            assert np.isfinite(own[score]).all()
    if "ask =" in code:
        assert len(set(own["ask"])) == 10


def test_lines_fit_on_the_page():
    assert max(len(line) for leaf in GUIDE["leaves"] for line in leaf["code"].splitlines()) <= 88


# --- the pictures ----------------------------------------------------------------------------------


def test_the_good_picture_is_better_than_the_bad_one():
    curves = glance.read()
    low = {
        name: np.sum(kinds["letters"][:2]) / np.sum(kinds["letters"])
        for name, kinds in curves["entropies"].items()
    }
    assert low["long_network"] > low["ensemble"] + 0.1  # letters that it is sure of
    gaps = {}
    for what, curve in curves["reliability"].items():
        count, confidence, accuracy = (np.array(curve[key]) for key in ("count", "confidence", "accuracy"))
        gaps[what] = (count * (confidence - accuracy)).sum() / count.sum()
    board = measured.table("board").rows["max_probability"]
    assert gaps["clean"] == pytest.approx(board["gap"].mean(), abs=0.005)
    assert gaps["severity 5"] == pytest.approx(board["gap_5"].mean(), abs=0.02)
    kept = {name: np.array(values) for name, values in curves["kept"].items()}
    assert (kept["entropy"][:-1] >= kept["entropy"][-1]).all()
    assert kept["mahalanobis"][15] < kept["mahalanobis"][-1]  # worse than by lot


def test_a_picture_says_in_words_what_it_shows():
    made = glance.figures()
    said = re.findall(r'role="img" aria-label="([^"]+)"', made)
    assert len(said) == 8
    assert all(len(words.split()) > 6 for words in said)


# --- the cheat sheet -------------------------------------------------------------------------------


def close(first, second):
    return np.allclose(first, second, rtol=1e-9, atol=1e-12)


def binned(q, y):
    confidence, right = q.max(-1), q.argmax(-1) == y
    place = np.ceil(confidence * 10).astype(int)
    return sum(
        (place == k).mean() * abs(confidence[place == k].mean() - right[place == k].mean())
        for k in set(place)
    )


def pairs(s, wrong):
    gaps = s[wrong][:, None] - s[~wrong]
    return (gaps > 0).mean() + (gaps == 0).mean() / 2


@pytest.fixture(scope="module")
def cheat_names(names):
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(3), size=(6, 40)), rng.dirichlet(np.ones(3), size=40)
    known = Names(names)
    linear = names["bayesian_linear_regression"].BayesianLinearRegression()
    linear.fit(names["line_x"], names["line_y"])
    known |= {
        "np": np, "close": close, "binned": binned, "pairs": pairs, "softmax": lambda z: softmax(z, axis=-1),
        "average_precision_score": average_precision_score, "p": p, "bar": p.mean(0), "q": q,
        "y": rng.integers(0, 3, 40), "z": rng.normal(size=(40, 3)), "s": rng.normal(size=40),
        "wrong": rng.random(40) < 0.3, "std": rng.random(40) + 0.5, "t": rng.normal(size=40),
        "images": names["held_x"],
        "attacked": names["adversarial"].pgd(names["net"], names["held_x"], names["held_y"], 0.1),
        "blr": linear.predict(names["line_new"]), "blr_noise": linear.noise_std,
    }  # fmt: skip
    return known


@pytest.mark.parametrize("line", cheat_sheet.lines(), ids=lambda line: line["name"])
def test_a_formula_of_the_cheat_sheet_is_what_its_helper_computes(line, cheat_names):
    if "check" not in line:
        assert line["name"] in ("predictive", "evidence bound", "Laplace", "certificate")
        return
    assert eval(line["check"], {}, cheat_names), line["check"]


def test_the_cheat_sheet_has_the_symbols_and_the_signs_of_the_book():
    notation = (ROOT / "book/reference/notation.md").read_text(encoding="utf-8")
    conventions = (ROOT / "book/reference/conventions.md").read_text(encoding="utf-8")
    formulas = [line["formula"] for line in cheat_sheet.lines()]
    shared = [
        r"H[p] = -\sum_c p_c \log p_c",
        r"H[\bar p]",
        r"I[y; \theta] = H[\bar p] - \frac{1}{S} \sum_s H[p_s]",
        r"\bar p = \frac{1}{S} \sum_{s=1}^{S} p_s",
        r"\max_c \bar p_c",
        r"p(y \mid x, \mathcal{D}) = \mathbb{E}_{p(\theta \mid \mathcal{D})}[p(y \mid x, \theta)]",
    ]
    for formula in shared:
        assert formula in notation
        assert formula in formulas
    for word in (
        "stranger or less certain",
        "above zero is over-confident",
        "confidence minus accuracy",
        "nats",
    ):
        assert word in conventions.replace("\n", " ")
    signs = " ".join(cheat_sheet.sheet()["signs"])
    for word in (
        "stranger or less certain",
        "above 0 is over-confident",
        "confidence minus accuracy",
        "nats",
    ):
        assert word in signs
    known = set(re.findall(r"\\(\w+)|([A-Za-z])", notation))
    letters = {
        n
        for f in formulas
        for n in re.findall(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])", re.sub(r"\\\w+", " ", f))
    }
    told = {single for _, single in known if single} | set("skniluRPGzet") | {"r", "c"}
    assert letters <= told


@pytest.mark.browser
@pytest.mark.parametrize("margin", ["10mm", "13mm"])
def test_the_cheat_sheet_is_one_page_of_a4(margin, site, visit, tmp_path):
    pypdf = pytest.importorskip("pypdf")
    page = visit(viewport={"width": 1400, "height": 900}).open((site / SHEET).as_uri())
    target = tmp_path / "sheet.pdf"
    page.pdf(
        path=target,
        format="A4",
        print_background=True,
        margin=dict.fromkeys(("top", "bottom", "left", "right"), margin),
    )
    reader = pypdf.PdfReader(target)
    assert len(reader.pages) == 1
    text = unicodedata.normalize("NFKC", reader.pages[0].extract_text())  # ligatures taken apart
    for line in cheat_sheet.lines():  # nothing is left out, first card or last
        assert line["name"] in text


def test_in_the_book_on_paper_the_cheat_sheet_is_one_page_too(site):
    pypdf = pytest.importorskip("pypdf")
    from tools import pdf

    path = site / pdf.NAME
    with pdf.alone():  # `make test` prints it while the tests begin
        pass
    if not path.exists():
        pytest.skip("there is no PDF: `make pdf` prints it")
    from tools.book import pages

    places, all_pages = pdf.numbers(pypdf.PdfReader(path)), pages()
    after = all_pages[all_pages.index(SHEET.removesuffix(".html")) + 1]
    assert places[f"/{pdf.slug(after)}"] - places["/reference-cheat_sheet"] == 1


# --- the page in a browser -------------------------------------------------------------------------

SHOWN = """() => [...document.querySelectorAll('.uq-leaf')].filter(e => !e.closest('[hidden]'))
  .map(e => e.closest('section').querySelector('span[id^=choose-]').id.replace('choose-', ''))"""
TICK = """([have, need, cost]) => {
  const form = document.querySelector('form.uq-choose');
  for (const e of form.elements.have) { e.checked = have.includes(e.value); }
  for (const e of form.elements.need) { e.checked = e.value === (need || ''); }
  for (const e of form.elements.cost) { e.checked = e.value === (cost || ''); }
  form.dispatchEvent(new Event('change', {bubbles: true}));
}"""


def expected(have=(), need=None, cost=None):
    return [choose.name(leaf) for leaf in choose.fitting(have, need, cost)]


@pytest.fixture
def guide_page(site, visit):
    guest = visit(viewport={"width": look.WIDTHS["a desk"], "height": 900}, color_scheme="light")
    guest.open((site / PAGE).as_uri())
    return guest


@pytest.mark.browser
def test_the_page_shows_what_fits_whatever_is_ticked(guide_page):
    page, combinations = guide_page.page, choose.combinations_of_answers()
    everything = f"""(asked) => asked.map(one => {{
      ({TICK})(one);
      const rows = [...document.querySelectorAll('.uq-overview tbody tr')].filter(e => !e.hidden).length;
      return [({SHOWN})(), document.querySelector('.uq-found').textContent, rows];
    }})"""
    found = page.evaluate(everything, [[list(have), need, cost] for have, need, cost in combinations])
    for (have, need, cost), (shown, said, rows) in zip(combinations, found, strict=True):
        fitting = expected(have, need, cost)
        assert shown == fitting, (have, need, cost)
        assert rows == len(fitting)
        if fitting:
            assert said.startswith(f"All {len(LEAVES)}" if shown == list(LEAVES) else f"{len(fitting)} of")
        else:
            reason = choose.filled(choose.excuse(have, need)).replace("*", "")
            assert said.split() == ["Nothing", "fits.", *reason.split()]
    assert guide_page.complaints == []
    assert guide_page.hosts() == set()


@pytest.mark.browser
def test_a_keyboard_is_enough(guide_page):
    page = guide_page.page
    page.focus("form.uq-choose input")
    page.keyboard.press("Space")  # a trained network
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # held-out data
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # to the need, one stop for all of it
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("() => document.activeElement.value") == "sets"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(SHOWN) == expected(("network", "held_out"), "sets", "posthoc")
    assert page.url.endswith("#have=network,held_out&need=sets&cost=posthoc")
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # begin anew
    page.wait_for_function("() => !location.hash")
    assert page.evaluate(SHOWN) == expected()


@pytest.mark.browser
def test_an_address_brings_its_answers_and_a_link_shows_what_it_leads_to(site, visit):
    page = visit().open((site / PAGE).as_uri() + "#have=budget&need=strange")
    assert page.evaluate(SHOWN) == expected(("budget",), "strange")
    assert page.evaluate("() => document.querySelector('[name=need][value=strange]').checked")
    page.evaluate("() => { location.hash = '#need=labels'; }")
    page.wait_for_function("() => document.querySelector('[name=need][value=labels]').checked")
    assert page.evaluate(SHOWN) == expected((), "labels")
    page = visit().open((site / PAGE).as_uri() + "#choose-strange-density")
    assert page.evaluate(SHOWN) == expected()


@pytest.mark.browser
def test_without_a_script_everything_stands_below_each_other(site, visit):
    guest = visit(java_script_enabled=False)
    guest.page.goto((site / PAGE).as_uri())
    assert not guest.page.is_visible("form.uq-choose")
    assert guest.page.locator(".uq-leaf:visible").count() == len(LEAVES)
    assert guest.page.locator(".uq-nothing:visible").count() == len(GUIDE["needs"])


@pytest.mark.browser
def test_answers_do_no_harm_to_those_who_hear_the_page(guide_page):
    from tests import test_pages

    page = guide_page.page
    for answers in ([["held_out"], "sets", None], [["network"], "strange", "posthoc"]):
        page.evaluate(TICK, answers)
        assert test_pages.violations(page, {}) == []
        assert page.get_attribute(".uq-found", "aria-live") == "polite"
    assert page.evaluate(
        "() => [...document.querySelectorAll('fieldset')].every(e => e.querySelector('legend'))"
    )


@pytest.mark.browser
def test_printed_the_guide_has_no_form_and_cuts_nothing_off(site, visit, tmp_path):
    pypdf = pytest.importorskip("pypdf")
    page = visit(viewport={"width": 1400, "height": 900}).open((site / PAGE).as_uri())
    target = tmp_path / "guide.pdf"
    page.pdf(path=target, format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "12mm"))
    text = "\n".join(sheet.extract_text() for sheet in pypdf.PdfReader(target).pages)
    text = unicodedata.normalize("NFKC", text)
    assert "Begin anew" not in text
    for leaf in GUIDE["leaves"]:
        assert re.sub(r"\s+", "", leaf["code"].splitlines()[-1][:30]) in re.sub(r"\s+", "", text)


def test_the_page_is_reached_from_where_a_reader_looks():
    for path in ("index.md", "paths.md", "synthesis/leaderboard.ipynb"):
        assert "choose.md" in (ROOT / "book" / path).read_text(encoding="utf-8"), path
    assert "cheat_sheet.md" in (ROOT / "book/index.md").read_text(encoding="utf-8")


def test_no_script_reaches_out():
    script = (ROOT / "_static/choose.js").read_text(encoding="utf-8")
    assert not re.search(r"fetch|XMLHttp|https?:|import\(", script)
    assert Path(ROOT / "_static/choose.js").stat().st_size < 8_000
