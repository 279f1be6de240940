"""Prompt tokens of a whole game by form of the chat, and their cost under providers' caching.

The player suggests the same cards again and again, so its games are as long as games get against
these opponents. Tokens are estimated from characters, as everywhere.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from cluedo_server import legal_answer

from arena.agents.chat import ChatMode, ChatOptions
from arena.episodes.match import Match, play
from arena.llm.backend import Price, PromptCache, Request
from arena.llm.service import LLMService
from arena.llm.tokens import CHARACTERS_PER_TOKEN, PromptTokens, count_prompts
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend

GAMES = 10
FULL_PRICE = Price(1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Means over games."""

    calls: float
    tokens: float
    by_cached_price: dict[float, float]
    """Cost in tokens at the full price, if a cached token costs this part of it."""


def prompts_of(mode: ChatMode, reply_tokens: int) -> Prompts:
    def reply(request: Request) -> str:
        action = legal_answer({"messages": [{"content": request.messages[-1].content}]})
        return "so " * (reply_tokens * CHARACTERS_PER_TOKEN // 3) + f"\nAction: {action}"

    caches = {price: PromptCache(price, 1.0) for price in (0.5, 0.1)}
    calls, tokens, costs = 0, PromptTokens(), dict.fromkeys(caches, 0.0)
    for seed in range(GAMES):
        backend = ScriptedBackend(reply)

        async def one_game(seed: int = seed, backend: ScriptedBackend = backend) -> None:
            async with LLMService() as llm:
                llm.add("scripted", backend)
                specs = ["scripted", "bot:novice", "bot:novice"]
                game = make_game("cluedo", players=3)
                await play(Match(game, specs, seed, chat=ChatOptions(chat=mode)), llm=llm)

        asyncio.run(one_game())
        calls += len(backend.requests)
        for price, cache in caches.items():
            counted = count_prompts(backend.requests, cache)
            costs[price] += counted.cost(FULL_PRICE, cache) / GAMES
        tokens += counted
    return Prompts(calls / GAMES, tokens.total / GAMES, costs)


def test_prompt_tokens_by_form_of_the_chat(capsys: pytest.CaptureFixture[str]) -> None:
    forms: list[tuple[ChatMode, int]] = [("append", n) for n in (0, 100, 300)] + [("fresh", 0)]
    found = {form: prompts_of(*form) for form in forms}
    with capsys.disabled():
        print("\n  chat   reply  calls  prompt tokens  cached at half price  at a tenth")
        for (mode, reply), each in found.items():
            half, tenth = each.by_cached_price[0.5], each.by_cached_price[0.1]
            print(
                f"  {mode:6} {reply:5} {each.calls:6.1f} {each.tokens:14,.0f} {half:21,.0f} "
                f"{tenth:11,.0f}"
            )
    # The reasons for the default of `--chat`.
    fresh, short, long = found["fresh", 0], found["append", 0], found["append", 300]
    assert fresh.tokens < short.tokens < long.tokens
    assert fresh.by_cached_price[0.5] < short.by_cached_price[0.5]
    costs = (each.by_cached_price[0.1] for each in (short, fresh, long))
    assert list(costs) == sorted(each.by_cached_price[0.1] for each in (short, fresh, long))
