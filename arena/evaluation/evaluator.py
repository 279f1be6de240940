"""Playing a schedule: bots on all cores, models many games at once in this process.

Results are kept as they come and told in the order of the schedule, so that what is concluded from
the first games of a schedule does not depend on how many were played at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from arena.agents.prompt import ChatOptions
from arena.agents.seating import seat_agents
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.core.spec import shown
from arena.episodes.record import Episode, ReplayWriter
from arena.episodes.runner import play
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.scoring import Played, measure

if TYPE_CHECKING:
    from arena.llm.service import LLMService

S = TypeVar("S")
T = TypeVar("T")

LOOKAHEAD = 4
"""Games that may be begun, for each one that is played at once, before an earlier one ends."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How all games of an experiment are played."""

    game: Game
    text_level: TextLevel = "notes"
    max_turns: int | None = None
    models: ChatOptions | None = None
    """How models are asked; None if only bots play."""
    replays: Path | None = None
    """Folder for the replays, beside the results file; None writes none."""
    scored: frozenset[int] | None = None
    """Numbers of the slots whose games are scored by the exact posterior; None is all."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A game that was just played."""

    episode: Episode
    seconds: float
    replay: Path | None
    sha256: str | None


class Workers:
    """Processes for what takes a core: bots' games, exact posteriors. One is a thread instead."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number or available_cores()
        self._pool: Executor | None = None

    def __enter__(self) -> Self:
        if self.number == 1:
            self._pool = ThreadPoolExecutor(1)
        else:
            # "spawn": a fork would copy locks that other threads hold.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.number, context, initializer=_begin_work)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._pool is not None
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def run(self, work: Callable[[], T]) -> T:
        """Do `work`, which must be picklable, and wait for it."""
        assert self._pool is not None, "use it in a `with` block"
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except BrokenProcessPool as error:
            raise ArenaError(
                "a worker process was killed (out of memory?); what was finished is kept: "
                "go on with --resume, perhaps with fewer --workers"
            ) from error


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin_work() -> None:
    """A worker leaves Ctrl-C to its parent, and ends when its parent does, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


async def play_slot(
    setting: Setting, slot: Slot, workers: Workers, llm: LLMService | None = None
) -> GameResult:
    """Play one game of a schedule, write its replay, and measure it.

    Without `llm` the game is played in a worker; with it here, where all games share its limits.
    """
    if llm is None:
        return await workers.run(partial(play_by_bots, setting, slot))
    finished = await _play(setting, slot, llm)
    return await workers.run(partial(_measured, setting, slot, finished))


def play_by_bots(setting: Setting, slot: Slot) -> GameResult:
    """One game without models, from its deal to its measures."""
    return _measured(setting, slot, asyncio.run(_play(setting, slot, None)))


@cache
def kept(game: Game) -> Game:
    """One instance for all equal games of a process: it keeps its tables."""
    return game


async def _play(setting: Setting, slot: Slot, llm: LLMService | None) -> Finished:
    writer = None if setting.replays is None else _writer(setting.replays, slot)
    started = time.perf_counter()
    game, level, chat = kept(setting.game), setting.text_level, setting.models
    episode = await play(
        game,
        seat_agents(game, slot.specs, slot.seed, level, llm, chat),
        slot.seed,
        players=[shown(spec) for spec in slot.specs],
        max_turns=setting.max_turns,
        watchers=[writer] if writer else [],
        text_level=level,
        models=chat,
    )
    seconds = time.perf_counter() - started
    path = writer.path if writer else None
    return Finished(episode, seconds, path, sha256(path) if path else None)


def _writer(folder: Path, slot: Slot) -> ReplayWriter:
    """Writes the replay of a slot, in place of what an earlier run that was killed has left."""
    stem = f"game{slot.number:06}"
    for stale in (folder / f"{stem}.jsonl", folder / f"{stem}.jsonl.part"):
        with suppress(FileNotFoundError):
            stale.unlink()
    return ReplayWriter(folder, stem)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _measured(setting: Setting, slot: Slot, finished: Finished) -> GameResult:
    episode = finished.episode
    played = Played(
        kept(setting.game),
        episode.header.players,
        episode.plies,
        episode.outcome,
        episode.turns,
    )
    scored = setting.scored is None or slot.number in setting.scored
    result = measure(slot, played, scored, finished.seconds)
    if finished.replay is None:
        return result
    # The folder may be moved: what is in it is named from within.
    path = Path(finished.replay.parent.name, finished.replay.name).as_posix()
    return replace(result, replay=path, sha256=finished.sha256)


async def run_schedule(
    slots: Iterable[Slot],
    play_one: Callable[[Slot], Awaitable[GameResult]],
    keep: Callable[[GameResult], None],
    at_once: int,
    done: Iterable[GameResult] = (),
) -> AsyncGenerator[GameResult, None]:
    """Play a schedule, at most `at_once` games together; yields results in its order.

    Each result is handed to `keep` as soon as there is one. Games that are `done`, in the order
    of the schedule, are not played again. Closing the iterator, or an error of one game, drops the
    games in flight.
    """
    free = asyncio.Semaphore(at_once)

    async def one(item: Slot | GameResult) -> GameResult:
        if isinstance(item, GameResult):
            return item
        async with free:
            result = await play_one(item)
        keep(result)
        return result

    async with aclosing(in_order(matched(slots, done), one, LOOKAHEAD * at_once)) as results:
        async for result in results:
            yield result


async def in_order(
    items: Iterable[S], work: Callable[[S], Awaitable[T]], ahead: int
) -> AsyncGenerator[T, None]:
    """What `work` makes of each item, in their order; at most `ahead` of them are begun.

    An error ends all at once, not only when its turn comes.
    """
    waiting = iter(items)
    window: deque[asyncio.Future[T]] = deque()
    try:
        while True:
            more = islice(waiting, ahead - len(window))
            window.extend(asyncio.ensure_future(work(item)) for item in more)
            if not window:
                return
            if window[0].done():
                yield window.popleft().result()
                continue
            unfinished = [task for task in window if not task.done()]
            finished, _ = await asyncio.wait(unfinished, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                task.result()
    finally:
        for task in window:
            task.cancel()
        await asyncio.gather(*window, return_exceptions=True)


def matched(slots: Iterable[Slot], done: Iterable[GameResult]) -> Iterator[Slot | GameResult]:
    """For each slot its result if it is `done`, else the slot; both come in order of numbers."""
    results = iter(done)
    result = next(results, None)
    for slot in slots:
        while result and result.slot.number < slot.number:
            result = next(results, None)
        yield result if result and result.slot.number == slot.number else slot
