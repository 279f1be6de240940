"""The arrays of an observation: names, shapes, bounds, and their bytes.

The bytes lie one after another in one block, as `GameArrays` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from arena import ArraySpec
from games.cluedo.rules import board
from games.cluedo.rules.cards import Deck
from games.cluedo.rules.events import Place

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


HISTORY, ROW = 32, 6
"""Shape of the array of suggestions."""


def array_specs(game: CluedoSetting) -> Mapping[str, ArraySpec]:
    """Return the specs of an observation's arrays.

    Seats are counted from the observer's own, in turn order.

    - `hand` (cards,): 1 for own cards.
    - `notebook` (cards, seats + 1): 1 has the card, -1 does not have it, 0 unknown. Only what was
      witnessed, no conclusions. The last column is the envelope.
    - `suggestions` (32, 6), latest first: suspect, weapon, room (each from 1), suggester, refuter
      (seat + 1; 0 for none), card shown to or by the observer (from 1; 0 for unseen). Unused rows
      are 0.
    - `out` (seats,): 1 after a false accusation.
    - `turn` (seats,): 1 for the player in turn.
    - With a board: `pawns` (6, 3), suspects in card order: room (from 1; 0 in a corridor), row and
      column in the corridor. `weapons` (6,): the room that each was moved to (from 1; 0 for none).
      `dice` (2,): the throw of this turn, 0 before it.
    """
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


HAS_NOT = b"\xff"
"""The byte of -1."""


class ArrayLayout:
    """Places of the arrays of one game's observations in a block of bytes.

    Attributes:
        blanks: Per observer, the block before the first event.
        columns: Per observer, the column of each seat: the number counted from the observer.
        rows: The first byte of each card's row in the notebook.
        has_card: Per column, a row of the notebook that places a card there and nowhere else.
        nowhere: The row of a card that is in no column.
        numbers: The number of each card in its category, from 1.
        pawns: The row of a pawn in each place: room, row and column.

    Args:
        specs: The arrays, all of them of the dtype int8.
        offsets: The first byte of each array.
        size: Length of a block.
        deck: The cards.
    """

    def __init__(
        self, specs: Mapping[str, ArraySpec], offsets: Mapping[str, int], size: int, deck: Deck
    ) -> None:
        self.offsets = offsets
        seats = specs["out"].shape[0]
        self.columns = [
            [(seat - player) % seats for seat in range(seats)] for player in range(seats)
        ]
        width = seats + 1
        self.rows = {
            card: self.offsets["notebook"] + number * width for card, number in deck.index.items()
        }
        self.nowhere = HAS_NOT * width
        self.has_card = [
            HAS_NOT * column + b"\1" + HAS_NOT * (width - column - 1) for column in range(width)
        ]
        self.numbers = {
            card: number for cards in deck.categories for number, card in enumerate(cards, start=1)
        }
        self.pawns: dict[Place, bytes] = {
            square: bytes((0, *divmod(square, board.COLUMNS))) for square in board.CORRIDOR
        }
        self.pawns |= {room: bytes((self.numbers[room], 0, 0)) for room in deck.rooms}
        self.blanks = [self._blank(specs, size, columns) for columns in self.columns]

    def _blank(self, specs: Mapping[str, ArraySpec], size: int, columns: list[int]) -> bytes:
        """Return the block of an observer before the first event."""
        block = bytearray(size)
        # Until the first turn begins, seat 0 counts as the one in turn.
        block[self.offsets["turn"] + columns[0]] = 1
        if "pawns" in specs:
            places = b"".join(map(self.pawns.__getitem__, board.STARTS))
            start = self.offsets["pawns"]
            block[start : start + len(places)] = places
        return bytes(block)
