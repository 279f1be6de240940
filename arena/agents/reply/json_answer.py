"""JSON in a reply, put in the words of the game so that it reads like any other text."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue

from arena.agents.reply.phrasebook import Phrasebook
from arena.core.action import normalise

ACTION_KEYS = (
    *("action", "move", "answer", "final_answer", "choice", "decision", "command"),
    *("type", "kind", "name", "verb"),
)
MAX_OBJECTS, MAX_LENGTH, MAX_DEPTH = 64, 8192, 8
"""JSON is looked for behind the last so many braces; what is longer or deeper is read as prose."""

LONG = 6
"""More words than that in a value are an explanation."""

_DECODER = json.JSONDecoder(strict=False)  # Models break lines within strings.


def without_json(text: str, book: Phrasebook) -> str:
    """`text` with each JSON object replaced by the action it describes, on a line of its own."""
    pieces, at = [], 0
    for start in _braces(text):
        # This brace lies inside the object that was decoded last.
        if start < at:
            continue
        try:
            # `raw_decode` ignores what follows the object, e.g. more prose or a closing fence.
            found, length = _DECODER.raw_decode(text[start : start + MAX_LENGTH])
        # A brace without JSON behind it stays in the text as it is.
        except (ValueError, RecursionError):
            continue
        pieces += [text[at:start], f"\n{_in_words(found, book)}\n"]
        at = start + length
    return "".join((*pieces, text[at:]))


def _braces(text: str) -> list[int]:
    """Return the positions of the last opening braces, in the order of the text."""
    found: list[int] = []
    # From the end: the answer is usually last, and the limit then drops the oldest braces.
    at = text.rfind("{")
    while at >= 0 and len(found) < MAX_OBJECTS:
        found.append(at)
        at = text.rfind("{", 0, at)
    return found[::-1]


def _in_words(found: dict[str, JsonValue], book: Phrasebook) -> str:
    """The action last: what explains it, and may name others, is put before it."""
    # Of equal keys at different depths the last one wins.
    values = {key: value for key, value in _flat("", found, 0) if value}
    # In the order of `ACTION_KEYS`: a key such as "action" outweighs a general one such as "name".
    heads = [values.pop(key) for key in ACTION_KEYS if key in values]
    aside = "\n".join(values.values())
    # First try: the head is a verb, and the other fields are the fields of its action.
    for head in heads:
        action = book.by_fields(head, values)
        if action is not None:
            return f"{aside}\n{action}"
    # Second try: the head holds the text of a whole action.
    for head in heads:
        if any(mention.actions for mention in book.mentions(head.casefold())):
            return f"{aside}\n{head}"
    # No key looks like an action, so it may be a note. "key: value" keeps it readable as prose.
    if not heads and book.fields.isdisjoint(values):
        return "\n".join(f"{key}: {value}" for key, value in values.items())
    # Third try: the short values together may name an action. They go on one line, because the last
    # line of a reply is also read by itself.
    long = [value for value in values.values() if len(value.split()) > LONG]
    short = [value for value in (*heads, *values.values()) if value not in long]
    return "\n".join((*long, ", ".join(short)))


def _flat(key: str, value: JsonValue, depth: int) -> Iterator[tuple[str, str]]:
    """All values below, each under its own key."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        # The arguments of a tool call are JSON inside a string.
        value = _decoded(value)
    # Bounds the recursion for hostile input.
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _flat(normalise(name).replace(" ", "_"), below, depth + 1)
    elif isinstance(value, list) and any(isinstance(below, dict) for below in value):
        for below in value:
            yield from _flat(key, below, depth + 1)
    # Joined by commas, like the arguments of an action.
    elif isinstance(value, list):
        yield key, ", ".join(map(str, value))
    elif value is not None:
        yield key, str(value)


def _decoded(text: str) -> JsonValue:
    """Return the object in a string, as in arguments of tool calls, or else the string."""
    try:
        value: JsonValue = json.loads(text)
        return value
    except (ValueError, RecursionError):
        return text
