"""Similarity of clues to the words of the list, from the table of associations.

The usual steps of distributional semantics (P. D. Turney and P. Pantel, "From frequency to meaning:
vector space models of semantics", Journal of Artificial Intelligence Research 37 (2010), 141-188):
a word is the vector of its associations, rare ones weigh more, and the cosine compares two vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from games.codenames.associations import ASSOCIATIONS, NUMBERS, WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENDINGS = ("s", "es", "y", "ing", "ed", "er", "r", "d")
"""Endings by which an unknown clue may differ from a known one: `animals`, `sailing`, `rainy`."""


@dataclass(frozen=True, slots=True)
class ClueSimilarity:
    """Cosine similarity of each known clue to each word of the list."""

    clues: tuple[str, ...]
    numbers: Mapping[str, int]
    """Row of each clue."""
    matrix: NDArray[np.float64]
    """Shape (clues, words of the list), values from 0 to 1. Read-only."""

    def row(self, clue: str) -> int | None:
        """Return the row of a clue, or of a known one with another ending; None if unknown."""
        bare = clue.replace("-", "")
        stems = [bare.removesuffix(ending) for ending in ENDINGS if bare.endswith(ending)]
        variants = (
            clue,
            bare,
            *stems,
            *(stem + ending for stem in (bare, *stems) for ending in ENDINGS),
        )
        return next((self.numbers[form] for form in variants if form in self.numbers), None)

    def to_words(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the similarities to these words: shape (clues, words)."""
        return self.matrix[:, [NUMBERS[word] for word in words]]


@cache
def clue_similarity() -> ClueSimilarity:
    """Return the similarities by `ASSOCIATIONS`, computed once per process."""
    return similarity_of(ASSOCIATIONS)


def similarity_of(associations: Mapping[str, Sequence[str]]) -> ClueSimilarity:
    """Return the similarities by a table with associated words for each word of the list.

    Clues are all words of the table, those of the word list included.
    """
    clues = tuple(sorted({*WORDS, *(each for row in associations.values() for each in row)}))
    numbers = {clue: number for number, clue in enumerate(clues)}
    words = np.zeros((len(WORDS), len(clues)))
    for word, associated in associations.items():
        # A word is associated with itself too, so that it can be a clue at another table.
        words[NUMBERS[word], [numbers[each] for each in (word, *associated)]] = 1
    # Inverse document frequency: an association of half of the words says little about any.
    frequency = np.maximum(words.sum(axis=0), 1)
    words *= np.log(len(WORDS) / frequency)
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    # A clue is the sum of the words that have it, weighted: clue vector = column of W times W. So
    # it is near to words that share other associations with them, too.
    vectors = words.T @ words
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    # Rounded: the last digits depend on the machine and must not decide between equal clues.
    matrix = np.round(vectors @ words.T, 6)
    matrix.setflags(write=False)  # All bots of a process share it.
    return ClueSimilarity(clues, numbers, matrix)
