"""Notes of one player: its fleet, and the shots of both players."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from arena import ArraySpec, Event, GameArrays, Notes, Observation
from games.battleship.board import LONGEST_SHIP, Fleet, union
from games.battleship.events import FleetRevealed, ShipsPlaced, ShotCalled, ShotFired
from games.battleship.game import Battleship
from games.battleship.posterior import FleetKnowledge, ShotRecord


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
