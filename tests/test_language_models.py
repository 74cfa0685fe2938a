"""Language models small enough to be enumerated: every estimator beside the truth."""

import itertools

import numpy as np
import pytest

from uqhelpers import data, language_models, metrics, training
from uqhelpers._torch import torch
from uqhelpers.language_models import (
    TinyTransformer,
    abstention_policy,
    clusters_of,
    good_turing,
    hidden_states,
    meaning_probs,
    measured_worlds,
    predictive_split,
    sample_answers,
    semantic_entropy,
    sequence_log_prob,
    token_entropy,
)

END, V, T = 1, 5, 3
PROMPTS = np.array([[2, 3], [4, 2], [3, 3]])


def every_answer(vocabulary=V, longest=T, end=END):
    """All answers of at most ``longest`` tokens: those that end, padded, and those that were cut off."""
    found = []
    for tokens in itertools.product(range(vocabulary), repeat=longest):
        stop = tokens.index(end) if end in tokens else longest
        if all(token == end for token in tokens[stop:]):
            found.append(tokens)
    return np.array(found)


ANSWERS = every_answer()
GIVEN = np.broadcast_to(ANSWERS, (len(PROMPTS), *ANSWERS.shape))


def untrained(seed=0, vocabulary=V, sharp=6.0, **options):
    """A model whose predictions are far from even."""
    with training.seeded(seed):
        model = TinyTransformer(vocabulary, length=8, width=16, heads=2, **options)
        with torch.no_grad():
            model.tokens.weight *= sharp
    return model.eval()


@pytest.fixture(scope="module")
def model():
    return untrained()


@pytest.fixture(scope="module")
def log_probs(model):
    return sequence_log_prob(model, PROMPTS, GIVEN, END)


def by_hand(model, prompt, answer):
    """The chain rule, one whole text at a time."""
    total = 0.0
    for t, token in enumerate(answer):
        text = torch.tensor([[*prompt, *answer[:t]]])
        with torch.no_grad():
            total += model(text).logits[0, -1].double().log_softmax(-1)[token].item()
        if token == END:
            break
    return total


# --- the model ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 3])
def test_reading_in_parts_is_reading_at_once(layers):
    model = untrained(layers=layers)
    text = torch.tensor([[2, 3, 0, 4, 2, 1], [4, 2, 2, 3, 1, 0]])
    with torch.no_grad():
        whole = model(text).logits
        first = model(text[:, :2], use_cache=True)
        second = model(text[:, 2:5], past_key_values=first.past_key_values)
        last = model(text[:, 5:], past_key_values=second.past_key_values)
    parts = torch.cat([first.logits, second.logits, last.logits], dim=1)
    assert torch.allclose(whole, parts, atol=1e-5)


def test_no_token_sees_what_comes_after_it(model):
    text = torch.tensor([[2, 3, 0, 4]])
    other = torch.tensor([[2, 3, 0, 1]])
    with torch.no_grad():
        assert torch.equal(model(text).logits[:, :3], model(other).logits[:, :3])


def test_rows_that_are_kept_twice_go_their_own_ways(model):
    with torch.no_grad():
        read = model(torch.tensor(PROMPTS), use_cache=True)
        read.past_key_values.batch_select_indices(torch.tensor([1, 1, 0]))
        got = model(torch.tensor([[0], [4], [0]]), past_key_values=read.past_key_values).logits[:, -1]
        want = [
            model(torch.tensor([[*PROMPTS[i], token]])).logits[0, -1] for i, token in ((1, 0), (1, 4), (0, 0))
        ]
    assert torch.allclose(got, torch.stack(want), atol=1e-5)


# --- training -----------------------------------------------------------------------------------------------


def lines(seed=0):
    rng = np.random.default_rng(seed)
    prompts = rng.integers(2, V, size=(40, 2))
    answers = np.stack([prompts[:, 0], np.full(40, END), np.zeros(40, int)], axis=1)  # repeat the first word
    return prompts, answers


def test_what_can_be_learned_is_learned():
    model, (prompts, answers) = untrained(sharp=1.0), lines()
    history = language_models.fit(model, prompts, answers, END, epochs=30, batch_size=8, progress=False)
    assert history.loss[-1] < 0.1 < history.loss[0]
    assert np.exp(sequence_log_prob(model, prompts, answers, END)).min() > 0.8
    assert not model.training


