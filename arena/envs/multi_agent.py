"""Any game as an environment with Gymnasium's signatures, for several players."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex, TypedDict

import numpy as np
from gymnasium import spaces

from arena.core.action import CHANCE, Action
from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game, State
from arena.core.json import Json
from arena.core.observation import Observation
from arena.core.seeds import stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ArrayObservation(TypedDict):
    """What a network reads of one observation; a member of `observation_space`."""

    observation: dict[str, NDArray[Any]]
    """Shaped as `game.array_specs` says. Fresh copies."""
    action_mask: NDArray[np.int8]
    """Shape (number of actions,): 1 where legal. Shared and read-only."""


class Info(TypedDict):
    """What comes beside the arrays."""

    observation: Observation


StepResult = tuple[
    dict[int, ArrayObservation],
    dict[int, float],
    dict[int | str, bool],
    dict[int | str, bool],
    dict[int, Info],
]
"""Observations, rewards, terminations, truncations, infos."""


def as_arrays(observation: Observation) -> ArrayObservation:
    return {
        "observation": observation.arrays(),
        "action_mask": observation.legal_actions.mask,
    }


def _as_index(player: int, number: SupportsIndex) -> int:
    try:
        return operator.index(number)
    except TypeError:
        raise IllegalAction(f"player {player}: {number!r} is no action number") from None


def make_space(game: Game) -> spaces.Dict:
    """The space of `as_arrays` of any observation of this game."""
    arrays: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(spec.low, spec.high, spec.shape, np.dtype(spec.dtype).type)
        for name, spec in game.array_specs.items()
    }
    mask = spaces.Box(0, 1, (len(game.actions),), np.int8)
    return spaces.Dict({"observation": spaces.Dict(arrays), "action_mask": mask})


class MultiAgentEnv:
    """Gymnasium's `reset` and `step` with dictionaries keyed by the players who must act.

    That is RLlib's convention: one key when players take turns, several when they move at once,
    and every player at the end. Actions are numbers in `game.actions`. Chance is drawn inside,
    as `arena.play` draws it: the same seed deals the same cards.

        env = MultiAgentEnv(make_game("cluedo", players=3))
        observations, infos = env.reset(seed=7)
        while env.agents:
            actions = {player: choose(seen) for player, seen in observations.items()}
            observations, rewards, terminations, truncations, infos = env.step(actions)

    A player with just one legal action is asked for it too, unlike in `arena.play`.

    Text is no part of the observations: a space needs a fixed shape, and most readers of arrays
    never read the text, which costs more than the move. `infos[player]["observation"]` is the
    `Observation` that renders it when asked: `.text(level, since)`.
    """

    def __init__(self, game: Game, max_turns: int | None = None) -> None:
        """Cut a game off after `max_turns` turns (default: the game's own limit)."""
        if max_turns is not None and max_turns < 1:
            raise UsageError(f"max_turns={max_turns}: a game needs at least one turn")
        self.game = game
        self.max_turns = game.default_max_turns if max_turns is None else max_turns
        self.possible_agents = list(range(game.num_players))
        self.agents: list[int] = []
        """Who is in the game: every player until it ends, then nobody."""
        self.seed: int | None = None
        """The seed of this game. No player may know it: it gives the deal away."""
        self._limit = math.inf if self.max_turns is None else self.max_turns
        self._seeds = random.Random()
        self._state: State | None = None

    @cached_property
    def observation_spaces(self) -> dict[int, spaces.Dict]:
        return {player: make_space(self.game) for player in self.possible_agents}

    @cached_property
    def action_spaces(self) -> dict[int, spaces.Discrete]:
        return {player: spaces.Discrete(len(self.game.actions)) for player in self.possible_agents}

    def observation_space(self, player: int) -> spaces.Dict:
        """`{"observation": one Box per array of game.array_specs, "action_mask": Box}`."""
        return self.observation_spaces[player]

    def action_space(self, player: int) -> spaces.Discrete:
        """The numbers of `game.actions`."""
        return self.action_spaces[player]

    @property
    def state(self) -> State:
        """The position, with all that it hides. Raises UsageError before the first `reset`."""
        if self._state is None:
            raise UsageError("call reset() first: there is no game yet")
        return self._state

    def observe(self, player: int) -> Observation:
        """What `player` may know now, whether it must act or not."""
        observation = self.state.observe(player)
        if not self.agents:
            observation.legal_actions = self.game.no_actions
        return observation

    def action(self, player: int, number: SupportsIndex) -> Action:
        """The action with this number. Raises IllegalAction if `player` may not play it now."""
        mask = self.state.legal_actions(player).mask
        index = _as_index(player, number)
        if not 0 <= index < len(mask):
            raise IllegalAction(
                f"player {player}: there is no action {index}; they go from 0 to {len(mask) - 1}"
            )
        action = self.game.actions[index]
        if not mask[index]:
            raise IllegalAction(f"player {player}: action {index}, '{action}', is not allowed now")
        return action

    def reset(
        self, *, seed: int | None = None, options: dict[str, Json] | None = None
    ) -> tuple[dict[int, ArrayObservation], dict[int, Info]]:
        """Begin a game; returns `(observations, infos)` of those who must act.

        Without a seed, the next of the series that the last given seed began; a random series if
        none was given. `options` belongs to Gymnasium's signature and is not used.
        """
        if seed is not None:
            self._seeds = stream(seed, "seeds")
        self.seed = self._seeds.getrandbits(31) if seed is None else int(seed)
        self._chance = stream(self.seed, "chance")
        self._paid = [0.0] * self.game.num_players
        self._state = self.game.initial_state()
        self.agents = self.possible_agents.copy()
        self._draw_chance()
        return self._keyed(self._state.to_act)

    def step(self, actions: Mapping[int, SupportsIndex]) -> StepResult:
        """Carry out one action number of each player who must act.

        Returns `(observations, rewards, terminations, truncations, infos)`; the two in the middle
        also have the key "__all__". A reward is what the player has earned since it was last
        keyed, so its rewards add up to its return.

        Raises IllegalAction for an action that is not legal or a player who is not to act, and
        UsageError when a player is missing or no game is on; then nothing has changed.
        """
        state = self.state
        for player, action in self._decode(actions).items():
            state._apply(player, action)  # `_decode` has checked it as `apply` would.
        self._draw_chance()
        terminated = not state.to_act
        truncated = not terminated and state.turn > self._limit
        keyed = state.to_act
        if terminated or truncated:
            self.agents, keyed = [], tuple(self.possible_agents)
        observations, infos = self._keyed(keyed)
        flagged: tuple[int | str, ...] = (*keyed, "__all__")
        return (
            observations,
            self._pay(keyed),
            dict.fromkeys(flagged, terminated),
            dict.fromkeys(flagged, truncated),
            infos,
        )

    def _decode(self, actions: Mapping[int, SupportsIndex]) -> dict[int, Action]:
        """The actions in the order of `to_act`; all are checked before one is played."""
        acting = self.state.to_act
        if not self.agents:
            raise UsageError("the game is over: call reset()")
        for player in actions:
            if player not in acting:
                raise IllegalAction(f"player {player!r} is not to act; {list(acting)} must")
        for player in acting:
            if player not in actions:
                raise UsageError(f"player {player} has no action; {list(acting)} must act")
        return {player: self.action(player, actions[player]) for player in acting}

    def _draw_chance(self) -> None:
        state = self.state
        while state.to_act == (CHANCE,) and state.turn <= self._limit:
            state.apply(CHANCE, state.sample_chance(self._chance))

    def _keyed(
        self, players: tuple[int, ...]
    ) -> tuple[dict[int, ArrayObservation], dict[int, Info]]:
        infos: dict[int, Info] = {
            player: {"observation": self.observe(player)} for player in players
        }
        return {player: as_arrays(info["observation"]) for player, info in infos.items()}, infos

    def _pay(self, players: tuple[int, ...]) -> dict[int, float]:
        """What each of `players` has earned since it was last paid."""
        earned, rewards = self.state.returns(), {}
        for player in players:
            rewards[player] = earned[player] - self._paid[player]
            self._paid[player] = earned[player]
        return rewards
