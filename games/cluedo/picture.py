"""Cluedo drawn for a terminal with colours: the card grid, and beside it the board."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from arena import Event, Picture
from games.cluedo import board
from games.cluedo.events import (
    Accused,
    CardShown,
    EnvelopeSeen,
    HandDealt,
    PawnMoved,
    Place,
    Suggested,
    Unable,
)
from games.cluedo.game import Cluedo

HAS, LACKS, OPEN = "●", "–", "·"
SUSPECT_COLOURS = ("red", "yellow", "white", "green", "blue", "magenta")
ROOM_COLOUR, CORRIDOR_COLOUR, NO_COLOUR = "#5b5346", "#d9cba3", "#1e2a2a"


class Marks:
    """What a viewer of these events has seen of each card: who has it, who lacks it."""

    def __init__(self, game: Cluedo, events: Sequence[Event]) -> None:
        self.has: set[tuple[str, int]] = set()
        self.lacks: set[tuple[str, int]] = set()
        envelope = game.num_players
        suggestion: Sequence[str] = ()
        for event in events:
            match event:
                case HandDealt(player, cards):
                    self.has.update((card, player) for card in cards)
                case CardShown(player, card=card):
                    self.has.add((card, player))
                case Suggested():
                    suggestion = event.triple
                case Unable(players):
                    self.lacks.update((card, player) for card in suggestion for player in players)
                case EnvelopeSeen(envelope=cards):
                    self.has.update((card, envelope) for card in cards)
                case Accused(correct=True):
                    self.has.update((card, envelope) for card in event.triple)
                case _:
                    pass
        self.suggestion = suggestion
        self._settle(game)

    def _settle(self, game: Cluedo) -> None:
        """A card that is somewhere is nowhere else; three unplaced ones are the envelope."""
        envelope, cards = game.num_players, game.deck.cards
        placed = {card for card, _ in self.has}
        if len(placed) == len(cards) - 3:
            self.has.update((card, envelope) for card in cards if card not in placed)
        for card, holder in tuple(self.has):
            self.lacks.update((card, other) for other in range(envelope + 1) if other != holder)


def draw(game: Cluedo, events: Sequence[Event], seat: int | None) -> Picture:
    """The card grid in two blocks; with a board, the board at its left."""
    marks = Marks(game, events)
    layout = Table.grid(padding=(0, 2))
    columns: list[RenderableType] = []
    if game.has_board:
        columns.append(_board(game, events))
    left = _block(game, marks, game.deck.suspects, game.deck.weapons)
    columns += [left, _block(game, marks, game.deck.rooms, ())]
    layout.add_row(*columns)
    rows = max(len(game.deck.suspects) + len(game.deck.weapons) + 1, len(game.deck.rooms)) + 1
    return Picture(layout, max(rows, 13 if game.has_board else 0))


def _block(
    game: Cluedo, marks: Marks, first: Sequence[str], second: Sequence[str]
) -> RenderableType:
    holders = range(game.num_players + 1)
    # Beside the board 54 of 80 columns are left for two blocks of names and marks.
    width = 23 - 2 * game.num_players if game.has_board else 15
    pawns = dict(zip(game.deck.suspects, SUSPECT_COLOURS, strict=False)) if game.has_board else {}
    text = Text(no_wrap=True)
    text.append(" " * (width + 1) + "".join(f" {h}" for h in holders[:-1]) + " E", style="bold")
    for cards in (first, second):
        for card in cards:
            text.append("\n▸" if card in marks.suggestion else "\n ", style="bold yellow")
            text.append(f"{_short(card, width):<{width}}", style=pawns.get(card, ""))
            for holder in holders:
                text.append(" ")
                text.append(*_mark(marks, card, holder, holder == game.num_players))
        if cards is first and second:
            text.append("\n")
    return text


def _mark(marks: Marks, card: str, holder: int, envelope: bool) -> tuple[str, str]:
    if (card, holder) in marks.has:
        return ("★", "bold red") if envelope else (HAS, "bold green")
    if (card, holder) in marks.lacks:
        return (LACKS, "dim")
    return (OPEN, "dim")


def _short(card: str, width: int) -> str:
    """The telling word of a name that is too long: Mustard, Billiard."""
    if len(card) <= width:
        return card
    first, _, last = card.partition(" ")
    title = first.rstrip(".") in ("Miss", "Colonel", "Mrs", "Mr", "Reverend", "Professor")
    return (last if title else first)[:width] if last else card[:width]


def _board(game: Cluedo, events: Sequence[Event]) -> RenderableType:
    """The board, a square per half character: two rows of squares in one line of text."""
    colours = [
        [
            CORRIDOR_COLOUR if c in ".123456" else NO_COLOUR if c == "#" else ROOM_COLOUR
            for c in line
        ]
        for line in board.MAP
    ]
    places: dict[str, Place] = dict(zip(game.deck.suspects, board.STARTS, strict=True))
    for event in events:
        if isinstance(event, PawnMoved):
            places[event.suspect] = event.place
    guests: dict[str, int] = {}
    for suspect, colour in zip(game.deck.suspects, SUSPECT_COLOURS, strict=True):
        place = places[suspect]
        if isinstance(place, str):
            guests[place] = guests.get(place, 0) + 1
            row, column = _spot(place, guests[place] - 1)
        else:
            row, column = divmod(place, board.COLUMNS)
        colours[row][column] = colour
    colours.append([NO_COLOUR] * board.COLUMNS)
    text = Text(no_wrap=True)
    for row in range(0, board.ROWS, 2):
        if row:
            text.append("\n")
        for upper, lower in zip(colours[row], colours[row + 1], strict=True):
            text.append("▀", style=f"{upper} on {lower}")
    return text


def _spot(room: str, number: int) -> tuple[int, int]:
    """A square inside a room for its first, second, … guest."""
    letter = board.LETTERS[room]
    squares = [
        (row, column)
        for row, line in enumerate(board.MAP)
        for column, character in enumerate(line)
        if character == letter
    ]
    rows = sorted({row for row, _ in squares})
    middle = rows[len(rows) // 2]
    inner = [square for square in squares if square[0] == middle][1:-1:2] + squares
    return inner[number]
