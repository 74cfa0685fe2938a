"""The case study: prices, parts of a small table, alarms that ring as rarely as they say."""

from itertools import permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom, kstest

from uqhelpers import case_study, conformal

# --- the rows and their parts ------------------------------------------------------------------------------


def test_what_is_looked_for_is_class_one():
    rows = case_study.cancer()
    assert (len(rows), rows.targets.sum()) == (569, 212)
    size = rows.features[:, rows.names.index("mean radius")]
    assert size[rows.targets == 1].mean() > size[rows.targets == 0].mean()  # malignant lumps are larger


def test_the_diabetes_rows_are_in_their_own_units():
    rows = case_study.diabetes()
    assert rows.features.shape == (442, 10)
    assert rows.features[:, rows.names.index("age")].max() > 60
    assert len(rows[:7]) == 7


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(30, 200))
def test_parts_are_disjoint_and_whole_with_the_shares_of_each_class(seed, n):
    labels = np.arange(n) % 3 == 0
    parts = case_study.split(labels, seed)
    assert sorted(np.concatenate(parts)) == list(range(n))
    for part, share in zip(parts, case_study.PARTS.values(), strict=True):
        assert abs(labels[part].sum() - share * labels.sum()) <= 1
        assert abs((~labels[part]).sum() - share * (~labels).sum()) <= 1


def test_a_seed_repeats_a_split_and_another_differs():
    labels = np.zeros(50)
    first, again, other = (case_study.split(labels, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_the_interval_over_splits_is_wider_than_the_usual_one():
    values = np.random.default_rng(0).normal(size=10)
    mean, half = case_study.over_splits(values, 256, 114)
    assert mean == pytest.approx(values.mean())
    usual = 2.262157 * values.std(ddof=1) / np.sqrt(10)
    assert half == pytest.approx(usual * np.sqrt(1 + 10 * 114 / 256), rel=1e-5)


def test_the_interval_over_splits_holds_where_the_usual_one_does_not():
    """Two rules that are equally good: their difference over splits of one data set, many data sets."""
    rng, held, usual = np.random.default_rng(0), 0, 0
    for _ in range(200):
        outcome = rng.normal(size=80)  # of each case, the difference of two fixed rules
        figures = np.array([outcome[rng.permutation(80)[:24]].mean() for _ in range(15)])
        mean, half = case_study.over_splits(figures, 56, 24)
        held += abs(mean) <= half
        usual += abs(mean) <= 2.145 * figures.std(ddof=1) / np.sqrt(15)
    assert held / 200 > 0.9
    assert usual / 200 < 0.7


# --- prices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("miss", "needless"), [(20, 1), (1, 1), (0.3, 7)])
def test_at_the_threshold_both_acts_cost_the_same(miss, needless):
    p = case_study.cost_threshold(miss, needless)
    assert p * miss == pytest.approx((1 - p) * needless)


def test_no_threshold_costs_less_if_the_probabilities_are_right():
    rng = np.random.default_rng(0)
    p = rng.beta(0.4, 0.8, 200_000)
    events = rng.random(len(p)) < p
    best = case_study.cost_threshold(20, 1)
    prices = {t: case_study.price(p >= t, events, 20, 1) for t in (best, best / 3, best * 3, 0.5)}
    assert min(prices, key=prices.get) == best
    assert prices[best] == pytest.approx(case_study.expected_price(p, 20, 1).mean(), rel=0.05)


def test_a_price_counts_each_kind_of_error():
    acted, events = [True, True, False, False, False], [True, False, True, False, False]
    assert case_study.price(acted, events, 10, 3) == pytest.approx(13 / 5)


def test_a_person_is_asked_where_that_is_cheaper_than_both_acts():
    low, high = case_study.referral_zone(20, 1, 0.4)
    p = np.linspace(0.001, 0.999, 999)
    inside = case_study.expected_price(p, 20, 1) > 0.4
    assert np.array_equal(inside, (p > low) & (p < high))


def test_a_person_who_is_too_dear_is_never_asked():
    low, high = case_study.referral_zone(20, 1, 2.0)
    assert low == high == case_study.cost_threshold(20, 1)


@pytest.mark.parametrize(("n", "budget"), [(40, 0.1), (99, 0.05), (7, 0.5)])
def test_the_budget_is_kept_over_draws(n, budget):
    rng = np.random.default_rng(1)
    doubts = np.round(rng.random((4000, n + 1)), 2)  # ties, too
    over = [row[n] > case_study.referral_limit(row[:n], budget) for row in doubts]
    assert np.mean(over) <= budget + 3 * np.sqrt(budget / 4000)


def test_acts_are_wait_act_refer():
    p = np.array([0.001, 0.2, 0.9])
    assert case_study.cheapest(p, 20, 1).tolist() == [0, 1, 1]
    assert case_study.cheapest(p, 20, 1, limit=0.5).tolist() == [0, 2, 1]
    assert case_study.cheapest(p, 20, 1, doubts=[0, 0, 9], limit=5).tolist() == [0, 1, 2]


# --- ranks -------------------------------------------------------------------------------------------------


def test_online_ranks_are_uniform_and_independent_whatever_the_law():
    rng = np.random.default_rng(0)
    scores = np.round(rng.standard_cauchy((600, 8)), 0)  # many ties, no mean
    p = np.array([case_study.online_p_values(row[:3], row[3:], i) for i, row in enumerate(scores)])
    assert kstest(p.ravel(), "uniform").pvalue > 0.01
    assert np.abs(np.corrcoef(p.T) - np.eye(5)).max() < 0.15


def test_ranks_among_a_fixed_set_are_not_independent():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2000, 13))
    fixed = np.array([conformal.p_values(row[:3], row[3:], i) for i, row in enumerate(scores)])
    online = np.array([case_study.online_p_values(row[:3], row[3:], i) for i, row in enumerate(scores)])
    assert (fixed.mean(axis=1).var() > 2 * online.mean(axis=1).var()).all()


