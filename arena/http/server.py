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
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from math import ceil
from types import FrameType

import h11
import uvicorn
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from arena.core.errors import ArenaError, UsageError
from arena.http.access import BODY_SECONDS, RETRY_AFTER, ApiError
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
"""After the time limit for a body: the application answers 408 before the connection ends."""
MAX_CONNECTIONS = 4096


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address to listen on."""

    family: socket.AddressFamily
    host: str

    @property
    def is_loopback(self) -> bool:
        # "%" starts the zone of a link-local IPv6 address.
        return ip_address(self.host.partition("%")[0]).is_loopback


def resolve_address(host: str) -> Address:
    """Return the first address of a host name. Raises UsageError if it has none.

    Only one address is used: with several sockets, port 0 would give several port numbers.
    """
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host}: {error}") from None
    family, _, _, _, socket_address = addresses[0]
    return Address(family, str(socket_address[0]))


def server_key(host: str, address: Address) -> SecretStr | None:
    """Return the key that clients must send, from the environment or `.env`; None without one.

    Raises UsageError if other machines can reach the address and there is no key.
    """
    key = Settings.load().secret(KEY_VARIABLE)
    if key is None and not address.is_loopback:
        raise UsageError(
            f"--host {host}: other machines can reach it, so a key is required: "
            f"set {KEY_VARIABLE}, or serve on 127.0.0.1"
        )
    return key


def bind_socket(address: Address, port: int) -> socket.socket:
    """Return a socket that is bound but does not listen yet. Raises ArenaError.

    The protocol number is passed explicitly: asyncio disables Nagle's algorithm only for sockets
    with IPPROTO_TCP. With Nagle's algorithm each response on a kept connection could wait 40 ms.
    """
    listener = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # On Windows this option would let two servers share a port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, port))
    except OSError as error:
        listener.close()
        raise bind_error(address, port, error) from None
    return listener


def bind_error(address: Address, port: int, error: OSError) -> ArenaError:
    """Return the error that explains why an address cannot be used."""
    if error.errno == errno.EADDRINUSE:
        return ArenaError(
            f"port {port} of {address.host} is in use: stop the program that uses it, or choose "
            "another with --port (0 selects a free one)"
        )
    return ArenaError(f"cannot serve on {address.host}, --port {port}: {error.strerror}")


def server_url(listener: socket.socket) -> str:
    """Return the URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Phase(Enum):
    """The thing that a connection waits for."""

    IDLE = "the next request"
    HEAD = "the rest of a head"
    BODY = "the rest of a body"
    REPLY = "the application"
    WRITE = "the client reads"
    CLOSED = "nothing"


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
    phase = Phase.CLOSED
    _timer: asyncio.TimerHandle | None = None
    _cycle: object = None  # The request of the phase: two requests may follow each other at once.
    _is_blocked = False
    _is_upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency and 2 * len(self.connections) > self.limit_concurrency:
            self._replace_stalled()
        self._update_phase()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_phase()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        # From here on another protocol has the connection, and pings find a client that is gone.
        self._is_upgraded = True
        self._enter(Phase.CLOSED)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_phase()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_blocked = True
        self._update_phase()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_blocked = False
        self._update_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter(Phase.CLOSED)
        super().connection_lost(exc)

    def _update_phase(self) -> None:
        phase = self._current_phase()
        if (phase, self.cycle) != (self.phase, self._cycle):
            self._enter(phase)

    def _current_phase(self) -> Phase:
        if self._is_upgraded:
            return Phase.CLOSED
        if self._is_blocked or self.transport.is_closing():  # Closing waits until all is written.
            return Phase.WRITE
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        if self.conn.their_state is not h11.IDLE:
            return Phase.REPLY
        # Between requests. The first one of a connection must arrive without delay.
        has_begun = self.cycle is None or bool(self.conn.trailing_data[0])
        return Phase.HEAD if has_begun else Phase.IDLE

    def _enter(self, phase: Phase) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.phase, self._cycle, self.waiting_since = phase, self.cycle, self.loop.time()
        seconds = {
            Phase.IDLE: KEEP_ALIVE_SECONDS,
            Phase.HEAD: HEAD_SECONDS,
            Phase.BODY: BODY_SECONDS + BODY_GRACE_SECONDS,
            Phase.WRITE: WRITE_SECONDS,
        }.get(phase)
        self._timer = self.loop.call_later(seconds, self.abort) if seconds else None

    def abort(self) -> None:
        """End the connection at once, whatever is still to be read or written."""
        self._enter(Phase.CLOSED)
        self.transport.abort()

    def _replace_stalled(self) -> None:
        waiting = [
            other
            for other in self.connections
            if isinstance(other, DeadlineProtocol)
            and other is not self
            and other.phase not in {Phase.REPLY, Phase.CLOSED}
        ]
        if waiting:
            min(waiting, key=lambda other: other.waiting_since).abort()


