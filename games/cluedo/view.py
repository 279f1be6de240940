"""The table of Cluedo, as one viewer has seen it: for a terminal, and for a page as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from arena import Event, Ink, Panel, Tabletop
from arena.core.observation import NotesView
from arena.core.text import pluralize
from games.cluedo.facts import Facts
from games.cluedo.rules import board
from games.cluedo.rules.events import DiceThrown, Move, Place
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
    lines = ["Places of the pawns"]
    for suspect, place in places.items():
        square = divmod(place, board.COLUMNS) if isinstance(place, int) else None
        at = f"row {square[0] + 1} col {square[1] + 1}" if square else place
        lines.append(f"{suspect.split()[-1]:<9}{at}"[: board.COLUMNS + 1])
    return Panel("", lines=tuple(lines), drawing=tuple(_drawing(places)))


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


PROMPTS: dict[str, JsonValue] = {
    "move": "Click a room to go there; the throw reaches the bright squares and rooms.",
    "suggest": "Click a suspect, a weapon and a room.",
    "accuse": "Click a suspect, a weapon and a room.",
    "show": "Click the card that you show.",
}


class CluedoView(NotesView):
    """The table: the card grid in two blocks; with a board, the board is at its left.

    On a page it is drawn by a module of its own, as the board or as a table with the visible cards
    of each hand. Squares of the board are numbered row by row; rooms are names.
    """

    module: ClassVar[Path] = Path(__file__).with_name("scene.js")

    game: CluedoSetting
    notes: Facts
    notes_type = Facts

    _has_thrown = False
    """The dice were thrown, and the pawn has not been moved."""

    def update(self, event: Event) -> None:
        super().update(event)
        self._has_thrown = isinstance(event, DiceThrown)

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        deck, places, signs = self.game.deck, self.notes.places, self.notes.signs()
        panels = [
            *([board_panel(places)] if places else []),
            self._block(SEEN, signs, (*deck.suspects, "", *deck.weapons)),
            self._block("", signs, deck.rooms),
        ]
        grid, out = "\n".join(self._grid(signs)), dict.fromkeys(self.notes.seats_out, "out")
        return Tabletop(tuple(panels), "", True, grid, seat_notes=out, legend=self._legend())

    def to_json(self) -> dict[str, JsonValue]:
        """Return the table now, for the page; `dice`, `pawns` and `weapons` only with a board.

        - `marks`: a string per card of `deck` with a sign per seat and for the envelope, see
          `Facts.signs`; `sizes`: cards in each hand.
        - `suggestion`: that of this turn. `unable`: seats that have none of the three cards, in the
          order asked; `refuter`: the seat that shows a card, or will show one next; `shown`: the
          card, if the viewer saw it.
        - `accusation`: the latest one, until another action follows.
        - `reach`: squares and rooms that the throw reaches; `asks`: the moves to other rooms, with
          a warning; both only before the pawn is moved.
        - `prompts`: what a person clicks for each kind of action.
        - `weapons`: the room of each weapon that was moved; the others lie beside the board.
        """
        facts, game = self.notes, self.game
        scene: dict[str, JsonValue] = {
            "deck": [[*cards] for cards in game.deck.categories],
            "marks": [*facts.signs().values()],
            "sizes": [*facts.hand_sizes],
            "open": [*facts.open_cards],
            "out": [*facts.seats_out],
            "turn": facts.turn,
            "player": facts.in_turn if facts.turn else None,
            "suggestion": self._suggestion(),
            "accusation": self._accusation(),
            "prompts": PROMPTS,
        }
        if game.has_board and self._has_thrown:
            scene |= self._reach()
        if game.has_board:
            scene["dice"] = [*facts.dice] if any(facts.dice) else None
            scene["pawns"] = [*facts.places.values()]
            weapons, rooms = game.deck.weapons, ("", *game.deck.rooms)
            moved = zip(weapons, facts.bytes_of("weapons"), strict=True)
            scene["weapons"] = {weapon: rooms[number] for weapon, number in moved if number}
        return scene

    def _reach(self) -> dict[str, JsonValue]:
        """Return where the pawn in turn can go, and a warning for each room that is too far."""
        facts, steps = self.notes, sum(self.notes.dice)
        suspect = self.game.deck.suspects[facts.in_turn]
        origin = facts.places[suspect]
        others = [place for other, place in facts.places.items() if other != suspect]
        occupied = board.bits(place for place in others if isinstance(place, int))
        walks = {room: board.walk(origin, room, steps, occupied) for room in self.game.deck.rooms}
        rooms = [room for room, walk in walks.items() if walk.enters and room != origin]
        asks: dict[str, JsonValue] = {}
        for room, walk in walks.items():
            if not walk.enters and room != origin:
                place = origin if walk.square is None else walk.square
                left = pluralize(board.steps_to(place, room), "step")
                asks[str(Move(room))] = f"The throw does not reach the {room}: {left} are missing."
        squares: list[JsonValue] = [*board.reach(origin, steps, occupied)]
        return {"reach": {"squares": squares, "rooms": [*rooms]}, "asks": asks}

    def _suggestion(self) -> JsonValue:
        facts = self.notes
        if facts.suggestion is None or facts.suggestion_turn < facts.turn:
            return None
        return {
            "player": facts.suggestion.player,
            "cards": [*facts.suggestion.triple],
            "unable": [*facts.unable],
            "refuter": facts.refuter,
            "shown": facts.card,
        }

    def _accusation(self) -> JsonValue:
        if self.notes.accusation is None:
            return None
        turn, event = self.notes.accusation
        return {
            "player": event.player,
            "cards": [*event.triple],
            "correct": event.correct,
            "turn": turn,
        }

    def _grid(self, signs: Mapping[str, str]) -> Iterator[str]:
        """Yield the card grid: X has the card, - does not have it, . unknown."""
        width, seats = max(map(len, signs)), range(self.game.num_players)
        yield " " * width + "".join(f"  P{seat}" for seat in seats) + "  envelope"
        for card, holders in signs.items():
            yield f"{card:<{width}}   " + "   ".join(holders)

    def _legend(self) -> dict[str, str]:
        """Return the signs; on the board also doors, pawns and the viewer's own pawn."""
        if not self.game.has_board:
            return LEGEND
        own = "" if self.seat is None else f"; own: {self.notes.pawn.split()[-1]}"
        return {**LEGEND, "▪": DOORS_AND_PAWNS + own}

    def _block(self, title: str, signs: Mapping[str, str], cards: Iterable[str]) -> Panel:
        """Return one block of the grid: a row per card, "" for an empty one, a column per holder.

        The viewer's own column has a highlighted heading.
        """
        seats = range(self.game.num_players)
        # Beside the board, 54 of 80 columns remain for two blocks of names and marks.
        width = 24 - 2 * len(seats) if self.game.has_board else 15
        heading = [Ink(f" {title:<{width}}", "dim italic")]
        for seat in seats:
            style = "bold reverse" if seat == self.seat else "bold"
            heading += [Ink(" "), Ink(f"{seat + 1}", style)]
        rows = (self._row(card, signs[card], width) if card else () for card in cards)
        lines = ((*heading, Ink(" E", "bold")), *rows)
        text = tuple("".join(ink.text for ink in line) for line in lines)
        return Panel("", lines=text, fixed_width=True, drawing=lines)

    def _row(self, card: str, signs: str, width: int) -> tuple[Ink, ...]:
        game, asked = self.game, self.notes.suggestion
        pawns = dict(zip(game.deck.suspects, PAWN_STYLES, strict=False)) if game.has_board else {}
        name = _short(card, width, card in game.deck.suspects)
        # Only the first letter has the pawn's colour, on a background of its own: whole names in
        # yellow or white would be illegible on a light terminal.
        row = [
            Ink("▸" if asked and card in asked.triple else " ", "bold magenta"),
            Ink(name[:1], pawns.get(card, "")),
            Ink(f"{name[1:]:<{width - 1}}"),
        ]
        for sign in signs[:-1]:
            row += [Ink(" "), _MARKS.get(sign) or Ink(HAS, "bold green")]
        return (*row, Ink(" "), _MARKS.get(signs[-1]) or Ink("★", "bold red"))


_MARKS = {"-": Ink(LACKS, "dim"), ".": Ink(OPEN, "dim")}


def _short(card: str, width: int, suspect: bool) -> str:
    """Return the name, shortened if it is too long: C. Mustard, Billiard R."""
    first, _, last = card.partition(" ")
    if len(card) <= width or not last:
        return card[:width]
    return (f"{first[0]}. {last}" if suspect else f"{first} {last[0]}.")[:width]
