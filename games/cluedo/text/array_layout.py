"""The bytes of the arrays of an observation: one after another, so that one copy makes them all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from arena import ArraySpec
from games.cluedo.rules import board
from games.cluedo.rules.cards import Deck
from games.cluedo.rules.events import Place

HAS_NOT = b"\xff"
"""The byte of -1."""

LAST = "suggestions"
"""The array at the end, where a new row moves the others without moving another array."""


class ArrayLayout:
    """Places of the arrays of one game's observations in a block of bytes.

    Attributes:
        offsets: The first byte of each array.
        blanks: Per observer, the block before the first event.
        columns: Per observer, the column of each seat: the number counted from the observer.
        rows: The first byte of each card's row in the notebook.
        has_card: Per column, a row of the notebook that places a card there and nowhere else.
        nowhere: The row of a card that is in no column.
        numbers: The number of each card in its category, from 1.
        width: Length of a row of the suggestions.
        pawns: The row of a pawn in each place: room, row and column.

    Args:
        specs: The arrays, all of them of the dtype int8.
        deck: The cards.
    """

    def __init__(self, specs: Mapping[str, ArraySpec], deck: Deck) -> None:
        self.offsets = dict[str, int]()
        size = 0
        for name in sorted(specs, key=LAST.__eq__):
            self.offsets[name] = size
            size += int(np.prod(specs[name].shape))
        # The fields keep the order of the specs, whatever their places.
        self._dtype = np.dtype(
            {
                "names": list(specs),
                "formats": [(np.int8, spec.shape) for spec in specs.values()],
                "offsets": [self.offsets[name] for name in specs],
                "itemsize": size,
            }
        )
        self._names = tuple(specs)
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
        self.width = specs[LAST].shape[1]
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

    def arrays(self, block: bytearray) -> dict[str, NDArray[np.int8]]:
        """Return the arrays in this block of bytes, which they use without another copy."""
        record: NDArray[np.void] = np.ndarray((), self._dtype, block)
        return {name: record[name] for name in self._names}
