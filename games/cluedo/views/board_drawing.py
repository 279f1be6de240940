"""The board of Cluedo in a terminal: rooms with their names, doors, and pawns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from arena import Ink, Panel
from games.cluedo.rules import board
from games.cluedo.rules.events import Place

# All colours are fixed and lie on backgrounds of their own, so they do not depend on the theme.
PAWN_COLOURS = ("#d32f2f", "#f9d423", "#ffffff", "#2e9e44", "#2f6fe0", "#a238b5")
"""Scarlett, Mustard, White, Green, Peacock, Plum: the order of the deck."""
PAWN_STYLES = tuple(
    f"bold {text} on {colour}"
    for text, colour in zip(
        ("white", "black", "black", "white", "white", "white"), PAWN_COLOURS, strict=True
    )
)
ROOM_COLOUR, CORRIDOR_COLOUR, NO_COLOUR = "#5b5346", "#d9cba3", "#1e2a2a"
DOOR_COLOUR, NAME_COLOUR = "#e07b1a", "#fff6dc"
_COLOURS = {"#": NO_COLOUR, **dict.fromkeys(".123456", CORRIDOR_COLOUR)}
SHORT_NAMES = {
    "Billiard Room": ("Billiard", "Billd."),
    "Conservatory": ("Consv.",),
    "Dining Room": ("Dining",),
    "Kitchen": ("Kitch.",),
}
"""Shorter names of rooms whose names are wider than the rooms; the last ones have 6 letters."""


@dataclass(frozen=True, slots=True)
class RoomLayout:
    """Squares of a room by their use in the picture."""

    name_row: int
    """Even number of the upper of the two rows on which the name is written."""
    first: int
    """First column of the name's line."""
    width: int
    """Squares of the name's line."""
    spots: tuple[tuple[int, int], ...]
    """Row and column of the squares for pawns, in the order of use: away from name and walls."""


def board_panel(places: Mapping[str, Place]) -> Panel:
    """Return the board with the pawns; without colours, the places in words.

    Args:
        places: The place of each pawn, in the order of the deck.
    """
    words = tuple(
        f"{suspect.split()[-1]:<9}{place if isinstance(place, str) else _coordinates(place)}"[
            : board.COLUMNS + 1
        ]
        for suspect, place in places.items()
    )
    return Panel("", lines=("Places of the pawns", *words), drawing=tuple(_drawing(places)))


def _drawing(places: Mapping[str, Place]) -> Iterator[tuple[Ink, ...]]:
    """Yield the lines of the board: one line for two rows, half a character per square."""
    colours, names = _square_colours(places), dict(_names())
    for row in range(0, board.ROWS, 2):
        line = []
        for column in range(board.COLUMNS):
            letter = names.get((row, column))
            if letter:
                line.append(Ink(letter, f"bold {NAME_COLOUR} on {ROOM_COLOUR}"))
            else:
                line.append(Ink("▀", f"{colours[row][column]} on {colours[row + 1][column]}"))
        yield tuple(line)


def _square_colours(places: Mapping[str, Place]) -> list[list[str]]:
    """Return the colour of each square."""
    colours = [[_COLOURS.get(square, ROOM_COLOUR) for square in line] for line in board.MAP]
    for doors in board.DOORS.values():
        for row, column in doors:
            colours[row][column] = DOOR_COLOUR
    pawns_in_room: dict[str, int] = {}
    for place, colour in zip(places.values(), PAWN_COLOURS, strict=True):
        # A room can have several pawns, each on a square of its own; a corridor square has one.
        if isinstance(place, str):
            pawns_in_room[place] = pawns_in_room.get(place, 0) + 1
            row, column = _room_layout(place).spots[pawns_in_room[place] - 1]
        else:
            row, column = divmod(place, board.COLUMNS)
        colours[row][column] = colour
    # A line of text shows two rows, and the board has an odd number of them.
    colours.append([NO_COLOUR] * board.COLUMNS)
    return colours


def _coordinates(square: int) -> str:
    row, column = divmod(square, board.COLUMNS)
    return f"row {row + 1} col {column + 1}"


def _names() -> Iterator[tuple[tuple[int, int], str]]:
    """Yield row, column and character of the names of all rooms."""
    for room in board.LETTERS:
        layout = _room_layout(room)
        name = next(n for n in (room, *SHORT_NAMES.get(room, ())) if len(n) <= layout.width)
        start = layout.first + (layout.width - len(name)) // 2
        for column, character in enumerate(name, start):
            yield (layout.name_row, column), character


@cache
def _room_layout(room: str) -> RoomLayout:
    """Return the line for the name of a room, the widest one, and the squares for its pawns."""
    letter = board.LETTERS[room]
    squares = {
        (row, column)
        for row, line in enumerate(board.MAP)
        for column, character in enumerate(line)
        if character == letter
    }
    # A line of text covers two rows; only columns that belong to the room in both can be used.
    lines: dict[int, list[int]] = {}
    for row, column in sorted(squares):
        if row % 2 == 0 and (row + 1, column) in squares:
            lines.setdefault(row, []).append(column)
    # `max` returns the first of equal ones: the name is near the upper wall.
    name_row = max(lines, key=lambda row: len(lines[row]))
    free = sorted(square for square in squares if square[0] // 2 * 2 != name_row)
    rows = sorted({row for row, _ in free})
    middle = rows[len(rows) // 2]
    # Every second square of a middle row, away from the walls, so that pawns stay apart.
    apart = [square for square in free if square[0] == middle][1:-1:2]
    spots = (*apart, *(square for square in free if square not in apart))
    return RoomLayout(name_row, min(lines[name_row]), len(lines[name_row]), spots)
