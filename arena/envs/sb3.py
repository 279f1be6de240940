"""Stable-Baselines3 on one seat of any game (extra `sb3`).

`masked_ppo` makes MaskablePPO of sb3-contrib with environments of one game each:

    from arena.envs.sb3 import masked_ppo, mean_return

    model = masked_ppo("kuhn_poker", seed=0)
    model.learn(20_000)
    print(mean_return(model, games=1000, seed=10**6))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.core.game import Game
from arena.envs.gymnasium import FlatActionMaskEnv, SingleAgentEnv
from arena.plugins.catalog import require
from arena.plugins.loader import make_game

require("arena.envs.sb3", ["stable_baselines3", "sb3_contrib"], "sb3")
from sb3_contrib import MaskablePPO  # noqa: E402
from stable_baselines3.common.utils import set_random_seed  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402


class MeanReturn(NamedTuple):
    """Mean return of games, with the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float
    games: int


def masked_env(
    game: str | Game,
    player: int = 0,
    opponents: str | Sequence[str] = "bot:random",
    max_turns: int | None = None,
    **options: JsonValue,
) -> FlatActionMaskEnv:
    """Return one seat of a game as a flat float32 vector with `action_masks()`.

    The arguments are those of `SingleAgentEnv`. By default the opponents are random bots, which are
    fast.

    Raises:
        UsageError: An argument does not fit the game.
    """
    return FlatActionMaskEnv(
        SingleAgentEnv(game, player, opponents, max_turns, render_mode=None, **options)
    )


def masked_ppo(
    game: str | Game,
    num_envs: int = 8,
    player: int = 0,
    opponents: str | Sequence[str] = "bot:random",
    max_turns: int | None = None,
    seed: int | None = None,
    settings: dict[str, Any] | None = None,
    **options: JsonValue,
) -> MaskablePPO:
    """Return a MaskablePPO that is to learn one seat of a game, with `num_envs` environments.

    The games are played in turns. `seed` is that of the deals and of the learner, `settings` are
    arguments of `MaskablePPO`, such as `{"n_steps": 512}`, and the others those of `masked_env`.

    Raises:
        UsageError: An argument does not fit the game.
    """
    game = make_game(game, **options)

    def make() -> FlatActionMaskEnv:
        return masked_env(game, player, opponents, max_turns)

    # A game has a natural end, so returns are not discounted.
    chosen = {"gamma": 1.0, "seed": seed, **(settings or {})}
    return MaskablePPO("MlpPolicy", DummyVecEnv([make] * num_envs), **chosen)


def mean_return(
    model: MaskablePPO, games: int, seed: int, *, deterministic: bool = False
) -> MeanReturn:
    """Return what the model earns against its opponents in the games of consecutive seeds.

    Where a win returns 1 and a loss 0, as in Cluedo, this is the win rate. The interval is the
    normal one. Seeds the global generators, so that equal calls give equal results.

    Raises:
        UsageError: There are fewer than two games, or the model has no environment of arena.
    """
    if games < 2:
        raise UsageError(f"games={games}: an interval needs two or more")
    env = _fresh_env(model)
    # A policy draws its actions from the generators of the process.
    set_random_seed(seed % 2**32)
    earned = [_play(model, env, seed + number, deterministic) for number in range(games)]
    mean = float(np.mean(earned))
    half = 1.96 * float(np.std(earned, ddof=1)) / math.sqrt(games)
    return MeanReturn(mean, mean - half, mean + half, games)


def _fresh_env(model: MaskablePPO) -> FlatActionMaskEnv:
    """Return an environment like those of the model, whose own games it does not disturb."""
    own = model.get_env()
    inner = own.envs[0].unwrapped if isinstance(own, DummyVecEnv) else None
    if not isinstance(inner, SingleAgentEnv):
        raise UsageError("the model has no environment of arena: make it with masked_ppo")
    opponents = [spec for seat, spec in enumerate(inner.specs) if seat != inner.player]
    return masked_env(inner.env.game, inner.player, opponents, inner.env.max_turns)


def _play(model: MaskablePPO, env: FlatActionMaskEnv, seed: int, deterministic: bool) -> float:
    """Return the return of one game."""
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        masks = env.action_masks()
        action, _ = model.predict(observation, action_masks=masks, deterministic=deterministic)
        observation, reward, terminated, truncated, _ = env.step(int(action))
        total, over = total + float(reward), terminated or truncated
    return total
