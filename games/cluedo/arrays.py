"""Observations of Cluedo as arrays, for networks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from arena import ArraySpec, GameArrays, Observation
from games.cluedo.facts import HAS, HISTORY, ROW, Facts
from games.cluedo.rules import board
from games.cluedo.rules.events import Place
from games.cluedo.rules.setting import CluedoSetting

_ONLY_HAS = bytes(number == HAS for number in range(256))


class CluedoArrays(GameArrays):
    """Arrays of an observation. Seats are counted from the observer's own, in turn order.

    - `hand` (cards,): 1 for own cards.
    - `notebook` (cards, seats + 1): 1 has the card, -1 does not have it, 0 unknown. Only what was
      witnessed, no conclusions. The last column is the envelope.
    - `suggestions` (32, 6), latest first: suspect, weapon, room (each from 1), suggester, refuter
      (seat + 1; 0 for none), card shown to or by the observer (from 1; 0 for unseen). Unused rows
      are 0.
    - `out` (seats,): 1 after a false accusation.
    - `turn` (seats,): 1 for the player in turn; seat 0 until the first turn begins.
    - With a board: `pawns` (6, 3), suspects in card order: room (from 1; 0 in a corridor), row and
      column in the corridor. `weapons` (6,): the room that each was moved to (from 1; 0 for none).
      `dice` (2,): the throw of this turn, 0 before it.
    """

    game: CluedoSetting

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        game = self.game
        cards, seats = len(game.deck.cards), game.num_players
        specs = {
            "hand": ArraySpec((cards,), 0, 1),
            "notebook": ArraySpec((cards, seats + 1), -1, 1),
            "suggestions": ArraySpec((HISTORY, ROW), 0, cards),
            "out": ArraySpec((seats,), 0, 1),
            "turn": ArraySpec((seats,), 0, 1),
        }
        if game.has_board:
            specs["pawns"] = ArraySpec((6, 3), 0, max(board.ROWS, board.COLUMNS))
            specs["weapons"] = ArraySpec((6,), 0, len(game.deck.rooms))
            specs["dice"] = ArraySpec((2,), 0, 6)
        return specs

    @cached_property
    def _one_hot(self) -> tuple[bytes, ...]:
        """A row of `turn` for each seat, counted from the observer."""
        seats = range(self.game.num_players)
        return tuple(bytes(column == seat for seat in seats) for column in seats)

    @cached_property
    def _pawns(self) -> dict[Place, bytes]:
        """The row of a pawn in each place: room, row and column."""
        numbers = self.game.deck.numbers
        rooms: dict[Place, bytes] = {
            room: bytes((numbers[room], 0, 0)) for room in self.game.deck.rooms
        }
        return rooms | {n: bytes((0, *divmod(n, board.COLUMNS))) for n in board.CORRIDOR}

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        facts = observation.notes
        assert isinstance(facts, Facts)
        seats, grid = self.game.num_players, facts.grid
        # All of dtype int8, one after another; bytes are joined faster than arrays are filled.
        parts: list[bytes | bytearray] = [
            # Column 0 of the grid is the observer's own.
            grid[:: seats + 1].translate(_ONLY_HAS),
            grid,
            facts.asked,
            facts.out,
            self._one_hot[facts.column[facts.in_turn]],
        ]
        if facts.places:
            parts += map(self._pawns.__getitem__, facts.places.values())
            parts += (facts.weapons, bytes(facts.dice))
        return self._from_block(bytearray().join(parts))
