"""The side of a worker: it runs units of work, and its calls to models go to the driver.

Driver and worker exchange pickled messages: each is a `Peer` that calls functions of the other. On
this machine a worker is a process behind a pair of sockets.
"""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import traceback
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any, Literal, Protocol

from arena.core.errors import ArenaError, PluginWarning, UsageError
from arena.core.spec import redacted
from arena.episodes.job import Work
from arena.llm.backend import BackendTraits, Completion, Request


@dataclass(frozen=True, slots=True)
class PeerCall:
    """Call of a function of the other end."""

    number: int
    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Order to drop a call."""

    number: int


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """Result of a call, or the error that ended it."""

    number: int
    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ServiceNote:
    """Call of a method of the driver's service that has no result."""

    number: int
    """The call of the unit of work."""
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


class Peer:
    """One end of a channel: it calls functions of the other end and answers its calls."""

    def __init__(
        self,
        channel: Channel,
        functions: Mapping[str, Callable[..., Awaitable[Any]]],
        note: Callable[[ServiceNote], None] | None = None,
    ) -> None:
        """Functions get the number of the call first; `note` takes messages without an answer."""
        self.channel = channel
        self.waiting: dict[int, tuple[asyncio.Future[Any], contextvars.Context]] = {}
        """Calls without an answer, with the context of the caller."""
        self._functions, self._note = functions, note
        self._running: dict[int, asyncio.Task[None]] = {}
        self._numbers = count()

    async def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of the other end. Raises its error."""
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self.waiting[number] = answer, contextvars.copy_context()
        try:
            self.channel.send(PeerCall(number, function, arguments))
            return await answer
        finally:
            # Else the answer has come.
            if self.waiting.pop(number, None):
                self.channel.send(Cancel(number))

    def settle(self, number: int, result: Any, error: BaseException | None) -> None:
        """End a call of this end, unless it was cancelled."""
        answer = self.waiting[number][0] if number in self.waiting else None
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    async def serve(self) -> None:
        """Process messages until the other end is closed or lost."""
        while (message := await self.channel.receive()) is not None:
            match message:
                case PeerCall(number):
                    self._running[number] = asyncio.create_task(self._answer(message))
                case Cancel(number) if number in self._running:
                    self._running[number].cancel()
                case PeerAnswer(number, result, error):
                    self.settle(number, result, error)
                    self.waiting.pop(number, None)
                case ServiceNote() if self._note:
                    self._note(message)
        for task in self._running.values():
            task.cancel()
        # Files of games are closed when they end.
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _answer(self, call: PeerCall) -> None:
        try:
            result = await self._functions[call.function](call.number, *call.arguments)
            # Within the `try`: a result that cannot be pickled is an error of the call, too.
            self.channel.send(PeerAnswer(call.number, result))
        except Exception as error:  # It is raised again at the other end.
            self.channel.send(PeerAnswer(call.number, error=picklable(error)))
        finally:
            self._running.pop(call.number, None)


OUT_OF_MEMORY = 12
"""Exit code of a worker without memory: the number of ENOMEM."""


class RemoteService:
    """ModelService of one unit of work in a worker: it passes everything on to the driver."""

    def __init__(self, number: int, traits: Mapping[str, BackendTraits], peer: Peer) -> None:
        self._number, self._traits, self._peer = number, traits, peer

    def traits(self, spec: str) -> BackendTraits:
        if spec not in self._traits:
            raise UsageError(f"{redacted(spec)} is not one of the models of this game")
        return self._traits[spec]

    async def complete(self, spec: str, request: Request) -> Completion:
        completion: Completion = await self._peer.call("complete", self._number, spec, request)
        return completion

    def game(self, specs: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Return at once: the driver starts a game only when the budget covers it."""
        return nullcontext()

    def count_decision(self, spec: str, failure: str | None) -> None:
        self._peer.channel.send(ServiceNote(self._number, "count_decision", (spec, failure)))

    def hint(self, topic: str, line: str) -> None:
        self._peer.channel.send(ServiceNote(self._number, "hint", (topic, line)))


async def serve(channel: Channel) -> None:
    """Run the work that comes through a channel until its other end is closed."""

    async def run(number: int, work: bytes, traits: Mapping[str, BackendTraits]) -> bytes:
        try:
            unpickled: Work[object] = pickle.loads(work)
            return pickle.dumps(await unpickled(RemoteService(number, traits, peer)))
        except MemoryError:
            # This process may lack the memory to report it. The driver notices its end, and
            # repeats the work in a new worker.
            os._exit(OUT_OF_MEMORY)

    peer = Peer(channel, {"run": run})
    await peer.serve()


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
