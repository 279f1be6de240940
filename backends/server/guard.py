"""Who may ask, and how much may be sent."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request

from backends.server.errors import ApiError
from backends.server.loopback import is_loopback_host, is_own_origin

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_ROUTES = ("/health",)
BODY_SECONDS = 30.0


class Guard:
    """Refuses requests before anything of their body is read.

    With a key, every route but /health demands it. Without one the server listens on loopback only,
    and then the danger is a web page in a browser on this machine: its requests carry a foreign
    Origin, or, once its name has been rebound to 127.0.0.1, a foreign Host.
    """

    def __init__(self, app: ASGIApp, key: SecretStr | None) -> None:
        self.app = app
        self.key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http":
            refusal = next(self._refusals(Request(scope)), None)
            app = refusal.response if refusal else app
        await app(scope, receive, send)

    def _refusals(self, request: Request) -> Iterator[ApiError]:
        host = request.headers.get("host", "").lower()
        if self.key is None and not is_loopback_host(host):
            yield ApiError(403, f"Host {host!r}: without an API key only loopback names are served")
        origin = request.headers.get("origin")
        if origin is not None and not is_own_origin(origin, host):
            yield ApiError(403, "requests from other web pages are not served")
        if self.key is not None and request.url.path not in OPEN_ROUTES:
            yield from self._key_refusals(request, self.key.get_secret_value())
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and kind != "application/json":
            yield ApiError(415, f"Content-Type {kind!r}: send application/json")

    @staticmethod
    def _key_refusals(request: Request, key: str) -> Iterator[ApiError]:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        same = secrets.compare_digest(given.strip().encode("latin-1"), key.encode())
        if scheme.lower() != "bearer" or not same:
            message = "give the server's API key: 'Authorization: Bearer KEY'"
            headers = {"WWW-Authenticate": "Bearer"}
            yield ApiError(401, message, code="invalid_api_key", headers=headers)


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Raises ApiError: 413 beyond `limit` bytes, 408 if it does not arrive."""
    too_large = ApiError(413, f"the body is larger than {limit} bytes", code="request_too_large")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        raise ApiError(408, f"no whole body within {BODY_SECONDS:g} seconds") from None
    except ClientDisconnect:
        raise ApiError(400, "the client has gone") from None
    return bytes(body)
