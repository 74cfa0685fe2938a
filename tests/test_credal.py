"""Credal sets: bounds on probabilities and entropies, held against enumeration, and decisions."""

import itertools
import time

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.special import entr

from uqhelpers import credal
from uqhelpers.metrics import predictive_entropy

RULES = ("e-admissibility", "maximality", "dominance")


def boxes(n, classes, seed=0, width=0.5):
    rng = np.random.default_rng(seed)
    centre = rng.dirichlet(np.full(classes, rng.choice([0.3, 1, 3])), n)
    down, up = width * rng.random((2, n, classes)) * rng.random((2, n, 1))
    return credal.Box(np.clip(centre - down, 0, 1), np.clip(centre + up, 0, 1))


def vertices(lower, upper):
    """All of them: every class but one at a bound."""
    classes = len(lower)
    for free in range(classes):
        rest = [c for c in range(classes) if c != free]
        for at in itertools.product((0, 1), repeat=classes - 1):
            p = np.empty(classes)
            p[rest] = np.where(at, upper[rest], lower[rest])
            p[free] = 1 - p[rest].sum()
            if lower[free] - 1e-12 <= p[free] <= upper[free] + 1e-12:
                yield np.clip(p, 0, 1)


def single_order(lower, upper, order):
    """The entropy at the vertex that fills up classes in an order."""
    p, free = lower.copy(), 1 - lower.sum()
    for c in order:
        step = min(upper[c] - lower[c], free)
        p[c], free = p[c] + step, free - step
    return entr(p).sum()


# --- entropies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 6, 8])
def test_the_lower_entropy_is_that_of_the_best_vertex(classes):
    box = boxes(40, classes, seed=classes)
    want = [
        min(entr(p).sum() for p in vertices(low, up)) for low, up in zip(box.lower, box.upper, strict=True)
    ]
    assert np.abs(credal.lower_entropy(box) - want).max() < 1e-9


def test_orders_that_look_plausible_miss_it_and_the_search_never_does():
    box = boxes(300, 6, seed=3)
    exact, missed = credal.lower_entropy(box), {}
    for name in ("largest bound first", "by index"):
        found = []
        for low, up in zip(box.lower, box.upper, strict=True):
            order = np.argsort(-up) if name != "by index" else range(6)
            found.append(single_order(low, up, order))
        assert np.all(np.array(found) > exact - 1e-12)
        missed[name] = np.mean(found > exact + 1e-9)
    assert missed["largest bound first"] > 0.15
    assert missed["by index"] > 0.3


@pytest.mark.parametrize("classes", [2, 3, 5, 10])
def test_the_upper_entropy_is_a_maximum(classes):
    box = boxes(12, classes, seed=classes + 20)
    got = credal.upper_entropy(box)
    for i in range(12):
        start = np.clip(1 / classes, box.lower[i], box.upper[i])
        found = minimize(
            lambda p: -entr(np.clip(p, 0, 1)).sum(),
            start,
            jac=lambda p: np.log(np.maximum(p, 1e-12)) + 1,
            method="SLSQP",
            bounds=np.stack([box.lower[i], box.upper[i]], axis=1),
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            options={"ftol": 1e-15, "maxiter": 500},
        )
        if abs(found.x.sum() - 1) < 1e-12:
            assert got[i] >= -found.fun - 1e-9
        # and it is reached: the water level is a member of the box
        low, high = 0.0, 1.0
        for _ in range(80):
            middle = (low + high) / 2
            full = np.clip(middle, box.lower[i], box.upper[i]).sum() < 1
            low, high = (middle, high) if full else (low, middle)
        assert got[i] == pytest.approx(entr(np.clip(low, box.lower[i], box.upper[i])).sum(), abs=1e-9)


def test_the_best_mixture_of_members_is_found():
    rng = np.random.default_rng(0)
    for members in (2, 5):
        probs = rng.dirichlet(np.ones(4), size=(members, 10))
        got = credal.upper_entropy(credal.from_ensemble(probs, "hull"))
        for i in range(10):
            best = max(
                -minimize(
                    lambda w, i=i, probs=probs: -entr(np.clip(w @ probs[:, i], 0, 1)).sum(),
                    start,
                    method="SLSQP",
                    bounds=[(0, 1)] * members,
                    constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
                    options={"ftol": 1e-15, "maxiter": 300},
                ).fun
                for start in rng.dirichlet(np.ones(members), 3)
            )
            assert got[i] == pytest.approx(best, abs=1e-8)
            weights = rng.dirichlet(np.ones(members), 200)
            assert got[i] >= entr(weights @ probs[:, i]).sum(axis=1).max() - 1e-9


