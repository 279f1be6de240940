"""The web application of a hosted game."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.mcp_types import CallToolAction, JsonRpcErrorCode
from openenv.core.env_server.types import ConcurrencyConfig, WSErrorCode

from arena.core.errors import ArenaError, UsageError
from arena.envs.hosting import HostedGame, SharedEpisodes
from arena.envs.openenv.environment import GameEnvironment
from arena.envs.openenv.protocol import (
    EpisodeRequest,
    GameObservation,
    GameState,
    OpenEpisode,
)

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_SESSIONS = 64
SESSION_SECONDS = 1800.0


def make_app(
    host: HostedGame,
    *,
    max_sessions: int = MAX_SESSIONS,
    session_timeout: float = SESSION_SECONDS,
) -> FastAPI:
    """Return OpenEnv's application for a game: `/ws`, `/mcp`, `/schema`, `/health` and more.

    Args:
        host: What is played.
        max_sessions: Sessions at the same time; one more gets the error CAPACITY_REACHED.
        session_timeout: Seconds without a call after which a session ends and frees its slot. A
            connection that breaks frees it at once.

    Raises:
        UsageError: The time for one decision is not shorter than `session_timeout`.
    """
    if host.turn_seconds is not None and host.turn_seconds >= session_timeout:
        raise UsageError(
            f"{host.turn_seconds:g} seconds for a decision: give less than the {session_timeout:g} "
            "after which a silent session ends"
        )
    episodes = SharedEpisodes(host)
    app = create_fastapi_app(
        partial(GameEnvironment, host, episodes),
        CallToolAction,
        GameObservation,
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=max_sessions, session_timeout=session_timeout
        ),
        env_name=host.game.name.replace("/", "-"),
        state_cls=GameState,
    )
    # The WebSocket reports errors itself; over HTTP they would be a status 500 with a traceback.
    app.add_exception_handler(ArenaError, _answer_error)
    app.add_middleware(CheckedSocket)

    async def open_episode(wanted: EpisodeRequest) -> OpenEpisode:
        """Open an episode for several sessions; each joins with the token of its seat."""
        episode = episodes.open(wanted.seats, wanted.seed)
        return OpenEpisode(episode_id=episode.id, tokens=episode.tokens)

    app.add_api_route("/episodes", open_episode, methods=["POST"])
    return app


NO_OBJECT = 'a message is the text of a JSON object, for example {"type": "reset", "data": {}}'


class CheckedSocket:
    """ASGI middleware for two cases in which OpenEnv's endpoints of a WebSocket fail.

    A message that is no JSON object (`[]`, bytes) would end the connection with an error of Python;
    it is answered here. After a client has gone, the report of the failure fails too, and the log
    would get a traceback for each client that vanishes; the connection ends without one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_gone = False

        async def watched_receive() -> Message:
            nonlocal is_gone
            while True:
                message = await receive()
                is_gone = is_gone or message["type"] == "websocket.disconnect"
                text = message.get("text") or ""
                if message["type"] != "websocket.receive" or text.lstrip().startswith("{"):
                    return message
                await watched_send({"type": "websocket.send", "text": _no_object(scope)})

        async def watched_send(message: Message) -> None:
            nonlocal is_gone
            try:
                await send(message)
            except Exception:  # The servers' errors for a closed connection have no common class.
                is_gone = True
                raise

        try:
            await self.app(scope, watched_receive, watched_send)
        except Exception:
            if scope["type"] != "websocket" or not is_gone:
                raise


def _no_object(scope: Scope) -> str:
    """Return the error of a message that is no JSON object, as the endpoint reports errors."""
    if scope["path"].endswith("/mcp"):
        error = {"code": JsonRpcErrorCode.INVALID_REQUEST.value, "message": NO_OBJECT}
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    data = {"message": NO_OBJECT, "code": WSErrorCode.INVALID_JSON.value}
    return json.dumps({"type": "error", "data": data})


async def _answer_error(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 400 if isinstance(error, UsageError) else 409)
