"""Texts of Battleship: rules, narration of events, situation of a player."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from arena import (
    ArraySpec,
    Event,
    GameArrays,
    GameText,
    Notes,
    Observation,
    PlayGuide,
    Squares,
    Tabletop,
    TextLevel,
    Tile,
    TileRow,
)
from games.battleship.board import LONGEST_SHIP, Fleet, union
from games.battleship.posterior import FleetKnowledge, ShotRecord, empty_squares, is_countable
from games.battleship.rules import (
    Battleship,
    FleetRevealed,
    PlaceShip,
    ShipsPlaced,
    ShotCalled,
    ShotFired,
)

# Notes of one player


class BattleshipNotes(Notes):
    """Facts that follow directly from a player's events."""

    game: Battleship

    def __init__(self, game: Battleship, player: int) -> None:
        super().__init__(game, player)
        board, options = game.board, game.options
        self.fleet: Fleet = ()
        """Own ships that are placed so far."""
        self.revealed: Fleet = ()
        """Ships of the other player, after the end of the game."""
        # The knowledge holds the record of the own shots too; its fleets are listed on demand.
        self.knowledge = FleetKnowledge(game, player)
        self.received = ShotRecord(board, options.ships, options.announce_sunk)

    @property
    def shots(self) -> ShotRecord:
        """Shots of this player."""
        return self.knowledge.record

    @property
    def next_length(self) -> int | None:
        """Length of the own ship that this player places next; None if there is none."""
        placed, options = len(self.fleet), self.game.options
        by_player = options.placement == "players" and placed < len(options.ships)
        return options.ships[placed] if by_player else None

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case ShipsPlaced(ships=names):
                # All ships by chance, or the next one.
                self.fleet += self.game.fleet(names)
            case ShotFired(player) | ShotCalled(player) if player != self.player:
                self.received.add(event)
            case FleetRevealed(player, names) if player != self.player:
                self.revealed = self.game.fleet(names)
        self.knowledge.update(event)


