"""What both kinds of card are given beside numbers: names, dates, and what people have to say."""

import datetime
from collections.abc import Mapping

# What only a person can say, and the heading under which it stands.
SECTIONS = {
    "intended_use": "Intended use",
    "not_for": "Not to be used for",
    "data": "Where the data come from",
    "model": "What the model is, and how it was trained",
    "contact": "Whom to ask",
    "signed": "Who signed this card",
}


def as_sentence(value, name):
    """Text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name}: expected some text, got {value!r}")
    return value.strip()


def as_names(values, name, count, default):
    """So many different names, or the default."""
    if values is None:
        return list(default)
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name}: expected a list of {count} names, got {values!r}")
    names = [str(value).strip() for value in values]
    if len(names) != count:
        raise ValueError(f"{name}: expected {count} names, got {len(names)}")
    if len(set(names)) < count or not all(names):
        raise ValueError(f"{name}: expected names that differ and are not blank, got {names[:6]}")
    return names


def as_date(value):
    """A date as it is shown."""
    if value is None:
        return None
    if isinstance(value, datetime.date):
        return value.strftime("%Y-%m-%d")
    return as_sentence(value, "date")


def as_details(details):
    """What people said: {heading: text}, and the headings under which nobody has said anything."""
    if details is None:
        details = {}
    if not isinstance(details, Mapping):
        raise ValueError(f"details: expected a dict of texts, got {type(details).__name__}")
    said = {}
    for key, text in details.items():
        key = as_sentence(key, "details")
        heading = SECTIONS.get(key, key.replace("_", " "))
        said[heading[0].upper() + heading[1:]] = as_sentence(text, f"details[{key!r}]")
    return said, [heading for heading in SECTIONS.values() if heading not in said]
