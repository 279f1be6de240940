"""The classic board: 24 columns by 25 rows, nine rooms, 17 doors, two pairs of secret passages.

The layout is that of the boards from 1949 to the 2000s (Study top left, as US editions print it;
UK editions show the same board turned by 180 degrees). Squares and doors were checked against
eight independent transcriptions, of which six agree on every walkable square.

Squares are numbered row by row from the top left; sets of squares are integers with one bit per
square, so that one step of a flood fill is four shifts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

COLUMNS = 24
ROWS = 25

# Letters are rooms, '.' a corridor square, '#' no square; digits are the start squares of the
# suspects in turn order (1 Scarlett, 2 Mustard, 3 White, 4 Green, 5 Peacock, 6 Plum).
MAP = """\
SSSSSS#.#HHHHHH#1#LLLLLL
SSSSSSS..HHHHHH..LLLLLLL
SSSSSSS..HHHHHH..LLLLLLL
SSSSSSS..HHHHHH..LLLLLLL
#........HHHHHH..LLLLLLL
6........HHHHHH..LLLLLLL
#IIIII...HHHHHH........#
IIIIIII................2
IIIIIII..#####.........#
IIIIIII..#####..DDDDDDDD
#IIIII...#####..DDDDDDDD
#........#####..DDDDDDDD
BBBBBB...#####..DDDDDDDD
BBBBBB...#####..DDDDDDDD
BBBBBB...#####..DDDDDDDD
BBBBBB.............DDDDD
BBBBBB.................#
#.......AAAAAAAA........
5.......AAAAAAAA..KKKKK#
#CCCC...AAAAAAAA..KKKKKK
CCCCCC..AAAAAAAA..KKKKKK
CCCCCC..AAAAAAAA..KKKKKK
CCCCCC..AAAAAAAA..KKKKKK
CCCCCC#...AAAA...#KKKKKK
#########4####3#########
""".splitlines()

LETTERS = {
    "Kitchen": "K",
    "Ballroom": "A",
    "Conservatory": "C",
    "Billiard Room": "B",
    "Library": "I",
    "Study": "S",
    "Hall": "H",
    "Lounge": "L",
    "Dining Room": "D",
}

PASSAGES = {
    "Study": "Kitchen",
    "Kitchen": "Study",
    "Conservatory": "Lounge",
    "Lounge": "Conservatory",
}

# The corridor square outside each door, as (row, column).
DOORS: dict[str, tuple[tuple[int, int], ...]] = {
    "Study": ((4, 6),),
    "Hall": ((4, 8), (7, 11), (7, 12)),
    "Lounge": ((6, 17),),
    "Library": ((8, 7), (11, 3)),
    "Billiard Room": ((11, 1), (15, 6)),
    "Conservatory": ((19, 5),),
    "Ballroom": ((19, 7), (16, 9), (16, 14), (19, 16)),
    "Kitchen": ((17, 19),),
    "Dining Room": ((8, 17), (12, 15)),
}


def square(row: int, column: int) -> int:
    return row * COLUMNS + column


def bits(squares: Iterable[int]) -> int:
    return sum(1 << number for number in squares)


def _squares_of(characters: str) -> int:
    return bits(
        square(row, column)
        for row, line in enumerate(MAP)
        for column, character in enumerate(line)
        if character in characters
    )


WALKABLE = _squares_of(".123456")
STARTS = tuple(_squares_of(str(number)).bit_length() - 1 for number in range(1, 7))
OUTSIDE = {room: bits(square(*door) for door in doors) for room, doors in DOORS.items()}
# A step east must not wrap into the next row, nor a step west into the one before.
_NOT_FIRST_COLUMN = bits(n for n in range(ROWS * COLUMNS) if n % COLUMNS != 0)
_NOT_LAST_COLUMN = bits(n for n in range(ROWS * COLUMNS) if n % COLUMNS != COLUMNS - 1)


def neighbours(squares: int) -> int:
    """All squares one step from any of `squares`, diagonals excluded."""
    return (
        (squares & _NOT_LAST_COLUMN) << 1
        | (squares & _NOT_FIRST_COLUMN) >> 1
        | squares << COLUMNS
        | squares >> COLUMNS
    )


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a pawn comes out: in the room, or on a corridor square (None if it stays put)."""

    enters: bool
    square: int | None = None


def _layers(start: int, free: int) -> Iterator[int]:
    """Sets of squares first reached after 1, 2, 3, … steps; `start` itself comes first."""
    frontier = seen = start
    while frontier:
        yield frontier
        frontier = neighbours(frontier) & free & ~seen
        seen |= frontier


@lru_cache(maxsize=1 << 15)
def walk(origin: int | str, room: str, steps: int, occupied: int) -> Walk:
    """Move a pawn from a square (number) or a room (name) toward `room` with a throw of `steps`.

    It enters if a door can be reached with a step to spare (a throw need not be exact), else it
    goes to the reachable square that is nearest to a door: of several, the one it gets to with the
    fewest steps, then the lowest numbered. Squares in `occupied` block the way, doors included. A
    pawn that leaves a room spends its first step on the square outside a door.
    """
    free = WALKABLE & ~occupied
    target = OUTSIDE[room] & free
    if isinstance(origin, str):
        layers = list(_take(_layers(OUTSIDE[origin] & free, free), steps))
    else:
        layers = list(_take(_layers(1 << origin, free | 1 << origin), steps + 1))
    # The step from the square outside a door into the room costs one more.
    doorsteps = layers[:-1] if len(layers) == steps + isinstance(origin, int) else layers
    if any(layer & target for layer in doorsteps):
        return Walk(enters=True)
    for ring in _layers(OUTSIDE[room] & WALKABLE, free):
        for layer in layers:
            nearest = layer & ring & free
            if nearest:
                return Walk(enters=False, square=(nearest & -nearest).bit_length() - 1)
    return Walk(enters=False)


@lru_cache(maxsize=1 << 12)
def steps_to(origin: int | str, room: str) -> int:
    """Steps from a square or out of a room into `room`, on an empty board."""
    start = OUTSIDE[origin] if isinstance(origin, str) else 1 << origin
    layers = enumerate(_layers(start, WALKABLE), start=1 + isinstance(origin, str))
    return next(steps for steps, layer in layers if layer & OUTSIDE[room])


def _take(layers: Iterator[int], count: int) -> Iterator[int]:
    for _, layer in zip(range(count), layers, strict=False):
        yield layer


def can_leave(room: str, occupied: int) -> bool:
    """Whether some door of `room` is not blocked by a pawn outside."""
    return bool(OUTSIDE[room] & WALKABLE & ~occupied)
