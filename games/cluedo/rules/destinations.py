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


@lru_cache(maxsize=1 << 13)
def destinations(origin: int | str, steps: int, occupied: int) -> Destinations:
    """Return where a throw leads from a square (number) or out of a room (name).

    A pawn that leaves a room spends its first step on the square outside a door, and does not enter
    that room again. Squares in `occupied` have other pawns.
    """
    rooms = tuple(
        room
        for room in board.DOORS
        if room != origin and board.walk(origin, room, steps, occupied).enters
    )
    squares = _ends(origin, steps, occupied)
    # Shorter walks only for a pawn that could not move otherwise.
    while not rooms and not squares and steps > 1:
        steps -= 1
        squares = _ends(origin, steps, occupied)
    return Destinations(rooms, tuple(sorted(squares)))


def _ends(origin: int | str, steps: int, occupied: int) -> set[int]:
    """Return the squares at the end of all walks of exactly this number of steps."""
    free = board.WALKABLE & ~occupied
    if isinstance(origin, int):
        return set(_walks(origin, steps, free & ~(1 << origin)))
    doorsteps = list(_squares(board.OUTSIDE[origin] & free))
    # The step out of the room is the first one.
    return {end for door in doorsteps for end in _walks(door, steps - 1, free & ~(1 << door))}


def _walks(square: int, steps: int, free: int) -> Iterator[int]:
    """Yield the end of each walk that enters only `free` squares, and none of them twice.

    At most 6,200 walks for a throw of 12, a few hundred for one of 7.
    """
    if not steps:
        yield square
        return
    for after in _squares(board.neighbours(1 << square) & free):
        yield from _walks(after, steps - 1, free & ~(1 << after))


def _squares(squares: int) -> Iterator[int]:
    """Yield the numbers of the squares in a set, in ascending order."""
    while squares:
        lowest = squares & -squares
        yield lowest.bit_length() - 1
        squares ^= lowest
