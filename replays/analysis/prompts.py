"""A prompt beside the one before it: what stands, what is new, what is gone."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from arena import Message
from replays.analysis.documents import MessageJson, Part

LONGEST = 20_000
"""Characters of a message that is compared line by line; a longer one is shown as new."""
MOST_LINES = 1_000
MOST = 200_000
"""Characters that are compared for one request: a replay must not keep its reader waiting."""


def beside(before: Sequence[Message], now: Sequence[Message]) -> list[MessageJson]:
    """The messages of a request, each held against the one in its place in the request before."""
    left, found = MOST, list[MessageJson]()
    for number, message in enumerate(now):
        other = before[number] if number < len(before) else None
        if other == message:
            found.append(_whole(message, sent_before=True))
        elif other is None or other.role != message.role or not _is_short(other, message, left):
            found.append(_whole(message, sent_before=False))
        else:
            left -= len(other.content) + len(message.content)
            parts = compare(other.content, message.content)
            found.append({"role": message.role, "parts": parts, "sent_before": False})
    return found


def same_beginning(before: Sequence[Message], now: Sequence[Message]) -> int:
    """How many messages the two requests have in common at their beginning."""
    pairs = zip(before, now, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _whole(message: Message, sent_before: bool) -> MessageJson:
    parts: list[Part] = [("same" if sent_before else "new", message.content)]
    return {"role": message.role, "parts": parts, "sent_before": sent_before}


def _is_short(before: Message, now: Message, left: int) -> bool:
    texts = (before.content, now.content)
    return (
        max(map(len, texts)) <= LONGEST
        and sum(map(len, texts)) <= left
        and max(text.count("\n") for text in texts) <= MOST_LINES
    )


def compare(before: str, now: str) -> list[Part]:
    """Stretches of whole lines; those that are not "gone" make up `now`."""
    old, new = before.splitlines(keepends=True), now.splitlines(keepends=True)
    parts = list[Part]()
    for what, i, j, k, m in SequenceMatcher(None, old, new).get_opcodes():
        if what == "equal":
            parts.append(("same", "".join(new[k:m])))
            continue
        if j > i:
            parts.append(("gone", "".join(old[i:j])))
        if m > k:
            parts.append(("new", "".join(new[k:m])))
    return parts
