"""What a language model says: probabilities of whole answers, samples, entropies by token, hidden states.

Answers that begin alike share their beginnings: each is computed once for
each prompt, however many answers or samples go through it.
"""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_choice, as_generator, as_number, as_whole
from uqhelpers._torch import as_module, torch
from uqhelpers.language_models.training import _until, as_tokens, vocabulary_of
from uqhelpers.training import evaluating

__all__ = ["Samples", "hidden_states", "sample_answers", "sequence_log_prob", "token_entropy"]

SHARED = ("prefixes", "prompts")


@dataclass(frozen=True, eq=False)
class Samples:
    """Answers that were drawn.

    Attributes
    ----------
    tokens : array, shape (N, n, T), int64
        Filled up with the end's token behind the end.
    log_probs : array, shape (N, n), float64
        The log probability of each answer, in nats, at the temperature it was drawn at.
    """

    tokens: np.ndarray
    log_probs: np.ndarray


class _Prefixes:
    """Texts that a model has read, one a row, and the log probabilities of what comes next."""

    def __init__(self, model, prompts, temperature=1.0):
        self.model, self.temperature = model, temperature
        self.device = next(model.parameters()).device
        self.cache = None
        self._read(prompts)

    def _read(self, tokens):
        tokens = torch.as_tensor(tokens, device=self.device)
        output = self.model(tokens, past_key_values=self.cache, use_cache=True)
        self.cache = output.past_key_values
        logits = output.logits[:, -1].double()
        # The largest is taken off first: divided by a small temperature it would be infinite.
        self.logits = (logits - logits.max(dim=-1, keepdim=True).values) / self.temperature  # (rows, V)

    @property
    def next(self):
        """Log probabilities of the next token, shape (rows, V)."""
        return self.logits.log_softmax(-1).cpu().numpy()

    def extend(self, rows, tokens):
        """Go on with some of the rows, each with a token; rows may come more than once."""
        if not hasattr(self.cache, "batch_select_indices"):
            raise ValueError(
                "model: expected one that keeps a cache with batch_select_indices (transformers has it from "
                f"version 5 on), got {type(self.cache).__name__}"
            )
        self.cache.batch_select_indices(torch.as_tensor(rows, device=self.device))
        self._read(tokens[:, None])


def _distinct(rows, tokens, size):
    """The different pairs of row and token, and where each of those given is among them."""
    pairs, place = np.unique(rows * size + tokens, return_inverse=True)
    return *np.divmod(pairs, size), place


def _along(model, prompts, answers, end, chunk):
    """For prompts in chunks: rows of the answers' tokens, and the next token's log probabilities."""
    shape = answers.shape
    paired = answers.ndim == 2
    answers = answers[:, None] if paired else answers
    alive = _until(answers, end)
    for start in range(0, shape[0], chunk):
        part, counted = answers[start : start + chunk], alive[start : start + chunk]
        state = _Prefixes(model, prompts[start : start + chunk])
        after = state.next
        rows = np.broadcast_to(np.arange(len(part))[:, None], part.shape[:2])
        for t in range(shape[-1]):
            here = counted[:, :, t]
            if not here.any():
                break
            yield slice(start, start + chunk), t, here, rows, part[:, :, t], after
            if t + 1 < shape[-1] and (on := counted[:, :, t + 1]).any():
                parents, tokens, place = _distinct(rows[on], part[:, :, t][on], after.shape[1])
                state.extend(parents, tokens)
                after = state.next
                rows = np.zeros_like(rows)
                rows[on] = place


def _given(model, prompts, answers, end, chunk):
    """The arguments of what reads answers, checked."""
    size = vocabulary_of(as_module(model))
    prompts = as_tokens(prompts, "prompts", 2, size)
    answers = as_tokens(answers, "answers", (2, 3))
    if len(answers) != len(prompts):
        raise ValueError(f"answers: expected {len(prompts)}, one or some a prompt, got {len(answers)}")
    return prompts, answers, _as_end(end, size), as_whole(chunk, "chunk")


def _as_end(end, size):
    return as_whole(end, "end", low=0, high=size and size - 1)


def sequence_log_prob(model, prompts, answers, end, *, average=False, chunk=128):
    """The log probability of whole answers, token by token along the chain rule.

    Parameters
    ----------
    model : torch.nn.Module
        Called like :class:`TinyTransformer`.
    prompts : array, shape (N, L), int64
    answers : array, shape (N, T) or (N, A, T), int64
        One for each prompt, or A of them. Behind the first ``end`` nothing counts;
        an answer without one is the beginning of many.
    end : int
        The token with which an answer ends.
    average : bool
        Divide by the number of tokens: no log probability any more, but the
        length counts for less.
    chunk : int
        Prompts at a time.

    Returns
    -------
    array, shape (N,) or (N, A), float64
        In nats, at most 0.
    """
    prompts, answers, end, chunk = _given(model, prompts, answers, end, chunk)
    total = np.zeros((len(answers), 1 if answers.ndim == 2 else answers.shape[1]))
    with evaluating(model), torch.inference_mode():
        for part, _, here, rows, tokens, after in _along(model, prompts, answers, end, chunk):
            total[part][here] += _picked(after, rows[here], tokens[here])
    if average:
        total = total / _until(answers, end).sum(axis=-1).reshape(total.shape)
    return total[:, 0] if answers.ndim == 2 else total


