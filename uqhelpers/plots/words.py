"""Sentences that carry a result."""


def say(text):
    """Display a sentence of Markdown, usually one that carries a result.

    Parameters
    ----------
    text : str
        Markdown. May hold formulas between dollar signs.
    """
    from IPython.display import Markdown, display

    display(Markdown(as_text(text, "text")))


def as_text(text, name):
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name}: expected some text, got {text!r}")
    return text