@pytest.mark.parametrize("kind", ["box", "hull"])
def test_entropies_bound_that_of_the_average_and_do_not_know_the_order_of_the_classes(kind):
    probs = np.random.default_rng(1).dirichlet(np.full(7, 0.5), size=(4, 60))
    low, high = (f(credal.from_ensemble(probs, kind)) for f in (credal.lower_entropy, credal.upper_entropy))
    middle = predictive_entropy(probs)
    assert np.all((low <= middle + 1e-9) & (middle <= high + 1e-9))
    other = np.random.default_rng(2).permutation(7)
    turned = credal.from_ensemble(probs[..., other], kind)
    assert np.abs(credal.lower_entropy(turned) - low).max() < 1e-9
    assert np.abs(credal.upper_entropy(turned) - high).max() < 1e-9


def test_a_box_holds_its_hull():
    probs = np.random.default_rng(3).dirichlet(np.ones(5), size=(3, 50))
    box, hull = credal.from_ensemble(probs), credal.from_ensemble(probs, "hull")
    assert np.all(credal.lower_entropy(box) <= credal.lower_entropy(hull) + 1e-9)
    assert np.all(credal.upper_entropy(box) >= credal.upper_entropy(hull) - 1e-9)
    for event in itertools.product((False, True), repeat=5):
        assert np.all(credal.lower_probability(box, event) <= credal.lower_probability(hull, event) + 1e-12)


def test_the_lower_entropy_of_a_hull_is_that_of_its_surest_member():
    probs = np.random.default_rng(4).dirichlet(np.ones(5), size=(6, 30))
    found = credal.lower_entropy(credal.from_ensemble(probs, "hull"))
    assert np.allclose(found, entr(probs).sum(axis=2).min(axis=0), atol=1e-12)
    weights = np.random.default_rng(5).dirichlet(np.ones(6), 300)
    assert np.all(entr(np.einsum("ws,snc->wnc", weights, probs)).sum(axis=2) >= found - 1e-12)


def test_members_that_agree_leave_no_gap():
    probs = np.tile(np.random.default_rng(0).dirichlet(np.ones(4), 20), (5, 1, 1))
    for kind in ("box", "hull"):
        found = credal.from_ensemble(probs, kind)
        assert np.abs(credal.upper_entropy(found) - credal.lower_entropy(found)).max() < 1e-9


def test_certainty_in_all_members_is_certainty():
    probs = np.tile(np.eye(3), (4, 1, 1))
    for kind in ("box", "hull"):
        found = credal.from_ensemble(probs, kind)
        assert np.abs(credal.upper_entropy(found)).max() < 1e-9
        assert np.abs(credal.lower_entropy(found)).max() < 1e-9


def test_classes_that_are_all_alike_are_filled_in_any_order():
    box = credal.Box(np.zeros((1, 40)), np.full((1, 40), 0.0613))
    full = int(1 / 0.0613)
    want = full * entr(0.0613) + entr(1 - full * 0.0613)
    assert credal.lower_entropy(box) == pytest.approx(want, abs=1e-9)


def test_a_hundred_thousand_boxes_take_seconds():
    box = boxes(100_000, 10, seed=8)
    start = time.process_time()
    low, high = credal.lower_entropy(box), credal.upper_entropy(box)
    assert time.process_time() - start < 8  # 2 on a quiet core
    assert np.all(low <= high + 1e-9)


# --- counts ---------------------------------------------------------------------------------------------


def test_total_ignorance_is_everything_and_no_prior():
    box = credal.imprecise_dirichlet(np.zeros((1, 4)))
    assert box.lower.tolist() == [[0] * 4]
    assert box.upper.tolist() == [[1] * 4]
    assert credal.lower_entropy(box) == pytest.approx(0)
    assert credal.upper_entropy(box) == pytest.approx(np.log(4))


