"""The table of Battleship: the boards of both players, as one viewer sees them."""

from __future__ import annotations

from arena import Event, Squares, Tabletop, Tile, TileRow
from games.battleship.board import union
from games.battleship.events import FleetRevealed, ShipsPlaced, ShotCalled, ShotFired
from games.battleship.game import Battleship
from games.battleship.shot_record import ShotRecord

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
