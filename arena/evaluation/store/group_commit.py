"""Group commit: results that come close together are stored in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from arena.evaluation.records import GameResult

INTERVAL = 0.05
"""Seconds between two transactions, at least. Each waits for the disk, for some milliseconds, and
the event loop with it: one for each game would limit a run to a few hundred games per second."""


class GroupCommit:
    """Stores results in groups.

    A result that comes alone is stored at once. Those that come within INTERVAL after a transaction
    are stored together at its end.
    """

    def __init__(self, store: Callable[[Sequence[GameResult]], None]) -> None:
        """`store` stores all results of a group, or none."""
        self._store = store
        self._group: list[tuple[GameResult, asyncio.Future[None]]] = []
        self._earliest = 0.0
        """Time of the event loop before which no transaction starts."""

    async def add(self, result: GameResult) -> None:
        """Return when the result is stored. Raises the error of the transaction of its group."""
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        self._group.append((result, stored))
        # The first one of a group sets its time.
        if len(self._group) == 1:
            loop.call_at(self._earliest, self._commit)
        await stored

    def flush(self) -> None:
        """Store the results that wait. Raises the error of the transaction."""
        group, self._group = self._group, []
        if not group:
            return
        try:
            self._store([result for result, _ in group])
        except Exception as error:
            for _, stored in group:
                if not stored.done():  # Else its task was cancelled.
                    stored.set_exception(error)
            raise
        for _, stored in group:
            if not stored.done():
                stored.set_result(None)

    def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        # The waiting tasks raise its error.
        with suppress(Exception):
            self.flush()
        # From its end: a slow disk leaves time for the games as well.
        self._earliest = loop.time() + INTERVAL
