"""Games of a schedule as jobs.

Results are stored as they come, and after that yielded in the order of the schedule. So a
conclusion from the first games of a schedule does not depend on the number of concurrent games.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from arena.core.game import Game
from arena.episodes.executors import Executor
from arena.episodes.job import LOOKAHEAD, FinishedJob, GameJob, ReplayFile, run_job, run_jobs
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.scoring import measure_game


@dataclass(frozen=True, slots=True)
class ExperimentSetup:
    """Common set-up of all games of an experiment."""

    match: Match
    """The game, text level, chat options and limits; a slot adds players and seed."""
    replays: Path | None = None
    """Folder for the replays, beside the results file; None writes none."""
    scored: frozenset[int] | None = None
    """Numbers of the slots whose games are scored by the exact posterior; None means all."""

    def job(self, slot: Slot) -> GameJob[GameResult]:
        """Return the game of a slot as a job."""
        return GameJob(
            f"game {slot.number} (seed {slot.seed})",
            replace(self.match, specs=slot.specs, seed=slot.seed),
            partial(_measure, slot, self.scored is None or slot.number in self.scored),
            # The exact posterior is slow, and models of other games wait for the event loop.
            in_thread=self.match.chat is not None,
            replay=ReplayFile(self.replays, f"game{slot.number:06}") if self.replays else None,
        )


def _measure(slot: Slot, scored: bool, game: Game, episode: Episode) -> GameResult:
    return measure_game(slot, game, episode, scored, 0.0)


async def play_slot(setup: ExperimentSetup, slot: Slot, executor: Executor) -> GameResult:
    """Play one game of a schedule on an executor, write its replay, and measure it."""
    return result_of(await run_job(setup.job(slot), executor))


def result_of(finished: FinishedJob[GameResult]) -> GameResult:
    """Return the result with the time and the replay of its job."""
    result = replace(finished.value, seconds=finished.seconds)
    path = finished.replay
    if path is None:
        return result
    # The path is relative, so the folder of the experiment may be moved.
    relative = Path(path.parent.name, path.name).as_posix()
    return replace(result, replay=relative, sha256=finished.sha256)


async def run_schedule(
    slots: Sequence[Slot],
    play_one: Callable[[Slot], Awaitable[GameResult]],
    store: Callable[[Sequence[GameResult]], None],
    max_concurrent: int,
    done: Iterable[GameResult] = (),
    finished: Collection[int] = (),
) -> AsyncGenerator[GameResult, None]:
    """Play a schedule and yield its results in order.

    Closing the iterator, or an error of one game, cancels the unfinished games.

    Args:
        slots: The schedule.
        play_one: Plays one game.
        store: Called with new results soon after they exist; it stores all of them, or none.
        max_concurrent: Games that are played at the same time, at most.
        done: Results of an earlier run in the order of the schedule; they are not played again.
        finished: The numbers of these results.
    """
    earlier = iter(done)
    missing = (slot for slot in slots if slot.number not in finished)
    free, ahead = asyncio.Semaphore(max_concurrent), LOOKAHEAD * max_concurrent
    async with aclosing(run_jobs(missing, play_one, ahead, free, store)) as playing:
        for slot in slots:
            if slot.number in finished:
                # A result of a slot that is not in this schedule is left out.
                yield next(result for result in earlier if result.slot.number == slot.number)
            else:
                yield await anext(playing)
