"""Round trips of moves in the browser's protocol: a person with bots, and 50 tables of four people.

    pytest -s tests/benchmarks/bench_play.py
    ARENA_SOAK_SECONDS=600 pytest -s tests/benchmarks/bench_play.py -k fifty  # memory

A round trip is the time from sending a move to the arrival of the event that it causes. The
simulated pages are a process of their own, on the same cores as the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from command_line import ENVIRONMENT
from comparisons import Compare
from play_server import PlayProcess, play_server
from websockets.asyncio.client import connect

TABLES, PEOPLE = 50, 4
SECONDS = float(os.environ.get("ARENA_SOAK_SECONDS", "30"))
THINKING = 2.0
"""Mean seconds that a person thinks about a move."""
MAX_P95 = 0.1
LIMIT = {"the limit": 1000 * MAX_P95}


@dataclass
class Measured:
    """What simulated pages have seen."""

    trips: list[float] = field(default_factory=list)
    finished: int = 0
    messages: int = 0

    def report(self, what: str) -> float:
        """Print the quantiles; return the 95th percentile in seconds."""
        cuts = statistics.quantiles(self.trips, n=100)
        print(
            f"{what}: {len(self.trips)} moves, {self.messages} messages, {self.finished} games "
            f"over; round trip p50 {1000 * cuts[49]:.1f} ms, p95 {1000 * cuts[94]:.1f} ms, "
            f"p99 {1000 * cuts[98]:.1f} ms"
        )
        return cuts[94]


def start(command: str, cwd: Path) -> subprocess.Popen[str]:
    """Start `arena` as a child of this process, so that its time can be read."""
    return subprocess.Popen(
        [sys.executable, "-m", "arena", *command.split()],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def person(
    server: PlayProcess, token: str, thinking: float, seed: int, measured: Measured
) -> None:
    """Play one seat at random until the game is over."""
    rng, address = random.Random(seed), server.base.replace("http", "ws")
    async with connect(f"{address}/api/play/seat/{token}", proxy=None) as socket:
        sent = None
        async for text in socket:
            measured.messages += 1
            message = json.loads(text)
            if sent is not None and "events" in message:
                measured.trips.append(time.perf_counter() - sent)
                sent = None
            parts = message.get("parts", {})
            if parts.get("over"):
                measured.finished += 1
                return
            turn = parts.get("turn")
            if turn:
                if thinking:
                    await asyncio.sleep(rng.expovariate(1 / thinking))
                texts = [action[0] for kind in turn["kinds"] for action in kind["actions"]]
                # Accusations would soon leave nobody to play.
                texts = [each for each in texts if not each.startswith("accuse")] or texts
                sent = time.perf_counter()
                answer = {"act": rng.choice(texts), "turn": turn["number"], "sure": True}
                await socket.send(json.dumps(answer))


def test_a_person_with_bots(tmp_path: Path, compare: Compare) -> None:
    measured = Measured()
    with play_server("kuhn_poker", tmp_path, start) as server:
        seats = ["human", *["bot:detective"] * 3]

        async def play() -> None:
            for number in range(5):
                options = {"players": 4}
                [token, _] = server.table("cluedo", seats, options=options)
                await person(server, token, 0, number, measured)

        asyncio.run(play())
    p95 = measured.report(what := "one person, three detectives")
    compare(f"browser: {what}; round trip of a move, 95 %", "ms", 1000 * p95, LIMIT, time=True)
    assert p95 <= MAX_P95


def test_fifty_tables_of_four_people(tmp_path: Path, compare: Compare) -> None:
    measured = Measured()
    with play_server("kuhn_poker", tmp_path, start) as server:
        tables = [
            server.table("cluedo", ["human"] * PEOPLE, options={"players": PEOPLE})[:PEOPLE]
            for _ in range(TABLES)
        ]
        process = psutil.Process(server.process.pid)

        memory = []

        async def play() -> None:
            people = [
                asyncio.create_task(person(server, token, THINKING, seed, measured))
                for seed, token in enumerate(token for table in tables for token in table)
            ]
            for _ in range(3):
                await asyncio.wait(people, timeout=SECONDS / 3)
                memory.append(process.memory_info().rss / 2**20)
            for each in people:
                each.cancel()
            for ended in await asyncio.gather(*people, return_exceptions=True):
                assert isinstance(ended, asyncio.CancelledError | None), ended

        asyncio.run(play())
        times = process.cpu_times()
        cpu = times.user + times.system
    grown = " ".join(f"{each:.0f}" for each in memory)
    print(f"server: {cpu:.1f} s of CPU in {SECONDS:.0f} s; MiB after each third: {grown}")
    p95 = measured.report(what := f"{TABLES} tables, {PEOPLE} people each")
    compare(f"browser: {what}; round trip of a move, 95 %", "ms", 1000 * p95, LIMIT, time=True)
    assert p95 <= MAX_P95
