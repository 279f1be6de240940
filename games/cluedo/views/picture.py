"""Picture of Cluedo for a terminal with colours: the card grid and, beside it, the board."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from arena import Event, Picture
from games.cluedo.base import CluedoBase
from games.cluedo.rules import board
from games.cluedo.rules.events import PawnMoved, Place
from games.cluedo.views.marks import Marks

HAS, LACKS, OPEN = "●", "–", "·"
SEEN = "Seen so far"
"""Title of the marks. Deductions from them are shown elsewhere."""
LEGEND = {
    f"{HAS} ★ {LACKS}": "card is here, in the envelope (E), not here",
    f"{OPEN}": "unknown; the grid shows only cards that were seen or shown",
    "▸": "named in the latest suggestion",
}
SUSPECT_COLOURS = ("red", "yellow", "white", "green", "blue", "magenta")
ROOM_COLOUR, CORRIDOR_COLOUR, NO_COLOUR = "#5b5346", "#d9cba3", "#1e2a2a"
_COLOURS = {"#": NO_COLOUR, **dict.fromkeys(".123456", CORRIDOR_COLOUR)}


def draw(game: CluedoBase, events: Sequence[Event], seat: int | None) -> Picture:
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
    left = _block(game, marks, SEEN, game.deck.suspects, game.deck.weapons)
    columns += [left, _block(game, marks, "", game.deck.rooms, ())]
    layout.add_row(*columns)
    rows = max(len(game.deck.suspects) + len(game.deck.weapons) + 1, len(game.deck.rooms)) + 1
    height = max(rows, 13 if game.has_board else 0)
    return Picture(layout, height, dict.fromkeys(marks.out, "out"), LEGEND)


def _block(
    game: CluedoBase, marks: Marks, title: str, first: Sequence[str], second: Sequence[str]
) -> RenderableType:
    """Return one block of the grid: one row per card, one column per holder."""
    holders = range(game.num_players + 1)
    # Beside the board, 54 of 80 columns remain for two blocks of names and marks.
    width = 24 - 2 * game.num_players if game.has_board else 15
    pawns = dict(zip(game.deck.suspects, SUSPECT_COLOURS, strict=False)) if game.has_board else {}
    # One text instead of a table: a table would pad each mark, and two blocks must fit.
    text = Text(no_wrap=True)
    text.append(f" {title:<{width}}", style="dim italic")
    text.append("".join(f" {h}" for h in holders[:-1]) + " E", style="bold")
    for cards in (first, second):
        for card in cards:
            text.append("\n▸" if card in marks.suggestion else "\n ", style="bold yellow")
            name = _short(card, width, card in game.deck.suspects)
            text.append(f"{name:<{width}}", style=pawns.get(card, ""))
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


class BoardPicture:
    """The board, one square per half character; without colours, the places in words."""

    def __init__(self, game: CluedoBase, events: Sequence[Event]) -> None:
        self.places: dict[str, Place] = dict(zip(game.deck.suspects, board.STARTS, strict=True))
        for event in events:
            if isinstance(event, PawnMoved):
                self.places[event.suspect] = event.place

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = console.no_color or console.color_system is None
        yield self._in_words() if plain else self._in_colours()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(board.COLUMNS, board.COLUMNS)

    def _in_words(self) -> Text:
        """Return one line per pawn."""
        text = Text("Places of the pawns", style="bold", no_wrap=True)
        for suspect, place in self.places.items():
            where = place if isinstance(place, str) else _coordinates(place)
            text.append(f"\n{suspect.split()[-1]:<9}{where}"[: board.COLUMNS + 1], style="not bold")
        return text

    def _in_colours(self) -> Text:
        """Return the board with two rows of squares in one line of text."""
        colours = [[_COLOURS.get(square, ROOM_COLOUR) for square in line] for line in board.MAP]
        pawns_in_room: dict[str, int] = {}
        for (_, place), colour in zip(self.places.items(), SUSPECT_COLOURS, strict=True):
            # A room can have several pawns, each on a square of its own; a corridor square has one.
            if isinstance(place, str):
                pawns_in_room[place] = pawns_in_room.get(place, 0) + 1
                row, column = _spot(place, pawns_in_room[place] - 1)
            else:
                row, column = divmod(place, board.COLUMNS)
            colours[row][column] = colour
        # A line of text shows two rows, and the board has an odd number of them.
        colours.append([NO_COLOUR] * board.COLUMNS)
        text = Text(no_wrap=True)
        for row in range(0, board.ROWS, 2):
            for upper, lower in zip(colours[row], colours[row + 1], strict=True):
                text.append("▀", style=f"{upper} on {lower}")
            text.append("\n")
        text.rstrip()
        return text


def _coordinates(square: int) -> str:
    row, column = divmod(square, board.COLUMNS)
    return f"row {row + 1} col {column + 1}"


def _spot(room: str, number: int) -> tuple[int, int]:
    """Return row and column of a square inside a room for its first, second, … pawn."""
    letter = board.LETTERS[room]
    squares = [
        (row, column)
        for row, line in enumerate(board.MAP)
        for column, character in enumerate(line)
        if character == letter
    ]
    # Every second square of the middle row, away from the walls, so that pawns stay apart; then
    # any square.
    rows = sorted({row for row, _ in squares})
    middle = rows[len(rows) // 2]
    inner = [square for square in squares if square[0] == middle][1:-1:2] + squares
    return inner[number]
