"""Bots of Leduc hold'em, weakest first."""

from __future__ import annotations

from collections.abc import Mapping

from arena import Action, Observation, Seat
from arena.agents.agent import MixedBot
from arena.core.errors import UsageError
from games.leduc_poker.knowledge import LeducKnowledge, equilibrium, probabilities
from games.leduc_poker.rules import MOVES, LeducPoker


class Odds(MixedBot):
    """Bot that compares its chance against a random hand with the price of a call.

    It raises if it expects more than `RAISING` of the pot, folds if a call costs more than its
    expected share, and never bluffs.
    """

    RAISING = 0.6

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        notes: LeducKnowledge = observation.notes
        betting, share = notes.betting, notes.showdown().share
        # The strength of the hand alone decides: the bot does not read the other player.
        if share > self.RAISING and "r" in betting.legal:
            return {MOVES["r"]: 1.0}
        # A call pays if share * (pot + price) > price.
        pays = share * (betting.pot + betting.price) > betting.price
        return {MOVES["c" if pays or not betting.price else "f"]: 1.0}


class Equilibrium(MixedBot):
    """Bot that plays the bundled approximate Nash equilibrium, computed by CFR+.

    Whatever the other player does, it loses on average at most its exploitability more than the
    value of the game; `tests/games/test_leduc_poker.py` states the figure.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        assert isinstance(seat.game, LeducPoker)
        if not seat.game.is_solved:
            raise UsageError(
                "bot:equilibrium knows leduc_poker with its default options only; use bot:odds"
            )

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        return probabilities(equilibrium(), observation)