def test_the_first_online_rank_is_the_conformal_p_value():
    past, new = np.random.default_rng(0).normal(size=(2, 30))
    exact = conformal.p_values(past, new[:1])[0]  # 1 + those at least as high, of n + 1
    ours = [case_study.online_p_values(past, new[:1], seed)[0] for seed in range(300)]
    assert max(ours) <= exact
    assert min(ours) > exact - 1 / 31


@pytest.mark.parametrize("order", list(permutations([0.3, 1.2, 2.0])))
def test_ranks_of_a_small_stream_by_hand(order):
    p = case_study.online_p_values([1.0], order, 0)
    known = [1.0]
    for score, got in zip(order, p, strict=True):
        above = sum(other > score for other in known)
        known.append(score)
        assert above / len(known) < got <= (above + 1) / len(known)


# --- bets --------------------------------------------------------------------------------------------------

BETS = {
    "power": case_study.power_bet(0.5),
    "a small power": case_study.power_bet(0.2),
    "misses": case_study.miss_bet(0.1, 3),
    "a tilt": case_study.tilt_bet(0.6),
    "the other end": case_study.mirrored(case_study.power_bet(0.5)),
}


@pytest.mark.parametrize("name", BETS)
def test_a_bet_is_fair_under_uniform_ranks(name):
    v = (np.arange(10**5) + 0.5) / 10**5
    low = 0.5 * v**8  # dense where a density may be infinite: at both ends
    weight = 4 * v**7
    mass = np.mean(weight * (BETS[name](low) + BETS[name](1 - low)))
    assert 0.995 < mass < 1.001  # what is cut off at the very ends is lost


def test_a_bet_on_misses_pays_by_the_miss():
    assert case_study.miss_bet(0.1, 2)([0.05, 0.1, 0.5]).tolist() == pytest.approx([2, 2, 0.8 / 0.9])


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_a_bet_on_the_gap_is_fair_if_the_probability_is_right_and_only_then(p):
    win, lose = case_study.gap_bets([1, 0], [p, p], tilt=1.5)
    assert p * win + (1 - p) * lose == pytest.approx(1)
    for true in (p / 2, (1 + p) / 2):
        assert true * win + (1 - true) * lose != pytest.approx(1, abs=1e-3)


