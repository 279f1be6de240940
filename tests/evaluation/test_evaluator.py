"""Playing a schedule: in order, on any number of workers, through kills and Ctrl-C."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from arena.core.analysis import WeightedSum
from arena.episodes.executors import ExecutorKind, make_executor
from arena.episodes.job import LOOKAHEAD
from arena.episodes.match import Match
from arena.episodes.replay import read_replay, verify
from arena.evaluation.records import DECISIONS, GameResult, SeatResult, Slot
from arena.evaluation.schedule import ExperimentSetup, evaluation_schedule, play_slot, run_schedule
from arena.plugins.loader import make_game

GAME = make_game("cluedo", players=3)


def schedule(games: int) -> list[Slot]:
    return list(evaluation_schedule(3, "bot:detective", ["bot:novice"], None, games, 11))


def play_all(setting: ExperimentSetup, slots: Sequence[Slot], workers: int) -> list[GameResult]:
    async def go() -> list[GameResult]:
        kind: ExecutorKind = "local" if workers == 1 else "processes"
        async with make_executor(kind, workers) as executor:
            playing = run_schedule(
                slots, lambda slot: play_slot(setting, slot, executor), lambda _: None, 4
            )
            return [result async for result in playing]

    return asyncio.run(go())


def timeless(result: GameResult) -> GameResult:
    return replace(result, seconds=0.0, sha256=None)


def test_the_result_is_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    slots = schedule(8)
    alone = play_all(
        ExperimentSetup(Match(GAME), replays=tmp_path, scored=frozenset(range(3))), slots, 1
    )
    together = play_all(
        ExperimentSetup(Match(GAME), replays=tmp_path, scored=frozenset(range(3))), slots, 3
    )
    assert list(map(timeless, alone)) == list(map(timeless, together))
    assert [result.slot for result in alone] == slots
    assert [result.scored for result in alone] == [True] * 3 + [False] * 5
    measured = [set(result.seats[0].measurements) for result in alone]
    assert all("efficiency_early" in names for names in measured[:3])
    assert all(names == {DECISIONS} for names in measured[3:])


def test_a_result_names_its_replay_and_the_hash_of_its_bytes(tmp_path: Path) -> None:
    result = play_all(
        ExperimentSetup(Match(GAME), replays=tmp_path, scored=frozenset()), schedule(1), 1
    )[0]
    assert result.replay is not None
    path = tmp_path.parent / result.replay
    data = path.read_bytes()
    assert hashlib.sha256(data).hexdigest() == result.sha256
    replay = read_replay(path)
    assert verify(replay) is None
    assert replay.outcome is not None
    assert tuple(seat.returns for seat in result.seats) == replay.outcome.returns


def test_what_a_killed_run_left_is_written_anew(tmp_path: Path) -> None:
    for stale in ("game000000.jsonl.part", "game000000.jsonl"):
        (tmp_path / stale).write_text("half a li")
        result = play_all(
            ExperimentSetup(Match(GAME), replays=tmp_path, scored=frozenset()), schedule(1), 1
        )[0]
        assert result.replay is not None
        assert verify(read_replay(tmp_path.parent / result.replay)) is None
        assert [path.name for path in tmp_path.iterdir()] == ["game000000.jsonl"]


def test_results_are_kept_when_they_come_not_when_their_turn_comes() -> None:
    kept: list[int] = []

    def store(group: Sequence[GameResult]) -> None:
        kept.extend(result.slot.number for result in group)

    def result(slot: Slot) -> GameResult:
        seats = (SeatResult("bot:random", 1.0, True),)
        return GameResult(slot, "terminated", "over", 1, 1, 0.0, seats)

    async def play_one(slot: Slot) -> GameResult:
        # The first game lasts until the others are kept.
        while slot.number == 0 and len(kept) < 5:
            await asyncio.sleep(0.001)
        return result(slot)

    async def go() -> None:
        slots = [Slot(number, number, ("bot:random",)) for number in range(6)]
        playing = run_schedule(slots, play_one, store, 3)
        async with aclosing(playing):
            async for found in playing:
                assert found.slot.number == 0
                assert sorted(kept) == list(range(6))
                return

    assert LOOKAHEAD * 3 >= 6
    asyncio.run(asyncio.wait_for(go(), 60))
    assert kept[-1] == 0


def test_games_that_are_done_are_not_played_again() -> None:
    slots = [Slot(number, number, ("bot:random",)) for number in range(5)]
    seats = (SeatResult("bot:random", 1.0, True, measurements={"bits": WeightedSum(1.0)}),)
    results = [GameResult(slot, "terminated", "over", 1, 1, 0.0, seats) for slot in slots]
    done = [results[n] for n in (1, 3)]
    played: list[int] = []

    async def play_one(slot: Slot) -> GameResult:
        played.append(slot.number)
        return results[slot.number]

    async def go(slots: Sequence[Slot]) -> list[GameResult]:
        playing = run_schedule(slots, play_one, lambda _: None, 2, done, {1, 3})
        return [result async for result in playing]

    assert asyncio.run(go(slots)) == results
    assert played == [0, 2, 4]
    assert asyncio.run(go(slots[2:])) == results[2:], "a result without a slot is left out"


def test_workers_end_when_their_parent_is_killed() -> None:
    program = (
        "import asyncio, os, time\n"
        "from arena.episodes.executors import make_executor\n"
        "from arena.episodes.executors import in_worker\n"
        "async def go():\n"
        "    async with make_executor('processes', 2) as executor:\n"
        "        print(await executor.run(in_worker(os.getpid)), flush=True)\n"
        "        time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(go())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _is_running(worker):
        time.sleep(0.05)
    assert not _is_running(worker)


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
