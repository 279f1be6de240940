"""Any game as a PettingZoo environment: one agent at a time commits an action."""

from __future__ import annotations

from typing import Any, SupportsIndex, TypedDict

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from arena.core.errors import IllegalAction, MissingDependency
from arena.core.game import Game
from arena.core.json import Json
from arena.envs.multi_agent import MultiAgentEnv, as_arrays

try:
    from pettingzoo import AECEnv
    from pettingzoo.utils.wrappers import OrderEnforcingWrapper
except ModuleNotFoundError as error:
    raise MissingDependency(
        f"the package '{error.name}' is not installed: in arena's folder, "
        "pip install -e '.[pettingzoo]'"
    ) from error


class FlatObservation(TypedDict):
    """What PettingZoo's libraries read of one observation."""

    observation: NDArray[Any]
    """Shape (sum of all sizes,): the arrays of `game.array_specs`, joined in that order."""
    action_mask: NDArray[np.int8]
    """Shape (number of actions,): 1 where legal. Shared and read-only."""


def to_pettingzoo(game: Game, max_turns: int | None = None) -> AECEnv:
    """The game as an `AECEnv` with agents "player_0", "player_1", ...

    Observations are `FlatObservation`s, as PettingZoo's libraries expect one array. Actions are
    numbers in `game.actions`; an illegal one raises IllegalAction and changes nothing. Those who
    move at once commit one after the other and see nothing of it before the last has committed.
    `infos[agent]["observation"]` renders text when asked: `.text(level, since)`.
    """
    return OrderEnforcingWrapper(_GameEnv(game, max_turns))


def make_flat_space(game: Game) -> spaces.Dict:
    """The space of the `FlatObservation`s of this game."""
    specs = game.array_specs.values()
    low = _join([np.full(spec.shape, spec.low, spec.dtype) for spec in specs])
    high = _join([np.full(spec.shape, spec.high, spec.dtype) for spec in specs])
    return spaces.Dict(
        {
            "observation": spaces.Box(low, high, dtype=low.dtype.type),
            "action_mask": spaces.Box(0, 1, (len(game.actions),), np.int8),
        }
    )


def _join(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """All in one vector; a game without arrays has a single 0, as no space may be empty."""
    return np.concatenate([array.ravel() for array in arrays] or [np.zeros(1, np.int8)])


class _GameEnv(AECEnv):  # type: ignore[misc]
    """`MultiAgentEnv`, with one commitment after the other."""

    agent_selection: str

    def __init__(self, game: Game, max_turns: int | None) -> None:
        super().__init__()
        self.arena = MultiAgentEnv(game, max_turns)
        self.metadata = {"name": f"{game.name}_v0", "render_modes": ["ansi"]}
        self.render_mode = "ansi"
        self.possible_agents = [f"player_{player}" for player in self.arena.possible_agents]
        self._player = {agent: player for player, agent in enumerate(self.possible_agents)}
        self.observation_spaces = {agent: make_flat_space(game) for agent in self.possible_agents}
        self.action_spaces = {
            agent: self.arena.action_space(player) for agent, player in self._player.items()
        }

    def observation_space(self, agent: str) -> spaces.Dict:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Json] | None = None) -> None:
        """Begin a game; `options` belongs to the signature and is not used."""
        self.arena.reset(seed=seed)
        self.agents = self.possible_agents.copy()
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._skip_agent_selection = None
        self._begin_round(terminated=False, truncated=False)

    def step(self, action: SupportsIndex | None) -> None:
        """Commit the action of `agent_selection`; None takes an agent that is done off the list.

        Raises IllegalAction, and changes nothing, for an action that is not legal.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if action is None:
            raise IllegalAction(f"{agent} must act: None is for agents that are done")
        player = self._player[agent]
        self.arena.action(player, action)
        self._committed[player] = action
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        waiting = [p for p in self.arena.state.to_act if p not in self._committed]
        if waiting:
            self.agent_selection = self.possible_agents[waiting[0]]
        else:
            self._play_round()
        self._accumulate_rewards()

    def observe(self, agent: str) -> FlatObservation:
        arrays = as_arrays(self.arena.observe(self._player[agent]))
        vector = _join([arrays["observation"][name] for name in self.arena.game.array_specs])
        return {"observation": vector, "action_mask": arrays["action_mask"]}

    def render(self) -> str:
        """The observation of `agent_selection` in words."""
        return self.arena.observe(self._player[self.agent_selection]).text()

    def close(self) -> None:
        """Nothing is held open."""

    def _begin_round(self, *, terminated: bool, truncated: bool) -> None:
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        self.infos = {
            agent: {"observation": self.arena.observe(self._player[agent])} for agent in self.agents
        }
        self._committed: dict[int, SupportsIndex] = {}
        over = terminated or truncated
        self.agent_selection = self.possible_agents[0 if over else self.arena.state.to_act[0]]

    def _play_round(self) -> None:
        before = self.arena.state.returns()
        _, _, terminations, truncations, _ = self.arena.step(self._committed)
        after = self.arena.state.returns()
        for agent, player in self._player.items():
            self.rewards[agent] = after[player] - before[player]
        self._begin_round(terminated=terminations["__all__"], truncated=truncations["__all__"])
