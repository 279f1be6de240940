"""The side of a worker: it runs units of work; their calls to models go to the driver."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from itertools import count

from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.episodes.executors.executor import Work
from arena.episodes.executors.messages import (
    CallEnd,
    CallStart,
    Channel,
    DecisionCount,
    HintLine,
    WorkCancel,
    WorkEnd,
    WorkStart,
    picklable,
)
from arena.llm.backend import BackendTraits, Completion, Request

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
        self._channel.send(DecisionCount(self._number, spec, failure))

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
