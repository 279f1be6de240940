"""Worker process of `GameProcesses`: it plays games; their calls go to the parent process."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from itertools import count
from multiprocessing.connection import wait

from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.episodes.process_messages import (
    CallEnd,
    CallStart,
    Channel,
    DecisionCount,
    GameCancel,
    GameEnd,
    GameStart,
    HintLine,
    picklable,
)
from arena.llm.backend import BackendTraits, Completion, Request


class RemoteService:
    """ModelService of one game in a worker: it passes everything on to the parent process."""

    def __init__(self, start: GameStart, channel: Channel, calls: _Calls) -> None:
        self._game = start.game
        self._traits = start.traits
        self._channel = channel
        self._calls = calls

    def traits(self, spec: str) -> BackendTraits:
        if spec not in self._traits:
            raise UsageError(f"{redacted(spec)} is not one of the models of this game")
        return self._traits[spec]

    async def complete(self, spec: str, request: Request) -> Completion:
        number, answer = self._calls.begin()
        self._channel.send(CallStart(self._game, number, spec, request))
        try:
            return await answer
        finally:
            self._calls.waiting.pop(number, None)

    def game(self, specs: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Return at once: the parent process starts a game only when the budget covers it."""
        return nullcontext()

    def count_decision(self, spec: str, failure: str | None) -> None:
        self._channel.send(DecisionCount(self._game, spec, failure))

    def hint(self, topic: str, line: str) -> None:
        self._channel.send(HintLine(topic, line))


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


def serve_games(end: socket.socket) -> None:
    """Play games in a process of its own until the other end of the socket is closed."""
    end_with_parent()
    asyncio.run(_serve(end))


def end_with_parent() -> None:
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


async def _serve(end: socket.socket) -> None:
    channel, calls = await Channel.over(end), _Calls()
    games: dict[int, asyncio.Task[None]] = {}
    while (message := await channel.receive()) is not None:
        match message:
            case GameStart(number):
                games[number] = asyncio.create_task(_play(message, channel, calls))
                games[number].add_done_callback(partial(_forget, games, number))
            case GameCancel(number) if number in games:
                games[number].cancel()
            case CallEnd():
                calls.end(message)
    for game in games.values():
        game.cancel()
    # Their files are closed when they end.
    await asyncio.gather(*games.values(), return_exceptions=True)


def _forget(games: dict[int, asyncio.Task[None]], number: int, _game: object) -> None:
    games.pop(number, None)


async def _play(start: GameStart, channel: Channel, calls: _Calls) -> None:
    try:
        result = await start.work(RemoteService(start, channel, calls))
        # Within the `try`: a result that cannot be pickled is a fault of the game, too.
        channel.send(GameEnd(start.game, result))
    except Exception as error:  # It is raised again in the parent process.
        channel.send(GameEnd(start.game, error=picklable(error)))
