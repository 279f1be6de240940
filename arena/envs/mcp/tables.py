"""The games of a server, whose seats are taken by clients, each by an unguessable handle.

A client is sent texts of its own observation only. A replay is written after the game, because an
agent that can read files would find all hands in it.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from arena.agents.display import ending
from arena.core.errors import ArenaError, UsageError
from arena.core.event import Outcome, Ply
from arena.core.game import State
from arena.core.text import pluralize, shorten
from arena.envs.hosting import HostedGame
from arena.episodes.files import ReplayFile, game_stem, replay_text
from arena.episodes.match import Match
from arena.episodes.record import Episode, Header
from arena.episodes.session import GameSession

WAIT_SECONDS = 20.0
"""Time that one call waits for the turn of its seat: clients give up on calls of a minute."""
MISSED = 2
"""Decisions in a row without any call after which a client counts as gone."""
MAX_ANSWER = 2_000
"""Characters of an action."""
KEPT_SECONDS = 600.0
"""Time after the end of a game for which its handles stay valid."""


class JoinedSeat(BaseModel):
    """A seat that a client has taken."""

    handle: str = Field(description="Secret key to the seat: an argument of the other tools")
    game: str
    seat: int = Field(description="Number of the seat, from 0")
    names: list[str] = Field(description="Name of each seat")


class SeatNews(BaseModel):
    """What is new for a seat."""

    status: Literal["act", "wait", "over"] = Field(
        description="act: the seat must act now; wait: call view again; over: the game has ended"
    )
    turn: int = Field(description="Number of the decision that is awaited or comes next, from 0")
    text: str = Field(description="What has happened and what the seat may do, in words")


class ClientSeat:
    """A seat of a game, and when its client has last called."""

    def __init__(self, table: ClientTable, number: int) -> None:
        self.table = table
        self.number = number
        self.handle = secrets.token_urlsafe(16)
        self.read = self.turn = 0
        """Events that the client has read; decisions that it was asked for."""
        self.missed = 0
        """Decisions in a row that were not answered in time, without a call meanwhile."""
        self.is_given_up = False
        self._calls = 0
        self._last_call = time.monotonic()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Note that the client is there."""
        self._calls, self.missed = self._calls + 1, 0
        try:
            yield
        finally:
            self._calls, self._last_call = self._calls - 1, time.monotonic()

    def miss(self, seconds: float) -> None:
        """Count a decision as missed if no call is in progress or has ended within this time."""
        self.missed += not self._calls and time.monotonic() - self._last_call >= seconds
        if self.missed >= MISSED and not self.is_given_up:
            self.is_given_up = True
            self.table.session.result().leave(self.number)

    async def news(self, whole: bool = False) -> SeatNews:
        """Wait for the seat's turn or the end, for a while, and return what is new for the seat.

        Raises ArenaError if the game has failed.
        """
        with self._call():
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    session = await asyncio.shield(self.table.session)
                    turn = await session.turn(self.number)
            except TimeoutError:
                return self._waiting()
            except ArenaError:
                # The reason may name what the seat may not know.
                raise ArenaError("the game has stopped; the server's terminal says why") from None
            since, self.read = 0 if whole else self.read, turn.observation.num_events
            self.turn = turn.number + 1
            text = turn.observation.text(self.table.host.text_level, since)
            if turn.is_over:
                outcome = session.episode.outcome
                text = f"{text}\n{ending(self.table.host.game, outcome, self.number)}".strip()
            return SeatNews(status="over" if turn.is_over else "act", turn=turn.number, text=text)

    def _waiting(self) -> SeatNews:
        text = "Another player is to act."
        if self.table.free:
            text = f"The game waits for {pluralize(len(self.table.free), 'other client')}."
        if self.is_given_up:
            text = f"You made no call for {MISSED} decisions: fallback moves play your seat."
        return SeatNews(status="wait", turn=self.turn, text=text)

    def legal_actions(self) -> list[str]:
        """Return what the seat may do now, as text. Raises UsageError if it is not its turn."""
        with self._call():
            return list(self._session().awaited(self.number).legal_actions.notations())

    async def act(self, action: str, turn: int | None) -> SeatNews:
        """Decide for the seat, and wait for its next turn.

        Raises:
            ActionError: The action is not legal.
            UsageError: It is not the seat's turn, or another one was answered.
        """
        if len(action) > MAX_ANSWER:
            raise UsageError(f"the action has {len(action):,} characters, at most {MAX_ANSWER:,}")
        with self._call():
            self._session().act(self.number, action, turn)
        return await self.news()

    def _session(self) -> GameSession:
        if not self.table.session.done():
            raise UsageError("it is not your turn yet: call view, which waits for it")
        return self.table.session.result()


