"""Games of one setting, played on all cores, and summaries; the scripts beside it use it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from arena import Episode, Game, GameJob, Match, run_job, run_jobs
from arena.episodes.job import make_executor
from arena.evaluation.schedule import deal_seed
from arena.evaluation.statistics import clustered_mean, rate

Measure = Callable[[Game, Episode], Any]
Seats = Callable[[int], Sequence[str]]
"""The SPEC of each seat, for the seed of a deal."""


def play_games(game: Game, seats: Sequence[str] | Seats, measure: Measure, games: int) -> list[Any]:
    """Return what is measured of each game. A number on the command line replaces `games`."""
    games = int(sys.argv[1]) if len(sys.argv) > 1 else games
    jobs = []
    for seed in (deal_seed(1, number) for number in range(games)):
        specs = tuple(seats(seed) if callable(seats) else seats)
        jobs.append(GameJob(str(seed), Match(game, specs, seed), measure))

    async def results() -> list[Any]:
        async with make_executor("processes", None) as executor:
            running = run_jobs(jobs, partial(run_job, executor=executor), 4 * executor.workers)
            return [finished.value async for finished in running]

    return asyncio.run(results())


def share(results: Sequence[Any]) -> str:
    """Return the share of games in percent, with Wilson's 95 % interval."""
    found = rate(sum(map(bool, results)), len(results))
    return f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}] of {len(results)} games"


def mean(values: Sequence[float]) -> str:
    """Return the mean of independent games, with a 95 % interval."""
    found = clustered_mean(values, range(len(values)))
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}], {len(values)} games"
