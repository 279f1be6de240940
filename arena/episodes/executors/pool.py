"""The driver's side of workers: it gives out work, answers calls and replaces lost workers.

Rules, bots, prompts, parsers and measures need far more time than the calls themselves. In workers
they use all cores, and the event loop of the driver only waits for providers, so that limits,
budget and ledger stay in one place.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from itertools import count
from typing import Protocol, TypeVar

from arena.core.errors import ArenaError, StopPlaying
from arena.episodes.executors import has_programs
from arena.episodes.executors.worker import Channel, Peer, ServiceNote
from arena.episodes.job import Executor, Work
from arena.llm.backend import Completion, Request
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
        self._live: dict[_Worker, asyncio.Task[None]] = {}
        """The workers, and the tasks that read their messages."""
        self._launching: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Units of work that wait for a worker."""
        self._failure: BaseException | None = None

    async def close(self) -> None:
        for task in (*self._launching, *self._live.values()):
            task.cancel()
        await asyncio.gather(*self._launching, return_exceptions=True)
        await asyncio.gather(*(worker.worker_channel.end() for worker in self._live))
        if self.lost:
            counts = f"Lost workers: {self.lost}; games played again: {self.repeated}"
            print(counts, file=sys.stderr)

    async def run(self, work: Work[T], specs: Sequence[str] = (), name: str = "") -> T:
        llm = self._llm
        if has_programs(specs):
            return await work(llm)
        models = llm.models(specs) if llm else []
        traits = {spec: llm.traits(spec) for spec in models} if llm else {}
        # The game starts as soon as the budget covers it.
        async with llm.game(specs) if llm else nullcontext():
            for losses in count(1):
                worker = await self._least_busy()
                try:
                    # Pickled apart, so that a failure in the worker is one of the work.
                    found = await worker.call("run", pickle.dumps(work), traits)
                    result: T = pickle.loads(found)
                    return result
                except WorkerLost as reason:
                    if losses == MAX_LOSSES:
                        raise _too_many_losses(name, reason) from None
                    self.repeated += 1
                finally:
                    self._wake(1)
        raise AssertionError("the last loss raises")

    async def _least_busy(self) -> _Worker:
        """Return the live worker with the least work; starts another one if all have some.

        Raises the error of a launch that failed.
        """
        while self._failure is None:
            worker = min(self._live, key=lambda each: len(each.waiting), default=None)
            is_busy = worker is None or worker.waiting
            if is_busy and len(self._live) + len(self._launching) < self.workers:
                launching = asyncio.create_task(self._add_worker())
                self._launching.add(launching)
                launching.add_done_callback(self._end_launch)
            # While workers start, those that are ready take one unit of work each: the first one
            # would get everything otherwise.
            if worker and not (worker.waiting and self._launching):
                return worker
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(changed)
            await changed
        raise self._failure

    def _wake(self, number: int) -> None:
        """Let so many units of work look for a worker again."""
        while self._waiting and number > 0:
            changed = self._waiting.popleft()
            if not changed.done():  # Else it was cancelled.
                changed.set_result(None)
                number -= 1

    def _end_launch(self, launching: asyncio.Task[None]) -> None:
        self._launching.discard(launching)
        if not launching.cancelled():
            self._failure = self._failure or launching.exception()
        # A new worker takes one; after the last launch nothing waits.
        self._wake(1 if self._launching else len(self._waiting))

    async def _add_worker(self) -> None:
        worker = _Worker(await self._launch(), self._llm)
        self._live[worker] = asyncio.create_task(self._follow(worker))

    async def _follow(self, worker: _Worker) -> None:
        """Read the messages of a worker until it is lost; each of its calls reports the loss."""
        await worker.serve()
        del self._live[worker]
        self.lost += 1
        await worker.worker_channel.end()
        for number in [*worker.waiting]:
            worker.settle(number, None, WorkerLost(worker.worker_channel.loss))


def _too_many_losses(name: str, reason: WorkerLost) -> ArenaError:
    return ArenaError(
        f"{MAX_LOSSES} workers in turn were lost with {name or 'the same work'} or work beside it, "
        f"the last one {reason}; finished games are kept: continue with --resume, if memory is "
        "short with fewer --workers"
    )


class _Worker(Peer):
    """One worker, seen from the driver."""

    def __init__(self, channel: WorkerChannel, llm: LLMService | None) -> None:
        super().__init__(channel, {"complete": self._complete}, self._take_note)
        self.worker_channel = channel
        self._llm = llm

    async def _complete(self, _: int, work: int, spec: str, request: Request) -> Completion:
        assert self._llm is not None, "work without models makes no calls"
        # The context of the work names the game for the budget, which counts its calls.
        context = self.waiting[work][1]
        loop = asyncio.get_running_loop()
        return await loop.create_task(self._llm.complete(spec, request), context=context)

    def _take_note(self, note: ServiceNote) -> None:
        if self._llm is None or note.number not in self.waiting:
            return
        try:
            getattr(self._llm, note.method)(*note.arguments)
        except StopPlaying as stop:
            self.settle(note.number, None, stop)
