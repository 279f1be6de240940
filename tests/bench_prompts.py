"""Prompt tokens of a whole game by form of the chat, and their cost under providers' caching.

The player suggests the same cards again and again, so its games are as long as games get against
these opponents. Tokens are estimated from characters, as everywhere.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise

import pytest
from cluedo_server import legal_answer

from arena.agents.model_call import shared
from arena.agents.prompt import ChatMode, ChatOptions
from arena.episodes.match import Match
from arena.episodes.runner import play
from arena.llm.backend import Request
from arena.llm.rate_limit import CHARACTERS_PER_TOKEN
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend

GAMES = 10
SHORTEST_PREFIX, STEP = 1024, 128
"""OpenAI caches a prefix of at least so many tokens, in steps of so many."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Means over games."""

    calls: float
    tokens: float
    cached: float

    def full_price_tokens(self, cached_price: float) -> float:
        """Return the cost in tokens at the full price."""
        return self.tokens - (1 - cached_price) * self.cached


def prompts_of(mode: ChatMode, reply_tokens: int) -> Prompts:
    def reply(request: Request) -> str:
        action = legal_answer({"messages": [{"content": request.messages[-1].content}]})
        return "so " * (reply_tokens * CHARACTERS_PER_TOKEN // 3) + f"\nAction: {action}"

    calls = characters = cached = 0
    for seed in range(GAMES):
        backend = ScriptedBackend(reply)

        async def one_game(seed: int = seed, backend: ScriptedBackend = backend) -> None:
            async with LLMService() as llm:
                llm.add("scripted", backend)
                specs = ["scripted", "bot:novice", "bot:novice"]
                game = make_game("cluedo", players=3)
                await play(Match(game, specs, seed, chat=ChatOptions(chat=mode)), llm=llm)

        asyncio.run(one_game())
        texts = ["\0".join(m.content for m in each.messages) for each in backend.requests]
        calls += len(texts)
        characters += sum(map(len, texts))
        for pair in pairwise(texts):
            prefix = shared(*pair) // CHARACTERS_PER_TOKEN
            cached += prefix // STEP * STEP if prefix >= SHORTEST_PREFIX else 0
    return Prompts(calls / GAMES, characters / CHARACTERS_PER_TOKEN / GAMES, cached / GAMES)


def test_prompt_tokens_by_form_of_the_chat(capsys: pytest.CaptureFixture[str]) -> None:
    forms: list[tuple[ChatMode, int]] = [("append", n) for n in (0, 100, 300)] + [("fresh", 0)]
    found = {form: prompts_of(*form) for form in forms}
    with capsys.disabled():
        print("\n  chat   reply  calls  prompt tokens  cached at half price  at a tenth")
        for (mode, reply), each in found.items():
            half, tenth = each.full_price_tokens(0.5), each.full_price_tokens(0.1)
            print(
                f"  {mode:6} {reply:5} {each.calls:6.1f} {each.tokens:14,.0f} {half:21,.0f} "
                f"{tenth:11,.0f}"
            )
    # The reasons for the default of `--chat`.
    fresh, short, long = found["fresh", 0], found["append", 0], found["append", 300]
    assert fresh.tokens < short.tokens < long.tokens
    assert fresh.full_price_tokens(0.5) < short.full_price_tokens(0.5)
    assert short.full_price_tokens(0.1) < fresh.full_price_tokens(0.1) < long.full_price_tokens(0.1)
