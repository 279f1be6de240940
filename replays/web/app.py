"""The routes. Endpoints are plain functions, which starlette runs in threads: reading and playing
a replay takes a while, and the others must not wait for it."""

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
from arena.core.json import Json
from arena.core.text import shortened
from replays.web.branch_parents import Parents
from replays.web.encoding import encode
from replays.web.guard import Guard
from replays.web.http_errors import Refused
from replays.web.listing import Listing
from replays.web.page_files import INDEX, TYPES, page_files, scene_file
from replays.web.replay_cache import OpenReplay, Shelf
from replays.web.replay_directory import ReplayFile, Root

WORTH_COMPRESSING = 2000
COMPRESSION = 3
"""Time matters more than size on this machine."""


class Viewer:
    """What the server knows: the files that it may open, and those that it has open."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._listing = Listing(root)
        self._shelf = Shelf()
        self._parents = Parents(root)

    def games(self, request: Request) -> Response:
        games = {**self._listing.read(), "single": self._root.only is not None}
        if not games["games"]:  # Then it is said how games come to be there.
            games["folder"] = shlex.quote(str(self._root.given))
        return _json(request, games)

    def story(self, request: Request) -> Response:
        file = self._file(request)
        replay = self._take(request, file)
        seat, first = _seat(request, replay), _number(request, "first") or 0
        with replay.lock:
            story = replay.study.story(seat, first)
        story["running"], story["key"] = file.is_running(), file.key
        if seat is None:
            story["path"] = file.name
            places = self._parents.find(replay.branches)
            for branch, path in zip(story["game"]["branches"], places, strict=True):
                branch["path"] = path
        return _json(request, story)

    def knowledge(self, request: Request) -> Response:
        replay = self._open(request)
        seat, of = _seat(request, replay), _seat(request, replay, "of")
        if of is None:
            raise Refused(400, "of=: whose knowledge is asked for")
        if seat not in (None, of):
            raise Refused(403, f"seat {seat} does not know what seat {of} knows")
        with replay.lock:
            return _json(request, replay.study.knowledge(of))

    def comments(self, request: Request) -> Response:
        replay = self._open(request)
        lines = _lines(replay.study.comments(_seat(request, replay)))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    def summaries(self, request: Request) -> Response:
        replay = self._open(request)
        seat = _seat(request, replay)
        return _json(request, replay.study.summaries(seat))

    def decision(self, request: Request) -> Response:
        replay = self._open(request)
        seat, ply = _seat(request, replay), _number(request, "ply")
        if ply is None:
            raise Refused(400, "ply=: which decision is asked for")
        with replay.lock:
            return _json(request, replay.study.decision(ply, seat))

    def _open(self, request: Request) -> OpenReplay:
        return self._take(request, self._file(request))

    def _take(self, request: Request, file: ReplayFile) -> OpenReplay:
        try:
            return self._shelf.take(file)
        except Refused as refused:
            if _given(request, "seat") is None:
                raise
            # The fault may be a move that this seat does not see.
            message = "this replay cannot be opened; with everything open it is said why"
            raise Refused(refused.status, message) from None

    def _file(self, request: Request) -> ReplayFile:
        key = _given(request, "key")
        if key is not None:
            return self._root.find_key(key)
        return self._root.find(_given(request, "path") or "")


def make_app(root: Root) -> ASGIApp:
    """The application for one folder, or one replay."""
    viewer, files = Viewer(root), page_files()

    def index(_request: Request) -> Response:
        return _file(files.get(INDEX))

    def page(request: Request) -> Response:
        return _file(files.get(request.path_params["name"]))

    def scene(request: Request) -> Response:
        try:
            return _file(scene_file(request.path_params["game"]))
        except ArenaError as error:
            raise Refused(404, str(error)) from error

    def no_icon(_request: Request) -> Response:
        return Response(status_code=204)  # Browsers ask for one, and report a 404 as an error.

    routes = [
        Route("/", index),
        Route("/favicon.ico", no_icon),
        Route("/page/{name}", page),
        Route("/scene/{game}.js", scene),
        Route("/api/games", viewer.games),
        Route("/api/story", viewer.story),
        Route("/api/knowledge", viewer.knowledge),
        Route("/api/comments", viewer.comments),
        Route("/api/summaries", viewer.summaries),
        Route("/api/decision", viewer.decision),
    ]
    handlers = {ArenaError: _refused, HTTPException: _http_error, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # A redirection would be made of the request's own path.
    return Guard(app)


def _given(request: Request, name: str) -> str | None:
    """A parameter. Raises Refused if it is given twice: which one is meant?"""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise Refused(400, f"{name}= is given {len(values)} times")
    return values[0] if values else None


def _number(request: Request, name: str) -> int | None:
    text = _given(request, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Refused(400, f"{name}= is no number from 0 on")
    return int(text)


def _seat(request: Request, replay: OpenReplay, name: str = "seat") -> int | None:
    seat = _number(request, name)
    if seat is not None and seat >= replay.seats:
        message = f"{name}={seat}: there are seats 0 to {replay.seats - 1}"
        raise Refused(400, message, seats=replay.seats)
    return seat


def _json(request: Request, document: Json) -> Response:
    """Compressed here, in the endpoint's thread: the loop would stand still meanwhile."""
    body, headers = encode(document).encode(), {"Vary": "Accept-Encoding"}
    if len(body) > WORTH_COMPRESSING and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, COMPRESSION, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type="application/json")


def _lines(comments: Iterator[Json]) -> Iterator[str]:
    """The answer has begun when something goes wrong, so the last line says how it ended."""
    try:
        for comment in comments:
            yield encode(comment) + "\n"
    except ArenaError as error:
        yield encode({"error": shortened(str(error))}) + "\n"
    else:
        yield encode({"done": True}) + "\n"


def _file(path: Path | None) -> Response:
    try:
        if path is not None:
            return Response(path.read_bytes(), headers={"Content-Type": TYPES[path.suffix]})
    except OSError:
        pass  # It was there when the server started, or a plugin names a file that is not there.
    raise Refused(404, "there is no such file of the page")


async def _refused(_request: Request, error: Exception) -> Response:
    """Also for what only turns out while a replay is played: it does not fit the rules."""
    message = shortened(str(error))
    if isinstance(error, Refused):
        return JSONResponse({"error": message, **error.more}, error.status)
    return JSONResponse({"error": message}, 422)


async def _http_error(_request: Request, error: Exception) -> Response:
    """What starlette refuses by itself: unknown routes and wrong methods."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _failed(_request: Request, _error: Exception) -> Response:
    """A fault of ours: the log has the traceback, the page learns nothing about the inside."""
    return JSONResponse({"error": "the server failed on this request; its log says why"}, 500)
