"""Training on questions and answers, of one model or of an ensemble at once."""

import contextlib
import math
import time

import numpy as np

from uqhelpers._checks import as_labels, as_number, as_whole, to_numpy
from uqhelpers._progress import bar
from uqhelpers._torch import as_module, torch
from uqhelpers.training import History, as_it_was_on_failure, expect_finite_weights, seeded

__all__ = ["fit"]


def as_tokens(tokens, name, ndim=None, high=None):
    """Whole numbers of at least 0, below ``high`` if given, in an array of ``ndim`` axes."""
    array = to_numpy(tokens, name)
    if array.ndim == 0 or (ndim is not None and array.ndim not in np.atleast_1d(ndim)):
        axes = " or ".join(map(str, np.atleast_1d(ndim))) if ndim is not None else "some"
        raise ValueError(f"{name}: expected tokens with {axes} axes, got shape {array.shape}")
    high = np.iinfo(np.int64).max if high is None else high
    return as_labels(array.reshape(-1), high, name).reshape(array.shape)


def vocabulary_of(model):
    """How many tokens a model knows, if it says so."""
    config = getattr(model, "config", None)
    return getattr(model, "vocabulary", None) or getattr(config, "vocab_size", None)


def fit(
    models,
    prompts,
    answers,
    end,
    *,
    epochs=14,
    batch_size=64,
    learning_rate=5e-3,
    weight_decay=0.01,
    seed=0,
    progress=True,
):
    """Train on answers: cross-entropy of their tokens, given the prompt and the tokens before.

    AdamW, with a rate that falls to 0 along a cosine. Several models of one
    architecture are trained in one go, each with minibatches of its own.

    Parameters
    ----------
    models : torch.nn.Module or list of them
        Called like :class:`TinyTransformer`; trained in place, on the device where they are.
    prompts : array, shape (E, L), int64, or list of them
        One for each line of text; a list where they have several lengths.
    answers : array, shape (E, T), int64, or list of them
        What follows; behind the first ``end`` nothing counts.
    end : int
        The token with which an answer ends.
    epochs, batch_size : int
    learning_rate, weight_decay : float
    seed : int
        Of the order of the lines, of which model number i gets ``seed + i``, and
        of dropout masks; the global generators are left as they were.
    progress : bool, whether a bar shows long work

    Returns
    -------
    uqhelpers.training.History
        Loss by epoch, in nats a token, averaged over the models.

    Raises
    ------
    ValueError
        If the models differ in architecture or in what is frozen, nothing can be
        trained, or the loss stops being finite. The models are then as they came.
    """
    group = list(models) if isinstance(models, list | tuple) else [models]
    if not group:
        raise ValueError("models: expected at least one")
    group = [as_module(model, "models") for model in group]
    if len({id(model) for model in group}) < len(group):
        raise ValueError("models: expected different models, got one of them twice")
    several = [v if isinstance(v, list) and np.ndim(v[0]) == 2 else [v] for v in (prompts, answers)]
    if len(several[0]) != len(several[1]):
        raise ValueError(f"answers: expected {len(several[0])} arrays, got {len(several[1])}")
    size = vocabulary_of(group[0])
    parts = [
        (as_tokens(ask, "prompts", 2, size), as_tokens(say, "answers", 2, size))
        for ask, say in zip(*several, strict=True)
    ]
    for ask, say in parts:
        if len(ask) != len(say):
            raise ValueError(f"answers: expected {len(ask)}, one a prompt, got {len(say)}")
    end, epochs = as_whole(end, "end", low=0, high=size and size - 1), as_whole(epochs, "epochs")
    device = next(group[0].parameters()).device
    text, counts = (torch.as_tensor(array, device=device) for array in _laid_out(parts, end))
    batch_size = min(as_whole(batch_size, "batch_size"), len(text))
    rate = as_number(learning_rate, "learning_rate", low=0, open_low=True)
    decay = as_number(weight_decay, "weight_decay", low=0)
    seed = as_whole(seed, "seed", low=0)

    start = min(ask.shape[1] for ask, _ in parts)
    with contextlib.ExitStack() as stack:
        for model in group:
            stack.enter_context(as_it_was_on_failure(model))
        stack.enter_context(seeded(seed))
        return _descend(group, text, counts, start, epochs, batch_size, rate, decay, seed, progress)


