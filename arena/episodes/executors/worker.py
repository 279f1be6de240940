"""The side of a worker: it runs units of work, and its calls to models go to the driver.

Driver and worker exchange pickled dataclasses: `WorkStart`, `WorkCancel` and `CallEnd` go to a
worker, the others come from it. On this machine a worker is a process behind a pair of sockets.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import traceback
import warnings
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any, Literal, Protocol

from arena.core.errors import ArenaError, PluginWarning, UsageError
from arena.core.spec import redacted
from arena.episodes.executors.work import Work
from arena.llm.backend import BackendTraits, Completion, Request


@dataclass(frozen=True, slots=True)
class WorkStart:
    """Order to run a unit of work."""

    number: int
    work: bytes
    """A pickled `Work`. The worker unpickles it apart, so that a failure is one of the work."""
    traits: Mapping[str, BackendTraits]
    """By SPEC of a model in the game."""


@dataclass(frozen=True, slots=True)
class WorkCancel:
    """Order to drop a unit of work."""

    number: int


@dataclass(frozen=True, slots=True)
class WorkEnd:
    """Result of a unit of work, or the error that ended it."""

    number: int
    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class CallStart:
    """Request of an agent."""

    number: int
    """The unit of work."""
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
class ServiceNote:
    """Call of a method of the driver's service that has no result."""

    number: int
    """The unit of work."""
    method: Literal["count_decision", "hint"]
    arguments: tuple[str | None, ...]


class Channel(Protocol):
    """Messages between the driver and one worker, in both directions."""

    def send(self, message: object) -> None:
        """Send a message without waiting; dropped if the other end is closed.

        Raises the error of pickling.
        """

    async def receive(self) -> object | None:
        """Return the next message, or None after the other end was closed or lost."""


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


OUT_OF_MEMORY = 12
"""Exit code of a worker without memory: the number of ENOMEM."""


class RemoteService:
    """ModelService of one unit of work in a worker: it passes everything on to the driver."""

    def __init__(self, start: WorkStart, channel: Channel, calls: _Calls) -> None:
        self._number = start.number
        self._traits = start.traits
        self._channel = channel
        self._calls = calls

    def traits(self, spec: str) -> BackendTraits:
        if spec not in self._traits:
            raise UsageError(f"{redacted(spec)} is not one of the models of this game")
        return self._traits[spec]

    async def complete(self, spec: str, request: Request) -> Completion:
        number, answer = self._calls.begin()
        self._channel.send(CallStart(self._number, number, spec, request))
        try:
            return await answer
        finally:
            self._calls.waiting.pop(number, None)

    def game(self, specs: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Return at once: the driver starts a game only when the budget covers it."""
        return nullcontext()

    def count_decision(self, spec: str, failure: str | None) -> None:
        self._channel.send(ServiceNote(self._number, "count_decision", (spec, failure)))

    def hint(self, topic: str, line: str) -> None:
        self._channel.send(ServiceNote(self._number, "hint", (topic, line)))


class _Calls:
    """The calls of a worker that have no answer yet."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[Completion]] = {}
        self._numbers = count()

    def begin(self) -> tuple[int, asyncio.Future[Completion]]:
        number = next(self._numbers)
        self.waiting[number] = asyncio.get_running_loop().create_future()
        return number, self.waiting[number]

    def end(self, end: CallEnd) -> None:
        """Pass an answer on, unless the call was cancelled."""
        answer = self.waiting.get(end.call)
        if answer is None or answer.done():
            return
        if end.error is not None:
            answer.set_exception(end.error)
        elif end.completion is not None:
            answer.set_result(end.completion)


async def serve(channel: Channel) -> None:
    """Run the work that comes through a channel until its other end is closed."""
    calls = _Calls()
    running: dict[int, asyncio.Task[None]] = {}
    while (message := await channel.receive()) is not None:
        match message:
            case WorkStart(number):
                running[number] = asyncio.create_task(_run(message, channel, calls))
                running[number].add_done_callback(partial(_forget, running, number))
            case WorkCancel(number) if number in running:
                running[number].cancel()
            case CallEnd():
                calls.end(message)
    for work in running.values():
        work.cancel()
    # Their files are closed when they end.
    await asyncio.gather(*running.values(), return_exceptions=True)


def _forget(running: dict[int, asyncio.Task[None]], number: int, _work: object) -> None:
    running.pop(number, None)


async def _run(start: WorkStart, channel: Channel, calls: _Calls) -> None:
    try:
        work: Work[object] = pickle.loads(start.work)
        result = await work(RemoteService(start, channel, calls))
        # Within the `try`: a result that cannot be pickled is a fault of the work, too.
        channel.send(WorkEnd(start.number, result))
    except MemoryError:
        # This process may lack the memory to report it. The driver notices its end, and repeats
        # the work in a new worker.
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # It is raised again in the driver.
        channel.send(WorkEnd(start.number, error=picklable(error)))


LENGTH_BYTES = 8
"""Size of the length before each message."""
SECONDS_TO_END = 10.0
"""Time in which a worker closes its files before it is terminated."""


class SocketChannel:
    """Pickled messages in both directions of a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> SocketChannel:
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
        try:
            size = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            message: object = pickle.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return message

    def close(self) -> None:
        """Close this end."""
        self._writer.close()


class ProcessChannel:
    """A worker process and the channel to it."""

    def __init__(self, process: SpawnProcess, channel: SocketChannel) -> None:
        self._process, self._channel = process, channel
        self.send, self.receive = channel.send, channel.receive

    @classmethod
    async def start(cls) -> ProcessChannel:
        """Start a worker process."""
        ours, theirs = socket.socketpair()
        # "spawn", since a fork would copy locks that other threads hold.
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_serve_process, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return cls(process, await SocketChannel.over(ours))

    @property
    def loss(self) -> str:
        """Why the process has ended."""
        code = self._process.exitcode
        if code == OUT_OF_MEMORY:
            return "out of memory"
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            # The kernel's remedy if the memory of the machine is used up.
            return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        return f"with exit code {code}"

    async def end(self) -> None:
        """Close the channel, upon which the worker drops its work and ends."""
        self._channel.close()
        await asyncio.to_thread(self._process.join, SECONDS_TO_END)
        if self._process.is_alive():
            self._process.terminate()


def _serve_process(end: socket.socket) -> None:
    """Work in a process of its own until the other end of the socket is closed."""
    _end_with_parent()
    # The parent has shown which plugins are left out.
    warnings.simplefilter("ignore", PluginWarning)

    async def serve_socket() -> None:
        await serve(await SocketChannel.over(end))

    asyncio.run(serve_socket())


def _end_with_parent() -> None:
    """Leave Ctrl-C to the parent process, and end when the parent ends for any reason."""
    # A terminal sends Ctrl-C to all processes of the group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def exit_with_parent() -> None:
        # The sentinel becomes ready when the parent ends, even if it is killed.
        wait([parent.sentinel])
        # `sys.exit` would end only this thread.
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
