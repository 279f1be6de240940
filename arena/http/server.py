"""uvicorn with a bound socket, limits for its clients, and draining after a signal."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from ipaddress import ip_address
from math import ceil
from types import FrameType

import uvicorn
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arena.core.errors import ArenaError, UsageError
from arena.http.access import RETRY_AFTER, ApiError
from arena.http.connections import (
    KEEP_ALIVE_SECONDS,
    MAX_CONNECTIONS,
    DeadlineProtocol,
    LogRateLimit,
    connection_limits,
)
from arena.llm.settings import Settings

KEY_VARIABLE = "ARENA_API_KEY"
KERNEL_BACKLOG = 2048
"""Connections that the operating system holds until they are accepted."""
PONG_SECONDS = 120.0
"""Time for the answer to a ping of a WebSocket, after which its client counts as gone."""


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


class DrainingServer(uvicorn.Server):
    """Server that prints a greeting, and drains after the first signal with exit code 0.

    A second signal ends the process immediately. uvicorn itself would raise the signal again after
    draining and end with the exit code of that signal.
    """

    def __init__(self, config: uvicorn.Config, greeting: str, *, announce_drain: bool) -> None:
        super().__init__(config)
        self._greeting = greeting
        self._announce_drain = announce_drain

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
        count = len(self.server_state.tasks)
        if count and self._announce_drain:
            name = signal.Signals(sig).name
            notice = f"{name}: finishing {count} running requests; a second signal stops them\n"
            # os.write is safe even if the signal interrupted a write to the buffered stream.
            os.write(sys.stderr.fileno(), notice.encode())


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
    announce_drain: bool = True,
    max_connections: int = MAX_CONNECTIONS,
    websocket_bytes: int = 0,
    verbose: bool = False,
    until: Awaitable[None] | None = None,
) -> None:
    """Serve an ASGI application on a bound socket until SIGINT or SIGTERM.

    Args:
        app: The application.
        listener: A bound socket; the caller closes it.
        greeting: A line for standard output, printed when the server accepts connections.
        drain_seconds: Time limit for running requests after the first signal.
        announce_drain: Report on standard error how many requests are still running.
        max_connections: Connections at the same time; fewer if the process may open fewer files.
        websocket_bytes: The longest message of a WebSocket; a longer one ends the connection. 0
            serves no WebSockets, and an application without them needs no start-up of its own.
        verbose: Log at level "info" instead of "warning".
        until: The server drains when this ends, too.
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
        log_level="info" if verbose else "warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=ceil(KEEP_ALIVE_SECONDS),
        limit_concurrency=limit,
        backlog=accepted_at_once,
        timeout_graceful_shutdown=ceil(drain_seconds),
    )
    for name in ("uvicorn.error", "asyncio"):  # Messages that clients can cause at any rate.
        logging.getLogger(name).addFilter(LogRateLimit(time.monotonic))
    server = DrainingServer(config, greeting, announce_drain=announce_drain)

    async def drain_after(end: Awaitable[None]) -> None:
        await end
        server.should_exit = True

    ending = asyncio.ensure_future(drain_after(until)) if until is not None else None
    try:
        await server.serve(sockets=[listener])
    finally:
        if ending is not None:
            ending.cancel()