def _picked(after, rows, tokens):
    if tokens.max(initial=0) >= after.shape[1]:
        raise ValueError(f"answers: expected tokens below {after.shape[1]}, got {tokens.max()}")
    return after[rows, tokens]


def token_entropy(model, prompts, answers, end, *, reduce="mean", chunk=128):
    """Entropy of the next token, along given answers.

    Summed over the tokens and averaged over answers drawn from the model it is
    the entropy of the whole answer (the chain rule), which counts wordings apart.

    Parameters
    ----------
    model, prompts, answers, end, chunk : as in :func:`sequence_log_prob`
    reduce : {"mean", "sum", "first", "max"}
        Over the tokens of each answer, its end included; ``"first"`` is the
        entropy of its first token.

    Returns
    -------
    array, shape (N,) or (N, A), float64
        In nats.
    """
    prompts, answers, end, chunk = _given(model, prompts, answers, end, chunk)
    as_choice(reduce, "reduce", ("mean", "sum", "first", "max"))
    wide = answers[:, None] if answers.ndim == 2 else answers
    found = np.zeros(wide.shape)
    with evaluating(model), torch.inference_mode():
        for part, t, here, rows, tokens, after in _along(model, prompts, answers, end, chunk):
            _picked(after, rows[here], tokens[here])
            entropy = -(np.exp(after) * np.maximum(after, -1e300)).sum(axis=1)
            found[part][:, :, t][here] = entropy[rows[here]]
    counted = _until(wide, end)
    if reduce == "first":
        value = found[:, :, 0]
    elif reduce == "max":
        value = np.where(counted, found, -np.inf).max(axis=-1)
    else:
        value = found.sum(axis=-1) / (counted.sum(axis=-1) if reduce == "mean" else 1)
    return value[:, 0] if answers.ndim == 2 else value


def sample_answers(
    model, prompts, n, end, *, max_tokens=3, temperature=1.0, seed=0, share="prefixes", chunk=128
):
    """Draw answers, each prompt computed once for all of its samples, keys and values kept.

    Parameters
    ----------
    model : torch.nn.Module
        Called like :class:`TinyTransformer`.
    prompts : array, shape (N, L), int64
    n : int
        Answers a prompt.
    end : int
        The token with which an answer ends.
    max_tokens : int
        At most so many tokens, the end among them; an answer without an end is cut off.
    temperature : float
        Above 0; 1 draws from the model as it is.
    seed : int or numpy.random.Generator
    share : {"prefixes", "prompts"}
        Samples that begin alike are computed once as long as they do, or each by
        itself from the prompt on. The answers are the same, but for rounding.
    chunk : int
        Prompts at a time; other sizes draw other answers.

    Returns
    -------
    Samples
    """
    size = vocabulary_of(as_module(model))
    prompts, n = as_tokens(prompts, "prompts", 2, size), as_whole(n, "n")
    end, max_tokens = _as_end(end, size), as_whole(max_tokens, "max_tokens")
    temperature = as_number(temperature, "temperature", low=0, open_low=True)
    as_choice(share, "share", SHARED)
    chunk, rng = as_whole(chunk, "chunk"), as_generator(seed)
    tokens = np.full((len(prompts), n, max_tokens), end, np.int64)
    log_probs = np.zeros((len(prompts), n))
    with evaluating(model), torch.inference_mode():
        for start in range(0, len(prompts), chunk):
            part = slice(start, start + chunk)
            state = _Prefixes(model, prompts[part], temperature)
            # Views: what is written here is written there.
            _draw(
                state, tokens[part].reshape(-1, max_tokens), log_probs[part].reshape(-1), n, end, rng, share
            )
    return Samples(tokens, log_probs)


def _draw(state, tokens, log_probs, n, end, rng, share):
    """Fill in samples, ``n`` for each row of the state."""
    alive, rows = np.arange(len(tokens)), np.repeat(np.arange(len(tokens) // n), n)
    for t in range(tokens.shape[1]):
        probs = state.logits.softmax(-1)
        summed, probs = probs.cumsum(-1).cpu().numpy(), probs.cpu().numpy()
        chance = rng.random(len(alive)) * summed[:, -1][rows]
        # One rising line of all rows, one after the other: a single search finds every token.
        summed += 2 * np.arange(len(summed))[:, None]
        place = np.searchsorted(summed.ravel(), 2 * rows + chance, "right")
        drawn = np.clip(place - rows * summed.shape[1], 0, summed.shape[1] - 1)
        tokens[alive, t] = drawn
        log_probs[alive] += np.log(probs[rows, drawn])
        on = drawn != end
        if t + 1 == tokens.shape[1] or not on.any():
            return
        alive, parents, last = alive[on], rows[on], drawn[on]
        if share == "prefixes":
            parents, last, rows = _distinct(parents, last, summed.shape[1])
        else:
            rows = np.arange(len(alive))
        state.extend(parents, last)


def hidden_states(model, prompts):
    """What the output layer sees of each prompt at its end.

    Parameters
    ----------
    model : TinyTransformer
    prompts : array, shape (N, L), int64

    Returns
    -------
    array, shape (N, width), float64
    """
    if not hasattr(as_module(model), "hidden"):
        raise ValueError(f"model: expected a TinyTransformer, got {type(model).__name__}")
    prompts = torch.as_tensor(as_tokens(prompts, "prompts", 2, model.vocabulary))
    with evaluating(model), torch.inference_mode():
        return model.hidden(prompts.to(next(model.parameters()).device))[:, -1].double().cpu().numpy()
