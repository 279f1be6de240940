"""View of Battleship: both boards with the ships that the viewer knows."""

from __future__ import annotations

from arena import Event
from arena.core.tabletop import Panel, Tabletop, Tile, TileRow
from games.battleship.base import BattleshipBase
from games.battleship.board import union
from games.battleship.events import FleetRevealed, ShipsPlaced, ShotFired
from games.battleship.shot_record import ShotRecord

WIDEST_PAIR = 9
"""Most columns of two boards that fit side by side in 80 columns of a terminal."""


class BattleshipView:
    """Both boards as one viewer sees them."""

    def __init__(self, game: BattleshipBase, seat: int | None) -> None:
        self.game = game
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
            case ShotFired(player):
                self._shots[player].add(event)
                self._latest = self.game.text.narrate(event)

    def tabletop(self) -> Tabletop:
        """Return the boards, side by side unless they are too wide."""
        names, board = self.game.seat_names, self.game.board
        columns = tuple(str(column + 1) for column in range(board.width))
        if board.width > WIDEST_PAIR:
            panels = tuple(
                Panel(f"Board of {names[owner]}", self._rows((owner,)), columns) for owner in (0, 1)
            )
        else:
            title = f"Boards of {names[0]} (left) and {names[1]} (right)"
            panels = (Panel(title, self._rows((0, 1)), (*columns, "", *columns)),)
        return Tabletop(panels, self._latest)

    def _rows(self, owners: tuple[int, ...]) -> tuple[TileRow, ...]:
        """Return the rows of one board, or of two with the name of the row between them."""
        board, rows = self.game.board, []
        for row in range(board.height):
            squares = range(row * board.width, (row + 1) * board.width)
            parts = [[self._tile(owner, square) for square in squares] for owner in owners]
            letter = board.names[squares[0]][0]
            tiles = parts[0] if len(parts) == 1 else [*parts[0], Tile(letter, "muted"), *parts[1]]
            rows.append(TileRow(tuple(tiles), letter))
        return tuple(rows)

    def _tile(self, owner: int, square: int) -> Tile:
        """Return the tile of one square: a shot covers a ship."""
        name, record = self.game.board.names[square], self._shots[1 - owner]
        # A shot hides the ship below it; its result says the same.
        if record.hits >> square & 1:
            return Tile("x", "bad", f"{name}: hit")
        if record.shots >> square & 1:
            return Tile("o", "plain", f"{name}: miss")
        if self._ships[owner] >> square & 1:
            return Tile("S", "seat0" if owner == 0 else "seat1", f"{name}: ship")
        # With all ships known, the rest of the board is water.
        if self._ships[owner].bit_count() == sum(self.game.options.ships):
            return Tile(".", "muted", f"{name}: water")
        return Tile(".", "hidden", f"{name}: not known")
