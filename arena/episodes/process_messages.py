"""Messages between this process and the workers that play its games: pickled dataclasses.

`GameStart`, `GameCancel` and `CallEnd` go to a worker, the others come from it.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from arena.core.errors import ArenaError
from arena.llm.backend import BackendTraits, Completion, ModelService, Request

T = TypeVar("T")

GameWork = Callable[[ModelService], Awaitable[T]]
"""Plays a game. It is pickled, and so are its result and its errors."""

LENGTH_BYTES = 8
"""Size of the length before each message."""


@dataclass(frozen=True, slots=True)
class GameStart:
    """Order to play a game."""

    game: int
    work: GameWork[Any]
    traits: Mapping[str, BackendTraits]
    """By SPEC of a model in the game."""


@dataclass(frozen=True, slots=True)
class GameCancel:
    """Order to drop a game."""

    game: int


@dataclass(frozen=True, slots=True)
class GameEnd:
    """Result of a game, or the error that ended it."""

    game: int
    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class CallStart:
    """Request of an agent."""

    game: int
    call: int
    spec: str
    request: Request


@dataclass(frozen=True, slots=True)
class CallEnd:
    """Answer to a request, or the error of the call."""

    call: int
    completion: Completion | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class DecisionCount:
    """Decision of an agent, for the ledger."""

    game: int
    spec: str
    failure: str | None


@dataclass(frozen=True, slots=True)
class HintLine:
    """Line for people."""

    topic: str
    line: str


class Channel:
    """Pickled messages in both directions of a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """Return the channel of one end of a pair of sockets."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: object) -> None:
        """Send a message. It is buffered: a process that waits until it is read could block."""
        # The other end was closed; games that are being dropped still report.
        if self._writer.is_closing():
            return
        data = pickle.dumps(message)
        self._writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)

    async def receive(self) -> object | None:
        """Return the next message, or None after the other end was closed."""
        try:
            size = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            message: object = pickle.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return message

    def close(self) -> None:
        self._writer.close()


def picklable(error: Exception) -> Exception:
    """Return the error, with its traceback as a note, in a form that survives pickling."""
    if not isinstance(error, ArenaError):  # A fault of a program: its place is worth knowing.
        error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # Errors of other packages may need arguments that pickling loses.
        kept = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            kept.add_note(note)
        return kept
    return error
