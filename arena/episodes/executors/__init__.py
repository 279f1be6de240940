"""Executors: where games of bots are played and finished games are measured.

What an executor computes is a function without arguments that waits for nothing: a whole game of
bots, or the exact measures of a game. It must be pure, so that it can run again after its worker
was lost. Games that wait for models or programs are played in the event loop of the driver, the
process that holds the executor (`run_job`); only the driver calls models and stores results.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeVar

from arena.core.errors import ArenaError

if TYPE_CHECKING:
    from arena.llm.service import LLMService

T = TypeVar("T")
ExecutorKind = Literal["local", "processes", "ray"]


class Executor(Protocol):
    """Computes pure functions. Used as an asynchronous context manager.

    async with make_executor("processes", 2) as executor:
        measured = await executor.compute(partial(measure, game, episode))
    """

    workers: int
    """Number of functions that make progress at the same time."""
    llm: LLMService | None
    """Service that answers for the models of the driver's games."""

    async def compute(self, function: Callable[[], T], name: str = "") -> T:
        """Call a function in a worker and return its result.

        Workers of other processes get it pickled, and its result and errors as well. The name is
        for errors, e.g. `game 17 (seed 3)`. Raises the errors of the function, and ArenaError if
        several workers were lost with it or if the memory is used up.
        """

    async def close(self) -> None:
        """End the workers; called at the end of the context."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...


class LocalExecutor:
    """Executor of this process: one thread, so that the event loop remains free for Ctrl-C."""

    workers = 1

    def __init__(self, llm: LLMService | None = None) -> None:
        self.llm = llm
        self._thread = ThreadPoolExecutor(1)

    async def compute(self, function: Callable[[], T], name: str = "") -> T:
        with memory_reported(name):
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        # Functions that wait are dropped; the one that runs is waited for.
        self._thread.shutdown(wait=True, cancel_futures=True)


@contextmanager
def memory_reported(name: str) -> Iterator[None]:
    """Turn a lack of memory in this process into an ArenaError that names the work."""
    try:
        yield
    except MemoryError as error:
        raise ArenaError(
            f"out of memory in {name or 'a game'}; finished games are kept: continue with "
            "--resume and more memory"
        ) from error


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def make_executor(
    kind: ExecutorKind,
    workers: int | None = None,
    llm: LLMService | None = None,
    address: str | None = None,
) -> Executor:
    """Return an executor of this kind.

    `local` is this process, `processes` are workers on this machine, `ray` workers of the cluster
    at the address, by default RAY_ADDRESS, or of a new one here. By default there is a worker for
    each core. Raises MissingDependency if Ray is not installed.
    """
    if kind == "local":
        return LocalExecutor(llm)
    if kind == "processes":
        from arena.episodes.executors.pool import ProcessPool

        return ProcessPool(workers or available_cores(), llm)
    from arena.episodes.executors.ray import RayPool

    return RayPool(workers, llm, address)
