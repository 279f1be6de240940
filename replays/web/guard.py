"""Who may ask, and what a browser may do with the answer."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backends.server.loopback import is_loopback_host, is_own_origin

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


class Guard:
    """Stands in front of the application: what it refuses, nothing else sees.

    Only this machine can reach the server. The danger is a web page in a browser on this machine:
    it must neither ask, nor embed what is answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = _refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        app = JSONResponse({"error": refusal}, 403) if refusal else self.app
        await app(scope, receive, sending)


def _refusal(headers: Headers) -> str | None:
    hosts, origin = headers.getlist("host"), headers.get("origin")
    if len(hosts) != 1 or not is_loopback_host(hosts[0]):
        return "only this machine's own names are served: 127.0.0.1 or localhost"
    if origin is not None and not is_own_origin(origin, hosts[0]):
        return "requests from other web pages are not served"
    # A browser sends no Origin with what a page merely embeds, but says where the page came from.
    # Following a link to here is fine.
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    if site in ("cross-site", "same-site") and mode != "navigate":
        return "requests from other web pages are not served"
    return None
