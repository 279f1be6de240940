"""One seat of many games at once for Stable-Baselines3, on arrays where rules allow.

from sb3_contrib import MaskablePPO
from seat_vec_env import SeatVecEnv

model = MaskablePPO("MlpPolicy", SeatVecEnv("leduc_poker", num_envs=256), seed=0)
model.learn(100_000)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import JsonValue
from stable_baselines3.common.vec_env import VecEnv

from arena.core.batch.state_batch import Rows
from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game
from arena.envs.batches import DealQueue, batch_of, ended
from arena.envs.gymnasium import FlatArray, flat_bounds
from arena.plugins.loader import make_game

BatchPolicy = Callable[[NDArray[np.int8], np.random.Generator], NDArray[np.int64]]
"""Choose a legal action in each game, by masks of shape (games, actions)."""

EnvIndices = int | Sequence[int] | None
"""Which environments are meant; None for all."""


def any_legal(masks: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose uniformly among the legal actions of each row."""
    numbers = np.cumsum(masks, axis=1, dtype=np.int64)
    # The action that is number `chosen` of the legal ones, from 1.
    chosen = np.floor(rng.random(len(masks)) * numbers[:, -1]).astype(np.int64) + 1
    actions: NDArray[np.int64] = np.argmax(numbers >= chosen[:, None], axis=1)
    return actions


class SeatVecEnv(VecEnv):
    """`num_envs` games in which the learner has one seat, with `action_masks()`.

    Observations, actions and rewards are those of `FlatActionMaskEnv`, and seed `s` deals the game
    of seed `s`. The opponents are a function of the masks, which plays all other seats of all games
    at once, so that they are not the bots of that environment. A game that the opponents end before
    the learner's first move is left out, because there is nothing to learn from it.

    An ended game is followed by the next one in the same step. Its info has `terminal_observation`,
    `TimeLimit.truncated` and `episode`, whose `r` and `l` are the return and the number of the
    learner's moves.
    """

    def __init__(
        self,
        game: str | Game,
        num_envs: int,
        player: int = 0,
        opponents: BatchPolicy = any_legal,
        max_turns: int | None = None,
        **options: JsonValue,
    ) -> None:
        """Create the environment.

        Args:
            game: A game, or the name of one.
            num_envs: Number of games.
            player: The learner's seat, from 0.
            opponents: Plays all other seats; by default any legal action.
            max_turns: Turns after which a game is truncated; by default the game's own limit.
            options: Options of the game, if it is given by name.

        Raises:
            UsageError: An argument does not fit the game.
        """
        game = make_game(game, **options)
        if not 0 <= player < game.num_players:
            raise UsageError(f"player={player}: the seats go from 0 to {game.num_players - 1}")
        if num_envs < 1:
            raise UsageError(f"num_envs={num_envs}: give a whole number from 1")
        low, high = (bound.astype(np.float32) for bound in flat_bounds(game))
        super().__init__(
            num_envs,
            spaces.Box(low, high, dtype=np.float32),
            spaces.Discrete(len(game.actions)),
        )
        self.game, self.player = game, player
        turns = game.turn_limit(max_turns)
        self._limit = math.inf if turns is None else turns
        self._batch = batch_of(game, num_envs, self._limit)
        self._deals, self._opponents = DealQueue(self._batch), opponents
        self._all: Rows = np.arange(num_envs)
        self._rng = np.random.default_rng()
        self._mask = np.zeros((num_envs, len(game.actions)), np.int8)
        self._moves = np.zeros(num_envs, np.int64)
        self._paid = np.zeros(num_envs, np.float32)
        self._actions = np.zeros(num_envs, np.int64)

    def reset(self) -> FlatArray:
        """Start new games, of the seeds that `seed` has set; return the first observations."""
        seeds = {row: seed for row, seed in enumerate(self._seeds) if seed is not None}
        if seeds:
            self._deals.restart(seeds)
            self._rng = np.random.default_rng(list(seeds.values()))
        self._reset_seeds()
        self._start(self._all)
        return self._observe()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Take one action number for each game."""
        self._actions = np.asarray(actions, np.int64)

    def step_wait(
        self,
    ) -> tuple[FlatArray, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Apply the actions, then those of the opponents up to the learner's next moves.

        Raises:
            IllegalAction: An action is not legal; the first such game is named.
        """
        illegal = np.flatnonzero(self._mask[self._all, self._actions] == 0)
        if len(illegal):
            place = int(illegal[0])
            raise IllegalAction(f"game {place}: action {self._actions[place]} is not allowed now")
        self._batch.apply(self._all, self._actions)
        self._moves += 1
        self._play_opponents(self._all)
        terminated, truncated = ended(self._batch, self._all, self._limit)
        over = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        earned = self._batch.returns(self._all)[:, self.player].astype(np.float32)
        rewards, self._paid = earned - self._paid, earned
        done = np.flatnonzero(over)
        if len(done):
            last = self._flat(done)
            for place, row in enumerate(done.tolist()):
                infos[row] = {
                    "terminal_observation": last[place],
                    "TimeLimit.truncated": bool(truncated[row]),
                    "episode": {"r": float(earned[row]), "l": int(self._moves[row]), "t": 0.0},
                }
            self._start(done)
        return self._observe(), rewards, over, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legality of each action: shape (num_envs, actions), a copy."""
        return self._mask.astype(bool)

    def _start(self, rows: Rows) -> None:
        """Start the next game in these rows, until it is the learner's move in each."""
        while len(rows):
            _, deals = self._deals.take(rows)
            self._batch.start(rows, deals)
            self._moves[rows] = 0
            self._paid[rows] = 0
            self._play_opponents(rows)
            rows = rows[self._is_over(rows)]

    def _play_opponents(self, rows: Rows) -> None:
        """Play on in these rows up to the learner's next move or the end."""
        while True:
            others = (self._batch.to_act[rows] != self.player) & ~self._is_over(rows)
            rows = rows[others]
            if not len(rows):
                return
            masks = self._batch.masks(rows)
            self._batch.apply(rows, self._opponents(masks, self._rng))

    def _is_over(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which of these games are over or truncated."""
        terminated, truncated = ended(self._batch, rows, self._limit)
        return terminated | truncated

    def _observe(self) -> FlatArray:
        self._mask = self._batch.masks(self._all)
        return self._flat(self._all)

    def _flat(self, rows: Rows) -> FlatArray:
        """Return the learner's observations: shape (rows, size), as `flatten`."""
        arrays = self._batch.arrays(rows, np.full(len(rows), self.player))
        parts = [arrays[name].reshape(len(rows), -1) for name in self.game.arrays.specs]
        joined = np.concatenate(parts or [np.zeros((len(rows), 1), np.int8)], axis=1)
        return joined.astype(np.float32)

    # The rest of the interface of VecEnv: all games share one object.

    def close(self) -> None:
        """Do nothing: the environment holds no resources."""

    def get_attr(self, attr_name: str, indices: EnvIndices = None) -> list[Any]:
        """Return an attribute, once for each of these games."""
        value = getattr(self, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: EnvIndices = None) -> None:
        """Raise UsageError: the games have no attributes of their own."""
        raise UsageError(f"{attr_name}: the games of this environment have no attributes")

    def env_method(
        self, method_name: str, *method_args: Any, indices: EnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return the mask of each of these games for `action_masks`, the only method."""
        if method_name != "action_masks":
            raise UsageError(f"{method_name}: the games have the method action_masks only")
        masks = self.action_masks()
        return [masks[row] for row in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: EnvIndices = None) -> list[bool]:
        """Return False for each of these games."""
        return [False for _ in self._get_indices(indices)]
