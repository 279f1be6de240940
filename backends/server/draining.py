"""uvicorn, taught to end well and to wait for nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from backends.server.errors import RETRY_AFTER, ApiError

HEAD_SECONDS = 15.0
"""For the head of a connection's first request."""


class PromptProtocol(H11Protocol):
    """Ends a connection that sends no whole head of a request in time; uvicorn would wait for it.

    It is also what makes the server the same whichever parsers are installed beside uvicorn.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_SECONDS, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None:
            self._late.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)


class DrainingServer(uvicorn.Server):
    """Ends with exit code 0 after the first signal, once what runs is finished; at the second, now.

    uvicorn itself raises the signal again after draining, and so ends with its code.
    """

    def __init__(self, config: uvicorn.Config, greeting: str) -> None:
        super().__init__(config)
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._greeting, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            sys.stderr.flush()
            os._exit(128 + sig)
        self.should_exit = True
        if running := len(self.server_state.tasks):
            name = signal.Signals(sig).name
            told = f"{name}: finishing what runs ({running}); again ends at once\n"
            os.write(sys.stderr.fileno(), told.encode())  # Safe wherever the signal came between.


class CutShort:
    """Answers requests that are still running when the time for draining is over.

    Nobody but uvicorn, at that moment, cancels a whole request. An answer that has begun is simply
    cut off, which its client notices.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except asyncio.CancelledError:
            if not begun:
                headers = {"Retry-After": RETRY_AFTER}
                gone = ApiError(503, "the server is shutting down", headers=headers)
                await gone.response(scope, receive, send)
