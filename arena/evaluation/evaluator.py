"""Play a schedule on an executor.

Results are stored as they come, and after that yielded in the order of the schedule. So a
conclusion from the first games of a schedule does not depend on the number of concurrent games.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from arena.core.game import Game
from arena.episodes.executors.executor import Executor
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.episodes.replay_writer import ReplayWriter, replace_replay, replay_text
from arena.episodes.runner import play
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.scoring import measure_game
from arena.evaluation.store.group_commit import GroupCommit

if TYPE_CHECKING:
    from arena.llm.backend import ModelService

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


async def play_slot(setup: ExperimentSetup, slot: Slot, executor: Executor) -> GameResult:
    """Play one game of a schedule in a worker, write its replay, and measure it."""
    name = f"game {slot.number} (seed {slot.seed})"
    if setup.scored is not None:
        # The numbers of all scored games would make the messages grow with the schedule.
        setup = replace(setup, scored=setup.scored & {slot.number})
    if setup.replays is None or executor.shares_files:
        return await executor.run(partial(play_and_measure, setup, slot), slot.specs, name)
    result, replay = await executor.run(partial(play_elsewhere, setup, slot), slot.specs, name)
    path = replace_replay(setup.replays, _stem(slot), replay)
    return _with_replay(result, path, hashlib.sha256(replay.encode()).hexdigest())


async def play_and_measure(
    setup: ExperimentSetup, slot: Slot, llm: ModelService | None
) -> GameResult:
    """Play and measure one game. A unit of work of executors."""
    played = await play_episode(setup, slot, llm)
    result = await _measured(setup, slot, played)
    path = played.replay
    return _with_replay(result, path, sha256(path)) if path else result


async def _measured(setup: ExperimentSetup, slot: Slot, played: PlayedEpisode) -> GameResult:
    if setup.match.chat is None:
        return _measure(setup, slot, played)
    # The exact posterior is slow; the event loop serves the calls of other games meanwhile.
    return await asyncio.to_thread(_measure, setup, slot, played)


async def play_elsewhere(
    setup: ExperimentSetup, slot: Slot, llm: ModelService | None
) -> tuple[GameResult, str]:
    """Play and measure one game on another machine; return its result and its replay."""
    played = await play_episode(replace(setup, replays=None), slot, llm)
    # As text: an episode, with its observations, costs the driver much more.
    return await _measured(setup, slot, played), replay_text(played.episode)


def play_by_bots(setup: ExperimentSetup, slot: Slot) -> GameResult:
    """Play and measure one game without models."""
    return asyncio.run(play_and_measure(setup, slot, None))


@cache
def cached_game(game: Game) -> Game:
    """Return one instance for all equal games of a process, so its tables are computed once."""
    return game


async def play_episode(
    setup: ExperimentSetup, slot: Slot, llm: ModelService | None
) -> PlayedEpisode:
    """Play one game of a schedule, and write its replay if the set-up names a folder."""
    writer = setup.replays and ReplayWriter(setup.replays, _free_stem(setup.replays, slot))
    started = time.perf_counter()
    game = cached_game(setup.match.game)
    match = replace(setup.match, game=game, specs=slot.specs, seed=slot.seed)
    episode = await play(match, llm=llm, watchers=[writer] if writer else [])
    seconds = time.perf_counter() - started
    return PlayedEpisode(episode, seconds, writer.path if writer else None)


def _stem(slot: Slot) -> str:
    return f"game{slot.number:06}"


def _free_stem(folder: Path, slot: Slot) -> str:
    """Return the name of a slot's replay; files of an earlier, killed run are deleted."""
    stem = _stem(slot)
    for stale in (folder / f"{stem}.jsonl", folder / f"{stem}.jsonl.part"):
        with suppress(FileNotFoundError):
            stale.unlink()
    return stem


def sha256(path: Path) -> str:
    """Return the hash of a file's bytes as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _measure(setup: ExperimentSetup, slot: Slot, played: PlayedEpisode) -> GameResult:
    game = cached_game(setup.match.game)
    scored = setup.scored is None or slot.number in setup.scored
    return measure_game(slot, game, played.episode, scored, played.seconds)


def _with_replay(result: GameResult, path: Path, digest: str) -> GameResult:
    # The path is relative, so the folder of the experiment may be moved.
    relative = Path(path.parent.name, path.name).as_posix()
    return replace(result, replay=relative, sha256=digest)


async def run_schedule(
    slots: Iterable[Slot],
    play_one: Callable[[Slot], Awaitable[GameResult]],
    store: Callable[[Sequence[GameResult]], None],
    max_concurrent: int,
    done: Iterable[GameResult] = (),
) -> AsyncGenerator[GameResult, None]:
    """Play a schedule and yield its results in order.

    Closing the iterator, or an error of one game, cancels the unfinished games.

    Args:
        slots: The schedule.
        play_one: Plays one game.
        store: Called with new results soon after they exist; it stores all of them, or none.
        max_concurrent: Games that are played at the same time, at most.
        done: Results of an earlier run in the order of the schedule; they are not played again.
    """
    free = asyncio.Semaphore(max_concurrent)
    commits = GroupCommit(store)

    async def result_of(item: Slot | GameResult) -> GameResult:
        if isinstance(item, GameResult):
            return item
        # Started tasks may wait here: `in_order` starts more than can play, so that a long game
        # does not leave others idle.
        async with free:
            result = await play_one(item)
        # Before its turn in the order comes: a killed run keeps all finished games.
        await commits.add(result)
        return result

    items = replace_finished(slots, done)
    try:
        async with aclosing(in_order(items, result_of, LOOKAHEAD * max_concurrent)) as results:
            async for result in results:
                yield result
    finally:
        # Games that were finished when the run was stopped.
        commits.flush()


async def in_order(
    items: Iterable[S], work: Callable[[S], Awaitable[T]], ahead: int
) -> AsyncGenerator[T, None]:
    """Yield the result of `work` for each item, in order, with at most `ahead` of them started.

    An error of any started item is raised at once, not only at its turn; results whose turn it is
    come before it.
    """
    remaining = iter(items)
    window: deque[asyncio.Future[T]] = deque()
    # A queue instead of a wait on all tasks, whose cost would grow with the window.
    finished: asyncio.Queue[asyncio.Future[T]] = asyncio.Queue()
    try:
        while True:
            # The window bounds the memory: results that wait for an earlier one.
            for item in islice(remaining, ahead - len(window)):
                window.append(asyncio.ensure_future(work(item)))
                window[-1].add_done_callback(finished.put_nowait)
            if not window:
                return
            if window[0].done():
                yield window.popleft().result()
                continue
            task = await finished.get()
            if task.exception():
                while window[0].done() and window[0] is not task:
                    yield window.popleft().result()
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
