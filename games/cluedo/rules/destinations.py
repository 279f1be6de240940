"""Places where a pawn may end its move if the whole throw is used (`movement="squares"`).

As in the printed rules, a pawn moves along the corridor, not diagonally, never through a square
with another pawn, and enters no square twice in one turn. It may enter a room as soon as it reaches
it, which ends the move. Otherwise it uses the whole throw. The sheets are silent on a pawn that can
do neither, because its way is blocked: it then goes as far as it can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from games.cluedo.rules import board


@dataclass(frozen=True, slots=True)
class Destinations:
    """Ends of a move: names of rooms, and numbers of squares in ascending order."""

    rooms: tuple[str, ...]
    squares: tuple[int, ...]


def destinations(origin: int | str, steps: int, occupied: int) -> Destinations:
    """Return where a throw leads from a square (number) or out of a room (name).

    A pawn that leaves a room spends its first step on the square outside a door, and does not enter
    that room again. Squares in `occupied` have other pawns.
    """
    # Pawns farther away are in nobody's way, so positions that differ in them share a result.
    return _destinations(origin, steps, occupied & _around(origin, steps))


@lru_cache(maxsize=1 << 13)
def _destinations(origin: int | str, steps: int, occupied: int) -> Destinations:
    rooms = board.rooms_in_reach(origin, steps, occupied)
    squares = _ends(origin, steps, occupied)
    # Shorter walks only for a pawn that could not move otherwise.
    while not rooms and not squares and steps > 1:
        steps -= 1
        squares = _ends(origin, steps, occupied)
    return Destinations(rooms, tuple(_squares(squares)))


@lru_cache(maxsize=1 << 12)
def _around(origin: int | str, steps: int) -> int:
    """Return the squares within this number of steps, and those outside the doors of a room."""
    reached = board.OUTSIDE[origin] if isinstance(origin, str) else 1 << origin
    for _ in range(steps):
        reached |= board.neighbours(reached) & board.WALKABLE
    return reached


def _ends(origin: int | str, steps: int, occupied: int) -> int:
    """Return the squares at the end of all walks of exactly this number of steps."""
    if isinstance(origin, int):
        return _ends_from(origin, steps, occupied & _around(origin, steps))
    ends = 0
    for door in _squares(board.OUTSIDE[origin] & ~occupied):
        # The step out of the room is the first one.
        ends |= _ends_from(door, steps - 1, occupied & _around(door, steps - 1))
    return ends


@lru_cache(maxsize=1 << 13)
def _ends_from(square: int, steps: int, occupied: int) -> int:
    """Return the squares at the end of all walks from a square."""
    # Pawns only take ends away: at most those to which they block all known walks.
    pawns, lost = list(_squares(occupied)), -1
    for order in (1, -1):
        ends, through = _known_walks(square, steps, order)
        blocked = 0
        for pawn in pawns:
            blocked |= through.get(pawn, 0)
        lost &= blocked
        if not lost:
            return ends
    free = board.WALKABLE & ~occupied & ~(1 << square)
    # Only for these, another walk is looked for.
    hoped = lost & _flood(square, steps, free)
    return ends & ~lost | _search(square, steps, free, hoped, {}, 1)


@lru_cache(maxsize=1 << 13)
def _known_walks(square: int, steps: int, order: int) -> tuple[int, dict[int, int]]:
    """Return the ends of all walks on the empty board, and a table of one walk to each of them.

    The table has, per square, the ends whose walk enters that square. The walks of the orders 1 and
    -1 turn to different sides, so that a pawn rarely blocks both.
    """
    if not steps:
        return 1 << square, {}
    found, through = 0, dict[int, int]()
    free = board.WALKABLE & ~(1 << square)
    for after, _ in board.BESIDE[square][::order]:
        # The known walks from the square beside, if they do not come back.
        ends, table = _known_walks(after, steps - 1, order)
        added = ends & free & ~table.get(square, 0) & ~found
        found |= added
        for entered, its_ends in ((after, added), *table.items()):
            through[entered] = through.get(entered, 0) | its_ends & added
    hoped = _loose_ends(square, steps) & free & ~found
    return found | _search(square, steps, free, hoped, through, order), through


def _search(
    square: int, steps: int, free: int, hoped: int, through: dict[int, int], order: int
) -> int:
    """Return which of the hoped ends some walk reaches; add these walks to the table `through`.

    A walk enters only `free` squares, and none of them twice.
    """
    if not steps:
        return 1 << square & hoped
    found = 0
    for after, bit in board.BESIDE[square][::order]:
        # Without the second test there are up to 6,200 walks for a throw of 12.
        if free & bit and _loose_ends(after, steps - 1) & hoped & ~found:
            ends = _search(after, steps - 1, free & ~bit, hoped & ~found, through, order)
            through[after] = through.get(after, 0) | ends
            found |= ends
    return found


@lru_cache(maxsize=1 << 12)
def _loose_ends(square: int, steps: int) -> int:
    """Return the ends of walks on the empty board that may enter a square twice."""
    return _flood(square, steps, board.WALKABLE)


def _flood(square: int, steps: int, free: int) -> int:
    """Return the ends of walks over free squares that may enter a square twice."""
    ends = 1 << square
    for _ in range(steps):
        ends = board.neighbours(ends) & free
    return ends


def _squares(squares: int) -> Iterator[int]:
    """Yield the numbers of the squares in a set, in ascending order."""
    while squares:
        lowest = squares & -squares
        yield lowest.bit_length() - 1
        squares ^= lowest
