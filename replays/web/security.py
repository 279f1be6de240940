"""Access control of the server: accepted hosts and origins, and response headers."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backends.server.access import is_loopback_host, is_own_origin

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
            error = _check_headers(Headers(scope=scope), self._is_public)
        # Of a WebSocket the answer refuses the handshake.
        app = JSONResponse({"error": error}, 403) if error else self.app
        await app(scope, receive, send_with_headers)


def _check_headers(headers: Headers, is_public: bool) -> str | None:
    """Return the reason for refusing a request, or None."""
    hosts, origin = headers.getlist("host"), headers.get("origin")
    # A foreign host name that resolves to 127.0.0.1 (DNS rebinding) is refused as well.
    if len(hosts) != 1 or not (is_public or is_loopback_host(hosts[0])):
        return "the Host header must name this machine: 127.0.0.1 or localhost"
    if origin is not None and not is_own_origin(origin, hosts[0]):
        return "requests from other web pages are not allowed"
    # A browser sends no Origin for embedded resources, but it sends the site of the page.
    # Following a link to this server is allowed.
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    if site in ("cross-site", "same-site") and mode != "navigate":
        return "requests from other web pages are not allowed"
    return None
