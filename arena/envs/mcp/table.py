"""One game whose seats are taken by clients, each by an unguessable handle.

A client is sent texts of its own observation only. A replay is written after the game, because an
agent that can read files would find all hands in it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from arena.agents.display import ending
from arena.core.errors import ArenaError, UsageError
from arena.core.event import Ply
from arena.core.outcome import Outcome
from arena.core.state import State
from arena.core.text import pluralize, shorten
from arena.envs.hosting import HostedGame, SeatHandle, SharedEpisode
from arena.episodes.files import game_stem, replay_text
from arena.episodes.job import ReplayFile
from arena.episodes.match import Match
from arena.episodes.record import Episode, Header

WAIT_SECONDS = 20.0
"""Time that one call waits for the turn of its seat: clients give up on calls of a minute."""
MISSED = 2
"""Decisions in a row without any call after which a client counts as gone."""
MAX_ANSWER = 2_000
"""Characters of an action."""
MAX_LISTED = 1_000
"""Legal actions in one answer."""


Finished = Callable[[Match, Episode, Path], None]
"""Takes a finished game and its replay."""


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


class LegalActions(BaseModel):
    """The actions of a decision."""

    actions: list[str] = Field(description="Legal actions as text, the first 1,000")
    left_out: int = Field(description="Number of legal actions that are not listed")
    speech: list[str] = Field(description="Notation of speech that is legal too")


class ClientSeat:
    """Seat of one client, and when the client has last called."""

    def __init__(self, number: int, handle: str, joining: asyncio.Task[SeatHandle]) -> None:
        self.number = number
        self.handle = handle
        self.joining = joining
        """Ends when all clients of the game have joined and this seat must act."""
        self.missed = 0
        """Decisions in a row that were not answered in time, without a call meanwhile."""
        self.is_given_up = False
        self.has_seen_end = False
        self._calls = 0
        self._last_call = time.monotonic()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Note that the client is there."""
        self._calls, self.missed = self._calls + 1, 0
        try:
            yield
        finally:
            self._calls, self._last_call = self._calls - 1, time.monotonic()

    def is_silent(self, seconds: float) -> bool:
        """Return True if no call is in progress or has ended within this time."""
        return not self._calls and time.monotonic() - self._last_call >= seconds

    @property
    def begun(self) -> SeatHandle:
        """The seat in the game. Raises UsageError before the seat's first turn."""
        if not self.joining.done() or self.joining.exception():
            raise UsageError("it is not your turn yet: call view, which waits for it")
        return self.joining.result()


