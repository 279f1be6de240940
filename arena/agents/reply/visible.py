"""The part of a reply that is meant for the table: without thoughts and asides in tags."""

from __future__ import annotations

import re

from arena.agents.reply.phrasebook import Phrasebook

_THINK = re.compile(r"[<\[](/?)(?:think|thinking|thought|reasoning)[>\]]", re.IGNORECASE)
_ASIDE = re.compile(
    r"<(?P<name>analysis|plan|planning|scratchpad|reflection|notes?|rationale|explanation|thoughts"
    r"|deductions?|strategy|observations?|critique|reason)>(?:(?!<(?P=name)>).){0,20000}?</(?P=name)>",
    re.IGNORECASE | re.DOTALL,
)
"""A closed block that explains; one that is never closed may hold the answer too, so it stays."""


_SPECIAL_TOKEN = re.compile(r"<\|[^|>\n]{1,40}\|>")
"""Control tokens of a chat template that a server did not remove, "<|begin_of_box|>"."""


def visible(text: str) -> str:
    """Return the text outside think blocks and asides."""
    kept: list[str] = []
    at, is_open, was_open = 0, False, False
    for tag in _THINK.finditer(text):
        closes = bool(tag[1])
        # A closing tag without an opening one: the prompt opened the block, so all text so far was
        # thought.
        if closes and not was_open:
            kept.clear()
        elif not closes and not is_open:
            kept.append(text[at : tag.start()])
        if closes or not is_open:
            at = tag.end()
        # Blocks do not nest: the first closing tag ends the block.
        is_open, was_open = not closes, True
    # The text behind an unclosed tag is thought, up to the end.
    if not is_open:
        kept.append(text[at:])
    return _without_asides(_SPECIAL_TOKEN.sub("\n", "\n".join(kept)))


def _without_asides(text: str) -> str:
    """Return the text without asides, unless nothing else is left."""
    outside = _ASIDE.sub("\n", text)
    return outside if re.search(r"\w", outside) else text


def without_cut_number(text: str, book: Phrasebook) -> str:
    """Return the text without a number at its end, if a longer one may have been cut off there."""
    found = re.search(r"[0-9]{1,9}\Z", text)
    return text[: found.start()] if found and book.has_longer(found[0]) else text
