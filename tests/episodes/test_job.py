"""Jobs: one game as a unit of work, and many of them in order, through errors and ends."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from arena.core.errors import ArenaError, StopPlaying
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation
from arena.episodes.executors.factory import ExecutorKind, make_executor
from arena.episodes.job import (
    FinishedJob,
    GameJob,
    ReplayFile,
    play_job,
    run_job,
    run_jobs,
    sha256,
    whole_episode,
)
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.episodes.replay import read_replay, verify
from arena.plugins.loader import make_game

GAME = make_game("cluedo", players=3)
Winner = tuple[int, int | None]
"""Number of players, and the winner."""
MATCH = Match(GAME, ("bot:detective", "bot:novice", "bot:novice"), seed=7)


def winner(game: Game, episode: Episode) -> Winner:
    return game.num_players, episode.outcome.winner


def finish(job: GameJob[Winner], kind: ExecutorKind) -> FinishedJob[Winner]:
    async def go() -> FinishedJob[Winner]:
        async with make_executor(kind, 1) as executor:
            return await run_job(job, executor)

    return asyncio.run(go())


def timeless(path: Path) -> list[str]:
    """Return the lines of a replay without its times."""
    return [line.partition('"seconds"')[0] for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("numbered", [False, True])
def test_a_job_has_the_same_replay_and_result_on_every_executor(
    tmp_path: Path, numbered: bool
) -> None:
    jobs = [
        GameJob("a game", MATCH, winner, replay=ReplayFile(tmp_path / kind, "game", numbered))
        for kind in ("local", "processes")
    ]
    here, there = finish(jobs[0], "local"), finish(jobs[1], "processes")
    assert here.value == there.value and here.value[0] == 3
    assert here.replay and there.replay
    assert timeless(here.replay) == timeless(there.replay)
    assert verify(read_replay(there.replay)) is None
    assert there.sha256 == sha256(there.replay)
    assert [path.name for path in there.replay.parent.iterdir()] == ["game.jsonl"]


def test_the_files_of_a_killed_run_are_replaced(tmp_path: Path) -> None:
    for name in ("game.jsonl", "game.jsonl.part"):
        (tmp_path / name).write_text("{")
    job = GameJob("a game", MATCH, winner, replay=ReplayFile(tmp_path, "game"))
    assert finish(job, "local").replay == tmp_path / "game.jsonl"
    assert [path.name for path in tmp_path.iterdir()] == ["game.jsonl"]
    assert verify(read_replay(tmp_path / "game.jsonl")) is None


def test_a_numbered_replay_keeps_the_file_that_has_its_name(tmp_path: Path) -> None:
    (tmp_path / "game.jsonl").write_text("kept")
    job = GameJob("a game", MATCH, winner, replay=ReplayFile(tmp_path, "game", numbered=True))
    assert finish(job, "local").replay == tmp_path / "game-2.jsonl"
    assert (tmp_path / "game.jsonl").read_text() == "kept"


class Sleeper:
    async def act(self, observation: Observation) -> Decision:
        await asyncio.sleep(60)
        raise AssertionError("the game was stopped before")


@pytest.mark.timed
def test_a_job_ends_at_its_time_limit() -> None:
    game = make_game("tictactoe")
    job = GameJob("a game", Match(game), whole_episode, timeout=0.05)
    with pytest.raises(TimeoutError):
        asyncio.run(play_job(job, None, agents=[Sleeper(), Sleeper()]))


def test_results_come_in_order_and_few_are_begun_ahead() -> None:
    begun: list[int] = []

    async def work(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0.2 if number == 0 else 0.0)
        return number

    async def go() -> list[int]:
        found = []
        async for number in run_jobs(range(50), work, 8):
            if number == 0:
                assert max(begun) == 7
            found.append(number)
        return found

    assert asyncio.run(go()) == list(range(50))


@pytest.mark.timed
def test_an_error_ends_the_run_before_its_turn_and_cancels_the_rest() -> None:
    cancelled: list[int] = []

    async def work(number: int) -> int:
        if number == 3:
            raise StopPlaying("the provider is down")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    async def go() -> None:
        async for _ in run_jobs(range(10), work, 6):
            pass

    started = time.perf_counter()
    with pytest.raises(StopPlaying, match="down"):
        asyncio.run(go())
    assert time.perf_counter() - started < 5
    # The last two had not begun.
    assert sorted(cancelled) == [0, 1, 2]


def test_a_stop_keeps_the_games_in_play_that_need_no_model() -> None:
    """Jobs 0, 3 and 4 end by themselves, 2 and 5 need the model, the others wait for a slot."""
    gone = asyncio.Event()
    started: list[int] = []
    stored: list[int] = []

    async def work(number: int) -> int:
        started.append(number)
        if number == 1:
            await asyncio.sleep(0.01)
            gone.set()
            raise StopPlaying("the provider is down")
        await gone.wait()
        await asyncio.sleep(0.02)
        if number in (2, 5):
            raise StopPlaying("the provider is down")
        return number

    async def go() -> None:
        jobs = run_jobs(range(20), work, 12, asyncio.Semaphore(6), stored.append)
        async for number in jobs:
            assert number == 0

    with pytest.raises(StopPlaying, match="down"):
        asyncio.run(go())
    assert started == [0, 1, 2, 3, 4, 5] and sorted(stored) == [0, 3, 4]


def test_results_whose_turn_it_is_come_before_an_error() -> None:
    """As when the last game ends that a budget has covered, and the next one is refused."""
    ended = asyncio.Event()

    async def work(number: int) -> int:
        if number == 3:
            await ended.wait()
            raise StopPlaying("the budget is spent")
        await asyncio.sleep(0.02)
        ended.set()
        return number

    found: list[int] = []

    async def go() -> None:
        async for number in run_jobs(range(10), work, 4):
            found.append(number)

    with pytest.raises(StopPlaying, match="spent"):
        asyncio.run(go())
    assert found == [0, 1, 2]


def test_no_more_jobs_are_in_play_than_there_are_slots() -> None:
    running, most = 0, 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return number

    async def go() -> list[int]:
        jobs = run_jobs(range(20), work, 16, asyncio.Semaphore(4))
        return [number async for number in jobs]

    assert asyncio.run(go()) == list(range(20))
    assert most == 4


def test_closing_the_iterator_cancels_the_jobs_in_play() -> None:
    cancelled: list[int] = []

    async def work(number: int) -> int:
        try:
            if number:
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    async def go() -> None:
        async with aclosing(run_jobs(range(10), work, 3)) as jobs:
            async for _ in jobs:
                break

    asyncio.run(go())
    assert cancelled == [1, 2], "the next one was not started"


def test_a_result_that_cannot_be_stored_ends_the_run() -> None:
    stored: list[int] = []

    def store(number: int) -> None:
        if number == 2:
            raise ArenaError("the disk is full")
        stored.append(number)

    async def work(number: int) -> int:
        return number

    async def go() -> None:
        async for _ in run_jobs(range(9), work, 1, store=store):
            pass

    with pytest.raises(ArenaError, match="the disk is full"):
        asyncio.run(go())
    assert stored == [0, 1]


def test_a_result_is_stored_before_it_is_yielded() -> None:
    stored: set[int] = set()

    async def work(number: int) -> int:
        return number

    async def go() -> None:
        async for number in run_jobs(range(200), work, 32, asyncio.Semaphore(8), stored.add):
            assert number in stored

    asyncio.run(go())
    assert stored == set(range(200))


@pytest.mark.parametrize("stop", ["closed", "failed"])
def test_a_run_that_stops_stores_the_results_that_exist(stop: str) -> None:
    """Jobs 0 to 3 end before it stops."""
    stored: list[int] = []
    finished: list[int] = []

    async def work(number: int) -> int:
        if number == 4:
            await asyncio.sleep(0.01)
            while len(finished) < 4:
                await asyncio.sleep(0)
            if stop == "failed":
                raise ArenaError("the provider is down")
            await asyncio.sleep(60)
        elif number:
            await asyncio.sleep(0.001)
        finished.append(number)
        return number

    async def go() -> None:
        async with aclosing(run_jobs(range(5), work, 5, store=stored.append)) as jobs:
            async for number in jobs:
                if stop == "closed" and number == 0:
                    while len(finished) < 4:
                        await asyncio.sleep(0)
                    return

    if stop == "failed":
        with pytest.raises(ArenaError, match="the provider is down"):
            asyncio.run(go())
    else:
        asyncio.run(go())
    assert sorted(stored) == sorted(finished) == [0, 1, 2, 3]
