"""The bytes of the arrays of an observation: one after another, so that one copy makes them all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from arena import ArraySpec

HAS_NOT = b"\xff"
"""The byte of -1."""

LAST = "suggestions"
"""The array at the end: a notebook keeps it apart from the others."""


class ArrayLayout:
    """Places of the arrays of one game's observations in a block of bytes.

    Attributes:
        offsets: The first byte of each array.
        size: Number of bytes without the suggestions.
        columns: Per observer, the column of each seat: the number counted from the observer.
        has_card: Per column, a row of the notebook that places a card there and nowhere else.
        nowhere: The row of a card that is in no column.
        numbers: The number of each card in its category, from 1.

    Args:
        specs: The arrays, all of them of the dtype int8.
        categories: The cards of each category.
    """

    def __init__(
        self, specs: Mapping[str, ArraySpec], categories: tuple[tuple[str, ...], ...]
    ) -> None:
        self.offsets = dict[str, int]()
        self.size = 0
        sizes = {name: int(np.prod(spec.shape)) for name, spec in specs.items()}
        for name in sorted(specs, key=LAST.__eq__):
            self.offsets[name] = self.size
            self.size += sizes[name]
        # The fields keep the order of the specs, whatever their places.
        self._dtype = np.dtype(
            {
                "names": list(specs),
                "formats": [(np.int8, spec.shape) for spec in specs.values()],
                "offsets": [self.offsets[name] for name in specs],
                "itemsize": self.size,
            }
        )
        self._names = tuple(specs)
        self.size -= sizes[LAST]
        seats = specs["out"].shape[0]
        self.columns = [
            [(seat - player) % seats for seat in range(seats)] for player in range(seats)
        ]
        width = specs["notebook"].shape[1]
        self.nowhere = HAS_NOT * width
        self.has_card = [
            HAS_NOT * column + b"\1" + HAS_NOT * (width - column - 1) for column in range(width)
        ]
        self.numbers = {
            card: number for cards in categories for number, card in enumerate(cards, start=1)
        }

    def arrays(self, block: bytearray) -> dict[str, NDArray[np.int8]]:
        """Return the arrays in this block of bytes, which they use without another copy."""
        record: NDArray[np.void] = np.ndarray((), self._dtype, block)
        return {name: record[name] for name in self._names}
