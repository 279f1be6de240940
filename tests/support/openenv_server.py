"""A hosted game on a port of its own, in a thread, for the tests of OpenEnv."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from arena.http.server import DeadlineProtocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True)
class Hosted:
    """A server that runs."""

    url: str
    port: int


@contextmanager
def hosting(app: ASGIApp, message_bytes: int = 262_144) -> Iterator[Hosted]:
    """Serve an application until the end of the block."""
    config = uvicorn.Config(
        app,
        port=0,
        log_level="error",
        http=DeadlineProtocol,
        ws="websockets-sansio",
        ws_max_size=message_bytes,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server has not started"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Hosted(f"http://127.0.0.1:{port}", port)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server does not stop"
