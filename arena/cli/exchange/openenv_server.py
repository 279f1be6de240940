"""The server of `arena openenv serve`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pydantic import SecretStr

from arena.core.errors import ArenaError
from arena.core.text import pluralize
from arena.envs.openenv.app import make_app
from arena.envs.openenv.host import HostedGame
from arena.http.access import AccessControl, BodyLimit
from arena.http.server import bind_socket, resolve_address, run_server, server_key, server_url
from arena.llm.service import LLMService

DRAIN_SECONDS = 5.0
"""Time for running calls after the first signal; a client may play on elsewhere."""
BODIES = 64
"""Bodies of the largest size that may be in progress at once."""


@dataclass(frozen=True, slots=True)
class ServedGame:
    """A hosted game, its address and its limits."""

    hosted: HostedGame
    host: str
    port: int
    token: str
    """Bearer token; empty for the variable ARENA_API_KEY."""
    max_sessions: int
    session_timeout: float
    max_message_bytes: int


def serve_game(served: ServedGame, llm: LLMService | None) -> int:
    """Serve until a signal, close the service and return the exit code.

    Raises ArenaError if the address cannot be used, UsageError for a public one without a token.
    """
    address = resolve_address(served.host)
    key = SecretStr(served.token) if served.token else server_key(served.host, address)
    app = make_app(
        served.hosted, max_sessions=served.max_sessions, session_timeout=served.session_timeout
    )
    guarded = AccessControl(BodyLimit(app, BODIES * served.max_message_bytes), key)
    with bind_socket(address, served.port) as listener:
        url = server_url(listener)
        game = served.hosted.game
        others = ", ".join(served.hosted.specs) if game.num_players > 1 else "none"
        greeting = (
            f"Serving {game.name} on {url} ({pluralize(game.num_players, 'seat')}; opponents: "
            f"{others}; at most {pluralize(served.max_sessions, 'session')})"
        )

        async def serve() -> None:
            try:
                await run_server(
                    guarded,
                    listener,
                    greeting,
                    drain_seconds=DRAIN_SECONDS,
                    announce_drain=False,
                    websocket_bytes=served.max_message_bytes,
                )
            finally:
                if llm is not None:
                    await llm.close()

        try:
            asyncio.run(serve())
        except OSError as error:
            raise ArenaError(f"cannot serve on {url}: {error.strerror}") from error
    return 0
