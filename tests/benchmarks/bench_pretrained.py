"""SmolLM2-135M on a CPU: decisions and trained tokens per second, in float32 and bfloat16.

A decision is a turn of a chat: 60 new prompt tokens and 14 sampled ones. All chats begin with the
same 600 tokens of rules. A step of training reads four chats of 1,116 tokens that share 280.

    python docs/examples/fetch_model.py smollm2
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
from trainers.algorithms.imitation import demonstrated, imitate
from trainers.algorithms.learner import Learner, UpdateOptions
from trainers.algorithms.lora import Lora
from trainers.algorithms.sequences import AnswerTokens, TokenSequence
from trainers.config.config import Precision

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


def demonstration(shared: list[int], number: int) -> TokenSequence:
    rng = random.Random(number)
    sequence = TokenSequence(number, 0, index=number)
    for length in (0, 260, 260, 260):
        prompt = [*(sequence.ids or shared), *(rng.randrange(1000, 40_000) for _ in range(length))]
        reply = [rng.randrange(1000, 40_000) for _ in range(ANSWER)]
        sequence.add(AnswerTokens(prompt, demonstrated(reply), 1.0))
    return sequence


def test_training(folder: Path, compare: Compare) -> None:
    rng = random.Random(0)
    shared = [rng.randrange(1000, 40_000) for _ in range(280)]
    chats = [demonstration(shared, number) for number in range(4)]
    rows = 280 + sum(len(chat.ids) - 280 for chat in chats)
    learner = Learner(folder, lora=Lora(16, 16.0))

    def tokens_per_second(precision: Precision) -> float:
        options = UpdateOptions(learning_rate=1e-5, precision=precision, threads=2)
        started = time.perf_counter()
        imitate(learner, chats, options)
        return rows / (time.perf_counter() - started)

    tokens_per_second("bf16")
    plain, rounded = tokens_per_second("float32"), tokens_per_second("bf16")
    before = {"float32": plain}
    compare("SmolLM2-135M, rank 16, training in bfloat16", "tokens/s", rounded, before)
    assert rounded > plain
