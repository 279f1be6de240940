"""Checks of a request before its route runs: no head passes for an open route that is not one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from pydantic import SecretStr
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse

from arena.http.access import Guard


def status(path: str, host: str, kind: str = "http") -> int:
    """Return the status of a request without the key."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        head = {"type": kind, "method": "GET", "path": path, "raw_path": path.encode()}
        headers = [(b"host", host.encode())]
        scope = {**head, "headers": headers, "query_string": b"", "extensions": {},
                 "server": ("127.0.0.1", 80), "scheme": "http", "root_path": ""}  # fmt: skip
        guarded = Guard(PlainTextResponse("open"), SecretStr("secret"))
        await guarded(scope, receive, send)

    asyncio.run(ask())
    return int(sent[0]["status"])


@pytest.mark.parametrize("host", ["localhost", "localhost/health?", "x/health#", "x/health"])
def test_the_url_decides_nothing(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Versions of starlette before 1.0.1 make the path of a URL with the Host header."""
    forged = property(lambda _: pytest.fail("the URL is made with a header of the client"))
    monkeypatch.setattr(HTTPConnection, "url", forged)
    monkeypatch.setattr(HTTPConnection, "base_url", forged)
    assert status("/v1/models", host) in {401, 403}
    assert status("/health", "localhost") == 200
