"""Positions of many games of the same rules at once, for vectorised environments.

`StateBatch` is to `State` what an array is to a number. A game may write its rules a second time on
arrays (`Game.new_batch`); the environments check that both agree. Such rules hold no events, and so
no text: what a player may know is in the arrays only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.core.observation import ObservedGame

Rows = NDArray[np.int64]
"""Numbers of games of a batch, ascending and each once."""

NO_PLAYER = -1
"""Entry of `to_act` for a game that is over."""


class StateBatch(ABC):
    """Positions of `size` games. One player acts at a time in each.

    Players who move simultaneously commit in ascending order, and no array shows a commitment
    before the last one has committed. Chance is drawn inside: all of a game when it is dealt.
    """

    game: ObservedGame
    size: int
    to_act: NDArray[np.int8]
    """The player who must act in each game, or NO_PLAYER: shape (size,)."""
    turn: NDArray[np.int32]
    """Turns that have started in each game: shape (size,)."""

    def __init__(self, game: ObservedGame, size: int) -> None:
        self.game = game
        self.size = size
        self.to_act = np.full(size, NO_PLAYER, np.int8)
        self.turn = np.zeros(size, np.int32)

    @abstractmethod
    def deal(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Return all chance of the games of these seeds, one row per game.

        Equal to what the rules for one game draw from the stream `chance` of the seed.
        """

    @abstractmethod
    def start(self, rows: Rows, deals: NDArray[Any]) -> None:
        """Begin new games in these rows, with one row of `deal` for each."""

    @abstractmethod
    def apply(self, rows: Rows, actions: NDArray[np.int64]) -> None:
        """Apply a legal action number in each of these games, which are not over."""

    @abstractmethod
    def arrays(self, rows: Rows, players: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the observation of one player in each of these games, as fresh arrays.

        Shapes (rows, *shape) by the names of `game.arrays.specs`.
        """

    @abstractmethod
    def masks(self, rows: Rows) -> NDArray[np.int8]:
        """Return the legality of each action for the player to act, as a fresh array.

        Shape (rows, number of actions); the games are not over.
        """

    @abstractmethod
    def returns(self, rows: Rows) -> NDArray[np.float64]:
        """Return what each player has earned so far: shape (rows, players)."""