def test_models_trained_together_are_those_trained_alone():
    prompts, answers = lines()
    options = {"epochs": 4, "batch_size": 16, "progress": False}
    together = [untrained(seed, sharp=1.0).double() for seed in (0, 1)]
    language_models.fit(together, prompts, answers, END, seed=7, **options)
    for i, model in enumerate(together):
        alone = untrained(i, sharp=1.0).double()
        language_models.fit(alone, prompts, answers, END, seed=7 + i, **options)
        for one, other in zip(model.parameters(), alone.parameters(), strict=True):
            assert torch.allclose(one, other, rtol=0, atol=1e-7)


def test_nothing_is_learned_from_what_stands_behind_the_end():
    prompts, answers = lines()
    models = [untrained(sharp=1.0), untrained(sharp=1.0)]
    for model, filler in zip(models, (0, 3), strict=True):
        answers[:, 2] = filler
        language_models.fit(model, prompts, answers, END, epochs=2, progress=False)
    pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_training_that_diverges_leaves_the_model_as_it_was():
    model, (prompts, answers) = untrained(), lines()
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(ValueError, match="learning_rate"):
        language_models.fit(
            model, prompts, answers, END, epochs=50, batch_size=4, learning_rate=1e30, progress=False
        )
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
    assert not model.training


# --- whole answers ------------------------------------------------------------------------------------------


def test_the_probabilities_of_all_answers_sum_to_one(log_probs):
    assert log_probs.shape == (3, len(ANSWERS))
    assert np.exp(log_probs).sum(axis=1) == pytest.approx(np.ones(3), abs=1e-6)


def test_the_probability_of_an_answer_is_that_of_the_chain_rule(model, log_probs):
    for a in range(0, len(ANSWERS), 7):
        for n, prompt in enumerate(PROMPTS):
            assert log_probs[n, a] == pytest.approx(by_hand(model, prompt, ANSWERS[a]), abs=1e-5)


def test_one_answer_a_prompt_and_several_are_read_alike(model, log_probs):
    picked = np.array([5, 40, 17])
    alone = sequence_log_prob(model, PROMPTS, ANSWERS[picked], END)
    assert np.allclose(alone, log_probs[np.arange(3), picked], atol=1e-6)
    assert np.allclose(sequence_log_prob(model, PROMPTS, GIVEN, END, chunk=1), log_probs, atol=1e-6)
    filled = np.where(np.cumsum(GIVEN == END, axis=-1) - (GIVEN == END) > 0, 3, GIVEN)
    assert np.allclose(sequence_log_prob(model, PROMPTS, filled, END), log_probs, atol=1e-6)


def test_dividing_by_the_length_counts_the_end(model, log_probs):
    lengths = np.array([[*a, END].index(END) + 1 for a in ANSWERS]).clip(max=T)
    got = sequence_log_prob(model, PROMPTS, GIVEN, END, average=True)
    assert np.allclose(got, log_probs / lengths)


def test_the_entropy_of_the_answer_is_that_of_its_tokens_added_up(model, log_probs):
    summed = token_entropy(model, PROMPTS, GIVEN, END, reduce="sum")
    exact = -(np.exp(log_probs) * log_probs).sum(axis=1)
    assert np.allclose((np.exp(log_probs) * summed).sum(axis=1), exact, atol=1e-5)


def test_token_entropies_are_those_of_the_next_word(model):
    first = token_entropy(model, PROMPTS, ANSWERS[:3], END, reduce="first")
    with torch.no_grad():
        after = model(torch.tensor(PROMPTS)).logits[:, -1].double().softmax(-1).numpy()
    assert np.allclose(first, metrics.predictive_entropy(after), atol=1e-5)
    each = {r: token_entropy(model, PROMPTS, GIVEN, END, reduce=r) for r in ("mean", "max", "sum")}
    assert (each["mean"] <= each["max"] + 1e-12).all()
    assert (each["max"] <= each["sum"] + 1e-12).all()


# --- samples ------------------------------------------------------------------------------------------------


def places(tokens):
    """Where each answer stands in the list of all."""
    index = {tuple(answer): i for i, answer in enumerate(ANSWERS)}
    return np.array([index[tuple(answer)] for answer in tokens.reshape(-1, T)]).reshape(tokens.shape[:-1])


