"""JSON API of the replay viewer: the list of games by a query, and the documents of one game."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from arena.core.errors import ArenaError
from arena.core.spec import Spec
from arena.core.text import shorten
from replays.analysis.documents import CommentJson, ListedReplayJson, ReplayListJson
from replays.web.exchange import json_response, number, parameter, required_number
from replays.web.http_errors import HttpError
from replays.web.listing import Listing
from replays.web.page_files import encode
from replays.web.replay_cache import OpenReplay, ReplayCache
from replays.web.replay_directory import ReplayDirectory, ServedFile

SortKey = str | int
ORDERS: dict[str, Callable[[ListedReplayJson], SortKey]] = {
    "game": lambda row: f"{row['game']} {row['variant'] or ''}",
    "players": lambda row: " ".join(row["players"]),
    "result": lambda row: f"{row['status']} {row['reason']}",
    "turns": lambda row: -1 if row["turns"] is None else row["turns"],
    "created": lambda row: row["created"],
}
"""Columns of the list that it can be ordered by."""
ENDED = ("terminated", "truncated")
MAX_PLAYERS = 500
"""Players that are offered as filters."""
DEFAULT_ROWS, MAX_ROWS = 100, 500
"""Rows of one answer."""
TEXTS = ("text", "within", "game", "player", "source", "result", "sort")
"""Texts in a query for the list."""


@dataclass(frozen=True, slots=True)
class GameQuery:
    """Conditions on games, and an order. Empty conditions hold for all games."""

    text: str = ""
    """Words, each of which occurs in the game's name, file, players or result."""
    within: str = ""
    """Folder of the files."""
    game: str = ""
    player: str = ""
    source: str = ""
    """`person`: a person played; `study`: a game of an evaluation or a run; `single`: any other."""
    result: str = ""
    """A status, or `won` or `lost`: by the player, or by any player without one."""
    sort: str = "created"
    descending: bool = True

    def matches(self, row: ListedReplayJson) -> bool:
        """Check all conditions but the text."""
        return (
            (not self.within or row["path"].startswith(f"{self.within}/"))
            and (not self.game or self.game == row["game"])
            and (not self.player or self.player in row["players"])
            and (not self.result or self._has_result(row))
        )

    def _has_result(self, row: ListedReplayJson) -> bool:
        if self.result not in ("won", "lost"):
            return row["status"] == self.result
        if row["status"] not in ENDED:
            return False
        winners = [row["players"][seat] for seat in row["winners"] if seat < len(row["players"])]
        won = bool(winners) and (not self.player or self.player in winners)
        return won == (self.result == "won")


def select(
    rows: Iterable[ListedReplayJson], query: GameQuery, folders: Iterable[str] = ()
) -> list[ListedReplayJson]:
    """Return the rows that match, in order; `folders` are those of evaluations and runs."""
    words, studies = query.text.lower().split(), frozenset(folders)
    found = [
        row
        for row in rows
        if query.matches(row)
        and (not words or all(word in _text(row) for word in words))
        and (not query.source or query.source == _source(row, studies))
    ]
    # Two stable passes: the path decides between equals, in both directions.
    found.sort(key=lambda row: row["path"])
    found.sort(key=ORDERS[query.sort], reverse=query.descending)
    return found


def _source(row: ListedReplayJson, studies: frozenset[str]) -> str:
    if any(Spec.parse(spec).is_human for spec in row["players"]):
        return "person"
    folders = map(str, PurePosixPath(row["path"]).parents)
    return "single" if studies.isdisjoint(folders) else "study"


def _text(row: ListedReplayJson) -> str:
    branch = row["branch"]
    parent = branch["parent"] if branch else None
    fields = [row["game"], row["variant"], row["path"], row["reason"], row["error"], parent]
    return " ".join(filter(None, [*fields, *row["players"]])).lower()


class ReplayApi:
    """Endpoints of the JSON API for the served files; another part may play on."""

    def __init__(
        self, directory: ReplayDirectory, listing: Listing, can_play: bool = False
    ) -> None:
        self._directory = directory
        self._can_play = can_play
        self._listing = listing
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
        # Of the folder itself, its own database or settings say nothing: it holds everything.
        folders = {str(PurePosixPath(file.name).parent) for file in snapshot.others} - {"."}
        rows = snapshot.games
        found = select(rows, query, folders)
        offset, limit = number(request, "offset") or 0, number(request, "limit")
        limit = min(MAX_ROWS, DEFAULT_ROWS if limit is None else limit)
        games: ReplayListJson = {
            "root": self._directory.title,
            "games": found[offset : offset + limit],
            "offset": offset,
            "found": len(found),
            "all": len(rows),
            "unread": snapshot.unread,
            "players": sorted({spec for row in rows for spec in row["players"]})[:MAX_PLAYERS],
            "names": sorted({row["game"] for row in rows if row["game"]}),
            "single": self._directory.single_file is not None,
        }
        if self._can_play:
            games["can_play"] = True
        if not rows:  # The page shows a command that plays a game into this folder.
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
        if seat is None:  # The path contains the seed, so a seat does not get it.
            timeline["path"] = file.name
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
        seat = _seat(request, replay)
        ply = required_number(request, "ply", "the number of the decision")
        with replay.lock:
            return json_response(request, replay.analysis.decision(ply, seat))

    def moves(self, request: Request) -> Response:
        """Return the values of the moves at a position, for the player who moved there."""
        replay = self._open(request)
        seat = _seat(request, replay)
        position = required_number(request, "position", "the number of the position")
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
        return self._directory.find_by(parameter(request, "path"), parameter(request, "key"))


def _query(request: Request) -> GameQuery:
    """Return the query of a request for the list. Raises HttpError for another form."""
    texts = {name: parameter(request, name) for name in TEXTS}
    query = GameQuery(
        **{name: text for name, text in texts.items() if text},
        descending=parameter(request, "descending") != "0",
    )
    if query.sort not in ORDERS:
        raise HttpError(400, f"sort= must be one of {', '.join(ORDERS)}")
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
