"""Exact value of a policy against a random player, in a game that is small enough to tabulate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.core.batch.state_batch import NO_PLAYER
from arena.core.batch.tabulated import DRAWS, PositionTable

Policy = Callable[[NDArray[np.float32], NDArray[np.int8]], NDArray[Any]]
"""Returns the probability of each action, from a flat observation and its mask."""


def value_against_random(table: PositionTable, policy: Policy) -> float:
    """Return the mean return of the policy over all seats; the others draw evenly."""
    players = table.returns.shape[1]
    return float(np.mean([_value(table, policy, seat) for seat in range(players)]))


def _value(table: PositionTable, policy: Policy, seat: int) -> float:
    values = np.zeros(len(table.to_act))
    # Breadth first: every position comes after the one that leads to it.
    for place in range(len(values) - 1, -1, -1):
        player, following = table.to_act[place], table.following[place]
        if player == NO_PLAYER:
            values[place] = table.returns[place, seat]
            continue
        mask = table.masks[place]
        if player == DRAWS:
            bounds = table.bounds[place]
            ends = [*bounds[np.isfinite(bounds)], table.totals[place]]
            chances = np.diff(ends, prepend=0.0)
        elif player == seat:
            seen = [array[place, seat].ravel() for array in table.arrays.values()]
            chances = policy(np.concatenate(seen).astype(np.float32), mask)
        else:
            chances = mask / mask.sum()
        after = values[following[: len(chances)]]
        values[place] = (after * chances)[chances > 0].sum()
    return float(values[0])
