"""Codenames: two teams find their words by clues of one word.

The rules are those of the board game by Vlaada Chvátil (2015), with these differences: the table
may be smaller, a clue giver may pass, the number 0 allows one guess, and blue, which has one word
more, always begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena import (
    Action,
    Observation,
)
from games.codenames.base import CodenamesBase
from games.codenames.moves import STOP
from games.codenames.state import CodenamesState

if TYPE_CHECKING:
    pass


class Codenames(CodenamesBase):
    """Seats 0 and 1 give the clues of blue and orange; even seats are blue, odd seats orange.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> state = Codenames(rows=3, columns=4).initial_state()
        >>> for _ in ("words", "key"):
        ...     state.apply(CHANCE, state.sample_chance(random.Random(1)))
        >>> state.roles()
        ('clue giver', 'clue giver', 'guesser', 'guesser')
        >>> state.apply(0, state.parse("clue Symphony: 1"))
        >>> state.to_act
        (2,)
    """

    Text = "games.codenames.text:CodenamesText"
    Analysis = "games.codenames.assessor:CodenamesAnalysis"
    Arrays = "games.codenames.table:CodenamesArrays"
    View = "games.codenames.view:CodenamesView"
    default_bots = ("associative", "associative")

    def initial_state(self) -> CodenamesState:
        return CodenamesState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return `stop` where it is legal: each guess may reveal the assassin."""
        legal = observation.legal_actions
        return (STOP,) if STOP in legal else legal
