"""Play a schedule on all cores; games with models call them through the LLMService of this process.

Results are stored as they come and yielded in the order of the schedule. So a conclusion from the
first games of a schedule does not depend on the number of concurrent games.
"""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.episodes.game_processes import GameProcesses
from arena.episodes.game_worker import end_with_parent
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.episodes.replay_writer import ReplayWriter
from arena.episodes.runner import play
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.scoring import measure_game

if TYPE_CHECKING:
    from arena.llm.backend import ModelService
    from arena.llm.service import LLMService

S = TypeVar("S")
T = TypeVar("T")

LOOKAHEAD = 4
"""Games per concurrent game that may be started before an earlier one is finished."""


@dataclass(frozen=True, slots=True)
class ExperimentSetup:
    """Common set-up of all games of an experiment."""

    match: Match
    """The game, text level, chat options and limits; a slot adds players and seed."""
    replays: Path | None = None
    """Folder for the replays, beside the results file; None writes none."""
    scored: frozenset[int] | None = None
    """Numbers of the slots whose games are scored by the exact posterior; None means all."""


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """An episode with its replay file."""

    episode: Episode
    seconds: float
    replay: Path | None
    sha256: str | None


class Workers:
    """Processes for bots' games and exact posteriors; a single one is a thread instead."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number or available_cores()
        self._pool: Executor | None = None

    def __enter__(self) -> Self:
        if self.number == 1:
            # One process more would only cost its start and the transfer of results.
            self._pool = ThreadPoolExecutor(1)
        else:
            # "spawn", since a fork would copy locks that other threads hold.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.number, context, initializer=end_with_parent)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._pool is not None
        # Work that waits is dropped; work that runs is waited for.
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work`, which must be picklable, in a worker. Raises ArenaError if that dies."""
        assert self._pool is not None, "use it in a `with` block"
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except BrokenProcessPool as error:
            raise ArenaError(
                "a worker process was killed (out of memory?); finished games are kept: "
                "continue with --resume, perhaps with fewer --workers"
            ) from error


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


async def play_slot(
    setup: ExperimentSetup,
    slot: Slot,
    workers: Workers,
    llm: LLMService | GameProcesses | None = None,
) -> GameResult:
    """Play one game of a schedule, write its replay, and measure it.

    Without `llm` the game is played in a worker. With an LLMService the game is played in this
    process; `GameProcesses` play games with models in processes, too.
    """
    if llm is None:
        return await workers.run(partial(play_by_bots, setup, slot))
    if isinstance(llm, GameProcesses):
        return await llm.play(partial(_play_and_measure, setup, slot), slot.specs)
    # The exact posterior is slow, so it is computed in a worker: the event loop serves all games.
    played = await play_episode(setup, slot, llm)
    return await workers.run(partial(_measure, setup, slot, played))


async def _play_and_measure(
    setup: ExperimentSetup, slot: Slot, llm: ModelService | None
) -> GameResult:
    return _measure(setup, slot, await play_episode(setup, slot, llm))


def play_by_bots(setup: ExperimentSetup, slot: Slot) -> GameResult:
    """Play and measure one game without models."""
    return asyncio.run(_play_and_measure(setup, slot, None))


@cache
def cached_game(game: Game) -> Game:
    """Return one instance for all equal games of a process, so its tables are computed once."""
    return game


async def play_episode(
    setup: ExperimentSetup, slot: Slot, llm: ModelService | None
) -> PlayedEpisode:
    """Play one game of a schedule, and write its replay if the set-up names a folder."""
    writer = None if setup.replays is None else _writer(setup.replays, slot)
    started = time.perf_counter()
    game = cached_game(setup.match.game)
    match = replace(setup.match, game=game, specs=slot.specs, seed=slot.seed)
    episode = await play(match, llm=llm, watchers=[writer] if writer else [])
    seconds = time.perf_counter() - started
    path = writer.path if writer else None
    return PlayedEpisode(episode, seconds, path, sha256(path) if path else None)


