"""Liar's dice as a `Game`: hidden dice, rising bids and challenges.

The rules are those of OpenSpiel's `liars_dice` (two players, one challenge, the highest face is
wild), extended to 2-6 players, to games until one player has dice left, and to other wild faces.
C. P. Ferguson and T. S. Ferguson, "Models for the game of liar's dice", Stochastic Games and
Related Topics (1991), 15-28, treat the game with one die of the bidder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena import (
    Action,
    Observation,
)
from games.liars_dice.base import Challenge, DiceBid, LiarsDiceBase
from games.liars_dice.notes import DiceNotes
from games.liars_dice.state import LiarsDiceState

if TYPE_CHECKING:
    from arena.core.batch.state_batch import StateBatch


class LiarsDice(LiarsDiceBase):
    """Liar's dice; `LiarsDiceOptions` lists the options.

    Example:
        >>> from arena import CHANCE
        >>> from games.liars_dice.base import Challenge, DiceBid, RollHand
        >>> game = LiarsDice(players=2, dice=1)
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, RollHand((5,)))
        >>> state.apply(CHANCE, RollHand((2,)))
        >>> state.apply(0, DiceBid(1, 5))
        >>> state.apply(1, Challenge())
        >>> state.returns()
        (1.0, -1.0)
    """

    Text = "games.liars_dice.text:LiarsDiceText"
    Analysis = "games.liars_dice.assessor:LiarsDiceAnalysis"
    Arrays = "games.liars_dice.notes:LiarsDiceArrays"
    View = "games.liars_dice.view:LiarsDiceView"
    default_bots = ("reader", "counter")

    def initial_state(self) -> LiarsDiceState:
        return LiarsDiceState(self)

    def new_batch(self, size: int) -> StateBatch:
        from games.liars_dice.batch import LiarsDiceBatch

        return LiarsDiceBatch(self, size)

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action is a challenge: it ends the round, and one player loses."""
        return isinstance(action, Challenge)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the legal actions without bids that the player's own dice show to be false."""
        notes = observation.notes
        assert isinstance(notes, DiceNotes)
        possible = [
            action
            for action in observation.legal_actions
            if not isinstance(action, DiceBid)
            or action.quantity <= notes.seen_matches(action.face) + notes.hidden
        ]
        # With none left, the player can only lose, whatever is drawn.
        return possible or observation.legal_actions
