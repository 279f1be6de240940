"""PPO of RLlib plays all seats of a game against itself, with masked actions.

pip install 'ray[rllib]==2.60.0'
python docs/examples/rllib_self_play.py --game kuhn_poker --iterations 12
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import ray
import torch
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule

import arena

SHARED = "shared"  # Name of the module that plays all seats.


class SelfPlayEnv(MultiAgentEnv):  # type: ignore[misc]
    """A game with the keys that `ActionMaskingTorchRLModule` reads; agents are the seats."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.game = arena.MultiAgentEnv(arena.make_game(config["game"]))
        self.agents = self.possible_agents = self.game.possible_agents
        self._arrays = self.game.observation_space(0)["observation"]
        length, actions = spaces.flatdim(self._arrays), len(self.game.game.actions)
        floats = spaces.Box(-np.inf, np.inf, (length,))  # The game's arrays are integers.
        seen = {"observations": floats, "action_mask": spaces.Box(0.0, 1.0, (actions,))}
        self.observation_spaces = dict.fromkeys(self.agents, spaces.Dict(seen))
        self.action_spaces = dict(self.game.action_spaces)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """Start a game; return the observations of the players who must act."""
        observations, _ = self.game.reset(seed=seed)
        return self._flat(observations), {}

    def step(self, action_dict: Mapping[int, int]) -> tuple[Any, ...]:
        """Apply one action of each player who must act."""
        observations, rewards, terminations, truncations, _ = self.game.step(action_dict)
        return self._flat(observations), rewards, terminations, truncations, {}

    def _flat(self, observations: Mapping[int, Any]) -> dict[int, dict[str, Any]]:
        flat = {}
        for player, seen in observations.items():
            vector = spaces.flatten(self._arrays, seen["observation"]).astype(np.float32)
            mask = seen["action_mask"].astype(np.float32)
            flat[player] = {"observations": vector, "action_mask": mask}
        return flat


def configuration(game: str) -> PPOConfig:
    """Return the configuration of PPO with one module for all seats."""
    env = SelfPlayEnv({"game": game})
    layers = DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False)
    seen, acts = env.observation_spaces[0], env.action_spaces[0]
    module = RLModuleSpec(ActionMaskingTorchRLModule, seen, acts, model_config=layers)
    return (
        PPOConfig()
        .environment(SelfPlayEnv, env_config={"game": game})
        .multi_agent(policies={SHARED}, policy_mapping_fn=lambda *_, **__: SHARED)
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={SHARED: module}))
        .env_runners(num_env_runners=0)
        .training(lr=3e-3, gamma=1.0, entropy_coeff=0.01, num_epochs=6)
        .training(train_batch_size_per_learner=800, minibatch_size=200)
        .debugging(seed=0)
    )


def mean_return(module: Any, game: str, games: int = 2000) -> float:
    """Return the mean return of each seat in turn, with random players in the others."""
    env, rng, total = SelfPlayEnv({"game": game}), np.random.default_rng(0), 0.0
    for number in range(games):
        learner = number % len(env.agents)
        observations, _ = env.reset(seed=2**31 + number)
        while env.game.agents:
            actions = {}
            for player, seen in observations.items():
                scores = np.log(seen["action_mask"] + 1e-30)
                if player == learner:
                    obs = {name: torch.as_tensor(array)[None] for name, array in seen.items()}
                    with torch.no_grad():
                        scores = module.forward_inference({"obs": obs})["action_dist_inputs"][0]
                # The largest sum with Gumbel noise is a sample of the softmax of the scores.
                actions[player] = int(np.argmax(np.asarray(scores) + rng.gumbel(size=len(scores))))
            observations, rewards, *_ = env.step(actions)
            total += rewards.get(learner, 0.0)
    return total / games


def main() -> None:
    """Train, and print the mean return before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="kuhn_poker")
    parser.add_argument("--iterations", type=int, default=12)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    # "local": a cluster that already runs on this machine may belong to another user.
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    algorithm = configuration(flags.game).build_algo()
    before = mean_return(algorithm.get_module(SHARED), flags.game)
    for _ in range(flags.iterations):
        algorithm.train()
    after = mean_return(algorithm.get_module(SHARED), flags.game)
    algorithm.stop()
    print(f"mean return: {before:+.3f} before, {after:+.3f} after the training")


if __name__ == "__main__":
    main()
