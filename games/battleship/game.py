"""Battleship: two hidden fleets, and shots in turn.

The rules with all options are those of OpenSpiel's `battleship`, after G. Farina, C. K. Ling,
F. Fang and T. Sandholm, "Correlation in extensive-form games: saddle-point formulation and
benchmarks", NeurIPS 2019: with `placement=players`, `returns_type=damage`, `shots`, `values` and
`loss_multiplier` the returns are equal (its `allow_repeated_shots` is false here).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import (
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Observation,
    Step,
    TextLevel,
)
from games.battleship.base import BattleshipBase
from games.battleship.board import LONGEST_SHIP
from games.battleship.measures import FACTS, MEASURES
from games.battleship.state import BattleshipState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from games.battleship.assessor import BattleshipAssessor
    from games.battleship.notes import BattleshipNotes
    from games.battleship.posterior import FleetKnowledge
    from games.battleship.view import BattleshipView


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

    facts = FACTS
    measures = MEASURES

    def initial_state(self) -> BattleshipState:
        return BattleshipState(self)

    def synonyms(self) -> Mapping[str, str]:
        return dict.fromkeys(("fire at", "fire", "attack", "shoot at"), "shoot")

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        from games.battleship.resampling import resample

        return resample(self, history, player, rng)

    def knowledge(self, player: int) -> FleetKnowledge | None:
        """Return the exact knowledge of `player`; None if there are too many fleets.

        The limit is `posterior.MOST_FLEETS`.
        """
        from games.battleship.posterior import FleetKnowledge, is_countable

        return FleetKnowledge(self, player) if is_countable(self) else None

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> BattleshipAssessor | None:
        """Return an assessor by exact knowledge; None if there are too many fleets."""
        from games.battleship.assessor import BattleshipAssessor
        from games.battleship.posterior import is_countable

        return BattleshipAssessor(self, players, kinds) if is_countable(self) else None

    def comment(self, assessment: Assessment) -> Comment | None:
        from games.battleship.assessor import comment

        return comment(assessment)

    # Texts, view and arrays

    def new_view(self, seat: int | None) -> BattleshipView:
        from games.battleship.view import BattleshipView

        return BattleshipView(self, seat)

    def rules(self) -> str:
        from games.battleship.text import rules

        return rules(self)

    def narrate(self, event: Event) -> str:
        from games.battleship.text import narrate

        return narrate(self, event)

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        from games.battleship.text import situation

        return situation(self, observation, level)

    def new_notes(self, player: int) -> BattleshipNotes:
        from games.battleship.notes import BattleshipNotes

        return BattleshipNotes(self, player)

    @cached_property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        """Return the specs of the arrays; rows and columns are those of the board.

        - `fleet`: 1 for a square of an own ship.
        - `shots`, `received`: own shots and those of the other player: -1 miss, 1 hit.
        - `afloat` (lengths 1 to 5): ships of the other player that are not announced as sunk.
        - `to_place` (lengths 1 to 5): 1 for the length of the ship to place now.
        """
        grid = (self.options.height, self.options.width)
        return {
            "fleet": ArraySpec(grid, 0, 1),
            "shots": ArraySpec(grid, -1, 1),
            "received": ArraySpec(grid, -1, 1),
            "afloat": ArraySpec((LONGEST_SHIP,), 0, 10),
            "to_place": ArraySpec((LONGEST_SHIP,), 0, 1),
        }

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: BattleshipNotes = observation.notes  # type: ignore[assignment]
        return notes.arrays()
