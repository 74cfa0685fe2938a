"""Models that the package did not make: one that shares the interface alone, and one of transformers.

The first is always asked; the second where the library is installed
(``pip install "uqhelpers[transformers]"``). Neither downloads anything.
"""

import itertools
import json
import re
import sys
import types

import numpy as np
import pytest

from tools.book import ROOT
from uqhelpers import metrics, training
from uqhelpers._torch import torch
from uqhelpers.language_models import sample_answers, semantic_entropy, sequence_log_prob, token_entropy

END, V, T = 1, 5, 3
PROMPTS = np.array([[2, 3], [4, 2], [3, 3]])
WORDS = ["<pad>", "<end>", "Who", "wrote", "Faust", "?", "Goethe", "Gounod", "the", "old"]


# --- two makes ----------------------------------------------------------------------------------------------


class Memory:
    """What the recurrent network keeps: no keys, no values, one vector a row."""

    def __init__(self, state):
        self.state = state

    def batch_select_indices(self, indices):
        self.state = self.state[:, indices]


class Recurrent(torch.nn.Module):
    """A language model without attention, called as the library's models are."""

    def __init__(self, vocabulary, width=12):
        super().__init__()
        self.config = types.SimpleNamespace(vocab_size=vocabulary)
        self.words = torch.nn.Embedding(vocabulary, width)
        self.cells = torch.nn.GRU(width, width, batch_first=True)
        self.out = torch.nn.Linear(width, vocabulary)

    def forward(self, input_ids, past_key_values=None, use_cache=False, **other):
        state = past_key_values.state.contiguous() if past_key_values is not None else None
        seen, state = self.cells(self.words(input_ids), state)
        kept = Memory(state) if use_cache else None
        return types.SimpleNamespace(logits=3 * self.out(seen), past_key_values=kept)


def recurrent(vocabulary=V):
    with training.seeded(0):
        model = Recurrent(vocabulary)
        with torch.no_grad():
            model.words.weight *= 3  # far from even
    return model.eval()


def of_the_library(vocabulary=V):
    transformers = pytest.importorskip(
        "transformers", reason="the library transformers is not installed here"
    )
    config = transformers.GPT2Config(
        vocab_size=vocabulary,
        n_positions=48,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=END,
    )
    with training.seeded(0):
        model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        model.transformer.wte.weight *= 20  # far from even
    return model


@pytest.fixture(scope="module", params=[recurrent, of_the_library], ids=["interface", "transformers"])
def model(request):
    return request.param()


# --- read and drawn from alike ------------------------------------------------------------------------------


def every_answer():
    """All answers of at most T tokens, filled up with the end; those that were cut off among them."""
    found = []
    for tokens in itertools.product(range(V), repeat=T):
        stop = tokens.index(END) if END in tokens else T
        if all(token == END for token in tokens[stop:]):
            found.append(tokens)
    return np.array(found)


ANSWERS = every_answer()
GIVEN = np.broadcast_to(ANSWERS, (len(PROMPTS), *ANSWERS.shape))


def by_hand(model, prompt, answer):
    """The chain rule, one whole text at a time and nothing kept."""
    total = 0.0
    for t, token in enumerate(answer):
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *answer[:t]]])).logits[0, -1]
        total += logits.double().log_softmax(-1)[token].item()
        if token == END:
            break
    return total


@pytest.fixture(scope="module")
def log_probs(model):
    return sequence_log_prob(model, PROMPTS, GIVEN, END)


