"""The driver's side of workers: it gives out work, answers calls and replaces lost workers.

Rules, bots, prompts, parsers and measures need far more time than the calls themselves. In workers
they use all cores, and the event loop of the driver only waits for providers, so that limits,
budget and ledger stay in one place.
"""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from arena.core.errors import ArenaError, StopPlaying
from arena.episodes.executors.work import Executor, Work
from arena.episodes.executors.worker import (
    CallEnd,
    CallStart,
    Channel,
    ServiceNote,
    WorkCancel,
    WorkEnd,
    WorkStart,
    picklable,
)
from arena.llm.backend import BackendTraits
from arena.llm.service import LLMService

T = TypeVar("T")

MAX_LOSSES = 5
"""Workers that one unit of work may lose. Its fault is likely then, e.g. too little memory."""


class WorkerChannel(Channel, Protocol):
    """The channel to a worker, and the worker behind it."""

    @property
    def loss(self) -> str:
        """Why the worker was lost, known after its `end`, e.g. `killed by SIGKILL`."""

    async def end(self) -> None:
        """End the worker."""


class WorkerLost(Exception):
    """The worker ended before its work; another one can do the work. Its text is the reason."""


class WorkerPool(Executor):
    """Executor on workers that `launch` starts: processes, or actors of a cluster.

    Workers start when there is work for them. A unit of work whose worker is lost, e.g. killed, is
    run again by another one, and a new worker takes the place of the lost one.
    """

    shares_files = True

    def __init__(
        self,
        launch: Callable[[], Awaitable[WorkerChannel]],
        workers: int,
        llm: LLMService | None = None,
    ) -> None:
        self.workers = workers
        self.lost = 0
        """Number of workers that were lost."""
        self.repeated = 0
        """Number of times that a unit of work was run again after the loss of its worker."""
        self._launch = launch
        self._llm = llm
        self._live: set[_Worker] = set()
        self._by_load: list[tuple[int, int, _Worker]] = []
        """Heap of (units of work, number of the entry, worker). A worker gets a new entry when its
        load changes; older entries are dropped when they come up. A search through thousands of
        workers for each game would slow the driver."""
        self._entries = count()
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Units of work that wait for a worker."""
        self._active = 0
        """Number of units of work in hand."""
        self._failure: BaseException | None = None
        self._launching: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for launching in self._launching:
            launching.cancel()
        await asyncio.gather(*self._launching, return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in self._live))
        if self.lost:
            counts = f"Lost workers: {self.lost}; games played again: {self.repeated}"
            print(counts, file=sys.stderr)

    async def run(self, work: Work[T], specs: Sequence[str] = (), name: str = "") -> T:
        llm = self._llm
        models = llm.models(specs) if llm else []
        traits = {spec: llm.traits(spec) for spec in models} if llm else {}
        # The game starts as soon as the budget covers it.
        async with llm.game(specs) if llm else nullcontext():
            self._active += 1
            try:
                for losses in count(1):
                    worker = await self._least_busy()
                    try:
                        return await worker.run(work, traits)
                    except WorkerLost as reason:
                        if losses == MAX_LOSSES:
                            raise _too_many_losses(name, reason) from None
                        self.repeated += 1
            finally:
                self._active -= 1
        raise AssertionError("the last loss raises")

    async def _least_busy(self) -> _Worker:
        """Return the live worker with the least work; starts another one if all have some.

        While workers start, none takes more than its share of the work in hand: the first one that
        is ready would get everything otherwise. Raises the error of a launch that failed.
        """
        while self._failure is None:
            load = self._lowest_load()
            if load != 0 and len(self._live) + len(self._launching) < self.workers:
                launching = asyncio.create_task(self._add_worker())
                self._launching.add(launching)
                launching.add_done_callback(self._end_launch)
            if load is not None and (load < self._share or not self._launching):
                return self._by_load[0][2]
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(changed)
            await changed
        raise self._failure

    @property
    def _share(self) -> int:
        """Units of work of each worker if all work in hand were shared equally, rounded up."""
        return -(-self._active // self.workers)

    def _wake(self, number: int | None = None) -> None:
        """Let so many units of work, or all, look for a worker again."""
        number = len(self._waiting) if number is None else number
        while self._waiting and number > 0:
            changed = self._waiting.popleft()
            if not changed.done():  # Else it was cancelled.
                changed.set_result(None)
                number -= 1

    def _end_launch(self, launching: asyncio.Task[None]) -> None:
        self._launching.discard(launching)
        if not launching.cancelled():
            self._failure = self._failure or launching.exception()
        # A new worker has room for its share; after the last launch nothing waits.
        self._wake(self._share if self._launching else None)

    def _lowest_load(self) -> int | None:
        """Return the load of the worker that comes first in the heap; None without workers."""
        while self._by_load:
            load, _, worker = self._by_load[0]
            if worker in self._live and load == len(worker.running):
                return load
            heappop(self._by_load)
        return None

    async def _add_worker(self) -> None:
        worker = _Worker(await self._launch(), self._llm, self._note_load, self._remove)
        self._live.add(worker)
        self._note_load(worker)

    def _note_load(self, worker: _Worker) -> None:
        heappush(self._by_load, (len(worker.running), next(self._entries), worker))
        self._wake(1)

    def _remove(self, worker: _Worker) -> None:
        """Forget a lost worker; each of its units of work reports the loss."""
        self._live.discard(worker)
        self.lost += 1


def _too_many_losses(name: str, reason: WorkerLost) -> ArenaError:
    return ArenaError(
        f"{MAX_LOSSES} workers in turn were lost with {name or 'the same work'} or work beside it, "
        f"the last one {reason}; finished games are kept: continue with --resume, if memory is "
        "short with fewer --workers"
    )


@dataclass(slots=True)
class _Running(Generic[T]):
    """A unit of work in a worker, seen from the driver."""

    result: asyncio.Future[T]
    context: contextvars.Context
    """Names the game for the budget, which counts the calls of each game."""
    calls: set[asyncio.Task[None]] = field(default_factory=set)
    has_ended: bool = False
    """Whether the worker has ended it."""


class _Worker:
    """One worker, seen from the driver."""

    def __init__(
        self,
        channel: WorkerChannel,
        llm: LLMService | None,
        load_changed: Callable[[_Worker], None],
        has_ended: Callable[[_Worker], None],
    ) -> None:
        self.running: dict[int, _Running[Any]] = {}
        self._channel = channel
        self._llm = llm
        self._load_changed = load_changed
        self._has_ended = has_ended
        self._numbers = count()
        self._reading = asyncio.create_task(self._read())

    async def end(self) -> None:
        self._reading.cancel()
        await self._channel.end()

    async def run(self, work: Work[T], traits: Mapping[str, BackendTraits]) -> T:
        """Run a unit of work. Raises WorkerLost if the worker ends before it."""
        number = next(self._numbers)
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        running = self.running[number] = _Running(result, contextvars.copy_context())
        self._load_changed(self)
        try:
            self._channel.send(WorkStart(number, pickle.dumps(work), traits))
            return await result
        finally:
            del self.running[number]
            self._load_changed(self)
            for call in running.calls:
                call.cancel()
            if not running.has_ended:
                self._channel.send(WorkCancel(number))

    async def _read(self) -> None:
        """Process the messages of the worker until it ends."""
        while (message := await self._channel.receive()) is not None:
            match message:
                case WorkEnd(number, result, error):
                    if running := self.running.get(number):
                        running.has_ended = True
                    self._settle(number, result, error)
                case CallStart(number) if running := self.running.get(number):
                    answering = self._answer(message)
                    loop = asyncio.get_running_loop()
                    task = loop.create_task(answering, context=running.context)
                    running.calls.add(task)
                    task.add_done_callback(running.calls.discard)
                case ServiceNote(number, method, arguments) if self._llm:
                    try:
                        getattr(self._llm, method)(*arguments)
                    except StopPlaying as stop:
                        self._settle(number, None, stop)
        # Now, so that nothing is sent to it, even if it had no work.
        self._has_ended(self)
        await self._channel.end()
        for number in [*self.running]:
            self._settle(number, None, WorkerLost(self._channel.loss))

    def _settle(self, number: int, result: object, error: BaseException | None) -> None:
        running = self.running.get(number)
        if running is None or running.result.done():
            return
        if error is None:
            running.result.set_result(result)
        else:
            running.result.set_exception(error)

    async def _answer(self, start: CallStart) -> None:
        assert self._llm is not None, "work without models makes no calls"
        try:
            completion = await self._llm.complete(start.spec, start.request)
        except Exception as error:  # The agent that made the call decides what it means.
            self._channel.send(CallEnd(start.call, error=picklable(error)))
        else:
            self._channel.send(CallEnd(start.call, completion))
