"""Games behind the interfaces of Gymnasium, PettingZoo, RLlib and Stable-Baselines3."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.core.game import Game
    from arena.envs.vector_env import VectorMultiAgentEnv


def vector(
    game: str | Game, num_envs: int, max_turns: int | None = None, **options: JsonValue
) -> VectorMultiAgentEnv:
    """Return `num_envs` games of the same rules that are played at once, as arrays.

        env = arena.envs.vector("kuhn_poker", num_envs=1024)
        observations, infos = env.reset(seed=7)

    Args:
        game: A game, or the name of one.
        num_envs: Number of games.
        max_turns: Turns after which a game is truncated; by default the game's own limit.
        options: Options of the game, if it is given by name.

    Raises:
        UsageError: An argument does not fit the game.
    """
    # Imported here: Gymnasium takes longer to import than the rest of arena.
    from arena.core.errors import UsageError
    from arena.envs.vector_env import VectorMultiAgentEnv
    from arena.plugins.loader import make_game

    if isinstance(game, str):
        game = make_game(game, **options)
    elif options:
        raise UsageError(f"{game!r} has its options already; leave out {', '.join(options)}")
    return VectorMultiAgentEnv(game, num_envs, max_turns)
