"""Jobs: one game as a unit of work, and many of them in order, through errors and ends."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.core.errors import ArenaError, StopPlaying
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation
from arena.episodes.files import ReplayFile, sha256
from arena.episodes.job import (
    ExecutorKind,
    FinishedJob,
    GameJob,
    make_executor,
    play_job,
    run_job,
    run_jobs,
    whole_episode,
)
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.episodes.replay import read_replay, verify
from arena.plugins.catalog import make_game

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


@pytest.mark.parametrize("numbered", [False, True])
def test_a_folder_of_replays_that_is_a_file_is_named(tmp_path: Path, numbered: bool) -> None:
    (tmp_path / "replays").touch()
    place = ReplayFile(tmp_path / "replays", "game", numbered)
    with pytest.raises(ArenaError, match=r"cannot write .*/replays/game.jsonl: "):
        place.write("{")


class Sleeper:
    async def act(self, observation: Observation) -> Decision:
        await asyncio.sleep(60)
        raise AssertionError("the game was stopped before")


def test_a_job_ends_at_its_time_limit() -> None:
    game = make_game("tictactoe")
    job = GameJob("a game", Match(game), whole_episode, timeout=0.05)
    with pytest.raises(TimeoutError):
        asyncio.run(play_job(job, None, agents=[Sleeper(), Sleeper()]))


@settings(max_examples=150)
@given(
    delays=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    ahead=st.integers(1, 9),
    slots=st.integers(1, 9),
    end=st.sampled_from(["whole", "closed", "error", "store"]),
    at=st.integers(0, 19),
)
def test_jobs_in_any_order(delays: list[int], ahead: int, slots: int, end: str, at: int) -> None:
    """Whatever their times, results come in order, each after it was stored; few jobs are begun.

    The run is closed at a result, or ends with the error of a job or of a store.
    """
    at %= len(delays)
    in_play: set[int] = set()
    finished, stored, found = list[int](), list[int](), list[int]()

    def fail(number: int, how: str) -> None:
        if (end, at) == (how, number):
            raise ArenaError(f"{how} of {number}")

    async def work(number: int) -> int:
        in_play.add(number)
        assert len(in_play) <= min(ahead, slots) and number < len(found) + ahead
        try:
            for _ in range(delays[number]):
                await asyncio.sleep(0)
            fail(number, "error")
        finally:
            in_play.remove(number)
        finished.append(number)
        return number

    def store(number: int) -> None:
        fail(number, "store")
        stored.append(number)

    async def go() -> None:
        jobs = run_jobs(range(len(delays)), work, ahead, asyncio.Semaphore(slots), store)
        async with aclosing(jobs):
            async for number in jobs:
                assert number in stored
                found.append(number)
                if (end, at) == ("closed", number):
                    break
        assert len(asyncio.all_tasks()) == 1, "a job goes on"

    if end in ("error", "store"):
        with pytest.raises(ArenaError, match=f"{end} of {at}"):
            asyncio.run(go())
        # The results whose turn it is come before the error.
        assert found == list(takewhile(finished.__contains__, range(at)))
    else:
        asyncio.run(go())
        assert len(found) == (at + 1 if end == "closed" else len(delays))
    assert found == list(range(len(found))) and not in_play
    assert stored == [number for number in finished if (end, at) != ("store", number)]


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
