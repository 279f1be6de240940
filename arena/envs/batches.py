"""Many games at once: batches of any game, and the deals of their next games.

A game without rules on arrays is played as single states.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.core.action import CHANCE
from arena.core.batch.state_batch import NO_PLAYER, Rows, StateBatch
from arena.core.game import Game
from arena.core.seeds import stream
from arena.core.state import State


def batch_of(game: Game, size: int, limit: float) -> StateBatch:
    """Return `size` games on arrays, or as single states if the game has no rules on arrays."""
    return game.new_batch(size) or SingleStates(game, size, limit)


def ended(
    batch: StateBatch, rows: Rows, limit: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which games of these rows are over, and which are truncated after `limit` turns."""
    over = batch.to_act[rows] == NO_PLAYER
    # As in `play`: a turn that starts after the limit truncates the game.
    return over, ~over & (batch.turn[rows] > limit)


class SingleStates(StateBatch):
    """Batch that plays one `State` per game. As slow as one game at a time, but for every game.

    Args:
        game: The game.
        size: Number of games.
        limit: Turns after which a game is truncated: no chance is drawn after it.
    """

    def __init__(self, game: Game, size: int, limit: float) -> None:
        super().__init__(game, size)
        self._rules = game
        self._limit = limit
        self._states: list[State] = [game.initial_state() for _ in range(size)]
        self._chance = [stream(0, "chance")] * size

    def deal(self, seeds: Sequence[int]) -> NDArray[np.int64]:
        """Return the seeds themselves: a state draws its chance move by move."""
        return np.array(seeds, np.int64)

    def start(self, rows: Rows, deals: NDArray[Any]) -> None:
        for row, seed in zip(rows.tolist(), deals.tolist(), strict=True):
            self._states[row] = self._rules.initial_state()
            self._chance[row] = stream(seed, "chance")
            self._settle(row)

    def apply(self, rows: Rows, actions: NDArray[np.int64]) -> None:
        table = self.game.actions
        for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
            state = self._states[row]
            # The mask has shown that it is legal.
            state._apply(state.to_act[0], table[action])
            self._settle(row)

    def arrays(self, rows: Rows, players: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        seen = [
            self._states[row].observe(player).arrays()
            for row, player in zip(rows.tolist(), players.tolist(), strict=True)
        ]
        specs = self.game.arrays.specs.items()
        return {
            name: np.array([each[name] for each in seen], spec.dtype).reshape(-1, *spec.shape)
            for name, spec in specs
        }

    def masks(self, rows: Rows) -> NDArray[np.int8]:
        states = (self._states[row] for row in rows.tolist())
        masks = [state.legal_actions(state.to_act[0]).mask for state in states]
        return np.array(masks, np.int8).reshape(len(rows), len(self.game.actions))

    def returns(self, rows: Rows) -> NDArray[np.float64]:
        earned = [self._states[row].returns() for row in rows.tolist()]
        return np.array(earned, np.float64).reshape(len(rows), self.game.num_players)

    def _settle(self, row: int) -> None:
        """Draw chance as long as it is to be drawn, then note who must act."""
        state = self._states[row]
        while state.to_act == (CHANCE,) and state.turn <= self._limit:
            state.apply(CHANCE, state.sample_chance(self._chance[row]))
        # Chance is left to act where the game is truncated; its players have no actions there.
        self.to_act[row] = max(state.to_act[0], 0) if state.to_act else NO_PLAYER
        self.turn[row] = state.turn


AHEAD = 8
"""Games of each row that are dealt together: arrays are fast only where they are long."""


class DealQueue:
    """Deals of the next games of each row, made for many games at once.

    The seeds of a row are the series of `MultiAgentEnv.reset`: the given seed first, then those
    that it determines. Until a seed is given, the series is random.

    Args:
        batch: The games that are dealt.
    """

    def __init__(self, batch: StateBatch) -> None:
        self._batch = batch
        self._series = [random.Random() for _ in range(batch.size)]
        self._seeds = np.zeros((batch.size, AHEAD), np.int64)
        sample = batch.deal([])
        self._deals = np.zeros((batch.size, AHEAD, *sample.shape[1:]), sample.dtype)
        # Numbers of deals that were made and taken in each row. Deal n is in column n % AHEAD.
        self._made = np.zeros(batch.size, np.int64)
        self._taken = np.zeros(batch.size, np.int64)

    def restart(self, seeds: Mapping[int, int]) -> None:
        """Let the series of some rows begin with these seeds."""
        rows = np.fromiter(seeds, np.int64, len(seeds))
        for row, seed in seeds.items():
            self._series[row] = stream(seed, "seeds")
        self._made[rows], self._taken[rows] = 1, 0
        self._seeds[rows, 0] = list(seeds.values())
        self._deals[rows, 0] = self._batch.deal(list(seeds.values()))

    def take(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the seeds and the deals of the next game of each of these rows."""
        if (self._made[rows] == self._taken[rows]).any():
            self._fill()
        columns = self._taken[rows] % AHEAD
        self._taken[rows] += 1
        return self._seeds[rows, columns], self._deals[rows, columns]

    def _fill(self) -> None:
        """Deal until the queue of every row is full."""
        missing = AHEAD - (self._made - self._taken)
        rows = np.repeat(np.arange(self._batch.size), missing)
        # The place of each new deal within those of its row.
        places = np.arange(len(rows)) - np.repeat(np.cumsum(missing) - missing, missing)
        columns = (self._made[rows] + places) % AHEAD
        seeds = [self._series[row].getrandbits(31) for row in rows.tolist()]
        self._seeds[rows, columns] = seeds
        self._deals[rows, columns] = self._batch.deal(seeds)
        self._made += missing
