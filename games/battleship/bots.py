"""Bots of Battleship. Both place their ships at random.

- `Hunter`: shoots at random squares, and beside its hits.
- `Gunner`: shoots at the square that most probably holds a ship.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from arena import Action, Observation, Seat
from arena.agents.agent import EvenBot
from games.battleship.board import union
from games.battleship.posterior import FleetKnowledge, ShotRecord, density, is_countable
from games.battleship.rules import Battleship, PlaceShip, Shoot
from games.battleship.text import BattleshipNotes


class BattleshipBot(EvenBot):
    """Bot that draws evenly from the shots that it considers best."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        assert isinstance(seat.game, Battleship)
        self.game = seat.game

    def _best(self, observation: Observation) -> Sequence[Action]:
        legal = observation.legal_actions
        if isinstance(legal[0], PlaceShip):
            return legal
        notes = observation.notes
        assert isinstance(notes, BattleshipNotes)
        return [Shoot(self.game.board.names[square]) for square in self.targets(notes.knowledge)]

    @abstractmethod
    def targets(self, knowledge: FleetKnowledge) -> Sequence[int]:
        """Return the best squares, of those not shot at yet."""


class Hunter(BattleshipBot):
    """Bot that hunts and then targets, as beginners do.

    It shoots at a random square next to a hit that may belong to a ship afloat. Without such a
    square it shoots at random.
    """

    def targets(self, knowledge: FleetKnowledge) -> Sequence[int]:
        record, board = knowledge.record, self.game.board
        unshot = board.all & ~record.used
        # Hits of a ship that is surely sunk lead nowhere.
        beside = 0
        for square in board.squares(record.hits & ~union(record.known_sunk())):
            beside |= board.neighbours[square]
        return board.squares(beside & unshot or unshot)


class Gunner(BattleshipBot):
    """Bot that shoots at a square with the highest probability of a ship.

    The probability is exact (`FleetKnowledge`, fleets taken as equally likely) on boards whose
    fleets can be counted. On larger ones `density` replaces it.
    """

    def targets(self, knowledge: FleetKnowledge) -> Sequence[int]:
        record = knowledge.record
        values = self._values(knowledge, record)
        # Squares that were shot at must not be chosen, whatever the value of the others.
        values[self.game.board.squares(record.used)] = -1.0
        # All equally good squares, so that the bot cannot be predicted.
        return [int(square) for square in np.flatnonzero(values == values.max())]

    def _values(self, knowledge: FleetKnowledge, record: ShotRecord) -> NDArray[np.float64]:
        if is_countable(self.game):
            # A copy: the odds are kept for the texts of the same position.
            return knowledge.odds().probabilities.copy()
        return density(record)