class ClientTable:
    """One game with clients, which begins when all have come. It follows the game as a watcher."""

    def __init__(self, tables: ClientTables) -> None:
        self.host = tables.host
        self.free = list(tables.seats)
        """Seats that clients can take."""
        self.seats: dict[int, ClientSeat] = {}
        self.session: asyncio.Future[GameSession] = asyncio.get_running_loop().create_future()
        self.ended_at: float | None = None
        self.ending: asyncio.Task[None] | None = None
        """Writes the replay."""
        self._tables, self._seed = tables, next(tables.seeds)

    def take(self, number: int) -> ClientSeat:
        """Give a free seat to a client; the game begins when the last one is taken."""
        self.free.remove(number)
        seat = self.seats[number] = ClientSeat(self, number)
        if not self.free:
            session = self.host.start(self._seed, self.seats, self)
            self.session.set_result(session)
            self.ending = asyncio.get_running_loop().create_task(self._end(session))
        return seat

    def begin(self, header: Header, state: State) -> None: ...
    def end(self, outcome: Outcome) -> None: ...
    def close(self) -> None: ...
    def ply(self, ply: Ply, state: State) -> None:
        """Give up the seat of a client that is gone, so that the others need not wait for it."""
        seat, seconds = self.seats.get(ply.player), self.host.turn_seconds
        if seat is not None and ply.decision.failure is not None and seconds is not None:
            seat.miss(seconds)

    async def _end(self, session: GameSession) -> None:
        """Wait for the end of the game, and write the replay."""
        stem = game_stem(self.host.game, self._seed)
        try:
            await session.wait()
            replay = ReplayFile(self._tables.out, stem, numbered=True)
            path = replay.write(replay_text(session.episode))
            self._tables.finished(session.match, session.episode, path)
        except ArenaError as error:
            print(f"{stem}: the game has stopped: {shorten(str(error))}", file=sys.stderr)
        finally:
            self.ended_at = time.monotonic()


@dataclass(eq=False, slots=True)
class ClientTables:
    """The games of a server, in one event loop."""

    host: HostedGame
    """Game, players and limits of time."""
    seats: Sequence[int]
    """The seats of clients."""
    seeds: Iterator[int]
    """A seed for each game."""
    out: Path
    """Folder for the replays."""
    finished: Callable[[Match, Episode, Path], None]
    """Takes each finished game and its replay."""
    tables: list[ClientTable] = field(default_factory=list)

    def join(self, number: int | None) -> JoinedSeat:
        """Take a seat, by default any, in the game that waits for clients, or in a new one.

        Raises UsageError if no client can have the seat.
        """
        if number is not None and number not in self.seats:
            known = ", ".join(map(str, self.seats))
            raise UsageError(f"seat {number} is not a client's; seats of clients: {known}")
        oldest = time.monotonic() - KEPT_SECONDS
        self.tables = [each for each in self.tables if (each.ended_at or oldest) >= oldest]
        # The game that waits for this client, or a new one.
        wanted = self.seats if number is None else (number,)
        table = next((each for each in self.tables if {*wanted} & {*each.free}), None)
        if table is None:
            table = ClientTable(self)
            self.tables.append(table)
        seat = table.take(table.free[0] if number is None else number)
        game = self.host.game
        return JoinedSeat(
            handle=seat.handle, game=game.name, seat=seat.number, names=list(game.seat_names)
        )

    def find(self, handle: str) -> ClientSeat:
        """Return the seat of a handle. Raises UsageError if there is none."""
        # Compared in constant time, so that a search by timing finds no handle.
        given = handle.encode(errors="replace")
        for table in self.tables:
            for seat in table.seats.values():
                if secrets.compare_digest(seat.handle.encode(), given):
                    return seat
        raise UsageError("no seat has this handle: call join, and use the handle that it returns")

    async def aclose(self) -> None:
        """Stop all games."""
        for table in self.tables:
            if table.ending is not None:
                await table.session.result().close()
                await asyncio.wait([table.ending])
