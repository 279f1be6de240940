"""Decisions per second of the sampler, beside transformers.generate.

A decision is a turn of a chat whose earlier turns were answered: 40 to 120 new prompt tokens
behind a history of 300 to 1,500, and 1 to 8 sampled ones. 32 games are in flight.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from comparisons import Compare
from tiny_model import build_tiny_model
from transformers import Qwen3ForCausalLM

from backends.embedded.sampler import Sampler, SamplingParams

GAMES = 32


@dataclass(frozen=True, slots=True)
class Turn:
    """What a game adds to its chat, and how many tokens it takes for an answer."""

    new: tuple[int, ...]
    answer: int


def make_games(turns: int) -> list[list[Turn]]:
    """For each game a first turn (its history) and `turns` decisions."""
    rng = random.Random(0)

    def turn(fewest: int, most: int) -> Turn:
        length = rng.randint(fewest, most)
        return Turn(tuple(rng.randrange(3, 500) for _ in range(length)), rng.randint(1, 8))

    return [[turn(300, 1100), *(turn(40, 120) for _ in range(turns))] for _ in range(GAMES)]


Answerer = Callable[[int, list[int], int], Awaitable[Sequence[int]]]
"""Game, prompt and number of tokens in; the answer's tokens out."""


async def rate(answer: Answerer, turns: int) -> float:
    """Decisions per second, once every game's history has been answered."""
    chats: list[list[int]] = [[] for _ in range(GAMES)]

    async def play(game: int, todo: list[Turn]) -> None:
        for turn in todo:
            chats[game] += turn.new
            chats[game] += await answer(game, chats[game], turn.answer)

    games = make_games(turns)
    await asyncio.gather(*(play(number, game[:1]) for number, game in enumerate(games)))
    started = time.perf_counter()
    await asyncio.gather(*(play(number, game[1:]) for number, game in enumerate(games)))
    return GAMES * turns / (time.perf_counter() - started)


async def sampler_rate(folder: Path, turns: int) -> float:
    """The sampler's, called in its process."""
    sampler = Sampler(folder)

    async def answer(game: int, prompt: list[int], length: int) -> list[int]:
        draw = SamplingParams(seed=game, max_tokens=length)
        return [drawn.id async for drawn in sampler.generate(prompt, draw)]

    try:
        return await rate(answer, turns)
    finally:
        await sampler.close()


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
