"""JSON objects and tool calls in a reply, and the actions that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from arena.agents.reply.phrasebook import Phrasebook
from arena.core.action import Action, Speech, normalise

ACTION_KEYS = (
    *("action", "move", "answer", "final_answer", "choice", "decision", "command"),
    *("type", "kind", "name", "verb"),
)
MAX_OBJECTS, MAX_LENGTH, MAX_DEPTH = 64, 8192, 8
"""JSON is looked for behind the last so many braces; what is longer or deeper is read as prose."""

SPEECH_KEYS = ("text", "message", "content", "speech")
"""Keys of the text of speech."""

LONG = 6
"""More words than that in a value are an explanation."""

_DECODER = json.JSONDecoder(strict=False)  # Models break lines within strings.


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """Answer in one JSON object of a reply."""

    action: Action | None
    """The action whose verb and fields the object has."""
    texts: tuple[str, ...]
    """Texts that may name the action otherwise, the likeliest first."""


def split_json(text: str, book: Phrasebook) -> tuple[str, list[JsonAnswer]]:
    """Return `text` without the JSON objects that answer, and these answers in their order.

    An object that does not look like an answer, e.g. notes, is replaced by lines "key: value".
    """
    pieces, answers, at = [], [], 0
    for start in _braces(text):
        # This brace lies inside the object that was decoded last.
        if start < at:
            continue
        try:
            # `raw_decode` ignores what follows the object, e.g. more prose or a closing fence.
            decoded, length = _DECODER.raw_decode(text[start : start + MAX_LENGTH])
        # A brace without JSON behind it stays in the text as it is.
        except (ValueError, RecursionError):
            continue
        # Of equal keys at different depths the last one wins.
        values = {key: value for key, value in _flat("", decoded, 0) if value}
        answer = _answer(values, book)
        if answer is None:
            prose = "\n".join(f"{key}: {value}" for key, value in values.items())
        else:
            answers.append(answer)
            prose = ""
        pieces += [text[at:start], f"\n{prose}\n"]
        at = start + length
    return "".join((*pieces, text[at:])), answers


def _braces(text: str) -> list[int]:
    """Return the positions of the last opening braces, in the order of the text."""
    found: list[int] = []
    # From the end: the answer is usually last, and the limit then drops the oldest braces.
    at = text.rfind("{")
    while at >= 0 and len(found) < MAX_OBJECTS:
        found.append(at)
        at = text.rfind("{", 0, at)
    return found[::-1]


def _answer(values: dict[str, str], book: Phrasebook) -> JsonAnswer | None:
    """Return the answer in the flattened values of an object; None if it is not an answer."""
    # In the order of `ACTION_KEYS`: a key such as "action" outweighs a general one such as "name".
    heads = [values.pop(key) for key in ACTION_KEYS if key in values]
    # No key looks like an action, so it may be a note.
    if not heads and book.fields.isdisjoint(values):
        return None
    for head in heads:
        for kind in book.speech:
            if head.casefold() in (kind.verb, kind.__name__.casefold()):
                return JsonAnswer(None, (f"{kind.verb} {_spoken(kind, values)}",))
    # First try: the head is a verb, and the other fields are the fields of its action.
    for head in heads:
        action = book.by_fields(head, values)
        if action is not None:
            return JsonAnswer(action, ())
    # Second try: a head holds the text of a whole action. Third try: the short values together.
    short = [value for value in (*heads, *values.values()) if len(value.split()) <= LONG]
    return JsonAnswer(None, (*heads, ", ".join(short)))


def _spoken(kind: type[Speech], values: dict[str, str]) -> str:
    """Return the text of speech in the values of an object, or an empty text."""
    # The notation names the fields too: `clue WORD NUMBER`.
    named = [values.get(word) for word in kind.form.casefold().split()]
    text = " ".join(value for value in named if value is not None)
    return text or next((values[key] for key in SPEECH_KEYS if key in values), "")


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
