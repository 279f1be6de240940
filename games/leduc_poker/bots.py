"""Bots of Leduc hold'em, weakest first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from arena import Action, Decision, Observation, Seat
from games.leduc_poker.knowledge import showdown_chances
from games.leduc_poker.notes import MOVES, LeducNotes
from games.leduc_poker.strategy import equilibrium, probabilities


class LeducBot(ABC):
    """Bot that draws from a strategy."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        chances = self.probabilities(observation)
        return Decision(self._rng.choices(list(chances), list(chances.values()))[0])

    @abstractmethod
    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        """Return the probability of each legal action."""


class Odds(LeducBot):
    """Bot that compares its chance against a random hand with the price of a call.

    It raises if it expects more than `RAISING` of the pot, folds if a call costs more than its
    expected share, and never bluffs.
    """

    RAISING = 0.6

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        notes = observation.notes
        assert isinstance(notes, LeducNotes)
        betting, share = notes.betting, showdown_chances(notes).share
        # The strength of the hand alone decides: the bot does not read the other player.
        if share > self.RAISING and "r" in betting.legal:
            return {MOVES["r"]: 1.0}
        # A call pays if share * (pot + price) > price.
        pays = share * (betting.pot + betting.price) > betting.price
        return {MOVES["c" if pays or not betting.price else "f"]: 1.0}


class Equilibrium(LeducBot):
    """Bot that plays the bundled approximate Nash equilibrium, computed by CFR+ (`solver`).

    Whatever the other player does, it loses on average at most its exploitability more than the
    value of the game; `tests/games/test_leduc_poker.py` states the figure.
    """

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        return probabilities(equilibrium(), observation)
