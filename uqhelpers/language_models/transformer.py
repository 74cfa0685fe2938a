"""A decoder with one or a few layers, and the keys and values that it keeps."""

from dataclasses import dataclass

from uqhelpers._checks import as_whole
from uqhelpers._torch import torch

nn = torch.nn

__all__ = ["Cache", "Output", "TinyTransformer"]


class Cache:
    """The keys and values of the tokens that were read, one pair a layer.

    Its methods are those of the caches of the library transformers that are
    needed here.
    """

    def __init__(self):
        self.layers = []

    def update(self, keys, values, layer):
        """Append keys and values, shape (B, heads, T, width); returns all of the layer."""
        if layer == len(self.layers):
            self.layers.append((keys, values))
        else:
            old = self.layers[layer]
            self.layers[layer] = torch.cat([old[0], keys], dim=-2), torch.cat([old[1], values], dim=-2)
        return self.layers[layer]

    def get_seq_length(self):
        """How many tokens were read."""
        return self.layers[0][0].shape[-2] if self.layers else 0

    def batch_select_indices(self, indices):
        """Keep the rows named, in that order; a row may be named more than once."""
        self.layers = [(keys[indices], values[indices]) for keys, values in self.layers]


@dataclass(frozen=True)
class Output:
    """What a language model answers.

    Attributes
    ----------
    logits : tensor, shape (B, T, V)
        Of the token that follows each of those given.
    past_key_values : Cache or None
        What was kept, the tokens given included.
    """

    logits: object
    past_key_values: object = None


class _Block(nn.Module):
    """Attention to what came before, then two linear layers; each is added to what came in."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, past=None, layer=0):
        batch, length, width = x.shape
        parts = self.mixed(self.before(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        if past is not None:
            keys, values = past.update(keys, values, layer)
        read = keys.shape[-2]
        scores = queries @ keys.transpose(-1, -2) / (width // self.heads) ** 0.5
        if length > 1:
            seen = torch.ones(length, read, dtype=torch.bool, device=x.device).tril(read - length)
            scores = scores.masked_fill(~seen, float("-inf"))
        found = (scores.softmax(-1) @ values).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(found)
        return x + self.feed(self.between(x))


class TinyTransformer(nn.Module):
    """A decoder-only transformer that reads whole words.

    Learned positions, normalisation before each part, and an output layer that
    shares its weights with the embedding.

    Parameters
    ----------
    vocabulary : int
        How many tokens there are, V.
    length : int
        The longest text, in tokens.
    width : int
        Of the embedding, a multiple of ``heads``.
    layers, heads : int

    References
    ----------
    Vaswani et al. (2017), Attention is all you need; Radford et al. (2019),
    Language models are unsupervised multitask learners, section 2.3.
    """

    def __init__(self, vocabulary, length=12, width=64, layers=1, heads=4):
        super().__init__()
        self.vocabulary, self.length = as_whole(vocabulary, "vocabulary", low=2), as_whole(length, "length")
        width, heads = as_whole(width, "width"), as_whole(heads, "heads")
        if width % heads:
            raise ValueError(f"width: expected a multiple of heads = {heads}, got {width}")
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(as_whole(layers, "layers")))
        self.last = nn.LayerNorm(width)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.1)

    def hidden(self, input_ids, past=None):
        """What the output layer gets to see, a tensor of shape (B, T, width)."""
        start = past.get_seq_length() if past is not None else 0
        length = input_ids.shape[1]
        if start + length > self.length:
            raise ValueError(f"input_ids: expected at most {self.length} tokens, got {start + length}")
        x = self.tokens(input_ids) + self.places.weight[start : start + length]
        for layer, block in enumerate(self.blocks):
            x = block(x, past, layer)
        return self.last(x)

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        """Logits of the next tokens.

        Parameters
        ----------
        input_ids : tensor, shape (B, T), int64
            Tokens that follow those in ``past_key_values``.
        past_key_values : Cache, optional
            What was kept; it is added to.
        use_cache : bool
            Whether to keep the keys and values where nothing was kept yet.

        Returns
        -------
        Output
        """
        past = Cache() if use_cache and past_key_values is None else past_key_values
        return Output(self.hidden(input_ids, past) @ self.tokens.weight.T, past)
