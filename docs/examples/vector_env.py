"""Many games at once with Gymnasium's own `SyncVectorEnv`.

python docs/examples/vector_env.py --envs 64 --steps 2000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

import arena


def single_seat(game: str) -> gymnasium.Env[NDArray[np.float32], int]:
    """Return one seat of a game against random bots, with a flat observation."""
    return arena.FlatActionMaskEnv(gymnasium.make(game, opponents="bot:random"))


def random_legal(masks: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw one legal action for each row of the masks; any action where none is legal."""
    return np.argmax(rng.random(masks.shape) + masks, axis=1)


def main() -> None:
    """Play random legal moves; print the speed and the mean return of a game."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="arena/LeducPoker-v0", help="Gymnasium's id of a game")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()

    make: Callable[[], gymnasium.Env[NDArray[np.float32], int]] = partial(single_seat, flags.game)
    # In the same step, an ended game is followed by the first observation of the next one.
    env = SyncVectorEnv([make] * flags.envs, autoreset_mode=AutoresetMode.SAME_STEP)
    rng = np.random.default_rng(flags.seed)
    _, infos = env.reset(seed=flags.seed)  # Game i has the seed `seed + i`.
    earned, games, start = 0.0, 0, time.perf_counter()
    for _ in range(flags.steps):
        masks = np.stack(infos["action_mask"]).astype(bool)
        _, rewards, terminations, truncations, infos = env.step(random_legal(masks, rng))
        earned += float(rewards.sum())
        games += int((terminations | truncations).sum())
    moves = flags.steps * flags.envs
    speed = moves / (time.perf_counter() - start)
    print(f"{games} games, {speed:,.0f} moves a second, mean return {earned / games:+.3f}")


if __name__ == "__main__":
    main()
