"""MaskablePPO of Stable-Baselines3 learns one seat of a game against bots.

pip install sb3-contrib==2.9.2 stable-baselines3==2.9.2
python docs/examples/sb3_masked_ppo.py --game arena/KuhnPoker-v0 --steps 20000
python docs/examples/sb3_masked_ppo.py --game arena/Cluedo-v0 --options '{"players": 2,
  "suspects": 2, "weapons": 2, "rooms": 2}'
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

import arena


def seat(game: str, opponents: str, options: dict[str, Any]) -> arena.FlatActionMaskEnv:
    """Return seat 0 of a game as one float32 vector with `action_masks()`."""
    return arena.FlatActionMaskEnv(gymnasium.make(game, opponents=opponents, **options))


def mean_return(model: MaskablePPO, env: arena.FlatActionMaskEnv, games: int, seed: int) -> str:
    """Return the mean return of games with consecutive seeds, with its 95 % interval.

    Where a win returns 1 and a loss 0, as in Cluedo, this is the share of games won.
    """
    set_random_seed(seed % 2**32)  # A policy draws its actions from the generators of the process.
    returns = []
    for number in range(games):
        observation, _ = env.reset(seed=seed + number)
        earned, over = 0.0, False
        while not over:
            action, _ = model.predict(observation, action_masks=env.action_masks())
            observation, reward, terminated, truncated, _ = env.step(int(action))
            earned, over = earned + float(reward), terminated or truncated
        returns.append(earned)
    half = 1.96 * float(np.std(returns, ddof=1)) / games**0.5
    return f"{np.mean(returns):+.3f} ± {half:.3f}"


def main() -> None:
    """Train, and print the mean return before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="arena/KuhnPoker-v0", help="Gymnasium's id of a game")
    parser.add_argument("--options", type=json.loads, default={}, help="the game's, as JSON")
    parser.add_argument("--opponents", default="bot:random", help="SPEC of the other seats")
    parser.add_argument("--steps", type=int, default=20_000, help="moves of the learner")
    parser.add_argument("--games", type=int, default=1000, help="games of a measurement")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="runs/sb3.zip")
    flags = parser.parse_args()

    torch.set_num_threads(1)
    given = flags.game, flags.opponents, flags.options
    model = MaskablePPO(
        "MlpPolicy",
        DummyVecEnv([lambda: seat(*given)] * 8),
        n_steps=128,
        batch_size=256,
        learning_rate=1e-3,
        gamma=1.0,  # A game has a natural end.
        seed=flags.seed,
    )
    # The games of the training have seeds below 2**31.
    before = mean_return(model, seat(*given), flags.games, seed=2**31)
    model.learn(flags.steps)
    model.save(flags.out)
    after = mean_return(model, seat(*given), flags.games, seed=2**31)
    print(f"mean return of {flags.games} games: {before} before, {after} after the training")


if __name__ == "__main__":
    main()