class BattleshipArrays(GameArrays):
    """Observations of Battleship as arrays."""

    game: Battleship

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        """Return the specs of the arrays; rows and columns are those of the board.

        - `fleet`: 1 for a square of an own ship.
        - `shots`, `received`: own shots and those of the other player: -1 miss, 1 hit.
        - `called`: 1 for a square of the own salvo under way, with turn=salvo.
        - `afloat` (lengths 1 to 5): ships of the other player that are not announced as sunk.
        - `to_place` (lengths 1 to 5): 1 for the length of the ship to place now.
        """
        grid = (self.game.options.height, self.game.options.width)
        return {
            "fleet": ArraySpec(grid, 0, 1),
            "shots": ArraySpec(grid, -1, 1),
            "received": ArraySpec(grid, -1, 1),
            **({"called": ArraySpec(grid, 0, 1)} if self.game.options.turn == "salvo" else {}),
            "afloat": ArraySpec((LONGEST_SHIP,), 0, 10),
            "to_place": ArraySpec((LONGEST_SHIP,), 0, 1),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: BattleshipNotes = observation.notes  # type: ignore[assignment]
        arrays, board = self._zeros(), self.game.board
        arrays["fleet"].flat[board.squares(union(notes.fleet))] = 1
        for name, record in (("shots", notes.shots), ("received", notes.received)):
            arrays[name].flat[board.squares(record.shots)] = -1
            arrays[name].flat[board.squares(record.hits)] = 1
        if "called" in arrays:
            arrays["called"].flat[board.squares(notes.shots.called)] = 1
        # Counted by length; ships of equal length look alike.
        for length in notes.shots.afloat:
            arrays["afloat"][length - 1] += 1
        if notes.next_length is not None:
            arrays["to_place"][notes.next_length - 1] = 1
        return arrays


def lengths_text(lengths: Sequence[int]) -> str:
    """Return lengths of ships in words: `lengths 3, 2 and 2`."""
    words = [str(length) for length in lengths]
    listed = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    return f"{'length' if len(words) == 1 else 'lengths'} {listed}"


ENDING = "The game ends when all ships of a player are sunk. The other player wins."


def _turn_rule(game: Battleship) -> str:
    """Return the sentence on the shots of a turn, if they are not one."""
    match game.options.turn:
        case "hit_again":
            return " After a hit you shoot again."
        case "salvo":
            return (
                " In a turn you fire a salvo: as many shots as you have ships afloat. You call "
                "them one after the other, and their results are announced after the last one."
            )
    return ""


def grid(game: Battleship, cell: Callable[[int], str], width: int = 1) -> Iterator[str]:
    """Yield the lines of a board; `cell` gives the text of each square."""
    board = game.board
    heads = (str(column + 1).rjust(width) for column in range(board.width))
    yield f"  {' '.join(heads)}"
    for row in range(board.height):
        squares = range(row * board.width, (row + 1) * board.width)
        yield f"{board.names[squares[0]][0]} {' '.join(cell(s).rjust(width) for s in squares)}"


def sign(square: int, record: ShotRecord, ships: int = 0) -> str:
    """Return the sign of a square: `x` hit, `o` miss, `?` called, `S` a ship not hit there, or `.`.

    `ships` is the set of squares of the known ships.
    """
    if record.shots >> square & 1:
        return "x" if record.hits >> square & 1 else "o"
    if record.called >> square & 1:
        return "?"
    return "S" if ships >> square & 1 else "."


def _boards(game: Battleship, notes: BattleshipNotes) -> Iterator[str]:
    """Yield both boards and the ships that are left."""
    own, revealed = union(notes.fleet), union(notes.revealed)
    if notes.next_length is None:
        yield "Your shots (x hit, o miss, . not shot at):"
        yield from grid(game, lambda square: sign(square, notes.shots, revealed))
    if game.options.announce_sunk and notes.next_length is None:
        other = game.seat_names[1 - notes.player]
        left = notes.shots.afloat
        yield f"Ships of {other} afloat: {lengths_text(left) if left else 'none'}."
    yield "Your board (S ship, x ship hit, o miss, . water):"
    yield from grid(game, lambda square: sign(square, notes.received, own))


def _deductions(game: Battleship, notes: BattleshipNotes) -> Iterator[str]:
    """Yield the exact chance of a ship in each square; on large boards, squares without any."""
    record, board = notes.shots, game.board
    if is_countable(game):
        odds = notes.knowledge.odds()
        number = odds.total
        yield (
            f"Chance of a ship in each square in per cent, over the {number} "
            f"{'fleet' if number == 1 else 'fleets'} that fit your shots (x hit, o miss):"
        )

        def cell(square: int) -> str:
            if record.used >> square & 1:
                return sign(square, record)
            return percent(int(odds.hits[square]), number)

        yield from grid(game, cell, width=3)
    else:
        # On large boards the chances are not exact, but single squares may still be excluded.
        empty = board.squares(empty_squares(record))
        yield f"Certainly without a ship: {', '.join(board.names[s] for s in empty) or 'none'}."


def percent(part: int, total: int) -> str:
    """Return a share in per cent; only certainty is written as 0 or 100."""
    # 0 and 100 would read as certain.
    value = round(100 * part / total)
    if 0 < part < total:
        value = min(max(value, 1), 99)
    return str(value)


class BattleshipText(GameText):
    """Texts of Battleship."""

    table_shows_notes = True
    game: Battleship
    notes_type = BattleshipNotes

    def synonyms(self) -> Mapping[str, str]:
        return dict.fromkeys(("fire at", "fire", "attack", "shoot at"), "shoot")

    def guide(self) -> PlayGuide:
        sunk = "and which ship is sunk"
        if not self.game.options.announce_sunk:
            sunk = "but not whether a ship is sunk"
        return PlayGuide(
            goal="Sink all ships of the other player before yours are sunk.",
            turn=(
                "Shoot at a square of the other board that you have not shot at. You learn "
                f"whether it is a miss or a hit, {sunk}.{_turn_rule(self.game)}"
            ),
            end=ENDING,
            example=(
                "You hit c3. A ship covers squares in one row or column, so one of b3, c2, c4 "
                "and d3 belongs to it as well: shoot there next."
            ),
        )

    def rules(self) -> str:
        """Return the rules for a player who does not know the game."""
        game = self.game
        options, board = game.options, game.board
        last = board.names[-1]
        ships = f"{len(options.ships)} ships of {lengths_text(options.ships)}"
        if len(options.ships) == 1:
            ships = f"one ship of length {options.ships[0]}"
        contact = "may touch but must not overlap"
        if not options.touching:
            contact = "must not overlap and must not touch, not even at a corner"
        lines = [
            f"Battleship, two players. Each has a board of {options.height} rows, a to {last[0]} "
            f"from the top, and {options.width} columns, 1 to {last[1:]} from the left; square b3 "
            f"is row b, column 3. On it lie {ships}, hidden from the other player. A ship covers "
            f"that many squares in a row or in a column. Ships {contact}. "
            + (
                "All ships are placed at random."
                if options.placement == "random"
                else "First the players place their ships, one after the other in the order of "
                "these lengths, both at the same time."
            ),
            "Then the players shoot in turn, Player 0 first, at one square of the other's board. "
            "The result is announced: miss or hit"
            + (
                ", or sunk with the length of the ship if all its squares are hit."
                if options.announce_sunk
                else "; it is not announced when a ship is sunk, that is, hit in all its squares."
            )
            + f" You cannot shoot at a square twice.{_turn_rule(game)}",
            ENDING,
        ]
        if options.placement == "players":
            lines.append(
                "Your action while ships are placed: place FIRST-LAST, for example: place "
            )
            example = board.ships[options.ships[0]][0].name
            lines[-1] += f"{example}. Name the upper or left end first."
            lines.append("Your action later: shoot SQUARE. For example: shoot b3")
        else:
            lines.append("Your action: shoot SQUARE. For example: shoot b3")
        return "\n".join(lines)

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence."""
        game = self.game
        names = game.seat_names
        match event:
            case ShipsPlaced(player, ships):
                verb = "has ships at" if len(ships) > 1 else "has a ship at"
                return f"{names[player]} {verb} {', '.join(ships)}."
            case ShotCalled(player, square):
                return f"{names[player]} calls a shot at {square}."
            case ShotFired(player, square, "sunk", length):
                return (
                    f"{names[player]} shoots at {square}: hit, a ship of length {length} is sunk."
                )
            case ShotFired(player, square, result):
                return f"{names[player]} shoots at {square}: {result}."
            case FleetRevealed(player, ships):
                return f"The ships of {names[player]} were at {', '.join(ships)}."
            case _:
                raise TypeError(f"{event!r} is not an event of Battleship")

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield boards, deductions and the action.

        The boards are always given in full: they are short, and differences are hard to read.
        """
        game = self.game
        notes: BattleshipNotes = observation.notes  # type: ignore[assignment]
        if level != "events" and notes.fleet:
            yield from _boards(game, notes)
            if level == "deductions" and observation.legal_actions and notes.next_length is None:
                yield from _deductions(game, notes)
        if not observation.legal_actions:
            return
        # Actions of one decision are of one kind; a grammar replaces a list of up to 180.
        first = observation.legal_actions[0]
        if isinstance(first, PlaceShip):
            yield (
                f"Your action: place FIRST-LAST, your ship of length {notes.next_length}. For "
                f"example: {first}"
            )
        else:
            called = notes.shots.called.bit_count()
            number = f" This is shot {called + 1} of your salvo." if called else ""
            yield f"Your action: shoot SQUARE, one that you have not shot at.{number}"


# Table


WIDEST_PAIR = 9
"""Most columns of two boards that fit side by side in 80 columns of a terminal."""
LEGEND = (
    (Tile("x", "bad"), "hit"),
    (Tile("o"), "miss"),
    (Tile("S", "seat4"), "ship"),
    (Tile(".", "hidden"), "not shot at"),
)


class BattleshipView:
    """Both boards as one viewer sees them.

    A click on the other player's board shoots; before the game, one on the first and one on the
    last square of the own board place a ship.
    """

    def __init__(self, game: Battleship, seat: int | None) -> None:
        self.game = game
        self._seat = seat
        options = game.options
        self._ships = [0, 0]
        """The set of squares of the known ships of each player."""
        self._shots = [
            ShotRecord(game.board, options.ships, options.announce_sunk) for _ in range(2)
        ]
        """Shots by each player."""
        self._latest = ""

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        match event:
            case ShipsPlaced(player, ships):
                self._ships[player] |= union(self.game.fleet(ships))
            case FleetRevealed(player, ships):
                self._ships[player] = union(self.game.fleet(ships))
            case ShotFired(player) | ShotCalled(player):
                self._shots[player].add(event)
                self._latest = self.game.text.narrate(event)

    def tabletop(self) -> Tabletop:
        """Return the boards, side by side unless they are too wide; that of the viewer is last."""
        owners = (1, 0) if self._seat == 0 else (0, 1)
        boards = tuple(map(self._board, owners))
        return Tabletop(boards, self._latest, side_by_side=self.game.board.width <= WIDEST_PAIR)

    def _board(self, owner: int) -> Squares:
        board, rows = self.game.board, []
        for row in range(board.height):
            squares = range(row * board.width, (row + 1) * board.width)
            tiles = tuple(self._tile(owner, square) for square in squares)
            rows.append(TileRow(tiles, board.names[squares[0]][0]))
        title = f"Board of {self.game.seat_names[owner]}"
        if owner == self._seat:
            title = "Your board"
        columns = tuple(str(column + 1) for column in range(board.width))
        return Squares(title, tuple(rows), columns, LEGEND if owner == self._seat else ())

    def _tile(self, owner: int, square: int) -> Tile:
        """Return the tile of one square: a shot covers a ship."""
        name, record = self.game.board.names[square], self._shots[1 - owner]
        # A shot hides the ship below it; its result says the same.
        if record.hits >> square & 1:
            return Tile("x", "bad", f"{name}: hit")
        if record.shots >> square & 1:
            return Tile("o", "plain", f"{name}: miss")
        if record.called >> square & 1:
            return Tile("?", "accent", f"{name}: called")
        picks = self._picks(owner, name)
        if self._ships[owner] >> square & 1:
            return Tile("S", "seat4" if owner == 0 else "seat1", f"{name}: ship", picks)
        # With all ships known, the rest of the board is water.
        if self._ships[owner].bit_count() == sum(self.game.options.ships):
            return Tile(".", "muted", f"{name}: water", picks)
        return Tile(".", "hidden", f"{name}: not known", picks)

    def _picks(self, owner: int, name: str) -> tuple[str, ...]:
        """Return what a click on a square means: a shot, or one end of a ship."""
        if self._seat is None:
            return ()
        if owner != self._seat:
            return (f"shoot {name}",)
        is_placed = self._ships[owner].bit_count() == sum(self.game.options.ships)
        return () if is_placed else (name,)
