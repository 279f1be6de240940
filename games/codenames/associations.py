"""The word list, and the words that are associated with each of its words.

`associations.txt` is written by hand, from general knowledge: common, concrete English nouns, and
for each the words that come to mind with it. It needs no network and no model.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def _read() -> dict[str, tuple[str, ...]]:
    text = Path(__file__).with_name("associations.txt").read_text(encoding="utf-8")
    pairs = (line.split(": ") for line in text.splitlines() if not line.startswith("#"))
    return {word: tuple(associated.split()) for word, associated in pairs}


ASSOCIATIONS: Mapping[str, tuple[str, ...]] = _read()
"""Associated words of each word of the list."""
WORDS = tuple(ASSOCIATIONS)
"""The word list of the game, in alphabetical order."""
NUMBERS: Mapping[str, int] = {word: number for number, word in enumerate(WORDS)}
"""Number of each word in the list."""
