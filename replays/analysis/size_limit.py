"""How much of what a stranger wrote goes into one document: a replay must not fill the memory."""

from __future__ import annotations

import json
from collections.abc import Collection

from arena import Json
from replays.analysis.documents import MessageJson, Part

MOST = 2_000_000
"""Characters of one document."""
EACH = 40
"""What a message or a token counts for beside its text."""


class Room:
    """What is left of a document's room; whatever goes into it takes its share."""

    def __init__(self, left: int = MOST) -> None:
        self.left = left

    def text(self, text: str) -> str:
        """As much of it as there is room for, and how much is missing."""
        kept = text[: self.left]
        self.left -= len(kept)
        rest = len(text) - len(kept)
        return text if not rest else f"{kept}… ({rest:,} more characters)"

    def value(self, value: Json) -> Json:
        """The value, or as text what there is room for."""
        written = json.dumps(value, ensure_ascii=False)
        if len(written) > self.left:
            return self.text(written)
        self.left -= len(written)
        return value

    def values(self, values: dict[str, Json]) -> dict[str, Json]:
        """Each by its name; those for which there is no room at all are left out."""
        found: dict[str, Json] = {}
        for name, value in values.items():
            if self.left <= 0:
                break
            found[self.text(name)] = self.value(value)
        return found

    def message(self, message: MessageJson) -> MessageJson:
        self.left = max(0, self.left - EACH)
        parts: list[Part] = [(what, self.text(text)) for what, text in message["parts"]]
        return {**message, "parts": parts}

    def count(self, items: Collection[object]) -> int:
        """For how many of these small items there is room."""
        fitting = min(len(items), self.left // EACH)
        self.left -= fitting * EACH
        return fitting
