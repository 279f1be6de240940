"""Bots of Battleship, weakest first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from arena import Action, Observation
from arena.agents.agent import EvenBot
from games.battleship.knowledge import BattleshipKnowledge, is_countable
from games.battleship.rules import Shoot, union


class BattleshipBot(EvenBot):
    """Bot that draws evenly from the shots that it considers best."""

    def _best(self, observation: Observation) -> Sequence[Action]:
        knowledge: BattleshipKnowledge = observation.notes
        names = knowledge.game.board.names
        return [Shoot(names[square]) for square in self.targets(knowledge)]

    @abstractmethod
    def targets(self, knowledge: BattleshipKnowledge) -> Sequence[int]:
        """Return the best squares, of those not shot at yet."""


class Hunter(BattleshipBot):
    """Bot that hunts and then targets, as beginners do.

    It shoots at a random square next to a hit that may belong to a ship afloat. Without such a
    square it shoots at random.
    """

    def targets(self, knowledge: BattleshipKnowledge) -> Sequence[int]:
        record, board = knowledge.shots, knowledge.game.board
        # Hits of a ship that is surely sunk lead nowhere.
        still_open = record.hits & ~record.known_sunk()
        # The squares next to a hit are those of the ships of length 2 that cover it.
        beside = union(ship for ship in board.ships[2] if ship.mask & still_open) & ~record.shots
        return board.squares(beside or ~record.shots)


class Gunner(BattleshipBot):
    """Bot that shoots at a square with the highest probability of a ship.

    The probability is exact (`BattleshipKnowledge`, fleets taken as equally likely) on boards whose
    fleets can be counted. On larger ones `ShotRecord.density` replaces it.
    """

    def targets(self, knowledge: BattleshipKnowledge) -> Sequence[int]:
        record, game = knowledge.shots, knowledge.game
        values = knowledge.hit_probabilities() if is_countable(game) else record.density()
        # Squares that were shot at must not be chosen, whatever the value of the others.
        values[game.board.squares(record.shots)] = -1.0
        # All equally good squares, so that the bot cannot be predicted.
        return [int(square) for square in np.flatnonzero(values == values.max())]
