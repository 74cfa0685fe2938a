"""Uncertainty of language models: what an answer says, what it means, and whether it is known.

``TinyTransformer`` is a decoder small enough to be trained on a page, ``fit``
trains one or several at once. ``sequence_log_prob`` gives the probability of
whole answers, ``sample_answers`` draws them, ``token_entropy`` looks at them
token by token, ``hidden_states`` at what is behind them. ``semantic_entropy``
counts wordings of one meaning together, ``predictive_split`` parts what an
ensemble is unsure about from what it disagrees about. ``good_turing`` says how
much of what will be asked was never told, ``abstention_policy`` when an answer
pays. ``measured_worlds`` holds what was measured in more worlds than a page has
time for.

Whatever is called like a causal language model of the library transformers
(``model(input_ids, past_key_values=..., use_cache=True)`` with ``logits`` and
``past_key_values`` in the answer) can stand in for ``TinyTransformer``, but for
``fit`` and ``hidden_states``.
"""

from uqhelpers.language_models import entropies, guessing, measured, reading, training, transformer
from uqhelpers.language_models.entropies import *  # noqa: F403
from uqhelpers.language_models.guessing import *  # noqa: F403
from uqhelpers.language_models.measured import *  # noqa: F403
from uqhelpers.language_models.reading import *  # noqa: F403
from uqhelpers.language_models.training import *  # noqa: F403
from uqhelpers.language_models.transformer import *  # noqa: F403

__all__ = [
    *transformer.__all__,
    *training.__all__,
    *reading.__all__,
    *entropies.__all__,
    *guessing.__all__,
    *measured.__all__,
]
