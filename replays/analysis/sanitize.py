"""Values of untrusted replays made safe for documents: finite numbers, limited sizes, no seeds.

JSON for a browser has no NaN and no infinities, and text in a replay must not fill the memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from pydantic import JsonValue

from arena.core.text import cut
from replays.analysis.documents import MessageJson

MAX_CHARACTERS = 2_000_000
"""Characters of one document."""
ITEM_OVERHEAD = 40
"""Characters that a message counts for in addition to its text."""
# The seed of each request is derived from the game's seed. A search over game seeds could reproduce
# it, and so recover the deal. Therefore a field with this name is removed from the documents of a
# seat, and the number is replaced wherever it occurs, e.g. in an error message of a provider.
SEED_FIELD = "seed"
MIN_DIGITS = 5
"""Shorter numbers also occur for other reasons, and only one seed in 20,000 is shorter."""


def finite_or_zero(value: float) -> float:
    """Return the number, or 0 if JSON cannot represent it."""
    return value if math.isfinite(value) else 0.0


def to_json_value(value: object) -> JsonValue:
    """Return a copy of the value in which numbers that JSON does not have are null, at any depth.

    Tuples become lists, and keys of dictionaries become strings.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            # JSON has no NaN or infinity, and a browser would refuse the document.
            return value if math.isfinite(value) else None
        case dict():
            return {str(name): to_json_value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in value]
    raise TypeError(f"{type(value).__name__} is not a JSON value")


class SizeBudget:
    """Characters that a document may still use; everything that is added to it is deducted."""

    def __init__(self) -> None:
        self.left = MAX_CHARACTERS

    def text(self, text: str) -> str:
        """Return the text, cut to the budget with a note of how much is missing."""
        # `left` never becomes negative, so nothing is left of a text once it is used up.
        short = cut(text, self.left)
        self.left -= min(self.left, len(text))
        return short

    def value(self, value: JsonValue) -> JsonValue:
        """Return the value, or its JSON text cut to the budget."""
        encoded = json.dumps(value, ensure_ascii=False)
        # JSON that is cut is no JSON any more, so it becomes a text.
        if len(encoded) > self.left:
            return self.text(encoded)
        self.left -= len(encoded)
        return value

    def values(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the fields that fit; once the budget is used up, the others are left out.

        Numbers that JSON does not have become null.
        """
        fitting: dict[str, JsonValue] = {}
        for name, value in values.items():
            if self.left <= 0:
                break
            fitting[self.text(name)] = self.value(to_json_value(value))
        return fitting

    def message(self, message: MessageJson) -> MessageJson:
        """Return the message with its text cut to the budget."""
        self.left = max(0, self.left - ITEM_OVERHEAD)
        return {**message, "text": self.text(message["text"])}


def find_seeds(details: object) -> frozenset[str]:
    """Return the seeds in the details of a decision, at any depth, as decimal strings."""
    seeds, pending = set[str](), [details]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            seeds |= {str(inner) for name, inner in value.items() if _is_seed_field(name)}
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
    return frozenset(seed for seed in seeds if seed.isdecimal() and len(seed) >= MIN_DIGITS)


def redact_text(text: str, seeds: frozenset[str]) -> str:
    """Return the text with an ellipsis in place of each seed."""
    for seed in seeds:
        text = text.replace(seed, "…")
    return text


def redact(value: JsonValue, seeds: frozenset[str]) -> JsonValue:
    """Return the value without seed fields and without the given seeds, at any depth."""
    if isinstance(value, str):
        return redact_text(value, seeds)
    if isinstance(value, dict):
        fields = ((name, inner) for name, inner in value.items() if not _is_seed_field(name))
        # Names of fields are free text in a replay, so they are redacted too.
        return {redact_text(name, seeds): redact(inner, seeds) for name, inner in fields}
    if isinstance(value, list | tuple):
        return [redact(inner, seeds) for inner in value]
    # `type` instead of `isinstance`: a bool is an int as well.
    return None if type(value) is int and str(value) in seeds else value


def _is_seed_field(name: str) -> bool:
    return name.casefold() == SEED_FIELD
