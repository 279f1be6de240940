"""PettingZoo environments of any game: one agent at a time (AEC), or all agents in parallel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex, TypedDict

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from arena.core.errors import IllegalAction, MissingDependency
from arena.core.game import Game
from arena.envs.gymnasium import flat_bounds, flatten
from arena.envs.multi_agent import MultiAgentEnv, PlayerInfo, masked_space
from arena.plugins.catalog import install_command

try:
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils.wrappers import OrderEnforcingWrapper
except ModuleNotFoundError as error:
    raise MissingDependency(
        f"the package '{error.name}' is not installed: {install_command('pettingzoo')}"
    ) from error


class FlatObservation(TypedDict):
    """One observation in the form that PettingZoo's libraries expect."""

    observation: NDArray[Any]
    """Shape (sum of all sizes,): the arrays of `game.arrays.specs`, joined in that order."""
    action_mask: NDArray[np.int8]
    """Shape (number of actions,): 1 where legal. Shared and read-only."""


def to_pettingzoo(game: Game, max_turns: int | None = None) -> AECEnv:
    """Return the game as an `AECEnv` with agents "player_0", "player_1", ...

    Observations are `FlatObservation`s, because PettingZoo's libraries expect one array. Actions
    are numbers in `game.actions`; an illegal one raises IllegalAction and changes nothing. Players
    who move simultaneously commit one after the other and see no action before the last one has
    committed. `infos[agent]["observation"]` renders text on request: `.text(level, since)`.

    Raises:
        UsageError: `max_turns` is not a whole number from 1.
    """
    return OrderEnforcingWrapper(_SequentialEnv(game, max_turns))


def to_parallel_pettingzoo(game: Game, max_turns: int | None = None) -> ParallelEnv:
    """Return the game as a `ParallelEnv` with agents "player_0", "player_1", ...

    Made for games with simultaneous moves. In a game in which players take turns, every agent
    still gets an observation at every step: an agent that is not to act has an `action_mask` of
    zeros, and `step` ignores its action. All agents are done at the same step.

    Observations, actions and infos are those of `to_pettingzoo`. `step` raises IllegalAction for
    an illegal action and UsageError if an agent that must act has no action; nothing has changed
    then.

    Raises:
        UsageError: `max_turns` is not a whole number from 1.
    """
    return _SimultaneousEnv(game, max_turns)


class _Seats:
    """Agents, spaces and observations, which both environments have in common."""

    arena: MultiAgentEnv

    def _set_up(self, game: Game, max_turns: int | None) -> None:
        self.arena = MultiAgentEnv(game, max_turns)
        self.metadata = {"name": f"{game.name}_v0", "render_modes": ["ansi"]}
        self.render_mode = "ansi"
        self.possible_agents = [f"player_{player}" for player in self.arena.possible_agents]
        self.agents: list[str] = []
        self._player = {agent: player for player, agent in enumerate(self.possible_agents)}
        low, high = flat_bounds(game)
        # One object per agent: users seed a space and expect to get the same one again.
        self.observation_spaces = {
            agent: masked_space(game, spaces.Box(low, high, dtype=low.dtype.type))
            for agent in self.possible_agents
        }
        self.action_spaces = {
            agent: self.arena.action_space(player) for agent, player in self._player.items()
        }

    def observation_space(self, agent: str) -> spaces.Dict:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def observe(self, agent: str) -> FlatObservation:
        """Return what this agent may know now."""
        observation = self.arena.observe(self._player[agent])
        vector = flatten(self.arena.game, observation.arrays())
        return {"observation": vector, "action_mask": observation.legal_actions.mask}

    def _play(self, actions: Mapping[int, SupportsIndex]) -> tuple[dict[str, float], bool, bool]:
        """Apply the actions; return rewards, and whether the game is terminated or truncated.

        All agents are paid, not only those who moved.
        """
        self.arena.move(actions)
        earned = self.arena.pay(self.arena.possible_agents)
        rewards = dict(zip(self.possible_agents, earned.values(), strict=True))
        return rewards, self.arena.terminated, self.arena.truncated

    def _infos(self) -> dict[str, PlayerInfo]:
        return {
            agent: {"observation": self.arena.observe(player)}
            for agent, player in self._player.items()
        }


class _SequentialEnv(_Seats, AECEnv):  # type: ignore[misc]
    """`MultiAgentEnv` in which one agent at a time commits its action."""

    agent_selection: str

    def __init__(self, game: Game, max_turns: int | None) -> None:
        super().__init__()
        self._set_up(game, max_turns)

    def reset(self, seed: int | None = None, options: Mapping[str, object] | None = None) -> None:
        """Start a game; `options` is part of the signature and not used."""
        self.arena.reset(seed=seed)
        self.agents = self.possible_agents.copy()
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._skip_agent_selection = None
        self._start_round(terminated=False, truncated=False)

    def step(self, action: SupportsIndex | None) -> None:
        """Commit the action of `agent_selection`; None removes an agent that is done.

        Raises IllegalAction, and changes nothing, for an action that is not legal.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if action is None:
            raise IllegalAction(f"{agent} must act: only terminated agents accept None")
        player = self._player[agent]
        self.arena.action(player, action)  # Raises IllegalAction.
        # Kept until all have committed: applied earlier, it could be seen by those who still
        # choose.
        self._committed[player] = action
        # PettingZoo's rule: the reward since this agent's last step was delivered by `last()`.
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        waiting = [p for p in self.arena.state.to_act if p not in self._committed]
        if waiting:
            self.agent_selection = self.possible_agents[waiting[0]]
        else:
            self.rewards, terminated, truncated = self._play(self._committed)
            self._start_round(terminated=terminated, truncated=truncated)
        self._accumulate_rewards()

    def render(self) -> str:
        """Return the observation of `agent_selection` as text."""
        return self.arena.observe(self._player[self.agent_selection]).text()

    def _start_round(self, *, terminated: bool, truncated: bool) -> None:
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        self.infos = self._infos()
        self._committed: dict[int, SupportsIndex] = {}
        over = terminated or truncated
        # At the end each agent is stepped once with None, which removes it.
        self.agent_selection = self.possible_agents[0 if over else self.arena.state.to_act[0]]


class _SimultaneousEnv(_Seats, ParallelEnv):  # type: ignore[misc]
    """`MultiAgentEnv` in which all agents get an observation and give an action at every step."""

    def __init__(self, game: Game, max_turns: int | None) -> None:
        self._set_up(game, max_turns)

    def reset(
        self, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[dict[str, FlatObservation], dict[str, PlayerInfo]]:
        """Start a game; `options` is part of the signature and not used."""
        self.arena.reset(seed=seed)
        self.agents = self.possible_agents.copy()
        return {agent: self.observe(agent) for agent in self.agents}, self._infos()

    def step(
        self, actions: Mapping[str, SupportsIndex]
    ) -> tuple[
        dict[str, FlatObservation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, PlayerInfo],
    ]:
        """Apply the actions of the agents who must act; the actions of others are ignored."""
        acting = self.arena.state.to_act
        chosen = {self._player[agent]: action for agent, action in actions.items()}
        rewards, terminated, truncated = self._play(
            {player: action for player, action in chosen.items() if player in acting}
        )
        agents = self.possible_agents
        self.agents = agents.copy() if self.arena.agents else []
        return (
            {agent: self.observe(agent) for agent in agents},
            rewards,
            dict.fromkeys(agents, terminated),
            dict.fromkeys(agents, truncated),
            self._infos(),
        )

    def render(self) -> str:
        """Return the observation of the first player as text."""
        return self.arena.observe(0).text()
