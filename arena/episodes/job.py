"""Jobs: games as units of work, and the one way to run many of them.

Everything that measures games makes a `GameJob` of each one. `run_job` runs a job with an
executor, and `run_jobs` runs many: a bounded number at a time, with results in order.

    jobs = [GameJob(f"game {seed}", match.with_seed(seed), winner) for seed in range(100)]
    async with make_executor("processes", 4) as executor:
        async for finished in run_jobs(jobs, partial(run_job, executor=executor), ahead=16):
            print(finished.value)
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, Protocol, Self, TypeVar

from arena.agents.agent import Agent
from arena.core.errors import ArenaError, StopPlaying
from arena.core.game import Game
from arena.core.spec import has_programs
from arena.episodes.files import ReplayFile, replay_text, sha256
from arena.episodes.match import Match, Watcher, play
from arena.episodes.record import Episode

if TYPE_CHECKING:
    from arena.llm.backend import ModelService
    from arena.llm.service import LLMService


R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
ExecutorKind = Literal["local", "processes", "ray"]


class Executor(Protocol):
    """Computes pure functions. Used as an asynchronous context manager.

    async with make_executor("processes", 2) as executor:
        measured = await executor.compute(partial(measure, game, episode))

    A function has no arguments and waits for nothing: a whole game of bots, or the exact measures
    of a game. It must be pure, so that it can run again after its worker was lost. Games that wait
    for models or programs are played in the event loop of the driver, the process that holds the
    executor (`run_job`); only the driver calls models and stores results.
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
            f"out of memory in {name or 'a game'}; finished games are kept: run the command "
            "again (with --resume, except arena train) with more memory"
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
        from arena.episodes.pool import ProcessPool

        return ProcessPool(workers or available_cores(), llm)
    from arena.episodes.ray_pool import RayPool

    return RayPool(workers, llm, address)


LOOKAHEAD = 4
"""Jobs per job in play that may be started before an earlier one is finished."""


@dataclass(frozen=True, slots=True)
class GameJob(Generic[R]):
    """One game as a unit of work.

    Frozen and picklable, so that it can run with every executor, and again if its worker is lost.
    Jobs with the same key, match and measurement give the same replay and the same result.
    """

    key: str
    """Name of the job in its run and in errors, e.g. `game 17 (seed 3)`."""
    match: Match
    measure: Callable[[Game, Episode], R]
    """Measures the finished game. Must be picklable."""
    is_slow_to_measure: bool = False
    """Measure a game of the event loop in a worker, so that other games go on meanwhile."""
    replay: ReplayFile | None = None
    timeout: float | None = None
    """Seconds for the game, after which TimeoutError is raised."""


@dataclass(frozen=True, slots=True)
class FinishedJob(Generic[R]):
    """Result of a job."""

    value: R
    """Measurement of the game."""
    seconds: float
    """Time to play the game."""
    replay: Path | None = None
    sha256: str | None = None
    """Hash of the replay's bytes, as hexadecimal digits."""


async def play_job(
    job: GameJob[R],
    llm: ModelService | None,
    agents: Sequence[Agent] | None = None,
    executor: Executor | None = None,
) -> FinishedJob[R]:
    """Play the game of a job in this event loop, write its replay, and measure it.

    By default the agents are those of the match. The executor measures if that is slow. Raises what
    `play` raises, TimeoutError, and ArenaError if the replay cannot be written.
    """
    writer = job.replay.writer() if job.replay else None
    episode, seconds = await _play(job, llm, agents, [writer] if writer else ())
    if executor and job.is_slow_to_measure:
        value = await executor.compute(partial(_measure, job, episode), job.key)
    else:
        value = _measure(job, episode)
    if writer is None:
        return FinishedJob(value, seconds)
    return FinishedJob(value, seconds, writer.path, sha256(writer.path))


async def run_job(job: GameJob[R], executor: Executor) -> FinishedJob[R]:
    """Run a job; its replay is written by this process.

    A game that waits for models or programs is played in this event loop, where any number of them
    wait at the same time; every other one in a worker.
    """
    specs, llm = job.match.specs, executor.llm
    # A worker that ends early would leave a program running.
    if has_programs(specs) or (llm and llm.models(specs)):
        with memory_reported(job.key):
            return await play_job(job, llm, executor=executor)
    finished, replay = await executor.compute(partial(_play_in_worker, job), job.key)
    if job.replay is None:
        return finished
    digest = hashlib.sha256(replay.encode()).hexdigest()
    return replace(finished, replay=job.replay.write(replay), sha256=digest)


