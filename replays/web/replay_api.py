"""JSON API of the replay viewer: the list of games, and the documents of one game."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from arena.core.errors import ArenaError, UsageError
from arena.core.text import shorten
from replays.analysis.documents import CommentJson, ReplayListJson
from replays.web.exchange import json_response, number, parameter
from replays.web.game_query import GameIndex, GameQuery
from replays.web.http_errors import HttpError
from replays.web.listing import Listing
from replays.web.page_files import encode
from replays.web.replay_cache import OpenReplay, ReplayCache, find_parents
from replays.web.replay_directory import ReplayDirectory, ServedFile

DEFAULT_ROWS, MAX_ROWS = 100, 500
"""Rows of one answer."""
TEXTS = ("text", "player", "result", "since", "until", "sort")
"""Texts in a query for the list."""


class ReplayApi:
    """Endpoints of the JSON API for the served files.

    Args:
        directory: The files.
        listing: The list of them.
        can_play: The server lets people play on from a position.
        can_film: The server makes films.
    """

    def __init__(
        self,
        directory: ReplayDirectory,
        listing: Listing,
        can_play: bool = False,
        can_film: bool = False,
    ) -> None:
        self._directory = directory
        self._can_film = can_film
        self._can_play = can_play
        self._listing = listing
        self._index = GameIndex()
        self._cache = ReplayCache()

    def routes(self) -> list[BaseRoute]:
        """Return one route for each document."""
        endpoints = (
            self.games, self.timeline, self.posterior, self.comments, self.summaries,
            self.decision, self.moves,
        )  # fmt: skip
        return [Route(f"/api/{endpoint.__name__}", endpoint) for endpoint in endpoints]

    def games(self, request: Request) -> Response:
        """Return a part of the list of replays that match a query."""
        query, snapshot = _query(request), self._listing.current()
        found, players = self._index.select(snapshot.number, snapshot.games, query)
        offset, limit = number(request, "offset") or 0, number(request, "limit")
        limit = min(MAX_ROWS, DEFAULT_ROWS if limit is None else limit)
        games: ReplayListJson = {
            "root": self._directory.title,
            "games": found[offset : offset + limit],
            "offset": offset,
            "found": len(found),
            "all": len(snapshot.games),
            "unread": snapshot.unread,
            "players": players,
            "single": self._directory.single_file is not None,
        }
        if self._can_play:
            games["can_play"] = True
        if not snapshot.games:  # The page shows a command that plays a game into this folder.
            games["folder"] = shlex.quote(str(self._directory.typed_path))
        return json_response(request, games, tagged=True)

    def timeline(self, request: Request) -> Response:
        """Return the course of a game."""
        file = self._file(request)
        replay = self._open_file(request, file)
        seat, first = _seat(request, replay), number(request, "first") or 0
        with replay.lock:
            timeline = replay.analysis.timeline(seat, first)
        timeline["running"], timeline["key"] = file.is_running(), file.key
        if self._can_play:
            timeline["can_play"] = True
        if self._can_film and not file.is_running():
            timeline["can_film"] = True
        # The path and the parents contain seeds, so a seat does not get them.
        if seat is None:
            timeline["path"] = file.name
            parents = find_parents(self._directory, replay.branches)
            for branch, path in zip(timeline["game"]["branches"], parents, strict=True):
                branch["path"] = path
        return json_response(request, timeline)

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
            return json_response(request, replay.analysis.posterior(player))

    def comments(self, request: Request) -> Response:
        """Stream the comments while they are computed."""
        replay = self._open(request)
        lines = _comment_lines(replay.analysis.comments(_seat(request, replay)))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    def summaries(self, request: Request) -> Response:
        """Return the summary of each seat."""
        replay = self._open(request)
        seat = _seat(request, replay)
        return json_response(request, replay.analysis.summaries(seat))

    def decision(self, request: Request) -> Response:
        """Return one decision."""
        replay = self._open(request)
        seat, ply = _seat(request, replay), number(request, "ply")
        if ply is None:
            raise HttpError(400, "ply= is missing: the number of the decision")
        with replay.lock:
            return json_response(request, replay.analysis.decision(ply, seat))

    def moves(self, request: Request) -> Response:
        """Return the values of the moves at a position, for the player who moved there."""
        replay = self._open(request)
        seat, position = _seat(request, replay), number(request, "position")
        if position is None:
            raise HttpError(400, "position= is missing: the number of the position")
        # Not under the lock: this may take seconds, and other requests must not wait for it.
        return json_response(request, replay.analysis.moves(position, seat))

    def _open(self, request: Request) -> OpenReplay:
        return self._open_file(request, self._file(request))

    def _open_file(self, request: Request, file: ServedFile) -> OpenReplay:
        try:
            return self._cache.get(file)
        except HttpError as error:
            if parameter(request, "seat") is None:
                raise
            # The message may quote a move that this seat must not see.
            message = "this replay cannot be opened; the view with everything open shows the reason"
            raise HttpError(error.status, message) from None

    def _file(self, request: Request) -> ServedFile:
        key = parameter(request, "key")
        if key is not None:
            return self._directory.find_key(key)
        return self._directory.find(parameter(request, "path") or "")


def _query(request: Request) -> GameQuery:
    """Return the query of a request for the list. Raises an ArenaError for another form."""
    texts = {name: parameter(request, name) for name in TEXTS}
    query = GameQuery(
        **{name: text for name, text in texts.items() if text},
        least=number(request, "least"),
        most=number(request, "most"),
        descending=parameter(request, "descending") != "0",
    )
    try:
        query.check()
    except UsageError as error:
        raise HttpError(400, str(error)) from None
    return query


def _seat(request: Request, replay: OpenReplay, name: str = "seat") -> int | None:
    seat = number(request, name)
    if seat is not None and seat >= replay.seats:
        message = f"{name}={seat}: this game has seats 0 to {replay.seats - 1}"
        raise HttpError(400, message, seats=replay.seats)
    return seat


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
