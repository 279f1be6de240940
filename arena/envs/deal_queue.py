"""Seeds and deals of the next games of a vectorised environment."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.core.batch.state_batch import Rows, StateBatch
from arena.core.seeds import stream

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
