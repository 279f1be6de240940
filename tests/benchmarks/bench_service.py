"""What the LLMService costs: 256 players at once, and a server that takes 50 ms for an answer.

Each player asks again as soon as it has its answer. The contestants take turns in one run, with the
same connections allowed, and each one's best round counts: on a busy machine the others say less.
The ideal is 256 / 0.05 s = 5120 calls a second; what is missing there is the Python of the client.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from comparisons import Compare

from arena.llm.backend import Message, Request, Sampling
from arena.llm.service import LLMService
from arena.llm.settings import ServiceSettings, Settings

PLAYERS = 256
LATENCY = 0.05
SECONDS = 2.0
"""Of one round of one contestant."""
ROUNDS = 2
PROMPT = "You hold Mrs White, the rope and the library. " * 20
REQUEST = Request((Message("user", PROMPT),), Sampling(max_tokens=64))

Ask = Callable[[int], Awaitable[str]]
"""Asks for one of the players, and returns the answer."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of a server in a process of its own."""
    program = str(Path(__file__).parents[1] / "support" / "misbehaving.py")
    command = [sys.executable, program, "--port", "0", "--latency", str(LATENCY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"{process.stdout.readline().strip()}/v1"
        process.terminate()


def settings() -> Settings:
    return Settings(service=ServiceSettings(concurrency=PLAYERS))  # type: ignore[call-arg]


@asynccontextmanager
async def bare_httpx(url: str) -> AsyncIterator[Ask]:
    import httpx

    body: dict[str, Any] = {"model": "m", "max_tokens": 64}
    body["messages"] = [{"role": "user", "content": PROMPT}]
    limits = httpx.Limits(max_connections=PLAYERS, max_keepalive_connections=PLAYERS)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def ask(_player: int) -> str:
            response = await client.post(f"{url}/chat/completions", json=body)
            response.raise_for_status()
            text: str = response.json()["choices"][0]["message"]["content"]
            return text

        yield ask


@asynccontextmanager
async def through_service(spec: str) -> AsyncIterator[Ask]:
    async with LLMService(settings()) as llm:

        async def ask(_player: int) -> str:
            return (await llm.complete(spec, REQUEST)).text

        yield ask
        assert not llm.ledger.tallies[spec].failed_attempts


CONTESTANTS: dict[str, Callable[[str], AbstractAsyncContextManager[Ask]]] = {
    "bare httpx": bare_httpx,
    "LLMService, http": lambda url: through_service(f"{url}#m"),
}


async def calls_per_second(ask: Ask) -> float:
    """Of all players together, once every connection is there."""
    await asyncio.gather(*(ask(player) for player in range(PLAYERS)))
    answered = 0
    started = time.perf_counter()

    async def play(player: int) -> None:
        nonlocal answered
        while time.perf_counter() - started < SECONDS:
            assert await ask(player)
            answered += 1

    await asyncio.gather(*(play(player) for player in range(PLAYERS)))
    return answered / (time.perf_counter() - started)


@pytest.fixture(scope="module")
def speeds(server: str, request: pytest.FixtureRequest) -> dict[str, float]:
    """Calls per second, the best of all rounds; printed."""
    best = dict.fromkeys(CONTESTANTS, 0.0)

    async def play(name: str) -> None:
        async with CONTESTANTS[name](server) as ask:
            best[name] = max(best[name], await calls_per_second(ask))

    for _ in range(ROUNDS):
        for name in CONTESTANTS:
            asyncio.run(play(name))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n\n{PLAYERS} players, {LATENCY * 1000:.0f} ms       calls/s   of the ideal")
        for name, speed in best.items():
            print(f"{name:26} {speed:8,.0f}   {speed * LATENCY / PLAYERS:8.2f}")
    return best


def test_calls_per_second(speeds: dict[str, float], compare: Compare) -> None:
    ours, bare = speeds["LLMService, http"], speeds["bare httpx"]
    compare(f"LLMService, http, {PLAYERS} players", "calls/s", ours, {"bare httpx": bare})
    assert ours >= 0.9 * bare
