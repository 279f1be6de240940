"""The tables of a server."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path

from arena.core.errors import UsageError
from arena.episodes.session import ExternalSeat
from arena.llm.service import LLMService
from replays.web.play.places import Link, TableSetup
from replays.web.play.table import PlayTable

MAX_TABLES = 200
QUIET_SECONDS = 1800.0
"""Time without an open page after which a table is cleared, and its game ends."""
CHECK_SECONDS = 60.0


class PlayTables:
    """Tables by their links. It is used in one event loop."""

    def __init__(
        self,
        out: Path,
        llm: LLMService | None = None,
        served_as: str | None = None,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        """Begin without tables.

        Args:
            out: Folder for the replays.
            llm: Answers for models among the players.
            served_as: Path of `out` below the folder that the viewer of the same server shows,
                "" for this folder itself; None if there is no viewer.
            quiet_seconds: Time without an open page after which a table is cleared.
        """
        self.llm = llm
        self._out = out
        self._served_as = served_as
        self._quiet_seconds = quiet_seconds
        self._links: dict[str, tuple[PlayTable, Link]] = {}
        self._tables: list[PlayTable] = []

    def check(self, setup: TableSetup) -> None:
        """Seat the players that are no persons, and forget them. Loads their models.

        Raises:
            UsageError: A SPEC names no agent. Without this it would end the game at its start.
        """
        persons = {seat: ExternalSeat(None) for seat in setup.persons}
        setup.match.seat(self.llm, persons)

    def add(self, setup: TableSetup, stem: str) -> PlayTable:
        """Lay a table.

        Args:
            setup: What is played.
            stem: Name of the replay.

        Raises:
            UsageError: No seat is a person's, or there are too many tables.
        """
        if not setup.persons:
            raise UsageError("a game needs a human seat: give one of them the player 'human'")
        if len(self._tables) >= MAX_TABLES:
            raise UsageError(f"{MAX_TABLES} tables are open: end one of the games, or try later")
        table = PlayTable(setup, self._out, stem, self.llm, self._served_as)
        self._tables.append(table)
        for link in table.all_links:
            self._links[link.token] = (table, link)
        return table

    def find(self, token: str) -> tuple[PlayTable, Link] | None:
        """Return the table and the place of a link; None if there is no such link."""
        # Compared in constant time, so that a search by timing finds no token.
        for known, found in self._links.items():
            if secrets.compare_digest(known.encode(), token.encode()):
                return found
        return None

    async def clear_quiet(self) -> None:
        """Clear tables without an open page for long, again and again."""
        while True:
            await asyncio.sleep(min(CHECK_SECONDS, self._quiet_seconds))
            now = time.monotonic()
            for table in [*self._tables]:
                if not table.has_pages and now - table.quiet_since > self._quiet_seconds:
                    await self._remove(table)

    async def close(self) -> None:
        """End all games."""
        for table in [*self._tables]:
            await self._remove(table)

    async def _remove(self, table: PlayTable) -> None:
        self._tables.remove(table)
        for link in table.all_links:
            del self._links[link.token]
        await table.close()
