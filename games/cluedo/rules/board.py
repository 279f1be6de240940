"""The cards, and the classic board.

The board has 24 columns by 25 rows, nine rooms, 17 doors and two pairs of secret passages. The
layout is that of the boards from 1949 to the 2000s, with the Study at the top left as in US
editions; UK editions show the same board turned by 180 degrees. Squares and doors were checked
against eight independent transcriptions, of which six agree on every walkable square.

Squares are numbered row by row from the top left. A set of squares is an integer with one bit per
square, so that one step of a flood fill is four shifts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Literal, NamedTuple

ThemeName = Literal["uk", "us", "generated"]
Edition = Literal["uk", "us"]

SUSPECTS: dict[Edition, tuple[str, ...]] = {
    # In turn order around the board: Scarlett always starts.
    "uk": (
        "Miss Scarlett",
        "Colonel Mustard",
        "Mrs White",
        "Reverend Green",
        "Mrs Peacock",
        "Professor Plum",
    ),
    "us": (
        "Miss Scarlet",
        "Colonel Mustard",
        "Mrs. White",
        "Mr. Green",
        "Mrs. Peacock",
        "Professor Plum",
    ),
}
WEAPONS: dict[Edition, tuple[str, ...]] = {
    "uk": ("Candlestick", "Dagger", "Lead Piping", "Revolver", "Rope", "Spanner"),
    "us": ("Candlestick", "Knife", "Lead Pipe", "Revolver", "Rope", "Wrench"),
}
ROOMS: tuple[str, ...] = (
    "Kitchen",
    "Ballroom",
    "Conservatory",
    "Billiard Room",
    "Library",
    "Study",
    "Hall",
    "Lounge",
    "Dining Room",
)


class Triple(NamedTuple):
    """A suspect, a weapon and a room: the cards of a suggestion or of the envelope."""

    suspect: str
    weapon: str
    room: str

    def __str__(self) -> str:
        return f"{self.suspect}, {self.weapon}, {self.room}"


@dataclass(frozen=True)
class Deck:
    """The cards of one game, suspects first, then weapons, then rooms."""

    suspects: tuple[str, ...]
    weapons: tuple[str, ...]
    rooms: tuple[str, ...]

    @staticmethod
    def of(
        theme: ThemeName,
        suspects: int = 6,
        weapons: int = 6,
        rooms: int = 9,
        names_seed: int = 0,
    ) -> Deck:
        """Return a deck of the first cards of each category, as many as given.

        With the theme "generated", the names are invented from `names_seed`; with another theme,
        the cards of each category are shuffled with it before, unless it is 0.
        """
        if theme == "generated":
            names = invented_names(names_seed, suspects + weapons + rooms)
            first_room = suspects + weapons
            return Deck(names[:suspects], names[suspects:first_room], names[first_room:])
        rng = random.Random(f"cluedo cards {names_seed}")
        printed = (SUSPECTS[theme], WEAPONS[theme], ROOMS)
        order = (tuple(rng.sample(kind, len(kind))) if names_seed else kind for kind in printed)
        return Deck(*(k[:size] for k, size in zip(order, (suspects, weapons, rooms), strict=True)))

    @cached_property
    def cards(self) -> tuple[str, ...]:
        """All cards, in deck order."""
        return self.suspects + self.weapons + self.rooms

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each card in deck order, from 0."""
        return {card: number for number, card in enumerate(self.cards)}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each card in its category, from 1."""
        return {card: n for cards in self.categories for n, card in enumerate(cards, start=1)}

    @cached_property
    def categories(self) -> tuple[tuple[str, ...], ...]:
        """Suspects, weapons, rooms."""
        return (self.suspects, self.weapons, self.rooms)

    @cached_property
    def triples(self) -> tuple[Triple, ...]:
        """All possible contents of the envelope."""
        return tuple(
            Triple(suspect, weapon, room)
            for suspect in self.suspects
            for weapon in self.weapons
            for room in self.rooms
        )

    def sort(self, cards: tuple[str, ...] | list[str]) -> tuple[str, ...]:
        """Return the cards in deck order, so that a hand does not show the order of the deal."""
        return tuple(sorted(cards, key=self.index.__getitem__))


# Invented names


CONSONANTS, VOWELS = "bdgkmnptvz", "aiou"
"""Letters that are read alike in most languages."""

LENGTH = 6
"""Letters of a name: three open syllables, as in "Vodika"."""

MIN_DIFFERENCE = 3
"""Positions in which two names differ at least. A slip of the pen never makes another name."""

REAL_WORDS = frozenset({"bikuna", "gudani", "kabuto", "mikado", "nagoti", "tupiza"})
"""Words and place names of the same form, which are left out."""


@lru_cache(maxsize=64)
def invented_names(seed: int, count: int) -> tuple[str, ...]:
    """Return `count` different names; more names of one seed start with the same ones."""
    names: list[str] = []
    for name in _candidates(seed):
        if len(names) == count:
            break
        if name not in REAL_WORDS and all(_differ(name, other.lower()) for other in names):
            names.append(name.capitalize())
    return tuple(names)


def _candidates(seed: int) -> Iterator[str]:
    """Yield names without a letter twice: 10 * 9 * 8 * 4 * 3 * 2 = 17,280 are possible."""
    # A string as seed is hashed by SHA-512, so that it gives the same numbers in every version.
    rng = random.Random(f"cluedo names {seed}")
    while True:
        consonants, vowels = rng.sample(CONSONANTS, LENGTH // 2), rng.sample(VOWELS, LENGTH // 2)
        yield "".join(c + v for c, v in zip(consonants, vowels, strict=True))


def _differ(one: str, other: str) -> bool:
    return sum(a != b for a, b in zip(one, other, strict=True)) >= MIN_DIFFERENCE


# The board


Place = int | str
"""The name of a room, or the number of a corridor square of the board."""

COLUMNS = 24
ROWS = 25

# Letters are rooms, '.' is a corridor square, '#' is not a square; digits are the start squares of
# the suspects in turn order (1 Scarlett, 2 Mustard, 3 White, 4 Green, 5 Peacock, 6 Plum).
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
    """Return the number of a square; rows and columns count from 0."""
    return row * COLUMNS + column


def bits(squares: Iterable[int]) -> int:
    """Return the set of these square numbers."""
    # A sum equals the union as long as no number occurs twice.
    return sum(1 << number for number in squares)


def _squares_of(characters: str) -> int:
    """Return the set of the squares that are marked by one of the characters."""
    return bits(
        square(row, column)
        for row, line in enumerate(MAP)
        for column, character in enumerate(line)
        if character in characters
    )


# The corridor, start squares included.
WALKABLE = _squares_of(".123456")
CORRIDOR = tuple(n for n in range(ROWS * COLUMNS) if WALKABLE >> n & 1)
# Square number of each suspect's start, in turn order.
STARTS = tuple(_squares_of(str(number)).bit_length() - 1 for number in range(1, 7))
START_SQUARES = bits(STARTS)
# Per room, the set of the corridor squares outside its doors.
OUTSIDE = {room: bits(square(*door) for door in doors) for room, doors in DOORS.items()}
DOORSTEPS: dict[int | str, str] = {
    square(*door): room for room, doors in DOORS.items() for door in doors
}
"""The room behind each square outside a door."""
# A step east must not wrap into the next row, and a step west not into the previous row.
_NOT_FIRST_COLUMN = bits(n for n in range(ROWS * COLUMNS) if n % COLUMNS != 0)
_NOT_LAST_COLUMN = bits(n for n in range(ROWS * COLUMNS) if n % COLUMNS != COLUMNS - 1)


def neighbours(squares: int) -> int:
    """Return the squares one step from any of `squares`, diagonals excluded."""
    return (
        (squares & _NOT_LAST_COLUMN) << 1
        | (squares & _NOT_FIRST_COLUMN) >> 1
        | squares << COLUMNS
        | squares >> COLUMNS
    )


AROUND = {origin: neighbours(1 << origin) & WALKABLE for origin in CORRIDOR}
"""The corridor squares beside each corridor square."""


@dataclass(frozen=True, slots=True)
class Walk:
    """End of a walk: the room, or a corridor square (None if the pawn does not move)."""

    enters: bool
    square: int | None = None


def _layers(start: int, free: int) -> Iterator[int]:
    """Yield `start`, then the sets of squares first reached after 1, 2, 3, … steps."""
    frontier = reached = start
    while frontier:
        # `frontier` holds the squares at this distance; `reached` those at this or a smaller one.
        yield frontier
        frontier = neighbours(frontier) & free & ~reached
        reached |= frontier


def _throw_layers(origin: int | str, steps: int, free: int) -> tuple[list[int], int]:
    """Return the layers within a throw, and the number of those with a step to spare.

    The step from the square outside a door into the room costs one more, so the last layer, which
    needs the whole throw, does not lead into a room.
    """
    if isinstance(origin, str):
        # From a room, layer 0 is the square outside a door and has cost one step: `steps` layers.
        return list(islice(_layers(OUTSIDE[origin] & free, free), steps)), steps - 1
    # From a square, layer 0 is the square itself and costs nothing: `steps + 1` layers.
    return list(islice(_layers(1 << origin, free | 1 << origin), steps + 1)), steps


def reach(origin: int | str, steps: int, occupied: int) -> list[int]:
    """Return the corridor squares on which a walk of at most `steps` may end."""
    layers, _ = _throw_layers(origin, steps, WALKABLE & ~occupied)
    return [n for n in CORRIDOR if n != origin and any(layer >> n & 1 for layer in layers)]


@lru_cache(maxsize=1 << 15)
def walk(origin: int | str, room: str, steps: int, occupied: int) -> Walk:
    """Return the end of a walk from a square (number) or a room (name) to `room`.

    The pawn enters if the throw `steps` reaches the square outside a door with a step to spare (a
    throw need not be exact). Otherwise it goes to the reachable square that is nearest to a door;
    ties are broken by the fewest steps, then by the lowest number. Squares in `occupied` block the
    way, those outside doors included. A pawn that leaves a room spends its first step on the square
    outside a door.
    """
    # A pawn may neither enter nor cross a square with another pawn.
    free = WALKABLE & ~occupied
    target = OUTSIDE[room] & free
    layers, last = _throw_layers(origin, steps, free)
    if any(layer & target for layer in layers[:last]):
        return Walk(enters=True)
    # Rings of increasing distance from the doors; within a ring, layers of increasing steps.
    # `target` is not used here: a door that a pawn blocks is still worth going to.
    for ring in _layers(OUTSIDE[room] & WALKABLE, free):
        for layer in layers:
            nearest = layer & ring & free
            if nearest:
                # x & -x is the lowest set bit, so the square with the lowest number.
                return Walk(enters=False, square=(nearest & -nearest).bit_length() - 1)
    # Every way is blocked, so the pawn stays where it is.
    return Walk(enters=False)


@lru_cache(maxsize=1 << 12)
def steps_to(origin: int | str, room: str) -> int:
    """Return the steps from a square or out of a room into `room`, on an empty board."""
    start = OUTSIDE[origin] if isinstance(origin, str) else 1 << origin
    # One step into the room, and one more out of the room of departure.
    layers = enumerate(_layers(start, WALKABLE), start=1 + isinstance(origin, str))
    return next(steps for steps, layer in layers if layer & OUTSIDE[room])


def can_step_away(place: int | str, occupied: int) -> bool:
    """Return whether a pawn on a square or in a room can take a step, into a room included."""
    if isinstance(place, str):
        return bool(OUTSIDE[place] & WALKABLE & ~occupied)
    # A door, or a free square beside it: a room has place for any number of pawns.
    return place in DOORSTEPS or bool(AROUND[place] & ~occupied)