def _writer(folder: Path, slot: Slot) -> ReplayWriter:
    """Return the writer of a slot's replay; files of an earlier, killed run are deleted."""
    stem = f"game{slot.number:06}"
    for stale in (folder / f"{stem}.jsonl", folder / f"{stem}.jsonl.part"):
        with suppress(FileNotFoundError):
            stale.unlink()
    return ReplayWriter(folder, stem)


def sha256(path: Path) -> str:
    """Return the hash of a file's bytes as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _measure(setup: ExperimentSetup, slot: Slot, played: PlayedEpisode) -> GameResult:
    game = cached_game(setup.match.game)
    scored = setup.scored is None or slot.number in setup.scored
    result = measure_game(slot, game, played.episode, scored, played.seconds)
    if played.replay is None:
        return result
    # The path is relative, so the folder of the experiment may be moved.
    path = Path(played.replay.parent.name, played.replay.name).as_posix()
    return replace(result, replay=path, sha256=played.sha256)


async def run_schedule(
    slots: Iterable[Slot],
    play_one: Callable[[Slot], Awaitable[GameResult]],
    store: Callable[[GameResult], None],
    max_concurrent: int,
    done: Iterable[GameResult] = (),
) -> AsyncGenerator[GameResult, None]:
    """Play a schedule and yield its results in order.

    Closing the iterator, or an error of one game, cancels the unfinished games.

    Args:
        slots: The schedule.
        play_one: Plays one game.
        store: Called with each new result as soon as it exists.
        max_concurrent: Games that are played at the same time, at most.
        done: Results of an earlier run in the order of the schedule; they are not played again.
    """
    free = asyncio.Semaphore(max_concurrent)

    async def result_of(item: Slot | GameResult) -> GameResult:
        if isinstance(item, GameResult):
            return item
        # Started tasks may wait here: `in_order` starts more than can play, so that a long game
        # does not leave others idle.
        async with free:
            result = await play_one(item)
        # Before its turn in the order comes: a killed run keeps all finished games.
        store(result)
        return result

    items = replace_finished(slots, done)
    async with aclosing(in_order(items, result_of, LOOKAHEAD * max_concurrent)) as results:
        async for result in results:
            yield result


async def in_order(
    items: Iterable[S], work: Callable[[S], Awaitable[T]], ahead: int
) -> AsyncGenerator[T, None]:
    """Yield the result of `work` for each item, in order, with at most `ahead` of them started.

    An error of any started item is raised at once, not only at its turn; results whose turn it is
    come before it.
    """
    remaining = iter(items)
    window: deque[asyncio.Future[T]] = deque()
    try:
        while True:
            # The window bounds the memory: results that wait for an earlier one.
            more = islice(remaining, ahead - len(window))
            window.extend(asyncio.ensure_future(work(item)) for item in more)
            if not window:
                return
            if window[0].done():
                yield window.popleft().result()
                continue
            # The first task is not done; others may be, and a wait on those would return at once.
            unfinished = [task for task in window if not task.done()]
            finished, _ = await asyncio.wait(unfinished, return_when=asyncio.FIRST_COMPLETED)
            failed = [task for task in finished if task.exception()]
            while failed and window[0].done() and window[0] not in failed:
                yield window.popleft().result()
            for task in failed:
                task.result()  # Raises its error.
    finally:
        for task in window:
            task.cancel()
        await asyncio.gather(*window, return_exceptions=True)


def replace_finished(
    slots: Iterable[Slot], done: Iterable[GameResult]
) -> Iterator[Slot | GameResult]:
    """Yield each slot, or its result if it is `done`; both come in order of numbers."""
    results = iter(done)
    result = next(results, None)
    for slot in slots:
        # A result without a slot in this schedule is left out.
        while result and result.slot.number < slot.number:
            result = next(results, None)
        yield result if result and result.slot.number == slot.number else slot
