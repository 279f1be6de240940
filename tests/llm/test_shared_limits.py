"""Models of one provider share its slots and its circuit breaker; other providers do not."""

from __future__ import annotations

import asyncio
import time

import pytest
from misbehaving import Misbehaving

from arena.core.errors import StopPlaying
from arena.llm.backend import Message, Request, Sampling
from arena.llm.service import LLMService
from arena.llm.settings import Settings

pytestmark = pytest.mark.timed

REQUEST = Request((Message("user", "Which card?"),), Sampling(max_tokens=8))
LATENCY = 0.1


def settings(**limits: float) -> Settings:
    return Settings.load(service=limits)


def test_two_models_of_a_server_share_its_slots() -> None:
    async def go(server: Misbehaving) -> float:
        specs = [f"{server.openai_url}#{model}" for model in ("large", "small")]
        async with LLMService(settings(concurrency=2)) as llm:
            start = time.monotonic()
            await asyncio.gather(*(llm.complete(spec, REQUEST) for spec in 4 * specs))
            return time.monotonic() - start

    with Misbehaving(latency=LATENCY) as server:
        seconds = asyncio.run(go(server))
    # Eight calls, two at a time.
    assert seconds >= 4 * LATENCY


def test_a_refused_key_stops_all_models_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with LLMService(settings()) as llm:
            with pytest.raises(StopPlaying, match=r"openrouter:large: .*check the API key"):
                await llm.complete("openrouter:large", REQUEST)
            with pytest.raises(StopPlaying, match="openrouter:large"):
                await llm.complete("openrouter:small", REQUEST)

    with Misbehaving() as server:
        server.script(["unauthorized"])
        monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-1")
        monkeypatch.setenv("OPENROUTER_API_BASE", server.openai_url)
        asyncio.run(go())
        assert server.ledger.requests == 1


def test_servers_do_not_share() -> None:
    async def go(broken: Misbehaving, good: Misbehaving) -> str:
        async with LLMService(settings()) as llm:
            with pytest.raises(StopPlaying):
                await llm.complete(f"{broken.openai_url}#tiny", REQUEST)
            return (await llm.complete(f"{good.openai_url}#tiny", REQUEST)).text

    with Misbehaving() as broken, Misbehaving(lambda _: "Rope") as good:
        broken.script(["unauthorized"])
        assert asyncio.run(go(broken, good)) == "Rope"
