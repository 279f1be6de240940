"""Bots for both roles: one shares its table of associations with its partner, one does not.

The similarity of clues to words follows from that table by the usual steps of distributional
semantics (P. D. Turney and P. Pantel, "From frequency to meaning: vector space models of
semantics", Journal of Artificial Intelligence Research 37 (2010), 141-188): a word is the vector
of its associations, rare ones weigh more, and the cosine compares two vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from arena import Action, Decision, Observation, Seat
from games.codenames.notes import CodenamesNotes
from games.codenames.rules import (
    ASSOCIATIONS,
    ENDINGS,
    NUMBERS,
    PASS,
    STOP,
    TEAMS,
    WORDS,
    Clue,
    ClueOffer,
    GuessWord,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MARGIN = 0.05
"""Distance that an own word needs from the most similar other word: partners may think
differently."""
KNOWN = 0.7
"""Share of the associations that a seat with a table of its own knows."""
LEAST = 0.1
"""Similarity below which a clue does not count as a clue for a word."""


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
    """Return the similarities by the whole of `ASSOCIATIONS`, computed once per process."""
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


class SharedTableBot:
    """Bot that gives and guesses clues by the similarity of `clue_similarity`.

    As a clue giver it chooses the clue with the most own words that are more similar to it than
    each word of another owner, by a margin; among these, the one that is clearest for its weakest
    word. As a guesser it names the most similar words, as many as the number says.

    All seats of this bot have the same table, so as its own partner it reads its own thoughts: all
    guesses are right, and a clue brings 1.9 words. `OwnTableBot` is the fair partner.
    """

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng
        self._similarity = self._table()

    def _table(self) -> ClueSimilarity:
        return clue_similarity()

    async def act(self, observation: Observation) -> Decision:
        """Choose a clue or a guess, by the role of the seat."""
        notes: CodenamesNotes = observation.notes
        guesses = observation.legal_actions.of(GuessWord)
        return Decision(self._guess(notes, guesses) if guesses else self._clue(notes))

    def _clue(self, notes: CodenamesNotes) -> Action:
        own = notes.hidden_of(TEAMS[notes.player % 2])
        others = [word for word in notes.hidden if word not in own]
        near = self._similarity.to_words(own)
        # Shape (clues,): the most similar word that must not be guessed; the assassin never runs
        # out, so there is always one.
        danger = self._similarity.to_words(others).max(axis=1)
        near = -np.sort(-near, axis=1)
        gaps = near - danger[:, None]
        numbers = ((gaps >= MARGIN) & (near >= LEAST)).sum(axis=1)
        weakest = np.maximum(numbers, 1) - 1
        rows = np.arange(len(numbers))
        clarity = np.minimum(gaps[rows, weakest], near[rows, weakest])
        offer = ClueOffer(Clue, notes.hidden)
        # A stable sort: equal clues stay in alphabetical order. The last key is the first.
        for row in np.lexsort((-clarity, -numbers)):
            number = min(max(int(numbers[row]), 1), 9)
            clue = Clue(f"{self._similarity.clues[row]} {number}")
            if offer.fault(clue) is None:
                return clue
        return PASS

    def _guess(self, notes: CodenamesNotes, guesses: Sequence[GuessWord]) -> Action:
        clue = notes.clues[-1]
        made = clue.found  # A guess of another word would have ended the turn.
        if made and made >= clue.number:
            return STOP
        row = None if clue.word is None else self._similarity.row(clue.word)
        if row is None:
            # Nothing to go by: the first guess is an obligation.
            return STOP if made else self._rng.choice(guesses)
        nearness = self._similarity.to_words([guess.word for guess in guesses])[row]
        best = int(nearness.argmax())
        return STOP if made and not nearness[best] else guesses[best]


class OwnTableBot(SharedTableBot):
    """Bot whose seat knows 70 % of the associations only, drawn anew for each seat and game.

    So its partner thinks differently, whatever bot or model it is.
    """

    def _table(self) -> ClueSimilarity:
        return similarity_of(
            {
                word: [each for each in row if self._rng.random() < KNOWN]
                for word, row in ASSOCIATIONS.items()
            }
        )
