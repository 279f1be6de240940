"""Many games at once, each with a model and three detectives: calls a second, lag, memory.

The model answers after 50 ms, in the process of the LLMService, so what is measured is arena:
rules, bots, prompts, parsers and the service. Games in worker processes are compared with games in
the process of the service, in one run.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

import psutil
import pytest
from cluedo_server import legal_answer
from comparisons import Compare

from arena.agents.chat import ChatOptions
from arena.episodes.executors import available_cores, make_executor
from arena.episodes.match import Match, play
from arena.llm.backend import Choice, Completion, ModelService, Request
from arena.llm.service import LLMService
from arena.llm.settings import ServiceSettings, Settings
from arena.plugins.loader import make_game

LATENCY = 0.05
SECONDS = 15.0
"""Of a measurement, which begins when all games have made a call."""
MODEL = "scripted:model"
SPECS = (MODEL, "bot:detective", "bot:detective", "bot:detective")
GAME = make_game("cluedo", players=4)

PlayOne = Callable[[int], Awaitable[None]]
Place = Callable[[LLMService], AbstractAsyncContextManager[PlayOne]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Measurement of one number of games in flight."""

    calls: float
    """A second."""
    lag: float
    """Seconds by which the event loop of the service is late, 99th percentile."""
    memory: float
    """Bytes of all processes for each game, beside those of the processes without a game."""


class SlowModel:
    """Backend that gives a legal answer after the latency, and keeps nothing."""

    model = "model"
    context_length: int | None = None

    async def complete(self, request: Request) -> Completion:
        await asyncio.sleep(LATENCY)
        question = {"messages": [{"content": request.messages[-1].content}]}
        return Completion((Choice(legal_answer(question)),), self.model)

    async def close(self) -> None:
        """Keep nothing open."""


async def play_one(seed: int, llm: ModelService | None) -> None:
    await play(Match(GAME, SPECS, seed, chat=ChatOptions(chat="fresh")), llm=llm)


@asynccontextmanager
async def in_this_process(llm: LLMService) -> AsyncIterator[PlayOne]:
    yield partial(play_one, llm=llm)


@asynccontextmanager
async def in_worker_processes(llm: LLMService) -> AsyncIterator[PlayOne]:
    async with make_executor("processes", available_cores(), llm) as executor:

        async def play_there(seed: int) -> None:
            await executor.run(partial(play_one, seed), SPECS)

        await play_there(10**6)  # Imports, and tables of exact knowledge.
        yield play_there


def memory_in_use() -> int:
    process = psutil.Process(os.getpid())
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


async def measure(place: Place, games: int) -> Figures:
    settings = Settings(service=ServiceSettings(concurrency=games))  # type: ignore[call-arg]
    seeds, lags = count(), list[float]()

    async def keep_playing(play_next: PlayOne) -> None:
        while True:
            await play_next(next(seeds))

    async def watch() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0.01)
            lags.append(time.perf_counter() - start - 0.01)

    async with LLMService(settings) as llm:
        llm.add(MODEL, SlowModel())
        async with place(llm) as play_next:
            before = memory_in_use()
            tasks = [asyncio.create_task(keep_playing(play_next)) for _ in range(games)]
            tally = llm.ledger.tally(MODEL)
            while tally.answered < games:
                await asyncio.sleep(0.1)
            tasks.append(asyncio.create_task(watch()))
            start, answered = time.perf_counter(), tally.answered
            await asyncio.sleep(SECONDS)
            calls = (tally.answered - answered) / (time.perf_counter() - start)
            memory = (memory_in_use() - before) / games
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    lags.sort()
    return Figures(calls, lags[int(0.99 * len(lags))], memory)


def test_games_in_flight(capsys: pytest.CaptureFixture[str], compare: Compare) -> None:
    places: list[tuple[str, Place, int]] = [
        ("this process", in_this_process, 200),
        ("worker processes", in_worker_processes, 200),
        ("this process", in_this_process, 1_000),
        ("worker processes", in_worker_processes, 1_000),
        ("worker processes", in_worker_processes, 10_000),
    ]
    found = {}
    for name, place, games in places:
        found[name, games] = figures = asyncio.run(measure(place, games))
        with capsys.disabled():
            print(
                f"\n{games:7,} games in flight, {name:16}: {figures.calls:6,.0f} calls/s, lag p99 "
                f"{figures.lag * 1000:6,.0f} ms, {figures.memory / 2**20:.2f} MiB per game",
                end="",
            )
    away, here = (found[place, 1_000] for place in ("worker processes", "this process"))
    beside = "games in the process of the service"
    compare("1,000 games in worker processes", "calls/s", away.calls, {beside: here.calls})
    what = "the same, lag of the service, 99 %"
    compare(what, "ms", 1000 * away.lag, {beside: 1000 * here.lag}, time=True)
    assert away.calls > here.calls
    assert away.lag <= 0.05
    assert found["worker processes", 10_000].memory <= 0.3e6
