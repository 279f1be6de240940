"""uvicorn with deadlines and limits for its clients, and draining after a signal.

uvicorn itself limits an idle connection only. A client that sends a part of a head or of a body, or
does not read its response, would hold its connection for ever, and enough of them all files.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from math import ceil
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from arena.core.errors import UsageError
from arena.llm.environment import is_loopback
from arena.llm.settings import Settings

KEY_VARIABLE = "ARENA_API_KEY"
KERNEL_BACKLOG = 2048
"""Connections that the operating system holds until they are accepted."""
PONG_SECONDS = 120.0
"""Time for the answer to a ping of a WebSocket, after which its client counts as gone."""
PHASE_SECONDS = {"head": 15.0, "body": 30.0, "write": 60.0, "idle": 75.0}
"""Time limits of the phases in which a client must act: it sends a head, from the connection or
from the first byte; it sends a body; it reads its response; it has no request. Clients keep idle
connections for a shorter time (httpx: 5 s, browsers and proxies: about 60 s)."""
CHECK_SECONDS = 1.0
"""Time between two checks of the limits."""
MAX_CONNECTIONS = 4096
"""Connections at the same time; fewer if the process may open fewer files."""


class ListeningSocket(socket.socket):
    """The socket of a server, whose clients wait until it runs, and the key that they must send."""

    def __init__(self, host: str, port: int, *, needs_key: bool = True) -> None:
        """Raises UsageError if the address cannot be used.

        So does, if it `needs_key`, an address that other machines can reach without a key.
        """
        try:
            # One address only: with several sockets, port 0 would give several port numbers.
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            raise UsageError(f"--host {host}: {error}") from None
        self.host = str(found[0][4][0])
        self.key = Settings.load().secret(KEY_VARIABLE) if needs_key else None
        """Key of the environment or `.env`; None without one."""
        if needs_key and self.key is None and not self.is_local:
            raise UsageError(
                f"--host {host}: other machines can reach it, so a key is required: "
                f"set {KEY_VARIABLE}, or serve on 127.0.0.1"
            )
        # asyncio disables Nagle's algorithm only for sockets with an explicit protocol number. With
        # it each response on a kept connection could wait 40 ms.
        super().__init__(found[0][0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":  # On Windows this option would let two servers share a port.
                self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind((self.host, port))
            self.listen(KERNEL_BACKLOG)
        except OSError as error:
            self.close()
            problem = f"cannot serve on {self.host}, port {port}: {error.strerror}"
            raise UsageError(f"{problem}; choose another with --port (0: a free one)") from None
        self.port: int = self.getsockname()[1]

    @property
    def is_local(self) -> bool:
        """True if only this machine reaches the address."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class DeadlineProtocol(H11Protocol):
    """HTTP/1.1 protocol with a time limit for each phase in which the client must act.

    Bytes do not extend a limit: only the end of the phase does. Above half of the limit on
    connections (`limit_concurrency`) a new one replaces the connection that has waited longest for
    its client, so stalled connections cannot keep others out. The other half is for connections
    whose requests are being answered; at the limit itself uvicorn answers 503.
    """

    since = 0.0
    """Time at which the present phase was seen first."""
    _seen: tuple[str, object, int] = ("", None, 0)
    """Phase, with what tells it from a later one of its kind: the request, and reads so far."""
    _reads = 0
    """Number of times that the client has read most of what was written."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._check()
        if self.limit_concurrency and 2 * len(self.connections) > self.limit_concurrency:
            others = [each for each in self.connections if isinstance(each, DeadlineProtocol)]
            if waiting := [each for each in others if each.seconds_left() is not None]:
                min(waiting, key=lambda other: other.since).transport.abort()

    def resume_writing(self) -> None:
        self._reads += 1
        super().resume_writing()

    def _check(self) -> None:
        """End the connection if its client is late, or else look again later."""
        # It is lost, or another protocol has it, whose pings find a client that is gone.
        if self not in self.connections:
            return
        left = self.seconds_left()
        if left is not None and left <= 0:
            self.transport.abort()  # Whatever is still to be read or written.
        else:
            self.loop.call_later(CHECK_SECONDS, self._check)

    def seconds_left(self) -> float | None:
        """Return the time that the client has left; None while the application is to act."""
        phase, now = self._phase(), self.loop.time()
        if (phase, self.cycle, self._reads) != self._seen:
            self._seen, self.since = (phase, self.cycle, self._reads), now
        return self.since + PHASE_SECONDS[phase] - now if phase else None

    def _phase(self) -> str:
        # Closing waits until all is written.
        if self.flow.write_paused or self.transport.is_closing():
            return "write"
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        if self.conn.their_state is not h11.IDLE:
            return ""
        # Between requests. The first one of a connection must arrive without delay.
        return "head" if self.cycle is None or self.conn.trailing_data[0] else "idle"


def connection_limits() -> tuple[int, int]:
    """Return how many connections fit, and how many are accepted in one turn of the event loop.

    Raises the soft limit on file descriptors of this process if it can. asyncio accepts a whole
    backlog before any of these connections is counted, and a connection that is replaced keeps its
    descriptor for some turns: so half of the descriptors stay free, also for the model and the log.
    """
    available = 2 * MAX_CONNECTIONS
    with suppress(ImportError):  # Windows has no such limit.
        import resource

        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft, hard = (available if n == resource.RLIM_INFINITY else n for n in limits)
        available = min(available, hard)
        if soft < available:
            resource.setrlimit(resource.RLIMIT_NOFILE, (available, limits[1]))
    return max(1, min(MAX_CONNECTIONS, available // 2)), max(4, min(64, available // 32))


class DrainingServer(uvicorn.Server):
    """Server that prints a greeting, and drains after the first signal with exit code 0.

    A second signal ends the process immediately. uvicorn itself would raise the signal again after
    draining and end with the exit code of that signal.
    """

    greeting = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            # The backlog of the configuration limits how many are accepted at once; more may wait.
            each.listen(KERNEL_BACKLOG)
        print(self.greeting, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            sys.stderr.flush()
            # The shell's exit code for a signal; no clean-up can block this way.
            os._exit(128 + sig)
        self.should_exit = True


async def run_server(
    app: ASGIApp,
    listener: ListeningSocket,
    greeting: str,
    *,
    drain_seconds: float = 1.0,
    websocket_bytes: int = 0,
) -> None:
    """Serve an ASGI application on a socket, which the caller closes, until SIGINT or SIGTERM.

    The greeting is a line for standard output. Running requests have `drain_seconds` after the
    first signal. A longer message than `websocket_bytes` ends the connection of a WebSocket; 0
    serves none, and an application without them needs no start-up of its own.
    """
    limit, accepted_at_once = connection_limits()
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=DeadlineProtocol,  # Whatever HTTP parsers are installed.
        ws="websockets-sansio" if websocket_bytes else "none",
        ws_max_size=websocket_bytes,
        # A dead peer would keep its session; a program that trains on all cores answers late.
        ws_ping_timeout=PONG_SECONDS,
        lifespan="on" if websocket_bytes else "off",
        log_level="error",  # Clients can cause warnings at any rate.
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=ceil(PHASE_SECONDS["idle"]),
        limit_concurrency=limit,
        backlog=accepted_at_once,
        timeout_graceful_shutdown=ceil(drain_seconds),
    )
    server = DrainingServer(config)
    server.greeting = greeting
    await server.serve(sockets=[listener])