def test_a_bet_on_the_gap_is_blind_at_one_half_and_there_alone():
    assert case_study.gap_bets([1, 0], [0.5, 0.5], tilt=1.5).tolist() == pytest.approx([1, 1])
    beside = case_study.gap_bets([1, 0, 1, 0], [0.45, 0.45, 0.55, 0.55], tilt=1.5)
    assert (np.abs(beside - 1) > 0.01).all()


def test_misses_of_a_fixed_threshold_are_an_urn():
    """The chain of chances is the beta-binomial law that the count of misses is known to have."""
    n, alpha, steps = 19, 0.1, 6
    k = conformal.rank(n, alpha)
    for count in range(steps + 1):
        misses = np.arange(steps) < count
        chances = case_study.miss_chances(n, alpha, misses)
        one_order = np.prod(np.where(misses, chances, 1 - chances))
        assert comb(steps, count) * one_order == pytest.approx(betabinom(steps, n + 1 - k, k).pmf(count))


def test_misses_of_a_fixed_threshold_follow_the_urn():
    rng, n = np.random.default_rng(0), 19
    scores = rng.random((20_000, n + 2))
    limits = np.sort(scores[:, :n], axis=1)[:, conformal.rank(n, 0.1) - 1]
    first, second = (scores[:, n + i] > limits for i in range(2))
    want = case_study.miss_chances(n, 0.1, [True, True])[1]
    assert second[first].mean() == pytest.approx(want, abs=0.03)
    assert second.mean() == pytest.approx(0.1, abs=0.01)
    assert want > 0.13


# --- statistics --------------------------------------------------------------------------------------------


def plain(factors, statistic):
    value, found = (0.0 if statistic == "restarts" else 1.0), []
    for factor in factors:
        value = (value + (statistic == "restarts")) * factor
        if statistic == "cusum":
            value = max(value, 1.0)
        found.append(np.log(value))
    return np.array(found)


@pytest.mark.parametrize("statistic", case_study.STATISTICS)
def test_a_statistic_is_its_recursion(statistic):
    factors = case_study.power_bet(0.4)(1 - np.random.default_rng(0).random((3, 200)))
    got = case_study.STATISTICS[statistic](factors)
    assert np.allclose(got, [plain(row, statistic) for row in factors], atol=1e-9)


@pytest.mark.parametrize("statistic", case_study.STATISTICS)
def test_one_at_a_time_says_what_the_whole_stream_says(statistic):
    p = 1 - np.random.default_rng(3).random(300)
    p[150:] **= 2
    bets = [case_study.power_bet(), case_study.mirrored(case_study.tilt_bet())]
    alarm = case_study.Alarm(bets, 0.05, 300, statistic, years=400)
    watch = alarm.follow(p)
    rings, values = [], []
    for rank in p:
        rings.append(alarm.update(rank))
        values.append(alarm.value)
    assert np.allclose(values, watch.values, atol=1e-9)
    assert rings == (watch.values >= alarm.limit).tolist()
    alarm.reset()
    assert alarm.value in (0.0, -np.inf)


def test_the_stake_is_fair_and_the_sum_over_starts_grows_by_one():
    factors = np.array([0.5, 1.5])  # a fair coin
    paths = factors[np.indices((2,) * 6).reshape(6, -1).T]
    assert np.exp(case_study.wealth(paths)).mean(axis=0) == pytest.approx(np.ones(6))
    assert np.exp(case_study.restarts(paths)).mean(axis=0) == pytest.approx(np.arange(1, 7))


# --- the alarm ---------------------------------------------------------------------------------------------

YEAR = 300


@pytest.fixture(scope="module")
def alarms():
    return {
        (name, statistic): case_study.Alarm(bet, 0.05, YEAR, statistic, years=2000)
        for name, bet in {**BETS, "both ends": [BETS["power"], BETS["the other end"]]}.items()
        for statistic in case_study.STATISTICS
    }


