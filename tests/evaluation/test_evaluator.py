"""Playing a schedule: in order, on any number of workers, through kills and Ctrl-C."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from arena.core.analysis import WeightedSum
from arena.evaluation.records import GameResult, SeatResult, Slot
from arena.evaluation.schedule import run_schedule


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
