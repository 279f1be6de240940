"""Battleship: two hidden fleets, and shots in turn.

The rules with all options are those of OpenSpiel's `battleship`, after G. Farina, C. K. Ling,
F. Fang and T. Sandholm, "Correlation in extensive-form games: saddle-point formulation and
benchmarks", NeurIPS 2019: with `placement=players`, `returns_type=damage`, `shots`, `values` and
`loss_multiplier` the returns are equal (its `allow_repeated_shots` is false here).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.battleship.base import BattleshipBase
from games.battleship.state import BattleshipState

if TYPE_CHECKING:
    pass


class Battleship(BattleshipBase):
    """Two players; each hides a fleet and shoots at the other's in turn.

    Example:
        >>> from games.battleship.events import PlaceFleet, Shoot
        >>> from arena import CHANCE
        >>> state = Battleship(ships=[2]).initial_state()
        >>> state.apply(CHANCE, PlaceFleet(0, ("a1-a2",)))
        >>> state.apply(CHANCE, PlaceFleet(1, ("c3-d3",)))
        >>> state.apply(0, Shoot("d3"))
        >>> state.log.events[-1].result
        'hit'
    """

    Text = "games.battleship.text:BattleshipText"
    Analysis = "games.battleship.assessor:BattleshipAnalysis"
    Arrays = "games.battleship.notes:BattleshipArrays"
    View = "games.battleship.view:BattleshipView"
    default_bots = ("gunner", "hunter")

    def initial_state(self) -> BattleshipState:
        return BattleshipState(self)
