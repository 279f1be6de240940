"""Games of bots and of models by executor and number of workers, against one worker process.

    pytest -s tests/benchmarks/bench_executors.py

The models answer at a loopback server, a process of its own, after 50 ms; their games are played in
the driver, whatever the executor. The start of the workers is not timed.
Ray is measured too if it is installed.

    efficiency = games/s / (workers * games/s of one worker process)
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from comparisons import Compare

from arena.agents.chat import ChatOptions
from arena.episodes.job import ExecutorKind, GameJob, make_executor, run_job, whole_episode
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.llm.service import LLMService
from arena.llm.settings import ServiceSettings, Settings
from arena.plugins.catalog import make_game

ROUNDS = 2
"""The best round counts; rounds take turns, so that a busy machine hits all alike."""
GAMES = 192
IN_FLIGHT = 48
GAME = make_game("cluedo", players=4)
BOTS = ("bot:oracle", "bot:detective", "bot:detective", "bot:detective")
TESTS = Path(__file__).parents[1]
ON_RAY: list[tuple[ExecutorKind, int]] = [("ray", 1), ("ray", 2)] if find_spec("ray") else []
PLACES: list[tuple[ExecutorKind, int]] = [
    ("local", 1), ("processes", 1), ("processes", 2), *ON_RAY
]  # fmt: skip


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """SPEC of a model that gives legal answers."""
    program = str(TESTS / "support" / "cluedo_server.py")
    command = [sys.executable, program, "0", "0", "0.05"]
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield f"{process.stdout.readline().strip()}/v1#model"
        process.terminate()


@dataclass(frozen=True, order=True, slots=True)
class Rate:
    """One measurement."""

    games: float
    """Games per second."""
    driver: float
    """Processor time of the driver per game, in seconds."""


async def measure(kind: ExecutorKind, workers: int, specs: tuple[str, ...]) -> Rate:
    settings = Settings(service=ServiceSettings(concurrency=IN_FLIGHT))  # type: ignore[call-arg]

    def games(seeds: range) -> list[GameJob[Episode]]:
        chat = ChatOptions(chat="fresh")
        return [GameJob(f"{s}", Match(GAME, specs, s, chat=chat), whole_episode) for s in seeds]

    async with LLMService(settings) as llm, make_executor(kind, workers, llm) as executor:
        # Starts the workers; they import, and make tables of exact knowledge.
        await asyncio.gather(
            *(run_job(game, executor) for game in games(range(10**6, 10**6 + workers)))
        )
        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(run_job(game, executor) for game in games(range(GAMES))))
        seconds = time.perf_counter() - start
        return Rate(GAMES / seconds, (time.process_time() - cpu) / GAMES)


@pytest.mark.parametrize("players", ["bots", "model"])
def test_efficiency(
    players: str, provider: str, capsys: pytest.CaptureFixture[str], compare: Compare
) -> None:
    specs = BOTS if players == "bots" else (provider, *BOTS[1:])
    rates: dict[tuple[ExecutorKind, int], Rate] = {}
    for _ in range(ROUNDS):
        for place in PLACES:
            found = asyncio.run(measure(*place, specs))
            rates[place] = max(rates.get(place, found), found)
    one = rates["processes", 1].games
    with capsys.disabled():
        print(f"\n| {players} | workers | games/s | efficiency | driver, ms/game |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for (kind, workers), rate in rates.items():
            efficiency = f"{100 * rate.games / workers / one:.0f} %"
            driver = f"{1000 * rate.driver:.1f}"
            print(f"| `{kind}` | {workers} | {rate.games:.1f} | {efficiency} | {driver} |")
    for (kind, workers), rate in rates.items():
        if (kind, workers) != ("processes", 1):
            what = f"evaluation of {players}, `--executor {kind} --workers {workers}`"
            compare(what, "games/s", rate.games, {"one worker process": one})
    if players == "bots":
        assert rates["processes", 2].games > one
