"""The games that people play on a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path

from arena.core.errors import ArenaError, UsageError
from arena.episodes.files import is_written
from arena.episodes.session import ExternalSeat
from arena.llm.service import LLMService
from replays.web.play.links import Link, WebGameSetup
from replays.web.play.web_game import HIDDEN_FOLDER, WebGame, publish
from replays.web.replay_directory import SUFFIXES

MAX_GAMES = 200
QUIET_SECONDS = 1800.0
"""Time without an open page after which a game is ended and removed."""
CHECK_SECONDS = 60.0


class WebGames:
    """Games by their links. It is used in one event loop."""

    def __init__(
        self, out: Path, llm: LLMService | None = None, served_as: str | None = None
    ) -> None:
        """Begin without games, whose replays go to `out`.

        `served_as` is the path of `out` below the folder that the viewer of the same server shows,
        "" for this folder itself; None if there is no viewer.
        """
        self.llm = llm
        self._out = out
        self._served_as = served_as
        self._links: dict[str, tuple[WebGame, Link]] = {}
        self._games: list[WebGame] = []

    def check(self, setup: WebGameSetup) -> None:
        """Seat the players that are no persons, and forget them. Loads their models.

        Raises:
            UsageError: A SPEC names no agent. Without this it would end the game at its start.
        """
        persons = {seat: ExternalSeat(None) for seat in setup.persons}
        setup.match.seat(self.llm, persons)

    def add(self, setup: WebGameSetup, stem: str) -> WebGame:
        """Add a game, whose replay is named `stem`.

        Raises UsageError if no seat is a person's, or there are too many games.
        """
        if not setup.persons:
            raise UsageError("a game needs a human seat: give one of them the player 'human'")
        if len(self._games) >= MAX_GAMES:
            raise UsageError(f"{MAX_GAMES} games are open: end one of the games, or try later")
        web_game = WebGame(setup, self._out, stem, self.llm, self._served_as)
        self._games.append(web_game)
        for link in web_game.all_links:
            self._links[link.token] = (web_game, link)
        return web_game

    def find(self, token: str) -> tuple[WebGame, Link] | None:
        """Return the game and the link of a token; None if there is no such link."""
        # The look-up compares hashes, so its time says nothing of a token of 128 random bits.
        return self._links.get(token)

    @asynccontextmanager
    async def lifespan(self, _app: object) -> AsyncIterator[None]:
        """Enter the context of an application, at whose end all games are ended and removed.

        The service that answers for models is open meanwhile.
        """
        self._show_unfinished()  # Of a server that was killed.
        async with self.llm or nullcontext():
            clearing = asyncio.create_task(self._clear_quiet())
            try:
                yield
            finally:
                clearing.cancel()
                with suppress(asyncio.CancelledError):
                    await clearing
                for web_game in [*self._games]:
                    await self._remove(web_game)
                self._show_unfinished()

    def _show_unfinished(self) -> None:
        """Move the replays of games that nobody plays any more to where the viewer finds them."""
        for suffix in SUFFIXES:
            for replay in sorted((self._out / HIDDEN_FOLDER).glob(f"*{suffix}")):
                if not is_written(replay):
                    stem = replay.name.removesuffix(suffix).rpartition("-")[0]
                    with suppress(ArenaError):  # It is kept where it is.
                        publish(replay, self._out, stem, suffix)

    async def _clear_quiet(self) -> None:
        """Remove games without an open page for long, again and again."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            now = time.monotonic()
            for web_game in [*self._games]:
                if not web_game.has_pages and now - web_game.quiet_since > QUIET_SECONDS:
                    await self._remove(web_game)

    async def _remove(self, web_game: WebGame) -> None:
        self._games.remove(web_game)
        for link in web_game.all_links:
            del self._links[link.token]
        await web_game.stop()
