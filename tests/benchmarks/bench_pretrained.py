"""Decisions per second of SmolLM2-135M on a CPU: the size of the cache, and matrices in bfloat16.

A decision is a turn of a chat: 60 new prompt tokens and 14 sampled ones. All chats begin with the
same 600 tokens of rules.

    arena models fetch smollm2
    pytest -s tests/benchmarks/bench_pretrained.py
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest
from comparisons import Compare

from arena.core.errors import UsageError
from backends.embedded import find_checkpoint
from backends.embedded.architecture import Architecture
from backends.embedded.sampler import Sampler, SamplingParams, SamplingPrecision

RULES, NEW, ANSWER, GAMES, TURNS = 600, 60, 14, 12, 3


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return find_checkpoint("smollm2")
    except UsageError as error:
        pytest.skip(str(error))


async def decisions_per_second(folder: Path, precision: SamplingPrecision) -> float:
    sampler = Sampler(folder, precision=precision, threads=2)
    rng = random.Random(0)

    def ids(count: int) -> list[int]:
        return [rng.randrange(1000, 40_000) for _ in range(count)]

    rules = ids(RULES)

    async def play() -> None:
        chat = list(rules)
        for _ in range(TURNS):
            chat += ids(NEW)
            draw = SamplingParams(seed=1, max_tokens=ANSWER, min_tokens=ANSWER)
            chat += [token.id async for token in sampler.generate(chat, draw)]

    await play()  # The rules are in the cache, as after the first game of a run.
    started = time.perf_counter()
    await asyncio.gather(*(play() for _ in range(GAMES)))
    seconds = time.perf_counter() - started
    await sampler.close()
    return GAMES * TURNS / seconds


def test_decisions(folder: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        # A gigabyte for contexts of 8,192 tokens.
        patch.setattr(Architecture, "cache_regions", lambda *_, **__: 2)
        two_chats = asyncio.run(decisions_per_second(folder, "float32"))
    larger = asyncio.run(decisions_per_second(folder, "float32"))
    rounded = asyncio.run(decisions_per_second(folder, "bf16"))
    before = {"float32, a cache for 2 chats": two_chats}
    compare("SmolLM2-135M, float32, a cache for 11 chats", "decisions/s", larger, before)
    compare("SmolLM2-135M, bfloat16, a cache for 11 chats", "decisions/s", rounded, before)
    assert larger > two_chats
