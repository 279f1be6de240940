"""Differences between a prompt and the previous prompt of the same seat."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from arena import Message
from replays.analysis.documents import DiffPart, MessageJson

MAX_MESSAGE_CHARACTERS = 20_000
"""A longer message is not compared line by line: it is shown as added."""
MAX_MESSAGE_LINES = 1_000
MAX_REQUEST_CHARACTERS = 200_000
"""Characters that are compared for one request, so that no replay takes long to open."""


def diff_messages(previous: Sequence[Message], current: Sequence[Message]) -> list[MessageJson]:
    """Return the current messages, each compared with the previous one in the same place."""
    left, messages = MAX_REQUEST_CHARACTERS, list[MessageJson]()
    for number, message in enumerate(current):
        other = previous[number] if number < len(previous) else None
        if other == message:
            messages.append(_undivided(message, sent_before=True))
        elif other is None or other.role != message.role or not _is_short(other, message, left):
            messages.append(_undivided(message, sent_before=False))
        else:
            # Comparing lines takes quadratic time at worst, so the total is limited as well.
            left -= len(other.content) + len(message.content)
            parts = diff_lines(other.content, message.content)
            messages.append({"role": message.role, "parts": parts, "sent_before": False})
    return messages


def _undivided(message: Message, sent_before: bool) -> MessageJson:
    parts: list[DiffPart] = [("same" if sent_before else "added", message.content)]
    return {"role": message.role, "parts": parts, "sent_before": sent_before}


def _is_short(previous: Message, current: Message, left: int) -> bool:
    texts = (previous.content, current.content)
    return (
        max(map(len, texts)) <= MAX_MESSAGE_CHARACTERS
        and sum(map(len, texts)) <= left
        and max(text.count("\n") for text in texts) <= MAX_MESSAGE_LINES
    )


def diff_lines(previous: str, current: str) -> list[DiffPart]:
    """Return stretches of whole lines; all parts that are not "removed" make up `current`."""
    old, new = previous.splitlines(keepends=True), current.splitlines(keepends=True)
    parts = list[DiffPart]()
    # old[i:j] is replaced by new[k:m].
    for operation, i, j, k, m in SequenceMatcher(None, old, new).get_opcodes():
        if operation == "equal":
            parts.append(("same", "".join(new[k:m])))
            continue
        if j > i:
            parts.append(("removed", "".join(old[i:j])))
        if m > k:
            parts.append(("added", "".join(new[k:m])))
    return parts
