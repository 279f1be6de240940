"""The table of Cluedo, as one viewer has seen it: the card grid and, beside it, the board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from arena import Event, Ink, Panel, Tabletop
from games.cluedo.rules import board
from games.cluedo.rules.events import (
    Accused,
    CardShown,
    Dealt,
    EnvelopeSeen,
    HandDealt,
    PawnMoved,
    Place,
    Suggested,
    Unable,
)
from games.cluedo.rules.setting import CluedoSetting

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


HAS, LACKS, OPEN = "●", "–", "·"
SEEN = "Seen so far"
"""Title of the marks. Deductions from them are shown elsewhere."""
LEGEND = {
    f"{HAS} {LACKS} {OPEN}": "has it, has it not, unknown",
    "★ ▸": "in the envelope (E), just suggested",
}
DOORS_AND_PAWNS = "orange squares: doors; pawns: in the colours of the first letters"


class Marks:
    """Marks of each card and holder, from the events that one viewer has witnessed.

    Holders are numbered like seats; the envelope has the next number. Marks show what was seen and
    the simplest consequences, not everything that follows.
    """

    def __init__(self, game: CluedoSetting) -> None:
        self.cards = game.deck.cards
        self.envelope = game.num_players
        self.has: set[tuple[str, int]] = set()
        self.lacks: set[tuple[str, int]] = set()
        self.open_cards: Sequence[str] = ()
        self.out: set[int] = set()
        """Seats with a false accusation."""
        self.suggestion: Sequence[str] = ()

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        match event:
            case Dealt(open_cards=cards):
                self.open_cards = cards
                self._lack(cards, range(self.envelope + 1))
            case HandDealt(player, cards):
                self._place(cards, player)
                # A viewer that sees a hand sees all of it.
                self._lack([card for card in self.cards if card not in cards], [player])
            case CardShown(player, card=card):
                self._place((card,), player)
            case Suggested():
                self.suggestion = event.triple
            case Unable(players):
                self._lack(self.suggestion, players)
            case EnvelopeSeen(envelope=cards):
                self._place(cards, self.envelope)
            case Accused(player, correct=False):
                self.out.add(player)
            case Accused(correct=True):
                self._place(event.triple, self.envelope)
            case _:
                pass

    def _lack(self, cards: Sequence[str], holders: Sequence[int]) -> None:
        """Mark cards as missing from holders."""
        self.lacks.update((card, holder) for card in cards for holder in holders)

    def _place(self, cards: Sequence[str], holder: int) -> None:
        """Place cards with a holder, and so with no other.

        If all but three cards are placed, those three are the envelope.
        """
        self.has.update((card, holder) for card in cards)
        self._lack(cards, [other for other in range(self.envelope + 1) if other != holder])
        # Open cards have no holder, but they are not in the envelope either.
        placed = {card for card, _ in self.has}.union(self.open_cards)
        if len(placed) == len(self.cards) - 3 and not self.held_by(self.envelope):
            self._place([card for card in self.cards if card not in placed], self.envelope)

    def held_by(self, holder: int) -> list[str]:
        """Return the cards that this holder visibly has, in deck order."""
        return [card for card in self.cards if (card, holder) in self.has]

    def sign(self, card: str, holder: int) -> str:
        """Return X if the holder has the card, - if not, a dot if it is unknown."""
        if (card, holder) in self.has:
            return "X"
        return "-" if (card, holder) in self.lacks else "."


class CluedoView:
    """The card grid in two blocks; with a board, the board is at its left.

    Args:
        game: The game that is drawn.
        seat: The viewer; None if everything is open.
    """

    def __init__(self, game: CluedoSetting, seat: int | None) -> None:
        self._game, self._seat = game, seat
        self._marks = Marks(game)
        self._places = dict(game.start_places)
        self._own_pawn = ""
        if seat is not None and game.has_board:
            self._own_pawn = game.deck.suspects[seat]

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        self._marks.update(event)
        if isinstance(event, PawnMoved):
            self._places[event.suspect] = event.place

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        deck, board = self._game.deck, self._places
        panels = [
            *([board_panel(board)] if board else []),
            self._block(SEEN, deck.suspects, deck.weapons),
            self._block("", deck.rooms, ()),
        ]
        out = dict.fromkeys(self._marks.out, "out")
        return Tabletop(
            tuple(panels), "", True, "\n".join(self._grid()), seat_notes=out, legend=self._legend()
        )

    def _grid(self) -> Iterator[str]:
        """Yield the card grid: X has the card, - does not have it, . unknown."""
        cards, players = self._game.deck.cards, self._game.num_players
        width = max(map(len, cards))
        yield " " * width + "".join(f"  P{seat}" for seat in range(players)) + "  envelope"
        for card in cards:
            signs = [self._marks.sign(card, holder) for holder in range(players + 1)]
            yield f"{card:<{width}}   " + "   ".join(signs)

    def _legend(self) -> dict[str, str]:
        """Return the signs; on the board also doors, pawns and the viewer's own pawn."""
        if not self._game.has_board:
            return LEGEND
        own = f"; own: {self._own_pawn.split()[-1]}" if self._own_pawn else ""
        return {**LEGEND, "▪": DOORS_AND_PAWNS + own}

    def _block(self, title: str, first: Sequence[str], second: Sequence[str]) -> Panel:
        """Return one block of the grid: one row per card, one column per holder.

        The viewer's own column has a highlighted heading.
        """
        game = self._game
        # Beside the board, 54 of 80 columns remain for two blocks of names and marks.
        width = 24 - 2 * game.num_players if game.has_board else 15
        heading = [Ink(f" {title:<{width}}", "dim italic")]
        for seat in range(game.num_players):
            heading += [Ink(" "), Ink(f"{seat}", "bold reverse" if seat == self._seat else "bold")]
        lines = [(*heading, Ink(" E", "bold"))]
        lines += [self._row(card, width) for card in first]
        if second:
            lines += [(), *(self._row(card, width) for card in second)]
        text = tuple("".join(ink.text for ink in line) for line in lines)
        return Panel("", lines=text, fixed_width=True, drawing=tuple(lines))

    def _row(self, card: str, width: int) -> tuple[Ink, ...]:
        game, marks = self._game, self._marks
        pawns = dict(zip(game.deck.suspects, PAWN_STYLES, strict=False)) if game.has_board else {}
        name = _short(card, width, card in game.deck.suspects)
        # Only the first letter has the pawn's colour, on a background of its own: whole names in
        # yellow or white would be illegible on a light terminal.
        row = [
            Ink("▸" if card in marks.suggestion else " ", "bold magenta"),
            Ink(name[:1], pawns.get(card, "")),
            Ink(f"{name[1:]:<{width - 1}}"),
        ]
        for holder in range(game.num_players + 1):
            row += [Ink(" "), _mark(marks, card, holder, holder == game.num_players)]
        return tuple(row)


def _mark(marks: Marks, card: str, holder: int, envelope: bool) -> Ink:
    """Return the sign of the grid and its style."""
    sign = marks.sign(card, holder)
    if sign == "X":
        return Ink("★", "bold red") if envelope else Ink(HAS, "bold green")
    return Ink(LACKS if sign == "-" else OPEN, "dim")


def _short(card: str, width: int, suspect: bool) -> str:
    """Return the name, shortened if it is too long: C. Mustard, Billiard R."""
    first, _, last = card.partition(" ")
    if len(card) <= width or not last:
        return card[:width]
    return (f"{first[0]}. {last}" if suspect else f"{first} {last[0]}.")[:width]
