"""Text from outside on a terminal."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with control characters written out (\\x1b, \\n): a title or the name of a dataset must not move the cursor, change
    colours or pretend to be further lines. Whoever writes several lines calls this for each."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
