"""Part of the web server that makes films."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock
from typing import Annotated

from anyio import to_thread
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from replays.film import FilmFormat, FilmOptions
from replays.film.write import PACKAGES, write_film
from replays.web.exchange import ReplayForm, finished_replay, read_form
from replays.web.http_errors import HttpError
from replays.web.replay_directory import ReplayDirectory

MEDIA_TYPES: dict[FilmFormat, str] = {"gif": "image/gif", "mp4": "video/mp4"}


class FilmRequest(ReplayForm):
    """Request for the film of a game."""

    format: FilmFormat
    seat: Annotated[int, Field(ge=0, lt=64)] | None = None
    """Only what this seat could know; None: everything open."""
    dark: bool = False


class FilmApi:
    """Makes films of the served games, one at a time: each needs a browser."""

    def __init__(self, directory: ReplayDirectory) -> None:
        self._directory = directory
        self._is_filming = Lock()
        self._stops = Event()

    @staticmethod
    def is_possible() -> bool:
        """Return whether the extra `film` is installed."""
        packages = {name for names in PACKAGES.values() for name in names}
        return all(find_spec(name) for name in packages)

    def routes(self) -> Sequence[BaseRoute]:
        """Return the route of films."""
        return [Route("/api/film", self.film, methods=["POST"])]

    async def film(self, request: Request) -> Response:
        """Return the film of a game, after the time that the browser needs for its positions."""
        wanted = await read_form(request, FilmRequest)
        try:
            return await to_thread.run_sync(self._film, wanted, abandon_on_cancel=True)
        except asyncio.CancelledError:
            # The process ends after its threads, so the film must end too.
            self._stops.set()
            return JSONResponse({"error": "the server stops"}, 503)

    def _check(self, _done: int, _total: int) -> None:
        if self._stops.is_set():
            raise HttpError(503, "the server stops")

    def _film(self, wanted: FilmRequest) -> Response:
        with finished_replay(self._directory, wanted) as replay:
            if wanted.seat is not None and wanted.seat >= len(replay.header.players):
                raise HttpError(404, f"this game has no seat {wanted.seat}")
            if not self._is_filming.acquire(blocking=False):
                raise HttpError(409, "another film is being made: wait until it is done")
            try:
                options = FilmOptions.of(replay, wanted.format, dark=wanted.dark)
                with TemporaryDirectory() as folder:
                    out = Path(folder) / "film"
                    write_film(replay, wanted.seat, wanted.format, options, out, self._check)
                    return Response(out.read_bytes(), media_type=MEDIA_TYPES[wanted.format])
            finally:
                self._is_filming.release()
