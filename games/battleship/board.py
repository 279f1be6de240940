"""Geometry of Battleship: squares, possible ships, and fleets that keep the rules.

Sets of squares are integers with one bit for each square (bitboards): bit `row * width + column`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

LONGEST_SHIP = 5


@dataclass(frozen=True, slots=True)
class Ship:
    """One possible place of a ship of one length."""

    name: str
    """First and last square, `b2-b4`; one square only for a ship of length 1."""
    length: int
    squares: tuple[int, ...]
    """Numbers of its squares, from the left or from the top."""
    mask: int
    """The set of its squares."""


Fleet = tuple[Ship, ...]
"""Ships in the order of the option `ships`."""


class Board:
    """Squares and possible ships of one size of board. Immutable; made by `board_of`.

    Example:
        >>> board = board_of(6, 6)
        >>> len(board.ships[3])
        48
        >>> board.ship("b2-b4").squares
        (7, 8, 9)
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        # A letter for the row and a number for the column, as printed on the usual board.
        self.names = tuple(
            f"{'abcdefghij'[row]}{column + 1}" for row in range(height) for column in range(width)
        )
        # Row by row, so that the number is also the position of the bit.
        self.index = {name: number for number, name in enumerate(self.names)}
        self.rows = tuple(range(r * width, (r + 1) * width) for r in range(height))
        # Ships of all lengths, whatever the options need: the board depends on its size only.
        lengths = range(1, LONGEST_SHIP + 1)
        self.ships = {length: tuple(self._ships(length)) for length in lengths}
        self._by_name = {ship.name: ship for ships in self.ships.values() for ship in ships}

    @property
    def size(self) -> int:
        """Number of squares."""
        return len(self.names)

    def ship(self, name: str) -> Ship:
        """Return the ship between two squares. Raises KeyError if there is no such ship."""
        return self._by_name[name]

    def squares(self, mask: int) -> list[int]:
        """Return the numbers of the squares of a set."""
        return [square for square in range(self.size) if mask >> square & 1]

    def _ships(self, length: int) -> Iterator[Ship]:
        """Yield all ships of one length, those across the board first."""
        width, places = self.width, list[Sequence[int]]()
        places += (range(s, s + length) for s in range(self.size) if s % width + length <= width)
        if length > 1:  # A ship of length 1 has no direction; it must not be counted twice.
            last = self.size - (length - 1) * width
            places += (range(s, s + length * width, width) for s in range(last))
        for squares in places:
            ends = dict.fromkeys((self.names[squares[0]], self.names[squares[-1]]))
            mask = sum(1 << square for square in squares)
            yield Ship("-".join(ends), length, tuple(squares), mask)


@lru_cache(maxsize=16)
def board_of(width: int, height: int) -> Board:
    """Return the board of this size; equal arguments give the same object."""
    return Board(width, height)


def union(ships: Iterable[Ship]) -> int:
    """Return the set of all squares of some ships."""
    mask = 0
    for ship in ships:
        mask |= ship.mask
    return mask


def is_fleet(ships: Sequence[Ship]) -> bool:
    """Return whether no two ships overlap."""
    return union(ships).bit_count() == sum(ship.length for ship in ships)


def has_room(board: Board, lengths: Sequence[int], occupied: int = 0) -> bool:
    """Return whether ships of these lengths fit on the board beside the occupied squares.

    A depth-first search. It is short, because `BattleshipOptions` limits the share of squares.
    """
    if not lengths:
        return True
    # `any` stops at the first fleet, which is nearly always the first place of each ship.
    return any(
        not ship.mask & occupied and has_room(board, lengths[1:], occupied | ship.mask)
        for ship in board.ships[lengths[0]]
    )


def random_fleet(board: Board, lengths: Sequence[int], rng: random.Random) -> Fleet:
    """Draw a fleet; all fleets that keep the rules are equally likely.

    Rejection sampling: each ship is drawn evenly from its possible places, and the whole fleet is
    drawn again if two ships are in conflict.
    """
    # To place ship by ship beside those before would make some fleets more likely than others.
    while True:
        fleet = tuple(rng.choice(board.ships[length]) for length in lengths)
        if is_fleet(fleet):
            return fleet
