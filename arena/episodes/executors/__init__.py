"""Executors: where units of work run: in this process, in worker processes, or on Ray.

A unit of work is a whole game, or the measurement of one: a pure function of its arguments, so it
may be repeated after its worker was lost. Only the driver, the process that holds the executor,
stores results and calls models; a worker keeps no state.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from arena.core.errors import ArenaError
from arena.core.spec import Spec
from arena.episodes.job import Executor, Work

if TYPE_CHECKING:
    from arena.llm.backend import ModelService
    from arena.llm.service import LLMService

T = TypeVar("T")

ExecutorKind = Literal["local", "processes", "ray"]


def in_worker(function: Callable[[], T]) -> Work[T]:
    """Return the unit of work that calls a plain function; both must be picklable."""
    return partial(_call, function)


async def _call(function: Callable[[], T], _llm: ModelService | None) -> T:
    return function()


def has_programs(specs: Sequence[str]) -> bool:
    """Return whether a program plays, `agent:COMMAND`. Its game is played in the driver.

    A thread or a worker that ends early would leave the program running.
    """
    return any(Spec.parse(spec).prefix == "agent" for spec in specs)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalExecutor(Executor):
    """Executor of this process: games that wait for models or programs in the event loop.

    Other work runs in one thread.
    """

    workers = 1
    shares_files = True

    def __init__(self, llm: LLMService | None = None) -> None:
        self._llm = llm
        # A thread of its own, so that the event loop remains free for progress and Ctrl-C.
        self._thread = ThreadPoolExecutor(1)

    async def close(self) -> None:
        # Work that waits is dropped; work that runs is waited for.
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def run(self, work: Work[T], specs: Sequence[str] = (), name: str = "") -> T:
        try:
            if has_programs(specs) or (self._llm is not None and self._llm.models(specs)):
                return await work(self._llm)
            return await asyncio.get_running_loop().run_in_executor(self._thread, _run, work)
        except MemoryError as error:
            raise ArenaError(
                f"out of memory in {name or 'a game'}; finished games are kept: continue with "
                "--resume and more memory"
            ) from error


def _run(work: Work[T]) -> T:
    async def run() -> T:
        return await work(None)

    return asyncio.run(run())


def make_executor(
    kind: ExecutorKind,
    workers: int | None = None,
    llm: LLMService | None = None,
    address: str | None = None,
) -> Executor:
    """Return an executor of this kind.

    `local` is this process, `processes` are workers on this machine, `ray` actors of the cluster at
    the address, by default RAY_ADDRESS, or a new one here. By default there is a worker for each
    core. The service stays in this process. Raises MissingDependency if Ray is not installed.
    """
    if kind == "local":
        return LocalExecutor(llm)
    if kind == "processes":
        from arena.episodes.executors.pool import WorkerPool
        from arena.episodes.executors.worker import ProcessChannel

        return WorkerPool(ProcessChannel.start, workers or available_cores(), llm)
    from arena.episodes.executors.ray import RayPool

    return RayPool(workers, llm, address)
