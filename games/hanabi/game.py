"""Hanabi as a `Game`.

Renderings, knowledge and analysis are imported when they are first used, so that listing the games
stays fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena import (
    Action,
    Observation,
    ReturnScale,
)
from games.hanabi.base import HanabiBase
from games.hanabi.moves import DiscardSlot, HintColour, HintRank
from games.hanabi.state import HanabiState

if TYPE_CHECKING:
    pass


class Hanabi(HanabiBase):
    """Two to five players build fireworks together from cards that their owners do not see.

    `HanabiOptions` lists the options. The return of each seat is the common score.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> game = Hanabi(players=2)
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> state.teams()
        (0, 0)
        >>> [str(action) for action in state.legal_actions(0)][:2]
        ['play slot 1', 'play slot 2']
    """

    Text = "games.hanabi.text:HanabiText"
    Analysis = "games.hanabi.assessor:HanabiAnalysis"
    Arrays = "games.hanabi.arrays:HanabiArrays"
    View = "games.hanabi.view:HanabiView"
    default_bots = ("conventions", "conventions")

    summary = "build fireworks together; you see all hands but your own"

    @property
    def return_scale(self) -> ReturnScale:
        """The common score, from 0 to the number of kinds of cards."""
        # One point for each kind, since each kind is played once at most.
        return ReturnScale("score", "points", 0.0, float(len(self.deck.kinds)), has_winner=False)

    def initial_state(self) -> HanabiState:
        """Return the position before the deal."""
        return HanabiState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the oldest card's discard, else the hints: a wrong play costs a life."""
        legal = observation.legal_actions
        # A hint costs a token only, and the oldest card is the one that players discard anyway.
        hints = (*legal.of(HintColour), *legal.of(HintRank))
        return legal.of(DiscardSlot)[:1] or hints or legal
