"""Texts of Battleship and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from arena import (
    Event,
    GameText,
    Observation,
    PlayGuide,
    Squares,
    Tabletop,
    TextLevel,
    Tile,
    TileRow,
    Tone,
)
from arena.core.observation import NotesView
from arena.core.text import listed, pluralize
from arena.core.view import Look
from games.battleship.knowledge import BattleshipKnowledge, is_countable
from games.battleship.notes import BattleshipNotes
from games.battleship.rules import (
    Battleship,
    Board,
    FleetRevealed,
    ShipsPlaced,
    ShotFired,
)

ENDING = "The game ends when all ships of a player are sunk. The other player wins."


def lengths_text(lengths: Sequence[int]) -> str:
    """Return lengths of ships in words: `lengths 3, 2 and 2`."""
    noun = "length" if len(lengths) == 1 else "lengths"
    return f"{noun} {listed([str(length) for length in lengths])}"


def grid(board: Board, cell: Callable[[int], str], width: int = 1) -> Iterator[str]:
    """Yield the lines of a board; `cell` gives the text of each square."""
    heads = (str(column + 1).rjust(width) for column in range(board.width))
    yield f"  {' '.join(heads)}"
    for row in board.rows:
        yield f"{board.names[row[0]][0]} {' '.join(cell(s).rjust(width) for s in row)}"


def _boards(notes: BattleshipNotes) -> Iterator[str]:
    """Yield both boards and the ships that are left."""
    board, own, other = notes.game.board, notes.player, 1 - notes.player
    yield "Your shots (x hit, o miss, . not shot at):"
    yield from grid(board, lambda square: notes.sign(other, square))
    left, name = notes.shots.afloat, notes.game.seat_names[other]
    yield f"Ships of {name} afloat: {lengths_text(left) if left else 'none'}."
    yield "Your board (S ship, x ship hit, o miss, . water):"
    yield from grid(board, lambda square: notes.sign(own, square))


def _deductions(notes: BattleshipKnowledge) -> Iterator[str]:
    """Yield the exact chance of a ship in each square; on large boards, squares without any."""
    board = notes.game.board
    if is_countable(notes.game):
        hits, number = notes.hits(), notes.world_count()
        yield (
            "Chance of a ship in each square in per cent, over the "
            f"{pluralize(number, 'fleet')} that fit your shots (x hit, o miss):"
        )

        def cell(square: int) -> str:
            if notes.shots.shots >> square & 1:
                return notes.sign(1 - notes.player, square)
            return percent(int(hits[square]), number)

        yield from grid(board, cell, width=3)
    else:
        # On large boards the chances are not exact, but single squares may still be excluded.
        empty = (notes.shots.density() == 0).nonzero()[0]
        names = [board.names[s] for s in empty if not notes.shots.shots >> int(s) & 1]
        yield f"Certainly without a ship: {', '.join(names) or 'none'}."


def percent(part: int, total: int) -> str:
    """Return a share in per cent; only certainty is written as 0 or 100."""
    value = round(100 * part / total)
    if 0 < part < total:
        value = min(max(value, 1), 99)
    return str(value)


class BattleshipText(GameText):
    """Texts of Battleship."""

    table_shows_notes = True
    game: Battleship
    notes_type = BattleshipKnowledge

    def synonyms(self) -> Mapping[str, str]:
        return dict.fromkeys(("fire at", "fire", "attack", "shoot at"), "shoot")

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal="Sink all ships of the other player before yours are sunk.",
            turn=(
                "Shoot at a square of the other board that you have not shot at. You learn "
                "whether it is a miss or a hit, and which ship is sunk."
            ),
            end=ENDING,
            example=(
                "You hit c3. A ship covers squares in one row or column, so one of b3, c2, c4 "
                "and d3 belongs to it as well: shoot there next."
            ),
        )

    def rules(self) -> str:
        """Return the rules for a player who does not know the game."""
        options, board = self.game.options, self.game.board
        last = board.names[-1]
        ships = f"{len(options.ships)} ships of {lengths_text(options.ships)}"
        if len(options.ships) == 1:
            ships = f"one ship of length {options.ships[0]}"
        return (
            f"Battleship, two players. Each has a board of {options.height} rows, a to {last[0]} "
            f"from the top, and {options.width} columns, 1 to {last[1:]} from the left; square b3 "
            f"is row b, column 3. On it lie {ships}, hidden from the other player. A ship covers "
            "that many squares in a row or in a column. Ships may touch but must not overlap. "
            "All ships are placed at random.\n"
            "Then the players shoot in turn, Player 0 first, at one square of the other's board. "
            "The result is announced: miss or hit, or sunk with the length of the ship if all its "
            "squares are hit. You cannot shoot at a square twice.\n"
            f"{ENDING}\nYour action: shoot SQUARE. For example: shoot b3"
        )

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence."""
        names = self.game.seat_names
        match event:
            case ShipsPlaced(player, ships):
                verb = "has ships at" if len(ships) > 1 else "has a ship at"
                return f"{names[player]} {verb} {', '.join(ships)}."
            case ShotFired(player, square, result, length):
                if result == "sunk":
                    result = f"hit, a ship of length {length} is sunk"  # type: ignore[assignment]
                return f"{names[player]} shoots at {square}: {result}."
            case FleetRevealed(player, ships):
                return f"The ships of {names[player]} were at {', '.join(ships)}."
            case _:
                raise TypeError(f"{event!r} is not an event of Battleship")

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield boards, deductions and the action.

        The boards are always given in full: they are short, and differences are hard to read.
        """
        notes: BattleshipKnowledge = observation.notes
        if level != "events" and notes.fleet:
            yield from _boards(notes)
            if level == "deductions" and observation.legal_actions:
                yield from _deductions(notes)
        if observation.legal_actions:
            yield "Your action: shoot SQUARE, one that you have not shot at."


# Table


LEGEND = (
    (Tile("x", "bad", face="✸"), "hit"),
    (Tile("x", "bad", face="✸", look="sunk"), "sunk ship"),
    (Tile("o", face="•"), "miss"),
    (Tile("S", "seat4", face=" "), "ship"),
)
PROMPTS = {"shoot": "Click a square of the other board to shoot at it."}


class BattleshipView(NotesView):
    """Both boards as one viewer sees them. A click on the other player's board shoots."""

    game: Battleship
    notes: BattleshipNotes
    notes_type = BattleshipNotes

    def tabletop(self) -> Tabletop:
        """Return the boards, side by side unless they are too wide; that of the viewer is last."""
        game, shot = self.notes.game, self.notes.latest_shot
        boards = tuple(map(self._board, (1, 0) if self.seat == 0 else (0, 1)))
        caption = game.text.narrate(shot) if shot else ""
        # Two boards of at most nine columns fit into 80 columns of a terminal.
        return Tabletop(boards, caption, prompts=PROMPTS, side_by_side=game.board.width <= 9)

    def _board(self, owner: int) -> Squares:
        game = self.notes.game
        is_own = owner == self.seat
        # With all ships known, the rest of the board is water.
        is_known = len(self.notes.fleets[owner]) == len(game.options.ships)
        rows = []
        for row in game.board.rows:
            tiles = tuple(self._tile(owner, square, is_known) for square in row)
            rows.append(TileRow(tiles, game.board.names[row[0]][0]))
        title = "Your board" if is_own else f"Board of {game.seat_names[owner]}"
        columns = tuple(str(column + 1) for column in range(game.board.width))
        return Squares(title, tuple(rows), columns, LEGEND if is_own else (), "water")

    def _tile(self, owner: int, square: int, is_known: bool) -> Tile:
        name, sign = self.notes.game.board.names[square], self.notes.sign(owner, square)
        looks: dict[str, tuple[Tone, str]] = {
            "x": ("bad", "hit"),
            "o": ("plain", "miss"),
            "S": ("seat4" if owner == 0 else "seat1", "ship"),
            ".": ("muted", "water") if is_known else ("hidden", "not known"),
        }
        tone, meaning = looks[sign]
        is_target = self.seat not in (None, owner) and sign in "S."
        picks = (f"shoot {name}",) if is_target else ()
        look: Look = ""
        if self.notes.records[1 - owner].known_sunk() >> square & 1:
            meaning, look = "sunk ship", "sunk"
        face = {"x": "✸", "o": "•"}.get(sign, " ")
        return Tile(sign, tone, f"{name}: {meaning}", picks, face=face, look=look)
