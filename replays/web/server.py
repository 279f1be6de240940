"""The server as a process: where it listens, what it says, how it ends."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from types import FrameType

import uvicorn

from arena.core.errors import UsageError
from replays.web.app import make_app
from replays.web.listing import no_replay
from replays.web.replay_directory import Root

HOST = "127.0.0.1"
"""Nowhere else: there is no key, and replays tell what models were sent."""
GRACE_SECONDS = 1


class PageServer(uvicorn.Server):
    """Says where it is once it is there, and ends with exit code 0: Ctrl-C is how it is ended.

    uvicorn itself raises the signal again after ending, and so ends with its code.
    """

    def __init__(self, config: uvicorn.Config, greeting: str) -> None:
        super().__init__(config)
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._greeting, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)  # A replay that is being read would have to be waited for.
        self.should_exit = True


def run(path: Path, port: int, place: str = "") -> int:
    """Serve until a signal; the exit code."""
    root = Root(path)
    if root.only is not None and (error := no_replay(root)):
        raise UsageError(f"{path}: {error}")
    with listen(port) as listener:
        url = f"http://{HOST}:{listener.getsockname()[1]}/{place}"
        greeting = f"Looking at {path}: open {url} in a browser; Ctrl-C ends it"
        config = uvicorn.Config(
            make_app(root),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        asyncio.run(PageServer(config, greeting).serve(sockets=[listener]))
    return 0


def listen(port: int) -> socket.socket:
    """Raises UsageError if the port cannot be had.

    The protocol is given, since asyncio turns Nagle's algorithm off only for sockets that say so.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # On Windows this would let two servers share a port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UsageError(
            f"--port {port}: cannot listen there ({error.strerror}); "
            "choose another, or 0 for any that is free"
        ) from None
    return listener