def quiet_ranks(years, seed):
    """Ranks of quiet years: each with its own past, from a law with ties and heavy tails."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.standard_t(2, (years, 100 + YEAR)), 1)
    return np.array([case_study.online_p_values(row[:100], row[100:], rng) for row in scores])


@pytest.fixture(scope="module")
def quiet():
    return quiet_ranks(1000, 7)


@pytest.mark.parametrize("statistic", case_study.STATISTICS)
@pytest.mark.parametrize("name", [*BETS, "both ends"])
def test_in_a_thousand_quiet_years_it_rings_as_rarely_as_it_says(name, statistic, alarms, quiet):
    rings = np.isfinite(alarms[name, statistic].follow(quiet).rings).mean()
    assert rings <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)
    if statistic == "cusum" and name != "misses":  # the limit is not only kept, it is used
        assert rings >= 0.05 - 3 * np.sqrt(0.05 * 0.95 / 1000) - 0.005


UNFAIR = {
    "a little too much for every rank": lambda p: np.full(np.shape(p), 1.0095),
    "a tilt": lambda p: 1.009 * case_study.tilt_bet(0.6)(p),
}


@pytest.mark.parametrize("statistic", ["wealth", "restarts"])
@pytest.mark.parametrize("name", UNFAIR)
def test_a_bet_with_a_mean_above_one_is_made_fair(name, statistic):
    """As it comes, the first of them would ring in every quiet year."""
    alarm = case_study.Alarm(UNFAIR[name], 0.05, 500, statistic)
    years = 1 - np.random.default_rng(0).random((1000, 500))
    watch = alarm.follow(years)
    assert np.isfinite(watch.rings).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)
    one_by_one = []
    for rank in years[0]:
        alarm.update(rank)
        one_by_one.append(alarm.value)
    assert np.allclose(one_by_one, watch.values[0], atol=1e-9)


@pytest.mark.parametrize("statistic", ["wealth", "restarts"])
@pytest.mark.parametrize("name", BETS)
def test_a_fair_bet_is_left_as_it_is(name, statistic):
    (bet,) = case_study.Alarm(BETS[name], 0.05, YEAR, statistic).bets
    assert bet is BETS[name]


def test_a_mean_above_one_at_the_smallest_ranks_is_seen():
    with pytest.raises(ValueError, match=r"^bet: expected a density on .0, 1., got one with the mean 1\.04"):
        case_study.Alarm(lambda p: 1.05 * case_study.power_bet(0.2)(p), statistic="wealth")


def test_with_ranks_among_a_fixed_set_it_rings_too_often(alarms):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 20 + YEAR))
    fixed = np.array([conformal.p_values(row[:20], row[20:], rng) for row in scores])
    assert np.isfinite(alarms["misses", "cusum"].follow(fixed).rings).mean() > 0.12


def test_what_comes_in_pairs_breaks_the_promise(alarms):
    scores = np.random.default_rng(0).normal(size=(300, 100 + YEAR // 2))
    pairs = [np.append(row[:100], np.repeat(row[100:], 2)) for row in scores]
    p = np.array([case_study.online_p_values(row[:100], row[100:], 0) for row in pairs])
    assert np.isfinite(alarms["misses", "cusum"].follow(p).rings).mean() > 0.15


def test_any_statistic_can_be_given_a_rate(quiet):
    def window(p):
        total = np.cumsum(p <= 0.1, axis=-1)
        return total - np.pad(total, ((0, 0), (50, 0)))[:, : p.shape[-1]]

    limit = case_study.quiet_limit(window, 0.05, YEAR, years=2000)
    rings = (window(quiet).max(axis=-1) > limit).mean()
    assert 0.005 < rings <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)


def test_a_larger_drift_is_heard_sooner(alarms):
    rng, delays = np.random.default_rng(0), []
    for shift in (0.5, 1.0, 2.0):
        scores = rng.normal(size=(60, 100 + YEAR))
        scores[:, 150:] += shift
        p = np.array([case_study.online_p_values(row[:100], row[100:], rng) for row in scores])
        delays.append(np.median(alarms["power", "cusum"].follow(p).rings) - 50)
    assert delays[0] > 2 * delays[1] > 3 * delays[2] > 0


def test_it_says_since_when():
    rng, found = np.random.default_rng(0), []
    alarm = case_study.Alarm(case_study.power_bet(), 0.05, YEAR, years=500)
    for _ in range(40):
        p = 1 - rng.random(YEAR)
        p[120:] **= 3
        watch = alarm.follow(p)
        assert watch.since <= watch.rings
        found.append(int(watch.since))
    assert abs(np.median(found) - 120) < 10


def test_a_quiet_path_blames_its_last_low():
    watch = case_study.Watch(np.array([[0.0, 0.5, 0.0, 0.7, 3.0], [0.5, 1.0, 1.5, 2.0, 2.5]]), 2.0)
    assert watch.rings.tolist() == [4, 3]
    assert watch.since.tolist() == [3, 0]


def test_a_simulated_limit_is_that_of_its_seed_and_grows_with_the_year():
    short, again, long = (
        case_study.Alarm(case_study.power_bet(), 0.05, T, years=400, seed=3).limit for T in (50, 50, 500)
    )
    assert short == again < long


# --- the rivals --------------------------------------------------------------------------------------------


def test_the_repeated_test_is_the_binomial_one():
    misses = np.zeros(120, bool)
    misses[100:] = True
    first = int(case_study.repeated_test(misses, 0.1, window=50, level=0.05))
    count = lambda t: misses[t - 49 : t + 1].sum()  # noqa: E731
    assert binom.sf(count(first) - 1, 50, 0.1) <= 0.05 < binom.sf(count(first - 1) - 1, 50, 0.1)
    assert case_study.repeated_test(misses[:40], 0.1, window=50) == np.inf


def test_a_test_repeated_every_day_rings_in_a_third_of_quiet_years():
    misses = np.random.default_rng(0).random((200, 500)) < 0.1
    rings = [case_study.repeated_test(row, 0.1) for row in misses]
    assert np.isfinite(rings).mean() > 0.35
    once = [case_study.repeated_test(row[:100], 0.1) for row in misses]
    assert np.isfinite(once).mean() < 0.11


def test_page_and_hinkley_hear_a_rise_and_with_their_usual_limit_hardly_ever():
    values = np.repeat([0.1, 0.6], [200, 200]) > np.random.default_rng(0).random(400)
    loud = case_study.page_hinkley(values, limit=8)
    assert 200 <= loud < 260
    assert case_study.page_hinkley(values[:260]) == np.inf


def test_adaptive_windowing_finds_a_jump_and_nothing_in_a_constant():
    assert case_study.adwin(np.ones(300)) == np.inf
    assert 200 <= case_study.adwin(np.repeat([0.0, 1.0], [200, 100])) < 260


# --- the clinic --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clinic():
    rng = np.random.default_rng(0)
    events = np.arange(60) % 3 == 0
    features = rng.normal(5, 1, (60, 3)) + events[:, None]
    names = ("mean radius", "worst area", "mean symmetry")
    return case_study.Clinic(
        features, events, lambda x: 1 / (1 + np.exp(6 - x[:, 0])), lambda x: x[:, 1], names
    )


def test_lengths_grow_with_the_magnification_and_areas_with_its_square(clinic):
    grown = case_study.magnified(clinic.features, clinic.names, 0.1) / clinic.features
    assert np.allclose(grown, [1.1, 1.21, 1.0])


@pytest.mark.parametrize("drift", case_study.DRIFTS)
def test_until_the_change_a_year_is_quiet(drift, clinic):
    size = {"more cancers": 2.0, "harder patients": 4.0}.get(drift, 0.3)
    found = clinic.years(drift, size, years=150, patients=60, onset=30, past=40)
    for name in case_study.SCORES:
        assert kstest(found.ranks[name][:, :30].ravel(), "uniform").pvalue > 0.001
        assert found.past[name].shape == (150, 40)
        assert found.scores[name].shape == found.events.shape == (150, 60)
    if drift == "quiet":
        assert kstest(found.ranks["misfit"][:, 30:].ravel(), "uniform").pvalue > 0.001


def test_each_drift_changes_what_it_says(clinic):
    def after(drift, size):
        found = clinic.years(drift, size, years=300, patients=60, onset=30, past=5, scores=["inputs"])
        return found.events[:, 30:], found.probs[:, 30:], found.scores["inputs"][:, 30:]

    events, probs, areas = after("quiet", 0)
    assert events.mean() == pytest.approx(1 / 3, abs=0.02)
    assert after("more cancers", 2.0)[0].mean() == pytest.approx(2 / 3, abs=0.02)
    assert after("magnification", 0.2)[2].mean() == pytest.approx(1.44 * areas.mean(), rel=0.02)
    doubt = case_study.expected_price(probs.ravel(), 20, 1).mean()
    assert case_study.expected_price(after("harder patients", 5.0)[1].ravel(), 20, 1).mean() > 1.1 * doubt
    flipped, same, _ = after("another disease", 0.2)
    assert same.mean() == pytest.approx(probs.mean(), abs=0.02)
    assert flipped.mean() == pytest.approx(0.8 / 3 + 0.2 * 2 / 3, abs=0.02)


def test_a_change_that_creeps_grows_in_equal_steps(clinic):
    """Half way up the ramp half of it is there, and from its end on all of it."""

    def halves(drift, size, what):
        how = {"years": 600, "patients": 70, "onset": 30, "past": 5, "scores": ["inputs"]}
        slow, fast = (clinic.years(drift, size, ramp=ramp, **how) for ramp in (20, 0))
        quiet = what(clinic.years(**how)).mean()
        whole = what(fast)[:, 50:].mean() - quiet
        return [(what(slow)[:, part].mean() - quiet) / whole for part in (slice(30, 50), slice(50, 70))]

    for drift, size, what in (
        ("magnification", 0.3, lambda found: np.sqrt(found.scores["inputs"])),
        ("more cancers", 2.0, lambda found: found.events.astype(float)),
        ("another disease", 0.8, lambda found: found.events.astype(float)),
    ):
        half, whole = halves(drift, size, what)
        assert half == pytest.approx(0.52, abs=0.12), drift
        assert whole == pytest.approx(1, abs=0.15), drift


def test_a_person_is_not_asked_about_what_is_worth_less(clinic):
    doubts = np.arange(1, 20) / 20
    assert case_study.referral_limit(doubts, 0.1) == pytest.approx(0.9)
    assert case_study.referral_limit(doubts, 0.5, person=0.2) == pytest.approx(0.5)
    assert case_study.referral_limit(doubts, 0.5, person=0.8) == 0.8


def test_the_gap_is_what_came_minus_what_was_said(clinic):
    found = clinic.years(years=2, patients=9, onset=3, past=4)
    assert np.allclose(found.scores["gap"], found.events - found.probs)
    assert np.allclose(found.scores["misfit"], np.abs(found.events - found.probs))


def test_a_draw_of_ones_own_is_that_of_its_number():
    first, again, other = (case_study.own_draw(number) for number in (4711, 4711, 4712))
    assert list(first) == ["choose", "promise", "report"]
    for name, (probs, events) in first.items():
        assert np.array_equal(probs, again[name][0])
        assert np.mean((probs > 0.5) == events) > 0.9
    assert not np.array_equal(first["report"][0], other["report"][0])


# --- what is refused ---------------------------------------------------------------------------------------

WRONG = {
    "miss": lambda: case_study.cost_threshold(0, 1),
    "needless": lambda: case_study.price([1], [0], 1, -1),
    "events": lambda: case_study.price([1, 0], [0], 1, 1),
    "probs": lambda: case_study.expected_price([0.2, 1.2], 1, 1),
    "person": lambda: case_study.referral_zone(1, 1, -0.1),
    "doubts": lambda: case_study.cheapest([0.1, 0.2], 1, 1, doubts=[0.1]),
    "limit": lambda: case_study.cheapest([0.1], 1, 1, limit=np.nan),
    "shares": lambda: case_study.split([0, 1], 0, (0.5, 0.6)),
    "labels": lambda: case_study.split([[0, 1]], 0),
    "values": lambda: case_study.over_splits([0.1], 10, 5),
    "past": lambda: case_study.online_p_values([], [1.0], 0),
    "stream": lambda: case_study.online_p_values([1.0], [np.nan], 0),
    "score": lambda: case_study.Ranks([1.0], 0).add(np.nan),
    "power": lambda: case_study.power_bet(0),
    "factor": lambda: case_study.miss_bet(0.1, 10),
    "tilt": lambda: case_study.gap_bets([1], [0.5], 0),
    "bets": lambda: case_study.Alarm([]),
    "factors": lambda: case_study.wealth([-1.0]),
    "rate": lambda: case_study.Alarm(BETS["power"], 1.0),
    "years": lambda: case_study.Alarm(BETS["power"], 0.001, years=100),
    "statistic": lambda: case_study.Alarm(BETS["power"], statistic="ewma"),
    "bet": lambda: case_study.Alarm(lambda p: 2 * np.ones_like(p)),
    "p": lambda: case_study.Alarm(BETS["power"], years=30).follow([1.5]),
    "alpha": lambda: case_study.miss_chances(5, 0.01, [True]),
    "window": lambda: case_study.repeated_test([True], 0.1, window=0),
    "delta": lambda: case_study.adwin([0.5], delta=0),
    "names": lambda: case_study.magnified(np.ones((2, 3)), ["radius"], 0.1),
    "size": lambda: case_study.magnified(np.ones((2, 1)), ["radius"], -1),
    "register": lambda: case_study.own_draw(-1),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_named(name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        WRONG[name]()


def test_a_price_of_a_person_that_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match=r"^person: expected a number that can be compared, got NaN"):
        case_study.referral_limit([0.1], 0.5, np.nan)


@pytest.mark.parametrize("value", ["high", None, [0.1, 0.2], np.ma.masked, 1j, np.array([0.1])])
def test_what_is_no_number_is_compared_with_nothing(value):
    for name, use in (
        ("person", lambda: case_study.referral_limit([0.1, 0.2], 0.5, value)),
        ("limit", lambda: case_study.cheapest([0.1], 20, 1, limit=value)),
        ("score", lambda: case_study.Ranks([0.1, 0.2], 0).add(value)),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            use()


def test_infinite_scores_are_ranked_and_whole_numbers_are_numbers():
    ranks = case_study.Ranks([0.0, 1.0], 0)
    assert ranks.add(np.inf) <= 1 / 3
    assert ranks.add(np.float32(-np.inf)) > 3 / 4
    assert 2 / 5 < ranks.add(1) <= 4 / 5
    assert case_study.referral_limit([0.1, 0.2], 0.5, 3) == 3
    assert case_study.referral_limit([0.1], 1, -np.inf) == -np.inf


def test_a_level_of_one_is_none():
    with pytest.raises(ValueError, match=r"^level: expected a number below 1"):
        case_study.over_splits([0.1, 0.2], 10, 5, level=1)
    with pytest.raises(ValueError, match=r"^alpha: expected a number below 1"):
        case_study.repeated_test([True], 1)


@pytest.mark.parametrize("statistic", [3, lambda p: p[:, :1], lambda p: p.max(), lambda p: p * np.nan])
def test_a_statistic_that_is_none_is_refused_before_its_limit_is(statistic):
    with pytest.raises(ValueError, match=r"^statistic: expected a"):
        case_study.quiet_limit(statistic, horizon=5, years=100)


@pytest.mark.parametrize(
    ("drift", "size"), [("another disease", 1.5), ("another disease", -0.5), ("harder patients", -0.5)]
)
def test_a_drift_of_impossible_size_is_refused(drift, size, clinic):
    with pytest.raises(ValueError, match=r"^size: expected a number in"):
        clinic.years(drift, size, years=2, patients=9, onset=3, past=4)


@pytest.mark.parametrize(
    ("name", "predict", "strangeness"),
    [
        ("predict", lambda rows: np.full(len(rows) - 1, 0.2), lambda rows: rows[:, 0]),
        ("predict", lambda rows: np.full(len(rows), 1.2), lambda rows: rows[:, 0]),
        ("strangeness", lambda rows: np.full(len(rows), 0.2), lambda rows: rows[:1, 0]),
    ],
)
def test_a_clinic_asks_for_one_probability_and_one_score_a_row(name, predict, strangeness):
    place = case_study.Clinic(np.eye(3), [0, 1, 0], predict, strangeness, ("a", "b", "c"))
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        place.years(years=2, patients=9, onset=3, past=4)


def test_rows_are_a_table_with_a_name_a_column_and_a_target_a_row():
    features, targets, names = np.ones((3, 2)), np.zeros(3), ("a", "b")
    assert len(case_study.Rows(features, targets, names)[[0, 2]]) == 2
    for name, wrong in (
        ("features", (features[0], targets, names)),
        ("features", (features, targets, ("a",))),
        ("features", (np.ma.masked_equal(features, 2), targets, names)),
        ("targets", (features, targets[:2], names)),
        ("targets", (features, targets[:, None], names)),
        ("targets", (features, np.ma.masked_equal(targets, 1), names)),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            case_study.Rows(*wrong)


def test_a_part_without_rows_is_refused():
    with pytest.raises(ValueError, match=r"^shares: expected parts"):
        case_study.split([0, 1], 0)


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**-200, 2.0**700])
def test_the_interval_over_splits_comes_in_the_unit_of_the_figure(unit):
    values = np.array([0.1, 0.2, 0.35])
    plain = np.array(case_study.over_splits(values, 100, 50))
    assert np.array_equal(np.array(case_study.over_splits(unit * values, 100, 50)), unit * plain)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: case_study.over_splits([0.1, 0.2], 10, 5, level=1.0), "level"),
        (lambda: case_study.repeated_test([True] * 200, 1.0), "alpha"),
    ],
)
def test_a_share_of_one_is_refused_where_nothing_finite_follows(call, name):
    with pytest.raises(ValueError, match=f"^{name}: expected a number below 1, got 1$"):
        call()


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_probabilities_are_compared_in_the_precision_in_which_they_came(kind):
    probs = np.array([0.1, 0.3, 0.6, 0.7, 0.9])
    for miss in (1, 3, 4, 7, 9):  # thresholds .9, .7, .6, .3 and .1, all among the probabilities
        wide = case_study.cheapest(probs, miss, 10 - miss)
        assert np.array_equal(case_study.cheapest(probs.astype(kind), miss, 10 - miss), wide)
        assert wide[probs == (10 - miss) / 10] == 1


@pytest.mark.parametrize("kinds", [(np.float32, np.float64), (np.float64, np.float32)])
def test_scores_of_two_precisions_tie_where_they_are_the_same_number(kinds):
    past, stream = np.arange(1, 10) / 10, np.arange(9, 0, -1) / 10
    alike = case_study.online_p_values(past, stream, 0)
    mixed = case_study.online_p_values(past.astype(kinds[0]), stream.astype(kinds[1]), 0)
    assert np.array_equal(mixed, alike)


def test_a_row_without_a_class_is_in_no_part_and_refused():
    with pytest.raises(ValueError, match=r"^labels: expected a class for each row, got NaN"):
        case_study.split([0.0, 1.0, np.nan] * 20, 0)


def test_a_miss_is_one_in_single_precision_too():
    ranks = np.array([0.1, 0.2, 0.3, 0.6, 0.7, 1.0])
    for alpha in (0.1, 0.2, 0.3):
        bet = case_study.miss_bet(alpha)
        assert np.array_equal(bet(ranks.astype(np.float32)), bet(ranks))


def test_a_clinic_is_told_probabilities():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    clinic = case_study.Clinic(rows, rows[:, 0] > 0, lambda x: 9 * x[:, 0], lambda x: x[:, 1], ("a", "b"))
    with pytest.raises(ValueError, match=r"^predict: expected probabilities .* are these logits\?"):
        clinic.years(years=1, patients=5, onset=2, past=5)


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**1023])
def test_a_threshold_does_not_depend_on_the_unit_of_the_prices(unit):
    assert case_study.cost_threshold(unit, unit / 4) == case_study.cost_threshold(4, 1) == 0.2
    assert case_study.referral_zone(unit, unit, unit) == (0.5, 0.5)


@pytest.mark.parametrize("score", [None, "a", np.nan, [1.0, 2.0]])
def test_what_has_no_rank_is_named_and_not_taken_in(score):
    ranks = case_study.Ranks([1.0, 2.0], 0)
    with pytest.raises(ValueError, match="score: expected"):
        ranks.add(score)
    assert ranks.add(3.0) <= 1 / 3
    assert 0 < ranks.add(np.inf) <= 1
