"""Decisions per second of the sampler, beside transformers.generate and vLLM's CPU build.

A decision is a turn of a chat whose earlier turns were answered: 40 to 120 new prompt tokens
behind a history of 300 to 1,500, and 1 to 8 sampled ones. 32 games are in flight.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import torch
from comparisons import Compare
from tiny_model import build_tiny_model
from transformers import Qwen3ForCausalLM

from backends.embedded.sampler import Sampler, SamplingParams

GAMES = 32
PATIENCE = 300
"""Seconds until it has to be up."""


@contextmanager
def vllm_server(model: Path, python: str, *flags: str) -> Iterator[str]:
    """Start it on a checkpoint with the interpreter that has vLLM; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    options = f"--dtype float32 --enforce-eager --port {port}"
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    process = subprocess.Popen(
        [*command, *options.split(), *flags],
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(PATIENCE):
            assert process.poll() is None, "vLLM did not start"
            try:
                httpx.get(f"{url}/health", trust_env=False).raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a game adds to its chat, and how many tokens it takes for an answer."""

    new: tuple[int, ...]
    answer: int


def make_games(turns: int, seed: int = 0) -> list[list[Turn]]:
    """For each game a first turn (its history) and `turns` decisions."""
    rng = random.Random(seed)

    def turn(fewest: int, most: int) -> Turn:
        length = rng.randint(fewest, most)
        return Turn(tuple(rng.randrange(3, 500) for _ in range(length)), rng.randint(1, 8))

    return [[turn(300, 1100), *(turn(40, 120) for _ in range(turns))] for _ in range(GAMES)]


Answerer = Callable[[int, list[int], int], Awaitable[Sequence[int]]]
"""Game, prompt and number of tokens in; the answer's tokens out."""


async def rate(answer: Answerer, turns: int, seed: int) -> float:
    """Decisions per second, once every game's history has been answered."""
    chats: list[list[int]] = [[] for _ in range(GAMES)]

    async def play(game: int, todo: list[Turn]) -> None:
        for turn in todo:
            chats[game] += turn.new
            chats[game] += await answer(game, chats[game], turn.answer)

    games = make_games(turns, seed)
    await asyncio.gather(*(play(number, game[:1]) for number, game in enumerate(games)))
    started = time.perf_counter()
    await asyncio.gather(*(play(number, game[1:]) for number, game in enumerate(games)))
    return GAMES * turns / (time.perf_counter() - started)


async def sampler_rate(
    folder: Path, turns: int, seed: int = 0, threads: int | None = None
) -> float:
    """The sampler's, called in its process."""
    sampler = Sampler(folder, threads=threads)

    async def answer(game: int, prompt: list[int], length: int) -> list[int]:
        draw = SamplingParams(seed=game, max_tokens=length)
        return [drawn.id async for drawn in sampler.generate(prompt, draw)]

    try:
        return await rate(answer, turns, seed)
    finally:
        await sampler.close()


async def http_rate(url: str, model: str, turns: int, seed: int) -> float:
    """That of a server with OpenAI's /v1/completions, asked with token ids."""

    async def answer(game: int, prompt: list[int], length: int) -> list[int]:
        # Without a seed: vLLM's CPU build dies when a seeded prompt is computed in chunks.
        body = {"model": model, "prompt": prompt, "max_tokens": length, "temperature": 1.0}
        reply = await client.post(f"{url}/v1/completions", json=body)
        reply.raise_for_status()
        return prompt[:length]  # Any tokens do as what comes next; these are of the same length.

    limits = httpx.Limits(max_connections=GAMES)
    async with httpx.AsyncClient(timeout=120, limits=limits, trust_env=False) as client:
        return await rate(answer, turns, seed)


def generate_rate(folder: Path, turns: int) -> float:
    """That of transformers.generate, called for one request after the other.

    Of every other game one of its decisions, each turn as often as the others.
    """
    model = Qwen3ForCausalLM.from_pretrained(folder)
    games = make_games(turns)[::2]
    seconds = 0.0
    for number, game in enumerate(games):
        decision = 1 + number % turns
        ids = [token for turn in game[:decision] for token in (*turn.new, *turn.new[: turn.answer])]
        prompt = torch.tensor([[*ids, *game[decision].new]])
        length = game[decision].answer
        started = time.perf_counter()
        with torch.inference_mode():
            model.generate(  # type: ignore[misc]
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=True,
                max_new_tokens=length,
                min_new_tokens=length,
            )
        seconds += time.perf_counter() - started
    return len(games) / seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("checkpoint") / "tiny")


def test_the_sampler_beside_generate(folder: Path, compare: Compare) -> None:
    """Taken in turns, so that whatever else the machine does falls on both."""
    ours, theirs = [], []
    for _ in range(3):
        ours.append(asyncio.run(sampler_rate(folder, 8)))
        theirs.append(generate_rate(folder, 8))
    own, other = sorted(ours)[1], sorted(theirs)[1]
    compare("sampler, 32 chats", "decisions/s", own, {"`transformers.generate`": other})
    assert own >= 5 * other


@pytest.mark.vllm
@pytest.mark.skipif("ARENA_VLLM_PYTHON" not in os.environ, reason="ARENA_VLLM_PYTHON is not set")
def test_the_sampler_beside_vllm(folder: Path, compare: Compare) -> None:
    """The sampler in its process, vLLM behind its HTTP server (how it is used)."""
    ours = [asyncio.run(sampler_rate(folder, 8, seed)) for seed in range(3)]
    flags = ("--max-model-len", "2048", "--served-model-name", "tiny", "--enable-prefix-caching")
    with vllm_server(folder, os.environ["ARENA_VLLM_PYTHON"], *flags) as url:
        asyncio.run(http_rate(url, "tiny", 2, seed=9))
        # Other games each time: the server would have the same ones in its cache.
        theirs = [asyncio.run(http_rate(url, "tiny", 8, seed)) for seed in range(3)]
    own, other = sorted(ours)[1], sorted(theirs)[1]
    compare("sampler, 32 chats", "decisions/s", own, {"vLLM's CPU build, by HTTP": other})
    assert own > other
