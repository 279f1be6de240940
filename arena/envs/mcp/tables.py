"""The games of a server of clients."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from arena.core.errors import UsageError
from arena.envs.hosting import MOST_OPEN, HostedGame
from arena.envs.mcp.table import ClientSeat, ClientTable, Finished, JoinedSeat

UNSEEN_SECONDS, SEEN_SECONDS = 1800.0, 300.0
"""Time after the end of a game for which its handles stay valid: until the clients have seen the
end, and after that."""


class ClientTables:
    """The games of a server, in one event loop.

    Args:
        host: What is played, and the limits of time.
        seats: The seats of clients.
        seeds: A seed for each game; there are no more games than seeds.
        out: Folder for the replays.
        finished: Takes each finished game.
    """

    def __init__(
        self,
        host: HostedGame,
        seats: Sequence[int],
        seeds: Iterator[int],
        out: Path,
        finished: Finished,
    ) -> None:
        self.host = host
        self.tables: list[ClientTable] = []
        self.opened = 0
        """Games so far."""
        self.seats = seats
        self._seeds, self._out, self._finished = seeds, out, finished

    def join(self, number: int | None) -> JoinedSeat:
        """Take a seat, by default any, in the game that waits for clients, or in a new one.

        Raises UsageError if the seat is taken or no client can have it.
        """
        if number is not None and number not in self.seats:
            known = ", ".join(map(str, self.seats))
            raise UsageError(f"seat {number} is not a client's; seats of clients: {known}")
        table = self._open_table()
        if number is not None and number not in table.free:
            free = ", ".join(map(str, table.free))
            raise UsageError(f"seat {number} is taken by another client; free: {free}")
        seat = table.take(table.free[0] if number is None else number)
        game = self.host.game
        return JoinedSeat(
            handle=seat.handle, game=game.name, seat=seat.number, names=list(game.seat_names)
        )

    def find(self, handle: str) -> tuple[ClientTable, ClientSeat]:
        """Return the game and the seat of a handle. Raises UsageError if there is none."""
        # Compared in constant time, so that a search by timing finds no handle.
        given = handle.encode(errors="replace")
        for table in self.tables:
            for seat in table.seats.values():
                if secrets.compare_digest(seat.handle.encode(), given):
                    return table, seat
        raise UsageError("no seat has this handle: call join, and use the handle that it returns")

    async def close(self) -> None:
        """Stop all games."""
        for table in self.tables:
            await table.close_game()

    def _open_table(self) -> ClientTable:
        """Return the game that waits for clients, or a new one. Raises UsageError."""
        self.tables = [table for table in self.tables if not _is_old(table)]
        for table in self.tables:
            if table.free:
                return table
        if sum(table.ended_at is None for table in self.tables) * len(self.seats) > MOST_OPEN:
            raise UsageError(f"{MOST_OPEN} seats are in play already: try later")
        seed = next(self._seeds, None)
        if seed is None:
            raise UsageError("all seats are taken, and no further game is played")
        self.opened += 1
        table = ClientTable(self.host, self.seats, seed, self._out, self._finished)
        self.tables.append(table)
        return table


def _is_old(table: ClientTable) -> bool:
    seconds = SEEN_SECONDS if table.is_seen else UNSEEN_SECONDS
    return table.ended_at is not None and time.monotonic() - table.ended_at > seconds
