"""Many games of the same rules at once, in the vocabulary of Gymnasium's `VectorEnv`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from arena.core.batch.state_batch import Rows
from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game
from arena.envs.batches import DealQueue, SingleStates, batch_of, ended
from arena.envs.multi_agent import ArrayObservation, environment_seed, observation_space


class VectorInfo(TypedDict, total=False):
    """The `infos` of a step or a reset."""

    player: NDArray[np.int8]
    """The player to act in each game, whose observation it is."""
    final_obs: dict[str, NDArray[Any]]
    """Only if asked for, and if a game has ended: its last observations, by array name.
    Shape (num_envs, players, *shape); zeros for games that have not ended."""
    _final_obs: NDArray[np.bool_]
    """The games that have ended in this step: shape (num_envs,)."""


BatchResult = tuple[
    ArrayObservation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], VectorInfo
]
"""Observations, rewards, terminations, truncations, infos."""


class VectorMultiAgentEnv:
    """`num_envs` games of the same rules; one player acts at a time in each.

        env = arena.envs.vector("kuhn_poker", num_envs=1024)
        observations, infos = env.reset(seed=7)
        while training:
            actions = choose(observations["observation"], observations["action_mask"])
            observations, rewards, terminations, truncations, infos = env.step(actions)

    Names and shapes are those of Gymnasium's `VectorEnv`, with one difference: several players
    share a game. So `infos["player"]` names the player to act in each game, whose observation and
    mask are given, and `rewards` has a column for each player: shape (num_envs, players), what each
    has earned in this step. Players who move simultaneously commit one after the other and see no
    action before the last one has committed.

    Game `i` of `reset(seed=s)` is the game of seed `s + i` in `MultiAgentEnv`, and so are the games
    that follow it: equal actions give equal observations, masks and rewards.

    A game that has ended is followed by the next one in the same step
    (`AutoresetMode.SAME_STEP`): the observations and `infos["player"]` are those of the new game,
    the rewards those of the old one. `final_observations=True` adds the last observations of the
    old one to the infos.

    Arrays are fresh: a later step does not change them.
    """

    def __init__(
        self,
        game: Game,
        num_envs: int,
        max_turns: int | None = None,
        *,
        final_observations: bool = False,
    ) -> None:
        """Create the environment of a game.

        Args:
            game: The rules.
            num_envs: Number of games.
            max_turns: Turns after which a game is truncated; by default the game's own limit.
            final_observations: Give the last observations of ended games in the infos.

        Raises:
            UsageError: An argument does not fit.
        """
        if type(num_envs) is not int or num_envs < 1:
            raise UsageError(f"num_envs={num_envs!r}: give a whole number from 1")
        self.game = game
        self.num_envs = num_envs
        self.max_turns = game.turn_limit(max_turns)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = observation_space(game)
        self.single_action_space = spaces.Discrete(len(game.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.seeds = np.zeros(num_envs, np.int64)
        """The seed of each game. Do not show them to a player: they reveal the deals."""
        limit = math.inf if self.max_turns is None else self.max_turns
        self._limit, self._final_observations = limit, final_observations
        self._batch = batch_of(game, num_envs, limit)
        self.has_batch_rules = not isinstance(self._batch, SingleStates)
        """Whether the game has rules on arrays; without them it is played game by game."""
        self._deals = DealQueue(self._batch)
        self._all: Rows = np.arange(num_envs)
        self._paid = np.zeros((num_envs, game.num_players))
        self._mask: NDArray[np.int8] | None = None

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[ArrayObservation, VectorInfo]:
        """Start new games; return `(observations, infos)` of the players to act.

        Args:
            seed: The seed of the first game, from which the others count up; or one for each game,
                None for the next one of its series. By default None for all.
            options: Not used.

        Raises:
            UsageError: A seed is not an integer of 64 bits, or there are too many or too few.
        """
        seeds = enumerate(self._checked_seeds(seed))
        self._deals.restart({row: each for row, each in seeds if each is not None})
        self._start(self._all)
        return self._observe()

    def step(self, actions: ArrayLike) -> BatchResult:
        """Apply one action number in each game: shape (num_envs,).

        Return `(observations, rewards, terminations, truncations, infos)`. Nothing has changed if
        an error is raised:

        Raises:
            IllegalAction: An action is not legal; the first such game is named.
            UsageError: The shape or the type is wrong, or there was no `reset`.
        """
        self._batch.apply(self._all, self._checked_actions(actions))
        earned = self._batch.returns(self._all)
        rewards, self._paid = earned - self._paid, earned
        terminations, truncations = ended(self._batch, self._all, self._limit)
        done = np.flatnonzero(terminations | truncations)
        final = self._final(done) if self._final_observations and len(done) else VectorInfo()
        if len(done):
            self._start(done)
        observations, infos = self._observe()
        return observations, rewards, terminations, truncations, {**infos, **final}

    def close(self) -> None:
        """Do nothing: the environment holds no resources."""

    def _start(self, rows: Rows) -> None:
        self.seeds[rows], deals = self._deals.take(rows)
        self._batch.start(rows, deals)
        self._paid[rows] = 0

    def _observe(self) -> tuple[ArrayObservation, VectorInfo]:
        players = self._batch.to_act.copy()
        arrays = self._batch.arrays(self._all, players.astype(np.int64))
        mask = self._batch.masks(self._all)
        # Kept for the check of the next actions, and given away as a copy: callers may write to it.
        self._mask = mask
        return {"observation": arrays, "action_mask": mask.copy()}, {"player": players}

    def _final(self, ended: Rows) -> VectorInfo:
        """Return the last observations of all players in the games that have ended."""
        players = self.game.num_players
        found = {
            name: np.zeros((self.num_envs, players, *spec.shape), spec.dtype)
            for name, spec in self.game.arrays.specs.items()
        }
        for player in range(players):
            seen = self._batch.arrays(ended, np.full(len(ended), player))
            for name, array in seen.items():
                found[name][ended, player] = array
        over = np.zeros(self.num_envs, bool)
        over[ended] = True
        return {"final_obs": found, "_final_obs": over}

    def _checked_seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if not isinstance(seed, Sequence | np.ndarray):
            first = environment_seed(seed)
            # Every seed is checked, because the last ones may be too large.
            return [
                None if first is None else environment_seed(first + place)
                for place in range(self.num_envs)
            ]
        if len(seed) != self.num_envs:
            raise UsageError(f"seed has {len(seed)} entries; give one for each of {self.num_envs}")
        return [environment_seed(each) for each in seed]

    def _checked_actions(self, actions: ArrayLike) -> NDArray[np.int64]:
        """Return the action numbers. Raises UsageError or IllegalAction."""
        if self._mask is None:
            raise UsageError("there is no game yet: call reset()")
        given = np.asarray(actions)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            raise UsageError(
                f"actions: give {self.num_envs} integers, not an array of shape {given.shape} and "
                f"type {given.dtype}"
            )
        numbers = given.astype(np.int64)
        known = (numbers >= 0) & (numbers < len(self.game.actions))
        legal = self._mask[self._all, np.where(known, numbers, 0)].astype(bool) & known
        wrong = np.flatnonzero(~legal)
        if len(wrong):
            place = int(wrong[0])
            number, player = int(numbers[place]), int(self._batch.to_act[place])
            reason = (
                f"action {number}, '{self.game.actions[number]}', is not allowed now"
                if known[place]
                else f"there is no action {number}; they go from 0 to {len(self.game.actions) - 1}"
            )
            raise IllegalAction(f"game {place}, player {player}: {reason}")
        return numbers
