"""Size limit of one document: text in a replay is untrusted and must not fill the memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from pydantic import JsonValue

from replays.analysis.documents import DiffPart, MessageJson
from replays.analysis.numbers import to_json_value

MAX_CHARACTERS = 2_000_000
"""Characters of one document."""
ITEM_OVERHEAD = 40
"""Characters that a message or a token counts for in addition to its text."""


def cut(text: str, length: int) -> str:
    """Return the beginning of a long text, with a note of how much is missing."""
    missing = len(text) - length
    return text if missing <= 0 else f"{text[:length]}… ({missing:,} more characters)"


class SizeBudget:
    """Characters that a document may still use; everything that is added to it is deducted."""

    def __init__(self, left: int = MAX_CHARACTERS) -> None:
        self.left = left

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
        parts: list[DiffPart] = [(kind, self.text(text)) for kind, text in message["parts"]]
        return {**message, "parts": parts}

    def count(self, items: Collection[object]) -> int:
        """Return how many of these small items fit, and deduct them."""
        fitting = min(len(items), self.left // ITEM_OVERHEAD)
        self.left -= fitting * ITEM_OVERHEAD
        return fitting