def connection_limits(max_connections: int) -> tuple[int, int]:
    """Return how many connections fit, and how many are accepted in one turn of the event loop.

    Raises the soft limit on file descriptors of this process if it can. asyncio accepts a whole
    backlog before any of these connections is counted, and a connection that is replaced keeps its
    descriptor for some turns: so descriptors for four backlogs stay free.
    """
    available = _raise_file_limit(2 * max_connections)
    backlog = max(4, min(64, available // 16))
    reserved = 4 * backlog + 64  # The rest: files of the model, the log, the event loop.
    return max(1, min(max_connections, available - reserved)), backlog


def _raise_file_limit(wanted: int) -> int:
    """Return the number of files that this process may open, raised to `wanted` if allowed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


class DrainingServer(uvicorn.Server):
    """Server that prints a greeting, and drains after the first signal with exit code 0.

    A second signal ends the process immediately. uvicorn itself would raise the signal again after
    draining and end with the exit code of that signal.
    """

    def __init__(self, config: uvicorn.Config, greeting: str) -> None:
        super().__init__(config)
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # The backlog of the configuration limits how many are accepted at once; more may wait.
            listener.listen(KERNEL_BACKLOG)
        print(self._greeting, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            sys.stderr.flush()
            # 128 + signal number is the shell's exit code for a signal; no clean-up can block this
            # way.
            os._exit(128 + sig)
        self.should_exit = True


class ShutdownResponder:
    """ASGI middleware that answers 503 to requests that outlast the drain time.

    Only uvicorn cancels a whole request, and only at the end of the drain time. A response that
    has already started is cut off; its client notices the incomplete body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response_started = False

        async def watched_send(message: Message) -> None:
            nonlocal response_started
            response_started = True
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        except asyncio.CancelledError:
            if not response_started:
                headers = {"Retry-After": RETRY_AFTER}
                error = ApiError(503, "the server is shutting down", headers=headers)
                await error.response(scope, receive, send)


async def run_server(
    app: ASGIApp,
    listener: socket.socket,
    greeting: str,
    *,
    drain_seconds: float,
    max_connections: int = MAX_CONNECTIONS,
    websocket_bytes: int = 0,
    verbose: bool = False,
) -> None:
    """Serve an ASGI application on a bound socket until SIGINT or SIGTERM.

    Args:
        app: The application.
        listener: A bound socket; the caller closes it.
        greeting: A line for standard output, printed when the server accepts connections.
        drain_seconds: Time limit for running requests after the first signal.
        max_connections: Connections at the same time; fewer if the process may open fewer files.
        websocket_bytes: The longest message of a WebSocket; a longer one ends the connection. 0
            serves no WebSockets, and an application without them needs no start-up of its own.
        verbose: Log at level "info" instead of "error": clients can cause warnings at any rate.
    """
    limit, accepted_at_once = connection_limits(max_connections)
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
        log_level="info" if verbose else "error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=ceil(KEEP_ALIVE_SECONDS),
        limit_concurrency=limit,
        backlog=accepted_at_once,
        timeout_graceful_shutdown=ceil(drain_seconds),
    )
    await DrainingServer(config, greeting).serve(sockets=[listener])