def test_counts_narrow_the_box_around_their_shares():
    counts = np.array([[3.0, 1.0, 0.0]])
    for s in (1.0, 2.0):
        box = credal.imprecise_dirichlet(counts, s)
        assert np.allclose(box.lower, counts / (4 + s))
        assert np.allclose(box.upper, (counts + s) / (4 + s))
    gap = [
        np.ptp(
            [
                f(credal.imprecise_dirichlet(n * counts))[0]
                for f in (credal.lower_entropy, credal.upper_entropy)
            ]
        )
        for n in (1, 10, 100, 1000)
    ]
    assert np.all(np.diff(gap) < 0)


# --- probabilities --------------------------------------------------------------------------------------


def test_probabilities_are_those_of_a_linear_program():
    box = boxes(15, 5, seed=5)
    for event in ([1, 0, 0, 0, 0], [1, 1, 0, 1, 0], [0, 0, 1, 1, 0]):
        low, high = (
            f(box, np.array(event, bool)) for f in (credal.lower_probability, credal.upper_probability)
        )
        for i in range(15):
            bounds = np.stack([box.lower[i], box.upper[i]], axis=1)
            want = [
                sign * linprog(sign * np.array(event), A_eq=np.ones((1, 5)), b_eq=[1], bounds=bounds).fun
                for sign in (1, -1)
            ]
            assert np.allclose([low[i], high[i]], want, atol=1e-9)


def test_the_upper_probability_is_one_minus_the_lower_of_the_complement():
    for kind in ("box", "hull"):
        found = credal.from_ensemble(np.random.default_rng(0).dirichlet(np.ones(4), (3, 20)), kind)
        event = np.array([True, False, True, False])
        assert np.allclose(
            credal.upper_probability(found, event), 1 - credal.lower_probability(found, ~event), atol=1e-12
        )


@pytest.mark.parametrize(("classes", "same"), [(2, True), (3, True), (4, False), (5, False)])
def test_a_total_variation_ball_is_a_box_up_to_three_classes_only(classes, same):
    p, radius = np.full(classes, 1 / classes), 0.1
    box = credal.Box(p[None] - radius, p[None] + radius)
    events = [np.array(e, bool) for e in itertools.product((0, 1), repeat=classes) if 0 < sum(e) < classes]
    of_ball = [p[event].sum() - radius for event in events]  # the ball moves so much mass, and no more
    of_box = [credal.lower_probability(box, event)[0] for event in events]
    assert np.allclose(of_ball, of_box) == same
    assert np.all(np.array(of_box) <= np.array(of_ball) + 1e-12)


def test_bounds_that_nothing_attains_are_drawn_in():
    box = credal.Box(np.array([[0.0, 0.0, 0.5]]), np.array([[0.9, 0.1, 1.0]]))
    assert np.allclose(box.upper, [[0.5, 0.1, 1.0]])
    box = credal.Box(np.array([[0.0, 0.0]]), np.array([[1.0, 0.3]]))
    assert np.allclose(box.lower, [[0.7, 0.0]])


# --- decisions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["box", "hull"])
def test_each_rule_keeps_no_more_than_the_one_before_and_at_least_one(kind):
    found = credal.from_ensemble(np.random.default_rng(0).dirichlet(np.ones(4), (3, 30)), kind)
    for utility in (None, np.random.default_rng(1).normal(size=(5, 4))):
        kept = [credal.decide(found, rule, utility) for rule in RULES]
        assert kept[0].any(axis=1).all()
        assert not (kept[0] & ~kept[1]).any()
        assert not (kept[1] & ~kept[2]).any()
        assert not (credal.decide(found, "maximin", utility) & ~kept[2]).any()


def test_the_quick_rule_for_classes_is_the_linear_program():
    box = boxes(60, 4, seed=6)
    quick = credal.decide(box, "e-admissibility")
    assert np.array_equal(quick, credal.decide(box, "e-admissibility", np.eye(4)))
    assert 1 < quick.sum(axis=1).mean() < 4


def test_one_distribution_names_its_most_probable_class_by_any_rule():
    probs = np.random.default_rng(0).dirichlet(np.ones(5), 20)
    for rule in (*RULES, "maximin"):
        for kind in ("box", "hull"):
            kept = credal.decide(credal.from_ensemble(probs[None], kind), rule)
            assert np.array_equal(kept, np.eye(5, dtype=bool)[probs.argmax(axis=1)])


