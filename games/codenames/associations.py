"""The word list, and the similarity of clues to its words.

`associations.txt` (25 kB) is written by hand: for each of 400 common, concrete English nouns, 8 to
12 words that come to mind with it. It needs no network and no model. The similarity follows from it
by the usual steps of distributional semantics (P. Turney and P. Pantel, "From frequency to meaning:
vector space models of semantics", Journal of Artificial Intelligence Research 37 (2010), 141-188):
rare associations weigh more, and the cosine compares two vectors.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray


def _read() -> dict[str, tuple[str, ...]]:
    text = Path(__file__).with_name("associations.txt").read_text(encoding="utf-8")
    pairs = (line.split(": ") for line in text.splitlines() if not line.startswith("#"))
    return {word: tuple(associated.split()) for word, associated in pairs}


ASSOCIATIONS: Mapping[str, tuple[str, ...]] = _read()
"""Associated words of each word of the list."""
WORDS = tuple(ASSOCIATIONS)
"""The word list of the game, in alphabetical order."""
