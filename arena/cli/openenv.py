"""`arena openenv`: games as environments of OpenEnv."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from arena.cli.options import ModelOptions, TextOptions, has_models
from arena.cli.terminal import settle_accounts
from arena.core.spec import split_specs
from arena.core.text import pluralize
from arena.llm.config import setting
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.envs.hosting import HostedGame
    from arena.envs.openenv import Scoring, StepRewards
    from arena.episodes.match import Match, Watcher
    from arena.llm.service import LLMService

DRAIN_SECONDS = 5.0
"""Time for running calls after the first signal; a client may play on elsewhere."""
MESSAGE_BYTES = 262_144
"""Largest message or body; a larger one is refused."""
BODIES = 64
"""Bodies of the largest size that may be in progress at once."""


class HostingOptions(TextOptions, ModelOptions):
    """Options of `arena openenv serve`."""

    short_help = (
        "players option text_level opponents reward host port max_sessions session_timeout out"
    )
    help_examples = (
        "arena openenv serve cluedo --opponents bot:detective --port 8000",
        "arena openenv serve kuhn_poker --opponents openai:gpt-4o-mini",
    )

    opponents: list[str] = setting([])
    """SPEC[,SPEC…] of the other seats; too few are repeated. Default: the game's default bot."""
    reward: str = setting("")
    """Terms and weights, e.g. win=1,entropy_removed=0.5. Default: the return."""
    host: str = setting("127.0.0.1")
    """Where to listen; beyond this machine ARENA_API_KEY is needed."""
    port: int = setting(8000, ge=0, le=65535)
    """0 takes a free one."""
    max_sessions: int = setting(64, ge=1)
    """Sessions at the same time; one more is refused."""
    session_timeout: float = setting(1800.0, ge=1)
    """Seconds without a call after which a session ends."""
    turn_seconds: float | None = setting(None, ge=0.01)
    """Time for a decision; then a fallback move is played. Default: none."""
    credit: Literal["game", "judged"] = setting("game")
    """game: the last step has the reward. judged: each step has the value of its decision by exact
    knowledge, as arena train --credit judged counts it, and the last one half of the reward too."""
    out: Path | None = setting(None)
    """Folder for replays. Default: none are kept."""

    @property
    def specs(self) -> list[str]:
        """The SPECs of the opponents."""
        return [spec for text in self.opponents for spec in split_specs(text)]

    def score(self, game: Game) -> Scoring | None:
        """Return the function of the reward. Raises UsageError for an unknown term."""
        from trainers.rewards import Rewards

        return Rewards.parse(self.reward, game).score if self.reward else None

    def step_rewards(self, game: Game) -> StepRewards | None:
        """Return the rewards of --credit. Raises UsageError if the game values no decisions."""
        if self.credit == "game":
            return None
        from arena.envs.openenv import StepRewards
        from trainers.credit import GAME, Credit

        credit = Credit.judged(game)
        return StepRewards(credit.judge, credit.illegal_reward, credit.weights[GAME])


def serve(options: HostingOptions) -> int:
    """Serve a game: a client plays one seat, the opponents the others.

    With ARENA_API_KEY set, in the environment or .env, clients must send it as a bearer token.
    """
    require("arena openenv", ("openenv",), "openenv")
    from arena.envs.hosting import HostedGame
    from arena.episodes.files import ReplayWriter, game_stem

    game, specs, out = options.make_game(), options.specs, options.out
    llm = options.service() if has_models(specs) else None
    chat = options.chat_options(game, specs, options.max_turns, llm) if llm else None

    def watchers(match: Match) -> list[Watcher]:
        return [] if out is None else [ReplayWriter(out, game_stem(game, match.seed))]

    hosted = HostedGame(
        game,
        specs,
        options.text_level,
        options.max_turns,
        chat,
        llm,
        watchers,
        options.turn_seconds,
    )
    asyncio.run(_serve(hosted, options, llm))
    settle_accounts(llm, out, "run")
    return 0


async def _serve(hosted: HostedGame, server: HostingOptions, llm: LLMService | None) -> None:
    """Serve until a signal. Raises UsageError for a public address without a key."""
    from arena.envs.openenv import make_app
    from arena.http.access import Guard
    from arena.http.server import ListeningSocket, run_server

    served = make_app(
        hosted,
        server.score(hosted.game),
        server.step_rewards(hosted.game),
        max_sessions=server.max_sessions,
        session_timeout=server.session_timeout,
    )
    async with llm or nullcontext():
        with ListeningSocket(server.host, server.port) as listener:
            players = hosted.game.num_players
            greeting = (
                f"Serving {hosted.game.name} on {listener.url} "
                f"({pluralize(players, 'seat')}; opponents: "
                f"{', '.join(hosted.specs) if players > 1 else 'none'}; at most "
                f"{pluralize(server.max_sessions, 'session')})"
            )
            await run_server(
                Guard(served, listener.key, BODIES * MESSAGE_BYTES),
                listener,
                greeting,
                drain_seconds=DRAIN_SECONDS,
                websocket_bytes=MESSAGE_BYTES,
            )
