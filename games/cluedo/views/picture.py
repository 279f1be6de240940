"""Picture of Cluedo for a terminal with colours: the card grid and, beside it, the board.

The board shows the rooms with their names, doors and pawns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from arena import Event, Picture
from games.cluedo.rules import board
from games.cluedo.rules.events import PawnMoved, Place, SuspectChosen
from games.cluedo.rules.setting import CluedoSetting
from games.cluedo.views.view import Marks

HAS, LACKS, OPEN = "●", "–", "·"
SEEN = "Seen so far"
"""Title of the marks. Deductions from them are shown elsewhere."""
LEGEND = {
    f"{HAS} {LACKS} {OPEN}": "has it, has it not, unknown",
    "★ ▸": "in the envelope (E), just suggested",
}
DOORS_AND_PAWNS = "orange squares: doors; pawns: in the colours of the first letters"


def draw(game: CluedoSetting, events: Sequence[Event], seat: int | None) -> Picture:
    """Return the card grid in two blocks; with a board, the board is at its left.

    Args:
        game: The game that is drawn.
        events: The events that the viewer has witnessed.
        seat: The viewer; None if everything is open.
    """
    marks = Marks(game, events)
    layout = Table.grid(padding=(0, 1 if game.has_board else 2))
    columns: list[RenderableType] = []
    if game.has_board:
        columns.append(BoardPicture(game, events))
    left = _block(game, marks, seat, SEEN, game.deck.suspects, game.deck.weapons)
    columns += [left, _block(game, marks, seat, "", game.deck.rooms, ())]
    layout.add_row(*columns)
    rows = max(len(game.deck.suspects) + len(game.deck.weapons) + 1, len(game.deck.rooms)) + 1
    height = max(rows, 13 if game.has_board else 0)
    return Picture(layout, height, dict.fromkeys(marks.out, "out"), _legend(game, events, seat))


def _legend(game: CluedoSetting, events: Sequence[Event], seat: int | None) -> dict[str, str]:
    """Return the signs; on the board also doors, pawns and the viewer's own pawn."""
    if not game.has_board:
        return LEGEND
    own = ""
    if seat is not None and not game.options.choose_suspects:
        own = game.deck.suspects[seat]
    for event in events:
        if isinstance(event, SuspectChosen) and event.player == seat:
            own = event.suspect
    return {**LEGEND, "▪": DOORS_AND_PAWNS + (f"; own: {own.split()[-1]}" if own else "")}


def _block(
    game: CluedoSetting,
    marks: Marks,
    seat: int | None,
    title: str,
    first: Sequence[str],
    second: Sequence[str],
) -> RenderableType:
    """Return one block of the grid: one row per card, one column per holder.

    The viewer's own column has a highlighted heading.
    """
    holders = range(game.num_players + 1)
    # Beside the board, 54 of 80 columns remain for two blocks of names and marks.
    width = 24 - 2 * game.num_players if game.has_board else 15
    pawns = dict(zip(game.deck.suspects, PAWN_STYLES, strict=False)) if game.has_board else {}
    # One text instead of a table: a table would pad each mark, and two blocks must fit.
    text = Text(no_wrap=True)
    text.append(f" {title:<{width}}", style="dim italic")
    for holder in holders[:-1]:
        text.append(" ")
        text.append(f"{holder}", style="bold reverse" if holder == seat else "bold")
    text.append(" E", style="bold")
    for cards in (first, second):
        for card in cards:
            text.append("\n▸" if card in marks.suggestion else "\n ", style="bold magenta")
            name = _short(card, width, card in game.deck.suspects)
            # Only the first letter has the pawn's colour, on a background of its own: whole names
            # in yellow or white would be illegible on a light terminal.
            text.append(name[:1], style=pawns.get(card, ""))
            text.append(f"{name[1:]:<{width - 1}}")
            for holder in holders:
                text.append(" ")
                text.append(*_mark(marks, card, holder, holder == game.num_players))
        if cards is first and second:
            text.append("\n")
    return text


def _mark(marks: Marks, card: str, holder: int, envelope: bool) -> tuple[str, str]:
    """Return the sign of the grid and its style."""
    sign = marks.sign(card, holder)
    if sign == "X":
        return ("★", "bold red") if envelope else (HAS, "bold green")
    return (LACKS if sign == "-" else OPEN, "dim")


def _short(card: str, width: int, suspect: bool) -> str:
    """Return the name, shortened if it is too long: C. Mustard, Billiard R."""
    first, _, last = card.partition(" ")
    if len(card) <= width or not last:
        return card[:width]
    return (f"{first[0]}. {last}" if suspect else f"{first} {last[0]}.")[:width]


# The board


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
WIDE = 104
"""Columns of a terminal in which each square is two characters wide."""
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


class BoardPicture:
    """The board, one square per half character; without colours, the places in words."""

    def __init__(self, game: CluedoSetting, events: Sequence[Event]) -> None:
        self.places: dict[str, Place] = dict(zip(game.deck.suspects, board.STARTS, strict=True))
        for event in events:
            if isinstance(event, PawnMoved):
                self.places[event.suspect] = event.place

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = console.no_color or console.color_system is None
        scale = 2 if options.max_width >= 2 * board.COLUMNS else 1
        yield self._in_words() if plain else self._in_colours(scale)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        plain = console.no_color or console.color_system is None
        width = board.COLUMNS * (2 if console.width >= WIDE and not plain else 1)
        return Measurement(width, width)

    def _in_words(self) -> Text:
        """Return one line per pawn."""
        text = Text("Places of the pawns", style="bold", no_wrap=True)
        for suspect, place in self.places.items():
            where = place if isinstance(place, str) else _coordinates(place)
            text.append(f"\n{suspect.split()[-1]:<9}{where}"[: board.COLUMNS + 1], style="not bold")
        return text

    def _in_colours(self, scale: int) -> Text:
        """Return the board with two rows of squares in one line of text.

        `scale` is the number of characters per square.
        """
        colours, names = self._squares(), dict(_names(scale))
        text = Text(no_wrap=True)
        for row in range(0, board.ROWS, 2):
            for place in range(scale * board.COLUMNS):
                column = place // scale
                letter = names.get((row, place))
                if letter:
                    text.append(letter, style=f"bold {NAME_COLOUR} on {ROOM_COLOUR}")
                else:
                    text.append("▀", style=f"{colours[row][column]} on {colours[row + 1][column]}")
            text.append("\n")
        text.rstrip()
        return text

    def _squares(self) -> list[list[str]]:
        """Return the colour of each square."""
        colours = [[_COLOURS.get(square, ROOM_COLOUR) for square in line] for line in board.MAP]
        for doors in board.DOORS.values():
            for row, column in doors:
                colours[row][column] = DOOR_COLOUR
        pawns_in_room: dict[str, int] = {}
        for (_, place), colour in zip(self.places.items(), PAWN_COLOURS, strict=True):
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


def _names(scale: int) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield row, place in the line, and character of the names of all rooms."""
    for room in board.LETTERS:
        layout = _room_layout(room)
        width = scale * layout.width
        name = next(n for n in (room, *SHORT_NAMES.get(room, ())) if len(n) <= width)
        start = scale * layout.first + (width - len(name)) // 2
        for place, character in enumerate(name, start):
            yield (layout.name_row, place), character


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
