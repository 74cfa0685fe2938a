"""Text that came from a student, made fit to be told apart and to be shown."""

import os
import unicodedata

UNSEEN = {
    "Cc",
    "Cf",
    "Cs",
    "Co",
    "Cn",
    "Zl",
    "Zp",
}  # controls, directions, line ends, what stands for nothing


def readable(name):
    """A file name as text that can be written anywhere, another for each name.

    Bytes that are not UTF-8 become escapes, and a backslash two.
    """
    return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def printable(text):
    """Text as a terminal, a spreadsheet and a page show it alike.

    Escapes stand for control characters, ends of lines, marks that turn the
    direction of writing, and whatever else has no sign of its own.
    """
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in UNSEEN
        else character
        for character in text
    )