def _play_in_worker(job: GameJob[R]) -> tuple[FinishedJob[R], str]:
    """Play and measure a game of bots; return the text of its replay, if one is to be written."""
    episode, seconds = asyncio.run(_play(job, None))
    # As text: an episode, with its observations, costs the driver much more.
    replay = replay_text(episode) if job.replay else ""
    return FinishedJob(_measure(job, episode), seconds), replay


async def _play(
    job: GameJob[R],
    llm: ModelService | None,
    agents: Sequence[Agent] | None = None,
    watchers: Sequence[Watcher] = (),
) -> tuple[Episode, float]:
    """Return the episode, and the seconds that it took."""
    match = replace(job.match, game=cached_game(job.match.game))
    started = time.perf_counter()
    async with asyncio.timeout(job.timeout):
        episode = await play(match, agents, llm=llm, watchers=watchers)
    return episode, time.perf_counter() - started


def _measure(job: GameJob[R], episode: Episode) -> R:
    return job.measure(cached_game(job.match.game), episode)


@cache
def cached_game(game: Game) -> Game:
    """Return one instance for all equal games of a process, so its tables are computed once."""
    return game


def whole_episode(_: Game, episode: Episode) -> Episode:
    """Return the episode: the measurement of jobs of which everything is needed."""
    return episode


async def run_jobs(
    jobs: Iterable[S],
    run: Callable[[S], Awaitable[T]],
    ahead: int,
    slots: asyncio.Semaphore | None = None,
    store: Callable[[T], None] | None = None,
) -> AsyncGenerator[T, None]:
    """Run jobs and yield their results in order.

    So a conclusion from the first results does not depend on the number of jobs in play. An error
    of any started job is raised at once, not only at its turn; results whose turn it is come before
    it. Closing the iterator, or an error, cancels the unfinished jobs. But if results are stored,
    jobs in play at a StopPlaying go on until they end or meet it too: a game that needs no further
    answer of a model is kept.

    Args:
        jobs: The jobs, in order.
        run: Runs one job.
        ahead: Jobs that may be started, or finished, before the first of them is yielded. It bounds
            the memory for results that wait for an earlier one.
        slots: Bounds the jobs in play. With more `ahead` than slots, a long game does not leave
            slots unused. None: `ahead` is the bound.
        store: Is called with each result as soon as it exists, before its turn in the order comes:
            a killed run keeps all finished games.
    """
    in_play, stop = slots or nullcontext(), list[StopPlaying]()
    remaining = iter(jobs)
    window: deque[asyncio.Future[T]] = deque()
    # A queue instead of a wait on all tasks, whose cost would grow with the window.
    finished: asyncio.Queue[asyncio.Future[T]] = asyncio.Queue()
    try:
        while True:
            for job in islice(remaining, ahead - len(window)):
                window.append(asyncio.ensure_future(_run_one(job, run, in_play, stop, store)))
                window[-1].add_done_callback(finished.put_nowait)
            if not window:
                return
            if window[0].done():
                yield window.popleft().result()
                continue
            task = await finished.get()
            if task.exception():
                if stop and store:
                    await asyncio.wait(window)
                while window[0].done() and window[0] is not task:
                    yield window.popleft().result()
                task.result()  # Raises its error.
    finally:
        for task in window:
            task.cancel()
        await asyncio.gather(*window, return_exceptions=True)


async def _run_one(
    job: S,
    run: Callable[[S], Awaitable[T]],
    in_play: AbstractAsyncContextManager[None],
    stop: list[StopPlaying],
    store: Callable[[T], None] | None,
) -> T:
    """Run and store one job; a StopPlaying of it is added to `stop`, and no job starts after it."""
    async with in_play:
        if stop:
            raise stop[0]
        try:
            result = await run(job)
        except StopPlaying as reason:
            stop.append(reason)
            raise
    if store is not None:
        store(result)
    return result
