"""Text that came from outside, as it may be written to a file or a terminal."""

from __future__ import annotations

LONGEST_QUOTE = 200
"""Characters of a message that quotes what came from outside."""


def whole(text: str) -> str:
    """Text without half characters (lone surrogates), which no file can hold."""
    return text.encode("utf-8", "replace").decode()


def clean(text: str) -> str:
    """Text that can be written and shown: no half characters, no control characters."""
    return "".join(c if c.isprintable() else " " for c in whole(text))


def shortened(text: str, most: int = LONGEST_QUOTE) -> str:
    """The text, clean and with at most `most` characters: what is left out is in its middle.

    A message quotes first and judges last ("'…' is no action of this game"): both ends matter.
    """
    if len(text) > most:
        tail = most // 3
        text = f"{text[: most - tail - 1]}…{text[-tail:]}"
    return clean(text)


def counted(number: int, noun: str) -> str:
    """`1 game`, `2 games`, `3 plies`; of several words the last one is the noun."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}s"
