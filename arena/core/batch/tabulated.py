"""Batches of small games: all positions are numbered once, and play looks them up.

The table is filled by the rules for one game (`State`), so that no rule is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.core.action import CHANCE
from arena.core.batch.chance_streams import ChanceStreams, cumulative
from arena.core.batch.state_batch import NO_PLAYER, Rows, StateBatch
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.state import State

MOST_POSITIONS = 20_000
"""Positions of the largest game that is tabulated: a few seconds of work."""

DRAWS = -2
"""Entry of `to_act` for a position at which chance is drawn."""


class PositionTable:
    """All positions of a small game, numbered from the initial one, 0.

    For games in which one player acts at a time and whose states list their chance outcomes. Raises
    UsageError if the game has more than `MOST_POSITIONS` positions.
    """

    def __init__(self, game: Game) -> None:
        states = [game.initial_state()]
        following: list[list[int]] = []
        bounds: list[list[float]] = []
        totals, draws = list[float](), [0]
        # Breadth first: `states` grows while it is read.
        for place, state in enumerate(states):
            after = dict(_following(state))
            following.append([NO_PLAYER] * (max(after, default=0) + 1))
            for number, position in after.items():
                following[-1][number] = len(states)
                states.append(position)
            is_chance = state.to_act == (CHANCE,)
            # Draws of chance on the way to each position, its own included.
            draws += [draws[place] + is_chance] * len(after)
            weights = [o.probability for o in state.chance_outcomes()] if is_chance else [1.0]
            total, upper = cumulative(weights)
            totals.append(total)
            bounds.append(list(upper))
            if len(states) > MOST_POSITIONS:
                raise UsageError(f"{game!r} has more than {MOST_POSITIONS} positions to tabulate")
        self.to_act = np.array([_actor(state) for state in states], np.int8)
        self.turn = np.array([state.turn for state in states], np.int32)
        self.returns = np.array([state.returns() for state in states], np.float64)
        self.masks = np.array([_mask(state) for state in states], np.int8)
        self.arrays = _observations(game, states)
        self.following = _padded(following, NO_PLAYER).astype(np.int32)
        self.totals = np.array(totals)
        # No draw reaches infinity.
        self.bounds = _padded(bounds, np.inf)
        self.draws = max(draws)


def _following(state: State) -> Iterator[tuple[int, State]]:
    """Yield the positions after each action number, or after each outcome of chance."""
    if not state.to_act:
        return
    player, index = state.to_act[0], state.game.actions.index
    if player == CHANCE:
        steps = list(enumerate(outcome.action for outcome in state.chance_outcomes()))
    else:
        steps = [(index[action], action) for action in state.legal_actions(player)]
    for number, action in steps:
        after = state.clone()
        after.apply(player, action)
        yield number, after


def _actor(state: State) -> int:
    if state.to_act == (CHANCE,):
        return DRAWS
    return state.to_act[0] if state.to_act else NO_PLAYER


def _mask(state: State) -> NDArray[np.int8]:
    player = state.to_act[0] if state.to_act else CHANCE
    return state.legal_actions(player).mask


def _observations(game: Game, states: Sequence[State]) -> dict[str, NDArray[Any]]:
    """Return the observations of all players: shape (positions, players, *shape) by name."""
    seen = [
        [state.observe(player).arrays() for player in range(game.num_players)] for state in states
    ]
    return {
        name: np.array([[arrays[name] for arrays in players] for players in seen], spec.dtype)
        for name, spec in game.arrays.specs.items()
    }


def _padded(rows: Sequence[Sequence[float]], filler: float) -> NDArray[np.float64]:
    """Return lists of different lengths as one array."""
    array = np.full((len(rows), max(map(len, rows))), filler, np.float64)
    for place, row in enumerate(rows):
        array[place, : len(row)] = row
    return array


# A table depends on the rules only, so equal games share it.
_table = lru_cache(maxsize=8)(PositionTable)


class TabulatedBatch(StateBatch):
    """Batch of a game with few positions. Each game is a number of the table.

    Raises UsageError if the game has too many positions, see `PositionTable`.
    """

    def __init__(self, game: Game, size: int) -> None:
        super().__init__(game, size)
        self.table = _table(game)
        self._position = np.zeros(size, np.int64)
        self._drawn = np.zeros((size, self.table.draws))
        self._next_draw = np.zeros(size, np.int64)

    def deal(self, seeds: Sequence[int]) -> NDArray[np.float64]:
        """Return the numbers from [0, 1) that decide chance: shape (seeds, draws of a game)."""
        streams = ChanceStreams(seeds, 2 * self.table.draws)
        drawn = [streams.random() for _ in range(self.table.draws)]
        return np.stack(drawn, axis=1) if drawn else np.zeros((len(seeds), 0))

    def start(self, rows: Rows, deals: NDArray[Any]) -> None:
        self._position[rows] = 0
        self._drawn[rows] = deals
        self._next_draw[rows] = 0
        self._settle(rows)

    def apply(self, rows: Rows, actions: NDArray[np.int64]) -> None:
        self._position[rows] = self.table.following[self._position[rows], actions]
        self._settle(rows)

    def arrays(self, rows: Rows, players: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        places = self._position[rows]
        return {name: table[places, players] for name, table in self.table.arrays.items()}

    def masks(self, rows: Rows) -> NDArray[np.int8]:
        return self.table.masks[self._position[rows]]

    def returns(self, rows: Rows) -> NDArray[np.float64]:
        return self.table.returns[self._position[rows]]

    def _settle(self, rows: Rows) -> None:
        """Draw chance where it is to be drawn, then note who must act."""
        table, position = self.table, self._position
        waiting = rows[table.to_act[position[rows]] == DRAWS]
        while len(waiting):
            places = position[waiting]
            drawn = self._drawn[waiting, self._next_draw[waiting]] * table.totals[places]
            self._next_draw[waiting] += 1
            # The number of bounds up to the draw, as `bisect` in `Random.choices` counts them.
            outcomes = (table.bounds[places] <= drawn[:, None]).sum(axis=1)
            position[waiting] = table.following[places, outcomes]
            waiting = waiting[table.to_act[position[waiting]] == DRAWS]
        places = position[rows]
        self.to_act[rows] = table.to_act[places]
        self.turn[rows] = table.turn[places]
