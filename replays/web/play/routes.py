"""Routes of the play server: the page, the form for a new game, and a socket for each open page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import cast

from pydantic import JsonValue, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from arena.core.errors import ArenaError
from arena.core.text import first_fault, shorten
from arena.episodes.files import game_stem
from arena.episodes.replay import Replay
from replays.web.exchange import ReplayForm, file_response, finished_replay, read_form
from replays.web.http_errors import HttpError
from replays.web.page_files import encode, page_files
from replays.web.play.documents import MAX_NAME, AnswerJson, SeatMessage, UpdateJson
from replays.web.play.links import Link, Page, WebGameSetup, web_game_json
from replays.web.play.new_game import BranchForm, NewGames, WebGameForm
from replays.web.play.web_game import WebGame
from replays.web.play.web_games import WebGames
from replays.web.replay_directory import ReplayDirectory

PLAY_PAGE = "play.html"
MAX_MESSAGE_BYTES = 16_384
"""Longest message of a page; a longer one ends the connection."""
MESSAGES_PER_SECOND = 20.0
MESSAGES_AT_ONCE = 40
"""Messages that a page may send at once; later ones are answered at the rate above."""
UNSUPPORTED_DATA = 1003
"""Code with which a socket is closed that sends bytes instead of text, as RFC 6455 has it."""
UNKNOWN_LINK = 4404
"""Code with which a socket is closed whose link does not exist; the page does not retry."""


class PlayApi:
    """Part of the web server in which people play.

    Without `new_games` a page may start nothing; without a directory there are no replays from
    whose positions people may play on.
    """

    def __init__(
        self,
        games: WebGames,
        new_games: NewGames | None,
        directory: ReplayDirectory | None = None,
    ) -> None:
        self._games = games
        self._new_games = new_games
        self._directory = directory
        self._page = page_files().get(PLAY_PAGE)

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of play."""
        return [
            Route("/play", self.page),
            Route("/api/play/form", self.form),
            Route("/api/play/games", self.add_game, methods=["POST"]),
            Route("/api/play/branches", self.add_branch, methods=["POST"]),
            WebSocketRoute("/api/play/seat/{token}", self.socket),
        ]

    def page(self, _request: Request) -> Response:
        """Return the page; the fragment of its address names the seat."""
        return file_response(self._page)

    def form(self, _request: Request) -> Response:
        """Return what can be chosen for a new game."""
        return JSONResponse(self._allowed().form())

    async def add_game(self, request: Request) -> Response:
        """Start a new game; return the tokens of its links."""
        new_games = self._allowed()
        wanted = await read_form(request, WebGameForm)
        return await self._start(await run_in_threadpool(new_games.setup, wanted))

    async def add_branch(self, request: Request) -> Response:
        """Start a game in which a person plays on from a position of a replay."""
        new_games = self._allowed()
        wanted = await read_form(request, BranchForm)

        def setup() -> WebGameSetup:
            with self._replay(wanted) as replay:
                return new_games.branch(replay, wanted)

        return await self._start(await run_in_threadpool(setup))

    def _replay(self, wanted: ReplayForm) -> AbstractContextManager[Replay]:
        if self._directory is None:
            raise HttpError(403, "this server shows no replays")
        return finished_replay(self._directory, wanted)

    async def _start(self, setup: WebGameSetup) -> Response:
        await run_in_threadpool(self._games.check, setup)
        web_game = self._games.add(setup, game_stem(setup.match.game, setup.match.seed))
        seats = {str(seat): link.token for seat, link in web_game.links.items()}
        return JSONResponse({"seats": seats, "spectators": web_game.spectators.token}, 201)

    async def socket(self, socket: WebSocket) -> None:
        """Connect one open page with its seat in a game."""
        await socket.accept()
        found = self._games.find(socket.path_params["token"])
        if found is None:
            await socket.close(UNKNOWN_LINK, "there is no such game, or it was cleared")
            return
        web_game, link = found
        name = socket.query_params.get("name", "")[:MAX_NAME]
        if name and link.view.seat is not None:
            with suppress(ArenaError):  # A name that cannot be one is left out.
                web_game.rename(link.view.seat, name)
        try:
            page = web_game.open_page(link)
        except ArenaError as error:
            await socket.close(UNKNOWN_LINK, shorten(str(error), 100))
            return
        sender = asyncio.create_task(_send(socket, web_game, link, page))
        try:
            await self._receive(socket, web_game, link)
        except (WebSocketDisconnect, RuntimeError):  # RuntimeError: it was closed by the sender.
            pass
        finally:
            web_game.close_page(link, page)
            sender.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await sender

    async def _receive(self, socket: WebSocket, web_game: WebGame, link: Link) -> None:
        """Carry out the messages of a page until it is closed."""
        allowance, checked = float(MESSAGES_AT_ONCE), time.monotonic()
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None:
                await socket.close(UNSUPPORTED_DATA, "send text: a page sends no bytes")
                return
            now = time.monotonic()
            allowance = min(MESSAGES_AT_ONCE, allowance + (now - checked) * MESSAGES_PER_SECOND) - 1
            checked = now
            if allowance < 0:  # Slowed down; other pages are served meanwhile.
                await asyncio.sleep(1 / MESSAGES_PER_SECOND)
            answer = await self._answer(web_game, link, text)
            await socket.send_text(encode({"answer": dict(answer)}))

    async def _answer(self, web_game: WebGame, link: Link, text: str) -> AnswerJson:
        if link.view.seat is None:
            return {"error": "spectators do not play"}
        try:
            message = SeatMessage.model_validate_json(text)
            if message.advise and message.turn is not None:
                return await web_game.advise(link.view.seat, message.turn)
            return web_game.take(link.view.seat, message)
        except ValidationError as error:
            return {"error": first_fault(error)}
        except ArenaError as error:
            return {"error": shorten(str(error))}

    def _allowed(self) -> NewGames:
        if self._new_games is None:
            raise HttpError(403, "this server does not start new games")
        return self._new_games


async def _send(socket: WebSocket, web_game: WebGame, link: Link, page: Page) -> None:
    """Send what is new for a page, whenever there is something."""
    first: UpdateJson = {
        "now": time.time(),
        "table": web_game_json(web_game.setup),
        "seat": link.view.seat,
    }
    try:
        await socket.send_text(encode({**first, **news(web_game, link, page)}))
        while True:
            await page.changed.wait()
            page.changed.clear()
            if update := news(web_game, link, page):
                await socket.send_text(encode({**update, "now": time.time()}))
    except (WebSocketDisconnect, RuntimeError, OSError):
        pass  # The page has gone; the receiver notices it too.


def news(web_game: WebGame, link: Link, page: Page) -> dict[str, JsonValue]:
    """Return what a page was not sent yet, and mark it as sent; empty if there is nothing."""
    update: dict[str, object] = {}
    events = link.view.events
    if page.events_sent < len(events):
        update["first"], update["events"] = page.events_sent, events[page.events_sent :]
        page.events_sent = len(events)
    parts = cast("dict[str, object]", web_game.parts(link))
    changed = {
        name: value
        for name, value in parts.items()
        if name not in page.parts_sent or page.parts_sent[name] != value
    }
    if changed:
        update["parts"] = changed
        page.parts_sent = parts
    return cast("dict[str, JsonValue]", update)
