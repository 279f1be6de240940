"""API errors, and the checks of a request before its route runs: key, origin, size of the body."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import JsonValue
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from arena.llm.environment import is_loopback

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_ROUTES = ("/health",)
"""Routes that never need a key."""
RETRY_LATER = {"Retry-After": "1"}
"""Header with a wait in seconds; the queue of a small model is short."""

_HOST = re.compile(r"(?:[a-z0-9._-]*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
"""A host in lower case; HTTP/1.0 has none."""


class ApiError(HTTPException):
    """A request that is refused, with OpenAI's format of errors.

    `param` names the field with the fault, `code` is machine-readable, as in OpenAI's API.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.body: dict[str, JsonValue] = {
            "error": {"message": message, "type": kind, "param": param, "code": code}
        }

    @property
    def response(self) -> Response:
        return JSONResponse(self.body, self.status_code, self.headers)


@dataclass(slots=True)
class Guard:
    """ASGI middleware around an application that strangers reach.

    It refuses requests before any of their body is read, bounds the bytes of the bodies of all
    requests in progress while they are read, wait and are answered (their texts and tokens take
    about ten times as much memory), and answers 503 to requests that outlast the drain time.
    """

    app: ASGIApp
    key: SecretStr | None
    max_bytes: int = 0
    """Bytes of all bodies; 0: the application bounds them itself."""
    _held: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own, has_started = 0, False

        async def counting_receive() -> Message:
            nonlocal own
            message = await receive()
            size = len(message.get("body", b""))
            own += size
            self._held += size
            if size and 0 < self.max_bytes < self._held:
                text = (
                    f"the requests in progress have more than {self.max_bytes} bytes: retry later"
                )
                raise ApiError(503, text, code="server_overloaded", headers=RETRY_LATER)
            return message

        async def watched_send(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        app = self.app
        if scope["type"] in {"http", "websocket"}:
            try:
                check_request(HTTPConnection(scope), self.key)
            except ApiError as error:
                # Of a WebSocket it refuses the handshake.
                app = error.response
        try:
            await app(scope, counting_receive, watched_send)
        except asyncio.CancelledError:
            # uvicorn cancels whole requests only at the end of the drain time. A response that has
            # started is cut off; its client notices the incomplete body.
            if not has_started:
                refusal = ApiError(503, "the server is shutting down", headers=RETRY_LATER)
                await refusal.response(scope, receive, send)
        finally:
            self._held -= own


def check_request(request: HTTPConnection, key: SecretStr | None) -> None:
    """Raise ApiError for a request without the key, of a foreign page, or with a foreign body.

    With a key, every route except /health requires it. Without a key the server listens on loopback
    only. Then the risk is a web page in a browser on this machine: see `foreign_page`.
    """
    headers = request.headers
    reason = foreign_page(headers, is_public=key is not None)
    if reason is not None:
        raise ApiError(403, reason)
    # The path that routing uses. The URL of a request is made with its Host header.
    if key is not None and request.scope["path"] not in OPEN_ROUTES:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # Comparison in constant time: the duration must not depend on the matching characters.
        expected = key.get_secret_value().encode()
        is_equal = secrets.compare_digest(token.strip().encode("latin-1"), expected)
        if scheme.lower() != "bearer" or not is_equal:
            message = "send the API key of the server: 'Authorization: Bearer KEY'"
            challenge = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, message, code="invalid_api_key", headers=challenge)
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    # A web page can send a form or plain text to a foreign server without asking it first (CORS
    # preflight), but not application/json.
    is_post = request.scope.get("method") == "POST"  # A WebSocket has no method.
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if is_post and has_body and content_type != "application/json":
        raise ApiError(415, f"Content-Type {content_type!r}: send application/json")


def foreign_page(headers: Headers, *, is_public: bool) -> str | None:
    """Return the reason to refuse a request that the web page of another site sends, or None.

    Such a page has a foreign Origin or, after DNS rebinding of its name to 127.0.0.1, a foreign
    Host. For embedded resources a browser sends no Origin, but the site of the page. A public
    server may be reached by other names than those of this machine; a link may be followed.
    """
    # One at most: h11 refuses a request with two.
    host, origin = headers.get("host", "").lower(), headers.get("origin")
    if not _HOST.fullmatch(host):
        return "the Host header must be a name or an address, with or without a port"
    name = urlsplit(f"//{host}").hostname or ""
    if not (is_public or is_loopback(name) or name.endswith(".localhost")):
        return "the Host header must name this machine: 127.0.0.1 or localhost"
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    is_foreign = origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}
    if is_foreign or (site in {"cross-site", "same-site"} and mode != "navigate"):
        return "requests from other web pages are not allowed"
    return None


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body. Raises ApiError with status 413 if it has more than `limit` bytes."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                text = f"the body is larger than {limit} bytes"
                raise ApiError(413, text, code="request_too_large")
    except ClientDisconnect:
        raise ApiError(400, "the client has disconnected") from None
    return bytes(body)
