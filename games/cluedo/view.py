"""What people see of Cluedo: the table, for a terminal and for a page, and the explanation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from arena import Event, FirstGame, Ink, Panel, PlayGuide, Tabletop
from arena.core.observation import NotesView
from arena.core.text import pluralize
from games.cluedo.facts import Facts
from games.cluedo.rules import board
from games.cluedo.rules.board import Place
from games.cluedo.rules.setting import CluedoSetting, DiceThrown, Move

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
NAMES = {
    "Kitchen": (20, 18, "Kitch."),
    "Ballroom": (18, 8, "Ballroom"),
    "Conservatory": (20, 0, "Consv."),
    "Billiard Room": (12, 0, "Billd."),
    "Library": (8, 0, "Library"),
    "Study": (2, 1, "Study"),
    "Hall": (0, 10, "Hall"),
    "Lounge": (2, 17, "Lounge"),
    "Dining Room": (10, 17, "Dining"),
}
"""Row, first column and text of the name of each room, on the widest line of the room. A line of
text covers the row, which is even, and the next one."""


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
    colours = _square_colours(places)
    names = {
        (row, column): letter
        for row, first, name in NAMES.values()
        for column, letter in enumerate(name, first)
    }
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
            row, column = _spots(place)[pawns_in_room[place] - 1]
        else:
            row, column = divmod(place, board.COLUMNS)
        colours[row][column] = colour
    # A line of text shows two rows, and the board has an odd number of them.
    colours.append([NO_COLOUR] * board.COLUMNS)
    return colours


def _spots(room: str) -> list[tuple[int, int]]:
    """Return the squares of a room for its pawns: away from the name, and not side by side."""
    squares = [
        (row, column)
        for row, line in enumerate(board.MAP)
        for column, character in enumerate(line)
        if character == board.LETTERS[room] and row // 2 * 2 != NAMES[room][0]
    ]
    return squares[1::2]


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


# Explanation for people


FIRST_GAME = FirstGame(
    {"variant": "cards", "players": 3, "suspects": 3, "weapons": 3, "rooms": 4},
    (
        (
            "suggest",
            "Choose a suspect, a weapon and a room on the table, then confirm. You look for the "
            "three cards in the envelope, so ask for cards that you do not hold.",
        ),
        (
            "end",
            "Look at what happened. Whoever could not show a card has none of the three. A card "
            "that was shown to you is not in the envelope. Mark both in “My sheet”: one press "
            "is ✓, two are ✗. Then end your turn.",
        ),
        (
            "show",
            "You hold a card that was asked for, so you must show one. Only the player who asked "
            "sees it. Showing the same card again tells the others least.",
        ),
        (
            "suggest",
            "If you name one of your own cards, the answer is about the other two only. That is "
            "how to test a single card.",
        ),
        (
            "accuse",
            "“Check my sheet” compares your marks with all that follows from what you saw. When "
            "one suspect, one weapon and one room are left, accuse. A false accusation loses.",
        ),
    ),
)


def play_guide(game: CluedoSetting) -> PlayGuide:
    """Return the explanation of the game for people."""
    way = "suggest a suspect, a weapon and a room"
    if game.has_board:
        way = (
            "throw the dice and move towards a room. In a room, suggest a suspect and a weapon "
            "there"
        )
    answers = (
        "The others are asked in order from your left: the first who has one of the three "
        "cards shows you one, which only you see. Whoever is passed over has none of them."
    )
    return PlayGuide(
        goal="Find out who did it, with what and where: the three cards in the envelope.",
        turn=f"In your turn, {way}. {answers}",
        end=(
            "When you know all three cards, accuse. A right accusation wins at once. After a "
            "false one you only show cards."
        ),
        example=(
            "You suggest Mrs White, Rope, Hall, and no player can show a card. You hold the "
            "Rope: so Mrs White and the Hall are in the envelope, and only the weapon is open."
        ),
        first_game=FIRST_GAME,
    )
