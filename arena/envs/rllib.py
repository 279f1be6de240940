"""RLlib environment of any game, and PPO with action masking for it (extra `rllib`).

from arena.envs.rllib import masked_ppo

algorithm = masked_ppo("kuhn_poker").build_algo()
for _ in range(10):
    algorithm.train()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex, TypedDict

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import JsonValue

from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game
from arena.envs import multi_agent
from arena.envs.gymnasium import flat_bounds, flatten
from arena.plugins.catalog import require
from arena.plugins.loader import make_game

require("arena.envs.rllib", ["ray", "torch"], "rllib")
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig  # noqa: E402
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec  # noqa: E402
from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: E402
from ray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: E402
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import (  # noqa: E402
    ActionMaskingTorchRLModule,
)

SHARED = "shared"
"""Name of the module that plays all seats in `masked_ppo`."""


class MaskedVector(TypedDict):
    """One observation, with the keys that RLlib's `ActionMaskingTorchRLModule` reads."""

    observations: NDArray[np.float32]
    """Shape (sum of all sizes,): the arrays of `game.arrays.specs`, joined in that order."""
    action_mask: NDArray[np.float32]
    """Shape (number of actions,): 1 where legal."""


RLlibResult = tuple[
    dict[int, MaskedVector],
    dict[int, float],
    dict[int | str, bool],
    dict[int | str, bool],
    dict[int, dict[str, JsonValue]],
]
"""Observations, rewards, terminations, truncations, infos (empty)."""


class RLlibEnv(MultiAgentEnv):  # type: ignore[misc]
    """A game as RLlib's `MultiAgentEnv`. Agents are the seats, from 0.

    Keys, rewards and ends are those of `arena.MultiAgentEnv`. Observations are one float32 vector
    with its mask, and the infos are empty. An illegal action does not raise an error but forfeits,
    because RLlib's own check samples actions without a mask: the game ends, and the reward of that
    player is -1.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Create the environment from RLlib's `env_config`.

        Args:
            config: `{"game": NAME or Game, "options": {...}, "max_turns": N}`; only `game` is
                needed.

        Raises:
            UsageError: The game is missing or unknown, or an argument does not fit it.
        """
        super().__init__()
        given = dict(config or {})
        game = given.get("game")
        if isinstance(game, str):
            game = make_game(game, **given.get("options", {}))
        if not isinstance(game, Game):
            raise UsageError(f"env_config has game={game!r}: give a game or the name of one")
        self.arena = multi_agent.MultiAgentEnv(game, given.get("max_turns"))
        self.possible_agents = self.arena.possible_agents
        # RLlib's checks compare the keys of the last step with the agents, so they stay.
        self.agents = self.possible_agents.copy()
        self.observation_spaces = {player: masked_vectors(game) for player in self.agents}
        self.action_spaces = dict(self.arena.action_spaces)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[dict[int, MaskedVector], dict[int, dict[str, JsonValue]]]:
        """Start a game; see `arena.MultiAgentEnv.reset`. `options` is not used."""
        observations, _ = self.arena.reset(seed=seed)
        return self._flatten(observations), {player: {} for player in observations}

    def step(self, action_dict: Mapping[int, SupportsIndex]) -> RLlibResult:
        """Apply the actions of the players who must act; see `arena.MultiAgentEnv.step`."""
        for player, action in action_dict.items():
            try:
                self.arena.action(player, action)
            except IllegalAction:
                return self._forfeit(player)
        observations, rewards, terminations, truncations, _ = self.arena.step(action_dict)
        return (
            self._flatten(observations),
            rewards,
            terminations,
            truncations,
            {player: {} for player in observations},
        )

    def _forfeit(self, loser: int) -> RLlibResult:
        """End the game by an illegal action of one player."""
        self.arena.agents = []
        # The game itself could go on, but after the forfeit no action is legal.
        mask = self.arena.game.no_actions.mask
        last: dict[int, multi_agent.ArrayObservation] = {
            player: {"observation": self.arena.observe(player).arrays(), "action_mask": mask}
            for player in self.agents
        }
        keys: list[int | str] = [*self.agents, "__all__"]
        return (
            self._flatten(last),
            {player: -1.0 if player == loser else 0.0 for player in self.agents},
            dict.fromkeys(keys, True),
            dict.fromkeys(keys, False),
            {player: {} for player in self.agents},
        )

    def _flatten(
        self, observations: Mapping[int, multi_agent.ArrayObservation]
    ) -> dict[int, MaskedVector]:
        return {
            player: {
                # Networks expect floats, while the game's arrays are small integers.
                "observations": flatten(self.arena.game, seen["observation"]).astype(np.float32),
                "action_mask": seen["action_mask"].astype(np.float32),
            }
            for player, seen in observations.items()
        }


def masked_vectors(game: Game) -> spaces.Dict:
    """Return the space of `MaskedVector` observations of a game."""
    low, high = (bound.astype(np.float32) for bound in flat_bounds(game))
    return spaces.Dict(
        {
            "observations": spaces.Box(low, high, dtype=np.float32),
            "action_mask": spaces.Box(0.0, 1.0, (len(game.actions),), np.float32),
        }
    )


def masked_ppo(
    game: str | Game,
    max_turns: int | None = None,
    hidden: tuple[int, ...] = (64, 64),
    **options: Any,
) -> PPOConfig:
    """Return the configuration of PPO in self-play: one module plays all seats.

    The module is RLlib's `ActionMaskingTorchRLModule`. The result is an ordinary `PPOConfig`, which
    may be changed further.

    Args:
        game: A game, or the name of one.
        max_turns: Turns after which a game is truncated; by default the game's own limit.
        hidden: Sizes of the hidden layers.
        options: Options of the game, if it is given by name.

    Raises:
        UsageError: An argument does not fit the game.
    """
    game = make_game(game, **options)
    module = RLModuleSpec(
        module_class=ActionMaskingTorchRLModule,
        observation_space=masked_vectors(game),
        action_space=spaces.Discrete(len(game.actions)),
        model_config=DefaultModelConfig(fcnet_hiddens=list(hidden), vf_share_layers=False),
    )
    return (
        PPOConfig()
        .environment(RLlibEnv, env_config={"game": game, "max_turns": max_turns})
        .multi_agent(policies={SHARED}, policy_mapping_fn=_play_all)
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={SHARED: module}))
    )


def _play_all(agent: int, episode: object, **kwargs: object) -> str:
    """Map every seat to the shared module."""
    return SHARED