def test_its_answers_have_the_probabilities_of_the_chain_rule(model, log_probs):
    assert np.exp(log_probs).sum(axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    for n, a in itertools.product(range(3), range(0, len(ANSWERS), 9)):
        assert log_probs[n, a] == pytest.approx(by_hand(model, PROMPTS[n], ANSWERS[a]), abs=1e-4)


def test_its_token_entropies_add_up_to_that_of_the_answer(model, log_probs):
    summed = token_entropy(model, PROMPTS, GIVEN, END, reduce="sum")
    exact = -(np.exp(log_probs) * log_probs).sum(axis=1)
    assert np.allclose((np.exp(log_probs) * summed).sum(axis=1), exact, atol=1e-4)


def test_its_samples_follow_its_law_and_do_not_depend_on_what_is_shared(model, log_probs):
    n = 3000
    drawn = sample_answers(model, PROMPTS, n, END, seed=0)
    alone = sample_answers(model, PROMPTS, n, END, seed=0, share="prompts")
    assert np.mean(drawn.tokens == alone.tokens) > 0.999  # rounding may turn a draw on the edge
    place = {tuple(answer): i for i, answer in enumerate(ANSWERS)}
    where = np.array([[place[tuple(answer)] for answer in row] for row in drawn.tokens])
    assert np.allclose(drawn.log_probs, np.take_along_axis(log_probs, where, axis=1), atol=1e-4)
    for row, law in zip(where, np.exp(log_probs), strict=True):
        expected, seen = law * n, np.bincount(row, minlength=len(law))
        common = expected > 5
        distance = ((seen - expected)[common] ** 2 / expected[common]).sum()
        assert distance < common.sum() + 5 * np.sqrt(2 * common.sum())


def test_its_semantic_entropy_is_that_of_its_meanings(model, log_probs):
    meanings = ANSWERS.sum(axis=1) % 3
    given = np.broadcast_to(meanings, log_probs.shape)
    got = semantic_entropy(GIVEN, given, log_probs, kind="exact", end=END)
    shares = np.stack([np.exp(log_probs)[:, meanings == k].sum(axis=1) for k in range(3)], axis=1)
    assert np.allclose(got, metrics.predictive_entropy(shares), atol=1e-4)


def test_a_model_whose_cache_cannot_be_divided_is_refused_by_name():
    class Older(Recurrent):
        def forward(self, input_ids, past_key_values=None, use_cache=False, **other):
            answer = super().forward(input_ids)
            return types.SimpleNamespace(logits=answer.logits, past_key_values=((1, 2),))

    with pytest.raises(ValueError, match=r"model: expected one that keeps a cache.* got tuple"):
        sequence_log_prob(Older(V), PROMPTS, GIVEN, END)


def test_the_librarys_own_greedy_word_is_the_likeliest_one():
    model = of_the_library()
    greedy = model.generate(
        torch.tensor(PROMPTS[:1]),
        attention_mask=torch.ones(1, 2, dtype=torch.long),
        max_new_tokens=1,
        do_sample=False,
        pad_token_id=END,
    )
    first = sequence_log_prob(model, PROMPTS[:1].repeat(V, axis=0), np.arange(V)[:, None], END)
    assert greedy[0, -1].item() == first.argmax()


# --- the chapter's ten lines --------------------------------------------------------------------------------


def recipe():
    """The lines that the chapter offers, as they stand there."""
    chapter = json.loads((ROOT / "book/synthesis/language_models.ipynb").read_text(encoding="utf-8"))
    own = next("".join(cell["source"]) for cell in chapter["cells"] if cell["id"] == "own")
    (lines,) = re.findall(r"```python\n(.*?)```", own, re.DOTALL)
    return lines


class Words:
    """A tokenizer with the two calls that the recipe makes."""

    eos_token_id = END

    def __call__(self, texts, return_tensors):
        assert return_tensors == "np"
        return {"input_ids": np.array([[WORDS.index(word) for word in text.split()] for text in texts])}

    def batch_decode(self, rows, skip_special_tokens):
        assert skip_special_tokens
        return [" ".join(WORDS[token] for token in row if token > END) for row in rows]


def with_the_interface_alone(monkeypatch, folder):
    """A stand-in for the library."""
    library = types.ModuleType("transformers")
    library.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda name: Words())
    library.AutoModelForCausalLM = types.SimpleNamespace(from_pretrained=lambda name: recurrent(len(WORDS)))
    monkeypatch.setitem(sys.modules, "transformers", library)


def with_the_library(monkeypatch, folder):
    """A tiny model and a tokenizer of ten words, saved where the recipe loads them from."""
    model = of_the_library(len(WORDS))
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<end>", pad_token="<pad>"
    ).save_pretrained(folder)


@pytest.mark.parametrize(
    "made", [with_the_interface_alone, with_the_library], ids=["interface", "transformers"]
)
def test_the_chapters_lines_run_as_they_stand(made, monkeypatch, tmp_path):
    made(monkeypatch, tmp_path)
    given = {
        "name": str(tmp_path),
        "question": "Who wrote Faust ?",
        "same": lambda one, other: one.split()[-1:] == other.split()[-1:],
    }
    exec(compile(recipe(), "the chapter", "exec"), given)
    (texts,), (doubt,) = given["texts"], given["doubt"]
    assert len(texts) == 20
    assert all(set(text.split()) <= set(WORDS[2:]) for text in texts)
    assert any(text.split() for text in texts)
    shares = np.unique([" ".join(text.split()[-1:]) for text in texts], return_counts=True)[1] / 20
    assert doubt == pytest.approx(metrics.predictive_entropy(shares[None])[0])
