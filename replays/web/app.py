"""Application of the server, composed of parts that each bring their routes.

Endpoints are plain functions, which starlette runs in threads: reading and playing a replay takes
a while, and must not delay other requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from arena.core.errors import ArenaError
from arena.core.text import shorten
from arena.http.access import foreign_page
from replays.analysis.scenes import scene_module
from replays.web.exchange import file_response
from replays.web.home.home_api import HomeApi
from replays.web.http_errors import HttpError
from replays.web.listing import Listing
from replays.web.page_files import INDEX, page_files
from replays.web.replay_api import ReplayApi
from replays.web.replay_directory import ReplayDirectory

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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
    machine: it must neither send requests, nor embed the answers. A public server may be reached by
    other names than those of this machine.
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


class WebPart(Protocol):
    """Part of the application, with routes of its own."""

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes. No two parts may have the same path."""
        ...


class PageFiles:
    """The page, its files, and the modules that draw the tables of games; `/` gives the index."""

    def __init__(self, index: str = INDEX) -> None:
        self._files = page_files()
        self._index = index

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the files."""
        return [
            Route("/", self.index),
            Route("/favicon.ico", self.favicon),
            Route("/page/{name}", self.page),
            Route("/scene/{game:path}.js", self.scene),
        ]

    def index(self, _request: Request) -> Response:
        """Return the page."""
        return file_response(self._files.get(self._index))

    def page(self, request: Request) -> Response:
        """Return a file of the page."""
        return file_response(self._files.get(request.path_params["name"]))

    def scene(self, request: Request) -> Response:
        """Return the module that draws the table of a game."""
        try:
            return file_response(scene_module(request.path_params["game"]))
        except ArenaError as error:
            raise HttpError(404, str(error)) from error

    def favicon(self, _request: Request) -> Response:
        """Answer the request of browsers, which report a 404 as an error."""
        return Response(status_code=204)


def viewer_parts(directory: ReplayDirectory, can_play: bool = False) -> list[WebPart]:
    """Return the parts that every server has: the page, the replays, and all else in a folder.

    With `can_play`, another part lets people play on from a position.
    """
    listing = Listing(directory)
    listing.current(patience=0)  # A large folder is read while the user opens the page.
    parts: list[WebPart] = [PageFiles(), ReplayApi(directory, listing, can_play)]
    # The reports need jinja2, which the extra `web` installs.
    return [*parts, HomeApi(directory, listing)] if directory.single_file is None else parts


def make_app(directory: ReplayDirectory) -> ASGIApp:
    """Return the application for one folder, or one replay."""
    return compose(viewer_parts(directory))


def compose(
    parts: Sequence[WebPart], lifespan: Lifespan[Starlette] | None = None, is_public: bool = False
) -> ASGIApp:
    """Return the application of these parts, no two of which have the same path.

    If requests may come from other machines (`is_public`), the parts check who may do what.
    """
    handlers = {
        ArenaError: _handle_arena_error,
        HTTPException: _handle_http_exception,
        Exception: _handle_exception,
    }
    routes = [route for part in parts for route in part.routes()]
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # A redirect would repeat the requested path.
    return SecurityMiddleware(app, is_public)


async def _handle_arena_error(_request: Request, error: Exception) -> Response:
    """Answer an error of a request, or of a replay that does not fit the rules (status 422)."""
    message = shorten(str(error))
    if isinstance(error, HttpError):
        return JSONResponse({"error": message, **error.details}, error.status)
    return JSONResponse({"error": message}, 422)


async def _handle_http_exception(_request: Request, error: Exception) -> Response:
    """Answer errors of starlette: unknown routes and wrong methods."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _handle_exception(_request: Request, _error: Exception) -> Response:
    """Answer an internal error; the traceback is only in the log."""
    return JSONResponse({"error": "internal server error; see the log of the server"}, 500)
