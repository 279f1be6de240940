"""Access control of the server: accepted hosts and origins, and response headers."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arena.http.access import foreign_page

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class SecurityMiddleware:
    """ASGI middleware that refuses requests of other web pages and sets security headers.

    Usually only this machine can reach the server. The danger is a web page in a browser on this
    machine: it must neither send requests, nor embed the answers.

    Args:
        app: The application.
        is_public: The server may be reached by other names than those of this machine.
    """

    def __init__(self, app: ASGIApp, is_public: bool = False) -> None:
        self.app = app
        self._is_public = is_public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    # A stored report has a policy of its own, which lets nothing run.
                    headers.setdefault(name, value)
            await send(message)

        error = None
        if scope["type"] in ("http", "websocket"):
            error = foreign_page(Headers(scope=scope), is_public=self._is_public)
        # Of a WebSocket the answer refuses the handshake.
        app = JSONResponse({"error": error}, 403) if error else self.app
        await app(scope, receive, send_with_headers)
