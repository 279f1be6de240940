"""Routes of the server.

Endpoints are plain functions, which starlette runs in threads: reading and playing a replay takes
a while, and must not delay other requests.
"""

from __future__ import annotations

import gzip
import shlex
from collections.abc import Iterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from arena.core.errors import ArenaError
from arena.core.text import shorten
from replays.analysis.documents import CommentJson
from replays.web.branch_parents import find_parents
from replays.web.encoding import encode
from replays.web.http_errors import HttpError
from replays.web.listing import Listing
from replays.web.page_files import CONTENT_TYPES, INDEX, page_files, scene_file
from replays.web.replay_cache import OpenReplay, ReplayCache
from replays.web.replay_directory import ReplayDirectory, ServedFile
from replays.web.security import SecurityMiddleware

MIN_COMPRESSED_BYTES = 2000
COMPRESSION_LEVEL = 3
"""Low, because on this machine time matters more than size."""


class ReplayApi:
    """Endpoints of the JSON API for the served files."""

    def __init__(self, directory: ReplayDirectory) -> None:
        self._directory = directory
        self._listing = Listing(directory)
        self._cache = ReplayCache()

    def games(self, request: Request) -> Response:
        """List the replays."""
        games = self._listing.read()
        games["single"] = self._directory.single_file is not None
        if not games["games"]:  # The page shows a command that plays a game into this folder.
            games["folder"] = shlex.quote(str(self._directory.typed_path))
        return _json_response(request, games)

    def timeline(self, request: Request) -> Response:
        """Return the course of a game."""
        file = self._file(request)
        replay = self._open_file(request, file)
        seat, first = _seat(request, replay), _number(request, "first") or 0
        with replay.lock:
            timeline = replay.analysis.timeline(seat, first)
        timeline["running"], timeline["key"] = file.is_running(), file.key
        # The path and the parents contain seeds, so a seat does not get them.
        if seat is None:
            timeline["path"] = file.name
            parents = find_parents(self._directory, replay.branches)
            for branch, path in zip(timeline["game"]["branches"], parents, strict=True):
                branch["path"] = path
        return _json_response(request, timeline)

    def posterior(self, request: Request) -> Response:
        """Return the exact posterior of one player."""
        replay = self._open(request)
        # The perspective, and the seat whose posterior is requested.
        seat, player = _seat(request, replay), _seat(request, replay, "player")
        if player is None:
            raise HttpError(400, "player= is missing: the seat whose posterior is requested")
        if seat not in (None, player):
            raise HttpError(403, f"seat {seat} may not see the posterior of seat {player}")
        with replay.lock:
            return _json_response(request, replay.analysis.posterior(player))

    def comments(self, request: Request) -> Response:
        """Stream the comments while they are computed."""
        replay = self._open(request)
        lines = _comment_lines(replay.analysis.comments(_seat(request, replay)))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    def summaries(self, request: Request) -> Response:
        """Return the summary of each seat."""
        replay = self._open(request)
        seat = _seat(request, replay)
        return _json_response(request, replay.analysis.summaries(seat))

    def decision(self, request: Request) -> Response:
        """Return one decision."""
        replay = self._open(request)
        seat, ply = _seat(request, replay), _number(request, "ply")
        if ply is None:
            raise HttpError(400, "ply= is missing: the number of the decision")
        with replay.lock:
            return _json_response(request, replay.analysis.decision(ply, seat))

    def moves(self, request: Request) -> Response:
        """Return the values of the moves at a position, for the player who moved there."""
        replay = self._open(request)
        seat, position = _seat(request, replay), _number(request, "position")
        if position is None:
            raise HttpError(400, "position= is missing: the number of the position")
        # Not under the lock: this may take seconds, and other requests must not wait for it.
        return _json_response(request, replay.analysis.moves(position, seat))

    def _open(self, request: Request) -> OpenReplay:
        return self._open_file(request, self._file(request))

    def _open_file(self, request: Request, file: ServedFile) -> OpenReplay:
        try:
            return self._cache.get(file)
        except HttpError as error:
            if _parameter(request, "seat") is None:
                raise
            # The message may quote a move that this seat must not see.
            message = "this replay cannot be opened; the view with everything open shows the reason"
            raise HttpError(error.status, message) from None

    def _file(self, request: Request) -> ServedFile:
        key = _parameter(request, "key")
        if key is not None:
            return self._directory.find_key(key)
        return self._directory.find(_parameter(request, "path") or "")


def make_app(directory: ReplayDirectory) -> ASGIApp:
    """Return the application for one folder, or one replay."""
    api, files = ReplayApi(directory), page_files()

    def index(_request: Request) -> Response:
        return _file_response(files.get(INDEX))

    def page(request: Request) -> Response:
        return _file_response(files.get(request.path_params["name"]))

    def scene(request: Request) -> Response:
        try:
            return _file_response(scene_file(request.path_params["game"]))
        except ArenaError as error:
            raise HttpError(404, str(error)) from error

    def favicon(_request: Request) -> Response:
        return Response(status_code=204)  # Browsers request one and report a 404 as an error.

    endpoints = (
        api.games, api.timeline, api.posterior, api.comments, api.summaries, api.decision,
        api.moves,
    )  # fmt: skip
    routes = [
        Route("/", index),
        Route("/favicon.ico", favicon),
        Route("/page/{name}", page),
        Route("/scene/{game:path}.js", scene),
        *(Route(f"/api/{endpoint.__name__}", endpoint) for endpoint in endpoints),
    ]
    handlers = {
        ArenaError: _handle_arena_error,
        HTTPException: _handle_http_exception,
        Exception: _handle_exception,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # A redirect would repeat the requested path.
    return SecurityMiddleware(app)


def _parameter(request: Request, name: str) -> str | None:
    """Return a query parameter.

    Raises:
        HttpError: It is given more than once, which is ambiguous.
    """
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise HttpError(400, f"{name}= is given {len(values)} times")
    return values[0] if values else None


def _number(request: Request, name: str) -> int | None:
    text = _parameter(request, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise HttpError(400, f"{name}= must be a whole number from 0 on")
    return int(text)


def _seat(request: Request, replay: OpenReplay, name: str = "seat") -> int | None:
    seat = _number(request, name)
    if seat is not None and seat >= replay.seats:
        message = f"{name}={seat}: this game has seats 0 to {replay.seats - 1}"
        raise HttpError(400, message, seats=replay.seats)
    return seat


def _json_response(request: Request, document: object) -> Response:
    """Compress in the thread of the endpoint: a middleware would block the event loop."""
    body, headers = encode(document).encode(), {"Vary": "Accept-Encoding"}
    if len(body) > MIN_COMPRESSED_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        # mtime=0 makes the bytes reproducible.
        body = gzip.compress(body, COMPRESSION_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type="application/json")


def _comment_lines(comments: Iterator[CommentJson]) -> Iterator[str]:
    """Yield the lines of the answer.

    The status has been sent before an error can occur, so the last line says how it ended.
    """
    try:
        for comment in comments:
            yield encode(comment) + "\n"
    except ArenaError as error:
        yield encode({"error": shorten(str(error))}) + "\n"
    else:
        yield encode({"done": True}) + "\n"


def _file_response(path: Path | None) -> Response:
    try:
        if path is not None:
            content_type = CONTENT_TYPES[path.suffix]
            return Response(path.read_bytes(), headers={"Content-Type": content_type})
    except OSError:
        pass  # The file was removed after the start, or a plugin registered a missing file.
    raise HttpError(404, "the page has no such file")


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