def test_the_rules_part_where_they_should():
    # Two members: class 2 is second best in both, and best in no mixture.
    probs = np.array([[[0.6, 0.0, 0.4]], [[0.0, 0.6, 0.4]]])
    hull = credal.from_ensemble(probs, "hull")
    assert credal.decide(hull, "e-admissibility").tolist() == [[True, True, True]]  # at the middle .3, .3, .4
    lower = np.array([[[0.7, 0.0, 0.3]], [[0.0, 0.7, 0.3]]])
    hull = credal.from_ensemble(lower, "hull")
    assert credal.decide(hull, "e-admissibility").tolist() == [[True, True, False]]  # .35, .35, .3
    assert credal.decide(hull, "maximality").tolist() == [[True, True, True]]  # nobody beats it everywhere


# --- nonsense -------------------------------------------------------------------------------------------

BOX = credal.Box(np.zeros((1, 3)), np.ones((1, 3)))
WRONG = {
    "in order": lambda: credal.Box(np.array([[0.6, 0.2]]), np.array([[0.5, 0.8]])),
    "sums of at most 1": lambda: credal.Box(np.array([[0.6, 0.6]]), np.array([[0.7, 0.8]])),
    "upper: expected shape": lambda: credal.Box(np.zeros((1, 3)), np.ones((1, 2))),
    "NaN": lambda: credal.Box(np.full((1, 3), np.nan), np.ones((1, 3))),
    "sum to 1": lambda: credal.from_ensemble(np.full((2, 3, 4), 0.2)),
    "kind": lambda: credal.from_ensemble(np.full((2, 3, 4), 0.25), "ball"),
    "counts": lambda: credal.imprecise_dirichlet(-np.ones((1, 3))),
    "s: expected": lambda: credal.imprecise_dirichlet(np.ones((1, 3)), 0),
    "event": lambda: credal.lower_probability(BOX, [True, False]),
    "Box or a Hull": lambda: credal.upper_entropy(np.ones((2, 3)) / 3),
    "rule": lambda: credal.decide(BOX, "majority"),
    "utility": lambda: credal.decide(BOX, "maximin", np.eye(2)),
}


@pytest.mark.parametrize("words", WRONG)
def test_nonsense_is_named(words):
    with pytest.raises(ValueError, match=words):
        WRONG[words]()


@pytest.mark.parametrize("rule", ["dominance", "maximality", "e-admissibility", "maximin"])
@pytest.mark.parametrize("kind", ["box", "hull"])
def test_no_act_depends_on_the_unit_of_what_acts_are_worth(rule, kind):
    sampled = np.random.default_rng(2).dirichlet(np.full(3, 9.0), size=(4, 6))
    utility = np.vstack([np.eye(3), np.full(3, 0.4)])
    found = [
        credal.decide(credal.from_ensemble(sampled, kind), rule, unit * utility)
        for unit in (1.0, 2.0**-40, 2.0**-700, 2.0**700)
    ]
    assert 6 <= found[0].sum() < 24
    assert all(np.array_equal(other, found[0]) for other in found[1:])


@pytest.mark.parametrize("rule", ["dominance", "maximality", "e-admissibility", "maximin"])
def test_no_act_depends_on_where_what_acts_are_worth_begins(rule):
    hull = credal.from_ensemble(np.random.default_rng(2).dirichlet(np.full(3, 9.0), size=(4, 6)), "hull")
    utility = np.vstack([np.eye(3), np.full(3, 0.5)])
    assert np.array_equal(credal.decide(hull, rule, utility + 2.0**40), credal.decide(hull, rule, utility))


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_bounds_may_be_rounded_to_lower_precision(kind):
    probs = np.random.default_rng(0).dirichlet(np.ones(10), size=50)
    rounded = credal.Box(probs.astype(kind), probs.astype(kind))
    assert credal.upper_entropy(rounded) == pytest.approx(predictive_entropy(probs), abs=1e-2)
    with pytest.raises(ValueError, match="lower: expected sums"):
        credal.Box((0.5 * probs).astype(kind), (0.5 * probs).astype(kind))
