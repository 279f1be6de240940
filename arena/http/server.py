"""uvicorn with a bound socket, deadlines and limits for its clients, and draining after a signal.

uvicorn itself limits an idle connection only. A client that sends a part of a head or of a body, or
that does not read its response, would hold its connection for ever. Enough of them use up all file
descriptors.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from arena.core.errors import UsageError
from arena.http.access import BODY_SECONDS
from arena.llm.environment import is_loopback
from arena.llm.settings import Settings

KEY_VARIABLE = "ARENA_API_KEY"
KERNEL_BACKLOG = 2048
"""Connections that the operating system holds until they are accepted."""
PONG_SECONDS = 120.0
"""Time for the answer to a ping of a WebSocket, after which its client counts as gone."""
HEAD_SECONDS = 15.0
"""Time limit for the head of a request, from the connection or from the first byte."""
KEEP_ALIVE_SECONDS = 75.0
"""Longer than clients keep idle connections (httpx: 5 s, browsers and proxies: about 60 s)."""
WRITE_SECONDS = 60.0
"""Time limit for a client that does not read its response."""
BODY_GRACE_SECONDS = 2.0
"""Time between the limit for a body, when the application answers 408, and the connection's end."""
MAX_CONNECTIONS = 4096
"""Connections at the same time; fewer if the process may open fewer files."""