def test_samples_follow_the_enumerated_law(model, log_probs):
    n = 20_000
    drawn = sample_answers(model, PROMPTS, n, END, seed=0)
    where = places(drawn.tokens)
    assert np.allclose(drawn.log_probs, np.take_along_axis(log_probs, where, axis=1), atol=1e-5)
    for row, law in zip(where, np.exp(log_probs), strict=True):
        expected, seen = law * n, np.bincount(row, minlength=len(law))
        common = expected > 5
        distance = ((seen - expected)[common] ** 2 / expected[common]).sum()
        freedom = common.sum()
        assert distance < freedom + 5 * np.sqrt(2 * freedom)


def test_sharing_what_begins_alike_changes_no_sample(model):
    shared = sample_answers(model, PROMPTS, 200, END, seed=3)
    alone = sample_answers(model, PROMPTS, 200, END, seed=3, share="prompts")
    assert np.array_equal(shared.tokens, alone.tokens)
    assert np.allclose(shared.log_probs, alone.log_probs, atol=1e-5)


def test_a_low_temperature_draws_what_is_most_probable(model):
    drawn = sample_answers(model, PROMPTS, 20, END, temperature=0.01, seed=0).tokens
    assert (drawn == drawn[:, :1]).all()


def test_sampling_is_repeated_by_its_seed_and_leaves_the_global_generators(model):
    state = torch.get_rng_state()
    one, two, other = (sample_answers(model, PROMPTS, 50, END, seed=seed).tokens for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
    assert torch.equal(state, torch.get_rng_state())


# --- meanings -----------------------------------------------------------------------------------------------

MEANINGS = ANSWERS.sum(axis=1) % 4


def test_exact_semantic_entropy_is_that_of_the_meanings(log_probs):
    given = np.broadcast_to(MEANINGS, log_probs.shape)
    got = semantic_entropy(GIVEN, given, log_probs, kind="exact")
    shares = np.stack([np.exp(log_probs)[:, k == MEANINGS].sum(axis=1) for k in range(4)], axis=1)
    assert np.allclose(got, metrics.predictive_entropy(shares), atol=1e-4)
    whole = -(np.exp(log_probs) * log_probs).sum(axis=1)
    assert ((got >= 0) & (got <= whole + 1e-6) & (got <= np.log(5))).all()


def test_what_is_not_listed_is_a_meaning_of_its_own():
    logs = np.log([[0.5, 0.25]])
    got = semantic_entropy([["a", "b"]], [[0, 0]], logs, kind="exact")
    assert got == pytest.approx([metrics.predictive_entropy([[0.75, 0.25]])[0]])
    assert meaning_probs(logs, [0, 1]) == pytest.approx(np.array([[0.5, 0.25, 0.25]]))


def test_counted_entropy_is_too_low_by_the_known_bias(model, log_probs):
    given = np.broadcast_to(MEANINGS, log_probs.shape)
    exact = semantic_entropy(GIVEN, given, log_probs, kind="exact")
    means = []
    for seed in range(150):
        drawn = sample_answers(model, PROMPTS, 40, END, seed=seed).tokens
        means.append(semantic_entropy(drawn, MEANINGS[places(drawn)]))
    error = np.std(means, axis=0, ddof=1) / np.sqrt(len(means))
    classes = np.array([np.sum(meaning_probs(row, MEANINGS)[:-1] * 40 > 0.5) for row in log_probs])
    assert (np.mean(means, axis=0) < exact - 3 * error).all()
    assert np.allclose(np.mean(means, axis=0), exact - (classes - 1) / 80, atol=0.03)


def test_weighted_entropy_of_all_answers_is_exact_however_often_they_were_drawn(log_probs):
    often = np.concatenate([GIVEN, GIVEN[:, :10], GIVEN[:, :10]], axis=1)
    logs = np.concatenate([log_probs, log_probs[:, :10], log_probs[:, :10]], axis=1)
    groups = np.concatenate([MEANINGS, MEANINGS[:10], MEANINGS[:10]])
    got = semantic_entropy(often, np.broadcast_to(groups, logs.shape), logs, kind="weighted")
    given = np.broadcast_to(MEANINGS, log_probs.shape)
    assert np.allclose(got, semantic_entropy(GIVEN, given, log_probs, kind="exact"), atol=1e-4)


def test_what_stands_behind_the_end_makes_no_answer_of_its_own():
    answers = np.array([[[3, 4, END], [3, END, 4], [3, END, 0], [END, 3, 3], [END, 0, 4]]])
    logs = np.log([[0.5, 0.2, 0.2, 0.1, 0.1]])
    groups = [[0, 1, 1, 2, 2]]
    want = semantic_entropy([["3 4", "3", "3", "", ""]], groups, logs, kind="weighted")
    assert semantic_entropy(answers, groups, logs, kind="weighted", end=END) == pytest.approx(want)
    assert want == pytest.approx(metrics.predictive_entropy([[5 / 8, 2 / 8, 1 / 8]]))
    assert semantic_entropy(answers, groups, logs, kind="weighted") != pytest.approx(want)
    with pytest.raises(ValueError, match="each answer once"):
        semantic_entropy(answers, groups, logs, kind="exact", end=END)
    same = lambda one, other: np.array_equal(one, other)  # noqa: E731
    counted = metrics.predictive_entropy([[1 / 5, 2 / 5, 2 / 5]])
    assert semantic_entropy(answers, same, end=END) == pytest.approx(counted)


@pytest.mark.parametrize("token", [np.nan, 0.5, np.inf])
def test_tokens_are_whole_numbers(token):
    answers = np.array([[[3.0, 4.0], [3.0, token]]])
    with pytest.raises(ValueError, match=r"^answers: expected"):
        semantic_entropy(answers, [[0, 1]])


def test_one_text_may_have_two_log_probs_that_differ_by_rounding_alone():
    texts, groups = [["a", "a", "b"]], [[0, 0, 1]]
    want = semantic_entropy([["a", "b"]], [[0, 1]], np.log([[0.6, 0.2]]), kind="weighted")
    got = semantic_entropy(texts, groups, np.log([[0.6, 0.6001, 0.2]]), kind="weighted")
    assert got == pytest.approx(want)
    never = semantic_entropy(texts, groups, [[-np.inf, -np.inf, -1.0]], kind="weighted")
    assert never == [0.0]


def test_a_model_that_always_says_the_same_has_none():
    texts = [["in Rome"] * 10]
    for kind, logs in (
        ("discrete", None),
        ("weighted", np.zeros((1, 10))),
        ("weighted", np.full((1, 10), -3.0)),
    ):
        assert semantic_entropy(texts, np.zeros((1, 10)), logs, kind=kind) == [0.0]


def test_synonyms_are_one_meaning_and_outweigh_a_single_answer():
    texts, groups = [["a", "b", "c", "d", "z"]], [[0, 0, 0, 0, 1]]
    logs = np.log([[0.15, 0.15, 0.15, 0.15, 0.4]])
    assert meaning_probs(logs[0], groups[0])[0] == pytest.approx(0.6)
    got = semantic_entropy(texts, groups, logs, kind="exact")
    assert got == pytest.approx([metrics.predictive_entropy([[0.6, 0.4]])[0]])


def test_the_order_of_samples_and_the_names_of_groups_do_not_matter(model):
    drawn = sample_answers(model, PROMPTS, 30, END, seed=0)
    groups, order = MEANINGS[places(drawn.tokens)], np.random.default_rng(0).permutation(30)
    for kind, logs in (("discrete", None), ("weighted", drawn.log_probs)):
        want = semantic_entropy(drawn.tokens, groups, logs, kind=kind)
        moved = logs if logs is None else logs[:, order]
        got = semantic_entropy(drawn.tokens[:, order], 7 - groups[:, order], moved, kind=kind)
        assert np.allclose(got, want)
        assert (want <= np.log(30)).all()


def test_groups_may_be_found_by_asking_in_pairs(model):
    drawn = sample_answers(model, PROMPTS, 30, END, seed=0).tokens
    same = lambda one, other: (one.sum() - other.sum()) % 4 == 0  # noqa: E731
    assert np.allclose(semantic_entropy(drawn, same), semantic_entropy(drawn, MEANINGS[places(drawn)]))
    assert clusters_of(["Rome", "rome", "Oslo"], lambda a, b: a.lower() == b.lower()).tolist() == [0, 0, 1]


def test_clones_disagree_about_nothing_and_opposites_about_everything(log_probs):
    clones = predictive_split(np.stack([log_probs] * 3), MEANINGS)
    assert clones.epistemic.max() < 1e-12
    assert np.allclose(clones.total, metrics.predictive_entropy(meaning_probs(log_probs, MEANINGS)))
    sure = np.log(np.maximum(np.eye(2), 1e-300))[:, None]  # two models, one prompt, two answers
    split = predictive_split(sure, [0, 1])
    assert split.epistemic == pytest.approx([np.log(2)])
    same = predictive_split(sure, [0, 0])  # two wordings of one meaning
    assert same.total == pytest.approx([0.0])


# --- the unseen, and silence --------------------------------------------------------------------------------


def test_the_missing_mass_is_the_singletons_of_one_line_more():
    p = np.array([0.5, 0.2, 0.2, 0.07, 0.03])
    for n in (1, 2, 4):
        # All texts of n lines: what is missing on average; of n + 1 lines: their singletons.
        missing = singles = 0.0
        for text in itertools.product(range(5), repeat=n):
            missing += p[list(text)].prod() * np.delete(p, list(set(text))).sum()
        for text in itertools.product(range(5), repeat=n + 1):
            singles += p[list(text)].prod() * good_turing(np.bincount(text)).missing
        assert missing == pytest.approx(singles)


def test_who_memorises_or_guesses_invents_at_the_rate_of_the_singletons():
    rates, told = [], []
    for seed in range(40):
        world = data.mentions(people=300, lines=400, places=10, seed=seed)
        rng = np.random.default_rng(seed)
        said = np.where(world.counts > 0, world.truth.argmax(axis=1), rng.integers(10, size=len(world)))
        rates.append(world.weights[said != world.truth.argmax(axis=1)].sum())
        told.append(good_turing(world.counts).invention(10))
    gap = np.subtract(rates, told)
    assert abs(gap.mean()) < 4 * gap.std(ddof=1) / np.sqrt(40)
    assert np.mean(told) > 0.1


def test_the_published_bound_says_nothing_of_a_short_text():
    short, long = good_turing(np.ones(5000, int)), good_turing(np.ones(200_000, int))
    assert short.bound(30) < 0
    assert 0 < long.bound(30) < long.missing
    assert long.bound(30, miscalibration=0.2) == pytest.approx(long.bound(30) - 0.2)
    with_zeros = good_turing([0, 3, 1, 1, 0])
    assert (with_zeros.lines, with_zeros.singletons, with_zeros.missing) == (5, 2, 0.4)


def test_no_other_policy_earns_more():
    rng = np.random.default_rng(0)
    confidence = rng.random(12)
    for wrong, silent in ((0.0, 0.0), (-1.0, 0.0), (-3.0, 0.0), (0.0, 0.25), (0.5, 0.2)):
        best = abstention_policy(confidence, wrong=wrong, silent=silent)
        worth = confidence + wrong * (1 - confidence)
        most = max(
            np.where(list(a), worth, silent).sum() for a in itertools.product([False, True], repeat=12)
        )
        assert best.expected.sum() == pytest.approx(most)
        assert np.array_equal(best.answer, confidence > best.threshold)


def test_where_silence_earns_nothing_a_guess_always_pays():
    policy = abstention_policy([0.01, 0.5, 0.0])
    assert policy.answer.tolist() == [True, True, False]
    assert policy.threshold == 0
    assert abstention_policy([0.74, 0.76], wrong=-3).answer.tolist() == [False, True]


# --- the worlds ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[False, True], ids=["free", "telling"])
def world(request):
    return data.biographies(telling=request.param, seed=0)


def test_the_groups_are_told_of_as_they_are_called(world):
    counts = world.counts
    assert set(counts[world.of("known")]) == set(counts[world.of("ambiguous")]) == {20}
    assert set(counts[world.of("once")]) == {1}
    assert set(counts[world.of("unseen")]) == {0}
    assert len(np.unique(world.prompts, axis=0)) == len(world) == 240
    assert np.allclose(world.truth.sum(axis=1), 1)
    assert np.allclose(np.sort(world.truth[world.of("ambiguous")])[:, -2:], [0.4, 0.6])
    assert set(world.truth[world.groups != "ambiguous"].max(axis=1)) == {1.0}


def test_the_text_tells_the_truth(world):
    told = np.zeros_like(world.truth)
    np.add.at(told, (world.people, world.meanings[world.told]), 1)
    seen = world.counts > 0
    assert np.allclose((told / np.maximum(world.counts, 1)[:, None])[seen], world.truth[seen])
    shares = np.bincount(world.told % 4, minlength=4) / len(world.told)
    assert np.abs(shares - world.wordings).max() < 5 * np.sqrt(0.25 / len(world.told))


def test_a_surname_narrows_the_place_to_two_in_one_world_only():
    telling = data.biographies(telling=True, seed=1)
    for family in range(12):
        own = telling.truth[telling.surnames == family]
        assert np.sum(own.sum(axis=0) > 0) == 2
        assert own.mean(axis=0).max() == pytest.approx(0.6)
    free = data.biographies(seed=1)
    assert min(np.sum(free.truth[free.surnames == f].sum(axis=0) > 0) for f in range(12)) > 8


def test_every_wording_has_its_meaning_and_nothing_else_has_one(world):
    assert np.array_equal(world.meaning(world.answers), world.meanings)
    behind = world.answers.copy()
    behind[0, 2] = 7  # behind the full stop nothing counts
    assert world.meaning(behind)[0] == 0
    assert world.meaning([[world.end] * 3]).tolist() == [30]
    assert world.meaning(world.answers[None, :3, :2]).tolist() == [[0, 30, 30]]
    assert world.text(world.answers[1]) == f"{world.text(world.answers[0])} town"
    assert world.text(world.prompts[0]).endswith("born in")


def test_of_few_is_spoken_often_and_of_most_hardly_ever():
    world = data.mentions(people=500, lines=2000, seed=0)
    assert world.counts.sum() == 2000
    assert world.weights.sum() == pytest.approx(1)
    assert np.abs(world.counts / 2000 - world.weights).max() < 5 * np.sqrt(world.weights.max() / 2000)
    assert set(world.counts[world.of("once")]) == {1}
    assert not world.counts[world.of("unseen")].any()


def test_a_trained_model_knows_what_it_was_told_often():
    world = data.biographies(people=12, places=6, surnames=4, repeats=12, seed=0)
    with training.seeded(0):
        model = TinyTransformer(len(world.vocabulary), width=32)
    language_models.fit(
        model, world.prompts[world.people], world.answers[world.told], world.end, epochs=25, progress=False
    )
    given = np.broadcast_to(world.answers, (len(world), *world.answers.shape))
    probs = meaning_probs(sequence_log_prob(model, world.prompts, given, world.end), world.meanings)
    right = (probs[:, :-1] * (world.truth > 0)).sum(axis=1)
    assert right[world.of("known")].mean() > 0.8
    assert right[world.of("unseen")].mean() < 0.5
    assert hidden_states(model, world.prompts).shape == (48, 32)


# --- what is stored -----------------------------------------------------------------------------------------


def test_the_stored_worlds_come_as_arrays_with_one_entry_a_world():
    stored = measured_worlds()
    count = len(stored["seeds"])
    assert count >= 5
    for world in stored["worlds"].values():
        assert set(world["area"]) == set(stored["names"])
        assert all(row["known"].shape == (count,) for row in world["area"].values())
        assert world["samples"]["10"]["discrete"]["bias"].shape == (count,)
        assert all(0 <= value <= 1 for row in world["area"].values() for value in row["ambiguous"])


# --- what is refused ----------------------------------------------------------------------------------------

LOGS = np.log([[0.5, 0.5]])
TWO = [["a", "b"]]
REFUSED = {
    "vocabulary": lambda m: TinyTransformer(1),
    "multiple of heads": lambda m: TinyTransformer(5, width=10, heads=4),
    "input_ids": lambda m: m(torch.zeros(1, 20, dtype=torch.int64)),
    "models: expected at least one": lambda m: language_models.fit([], PROMPTS, ANSWERS[:3], END),
    "one of them twice": lambda m: language_models.fit([m, m], PROMPTS, ANSWERS[:3], END),
    "one architecture": lambda m: language_models.fit([m, untrained(layers=2)], PROMPTS, ANSWERS[:3], END),
    "answers: expected 3, one a prompt": lambda m: language_models.fit(m, PROMPTS, ANSWERS[:4], END),
    "learning_rate": lambda m: language_models.fit(m, PROMPTS, ANSWERS[:3], END, learning_rate=0),
    "model: expected a torch": lambda m: sequence_log_prob(None, PROMPTS, GIVEN, END),
    "prompts: expected": lambda m: sequence_log_prob(m, PROMPTS[0], GIVEN, END),
    "prompts: expected integer": lambda m: sequence_log_prob(m, PROMPTS + 0.5, GIVEN, END),
    "answers: expected 3": lambda m: sequence_log_prob(m, PROMPTS, GIVEN[:2], END),
    "answers: expected tokens below": lambda m: sequence_log_prob(m, PROMPTS, ANSWERS[:3] + 9, END),
    "reduce": lambda m: token_entropy(m, PROMPTS, GIVEN, END, reduce="median"),
    "prompts: expected labels from 0": lambda m: sequence_log_prob(m, PROMPTS + 9, GIVEN, END),
    "end": lambda m: sample_answers(m, PROMPTS, 2, V),
    "n: expected": lambda m: sample_answers(m, PROMPTS, 0, END),
    "temperature": lambda m: sample_answers(m, PROMPTS, 2, END, temperature=0),
    "share": lambda m: sample_answers(m, PROMPTS, 2, END, share="nothing"),
    "TinyTransformer": lambda m: hidden_states(torch.nn.Linear(2, 2), PROMPTS),
    "kind": lambda m: semantic_entropy(TWO, [[0, 1]], kind="rao"),
    "meaning: expected shape": lambda m: semantic_entropy(TWO, [[0, 1, 2]]),
    "meaning: expected whole": lambda m: semantic_entropy(TWO, [[0, 0.5]]),
    "log_probs: expected none": lambda m: semantic_entropy(TWO, [[0, 1]], LOGS),
    "log_probs: expected those": lambda m: semantic_entropy(TWO, [[0, 1]], kind="exact"),
    "are these probabilities": lambda m: semantic_entropy(TWO, [[0, 1]], np.exp(LOGS), kind="weighted"),
    "NaN": lambda m: semantic_entropy(TWO, [[0, 1]], LOGS * np.nan, kind="weighted"),
    "each answer once": lambda m: semantic_entropy([["a", "a"]], [[0, 0]], LOGS, kind="exact"),
    "there twice": lambda m: meaning_probs([np.log(0.9), np.log(0.9)], [0, 1]),
    "log_probs: expected one for each text": lambda m: semantic_entropy(
        [["a", "a"]], [[0, 0]], np.log([[0.5, 0.25]]), kind="weighted"
    ),
    "end: expected none": lambda m: semantic_entropy(TWO, [[0, 1]], end=1),
    "end: expected a whole": lambda m: semantic_entropy(GIVEN, MEANINGS[None].repeat(3, axis=0), end=-1),
    "a text in two": lambda m: semantic_entropy([["a", "a"]], [[0, 1]], LOGS, kind="weighted"),
    "as many texts": lambda m: semantic_entropy([["a"], ["a", "b"]], [[0]]),
    "same: expected a function": lambda m: clusters_of(["a"], 3),
    "models, prompts, answers": lambda m: predictive_split(LOGS, [0, 1]),
    "meanings": lambda m: meaning_probs(LOGS, [0]),
    "counts: expected at least one line": lambda m: good_turing([0, 0]),
    "counts": lambda m: good_turing([0.5]),
    "answers: expected a whole number": lambda m: good_turing([1]).bound(1),
    "miscalibration": lambda m: good_turing([1]).bound(3, miscalibration=2),
    "confidence": lambda m: abstention_policy([1.2]),
    "right": lambda m: abstention_policy([0.2], right=0),
    "people": lambda m: data.biographies(people=10, surnames=4),
    "places": lambda m: data.biographies(places=500),
    "repeats": lambda m: data.biographies(repeats=2),
    "exponent": lambda m: data.mentions(exponent=-1),
    "lines": lambda m: data.mentions(lines=0),
    "tokens": lambda m: data.mentions(seed=0).text([10_000]),
}


@pytest.mark.parametrize("words", REFUSED)
def test_nonsense_is_refused_by_name(words, model):
    with pytest.raises(ValueError, match=words):
        REFUSED[words](model)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("silent", [0.2, 0.6, 0.7, 0.9])
def test_a_confidence_at_the_threshold_keeps_silent_in_any_precision(kind, silent):
    confidence = np.array([0.1, 0.2, 0.6, 0.7, 0.9, 1.0])
    wide = language_models.abstention_policy(confidence, silent=silent)
    narrow = language_models.abstention_policy(confidence.astype(kind), silent=silent)
    assert np.array_equal(narrow.answer, wide.answer)
    assert wide.answer.tolist() == (confidence > silent).tolist()


def test_probabilities_of_answers_may_be_rounded_to_half_precision():
    logs = np.log(np.random.default_rng(0).dirichlet(np.ones(40), size=50))
    found = language_models.meaning_probs(logs.astype(np.float16), np.arange(40) // 10)
    assert found == pytest.approx(language_models.meaning_probs(logs, np.arange(40) // 10), abs=5e-3)
    with pytest.raises(ValueError, match="is an answer there twice"):
        language_models.meaning_probs(np.log([[0.5, 0.5, 0.5]]).astype(np.float16), [0, 1, 2])


def test_the_coldest_temperature_draws_the_likeliest_tokens(model):
    prompts = np.array([[0, 1, 2], [2, 1, 0]])
    cold, cool = (
        language_models.sample_answers(model, prompts, 4, 0, temperature=t, seed=0) for t in (1e-308, 1e-6)
    )
    assert np.array_equal(cold.tokens, cool.tokens)
    assert cold.log_probs == pytest.approx(np.zeros((2, 4)), abs=1e-6)


# --- several models, dropout, frozen layers ----------------------------------------------------------------


class Dropping(TinyTransformer):
    """Drops what the output layer sees."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.dropout = torch.nn.Dropout(0.5)

    def hidden(self, input_ids, past=None):
        return self.dropout(super().hidden(input_ids, past))


LINES = np.tile([[2, 3]], (20, 1)), np.tile([[4, END]], (20, 1))


def few(kind=TinyTransformer, models=2):
    with training.seeded(0):
        return [kind(V, length=4, width=8, heads=2) for _ in range(models)]


def short(models, **options):
    return language_models.fit(models, *LINES, END, **{"epochs": 3, "progress": False} | options)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("mode", [False, True])
def test_dropout_drops_in_training_whatever_the_mode_and_the_number_of_models(several, mode):
    def losses(kind, rate, seed=0):
        group = few(kind)
        for model in group:
            model.train(mode)
            if rate is not None:
                model.dropout.p = rate
        return short(group if several else group[0], seed=seed).loss

    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    dropped = losses(Dropping, 0.5)
    assert torch.equal(torch.rand(3), expected)  # the global generator stands where it stood
    assert np.array_equal(dropped, losses(Dropping, 0.5))
    assert not np.allclose(dropped, losses(Dropping, 0.0))
    assert np.allclose(losses(Dropping, 0.0), losses(TinyTransformer, None), atol=1e-6)


@pytest.mark.parametrize("several", [False, True])
def test_a_frozen_layer_is_not_trained(several):
    group = few()
    for model in group:
        model.tokens.weight.requires_grad_(False)
    before = [(model.tokens.weight.clone(), model.places.weight.clone()) for model in group]
    short(group if several else group[0])
    for model, (tokens, places) in list(zip(group, before, strict=True))[: 2 if several else 1]:
        assert torch.equal(model.tokens.weight, tokens)
        assert not model.tokens.weight.requires_grad
        assert not torch.equal(model.places.weight, places)
    group[0].requires_grad_(False)
    with pytest.raises(ValueError, match="models: expected models of one architecture, frozen alike"):
        short(group)
    with pytest.raises(ValueError, match="models: expected weights that can be trained"):
        short(group[0])


def test_several_models_whose_training_fails_are_all_as_they_were():
    group = few()
    group[1].eval()
    before = [{name: value.clone() for name, value in model.state_dict().items()} for model in group]
    with pytest.raises(ValueError, match="learning_rate: training diverged"):
        short(group, epochs=30, learning_rate=1e30)
    for model, state in zip(group, before, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert [model.training for model in group] == [True, False]
    short(group)
    assert [model.training for model in group] == [False, False]
