"""Conformal prediction: ranks in whole numbers, the law of the coverage, sets, intervals, streams, risks."""

import numpy as np
import pytest
from scipy import stats

from uqhelpers import conformal

TAIL = 1e-5  # chance of a false alarm of each statistical test, two-sided


def classes(n, seed=0, width=6, factor=1.0):
    """Probabilities of a classifier and labels drawn from them, or from what they over- or understate."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, width))
    powers = np.exp(logits)
    truth = powers / powers.sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=width - 1)
    said = np.exp(factor * logits)
    return said / said.sum(axis=1, keepdims=True), labels


# --- ranks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "alpha", "k"),
    [(19, 0.1, 18), (20, 0.1, 19), (99, 0.1, 90), (999, 0.1, 900), (9, 0.1, 9), (8, 0.1, 9), (99, 0.3, 70)],
)
def test_the_rank_is_exact(n, alpha, k):
    assert conformal.rank(n, alpha) == k


def test_a_level_that_was_computed_in_floats_has_the_rank_of_the_one_that_was_meant():
    for n in (9, 19, 99, 199, 999, 9999):
        for percent in range(1, 100):
            want = -(-(n + 1) * (100 - percent) // 100)
            for alpha in (percent / 100, 1 - (100 - percent) / 100, np.float32(percent / 100)):
                assert conformal.rank(n, alpha) == want, (n, percent)


def test_too_few_scores_bound_nothing_and_no_promise_lets_nothing_in():
    assert conformal.quantile(np.arange(8.0), 0.1) == np.inf
    assert conformal.quantile(np.arange(9.0), 0.1) == 8
    assert conformal.quantile(np.arange(9.0), 0.0) == np.inf
    assert conformal.quantile(np.arange(9.0), 1.0) == -np.inf


def test_the_quantile_is_the_score_of_its_rank_in_whatever_order_they_come():
    rng = np.random.default_rng(0)
    for n in (5, 50, 501):
        scores = rng.normal(size=n)
        for alpha in (0.2, 0.5, 0.9):
            assert conformal.quantile(scores, alpha) == np.sort(scores)[conformal.rank(n, alpha) - 1]


@pytest.mark.parametrize("n", [19, 20, 99, 137])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.25])
def test_equal_weights_are_no_weights(n, alpha):
    scores = np.random.default_rng(n).normal(size=n)
    for weight in (1.0, 0.1, 7e5):
        got = conformal.quantile(scores, alpha, np.full(n, weight), weight)
        assert got == conformal.quantile(scores, alpha)


def test_weights_stay_with_their_scores():
    scores, weights = np.array([3.0, 1.0, 2.0]), np.array([8.0, 1.0, 1.0])
    # Sorted: score 1 has weight 1, score 2 has 1, score 3 has 8; the new one has 1: eleven together.
    assert conformal.quantile(scores, 0.85, weights, 1.0) == 2
    assert conformal.quantile(scores, 0.5, weights, 1.0) == 3
    assert conformal.quantile(scores, 0.05, weights, 1.0) == np.inf
    many = conformal.quantile(scores, 0.5, weights, np.array([1.0, 30.0]))
    assert many.tolist() == [3, np.inf]


def test_weights_of_any_size_and_of_none_are_weights():
    assert conformal.quantile([1.0, 2.0, 3.0], 0.1, [1e308] * 3, 1e308) == np.inf
    assert conformal.quantile([1.0, 2.0, 3.0], 0.5, [1.0, 1.0, 1.0], 0.0) == 2
    probs, labels = classes(60, 0, width=3)
    fitted = conformal.SplitClassifier().fit(probs, labels, class_weights=[1.0, 2.0, 0.0])
    assert fitted.predict(probs[:5]).shape == (5, 3)
    fitted = conformal.SplitClassifier().fit(probs, labels, weights=np.ones(60))
    alone = fitted.predict(probs[:1], weights=[0.0])
    assert np.array_equal(alone, fitted.predict(probs[:2], weights=[0.0, 1.0])[:1])


def weighted_coverage(sort_apart):
    """Coverage under a covariate shift that is known, in 300 repetitions."""
    rng, hits = np.random.default_rng(5), []
    for _ in range(300):
        x, new = rng.random(200), np.sqrt(rng.random(200))  # density 2x instead of 1
        scores, fresh = x * rng.exponential(size=200), new * rng.exponential(size=200)
        weights = np.sort(2 * x)[np.argsort(np.argsort(scores))] if sort_apart else 2 * x
        hits.append(np.mean(fresh <= conformal.quantile(scores, 0.1, weights, 2 * new)))
    return np.mean(hits), np.std(hits) / np.sqrt(len(hits))


def test_weights_keep_the_promise_where_inputs_moved_and_weights_sorted_by_themselves_break_it():
    mean, error = weighted_coverage(sort_apart=False)
    assert 0.9 - 5 * error < mean < 0.925
    wrong, _ = weighted_coverage(sort_apart=True)
    assert wrong - mean > 0.008  # paired: the same draws


# --- the law --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "alpha"), [(20, 0.1), (100, 0.1), (500, 0.05)])
def test_coverage_given_the_calibration_set_follows_its_law(n, alpha):
    rng, law = np.random.default_rng(n), conformal.coverage_law(n, alpha)
    found = [
        conformal.quantile(rng.random(n), alpha) for _ in range(1000)
    ]  # uniform: score and coverage are one
    assert stats.kstest(found, stats.beta(law.k, n + 1 - law.k).cdf).pvalue > TAIL
    assert law.mean == law.k / (n + 1) >= 1 - alpha
    low, high = law.interval(0.9)
    assert law.below(high) - law.below(low) == pytest.approx(0.9)
    assert law.std == pytest.approx(stats.beta(law.k, n + 1 - law.k).std())


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_coverage_on_a_finite_test_set_is_beta_binomial(score):
    law, n, m = conformal.coverage_law(50, 0.1), 50, 100
    hits = []
    for seed in range(1000):
        probs, labels = classes(n + m, seed, factor=1.7)
        sets = conformal.SplitClassifier(score, seed=None if score == "lac" else seed)
        sets = sets.fit(probs[:n], labels[:n]).predict(probs[n:])
        hits.append(conformal.covered(sets, labels[n:]).sum())
    edges = law.counts(m).ppf([0.2, 0.4, 0.6, 0.8]).astype(int)
    places = np.searchsorted(edges, hits)
    below = np.concatenate([[0], law.counts(m).cdf(edges), [1]])
    assert stats.chisquare(np.bincount(places, minlength=5), 1000 * np.diff(below)).pvalue > TAIL


@pytest.mark.parametrize("score", ["absolute", "normalised", "cqr"])
def test_intervals_have_the_same_law(score):
    law, found = conformal.coverage_law(60, 0.1), []
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        spread = rng.uniform(0.5, 2, 160)
        y = spread * rng.normal(size=160)
        said = {
            "absolute": (np.zeros(160), None),
            "normalised": (np.zeros(160), spread),
            "cqr": (np.stack([-spread, spread], axis=1), None),
        }[score]
        parts = [[None if a is None else a[s] for a in said] for s in (slice(60), slice(60, None))]
        ends = conformal.SplitRegressor(score).fit(parts[0][0], y[:60], parts[0][1]).predict(*parts[1])
        found.append(conformal.covered(ends, y[60:]).sum())
    edges = law.counts(100).ppf([0.25, 0.5, 0.75]).astype(int)
    below = np.concatenate([[0], law.counts(100).cdf(edges), [1]])
    counts = np.bincount(np.searchsorted(edges, found), minlength=4)
    assert stats.chisquare(counts, 1000 * np.diff(below)).pvalue > TAIL


def test_there_is_no_law_without_a_rank():
    with pytest.raises(ValueError, match="alpha"):
        conformal.coverage_law(8, 0.1)


# --- p-values -------------------------------------------------------------------------------------------


def test_p_values_are_ranks():
    got = conformal.p_values([1.0, 2.0, 3.0], [0.0, 2.0, 2.5, 9.0])
    assert got.tolist() == [1.0, 0.75, 0.5, 0.25]


def test_randomised_p_values_are_uniform_even_with_ties_and_plain_ones_reject_too_rarely():
    rng, plain, spread = np.random.default_rng(0), [], []
    for seed in range(4000):
        scores = rng.integers(0, 3, 11).astype(float)
        plain += conformal.p_values(scores[:10], scores[10:]).tolist()
        spread += conformal.p_values(scores[:10], scores[10:], seed=seed).tolist()
    assert stats.kstest(spread, "uniform").pvalue > TAIL
    for alpha in (0.1, 0.3, 0.5):
        assert np.mean(np.array(plain) <= alpha) <= alpha + 4 * np.sqrt(alpha * (1 - alpha) / 4000)


def test_rejecting_by_the_p_value_is_lying_outside_of_the_set():
    rng = np.random.default_rng(1)
    scores, new = rng.normal(size=37), rng.normal(size=500)
    for alpha in (0.07, 0.2):
        outside = new > conformal.quantile(scores, alpha)
        assert np.array_equal(outside, conformal.p_values(scores, new) <= alpha)


# --- sets of classes ------------------------------------------------------------------------------------


def test_adaptive_scores_by_hand():
    probs = np.array([[0.5, 0.2, 0.3], [0.25, 0.5, 0.25]])
    assert np.allclose(conformal.adaptive_scores(probs), [[0.5, 1.0, 0.8], [0.75, 0.5, 1.0]])
    u = np.array([0.5, 0.0])
    assert np.allclose(conformal.adaptive_scores(probs, u), [[0.25, 0.9, 0.65], [0.5, 0.0, 0.75]])
    with_penalty = conformal.adaptive_scores(probs, penalty=1.0, free=1)
    assert np.allclose(with_penalty, [[0.5, 3.0, 1.8], [1.75, 0.5, 3.0]])  # classes are counted from 1


@pytest.mark.parametrize("options", [{"score": "aps"}, {"score": "raps", "penalty": 0.3, "free": 1}])
def test_sets_are_all_classes_whose_score_is_low_enough(options):
    probs, labels = classes(300, 3)
    probs[:50] = np.round(probs[:50], 1)  # ties
    probs /= probs.sum(axis=1, keepdims=True)
    fitted = conformal.SplitClassifier(**options).fit(probs[100:], labels[100:])
    keys = {key: options[key] for key in ("penalty", "free") if key in options}
    scores = conformal.adaptive_scores(probs, **keys)
    want = conformal.quantile(scores[100:][np.arange(200), labels[100:]], 0.1)
    assert fitted.threshold_ == pytest.approx(want, abs=1e-12)
    sure = np.abs(scores - want).min(axis=1) > 1e-9
    assert np.array_equal(fitted.predict(probs)[sure], scores[sure] <= want)


def test_least_ambiguous_sets_are_one_cut_through_the_probabilities():
    probs, labels = classes(400, 4)
    fitted = conformal.SplitClassifier("lac").fit(probs[:200], labels[:200])
    own = probs[np.arange(200), labels[:200]]
    assert np.array_equal(fitted.predict(probs[200:]), probs[200:] >= 1 - conformal.quantile(1 - own, 0.1))


def repeated(make, times=150):
    """Mean coverage over repetitions and its standard error."""
    found = [make(seed) for seed in range(times)]
    return np.mean(found), np.std(found) / np.sqrt(times)


def test_calibrating_with_chance_and_predicting_without_breaks_the_promise():
    def coverage(calibrated, predicted):
        def once(seed):
            probs, labels = classes(1100, seed)
            u = np.random.default_rng([seed, 1]).random(1100)
            with_chance, without = conformal.adaptive_scores(probs, u), conformal.adaptive_scores(probs)
            one, other = ({"u": with_chance, "1": without}[name] for name in (calibrated, predicted))
            limit = conformal.quantile(one[:100][np.arange(100), labels[:100]], 0.1)
            return np.mean(other[100:][np.arange(1000), labels[100:]] <= limit)

        return repeated(once)

    for name in ("u", "1"):
        mean, error = coverage(name, name)
        assert abs(mean - conformal.coverage_law(100, 0.1).mean) < 5 * error
    assert coverage("u", "1")[0] < 0.85
    assert coverage("1", "u")[0] > 0.93


def test_an_empty_set_gets_its_best_class_only_if_asked():
    probs, labels = np.tile([0.9, 0.1], (30, 1)), np.repeat([0, 1], [27, 3])
    far = np.array([[0.5, 0.5], [0.4, 0.6]])
    plain = conformal.SplitClassifier(alpha=0.2).fit(probs, labels)
    assert plain.predict(far).sum() == 0
    filled = conformal.SplitClassifier(alpha=0.2, never_empty=True).fit(probs, labels).predict(far)
    assert filled.tolist() == [[True, False], [False, True]]


def test_each_class_keeps_its_own_promise():
    rows = []
    for seed in range(150):
        probs, labels = classes(900, seed, width=3, factor=[[3.0, 1.0, 0.5]])
        fitted = conformal.SplitClassifier("lac", by="class").fit(probs[:300], labels[:300])
        rows.append(conformal.coverage_report(fitted.predict(probs[300:]), labels[300:], "class").coverage)
    mean, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(150)
    assert (mean > 0.9 - 5 * error).all()
    assert (mean < 0.93).all()


def test_each_group_has_a_law_of_its_own():
    rng = np.random.default_rng(0)
    law, found = conformal.coverage_law(30, 0.1), []
    for seed in range(1000):
        probs, labels = classes(160, seed)
        groups = np.repeat([0, 7, 0, 7], [30, 30, 50, 50])
        probs[groups == 7] = rng.permuted(probs[groups == 7], axis=1)  # a group that is not understood at all
        fitted = conformal.SplitClassifier(by="group").fit(probs[:60], labels[:60], groups[:60])
        sets = fitted.predict(probs[60:], groups[60:])
        found.append(conformal.covered(sets, labels[60:])[50:].sum())
    edges = law.counts(50).ppf([0.25, 0.5, 0.75]).astype(int)
    below = np.concatenate([[0], law.counts(50).cdf(edges), [1]])
    counts = np.bincount(np.searchsorted(edges, found), minlength=4)
    assert stats.chisquare(counts, 1000 * np.diff(below)).pvalue > TAIL


def test_a_group_or_class_that_was_never_seen_gets_everything():
    probs, labels = classes(60, 0, width=3)
    fitted = conformal.SplitClassifier(by="group").fit(probs, labels, np.zeros(60, int))
    assert fitted.predict(probs, np.ones(60, int)).all()
    fitted = conformal.SplitClassifier(by="class").fit(probs[labels < 2], labels[labels < 2])
    assert fitted.predict(probs)[:, 2].all()


@pytest.mark.parametrize("by", [None, "class"])
@pytest.mark.parametrize("score", ["lac", "aps"])
def test_weights_that_are_all_one_change_no_set(score, by):
    probs, labels = classes(300, 2)
    plain = conformal.SplitClassifier(score, by=by).fit(probs[:150], labels[:150]).predict(probs)
    fitted = conformal.SplitClassifier(score, by=by).fit(probs[:150], labels[:150], weights=np.ones(150))
    assert np.array_equal(fitted.predict(probs, weights=np.ones(300)), plain)
    fitted = conformal.SplitClassifier(score, by=by).fit(probs[:150], labels[:150], class_weights=np.ones(6))
    assert np.array_equal(fitted.predict(probs), plain)


def test_class_weights_mend_a_label_shift():
    def coverage(aware):
        def once(seed):
            probs, labels = classes(4000, seed, width=3, factor=[[3.0, 1.0, 0.5]])
            rng, rates = np.random.default_rng([seed, 9]), np.array([0.02, 0.18, 1.0])
            moved = rng.random(4000) < rates[labels]
            moved[:400] = False
            options = {"class_weights": rates} if aware else {}
            fitted = conformal.SplitClassifier().fit(probs[:400], labels[:400], **options)
            return conformal.covered(fitted.predict(probs[moved]), labels[moved]).mean()

        return repeated(once, 60)

    mean, error = coverage(aware=True)
    assert 0.9 - 5 * error < mean < 0.93
    assert coverage(aware=False)[0] < mean - 0.015


def test_half_precision_and_torch_come_in():
    import torch

    probs, labels = classes(200, 1)
    want = conformal.SplitClassifier("aps").fit(probs, labels).predict(probs)
    for kind in (torch.tensor, lambda a: np.asarray(a, np.float32)):
        got = conformal.SplitClassifier("aps").fit(kind(probs), labels).predict(kind(probs))
        assert np.mean(got != want) < 0.01


# --- intervals ------------------------------------------------------------------------------------------


def test_quantiles_that_are_too_wide_shrink():
    y = np.linspace(-1, 1, 99)
    ends = np.tile([-5.0, 5.0], (99, 1))
    fitted = conformal.SplitRegressor("cqr").fit(ends, y)
    assert fitted.threshold_ < -4
    assert np.all(fitted.predict(ends)[:, 1] < 1.0 + 1e-12)


def test_weighted_intervals_keep_the_promise_where_inputs_moved():
    def coverage(aware):
        def once(seed):
            rng = np.random.default_rng(seed)
            x, new = rng.random(300), np.sqrt(rng.random(500))
            y, fresh = x * rng.normal(size=300), new * rng.normal(size=500)
            fitted = conformal.SplitRegressor().fit(0 * x, y, weights=x if aware else None)
            ends = fitted.predict(0 * new, weights=new if aware else None)
            return conformal.covered(ends, fresh).mean()

        return repeated(once)

    mean, error = coverage(aware=True)
    assert 0.9 - 5 * error < mean < 0.92
    assert coverage(aware=False)[0] < 0.87


def jackknife_by_hand(residuals, predictions, alpha):
    low = np.sort(predictions - residuals[:, None], axis=0)
    high = np.sort(predictions + residuals[:, None], axis=0)
    n = len(residuals)
    down, up = int(np.floor(alpha * (n + 1) + 1e-9)), int(np.ceil((1 - alpha) * (n + 1) - 1e-9))
    return np.stack([low[down - 1], high[up - 1]], axis=1)


@pytest.mark.parametrize("n", [19, 20, 39])
def test_jackknife_plus_is_its_definition(n):
    rng = np.random.default_rng(n)
    residuals, predictions = rng.exponential(size=n), rng.normal(size=(n, 7))
    got = conformal.jackknife_plus(residuals, predictions, 0.1)
    assert np.allclose(got, jackknife_by_hand(residuals, predictions, 0.1))
    folds = rng.integers(0, 4, n)
    got = conformal.cv_plus(residuals, predictions[:4], folds, 0.1)
    assert np.allclose(got, jackknife_by_hand(residuals, predictions[:4][folds], 0.1))
    assert np.isinf(conformal.jackknife_plus(residuals[:5], predictions[:5], 0.1)).all()


def test_jackknife_plus_covers_at_least_its_bound_and_usually_the_level():
    hits = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(31, 3)), rng.normal(size=31)
        fits = [
            np.linalg.lstsq(np.delete(x[:30], i, 0), np.delete(y[:30], i), rcond=None)[0] for i in range(30)
        ]
        residuals = np.abs([y[i] - x[i] @ w for i, w in enumerate(fits)])
        ends = conformal.jackknife_plus(residuals, np.array([x[30:] @ w for w in fits]), 0.2)
        hits.append(conformal.covered(ends, y[30:])[0])
    assert stats.binom.cdf(sum(hits), 400, 0.6) > 0.5  # 1 - 2 alpha is a wide bound
    assert stats.binomtest(sum(hits), 400, 0.8, "less").pvalue > TAIL


# --- streams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["calm", "drifting", "an opponent"])
@pytest.mark.parametrize("gamma", [0.005, 0.05, 0.5])
def test_the_rate_of_misses_is_bounded_for_any_sequence(kind, gamma):
    rng, past = np.random.default_rng(0), np.arange(50.0)
    scores = {
        "calm": 50 * rng.random(800),
        "drifting": 50 * rng.random(800) + np.linspace(0, 200, 800),
        "an opponent": np.where(np.arange(800) % 300 < 150, 1e9, -1e9),
    }[kind]
    adaptive = conformal.AdaptiveConformal(0.1, gamma, start=0.3)
    stream = adaptive.follow(scores, past, window=50)
    for steps in (50, 300, 800):
        assert abs(stream.misses[:steps].mean() - 0.1) <= adaptive.bound(steps) + 1e-12
    assert stream.levels.min() >= -gamma
    assert stream.levels.max() <= 1 + gamma


def test_a_stream_is_followed_step_by_step():
    rng = np.random.default_rng(3)
    past, scores = rng.random(20), rng.random(60)
    stream = conformal.AdaptiveConformal(0.2, 0.1).follow(scores, past, window=20)
    single, known = conformal.AdaptiveConformal(0.2, 0.1), list(past)
    for t, score in enumerate(scores):
        limit = single.threshold(known[-20:])
        assert limit == stream.thresholds[t]
        miss = bool(score > limit)
        assert miss == stream.misses[t]
        single.update(miss)
        known.append(score)


def test_without_a_window_everything_counts():
    stream = conformal.AdaptiveConformal(0.5, 1e-9).follow(np.arange(10.0, 20), np.arange(9.0))
    assert stream.thresholds.tolist() == [4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0, 8.0, 8.0, 10.0] or np.all(
        np.diff(stream.thresholds) >= 0
    )
    assert stream.thresholds[0] == conformal.quantile(np.arange(9.0), 0.5)
    assert stream.thresholds[5] == conformal.quantile(
        np.concatenate([np.arange(9.0), np.arange(10.0, 15)]), 0.5
    )


# --- risks ----------------------------------------------------------------------------------------------


def test_for_misses_risk_control_is_split_conformal():
    rng = np.random.default_rng(0)
    for n in (19, 50, 99):
        scores = rng.random(n)
        limits = np.sort(np.append(scores, [0.0, 1.0]))
        found = conformal.control_risk(scores[:, None] > limits, 0.1)
        assert limits[found.index] == conformal.quantile(scores, 0.1)


def test_the_expected_loss_of_the_next_input_stays_below_the_level():
    rng, grid, losses = np.random.default_rng(0), np.linspace(0, 1, 51), []
    for _ in range(3000):
        table = np.clip(rng.beta(1, 2, 31)[:, None] - grid, 0, 1) ** 0.5
        found = conformal.control_risk(table[:30], 0.2)
        losses.append(table[30, found.index])
    assert np.mean(losses) - 5 * np.std(losses) / np.sqrt(3000) < 0.2
    assert np.mean(losses) > 0.12  # not by being timid


@pytest.mark.parametrize("binary", [True, False])
def test_learn_then_test_is_wrong_as_rarely_as_it_says(binary):
    rng, grid, bad = np.random.default_rng(1), np.linspace(0, 1, 41), []
    true = 1 - grid if binary else (1 - grid) ** 2 / 2
    for _ in range(1500):
        u = rng.random(100)[:, None]
        table = (u > grid).astype(float) if binary else np.clip(u - grid, 0, 1)
        found = conformal.control_risk(table, 0.2, "ltt", delta=0.1)
        bad.append(true[found.index] > 0.2)
    assert stats.binomtest(sum(bad), 1500, 0.1, "greater").pvalue > TAIL
    if binary:
        assert np.mean(bad) > 0.01


def test_a_failed_test_ends_the_search():
    losses = np.tile([0.0, 0.0, 1.0, 0.0, 0.0], (200, 1))  # a bad setting between good ones
    found = conformal.control_risk(losses, 0.1, "ltt")
    assert found.index == 3
    assert conformal.control_risk(np.ones((5, 2)), 0.1).index is None


# --- reports --------------------------------------------------------------------------------------------


def test_a_report_counts_by_group_with_exact_intervals():
    sets = np.array([[1, 0], [1, 1], [0, 1], [0, 0], [1, 0]], bool)
    report = conformal.coverage_report(sets, [0, 1, 0, 1, 0], by="class")
    assert report.groups.tolist() == [0, 1]
    assert report.inputs.tolist() == [3, 2]
    assert np.allclose(report.coverage, [2 / 3, 1 / 2])
    assert report.overall == pytest.approx(0.6)
    for i, (hits, n) in enumerate(((2, 3), (1, 2))):
        exact = stats.binomtest(hits, n).proportion_ci(0.95, "exact")
        assert np.allclose([report.low[i], report.high[i]], exact)
    assert conformal.coverage_report(sets, [0, 1, 0, 1, 0], by="size").groups.tolist() == [0, 1, 2]
    named = conformal.coverage_report(sets, [0, 1, 0, 1, 0], by=np.array([5, 5, 2, 2, 2]))
    assert named.size.tolist() == [pytest.approx(2 / 3), 1.5]


def test_intervals_hold_their_ends_and_an_empty_one_holds_nothing():
    ends = np.array([[0.0, 1.0], [2.0, 1.0], [-np.inf, np.inf]])
    assert conformal.covered(ends, [1.0, 1.5, 9.0]).tolist() == [True, False, True]
    assert conformal.set_sizes(ends).tolist() == [1.0, 0.0, np.inf]


# --- nonsense -------------------------------------------------------------------------------------------

PROBS, LABELS = classes(20, 0)
WRONG = {
    "n: expected": lambda: conformal.rank(0, 0.1),
    "alpha": lambda: conformal.quantile([1.0], 1.2),
    "NaN": lambda: conformal.quantile([1.0, np.nan], 0.1),
    "weights": lambda: conformal.quantile([1.0], 0.1, new_weights=1.0),
    "new_weights": lambda: conformal.quantile([1.0], 0.1, weights=[1.0]),
    "at least 0": lambda: conformal.quantile([1.0], 0.1, [-1.0], 1.0),
    "score": lambda: conformal.SplitClassifier("margin"),
    "seed": lambda: conformal.SplitClassifier("lac", seed=0),
    "fit first": lambda: conformal.SplitClassifier().predict(PROBS),
    "logits": lambda: conformal.SplitClassifier().fit(9 * PROBS - 3, LABELS),
    "groups": lambda: conformal.SplitClassifier(by="group").fit(PROBS, LABELS),
    "groups: expected with": lambda: conformal.SplitClassifier().fit(PROBS, LABELS, LABELS),
    "6 classes": lambda: conformal.SplitClassifier().fit(PROBS, LABELS).predict(np.eye(3)),
    "got both": lambda: conformal.SplitClassifier().fit(PROBS, LABELS, None, np.ones(20), np.ones(6)),
    "u: expected": lambda: conformal.adaptive_scores(PROBS, np.full(20, 2.0)),
    "predictions": lambda: conformal.SplitRegressor("cqr").fit(np.ones(5), np.ones(5)),
    "spread": lambda: conformal.SplitRegressor("normalised").fit(np.ones(5), np.ones(5)),
    "above 0": lambda: conformal.SplitRegressor("normalised").fit(np.ones(5), np.ones(5), np.zeros(5)),
    "residuals": lambda: conformal.jackknife_plus([-1.0], np.ones((1, 2))),
    "folds": lambda: conformal.cv_plus([1.0, 1.0], np.ones((1, 2)), [0, 1]),
    "miss": lambda: conformal.AdaptiveConformal().update(0.3),
    "gamma": lambda: conformal.AdaptiveConformal(gamma=0),
    "not to rise": lambda: conformal.control_risk([[0.0, 1.0]], 0.1),
    "losses": lambda: conformal.control_risk([[2.0, 1.0]], 0.1),
    "by": lambda: conformal.coverage_report(np.array([[0.0, 1.0]]), [0.5], by="class"),
    "sets": lambda: conformal.covered(np.ones((3, 2), int), [0, 0, 0]),
    "targets": lambda: conformal.covered(np.ones((3, 2), bool), [0, 0]),
}


@pytest.mark.parametrize(("n", "k"), [(5, 6), (5, 0), (0, 1), (5.5, 2), (5, np.nan), (None, 1)])
def test_a_law_of_a_rank_that_is_none_is_refused(n, k):
    with pytest.raises(ValueError, match=r"^[nk]: expected a whole number"):
        conformal.CoverageLaw(n, k)


@pytest.mark.parametrize("ask", ["density", "below"])
@pytest.mark.parametrize("coverage", [np.nan, None, [], "x", np.ma.masked_less([0.1, 0.9], 0.5)])
def test_a_law_is_asked_for_numbers(ask, coverage):
    with pytest.raises(ValueError, match=r"^coverage: expected"):
        getattr(conformal.coverage_law(20, 0.1), ask)(coverage)


def test_weights_of_new_inputs_may_come_from_any_library_and_have_no_mask():
    torch = pytest.importorskip("torch")
    scores, weights, new = np.arange(9.0), np.arange(1.0, 10.0), np.array([1.0, 50.0])
    told = conformal.quantile(scores, 0.3, weights, new)
    grown = torch.tensor(new, requires_grad=True)
    assert np.array_equal(conformal.quantile(scores, 0.3, weights, grown), told)
    with pytest.raises(ValueError, match=r"^new_weights: .*mask"):
        conformal.quantile(scores, 0.3, weights, np.ma.masked_greater(new, 2))


def test_a_report_is_of_groups_that_are_some_and_of_a_level_below_one():
    ends = np.array([[0.0, 1.0], [0.0, 2.0]])
    with pytest.raises(ValueError, match=r"^by: expected groups, got NaN"):
        conformal.coverage_report(ends, [0.5, 0.5], by=[1.0, np.nan])
    with pytest.raises(ValueError, match=r"^level: expected a number below 1"):
        conformal.coverage_report(ends, [0.5, 0.5], level=1)


@pytest.mark.parametrize("value", [None, 1, "no", np.array([True, False])])
def test_a_switch_is_on_or_off(value):
    with pytest.raises(ValueError, match=r"^never_empty: expected True or False"):
        conformal.SplitClassifier(never_empty=value)


@pytest.mark.parametrize("words", WRONG)
def test_nonsense_is_named(words):
    with pytest.raises(ValueError, match=words):
        WRONG[words]()


def test_a_million_inputs_take_seconds():
    import time

    probs, labels = classes(2000)
    many = np.tile(probs, (250, 1))  # half a million of 6 classes
    for score in ("lac", "aps"):
        fitted = conformal.SplitClassifier(score).fit(probs, labels)
        start = time.process_time()
        fitted.predict(many)
        assert time.process_time() - start < 2


TENTHS = np.arange(1, 10) / 10  # of which some lie above their float32, some below


@pytest.mark.parametrize(
    "kinds", [(np.float32, np.float64), (np.float64, np.float32), (np.float64, np.float16)]
)
def test_numbers_of_two_precisions_are_compared_in_the_coarser(kinds):
    one, other = (TENTHS.astype(kind) for kind in kinds)
    assert np.array_equal(conformal.p_values(one, other), conformal.p_values(TENTHS, TENTHS))
    ends = np.stack([one, one], axis=1)
    assert conformal.covered(ends, other).all()
    streams = [conformal.AdaptiveConformal(0.3).follow(a, b) for a, b in ((other, one), (TENTHS, TENTHS))]
    assert np.array_equal(streams[0].misses, streams[1].misses)
    probs = np.stack([TENTHS, 1 - TENTHS], axis=1)
    labels = np.zeros(9, int)
    for alpha in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        alike = conformal.SplitClassifier(alpha=alpha).fit(probs, labels).predict(probs)
        mixed = conformal.SplitClassifier(alpha=alpha).fit(probs.astype(kinds[0]), labels)
        assert np.array_equal(mixed.predict(probs.astype(kinds[1]))[:, 0], alike[:, 0])


def test_losses_in_single_precision_reach_their_bound_and_do_not_exceed_it():
    losses = np.full((50, 2), 0.1)
    for method in ("crc", "ltt"):
        wide = conformal.control_risk(losses, 0.05, method, bound=0.1)
        narrow = conformal.control_risk(losses.astype(np.float32), 0.05, method, bound=0.1)
        assert np.array_equal(narrow.evidence, wide.evidence)


# --- what fails half-way, what has no effect, what is not the caller's any more ----------------------------


def calibration(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n), rng.normal(size=n)


@pytest.mark.parametrize(
    "bad",
    [
        {"class_weights": np.ones(9)},
        {"class_weights": np.ones(3), "weights": np.ones(60)},
        {"weights": np.ones(3)},
        {"weights": -np.ones(60)},
        {"groups": np.zeros(60)},
    ],
)
@pytest.mark.parametrize(
    "before", [{}, {"weights": np.arange(60.0)}, {"class_weights": np.array([1, 2, 3.0])}]
)
def test_a_classifier_that_cannot_be_fitted_again_stays_what_it_was(bad, before):
    probs, labels, _ = calibration()
    more = {"weights": np.ones(60)} if "weights" in before else {}
    classifier = conformal.SplitClassifier("aps").fit(probs, labels, **before)
    sets, threshold = classifier.predict(probs, **more), classifier.threshold_
    with pytest.raises(ValueError, match=r"weights|groups"):
        classifier.fit(probs[::-1], labels, **bad)
    assert np.array_equal(classifier.predict(probs, **more), sets)
    assert classifier.threshold_ == threshold
    new = conformal.SplitClassifier()
    with pytest.raises(ValueError, match=r"weights|groups"):
        new.fit(probs, labels, **bad)
    with pytest.raises(ValueError, match="predict: expected a fitted classifier"):
        new.predict(probs)


@pytest.mark.parametrize("before", [None, np.arange(60.0)])
def test_a_regressor_that_cannot_be_fitted_again_stays_what_it_was(before):
    _, _, y = calibration()
    more = {} if before is None else {"weights": np.ones(60)}
    regressor = conformal.SplitRegressor().fit(np.zeros(60), y, weights=before)
    ends = regressor.predict(np.zeros(60), **more)
    with pytest.raises(ValueError, match="weights: expected length 60, got 3"):
        regressor.fit(np.zeros(60), 100 * y, weights=np.ones(3))
    assert np.array_equal(regressor.predict(np.zeros(60), **more), ends)
    new = conformal.SplitRegressor()
    with pytest.raises(ValueError, match="weights: expected length 60, got 3"):
        new.fit(np.zeros(60), y, weights=np.ones(3))
    with pytest.raises(ValueError, match="predict: expected a fitted regressor"):
        new.predict(np.zeros(60))


def test_weights_may_change_after_the_fit():
    probs, labels, y = calibration()
    weights, by_class = np.arange(60.0), np.array([1.0, 2.0, 3.0])
    fitted = [
        conformal.SplitRegressor().fit(np.zeros(60), y, weights=weights),
        conformal.SplitClassifier().fit(probs, labels, weights=weights),
        conformal.SplitClassifier().fit(probs, labels, class_weights=by_class),
    ]
    asked = [
        lambda: fitted[0].predict(np.zeros(60), weights=np.ones(60)),
        lambda: fitted[1].predict(probs, weights=np.ones(60)),
        lambda: fitted[2].predict(probs),
    ]
    before = [ask() for ask in asked]
    weights[:], by_class[:] = (y > 1) + 1e-9, [1e6, 1.0, 1e-6]
    for ask, found in zip(asked, before, strict=True):
        assert np.array_equal(ask(), found)


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("options", [{"penalty": 0.5}, {"free": 0}])
def test_the_penalty_of_long_sets_is_refused_where_it_has_no_effect(score, options):
    with pytest.raises(ValueError, match=f"has no effect on the score '{score}'"):
        conformal.SplitClassifier(score, **options)
    assert conformal.SplitClassifier("raps", **options)


def test_a_confidence_is_refused_where_only_the_mean_is_controlled():
    losses = np.zeros((30, 2))
    with pytest.raises(ValueError, match=r'delta: has no effect on the method "crc", got 0\.01'):
        conformal.control_risk(losses, 0.1, delta=0.01)
    assert conformal.control_risk(losses, 0.1, "crc", delta=0.1).index == 0


@pytest.mark.parametrize("far", [np.inf, -np.inf, 1e300])
def test_a_group_that_no_whole_number_names_is_refused(far):
    probs, groups = np.full((6, 2), 0.5), np.array([0, 0, 0, 1, 1, far])
    with pytest.raises(ValueError, match=r"^groups: expected 6 whole numbers"):
        conformal.SplitClassifier(by="group").fit(probs, np.zeros(6, int), groups=groups)