class ListeningSocket:
    """A bound socket that does not listen yet, and the key that its clients must send.

    The address is known before the server is made, whose start `run_server` is.
    """

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
        self.port = port
        self.key = Settings.load().secret(KEY_VARIABLE) if needs_key else None
        """Key of the environment or `.env`; None without one."""
        if needs_key and self.key is None and not self.is_local:
            raise UsageError(
                f"--host {host}: other machines can reach it, so a key is required: "
                f"set {KEY_VARIABLE}, or serve on 127.0.0.1"
            )
        # asyncio disables Nagle's algorithm only for sockets with an explicit protocol number. With
        # it each response on a kept connection could wait 40 ms.
        self.socket = socket.socket(found[0][0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":  # On Windows this option would let two servers share a port.
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((self.host, port))
        except OSError as error:
            self.socket.close()
            raise self.error(error) from None
        self.port = self.socket.getsockname()[1]

    def __enter__(self) -> ListeningSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def is_local(self) -> bool:
        """True if only this machine reaches the address."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def error(self, error: OSError) -> UsageError:
        """Return the reason why the address cannot be used."""
        if error.errno == errno.EADDRINUSE:
            return UsageError(
                f"port {self.port} of {self.host} is in use: stop the program that uses it, or "
                "choose another with --port (0 selects a free one)"
            )
        return UsageError(f"cannot serve on {self.host}, --port {self.port}: {error.strerror}")


def _then_update(callback: Callable[..., None]) -> Callable[..., None]:
    """Return a callback of uvicorn after which a connection may be in another phase."""

    def call(protocol: DeadlineProtocol, *args: object) -> None:
        callback(protocol, *args)
        protocol._update()

    return call


class DeadlineProtocol(H11Protocol):
    """HTTP/1.1 protocol with a deadline for each phase in which the client must act.

    Bytes do not extend a deadline: only the end of the phase does. Above half of the limit on
    connections (`limit_concurrency`) a new one replaces the connection that has waited longest for
    its client, so stalled connections cannot keep others out. The other half is for connections
    whose requests are being answered; at the limit itself uvicorn answers 503.

    Naming a protocol class also makes the behaviour independent of the HTTP parsers that are
    installed beside uvicorn.
    """

    waiting_since = 0.0
    timer: asyncio.TimerHandle | None = None
    """Ends the connection; None while the application is to act."""
    # With the request: two requests may follow each other at once.
    _phase: tuple[str, object] = ("", None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency and 2 * len(self.connections) > self.limit_concurrency:
            others = [each for each in self.connections if isinstance(each, DeadlineProtocol)]
            waiting = [each for each in others if each.timer is not None]
            if waiting:
                min(waiting, key=lambda other: other.waiting_since).abort()
        self._update()

    # After an upgrade another protocol has the connection, whose pings find a client that is gone.
    handle_websocket_upgrade = _then_update(H11Protocol.handle_websocket_upgrade)
    data_received = _then_update(H11Protocol.data_received)
    on_response_complete = _then_update(H11Protocol.on_response_complete)
    pause_writing = _then_update(H11Protocol.pause_writing)
    resume_writing = _then_update(H11Protocol.resume_writing)
    connection_lost = _then_update(H11Protocol.connection_lost)

    def _update(self) -> None:
        """Set the deadline of the present phase, unless the phase has begun before."""
        phase, cycle = self._present_phase(), self.cycle
        if (phase, cycle) == self._phase:
            return
        if self.timer is not None:
            self.timer.cancel()
        self._phase, self.waiting_since = (phase, cycle), self.loop.time()
        seconds = {
            "idle": KEEP_ALIVE_SECONDS,
            "head": HEAD_SECONDS,
            "body": BODY_SECONDS + BODY_GRACE_SECONDS,
            "write": WRITE_SECONDS,
        }.get(phase)
        self.timer = self.loop.call_later(seconds, self.abort) if seconds else None

    def _present_phase(self) -> str:
        if self not in self.connections:  # It is lost, or another protocol has it.
            return ""
        # Closing waits until all is written.
        if self.flow.write_paused or self.transport.is_closing():
            return "write"
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        if self.conn.their_state is not h11.IDLE:
            return ""
        # Between requests. The first one of a connection must arrive without delay.
        return "head" if self.cycle is None or self.conn.trailing_data[0] else "idle"

    def abort(self) -> None:
        """End the connection at once, whatever is still to be read or written."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None
        self.transport.abort()


def connection_limits() -> tuple[int, int]:
    """Return how many connections fit, and how many are accepted in one turn of the event loop.

    Raises the soft limit on file descriptors of this process if it can. asyncio accepts a whole
    backlog before any of these connections is counted, and a connection that is replaced keeps its
    descriptor for some turns: so half of the descriptors stay free, also for the model and the log.
    """
    available = 2 * MAX_CONNECTIONS
    with suppress(ImportError):  # Windows has no such limit.
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY:
            available = min(available, hard)
        if soft != resource.RLIM_INFINITY and soft < available:
            resource.setrlimit(resource.RLIMIT_NOFILE, (available, hard))
    return max(1, min(MAX_CONNECTIONS, available // 2)), max(4, min(64, available // 32))


class DrainingServer(uvicorn.Server):
    """Server that prints a greeting, and drains after the first signal with exit code 0.

    A second signal ends the process immediately. uvicorn itself would raise the signal again after
    draining and end with the exit code of that signal.
    """

    def __init__(self, config: uvicorn.Config, listener: ListeningSocket, greeting: str) -> None:
        super().__init__(config)
        self._listener = listener
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
            # The backlog of the configuration limits how many are accepted at once; more may wait.
            self._listener.socket.listen(KERNEL_BACKLOG)
        except OSError as error:
            # Two servers can bind the same port as long as neither of them listens.
            raise self._listener.error(error) from None
        print(self._greeting, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            sys.stderr.flush()
            # 128 + signal number is the shell's exit code for a signal; no clean-up can block this
            # way.
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
    """Serve an ASGI application on a bound socket until SIGINT or SIGTERM.

    Args:
        app: The application.
        listener: Its socket, which the caller closes.
        greeting: A line for standard output, printed when the server accepts connections.
        drain_seconds: Time limit for running requests after the first signal.
        websocket_bytes: The longest message of a WebSocket; a longer one ends the connection. 0
            serves no WebSockets, and an application without them needs no start-up of its own.
    """
    limit, accepted_at_once = connection_limits()
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=DeadlineProtocol,
        ws="websockets-sansio" if websocket_bytes else "none",
        ws_max_size=websocket_bytes,
        # Pings find a dead peer, which would keep its session. A program that trains on all of its
        # cores may answer late.
        ws_ping_timeout=PONG_SECONDS,
        lifespan="on" if websocket_bytes else "off",
        log_level="error",  # Clients can cause warnings at any rate.
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=ceil(KEEP_ALIVE_SECONDS),
        limit_concurrency=limit,
        backlog=accepted_at_once,
        timeout_graceful_shutdown=ceil(drain_seconds),
    )
    await DrainingServer(config, listener, greeting).serve(sockets=[listener.socket])
