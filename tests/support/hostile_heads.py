"""Requests that try to look like one for an open route, sent byte by byte."""

from __future__ import annotations

import socket

from httpx import URL

PATHS = ("//health", "/./health", "/%2e/health", "/x/%2e%2e/health", "/x%2f..%2fhealth",
         "/health/", "/health%2f", "/health%3f", "/health%00", "/HEALTH", "/health;x", "/x?/health",
         "/x#/health", "http://localhost/health", "http://localhost//health", "*",
         "/%2fhealth")  # fmt: skip
"""Targets of requests that are not `/health`."""
HOSTS = ("localhost/health?", "localhost/health#", "x/health?", "localhost/health", "/health?",
         "[::1]/health?", "a@localhost", "localhost:1/health?", "localhost\\health?")  # fmt: skip
"""Host headers from which a URL could get another path or host."""


def statuses(url: str, target: str) -> dict[str, int]:
    """Return the status of each hostile request to a server; 0 for a connection that was closed.

    With a hostile Host header the target is `target`.
    """
    address = URL(url)
    assert address.port
    requests = [(path, f"localhost:{address.port}") for path in PATHS]
    requests += [(target, host) for host in HOSTS]
    found = {}
    for path, host in requests:
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        with socket.create_connection((address.host, address.port), timeout=60) as client:
            client.sendall(head.encode())
            words = client.makefile("rb").readline().split()
        found[f"{path} {host}"] = int(words[1]) if words else 0
    return found
