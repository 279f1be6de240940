"""Where the server listens: names, addresses and the socket."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address

from arena.core.errors import ArenaError, UsageError


@dataclass(frozen=True, slots=True)
class Address:
    """An address that a name stands for."""

    family: socket.AddressFamily
    host: str

    @property
    def is_loopback(self) -> bool:
        return ip_address(self.host.partition("%")[0]).is_loopback


def find_address(host: str) -> Address:
    """The first address of a name. One socket listens: with several, port 0 would be several."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host}: {error}") from None
    family, _, _, _, name = found[0]
    return Address(family, str(name[0]))


def listen_on(address: Address, port: int) -> socket.socket:
    """The socket, bound but deaf until the model is loaded.

    Its protocol is given, since asyncio turns Nagle's algorithm off only for sockets that say so;
    with it each answer on a kept connection could wait 40 ms.
    """
    listener = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # On Windows this would let two servers share a port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, port))
    except OSError as error:
        listener.close()
        raise bind_error(address, port, error) from None
    return listener


def bind_error(address: Address, port: int, error: OSError) -> ArenaError:
    if error.errno == errno.EADDRINUSE:
        return ArenaError(
            f"port {port} of {address.host} is taken: end what serves there, or choose "
            "another with --port (0 takes a free one)"
        )
    return ArenaError(f"cannot serve on {address.host}, --port {port}: {error.strerror}")
