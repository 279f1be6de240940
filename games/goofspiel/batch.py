"""Many games of Goofspiel at once, on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.core.batch.chance_streams import ChanceStreams
from arena.core.batch.state_batch import NO_PLAYER, Rows, StateBatch
from arena.core.observation import ObservedGame


class GoofspielBatch(StateBatch):
    """Batch of Goofspiel. Cards and prizes are counted from 0 here, so that they are indices.

    Args:
        game: The game.
        size: Number of games.
        cards: Number of prizes and of cards in each hand.
        descending: The prizes come in descending order, not in random order.
    """

    def __init__(self, game: ObservedGame, size: int, cards: int, descending: bool) -> None:
        super().__init__(game, size)
        self.players, self.cards, self.descending = game.num_players, cards, descending
        self.prizes = np.zeros((size, self.cards), np.int8)
        """The prizes of each game in their order."""
        self.round = np.zeros(size, np.int64)
        self.hands = np.zeros((size, self.players, self.cards), np.int8)
        self.to_come = np.zeros((size, self.cards), np.int8)
        self.points = np.zeros((size, self.players), np.int8)
        self.bids = np.zeros((size, self.players), np.int64)

    def deal(self, seeds: Sequence[int]) -> NDArray[np.int8]:
        """Return the order of the prizes: shape (seeds, cards)."""
        order = np.empty((len(seeds), self.cards), np.int8)
        if self.descending:
            order[:] = np.arange(self.cards)[::-1]
            return order
        streams, games = ChanceStreams(seeds, 2 * self.cards), np.arange(len(seeds))
        left = np.tile(np.arange(self.cards, dtype=np.int8), (len(seeds), 1))
        for place in range(self.cards):
            remaining = self.cards - place
            drawn = streams.choose([1 / remaining] * remaining)
            order[:, place] = left[games, drawn]
            # Close the gap: the later prizes move one place to the front.
            moved = np.arange(remaining - 1) >= drawn[:, None]
            left = np.where(moved, left[:, 1:], left[:, :-1])
        return order

    def start(self, rows: Rows, deals: NDArray[Any]) -> None:
        self.prizes[rows] = deals
        self.hands[rows] = self.to_come[rows] = 1
        self.points[rows] = self.round[rows] = self.turn[rows] = 0
        self._turn_up(rows)

    def apply(self, rows: Rows, actions: NDArray[np.int64]) -> None:
        players = self.to_act[rows]
        self.bids[rows, players] = actions
        self.to_act[rows] = players + 1
        complete = rows[players == self.players - 1]
        if len(complete):
            self._reveal(complete)

    def arrays(self, rows: Rows, players: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        # Rows are players from the observer on.
        seats = (players[:, None] + np.arange(self.players)) % self.players
        prize = np.zeros((len(rows), self.cards), np.int8)
        # At the end no prize is turned up.
        open_prize = np.flatnonzero(self.round[rows] < self.cards)
        prize[open_prize, self._prize(rows[open_prize])] = 1
        return {
            "hands": self.hands[rows[:, None], seats],
            "points": self.points[rows[:, None], seats],
            "prize": prize,
            "prizes_to_come": self.to_come[rows],
        }

    def masks(self, rows: Rows) -> NDArray[np.int8]:
        return self.hands[rows, self.to_act[rows]]

    def returns(self, rows: Rows) -> NDArray[np.float64]:
        points = self.points[rows]
        leads = points == points.max(axis=1, keepdims=True)
        leaders = leads.sum(axis=1, keepdims=True)
        others = self.players - leaders
        # Before the end, and if all are equal, no player has earned anything.
        decided = (self.to_act[rows] == NO_PLAYER)[:, None] & (others > 0)
        earned = np.where(leads, 1 / leaders, -1 / np.maximum(others, 1))
        return np.where(decided, earned, 0.0)

    def _prize(self, rows: Rows) -> NDArray[np.int8]:
        return self.prizes[rows, self.round[rows]]

    def _turn_up(self, rows: Rows) -> None:
        self.to_come[rows, self._prize(rows)] = 0
        self.to_act[rows] = 0
        self.turn[rows] += 1

    def _reveal(self, rows: Rows) -> None:
        bids = self.bids[rows]
        highest = bids.max(axis=1, keepdims=True)
        # A tied highest bid wins nothing.
        alone = (bids == highest).sum(axis=1) == 1
        won = rows[alone]
        self.points[won, bids[alone].argmax(axis=1)] += self._prize(won) + 1
        self.hands[rows[:, None], np.arange(self.players), bids] = 0
        self.round[rows] += 1
        over = self.round[rows] == self.cards
        self.to_act[rows[over]] = NO_PLAYER
        self._turn_up(rows[~over])
