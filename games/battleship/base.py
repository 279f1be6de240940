"""Options and actions of Battleship, which its rules, knowledge and texts share."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable

from arena import Action, Game, ReturnScale
from games.battleship.board import Board, Fleet, board_of
from games.battleship.events import BattleshipOptions, PlaceShip, Shoot


class BattleshipBase(Game, ABC):
    """Options and actions; `Battleship` adds the rest of the game.

    It is separate from `Battleship`, so that rules and texts can import it without importing the
    modules that `Battleship` uses.
    """

    name = "battleship"
    summary = "find and sink a hidden fleet"
    num_players = 2
    Options = BattleshipOptions
    options: BattleshipOptions

    @property
    def board(self) -> Board:
        """The squares and possible ships."""
        # Not kept on the game: an observation would then hold thousands of objects.
        options = self.options
        return board_of(options.width, options.height, options.touching)

    @property
    def values(self) -> tuple[float, ...]:
        """Value of each ship."""
        return self.options.values or (1.0,) * len(self.options.ships)

    @property
    def return_scale(self) -> ReturnScale:
        if self.options.returns_type == "win_loss":
            return ReturnScale("score", "", -1.0, 1.0)
        total = sum(self.values)
        low = -self.options.loss_multiplier * total
        # A scale needs two different ends, also if all values are 0.
        return ReturnScale("damage", "", low, max(total, low + 1.0))

    def fleet(self, names: Iterable[str]) -> Fleet:
        """Return the ships of these names. Raises KeyError for an unknown one."""
        return tuple(map(self.board.ship, names))

    def _all_actions(self) -> Iterable[Action]:
        yield from map(Shoot, self.board.names)
        if self.options.placement == "players":
            for length in sorted(set(self.options.ships)):
                yield from (PlaceShip(ship.name) for ship in self.board.ships[length])