class ClientTable:
    """One game with clients. It follows the game as a watcher."""

    def __init__(
        self, host: HostedGame, seats: Sequence[int], seed: int, out: Path, finished: Finished
    ) -> None:
        self._host = replace(host, watchers=lambda match: [self, *host.watchers(match)])
        self._free = list(seats)
        self._seed, self._out, self._finished = seed, out, finished
        self._has_begun = False
        self._finishing: asyncio.Task[None] | None = None
        self.episode = SharedEpisode(self._host, seed, seats)
        self.seats: dict[int, ClientSeat] = {}
        self.ended_at: float | None = None

    @property
    def free(self) -> Sequence[int]:
        """Seats that clients can take."""
        return self._free if self.episode.is_open else ()

    @property
    def is_seen(self) -> bool:
        """True if the game has ended and all clients that are there have seen that."""
        return self.ended_at is not None and all(
            seat.has_seen_end or seat.is_given_up for seat in self.seats.values()
        )

    def take(self, number: int) -> ClientSeat:
        """Give a free seat to a client; the game begins when the last one is taken."""
        self._free.remove(number)
        joining = asyncio.get_running_loop().create_task(self.episode.join(number))
        # Marks an error as seen: a client that has gone does not read it.
        joining.add_done_callback(lambda task: task.cancelled() or task.exception())
        seat = self.seats[number] = ClientSeat(number, self.episode.tokens[number], joining)
        if self._finishing is None:
            self._finishing = asyncio.get_running_loop().create_task(self._finish(joining))
        return seat

    async def news(self, seat: ClientSeat, whole: bool = False) -> SeatNews:
        """Wait for the seat's turn or the end, for a while, and return what is new for the seat.

        Raises ArenaError if the other clients have not come in time, or the game has failed.
        """
        with seat.call():
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    handle = await asyncio.shield(seat.joining)
                    handle.turn = await handle.session.turn(seat.number)
            except TimeoutError:
                return self._waiting(seat)
            except ArenaError:
                if not self._has_begun:
                    raise
                # The reason may name what the seat may not know.
                raise ArenaError("the game has stopped; the server's terminal says why") from None
            return self._read(seat, handle, whole)

    def legal_actions(self, seat: ClientSeat) -> LegalActions:
        """Return what the seat may do now. Raises UsageError if it is not its turn."""
        with seat.call():
            legal = seat.begun.session.awaited(seat.number).legal_actions
        return LegalActions(
            actions=[str(action) for action in legal[:MAX_LISTED]],
            left_out=max(0, len(legal) - MAX_LISTED),
            speech=[offer.kind.notation() for offer in legal.speech],
        )

    async def act(self, seat: ClientSeat, action: str, turn: int | None) -> SeatNews:
        """Decide for the seat, and wait for its next turn.

        Raises:
            ActionError: The action is not legal.
            UsageError: It is not the seat's turn, or another one was answered.
        """
        if len(action) > MAX_ANSWER:
            raise UsageError(f"the action has {len(action):,} characters, at most {MAX_ANSWER:,}")
        with seat.call():
            seat.begun.session.act(seat.number, action, turn)
        return await self.news(seat)

    def notes(self, seat: ClientSeat) -> str:
        """Return the notebook of the seat, at the text level of the game. Raises UsageError."""
        level = self._host.text_level
        if level == "events":
            raise UsageError("this game is played without notes; view has all events")
        with seat.call():
            seen = seat.begun.session.observe(seat.number)
        text, events = seen.text(level), seen.text("events")
        notes = text.removeprefix(events) if text.startswith(events) else text
        return notes.strip("\n") or "There are no notes."

    def log(self, seat: ClientSeat) -> str:
        """Return all events that the seat has witnessed, one to a line."""
        with seat.call():
            events = seat.begun.session.observe(seat.number).events
        return "\n".join(map(self._host.game.text.narrate, events))

    def _read(self, seat: ClientSeat, handle: SeatHandle, whole: bool) -> SeatNews:
        turn, since = handle.turn, 0 if whole else handle.read
        handle.read = turn.observation.num_events
        text = turn.observation.text(self._host.text_level, since)
        if turn.is_over:
            outcome = handle.session.episode.outcome
            text = f"{text}\n{ending(self._host.game, outcome, seat.number)}".strip()
            seat.has_seen_end = True
        return SeatNews(status="over" if turn.is_over else "act", turn=turn.number, text=text)

    def _waiting(self, seat: ClientSeat) -> SeatNews:
        text = "Another player is to act."
        if not self._has_begun:
            text = f"The game waits for {pluralize(len(self._free), 'other client')}."
        if seat.is_given_up:
            text = f"You made no call for {MISSED} decisions: fallback moves play your seat."
        turn = seat.begun.turn.number + 1 if seat.joining.done() else 0
        return SeatNews(status="wait", turn=turn, text=text)

    # The game

    def begin(self, header: Header, state: State) -> None:
        """Note that all clients have come."""
        self._has_begun = True

    def ply(self, ply: Ply, state: State) -> None:
        """Give up the seat of a client that is gone, so that the others need not wait for it."""
        seat = self.seats.get(ply.player)
        seconds = self._host.turn_seconds
        if seat is None or seat.is_given_up or ply.decision.failure is None or seconds is None:
            return
        if seat.joining.done() and seat.is_silent(seconds):
            seat.missed += 1
        if seat.missed >= MISSED:
            seat.is_given_up = True
            seat.joining.result().session.leave(seat.number)

    def end(self, outcome: Outcome) -> None:
        """Do nothing: the replay is written when the game has returned."""

    def close(self) -> None:
        """Do nothing: nothing is held open."""

    async def _finish(self, joining: asyncio.Task[SeatHandle]) -> None:
        """Wait for the end of the game, and write the replay."""
        match = self._host.match(self._seed, self.seats)
        try:
            session = (await joining).session
            await session.wait()
            episode = session.episode
            file = ReplayFile(self._out, game_stem(match.game, self._seed), numbered=True)
            self._finished(match, episode, file.write(replay_text(episode)))
        except ArenaError as error:
            name = game_stem(match.game, self._seed)
            print(f"{name}: the game has stopped: {shorten(str(error))}", file=sys.stderr)
        finally:
            self.ended_at = time.monotonic()

    async def close_game(self) -> None:
        """Stop the game if it goes on."""
        for seat in self.seats.values():
            if not seat.joining.cancel() and not seat.joining.exception():
                await seat.joining.result().session.close()
        if self._finishing is not None:
            await asyncio.wait([self._finishing])