def _descend(group, text, counts, start, epochs, batch_size, rate, decay, seed, progress):
    """The training itself, when all is checked."""
    loss_of = _Loss(group, start)
    step = torch.optim.AdamW(loss_of.weights, lr=rate, weight_decay=decay, foreach=True)
    shuffles = [torch.Generator().manual_seed(seed + i) for i in range(len(group))]
    steps = math.ceil(len(text) / batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(step, epochs * steps)
    started, losses = time.perf_counter(), []
    for _ in bar(range(epochs), progress, desc="training", unit="epoch"):
        orders = torch.stack([torch.randperm(len(text), generator=one) for one in shuffles])
        total = 0.0
        for rows in orders.split(batch_size, dim=1):
            value = loss_of(text[rows], counts[rows])
            step.zero_grad()
            value.sum().backward()
            step.step()
            schedule.step()
            total += value.mean().item() * rows.shape[1]
        losses.append(total / len(text))
        if not np.isfinite(losses[-1]):
            raise ValueError(f"learning_rate: training diverged to a loss of {losses[-1]}; try a smaller one")
    loss_of.hand_back()
    expect_finite_weights(*group)
    return History(np.array(losses), time.perf_counter() - started)


def _until(answers, end):
    """Whether each token of an answer counts: up to the first end, which does."""
    return (np.cumsum(answers == end, axis=-1) - (answers == end)) == 0


def _laid_out(parts, end):
    """Texts of one length, and which of their tokens count."""
    width = max(ask.shape[1] + say.shape[1] for ask, say in parts)
    texts, counts = [], []
    for ask, say in parts:
        space = ((0, 0), (0, width - ask.shape[1] - say.shape[1]))
        texts.append(np.pad(np.concatenate([ask, say], axis=1), space))
        counted = np.concatenate([np.zeros(ask.shape, bool), _until(say, end)], axis=1)
        counts.append(np.pad(counted, space))
    return np.concatenate(texts), np.concatenate(counts)


class _Loss:
    """The loss of each of several models of one architecture, all at once; their weights are stacked."""

    def __init__(self, group, start):
        self.group, self.start = group, start
        kinds = {
            tuple((name, tuple(p.shape), p.requires_grad) for name, p in model.named_parameters())
            for model in group
        }
        if len(kinds) > 1:
            raise ValueError("models: expected models of one architecture, frozen alike, got several")
        if not any(p.requires_grad for p in group[0].parameters()):
            raise ValueError("models: expected weights that can be trained, got models that are frozen")
        for model in group:
            model.train()
        if len(group) == 1:
            self.weights = list(group[0].parameters())
            return
        stacked, _ = torch.func.stack_module_state(group)
        learns = {name: p.requires_grad for name, p in group[0].named_parameters()}
        self.stacked = {name: p.detach().requires_grad_(learns[name]) for name, p in stacked.items()}
        self.weights = list(self.stacked.values())
        self.call = torch.func.vmap(self._one, randomness="different")

    def _one(self, weights, text):
        return torch.func.functional_call(self.group[0], weights, (text,)).logits

    def __call__(self, text, counts):
        if len(self.group) == 1:
            logits = self.group[0](text[0, :, :-1]).logits[None]
        else:
            logits = self.call(self.stacked, text[:, :, :-1])
        logits = logits[:, :, self.start - 1 :]
        targets, counts = text[:, :, self.start :], counts[:, :, self.start :]
        picked = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        return -(picked * counts).sum((1, 2)) / counts.sum((1, 2))

    def hand_back(self):
        """The weights go to the models, which end in evaluation mode."""
        for i, model in enumerate(self.group):
            if len(self.group) > 1:
                with torch.no_grad():
                    for name, parameter in model.named_parameters():
                        parameter.copy_(self.stacked[name][i])
            model.eval()
